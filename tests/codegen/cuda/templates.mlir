// RUN: nano-opt %s -nano-lower-kernels="target=cuda split-products" -split-input-file | FileCheck %s --check-prefix=IR
// RUN: nano-opt %s -nano-lower-kernels="target=cuda split-products" -nano-print-cuda -split-input-file -o /dev/null | FileCheck %s

// Attention is the device library's template; its score region is a function of the struct.
// IR-LABEL: step.program @attention
// IR:         step.launch @attention_{{.*}} {iterations = array<i64: {{[0-9]+}}>}
// IR:       func.func private @attention_{{.*}}.score(
// IR:       kernel.func @attention_{{.*}} attributes {{{.*}}instantiates = #kernel.attention<tokens = 128, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 132, scale = {{[^,]+}}, q = 0, k = 1, v = 2, first = 3, last = 4, {{.*}}score = @attention_{{.*}}.score>
// CHECK-LABEL: // attention
// CHECK:       #include "nano_attention.h"
// CHECK:       struct Attention {
// CHECK-NEXT:    using Element = nano::bf16;
// CHECK-NEXT:    static constexpr int tokens = 128, heads = 2, keyHeads = 2, headSize = 64,
// CHECK-NEXT:                         multiprocessors = 132;
// CHECK-NEXT:    static constexpr bool vectorRows = true;
// CHECK-NEXT:    static constexpr float scale = 0.12f;
// CHECK-NEXT:    static constexpr bool hasScore = true;
// CHECK-NEXT:    static NANO_DEVICE float score(float s, int query, int key, int head) {
// CHECK-NEXT:      return nano::tanh(s);
// CHECK:       __launch_bounds__(384
// CHECK:         nano::AttentionOperands<Attention, 1, 1> x;
// CHECK-NEXT:    x.q = {q, 384, 64, 1};
// CHECK:         x.y[0] = {y, 128, 64, 1};
// CHECK-NEXT:    x.lse[0] = {lse, 2, 1};
// CHECK-NEXT:    x.tickets = tickets;
// CHECK-NEXT:    x.maps = maps.map;
// CHECK-NEXT:    nano::attentionForward<Attention>(work.begin, x);
step.program @attention {
  %b = step.buffer "q" : memref<128x3x2x64xbf16>
  %q = step.view %b : memref<128x3x2x64xbf16> to memref<128x2x64xbf16, strided<[384, 64, 1]>>
  %k = step.buffer "k" : memref<128x2x64xbf16>
  %v = step.buffer "v" : memref<128x2x64xbf16>
  %f = step.buffer "first" : memref<128xi32>
  %l = step.buffer "last" : memref<128xi32>
  %y = step.buffer "y" : memref<128x2x64xbf16>
  %e = step.buffer "lse" : memref<128x2xf32>
  step.task ins(%q, %k, %v, %f, %l) outs(%y, %e)
      : (memref<128x2x64xbf16, strided<[384, 64, 1]>>, memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128xi32>, memref<128xi32>)
      -> (memref<128x2x64xbf16>, memref<128x2xf32>) {
  ^bb0(%0: tensor<128x2x64xbf16>, %1: tensor<128x2x64xbf16>, %2: tensor<128x2x64xbf16>, %3: tensor<128xi32>, %4: tensor<128xi32>):
    %r, %s = nano.attention %0, %1, %2, %3, %4 scale 1.200000e-01
        : (tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128xi32>, tensor<128xi32>)
        -> (tensor<128x2x64xbf16>, tensor<128x2xf32>) {
    ^bb0(%score: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
      %t = nano.tanh %score : tensor<f32>
      nano.yield %t : tensor<f32>
    }
    nano.yield %r, %s : tensor<128x2x64xbf16>, tensor<128x2xf32>
  }
}

// -----

// Rows that nobody reads are sorted, but not summed.
// IR-LABEL: step.program @dropped
// CHECK-LABEL: // scatter_sort
// CHECK:         static constexpr int tokens = 128, rows = 50
// CHECK-LABEL: // scatter_sum
// CHECK:         static constexpr int tokens = 128, rows = 48, sortedRows = 50, columns = 64;
step.program @dropped {
  %x = step.buffer "x" : memref<128x64xf32>
  %i = step.buffer "ids" : memref<128xi32>
  %y = step.buffer "y" : memref<50x64xf32>
  %h = step.view %y : memref<50x64xf32> to memref<24x64xf32>
  %l = step.view %y : memref<50x64xf32> to memref<24x64xf32, strided<[64, 1], offset: 1536>>
  %z = step.buffer "z" : memref<24x64xf32>
  step.task ins(%x, %i) outs(%y) : (memref<128x64xf32>, memref<128xi32>) -> memref<50x64xf32> {
  ^bb0(%a: tensor<128x64xf32>, %b: tensor<128xi32>):
    %0 = nano.scatter_add %a, %b : (tensor<128x64xf32>, tensor<128xi32>) -> tensor<50x64xf32>
    nano.yield %0 : tensor<50x64xf32>
  }
  step.task ins(%h, %l) outs(%z) : (memref<24x64xf32>, memref<24x64xf32, strided<[64, 1], offset: 1536>>) -> memref<24x64xf32> {
  ^bb0(%a: tensor<24x64xf32>, %b: tensor<24x64xf32>):
    %0 = nano.add %a, %b : tensor<24x64xf32>
    nano.yield %0 : tensor<24x64xf32>
  }
}

// -----

// The embedding's gradient is two launches with the sorted positions between them.
// IR-LABEL: step.program @scatter
// IR:         %[[SORTED:.*]] = step.buffer "sorted" : memref<307xi32>
// IR:         step.launch @scatter_sort_{{.*}}(%{{.*}}, %[[SORTED]])
// IR:         step.launch @scatter_sum_{{.*}}(%{{.*}}, %[[SORTED]], %{{.*}})
// CHECK-LABEL: // scatter_sort
// CHECK:         nano::scatterSort<Scatter>(work.begin, {ids, 1}, sorted);
// CHECK-LABEL: // scatter_sum
// CHECK:         using Element = float;
// CHECK-NEXT:    using Result = float;
// CHECK-NEXT:    static constexpr int tokens = 128, rows = 50, sortedRows = 50, columns = 64;
// CHECK:         x.x = {x_2, 64, 1};
// CHECK-NEXT:    x.scratch = sorted;
// CHECK-NEXT:    x.y[0] = {y, 64, 1};
// CHECK-NEXT:    nano::scatterSum<Scatter>(work.begin, x);
step.program @scatter {
  %x = step.buffer "x" : memref<128x64xf32>
  %i = step.buffer "ids" : memref<128xi32>
  %y = step.buffer "y" : memref<50x64xf32>
  step.task ins(%x, %i) outs(%y) : (memref<128x64xf32>, memref<128xi32>) -> memref<50x64xf32> {
  ^bb0(%a: tensor<128x64xf32>, %b: tensor<128xi32>):
    %0 = nano.scatter_add %a, %b : (tensor<128x64xf32>, tensor<128xi32>) -> tensor<50x64xf32>
    nano.yield %0 : tensor<50x64xf32>
  }
}

// -----

// IR-LABEL: step.program @exp_matmul
// IR:       kernel.func @exp_sums_{{.*}} as "e" picks 1, write
// CHECK-LABEL: // exp_matmul
// CHECK:         static constexpr int rows = 256, columns = 128, inner = 64, kept = 100, blocks = 2, places = 1;
// CHECK:       __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
// CHECK:         nano::ExpMatmul<Exponentials> x;
// CHECK-NEXT:    x.targets = {targets, 1};
// CHECK-NEXT:    x.shift = {shift, 1};
// CHECK-NEXT:    x.e[0] = {e, 128, 1};
// CHECK-NEXT:    x.parts = parts;
// CHECK-NEXT:    nano::expMatmul(int(work.begin), maps.map, x);
// CHECK-LABEL: // exp_sums
// CHECK:         nano::ExpSumsOperands<Exponentials, 1, 1> x;
// CHECK-NEXT:    x.parts = parts;
// CHECK-NEXT:    x.e[0] = {e, 128, 1};
// CHECK-NEXT:    x.sum[0] = {sum, 1};
// CHECK-NEXT:    x.largest[0] = {largest, 1};
// CHECK-NEXT:    nano::expMatmulSums<Exponentials, 128>(work.begin, x);
step.program @exp_matmul {
  %x = step.buffer "x" : memref<256x64xbf16>
  %w = step.buffer "w" : memref<128x64xbf16>
  %t = step.buffer "targets" : memref<256xi32>
  %s = step.buffer "shift" : memref<256xf32>
  %e = step.buffer "e" : memref<256x128xbf16>
  %n = step.buffer "sum" : memref<256xf32>
  %m = step.buffer "largest" : memref<256xf32>
  step.task ins(%x, %w, %t, %s) outs(%e, %n, %m)
      : (memref<256x64xbf16>, memref<128x64xbf16>, memref<256xi32>, memref<256xf32>)
      -> (memref<256x128xbf16>, memref<256xf32>, memref<256xf32>) {
  ^bb0(%a: tensor<256x64xbf16>, %b: tensor<128x64xbf16>, %i: tensor<256xi32>, %g: tensor<256xf32>):
    %0, %1, %2 = nano.exp_matmul %a, %b, %i, %g {columns = 100 : i64}
        : (tensor<256x64xbf16>, tensor<128x64xbf16>, tensor<256xi32>, tensor<256xf32>) -> (tensor<256x128xbf16>, tensor<256xf32>, tensor<256xf32>)
    nano.yield %0, %1, %2 : tensor<256x128xbf16>, tensor<256xf32>, tensor<256xf32>
  }
}

// -----

// CHECK-LABEL: // scan
// CHECK:         nano::scan<1024, true>(128, x_2, 1, y, 1);
step.program @scan {
  %x = step.buffer "x" : memref<128xi32>
  %y = step.buffer "y" : memref<128xi32>
  step.task ins(%x) outs(%y) : (memref<128xi32>) -> memref<128xi32> {
  ^bb0(%a: tensor<128xi32>):
    %0 = nano.scan max %a : tensor<128xi32>
    nano.yield %0 : tensor<128xi32>
  }
}

// -----

// CHECK-LABEL: // argsort
// CHECK:         nano::ArgsortOperands<nano::bf16, 1> x;
// CHECK-NEXT:    x.x = {x_2, 100, 1};
// CHECK-NEXT:    x.y[0] = {y, 100, 1};
// CHECK-NEXT:    nano::argsort<64, 100, true>(work.begin, x);
step.program @argsort {
  %x = step.buffer "x" : memref<3x100xbf16>
  %y = step.buffer "y" : memref<3x100xi32>
  step.task ins(%x) outs(%y) : (memref<3x100xbf16>) -> memref<3x100xi32> {
  ^bb0(%a: tensor<3x100xbf16>):
    %0 = nano.argsort %a : tensor<3x100xbf16> -> tensor<3x100xi32>
    nano.yield %0 : tensor<3x100xi32>
  }
}

// -----

// CHECK-LABEL: // sparsemax
// CHECK:         nano::SparsemaxOperands<nano::bf16, 1> x;
// CHECK-NEXT:    x.x = {x_2, 200, 1};
// CHECK-NEXT:    x.y[0] = {y, 200, 1};
// CHECK-NEXT:    nano::sparsemax<32, 200, 8>(work.begin, x);
step.program @sparsemax {
  %x = step.buffer "x" : memref<3x200xbf16>
  %y = step.buffer "y" : memref<3x200xbf16>
  step.task ins(%x) outs(%y) : (memref<3x200xbf16>) -> memref<3x200xbf16> {
  ^bb0(%a: tensor<3x200xbf16>):
    %0 = nano.sparsemax %a : tensor<3x200xbf16>
    nano.yield %0 : tensor<3x200xbf16>
  }
}

// -----

// A copy between layouts goes through shared memory, for which it has a template.
// IR-LABEL: step.program @transposed
// IR:         step.launch @transpose_{{.*}}(%x, %{{.*}})
// CHECK-LABEL: // transpose
// CHECK:         constexpr nano::TransposeShape shape = {1, 128, 64, 0, 128, 0, 64};
// CHECK-NEXT:    nano::transpose<true>(work.begin,
step.program @transposed {
  %x = step.buffer "x" : memref<64x128xf32>
  %b = step.buffer "t" : memref<128x64xf32>
  %t = step.view %b : memref<128x64xf32> to memref<64x128xf32, strided<[1, 64]>>
  step.task ins(%x) outs(%t) : (memref<64x128xf32>) -> memref<64x128xf32, strided<[1, 64]>> {
  ^bb0(%a: tensor<64x128xf32>):
    nano.yield %a : tensor<64x128xf32>
  }
}

// -----

// A template writes rows; its result, of an embedding that lies transposed, is a copy behind it.
// IR-LABEL: step.program @scatter_transposed
// IR-DAG:     %[[SORTED:.*]] = step.buffer "sorted"
// IR-DAG:     %[[ROWS:.*]] = step.buffer "rows" : memref<48x64xf32>
// IR:         step.launch @scatter_sort_{{.*}}(%{{.*}}, %[[SORTED]])
// IR-NEXT:    step.launch @scatter_sum_{{.*}}(%{{.*}}, %[[SORTED]], %[[ROWS]])
// IR-NEXT:    step.launch @transpose_{{.*}}(%[[ROWS]], %{{.*}})
step.program @scatter_transposed {
  %x = step.buffer "x" : memref<128x64xf32>
  %i = step.buffer "ids" : memref<128xi32>
  %b = step.buffer "t" : memref<64x48xf32>
  %t = step.view %b : memref<64x48xf32> to memref<48x64xf32, strided<[1, 48]>>
  step.task ins(%x, %i) outs(%t) : (memref<128x64xf32>, memref<128xi32>) -> memref<48x64xf32, strided<[1, 48]>> {
  ^bb0(%a: tensor<128x64xf32>, %c: tensor<128xi32>):
    %0 = nano.scatter_add %a, %c : (tensor<128x64xf32>, tensor<128xi32>) -> tensor<48x64xf32>
    nano.yield %0 : tensor<48x64xf32>
  }
}

// -----

// A product with what follows it: the struct says its sizes, what a thread reads of eight neighbours of a row, and what it writes; factors are tensor maps.
// IR-LABEL: step.program @product
// IR:         step.launch @matmul_mul_add_cast_{{.*}}(%{{.*}}) {iterations = array<i64: 132>}
// IR:       func.func private @matmul_mul_add_cast_{{.*}}.epilogue(%{{.*}}: vector<8xbf16>, %{{.*}}: vector<8xbf16>, %{{.*}}: vector<8xf32>, %{{.*}}: f32) -> (vector<8xf32>, vector<8xbf16>)
// IR:       kernel.func @matmul_mul_add_cast_
// IR-SAME:    flops = {{[^ ]+}} : f64, flops_type = bf16,
// IR-SAME:    instantiates = #kernel.product<rows = 49152, columns = 3072, inner = 768, transpose_a = false, transpose_b = false, blocks = 132, a = 0, b = 1, scales = [], others = [2, 3, 4],
// IR-SAME:      results = [array<i64: 5>, array<i64: 2>], added = [], epilogue = @matmul_mul_add_cast_{{.*}}.epilogue>
// IR-SAME:    launch = #kernel.launch<threads = {{[0-9]+}}, cluster = 2>
// IR-SAME:    summary = "matmul, cast {{.*}}2, broadcast, add {{.*}}2, neg, broadcast, mul"
// IR-SAME:    tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 768, rows = 49152, row_bytes = 2304, box_columns = 64, box_rows = {{[0-9]+}}, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 3072, rows = 768, row_bytes = 6144, box_columns = 64, box_rows = {{[0-9]+}}, swizzle_bytes = 128>]
// CHECK-LABEL: // matmul_mul_add_cast
// CHECK:       #include "nano_matmul.h"
// CHECK:       struct Product {
// CHECK-NEXT:    using ElementA = nano::bf16;
// CHECK-NEXT:    using ElementB = nano::bf16;
// CHECK-NEXT:    using Result = nano::bf16;
// CHECK-NEXT:    static constexpr int rows = 49152, columns = 3072, inner = 768, blocks = 132, sums = 0;
// CHECK-NEXT:    static constexpr int products = 1;
// CHECK-NEXT:    static constexpr bool transposeA = false, transposeB = false, addsColumns = false;
// CHECK-NEXT:    static constexpr int maxima = 0, turned = 0;
// CHECK-NEXT:    nano::bf16 *y;
// CHECK-NEXT:    const float *bias;
// CHECK-NEXT:    const float *c;
// CHECK-NEXT:    float *z;
// CHECK-NEXT:    struct Others { nano::Held<nano::bf16, 8> y; };
// CHECK-NEXT:    NANO_DEVICE Others load(int row, int column) const {
// CHECK-NEXT:      Others others;
// CHECK-NEXT:      others.y = nano::hold<8>(y + (row * 3072 + column));
// CHECK-NEXT:      return others;
// CHECK-NEXT:    }
// CHECK-NEXT:    static constexpr int copies = 1;
// CHECK-NEXT:    NANO_DEVICE void copy(int row, int column, nano::Vec<uint32_t, 4> *chunks) const {
// CHECK-NEXT:      nano::copyAsync<16>(chunks + 0, y + (row * 3072 + column));
// CHECK-NEXT:    }
// CHECK-NEXT:    NANO_DEVICE static Others othersAt(const nano::Vec<uint32_t, 4> *chunks) {
// CHECK-NEXT:      Others others;
// CHECK-NEXT:      others.y.words = chunks[0];
// CHECK-NEXT:      return others;
// CHECK-NEXT:    }
// CHECK-NEXT:    struct Columns { nano::Vec<float, 8> bias; };
// CHECK-NEXT:    NANO_DEVICE Columns loadColumns(int column) const {
// CHECK-NEXT:      return {nano::read<8>(bias + column)};
// CHECK-NEXT:    }
// CHECK-NEXT:    NANO_DEVICE void store(int row, int column, const nano::Vec<nano::bf16, 8> &product,
// CHECK-NEXT:                           const Others &others, const Columns &columns) const {
// CHECK-NEXT:      const auto c_value = nano::read(c);
// CHECK:           nano::storeStreaming<8>(z + (row * 3200 + column),
// CHECK-NEXT:      nano::storeStreaming<8>(y + (row * 3072 + column), product);
// CHECK-NEXT:    }
// CHECK-NEXT:  };
// CHECK:       extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__({{[0-9]+}}, 1)
// CHECK-NEXT:  matmul_mul_add_cast_{{.*}}(const __grid_constant__ nano::Launch<6, 1> launch,
// CHECK-NEXT:      const __grid_constant__ nano::TensorMaps<2> maps) {
// CHECK-NEXT:    const auto work = launch.find(blockIdx.x, 1);
// CHECK-NEXT:    auto *y = work.template pointer<nano::bf16>(2);
// CHECK-NEXT:    auto *bias = work.template pointer<const float>(3);
// CHECK-NEXT:    auto *c = work.template pointer<const float>(4);
// CHECK-NEXT:    auto *z = work.template pointer<float>(5);
// CHECK-NEXT:    Product x;
// CHECK-NEXT:    x.y = y;
// CHECK-NEXT:    x.bias = bias;
// CHECK-NEXT:    x.c = c;
// CHECK-NEXT:    x.z = z;
// CHECK-NEXT:    nano::matmul(int(work.begin), maps.map[0], maps.map[1], x);
step.program @product {
  %wide = step.buffer "a" : memref<49152x1152xbf16>
  %a = step.view %wide : memref<49152x1152xbf16> to memref<49152x768xbf16, strided<[1152, 1], offset: 384>>
  %b = step.buffer "b" : memref<768x3072xbf16>
  %y = step.buffer "y" : memref<49152x3072xbf16>
  %d = step.buffer "bias" : memref<3072xf32>
  %c = step.buffer "c" : memref<f32>
  %zz = step.buffer "z" : memref<49152x3200xf32>
  %z = step.view %zz : memref<49152x3200xf32> to memref<49152x3072xf32, strided<[3200, 1]>>
  step.task ins(%a, %b, %y, %d, %c) outs(%z, %y)
      : (memref<49152x768xbf16, strided<[1152, 1], offset: 384>>, memref<768x3072xbf16>, memref<49152x3072xbf16>, memref<3072xf32>, memref<f32>)
      -> (memref<49152x3072xf32, strided<[3200, 1]>>, memref<49152x3072xbf16>) {
  ^bb0(%x: tensor<49152x768xbf16>, %w: tensor<768x3072xbf16>, %e: tensor<49152x3072xbf16>, %f: tensor<3072xf32>, %n: tensor<f32>):
    %p = nano.matmul %x, %w : (tensor<49152x768xbf16>, tensor<768x3072xbf16>) -> tensor<49152x3072xbf16>
    %q = nano.cast %p : tensor<49152x3072xbf16> -> tensor<49152x3072xf32>
    %k = nano.cast %e : tensor<49152x3072xbf16> -> tensor<49152x3072xf32>
    %g = nano.broadcast %f dims [1] : tensor<3072xf32> -> tensor<49152x3072xf32>
    %h = nano.add %q, %g : tensor<49152x3072xf32>
    %r = nano.add %h, %k : tensor<49152x3072xf32>
    %m = nano.neg %n : tensor<f32>
    %i = nano.broadcast %m dims [] : tensor<f32> -> tensor<49152x3072xf32>
    %j = nano.mul %r, %i : tensor<49152x3072xf32>
    nano.yield %j, %p : tensor<49152x3072xf32>, tensor<49152x3072xbf16>
  }
}

// -----

// One number a row is read once for a row of a tile, and the epilogue takes it as a number.
// IR-LABEL: step.program @product_of_rows
// IR:       func.func private @matmul_mul_cast_{{.*}}.epilogue(%{{.*}}: vector<8xbf16>, %{{.*}}: f32) -> vector<8xbf16>
// CHECK-LABEL: // matmul_mul_cast
// CHECK:         const float *factors;
// CHECK:         struct Columns {};
// CHECK-NEXT:    NANO_DEVICE Columns loadColumns(int) const { return {}; }
// CHECK-NEXT:    struct Row { float factors; };
// CHECK-NEXT:    NANO_DEVICE Row loadRow(int row) const {
// CHECK-NEXT:      return {nano::read(factors + row)};
// CHECK-NEXT:    }
// CHECK-NEXT:    NANO_DEVICE void store(int row, int column, const nano::Vec<nano::bf16, 8> &product,
// CHECK-NEXT:                           const Others &, const Columns &,
// CHECK-NEXT:                           const Row &ofRow) const {
// CHECK:           nano::to<float>(product) * ofRow.factors
step.program @product_of_rows {
  %a = step.buffer "a" : memref<49152x768xbf16>
  %b = step.buffer "b" : memref<768x3072xbf16>
  %r = step.buffer "factors" : memref<49152xf32>
  %y = step.buffer "y" : memref<49152x3072xbf16>
  step.task ins(%a, %b, %r) outs(%y) : (memref<49152x768xbf16>, memref<768x3072xbf16>, memref<49152xf32>) -> memref<49152x3072xbf16> {
  ^bb0(%x: tensor<49152x768xbf16>, %w: tensor<768x3072xbf16>, %n: tensor<49152xf32>):
    %p = nano.matmul %x, %w : (tensor<49152x768xbf16>, tensor<768x3072xbf16>) -> tensor<49152x3072xbf16>
    %q = nano.cast %p : tensor<49152x3072xbf16> -> tensor<49152x3072xf32>
    %g = nano.broadcast %n dims [0] : tensor<49152xf32> -> tensor<49152x3072xf32>
    %h = nano.mul %q, %g : tensor<49152x3072xf32>
    %m = nano.cast %h : tensor<49152x3072xf32> -> tensor<49152x3072xbf16>
    nano.yield %m : tensor<49152x3072xbf16>
  }
}

// -----

// Factors of 8 bits have a scale each, and sums along a row are stored for every 128 columns. The special functions of what is only added up are
// shared.
// IR-LABEL: step.program @statistics
// IR:       func.func private @matmul_sum_sigmoid_exp_{{.*}}.epilogue(%{{.*}}: vector<8xbf16>) -> (vector<8xbf16>, f32)
// IR:       kernel.func @matmul_sum_sigmoid_exp_
// IR-SAME:    instantiates = #kernel.product<rows = 3072, columns = 50304, inner = 768, transpose_a = false, transpose_b = true, blocks = 132, a = 0, b = 1, scales = [2, 3], others = [],
// IR-SAME:      results = [array<i64: 4>, array<i64: 5>]
// IR-SAME:    shares_exponentials = true
// IR-SAME:    tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 768, rows = 3072, row_bytes = 768, box_columns = 128, box_rows = {{[0-9]+}}, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 768, rows = 50304, row_bytes = 768, box_columns = 128, box_rows = {{[0-9]+}}, swizzle_bytes = 128>]
// CHECK-LABEL: // matmul_sum_sigmoid_exp
// CHECK:       struct Product {
// CHECK-NEXT:    using ElementA = nano::f8e4m3;
// CHECK-NEXT:    using ElementB = nano::f8e4m3;
// CHECK-NEXT:    using Result = nano::bf16;
// CHECK-NEXT:    static constexpr int rows = 3072, columns = 50304, inner = 768, blocks = 132, sums = 1;
// CHECK-NEXT:    static constexpr int products = 1;
// CHECK-NEXT:    static constexpr bool transposeA = false, transposeB = true, addsColumns = false;
// CHECK-NEXT:    static constexpr int maxima = 0, turned = 0;
// CHECK-NEXT:    const float *scale_a;
// CHECK-NEXT:    const float *scale_b;
// CHECK-NEXT:    nano::bf16 *p;
// CHECK-NEXT:    float *[[SUMS:.*]];
// CHECK-NEXT:    NANO_DEVICE float scale(int) const {
// CHECK-NEXT:      return nano::read(scale_a) * nano::read(scale_b);
// CHECK-NEXT:    }
// CHECK-NEXT:    struct Others {};
// CHECK-NEXT:    NANO_DEVICE Others load(int, int) const { return {}; }
// CHECK-NEXT:    static constexpr int copies = 0;
// CHECK-NEXT:    struct Columns {};
// CHECK-NEXT:    NANO_DEVICE Columns loadColumns(int) const { return {}; }
// CHECK-NEXT:    NANO_DEVICE nano::Vec<float, 1> store(int row, int column, const nano::Vec<nano::bf16, 8> &product,
// CHECK-NEXT:                                          const Others &, const Columns &) const {
// CHECK-NEXT:      const auto exp = nano::exponentialOfSigmoid<30.0f, -30.0f>(nano::to<float>(product),
// CHECK-NEXT:          0.004811252f);
// CHECK-NEXT:      nano::storeStreaming<8>(p + (row * 50304 + column), product);
// CHECK-NEXT:      return {nano::sum(exp)};
// CHECK-NEXT:    }
// CHECK-NEXT:    NANO_DEVICE void storeSums(int row, int part, const nano::Vec<float, 1> &totals) const {
// CHECK-NEXT:      [[SUMS]][row * 393 + part] = totals.lane[0];
// CHECK-NEXT:    }
// CHECK-NEXT:  };
// CHECK:         x.scale_a = scale_a;
// CHECK-NEXT:    x.scale_b = scale_b;
// CHECK-NEXT:    x.p = p;
// CHECK-NEXT:    x.[[SUMS]] = sums;
step.program @statistics {
  %a = step.buffer "a" : memref<3072x768xf8E4M3FN>
  %b = step.buffer "b" : memref<50304x768xf8E4M3FN>
  %sa = step.buffer "scale_a" : memref<f32>
  %sb = step.buffer "scale_b" : memref<f32>
  %p = step.buffer "p" : memref<3072x50304xbf16>
  %s = step.buffer "sums" : memref<3072x393xf32>
  step.task ins(%a, %b, %sa, %sb) outs(%p, %s)
      : (memref<3072x768xf8E4M3FN>, memref<50304x768xf8E4M3FN>, memref<f32>, memref<f32>)
      -> (memref<3072x50304xbf16>, memref<3072x393xf32>) {
  ^bb0(%x: tensor<3072x768xf8E4M3FN>, %w: tensor<50304x768xf8E4M3FN>, %sx: tensor<f32>, %sw: tensor<f32>):
    %0 = nano.scaled_matmul %x, %w scales(%sx, %sw) {transpose_b}
        : (tensor<3072x768xf8E4M3FN>, tensor<50304x768xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<3072x50304xbf16>
    %cap = nano.constant 30.0 : tensor<3072x50304xf32>
    %slope = nano.constant 0.004811252 : tensor<3072x50304xf32>
    %1 = nano.cast %0 : tensor<3072x50304xbf16> -> tensor<3072x50304xf32>
    %2 = nano.mul %1, %slope : tensor<3072x50304xf32>
    %3 = nano.sigmoid %2 : tensor<3072x50304xf32>
    %4 = nano.mul %3, %cap : tensor<3072x50304xf32>
    %5 = nano.sub %4, %cap : tensor<3072x50304xf32>
    %6 = nano.exp %5 : tensor<3072x50304xf32>
    %7 = nano.reshape %6 : tensor<3072x50304xf32> -> tensor<3072x393x128xf32>
    %8 = nano.reduce sum %7 dims [2] : tensor<3072x393x128xf32> -> tensor<3072x393xf32>
    nano.yield %0, %8 : tensor<3072x50304xbf16>, tensor<3072x393xf32>
  }
}

// -----

// A factor that lies transposed is turned by the kernel, which adds in f32: its epilogue gets four neighbours of a row. Where it writes over what
// it adds to, nothing is loaded. Names are without the layer's number.
// IR-LABEL: step.program @gradient
// IR:       func.func private @matmul_add_{{.*}}.epilogue(%{{.*}}: vector<4xf32>) -> vector<4xf32>
// IR:       kernel.func @matmul_add_
// IR-SAME:    add %{{[^ ]+}} memref<50304x768xf32>
// IR-SAME:    instantiates = #kernel.product<rows = 50304, columns = 768, inner = 4096, transpose_a = true, transpose_b = true, blocks = 132, a = 0, b = 1, scales = [2, 3], others = [],
// IR-SAME:      results = [array<i64: 4>], added = [0]
// IR-SAME:    tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 50304, rows = 4096, row_bytes = 50304, box_columns = 128, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 4096, rows = 768, row_bytes = 4096, box_columns = 128, box_rows = 128, swizzle_bytes = 128>]
// CHECK-LABEL: // matmul_add
// CHECK:       struct Product {
// CHECK-NEXT:    using ElementA = nano::f8e5m2;
// CHECK-NEXT:    using ElementB = nano::f8e4m3;
// CHECK-NEXT:    using Result = float;
// CHECK-NEXT:    static constexpr int rows = 50304, columns = 768, inner = 4096, blocks = 132, sums = 0;
// CHECK-NEXT:    static constexpr int products = 1;
// CHECK-NEXT:    static constexpr bool transposeA = true, transposeB = true, addsColumns = false;
// CHECK:         float *grad_w;
// CHECK:         struct Others {};
// CHECK:         NANO_DEVICE void store(int row, int column, const nano::Vec<float, 4> &product,
// CHECK:           nano::addTo<4>(grad_w + (row * 768 + column), product);
step.program @gradient {
  %a = step.buffer "a" : memref<4096x50304xf8E5M2>
  %b = step.buffer "b" : memref<768x4096xf8E4M3FN>
  %s = step.buffer "scale_a" : memref<f32>
  %t = step.buffer "scale_b" : memref<f32>
  %y = step.buffer "grad.blocks.3.w" : memref<50304x768xf32>
  step.task ins(%a, %b, %s, %t, %y) outs(%y)
      : (memref<4096x50304xf8E5M2>, memref<768x4096xf8E4M3FN>, memref<f32>, memref<f32>, memref<50304x768xf32>) -> memref<50304x768xf32> {
  ^bb0(%x: tensor<4096x50304xf8E5M2>, %w: tensor<768x4096xf8E4M3FN>, %k: tensor<f32>, %l: tensor<f32>, %c: tensor<50304x768xf32>):
    %p = nano.scaled_matmul %x, %w scales(%k, %l) {transpose_a, transpose_b}
        : (tensor<4096x50304xf8E5M2>, tensor<768x4096xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<50304x768xf32>
    %r = nano.add %p, %c : tensor<50304x768xf32>
    nano.yield %r : tensor<50304x768xf32>
  }
}

// -----

// A sum that lies elsewhere needs its addend.
// IR-LABEL: step.program @apart
// IR:       func.func private @matmul_add_{{.*}}.epilogue(%{{.*}}: vector<4xf32>, %{{.*}}: vector<4xf32>) -> vector<4xf32>
// CHECK-LABEL: // matmul_add
// CHECK:         struct Others { nano::Held<float, 4> grad_w; };
// CHECK:           others.grad_w = nano::hold<4>(grad_w + (row * 768 + column));
// CHECK:           nano::storeStreaming<4>(sum + (row * 768 + column), product + others.grad_w.elements());
step.program @apart {
  %a = step.buffer "a" : memref<4096x50304xf8E5M2>
  %b = step.buffer "b" : memref<768x4096xf8E4M3FN>
  %s = step.buffer "scale_a" : memref<f32>
  %t = step.buffer "scale_b" : memref<f32>
  %y = step.buffer "grad.blocks.3.w" : memref<50304x768xf32>
  %z = step.buffer "sum" : memref<50304x768xf32>
  step.task ins(%a, %b, %s, %t, %y) outs(%z)
      : (memref<4096x50304xf8E5M2>, memref<768x4096xf8E4M3FN>, memref<f32>, memref<f32>, memref<50304x768xf32>) -> memref<50304x768xf32> {
  ^bb0(%x: tensor<4096x50304xf8E5M2>, %w: tensor<768x4096xf8E4M3FN>, %k: tensor<f32>, %l: tensor<f32>, %c: tensor<50304x768xf32>):
    %p = nano.scaled_matmul %x, %w scales(%k, %l) {transpose_a, transpose_b}
        : (tensor<4096x50304xf8E5M2>, tensor<768x4096xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<50304x768xf32>
    %r = nano.add %p, %c : tensor<50304x768xf32>
    nano.yield %r : tensor<50304x768xf32>
  }
}

// -----

// Sums along columns are stored for every 16 rows: an element's summand is what the epilogue returns.
// IR-LABEL: step.program @slopes
// IR:       func.func private @matmul_sum_{{.*}}.epilogue(%{{.*}}: vector<8xbf16>, %{{.*}}: vector<8xbf16>) -> (vector<8xbf16>, vector<8xf32>)
// IR:       kernel.func @matmul_sum_
// IR-SAME:    column_sum = 1 : i64
// CHECK-LABEL: // matmul_sum_
// CHECK:         static constexpr int rows = 49152, columns = 3072, inner = 768, blocks = 132, sums = 0;
// CHECK-NEXT:    static constexpr int products = 1;
// CHECK-NEXT:    static constexpr bool transposeA = false, transposeB = false, addsColumns = true;
// CHECK:         NANO_DEVICE nano::Vec<float, 8> store(int row, int column,
// CHECK:           const auto [[Y:.*]] = product * others.h.elements();
// CHECK-NEXT:      nano::storeStreaming<8>(y + (row * 3072 + column), [[Y]]);
// CHECK-NEXT:      return nano::to<float>([[Y]]);
// CHECK-NEXT:    }
// CHECK-NEXT:    NANO_DEVICE void storeColumns(int part, int column, const nano::Vec<float, 2> &totals) const {
// CHECK-NEXT:      nano::store<2, 8>(bias + (part * 3072 + column), totals);
// CHECK-NEXT:    }
step.program @slopes {
  %a = step.buffer "a" : memref<49152x768xbf16>
  %b = step.buffer "b" : memref<768x3072xbf16>
  %h = step.buffer "h" : memref<49152x3072xbf16>
  %y = step.buffer "y" : memref<49152x3072xbf16>
  %s = step.buffer "bias" : memref<3072x3072xf32>
  step.task ins(%a, %b, %h) outs(%y, %s) : (memref<49152x768xbf16>, memref<768x3072xbf16>, memref<49152x3072xbf16>) -> (memref<49152x3072xbf16>, memref<3072x3072xf32>) {
  ^bb0(%x: tensor<49152x768xbf16>, %w: tensor<768x3072xbf16>, %e: tensor<49152x3072xbf16>):
    %p = nano.matmul %x, %w : (tensor<49152x768xbf16>, tensor<768x3072xbf16>) -> tensor<49152x3072xbf16>
    %m = nano.mul %p, %e : tensor<49152x3072xbf16>
    %f = nano.cast %m : tensor<49152x3072xbf16> -> tensor<49152x3072xf32>
    %r = nano.reshape %f : tensor<49152x3072xf32> -> tensor<3072x16x3072xf32>
    %t = nano.reduce sum %r dims [1] : tensor<3072x16x3072xf32> -> tensor<3072x3072xf32>
    nano.yield %m, %t : tensor<49152x3072xbf16>, tensor<3072x3072xf32>
  }
}

// -----

// One launch, of a cluster of blocks that share the sequence.
// IR-LABEL: step.program @recurrence
// IR:         step.launch @recurrence_{{.*}}(%{{.*}}, %{{.*}}, %{{.*}})
// CHECK-LABEL: // recurrence
// CHECK:         using Element = nano::bf16;
// CHECK-NEXT:    static constexpr int sequences = 1, length = 300, channels = 64;
// CHECK-NEXT:    static constexpr int vector = 8, multiprocessors = 132;
// CHECK-NEXT:    static constexpr bool hasFactor = true, hasTerm = true, reverse = false, adjoint = true;
// CHECK-NEXT:    static constexpr float initial = 0.0f;
// CHECK:       __cluster_dims__(2, 1, 1)
// CHECK:         x.a = {x_2, 19200, 64, 1};
// CHECK-NEXT:    x.b = {b, 19200, 64, 1};
// CHECK-NEXT:    x.h[0] = {y, 19200, 64, 1};
// CHECK-NEXT:    nano::recurrence<Recurrence>(work.begin, x);
step.program @recurrence {
  %x = step.buffer "x" : memref<1x300x64xbf16>
  %b = step.buffer "b" : memref<1x300x64xbf16>
  %y = step.buffer "y" : memref<1x300x64xbf16>
  step.task ins(%x, %b) outs(%y) : (memref<1x300x64xbf16>, memref<1x300x64xbf16>) -> memref<1x300x64xbf16> {
  ^bb0(%a: tensor<1x300x64xbf16>, %t: tensor<1x300x64xbf16>):
    %0 = nano.recurrence factor %a term %t from 0.0 {adjoint} : tensor<1x300x64xbf16>
    nano.yield %0 : tensor<1x300x64xbf16>
  }
}

// -----

// CHECK-LABEL: // band_product
// CHECK:         using First = float;
// CHECK-NEXT:    using Second = nano::bf16;
// CHECK-NEXT:    using Result = nano::bf16;
// CHECK-NEXT:    static constexpr int tokens = 128, heads = 2, size = 64, width = 16;
// CHECK-NEXT:    static constexpr int multiprocessors = 132;
// CHECK-NEXT:    static constexpr bool transpose = true, onMatrices = true;
// CHECK:         x.second = {v, 128, 64, 1};
// CHECK-NEXT:    x.y[0] = {y, 128, 64, 1};
// CHECK-NEXT:    nano::bandProduct<Band>(work.begin, x);
step.program @band {
  %p = step.buffer "p" : memref<128x2x16xf32>
  %v = step.buffer "v" : memref<128x2x64xbf16>
  %y = step.buffer "y" : memref<128x2x64xbf16>
  step.task ins(%p, %v) outs(%y) : (memref<128x2x16xf32>, memref<128x2x64xbf16>) -> memref<128x2x64xbf16> {
  ^bb0(%a: tensor<128x2x16xf32>, %b: tensor<128x2x64xbf16>):
    %0 = nano.band_product %a, %b {transpose} : (tensor<128x2x16xf32>, tensor<128x2x64xbf16>) -> tensor<128x2x64xbf16>
    nano.yield %0 : tensor<128x2x64xbf16>
  }
}

// -----

// Factors that products of a sum have in common are taken out of it: of GELU's slope here, whose
// constants are multiplied. What an epilogue needs besides stays, and a sum of other products does.
// CHECK-LABEL: // matmul_{{.*}}: matmul, {{.*}}sigmoid
// CHECK:           const auto sigmoid = nano::sigmoidOfPower(h_value * -1.442695f);
// CHECK-NEXT:      const auto sub = 1.0f - sigmoid;
// CHECK-NEXT:      const auto add = product_value * sigmoid * (h_value * sub * (1.5f + h_value * h_value * 1.5f) +
// CHECK-NEXT:          1.0f);
// CHECK-NEXT:      nano::storeStreaming<8>(y + (row * 3072 + column), nano::to<nano::bf16>(add));
// CHECK-NEXT:      nano::storeStreaming<8>(z + (row * 3072 + column), nano::to<nano::bf16>(h_value * sigmoid +
// CHECK-NEXT:          product_value * sub));
step.program @factored {
  %a = step.buffer "a" : memref<49152x768xbf16>
  %b = step.buffer "b" : memref<768x3072xbf16>
  %h = step.buffer "h" : memref<49152x3072xbf16>
  %y = step.buffer "y" : memref<49152x3072xbf16>
  %z = step.buffer "z" : memref<49152x3072xbf16>
  step.task ins(%a, %b, %h) outs(%y, %z) : (memref<49152x768xbf16>, memref<768x3072xbf16>, memref<49152x3072xbf16>) -> (memref<49152x3072xbf16>, memref<49152x3072xbf16>) {
  ^bb0(%l: tensor<49152x768xbf16>, %r: tensor<768x3072xbf16>, %e: tensor<49152x3072xbf16>):
    %p = nano.matmul %l, %r : (tensor<49152x768xbf16>, tensor<768x3072xbf16>) -> tensor<49152x3072xbf16>
    %g = nano.cast %p : tensor<49152x3072xbf16> -> tensor<49152x3072xf32>
    %x = nano.cast %e : tensor<49152x3072xbf16> -> tensor<49152x3072xf32>
    %s = nano.sigmoid %x : tensor<49152x3072xf32>
    %1 = nano.constant 1.0 : tensor<49152x3072xf32>
    %2 = nano.constant 0.5 : tensor<49152x3072xf32>
    %3 = nano.constant 3.0 : tensor<49152x3072xf32>
    %c = nano.sub %1, %s : tensor<49152x3072xf32>
    %gs = nano.mul %g, %s : tensor<49152x3072xf32>
    %xh = nano.mul %x, %2 : tensor<49152x3072xf32>
    %gx = nano.mul %g, %xh : tensor<49152x3072xf32>
    %sc = nano.mul %s, %c : tensor<49152x3072xf32>
    %m = nano.mul %gx, %sc : tensor<49152x3072xf32>
    %m3 = nano.mul %m, %3 : tensor<49152x3072xf32>
    %mx = nano.mul %m3, %x : tensor<49152x3072xf32>
    %mxx = nano.mul %mx, %x : tensor<49152x3072xf32>
    %a1 = nano.add %gs, %m3 : tensor<49152x3072xf32>
    %a2 = nano.add %a1, %mxx : tensor<49152x3072xf32>
    %o = nano.cast %a2 : tensor<49152x3072xf32> -> tensor<49152x3072xbf16>
    %xs = nano.mul %x, %s : tensor<49152x3072xf32>
    %gc = nano.mul %g, %c : tensor<49152x3072xf32>
    %a3 = nano.add %xs, %gc : tensor<49152x3072xf32>
    %q = nano.cast %a3 : tensor<49152x3072xf32> -> tensor<49152x3072xbf16>
    nano.yield %o, %q : tensor<49152x3072xbf16>, tensor<49152x3072xbf16>
  }
}

// -----

// A constant factor of a sum is its terms': of the exponent of GELU's logistic function here, whose
// reciprocal is its own. Its slope, σ·(1 + x·w·(1 − σ)), is made without 1 − σ.
// CHECK-LABEL: // matmul_{{.*}}: matmul, {{.*}}sigmoid
// CHECK:           const auto sigmoid = nano::sigmoidOfPower(h_value * (-2.3022082f + h_value * h_value *
// CHECK-NEXT:          -0.102943234f));
// CHECK-NEXT:      const auto add = nano::fma(h_value * (1.5957692f + h_value * h_value * 0.21406446f),
// CHECK-NEXT:          nano::fma(-sigmoid, sigmoid, sigmoid), sigmoid);
// CHECK-NEXT:      nano::storeStreaming<8>(y + (row * 3072 + column),
// CHECK-NEXT:          nano::to<nano::bf16>(nano::to<float>(product) * add));
step.program @scaled {
  %a = step.buffer "a" : memref<49152x768xbf16>
  %b = step.buffer "b" : memref<768x3072xbf16>
  %h = step.buffer "h" : memref<49152x3072xbf16>
  %y = step.buffer "y" : memref<49152x3072xbf16>
  step.task ins(%a, %b, %h) outs(%y) : (memref<49152x768xbf16>, memref<768x3072xbf16>, memref<49152x3072xbf16>) -> memref<49152x3072xbf16> {
  ^bb0(%l: tensor<49152x768xbf16>, %r: tensor<768x3072xbf16>, %e: tensor<49152x3072xbf16>):
    %p = nano.matmul %l, %r : (tensor<49152x768xbf16>, tensor<768x3072xbf16>) -> tensor<49152x3072xbf16>
    %g = nano.cast %p : tensor<49152x3072xbf16> -> tensor<49152x3072xf32>
    %x = nano.cast %e : tensor<49152x3072xbf16> -> tensor<49152x3072xf32>
    %1 = nano.constant 1.0 : tensor<49152x3072xf32>
    %k = nano.constant 1.5957691216 : tensor<49152x3072xf32>
    %c = nano.constant 0.044715 : tensor<49152x3072xf32>
    %d = nano.constant 0.21406446 : tensor<49152x3072xf32>
    %cx = nano.mul %x, %c : tensor<49152x3072xf32>
    %cxx = nano.mul %cx, %x : tensor<49152x3072xf32>
    %cxxx = nano.mul %cxx, %x : tensor<49152x3072xf32>
    %u = nano.add %x, %cxxx : tensor<49152x3072xf32>
    %v = nano.mul %u, %k : tensor<49152x3072xf32>
    %s = nano.sigmoid %v : tensor<49152x3072xf32>
    %rest = nano.sub %1, %s : tensor<49152x3072xf32>
    %xx = nano.mul %x, %x : tensor<49152x3072xf32>
    %dxx = nano.mul %xx, %d : tensor<49152x3072xf32>
    %w = nano.add %k, %dxx : tensor<49152x3072xf32>
    %gs = nano.mul %g, %s : tensor<49152x3072xf32>
    %gx = nano.mul %g, %x : tensor<49152x3072xf32>
    %slope = nano.mul %s, %rest : tensor<49152x3072xf32>
    %gr = nano.mul %gx, %slope : tensor<49152x3072xf32>
    %gw = nano.mul %gr, %w : tensor<49152x3072xf32>
    %sum = nano.add %gs, %gw : tensor<49152x3072xf32>
    %o = nano.cast %sum : tensor<49152x3072xf32> -> tensor<49152x3072xbf16>
    nano.yield %o : tensor<49152x3072xbf16>
  }
}

// -----

// Products cut along what they sum over, two of them in a launch.
// IR-LABEL: step.program @split
// IR:         step.launch @split_{{.*}}(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %counts) {iterations = array<i64: 132>}
// CHECK-LABEL: // split_{{.*}}: split
// CHECK:       #include "nano_split.h"
// CHECK:       struct Split {
// CHECK-NEXT:    static constexpr int count = 2, inner = 32768, blocks = 132;
// CHECK-NEXT:    static constexpr bool adds = false;
// CHECK-NEXT:    static NANO_DEVICE constexpr int rows(int i) {
// CHECK-NEXT:      constexpr int all[] = {2816, 2816};
// CHECK:         static NANO_DEVICE constexpr int columns(int i) {
// CHECK-NEXT:      constexpr int all[] = {1024, 1024};
// CHECK:       __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
// CHECK:         const __grid_constant__ nano::TensorMaps<4> maps
// CHECK:         nano::SplitResults<Split::count> results;
// CHECK-NEXT:    results.c[0] = wup;
// CHECK-NEXT:    results.c[1] = wgate;
// CHECK-NEXT:    nano::splitProducts<Split>(maps.map, results, counts);
step.program @split {
  %x = step.buffer "x" : memref<32768x1024xbf16>
  %gate = step.buffer "gate" : memref<32768x2816xbf16>
  %up = step.buffer "up" : memref<32768x2816xbf16>
  %wgate = step.buffer "wgate" : memref<2816x1024xf32>
  %wup = step.buffer "wup" : memref<2816x1024xf32>
  step.matmul %up, %x into %wup {transpose_a} : memref<32768x2816xbf16>, memref<32768x1024xbf16>, memref<2816x1024xf32>
  step.matmul %gate, %x into %wgate {transpose_a} : memref<32768x2816xbf16>, memref<32768x1024xbf16>, memref<2816x1024xf32>
}

// -----

// Two products of one operand: the kernel has a tensor map of each matrix B, and neighbours of both products end at once.
// IR-LABEL: step.program @pair
// IR:         kernel.func @matmul_sigmoid_mul_cast_
// IR-SAME:    instantiates = #kernel.product<rows = 4096, columns = 256, inner = 512, transpose_a = false, transpose_b = true, blocks = 64, a = 0, b = 1, scales = [3, 4, 3, 5], others = [],
// IR-SAME:      results = [array<i64: 6>, array<i64: 7>], added = [], second = 2 : i64, epilogue = @{{.*}}.epilogue>
// CHECK-LABEL: // matmul_sigmoid_mul_cast_
// CHECK:         static constexpr int rows = 4096, columns = 256, inner = 512, blocks = 64, sums = 0;
// CHECK-NEXT:    static constexpr int products = 2;
// CHECK:         NANO_DEVICE float scale(int product) const {
// CHECK-NEXT:      return product == 0 ? nano::read(scale_x) * nano::read(scale_v) : nano::read(scale_x) *
// CHECK-NEXT:          nano::read(scale_w);
// CHECK:         NANO_DEVICE void store(int row, int column, const nano::Vec<nano::bf16, 8> &product,
// CHECK-NEXT:                           const nano::Vec<nano::bf16, 8> &second,
// CHECK-NEXT:                           const Others &, const Columns &) const {
// CHECK-NEXT:      const auto mul = nano::sigmoidOfPower(nano::to<float>(product) * -1.442695f) *
// CHECK-NEXT:          nano::to<float>(second);
// CHECK-NEXT:      nano::storeStreaming<8>(y + (row * 256 + column), nano::to<nano::bf16>(mul));
// CHECK-NEXT:      nano::storeStreaming<8>(up + (row * 256 + column), second);
// CHECK:       const __grid_constant__ nano::TensorMaps<3> maps
// CHECK:         nano::matmul(int(work.begin), maps.map[0], maps.map[1], maps.map[2], x);
step.program @pair {
  %x = step.buffer "x" : memref<4096x512xf8E4M3FN>
  %v = step.buffer "v" : memref<256x512xf8E4M3FN>
  %w = step.buffer "w" : memref<256x512xf8E4M3FN>
  %sx = step.buffer "scale_x" : memref<f32>
  %sv = step.buffer "scale_v" : memref<f32>
  %sw = step.buffer "scale_w" : memref<f32>
  %y = step.buffer "y" : memref<4096x256xbf16>
  %u = step.buffer "up" : memref<4096x256xbf16>
  step.task ins(%x, %v, %w, %sx, %sv, %sw) outs(%y, %u)
      : (memref<4096x512xf8E4M3FN>, memref<256x512xf8E4M3FN>, memref<256x512xf8E4M3FN>, memref<f32>, memref<f32>, memref<f32>) -> (memref<4096x256xbf16>, memref<4096x256xbf16>) {
  ^bb0(%a: tensor<4096x512xf8E4M3FN>, %b: tensor<256x512xf8E4M3FN>, %c: tensor<256x512xf8E4M3FN>, %k: tensor<f32>, %l: tensor<f32>, %m: tensor<f32>):
    %p = nano.scaled_matmul %a, %b scales(%k, %l) {transpose_b} : (tensor<4096x512xf8E4M3FN>, tensor<256x512xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<4096x256xbf16>
    %q = nano.scaled_matmul %a, %c scales(%k, %m) {transpose_b} : (tensor<4096x512xf8E4M3FN>, tensor<256x512xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<4096x256xbf16>
    %f = nano.cast %p : tensor<4096x256xbf16> -> tensor<4096x256xf32>
    %g = nano.cast %q : tensor<4096x256xbf16> -> tensor<4096x256xf32>
    %s = nano.sigmoid %f : tensor<4096x256xf32>
    %h = nano.mul %s, %g : tensor<4096x256xf32>
    %r = nano.cast %h : tensor<4096x256xf32> -> tensor<4096x256xbf16>
    nano.yield %r, %q : tensor<4096x256xbf16>, tensor<4096x256xbf16>
  }
}

// -----

// Products of groups on tensor cores; and by multiply-adds where types are wide.
// CHECK-LABEL: // grouped_matmul
// CHECK:         using Element = nano::bf16;
// CHECK-NEXT:    using Result = nano::bf16;
// CHECK-NEXT:    static constexpr int rows = 512, groups = 4, columns = 96, inner = 64;
// CHECK-NEXT:    static constexpr bool transpose = true;
// CHECK-NEXT:    static constexpr int blocks = 14;
// CHECK:         x.x = {x_2, 64, 1};
// CHECK-NEXT:    x.w = {w, 6144, 64, 1};
// CHECK-NEXT:    x.ends = {ends, 1};
// CHECK-NEXT:    x.y[0] = {y, 96, 1};
// CHECK-NEXT:    nano::groupedMatmul(int(work.begin), maps.map, x);
// CHECK-LABEL: // grouped_outer
// CHECK:         static constexpr int rows = 512, groups = 4, columns = 96, inner = 64;
// CHECK-NEXT:    static constexpr int blocks = 0;
// CHECK:         nano::plainGroupedOuter(work.begin, x);
step.program @groups {
  %x = step.buffer "x" : memref<512x64xbf16>
  %w = step.buffer "w" : memref<4x96x64xbf16>
  %ends = step.buffer "ends" : memref<4xi32>
  %y = step.buffer "y" : memref<512x96xbf16>
  %a = step.buffer "a" : memref<512x64xf32>
  %b = step.buffer "b" : memref<512x96xf32>
  %d = step.buffer "d" : memref<4x64x96xf32>
  step.task ins(%x, %w, %ends) outs(%y) : (memref<512x64xbf16>, memref<4x96x64xbf16>, memref<4xi32>) -> memref<512x96xbf16> {
  ^bb0(%0: tensor<512x64xbf16>, %1: tensor<4x96x64xbf16>, %2: tensor<4xi32>):
    %3 = nano.grouped_matmul %0, %1, %2 {transpose} : (tensor<512x64xbf16>, tensor<4x96x64xbf16>, tensor<4xi32>) -> tensor<512x96xbf16>
    nano.yield %3 : tensor<512x96xbf16>
  }
  step.task ins(%a, %b, %ends) outs(%d) : (memref<512x64xf32>, memref<512x96xf32>, memref<4xi32>) -> memref<4x64x96xf32> {
  ^bb0(%0: tensor<512x64xf32>, %1: tensor<512x96xf32>, %2: tensor<4xi32>):
    %3 = nano.grouped_outer %0, %1, %2 : (tensor<512x64xf32>, tensor<512x96xf32>, tensor<4xi32>) -> tensor<4x64x96xf32>
    nano.yield %3 : tensor<4x64x96xf32>
  }
}
