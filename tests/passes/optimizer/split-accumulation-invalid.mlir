// RUN: nano-opt %s -split-input-file -verify-diagnostics --nano-split-accumulation

// expected-error @below {{no function with role "train"}}
module {
}

// -----

nano.state @grad.w : tensor<4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
  %loss = nano.constant 1.0 : tensor<f32>
  %g = nano.broadcast %loss dims [] : tensor<f32> -> tensor<4xf32>
  // expected-note @below {{the first time here}}
  nano.accumulate %g, @grad.w : tensor<4xf32>
  // expected-error @below {{state @grad.w is accumulated more than once}}
  nano.accumulate %g, @grad.w : tensor<4xf32>
  nano.return %loss : tensor<f32>
}
