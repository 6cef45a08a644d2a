// Rows of a table by their numbers, and what is asked of a table of logits.
#ifndef NANO_IR_GRAPH_TABLE_OPS_TD
#define NANO_IR_GRAPH_TABLE_OPS_TD

include "ir/graph/NanoDialect.td"

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

def Nano_ScatterAddOp : Nano_Op<"scatter_add", [Pure, Nano_WholeKernel, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
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

def Nano_ExpMatmulOp : Nano_Op<"exp_matmul", [Pure, Nano_WholeKernel, Nano_NotDifferentiable]> {
  let summary = "exponentials of a product's rows, for a cross-entropy of its logits";
  let description = [{
    Of the logits z = x·wᵀ, rounded to bf16, and d[t, v] = z[t, v] − shift[t] in the columns v below `columns` that are not targets[t]:

    - largest[t] = 0 where no d[t, v] is more than 64, else the largest of them,
    - e[t, v] = e^(d[t, v] − largest[t]), and 0 in the other columns,
    - sum[t] = Σ_v e[t, v], of what e is before it is rounded.

    A shift is a guess of the largest logit of a row: with one from 60 below it to 64 above nothing is lost and `largest` is 0, so that a kernel needs no largest logit before it makes
    exponentials. Where it is more than 64 too small, d and what it is the power of are rounded to bf16 once more. The target's exponential is left out: who knows its logit has it exactly, and 1 − P(target) without cancellation.

    Operands: `x` [T, D] and `w` [C, D], bf16; `targets` [T], i32 in [0, columns), as the ids of `nano.gather`; `shift` [T], f32.

    Results: `e` [T, C], bf16; `sum` and `largest` [T], f32.

    Errors: factors of another rank than 2, or whose rows differ in length; results that do not have these shapes; `columns` below 1 or above C; other element types.

    Example:

    ```mlir
    nano.program @example(%x: tensor<8x16xbf16>, %w: tensor<128x16xbf16>, %targets: tensor<8xi32>, %shift: tensor<8xf32>) -> tensor<8xf32> {
      %e, %sum, %largest = nano.exp_matmul %x, %w, %targets, %shift {columns = 100 : i64}
          : (tensor<8x16xbf16>, tensor<128x16xbf16>, tensor<8xi32>, tensor<8xf32>) -> (tensor<8x128xbf16>, tensor<8xf32>, tensor<8xf32>)
      nano.return %sum : tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins Nano_BF16Tensor:$x, Nano_BF16Tensor:$w, Nano_I32Tensor:$targets, Nano_F32Tensor:$shift, I64Attr:$columns);
  let results = (outs Nano_BF16Tensor:$e, Nano_F32Tensor:$sum, Nano_F32Tensor:$largest);
  let assemblyFormat = "$x `,` $w `,` $targets `,` $shift attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// How far above a row's shift a number is whose exponential is made without the row's largest.
    static constexpr double mostAbove = 64;
  }];
}

#endif // NANO_IR_GRAPH_TABLE_OPS_TD
