// RUN: nano-opt %s --verify-roundtrip | FileCheck %s
// RUN: nano-opt %s --mlir-print-op-generic | nano-opt | FileCheck %s

// CHECK-LABEL: @recurrence
nano.program @recurrence(%a: tensor<2x8x3xf32>, %b: tensor<2x8x3xf32>) -> tensor<2x8x3xf32> {
  // CHECK: nano.recurrence factor %{{.*}} term %{{.*}} from 5.000000e-01 : tensor<2x8x3xf32>
  %0 = nano.recurrence factor %a term %b from 0.5 : tensor<2x8x3xf32>
  // CHECK: nano.recurrence term %{{.*}} from 0.000000e+00 {reverse} : tensor<2x8x3xf32>
  %1 = nano.recurrence term %0 from 0.0 {reverse} : tensor<2x8x3xf32>
  // CHECK: nano.recurrence factor %{{.*}} from 1.000000e+00 : tensor<2x8x3xf32>
  %2 = nano.recurrence factor %1 from 1.0 : tensor<2x8x3xf32>
  // CHECK: nano.recurrence factor %{{.*}} term %{{.*}} from 0.000000e+00 {adjoint} : tensor<2x8x3xf32>
  %3 = nano.recurrence factor %a term %2 from 0.0 {adjoint} : tensor<2x8x3xf32>
  nano.return %3 : tensor<2x8x3xf32>
}

// CHECK-LABEL: @band
nano.program @band(%q: tensor<8x2x4xbf16>, %k: tensor<8x2x4xbf16>) -> tensor<8x2x4xf32> {
  // CHECK: nano.band_scores %{{.*}}, %{{.*}} : (tensor<8x2x4xbf16>, tensor<8x2x4xbf16>) -> tensor<8x2x5xf32>
  %0 = nano.band_scores %q, %k : (tensor<8x2x4xbf16>, tensor<8x2x4xbf16>) -> tensor<8x2x5xf32>
  // CHECK: nano.band_product %{{.*}}, %{{.*}} : (tensor<8x2x5xf32>, tensor<8x2x4xbf16>) -> tensor<8x2x4xbf16>
  %1 = nano.band_product %0, %k : (tensor<8x2x5xf32>, tensor<8x2x4xbf16>) -> tensor<8x2x4xbf16>
  // CHECK: nano.band_product %{{.*}}, %{{.*}} {transpose} : (tensor<8x2x5xf32>, tensor<8x2x4xbf16>) -> tensor<8x2x4xf32>
  %2 = nano.band_product %0, %1 {transpose} : (tensor<8x2x5xf32>, tensor<8x2x4xbf16>) -> tensor<8x2x4xf32>
  nano.return %2 : tensor<8x2x4xf32>
}
