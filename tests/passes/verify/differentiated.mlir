// RUN: nano-opt %s -nano-verify-differentiated -split-input-file -verify-diagnostics

// Right.
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<8xbf16> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
nano.state @grad.w : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @train(%x: tensor<8xf32>) attributes {role = "train"} {
  nano.accumulate %x, @grad.w : tensor<8xf32>
  nano.return
}

// -----

// expected-error @below {{no function has the role 'train'}}
module {}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
// expected-error @below {{parameter 'w' gets no gradient: nothing is accumulated into @grad.w}}
nano.state @w : tensor<8xbf16> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
nano.state @grad.w : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @train(%x: tensor<8xf32>) attributes {role = "train"} {
  nano.return
}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<8xbf16> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
// expected-error @below {{must have role gradient, element type 'f32' and the shape of parameter 'w'}}
nano.state @grad.w : tensor<4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @train(%x: tensor<4xf32>) attributes {role = "train"} {
  nano.accumulate %x, @grad.w : tensor<4xf32>
  nano.return
}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<8xbf16> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
nano.state @grad.w : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @train(%x: tensor<8xf32>) attributes {role = "train"} {
  // expected-note @below {{the first is here}}
  nano.accumulate %x, @grad.w : tensor<8xf32>
  // expected-error @below {{is the second into @grad.w}}
  nano.accumulate %x, @grad.w : tensor<8xf32>
  nano.return
}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<8xbf16> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
nano.state @grad.w : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @other : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @train(%x: tensor<8xf32>) attributes {role = "train"} {
  nano.accumulate %x, @grad.w : tensor<8xf32>
  // expected-error @below {{into @other, which is no trained parameter's gradient}}
  nano.accumulate %x, @other : tensor<8xf32>
  nano.return
}

// -----

// Of indices that nothing was made of, kernels would read and write beside the table.
nano.program @train(%tokens: tensor<8xi32>, %x: tensor<8x4xf32>) -> tensor<8x4xf32> attributes {role = "train"} {
  %zero = nano.constant 0.0 : tensor<8xi32>
  %last = nano.constant 15.0 : tensor<8xi32>
  %least = nano.max %tokens, %zero : tensor<8xi32>
  %inside = nano.min %least, %last : tensor<8xi32>
  %y = nano.scatter_add %x, %inside : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<16x4xf32>
  // expected-error @below {{its indices, any number, are not proven to lie in its 16 rows: nano-check-indices runs first}}
  %z = nano.gather %y, %tokens : (tensor<16x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
  nano.return %z : tensor<8x4xf32>
}
