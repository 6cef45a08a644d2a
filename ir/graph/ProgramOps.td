// Ops that make up a program: states, scalars, optimizers, and how functions read and write them.
#ifndef NANO_IR_GRAPH_PROGRAM_OPS_TD
#define NANO_IR_GRAPH_PROGRAM_OPS_TD

include "ir/graph/NanoDialect.td"

//===- Declarations ------------------------------------------------------===//

def Nano_ModelOp : Nano_Op<"model", [HasParent<"::mlir::ModuleOp">, Nano_NotDifferentiable]> {
  let summary = "what holds of a model and of all its programs";
  let description = [{
    From the model file: `name`; `training`, sizes and conventions of training (`seq_len`, `global_batch`, `vocab_size`, `dist`, …); `hyperparameters`, each with its `name`, its `value`
    as text and whether it was `overridden`; `interchange`, where its parameters are in other programs' files; where the run has several stages, `run_stages`: of each its `name`, the step
    that it ends before, `until`, its `training`, and its `fp8_products`. Then `run_stage` is the position of the stage that a module has the programs of, where it has those of one alone.

    From passes: nano-distribute sets `world`, the number of ranks, of which each walks over A = global_batch / (seq_len·world) sequences a step, and `group`, of those in one group; nano-measure-products `fp8_products`, what the rows of the report of `measure` are
    about; nano-scale-products `gpu_scales`, that scales of blocks lie in memory as GPU libraries read them.

    Operands: none.

    Errors: a second one in a module; a number of ranks below 1, or of which groups have no equal parts.

    Example:

    ```mlir
    nano.model "tiny" {training = {global_batch = 4096 : i64, seq_len = 1024 : i64}, world = 8 : i64, group = 8 : i64}
    ```
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<DictionaryAttr>:$training, OptionalAttr<ArrayAttr>:$hyperparameters,
                       OptionalAttr<DictionaryAttr>:$interchange, OptionalAttr<ArrayAttr>:$run_stages, OptionalAttr<I64Attr>:$run_stage,
                       OptionalAttr<I64Attr>:$world, OptionalAttr<I64Attr>:$group, OptionalAttr<ArrayAttr>:$fp8_products, UnitAttr:$gpu_scales);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name)>];
  let assemblyFormat = "$name attr-dict";
  let hasVerifier = 1;
}

def Nano_StateOp : Nano_Op<"state", [Symbol, Nano_PlacedOp, DeclareOpInterfaceMethods<SymbolUserOpInterface>, Nano_NotDifferentiable]> {
  let summary = "mutable state of the program";
  let description = [{
    A tensor that lives from step to step. `role` says what for: a parameter; an optimizer's state or one of the model's own, which its programs write; the accumulator
    of a gradient; a constant, which nothing writes and no file holds; the numbers of a report; a cache, what sampling keeps of earlier
    tokens, which `generate` and `decode` write and no file holds. `init` is its value before the first step. `optimizer` names the `nano.optimizer` that updates a
    parameter; one without is frozen: it has no gradient and no optimizer state. Symbols are the names in checkpoints.

    `over_ranks` says of a state that the training program writes what the ranks have of it after a step: `"equal"`, what is written is the same on every rank; `"mean"` or `"max"`, the last micro-batch of a
    step leaves on every rank the mean or the largest of what the ranks would have; `"each"`, each rank keeps its own.

    `sharding` says of a state of which each rank holds a part which: element t·chunk + i of the state of the member of `ranks` at place p is element
    (t·parts + p)·chunk + i of a whole, in which `pieces` says where which tensors lie, under the names that they have when one rank holds all; the rest is padding.

    `fp8` says of a parameter how the products of its linear layer get 8-bit operands (fp8::Policy). `offset` (bytes) is where the state lies in the arena, set by memory planning.

    Operands: none.

    Errors: an optimizer of what is no parameter; an optimizer that is no `nano.optimizer`, or whose equations update another type; a constant initial
    value with a number of elements other than 1 or the state's, or data or blocks of another, or of i16 that is no whole number from 0 to 65535; a copy of what is no parameter, constant or state of the model, that has another shape, or that is
    a copy of the state itself, by whatever way; a sharded parameter; a sharding that is malformed, whose chunk does not divide the state, or whose pieces are not
    in order, overlap or end after the whole; an unknown `over_ranks`, or one of another role than optimizer.

    Example:

    ```mlir
    nano.scalar @lr : f32 {
    ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
      nano.yield %step : f64
    }
    nano.optimizer @embeds of "embeds" lr @lr {inits = array<f64: 0.0>, kind = "momentum", states = ["momentum"]}
    nano.state @embed.weight : tensor<257x64xbf16>
        {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @embeds}
    nano.state @embed.weight.momentum : tensor<257x64xbf16> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
    nano.state @grad.embed.weight : tensor<257x64xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
    nano.state @frozen.weight : tensor<64x257xf32> {role = #nano.role<parameter>, init = #nano.init<"transpose", [] of @embed.weight>}
    nano.state @amax : tensor<f32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [1.0]>, over_ranks = "max"}
    nano.state @prefix : tensor<4xi32> {role = #nano.role<constant>, init = #nano.init<"data", [] data dense<[3, -1, 0, 2]> : tensor<4xi32>>}
    nano.state @head.momentum : tensor<2056xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, sharding =
        {parts = 8 : i64, ranks = "group", chunk = 2056 : i64, pieces = [{name = "head.weight.momentum", shape = array<i64: 257, 64>, offset = 0 : i64} ]}}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Nano_Tensor>:$type, Nano_Role:$role, Nano_InitAttr:$init,
                       OptionalAttr<FlatSymbolRefAttr>:$optimizer, OptionalAttr<StrAttr>:$over_ranks,
                       OptionalAttr<DictionaryAttr>:$sharding, OptionalAttr<DictionaryAttr>:$fp8, OptionalAttr<I64Attr>:$offset);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::RankedTensorType":$type, "::nano::graph::Role":$role, "::nano::graph::InitAttr":$init,
                                 CArg<"::mlir::FlatSymbolRefAttr", "{}">:$optimizer)>];
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
    /// A parameter that has an optimizer, and so a gradient; the others are frozen.
    bool isTrained() { return getRole() == Role::Parameter && getOptimizer().has_value(); }
  }];
}

def Nano_ScalarOp : Nano_Op<"scalar", [Symbol, Nano_PlacedOp, IsolatedFromAbove, SingleBlock, Nano_NotDifferentiable]> {
  let summary = "a run-time scalar: a function of the training step";
  let description = [{
    value = body(s, N, sequences, world): learning rates, momenta, windows. `offset` (bytes) is where it lies in the arena, set by memory planning. The host evaluates the body once a step, in f64, and rounds the result to `type`
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
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type, OptionalAttr<I64Attr>:$offset);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::Type":$type)>];
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `:` $type attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Nano_OptimizerOp : Nano_Op<"optimizer", [Symbol, IsolatedFromAbove, DeclareOpInterfaceMethods<SymbolUserOpInterface>, Nano_NotDifferentiable]> {
  let summary = "how a parameter is updated, as equations";
  let description = [{
    (p, s₁, s₂, …) ← body(p, g, s₁, s₂, …), once a step, or in the last of each `every` steps: p is the parameter, g the mean gradient of the global batch in f32 (over
    `every` steps, clipped where the model asks for it), sᵢ the states that the parameter owns, `states` their names behind the parameter's, `inits` what their elements are before the
    first update. The body may load scalars: schedules of the step. Parameters of equal types in one group that are updated by the same equations name one op.
    `group` is the optimizer's name in the model file, `kind` what it calls the equations; `lr` names the `nano.scalar` that logs show as the group's learning rate.
    `nano-expand-optimizers` writes the bodies out, for all parameters, and leaves none; what needs no update yet may have none.

    `cut` says what the model asks of the equations: that pieces of a parameter can be updated apart from each other, single `elements`, `rows` along the last
    dimension or `matrices` of the last two; or that each rank updates it `whole`. Without it the compiler finds out.

    Operands: none.

    Errors: no such scalar, or one that is not f32; `every` below 1; names of states that are empty or repeat, or not one number for each in `inits`, or one that is
    not finite; a `cut` that is none of these; a body that does not take p, g and the states, or does not yield p and the states again; g that is not f32 of p's shape; ops in it that are
    neither pure nor a `nano.load` of a scalar.

    Example:

    ```mlir
    nano.scalar @lr.blocks : f32 {
    ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
      nano.yield %step : f64
    }
    nano.optimizer @blocks of "blocks" lr @lr.blocks {inits = array<f64: 0.0>, kind = "momentum", states = ["momentum"]} by {
    ^bb0(%p: tensor<8x4xf32>, %g: tensor<8x4xf32>, %m: tensor<8x4xf32>):
      %c = nano.constant 0.9 : tensor<8x4xf32>
      %0 = nano.mul %m, %c : tensor<8x4xf32>
      %1 = nano.add %0, %g : tensor<8x4xf32>
      %rate = nano.load @lr.blocks : tensor<f32>
      %2 = nano.broadcast %rate dims [] : tensor<f32> -> tensor<8x4xf32>
      %3 = nano.mul %1, %2 : tensor<8x4xf32>
      %4 = nano.sub %p, %3 : tensor<8x4xf32>
      nano.yield %4, %1 : tensor<8x4xf32>, tensor<8x4xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$group, FlatSymbolRefAttr:$lr, StrAttr:$kind, DefaultValuedAttr<I64Attr, "1">:$every,
                       StrArrayAttr:$states, DenseF64ArrayAttr:$inits, OptionalAttr<StrAttr>:$cut);
  let regions = (region MaxSizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `of` $group `lr` $lr attr-dict (`by` $body^)?";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether the equations are there; not after nano-expand-optimizers.
    bool hasEquations() { return !getBody().empty(); }
    /// The name of a parameter's state.
    std::string stateName(::llvm::StringRef parameter, unsigned i) {
      return (parameter + "." + ::llvm::cast<::mlir::StringAttr>(getStates()[i]).getValue()).str();
    }
  }];
}

def Nano_ProgramOp : Nano_Op<"program", [FunctionOpInterface, IsolatedFromAbove, Nano_NotDifferentiable, Nano_ProgramInterface, Nano_StagedOp]> {
  let summary = "tensors in, tensors out, and what happens to states";
  let description = [{
    results = body(arguments), a function of one block.

    `role` says what it is for: "train", then the "first" and "next" micro-batch of a step and, after distribution, "last"; "update", "event", "validate", "generate",
    "decode", "measure". One of role "event" runs behind the update of the step `event_step`, without it behind every one. One with `phases` runs in steps of these phases
    alone: step s is of phase s mod the number of phases (graph::phaseCount). One with `stages` belongs to the stages of the run at these positions. `traffic`, for readers, counts its kernels
    and the bytes that they move, before and after fusion.

    Operands: none.

    Errors: an `event_step` below 0; returned values that have not the types of the results.

    Example:

    ```mlir
    nano.program @validate(%x: tensor<8x64xf32>, %y: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {role = "validate"} {
      %z = nano.add %x, %y : tensor<8x64xf32>
      nano.return %z : tensor<8x64xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type, OptionalAttr<StrAttr>:$role,
                       OptionalAttr<DenseI64ArrayAttr>:$phases, OptionalAttr<DenseI64ArrayAttr>:$stages,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntNonNegative]>>:$event_step, OptionalAttr<DictionaryAttr>:$traffic,
                       OptionalAttr<StrAttr>:$sym_visibility, OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region AnyRegion:$body);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type, CArg<"::llvm::StringRef", "{}">:$role)>];
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return isExternal() ? nullptr : &getBody(); }
    bool hasRole(::llvm::StringRef role) { return getRole() == role; }
  }];
}

def Nano_ReturnOp : Nano_Op<"return", [Pure, HasParent<"ProgramOp">, ReturnLike, Terminator, Nano_NotDifferentiable]> {
  let summary = "ends a program";
  let description = [{
    results = values, those of the program, in order.

    Operands: `values`, of the types of the program's results.

    Errors: values of other types or another number than the program's results.

    Example:

    ```mlir
    nano.program @example(%x: tensor<8xf32>) -> tensor<8xf32> {
      nano.return %x : tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let hasVerifier = 1;
}

def Nano_IndexCheckOp : Nano_Op<"index_check", [Nano_NotDifferentiable, Nano_StagedOp]> {
  let summary = "indices that a program checks while it runs";
  let description = [{
    c[k] = the largest of the indices of the k-th checked op, as unsigned numbers: one outside of [0, `bound`) where any is. The programs of a role return c, i32 [n], beside their loss or
    logits; it has a number for each `nano.index_check` of that `role`, in the module's order, whose location is that of the op, a `kind`. One with `stages` is of the programs of these stages of the run alone. The role is that of the program as the
    model file says it: the micro-batches of a step, which are made from `train`, all return what it does. Made by `nano-check-indices`; nanorun reads c with the loss.

    Operands: none.

    Errors: a bound below 1; another role than train, validate, generate and decode.

    Example:

    ```mlir
    nano.index_check "gather" of "train" below 400
    ```
  }];
  let arguments = (ins StrAttr:$kind, StrAttr:$role, I64Attr:$bound, OptionalAttr<DenseI64ArrayAttr>:$stages);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$kind, "::llvm::StringRef":$role, "int64_t":$bound)>];
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
    nano.program @example(%x: tensor<8x64xbf16>, %g: tensor<16xf32>) {
      nano.report "acts" max %x : tensor<8x64xbf16>
      nano.report "gradient" norm %g over group : tensor<16xf32>
      nano.return
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
    nano.program @example() -> tensor<257x64xbf16> {
      %m = nano.load @m : tensor<257x64xbf16>
      nano.return %m : tensor<257x64xbf16>
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
    nano.program @example(%m: tensor<257x64xbf16>) {
      nano.store %m, @m : tensor<257x64xbf16>
      nano.return
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
    nano.program @example(%g: tensor<8x8xbf16>) {
      nano.accumulate %g, @grad.w : tensor<8x8xbf16>
      nano.return
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
    of a row, a result of its own; and no result may lie over its operands. So may a `nano.attention_grad`: then the others sum columns of its results over each 64 tokens.

    Operands: `inputs`, any number of tensors; the block's arguments, in order.

    Results: `outputs`, what the block yields.

    Errors: block arguments that have not the types of the operands; yielded values that have not the types of the results.

    Example:

    ```mlir
    nano.program @example(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
      %y = nano.fused (%x) : (tensor<8x64xf32>) -> tensor<8x64xf32> {
      ^bb0(%a: tensor<8x64xf32>):
        %e = nano.exp %a : tensor<8x64xf32>
        %s = nano.mul %e, %a : tensor<8x64xf32>
        nano.yield %s : tensor<8x64xf32>
      }
      nano.return %y : tensor<8x64xf32>
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
