// What 8-bit operands do not allow stays as it is, and is named.
// RUN: nano-opt %s --split-input-file --nano-scale-products --verify-diagnostics | FileCheck %s

// The inner dimension of one product is a row of another's result.
// CHECK-LABEL: nano.program @first(
// CHECK: nano.matmul {{.*}}transpose_b}
// CHECK: nano.scaled_matmul {{.*}}transpose_a}
// CHECK: nano.matmul
// CHECK-LABEL: nano.program @next(
// CHECK: nano.matmul {{.*}}transpose_b}
// CHECK: nano.scaled_matmul {{.*}}transpose_a}
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<40x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "static", scales = array<f64: 0.5, 0.25, 0.125>}}
nano.state @grad.w : tensor<40x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @first(%x: tensor<64x16xbf16>, %h: tensor<64x40xf32>) -> tensor<64x16xbf16> attributes {role = "first"} {
  %w = nano.load @w : tensor<40x16xf32>
  %wc = nano.cast %w : tensor<40x16xf32> -> tensor<40x16xbf16>
  // expected-remark@+1 {{'w': the forward product stays in 'bf16': its result's row of 40 is not a multiple of 16}}
  %z = nano.matmul %x, %wc {transpose_b} : (tensor<64x16xbf16>, tensor<40x16xbf16>) -> tensor<64x40xbf16>
  %s = nano.cast %z : tensor<64x40xbf16> -> tensor<64x40xf32>
  %p = nano.mul %s, %h : tensor<64x40xf32>
  %g = nano.cast %p : tensor<64x40xf32> -> tensor<64x40xbf16>
  %dw = nano.matmul %g, %x {transpose_a} : (tensor<64x40xbf16>, tensor<64x16xbf16>) -> tensor<40x16xf32>
  nano.store %dw, @grad.w : tensor<40x16xf32>
  // expected-remark@+1 {{'w': the gradient of the input stays in 'bf16': its inner dimension of 40 is not a multiple of 16}}
  %dx = nano.matmul %g, %wc : (tensor<64x40xbf16>, tensor<40x16xbf16>) -> tensor<64x16xbf16>
  nano.return %dx : tensor<64x16xbf16>
}
nano.program @next(%x: tensor<64x16xbf16>, %h: tensor<64x40xf32>) -> tensor<64x16xbf16> attributes {role = "next"} {
  %w = nano.load @w : tensor<40x16xf32>
  %wc = nano.cast %w : tensor<40x16xf32> -> tensor<40x16xbf16>
  %z = nano.matmul %x, %wc {transpose_b} : (tensor<64x16xbf16>, tensor<40x16xbf16>) -> tensor<64x40xbf16>
  %s = nano.cast %z : tensor<64x40xbf16> -> tensor<64x40xf32>
  %p = nano.mul %s, %h : tensor<64x40xf32>
  %g = nano.cast %p : tensor<64x40xf32> -> tensor<64x40xbf16>
  %dw = nano.matmul %g, %x {transpose_a} : (tensor<64x40xbf16>, tensor<64x16xbf16>) -> tensor<40x16xf32>
  %old = nano.load @grad.w : tensor<40x16xf32>
  %sum = nano.add %old, %dw : tensor<40x16xf32>
  nano.store %sum, @grad.w : tensor<40x16xf32>
  %dx = nano.matmul %g, %wc : (tensor<64x40xbf16>, tensor<40x16xbf16>) -> tensor<64x16xbf16>
  nano.return %dx : tensor<64x16xbf16>
}
nano.program @update() attributes {role = "update"} {
  nano.return
}

// -----

// Blocks must be whole.
// CHECK-LABEL: nano.program @first(
// CHECK: nano.matmul {{.*}}transpose_b}
// CHECK: nano.scaled_matmul {{.*}}transpose_a}
// CHECK: nano.matmul
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<192x128xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "block"}}
nano.state @grad.w : tensor<192x128xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @first(%x: tensor<256x128xbf16>, %h: tensor<256x192xf32>) -> tensor<256x128xbf16> attributes {role = "first"} {
  %w = nano.load @w : tensor<192x128xf32>
  %wc = nano.cast %w : tensor<192x128xf32> -> tensor<192x128xbf16>
  // expected-remark@+1 {{'w': the forward product stays in 'bf16': its result's row of 192 is not a multiple of 128}}
  %z = nano.matmul %x, %wc {transpose_b} : (tensor<256x128xbf16>, tensor<192x128xbf16>) -> tensor<256x192xbf16>
  %s = nano.cast %z : tensor<256x192xbf16> -> tensor<256x192xf32>
  %p = nano.mul %s, %h : tensor<256x192xf32>
  %g = nano.cast %p : tensor<256x192xf32> -> tensor<256x192xbf16>
  %dw = nano.matmul %g, %x {transpose_a} : (tensor<256x192xbf16>, tensor<256x128xbf16>) -> tensor<192x128xf32>
  nano.store %dw, @grad.w : tensor<192x128xf32>
  // expected-remark@+1 {{'w': the gradient of the input stays in 'bf16': its inner dimension of 192 is not a multiple of 128}}
  %dx = nano.matmul %g, %wc : (tensor<256x192xbf16>, tensor<192x128xbf16>) -> tensor<256x128xbf16>
  nano.return %dx : tensor<256x128xbf16>
}
nano.program @next(%x: tensor<256x128xbf16>, %h: tensor<256x192xf32>) -> tensor<256x128xbf16> attributes {role = "next"} {
  %w = nano.load @w : tensor<192x128xf32>
  %wc = nano.cast %w : tensor<192x128xf32> -> tensor<192x128xbf16>
  %z = nano.matmul %x, %wc {transpose_b} : (tensor<256x128xbf16>, tensor<192x128xbf16>) -> tensor<256x192xbf16>
  %s = nano.cast %z : tensor<256x192xbf16> -> tensor<256x192xf32>
  %p = nano.mul %s, %h : tensor<256x192xf32>
  %g = nano.cast %p : tensor<256x192xf32> -> tensor<256x192xbf16>
  %dw = nano.matmul %g, %x {transpose_a} : (tensor<256x192xbf16>, tensor<256x128xbf16>) -> tensor<192x128xf32>
  %old = nano.load @grad.w : tensor<192x128xf32>
  %sum = nano.add %old, %dw : tensor<192x128xf32>
  nano.store %sum, @grad.w : tensor<192x128xf32>
  %dx = nano.matmul %g, %wc : (tensor<256x192xbf16>, tensor<192x128xbf16>) -> tensor<256x128xbf16>
  nano.return %dx : tensor<256x128xbf16>
}
nano.program @update() attributes {role = "update"} {
  nano.return
}

// -----

// CHECK-LABEL: nano.program @first()
// CHECK-NOT: scaled_matmul
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
// expected-remark@+1 {{'w': no product reads it whole, so that nothing of it runs in FP8}}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "static", scales = array<f64: 0.5, 0.25, 0.125>}}
nano.state @grad.w : tensor<32x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @first() attributes {role = "first"} {
  nano.return
}
nano.program @next() attributes {role = "next"} {
  nano.return
}
nano.program @update() attributes {role = "update"} {
  nano.return
}
