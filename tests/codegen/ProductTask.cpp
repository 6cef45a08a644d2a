// Tasks of matrix products on the emulator.
#include "tests/codegen/ProductTask.h"

#include "codegen/PlanCommands.h"
#include "codegen/cuda/CudaEmitter.h"
#include "passes/Passes.h"
#include "runtime/NumberFormats.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace mlir;

namespace nano::test {

/// The places of a buffer's view, in the order of its elements.
static std::vector<size_t> placesOf(MemRefType type) {
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

/// A buffer of numbers that the type of 8 bits has.
static DeviceBuffer ofFloat8(const std::vector<double> &values, Type element) {
  const auto value = isa<Float8E5M2Type>(element) ? nano::fromE5m2 : nano::fromE4m3;
  std::map<double, uint8_t> codes;
  for (int code = 0; code < 256; ++code)
    if (const double number = value(uint8_t(code)); !std::isnan(number))
      codes.try_emplace(number, uint8_t(code));
  DeviceBuffer buffer("", 1, values.size());
  for (auto [i, value] : llvm::enumerate(values))
    buffer.bytes[i] = std::byte{codes.at(value)};
  return buffer;
}

/// What a buffer's elements of that type are.
static std::vector<double> numbersOf(const DeviceBuffer &buffer, Type element) {
  if (buffer.elementBytes != 1)
    return buffer.values();
  const auto value = isa<Float8E5M2Type>(element) ? nano::fromE5m2 : nano::fromE4m3;
  std::vector<double> numbers;
  for (std::byte code : buffer.bytes)
    numbers.push_back(value(uint8_t(code)));
  return numbers;
}

std::string withSizes(std::string text, const std::map<std::string, int64_t> &sizes) {
  for (const auto &[name, size] : sizes)
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos;)
      text.replace(at, name.size(), std::to_string(size));
  return text;
}

ProductTask::ProductTask(const std::string &program) {
  context.loadDialect<graph::NanoDialect, step::StepDialect, arith::ArithDialect, func::FuncDialect,
                      math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                      vector::VectorDialect>();
  module = parseSourceString<ModuleOp>(program, &context);
  if (module)
    module->walk([&](step::TaskOp found) { task = found; });
}

void ProductTask::check(int64_t multiprocessors, const std::vector<double> &tolerances,
                        int64_t columns) {
  ASSERT_TRUE(task);
  std::mt19937_64 random(7);
  std::vector<TensorValue> inputs;
  for (auto [i, in] : llvm::enumerate(task.getIns())) {
    const auto type = cast<MemRefType>(in.getType());
    TensorValue value =
        given.count(i) ? given[i]
        : type.getElementType().isInteger(32)
            ? TensorValue::integers(step::tensorOf(type), random, -columns / 8, 9 * columns / 8)
            : TensorValue::normal(step::tensorOf(type), random);
    for (double &number : value.data)
      number = roundTo(number, type.getElementType());
    put(in, value);
    inputs.push_back(std::move(value));
  }
  const std::vector<TensorValue> expected = interpretTask(task, inputs);
  Outs outs;
  for (Value out : task.getOuts()) {
    bufferOf(out);
    outs.emplace_back(step::nameOf(out), cast<MemRefType>(out.getType()));
  }
  const std::map<std::string, DeviceBuffer> before = buffers;
  ASSERT_NO_FATAL_FAILURE(run(multiprocessors));
  compare(outs, expected, tolerances, before);
}

void ProductTask::compare(const Outs &outs, const std::vector<TensorValue> &expected,
                          const std::vector<double> &tolerances,
                          const std::map<std::string, DeviceBuffer> &before) {
  std::map<std::string, std::vector<bool>> written;
  for (auto [i, out] : llvm::enumerate(outs)) {
    const std::vector<double> values = numbersOf(buffers[out.first], out.second.getElementType());
    written[out.first].resize(values.size());
    TensorValue actual{expected[i].shape, {}};
    for (size_t place : placesOf(out.second)) {
      actual.data.push_back(values[place]);
      written[out.first][place] = true;
    }
    EXPECT_LE(largestError(actual, expected[i]), i < tolerances.size() ? tolerances[i] : ofWhole)
        << "output " << i;
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

DeviceBuffer &ProductTask::bufferOf(Value memref) {
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

void ProductTask::put(Value memref, const TensorValue &value) {
  DeviceBuffer &buffer = bufferOf(memref);
  const auto type = cast<MemRefType>(memref.getType());
  const Type element = type.getElementType();
  const DeviceBuffer numbers =
      element.isBF16()        ? DeviceBuffer::ofBf16("", value.data)
      : element.isInteger(32) ? DeviceBuffer::ofInts("", {value.data.begin(), value.data.end()})
      : element.isF32()       ? DeviceBuffer::ofFloats("", value.data)
                              : ofFloat8(value.data, element);
  const auto bytes = static_cast<size_t>(buffer.elementBytes);
  for (auto [i, place] : llvm::enumerate(placesOf(type)))
    std::copy_n(&numbers.bytes[i * bytes], bytes, &buffer.bytes[place * bytes]);
}

void ProductTask::run(int64_t multiprocessors) {
  PassManager passes(&context);
  LowerKernelsOptions options;
  options.target = "cuda";
  options.multiprocessors = multiprocessors;
  passes.addPass(createLowerKernels(options));
  ASSERT_TRUE(succeeded(passes.run(*module)));
  SmallVector<step::LaunchOp> launches;
  module->walk([&](step::LaunchOp launch) { launches.push_back(launch); });
  for (step::LaunchOp launch : launches)
    ASSERT_NO_FATAL_FAILURE(run(launch));
}

void ProductTask::run(step::LaunchOp launch) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<kernel::FuncOp>(
      launch, SymbolRefAttr::get(&context, step::kernelModuleName, {launch.getKernelAttr()}));
  FailureOr<std::string> text = codegen::cudaKernelText(kernel, 1);
  ASSERT_TRUE(succeeded(text));
  const kernel::LaunchAttr attribute = *kernel.getLaunch();
  Shape shape{static_cast<int>(attribute.getThreads()), launch.getIterations()->front(),
              static_cast<int>(kernel.getScratchBytes()), attribute.getBlockIterations(),
              codegen::tensorMapsOf(kernel)};
  std::vector<Argument> arguments;
  for (auto [i, operand] : llvm::enumerate(launch.getBuffers())) {
    const auto type = cast<MemRefType>(operand.getType());
    const bool isWritten = !kernel.getParameter(i).getConstant();
    arguments.push_back(
        {&bufferOf(operand), isWritten,
         size_t(step::layoutOf(type).offset * step::elementBytes(type.getElementType())),
         isWritten && kernel.reads(i)});
  }
  const std::string name = launch.getKernel().str();
  SCOPED_TRACE(*text);
  EXPECT_EQ(TemplateRunner(*text, {name}).run(name, shape, arguments, 3), "");
}

} // namespace nano::test
