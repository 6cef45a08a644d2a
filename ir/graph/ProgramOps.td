// Ops that make up a program: states, scalars, optimizers, and how functions read and write them.
#ifndef NANO_IR_GRAPH_PROGRAM_OPS_TD
#define NANO_IR_GRAPH_PROGRAM_OPS_TD

include "ir/graph/NanoDialect.td"

//===- Declarations ------------------------------------------------------===//

def Nano_StateOp : Nano_Op<"state", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>, Nano_NotDifferentiable]> {
  let summary = "mutable state of the program";
  let description = [{
    A tensor that lives from step to step. `role` says what for: a parameter; an optimizer's state or one of the model's own, which its programs write; the accumulator
    of a gradient; a constant, which nothing writes and no file holds; the numbers of a report. `init` is its value before the first step. `optimizer` names the `nano.adam` or `nano.muon` that updates a
    parameter; one without is frozen: it has no gradient and no optimizer state. Symbols are the names in checkpoints.

    A state that the training program writes has the attribute `nano.over_ranks`: `"equal"`, what is written is the same on every rank; `"mean"` or `"max"`, the last micro-batch of a
    step leaves on every rank the mean or the largest of what the ranks would have; `"each"`, each rank keeps its own.

    A state of which each rank holds a part has the attribute `nano.sharding`: element t·chunk + i of the state of the member of `ranks` at place p is element
    (t·parts + p)·chunk + i of a whole, in which `pieces` says where which tensors lie, under the names that they have when one rank holds all; the rest is padding.

    Operands: none.

    Errors: an optimizer of what is no parameter; an optimizer that is neither a `nano.adam` nor a `nano.muon`; a constant initial
    value with a number of elements other than 1 or the state's, or data or blocks of another, or of i16 that is no whole number from 0 to 65535; a copy of what is no parameter, constant or state of the model, that has another shape, or that is
    a copy of the state itself, by whatever way; a sharded parameter; a sharding that is malformed, whose chunk does not divide the state, or whose pieces are not
    in order, overlap or end after the whole; an unknown `nano.over_ranks`, or one of another role than optimizer.

    Example:

    ```mlir
    nano.scalar @lr : f32 {
    ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
      nano.yield %step : f64
    }
    nano.adam @embeds lr @lr {beta1 = 0.8, beta2 = 0.95, eps = 1.0e-10, weight_decay = 0.0}
    nano.state @embed.weight : tensor<257x64xbf16>
        {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @embeds}
    nano.state @embed.weight.adam_m : tensor<257x64xbf16> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
    nano.state @grad.embed.weight : tensor<257x64xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
    nano.state @frozen.weight : tensor<64x257xf32> {role = #nano.role<parameter>, init = #nano.init<"transpose", [] of @embed.weight>}
    nano.state @amax : tensor<f32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [1.0]>, nano.over_ranks = "max"}
    nano.state @prefix : tensor<4xi32> {role = #nano.role<constant>, init = #nano.init<"data", [] data dense<[3, -1, 0, 2]> : tensor<4xi32>>}
    nano.state @head.adam_m : tensor<2056xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, nano.sharding =
        {parts = 8 : i64, ranks = "group", chunk = 2056 : i64, pieces = [{name = "head.weight.adam_m", shape = array<i64: 257, 64>, offset = 0 : i64} ]}}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Nano_Tensor>:$type, Nano_Role:$role, Nano_InitAttr:$init,
                       OptionalAttr<FlatSymbolRefAttr>:$optimizer);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
    /// A parameter that has an optimizer, and so a gradient; the others are frozen.
    bool isTrained() { return getRole() == Role::Parameter && getOptimizer().has_value(); }
  }];
}

def Nano_ScalarOp : Nano_Op<"scalar", [Symbol, IsolatedFromAbove, SingleBlock, Nano_NotDifferentiable]> {
  let summary = "a run-time scalar: a function of the training step";
  let description = [{
    value = body(s, N, sequences, world): learning rates, momenta, windows. The host evaluates the body once a step, in f64, and rounds the result to `type`
    (f32 or i32, to nearest even). Nothing is recompiled when it changes. A body of seven arguments is evaluated for every sequence of the batch.

    Operands: none. The body's arguments are f64: the step s, counted from 0; the number of iterations N; the sequences in the global batch; the ranks;
    and, all or none of them, the sequence in the global batch, counted from 0, and the run's seed, its lower and its upper 32 bits as i32.

    Errors: a type other than f32 and i32; a body with other arguments, with an op outside of `arith` and `math`, or that does not yield one f64.

    Example:

    ```mlir
    nano.scalar @momentum : f32 {
    ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
      %c = arith.constant 300.0 : f64
      %x = arith.divf %step, %c : f64
      nano.yield %x : f64
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `:` $type attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Nano_AdamOp : Nano_Op<"adam", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>, Nano_NotDifferentiable]> {
  let summary = "a group of parameters updated by Adam with decoupled weight decay";
  let description = [{
    At step t = s + 1, with g the gradient: m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g²,
    p ← p − lr·( m/(1−β₁ᵗ) / (√v/√(1−β₂ᵗ) + eps) + weight_decay·p ). Kingma & Ba 2015; Loshchilov & Hutter 2019. States are kept in the
    parameter's stored type; arithmetic is f32, and p moves by the new m and v as they are before they are rounded for keeping.
    `nano-expand-optimizers` writes it out.

    Operands: none. `lr` names a `nano.scalar` of type f32.

    Errors: no such scalar; β₁ or β₂ outside [0, 1); eps that is not positive; negative weight decay; what is 0 (eps) or not finite as f32.

    Example:

    ```mlir
    nano.scalar @lr : f32 {
    ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
      nano.yield %step : f64
    }
    nano.adam @embeds lr @lr {beta1 = 0.8, beta2 = 0.95, eps = 1.0e-10, weight_decay = 0.0}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$lr, F64Attr:$beta1, F64Attr:$beta2, F64Attr:$eps,
                       F64Attr:$weight_decay);
  let assemblyFormat = "$sym_name `lr` $lr attr-dict";
  let hasVerifier = 1;
}

def Nano_MuonOp : Nano_Op<"muon", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>, Nano_NotDifferentiable]> {
  let summary = "a group of matrices updated by Muon";
  let description = [{
    b ← b + (1−μ)(g − b), u = g + μ(b − g), O = NS5(u), p ← p − lr·√max(1, rows/cols)·O, rows and cols those of the last two axes; leading axes hold
    independent matrices. NS5 in `compute_type`: transpose if rows > cols; X ← X/(‖X‖_F + 1e-7); `steps` times A = X·Xᵀ, B = b·A + c·A·A, X ← a·X + B·X with
    `coefficients` (a, b, c); transpose back. Jordan et al. 2024. The buffer b is f32. `nano-expand-optimizers` writes it out.

    Operands: none. `lr` and `momentum` (μ) name `nano.scalar`s of type f32.

    Errors: no such scalar; a number of coefficients other than 3, or one that is not finite as f32; steps other than 1 to 100; a compute type other than f32 and bf16.

    Example:

    ```mlir
    nano.scalar @lr : f32 {
    ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
      nano.yield %step : f64
    }
    nano.muon @matrices lr @lr momentum @lr
        {steps = 5, coefficients = array<f64: 3.4445, -4.775, 2.0315>, compute_type = bf16}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$lr, FlatSymbolRefAttr:$momentum, I64Attr:$steps,
                       DenseF64ArrayAttr:$coefficients, TypeAttr:$compute_type);
  let assemblyFormat = "$sym_name `lr` $lr `momentum` $momentum attr-dict";
  let hasVerifier = 1;
}

def Nano_IndexCheckOp : Nano_Op<"index_check", [Nano_NotDifferentiable]> {
  let summary = "indices that a program checks while it runs";
  let description = [{
    c[k] = the largest of the indices of the k-th checked op, as unsigned numbers: one outside of [0, `bound`) where any is. The programs of a role return c, i32 [n], beside their loss or
    logits; it has a number for each `nano.index_check` of that `role`, in the module's order, whose location is that of the op, a `kind`. The role is that of the program as the
    model file says it: the micro-batches of a step, which are made from `train`, all return what it does. Made by `nano-check-indices`; nanorun reads c with the loss.

    Operands: none.

    Errors: a bound below 1; another role than train, validate and generate.

    Example:

    ```mlir
    nano.index_check "gather" of "train" below 400
    ```
  }];
  let arguments = (ins StrAttr:$kind, StrAttr:$role, I64Attr:$bound);
  let assemblyFormat = "$kind `of` $role `below` $bound attr-dict";
  let hasVerifier = 1;
}

def Nano_ReportedOp : Nano_Op<"reported", [DeclareOpInterfaceMethods<SymbolUserOpInterface>, Nano_NotDifferentiable]> {
  let summary = "a report that programs leave in a state";
  let description = [{
    symbol[at + i] = the report's i-th number: what programs found of the tensors that the `nano.report`s of this name are about, in f32 and in a form that several programs' numbers
    combine in:

    | kind | numbers | of several programs |
    |---|---|---|
    | `mean` | the mean | their mean |
    | `norm` | the sum of squares | their sum, whose root is the norm |
    | `max` | the largest magnitude | the largest |
    | `histogram` | elements below `edges`[0], from there below `edges`[1], …, not below the last; smallest, largest, sum, sum of squares | sums; the smallest, the largest |

    With `each_step` the numbers are a step's, the same on every rank; else each micro-batch leaves its own. With `phases` programs of these phases alone write them. Made by
    `nano-lower-reports`; nanorun reads the state behind the programs.

    Operands: none.

    Errors: no such state, or one of another role or shape, or that ends before the numbers do; edges that do not rise, are not finite, or of another kind than `histogram`, which needs them.

    Example:

    ```mlir
    nano.state @reports : tensor<2xf32> {role = #nano.role<report>, init = #nano.init<"constant", [0.0]>}
    nano.reported "acts" norm in @reports at 0
    nano.reported "logits" max in @reports at 1
    ```
  }];
  let arguments = (ins StrAttr:$name, Nano_ReportKindAttr:$kind, FlatSymbolRefAttr:$symbol, I64Attr:$at,
                       DefaultValuedAttr<DenseF64ArrayAttr, "{}">:$edges, UnitAttr:$each_step, OptionalAttr<DenseI64ArrayAttr>:$phases);
  let assemblyFormat = "$name $kind `in` $symbol `at` $at (`each_step` $each_step^)? (`phases` $phases^)? attr-dict";
  let hasVerifier = 1;
}

//===- State -------------------------------------------------------------===//

def Nano_ReportOp : Nano_Op<"report", [MemoryEffects<[MemWrite]>, Nano_NotDifferentiable]> {
  let summary = "a number, or a histogram, of a tensor for the run's log";
  let description = [{
    log ← kind(x): the mean of its elements, √Σx², max |x|, or how many elements lie between edges, in f32. Several reports of one name in a program, which must be of one kind, are of
    their tensors' elements together. With `over` each member of these ranks has a part of the tensor, all of the same shape.

    `nano-lower-reports` makes a store of it; see `nano.reported` for what several programs make together.

    Operands: `x`, of any element type.

    Errors: none of its own.

    Example:

    ```mlir
    func.func @example(%x: tensor<8x64xbf16>, %g: tensor<16xf32>) {
      nano.report "acts" max %x : tensor<8x64xbf16>
      nano.report "gradient" norm %g over group : tensor<16xf32>
      return
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, Nano_ReportKindAttr:$kind, Nano_Tensor:$x, OptionalAttr<Nano_RankSetAttr>:$over);
  let assemblyFormat = "$name $kind $x (`over` $over^)? attr-dict `:` type($x)";
}

def Nano_LoadOp : Nano_Op<"load", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>, Nano_NotDifferentiable]> {
  let summary = "the present value of a state or scalar";
  let description = [{
    y = what the last `store` or `accumulate` of the state before it in program order left. A `nano.scalar` is a rank-0 tensor.

    Operands: none.

    Errors: no such state or scalar; a result of another type than the symbol's.

    Example:

    ```mlir
    nano.state @m : tensor<257x64xbf16> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
    func.func @example() -> tensor<257x64xbf16> {
      %m = nano.load @m : tensor<257x64xbf16>
      return %m : tensor<257x64xbf16>
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$symbol);
  let results = (outs Nano_Tensor:$result);
  let assemblyFormat = "$symbol attr-dict `:` type($result)";
}

def Nano_StoreOp : Nano_Op<"store", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>, Nano_NotDifferentiable]> {
  let summary = "replaces the value of a state";
  let description = [{
    state ← value.

    Operands: `value`, of the state's type.

    Errors: no such state; a value of another type.

    Example:

    ```mlir
    nano.state @m : tensor<257x64xbf16> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
    func.func @example(%m: tensor<257x64xbf16>) {
      nano.store %m, @m : tensor<257x64xbf16>
      return
    }
    ```
  }];
  let arguments = (ins Nano_Tensor:$value, FlatSymbolRefAttr:$symbol);
  let assemblyFormat = "$value `,` $symbol attr-dict `:` type($value)";
}

def Nano_AccumulateOp : Nano_Op<"accumulate", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>, Nano_NotDifferentiable]> {
  let summary = "adds a micro-batch's gradient to an accumulator";
  let description = [{
    state ← state + value; on the first micro-batch of a step state ← value. `nano-split-accumulation` makes of it a `store` in the program of the first
    micro-batch, and a `load`, `add`, `store` in that of the others.

    Operands: `value`, of the state's shape; it is converted to the state's element type first.

    Errors: no such state; a state that is not a gradient's; a value of another shape.

    Example:

    ```mlir
    nano.state @grad.w : tensor<8x8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
    func.func @example(%g: tensor<8x8xbf16>) {
      nano.accumulate %g, @grad.w : tensor<8x8xbf16>
      return
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$value, FlatSymbolRefAttr:$symbol);
  let assemblyFormat = "$value `,` $symbol attr-dict `:` type($value)";
}

//===- Regions -----------------------------------------------------------===//

def Nano_YieldOp : Nano_Op<"yield", [Pure, Terminator, ReturnLike, Nano_NotDifferentiable]> {
  let summary = "ends a region with its results";
  let description = [{
    results of the region = values.

    Operands: `values`, any number, of any type; the op around the region says which.

    Errors: none of its own.

    Example:

    ```mlir
    nano.scalar @step : i32 {
    ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
      nano.yield %step : f64
    }
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Nano_FusedOp : Nano_Op<"fused", [Pure, IsolatedFromAbove, SingleBlock, Nano_NotDifferentiable]> {
  let summary = "ops that become one kernel";
  let description = [{
    outputs = body(inputs). Nothing inside crosses memory except operands and results.
    A `nano.matmul` or `nano.scaled_matmul` may be the body's first op: then the others are element-wise over its result, or sum them over each 128 columns
    of a row, a result of its own; and no result may lie over its operands.

    Operands: `inputs`, any number of tensors; the block's arguments, in order.

    Results: `outputs`, what the block yields.

    Errors: block arguments that have not the types of the operands; yielded values that have not the types of the results.

    Example:

    ```mlir
    func.func @example(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
      %y = nano.fused (%x) : (tensor<8x64xf32>) -> tensor<8x64xf32> {
      ^bb0(%a: tensor<8x64xf32>):
        %e = nano.exp %a : tensor<8x64xf32>
        %s = nano.mul %e, %a : tensor<8x64xf32>
        nano.yield %s : tensor<8x64xf32>
      }
      return %y : tensor<8x64xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Nano_Tensor>:$inputs);
  let results = (outs Variadic<Nano_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs) $body";
  let hasRegionVerifier = 1;
}

#endif // NANO_IR_GRAPH_PROGRAM_OPS_TD
