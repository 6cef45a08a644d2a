// The command line of nanorun; --help prints what stands here.
#include "tools/nanorun/Options.h"

#include "base/Target.h"
#include "runtime/Version.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <iostream>
#include <map>
#include <string_view>

namespace nano {

namespace {

constexpr const char *footer =
    R"(A loss in the log is the mean per token over the global batch before the step's update; "tokens" are those of the step.
Ctrl-C or SIGTERM finishes the step, saves where --save is given, and ends with status 1. A second one ends at once.
Ranks on several machines: start one process a rank with mpirun, srun (Slurm) or torchrun. When a rank dies, hangs or fails,
all end within seconds (--rank-timeout where it hangs) with a line that names it, and none with status 0. Give all of them the
same NANO_JOB_SECRET (openssl rand -hex 32) or --job-secret FILE, so that nobody else joins; mpirun and one machine need none.
A plan is a program: it runs as you do, so run those whose maker you trust. Shards, parameters, checkpoints and prompts are data,
which can be refused and nothing else; docs/trust.md says more. --describe executes nothing of a plan, --trust runs signed ones only.
Exit status: 0 done; 1 the run failed or was interrupted; 2 bad usage or bad input, with one line that says what to do.

nanorun m.plan --train 'data/train_*.bin' --val 'data/val_*.bin' --save runs/a --save-every 100 --log runs/a.jsonl
nanorun m.plan --train 'data/train_*.bin' --save runs/a --resume runs/a
mpirun -n 4 nanorun m.plan --train 'data/train_*.bin'
torchrun --nnodes 2 --nproc-per-node 8 … --no-python nanorun m.plan --train 'data/train_*.bin'
nanorun m.plan --resume runs/a --sample 200 --prompt-tokens prompt.txt)";

/// CLI11 takes "-1" and numbers beyond 64 bits for unsigned ones, and its ranges let NaN pass;
/// these do not.
std::string isSeed(const std::string &text) {
  uint64_t value = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool valid = error == std::errc() && rest == text.data() + text.size();
  return valid ? "" : fmt::format("'{}' is not a whole number from 0 to 2^64 - 1", text);
}

/// Of --temperature and --tolerance.
std::string isNotNegative(const std::string &text) {
  double value = 0;
  bool valid = CLI::detail::lexical_cast(text, value) && value >= 0 && std::isfinite(value);
  return valid ? "" : fmt::format("'{}' is not a number of at least 0", text);
}

/// Options that mean nothing without training, and what excludes them: --sample, --perplexity,
/// --logits, --logprobs; --compare, which does one step.
Status checkTogether(const CLI::App &app, const Options &options) {
  const char *trainOnly[] = {
      "--train",        "--val",         "--gpus",       "--share-gpus",      "--steps",
      "--save",         "--save-every",  "--log",        "--set-aside",       "--val-every",
      "--val-tokens",   "--dump-params", "--export-hf",  "--times",           "--fp8-report",
      "--profile",      "--joules",      "--tune",       "--check-commands",  "--calibrate",
      "--rank-timeout", "--coordinator", "--job-secret", "--data-from-start", "--tensorboard",
      "--show"};
  const char *insteads[] = {"--sample", "--perplexity", "--logits", "--logprobs", "--compare"};
  const char *instead = nullptr;
  for (const char *name : insteads)
    if (app.count(name) > 0) {
      if (instead)
        return badInput(fmt::format("{}: not together with {}", name, instead));
      instead = name;
    }
  for (const char *name : trainOnly)
    if (instead && options.compare.empty() && app.count(name) > 0)
      return badInput(fmt::format("{}: not together with {}, which does not train", name, instead));
  // One step of training, of which nothing is kept.
  if (app.count("--compare") > 0)
    for (const char *name : trainOnly)
      if (app.count(name) > 0 && name != std::string_view("--train"))
        return badInput(fmt::format("{}: not together with --compare", name));
  if (options.train.joules && options.train.profile.empty())
    return badInput("--joules: needs --profile FILE");
  if (app.count("--tolerance") > 0 && options.compare.empty())
    return badInput("--tolerance: only together with --compare");
  if (app.count("--temperature") > 0 && !options.sample)
    return badInput("--temperature: only together with --sample N");
  if (app.count("--samples") > 0 && !options.sample)
    return badInput("--samples: only together with --sample N");
  if (app.count("--tokenizer") > 0 && instead && !options.sample)
    return badInput(fmt::format("--tokenizer: not together with {}", instead));
  if (app.count("--prompt-tokens") > 0 && !options.sample && options.logits.empty())
    return badInput("--prompt-tokens: only together with --sample N or --logits FILE");
  if (app.count("--cache") > 0 && !options.sample && options.logits.empty())
    return badInput("--cache: only together with --sample N or --logits FILE");
  if (!options.logits.empty() && options.promptTokens.empty())
    return badInput("--logits: needs --prompt-tokens FILE");
  if (options.logprobs.empty() != options.score.empty())
    return badInput(options.score.empty() ? "--logprobs: needs --score FILE"
                                          : "--score: needs --logprobs FILE.npy");
  return ok();
}

} // namespace

Result<std::optional<Options>> parseOptions(int argc, char **argv) {
  Options options;
  TrainOptions &train = options.train;
  int64_t steps = 0, sample = 0, rankTimeout = 600;
  CLI::App app("nanorun runs a plan that nanoc made: trains it, validates it, samples from it.",
               "nanorun");
  app.footer(footer);
  app.get_formatter()->column_width(34);
  app.set_version_flag("--version", fmt::format("nanorun {}", version));
  constexpr int64_t most = int64_t(1) << 48;

  app.add_option("plan", options.plan, "The plan to run")->type_name("OUT.plan")->required();
  app.add_option("--train", train.train,
                 "Files of tokens, and columns, to train on: a pattern, in quotes")
      ->type_name("'GLOB'");
  app.add_option("--val", train.val, "Files to validate on")->type_name("'GLOB'");
  app.add_option("--gpus", train.world,
                 "Number of ranks; a plan for the CPU runs them on the CPU. Alone: threads of this "
                 "process; under mpirun, Slurm or torchrun: as many as they started")
      ->type_name("N")
      ->check(CLI::Range(1, 65536).description(""))
      ->capture_default_str();
  app.add_option("--rank-timeout", rankTimeout,
                 "End the run, naming the rank, when one makes no progress for so long while "
                 "another waits for it; also how long processes look for each other at the start")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 1000000).description(""))
      ->capture_default_str();
  app.add_option("--coordinator", options.launch.coordinator,
                 "Where rank 0 listens for the other processes; default: what their launcher says")
      ->type_name("HOST:PORT");
  app.add_option("--job-secret", options.launch.secretFile,
                 "File with a secret of the job, the same for all its processes, that keeps others "
                 "out; default: the variable NANO_JOB_SECRET. Needed on several machines only, and "
                 "not under MPI")
      ->type_name("FILE");
  app.add_flag("--share-gpus", train.shareGpus,
               "Several ranks on one GPU where there are fewer GPUs: for trying many ranks out; "
               "they exchange data through the host, slowly");
  app.add_option("--device", options.device,
                 "What runs the plan; default: what it is for. The emulator runs plans for cuda on "
                 "the CPU and checks their kernels; NANO_EMULATOR=fast leaves the checks out, "
                 "NANO_EMULATOR_SEED=N is that of the order of threads")
      ->type_name(deviceNames())
      ->check([](const std::string &name) {
        return targetOfDevice(name) ? "" : fmt::format("{} is none of {}", name, deviceNames(", "));
      });
  app.add_option("--threads", train.threads,
                 "CPU threads of one rank; default: the machine's cores by ranks")
      ->type_name("N")
      ->check(CLI::Range(1, 65536).description(""));
  auto *stepsOption =
      app.add_option("--steps", steps, "Optimizer steps; default: the model's num_iterations")
          ->type_name("N")
          ->check(CLI::Range(int64_t(0), most).description(""));
  app.add_option("--seed", train.start.seed, "Seed of initial values and of samples")
      ->type_name("S")
      ->check(isSeed)
      ->capture_default_str();
  app.add_option("--init", train.start.init,
                 "Start from these parameters: a file as --dump-params writes, or the folder of a "
                 "HuggingFace checkpoint, which is read as the model file states")
      ->type_name("FILE|FOLDER");
  app.add_option("--init-ignore", train.start.initIgnore,
                 "Tensors of --init FOLDER that nothing needs to take; * stands for any text; may "
                 "be given several times")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_flag("--allow-non-finite", train.start.allowNonFinite,
               "Start from values of --init or --resume that are NaN or infinite, and save such "
               "ones; default: they are refused");
  app.add_option("--save", train.save,
                 "Save checkpoints here, after the last step and on Ctrl-C; one run at a time, and "
                 "those of one run. Every rank writes its share: on several machines a directory "
                 "that all of them see")
      ->type_name("DIR");
  app.add_flag("--set-aside", train.setAside,
               "Where --save DIR holds checkpoints of another run, move them to DIR/set-aside-N "
               "first; default: such a directory is refused");
  app.add_option("--save-every", train.saveEvery, "Save every K steps too")
      ->type_name("K")
      ->check(CLI::Range(int64_t(1), most).description(""));
  app.add_option("--resume", train.start.resume,
                 "Go on from the newest complete checkpoint here, made by any number of ranks")
      ->type_name("DIR");
  app.add_flag("--data-from-start", train.dataFromStart,
               "With --resume: begin the training data again, which may be others than the "
               "checkpoint's; default: go on where it stopped");
  app.add_option("--val-every", train.valEvery,
                 "Validate every K steps, and at the end; default: at the end")
      ->type_name("K")
      ->check(CLI::Range(int64_t(1), most).description(""));
  app.add_option("--val-tokens", train.valTokens,
                 "Validate on the first N tokens, in whole sequences")
      ->type_name("N")
      ->check(CLI::Range(int64_t(1), most).description(""))
      ->capture_default_str();
  app.add_option("--log", train.log, "Write one JSON object a line; with --resume, append")
      ->type_name("FILE.jsonl");
  app.add_option("--tensorboard", train.tensorBoard,
                 "Write losses, learning rate, times and the plan's reports into an event file in "
                 "this folder, for TensorBoard; with --resume, another file there")
      ->type_name("DIR");
  app.add_option("--show", train.show,
                 "Reports of the plan (nanoc compile --reports) to show on the progress line, with "
                 "wildcards as of files, in quotes; those of the updates are the step before's")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...");
  app.add_option("--dump-params", train.dumpParams, "Write the parameters after the last step")
      ->type_name("FILE.safetensors");
  app.add_option("--export-hf", train.exportFolder,
                 "Make a folder of the parameters after the last step that HuggingFace's "
                 "from_pretrained loads, as the model file states")
      ->type_name("DIR");
  app.add_option(
         "--tokenizer", train.tokenizer,
         "A tokenizer's file, or folder with its files: --sample writes text by its "
         "tokenizer.json, --export-hf copies it beside; default there: that of --init FOLDER")
      ->type_name("FILE|FOLDER");
  app.add_option(
         "--times", train.times,
         "Write what every command of the plan took in all, on every rank; a GPU's first run "
         "of a program is not counted, and none with --check-commands")
      ->type_name("FILE.json");
  app.add_flag("--fp8-report", train.fp8Report,
               "Log how FP8 scales fit, at the first step, the last and with validations");
  app.add_option("--calibrate", train.calibrate,
                 "Measure FP8 products at every step; write static scales for nanoc --fp8-scales")
      ->type_name("OUT.json");
  app.add_option("--profile", train.profile,
                 "Write a trace of the last step, command by command, a process a rank and a row a "
                 "stream, for ui.perfetto.dev; a step that is the first on a GPU is empty, and any "
                 "with --check-commands")
      ->type_name("OUT.json");
  app.add_flag("--joules", train.joules,
               "With --profile: measure the joules of every command of that step, on one rank "
               "after all else, and say where most are wasted; takes a minute or two");
  app.add_flag(
      "--tune", train.tune,
      "Measure algorithms for the plan's matrix products on a GPU, and the candidates that "
      "nanoc compile --candidates has put into it, by joules where the GPU is at its power "
      "limit; keep the choice in OUT.plan.tune.json, which later runs use");
  app.add_flag("--check-commands", train.checkCommands,
               "Wait for every command, so that an error names its command (slow)");
  app.add_option("--trust", options.trust.keys,
                 "Run the plan only if the key that belongs to this one has signed it (nanoc "
                 "keygen, nanoc compile --sign); may be given several times, then one of them")
      ->type_name("KEY.pub")
      ->allow_extra_args(false);
  app.add_option("--rebuild", options.trust.model,
                 "Run the plan only if the nanoc beside nanorun makes the same bytes of this model "
                 "file, which it compiles and runs; says what differs and ends with status 1 else")
      ->type_name("MODEL.cpp");
  app.add_option(
         "--compare", options.compare,
         "Instead of training, run the next step twice on one rank, on the plan's device and "
         "on another one, or by another plan of the model, and print the first tensor in "
         "which they differ, with both commands and the model line; cpu: again with one "
         "thread; exit status 1 where they differ")
      ->type_name("cpu|emulator|cuda|OTHER.plan");
  app.add_option("--tolerance", options.tolerance,
                 "With --compare: the relative error of a tensor that is allowed; default: 0 for "
                 "two runs of a plan on one kind of device, else 2^-14, 2^-6 where anything is "
                 "bf16, 2^-2 where anything has 8 bits")
      ->type_name("R")
      ->check(isNotNegative);
  app.add_flag("--describe", options.describe, "Print what the plan holds, and stop");
  auto *sampleOption =
      app.add_option("--sample", sample,
                     "Instead of training, print N generated token ids, or with --tokenizer "
                     "their text as it comes")
          ->type_name("N")
          ->check(CLI::Range(int64_t(1), most).description(""));
  app.add_option("--samples", options.samples, "With --sample: so many samples, a line each")
      ->type_name("K")
      ->check(CLI::Range(int64_t(1), most).description(""))
      ->capture_default_str();
  app.add_option("--prompt-tokens", options.promptTokens,
                 "Token ids that the sample goes on from, or whose logits are wanted; default: an "
                 "end of document")
      ->type_name("FILE");
  app.add_option("--cache", options.cache,
                 "Whether a token is computed with what those before it have left (on), or with "
                 "them all again (off); default: on where the plan can for --sample, off for "
                 "--logits")
      ->type_name("on|off")
      ->transform(CLI::CheckedTransformer(
                      std::map<std::string, Cache>{{"on", Cache::On}, {"off", Cache::Off}})
                      .description(""));
  app.add_option("--perplexity", options.perplexity,
                 "Instead of training, print the mean loss of all of these token shards, in whole "
                 "validation sequences, and its exponential, as a line of JSON")
      ->type_name("'GLOB'");
  app.add_option("--logits", options.logits,
                 "Instead of training, write the logits that follow each token of --prompt-tokens")
      ->type_name("FILE.safetensors");
  app.add_option("--score", options.score, "The training file, or folder, of --logprobs")
      ->type_name("FILE|FOLDER");
  app.add_option("--logprobs", options.logprobs,
                 "Instead of training, write the logarithm of the probability of each token of "
                 "--score FILE after those of its document before it, as a column of training data")
      ->type_name("FILE.npy");
  app.add_option("--temperature", options.temperature, "Of the sample; 0 takes the likeliest token")
      ->type_name("T")
      ->check(isNotNegative)
      ->capture_default_str();

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) {
      app.exit(error, std::cout, std::cout);
      return std::optional<Options>();
    }
    std::string message = error.what();
    std::replace(message.begin(), message.end(), '\n', ' ');
    return badInput(fmt::format("{} (see nanorun --help)", message));
  }
  train.tuneFile = options.plan + ".tune.json";
  if (stepsOption->count() > 0)
    train.steps = steps;
  if (sampleOption->count() > 0)
    options.sample = sample;
  if (app.count("--gpus") > 0)
    options.launch.gpus = train.world;
  options.rankTimeout = std::chrono::seconds(rankTimeout);
  if (Status status = checkTogether(app, options); !status)
    return status.error();
  return std::optional<Options>(std::move(options));
}

} // namespace nano
