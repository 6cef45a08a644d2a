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
nano.optimizer @all of "all" lr @lr {inits = array<f64: 0.0>, kind = "sgd", states = ["m"]} by {
^bb0(%p: tensor<2xf32>, %g: tensor<2xf32>, %m: tensor<2xf32>):
  %next = nano.sub %p, %g : tensor<2xf32>
  nano.yield %next, %g : tensor<2xf32>, tensor<2xf32>
}
// expected-error @below {{has no gradient: nano-differentiate comes first}}
nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @all}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @none of "none" lr @lr {inits = array<f64>, kind = "none", states = []}
// expected-error @below {{its optimizer @none has no equations}}
nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @none}
nano.state @grad.w : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// -----

// expected-error @below {{grad_clip must not be negative, is -1}}
module {
  nano.model "m" {training = {grad_clip = -1.0 : f64}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @all of "all" lr @lr {inits = array<f64: 0.0>, kind = "sgd", states = ["m"]} by {
  ^bb0(%p: tensor<2xf32>, %g: tensor<2xf32>, %m: tensor<2xf32>):
    %next = nano.sub %p, %g : tensor<2xf32>
    nano.yield %next, %g : tensor<2xf32>, tensor<2xf32>
  }
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
  nano.optimizer @all of "all" lr @grad_scale {inits = array<f64: 0.0>, kind = "sgd", states = ["m"]} by {
  ^bb0(%p: tensor<2xf32>, %g: tensor<2xf32>, %m: tensor<2xf32>):
    %next = nano.sub %p, %g : tensor<2xf32>
    nano.yield %next, %g : tensor<2xf32>, tensor<2xf32>
  }
  nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @all}
  nano.state @grad.w : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64: 0.0>, kind = "sgd", states = ["m"]} by {
^bb0(%p: tensor<2xf32>, %g: tensor<2xf32>, %m: tensor<2xf32>):
  %next = nano.sub %p, %g : tensor<2xf32>
  nano.yield %next, %g : tensor<2xf32>, tensor<2xf32>
}
// expected-error @below {{the name @w.m is taken: the optimizer needs it}}
nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @all}
nano.state @grad.w : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
// expected-note @below {{taken here}}
nano.state @w.m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [1.0]>}

// -----

// The update of phase 1 alone cannot end a program of both phases.
module {
  nano.model "m" {training = {join_update = true}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @all of "all" lr @lr {every = 2 : i64, inits = array<f64: 0.0>, kind = "sgd", states = ["m"]} by {
  ^bb0(%p: tensor<2xf32>, %g: tensor<2xf32>, %m: tensor<2xf32>):
    %next = nano.sub %p, %g : tensor<2xf32>
    nano.yield %next, %g : tensor<2xf32>, tensor<2xf32>
  }
  nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @all}
  nano.state @grad.w : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  // expected-error @below {{ends with @update}}
  nano.program @last(%g: tensor<2xf32>) attributes {role = "last"} {
    nano.store %g, @grad.w : tensor<2xf32>
    nano.return
  }
}
