// A kernel of a gradient's product in 8 bits is the product's end also where it writes rows as columns, and sums columns beside maxima: the square of max(h, 0), which only
// the next product reads, transposed, and the gradient that goes on, in rows and transposed.
// RUN: nano-opt %s -nano-fuse-products="machine=h100-nvlink report" -nano-verify-fused -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: nano.program @squares
// CHECK-NEXT:    %[[F:.*]]:4 = nano.fused(%arg2, %arg4, %arg0, %arg1, %arg3) : {{.*}} -> (tensor<1024x100xf32>, tensor<1024x6400xf32>, tensor<16384x6400xf8E4M3FN>, tensor<16384x6400xf8E5M2>) {
// CHECK-NEXT:      ^bb0
// CHECK-NEXT:      %[[P:.*]] = nano.scaled_matmul
// CHECK:           %[[ROWS:.*]] = nano.reshape %[[D:.*]] : tensor<16384x6400xf32> -> tensor<1024x16x6400xf32>
// CHECK-NEXT:      %[[SUM:.*]] = nano.reduce sum %[[ROWS]] dims [1] : tensor<1024x16x6400xf32> -> tensor<1024x6400xf32>
// CHECK:           %[[BLOCKS:.*]] = nano.reshape %{{.*}} : tensor<16384x6400xf32> -> tensor<1024x16x100x64xf32>
// CHECK-NEXT:      %[[MAX:.*]] = nano.reduce max %[[BLOCKS]] dims [1, 3] : tensor<1024x16x100x64xf32> -> tensor<1024x100xf32>
// CHECK:           nano.yield %[[MAX]], %[[SUM]],
// CHECK:         %[[LARGEST:.*]] = nano.fused(%[[F]]#0) : (tensor<1024x100xf32>) -> tensor<1024xf32> {
// CHECK:         %[[PARTS:.*]] = nano.reshape %[[F]]#1 : tensor<1024x6400xf32> -> tensor<256x4x6400xf32>
// CHECK-NEXT:    %[[SUMS:.*]] = nano.fused(%[[PARTS]]) : (tensor<256x4x6400xf32>) -> tensor<256x6400xf32> {
// CHECK:         %[[VIEW:.*]] = nano.reshape %[[LARGEST]] : tensor<1024xf32> -> tensor<1x1024xf32>
// CHECK:         %[[T:.*]] = nano.transpose %[[F]]#2
// CHECK-NEXT:    %[[U:.*]] = nano.transpose %[[F]]#3
// CHECK-NEXT:    nano.return %{{.*}}, %[[SUMS]], %[[T]], %[[F]]#3, %[[U]]
nano.program @squares(%g: tensor<16384x1600xf8E5M2>, %w: tensor<6400x1600xf8E4M3FN>, %h: tensor<16384x6400xbf16>, %k: tensor<f32>, %n: tensor<f32>)
    -> (tensor<1xf32>, tensor<256x6400xf32>, tensor<6400x16384xf8E4M3FN>, tensor<16384x6400xf8E5M2>, tensor<6400x16384xf8E5M2>) {
  // expected-remark @below {{computed by a kernel that sums its columns and finds its largest}}
  %p = nano.scaled_matmul %g, %w scales(%k, %k) {transpose_b} : (tensor<16384x1600xf8E5M2>, tensor<6400x1600xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<16384x6400xbf16>
  %y:4 = nano.fused(%p, %h, %n) : (tensor<16384x6400xbf16>, tensor<16384x6400xbf16>, tensor<f32>) -> (tensor<16384xf32>, tensor<256x6400xf32>, tensor<16384x6400xf8E4M3FN>, tensor<16384x6400xf8E5M2>) {
  ^bb0(%a: tensor<16384x6400xbf16>, %b: tensor<16384x6400xbf16>, %c: tensor<f32>):
    %zero = nano.constant 0.0 : tensor<16384x6400xbf16>
    %m = nano.max %b, %zero : tensor<16384x6400xbf16>
    %d = nano.mul %a, %m : tensor<16384x6400xbf16>
    %f = nano.cast %d : tensor<16384x6400xbf16> -> tensor<16384x6400xf32>
    %v = nano.reshape %f : tensor<16384x6400xf32> -> tensor<256x64x6400xf32>
    %s = nano.reduce sum %v dims [1] : tensor<256x64x6400xf32> -> tensor<256x6400xf32>
    %e = nano.abs %f : tensor<16384x6400xf32>
    %r = nano.reduce max %e dims [1] : tensor<16384x6400xf32> -> tensor<16384xf32>
    %i = nano.broadcast %c dims [] : tensor<f32> -> tensor<16384x6400xf32>
    %j = nano.mul %f, %i : tensor<16384x6400xf32>
    %q = nano.cast %j : tensor<16384x6400xf32> -> tensor<16384x6400xf8E5M2>
    %o = nano.mul %m, %m : tensor<16384x6400xbf16>
    %t = nano.cast %o : tensor<16384x6400xbf16> -> tensor<16384x6400xf8E4M3FN>
    nano.yield %r, %s, %t, %q : tensor<16384xf32>, tensor<256x6400xf32>, tensor<16384x6400xf8E4M3FN>, tensor<16384x6400xf8E5M2>
  }
  %v = nano.reshape %y#0 : tensor<16384xf32> -> tensor<1x16384xf32>
  %l = nano.fused(%v) : (tensor<1x16384xf32>) -> tensor<1xf32> {
  ^bb0(%a: tensor<1x16384xf32>):
    %r = nano.reduce max %a dims [1] : tensor<1x16384xf32> -> tensor<1xf32>
    nano.yield %r : tensor<1xf32>
  }
  %t = nano.transpose %y#2 : tensor<16384x6400xf8E4M3FN> -> tensor<6400x16384xf8E4M3FN>
  %u = nano.transpose %y#3 : tensor<16384x6400xf8E5M2> -> tensor<6400x16384xf8E5M2>
  nano.return %l, %y#1, %t, %y#3, %u : tensor<1xf32>, tensor<256x6400xf32>, tensor<6400x16384xf8E4M3FN>, tensor<16384x6400xf8E5M2>, tensor<6400x16384xf8E5M2>
}

// -----

// Two maxima, as of the gradients of a gate and of what it gates.
// CHECK-LABEL: nano.program @maxima
// CHECK-NEXT:    %[[F:.*]]:3 = nano.fused({{.*}}) : {{.*}} -> (tensor<1024x100xf32>, tensor<1024x100xf32>, tensor<16384x6400xf8E5M2>) {
// CHECK:         nano.fused(%[[F]]#0, %[[F]]#1) : (tensor<1024x100xf32>, tensor<1024x100xf32>) -> (tensor<1024xf32>, tensor<1024xf32>) {
nano.program @maxima(%g: tensor<16384x1600xf8E5M2>, %w: tensor<6400x1600xf8E4M3FN>, %k: tensor<f32>) -> (tensor<1xf32>, tensor<1xf32>, tensor<6400x16384xf8E5M2>) {
  // expected-remark @below {{computed by a kernel that finds its largest}}
  %p = nano.scaled_matmul %g, %w scales(%k, %k) {transpose_b} : (tensor<16384x1600xf8E5M2>, tensor<6400x1600xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<16384x6400xbf16>
  %y:3 = nano.fused(%p) : (tensor<16384x6400xbf16>) -> (tensor<16384xf32>, tensor<16384xf32>, tensor<16384x6400xf8E5M2>) {
  ^bb0(%a: tensor<16384x6400xbf16>):
    %f = nano.cast %a : tensor<16384x6400xbf16> -> tensor<16384x6400xf32>
    %r = nano.reduce max %f dims [1] : tensor<16384x6400xf32> -> tensor<16384xf32>
    %n = nano.neg %f : tensor<16384x6400xf32>
    %o = nano.reduce max %n dims [1] : tensor<16384x6400xf32> -> tensor<16384xf32>
    %q = nano.cast %f : tensor<16384x6400xf32> -> tensor<16384x6400xf8E5M2>
    nano.yield %r, %o, %q : tensor<16384xf32>, tensor<16384xf32>, tensor<16384x6400xf8E5M2>
  }
  %v = nano.reshape %y#0 : tensor<16384xf32> -> tensor<1x16384xf32>
  %l = nano.fused(%v) : (tensor<1x16384xf32>) -> tensor<1xf32> {
  ^bb0(%a: tensor<1x16384xf32>):
    %r = nano.reduce max %a dims [1] : tensor<1x16384xf32> -> tensor<1xf32>
    nano.yield %r : tensor<1xf32>
  }
  %u = nano.reshape %y#1 : tensor<16384xf32> -> tensor<1x16384xf32>
  %m = nano.fused(%u) : (tensor<1x16384xf32>) -> tensor<1xf32> {
  ^bb0(%a: tensor<1x16384xf32>):
    %r = nano.reduce max %a dims [1] : tensor<1x16384xf32> -> tensor<1xf32>
    nano.yield %r : tensor<1xf32>
  }
  %t = nano.transpose %y#2 : tensor<16384x6400xf8E5M2> -> tensor<6400x16384xf8E5M2>
  nano.return %l, %m, %t : tensor<1xf32>, tensor<1xf32>, tensor<6400x16384xf8E5M2>
}

// -----

// Others stay with the library: what is transposed in 16 bits, or by other rows than 16; sums of rows.
// CHECK-LABEL: nano.program @wide
// CHECK-NEXT:    nano.scaled_matmul
nano.program @wide(%g: tensor<16384x1600xf8E5M2>, %w: tensor<6400x1600xf8E4M3FN>, %k: tensor<f32>) -> tensor<6400x16384xbf16> {
  // expected-remark @below {{left to the library: a result of its kernel is needed transposed}}
  %p = nano.scaled_matmul %g, %w scales(%k, %k) {transpose_b} : (tensor<16384x1600xf8E5M2>, tensor<6400x1600xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<16384x6400xbf16>
  %y = nano.fused(%p) : (tensor<16384x6400xbf16>) -> tensor<16384x6400xbf16> {
  ^bb0(%a: tensor<16384x6400xbf16>):
    %n = nano.neg %a : tensor<16384x6400xbf16>
    nano.yield %n : tensor<16384x6400xbf16>
  }
  %t = nano.transpose %y : tensor<16384x6400xbf16> -> tensor<6400x16384xbf16>
  nano.return %t : tensor<6400x16384xbf16>
}

// -----

// CHECK-LABEL: nano.program @odd
// CHECK-NEXT:    nano.scaled_matmul
nano.program @odd(%g: tensor<16388x1600xf8E5M2>, %w: tensor<6400x1600xf8E4M3FN>, %k: tensor<f32>) -> tensor<6400x16388xf8E5M2> {
  // expected-remark @below {{left to the library: a result of its kernel is needed transposed, whose rows are no multiples of 16 bytes}}
  %p = nano.scaled_matmul %g, %w scales(%k, %k) {transpose_b} : (tensor<16388x1600xf8E5M2>, tensor<6400x1600xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<16388x6400xbf16>
  %y = nano.fused(%p) : (tensor<16388x6400xbf16>) -> tensor<16388x6400xf8E5M2> {
  ^bb0(%a: tensor<16388x6400xbf16>):
    %f = nano.cast %a : tensor<16388x6400xbf16> -> tensor<16388x6400xf32>
    %n = nano.cast %f : tensor<16388x6400xf32> -> tensor<16388x6400xf8E5M2>
    nano.yield %n : tensor<16388x6400xf8E5M2>
  }
  %t = nano.transpose %y : tensor<16388x6400xf8E5M2> -> tensor<6400x16388xf8E5M2>
  nano.return %t : tensor<6400x16388xf8E5M2>
}

// -----

// CHECK-LABEL: nano.program @rows
// CHECK-NEXT:    nano.scaled_matmul
nano.program @rows(%g: tensor<16384x1600xf8E5M2>, %w: tensor<6400x1600xf8E4M3FN>, %k: tensor<f32>) -> tensor<16384xf32> {
  // expected-remark @below {{left to the library: it is a gradient, and its rows are summed}}
  %p = nano.scaled_matmul %g, %w scales(%k, %k) {transpose_b} : (tensor<16384x1600xf8E5M2>, tensor<6400x1600xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<16384x6400xbf16>
  %y = nano.fused(%p) : (tensor<16384x6400xbf16>) -> tensor<16384xf32> {
  ^bb0(%a: tensor<16384x6400xbf16>):
    %f = nano.cast %a : tensor<16384x6400xbf16> -> tensor<16384x6400xf32>
    %s = nano.reduce sum %f dims [1] : tensor<16384x6400xf32> -> tensor<16384xf32>
    nano.yield %s : tensor<16384xf32>
  }
  nano.return %y : tensor<16384xf32>
}
