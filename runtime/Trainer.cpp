// Prepares a run and lets its ranks do it.
#include "runtime/Trainer.h"

#include "runtime/Interrupt.h"
#include "runtime/Job.h"
#include "runtime/Rank.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace nano {

/// The plan without the programs that no step of the run begins: a device need not make their
/// kernels and products ready. What is tuned is kept for all of the plan's runs.
static plan::Plan planOfRun(const plan::Plan &plan, const TrainOptions &options) {
  plan::Plan own = plan;
  if (options.tune)
    return own;
  std::set<std::string> begun;
  for (const plan::Training *stage : plan::stagesOf(plan)) {
    for (const plan::StepPrograms &phase : stage->phases)
      begun.insert({phase.first, phase.next, phase.last, phase.update});
    for (const plan::Event &event : stage->events)
      begun.insert(event.program);
    if (!options.val.empty())
      begun.insert(stage->validate);
    if (options.fp8Report || !options.calibrate.empty())
      begun.insert(stage->measure);
  }
  std::erase_if(own.programs,
                [&](const plan::Program &program) { return begun.count(program.name) == 0; });
  return own;
}

Status train(const plan::Plan &whole, const std::string &planHash, const TrainOptions &options,
             const MakeDevice &makeDevice, Console &console, Crew *given) {
  InterruptGuard guard;
  std::unique_ptr<Crew> threads = given ? nullptr : Crew::threads(options.world);
  Crew &crew = given ? *given : *threads;
  const plan::Plan plan = planOfRun(whole, options);
  Job job(plan, planHash, options, makeDevice, console);
  job.startTimes.end("plan");
  if (Status status = job.prepare(crew); !status) {
    crew.abort(status.error().message);
    return status;
  }
  job.startTimes.end("files");
  Status status =
      crew.run([&](Communicator &communicator) { return Rank(job, communicator).run(); });
  console.endLive();
  std::string reason = status ? "done" : status.error().message;
  Status logged = job.log.end(job.done, reason);
  return status ? logged : status;
}

} // namespace nano
