// RUN: nano-opt %s -nano-fuse -nano-verify-fused -split-input-file | FileCheck %s

// What all that read a kernel's tensor convert to one narrower type is written in that type, and converted once.
// CHECK-LABEL: nano.program @sums
// CHECK:       %[[MADE:.*]] = nano.fused({{.*}}) : (tensor<8192x768xf32>) -> tensor<8192x768xbf16> {
// CHECK:       nano.fused(%[[MADE]]{{.*}}) : (tensor<8192x768xbf16>) -> tensor<128x768xf32> {
// CHECK:       nano.return {{.*}}, %[[MADE]] : tensor<768xf32>, tensor<8192x768xbf16>
nano.program @sums(%x: tensor<8192x768xf32>) -> (tensor<768xf32>, tensor<8192x768xbf16>) {
  %s = nano.reduce sum %x dims [1] : tensor<8192x768xf32> -> tensor<8192xf32>
  %b = nano.broadcast %s dims [0] : tensor<8192xf32> -> tensor<8192x768xf32>
  %y = nano.div %x, %b : tensor<8192x768xf32>
  %n = nano.cast %y : tensor<8192x768xf32> -> tensor<8192x768xbf16>
  %w = nano.cast %n : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %c = nano.reduce sum %w dims [0] : tensor<8192x768xf32> -> tensor<768xf32>
  %m = nano.cast %y : tensor<8192x768xf32> -> tensor<8192x768xbf16>
  nano.return %c, %m : tensor<768xf32>, tensor<8192x768xbf16>
}

// -----

// Where one of them reads it as it is, it is written as it is.
// CHECK-LABEL: nano.program @kept
// CHECK:       nano.fused({{.*}}) : (tensor<8192x768xf32>) -> tensor<8192x768xf32> {
nano.program @kept(%x: tensor<8192x768xf32>) -> (tensor<768xf32>, tensor<8192x768xf32>) {
  %s = nano.reduce sum %x dims [1] : tensor<8192x768xf32> -> tensor<8192xf32>
  %b = nano.broadcast %s dims [0] : tensor<8192xf32> -> tensor<8192x768xf32>
  %y = nano.div %x, %b : tensor<8192x768xf32>
  %n = nano.cast %y : tensor<8192x768xf32> -> tensor<8192x768xbf16>
  %w = nano.cast %n : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %c = nano.reduce sum %w dims [0] : tensor<8192x768xf32> -> tensor<768xf32>
  nano.return %c, %y : tensor<768xf32>, tensor<8192x768xf32>
}
