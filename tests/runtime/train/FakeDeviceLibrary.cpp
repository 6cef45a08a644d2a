// FakeDevice as the device library that a nanorun beside it loads.
#include "tests/runtime/train/FakeDevice.h"

extern "C" nano::Device *nanoCreateDevice(const nano::plan::Plan *plan,
                                          nano::Communicator *communicator,
                                          const nano::DeviceOptions *options, nano::Error *error) {
  return new nano::test::FakeDevice(*plan, *communicator);
}
