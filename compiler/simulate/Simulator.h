// Runs a plan's steps on a model of its ranks, streams, events and links.
#pragma once

#include "compiler/simulate/Costs.h"
#include "ir/machine/Machine.h"
#include "runtime/plan/Plan.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace nano::simulate {

struct Settings {
  int64_t world = 1;
  std::vector<std::pair<int64_t, double>> stragglers; ///< rank, how many times as long it computes
  /// How uneven links are: a member of a collective makes it 1 + jitter·x times as long, x drawn
  /// anew each time with mean 1 (exponential); the slowest member counts.
  double jitter = 0;
  uint64_t seed = 0;
  bool isDetailed = false; ///< fills the last three of Outcome, and `onDevice.exposed`
  const plan::Training *stage = nullptr; ///< of the plan's run, whose steps run; null: the first
};

/// What nanorun copies around a program, beside its commands.
enum class Transfer : uint8_t {
  None,
  Upload,   ///< a batch and the step's scalars, to pinned memory's counterpart on the device
  Place,    ///< from there to their buffers
  Readback, ///< of the loss, to the host
};

/// A command of the plan, or a transfer around one of its programs, and seconds of each step that
/// it answers for.
struct Share {
  const plan::Command *command = nullptr; ///< null: a transfer
  double seconds = 0;
  Transfer transfer = Transfer::None;
};

/// A command or a transfer on a rank, seconds from the first shown step's start.
struct Span {
  int64_t rank = 0;
  uint32_t program = 0, command = 0; ///< indices of the plan; of a transfer its program alone
  double start = 0, finish = 0;
  Transfer transfer = Transfer::None;
};

/// Copies of one kind in a step of a rank.
struct Copying {
  double bytes = 0, seconds = 0;
  double exposed = 0; ///< of `seconds`: no other command runs, or is held up
};

/// Seconds of one step of a stage in the steady state: the mean over a cycle of the plan's phases,
/// and of the ranks that were looked at (all of up to 64). step = computing + exposed + idle.
struct Outcome {
  double step = 0;
  double computing = 0;         ///< a command that is no collective runs
  double communicating = 0;     ///< a collective runs or waits for other ranks
  double exposed = 0;           ///< of that, nothing computes
  double idle = 0;              ///< neither: launches, waits for the host
  Copying onDevice;             ///< the plan's copies, fills and shards
  Copying toDevice, toHost;     ///< uploads, with what places them; readbacks
  std::vector<Share> exposedBy; ///< by collective, the longest first
  std::vector<Share>
      path; ///< the critical path: commands with what lies before each on it, in order
  std::vector<Span> spans; ///< of a handful of ranks, stragglers among them
};

/// Simulates a cycle of the plan's phases after a first that brings it into the steady state.
///
/// Every rank runs the programs of a step one after the other, each when all streams of the one
/// before it have ended. A stream runs its commands in order; a wait holds it until the event's
/// record was reached. A collective starts when all its members have reached it and ends for all at
/// once. Where the machine does one thing at a time, the program's order is that of all commands.
/// Commands are walked in an order in which every cause precedes its effects, so that times follow
/// by maxima and sums, for all ranks together; ranks that are all alike are walked once. It is the
/// program's, but for collectives, which come as early as their events allow: while one runs, what
/// computes takes `besideCollectives` as long, wherever it stands in the program. Commands of two
/// streams share the memory: the later one of the program goes on with what the earlier one leaves
/// of it.
///
/// A micro-batch's tokens and targets, for the first of a step its scalars too, go to the device
/// while the program before it runs, as nanorun brings them, and to their places when it has ended;
/// the loss comes back behind each micro-batch. The host waits for the last one's, so that what
/// follows is not uploaded before.
Outcome simulate(const plan::Plan &plan, const machine::Machine &machine, const Costs &costs,
                 const Settings &settings);

} // namespace nano::simulate
