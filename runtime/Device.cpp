// Finds a device's shared library beside the running program and makes a device of it.
#include "runtime/Device.h"

#include "base/Target.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>

namespace nano {

Status checkDevice(const plan::Plan &plan, const std::string &device) {
  const Target &target = targetOf(plan.target);
  // A target that the table lacks has, if any, the device of its name.
  if (device == plan.target || target.runsOn(device))
    return ok();
  const Target *other = targetOfDevice(device);
  const auto &[first, second] = target.devices;
  return badInput(fmt::format("device {} does not run this plan, which is for {}; {}", device,
                              plan.target,
                              !second.empty() ? fmt::format("choose {} or {}", first, second)
                              : other ? fmt::format("compile it with --target {}", other->name)
                                      : fmt::format("choose {}", first)));
}

namespace {

struct Library {
  std::string path;
  void *handle = nullptr;
};

/// `libnano-device-<device>.so`, or of the plan's target, which stays loaded for the rest of the
/// process: its threads may outlive a device.
Result<Library> libraryOf(const plan::Plan &plan, const std::string &device) {
  namespace fs = std::filesystem;
  const std::string &chosen = device.empty() ? plan.target : device;
  if (Status status = checkDevice(plan, chosen); !status)
    return status.error();
  std::error_code error;
  fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::string name = "libnano-device-" + chosen + ".so";
  fs::path library = beside / name;
  if (!fs::exists(library, error))
    library = beside.parent_path() / "lib" / name;
  if (!fs::exists(library, error))
    return badInput("the plan is for target " + plan.target + ", and " + name + " is neither in " +
                    beside.string() + " nor in " + (beside.parent_path() / "lib").string() +
                    "; build it, or compile the model for a target that this build has");

  // How long OpenMP's threads spin for the next parallel region before they sleep, about 10 µs:
  // longer than the gaps inside a step. The default of several milliseconds keeps cores busy that
  // other programs, or the ranks beside this one, need, and makes a step several times slower on a
  // machine that does something else too. Read once, when the library loads; what the user has set
  // stays.
  setenv("GOMP_SPINCOUNT", "1000", 0);

  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return badInput("cannot load device " + chosen + ": " + dlerror() +
                    "; run tools/setup to install what it needs");
  return Library{library.string(), handle};
}

} // namespace

Result<std::unique_ptr<Device>> loadDevice(const plan::Plan &plan, Communicator &communicator,
                                           const DeviceOptions &options) {
  Result<Library> library = libraryOf(plan, options.device);
  if (!library)
    return library.error();
  auto create = reinterpret_cast<CreateDeviceFn>(dlsym(library->handle, createDeviceSymbol));
  if (!create)
    return badInput(library->path + ": not a device library, it lacks " + createDeviceSymbol +
                    "; build it again");
  Error reason;
  std::unique_ptr<Device> device(create(&plan, &communicator, &options, &reason));
  if (!device)
    return reason;
  return device;
}

std::future<void> beginDevice(const plan::Plan &plan, const std::string &device) {
  Result<Library> library = libraryOf(plan, device);
  if (!library)
    return {};
  auto begin = reinterpret_cast<BeginDeviceFn>(dlsym(library->handle, beginDeviceSymbol));
  return begin ? std::async(std::launch::async, begin) : std::future<void>();
}

Result<std::string> identifyDevice(const plan::Plan &plan, const std::string &device) {
  Result<Library> library = libraryOf(plan, device);
  if (!library)
    return library.error();
  auto identify = reinterpret_cast<IdentifyDeviceFn>(dlsym(library->handle, identifyDeviceSymbol));
  std::string text = device;
  Error reason;
  if (identify && !identify(&text, &reason))
    return reason;
  return text;
}

} // namespace nano
