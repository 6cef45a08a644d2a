// nanorun: reads a plan, loads its device, and trains or samples.
#include "runtime/Device.h"
#include "runtime/plan/PlanFile.h"
#include "tools/nanorun/Options.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <new>

namespace {

using namespace nano;

Status printDescription(const plan::Plan &plan) {
  std::string text = plan::describe(plan);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    return failed("standard output cannot be written");
  return ok();
}

/// Makes the device that the command line asks for.
MakeDevice deviceOf(const Options &options) {
  return [device = options.device](const plan::Plan &plan, Communicator &communicator,
                                   DeviceOptions deviceOptions) {
    deviceOptions.device = device;
    return loadDevice(plan, communicator, deviceOptions);
  };
}

Status sampleTokens(const plan::Plan &plan, const std::string &hash, const Options &options) {
  Console console(stderr, Console::isTerminal(stderr));
  SampleOptions sampleOptions;
  sampleOptions.count = *options.sample;
  sampleOptions.promptFile = options.promptTokens;
  sampleOptions.temperature = options.temperature;
  sampleOptions.start = options.train.start;
  sampleOptions.threads = options.train.threads;
  sampleOptions.tuneFile = options.train.tuneFile;
  Result<std::vector<int32_t>> tokens =
      sample(plan, hash, sampleOptions, deviceOf(options), console);
  if (!tokens)
    return tokens.error();
  fmt::print("{}\n", fmt::join(*tokens, " "));
  if (std::fflush(stdout) != 0)
    return failed("standard output cannot be written");
  return ok();
}

Status run(int argc, char **argv) {
  Result<std::optional<Options>> parsed = parseOptions(argc, argv);
  if (!parsed)
    return parsed.error();
  if (!*parsed)
    return ok();
  const Options &options = **parsed;
  Result<plan::Plan> plan = plan::readPlanFile(options.plan);
  if (!plan)
    return plan.error();
  if (!options.backend.empty() && options.backend != plan->target)
    return badInput(fmt::format("--backend {}: {} was compiled for {}; compile it with --target {}",
                                options.backend, options.plan, plan->target, options.backend));
  if (!options.device.empty())
    if (Status status = checkDevice(*plan, options.device); !status)
      return badInput("--device: " + status.error().message);
  if (options.describe)
    return printDescription(*plan);
  std::string hash = plan::planHash(*plan);
  if (options.sample)
    return sampleTokens(*plan, hash, options);
  Console console(stdout, Console::isTerminal(stdout));
  return train(*plan, hash, options.train, deviceOf(options), console);
}

/// An error's message is one line, whatever names it quotes.
int report(Error error) {
  std::replace_if(
      error.message.begin(), error.message.end(),
      [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  fmt::print(stderr, "nanorun: {}\n", error.message);
  return error.exitStatus();
}

} // namespace

int main(int argc, char **argv) {
  try {
    Status status = run(argc, argv);
    return status ? 0 : report(status.error());
  } catch (const std::bad_alloc &) {
    return report(failed("out of memory"));
  } catch (const std::exception &exception) {
    return report(failed(exception.what()));
  }
}
