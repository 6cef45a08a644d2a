// The ops that are kernels of their own: matrix products, embedding, attention, cross-entropy, collectives.
#ifndef NANO_IR_GRAPH_COMPUTE_OPS_TD
#define NANO_IR_GRAPH_COMPUTE_OPS_TD

include "ir/graph/NanoDialect.td"

def Nano_MatmulOp : Nano_Op<"matmul", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "y = alpha·op(a)·op(b) + beta·addend";
  let description = [{
    Matrix product of the last two dimensions; leading (batch) dimensions are equal on all operands. op transposes the last two dimensions where
    `transpose_a` or `transpose_b` is set. Accumulates in f32 and rounds once, to the result's type (f32 or bf16), which may differ from the operands'.
    `addend`, of the result's type, is the library's C operand; passes that fold residual adds and accumulation make it.

    Errors: inner dimensions differ; batch dimensions differ; ranks below 2; the result's shape; operand types differ; an addend of another type.

    ```mlir
    %y = nano.matmul %x, %w {transpose_b} : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
    %z = nano.matmul %x, %w add %r {transpose_b} : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
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
  let summary = "y[t, :] = table[ids[t], :]";
  let description = [{
    Rows of a table [V, D] by ids [T] (i32, in [0, V)): token embedding. The derivative is `scatter_add`.

    ```mlir
    %y = nano.gather %table, %ids : (tensor<257x64xbf16>, tensor<128xi32>) -> tensor<128x64xbf16>
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$table, Nano_I32Tensor:$ids);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$table `,` $ids attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def Nano_ScatterAddOp : Nano_Op<"scatter_add", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "y[v, :] = Σ over t with ids[t] = v of x[t, :]";
  let description = [{
    The embedding's gradient: [T, D] rows summed into [V, D], in order of t, accumulated in f32; rows that no id names are zero. The result may be wider than x.

    ```mlir
    %y = nano.scatter_add %x, %ids : (tensor<128x64xbf16>, tensor<128xi32>) -> tensor<257x64xf32>
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$x, Nano_I32Tensor:$ids);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$x `,` $ids attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def Nano_AttentionOp : Nano_Op<"attention", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "y = softmax(f(scale·q·kᵀ) + mask)·v for every head, over a packed sequence";
  let description = [{
    q, k, v: [T, H, Dh]. Query t sees the keys first[t] … last[t], both included (i32 [T]): causal, document and window masks and their combinations are such
    ranges, computed at run time. first ≤ last, and both increase with t. `score`, when present, maps (score, query, key, head), rank-0 tensors of f32, i32, i32, i32, to the
    score that enters the softmax; it is made of element-wise ops. Softmax statistics in f32.
    Results: y [T, H, Dh] of q's type; lse [T, H] f32, the logarithm of the softmax's denominator, which the derivative reads.
    Blocks of keys outside every query's range are not visited, and no [T, T] matrix is held. Dao 2023 (FlashAttention-2) for the blocked form.

    ```mlir
    %y, %lse = nano.attention %q, %k, %v, %first, %last scale 1.200000e-01
        : (tensor<128x2x16xf32>, tensor<128x2x16xf32>, tensor<128x2x16xf32>, tensor<128xi32>, tensor<128xi32>) -> (tensor<128x2x16xf32>, tensor<128x2xf32>)
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
}

def Nano_AttentionGradOp : Nano_Op<"attention_grad", [Pure, Nano_NotDifferentiable]> {
  let summary = "the vector-Jacobian product of attention";
  let description = [{
    Operands: attention's, its lse, delta[t, h] = Σ_d dy[t, h, d]·y[t, h, d] (f32 [T, H]) and dy. With P the softmax recomputed from lse:
    dv = Pᵀ·dy, dS = P ∘ (dy·vᵀ − delta), dq = scale·(dS ∘ f′)·k, dk = scale·(dS ∘ f′)ᵀ·q. Results have the types of q, k, v. `score` is attention's region; `score_grad` maps
    (score before f, query, key, head, gradient after f) to the gradient before f. Both are empty when attention had none.
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
}

def Nano_CrossEntropyOp : Nano_Op<"cross_entropy", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "loss[t] = lse[t] − logits[t, targets[t]], lse[t] = ln Σ_v e^logits[t, v]";
  let description = [{
    Negative log-likelihood of the targets [T] under softmax(logits), logits [T, V] f32. Both results are f32 [T]. Targets lie in [0, V).
    The derivative, (e^(logits − lse) − onehot(targets))·dloss, is made of element-wise ops. `lse` itself has no derivative.

    ```mlir
    %loss, %lse = nano.cross_entropy %logits, %targets : (tensor<8x128xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Nano_F32Tensor:$logits, Nano_I32Tensor:$targets);
  let results = (outs Nano_F32Tensor:$loss, Nano_F32Tensor:$lse);
  let assemblyFormat = "$logits `,` $targets attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Nano_AllReduceOp : Nano_Op<"all_reduce", [Pure, SameOperandsAndResultType, Nano_NotDifferentiable]> {
  let summary = "y = Σ over ranks of x";
  let description = [{
    Every rank gets the sum, added in rank order. On one rank it is the identity.

    ```mlir
    %y = nano.all_reduce %x : tensor<8xf32>
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$x);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

#endif // NANO_IR_GRAPH_COMPUTE_OPS_TD
