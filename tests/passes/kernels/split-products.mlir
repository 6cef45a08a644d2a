// RUN: nano-opt %s -nano-lower-kernels="target=cuda machine=h100-nvlink split-products" | FileCheck %s
// RUN: nano-opt %s -nano-lower-kernels="target=cuda machine=h100-nvlink" | FileCheck %s --check-prefix=NONE
// NONE-NOT: split_
// RUN: nano-opt %s -nano-lower-kernels="target=cuda machine=h100-nvlink split-products" -verify-diagnostics -o /dev/null
// RUN: nano-opt %s -nano-lower-kernels="target=cuda machine=h100-nvlink split-products multiprocessors=88" | FileCheck %s --check-prefix=FEWER

// The gradients of keys', values' and queries' weights, and of one with 88 tiles on 132 multiprocessors, of which the library has one of 132 tiles that are an eighth empty. What touches few bytes
// may come before products that stand before it.
// CHECK-LABEL: step.program @gradients
// CHECK:         %[[X:.*]] = step.buffer "x"
// CHECK-NOT:     step.matmul
// CHECK:         step.fill %{{.*}} : memref<64xf32>
// CHECK:         %[[COUNTS:.*]] = step.buffer "counts" : memref<61xi32>
// CHECK-NEXT:    step.fill %[[COUNTS]]
// CHECK-NEXT:    step.launch @[[THREE:split_[0-9a-f]+]](%[[V:.*]], %[[X]], %[[K:.*]], %[[Q:.*]], %[[WV:.*]], %[[WK:.*]], %[[WQ:.*]], %[[COUNTS]]) {iterations = array<i64: 132>}
// CHECK:         step.launch @[[ONE:split_[0-9a-f]+]]({{.*}}) {iterations = array<i64: 132>}
// On 88 multiprocessors the library's tiles of the last one fit.
// FEWER-LABEL: step.program @gradients
// FEWER:         step.launch @split_
// FEWER:         step.matmul
step.program @gradients {
  %x = step.buffer "x" : memref<16384x768xbf16>
  %y = step.buffer "y" : memref<32768x1024xbf16>
  %all = step.buffer "qkv" : memref<16384x1280xbf16>
  %q = step.view %all : memref<16384x1280xbf16> to memref<16384x768xbf16, strided<[1280, 1], offset: 0>>
  %k = step.view %all : memref<16384x1280xbf16> to memref<16384x256xbf16, strided<[1280, 1], offset: 768>>
  %v = step.view %all : memref<16384x1280xbf16> to memref<16384x256xbf16, strided<[1280, 1], offset: 1024>>
  %u = step.buffer "u" : memref<32768x2816xbf16>
  %wq = step.buffer "wq" : memref<768x768xf32>
  %wk = step.buffer "wk" : memref<256x768xf32>
  %wv = step.buffer "wv" : memref<256x768xf32>
  %wu = step.buffer "wu" : memref<2816x1024xf32>
  %small = step.buffer "small" : memref<64xf32>
  step.fill %x : memref<16384x768xbf16>
  step.fill %y : memref<32768x1024xbf16>
  step.fill %all : memref<16384x1280xbf16>
  step.fill %u : memref<32768x2816xbf16>
  step.fill %wu : memref<2816x1024xf32>
  // expected-remark @+1 {{cut along what it sums over, by a kernel of our own that computes 3 products, instead of by the library}}
  step.matmul %v, %x into %wv {transpose_a} : memref<16384x256xbf16, strided<[1280, 1], offset: 1024>>, memref<16384x768xbf16>, memref<256x768xf32>
  // expected-remark @+1 {{3 products}}
  step.matmul %k, %x into %wk {transpose_a} : memref<16384x256xbf16, strided<[1280, 1], offset: 768>>, memref<16384x768xbf16>, memref<256x768xf32>
  step.fill %small : memref<64xf32>
  // expected-remark @+1 {{3 products}}
  step.matmul %q, %x into %wq {transpose_a} : memref<16384x768xbf16, strided<[1280, 1], offset: 0>>, memref<16384x768xbf16>, memref<768x768xf32>
  // expected-remark @+1 {{cut along what it sums over, by a kernel of our own, instead of by the library}}
  step.matmul %u, %y add %wu into %wu {transpose_a} : memref<32768x2816xbf16>, memref<32768x1024xbf16>, memref<2816x1024xf32>, memref<2816x1024xf32>
}

// Each by itself: a factor is written, or a result read, between them; products with other numbers of summands. The library computes these.
// CHECK-LABEL: step.program @apart
// CHECK-NOT:     step.launch
// CHECK-COUNT-4: step.matmul
step.program @apart {
  %x = step.buffer "x" : memref<32768x1024xbf16>
  %k = step.buffer "k" : memref<32768x256xbf16>
  %v = step.buffer "v" : memref<32768x256xbf16>
  %s = step.buffer "s" : memref<16384x256xbf16>
  %y = step.buffer "y" : memref<16384x1024xbf16>
  %wk = step.buffer "wk" : memref<256x1024xf32>
  %wv = step.buffer "wv" : memref<256x1024xf32>
  %ws = step.buffer "ws" : memref<256x1024xf32>
  %copy = step.buffer "copy" : memref<256x1024xf32>
  step.fill %x : memref<32768x1024xbf16>
  step.fill %k : memref<32768x256xbf16>
  step.fill %v : memref<32768x256xbf16>
  step.fill %s : memref<16384x256xbf16>
  step.fill %y : memref<16384x1024xbf16>
  step.matmul %k, %x into %wk {transpose_a} : memref<32768x256xbf16>, memref<32768x1024xbf16>, memref<256x1024xf32>
  step.fill %k : memref<32768x256xbf16>
  step.matmul %v, %x into %wv {transpose_a} : memref<32768x256xbf16>, memref<32768x1024xbf16>, memref<256x1024xf32>
  step.copy %wv to %copy : memref<256x1024xf32>, memref<256x1024xf32>
  step.matmul %k, %x into %wk {transpose_a} : memref<32768x256xbf16>, memref<32768x1024xbf16>, memref<256x1024xf32>
  step.matmul %s, %y into %ws {transpose_a} : memref<16384x256xbf16>, memref<16384x1024xbf16>, memref<256x1024xf32>
}

// Each by itself too: products without a common factor, which together would be predicted to be faster than by the library.
// CHECK-LABEL: step.program @strangers
// CHECK-NOT:     step.launch
// CHECK-COUNT-2: step.matmul
step.program @strangers {
  %f = step.buffer "f" : memref<49152x768xbf16>
  %g = step.buffer "g" : memref<49152x3072xbf16>
  %h = step.buffer "h" : memref<49152x768xbf16>
  %i = step.buffer "i" : memref<49152x768xbf16>
  %wg = step.buffer "wg" : memref<3072x768xf32>
  %wh = step.buffer "wh" : memref<768x768xf32>
  step.fill %f : memref<49152x768xbf16>
  step.fill %g : memref<49152x3072xbf16>
  step.fill %h : memref<49152x768xbf16>
  step.fill %i : memref<49152x768xbf16>
  step.matmul %g, %f into %wg {transpose_a} : memref<49152x3072xbf16>, memref<49152x768xbf16>, memref<3072x768xf32>
  step.matmul %h, %i into %wh {transpose_a} : memref<49152x768xbf16>, memref<49152x768xbf16>, memref<768x768xf32>
}

// Nor is this one: there are fewer tiles than multiprocessors and some have more than two parts, which wait for each other.
// CHECK-LABEL: step.program @crowded
// CHECK-NOT:     step.launch
// CHECK-COUNT-1: step.matmul
step.program @crowded {
  %f = step.buffer "f" : memref<49152x768xbf16>
  %g = step.buffer "g" : memref<49152x2304xbf16>
  %wg = step.buffer "wg" : memref<2304x768xf32>
  step.fill %f : memref<49152x768xbf16>
  step.fill %g : memref<49152x2304xbf16>
  step.matmul %g, %f into %wg {transpose_a} : memref<49152x2304xbf16>, memref<49152x768xbf16>, memref<2304x768xf32>
}

// Not the template's: a result of bf16; a product that is scaled; a factor that lies the other way round; rows of 15 elements. And one that the library's tiles fit.
// CHECK-LABEL: step.program @library
// CHECK-NOT:     step.launch
// CHECK-COUNT-5: step.matmul
step.program @library {
  %x = step.buffer "x" : memref<32768x1024xbf16>
  %u = step.buffer "u" : memref<32768x2816xbf16>
  %t = step.buffer "t" : memref<2816x32768xbf16>
  %o = step.buffer "o" : memref<32768x15xbf16>
  %f = step.buffer "f" : memref<49152x768xbf16>
  %g = step.buffer "g" : memref<49152x3072xbf16>
  %narrow = step.buffer "narrow" : memref<2816x1024xbf16>
  %wu = step.buffer "wu" : memref<2816x1024xf32>
  %wo = step.buffer "wo" : memref<15x1024xf32>
  %wg = step.buffer "wg" : memref<3072x768xf32>
  step.fill %x : memref<32768x1024xbf16>
  step.fill %u : memref<32768x2816xbf16>
  step.fill %t : memref<2816x32768xbf16>
  step.fill %o : memref<32768x15xbf16>
  step.fill %f : memref<49152x768xbf16>
  step.fill %g : memref<49152x3072xbf16>
  step.matmul %u, %x into %narrow {transpose_a} : memref<32768x2816xbf16>, memref<32768x1024xbf16>, memref<2816x1024xbf16>
  step.matmul %u, %x into %wu {alpha = 2.0 : f64, transpose_a} : memref<32768x2816xbf16>, memref<32768x1024xbf16>, memref<2816x1024xf32>
  step.matmul %t, %x into %wu : memref<2816x32768xbf16>, memref<32768x1024xbf16>, memref<2816x1024xf32>
  step.matmul %o, %x into %wo {transpose_a} : memref<32768x15xbf16>, memref<32768x1024xbf16>, memref<15x1024xf32>
  step.matmul %g, %f into %wg {transpose_a} : memref<49152x3072xbf16>, memref<49152x768xbf16>, memref<3072x768xf32>
}

// CHECK-DAG:   kernel.func @[[THREE]]{{.*}}instantiates = #kernel.split<rows = [256, 256, 768], columns = [768, 768, 768], inner = 16384, blocks = 132, a = [0, 2, 3], b = [1, 1, 1], c = [4, 5, 6], sums = [], counts = 7>
// CHECK-DAG:   kernel.func @[[ONE]]{{.*}}instantiates = #kernel.split<rows = [2816], columns = [1024], inner = 32768, blocks = 132, a = [0], b = [1], c = [], sums = [2], counts = 3>
