// RUN: nano-opt %s --split-input-file --verify-diagnostics

nano.program @f(%x: tensor<8x3xf32>) -> tensor<8x3xf32> {
  // expected-error @below {{runs along the middle one of three dimensions, not of [8, 3]}}
  %y = nano.recurrence term %x from 0.0 : tensor<8x3xf32>
  nano.return %y : tensor<8x3xf32>
}

// -----

nano.program @f() -> tensor<1x8x3xf32> {
  // expected-error @below {{expected 1 or more operands, but found 0}}
  %y = nano.recurrence from 0.0 : tensor<1x8x3xf32>
  nano.return %y : tensor<1x8x3xf32>
}

// -----

nano.program @f(%x: tensor<1x8x3xf32>) -> tensor<1x8x3xf32> {
  // expected-error @below {{is an adjoint, which maps a term b and starts from 0}}
  %y = nano.recurrence factor %x term %x from 1.0 {adjoint} : tensor<1x8x3xf32>
  nano.return %y : tensor<1x8x3xf32>
}

// -----

nano.program @f(%x: tensor<1x8x3xf32>) -> tensor<1x8x3xf32> {
  // expected-error @below {{is an adjoint, which maps a term b and starts from 0}}
  %y = nano.recurrence factor %x from 0.0 {adjoint} : tensor<1x8x3xf32>
  nano.return %y : tensor<1x8x3xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x1x4xf32>) -> tensor<8x2x3xf32> {
  // expected-error @below {{needs a band of [T, H, W] and rows of [T, H, D], has [8, 2, 3], [8, 2, 4] and [8, 1, 4]}}
  %s = nano.band_scores %q, %k : (tensor<8x2x4xf32>, tensor<8x1x4xf32>) -> tensor<8x2x3xf32>
  nano.return %s : tensor<8x2x3xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>) -> tensor<8x2x9xf32> {
  // expected-error @below {{has a band of 9 tokens in a sequence of 8}}
  %s = nano.band_scores %q, %q : (tensor<8x2x4xf32>, tensor<8x2x4xf32>) -> tensor<8x2x9xf32>
  nano.return %s : tensor<8x2x9xf32>
}

// -----

nano.program @f(%p: tensor<8x3x2xf32>, %v: tensor<8x2x4xf32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{needs a band of [T, H, W] and rows of [T, H, D], has [8, 3, 2], [8, 2, 4] and [8, 2, 4]}}
  %y = nano.band_product %p, %v : (tensor<8x3x2xf32>, tensor<8x2x4xf32>) -> tensor<8x2x4xf32>
  nano.return %y : tensor<8x2x4xf32>
}
