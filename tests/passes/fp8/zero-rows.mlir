// Weights with rows of zeros behind them, as nano-align-products leaves a head: their gradients are a slice; with one
// scale the rows are added in 8 bits, with scales by block before they are converted, as a block may reach into them.
// RUN: nano-opt %s --nano-scale-products=k-major | FileCheck %s
// RUN: nano-opt %s --nano-scale-products=k-major --nano-measure-products | FileCheck %s --check-prefix=MEASURE

// CHECK-LABEL: nano.program @first(
// CHECK: %[[Q:.*]] = nano.quantize {{.*}} : tensor<30x128xf32>, tensor<f32> -> tensor<30x128xf8E4M3FN>
// CHECK: %[[Z:.*]] = nano.quantize {{.*}} : tensor<2x128xf32>, tensor<f32> -> tensor<2x128xf8E4M3FN>
// CHECK: %[[W:.*]] = nano.concat %[[Q]], %[[Z]] dim 0
// CHECK: nano.store %[[W]], @fp8.w
// CHECK: nano.concat {{.*}} dim 0 : (tensor<100x128xf32>, tensor<28x128xf32>) -> tensor<128x128xf32>
// CHECK: nano.quantize {{.*}} : tensor<128x128xf32>, tensor<1x1xf32> -> tensor<128x128xf8E4M3FN>
// CHECK-COUNT-5: nano.scaled_matmul
// CHECK-NOT: nano.matmul
// CHECK: nano.return

// The products that the report holds them against have these rows too.
// MEASURE-LABEL: nano.program @measure(
// MEASURE: nano.concat {{.*}} dim 0 : (tensor<30x128xf32>, tensor<2x128xf32>) -> tensor<32x128xf32>
// MEASURE: nano.matmul {{.*}} -> tensor<128x32xf32>

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<30x128xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all, fp8 = {recipe = "current", history = 16 : i64, margin = 0.0 : f64}}
nano.state @b : tensor<100x128xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all, fp8 = {recipe = "block"}}
nano.state @grad.w : tensor<30x128xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.b : tensor<100x128xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

nano.program @first(%x: tensor<128x128xf32>, %g: tensor<128x32xf32>, %h: tensor<128x128xf32>) -> (tensor<128x32xf32>, tensor<128x128xf32>, tensor<128x128xf32>)
    attributes {role = "first"} {
  %v = nano.load @w : tensor<30x128xf32>
  %z = nano.constant 0.000000e+00 : tensor<2x128xf32>
  %w = nano.concat %v, %z dim 0 : (tensor<30x128xf32>, tensor<2x128xf32>) -> tensor<32x128xf32>
  %y = nano.matmul %x, %w {transpose_b} : (tensor<128x128xf32>, tensor<32x128xf32>) -> tensor<128x32xf32>
  %c = nano.load @b : tensor<100x128xf32>
  %o = nano.constant 0.000000e+00 : tensor<28x128xf32>
  %b = nano.concat %c, %o dim 0 : (tensor<100x128xf32>, tensor<28x128xf32>) -> tensor<128x128xf32>
  %u = nano.matmul %x, %b {transpose_b} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %dw = nano.matmul %g, %x {transpose_a} : (tensor<128x32xf32>, tensor<128x128xf32>) -> tensor<32x128xf32>
  %dws = nano.slice %dw dim 0 at 0 : tensor<32x128xf32> -> tensor<30x128xf32>
  nano.store %dws, @grad.w : tensor<30x128xf32>
  %db = nano.matmul %h, %x {transpose_a} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %dbs = nano.slice %db dim 0 at 0 : tensor<128x128xf32> -> tensor<100x128xf32>
  nano.store %dbs, @grad.b : tensor<100x128xf32>
  %dx = nano.matmul %h, %b : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  nano.return %y, %u, %dx : tensor<128x32xf32>, tensor<128x128xf32>, tensor<128x128xf32>
}
nano.program @next() attributes {role = "next"} {
  nano.return
}
nano.program @update() attributes {role = "update"} {
  nano.return
}
