// Matrix products with an element-wise end, from task to kernel, on the emulator, against the
// interpreter of the graph dialect.
// The tolerance of |actual − expected| / (1 + |expected|) is 2⁻⁶: where a product's rounding to
// bf16 goes the other way that is 2⁻⁸ of it, squared twice that, and the result is rounded again. A
// wrong element is off by about 1.
#include "tests/codegen/TaskRunner.h"
#include "tests/codegen/templates/TemplateRunner.h"

#include "codegen/PlanCommands.h"
#include "codegen/cuda/CudaEmitter.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <map>

using namespace mlir;
using namespace nano;
using namespace nano::test;

namespace {

constexpr double tolerance = 0x1p-6;

/// The places of a buffer's view, in the order of its elements.
std::vector<size_t> placesOf(MemRefType type) {
  const step::Layout layout = step::layoutOf(type);
  std::vector<size_t> places(size_t(type.getNumElements()));
  for (size_t i = 0; i < places.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t at = layout.offset;
    for (int64_t dim = type.getRank() - 1; dim >= 0; --dim) {
      at += rest % type.getDimSize(dim) * layout.strides[dim];
      rest /= type.getDimSize(dim);
    }
    places[i] = static_cast<size_t>(at);
  }
  return places;
}

/// One task: what the interpreter and its kernel make of the same numbers.
class Product {
public:
  explicit Product(const std::string &program) {
    context.loadDialect<graph::NanoDialect, step::StepDialect, arith::ArithDialect,
                        func::FuncDialect, math::MathDialect, memref::MemRefDialect,
                        scf::SCFDialect, vector::VectorDialect>();
    module = parseSourceString<ModuleOp>(program, &context);
    if (module)
      module->walk([&](step::TaskOp found) { task = found; });
  }

  void check(int64_t multiprocessors) {
    ASSERT_TRUE(task);
    std::mt19937_64 random(7);
    std::vector<TensorValue> inputs;
    for (Value in : task.getIns()) {
      const auto type = cast<MemRefType>(in.getType());
      TensorValue value = TensorValue::normal(step::tensorOf(type), random);
      for (double &number : value.data)
        number = roundTo(number, type.getElementType());
      put(in, value);
      inputs.push_back(std::move(value));
    }
    const std::vector<TensorValue> expected = interpretTask(task, inputs);
    std::vector<std::pair<std::string, MemRefType>> outs;
    for (Value out : task.getOuts()) {
      bufferOf(out);
      outs.emplace_back(step::nameOf(out), cast<MemRefType>(out.getType()));
    }
    const std::map<std::string, DeviceBuffer> before = buffers;
    ASSERT_NO_FATAL_FAILURE(run(multiprocessors));
    std::map<std::string, std::vector<bool>> written;
    for (auto [i, out] : llvm::enumerate(outs)) {
      const std::vector<double> values = buffers[out.first].values();
      written[out.first].resize(values.size());
      TensorValue actual{expected[i].shape, {}};
      for (size_t place : placesOf(out.second)) {
        actual.data.push_back(values[place]);
        written[out.first][place] = true;
      }
      EXPECT_LE(largestError(actual, expected[i]), tolerance) << "output " << i;
    }
    // What no result lies at is as it was.
    for (auto &[name, places] : written) {
      const auto bytes = static_cast<size_t>(buffers[name].elementBytes);
      const std::vector<std::byte> &now = buffers[name].bytes, &then = before.at(name).bytes;
      for (size_t i = 0; i < places.size(); ++i) {
        const bool isSame = std::equal(&now[i * bytes], &now[i * bytes] + bytes, &then[i * bytes]);
        ASSERT_TRUE(places[i] || isSame) << name << " at " << i;
      }
    }
  }

private:
  DeviceBuffer &bufferOf(Value memref) {
    const std::string name = step::nameOf(memref);
    auto [it, isNew] = buffers.try_emplace(name);
    if (isNew) {
      const auto whole = cast<MemRefType>(step::bufferOf(memref)->getResult(0).getType());
      const int64_t bytes = step::elementBytes(whole.getElementType());
      it->second = DeviceBuffer(name, static_cast<int>(bytes), size_t(whole.getNumElements()));
      std::fill(it->second.bytes.begin(), it->second.bytes.end(), std::byte{0xff});
    }
    return it->second;
  }

  void put(Value memref, const TensorValue &value) {
    DeviceBuffer &buffer = bufferOf(memref);
    const auto type = cast<MemRefType>(memref.getType());
    const DeviceBuffer numbers = type.getElementType().isBF16()
                                     ? DeviceBuffer::ofBf16("", value.data)
                                     : DeviceBuffer::ofFloats("", value.data);
    const auto bytes = static_cast<size_t>(buffer.elementBytes);
    for (auto [i, place] : llvm::enumerate(placesOf(type)))
      std::copy_n(&numbers.bytes[i * bytes], bytes, &buffer.bytes[place * bytes]);
  }

  /// Lowers the task, and runs its kernel on the buffers.
  void run(int64_t multiprocessors) {
    PassManager passes(&context);
    LowerKernelsOptions options;
    options.target = "cuda";
    options.multiprocessors = multiprocessors;
    passes.addPass(createLowerKernels(options));
    ASSERT_TRUE(succeeded(passes.run(*module)));
    step::LaunchOp launch;
    module->walk([&](step::LaunchOp found) { launch = found; });
    auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        launch, SymbolRefAttr::get(&context, step::kernelModuleName, {launch.getKernelAttr()}));
    FailureOr<std::string> text = codegen::cudaKernelText(kernel, 1);
    ASSERT_TRUE(succeeded(text));
    auto integer = [&](StringRef name) {
      return kernel->getAttrOfType<IntegerAttr>(name).getInt();
    };
    auto contains = [&](StringRef name, unsigned argument) {
      auto list = kernel->getAttrOfType<DenseI64ArrayAttr>(name);
      return llvm::is_contained(list.asArrayRef(), int64_t(argument));
    };
    Shape shape{static_cast<int>(integer("nano.threads")), launch.getIterations()->front(),
                static_cast<int>(integer("nano.scratch_bytes")), integer("nano.block_iterations"),
                codegen::tensorMapsOf(kernel)};
    std::vector<Argument> arguments;
    for (auto [i, operand] : llvm::enumerate(launch.getBuffers())) {
      const auto type = cast<MemRefType>(operand.getType());
      const bool isWritten = contains("nano.writes", i) || contains("nano.updated", i);
      arguments.push_back(
          {&bufferOf(operand), isWritten,
           size_t(step::layoutOf(type).offset * step::elementBytes(type.getElementType())),
           isWritten && contains("nano.reads", i)});
    }
    const std::string name = launch.getKernel().str();
    SCOPED_TRACE(*text);
    EXPECT_EQ(TemplateRunner(*text, {name}).run(name, shape, arguments, 3), "");
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  step::TaskOp task;
  std::map<std::string, DeviceBuffer> buffers;
};

/// relu² of a product, as a model's forward pass has it.
std::string squareProgram(int64_t rows, int64_t columns, int64_t inner, bool transposeB) {
  auto type = [](int64_t a, int64_t b) {
    return std::to_string(a) + "x" + std::to_string(b) + "xbf16>";
  };
  const std::string a = type(rows, inner),
                    b = transposeB ? type(columns, inner) : type(inner, columns),
                    c = type(rows, columns);
  return "step.program @p {\n  %a = step.buffer \"a\" : memref<" + a +
         "\n  %b = step.buffer \"b\" : memref<" + b + "\n  %y = step.buffer \"y\" : memref<" + c +
         "\n  step.task ins(%a, %b) outs(%y) : (memref<" + a + ", memref<" + b + ") -> memref<" +
         c + " {\n  ^bb0(%x: tensor<" + a + ", %w: tensor<" + b +
         "):\n    %p = nano.matmul %x, %w " + (transposeB ? "{transpose_b} " : "") + ": (tensor<" +
         a + ", tensor<" + b + ") -> tensor<" + c + "\n    %zero = nano.constant 0.0 : tensor<" +
         c + "\n    %m = nano.max %p, %zero : tensor<" + c +
         "\n    %s = nano.mul %m, %m : tensor<" + c + "\n    nano.yield %s : tensor<" + c +
         "\n  }\n}\n";
}

} // namespace

TEST(ProductKernel, SizesThatTilesDoNotDivide) {
  struct Case {
    int64_t rows, columns, inner, multiprocessors;
  };
  // Fewer rows and columns than a tile; several tiles a block, of one column and of several; an
  // inner dimension of less than one step, of whole ones, and of more.
  for (const Case &size :
       {Case{5, 8, 8, 2}, Case{300, 264, 72, 2}, Case{140, 520, 128, 4}, Case{513, 40, 200, 132}})
    for (bool transposeB : {true, false}) {
      SCOPED_TRACE(std::to_string(size.rows) + "x" + std::to_string(size.columns) + "x" +
                   std::to_string(size.inner) + (transposeB ? ", transposed" : ""));
      Product(squareProgram(size.rows, size.columns, size.inner, transposeB))
          .check(size.multiprocessors);
    }
}

TEST(ProductKernel, OtherOperandsAndTwoResults) {
  Product(R"(
    step.program @p {
      %a = step.buffer "a" : memref<200x64xbf16>
      %b = step.buffer "b" : memref<64x72xbf16>
      %o = step.buffer "other" : memref<200x72xbf16>
      %d = step.buffer "bias" : memref<72xf32>
      %c = step.buffer "c" : memref<f32>
      %y = step.buffer "y" : memref<200x72xbf16>
      %z = step.buffer "z" : memref<200x72xf32>
      step.task ins(%a, %o, %b, %d, %c) outs(%z, %y)
          : (memref<200x64xbf16>, memref<200x72xbf16>, memref<64x72xbf16>, memref<72xf32>, memref<f32>)
          -> (memref<200x72xf32>, memref<200x72xbf16>) {
      ^bb0(%x: tensor<200x64xbf16>, %e: tensor<200x72xbf16>, %w: tensor<64x72xbf16>, %f: tensor<72xf32>, %n: tensor<f32>):
        %p = nano.matmul %x, %w : (tensor<200x64xbf16>, tensor<64x72xbf16>) -> tensor<200x72xbf16>
        %q = nano.cast %p : tensor<200x72xbf16> -> tensor<200x72xf32>
        %g = nano.broadcast %f dims [1] : tensor<72xf32> -> tensor<200x72xf32>
        %h = nano.add %q, %g : tensor<200x72xf32>
        %m = nano.exp %n : tensor<f32>
        %i = nano.broadcast %m dims [] : tensor<f32> -> tensor<200x72xf32>
        %j = nano.mul %h, %i : tensor<200x72xf32>
        %k = nano.cast %e : tensor<200x72xbf16> -> tensor<200x72xf32>
        %l = nano.add %j, %k : tensor<200x72xf32>
        nano.yield %l, %p : tensor<200x72xf32>, tensor<200x72xbf16>
      }
    })")
      .check(2);
}

TEST(ProductKernel, Parts) {
  // Factors, an operand and the result are columns of wider buffers.
  Product(R"(
    step.program @p {
      %aa = step.buffer "a" : memref<150x200xbf16>
      %a = step.view %aa : memref<150x200xbf16> to memref<150x104xbf16, strided<[200, 1], offset: 16>>
      %bb = step.buffer "b" : memref<96x112xbf16>
      %b = step.view %bb : memref<96x112xbf16> to memref<96x104xbf16, strided<[112, 1], offset: 8>>
      %oo = step.buffer "other" : memref<150x120xf32>
      %o = step.view %oo : memref<150x120xf32> to memref<150x96xf32, strided<[120, 1], offset: 4>>
      %yy = step.buffer "y" : memref<150x128xf32>
      %y = step.view %yy : memref<150x128xf32> to memref<150x96xf32, strided<[128, 1], offset: 32>>
      step.task ins(%a, %b, %o) outs(%y)
          : (memref<150x104xbf16, strided<[200, 1], offset: 16>>, memref<96x104xbf16, strided<[112, 1], offset: 8>>,
             memref<150x96xf32, strided<[120, 1], offset: 4>>) -> memref<150x96xf32, strided<[128, 1], offset: 32>> {
      ^bb0(%x: tensor<150x104xbf16>, %w: tensor<96x104xbf16>, %e: tensor<150x96xf32>):
        %p = nano.matmul %x, %w {transpose_b} : (tensor<150x104xbf16>, tensor<96x104xbf16>) -> tensor<150x96xbf16>
        %f = nano.cast %p : tensor<150x96xbf16> -> tensor<150x96xf32>
        %s = nano.mul %f, %e : tensor<150x96xf32>
        nano.yield %s : tensor<150x96xf32>
      }
    })")
      .check(2);
}

TEST(ProductKernel, OverAnOperand) {
  // The gradient of relu² over the square that it reads.
  Product(R"(
    step.program @p {
      %a = step.buffer "a" : memref<300x80xbf16>
      %b = step.buffer "b" : memref<80x264xbf16>
      %y = step.buffer "y" : memref<300x264xbf16>
      step.task ins(%y, %a, %b) outs(%y)
          : (memref<300x264xbf16>, memref<300x80xbf16>, memref<80x264xbf16>) -> memref<300x264xbf16> {
      ^bb0(%s: tensor<300x264xbf16>, %x: tensor<300x80xbf16>, %w: tensor<80x264xbf16>):
        %p = nano.matmul %x, %w : (tensor<300x80xbf16>, tensor<80x264xbf16>) -> tensor<300x264xbf16>
        %zero = nano.constant 0.0 : tensor<300x264xbf16>
        %m = nano.max %s, %zero : tensor<300x264xbf16>
        %r = nano.sqrt %m : tensor<300x264xbf16>
        %g = nano.mul %p, %r : tensor<300x264xbf16>
        %h = nano.add %g, %g : tensor<300x264xbf16>
        %d = nano.select gt, %s, %zero, %h, %zero : tensor<300x264xbf16>, tensor<300x264xbf16>
        nano.yield %d : tensor<300x264xbf16>
      }
    })")
      .check(2);
}
