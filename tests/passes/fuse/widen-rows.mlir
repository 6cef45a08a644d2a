// RUN: nano-opt %s -nano-fuse | FileCheck %s

// Gathered rows that element-wise ops read as heads: one kernel of whole rows gathers as it goes. What it reads and writes beside them are views; the
// sum over all is one over rows first.
// CHECK-LABEL: nano.program @whole(
// CHECK:         %[[HEADS:.*]] = nano.slice %{{.*}} dim 1 at 2
// CHECK:         %[[ROWS:.*]] = nano.reshape %[[HEADS]] : tensor<64x2x16xbf16> -> tensor<64x32xbf16>
// CHECK:         nano.fused
// CHECK:           nano.gather %{{.*}}, %{{.*}} : (tensor<40x32xbf16>, tensor<64xi32>) -> tensor<64x32xbf16>
// CHECK-NOT:       nano.reshape
// CHECK:           nano.add %{{.*}} : tensor<64x32xf32>
// CHECK:           nano.reduce sum %{{.*}} dims [1] : tensor<64x32xf32> -> tensor<64xf32>
// CHECK:         nano.reshape %{{.*}} : tensor<64x32xbf16> -> tensor<64x2x16xbf16>
nano.state @table : tensor<40x32xbf16> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @whole(%x: tensor<64x64xbf16>, %factor: tensor<f32>, %ids: tensor<64xi32>) -> (tensor<64x4x16xbf16>, tensor<f32>) {
  %table = nano.load @table : tensor<40x32xbf16>
  %rows = nano.gather %table, %ids : (tensor<40x32xbf16>, tensor<64xi32>) -> tensor<64x32xbf16>
  %cut = nano.reshape %rows : tensor<64x32xbf16> -> tensor<64x2x16xbf16>
  %all = nano.reshape %x : tensor<64x64xbf16> -> tensor<64x4x16xbf16>
  %first = nano.slice %all dim 1 at 0 : tensor<64x4x16xbf16> -> tensor<64x2x16xbf16>
  %heads = nano.slice %all dim 1 at 2 : tensor<64x4x16xbf16> -> tensor<64x2x16xbf16>
  %a = nano.cast %cut : tensor<64x2x16xbf16> -> tensor<64x2x16xf32>
  %b = nano.cast %heads : tensor<64x2x16xbf16> -> tensor<64x2x16xf32>
  %f = nano.broadcast %factor dims [] : tensor<f32> -> tensor<64x2x16xf32>
  %fa = nano.mul %f, %a : tensor<64x2x16xf32>
  %sum = nano.add %fa, %b : tensor<64x2x16xf32>
  %total = nano.reduce sum %sum dims [0, 1, 2] : tensor<64x2x16xf32> -> tensor<f32>
  %result = nano.cast %sum : tensor<64x2x16xf32> -> tensor<64x2x16xbf16>
  %both = nano.concat %first, %result dim 1 : (tensor<64x2x16xbf16>, tensor<64x2x16xbf16>) -> tensor<64x4x16xbf16>
  nano.return %both, %total : tensor<64x4x16xbf16>, tensor<f32>
}

// What several of the ops read is one view, so that they are one kernel.
// CHECK-LABEL: nano.program @together(
// CHECK-COUNT-1: nano.fused
// CHECK-NOT:     nano.fused
// CHECK:         nano.return
nano.program @together(%x: tensor<64x2x16xf32>, %factor: tensor<f32>, %ids: tensor<64xi32>) -> (tensor<64x2x16xf32>, tensor<64x2x16xf32>) {
  %table = nano.load @table : tensor<40x32xbf16>
  %rows = nano.gather %table, %ids : (tensor<40x32xbf16>, tensor<64xi32>) -> tensor<64x32xbf16>
  %cut = nano.reshape %rows : tensor<64x32xbf16> -> tensor<64x2x16xbf16>
  %a = nano.cast %cut : tensor<64x2x16xbf16> -> tensor<64x2x16xf32>
  %ax = nano.mul %a, %x : tensor<64x2x16xf32>
  %f = nano.broadcast %factor dims [] : tensor<f32> -> tensor<64x2x16xf32>
  %fx = nano.mul %x, %f : tensor<64x2x16xf32>
  nano.return %ax, %fx : tensor<64x2x16xf32>, tensor<64x2x16xf32>
}

// The sum of each head's squares needs heads: nothing changes.
// CHECK-LABEL: nano.program @normed(
// CHECK:         %[[ROWS:.*]] = nano.gather
// CHECK:         %[[HEADS:.*]] = nano.reshape %{{.*}} : tensor<64x32xbf16> -> tensor<64x2x16xbf16>
// CHECK:         nano.fused(%[[HEADS]]
// CHECK:           nano.reduce sum %{{.*}} dims [2] : tensor<64x2x16xf32> -> tensor<64x2xf32>
nano.program @normed(%ids: tensor<64xi32>) -> tensor<64x2x16xf32> {
  %table = nano.load @table : tensor<40x32xbf16>
  %rows = nano.gather %table, %ids : (tensor<40x32xbf16>, tensor<64xi32>) -> tensor<64x32xbf16>
  %cut = nano.reshape %rows : tensor<64x32xbf16> -> tensor<64x2x16xbf16>
  %a = nano.cast %cut : tensor<64x2x16xbf16> -> tensor<64x2x16xf32>
  %aa = nano.mul %a, %a : tensor<64x2x16xf32>
  %s = nano.reduce sum %aa dims [2] : tensor<64x2x16xf32> -> tensor<64x2xf32>
  %r = nano.rsqrt %s : tensor<64x2xf32>
  %rr = nano.broadcast %r dims [0, 1] : tensor<64x2xf32> -> tensor<64x2x16xf32>
  %n = nano.mul %a, %rr : tensor<64x2x16xf32>
  nano.return %n : tensor<64x2x16xf32>
}

// A factor and a constant that another kernel of heads reads too connect nothing.
// CHECK-LABEL: nano.program @besides(
// CHECK:         nano.fused
// CHECK:           nano.gather
// CHECK:           nano.mul %{{.*}} : tensor<64x32xf32>
// CHECK:         nano.fused
// CHECK:           nano.rotate %{{.*}} : tensor<64x2x16xf32>
// CHECK:           nano.mul %{{.*}} : tensor<64x2x16xf32>
nano.program @besides(%x: tensor<64x2x16xf32>, %ids: tensor<64xi32>) -> (tensor<64x32xf32>, tensor<64x2x16xf32>) {
  %table = nano.load @table : tensor<40x32xbf16>
  %two = nano.constant 2.0 : tensor<64x2x16xf32>
  %rows = nano.gather %table, %ids : (tensor<40x32xbf16>, tensor<64xi32>) -> tensor<64x32xbf16>
  %cut = nano.reshape %rows : tensor<64x32xbf16> -> tensor<64x2x16xbf16>
  %a = nano.cast %cut : tensor<64x2x16xbf16> -> tensor<64x2x16xf32>
  %y = nano.mul %a, %two : tensor<64x2x16xf32>
  %back = nano.reshape %y : tensor<64x2x16xf32> -> tensor<64x32xf32>
  %rotated = nano.rotate %x by 8 : tensor<64x2x16xf32>
  %z = nano.mul %rotated, %two : tensor<64x2x16xf32>
  nano.return %back, %z : tensor<64x32xf32>, tensor<64x2x16xf32>
}
