// Passes that make few kernels and library calls of many ops.
#ifndef NANO_FUSE_PASSES_TD
#define NANO_FUSE_PASSES_TD

include "passes/PassOption.td"

def ChunkRows : Pass<"nano-chunk-rows", "::mlir::ModuleOp"> {
  let summary = "computes wide row-wise chains (the head and its loss) in chunks of rows, so that their intermediates stay small";
  let description = [{
    The head's product, any function of its logits, their loss, the gradient of the logits and the two products that read that are computed for some
    rows after the other. Without `max-bytes` the chunks are the largest that do not raise the peak of the step's memory, by an estimate of what all
    programs hold elsewhere; a chain that fits into that is left whole. A scale for 8-bit floats that is made of the rows' own largest element is made of
    each chunk's; any other number that all rows give must not be needed by them.

    Where the logits take more bytes than their gradient in 8 bits, chunks are longer in the same bytes: the logits, their loss and their gradient are
    computed for parts of a chunk, the products that read the gradient for the whole chunk, so that the weight's gradient is read and written less often.

    Where the losses of all rows meet in what is no sum before there is a gradient, as those of a sequence's tokens in DPO, a head that does not fit whole is computed in two
    rounds of chunks: first the losses, then, from the logits made again, their gradient.

    With `further` the chunks of a head begin with the last MLP's products, and with what acts on rows alone before these, and end with the products and
    sums of its backward pass, where no more bytes leave the chunks then: tensors as wide as the MLP exist a chunk at a time. Parts of a chunk shrink
    then, so that the logits of each can lie where the gradients of later parts will, beside the bytes of the last one's logits (`nano-plan-memory`).

    Remarks: logits of a loss that are left whole because an op of their chain mixes rows; with `report` any such chain.

    Errors: a negative `max-bytes`; `parts` below 1.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [
    NanocOption<"maxBytes", "max-bytes", "int64_t", "0",
                "the head and its loss are computed in chunks of rows in which no tensor has more bytes, of at least 128 rows; 0: chunks that do not raise the peak of memory",
                "--chunk-bytes", "BYTES">,
    Option<"parts", "parts", "int64_t", "1", "with `max-bytes`: so many parts has a chunk that may have parts">,
    Option<"further", "further", "bool", "false",
           "chains reach further: through the products before, the last MLP's, and to norms at both ends">,
    Option<"turns", "turns", "bool", "false", "products turn 8-bit floats that they read transposed, which are not written so">,
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

def ShiftLosses : Pass<"nano-shift-losses", "::mlir::ModuleOp"> {
  let summary = "makes the exponentials of a cross-entropy's logits the end of their product";
  let description = [{
    The logits of a cross-entropy whose gradient two products read are never in memory, but their exponentials are, which the product that makes the logits ends with:

    ```mlir
    %z = nano.matmul %x, %w {transpose_b}                    %k, %t = …                  // x·w[target] + 60, and the gradient at the target, by rows
    %l, %s = nano.cross_entropy %z, %targets                 %e, %n, %m = nano.exp_matmul %x, %w, %targets, %k
    %d = …   // a·e^(z − s), and at the target − b    ⇒     %l, %s = …                  // of n and m
    %y = nano.matmul %d, %w                                  %y = …                      // (a/S)·(e·w) + t·w[targets]
    %v = nano.matmul %d, %x {transpose_a}                    %v = …                      // eᵀ·((a/S)·x) + scatter_add(t·x, targets)
    ```

    A sum of exponentials needs a number that is near the row's largest logit, not that itself. The target's logit is known before all others from two rows, and 60 more serves where no logit is more than
    124 above the target's; other rows are told by `nano.exp_matmul` and right too. `a` and `b` are numbers a row, such as weights, a mean's or those of a squared log-sum-exp: what the gradient is, is derived from its ops.
    The target's exponential is known exactly, so that 1 − P(target) does not cancel. A gradient that adds something else to all columns, as that of smoothed targets does, or logits that others read or that are
    capped stay as they are, and so do products that are not of bf16 or whose columns are no multiple of 128.

    With `losses` = "auto" the product with its end, and what else reads and writes rows of the factors for it, must take five sixths of the time at most, by the rates of `machine`, of the library's product and a kernel that reads
    the logits and writes their gradient; and there must be a tile for every multiprocessor. "product" takes every loss that has the form, "logits" none.

    Remarks, with `report`: what became of each product that makes a cross-entropy's logits, and why.

    Errors: a machine that cannot be read; a choice of `losses` that is none.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [
    Option<"machine", "machine", "std::string", "\"h100-infiniband\"", "rates: a machine's name or JSON file">,
    NanocOption<"losses", "losses", "std::string", "\"auto\"",
                "cuda: whether the product that makes a cross-entropy's logits ends with their exponentials (product), a kernel passes over them (logits), or what the machine predicts to be faster (auto)",
                "--losses", "auto|product|logits">,
    Option<"report", "report", "bool", "false", "a remark on every product of a cross-entropy's logits">];
}

def FoldMatmulEpilogues : Pass<"nano-fold-matmul-epilogues", "::mlir::ModuleOp"> {
  let summary = "folds scales, residual adds, accumulation and casts into matrix products";
  let description = [{
    ```mlir
    %p = nano.matmul %x, %w          %s = nano.add %r, %p      ⇒   %s = nano.matmul %x, %w add %r
                                     %q = nano.mul %p, 2.0     ⇒   %q = nano.matmul %x, %w {alpha = 2.0}
    ```

    The library computes alpha·A·B + beta·C and rounds once, so that the product itself never crosses memory. It runs before fusion, which would otherwise
    pay a kernel for each of these. Where a target's library has no products of f32 factors with results of bf16, such a product gets a result of f32, and the cast stays.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [Option<"narrows", "narrows", "bool", "false", "the library has products of f32 factors with results of bf16">];
}

def Fuse : Pass<"nano-fuse", "::mlir::ModuleOp"> {
  let summary = "groups element-wise and reduction ops into kernels by the bytes that this saves";
  let description = [{
    A group becomes one `nano.fused` over a space of rows × columns (all leading dimensions × the last one). It holds ops on whole rows × columns tensors, sums and maxima along the
    columns, ops on one value a row before or after such a reduction, and broadcasts, constants, scalars and casts to f32, which are copied into every group that
    needs them.

    A producer joins its consumer's group when both have one space and nothing outside of the group lies between them, because the value then need not cross memory; two groups
    that read the same large tensor, and not a vector of columns beside much larger ones, join when neither depends on the other, because it is then read once. A join never adds bytes: nothing is done twice but the cheap
    ops named above. Where all that read a group's tensor convert it to one narrower type, the group writes that. Last, where a group would write for another a tensor that an op or two make from tensors of fewer bytes, as x − mean in f32 from bf16 x, the other makes it again;
    so does one far behind, where the tensor comes of a product in memory, which then lives instead, and of states that stay as they are: a bias is added again rather than its sum written. Products, attention, gradients of embeddings, scans and collectives stay as they are.

    With `both-sums` a group that sums the columns of rows also joins one that reduces along them, where it reads little else than that one reads and writes, and threads have the registers to hold both: the
    gradients of a norm's weight and bias, and of the bias of a product before it, come out of the pass that makes the gradient of the norm's input. So it does where the group also leaves
    its rows transposed and none of their elements waits for a reduction, as 8-bit gradients do with their rows' largest: such a kernel goes tile by tile and holds no rows.

    A concat of zeros and all rows of a tensor but the last or first ones, along any dimension but the last, becomes rows that are gathered, where all that read it can be in kernels: each of them reads
    the tensor where it lies, and no copy is made.

    Where the two columns of a last dimension are cut apart, and what is computed of each is put side by side again, as rotary embeddings of neighbouring columns do, both are computed as rows of whole pairs, in which the
    other column is a rotation by one.

    With `end-products` two groups stay apart where each alone reads a product and the first one reads nothing else, if what the second one needs of it is written in any case: each can be the end of its
    product then, as the square of max(h, 0) that is made again and the gradient that goes back through it. Nor do numbers of rows that reductions come to, as a norm's factors, join what may be the end of a product: it reads such numbers.
  }];
  let options = [
    Option<"bothSums", "both-sums", "bool", "false", "kernels may reduce along rows and sum columns in one pass">,
    Option<"endProducts", "end-products", "bool", "false", "a kernel may compute a product that it alone reads">,
  ];
  let dependentDialects = ["::nano::graph::NanoDialect"];
}

def FuseProducts : Pass<"nano-fuse-products", "::mlir::ModuleOp"> {
  let summary = "moves matrix products into the element-wise kernels that read them, where that is predicted to pay";
  let description = [{
    For GPUs of compute capability 9.0, whose device library has a product that ends in any element-wise code. A `nano.matmul` of two bf16 matrices, or a `nano.scaled_matmul` of two
    8-bit matrices of one scale each and B transposed, into a bf16 matrix, A not transposed, without factor or addend, becomes the first op of the first `nano.fused` that reads
    its result, if all else there is element-wise over the product's elements. So does a product of two 8-bit matrices into f32, A transposed or not:

    ```mlir
    %p = nano.matmul %x, %w                                  %y = nano.fused(%x, %w) : … {
    %y = nano.fused(%p) : … {                                ^bb0(%a: …, %b: …):
    ^bb0(%a: …):                                     ⇒         %p = nano.matmul %a, %b
      %m = nano.mul %a, %a                                     %m = nano.mul %p, %p
      nano.yield %m                                            nano.yield %m
    }                                                        }
    ```

    The other operands are whole matrices or one number a column, of 2- or 4-byte elements, single f32 numbers, one f32 number a row of a product of bf16 where no rows are summed, and constants; results are whole. Others may read the product too,
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

    A product of 8 bits with a factor of f8E5M2, a gradient, ends a tile before the next, as one into f32 does, since its sums are added up in f32. Its end may be cut at several maxima
    and at sums of columns beside them, but not at sums of rows; and up to four of its results of 8 bits may be needed transposed, which it writes too, beside those that lie as they are:

    ```mlir
    %p = nano.scaled_matmul %g, %w …                         %m, %y, %z = nano.fused(%g, %w, %h) : … {
    %r, %y, %z = nano.fused(%p, %h) : … {              ⇒     %n = nano.fused(%m) : … {
    %t = nano.transpose %y                                   %t = nano.transpose %y                // written by the first kernel
    %u = nano.transpose %z                                   %u = nano.transpose %z
    … %z, %t, %u                                             … %z, %t, %u
    ```

    With `products` = "auto" the kernels together must take less time than the library's product and the kernel behind it, by the rates of `machine`, and there must be a tile of the
    result for every multiprocessor. A kernel that begins with a product ends one tile while it multiplies the next: it takes as long as the longest of its multiplications, its
    operations on elements, those of them that are special functions, and its bytes; or, where the product is f32 or a gradient, as its multiplications and what follows together.
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

    The gradients of weights of one x are products of x with gradients that then lie side by side. Of neighbours among them one product is made and one state, whose pieces (`sharding`,
    with one part) are those that were; who loads one loads a slice. Only kernels may read them, not collectives, and every program that writes one must write all so; and the product
    must be predicted to take at most 97% of the time of theirs, as it does where one has few tiles:

    ```mlir
    %q = nano.matmul %dq, %x {transpose_a}          %w = nano.matmul %d, %x {transpose_a}
    %k = nano.matmul %dk, %x {transpose_a}     ⇒    nano.store %w, @grad.q.merged
    nano.store %q, @grad.q
    nano.store %k, @grad.k
    ```

    Remarks, with `report`: on every product that became part of another, and why others that share an operand did not.

    Errors: a machine that cannot be read.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [
    Option<"machine", "machine", "std::string", "\"h100-infiniband\"", "rates: a machine's name or JSON file">,
    Option<"report", "report", "bool", "false", "a remark on products that share an operand">];
}

def SumGradients : Pass<"nano-sum-gradients", "::mlir::ModuleOp"> {
  let summary = "has the kernel of attention's gradients sum their columns, where another would read them again for that alone";
  let description = [{
    The gradient of the bias of queries, keys and values, of any of them, is the sum of theirs over all tokens. A kernel that reads nothing but gradients of one `nano.attention_grad`,
    side by side, to sum their columns in parts reads instead what the kernel that computes them gives besides, the sums over each 64 tokens in f32 of what is rounded to bf16:

    ```mlir
    %dq, %dk, %dv = nano.attention_grad …              %dq, %dk, %dv, %a, %b, %c = nano.fused(…) : … {
    %d = nano.concat %dq, %dk, %dv dim 1                 %q, %k, %v = nano.attention_grad …
    %m = nano.reshape %d                                 %w = nano.cast %q
    %s = nano.fused(%m) : … {                   ⇒        %p = nano.reshape %w                 // [T, H, D] as [T/64, 64, H, D]
      %w = nano.cast %arg0                               %x = nano.reduce sum %p dims [1]     // and likewise of %k and %v
      %p = nano.reshape %w    // [T, C] as [P, T/P, C]   nano.yield %q, %k, %v, %x, %y, %z
      %r = nano.reduce sum %p dims [1]                 %d = nano.concat %a, %b, %c dim 1
      nano.yield %r                                    %s = nano.fused(…) : … {               // sums of these, [P, C]
    ```

    For GPUs, whose template of attention's gradients sums them tile by tile, of bf16, heads that tensor cores compute and a multiple of 64 tokens. Where a part is of no multiple of 64 tokens, what
    adds up all parts reads the sums over 64 tokens instead. They are 1/16 of the bytes that are not read again. Gradients that something else is computed from first, as those of queries that were rotated or normalized, are not what such a kernel reads.

    Remarks, with `report`: on every kernel that sums columns of attention's gradients alone.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [Option<"report", "report", "bool", "false", "a remark on every kernel that sums columns of attention's gradients alone">];
}

def CopyKeys : Pass<"nano-copy-keys", "::mlir::ModuleOp"> {
  let summary = "gives attention's gradients copies of keys and values that many heads of queries share, where these alone keep too few multiprocessors busy";
  let description = [{
    The device library computes the gradients of keys and values by blocks of keys, each with all heads of queries that share its head. Where one head of keys is shared by all, 16,384 tokens
    have no more than 128 such blocks, which in causal rows take from one to sixteen times as long as each other. With c copies of each head of keys and values there are c times as many, each with 1/c of the heads of queries:

    ```mlir
                                                       %l = nano.reshape (nano.broadcast %k)              // each head c times
    %dq, %dk, %dv = nano.attention_grad %q, %k, …  ⇒   %dq, %m, %x = nano.attention_grad %q, %l, …
                                                       %dk = nano.reduce sum (nano.reshape %m) dims [2]   // in f32, rounded once more
    ```

    For causal rows of bf16 for which the template from both ends of a row is the rule's with c copies, and not with the keys as they are; the least c that makes two blocks of threads a multiprocessor, else the least. Attention itself reads the keys as they are: its blocks are of queries.

    Remarks, with `report`: on all attention whose gradients read copies.
  }];
  let dependentDialects = ["::nano::graph::NanoDialect"];
  let options = [
    Option<"machine", "machine", "std::string", "\"h100-infiniband\"", "whose multiprocessors are to be busy: a machine's name or JSON file">,
    Option<"report", "report", "bool", "false", "a remark on all attention whose gradients read copies">,
  ];
}

#endif // NANO_FUSE_PASSES_TD
