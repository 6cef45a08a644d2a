// Ops whose computation the model file brings itself.
#ifndef NANO_IR_GRAPH_CUSTOM_OPS_TD
#define NANO_IR_GRAPH_CUSTOM_OPS_TD

include "ir/graph/NanoDialect.td"

def Nano_CustomOp : Nano_Op<"custom", [Pure, Nano_WholeKernel, IsolatedFromAbove, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  let summary = "a kernel of the model's own";
  let description = [{
    results = name(inputs), whatever the function `name` of the text `cpu` or `cuda` (C++, CUDA C++) computes. It is called for ranges of `iterations`,
    which are independent of each other, with an array for each input, which it reads, and each result, every element of which it writes. Of a result that
    `added` lists all elements are 0 before, and it reads and writes them. Nothing else is touched: schedule, memory plan and proofs rest on that, and
    the emulator checks it. Arrays are contiguous and begin at multiples of 16 bytes; none overlaps another one that is written.

    CPU: a thread calls it for `grain` iterations or more. CUDA: all `threads` threads of a block call it for `block_iterations` iterations, or the
    last ones; the block has `shared_bytes` of dynamic shared memory. `flops`: operations of one iteration, for costs.

    `indexed`, of an input and a number: the elements of the input, i32, are indices below the number, as the ids of `nano.gather`.

    Operands: `inputs`, one or more.

    Region: `derivative`, optional, is the vector-Jacobian product: a block from (inputs, results, gradients of the float results) to the gradients of the
    inputs that `gradient_of` lists, of their types; the others have none. Differentiation copies it and takes it away.

    Region: `row`, optional, is one row of the results, for `nano-derive-decode`: a block from the inputs and a position, i32 [1], to the results' rows at that position
    along dimension 0, which have size 1 there. Of an input that `row_inputs` lists it takes the row at the position, of one that `kept_inputs` lists all
    rows, those behind the position being any, and of the others, which do not depend on tokens, all.

    Errors: no input or no result; a name that is no identifier; neither text; a number of iterations, threads or bytes that is out of range; a position that is no result, or no
    float input, or no i32 input; an input or result of no elements; a region with other arguments or values, or that reads or writes states; inputs of rows that have no dimension 0.

    Example:

    ```mlir
    nano.program @example(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %y = nano.custom "twice"(%x) iterations 4 {cpu = "template <class X, class Y> void twice(int64_t begin, int64_t end, X x, Y y) { for (int64_t i = 8 * begin; i < 8 * end; ++i) y[i] = 2 * x[i]; }",
                                                 gradient_of = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
      derivative {
      ^bb0(%input: tensor<4x8xf32>, %result: tensor<4x8xf32>, %gradient: tensor<4x8xf32>):
        %dx = nano.add %gradient, %gradient : tensor<4x8xf32>
        nano.yield %dx : tensor<4x8xf32>
      }
      nano.return %y : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, Variadic<Nano_Tensor>:$inputs, I64Attr:$iterations, OptionalAttr<StrAttr>:$cpu, OptionalAttr<StrAttr>:$cuda,
                       DefaultValuedAttr<I64Attr, "1">:$grain, DefaultValuedAttr<I64Attr, "128">:$threads,
                       DefaultValuedAttr<I64Attr, "1">:$block_iterations, DefaultValuedAttr<I64Attr, "0">:$shared_bytes,
                       DefaultValuedAttr<F64Attr, "0.0">:$flops, DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$added,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$gradient_of, DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$indexed,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$row_inputs, DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$kept_inputs);
  let results = (outs Variadic<Nano_Tensor>:$outputs);
  let regions = (region AnyRegion:$derivative, AnyRegion:$row);
  let assemblyFormat = [{
    $name `(` $inputs `)` `iterations` $iterations attr-dict `:` functional-type($inputs, $outputs) (`derivative` $derivative^)? (`row` $row^)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = "::llvm::LogicalResult verifyRow();";
}

#endif // NANO_IR_GRAPH_CUSTOM_OPS_TD
