// Templates of the device library, each an attribute of a kernel with its parameters as named fields.
#ifndef NANO_IR_KERNEL_TEMPLATES_TD
#define NANO_IR_KERNEL_TEMPLATES_TD

include "ir/kernel/KernelEntry.td"

def Kernel_ProductAttr : Kernel_Template<"Product", "product", ["isAdded", "readsOtherPlaces", "getElementsReached"]> {
  let summary = "a matrix product, or two of the same A, with what follows (nano_matmul.h)";
  let description = [{
    Of matrices `a` and `b`, which the kernel has tensor maps of. `scales` are the buffers of 8-bit factors' two scales, of each product; empty: there are none. `epilogue` is a function beside the kernel: it takes neighbours of a
    row of each product, eight, or of a product of f32 four, and the elements at the same place of each of the buffers `others`, as vectors, or as a number where the buffer is one or has one for each row; its
    results go to the buffers of `results`: vectors, or a number that the neighbours add to a partial sum of their row. Behind a gradient, a product of 8 bits with a factor of f8E5M2,
    one of 8 bits may lie there with its rows as columns.

    | field | meaning |
    |---|---|
    | `rows`, `columns`, `inner` | rows and columns of the product, and what is summed over |
    | `transpose_a`, `transpose_b` | as `nano.matmul` |
    | `blocks` | blocks of the launch, which share all tiles |
    | `added` | which results, sums of f32, are added to what is in their place: the epilogue returns the other summand and does not read it |
    | `column_sum` | the result whose rows the template adds up; absent: none |
    | `largest` | the results of which the template finds the largest of blocks; absent: none |
    | `second` | the matrix B of a second product, of `a` and as many columns; absent: none |

    Errors: sizes below 1; another number of scales; a result, a sum or a maximum that is none of the results; a sum beside a second product.

    Example: `#kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [],
    others = [], results = [array<i64: 2>], added = [], epilogue = @k.epilogue>`
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns, "int64_t":$inner, "bool":$transpose_a, "bool":$transpose_b,
                        "int64_t":$blocks, "int64_t":$a, "int64_t":$b, "::mlir::DenseI64ArrayAttr":$scales, "::mlir::DenseI64ArrayAttr":$others,
                        "::mlir::ArrayAttr":$results, "::mlir::DenseI64ArrayAttr":$added, OptionalParameter<"::mlir::IntegerAttr">:$column_sum, OptionalParameter<"::mlir::DenseI64ArrayAttr">:$largest, OptionalParameter<"::mlir::IntegerAttr">:$second,
                        OptionalParameter<"::mlir::FlatSymbolRefAttr">:$epilogue);
  let genVerifyDecl = 1;
  let extraClassDeclaration = "::llvm::SmallVector<TemplateMap> getMaps(::mlir::TypeRange buffers) const;";
}

/// What attention and its gradients are of, in both.
defvar attentionFields = [
    Size<"tokens">, Size<"heads">, Size<"key_heads">, Size<"head_size">, Size<"value_size">, Flag<"vector_rows">, Size<"multiprocessors">, Real<"scale">,
    Read<"q">, Read<"k">, Read<"v">, Read<"first">, Read<"last">];
defvar attentionErrors = [{
  if (key_heads > 0 && heads % key_heads != 0)
    return emitError() << "an attention of " << heads << " heads, which cannot share " << key_heads << " heads of keys evenly";
}];
/// Of what comes along: outputs or gradients, by their fields.
defvar attentionReach = [{
  Reach reach(position);
  reach.of(q, {tokens, heads, head_size}).of(k, {tokens, key_heads, head_size}).of(v, {tokens, key_heads, value_size});
  reach.of(first, {tokens}).of(last, {tokens}).of(lse, {tokens, heads}).of(tickets, {1});
}];
defvar attentionShape = [{
  nano::AttentionShape shape{tokens, heads, key_heads, int(head_size), int(value_size), /*isBf16=*/true, vector_rows, bool(score), int(multiprocessors)};
  shape.hasMaps = true;
}];
defvar attentionDefinition = [{
struct Attention {
  using Element = %q.type;
  static constexpr int tokens = %tokens, heads = %heads, keyHeads = %key_heads, headSize = %head_size, valueSize = %value_size,
                       multiprocessors = %multiprocessors;
  static constexpr bool vectorRows = %vector_rows;
  static constexpr float scale = %scale;
  static constexpr bool hasScore = %score.given;
  %score
}];
defvar attentionOperands = [{
  x.q = %q.view;
  x.k = %k.view;
  x.v = %v.view;
  x.first = %first.view;
  x.last = %last.view;
}];

def Kernel_SymmetricAttr : Kernel_Entry<"Symmetric", "symmetric", "nano_symmetric.h",
    [Size<"matrices">, Size<"size">, Size<"inner">, Size<"blocks">, Flag<"transpose">, Real<"alpha">, Real<"beta">, Read<"x">, ReadIfAny<"d">, Write<"c">],
    "a symmetric product"> {
  let summary = "a symmetric matrix product (nano_symmetric.h)";
  let description = [{
    c = alpha·op(x)·op(x)ᵀ + beta·d, of bf16, for each of `matrices` matrices that lie one behind the other: x is [size, inner] or, with `transpose`, [inner, size], of which the kernel has two tensor
    maps; d, where there is one, is symmetric, and so is c to the bit.

    | field | meaning |
    |---|---|
    | `blocks` | blocks of the launch, which share all tiles |

    Errors: sizes below 1.

    Example: `#kernel.symmetric<matrices = 2, size = 128, inner = 64, blocks = 4, transpose = false, alpha = 1.0 : f64, beta = 1.0 : f64, x = 0, c = 1>`
  }];
  let reach = "return Reach(position).of(x, {matrices, size, inner}).of(d, {matrices, size, size}).of(c, {matrices, size, size});";
  let maps = "return symmetricMaps(buffers, x, matrices, size, inner, transpose);";
  let definition = [{
struct Symmetric {
  static constexpr int matrices = %matrices, size = %size, inner = %inner, blocks = %blocks;
  static constexpr bool transpose = %transpose, hasAddend = %d.given;
  static constexpr float alpha = %alpha, beta = %beta;
};
}];
  let call = [{%if(d)nano::symmetricProduct<Symmetric>(int(work.begin), maps.map[0], maps.map[1], %d, %c);
%unless(d)nano::symmetricProduct<Symmetric>(int(work.begin), maps.map[0], maps.map[1], nullptr, %c);
  }];
}

defvar expMatmulErrors = [{
  if (columns % 128 != 0)
    return emitError() << "a product's exponentials of " << columns << " columns, which are no multiple of 128";
}];

def Kernel_ExpMatmulAttr : Kernel_Entry<"ExpMatmul", "exp_matmul", "nano_exp_matmul.h",
    [Size<"rows">, Size<"columns">, Size<"inner">, Size<"kept">, Size<"blocks">, Read<"x">, Read<"w">, Read<"targets">, Read<"shift">, WriteEach<"e">, Write<"parts">],
    "a product's exponentials"> {
  let summary = "exponentials of a product's rows (nano_exp_matmul.h)";
  let description = [{
    As `nano.exp_matmul` with `kept` columns, but for rows with a number that lies far above its shift, where that is left in `e` with a minus. `parts` are the sums of every 128 columns of a row.
    The kernel has tensor maps of x and w.

    | field | meaning |
    |---|---|
    | `blocks` | blocks of the launch, which share all tiles |

    Errors: sizes below 1; columns that are no multiple of 128, or fewer than are kept.

    Example: `#kernel.exp_matmul<rows = 256, columns = 128, inner = 64, kept = 100, blocks = 2, x = 0, w = 1, targets = 2, shift = 3, e = [4], parts = 5>`
  }];
  let errors = !strconcat(expMatmulErrors, [{
  if (kept > columns)
    return emitError() << "a product's exponentials with " << kept << " of " << columns << " columns";
}]);
  let reach = [{
  if (position == x || position == w)
    return extent({position == x ? rows : columns, inner});
  if (position == targets || position == shift)
    return extent({rows});
  return position == parts ? extent({rows, columns / 128}) : extent({rows, columns});
  }];
  let maps = "return {mapOfRows(buffers, x, rows, inner), mapOfColumns(buffers, w, inner, columns, /*isTransposed=*/true)};";
  let definition = [{
struct Exponentials {
  static constexpr int rows = %rows, columns = %columns, inner = %inner, kept = %kept, blocks = %blocks, places = %e.count;
};
}];
  let call = [{
  nano::ExpMatmul<Exponentials> x;
  x.targets = %targets.view;
  x.shift = %shift.view;
  x.e[%e.place] = %e.view;
  x.parts = %parts;
  nano::expMatmul(int(work.begin), maps.map, x);
  }];
}

def Kernel_ExpSumsAttr : Kernel_Entry<"ExpSums", "exp_sums", "nano_exp_matmul.h",
    [Size<"rows">, Size<"columns">, Read<"parts">, AddAll<"e">, WriteEach<"sum">, WriteEach<"largest">], "sums of exponentials", ["isAdded"]> {
  let summary = "sums of a product's exponentials, with rows that a shift was too small for (nano_exp_matmul.h)";
  let description = [{
    Of what `#kernel.exp_matmul` has left in `parts` and in the matrices `e`, which are equal, the results of `nano.exp_matmul`.

    Errors: sizes below 1; columns that are no multiple of 128.

    Example: `#kernel.exp_sums<rows = 256, columns = 128, parts = 0, e = [1], sum = [2], largest = [3]>`
  }];
  let errors = expMatmulErrors;
  let reach = [{
  if (position == parts)
    return extent({rows, columns / 128});
  return ::llvm::is_contained(e.asArrayRef(), position) ? extent({rows, columns}) : extent({rows});
  }];
  let definition = [{
struct Exponentials {
  static constexpr int rows = %rows, columns = %columns, places = %e.count;
};
}];
  let call = [{
  nano::ExpSumsOperands<Exponentials, %sum.count, %largest.count> x;
  x.parts = %parts;
  x.e[%e.place] = %e.view;
  x.sum[%sum.place] = %sum.view;
  x.largest[%largest.place] = %largest.view;
  nano::expMatmulSums<Exponentials, %threads>(work.begin, x);
  }];
}

/// Of groups of rows, of operands `first` and results `result`.
class GroupedDefinition<string first, string result, string more = ""> {
  string text = !strconcat("struct Grouped {\n  using Element = %", first, ".type;\n  using Result = %", result, [{.type;
  static constexpr int rows = %rows, groups = %groups, columns = %columns, inner = %inner;
}], more, [{%if(blocks)  static constexpr int blocks = %blocks;
%unless(blocks)  static constexpr int blocks = 0;
};
}]);
}

def Kernel_GroupedMatmulAttr : Kernel_Entry<"GroupedMatmul", "grouped_matmul", "nano_grouped.h",
    [Size<"rows">, Size<"groups">, Size<"columns">, Size<"inner">, Flag<"transpose">, NumberIfAny<"blocks">, Read<"x">, Read<"w">, Read<"ends">, WriteEach<"y">],
    "a grouped product"> {
  let summary = "products of groups of rows with a matrix each (nano_grouped.h)";
  let description = [{
    As `nano.grouped_matmul`: x is [rows, inner], w [groups, inner, columns] or, with `transpose`, [groups, columns, inner], y [rows, columns].

    | field | meaning |
    |---|---|
    | `blocks` | on tensor cores: blocks of the launch, which share all tiles; the kernel has tensor maps of x and of the matrices of w one behind the other. Absent: multiply-adds compute it, a tile an iteration |

    Errors: sizes below 1.

    Example: `#kernel.grouped_matmul<rows = 256, groups = 4, columns = 128, inner = 64, transpose = true, blocks = 8, x = 0, w = 1, ends = 2, y = [3]>`
  }];
  let reach = "return Reach(position).of(x, {rows, inner}).of(w, {groups, columns, inner}).of(ends, {groups}).of(y, {rows, columns});";
  let maps = [{
  if (!blocks)
    return {};
  return groupedMatmulMaps(buffers, x, w, rows, groups, columns, inner, transpose);
  }];
  let definition = GroupedDefinition<"x", "y", "  static constexpr bool transpose = %transpose;\n">.text;
  let call = [{
  nano::GroupedMatmul<Grouped, %y.count> x;
  x.x = %x.view;
  x.w = %w.view;
  x.ends = %ends.view;
  x.y[%y.place] = %y.view;
%if(blocks)  nano::groupedMatmul(int(work.begin), maps.map, x);
%unless(blocks)  nano::plainGroupedMatmul(work.begin, x);
  }];
}

def Kernel_GroupedOuterAttr : Kernel_Entry<"GroupedOuter", "grouped_outer", "nano_grouped.h",
    [Size<"rows">, Size<"groups">, Size<"columns">, Size<"inner">, NumberIfAny<"blocks">, Read<"a">, Read<"b">, Read<"ends">, WriteEach<"w">],
    "sums of outer products"> {
  let summary = "sums over groups of rows of their outer products (nano_grouped.h)";
  let description = [{
    As `nano.grouped_outer`: a is [rows, inner], b [rows, columns], w [groups, inner, columns]. `blocks` as in `#kernel.grouped_matmul`, with tensor maps of a and b.

    Errors: sizes below 1.

    Example: `#kernel.grouped_outer<rows = 256, groups = 4, columns = 128, inner = 64, blocks = 8, a = 0, b = 1, ends = 2, w = [3]>`
  }];
  let reach = "return Reach(position).of(a, {rows, inner}).of(b, {rows, columns}).of(ends, {groups}).of(w, {groups, inner, columns});";
  let maps = [{
  if (!blocks)
    return {};
  return groupedOuterMaps(a, b, rows, columns, inner);
  }];
  let definition = GroupedDefinition<"a", "w">.text;
  let call = [{
  nano::GroupedOuter<Grouped, %w.count> x;
  x.a = %a.view;
  x.b = %b.view;
  x.ends = %ends.view;
  x.w[%w.place] = %w.view;
%if(blocks)  nano::groupedOuter(int(work.begin), maps.map, x);
%unless(blocks)  nano::plainGroupedOuter(work.begin, x);
  }];
}

def Kernel_SplitAttr : Kernel_Entry<"Split", "split", "nano_split.h",
    [Sizes<"rows">, Sizes<"columns">, Size<"inner">, Size<"blocks">, ReadAll<"a">, ReadAll<"b">, WriteAll<"c">, AddAll<"sums">, Add<"counts">],
    "split products", ["isAdded"]> {
  let summary = "matrix products with a long inner dimension, in one launch (nano_split.h)";
  let description = [{
    Of each i, c[i] = a[i]ᵀ·b[i] or sums[i] += a[i]ᵀ·b[i]: a[i] is [inner, rows[i]] and b[i] is [inner, columns[i]], of bf16, and the kernel has tensor maps of both, one behind the other; results are of
    f32, without gaps. Tiles are cut along the inner dimension so that all clusters of blocks work equally long. `counts` are zeros before the launch, as many as nano_split_shape.h says.

    | field | meaning |
    |---|---|
    | `blocks` | blocks of the launch, which share all tiles |

    Errors: sizes below 1; lists of other lengths; both `c` and `sums`, or neither.

    Example: `#kernel.split<rows = [128, 64], columns = [64, 64], inner = 4096, blocks = 4, a = [0, 1], b = [2, 2], c = [3, 4], sums = [], counts = 5>`
  }];
  let errors = [{
  const int64_t products = rows.size();
  if (columns.size() != products || a.size() != products || b.size() != products)
    return emitError() << "split products, " << products << " by their rows, with other numbers of columns or operands";
  if (c.size() + sums.size() != products || (!c.empty() && !sums.empty()))
    return emitError() << "split products, " << products << " by their rows, with results for " << c.size() << " and sums for " << sums.size();
  for (::mlir::DenseI64ArrayAttr sizes : {rows, columns})
    if (failed(verifySizes(emitError, "split products", sizes)))
      return ::mlir::failure();
}];
  let reach = [{
  for (int64_t i = 0; i < rows.size(); ++i) {
    if (position == a[i] || position == b[i])
      return extent({inner, position == a[i] ? rows[i] : columns[i]});
    if (position == (sums.empty() ? c[i] : sums[i]))
      return extent({rows[i], columns[i]});
  }
  return position == counts ? splitCounts(rows, columns) : 0;
  }];
  let maps = [{
  ::llvm::SmallVector<TemplateMap> maps;
  for (int64_t i = 0; i < rows.size(); ++i)
    for (auto [factor, across] : {std::pair(a[i], rows[i]), std::pair(b[i], columns[i])})
      maps.push_back(splitMap(buffers, factor, inner, across));
  return maps;
  }];
  let definition = [{
struct Split {
  static constexpr int count = %a.count, inner = %inner, blocks = %blocks;
  static constexpr bool adds = %sums.given;
  static NANO_DEVICE constexpr int rows(int i) {
    constexpr int all[] = {%rows};
    return all[i];
  }
  static NANO_DEVICE constexpr int columns(int i) {
    constexpr int all[] = {%columns};
    return all[i];
  }
};
}];
  let call = [{  nano::SplitResults<Split::count> results;
  results.c[%c.place] = %c;
  results.c[%sums.place] = %sums;
  nano::splitProducts<Split>(maps.map, results, %counts);
  }];
}

def Kernel_AttentionAttr : Kernel_Entry<"Attention", "attention", "nano_attention.h",
    !listconcat(attentionFields, [
        WriteEach<"y">, WriteEach<"lse">, AddIfAny<"tickets">, NumberIfAny<"row">, FunctionIfAny<"score", "score", ["s", "query", "key", "head"]>, NumberIfAny<"tiles">]),
    "an attention", ["isAdded"]> {
  let summary = "causal attention within ranges of keys (nano_attention.h)";
  let description = [{
    As `nano.attention`: of `tokens` queries in `heads` heads of `head_size` elements, which share `key_heads` heads of keys and values, those of `value_size` elements; buffers `first` and `last` hold the range of keys
    of each query. `score`, where there is one, is a function beside the kernel: of a score, a query, a key and a head. With `tickets`, a number that is zero before the launch, the kernel has tensor maps
    of q, k and v, and its blocks take the next tile of queries when they come to it; with `row` besides, queries see the keys of their own row of so many tokens up to themselves, whatever `first` and `last` say.

    | field | meaning |
    |---|---|
    | `vector_rows` | rows of a head are contiguous and begin at multiples of 16 bytes |
    | `multiprocessors` | of the GPU: for its speed, not for the results |
    | `tiles` | which of the candidates for tiles (nano_attention_shape.h), 0 without it: for its speed alone |
    | `scale` | what products of queries and keys are multiplied by |
    | `y`, `lse` | where the outputs go, and the logarithms of the sums of exponentials |

    Errors: sizes below 1; heads that are no multiple of the heads of keys; `row` without `tickets`, that is no multiple of 64, or of which `tokens` are none.

    Example: `#kernel.attention<tokens = 128, heads = 4, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 132, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3,
    last = 4, y = [5], lse = [6]>`
  }];
  let errors = !strconcat([{
  if (row && !tickets)
    return emitError() << "an attention in rows without tickets";
  if (row && (*row < 64 || *row % 64 != 0 || tokens % *row != 0))
    return emitError() << "an attention of " << tokens << " tokens in rows of " << *row << ": they are rows of a multiple of 64 tokens";
}], attentionErrors);
  let reach = !strconcat(attentionReach, "  return reach.of(y, {tokens, heads, value_size});");
  let maps = !strconcat("  if (!tickets)\n    return {};\n", attentionShape, [{
  shape.tiles = int(tiles.value_or(0));
  shape.row = row.value_or(0);
  const nano::AttentionBoxes boxes = nano::attentionBoxes(shape);
  return attentionMaps(buffers, shape, {q, k, v}, {boxes.queries, boxes.keys, boxes.keys});
  }]);
  let definition = !strconcat(attentionDefinition, "  static constexpr int tiles = %tiles;\n%if(tickets)  static constexpr bool hasMaps = true;\n%if(row)  static constexpr int row = %row;\n};");
  let call = !strconcat("  nano::AttentionOperands<Attention, %y.count, %lse.count> x;", attentionOperands, [{  x.y[%y.place] = %y.view;
  x.lse[%lse.place] = %lse.view;
  x.tickets = %tickets;
  %if(tickets)x.maps = maps.map;
  nano::attentionForward<Attention>(work.begin, x);
  }]);
}

def Kernel_AttentionGradAttr : Kernel_Entry<"AttentionGrad", "attention_grad", "nano_attention.h",
    !listconcat(attentionFields, [
        Read<"lse">, Read<"delta">, Read<"dy">, WriteEach<"dq">, WriteEach<"dk">, WriteEach<"dv">, WriteIfAny<"dq_sums">, WriteIfAny<"dk_sums">, WriteIfAny<"dv_sums">, WriteIfAny<"partial">, AddIfAny<"counts">, AddIfAny<"tickets">, NumberIfAny<"row">,
        FunctionIfAny<"score", "score", ["s", "query", "key", "head"]>, FunctionIfAny<"score_grad", "scoreGrad", ["s", "query", "key", "head", "gradient"]>, NumberIfAny<"tiles">,
        NumberIfAny<"box_rows">]),
    "an attention", ["isAdded"]> {
  let summary = "the gradients of attention (nano_attention.h)";
  let description = [{
    As `nano.attention_grad`, with the fields of `#kernel.attention`. `lse` is what the forward pass wrote, `delta` the sum of each query's outputs times their gradients `dy`;
    `score_grad` is a function of the arguments of `score` and the gradient of its result. With `partial` and `counts`, both or neither, one pass over the scores gives all
    three gradients in five products for seven: sums of dq in f32 in `partial`, in an order that `counts` keep, which are zeros before the launch; with `row` besides, queries see the keys of
    their own row of so many tokens up to themselves, whatever `first` and `last` say. With `box_rows`, the rows of their boxes, the kernel has tensor maps of q, k, v and dy, and with `tickets` besides, a number that is zero before the launch, its blocks take the next block of tokens when they come to it.
    With `dq_sums`, `dk_sums` and `dv_sums`, any of them, the sums of the columns of dq, dk and dv over each 64 tokens, in f32, go there.

    Errors: as `#kernel.attention`; a score without its gradient, or the other way round; likewise `partial` and `counts`, and these beside a score, or, without `row`, heads that share keys
    or values of another size; `tickets` beside them or without `box_rows`; `row` without them or `box_rows`, that is no multiple of 128, of which `tokens` are none, or beside heads or values of more than 128, or one of up to 64 and the other of more; sums of columns without `vector_rows`, or of `tokens` that are
    no multiple of 64.

    Example: `#kernel.attention_grad<tokens = 128, heads = 4, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 132, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3,
    last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10]>`
  }];
  let errors = !strconcat([{
  if (partial.has_value() != counts.has_value())
    return emitError() << "gradients of an attention with sums and no counts of them, or the other way round";
  if (partial && (score || (!row && (heads != key_heads || head_size != value_size))))
    return emitError() << "gradients of an attention with sums beside a score, or without rows beside heads that share keys or values of another size";
  if (tickets && (partial || !box_rows))
    return emitError() << "gradients of an attention with tickets beside sums, or without tensor maps";
  if (row && (!partial || !box_rows))
    return emitError() << "gradients of an attention in rows without sums or without tensor maps";
  if (row && (*row < 128 || *row % 128 != 0 || tokens % *row != 0))
    return emitError() << "gradients of an attention of " << tokens << " tokens in rows of " << *row << ": they are rows of a multiple of 128 tokens";
  if (row && ((head_size <= 64) != (value_size <= 64) || head_size > 128 || value_size > 128))
    return emitError() << "gradients of an attention in rows with heads of " << head_size << " and values of " << value_size << ": both are of up to 64 or both of 65 to 128";
  if ((dq_sums || dk_sums || dv_sums) && (!vector_rows || tokens % 64 != 0))
    return emitError() << "gradients of an attention with sums of columns of " << tokens << " tokens: they take vector_rows and a multiple of 64 tokens";
  if (!score != !score_grad)
    return emitError() << "gradients of an attention with a score and no gradient of it, or the other way round";
}], attentionErrors);
  let reach = !strconcat(attentionReach, [{
  reach.of(delta, {tokens, heads}).of(dy, {tokens, heads, value_size});
  reach.of(dq, {tokens, heads, head_size}).of(dk, {tokens, key_heads, head_size}).of(dv, {tokens, key_heads, value_size});
  const int64_t parts = tokens / 64;
  if (position == partial || position == counts)
    return attentionInFiveReach(tokens, heads, key_heads, head_size, value_size, multiprocessors, row, position == counts);
  return reach.of(dq_sums, {parts, heads, head_size}).of(dk_sums, {parts, key_heads, head_size}).of(dv_sums, {parts, key_heads, value_size});
  }]);
  let maps = !strconcat("  if (!box_rows)\n    return {};\n", attentionShape, [{
  shape.tiles = int(tiles.value_or(0));
  const int rows = nano::attentionGradBoxRows(shape);
  return attentionMaps(buffers, shape, {q, k, v, dy}, {rows, rows, rows, rows});
  }]);
  let definition = !strconcat(attentionDefinition, "  %score_grad\n  static constexpr int tiles = %tiles;\n%if(box_rows)  static constexpr bool hasMaps = true;\n%if(tickets)  static constexpr bool hasTickets = true;\n%if(row)  static constexpr int row = %row;\n%if(dq_sums)  static constexpr bool sumsQueries = true;\n%if(dk_sums)  static constexpr bool sumsKeys = true;\n%if(dv_sums)  static constexpr bool sumsValues = true;\n};");
  let call = !strconcat("  nano::AttentionGradOperands<Attention, %dq.count, %dk.count, %dv.count> x;", attentionOperands, [{  x.lse = %lse.view;
  x.delta = %delta.view;
  x.dy = %dy.view;
  x.dq[%dq.place] = %dq.view;
  x.dk[%dk.place] = %dk.view;
  x.dv[%dv.place] = %dv.view;
  x.dqSums = %dq_sums.view;
  x.dkSums = %dk_sums.view;
  x.dvSums = %dv_sums.view;
  x.partial = %partial;
  x.counts = %counts;
  x.tickets = %tickets;
  %if(box_rows)x.maps = maps.map;
  %if(partial)nano::attentionBackwardInFive<Attention>(x);
  %unless(partial)nano::attentionBackward<Attention>(work.begin, x);
  }]);
}

def Kernel_ScatterSortAttr : Kernel_Entry<"ScatterSort", "scatter_sort", "nano_scatter.h", [Size<"tokens">, Size<"rows">, Read<"ids">, Write<"sorted">],
                                          "a scatter"> {
  let summary = "the order in which rows are added up, the first part of a scatter (nano_scatter.h)";
  let description = [{
    Sorts the `tokens` numbers below `rows` of buffer `ids` into the scratch memory `sorted`.

    Errors: sizes below 1.

    Example: `#kernel.scatter_sort<tokens = 128, rows = 1024, ids = 0, sorted = 1>`
  }];
  // The sort does not depend on the columns.
  let reach = "return position == ids ? tokens : scatterScratch(tokens, rows);";
  let definition = [{
struct Scatter {
  static constexpr int tokens = %tokens, rows = %rows, columns = 8;
  static constexpr bool vectorRows = true;
};
  }];
  let call = [{
  nano::scatterSort<Scatter>(work.begin, %ids.view, %sorted);
  }];
}

def Kernel_ScatterSumAttr : Kernel_Entry<"ScatterSum", "scatter_sum", "nano_scatter.h", [
    Size<"tokens">, Size<"rows">, Size<"sorted_rows">, Size<"columns">, Flag<"vector_rows">, Read<"x">, Read<"sorted">, WriteEach<"y">], "a scatter"> {
  let summary = "sums of rows in the order that was sorted, the second part of a scatter (nano_scatter.h)";
  let description = [{
    Each of the `rows` rows of `columns` elements of `y` is the sum of those of the `tokens` rows of `x` that `sorted` assigns to it, which knows `sorted_rows`; those behind `rows` are left alone.

    Errors: sizes below 1; more rows than `sorted` knows.

    Example: `#kernel.scatter_sum<tokens = 128, rows = 1024, sorted_rows = 1024, columns = 64, vector_rows = true, x = 0, sorted = 1, y = [2]>`
  }];
  let errors = [{
  if (rows > sorted_rows)
    return emitError() << "a scatter to " << rows << " rows, of which " << sorted_rows << " are sorted";
  }];
  let reach = "return position == sorted ? scatterScratch(tokens, sorted_rows) : extent({position == x ? tokens : rows, columns});";
  let definition = [{
struct Scatter {
  using Element = %x.type;
  using Result = %y.type;
  static constexpr int tokens = %tokens, rows = %rows, sortedRows = %sorted_rows, columns = %columns;
  static constexpr bool vectorRows = %vector_rows;
};
  }];
  let call = [{
  nano::ScatterOperands<Scatter, %y.count> x;
  x.x = %x.view;
  x.scratch = %sorted;
  x.y[%y.place] = %y.view;
  nano::scatterSum<Scatter>(work.begin, x);
  }];
}

def Kernel_ScanAttr : Kernel_Entry<"Scan", "scan", "nano_scan.h", [Size<"size">, Flag<"maximum">, Read<"x">, WriteEach<"y">], "a scan"> {
  let summary = "running sums or maxima of a vector (nano_scan.h)";
  let description = [{
    Of the `size` numbers of buffer `x`, by one block, to each of the buffers `y`.

    Errors: a size below 1.

    Example: `#kernel.scan<size = 128, maximum = false, x = 0, y = [1]>`
  }];
  let reach = "return size;";
  let call = [{
  nano::scan<%threads, %maximum>(%size, %x, %x.stride, %y, %y.stride);
  }];
}

def Kernel_ArgsortAttr : Kernel_Entry<"Argsort", "argsort", "nano_argsort.h", [Size<"rows">, Size<"columns">, Flag<"is_shared">, Read<"x">, WriteEach<"y">], "an order"> {
  let summary = "the order of the numbers of rows (nano_argsort.h)";
  let description = [{
    As `nano.argsort`, of `rows` rows of `columns` numbers, a block each. `is_shared`: a row is sorted in shared memory, of eight bytes a column, and else where it goes.

    Errors: a size below 1.

    Example: `#kernel.argsort<rows = 8, columns = 64, is_shared = true, x = 0, y = [1]>`
  }];
  let reach = "return extent({rows, columns});";
  let call = [{
  nano::ArgsortOperands<%x.type, %y.count> x;
  x.x = %x.view;
  x.y[%y.place] = %y.view;
  nano::argsort<%threads, %columns, %is_shared>(work.begin, x);
  }];
}

def Kernel_SparsemaxAttr : Kernel_Entry<"Sparsemax", "sparsemax", "nano_sparsemax.h", [Size<"rows">, Size<"columns">, Size<"vector">, Read<"x">, WriteEach<"y">],
    "a projection"> {
  let summary = "the projections of rows onto the simplex (nano_sparsemax.h)";
  let description = [{
    As `nano.sparsemax`, of `rows` rows of `columns` numbers, a block each. `vector` neighbouring columns lie at a multiple of their bytes in all buffers.

    Errors: a size below 1; vectors that do not divide the columns.

    Example: `#kernel.sparsemax<rows = 8, columns = 64, vector = 4, x = 0, y = [1]>`
  }];
  let errors = [{
  if (vector > 0 && columns % vector != 0)
    return emitError() << "a projection in vectors of " << vector << " that do not divide " << columns << " columns";
  }];
  let reach = "return extent({rows, columns});";
  let call = [{
  nano::SparsemaxOperands<%x.type, %y.count> x;
  x.x = %x.view;
  x.y[%y.place] = %y.view;
  nano::sparsemax<%threads, %columns, %vector>(work.begin, x);
  }];
}

def Kernel_RecurrenceAttr : Kernel_Entry<"Recurrence", "recurrence", "nano_recurrence.h", [
    Size<"sequences">, Size<"length">, Size<"channels">, Size<"vector">, Size<"multiprocessors">, Flag<"reverse">, Flag<"adjoint">, Real<"initial">, ReadIfAny<"a">, ReadIfAny<"b">,
    WriteEach<"h">], "a recurrence"> {
  let summary = "the states of a recurrence (nano_recurrence.h)";
  let description = [{
    Of `nano.recurrence`: `sequences` sequences of `length` states of `channels` numbers, with the factors of buffer `a` and the terms of buffer `b`, where there are any; the states
    go to each of the buffers `h`. `vector` neighbouring elements, channels or, where there is one channel, states, lie at a multiple of their bytes in all of them. `multiprocessors`: of the GPU, by
    which blocks share a sequence, and results' last bits differ.

    Errors: sizes below 1; vectors that do not divide the channels, or the length of one; neither factors nor terms.

    Example: `#kernel.recurrence<sequences = 2, length = 128, channels = 64, vector = 4, multiprocessors = 132, reverse = false, adjoint = false, initial = 0.0 : f64, b = 0, h = [1]>`
  }];
  let errors = [{
  if (!a && !b)
    return emitError() << "a recurrence without factors and without terms";
  if (const int64_t across = channels == 1 ? length : channels; vector > 0 && across % vector != 0)
    return emitError() << "a recurrence in vectors of " << vector << " that do not divide " << across;
  }];
  let reach = "return extent({sequences, length, channels});";
  let definition = [{
struct Recurrence {
  using Element = %a|b.type;
  static constexpr int sequences = %sequences, length = %length, channels = %channels;
  static constexpr int vector = %vector, multiprocessors = %multiprocessors;
  static constexpr bool hasFactor = %a.given, hasTerm = %b.given, reverse = %reverse, adjoint = %adjoint;
  static constexpr float initial = %initial;
};
  }];
  let call = [{
  nano::RecurrenceOperands<Recurrence, %h.count> x;
  x.a = %a.view;
  x.b = %b.view;
  x.h[%h.place] = %h.view;
  nano::recurrence<Recurrence>(work.begin, x);
  }];
}

/// Products with a band of tokens: of the op's two operands, by the device library's `function`.
class Kernel_BandTemplate<string name, string mnemonicOf, string function, string columnsOfFirst, string columnsOfResult> : Kernel_Entry<name, mnemonicOf, "nano_band.h", [
    Size<"tokens">, Size<"heads">, Size<"size">, Size<"width">, Size<"multiprocessors">, Flag<"transpose">, Flag<"on_matrices">, Read<"first">, Read<"second">, WriteEach<"y">], "a band"> {
  let reach = !strconcat("return extent({tokens, heads, position == second ? size : position == first ? ", columnsOfFirst, " : ", columnsOfResult, "});");
  let definition = [{
struct Band {
  using First = %first.type;
  using Second = %second.type;
  using Result = %y.type;
  static constexpr int tokens = %tokens, heads = %heads, size = %size, width = %width;
  static constexpr int multiprocessors = %multiprocessors;
  static constexpr bool transpose = %transpose, onMatrices = %on_matrices;
};
  }];
  let call = !strconcat([{
  nano::BandOperands<Band, %y.count> x;
  x.first = %first.view;
  x.second = %second.view;
  x.y[%y.place] = %y.view;
}], "  nano::", function, "<Band>(work.begin, x);");
}

def Kernel_BandScoresAttr : Kernel_BandTemplate<"BandScores", "band_scores", "bandScores", "size", "width"> {
  let summary = "products of rows with those of the tokens before them (nano_band.h)";
  let description = [{
    As `nano.band_scores`, of `tokens` rows of `heads` heads of `size` elements and the `width` tokens up to each; `on_matrices`: on tensor cores, which takes
    rows at multiples of 16 bytes; of f32 each number goes in as two. `multiprocessors`: of the GPU, for its speed, not for the results.

    Errors: sizes below 1.

    Example: `#kernel.band_scores<tokens = 128, heads = 2, size = 64, width = 8, multiprocessors = 132, transpose = false, on_matrices = false, first = 0, second = 1, y = [2]>`
  }];
}

def Kernel_BandProductAttr : Kernel_BandTemplate<"BandProduct", "band_product", "bandProduct", "width", "size"> {
  let summary = "sums of the rows of the tokens in a band (nano_band.h)";
  let description = [{
    As `nano.band_product`, with the sizes of `#kernel.band_scores`.

    Errors: sizes below 1.

    Example: `#kernel.band_product<tokens = 128, heads = 2, size = 64, width = 8, multiprocessors = 132, transpose = true, on_matrices = true, first = 0, second = 1, y = [2]>`
  }];
}

def Kernel_TransposeAttr : Kernel_Entry<"Transpose", "transpose", "nano_transpose.h", [
    Size<"matrices">, Size<"p">, Size<"q">, Number<"in_matrix">, Number<"in_row">, Number<"out_matrix">, Number<"out_row">, Flag<"is_vector">,
    Read<"x">, Write<"y">], "a transpose"> {
  let summary = "a copy between rows and columns (nano_transpose.h)";
  let description = [{
    Of `matrices` matrices of p × q elements: p is contiguous in buffer `x`, q in buffer `y`. The other fields are distances in elements, from a matrix to the next and from a row to the next;
    `is_vector`: all are multiples of 16 bytes.

    Errors: sizes below 1.

    Example: `#kernel.transpose<matrices = 1, p = 64, q = 128, in_matrix = 0, in_row = 64, out_matrix = 0, out_row = 128, is_vector = true, x = 0, y = 1>`
  }];
  let reach = [{
  const bool reads = position == x;
  return llvm::SaturatingAdd<uint64_t>(extent({matrices - 1, reads ? in_matrix : out_matrix}),
                                       extent({(reads ? q : p) - 1, reads ? in_row : out_row}), reads ? p : q);
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
