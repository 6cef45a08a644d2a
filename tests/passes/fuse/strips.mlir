// A group that sums columns also joins one that reduces along rows which it leaves transposed, where no element waits for a reduction.
// RUN: nano-opt %s -nano-fuse=both-sums -nano-verify-fused -split-input-file | FileCheck %s
// RUN: nano-opt %s -nano-fuse -nano-verify-fused -split-input-file | FileCheck %s --check-prefix=APART

// What a gradient in 8 bits needs: rows, rows transposed, the largest of each row, a bias's gradient. Threads hold no rows, so that these may be long.
// CHECK-LABEL: nano.program @gradient
// CHECK:       nano.fused({{.*}}) : (tensor<8192x6144xbf16>) -> (tensor<8192xf32>, tensor<128x6144xf32>, tensor<8192x6144xf8E5M2>) {
// CHECK:         nano.reduce max
// CHECK:         nano.reduce sum
// CHECK:       nano.transpose
// CHECK-NOT:   nano.fused({{.*}}8192x6144
// APART-LABEL: nano.program @gradient
// APART-COUNT-2: nano.fused({{.*}}tensor<8192x6144xbf16>
nano.program @gradient(%x: tensor<8192x6144xbf16>) -> (tensor<8192xf32>, tensor<6144xf32>, tensor<8192x6144xf8E5M2>, tensor<6144x8192xf8E5M2>) {
  %f = nano.cast %x : tensor<8192x6144xbf16> -> tensor<8192x6144xf32>
  %m = nano.reduce max %f dims [1] : tensor<8192x6144xf32> -> tensor<8192xf32>
  %s = nano.reduce sum %f dims [0] : tensor<8192x6144xf32> -> tensor<6144xf32>
  %n = nano.cast %f : tensor<8192x6144xf32> -> tensor<8192x6144xf8E5M2>
  %t = nano.transpose %n : tensor<8192x6144xf8E5M2> -> tensor<6144x8192xf8E5M2>
  nano.return %m, %s, %n, %t : tensor<8192xf32>, tensor<6144xf32>, tensor<8192x6144xf8E5M2>, tensor<6144x8192xf8E5M2>
}

// -----

// Elements that wait for their row's sum are gathered as rows: the sums of columns stay apart.
// CHECK-LABEL: nano.program @waits
// CHECK:       nano.fused({{.*}}) : (tensor<8192x6144xbf16>) -> tensor<8192x6144xf8E5M2> {
// CHECK:       nano.fused({{.*}}) : (tensor<8192x6144xbf16>) -> tensor<128x6144xf32> {
nano.program @waits(%x: tensor<8192x6144xbf16>) -> (tensor<6144xf32>, tensor<6144x8192xf8E5M2>) {
  %f = nano.cast %x : tensor<8192x6144xbf16> -> tensor<8192x6144xf32>
  %m = nano.reduce max %f dims [1] : tensor<8192x6144xf32> -> tensor<8192xf32>
  %w = nano.broadcast %m dims [0] : tensor<8192xf32> -> tensor<8192x6144xf32>
  %q = nano.div %f, %w : tensor<8192x6144xf32>
  %n = nano.cast %q : tensor<8192x6144xf32> -> tensor<8192x6144xf8E5M2>
  %t = nano.transpose %n : tensor<8192x6144xf8E5M2> -> tensor<6144x8192xf8E5M2>
  %s = nano.reduce sum %f dims [0] : tensor<8192x6144xf32> -> tensor<6144xf32>
  nano.return %s, %t : tensor<6144xf32>, tensor<6144x8192xf8E5M2>
}

// -----

// So do sums for which shared memory has no room.
// CHECK-LABEL: nano.program @wide
// CHECK-COUNT-2: nano.fused({{.*}}tensor<8192x16384xbf16>
nano.program @wide(%x: tensor<8192x16384xbf16>) -> (tensor<8192xf32>, tensor<16384xf32>, tensor<16384x8192xf8E5M2>) {
  %f = nano.cast %x : tensor<8192x16384xbf16> -> tensor<8192x16384xf32>
  %m = nano.reduce max %f dims [1] : tensor<8192x16384xf32> -> tensor<8192xf32>
  %s = nano.reduce sum %f dims [0] : tensor<8192x16384xf32> -> tensor<16384xf32>
  %n = nano.cast %f : tensor<8192x16384xf32> -> tensor<8192x16384xf8E5M2>
  %t = nano.transpose %n : tensor<8192x16384xf8E5M2> -> tensor<16384x8192xf8E5M2>
  nano.return %m, %s, %t : tensor<8192xf32>, tensor<16384xf32>, tensor<16384x8192xf8E5M2>
}
