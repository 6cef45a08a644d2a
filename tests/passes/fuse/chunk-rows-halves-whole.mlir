// RUN: nano-opt %s -nano-chunk-rows=report=true -verify-diagnostics | FileCheck %s

// Two halves of large logits that need no chunks, beside what another program holds, are one again: the logits are made once, and no remark tells of chunks.
// CHECK-LABEL: nano.program @sequences
// CHECK-COUNT-1: {transpose_b}
// CHECK-NOT:   {transpose_b}
// CHECK:       nano.return
nano.program @sequences(%x: tensor<16384x128xf32>, %w: tensor<2048x128xf32>, %t: tensor<16384xi32>, %s: tensor<16384xi32>) -> (tensor<4x1xf32>, tensor<16384x128xf32>) {
  %z = nano.matmul %x, %w {transpose_b} : (tensor<16384x128xf32>, tensor<2048x128xf32>) -> tensor<16384x2048xf32>
  %loss, %lse = nano.cross_entropy %z, %t : (tensor<16384x2048xf32>, tensor<16384xi32>) -> (tensor<16384xf32>, tensor<16384xf32>)
  %l = nano.reshape %loss : tensor<16384xf32> -> tensor<16384x1xf32>
  %sums = nano.scatter_add %l, %s : (tensor<16384x1xf32>, tensor<16384xi32>) -> tensor<4x1xf32>
  %each = nano.gather %sums, %s : (tensor<4x1xf32>, tensor<16384xi32>) -> tensor<16384x1xf32>
  %d = nano.reshape %each : tensor<16384x1xf32> -> tensor<16384xf32>
  %a = nano.broadcast %d dims [0] : tensor<16384xf32> -> tensor<16384x2048xf32>
  %g = nano.mul %z, %a : tensor<16384x2048xf32>
  %dx = nano.matmul %g, %w : (tensor<16384x2048xf32>, tensor<2048x128xf32>) -> tensor<16384x128xf32>
  nano.return %sums, %dx : tensor<4x1xf32>, tensor<16384x128xf32>
}

// It holds 1 GiB.
nano.program @other(%x: tensor<16384x16384xf32>) -> tensor<16384x16384xf32> {
  %y = nano.matmul %x, %x : (tensor<16384x16384xf32>, tensor<16384x16384xf32>) -> tensor<16384x16384xf32>
  %z = nano.matmul %y, %x : (tensor<16384x16384xf32>, tensor<16384x16384xf32>) -> tensor<16384x16384xf32>
  nano.return %z : tensor<16384x16384xf32>
}
