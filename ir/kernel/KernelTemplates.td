// Templates of the device library, each an attribute of a kernel with its parameters as named fields.
#ifndef NANO_IR_KERNEL_TEMPLATES_TD
#define NANO_IR_KERNEL_TEMPLATES_TD

include "ir/kernel/KernelDialect.td"

/// A template. Buffers are fields that name positions among the kernel's; a result may go to several.
class Kernel_Template<string name, string mnemonicOf, list<string> methods = []> : AttrDef<KernelDialect, name, [
    DeclareAttrInterfaceMethods<Kernel_TemplateInterface, ["getReadPositions", "getWrittenPositions"] # methods>]> {
  let mnemonic = mnemonicOf;
  let assemblyFormat = "`<` struct(params) `>`";
}

/// A template that is one call, in all that the compiler knows of it: `sizes`, which are at least 1, `numbers`, `flags`, and the buffers that it reads and
/// writes, in this order. `call` is the kernel's text; in it %name stands for a field, of a buffer for its pointer, and `work.begin` for the iteration.
class Kernel_Call<string name, string mnemonicOf, string headerOf, list<string> sizes, list<string> numbers, list<string> flags, list<string> reads,
                  list<string> writes> : Kernel_Template<name, mnemonicOf> {
  string call = "";
  defvar integers = !listconcat(sizes, numbers);
  defvar buffers = !listconcat(reads, writes);
  let parameters = !dag(ins, !listconcat(!foreach(each, integers, "int64_t"), !foreach(each, flags, "bool"), !foreach(each, buffers, "int64_t")),
                        !listconcat(integers, flags, buffers));
  let genVerifyDecl = 1;
  let extraClassDeclaration = "::nano::kernel::TemplateEntry getEntry() const;";
  let extraClassDefinition =
      "::llvm::SmallVector<int64_t> $cppClass::getReadPositions() const {\n  return {"
      # !interleave(!foreach(each, reads, "getImpl()->" # each), ", ") # "};\n}\n"
      "::llvm::SmallVector<::llvm::SmallVector<int64_t>> $cppClass::getWrittenPositions() const {\n  return {"
      # !interleave(!foreach(each, writes, "{getImpl()->" # each # "}"), ", ") # "};\n}\n"
      "::llvm::LogicalResult $cppClass::verify(::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError"
      # !interleave(!foreach(each, sizes, ", int64_t " # each), "") # !interleave(!foreach(each, numbers, ", int64_t"), "")
      # !interleave(!foreach(each, flags, ", bool"), "") # !interleave(!foreach(each, buffers, ", int64_t"), "")
      # ") {\n  return verifySizes(emitError, \"a " # mnemonicOf # "\", {" # !interleave(sizes, ", ") # "});\n}\n"
      "::nano::kernel::TemplateEntry $cppClass::getEntry() const {\n  return {\"" # headerOf # "\", R\"(" # call # ")\", {"
      # !interleave(!listconcat(!foreach(each, integers, "{\"" # each # "\", std::to_string(getImpl()->" # each # ")}"),
                                !foreach(each, flags, "{\"" # each # "\", getImpl()->" # each # " ? \"true\" : \"false\"}")), ", ")
      # "}, {" # !interleave(!foreach(each, buffers, "{\"" # each # "\", getImpl()->" # each # "}"), ", ") # "}};\n}\n";
}

def Kernel_ProductAttr : Kernel_Template<"Product", "product", ["isAdded", "readsOtherPlaces"]> {
  let summary = "a matrix product with what follows it (nano_matmul.h)";
  let description = [{
    Of matrices `a` and `b`, which the kernel has tensor maps of. `scales` are the buffers of 8-bit factors' two scales; empty: there are none. `epilogue` is a function beside the kernel: it takes neighbours of a
    row of the product, eight, or of a product of f32 four, and the elements at the same place of each of the buffers `others`, as vectors, or as a number where the buffer is one; its
    results go to the buffers of `results`: vectors, or a number that the neighbours add to a partial sum of their row.

    | field | meaning |
    |---|---|
    | `rows`, `columns`, `inner` | rows and columns of the product, and what is summed over |
    | `transpose_a`, `transpose_b` | as `nano.matmul` |
    | `blocks` | blocks of the launch, which share all tiles |
    | `added` | which results, sums of f32, are added to what is in their place: the epilogue returns the other summand and does not read it |
    | `column_sum` | the result whose rows the template adds up; absent: none |

    Errors: sizes below 1; another number of scales; a result or a sum that is none of the results.

    Example: `#kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [],
    others = [], results = [array<i64: 2>], added = [], epilogue = @k.epilogue>`
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns, "int64_t":$inner, "bool":$transpose_a, "bool":$transpose_b,
                        "int64_t":$blocks, "int64_t":$a, "int64_t":$b, "::mlir::DenseI64ArrayAttr":$scales, "::mlir::DenseI64ArrayAttr":$others,
                        "::mlir::ArrayAttr":$results, "::mlir::DenseI64ArrayAttr":$added, OptionalParameter<"::mlir::IntegerAttr">:$column_sum,
                        OptionalParameter<"::mlir::FlatSymbolRefAttr">:$epilogue);
  let genVerifyDecl = 1;
}

def Kernel_AttentionAttr : Kernel_Template<"Attention", "attention"> {
  let summary = "causal attention within ranges of keys (nano_attention.h)";
  let description = [{
    As `nano.attention`: of `tokens` queries in `heads` heads of `head_size` elements, which share `key_heads` heads of keys and values, those of `value_size` elements; buffers `first` and `last` hold the range of keys
    of each query. `score`, where there is one, is a function beside the kernel: of a score, a query, a key and a head.

    | field | meaning |
    |---|---|
    | `vector_rows` | rows of a head are contiguous and begin at multiples of 16 bytes |
    | `multiprocessors` | of the GPU: for its speed, not for the results |
    | `scale` | what products of queries and keys are multiplied by |
    | `y`, `lse` | where the outputs go, and the logarithms of the sums of exponentials |

    Errors: sizes below 1; heads that are no multiple of the heads of keys.

    Example: `#kernel.attention<tokens = 128, heads = 4, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 132, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3,
    last = 4, y = [5], lse = [6]>`
  }];
  let parameters = (ins "int64_t":$tokens, "int64_t":$heads, "int64_t":$key_heads, "int64_t":$head_size, "int64_t":$value_size, "bool":$vector_rows, "int64_t":$multiprocessors,
                        "::mlir::FloatAttr":$scale, "int64_t":$q, "int64_t":$k, "int64_t":$v, "int64_t":$first, "int64_t":$last,
                        "::mlir::DenseI64ArrayAttr":$y, "::mlir::DenseI64ArrayAttr":$lse, OptionalParameter<"::mlir::FlatSymbolRefAttr">:$score);
  let genVerifyDecl = 1;
}

def Kernel_AttentionGradAttr : Kernel_Template<"AttentionGrad", "attention_grad", ["isAdded"]> {
  let summary = "the gradients of attention (nano_attention.h)";
  let description = [{
    As `nano.attention_grad`, with the fields of `#kernel.attention`. `lse` is what the forward pass wrote, `delta` the sum of each query's outputs times their gradients `dy`;
    `score_grad` is a function of the arguments of `score` and the gradient of its result. With `partial` and `counts`, both or neither, one pass over the scores gives all
    three gradients in five products for seven: sums of dq in f32 in `partial`, in an order that `counts` keep, which are zeros before the launch.

    Errors: as `#kernel.attention`; a score without its gradient, or the other way round; likewise `partial` and `counts`, and these beside a score, heads that share keys or values of another size.

    Example: `#kernel.attention_grad<tokens = 128, heads = 4, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 132, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3,
    last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10]>`
  }];
  let parameters = (ins "int64_t":$tokens, "int64_t":$heads, "int64_t":$key_heads, "int64_t":$head_size, "int64_t":$value_size, "bool":$vector_rows, "int64_t":$multiprocessors,
                        "::mlir::FloatAttr":$scale, "int64_t":$q, "int64_t":$k, "int64_t":$v, "int64_t":$first, "int64_t":$last, "int64_t":$lse,
                        "int64_t":$delta, "int64_t":$dy, "::mlir::DenseI64ArrayAttr":$dq, "::mlir::DenseI64ArrayAttr":$dk, "::mlir::DenseI64ArrayAttr":$dv,
                        OptionalParameter<"std::optional<int64_t>">:$partial, OptionalParameter<"std::optional<int64_t>">:$counts,
                        OptionalParameter<"::mlir::FlatSymbolRefAttr">:$score, OptionalParameter<"::mlir::FlatSymbolRefAttr">:$score_grad);
  let genVerifyDecl = 1;
}

def Kernel_ScatterSortAttr : Kernel_Template<"ScatterSort", "scatter_sort"> {
  let summary = "the order in which rows are added up, the first part of a scatter (nano_scatter.h)";
  let description = [{
    Sorts the `tokens` numbers below `rows` of buffer `ids` into the scratch memory `sorted`.

    Errors: sizes below 1.

    Example: `#kernel.scatter_sort<tokens = 128, rows = 1024, ids = 0, sorted = 1>`
  }];
  let parameters = (ins "int64_t":$tokens, "int64_t":$rows, "int64_t":$ids, "int64_t":$sorted);
  let genVerifyDecl = 1;
}

def Kernel_ScatterSumAttr : Kernel_Template<"ScatterSum", "scatter_sum"> {
  let summary = "sums of rows in the order that was sorted, the second part of a scatter (nano_scatter.h)";
  let description = [{
    Each of the `rows` rows of `columns` elements of `y` is the sum of those of the `tokens` rows of `x` that `sorted` assigns to it.

    Errors: sizes below 1.

    Example: `#kernel.scatter_sum<tokens = 128, rows = 1024, columns = 64, vector_rows = true, x = 0, sorted = 1, y = [2]>`
  }];
  let parameters = (ins "int64_t":$tokens, "int64_t":$rows, "int64_t":$columns, "bool":$vector_rows, "int64_t":$x, "int64_t":$sorted,
                        "::mlir::DenseI64ArrayAttr":$y);
  let genVerifyDecl = 1;
}

def Kernel_ScanAttr : Kernel_Template<"Scan", "scan"> {
  let summary = "running sums or maxima of a vector (nano_scan.h)";
  let description = [{
    Of the `size` numbers of buffer `x`, by one block, to each of the buffers `y`.

    Errors: a size below 1.

    Example: `#kernel.scan<size = 128, maximum = false, x = 0, y = [1]>`
  }];
  let parameters = (ins "int64_t":$size, "bool":$maximum, "int64_t":$x, "::mlir::DenseI64ArrayAttr":$y);
  let genVerifyDecl = 1;
}

def Kernel_RecurrenceAttr : Kernel_Template<"Recurrence", "recurrence"> {
  let summary = "the states of a recurrence (nano_recurrence.h)";
  let description = [{
    Of `nano.recurrence`: `sequences` sequences of `length` states of `channels` numbers, with the factors of buffer `a` and the terms of buffer `b`, where there are any; the states
    go to each of the buffers `h`. `vector` neighbouring elements, channels or, where there is one channel, states, lie at a multiple of their bytes in all of them.

    Errors: sizes below 1; vectors that do not divide the channels, or the length of one; neither factors nor terms.

    Example: `#kernel.recurrence<sequences = 2, length = 128, channels = 64, vector = 4, reverse = false, adjoint = false, initial = 0.0 : f64, b = 0, h = [1]>`
  }];
  let parameters = (ins "int64_t":$sequences, "int64_t":$length, "int64_t":$channels, "int64_t":$vector, "bool":$reverse, "bool":$adjoint,
                        "::mlir::FloatAttr":$initial, OptionalParameter<"std::optional<int64_t>">:$a, OptionalParameter<"std::optional<int64_t>">:$b,
                        "::mlir::DenseI64ArrayAttr":$h);
  let genVerifyDecl = 1;
}

/// Products with a band of tokens: of the op's two operands.
class Kernel_BandTemplate<string name, string mnemonicOf> : Kernel_Template<name, mnemonicOf> {
  let parameters = (ins "int64_t":$tokens, "int64_t":$heads, "int64_t":$size, "int64_t":$width, "bool":$transpose, "bool":$on_matrices,
                        "int64_t":$first, "int64_t":$second, "::mlir::DenseI64ArrayAttr":$y);
  let genVerifyDecl = 1;
}

def Kernel_BandScoresAttr : Kernel_BandTemplate<"BandScores", "band_scores"> {
  let summary = "products of rows with those of the tokens before them (nano_band.h)";
  let description = [{
    As `nano.band_scores`, of `tokens` rows of `heads` heads of `size` elements and the `width` tokens up to each; `on_matrices`: on tensor cores, which takes bf16 and
    rows at multiples of 16 bytes.

    Errors: sizes below 1.

    Example: `#kernel.band_scores<tokens = 128, heads = 2, size = 64, width = 8, transpose = false, on_matrices = false, first = 0, second = 1, y = [2]>`
  }];
}

def Kernel_BandProductAttr : Kernel_BandTemplate<"BandProduct", "band_product"> {
  let summary = "sums of the rows of the tokens in a band (nano_band.h)";
  let description = [{
    As `nano.band_product`, with the sizes of `#kernel.band_scores`.

    Errors: sizes below 1.

    Example: `#kernel.band_product<tokens = 128, heads = 2, size = 64, width = 8, transpose = true, on_matrices = true, first = 0, second = 1, y = [2]>`
  }];
}

def Kernel_TransposeAttr : Kernel_Call<"Transpose", "transpose", "nano_transpose.h", ["matrices", "p", "q"],
                                       ["in_matrix", "in_row", "out_matrix", "out_row"], ["is_vector"], ["x"], ["y"]> {
  let summary = "a copy between rows and columns (nano_transpose.h)";
  let description = [{
    Of `matrices` matrices of p × q elements: p is contiguous in buffer `x`, q in buffer `y`. The other fields are distances in elements, from a matrix to the next and from a row to the next;
    `is_vector`: all are multiples of 16 bytes.

    Errors: sizes below 1.

    Example: `#kernel.transpose<matrices = 1, p = 64, q = 128, in_matrix = 0, in_row = 64, out_matrix = 0, out_row = 128, is_vector = true, x = 0, y = 1>`
  }];
  let call = [{
  // Matrices, sizes, and strides of matrices and rows.
  constexpr nano::TransposeShape shape = {%matrices, %p, %q, %in_matrix, %in_row, %out_matrix, %out_row};
  nano::transpose<%is_vector>(work.begin, %x, %y, shape);
  }];
}

def Kernel_CustomAttr : Kernel_Template<"Custom", "custom", ["isAdded"]> {
  let summary = "a function of the model's own (nano_array.h)";
  let description = [{
    The kernel calls `function` with the buffers `inputs` and `outputs`; `cpu` and `cuda` are the texts that define it for a target. Of `added` each iteration adds to elements of its own.

    Errors: no function; an added output that is none of the outputs.

    Example: `#kernel.custom<function = "gate", cpu = "…", inputs = [0], outputs = [array<i64: 1>], added = []>`
  }];
  let parameters = (ins "::mlir::StringAttr":$function, OptionalParameter<"::mlir::StringAttr">:$cpu, OptionalParameter<"::mlir::StringAttr">:$cuda,
                        "::mlir::DenseI64ArrayAttr":$inputs, "::mlir::ArrayAttr":$outputs, "::mlir::DenseI64ArrayAttr":$added);
  let genVerifyDecl = 1;
}

#endif // NANO_IR_KERNEL_TEMPLATES_TD
