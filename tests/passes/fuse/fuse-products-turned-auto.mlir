// By the machine's rates: a product that turns its first factor saves writing it twice, which gains more than the
// product loses against the library's unless it has many columns, or a last round of tiles that only few blocks have: it
// does not cut its sums into parts, as the library does then. A remark says what became of it.
// RUN: nano-opt %s -nano-fuse-products="machine=h200-nvlink report" -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: nano.program @head
// CHECK-NOT:     nano.transpose
// CHECK:         nano.scaled_matmul {{.*}}transpose_a
// CHECK-LABEL: nano.program @columns
// CHECK:         nano.transpose
// CHECK-LABEL: nano.program @rounds
// CHECK:         nano.transpose
// CHECK-LABEL: nano.program @small
// CHECK:         nano.transpose

nano.program @head(%g: tensor<4096x50304xbf16>, %x: tensor<768x4096xf8E4M3FN>, %s: tensor<f32>) -> (tensor<50304x768xf32>, tensor<4096x50304xf8E5M2>) {
  %q = nano.fused(%g) : (tensor<4096x50304xbf16>) -> tensor<4096x50304xf8E5M2> {
  ^bb0(%a: tensor<4096x50304xbf16>):
    %n = nano.cast %a : tensor<4096x50304xbf16> -> tensor<4096x50304xf8E5M2>
    nano.yield %n : tensor<4096x50304xf8E5M2>
  }
  %t = nano.transpose %q : tensor<4096x50304xf8E5M2> -> tensor<50304x4096xf8E5M2>
  // expected-remark @below {{computed by a kernel that turns its first operand}}
  %d = nano.scaled_matmul %t, %x scales(%s, %s) {transpose_b}
      : (tensor<50304x4096xf8E5M2>, tensor<768x4096xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<50304x768xf32>
  nano.return %d, %q : tensor<50304x768xf32>, tensor<4096x50304xf8E5M2>
}

// -----

nano.program @columns(%g: tensor<4096x50304xbf16>, %x: tensor<4096x4096xf8E4M3FN>, %s: tensor<f32>) -> (tensor<50304x4096xf32>, tensor<4096x50304xf8E5M2>) {
  %q = nano.fused(%g) : (tensor<4096x50304xbf16>) -> tensor<4096x50304xf8E5M2> {
  ^bb0(%a: tensor<4096x50304xbf16>):
    %n = nano.cast %a : tensor<4096x50304xbf16> -> tensor<4096x50304xf8E5M2>
    nano.yield %n : tensor<4096x50304xf8E5M2>
  }
  %t = nano.transpose %q : tensor<4096x50304xf8E5M2> -> tensor<50304x4096xf8E5M2>
  // expected-remark @below {{left to the library: that is predicted to be faster}}
  %d = nano.scaled_matmul %t, %x scales(%s, %s) {transpose_b}
      : (tensor<50304x4096xf8E5M2>, tensor<4096x4096xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<50304x4096xf32>
  nano.return %d, %q : tensor<50304x4096xf32>, tensor<4096x50304xf8E5M2>
}

// -----

// 266 tiles of 132 multiprocessors.
nano.program @rounds(%g: tensor<16384x4800xbf16>, %x: tensor<1600x16384xf8E4M3FN>, %s: tensor<f32>) -> (tensor<4800x1600xf32>, tensor<16384x4800xf8E5M2>) {
  %q = nano.fused(%g) : (tensor<16384x4800xbf16>) -> tensor<16384x4800xf8E5M2> {
  ^bb0(%a: tensor<16384x4800xbf16>):
    %n = nano.cast %a : tensor<16384x4800xbf16> -> tensor<16384x4800xf8E5M2>
    nano.yield %n : tensor<16384x4800xf8E5M2>
  }
  %t = nano.transpose %q : tensor<16384x4800xf8E5M2> -> tensor<4800x16384xf8E5M2>
  // expected-remark @below {{left to the library: that is predicted to be faster}}
  %d = nano.scaled_matmul %t, %x scales(%s, %s) {transpose_b}
      : (tensor<4800x16384xf8E5M2>, tensor<1600x16384xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<4800x1600xf32>
  nano.return %d, %q : tensor<4800x1600xf32>, tensor<16384x4800xf8E5M2>
}

// -----

nano.program @small(%g: tensor<4096x768xbf16>, %x: tensor<768x4096xf8E4M3FN>, %s: tensor<f32>) -> (tensor<768x768xf32>, tensor<4096x768xf8E5M2>) {
  %q = nano.fused(%g) : (tensor<4096x768xbf16>) -> tensor<4096x768xf8E5M2> {
  ^bb0(%a: tensor<4096x768xbf16>):
    %n = nano.cast %a : tensor<4096x768xbf16> -> tensor<4096x768xf8E5M2>
    nano.yield %n : tensor<4096x768xf8E5M2>
  }
  %t = nano.transpose %q : tensor<4096x768xf8E5M2> -> tensor<768x4096xf8E5M2>
  // expected-remark @below {{left to the library: it has fewer tiles than the machine has multiprocessors}}
  %d = nano.scaled_matmul %t, %x scales(%s, %s) {transpose_b}
      : (tensor<768x4096xf8E5M2>, tensor<768x4096xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<768x768xf32>
  nano.return %d, %q : tensor<768x768xf32>, tensor<4096x768xf8E5M2>
}
