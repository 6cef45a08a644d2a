// RUN: nano-opt %s --split-input-file --nano-scale-products --verify-diagnostics

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
// expected-error@+1 {{fp8 must name a recipe: one of off, static, current, delayed, block}}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "fast"}}
nano.state @grad.w : tensor<32x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
// expected-error@+1 {{attribute 'fp8' failed to satisfy constraint: dictionary of named attribute values}}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = "current"}
nano.state @grad.w : tensor<32x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
// expected-error@+1 {{fp8: static scaling needs three positive scales, of input, weight and gradient, or 0 for what is not converted}}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "static"}}
nano.state @grad.w : tensor<32x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
// expected-error@+1 {{fp8: static scaling needs three positive scales, of input, weight and gradient, or 0 for what is not converted}}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "static", scales = array<f64: 1.0, -1.0, 1.0>}}
nano.state @grad.w : tensor<32x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
// expected-error@+1 {{fp8: a history of 0 steps}}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "delayed", history = 0 : i64}}
nano.state @grad.w : tensor<32x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
// expected-error@+1 {{a margin of 1.000000e+02; at least 1, and at most 64 either way}}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "current", margin = 100.0 : f64}}
nano.state @grad.w : tensor<32x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// -----

// expected-error@-2 {{products are scaled in the programs first and next: nano-split-accumulation runs before}}
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "static", scales = array<f64: 0.5, 0.25, 0.125>}}
nano.state @grad.w : tensor<32x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
// expected-error@+1 {{the name @fp8.w is taken: FP8 scaling needs it}}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "static", scales = array<f64: 0.5, 0.25, 0.125>}}
nano.state @grad.w : tensor<32x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
// expected-note@+1 {{taken here}}
nano.state @fp8.w : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
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

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
// expected-error@+1 {{the name @w.fp8_scale_g is taken: FP8 scaling needs it}}
nano.state @w : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all,
  fp8 = {recipe = "static", scales = array<f64: 0.5, 0.25, 0.125>}}
nano.state @grad.w : tensor<32x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
// expected-note@+1 {{taken here}}
nano.state @w.fp8_scale_g : tensor<f32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
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
