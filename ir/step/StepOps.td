// Ops of the `step` dialect.
#ifndef NANO_IR_STEP_OPS_TD
#define NANO_IR_STEP_OPS_TD

include "ir/graph/NanoDialect.td"
include "ir/step/StepDialect.td"
include "mlir/IR/OpAsmInterface.td"

//===- Programs and buffers ------------------------------------------------------------------------------------------===//

def Step_ProgramOp : Step_Op<"program", [Symbol, IsolatedFromAbove, SingleBlock, NoTerminator, Nano_ProgramInterface, Nano_StagedOp]> {
  let summary = "a static schedule: buffers, then commands in program order";
  let description = [{
    `role` says when the training loop runs it: "first", "next", "last", "update", "validate", "generate", "decode", "measure" or "event". `phases`,
    `stages` and `event_step` say when in a run, as those of the `nano.program` that it was.

    Errors: an op that is neither a buffer, a view nor a command; an event that is recorded twice; a wait for an event that no earlier command
    records.

    ```mlir
    step.program @copy attributes {role = "update"} {
      %a = step.buffer "a" : memref<8xf32>
      %b = step.buffer "b" : memref<8xf32>
      step.fill %a : memref<8xf32>
      step.copy %a to %b : memref<8xf32>, memref<8xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$role, OptionalAttr<DenseI64ArrayAttr>:$phases,
                       OptionalAttr<DenseI64ArrayAttr>:$stages, OptionalAttr<I64Attr>:$event_step);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, CArg<"::mlir::StringAttr", "{}">:$role), [{
    build($_builder, $_state, name, role, {}, {}, {});
  }]>];
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def Step_ArenaOp : Step_Op<"arena", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "the memory that all programs share";
  let description = [{
    `bytes` is its size on a rank; `floor`, for readers, the least that it could be: the most bytes that are in use at one moment. `host` are bytes of the host's memory that a rank
    has besides, for buffers that lie there; their offsets begin where the arena ends, at the next multiple of 256. Set by memory planning.

    Errors: a size below 0.

    ```mlir
    step.arena 3328 floor 3072 host 1024
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$bytes, DefaultValuedAttr<I64Attr, "0">:$floor,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, "0">:$host);
  let assemblyFormat = "$bytes (`floor` $floor^)? (`host` $host^)? attr-dict";
  let extraClassDeclaration = [{
    /// Where offsets of buffers in the host's memory begin.
    int64_t getHostBegin() { return (int64_t(getBytes()) + 255) / 256 * 256; }
    /// One past the last offset.
    int64_t getEnd() { return int64_t(getHost()) == 0 ? int64_t(getBytes()) : getHostBegin() + int64_t(getHost()); }
  }];
}

def Step_BufferOp : Step_Op<"buffer", [Nano_PlacedOp, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "a range of the arena that lives inside one program";
  let description = [{
    Contents are undefined until written. `offset` (bytes, a multiple of 256) is set by memory planning; buffers that are not alive at the same time may
    overlap. With `host` it lies in the host's memory, which `step.copy` alone reaches.

    Errors: a type that is not contiguous from offset 0; an offset that is negative or no multiple of 256; another command that touches a buffer in the host's memory.

    ```mlir
    step.program @p {
      %x = step.buffer "blocks.0.x" : memref<128x64xbf16>
      %y = step.buffer "blocks.0.y" {offset = 16384 : i64} : memref<128x64xbf16>
      %z = step.buffer "blocks.0.y" {host} : memref<128x64xbf16>
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<I64Attr>:$offset, UnitAttr:$host);
  let results = (outs Step_MemRef:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Step_StateOp : Step_Op<"state", [DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a state's buffer: lives from step to step and is shared by all programs";
  let description = [{
    `symbol` is a `nano.state`, a `nano.scalar` (rank 0) or the name of an input declared by `step.input`.

    Errors: no such symbol; a type that is not the symbol's, contiguous.

    ```mlir
    step.input @train.tokens : memref<128xi32>
    step.program @first {
      %tokens = step.state @train.tokens : memref<128xi32>
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$symbol);
  let results = (outs Step_MemRef:$result);
  let assemblyFormat = "$symbol attr-dict `:` type($result)";
}

def Step_InputOp : Step_Op<"input", [Nano_PlacedOp, Nano_StagedOp, Symbol]> {
  let summary = "a buffer that the host fills or reads: tokens, targets, loss, logits";
  let description = [{
    `type` is a contiguous memref. The host fills an input before the program runs and reads one marked `output` after it; what is marked `output` has no
    contents until the program writes it. `offset` (bytes, a multiple of 256) is set by memory planning and shared with nothing but, where one
    program alone touches a large output, with transient buffers of other programs. With `stages` it is one of programs of these stages of the run alone.

    Errors: a type that is no contiguous static memref; an offset that is negative or no multiple of 256.

    ```mlir
    step.input @train.tokens : memref<128xi32>
    step.input @train.loss : memref<f32> {offset = 512 : i64, output}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type, UnitAttr:$output, OptionalAttr<I64Attr>:$offset,
                       OptionalAttr<DenseI64ArrayAttr>:$stages);
  let builders = [OpBuilder<(ins "::mlir::StringAttr":$name, "::mlir::TypeAttr":$type, "::mlir::UnitAttr":$output,
                                 CArg<"::mlir::IntegerAttr", "{}">:$offset), [{
    build($_builder, $_state, name, type, output, offset, {});
  }]>];
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let hasVerifier = 1;
}

def Step_ViewOp : Step_Op<"view", [Pure, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>, DeclareOpInterfaceMethods<ViewLikeOpInterface>]> {
  let summary = "part of a buffer: offset and strides are those of the result type, relative to the buffer's start";
  let description = [{
    `source` is a buffer, a state's buffer, or a view of one; the result's layout counts from the start of that buffer, in elements, whatever the
    source's own layout is. No bytes move.

    Errors: another element type; a layout that is not strided and static, reaches beyond the buffer, or names an element twice.

    ```mlir
    step.program @p {
      %qkv = step.buffer "qkv" : memref<128x3x64xf32>
      %k = step.view %qkv : memref<128x3x64xf32> to memref<128x64xf32, strided<[192, 1], offset: 64>>
    }
    ```
  }];
  let arguments = (ins Step_MemRef:$source);
  let results = (outs Step_MemRef:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `to` type($result)";
  let hasVerifier = 1;
}

//===- Commands ------------------------------------------------------------------------------------------------------===//

/// A command: an op with a stream, whose memory effects are its accesses.
class Step_Command<string mnemonic, list<Trait> traits = []>
    : Step_Op<mnemonic, [DeclareOpInterfaceMethods<Step_CommandOp, ["getAccesses"]>,
                         DeclareOpInterfaceMethods<MemoryEffectsOpInterface>] # traits>;

def Step_TaskOp : Step_Command<"task", [IsolatedFromAbove, SingleBlock, AttrSizedOperandSegments]> {
  let summary = "graph ops that one generated kernel will compute, with the buffers that they read and write";
  let description = [{
    The block has one tensor argument an input and yields one tensor an output, with the buffers' shapes and element types. An output buffer may
    also be an input, or another view of an input's buffer with the same layout: then each element is read before the same element is written
    and by the same iteration. `nano-lower-kernels` replaces the task by a `step.launch`.

    A task whose region only reshapes copies between layouts.

    Errors: block arguments or yielded values that are not the buffers' shapes and element types.

    ```mlir
    step.program @p {
      %x = step.buffer "x" : memref<8x4xf32>
      %y = step.buffer "y" : memref<8x4xf32>
      step.task ins(%x) outs(%y) : (memref<8x4xf32>) -> memref<8x4xf32> {
      ^bb0(%a: tensor<8x4xf32>):
        %e = nano.exp %a : tensor<8x4xf32>
        nano.yield %e : tensor<8x4xf32>
      }
    }
    ```
  }];
  let arguments = (ins Variadic<Step_MemRef>:$ins, Variadic<Step_MemRef>:$outs, DefaultValuedAttr<I64Attr, "0">:$stream);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `ins` `(` $ins `)` `outs` `(` $outs `)` attr-dict `:` functional-type($ins, $outs) $body
  }];
  let hasRegionVerifier = 1;
}

def Step_LaunchOp : Step_Command<"launch", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one generated kernel over one or several sets of operands";
  let description = [{
    `buffers` holds `segments` sets one after the other; each has one buffer for each that the kernel takes. The kernel is a `kernel.func` of the nested
    module `@kernels`, which states what it does with each. `iterations` has the size of each set's iteration space; without it every set has the kernel's.
    `candidates` are kernels that could compute the same, of their own numbers of iterations, for the first of the same buffers: who runs the plan may measure which is fastest.

    Errors: no such kernel; a number of buffers that is not `segments` times the kernel's; a number of iterations for each set that is missing or
    negative; a buffer with another element type than the kernel's argument, or, unless that is a `memref<?xT>`, another shape; candidates of several sets;
    a candidate that takes more buffers than the kernel, does something else with one, or does not say its iterations.

    ```mlir
    module @kernels {
      kernel.func @exp(read memref<8xf32>, write memref<8xf32>, memref<0xi8>, index, index) attributes {iterations = 8 : i64}
    }
    step.program @p {
      %x = step.buffer "x" : memref<8xf32>
      %y = step.buffer "y" : memref<8xf32>
      step.fill %x : memref<8xf32>
      step.launch @exp(%x, %y) : memref<8xf32>, memref<8xf32>
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Step_MemRef>:$buffers, DefaultValuedAttr<I64Attr, "1">:$segments,
                       DefaultValuedAttr<I64Attr, "0">:$stream, OptionalAttr<DenseI64ArrayAttr>:$iterations,
                       OptionalAttr<FlatSymbolRefArrayAttr>:$candidates);
  let assemblyFormat = "$kernel `(` $buffers `)` attr-dict `:` type($buffers)";
  let extraClassDeclaration = [{
    /// The buffers of one set, one a kernel argument.
    ::mlir::OperandRange getSegment(uint64_t segment) {
      size_t count = getBuffers().size() / getSegments();
      return getBuffers().slice(segment * count, count);
    }
  }];
}

def Step_MatmulOp : Step_Command<"matmul", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "c = alpha·op(a)·op(b) + beta·d, a library call";
  let description = [{
    As `nano.matmul`, on buffers whose last dimension has stride 1 and whose leading dimensions are one batch with one stride. `d` has c's shape; it may be c.
    With `scale_a` and `scale_b`, f32, as `nano.scaled_matmul`: then a and b are matrices of f8.
    `candidates` are kernels that could compute the same from a, which is also b, and d, where there is one, to c, these being their buffers: who runs the plan may measure which is fastest.

    Errors: ranks below 2; inner or batch dimensions that differ; a result or `d` of another shape; a layout that the library cannot express; f8 operands
    without scales, or scales without; one scale alone; scales of other sizes than `nano.scaled_matmul`'s; a candidate with other buffers, or
    that does not say its iterations.

    ```mlir
    step.program @p {
      %x = step.buffer "x" : memref<8x16xf32>
      %w = step.buffer "w" : memref<32x16xf32>
      %y = step.buffer "y" : memref<8x32xf32>
      step.fill %x : memref<8x16xf32>
      step.fill %w : memref<32x16xf32>
      step.matmul %x, %w into %y {transpose_b} : memref<8x16xf32>, memref<32x16xf32>, memref<8x32xf32>
      step.matmul %x, %w add %y into %y {transpose_b} : memref<8x16xf32>, memref<32x16xf32>, memref<8x32xf32>, memref<8x32xf32>
      %q = step.buffer "q" : memref<8x16xf8E5M2>
      %p = step.buffer "p" : memref<32x16xf8E4M3FN>
      %s = step.buffer "s" : memref<f32>
      step.fill %q : memref<8x16xf8E5M2>
      step.fill %p : memref<32x16xf8E4M3FN>
      step.fill %s : memref<f32>
      step.matmul %q, %p scales(%s, %s) into %y {transpose_b} : memref<8x16xf8E5M2>, memref<32x16xf8E4M3FN>, memref<f32>, memref<f32>, memref<8x32xf32>
    }
    ```
  }];
  let arguments = (ins Step_MemRef:$a, Step_MemRef:$b, Optional<Step_MemRef>:$scale_a, Optional<Step_MemRef>:$scale_b,
                       Optional<Step_MemRef>:$d, Step_MemRef:$c, UnitAttr:$transpose_a, UnitAttr:$transpose_b,
                       DefaultValuedAttr<F64Attr, "1.0">:$alpha, DefaultValuedAttr<F64Attr, "1.0">:$beta,
                       DefaultValuedAttr<I64Attr, "0">:$stream, OptionalAttr<FlatSymbolRefArrayAttr>:$candidates);
  let extraClassDeclaration = [{
    /// The buffers of a candidate, one a kernel argument.
    ::llvm::SmallVector<::mlir::Value> getCandidateBuffers() {
      ::llvm::SmallVector<::mlir::Value> buffers = {getA()};
      if (getD())
        buffers.push_back(getD());
      buffers.push_back(getC());
      return buffers;
    }
  }];
  let assemblyFormat = [{
    $a `,` $b (`scales` `(` $scale_a^ `,` $scale_b `)`)? (`add` $d^)? `into` $c attr-dict `:` type(operands)
  }];
  let hasVerifier = 1;
}

def Step_AllReduceOp : Step_Command<"all_reduce"> {
  let summary = "element-wise sum or maximum over ranks, in place";
  let description = [{
    As `nano.all_reduce`, of each buffer. Every rank executes it with buffers of the same shapes; all have one element type, f32 or bf16, and are contiguous.

    Errors: another element type; element types that differ; a buffer that is not contiguous; a log-sum-exp.

    ```mlir
    step.program @p {
      %g = step.buffer "g" : memref<8xf32>
      step.fill %g : memref<8xf32>
      step.all_reduce %g {stream = 1 : i64} : memref<8xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Step_MemRef>:$buffers, DefaultValuedAttr<Nano_CombinerAttr, "::nano::graph::Combiner::sum">:$combiner,
                       DefaultValuedAttr<Nano_RankSetAttr, "::nano::graph::RankSet::all">:$ranks, DefaultValuedAttr<I64Attr, "0">:$stream);
  let assemblyFormat = "$buffers (`by` $combiner^)? (`over` $ranks^)? attr-dict `:` type($buffers)";
  let hasVerifier = 1;
}

/// A command between wholes and parts of them: `ins`[i] and `outs`[i] are a pair.
class Step_PartCommand<string mnemonic> : Step_Command<mnemonic, [AttrSizedOperandSegments]> {
  let arguments = (ins Variadic<Step_MemRef>:$ins, Variadic<Step_MemRef>:$outs, I64Attr:$parts,
                       DefaultValuedAttr<Nano_RankSetAttr, "::nano::graph::RankSet::all">:$ranks, DefaultValuedAttr<I64Attr, "0">:$stream);
  let assemblyFormat = "`ins` `(` $ins `)` `outs` `(` $outs `)` `parts` $parts (`over` $ranks^)? attr-dict `:` functional-type($ins, $outs)";
  let hasVerifier = 1;
}

def Step_ReduceScatterOp : Step_PartCommand<"reduce_scatter"> {
  let summary = "this rank's part of sums over ranks";
  let description = [{
    As `nano.reduce_scatter`, of each pair of buffers; a target has a `parts`-th of its source's elements. All are contiguous and of one element type, f32 or bf16.

    Errors: numbers of sources and targets that differ; element types that differ or are others; sizes that do not fit `parts`; a buffer that is not contiguous.

    ```mlir
    step.program @p {
      %g = step.buffer "g" : memref<8xf32>
      %part = step.buffer "part" : memref<2xf32>
      step.fill %g : memref<8xf32>
      step.reduce_scatter ins(%g) outs(%part) parts 4 {stream = 1 : i64} : (memref<8xf32>) -> memref<2xf32>
    }
    ```
  }];
}

def Step_AllGatherOp : Step_PartCommand<"all_gather"> {
  let summary = "the parts of all ranks, by place";
  let description = [{
    As `nano.all_gather`, of each pair of buffers; a source has a `parts`-th of its target's elements. All are contiguous and of one element type, f32 or bf16.

    Errors: as `step.reduce_scatter`.

    ```mlir
    step.program @p {
      %part = step.buffer "part" : memref<2xf32>
      %whole = step.buffer "whole" : memref<8xf32>
      step.fill %part : memref<2xf32>
      step.all_gather ins(%part) outs(%whole) parts 4 over group {stream = 1 : i64} : (memref<2xf32>) -> memref<8xf32>
    }
    ```
  }];
}

def Step_ShardOp : Step_PartCommand<"shard"> {
  let summary = "this rank's part of what every rank has, copied";
  let description = [{
    As `nano.shard`, of each pair of buffers. Nothing is communicated.

    Errors: as `step.reduce_scatter`.

    ```mlir
    step.program @p {
      %whole = step.buffer "whole" : memref<8xf32>
      %part = step.buffer "part" : memref<2xf32>
      step.fill %whole : memref<8xf32>
      step.shard ins(%whole) outs(%part) parts 4 : (memref<8xf32>) -> memref<2xf32>
    }
    ```
  }];
}

def Step_FillOp : Step_Command<"fill"> {
  let summary = "every byte becomes zero";
  let description = [{
    Errors: a buffer that is not contiguous.

    ```mlir
    step.program @p {
      %g = step.buffer "g" : memref<8xf32>
      step.fill %g : memref<8xf32>
    }
    ```
  }];
  let arguments = (ins Step_MemRef:$buffer, DefaultValuedAttr<I64Attr, "0">:$stream);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Step_CopyOp : Step_Command<"copy"> {
  let summary = "target ← source, both contiguous and of one type";
  let description = [{
    Shapes may differ when the numbers of elements do not. Source or target may lie in the host's memory.

    Errors: element types or numbers of elements that differ; a buffer that is not contiguous; source and target in the host's memory.

    ```mlir
    step.program @p {
      %a = step.buffer "a" : memref<8xf32>
      %b = step.buffer "b" : memref<2x4xf32>
      step.fill %a : memref<8xf32>
      step.copy %a to %b : memref<8xf32>, memref<2x4xf32>
    }
    ```
  }];
  let arguments = (ins Step_MemRef:$source, Step_MemRef:$target, DefaultValuedAttr<I64Attr, "0">:$stream);
  let assemblyFormat = "$source `to` $target attr-dict `:` type(operands)";
  let hasVerifier = 1;
}

def Step_RecordOp : Step_Command<"record"> {
  let summary = "marks a point of a stream";
  let description = [{
    The point is reached when every earlier command of the stream has finished. Each event of a program is recorded once.

    Errors: a negative event.

    ```mlir
    step.program @p {
      step.record 0
      step.wait 0 {stream = 1 : i64}
    }
    ```
  }];
  let arguments = (ins I64Attr:$event, DefaultValuedAttr<I64Attr, "0">:$stream);
  let assemblyFormat = "$event attr-dict";
  let hasVerifier = 1;
}

def Step_WaitOp : Step_Command<"wait"> {
  let summary = "what follows on this stream waits until the event's point has been reached";
  let description = [{
    The event is recorded by an earlier command of the program: see `step.record`.

    Errors: a negative event.

    ```mlir
    step.program @p {
      %x = step.buffer "x" : memref<8xf32>
      step.fill %x : memref<8xf32>
      step.record 0
      step.wait 0 {stream = 1 : i64}
      step.all_reduce %x {stream = 1 : i64} : memref<8xf32>
    }
    ```
  }];
  let arguments = (ins I64Attr:$event, DefaultValuedAttr<I64Attr, "0">:$stream);
  let assemblyFormat = "$event attr-dict";
  let hasVerifier = 1;
}

#endif // NANO_IR_STEP_OPS_TD
