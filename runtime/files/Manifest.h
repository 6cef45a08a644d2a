// A checkpoint's manifest.json: what made it, and what its files are.
//
// {"format": "nano checkpoint", "version": 2, "step", "data": {"shard", "file", "position",
// "epoch", "rule", "files", "tokens", "fingerprint"}, "seed", "run": {"id", "settings", "from":
// [{"id", "step"}]}, "plan_hash", "model", "world", "hyperparameters": {name: text}, "files":
// [{"name", "holds": "parameters" or "optimizer", "bytes", "xxh3"}], "parameters": {name: {"dtype",
// "shape"}}, "optimizer": the same, "checksum"}; step counts finished optimizer steps; data says
// where the next batch begins; xxh3 is 16 hex digits of XXH3 (64 bits) over the file, checksum the
// same over the manifest as compact JSON with sorted keys and without the checksum. Version 1 has
// neither "holds" nor tables of tensors: params.safetensors and optimizer.safetensors hold whole
// ones. "run" may be missing: then nothing is known of whose the checkpoint is.
#pragma once

#include "base/Status.h"
#include "runtime/files/Safetensors.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nano {

struct Manifest;

/// Which run a checkpoint is of: runs with the same identity make the same checkpoints.
struct RunIdentity {
  std::string id;       ///< 16 hex digits; empty: not known
  std::string settings; ///< 16 hex digits of what it was run with: plan and shards
  /// Runs that it goes on from, oldest first, each with the last of its steps that is part of this
  /// one.
  std::vector<std::pair<std::string, int64_t>> from;

  /// Whether the checkpoint is this run's, or one of those that it goes on from.
  bool owns(const Manifest &checkpoint) const;
};

/// What a run's training data were, and how batches were cut of them.
struct DataSet {
  std::string rule = "contiguous"; ///< plan::nameOf of the rule
  uint64_t files = 0, tokens = 0;
  std::string fingerprint; ///< of the shards; empty: not known
};

/// What a checkpoint says about the run that made it.
struct Manifest {
  int64_t step = 0;      ///< optimizer steps done
  uint64_t shard = 0;    ///< place of the training shard that is being read in the epoch's order
  std::string shardFile; ///< its name without directories
  uint64_t position = 0; ///< tokens of it that are used up, or documents, as the rule has it
  uint64_t epoch = 0;    ///< how often the reader started again at the first shard
  DataSet data;
  uint64_t seed = 0;
  RunIdentity run;
  std::string planHash;
  std::string model;
  int64_t world = 1;
  std::vector<plan::Hyperparameter> hyperparameters; ///< `overridden` is not kept
  std::string checksum; ///< of all that the manifest says, its files' checksums too; when read
};

/// A file of a checkpoint.
struct FileRecord {
  std::string name; ///< without directories
  plan::State::Role holds = plan::State::Role::Parameter;
  uint64_t bytes = 0;
  std::string checksum; ///< 16 hex digits
};

/// What a checkpoint consists of.
struct Contents {
  std::vector<FileRecord> files;
  /// The tensors in the files; none in version 1, where the files say it.
  std::optional<TensorTable> parameters, optimizer;
};

inline constexpr const char *manifestName = "manifest.json";

/// The manifest as text, in the newest version.
std::string manifestText(const Manifest &manifest, const Contents &contents);
/// Reads it; the error is what is wrong, without the file.
Result<Manifest> parseManifest(const std::string &text, Contents &contents);

/// Records as text, for ranks that tell each other what they wrote, and back. The text comes from a
/// rank of the same program: one that cannot be read is Failed.
std::string recordsText(const std::vector<FileRecord> &files);
Result<std::vector<FileRecord>> parseRecords(const std::string &text);

/// 16 hex digits.
std::string hexText(uint64_t value);

} // namespace nano
