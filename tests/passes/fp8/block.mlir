// Block scaling: 1×128 along the inner dimension, 128×128 of weights, all e4m3.
// RUN: nano-opt %s --nano-scale-products | FileCheck %s
// RUN: nano-opt %s --nano-scale-products=k-major | FileCheck %s --check-prefix=KMAJOR

// CHECK-LABEL: nano.program @first(
// CHECK-SAME: %[[X:.*]]: tensor<256x128xbf16>
// The weight.
// CHECK: nano.reshape %{{.*}} : tensor<384x128xf32> -> tensor<3x128x1x128xf32>
// CHECK: nano.reduce max %{{.*}} dims [3]
// CHECK: nano.reduce max %{{.*}} dims [1] : tensor<3x128x1xf32> -> tensor<3x1xf32>
// CHECK: nano.quantize %{{.*}} : tensor<384x128xf32>, tensor<3x1xf32> -> tensor<384x128xf8E4M3FN>
// Forward: the input's rows.
// CHECK: nano.reshape %[[X]] : tensor<256x128xbf16> -> tensor<256x1x128xbf16>
// CHECK: nano.quantize %[[X]], %{{.*}} : tensor<256x128xbf16>, tensor<256x1xf32> -> tensor<256x128xf8E4M3FN>
// CHECK: nano.scaled_matmul {{.*}}transpose_b} : (tensor<256x128xf8E4M3FN>, tensor<384x128xf8E4M3FN>, tensor<256x1xf32>, tensor<3x1xf32>)
// Gradient of the weight: columns, along the tokens.
// CHECK: nano.quantize %{{.*}} : tensor<256x384xf32>, tensor<2x384xf32> -> tensor<256x384xf8E4M3FN>
// CHECK: nano.quantize %[[X]], %{{.*}} : tensor<256x128xbf16>, tensor<2x128xf32> -> tensor<256x128xf8E4M3FN>
// CHECK: nano.scaled_matmul {{.*}}transpose_a} : (tensor<256x384xf8E4M3FN>, tensor<256x128xf8E4M3FN>, tensor<2x384xf32>, tensor<2x128xf32>)
// Gradient of the input: the gradient's rows.
// CHECK: nano.quantize %{{.*}} : tensor<256x384xf32>, tensor<256x3xf32> -> tensor<256x384xf8E4M3FN>
// CHECK: nano.scaled_matmul {{.*}} : (tensor<256x384xf8E4M3FN>, tensor<384x128xf8E4M3FN>, tensor<256x3xf32>, tensor<3x1xf32>)

// Scales are transposed with what they scale; those of weights are kept in rows of a multiple of 4. The module says that they lie as GPUs read them.
// KMAJOR: nano.model {{.*}}gpu_scales
// KMAJOR-LABEL: nano.program @first(
// KMAJOR: %[[SW:.*]] = nano.select {{.*}} : tensor<3x1xf32>
// KMAJOR: %[[COLUMN:.*]] = nano.reshape %[[SW]] : tensor<3x1xf32> -> tensor<3xf32>
// KMAJOR: %[[KEPT:.*]] = nano.broadcast %[[COLUMN]] dims [0] : tensor<3xf32> -> tensor<3x4xf32>
// KMAJOR: nano.store %[[KEPT]], @fp8.w.scale : tensor<3x4xf32>
// KMAJOR: %[[PART:.*]] = nano.slice %[[KEPT]] dim 1 at 0 : tensor<3x4xf32> -> tensor<3x1xf32>
// KMAJOR: %[[TURNED:.*]] = nano.transpose %[[PART]] : tensor<3x1xf32> -> tensor<1x3xf32>
// KMAJOR: nano.store %{{.*}}, @fp8.w.t : tensor<128x384xf8E4M3FN>
// KMAJOR: %[[ZEROS:.*]] = nano.constant 0.000000e+00 : tensor<1x1xf32>
// KMAJOR: %[[WHOLE:.*]] = nano.concat %[[TURNED]], %[[ZEROS]] dim 1 : (tensor<1x3xf32>, tensor<1x1xf32>) -> tensor<1x4xf32>
// KMAJOR: nano.store %[[WHOLE]], @fp8.w.scale.t : tensor<1x4xf32>
// KMAJOR: nano.scaled_matmul {{.*}}transpose_b} : (tensor<384x256xf8E4M3FN>, tensor<128x256xf8E4M3FN>, tensor<384x2xf32>, tensor<128x2xf32>)
// KMAJOR: nano.scaled_matmul {{.*}}transpose_b} : (tensor<256x384xf8E4M3FN>, tensor<128x384xf8E4M3FN>, tensor<256x3xf32>, tensor<1x3xf32>)
// KMAJOR-LABEL: nano.program @next(
// KMAJOR: %[[LOADED:.*]] = nano.load @fp8.w.scale : tensor<3x4xf32>
// KMAJOR: %[[PART:.*]] = nano.slice %[[LOADED]] dim 1 at 0 : tensor<3x4xf32> -> tensor<3x1xf32>
// KMAJOR: nano.scaled_matmul {{.*}} scales(%{{.*}}, %[[PART]]) {{.*}}transpose_b} : (tensor<256x128xf8E4M3FN>, tensor<384x128xf8E4M3FN>, tensor<256x1xf32>, tensor<3x1xf32>)

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<384x128xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "block"}}
nano.state @grad.w : tensor<384x128xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @first(%x: tensor<256x128xbf16>, %h: tensor<256x384xf32>) -> tensor<256x128xbf16> attributes {role = "first"} {
  %w = nano.load @w : tensor<384x128xf32>
  %wc = nano.cast %w : tensor<384x128xf32> -> tensor<384x128xbf16>
  %z = nano.matmul %x, %wc {transpose_b} : (tensor<256x128xbf16>, tensor<384x128xbf16>) -> tensor<256x384xbf16>
  %s = nano.cast %z : tensor<256x384xbf16> -> tensor<256x384xf32>
  %p = nano.mul %s, %h : tensor<256x384xf32>
  %g = nano.cast %p : tensor<256x384xf32> -> tensor<256x384xbf16>
  %dw = nano.matmul %g, %x {transpose_a} : (tensor<256x384xbf16>, tensor<256x128xbf16>) -> tensor<384x128xf32>
  nano.store %dw, @grad.w : tensor<384x128xf32>
  %dx = nano.matmul %g, %wc : (tensor<256x384xbf16>, tensor<384x128xbf16>) -> tensor<256x128xbf16>
  nano.return %dx : tensor<256x128xbf16>
}
nano.program @next(%x: tensor<256x128xbf16>, %h: tensor<256x384xf32>) -> tensor<256x128xbf16> attributes {role = "next"} {
  %w = nano.load @w : tensor<384x128xf32>
  %wc = nano.cast %w : tensor<384x128xf32> -> tensor<384x128xbf16>
  %z = nano.matmul %x, %wc {transpose_b} : (tensor<256x128xbf16>, tensor<384x128xbf16>) -> tensor<256x384xbf16>
  %s = nano.cast %z : tensor<256x384xbf16> -> tensor<256x384xf32>
  %p = nano.mul %s, %h : tensor<256x384xf32>
  %g = nano.cast %p : tensor<256x384xf32> -> tensor<256x384xbf16>
  %dw = nano.matmul %g, %x {transpose_a} : (tensor<256x384xbf16>, tensor<256x128xbf16>) -> tensor<384x128xf32>
  %old = nano.load @grad.w : tensor<384x128xf32>
  %sum = nano.add %old, %dw : tensor<384x128xf32>
  nano.store %sum, @grad.w : tensor<384x128xf32>
  %dx = nano.matmul %g, %wc : (tensor<256x384xbf16>, tensor<384x128xbf16>) -> tensor<256x128xbf16>
  nano.return %dx : tensor<256x128xbf16>
}
nano.program @update() attributes {role = "update"} {
  nano.return
}
