// Finds and loads the library of commands.
#include "tools/nanoc/Commands.h"

#include <dlfcn.h>
#include <filesystem>

namespace nano {

Result<const Commands *> loadCommands() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path library = beside / "libnano-commands.so";
  if (!fs::exists(library, error))
    return badInput(
        "bisect, diff, explain and explore are in libnano-commands.so, which is not in " +
        beside.string() + "; tools/build builds it");
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return badInput(std::string("cannot load the commands: ") + dlerror() + "; run tools/build");
  if (const void *found = dlsym(handle, commandsSymbol))
    return static_cast<const Commands *>(found);
  return badInput(library.string() + ": not nanoc's library of commands, it lacks " +
                  commandsSymbol + "; run tools/build");
}

} // namespace nano
