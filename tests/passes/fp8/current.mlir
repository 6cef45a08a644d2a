// Current scaling: each tensor's largest magnitude, rows first, decides its scale.
// RUN: nano-opt %s --nano-scale-products | FileCheck %s

// CHECK: nano.state @fp8.w.scale : tensor<f32> {{.*}}role<gradient>
// CHECK: nano.state @fp8.w : tensor<32x16xf8E4M3FN> {{.*}}role<gradient>

// CHECK-LABEL: nano.program @first(
// CHECK-SAME: %[[X:.*]]: tensor<64x16xbf16>
// CHECK: %[[W:.*]] = nano.load @w
// CHECK-NEXT: %[[ONE:.*]] = nano.constant 1.000000e+00 : tensor<f32>
// CHECK-NEXT: %[[WABS:.*]] = nano.abs %[[W]]
// CHECK-NEXT: %[[WROWS:.*]] = nano.reduce max %[[WABS]] dims [1]
// CHECK-NEXT: %[[WMAX:.*]] = nano.reduce max %[[WROWS]] dims [0]
// CHECK-NEXT: %[[FACTOR:.*]] = nano.constant 0.0022321428571428
// CHECK-NEXT: %[[QUOTIENT:.*]] = nano.mul %[[WMAX]], %[[FACTOR]]
// CHECK-NEXT: %[[LEAST:.*]] = nano.constant
// CHECK-NEXT: %[[SW:.*]] = nano.select gt, %[[QUOTIENT]], %[[LEAST]], %[[QUOTIENT]], %[[ONE]]
// CHECK-NEXT: nano.quantize %[[W]], %[[SW]]
// CHECK-NEXT: nano.store %{{.*}}, @fp8.w
// CHECK-NEXT: nano.store %[[SW]], @fp8.w.scale
// CHECK: nano.cast %[[X]] : tensor<64x16xbf16> -> tensor<64x16xf32>
// CHECK-NEXT: nano.abs
// CHECK-NEXT: nano.reduce max
// CHECK-NEXT: nano.reduce max
// CHECK: %[[SX:.*]] = nano.select gt
// CHECK-NEXT: nano.quantize %[[X]], %[[SX]]
// CHECK: nano.scaled_matmul
// e5m2 ends at 57344.
// CHECK: nano.constant 1.743861607142
// CHECK: %[[SG:.*]] = nano.select gt
// CHECK: nano.scaled_matmul {{.*}} scales(%[[SG]], %[[SX]])
// CHECK: nano.scaled_matmul {{.*}} scales(%[[SG]], %[[SW]])

// CHECK-LABEL: nano.program @next(
// CHECK: nano.load @fp8.w.scale
// CHECK-LABEL: nano.program @update()
// CHECK-NEXT: nano.return

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "current", margin = 0.0 : f64}}
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
