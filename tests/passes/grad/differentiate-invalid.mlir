// RUN: nano-opt %s -nano-differentiate -split-input-file -verify-diagnostics

// expected-error@+1 {{no function of role "train" to differentiate}}
module {}

// -----

nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @adam of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @used : tensor<4xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
// expected-error@+1 {{parameter "never.used": the loss does not depend on it; use it in the training function or remove it}}
nano.state @never.used : tensor<4xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
// expected-error@+1 {{parameter "compared": the loss does not depend on it; use it in the training function or remove it}}
nano.state @compared : tensor<4xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
nano.program @train(%tokens: tensor<4xi32>, %targets: tensor<4xi32>) -> tensor<f32> attributes {role = "train"} {
  %w = nano.load @used : tensor<4xf32>
  %c = nano.load @compared : tensor<4xf32>
  %zero = nano.constant 0.0 : tensor<4xf32>
  %y = nano.select gt, %c, %zero, %w, %zero : tensor<4xf32>, tensor<4xf32>
  %loss = nano.reduce sum %y dims [0] : tensor<4xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}

// -----

// expected-error@+1 {{the training function must be one block that returns the loss, a tensor<f32>}}
nano.program @train(%tokens: tensor<4xi32>, %targets: tensor<4xi32>) -> tensor<4xf32> attributes {role = "train"} {
  %loss = nano.cast %tokens : tensor<4xi32> -> tensor<4xf32>
  nano.return %loss : tensor<4xf32>
}

// -----

// expected-error@+1 {{the training function has been differentiated already}}
nano.state @grad.w : tensor<4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @train(%tokens: tensor<4xi32>, %targets: tensor<4xi32>) -> tensor<f32> attributes {role = "train"} {
  %loss = nano.constant 0.0 : tensor<f32>
  nano.return %loss : tensor<f32>
}

// -----

nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @adam of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<f32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
nano.program @train(%tokens: tensor<4xi32>, %targets: tensor<4xi32>) -> tensor<f32> attributes {role = "train"} {
  %w = nano.load @w : tensor<f32>
  // expected-error@+1 {{the training function writes parameter @w; only its optimizer may}}
  nano.store %w, @w : tensor<f32>
  nano.return %w : tensor<f32>
}

// -----

nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @adam of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<f32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
nano.program @train(%tokens: tensor<4xi32>, %targets: tensor<4xi32>) -> tensor<f32> attributes {role = "train"} {
  %w = nano.load @w : tensor<f32>
  // expected-error@+1 {{no derivative of nano.all_reduce is known, and the loss depends on parameters through it}}
  %y = nano.all_reduce %w : tensor<f32>
  nano.return %y : tensor<f32>
}

// -----

nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @adam of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<f32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
nano.program @train(%tokens: tensor<4xi32>, %targets: tensor<4xi32>) -> tensor<f32> attributes {role = "train"} {
  %w = nano.load @w : tensor<f32>
  // expected-error@+1 {{no derivative flows through 'tensor<f8E4M3FN>'; cast what no parameter leads to, or ask for products in FP8 (fp8Products)}}
  %q = nano.cast %w : tensor<f32> -> tensor<f8E4M3FN>
  %y = nano.cast %q : tensor<f8E4M3FN> -> tensor<f32>
  nano.return %y : tensor<f32>
}

// -----

// expected-error@+1 {{the training function must be one block that returns the loss, a tensor<f32>}}
nano.program @train(%tokens: tensor<4xi32>, %targets: tensor<4xi32>) -> (tensor<f32>, tensor<f32>) attributes {role = "train"} {
  %loss = nano.constant 0.0 : tensor<f32>
  nano.return %loss, %loss : tensor<f32>, tensor<f32>
}

// -----

nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @adam of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
// expected-error@+1 {{parameter "stopped": stopGradient stands on every way to the loss, so that it has no gradient; declare it with frozen(...)}}
nano.state @stopped : tensor<4xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
nano.program @train(%tokens: tensor<4xi32>, %targets: tensor<4xi32>) -> tensor<f32> attributes {role = "train"} {
  %w = nano.load @stopped : tensor<4xf32>
  %y = nano.stop_gradient %w : tensor<4xf32>
  %loss = nano.reduce sum %y dims [0] : tensor<4xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}
