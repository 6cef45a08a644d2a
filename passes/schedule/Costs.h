// How many seconds a command of step IR takes: measured where a run has measured it, else by what a
// machine can do.
#pragma once

#include "ir/machine/LabelledTimes.h"
#include "ir/machine/Machine.h"
#include "ir/step/Step.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace nano::schedule {

/// What commands of a module cost.
class Costs {
public:
  /// Reads the module's number of ranks and size of a group. Errors: as Machine::checkRanks.
  static llvm::Expected<Costs> make(machine::Machine machine, machine::LabelledTimes times,
                                    mlir::ModuleOp module);

  /// 0 for records and waits; never measured for collectives. A launch takes as long as its
  /// operands' bytes and, of attention, its operations do; how many keys a query sees depends on
  /// the documents and is taken to be `assumedKeys`, or all there are.
  double seconds(step::StepCommandOpInterface command, llvm::StringRef program,
                 const step::KernelTable &kernels) const;
  /// The share of a command's `seconds` in which its bytes keep the memory busy, 1 where that is
  /// nearly all; 0 for collectives.
  double memoryShare(step::StepCommandOpInterface command, double seconds,
                     const step::KernelTable &kernels) const;
  /// What it takes a stream to go on behind another one's event: as from command to command, once
  /// to tell and once to hear of it.
  double event() const { return 2 * machine.command(); }
  /// False where commands run one after the other whatever their streams.
  bool hasStreams() const { return !machine.oneAtATime; }
  static constexpr int64_t assumedKeys = 512;

private:
  double estimate(step::StepCommandOpInterface command, const step::KernelTable &kernels) const;
  double product(step::MatmulOp matmul) const;
  double collective(mlir::Operation *command) const;

  machine::Machine machine;
  machine::LabelledTimes times;
  int64_t world = 1, group = 1;
};

/// Whether copies to the host's memory and from there can run beside the computation.
inline bool canOffload(const machine::Machine &machine) {
  return machine.host.bandwidth > 0 && !machine.oneAtATime;
}

/// The bytes of what all ranks of a collective have together of one set: of an all-reduce its
/// buffers, of a reduce-scatter its sources, of an all-gather its targets. 0 for other commands.
int64_t collectiveBytes(mlir::Operation *command);

} // namespace nano::schedule
