// Passes that prove what the others have made, or refuse it; and the one that lets a run check its indices.
#ifndef NANO_VERIFY_PASSES_TD
#define NANO_VERIFY_PASSES_TD

include "passes/PassOption.td"

def VerifyModel : Pass<"nano-verify-model", "::mlir::ModuleOp"> {
  let summary = "the module holds a whole model: programs with the right signatures, every symbol defined, every parameter used and trained";
  let description = [{
    What one line of a model file cannot see: sizes of the training that belong together, programs that are missing or take other tokens than these sizes say, a
    parameter that the loss does not depend on and that would never be trained. It opens the pipeline; all passes assume what it checks.

    Errors: each of these, at the line that it is about.
  }];
}

def CheckIndices : Pass<"nano-check-indices", "::mlir::ModuleOp"> {
  let summary = "proves that indices lie in their tables, or has the program check them while it runs";
  let description = [{
    Of the ids of every `nano.gather` and `nano.scatter_add` and the targets of every `nano.cross_entropy` in the functions of roles train, validate, generate and decode. The range of integers
    follows from the functions' arguments, which are tokens below `vocab_size` of the training, from positions, constants and the arithmetic on them; x − x/c·c, the remainder, lies in
    0 … c − 1. Where it lies in the table nothing is changed. Where it may not, the op takes the nearest indices that do, and the function also returns one of the original ones,
    one outside of the table if any is; a `nano.index_check` names the op:

    ```mlir
                                                                 nano.index_check "gather" of "train" below 400
    %y = nano.gather %e, %i : (tensor<400x64xf32>, …             %n = nano.max %i, %zero                // into 0 … 399
    nano.return %loss                                          ⇒      %j = nano.min %n, %last
                                                                 %y = nano.gather %e, %j : (tensor<400x64xf32>, …
                                                                 %s = nano.scan max (%i − 2³¹)          // as unsigned numbers
                                                                 %c = %s[T − 1] + 2³¹
                                                                 nano.return %loss, %c : tensor<f32>, tensor<1xi32>
    ```

    Remarks: what is checked while the program runs; with `report` also what is proven.

    Errors: indices some of which are certain to lie outside, whatever the tokens are.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [NanocOption<"report", "report", "bool", "false",
                             "says which indices are proven to lie in their tables, by model line; of those that are checked while the program runs it is always said", "--report-indices">];
}

def VerifyDifferentiated : Pass<"nano-verify-differentiated", "::mlir::ModuleOp"> {
  let summary = "every trained parameter's gradient is accumulated exactly once, frozen ones have none, and every index is proven to lie in its table";
  let description = [{
    `train` holds one `nano.accumulate %g, @"grad.p"` for every parameter p that has an optimizer, and no other, into a state of role gradient, in f32 (with `stored_gradients` in the parameter's type) and of the parameter's shape. The optimizers read each of them.
    The ids of every gather and scatter and the targets of every loss are proven to lie in their tables again, on what differentiation has made of them: kernels take no look of their own.
  }];
}

def VerifyFused : Pass<"nano-verify-fused", "::mlir::ModuleOp"> {
  let summary = "what remains outside kernels is a library call, a collective, a view, or a read or write of state";
  let description = [{
    Bufferization makes a command of every op that is left in a function: an element-wise op outside of `nano.fused` would be a kernel that moves bytes for nothing. Within
    `nano.fused` nothing must be a kernel of its own, but for a product that it begins with, where all else is element-wise over that product's elements.
  }];
}

def VerifyKernels : Pass<"nano-verify-kernels", "::mlir::ModuleOp"> {
  let summary = "what a kernel states about its arguments is what it does";
  let description = [{
    Scheduling, memory planning and both proofs read of a kernel what it states: which of its arguments it reads and writes, and what its tensor maps
    cover. This pass holds that against the body. Loads and stores of loops and vectors are followed back to the arguments; an op or a function whose
    effect is not known may read and write what it is given; what a kernel has written it may read back. Of a template, the attributes say its operands and results. Every argument must be stated
    to be read, written, or both, and just as it is; a tensor map must lie inside its argument and have a form that the copy engine takes.
  }];
}

def VerifyLiveness : Pass<"nano-verify-liveness", "::mlir::ModuleOp"> {
  let summary = "proves that every read finds a written, live buffer, and that live buffers do not overlap in the arena";
  let description = [{
    Each program is executed in its order with sets of bytes for contents. A byte of a buffer is valid once a command has written it through that buffer, until a command
    writes the same byte of the arena through another. States, scalars and inputs are valid from the start, and no other buffer may write their bytes, but for outputs of one
    program alone, which the host has read when other programs run. Every byte that a command reads must be valid, and every byte of an output when its program ends.

    Nothing of the memory planner is used: only offsets, layouts, what commands state to read and write, and their order, which nano-verify-races proves to be the only one that matters.
  }];
}

def VerifyRaces : Pass<"nano-verify-races", "::mlir::ModuleOp"> {
  let summary = "proves that any two conflicting accesses are ordered by a chain of stream order and events";
  let description = [{
    Two accesses conflict when they have a byte of the arena in common and at least one writes it. By vector clocks over streams and events, no two commands that may run at once
    conflict. Within one command an output may lie on an input only as a whole, element over element; never on a factor of a product, on what a template without an epilogue reads, or
    on what a collective has parts of elsewhere. All collectives of a program are ordered, so that every rank enters them in one order.

    Nothing of the scheduler or the memory planner is used: only streams, events, offsets, layouts and what commands state to read and write.
  }];
}
#endif // NANO_VERIFY_PASSES_TD
