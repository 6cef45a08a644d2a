// FakeDevice as the device library that a nanorun beside it loads.
#include "tests/runtime/train/FakeDevice.h"

#include <cstdlib>
#include <fstream>

/// Takes a while, and then makes the file NANO_FAKE_BEGUN.
extern "C" void nanoBeginDevice() {
  if (const char *file = std::getenv("NANO_FAKE_BEGUN")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::ofstream made(file);
  }
}

extern "C" nano::Device *nanoCreateDevice(const nano::plan::Plan *plan,
                                          nano::Communicator *communicator,
                                          const nano::DeviceOptions *options, nano::Error *error) {
  return new nano::test::FakeDevice(*plan, *communicator);
}
