// nanorun: reads a plan, loads its device, and trains or samples.
#include "base/Target.h"
#include "runtime/ComparePlans.h"
#include "runtime/Device.h"
#include "runtime/Evaluate.h"
#include "runtime/Tuning.h"
#include "runtime/comm/Crew.h"
#include "runtime/files/Tokenizer.h"
#include "runtime/plan/PlanFile.h"
#include "tools/nanorun/Options.h"
#include "tools/nanorun/ProvenPlan.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace nano;

Status print(const std::string &text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    return failed("standard output cannot be written");
  return ok();
}

Status printDescription(const plan::PlanFile &file) {
  Result<std::vector<plan::Plan>> plans = file.plans();
  return plans ? print(plan::describe(*plans)) : plans.error();
}

/// Makes the device that the command line asks for.
MakeDevice deviceOf(const Options &options) {
  return [device = options.device, timeout = options.rankTimeout](
             const plan::Plan &plan, Communicator &communicator, DeviceOptions deviceOptions) {
    deviceOptions.device = device;
    deviceOptions.rankTimeout = timeout;
    return loadDevice(plan, communicator, deviceOptions);
  };
}

Status sampleTokens(const plan::Plan &plan, const std::string &hash, const Options &options) {
  Console console(stderr, Console::isTerminal(stderr));
  SampleOptions sampleOptions;
  sampleOptions.count = *options.sample;
  sampleOptions.samples = options.samples;
  sampleOptions.promptFile = options.promptTokens;
  sampleOptions.temperature = options.temperature;
  sampleOptions.cache = options.cache;
  sampleOptions.start = options.train.start;
  sampleOptions.threads = options.train.threads;
  sampleOptions.tuneFile = options.train.tuneFile;
  std::optional<Tokenizer> tokenizer;
  if (!options.train.tokenizer.empty()) {
    Result<Tokenizer> opened = Tokenizer::open(options.train.tokenizer);
    if (!opened)
      return badInput("--tokenizer " + opened.error().message);
    tokenizer = std::move(*opened);
  }
  // What a tokenizer takes away at a text's beginning is there where a prompt precedes.
  bool isStart = options.promptTokens.empty();
  int64_t taken = 0;
  if (tokenizer)
    sampleOptions.take = [&](int32_t token) -> Status {
      if (taken > 0 && taken % sampleOptions.count == 0) {
        std::fputc('\n', stdout);
        isStart = options.promptTokens.empty();
      }
      ++taken;
      Result<std::string> bytes = tokenizer->bytes(token);
      if (!bytes)
        return bytes.error();
      std::string_view text = *bytes;
      if (const std::string &stripped = tokenizer->strippedAtStart();
          isStart && !stripped.empty() && text.substr(0, stripped.size()) == stripped)
        text.remove_prefix(stripped.size());
      isStart = false;
      if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
          std::fflush(stdout) != 0)
        return failed("standard output cannot be written");
      return ok();
    };
  Result<std::vector<int32_t>> tokens =
      sample(plan, hash, sampleOptions, deviceOf(options), console);
  if (!tokens)
    return tokens.error();
  if (tokenizer)
    fmt::print("\n");
  else
    for (auto begin = tokens->begin(); begin != tokens->end(); begin += *options.sample)
      fmt::print("{}\n", fmt::join(begin, begin + *options.sample, " "));
  if (std::fflush(stdout) != 0)
    return failed("standard output cannot be written");
  return ok();
}

LoneOptions loneOptions(const Options &options) {
  return {options.train.start, options.train.threads, options.train.tuneFile};
}

Status printPerplexity(const plan::Plan &plan, const std::string &hash, const Options &options) {
  Console console(stderr, Console::isTerminal(stderr));
  Result<Perplexity> found =
      perplexity(plan, hash, options.perplexity, loneOptions(options), deviceOf(options), console);
  if (!found)
    return found.error();
  fmt::print("{{\"event\":\"perplexity\",\"perplexity\":{},\"loss\":{},\"tokens\":{},"
             "\"left_out\":{},\"step\":{}}}\n",
             std::exp(found->loss), found->loss, found->tokens, found->leftOut, found->step);
  if (std::fflush(stdout) != 0)
    return failed("standard output cannot be written");
  return ok();
}

Status logitsOfPrompt(const plan::Plan &plan, const std::string &hash, const Options &options) {
  Console console(stderr, Console::isTerminal(stderr));
  Result<std::vector<int32_t>> prompt =
      readTokens("--prompt-tokens", options.promptTokens, plan.training.vocabSize);
  if (!prompt)
    return prompt.error();
  return writeLogits(plan, hash, *prompt, options.cache, options.logits, loneOptions(options),
                     deviceOf(options), console);
}

Status scoreTokens(const plan::Plan &plan, const std::string &hash, const Options &options) {
  Console console(stderr, Console::isTerminal(stderr));
  return writeLogProbabilities(plan, hash, options.score, options.logprobs, loneOptions(options),
                               deviceOf(options), console);
}

/// Reads the plan, checked against what the command line says of it.
Result<plan::PlanFile> openPlan(const Options &options) {
  Result<plan::PlanFile> file = openTrusted(options.plan, options.trust);
  if (!file)
    return file;
  if (!options.device.empty())
    if (Status status = checkDevice(file->common(), options.device); !status)
      return badInput("--device: " + status.error().message);
  return file;
}

/// Others that wait for this process do not give up meanwhile.
ProofRequest proofRequest(const Options &options) {
  using std::chrono::seconds;
  return {options.device,
          std::max(seconds(1), std::chrono::duration_cast<seconds>(options.rankTimeout / 2))};
}

/// Reads the plan that all ranks run: rank 0 finds out for all whether it has unproven kernels.
Result<plan::PlanFile> openPlan(Crew &crew, const Options &options) {
  Result<plan::PlanFile> file = openPlan(options);
  if (!file || file->common().unproven.empty())
    return file;
  Result<bool> proven = true;
  if (crew.hasFirst())
    proven = isProven(*file, proofRequest(options));
  if (!proven)
    return proven.error();
  Result<std::string> told = crew.tell(*proven ? file->hash() : "", "which kernels run");
  if (!told)
    return told.error();
  if (told->empty())
    return file->ours();
  if (*told != file->hash())
    return badInput(options.plan + ": rank 0 runs another plan; give all ranks the same file");
  return file;
}

/// The plan for so many ranks. While it is read, and for as long as `starting` lives, its device
/// begins.
Result<plan::Plan> planFor(const plan::PlanFile &file, int64_t world, const Options &options,
                           std::future<void> &starting) {
  starting = beginDevice(file.common(), options.device);
  return file.plan(world);
}

Status trainPlan(Crew &crew, const Options &options) {
  Result<plan::PlanFile> file = openPlan(crew, options);
  if (!file)
    return file.error();
  std::future<void> starting;
  Result<plan::Plan> plan = planFor(*file, crew.world(), options, starting);
  if (!plan)
    return plan.error();
  // One process speaks; the others would say the same.
  std::FILE *nowhere = crew.hasFirst() ? nullptr : std::fopen("/dev/null", "w");
  std::FILE *out = nowhere ? nowhere : stdout;
  Console console(out, Console::isTerminal(out));
  if (const std::string caution = crew.caution(); !caution.empty())
    console.say(caution);
  return train(*plan, file->hash(), options.train, deviceOf(options), console, &crew);
}

Status printComparison(const plan::PlanFile &file, const Options &options) {
  CompareRequest request;
  request.plan = options.plan;
  request.device = options.device;
  request.other = options.compare;
  request.threads = options.train.threads;
  request.runs.train = options.train.train;
  request.runs.start = options.train.start;
  request.runs.tuneFile = options.train.tuneFile;
  request.runs.tolerance = options.tolerance;
  request.open = [&](const std::string &path) -> Result<plan::PlanFile> {
    if (!options.trust.model.empty())
      return badInput("--rebuild: not together with --compare OTHER.plan, which would run too");
    Result<plan::PlanFile> opened = openTrusted(path, options.trust);
    if (!opened)
      return badInput("--compare " + opened.error().message);
    return provenPlan(std::move(*opened), proofRequest(options));
  };
  request.on = [&](const std::string &device) {
    Options own = options;
    own.device = device;
    return deviceOf(own);
  };
  Console console(stderr, Console::isTerminal(stderr));
  Result<PlanComparison> found = comparePlans(file, request, console);
  if (!found)
    return found.error();
  if (Status status = print(found->text); !status)
    return status;
  return found->agrees;
}

/// An error's message is one line, whatever names it quotes. Where nobody can hear it, the exit
/// status says that there was one.
int report(Error error) {
  std::replace_if(
      error.message.begin(), error.message.end(),
      [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  const std::string line = "nanorun: " + error.message + "\n";
  (void)std::fwrite(line.data(), 1, line.size(), stderr);
  return error.exitStatus();
}

/// An error of the rank that this process is.
int report(const Launch &launch, const Error &error) {
  Error named = error;
  named.message = fmt::format("rank {}: {}", launch.rank, error.message);
  return report(std::move(named));
}

volatile std::sig_atomic_t endStatus = 1; ///< of endNow

extern "C" void endNow(int /*signal*/) { ::_exit(endStatus); }

/// Ends the process with an error of its rank, within a second: who reads what it says may have
/// stopped to do so. That second is the kernel's to count: there may be no threads left. What a
/// rank leaves behind may wait for ranks that are gone, and a rank that hangs may hold a file:
/// nothing is destroyed, and with `flushes` only are files flushed.
[[noreturn]] void endSoon(const Launch &launch, const Error &error, bool flushes) {
  endStatus = error.exitStatus();
  (void)std::signal(SIGALRM, endNow);
  sigset_t alarms;
  ::sigemptyset(&alarms);
  ::sigaddset(&alarms, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
  ::alarm(1);
  report(launch, error);
  if (flushes)
    std::fflush(nullptr);
  std::_Exit(error.exitStatus());
}

/// Trains with the ranks that the environment and the command line ask for.
Status trainWithRanks(const Options &options) {
  Result<Launch> launch = launchFrom(options.launch, environment());
  if (!launch)
    return launch.error();
  CrewOptions crewOptions;
  crewOptions.launch = *launch;
  crewOptions.timeout = crewOptions.joinTimeout = options.rankTimeout;
  crewOptions.stop = [&](const std::string &message) {
    endSoon(*launch, failed(message), /*flushes=*/false);
  };
  Result<std::unique_ptr<Crew>> crew = Crew::start(crewOptions);
  if (!crew)
    return crew.error();
  Status status = failed("");
  try {
    status = trainPlan(**crew, options);
  } catch (const std::exception &exception) {
    status = failed(exception.what());
  }
  if (status || launch->carrier == Launch::Carrier::Threads)
    return status;
  (*crew)->abort(status.error().message);
  crew->reset();
  endSoon(*launch, status.error(), /*flushes=*/true);
}

Status run(int argc, char **argv) {
  Result<std::optional<Options>> parsed = parseOptions(argc, argv);
  if (!parsed)
    return parsed.error();
  if (!*parsed)
    return ok();
  const Options &options = **parsed;
  const bool measures = !options.perplexity.empty(), asksLogits = !options.logits.empty(),
             scores = !options.logprobs.empty();
  const bool compares = !options.compare.empty();
  if (!options.describe && !options.sample && !measures && !asksLogits && !scores && !compares)
    return trainWithRanks(options);
  Result<plan::PlanFile> file = openPlan(options);
  if (!file)
    return file.error();
  if (options.describe) {
    Status printed = printDescription(*file);
    return printed ? print(Tuning::describe(options.train.tuneFile)) : printed;
  }
  file = provenPlan(std::move(*file), proofRequest(options));
  if (!file)
    return file.error();
  if (compares) {
    if (targetOfDevice(options.compare)) { // it runs there too
      ProofRequest proof = proofRequest(options);
      proof.device = options.compare;
      file = provenPlan(std::move(*file), proof);
    }
    return file ? printComparison(*file, options) : file.error();
  }
  // Every variant can do these, on one rank.
  std::future<void> starting;
  Result<plan::Plan> plan = planFor(*file, file->common().worlds.front(), options, starting);
  if (!plan)
    return plan.error();
  if (measures)
    return printPerplexity(*plan, file->hash(), options);
  if (asksLogits)
    return logitsOfPrompt(*plan, file->hash(), options);
  if (scores)
    return scoreTokens(*plan, file->hash(), options);
  return sampleTokens(*plan, file->hash(), options);
}

/// As many open files as the system allows: every shard stays open.
void raiseFileLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

/// What nothing can catch, as where a destructor finds no memory, ends the run with a line too.
/// Checkpoints are published whole or not at all.
[[noreturn]] void endUncaught() {
  const char *line = "nanorun: it was ended without an error\n";
  try {
    if (const std::exception_ptr thrown = std::current_exception())
      std::rethrow_exception(thrown);
  } catch (const std::bad_alloc &) {
    line = "nanorun: out of memory; free some, or use fewer ranks\n";
  } catch (...) {
    line = "nanorun: an error that nothing expects\n";
  }
  (void)!::write(STDERR_FILENO, line, std::strlen(line));
  std::_Exit(1);
}

} // namespace

int main(int argc, char **argv) {
  std::set_terminate(endUncaught);
  raiseFileLimit();
  try {
    Status status = run(argc, argv);
    return status ? 0 : report(status.error());
  } catch (const std::bad_alloc &) {
    return report(failed("out of memory; free some, or use fewer ranks"));
  } catch (const std::exception &exception) {
    return report(failed(exception.what()));
  }
}
