// Kernels that sum the rows of a product are cut: partial sums at the product's end, then the numbers of rows, then the elements that need these.
// RUN: nano-opt %s -nano-fuse-products="products=fused report" -nano-verify-fused -split-input-file -verify-diagnostics | FileCheck %s
// RUN: nano-opt %s -nano-fuse-products="machine=h200-nvlink" -split-input-file | FileCheck %s --check-prefix=AUTO
// RUN: nano-opt %s -nano-fuse-products="products=library" -split-input-file | FileCheck %s --check-prefix=LIBRARY --implicit-check-not="x128xf32"
// LIBRARY-COUNT-7: {{^    %.* = nano.(scaled_)?matmul}}

// The loss and the gradient of a head. What only the target's column needs is left to the second kernel; the third has the ops of the gradient, and reads the sum, since
// two numbers a row are computed from it.
// CHECK-LABEL: nano.program @head
// CHECK-SAME:      bytes = 823388168 : i64
// CHECK-SAME:      kernels = 3 : i64
// CHECK-NEXT:    %[[SUMS:.*]]:2 = nano.fused(%arg0, %arg1, %arg3, %arg4) : (tensor<3072x768xf8E4M3FN>, tensor<50304x768xf8E4M3FN>, tensor<f32>, tensor<f32>) -> (tensor<3072x50304xbf16>, tensor<3072x393xf32>) {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: tensor<3072x768xf8E4M3FN>, %[[B:.*]]: tensor<50304x768xf8E4M3FN>, %[[SA:.*]]: tensor<f32>, %[[SB:.*]]: tensor<f32>):
// CHECK-NEXT:      %[[P:.*]] = nano.scaled_matmul %[[A]], %[[B]] scales(%[[SA]], %[[SB]]) {transpose_b}
// CHECK-NEXT:      %[[F:.*]] = nano.cast %[[P]]
// CHECK-NEXT:      %[[G:.*]] = nano.sigmoid %[[F]]
// CHECK-NEXT:      %[[E:.*]] = nano.exp %[[G]]
// CHECK-NEXT:      %[[PARTS:.*]] = nano.reshape %[[E]] : tensor<3072x50304xf32> -> tensor<3072x393x128xf32>
// CHECK-NEXT:      %[[SUM:.*]] = nano.reduce sum %[[PARTS]] dims [2] : tensor<3072x393x128xf32> -> tensor<3072x393xf32>
// CHECK-NEXT:      nano.yield %[[P]], %[[SUM]]
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[ROWS:.*]]:2 = nano.fused(%[[SUMS]]#0, %arg2, %[[SUMS]]#1) : (tensor<3072x50304xbf16>, tensor<3072xi32>, tensor<3072x393xf32>) -> (tensor<3072xf32>, tensor<3072xf32>) {
// CHECK-NEXT:    ^bb0(%[[P:.*]]: tensor<3072x50304xbf16>, %[[T:.*]]: tensor<3072xi32>, %[[PARTS:.*]]: tensor<3072x393xf32>):
// CHECK-NEXT:      %[[SUM:.*]] = nano.reduce sum %[[PARTS]] dims [1] : tensor<3072x393xf32> -> tensor<3072xf32>
// CHECK-NEXT:      %[[F:.*]] = nano.cast %[[P]]
// CHECK-NEXT:      %[[G:.*]] = nano.sigmoid %[[F]]
// CHECK-NEXT:      %[[LOG:.*]] = nano.log %[[SUM]]
// CHECK-NEXT:      %[[I:.*]] = nano.iota 1
// CHECK-NEXT:      %[[TB:.*]] = nano.broadcast %[[T]] dims [0]
// CHECK-NEXT:      %[[ZERO:.*]] = nano.constant
// CHECK-NEXT:      %[[S:.*]] = nano.select eq, %[[I]], %[[TB]], %[[G]], %[[ZERO]]
// CHECK-NEXT:      %[[PICK:.*]] = nano.reduce sum %[[S]] dims [1]
// CHECK-NEXT:      %[[LOSS:.*]] = nano.sub %[[LOG]], %[[PICK]]
// CHECK-NEXT:      nano.yield %[[LOSS]], %[[SUM]] :
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[GRAD:.*]] = nano.fused(%[[SUMS]]#0, %arg2, %[[ROWS]]#1) : (tensor<3072x50304xbf16>, tensor<3072xi32>, tensor<3072xf32>) -> tensor<3072x50304xf8E5M2> {
// CHECK-NEXT:    ^bb0(%[[P:.*]]: tensor<3072x50304xbf16>, %[[T:.*]]: tensor<3072xi32>, %[[SUM:.*]]: tensor<3072xf32>):
// CHECK-NOT:       nano.log
// CHECK:           %[[ONE:.*]] = nano.constant
// CHECK-NEXT:      %[[D:.*]] = nano.div %[[ONE]], %[[SUM]]
// CHECK:           nano.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    nano.transpose %[[GRAD]]
// CHECK-NEXT:    nano.return %[[ROWS]]#0, %[[GRAD]]
// AUTO-LABEL: nano.program @head
// AUTO-NEXT:     nano.fused
// AUTO-NEXT:     ^bb0
// AUTO-NEXT:       nano.scaled_matmul
nano.program @head(%x: tensor<3072x768xf8E4M3FN>, %w: tensor<50304x768xf8E4M3FN>, %t: tensor<3072xi32>, %sx: tensor<f32>, %sw: tensor<f32>)
    -> (tensor<3072xf32>, tensor<3072x50304xf8E5M2>, tensor<50304x3072xf8E5M2>)
    attributes {traffic = {bytes = 0 : i64, bytes_before = 1 : i64, bytes_floor = 0 : i64, kernels = 2 : i64, kernels_before = 3 : i64}} {
  // expected-remark @below {{computed by a kernel that sums its rows}}
  %p = nano.scaled_matmul %x, %w scales(%sx, %sw) {transpose_b}
      : (tensor<3072x768xf8E4M3FN>, tensor<50304x768xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<3072x50304xbf16>
  %y:2 = nano.fused(%p, %t) : (tensor<3072x50304xbf16>, tensor<3072xi32>) -> (tensor<3072xf32>, tensor<3072x50304xf8E5M2>) {
  ^bb0(%a: tensor<3072x50304xbf16>, %u: tensor<3072xi32>):
    %f = nano.cast %a : tensor<3072x50304xbf16> -> tensor<3072x50304xf32>
    %g = nano.sigmoid %f : tensor<3072x50304xf32>
    %e = nano.exp %g : tensor<3072x50304xf32>
    %sum = nano.reduce sum %e dims [1] : tensor<3072x50304xf32> -> tensor<3072xf32>
    %log = nano.log %sum : tensor<3072xf32>
    %i = nano.iota 1 : tensor<3072x50304xi32>
    %tb = nano.broadcast %u dims [0] : tensor<3072xi32> -> tensor<3072x50304xi32>
    %zero = nano.constant 0.0 : tensor<3072x50304xf32>
    %s = nano.select eq, %i, %tb, %g, %zero : tensor<3072x50304xi32>, tensor<3072x50304xf32>
    %pick = nano.reduce sum %s dims [1] : tensor<3072x50304xf32> -> tensor<3072xf32>
    %loss = nano.sub %log, %pick : tensor<3072xf32>
    %one = nano.constant 1.0 : tensor<3072xf32>
    %d = nano.div %one, %sum : tensor<3072xf32>
    %q = nano.mul %d, %d : tensor<3072xf32>
    %db = nano.broadcast %d dims [0] : tensor<3072xf32> -> tensor<3072x50304xf32>
    %qb = nano.broadcast %q dims [0] : tensor<3072xf32> -> tensor<3072x50304xf32>
    %h = nano.mul %e, %db : tensor<3072x50304xf32>
    %k = nano.mul %g, %qb : tensor<3072x50304xf32>
    %c = nano.select eq, %i, %tb, %k, %h : tensor<3072x50304xi32>, tensor<3072x50304xf32>
    %o = nano.cast %c : tensor<3072x50304xf32> -> tensor<3072x50304xf8E5M2>
    nano.yield %loss, %o : tensor<3072xf32>, tensor<3072x50304xf8E5M2>
  }
  %z = nano.transpose %y#1 : tensor<3072x50304xf8E5M2> -> tensor<50304x3072xf8E5M2>
  nano.return %y#0, %y#1, %z : tensor<3072xf32>, tensor<3072x50304xf8E5M2>, tensor<50304x3072xf8E5M2>
}

// -----

// Several sums, one of them of another operand too, and a whole result that needs none: it is the product's end, and the product itself is not written.
// CHECK-LABEL: nano.program @sums
// CHECK-NEXT:    %[[SUMS:.*]]:3 = nano.fused(%arg2, %arg3, %arg0, %arg1) : {{.*}} -> (tensor<49152x24xf32>, tensor<49152x24xf32>, tensor<49152x3072xbf16>) {
// CHECK-NEXT:    ^bb0(%[[O:.*]]: tensor<49152x3072xbf16>, %[[BIAS:.*]]: tensor<3072xf32>, %[[A:.*]]: tensor<49152x768xbf16>, %[[B:.*]]: tensor<3072x768xbf16>):
// CHECK-NEXT:      %[[P:.*]] = nano.matmul %[[A]], %[[B]] {transpose_b}
// CHECK:           %[[M:.*]] = nano.mul %[[P]], %[[P]]
// CHECK-NEXT:      nano.reshape
// CHECK-NEXT:      %[[S1:.*]] = nano.reduce sum
// CHECK-NEXT:      nano.reshape
// CHECK-NEXT:      %[[S2:.*]] = nano.reduce sum
// CHECK-NEXT:      nano.yield %[[S1]], %[[S2]], %[[M]]
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[ROWS:.*]]:2 = nano.fused(%[[SUMS]]#0, %[[SUMS]]#1) : (tensor<49152x24xf32>, tensor<49152x24xf32>) -> (tensor<49152xf32>, tensor<49152xf32>) {
// CHECK:           nano.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    nano.return %[[ROWS]]#0, %[[SUMS]]#2, %[[ROWS]]#1
// AUTO-LABEL: nano.program @sums
// AUTO-NEXT:     nano.fused
// AUTO-NEXT:     ^bb0
// AUTO-NEXT:       nano.matmul
nano.program @sums(%x: tensor<49152x768xbf16>, %w: tensor<3072x768xbf16>, %o: tensor<49152x3072xbf16>, %bias: tensor<3072xf32>)
    -> (tensor<49152xf32>, tensor<49152x3072xbf16>, tensor<49152xf32>) {
  // expected-remark @below {{computed by a kernel that sums its rows}}
  %p = nano.matmul %x, %w {transpose_b} : (tensor<49152x768xbf16>, tensor<3072x768xbf16>) -> tensor<49152x3072xbf16>
  %y:3 = nano.fused(%o, %p, %bias) : (tensor<49152x3072xbf16>, tensor<49152x3072xbf16>, tensor<3072xf32>)
      -> (tensor<49152xf32>, tensor<49152x3072xbf16>, tensor<49152xf32>) {
  ^bb0(%a: tensor<49152x3072xbf16>, %q: tensor<49152x3072xbf16>, %c: tensor<3072xf32>):
    %f = nano.cast %q : tensor<49152x3072xbf16> -> tensor<49152x3072xf32>
    %b = nano.broadcast %c dims [1] : tensor<3072xf32> -> tensor<49152x3072xf32>
    %g = nano.add %f, %b : tensor<49152x3072xf32>
    %s = nano.reduce sum %g dims [1] : tensor<49152x3072xf32> -> tensor<49152xf32>
    %h = nano.cast %a : tensor<49152x3072xbf16> -> tensor<49152x3072xf32>
    %d = nano.sub %f, %h : tensor<49152x3072xf32>
    %e = nano.mul %d, %d : tensor<49152x3072xf32>
    %t = nano.reduce sum %e dims [1] : tensor<49152x3072xf32> -> tensor<49152xf32>
    %m = nano.mul %q, %q : tensor<49152x3072xbf16>
    %r = nano.sqrt %t : tensor<49152xf32>
    nano.yield %s, %m, %r : tensor<49152xf32>, tensor<49152x3072xbf16>, tensor<49152xf32>
  }
  nano.return %y#0, %y#1, %y#2 : tensor<49152xf32>, tensor<49152x3072xbf16>, tensor<49152xf32>
}

// -----

// Two sums become one number that the elements need: only that crosses memory. By the machine's rates the library and one kernel behind it are faster.
// CHECK-LABEL: nano.program @normalised
// CHECK:         %[[SUMS:.*]]:3 = nano.fused(%arg0, %arg1)
// CHECK:           nano.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[ROWS:.*]] = nano.fused(%[[SUMS]]#1, %[[SUMS]]#2) : (tensor<49152x6xf32>, tensor<49152x6xf32>) -> tensor<49152xf32> {
// CHECK:           nano.div
// CHECK-NEXT:      nano.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[Y:.*]] = nano.fused(%[[SUMS]]#0, %[[ROWS]]) : (tensor<49152x768xbf16>, tensor<49152xf32>) -> tensor<49152x768xbf16> {
// CHECK-NOT:       nano.reduce
// CHECK-NOT:       nano.div
// CHECK:         nano.return %[[Y]]
// AUTO-LABEL: nano.program @normalised
// AUTO-NEXT:     nano.matmul
nano.program @normalised(%x: tensor<49152x768xbf16>, %w: tensor<768x768xbf16>) -> tensor<49152x768xbf16> {
  // expected-remark @below {{computed by a kernel that sums its rows}}
  %p = nano.matmul %x, %w {transpose_b} : (tensor<49152x768xbf16>, tensor<768x768xbf16>) -> tensor<49152x768xbf16>
  %y = nano.fused(%p) : (tensor<49152x768xbf16>) -> tensor<49152x768xbf16> {
  ^bb0(%a: tensor<49152x768xbf16>):
    %f = nano.cast %a : tensor<49152x768xbf16> -> tensor<49152x768xf32>
    %s = nano.reduce sum %f dims [1] : tensor<49152x768xf32> -> tensor<49152xf32>
    %g = nano.mul %f, %f : tensor<49152x768xf32>
    %t = nano.reduce sum %g dims [1] : tensor<49152x768xf32> -> tensor<49152xf32>
    %d = nano.div %s, %t : tensor<49152xf32>
    %b = nano.broadcast %d dims [0] : tensor<49152xf32> -> tensor<49152x768xf32>
    %h = nano.mul %f, %b : tensor<49152x768xf32>
    %o = nano.cast %h : tensor<49152x768xf32> -> tensor<49152x768xbf16>
    nano.yield %o : tensor<49152x768xbf16>
  }
  nano.return %y : tensor<49152x768xbf16>
}

// -----

// A result that is needed transposed is no product's end, although no row's sum is needed for it.
// CHECK-LABEL: nano.program @turned
// CHECK:         %[[SUMS:.*]]:2 = nano.fused(%arg0, %arg1) : {{.*}} -> (tensor<4096x512xbf16>, tensor<4096x4xf32>)
// CHECK:         %[[ROWS:.*]] = nano.fused(%[[SUMS]]#1) : (tensor<4096x4xf32>) -> tensor<4096xf32>
// CHECK:         %[[Y:.*]] = nano.fused(%[[SUMS]]#0) : (tensor<4096x512xbf16>) -> tensor<4096x512xbf16>
// CHECK:         %[[T:.*]] = nano.transpose %[[Y]]
// CHECK:         nano.return %[[ROWS]], %[[T]]
// AUTO-LABEL: nano.program @turned
// AUTO-NEXT:     nano.matmul
nano.program @turned(%x: tensor<4096x256xbf16>, %w: tensor<256x512xbf16>) -> (tensor<4096xf32>, tensor<512x4096xbf16>) {
  // expected-remark @below {{computed by a kernel that sums its rows}}
  %p = nano.matmul %x, %w : (tensor<4096x256xbf16>, tensor<256x512xbf16>) -> tensor<4096x512xbf16>
  %y:2 = nano.fused(%p) : (tensor<4096x512xbf16>) -> (tensor<4096xf32>, tensor<4096x512xbf16>) {
  ^bb0(%a: tensor<4096x512xbf16>):
    %f = nano.cast %a : tensor<4096x512xbf16> -> tensor<4096x512xf32>
    %s = nano.reduce sum %f dims [1] : tensor<4096x512xf32> -> tensor<4096xf32>
    %m = nano.mul %a, %a : tensor<4096x512xbf16>
    nano.yield %s, %m : tensor<4096xf32>, tensor<4096x512xbf16>
  }
  %t = nano.transpose %y#1 : tensor<4096x512xbf16> -> tensor<512x4096xbf16>
  nano.return %y#0, %t : tensor<4096xf32>, tensor<512x4096xbf16>
}

// -----

// As many columns as one partial sum has; the number of a row that elements need is a picked one.
// CHECK-LABEL: nano.program @one_part
// CHECK:         %[[SUMS:.*]]:2 = nano.fused(%arg0, %arg1) : {{.*}} -> (tensor<256x128xbf16>, tensor<256x1xf32>)
// CHECK:         %[[ROWS:.*]]:2 = nano.fused(%[[SUMS]]#0, %arg2, %[[SUMS]]#1) : {{.*}} -> (tensor<256xf32>, tensor<256xf32>)
// CHECK:         %[[Y:.*]] = nano.fused(%[[SUMS]]#0, %[[ROWS]]#1) :
// CHECK:         nano.return %[[ROWS]]#0, %[[Y]]
nano.program @one_part(%x: tensor<256x256xbf16>, %w: tensor<256x128xbf16>, %t: tensor<256xi32>) -> (tensor<256xf32>, tensor<256x128xbf16>) {
  // expected-remark @below {{computed by a kernel that sums its rows}}
  %p = nano.matmul %x, %w : (tensor<256x256xbf16>, tensor<256x128xbf16>) -> tensor<256x128xbf16>
  %y:2 = nano.fused(%p, %t) : (tensor<256x128xbf16>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256x128xbf16>) {
  ^bb0(%a: tensor<256x128xbf16>, %u: tensor<256xi32>):
    %f = nano.cast %a : tensor<256x128xbf16> -> tensor<256x128xf32>
    %s = nano.reduce sum %f dims [1] : tensor<256x128xf32> -> tensor<256xf32>
    %i = nano.iota 1 : tensor<256x128xi32>
    %tb = nano.broadcast %u dims [0] : tensor<256xi32> -> tensor<256x128xi32>
    %zero = nano.constant 0.0 : tensor<256x128xf32>
    %c = nano.select eq, %i, %tb, %f, %zero : tensor<256x128xi32>, tensor<256x128xf32>
    %pick = nano.reduce sum %c dims [1] : tensor<256x128xf32> -> tensor<256xf32>
    %b = nano.broadcast %pick dims [0] : tensor<256xf32> -> tensor<256x128xf32>
    %h = nano.sub %f, %b : tensor<256x128xf32>
    %o = nano.cast %h : tensor<256x128xf32> -> tensor<256x128xbf16>
    nano.yield %s, %o : tensor<256xf32>, tensor<256x128xbf16>
  }
  nano.return %y#0, %y#1 : tensor<256xf32>, tensor<256x128xbf16>
}

// -----

// A head in bf16: as it is its kernel reads the logits once, and has few operations to begin at the product's end.
// AUTO-LABEL: nano.program @plain_head
// AUTO-NEXT:     nano.matmul
// AUTO-NEXT:     nano.fused
// AUTO-NOT:      nano.fused
// CHECK-LABEL: nano.program @plain_head
// CHECK-COUNT-3: nano.fused
nano.program @plain_head(%x: tensor<3072x768xbf16>, %w: tensor<50304x768xbf16>) -> (tensor<3072xf32>, tensor<3072x50304xbf16>) {
  // expected-remark @below {{computed by a kernel that sums its rows}}
  %p = nano.matmul %x, %w {transpose_b} : (tensor<3072x768xbf16>, tensor<50304x768xbf16>) -> tensor<3072x50304xbf16>
  %y:2 = nano.fused(%p) : (tensor<3072x50304xbf16>) -> (tensor<3072xf32>, tensor<3072x50304xbf16>) {
  ^bb0(%a: tensor<3072x50304xbf16>):
    %f = nano.cast %a : tensor<3072x50304xbf16> -> tensor<3072x50304xf32>
    %e = nano.exp %f : tensor<3072x50304xf32>
    %sum = nano.reduce sum %e dims [1] : tensor<3072x50304xf32> -> tensor<3072xf32>
    %db = nano.broadcast %sum dims [0] : tensor<3072xf32> -> tensor<3072x50304xf32>
    %h = nano.mul %e, %db : tensor<3072x50304xf32>
    %o = nano.cast %h : tensor<3072x50304xf32> -> tensor<3072x50304xbf16>
    nano.yield %sum, %o : tensor<3072xf32>, tensor<3072x50304xbf16>
  }
  nano.return %y#0, %y#1 : tensor<3072xf32>, tensor<3072x50304xbf16>
}

// -----

// With more of them it computes them twice, since a row is too long to be kept in registers until its sum is known.
// AUTO-LABEL: nano.program @capped_head
// AUTO-NEXT:     nano.fused
// AUTO-NEXT:     ^bb0
// AUTO-NEXT:       nano.matmul
// CHECK-LABEL: nano.program @capped_head
// CHECK-COUNT-3: nano.fused
nano.program @capped_head(%x: tensor<3072x768xbf16>, %w: tensor<50304x768xbf16>) -> (tensor<3072xf32>, tensor<3072x50304xbf16>) {
  // expected-remark @below {{computed by a kernel that sums its rows}}
  %p = nano.matmul %x, %w {transpose_b} : (tensor<3072x768xbf16>, tensor<50304x768xbf16>) -> tensor<3072x50304xbf16>
  %y:2 = nano.fused(%p) : (tensor<3072x50304xbf16>) -> (tensor<3072xf32>, tensor<3072x50304xbf16>) {
  ^bb0(%a: tensor<3072x50304xbf16>):
    %f = nano.cast %a : tensor<3072x50304xbf16> -> tensor<3072x50304xf32>
    %q = nano.tanh %f : tensor<3072x50304xf32>
    %g = nano.sigmoid %q : tensor<3072x50304xf32>
    %e = nano.exp %g : tensor<3072x50304xf32>
    %sum = nano.reduce sum %e dims [1] : tensor<3072x50304xf32> -> tensor<3072xf32>
    %db = nano.broadcast %sum dims [0] : tensor<3072xf32> -> tensor<3072x50304xf32>
    %k = nano.mul %e, %db : tensor<3072x50304xf32>
    %h = nano.mul %k, %g : tensor<3072x50304xf32>
    %o = nano.cast %h : tensor<3072x50304xf32> -> tensor<3072x50304xbf16>
    nano.yield %sum, %o : tensor<3072xf32>, tensor<3072x50304xbf16>
  }
  nano.return %y#0, %y#1 : tensor<3072xf32>, tensor<3072x50304xbf16>
}
