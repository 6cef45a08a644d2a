// A kernel of an 8-bit product that finds the largest number it makes, for the next scale, is the product's end: it finds that of blocks of 16 rows and 64 columns, of which two
// small kernels find the largest. What the backward pass reads of the product is written besides.
// RUN: nano-opt %s -nano-fuse-products="machine=h100-nvlink report" -nano-verify-fused -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: nano.program @kept
// CHECK-NEXT:    %[[F:.*]]:3 = nano.fused(%arg3, %arg0, %arg1, %arg2) : {{.*}} -> (tensor<1024x100xf32>, tensor<16384x6400xf8E4M3FN>, tensor<16384x6400xbf16>) {
// CHECK:           %[[P:.*]] = nano.scaled_matmul
// CHECK:           %[[SEEN:.*]] = nano.reshape %{{.*}} : tensor<16384x6400xf32> -> tensor<1024x16x100x64xf32>
// CHECK-NEXT:      %[[MAX:.*]] = nano.reduce max %[[SEEN]] dims [1, 3] : tensor<1024x16x100x64xf32> -> tensor<1024x100xf32>
// CHECK:           nano.yield %[[MAX]], %{{.*}}, %[[P]]
// CHECK:         %[[ROWS:.*]] = nano.fused(%[[F]]#0) : (tensor<1024x100xf32>) -> tensor<1024xf32> {
// CHECK:           nano.reduce max %{{.*}} dims [1]
// CHECK:         %[[VIEW:.*]] = nano.reshape %[[ROWS]] : tensor<1024xf32> -> tensor<1x1024xf32>
// CHECK-NEXT:    %[[ALL:.*]] = nano.fused(%[[VIEW]]) : (tensor<1x1024xf32>) -> tensor<1xf32> {
// CHECK:         %[[BACK:.*]] = nano.fused(%[[F]]#2)
// CHECK:         nano.return %[[F]]#1, %[[ALL]], %[[BACK]]
nano.program @kept(%x: tensor<16384x1600xf8E4M3FN>, %w: tensor<6400x1600xf8E4M3FN>, %k: tensor<f32>, %b: tensor<6400xf32>) -> (tensor<16384x6400xf8E4M3FN>, tensor<1xf32>, tensor<16384x6400xbf16>) {
  // expected-remark @below {{computed by a kernel that finds its largest}}
  %p = nano.scaled_matmul %x, %w scales(%k, %k) {transpose_b} : (tensor<16384x1600xf8E4M3FN>, tensor<6400x1600xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<16384x6400xbf16>
  %y:2 = nano.fused(%p, %b) : (tensor<16384x6400xbf16>, tensor<6400xf32>) -> (tensor<16384xf32>, tensor<16384x6400xf8E4M3FN>) {
  ^bb0(%a: tensor<16384x6400xbf16>, %c: tensor<6400xf32>):
    %f = nano.cast %a : tensor<16384x6400xbf16> -> tensor<16384x6400xf32>
    %d = nano.broadcast %c dims [1] : tensor<6400xf32> -> tensor<16384x6400xf32>
    %h = nano.add %f, %d : tensor<16384x6400xf32>
    %s = nano.sigmoid %h : tensor<16384x6400xf32>
    %m = nano.mul %h, %s : tensor<16384x6400xf32>
    %e = nano.abs %m : tensor<16384x6400xf32>
    %r = nano.reduce max %e dims [1] : tensor<16384x6400xf32> -> tensor<16384xf32>
    %q = nano.cast %m : tensor<16384x6400xf32> -> tensor<16384x6400xf8E4M3FN>
    nano.yield %r, %q : tensor<16384xf32>, tensor<16384x6400xf8E4M3FN>
  }
  %v = nano.reshape %y#0 : tensor<16384xf32> -> tensor<1x16384xf32>
  %l = nano.fused(%v) : (tensor<1x16384xf32>) -> tensor<1xf32> {
  ^bb0(%a: tensor<1x16384xf32>):
    %r = nano.reduce max %a dims [1] : tensor<1x16384xf32> -> tensor<1xf32>
    nano.yield %r : tensor<1xf32>
  }
  %z = nano.fused(%p) : (tensor<16384x6400xbf16>) -> tensor<16384x6400xbf16> {
  ^bb0(%a: tensor<16384x6400xbf16>):
    %n = nano.neg %a : tensor<16384x6400xbf16>
    nano.yield %n : tensor<16384x6400xbf16>
  }
  nano.return %y#1, %l, %z : tensor<16384x6400xf8E4M3FN>, tensor<1xf32>, tensor<16384x6400xbf16>
}

// -----

// Of two 8-bit products of one operand it is the end of both, which are written for others.
// CHECK-LABEL: nano.program @pair
// CHECK-NEXT:    %[[F:.*]]:4 = nano.fused(%arg0, %arg1, %arg3, %arg2) : {{.*}} -> (tensor<2048x44xf32>, tensor<32768x2816xf8E4M3FN>, tensor<32768x2816xbf16>, tensor<32768x2816xbf16>) {
// CHECK:           nano.scaled_matmul
// CHECK-NEXT:      nano.scaled_matmul
// CHECK:         nano.return %[[F]]#1, %{{.*}}, %[[F]]#2, %[[F]]#3
nano.program @pair(%x: tensor<32768x1024xf8E4M3FN>, %g: tensor<2816x1024xf8E4M3FN>, %u: tensor<2816x1024xf8E4M3FN>, %k: tensor<f32>) -> (tensor<32768x2816xf8E4M3FN>, tensor<1xf32>, tensor<32768x2816xbf16>, tensor<32768x2816xbf16>) {
  // expected-remark @below {{computed by the kernel that reads it and another of the same operand}}
  %p = nano.scaled_matmul %x, %g scales(%k, %k) {transpose_b} : (tensor<32768x1024xf8E4M3FN>, tensor<2816x1024xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<32768x2816xbf16>
  // expected-remark @below {{computed by the kernel that reads it and another of the same operand}}
  %q = nano.scaled_matmul %x, %u scales(%k, %k) {transpose_b} : (tensor<32768x1024xf8E4M3FN>, tensor<2816x1024xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<32768x2816xbf16>
  %y:2 = nano.fused(%p, %q) : (tensor<32768x2816xbf16>, tensor<32768x2816xbf16>) -> (tensor<32768xf32>, tensor<32768x2816xf8E4M3FN>) {
  ^bb0(%a: tensor<32768x2816xbf16>, %b: tensor<32768x2816xbf16>):
    %f = nano.cast %a : tensor<32768x2816xbf16> -> tensor<32768x2816xf32>
    %h = nano.cast %b : tensor<32768x2816xbf16> -> tensor<32768x2816xf32>
    %m = nano.mul %f, %h : tensor<32768x2816xf32>
    %e = nano.abs %m : tensor<32768x2816xf32>
    %r = nano.reduce max %e dims [1] : tensor<32768x2816xf32> -> tensor<32768xf32>
    %c = nano.cast %m : tensor<32768x2816xf32> -> tensor<32768x2816xf8E4M3FN>
    nano.yield %r, %c : tensor<32768xf32>, tensor<32768x2816xf8E4M3FN>
  }
  %v = nano.reshape %y#0 : tensor<32768xf32> -> tensor<1x32768xf32>
  %l = nano.fused(%v) : (tensor<1x32768xf32>) -> tensor<1xf32> {
  ^bb0(%a: tensor<1x32768xf32>):
    %r = nano.reduce max %a dims [1] : tensor<1x32768xf32> -> tensor<1xf32>
    nano.yield %r : tensor<1xf32>
  }
  nano.return %y#1, %l, %p, %q : tensor<32768x2816xf8E4M3FN>, tensor<1xf32>, tensor<32768x2816xbf16>, tensor<32768x2816xbf16>
}

// -----

// Others stay with the library.
// CHECK-LABEL: nano.program @odd
// CHECK-NEXT:    nano.scaled_matmul
nano.program @odd(%x: tensor<16384x1600xf8E4M3FN>, %w: tensor<6432x1600xf8E4M3FN>, %k: tensor<f32>) -> (tensor<16384x6432xf8E4M3FN>, tensor<1xf32>) {
  // expected-remark @below {{left to the library: its maximum is of no blocks of 16 rows and 64 columns}}
  %p = nano.scaled_matmul %x, %w scales(%k, %k) {transpose_b} : (tensor<16384x1600xf8E4M3FN>, tensor<6432x1600xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<16384x6432xbf16>
  %y:2 = nano.fused(%p) : (tensor<16384x6432xbf16>) -> (tensor<16384xf32>, tensor<16384x6432xf8E4M3FN>) {
  ^bb0(%a: tensor<16384x6432xbf16>):
    %f = nano.cast %a : tensor<16384x6432xbf16> -> tensor<16384x6432xf32>
    %r = nano.reduce max %f dims [1] : tensor<16384x6432xf32> -> tensor<16384xf32>
    %q = nano.cast %f : tensor<16384x6432xf32> -> tensor<16384x6432xf8E4M3FN>
    nano.yield %r, %q : tensor<16384xf32>, tensor<16384x6432xf8E4M3FN>
  }
  %v = nano.reshape %y#0 : tensor<16384xf32> -> tensor<1x16384xf32>
  %l = nano.fused(%v) : (tensor<1x16384xf32>) -> tensor<1xf32> {
  ^bb0(%a: tensor<1x16384xf32>):
    %r = nano.reduce max %a dims [1] : tensor<1x16384xf32> -> tensor<1xf32>
    nano.yield %r : tensor<1xf32>
  }
  nano.return %y#1, %l : tensor<16384x6432xf8E4M3FN>, tensor<1xf32>
}

// -----

// CHECK-LABEL: nano.program @two
// CHECK-NEXT:    nano.scaled_matmul
nano.program @two(%x: tensor<16384x1600xf8E4M3FN>, %w: tensor<6400x1600xf8E4M3FN>, %k: tensor<f32>) -> (tensor<16384x6400xf8E4M3FN>, tensor<1xf32>, tensor<1xf32>) {
  // expected-remark @below {{left to the library: it is no gradient, and its kernel reduces something beside a maximum}}
  %p = nano.scaled_matmul %x, %w scales(%k, %k) {transpose_b} : (tensor<16384x1600xf8E4M3FN>, tensor<6400x1600xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<16384x6400xbf16>
  %y:3 = nano.fused(%p) : (tensor<16384x6400xbf16>) -> (tensor<16384xf32>, tensor<16384x6400xf8E4M3FN>, tensor<16384xf32>) {
  ^bb0(%a: tensor<16384x6400xbf16>):
    %f = nano.cast %a : tensor<16384x6400xbf16> -> tensor<16384x6400xf32>
    %r = nano.reduce max %f dims [1] : tensor<16384x6400xf32> -> tensor<16384xf32>
    %n = nano.neg %f : tensor<16384x6400xf32>
    %o = nano.reduce max %n dims [1] : tensor<16384x6400xf32> -> tensor<16384xf32>
    %q = nano.cast %f : tensor<16384x6400xf32> -> tensor<16384x6400xf8E4M3FN>
    nano.yield %r, %q, %o : tensor<16384xf32>, tensor<16384x6400xf8E4M3FN>, tensor<16384xf32>
  }
  %v = nano.reshape %y#0 : tensor<16384xf32> -> tensor<1x16384xf32>
  %l = nano.fused(%v) : (tensor<1x16384xf32>) -> tensor<1xf32> {
  ^bb0(%a: tensor<1x16384xf32>):
    %r = nano.reduce max %a dims [1] : tensor<1x16384xf32> -> tensor<1xf32>
    nano.yield %r : tensor<1xf32>
  }
  %u = nano.reshape %y#2 : tensor<16384xf32> -> tensor<1x16384xf32>
  %m = nano.fused(%u) : (tensor<1x16384xf32>) -> tensor<1xf32> {
  ^bb0(%a: tensor<1x16384xf32>):
    %r = nano.reduce max %a dims [1] : tensor<1x16384xf32> -> tensor<1xf32>
    nano.yield %r : tensor<1xf32>
  }
  nano.return %y#1, %l, %m : tensor<16384x6400xf8E4M3FN>, tensor<1xf32>, tensor<1xf32>
}

// -----

// CHECK-LABEL: nano.program @turned
// CHECK-NEXT:    nano.scaled_matmul
nano.program @turned(%x: tensor<16384x1600xf8E4M3FN>, %w: tensor<6400x1600xf8E4M3FN>, %k: tensor<f32>) -> (tensor<6400x16384xf8E4M3FN>, tensor<1xf32>) {
  // expected-remark @below {{left to the library: a result of its kernel is needed transposed}}
  %p = nano.scaled_matmul %x, %w scales(%k, %k) {transpose_b} : (tensor<16384x1600xf8E4M3FN>, tensor<6400x1600xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<16384x6400xbf16>
  %y:2 = nano.fused(%p) : (tensor<16384x6400xbf16>) -> (tensor<16384xf32>, tensor<16384x6400xf8E4M3FN>) {
  ^bb0(%a: tensor<16384x6400xbf16>):
    %f = nano.cast %a : tensor<16384x6400xbf16> -> tensor<16384x6400xf32>
    %r = nano.reduce max %f dims [1] : tensor<16384x6400xf32> -> tensor<16384xf32>
    %q = nano.cast %f : tensor<16384x6400xf32> -> tensor<16384x6400xf8E4M3FN>
    nano.yield %r, %q : tensor<16384xf32>, tensor<16384x6400xf8E4M3FN>
  }
  %v = nano.reshape %y#0 : tensor<16384xf32> -> tensor<1x16384xf32>
  %l = nano.fused(%v) : (tensor<1x16384xf32>) -> tensor<1xf32> {
  ^bb0(%a: tensor<1x16384xf32>):
    %r = nano.reduce max %a dims [1] : tensor<1x16384xf32> -> tensor<1xf32>
    nano.yield %r : tensor<1xf32>
  }
  %t = nano.transpose %y#1 : tensor<16384x6400xf8E4M3FN> -> tensor<6400x16384xf8E4M3FN>
  nano.return %t, %l : tensor<6400x16384xf8E4M3FN>, tensor<1xf32>
}
