// Checks options and opens files.
#include "runtime/Job.h"

#include "runtime/Export.h"
#include "runtime/Fp8Report.h"
#include "runtime/Version.h"
#include "runtime/files/Checkpoint.h"
#include "runtime/files/FileWriter.h"
#include "runtime/plan/Messages.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace nano {

Status Job::prepare(const Crew &crew) {
  world = crew.world();
  localRanks = crew.onMachine();
  if (Status status = checkOptions(); !status)
    return status;
  // Locked before checkpoints are looked at: nobody adds any from here on.
  if (crew.hasFirst() && !options.save.empty())
    if (Status status = openFolder(); !status)
      return status;
  if (Status status = openStart(); !status)
    return status;
  if (steps > firstStep)
    if (Status status = openTraining(); !status)
      return status;
  if (!options.val.empty())
    if (Status status = openValidation(); !status)
      return status;
  run = identityOf({planHash, shardsHash, start.seed(), initHash}, start.manifest());
  return crew.hasFirst() ? openOutputs() : ok();
}

Status Job::openFolder() {
  Result<RunFolder> claimed =
      RunFolder::claim(options.save, [&](const std::string &line) { console.say(line); });
  if (!claimed)
    return badInput("--save " + claimed.error().message);
  folder = std::move(*claimed);
  return ok();
}

Facts Job::facts() const {
  auto given = [](const std::string &option) { return option.empty() ? "no" : "yes"; };
  auto sizeOf = [](const std::string &path) {
    std::error_code error;
    if (path.empty() || std::filesystem::is_directory(path, error))
      return std::string(path.empty() ? "no" : "a folder");
    return fmt::format("{} bytes", std::filesystem::file_size(path, error));
  };
  Facts facts = {{"nanorun", version},
                 {"the plan", planHash},
                 {"the checkpoint's step", std::to_string(firstStep)},
                 {"the checkpoint", start.manifest() ? start.manifest()->checksum : "no"},
                 {"--steps", std::to_string(steps)},
                 {"--seed", std::to_string(start.seed())},
                 {"--init", sizeOf(options.start.init)},
                 {"the content of --init", initHash},
                 {"--save", given(options.save)},
                 {"--save-every", std::to_string(options.saveEvery)},
                 {"--val-every", std::to_string(options.valEvery)},
                 {"the number of validation sequences", std::to_string(valSequences.size())},
                 {"the content of the validation shards", hexText(valHash)},
                 {"--tune", options.tune ? "yes" : "no"},
                 {"--times", given(options.times)},
                 {"--profile", given(options.profile)},
                 {"--fp8-report", options.fp8Report ? "yes" : "no"},
                 {"--calibrate", given(options.calibrate)}};
  if (reader) {
    const DataPosition &position = reader->position();
    facts.insert(facts.end(),
                 {{"the training shard", trainShards->name(reader->shardAt(position))},
                  {"the position in the training shard", std::to_string(position.position)},
                  {"the number of training tokens", std::to_string(trainShards->totalTokens())},
                  {"the names, sizes or first tokens of the training shards", shardsHash}});
  }
  return facts;
}

Status Job::checkOptions() const {
  if (std::find(plan.worlds.begin(), plan.worlds.end(), world) == plan.worlds.end())
    return plan::notForWorld(plan.worlds, world);
  if (options.saveEvery > 0 && options.save.empty())
    return badInput("--save-every: needs --save DIR");
  if (options.setAside && options.save.empty())
    return badInput("--set-aside: needs --save DIR");
  if (options.fp8Report)
    if (Status status = Fp8Meter::check(plan, "--fp8-report"); !status)
      return status;
  if (!options.calibrate.empty())
    if (Status status = Fp8Meter::check(plan, "--calibrate"); !status)
      return status;
  if (options.dataFromStart && options.start.resume.empty())
    return badInput("--data-from-start: needs --resume DIR");
  if (Result<ShownReports> known = ShownReports::create(plan, options.show); !known)
    return known.error();
  if (options.valEvery > 0 && options.val.empty())
    return badInput("--val-every: needs --val 'GLOB'");
  return ok();
}

Status Job::openStart() {
  const plan::Training &training = plan.training;
  Result<Start> opened = Start::open(plan, planHash, options.start,
                                     [&](const std::string &line) { console.say(line); });
  if (!opened)
    return opened.error();
  start = std::move(*opened);
  if (world > 1 || !options.save.empty()) {
    Result<std::string> hash = start.initHash();
    if (!hash)
      return hash.error();
    initHash = std::move(*hash);
  }
  firstStep = start.manifest() ? start.manifest()->step : 0;
  done = firstStep;
  steps = options.steps.value_or(training.numIterations);
  if (firstStep > 0)
    console.say(fmt::format("resuming {} after step {}", options.start.resume, firstStep));
  if (start.manifest() && start.manifest()->world != world)
    console.say(fmt::format("the checkpoint was made with --gpus {}, this is --gpus {}: losses "
                            "agree, but not to the bit",
                            start.manifest()->world, world));
  if (steps <= firstStep && firstStep > 0)
    console.say(
        fmt::format("nothing to train: {} steps are done, {} are asked for", firstStep, steps));
  if (steps > training.numIterations && options.steps)
    console.say(
        fmt::format("--steps {}: the model's schedules end at step {}; they are followed beyond",
                    steps, training.numIterations));
  steps = std::max(steps, firstStep);
  if (steps > firstStep && firstStep % round() != 0)
    return badInput(fmt::format(
        "--resume {}: it was saved after step {}, and this plan keeps gradients over {} steps; "
        "resume what was saved after whole rounds of them, or compile with what the run that "
        "saved it took for its optimizers' steps",
        options.start.resume, firstStep, round()));
  // Where the whole run ends, the gradients of a round that is not whole are never used.
  if (!options.save.empty() && steps > firstStep && steps % round() != 0 &&
      steps != training.numIterations)
    return badInput(fmt::format(
        "--save: gradients are kept over {} steps, and a checkpoint can only be made after whole "
        "rounds of them or at the end of the run, not after step {}; ask for --steps {}",
        round(), steps, (steps + round() - 1) / round() * round()));
  if (steps == firstStep && (options.fp8Report || !options.calibrate.empty()))
    return badInput(fmt::format("{}: there is no step to measure; ask for more --steps",
                                options.fp8Report ? "--fp8-report" : "--calibrate"));
  return ok();
}

/// Those of all stages of the run.
static std::vector<plan::Column> columnsOf(const plan::Plan &plan,
                                           std::vector<plan::Column> plan::Training::*which) {
  std::vector<plan::Column> all;
  for (const plan::Training *stage : plan::stagesOf(plan))
    all.insert(all.end(), (stage->*which).begin(), (stage->*which).end());
  return all;
}

Status Job::openTraining() {
  const plan::Training &training = plan.training;
  if (training.phases.empty())
    return badInput(
        "the plan has no training programs; compile a model with a loss and optimizers");
  if (options.train.empty())
    return badInput("--train is missing: give the pattern of the token shards to train on");
  const std::vector<plan::Column> columns = columnsOf(plan, &plan::Training::columns);
  Result<std::shared_ptr<const TokenShards>> shards =
      TokenShards::open(options.train, training.vocabSize, "--train", columns);
  if (!shards)
    return shards.error();
  trainShards = *shards;
  constexpr int64_t narrow = int64_t(UINT16_MAX) + 1;
  if (training.vocabSize > narrow && !trainShards->areWide())
    console.say(fmt::format("--train '{}': the vocabulary of {} needs 32-bit tokens, and these "
                            "have 16 bits: none from {} on is among them",
                            options.train, training.vocabSize, narrow));
  Result<uint64_t> hash = trainShards->fingerprint();
  if (!hash)
    return hash.error();
  shardsHash = hexText(*hash);

  if (const std::vector<std::string> unread = trainShards->unread(); !unread.empty())
    console.say(fmt::format("--train '{}': the model reads none of the columns {}", options.train,
                            fmt::join(unread, ", ")));

  Result<DataPosition> position = firstPosition();
  if (!position)
    return position.error();
  const plan::Documents &documents = training.documents;
  const BatchRule rule = {documents.rule, documents.shuffle, start.seed(),
                          int32_t(training.eosToken)};
  // The reader begins with the first step's; a batch of each later stage must fit too.
  for (const plan::StageSteps &part : plan::stagesOf(plan, firstStep, steps)) {
    Result<BatchShape> shape = batchShape(part.begin);
    if (!shape)
      return badInput(fmt::format("step {}: {}", part.begin + 1, shape.error().message));
    Result<BatchReader> created =
        BatchReader::create(trainShards, rule, *shape, "--train", *position);
    if (!created)
      return created.error();
    if (!reader)
      reader = std::move(*created);
  }
  return ok();
}

Result<BatchShape> Job::batchShape(int64_t step) const {
  const plan::Training &training = plan::stageAt(plan, step);
  BatchShape shape = {uint64_t(training.globalBatch / training.seqLen), uint64_t(training.seqLen)};
  if (training.documents.longest.empty())
    return shape;
  const double longest = scalarAt(plan, training.documents.longest, step, world);
  if (!(std::nearbyint(longest) >= 1))
    return badInput(fmt::format("the model's longest document has {} tokens; it must have 1 at "
                                "least",
                                longest));
  shape.longest = uint64_t(std::min(std::nearbyint(longest), 0x1p53));
  return shape;
}

Result<DataPosition> Job::firstPosition() const {
  const Manifest *manifest = start.manifest();
  if (!manifest)
    return DataPosition();
  const DataSet &then = manifest->data;
  const DataSet now = {plan::nameOf(plan.training.documents.rule), trainShards->count(),
                       trainShards->totalTokens(), shardsHash};
  // Older checkpoints do not say all of it.
  const std::string other = then.rule != now.rule
                                ? fmt::format("batches were {} and are {}", then.rule, now.rule)
                            : !then.fingerprint.empty() && then.fingerprint != now.fingerprint
                                ? fmt::format("it was trained on other shards: {} files of {} "
                                              "tokens, and these are {} of {}",
                                              then.files, then.tokens, now.files, now.tokens)
                                : std::string();
  if (options.dataFromStart) {
    console.say(fmt::format("--data-from-start: the data begin again at {}; the checkpoint's went "
                            "on at {} of {}, epoch {}; {}",
                            trainShards->name(0), manifest->position, manifest->shardFile,
                            manifest->epoch, other.empty() ? "they are the same" : other));
    return DataPosition();
  }
  auto refused = [&](const std::string &what) {
    return badInput(fmt::format("--train '{}': {}; give the shards that it was trained on, or "
                                "begin the data again with --data-from-start",
                                options.train, what));
  };
  // Where the file is not there the message names it, whatever else is other.
  const bool isShuffled = plan.training.documents.shuffle;
  if (!isShuffled && !manifest->shardFile.empty() &&
      (manifest->shard >= trainShards->count() ||
       trainShards->name(manifest->shard) != manifest->shardFile))
    return refused(fmt::format("the checkpoint goes on in shard {} with the name {}, which is not "
                               "there",
                               manifest->shard, manifest->shardFile));
  if (!other.empty())
    return refused("the checkpoint cannot go on: " + other);
  return DataPosition{manifest->shard, manifest->position, manifest->epoch};
}

Status Job::openValidation() {
  const plan::Training &training = plan.training;
  if (training.validate.empty())
    return badInput("--val: the plan has no validation program");
  Result<std::shared_ptr<const TokenShards>> shards = TokenShards::open(
      options.val, training.vocabSize, "--val", columnsOf(plan, &plan::Training::valColumns));
  if (!shards)
    return shards.error();
  valShards = *shards;
  auto sequence = uint64_t(training.valSeqLen), wanted = uint64_t(options.valTokens);
  if (wanted < sequence)
    return badInput(fmt::format("--val-tokens {}: less than one validation sequence of {} tokens",
                                wanted, sequence));
  valSequences = validationSequences(*valShards, sequence, wanted);
  if (valSequences.empty())
    return badInput(
        fmt::format("--val '{}': fewer tokens than one validation sequence: no shard has {}",
                    options.val, sequence + 1));
  // All of them are read for the first validation anyway.
  for (const Piece &piece : valSequences)
    if (world > 1) {
      Result<uint64_t> hash = valShards->hash(piece.shard, piece.position, piece.count, valHash);
      if (!hash)
        return hash.error();
      valHash = *hash;
    }
  if (uint64_t used = valSequences.size() * sequence; used != wanted)
    console.say(fmt::format(
        "validation: {} sequences of {} = {} tokens ({} were asked for, the shards hold {})",
        valSequences.size(), sequence, used, wanted, valShards->totalTokens()));
  return ok();
}

Status Job::openExport() {
  if (options.exportFolder.empty())
    return options.tokenizer.empty()
               ? ok()
               : badInput("--tokenizer: needs --export-hf DIR, or --sample N");
  if (Status status = checkExport(plan, options.exportFolder); !status)
    return status;
  std::error_code error;
  const bool isFromFolder = std::filesystem::is_directory(options.start.init, error);
  if (options.tokenizer.empty() && !isFromFolder)
    return ok();
  Result<std::vector<std::string>> files =
      tokenizerFiles(options.tokenizer.empty() ? options.start.init : options.tokenizer);
  if (files)
    besideExport = std::move(*files);
  // A folder of parameters need not have any.
  return files || options.tokenizer.empty() ? ok() : files.error();
}

Status Job::openOutputs() {
  if (folder && (steps > firstStep || !start.manifest()))
    if (Status status = folder->admit(run, firstStep, options.setAside,
                                      [&](const std::string &line) { console.say(line); });
        !status)
      return Error{status.error().kind, "--save " + status.error().message};
  // Created and dropped at once: a place that cannot be written shows before hours of training,
  // not after.
  for (auto [name, path] :
       {std::pair("--dump-params", &options.dumpParams), std::pair("--times", &options.times),
        std::pair("--calibrate", &options.calibrate), std::pair("--profile", &options.profile)})
    if (!path->empty()) {
      Result<AtomicFile> probe = AtomicFile::create(*path);
      if (!probe)
        return badInput(fmt::format("{} {}", name, probe.error().message));
      // The reader of a pipe ends when the last writer closes it.
      if (probe->writer().isStream())
        openStreams.push_back(std::move(*probe));
    }
  if (Status status = openExport(); !status)
    return status;
  if (!options.log.empty()) {
    Result<Log> opened = Log::open(options.log, /*append=*/start.manifest() != nullptr);
    if (!opened)
      return opened.error();
    log = std::move(*opened);
  }
  if (!options.tensorBoard.empty()) {
    Result<TensorBoard> opened = TensorBoard::open(options.tensorBoard, firstStep);
    if (!opened)
      return opened.error();
    tensorBoard = std::move(*opened);
  }
  if (Result<ShownReports> known = ShownReports::create(plan, options.show))
    shown = std::move(*known);
  return ok();
}

} // namespace nano
