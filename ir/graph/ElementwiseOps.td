// Small element-wise ops, out of which activations, norms, losses and optimizers are composed.
#ifndef NANO_IR_GRAPH_ELEMENTWISE_OPS_TD
#define NANO_IR_GRAPH_ELEMENTWISE_OPS_TD

include "ir/graph/NanoDialect.td"

//===- One operand -------------------------------------------------------===//

class Nano_UnaryOp<string mnemonic, string what, string equation, string details = "">
    : Nano_Op<mnemonic, [Pure, SameOperandsAndResultType, Nano_Elementwise,
                         DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "element-wise " # what;
  let description = [{
    }] # equation # [{, computed in f32 and rounded once to the operand's type.}] # details # [{

    Operands: `x`, f32 or bf16, of the result's type.

    Errors: another element type; types that differ.

    Example:

    ```mlir
    func.func @example(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %y = nano.}] # mnemonic # [{ %x : tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$x);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

def Nano_NegOp : Nano_UnaryOp<"neg", "negation", "y = −x">;
def Nano_AbsOp : Nano_UnaryOp<"abs", "absolute value", "y = |x|", " The derivative has slope 1 at 0.">;
def Nano_ExpOp : Nano_UnaryOp<"exp", "exponential", "y = eˣ">;
def Nano_LogOp : Nano_UnaryOp<"log", "natural logarithm", "y = ln x", " NaN below zero.">;
def Nano_SqrtOp : Nano_UnaryOp<"sqrt", "square root", "y = √x", " NaN below zero.">;
def Nano_RsqrtOp : Nano_UnaryOp<"rsqrt", "reciprocal square root", "y = 1/√x", " NaN below zero.">;
def Nano_TanhOp : Nano_UnaryOp<"tanh", "hyperbolic tangent", "y = tanh x">;
def Nano_SigmoidOp : Nano_UnaryOp<"sigmoid", "logistic function", "y = 1/(1 + e⁻ˣ)">;
def Nano_SinOp : Nano_UnaryOp<"sin", "sine", "y = sin x">;
def Nano_CosOp : Nano_UnaryOp<"cos", "cosine", "y = cos x">;

def Nano_StopGradientOp : Nano_Op<"stop_gradient", [Pure, SameOperandsAndResultType, Nano_Elementwise, Nano_NotDifferentiable]> {
  let summary = "a value that the loss's gradient does not go through";
  let description = [{
    y = x, to the bit; the derivative of the loss to x through y is exactly zero. `nano-differentiate` reads it and puts x in its place, in every program.

    Operands: `x`, f32 or bf16, of the result's type.

    Errors: another element type; types that differ.

    Example:

    ```mlir
    func.func @example(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %y = nano.stop_gradient %x : tensor<4x8xf32>
      return %y : tensor<4x8xf32>
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
    func.func @example(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %y = nano.}] # mnemonic # [{ %a, %b : tensor<4x8xf32>
      return %y : tensor<4x8xf32>
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
    func.func @example(%a: tensor<4xi32>, %b: tensor<4xi32>, %x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
      %y = nano.select lt, %a, %b, %x, %z : tensor<4xi32>, tensor<4xf32>
      return %y : tensor<4xf32>
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
    Float to i32: towards zero; which integer a NaN or a number outside i32 becomes is not said. The derivative is cast back; it ends at i32
    and at f8: whoever quantises states what flows through.

    Operands: `x`, of any element type and the result's shape.

    Errors: shapes that differ.

    Example:

    ```mlir
    func.func @example(%x: tensor<4xf32>) -> tensor<4xbf16> {
      %y = nano.cast %x : tensor<4xf32> -> tensor<4xbf16>
      return %y : tensor<4xbf16>
    }
    ```
  }];
  let arguments = (ins Nano_Tensor:$x);
  let results = (outs Nano_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
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
    func.func @example() -> tensor<4x8xf32> {
      %half = nano.constant 5.000000e-01 : tensor<4x8xf32>
      return %half : tensor<4x8xf32>
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
    func.func @example() -> tensor<128xi32> {
      %i = nano.iota 0 : tensor<128xi32>
      return %i : tensor<128xi32>
    }
    ```
  }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs Nano_NumberTensor:$result);
  let assemblyFormat = "$dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif // NANO_IR_GRAPH_ELEMENTWISE_OPS_TD
