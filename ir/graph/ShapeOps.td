// Ops that move elements without computing.
#ifndef NANO_IR_GRAPH_SHAPE_OPS_TD
#define NANO_IR_GRAPH_SHAPE_OPS_TD

include "ir/graph/NanoDialect.td"

def Nano_BroadcastOp : Nano_Op<"broadcast", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "repetition along new or size-1 dimensions";
  let description = [{
    y[i₀, i₁, …] = x[j₀, j₁, …] with jₖ = i at dimension `dims[k]`, or 0 where x has size 1 there. `dims[k]` is the result dimension that
    operand dimension k becomes; dimensions of the result that are not named repeat the operand. The derivative sums over what was repeated.

    Operands: `x`, of the result's element type.

    Errors: `dims` has not one entry an operand dimension, is out of range, or does not increase strictly; an operand size that is neither 1
    nor the result's; element types that differ.

    Example:

    ```mlir
    nano.program @example(%x: tensor<4xf32>) -> tensor<4x8xf32> {
      %y = nano.broadcast %x dims [0] : tensor<4xf32> -> tensor<4x8xf32>
      nano.return %y : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Nano_Tensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs Nano_Tensor:$result);
  let assemblyFormat = "$x `dims` $dims attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Nano_ReshapeOp : Nano_Op<"reshape", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "the same elements in row-major order under another shape";
  let description = [{
    y[n-th place in row-major order] = x[n-th place in row-major order]. A view: no bytes move.

    Operands: `x`, of the result's element type and number of elements.

    Errors: element types or numbers of elements that differ.

    Example:

    ```mlir
    nano.program @example(%x: tensor<4x8xf32>) -> tensor<4x2x4xf32> {
      %y = nano.reshape %x : tensor<4x8xf32> -> tensor<4x2x4xf32>
      nano.return %y : tensor<4x2x4xf32>
    }
    ```
  }];
  let arguments = (ins Nano_Tensor:$x);
  let results = (outs Nano_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Nano_SliceOp : Nano_Op<"slice", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "a range of one dimension";
  let description = [{
    y[…, i, …] = x[…, start + i, …], i along dimension `dim`, in [0, the result's size along `dim`). A view: no bytes move. The derivative pads
    with zeros.

    Operands: `x`, of the result's element type and rank, and of its sizes other than along `dim`.

    Errors: element types or ranks that differ; `dim` out of range; a range that is not inside the operand; other sizes that differ.

    Example:

    ```mlir
    nano.program @example(%qkv: tensor<8x3x2x16xf32>) -> tensor<8x1x2x16xf32> {
      %k = nano.slice %qkv dim 1 at 1 : tensor<8x3x2x16xf32> -> tensor<8x1x2x16xf32>
      nano.return %k : tensor<8x1x2x16xf32>
    }
    ```
  }];
  let arguments = (ins Nano_Tensor:$x, I64Attr:$dim, I64Attr:$start);
  let results = (outs Nano_Tensor:$result);
  let assemblyFormat = "$x `dim` $dim `at` $start attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Nano_ConcatOp : Nano_Op<"concat", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "tensors one after the other along a dimension";
  let description = [{
    y[…, i, …] = xₖ[…, i − sₖ, …], i along dimension `dim`, sₖ the sum of the sizes of the operands before xₖ, for sₖ ≤ i < sₖ₊₁. An operand that
    is made for this op alone is computed in its place of the result. The derivative slices.

    Operands: `inputs` (x₀, x₁, …), at least one, of the result's element type and rank, and of its sizes other than along `dim`.

    Errors: no operand; `dim` out of range; element types, ranks or sizes other than along `dim` that differ; sizes along `dim` that do not sum
    to the result's.

    Example:

    ```mlir
    nano.program @example(%a: tensor<2x8xf32>, %b: tensor<6x8xf32>) -> tensor<8x8xf32> {
      %y = nano.concat %a, %b dim 0 : (tensor<2x8xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
      nano.return %y : tensor<8x8xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Nano_Tensor>:$inputs, I64Attr:$dim);
  let results = (outs Nano_Tensor:$result);
  let assemblyFormat = "$inputs `dim` $dim attr-dict `:` functional-type($inputs, $result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Nano_RotateOp : Nano_Op<"rotate", [Pure, SameOperandsAndResultType, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "rotation along the last dimension";
  let description = [{
    y[…, c] = x[…, (c + shift) mod C], C the size of the last dimension. With shift = C/2 it swaps the halves, as rotary embeddings need.

    Operands: `x`, f32 or bf16, of at least one dimension and of the result's type.

    Errors: rank 0; `shift` outside [0, C).

    Example:

    ```mlir
    nano.program @example(%x: tensor<8x2x64xf32>) -> tensor<8x2x64xf32> {
      %y = nano.rotate %x by 32 : tensor<8x2x64xf32>
      nano.return %y : tensor<8x2x64xf32>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$x, I64Attr:$shift);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$x `by` $shift attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Nano_TransposeOp : Nano_Op<"transpose", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "the last two dimensions exchanged";
  let description = [{
    y[…, j, i] = x[…, i, j]. It is made by the kernel that makes x, or else by one that copies.

    Operands: `x`, of the result's element type and at least two dimensions.

    Errors: fewer dimensions; a result that is not x's type with its last two sizes exchanged.

    Example:

    ```mlir
    nano.program @example(%x: tensor<4x8xf8E4M3FN>) -> tensor<8x4xf8E4M3FN> {
      %y = nano.transpose %x : tensor<4x8xf8E4M3FN> -> tensor<8x4xf8E4M3FN>
      nano.return %y : tensor<8x4xf8E4M3FN>
    }
    ```
  }];
  let arguments = (ins Nano_Tensor:$x);
  let results = (outs Nano_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Nano_PermuteOp : Nano_Op<"permute", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "dimensions in another order";
  let description = [{
    y[i₀, i₁, …] = x[j₀, j₁, …] with j at dimension `order[k]` being iₖ: dimension k of the result is dimension `order[k]` of the operand. It is made by
    the kernel that reads it, out of x in memory. The derivative permutes back.

    Operands: `x`, of the result's element type.

    Errors: an `order` that does not name every dimension once; a result that is not x's type with its sizes in that order.

    Example:

    ```mlir
    nano.program @example(%x: tensor<8x2x64xf32>) -> tensor<2x8x64xf32> {
      %y = nano.permute %x order [1, 0, 2] : tensor<8x2x64xf32> -> tensor<2x8x64xf32>
      nano.return %y : tensor<2x8x64xf32>
    }
    ```
  }];
  let arguments = (ins Nano_Tensor:$x, DenseI64ArrayAttr:$order);
  let results = (outs Nano_Tensor:$result);
  let assemblyFormat = "$x `order` $order attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

#endif // NANO_IR_GRAPH_SHAPE_OPS_TD
