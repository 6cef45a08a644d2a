// RUN: nano-opt %s -split-input-file -verify-diagnostics --nano-expand-optimizers

// expected-error @below {{the model has no parameters: declare them with param(...)}}
module {
  nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.adam @all lr @lr {beta1 = 0.8, beta2 = 0.95, eps = 1.0e-10, weight_decay = 0.0}
// expected-error @below {{has no gradient: nano-differentiate comes first}}
nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @all}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.muon @all lr @lr momentum @lr {steps = 5, coefficients = array<f64: 1.0, 2.0, 3.0>, compute_type = f32}
// expected-error @below {{Muon updates matrices; the parameter has 1 dimensions: give it an Adam optimizer}}
nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @all}
nano.state @grad.w : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// -----

// expected-error @below {{grad_clip must not be negative, is -1}}
module attributes {nano.training = {grad_clip = -1.0 : f64}} {
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.adam @all lr @lr {beta1 = 0.8, beta2 = 0.95, eps = 1.0e-10, weight_decay = 0.0}
  nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @all}
  nano.state @grad.w : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
}

// -----

// expected-error @below {{the name @grad_scale is taken: the optimizer needs it}}
module {
  // expected-note @below {{taken here}}
  nano.scalar @grad_scale : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.adam @all lr @grad_scale {beta1 = 0.8, beta2 = 0.95, eps = 1.0e-10, weight_decay = 0.0}
  nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @all}
  nano.state @grad.w : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
}

// -----

// expected-note @below {{taken here}}
nano.scalar @all.bias2 : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
// expected-error @below {{the name @all.bias2 is taken: the optimizer needs it}}
nano.adam @all lr @all.bias2 {beta1 = 0.8, beta2 = 0.95, eps = 1.0e-10, weight_decay = 0.0}
nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @all}
nano.state @grad.w : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.adam @all lr @lr {beta1 = 0.8, beta2 = 0.95, eps = 1.0e-10, weight_decay = 0.0}
// expected-error @below {{the name @w.adam_m is taken: the optimizer needs it}}
nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @all}
nano.state @grad.w : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
// expected-note @below {{taken here}}
nano.state @w.adam_m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}

// -----

// The update of phase 1 alone cannot end a program of both phases.
module attributes {nano.training = {adam_every = 2 : i64, join_update = true}} {
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.adam @all lr @lr {beta1 = 0.8, beta2 = 0.95, eps = 1.0e-10, weight_decay = 0.0}
  nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @all}
  nano.state @grad.w : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  // expected-error @below {{ends with @update}}
  func.func @last(%g: tensor<2xf32>) attributes {nano.role = "last"} {
    nano.store %g, @grad.w : tensor<2xf32>
    return
  }
}
