# LLVM and MLIR for the compiler's rooms: one shared library each, and one precompiled header for all.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# Headers that nearly every compiler source needs, parsed once.
add_library(nano-mlir-pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/EmptyPch.cpp)
target_include_directories(nano-mlir-pch SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_precompile_headers(nano-mlir-pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/MlirPch.h)

# nano_mlir_library(NAME SOURCES... LIBS...): a static library of the compiler.
function(nano_mlir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_precompile_headers(${name} REUSE_FROM nano-mlir-pch)
  target_link_libraries(${name} PUBLIC ${ARG_LIBS} MLIR LLVM)
endfunction()

# nano_mlir_executable(NAME SOURCES... LIBS...): a program that links the compiler.
function(nano_mlir_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_compile_options(${name} PRIVATE -fPIC) # as the precompiled header
  target_precompile_headers(${name} REUSE_FROM nano-mlir-pch)
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} MLIR LLVM)
endfunction()

# nano_mlir_test(NAME SOURCES... LIBS...): a program of tests; its own code is hardly optimised, which compiles faster.
function(nano_mlir_test name)
  nano_mlir_executable(${name} ${ARGN})
  target_compile_options(${name} PRIVATE -O1)
endfunction()
