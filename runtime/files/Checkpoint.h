// Checkpoints: DIR/step-000123/ with files of parameters, files of optimizer states and
// manifest.json (`Manifest.h`), there whole or not at all.
//
// All ranks write one: each writes the files params-RANK.safetensors and optimizer-RANK.safetensors
// with its share of the states (`ownRuns`); one rank alone params.safetensors and
// optimizer.safetensors. What is written are tensors as one rank has them, in stretches
// (`StoredTensors.h`), so that a checkpoint of any number of ranks loads at any other.
//
// The files are written into a directory of another name and fsynced; when every rank has done so,
// rank 0 writes the manifest, fsyncs it and the directory, renames the directory and fsyncs DIR. A
// run that dies at any moment leaves at most a directory `.step-….tmp-PID`, which the next save
// there removes.
#pragma once

#include "base/Status.h"
#include "runtime/States.h"
#include "runtime/comm/Communicator.h"
#include "runtime/files/Manifest.h"
#include "runtime/files/StoredTensors.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace nano {

/// A checkpoint that was found complete: sizes and checksums agree with the manifest.
struct Checkpoint {
  std::string path; ///< DIR/step-000123
  Manifest manifest;
  StoredTensors parameters;
  StoredTensors optimizer;
};

/// Receives one line for the user.
using Report = std::function<void(const std::string &line)>;

/// The manifest's values that a plan determines.
Manifest manifestOf(const plan::Plan &plan, const std::string &planHash);

/// "step-000123"
std::string checkpointName(int64_t step);

/// Publishes a checkpoint of the plan's parameters and optimizer states below `directory`, in place
/// of one of the same step; called by every rank, `manifest` and `directory` count on rank 0.
/// Returns its path. When one rank fails all return its error, and everything that was there before
/// is intact; the errors of `writeError`, `storeRuns` (as `requireFinite` says), `read` and of the
/// communicator.
Result<std::string> saveCheckpoint(const std::string &directory, const Manifest &manifest,
                                   const plan::Plan &plan, Communicator &communicator,
                                   const ReadState &read, bool requireFinite = true);

/// A checkpoint whose manifest is whole; its files may not be.
struct FoundCheckpoint {
  std::string path; ///< DIR/step-000123
  Manifest manifest;
};
/// Those below `directory`; what cannot be read is left out.
std::vector<FoundCheckpoint> checkpointsIn(const std::string &directory);

/// Opens one checkpoint and verifies it. BadInput: why it is not complete.
Result<Checkpoint> openCheckpoint(const std::string &path);

/// The newest complete checkpoint below `directory` (or `directory` itself when it is one);
/// `report` hears of every newer one that is not complete and why, and of those that belong to
/// another run than the one that is found. BadInput when there is none.
Result<Checkpoint> findCheckpoint(const std::string &directory, const Report &report);

/// Whether the plan can go on from the checkpoint: its states must agree in name, shape and type,
/// and those that each rank keeps for itself in the number of ranks, else BadInput. When the plan
/// is another one all the same, `report` hears what differs.
Status checkPlan(const Checkpoint &checkpoint, const plan::Plan &plan, const std::string &planHash,
                 const Report &report);

} // namespace nano
