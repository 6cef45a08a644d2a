// Compilation of one kernel, memory with guard pages, and the interpreter as oracle.
#include "tests/codegen/TaskRunner.h"

#include "codegen/cpu/KernelLowering.h"
#include "codegen/cpu/NativeCode.h"
#include "passes/cpu/RowKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;

namespace nano::test {

GuardedMemory::GuardedMemory(size_t bytes) : bytes(bytes) {
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t aligned = (bytes + 63) / 64 * 64;
  mapped = (aligned + page - 1) / page * page + page;
  mapping = static_cast<std::byte *>(
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EXPECT_NE(static_cast<void *>(mapping), MAP_FAILED);
  EXPECT_EQ(mprotect(mapping + mapped - page, page, PROT_NONE), 0);
  begin = mapping + mapped - page - aligned;
}

GuardedMemory::~GuardedMemory() { munmap(mapping, mapped); }

TaskRunner::TaskRunner() : context(std::make_unique<MLIRContext>()) {
  context->loadDialect<graph::NanoDialect, step::StepDialect, arith::ArithDialect,
                       func::FuncDialect, math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                       vector::VectorDialect>();
  codegen::loadNativeDialects(*context);
}

std::vector<int64_t> TaskRunner::lanes() {
  std::vector<int64_t> result = {8};
  if (codegen::CpuTarget::host()->avx512)
    result.push_back(16);
  return result;
}

/// The only task of a module.
static step::TaskOp taskOf(ModuleOp module) {
  step::TaskOp result;
  module.walk([&](step::TaskOp task) { result = task; });
  return result;
}

std::string TaskRunner::emissionError(llvm::StringRef text, kernels::Emitter emitter) {
  TaskRunner runner;
  runner.module = parseSourceString<ModuleOp>(text, runner.context.get());
  if (!runner.module)
    return "the text does not parse";
  std::string first;
  ScopedDiagnosticHandler handler(runner.context.get(), [&](Diagnostic &diagnostic) {
    if (first.empty())
      first = diagnostic.str();
  });
  runner.kernelModule = ModuleOp::create(UnknownLoc::get(runner.context.get()));
  OpBuilder builder = OpBuilder::atBlockEnd(runner.kernelModule->getBody());
  kernels::KernelFrame frame(taskOf(*runner.module), {}, builder, "kernel");
  bool failed = mlir::failed(emitter(frame));
  EXPECT_EQ(failed, !first.empty());
  return first;
}

std::unique_ptr<TaskRunner> TaskRunner::make(llvm::StringRef text, kernels::Emitter emitter,
                                             int64_t lanes, bool usesTiles) {
  std::unique_ptr<TaskRunner> runner(new TaskRunner);
  MLIRContext *context = runner->context.get();
  runner->module = parseSourceString<ModuleOp>(text, context);
  if (!runner->module) {
    ADD_FAILURE() << "the text does not parse:\n" << text.str();
    return nullptr;
  }
  runner->task = taskOf(*runner->module);
  runner->kernelModule = ModuleOp::create(UnknownLoc::get(context));
  OpBuilder builder = OpBuilder::atBlockEnd(runner->kernelModule->getBody());
  codegen::CpuTarget target = *codegen::CpuTarget::host();
  target.avx512 &= lanes == 16;
  target.avx512Bf16 &= lanes == 16;
  target.amxBf16 &= lanes == 16 && usesTiles;
  kernels::KernelFrame frame(
      runner->task, {.lanes = lanes, .hasPairs = target.avx512Bf16, .hasTiles = target.amxBf16},
      builder, "kernel");
  if (failed(emitter(frame))) {
    ADD_FAILURE() << "no kernel was emitted";
    return nullptr;
  }
  frame.finish();
  if (failed(verify(*runner->kernelModule))) {
    ADD_FAILURE() << "the kernel is malformed";
    return nullptr;
  }
  FailureOr<codegen::NativeCode> native =
      codegen::compileKernels(*runner->kernelModule, target, {.threads = 1});
  if (failed(native)) {
    ADD_FAILURE() << "the kernel does not compile";
    return nullptr;
  }
  auto code = plan::LoadedCode::load(native->code);
  if (!code) {
    ADD_FAILURE() << code.error().message;
    return nullptr;
  }
  runner->code = std::move(*code);
  runner->kernel = runner->code->find("kernel");
  runner->iterationCount = frame.iterations;
  runner->scratch =
      std::make_unique<GuardedMemory>(static_cast<size_t>(frame.function.getScratchBytes()));
  runner->module->walk([&](step::BufferOp buffer) {
    size_t bytes = step::contiguousBytes(cast<MemRefType>(buffer.getType()));
    runner->memory.emplace_back(buffer, std::make_unique<GuardedMemory>(bytes));
    std::memset(runner->memory.back().second->data(), 0xff, bytes); // NaN
  });
  for (Value operand : frame.launchOperands())
    runner->arguments.push_back(runner->view(operand).start);
  return runner;
}

Operation *TaskRunner::op() const { return &taskOp().getBody().front().front(); }

RankedTensorType TaskRunner::inputType(unsigned i) const {
  return step::tensorOf(cast<MemRefType>(taskOp().getIns()[i].getType()));
}

std::byte *TaskRunner::memoryOf(Value buffer) const {
  for (const auto &[op, bytes] : memory)
    if (op == step::bufferOf(buffer))
      return bytes->data();
  ADD_FAILURE() << "an operand is no buffer";
  return nullptr;
}

TaskRunner::View TaskRunner::view(Value operand) const {
  auto type = cast<MemRefType>(operand.getType());
  auto [strides, offset] = type.getStridesAndOffset();
  return {memoryOf(operand) + offset * step::elementBytes(type.getElementType()), type};
}

/// Calls `visit` with each element's position in memory, in row-major order.
static void forElements(MemRefType type, llvm::function_ref<void(int64_t)> visit) {
  auto [strides, offset] = type.getStridesAndOffset();
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    int64_t rest = i, at = 0;
    for (int64_t d = type.getRank() - 1; d >= 0; --d) {
      at += rest % type.getDimSize(d) * strides[d];
      rest /= type.getDimSize(d);
    }
    visit(at);
  }
}

/// The byte of a number of an f8 type, and back.
static uint8_t encodeFloat8(double number, FloatType type) {
  APFloat value(number);
  bool lossy = false;
  value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
  return static_cast<uint8_t>(value.bitcastToAPInt().getZExtValue());
}

static double decodeFloat8(uint8_t byte, FloatType type) {
  return APFloat(type.getFloatSemantics(), APInt(8, byte)).convertToDouble();
}

void TaskRunner::setInput(unsigned i, const TensorValue &value) {
  View target = view(taskOp().getIns()[i]);
  Type element = target.type.getElementType();
  int64_t next = 0;
  forElements(target.type, [&](int64_t at) {
    double number = roundTo(value.data[next++], element);
    if (element.isF32())
      reinterpret_cast<float *>(target.start)[at] = static_cast<float>(number);
    else if (element.isBF16())
      reinterpret_cast<uint16_t *>(target.start)[at] =
          static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(number)) >> 16);
    else if (auto type = dyn_cast<FloatType>(element))
      reinterpret_cast<uint8_t *>(target.start)[at] = encodeFloat8(number, type);
    else if (element.isInteger(16))
      reinterpret_cast<uint16_t *>(target.start)[at] = static_cast<uint16_t>(number);
    else
      reinterpret_cast<int32_t *>(target.start)[at] = static_cast<int32_t>(number);
  });
}

TensorValue TaskRunner::read(Value operand) const {
  View source = view(operand);
  Type element = source.type.getElementType();
  TensorValue value{source.type.getShape().vec(), {}};
  forElements(source.type, [&](int64_t at) {
    if (element.isF32())
      value.data.push_back(reinterpret_cast<const float *>(source.start)[at]);
    else if (element.isBF16())
      value.data.push_back(std::bit_cast<float>(
          static_cast<uint32_t>(reinterpret_cast<const uint16_t *>(source.start)[at]) << 16));
    else if (auto type = dyn_cast<FloatType>(element))
      value.data.push_back(decodeFloat8(reinterpret_cast<const uint8_t *>(source.start)[at], type));
    else if (element.isInteger(16))
      value.data.push_back(reinterpret_cast<const uint16_t *>(source.start)[at]);
    else
      value.data.push_back(reinterpret_cast<const int32_t *>(source.start)[at]);
  });
  return value;
}

std::byte *TaskRunner::inputMemory(unsigned i) const { return view(taskOp().getIns()[i]).start; }
std::byte *TaskRunner::outputMemory(unsigned i) const { return view(taskOp().getOuts()[i]).start; }
TensorValue TaskRunner::input(unsigned i) const { return read(taskOp().getIns()[i]); }
TensorValue TaskRunner::output(unsigned i) const { return read(taskOp().getOuts()[i]); }

/// Buffers that the task writes and does not read.
static bool isOutput(step::TaskOp task, Operation *buffer) {
  return llvm::none_of(task.getIns(), [&](Value in) { return step::bufferOf(in) == buffer; });
}

std::vector<std::byte> TaskRunner::outputBytes() const {
  std::vector<std::byte> result;
  for (const auto &[buffer, bytes] : memory)
    if (isOutput(task, buffer))
      result.insert(result.end(), bytes->data(), bytes->data() + bytes->size());
  return result;
}

void TaskRunner::run(std::vector<int64_t> cuts) {
  for (const auto &[buffer, bytes] : memory)
    if (isOutput(task, buffer))
      std::memset(bytes->data(), 0xff, bytes->size());
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(iterationCount);
  for (size_t i = cuts.size() - 1; i > 0; --i) {
    std::memset(scratch->data(), 0xff, scratch->size());
    kernel(arguments.data(), scratch->data(), cuts[i - 1], cuts[i]);
  }
}

void TaskRunner::runTimed(int64_t each) {
  for (int64_t begin = 0; begin < iterationCount; begin += each)
    kernel(arguments.data(), scratch->data(), begin, std::min(begin + each, iterationCount));
}

std::vector<TensorValue> TaskRunner::expected() const {
  std::vector<TensorValue> operands;
  for (Value operand : op()->getOperands())
    operands.push_back(input(cast<BlockArgument>(operand).getArgNumber()));
  StateMap states;
  auto results = interpret(op(), operands, states);
  EXPECT_TRUE(succeeded(results));
  return succeeded(results) ? std::vector<TensorValue>(results->begin(), results->end())
                            : std::vector<TensorValue>();
}

std::vector<TensorValue> interpretTask(step::TaskOp task, ArrayRef<TensorValue> inputs) {
  Block &body = task.getBody().front();
  OwningOpRef<ModuleOp> module = ModuleOp::create(task.getLoc());
  OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
  auto results = body.getTerminator()->getOperandTypes();
  auto function = graph::ProgramOp::create(
      b, task.getLoc(), "task",
      b.getFunctionType(body.getArgumentTypes(), SmallVector<Type>(results)));
  Block *entry = function.addEntryBlock();
  b.setInsertionPointToEnd(entry);
  IRMapping mapping;
  mapping.map(body.getArguments(), entry->getArguments());
  for (Operation &op : body.without_terminator())
    b.clone(op, mapping);
  SmallVector<Value> values;
  for (Value value : body.getTerminator()->getOperands())
    values.push_back(mapping.lookup(value));
  graph::ReturnOp::create(b, task.getLoc(), values);
  StateMap states;
  auto interpreted = interpret(function, inputs, states, {Arithmetic::rounded});
  if (failed(interpreted)) {
    ADD_FAILURE() << "the interpreter fails";
    return {};
  }
  return std::vector<TensorValue>(interpreted->begin(), interpreted->end());
}

LogicalResult emitRow(kernels::KernelFrame &frame) {
  FailureOr<kernels::RowForm> form = kernels::RowForm::of(frame.task);
  return failed(form) ? failure() : kernels::emitRowKernel(frame, *form);
}

double largestError(const TensorValue &actual, const TensorValue &expected) {
  EXPECT_EQ(actual.shape, expected.shape);
  double largest = 0;
  for (int64_t i = 0; i < expected.size(); ++i) {
    if (actual.data[i] == expected.data[i] ||
        (std::isnan(actual.data[i]) && std::isnan(expected.data[i])))
      continue;
    double error = std::abs(actual.data[i] - expected.data[i]) / (1 + std::abs(expected.data[i]));
    largest = error <= largest ? largest : error; // a NaN stays
    if (std::isnan(error))
      return error;
  }
  return largest;
}

} // namespace nano::test
