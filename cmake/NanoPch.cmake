# What is said once for many targets: how much tests are optimised, and the precompiled headers of all that needs no MLIR.
# (MLIR's headers: NanoMlir.cmake.)

# The headers that need longest, parsed once. Nearly every source without MLIR includes the plan's. Lists are headers, so
# that a build sees that one has changed.
set(nano_light_headers ${PROJECT_SOURCE_DIR}/cmake/LightPch.h ${PROJECT_SOURCE_DIR}/runtime/plan/PlanFile.h)
add_library(nano-light-pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/EmptyPch.cpp)
target_link_libraries(nano-light-pch PRIVATE nano-fmt nlohmann_json::nlohmann_json)
target_precompile_headers(nano-light-pch PRIVATE ${nano_light_headers})

# nano_light_pch(NAMES...): they are parsed once for these targets too. Their sources with another -O leave it out.
function(nano_light_pch)
  foreach(name ${ARGN})
    target_link_libraries(${name} PRIVATE nlohmann_json::nlohmann_json)
    target_compile_options(${name} PRIVATE -fPIC) # as the precompiled header
    target_precompile_headers(${name} REUSE_FROM nano-light-pch)
    nano_unity(${name})
  endforeach()
endfunction()

# A test's own code is not optimised: that halves the time of its compilation, and what it calls is optimised where it
# stands. Sanitizers watch what it calls alone. clang wants a precompiled header and its users to agree on it.
set(NANO_TEST_OPTIONS $<$<CONFIG:Release>:-O0>)
if(NANO_FUZZ OR NANO_SANITIZE MATCHES address)
  set(NANO_TEST_OPTIONS -O0 -fno-sanitize=all)
endif()
if(NANO_TESTS)
  add_library(nano-test-pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/EmptyPch.cpp)
  target_link_libraries(nano-test-pch PRIVATE GTest::gtest nano-fmt nlohmann_json::nlohmann_json)
  target_compile_options(nano-test-pch PRIVATE ${NANO_TEST_OPTIONS})
  target_precompile_headers(nano-test-pch PRIVATE ${nano_light_headers} ${PROJECT_SOURCE_DIR}/cmake/LightTestPch.h)
endif()

# nano_light_test(NAME): a test program that links GoogleTest and needs no MLIR.
function(nano_light_test name)
  target_compile_options(${name} PRIVATE ${NANO_TEST_OPTIONS} -fPIC) # as the precompiled header
  target_link_libraries(${name} PRIVATE nano-fmt nlohmann_json::nlohmann_json)
  target_precompile_headers(${name} REUSE_FROM nano-test-pch)
  nano_unity(${name})
endfunction()
