// RUN: nano-opt %s -split-input-file -nano-lower-kernels=target=cuda | FileCheck %s

// The forward pass with heads of 64 in rows of 1,024 tokens: four warpgroups, 256 queries and 64 keys at a time, the last ones of a row first.
// CHECK-LABEL: step.program @short_rows
// CHECK:         step.launch @attention_{{.*}} {iterations = array<i64: 132>}
// CHECK:         kernel.func @attention_
// CHECK-SAME:    row = 1024
// CHECK-NOT:     tiles = 3
// CHECK-SAME:    box_rows = 256
// CHECK-SAME:    box_rows = 64
step.program @short_rows {
  %q = step.buffer "q" : memref<16384x12x64xbf16>
  %f = step.buffer "first" : memref<16384xi32>
  %l = step.buffer "last" : memref<16384xi32>
  %y = step.buffer "y" : memref<16384x12x64xbf16>
  %e = step.buffer "lse" : memref<16384x12xf32>
  step.task ins() outs(%f, %l) : () -> (memref<16384xi32>, memref<16384xi32>) {
    %0 = nano.iota 0 : tensor<16384xi32>
    %1 = nano.constant 1024.0 : tensor<16384xi32>
    %2 = nano.div %0, %1 : tensor<16384xi32>
    %3 = nano.mul %2, %1 : tensor<16384xi32>
    nano.yield %3, %0 : tensor<16384xi32>, tensor<16384xi32>
  }
  step.task ins(%q, %f, %l) outs(%y, %e) : (memref<16384x12x64xbf16>, memref<16384xi32>, memref<16384xi32>) -> (memref<16384x12x64xbf16>, memref<16384x12xf32>) {
  ^bb0(%0: tensor<16384x12x64xbf16>, %1: tensor<16384xi32>, %2: tensor<16384xi32>):
    %r, %s = nano.attention %0, %0, %0, %1, %2 scale 1.200000e-01
        : (tensor<16384x12x64xbf16>, tensor<16384x12x64xbf16>, tensor<16384x12x64xbf16>, tensor<16384xi32>, tensor<16384xi32>) -> (tensor<16384x12x64xbf16>, tensor<16384x12xf32>)
    nano.yield %r, %s : tensor<16384x12x64xbf16>, tensor<16384x12xf32>
  }
}

// -----

// In rows of 4,096 likewise.
// CHECK-LABEL: step.program @long_rows
// CHECK:         kernel.func @attention_
// CHECK-SAME:    row = 4096>
// CHECK-SAME:    box_rows = 256
// CHECK-SAME:    box_rows = 64
step.program @long_rows {
  %q = step.buffer "q" : memref<16384x12x64xbf16>
  %f = step.buffer "first" : memref<16384xi32>
  %l = step.buffer "last" : memref<16384xi32>
  %y = step.buffer "y" : memref<16384x12x64xbf16>
  %e = step.buffer "lse" : memref<16384x12xf32>
  step.task ins() outs(%f, %l) : () -> (memref<16384xi32>, memref<16384xi32>) {
    %0 = nano.iota 0 : tensor<16384xi32>
    %1 = nano.constant 4096.0 : tensor<16384xi32>
    %2 = nano.div %0, %1 : tensor<16384xi32>
    %3 = nano.mul %2, %1 : tensor<16384xi32>
    nano.yield %3, %0 : tensor<16384xi32>, tensor<16384xi32>
  }
  step.task ins(%q, %f, %l) outs(%y, %e) : (memref<16384x12x64xbf16>, memref<16384xi32>, memref<16384xi32>) -> (memref<16384x12x64xbf16>, memref<16384x12xf32>) {
  ^bb0(%0: tensor<16384x12x64xbf16>, %1: tensor<16384xi32>, %2: tensor<16384xi32>):
    %r, %s = nano.attention %0, %0, %0, %1, %2 scale 1.200000e-01
        : (tensor<16384x12x64xbf16>, tensor<16384x12x64xbf16>, tensor<16384x12x64xbf16>, tensor<16384xi32>, tensor<16384xi32>) -> (tensor<16384x12x64xbf16>, tensor<16384x12xf32>)
    nano.yield %r, %s : tensor<16384x12x64xbf16>, tensor<16384x12xf32>
  }
}

// -----

// Queries that see the whole of such rows: by the ranges of their keys, three warpgroups, 192 queries and 128 keys.
// CHECK-LABEL: step.program @whole_rows
// CHECK:         kernel.func @attention_
// CHECK-NOT:     , row =
// CHECK-SAME:    tiles = 3
// CHECK-SAME:    box_rows = 192
// CHECK-SAME:    box_rows = 128
step.program @whole_rows {
  %q = step.buffer "q" : memref<16384x12x64xbf16>
  %f = step.buffer "first" : memref<16384xi32>
  %l = step.buffer "last" : memref<16384xi32>
  %y = step.buffer "y" : memref<16384x12x64xbf16>
  %e = step.buffer "lse" : memref<16384x12xf32>
  step.task ins() outs(%f, %l) : () -> (memref<16384xi32>, memref<16384xi32>) {
    %0 = nano.iota 0 : tensor<16384xi32>
    %1 = nano.constant 4096.0 : tensor<16384xi32>
    %2 = nano.div %0, %1 : tensor<16384xi32>
    %3 = nano.mul %2, %1 : tensor<16384xi32>
    %4 = nano.constant 4095.0 : tensor<16384xi32>
    %5 = nano.add %3, %4 : tensor<16384xi32>
    nano.yield %3, %5 : tensor<16384xi32>, tensor<16384xi32>
  }
  step.task ins(%q, %f, %l) outs(%y, %e) : (memref<16384x12x64xbf16>, memref<16384xi32>, memref<16384xi32>) -> (memref<16384x12x64xbf16>, memref<16384x12xf32>) {
  ^bb0(%0: tensor<16384x12x64xbf16>, %1: tensor<16384xi32>, %2: tensor<16384xi32>):
    %r, %s = nano.attention %0, %0, %0, %1, %2 scale 1.200000e-01
        : (tensor<16384x12x64xbf16>, tensor<16384x12x64xbf16>, tensor<16384x12x64xbf16>, tensor<16384xi32>, tensor<16384xi32>) -> (tensor<16384x12x64xbf16>, tensor<16384x12xf32>)
    nano.yield %r, %s : tensor<16384x12x64xbf16>, tensor<16384x12xf32>
  }
}

// -----

// Of rows of 384 tokens the first tile of 256 would be half a one.
// CHECK-LABEL: step.program @odd_rows
// CHECK:         kernel.func @attention_
// CHECK-NOT:     , row =
// CHECK-SAME:    box_rows = 256
step.program @odd_rows {
  %q = step.buffer "q" : memref<768x12x64xbf16>
  %f = step.buffer "first" : memref<768xi32>
  %l = step.buffer "last" : memref<768xi32>
  %y = step.buffer "y" : memref<768x12x64xbf16>
  %e = step.buffer "lse" : memref<768x12xf32>
  step.task ins() outs(%f, %l) : () -> (memref<768xi32>, memref<768xi32>) {
    %0 = nano.iota 0 : tensor<768xi32>
    %1 = nano.constant 384.0 : tensor<768xi32>
    %2 = nano.div %0, %1 : tensor<768xi32>
    %3 = nano.mul %2, %1 : tensor<768xi32>
    nano.yield %3, %0 : tensor<768xi32>, tensor<768xi32>
  }
  step.task ins(%q, %f, %l) outs(%y, %e) : (memref<768x12x64xbf16>, memref<768xi32>, memref<768xi32>) -> (memref<768x12x64xbf16>, memref<768x12xf32>) {
  ^bb0(%0: tensor<768x12x64xbf16>, %1: tensor<768xi32>, %2: tensor<768xi32>):
    %r, %s = nano.attention %0, %0, %0, %1, %2 scale 1.200000e-01
        : (tensor<768x12x64xbf16>, tensor<768x12x64xbf16>, tensor<768x12x64xbf16>, tensor<768xi32>, tensor<768xi32>) -> (tensor<768x12x64xbf16>, tensor<768x12xf32>)
    nano.yield %r, %s : tensor<768x12x64xbf16>, tensor<768x12xf32>
  }
}
