// Saving, finding and verifying checkpoints.
#include "runtime/files/Checkpoint.h"

#include "base/InputFile.h"
#include "runtime/StateRuns.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <new>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace nano {

namespace {

using Role = plan::State::Role;

constexpr std::string_view stepPrefix = "step-";
constexpr std::string_view temporaryPrefix = ".step-";
constexpr std::string_view temporaryInfix = ".tmp-";
/// Bytes between two signs of life of a rank that writes.
constexpr uint64_t signBytes = uint64_t(64) << 20;

/// "params.safetensors"; of several ranks each has its own, "params-00003.safetensors".
std::string fileName(Role role, const Seat &seat) {
  const char *stem = role == Role::Parameter ? "params" : "optimizer";
  return seat.world == 1 ? fmt::format("{}.safetensors", stem)
                         : fmt::format("{}-{:05}.safetensors", stem, seat.rank);
}

/// What became of a stage of a save on every rank, by rank, when no rank has an error; else the
/// error of the first that has one: the same on all. `mine`: what became of it here.
Result<std::vector<std::string>> outcomes(Communicator &communicator,
                                          const Result<std::string> &mine, const char *stage) {
  constexpr char good = '=', isBadInput = '?', hasFailed = '!';
  auto mark = [&] { return mine.error().exitStatus() == 2 ? isBadInput : hasFailed; };
  Result<std::vector<std::string>> all =
      communicator.exchange(mine ? good + *mine : mark() + mine.error().message, stage);
  if (!all)
    return all.error();
  for (std::string &each : *all) {
    const char kind = each.empty() ? hasFailed : each[0];
    each.erase(0, 1);
    if (kind != good)
      return kind == isBadInput ? badInput(each) : failed(each);
  }
  return all;
}

/// Writes this rank's files of a checkpoint into the directory `temporary`, durably; messages say
/// `shown` for it.
Result<std::vector<FileRecord>> saveFiles(const std::string &temporary, const std::string &shown,
                                          const plan::Plan &plan, Communicator &communicator,
                                          const ReadState &read, bool requireFinite) {
  const Seat seat = seatOf(plan, communicator);
  std::vector<FileRecord> records;
  for (Role role : {Role::Parameter, Role::Optimizer}) {
    FileRecord record;
    record.name = fileName(role, seat);
    record.holds = role;
    const std::string name = fmt::format("{}/{}", shown, record.name);
    Result<FileWriter> file =
        FileWriter::create(fmt::format("{}/{}", temporary, record.name), name);
    if (!file) {
      struct stat found = {};
      if (seat.rank > 0 && ::stat(temporary.c_str(), &found) != 0 && errno == ENOENT)
        return badInput(
            fmt::format("{}; ranks on several machines need a directory that all of them see",
                        file.error().message));
      return file.error();
    }
    uint64_t said = 0;
    auto readAndSay = [&](const plan::State &state, uint64_t offset, void *data, uint64_t bytes) {
      if (file->size() >= said) {
        communicator.doing(fmt::format("writing {}, {} MiB", name, file->size() >> 20));
        said = file->size() + signBytes;
      }
      return read(state, offset, data, bytes);
    };
    if (Status status =
            storeRuns(ownRuns(statesOf(plan, role), seat), readAndSay, requireFinite, *file);
        !status)
      return status.error();
    record.bytes = file->size();
    record.checksum = hexText(file->checksum());
    if (Status status = file->finish(); !status)
      return status.error();
    records.push_back(std::move(record));
  }
  return records;
}

/// Writes the manifest into the directory `temporary` and makes all of it durable.
Status saveManifest(const std::string &temporary, const std::string &shown,
                    const Manifest &manifest, const plan::Plan &plan,
                    const std::vector<std::string> &records) {
  Contents contents;
  for (const std::string &text : records) {
    Result<std::vector<FileRecord>> files = parseRecords(text);
    if (!files)
      return files.error();
    for (FileRecord &file : *files) {
      struct stat found = {};
      const std::string path = fmt::format("{}/{}", temporary, file.name);
      if (::stat(path.c_str(), &found) != 0 || uint64_t(found.st_size) != file.bytes)
        return badInput(fmt::format("{}/{}: rank 0 does not see what another rank wrote; ranks on "
                                    "several machines need a directory that all of them see",
                                    shown, file.name));
      contents.files.push_back(std::move(file));
    }
  }
  contents.parameters = tensorsOf(statesOf(plan, Role::Parameter));
  contents.optimizer = tensorsOf(statesOf(plan, Role::Optimizer));
  Result<FileWriter> file = FileWriter::create(fmt::format("{}/{}", temporary, manifestName),
                                               fmt::format("{}/{}", shown, manifestName));
  if (!file)
    return file.error();
  if (Status status = file->append(manifestText(manifest, contents)); !status)
    return status;
  if (Status status = file->finish(); !status)
    return status;
  return syncDirectory(temporary);
}

/// Removes what saves of processes that no longer run have left.
void removeLeftovers(const std::string &directory) {
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator(directory, error)) {
    std::string name = entry.path().filename().string();
    size_t infix = name.find(temporaryInfix);
    if (name.rfind(temporaryPrefix, 0) != 0 || infix == std::string::npos)
      continue;
    auto process = pid_t(std::strtol(name.c_str() + infix + temporaryInfix.size(), nullptr, 10));
    // This process has none under way: what bears its number is another's that had the same.
    const bool isGone = process == ::getpid() || (::kill(process, 0) != 0 && errno == ESRCH);
    if (process > 0 && isGone)
      removeTree(entry.path().string());
  }
}

/// Puts the directory `temporary` in the place of `path`, which may exist.
Status replaceDirectory(const std::string &temporary, const std::string &path) {
  if (::rename(temporary.c_str(), path.c_str()) == 0)
    return ok();
  if (errno != ENOTEMPTY && errno != EEXIST)
    return writeError(path, errno);
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0)
    return failed(fmt::format("{}: exists and cannot be replaced: {}; save to another directory",
                              path, std::strerror(errno)));
  removeTree(temporary);
  return ok();
}

/// The number in "step-000123"; none when the name is another.
std::optional<int64_t> stepOf(const std::string &name) {
  if (name.rfind(stepPrefix, 0) != 0 || name.size() == stepPrefix.size() ||
      name.size() > stepPrefix.size() + 18)
    return std::nullopt;
  int64_t step = 0;
  for (char c : name.substr(stepPrefix.size())) {
    if (c < '0' || c > '9')
      return std::nullopt;
    step = 10 * step + (c - '0');
  }
  return step;
}

/// Steps with their paths below `directory`, the newest first, whatever they hold; and why there
/// may be more.
std::pair<std::vector<std::pair<int64_t, std::string>>, std::error_code>
stepsIn(const std::string &directory) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator(directory, error)) {
    std::string name = entry.path().filename().string();
    if (std::optional<int64_t> step = stepOf(name))
      found.emplace_back(*step, fmt::format("{}/{}", directory, name));
  }
  std::sort(found.rbegin(), found.rend());
  return {found, error};
}

/// Reads the manifest of the checkpoint at `path`.
Result<Manifest> openManifest(const std::string &path, Contents &contents) {
  const std::string manifestPath = fmt::format("{}/{}", path, manifestName);
  Result<std::string> text = readInput(manifestPath, input::manifest);
  if (!text)
    return text.error();
  Result<Manifest> manifest = parseManifest(*text, contents);
  if (!manifest)
    return badInput(fmt::format("{}: {}", manifestPath, manifest.error().message));
  return manifest;
}

/// Names the checkpoints below `directory` that belong to another run than `chosen`.
void reportOthers(const std::string &directory, const Checkpoint &chosen, const Report &report) {
  std::vector<std::string> names;
  for (const FoundCheckpoint &each : checkpointsIn(directory))
    if (!chosen.manifest.run.owns(each.manifest))
      names.push_back(std::filesystem::path(each.path).filename().string());
  if (names.empty())
    return;
  constexpr size_t shown = 4;
  const size_t rest = names.size() - std::min(names.size(), shown);
  names.resize(names.size() - rest);
  report(fmt::format("{} is of run {}; these in {} are of other runs and left alone: {}{}",
                     chosen.path,
                     chosen.manifest.run.id.empty() ? "unknown" : chosen.manifest.run.id, directory,
                     fmt::join(names, ", "), rest ? fmt::format(" and {} more", rest) : ""));
}

/// Makes the empty directory that a checkpoint is written into; returns its path.
Result<std::string> makeTemporary(const std::string &directory, const std::string &name) {
  if (Status status = makeDirectories(directory); !status)
    return status.error();
  removeLeftovers(directory);
  std::string temporary = fmt::format("{}/.{}{}{}", directory, name, temporaryInfix, ::getpid());
  removeTree(temporary);
  if (::mkdir(temporary.c_str(), 0777) != 0)
    return badInput(
        fmt::format("{}/{}: cannot be created: {}", directory, name, std::strerror(errno)));
  return temporary;
}

/// Opens one of the checkpoint's files and compares it with the manifest's record.
Result<SafetensorsFile> openFile(const std::string &path, const FileRecord &record) {
  Result<SafetensorsFile> file = SafetensorsFile::open(fmt::format("{}/{}", path, record.name));
  if (!file)
    return file;
  if (file->size() != record.bytes)
    return badInput(fmt::format("{}: has {} bytes, the manifest says {}", file->path(),
                                file->size(), record.bytes));
  Result<uint64_t> checksum = file->checksum();
  if (!checksum)
    return checksum.error();
  if (hexText(*checksum) != record.checksum)
    return badInput(fmt::format("{}: its checksum is not the manifest's; it was changed or damaged",
                                file->path()));
  return file;
}

/// Opens the files that hold states of this role.
Result<StoredTensors> openFiles(const std::string &path, const Contents &contents, Role role) {
  std::vector<SafetensorsFile> files;
  for (const FileRecord &record : contents.files) {
    if (record.holds != role)
      continue;
    Result<SafetensorsFile> file = openFile(path, record);
    if (!file)
      return file.error();
    files.push_back(std::move(*file));
  }
  const char *kind = role == Role::Parameter ? "parameters" : "optimizer states";
  if (files.empty())
    return badInput(
        fmt::format("{}/{}: the manifest lists no file of {}", path, manifestName, kind));
  const std::optional<TensorTable> &table =
      role == Role::Parameter ? contents.parameters : contents.optimizer;
  if (!table)
    return StoredTensors(std::move(files[0]));
  Result<StoredTensors> stored = StoredTensors::open(std::move(files), *table);
  if (!stored)
    return badInput(fmt::format("{}: {}", path, stored.error().message));
  return stored;
}

/// "num_iterations 100 → 200, …"
std::string differences(const std::vector<plan::Hyperparameter> &before,
                        const std::vector<plan::Hyperparameter> &now) {
  std::map<std::string, std::pair<std::string, std::string>> values;
  for (const plan::Hyperparameter &h : before)
    values[h.name] = {h.value, "absent"};
  for (const plan::Hyperparameter &h : now) {
    auto [place, isNew] = values.try_emplace(h.name, "absent", h.value);
    place->second.second = h.value;
  }
  std::vector<std::string> parts;
  for (const auto &[name, pair] : values)
    if (pair.first != pair.second)
      parts.push_back(fmt::format("{} was {}, is {}", name, pair.first, pair.second));
  return fmt::format("{}", fmt::join(parts, ", "));
}

} // namespace

Manifest manifestOf(const plan::Plan &plan, const std::string &planHash) {
  Manifest manifest;
  manifest.planHash = planHash;
  manifest.model = plan.model;
  manifest.hyperparameters = plan.hyperparameters;
  return manifest;
}

std::string checkpointName(int64_t step) { return fmt::format("{}{:06}", stepPrefix, step); }

Result<std::string> saveCheckpoint(const std::string &directory, const Manifest &manifest,
                                   const plan::Plan &plan, Communicator &communicator,
                                   const ReadState &read, bool requireFinite) {
  const bool isFirst = communicator.rank() == 0;
  const std::string name = checkpointName(manifest.step);
  const std::string path = fmt::format("{}/{}", directory, name);

  Result<std::string> made = isFirst ? makeTemporary(directory, name) : Result<std::string>("");
  auto places = outcomes(communicator, made, "directory for a checkpoint");
  auto fail = [&](const Error &error) {
    if (isFirst && made)
      removeTree(*made);
    return error;
  };
  if (!places)
    return fail(places.error());
  const std::string temporary = places->at(0);

  Result<std::vector<FileRecord>> mine =
      saveFiles(temporary, path, plan, communicator, read, requireFinite);
  auto records =
      outcomes(communicator, mine ? Result<std::string>(recordsText(*mine)) : mine.error(),
               "files of a checkpoint");
  if (!records)
    return fail(records.error());

  Status published = ok();
  if (isFirst) {
    published = saveManifest(temporary, path, manifest, plan, *records);
    if (published)
      published = replaceDirectory(temporary, path);
    if (!published)
      removeTree(temporary);
    else
      published = syncDirectory(directory);
  }
  auto done = outcomes(communicator, published ? Result<std::string>("") : published.error(),
                       "publication of a checkpoint");
  if (!done)
    return done.error();
  return path;
}

std::vector<FoundCheckpoint> checkpointsIn(const std::string &directory) {
  std::vector<FoundCheckpoint> found;
  const auto [steps, unreadable] = stepsIn(directory);
  for (const auto &[step, path] : steps) {
    Contents contents;
    if (Result<Manifest> manifest = openManifest(path, contents))
      found.push_back({path, std::move(*manifest)});
  }
  return found;
}

namespace {

Result<Checkpoint> openParts(const std::string &path) {
  Contents contents;
  Result<Manifest> manifest = openManifest(path, contents);
  if (!manifest)
    return manifest.error();
  Result<StoredTensors> parameters = openFiles(path, contents, Role::Parameter);
  if (!parameters)
    return parameters.error();
  Result<StoredTensors> optimizer = openFiles(path, contents, Role::Optimizer);
  if (!optimizer)
    return optimizer.error();
  return Checkpoint{path, std::move(*manifest), std::move(*parameters), std::move(*optimizer)};
}

} // namespace

Result<Checkpoint> openCheckpoint(const std::string &path) {
  try {
    return openParts(path);
  } catch (const std::bad_alloc &) {
    return badInput(fmt::format("{}: takes more memory than there is", path));
  }
}

Result<Checkpoint> findCheckpoint(const std::string &directory, const Report &report) {
  std::error_code error;
  if (std::filesystem::exists(fmt::format("{}/{}", directory, manifestName), error))
    return openCheckpoint(directory);
  const auto [found, unreadable] = stepsIn(directory);
  if (unreadable)
    return badInput(fmt::format("{}: cannot be read: {}", directory, unreadable.message()));
  for (const auto &[step, path] : found) {
    Result<Checkpoint> checkpoint = openCheckpoint(path);
    if (checkpoint) {
      reportOthers(directory, *checkpoint, report);
      return checkpoint;
    }
    report(fmt::format("skipping checkpoint {}: {}", path, checkpoint.error().message));
  }
  return badInput(fmt::format("{}: holds no complete checkpoint", directory));
}

/// What each rank keeps for itself is of as many ranks as go on with it.
static Status checkKeptByRank(const Checkpoint &checkpoint, const plan::Plan &plan) {
  for (const plan::State *state : statesOf(plan, Role::Optimizer)) {
    if (!state->sharding || state->sharding->ranks != plan::Ranks::All)
      continue;
    for (const plan::Sharding::Piece &piece : state->sharding->pieces) {
      auto found = checkpoint.optimizer.tensors().find(piece.name);
      if (found == checkpoint.optimizer.tensors().end())
        continue;
      const std::vector<int64_t> &shape = found->second.shape;
      if (shape.size() == piece.shape.size() && shape.front() != piece.shape.front())
        return badInput(fmt::format("checkpoint {}: state '{}' is kept by rank, of {} ranks in the "
                                    "checkpoint and of {} here: go on with {} ranks",
                                    checkpoint.path, piece.name, shape.front(), piece.shape.front(),
                                    shape.front()));
    }
  }
  return ok();
}

Status checkPlan(const Checkpoint &checkpoint, const plan::Plan &plan, const std::string &planHash,
                 const Report &report) {
  Status status = checkTensors("its set of parameters", checkpoint.parameters.tensors(),
                               tensorsOf(statesOf(plan, Role::Parameter)));
  if (status)
    status = checkTensors("its optimizer state", checkpoint.optimizer.tensors(),
                          tensorsOf(statesOf(plan, Role::Optimizer)));
  if (Status kept = checkKeptByRank(checkpoint, plan); !kept)
    return kept;
  const Manifest &manifest = checkpoint.manifest;
  std::string changed = differences(manifest.hyperparameters, plan.hyperparameters);
  if (manifest.model != plan.model)
    changed = fmt::format("model was {}, is {}{}{}", manifest.model, plan.model,
                          changed.empty() ? "" : ", ", changed);
  if (changed.empty())
    changed = "same model name and hyperparameters, compiled otherwise";
  if (!status)
    return badInput(fmt::format("checkpoint {} was made by another plan ({}): {}", checkpoint.path,
                                changed, status.error().message));
  if (manifest.planHash != planHash)
    report(fmt::format(
        "checkpoint {} was made by another plan ({}); its states fit, so the run goes on from it",
        checkpoint.path, changed));
  return ok();
}

} // namespace nano
