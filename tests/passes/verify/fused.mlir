// RUN: nano-opt %s -nano-verify-fused -split-input-file -verify-diagnostics

// Right.
nano.program @f(%x: tensor<8x8xf32>) -> tensor<64xf32> {
  %y = nano.fused (%x) : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%a: tensor<8x8xf32>):
    %e = nano.exp %a : tensor<8x8xf32>
    nano.yield %e : tensor<8x8xf32>
  }
  %z = nano.matmul %y, %y : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = nano.reshape %z : tensor<8x8xf32> -> tensor<64xf32>
  nano.return %r : tensor<64xf32>
}

// -----

nano.program @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{outside of kernels: nano-fuse puts it into a nano.fused}}
  %e = nano.exp %x : tensor<8xf32>
  nano.return %e : tensor<8xf32>
}

// -----

nano.program @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = nano.fused (%x) : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%a: tensor<8x8xf32>):
    // expected-error @below {{inside nano.fused: it must stand by itself}}
    %z = nano.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    nano.yield %z : tensor<8x8xf32>
  }
  nano.return %y : tensor<8x8xf32>
}

// -----

// A product that the kernel ends element by element is right.
nano.program @f(%x: tensor<8x8xbf16>, %o: tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  %y = nano.fused (%x, %o) : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  ^bb0(%a: tensor<8x8xbf16>, %b: tensor<8x8xbf16>):
    %z = nano.matmul %a, %a : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
    %s = nano.mul %z, %b : tensor<8x8xbf16>
    nano.yield %s : tensor<8x8xbf16>
  }
  nano.return %y : tensor<8x8xbf16>
}

// -----

nano.program @f(%x: tensor<8x8xbf16>) -> tensor<8xf32> {
  %y = nano.fused (%x) : (tensor<8x8xbf16>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8x8xbf16>):
    // expected-error @below {{inside nano.fused: it must stand by itself: its kernel has a nano.reduce}}
    %z = nano.matmul %a, %a : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
    %f = nano.cast %z : tensor<8x8xbf16> -> tensor<8x8xf32>
    %s = nano.reduce sum %f dims [1] : tensor<8x8xf32> -> tensor<8xf32>
    nano.yield %s : tensor<8xf32>
  }
  nano.return %y : tensor<8xf32>
}

// -----

// Sums over each 128 columns are right, as results; those of others, or that are used again, are not.
nano.program @f(%x: tensor<8x16xf8E4M3FN>, %w: tensor<256x16xf8E4M3FN>, %o: tensor<f32>) -> tensor<8x2xf32> {
  %y = nano.fused (%x, %w, %o) : (tensor<8x16xf8E4M3FN>, tensor<256x16xf8E4M3FN>, tensor<f32>) -> tensor<8x2xf32> {
  ^bb0(%a: tensor<8x16xf8E4M3FN>, %b: tensor<256x16xf8E4M3FN>, %c: tensor<f32>):
    %z = nano.scaled_matmul %a, %b scales(%c, %c) {transpose_b} : (tensor<8x16xf8E4M3FN>, tensor<256x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<8x256xbf16>
    %f = nano.cast %z : tensor<8x256xbf16> -> tensor<8x256xf32>
    %r = nano.reshape %f : tensor<8x256xf32> -> tensor<8x2x128xf32>
    %s = nano.reduce sum %r dims [2] : tensor<8x2x128xf32> -> tensor<8x2xf32>
    nano.yield %s : tensor<8x2xf32>
  }
  nano.return %y : tensor<8x2xf32>
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %w: tensor<16x256xbf16>) -> tensor<8x4xf32> {
  %y = nano.fused (%x, %w) : (tensor<8x16xbf16>, tensor<16x256xbf16>) -> tensor<8x4xf32> {
  ^bb0(%a: tensor<8x16xbf16>, %b: tensor<16x256xbf16>):
    // expected-error @below {{inside nano.fused: it must stand by itself: its kernel has a nano.reshape}}
    %z = nano.matmul %a, %b : (tensor<8x16xbf16>, tensor<16x256xbf16>) -> tensor<8x256xbf16>
    %f = nano.cast %z : tensor<8x256xbf16> -> tensor<8x256xf32>
    %r = nano.reshape %f : tensor<8x256xf32> -> tensor<8x4x64xf32>
    %s = nano.reduce sum %r dims [2] : tensor<8x4x64xf32> -> tensor<8x4xf32>
    nano.yield %s : tensor<8x4xf32>
  }
  nano.return %y : tensor<8x4xf32>
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %w: tensor<16x256xbf16>) -> tensor<8x2xf32> {
  %y = nano.fused (%x, %w) : (tensor<8x16xbf16>, tensor<16x256xbf16>) -> tensor<8x2xf32> {
  ^bb0(%a: tensor<8x16xbf16>, %b: tensor<16x256xbf16>):
    // expected-error @below {{inside nano.fused: it must stand by itself: its kernel has a nano.reshape}}
    %z = nano.matmul %a, %b : (tensor<8x16xbf16>, tensor<16x256xbf16>) -> tensor<8x256xbf16>
    %f = nano.cast %z : tensor<8x256xbf16> -> tensor<8x256xf32>
    %r = nano.reshape %f : tensor<8x256xf32> -> tensor<8x2x128xf32>
    %s = nano.reduce sum %r dims [2] : tensor<8x2x128xf32> -> tensor<8x2xf32>
    %l = nano.log %s : tensor<8x2xf32>
    nano.yield %l : tensor<8x2xf32>
  }
  nano.return %y : tensor<8x2xf32>
}

// -----

// What the device library does not multiply.
nano.program @f(%x: tensor<16x8xf8E5M2>, %w: tensor<256x16xf8E4M3FN>, %o: tensor<f32>) -> tensor<8x256xbf16> {
  %y = nano.fused (%x, %w, %o) : (tensor<16x8xf8E5M2>, tensor<256x16xf8E4M3FN>, tensor<f32>) -> tensor<8x256xbf16> {
  ^bb0(%a: tensor<16x8xf8E5M2>, %b: tensor<256x16xf8E4M3FN>, %c: tensor<f32>):
    // expected-error @below {{inside nano.fused: it must stand by itself: its first operand is transposed}}
    %z = nano.scaled_matmul %a, %b scales(%c, %c) {transpose_a, transpose_b} : (tensor<16x8xf8E5M2>, tensor<256x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<8x256xbf16>
    nano.yield %z : tensor<8x256xbf16>
  }
  nano.return %y : tensor<8x256xbf16>
}

// -----

// Nor may it come after other ops.
nano.program @f(%x: tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  %y = nano.fused (%x) : (tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  ^bb0(%a: tensor<8x8xbf16>):
    %n = nano.neg %a : tensor<8x8xbf16>
    // expected-error @below {{inside nano.fused: it must stand by itself}}
    %z = nano.matmul %n, %a : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
    nano.yield %z : tensor<8x8xbf16>
  }
  nano.return %y : tensor<8x8xbf16>
}

// -----

nano.program @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{reads operand 1, which none of its ops does}}
  %z = nano.fused (%x, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    %e = nano.exp %a : tensor<8xf32>
    nano.yield %e : tensor<8xf32>
  }
  nano.return %z : tensor<8xf32>
}

// -----

// Attention's gradients with the sums of one's columns.
nano.program @f(%q: tensor<64x2x16xbf16>, %f: tensor<64xi32>, %e: tensor<64x2xf32>) -> tensor<1x2x16xf32> {
  %y:4 = nano.fused (%q, %f, %e) : (tensor<64x2x16xbf16>, tensor<64xi32>, tensor<64x2xf32>) -> (tensor<64x2x16xbf16>, tensor<64x2x16xbf16>, tensor<64x2x16xbf16>, tensor<1x2x16xf32>) {
  ^bb0(%a: tensor<64x2x16xbf16>, %b: tensor<64xi32>, %c: tensor<64x2xf32>):
    %dq, %dk, %dv = nano.attention_grad %a, %a, %a, %b, %b, %c, %c, %a scale 1.0
        : (tensor<64x2x16xbf16>, tensor<64x2x16xbf16>, tensor<64x2x16xbf16>, tensor<64xi32>, tensor<64xi32>, tensor<64x2xf32>, tensor<64x2xf32>, tensor<64x2x16xbf16>) -> (tensor<64x2x16xbf16>, tensor<64x2x16xbf16>, tensor<64x2x16xbf16>)
    %w = nano.cast %dk : tensor<64x2x16xbf16> -> tensor<64x2x16xf32>
    %p = nano.reshape %w : tensor<64x2x16xf32> -> tensor<1x64x2x16xf32>
    %s = nano.reduce sum %p dims [1] : tensor<1x64x2x16xf32> -> tensor<1x2x16xf32>
    nano.yield %dq, %dk, %dv, %s : tensor<64x2x16xbf16>, tensor<64x2x16xbf16>, tensor<64x2x16xbf16>, tensor<1x2x16xf32>
  }
  nano.return %y#3 : tensor<1x2x16xf32>
}

// -----

nano.program @f(%q: tensor<64x2x16xbf16>, %f: tensor<64xi32>, %e: tensor<64x2xf32>) -> tensor<64x2x16xf32> {
  %y:4 = nano.fused (%q, %f, %e) : (tensor<64x2x16xbf16>, tensor<64xi32>, tensor<64x2xf32>) -> (tensor<64x2x16xbf16>, tensor<64x2x16xbf16>, tensor<64x2x16xbf16>, tensor<64x2x16xf32>) {
  ^bb0(%a: tensor<64x2x16xbf16>, %b: tensor<64xi32>, %c: tensor<64x2xf32>):
    // expected-error @below {{inside nano.fused: it must stand by itself: a result is neither one of attention's gradients nor the sums of one's columns}}
    %dq, %dk, %dv = nano.attention_grad %a, %a, %a, %b, %b, %c, %c, %a scale 1.0
        : (tensor<64x2x16xbf16>, tensor<64x2x16xbf16>, tensor<64x2x16xbf16>, tensor<64xi32>, tensor<64xi32>, tensor<64x2xf32>, tensor<64x2xf32>, tensor<64x2x16xbf16>) -> (tensor<64x2x16xbf16>, tensor<64x2x16xbf16>, tensor<64x2x16xbf16>)
    %w = nano.cast %dk : tensor<64x2x16xbf16> -> tensor<64x2x16xf32>
    nano.yield %dq, %dk, %dv, %w : tensor<64x2x16xbf16>, tensor<64x2x16xbf16>, tensor<64x2x16xbf16>, tensor<64x2x16xf32>
  }
  nano.return %y#3 : tensor<64x2x16xf32>
}
