// The `step` dialect: a training step as kernels, library calls and collectives on streams, over buffers of one arena.
#ifndef NANO_IR_STEP_DIALECT_TD
#define NANO_IR_STEP_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ViewLikeInterface.td"

def StepDialect : Dialect {
  let name = "step";
  let cppNamespace = "::nano::step";
  let summary = "Static schedules of kernels, library calls and collectives";
  let description = [{
    Buffers are values of memref type: contiguous where they are made, strided where a `step.view` selects a part. Commands name what they
    read (`ins`) and what they write (`outs`); an operand in both is updated in place. Program order is an order in which one
    thread may execute the commands; `stream` attributes and events say which part of it must hold: a command starts after every
    earlier command of its own stream, and after whatever the waits before it on its stream wait for. A program starts when everything
    before it has finished, and has finished when all its streams have.

    Memory planning fixes where things lie, in bytes from the start of the arena: `offset` of `step.buffer`, `step.input`, `nano.state` and `nano.scalar`, and the
    module's `step.arena`.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect", "::nano::graph::NanoDialect", "::nano::kernel::KernelDialect"];
}

class Step_Op<string mnemonic, list<Trait> traits = []> : Op<StepDialect, mnemonic, traits>;

/// A buffer, a state's buffer or a part of one: static shape and strides, elements of a tensor.
def Step_MemRef : StaticShapeMemRefOf<[F32, BF16, F8E4M3FN, F8E5M2, I32, I16]>;

def Step_CommandOp : OpInterface<"StepCommandOpInterface"> {
  let cppNamespace = "::nano::step";
  let description = [{
    A command of a program: what it reads, what it writes, and its stream. Scheduling, memory planning and the proofs see commands only through
    this interface.
  }];
  let methods = [
    InterfaceMethod<[{
        Appends every buffer that the command touches, with how; a buffer may occur more than once. What a launch does to its buffers stands at
        its kernel, found in `kernels`.
      }],
      "void", "getAccesses", (ins "const ::nano::step::KernelTable &":$kernels,
                                  "::llvm::SmallVectorImpl<::nano::step::Access> &":$accesses)>,
    InterfaceMethod<"The stream that the command is on.", "uint64_t", "getStream">,
    InterfaceMethod<"Moves the command to another stream.", "void", "moveToStream", (ins "uint64_t":$stream), [{}], [{
        $_op.setStream(stream);
      }]>];
}

#endif // NANO_IR_STEP_DIALECT_TD
