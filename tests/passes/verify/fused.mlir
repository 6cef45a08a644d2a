// RUN: nano-opt %s -nano-verify-fused -split-input-file -verify-diagnostics

// Right.
func.func @f(%x: tensor<8x8xf32>) -> tensor<64xf32> {
  %y = nano.fused (%x) : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%a: tensor<8x8xf32>):
    %e = nano.exp %a : tensor<8x8xf32>
    nano.yield %e : tensor<8x8xf32>
  }
  %z = nano.matmul %y, %y : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = nano.reshape %z : tensor<8x8xf32> -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{outside of kernels: nano-fuse puts it into a nano.fused}}
  %e = nano.exp %x : tensor<8xf32>
  return %e : tensor<8xf32>
}

// -----

func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = nano.fused (%x) : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%a: tensor<8x8xf32>):
    // expected-error @below {{inside nano.fused: it must stand by itself}}
    %z = nano.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    nano.yield %z : tensor<8x8xf32>
  }
  return %y : tensor<8x8xf32>
}

// -----

// A product that the kernel ends element by element is right.
func.func @f(%x: tensor<8x8xbf16>, %o: tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  %y = nano.fused (%x, %o) : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  ^bb0(%a: tensor<8x8xbf16>, %b: tensor<8x8xbf16>):
    %z = nano.matmul %a, %a : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
    %s = nano.mul %z, %b : tensor<8x8xbf16>
    nano.yield %s : tensor<8x8xbf16>
  }
  return %y : tensor<8x8xbf16>
}

// -----

func.func @f(%x: tensor<8x8xbf16>) -> tensor<8xf32> {
  %y = nano.fused (%x) : (tensor<8x8xbf16>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8x8xbf16>):
    // expected-error @below {{inside nano.fused: it must stand by itself: its kernel has a nano.reduce}}
    %z = nano.matmul %a, %a : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
    %f = nano.cast %z : tensor<8x8xbf16> -> tensor<8x8xf32>
    %s = nano.reduce sum %f dims [1] : tensor<8x8xf32> -> tensor<8xf32>
    nano.yield %s : tensor<8xf32>
  }
  return %y : tensor<8xf32>
}

// -----

// Nor may it come after other ops.
func.func @f(%x: tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  %y = nano.fused (%x) : (tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  ^bb0(%a: tensor<8x8xbf16>):
    %n = nano.neg %a : tensor<8x8xbf16>
    // expected-error @below {{inside nano.fused: it must stand by itself}}
    %z = nano.matmul %n, %a : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
    nano.yield %z : tensor<8x8xbf16>
  }
  return %y : tensor<8x8xbf16>
}
