// Scales of blocks for GPUs: products of a multiple of 8 rows, others stay as they are.
// RUN: nano-opt %s --nano-scale-products=k-major --verify-diagnostics | FileCheck %s
// RUN: nano-opt %s --nano-scale-products | FileCheck %s --check-prefix=CPU

// CHECK-LABEL: nano.program @first(
// CHECK: nano.matmul {{.*}}transpose_b}
// CHECK: nano.matmul {{.*}}transpose_a}
// CHECK: nano.matmul
// CHECK-NOT: nano.scaled_matmul
// CPU-LABEL: nano.program @first(
// CPU: nano.scaled_matmul {{.*}}transpose_b} : (tensor<132x128xf8E4M3FN>
// CPU: nano.matmul {{.*}}transpose_a}
// CPU: nano.scaled_matmul {{.*}} : (tensor<132x384xf8E4M3FN>
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<384x128xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "block"}}
nano.state @grad.w : tensor<384x128xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @first(%x: tensor<132x128xbf16>, %h: tensor<132x384xf32>) -> tensor<132x128xbf16> attributes {role = "first"} {
  %w = nano.load @w : tensor<384x128xf32>
  %wc = nano.cast %w : tensor<384x128xf32> -> tensor<384x128xbf16>
  // expected-remark@+1 {{'w': the forward product stays in 'bf16': its result's column of 132 is not a multiple of 8}}
  %z = nano.matmul %x, %wc {transpose_b} : (tensor<132x128xbf16>, tensor<384x128xbf16>) -> tensor<132x384xbf16>
  %s = nano.cast %z : tensor<132x384xbf16> -> tensor<132x384xf32>
  %p = nano.mul %s, %h : tensor<132x384xf32>
  %g = nano.cast %p : tensor<132x384xf32> -> tensor<132x384xbf16>
  // expected-remark@+1 {{'w': the gradient of the weight stays in 'bf16': its inner dimension of 132 is not a multiple of 128}}
  %dw = nano.matmul %g, %x {transpose_a} : (tensor<132x384xbf16>, tensor<132x128xbf16>) -> tensor<384x128xf32>
  nano.store %dw, @grad.w : tensor<384x128xf32>
  // expected-remark@+1 {{'w': the gradient of the input stays in 'bf16': its result's column of 132 is not a multiple of 8}}
  %dx = nano.matmul %g, %wc : (tensor<132x384xbf16>, tensor<384x128xbf16>) -> tensor<132x128xbf16>
  nano.return %dx : tensor<132x128xbf16>
}
nano.program @next() attributes {role = "next"} {
  nano.return
}
nano.program @update() attributes {role = "update"} {
  nano.return
}
