// Weights that multiply one tensor: where their policies scale it alike, it is converted once, with the scale of the first of them, forward and, though the
// backward pass makes it anew for each weight, for their gradients. The weights themselves have one scale too, of the largest of all, and so have their
// gradients. A policy with another margin has scales of its own.
// RUN: nano-opt %s --nano-scale-products=k-major | FileCheck %s

// CHECK-LABEL: nano.program @first(
// CHECK-SAME: %[[X:.*]]: tensor<64x16xbf16>, %[[GQ:.*]]: tensor<64x32xf32>, %[[GK:.*]]: tensor<64x32xf32>)
// CHECK: %[[MQ:.*]] = nano.reduce max %{{.*}} dims [0] : tensor<32xf32>
// CHECK: %[[MK:.*]] = nano.reduce max %{{.*}} dims [0] : tensor<32xf32>
// CHECK: %[[BOTH:.*]] = nano.max %[[MQ]], %[[MK]]
// CHECK: nano.mul %[[BOTH]],
// CHECK: %[[SW:.*]] = nano.select gt
// CHECK: nano.store %[[SW]], @fp8.q.scale
// CHECK: nano.quantize %{{.*}}, %[[SW]]
// CHECK: nano.quantize %{{.*}}, %[[SW]]
// CHECK-NOT: @fp8.k.scale
// CHECK: nano.store %{{.*}}, @fp8.m.scale
// CHECK: %[[H:.*]] = nano.neg %[[X]]
// CHECK: %[[SX:.*]] = nano.load @q.fp8_scale_x
// CHECK: %[[HQ:.*]] = nano.quantize %[[H]], %[[SX]]
// CHECK: nano.scaled_matmul %[[HQ]], %{{[^ ]*}} scales(%[[SX]],
// CHECK-NOT: nano.quantize %[[H]]
// CHECK: nano.scaled_matmul %[[HQ]], %{{[^ ]*}} scales(%[[SX]],
// CHECK: %[[SM:.*]] = nano.load @m.fp8_scale_x
// CHECK: %[[HM:.*]] = nano.quantize %[[H]], %[[SM]]
// CHECK: nano.scaled_matmul %[[HM]], %{{[^ ]*}} scales(%[[SM]],

// CHECK: %[[AGAIN:.*]] = nano.neg %[[X]]
// CHECK: %[[SG:.*]] = nano.load @q.fp8_scale_g
// CHECK: nano.quantize %[[GQ]], %[[SG]]
// CHECK: %[[AQ:.*]] = nano.quantize %[[AGAIN]], %[[SX]]
// CHECK: %[[AT:.*]] = nano.transpose %[[AQ]]
// CHECK: nano.scaled_matmul %{{.*}}, %[[AT]] scales({{.*}}, %[[SX]])
// CHECK-NOT: nano.quantize {{.*}} f8E4M3FN
// CHECK: nano.quantize %[[GK]], %[[SG]]
// CHECK-NOT: nano.quantize {{.*}} f8E4M3FN
// CHECK: nano.scaled_matmul %{{.*}}, %[[AT]] scales({{.*}}, %[[SX]])

// Each weight's history is kept nevertheless.
// CHECK: nano.store %[[MAX:.*]], @fp8.q.amax_x
// CHECK: nano.store %{{.*}}, @fp8.k.amax_x
// CHECK-LABEL: nano.program @update
// CHECK: %[[HQ:.*]] = nano.load @fp8.q.amax_g
// CHECK: %[[AQ:.*]] = nano.all_reduce %[[HQ]] by max
// CHECK: %[[HK:.*]] = nano.load @fp8.k.amax_g
// CHECK: %[[AK:.*]] = nano.all_reduce %[[HK]] by max
// CHECK: %[[AG:.*]] = nano.max %[[AQ]], %[[AK]]
// CHECK: nano.broadcast %[[AG]]
// CHECK: nano.store %{{.*}}, @q.fp8_scale_g
// CHECK: nano.broadcast %[[AG]]
// CHECK: nano.store %{{.*}}, @k.fp8_scale_g

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @q : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "delayed", history = 4 : i64, margin = 0.0 : f64}}
nano.state @k : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "delayed", history = 4 : i64, margin = 0.0 : f64}}
nano.state @m : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "delayed", history = 4 : i64, margin = 1.0 : f64}}
nano.state @grad.q : tensor<32x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.k : tensor<32x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @first(%x: tensor<64x16xbf16>, %gq: tensor<64x32xf32>, %gk: tensor<64x32xf32>)
    -> (tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x32xbf16>) attributes {role = "first"} {
  %q = nano.load @q : tensor<32x16xf32>
  %qc = nano.cast %q : tensor<32x16xf32> -> tensor<32x16xbf16>
  %k = nano.load @k : tensor<32x16xf32>
  %kc = nano.cast %k : tensor<32x16xf32> -> tensor<32x16xbf16>
  %m = nano.load @m : tensor<32x16xf32>
  %mc = nano.cast %m : tensor<32x16xf32> -> tensor<32x16xbf16>
  %h = nano.neg %x : tensor<64x16xbf16>
  %yq = nano.matmul %h, %qc {transpose_b} : (tensor<64x16xbf16>, tensor<32x16xbf16>) -> tensor<64x32xbf16>
  %yk = nano.matmul %h, %kc {transpose_b} : (tensor<64x16xbf16>, tensor<32x16xbf16>) -> tensor<64x32xbf16>
  %ym = nano.matmul %h, %mc {transpose_b} : (tensor<64x16xbf16>, tensor<32x16xbf16>) -> tensor<64x32xbf16>
  %hq = nano.neg %x : tensor<64x16xbf16>
  %dyq = nano.cast %gq : tensor<64x32xf32> -> tensor<64x32xbf16>
  %dq = nano.matmul %dyq, %hq {transpose_a} : (tensor<64x32xbf16>, tensor<64x16xbf16>) -> tensor<32x16xf32>
  nano.store %dq, @grad.q : tensor<32x16xf32>
  %hk = nano.neg %x : tensor<64x16xbf16>
  %dyk = nano.cast %gk : tensor<64x32xf32> -> tensor<64x32xbf16>
  %dk = nano.matmul %dyk, %hk {transpose_a} : (tensor<64x32xbf16>, tensor<64x16xbf16>) -> tensor<32x16xf32>
  nano.store %dk, @grad.k : tensor<32x16xf32>
  nano.return %yq, %yk, %ym : tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x32xbf16>
}
nano.program @next() attributes {role = "next"} {
  nano.return
}
