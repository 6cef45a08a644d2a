// RUN: nano-opt %s -nano-share-log-sums | FileCheck %s

// Behind the loss, as often as it is asked for.
// CHECK-LABEL: nano.program @behind(
// CHECK: %[[LOSS:.*]], %[[LSE:.*]] = nano.cross_entropy
// CHECK-NOT: logsumexp
// CHECK: nano.return %[[LOSS]], %[[LSE]], %[[LSE]]
nano.program @behind(%x: tensor<16x101xf32>, %t: tensor<16xi32>) -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) {
  %loss, %lse = nano.cross_entropy %x, %t : (tensor<16x101xf32>, tensor<16xi32>) -> (tensor<16xf32>, tensor<16xf32>)
  %s = nano.reduce logsumexp %x dims [1] : tensor<16x101xf32> -> tensor<16xf32>
  %r = nano.reduce logsumexp %x dims [1] : tensor<16x101xf32> -> tensor<16xf32>
  nano.return %loss, %s, %r : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
}

// Before it: the loss takes its place.
// CHECK-LABEL: nano.program @before(
// CHECK-NOT: logsumexp
// CHECK: %[[LOSS:.*]], %[[LSE:.*]] = nano.cross_entropy
// CHECK-NEXT: %[[Z:.*]] = nano.mul %[[LSE]], %[[LSE]]
// CHECK-NEXT: nano.add %[[LOSS]], %[[Z]]
nano.program @before(%x: tensor<16x101xf32>, %t: tensor<16xi32>) -> tensor<16xf32> {
  %s = nano.reduce logsumexp %x dims [1] : tensor<16x101xf32> -> tensor<16xf32>
  %z = nano.mul %s, %s : tensor<16xf32>
  %loss, %lse = nano.cross_entropy %x, %t : (tensor<16x101xf32>, tensor<16xi32>) -> (tensor<16xf32>, tensor<16xf32>)
  %all = nano.add %loss, %z : tensor<16xf32>
  nano.return %all : tensor<16xf32>
}

// Of two losses of the same logits the first has it.
// CHECK-LABEL: nano.program @two(
// CHECK: %{{.*}}, %[[LSE:.*]] = nano.cross_entropy %arg0, %arg1
// CHECK: nano.cross_entropy %arg0, %arg2
// CHECK: nano.return %{{.*}}, %[[LSE]] :
nano.program @two(%x: tensor<16x101xf32>, %t: tensor<16xi32>, %u: tensor<16xi32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %loss, %lse = nano.cross_entropy %x, %t : (tensor<16x101xf32>, tensor<16xi32>) -> (tensor<16xf32>, tensor<16xf32>)
  %other, %same = nano.cross_entropy %x, %u : (tensor<16x101xf32>, tensor<16xi32>) -> (tensor<16xf32>, tensor<16xf32>)
  %all = nano.add %loss, %other : tensor<16xf32>
  %s = nano.reduce logsumexp %x dims [1] : tensor<16x101xf32> -> tensor<16xf32>
  nano.return %all, %s : tensor<16xf32>, tensor<16xf32>
}

// Targets that come of the sum itself, other logits, other dimensions and other sums stay.
// CHECK-LABEL: nano.program @stay(
// CHECK: nano.reduce logsumexp %arg0 dims [1]
// CHECK: nano.cross_entropy
// CHECK: nano.reduce logsumexp %arg1 dims [1]
// CHECK: nano.reduce logsumexp %arg0 dims [0]
// CHECK: nano.reduce logsumexp %arg0 dims [0, 1]
// CHECK: nano.reduce sum %arg0 dims [1]
nano.program @stay(%x: tensor<16x101xf32>, %y: tensor<16x101xf32>) -> (tensor<16xf32>, tensor<16xf32>, tensor<101xf32>, tensor<f32>, tensor<16xf32>) {
  %s = nano.reduce logsumexp %x dims [1] : tensor<16x101xf32> -> tensor<16xf32>
  %t = nano.cast %s : tensor<16xf32> -> tensor<16xi32>
  %loss, %lse = nano.cross_entropy %x, %t : (tensor<16x101xf32>, tensor<16xi32>) -> (tensor<16xf32>, tensor<16xf32>)
  %a = nano.reduce logsumexp %y dims [1] : tensor<16x101xf32> -> tensor<16xf32>
  %b = nano.reduce logsumexp %x dims [0] : tensor<16x101xf32> -> tensor<101xf32>
  %c = nano.reduce logsumexp %x dims [0, 1] : tensor<16x101xf32> -> tensor<f32>
  %d = nano.reduce sum %x dims [1] : tensor<16x101xf32> -> tensor<16xf32>
  nano.return %loss, %a, %b, %c, %d : tensor<16xf32>, tensor<16xf32>, tensor<101xf32>, tensor<f32>, tensor<16xf32>
}
