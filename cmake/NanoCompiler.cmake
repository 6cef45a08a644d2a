# The compiler: clang of the LLVM that the project links, where it is installed and no other was asked for (CXX, or
# CMAKE_CXX_COMPILER); else the host's c++, which needs 1.6 times the time. To be included before project().
if(NOT DEFINED CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX} AND NOT DEFINED ENV{CC})
  find_program(nano_clang clang-22 NO_CACHE)
  find_program(nano_clangxx clang++-22 NO_CACHE)
  if(nano_clang AND nano_clangxx)
    set(CMAKE_C_COMPILER ${nano_clang})
    set(CMAKE_CXX_COMPILER ${nano_clangxx})
  else()
    message(NOTICE "No clang++-22 (tools/setup installs it): building with c++, which takes longer")
  endif()
endif()
