// A kernel that reads two products of the same A begins with both, where that is predicted to pay. Those that others read besides are results behind its own.
// RUN: nano-opt %s -nano-fuse-products="machine=h200-nvlink report" -nano-verify-fused -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: nano.program @kept
// CHECK-NEXT:    %[[Y:.*]]:3 = nano.fused(%arg3, %arg0, %arg1, %arg2)
// CHECK-NEXT:    ^bb0(%[[D:.*]]: tensor<2816xf32>, %[[X:.*]]: tensor<32768x1024xbf16>, %[[G:.*]]: tensor<2816x1024xbf16>, %[[U:.*]]: tensor<2816x1024xbf16>):
// CHECK-NEXT:      %[[P:.*]] = nano.matmul %[[X]], %[[G]] {transpose_b}
// CHECK-NEXT:      %[[Q:.*]] = nano.matmul %[[X]], %[[U]] {transpose_b}
// CHECK:           nano.sigmoid
// CHECK:           nano.yield %{{.*}}, %[[P]], %[[Q]]
// CHECK:         %[[Z:.*]] = nano.fused(%[[Y]]#1)
// CHECK:         nano.return %[[Y]]#0, %[[Z]], %[[Y]]#2
nano.program @kept(%x: tensor<32768x1024xbf16>, %g: tensor<2816x1024xbf16>, %u: tensor<2816x1024xbf16>, %d: tensor<2816xf32>)
    -> (tensor<32768x2816xbf16>, tensor<32768x2816xbf16>, tensor<32768x2816xbf16>) {
  // expected-remark @below {{computed by the kernel that reads it and another of the same operand}}
  %p = nano.matmul %x, %g {transpose_b} : (tensor<32768x1024xbf16>, tensor<2816x1024xbf16>) -> tensor<32768x2816xbf16>
  // expected-remark @below {{computed by the kernel that reads it and another of the same operand}}
  %q = nano.matmul %x, %u {transpose_b} : (tensor<32768x1024xbf16>, tensor<2816x1024xbf16>) -> tensor<32768x2816xbf16>
  %y = nano.fused(%p, %q, %d) : (tensor<32768x2816xbf16>, tensor<32768x2816xbf16>, tensor<2816xf32>) -> tensor<32768x2816xbf16> {
  ^bb0(%a: tensor<32768x2816xbf16>, %b: tensor<32768x2816xbf16>, %c: tensor<2816xf32>):
    %f = nano.cast %a : tensor<32768x2816xbf16> -> tensor<32768x2816xf32>
    %e = nano.cast %b : tensor<32768x2816xbf16> -> tensor<32768x2816xf32>
    %s = nano.sigmoid %f : tensor<32768x2816xf32>
    %m = nano.mul %f, %s : tensor<32768x2816xf32>
    %h = nano.mul %m, %e : tensor<32768x2816xf32>
    %i = nano.broadcast %c dims [1] : tensor<2816xf32> -> tensor<32768x2816xf32>
    %j = nano.add %h, %i : tensor<32768x2816xf32>
    %r = nano.cast %j : tensor<32768x2816xf32> -> tensor<32768x2816xbf16>
    nano.yield %r : tensor<32768x2816xbf16>
  }
  %z = nano.fused(%p) : (tensor<32768x2816xbf16>) -> tensor<32768x2816xbf16> {
  ^bb0(%a: tensor<32768x2816xbf16>):
    %n = nano.neg %a : tensor<32768x2816xbf16>
    nano.yield %n : tensor<32768x2816xbf16>
  }
  nano.return %y, %z, %q : tensor<32768x2816xbf16>, tensor<32768x2816xbf16>, tensor<32768x2816xbf16>
}

// -----

// Nobody else reads them: neither crosses memory.
// CHECK-LABEL: nano.program @alone
// CHECK-NEXT:    %[[Y:.*]] = nano.fused(%arg0, %arg2, %arg3, %arg4, %arg1)
// CHECK:           nano.scaled_matmul
// CHECK-NEXT:      nano.scaled_matmul
// CHECK:           nano.yield %{{[^,]*}} :
nano.program @alone(%x: tensor<32768x1024xf8E4M3FN>, %g: tensor<2816x1024xf8E4M3FN>, %u: tensor<2816x1024xf8E4M3FN>, %k: tensor<f32>, %l: tensor<f32>)
    -> tensor<32768x2816xbf16> {
  // expected-remark @below {{computed by the kernel that reads it and another of the same operand}}
  %p = nano.scaled_matmul %x, %g scales(%k, %k) {transpose_b} : (tensor<32768x1024xf8E4M3FN>, tensor<2816x1024xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<32768x2816xbf16>
  // expected-remark @below {{computed by the kernel that reads it and another of the same operand}}
  %q = nano.scaled_matmul %x, %u scales(%k, %l) {transpose_b} : (tensor<32768x1024xf8E4M3FN>, tensor<2816x1024xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<32768x2816xbf16>
  %y = nano.fused(%q, %p) : (tensor<32768x2816xbf16>, tensor<32768x2816xbf16>) -> tensor<32768x2816xbf16> {
  ^bb0(%a: tensor<32768x2816xbf16>, %b: tensor<32768x2816xbf16>):
    %h = nano.mul %a, %b : tensor<32768x2816xbf16>
    nano.yield %h : tensor<32768x2816xbf16>
  }
  nano.return %y : tensor<32768x2816xbf16>
}

// -----

// A third matrix is read: one of them ends in the kernel, which reads the other.
// CHECK-LABEL: nano.program @third
// CHECK-NEXT:    nano.matmul
// CHECK-NEXT:    nano.fused
nano.program @third(%x: tensor<32768x1024xbf16>, %g: tensor<2816x1024xbf16>, %u: tensor<2816x1024xbf16>, %o: tensor<32768x2816xbf16>) -> tensor<32768x2816xbf16> {
  // expected-remark @below {{apart from the other one that its kernel reads: its kernel reads other matrices beside two products}}
  // expected-remark @below {{computed by the kernel that reads it}}
  %p = nano.matmul %x, %g {transpose_b} : (tensor<32768x1024xbf16>, tensor<2816x1024xbf16>) -> tensor<32768x2816xbf16>
  // expected-remark @below {{apart from the other one that its kernel reads: its kernel reads other matrices beside two products}}
  %q = nano.matmul %x, %u {transpose_b} : (tensor<32768x1024xbf16>, tensor<2816x1024xbf16>) -> tensor<32768x2816xbf16>
  %y = nano.fused(%p, %q, %o) : (tensor<32768x2816xbf16>, tensor<32768x2816xbf16>, tensor<32768x2816xbf16>) -> tensor<32768x2816xbf16> {
  ^bb0(%a: tensor<32768x2816xbf16>, %b: tensor<32768x2816xbf16>, %c: tensor<32768x2816xbf16>):
    %h = nano.mul %a, %b : tensor<32768x2816xbf16>
    %i = nano.add %h, %c : tensor<32768x2816xbf16>
    nano.yield %i : tensor<32768x2816xbf16>
  }
  nano.return %y : tensor<32768x2816xbf16>
}

// -----

// What sums columns keeps the products apart; so do operands of different sizes, of which no remark speaks.
// CHECK-LABEL: nano.program @sums
// CHECK-COUNT-2: {{^    %.* = nano.matmul}}
nano.program @sums(%x: tensor<32768x1024xbf16>, %g: tensor<2816x1024xbf16>, %u: tensor<2816x1024xbf16>) -> (tensor<2048x2816xf32>, tensor<32768x2816xbf16>, tensor<32768x2816xbf16>) {
  // expected-remark @below {{apart from the other one that its kernel reads: its kernel sums what it makes of two products}}
  // expected-remark @below {{left to the library: that is predicted to be faster}}
  %p = nano.matmul %x, %g {transpose_b} : (tensor<32768x1024xbf16>, tensor<2816x1024xbf16>) -> tensor<32768x2816xbf16>
  // expected-remark @below {{apart from the other one that its kernel reads: its kernel sums what it makes of two products}}
  // expected-remark @below {{left to the library: that is predicted to be faster}}
  %q = nano.matmul %x, %u {transpose_b} : (tensor<32768x1024xbf16>, tensor<2816x1024xbf16>) -> tensor<32768x2816xbf16>
  %y = nano.fused(%p, %q) : (tensor<32768x2816xbf16>, tensor<32768x2816xbf16>) -> tensor<2048x2816xf32> {
  ^bb0(%a: tensor<32768x2816xbf16>, %b: tensor<32768x2816xbf16>):
    %h = nano.mul %a, %b : tensor<32768x2816xbf16>
    %f = nano.cast %h : tensor<32768x2816xbf16> -> tensor<32768x2816xf32>
    %r = nano.reshape %f : tensor<32768x2816xf32> -> tensor<2048x16x2816xf32>
    %s = nano.reduce sum %r dims [1] : tensor<2048x16x2816xf32> -> tensor<2048x2816xf32>
    nano.yield %s : tensor<2048x2816xf32>
  }
  nano.return %y, %p, %q : tensor<2048x2816xf32>, tensor<32768x2816xbf16>, tensor<32768x2816xbf16>
}

// -----

// What others read before is no kernel's own; the other product is.
// CHECK-LABEL: nano.program @before
// CHECK-NEXT:    %[[P:.*]] = nano.matmul %arg0, %arg1
// CHECK-NEXT:    nano.transpose %[[P]]
// CHECK-NEXT:    %[[Y:.*]]:2 = nano.fused(%[[P]], %arg0, %arg2)
nano.program @before(%x: tensor<32768x1024xbf16>, %g: tensor<2816x1024xbf16>, %u: tensor<2816x1024xbf16>) -> (tensor<32768x2816xbf16>, tensor<2816x32768xbf16>, tensor<32768x2816xbf16>) {
  // expected-remark @below {{apart from the other one that its kernel reads: others read it before}}
  // expected-remark @below {{left to the library: others read it before}}
  %p = nano.matmul %x, %g {transpose_b} : (tensor<32768x1024xbf16>, tensor<2816x1024xbf16>) -> tensor<32768x2816xbf16>
  // expected-remark @below {{apart from the other one that its kernel reads: others read it before}}
  // expected-remark @below {{computed by the kernel that reads it}}
  %q = nano.matmul %x, %u {transpose_b} : (tensor<32768x1024xbf16>, tensor<2816x1024xbf16>) -> tensor<32768x2816xbf16>
  %z = nano.transpose %p : tensor<32768x2816xbf16> -> tensor<2816x32768xbf16>
  %y = nano.fused(%p, %q) : (tensor<32768x2816xbf16>, tensor<32768x2816xbf16>) -> tensor<32768x2816xbf16> {
  ^bb0(%a: tensor<32768x2816xbf16>, %b: tensor<32768x2816xbf16>):
    %h = nano.mul %a, %b : tensor<32768x2816xbf16>
    nano.yield %h : tensor<32768x2816xbf16>
  }
  nano.return %y, %z, %q : tensor<32768x2816xbf16>, tensor<2816x32768xbf16>, tensor<32768x2816xbf16>
}

// -----

// CHECK-LABEL: nano.program @few
// CHECK-COUNT-2: {{^    %.* = nano.matmul}}
nano.program @few(%x: tensor<256x1024xbf16>, %g: tensor<512x1024xbf16>, %u: tensor<512x1024xbf16>) -> (tensor<256x512xbf16>, tensor<256x512xbf16>, tensor<256x512xbf16>) {
  // expected-remark @below {{apart from the other one that its kernel reads: it has fewer tiles than the machine has multiprocessors}}
  // expected-remark @below {{left to the library: it has fewer tiles than the machine has multiprocessors}}
  %p = nano.matmul %x, %g {transpose_b} : (tensor<256x1024xbf16>, tensor<512x1024xbf16>) -> tensor<256x512xbf16>
  // expected-remark @below {{apart from the other one that its kernel reads: it has fewer tiles than the machine has multiprocessors}}
  // expected-remark @below {{left to the library: it has fewer tiles than the machine has multiprocessors}}
  %q = nano.matmul %x, %u {transpose_b} : (tensor<256x1024xbf16>, tensor<512x1024xbf16>) -> tensor<256x512xbf16>
  %y = nano.fused(%p, %q) : (tensor<256x512xbf16>, tensor<256x512xbf16>) -> tensor<256x512xbf16> {
  ^bb0(%a: tensor<256x512xbf16>, %b: tensor<256x512xbf16>):
    %h = nano.mul %a, %b : tensor<256x512xbf16>
    nano.yield %h : tensor<256x512xbf16>
  }
  nano.return %y, %p, %q : tensor<256x512xbf16>, tensor<256x512xbf16>, tensor<256x512xbf16>
}

// -----

// The library's speed counts for more where results are small beside the work.
// CHECK-LABEL: nano.program @long
// CHECK-COUNT-2: {{^    %.* = nano.matmul}}
nano.program @long(%x: tensor<8192x16384xbf16>, %g: tensor<4096x16384xbf16>, %u: tensor<4096x16384xbf16>) -> (tensor<8192x4096xbf16>, tensor<8192x4096xbf16>, tensor<8192x4096xbf16>) {
  // expected-remark @below {{apart from the other one that its kernel reads: that is predicted to be faster}}
  // expected-remark @below {{left to the library: that is predicted to be faster}}
  %p = nano.matmul %x, %g {transpose_b} : (tensor<8192x16384xbf16>, tensor<4096x16384xbf16>) -> tensor<8192x4096xbf16>
  // expected-remark @below {{apart from the other one that its kernel reads: that is predicted to be faster}}
  // expected-remark @below {{left to the library: that is predicted to be faster}}
  %q = nano.matmul %x, %u {transpose_b} : (tensor<8192x16384xbf16>, tensor<4096x16384xbf16>) -> tensor<8192x4096xbf16>
  %y = nano.fused(%p, %q) : (tensor<8192x4096xbf16>, tensor<8192x4096xbf16>) -> tensor<8192x4096xbf16> {
  ^bb0(%a: tensor<8192x4096xbf16>, %b: tensor<8192x4096xbf16>):
    %h = nano.mul %a, %b : tensor<8192x4096xbf16>
    nano.yield %h : tensor<8192x4096xbf16>
  }
  nano.return %y, %p, %q : tensor<8192x4096xbf16>, tensor<8192x4096xbf16>, tensor<8192x4096xbf16>
}
