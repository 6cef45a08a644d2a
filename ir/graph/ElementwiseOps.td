// Small element-wise ops, out of which activations, norms, losses and optimizers are composed.
#ifndef NANO_IR_GRAPH_ELEMENTWISE_OPS_TD
#define NANO_IR_GRAPH_ELEMENTWISE_OPS_TD

include "ir/graph/NanoDialect.td"

class Nano_UnaryOp<string mnemonic, string equation, list<Trait> traits = []>
    : Nano_Op<mnemonic, [Pure, SameOperandsAndResultType, Nano_Elementwise,
                         DeclareOpInterfaceMethods<Nano_DifferentiableOp>] # traits> {
  let summary = equation;
  let description = "Element-wise " # equation # [{, computed in f32 and rounded to the operand's type. Operand: a tensor of f32 or bf16.
    Errors: none beyond the types'.

    ```mlir
    %y = nano.}] # mnemonic # [{ %x : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$x);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

def Nano_NegOp : Nano_UnaryOp<"neg", "y = −x">;
def Nano_ExpOp : Nano_UnaryOp<"exp", "y = eˣ">;
def Nano_LogOp : Nano_UnaryOp<"log", "y = ln x">;
def Nano_SqrtOp : Nano_UnaryOp<"sqrt", "y = √x">;
def Nano_RsqrtOp : Nano_UnaryOp<"rsqrt", "y = 1/√x">;
def Nano_TanhOp : Nano_UnaryOp<"tanh", "y = tanh x">;
def Nano_SigmoidOp : Nano_UnaryOp<"sigmoid", "y = 1/(1 + e⁻ˣ)">;
def Nano_SinOp : Nano_UnaryOp<"sin", "y = sin x">;
def Nano_CosOp : Nano_UnaryOp<"cos", "y = cos x">;

class Nano_BinaryOp<string mnemonic, string equation, list<Trait> traits = []>
    : Nano_Op<mnemonic, [Pure, SameOperandsAndResultType, Nano_Elementwise,
                         DeclareOpInterfaceMethods<Nano_DifferentiableOp>] # traits> {
  let summary = equation;
  let description = "Element-wise " # equation # [{, computed in f32 and rounded to the operands' type (i32: exact, wrapping). Both
    operands and the result have one type. Errors: the types differ.

    ```mlir
    %y = nano.}] # mnemonic # [{ %a, %b : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Nano_NumberTensor:$lhs, Nano_NumberTensor:$rhs);
  let results = (outs Nano_NumberTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Nano_AddOp : Nano_BinaryOp<"add", "y = a + b", [Commutative]> { let hasFolder = 1; }
def Nano_SubOp : Nano_BinaryOp<"sub", "y = a − b"> { let hasFolder = 1; }
def Nano_MulOp : Nano_BinaryOp<"mul", "y = a·b", [Commutative]> { let hasFolder = 1; }
def Nano_DivOp : Nano_BinaryOp<"div", "y = a/b (i32: rounded down)"> { let hasFolder = 1; }
def Nano_MaxOp : Nano_BinaryOp<"max", "y = max(a, b)", [Commutative]>;
def Nano_MinOp : Nano_BinaryOp<"min", "y = min(a, b)", [Commutative]>;

def Nano_SelectOp : Nano_Op<"select", [Pure, Nano_Elementwise, AllTypesMatch<["lhs", "rhs"]>,
    AllTypesMatch<["onTrue", "onFalse", "result"]>, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "y = (a ? b) ? x : z, for a comparison ?";
  let description = [{
    Element-wise choice by a comparison of `lhs` with `rhs` (eq, ne, lt, le, gt, ge). The derivative flows to the chosen value; none flows
    to what is compared. Errors: the shapes differ.

    ```mlir
    %y = nano.select lt, %a, %b, %x, %z : tensor<4xi32>, tensor<4xf32>
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
  let summary = "y = x converted to another element type";
  let description = [{
    To a narrower float: rounded to nearest even; to f8: saturating. i32 to float: rounded to nearest even; float to i32: towards zero.

    ```mlir
    %y = nano.cast %x : tensor<4xf32> -> tensor<4xbf16>
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
    Every element is `value`, rounded to the result's type.

    ```mlir
    %half = nano.constant 5.000000e-01 : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs Nano_NumberTensor:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let hasFolder = 1;
}

def Nano_IotaOp : Nano_Op<"iota", [Pure, Nano_Elementwise, Nano_NotDifferentiable]> {
  let summary = "y[i₀, …] = i_dim";
  let description = [{
    The index along dimension `dim`. Errors: `dim` out of range.

    ```mlir
    %i = nano.iota 0 : tensor<128xi32>
    ```
  }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs Nano_NumberTensor:$result);
  let assemblyFormat = "$dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif // NANO_IR_GRAPH_ELEMENTWISE_OPS_TD
