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

def Recompute : Pass<"nano-recompute", "::mlir::ModuleOp"> {
  let summary = "recomputes cheap forward values in the backward pass instead of keeping them";
  let description = [{
    A forward value that the backward pass uses is kept in memory until then, or made again from values that are kept. It is made again when it comes from cheap ops
    (element-wise ops, broadcasts, reshapes, slices, rotations, reductions within a row, gathers from a state) and what must be kept instead has fewer bytes.
    It is kept all the same when more than `max-sites` stretches of the backward pass would each recompute it, or that takes more than `max-ops` ops; a stretch lies between two ops that are
    kernels of their own. Of a transformer's layer remain the residual stream, the product that gives q, k and v, the attention's result with its statistics, and the
    product before the activation, or the activation itself where that is relu².

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
    NanocOption<"maxBytes", "max-bytes", "int64_t", "0",
                "the head and its loss are computed in chunks of rows in which no tensor has more bytes, of at least 128 rows; 0: chunks that do not raise the peak of memory",
                "--chunk-bytes", "BYTES">,
    Option<"report", "report", "bool", "false", "a remark on every chain, with its chunks">];
}

def JoinScatters : Pass<"nano-join-scatters", "::mlir::ModuleOp"> {
  let summary = "makes one scatter_add of several whose results are only added";
  let description = [{
    The gradient of an embedding that several layers read is a sum of tables, each of which is written whole and read again. One scatter of all their rows writes one table:

    ```mlir
    %y = nano.scatter_add %a, %i                      %x = nano.concat %a, %b dim 0
    %z = nano.scatter_add %b, %j              ⇒       %k = nano.concat %i, %j dim 0
    %s = nano.add %y, %z                              %s = nano.scatter_add %x, %k
    ```

    The tables have no other use, and are of f32: no sum is rounded on the way. All rows then live until the last of them are known, so scatters are joined only while their rows
    take no more bytes than the table that lived so long instead. Rows keep the order of the sum's operands.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

def FoldMatmulEpilogues : Pass<"nano-fold-matmul-epilogues", "::mlir::ModuleOp"> {
  let summary = "folds scales, residual adds, accumulation and casts into matrix products";
  let description = [{
    ```mlir
    %p = nano.matmul %x, %w          %s = nano.add %r, %p      ⇒   %s = nano.matmul %x, %w add %r
                                     %q = nano.mul %p, 2.0     ⇒   %q = nano.matmul %x, %w {alpha = 2.0}
    ```

    The library computes alpha·A·B + beta·C and rounds once, so that the product itself never crosses memory. It runs before fusion, which would otherwise
    pay a kernel for each of these.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

def Fuse : Pass<"nano-fuse", "::mlir::ModuleOp"> {
  let summary = "groups element-wise and reduction ops into kernels by the bytes that this saves";
  let description = [{
    A group becomes one `nano.fused` over a space of rows × columns (all leading dimensions × the last one). It holds ops on whole rows × columns tensors, sums and maxima along the
    columns, ops on one value a row before or after such a reduction, and broadcasts, constants, scalars and casts to f32, which are copied into every group that
    needs them.

    A producer joins its consumer's group when both have one space and nothing outside of the group lies between them, because the value then need not cross memory; two groups
    that read the same large tensor join when neither depends on the other, because it is then read once. A join never adds bytes: nothing is done twice but the cheap
    ops named above. Where all that read a group's tensor convert it to one narrower type, the group writes that. Last, where a group would write for another a tensor that an op or two make from tensors of fewer bytes, as x − mean in f32 from bf16 x, the other makes it again;
    so does one far behind, where the tensor comes of a product in memory, which then lives instead, and of states that stay as they are: a bias is added again rather than its sum written. Products, attention, gradients of embeddings, scans and collectives stay as they are.

    With `both-sums` a group that sums the columns of rows also joins one that reduces along them, where it reads little else than that one reads and writes, and threads have the registers to hold both: the
    gradients of a norm's weight and bias, and of the bias of a product before it, come out of the pass that makes the gradient of the norm's input. So it does where the group also leaves
    its rows transposed and none of their elements waits for a reduction, as 8-bit gradients do with their rows' largest: such a kernel goes tile by tile and holds no rows.

    A concat of zeros and all rows of a tensor but the last or first ones, along any dimension but the last, becomes rows that are gathered, where all that read it can be in kernels: each of them reads
    the tensor where it lies, and no copy is made.
  }];
  let options = [
    Option<"bothSums", "both-sums", "bool", "false", "kernels may reduce along rows and sum columns in one pass">,
  ];
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

def FuseProducts : Pass<"nano-fuse-products", "::mlir::ModuleOp"> {
  let summary = "moves matrix products into the element-wise kernels that alone read them, where that is predicted to pay";
  let description = [{
    For GPUs of compute capability 9.0, whose device library has a product that ends in any element-wise code. A `nano.matmul` of two bf16 matrices, or a `nano.scaled_matmul` of two
    f8E4M3FN matrices of one scale each and B transposed, into a bf16 matrix, A not transposed, without factor or addend, becomes the first op of the one `nano.fused` that reads
    its result, if all else there is element-wise over the product's elements. So does a product of any two 8-bit types into f32, A transposed or not:

    ```mlir
    %p = nano.matmul %x, %w                                  %y = nano.fused(%x, %w) : … {
    %y = nano.fused(%p) : … {                                ^bb0(%a: …, %b: …):
    ^bb0(%a: …):                                     ⇒         %p = nano.matmul %a, %b
      %m = nano.mul %a, %a                                     %m = nano.mul %p, %p
      nano.yield %m                                            nano.yield %m
    }                                                        }
    ```

    The other operands are whole matrices or one number a column, of 2- or 4-byte elements, single f32 numbers and constants; results are whole. Others may read a product of 8 bits too,
    behind the kernel, which then writes it besides, unless it sums rows.

    A kernel that reads two products of one A and as many columns each, as a gate and what it gates, and no other whole matrix, begins with both.
    Others may read them too:

    ```mlir
    %g = nano.matmul %x, %v                                  %y, %g, %u = nano.fused(%x, %v, %w) : … {
    %u = nano.matmul %x, %w                            ⇒       %g = nano.matmul %a, %b
    %y = nano.fused(%g, %u) : … {                              %u = nano.matmul %a, %c
    ```

    A kernel that sums rows of what is computed so, in f32 and of multiples of 128 columns, is cut into three for that. The first ends the product with the sums over each 128 columns
    of a row, the second adds these up and computes what is one number a row, the third computes what of the elements needs such numbers, from the product, which then crosses memory:

    ```mlir
    %p = nano.matmul %x, %w                                  %p, %s = nano.fused(%x, %w) : … {   // the sums of e^p, [R, C/128]
    %l, %y = nano.fused(%p) : … {                      ⇒     %l, %n = nano.fused(%s) : … {       // their sums n, and ln n
      // ln Σ e^p and e^p / Σ e^p                            %y = nano.fused(%p, %n) : … {       // e^p / n
    ```

    A sum that a comparison with the column's number makes one element of the row is taken in the second, from the product. Whole results that need no sum are the product's end.

    A kernel that sums columns in parts, as a bias's gradient does, each part of a multiple of 16 rows, is cut into two: the first ends the product with the sums over each 16 rows, in f32,
    which the second adds up:

    ```mlir
    %p = nano.matmul %x, %w                                  %s, %y = nano.fused(%x, %w) : … {   // y, and its sums, [R/16, C]
    %t, %y = nano.fused(%p) : … {                      ⇒     %t = nano.fused(%s) : … {           // the parts' sums
    ```

    A kernel that finds the largest number of each row, as those do that write what the next product reads in 8 bits, is cut into two where all that is asked of these numbers is the
    largest of all: the first ends the product, or both, with the largest of blocks of 16 rows and 64 columns.

    ```mlir
    %p = nano.scaled_matmul %x, %w …                         %m, %y, %p = nano.fused(%x, %w) : … {   // of |f(p)| the largest, [R/16, C/64]
    %r, %y = nano.fused(%p) : … {                      ⇒     %n = nano.fused(%m) : … {               // those of 16 rows
      // of |f(p)| the largest of rows, [R], and f(p)        %l = nano.fused(%n) : … {               // of all
    %l = nano.fused(%r) : … {
    ```

    An 8-bit product into f32 whose A is the transpose of what a kernel makes, and others read as it lies, becomes a kernel of its own which turns A and ends with the addend: nothing
    is written twice.

    ```mlir
    %q = nano.fused(…) : … {                                 %q = nano.fused(…) : … {
    %t = nano.transpose %q                             ⇒     %d = nano.fused(%c, %q, %x) : … {
    %d = nano.scaled_matmul %t, %x … add %c                    %p = nano.scaled_matmul %q, %x … {transpose_a …}
                                                               %s = nano.add %p, %c
    ```

    With `products` = "auto" the kernels together must take less time than the library's product and the kernel behind it, by the rates of `machine`, and there must be a tile of the
    result for every multiprocessor. A kernel that begins with a product ends one tile while it multiplies the next: it takes as long as the longest of its multiplications, its
    operations on elements, those of them that are special functions, and its bytes; or, where the product is f32, as its multiplications and what follows together.
    Two products count by the library as one of as many columns, which it is where `nano-merge-products` can make it one. One that turns its A takes as long as the longer of its
    multiplications and its bytes, and saves writing A twice; only the library cuts sums into parts where tiles are few. "fused" takes every product that has the form, "library" none.

    Remarks, with `report`: what became of each product that one kernel alone reads, or reads beside another one of the same A, or that could turn its A.

    Errors: a machine that cannot be read; a choice of `products` that is none.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [
    Option<"machine", "machine", "std::string", "\"h100-infiniband\"", "rates: a machine's name or JSON file">,
    NanocOption<"products", "products", "std::string", "\"auto\"",
                "cuda: which matrix products that one kernel alone reads are computed by that kernel: those that the machine predicts to be faster so (auto), all that can be (fused), none (library)",
                "--products", "auto|fused|library">,
    Option<"report", "report", "bool", "false", "a remark on every product that one kernel alone reads">];
}

def MergeProducts : Pass<"nano-merge-products", "::mlir::ModuleOp"> {
  let summary = "computes matrix products that share an operand, or that are added up, as one, where nothing is copied for it and that is predicted to pay";
  let description = [{
    Products of one left operand become one product with the weights side by side, whose results are slices: queries, keys and values of one x, a gate and what it gates. Products
    that are added up, as the gradient of that x, become one that sums over the inner dimensions of all:

    ```mlir
    %q = nano.matmul %x, %wq {transpose_b}          %w = nano.concat %wq, %wk dim 0
    %k = nano.matmul %x, %wk {transpose_b}     ⇒    %p = nano.matmul %x, %w {transpose_b}
    …                                               %q = nano.slice %p … ; %k = nano.slice %p …
    %a = nano.matmul %dq, %wq                       …
    %dx = nano.matmul %dk, %wk add %a               %d = nano.concat %dq, %dk dim 1
                                                    %dx = nano.matmul %d, %w
    ```

    Weights stay states of their own. What is multiplied are copies of them that a kernel makes each step anyway, in bf16 of f32, which from now on lie side by side; a weight that is
    multiplied as it is stored stays alone. Likewise the parts of `%d` are what kernels make, not what is stored, returned, or part of another tensor already. Whoever reads a part of
    a wider row must be able to: products, attention and generated kernels, whose rows begin and end at multiples of 32 bytes, the least that memory moves.

    A slice keeps the whole product in memory until the last of them is read. Parts of which some would be held so are taken only where no more than the most bytes that live at once
    in any program then live; otherwise what is read last stays alone.

    Of those left, the ones are merged whose product is predicted by the rates of `machine` to take less time than theirs together, each with its own command.
    Products of 8 bits are merged where they have the same scales, one an operand; a weight's copy that lies transposed, which one kernel makes beside that which does not, becomes
    a part likewise. Products with a factor, with scales of blocks, or that begin a kernel (`nano-fuse-products`) stay as they are.

    Remarks, with `report`: on every product that became part of another, and why others that share an operand did not.

    Errors: a machine that cannot be read.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [
    Option<"machine", "machine", "std::string", "\"h100-infiniband\"", "rates: a machine's name or JSON file">,
    Option<"report", "report", "bool", "false", "a remark on products that share an operand">];
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
    task. Copies remain only where a tensor cannot lie where it is needed. Arguments and results become inputs of the module, which the programs of a step's
    micro-batches share.

    Errors: a function of several blocks or without one; an op that is no command: `nano.accumulate`, or one of another dialect; an input that two programs have with different types.
  }];
  let dependentDialects = ["::nano::step::StepDialect", "::mlir::memref::MemRefDialect"];
}

def PlanMemory : Pass<"nano-plan-memory", "::mlir::ModuleOp"> {
  let summary = "fixes every buffer's offset in one arena by lifetimes";
  let description = [{
    ```
    | states | scalars | inputs | transient buffers of `first`             |
                                | transient buffers of `update`      |
                                | caches | logits | transient buffers of `generate` |
                                | caches | transient buffers of `decode`   |
    ```

    What lives from step to step comes first; what lives from one token that is sampled to the next lies in the way of the programs that sample only. Programs run one after the other, so that their transient buffers overlay each other. Within a program, buffers
    whose lifetimes do not meet may share bytes; a lifetime follows from the order that streams and events keep, not from the order of the text. Every offset is a multiple
    of 256. The module gets a `step.arena`: its size, and its floor, the most bytes that are in use at one moment, below which no plan can be.
  }];
  let dependentDialects = ["::nano::step::StepDialect"];
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
    memory; a result in place of an operand that other blocks read.
  }];
  let dependentDialects = ["::nano::step::StepDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
                           "::mlir::func::FuncDialect"];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "cpu: vector code over ranges of iterations; cuda: what a thread of a block does">,
                 Option<"lanes", "lanes", "int64_t", "16", "f32 lanes of the CPU's vectors">,
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

def PruneWaits : Pass<"nano-prune-waits", "::mlir::ModuleOp"> {
  let summary = "drops waits that a memory plan does not need";
  let description = [{
    Events are set before offsets are known, some of them only so that two buffers may share bytes. Where those came to lie apart, a wait that no other order needs goes, with
    its record. What stays are the orders between commands that touch the same bytes, one of them writing, and between collectives; no order is added.
  }];
  let dependentDialects = ["::nano::step::StepDialect"];
}

include "passes/verify/VerifyPasses.td"

#endif // NANO_PASSES_TD
