// The ops that are kernels of their own: matrix products, tables, attention, cross-entropy, collectives.
#ifndef NANO_IR_GRAPH_COMPUTE_OPS_TD
#define NANO_IR_GRAPH_COMPUTE_OPS_TD

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

def Nano_GatherOp : Nano_Op<"gather", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "rows of a table: token embedding";
  let description = [{
    y[t, :] = table[ids[t], :]. The derivative is `nano.scatter_add`.

    Operands: `table` [V, D], f32 or bf16; `ids` [T], i32 in [0, V): `nano-check-indices` proves that of a program's ids, or has the program check them.

    Errors: a table that has not two dimensions, ids that have not one; a result that is not [T, D] of the table's element type; ids of a table with no rows.

    Example:

    ```mlir
    nano.program @example(%table: tensor<257x64xbf16>, %ids: tensor<128xi32>) -> tensor<128x64xbf16> {
      %y = nano.gather %table, %ids : (tensor<257x64xbf16>, tensor<128xi32>) -> tensor<128x64xbf16>
      nano.return %y : tensor<128x64xbf16>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$table, Nano_I32Tensor:$ids);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$table `,` $ids attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def Nano_ScatterAddOp : Nano_Op<"scatter_add", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "rows summed into a table: the embedding's gradient";
  let description = [{
    y[v, :] = Σ x[t, :] over the t with ids[t] = v, in order of t, accumulated in f32 and rounded once to the result's type, which may differ
    from x's. Rows that no id names are zero. The derivative is `nano.gather`.

    Operands: `x` [T, D], f32 or bf16; `ids` [T], i32 in [0, V), as those of `nano.gather`.

    Errors: a result that has not two dimensions, ids that have not one; an x that is not [T, D]; ids of a table with no rows.

    Example:

    ```mlir
    nano.program @example(%x: tensor<128x64xbf16>, %ids: tensor<128xi32>) -> tensor<257x64xf32> {
      %y = nano.scatter_add %x, %ids : (tensor<128x64xbf16>, tensor<128xi32>) -> tensor<257x64xf32>
      nano.return %y : tensor<257x64xf32>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$x, Nano_I32Tensor:$ids);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$x `,` $ids attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def Nano_AttentionOp : Nano_Op<"attention", [Pure, IsolatedFromAbove, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
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

def Nano_AttentionGradOp : Nano_Op<"attention_grad", [Pure, IsolatedFromAbove, Nano_NotDifferentiable]> {
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

def Nano_CrossEntropyOp : Nano_Op<"cross_entropy", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "negative log-likelihood of targets under a softmax";
  let description = [{
    loss[t] = lse[t] − logits[t, targets[t]], lse[t] = ln Σ_v e^logits[t, v], over all columns v. The derivative,
    P·(dloss + dlse) − onehot(targets)·dloss with P = e^(logits − lse), is made of element-wise ops.

    Operands: `logits` [T, V], f32; `targets` [T], i32 in [0, V), as the ids of `nano.gather`.

    Results: `loss` and `lse` [T], f32.

    Errors: logits of another rank than 2, or of no columns; targets, loss or lse that is not [T].

    Example:

    ```mlir
    nano.program @example(%logits: tensor<8x128xf32>, %targets: tensor<8xi32>) -> tensor<8xf32> {
      %loss, %lse = nano.cross_entropy %logits, %targets : (tensor<8x128xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
      nano.return %loss : tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins Nano_F32Tensor:$logits, Nano_I32Tensor:$targets);
  let results = (outs Nano_F32Tensor:$loss, Nano_F32Tensor:$lse);
  let assemblyFormat = "$logits `,` $targets attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

//===- Collectives ---------------------------------------------------------------------------------------------------===//
//
// World of W ranks in groups of S consecutive ones. The members of `all` are the W ranks, of `group` the S ranks of one group, of `peers` the W/S ranks that have the
// same place in their groups; a rank's place among them is its number, its number modulo S, its group's number.

def Nano_AllReduceOp : Nano_Op<"all_reduce", [Pure, SameOperandsAndResultType, Nano_NotDifferentiable]> {
  let summary = "element-wise sum or maximum over ranks";
  let description = [{
    y = Σ x (or max x) over the members of `ranks`, combined in the order of their places, the same bits on every member. On one rank it is the identity.

    Operands: `x`, f32 or bf16 (summed in f32, rounded once), of the result's type; the same type on every rank.

    Errors: another element type; types that differ; a log-sum-exp, which ranks do not exchange.

    Example:

    ```mlir
    nano.program @example(%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = nano.all_reduce %x : tensor<8xf32>
      %z = nano.all_reduce %y by max over peers : tensor<8xf32>
      nano.return %z : tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$x, DefaultValuedAttr<Nano_CombinerAttr, "Combiner::sum">:$combiner,
                       DefaultValuedAttr<Nano_RankSetAttr, "RankSet::all">:$ranks);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$x (`by` $combiner^)? (`over` $ranks^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

/// An op whose operand and result are a whole and a part of it along the first dimension.
class Nano_PartOp<string mnemonic> : Nano_Op<mnemonic, [Pure, Nano_NotDifferentiable]> {
  let arguments = (ins Nano_FloatTensor:$x, I64Attr:$parts, DefaultValuedAttr<Nano_RankSetAttr, "RankSet::all">:$ranks);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$x `parts` $parts (`over` $ranks^)? attr-dict `:` functional-type($x, $result)";
  let hasVerifier = 1;
}

def Nano_ReduceScatterOp : Nano_PartOp<"reduce_scatter"> {
  let summary = "this rank's part of the sum over ranks";
  let description = [{
    x is `parts` parts along its first dimension, one a member of `ranks`; y = Σ over the members of the part with this rank's place, added in the order of places, bf16 in f32 and
    rounded once.

    Operands: `x` [parts·n, …], f32 or bf16; result [n, …] of the same element type.

    Errors: fewer than one part; shapes that are not [parts·n, …] and [n, …]; element types that differ.

    Example:

    ```mlir
    nano.program @example(%x: tensor<8x4xf32>) -> tensor<2x4xf32> {
      %y = nano.reduce_scatter %x parts 4 : (tensor<8x4xf32>) -> tensor<2x4xf32>
      nano.return %y : tensor<2x4xf32>
    }
    ```
  }];
}

def Nano_AllGatherOp : Nano_PartOp<"all_gather"> {
  let summary = "the parts of all ranks, by place";
  let description = [{
    y = the members' x, one after the other by place, along the first dimension.

    Operands: `x` [n, …], f32 or bf16; result [parts·n, …] of the same element type.

    Errors: fewer than one part; shapes that are not [n, …] and [parts·n, …]; element types that differ.

    Example:

    ```mlir
    nano.program @example(%x: tensor<2x4xf32>) -> tensor<8x4xf32> {
      %y = nano.all_gather %x parts 4 over group : (tensor<2x4xf32>) -> tensor<8x4xf32>
      nano.return %y : tensor<8x4xf32>
    }
    ```
  }];
}

def Nano_ShardOp : Nano_PartOp<"shard"> {
  let summary = "this rank's part of what every rank has";
  let description = [{
    y = x[p·n : (p + 1)·n, …], p this rank's place among `ranks`. Nothing is communicated.

    Operands: `x` [parts·n, …], f32 or bf16; result [n, …] of the same element type.

    Errors: as `nano.reduce_scatter`.

    Example:

    ```mlir
    nano.program @example(%x: tensor<8x4xf32>) -> tensor<2x4xf32> {
      %y = nano.shard %x parts 4 : (tensor<8x4xf32>) -> tensor<2x4xf32>
      nano.return %y : tensor<2x4xf32>
    }
    ```
  }];
}

#endif // NANO_IR_GRAPH_COMPUTE_OPS_TD
