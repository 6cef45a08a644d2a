// Files of machines and of times, which nanoc reads.
#include "ir/machine/LabelledTimes.h"
#include "ir/machine/Machine.h"
#include "tests/fuzz/Targets.h"

#include <cmath>

namespace nano::fuzz {

void machine(std::string_view bytes) {
  llvm::Expected<machine::Machine> read = machine::parse(llvm::StringRef(bytes), "machine.json");
  if (!read) {
    llvm::consumeError(read.takeError());
    return;
  }
  const auto isTime = [](double seconds) { return std::isfinite(seconds) && seconds >= 0; };
  for (const auto type : {machine::ElementType::F32, machine::ElementType::BF16})
    require(isTime(read->product(1024, 768, 3072, 1, type, 1e6)), "a product takes a time");
  require(isTime(read->kernel(1e6, 1e6)), "a kernel takes a time");
  require(isTime(read->hostCopy(1e6)), "a copy takes a time");
  if (llvm::Error error = read->checkRanks(2)) {
    llvm::consumeError(std::move(error));
    return;
  }
  require(isTime(read->collective(machine::Collective::AllReduce, 1e6, 2)),
          "a collective takes a time");
}

void times(std::string_view bytes) {
  llvm::Expected<machine::LabelledTimes> read =
      machine::LabelledTimes::parse(llvm::StringRef(bytes), "times.json");
  if (!read) {
    llvm::consumeError(read.takeError());
    return;
  }
  const std::optional<double> seconds = read->find("train", "matmul");
  require(!seconds || (std::isfinite(*seconds) && *seconds >= 0), "a command takes a time");
}

} // namespace nano::fuzz
