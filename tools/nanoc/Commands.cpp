// The entry point of libnano-commands.so.
#include "tools/nanoc/Commands.h"

extern "C" __attribute__((visibility("default"))) const nano::Commands nanoCommands = {
    nano::bisect::run, nano::inspect::diff, nano::inspect::explain, nano::explore::run,
    [](const nano::explore::FailedCompilation &failed) {
      nano::explore::showFailure(failed);
      return 0;
    }};
