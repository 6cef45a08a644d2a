// RUN: nano-opt %s --verify-roundtrip | FileCheck %s
// RUN: nano-opt %s --mlir-print-op-generic | nano-opt | FileCheck %s

// CHECK-LABEL: @broadcast
nano.program @broadcast(%x: tensor<f32>, %y: tensor<4x1xbf16>) -> (tensor<4x8xf32>, tensor<2x4x8xbf16>) {
  // CHECK: nano.broadcast %{{.*}} dims [] : tensor<f32> -> tensor<4x8xf32>
  %0 = nano.broadcast %x dims [] : tensor<f32> -> tensor<4x8xf32>
  // CHECK: nano.broadcast %{{.*}} dims [1, 2] : tensor<4x1xbf16> -> tensor<2x4x8xbf16>
  %1 = nano.broadcast %y dims [1, 2] : tensor<4x1xbf16> -> tensor<2x4x8xbf16>
  nano.return %0, %1 : tensor<4x8xf32>, tensor<2x4x8xbf16>
}

// CHECK-LABEL: @move
nano.program @move(%x: tensor<8x6xf8E4M3FN>) -> tensor<4x12xf8E4M3FN> {
  // CHECK: nano.slice %{{.*}} dim 0 at 2 : tensor<8x6xf8E4M3FN> -> tensor<3x6xf8E4M3FN>
  %0 = nano.slice %x dim 0 at 2 : tensor<8x6xf8E4M3FN> -> tensor<3x6xf8E4M3FN>
  // CHECK: nano.slice %{{.*}} dim 0 at 7 : tensor<8x6xf8E4M3FN> -> tensor<1x6xf8E4M3FN>
  %1 = nano.slice %x dim 0 at 7 : tensor<8x6xf8E4M3FN> -> tensor<1x6xf8E4M3FN>
  // CHECK: nano.concat %{{.*}}, %{{.*}}, %{{.*}} dim 0 : (tensor<3x6xf8E4M3FN>, tensor<1x6xf8E4M3FN>, tensor<4x6xf8E4M3FN>) -> tensor<8x6xf8E4M3FN>
  %2 = nano.slice %x dim 0 at 4 : tensor<8x6xf8E4M3FN> -> tensor<4x6xf8E4M3FN>
  %3 = nano.concat %0, %1, %2 dim 0 : (tensor<3x6xf8E4M3FN>, tensor<1x6xf8E4M3FN>, tensor<4x6xf8E4M3FN>) -> tensor<8x6xf8E4M3FN>
  // CHECK: nano.reshape %{{.*}} : tensor<8x6xf8E4M3FN> -> tensor<4x12xf8E4M3FN>
  %4 = nano.reshape %3 : tensor<8x6xf8E4M3FN> -> tensor<4x12xf8E4M3FN>
  nano.return %4 : tensor<4x12xf8E4M3FN>
}

// CHECK-LABEL: @along
nano.program @along(%x: tensor<2x3x4xbf16>, %ids: tensor<7xi32>, %z: tensor<2x3xf32>) -> (tensor<3xbf16>, tensor<2x3xbf16>, tensor<7xi32>, tensor<2xf32>, tensor<2x3xi32>, tensor<2x3xf32>) {
  // CHECK: nano.rotate %{{.*}} by 3 : tensor<2x3x4xbf16>
  %0 = nano.rotate %x by 3 : tensor<2x3x4xbf16>
  // CHECK: nano.reduce sum %{{.*}} dims [0, 2] : tensor<2x3x4xbf16> -> tensor<3xbf16>
  %1 = nano.reduce sum %0 dims [0, 2] : tensor<2x3x4xbf16> -> tensor<3xbf16>
  // CHECK: nano.reduce max %{{.*}} dims [2] : tensor<2x3x4xbf16> -> tensor<2x3xbf16>
  %2 = nano.reduce max %0 dims [2] : tensor<2x3x4xbf16> -> tensor<2x3xbf16>
  // CHECK: nano.scan sum %{{.*}} : tensor<7xi32>
  %3 = nano.scan sum %ids : tensor<7xi32>
  // CHECK: nano.scan max %{{.*}} : tensor<7xi32>
  %4 = nano.scan max %3 : tensor<7xi32>
  // CHECK: nano.reduce logsumexp %{{.*}} dims [1] : tensor<2x3xf32> -> tensor<2xf32>
  %5 = nano.reduce logsumexp %z dims [1] : tensor<2x3xf32> -> tensor<2xf32>
  // CHECK: nano.argsort %{{.*}} : tensor<2x3xf32> -> tensor<2x3xi32>
  %6 = nano.argsort %z : tensor<2x3xf32> -> tensor<2x3xi32>
  // CHECK: nano.sparsemax %{{.*}} : tensor<2x3xf32>
  %7 = nano.sparsemax %z : tensor<2x3xf32>
  nano.return %1, %2, %4, %5, %6, %7 : tensor<3xbf16>, tensor<2x3xbf16>, tensor<7xi32>, tensor<2xf32>, tensor<2x3xi32>, tensor<2x3xf32>
}
