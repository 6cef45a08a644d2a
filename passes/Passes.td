// Every pass of the compiler. compiler/Pipeline.cpp runs them, in order, with the reason for each one's place.
#ifndef NANO_PASSES_TD
#define NANO_PASSES_TD

include "mlir/Pass/PassBase.td"

//===- grad/ ---------------------------------------------------------------------------------------------------------===//

def Differentiate : Pass<"nano-differentiate", "::mlir::ModuleOp"> {
  let summary = "appends the backward pass to the training function and accumulates every parameter's gradient";
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

def Recompute : Pass<"nano-recompute", "::mlir::ModuleOp"> {
  let summary = "recomputes cheap forward values in the backward pass instead of keeping them";
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [
    Option<"maxSites", "max-sites", "int64_t", "4", "a value that more stretches of the backward pass need is kept">,
    Option<"maxOps", "max-ops", "int64_t", "256", "a value that takes more ops to recompute is kept">,
    Option<"report", "report", "bool", "false", "a remark on every value that is kept, with its bytes">];
}

//===- optimizer/ ----------------------------------------------------------------------------------------------------===//

def ExpandOptimizers : Pass<"nano-expand-optimizers", "::mlir::ModuleOp"> {
  let summary = "writes Adam and Muon out as a graph program `update`, with their states";
  let description = [{
    Adds a function with role "update" that reads every gradient accumulator, scales the sum by the scalar @grad_scale = 1/(sequences in the global
    batch), clips all gradients together to the norm `grad_clip` of `nano.training` where that is not 0, and stores new parameters and optimizer
    states, as the equations of `nano.adam` and `nano.muon` say. Declares the states `<parameter>.adam_m`, `<parameter>.adam_v` and
    `<parameter>.muon_b`, zero at the start, and the scalars @grad_scale, `<optimizer>.bias1` = 1/(1 − β₁ᵗ), `<optimizer>.bias2` = 1/√(1 − β₂ᵗ).

    Errors: an update program that is there already; a model without parameters; a parameter without a gradient accumulator; a Muon parameter of fewer
    than two dimensions; a negative `grad_clip`; a name above that the model has already given.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

def SplitAccumulation : Pass<"nano-split-accumulation", "::mlir::ModuleOp"> {
  let summary = "makes of `train` the programs of the first and of the further micro-batches of a step";
  let description = [{
    The function with role "train" becomes two: `first`, in which every `nano.accumulate` is a store, so that nothing has to be zeroed before a step, and
    `next`, in which it is state ← state + value. A step of one micro-batch pays nothing for accumulation.

    Errors: no function with role "train"; a state that is accumulated more than once.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

//===- distribute/ ---------------------------------------------------------------------------------------------------===//

def Distribute : Pass<"nano-distribute", "::mlir::ModuleOp"> {
  let summary = "sums gradients over ranks before the optimizers read them";
  let description = [{
    Data parallel: every rank walks over its own micro-batches with the same parameters. Where any of `worlds` is above 1, `update` begins with
    an all-reduce of every gradient accumulator, in place; the optimizers then do the same on every rank. @grad_scale counts the sequences of all ranks,
    so that the update does not depend on their number.

    Errors: a number of ranks below 1; no function with role "update".
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [ListOption<"worlds", "worlds", "int64_t", "numbers of ranks that the plan must run on">];
}

//===- fuse/ ---------------------------------------------------------------------------------------------------------===//

def ChunkRows : Pass<"nano-chunk-rows", "::mlir::ModuleOp"> {
  let summary = "computes wide row-wise chains (the head and its loss) in chunks of rows, so that their intermediates stay small";
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [Option<"maxBytes", "max-bytes", "int64_t", "268435456", "largest intermediate, in bytes, that is left whole">];
}

def FoldMatmulEpilogues : Pass<"nano-fold-matmul-epilogues", "::mlir::ModuleOp"> {
  let summary = "folds scales, residual adds, accumulation and casts into matrix products";
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

def Fuse : Pass<"nano-fuse", "::mlir::ModuleOp"> {
  let summary = "groups element-wise and reduction ops into kernels by the bytes that this saves";
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

//===- memory/ -------------------------------------------------------------------------------------------------------===//

def Bufferize : Pass<"nano-bufferize", "::mlir::ModuleOp"> {
  let summary = "gives every tensor a buffer or a view of one: graph IR to step IR";
  let dependentDialects = ["::nano::step::StepDialect", "::mlir::memref::MemRefDialect"];
}

def PlanMemory : Pass<"nano-plan-memory", "::mlir::ModuleOp"> {
  let summary = "fixes every buffer's offset in one arena by lifetimes";
  let dependentDialects = ["::nano::step::StepDialect"];
}

//===- kernels/ ------------------------------------------------------------------------------------------------------===//

def LowerKernels : Pass<"nano-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "writes every task as a kernel function in upstream dialects; equal tasks share one kernel";
  let dependentDialects = ["::nano::step::StepDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
                           "::mlir::func::FuncDialect"];
  let options = [Option<"lanes", "lanes", "int64_t", "16", "f32 lanes of the target's vectors">];
}

//===- schedule/ -----------------------------------------------------------------------------------------------------===//

def BatchLaunches : Pass<"nano-batch-launches", "::mlir::ModuleOp"> {
  let summary = "merges independent launches of one kernel into one launch over several sets of operands";
  let dependentDialects = ["::nano::step::StepDialect"];
  let options = [Option<"maxBytes", "max-bytes", "int64_t", "8388608", "transient bytes that a batch may keep alive for longer">];
}

def Schedule : Pass<"nano-schedule", "::mlir::ModuleOp"> {
  let summary = "assigns streams and inserts events where no other order implies one";
  let dependentDialects = ["::nano::step::StepDialect"];
}

//===- verify/ -------------------------------------------------------------------------------------------------------===//

def VerifyModel : Pass<"nano-verify-model", "::mlir::ModuleOp"> {
  let summary = "the module holds a whole model: programs with the right signatures, every symbol defined, every parameter used and trained";
}

def VerifyDifferentiated : Pass<"nano-verify-differentiated", "::mlir::ModuleOp"> {
  let summary = "every parameter's gradient is accumulated exactly once";
}

def VerifyFused : Pass<"nano-verify-fused", "::mlir::ModuleOp"> {
  let summary = "what remains outside kernels is a library call, a collective, a view, or a read or write of state";
}

def VerifyLiveness : Pass<"nano-verify-liveness", "::mlir::ModuleOp"> {
  let summary = "proves that every read finds a written, live buffer, and that live buffers do not overlap in the arena";
}

def VerifyRaces : Pass<"nano-verify-races", "::mlir::ModuleOp"> {
  let summary = "proves that any two conflicting accesses are ordered by a chain of stream order and events";
}

#endif // NANO_PASSES_TD
