// Tasks with outputs that lie transposed, as CUDA on the emulator with all of its checks, against
// the same tasks as kernels of this machine: one kernel that writes both layouts, two where rows
// are too long, sizes that are no multiples of a tile, views that begin anywhere. Both sides
// compute in f32 and round once, in the same order of operations but for sums: f32 outputs differ
// by 1e-5 of 1 + |x|, bf16 and f8 by at most one code.
#include "codegen/cuda/CudaEmitter.h"
#include "passes/Passes.h"
#include "passes/cpu/RowKernel.h"
#include "tests/codegen/TaskRunner.h"
#include "tests/codegen/templates/TemplateRunner.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <cmath>
#include <map>
#include <random>

using namespace mlir;
using namespace nano;
using namespace nano::test;

namespace {

struct Case {
  const char *name;
  std::vector<const char *> kernels; ///< what the launches' kernels begin with, in order
  std::string text;                  ///< buffers, views and one task
};

std::ostream &operator<<(std::ostream &os, const Case &c) { return os << c.name; }

/// Where an operand lies.
struct Place {
  Operation *buffer;
  MemRefType type;
};
Place placeOf(Value operand) {
  return {step::bufferOf(operand), cast<MemRefType>(operand.getType())};
}

int64_t byteOffset(MemRefType type) {
  return step::layoutOf(type).offset * step::elementBytes(type.getElementType());
}

/// Runs the launches that a module's task becomes on the emulator.
class EmulatedTask {
public:
  explicit EmulatedTask(const std::string &text) {
    context.loadDialect<graph::NanoDialect, step::StepDialect, arith::ArithDialect,
                        func::FuncDialect, math::MathDialect, memref::MemRefDialect,
                        scf::SCFDialect, vector::VectorDialect>();
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return;
    module->walk([&](step::TaskOp task) {
      for (Value in : task.getIns())
        ins.push_back(placeOf(in));
      for (Value out : task.getOuts())
        outs.push_back(placeOf(out));
    });
    PassManager passes(&context);
    LowerKernelsOptions options;
    options.target = "cuda";
    passes.addPass(createLowerKernels(options));
    if (failed(passes.run(*module)))
      return;
    module->walk([&](step::BufferOp buffer) {
      auto type = cast<MemRefType>(buffer.getType());
      buffers[buffer] = DeviceBuffer(step::nameOf(buffer),
                                     static_cast<int>(step::elementBytes(type.getElementType())),
                                     type.getNumElements());
      std::fill(buffers[buffer].bytes.begin(), buffers[buffer].bytes.end(), std::byte{0xff});
    });
    module->walk([&](step::LaunchOp launch) { launches.push_back(launch); });
  }

  std::vector<std::string> kernels() const {
    std::vector<std::string> names;
    for (step::LaunchOp launch : launches)
      names.push_back(step::LaunchOp(launch).getKernel().str());
    return names;
  }

  std::byte *memoryOf(const Place &place) {
    return buffers[place.buffer].bytes.data() + byteOffset(place.type);
  }

  /// The first fault, or "".
  std::string run(uint64_t seed) {
    auto inner = module->lookupSymbol<ModuleOp>(step::kernelModuleName);
    std::string text;
    std::vector<std::string> names;
    for (auto function : inner.getOps<kernel::FuncOp>()) {
      FailureOr<std::string> kernel = codegen::cudaKernelText(function, 1);
      if (failed(kernel))
        return "no text";
      text += *kernel;
      names.push_back(function.getSymName().str());
    }
    TemplateRunner runner(text, names);
    for (step::LaunchOp launch : launches) {
      auto function = inner.lookupSymbol<kernel::FuncOp>(launch.getKernel());
      const kernel::LaunchAttr attribute = *function.getLaunch();
      std::vector<Argument> arguments;
      for (auto [i, operand] : llvm::enumerate(launch.getOperands())) {
        Place place = placeOf(operand);
        bool isWritten = function.writes(i);
        arguments.push_back({&buffers[place.buffer], isWritten,
                             static_cast<size_t>(byteOffset(place.type)),
                             isWritten && function.reads(i)});
      }
      const Shape shape{static_cast<int>(attribute.getThreads()), launch.getIterations()->front(),
                        static_cast<int>(function.getScratchBytes()),
                        attribute.getBlockIterations()};
      std::string fault = runner.run(launch.getKernel().str(), shape, arguments, seed);
      if (!fault.empty())
        return launch.getKernel().str() + ": " + fault;
    }
    return "";
  }

  std::vector<Place> ins, outs;

private:
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::vector<step::LaunchOp> launches;
  std::map<Operation *, DeviceBuffer> buffers;
};

/// Bytes from a view's first element to each of its elements, in row-major order.
std::vector<int64_t> offsetsOf(MemRefType type) {
  int64_t bytes = step::elementBytes(type.getElementType());
  SmallVector<int64_t> strides = kernels::stridesOf(type);
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    int64_t rest = i, at = 0;
    for (int64_t dim = type.getRank() - 1; dim >= 0; --dim) {
      at += rest % type.getDimSize(dim) * strides[dim];
      rest /= type.getDimSize(dim);
    }
    offsets.push_back(at * bytes);
  }
  return offsets;
}

/// Elements of a view in row-major order, as the bytes that hold them.
std::vector<uint32_t> codesOf(const std::byte *start, MemRefType type) {
  int64_t bytes = step::elementBytes(type.getElementType());
  std::vector<uint32_t> codes;
  for (int64_t offset : offsetsOf(type)) {
    uint32_t code = 0;
    std::memcpy(&code, start + offset, bytes);
    codes.push_back(code);
  }
  return codes;
}

/// A code's place in the order of the numbers that codes stand for.
int64_t rank(uint32_t code, int64_t bytes) {
  uint32_t sign = uint32_t{1} << (8 * bytes - 1);
  return code & sign ? -int64_t(code ^ sign) : int64_t(code);
}

class TransposedOutputs : public testing::TestWithParam<Case> {};

TEST_P(TransposedOutputs, AreWhatThisMachineWrites) {
  const Case &c = GetParam();
  const std::string text = std::string("step.program @p {\n") + c.text + "}\n";
  std::unique_ptr<TaskRunner> wanted = TaskRunner::make(text, emitRow, 8);
  ASSERT_TRUE(wanted);
  EmulatedTask task(text);
  std::vector<std::string> kernels = task.kernels();
  ASSERT_EQ(kernels.size(), c.kernels.size());
  for (size_t i = 0; i < kernels.size(); ++i)
    EXPECT_EQ(kernels[i].find(c.kernels[i]), 0) << kernels[i];

  std::mt19937_64 engine(3);
  for (auto [i, place] : llvm::enumerate(task.ins)) {
    RankedTensorType type = wanted->inputType(i);
    wanted->setInput(i, type.getElementType().isInteger(32)
                            ? TensorValue::integers(type, engine, 0, 200)
                            : TensorValue::normal(type, engine));
    const std::vector<uint32_t> codes = codesOf(wanted->inputMemory(i), place.type);
    int64_t bytes = step::elementBytes(place.type.getElementType());
    for (auto [offset, code] : llvm::zip(offsetsOf(place.type), codes))
      std::memcpy(task.memoryOf(place) + offset, &code, bytes);
  }
  wanted->run();
  ASSERT_EQ(task.run(7), "");
  for (auto [i, place] : llvm::enumerate(task.outs)) {
    SCOPED_TRACE("output " + std::to_string(i));
    int64_t bytes = step::elementBytes(place.type.getElementType());
    const std::vector<uint32_t> got = codesOf(task.memoryOf(place), place.type),
                                want = codesOf(wanted->outputMemory(i), place.type);
    int64_t others = 0;
    for (size_t k = 0; k < want.size(); ++k) {
      if (bytes == 4) {
        float x = std::bit_cast<float>(got[k]), y = std::bit_cast<float>(want[k]);
        ASSERT_LE(std::abs(x - y), 1e-5 * (1 + std::abs(y))) << "element " << k;
      } else {
        ASSERT_LE(std::abs(rank(got[k], bytes) - rank(want[k], bytes)), 1) << "element " << k;
        others += got[k] != want[k];
      }
    }
    EXPECT_LE(others, 2 + int64_t(want.size()) / 100);
  }
}

/// Both layouts, and nothing else.
constexpr const char *whole = R"(
  %x = step.buffer "x" : memref<256x384xbf16>
  %s = step.buffer "s" : memref<f32>
  %y = step.buffer "y" : memref<256x384xf8E4M3FN>
  %b = step.buffer "t" : memref<384x256xf8E4M3FN>
  %t = step.view %b : memref<384x256xf8E4M3FN> to memref<256x384xf8E4M3FN, strided<[1, 256]>>
  step.task ins(%x, %s) outs(%y, %t) : (memref<256x384xbf16>, memref<f32>) -> (memref<256x384xf8E4M3FN>, memref<256x384xf8E4M3FN, strided<[1, 256]>>) {
  ^bb0(%a: tensor<256x384xbf16>, %f: tensor<f32>):
    %0 = nano.cast %a : tensor<256x384xbf16> -> tensor<256x384xf32>
    %1 = nano.broadcast %f dims [] : tensor<f32> -> tensor<256x384xf32>
    %2 = nano.mul %0, %1 : tensor<256x384xf32>
    %3 = nano.cast %2 : tensor<256x384xf32> -> tensor<256x384xf8E4M3FN>
    nano.yield %3, %3 : tensor<256x384xf8E4M3FN>, tensor<256x384xf8E4M3FN>
  }
)";

/// Sizes that no tile divides, one number a row and one a column, and columns that begin anywhere.
constexpr const char *ragged = R"(
  %x = step.buffer "x" : memref<133x203xf32>
  %r = step.buffer "r" : memref<133xf32>
  %c = step.buffer "c" : memref<203xf32>
  %y = step.buffer "y" : memref<133x203xbf16>
  %b = step.buffer "t" : memref<30000xbf16>
  %t = step.view %b : memref<30000xbf16> to memref<133x203xbf16, strided<[1, 145], offset: 3>>
  %d = step.buffer "u" : memref<30000xf8E5M2>
  %u = step.view %d : memref<30000xf8E5M2> to memref<133x203xf8E5M2, strided<[1, 137], offset: 1>>
  step.task ins(%x, %r, %c) outs(%y, %t, %u) : (memref<133x203xf32>, memref<133xf32>, memref<203xf32>) -> (memref<133x203xbf16>, memref<133x203xbf16, strided<[1, 145], offset: 3>>, memref<133x203xf8E5M2, strided<[1, 137], offset: 1>>) {
  ^bb0(%a: tensor<133x203xf32>, %p: tensor<133xf32>, %q: tensor<203xf32>):
    %0 = nano.broadcast %p dims [0] : tensor<133xf32> -> tensor<133x203xf32>
    %1 = nano.broadcast %q dims [1] : tensor<203xf32> -> tensor<133x203xf32>
    %2 = nano.mul %a, %0 : tensor<133x203xf32>
    %3 = nano.add %2, %1 : tensor<133x203xf32>
    %4 = nano.cast %3 : tensor<133x203xf32> -> tensor<133x203xbf16>
    %5 = nano.sub %a, %1 : tensor<133x203xf32>
    %6 = nano.cast %5 : tensor<133x203xf32> -> tensor<133x203xf8E5M2>
    nano.yield %4, %4, %6 : tensor<133x203xbf16>, tensor<133x203xbf16>, tensor<133x203xf8E5M2>
  }
)";

/// f32, transposed only, and a matrix of a batch.
constexpr const char *batch = R"(
  %x = step.buffer "x" : memref<3x64x40xf32>
  %b = step.buffer "t" : memref<3x40x64xf32>
  %t = step.view %b : memref<3x40x64xf32> to memref<3x64x40xf32, strided<[2560, 1, 64]>>
  step.task ins(%x) outs(%t) : (memref<3x64x40xf32>) -> memref<3x64x40xf32, strided<[2560, 1, 64]>> {
  ^bb0(%a: tensor<3x64x40xf32>):
    %0 = nano.add %a, %a : tensor<3x64x40xf32>
    nano.yield %0 : tensor<3x64x40xf32>
  }
)";

/// Row reductions that no element depends on, over several tiles; the rows are updated in place.
constexpr const char *strip = R"(
  %x = step.buffer "x" : memref<70x300xbf16>
  %m = step.buffer "m" : memref<70xf32>
  %n = step.buffer "n" : memref<70xf32>
  %b = step.buffer "t" : memref<300x80xf8E5M2>
  %t = step.view %b : memref<300x80xf8E5M2> to memref<70x300xf8E5M2, strided<[1, 80]>>
  step.task ins(%x) outs(%m, %x, %n, %t) : (memref<70x300xbf16>) -> (memref<70xf32>, memref<70x300xbf16>, memref<70xf32>, memref<70x300xf8E5M2, strided<[1, 80]>>) {
  ^bb0(%a: tensor<70x300xbf16>):
    %0 = nano.cast %a : tensor<70x300xbf16> -> tensor<70x300xf32>
    %1 = nano.abs %0 : tensor<70x300xf32>
    %2 = nano.reduce max %1 dims [1] : tensor<70x300xf32> -> tensor<70xf32>
    %3 = nano.mul %0, %0 : tensor<70x300xf32>
    %4 = nano.reduce sum %3 dims [1] : tensor<70x300xf32> -> tensor<70xf32>
    %5 = nano.sqrt %4 : tensor<70xf32>
    %6 = nano.add %a, %a : tensor<70x300xbf16>
    %7 = nano.cast %0 : tensor<70x300xf32> -> tensor<70x300xf8E5M2>
    nano.yield %2, %6, %5, %7 : tensor<70xf32>, tensor<70x300xbf16>, tensor<70xf32>, tensor<70x300xf8E5M2>
  }
)";

/// The sum of `inputs` operands less the largest of its row, transposed. Rows so short that a block
/// has threads for more of them than it gathers.
std::string shortRows(int64_t rows, int64_t columns, int64_t inputs) {
  const std::string sizes = std::to_string(rows) + "x" + std::to_string(columns),
                    x = "memref<" + sizes + "xf32>", wide = "tensor<" + sizes + "xf32>",
                    row = "tensor<" + std::to_string(rows) + "xf32>",
                    tall =
                        "memref<" + std::to_string(columns) + "x" + std::to_string(rows) + "xf32>",
                    t = "memref<" + sizes + "xf32, strided<[1, " + std::to_string(rows) + "]>>";
  std::string text, ins, types, arguments, sum;
  for (int64_t i = 0; i < inputs; ++i) {
    const std::string number = std::to_string(i), comma = i ? ", " : "";
    text += "  %x" + number + " = step.buffer \"x" + number + "\" : " + x + "\n";
    ins += comma + "%x" + number;
    types += comma + x;
    arguments += comma + "%a" + number + ": " + wide;
  }
  std::string all = "%a0";
  for (int64_t i = 1; i < inputs; ++i) {
    const std::string number = std::to_string(i);
    sum += "    %s" + number + " = nano.add " + all + ", %a" + number + " : " + wide + "\n";
    all = "%s" + number;
  }
  return text + "  %b = step.buffer \"t\" : " + tall + "\n  %t = step.view %b : " + tall + " to " +
         t + "\n  step.task ins(" + ins + ") outs(%t) : (" + types + ") -> " + t + " {\n  ^bb0(" +
         arguments + "):\n" + sum + "    %m = nano.reduce max " + all + " dims [1] : " + wide +
         " -> " + row + "\n    %n = nano.broadcast %m dims [0] : " + row + " -> " + wide +
         "\n    %y = nano.sub " + all + ", %n : " + wide + "\n    nano.yield %y : " + wide +
         "\n  }\n";
}

/// Elements that depend on a row reduction: rows of a warp are gathered.
constexpr const char *norm = R"(
  %x = step.buffer "x" : memref<77x264xbf16>
  %m = step.buffer "m" : memref<77xf32>
  %y = step.buffer "y" : memref<77x264xf8E4M3FN>
  %b = step.buffer "t" : memref<264x96xf8E4M3FN>
  %t = step.view %b : memref<264x96xf8E4M3FN> to memref<77x264xf8E4M3FN, strided<[1, 96]>>
  %d = step.buffer "u" : memref<264x77xbf16>
  %u = step.view %d : memref<264x77xbf16> to memref<77x264xbf16, strided<[1, 77]>>
  step.task ins(%x) outs(%m, %y, %t, %u) : (memref<77x264xbf16>) -> (memref<77xf32>, memref<77x264xf8E4M3FN>, memref<77x264xf8E4M3FN, strided<[1, 96]>>, memref<77x264xbf16, strided<[1, 77]>>) {
  ^bb0(%a: tensor<77x264xbf16>):
    %0 = nano.cast %a : tensor<77x264xbf16> -> tensor<77x264xf32>
    %1 = nano.mul %0, %0 : tensor<77x264xf32>
    %2 = nano.reduce sum %1 dims [1] : tensor<77x264xf32> -> tensor<77xf32>
    %3 = nano.constant 0.0037878787 : tensor<77xf32>
    %4 = nano.mul %2, %3 : tensor<77xf32>
    %5 = nano.rsqrt %4 : tensor<77xf32>
    %6 = nano.broadcast %5 dims [0] : tensor<77xf32> -> tensor<77x264xf32>
    %7 = nano.mul %0, %6 : tensor<77x264xf32>
    %8 = nano.abs %7 : tensor<77x264xf32>
    %9 = nano.reduce max %8 dims [1] : tensor<77x264xf32> -> tensor<77xf32>
    %10 = nano.cast %7 : tensor<77x264xf32> -> tensor<77x264xf8E4M3FN>
    %11 = nano.cast %7 : tensor<77x264xf32> -> tensor<77x264xbf16>
    nano.yield %9, %10, %10, %11 : tensor<77xf32>, tensor<77x264xf8E4M3FN>, tensor<77x264xf8E4M3FN>, tensor<77x264xbf16>
  }
)";

/// The same of rows that a whole block holds, which are read rotated.
constexpr const char *rotated = R"(
  %x = step.buffer "x" : memref<34x1300xf32>
  %b = step.buffer "t" : memref<1300x34xf8E4M3FN>
  %t = step.view %b : memref<1300x34xf8E4M3FN> to memref<34x1300xf8E4M3FN, strided<[1, 34]>>
  step.task ins(%x) outs(%x, %t) : (memref<34x1300xf32>) -> (memref<34x1300xf32>, memref<34x1300xf8E4M3FN, strided<[1, 34]>>) {
  ^bb0(%a: tensor<34x1300xf32>):
    %0 = nano.reduce max %a dims [1] : tensor<34x1300xf32> -> tensor<34xf32>
    %1 = nano.broadcast %0 dims [0] : tensor<34xf32> -> tensor<34x1300xf32>
    %2 = nano.rotate %a by 650 : tensor<34x1300xf32>
    %3 = nano.sub %2, %1 : tensor<34x1300xf32>
    %4 = nano.cast %3 : tensor<34x1300xf32> -> tensor<34x1300xf8E4M3FN>
    nano.yield %3, %4 : tensor<34x1300xf32>, tensor<34x1300xf8E4M3FN>
  }
)";

/// Rows too long to be gathered: the sums first, with the loss; one column of each row is another.
constexpr const char *loss = R"(
  %x = step.buffer "x" : memref<70x30000xbf16>
  %i = step.buffer "i" : memref<70xi32>
  %l = step.buffer "l" : memref<70xf32>
  %y = step.buffer "y" : memref<70x30000xf8E5M2>
  %b = step.buffer "t" : memref<30000x70xf8E5M2>
  %t = step.view %b : memref<30000x70xf8E5M2> to memref<70x30000xf8E5M2, strided<[1, 70]>>
  step.task ins(%x, %i) outs(%l, %y, %t) : (memref<70x30000xbf16>, memref<70xi32>) -> (memref<70xf32>, memref<70x30000xf8E5M2>, memref<70x30000xf8E5M2, strided<[1, 70]>>) {
  ^bb0(%a: tensor<70x30000xbf16>, %p: tensor<70xi32>):
    %0 = nano.cast %a : tensor<70x30000xbf16> -> tensor<70x30000xf32>
    %1 = nano.sigmoid %0 : tensor<70x30000xf32>
    %2 = nano.exp %1 : tensor<70x30000xf32>
    %3 = nano.reduce sum %2 dims [1] : tensor<70x30000xf32> -> tensor<70xf32>
    %4 = nano.log %3 : tensor<70xf32>
    %5 = nano.iota 1 : tensor<70x30000xi32>
    %6 = nano.broadcast %p dims [0] : tensor<70xi32> -> tensor<70x30000xi32>
    %zero = nano.constant 0.0 : tensor<70x30000xf32>
    %7 = nano.select eq, %5, %6, %1, %zero : tensor<70x30000xi32>, tensor<70x30000xf32>
    %8 = nano.reduce sum %7 dims [1] : tensor<70x30000xf32> -> tensor<70xf32>
    %9 = nano.sub %4, %8 : tensor<70xf32>
    %c = nano.constant 4096.0 : tensor<70xf32>
    %10 = nano.div %c, %3 : tensor<70xf32>
    %11 = nano.broadcast %10 dims [0] : tensor<70xf32> -> tensor<70x30000xf32>
    %12 = nano.mul %2, %11 : tensor<70x30000xf32>
    %one = nano.constant -4096.0 : tensor<70x30000xf32>
    %13 = nano.add %12, %one : tensor<70x30000xf32>
    %14 = nano.select eq, %5, %6, %13, %12 : tensor<70x30000xi32>, tensor<70x30000xf32>
    %15 = nano.cast %14 : tensor<70x30000xf32> -> tensor<70x30000xf8E5M2>
    nano.yield %9, %15, %15 : tensor<70xf32>, tensor<70x30000xf8E5M2>, tensor<70x30000xf8E5M2>
  }
)";

/// All rows are one sum.
constexpr const char *columns = R"(
  %x = step.buffer "x" : memref<40x72xf32>
  %m = step.buffer "m" : memref<72xf32>
  %b = step.buffer "t" : memref<72x40xf8E4M3FN>
  %t = step.view %b : memref<72x40xf8E4M3FN> to memref<40x72xf8E4M3FN, strided<[1, 40]>>
  step.task ins(%x) outs(%m, %t) : (memref<40x72xf32>) -> (memref<72xf32>, memref<40x72xf8E4M3FN, strided<[1, 40]>>) {
  ^bb0(%a: tensor<40x72xf32>):
    %0 = nano.reduce sum %a dims [0] : tensor<40x72xf32> -> tensor<72xf32>
    %1 = nano.cast %a : tensor<40x72xf32> -> tensor<40x72xf8E4M3FN>
    nano.yield %0, %1 : tensor<72xf32>, tensor<40x72xf8E4M3FN>
  }
)";

/// Of `blocks` times `rows` rows of bf16 x and y: p = x·y in rows and transposed, and p + z, z of a
/// number a column, transposed in another type, or all in bf16 as matrices of `rows` rows; the sums
/// of the columns of p and, over as many rows, the largest y; and of each row the largest |p|.
std::string summed(int64_t blocks, int64_t rows, int64_t columns, bool isBatch) {
  std::string text = R"(
  %x = step.buffer "x" : memref<FULLxbf16>
  %y = step.buffer "y" : memref<FULLxbf16>
  %z = step.buffer "z" : memref<WIDTHxf32>
  %m = step.buffer "m" : memref<ROWSxf32>
  %s = step.buffer "s" : memref<SUMSxf32>
  %l = step.buffer "l" : memref<SUMSxf32>
  %p = step.buffer "p" : memref<FULLxOTHER>
  %b = step.buffer "t" : memref<TALLxFIRST>
  %t = step.view %b : memref<TALLxFIRST> to memref<FULLxFIRST, strided<STRIDES>>
  %d = step.buffer "u" : memref<TALLxOTHER>
  %u = step.view %d : memref<TALLxOTHER> to memref<FULLxOTHER, strided<STRIDES>>
  step.task ins(%x, %y, %z) outs(%m, %s, %l, %p, %t, %u) : (memref<FULLxbf16>, memref<FULLxbf16>, memref<WIDTHxf32>) -> (memref<ROWSxf32>, memref<SUMSxf32>, memref<SUMSxf32>, memref<FULLxOTHER>, memref<FULLxFIRST, strided<STRIDES>>, memref<FULLxOTHER, strided<STRIDES>>) {
  ^bb0(%0: tensor<FULLxbf16>, %1: tensor<FULLxbf16>, %v: tensor<WIDTHxf32>):
    %2 = nano.cast %0 : tensor<FULLxbf16> -> tensor<FULLxf32>
    %3 = nano.cast %1 : tensor<FULLxbf16> -> tensor<FULLxf32>
    %4 = nano.mul %2, %3 : tensor<FULLxf32>
    %5 = nano.abs %4 : tensor<FULLxf32>
    %6 = nano.reduce max %5 dims [LAST] : tensor<FULLxf32> -> tensor<ROWSxf32>
    %7 = nano.reshape %4 : tensor<FULLxf32> -> tensor<CUBExf32>
    %8 = nano.reduce sum %7 dims [1] : tensor<CUBExf32> -> tensor<SUMSxf32>
    %9 = nano.reshape %3 : tensor<FULLxf32> -> tensor<CUBExf32>
    %10 = nano.reduce max %9 dims [1] : tensor<CUBExf32> -> tensor<SUMSxf32>
    %w = nano.broadcast %v dims [LAST] : tensor<WIDTHxf32> -> tensor<FULLxf32>
    %a = nano.add %4, %w : tensor<FULLxf32>
    %11 = nano.cast %a : tensor<FULLxf32> -> tensor<FULLxFIRST>
    %12 = nano.cast %4 : tensor<FULLxf32> -> tensor<FULLxOTHER>
    nano.yield %6, %8, %10, %12, %11, %12 : tensor<ROWSxf32>, tensor<SUMSxf32>, tensor<SUMSxf32>, tensor<FULLxOTHER>, tensor<FULLxFIRST>, tensor<FULLxOTHER>
  }
)";
  const std::string b = std::to_string(blocks), r = std::to_string(rows),
                    c = std::to_string(columns), all = std::to_string(blocks * rows),
                    cube = b + "x" + r + "x" + c;
  const std::pair<const char *, std::string> words[] = {
      {"FULL", isBatch ? cube : all + "x" + c},
      {"CUBE", cube},
      {"ROWS", isBatch ? b + "x" + r : all},
      {"SUMS", b + "x" + c},
      {"WIDTH", c},
      {"TALL", isBatch ? b + "x" + c + "x" + r : c + "x" + all},
      {"STRIDES",
       isBatch ? "[" + std::to_string(rows * columns) + ", 1, " + r + "]" : "[1, " + all + "]"},
      {"LAST", isBatch ? "2" : "1"},
      {"FIRST", isBatch ? "bf16" : "f8E4M3FN"},
      {"OTHER", isBatch ? "bf16" : "f8E5M2"},
  };
  for (const auto &[word, meaning] : words)
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += meaning.size())
      text.replace(at, std::string_view(word).size(), meaning);
  return text;
}

/// Sums of columns of what a norm of its row makes: no strip has that.
constexpr const char *summedNorm = R"(
  %x = step.buffer "x" : memref<77x264xbf16>
  %s = step.buffer "s" : memref<264xf32>
  %b = step.buffer "t" : memref<264x96xf8E4M3FN>
  %t = step.view %b : memref<264x96xf8E4M3FN> to memref<77x264xf8E4M3FN, strided<[1, 96]>>
  step.task ins(%x) outs(%s, %t) : (memref<77x264xbf16>) -> (memref<264xf32>, memref<77x264xf8E4M3FN, strided<[1, 96]>>) {
  ^bb0(%a: tensor<77x264xbf16>):
    %0 = nano.cast %a : tensor<77x264xbf16> -> tensor<77x264xf32>
    %1 = nano.mul %0, %0 : tensor<77x264xf32>
    %2 = nano.reduce sum %1 dims [1] : tensor<77x264xf32> -> tensor<77xf32>
    %3 = nano.rsqrt %2 : tensor<77xf32>
    %4 = nano.broadcast %3 dims [0] : tensor<77xf32> -> tensor<77x264xf32>
    %5 = nano.mul %0, %4 : tensor<77x264xf32>
    %6 = nano.cast %5 : tensor<77x264xf32> -> tensor<77x264xf8E4M3FN>
    %7 = nano.reduce sum %5 dims [0] : tensor<77x264xf32> -> tensor<264xf32>
    nano.yield %7, %6 : tensor<264xf32>, tensor<77x264xf8E4M3FN>
  }
)";

/// x, and with `reduces` also a maximum of every row, in rows and transposed, at any size.
std::string sized(int64_t rows, int64_t columns, const std::string &element, bool reduces) {
  auto of = [&](const std::string &kind, const std::string &type) {
    return kind + "<" + std::to_string(rows) + "x" + std::to_string(columns) + "x" + type;
  };
  const std::string x = of("memref", "f32>"), y = of("memref", element + ">"),
                    row = std::to_string(rows) + "xf32>", tall = std::to_string(rows + 1),
                    wide = "memref<" + std::to_string(columns) + "x" + tall + "x" + element + ">",
                    t = of("memref", element + ", strided<[1, " + tall + "]>>"),
                    f = of("tensor", "f32>"), g = of("tensor", element + ">");
  const std::string more = reduces ? ", %m" : "", moreType = reduces ? ", memref<" + row : "",
                    moreValue = reduces ? ", %2" : "",
                    moreTensor = reduces ? ", tensor<" + row : "";
  return "  %x = step.buffer \"x\" : " + x + "\n  %y = step.buffer \"y\" : " + y +
         "\n  %m = step.buffer \"m\" : memref<" + row + "\n  %b = step.buffer \"t\" : " + wide +
         "\n  %t = step.view %b : " + wide + " to " + t + "\n  step.task ins(%x) outs(%y, %t" +
         more + ") : (" + x + ") -> (" + y + ", " + t + moreType + ") {\n  ^bb0(%a: " + f +
         "):\n    %0 = nano.add %a, %a : " + f + "\n    %1 = nano.cast %0 : " + f + " -> " + g +
         (reduces ? "\n    %2 = nano.reduce max %0 dims [1] : " + f + " -> tensor<" + row : "") +
         "\n    nano.yield %1, %1" + moreValue + " : " + g + ", " + g + moreTensor + "\n  }\n";
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, TransposedOutputs,
    testing::Values(Case{"pair", {"add_cast"}, sized(2, 2, "f8E5M2", false)},
                    Case{"narrow", {"add_cast"}, sized(300, 3, "bf16", false)},
                    Case{"odd", {"add_cast"}, sized(129, 257, "f8E4M3FN", false)},
                    Case{"even", {"add_cast"}, sized(64, 128, "bf16", false)},
                    Case{"short_strip", {"max_add_cast"}, sized(5, 9, "f8E4M3FN", true)},
                    Case{"odd_strip", {"max_add_cast"}, sized(67, 131, "bf16", true)},
                    Case{"even_strip", {"max_add_cast"}, sized(128, 256, "f8E5M2", true)}),
    testing::PrintToStringParamName());

INSTANTIATE_TEST_SUITE_P(
    Tasks, TransposedOutputs,
    testing::Values(Case{"whole", {"mul_cast"}, whole}, Case{"ragged", {"mul_add_cast"}, ragged},
                    Case{"batch", {"add"}, batch}, Case{"strip", {"sum_sqrt"}, strip},
                    Case{"norm", {"rmsnorm"}, norm}, Case{"rotated", {"max_rotate"}, rotated},
                    Case{"short_rows", {"max"}, shortRows(32, 4, 1)},
                    Case{"short_rows_of_many", {"max"}, shortRows(64, 28, 7)},
                    Case{"loss", {"sum_sigmoid_log", "sigmoid_exp_select"}, loss},
                    Case{"columns", {"sum"}, columns},
                    Case{"summed_norm", {"rmsnorm", "copy"}, summedNorm}),
    testing::PrintToStringParamName());

// One strip to a sum, several, and strips that are cut off; columns that fill the tiles or do not.
INSTANTIATE_TEST_SUITE_P(
    Sums, TransposedOutputs,
    testing::Values(Case{"one", {"sum_mul_add"}, summed(2, 64, 128, false)},
                    Case{"few_rows", {"sum_mul_add"}, summed(3, 40, 136, false)},
                    Case{"strips", {"sum_mul_add"}, summed(2, 192, 256, false)},
                    Case{"cut_off", {"sum_mul_add"}, summed(2, 150, 203, false)},
                    Case{"batch", {"sum_mul_add"}, summed(3, 64, 72, true)}),
    testing::PrintToStringParamName());

} // namespace
