// Reductions, scans and orders along dimensions.
#ifndef NANO_IR_GRAPH_REDUCE_OPS_TD
#define NANO_IR_GRAPH_REDUCE_OPS_TD

include "ir/graph/NanoDialect.td"

def Nano_ReduceOp : Nano_Op<"reduce", [Pure, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "sum, maximum or log-sum-exp over dimensions";
  let description = [{
    y[kept indices] = Σ x (`sum`), max x (`max`) or ln Σ eˣ (`logsumexp`) over the indices of `dims`, which disappear. Accumulated in f32 in an order that
    depends on the shapes alone, and rounded once to the operand's element type; a maximum may be of i32. The derivative of a maximum flows to every element that
    equals it; that of a log-sum-exp is e^(x − y).

    A sum over no elements is 0.

    A log-sum-exp neither overflows nor is lost to underflow: −∞ where all elements are −∞; +∞ where one is +∞; NaN where one is NaN.

    Operands: `x`, f32 or bf16, of the result's element type; a maximum takes i32 too, a log-sum-exp f32 only.

    Errors: `dims` empty, out of range, or not strictly increasing; a result whose shape is not what remains; element types that differ; a sum of i32; a log-sum-exp of another type than f32; a
    maximum or log-sum-exp over no elements.

    Example:

    ```mlir
    nano.program @example(%x: tensor<8x64xf32>) -> tensor<8xf32> {
      %y = nano.reduce sum %x dims [1] : tensor<8x64xf32> -> tensor<8xf32>
      nano.return %y : tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins Nano_CombinerAttr:$combiner, Nano_NumberTensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs Nano_NumberTensor:$result);
  let assemblyFormat = "$combiner $x `dims` $dims attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
}

def Nano_ScanOp : Nano_Op<"scan", [Pure, Nano_WholeKernel, SameOperandsAndResultType, Nano_NotDifferentiable]> {
  let summary = "running sum or maximum of integers";
  let description = [{
    y[t] = x[0] ∘ … ∘ x[t], ∘ the sum (wrapping) or the maximum: document boundaries from tokens.

    Operands: `x`, i32 of one dimension, of the result's type.

    Errors: a rank other than 1; a log-sum-exp, which integers do not have.

    Example:

    ```mlir
    nano.program @example(%x: tensor<128xi32>) -> tensor<128xi32> {
      %y = nano.scan max %x : tensor<128xi32>
      nano.return %y : tensor<128xi32>
    }
    ```
  }];
  let arguments = (ins Nano_CombinerAttr:$combiner, Nano_I32Tensor:$x);
  let results = (outs Nano_I32Tensor:$result);
  let assemblyFormat = "$combiner $x attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Nano_ArgsortOp : Nano_Op<"argsort", [Pure, Nano_WholeKernel, Nano_NotDifferentiable]> {
  let summary = "the columns of a row in the order of their numbers";
  let description = [{
    y[n, j] = the column of the j-th largest number of row n; of equal ones, which both zeros are, the first column comes first. NaN comes before all numbers.

    Operands: `x` [N, C], f32, bf16 or i32. Result: [N, C], i32, each row a permutation of 0 … C − 1.

    Errors: another rank than 2; shapes that differ.

    Example:

    ```mlir
    nano.program @example(%x: tensor<8x64xf32>) -> tensor<8x64xi32> {
      %y = nano.argsort %x : tensor<8x64xf32> -> tensor<8x64xi32>
      nano.return %y : tensor<8x64xi32>
    }
    ```
  }];
  let arguments = (ins Nano_NumberTensor:$x);
  let results = (outs Nano_I32Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
}

#endif // NANO_IR_GRAPH_REDUCE_OPS_TD
