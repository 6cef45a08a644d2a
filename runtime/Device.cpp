// Finds a device's shared library beside the running program and makes a device of it.
#include "runtime/Device.h"

#include <dlfcn.h>
#include <filesystem>

namespace nano {

Result<std::unique_ptr<Device>> loadDevice(const plan::Plan &plan, Communicator &communicator,
                                           const DeviceOptions &options) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::string name = "libnano-device-" + plan.target + ".so";
  fs::path library = beside / name;
  if (!fs::exists(library, error))
    library = beside.parent_path() / "lib" / name;
  if (!fs::exists(library, error))
    return badInput("the plan is for target " + plan.target + ", whose " + name +
                    " is neither in " + beside.string() + " nor in " +
                    (beside.parent_path() / "lib").string() +
                    "; build it, or compile the model for a target that this build has");

  // The library stays loaded for the rest of the process: its threads may outlive the device.
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return badInput("cannot load the device of target " + plan.target + ": " + dlerror() +
                    "; run tools/setup to install what it needs");
  auto create = reinterpret_cast<CreateDeviceFn>(dlsym(handle, createDeviceSymbol));
  if (!create)
    return badInput(library.string() + ": not a device library, it lacks " + createDeviceSymbol +
                    "; build it again");
  Error reason;
  std::unique_ptr<Device> device(create(&plan, &communicator, &options, &reason));
  if (!device)
    return reason;
  return device;
}

} // namespace nano
