// RUN: nano-opt %s -nano-chunk-rows=max-bytes=131072 -split-input-file | FileCheck %s
// RUN: nano-opt %s "-nano-chunk-rows=max-bytes=131072 parts=2" -split-input-file | FileCheck %s --check-prefix=PARTS
// RUN: nano-opt %s -nano-chunk-rows -split-input-file | FileCheck %s --check-prefix=WHOLE

// The losses of four sequences meet in what is no sum before there is a gradient: chunks of the losses, then chunks of the gradient, which make their logits again.
// CHECK-LABEL: nano.program @sequences
// CHECK:       %[[Z0:.*]] = nano.matmul %[[X0:.*]], %arg1 {transpose_b} : (tensor<128x16xf32>, tensor<256x16xf32>) -> tensor<128x256xf32>
// CHECK:       %[[L0:.*]], %[[S0:.*]] = nano.cross_entropy %[[Z0]]
// CHECK-NOT:   nano.exp
// CHECK:       %[[Z1:.*]] = nano.matmul
// CHECK:       %[[L1:.*]], %[[S1:.*]] = nano.cross_entropy %[[Z1]]
// CHECK:       %[[L:.*]] = nano.concat %[[L0]], %[[L1]] dim 0
// CHECK:       %[[S:.*]] = nano.concat %[[S0]], %[[S1]] dim 0
// CHECK:       nano.scatter_add
// CHECK:       nano.sigmoid
// CHECK:       nano.gather
// CHECK:       %[[Y0:.*]] = nano.matmul %[[X0A:.*]], %arg1 {transpose_b} : (tensor<128x16xf32>, tensor<256x16xf32>) -> tensor<128x256xf32>
// CHECK:       %[[R0:.*]] = nano.slice %[[S]] dim 0 at 0 : tensor<256xf32> -> tensor<128xf32>
// CHECK:       %[[B0:.*]] = nano.broadcast %[[R0]]
// CHECK:       nano.sub %[[Y0]], %[[B0]] : tensor<128x256xf32>
// CHECK:       %[[DX0:.*]] = nano.matmul %[[G0:.*]], %arg1 :
// CHECK:       %[[DW0:.*]] = nano.matmul %[[G0]], %[[X0A]] {transpose_a}
// CHECK:       %[[DX1:.*]] = nano.matmul %[[G1:.*]], %arg1 :
// CHECK:       %[[DW1:.*]] = nano.matmul %[[G1]], %{{.*}} add %[[DW0]] {transpose_a}
// CHECK:       %[[DX:.*]] = nano.concat %[[DX0]], %[[DX1]] dim 0
// CHECK:       nano.return %{{.*}}, %[[DX]], %[[DW1]]
// Nothing of the losses' half outlives a part; the gradient's has the logits of two parts, and products of their gradients together.
// PARTS-LABEL: nano.program @sequences
// PARTS-COUNT-2: {transpose_b} : {{.*}} -> tensor<128x256xf32>
// PARTS:       nano.scatter_add
// PARTS-COUNT-2: {transpose_b} : {{.*}} -> tensor<64x256xf32>
// PARTS:       %[[G0:.*]] = nano.concat %{{.*}}, %{{.*}} dim 0 : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<128x256xf32>
// PARTS:       nano.matmul %[[G0]], %arg1 :
// PARTS:       %[[DW0:.*]] = nano.matmul %[[G0]], %{{.*}} {transpose_a}
// PARTS-COUNT-2: {transpose_b} : {{.*}} -> tensor<64x256xf32>
// PARTS:       %[[G1:.*]] = nano.concat %{{.*}}, %{{.*}} dim 0 : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<128x256xf32>
// PARTS:       nano.matmul %[[G1]], %{{.*}} add %[[DW0]] {transpose_a}
// PARTS:       nano.return
// What fits is left whole, and made once.
// WHOLE-LABEL: nano.program @sequences
// WHOLE-COUNT-1: {transpose_b}
// WHOLE-NOT:   {transpose_b}
nano.program @sequences(%x: tensor<256x16xf32>, %w: tensor<256x16xf32>, %t: tensor<256xi32>, %s: tensor<256xi32>) -> (tensor<4x1xf32>, tensor<256x16xf32>, tensor<256x16xf32>) {
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x256xf32>
  %loss, %lse = nano.cross_entropy %z, %t : (tensor<256x256xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  %l = nano.reshape %loss : tensor<256xf32> -> tensor<256x1xf32>
  %sums = nano.scatter_add %l, %s : (tensor<256x1xf32>, tensor<256xi32>) -> tensor<4x1xf32>
  %f = nano.sigmoid %sums : tensor<4x1xf32>
  %each = nano.gather %f, %s : (tensor<4x1xf32>, tensor<256xi32>) -> tensor<256x1xf32>
  %d = nano.reshape %each : tensor<256x1xf32> -> tensor<256xf32>
  %b = nano.broadcast %lse dims [0] : tensor<256xf32> -> tensor<256x256xf32>
  %n = nano.sub %z, %b : tensor<256x256xf32>
  %e = nano.exp %n : tensor<256x256xf32>
  %a = nano.broadcast %d dims [0] : tensor<256xf32> -> tensor<256x256xf32>
  %g = nano.mul %e, %a : tensor<256x256xf32>
  %dx = nano.matmul %g, %w : (tensor<256x256xf32>, tensor<256x16xf32>) -> tensor<256x16xf32>
  %dw = nano.matmul %g, %x {transpose_a} : (tensor<256x256xf32>, tensor<256x16xf32>) -> tensor<256x16xf32>
  nano.return %sums, %dx, %dw : tensor<4x1xf32>, tensor<256x16xf32>, tensor<256x16xf32>
}

// -----

// What is wide and read on both sides is made on both: capped logits, and the columns' numbers, which have no rows of their own.
// CHECK-LABEL: nano.program @capped
// CHECK:       nano.iota
// CHECK:       nano.matmul {{.*}} {transpose_b}
// CHECK:       nano.tanh
// CHECK:       nano.cross_entropy
// CHECK:       nano.scatter_add
// CHECK:       nano.matmul {{.*}} {transpose_b}
// CHECK:       nano.tanh
// CHECK-NOT:   nano.cross_entropy
// CHECK:       nano.return
// WHOLE-LABEL: nano.program @capped
// WHOLE-COUNT-1: nano.tanh
// WHOLE-NOT:   nano.tanh
nano.program @capped(%x: tensor<256x16xf32>, %w: tensor<256x16xf32>, %t: tensor<256xi32>, %s: tensor<256xi32>) -> (tensor<4x1xf32>, tensor<256x16xf32>) {
  %columns = nano.iota 1 : tensor<256x256xi32>
  %float = nano.cast %columns : tensor<256x256xi32> -> tensor<256x256xf32>
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x256xf32>
  %c = nano.tanh %z : tensor<256x256xf32>
  %shifted = nano.add %c, %float : tensor<256x256xf32>
  %loss, %lse = nano.cross_entropy %shifted, %t : (tensor<256x256xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  %l = nano.reshape %loss : tensor<256xf32> -> tensor<256x1xf32>
  %sums = nano.scatter_add %l, %s : (tensor<256x1xf32>, tensor<256xi32>) -> tensor<4x1xf32>
  %each = nano.gather %sums, %s : (tensor<4x1xf32>, tensor<256xi32>) -> tensor<256x1xf32>
  %d = nano.reshape %each : tensor<256x1xf32> -> tensor<256xf32>
  %a = nano.broadcast %d dims [0] : tensor<256xf32> -> tensor<256x256xf32>
  %h = nano.mul %c, %a : tensor<256x256xf32>
  %g = nano.mul %h, %float : tensor<256x256xf32>
  %dx = nano.matmul %g, %w : (tensor<256x256xf32>, tensor<256x16xf32>) -> tensor<256x16xf32>
  nano.return %sums, %dx : tensor<4x1xf32>, tensor<256x16xf32>
}

// -----

// The second half stands before the next product that waits as it does: kernels that make what it reads may end with ops until there, as that of %f.
// CHECK-LABEL: nano.program @next_product
// CHECK:       nano.scatter_add
// CHECK:       nano.tanh
// CHECK:       nano.matmul {{.*}} {transpose_b}
// CHECK:       {transpose_a}
// CHECK:       {transpose_a}
// CHECK:       nano.matmul %{{.*}}, %arg2
// WHOLE-LABEL: nano.program @next_product
nano.program @next_product(%x: tensor<256x16xf32>, %w: tensor<256x16xf32>, %v: tensor<16x16xf32>, %t: tensor<256xi32>, %s: tensor<256xi32>) -> (tensor<4x1xf32>, tensor<256x16xf32>, tensor<256x16xf32>) {
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x256xf32>
  %loss, %lse = nano.cross_entropy %z, %t : (tensor<256x256xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  %l = nano.reshape %loss : tensor<256xf32> -> tensor<256x1xf32>
  %sums = nano.scatter_add %l, %s : (tensor<256x1xf32>, tensor<256xi32>) -> tensor<4x1xf32>
  %each = nano.gather %sums, %s : (tensor<4x1xf32>, tensor<256xi32>) -> tensor<256x1xf32>
  %d = nano.reshape %each : tensor<256x1xf32> -> tensor<256xf32>
  %a = nano.broadcast %d dims [0] : tensor<256xf32> -> tensor<256x16xf32>
  %e = nano.mul %x, %a : tensor<256x16xf32>
  %dw = nano.matmul %z, %e {transpose_a} : (tensor<256x256xf32>, tensor<256x16xf32>) -> tensor<256x16xf32>
  %f = nano.tanh %e : tensor<256x16xf32>
  %dx = nano.matmul %f, %v : (tensor<256x16xf32>, tensor<16x16xf32>) -> tensor<256x16xf32>
  nano.return %sums, %dx, %dw : tensor<4x1xf32>, tensor<256x16xf32>, tensor<256x16xf32>
}
