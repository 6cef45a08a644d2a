// Ops that move elements without computing, and reductions and scans along dimensions.
#ifndef NANO_IR_GRAPH_SHAPE_OPS_TD
#define NANO_IR_GRAPH_SHAPE_OPS_TD

include "ir/graph/NanoDialect.td"

def Nano_BroadcastOp : Nano_Op<"broadcast", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "y[…] = x[…], repeated along new or size-1 dimensions";
  let description = [{
    `dims[k]` is the result dimension that operand dimension k becomes; operand sizes are the result's, or 1. Dimensions of the result that are
    not named repeat the operand. `dims` increases strictly. The derivative sums over what was repeated.

    Errors: `dims` has not one entry an operand dimension, is out of range or not increasing; a size that is neither 1 nor the result's.

    ```mlir
    %y = nano.broadcast %x dims [0] : tensor<4xf32> -> tensor<4x8xf32>
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
    Errors: the numbers of elements or the element types differ.

    ```mlir
    %y = nano.reshape %x : tensor<4x8xf32> -> tensor<4x2x4xf32>
    ```
  }];
  let arguments = (ins Nano_Tensor:$x);
  let results = (outs Nano_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Nano_SliceOp : Nano_Op<"slice", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "elements [start, start + size) of dimension dim";
  let description = [{
    `size` is the result's size along `dim`; the other sizes are the operand's. A view: no bytes move. The derivative pads with zeros.

    Errors: `dim` or the range outside the operand; other sizes differ.

    ```mlir
    %q = nano.slice %qkv dim 1 at 0 : tensor<8x3x2x16xf32> -> tensor<8x1x2x16xf32>
    ```
  }];
  let arguments = (ins Nano_Tensor:$x, I64Attr:$dim, I64Attr:$start);
  let results = (outs Nano_Tensor:$result);
  let assemblyFormat = "$x `dim` $dim `at` $start attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Nano_ConcatOp : Nano_Op<"concat", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "operands one after the other along dimension dim";
  let description = [{
    Operands that are made for this op alone are written in place; the derivative slices.

    Errors: no operand; element types or sizes other than along `dim` differ; the sizes along `dim` do not sum to the result's.

    ```mlir
    %y = nano.concat %a, %b dim 0 : (tensor<2x8xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
    ```
  }];
  let arguments = (ins Variadic<Nano_Tensor>:$inputs, I64Attr:$dim);
  let results = (outs Nano_Tensor:$result);
  let assemblyFormat = "$inputs `dim` $dim attr-dict `:` functional-type($inputs, $result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Nano_RotateOp : Nano_Op<"rotate", [Pure, SameOperandsAndResultType, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "y[…, c] = x[…, (c + shift) mod C], C the size of the last dimension";
  let description = [{
    With shift = C/2 it swaps the halves of the last axis, as rotary embeddings need. Errors: `shift` outside [0, C).

    ```mlir
    %y = nano.rotate %x by 32 : tensor<8x2x64xf32>
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$x, I64Attr:$shift);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$x `by` $shift attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Nano_ReduceOp : Nano_Op<"reduce", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "sum or maximum over dimensions";
  let description = [{
    Dimensions `dims` (strictly increasing) disappear. Accumulated in f32 in a fixed order; the result has the operand's element type. The derivative of a
    maximum flows to every element that equals it.

    Errors: `dims` empty, out of range or not increasing; the result's shape is not what remains.

    ```mlir
    %y = nano.reduce sum %x dims [1] : tensor<8x64xf32> -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Nano_CombinerAttr:$combiner, Nano_FloatTensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$combiner $x `dims` $dims attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
}

def Nano_ScanOp : Nano_Op<"scan", [Pure, SameOperandsAndResultType]> {
  let summary = "y[t] = x[0] ∘ … ∘ x[t], ∘ a sum or maximum";
  let description = [{
    Inclusive scan of a rank-1 tensor of integers: document boundaries from tokens.

    ```mlir
    %y = nano.scan max %x : tensor<128xi32>
    ```
  }];
  let arguments = (ins Nano_CombinerAttr:$combiner, Nano_I32Tensor:$x);
  let results = (outs Nano_I32Tensor:$result);
  let assemblyFormat = "$combiner $x attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif // NANO_IR_GRAPH_SHAPE_OPS_TD
