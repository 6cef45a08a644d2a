// What no generated kernel computes stays with the library, and a remark says why: no product is inside of a kernel.
// RUN: nano-opt %s -nano-fuse-products="products=fused report" -split-input-file -verify-diagnostics | FileCheck %s --implicit-check-not="{{^      %.* = nano.(scaled_)?matmul}}"
// CHECK-COUNT-33: {{^    %.* = nano.(scaled_)?matmul}}

nano.program @batch(%x: tensor<2x4096x256xbf16>, %w: tensor<2x256x512xbf16>) -> tensor<2x4096x512xbf16> {
  // expected-remark @below {{left to the library: it is a batch of products}}
  %p = nano.matmul %x, %w : (tensor<2x4096x256xbf16>, tensor<2x256x512xbf16>) -> tensor<2x4096x512xbf16>
  %y = nano.fused(%p) : (tensor<2x4096x512xbf16>) -> tensor<2x4096x512xbf16> {
  ^bb0(%a: tensor<2x4096x512xbf16>):
    %s = nano.mul %a, %a : tensor<2x4096x512xbf16>
    nano.yield %s : tensor<2x4096x512xbf16>
  }
  nano.return %y : tensor<2x4096x512xbf16>
}

// -----

nano.program @wide(%x: tensor<4096x256xf32>, %w: tensor<256x512xf32>) -> tensor<4096x512xf32> {
  // expected-remark @below {{left to the library: its operands are not bf16}}
  %p = nano.matmul %x, %w : (tensor<4096x256xf32>, tensor<256x512xf32>) -> tensor<4096x512xf32>
  %y = nano.fused(%p) : (tensor<4096x512xf32>) -> tensor<4096x512xf32> {
  ^bb0(%a: tensor<4096x512xf32>):
    %s = nano.mul %a, %a : tensor<4096x512xf32>
    nano.yield %s : tensor<4096x512xf32>
  }
  nano.return %y : tensor<4096x512xf32>
}

// -----

nano.program @transposed(%x: tensor<256x4096xbf16>, %w: tensor<256x512xbf16>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: its first operand is transposed}}
  %p = nano.matmul %x, %w {transpose_a} : (tensor<256x4096xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %s = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %s : tensor<4096x512xbf16>
  }
  nano.return %y : tensor<4096x512xbf16>
}

// -----

nano.program @sum(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>, %c: tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: it has an addend}}
  %p = nano.matmul %x, %w add %c : (tensor<4096x256xbf16>, tensor<256x512xbf16>, tensor<4096x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %s = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %s : tensor<4096x512xbf16>
  }
  nano.return %y : tensor<4096x512xbf16>
}

// -----

nano.program @scaled(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: it has a factor}}
  %p = nano.matmul %x, %w {alpha = 2.0 : f64} : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %s = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %s : tensor<4096x512xbf16>
  }
  nano.return %y : tensor<4096x512xbf16>
}

// -----

nano.program @narrow(%x: tensor<4096x256xbf16>, %w: tensor<256x12xbf16>) -> tensor<4096x12xbf16> {
  // expected-remark @below {{left to the library: its rows are no multiples of 16 bytes}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x12xbf16>) -> tensor<4096x12xbf16>
  %y = nano.fused(%p) : (tensor<4096x12xbf16>) -> tensor<4096x12xbf16> {
  ^bb0(%a: tensor<4096x12xbf16>):
    %s = nano.mul %a, %a : tensor<4096x12xbf16>
    nano.yield %s : tensor<4096x12xbf16>
  }
  nano.return %y : tensor<4096x12xbf16>
}

// -----

nano.program @thin(%x: tensor<4096x12xbf16>, %w: tensor<12x512xbf16>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: its rows are no multiples of 16 bytes}}
  %p = nano.matmul %x, %w : (tensor<4096x12xbf16>, tensor<12x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %s = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %s : tensor<4096x512xbf16>
  }
  nano.return %y : tensor<4096x512xbf16>
}

// -----

nano.program @largest(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> (tensor<4096xf32>) {
  // expected-remark @below {{left to the library: its maxima of rows are read for more than the largest of all}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> (tensor<4096xf32>) {
  ^bb0(%a: tensor<4096x512xbf16>):
    %f = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf32>
    %s = nano.reduce max %f dims [1] : tensor<4096x512xf32> -> tensor<4096xf32>
    nano.yield %s : tensor<4096xf32>
  }
  nano.return %y : tensor<4096xf32>
}

// -----

nano.program @short_sum(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> (tensor<4096xbf16>) {
  // expected-remark @below {{left to the library: its kernel reduces otherwise than to sums of rows in f32}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> (tensor<4096xbf16>) {
  ^bb0(%a: tensor<4096x512xbf16>):
    %s = nano.reduce sum %a dims [1] : tensor<4096x512xbf16> -> tensor<4096xbf16>
    nano.yield %s : tensor<4096xbf16>
  }
  nano.return %y : tensor<4096xbf16>
}

// -----

nano.program @column_sum(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> (tensor<512xf32>) {
  // expected-remark @below {{left to the library: its kernel reduces otherwise than to sums of rows in f32}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> (tensor<512xf32>) {
  ^bb0(%a: tensor<4096x512xbf16>):
    %f = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf32>
    %s = nano.reduce sum %f dims [0] : tensor<4096x512xf32> -> tensor<512xf32>
    nano.yield %s : tensor<512xf32>
  }
  nano.return %y : tensor<512xf32>
}

// -----

nano.program @odd_rows(%x: tensor<4096x256xbf16>, %w: tensor<256x320xbf16>) -> (tensor<4096xf32>) {
  // expected-remark @below {{left to the library: its rows are no multiples of 128 columns}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x320xbf16>) -> tensor<4096x320xbf16>
  %y = nano.fused(%p) : (tensor<4096x320xbf16>) -> (tensor<4096xf32>) {
  ^bb0(%a: tensor<4096x320xbf16>):
    %f = nano.cast %a : tensor<4096x320xbf16> -> tensor<4096x320xf32>
    %s = nano.reduce sum %f dims [1] : tensor<4096x320xf32> -> tensor<4096xf32>
    nano.yield %s : tensor<4096xf32>
  }
  nano.return %y : tensor<4096xf32>
}

// -----

// The second sum needs the first one of the row.
nano.program @two_sums(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> (tensor<4096xf32>) {
  // expected-remark @below {{left to the library: its kernel has a nano.reduce}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> (tensor<4096xf32>) {
  ^bb0(%a: tensor<4096x512xbf16>):
    %f = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf32>
    %s = nano.reduce sum %f dims [1] : tensor<4096x512xf32> -> tensor<4096xf32>
    %b = nano.broadcast %s dims [0] : tensor<4096xf32> -> tensor<4096x512xf32>
    %d = nano.sub %f, %b : tensor<4096x512xf32>
    %q = nano.mul %d, %d : tensor<4096x512xf32>
    %v = nano.reduce sum %q dims [1] : tensor<4096x512xf32> -> tensor<4096xf32>
    nano.yield %v : tensor<4096xf32>
  }
  nano.return %y : tensor<4096xf32>
}

// -----

nano.program @sum_of_rows(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>, %o0: tensor<4096xf32>) -> (tensor<4096xf32>) {
  // expected-remark @below {{left to the library: its kernel reads numbers of rows, and sums rows}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p, %o0) : (tensor<4096x512xbf16>, tensor<4096xf32>) -> (tensor<4096xf32>) {
  ^bb0(%a: tensor<4096x512xbf16>, %b: tensor<4096xf32>):
    %f = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf32>
    %c = nano.broadcast %b dims [0] : tensor<4096xf32> -> tensor<4096x512xf32>
    %d = nano.sub %f, %c : tensor<4096x512xf32>
    %s = nano.reduce sum %d dims [1] : tensor<4096x512xf32> -> tensor<4096xf32>
    nano.yield %s : tensor<4096xf32>
  }
  nano.return %y : tensor<4096xf32>
}

// -----

nano.program @unread(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> (tensor<4096x512xf32>) {
  // expected-remark @below {{left to the library: its kernel reads no sums of rows}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> (tensor<4096x512xf32>) {
  ^bb0(%a: tensor<4096x512xbf16>):
    %f = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf32>
    %s = nano.reduce sum %f dims [1] : tensor<4096x512xf32> -> tensor<4096xf32>
    nano.yield %f : tensor<4096x512xf32>
  }
  nano.return %y : tensor<4096x512xf32>
}

// -----

// What a choice of one column adds up is one element.
nano.program @picked(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>, %o0: tensor<4096xi32>) -> (tensor<4096xf32>) {
  // expected-remark @below {{left to the library: its kernel sums no rows}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p, %o0) : (tensor<4096x512xbf16>, tensor<4096xi32>) -> (tensor<4096xf32>) {
  ^bb0(%a: tensor<4096x512xbf16>, %b: tensor<4096xi32>):
    %f = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf32>
    %i = nano.iota 1 : tensor<4096x512xi32>
    %c = nano.broadcast %b dims [0] : tensor<4096xi32> -> tensor<4096x512xi32>
    %z = nano.constant 0.0 : tensor<4096x512xf32>
    %d = nano.select eq, %i, %c, %f, %z : tensor<4096x512xi32>, tensor<4096x512xf32>
    %s = nano.reduce sum %d dims [1] : tensor<4096x512xf32> -> tensor<4096xf32>
    nano.yield %s : tensor<4096xf32>
  }
  nano.return %y : tensor<4096xf32>
}

// -----

nano.program @other_sizes(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> (tensor<2048x2x512xf32>, tensor<4096xf32>) {
  // expected-remark @below {{left to the library: its kernel has values of other sizes}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y:2 = nano.fused(%p) : (tensor<4096x512xbf16>) -> (tensor<2048x2x512xf32>, tensor<4096xf32>) {
  ^bb0(%a: tensor<4096x512xbf16>):
    %f = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf32>
    %s = nano.reduce sum %f dims [1] : tensor<4096x512xf32> -> tensor<4096xf32>
    %r = nano.reshape %f : tensor<4096x512xf32> -> tensor<2048x2x512xf32>
    %e = nano.exp %r : tensor<2048x2x512xf32>
    nano.yield %e, %s : tensor<2048x2x512xf32>, tensor<4096xf32>
  }
  nano.return %y#0, %y#1 : tensor<2048x2x512xf32>, tensor<4096xf32>
}

// -----

nano.program @sum_and_columns(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>, %o0: tensor<512xf32>) -> (tensor<512xf32>, tensor<4096xf32>) {
  // expected-remark @below {{left to the library: its kernel has results of other sizes}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y:2 = nano.fused(%p, %o0) : (tensor<4096x512xbf16>, tensor<512xf32>) -> (tensor<512xf32>, tensor<4096xf32>) {
  ^bb0(%a: tensor<4096x512xbf16>, %b: tensor<512xf32>):
    %f = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf32>
    %s = nano.reduce sum %f dims [1] : tensor<4096x512xf32> -> tensor<4096xf32>
    %e = nano.exp %b : tensor<512xf32>
    nano.yield %e, %s : tensor<512xf32>, tensor<4096xf32>
  }
  nano.return %y#0, %y#1 : tensor<512xf32>, tensor<4096xf32>
}

// -----

nano.program @rows(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>, %o0: tensor<4096xbf16>) -> (tensor<4096x512xbf16>) {
  // expected-remark @below {{left to the library: its kernel reads more than whole matrices, rows, columns and numbers}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p, %o0) : (tensor<4096x512xbf16>, tensor<4096xbf16>) -> (tensor<4096x512xbf16>) {
  ^bb0(%a: tensor<4096x512xbf16>, %b0: tensor<4096xbf16>):
    %s = nano.broadcast %b0 dims [0] : tensor<4096xbf16> -> tensor<4096x512xbf16>
    %m = nano.mul %a, %s : tensor<4096x512xbf16>
    nano.yield %m : tensor<4096x512xbf16>
  }
  nano.return %y : tensor<4096x512xbf16>
}

// -----

nano.program @short_number(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>, %o0: tensor<bf16>) -> (tensor<4096x512xbf16>) {
  // expected-remark @below {{left to the library: its kernel reads more than whole matrices, rows, columns and numbers}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p, %o0) : (tensor<4096x512xbf16>, tensor<bf16>) -> (tensor<4096x512xbf16>) {
  ^bb0(%a: tensor<4096x512xbf16>, %b0: tensor<bf16>):
    %s = nano.broadcast %b0 dims [] : tensor<bf16> -> tensor<4096x512xbf16>
    %m = nano.mul %a, %s : tensor<4096x512xbf16>
    nano.yield %m : tensor<4096x512xbf16>
  }
  nano.return %y : tensor<4096x512xbf16>
}

// -----

nano.program @eight_bits(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> (tensor<4096x512xbf16>) {
  // expected-remark @below {{left to the library: its kernel has values of other sizes or of 8 bits}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> (tensor<4096x512xbf16>) {
  ^bb0(%a: tensor<4096x512xbf16>):
    %m = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf8E4M3FN>
    %n = nano.cast %m : tensor<4096x512xf8E4M3FN> -> tensor<4096x512xbf16>
    nano.yield %n : tensor<4096x512xbf16>
  }
  nano.return %y : tensor<4096x512xbf16>
}

// -----

nano.program @columns(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>, %o0: tensor<512xbf16>) -> (tensor<4096x512xbf16>, tensor<512xbf16>) {
  // expected-remark @below {{left to the library: its kernel has results of other sizes}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y:2 = nano.fused(%p, %o0) : (tensor<4096x512xbf16>, tensor<512xbf16>) -> (tensor<4096x512xbf16>, tensor<512xbf16>) {
  ^bb0(%a: tensor<4096x512xbf16>, %b0: tensor<512xbf16>):
    %n = nano.neg %b0 : tensor<512xbf16>
    %m = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %m, %n : tensor<4096x512xbf16>, tensor<512xbf16>
  }
  nano.return %y#0, %y#1 : tensor<4096x512xbf16>, tensor<512xbf16>
}

// -----

nano.program @turned(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> (tensor<512x4096xbf16>) {
  // expected-remark @below {{left to the library: a result of its kernel is needed transposed}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> (tensor<4096x512xbf16>) {
  ^bb0(%a: tensor<4096x512xbf16>):
    %m = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %m : tensor<4096x512xbf16>
  }
  %t = nano.transpose %y : tensor<4096x512xbf16> -> tensor<512x4096xbf16>
  nano.return %t : tensor<512x4096xbf16>
}

// -----

nano.program @long_sums(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> tensor<4096x512xf32> {
  // expected-remark @below {{left to the library: its result is not bf16}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xf32>
  %y = nano.fused(%p) : (tensor<4096x512xf32>) -> tensor<4096x512xf32> {
  ^bb0(%a: tensor<4096x512xf32>):
    %s = nano.mul %a, %a : tensor<4096x512xf32>
    nano.yield %s : tensor<4096x512xf32>
  }
  nano.return %y : tensor<4096x512xf32>
}

// -----

nano.program @gradient8(%x: tensor<16x4096xf8E5M2>, %w: tensor<512x16xf8E4M3FN>, %s: tensor<f32>, %u: tensor<f32>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: its first operand is transposed}}
  %p = nano.scaled_matmul %x, %w scales(%s, %u) {transpose_a, transpose_b}
      : (tensor<16x4096xf8E5M2>, tensor<512x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %m = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %m : tensor<4096x512xbf16>
  }
  nano.return %y : tensor<4096x512xbf16>
}

// -----

nano.program @blocks8(%x: tensor<4096x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %s: tensor<4096x2xf32>, %u: tensor<4x2xf32>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: its scales are those of blocks}}
  %p = nano.scaled_matmul %x, %w scales(%s, %u) {transpose_b}
      : (tensor<4096x256xf8E4M3FN>, tensor<512x256xf8E4M3FN>, tensor<4096x2xf32>, tensor<4x2xf32>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %m = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %m : tensor<4096x512xbf16>
  }
  nano.return %y : tensor<4096x512xbf16>
}

// -----

nano.program @plain8(%x: tensor<4096x256xf8E4M3FN>, %w: tensor<256x512xf8E4M3FN>, %s: tensor<f32>, %u: tensor<f32>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: its second operand is not transposed}}
  %p = nano.scaled_matmul %x, %w scales(%s, %u)
      : (tensor<4096x256xf8E4M3FN>, tensor<256x512xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %m = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %m : tensor<4096x512xbf16>
  }
  nano.return %y : tensor<4096x512xbf16>
}

// -----

nano.program @turned8(%x: tensor<256x4096xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %s: tensor<f32>, %u: tensor<f32>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: its first operand is transposed}}
  %p = nano.scaled_matmul %x, %w scales(%s, %u) {transpose_a, transpose_b}
      : (tensor<256x4096xf8E4M3FN>, tensor<512x256xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %m = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %m : tensor<4096x512xbf16>
  }
  nano.return %y : tensor<4096x512xbf16>
}

// -----

nano.program @sum8(%x: tensor<4096x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %s: tensor<f32>, %u: tensor<f32>, %c: tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: it has an addend}}
  %p = nano.scaled_matmul %x, %w scales(%s, %u) add %c {transpose_b}
      : (tensor<4096x256xf8E4M3FN>, tensor<512x256xf8E4M3FN>, tensor<f32>, tensor<f32>, tensor<4096x512xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %m = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %m : tensor<4096x512xbf16>
  }
  nano.return %y : tensor<4096x512xbf16>
}

// -----

nano.program @factor8(%x: tensor<4096x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %s: tensor<f32>, %u: tensor<f32>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: it has a factor}}
  %p = nano.scaled_matmul %x, %w scales(%s, %u) {alpha = 2.0 : f64, transpose_b}
      : (tensor<4096x256xf8E4M3FN>, tensor<512x256xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %m = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %m : tensor<4096x512xbf16>
  }
  nano.return %y : tensor<4096x512xbf16>
}

// -----

nano.program @thin8(%x: tensor<4096x24xf8E4M3FN>, %w: tensor<512x24xf8E4M3FN>, %s: tensor<f32>, %u: tensor<f32>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: its rows are no multiples of 16 bytes}}
  %p = nano.scaled_matmul %x, %w scales(%s, %u) {transpose_b}
      : (tensor<4096x24xf8E4M3FN>, tensor<512x24xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %m = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %m : tensor<4096x512xbf16>
  }
  nano.return %y : tensor<4096x512xbf16>
}

// -----

nano.program @long_sum8(%x: tensor<4096x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %s: tensor<f32>, %u: tensor<f32>) -> tensor<4096xf32> {
  // expected-remark @below {{left to the library: its rows are summed, and not bf16}}
  %p = nano.scaled_matmul %x, %w scales(%s, %u) {transpose_b}
      : (tensor<4096x256xf8E4M3FN>, tensor<512x256xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<4096x512xf32>
  %y = nano.fused(%p) : (tensor<4096x512xf32>) -> tensor<4096xf32> {
  ^bb0(%a: tensor<4096x512xf32>):
    %m = nano.reduce sum %a dims [1] : tensor<4096x512xf32> -> tensor<4096xf32>
    nano.yield %m : tensor<4096xf32>
  }
  nano.return %y : tensor<4096xf32>
}

// -----

nano.program @read_besides(%x: tensor<4096x256xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN>, %k: tensor<f32>) -> (tensor<4096xf32>, tensor<4096x512xbf16>) {
  // expected-remark @below {{left to the library: others read it, and threads that sum rows have no registers to write it}}
  %p = nano.scaled_matmul %x, %w scales(%k, %k) {transpose_b} : (tensor<4096x256xf8E4M3FN>, tensor<512x256xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096xf32> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %f = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf32>
    %s = nano.reduce sum %f dims [1] : tensor<4096x512xf32> -> tensor<4096xf32>
    nano.yield %s : tensor<4096xf32>
  }
  nano.return %y, %p : tensor<4096xf32>, tensor<4096x512xbf16>
}

// -----

nano.program @places(%x: tensor<4096x256xbf16>, %w: tensor<512x256xbf16>) -> tensor<4096x512xbf16> {
  // expected-remark @below {{left to the library: its kernel has a nano.iota}}
  %p = nano.matmul %x, %w {transpose_b} : (tensor<4096x256xbf16>, tensor<512x256xbf16>) -> tensor<4096x512xbf16>
  %y = nano.fused(%p) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %j = nano.iota 1 : tensor<4096x512xi32>
    %n = nano.constant 500.0 : tensor<4096x512xi32>
    %o = nano.constant 0.0 : tensor<4096x512xbf16>
    %s = nano.select lt, %j, %n, %a, %o : tensor<4096x512xi32>, tensor<4096x512xbf16>
    nano.yield %s : tensor<4096x512xbf16>
  }
  nano.return %y : tensor<4096x512xbf16>
}
