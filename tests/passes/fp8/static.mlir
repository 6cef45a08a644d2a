// Static scaling: given scales, as scalars; weights are converted in `first`, from what is stored.
// RUN: nano-opt %s --nano-scale-products | FileCheck %s
// RUN: nano-opt %s --nano-scale-products=k-major | FileCheck %s --check-prefix=KMAJOR

// CHECK: nano.state @w : tensor<32x16xf32>
// CHECK: nano.scalar @w.fp8_scale_x : f32
// CHECK: arith.constant 5.000000e-01 : f64
// CHECK: nano.scalar @w.fp8_scale_w : f32
// CHECK: arith.constant 2.500000e-01 : f64
// CHECK: nano.scalar @w.fp8_scale_g : f32
// CHECK: arith.constant 1.250000e-01 : f64

// CHECK-LABEL: nano.program @first(
// CHECK-SAME: %[[X:.*]]: tensor<64x16xbf16>, %[[H:.*]]: tensor<64x32xf32>
// CHECK: %[[SW:.*]] = nano.load @w.fp8_scale_w : tensor<f32>
// CHECK-NEXT: %[[W:.*]] = nano.load @w : tensor<32x16xf32>
// CHECK-NEXT: %[[WQ:.*]] = nano.quantize %[[W]], %[[SW]] : tensor<32x16xf32>, tensor<f32> -> tensor<32x16xf8E4M3FN>
// CHECK-NEXT: nano.store %[[WQ]], @fp8.w
// CHECK-NEXT: %[[SX:.*]] = nano.load @w.fp8_scale_x
// CHECK-NEXT: %[[XQ:.*]] = nano.quantize %[[X]], %[[SX]] : tensor<64x16xbf16>, tensor<f32> -> tensor<64x16xf8E4M3FN>
// CHECK-NEXT: %[[Z:.*]] = nano.scaled_matmul %[[XQ]], %[[WQ]] scales(%[[SX]], %[[SW]]) {layer = {a = "input", b = "weight", part = "forward product", weight = "w"}, transpose_b}
// CHECK-SAME: -> tensor<64x32xbf16>
// CHECK-NEXT: nano.cast %[[Z]]
// CHECK-NEXT: %[[G:.*]] = nano.mul
// The gradient is converted from f32, not from what the product was given.
// CHECK-NOT: nano.cast %[[G]]
// CHECK: %[[SG:.*]] = nano.load @w.fp8_scale_g
// CHECK-NEXT: %[[GQ:.*]] = nano.quantize %[[G]], %[[SG]] : tensor<64x32xf32>, tensor<f32> -> tensor<64x32xf8E5M2>
// The input and the gradient are converted once for both products that read them.
// CHECK-NEXT: %[[DW:.*]] = nano.scaled_matmul %[[GQ]], %[[XQ]] scales(%[[SG]], %[[SX]]) {layer = {{.*}}, transpose_a}
// CHECK-SAME: -> tensor<32x16xf32>
// CHECK-NEXT: nano.store %[[DW]], @grad.w
// CHECK-NEXT: %[[DX:.*]] = nano.scaled_matmul %[[GQ]], %[[WQ]] scales(%[[SG]], %[[SW]]) {layer = {{.*}}}
// CHECK-SAME: -> tensor<64x16xbf16>
// CHECK-NEXT: nano.return %[[DX]]

// CHECK-LABEL: nano.program @next(
// CHECK-NOT: nano.load @w :
// CHECK: %[[NW:.*]] = nano.load @fp8.w : tensor<32x16xf8E4M3FN>
// CHECK-NOT: nano.store %{{.*}}, @fp8.w
// CHECK: nano.scaled_matmul %{{.*}}, %[[NW]]

// Transposed copies of what a product does not read along its inner dimension; the weight's is kept.
// KMAJOR-LABEL: nano.program @first(
// KMAJOR: %[[WQ:.*]] = nano.quantize
// KMAJOR-NEXT: nano.store %[[WQ]], @fp8.w
// KMAJOR-NEXT: %[[WT:.*]] = nano.transpose %[[WQ]] : tensor<32x16xf8E4M3FN> -> tensor<16x32xf8E4M3FN>
// KMAJOR-NEXT: nano.store %[[WT]], @fp8.w.t
// KMAJOR: %[[XQ:.*]] = nano.quantize
// KMAJOR: nano.scaled_matmul %[[XQ]], %[[WQ]]
// KMAJOR: %[[GQ:.*]] = nano.quantize
// KMAJOR-DAG: %[[GT:.*]] = nano.transpose %[[GQ]] : tensor<64x32xf8E5M2> -> tensor<32x64xf8E5M2>
// KMAJOR-DAG: %[[XT:.*]] = nano.transpose %[[XQ]] : tensor<64x16xf8E4M3FN> -> tensor<16x64xf8E4M3FN>
// KMAJOR: nano.scaled_matmul %[[GT]], %[[XT]] scales({{.*}}, transpose_b} : {{.*}} -> tensor<32x16xf32>
// KMAJOR: nano.scaled_matmul %[[GQ]], %[[WT]] scales({{.*}}, transpose_b} : {{.*}} -> tensor<64x16xbf16>
// KMAJOR-LABEL: nano.program @next(
// KMAJOR-NOT: nano.transpose {{.*}} -> tensor<16x32xf8E4M3FN>
// KMAJOR: nano.load @fp8.w.t : tensor<16x32xf8E4M3FN>

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "static", scales = array<f64: 0.5, 0.25, 0.125>}}
nano.state @grad.w : tensor<32x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @first(%x: tensor<64x16xbf16>, %h: tensor<64x32xf32>) -> tensor<64x16xbf16> attributes {role = "first"} {
  %w = nano.load @w : tensor<32x16xf32>
  %wc = nano.cast %w : tensor<32x16xf32> -> tensor<32x16xbf16>
  %z = nano.matmul %x, %wc {transpose_b} : (tensor<64x16xbf16>, tensor<32x16xbf16>) -> tensor<64x32xbf16>
  %s = nano.cast %z : tensor<64x32xbf16> -> tensor<64x32xf32>
  %p = nano.mul %s, %h : tensor<64x32xf32>
  %g = nano.cast %p : tensor<64x32xf32> -> tensor<64x32xbf16>
  %dw = nano.matmul %g, %x {transpose_a} : (tensor<64x32xbf16>, tensor<64x16xbf16>) -> tensor<32x16xf32>
  nano.store %dw, @grad.w : tensor<32x16xf32>
  %dx = nano.matmul %g, %wc : (tensor<64x32xbf16>, tensor<32x16xbf16>) -> tensor<64x16xbf16>
  nano.return %dx : tensor<64x16xbf16>
}
nano.program @next(%x: tensor<64x16xbf16>, %h: tensor<64x32xf32>) -> tensor<64x16xbf16> attributes {role = "next"} {
  %w = nano.load @w : tensor<32x16xf32>
  %wc = nano.cast %w : tensor<32x16xf32> -> tensor<32x16xbf16>
  %z = nano.matmul %x, %wc {transpose_b} : (tensor<64x16xbf16>, tensor<32x16xbf16>) -> tensor<64x32xbf16>
  %s = nano.cast %z : tensor<64x32xbf16> -> tensor<64x32xf32>
  %p = nano.mul %s, %h : tensor<64x32xf32>
  %g = nano.cast %p : tensor<64x32xf32> -> tensor<64x32xbf16>
  %dw = nano.matmul %g, %x {transpose_a} : (tensor<64x32xbf16>, tensor<64x16xbf16>) -> tensor<32x16xf32>
  %old = nano.load @grad.w : tensor<32x16xf32>
  %sum = nano.add %old, %dw : tensor<32x16xf32>
  nano.store %sum, @grad.w : tensor<32x16xf32>
  %dx = nano.matmul %g, %wc : (tensor<64x32xbf16>, tensor<32x16xbf16>) -> tensor<64x16xbf16>
  nano.return %dx : tensor<64x16xbf16>
}
nano.program @update() attributes {role = "update"} {
  nano.return
}
