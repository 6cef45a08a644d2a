// A device that runs the programs of `makePlan` as a few lines of C++: the training loop is tested
// without a compiler.
//
// The model: weight w, bias b (never changed), one of each a token; the loss of a token is
// ½(w[token] + b[token] − target/vocab)². `first`, `next` and `last` add up the loss and the
// gradient of their sequence, `last` sums gradients over ranks, `update` takes a step of gradient
// descent with momentum 0.9; `validate` gives the mean loss; `generate` prefers (token + 1) mod
// vocab by 20. Hyperparameters: fake_sleep_ms (time of a micro-batch), fake_nan_step (the 1-based
// step whose loss is NaN; fake_nan_sequence: only that of this sequence of the batch),
// fake_fail_step (the step whose `update` fails on rank fake_fail_rank), fake_fail_check (1:
// running commands one by one fails), fake_report_zero (1: `measure` reports nothing but zeros),
// fake_watts (what its counter of energy gains a second; without it there is none),
// fake_uncounted_rank (the rank that has none), fake_shared_counter (1: all ranks have the same
// one).
#pragma once

#include "runtime/Device.h"
#include "runtime/NumberFormats.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace nano::test {

class FakeDevice : public Device {
public:
  /// Called before every program, with its name and this device.
  using OnRun = std::function<void(const std::string &program, FakeDevice &device)>;

  FakeDevice(const plan::Plan &plan, Communicator &communicator, OnRun onRun = {},
             DeviceOptions options = {})
      : plan(plan), training(&plan.training), communicator(communicator), onRun(std::move(onRun)),
        options(std::move(options)), arena(plan.arenaBytes) {}

  Status write(uint32_t buffer, uint64_t offset, const void *data, uint64_t bytes) override {
    if (offset + bytes > plan.buffers.at(buffer).bytes)
      return failed("write beyond the buffer");
    std::memcpy(arena.data() + plan.buffers[buffer].offset + offset, data, bytes);
    return ok();
  }
  Status clear(uint32_t buffer) override {
    const plan::Buffer &cleared = plan.buffers.at(buffer);
    std::memset(arena.data() + cleared.offset, 0, cleared.bytes);
    return ok();
  }
  Status read(uint32_t buffer, uint64_t offset, void *data, uint64_t bytes) override {
    if (offset + bytes > plan.buffers.at(buffer).bytes)
      return failed("read beyond the buffer");
    std::memcpy(data, arena.data() + plan.buffers[buffer].offset + offset, bytes);
    return ok();
  }
  std::string describe() const override { return "fake device"; }
  /// A program has one command at most, which is all of it.
  Status runCommand(const std::string &program, size_t command) override {
    return setting("fake_fail_check") == 1 ? failed("fake command failed") : run(program);
  }
  EnergyCounter energy() const override {
    const int64_t watts = setting("fake_watts");
    if (watts < 0 || setting("fake_uncounted_rank") == rank())
      return {{}, "the fake counts nothing", ""};
    return {[watts] {
              const auto now = std::chrono::steady_clock::now().time_since_epoch();
              return double(watts) * std::chrono::duration<double>(now).count();
            },
            "fakes", setting("fake_shared_counter") == 1 ? "fake" : std::to_string(rank())};
  }
  std::vector<CommandTime> times() const override { return commandTimes; }
  std::vector<CommandSpan> takeSpans() override { return std::exchange(spans, {}); }

  Status run(const std::string &program) override {
    if (onRun)
      onRun(program, *this);
    measure(program);
    bool isFirst = false, isLast = false, isNext = false, updates = false;
    for (const plan::Training *stage : plan::stagesOf(plan))
      for (const plan::StepPrograms &phase : stage->phases)
        if (program == phase.first || program == phase.next || program == phase.last)
          training = stage;
    for (const plan::StepPrograms &phase : training->phases) {
      isFirst |= program == phase.first;
      isNext |= program == phase.next;
      isLast |= program == phase.last;
      updates |= program == phase.last && phase.update.empty();
      if (program == phase.update)
        return update();
    }
    if (isFirst || isNext || isLast) {
      const bool isAlone = training->globalBatch == training->seqLen * communicator.world();
      Status status = microBatch(isFirst || (isLast && isAlone), isLast);
      return status && updates ? update() : status;
    }
    if (program == training->validate) {
      *at<float>(training->valLossBuffer) =
          float(loss(at<int32_t>(training->valTokensBuffer),
                     at<int32_t>(training->valTargetsBuffer), training->valSeqLen, nullptr) /
                double(training->valSeqLen));
      return ok();
    }
    if (program == training->measure) {
      // Numbers that grow from run to run and from rank to rank.
      float *report = at<float>(training->reportBuffer);
      ++measured;
      for (int64_t i = 0; i < plan::reportColumns; ++i)
        report[i] = setting("fake_report_zero") == 1
                        ? 0
                        : float(measured) * float(1 + rank()) * float(i + 1) / 1024;
      return ok();
    }
    float *logits = at<float>(training->logitsBuffer);
    for (int64_t t = 0; t < training->genSeqLen; ++t)
      for (int64_t c = 0; c < training->logitsColumns; ++c) {
        bool isNext = c == (at<int32_t>(training->genTokensBuffer)[t] + 1) % training->vocabSize;
        logits[t * training->logitsColumns + c] = isNext                    ? 20.0F
                                                  : c < training->vocabSize ? 0.0F
                                                                            : 100.0F;
      }
    return ok();
  }

  Status prepareAhead(const std::vector<std::string> &programs) override {
    for (const std::string &program : programs)
      if (onRun)
        onRun("ahead: " + program, *this);
    return ok();
  }

  int rank() const { return communicator.rank(); }
  int64_t updates() const { return updatesDone; }
  /// The content of a buffer.
  template <typename T> T *at(uint32_t buffer) {
    return reinterpret_cast<T *>(arena.data() + plan.buffers[buffer].offset);
  }
  float *learningRate() { return at<float>(plan.scalarBuffer); }
  int32_t *window() { return at<int32_t>(plan.scalarBuffer) + 1; }

private:
  int64_t setting(const std::string &name) const {
    for (const plan::Hyperparameter &h : plan.hyperparameters)
      if (h.name == name)
        return std::stoll(h.value);
    return -1;
  }
  template <typename T> T *state(size_t index) { return at<T>(plan.states[index].buffer); }

  double loss(const int32_t *tokens, const int32_t *targets, int64_t count, float *gradient) {
    const float *weight = state<float>(0);
    const uint16_t *bias = state<uint16_t>(1);
    double sum = 0;
    for (int64_t t = 0; t < count; ++t) {
      double error = double(weight[tokens[t]]) + fromBf16(bias[tokens[t]]) -
                     double(targets[t]) / double(training->vocabSize);
      sum += 0.5 * error * error;
      if (gradient)
        gradient[tokens[t]] += float(error);
    }
    return sum;
  }

  Status microBatch(bool isFirst, bool isLast) {
    if (int64_t sleep = setting("fake_sleep_ms"); sleep > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(sleep));
    float *gradient = state<float>(3);
    if (isFirst)
      std::fill(gradient, gradient + training->vocabSize, 0.0F);
    *at<float>(training->lossBuffer) =
        float(loss(at<int32_t>(training->tokensBuffer), at<int32_t>(training->targetsBuffer),
                   training->seqLen, gradient));
    sequence = isFirst ? rank() : sequence + communicator.world();
    const int64_t nanSequence = setting("fake_nan_sequence");
    if (setting("fake_nan_step") == updatesDone + 1 && (nanSequence < 0 || nanSequence == sequence))
      *at<float>(training->lossBuffer) = std::numeric_limits<float>::quiet_NaN();
    if (!isLast)
      return ok();
    return communicator.allReduce(gradient, training->vocabSize, plan::DType::F32, Combine::Sum,
                                  plan::Ranks::All, "gradient");
  }

  /// Every command takes a second for each rank before this one and one more.
  void measure(const std::string &program) {
    for (const plan::Program &each : plan.programs)
      for (const plan::Command &command : each.commands) {
        if (each.name != program)
          continue;
        const double seconds = rank() + 1;
        if (options.trace)
          spans.push_back({&command, clock, seconds});
        clock += seconds;
        auto found =
            std::find_if(commandTimes.begin(), commandTimes.end(),
                         [&](const CommandTime &time) { return time.command == &command; });
        if (found == commandTimes.end())
          found = commandTimes.insert(found, {&command, 0, 0});
        ++found->runs;
        found->seconds += seconds;
      }
  }

  Status update() {
    ++updatesDone;
    if (setting("fake_fail_step") == updatesDone && setting("fake_fail_rank") == rank())
      return failed("fake failure");
    float *weight = state<float>(0), *momentum = state<float>(2), *gradient = state<float>(3);
    int64_t count = training->globalBatch / training->seqLen;
    auto sequences = float(count);
    for (int64_t i = 0; i < training->vocabSize; ++i) {
      momentum[i] = 0.9F * momentum[i] + gradient[i] / sequences;
      weight[i] -= 0.1F * *learningRate() * momentum[i];
    }
    return ok();
  }

  int64_t measured = 0;
  const plan::Plan &plan;
  const plan::Training *training; ///< the stage of the step's program that ran last
  Communicator &communicator;
  OnRun onRun;
  DeviceOptions options;
  std::vector<std::byte> arena;
  int64_t updatesDone = 0;
  int64_t sequence = 0; ///< of the batch, the one that ran last
  double clock = 0;
  std::vector<CommandTime> commandTimes;
  std::vector<CommandSpan> spans;
};

} // namespace nano::test
