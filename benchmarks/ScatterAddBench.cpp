// scatter_add on one core: bytes that must move (x once, ids once, y once) a second, beside a
// memory copy measured in the same run.
#include "benchmarks/Help.h"
#include "tests/codegen/TaskRunner.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <functional>

using namespace nano;
using namespace nano::test;

namespace {

double processorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double secondsOf(const std::function<void()> &work) {
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    double start = processorSeconds();
    work();
    best = std::min(best, processorSeconds() - start);
  }
  return best;
}

/// Bytes read and written a second by memcpy, for a working set of `bytes` in all.
double copyRate(size_t bytes) {
  std::vector<char> from(bytes / 2, 1), to(bytes / 2, 2);
  size_t repetitions = std::max<size_t>(1, (size_t(1) << 28) / bytes);
  double seconds = secondsOf([&] {
    for (size_t i = 0; i < repetitions; ++i) {
      std::memcpy(to.data(), from.data(), to.size());
      from[i % from.size()] = to[0];
    }
  });
  return static_cast<double>(bytes * repetitions) / seconds;
}

void measure(int64_t tokens, int64_t rows, int64_t size, const char *from, int64_t lanes) {
  std::string text =
      llvm::formatv("step.program @p {{\n%x = step.buffer \"x\" : memref<{0}x{2}x{3}>\n%y = "
                    "step.buffer \"y\" : memref<{1}x{2}xf32>\n"
                    "%ids = step.buffer \"ids\" : memref<{0}xi32>\n"
                    "step.task ins(%x, %ids) outs(%y) : (memref<{0}x{2}x{3}>, memref<{0}xi32>) -> "
                    "memref<{1}x{2}xf32> {{\n"
                    "^bb0(%a: tensor<{0}x{2}x{3}>, %i: tensor<{0}xi32>):\n"
                    "%r = nano.scatter_add %a, %i : (tensor<{0}x{2}x{3}>, tensor<{0}xi32>) -> "
                    "tensor<{1}x{2}xf32>\n"
                    "nano.yield %r : tensor<{1}x{2}xf32>\n}\n}\n",
                    tokens, rows, size, from);
  auto runner = TaskRunner::make(text, kernels::emitScatterAddKernel, lanes);
  std::mt19937_64 random(1);
  runner->setInput(0, TensorValue::filled(runner->inputType(0), 1));
  // Frequencies like those of words: the i-th most frequent id has probability ∝ 1/i.
  TensorValue ids{{tokens}, {}};
  std::uniform_real_distribution<double> uniform(0, std::log(static_cast<double>(rows)));
  for (int64_t t = 0; t < tokens; ++t)
    ids.data.push_back(std::floor(std::exp(uniform(random))) - 1);
  runner->setInput(1, ids);
  runner->run();
  double bytes = static_cast<double>(tokens * size * (std::string(from) == "f32" ? 4 : 2) +
                                     tokens * 4 + rows * size * 4);
  double seconds = secondsOf([&] { runner->runTimed(1); }),
         copy = copyRate(static_cast<size_t>(bytes));
  llvm::outs() << llvm::formatv("T {0,5}, V {1,5}, D {2,3}, {3,-4} {4,2} lanes: {5,8:F3} ms, "
                                "{6,6:F2} GB/s, memory copy {7,6:F2} GB/s, ratio {8:P0}\n",
                                tokens, rows, size, from, lanes, seconds * 1e3,
                                bytes / seconds / 1e9, copy / 1e9, bytes / seconds / copy);
  llvm::outs().flush();
}

} // namespace

int main(int argc, char **argv) {
  if (const std::optional<int> status = nano::helpOnly(
          argc, argv,
          "ScatterAddBench: the scatter_add kernels of the CPU target on one core: bytes that\n"
          "must move per second, and their ratio to a memory copy measured in the same run.\n"
          "Takes no options."))
    return *status;
  for (int64_t lanes : TaskRunner::lanes())
    for (const char *from : {"f32", "bf16"}) {
      measure(1024, 257, 128, from, lanes);
      measure(49152, 50257, 768, from, lanes);
    }
  return 0;
}
