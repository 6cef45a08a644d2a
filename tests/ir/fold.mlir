// RUN: nano-opt %s --canonicalize | FileCheck %s
// Folding is exact: a fold that would change a bit of a result is not done.

// CHECK-LABEL: @neutral
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xbf16>, %[[I:.*]]: tensor<4xi32>)
// CHECK-NEXT: nano.return %[[X]], %[[B]], %[[I]] :
nano.program @neutral(%x: tensor<4xf32>, %b: tensor<4xbf16>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xbf16>, tensor<4xi32>) {
  %zero = nano.constant 0.0 : tensor<4xf32>
  %negZero = nano.constant -0.0 : tensor<4xbf16>
  %one = nano.constant 1.0 : tensor<4xf32>
  %oneB = nano.constant 1.0 : tensor<4xbf16>
  %zeroI = nano.constant 0.0 : tensor<4xi32>
  %negZeroI = nano.constant -0.0 : tensor<4xi32>
  %oneI = nano.constant 1.0 : tensor<4xi32>
  %x0 = nano.sub %x, %zero : tensor<4xf32>
  %x1 = nano.mul %one, %x0 : tensor<4xf32>
  %x2 = nano.div %x1, %one : tensor<4xf32>
  %b0 = nano.add %negZero, %b : tensor<4xbf16>
  %b1 = nano.mul %b0, %oneB : tensor<4xbf16>
  %i0 = nano.add %i, %zeroI : tensor<4xi32>
  %i1 = nano.sub %i0, %zeroI : tensor<4xi32>
  %i2 = nano.mul %i1, %oneI : tensor<4xi32>
  %i3 = nano.div %i2, %oneI : tensor<4xi32>
  %i4 = nano.add %i3, %negZeroI : tensor<4xi32>
  %i5 = nano.sub %i4, %negZeroI : tensor<4xi32>
  nano.return %x2, %b1, %i5 : tensor<4xf32>, tensor<4xbf16>, tensor<4xi32>
}

// −0 + 0 = +0 and −0 − (−0) = +0; 0 − x and 1/x are not x.
// CHECK-LABEL: @kept
// CHECK-DAG: nano.add
// CHECK-DAG: nano.sub
// CHECK-DAG: nano.sub
// CHECK-DAG: nano.div
// CHECK-DAG: nano.mul
nano.program @kept(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = nano.constant 0.0 : tensor<4xf32>
  %negZero = nano.constant -0.0 : tensor<4xf32>
  %one = nano.constant 1.0 : tensor<4xf32>
  %almost = nano.constant 1.00000001 : tensor<4xf32>
  %0 = nano.add %x, %zero : tensor<4xf32>
  %1 = nano.sub %x, %negZero : tensor<4xf32>
  %2 = nano.sub %zero, %x : tensor<4xf32>
  %3 = nano.div %one, %x : tensor<4xf32>
  %4 = nano.mul %x, %almost : tensor<4xf32>
  nano.return %0, %1, %2, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: @casts
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xbf16>)
nano.program @casts(%x: tensor<4xf32>, %b: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xbf16>, tensor<4xf32>) {
  %0 = nano.cast %x : tensor<4xf32> -> tensor<4xf32>
  // bf16 → f32 → bf16 changes nothing; f32 → bf16 → f32 rounds.
  %1 = nano.cast %b : tensor<4xbf16> -> tensor<4xf32>
  %2 = nano.cast %1 : tensor<4xf32> -> tensor<4xbf16>
  // CHECK-NEXT: %[[N:.*]] = nano.cast %[[X]] : tensor<4xf32> -> tensor<4xbf16>
  // CHECK-NEXT: %[[W:.*]] = nano.cast %[[N]] : tensor<4xbf16> -> tensor<4xf32>
  // CHECK-NEXT: nano.return %[[X]], %[[B]], %[[W]] :
  %3 = nano.cast %x : tensor<4xf32> -> tensor<4xbf16>
  %4 = nano.cast %3 : tensor<4xbf16> -> tensor<4xf32>
  nano.return %0, %2, %4 : tensor<4xf32>, tensor<4xbf16>, tensor<4xf32>
}

// CHECK-LABEL: @shapes
// CHECK-SAME: (%[[X:.*]]: tensor<4x6xf32>)
nano.program @shapes(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<2x12xf32>, tensor<3xf32>) {
  %0 = nano.broadcast %x dims [0, 1] : tensor<4x6xf32> -> tensor<4x6xf32>
  %1 = nano.slice %0 dim 1 at 0 : tensor<4x6xf32> -> tensor<4x6xf32>
  %2 = nano.concat %1 dim 0 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %3 = nano.reshape %2 : tensor<4x6xf32> -> tensor<24xf32>
  %4 = nano.reshape %3 : tensor<24xf32> -> tensor<4x6xf32>
  // CHECK-DAG: %[[R:.*]] = nano.reshape %[[X]] : tensor<4x6xf32> -> tensor<2x12xf32>
  %5 = nano.reshape %3 : tensor<24xf32> -> tensor<2x12xf32>
  // CHECK-DAG: %[[C:.*]] = nano.constant 5.000000e-01 : tensor<3xf32>
  %c = nano.constant 0.5 : tensor<f32>
  %6 = nano.broadcast %c dims [] : tensor<f32> -> tensor<6xf32>
  %7 = nano.reshape %6 : tensor<6xf32> -> tensor<2x3xf32>
  %8 = nano.slice %7 dim 0 at 1 : tensor<2x3xf32> -> tensor<1x3xf32>
  %9 = nano.reshape %8 : tensor<1x3xf32> -> tensor<3xf32>
  // CHECK: nano.return %[[X]], %[[R]], %[[C]] :
  nano.return %4, %5, %9 : tensor<4x6xf32>, tensor<2x12xf32>, tensor<3xf32>
}

// Constants stay inside a score region, which a kernel takes over whole.
// CHECK-LABEL: @score
nano.program @score(%q: tensor<8x2x4xf32>, %range: tensor<8xi32>) -> tensor<8x2x4xf32> {
  // CHECK: nano.attention
  // CHECK-NEXT: ^bb0(
  // CHECK-NEXT: nano.constant 2.000000e+00 : tensor<f32>
  %y, %lse = nano.attention %q, %q, %q, %range, %range scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xf32>, tensor<8x2xf32>) {
  ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
    %two = nano.constant 2.0 : tensor<f32>
    %twice = nano.mul %s, %two : tensor<f32>
    nano.yield %twice : tensor<f32>
  }
  nano.return %y : tensor<8x2x4xf32>
}
