// Choice, conversion and constants: with functions (FunctionOps.td) and arithmetic (ArithmeticOps.td) the small element-wise ops
// that activations, norms, losses and optimizers are composed of.
#ifndef NANO_IR_GRAPH_ELEMENTWISE_OPS_TD
#define NANO_IR_GRAPH_ELEMENTWISE_OPS_TD

include "ir/graph/NanoDialect.td"

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
