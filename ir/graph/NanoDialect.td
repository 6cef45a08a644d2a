// The `nano` dialect: tensors and what is computed with them; nothing about memory or devices.
// A module in this dialect is a whole training step: states, schedules, optimizers and programs.
#ifndef NANO_IR_GRAPH_DIALECT_TD
#define NANO_IR_GRAPH_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"

def NanoDialect : Dialect {
  let name = "nano";
  let cppNamespace = "::nano::graph";
  let summary = "Training steps as graphs of tensor operations";
  let description = [{
    A module in this dialect is a whole training step: states (parameters, optimizer states, gradient accumulators), scalars that change
    from step to step, optimizers, and one `nano.program` for each thing that is run.

    - Tensors have static shapes and element type f32, bf16, f8E4M3FN, f8E5M2, i32 or i16. Nothing is said about memory, order or devices.
    - Arithmetic on bf16 is computed in f32 and rounded to nearest even once an op; reductions and products accumulate in f32. Arithmetic
      on i32 is exact and wraps at 32 bits. i16 is for keeping: unsigned, moved, converted (`cast`, `bitcast`), not computed with.
    - Every op is pure except `load`, `store` and `accumulate`, which read and write states in program order, and `report`, which tells the run's log.
    - An op's location is the model file's line that made it.
    - Folding never changes a bit of a result, NaNs' payloads apart.

    Every op below states its equation, its operands, what its verifier refuses, and an example; a test parses and verifies each example.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

//===- Types -------------------------------------------------------------===//

def Nano_Tensor : StaticShapeTensorOf<[F32, BF16, F8E4M3FN, F8E5M2, I32, I16]>;
def Nano_FloatTensor : StaticShapeTensorOf<[F32, BF16]>;
def Nano_Float8Tensor : StaticShapeTensorOf<[F8E4M3FN, F8E5M2]>;
def Nano_NumberTensor : StaticShapeTensorOf<[F32, BF16, I32]>;
def Nano_F32Tensor : StaticShapeTensorOf<[F32]>;
def Nano_BF16Tensor : StaticShapeTensorOf<[BF16]>;
def Nano_I32Tensor : StaticShapeTensorOf<[I32]>;

//===- Attributes --------------------------------------------------------===//

def Nano_RoleAttr : I32EnumAttr<"Role", "what a state is for", [
    I32EnumAttrCase<"Parameter", 0, "parameter">,
    I32EnumAttrCase<"Optimizer", 1, "optimizer">,
    I32EnumAttrCase<"Gradient", 2, "gradient">,
    I32EnumAttrCase<"Constant", 3, "constant">,
    I32EnumAttrCase<"Report", 4, "report">,
    // what sampling keeps of the tokens before
    I32EnumAttrCase<"Cache", 5, "cache">]> {
  let cppNamespace = "::nano::graph";
  let genSpecializedAttr = 0;
}
def Nano_Role : EnumAttr<NanoDialect, Nano_RoleAttr, "role"> {
  let assemblyFormat = "`<` $value `>`";
}

def Nano_PredicateAttr : I32EnumAttr<"Predicate", "comparison of two numbers", [
    I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>,
    I32EnumAttrCase<"le", 3>, I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]> {
  let cppNamespace = "::nano::graph";
}

def Nano_CombinerAttr : I32EnumAttr<"Combiner", "an associative combination of numbers", [
    I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"max", 1>,
    // log of the sum of exponentials: associative, identity −∞
    I32EnumAttrCase<"logsumexp", 2>]> {
  let cppNamespace = "::nano::graph";
}

def Nano_RankSetAttr : I32EnumAttr<"RankSet", "the ranks that a collective is among", [
    I32EnumAttrCase<"all", 0>, I32EnumAttrCase<"group", 1>, I32EnumAttrCase<"peers", 2>]> {
  let cppNamespace = "::nano::graph";
}

def Nano_ReportKindAttr : I32EnumAttr<"ReportKind", "what a report says of a tensor", [
    I32EnumAttrCase<"mean", 0>, I32EnumAttrCase<"norm", 1>, I32EnumAttrCase<"max", 2>,
    I32EnumAttrCase<"histogram", 3>]> {
  let cppNamespace = "::nano::graph";
}

def Nano_InitAttr : AttrDef<NanoDialect, "Init", []> {
  let mnemonic = "init";
  let summary = "initial value of a state";
  let description = [{
    `kind` says how `values` are read:

    | kind | values | initial elements |
    |---|---|---|
    | `"constant"` | one, or one an element in row-major order | these |
    | `"normal"` | mean, standard deviation | independent, normally distributed |
    | `"uniform"` | low, high | independent, uniform in [low, high) |
    | `"sign"` | one, a | independent, a or −a with equal chance |
    | `"data"` | none | those of `data`, of the state's type |
    | `"copy"` | none | those with which the state `source` starts, rounded to the own type |
    | `"transpose"` | none | the same, with the last two dimensions swapped |
    | `"blocks"` | one a part: its number of elements | in row-major order those of each part, which says what they would be if it were the whole |

    Errors: another kind; a wrong number of values; a negative standard deviation; low above high; a value that is not finite; data that are not finite; a source, data or parts
    where the kind has none, or none where it has; parts that are no `#nano.init` of one number or of random ones, or are not as many as the values, which are whole numbers of at least 1.

    Examples: `#nano.init<"normal", [0.0, 1.0]>`, `#nano.init<"transpose", [] of @"lm_head.weight">`, `#nano.init<"data", [] data dense<[3, -1]> : tensor<2xi32>>`,
    `#nano.init<"blocks", [96.0, 32.0] parts [#nano.init<"uniform", [-0.1, 0.1]>, #nano.init<"constant", [0.0]>]>`
  }];
  let parameters = (ins StringRefParameter<>:$kind, "::mlir::DenseF64ArrayAttr":$values,
                        OptionalParameter<"::mlir::FlatSymbolRefAttr">:$source, OptionalParameter<"::mlir::DenseElementsAttr">:$data,
                        OptionalParameter<"::mlir::ArrayAttr">:$parts);
  let builders = [AttrBuilder<(ins "::llvm::StringRef":$kind, "::mlir::DenseF64ArrayAttr":$values), [{
    return $_get($_ctxt, kind, values, ::mlir::FlatSymbolRefAttr(), ::mlir::DenseElementsAttr(), ::mlir::ArrayAttr());
  }]>];
  let assemblyFormat = "`<` $kind `,` custom<Numbers>($values) (`of` $source^)? (`data` $data^)? (`parts` $parts^)? `>`"; // every digit
  let genVerifyDecl = 1;
}

//===- Interfaces --------------------------------------------------------===//

def Nano_DifferentiableOp : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::nano::graph";
  let description = "An op that states its own derivative as graph ops.";
  let methods = [InterfaceMethod<[{
      Builds, at `builder`'s insertion point, the vector-Jacobian product of this op. `resultGrads` has one value a result, null
      where the loss does not depend on that result. Returns one value an operand, of the operand's type, or f32 where that is
      f8 (`gradientType`); null where the operand has no derivative (integers) or none is needed.
    }],
    "::llvm::SmallVector<::mlir::Value>", "buildDerivative",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultGrads)>];
}

def Nano_UnaryFunction : OpInterface<"UnaryFunctionInterface"> {
  let cppNamespace = "::nano::graph";
  let description = "An element-wise function of one number, and what is known of it.";
  let methods = [
    StaticInterfaceMethod<"f(x) in double precision.", "double", "evaluate", (ins "double":$x)>,
    StaticInterfaceMethod<"What passes and code generators ask.", "::nano::graph::FunctionTraits", "traits", (ins)>];
}

def Nano_IntegerFunction : OpInterface<"IntegerFunctionInterface"> {
  let cppNamespace = "::nano::graph";
  let description = "An element-wise function of two integers.";
  let methods = [StaticInterfaceMethod<"f(a, b).", "int32_t", "evaluate", (ins "int32_t":$a, "int32_t":$b)>];
}

def Nano_PlacedOp : OpInterface<"PlacedOpInterface"> {
  let cppNamespace = "::nano::graph";
  let description = "What memory planning gives a place in the arena that all programs share.";
  let methods = [
    InterfaceMethod<"Bytes from the start of the arena, i64; null until they are planned.", "::mlir::IntegerAttr", "getOffsetAttr">,
    InterfaceMethod<"Places it.", "void", "setOffsetAttr", (ins "::mlir::IntegerAttr":$offset)>];
}

def Nano_StagedOp : OpInterface<"StagedOpInterface"> {
  let cppNamespace = "::nano::graph";
  let description = "What may belong to some stages of a run alone.";
  let methods = [
    InterfaceMethod<"The positions of these stages, as `array<i64: 0, 2>`; null: all.", "::mlir::DenseI64ArrayAttr", "getStagesAttr">,
    InterfaceMethod<"Makes it belong to these alone; null: to all.", "void", "setStagesAttr", (ins "::mlir::DenseI64ArrayAttr":$stages)>];
}

def Nano_ProgramInterface : OpInterface<"ProgramOpInterface"> {
  let cppNamespace = "::nano::graph";
  let description = "A program of a run, as tensors or as a schedule.";
  let methods = [
    InterfaceMethod<"What it is for; may be null.", "::mlir::StringAttr", "getRoleAttr">,
    InterfaceMethod<[{
        The phases in whose steps it runs, as `array<i64: 0, 1>`; null: in all. Step s is of phase s mod the number of phases.
      }],
      "::mlir::DenseI64ArrayAttr", "getPhasesAttr">,
    InterfaceMethod<"Of role \"event\": the step after whose update it runs, i64; null: after every one.", "::mlir::IntegerAttr", "getEventStepAttr">];
}

/// Marks an op with float operands that has no derivative on purpose.
def Nano_NotDifferentiable : NativeOpTrait<"NotDifferentiable"> { let cppNamespace = "::nano::graph"; }
/// Marks an op that computes each element of its results from the elements at the same place of its operands.
def Nano_Elementwise : NativeOpTrait<"ElementwiseOp"> { let cppNamespace = "::nano::graph"; }
/// Marks an op that is a kernel by itself: no other op is computed in it.
def Nano_WholeKernel : NativeOpTrait<"WholeKernelOp"> { let cppNamespace = "::nano::graph"; }

class Nano_Op<string mnemonic, list<Trait> traits = []> : Op<NanoDialect, mnemonic, traits>;

#endif // NANO_IR_GRAPH_DIALECT_TD
