// Attention and its gradient.
#ifndef NANO_IR_GRAPH_ATTENTION_OPS_TD
#define NANO_IR_GRAPH_ATTENTION_OPS_TD

include "ir/graph/NanoDialect.td"

def Nano_AttentionOp : Nano_Op<"attention", [Pure, Nano_WholeKernel, IsolatedFromAbove, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "attention of every head over a packed sequence";
  let description = [{
    y[t, h, :] = Σₖ P[t, k, h]·v[k, g, :] with P = softmax over k in first[t] … last[t] (both included) of f(scale·q[t, h, :]·k[k, g, :]ᵀ),
    g = ⌊h·Hk/H⌋: H/Hk neighbouring heads of queries share a head of keys and values (grouped queries, Ainslie 2023; all of them where Hk = H);
    lse[t, h] = ln Σₖ e^f(…) over the same k. Causal, document and window masks and their combinations are such ranges, computed at run time.
    Statistics in f32; y is rounded once to q's type. Blocks of keys outside every query's range are not visited, and no [T, T] matrix is held.
    Dao 2023 (FlashAttention-2) for the blocked form. The derivative is `nano.attention_grad`.

    Operands: `q` [T, H, Dh], `k` [T, Hk, Dh], `v` [T, Hk, Dv], f32 or bf16, of one element type; `first`, `last` [T], i32, first ≤ last ≤ T − 1, both never decreasing with t.

    Region: `score`, optional, is f: a block from (score f32, query i32, key i32, head i32), rank-0 tensors, to one rank-0 f32, made of element-wise ops
    on these alone. Without it f is the identity.

    Results: `y` [T, H, Dv] of q's element type; `lse` [T, H], f32.

    Errors: q of another rank than 3; no heads, or heads of no elements; k of another element type, length or head size than q; v that differs from k, or y from q, in more than the size of a head; heads of y
    of another size than v's; Hk that does not divide H; first or last that is not [T]; lse that is not [T, H]; a score region with
    other arguments or another result, with an op that is not element-wise, or that uses values from outside.

    Example:

    ```mlir
    nano.program @example(%q: tensor<128x2x16xf32>, %k: tensor<128x2x16xf32>, %v: tensor<128x2x16xf32>,
                       %first: tensor<128xi32>, %last: tensor<128xi32>) -> tensor<128x2x16xf32> {
      %y, %lse = nano.attention %q, %k, %v, %first, %last scale 1.200000e-01
          : (tensor<128x2x16xf32>, tensor<128x2x16xf32>, tensor<128x2x16xf32>, tensor<128xi32>, tensor<128xi32>)
          -> (tensor<128x2x16xf32>, tensor<128x2xf32>)
      %capped, %lse2 = nano.attention %y, %k, %v, %first, %last scale 1.200000e-01
          : (tensor<128x2x16xf32>, tensor<128x2x16xf32>, tensor<128x2x16xf32>, tensor<128xi32>, tensor<128xi32>)
          -> (tensor<128x2x16xf32>, tensor<128x2xf32>) {
      ^bb0(%score: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
        %f = nano.tanh %score : tensor<f32>
        nano.yield %f : tensor<f32>
      }
      nano.return %capped : tensor<128x2x16xf32>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$q, Nano_FloatTensor:$k, Nano_FloatTensor:$v, Nano_I32Tensor:$first, Nano_I32Tensor:$last,
                       F64Attr:$scale);
  let results = (outs Nano_FloatTensor:$y, Nano_F32Tensor:$lse);
  let regions = (region AnyRegion:$score);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $first `,` $last `scale` $scale attr-dict `:` functional-type(operands, results) ($score^)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Nano_AttentionGradOp : Nano_Op<"attention_grad", [Pure, Nano_WholeKernel, IsolatedFromAbove, Nano_NotDifferentiable]> {
  let summary = "the vector-Jacobian product of attention";
  let description = [{
    With P the softmax recomputed from lse and f′ the derivative of the score function, per head:
    dv = Pᵀ·dy, dS = P ∘ (dy·vᵀ − delta) ∘ f′, dq = scale·dS·k, dk = scale·dSᵀ·q. Of a head of keys that several heads of queries share, dk and dv
    are the sums over them, in f32 and rounded once.

    Operands: attention's own `q`, `k`, `v`, `first`, `last`; its `lse`; `delta` [T, H], f32, delta[t, h] = Σ_d dy[t, h, d]·y[t, h, d]; `dy`, of y's type.

    Regions: `score` is attention's; `score_grad` maps (score before f, query, key, head, gradient after f) to the gradient before f, rank-0 tensors as
    in `score`. Both are absent when attention had none.

    Results: `dq`, `dk` and `dv` of q's, k's and v's types.

    Errors: attention's; lse and delta of different types; a gradient of another type than what it is of; one region without the other.

    Example:

    ```mlir
    nano.program @example(%q: tensor<128x2x16xf32>, %k: tensor<128x2x16xf32>, %v: tensor<128x2x16xf32>, %first: tensor<128xi32>,
                       %last: tensor<128xi32>, %lse: tensor<128x2xf32>, %delta: tensor<128x2xf32>,
                       %dy: tensor<128x2x16xf32>) -> tensor<128x2x16xf32> {
      %dq, %dk, %dv = nano.attention_grad %q, %k, %v, %first, %last, %lse, %delta, %dy scale 1.200000e-01
          : (tensor<128x2x16xf32>, tensor<128x2x16xf32>, tensor<128x2x16xf32>, tensor<128xi32>, tensor<128xi32>, tensor<128x2xf32>,
             tensor<128x2xf32>, tensor<128x2x16xf32>) -> (tensor<128x2x16xf32>, tensor<128x2x16xf32>, tensor<128x2x16xf32>)
      score {
      ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
        %f = nano.exp %s : tensor<f32>
        nano.yield %f : tensor<f32>
      } grad {
      ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>, %df: tensor<f32>):
        %f = nano.exp %s : tensor<f32>
        %ds = nano.mul %df, %f : tensor<f32>
        nano.yield %ds : tensor<f32>
      }
      nano.return %dq : tensor<128x2x16xf32>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$q, Nano_FloatTensor:$k, Nano_FloatTensor:$v, Nano_I32Tensor:$first, Nano_I32Tensor:$last,
                       Nano_F32Tensor:$lse, Nano_F32Tensor:$delta, Nano_FloatTensor:$dy, F64Attr:$scale);
  let results = (outs Nano_FloatTensor:$dq, Nano_FloatTensor:$dk, Nano_FloatTensor:$dv);
  let regions = (region AnyRegion:$score, AnyRegion:$score_grad);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $first `,` $last `,` $lse `,` $delta `,` $dy `scale` $scale attr-dict `:` functional-type(operands, results)
    (`score` $score^ `grad` $score_grad)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

#endif // NANO_IR_GRAPH_ATTENTION_OPS_TD
