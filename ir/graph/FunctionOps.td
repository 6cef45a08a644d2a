// Element-wise functions of one number and of two.
#ifndef NANO_IR_GRAPH_FUNCTION_OPS_TD
#define NANO_IR_GRAPH_FUNCTION_OPS_TD

include "ir/graph/NanoDialect.td"

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
def Nano_NormalCdfOp : Nano_UnaryOp<"normalcdf", "distribution function of the standard normal distribution", "y = 1/√(2π)·∫ e^(−t²/2) dt from −∞ to x"> {
  let meaning = "std::erfc(-x * 0.70710678118654752) / 2";
  // dy·1/√(2π)·e^(−x²/2)
  let derivative = [{g.mul(g.mul(dy, 0.3989422804014327),
              ExpOp::create(builder, getLoc(), x.getType(), g.mul(g.mul(x, x), -0.5)))}];
  let facts = ".device = \"normalCdf\", .word = \"normalcdf\", .cost = 30, .flops = 20, .specials = 1, .low = 0, .high = 1";
}
def Nano_SigmoidOp : Nano_UnaryOp<"sigmoid", "logistic function", "y = 1/(1 + e⁻ˣ)"> {
  let meaning = "1 / (1 + std::exp(-x))";
  let derivative = "g.mul(g.mul(dy, y), g.sub(g.constant(1, y.getType()), y))"; // dy·y·(1 − y)
  let facts = ".word = \"sigmoid\", .cost = 20, .flops = 6, .specials = 1.5, .low = 0, .high = 1";
}
def Nano_LogOp : Nano_UnaryOp<"log", "natural logarithm", "y = ln x", " NaN below zero."> {
  let meaning = "std::log(x)";
  let derivative = "g.div(dy, x)";
  let facts = ".op = \"math.log\", .device = \"log\", .word = \"log\", .cost = 20, .flops = 20, .above = 0";
}
def Nano_Log1pOp : Nano_UnaryOp<"log1p", "natural logarithm of one more", "y = ln(1 + x)",
    " It is as exact near 0 as elsewhere. −∞ at −1, NaN below."> {
  let meaning = "std::log1p(x)";
  let derivative = "g.div(dy, g.add(x, g.constant(1, x.getType())))";
  let facts = ".word = \"log1p\", .cost = 30, .flops = 28, .specials = 1, .above = -1";
}
def Nano_ExpOp : Nano_UnaryOp<"exp", "exponential", "y = eˣ"> {
  let meaning = "std::exp(x)";
  let derivative = "g.mul(dy, y)";
  let facts = ".op = \"math.exp\", .device = \"exponential\", .word = \"exp\", .cost = 20, .flops = 2, .specials = 1";
}
def Nano_SqrtOp : Nano_UnaryOp<"sqrt", "square root", "y = √x", " NaN below zero."> {
  let meaning = "std::sqrt(x)";
  let derivative = "g.div(g.mul(dy, 0.5), y)";
  let facts = ".op = \"math.sqrt\", .device = \"sqrt\", .word = \"sqrt\", .cost = 8, .flops = 2, .specials = 1, .above = 0, .isApproximatedWhereNarrow = true";
}
// dx = −dy·y/2x. With y³ in place of y/x the rounding of y would count three times; here a norm x·rsqrt(mean(x²) + ε), whose derivatives both
// have the factor y, takes what lies along x away as exactly as it knows mean(x²) + ε, whatever y's rounding.
def Nano_RsqrtOp : Nano_UnaryOp<"rsqrt", "reciprocal square root", "y = 1/√x", " NaN below zero."> {
  let meaning = "1 / std::sqrt(x)";
  let derivative = "g.div(g.mul(g.mul(dy, -0.5), y), x)";
  let facts = ".op = \"math.rsqrt\", .device = \"rsqrt\", .cost = 8, .flops = 2, .specials = 1, .above = 0";
}

/// A function of two floats, likewise, of which `binaryFunctions` tells (BinaryFunctions.h).
class Nano_FunctionOfTwoOp<string mnemonic, string what, string equation, string details = "", list<Trait> traits = []>
    : Nano_Op<mnemonic, [Pure, SameOperandsAndResultType, Nano_Elementwise, DeclareOpInterfaceMethods<Nano_DifferentiableOp>] # traits> {
  /// C++: f(a, b) of doubles a and b.
  string meaning = ?;
  /// C++: the gradients of a and b, with a GraphBuilder g, Values a, b, y and dy; null where none flows.
  string derivative = ?;
  /// C++: the fields of FunctionTraits that are not their defaults.
  string facts = "";

  let summary = "element-wise " # what;
  let description = [{
    }] # equation # [{, computed in f32 and rounded once to the operands' type.}] # details # [{

    Operands: `a` and `b`, f32 or bf16, both of the result's type: nothing is broadcast or converted implicitly.

    Errors: another element type; types that differ.

    Example:

    ```mlir
    nano.program @example(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %y = nano.}] # mnemonic # [{ %a, %b : tensor<4x8xf32>
      nano.return %y : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$a, Nano_FloatTensor:$b);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($result)";
  let extraClassDeclaration = [{
    static double evaluate(double a, double b);
    static ::nano::graph::FunctionTraits traits();
  }];
  let extraClassDefinition = [{
    double $cppClass::evaluate(double a, double b) { return }] # meaning # [{; }
    ::nano::graph::FunctionTraits $cppClass::traits() { return {}] # facts # [{}; }
    ::llvm::SmallVector<::mlir::Value> $cppClass::buildDerivative(::mlir::OpBuilder &builder, ::mlir::ValueRange resultGrads) {
      [[maybe_unused]] GraphBuilder g(builder, getLoc());
      [[maybe_unused]] ::mlir::Value a = getA(), b = getB(), y = getResult(), dy = resultGrads[0];
      return {}] # derivative # [{};
    }
  }];
}

def Nano_LogAddExpOp : Nano_FunctionOfTwoOp<"logaddexp", "logarithm of a sum of exponentials", "y = ln(eᵃ + eᵇ)",
    " It does not overflow, and is as exact where y is near 0 as elsewhere. Where both are equal, infinities too, half of the gradient flows to each.",
    [Commutative]> {
  let meaning = "a == b ? a + 0.6931471805599453 : std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)))";
  // dy·σ(a − b) and dy·σ(b − a), where ∞ − ∞ counts as 0
  let derivative = [{
          g.mul(dy, SigmoidOp::create(builder, getLoc(), a.getType(),
                                      g.select(Predicate::eq, a, b, g.constant(0, a.getType()), g.sub(a, b)))),
          g.mul(dy, SigmoidOp::create(builder, getLoc(), a.getType(),
                                      g.select(Predicate::eq, a, b, g.constant(0, a.getType()), g.sub(b, a))))}];
  let facts = ".word = \"logaddexp\", .cost = 45, .flops = 28, .specials = 1";
}

#endif // NANO_IR_GRAPH_FUNCTION_OPS_TD
