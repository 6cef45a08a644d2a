// The device library that nanorun loads for --device emulator.
#include "runtime/emulator/EmulatorDevice.h"

extern "C" __attribute__((visibility("default"))) nano::Device *
nanoCreateDevice(const nano::plan::Plan *plan, nano::Communicator *communicator,
                 const nano::DeviceOptions *options, nano::Error *error) {
  using nano::emulator::EmulatorDevice;
  auto emulator = nano::emulator::Options::fromEnvironment();
  if (!emulator) {
    *error = emulator.error();
    return nullptr;
  }
  auto device = EmulatorDevice::create(*plan, *communicator, *options, *emulator);
  if (device)
    return device->release();
  *error = device.error();
  return nullptr;
}
