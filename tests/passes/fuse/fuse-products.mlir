// RUN: nano-opt %s -nano-fuse-products=report -split-input-file -verify-diagnostics | FileCheck %s
// RUN: nano-opt %s -nano-fuse-products=products=library -split-input-file | FileCheck %s --check-prefix=LIBRARY --implicit-check-not="{{^      %.* = nano.matmul}}"
// RUN: nano-opt %s -nano-fuse-products=products=fused -nano-verify-fused -split-input-file | FileCheck %s --check-prefix=FUSED
// LIBRARY-COUNT-9: {{^    %.* = nano.matmul}}

// The product becomes the kernel's first op, its factors the kernel's last operands; the function's traffic is counted again.
// CHECK-LABEL: nano.program @square
// CHECK-SAME:      bytes = 382205952 : i64
// CHECK-SAME:      kernels = 1 : i64
// CHECK-NEXT:    %[[Y:.*]] = nano.fused(%arg0, %arg1) : (tensor<49152x768xbf16>, tensor<3072x768xbf16>) -> tensor<49152x3072xbf16> {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: tensor<49152x768xbf16>, %[[B:.*]]: tensor<3072x768xbf16>):
// CHECK-NEXT:      %[[P:.*]] = nano.matmul %[[A]], %[[B]] {transpose_b}
// CHECK-NEXT:      %[[ZERO:.*]] = nano.constant
// CHECK-NEXT:      %[[M:.*]] = nano.max %[[P]], %[[ZERO]]
// CHECK-NEXT:      %[[S:.*]] = nano.mul %[[M]], %[[M]]
// CHECK-NEXT:      nano.yield %[[S]]
// CHECK:         nano.return %[[Y]]
nano.program @square(%x: tensor<49152x768xbf16>, %w: tensor<3072x768xbf16>) -> tensor<49152x3072xbf16>
    attributes {traffic = {bytes = 0 : i64, bytes_before = 1 : i64, bytes_floor = 0 : i64, kernels = 2 : i64, kernels_before = 3 : i64}} {
  // expected-remark @below {{computed by the kernel that reads it}}
  %p = nano.matmul %x, %w {transpose_b} : (tensor<49152x768xbf16>, tensor<3072x768xbf16>) -> tensor<49152x3072xbf16>
  %y = nano.fused(%p) : (tensor<49152x3072xbf16>) -> tensor<49152x3072xbf16> {
  ^bb0(%a: tensor<49152x3072xbf16>):
    %zero = nano.constant 0.0 : tensor<49152x3072xbf16>
    %m = nano.max %a, %zero : tensor<49152x3072xbf16>
    %s = nano.mul %m, %m : tensor<49152x3072xbf16>
    nano.yield %s : tensor<49152x3072xbf16>
  }
  nano.return %y : tensor<49152x3072xbf16>
}

// -----

// Other operands keep their order: a matrix, one number a column, a number. B need not be transposed; a result may be the product itself.
// CHECK-LABEL: nano.program @operands
// CHECK-NEXT:    %[[Y:.*]]:2 = nano.fused(%arg2, %arg3, %arg4, %arg0, %arg1)
// CHECK-NEXT:    ^bb0(%[[X:.*]]: tensor<49152x3072xf32>, %[[BIAS:.*]]: tensor<3072xf32>, %[[C:.*]]: tensor<f32>, %[[A:.*]]: tensor<49152x768xbf16>, %[[B:.*]]: tensor<768x3072xbf16>):
// CHECK-NEXT:      %[[P:.*]] = nano.matmul %[[A]], %[[B]] :
// CHECK:           nano.yield %[[P]], %
// CHECK:         nano.return %[[Y]]#0, %[[Y]]#1
nano.program @operands(%x: tensor<49152x768xbf16>, %w: tensor<768x3072xbf16>, %o: tensor<49152x3072xf32>, %bias: tensor<3072xf32>,
                    %c: tensor<f32>) -> (tensor<49152x3072xbf16>, tensor<49152x3072xf32>) {
  // expected-remark @below {{computed by the kernel that reads it}}
  %p = nano.matmul %x, %w : (tensor<49152x768xbf16>, tensor<768x3072xbf16>) -> tensor<49152x3072xbf16>
  %y:2 = nano.fused(%o, %p, %bias, %c) : (tensor<49152x3072xf32>, tensor<49152x3072xbf16>, tensor<3072xf32>, tensor<f32>)
      -> (tensor<49152x3072xbf16>, tensor<49152x3072xf32>) {
  ^bb0(%a: tensor<49152x3072xf32>, %q: tensor<49152x3072xbf16>, %d: tensor<3072xf32>, %e: tensor<f32>):
    %f = nano.cast %q : tensor<49152x3072xbf16> -> tensor<49152x3072xf32>
    %g = nano.broadcast %d dims [1] : tensor<3072xf32> -> tensor<49152x3072xf32>
    %h = nano.add %f, %g : tensor<49152x3072xf32>
    %n = nano.neg %e : tensor<f32>
    %i = nano.broadcast %n dims [] : tensor<f32> -> tensor<49152x3072xf32>
    %j = nano.mul %h, %i : tensor<49152x3072xf32>
    %k = nano.add %j, %a : tensor<49152x3072xf32>
    nano.yield %q, %k : tensor<49152x3072xbf16>, tensor<49152x3072xf32>
  }
  nano.return %y#0, %y#1 : tensor<49152x3072xbf16>, tensor<49152x3072xf32>
}

// -----

// One number a row, of as many rows as columns too.
// CHECK-LABEL: nano.program @rows
// CHECK-NEXT:    %[[Y:.*]] = nano.fused(%arg2, %arg0, %arg1)
// CHECK:           nano.matmul
// CHECK:           nano.broadcast %{{.*}} dims [0]
// CHECK:         nano.return %[[Y]]
nano.program @rows(%x: tensor<16384x768xbf16>, %w: tensor<768x16384xbf16>, %r: tensor<16384xf32>) -> tensor<16384x16384xbf16> {
  // expected-remark @below {{computed by the kernel that reads it}}
  %p = nano.matmul %x, %w : (tensor<16384x768xbf16>, tensor<768x16384xbf16>) -> tensor<16384x16384xbf16>
  %y = nano.fused(%p, %r) : (tensor<16384x16384xbf16>, tensor<16384xf32>) -> tensor<16384x16384xbf16> {
  ^bb0(%a: tensor<16384x16384xbf16>, %n: tensor<16384xf32>):
    %f = nano.cast %a : tensor<16384x16384xbf16> -> tensor<16384x16384xf32>
    %b = nano.broadcast %n dims [0] : tensor<16384xf32> -> tensor<16384x16384xf32>
    %m = nano.mul %f, %b : tensor<16384x16384xf32>
    %s = nano.cast %m : tensor<16384x16384xf32> -> tensor<16384x16384xbf16>
    nano.yield %s : tensor<16384x16384xbf16>
  }
  nano.return %y : tensor<16384x16384xbf16>
}

// -----

// An operand that is a factor too is one operand.
// CHECK-LABEL: nano.program @factor_again
// CHECK-NEXT:    nano.fused(%arg0, %arg1) : (tensor<49152x768xbf16>, tensor<768x768xbf16>)
nano.program @factor_again(%x: tensor<49152x768xbf16>, %w: tensor<768x768xbf16>) -> tensor<49152x768xbf16> {
  // expected-remark @below {{computed by the kernel that reads it}}
  %p = nano.matmul %x, %w : (tensor<49152x768xbf16>, tensor<768x768xbf16>) -> tensor<49152x768xbf16>
  %y = nano.fused(%p, %x) : (tensor<49152x768xbf16>, tensor<49152x768xbf16>) -> tensor<49152x768xbf16> {
  ^bb0(%a: tensor<49152x768xbf16>, %b: tensor<49152x768xbf16>):
    %s = nano.mul %a, %b : tensor<49152x768xbf16>
    nano.yield %s : tensor<49152x768xbf16>
  }
  nano.return %y : tensor<49152x768xbf16>
}

// -----

// Of two products of different operands that a kernel reads it computes one.
// CHECK-LABEL: nano.program @gate
// CHECK-NEXT:    %[[Q:.*]] = nano.matmul %arg1, %arg3
// CHECK-NEXT:    nano.fused(%[[Q]], %arg0, %arg2)
nano.program @gate(%x: tensor<49152x768xbf16>, %u: tensor<49152x768xbf16>, %w: tensor<768x768xbf16>, %v: tensor<768x768xbf16>) -> tensor<49152x768xbf16> {
  // expected-remark @below {{computed by the kernel that reads it}}
  %p = nano.matmul %x, %w : (tensor<49152x768xbf16>, tensor<768x768xbf16>) -> tensor<49152x768xbf16>
  %q = nano.matmul %u, %v : (tensor<49152x768xbf16>, tensor<768x768xbf16>) -> tensor<49152x768xbf16>
  %y = nano.fused(%p, %q) : (tensor<49152x768xbf16>, tensor<49152x768xbf16>) -> tensor<49152x768xbf16> {
  ^bb0(%a: tensor<49152x768xbf16>, %b: tensor<49152x768xbf16>):
    %s = nano.mul %a, %b : tensor<49152x768xbf16>
    nano.yield %s : tensor<49152x768xbf16>
  }
  nano.return %y : tensor<49152x768xbf16>
}

// -----

// Where the result is small beside the work, the library's speed counts for more; where tiles are few, multiprocessors would idle. "fused" asks for neither.
// CHECK-LABEL: nano.program @long
// CHECK-NEXT:    nano.matmul
// FUSED-LABEL: nano.program @long
// FUSED-NEXT:    nano.fused(%arg0, %arg1)
nano.program @long(%x: tensor<8192x8192xbf16>, %w: tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16> {
  // expected-remark @below {{left to the library: that is predicted to be faster}}
  %p = nano.matmul %x, %w : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  %y = nano.fused(%p) : (tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16> {
  ^bb0(%a: tensor<8192x8192xbf16>):
    %s = nano.mul %a, %a : tensor<8192x8192xbf16>
    nano.yield %s : tensor<8192x8192xbf16>
  }
  nano.return %y : tensor<8192x8192xbf16>
}
// CHECK-LABEL: nano.program @few
// CHECK-NEXT:    nano.matmul
// FUSED-LABEL: nano.program @few
// FUSED-NEXT:    nano.fused(%arg0, %arg1)
nano.program @few(%x: tensor<1024x768xbf16>, %w: tensor<768x3072xbf16>) -> tensor<1024x3072xbf16> {
  // expected-remark @below {{left to the library: it has fewer tiles than the machine has multiprocessors}}
  %p = nano.matmul %x, %w : (tensor<1024x768xbf16>, tensor<768x3072xbf16>) -> tensor<1024x3072xbf16>
  %y = nano.fused(%p) : (tensor<1024x3072xbf16>) -> tensor<1024x3072xbf16> {
  ^bb0(%a: tensor<1024x3072xbf16>):
    %s = nano.mul %a, %a : tensor<1024x3072xbf16>
    nano.yield %s : tensor<1024x3072xbf16>
  }
  nano.return %y : tensor<1024x3072xbf16>
}

// -----

// What others read of the product behind the kernel, as a gradient reads what GELU has read, the kernel writes besides, where that is predicted to pay.
// CHECK-LABEL: nano.program @kept
// CHECK-NEXT:    %[[Y:.*]]:2 = nano.fused(%arg0, %arg1)
// CHECK:           %[[P:.*]] = nano.matmul
// CHECK:           nano.normalcdf
// CHECK:           nano.yield %{{.*}}, %[[P]]
// CHECK:         nano.return %[[Y]]#0, %[[Y]]#1
nano.program @kept(%x: tensor<16384x1536xbf16>, %w: tensor<6144x1536xbf16>) -> (tensor<16384x6144xbf16>, tensor<16384x6144xbf16>) {
  // expected-remark @below {{computed by the kernel that reads it}}
  %p = nano.matmul %x, %w {transpose_b} : (tensor<16384x1536xbf16>, tensor<6144x1536xbf16>) -> tensor<16384x6144xbf16>
  %y = nano.fused(%p) : (tensor<16384x6144xbf16>) -> tensor<16384x6144xbf16> {
  ^bb0(%a: tensor<16384x6144xbf16>):
    %f = nano.cast %a : tensor<16384x6144xbf16> -> tensor<16384x6144xf32>
    %n = nano.normalcdf %f : tensor<16384x6144xf32>
    %m = nano.mul %f, %n : tensor<16384x6144xf32>
    %r = nano.cast %m : tensor<16384x6144xf32> -> tensor<16384x6144xbf16>
    nano.yield %r : tensor<16384x6144xbf16>
  }
  nano.return %y, %p : tensor<16384x6144xbf16>, tensor<16384x6144xbf16>
}

// -----

// What others read before is written before: the product is no kernel's own.
// CHECK-LABEL: nano.program @before
// CHECK-NEXT:    nano.matmul
// FUSED-LABEL: nano.program @before
// FUSED-NEXT:    nano.matmul
nano.program @before(%x: tensor<49152x768xbf16>, %w: tensor<768x768xbf16>) -> (tensor<49152x768xbf16>, tensor<768x49152xbf16>) {
  // expected-remark @below {{left to the library: others read it before}}
  %p = nano.matmul %x, %w : (tensor<49152x768xbf16>, tensor<768x768xbf16>) -> tensor<49152x768xbf16>
  %t = nano.transpose %p : tensor<49152x768xbf16> -> tensor<768x49152xbf16>
  %y = nano.fused(%p) : (tensor<49152x768xbf16>) -> tensor<49152x768xbf16> {
  ^bb0(%a: tensor<49152x768xbf16>):
    %s = nano.mul %a, %a : tensor<49152x768xbf16>
    nano.yield %s : tensor<49152x768xbf16>
  }
  nano.return %y, %t : tensor<49152x768xbf16>, tensor<768x49152xbf16>
}
