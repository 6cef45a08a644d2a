// RUN: nano-opt %s -nano-fuse=end-products=true | FileCheck %s
// RUN: nano-opt %s -nano-fuse | FileCheck %s --check-prefix=JOINED

// Squares that are made again, which a product reads too, and the gradient that goes back through them: each ends a product of its own. As one kernel they would read the first product's result
// from memory, or the second one's.
// CHECK-LABEL: nano.program @squares
// CHECK: %[[H:.*]] = nano.matmul %arg0, %arg1
// CHECK: %[[S:.*]] = nano.fused(%[[H]])
// CHECK: nano.matmul %{{.*}}, %[[S]] {transpose_a}
// CHECK: %[[G:.*]] = nano.matmul %arg2
// CHECK: nano.fused(%[[S]], %[[G]])
// CHECK-NOT: nano.fused(
// JOINED-LABEL: nano.program @squares
// JOINED-COUNT-1: nano.fused(
// JOINED-NOT: nano.fused(
// JOINED-LABEL: nano.program @alone
nano.program @squares(%x: tensor<64x16xbf16>, %w: tensor<48x16xbf16>, %d: tensor<64x16xbf16>, %v: tensor<16x48xbf16>) -> (tensor<16x48xf32>, tensor<64x48xbf16>) {
  %zero = nano.constant 0.0 : tensor<64x48xbf16>
  %h = nano.matmul %x, %w {transpose_b} : (tensor<64x16xbf16>, tensor<48x16xbf16>) -> tensor<64x48xbf16>
  %r = nano.max %h, %zero : tensor<64x48xbf16>
  %s = nano.mul %r, %r : tensor<64x48xbf16>
  %dv = nano.matmul %d, %s {transpose_a} : (tensor<64x16xbf16>, tensor<64x48xbf16>) -> tensor<16x48xf32>
  %g = nano.matmul %d, %v : (tensor<64x16xbf16>, tensor<16x48xbf16>) -> tensor<64x48xbf16>
  %root = nano.sqrt %s : tensor<64x48xbf16>
  %dh = nano.mul %g, %root : tensor<64x48xbf16>
  nano.return %dv, %dh : tensor<16x48xf32>, tensor<64x48xbf16>
}

// What nobody else reads is not written for that: a gate and what it multiplies are one kernel.
// CHECK-LABEL: nano.program @alone
// CHECK-COUNT-1: nano.fused(
// CHECK-NOT: nano.fused(
nano.program @alone(%x: tensor<64x16xbf16>, %w: tensor<48x16xbf16>, %v: tensor<48x16xbf16>) -> tensor<64x48xbf16> {
  %h = nano.matmul %x, %w {transpose_b} : (tensor<64x16xbf16>, tensor<48x16xbf16>) -> tensor<64x48xbf16>
  %s = nano.sigmoid %h : tensor<64x48xbf16>
  %g = nano.matmul %x, %v {transpose_b} : (tensor<64x16xbf16>, tensor<48x16xbf16>) -> tensor<64x48xbf16>
  %y = nano.mul %s, %g : tensor<64x48xbf16>
  nano.return %y : tensor<64x48xbf16>
}

// Nor are there two kernels where both read the first product: it crosses memory in any case.
// CHECK-LABEL: nano.program @both
// CHECK-COUNT-1: nano.fused(
// CHECK-NOT: nano.fused(
nano.program @both(%x: tensor<64x16xbf16>, %w: tensor<48x16xbf16>, %d: tensor<64x16xbf16>, %v: tensor<16x48xbf16>) -> (tensor<16x48xf32>, tensor<64x48xbf16>) {
  %h = nano.matmul %x, %w {transpose_b} : (tensor<64x16xbf16>, tensor<48x16xbf16>) -> tensor<64x48xbf16>
  %s = nano.tanh %h : tensor<64x48xbf16>
  %dv = nano.matmul %d, %s {transpose_a} : (tensor<64x16xbf16>, tensor<64x48xbf16>) -> tensor<16x48xf32>
  %g = nano.matmul %d, %v : (tensor<64x16xbf16>, tensor<16x48xbf16>) -> tensor<64x48xbf16>
  %t = nano.mul %s, %h : tensor<64x48xbf16>
  %dh = nano.mul %g, %t : tensor<64x48xbf16>
  nano.return %dv, %dh : tensor<16x48xf32>, tensor<64x48xbf16>
}

// What a product's end multiplies its rows by is made where the sums are that it comes of: the end takes numbers of rows and makes none.
// CHECK-LABEL: nano.program @factors
// CHECK: %[[R:.*]] = nano.fused(%arg0) : (tensor<64x16xbf16>) -> tensor<64xf32> {
// CHECK: nano.rsqrt
// CHECK: %[[P:.*]] = nano.matmul %arg0, %arg1
// CHECK: nano.fused(%[[P]], %[[R]])
// CHECK-NOT: nano.fused(
// JOINED-LABEL: nano.program @factors
// JOINED: nano.fused(%arg0) : (tensor<64x16xbf16>) -> tensor<64xf32> {
// JOINED-NOT: nano.rsqrt
// JOINED: nano.fused(
// JOINED: nano.rsqrt
nano.program @factors(%x: tensor<64x16xbf16>, %w: tensor<48x16xbf16>) -> tensor<64x48xbf16> {
  %c = nano.constant 0.0625 : tensor<64xf32>
  %f = nano.cast %x : tensor<64x16xbf16> -> tensor<64x16xf32>
  %q = nano.mul %f, %f : tensor<64x16xf32>
  %s = nano.reduce sum %q dims [1] : tensor<64x16xf32> -> tensor<64xf32>
  %z = nano.mul %s, %c : tensor<64xf32>
  %r = nano.rsqrt %z : tensor<64xf32>
  %p = nano.matmul %x, %w {transpose_b} : (tensor<64x16xbf16>, tensor<48x16xbf16>) -> tensor<64x48xbf16>
  %g = nano.cast %p : tensor<64x48xbf16> -> tensor<64x48xf32>
  %b = nano.broadcast %r dims [0] : tensor<64xf32> -> tensor<64x48xf32>
  %m = nano.mul %g, %b : tensor<64x48xf32>
  %y = nano.cast %m : tensor<64x48xf32> -> tensor<64x48xbf16>
  nano.return %y : tensor<64x48xbf16>
}
