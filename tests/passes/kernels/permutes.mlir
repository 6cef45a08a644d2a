// RUN: nano-opt %s -nano-lower-kernels=target=cuda -split-input-file | FileCheck %s
// RUN: nano-opt %s -nano-lower-kernels=target=cpu -split-input-file | FileCheck %s --check-prefix=CPU

// What is permuted alike is walked over as it lies, and what comes of it written through tiles.
// CHECK-LABEL: step.program @alike
// CHECK:         %[[X:.*]] = step.view %x : memref<64x12x32xf32> to memref<12x64x32xf32, strided<[32, 384, 1]>>
// CHECK:         %[[P:.*]] = step.view %p : memref<32x12x64xf32> to memref<12x64x32xf32, strided<[64, 1, 768]>>
// CHECK:         %[[Y:.*]] = step.view %y : memref<32x12x64xf32> to memref<12x64x32xf32, strided<[64, 1, 768]>>
// CHECK:         step.launch @{{.*}}(%[[X]], %[[P]], %[[Y]])
// CHECK-COUNT-2: func.call @"storeColumns<
// CPU-LABEL:   step.program @alike
// CPU:           step.launch @{{.*}}(%x, %p, %y)
step.program @alike {
  %x = step.buffer "x" : memref<64x12x32xf32>
  %p = step.buffer "p" : memref<32x12x64xf32>
  %y = step.buffer "y" : memref<32x12x64xf32>
  step.task ins(%x) outs(%p, %y) : (memref<64x12x32xf32>) -> (memref<32x12x64xf32>, memref<32x12x64xf32>) {
  ^bb0(%a: tensor<64x12x32xf32>):
    %0 = nano.permute %a order [2, 1, 0] : tensor<64x12x32xf32> -> tensor<32x12x64xf32>
    %1 = nano.mul %0, %0 : tensor<32x12x64xf32>
    nano.yield %0, %1 : tensor<32x12x64xf32>, tensor<32x12x64xf32>
  }
}

// -----

// Alone it is a copy between rows and columns.
// CHECK-LABEL: step.program @alone
// CHECK:         %[[X:.*]] = step.view %x : memref<64x48xbf16> to memref<64x48xbf16, strided<[48, 1]>>
// CHECK:         %[[Y:.*]] = step.view %y : memref<48x64xbf16> to memref<64x48xbf16, strided<[1, 64]>>
// CHECK:         step.launch @transpose_{{.*}}(%[[X]], %[[Y]])
step.program @alone {
  %x = step.buffer "x" : memref<64x48xbf16>
  %y = step.buffer "y" : memref<48x64xbf16>
  step.task ins(%x) outs(%y) : (memref<64x48xbf16>) -> memref<48x64xbf16> {
  ^bb0(%a: tensor<64x48xbf16>):
    %0 = nano.permute %a order [1, 0] : tensor<64x48xbf16> -> tensor<48x64xbf16>
    nano.yield %0 : tensor<48x64xbf16>
  }
}

// -----

// Beside what lies in the result's order, a copy stands before.
// CHECK-LABEL: step.program @beside
// CHECK:         %permuted = step.buffer "permuted" : memref<48x64xf32>
// CHECK:         step.launch @transpose_
// CHECK:         step.launch @{{.*}}(%permuted, %z, %y)
step.program @beside {
  %x = step.buffer "x" : memref<64x48xf32>
  %z = step.buffer "z" : memref<48x64xf32>
  %y = step.buffer "y" : memref<48x64xf32>
  step.task ins(%x, %z) outs(%y) : (memref<64x48xf32>, memref<48x64xf32>) -> memref<48x64xf32> {
  ^bb0(%a: tensor<64x48xf32>, %b: tensor<48x64xf32>):
    %0 = nano.permute %a order [1, 0] : tensor<64x48xf32> -> tensor<48x64xf32>
    %1 = nano.mul %0, %b : tensor<48x64xf32>
    nano.yield %1 : tensor<48x64xf32>
  }
}

// -----

// Rows that stay rows are read as they lie, and so are few columns.
// CHECK-LABEL: step.program @rows
// CHECK-NOT:     step.view
// CHECK-NOT:     transpose_
// CHECK:         step.launch @{{.*}}(%x, %y)
// CHECK:         step.launch @{{.*}}(%u, %v)
step.program @rows {
  %x = step.buffer "x" : memref<64x12x32xf32>
  %y = step.buffer "y" : memref<12x64x32xf32>
  %u = step.buffer "u" : memref<64x4xf32>
  %v = step.buffer "v" : memref<4x64xf32>
  step.task ins(%x) outs(%y) : (memref<64x12x32xf32>) -> memref<12x64x32xf32> {
  ^bb0(%a: tensor<64x12x32xf32>):
    %0 = nano.permute %a order [1, 0, 2] : tensor<64x12x32xf32> -> tensor<12x64x32xf32>
    nano.yield %0 : tensor<12x64x32xf32>
  }
  step.task ins(%u) outs(%v) : (memref<64x4xf32>) -> memref<4x64xf32> {
  ^bb0(%a: tensor<64x4xf32>):
    %0 = nano.permute %a order [1, 0] : tensor<64x4xf32> -> tensor<4x64xf32>
    nano.yield %0 : tensor<4x64xf32>
  }
}
