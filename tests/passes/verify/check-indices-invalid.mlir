// RUN: nano-opt %s -nano-check-indices -split-input-file -verify-diagnostics

// Indices that are certain to lie outside: all of them, whatever the tokens are.
module {
  nano.model "m" {training = {vocab_size = 257 : i64}}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<8x4xf32> attributes {role = "train"} {
    %table = nano.constant 1.0 : tensor<256x4xf32>
    %c = nano.constant 300.0 : tensor<8xi32>
    %ids = nano.add %tokens, %c : tensor<8xi32>
    // expected-error @below {{gather: its indices, 300 to 556, lie outside of its 256 rows}}
    %x = nano.gather %table, %ids : (tensor<256x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
    nano.return %x : tensor<8x4xf32>
  }
}

// -----

module {
  nano.model "m" {training = {vocab_size = 257 : i64}}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<8xf32> attributes {role = "train"} {
    %logits = nano.constant 1.0 : tensor<8x300xf32>
    %c = nano.constant -257.0 : tensor<8xi32>
    %t = nano.add %targets, %c : tensor<8xi32>
    // expected-error @below {{cross_entropy: its targets, -257 to -1, lie outside of its 300 columns}}
    %loss, %lse = nano.cross_entropy %logits, %t : (tensor<8x300xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
    nano.return %loss : tensor<8xf32>
  }
}

// -----

// Positions reach every number up to the last: a sequence that is longer than the table.
nano.program @validate(%tokens: tensor<128xi32>, %targets: tensor<128xi32>) -> tensor<128x4xf32> attributes {role = "validate"} {
  %table = nano.constant 1.0 : tensor<64x4xf32>
  %t = nano.iota 0 : tensor<128xi32>
  // expected-error @below {{gather: its indices, 0 to 127, go beyond its 64 rows}}
  %x = nano.gather %table, %t : (tensor<64x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
  nano.return %x : tensor<128x4xf32>
}

// -----

// They do behind a shift, a factor and a change of shape, too.
nano.program @train(%tokens: tensor<128xi32>, %targets: tensor<128xi32>) -> tensor<128x4xf32> attributes {role = "train"} {
  %table = nano.constant 1.0 : tensor<64x4xf32>
  %t = nano.iota 1 : tensor<2x64xi32>
  %flat = nano.reshape %t : tensor<2x64xi32> -> tensor<128xi32>
  %one = nano.constant 1.0 : tensor<128xi32>
  %shifted = nano.sub %one, %flat : tensor<128xi32>
  // expected-error @below {{gather: its indices, -62 to 1, go beyond its 64 rows}}
  %x = nano.gather %table, %shifted : (tensor<64x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
  nano.return %x : tensor<128x4xf32>
}
