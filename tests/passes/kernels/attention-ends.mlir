// RUN: nano-opt %s -nano-lower-kernels=target=cuda -o %t 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t

// Causal rows of 8,192 tokens, wide heads: five products, by blocks of threads that have a block of keys from either end of a row, 2 · 16 · 32 of them, and
// those that make 16 of the 16 · 256 tiles' sums dq. Of a tile there is a unit of sums, and another where blocks of the second half of a row add to it first.
// CHECK-LABEL: step.program @long_rows
// CHECK:         %[[COUNTS:.*]] = step.buffer "counts" : memref<6145xi32>
// CHECK:         step.fill %[[COUNTS]]
// CHECK:         %[[PARTIAL:.*]] = step.buffer "partial" : memref<50331648xf32>
// CHECK:         step.launch @[[LONG:attention_grad_[0-9a-f]+]]({{.*}}%[[PARTIAL]], %[[COUNTS]]) {iterations = array<i64: 1280>}
step.program @long_rows {
  %q = step.buffer "q" : memref<16384x16x128xbf16>
  %k = step.buffer "k" : memref<16384x16x128xbf16>
  %v = step.buffer "v" : memref<16384x16x128xbf16>
  %f = step.buffer "first" : memref<16384xi32>
  %l = step.buffer "last" : memref<16384xi32>
  %e = step.buffer "lse" : memref<16384x16xf32>
  %d = step.buffer "delta" : memref<16384x16xf32>
  %g = step.buffer "dy" : memref<16384x16x128xbf16>
  %dq = step.buffer "dq" : memref<16384x16x128xbf16>
  %dk = step.buffer "dk" : memref<16384x16x128xbf16>
  %dv = step.buffer "dv" : memref<16384x16x128xbf16>
  step.task ins() outs(%f, %l) : () -> (memref<16384xi32>, memref<16384xi32>) {
    %0 = nano.iota 0 : tensor<16384xi32>
    %1 = nano.constant 8192.0 : tensor<16384xi32>
    %2 = nano.div %0, %1 : tensor<16384xi32>
    %3 = nano.mul %2, %1 : tensor<16384xi32>
    nano.yield %3, %0 : tensor<16384xi32>, tensor<16384xi32>
  }
  step.task ins(%q, %k, %v, %f, %l, %e, %d, %g) outs(%dq, %dk, %dv)
      : (memref<16384x16x128xbf16>, memref<16384x16x128xbf16>, memref<16384x16x128xbf16>, memref<16384xi32>, memref<16384xi32>, memref<16384x16xf32>, memref<16384x16xf32>, memref<16384x16x128xbf16>) -> (memref<16384x16x128xbf16>, memref<16384x16x128xbf16>, memref<16384x16x128xbf16>) {
  ^bb0(%0: tensor<16384x16x128xbf16>, %1: tensor<16384x16x128xbf16>, %2: tensor<16384x16x128xbf16>, %3: tensor<16384xi32>, %4: tensor<16384xi32>, %5: tensor<16384x16xf32>, %6: tensor<16384x16xf32>, %7: tensor<16384x16x128xbf16>):
    // REMARK: [[@LINE+1]]:{{.*}} remark: it is computed in five products, by blocks of threads that have a block of keys from either end of rows of 8192 tokens
    %a, %b, %c = nano.attention_grad %0, %1, %2, %3, %4, %5, %6, %7 scale 1.200000e-01
        : (tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384xi32>, tensor<16384xi32>, tensor<16384x16xf32>, tensor<16384x16xf32>, tensor<16384x16x128xbf16>) -> (tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>)
    nano.yield %a, %b, %c : tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>
  }
}

// Heads that share keys are those of one block, one after the other.
// CHECK-LABEL: step.program @shared_keys
// CHECK:         step.buffer "partial" : memref<25165824xf32>
// CHECK:         step.launch @attention_grad_{{.*}} {iterations = array<i64: 256>}
step.program @shared_keys {
  %q = step.buffer "q" : memref<16384x8x128xbf16>
  %k = step.buffer "k" : memref<16384x2x128xbf16>
  %v = step.buffer "v" : memref<16384x2x128xbf16>
  %f = step.buffer "first" : memref<16384xi32>
  %l = step.buffer "last" : memref<16384xi32>
  %e = step.buffer "lse" : memref<16384x8xf32>
  %d = step.buffer "delta" : memref<16384x8xf32>
  %g = step.buffer "dy" : memref<16384x8x128xbf16>
  %dq = step.buffer "dq" : memref<16384x8x128xbf16>
  %dk = step.buffer "dk" : memref<16384x2x128xbf16>
  %dv = step.buffer "dv" : memref<16384x2x128xbf16>
  step.task ins() outs(%f, %l) : () -> (memref<16384xi32>, memref<16384xi32>) {
    %0 = nano.iota 0 : tensor<16384xi32>
    %1 = nano.constant 2048.0 : tensor<16384xi32>
    %2 = nano.div %0, %1 : tensor<16384xi32>
    %3 = nano.mul %2, %1 : tensor<16384xi32>
    nano.yield %3, %0 : tensor<16384xi32>, tensor<16384xi32>
  }
  step.task ins(%q, %k, %v, %f, %l, %e, %d, %g) outs(%dq, %dk, %dv)
      : (memref<16384x8x128xbf16>, memref<16384x2x128xbf16>, memref<16384x2x128xbf16>, memref<16384xi32>, memref<16384xi32>, memref<16384x8xf32>, memref<16384x8xf32>, memref<16384x8x128xbf16>) -> (memref<16384x8x128xbf16>, memref<16384x2x128xbf16>, memref<16384x2x128xbf16>) {
  ^bb0(%0: tensor<16384x8x128xbf16>, %1: tensor<16384x2x128xbf16>, %2: tensor<16384x2x128xbf16>, %3: tensor<16384xi32>, %4: tensor<16384xi32>, %5: tensor<16384x8xf32>, %6: tensor<16384x8xf32>, %7: tensor<16384x8x128xbf16>):
    %a, %b, %c = nano.attention_grad %0, %1, %2, %3, %4, %5, %6, %7 scale 1.200000e-01
        : (tensor<16384x8x128xbf16>, tensor<16384x2x128xbf16>, tensor<16384x2x128xbf16>, tensor<16384xi32>, tensor<16384xi32>, tensor<16384x8xf32>, tensor<16384x8xf32>, tensor<16384x8x128xbf16>) -> (tensor<16384x8x128xbf16>, tensor<16384x2x128xbf16>, tensor<16384x2x128xbf16>)
    nano.yield %a, %b, %c : tensor<16384x8x128xbf16>, tensor<16384x2x128xbf16>, tensor<16384x2x128xbf16>
  }
}

// Narrow heads of rows that are too long for a block of threads to have whole ones.
// CHECK-LABEL: step.program @narrow_heads
// CHECK:         step.buffer "partial" : memref<50331648xf32>
// CHECK:         step.launch @attention_grad_{{.*}} {iterations = array<i64: 2560>}
step.program @narrow_heads {
  %q = step.buffer "q" : memref<16384x32x64xbf16>
  %k = step.buffer "k" : memref<16384x32x64xbf16>
  %v = step.buffer "v" : memref<16384x32x64xbf16>
  %f = step.buffer "first" : memref<16384xi32>
  %l = step.buffer "last" : memref<16384xi32>
  %e = step.buffer "lse" : memref<16384x32xf32>
  %d = step.buffer "delta" : memref<16384x32xf32>
  %g = step.buffer "dy" : memref<16384x32x64xbf16>
  %dq = step.buffer "dq" : memref<16384x32x64xbf16>
  %dk = step.buffer "dk" : memref<16384x32x64xbf16>
  %dv = step.buffer "dv" : memref<16384x32x64xbf16>
  step.task ins() outs(%f, %l) : () -> (memref<16384xi32>, memref<16384xi32>) {
    %0 = nano.iota 0 : tensor<16384xi32>
    %1 = nano.constant 8192.0 : tensor<16384xi32>
    %2 = nano.div %0, %1 : tensor<16384xi32>
    %3 = nano.mul %2, %1 : tensor<16384xi32>
    nano.yield %3, %0 : tensor<16384xi32>, tensor<16384xi32>
  }
  step.task ins(%q, %k, %v, %f, %l, %e, %d, %g) outs(%dq, %dk, %dv)
      : (memref<16384x32x64xbf16>, memref<16384x32x64xbf16>, memref<16384x32x64xbf16>, memref<16384xi32>, memref<16384xi32>, memref<16384x32xf32>, memref<16384x32xf32>, memref<16384x32x64xbf16>) -> (memref<16384x32x64xbf16>, memref<16384x32x64xbf16>, memref<16384x32x64xbf16>) {
  ^bb0(%0: tensor<16384x32x64xbf16>, %1: tensor<16384x32x64xbf16>, %2: tensor<16384x32x64xbf16>, %3: tensor<16384xi32>, %4: tensor<16384xi32>, %5: tensor<16384x32xf32>, %6: tensor<16384x32xf32>, %7: tensor<16384x32x64xbf16>):
    %a, %b, %c = nano.attention_grad %0, %1, %2, %3, %4, %5, %6, %7 scale 1.200000e-01
        : (tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384xi32>, tensor<16384xi32>, tensor<16384x32xf32>, tensor<16384x32xf32>, tensor<16384x32x64xbf16>) -> (tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>)
    nano.yield %a, %b, %c : tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>
  }
}

// 64 blocks of threads would leave half of the multiprocessors without work.
// CHECK-LABEL: step.program @few_keys
// CHECK-NOT:     "counts"
// CHECK:         step.launch @attention_grad_{{.*}} {iterations = array<i64: 1152>}
step.program @few_keys {
  %q = step.buffer "q" : memref<16384x8x128xbf16>
  %k = step.buffer "k" : memref<16384x1x128xbf16>
  %v = step.buffer "v" : memref<16384x1x128xbf16>
  %f = step.buffer "first" : memref<16384xi32>
  %l = step.buffer "last" : memref<16384xi32>
  %e = step.buffer "lse" : memref<16384x8xf32>
  %d = step.buffer "delta" : memref<16384x8xf32>
  %g = step.buffer "dy" : memref<16384x8x128xbf16>
  %dq = step.buffer "dq" : memref<16384x8x128xbf16>
  %dk = step.buffer "dk" : memref<16384x1x128xbf16>
  %dv = step.buffer "dv" : memref<16384x1x128xbf16>
  step.task ins() outs(%f, %l) : () -> (memref<16384xi32>, memref<16384xi32>) {
    %0 = nano.iota 0 : tensor<16384xi32>
    %1 = nano.constant 2048.0 : tensor<16384xi32>
    %2 = nano.div %0, %1 : tensor<16384xi32>
    %3 = nano.mul %2, %1 : tensor<16384xi32>
    nano.yield %3, %0 : tensor<16384xi32>, tensor<16384xi32>
  }
  step.task ins(%q, %k, %v, %f, %l, %e, %d, %g) outs(%dq, %dk, %dv)
      : (memref<16384x8x128xbf16>, memref<16384x1x128xbf16>, memref<16384x1x128xbf16>, memref<16384xi32>, memref<16384xi32>, memref<16384x8xf32>, memref<16384x8xf32>, memref<16384x8x128xbf16>) -> (memref<16384x8x128xbf16>, memref<16384x1x128xbf16>, memref<16384x1x128xbf16>) {
  ^bb0(%0: tensor<16384x8x128xbf16>, %1: tensor<16384x1x128xbf16>, %2: tensor<16384x1x128xbf16>, %3: tensor<16384xi32>, %4: tensor<16384xi32>, %5: tensor<16384x8xf32>, %6: tensor<16384x8xf32>, %7: tensor<16384x8x128xbf16>):
    %a, %b, %c = nano.attention_grad %0, %1, %2, %3, %4, %5, %6, %7 scale 1.200000e-01
        : (tensor<16384x8x128xbf16>, tensor<16384x1x128xbf16>, tensor<16384x1x128xbf16>, tensor<16384xi32>, tensor<16384xi32>, tensor<16384x8xf32>, tensor<16384x8xf32>, tensor<16384x8x128xbf16>) -> (tensor<16384x8x128xbf16>, tensor<16384x1x128xbf16>, tensor<16384x1x128xbf16>)
    nano.yield %a, %b, %c : tensor<16384x8x128xbf16>, tensor<16384x1x128xbf16>, tensor<16384x1x128xbf16>
  }
}

// What the longest costs: 6 · 2 · T · H · Dh for a key that every query sees, a 1,280th of it a block of threads.
// CHECK:         kernel.func @[[LONG]](
// CHECK-SAME:      write %{{.*}}: memref<50331648xf32>
// CHECK-SAME:      add %{{.*}}: memref<6145xi32>
// CHECK-SAME:      flops_per_key = 3145
// CHECK-SAME:      partial = 11, counts = 12, row = 8192, box_rows = 64
