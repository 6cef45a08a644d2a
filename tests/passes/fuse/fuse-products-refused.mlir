// What no generated kernel computes stays with the library, and a remark says why: no product is inside of a kernel.
// RUN: nano-opt %s -nano-fuse-products="products=fused report" -split-input-file -verify-diagnostics | FileCheck %s --implicit-check-not="{{^      %.* = nano.matmul}}"
// CHECK-COUNT-14: {{^    %.* = nano.matmul}}

func.func @batch(%x: tensor<2x4096x256xbf16>, %w: tensor<2x256x512xbf16>) -> tensor<2x4096x512xbf16> {
  // expected-remark @below {{left to the library: it is a batch of products}}
  %p = nano.matmul %x, %w : (tensor<2x4096x256xbf16>, tensor<2x256x512xbf16>) -> tensor<2x4096x512xbf16>
  %y = nano.fused(%p) : (tensor<2x4096x512xbf16>) -> tensor<2x4096x512xbf16> {
  ^bb0(%a: tensor<2x4096x512xbf16>):
    %s = nano.mul %a, %a : tensor<2x4096x512xbf16>
    nano.yield %s : tensor<2x4096x512xbf16>
  }
  return %y : tensor<2x4096x512xbf16>
}

// -----

func.func @wide(%x: tensor<4096x256xf32>, %w: tensor<256x512xf32>) -> tensor<4096x512xf32> {
  // expected-remark @below {{left to the library: its operands are not bf16}}
  %p = nano.matmul %x, %w : (tensor<4096x256xf32>, tensor<256x512xf32>) -> tensor<4096x512xf32>
  %y = nano.fused(%p) : (tensor<4096x512xf32>) -> tensor<4096x512xf32> {
  ^bb0(%a: tensor<4096x512xf32>):
    %s = nano.mul %a, %a : tensor<4096x512xf32>
    nano.yield %s : tensor<4096x512xf32>
  }
  return %y : tensor<4096x512xf32>
}

// -----

func.func @transposed(%x: tensor<256x4096xbf16>, %w: tensor<256x512xbf16>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: its first operand is transposed}}
  %p = nano.matmul %x, %w {transpose_a} : (tensor<256x4096xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %s = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %s : tensor<4096x512xbf16>
  }
  return %y : tensor<4096x512xbf16>
}

// -----

func.func @sum(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>, %c: tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: it has an addend}}
  %p = nano.matmul %x, %w add %c : (tensor<4096x256xbf16>, tensor<256x512xbf16>, tensor<4096x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %s = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %s : tensor<4096x512xbf16>
  }
  return %y : tensor<4096x512xbf16>
}

// -----

func.func @scaled(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: it has a factor}}
  %p = nano.matmul %x, %w {alpha = 2.0 : f64} : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %s = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %s : tensor<4096x512xbf16>
  }
  return %y : tensor<4096x512xbf16>
}

// -----

func.func @narrow(%x: tensor<4096x256xbf16>, %w: tensor<256x12xbf16>) -> tensor<4096x12xbf16> {
  // expected-remark @below {{left to the library: its rows are no multiples of 16 bytes}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x12xbf16>) -> tensor<4096x12xbf16>
  %y = nano.fused(%p) : (tensor<4096x12xbf16>) -> tensor<4096x12xbf16> {
  ^bb0(%a: tensor<4096x12xbf16>):
    %s = nano.mul %a, %a : tensor<4096x12xbf16>
    nano.yield %s : tensor<4096x12xbf16>
  }
  return %y : tensor<4096x12xbf16>
}

// -----

func.func @thin(%x: tensor<4096x12xbf16>, %w: tensor<12x512xbf16>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: its rows are no multiples of 16 bytes}}
  %p = nano.matmul %x, %w : (tensor<4096x12xbf16>, tensor<12x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %s = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %s : tensor<4096x512xbf16>
  }
  return %y : tensor<4096x512xbf16>
}

// -----

func.func @reduction(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> (tensor<4096xf32>) {
  // expected-remark @below {{left to the library: its kernel has a nano.reduce}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> (tensor<4096xf32>) {
  ^bb0(%a: tensor<4096x512xbf16>):
    %f = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf32>
    %s = nano.reduce sum %f dims [1] : tensor<4096x512xf32> -> tensor<4096xf32>
    nano.yield %s : tensor<4096xf32>
  }
  return %y : tensor<4096xf32>
}

// -----

func.func @rows(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>, %o0: tensor<4096xbf16>) -> (tensor<4096x512xbf16>) {
  // expected-remark @below {{left to the library: its kernel reads more than whole matrices, columns and numbers}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p, %o0) : (tensor<4096x512xbf16>, tensor<4096xbf16>) -> (tensor<4096x512xbf16>) {
  ^bb0(%a: tensor<4096x512xbf16>, %b0: tensor<4096xbf16>):
    %s = nano.broadcast %b0 dims [0] : tensor<4096xbf16> -> tensor<4096x512xbf16>
    %m = nano.mul %a, %s : tensor<4096x512xbf16>
    nano.yield %m : tensor<4096x512xbf16>
  }
  return %y : tensor<4096x512xbf16>
}

// -----

func.func @short_number(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>, %o0: tensor<bf16>) -> (tensor<4096x512xbf16>) {
  // expected-remark @below {{left to the library: its kernel reads more than whole matrices, columns and numbers}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p, %o0) : (tensor<4096x512xbf16>, tensor<bf16>) -> (tensor<4096x512xbf16>) {
  ^bb0(%a: tensor<4096x512xbf16>, %b0: tensor<bf16>):
    %s = nano.broadcast %b0 dims [] : tensor<bf16> -> tensor<4096x512xbf16>
    %m = nano.mul %a, %s : tensor<4096x512xbf16>
    nano.yield %m : tensor<4096x512xbf16>
  }
  return %y : tensor<4096x512xbf16>
}

// -----

func.func @eight_bits(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> (tensor<4096x512xf8E4M3FN>) {
  // expected-remark @below {{left to the library: its kernel has values of other sizes or of 8 bits}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> (tensor<4096x512xf8E4M3FN>) {
  ^bb0(%a: tensor<4096x512xbf16>):
    %m = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf8E4M3FN>
    nano.yield %m : tensor<4096x512xf8E4M3FN>
  }
  return %y : tensor<4096x512xf8E4M3FN>
}

// -----

func.func @columns(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>, %o0: tensor<512xbf16>) -> (tensor<4096x512xbf16>, tensor<512xbf16>) {
  // expected-remark @below {{left to the library: its kernel has results of other sizes}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y:2 = nano.fused(%p, %o0) : (tensor<4096x512xbf16>, tensor<512xbf16>) -> (tensor<4096x512xbf16>, tensor<512xbf16>) {
  ^bb0(%a: tensor<4096x512xbf16>, %b0: tensor<512xbf16>):
    %n = nano.neg %b0 : tensor<512xbf16>
    %m = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %m, %n : tensor<4096x512xbf16>, tensor<512xbf16>
  }
  return %y#0, %y#1 : tensor<4096x512xbf16>, tensor<512xbf16>
}

// -----

func.func @turned(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> (tensor<512x4096xbf16>) {
  // expected-remark @below {{left to the library: a result of its kernel is needed transposed}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> (tensor<4096x512xbf16>) {
  ^bb0(%a: tensor<4096x512xbf16>):
    %m = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %m : tensor<4096x512xbf16>
  }
  %t = nano.transpose %y : tensor<4096x512xbf16> -> tensor<512x4096xbf16>
  return %t : tensor<512x4096xbf16>
}

// -----

func.func @long_sums(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> tensor<4096x512xf32> {
  // expected-remark @below {{left to the library: its result is not bf16}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xf32>
  %y = nano.fused(%p) : (tensor<4096x512xf32>) -> tensor<4096x512xf32> {
  ^bb0(%a: tensor<4096x512xf32>):
    %s = nano.mul %a, %a : tensor<4096x512xf32>
    nano.yield %s : tensor<4096x512xf32>
  }
  return %y : tensor<4096x512xf32>
}
