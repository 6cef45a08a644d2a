// What a product's epilogue reads and writes is added to the product's time: one operand and a result cost less there than a kernel behind the product, four of each cost more.
// RUN: nano-opt %s -nano-fuse-products="machine=h200-nvlink" | FileCheck %s

// CHECK-LABEL: nano.program @one
// CHECK-NEXT:    nano.fused
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      nano.matmul
nano.program @one(%x: tensor<49152x768xbf16>, %w: tensor<768x768xbf16>, %a0: tensor<49152x768xf32>) -> (tensor<49152x768xf32>) {
  %p = nano.matmul %x, %w : (tensor<49152x768xbf16>, tensor<768x768xbf16>) -> tensor<49152x768xbf16>
  %y = nano.fused(%p, %a0) : (tensor<49152x768xbf16>, tensor<49152x768xf32>) -> (tensor<49152x768xf32>) {
  ^bb0(%q: tensor<49152x768xbf16>, %b0: tensor<49152x768xf32>):
    %f = nano.cast %q : tensor<49152x768xbf16> -> tensor<49152x768xf32>
    %s0 = nano.add %f, %b0 : tensor<49152x768xf32>
    nano.yield %s0 : tensor<49152x768xf32>
  }
  nano.return %y : tensor<49152x768xf32>
}

// CHECK-LABEL: nano.program @four
// CHECK-NEXT:    nano.matmul
// CHECK-NEXT:    nano.fused
nano.program @four(%x: tensor<49152x768xbf16>, %w: tensor<768x768xbf16>, %a0: tensor<49152x768xf32>, %a1: tensor<49152x768xf32>, %a2: tensor<49152x768xf32>, %a3: tensor<49152x768xf32>) -> (tensor<49152x768xf32>, tensor<49152x768xf32>, tensor<49152x768xf32>, tensor<49152x768xf32>) {
  %p = nano.matmul %x, %w : (tensor<49152x768xbf16>, tensor<768x768xbf16>) -> tensor<49152x768xbf16>
  %y:4 = nano.fused(%p, %a0, %a1, %a2, %a3) : (tensor<49152x768xbf16>, tensor<49152x768xf32>, tensor<49152x768xf32>, tensor<49152x768xf32>, tensor<49152x768xf32>) -> (tensor<49152x768xf32>, tensor<49152x768xf32>, tensor<49152x768xf32>, tensor<49152x768xf32>) {
  ^bb0(%q: tensor<49152x768xbf16>, %b0: tensor<49152x768xf32>, %b1: tensor<49152x768xf32>, %b2: tensor<49152x768xf32>, %b3: tensor<49152x768xf32>):
    %f = nano.cast %q : tensor<49152x768xbf16> -> tensor<49152x768xf32>
    %s0 = nano.add %f, %b0 : tensor<49152x768xf32>
    %s1 = nano.add %f, %b1 : tensor<49152x768xf32>
    %s2 = nano.add %f, %b2 : tensor<49152x768xf32>
    %s3 = nano.add %f, %b3 : tensor<49152x768xf32>
    nano.yield %s0, %s1, %s2, %s3 : tensor<49152x768xf32>, tensor<49152x768xf32>, tensor<49152x768xf32>, tensor<49152x768xf32>
  }
  nano.return %y#0, %y#1, %y#2, %y#3 : tensor<49152x768xf32>, tensor<49152x768xf32>, tensor<49152x768xf32>, tensor<49152x768xf32>
}
