// The files of device/ as bytes of this library.
#include "runtime/emulator/DeviceHeaders.h"

#define NANO_EMBED(NAME, FILE)                                                                     \
  asm(".section .rodata\n.hidden " #NAME "Begin\n.hidden " #NAME "End\n.global " #NAME             \
      "Begin\n.global " #NAME "End\n" #NAME "Begin:\n.incbin \"" NANO_DEVICE_HEADERS "/" FILE      \
      "\"\n" #NAME "End:\n.byte 0\n.previous\n");                                                  \
  extern "C" __attribute__((visibility("hidden"))) const char NAME##Begin[], NAME##End[]

NANO_EMBED(nanoMachineHeader, "nano_machine.h");
NANO_EMBED(nanoPrimitivesHeader, "nano_primitives.h");
NANO_EMBED(nanoInstrumentedHeader, "nano_instrumented.h");
NANO_EMBED(nanoHopperHeader, "nano_hopper.h");

namespace nano::emulator {
namespace {
std::string_view between(const char *begin, const char *end) {
  return {begin, size_t(end - begin)};
}
} // namespace

std::vector<DeviceHeader> deviceHeaders() {
  return {{"nano_machine.h", between(nanoMachineHeaderBegin, nanoMachineHeaderEnd)},
          {"nano_primitives.h", between(nanoPrimitivesHeaderBegin, nanoPrimitivesHeaderEnd)},
          {"nano_instrumented.h", between(nanoInstrumentedHeaderBegin, nanoInstrumentedHeaderEnd)},
          {"nano_hopper.h", between(nanoHopperHeaderBegin, nanoHopperHeaderEnd)}};
}

} // namespace nano::emulator
