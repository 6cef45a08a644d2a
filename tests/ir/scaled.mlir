// RUN: nano-opt %s | nano-opt | FileCheck %s
// RUN: nano-opt %s -mlir-print-op-generic | nano-opt | FileCheck %s
// RUN: nano-opt %s --canonicalize | FileCheck %s --check-prefix=FOLDED

// CHECK-LABEL: @conversions
nano.program @conversions(%x: tensor<4x256xbf16>, %s: tensor<f32>, %b: tensor<4x2xf32>) -> (tensor<4x256xf32>, tensor<4x256xbf16>) {
  // CHECK: %[[Q:.*]] = nano.quantize %{{.*}}, %{{.*}} : tensor<4x256xbf16>, tensor<f32> -> tensor<4x256xf8E5M2>
  %q = nano.quantize %x, %s : tensor<4x256xbf16>, tensor<f32> -> tensor<4x256xf8E5M2>
  // CHECK: nano.dequantize %[[Q]], %{{.*}} : tensor<4x256xf8E5M2>, tensor<f32> -> tensor<4x256xf32>
  %y = nano.dequantize %q, %s : tensor<4x256xf8E5M2>, tensor<f32> -> tensor<4x256xf32>
  // CHECK: nano.quantize %{{.*}}, %{{.*}} : tensor<4x256xf32>, tensor<4x2xf32> -> tensor<4x256xf8E4M3FN>
  %p = nano.quantize %y, %b : tensor<4x256xf32>, tensor<4x2xf32> -> tensor<4x256xf8E4M3FN>
  %z = nano.dequantize %p, %b : tensor<4x256xf8E4M3FN>, tensor<4x2xf32> -> tensor<4x256xbf16>
  // CHECK: nano.abs %{{.*}} : tensor<4x256xf32>
  %a = nano.abs %y : tensor<4x256xf32>
  nano.return %a, %z : tensor<4x256xf32>, tensor<4x256xbf16>
}

// CHECK-LABEL: @products
nano.program @products(%x: tensor<8x256xf8E5M2>, %w: tensor<128x256xf8E4M3FN>, %s: tensor<f32>, %bx: tensor<8x2xf32>, %bw: tensor<1x2xf32>,
                    %rows: tensor<128x2xf32>) -> tensor<8x128xf32> {
  // CHECK: %[[Y:.*]] = nano.scaled_matmul %{{.*}}, %{{.*}} scales(%{{.*}}, %{{.*}}) {transpose_b} : (tensor<8x256xf8E5M2>, tensor<128x256xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<8x128xf32>
  %y = nano.scaled_matmul %x, %w scales(%s, %s) {transpose_b} : (tensor<8x256xf8E5M2>, tensor<128x256xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<8x128xf32>
  // CHECK: nano.scaled_matmul %{{.*}}, %{{.*}} scales(%{{.*}}, %{{.*}}) add %[[Y]] {alpha = 5.000000e-01 : f64, beta = 2.000000e+00 : f64, transpose_b}
  %z = nano.scaled_matmul %x, %w scales(%bx, %bw) add %y {alpha = 0.5, beta = 2.0, transpose_b}
      : (tensor<8x256xf8E5M2>, tensor<128x256xf8E4M3FN>, tensor<8x2xf32>, tensor<1x2xf32>, tensor<8x128xf32>) -> tensor<8x128xf32>
  %v = nano.scaled_matmul %x, %w scales(%bx, %rows) add %z {transpose_b}
      : (tensor<8x256xf8E5M2>, tensor<128x256xf8E4M3FN>, tensor<8x2xf32>, tensor<128x2xf32>, tensor<8x128xf32>) -> tensor<8x128xf32>
  nano.return %v : tensor<8x128xf32>
}

// The transposes of operands: their scales lie as they do.
// CHECK-LABEL: @transposed
nano.program @transposed(%x: tensor<256x8xf8E5M2>, %w: tensor<256x128xf8E4M3FN>, %bx: tensor<2x8xf32>, %bw: tensor<2x1xf32>) -> tensor<8x128xbf16> {
  // CHECK: nano.scaled_matmul %{{.*}} {transpose_a}
  %y = nano.scaled_matmul %x, %w scales(%bx, %bw) {transpose_a}
      : (tensor<256x8xf8E5M2>, tensor<256x128xf8E4M3FN>, tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<8x128xbf16>
  nano.return %y : tensor<8x128xbf16>
}

// CHECK-LABEL: @twice
// FOLDED-LABEL: @twice
// FOLDED-SAME: (%[[X:.*]]: tensor<2x3x4xi32>
// FOLDED: %[[C:.*]] = nano.constant 5.000000e-01 : tensor<4x3xf32>
// FOLDED: nano.return %[[X]], %[[C]]
nano.program @twice(%x: tensor<2x3x4xi32>) -> (tensor<2x3x4xi32>, tensor<4x3xf32>) {
  // CHECK: nano.transpose %{{.*}} : tensor<2x3x4xi32> -> tensor<2x4x3xi32>
  %t = nano.transpose %x : tensor<2x3x4xi32> -> tensor<2x4x3xi32>
  %y = nano.transpose %t : tensor<2x4x3xi32> -> tensor<2x3x4xi32>
  %c = nano.constant 0.5 : tensor<3x4xf32>
  %d = nano.transpose %c : tensor<3x4xf32> -> tensor<4x3xf32>
  nano.return %y, %d : tensor<2x3x4xi32>, tensor<4x3xf32>
}
