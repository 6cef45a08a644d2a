// Delayed scaling: scales are states that `update` makes of the largest magnitudes of the last steps.
// RUN: nano-opt %s --split-input-file --nano-scale-products | FileCheck %s

// CHECK: nano.state @w.fp8_scale_g : tensor<f32> {init = #nano.init<"constant", [2.44140625E-4]>, role = #nano.role<optimizer>}
// CHECK: nano.state @w.fp8_amax_g : tensor<4xf32> {init = #nano.init<"constant", [0.000000e+00]>, role = #nano.role<optimizer>}
// CHECK: nano.state @fp8.w.amax_g : tensor<f32> {{.*}}role<gradient>
// CHECK: nano.state @w.fp8_scale_x : tensor<f32> {init = #nano.init<"constant", [1.000000e+00]>
// CHECK: nano.state @w.fp8_amax_x
// CHECK: nano.state @fp8.w.amax_x

// CHECK-LABEL: nano.program @first(
// CHECK-SAME: %[[X:.*]]: tensor<64x16xbf16>
// CHECK: %[[XROWS:.*]] = nano.reduce max %{{.*}} dims [1] : tensor<64x16xf32>
// CHECK: %[[XMAX:.*]] = nano.reduce max %[[XROWS]] dims [0]
// CHECK: %[[SX:.*]] = nano.load @w.fp8_scale_x
// CHECK: nano.quantize %[[X]], %[[SX]]
// CHECK: %[[GROWS:.*]] = nano.reduce max %{{.*}} dims [1] : tensor<64x32xf32>
// CHECK: %[[GMAX:.*]] = nano.reduce max %[[GROWS]] dims [0]
// CHECK: %[[SG:.*]] = nano.load @w.fp8_scale_g
// CHECK: nano.quantize %{{.*}}, %[[SG]]
// CHECK: nano.store %[[XMAX]], @fp8.w.amax_x
// CHECK: nano.store %[[GMAX]], @fp8.w.amax_g
// CHECK-NEXT: nano.return

// CHECK-LABEL: nano.program @next(
// CHECK: %[[BEFORE:.*]] = nano.load @fp8.w.amax_x
// CHECK-NEXT: %[[LARGER:.*]] = nano.max %[[BEFORE]], %{{.*}}
// CHECK-NEXT: nano.store %[[LARGER]], @fp8.w.amax_x

// CHECK-LABEL: nano.program @update()
// CHECK-NEXT: %[[HX:.*]] = nano.load @fp8.w.amax_x
// CHECK-NEXT: %[[AX:.*]] = nano.all_reduce %[[HX]] by max : tensor<f32>
// CHECK-NEXT: %[[HG:.*]] = nano.load @fp8.w.amax_g
// CHECK-NEXT: %[[AG:.*]] = nano.all_reduce %[[HG]] by max : tensor<f32>
// CHECK-NEXT: %[[NEW:.*]] = nano.broadcast %[[AX]]
// CHECK-NEXT: %[[OLD:.*]] = nano.load @w.fp8_amax_x : tensor<4xf32>
// CHECK-NEXT: %[[SHIFTED:.*]] = nano.rotate %[[OLD]] by 3
// CHECK-NEXT: %[[PLACE:.*]] = nano.iota 0
// CHECK-NEXT: %[[ZERO:.*]] = nano.constant 0.000000e+00 : tensor<4xi32>
// CHECK-NEXT: %[[HISTORY:.*]] = nano.select eq, %[[PLACE]], %[[ZERO]], %[[NEW]], %[[SHIFTED]]
// CHECK-NEXT: nano.store %[[HISTORY]], @w.fp8_amax_x
// CHECK: %[[MOST:.*]] = nano.reduce max %[[HISTORY]] dims [0]
// CHECK: nano.store %{{.*}}, @w.fp8_scale_x
// CHECK: nano.store %{{.*}}, @w.fp8_amax_g
// CHECK: nano.store %{{.*}}, @w.fp8_scale_g
// CHECK-NEXT: nano.return

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "delayed", history = 4 : i64, margin = 0.0 : f64}}
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

// -----

// A history of one step is that step; a margin of one doubles the scale: 2/448. `update` is added
// where there is none.
// CHECK-LABEL: nano.program @update() attributes {role = "update"} {
// CHECK-NEXT: %[[HERE:.*]] = nano.load @fp8.w.amax_x
// CHECK-NEXT: %[[X:.*]] = nano.all_reduce %[[HERE]] by max : tensor<f32>
// CHECK: %[[STEPS:.*]] = nano.broadcast %[[X]] {{.*}} -> tensor<1xf32>
// CHECK-NEXT: nano.store %[[STEPS]], @w.fp8_amax_x
// CHECK: nano.constant 0.0044642857142857

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "delayed", history = 1 : i64, margin = 1.0 : f64}}
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
