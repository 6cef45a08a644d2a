// Small element-wise ops, out of which activations, norms, losses and optimizers are composed.
#ifndef NANO_IR_GRAPH_ELEMENTWISE_OPS_TD
#define NANO_IR_GRAPH_ELEMENTWISE_OPS_TD

include "ir/graph/NanoDialect.td"

//===- One operand -------------------------------------------------------===//

/// A function of one number. Its definition is all that is said of it, but for the code of vectors that CPUs need where LLVM has no instruction
/// (passes/emit/SpecialFunctions.cpp): passes, code generators and tests ask `UnaryFunctionInterface`, and one test compiles and runs every function.
class Nano_UnaryOp<string mnemonic, string what, string equation, string details = "">
    : Nano_Op<mnemonic, [Pure, SameOperandsAndResultType, Nano_Elementwise, DeclareOpInterfaceMethods<Nano_UnaryFunction>,
                         DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  /// C++: f(x) of a double x.
  string meaning = ?;
  /// C++: the gradient of x, with a GraphBuilder g, Values x, y and dy; null where none flows.
  string derivative = ?;
  /// C++: the fields of FunctionTraits that are not their defaults.
  string facts = "";

  let summary = "element-wise " # what;
  let description = [{
    }] # equation # [{, computed in f32 and rounded once to the operand's type.}] # details # [{

    Operands: `x`, f32 or bf16, of the result's type.

    Errors: another element type; types that differ.

    Example:

    ```mlir
    nano.program @example(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %y = nano.}] # mnemonic # [{ %x : tensor<4x8xf32>
      nano.return %y : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$x);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
  let extraClassDefinition = [{
    double $cppClass::evaluate(double x) { return }] # meaning # [{; }
    ::nano::graph::FunctionTraits $cppClass::traits() { return {}] # facts # [{}; }
    ::llvm::SmallVector<::mlir::Value> $cppClass::buildDerivative(::mlir::OpBuilder &builder, ::mlir::ValueRange resultGrads) {
      [[maybe_unused]] GraphBuilder g(builder, getLoc());
      [[maybe_unused]] ::mlir::Value x = getX(), y = getResult(), dy = resultGrads[0];
      return {}] # derivative # [{};
    }
  }];
}

def Nano_NegOp : Nano_UnaryOp<"neg", "negation", "y = −x"> {
  let meaning = "-x";
  let derivative = "g.neg(dy)";
  let facts = ".op = \"arith.negf\", .isExact = true";
}
def Nano_AbsOp : Nano_UnaryOp<"abs", "absolute value", "y = |x|", " The derivative has slope 1 at 0."> {
  let meaning = "std::abs(x)";
  // −dy where x < 0, else dy
  let derivative = "g.select(Predicate::lt, x, g.constant(0, x.getType()), g.neg(dy), dy)";
  let facts = ".op = \"math.absf\", .device = \"abs\", .low = 0, .isExact = true";
}
def Nano_SignOp : Nano_UnaryOp<"sign", "sign", "y = 1 where x > 0, −1 where x < 0, else x", " No derivative flows."> {
  let meaning = "x > 0 ? 1 : x < 0 ? -1 : x";
  let derivative = "::mlir::Value()";
  let facts = ".cost = 2, .flops = 2, .low = -1, .high = 1, .isExact = true";
}
def Nano_FloorOp : Nano_UnaryOp<"floor", "rounding down", "y = ⌊x⌋", " No derivative flows."> {
  let meaning = "std::floor(x)";
  let derivative = "::mlir::Value()";
  let facts = ".op = \"math.floor\", .device = \"floor\"";
}
def Nano_CeilOp : Nano_UnaryOp<"ceil", "rounding up", "y = ⌈x⌉", " No derivative flows."> {
  let meaning = "std::ceil(x)";
  let derivative = "::mlir::Value()";
  let facts = ".op = \"math.ceil\", .device = \"ceil\"";
}
def Nano_RoundOp : Nano_UnaryOp<"round", "rounding to the nearest", "y = the whole number nearest to x, the even one of two",
    " No derivative flows."> {
  let meaning = "std::nearbyint(x)";
  let derivative = "::mlir::Value()";
  let facts = ".op = \"math.roundeven\", .device = \"roundEven\"";
}
def Nano_SinOp : Nano_UnaryOp<"sin", "sine", "y = sin x"> {
  let meaning = "std::sin(x)";
  let derivative = "g.mul(dy, CosOp::create(builder, getLoc(), x.getType(), x))";
  let facts = ".op = \"math.sin\", .device = \"sine\", .word = \"sincos\", .cost = 20, .flops = 20, .low = -1, .high = 1";
}
def Nano_CosOp : Nano_UnaryOp<"cos", "cosine", "y = cos x"> {
  let meaning = "std::cos(x)";
  let derivative = "g.neg(g.mul(dy, SinOp::create(builder, getLoc(), x.getType(), x)))";
  let facts = ".op = \"math.cos\", .device = \"cosine\", .word = \"sincos\", .cost = 20, .flops = 20, .low = -1, .high = 1";
}
def Nano_TanhOp : Nano_UnaryOp<"tanh", "hyperbolic tangent", "y = tanh x"> {
  let meaning = "std::tanh(x)";
  let derivative = "g.mul(dy, g.sub(g.constant(1, y.getType()), g.mul(y, y)))"; // dy·(1 − y²)
  let facts = ".op = \"math.tanh\", .device = \"tanh\", .word = \"tanh\", .cost = 30, .flops = 12, .specials = 2, .low = -1, .high = 1";
}
def Nano_ErfOp : Nano_UnaryOp<"erf", "error function", "y = 2/√π·∫₀ˣ e^(−t²) dt"> {
  let meaning = "std::erf(x)";
  // dy·2/√π·e^(−x²)
  let derivative = [{g.mul(g.mul(dy, 1.1283791670955126),
              ExpOp::create(builder, getLoc(), x.getType(), g.neg(g.mul(x, x))))}];
  let facts = ".op = \"math.erf\", .device = \"erf\", .word = \"erf\", .cost = 35, .flops = 20, .specials = 1, .low = -1, .high = 1";
}
def Nano_SigmoidOp : Nano_UnaryOp<"sigmoid", "logistic function", "y = 1/(1 + e⁻ˣ)"> {
  let meaning = "1 / (1 + std::exp(-x))";
  let derivative = "g.mul(g.mul(dy, y), g.sub(g.constant(1, y.getType()), y))"; // dy·y·(1 − y)
  let facts = ".word = \"sigmoid\", .cost = 20, .flops = 6, .specials = 1.5, .low = 0, .high = 1";
}
def Nano_LogOp : Nano_UnaryOp<"log", "natural logarithm", "y = ln x", " NaN below zero."> {
  let meaning = "std::log(x)";
  let derivative = "g.div(dy, x)";
  let facts = ".op = \"math.log\", .device = \"log\", .word = \"log\", .cost = 20, .flops = 20, .isOfPositive = true";
}
def Nano_ExpOp : Nano_UnaryOp<"exp", "exponential", "y = eˣ"> {
  let meaning = "std::exp(x)";
  let derivative = "g.mul(dy, y)";
  let facts = ".op = \"math.exp\", .device = \"exponential\", .word = \"exp\", .cost = 20, .flops = 2, .specials = 1";
}
def Nano_SqrtOp : Nano_UnaryOp<"sqrt", "square root", "y = √x", " NaN below zero."> {
  let meaning = "std::sqrt(x)";
  let derivative = "g.div(g.mul(dy, 0.5), y)";
  let facts = ".op = \"math.sqrt\", .device = \"sqrt\", .word = \"sqrt\", .cost = 8, .flops = 2, .specials = 1, .isOfPositive = true, .isApproximatedWhereNarrow = true";
}
// dx = −dy·y/2x. With y³ in place of y/x the rounding of y would count three times; here a norm x·rsqrt(mean(x²) + ε), whose derivatives both
// have the factor y, takes what lies along x away as exactly as it knows mean(x²) + ε, whatever y's rounding.
def Nano_RsqrtOp : Nano_UnaryOp<"rsqrt", "reciprocal square root", "y = 1/√x", " NaN below zero."> {
  let meaning = "1 / std::sqrt(x)";
  let derivative = "g.div(g.mul(g.mul(dy, -0.5), y), x)";
  let facts = ".op = \"math.rsqrt\", .device = \"rsqrt\", .cost = 8, .flops = 2, .specials = 1, .isOfPositive = true";
}

def Nano_StopGradientOp : Nano_Op<"stop_gradient", [Pure, SameOperandsAndResultType, Nano_Elementwise, Nano_NotDifferentiable]> {
  let summary = "a value that the loss's gradient does not go through";
  let description = [{
    y = x, to the bit; the derivative of the loss to x through y is exactly zero. `nano-differentiate` reads it and puts x in its place, in every program.

    Operands: `x`, f32 or bf16, of the result's type.

    Errors: another element type; types that differ.

    Example:

    ```mlir
    nano.program @example(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %y = nano.stop_gradient %x : tensor<4x8xf32>
      nano.return %y : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$x);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

//===- Two operands ------------------------------------------------------===//

class Nano_BinaryOp<string mnemonic, string what, string equation, string details = "", list<Trait> traits = []>
    : Nano_Op<mnemonic, [Pure, SameOperandsAndResultType, Nano_Elementwise,
                         DeclareOpInterfaceMethods<Nano_DifferentiableOp>] # traits> {
  let summary = "element-wise " # what;
  let description = [{
    }] # equation # [{, on floats computed in f32 and rounded once to the operands' type, on i32 exact and wrapping.}] # details # [{

    Operands: `lhs` (a) and `rhs` (b), f32, bf16 or i32, both of the result's type: nothing is broadcast or converted implicitly.

    Errors: another element type; types that differ.

    Example:

    ```mlir
    nano.program @example(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %y = nano.}] # mnemonic # [{ %a, %b : tensor<4x8xf32>
      nano.return %y : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Nano_NumberTensor:$lhs, Nano_NumberTensor:$rhs);
  let results = (outs Nano_NumberTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Nano_AddOp : Nano_BinaryOp<"add", "sum", "y = a + b", "", [Commutative]> { let hasFolder = 1; }
def Nano_SubOp : Nano_BinaryOp<"sub", "difference", "y = a − b"> { let hasFolder = 1; }
def Nano_MulOp : Nano_BinaryOp<"mul", "product", "y = a·b", "", [Commutative]> { let hasFolder = 1; }
def Nano_DivOp : Nano_BinaryOp<"div", "quotient", "y = a/b", " i32 quotients are rounded down; b must not be zero.">
  { let hasFolder = 1; }
def Nano_MaxOp : Nano_BinaryOp<"max", "maximum", "y = a where a > b, else b",
    " NaN where either is NaN. The derivative flows to the larger; where both are equal, to b, so that max(x, 0) has slope 0 at 0.">;
def Nano_MinOp : Nano_BinaryOp<"min", "minimum", "y = a where a < b, else b",
    " NaN where either is NaN. The derivative flows to the smaller; where both are equal, to b.">;

/// A function of two integers, of which the interpreter and the tests know by `IntegerFunctionInterface`.
class Nano_IntegerOp<string mnemonic, string what, string equation, string meaning, list<Trait> traits = []>
    : Nano_Op<mnemonic, [Pure, SameOperandsAndResultType, Nano_Elementwise, Nano_NotDifferentiable,
                         DeclareOpInterfaceMethods<Nano_IntegerFunction>] # traits> {
  let summary = "element-wise " # what # " of integers";
  let description = [{
    }] # equation # [{.

    Operands: `lhs` (a) and `rhs` (b), i32, both of the result's type.

    Errors: another element type; types that differ.

    Example:

    ```mlir
    nano.program @example(%a: tensor<4x8xi32>, %b: tensor<4x8xi32>) -> tensor<4x8xi32> {
      %y = nano.}] # mnemonic # [{ %a, %b : tensor<4x8xi32>
      nano.return %y : tensor<4x8xi32>
    }
    ```
  }];
  let arguments = (ins Nano_I32Tensor:$lhs, Nano_I32Tensor:$rhs);
  let results = (outs Nano_I32Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
  let extraClassDefinition = [{
    int32_t $cppClass::evaluate(int32_t a, int32_t b) { return }] # meaning # [{; }
  }];
}

def Nano_RemOp : Nano_IntegerOp<"rem", "remainder", "y = a − b·⌊a/b⌋, of b's sign or 0; b must not be 0",
    "b == 0 ? a : int32_t((int64_t(a) % b + b) % b)">;
def Nano_AndOp : Nano_IntegerOp<"and", "conjunction of bits", "y = a ∧ b, bit by bit", "a & b", [Commutative]>;
def Nano_OrOp : Nano_IntegerOp<"or", "disjunction of bits", "y = a ∨ b, bit by bit", "a | b", [Commutative]>;
def Nano_XorOp : Nano_IntegerOp<"xor", "exclusive disjunction of bits", "y = a ⊕ b, bit by bit: those of one of them", "a ^ b", [Commutative]>;
def Nano_ShlOp : Nano_IntegerOp<"shl", "shift to the left", "y = a·2ⁿ, wrapping; n = b mod 32", "int32_t(uint32_t(a) << (b & 31))">;
def Nano_ShrOp : Nano_IntegerOp<"shr", "logical shift to the right",
    "y = ⌊a/2ⁿ⌋ of a's bits as an unsigned number: zeros come in from the left; n = b mod 32", "int32_t(uint32_t(a) >> (b & 31))">;

//===- Choice, conversion, constants -------------------------------------===//

def Nano_SelectOp : Nano_Op<"select", [Pure, Nano_Elementwise, AllTypesMatch<["lhs", "rhs"]>,
    AllTypesMatch<["onTrue", "onFalse", "result"]>, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "element-wise choice by a comparison";
  let description = [{
    y = x where a ? b holds, else z; ? is one of eq, ne, lt, le, gt, ge. A comparison with NaN does not hold, except ne. The derivative flows to
    the chosen value; none flows to what is compared.

    Operands: `lhs` (a) and `rhs` (b) of one type; `onTrue` (x) and `onFalse` (z) of the result's type; f32, bf16 or i32; one shape for all.

    Errors: shapes that differ; another element type.

    Example:

    ```mlir
    nano.program @example(%a: tensor<4xi32>, %b: tensor<4xi32>, %x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
      %y = nano.select lt, %a, %b, %x, %z : tensor<4xi32>, tensor<4xf32>
      nano.return %y : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Nano_PredicateAttr:$predicate, Nano_NumberTensor:$lhs, Nano_NumberTensor:$rhs,
                       Nano_NumberTensor:$onTrue, Nano_NumberTensor:$onFalse);
  let results = (outs Nano_NumberTensor:$result);
  let assemblyFormat = [{
    $predicate `,` $lhs `,` $rhs `,` $onTrue `,` $onFalse attr-dict `:` type($lhs) `,` type($result)
  }];
  let hasVerifier = 1;
}

def Nano_CastOp : Nano_Op<"cast", [Pure, Nano_Elementwise, SameOperandsAndResultShape,
    DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "conversion to another element type";
  let description = [{
    y = x in the result's element type. To a narrower float: rounded to nearest even; to f8: saturating. i32 to float: rounded to nearest even.
    Float to i32: towards zero; which integer a NaN or a number outside i32 becomes is not said. i16 is unsigned: i16 to i32 and to f32 is exact,
    in [0, 65535]; i32 to i16 keeps the lower 16 bits; float to i16 goes through i32. The derivative is cast back; it ends at integers
    and at f8: whoever quantises states what flows through.

    Operands: `x`, of any element type and the result's shape.

    Errors: shapes that differ.

    Example:

    ```mlir
    nano.program @example(%x: tensor<4xf32>) -> tensor<4xbf16> {
      %y = nano.cast %x : tensor<4xf32> -> tensor<4xbf16>
      nano.return %y : tensor<4xbf16>
    }
    ```
  }];
  let arguments = (ins Nano_Tensor:$x);
  let results = (outs Nano_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}

def Nano_BitcastOp : Nano_Op<"bitcast", [Pure, Nano_Elementwise, SameOperandsAndResultShape,
    DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "the same bits as another element type";
  let description = [{
    y has x's bits: f32 as i32, bf16 as i16, and back. Which bits a NaN has is not said. No derivative flows. With shifts, an f32 is a bf16 and
    16 bits more: `x = bitcast(cast(bitcast(w)) · 2¹⁶ or cast(low))`, w the upper half, cut off and not rounded.

    Operands: `x`, of the result's shape.

    Errors: shapes that differ; other pairs of element types.

    Example:

    ```mlir
    nano.program @example(%x: tensor<4xf32>, %w: tensor<4xbf16>) -> (tensor<4xi32>, tensor<4xi16>) {
      %y = nano.bitcast %x : tensor<4xf32> -> tensor<4xi32>
      %z = nano.bitcast %w : tensor<4xbf16> -> tensor<4xi16>
      nano.return %y, %z : tensor<4xi32>, tensor<4xi16>
    }
    ```
  }];
  let arguments = (ins Nano_Tensor:$x);
  let results = (outs Nano_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Nano_ConstantOp : Nano_Op<"constant", [Pure, ConstantLike, Nano_Elementwise, Nano_NotDifferentiable]> {
  let summary = "a tensor of one value";
  let description = [{
    y = `value`, rounded once to the result's element type, in every element.

    Operands: none.

    Errors: a value of an i32 tensor that is not a whole number or lies outside i32.

    Example:

    ```mlir
    nano.program @example() -> tensor<4x8xf32> {
      %half = nano.constant 5.000000e-01 : tensor<4x8xf32>
      nano.return %half : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs Nano_NumberTensor:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Nano_IotaOp : Nano_Op<"iota", [Pure, Nano_Elementwise, Nano_NotDifferentiable]> {
  let summary = "the index along a dimension";
  let description = [{
    y[i₀, i₁, …] = i_dim, rounded to the result's element type.

    Operands: none.

    Errors: `dim` out of range.

    Example:

    ```mlir
    nano.program @example() -> tensor<128xi32> {
      %i = nano.iota 0 : tensor<128xi32>
      nano.return %i : tensor<128xi32>
    }
    ```
  }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs Nano_NumberTensor:$result);
  let assemblyFormat = "$dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif // NANO_IR_GRAPH_ELEMENTWISE_OPS_TD
