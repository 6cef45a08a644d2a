# LLVM and MLIR for the compiler's rooms: one shared library each, and precompiled headers.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# How rooms are compiled that throw nothing, as LLVM and MLIR: a fifth less to do, and most of nanoc's time goes to those two.
set(NANO_ROOM_OPTIONS -fno-exceptions $<$<CONFIG:Release>:-O1>)

# nano_mlir_pch(NAME HEADERS...): headers parsed once; of the project's own the dialects, whose classes are generated.
function(nano_mlir_pch name)
  add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/cmake/EmptyPch.cpp)
  target_include_directories(${name} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_precompile_headers(${name} PRIVATE ${ARGN} ${PROJECT_SOURCE_DIR}/ir/graph/Nano.h ${PROJECT_SOURCE_DIR}/ir/step/Step.h)
  add_dependencies(${name} nano-graph-gen nano-step-gen)
endfunction()

# What nearly every source of the compiler needs, in rooms and for who throws, and what its tests need. clang wants a
# precompiled header and its users to agree on options.
nano_mlir_pch(nano-mlir-room-pch ${PROJECT_SOURCE_DIR}/cmake/MlirPch.h)
target_compile_options(nano-mlir-room-pch PRIVATE ${NANO_ROOM_OPTIONS})
nano_mlir_pch(nano-mlir-pch ${PROJECT_SOURCE_DIR}/cmake/MlirPch.h)
if(NANO_TESTS)
  nano_mlir_pch(nano-mlir-test-pch ${PROJECT_SOURCE_DIR}/cmake/MlirPch.h ${PROJECT_SOURCE_DIR}/cmake/MlirTestPch.h)
  target_link_libraries(nano-mlir-test-pch PRIVATE GTest::gtest)
  target_compile_options(nano-mlir-test-pch PRIVATE ${NANO_TEST_OPTIONS})
endif()

# nano_mlir_room(NAME SOURCES... LIBS...): a static library of the compiler that throws nothing.
function(nano_mlir_room name)
  nano_mlir_static(${name} nano-mlir-room-pch ${ARGN})
  target_compile_options(${name} PRIVATE ${NANO_ROOM_OPTIONS})
endfunction()

# nano_mlir_library(NAME SOURCES... LIBS...): one that may throw, or whose loops run for long.
function(nano_mlir_library name)
  nano_mlir_static(${name} nano-mlir-pch ${ARGN})
endfunction()

function(nano_mlir_static name pch)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_precompile_headers(${name} REUSE_FROM ${pch})
  target_link_libraries(${name} PUBLIC ${ARG_LIBS} MLIR LLVM)
  nano_unity(${name})
endfunction()

# nano_mlir_executable(NAME SOURCES... LIBS... [PCH TARGET]): a program that links the compiler.
function(nano_mlir_executable name)
  cmake_parse_arguments(ARG "" "PCH" "SOURCES;LIBS" ${ARGN})
  if(NOT ARG_PCH)
    set(ARG_PCH nano-mlir-pch)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_compile_options(${name} PRIVATE -fPIC) # as the precompiled header
  target_precompile_headers(${name} REUSE_FROM ${ARG_PCH})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} MLIR LLVM)
  nano_unity(${name})
endfunction()

# nano_mlir_test(NAME SOURCES... LIBS... [ORACLES SOURCES...]): a program of tests; its own code is not optimised
# (NanoPch.cmake), but for oracles, which run for long and include no GoogleTest.
function(nano_mlir_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;ORACLES" ${ARGN})
  if(ARG_ORACLES)
    nano_mlir_library(${name}-oracles SOURCES ${ARG_ORACLES} LIBS ${ARG_LIBS})
    list(PREPEND ARG_LIBS ${name}-oracles)
  endif()
  nano_mlir_executable(${name} SOURCES ${ARG_SOURCES} LIBS ${ARG_LIBS} PCH nano-mlir-test-pch)
  target_compile_options(${name} PRIVATE ${NANO_TEST_OPTIONS})
endfunction()
