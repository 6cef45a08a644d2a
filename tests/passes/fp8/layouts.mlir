// Weights that lie [in, out], weights of more dimensions, parameters that are no weight, and other
// programs.
// RUN: nano-opt %s --nano-scale-products | FileCheck %s

// CHECK-LABEL: nano.program @first(
// CHECK: nano.reshape %{{.*}} : tensor<2x16x32xf32> -> tensor<32x32xf32>
// CHECK-NEXT: nano.quantize
// CHECK: nano.scaled_matmul {{.*}}{layer = {a = "input", b = "weight", part = "forward product", weight = "w"}} : (tensor<64x32xf8E4M3FN>, tensor<32x32xf8E4M3FN>
// CHECK: nano.matmul %{{.*}}, %{{.*}} {transpose_b} : (tensor<64x32xf32>, tensor<16x32xf32>)
// CHECK: nano.scaled_matmul {{.*}}{layer = {a = "input", b = "gradient", part = "gradient of the weight", weight = "w"}, transpose_a} : (tensor<64x32xf8E4M3FN>, tensor<64x32xf8E5M2>
// CHECK: nano.scaled_matmul {{.*}}{layer = {a = "gradient", b = "weight", part = "gradient of the input", weight = "w"}, transpose_b} : (tensor<64x32xf8E5M2>, tensor<32x32xf8E4M3FN>

// CHECK-LABEL: nano.program @validate(
// CHECK: nano.matmul
// CHECK-NOT: nano.scaled_matmul

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<2x16x32xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "static", scales = array<f64: 0.5, 0.25, 0.125>}}
nano.state @v : tensor<16x32xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all}
nano.state @grad.w : tensor<2x16x32xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

nano.program @first(%x: tensor<64x32xf32>, %g: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<64x16xf32>, tensor<64x32xf32>)
    attributes {role = "first"} {
  %w3 = nano.load @w : tensor<2x16x32xf32>
  %w = nano.reshape %w3 : tensor<2x16x32xf32> -> tensor<32x32xf32>
  %z = nano.matmul %x, %w : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %v = nano.load @v : tensor<16x32xf32>
  %y = nano.matmul %x, %v {transpose_b} : (tensor<64x32xf32>, tensor<16x32xf32>) -> tensor<64x16xf32>
  %dw = nano.matmul %x, %g {transpose_a} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<32x32xf32>
  %dw3 = nano.reshape %dw : tensor<32x32xf32> -> tensor<2x16x32xf32>
  nano.store %dw3, @grad.w : tensor<2x16x32xf32>
  %dx = nano.matmul %g, %w {transpose_b} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  nano.return %z, %y, %dx : tensor<64x32xf32>, tensor<64x16xf32>, tensor<64x32xf32>
}
nano.program @next() attributes {role = "next"} {
  nano.return
}
nano.program @update() attributes {role = "update"} {
  nano.return
}
nano.program @validate(%x: tensor<64x32xf32>) -> tensor<64x32xf32> attributes {role = "validate"} {
  %w3 = nano.load @w : tensor<2x16x32xf32>
  %w = nano.reshape %w3 : tensor<2x16x32xf32> -> tensor<32x32xf32>
  %z = nano.matmul %x, %w : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  nano.return %z : tensor<64x32xf32>
}
