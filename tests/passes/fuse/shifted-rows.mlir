// RUN: nano-opt %s -nano-fuse -split-input-file | FileCheck %s

// Rows moved by two places towards the end, with zeros before them: gathered by a kernel of their reader, and of another one far from it, which has no copy to read.
// CHECK-LABEL: nano.program @on
// CHECK-NOT: nano.concat
// CHECK: nano.fused
// CHECK: nano.max
// CHECK: nano.fused
// CHECK: %[[G:.*]] = nano.gather %{{.*}} : (tensor<64x128xbf16>, tensor<64xi32>) -> tensor<64x128xbf16>
// CHECK: nano.select ge, %{{.*}}, %{{.*}}, %[[G]], %{{.*}} : tensor<64x128xi32>, tensor<64x128xbf16>
// CHECK: nano.yield %{{.*}} : tensor<64x128xbf16>
// CHECK: nano.matmul
// CHECK: nano.fused
// CHECK: nano.gather
// CHECK: nano.return
nano.program @on(%x: tensor<64x128xbf16>, %w: tensor<128x128xbf16>) -> tensor<64x128xbf16> {
  %z = nano.constant 0.0 : tensor<2x128xbf16>
  %s = nano.slice %x dim 0 at 0 : tensor<64x128xbf16> -> tensor<62x128xbf16>
  %c = nano.concat %z, %s dim 0 : (tensor<2x128xbf16>, tensor<62x128xbf16>) -> tensor<64x128xbf16>
  %y = nano.add %x, %c : tensor<64x128xbf16>
  %p = nano.matmul %y, %w {transpose_b} : (tensor<64x128xbf16>, tensor<128x128xbf16>) -> tensor<64x128xbf16>
  %q = nano.mul %p, %c : tensor<64x128xbf16>
  nano.return %q : tensor<64x128xbf16>
}

// -----

// Positions along an inner dimension towards its start: rows of the last one, 3 for each position, of which there are 8 in each of 2.
// CHECK-LABEL: nano.program @back
// CHECK-NOT: nano.concat
// CHECK: nano.min
// CHECK: %[[G:.*]] = nano.gather %{{.*}} : (tensor<48x64xf32>, tensor<48xi32>) -> tensor<48x64xf32>
// CHECK: nano.div
// CHECK: nano.rem
// CHECK: nano.select lt, %{{.*}}, %{{.*}}, %[[G]], %{{.*}}
nano.program @back(%x: tensor<2x8x3x64xf32>) -> tensor<2x8x3x64xf32> {
  %z = nano.constant 0.0 : tensor<2x1x3x64xf32>
  %s = nano.slice %x dim 1 at 1 : tensor<2x8x3x64xf32> -> tensor<2x7x3x64xf32>
  %c = nano.concat %s, %z dim 1 : (tensor<2x7x3x64xf32>, tensor<2x1x3x64xf32>) -> tensor<2x8x3x64xf32>
  %y = nano.mul %x, %c : tensor<2x8x3x64xf32>
  nano.return %y : tensor<2x8x3x64xf32>
}

// -----

// What a product reads, a move along the last dimension, other numbers than zeros, and another part than what is moved: copies.
// CHECK-LABEL: nano.program @copied
// CHECK-COUNT-4: nano.concat
// CHECK-NOT: nano.gather
nano.program @copied(%x: tensor<64x128xbf16>, %w: tensor<128x128xbf16>) -> (tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>) {
  %z = nano.constant 0.0 : tensor<2x128xbf16>
  %one = nano.constant 1.0 : tensor<2x128xbf16>
  %column = nano.constant 0.0 : tensor<64x1xbf16>
  %s = nano.slice %x dim 0 at 0 : tensor<64x128xbf16> -> tensor<62x128xbf16>
  %r = nano.slice %x dim 0 at 1 : tensor<64x128xbf16> -> tensor<62x128xbf16>
  %l = nano.slice %x dim 1 at 0 : tensor<64x128xbf16> -> tensor<64x127xbf16>
  %0 = nano.concat %z, %s dim 0 : (tensor<2x128xbf16>, tensor<62x128xbf16>) -> tensor<64x128xbf16>
  %1 = nano.concat %column, %l dim 1 : (tensor<64x1xbf16>, tensor<64x127xbf16>) -> tensor<64x128xbf16>
  %2 = nano.concat %one, %s dim 0 : (tensor<2x128xbf16>, tensor<62x128xbf16>) -> tensor<64x128xbf16>
  %3 = nano.concat %z, %r dim 0 : (tensor<2x128xbf16>, tensor<62x128xbf16>) -> tensor<64x128xbf16>
  %a = nano.matmul %0, %w {transpose_b} : (tensor<64x128xbf16>, tensor<128x128xbf16>) -> tensor<64x128xbf16>
  %b = nano.add %x, %1 : tensor<64x128xbf16>
  %c = nano.add %x, %2 : tensor<64x128xbf16>
  %d = nano.add %x, %3 : tensor<64x128xbf16>
  nano.return %a, %b, %c, %d : tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>
}

// -----

// One reader reads them twice, between two others.
// CHECK-LABEL: nano.program @squared
// CHECK-NOT: nano.concat
// CHECK: %[[G:.*]] = nano.gather
// CHECK: %[[Y:.*]] = nano.select ge, %{{.*}}, %{{.*}}, %[[G]], %{{.*}}
// CHECK: nano.mul %[[Y]], %[[Y]]
// CHECK: nano.return
nano.program @squared(%x: tensor<16x64xf32>) -> (tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x64xf32>) {
  %z = nano.constant 0.0 : tensor<2x64xf32>
  %s = nano.slice %x dim 0 at 0 : tensor<16x64xf32> -> tensor<14x64xf32>
  %c = nano.concat %z, %s dim 0 : (tensor<2x64xf32>, tensor<14x64xf32>) -> tensor<16x64xf32>
  %a = nano.tanh %c : tensor<16x64xf32>
  %b = nano.mul %c, %c : tensor<16x64xf32>
  %d = nano.sin %c : tensor<16x64xf32>
  nano.return %a, %b, %d : tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x64xf32>
}
