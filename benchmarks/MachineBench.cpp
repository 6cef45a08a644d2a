// What this machine's CPU ranks reach, measured, as a machine for nanoc simulate: matrix products,
// memory and collectives, with as many ranks at work as a run has.
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/cpu/Matmul.h"
#include "runtime/cpu/ThreadTeam.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

namespace {

using namespace nano;
using plan::DType;

int ranks = 1, threads = 1;
double seconds = 0.15; ///< of each measurement

/// Runs what `prepare(rank)` gives again and again on all ranks at once, as long as `seconds`, and
/// returns the seconds of one: the shortest of several stretches, each as long as its slowest rank.
/// `prepare` is called on each rank's thread.
double timeOf(size_t members, const std::function<std::function<void()>(int)> &prepare) {
  using Clock = std::chrono::steady_clock;
  constexpr int stretches = 10;
  std::vector<std::vector<double>> found(members, std::vector<double>(stretches));
  std::atomic<int64_t> repetitions = 1;
  std::barrier together{std::ptrdiff_t(members)};
  auto run = [&](int rank) {
    cpu::FlushDenormals mode;
    std::function<void()> body = prepare(rank);
    auto stretch = [&] {
      together.arrive_and_wait();
      const Clock::time_point start = Clock::now();
      for (int64_t i = repetitions; i > 0; --i)
        body();
      return std::chrono::duration<double>(Clock::now() - start).count() / double(repetitions);
    };
    stretch();
    const double once = stretch();
    together.arrive_and_wait();
    if (rank == 0)
      repetitions = std::max<int64_t>(1, int64_t(seconds / stretches / once));
    for (int i = 0; i < stretches; ++i)
      found[size_t(rank)][size_t(i)] = stretch();
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < int(members); ++rank)
    others.emplace_back(run, rank);
  run(0);
  for (std::thread &other : others)
    other.join();
  std::vector<double> slowest(stretches, 0);
  for (int i = 0; i < stretches; ++i)
    for (const std::vector<double> &own : found)
      slowest[size_t(i)] = std::max(slowest[size_t(i)], own[size_t(i)]);
  return *std::min_element(slowest.begin(), slowest.end());
}

[[noreturn]] void fail(const Error &error) {
  fmt::print(stderr, "MachineBench: {}\n", error.message);
  std::exit(1);
}

/// Seconds of C = A·Bᵀ on each of the ranks.
double product(int64_t m, int64_t n, int64_t k, DType type) {
  return timeOf(size_t(ranks), [=](int) -> std::function<void()> {
    struct State {
      cpu::ThreadTeam team{threads};
      cpu::Matmuls matmuls{team};
      std::vector<char> a, b, c;
    };
    auto state = std::make_shared<State>();
    state->team.activate();
    cpu::MatmulProblem problem;
    problem.aType = problem.bType = type;
    problem.cType = type == DType::F32 ? type : DType::BF16;
    problem.transposeB = true;
    problem.m = m;
    problem.n = n;
    problem.k = problem.lda = problem.ldb = k;
    problem.ldc = n;
    state->a.resize(size_t(m * k) * plan::sizeOf(type));
    state->b.resize(size_t(n * k) * plan::sizeOf(type));
    state->c.resize(size_t(m * n) * plan::sizeOf(problem.cType));
    auto found = state->matmuls.get(problem);
    if (!found)
      fail(found.error());
    if (Status status = state->matmuls.reserveScratch(); !status)
      fail(status.error());
    return [state, matmul = *found] {
      cpu::MatmulOperands operands;
      operands.a = state->a.data();
      operands.b = state->b.data();
      operands.c = state->c.data();
      if (Status status = matmul->run(operands, state->matmuls.scratch()); !status)
        fail(status.error());
    };
  });
}

/// Bytes read and written a second when each rank copies within `bytes`.
double copyRate(int64_t bytes) {
  double time = timeOf(size_t(ranks), [=](int) -> std::function<void()> {
    auto team = std::make_shared<cpu::ThreadTeam>(threads);
    team->activate();
    auto memory = std::make_shared<std::vector<std::byte>>(size_t(bytes), std::byte(1));
    return [=] { team->copy(memory->data(), memory->data() + bytes / 2, uint64_t(bytes / 2)); };
  });
  return double(bytes) / time;
}

enum class Kind { AllReduce, ReduceScatter, AllGather };

/// Seconds of a collective on a tensor of `bytes` (f32).
double collective(Kind kind, int64_t bytes) {
  const int members = std::max(2, ranks);
  LocalGroup group(members);
  return timeOf(size_t(members), [&](int rank) -> std::function<void()> {
    Communicator &own = group.communicator(rank);
    const int64_t count = std::max<int64_t>(bytes / 4, members);
    auto whole = std::make_shared<std::vector<float>>(size_t(count));
    auto part = std::make_shared<std::vector<float>>(size_t(count / members));
    return [=, &own] {
      const plan::Ranks all = plan::Ranks::All;
      Status status = kind == Kind::AllReduce ? own.allReduce(whole->data(), count, DType::F32,
                                                              Combine::Sum, all, "bench")
                      : kind == Kind::ReduceScatter
                          ? own.reduceScatter(whole->data(), part->data(), count / members,
                                              DType::F32, all, "bench")
                          : own.allGather(part->data(), whole->data(), count / members, DType::F32,
                                          all, "bench");
      if (!status)
        fail(status.error());
    };
  });
}

/// Seconds of a launch that computes nothing.
double emptyLaunch() {
  return timeOf(size_t(ranks), [](int) -> std::function<void()> {
    auto team = std::make_shared<cpu::ThreadTeam>(threads);
    team->activate();
    return [=] { team->forEach(threads, [](int64_t, int) {}); };
  });
}

/// The JSON of a type's products: the rate without end, and what starting a tile costs, from a
/// product of a long sum and one of a short.
std::string products(const char *name, DType type, double &rate) {
  constexpr int64_t size = 768, longK = 1024, shortK = 64;
  const double longTime = product(size, size, longK, type);
  const double shortTime = product(size, size, shortK, type);
  const double stepTime = (longTime - shortTime) / double(longK - shortK);
  const double startup = std::max(0.0, shortTime / stepTime - double(shortK));
  rate = 2.0 * size * size / stepTime;
  return fmt::format("    \"{}\": {{\"tflops\": {:.4f}, \"units\": {}, \"tile_rows\": 16, "
                     "\"tile_columns\": 64, \"startup_k\": {:.1f}}}",
                     name, 1e-12 * rate, threads, startup);
}

/// Bus bandwidths (docs/simulate.md) of a collective, at sizes whose times ascend from the latency.
std::string bus(Kind kind, double latency) {
  const double members = std::max(2, ranks);
  const double factor = (kind == Kind::AllReduce ? 2 : 1) * (members - 1) / members;
  std::string points;
  double before = latency;
  for (int64_t bytes : {int64_t(1) << 16, int64_t(1) << 19, int64_t(1) << 22, int64_t(1) << 25}) {
    before = std::max(before * 1.0001, collective(kind, bytes));
    points += fmt::format("{}[{}, {:.5f}]", points.empty() ? "" : ", ", bytes,
                          1e-9 * factor * double(bytes) / before);
  }
  return points;
}

std::string machineText() {
  double f32 = 0, other = 0;
  std::string text = "{\n  \"machine\": \"measured\",\n";
  text += fmt::format("  \"summary\": \"this machine, {} ranks of {} threads at once\",\n", ranks,
                      threads);
  text += "  \"sources\": [\"measured by MachineBench; kernels: taken as half of the rate of f32 "
          "products\"],\n";
  text += fmt::format("  \"ranks_per_node\": {},\n", std::max(2, ranks));
  std::string memory;
  for (int64_t bytes :
       {int64_t(1) << 16, int64_t(1) << 19, int64_t(1) << 22, int64_t(1) << 25, int64_t(1) << 28})
    memory +=
        fmt::format("{}[{}, {:.3f}]", memory.empty() ? "" : ", ", bytes, 1e-9 * copyRate(bytes));
  text += fmt::format("  \"memory\": {{\"gb_per_s\": [{}]}},\n", memory);
  text += fmt::format("  \"launch\": {{\"host_us\": {:.3f}, \"one_at_a_time\": true}},\n",
                      1e6 * emptyLaunch());
  text += "  \"products\": {\n" + products("f32", DType::F32, f32) + ",\n";
  text += products("bf16", DType::BF16, other) + ",\n";
  text += products("f8", DType::F8E4M3FN, other) + "\n  },\n";
  text +=
      fmt::format("  \"kernels\": {{\"vector_tflops\": {0:.4f}, \"attention_tflops\": {0:.4f}}},\n",
                  1e-12 * f32 / 2);
  // What the host writes lands in the ranks' own memory.
  text += fmt::format("  \"host\": {{\"latency_us\": 0, \"gb_per_s\": {:.3f}}},\n",
                      1e-9 * copyRate(int64_t(1) << 22) / 2);
  const double latency = collective(Kind::AllReduce, 4);
  text += fmt::format("  \"node\": {{\"latency_us\": {:.3f}, \"measured_ranks\": {}, "
                      "\"bus_gb_per_s\": {{\n",
                      1e6 * latency, std::max(2, ranks));
  text += fmt::format("    \"all_reduce\": [{}],\n", bus(Kind::AllReduce, latency));
  text += fmt::format("    \"reduce_scatter\": [{}],\n", bus(Kind::ReduceScatter, latency));
  text += fmt::format("    \"all_gather\": [{}]}}}}\n}}\n", bus(Kind::AllGather, latency));
  return text;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Measures what CPU ranks reach here and writes it as a machine for nanoc simulate",
               "MachineBench");
  std::string output;
  app.add_option("--ranks", ranks, "Ranks at work at once")->check(CLI::Range(1, 256));
  app.add_option("--threads", threads, "Threads of each")->check(CLI::Range(1, 256));
  app.add_option("--seconds", seconds, "Of each of some thirty measurements")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("-o,--output", output, "The JSON file; default: standard output");
  CLI11_PARSE(app, argc, argv);
  const std::string text = machineText();
  if (output.empty()) {
    fmt::print("{}", text);
    return 0;
  }
  std::ofstream file(output);
  file << text;
  file.close();
  if (!file)
    fail(failed(output + ": cannot be written"));
  return 0;
}
