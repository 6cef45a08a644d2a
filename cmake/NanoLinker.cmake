# gold, which comes with binutils, links a program against LLVM and MLIR in a tenth of the time that the linker takes
# which g++ calls by itself.
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=gold NANO_HAS_GOLD)
if(NANO_HAS_GOLD)
  add_link_options(-fuse-ld=gold)
endif()
