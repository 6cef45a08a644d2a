// The product of matrices.
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

#endif // NANO_IR_GRAPH_MATMUL_OPS_TD
