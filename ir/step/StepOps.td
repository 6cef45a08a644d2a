// Ops of the `step` dialect.
#ifndef NANO_IR_STEP_OPS_TD
#define NANO_IR_STEP_OPS_TD

include "ir/step/StepDialect.td"

def Step_ProgramOp : Step_Op<"program", [Symbol, IsolatedFromAbove, SingleBlock, NoTerminator]> {
  let summary = "a static schedule: buffers, then commands in program order";
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$role);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
}

def Step_BufferOp : Step_Op<"buffer"> {
  let summary = "a range of the arena that lives inside one program";
  let description = "Contents are undefined until written. `offset` (bytes) is set by memory planning.";
  let arguments = (ins StrAttr:$name, OptionalAttr<I64Attr>:$offset);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def Step_StateOp : Step_Op<"state"> {
  let summary = "a state's buffer: lives from step to step and is shared by all programs";
  let description = "`symbol` is a `nano.state`, a `nano.scalar` (rank 0) or the name of an input declared by `step.input`.";
  let arguments = (ins FlatSymbolRefAttr:$symbol);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = "$symbol attr-dict `:` type($result)";
}

def Step_InputOp : Step_Op<"input", [Symbol]> {
  let summary = "a buffer that the host fills or reads: tokens, targets, loss, logits";
  let description = "`offset` (bytes) is set by memory planning. Inputs live while their program runs; `output` ones until the host has read them.";
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type, UnitAttr:$output, OptionalAttr<I64Attr>:$offset);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
}

def Step_ViewOp : Step_Op<"view", [Pure, DeclareOpInterfaceMethods<ViewLikeOpInterface>]> {
  let summary = "part of a buffer: offset and strides are those of the result type, relative to the buffer's start";
  let arguments = (ins AnyMemRef:$source);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `to` type($result)";
}

def Step_TaskOp : Step_Op<"task", [IsolatedFromAbove, SingleBlock, AttrSizedOperandSegments]> {
  let summary = "graph ops that one generated kernel will compute, with the buffers that they read and write";
  let description = [{
    The block has one tensor argument an input and yields one tensor an output, with the buffers' shapes and element types. An output buffer may
    also be an input: each element is read before the same element is written and by the same iteration.
    `nano-lower-kernels` replaces it by a `step.launch`.
  }];
  let arguments = (ins Variadic<AnyMemRef>:$ins, Variadic<AnyMemRef>:$outs, DefaultValuedAttr<I64Attr, "0">:$stream);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `ins` `(` $ins `)` `outs` `(` $outs `)` attr-dict `:` functional-type($ins, $outs) $body
  }];
}

def Step_LaunchOp : Step_Op<"launch"> {
  let summary = "one generated kernel over one or several sets of operands";
  let description = [{
    `operands` holds `segments` sets one after the other; each has one buffer a kernel argument. The kernel's `nano.reads` and `nano.writes` say which arguments are
    read and written. `iterations` has the size of each set's iteration space: launches of one kernel may differ in it.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyMemRef>:$buffers, DefaultValuedAttr<I64Attr, "1">:$segments,
                       DefaultValuedAttr<I64Attr, "0">:$stream, OptionalAttr<DenseI64ArrayAttr>:$iterations);
  let assemblyFormat = "$kernel `(` $buffers `)` attr-dict `:` type($buffers)";
}

def Step_MatmulOp : Step_Op<"matmul"> {
  let summary = "c = alpha·op(a)·op(b) + beta·d, a library call";
  let description = "As `nano.matmul`, on buffers whose last dimension has stride 1. `d` has c's shape; it may be c.";
  let arguments = (ins AnyMemRef:$a, AnyMemRef:$b, Optional<AnyMemRef>:$d, AnyMemRef:$c, UnitAttr:$transpose_a, UnitAttr:$transpose_b,
                       DefaultValuedAttr<F64Attr, "1.0">:$alpha, DefaultValuedAttr<F64Attr, "1.0">:$beta,
                       DefaultValuedAttr<I64Attr, "0">:$stream);
  let assemblyFormat = "$a `,` $b (`add` $d^)? `into` $c attr-dict `:` type(operands)";
}

def Step_AllReduceOp : Step_Op<"all_reduce"> {
  let summary = "element-wise sum over ranks, in place";
  let arguments = (ins Variadic<AnyMemRef>:$buffers, DefaultValuedAttr<I64Attr, "0">:$stream);
  let assemblyFormat = "$buffers attr-dict `:` type($buffers)";
}

def Step_FillOp : Step_Op<"fill"> {
  let summary = "every byte becomes zero";
  let arguments = (ins AnyMemRef:$buffer, DefaultValuedAttr<I64Attr, "0">:$stream);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
}

def Step_CopyOp : Step_Op<"copy"> {
  let summary = "target ← source, both contiguous and of one type";
  let arguments = (ins AnyMemRef:$source, AnyMemRef:$target, DefaultValuedAttr<I64Attr, "0">:$stream);
  let assemblyFormat = "$source `to` $target attr-dict `:` type(operands)";
}

def Step_RecordOp : Step_Op<"record"> {
  let summary = "marks a point of a stream";
  let arguments = (ins I64Attr:$event, DefaultValuedAttr<I64Attr, "0">:$stream);
  let assemblyFormat = "$event attr-dict";
}

def Step_WaitOp : Step_Op<"wait"> {
  let summary = "what follows on this stream waits until the event's point has been reached";
  let arguments = (ins I64Attr:$event, DefaultValuedAttr<I64Attr, "0">:$stream);
  let assemblyFormat = "$event attr-dict";
}

#endif // NANO_IR_STEP_OPS_TD
