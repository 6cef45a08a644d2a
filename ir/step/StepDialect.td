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
    thread may execute the commands; `stream` attributes and events say which part of it must hold.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect", "::nano::graph::NanoDialect"];
}

class Step_Op<string mnemonic, list<Trait> traits = []> : Op<StepDialect, mnemonic, traits>;

#endif // NANO_IR_STEP_DIALECT_TD
