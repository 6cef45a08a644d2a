// Kernels of single numbers are one where they can be.
// RUN: nano-opt %s -nano-fuse -nano-verify-fused -split-input-file | FileCheck %s

// Norms of two groups, of which one is also kept as a part of a tensor.
// CHECK-LABEL: nano.program @norms
// CHECK:       %[[BOTH:.*]]:2 = nano.fused(%arg0, %arg1, %arg2, %arg3) : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>) {
// CHECK-NOT:   nano.fused
// CHECK:       nano.concat
nano.program @norms(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>) -> tensor<2xf32> {
  %0 = nano.add %a, %b : tensor<f32>
  %1 = nano.exp %0 : tensor<f32>
  %2 = nano.reshape %1 : tensor<f32> -> tensor<1xf32>
  %3 = nano.add %c, %d : tensor<f32>
  %4 = nano.exp %3 : tensor<f32>
  %5 = nano.reshape %4 : tensor<f32> -> tensor<1xf32>
  %6 = nano.concat %2, %5 dim 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
  nano.return %6 : tensor<2xf32>
}

// -----

// A product that waits for a number would wait for the other one too.
// CHECK-LABEL: nano.program @waited_for
// CHECK:       %[[SCALE:.*]] = nano.fused(%arg1) : (tensor<f32>) -> tensor<f32> {
// CHECK:       nano.matmul
// CHECK:       nano.fused(%arg2) : (tensor<f32>) -> tensor<f32> {
nano.program @waited_for(%w: tensor<1x64xf32>, %a: tensor<f32>, %b: tensor<f32>) -> (tensor<1x64xf32>, tensor<f32>) {
  %0 = nano.exp %a : tensor<f32>
  %1 = nano.exp %0 : tensor<f32>
  %2 = nano.reshape %1 : tensor<f32> -> tensor<1x1xf32>
  %3 = nano.matmul %2, %w : (tensor<1x1xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
  %4 = nano.exp %b : tensor<f32>
  %5 = nano.exp %4 : tensor<f32>
  nano.return %3, %5 : tensor<1x64xf32>, tensor<f32>
}
