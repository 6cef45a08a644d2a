// RUN: nano-opt %s -nano-lower-kernels=target=cuda | FileCheck %s

// Products of f32 rows: of up to 64 columns a thread has registers for a third block of a multiprocessor, where shared memory has room for it.
// CHECK-LABEL: step.program @few_columns
// CHECK:         step.launch @[[FEW:band_product_[0-9a-f]+]]
step.program @few_columns {
  %w = step.buffer "w" : memref<4096x8x64xf32>
  %v = step.buffer "v" : memref<4096x8x64xf32>
  %y = step.buffer "y" : memref<4096x8x64xf32>
  step.task ins(%w, %v) outs(%y) : (memref<4096x8x64xf32>, memref<4096x8x64xf32>) -> (memref<4096x8x64xf32>) {
  ^bb0(%a: tensor<4096x8x64xf32>, %b: tensor<4096x8x64xf32>):
    %0 = nano.band_product %a, %b : (tensor<4096x8x64xf32>, tensor<4096x8x64xf32>) -> tensor<4096x8x64xf32>
    nano.yield %0 : tensor<4096x8x64xf32>
  }
}

// CHECK-LABEL: step.program @more_columns
// CHECK:         step.launch @[[MORE:band_product_[0-9a-f]+]]
step.program @more_columns {
  %w = step.buffer "w" : memref<4096x8x64xf32>
  %v = step.buffer "v" : memref<4096x8x96xf32>
  %y = step.buffer "y" : memref<4096x8x96xf32>
  step.task ins(%w, %v) outs(%y) : (memref<4096x8x64xf32>, memref<4096x8x96xf32>) -> (memref<4096x8x96xf32>) {
  ^bb0(%a: tensor<4096x8x64xf32>, %b: tensor<4096x8x96xf32>):
    %0 = nano.band_product %a, %b : (tensor<4096x8x64xf32>, tensor<4096x8x96xf32>) -> tensor<4096x8x96xf32>
    nano.yield %0 : tensor<4096x8x96xf32>
  }
}

// CHECK:         kernel.func @[[FEW]](
// CHECK-SAME:      launch = #kernel.launch<threads = 128, resident_blocks = 3>
// CHECK:         kernel.func @[[MORE]](
// CHECK-SAME:      launch = #kernel.launch<threads = 128, resident_blocks = 2>
