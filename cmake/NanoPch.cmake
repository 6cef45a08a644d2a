# GoogleTest's header, parsed once for all tests without MLIR. (MLIR's headers: NanoMlir.cmake.)
add_library(nano-test-pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/EmptyPch.cpp)
target_link_libraries(nano-test-pch PRIVATE GTest::gtest)
target_compile_options(nano-test-pch PRIVATE -O1)
target_precompile_headers(nano-test-pch PRIVATE <filesystem> <gtest/gtest.h> <string> <vector>)

# nano_light_test(NAME): a test program that links GoogleTest and needs no MLIR compiles fast: its own code is hardly
# optimised.
function(nano_light_test name)
  target_compile_options(${name} PRIVATE -O1 -fPIC) # as the precompiled header
  target_precompile_headers(${name} REUSE_FROM nano-test-pch)
endfunction()
