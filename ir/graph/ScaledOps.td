// Numbers in 8 bits with scales: conversion from and to floats, and the product of such operands.
#ifndef NANO_IR_GRAPH_SCALED_OPS_TD
#define NANO_IR_GRAPH_SCALED_OPS_TD

include "ir/graph/NanoDialect.td"

def Nano_QuantizeOp : Nano_Op<"quantize", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "rounds to 8-bit floats after division by a scale";
  let description = [{
    q = f8(f32(x)·(1/scale)): the reciprocal and the product are each rounded once to f32, then the product is rounded to nearest even in the result's
    type. What lies beyond the type's largest finite number, infinities too, becomes that number with its sign; NaN stays NaN.

    `scale` is one number, or one a block: of x's rank, with sizes that divide x's; element i of x along a dimension of size X with S scales belongs
    to scale ⌊i/(X/S)⌋. Activations have blocks of 1×128, weights of 128×128.

    The derivative is that of x/scale, without rounding and saturation ("straight through"), so that none flows to the scale of a value that is quantised and
    dequantised again.

    Operands: `x`, f32 or bf16; `scale`, f32, positive: a scale of zero gives NaN and the largest number.

    Errors: a result of another shape than x's; a scale of another rank than 0 and x's, or whose sizes do not divide x's.

    Example:

    ```mlir
    nano.program @example(%x: tensor<4x256xbf16>, %s: tensor<f32>, %blocks: tensor<4x2xf32>) -> tensor<4x256xf8E4M3FN> {
      %g = nano.quantize %x, %s : tensor<4x256xbf16>, tensor<f32> -> tensor<4x256xf8E5M2>
      %q = nano.quantize %x, %blocks : tensor<4x256xbf16>, tensor<4x2xf32> -> tensor<4x256xf8E4M3FN>
      nano.return %q : tensor<4x256xf8E4M3FN>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$x, Nano_F32Tensor:$scale);
  let results = (outs Nano_Float8Tensor:$result);
  let assemblyFormat = "$x `,` $scale attr-dict `:` type($x) `,` type($scale) `->` type($result)";
  let hasVerifier = 1;
}

def Nano_DequantizeOp : Nano_Op<"dequantize", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "8-bit floats times their scale";
  let description = [{
    x = f32(q)·scale, computed in f32 and rounded once to the result's type. The derivative is that of the equation.

    Operands: `q`, of an f8 type; `scale`, f32, as in `nano.quantize`.

    Errors: a result of another shape than q's; a scale of another rank than 0 and q's, or whose sizes do not divide q's.

    Example:

    ```mlir
    nano.program @example(%q: tensor<4x256xf8E5M2>, %s: tensor<f32>) -> tensor<4x256xbf16> {
      %x = nano.dequantize %q, %s : tensor<4x256xf8E5M2>, tensor<f32> -> tensor<4x256xbf16>
      nano.return %x : tensor<4x256xbf16>
    }
    ```
  }];
  let arguments = (ins Nano_Float8Tensor:$q, Nano_F32Tensor:$scale);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$q `,` $scale attr-dict `:` type($q) `,` type($scale) `->` type($result)";
  let hasVerifier = 1;
}

def Nano_ScaledMatmulOp : Nano_Op<"scaled_matmul", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "matrix product of 8-bit floats with scales, with an optional addend";
  let description = [{
    y = alpha·(op(a)·scale_a)·(op(b)·scale_b) + beta·addend, a matrix product of what the operands stand for; op transposes where `transpose_a` or `transpose_b` is
    set. Products of elements are exact; they are summed in f32, and the result is rounded once to its type.

    - Both scales are one number: y = alpha·scale_a·scale_b·Σₖ a·b + beta·addend, the sum over all k in f32.
    - Both have blocks of 128 along k: y = alpha·Σ_blocks scale_a·scale_b·(Σₖ in the block a·b) + beta·addend. Every block's sum is promoted to f32 there.
      Across k a scale covers 1 or 128 rows of its operand; its dimensions lie as its operand's do. So `scale_a` is [M, K/128] or [M/128, K/128], the
      other way round where `transpose_a` is set, and `scale_b` without `transpose_b` [K/128, N] or [K/128, N/128].

    `layer` says which product of a linear layer it is: `{weight = "<parameter>", part = "forward product", a = "input", b = "weight"}` (fp8::ScaledProduct).

    The derivative is that of the plain product of the dequantised operands; where both operands are made by `nano.quantize` and there is no addend,
    nano-differentiate takes the derivative of the product of what was quantised instead.

    Operands: `a` [M, K] (or K, M) and `b` [K, N] (or N, K), each of an f8 type; `scale_a` and `scale_b`, f32; `addend`, optional, of the result's type.

    Errors: ranks other than 2; inner dimensions that differ; a result that is not [M, N]; scales of which one is a number and the other is not; scales
    of other sizes than above; an addend of another type than the result's.

    Example:

    ```mlir
    nano.program @example(%x: tensor<8x256xf8E4M3FN>, %w: tensor<128x256xf8E4M3FN>, %sx: tensor<f32>, %sw: tensor<f32>,
                       %bx: tensor<8x2xf32>, %bw: tensor<1x2xf32>) -> tensor<8x128xf32> {
      %y = nano.scaled_matmul %x, %w scales(%sx, %sw) {transpose_b}
          : (tensor<8x256xf8E4M3FN>, tensor<128x256xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<8x128xf32>
      %z = nano.scaled_matmul %x, %w scales(%bx, %bw) add %y {transpose_b}
          : (tensor<8x256xf8E4M3FN>, tensor<128x256xf8E4M3FN>, tensor<8x2xf32>, tensor<1x2xf32>, tensor<8x128xf32>) -> tensor<8x128xf32>
      nano.return %z : tensor<8x128xf32>
    }
    ```
  }];
  let arguments = (ins Nano_Float8Tensor:$a, Nano_Float8Tensor:$b, Nano_F32Tensor:$scale_a, Nano_F32Tensor:$scale_b,
                       Optional<Nano_FloatTensor>:$addend, UnitAttr:$transpose_a, UnitAttr:$transpose_b,
                       DefaultValuedAttr<F64Attr, "1.0">:$alpha, DefaultValuedAttr<F64Attr, "1.0">:$beta, OptionalAttr<DictionaryAttr>:$layer);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = [{
    $a `,` $b `scales` `(` $scale_a `,` $scale_b `)` (`add` $addend^)? attr-dict `:` functional-type(operands, $result)
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$a, "::mlir::Value":$b, "::mlir::Value":$scaleA,
                                 "::mlir::Value":$scaleB, CArg<"bool", "false">:$transposeA, CArg<"bool", "false">:$transposeB)>];
  let extraClassDeclaration = [{
    /// Elements along the inner dimension to a scale where the scales are those of blocks.
    static constexpr int64_t blockSize = 128;
  }];
}

#endif // NANO_IR_GRAPH_SCALED_OPS_TD
