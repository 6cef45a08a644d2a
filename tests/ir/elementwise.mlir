// RUN: nano-opt %s --verify-roundtrip | FileCheck %s
// RUN: nano-opt %s --mlir-print-op-generic | nano-opt | FileCheck %s

// CHECK-LABEL: @unary
nano.program @unary(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: nano.neg %{{.*}} : tensor<4x8xf32>
  %0 = nano.neg %x : tensor<4x8xf32>
  // CHECK: nano.exp %{{.*}} : tensor<4x8xf32>
  %1 = nano.exp %0 : tensor<4x8xf32>
  // CHECK: nano.log %{{.*}} : tensor<4x8xf32>
  %2 = nano.log %1 : tensor<4x8xf32>
  // CHECK: nano.sqrt %{{.*}} : tensor<4x8xf32>
  %3 = nano.sqrt %2 : tensor<4x8xf32>
  // CHECK: nano.rsqrt %{{.*}} : tensor<4x8xf32>
  %4 = nano.rsqrt %3 : tensor<4x8xf32>
  // CHECK: nano.tanh %{{.*}} : tensor<4x8xf32>
  %5 = nano.tanh %4 : tensor<4x8xf32>
  // CHECK: nano.sigmoid %{{.*}} : tensor<4x8xf32>
  %6 = nano.sigmoid %5 : tensor<4x8xf32>
  // CHECK: nano.sin %{{.*}} : tensor<4x8xf32>
  %7 = nano.sin %6 : tensor<4x8xf32>
  // CHECK: nano.cos %{{.*}} : tensor<4x8xf32>
  %8 = nano.cos %7 : tensor<4x8xf32>
  // CHECK: nano.abs %{{.*}} : tensor<4x8xf32>
  %9 = nano.abs %8 : tensor<4x8xf32>
  // CHECK: nano.sign %{{.*}} : tensor<4x8xf32>
  %10 = nano.sign %9 : tensor<4x8xf32>
  // CHECK: nano.floor %{{.*}} : tensor<4x8xf32>
  %11 = nano.floor %10 : tensor<4x8xf32>
  // CHECK: nano.ceil %{{.*}} : tensor<4x8xf32>
  %12 = nano.ceil %11 : tensor<4x8xf32>
  // CHECK: nano.round %{{.*}} : tensor<4x8xf32>
  %13 = nano.round %12 : tensor<4x8xf32>
  // CHECK: nano.erf %{{.*}} : tensor<4x8xf32>
  %14 = nano.erf %13 : tensor<4x8xf32>
  // CHECK: nano.logaddexp %{{.*}}, %{{.*}} : tensor<4x8xf32>
  %15 = nano.logaddexp %14, %x : tensor<4x8xf32>
  nano.return %15 : tensor<4x8xf32>
}

// CHECK-LABEL: @bits
nano.program @bits(%a: tensor<4xi32>, %x: tensor<4xf32>, %w: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xbf16>) {
  // CHECK: nano.rem %{{.*}}, %{{.*}} : tensor<4xi32>
  %0 = nano.rem %a, %a : tensor<4xi32>
  // CHECK: nano.and %{{.*}}, %{{.*}} : tensor<4xi32>
  %1 = nano.and %0, %a : tensor<4xi32>
  // CHECK: nano.or %{{.*}}, %{{.*}} : tensor<4xi32>
  %2 = nano.or %1, %a : tensor<4xi32>
  // CHECK: nano.xor %{{.*}}, %{{.*}} : tensor<4xi32>
  %3 = nano.xor %2, %a : tensor<4xi32>
  // CHECK: nano.shl %{{.*}}, %{{.*}} : tensor<4xi32>
  %4 = nano.shl %3, %a : tensor<4xi32>
  // CHECK: nano.shr %{{.*}}, %{{.*}} : tensor<4xi32>
  %5 = nano.shr %4, %a : tensor<4xi32>
  // CHECK: nano.bitcast %{{.*}} : tensor<4xi32> -> tensor<4xf32>
  %6 = nano.bitcast %5 : tensor<4xi32> -> tensor<4xf32>
  // CHECK: nano.bitcast %{{.*}} : tensor<4xbf16> -> tensor<4xi16>
  %7 = nano.bitcast %w : tensor<4xbf16> -> tensor<4xi16>
  // CHECK: nano.cast %{{.*}} : tensor<4xi16> -> tensor<4xbf16>
  %8 = nano.cast %7 : tensor<4xi16> -> tensor<4xbf16>
  nano.return %6, %8 : tensor<4xf32>, tensor<4xbf16>
}

// CHECK-LABEL: @binary
nano.program @binary(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  // CHECK: nano.add %{{.*}}, %{{.*}} : tensor<4xi32>
  %0 = nano.add %a, %b : tensor<4xi32>
  // CHECK: nano.sub %{{.*}}, %{{.*}} : tensor<4xi32>
  %1 = nano.sub %0, %b : tensor<4xi32>
  // CHECK: nano.mul %{{.*}}, %{{.*}} : tensor<4xi32>
  %2 = nano.mul %1, %b : tensor<4xi32>
  // CHECK: nano.div %{{.*}}, %{{.*}} : tensor<4xi32>
  %3 = nano.div %2, %b : tensor<4xi32>
  // CHECK: nano.max %{{.*}}, %{{.*}} : tensor<4xi32>
  %4 = nano.max %3, %b : tensor<4xi32>
  // CHECK: nano.min %{{.*}}, %{{.*}} : tensor<4xi32>
  %5 = nano.min %4, %b : tensor<4xi32>
  nano.return %5 : tensor<4xi32>
}

// CHECK-LABEL: @select
nano.program @select(%a: tensor<2xi32>, %x: tensor<2xbf16>, %y: tensor<2xbf16>) -> tensor<2xbf16> {
  // CHECK: nano.select eq, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<2xi32>, tensor<2xbf16>
  %0 = nano.select eq, %a, %a, %x, %y : tensor<2xi32>, tensor<2xbf16>
  // CHECK: nano.select ne,
  %1 = nano.select ne, %a, %a, %0, %y : tensor<2xi32>, tensor<2xbf16>
  // CHECK: nano.select lt,
  %2 = nano.select lt, %a, %a, %1, %y : tensor<2xi32>, tensor<2xbf16>
  // CHECK: nano.select le,
  %3 = nano.select le, %a, %a, %2, %y : tensor<2xi32>, tensor<2xbf16>
  // CHECK: nano.select gt,
  %4 = nano.select gt, %a, %a, %3, %y : tensor<2xi32>, tensor<2xbf16>
  // CHECK: nano.select ge,
  %5 = nano.select ge, %a, %a, %4, %y : tensor<2xi32>, tensor<2xbf16>
  nano.return %5 : tensor<2xbf16>
}

// CHECK-LABEL: @cast
nano.program @cast(%x: tensor<2xi32>) -> tensor<2xf8E5M2> {
  // CHECK: nano.cast %{{.*}} : tensor<2xi32> -> tensor<2xf32>
  %0 = nano.cast %x : tensor<2xi32> -> tensor<2xf32>
  // CHECK: nano.cast %{{.*}} : tensor<2xf32> -> tensor<2xf8E4M3FN>
  %1 = nano.cast %0 : tensor<2xf32> -> tensor<2xf8E4M3FN>
  // CHECK: nano.cast %{{.*}} : tensor<2xf8E4M3FN> -> tensor<2xbf16>
  %2 = nano.cast %1 : tensor<2xf8E4M3FN> -> tensor<2xbf16>
  // CHECK: nano.cast %{{.*}} : tensor<2xbf16> -> tensor<2xf8E5M2>
  %3 = nano.cast %2 : tensor<2xbf16> -> tensor<2xf8E5M2>
  nano.return %3 : tensor<2xf8E5M2>
}

// CHECK-LABEL: @constants
nano.program @constants() -> (tensor<f32>, tensor<2xbf16>, tensor<3xi32>, tensor<f32>, tensor<2x3xi32>) {
  // CHECK: nano.constant 5.000000e-01 : tensor<f32>
  %0 = nano.constant 0.5 : tensor<f32>
  // CHECK: nano.constant -0.000000e+00 : tensor<2xbf16>
  %1 = nano.constant -0.0 : tensor<2xbf16>
  // CHECK: nano.constant -7.000000e+00 : tensor<3xi32>
  %2 = nano.constant -7.0 : tensor<3xi32>
  // CHECK: nano.constant 0xFFF0000000000000 : tensor<f32>
  %3 = nano.constant 0xFFF0000000000000 : tensor<f32>
  // CHECK: nano.iota 1 : tensor<2x3xi32>
  %4 = nano.iota 1 : tensor<2x3xi32>
  nano.return %0, %1, %2, %3, %4 : tensor<f32>, tensor<2xbf16>, tensor<3xi32>, tensor<f32>, tensor<2x3xi32>
}
