# What is said once for many targets: how much tests are optimised, and their precompiled headers. (MLIR's headers:
# NanoMlir.cmake.)

# A test's own code is not optimised: that halves the time of its compilation, and what it calls is optimised where it
# stands. clang wants a precompiled header and its users to agree on it.
set(NANO_TEST_OPTIONS $<$<CONFIG:Release>:-O0>)

# The headers that tests without MLIR need longest for, parsed once.
if(NANO_TESTS)
  add_library(nano-test-pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/EmptyPch.cpp)
  target_link_libraries(nano-test-pch PRIVATE GTest::gtest nano-fmt nlohmann_json::nlohmann_json)
  target_compile_options(nano-test-pch PRIVATE ${NANO_TEST_OPTIONS})
  target_precompile_headers(nano-test-pch PRIVATE <filesystem> <fmt/format.h> <gtest/gtest.h> <nlohmann/json.hpp> <string> <vector>)
endif()

# nano_light_test(NAME): a test program that links GoogleTest and needs no MLIR.
function(nano_light_test name)
  target_compile_options(${name} PRIVATE ${NANO_TEST_OPTIONS} -fPIC) # as the precompiled header
  target_link_libraries(${name} PRIVATE nano-fmt nlohmann_json::nlohmann_json)
  target_precompile_headers(${name} REUSE_FROM nano-test-pch)
endfunction()
