// Checkpoints: DIR/step-000123/ with params.safetensors, optimizer.safetensors and manifest.json,
// there whole or not at all.
//
// A checkpoint is written into a directory of another name; its files are fsynced, then the
// directory, then it is renamed and DIR fsynced. A run that dies at any moment leaves at most a
// directory `.step-….tmp-PID`, which the next save there removes.
//
// manifest.json: {"format": "nano checkpoint", "version": 1, "step", "data": {"shard", "file",
// "position", "epoch"}, "seed", "plan_hash", "model", "world", "hyperparameters": {name: text},
// "files": [{"name", "bytes", "xxh3"}], "checksum"}; step counts finished optimizer steps; data
// says where the next batch begins; xxh3 is 16 hex digits of XXH3 (64 bits) over the file, checksum
// the same over the manifest as compact JSON with sorted keys and without the checksum.
#pragma once

#include "runtime/States.h"
#include "runtime/files/Safetensors.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace nano {

/// What a checkpoint says about the run that made it.
struct Manifest {
  int64_t step = 0;      ///< optimizer steps done
  uint64_t shard = 0;    ///< index of the training shard that is being read
  std::string shardFile; ///< its name without directories
  uint64_t position = 0; ///< tokens of it that are used up
  uint64_t epoch = 0;    ///< how often the reader started again at the first shard
  uint64_t seed = 0;
  std::string planHash;
  std::string model;
  int64_t world = 1;
  std::vector<plan::Hyperparameter> hyperparameters; ///< `overridden` is not kept
};

/// A checkpoint that was found complete: sizes and checksums agree with the manifest.
struct Checkpoint {
  std::string path; ///< DIR/step-000123
  Manifest manifest;
  SafetensorsFile parameters;
  SafetensorsFile optimizer;
};

/// Receives one line for the user.
using Report = std::function<void(const std::string &line)>;

/// The manifest's values that a plan determines.
Manifest manifestOf(const plan::Plan &plan, const std::string &planHash);

/// "step-000123"
std::string checkpointName(int64_t step);

/// Publishes a checkpoint of the plan's parameters and optimizer states below `directory`, in place
/// of one of the same step. Returns its path. On failure everything that was there before is
/// intact; the errors of `writeError`, `storeStates` and `read`.
Result<std::string> saveCheckpoint(const std::string &directory, const Manifest &manifest,
                                   const plan::Plan &plan, const ReadState &read);

/// Opens one checkpoint and verifies it. BadInput: why it is not complete.
Result<Checkpoint> openCheckpoint(const std::string &path);

/// The newest complete checkpoint below `directory` (or `directory` itself when it is one);
/// `report` hears of every newer one that is not complete and why. BadInput when there is none.
Result<Checkpoint> findCheckpoint(const std::string &directory, const Report &report);

/// Whether the plan can go on from the checkpoint: its states must agree in name, shape and type,
/// else BadInput. When the plan is another one all the same, `report` hears what differs.
Status checkPlan(const Checkpoint &checkpoint, const plan::Plan &plan, const std::string &planHash,
                 const Report &report);

} // namespace nano
