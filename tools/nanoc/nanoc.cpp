// nanoc: the compiler's command line.
#include "base/InputFile.h"
#include "compiler/CrashMessage.h"
#include "compiler/Driver.h"
#include "compiler/MemoryLimit.h"
#include "compiler/Rebuild.h"
#include "compiler/simulate/Simulate.h"
#include "runtime/plan/Signature.h"
#include "tools/nanoc/BisectCommand.h"
#include "tools/nanoc/Commands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>

namespace {

/// "name=value" as a pair; throws a CLI error otherwise.
std::vector<std::pair<std::string, std::string>>
parseOverrides(const std::vector<std::string> &texts) {
  std::vector<std::pair<std::string, std::string>> overrides;
  for (const std::string &text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw CLI::ValidationError("-D " + text, "write -D name=value");
    overrides.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return overrides;
}

void addOverrides(CLI::App &command, std::vector<std::string> &overrides) {
  command
      .add_option("-D", overrides,
                  "Overrides a hyperparameter that the model declares (repeatable)")
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE");
}

/// The most ranks that a plan can be compiled for.
constexpr int64_t maxWorld = 4096;

void checkWorlds(const std::vector<int64_t> &worlds) {
  for (int64_t world : worlds) {
    if (world < 1 || world > maxWorld)
      throw CLI::ValidationError(fmt::format("--world {}", world),
                                 fmt::format("a number of ranks is 1 to {}", maxWorld));
    if (std::count(worlds.begin(), worlds.end(), world) > 1)
      throw CLI::ValidationError(fmt::format("--world {}", world), "given twice");
  }
}

// An option of a pass, by its type.
void addPassOption(CLI::App &command, bool &option, const char *flag, const char *,
                   const char *help) {
  command.add_flag(flag, option, help);
}
void addPassOption(CLI::App &command, int64_t &option, const char *flag, const char *value,
                   const char *help) {
  command.add_option(flag, option, help)
      ->capture_default_str()
      ->type_name(value)
      ->each([flag](const std::string &given) {
        if (given.starts_with('-'))
          throw CLI::ArgumentMismatch(
              fmt::format("{} {}: a number of bytes is 0 or more", flag, given));
      });
}
void addPassOption(CLI::App &command, std::string &option, const char *flag,
                   const std::string &value, const char *help) {
  CLI::Option *added =
      command.add_option(flag, option, help)->capture_default_str()->type_name(value);
  if (value.find('|') != std::string::npos)
    added->check(CLI::IsMember(CLI::detail::split(value, '|')).description(""));
}

/// The options of passes that Passes.td says are nanoc's too.
void addPassOptions(CLI::App &command, nano::PassOptions &options) {
#define NANO_OPTION(PASS, MEMBER, ...) addPassOption(command, options.PASS.MEMBER, __VA_ARGS__);
#include "passes/PassOptions.inc"
}

/// Options that mean something for a model file, or for IR, only.
void checkCompile(const CLI::App &compile, nano::CompileOptions &options) {
  if (options.model.empty() && !options.printPipeline)
    throw CLI::RequiredError("MODEL.cpp");
  if (options.locations && options.stopAfter.empty())
    throw CLI::ValidationError("--locations",
                               "it is of the IR of a stage: give --stop-after STAGE");
  if (compile.count("--sign") > 0 && (options.output.empty() || !options.stopAfter.empty()))
    throw CLI::ValidationError("--sign", "it is of a plan: give -o OUT.plan, and no --stop-after");
  if (compile.count("--verify") > 0) {
    for (const char *option : {"--from", "--stop-after", "--print-pipeline", "--sign",
                               "--report-schedule", "--timeline", "--explore", "--dump-ir"})
      if (compile.count(option) > 0)
        throw CLI::ValidationError(option, "not together with --verify, which compares a plan");
    if (compile.count("--world") == 0)
      options.worlds.clear(); // those of the plan
  }
  if (options.from.empty())
    return;
  for (const char *option :
       {"-D", "--fp8-scales", "--reports", "--check-kernels", "--print-pipeline", "--max-memory"})
    if (compile.count(option) > 0)
      throw CLI::ValidationError(option,
                                 "not together with --from, whose IR is of a model already");
  if (compile.count("--world") == 0)
    options.worlds.clear(); // those of the IR
}

CLI::App *addSimulate(CLI::App &app, nano::simulate::Options &options) {
  CLI::App *command = app.add_subcommand(
      "simulate", "Says what a plan's step takes on a machine, from the machine's rates and links");
  command->add_option("OUT.plan", options.plan, "The plan")->required()->type_name("");
  command
      ->add_option("--gpus", options.worlds,
                   "Numbers of ranks, as in 1,8,64; default: all that the plan is for. Of a single "
                   "one it says where communication is exposed and what the critical path is")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N,...");
  command
      ->add_option("--machine", options.machine,
                   "A JSON file of rates, or one of " + nano::simulate::machineNames() +
                       "; default: h100-infiniband for cuda, cpu for cpu")
      ->type_name("NAME|FILE.json");
  command
      ->add_option("--straggler", options.stragglers,
                   "That rank computes so many times as long (repeatable)")
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("RANK:FACTOR");
  command
      ->add_option("--jitter", options.jitter,
                   "Uneven links: each collective takes up to about so many times longer, by its "
                   "slowest member")
      ->capture_default_str()
      ->type_name("SHARE");
  command->add_option("--seed", options.seed, "Of the jitter")
      ->capture_default_str()
      ->type_name("S");
  command
      ->add_option("--attended", options.attendedKeys,
                   "Keys that a query of attention sees on average; the data decide")
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--times", options.times,
                   "Times of commands as nanorun --times has measured them with this plan, instead "
                   "of the machine's rates")
      ->type_name("FILE.json");
  command
      ->add_option(
          "--timeline", options.timeline,
          "Write a trace for ui.perfetto.dev, one row a stream and rank, of eight ranks at most")
      ->type_name("OUT.json");
  return command;
}

/// Of `diff` and `explain`: for how many ranks, on which machine, how much.
template <typename Options> void addView(CLI::App &command, Options &options) {
  command
      .add_option("--gpus", options.world,
                  "Number of ranks; default: the smallest that there is a plan for")
      ->check(CLI::Range(int64_t(1), maxWorld).description(""))
      ->type_name("N");
  command
      .add_option("--machine", options.machine,
                  "By whose rates times are predicted: a JSON file, or one of " +
                      nano::simulate::machineNames() +
                      "; default: h100-infiniband for cuda, cpu for cpu")
      ->type_name("NAME|FILE.json");
  command.add_option("--lines", options.lines, "Lines of each list at most")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40).description(""))
      ->capture_default_str()
      ->type_name("N");
}

CLI::App *addDiff(CLI::App &app, nano::inspect::DiffOptions &options) {
  CLI::App *command = app.add_subcommand(
      "diff", "Says what differs between two plans, by model line and kernel; exit status 1 where "
              "they differ, 0 where every byte is equal");
  command->add_option("A.plan", options.a, "A plan")->required()->type_name("");
  command->add_option("B.plan", options.b, "Another")->required()->type_name("");
  addView(*command, options);
  return command;
}

CLI::App *addExplain(CLI::App &app, nano::inspect::ExplainOptions &options) {
  CLI::App *command = app.add_subcommand(
      "explain", "Says where a part of a plan comes from, what it costs and who uses it");
  command
      ->add_option("WHAT", options.what,
                   "A model line, as in gpt2.cpp:93 or 93; a kernel's name or a buffer's, or the "
                   "beginning of one")
      ->required()
      ->type_name("");
  command->add_option("OUT.plan", options.plan, "The plan")->required()->type_name("");
  addView(*command, options);
  return command;
}

CLI::App *addExplore(CLI::App &app, nano::explore::Options &options) {
  CLI::App *command = app.add_subcommand(
      "explore", "Writes one HTML file that shows a plan and its runs in a browser");
  command->add_option("OUT.plan", options.plan, "The plan")->required()->type_name("");
  command
      ->add_option("B.plan", options.other,
                   "Another one: what differs, as nanoc diff says it, is shown too")
      ->type_name("");
  command
      ->add_option("--run", options.runs,
                   "A log of nanorun --log; several are shown over each other (repeatable)")
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("LOG.jsonl");
  command
      ->add_option("--profile", options.profile,
                   "A trace of nanorun --profile with this plan: measured beside predicted times")
      ->type_name("STEP.json");
  command
      ->add_option("--machine", options.machine,
                   "By whose rates times are predicted: a JSON file, or one of " +
                       nano::simulate::machineNames() +
                       "; default: h100-infiniband for cuda, cpu for cpu")
      ->type_name("NAME|FILE.json");
  command->add_option("-o,--output", options.output, "The page; default: OUT.html")
      ->type_name("FILE.html");
  return command;
}

/// What `compile` prints and writes of the schedule, beside the plan.
struct ScheduleReport {
  bool isWanted = false;
  std::string timeline; ///< a file; empty: none

  void check(const nano::CompileOptions &compile) const {
    const char *option = isWanted ? "--report-schedule" : "--timeline";
    if ((isWanted || !timeline.empty()) && (compile.output.empty() || !compile.stopAfter.empty()))
      throw CLI::ValidationError(option, "it is of a plan: give -o OUT.plan, and no --stop-after");
    if (!timeline.empty() && compile.worlds.size() != 1)
      throw CLI::ValidationError("--timeline", "it is of one number of ranks; give one to --world");
  }

  /// Simulates the plan that has been written, for each of its numbers of ranks. Returns an exit
  /// status.
  int print(const nano::CompileOptions &compile) const {
    if (!isWanted && timeline.empty())
      return nano::Done;
    nano::simulate::Options simulated;
    simulated.plan = compile.output;
    simulated.machine = compile.pipeline.machine;
    simulated.labelledTimes = compile.pipeline.schedule.times;
    simulated.timeline = timeline;
    for (int64_t world : compile.worlds) {
      simulated.worlds = {world};
      fmt::print("\n");
      if (const int status = nano::simulate::run(simulated); status != nano::Done)
        return status;
    }
    return nano::Done;
  }
};

int report(const nano::Error &error) {
  fmt::print(stderr, "nanoc: {}\n", error.message);
  return error.exitStatus();
}

/// Runs a command of the library of commands. Returns an exit status.
template <typename Options>
int runCommand(int (*nano::Commands::*command)(const Options &), const Options &options) {
  const nano::Result<const nano::Commands *> commands = nano::loadCommands();
  return commands ? ((*commands)->*command)(options) : report(commands.error());
}

/// A folder that goes with the object.
struct TemporaryFolder {
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "nanoc-XXXXXX").string();
    if (mkdtemp(pattern.data()))
      path = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path.empty())
      std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  std::string path;
};

/// `compile --verify`: makes the plan again and says what differs. Exit status 0 where no byte
/// does, 1 where one does.
int verify(const std::string &planPath, const nano::CompileOptions &given) {
  nano::Result<nano::CompileOptions> options = nano::optionsToRebuild(planPath, given);
  if (!options)
    return report(options.error());
  const TemporaryFolder folder;
  if (options->output.empty()) {
    if (folder.path.empty())
      return report(nano::badInput("--verify: no temporary folder can be made; set TMPDIR to one "
                                   "that can be written"));
    options->output = folder.path + "/rebuilt.plan";
  }
  if (const int status = nano::compileModel(*options); status != nano::Done)
    return status;
  const nano::Result<std::string> wanted = nano::readInput(planPath, nano::input::plan),
                                  made = nano::readInput(options->output, nano::input::plan);
  for (const nano::Result<std::string> *file : {&wanted, &made})
    if (!*file)
      return report(file->error());
  if (*wanted == *made) {
    fmt::print("{}: nanoc makes the same bytes of {}\n", planPath, options->model);
    return nano::Done;
  }
  nano::inspect::DiffOptions compared;
  compared.a = planPath;
  compared.b = options->output;
  return std::max<int>(runCommand(&nano::Commands::diff, compared), nano::RunFailed);
}

/// `compile --sign`: compiles, and signs the plan where that went well.
int compileAndSign(const nano::CompileOptions &options, const std::string &keyPath) {
  // Read first, so that a mistake is told before anything is done.
  const nano::Result<nano::plan::SigningKey> key = nano::plan::SigningKey::read(keyPath);
  if (!key)
    return report(nano::badInput("--sign " + key.error().message));
  if (const int status = nano::compileModel(options); status != nano::Done)
    return status;
  const nano::Status status = nano::plan::signPlanFile(options.output, *key);
  return status ? nano::Done : report(status.error());
}

/// `nanoc keygen`
int makeKeys(const std::string &path) {
  if (const nano::Status status = nano::plan::makeKeyPair(path); !status)
    return report(status.error());
  fmt::print("wrote {}, for nanoc compile --sign and for nobody else to see, and {}.pub, for "
             "nanorun --trust\n",
             path, path);
  return nano::Done;
}

/// The page that `compile` writes beside the plan.
struct Exploration {
  std::string page; ///< a file; empty: none
  nano::explore::PassRecords passes;

  /// Has the compilation fill `passes`.
  void prepare(nano::CompileOptions &compile) {
    if (page.empty())
      return;
    if (compile.output.empty() || !compile.stopAfter.empty())
      throw CLI::ValidationError("--explore",
                                 "it is of a plan: give -o OUT.plan, and no --stop-after");
    compile.passes = &passes;
  }

  /// `status` is the compilation's. Returns an exit status.
  int write(const nano::CompileOptions &compile, int status) const {
    // What was wrong with the command line is of no model.
    const bool hasShown =
        passes.failure && (!passes.passes.empty() || !passes.failure->line.empty());
    if (!page.empty() && status != nano::Done && hasShown) {
      const std::string target =
          compile.pipeline.target.empty() ? nano::defaultTarget() : compile.pipeline.target;
      const nano::explore::FailedCompilation failed = {
          std::filesystem::path(compile.model).stem().string(), target,
          compile.worlds.empty() ? std::vector<int64_t>{1} : compile.worlds, &passes, page};
      runCommand(&nano::Commands::exploreFailure, failed);
    }
    if (page.empty() || status != nano::Done)
      return status;
    nano::explore::Options options;
    options.plan = compile.output;
    options.machine = compile.pipeline.machine;
    options.output = page;
    options.passes = &passes;
    return runCommand(&nano::Commands::explore, options);
  }
};

/// Everything that nanoc does; throws std::bad_alloc.
int run(int argc, char **argv) {
  CLI::App app("nanoc: compiles a training step written in C++ into a plan for nanorun", "nanoc");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "The help of all commands");

  nano::CompileOptions options;
  std::vector<std::string> overrides;

  CLI::App *compile =
      app.add_subcommand("compile", "Builds the model file, lowers it, writes the plan");
  compile->add_option("MODEL.cpp", options.model, "The model file; with --from a file of IR")
      ->type_name("");
  compile->add_option("-o,--output", options.output, "The plan file to write")->type_name("FILE");
  addOverrides(*compile, overrides);
  compile
      ->add_option("--fp8-scales", options.fp8Scales,
                   "Static scales for the products that run in FP8, as nanorun --calibrate writes")
      ->type_name("FILE.json");
  compile
      ->add_option(
          "--reports", options.reports,
          "What of each step goes to nanorun's log: names of the model's report(…), with * "
          "for any text; norms: of gradients, parameters and updates by optimizer; all. "
          "Default: none, at no cost")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...");
  compile
      ->add_option("--target", options.pipeline.target,
                   "The device that the plan is for; cuda when nanoc was built with CUDA, else cpu")
      ->type_name("cpu|cuda")
      ->default_str(nano::defaultTarget());
  compile
      ->add_option("--world", options.worlds,
                   "The numbers of ranks that the plan can run on, as in 1,2,4,8 (default 1)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N,...")
      ->default_str("");
  compile
      ->add_option(
          "--machine", options.pipeline.machine,
          "By whose rates and links times are estimated, for the schedule and for --products: a "
          "JSON file, or one of " +
              nano::simulate::machineNames() + "; default: h100-infiniband for cuda, cpu for cpu")
      ->type_name("NAME|FILE.json");
  compile
      ->add_option("--dump-ir", options.dumpDirectory,
                   "Writes the IR after every pass into DIR, one numbered file a pass, and every "
                   "generated kernel into DIR/kernels; for several numbers of ranks from their own "
                   "passes on into a folder DIR/world-N for each")
      ->type_name("DIR");
  compile
      ->add_option("--stop-after", options.stopAfter,
                   "Prints the IR of a stage and stops; `nanoc stages` lists them")
      ->type_name("STAGE");
  compile->add_flag("--locations", options.locations,
                    "With --stop-after: the IR with its model lines, as --dump-ir has it");
  compile
      ->add_option(
          "--from", options.from,
          "Instead of a model file takes IR of that stage, as --stop-after or --dump-ir "
          "have written it and perhaps edited since, proves what must hold of it, and goes "
          "on; give the other options as before")
      ->type_name("STAGE");
  compile->add_flag("--print-pipeline", options.printPipeline,
                    "Prints the passes of all stages, or up to --stop-after, for nano-opt "
                    "--pass-pipeline='…' on what --stop-after model prints, and does nothing else");
  std::string maxMemory;
  compile
      ->add_option(
          "--max-memory", maxMemory,
          "The most that a rank may hold: chooses what is computed twice, what goes to the "
          "host's memory and back, and the micro-batch where the model allows it, by "
          "predicted time, and prints what was tried")
      ->type_name("BYTES|20GB");
  addPassOptions(*compile, options.pipeline);
  compile->add_flag(
      "--report-memory", options.reportMemory,
      "Says who holds memory at the peak, by model line, and what would be made again "
      "next to hold less");
  ScheduleReport schedule;
  compile->add_flag("--report-schedule", schedule.isWanted,
                    "Says for each number of ranks what a step is predicted to take, where "
                    "communication is exposed and what the critical path is, by model line");
  compile
      ->add_option("--timeline", schedule.timeline,
                   "Writes the predicted step as a trace for ui.perfetto.dev, one row a stream and "
                   "rank")
      ->type_name("OUT.json");
  Exploration exploration;
  compile
      ->add_option(
          "--explore", exploration.page,
          "Writes one HTML file that shows the compilation in a browser: what nanoc explore "
          "shows of the plan, and what each pass did; where it fails, what the passes did up to "
          "there and the error at its line")
      ->type_name("OUT.html");
  compile->add_flag("--report-fp8", options.pipeline.reportFp8,
                    "Says which 8-bit conversions are kernels of their own, and why");
  compile->add_flag("--check-kernels", options.checkKernels,
                    "Runs the model's own kernels on small random inputs, on the CPU or the "
                    "emulator, and their derivatives against finite differences");
  compile->add_flag("--check-at-run", options.checkAtRun,
                    "Leaves checks of kernels in the place of nanoc's functions to nanorun, which "
                    "makes them when a run begins; without it, those that cannot be made here");
  std::string signingKey, verified;
  compile
      ->add_option("--sign", signingKey,
                   "Signs the plan with this private key (nanoc keygen), in a file FILE.sig beside "
                   "it, for nanorun --trust")
      ->type_name("KEY");
  compile
      ->add_option("--verify", verified,
                   "Compares with that plan, compiled for its target and numbers of ranks with its "
                   "-D, and says what differs; exit status 1 where it does. Give the other options "
                   "that it was compiled with")
      ->type_name("OUT.plan");
  compile->add_flag("--timing", options.timing, "Says how many seconds each phase took");
  const char *verbose = "Shows all that the host compiler says of a model file";
  compile->add_flag("--verbose", options.verbose, verbose);

  CLI::App *params =
      app.add_subcommand("params", "Lists the model's hyperparameters and parameters");
  params->add_option("MODEL.cpp", options.model, "The model file")->required()->type_name("");
  addOverrides(*params, overrides);
  params->add_flag("--verbose", options.verbose, verbose);

  std::string keyPath;
  CLI::App *keygen = app.add_subcommand(
      "keygen", "Makes a key pair to sign plans with: FILE, the private key, and FILE.pub");
  keygen->add_option("FILE", keyPath, "The private key's file, which must not be there yet")
      ->required()
      ->type_name("");

  CLI::App *stages =
      app.add_subcommand("stages", "Lists the stages of the compiler, for --stop-after");

  nano::simulate::Options simulated;
  CLI::App *simulate = addSimulate(app, simulated);
  nano::inspect::DiffOptions compared;
  CLI::App *diff = addDiff(app, compared);
  nano::inspect::ExplainOptions explained;
  CLI::App *explain = addExplain(app, explained);
  nano::explore::Options explored;
  CLI::App *explore = addExplore(app, explored);
  nano::bisect::Options bisected;
  CLI::App *bisect = addBisect(app, bisected);
  addOverrides(*bisect, overrides);

  try {
    app.parse(argc, argv);
    if (simulate->parsed()) {
      nano::setCrashPhase("simulate; a debugger shows where");
      return nano::simulate::run(simulated);
    }
    if (diff->parsed())
      return runCommand(&nano::Commands::diff, compared);
    if (explain->parsed())
      return runCommand(&nano::Commands::explain, explained);
    if (explore->parsed())
      return runCommand(&nano::Commands::explore, explored);
    if (stages->parsed())
      return nano::listStages();
    if (keygen->parsed())
      return makeKeys(keyPath);
    options.overrides = bisected.overrides = parseOverrides(overrides);
    if (bisect->parsed()) {
      nano::setCrashPhase("bisect; a debugger shows where");
      return runCommand(&nano::Commands::bisect, bisected);
    }
    if (params->parsed())
      return nano::listParameters(options.model, options.overrides, options.verbose);
    checkCompile(*compile, options);
    checkWorlds(options.worlds);
    if (!maxMemory.empty() && (options.maxMemory = nano::parseBytes(maxMemory)) == 0)
      throw CLI::ValidationError("--max-memory " + maxMemory, "write bytes, as in 20GB or 512MB");
    schedule.check(options);
    if (!verified.empty())
      return verify(verified, options);
    exploration.prepare(options);
    if (!exploration.page.empty())
      if (const auto commands = nano::loadCommands(); !commands)
        return report(commands.error());
    int status =
        signingKey.empty() ? nano::compileModel(options) : compileAndSign(options, signingKey);
    status = exploration.write(options, status);
    return status == nano::Done ? schedule.print(options) : status;
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) // --help
      return app.exit(error);
    fmt::print(stderr, "nanoc: {}; see nanoc --help\n", error.what());
    return nano::BadInput;
  }
}

} // namespace

int main(int argc, char **argv) {
  nano::catchCrashes();
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc &) {
    nano::sayNoMemory();
  } catch (const std::exception &error) {
    fmt::print(stderr, "nanoc: internal error: {}\n", error.what());
  }
  return nano::RunFailed;
}
