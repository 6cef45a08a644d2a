// RUN: nano-opt %s -nano-lower-kernels=target=cuda -o %t 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t

// Rows of 8,192 tokens that queries see as a whole: five products, with sums for dq and counts, which are zeros before the launch. 32 · 128 blocks of 128 keys, and blocks that make
// 24 of the 2 · 32 · 128 units of sums results.
// CHECK-LABEL: step.program @long_rows
// CHECK:         %[[COUNTS:.*]] = step.buffer "counts" : memref<8193xi32>
// CHECK:         step.fill %[[COUNTS]]
// CHECK:         %[[PARTIAL:.*]] = step.buffer "partial" : memref<33554432xf32>
// CHECK:         step.launch @[[LONG:attention_grad_[0-9a-f]+]]({{.*}}%[[PARTIAL]], %[[COUNTS]]) {iterations = array<i64: 4438>}
step.program @long_rows {
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
    %4 = nano.constant 8191.0 : tensor<16384xi32>
    %5 = nano.add %3, %4 : tensor<16384xi32>
    nano.yield %3, %5 : tensor<16384xi32>, tensor<16384xi32>
  }
  step.task ins(%q, %k, %v, %f, %l, %e, %d, %g) outs(%dq, %dk, %dv)
      : (memref<16384x32x64xbf16>, memref<16384x32x64xbf16>, memref<16384x32x64xbf16>, memref<16384xi32>, memref<16384xi32>, memref<16384x32xf32>, memref<16384x32xf32>, memref<16384x32x64xbf16>) -> (memref<16384x32x64xbf16>, memref<16384x32x64xbf16>, memref<16384x32x64xbf16>) {
  ^bb0(%0: tensor<16384x32x64xbf16>, %1: tensor<16384x32x64xbf16>, %2: tensor<16384x32x64xbf16>, %3: tensor<16384xi32>, %4: tensor<16384xi32>, %5: tensor<16384x32xf32>, %6: tensor<16384x32xf32>, %7: tensor<16384x32x64xbf16>):
    %a, %b, %c = nano.attention_grad %0, %1, %2, %3, %4, %5, %6, %7 scale 1.200000e-01
        : (tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384xi32>, tensor<16384xi32>, tensor<16384x32xf32>, tensor<16384x32xf32>, tensor<16384x32x64xbf16>) -> (tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>)
    nano.yield %a, %b, %c : tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>
  }
}

// Shorter rows, ranges that begin elsewhere: seven products, where a block of threads for each multiprocessor takes one block of tokens after the other, by a
// number that is zero before the launch.
// CHECK-LABEL: step.program @short_rows
// CHECK-NOT:     "counts"
// CHECK:         %[[TICKETS:.*]] = step.buffer "tickets" : memref<1xi32>
// CHECK:         step.fill %[[TICKETS]]
// CHECK:         step.launch @[[BY_TICKETS:attention_grad_[0-9a-f]+]]({{.*}}%[[TICKETS]]) {iterations = array<i64: 132>}
step.program @short_rows {
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
    %1 = nano.constant 512.0 : tensor<16384xi32>
    %2 = nano.div %0, %1 : tensor<16384xi32>
    %3 = nano.mul %2, %1 : tensor<16384xi32>
    nano.yield %3, %0 : tensor<16384xi32>, tensor<16384xi32>
  }
  step.task ins(%q, %k, %v, %f, %l, %e, %d, %g) outs(%dq, %dk, %dv)
      : (memref<16384x16x128xbf16>, memref<16384x16x128xbf16>, memref<16384x16x128xbf16>, memref<16384xi32>, memref<16384xi32>, memref<16384x16xf32>, memref<16384x16xf32>, memref<16384x16x128xbf16>) -> (memref<16384x16x128xbf16>, memref<16384x16x128xbf16>, memref<16384x16x128xbf16>) {
  ^bb0(%0: tensor<16384x16x128xbf16>, %1: tensor<16384x16x128xbf16>, %2: tensor<16384x16x128xbf16>, %3: tensor<16384xi32>, %4: tensor<16384xi32>, %5: tensor<16384x16xf32>, %6: tensor<16384x16xf32>, %7: tensor<16384x16x128xbf16>):
    // REMARK: [[@LINE+1]]:{{.*}} remark: a block of threads for each multiprocessor computes it, one block of tokens after the other
    %a, %b, %c = nano.attention_grad %0, %1, %2, %3, %4, %5, %6, %7 scale 1.200000e-01
        : (tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384xi32>, tensor<16384xi32>, tensor<16384x16xf32>, tensor<16384x16xf32>, tensor<16384x16x128xbf16>) -> (tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>)
    nano.yield %a, %b, %c : tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>
  }
}

// CHECK-LABEL: step.program @other_ranges
// CHECK-NOT:     "counts"
// CHECK:         step.launch @[[BY_TICKETS]](
step.program @other_ranges {
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
    %4 = nano.constant 128.0 : tensor<16384xi32>
    %5 = nano.max %3, %4 : tensor<16384xi32>
    nano.yield %5, %0 : tensor<16384xi32>, tensor<16384xi32>
  }
  step.task ins(%q, %k, %v, %f, %l, %e, %d, %g) outs(%dq, %dk, %dv)
      : (memref<16384x16x128xbf16>, memref<16384x16x128xbf16>, memref<16384x16x128xbf16>, memref<16384xi32>, memref<16384xi32>, memref<16384x16xf32>, memref<16384x16xf32>, memref<16384x16x128xbf16>) -> (memref<16384x16x128xbf16>, memref<16384x16x128xbf16>, memref<16384x16x128xbf16>) {
  ^bb0(%0: tensor<16384x16x128xbf16>, %1: tensor<16384x16x128xbf16>, %2: tensor<16384x16x128xbf16>, %3: tensor<16384xi32>, %4: tensor<16384xi32>, %5: tensor<16384x16xf32>, %6: tensor<16384x16xf32>, %7: tensor<16384x16x128xbf16>):
    %a, %b, %c = nano.attention_grad %0, %1, %2, %3, %4, %5, %6, %7 scale 1.200000e-01
        : (tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384xi32>, tensor<16384xi32>, tensor<16384x16xf32>, tensor<16384x16xf32>, tensor<16384x16x128xbf16>) -> (tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>)
    nano.yield %a, %b, %c : tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>, tensor<16384x16x128xbf16>
  }
}

// Heads that share keys in rows of 896: neither.
// CHECK-LABEL: step.program @shared_keys
// CHECK-NOT:     "counts"
// CHECK-NOT:     "tickets"
// CHECK:         step.launch @attention_grad_{{.*}} {iterations = array<i64: 3072>}
step.program @shared_keys {
  %q = step.buffer "q" : memref<16384x16x128xbf16>
  %k = step.buffer "k" : memref<16384x8x128xbf16>
  %v = step.buffer "v" : memref<16384x8x128xbf16>
  %f = step.buffer "first" : memref<16384xi32>
  %l = step.buffer "last" : memref<16384xi32>
  %e = step.buffer "lse" : memref<16384x16xf32>
  %d = step.buffer "delta" : memref<16384x16xf32>
  %g = step.buffer "dy" : memref<16384x16x128xbf16>
  %dq = step.buffer "dq" : memref<16384x16x128xbf16>
  %dk = step.buffer "dk" : memref<16384x8x128xbf16>
  %dv = step.buffer "dv" : memref<16384x8x128xbf16>
  step.task ins() outs(%f, %l) : () -> (memref<16384xi32>, memref<16384xi32>) {
    %0 = nano.iota 0 : tensor<16384xi32>
    %1 = nano.constant 896.0 : tensor<16384xi32>
    %2 = nano.div %0, %1 : tensor<16384xi32>
    %3 = nano.mul %2, %1 : tensor<16384xi32>
    nano.yield %3, %0 : tensor<16384xi32>, tensor<16384xi32>
  }
  step.task ins(%q, %k, %v, %f, %l, %e, %d, %g) outs(%dq, %dk, %dv)
      : (memref<16384x16x128xbf16>, memref<16384x8x128xbf16>, memref<16384x8x128xbf16>, memref<16384xi32>, memref<16384xi32>, memref<16384x16xf32>, memref<16384x16xf32>, memref<16384x16x128xbf16>) -> (memref<16384x16x128xbf16>, memref<16384x8x128xbf16>, memref<16384x8x128xbf16>) {
  ^bb0(%0: tensor<16384x16x128xbf16>, %1: tensor<16384x8x128xbf16>, %2: tensor<16384x8x128xbf16>, %3: tensor<16384xi32>, %4: tensor<16384xi32>, %5: tensor<16384x16xf32>, %6: tensor<16384x16xf32>, %7: tensor<16384x16x128xbf16>):
    %a, %b, %c = nano.attention_grad %0, %1, %2, %3, %4, %5, %6, %7 scale 1.200000e-01
        : (tensor<16384x16x128xbf16>, tensor<16384x8x128xbf16>, tensor<16384x8x128xbf16>, tensor<16384xi32>, tensor<16384xi32>, tensor<16384x16xf32>, tensor<16384x16xf32>, tensor<16384x16x128xbf16>) -> (tensor<16384x16x128xbf16>, tensor<16384x8x128xbf16>, tensor<16384x8x128xbf16>)
    nano.yield %a, %b, %c : tensor<16384x16x128xbf16>, tensor<16384x8x128xbf16>, tensor<16384x8x128xbf16>
  }
}

// What a launch costs: five products here are six of those of the other kernel: 6 · 2 · T · H · Dh for a key that a query sees.
// CHECK:         kernel.func @[[LONG]](
// CHECK-SAME:      write %{{.*}}: memref<33554432xf32>
// CHECK-SAME:      add %{{.*}}: memref<8193xi32>
// CHECK-SAME:      flops_per_key = 907
// CHECK-SAME:      partial = 11, counts = 12
// CHECK:         kernel.func @[[BY_TICKETS]](
// CHECK-SAME:      add %{{.*}}: memref<1xi32>
// CHECK-SAME:      tickets = 11, box_rows = 64
