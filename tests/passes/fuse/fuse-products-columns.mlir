// A kernel of a product that sums columns too, as a bias's gradient is summed, is the product's end: it makes sums of 16 rows, which a small kernel adds up.
// RUN: nano-opt %s -nano-fuse-products="machine=h200-nvlink report" -nano-verify-fused -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: nano.program @slope
// CHECK:         %[[F:.*]]:2 = nano.fused(%arg2, %arg0, %arg1) : {{.*}} -> (tensor<49152x3072xbf16>, tensor<3072x3072xf32>) {
// CHECK:           nano.matmul
// CHECK:           %[[SEEN:.*]] = nano.reshape %{{.*}} : tensor<49152x3072xf32> -> tensor<3072x16x3072xf32>
// CHECK-NEXT:      %[[SUM:.*]] = nano.reduce sum %[[SEEN]] dims [1] : tensor<3072x16x3072xf32> -> tensor<3072x3072xf32>
// CHECK-NEXT:      nano.yield %{{.*}}, %[[SUM]]
// CHECK:         %[[VIEW:.*]] = nano.reshape %[[F]]#1 : tensor<3072x3072xf32> -> tensor<256x12x3072xf32>
// CHECK-NEXT:    %[[PARTS:.*]] = nano.fused(%[[VIEW]])
// CHECK:           nano.reduce sum %{{.*}} dims [1] : tensor<256x12x3072xf32> -> tensor<256x3072xf32>
// CHECK:         nano.return %[[F]]#0, %[[PARTS]]
nano.program @slope(%x: tensor<49152x768xbf16>, %w: tensor<768x3072xbf16>, %h: tensor<49152x3072xbf16>) -> (tensor<49152x3072xbf16>, tensor<256x3072xf32>) {
  // expected-remark @below {{computed by a kernel that sums its columns}}
  %p = nano.matmul %x, %w : (tensor<49152x768xbf16>, tensor<768x3072xbf16>) -> tensor<49152x3072xbf16>
  %y:2 = nano.fused(%p, %h) : (tensor<49152x3072xbf16>, tensor<49152x3072xbf16>) -> (tensor<49152x3072xbf16>, tensor<256x3072xf32>) {
  ^bb0(%a: tensor<49152x3072xbf16>, %b: tensor<49152x3072xbf16>):
    %m = nano.mul %a, %b : tensor<49152x3072xbf16>
    %f = nano.cast %m : tensor<49152x3072xbf16> -> tensor<49152x3072xf32>
    %r = nano.reshape %f : tensor<49152x3072xf32> -> tensor<256x192x3072xf32>
    %s = nano.reduce sum %r dims [1] : tensor<256x192x3072xf32> -> tensor<256x3072xf32>
    nano.yield %m, %s : tensor<49152x3072xbf16>, tensor<256x3072xf32>
  }
  nano.return %y#0, %y#1 : tensor<49152x3072xbf16>, tensor<256x3072xf32>
}

// -----

// Two such sums, and parts of other numbers of rows, stay with the library.
// CHECK-LABEL: nano.program @two
// CHECK-NEXT:    nano.matmul
nano.program @two(%x: tensor<49152x768xbf16>, %w: tensor<768x3072xbf16>) -> (tensor<256x3072xf32>, tensor<256x3072xf32>) {
  // expected-remark @below {{left to the library: its kernel has more than one sum of columns}}
  %p = nano.matmul %x, %w : (tensor<49152x768xbf16>, tensor<768x3072xbf16>) -> tensor<49152x3072xbf16>
  %y:2 = nano.fused(%p) : (tensor<49152x3072xbf16>) -> (tensor<256x3072xf32>, tensor<256x3072xf32>) {
  ^bb0(%a: tensor<49152x3072xbf16>):
    %f = nano.cast %a : tensor<49152x3072xbf16> -> tensor<49152x3072xf32>
    %r = nano.reshape %f : tensor<49152x3072xf32> -> tensor<256x192x3072xf32>
    %s = nano.reduce sum %r dims [1] : tensor<256x192x3072xf32> -> tensor<256x3072xf32>
    %q = nano.mul %f, %f : tensor<49152x3072xf32>
    %t = nano.reshape %q : tensor<49152x3072xf32> -> tensor<256x192x3072xf32>
    %u = nano.reduce sum %t dims [1] : tensor<256x192x3072xf32> -> tensor<256x3072xf32>
    nano.yield %s, %u : tensor<256x3072xf32>, tensor<256x3072xf32>
  }
  nano.return %y#0, %y#1 : tensor<256x3072xf32>, tensor<256x3072xf32>
}
// CHECK-LABEL: nano.program @odd
// CHECK-NEXT:    nano.matmul
nano.program @odd(%x: tensor<48000x768xbf16>, %w: tensor<768x3072xbf16>) -> tensor<240x3072xf32> {
  // expected-remark @below {{left to the library: its sums of columns are of no multiples of 16 rows}}
  %p = nano.matmul %x, %w : (tensor<48000x768xbf16>, tensor<768x3072xbf16>) -> tensor<48000x3072xbf16>
  %y = nano.fused(%p) : (tensor<48000x3072xbf16>) -> tensor<240x3072xf32> {
  ^bb0(%a: tensor<48000x3072xbf16>):
    %f = nano.cast %a : tensor<48000x3072xbf16> -> tensor<48000x3072xf32>
    %r = nano.reshape %f : tensor<48000x3072xf32> -> tensor<240x200x3072xf32>
    %s = nano.reduce sum %r dims [1] : tensor<240x200x3072xf32> -> tensor<240x3072xf32>
    nano.yield %s : tensor<240x3072xf32>
  }
  nano.return %y : tensor<240x3072xf32>
}
