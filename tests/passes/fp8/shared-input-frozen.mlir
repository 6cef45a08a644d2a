// Weights that multiply one tensor, the first of which has no gradient, as it is frozen and what it multiplies is a number of the data: its products have no scale of a gradient that others could take.
// The two behind it, one of another length, have one scale of gradients and one of weights; it has its own.
// RUN: nano-opt %s --nano-scale-products=k-major | FileCheck %s

// CHECK-NOT: @f.fp8_scale_g
// CHECK: nano.state @q.fp8_scale_g
// CHECK-NOT: @f.fp8_scale_g
// CHECK-LABEL: nano.program @first(
// CHECK-SAME: %{{[^ ]*}}: tensor<64x16xbf16>, %[[GQ:.*]]: tensor<64x32xf32>, %[[GK:.*]]: tensor<64x48xf32>)
// CHECK: nano.store %{{.*}}, @fp8.f.scale
// CHECK: nano.store %[[SW:.*]], @fp8.q.scale
// CHECK-NOT: @fp8.k.scale
// CHECK: nano.load @f.fp8_scale_x
// CHECK-NOT: @q.fp8_scale_x
// CHECK: %[[SG:.*]] = nano.load @q.fp8_scale_g
// CHECK: nano.quantize %[[GQ]], %[[SG]]
// CHECK: nano.quantize %[[GK]], %[[SG]]
// CHECK: nano.return

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @f : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>,
  fp8 = {recipe = "delayed", history = 4 : i64, margin = 0.0 : f64}}
nano.state @q : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "delayed", history = 4 : i64, margin = 0.0 : f64}}
nano.state @k : tensor<48x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "delayed", history = 4 : i64, margin = 0.0 : f64}}
nano.state @grad.q : tensor<32x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.k : tensor<48x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @first(%x: tensor<64x16xbf16>, %gq: tensor<64x32xf32>, %gk: tensor<64x48xf32>)
    -> (tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x48xbf16>) attributes {role = "first"} {
  %f = nano.load @f : tensor<32x16xf32>
  %fc = nano.cast %f : tensor<32x16xf32> -> tensor<32x16xbf16>
  %yf = nano.matmul %x, %fc {transpose_b} : (tensor<64x16xbf16>, tensor<32x16xbf16>) -> tensor<64x32xbf16>
  %q = nano.load @q : tensor<32x16xf32>
  %qc = nano.cast %q : tensor<32x16xf32> -> tensor<32x16xbf16>
  %yq = nano.matmul %x, %qc {transpose_b} : (tensor<64x16xbf16>, tensor<32x16xbf16>) -> tensor<64x32xbf16>
  %k = nano.load @k : tensor<48x16xf32>
  %kc = nano.cast %k : tensor<48x16xf32> -> tensor<48x16xbf16>
  %yk = nano.matmul %x, %kc {transpose_b} : (tensor<64x16xbf16>, tensor<48x16xbf16>) -> tensor<64x48xbf16>
  %dyq = nano.cast %gq : tensor<64x32xf32> -> tensor<64x32xbf16>
  %dq = nano.matmul %dyq, %x {transpose_a} : (tensor<64x32xbf16>, tensor<64x16xbf16>) -> tensor<32x16xf32>
  nano.store %dq, @grad.q : tensor<32x16xf32>
  %dyk = nano.cast %gk : tensor<64x48xf32> -> tensor<64x48xbf16>
  %dk = nano.matmul %dyk, %x {transpose_a} : (tensor<64x48xbf16>, tensor<64x16xbf16>) -> tensor<48x16xf32>
  nano.store %dk, @grad.k : tensor<48x16xf32>
  nano.return %yf, %yq, %yk : tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x48xbf16>
}
nano.program @next() attributes {role = "next"} {
  nano.return
}
