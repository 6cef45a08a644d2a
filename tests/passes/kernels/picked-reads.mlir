// RUN: nano-opt %s -nano-lower-kernels=target=cuda -split-input-file | FileCheck %s

// Of a matrix that rows only pick elements from, a launch reads as many as it has rows, once for each pick: its kernel says so.
// CHECK-LABEL: step.program @picked
// CHECK:         step.launch @{{.*}}(%x, %ids, %p, %y, %z) {iterations = array<i64: 16>}
// CHECK:         kernel.func @
// CHECK-SAME:      as "ids" aligned 16 constant,
// CHECK-SAME:      as "p" aligned 16 constant picks 2
step.program @picked {
  %x = step.buffer "x" : memref<16x40xf32>
  %ids = step.buffer "ids" : memref<16xi32>
  %p = step.buffer "p" : memref<16x500xbf16>
  %y = step.buffer "y" : memref<16xf32>
  %z = step.buffer "z" : memref<16xf32>
  step.task ins(%x, %ids, %p) outs(%y, %z) : (memref<16x40xf32>, memref<16xi32>, memref<16x500xbf16>) -> (memref<16xf32>, memref<16xf32>) {
  ^bb0(%a: tensor<16x40xf32>, %b: tensor<16xi32>, %c: tensor<16x500xbf16>):
    %zero = nano.constant 0.0 : tensor<16x500xf32>
    %0 = nano.reduce max %a dims [1] : tensor<16x40xf32> -> tensor<16xf32>
    %1 = nano.cast %c : tensor<16x500xbf16> -> tensor<16x500xf32>
    %2 = nano.exp %1 : tensor<16x500xf32>
    %3 = nano.iota 1 : tensor<16x500xi32>
    %4 = nano.broadcast %b dims [0] : tensor<16xi32> -> tensor<16x500xi32>
    %5 = nano.select eq, %3, %4, %2, %zero : tensor<16x500xi32>, tensor<16x500xf32>
    %6 = nano.reduce sum %5 dims [1] : tensor<16x500xf32> -> tensor<16xf32>
    %7 = nano.select eq, %3, %4, %1, %zero : tensor<16x500xi32>, tensor<16x500xf32>
    %8 = nano.reduce sum %7 dims [1] : tensor<16x500xf32> -> tensor<16xf32>
    %9 = nano.add %0, %6 : tensor<16xf32>
    nano.yield %9, %8 : tensor<16xf32>, tensor<16xf32>
  }
}

// -----

// Here each row is read as a whole too.
// CHECK-LABEL: step.program @whole
// CHECK-NOT:     picks
step.program @whole {
  %ids = step.buffer "ids" : memref<16xi32>
  %p = step.buffer "p" : memref<16x500xf32>
  %y = step.buffer "y" : memref<16xf32>
  step.task ins(%ids, %p) outs(%y) : (memref<16xi32>, memref<16x500xf32>) -> memref<16xf32> {
  ^bb0(%b: tensor<16xi32>, %c: tensor<16x500xf32>):
    %zero = nano.constant 0.0 : tensor<16x500xf32>
    %0 = nano.reduce max %c dims [1] : tensor<16x500xf32> -> tensor<16xf32>
    %3 = nano.iota 1 : tensor<16x500xi32>
    %4 = nano.broadcast %b dims [0] : tensor<16xi32> -> tensor<16x500xi32>
    %5 = nano.select eq, %3, %4, %c, %zero : tensor<16x500xi32>, tensor<16x500xf32>
    %6 = nano.reduce sum %5 dims [1] : tensor<16x500xf32> -> tensor<16xf32>
    %7 = nano.add %0, %6 : tensor<16xf32>
    nano.yield %7 : tensor<16xf32>
  }
}
