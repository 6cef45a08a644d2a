// Matrix products on the CPU device, through a plan as a model's are: rate of each shape, and its
// ratio to the best square product of the same type measured in the same run.
#include "runtime/Device.h"
#include "runtime/comm/LocalCommunicator.h"
#include "runtime/plan/PlanFile.h"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace {

using namespace nano;
using plan::DType;

/// One product; `transposed` as in the BLAS: "NT" multiplies by the transpose of B.
struct Shape {
  const char *name;
  int64_t m, n, k;
  const char *transposed = "NT";
  int64_t batch = 1;
  double beta = 0;
};

const Shape squares[] = {{"square 1024", 1024, 1024, 1024, "NN"},
                         {"square 2048", 2048, 2048, 2048, "NN"}};
const Shape shapes[] = {
    // gpt124m, a layer forward and backward, T = 1024 and 4096.
    {"gpt124m qkv", 1024, 2304, 768},
    {"gpt124m attention proj", 1024, 768, 768},
    {"gpt124m mlp up", 1024, 3072, 768},
    {"gpt124m mlp down", 1024, 768, 3072},
    {"gpt124m mlp up grad x", 1024, 768, 3072, "NN"},
    {"gpt124m mlp down grad x", 1024, 3072, 768, "NN"},
    {"gpt124m mlp up grad w", 3072, 768, 1024, "TN", 1, 1},
    {"gpt124m qkv grad w", 2304, 768, 1024, "TN", 1, 1},
    {"gpt124m mlp up, T 4096", 4096, 3072, 768},
    {"gpt124m mlp down, T 4096", 4096, 768, 3072},
    {"gpt124m Newton-Schulz XXt", 768, 768, 3072, "NT", 2},
    {"gpt124m Newton-Schulz BX", 768, 3072, 768, "NN", 2, 1},
    // A model that trains on two cores in minutes: D = 128 and 256, T = 1024.
    {"tiny qkv, D 128", 1024, 384, 128},
    {"tiny mlp up, D 128", 1024, 512, 128},
    {"tiny mlp down, D 128", 1024, 128, 512},
    {"tiny mlp up grad w, D 128", 512, 128, 1024, "TN", 1, 1},
    {"tiny qkv, D 256", 1024, 768, 256},
    {"tiny mlp up, D 256", 1024, 1024, 256},
    {"tiny mlp down, D 256", 1024, 256, 1024},
    {"tiny mlp up grad x, D 256", 1024, 256, 1024, "NN"},
    {"tiny mlp up grad w, D 256", 1024, 256, 1024, "TN", 1, 1},
    {"tiny head, D 256", 1024, 384, 256},
    {"tiny Newton-Schulz XXt", 256, 256, 1024, "NT", 4},
    {"tiny Newton-Schulz AA", 256, 256, 256, "NN", 4, 1},
};

double bestSquare[2] = {};

/// What is multiplied: one type throughout, or e4m3 with scales to bf16.
struct Kind {
  DType type;
  bool blocks = false; ///< e4m3: scales of 1×128 of A and 128×128 of B, not one each
};

/// A plan with one program of one product, its device, and data of ordinary size in A and B.
class Product {
public:
  Product(const Shape &shape, Kind kind) {
    DType type = kind.type;
    plan.model = "bench";
    plan.target = "cpu";
    plan.worlds = {1};
    plan::Matmul command;
    bool scaled = type == DType::F8E4M3FN;
    command.aType = command.bType = type;
    command.cType = scaled ? DType::BF16 : type;
    command.m = shape.m, command.n = shape.n, command.k = shape.k, command.batch = shape.batch;
    command.transposeA = shape.transposed[0] == 'T';
    command.transposeB = shape.transposed[1] == 'T';
    command.lda = command.transposeA ? shape.m : shape.k;
    command.ldb = command.transposeB ? shape.k : shape.n;
    command.ldc = command.ldd = shape.n;
    command.strideA = shape.m * shape.k, command.strideB = shape.k * shape.n;
    command.strideC = command.strideD = shape.m * shape.n;
    command.beta = shape.beta;
    command.a = {buffer("a", type, shape.batch * shape.m * shape.k), 0};
    command.b = {buffer("b", type, shape.batch * shape.k * shape.n), 0};
    command.c = {buffer("c", command.cType, shape.batch * shape.m * shape.n), 0, true, true};
    command.d = command.c;
    if (scaled) {
      plan::MatmulScales &scales = command.scales.emplace();
      scales.a = {buffer("scale_a", DType::F32, shape.m * shape.k), 0};
      scales.b = {buffer("scale_b", DType::F32, shape.n * shape.k), 0};
      if (kind.blocks)
        scales.block = scales.rowsB = 128;
    }
    plan.programs.push_back({"main", {{command}}, 1, 0});
    if (Status status = plan::validate(plan); !status)
      fail(status.error());
    auto loaded = loadDevice(plan, group.communicator(0), {});
    if (!loaded)
      fail(loaded.error());
    device = std::move(*loaded);
    for (uint32_t operand : {command.a.buffer, command.b.buffer})
      fill(operand);
  }

  void run() {
    if (Status status = device->run("main"); !status)
      fail(status.error());
  }
  std::string describe() const { return device->describe(); }

private:
  [[noreturn]] static void fail(const Error &error) {
    std::fprintf(stderr, "MatmulBench: %s\n", error.message.c_str());
    std::exit(error.exitStatus());
  }
  uint32_t buffer(const char *name, DType type, int64_t count) {
    uint64_t bytes = uint64_t(count) * plan::sizeOf(type);
    plan.buffers.push_back({name, plan.arenaBytes, bytes, type, {count}, {}});
    plan.arenaBytes += (bytes + 255) / 256 * 256;
    return uint32_t(plan.buffers.size() - 1);
  }
  void fill(uint32_t index) {
    const plan::Buffer &target = plan.buffers[index];
    std::string bytes(target.bytes, '\0');
    uint32_t state = 1;
    for (int64_t i = 0; i < target.shape[0]; ++i) {
      state = state * 1664525 + 1013904223;
      float value = float(state >> 8) / float(1 << 24) - 0.5f;
      uint32_t bits = std::bit_cast<uint32_t>(value);
      if (target.type == DType::BF16)
        bits >>= 16;
      if (target.type == DType::F8E4M3FN)
        bits = state >> 24 & 0xbf; // no NaN
      std::copy_n(reinterpret_cast<const char *>(&bits), plan::sizeOf(target.type),
                  bytes.data() + uint64_t(i) * plan::sizeOf(target.type));
    }
    if (Status status = device->write(index, 0, bytes.data(), bytes.size()); !status)
      fail(status.error());
  }

  plan::Plan plan;
  LocalGroup group{1};
  std::unique_ptr<Device> device;
};

void measure(benchmark::State &state, const Shape &shape, Kind type, bool isSquare) {
  using Clock = std::chrono::steady_clock;
  Product product(shape, type);
  product.run();
  double best = 1e9;
  for (auto _ : state) {
    Clock::time_point start = Clock::now();
    product.run();
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
  }
  double gflops = 2e-9 * double(shape.batch * shape.m * shape.n) * double(shape.k) / best;
  double &square = bestSquare[type.type != DType::F32];
  if (isSquare)
    square = std::max(square, gflops);
  state.counters["GFLOP/s"] = gflops;
  state.counters["of_square"] = square > 0 ? gflops / square : 0;
}

} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 2;
  benchmark::AddCustomContext("device", Product(squares[0], {DType::F32}).describe());
  auto add = [](const Shape &shape, Kind type, bool isSquare) {
    std::string name = std::string(plan::nameOf(type.type)) + (type.blocks ? " blocks " : " ") +
                       shape.name + " " + shape.transposed;
    benchmark::RegisterBenchmark(name.c_str(), measure, shape, type, isSquare)
        ->UseManualTime()
        ->MinTime(0.2)
        ->Unit(benchmark::kMicrosecond);
  };
  for (DType type : {DType::F32, DType::BF16}) {
    for (const Shape &shape : squares)
      add(shape, {type}, true);
    for (const Shape &shape : shapes)
      add(shape, {type}, false);
  }
  for (bool blocks : {false, true})
    for (const Shape &shape : shapes)
      if (shape.batch == 1)
        add(shape, {DType::F8E4M3FN, blocks}, false);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
