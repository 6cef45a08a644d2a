// What a rank has before its first step: a device, states from initial values, a parameters file or
// a checkpoint, and scalars.
#pragma once

#include "base/Status.h"
#include "runtime/Device.h"
#include "runtime/data/BatchReader.h"
#include "runtime/files/Checkpoint.h"
#include "runtime/files/ImportedTensors.h"
#include "runtime/files/StoredTensors.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nano {

/// Makes one rank's device; called in the rank's thread.
using MakeDevice = std::function<Result<std::unique_ptr<Device>>(const plan::Plan &, Communicator &,
                                                                 const DeviceOptions &)>;

/// Where the states come from; empty text means that the option was not given.
struct StartOptions {
  uint64_t seed = 0;                   ///< for initial values
  std::string init;                    ///< parameters file, or a HuggingFace folder
  std::vector<std::string> initIgnore; ///< ImportOptions::ignore
  std::string resume;                  ///< directory of checkpoints
  bool allowNonFinite = false;         ///< files may hold NaN and infinity
};

/// Files opened and checked against the plan, once for all ranks of the process.
class Start {
public:
  /// BadInput: a file that is missing, damaged, or does not fit the plan; both `init` and `resume`
  /// given. `report` receives lines for the user.
  static Result<Start> open(const plan::Plan &plan, const std::string &planHash,
                            const StartOptions &options, const Report &report);

  /// Writes every state of one rank. `say` hears which one. BadInput for a stored value that is not
  /// finite, where the options do not allow it.
  Status write(const plan::Plan &plan, const Seat &seat, Device &device, int threads,
               const Say &say = {}) const;
  /// The checkpoint's manifest, when there is one.
  const Manifest *manifest() const { return checkpoint ? &checkpoint->manifest : nullptr; }
  /// Of the file of initial parameters, 16 hex digits; empty without one. Reads all of it.
  Result<std::string> initHash() const;
  /// The seed that the initial values were made with: the checkpoint's, else the option's.
  uint64_t seed() const { return checkpoint ? checkpoint->manifest.seed : options.seed; }

private:
  Status openInit(const plan::Plan &plan, const Report &report);

  StartOptions options;
  std::optional<Checkpoint> checkpoint;
  std::unique_ptr<TensorSource> parameters;
};

/// Writes all scalars of the plan for optimizer step `step` and sequence `sequence` of its global
/// batch (both 0-based), of a run of that seed, to the device. Failed when an f32 one is not
/// finite.
Status writeScalars(const plan::Plan &plan, int64_t step, int world, Device &device,
                    uint64_t seed = 0, int64_t sequence = 0);
/// Whether they are others for each sequence of a batch.
bool scalarsVaryBySequence(const plan::Plan &plan);
/// The program that a rank runs on micro-batch `microBatch` (from 0) of step `step`, 0-based; needs
/// a stage that trains; the step is one of it.
const std::string &programOf(const plan::Training &stage, int64_t step, int64_t microBatch,
                             int world);
/// The value of the plan's scalar of that name at that step; 0 when it has none.
double scalarAt(const plan::Plan &plan, const std::string &name, int64_t step, int world);
/// The value of the plan's log scalar at that step; 0 when it names none.
double logScalar(const plan::Plan &plan, int64_t step, int world);
/// Threads that each of `world` ranks on this machine may use: `threads`, or its share of the
/// machine's cores when that is 0.
int threadsPerRank(int threads, int world);

/// The device's states as places to copy from and to.
ReadState readerOf(Device &device);
WriteState writerOf(Device &device);

/// Gives the device a sequence as inputs of a program: tokens, targets and columns into their
/// buffers.
Status writeSequence(const SequenceData &data, uint32_t tokens, uint32_t targets,
                     const std::vector<plan::Column> &columns, Device &device);

} // namespace nano
