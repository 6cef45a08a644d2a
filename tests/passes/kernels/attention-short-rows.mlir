// RUN: nano-opt %s -nano-lower-kernels=target=cuda -o %t 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t
// RUN: nano-opt %s -nano-lower-kernels="target=cuda candidates=true" | FileCheck %s --check-prefix=OTHERS

// Causal rows of 512 tokens: five products, by blocks of threads that have whole rows of a head as their share, each with sums for two rows, and tell by
// counts that those of the first one are there. Others to measure are in seven.
// CHECK-LABEL: step.program @causal_rows
// CHECK:         %[[COUNTS:.*]] = step.buffer "counts" : memref<133xi32>
// CHECK:         step.fill %[[COUNTS]]
// CHECK:         %[[PARTIAL:.*]] = step.buffer "partial" : memref<8650752xf32>
// CHECK:         step.launch @[[ROWS:attention_grad_[0-9a-f]+]]({{.*}}%[[PARTIAL]], %[[COUNTS]]) {iterations = array<i64: 132>}
// OTHERS-LABEL: step.program @causal_rows
// OTHERS:        step.launch @attention_grad_{{.*}} {candidates = [@[[SEVEN:attention_grad_[0-9a-f]+]], @{{.*}}, @{{.*}}, @{{[^,]*}}], iterations = array<i64: 132>}
step.program @causal_rows {
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
    %1 = nano.constant 512.0 : tensor<16384xi32>
    %2 = nano.div %0, %1 : tensor<16384xi32>
    %3 = nano.mul %2, %1 : tensor<16384xi32>
    nano.yield %3, %0 : tensor<16384xi32>, tensor<16384xi32>
  }
  step.task ins(%q, %k, %v, %f, %l, %e, %d, %g) outs(%dq, %dk, %dv)
      : (memref<16384x32x64xbf16>, memref<16384x32x64xbf16>, memref<16384x32x64xbf16>, memref<16384xi32>, memref<16384xi32>, memref<16384x32xf32>, memref<16384x32xf32>, memref<16384x32x64xbf16>) -> (memref<16384x32x64xbf16>, memref<16384x32x64xbf16>, memref<16384x32x64xbf16>) {
  ^bb0(%0: tensor<16384x32x64xbf16>, %1: tensor<16384x32x64xbf16>, %2: tensor<16384x32x64xbf16>, %3: tensor<16384xi32>, %4: tensor<16384xi32>, %5: tensor<16384x32xf32>, %6: tensor<16384x32xf32>, %7: tensor<16384x32x64xbf16>):
    // REMARK: [[@LINE+1]]:{{.*}} remark: a block of threads for each multiprocessor computes it in five products, its share of rows of 512 tokens
    %a, %b, %c = nano.attention_grad %0, %1, %2, %3, %4, %5, %6, %7 scale 1.200000e-01
        : (tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384xi32>, tensor<16384xi32>, tensor<16384x32xf32>, tensor<16384x32xf32>, tensor<16384x32x64xbf16>) -> (tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>)
    nano.yield %a, %b, %c : tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>
  }
}

// What is written to the ranges behind the gradients says nothing.
// CHECK-LABEL: step.program @written_behind
// CHECK:         step.launch @[[ROWS]](
step.program @written_behind {
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
    %1 = nano.constant 512.0 : tensor<16384xi32>
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
  step.task ins(%f) outs(%f) : (memref<16384xi32>) -> (memref<16384xi32>) {
  ^bb0(%0: tensor<16384xi32>):
    %1 = nano.add %0, %0 : tensor<16384xi32>
    nano.yield %1 : tensor<16384xi32>
  }
}

// Not where queries see keys behind them.
// CHECK-LABEL: step.program @whole_rows
// CHECK-NOT:     "counts"
// CHECK:         "tickets"
step.program @whole_rows {
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
    %1 = nano.constant 512.0 : tensor<16384xi32>
    %2 = nano.div %0, %1 : tensor<16384xi32>
    %3 = nano.mul %2, %1 : tensor<16384xi32>
    %4 = nano.constant 511.0 : tensor<16384xi32>
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

// Not where something else has been written to them before.
// CHECK-LABEL: step.program @ranges_written_again
// CHECK-NOT:     "counts"
// CHECK:         "tickets"
step.program @ranges_written_again {
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
    %1 = nano.constant 512.0 : tensor<16384xi32>
    %2 = nano.div %0, %1 : tensor<16384xi32>
    %3 = nano.mul %2, %1 : tensor<16384xi32>
    nano.yield %3, %0 : tensor<16384xi32>, tensor<16384xi32>
  }
  step.task ins(%f) outs(%l) : (memref<16384xi32>) -> (memref<16384xi32>) {
  ^bb0(%0: tensor<16384xi32>):
    nano.yield %0 : tensor<16384xi32>
  }
  step.task ins(%q, %k, %v, %f, %l, %e, %d, %g) outs(%dq, %dk, %dv)
      : (memref<16384x32x64xbf16>, memref<16384x32x64xbf16>, memref<16384x32x64xbf16>, memref<16384xi32>, memref<16384xi32>, memref<16384x32xf32>, memref<16384x32xf32>, memref<16384x32x64xbf16>) -> (memref<16384x32x64xbf16>, memref<16384x32x64xbf16>, memref<16384x32x64xbf16>) {
  ^bb0(%0: tensor<16384x32x64xbf16>, %1: tensor<16384x32x64xbf16>, %2: tensor<16384x32x64xbf16>, %3: tensor<16384xi32>, %4: tensor<16384xi32>, %5: tensor<16384x32xf32>, %6: tensor<16384x32xf32>, %7: tensor<16384x32x64xbf16>):
    %a, %b, %c = nano.attention_grad %0, %1, %2, %3, %4, %5, %6, %7 scale 1.200000e-01
        : (tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384xi32>, tensor<16384xi32>, tensor<16384x32xf32>, tensor<16384x32xf32>, tensor<16384x32x64xbf16>) -> (tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>)
    nano.yield %a, %b, %c : tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>, tensor<16384x32x64xbf16>
  }
}

// CHECK:         kernel.func @[[ROWS]](
// CHECK-SAME:      write %{{.*}}: memref<8650752xf32>
// CHECK-SAME:      add %{{.*}}: memref<133xi32>
// CHECK-SAME:      flops_per_key = 3050402.909
// CHECK-SAME:      partial = 11, counts = 12, row = 512, box_rows = 64
// OTHERS:        kernel.func @[[SEVEN]](
// OTHERS-NOT:      row =
// OTHERS-SAME:     box_rows = 64
