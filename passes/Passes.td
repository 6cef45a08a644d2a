// Every pass of the compiler. compiler/Pipeline.cpp runs them, in order, with the reason for each one's place.
#ifndef NANO_PASSES_TD
#define NANO_PASSES_TD

include "passes/PassOption.td"

//===- grad/ ---------------------------------------------------------------------------------------------------------===//

def ShareLogSums : Pass<"nano-share-log-sums", "::mlir::ModuleOp"> {
  let summary = "takes the log-sum-exp of logits from their cross-entropy, where a model asks for both";
  let description = [{
    A loss that keeps log-sum-exps small (a z-loss) stands beside that of the tokens, which has computed them:

    ```mlir
    %s = nano.reduce logsumexp %x dims [1]       ⇒     %loss, %s = nano.cross_entropy %x, %t
    %loss, %lse = nano.cross_entropy %x, %t
    ```

    So the exponentials of the largest tensor of a step are summed once, and its gradient needs them once. The cross-entropy may stand behind the sum, as a model's file may say it in either order; then
    it takes the sum's place, if its targets are known there.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

def AlignProducts : Pass<"nano-align-products", "::mlir::ModuleOp"> {
  let summary = "gives products with ragged rows, such as a head of 50,257 tokens, rows of a multiple of so many columns";
  let description = [{
    ```mlir
    %y = nano.matmul %x, %w {transpose_b}       %z = nano.constant 0.0 : tensor<47x768xbf16>
      : … -> tensor<2048x50257xbf16>            %v = nano.concat %w, %z dim 0
    %l = nano.cast %y                     ⇒     %p = nano.matmul %x, %v {transpose_b}
    %loss = nano.cross_entropy %l, %t             : … -> tensor<2048x50304xbf16>
                                                %l = nano.cast %p
                                                %m = nano.select lt, %column, 50257, %l, -1e30
                                                %loss = nano.cross_entropy %m, %t
    ```

    A matrix whose rows are no multiple of 16 bytes makes cuBLASLt's product take six to nine times as long, and kernels load single numbers of it; a product in 8 bits wants
    rows of a multiple of 16 elements, and with scales by block whole blocks, or stays in 16 bits. The weight gets rows of zeros, up to a multiple of `multiple` (and of a
    block); element-wise ops on the result go on with all columns where their other operands are such results too, of this product or another, constants, numbers of rows or columns, one of each row, or
    one of each column, which gets zeros behind it. A cross-entropy sees the new columns at -1e30, so that their weights and gradients are exactly zero, a sum over the columns sees zeros there, a maximum or
    log-sum-exp -∞; a sum over the rows loses its last columns; all else sees a slice. Products of fewer columns than `multiple` stay as they are.

    Errors: a `multiple` below 1; a policy for 8 bits that is none.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [Option<"multiple", "multiple", "int64_t", "64", "columns that a row becomes a multiple of">];
}

def ScaleWeights : Pass<"nano-scale-weights", "::mlir::ModuleOp"> {
  let summary = "has a number that multiplies columns of a product multiply rows of its weight instead";
  let description = [{
    ```mlir
    %c = nano.cast %w : f32 → bf16                %n = nano.select lt, %row, 1536, 1, %s
    %y = nano.matmul %x, %c {transpose_b}         %b = nano.broadcast %n dims [0]
      : … -> tensor<49152x2304xbf16>              %u = nano.mul %w, %b
    %v = nano.slice %y dim 1 at 1536        ⇒     %c = nano.cast %u : f32 → bf16
    %f = nano.cast %v                             %y = nano.matmul %x, %c {transpose_b}
    %z = nano.mul %s, %f                          %v = nano.slice %y dim 1 at 1536
                                                  %z = nano.cast %v
    ```

    s·(x·wᵀ) = x·(s·w)ᵀ, in f32, before the weight is rounded for the product: where a narrow type would round s·y again, one rounding is less. Taken where s is made of parameters, the weight
    is trained and the model gives no scales of it in 8 bits, nothing else reads these columns or the weight in the product's type, and the columns have at least four times as many elements as the weight, as those of all tokens of
    a step have: they are then not read and written once more, forward and backward, and the gradient of s is a sum over the weight's elements.

    Errors: a policy for 8 bits that is none.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [Option<"report", "report", "bool", "false", "a remark on every number that is moved">];
}

def Differentiate : Pass<"nano-differentiate", "::mlir::ModuleOp"> {
  let summary = "appends the backward pass to the training function and accumulates every trained parameter's gradient";
  let description = [{
    Reverse mode: for every parameter p, ∂loss/∂p is added up by `nano.accumulate %g, @"grad.p"` in the state @"grad.p", which this pass declares: in f32, or in p's type where the training has `stored_gradients`. Each op gives its own
    derivative (DifferentiableOpInterface); the pass visits ops from last to first and chains them:

    ```mlir
    %w = nano.load @w                                  %w = nano.load @w
    %y = nano.mul %x, %w                               %y = nano.mul %x, %w
    %loss = nano.reduce sum %y                  ⇒      %loss = nano.reduce sum %y
                                                       %dy = nano.broadcast %one
                                                       %dw = nano.mul %dy, %x
                                                       nano.accumulate %dw, @grad.w
    ```

    A gradient is accumulated as soon as it is complete, so that gradients become ready one after the other. Contributions to one value are added in its type; the last step
    towards an accumulator in f32 gives f32 instead of rounding to bf16 first. Nothing is computed for values that depend on no
    trained parameter: a frozen one, without an optimizer, has no gradient, and a product that only its gradient needs is not made. `nano.stop_gradient` ends the way; then its operand takes
    its place, in every program.

    Errors: a trained parameter that the loss does not depend on, or only behind `nano.stop_gradient`; no function with role "train", or one that is not a single block that returns the loss, a `tensor<f32>`; one that writes a parameter, or has been differentiated
    already.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

def ScaleResults : Pass<"nano-scale-results", "::mlir::ModuleOp"> {
  let summary = "has the factors of a norm multiply rows of what products give instead of rows that they read";
  let description = [{
    ```mlir
    %b = nano.broadcast %r dims [0]               %p = nano.matmul %x, %w
    %m = nano.mul (f32 %x), %b             ⇒      %b = nano.broadcast %r dims [0]
    %n = nano.cast %m : f32 → bf16                %m = nano.mul (f32 %p), %b
    %y = nano.matmul %n, %w                       %y = nano.cast %m : f32 → bf16
    ```

    (r·x)·W = r·(x·W), where r, one number a row, is what a `nano.rsqrt` gives. The backward pass is rewritten with it: r·dy takes dy's place in both products that read that, ∂L/∂W = xᵀ·(r·dy) and ∂L/∂n = (1/r)·((r·dy)·Wᵀ),
    so that r·x is neither written nor read again. Of x·W a number is as exact as of (r·x)·W, whose factors are rounded once more; gradients of a row whose mean square is infinite are NaN, where they were 0.

    Taken where nothing but products reads r·x, none of them in 8 bits; where element-wise ops alone read what these give, and make what their gradients come from, so that a kernel, or a product's end, multiplies it that
    is there in any case, and no loss is made of it by such ops, as of logits; and where `machine` takes longer for the bytes that are saved than for a command and for multiplying the gradients, which no product's end hides.

    Errors: a machine that cannot be read; a policy for 8 bits that is none.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [
    Option<"machine", "machine", "std::string", "\"cpu\"", "rates by which it is decided: a machine's name or JSON file">,
    Option<"all", "all", "bool", "false", "also where few bytes are saved">,
    Option<"report", "report", "bool", "false", "a remark on every norm that products read">];
}

def Recompute : Pass<"nano-recompute", "::mlir::ModuleOp"> {
  let summary = "recomputes cheap forward values in the backward pass instead of keeping them";
  let description = [{
    A forward value that the backward pass uses is kept in memory until then, or made again from values that are kept. It is made again when it comes from cheap ops
    (element-wise ops, broadcasts, reshapes, slices, rotations, reductions within a row, gathers from a state) and what must be kept instead has fewer bytes.
    It is kept all the same when more than `max-sites` stretches of the backward pass would each recompute it, or that takes more than `max-ops` ops; a stretch lies between two ops that are
    kernels of their own. So is what two reductions within a row come to of which one waits for the other, as a mean square about a mean, when they have at most a 64th of the bytes of what they reduce and none are to be saved, and a
    number a row, of eight numbers or more, that a stretch needs which does not read the row. Of a transformer's layer remain the residual stream, queries, keys and values, the attention's result with its statistics, and the
    product before the activation, or the activation itself where that is relu².

    Queries and keys that are rows of a product, normalised, turned by half of a row, or both, are kept as attention reads them; the backward pass takes the rows from them:

    ```mlir
    %q = … // rotation(%x ∘ 1/√a)                            %q = …
    nano.attention %q, …                                     nano.attention %q, …
                                                      ⇒
    nano.attention_grad %q, …                                nano.attention_grad %q, …
    … = nano.mul %g, %x                                      %y = … // √a ∘ rotation backwards(%q)
                                                             … = nano.mul %g, %y
    ```

    so that it need not make %q of %x again. That changes a gradient by what %q is rounded, as much as %x is.

    With `save-bytes`, and where the model marks ops with `nano.recompute`, products, attention and what else is kept are made again as well: once, before their first use in the backward pass.
    `save-bytes` are what a step must hold less at the place where most is held; those values go that free most bytes there for a second, by the rates of `machine`.
    The same ops run on the same operands, so that no result changes.

    With `spend-bytes` a step may hold so many bytes more instead: what products of both passes read, which the forward pass writes to memory in any case, is kept although cheap ops could make
    it again, in the order of the program, so that the backward pass need not write it once more.

    No CSE may follow: it would merge a recomputed value with the kept one.

    Remarks: what products and attention make again, by model line, with bytes and predicted milliseconds; with `next` the same of so many values that would go next if `save-bytes` were
    more; with `report` every value that is kept, with its bytes.

    Errors: a machine that cannot be read; negative `save-bytes`, `spend-bytes` or `next`; bytes to save and to spend.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [
    Option<"maxSites", "max-sites", "int64_t", "4", "a value that more stretches of the backward pass need is kept">,
    Option<"maxOps", "max-ops", "int64_t", "256", "a value that takes more ops to recompute is kept">,
    Option<"saveBytes", "save-bytes", "int64_t", "0", "how many bytes less to hold than cheap ops spare, at the price of products and attention">,
    Option<"spendBytes", "spend-bytes", "int64_t", "0", "how many bytes more may be held, of what products of both passes read">,
    Option<"machine", "machine", "std::string", "\"cpu\"", "rates by which these are priced: a machine's name or JSON file">,
    Option<"next", "next", "int64_t", "0", "remarks on so many values that would go next if `save-bytes` were more">,
    Option<"report", "report", "bool", "false", "a remark on every value that is kept, with its bytes">];
}

//===- empty/ -------------------------------------------------------------------------------------------------------===//

def DropEmpty : Pass<"nano-drop-empty", "::mlir::ModuleOp"> {
  let summary = "takes tensors of no elements out of the programs";
  let description = [{
    A slice of no tokens, a `topK` of none, a part of no columns: each op says what it is of nothing, and no kernel, launch or buffer need know of it.

    ```mlir
    %none = nano.slice %x dim 0 at 3 : tensor<8x4xf32> -> tensor<0x4xf32>
    %y = nano.concat %none, %x dim 0 : …                    ⇒   %x
    %s = nano.reduce sum %none dims [0] : …                     %s = nano.constant 0.0 : tensor<4xf32>
    %p = nano.matmul %a, %b : (tensor<8x0xf32>, …                %p = nano.constant 0.0 : tensor<8x2xf32>
    ```

    A concatenation loses its empty parts; a sum over nothing is 0: that of a reduction, of products with an inner dimension of 0 (beside their addend), of rows scattered from none, of scores of
    heads with no elements. All other ops with an empty operand have empty results, which nothing needs then.

    It runs before anything is derived from the programs, on what the model file says, and once more on the updates. `nano-verify-fused` holds that nothing empty is left.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

//===- generate/ -----------------------------------------------------------------------------------------------------===//

def DeriveDecode : Pass<"nano-derive-decode", "::mlir::ModuleOp"> {
  let summary = "derives from `generate`, which computes the logits of all positions, the program that computes those of the next one";
  let description = [{
    ```mlir
    nano.program @generate(%tokens: tensor<64xi32>)       nano.program @generate(…) {
        -> tensor<64x257xf32> {                             … nano.store %k, @cache.0; nano.store %v, @cache.1
      %x = nano.gather %e, %tokens                        }
      %k = nano.matmul %x, %wk {transpose_b}       ⇒    nano.program @decode(%token: tensor<1xi32>, %position: tensor<1xi32>)
      …                                                       -> tensor<1x257xf32> {
      %y = nano.attention %q, %k, %v, …                     %x = nano.gather %e, %token
      nano.return %logits                                   … @cache.0 with row %position = Σ x·wk; softmax(q·@cache.0ᵀ)·@cache.1
    }                                                     }
    ```

    From the logits back, each value is asked for its row at the position at hand, along the dimension of positions: element-wise ops, products, gathers, reductions within a
    row, broadcasts, reshapes, slices, rotations, orders and functions of a row, and concatenations need the same row of their operands; positions (`nano.iota`) are the position. Attention whose last key is at most the query's own position needs
    all rows of k and v before it, `nano.scan` those of what it adds up, `nano.recurrence` its own row before, products with a band the rows of its tokens, and a slice or concatenation that shifts rows an earlier one: `generate` stores these values in states of role cache, and
    `decode` reads them and stores its own row. Products of one row are written as sums, so that they are part of the kernels that they feed, with the conversion of a weight inside.

    A kernel of the model's own brings its row (the region `row` of `nano.custom`): that is copied. Where some value needs rows in another way (a reduction over positions, a query that sees later keys, a kernel without one) there is no `decode`: sampling computes all positions for every token.

    It comes before indices are checked, so that those of `decode` are.

    Remarks: why a module with `generate` gets no `decode`, at the op.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

//===- optimizer/ ----------------------------------------------------------------------------------------------------===//

def ExpandOptimizers : Pass<"nano-expand-optimizers", "::mlir::ModuleOp"> {
  let summary = "writes the equations of optimizers out as a graph program `update`, with their states";
  let description = [{
    Appends to the function with role "update", or adds it: it reads every gradient, scales the sum by the scalar @grad_scale = 1/(sequences in the global
    batch), clips all gradients together to the norm `grad_clip` of the training where that is not 0, and stores new parameters and optimizer
    states, as the equations of each parameter's `nano.optimizer` say. Declares the states `<parameter>.<state>` and the scalar @grad_scale. The equations are gone afterwards.

    Optimizers that take a step on every k-th step read the mean gradient of k steps, in a program of the phases in which they take one. With `join_update` the
    updates do not become programs of their own but the end of the programs with role "last", where there are such.

    What the equations allow is found from their ops: element-wise ones update element by element, sums over the last dimension need rows, sums over the last two dimensions
    and products whole matrices; leading dimensions hold several.

    Where nano-distribute has left a rank only a part of a gradient (a state with a `sharding`), the optimizer states are sharded alike, the rank computes the part's update and
    `nano.all_gather` brings the parts together: every rank stores all parameters. What travels is the value of fewest bytes after all products from which, with the parameter,
    every rank computes the rest. The norm for clipping sums the parts of all ranks.

    Matrices of one size whose equations go through the same products are one batch of these, up to `max-batch-elements`
    numbers: a batch holds a few copies of itself in memory. Batches that have products of one matrix in common, polynomials of Gram matrices for example, four times that number at most,
    go through theirs step by step together: each such product is one of a stack of them all.

    With `report` a remark says of each parameter how it is updated, where, and why.

    Errors: a model without parameters; a parameter without a gradient, or whose optimizer has no equations; a negative `grad_clip`; a share of no parameter; a name
    above that is taken: by the model, or because this pass has run before.
  }];
  let options = [Option<"maxBatchElements", "max-batch-elements", "int64_t", "1 << 25",
                        "the most numbers that one batch of matrices holds, unless a single parameter has more">,
                 NanocOption<"report", "report", "bool", "false", "says how each parameter is updated, on which rank, and why", "--report-updates">];
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
  let summary = "spreads a step over ranks: which micro-batch programs run, what is communicated and who keeps which gradient";
  let description = [{
    Data parallel over `world` ranks in groups of S = the largest divisor of `world` up to `max-group`; both become fields of `nano.model`, `world` and
    `group`. A rank walks over A = global_batch/(seq_len·world) micro-batches: `first`, A − 2 times `next`, then `last`, which is made from `first` where A = 1
    and else from `next`; what is not run is dropped, and gradients that live in no two programs are no accumulators. Only `last` communicates:

    - Matrices of one size whose updates have products and are alike form banks, in the order in which backward completes them. Of each S consecutive ones the rank at place p of its group
      gets the p-th: a round. The bank's gradient is a state [rounds, rows, cols] with a `sharding`; zeros fill the last round. `dist = "allreduce"` of the training sums a
      round over all ranks and takes a part, `"zero2"` scatters the sum inside the group and adds over the groups.
    - With `zero2` the gradient of a parameter of at least `min-shard` elements that S·8 divides, and whose update has no products and can be cut into S parts, is one such shard of n/S elements.
      A remark names large ones that cannot be.
    - All others are summed over all ranks.

    The gradients of optimizers that take a step on every k-th step add up over k steps, on each rank for itself, and only the last of these communicates them: steps have phases.
    Programs that do not run in all phases say them in `phases`.

    @grad_scale counts the sequences of all ranks, so that the update does not depend on their number. For one rank no program is copied for `last`: where A > 2 `next` is the last program
    too, and `nano.all_reduce` ops that earlier passes left are erased. nano-expand-optimizers then updates what a rank has the gradient of.

    A state of the model's own that the training program stores is, by its `over_ranks`, in `last` the mean or the maximum over all ranks, or sharded: a rank's part of a whole [world, …].

    Errors: a `world`, `max-group` or `min-shard` below 1; no `seq_len` and `global_batch`; a batch that is no whole number of sequences a rank; a strategy that is none; a parameter whose optimizer has no equations; a missing program; a name for a gradient
    that is taken.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [
    Option<"world", "world", "int64_t", "1", "number of ranks">,
    Option<"maxGroup", "max-group", "int64_t", "8", "the most ranks that share optimizer states: those of one machine">,
    Option<"minShard", "min-shard", "int64_t", "1 << 15", "zero2: elements of the smallest parameter that is cut">];
}

//===- fp8/ ----------------------------------------------------------------------------------------------------------===//

def ScaleProducts : Pass<"nano-scale-products", "::mlir::ModuleOp"> {
  let summary = "computes the products of linear layers from 8-bit operands in training, as each weight's policy says";
  let description = [{
    A parameter that says `fp8` has its three products (forward, gradient of the input, gradient of the weight) in `first` and `next` computed from
    8-bit copies of their operands, e4m3 for inputs and weights, e5m2 for gradients, with scales by its recipe:

    - `static`: `scales = array<f64: input, weight, gradient>`.
    - `current`: amax·2^margin/(the format's largest number), of the tensor itself.
    - `delayed`: the same with the largest amax of the last `history` steps, over micro-batches and ranks; of weights the present one. Adds the states
      `<parameter>.fp8_amax_x`, `.fp8_amax_g`, `.fp8_scale_x`, `.fp8_scale_g` (role optimizer) and code to `update`. A tensor of zeros leaves the scale as it is, at first 1, of
      gradients 2⁻¹².
    - `block`: 1×128 along the inner dimension, 128×128 of weights, all in e4m3.

    A tensor that several parameters' forward products read, by policies that scale it alike, is converted once: all take the scale of the first of them, which theirs would equal. So is what the backward
    pass makes of it for their gradients. With `delayed` these parameters themselves have one scale too, `fp8.<parameter>.scale` of the first of them, and so have their gradients,
    of the largest amax of all: their products can then become one (`nano-merge-products`).

    With `backward = false` that is so of the forward product alone; the two of the backward pass stay as they are, and nothing is kept of the gradient.

    Weights are converted in `first`, from what is stored, into states `fp8.<parameter>` that `next` reads. Other programs are left alone.

    With `k-major`, scales of blocks lie as cuBLASLt reads them: `nano.model` gets `gpu_scales`, by which nano-bufferize lays them out, and states of
    weights' scales have rows of a multiple of 4: one scale is repeated, several are filled up with zeros.

    A product in 8 bits that the model wrote itself has with `k-major` its operands transposed to the inner dimension last, in 8 bits.

    A remark names each product that stays as it is: an inner dimension or row of the result that is not a multiple of 16 (128 with blocks), with blocks and
    `k-major` a column of the result that is not one of 8; and each parameter that no product reads.

    Errors: a policy that is none; a missing program; a name above that is taken.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [Option<"kMajor", "k-major", "bool", "false",
                        "transpose 8-bit operands where the inner dimension is not the last in memory, as Hopper's products need">];
}

def MeasureProducts : Pass<"nano-measure-products", "::mlir::ModuleOp"> {
  let summary = "adds a program that says how well the scales of 8-bit products fit what they see";
  let description = [{
    Adds `measure`, `first` without its effects on states: it returns a row for every weight with 8-bit products, in the order of `fp8_products` of `nano.model`
    (an array of {weight, recipe}). Columns 0–11: largest magnitude, scale (0 where there is one a block), share of elements beyond the format's largest number, share
    rounded to zero; of the input, the weight and the gradient. Columns 12–14: ‖y₈ − y‖/‖y‖ of the forward product, the gradient of the input and that of the
    weight, y the product of the operands in the compute type. What a weight does not have is 0.

    Without 8-bit products it adds nothing.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

def ReportCasts : Pass<"nano-report-casts", "::mlir::ModuleOp"> {
  let summary = "a remark on every 8-bit conversion, magnitude or transpose that reads its operand from memory, with the reason";
  let description = [{
    On fused programs: a conversion or largest magnitude whose operand is an input of its kernel did not join the kernel that makes that operand; nor did
    an 8-bit transpose outside of kernels of a value that no kernel makes or that others read too. The remark says what it is and why it stands alone: its operand is a parameter; comes from a matrix product, attention or another op that
    is a kernel of its own; its scale depends on the whole operand; or the operand's kernel walks it in another order.
  }];
}

//===- report/ -------------------------------------------------------------------------------------------------------===//

def ReportNorms : Pass<"nano-report-norms", "::mlir::ModuleOp"> {
  let summary = "reports the norms of gradients, parameters and updates, by optimizer";
  let description = [{
    Where the training says `report_norms`, the program that updates the parameters of an optimizer G ends with

    | report | of all parameters of G together |
    |---|---|
    | `grad_norm/G` | the norm of the gradient's mean over the sequences of the global batch, before it is clipped |
    | `param_norm/G` | the norm of the parameters before the update |
    | `update_ratio/G` | the norm of the change of the parameters over that; 0 where that is 0 |

    It reads of the updates only which gradients' states there are and what is stored to which parameter. Of gradients of which each rank has a part the squares are added over ranks.

    Errors: a parameter's gradient that no state holds.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

def LowerReports : Pass<"nano-lower-reports", "::mlir::ModuleOp"> {
  let summary = "reduces what is reported to a few numbers, in states that the run reads";
  let description = [{
    ```mlir
                                              nano.state @reports : tensor<2xf32> {role = #nano.role<report>, …}
                                              nano.reported "acts" norm in @reports at 0
                                              nano.reported "logits" max in @reports at 1
    nano.report "acts" norm %x         ⇒      %s = nano.mul %x, %x
                                              %n = nano.reduce sum %s dims [0, 1]
    nano.report "logits" max %y               %a = nano.abs %y
                                              %m = nano.reduce max %a dims [0, 1]
                                              %v = nano.concat %n, %m
                                              nano.store %v, @reports
    ```

    All of a program's numbers are one tensor, so that the run reads them at once.

    It runs on the model's programs before they are differentiated, so that a report is of the tensor as the model file says it, and again on the updates. Reports in programs of
    roles other than train and those of a step are erased: a run logs steps. Histograms have `edges` at ±4ᵏ, k = −12 … 6.

    Errors: a name that has reports of different kinds, or of micro-batches and of updates; a name of a state above that is taken.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [Option<"eachStep", "each-step", "bool", "false", "the reports are of the updates, one a step">];
}

//===- memory/ -------------------------------------------------------------------------------------------------------===//

def Bufferize : Pass<"nano-bufferize", "::mlir::ModuleOp"> {
  let summary = "gives every tensor a buffer or a view of one: graph IR to step IR";
  let description = [{
    ```mlir
    nano.program @update() {role = "update"} {             step.program @update attributes {role = "update"} {
      %p = nano.load @p : tensor<8xf32>                      %p = step.state @p : memref<8xf32>
      %g = nano.load @grad.p : tensor<8xf32>         ⇒       %g = step.state @grad.p : memref<8xf32>
      %n = nano.sub %p, %g : tensor<8xf32>                   step.task ins(%p, %g) outs(%p) : … { nano.sub }
      nano.store %n, @p : tensor<8xf32>
    }                                                      }
    ```

    First it is decided where each tensor lies: in a buffer of its own, as a part of another's (slices, reshapes, pieces of a concat), or in a state that it updates in place.
    Then each op becomes the commands that fill those places, in the function's order: products become library calls, collectives commands, every other op that computes one
    task. Copies remain only where a tensor cannot lie where it is needed; a concat of parts of a tensor and of what takes the place of the rest, as rotated columns of heads, lies in
    that tensor, where the rest is no longer read when it is written, and so does a concat of rows that kernels make one after the other of a tensor's rows, as gradients in chunks of a
    head. Arguments and results become inputs of the module, which the programs of a step's
    micro-batches share.

    Errors: a function of several blocks or without one; an op that is no command: `nano.accumulate`, or one of another dialect; an input that two programs have with different types.
  }];
  let dependentDialects = ["::nano::step::StepDialect", "::mlir::memref::MemRefDialect"];
}

def PlanMemory : Pass<"nano-plan-memory", "::mlir::ModuleOp"> {
  let summary = "fixes every buffer's offset in one arena by lifetimes";
  let description = [{
    ```
    | states | scalars | inputs | gradients, transient buffers of `last`             |
                                | gradients, transient buffers of `update`      |
                                | caches | logits | transient buffers of `generate` |
                                | caches | transient buffers of `decode`   |
    ```

    What lives from step to step comes first; what lives from one token that is sampled to the next lies in the way of the programs that sample only. Programs run one after the other, so that their transient buffers overlay each other. Within a program, buffers
    whose lifetimes do not meet may share bytes; a lifetime follows from the order that streams and events keep, not from the order of the text. Of a buffer that commands of
    the first stream write part by part, from its start on, the bytes of parts that are still to come are free for others. Gradients of at least `least-shared` bytes that each step
    writes anew, and that no program has to keep from its start to its end, take part in that: they live from the command that writes them to the end of that program, and in later ones up to
    the command that reads them last. Their offset is the same in all programs, and two share bytes where no program needs both at once; where that takes more than it saves, they lie with the other states. Every offset is a multiple of 256. The module gets a `step.arena`: its size, and its floor, the most bytes that are in use at one moment, below which no plan can be. Buffers in the host's memory are packed apart from the others,
    with offsets behind the arena.
  }];
  let dependentDialects = ["::nano::step::StepDialect"];
  let options = [Option<"leastShared", "least-shared", "int64_t", "65536", "gradients of fewer bytes keep their place: little is gained by sharing it">];
}

//===- kernels/ ------------------------------------------------------------------------------------------------------===//

def CopiesToTasks : Pass<"nano-copies-to-tasks", "::mlir::ModuleOp"> {
  let summary = "makes tasks of copies that take a GPU hardly longer than to start them";
  let description = [{
    A task becomes a kernel, and nano-batch-launches gives many launches of one kernel one launch; a `step.copy` always is a command of its own.

    ```mlir
                                                        step.task ins(%a) outs(%b) : (memref<8xf32>) -> memref<2x4xf32> {
    step.copy %a to %b                           ⇒      ^bb0(%x: tensor<8xf32>):
      : memref<8xf32>, memref<2x4xf32>                    %y = nano.reshape %x : tensor<8xf32> -> tensor<2x4xf32>
                                                          nano.yield %y : tensor<2x4xf32>
                                                        }
    ```

    Copies of more than `max-bytes` stay, and can run beside kernels; so do those of 8-bit elements.

    Errors: a negative `max-bytes`.
  }];
  let dependentDialects = ["::nano::step::StepDialect", "::nano::graph::NanoDialect"];
  let options = [Option<"maxBytes", "max-bytes", "int64_t", "256 << 10", "the most bytes of a copy that becomes a task">];
}

def LowerKernels : Pass<"nano-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "writes every task as a kernel function in upstream dialects; equal tasks share one kernel";
  let description = [{
    A task is replaced by a `step.launch` of a function in the nested module `@kernels`, which has one argument a buffer, private or shared scratch memory, and the range of iterations
    to compute. On the CPU that is vector code in scf, vector, arith, math and memref over iterations that threads divide among themselves. On CUDA it is what one thread of a block does, with calls of the
    device library for what upstream dialects lack; attention, scatters, scans, transposes and products with what follows them are templates of that library, and their functions
    only say which and with what sizes. Tasks that differ in nothing but the number of iterations share a kernel, which is named by what it computes.

    On CUDA a kernel that computes half takes the place of the library's product of a matrix with its own transpose, or of a symmetric matrix with itself, where it is predicted to be faster. That a result is symmetric
    is found out from the program: it is such a product of one buffer, with a symmetric addend or none.

    With `split-products`, for CUDA, products of f32 from bf16 factors that lie with the summed dimension first, as the gradients of weights, are computed by launches that cut tiles along this dimension where that is
    predicted to be faster than the library: each by itself or with others of as many summands and a common factor, where the last of them stands, if what stands between them touches little and does not need them. Details say which.

    With `candidates`, for CUDA, kernels that compute the same in another way stand beside those that are chosen by rule, so that who runs the plan can measure them: attention with other tiles, its gradients in seven
    products beside five and without tickets beside with them, and half of a symmetric product beside the library's.

    Errors: a `target` that is none; `lanes` other than 8 and 16; an op that must be a kernel of its own beside others; a head of attention that does not fit into shared
    memory; a result in place of an operand that other blocks read; for CUDA, a product of f32 factors with a result of bf16, which its library does not have.
  }];
  let dependentDialects = ["::nano::step::StepDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
                           "::mlir::func::FuncDialect", "::mlir::x86vector::X86VectorDialect",
                           "::mlir::amx::AMXDialect"];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "cpu: vector code over ranges of iterations; cuda: what a thread of a block does">,
                 Option<"lanes", "lanes", "int64_t", "16", "f32 lanes of the CPU's vectors">,
                 Option<"pairs", "pairs", "bool", "false", "the CPU multiplies pairs of bf16 numbers and adds them up in f32; of 16 lanes">,
                 Option<"tiles", "tiles", "bool", "false", "and has AMX's tiles of them">,
                 Option<"machine", "machine", "std::string", "\"h100-infiniband\"", "cuda: rates, by which a template is faster than the library, and multiprocessors: a machine's name or JSON file">,
                 Option<"multiprocessors", "multiprocessors", "int64_t", "0", "cuda: blocks that run at once, for kernels whose blocks take one share each of the work; 0: the machine's">,
                 NanocOption<"candidates", "candidates", "bool", "false",
                             "cuda: the plan also holds kernels that may be faster than those chosen by rule, for nanorun --tune to measure: other tiles of attention, its gradients in seven products beside five, symmetric products at half the work",
                             "--candidates">,
                 NanocOption<"splitProducts", "split-products", "bool", "false",
                             "cuda: products with many summands, as the gradients of weights, are computed by kernels that cut them along these, several in a launch, where that is predicted to be faster than the library",
                             "--split-products">];
}

//===- schedule/ -----------------------------------------------------------------------------------------------------===//

def BatchLaunches : Pass<"nano-batch-launches", "::mlir::ModuleOp"> {
  let summary = "merges independent launches of one kernel into one launch over several sets of operands, and drops those whose result a live buffer already holds";
  let description = [{
    ```mlir
    step.launch @decay(%a, %g)             step.launch @decay(%a, %g, %b, %h) {segments = 2}
    step.launch @norm(%h, %n)        ⇒     step.launch @norm(%h, %n)
    step.launch @decay(%b, %h)
    ```

    Launches that compute what an earlier one has computed, in a buffer that still holds it, are dropped first. Then two sweeps, from the start and from the end of a program, let
    launches join others of their kernel; what is moved past another command never conflicts with it. A launch joins when no more bytes live meanwhile than the most
    that live at once in any program as given, and `max-bytes`; and only when the last collective before both and the first after both are the same.
  }];
  let dependentDialects = ["::nano::step::StepDialect"];
  let options = [Option<"maxBytes", "max-bytes", "int64_t", "8388608", "transient bytes that a batch may keep alive for longer where that raises the most that live at once">,
                 Option<"maxParameterBytes", "max-parameter-bytes", "int64_t", "0", "bytes of a launch's operands and sizes, as a kernel for CUDA takes them; 0: any">];
}

def BucketCollectives : Pass<"nano-bucket-collectives", "::mlir::ModuleOp"> {
  let summary = "merges collectives of one kind into buckets of at most so many bytes";
  let description = [{
    Collectives of the same op, combiner, ranks, parts and element type join in program order, up to `max-bytes` of what the whole of them holds, at the place of
    the last of them. One joins a later one only where no command in between touches its buffers in a way that conflicts. A collective of more bytes stays alone.

    Errors: a negative `max-bytes`.
  }];
  let dependentDialects = ["::nano::step::StepDialect"];
  let options = [NanocOption<"maxBytes", "max-bytes", "int64_t", "25 << 20", "gradients and other tensors are communicated together up to so many bytes; 0: each alone", "--bucket-bytes", "BYTES">];
}

def Schedule : Pass<"nano-schedule", "::mlir::ModuleOp"> {
  let summary = "orders commands so that communication and copies run beside computation, with streams, and events where no other order implies one";
  let description = [{
    Collectives go to stream 1, copies, fills and shards to stream 2 where that is predicted to pay, all else to stream 0. A program of one stream keeps its order. In
    others, a list schedule by estimated times moves collectives and copies as early and what needs them as late as pays; several rules are tried, with all copies among the
    computation, with the large ones on their stream and with all of them there, and of the orders within a thousandth of the shortest predicted program the one nearest to
    the given order is kept. A wait for a copy counts as two commands, and a copy beside a command that keeps the memory busy as slowly as both share it. Live transient bytes,
    the most of any program, rise by at most `memory-growth` over what the given order needs with every collective waited for. On machines whose ranks do one thing at a
    time, copies stay on stream 0.

    Times are those of `times` where it has the command, else by `machine` for the `world` and `group` of `nano.model`.

    Errors: a machine or file of times that cannot be read; a machine without a network for more ranks than its node has; a `memory-growth` below 0 or above a million.
  }];
  let dependentDialects = ["::nano::step::StepDialect"];
  let options = [
    Option<"machine", "machine", "std::string", "\"h100-infiniband\"", "rates and links: a machine's name or JSON file">,
    NanocOption<"times", "times", "std::string", "\"\"", "times of commands as nanorun --times has measured them with an earlier plan of the model, instead of the machine's rates", "--times", "FILE.json">,
    Option<"memoryGrowth", "memory-growth", "double", "0.02", "the share by which live bytes may rise">];
}

def Offload : Pass<"nano-offload", "::mlir::ModuleOp"> {
  let summary = "takes values that nobody needs for long to the host's memory and back, beside the computation";
  let description = [{
    ```mlir
    step.launch @relu(%x, %y)                step.launch @relu(%x, %y)
                                             step.record 0
                                             step.wait 0 {stream = 3}
                                             step.copy %y to %h {stream = 3}
                                             step.record 1 {stream = 3}
    …                                   ⇒    …
                                             step.wait 1
    …                                        …
                                             step.record 2
                                             step.wait 2 {stream = 4}
                                             step.copy %h to %z {stream = 4}
                                             step.record 3 {stream = 4}
    …                                        …
                                             step.wait 3
    step.launch @grad(%y, %g)                step.launch @grad(%z, %g)
    ```

    %h is a buffer in the host's memory. `bytes` are what a step must hold less at the place where most is held. While it holds more, of the values that live across the fullest place of a program the
    one goes that can leave first, by the rates of `machine`: its copy out must be predicted to end before that place, its copy back to begin behind it and to end before the value is needed, each beside
    the copies of the same direction that are chosen already. Where none is left more is held than asked for; nothing waits for a copy, if predictions are right by three tenths. Only floats that the
    first stream alone touches go, of buffers that are written whole before. On machines whose ranks do one thing at a time, and on those without `host`, nothing does.

    Copies to the host run on stream 3, copies back on stream 4. What is computed stays the same, to the bit.

    Remarks: what goes, by model line, with bytes and the milliseconds of the link.

    Errors: negative `bytes`; a machine that cannot be read, or without a network for more ranks than its node has.
  }];
  let dependentDialects = ["::nano::step::StepDialect"];
  let options = [
    Option<"bytes", "bytes", "int64_t", "0", "how many bytes less to hold">,
    NanocOption<"forbid", "forbid", "bool", "false", "with --max-memory takes nothing to the host's memory", "--no-offload">,
    Option<"machine", "machine", "std::string", "\"h100-infiniband\"", "rates and the link to the host: a machine's name or JSON file">];
}

def PruneWaits : Pass<"nano-prune-waits", "::mlir::ModuleOp"> {
  let summary = "drops waits that a memory plan does not need";
  let description = [{
    Events are set before offsets are known, some of them only so that two buffers may share bytes. Where those came to lie apart, a wait that no other order needs goes, with
    its record. What stays are the orders between commands that touch the same bytes, one of them writing, and between collectives; no order is added.
  }];
  let dependentDialects = ["::nano::step::StepDialect"];
}

//===- In files of their own, as there are many --------------------------------------------------------------------------===//

include "passes/fuse/FusePasses.td"
include "passes/verify/VerifyPasses.td"

#endif // NANO_PASSES_TD
