// A policy of the forward product alone: the backward pass reads what lies in the compute type. And a
// product in 8 bits of the model's own has its operands turned where the libraries want them so.
// RUN: nano-opt %s --nano-scale-products | FileCheck %s
// RUN: nano-opt %s --nano-scale-products=k-major | FileCheck %s --check-prefix=TURNED

// CHECK-NOT: amax_g
// CHECK: nano.state @w.fp8_scale_x
// CHECK-LABEL: nano.program @first(
// CHECK: nano.scaled_matmul {{.*}}part = "forward product"
// CHECK: nano.matmul %{{.*}}, %{{.*}} {transpose_a} : (tensor<64x32xf32>, tensor<64x16xf32>) -> tensor<32x16xf32>
// CHECK: nano.matmul %{{.*}}, %{{.*}} : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
// CHECK: nano.load @v
// CHECK: %[[OWN:.*]] = nano.quantize %{{.*}} : tensor<32x16xf32>, tensor<f32> -> tensor<32x16xf8E4M3FN>
// CHECK-NEXT: nano.scaled_matmul %{{.*}}, %[[OWN]] scales(%{{.*}}, %{{.*}}) :

// TURNED-LABEL: nano.program @first(
// TURNED: nano.load @v
// TURNED: %[[OWN:.*]] = nano.quantize %{{.*}} : tensor<32x16xf32>, tensor<f32> -> tensor<32x16xf8E4M3FN>
// TURNED-NEXT: %[[TURNED:.*]] = nano.transpose %[[OWN]]
// TURNED-NEXT: nano.scaled_matmul %{{.*}}, %[[TURNED]] scales(%{{.*}}, %{{.*}}) {transpose_b} :

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "delayed", history = 1 : i64, margin = 0.0 : f64, backward = false}}
nano.state @v : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all}
nano.state @grad.w : tensor<32x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

nano.program @first(%x: tensor<64x16xf32>, %g: tensor<64x32xf32>, %s: tensor<f32>) -> (tensor<64x32xf32>, tensor<64x16xf32>, tensor<64x16xf32>)
    attributes {role = "first"} {
  %w = nano.load @w : tensor<32x16xf32>
  %y = nano.matmul %x, %w {transpose_b} : (tensor<64x16xf32>, tensor<32x16xf32>) -> tensor<64x32xf32>
  %dw = nano.matmul %g, %x {transpose_a} : (tensor<64x32xf32>, tensor<64x16xf32>) -> tensor<32x16xf32>
  nano.store %dw, @grad.w : tensor<32x16xf32>
  %dx = nano.matmul %g, %w : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  %v = nano.load @v : tensor<32x16xf32>
  %q = nano.quantize %g, %s : tensor<64x32xf32>, tensor<f32> -> tensor<64x32xf8E4M3FN>
  %k = nano.quantize %v, %s : tensor<32x16xf32>, tensor<f32> -> tensor<32x16xf8E4M3FN>
  %z = nano.scaled_matmul %q, %k scales(%s, %s) : (tensor<64x32xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<64x16xf32>
  nano.return %y, %dx, %z : tensor<64x32xf32>, tensor<64x16xf32>, tensor<64x16xf32>
}
nano.program @next() attributes {role = "next"} {
  nano.return
}
nano.program @update() attributes {role = "update"} {
  nano.return
}
