// RUN: nano-opt %s -nano-bufferize -split-input-file | FileCheck %s

// A kernel that begins with a product may write over what else it reads, element by element, not over its factors, of which other elements are still needed.
// CHECK-LABEL: step.program @over
// CHECK-DAG:     %[[X:.*]] = step.buffer "exp" : memref<64x64xbf16>
// CHECK-DAG:     %[[E:.*]] = step.buffer "tanh" : memref<64x64xbf16>
// CHECK:         step.task ins(%[[E]], %[[X]], %{{.*}}) outs(%[[E]])
func.func @over(%a: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<64x64xbf16> attributes {nano.role = "update"} {
  %x = nano.exp %a : tensor<64x64xbf16>
  %e = nano.tanh %a : tensor<64x64xbf16>
  %y = nano.fused(%e, %x, %w) : (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  ^bb0(%0: tensor<64x64xbf16>, %1: tensor<64x64xbf16>, %2: tensor<64x64xbf16>):
    %p = nano.matmul %1, %2 : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %s = nano.mul %p, %0 : tensor<64x64xbf16>
    nano.yield %s : tensor<64x64xbf16>
  }
  %z = nano.neg %y : tensor<64x64xbf16>
  return %z : tensor<64x64xbf16>
}

// -----

// Without another operand the result has a place of its own.
// CHECK-LABEL: step.program @beside
// CHECK-DAG:     %[[X:.*]] = step.buffer "exp" : memref<64x64xbf16>
// CHECK-DAG:     %[[Y:.*]] = step.buffer "mul" : memref<64x64xbf16>
// CHECK:         step.task ins(%[[X]], %{{.*}}) outs(%[[Y]])
func.func @beside(%a: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<64x64xbf16> attributes {nano.role = "update"} {
  %x = nano.exp %a : tensor<64x64xbf16>
  %y = nano.fused(%x, %w) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  ^bb0(%1: tensor<64x64xbf16>, %2: tensor<64x64xbf16>):
    %p = nano.matmul %1, %2 : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %s = nano.mul %p, %p : tensor<64x64xbf16>
    nano.yield %s : tensor<64x64xbf16>
  }
  %z = nano.neg %y : tensor<64x64xbf16>
  return %z : tensor<64x64xbf16>
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
func.func @copied(%a: tensor<64x68xbf16>, %w: tensor<64x64xbf16>, %h: tensor<64x4xbf16>) -> tensor<64x68xbf16> attributes {nano.role = "update"} {
  %x = nano.slice %a dim 1 at 4 : tensor<64x68xbf16> -> tensor<64x64xbf16>
  %y = nano.fused(%x, %w) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  ^bb0(%1: tensor<64x64xbf16>, %2: tensor<64x64xbf16>):
    %p = nano.matmul %1, %2 : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %s = nano.mul %p, %p : tensor<64x64xbf16>
    nano.yield %s : tensor<64x64xbf16>
  }
  %z = nano.concat %h, %y dim 1 : (tensor<64x4xbf16>, tensor<64x64xbf16>) -> tensor<64x68xbf16>
  return %z : tensor<64x68xbf16>
}
