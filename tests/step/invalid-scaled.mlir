// RUN: nano-opt %s -split-input-file -verify-diagnostics
// What step.matmul refuses of scales.

step.program @p {
  %x = step.buffer "x" : memref<8x128xf8E5M2>
  %y = step.buffer "y" : memref<8x8xf32>
  // expected-error @below {{f8 operands need two scales: `scales(%a, %b)`}}
  step.matmul %x, %x into %y {transpose_b} : memref<8x128xf8E5M2>, memref<8x128xf8E5M2>, memref<8x8xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8x128xf8E5M2>
  %w = step.buffer "w" : memref<8x128xbf16>
  %y = step.buffer "y" : memref<8x8xf32>
  // expected-error @below {{one operand is f8, the other is not: 'memref<8x128xf8E5M2>' and 'memref<8x128xbf16>'}}
  step.matmul %x, %w into %y {transpose_b} : memref<8x128xf8E5M2>, memref<8x128xbf16>, memref<8x8xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8x128xbf16>
  %s = step.buffer "s" : memref<f32>
  %y = step.buffer "y" : memref<8x8xf32>
  // expected-error @below {{scales belong to f8 operands; these are 'bf16'}}
  step.matmul %x, %x scales(%s, %s) into %y {transpose_b} : memref<8x128xbf16>, memref<8x128xbf16>, memref<f32>, memref<f32>, memref<8x8xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<2x8x128xf8E5M2>
  %s = step.buffer "s" : memref<f32>
  %y = step.buffer "y" : memref<2x8x8xf32>
  // expected-error @below {{f8 operands must be single matrices}}
  step.matmul %x, %x scales(%s, %s) into %y {transpose_b} : memref<2x8x128xf8E5M2>, memref<2x8x128xf8E5M2>, memref<f32>, memref<f32>, memref<2x8x8xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8x128xf8E5M2>
  %s = step.buffer "s" : memref<bf16>
  %y = step.buffer "y" : memref<8x8xf32>
  // expected-error @below {{scale 'memref<bf16>' has no f32 elements}}
  step.matmul %x, %x scales(%s, %s) into %y {transpose_b} : memref<8x128xf8E5M2>, memref<8x128xf8E5M2>, memref<bf16>, memref<bf16>, memref<8x8xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8x128xf8E5M2>
  %s = step.buffer "s" : memref<f32>
  %b = step.buffer "b" : memref<8x1xf32>
  %y = step.buffer "y" : memref<8x8xf32>
  // expected-error @below {{one scale is a number, the other is one a block: 'memref<8x1xf32>' and 'memref<f32>'}}
  step.matmul %x, %x scales(%b, %s) into %y {transpose_b} : memref<8x128xf8E5M2>, memref<8x128xf8E5M2>, memref<8x1xf32>, memref<f32>, memref<8x8xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8x128xf8E5M2>
  %b = step.buffer "b" : memref<8x1xf32>
  %c = step.buffer "c" : memref<4x1xf32>
  %y = step.buffer "y" : memref<8x8xf32>
  // expected-error @below {{scale_a is [4, 1], must be [8, 1] for an operand of [8, 128]}}
  step.matmul %x, %x scales(%c, %b) into %y {transpose_b} : memref<8x128xf8E5M2>, memref<8x128xf8E5M2>, memref<4x1xf32>, memref<8x1xf32>, memref<8x8xf32>
}
