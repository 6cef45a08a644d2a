// RUN: nano-opt %s "-nano-chunk-rows=max-bytes=8192 further=true" -split-input-file | FileCheck %s
// RUN: nano-opt %s "-nano-chunk-rows=max-bytes=8192" -split-input-file | FileCheck %s --check-prefix=HEAD

// A chain that reaches further: the last MLP's products, forward and backward, what is as wide between them and what acts on rows
// alone at both ends are computed in chunks too, and the gradients of its weights are summed.
// CHECK-LABEL: nano.program @step
// CHECK:       %[[R0:.*]] = nano.slice %arg0 dim 0 at 0 : tensor<256x8xf32> -> tensor<128x8xf32>
// CHECK:       nano.matmul %{{.*}}, %arg1 {transpose_b} : {{.*}} -> tensor<128x16xf32>
// CHECK:       nano.matmul %{{.*}}, %arg2 {transpose_b} : {{.*}} -> tensor<128x8xf32>
// CHECK:       nano.matmul %{{.*}}, %arg3 {transpose_b} : {{.*}} -> tensor<128x64xf32>
// CHECK:       nano.cross_entropy
// CHECK:       %[[DX:.*]] = nano.matmul %{{.*}}, %arg3 : {{.*}} -> tensor<128x8xf32>
// CHECK:       %[[DW2:.*]] = nano.matmul %[[DX]], %{{.*}} {transpose_a} : {{.*}} -> tensor<8x16xf32>
// CHECK:       %[[DW1:.*]] = nano.matmul %{{.*}}, %{{.*}} {transpose_a} : {{.*}} -> tensor<16x8xf32>
// CHECK:       nano.matmul {{.*}} add %[[DW2]] {transpose_a}
// CHECK:       nano.matmul {{.*}} add %[[DW1]] {transpose_a}
// CHECK:       %[[WHOLE:.*]] = nano.concat %{{.*}}, %{{.*}} dim 0 : {{.*}} -> tensor<256x8xf32>
// CHECK-NOT:   nano.concat {{.*}} -> tensor<256x8xf32>

// Else it begins with the head.
// HEAD-LABEL: nano.program @step
// HEAD:       nano.matmul %{{.*}}, %arg1 {transpose_b} : {{.*}} -> tensor<256x16xf32>
nano.program @step(%r: tensor<256x8xf32>, %w1: tensor<16x8xf32>, %w2: tensor<8x16xf32>, %w: tensor<64x8xf32>, %t: tensor<256xi32>)
    -> (tensor<256xf32>, tensor<64x8xf32>, tensor<8x16xf32>, tensor<16x8xf32>, tensor<256x8xf32>) {
  %two = nano.constant 2.000000e+00 : tensor<256x8xf32>
  %n = nano.mul %r, %two : tensor<256x8xf32>
  %h = nano.matmul %n, %w1 {transpose_b} : (tensor<256x8xf32>, tensor<16x8xf32>) -> tensor<256x16xf32>
  %a = nano.exp %h : tensor<256x16xf32>
  %m = nano.matmul %a, %w2 {transpose_b} : (tensor<256x16xf32>, tensor<8x16xf32>) -> tensor<256x8xf32>
  %x = nano.add %r, %m : tensor<256x8xf32>
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x8xf32>, tensor<64x8xf32>) -> tensor<256x64xf32>
  %loss, %lse = nano.cross_entropy %z, %t : (tensor<256x64xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  %b = nano.broadcast %lse dims [0] : tensor<256xf32> -> tensor<256x64xf32>
  %d = nano.sub %z, %b : tensor<256x64xf32>
  %g = nano.exp %d : tensor<256x64xf32>
  %dw = nano.matmul %g, %x {transpose_a} : (tensor<256x64xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %dx = nano.matmul %g, %w : (tensor<256x64xf32>, tensor<64x8xf32>) -> tensor<256x8xf32>
  %dw2 = nano.matmul %dx, %a {transpose_a} : (tensor<256x8xf32>, tensor<256x16xf32>) -> tensor<8x16xf32>
  %da = nano.matmul %dx, %w2 : (tensor<256x8xf32>, tensor<8x16xf32>) -> tensor<256x16xf32>
  %dh = nano.mul %da, %a : tensor<256x16xf32>
  %dw1 = nano.matmul %dh, %n {transpose_a} : (tensor<256x16xf32>, tensor<256x8xf32>) -> tensor<16x8xf32>
  %dn = nano.matmul %dh, %w1 : (tensor<256x16xf32>, tensor<16x8xf32>) -> tensor<256x8xf32>
  %dr = nano.mul %dn, %two : tensor<256x8xf32>
  %sum = nano.add %dx, %dr : tensor<256x8xf32>
  nano.return %loss, %dw, %dw2, %dw1, %sum : tensor<256xf32>, tensor<64x8xf32>, tensor<8x16xf32>, tensor<16x8xf32>, tensor<256x8xf32>
}
