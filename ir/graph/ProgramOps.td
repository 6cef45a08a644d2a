// Ops that make up a program: states, scalars, optimizers, and how functions read and write them.
#ifndef NANO_IR_GRAPH_PROGRAM_OPS_TD
#define NANO_IR_GRAPH_PROGRAM_OPS_TD

include "ir/graph/NanoDialect.td"

def Nano_StateOp : Nano_Op<"state", [Symbol, Nano_NotDifferentiable]> {
  let summary = "mutable state of the program";
  let description = [{
    A tensor that lives from step to step: a parameter, an optimizer state, or a gradient accumulator. `optimizer` names the
    `nano.adam` or `nano.muon` that updates a parameter. Names are the checkpoint's.

    Errors: a parameter without an optimizer; an initial value with a number of elements other than 1 or the state's.

    ```mlir
    nano.adam @embeds lr @lr_embed {beta1 = 0.8, beta2 = 0.95, eps = 1.0e-10, weight_decay = 0.0}
    nano.state @embed.weight : tensor<257x64xbf16> {role = #nano.role<parameter>, init = #nano.init<normal, array<f64: 0.0, 1.0>>, optimizer = @embeds}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Nano_Tensor>:$type, Nano_Role:$role, Nano_InitAttr:$init,
                       OptionalAttr<FlatSymbolRefAttr>:$optimizer);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
  }];
}

def Nano_ScalarOp : Nano_Op<"scalar", [Symbol, IsolatedFromAbove, SingleBlock, Nano_NotDifferentiable]> {
  let summary = "a run-time scalar: a function of the training step";
  let description = [{
    Learning rates, momenta, windows. The body computes, in f64 with `arith` and `math` ops, from (step s counted from 0, number of
    iterations N, sequences in the global batch, ranks); the host evaluates it once a step and rounds it to `type` (f32 or i32).

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
}

def Nano_AdamOp : Nano_Op<"adam", [Symbol, Nano_NotDifferentiable]> {
  let summary = "a group of parameters updated by Adam with decoupled weight decay";
  let description = [{
    At step t = s + 1, with g the gradient: m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g²,
    p ← p − lr·( m/(1−β₁ᵗ) / (√v/√(1−β₂ᵗ) + ε) + weight_decay·p ). Kingma & Ba 2015; Loshchilov & Hutter 2019.
    States in the parameter's stored type, arithmetic in f32. `lr` names a `nano.scalar`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$lr, F64Attr:$beta1, F64Attr:$beta2, F64Attr:$eps,
                       F64Attr:$weight_decay);
  let assemblyFormat = "$sym_name `lr` $lr attr-dict";
  let hasVerifier = 1;
}

def Nano_MuonOp : Nano_Op<"muon", [Symbol, Nano_NotDifferentiable]> {
  let summary = "a group of matrices updated by Muon";
  let description = [{
    b ← b + (1−μ)(g − b), u = g + μ(b − g), O = NS5(u), p ← p − lr·√max(1, rows/cols)·O, rows and cols those of the last two axes.
    NS5 in `compute_type`: transpose if rows > cols; X ← X/(‖X‖_F + 1e-7); `steps` times A = X·Xᵀ, B = b·A + c·A·A, X ← a·X + B·X
    with `coefficients` (a, b, c); transpose back. Jordan et al. 2024. `lr` and `momentum` name scalars.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$lr, FlatSymbolRefAttr:$momentum, I64Attr:$steps,
                       DenseF64ArrayAttr:$coefficients, TypeAttr:$compute_type);
  let assemblyFormat = "$sym_name `lr` $lr `momentum` $momentum attr-dict";
  let hasVerifier = 1;
}

def Nano_LoadOp : Nano_Op<"load", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>, Nano_NotDifferentiable]> {
  let summary = "the present value of a state or scalar";
  let description = [{
    Reads the value that the last `store` or `accumulate` before it in program order left. A `nano.scalar` is a rank-0 tensor.

    Errors: no such symbol; the type differs from the symbol's.

    ```mlir
    %w = nano.load @embed.weight : tensor<257x64xbf16>
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
    Errors: no such state; the type differs from the state's.

    ```mlir
    nano.store %w, @embed.weight : tensor<257x64xbf16>
    ```
  }];
  let arguments = (ins Nano_Tensor:$value, FlatSymbolRefAttr:$symbol);
  let assemblyFormat = "$value `,` $symbol attr-dict `:` type($value)";
}

def Nano_AccumulateOp : Nano_Op<"accumulate", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>, Nano_NotDifferentiable]> {
  let summary = "adds a micro-batch's gradient to an accumulator";
  let description = [{
    state ← state + value; on the first micro-batch of a step state ← value. `nano-split-accumulation` makes of it a `store` in
    the program of the first micro-batch, and a `load`, `add`, `store` in that of the others. The value's element type may be
    narrower than the state's; it is converted first.
  }];
  let arguments = (ins Nano_Tensor:$value, FlatSymbolRefAttr:$symbol);
  let assemblyFormat = "$value `,` $symbol attr-dict `:` type($value)";
}

def Nano_YieldOp : Nano_Op<"yield", [Pure, Terminator, ReturnLike, Nano_NotDifferentiable]> {
  let summary = "ends a region with its results";
  let arguments = (ins Variadic<AnyType>:$values);
  let builders = [OpBuilder<(ins), [{}]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Nano_FusedOp : Nano_Op<"fused", [Pure, IsolatedFromAbove, SingleBlock, Nano_NotDifferentiable]> {
  let summary = "ops that become one kernel";
  let description = [{
    The block's arguments are the operands; `nano.yield` gives the results. Nothing inside crosses memory except operands and results.

    ```mlir
    %y = nano.fused (%x) : (tensor<8x64xf32>) -> tensor<8x64xf32> {
    ^bb0(%a: tensor<8x64xf32>):
      %e = nano.exp %a : tensor<8x64xf32>
      nano.yield %e : tensor<8x64xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Nano_Tensor>:$inputs);
  let results = (outs Variadic<Nano_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs) $body";
  let hasVerifier = 1;
}

#endif // NANO_IR_GRAPH_PROGRAM_OPS_TD
