# lld, which comes with the same LLVM, or gold of binutils: the linker that a compiler calls by itself takes ten times
# as long to link a program against LLVM and MLIR.
include(CheckLinkerFlag)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  check_linker_flag(CXX -fuse-ld=lld NANO_HAS_LLD)
endif()
check_linker_flag(CXX -fuse-ld=gold NANO_HAS_GOLD)
if(NANO_HAS_LLD)
  add_link_options(-fuse-ld=lld)
elseif(NANO_HAS_GOLD)
  add_link_options(-fuse-ld=gold)
endif()
