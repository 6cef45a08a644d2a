// RUN: nano-opt %s -nano-lower-kernels=target=cuda -nano-print-cuda -split-input-file -o /dev/null | FileCheck %s

// Weights and biases, one number a column, are held from row to row: where there are more than two of them fewer teams have registers.
// CHECK-LABEL: // sum
// CHECK:       __launch_bounds__(448, 2)
// CHECK:         for (int64_t at = group; at < 64; at += 7) {
step.program @two_weights {
  %x = step.buffer "x" : memref<1024x384xbf16>
  %z = step.buffer "z" : memref<1024x384xbf16>
  %a = step.buffer "a" : memref<384xf32>
  %b = step.buffer "b" : memref<384xf32>
  %y = step.buffer "y" : memref<1024x384xbf16>
  %s = step.buffer "s" : memref<16x384xf32>
  step.task ins(%x, %z, %a, %b) outs(%y, %s) : (memref<1024x384xbf16>, memref<1024x384xbf16>, memref<384xf32>, memref<384xf32>) -> (memref<1024x384xbf16>, memref<16x384xf32>) {
  ^bb0(%0: tensor<1024x384xbf16>, %1: tensor<1024x384xbf16>, %a0: tensor<384xf32>, %b0: tensor<384xf32>):
    %2 = nano.cast %0 : tensor<1024x384xbf16> -> tensor<1024x384xf32>
    %3 = nano.cast %1 : tensor<1024x384xbf16> -> tensor<1024x384xf32>
    %4 = nano.mul %2, %3 : tensor<1024x384xf32>
    %5 = nano.reduce sum %4 dims [1] : tensor<1024x384xf32> -> tensor<1024xf32>
    %6 = nano.broadcast %5 dims [0] : tensor<1024xf32> -> tensor<1024x384xf32>
    %7 = nano.mul %2, %6 : tensor<1024x384xf32>
    %a1 = nano.broadcast %a0 dims [1] : tensor<384xf32> -> tensor<1024x384xf32>
    %a2 = nano.mul %7, %a1 : tensor<1024x384xf32>
    %b1 = nano.broadcast %b0 dims [1] : tensor<384xf32> -> tensor<1024x384xf32>
    %b2 = nano.add %a2, %b1 : tensor<1024x384xf32>
    %8 = nano.cast %b2 : tensor<1024x384xf32> -> tensor<1024x384xbf16>
    %9 = nano.reshape %b2 : tensor<1024x384xf32> -> tensor<16x64x384xf32>
    %10 = nano.reduce sum %9 dims [1] : tensor<16x64x384xf32> -> tensor<16x384xf32>
    nano.yield %8, %10 : tensor<1024x384xbf16>, tensor<16x384xf32>
  }
}

// -----

// CHECK-LABEL: // sum
// CHECK:       __launch_bounds__(320, 2)
// CHECK:         for (int64_t at = group; at < 64; at += 5) {
step.program @four_weights {
  %x = step.buffer "x" : memref<1024x384xbf16>
  %z = step.buffer "z" : memref<1024x384xbf16>
  %a = step.buffer "a" : memref<384xf32>
  %b = step.buffer "b" : memref<384xf32>
  %c = step.buffer "c" : memref<384xf32>
  %d = step.buffer "d" : memref<384xf32>
  %y = step.buffer "y" : memref<1024x384xbf16>
  %s = step.buffer "s" : memref<16x384xf32>
  step.task ins(%x, %z, %a, %b, %c, %d) outs(%y, %s) : (memref<1024x384xbf16>, memref<1024x384xbf16>, memref<384xf32>, memref<384xf32>, memref<384xf32>, memref<384xf32>) -> (memref<1024x384xbf16>, memref<16x384xf32>) {
  ^bb0(%0: tensor<1024x384xbf16>, %1: tensor<1024x384xbf16>, %a0: tensor<384xf32>, %b0: tensor<384xf32>, %c0: tensor<384xf32>, %d0: tensor<384xf32>):
    %2 = nano.cast %0 : tensor<1024x384xbf16> -> tensor<1024x384xf32>
    %3 = nano.cast %1 : tensor<1024x384xbf16> -> tensor<1024x384xf32>
    %4 = nano.mul %2, %3 : tensor<1024x384xf32>
    %5 = nano.reduce sum %4 dims [1] : tensor<1024x384xf32> -> tensor<1024xf32>
    %6 = nano.broadcast %5 dims [0] : tensor<1024xf32> -> tensor<1024x384xf32>
    %7 = nano.mul %2, %6 : tensor<1024x384xf32>
    %a1 = nano.broadcast %a0 dims [1] : tensor<384xf32> -> tensor<1024x384xf32>
    %a2 = nano.mul %7, %a1 : tensor<1024x384xf32>
    %b1 = nano.broadcast %b0 dims [1] : tensor<384xf32> -> tensor<1024x384xf32>
    %b2 = nano.add %a2, %b1 : tensor<1024x384xf32>
    %c1 = nano.broadcast %c0 dims [1] : tensor<384xf32> -> tensor<1024x384xf32>
    %c2 = nano.mul %b2, %c1 : tensor<1024x384xf32>
    %d1 = nano.broadcast %d0 dims [1] : tensor<384xf32> -> tensor<1024x384xf32>
    %d2 = nano.add %c2, %d1 : tensor<1024x384xf32>
    %8 = nano.cast %d2 : tensor<1024x384xf32> -> tensor<1024x384xbf16>
    %9 = nano.reshape %d2 : tensor<1024x384xf32> -> tensor<16x64x384xf32>
    %10 = nano.reduce sum %9 dims [1] : tensor<16x64x384xf32> -> tensor<16x384xf32>
    nano.yield %8, %10 : tensor<1024x384xbf16>, tensor<16x384xf32>
  }
}
