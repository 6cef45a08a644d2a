// A product of 8 bits turns its first factor itself, where the kernel that makes this would write it transposed besides: two kernels, and no copy.
// RUN: nano-opt %s -nano-fuse-products="products=fused report" -nano-verify-fused -split-input-file -verify-diagnostics | FileCheck %s
// RUN: nano-opt %s -nano-fuse-products="products=library" -split-input-file | FileCheck %s --check-prefix=LIBRARY
// LIBRARY-COUNT-9: {{^    %.* = nano.transpose}}

// The gradient of a head's weight, added to that of the rows before. Whose product it is, is no part of the kernel, which layers share.
// CHECK-LABEL: nano.program @gradient
// CHECK-NOT:     nano.transpose
// CHECK:         %[[W:.*]] = nano.fused(%[[C:.*]], %[[Q:.*]], %arg1, %arg2, %arg3)
// CHECK-NEXT:    ^bb0(%[[ADDEND:.*]]: tensor<50304x768xf32>{{.*}}, %[[A:.*]]: tensor<4096x50304xf8E5M2>{{.*}}, %[[B:.*]]: tensor<768x4096xf8E4M3FN>{{.*}}, %[[SA:.*]]: tensor<f32>{{.*}}, %[[SB:.*]]: tensor<f32>{{.*}}):
// CHECK-NEXT:      %[[P:.*]] = nano.scaled_matmul %[[A]], %[[B]] scales(%[[SA]], %[[SB]]) {transpose_a, transpose_b}
// CHECK-NEXT:      %[[SUM:.*]] = nano.add %[[P]], %[[ADDEND]] : tensor<50304x768xf32>
// CHECK-NEXT:      nano.yield %[[SUM]]
// CHECK-NEXT:    }
// CHECK-NEXT:    nano.scaled_matmul %[[Q]]
nano.program @gradient(%g: tensor<4096x50304xbf16>, %x: tensor<768x4096xf8E4M3FN>, %sg: tensor<f32>, %sx: tensor<f32>, %c: tensor<50304x768xf32>,
                    %w: tensor<768x50304xf8E4M3FN>) -> (tensor<50304x768xf32>, tensor<4096x768xbf16>) {
  %q = nano.fused(%g) : (tensor<4096x50304xbf16>) -> tensor<4096x50304xf8E5M2> {
  ^bb0(%a: tensor<4096x50304xbf16>):
    %n = nano.cast %a : tensor<4096x50304xbf16> -> tensor<4096x50304xf8E5M2>
    nano.yield %n : tensor<4096x50304xf8E5M2>
  }
  %t = nano.transpose %q : tensor<4096x50304xf8E5M2> -> tensor<50304x4096xf8E5M2>
  // expected-remark @below {{computed by a kernel that turns its first operand}}
  %d = nano.scaled_matmul %t, %x scales(%sg, %sx) add %c {layer = {a = "gradient", b = "input", part = "gradient of the weight", weight = "wte.weight"}, transpose_b}
      : (tensor<50304x4096xf8E5M2>, tensor<768x4096xf8E4M3FN>, tensor<f32>, tensor<f32>, tensor<50304x768xf32>) -> tensor<50304x768xf32>
  %dx = nano.scaled_matmul %q, %w scales(%sg, %sx) {transpose_b}
      : (tensor<4096x50304xf8E5M2>, tensor<768x50304xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<4096x768xbf16>
  nano.return %d, %dx : tensor<50304x768xf32>, tensor<4096x768xbf16>
}

// -----

// Of the first rows there is nothing to add to.
// CHECK-LABEL: nano.program @first
// CHECK:           %[[P:.*]] = nano.scaled_matmul %{{.*}}, %{{.*}} scales({{.*}}) {transpose_a, transpose_b}
// CHECK-NEXT:      nano.yield %[[P]] : tensor<50304x768xf32>
nano.program @first(%g: tensor<4096x50304xbf16>, %x: tensor<768x4096xf8E4M3FN>, %s: tensor<f32>) -> (tensor<50304x768xf32>, tensor<4096x50304xf8E5M2>) {
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

// Parts of a factor are concatenated for the product that reads them as they are: what turns them reads that.
// CHECK-LABEL: nano.program @parts
// CHECK-NOT:     nano.transpose
// CHECK:         %[[Q:.*]] = nano.concat %{{.*}}, %{{.*}} dim 0 : {{.*}} -> tensor<4096x50304xf8E5M2>
// CHECK-NOT:     dim 1
// CHECK:         nano.fused(%[[Q]], %arg2, %arg3)
// CHECK:           nano.scaled_matmul %{{.*}}, %{{.*}} scales({{.*}}) {transpose_a, transpose_b} : (tensor<4096x50304xf8E5M2>
nano.program @parts(%g: tensor<2048x50304xbf16>, %h: tensor<2048x50304xbf16>, %x: tensor<768x4096xf8E4M3FN>, %s: tensor<f32>, %w: tensor<768x50304xf8E4M3FN>)
    -> (tensor<50304x768xf32>, tensor<4096x768xbf16>) {
  %q = nano.fused(%g) : (tensor<2048x50304xbf16>) -> tensor<2048x50304xf8E5M2> {
  ^bb0(%a: tensor<2048x50304xbf16>):
    %n = nano.cast %a : tensor<2048x50304xbf16> -> tensor<2048x50304xf8E5M2>
    nano.yield %n : tensor<2048x50304xf8E5M2>
  }
  %t = nano.transpose %q : tensor<2048x50304xf8E5M2> -> tensor<50304x2048xf8E5M2>
  %r = nano.fused(%h) : (tensor<2048x50304xbf16>) -> tensor<2048x50304xf8E5M2> {
  ^bb0(%a: tensor<2048x50304xbf16>):
    %n = nano.cast %a : tensor<2048x50304xbf16> -> tensor<2048x50304xf8E5M2>
    nano.yield %n : tensor<2048x50304xf8E5M2>
  }
  %u = nano.transpose %r : tensor<2048x50304xf8E5M2> -> tensor<50304x2048xf8E5M2>
  %rows = nano.concat %q, %r dim 0 : (tensor<2048x50304xf8E5M2>, tensor<2048x50304xf8E5M2>) -> tensor<4096x50304xf8E5M2>
  %columns = nano.concat %t, %u dim 1 : (tensor<50304x2048xf8E5M2>, tensor<50304x2048xf8E5M2>) -> tensor<50304x4096xf8E5M2>
  // expected-remark @below {{computed by a kernel that turns its first operand}}
  %d = nano.scaled_matmul %columns, %x scales(%s, %s) {transpose_b}
      : (tensor<50304x4096xf8E5M2>, tensor<768x4096xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<50304x768xf32>
  %dx = nano.scaled_matmul %rows, %w scales(%s, %s) {transpose_b}
      : (tensor<4096x50304xf8E5M2>, tensor<768x50304xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<4096x768xbf16>
  nano.return %d, %dx : tensor<50304x768xf32>, tensor<4096x768xbf16>
}

// -----

// A result of bf16 takes A along the inner dimension.
// CHECK-LABEL: nano.program @narrow
// CHECK:         nano.transpose
nano.program @narrow(%g: tensor<4096x50304xbf16>, %x: tensor<768x4096xf8E4M3FN>, %s: tensor<f32>) -> (tensor<50304x768xbf16>, tensor<4096x50304xf8E4M3FN>) {
  %q = nano.fused(%g) : (tensor<4096x50304xbf16>) -> tensor<4096x50304xf8E4M3FN> {
  ^bb0(%a: tensor<4096x50304xbf16>):
    %n = nano.cast %a : tensor<4096x50304xbf16> -> tensor<4096x50304xf8E4M3FN>
    nano.yield %n : tensor<4096x50304xf8E4M3FN>
  }
  %t = nano.transpose %q : tensor<4096x50304xf8E4M3FN> -> tensor<50304x4096xf8E4M3FN>
  // expected-remark @below {{left to the library: its first operand is transposed}}
  %d = nano.scaled_matmul %t, %x scales(%s, %s) {transpose_b}
      : (tensor<50304x4096xf8E4M3FN>, tensor<768x4096xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<50304x768xbf16>
  nano.return %d, %q : tensor<50304x768xbf16>, tensor<4096x50304xf8E4M3FN>
}

// -----

// A part of the addend is no addend that the kernel has.
// CHECK-LABEL: nano.program @part
// CHECK:         nano.transpose
nano.program @part(%g: tensor<4096x512xbf16>, %x: tensor<768x4096xf8E4M3FN>, %s: tensor<f32>, %c: tensor<512x768xf32>) -> (tensor<512x768xf32>, tensor<4096x512xf8E4M3FN>) {
  %q = nano.fused(%g) : (tensor<4096x512xbf16>) -> tensor<4096x512xf8E4M3FN> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %n = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf8E4M3FN>
    nano.yield %n : tensor<4096x512xf8E4M3FN>
  }
  %t = nano.transpose %q : tensor<4096x512xf8E4M3FN> -> tensor<512x4096xf8E4M3FN>
  // expected-remark @below {{left to the library: it adds a part of its addend}}
  %d = nano.scaled_matmul %t, %x scales(%s, %s) add %c {transpose_b, beta = 0.5}
      : (tensor<512x4096xf8E4M3FN>, tensor<768x4096xf8E4M3FN>, tensor<f32>, tensor<f32>, tensor<512x768xf32>) -> tensor<512x768xf32>
  nano.return %d, %q : tensor<512x768xf32>, tensor<4096x512xf8E4M3FN>
}

// -----

// A copy that takes the place of what is transposed costs nothing more.
// CHECK-LABEL: nano.program @copied
// CHECK:         nano.transpose
nano.program @copied(%g: tensor<4096x512xbf16>, %x: tensor<768x4096xf8E4M3FN>, %s: tensor<f32>) -> tensor<512x768xf32> {
  %q = nano.fused(%g) : (tensor<4096x512xbf16>) -> tensor<4096x512xf8E4M3FN> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %n = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf8E4M3FN>
    nano.yield %n : tensor<4096x512xf8E4M3FN>
  }
  %t = nano.transpose %q : tensor<4096x512xf8E4M3FN> -> tensor<512x4096xf8E4M3FN>
  %d = nano.scaled_matmul %t, %x scales(%s, %s) {transpose_b}
      : (tensor<512x4096xf8E4M3FN>, tensor<768x4096xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<512x768xf32>
  nano.return %d : tensor<512x768xf32>
}

// -----

// Nor does one that is needed elsewhere too.
// CHECK-LABEL: nano.program @needed
// CHECK:         nano.transpose
nano.program @needed(%g: tensor<4096x512xbf16>, %x: tensor<768x4096xf8E4M3FN>, %s: tensor<f32>) -> (tensor<512x768xf32>, tensor<4096x512xf8E4M3FN>, tensor<512x4096xf8E4M3FN>) {
  %q = nano.fused(%g) : (tensor<4096x512xbf16>) -> tensor<4096x512xf8E4M3FN> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %n = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf8E4M3FN>
    nano.yield %n : tensor<4096x512xf8E4M3FN>
  }
  %t = nano.transpose %q : tensor<4096x512xf8E4M3FN> -> tensor<512x4096xf8E4M3FN>
  %d = nano.scaled_matmul %t, %x scales(%s, %s) {transpose_b}
      : (tensor<512x4096xf8E4M3FN>, tensor<768x4096xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<512x768xf32>
  nano.return %d, %q, %t : tensor<512x768xf32>, tensor<4096x512xf8E4M3FN>, tensor<512x4096xf8E4M3FN>
}

// -----

// Kernels that begin with a product write no result by columns.
// CHECK-LABEL: nano.program @by_columns
// CHECK-COUNT-2: nano.transpose
nano.program @by_columns(%g: tensor<4096x512xbf16>, %x: tensor<768x4096xf8E4M3FN>, %s: tensor<f32>) -> (tensor<768x512xf32>, tensor<4096x512xf8E4M3FN>) {
  %q = nano.fused(%g) : (tensor<4096x512xbf16>) -> tensor<4096x512xf8E4M3FN> {
  ^bb0(%a: tensor<4096x512xbf16>):
    %n = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf8E4M3FN>
    nano.yield %n : tensor<4096x512xf8E4M3FN>
  }
  %t = nano.transpose %q : tensor<4096x512xf8E4M3FN> -> tensor<512x4096xf8E4M3FN>
  // expected-remark @below {{left to the library: its result is needed transposed}}
  %d = nano.scaled_matmul %t, %x scales(%s, %s) {transpose_b}
      : (tensor<512x4096xf8E4M3FN>, tensor<768x4096xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<512x768xf32>
  %u = nano.transpose %d : tensor<512x768xf32> -> tensor<768x512xf32>
  nano.return %u, %q : tensor<768x512xf32>, tensor<4096x512xf8E4M3FN>
}
