// RUN: nano-opt %s -split-input-file -verify-diagnostics
// What the verifiers of quantised ops and of transposes refuse.

nano.program @f(%x: tensor<4x8xf32>, %s: tensor<f32>) -> tensor<8x4xf8E5M2> {
  // expected-error @below {{shapes of operand and result differ: [4, 8] and [8, 4]}}
  %q = nano.quantize %x, %s : tensor<4x8xf32>, tensor<f32> -> tensor<8x4xf8E5M2>
  nano.return %q : tensor<8x4xf8E5M2>
}

// -----

nano.program @f(%x: tensor<4x8xf32>, %s: tensor<4xf32>) -> tensor<4x8xf8E5M2> {
  // expected-error @below {{scale [4] is neither one number nor one a block of [4, 8]: its sizes must divide those}}
  %q = nano.quantize %x, %s : tensor<4x8xf32>, tensor<4xf32> -> tensor<4x8xf8E5M2>
  nano.return %q : tensor<4x8xf8E5M2>
}

// -----

nano.program @f(%q: tensor<4x8xf8E5M2>, %s: tensor<4x3xf32>) -> tensor<4x8xf32> {
  // expected-error @below {{scale [4, 3] is neither one number nor one a block of [4, 8]: its sizes must divide those}}
  %x = nano.dequantize %q, %s : tensor<4x8xf8E5M2>, tensor<4x3xf32> -> tensor<4x8xf32>
  nano.return %x : tensor<4x8xf32>
}

// -----

nano.program @f(%q: tensor<4x8xf32>, %s: tensor<f32>) -> tensor<4x8xf32> {
  // expected-error @below {{operand #0 must be statically shaped tensor of f8E4M3FN type or f8E5M2 type values}}
  %x = nano.dequantize %q, %s : tensor<4x8xf32>, tensor<f32> -> tensor<4x8xf32>
  nano.return %x : tensor<4x8xf32>
}

// -----

nano.program @f(%a: tensor<2x4x8xf8E5M2>, %s: tensor<f32>) -> tensor<2x4x4xf32> {
  // expected-error @below {{operands must be matrices: [2, 4, 8] × [2, 4, 8]ᵀ}}
  %y = nano.scaled_matmul %a, %a scales(%s, %s) {transpose_b} : (tensor<2x4x8xf8E5M2>, tensor<2x4x8xf8E5M2>, tensor<f32>, tensor<f32>) -> tensor<2x4x4xf32>
  nano.return %y : tensor<2x4x4xf32>
}

// -----

nano.program @f(%a: tensor<4x8xf8E5M2>, %s: tensor<f32>) -> tensor<4x4xf32> {
  // expected-error @below {{inner dimensions differ: [4, 8] × [4, 8]}}
  %y = nano.scaled_matmul %a, %a scales(%s, %s) : (tensor<4x8xf8E5M2>, tensor<4x8xf8E5M2>, tensor<f32>, tensor<f32>) -> tensor<4x4xf32>
  nano.return %y : tensor<4x4xf32>
}

// -----

nano.program @f(%a: tensor<4x8xf8E5M2>, %s: tensor<f32>) -> tensor<8x8xf32> {
  // expected-error @below {{the product's shape and the result's differ: [4, 4] and [8, 8]}}
  %y = nano.scaled_matmul %a, %a scales(%s, %s) {transpose_b} : (tensor<4x8xf8E5M2>, tensor<4x8xf8E5M2>, tensor<f32>, tensor<f32>) -> tensor<8x8xf32>
  nano.return %y : tensor<8x8xf32>
}

// -----

nano.program @f(%a: tensor<4x128xf8E5M2>, %s: tensor<f32>, %b: tensor<4x1xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{one scale is a number, the other is one a block: [] and [4, 1]}}
  %y = nano.scaled_matmul %a, %a scales(%s, %b) {transpose_b} : (tensor<4x128xf8E5M2>, tensor<4x128xf8E5M2>, tensor<f32>, tensor<4x1xf32>) -> tensor<4x4xf32>
  nano.return %y : tensor<4x4xf32>
}

// -----

nano.program @f(%a: tensor<4x64xf8E5M2>, %b: tensor<4x1xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{scale_a has blocks of 128 along the inner dimension, which is 64}}
  %y = nano.scaled_matmul %a, %a scales(%b, %b) {transpose_b} : (tensor<4x64xf8E5M2>, tensor<4x64xf8E5M2>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
  nano.return %y : tensor<4x4xf32>
}

// -----

nano.program @f(%a: tensor<256x4xf8E5M2>, %b: tensor<256x128xf8E5M2>, %sa: tensor<2x4xf32>, %sb: tensor<2x2xf32>) -> tensor<4x128xf32> {
  // expected-error @below {{scale_b is [2, 2], must be [2, 128] or [2, 1] for an operand of [256, 128]}}
  %y = nano.scaled_matmul %a, %b scales(%sa, %sb) {transpose_a} : (tensor<256x4xf8E5M2>, tensor<256x128xf8E5M2>, tensor<2x4xf32>, tensor<2x2xf32>) -> tensor<4x128xf32>
  nano.return %y : tensor<4x128xf32>
}

// -----

nano.program @f(%a: tensor<4x256xf8E5M2>, %sa: tensor<4x2xf32>, %sb: tensor<2x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{scale_b is [2, 4], must be [4, 2] for an operand of [4, 256]}}
  %y = nano.scaled_matmul %a, %a scales(%sa, %sb) {transpose_b} : (tensor<4x256xf8E5M2>, tensor<4x256xf8E5M2>, tensor<4x2xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  nano.return %y : tensor<4x4xf32>
}

// -----

nano.program @f(%a: tensor<4x8xf8E5M2>, %s: tensor<f32>, %d: tensor<4x4xbf16>) -> tensor<4x4xf32> {
  // expected-error @below {{types of addend and result differ: 'tensor<4x4xbf16>' and 'tensor<4x4xf32>'}}
  %y = nano.scaled_matmul %a, %a scales(%s, %s) add %d {transpose_b} : (tensor<4x8xf8E5M2>, tensor<4x8xf8E5M2>, tensor<f32>, tensor<f32>, tensor<4x4xbf16>) -> tensor<4x4xf32>
  nano.return %y : tensor<4x4xf32>
}

// -----

nano.program @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{needs at least two dimensions, has [4]}}
  %y = nano.transpose %x : tensor<4xf32> -> tensor<4xf32>
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @f(%x: tensor<2x3x4xf32>) -> tensor<4x3x2xf32> {
  // expected-error @below {{result must be 'tensor<2x4x3xf32>', is 'tensor<4x3x2xf32>'}}
  %y = nano.transpose %x : tensor<2x3x4xf32> -> tensor<4x3x2xf32>
  nano.return %y : tensor<4x3x2xf32>
}
