// Products of matrices.
#ifndef NANO_IR_GRAPH_MATMUL_OPS_TD
#define NANO_IR_GRAPH_MATMUL_OPS_TD

include "ir/graph/NanoDialect.td"

def Nano_MatmulOp : Nano_Op<"matmul", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "matrix product, with an optional addend";
  let description = [{
    y = alpha·op(a)·op(b) + beta·addend over the last two dimensions, for every index of the leading (batch) dimensions. op transposes where
    `transpose_a` or `transpose_b` is set. Accumulated in f32 and rounded once, to the result's type, which may differ from the operands'.

    Operands: `a` [batch…, M, K] (or K, M), `b` [batch…, K, N] (or N, K), of one element type, f32 or bf16; `addend`, optional, of the result's type:
    the library's C operand. Newton–Schulz is written with it, and residual adds and accumulation are folded into it.

    Errors: ranks below 2; operand element types, batch dimensions or inner dimensions that differ; a result that is not [batch…, M, N]; an
    addend of another type than the result's.

    Example:

    ```mlir
    nano.program @example(%x: tensor<8x16xf32>, %w: tensor<32x16xf32>) -> tensor<8x32xf32> {
      %y = nano.matmul %x, %w {transpose_b} : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
      %z = nano.matmul %x, %w add %y {alpha = 5.000000e-01 : f64, transpose_b}
          : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
      nano.return %z : tensor<8x32xf32>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$a, Nano_FloatTensor:$b, Optional<Nano_FloatTensor>:$addend,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b,
                       DefaultValuedAttr<F64Attr, "1.0">:$alpha, DefaultValuedAttr<F64Attr, "1.0">:$beta);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$a `,` $b (`add` $addend^)? attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$a, "::mlir::Value":$b,
                                 CArg<"bool", "false">:$transposeA, CArg<"bool", "false">:$transposeB)>];
}

def Nano_GroupedMatmulOp : Nano_Op<"grouped_matmul", [Pure, Nano_WholeKernel, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "products of groups of rows with a matrix each";
  let description = [{
    y[n] = x[n]·w[g], where g is the group of row n: the first one with n < ends[g]. So groups are rows in a row, one behind the other, and `ends` says behind which row
    each ends; one that ends no later than those before it has no rows. y[n] is 0 where n is in no group. With `transpose` y[n] = x[n]·w[g]ᵀ. Accumulated in f32 and
    rounded once to the result's type, which may differ from the operands'. The products of a mixture of experts whose rows lie sorted by expert, however many each has.

    Operands: `x` [N, K] and `w` [G, K, M] or, with `transpose`, [G, M, K], of one element type, f32 or bf16; `ends` i32 [G], of any values: what is below 0 or above N
    counts as these. Result: [N, M]. The derivative to x is the product with the other `transpose`, to w a `nano.grouped_outer`.

    Errors: an x or result of another rank than 2, a w of another than 3; element types of x and w, or sizes, that differ; no group.

    Example:

    ```mlir
    nano.program @example(%x: tensor<128x64xbf16>, %w: tensor<4x96x64xbf16>, %ends: tensor<4xi32>) -> tensor<128x96xbf16> {
      %y = nano.grouped_matmul %x, %w, %ends {transpose} : (tensor<128x64xbf16>, tensor<4x96x64xbf16>, tensor<4xi32>) -> tensor<128x96xbf16>
      nano.return %y : tensor<128x96xbf16>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$x, Nano_FloatTensor:$w, Nano_I32Tensor:$ends, UnitAttr:$transpose);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$x `,` $w `,` $ends attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def Nano_GroupedOuterOp : Nano_Op<"grouped_outer", [Pure, Nano_WholeKernel, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "sums over groups of rows of their outer products";
  let description = [{
    w[g] = Σ_n a[n]ᵀ·b[n] over the rows n of group g, which are those of `nano.grouped_matmul`; 0 where it has none. Accumulated in f32 and rounded once to the
    result's type, which may differ from the operands'. The gradient of a matrix for each group. The derivatives are `nano.grouped_matmul`s.

    Operands: `a` [N, K] and `b` [N, M] of one element type, f32 or bf16; `ends` i32 [G]. Result: [G, K, M].

    Errors: an a or b of another rank than 2, a result of another than 3; element types of a and b, or sizes, that differ; no group.

    Example:

    ```mlir
    nano.program @example(%a: tensor<128x96xbf16>, %b: tensor<128x64xbf16>, %ends: tensor<4xi32>) -> tensor<4x96x64xf32> {
      %w = nano.grouped_outer %a, %b, %ends : (tensor<128x96xbf16>, tensor<128x64xbf16>, tensor<4xi32>) -> tensor<4x96x64xf32>
      nano.return %w : tensor<4x96x64xf32>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$a, Nano_FloatTensor:$b, Nano_I32Tensor:$ends);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$a `,` $b `,` $ends attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

#endif // NANO_IR_GRAPH_MATMUL_OPS_TD
