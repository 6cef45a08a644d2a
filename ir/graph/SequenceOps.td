// Ops along a sequence: linear recurrences (running sums and products), and products of each token with the tokens of a band before it.
#ifndef NANO_IR_GRAPH_SEQUENCE_OPS_TD
#define NANO_IR_GRAPH_SEQUENCE_OPS_TD

include "ir/graph/NanoDialect.td"

def Nano_RecurrenceOp : Nano_Op<"recurrence", [Pure, Nano_WholeKernel, SameOperandsAndResultType, AttrSizedOperandSegments,
                                               DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "linear recurrence along a sequence";
  let description = [{
    h[n, t, c] = a[n, t, c]·h[n, t−1, c] + b[n, t, c], h[n, −1, c] = `initial`; without a it is 1, a running sum, without b it is 0, a running product.
    With `reverse` from the end: h[n, t, c] = a[n, t, c]·h[n, t+1, c] + b[n, t, c], h[n, T, c] = `initial`. With `adjoint` the transposed linear map of
    b, h[n, t, c] = a[n, t+1, c]·h[n, t+1, c] + b[n, t, c] from the end (with `reverse` too: a[n, t−1, c]·h[n, t−1, c] from the start), 0 before the first; its
    first factor is a[n, 0, c], which nothing reads.

    Carried on in f32 and rounded once an element to the result's type. A GPU composes the factors of a part of the sequence in f32 first: a product
    of factors within 256·32/min(32, C) of them (C to a power of two) that leaves f32's range makes what comes behind that part infinite or NaN, also where an h is 0.

    The derivative to b is the adjoint recurrence of the gradient; to a the product of that with the neighbour of h, so a running product's needs no division.

    Operands: `a`, `b` [N, T, C], f32 or bf16, one of them at least, of the result's type.

    Errors: another rank than 3; neither a nor b; types that differ; an adjoint of another initial value than 0, or with no b.

    Example:

    ```mlir
    nano.program @example(%decay: tensor<2x128x16xf32>, %x: tensor<2x128x16xf32>) -> tensor<2x128x16xf32> {
      %h = nano.recurrence factor %decay term %x from 0.0 : tensor<2x128x16xf32>
      %sum = nano.recurrence term %h from 0.0 {reverse} : tensor<2x128x16xf32>
      %product = nano.recurrence factor %sum from 1.0 : tensor<2x128x16xf32>
      %dx = nano.recurrence factor %decay term %product from 0.0 {adjoint} : tensor<2x128x16xf32>
      nano.return %dx : tensor<2x128x16xf32>
    }
    ```
  }];
  let arguments = (ins Optional<Nano_FloatTensor>:$a, Optional<Nano_FloatTensor>:$b, F64Attr:$initial, UnitAttr:$reverse, UnitAttr:$adjoint);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "(`factor` $a^)? (`term` $b^)? `from` $initial attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Nano_BandScoresOp : Nano_Op<"band_scores", [Pure, Nano_WholeKernel, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "products of each token with the tokens of a band before it";
  let description = [{
    s[t, h, w] = Σ_d q[t, h, d]·k[t − W + 1 + w, h, d], and 0 where t − W + 1 + w < 0: what a token's query and the keys of the W tokens up to its own, its own last,
    come to. Accumulated in f32 and rounded once to the result's type, which may differ from the operands'. The derivatives are `nano.band_product`s.

    Operands: `q`, `k` [T, H, D], f32 or bf16, of one shape. Result: [T, H, W].

    Errors: an operand or result of another rank than 3; shapes of q and k that differ; a result that is not [T, H, W]; W of 0 or above T.

    Example:

    ```mlir
    nano.program @example(%q: tensor<128x6x64xbf16>, %k: tensor<128x6x64xbf16>) -> tensor<128x6x112xf32> {
      %s = nano.band_scores %q, %k : (tensor<128x6x64xbf16>, tensor<128x6x64xbf16>) -> tensor<128x6x112xf32>
      nano.return %s : tensor<128x6x112xf32>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$q, Nano_FloatTensor:$k);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$q `,` $k attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def Nano_BandProductOp : Nano_Op<"band_product", [Pure, Nano_WholeKernel, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "sums over the tokens of a band with a weight each";
  let description = [{
    y[t, h, d] = Σ_w p[t, h, w]·v[t − W + 1 + w, h, d] over the w with t − W + 1 + w ≥ 0: of the W tokens up to its own. With `transpose` of the W tokens from its own on,
    y[t, h, d] = Σ_w p[t + W − 1 − w, h, w]·v[t + W − 1 − w, h, d] over the w with t + W − 1 − w < T: the product with the transposed band matrix. Accumulated in f32
    and rounded once to the result's type, which may differ from the operands'. The derivative to v is the other one of the two, to p `nano.band_scores`.

    Operands: `p` [T, H, W], `v` [T, H, D], each f32 or bf16. Result: [T, H, D].

    Errors: an operand or result of another rank than 3; sizes that differ; W of 0 or above T.

    Example:

    ```mlir
    nano.program @example(%p: tensor<128x6x112xf32>, %v: tensor<128x6x64xbf16>) -> tensor<128x6x64xbf16> {
      %y = nano.band_product %p, %v : (tensor<128x6x112xf32>, tensor<128x6x64xbf16>) -> tensor<128x6x64xbf16>
      %z = nano.band_product %p, %y {transpose} : (tensor<128x6x112xf32>, tensor<128x6x64xbf16>) -> tensor<128x6x64xbf16>
      nano.return %z : tensor<128x6x64xbf16>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$p, Nano_FloatTensor:$v, UnitAttr:$transpose);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$p `,` $v attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

#endif // NANO_IR_GRAPH_SEQUENCE_OPS_TD
