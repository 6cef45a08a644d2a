// RUN: nano-opt %s -nano-lower-kernels=target=cuda -split-input-file -verify-diagnostics | FileCheck %s

// Heads of 96 run on tensor cores, whose maps have boxes of 64 columns that end behind a head: 4 blocks of 128 queries and keys for each of 2 heads.
// CHECK-LABEL: step.program @part_of_a_tile
// CHECK:         step.launch @[[PART:attention_grad_[0-9a-f]+]]({{.*}} {iterations = array<i64: 16>}
// CHECK:         kernel.func @[[PART]]({{.*}}threads = 384
step.program @part_of_a_tile {
  %q = step.buffer "q" : memref<512x2x96xbf16>
  %f = step.buffer "first" : memref<512xi32>
  %e = step.buffer "lse" : memref<512x2xf32>
  %dq = step.buffer "dq" : memref<512x2x96xbf16>
  %dk = step.buffer "dk" : memref<512x2x96xbf16>
  %dv = step.buffer "dv" : memref<512x2x96xbf16>
  step.task ins(%q, %f, %e) outs(%dq, %dk, %dv)
      : (memref<512x2x96xbf16>, memref<512xi32>, memref<512x2xf32>) -> (memref<512x2x96xbf16>, memref<512x2x96xbf16>, memref<512x2x96xbf16>) {
  ^bb0(%0: tensor<512x2x96xbf16>, %1: tensor<512xi32>, %2: tensor<512x2xf32>):
    %a, %b, %c = nano.attention_grad %0, %0, %0, %1, %1, %2, %2, %0 scale 1.200000e-01
        : (tensor<512x2x96xbf16>, tensor<512x2x96xbf16>, tensor<512x2x96xbf16>, tensor<512xi32>, tensor<512xi32>, tensor<512x2xf32>,
           tensor<512x2xf32>, tensor<512x2x96xbf16>) -> (tensor<512x2x96xbf16>, tensor<512x2x96xbf16>, tensor<512x2x96xbf16>)
    nano.yield %a, %b, %c : tensor<512x2x96xbf16>, tensor<512x2x96xbf16>, tensor<512x2x96xbf16>
  }
}

// -----

// Of heads of 256 dk and dv are computed apart: 4 blocks more for each of 2 heads, and 8 products, 5 of keys and 3 of values: 2 · 8 · 512 · 2 · 256 over
// the iterations for each key that a query sees. Maps have boxes of 32 rows.
// CHECK-LABEL: step.program @apart
// CHECK:         step.launch @[[APART:attention_grad_[0-9a-f]+]]({{.*}} {iterations = array<i64: 24>}
// CHECK:         kernel.func @[[APART]](
// CHECK-SAME:      flops_per_key = 174762.66666666666 : f64
// CHECK-SAME:      box_rows = 32>, launch = #kernel.launch<threads = 384>
step.program @apart {
  %q = step.buffer "q" : memref<512x2x256xbf16>
  %f = step.buffer "first" : memref<512xi32>
  %e = step.buffer "lse" : memref<512x2xf32>
  %dq = step.buffer "dq" : memref<512x2x256xbf16>
  %dk = step.buffer "dk" : memref<512x2x256xbf16>
  %dv = step.buffer "dv" : memref<512x2x256xbf16>
  step.task ins(%q, %f, %e) outs(%dq, %dk, %dv)
      : (memref<512x2x256xbf16>, memref<512xi32>, memref<512x2xf32>) -> (memref<512x2x256xbf16>, memref<512x2x256xbf16>, memref<512x2x256xbf16>) {
  ^bb0(%0: tensor<512x2x256xbf16>, %1: tensor<512xi32>, %2: tensor<512x2xf32>):
    %a, %b, %c = nano.attention_grad %0, %0, %0, %1, %1, %2, %2, %0 scale 1.200000e-01
        : (tensor<512x2x256xbf16>, tensor<512x2x256xbf16>, tensor<512x2x256xbf16>, tensor<512xi32>, tensor<512xi32>, tensor<512x2xf32>,
           tensor<512x2xf32>, tensor<512x2x256xbf16>) -> (tensor<512x2x256xbf16>, tensor<512x2x256xbf16>, tensor<512x2x256xbf16>)
    nano.yield %a, %b, %c : tensor<512x2x256xbf16>, tensor<512x2x256xbf16>, tensor<512x2x256xbf16>
  }
}

// -----

// Other sizes take multiply-adds, and it is said why.
// CHECK-LABEL: step.program @plain
// CHECK:         step.launch @[[PLAIN:attention_[0-9a-f]+]]({{.*}} {iterations = array<i64: 32>}
step.program @plain {
  %q = step.buffer "q" : memref<512x2x72xbf16>
  %f = step.buffer "first" : memref<512xi32>
  %y = step.buffer "y" : memref<512x2x72xbf16>
  %e = step.buffer "lse" : memref<512x2xf32>
  step.task ins(%q, %f) outs(%y, %e) : (memref<512x2x72xbf16>, memref<512xi32>) -> (memref<512x2x72xbf16>, memref<512x2xf32>) {
  ^bb0(%0: tensor<512x2x72xbf16>, %1: tensor<512xi32>):
    // expected-remark@below {{multiply-adds compute it, not tensor cores: its heads have 72 elements, and not a multiple of 16 up to 256}}
    %r, %s = nano.attention %0, %0, %0, %1, %1 scale 1.200000e-01
        : (tensor<512x2x72xbf16>, tensor<512x2x72xbf16>, tensor<512x2x72xbf16>, tensor<512xi32>, tensor<512xi32>)
        -> (tensor<512x2x72xbf16>, tensor<512x2xf32>)
    nano.yield %r, %s : tensor<512x2x72xbf16>, tensor<512x2xf32>
  }
}
