// Kernels of recurrences, of products along a band, and of orders and projections of rows, on this
// machine and, from task to templates, on the emulator, against the interpreter of the graph
// dialect. Tolerance of |actual − expected| / (1 + |expected|): f32 two roundings (1.2e-7) a
// summand or factor of an element; bf16 one rounding (0.4 %) more.
#include "passes/cpu/SequenceKernels.h"
#include "tests/codegen/TaskRunner.h"
#include "tests/codegen/templates/TemplateRunner.h"

#include "codegen/cuda/CudaEmitter.h"
#include "ir/graph/Sequence.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

using namespace mlir;
using namespace nano;
using namespace nano::test;

namespace {

/// A tensor of at least two dimensions; `isStrided`: it is a part of a wider and longer one.
struct Operand {
  std::vector<int64_t> sizes;
  std::string element = "f32";
  bool isStrided = false;

  std::string tensor() const { return "tensor<" + text(sizes) + element + ">"; }
  std::vector<int64_t> wholeSizes() const {
    std::vector<int64_t> whole = sizes;
    if (isStrided) {
      whole.end()[-2] += 2;
      whole.back() += 3;
    }
    return whole;
  }
  std::string whole() const { return "memref<" + text(wholeSizes()) + element + ">"; }
  std::string memref() const {
    if (!isStrided)
      return whole();
    std::string strides = "1";
    int64_t stride = 1;
    for (size_t i = sizes.size(); --i > 0;)
      strides = std::to_string(stride *= wholeSizes()[i]) + ", " + strides;
    return "memref<" + text(sizes) + element + ", strided<[" + strides +
           "], offset: " + std::to_string(wholeSizes().back() + 1) + ">>";
  }

  static std::string text(const std::vector<int64_t> &sizes) {
    std::string text;
    for (int64_t size : sizes)
      text += std::to_string(size) + "x";
    return text;
  }
};

/// A program of one task: `op` of the operands, of which %x is the first and %y the second.
std::string programText(const std::vector<Operand> &ins, const Operand &out,
                        const std::string &op) {
  std::string text = "step.program @p {\n", names, types, arguments;
  auto buffer = [&](const std::string &name, const Operand &operand) {
    text += "  %" + name + "_whole = step.buffer \"" + name + "\" : " + operand.whole() + "\n  %" +
            name + " = step.view %" + name + "_whole : " + operand.whole() + " to " +
            operand.memref() + "\n";
  };
  for (size_t i = 0; i < ins.size(); ++i) {
    const std::string name = i ? "b" : "a", comma = i ? ", " : "";
    buffer(name, ins[i]);
    names += comma + "%" + name;
    types += comma + ins[i].memref();
    arguments += comma + "%" + (i ? "y" : "x") + ": " + ins[i].tensor();
  }
  buffer("out", out);
  return text + "  step.task ins(" + names + ") outs(%out) : (" + types + ") -> " + out.memref() +
         " {\n  ^bb0(" + arguments + "):\n    %r = " + op +
         "\n    nano.yield %r : " + out.tensor() + "\n  }\n}\n";
}

/// Those of a GPU that kernels are made for, unless a test says otherwise.
constexpr int64_t manyProcessors = 132;

/// Runs all of the task's launches on the emulator, on the memory of `runner`.
void runOnEmulator(const std::string &text, TaskRunner &runner, uint64_t seed,
                   int64_t multiprocessors = manyProcessors) {
  MLIRContext context;
  context.loadDialect<graph::NanoDialect, step::StepDialect, arith::ArithDialect, func::FuncDialect,
                      math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                      vector::VectorDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  PassManager passes(&context);
  LowerKernelsOptions options;
  options.target = "cuda";
  options.multiprocessors = multiprocessors;
  passes.addPass(createLowerKernels(options));
  ASSERT_TRUE(succeeded(passes.run(*module)));

  std::map<std::string, DeviceBuffer> buffers;
  auto bufferOf = [&](Value memref) -> DeviceBuffer & {
    auto [it, isNew] = buffers.try_emplace(step::nameOf(memref));
    if (isNew) {
      const auto whole = cast<MemRefType>(step::bufferOf(memref)->getResult(0).getType());
      it->second = DeviceBuffer(it->first, int(step::elementBytes(whole.getElementType())),
                                size_t(whole.getNumElements()));
      llvm::fill(it->second.bytes, std::byte{0xff});
    }
    return it->second;
  };
  auto bytesBefore = [](Value memref) {
    const auto type = cast<MemRefType>(memref.getType());
    return size_t(step::layoutOf(type).offset * step::elementBytes(type.getElementType()));
  };
  step::TaskOp task = runner.taskOp();
  for (auto [i, in] : llvm::enumerate(task.getIns())) {
    DeviceBuffer &buffer = bufferOf(in);
    std::memcpy(buffer.bytes.data(), runner.inputMemory(i) - bytesBefore(in), buffer.bytes.size());
  }
  SmallVector<step::LaunchOp> found;
  module->walk([&](step::LaunchOp launch) { found.push_back(launch); });
  EXPECT_EQ(found.size(), 1u);
  for (step::LaunchOp launch : found) {
    auto kernel = SymbolTable::lookupNearestSymbolFrom<kernel::FuncOp>(
        launch, SymbolRefAttr::get(&context, step::kernelModuleName, {launch.getKernelAttr()}));
    FailureOr<std::string> kernelText = codegen::cudaKernelText(kernel, 1);
    ASSERT_TRUE(succeeded(kernelText));
    const kernel::LaunchAttr attribute = *kernel.getLaunch();
    std::vector<Argument> arguments;
    for (auto [i, operand] : llvm::enumerate(launch.getBuffers()))
      arguments.push_back({&bufferOf(operand), kernel.writes(i), bytesBefore(operand)});
    const Shape shape{int(attribute.getThreads()), launch.getIterations()->front(),
                      int(kernel.getScratchBytes()), attribute.getBlockIterations()};
    const std::string name = launch.getKernel().str();
    SCOPED_TRACE(*kernelText);
    ASSERT_EQ(TemplateRunner(*kernelText, {name}).run(name, shape, arguments, seed), "");
  }
  const Value out = task.getOuts()[0];
  const DeviceBuffer &result = bufferOf(out);
  std::memcpy(runner.outputMemory(0) - bytesBefore(out), result.bytes.data(), result.bytes.size());
}

/// The op on this machine and on the emulator. `terms`: roundings that an element has.
void check(const std::vector<Operand> &ins, const Operand &out, const std::string &op,
           kernels::Emitter emitter, int64_t terms, double (*factor)(double) = nullptr,
           int64_t multiprocessors = manyProcessors) {
  const std::string text = programText(ins, out, op);
  SCOPED_TRACE(text);
  const double tolerance = 1.2e-7 * double(terms + 1) + (out.element == "bf16" ? 4e-3 : 0);
  std::unique_ptr<TaskRunner> runner;
  for (int64_t lanes : TaskRunner::lanes()) {
    runner = TaskRunner::make(text, emitter, lanes);
    ASSERT_TRUE(runner);
    std::mt19937_64 random(unsigned(terms + lanes));
    for (unsigned i = 0; i < ins.size(); ++i) {
      TensorValue value = TensorValue::normal(runner->inputType(i), random);
      for (double &x : value.data)
        x = i == 0 && factor ? factor(x) : x;
      runner->setInput(i, value);
    }
    runner->run();
    EXPECT_LE(largestError(runner->output(0), runner->expected()[0]), tolerance) << lanes;
    const std::vector<std::byte> whole = runner->outputBytes();
    std::vector<int64_t> cuts;
    for (int64_t i = 1; i < runner->iterations(); ++i)
      cuts.push_back(i);
    runner->run(cuts);
    EXPECT_EQ(runner->outputBytes(), whole) << "the bits depend on how the iterations were split";
  }
  ASSERT_NO_FATAL_FAILURE(runOnEmulator(text, *runner, uint64_t(terms), multiprocessors));
  EXPECT_LE(largestError(runner->output(0), runner->expected()[0]), tolerance) << "emulator";
}

double within1(double x) { return x / (1 + std::abs(x)); }
double near1(double x) { return 1 + 0.01 * x; }

struct RecurrenceCase {
  int64_t sequences, length, channels;
  std::string element = "f32";
  bool isStrided = false, isOfAllKinds = false;
  int64_t multiprocessors = manyProcessors;
};

/// Of a factor and a term; of all kinds also of one of them, from the end, and adjoints.
void checkRecurrence(const RecurrenceCase &c) {
  const Operand x{{c.sequences, c.length, c.channels}, c.element, c.isStrided};
  auto op = [&](const std::string &operands, const std::string &attributes) {
    return "nano.recurrence " + operands + " " + attributes + ": " + x.tensor();
  };
  auto run = [&](const std::vector<Operand> &ins, const std::string &text,
                 double (*factor)(double)) {
    check(ins, x, text, kernels::emitRecurrenceKernel, c.length, factor, c.multiprocessors);
  };
  run({x, x}, op("factor %x term %y from 0.5", ""), within1);
  if (!c.isOfAllKinds)
    return;
  run({x, x}, op("factor %x term %y from 0.0", "{adjoint} "), within1);
  run({x}, op("term %x from 0.0", ""), nullptr);
  run({x}, op("factor %x from 1.0", "{reverse} "), near1);
  run({x, x}, op("factor %x term %y from 0.0", "{adjoint, reverse} "), within1);
}

} // namespace

TEST(RecurrenceKernel, AnyShape) {
  checkRecurrence({1, 1, 1});
  checkRecurrence({3, 1, 5});
  checkRecurrence({1, 37, 1});
  checkRecurrence({2, 70, 65});
}

TEST(RecurrenceKernel, Bf16) { checkRecurrence({2, 33, 40, "bf16"}); }

/// Several steps of a cluster of blocks, with accesses of one channel and of several, and along the
/// sequence.
TEST(RecurrenceKernel, LongSequences) {
  checkRecurrence({1, 1100, 17});
  checkRecurrence({1, 2100, 20, "f32", false, true});
  checkRecurrence({1, 1100, 40, "bf16"});
  checkRecurrence({1, 600, 10, "bf16"});
  checkRecurrence({1, 4201, 1});
  checkRecurrence({1, 8200, 1});
}

/// Nothing of a step is beyond the ends, of a few steps and of so many that stages are used again.
TEST(RecurrenceKernel, WholeSteps) {
  checkRecurrence({1, 4096, 64, "bf16", false, true});
  checkRecurrence({1, 8192, 64, "bf16"});
}

/// A warp for each of many sequences, and sequences that are longer than what it loads at a time.
TEST(RecurrenceKernel, ManySequences) {
  checkRecurrence({1025, 40, 1, "f32", false, true});
  checkRecurrence({1025, 39, 1});
  checkRecurrence({1024, 1030, 1, "bf16"});
}

/// Clusters of as many blocks as a small GPU has room for.
TEST(RecurrenceKernel, FewMultiprocessors) {
  for (int64_t multiprocessors : {1, 2, 5})
    checkRecurrence({1, 2100, 20, "f32", false, false, multiprocessors});
}

TEST(RecurrenceKernel, StridedOperands) { checkRecurrence({2, 300, 20, "bf16", true}); }

namespace {

struct BandCase {
  int64_t tokens, heads, size, width;
  std::string first = "f32", second = "f32", result = "f32";
  bool isStrided = false;
  int64_t multiprocessors = manyProcessors;
};

void checkBand(const BandCase &c) {
  const std::vector<int64_t> rows = {c.tokens, c.heads, c.size},
                             band = {c.tokens, c.heads, c.width};
  auto types = [](const Operand &a, const Operand &b, const Operand &y) {
    return " : (" + a.tensor() + ", " + b.tensor() + ") -> " + y.tensor();
  };
  {
    const Operand q{rows, c.first, c.isStrided}, k{rows, c.second}, s{band, c.result, c.isStrided};
    check({q, k}, s, "nano.band_scores %x, %y" + types(q, k, s), kernels::emitBandScoresKernel,
          c.size, nullptr, c.multiprocessors);
  }
  for (const char *transpose : {"", " {transpose}"}) {
    const Operand p{band, c.first, c.isStrided}, v{rows, c.second}, y{rows, c.result, c.isStrided};
    check({p, v}, y, "nano.band_product %x, %y" + (transpose + types(p, v, y)),
          kernels::emitBandProductKernel, c.width, nullptr, c.multiprocessors);
  }
}

} // namespace

TEST(BandKernels, AnyShape) {
  checkBand({1, 1, 1, 1});
  checkBand({70, 3, 33, 17});
}

/// Several tiles along both dimensions.
TEST(BandKernels, Tiles) {
  checkBand({140, 1, 20, 133});
  checkBand({40, 2, 140, 17});
}

/// On tensor cores: rows of bf16 at multiples of 16 bytes, several tiles along each dimension.
TEST(BandKernels, Matrices) {
  checkBand({150, 2, 24, 70, "bf16", "bf16", "f32"});
  checkBand({70, 1, 136, 17, "f32", "bf16", "bf16"});
}

/// Windows that shared memory has no room for at once, and weights at multiples of 16 bytes.
TEST(BandKernels, MatricesInParts) {
  checkBand({140, 1, 256, 136, "bf16", "bf16", "f32"});
  checkBand({310, 1, 128, 304, "f32", "bf16", "f32"});
}

/// Bands that begin at no multiple of 16 bytes, with the numbers of another head before them;
/// windows at once and in parts, several tiles of a block.
TEST(BandKernels, BandsThatBeginAnywhere) {
  checkBand({150, 3, 96, 33, "bf16", "bf16", "bf16"});
  checkBand({149, 3, 24, 37, "f32", "bf16", "f32"});
  checkBand({310, 1, 128, 303, "bf16", "bf16", "bf16", false, 1});
  checkBand({149, 3, 24, 33});
  checkBand({400, 3, 24, 35, "f32", "f32", "f32", false, 2});
}

/// By warps with rows of f32, which they split: odd windows, more than one slice of columns,
/// windows in parts, results and weights of bf16.
TEST(BandKernels, SplitNumbers) {
  checkBand({150, 2, 24, 70});
  checkBand({70, 1, 136, 17, "bf16", "f32", "bf16"});
  checkBand({140, 1, 256, 136});
  checkBand({310, 1, 128, 304});
}

/// Rows of f32 that lie in a ring as three numbers of bf16 each.
TEST(BandKernels, Warpgroups) {
  checkBand({150, 2, 24, 97});
  checkBand({110, 1, 136, 100, "bf16", "f32", "bf16"});
  checkBand({400, 3, 20, 96, "f32", "f32", "bf16", false, 2});
}

/// So few multiprocessors that a block has several tiles, which go around the ring of rows.
TEST(BandKernels, SeveralTilesOfABlock) {
  checkBand({400, 3, 8, 20, "bf16", "bf16", "f32", false, 1});
  checkBand({400, 5, 8, 18, "f32", "f32", "bf16", false, 2});
}

TEST(BandKernels, Bf16) {
  checkBand({50, 2, 20, 12, "bf16", "bf16", "f32"});
  checkBand({50, 2, 20, 12, "f32", "bf16", "bf16"});
}

TEST(BandKernels, StridedOperands) { checkBand({30, 2, 7, 5, "bf16", "f32", "f32", true}); }

namespace {

/// Zeros of both signs, infinities of both and NaN among normal numbers.
double special(double x) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (std::abs(x) < 0.2)
    return std::copysign(0, x);
  return x > 2 ? NAN : x < -1.5 ? -infinity : x > 1.5 ? infinity : x;
}
double tenfold(double x) { return 10 * x; } // of integers with equal ones

void checkArgsort(const std::vector<int64_t> &sizes, const std::string &element = "f32",
                  bool isStrided = false) {
  const Operand x{sizes, element, isStrided}, y{sizes, "i32", isStrided};
  check({x}, y, "nano.argsort %x : " + x.tensor() + " -> " + y.tensor(), kernels::emitArgsortKernel,
        0, element == "i32" ? tenfold : special);
}

} // namespace

TEST(ArgsortKernel, AnyShape) {
  for (int64_t columns : {1, 2, 3, 16, 37, 64, 129})
    checkArgsort({5, columns});
}

TEST(ArgsortKernel, Types) {
  checkArgsort({7, 70}, "bf16");
  checkArgsort({7, 70}, "i32");
}

TEST(ArgsortKernel, StridedOperands) { checkArgsort({6, 33}, "f32", true); }

/// More pairs than a block has threads, and rows that shared memory has no room for.
TEST(ArgsortKernel, LongRows) {
  checkArgsort({2, 5000});
  checkArgsort({1, 29100}, "bf16");
}

namespace {

/// Rows of −∞ alone, and with a number or a few beside it.
double minusInfinityOr(double x) { return x < 1 ? -std::numeric_limits<double>::infinity() : x; }
/// Near enough for many columns to have probabilities.
double hundredth(double x) { return x / 100; }

void checkSparsemax(const std::vector<int64_t> &sizes, const std::string &element = "f32",
                    bool isStrided = false, double (*map)(double) = nullptr) {
  const Operand x{sizes, element, isStrided};
  check({x}, x, "nano.sparsemax %x : " + x.tensor(), kernels::emitSparsemaxKernel, 3, map);
}

} // namespace

TEST(SparsemaxKernel, AnyShape) {
  for (int64_t columns : {1, 2, 3, 16, 37, 64, 129, 300}) {
    checkSparsemax({5, columns});
    checkSparsemax({5, columns}, "bf16", false, hundredth);
  }
}

TEST(SparsemaxKernel, SpecialNumbers) {
  for (int64_t columns : {1, 3, 40}) {
    checkSparsemax({60, columns}, "f32", false, special);
    checkSparsemax({60, columns}, "bf16", false, minusInfinityOr);
  }
}

TEST(SparsemaxKernel, StridedOperands) {
  checkSparsemax({6, 33}, "f32", true);
  checkSparsemax({6, 64}, "bf16", true, hundredth);
}

/// Several vectors a thread, and rows that its registers have no room for; of many numbers, also
/// with probabilities that are smaller than the threshold's last place.
TEST(SparsemaxKernel, LongRows) {
  checkSparsemax({2, 5000});
  checkSparsemax({2, 5003}, "bf16", false, hundredth);
  checkSparsemax({1, 33000}, "f32", false, hundredth);
  checkSparsemax({1, 50257}, "bf16");
}

/// Of 2^17 numbers below one that is larger all have the same probability, 8e-7, where the last
/// place of the threshold is 6e-8: together they are off by little nevertheless.
TEST(SparsemaxKernel, SmallProbabilities) {
  const int64_t columns = (1 << 17) + 1;
  const Operand x{{1, columns}};
  const std::string text = programText({x}, x, "nano.sparsemax %x : " + x.tensor());
  TensorValue value{{1, columns}, std::vector<double>(size_t(columns), -0.9)};
  value.data[77] = 0;
  auto compare = [&](TaskRunner &runner) {
    const TensorValue y = runner.output(0), expected = runner.expected()[0];
    double off = 0;
    for (size_t i = 0; i < y.data.size(); ++i)
      off += std::abs(y.data[i] - expected.data[i]);
    EXPECT_LE(off, 2e-6);
  };
  std::unique_ptr<TaskRunner> runner;
  for (int64_t lanes : TaskRunner::lanes()) {
    runner = TaskRunner::make(text, kernels::emitSparsemaxKernel, lanes);
    ASSERT_TRUE(runner);
    runner->setInput(0, value);
    runner->run();
    compare(*runner);
  }
  ASSERT_NO_FATAL_FAILURE(runOnEmulator(text, *runner, 1));
  compare(*runner);
}
