// Upstream conversion patterns, a representation of bf16 that needs no hardware, and the kernels'
// calling convention.
#include "codegen/cpu/KernelLowering.h"

#include "codegen/cpu/Float8Lowering.h"
#include "ir/kernel/Kernel.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/AMX/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Dialect/Vector/Transforms/VectorRewritePatterns.h"
#include "mlir/Dialect/X86Vector/X86VectorDialect.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/DialectConversion.h"

using namespace mlir;

namespace nano::codegen {

//===- bf16 ---------------------------------------------------------------===//

/// `element`, in as many lanes as `like` has.
static Type shapedLike(Type like, Type element) {
  if (auto vector = dyn_cast<VectorType>(like))
    return VectorType::get(vector.getShape(), element);
  return element;
}

/// An integer constant, in as many lanes as `type` has.
static Value constantOf(OpBuilder &b, Location loc, Type type, int64_t value) {
  auto integer = cast<IntegerType>(getElementTypeOrSelf(type));
  Attribute attribute = b.getIntegerAttr(
      integer, APInt(integer.getWidth(), value, /*isSigned=*/true, /*implicitTrunc=*/true));
  if (auto vector = dyn_cast<VectorType>(type))
    attribute = DenseElementsAttr::get(vector, attribute);
  return LLVM::ConstantOp::create(b, loc, type, cast<TypedAttr>(attribute));
}

namespace {
/// bf16 → f32: the same bits, sixteen zeros behind.
struct WidenBf16 : OpConversionPattern<arith::ExtFOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getIn().getType()).isBF16() ||
        !getElementTypeOrSelf(op.getType()).isF32())
      return failure();
    Location loc = op.getLoc();
    Type i32 = shapedLike(op.getType(), rewriter.getI32Type());
    Value bits = LLVM::ZExtOp::create(rewriter, loc, i32, adaptor.getIn());
    bits = LLVM::ShlOp::create(rewriter, loc, bits, constantOf(rewriter, loc, i32, 16));
    rewriter.replaceOpWithNewOp<LLVM::BitcastOp>(op, op.getType(), bits);
    return success();
  }
};

/// f32 → bf16, to nearest even; in hardware or in integer arithmetic.
struct NarrowToBf16 : OpConversionPattern<arith::TruncFOp> {
  NarrowToBf16(const TypeConverter &converter, MLIRContext *context, bool inHardware)
      : OpConversionPattern(converter, context, /*benefit=*/2), inHardware(inHardware) {}

  LogicalResult matchAndRewrite(arith::TruncFOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isBF16() ||
        !getElementTypeOrSelf(op.getIn().getType()).isF32())
      return failure();
    Location loc = op.getLoc();
    Type i16 = shapedLike(op.getType(), rewriter.getI16Type()),
         i32 = shapedLike(op.getType(), rewriter.getI32Type());
    if (inHardware) {
      Value narrow = LLVM::FPTruncOp::create(rewriter, loc, op.getType(), adaptor.getIn());
      rewriter.replaceOpWithNewOp<LLVM::BitcastOp>(op, i16, narrow);
      return success();
    }
    auto constant = [&](int64_t value) { return constantOf(rewriter, loc, i32, value); };
    Value bits = LLVM::BitcastOp::create(rewriter, loc, i32, adaptor.getIn());
    Value upper = LLVM::LShrOp::create(rewriter, loc, bits, constant(16));
    Value odd = LLVM::AndOp::create(rewriter, loc, upper, constant(1));
    Value rounded = LLVM::AddOp::create(rewriter, loc, bits,
                                        LLVM::AddOp::create(rewriter, loc, odd, constant(0x7fff)));
    rounded = LLVM::LShrOp::create(rewriter, loc, rounded, constant(16));
    Value magnitude = LLVM::AndOp::create(rewriter, loc, bits, constant(0x7fffffff));
    Value isNan = LLVM::ICmpOp::create(rewriter, loc, LLVM::ICmpPredicate::ugt, magnitude,
                                       constant(0x7f800000));
    Value quiet = LLVM::OrOp::create(rewriter, loc, upper, constant(0x40));
    Value result = LLVM::SelectOp::create(rewriter, loc, isNan, quiet, rounded);
    rewriter.replaceOpWithNewOp<LLVM::TruncOp>(op, i16, result);
    return success();
  }
  bool inHardware;
};

/// Dot products of pairs of bf16 are an instruction.
struct DotOfPairs : OpConversionPattern<x86vector::DotBF16Op> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(x86vector::DotBF16Op op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    auto asBf16 = [&](Value bits) -> Value {
      return LLVM::BitcastOp::create(rewriter, op.getLoc(), op.getA().getType(), bits);
    };
    rewriter.replaceOpWithNewOp<LLVM::CallIntrinsicOp>(
        op, op.getType(), rewriter.getStringAttr(op.getIntrinsicName()),
        ValueRange{adaptor.getSrc(), asBf16(adaptor.getA()), asBf16(adaptor.getB())});
    return success();
  }
};

/// Constants of bf16 and f8 are their bits.
struct ConstantNarrow : OpConversionPattern<arith::ConstantOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(arith::ConstantOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    auto element = dyn_cast<FloatType>(getElementTypeOrSelf(op.getType()));
    if (!element || element.getWidth() > 16)
      return failure();
    Type integer = rewriter.getIntegerType(element.getWidth());
    TypedAttr value;
    if (auto dense = dyn_cast<DenseElementsAttr>(op.getValue()))
      value = dense.bitcast(integer);
    else
      value = rewriter.getIntegerAttr(integer,
                                      cast<FloatAttr>(op.getValue()).getValue().bitcastToAPInt());
    rewriter.replaceOpWithNewOp<LLVM::ConstantOp>(op, shapedLike(op.getType(), integer), value);
    return success();
  }
};

/// The plan's kernel returns nothing.
struct Return : OpConversionPattern<func::ReturnOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(func::ReturnOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<LLVM::ReturnOp>(op, ValueRange{});
    return success();
  }
};

//===- Functions ----------------------------------------------------------===//

/// Lowers the body of one function; its arguments become the plan's.
struct LowerFunction : PassWrapper<LowerFunction, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerFunction)
  explicit LowerFunction(const CpuTarget &target) : target(target) {}
  StringRef getArgument() const override { return "nano-lower-function"; }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<LLVM::LLVMDialect, cf::ControlFlowDialect>();
  }

  LogicalResult initialize(MLIRContext *context) override {
    LowerToLLVMOptions options(context);
    converter = std::make_shared<LLVMTypeConverter>(context, options);
    converter->addConversion(
        [](BFloat16Type type) { return IntegerType::get(type.getContext(), 16); });
    converter->addConversion([](VectorType type) -> std::optional<Type> {
      if (!type.getElementType().isBF16())
        return std::nullopt;
      return type.clone(IntegerType::get(type.getContext(), 16));
    });
    RewritePatternSet loops(context), set(context);
    populateSCFToControlFlowConversionPatterns(loops);
    loopPatterns = FrozenRewritePatternSet(std::move(loops));
    cf::populateControlFlowToLLVMConversionPatterns(*converter, set);
    arith::populateArithToLLVMConversionPatterns(*converter, set);
    populateMathToLLVMConversionPatterns(*converter, set);
    populateFinalizeMemRefToLLVMConversionPatterns(*converter, set);
    vector::populateVectorMaskMaterializationPatterns(set, /*force32BitVectorIndices=*/true);
    vector::populateVectorStepLoweringPatterns(set);
    populateVectorToLLVMConversionPatterns(*converter, set, /*reassociateFPReductions=*/false,
                                           /*force32BitVectorIndices=*/true);
    set.add<WidenBf16, ConstantNarrow, DotOfPairs>(*converter, context, /*benefit=*/2);
    populateFloat8Patterns(*converter, set);
    set.add<NarrowToBf16>(*converter, context, target.avx512Bf16);
    set.add<Return>(*converter, context);
    populateAMXLegalizeForLLVMExportPatterns(*converter, set);
    patterns = FrozenRewritePatternSet(std::move(set));
    return success();
  }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    changeSignature(function);
    ConversionTarget noLoops(getContext());
    noLoops.addIllegalDialect<scf::SCFDialect>();
    noLoops.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    if (failed(applyPartialConversion(function, noLoops, loopPatterns)))
      return signalPassFailure();
    LLVMConversionTarget legal(getContext());
    legal.addLegalOp<func::FuncOp>();
    // With rollback (the default): without it, MLIR 22 loses a branch operand that is an argument
    // of the block branched to.
    ConversionConfig config;
    config.foldingMode = DialectConversionFoldingMode::Never;
    if (failed(applyFullConversion(function, legal, patterns, config)))
      return signalPassFailure();
  }

private:
  /// (memref…, scratch, begin, end) → (ptr to pointers, scratch, i64, i64), with descriptors of
  /// constant strides made at the start.
  void changeSignature(func::FuncOp function) {
    Block &entry = function.getBody().front();
    OpBuilder b = OpBuilder::atBlockBegin(&entry);
    Location loc = function.getLoc();
    Type pointer = LLVM::LLVMPointerType::get(&getContext()), i64 = b.getI64Type();
    unsigned old = entry.getNumArguments();
    SmallVector<Type> types{pointer, pointer, i64, i64};
    for (Type type : types)
      entry.addArgument(type, loc);
    auto asType = [&](Value value, Type type) {
      return UnrealizedConversionCastOp::create(b, loc, type, value).getResult(0);
    };
    for (unsigned i = 0; i < old; ++i) {
      BlockArgument argument = entry.getArgument(i);
      if (i >= old - 2) {
        argument.replaceAllUsesWith(
            asType(entry.getArgument(old + 2 + (i - (old - 2))), b.getIndexType()));
        continue;
      }
      if (argument.use_empty())
        continue;
      auto type = cast<MemRefType>(argument.getType());
      Value address = entry.getArgument(old + 1);
      if (i < old - 3) {
        Value slot = LLVM::GEPOp::create(b, loc, pointer, pointer, entry.getArgument(old),
                                         ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
        auto load = LLVM::LoadOp::create(b, loc, pointer, slot);
        load.setInvariant(true);
        address = load;
      }
      argument.replaceAllUsesWith(asType(descriptor(b, loc, type, address), type));
    }
    entry.eraseArguments(0, old);
    function.setFunctionType(b.getFunctionType(types, {}));
  }

  /// Sizes stay undefined where the type does not say them: kernels know their extents.
  Value descriptor(OpBuilder &b, Location loc, MemRefType type, Value address) {
    MemRefDescriptor descriptor = MemRefDescriptor::poison(b, loc, converter->convertType(type));
    descriptor.setAllocatedPtr(b, loc, address);
    descriptor.setAlignedPtr(b, loc, address);
    descriptor.setConstantOffset(b, loc, 0);
    auto [strides, offset] = type.getStridesAndOffset();
    for (int64_t i = 0; i < type.getRank(); ++i) {
      if (!type.isDynamicDim(i))
        descriptor.setConstantSize(b, loc, i, type.getDimSize(i));
      descriptor.setConstantStride(b, loc, i, strides[i]);
    }
    return descriptor;
  }

  CpuTarget target;
  std::shared_ptr<LLVMTypeConverter> converter;
  FrozenRewritePatternSet loopPatterns, patterns;
};
} // namespace

/// kernel.func → func.func: upstream patterns know nothing of kernels.
static void replaceKernel(kernel::FuncOp kernel) {
  OpBuilder b(kernel);
  auto function =
      func::FuncOp::create(b, kernel.getLoc(), kernel.getSymName(), kernel.getFunctionType());
  function.getBody().takeBody(kernel.getBody());
  for (auto ends : llvm::make_early_inc_range(function.getBody().getOps<kernel::ReturnOp>())) {
    b.setInsertionPoint(ends);
    func::ReturnOp::create(b, ends.getLoc());
    ends.erase();
  }
  kernel.erase();
}

/// func.func → llvm.func around an already lowered body.
static void replaceFunction(func::FuncOp function) {
  OpBuilder b(function);
  Type pointer = LLVM::LLVMPointerType::get(b.getContext()), i64 = b.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                          {pointer, pointer, i64, i64});
  auto lowered = LLVM::LLVMFuncOp::create(b, function.getLoc(), function.getSymName(), type);
  lowered.getBody().takeBody(function.getBody());
  function.erase();
}

LogicalResult lowerKernelsToLlvm(ModuleOp kernels, const CpuTarget &target) {
  loadNativeDialects(*kernels.getContext());
  for (auto kernel : llvm::make_early_inc_range(kernels.getOps<kernel::FuncOp>()))
    replaceKernel(kernel);
  PassManager passes(kernels.getContext());
  passes.enableVerifier(false);
  OpPassManager &ofFunction = passes.nest<func::FuncOp>();
  ofFunction.addPass(std::make_unique<LowerFunction>(target));
  ofFunction.addPass(createReconcileUnrealizedCastsPass());
  if (failed(passes.run(kernels)))
    return failure();
  for (auto function : llvm::make_early_inc_range(kernels.getOps<func::FuncOp>()))
    replaceFunction(function);
  return success();
}

void loadNativeDialects(MLIRContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<LLVM::LLVMDialect, cf::ControlFlowDialect, x86vector::X86VectorDialect,
                      amx::AMXDialect>();
}

} // namespace nano::codegen
