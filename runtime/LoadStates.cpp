// States from stored tensors: the next elements come from the disk and are converted while the
// last ones are written to the device.
#include "runtime/NonFinite.h"
#include "runtime/States.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <thread>

namespace nano {

namespace {

/// "[3, 0]": where an element of a tensor stands, by its number.
std::string indexText(const std::vector<int64_t> &shape, uint64_t element) {
  std::vector<int64_t> index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = int64_t(element % uint64_t(shape[axis]));
    element /= uint64_t(shape[axis]);
  }
  return shapeText(index);
}

/// Whether all values of a stretch of a tensor are finite.
Status checkFinite(const StateRun &run, const TensorSource::Stretch &stretch) {
  const plan::DType type = run.state->type;
  const uint64_t size = plan::sizeOf(type);
  const std::optional<uint64_t> place =
      firstNonFinite(type, stretch.bytes.data(), stretch.bytes.size() / size);
  if (!place)
    return ok();
  const float value = valueOf(type, stretch.bytes.data() + *place * size);
  return badInput(fmt::format(
      "{}: tensor '{}' holds {} at {}; give values that are finite, or --allow-non-finite to "
      "start from these",
      stretch.file, run.tensor, std::isnan(value) ? "NaN" : "infinity",
      indexText(run.shape, stretch.first + *place)));
}

/// Reads runs on threads of its own, a run each at a time, and hands out what they have read, one
/// stretch after the other and those of a run in order. A thread waits until its stretch is taken,
/// so that no more than one a thread is held.
class RunReaders {
public:
  RunReaders(const TensorSource &stored, const std::vector<StateRun> &runs, bool requireFinite)
      : stored(stored), runs(runs), requireFinite(requireFinite), firstBad(runs.size()) {
    // One has read while another's elements are taken.
    constexpr size_t most = 2;
    const size_t count = std::min(most, runs.size());
    reading = count; // which the first one lowers when it ends, perhaps before the last has begun
    for (size_t i = 0; i < count; ++i)
      threads.emplace_back([this] { readRuns(); });
  }
  ~RunReaders() {
    {
      std::lock_guard lock(mutex);
      stopped = true;
    }
    changed.notify_all();
    for (std::thread &thread : threads)
      thread.join();
  }

  using Take = std::function<Status(size_t run, const TensorSource::Stretch &stretch)>;
  /// The error of the first run that has one: all before it are read.
  Status takeAll(const Take &take) {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return !offered.empty() || reading == 0; });
      if (offered.empty())
        break;
      Offer &offer = *offered.front();
      offered.pop_front();
      lock.unlock();
      Status status = take(offer.run, offer.stretch);
      lock.lock();
      offer.status = std::move(status);
      offer.isTaken = true;
      changed.notify_all();
    }
    if (thrown)
      std::rethrow_exception(thrown);
    return error;
  }

private:
  /// A stretch that somebody must take.
  struct Offer {
    size_t run;
    const TensorSource::Stretch &stretch;
    Status status = ok();
    bool isTaken = false;
  };

  void readRuns() {
    std::unique_lock lock(mutex);
    while (!stopped && !thrown && error && next < runs.size()) {
      const size_t mine = next++;
      lock.unlock();
      Status status = ok();
      std::exception_ptr caught;
      try {
        status = read(mine);
      } catch (...) { // no memory; whoever takes stretches hears of it
        caught = std::current_exception();
      }
      lock.lock();
      if (caught)
        thrown = caught;
      if (!status && mine < firstBad) {
        firstBad = mine;
        error = std::move(status);
      }
    }
    --reading;
    changed.notify_all();
  }

  Status read(size_t number) {
    const StateRun &run = runs[number];
    return stored.read(run.tensor, run.first, run.count,
                       [&](const TensorSource::Stretch &stretch) -> Status {
                         if (requireFinite)
                           if (Status status = checkFinite(run, stretch); !status)
                             return status;
                         return offer(number, stretch);
                       });
  }

  Status offer(size_t run, const TensorSource::Stretch &stretch) {
    Offer mine{run, stretch};
    std::unique_lock lock(mutex);
    offered.push_back(&mine);
    changed.notify_all();
    changed.wait(lock, [&] { return mine.isTaken || stopped; });
    return mine.isTaken ? std::move(mine.status) : failed("stopped");
  }

  const TensorSource &stored;
  const std::vector<StateRun> &runs;
  const bool requireFinite;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Offer *> offered;
  size_t next = 0;     ///< run to be read
  size_t reading;      ///< threads that do
  size_t firstBad;     ///< run with an error
  Status error = ok(); ///< that run's
  std::exception_ptr thrown;
  bool stopped = false;
  std::vector<std::thread> threads;
};

} // namespace

Status loadStates(const TensorSource &stored, const std::vector<const plan::State *> &states,
                  const Seat &seat, const WriteState &write, const ClearState &clear,
                  const Say &say, bool requireFinite) {
  for (const plan::State *state : states)
    if (state->sharding)
      if (Status status = clear(*state); !status)
        return status;
  const std::vector<StateRun> runs = heldRuns(states, seat);
  std::vector<std::string> files(runs.size()); // that runs are being read from
  RunReaders readers(stored, runs, requireFinite);
  return readers.takeAll([&](size_t number, const TensorSource::Stretch &stretch) {
    const StateRun &run = runs[number];
    if (say && files[number] != stretch.file) {
      files[number] = stretch.file;
      say(fmt::format("reading '{}' from {}", run.tensor, stretch.file));
    }
    const uint64_t size = plan::sizeOf(run.state->type);
    return write(*run.state, (run.local + stretch.first - run.first) * size, stretch.bytes.data(),
                 stretch.bytes.size());
  });
}

} // namespace nano
