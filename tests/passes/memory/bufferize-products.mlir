// RUN: nano-opt %s -nano-bufferize -split-input-file | FileCheck %s

// A kernel that begins with a product may write over what else it reads, element by element, not over its factors, of which other elements are still needed.
// CHECK-LABEL: step.program @over
// CHECK-DAG:     %[[X:.*]] = step.buffer "exp" : memref<64x64xbf16>
// CHECK-DAG:     %[[E:.*]] = step.buffer "tanh" : memref<64x64xbf16>
// CHECK:         step.task ins(%[[E]], %[[X]], %{{.*}}) outs(%[[E]])
nano.program @over(%a: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<64x64xbf16> attributes {role = "update"} {
  %x = nano.exp %a : tensor<64x64xbf16>
  %e = nano.tanh %a : tensor<64x64xbf16>
  %y = nano.fused(%e, %x, %w) : (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  ^bb0(%0: tensor<64x64xbf16>, %1: tensor<64x64xbf16>, %2: tensor<64x64xbf16>):
    %p = nano.matmul %1, %2 : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %s = nano.mul %p, %0 : tensor<64x64xbf16>
    nano.yield %s : tensor<64x64xbf16>
  }
  %z = nano.neg %y : tensor<64x64xbf16>
  nano.return %z : tensor<64x64xbf16>
}

// -----

// Without another operand the result has a place of its own.
// CHECK-LABEL: step.program @beside
// CHECK-DAG:     %[[X:.*]] = step.buffer "exp" : memref<64x64xbf16>
// CHECK-DAG:     %[[Y:.*]] = step.buffer "mul" : memref<64x64xbf16>
// CHECK:         step.task ins(%[[X]], %{{.*}}) outs(%[[Y]])
nano.program @beside(%a: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<64x64xbf16> attributes {role = "update"} {
  %x = nano.exp %a : tensor<64x64xbf16>
  %y = nano.fused(%x, %w) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  ^bb0(%1: tensor<64x64xbf16>, %2: tensor<64x64xbf16>):
    %p = nano.matmul %1, %2 : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %s = nano.mul %p, %p : tensor<64x64xbf16>
    nano.yield %s : tensor<64x64xbf16>
  }
  %z = nano.neg %y : tensor<64x64xbf16>
  nano.return %z : tensor<64x64xbf16>
}

// -----

// Operands and results whose rows begin at no multiples of 16 bytes, as those of slices and parts may, are copied.
// CHECK-LABEL: step.program @copied
// CHECK-DAG:     %[[A:.*]] = step.buffer "fused.operand" : memref<64x64xbf16>
// CHECK-DAG:     %[[Y:.*]] = step.buffer "mul" : memref<64x64xbf16>
// CHECK:         step.task ins(%{{.*}}) outs(%[[A]])
// CHECK:         step.task ins(%[[A]], %{{.*}}) outs(%[[Y]])
// CHECK:           nano.matmul
// CHECK:         step.task ins(%[[Y]]) outs(%{{.*}}) : (memref<64x64xbf16>) -> memref<64x64xbf16, strided<[68, 1], offset: 4>>
nano.program @copied(%a: tensor<64x68xbf16>, %w: tensor<64x64xbf16>, %h: tensor<64x4xbf16>) -> tensor<64x68xbf16> attributes {role = "update"} {
  %x = nano.slice %a dim 1 at 4 : tensor<64x68xbf16> -> tensor<64x64xbf16>
  %y = nano.fused(%x, %w) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  ^bb0(%1: tensor<64x64xbf16>, %2: tensor<64x64xbf16>):
    %p = nano.matmul %1, %2 : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %s = nano.mul %p, %p : tensor<64x64xbf16>
    nano.yield %s : tensor<64x64xbf16>
  }
  %z = nano.concat %h, %y dim 1 : (tensor<64x4xbf16>, tensor<64x64xbf16>) -> tensor<64x68xbf16>
  nano.return %z : tensor<64x68xbf16>
}

// -----

// Partial sums are stored one by one: their rows may begin anywhere, and are not copied.
// CHECK-LABEL: step.program @sums
// CHECK-DAG:     %[[P:.*]] = step.buffer "scaled_matmul" : memref<64x384xbf16>
// CHECK-DAG:     %[[S:.*]] = step.buffer "reduce" : memref<64x3xf32>
// CHECK:         step.task ins(%{{.*}}) outs(%[[P]], %[[S]])
// CHECK:           nano.scaled_matmul
// CHECK:         step.task ins(%[[S]])
// CHECK-NOT:     step.task
// CHECK-NOT:     step.copy
// CHECK:         step.task ins(%[[P]])
nano.program @sums(%a: tensor<64x16xf8E4M3FN>, %w: tensor<384x16xf8E4M3FN>, %o: tensor<f32>) -> (tensor<64xf32>, tensor<64x384xbf16>) attributes {role = "update"} {
  %y:2 = nano.fused(%a, %w, %o) : (tensor<64x16xf8E4M3FN>, tensor<384x16xf8E4M3FN>, tensor<f32>) -> (tensor<64x384xbf16>, tensor<64x3xf32>) {
  ^bb0(%1: tensor<64x16xf8E4M3FN>, %2: tensor<384x16xf8E4M3FN>, %3: tensor<f32>):
    %p = nano.scaled_matmul %1, %2 scales(%3, %3) {transpose_b} : (tensor<64x16xf8E4M3FN>, tensor<384x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<64x384xbf16>
    %f = nano.cast %p : tensor<64x384xbf16> -> tensor<64x384xf32>
    %r = nano.reshape %f : tensor<64x384xf32> -> tensor<64x3x128xf32>
    %s = nano.reduce sum %r dims [2] : tensor<64x3x128xf32> -> tensor<64x3xf32>
    nano.yield %p, %s : tensor<64x384xbf16>, tensor<64x3xf32>
  }
  %t = nano.fused(%y#1) : (tensor<64x3xf32>) -> tensor<64xf32> {
  ^bb0(%1: tensor<64x3xf32>):
    %s = nano.reduce sum %1 dims [1] : tensor<64x3xf32> -> tensor<64xf32>
    nano.yield %s : tensor<64xf32>
  }
  %z = nano.neg %y#0 : tensor<64x384xbf16>
  nano.return %t, %z : tensor<64xf32>, tensor<64x384xbf16>
}
