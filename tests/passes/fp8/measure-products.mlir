// `measure`: the scaled products of `first` beside exact ones, and counts of what conversions did.
// RUN: nano-opt %s --nano-scale-products --nano-measure-products | FileCheck %s
// RUN: nano-opt %s --nano-scale-products=k-major --nano-measure-products | FileCheck %s --check-prefix=KMAJOR
// RUN: nano-opt %s --nano-measure-products | FileCheck %s --check-prefix=NOTHING

// CHECK: nano.model "" {fp8_products = [{converted = array<i1: true, true, true>, recipe = "static", weight = "w"}]}
// CHECK-LABEL: nano.program @measure(
// CHECK-SAME: %[[X:.*]]: tensor<64x16xbf16>, %{{.*}}: tensor<64x32xf32>) -> tensor<1x15xf32> attributes {role = "measure"}
// CHECK-NOT: nano.store
// CHECK: %[[XQ:.*]] = nano.quantize %[[X]], %[[SX:[^ ]*]]
// CHECK: %[[Z:.*]] = nano.scaled_matmul %[[XQ]], %{{.*}}
// CHECK: nano.cast %[[XQ]] : tensor<64x16xf8E4M3FN> -> tensor<64x16xf32>
// CHECK: nano.constant 4.480000e+02
// CHECK: nano.dequantize %[[XQ]], %[[SX]]
// CHECK: nano.select gt
// CHECK: nano.select eq
// CHECK: nano.select eq
// CHECK: nano.select ne
// The exact product has operands of the compute type, and the same result type.
// CHECK: nano.matmul %[[X]], %{{.*}} {transpose_b} : (tensor<64x16xbf16>, tensor<32x16xbf16>) -> tensor<64x32xbf16>
// CHECK: nano.sub
// CHECK: nano.sqrt
// CHECK: nano.constant 5.734400e+04
// CHECK: nano.matmul %{{.*}}, %[[X]] {transpose_a} : (tensor<64x32xbf16>, tensor<64x16xbf16>) -> tensor<32x16xf32>
// CHECK: nano.matmul %{{.*}} : (tensor<64x32xbf16>, tensor<32x16xbf16>) -> tensor<64x16xbf16>
// CHECK: %[[FLAT:.*]] = nano.concat
// CHECK-SAME: -> tensor<15xf32>
// CHECK: nano.reshape %[[FLAT]] : tensor<15xf32> -> tensor<1x15xf32>
// CHECK-NEXT: nano.return

// Operands that were transposed after conversion are read as they were before.
// KMAJOR-LABEL: nano.program @measure(
// KMAJOR-SAME: %[[X:.*]]: tensor<64x16xbf16>
// KMAJOR: nano.matmul %{{.*}}, %[[X]] {transpose_a} : (tensor<64x32xbf16>, tensor<64x16xbf16>) -> tensor<32x16xf32>

// NOTHING-NOT: measure

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
