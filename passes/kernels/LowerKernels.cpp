// nano-lower-kernels: every step.task becomes a step.launch of a kernel.func in the nested
// module @kernels. Tasks that differ in nothing but the number of iterations share one kernel.
#include "passes/attention/AttentionKernels.h"
#include "passes/cpu/RowKernel.h"
#include "passes/cpu/SequenceKernels.h"
#include "passes/cuda/CudaRowKernel.h"
#include "passes/cuda/CudaTemplateKernels.h"
#include "passes/cuda/CudaTiles.h"
#include "passes/cuda/CudaTransposes.h"
#include "passes/emit/KernelEmitter.h"

#include "base/Target.h"
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/BinaryFunctions.h"
#include "ir/graph/Custom.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GradientSums.h"
#include "ir/graph/ModelError.h"
#include "ir/graph/ProductForm.h"
#include "ir/graph/RandomOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "passes/Passes.h"

#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/X86Vector/X86VectorDialect.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/xxhash.h"

namespace nano {
#define GEN_PASS_DEF_LOWERKERNELS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::kernels;

namespace {

/// The words that tell a kernel's reader what it is: the ops with a name of their own, else the
/// plain arithmetic.
std::string stemOf(step::TaskOp task) {
  Block &body = task.getBody().front();
  auto has = [&](auto... ops) { return (... || !body.getOps<decltype(ops)>().empty()); };
  using namespace nano::graph;
  SmallVector<StringRef> words;
  bool sums = false, maxes = false, logSumExps = false;
  for (auto reduce : body.getOps<ReduceOp>()) {
    sums |= reduce.getCombiner() == Combiner::sum;
    maxes |= reduce.getCombiner() == Combiner::max;
    logSumExps |= reduce.getCombiner() == Combiner::logsumexp;
  }
  if (has(GatherOp()))
    words.push_back("gather");
  if (logSumExps || (maxes && sums && has(ExpOp())))
    words.push_back("softmax");
  else if (sums && has(RsqrtOp()))
    words.push_back("rmsnorm");
  else if (sums || maxes)
    words.push_back(sums ? "sum" : "max");
  if (has(RotateOp()))
    words.push_back("rotate");
  if (has(PermuteOp()))
    words.push_back("permute");
  if (has(PhiloxOp()))
    words.push_back("random");
  if (has(NormalOp()))
    words.push_back("normal");
  // A softmax's exponentials and logarithms are no news.
  llvm::StringSet<> names;
  for (Operation &op : body)
    if (!(maxes && isa<ExpOp, LogOp>(op)) && !(logSumExps && isa<ExpOp>(op)))
      names.insert(op.getName().getStringRef());
  // The costliest first; of equal ones the last of the alphabet.
  SmallVector<FunctionTraits> functions;
  auto add = [&](const auto &function) {
    if (!function.traits.word.empty() && names.contains(function.op))
      functions.push_back(function.traits);
  };
  llvm::for_each(llvm::reverse(unaryFunctions()), add);
  llvm::for_each(binaryFunctions(), add);
  llvm::stable_sort(
      functions, [](const FunctionTraits &a, const FunctionTraits &b) { return a.cost > b.cost; });
  for (const FunctionTraits &function : functions)
    if (!llvm::is_contained(words, function.word))
      words.push_back(function.word);
  for (auto [word, found] : {std::pair("max", has(MaxOp())), std::pair("select", has(SelectOp()))})
    if (found)
      words.push_back(word);
  if (words.size() < 2)
    for (auto [word, found] :
         {std::pair("mul", has(MulOp())), std::pair("add", has(AddOp(), SubOp())),
          std::pair("div", has(DivOp())), std::pair("cast", has(CastOp())),
          std::pair("iota", has(IotaOp()))})
      if (found && words.size() < 3)
        words.push_back(word);
  if (words.size() > 3)
    words.truncate(3);
  if (nano::productOf(body))
    words.insert(words.begin(), "matmul");
  return words.empty() ? "copy" : llvm::join(words, "_");
}

constexpr WholeKernel attentionKernels[] = {{"nano.attention", emitAttentionKernel},
                                            {"nano.attention_grad", emitAttentionGradKernel}};
/// The kernel that an op is by itself; null where it is none.
const WholeKernel *wholeKernelOf(Operation &op) {
  for (ArrayRef<WholeKernel> kernels :
       {ArrayRef<WholeKernel>(attentionKernels), ArrayRef<WholeKernel>(sequenceKernels)})
    for (const WholeKernel &kernel : kernels)
      if (op.getName().getStringRef() == kernel.op)
        return &kernel;
  return nullptr;
}

/// A text that is equal for tasks whose single op compiles to the same kernel.
std::string specialKey(step::TaskOp task) {
  std::string key;
  llvm::raw_string_ostream os(key);
  SmallVector<Value> operands = distinctOperands(task);
  for (Value operand : operands)
    os << KernelFrame::argumentType(cast<MemRefType>(operand.getType())) << '\n';
  for (Value operand : task->getOperands())
    os << llvm::find(operands, operand) - operands.begin() << ' ';
  for (Value out : task.getOuts())
    for (Value in : task.getIns())
      os << (mayOverlap(in, out) ? '!' : '.');
  std::string text;
  llvm::raw_string_ostream(text) << OpWithFlags(
      task, OpPrintingFlags().printGenericOpForm().useLocalScope());
  return key + text.substr(text.find("({"));
}

struct LowerKernels : nano::impl::LowerKernelsBase<LowerKernels> {
  using Base::Base;

  void runOnOperation() override {
    const nano::Target *found = findTarget(target);
    if (!found) {
      emitError(getOperation().getLoc())
          << "nano-lower-kernels: target=" << target.getValue() << ": there are " << targetNames();
      return signalPassFailure();
    }
    isCuda = !found->hasNativeCode;
    if (isCuda) { // what a processor's cores are, lanes say
      llvm::Expected<machine::Machine> loaded = machine::load(machine);
      if (!loaded) {
        emitError(getOperation().getLoc())
            << "nano-lower-kernels: " << llvm::toString(loaded.takeError());
        return signalPassFailure();
      }
      rates = std::move(*loaded);
      if (multiprocessors > 0)
        rates.products[size_t(machine::ElementType::BF16)].units = multiprocessors;
    }
    if (lanes != 8 && lanes != 16) {
      emitError(getOperation().getLoc())
          << "nano-lower-kernels: lanes=" << static_cast<int64_t>(lanes) << ": must be 8 or 16";
      return signalPassFailure();
    }
    known.clear();
    names.clear();
    rows.clear();
    ModuleOp module = getOperation();
    if (!found->narrowsProducts && failed(refuseNarrowed(module)))
      return signalPassFailure();
    auto kernels = module.lookupSymbol<ModuleOp>(step::kernelModuleName);
    if (!kernels) {
      OpBuilder atEnd = OpBuilder::atBlockEnd(module.getBody());
      kernels = ModuleOp::create(atEnd, module.getLoc(), step::kernelModuleName);
    }
    OpBuilder moduleBuilder = OpBuilder::atBlockEnd(kernels.getBody());
    SmallVector<step::TaskOp> tasks;
    module.walk([&](step::TaskOp task) { tasks.push_back(task); });
    if (isCuda) {
      SmallVector<step::TaskOp> all;
      for (step::TaskOp task : tasks)
        llvm::append_range(all, separateSums(task));
      tasks = std::move(all);
    }
    for (auto function : kernels.getOps<FunctionOpInterface>())
      names.try_emplace(function.getName());
    // While all tasks are there to be asked.
    for (step::TaskOp task : tasks)
      if (const RowsOfQueries found = rowsOfQueries(task); found.tokens > 0)
        rows[task] = found;
    for (step::TaskOp task : tasks) {
      FailureOr<SmallVector<step::TaskOp>> parts = SmallVector<step::TaskOp>{task};
      if (isCuda)
        parts = separateTransposes(task);
      if (failed(parts))
        return signalPassFailure();
      for (step::TaskOp part : *parts)
        if (failed(lower(part, moduleBuilder)))
          return signalPassFailure();
    }
    if (isCuda && failed(takeSymmetricProducts(moduleBuilder)))
      return signalPassFailure();
    if (isCuda && splitProducts && failed(takeSplitProducts(moduleBuilder)))
      return signalPassFailure();
  }

private:
  /// Products that the target's library does not have.
  LogicalResult refuseNarrowed(ModuleOp module) const {
    const WalkResult walked = module.walk([&](step::MatmulOp op) {
      const Type result = op.getC().getType().getElementType();
      if (!op.getA().getType().getElementType().isF32() || result.isF32())
        return WalkResult::advance();
      op.emitOpError("has factors of f32 and a result of ")
          << result << ", a product that " << target
          << "'s library does not have: let the result be of f32 and cast it";
      return WalkResult::interrupt();
    });
    return failure(walked.wasInterrupted());
  }

  struct Kernel {
    kernel::FuncOp function;
    int64_t iterations;
  };

  LogicalResult lower(step::TaskOp task, OpBuilder &moduleBuilder) {
    auto ops = task.getBody().front().without_terminator();
    const WholeKernel *special = nullptr;
    for (Operation &op : ops)
      if (const WholeKernel *kernel = wholeKernelOf(op))
        special = kernel;
    if (auto custom = dyn_cast<graph::CustomOp>(task.getBody().front().front()))
      return lowerCustom(task, custom, moduleBuilder);
    if (special && !llvm::hasSingleElement(ops) &&
        !(isCuda && nano::gradientsWithSums(task.getBody().front())))
      return task.emitOpError("holds ")
             << special->op << " beside other ops; it must be a kernel of its own";
    if (isCuda) {
      const FailureOr<bool> isTemplate = lowerToTemplates(task, moduleBuilder);
      if (failed(isTemplate) || *isTemplate)
        return isTemplate;
    }
    if (special ? isCuda : task.getBody().front().front().hasTrait<graph::WholeKernelOp>())
      return task.emitOpError("is a kernel by itself that ")
             << (isCuda ? "passes/cuda/CudaTemplateKernels.cpp does not take"
                        : "passes/cpu/SequenceKernels.h does not name");

    std::optional<RowForm> form;
    int64_t iterations = 0;
    std::string key;
    if (special) {
      key = specialKey(task);
    } else {
      FailureOr<RowForm> found = RowForm::of(task);
      if (failed(found))
        return failure();
      form = std::move(*found);
      key = rowKey(task, *form);
      if (isCuda)
        key += cudaRowKey(task, *form);
      // A kernel's code may be of sums that the task's are taken apart into.
      iterations = isCuda ? cudaRowIterations(task, *form) : rowIterations(*form, lanes);
    }
    auto [it, isNew] = known.try_emplace(key);
    if (isNew) {
      std::string stem = special ? special->op.drop_front(strlen("nano.")).str() : stemOf(task);
      KernelOptions options{.lanes = lanes,
                            .hasPairs = pairs && lanes == 16,
                            .hasTiles = tiles && pairs && lanes == 16,
                            .onGpu = isCuda};
      if (isCuda)
        options.multiprocessors = rates.multiprocessors();
      // A row kernel's strides are in its code: its arguments are plain memory.
      auto flatType = [](MemRefType type) {
        return MemRefType::get({ShapedType::kDynamic}, type.getElementType());
      };
      KernelFrame frame =
          special ? KernelFrame(task, options, moduleBuilder, nameOf(stem, key))
                  : KernelFrame(task, options, moduleBuilder, nameOf(stem, key), flatType);
      if (failed(special  ? special->emitter(frame)
                 : isCuda ? emitCudaRowKernel(frame, *form)
                          : emitRowKernel(frame, *form)))
        return failure();
      frame.finish();
      it->second = {frame.function, frame.iterations};
    }
    if (special)
      iterations = it->second.iterations;
    OpBuilder builder(task);
    auto launch = step::LaunchOp::create(builder, it->second.function.getLoc(),
                                         it->second.function.getSymNameAttr().getValue(),
                                         distinctOperands(task), /*segments=*/1, task.getStream(),
                                         builder.getDenseI64ArrayAttr(iterations),
                                         /*candidates=*/nullptr);
    launch->setLoc(task.getLoc());
    task.erase();
    return success();
  }

  /// A kernel of the model's own; one that says nothing for the target is the model's error.
  LogicalResult lowerCustom(step::TaskOp task, graph::CustomOp op, OpBuilder &moduleBuilder) {
    if (!(isCuda ? op.getCuda() : op.getCpu()))
      return graph::emitModelError(op)
             << "kernel '" << op.getName() << "' has no function for "
             << (isCuda ? "CUDA: give it .cuda, or compile with --target cpu"
                        : "the CPU: give it .cpu, or compile with --target cuda");
    return lowerToTemplates(task, moduleBuilder);
  }

  /// True for a task that templates of the device library took.
  FailureOr<bool> lowerToTemplates(step::TaskOp task, OpBuilder &moduleBuilder) {
    OpBuilder builder(task);
    FailureOr<std::vector<TemplateCall>> launches =
        templateCalls(task, builder, rates.multiprocessors(), rows.lookup(task), candidates);
    if (failed(launches) || launches->empty())
      return failed(launches) ? FailureOr<bool>() : false;
    for (const TemplateCall &call : *launches) {
      FailureOr<kernel::FuncOp> function = kernelOf(task, call, moduleBuilder);
      FailureOr<ArrayAttr> others = candidatesOf(task, call.candidates, moduleBuilder);
      if (failed(function) || failed(others))
        return failure();
      launch(task, *function, call, task.getStream(), *others);
    }
    task.erase();
    return true;
  }

  /// The kernel of a template's launch for a command.
  FailureOr<kernel::FuncOp> kernelOf(Operation *command, const TemplateCall &launch,
                                     OpBuilder &moduleBuilder) {
    const std::string key = templateKey(launch);
    auto [it, isNew] = known.try_emplace(key);
    if (isNew) {
      const std::string stem = launch.epilogue ? stemOf(cast<step::TaskOp>(command)) : launch.stem;
      FailureOr<kernel::FuncOp> function =
          templateFunction(command, launch, nameOf(stem, key), moduleBuilder);
      if (failed(function))
        return failure();
      it->second = {*function, launch.iterations};
    }
    return it->second.function;
  }

  /// The names of the candidates' kernels; null where there are none.
  FailureOr<ArrayAttr> candidatesOf(Operation *command, ArrayRef<TemplateCall> calls,
                                    OpBuilder &moduleBuilder) {
    SmallVector<Attribute> names;
    for (const TemplateCall &call : calls) {
      FailureOr<kernel::FuncOp> function = kernelOf(command, call, moduleBuilder);
      if (failed(function))
        return failure();
      function->setIterations(call.iterations);
      names.push_back(FlatSymbolRefAttr::get(function->getSymNameAttr()));
    }
    return names.empty() ? ArrayAttr() : ArrayAttr::get(command->getContext(), names);
  }

  /// Half of each symmetric product instead of the library's whole, where that is faster, else
  /// beside it.
  LogicalResult takeSymmetricProducts(OpBuilder &moduleBuilder) {
    const step::KernelTable kernels(getOperation());
    for (auto program : getOperation().getOps<step::ProgramOp>())
      for (auto &[matmul, call, isFaster] : symmetricCalls(program, kernels, rates)) {
        if (isFaster) {
          FailureOr<kernel::FuncOp> function = kernelOf(matmul, call, moduleBuilder);
          if (failed(function))
            return failure();
          launch(matmul, *function, call, matmul.getStream(), /*others=*/nullptr);
          matmul.erase();
        } else if (candidates) {
          FailureOr<ArrayAttr> names = candidatesOf(matmul, call, moduleBuilder);
          if (failed(names))
            return failure();
          matmul.setCandidatesAttr(*names);
        }
      }
    return success();
  }

  /// Products with many summands by launches that cut them, where that is faster.
  LogicalResult takeSplitProducts(OpBuilder &moduleBuilder) {
    const step::KernelTable kernels(getOperation());
    for (auto program : getOperation().getOps<step::ProgramOp>())
      for (auto &[products, call, size] : splitCalls(program, kernels, rates)) {
        step::MatmulOp last = products.back();
        OpBuilder b(last);
        Value counts =
            step::BufferOp::create(b, last.getLoc(), MemRefType::get({size}, b.getI32Type()),
                                   b.getStringAttr("counts"), IntegerAttr());
        step::FillOp::create(b, last.getLoc(), counts);
        call.operands.push_back(counts);
        SmallVector<Location> lines;
        for (step::MatmulOp product : products)
          lines.push_back(product.getLoc());
        last->setLoc(b.getFusedLoc(lines));
        FailureOr<kernel::FuncOp> function = kernelOf(last, call, moduleBuilder);
        if (failed(function))
          return failure();
        launch(last, *function, call, last.getStream(), /*others=*/nullptr);
        for (step::MatmulOp product : products)
          product.erase();
      }
    return success();
  }

  /// Puts the launch before the command that it replaces.
  static void launch(Operation *command, kernel::FuncOp function, const TemplateCall &call,
                     int64_t stream, ArrayAttr others) {
    OpBuilder builder(command);
    auto op = step::LaunchOp::create(builder, function.getLoc(), function.getSymName(),
                                     call.operands, /*segments=*/1, stream,
                                     builder.getDenseI64ArrayAttr(call.iterations), others);
    op->setLoc(command->getLoc());
  }

  /// The stem and four or more hexadecimal digits of the key's hash.
  std::string nameOf(StringRef stem, StringRef key) {
    std::string digits = llvm::utohexstr(llvm::xxh3_64bits(key), /*LowerCase=*/true, /*Width=*/16);
    for (size_t length = 4; length <= digits.size(); ++length) {
      std::string name = (stem + "_" + digits.substr(0, length)).str();
      if (names.try_emplace(name).second)
        return name;
    }
    llvm_unreachable("keys with equal hashes");
  }

  bool isCuda = false;
  machine::Machine rates;                          ///< of isCuda
  llvm::DenseMap<Operation *, RowsOfQueries> rows; ///< where they are known
  llvm::StringMap<Kernel> known;
  llvm::StringMap<char> names;
};

} // namespace
