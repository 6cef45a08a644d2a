// RUN: nano-opt %s -nano-lower-kernels=target=cuda | FileCheck %s

// Two kernels call one function of the device library, one with a tile, one with two in turn.
// CHECK:         func.func private @"[[STORE:storeColumns<.*>]]"(memref<?xf8E4M3FN, strided<[?], offset: ?>, 3>, memref<?xf8E4M3FN, strided<[?], offset: ?>>, index, index, index, index, index)
// CHECK:         kernel.func
// CHECK:         memref.view {{.*}} to memref<16384xf8E4M3FN, 3>
// CHECK:         func.call @"[[STORE]]"
// CHECK:         kernel.func
// CHECK:         memref.view {{.*}} to memref<8192xf8E4M3FN, 3>
// CHECK:         func.call @"[[STORE]]"
step.program @tiles {
  %a = step.buffer "a" : memref<128x256xf32>
  %b = step.buffer "b" : memref<128x256xf32>
  %y = step.buffer "y" : memref<256x128xf8E4M3FN>
  %turned = step.view %y : memref<256x128xf8E4M3FN> to memref<128x256xf8E4M3FN, strided<[1, 128]>>
  %largest = step.buffer "largest" : memref<128xf32>
  step.task ins(%a, %b) outs(%turned, %largest) : (memref<128x256xf32>, memref<128x256xf32>) -> (memref<128x256xf8E4M3FN, strided<[1, 128]>>, memref<128xf32>) {
  ^bb0(%x: tensor<128x256xf32>, %f: tensor<128x256xf32>):
    %0 = nano.mul %x, %f : tensor<128x256xf32>
    %1 = nano.cast %0 : tensor<128x256xf32> -> tensor<128x256xf8E4M3FN>
    %2 = nano.reduce max %0 dims [1] : tensor<128x256xf32> -> tensor<128xf32>
    nano.yield %1, %2 : tensor<128x256xf8E4M3FN>, tensor<128xf32>
  }
  %c = step.buffer "c" : memref<128x128xf32>
  %d = step.buffer "d" : memref<128x128xf32>
  %z = step.buffer "z" : memref<128x128xf8E4M3FN>
  %also = step.view %z : memref<128x128xf8E4M3FN> to memref<128x128xf8E4M3FN, strided<[1, 128]>>
  %sums = step.buffer "sums" : memref<128xf32>
  %columns = step.buffer "columns" : memref<128xf32>
  step.task ins(%c, %d) outs(%also, %sums, %columns) : (memref<128x128xf32>, memref<128x128xf32>) -> (memref<128x128xf8E4M3FN, strided<[1, 128]>>, memref<128xf32>, memref<128xf32>) {
  ^bb0(%x: tensor<128x128xf32>, %f: tensor<128x128xf32>):
    %0 = nano.mul %x, %f : tensor<128x128xf32>
    %1 = nano.cast %0 : tensor<128x128xf32> -> tensor<128x128xf8E4M3FN>
    %2 = nano.reduce max %0 dims [1] : tensor<128x128xf32> -> tensor<128xf32>
    %3 = nano.reduce sum %x dims [0] : tensor<128x128xf32> -> tensor<128xf32>
    nano.yield %1, %2, %3 : tensor<128x128xf8E4M3FN>, tensor<128xf32>, tensor<128xf32>
  }
}
