// A sum over many rows is made of parts, which run in parallel: 64, or as many as have 64 rows, 256 at most; a second sum adds them up.
// RUN: nano-opt %s -nano-fuse -nano-verify-fused | FileCheck %s

// CHECK-LABEL: nano.program @few
// CHECK:         nano.reduce sum %{{.*}} dims [1] : tensor<64x64x768xf32> -> tensor<64x768xf32>
// CHECK:         nano.reduce sum %{{.*}} dims [1] : tensor<1x64x768xf32> -> tensor<1x768xf32>
// CHECK-NOT:     nano.reduce
// CHECK:         nano.return
nano.program @few(%x: tensor<4096x768xf32>) -> tensor<768xf32> {
  %s = nano.reduce sum %x dims [0] : tensor<4096x768xf32> -> tensor<768xf32>
  nano.return %s : tensor<768xf32>
}
// CHECK-LABEL: nano.program @more
// CHECK:         nano.reduce sum %{{.*}} dims [1] : tensor<128x64x768xf32> -> tensor<128x768xf32>
// CHECK:         nano.reduce sum %{{.*}} dims [1] : tensor<1x128x768xf32> -> tensor<1x768xf32>
// CHECK-NOT:     nano.reduce
// CHECK:         nano.return
nano.program @more(%x: tensor<8192x768xf32>) -> tensor<768xf32> {
  %s = nano.reduce sum %x dims [0] : tensor<8192x768xf32> -> tensor<768xf32>
  nano.return %s : tensor<768xf32>
}
// CHECK-LABEL: nano.program @most
// CHECK:         nano.reduce sum %{{.*}} dims [1] : tensor<256x192x768xf32> -> tensor<256x768xf32>
// CHECK:         nano.reduce sum %{{.*}} dims [1] : tensor<1x256x768xf32> -> tensor<1x768xf32>
// CHECK-NOT:     nano.reduce
// CHECK:         nano.return
nano.program @most(%x: tensor<49152x768xf32>) -> tensor<768xf32> {
  %s = nano.reduce sum %x dims [0] : tensor<49152x768xf32> -> tensor<768xf32>
  nano.return %s : tensor<768xf32>
}
