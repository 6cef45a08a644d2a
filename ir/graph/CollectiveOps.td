// Exchange between ranks.
#ifndef NANO_IR_GRAPH_COLLECTIVE_OPS_TD
#define NANO_IR_GRAPH_COLLECTIVE_OPS_TD

include "ir/graph/NanoDialect.td"

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

#endif // NANO_IR_GRAPH_COLLECTIVE_OPS_TD
