// RUN: nano-opt %s -nano-drop-empty -split-input-file | FileCheck %s --implicit-check-not="x0x" --implicit-check-not="<0x"

// CHECK-LABEL: nano.program @parts
// CHECK-SAME: (%[[X:.*]]: tensor<8x4xf32>, %[[Y:.*]]: tensor<2x4xf32>)
// CHECK-NEXT: %[[J:.*]] = nano.concat %[[X]], %[[Y]] dim 0 : (tensor<8x4xf32>, tensor<2x4xf32>) -> tensor<10x4xf32>
// CHECK-NEXT: nano.return %[[X]], %[[J]]
nano.program @parts(%x: tensor<8x4xf32>, %y: tensor<2x4xf32>) -> (tensor<8x4xf32>, tensor<10x4xf32>) {
  %none = nano.slice %x dim 0 at 3 : tensor<8x4xf32> -> tensor<0x4xf32>
  %same = nano.exp %none : tensor<0x4xf32>
  %one = nano.concat %none, %x, %same dim 0 : (tensor<0x4xf32>, tensor<8x4xf32>, tensor<0x4xf32>) -> tensor<8x4xf32>
  %two = nano.concat %one, %same, %y dim 0 : (tensor<8x4xf32>, tensor<0x4xf32>, tensor<2x4xf32>) -> tensor<10x4xf32>
  nano.return %one, %two : tensor<8x4xf32>, tensor<10x4xf32>
}

// -----

// Sums of nothing.
// CHECK-LABEL: nano.program @sums
// CHECK-SAME: (%[[X:.*]]: tensor<8x4xf32>)
// CHECK-NEXT: %[[ROW:.*]] = nano.constant 0.000000e+00 : tensor<4xf32>
// CHECK-NEXT: %[[P:.*]] = nano.constant 0.000000e+00 : tensor<8x8xf32>
// CHECK-NEXT: %[[BETA:.*]] = nano.constant 5.000000e-01
// CHECK: %[[Q:.*]] = nano.mul %[[P]]
// CHECK: %[[T:.*]] = nano.constant 0.000000e+00 : tensor<5x4xbf16>
// CHECK: %[[S:.*]] = nano.constant 0.000000e+00 : tensor<8x2x3xf32>
// CHECK: nano.return %[[ROW]], %[[Q]], %[[T]], %[[S]]
nano.program @sums(%x: tensor<8x4xf32>) -> (tensor<4xf32>, tensor<8x8xf32>, tensor<5x4xbf16>, tensor<8x2x3xf32>) {
  %rows = nano.slice %x dim 0 at 0 : tensor<8x4xf32> -> tensor<0x4xf32>
  %columns = nano.slice %x dim 1 at 4 : tensor<8x4xf32> -> tensor<8x0xf32>
  %ids = nano.constant 0.0 : tensor<0xi32>
  %r = nano.reduce sum %rows dims [0] : tensor<0x4xf32> -> tensor<4xf32>
  %p = nano.matmul %columns, %columns {transpose_b} : (tensor<8x0xf32>, tensor<8x0xf32>) -> tensor<8x8xf32>
  %q = nano.matmul %columns, %columns add %p {transpose_b, beta = 0.5 : f64} : (tensor<8x0xf32>, tensor<8x0xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %t = nano.scatter_add %rows, %ids : (tensor<0x4xf32>, tensor<0xi32>) -> tensor<5x4xbf16>
  %h = nano.reshape %columns : tensor<8x0xf32> -> tensor<8x2x0xf32>
  %s = nano.band_scores %h, %h : (tensor<8x2x0xf32>, tensor<8x2x0xf32>) -> tensor<8x2x3xf32>
  nano.return %r, %q, %t, %s : tensor<4xf32>, tensor<8x8xf32>, tensor<5x4xbf16>, tensor<8x2x3xf32>
}

// -----

// What has several results has none that is needed. A derivative of the model's own is gone over too.
// CHECK-LABEL: nano.program @inside
// CHECK-NEXT: nano.custom{{.*}} derivative
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>, %[[DY:.*]]: tensor<4xf32>):
// CHECK-NEXT: nano.yield %[[DY]]
nano.program @inside(%x: tensor<4xf32>) -> tensor<4xf32> {
  %logits = nano.constant 0.0 : tensor<0x7xf32>
  %targets = nano.constant 0.0 : tensor<0xi32>
  %each, %lse = nano.cross_entropy %logits, %targets : (tensor<0x7xf32>, tensor<0xi32>) -> (tensor<0xf32>, tensor<0xf32>)
  %y = nano.custom "f"(%x) iterations 4 {cpu = "c", gradient_of = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  derivative {
  ^bb0(%in: tensor<4xf32>, %out: tensor<4xf32>, %dy: tensor<4xf32>):
    %none = nano.slice %dy dim 0 at 0 : tensor<4xf32> -> tensor<0xf32>
    %dx = nano.concat %none, %dy dim 0 : (tensor<0xf32>, tensor<4xf32>) -> tensor<4xf32>
    nano.yield %dx : tensor<4xf32>
  }
  nano.return %y : tensor<4xf32>
}
