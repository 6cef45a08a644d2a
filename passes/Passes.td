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

    Matrices of one size, updated with the same steps, coefficients and compute type, are one batch of Newton–Schulz, up to `max-batch-elements`
    numbers: a batch holds a few copies of itself in memory.

    Errors: an update program that is there already; a model without parameters; a parameter without a gradient accumulator; a Muon parameter of fewer
    than two dimensions; a negative `grad_clip`; a name above that the model has already given.
  }];
  let options = [Option<"maxBatchElements", "max-batch-elements", "int64_t", "1 << 25",
                        "the most numbers that one batch of Newton–Schulz holds, unless a single parameter has more">];
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

//===- fp8/ ----------------------------------------------------------------------------------------------------------===//

def ScaleProducts : Pass<"nano-scale-products", "::mlir::ModuleOp"> {
  let summary = "computes the products of linear layers from 8-bit operands in training, as each weight's policy says";
  let description = [{
    A parameter with the attribute `nano.fp8` has its three products (forward, gradient of the input, gradient of the weight) in `first` and `next` computed from
    8-bit copies of their operands, e4m3 for inputs and weights, e5m2 for gradients, with scales by its recipe:

    - `static`: `scales = array<f64: input, weight, gradient>`.
    - `current`: amax·2^margin/(the format's largest number), of the tensor itself.
    - `delayed`: the same with the largest amax of the last `history` steps, over micro-batches and ranks; of weights the present one. Adds the states
      `<parameter>.fp8_amax_x`, `.fp8_amax_g`, `.fp8_scale_x`, `.fp8_scale_g` (role optimizer) and code to `update`. A tensor of zeros leaves the scale as it is, at first 1, of
      gradients 2⁻¹².
    - `block`: 1×128 along the inner dimension, 128×128 of weights, all in e4m3.

    Weights are converted in `first`, from what is stored, into states `fp8.<parameter>` that `next` reads. Other programs are left alone.

    A remark names each product that stays as it is: an inner dimension or row of the result that is not a multiple of 16 (128 with blocks); and each
    parameter that no product reads.

    Errors: a policy that is none; a missing program; a name above that is taken.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [Option<"kMajor", "k-major", "bool", "false",
                        "transpose 8-bit operands where the inner dimension is not the last in memory, as Hopper's products need">];
}

def MeasureProducts : Pass<"nano-measure-products", "::mlir::ModuleOp"> {
  let summary = "adds a program that says how well the scales of 8-bit products fit what they see";
  let description = [{
    Adds `measure`, `first` without its effects on states: it returns a row for every weight with 8-bit products, in the order of the module attribute `nano.fp8_products`
    (an array of {weight, recipe}). Columns 0–11: largest magnitude, scale (0 where there is one a block), share of elements beyond the format's largest number, share
    rounded to zero; of the input, the weight and the gradient. Columns 12–14: ‖y₈ − y‖/‖y‖ of the forward product, the gradient of the input and that of the
    weight, y the product of the operands in the compute type. What a weight does not have is 0.

    Without 8-bit products it adds nothing.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

def ReportCasts : Pass<"nano-report-casts", "::mlir::ModuleOp"> {
  let summary = "a remark on every kernel that only converts to 8 bits, transposes or measures, with the reason";
  let description = [{
    On fused programs: a kernel that computes nothing else than conversions, transposes and largest magnitudes could not join the kernel that makes its
    operand. The remark says what it does and why it stands alone: its operand is a parameter; comes from a matrix product, attention or another op that
    is a kernel of its own; its scale depends on the whole operand; or the operand's kernel walks it in another order.
  }];
}

//===- fuse/ ---------------------------------------------------------------------------------------------------------===//

def ChunkRows : Pass<"nano-chunk-rows", "::mlir::ModuleOp"> {
  let summary = "computes wide row-wise chains (the head and its loss) in chunks of rows, so that their intermediates stay small";
  let description = [{
    The head's product, any function of its logits, their loss, the gradient of the logits and the two products that read that are computed for some
    rows after the other. Without `max-bytes` the chunks are the largest that do not raise the peak of the step's memory, by an estimate of what all
    programs hold elsewhere; a chain that fits into that is left whole. A scale for 8-bit floats that is made of the rows' own largest element is made of
    each chunk's; any other number that all rows give must not be needed by them.

    Remarks: logits of a loss that are left whole because an op of their chain mixes rows; with `report` any such chain.

    Errors: a negative `max-bytes`.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [
    Option<"maxBytes", "max-bytes", "int64_t", "0", "largest intermediate, in bytes, that is left whole; 0: by the estimate">,
    Option<"report", "report", "bool", "false", "a remark on every chain, with its chunks">];
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
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "cpu: vector code over ranges of iterations; cuda: what a thread of a block does">,
                 Option<"lanes", "lanes", "int64_t", "16", "f32 lanes of the CPU's vectors">];
}

//===- schedule/ -----------------------------------------------------------------------------------------------------===//

def BatchLaunches : Pass<"nano-batch-launches", "::mlir::ModuleOp"> {
  let summary = "merges independent launches of one kernel into one launch over several sets of operands";
  let dependentDialects = ["::nano::step::StepDialect"];
  let options = [Option<"maxBytes", "max-bytes", "int64_t", "8388608", "transient bytes that a batch may keep alive for longer">,
                 Option<"maxParameterBytes", "max-parameter-bytes", "int64_t", "0", "bytes of a launch's operands and sizes, as a kernel for CUDA takes them; 0: any">];
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
