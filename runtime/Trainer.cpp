// Prepares a run and lets its ranks do it.
#include "runtime/Trainer.h"

#include "runtime/Interrupt.h"
#include "runtime/Job.h"
#include "runtime/Rank.h"

#include <memory>
#include <string>

namespace nano {

Status train(const plan::Plan &plan, const std::string &planHash, const TrainOptions &options,
             const MakeDevice &makeDevice, Console &console, Crew *given) {
  InterruptGuard guard;
  std::unique_ptr<Crew> threads = given ? nullptr : Crew::threads(options.world);
  Crew &crew = given ? *given : *threads;
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
