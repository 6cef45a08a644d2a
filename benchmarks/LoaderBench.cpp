// What the ranks of one machine can read by every rule for documents, and what a step of a plan
// takes with the loader beside one on data that do not change.
#include "runtime/Device.h"
#include "runtime/Start.h"
#include "runtime/States.h"
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/data/Loader.h"
#include "runtime/plan/PlanFile.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace {

using namespace nano;
using Clock = std::chrono::steady_clock;
using Rule = plan::Documents::Rule;

[[noreturn]] void end(const Error &error) {
  fmt::print(stderr, "LoaderBench: {}\n", error.message);
  std::exit(error.exitStatus());
}
template <typename T> T take(Result<T> result) {
  if (!result)
    end(result.error());
  return std::move(*result);
}
void check(const Status &status) {
  if (!status)
    end(status.error());
}
double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr uint16_t beginning = 0;

/// A shard of documents of 20 to 2,000 tokens below `vocabulary`.
void writeShard(const std::string &path, size_t count, int64_t vocabulary) {
  std::mt19937 random(1);
  std::vector<uint16_t> tokens(count);
  size_t next = 0;
  for (size_t i = 0; i < count; ++i)
    if (i == next) {
      tokens[i] = beginning;
      next += 20 + random() % 1980;
    } else
      tokens[i] = uint16_t(1 + random() % uint32_t(std::min<int64_t>(vocabulary, 50257) - 1));
  int32_t header[256] = {20240520, 1, int32_t(count)};
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char *>(header), sizeof header);
  file.write(reinterpret_cast<const char *>(tokens.data()), std::streamsize(2 * count));
  if (!file)
    end(badInput(path + ": cannot be written"));
}

/// What the programs read beside tokens: nothing.
const std::vector<plan::Column> &noColumns(int64_t) {
  static const std::vector<plan::Column> none;
  return none;
}

/// Tokens a second of all ranks, each of which takes its share of `steps` batches.
double rateOf(const std::shared_ptr<const TokenShards> &shards, Rule rule, int ranks,
              const BatchShape &shape, int64_t steps) {
  const BatchRule how = {rule, rule == Rule::Cut || rule == Rule::Packed, 1, beginning};
  // Beginnings of documents are looked for once, and not measured.
  const BatchReader reader = take(BatchReader::create(shards, how, shape, "LoaderBench"));
  const Clock::time_point start = Clock::now();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Loader loader(
          reader, {rank, ranks, noColumns, ranks > 1},
          [&](int64_t) { return Result<BatchShape>(shape); }, 0, steps);
      for (int64_t step = 0; step < steps; ++step)
        (void)take(loader.next());
    });
  for (std::thread &thread : threads)
    thread.join();
  return double(steps) * double(shape.sequences * shape.length) / since(start);
}

/// A plan's steps on one rank.
class Steps {
public:
  Steps(const plan::Plan &plan, int threads) : plan(plan), group(1) {
    DeviceOptions options;
    options.threads = threads;
    device = take(loadDevice(plan, group.communicator(0), options));
    check(initializeStates(
        plan, Seat(), {plan::State::Role::Parameter, plan::State::Role::Optimizer}, 0, threads,
        writerOf(*device), [&](const plan::State &state) { return device->clear(state.buffer); }));
  }

  /// Milliseconds of a step; `loader` null: on the data of the step before.
  double run(int64_t number, Loader *loader) {
    const plan::Training &training = plan.training;
    const Clock::time_point start = Clock::now();
    if (loader)
      batch = take(loader->next());
    check(writeScalars(plan, number, 1, *device));
    for (int64_t i = 0; i < training.globalBatch / training.seqLen; ++i) {
      const SequenceData &data = batch->share[size_t(i)];
      const uint64_t bytes = data.tokens.size() * sizeof(int32_t);
      check(device->write(training.tokensBuffer, 0, data.tokens.data(), bytes));
      check(device->write(training.targetsBuffer, 0, data.targets.data(), bytes));
      check(device->run(programOf(training, number, i, 1)));
    }
    const plan::StepPrograms &phase = training.phases[size_t(number) % training.phases.size()];
    if (!phase.update.empty())
      check(device->run(phase.update));
    check(device->wait());
    return 1000 * since(start);
  }

private:
  const plan::Plan &plan;
  LocalGroup group;
  std::unique_ptr<Device> device;
  std::shared_ptr<const LoadedBatch> batch;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void compareSteps(const std::string &path, const std::string &folder, int threads, int64_t steps) {
  const plan::Plan plan = take(plan::readPlanFile(path, 1));
  const plan::Training &training = plan.training;
  if (training.phases.empty() || !training.columns.empty())
    end(badInput(path + ": LoaderBench wants a plan that trains and reads no columns"));
  const BatchShape shape = {uint64_t(training.globalBatch / training.seqLen),
                            uint64_t(training.seqLen)};
  const std::string shard = folder + "/steps.bin";
  writeShard(shard, size_t(std::max<int64_t>(20 * training.globalBatch, 1 << 22)),
             training.vocabSize);
  auto shards = take(TokenShards::open(shard, training.vocabSize, "LoaderBench"));
  const BatchRule rule = {training.documents.rule, training.documents.shuffle, 0, beginning};
  Loader loader(
      take(BatchReader::create(shards, rule, shape, "LoaderBench")), {0, 1, noColumns, false},
      [&](int64_t) { return Result<BatchShape>(shape); }, 0, steps + 2);
  Steps run(plan, threads);
  std::vector<double> constant, loaded;
  // In turn, so that what else the machine does falls on both.
  (void)run.run(0, &loader);
  (void)run.run(0, &loader);
  for (int64_t i = 0; i < steps; ++i) {
    loaded.push_back(run.run(i, &loader));
    constant.push_back(run.run(i, nullptr));
  }
  fmt::print("{}: {} tokens a step, {} thread{}, medians of {} steps: {:.2f} ms on data that do "
             "not change, {:.2f} ms with the loader: {:.4f}\n",
             plan.model, training.globalBatch, threads, threads == 1 ? "" : "s", steps,
             median(constant), median(loaded), median(loaded) / median(constant));
}

} // namespace

int main(int argc, char **argv) {
  std::string planPath, folder = std::filesystem::temp_directory_path();
  int threads = 1, ranks = 8;
  int64_t steps = 21, batch = 49152, length = 1024;
  CLI::App app("What the ranks of a machine read, and steps with the loader against data that do "
               "not change.");
  app.add_option("plan", planPath,
                 "A plan for one rank, on the CPU or a GPU; default: reading alone");
  app.add_option("--threads", threads, "CPU threads of the plan's steps")->capture_default_str();
  app.add_option("--steps", steps, "Steps that are measured")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->capture_default_str();
  app.add_option("--ranks", ranks, "Ranks that read beside each other, at most")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--batch", batch, "Tokens of a step over all ranks")->capture_default_str();
  app.add_option("--folder", folder, "Where shards are written for it")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (batch < length * ranks || batch % length != 0) {
    fmt::print(
        stderr,
        "LoaderBench: --batch {}: must be a multiple of {} and have as many for each of {} ranks\n",
        batch, length, ranks);
    return 2;
  }
  if (!planPath.empty()) {
    compareSteps(planPath, folder, threads, steps);
    std::filesystem::remove(folder + "/steps.bin");
    return 0;
  }
  const std::string shard = folder + "/loader.bin";
  writeShard(shard, size_t(1) << 25, 50257);
  auto shards = take(TokenShards::open(shard, 50257, "LoaderBench"));
  fmt::print("million tokens a second of all ranks, batches of {} in sequences of {}\n", batch,
             length);
  fmt::print("{:>6}  {:>10}  {:>10}  {:>10}  {:>10}\n", "ranks", "contiguous", "aligned", "cut",
             "packed");
  for (int count = 1; count <= ranks; count *= 2) {
    fmt::print("{:>6}", count);
    for (Rule rule : {Rule::Contiguous, Rule::Aligned, Rule::Cut, Rule::Packed}) {
      const BatchShape shape = {uint64_t(batch / length), uint64_t(length),
                                rule == Rule::Packed ? uint64_t(length) : UINT64_MAX};
      fmt::print("  {:>10.1f}", rateOf(shards, rule, count, shape, 200) / 1e6);
    }
    fmt::print("\n");
  }
  std::filesystem::remove(shard);
  return 0;
}
