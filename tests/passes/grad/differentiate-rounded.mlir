// A product of what is quantised right before it: 8 bits forward, and backward the product of what
// was quantised, not of its roundings; none of the gradient goes to a scale.
// RUN: nano-opt %s --nano-differentiate | FileCheck %s

// CHECK-LABEL: nano.program @train(
// CHECK-SAME: %[[X:.*]]: tensor<64x16xbf16>, %[[S:.*]]: tensor<f32>
// CHECK: %[[W:.*]] = nano.cast %{{.*}} : tensor<32x16xf32> -> tensor<32x16xbf16>
// CHECK: nano.scaled_matmul
// CHECK: %[[P:.*]] = nano.cast %{{.*}} -> tensor<64x32xbf16>
// CHECK: %[[V:.*]] = nano.cast %{{.*}} : tensor<32x16xf32> -> tensor<32x16xbf16>
// CHECK: nano.scaled_matmul
// CHECK-NOT: nano.dequantize
// CHECK-NOT: nano.div
// CHECK: nano.matmul %[[P]], %{{.*}} {transpose_a} : (tensor<64x32xbf16>, tensor<64x16xbf16>) -> tensor<32x16xf32>
// CHECK-NEXT: nano.accumulate %{{.*}}, @grad.v
// CHECK-NEXT: nano.matmul %{{.*}}, %[[V]] {transpose_b} : (tensor<64x16xbf16>, tensor<32x16xbf16>) -> tensor<64x32xbf16>
// CHECK: nano.matmul %{{.*}}, %[[X]] {transpose_a} : (tensor<64x32xbf16>, tensor<64x16xbf16>) -> tensor<32x16xf32>
// CHECK: nano.accumulate %{{.*}}, @grad.w

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all}
nano.state @v : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all}

nano.program @train(%x: tensor<64x16xbf16>, %s: tensor<f32>) -> tensor<f32> attributes {role = "train"} {
  %w0 = nano.load @w : tensor<32x16xf32>
  %w = nano.cast %w0 : tensor<32x16xf32> -> tensor<32x16xbf16>
  %qx = nano.quantize %x, %s : tensor<64x16xbf16>, tensor<f32> -> tensor<64x16xf8E4M3FN>
  %qw = nano.quantize %w, %s : tensor<32x16xbf16>, tensor<f32> -> tensor<32x16xf8E4M3FN>
  %h = nano.scaled_matmul %qx, %qw scales(%s, %s) {transpose_b} : (tensor<64x16xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<64x32xbf16>
  %h32 = nano.cast %h : tensor<64x32xbf16> -> tensor<64x32xf32>
  %t = nano.tanh %h32 : tensor<64x32xf32>
  %p = nano.cast %t : tensor<64x32xf32> -> tensor<64x32xbf16>
  %v0 = nano.load @v : tensor<32x16xf32>
  %v = nano.cast %v0 : tensor<32x16xf32> -> tensor<32x16xbf16>
  %qp = nano.quantize %p, %s : tensor<64x32xbf16>, tensor<f32> -> tensor<64x32xf8E4M3FN>
  %qv = nano.quantize %v, %s : tensor<32x16xbf16>, tensor<f32> -> tensor<32x16xf8E4M3FN>
  %y = nano.scaled_matmul %qp, %qv scales(%s, %s) : (tensor<64x32xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<64x16xbf16>
  %y32 = nano.cast %y : tensor<64x16xbf16> -> tensor<64x16xf32>
  %y2 = nano.mul %y32, %y32 : tensor<64x16xf32>
  %rows = nano.reduce sum %y2 dims [1] : tensor<64x16xf32> -> tensor<64xf32>
  %loss = nano.reduce sum %rows dims [0] : tensor<64xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}
