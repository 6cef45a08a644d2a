// Products that share an operand become one whose results are slices, and sums of products one product; weights are put side by side by what makes them.
// RUN: nano-opt %s -split-input-file -nano-merge-products="machine=h200-nvlink" | FileCheck %s

// CHECK-LABEL: nano.program @layer
// CHECK:         %[[Q:.*]] = nano.fused(%{{.*}}) : (tensor<1024x1024xf32>)
// CHECK:         %[[K:.*]] = nano.fused(%{{.*}}) : (tensor<256x1024xf32>)
// CHECK:         %[[W:.*]] = nano.concat %[[Q]], %[[K]] dim 0
// CHECK-NEXT:    %[[P:.*]] = nano.matmul %{{.*}}, %[[W]] {transpose_b} : (tensor<32768x1024xbf16>, tensor<1280x1024xbf16>) -> tensor<32768x1280xbf16>
// CHECK-NEXT:    %[[PQ:.*]] = nano.slice %[[P]] dim 1 at 0
// CHECK-NEXT:    %[[PK:.*]] = nano.slice %[[P]] dim 1 at 1024
// CHECK:         %[[D:.*]]:2 = nano.fused(%[[PQ]], %[[PK]])
// CHECK:         %[[S:.*]] = nano.concat %[[D]]#0, %[[D]]#1 dim 1
// CHECK-NEXT:    %[[DX:.*]] = nano.matmul %[[S]], %[[W]] : (tensor<32768x1280xbf16>, tensor<1280x1024xbf16>) -> tensor<32768x1024xbf16>
// CHECK-NOT:     nano.matmul
// CHECK:         nano.return %[[DX]]
nano.state @q : tensor<1024x1024xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>}
nano.state @k : tensor<256x1024xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>}
nano.program @layer(%x: tensor<32768x1024xbf16>) -> tensor<32768x1024xbf16> {
  %q = nano.load @q : tensor<1024x1024xf32>
  %wq = nano.fused(%q) : (tensor<1024x1024xf32>) -> tensor<1024x1024xbf16> {
  ^bb0(%a: tensor<1024x1024xf32>):
    %c = nano.cast %a : tensor<1024x1024xf32> -> tensor<1024x1024xbf16>
    nano.yield %c : tensor<1024x1024xbf16>
  }
  %y = nano.matmul %x, %wq {transpose_b} : (tensor<32768x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<32768x1024xbf16>
  %k = nano.load @k : tensor<256x1024xf32>
  %wk = nano.fused(%k) : (tensor<256x1024xf32>) -> tensor<256x1024xbf16> {
  ^bb0(%a: tensor<256x1024xf32>):
    %c = nano.cast %a : tensor<256x1024xf32> -> tensor<256x1024xbf16>
    nano.yield %c : tensor<256x1024xbf16>
  }
  %z = nano.matmul %x, %wk {transpose_b} : (tensor<32768x1024xbf16>, tensor<256x1024xbf16>) -> tensor<32768x256xbf16>
  %d:2 = nano.fused(%y, %z) : (tensor<32768x1024xbf16>, tensor<32768x256xbf16>) -> (tensor<32768x1024xbf16>, tensor<32768x256xbf16>) {
  ^bb0(%a: tensor<32768x1024xbf16>, %b: tensor<32768x256xbf16>):
    %e = nano.neg %a : tensor<32768x1024xbf16>
    %f = nano.neg %b : tensor<32768x256xbf16>
    nano.yield %e, %f : tensor<32768x1024xbf16>, tensor<32768x256xbf16>
  }
  %one = nano.matmul %d#0, %wq : (tensor<32768x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<32768x1024xbf16>
  %dx = nano.matmul %d#1, %wk add %one : (tensor<32768x256xbf16>, tensor<256x1024xbf16>, tensor<32768x1024xbf16>) -> tensor<32768x1024xbf16>
  nano.return %dx : tensor<32768x1024xbf16>
}

// -----

// Weights with columns of the result side by side: along dimension 1. The addend stays the sum's.
// CHECK-LABEL: nano.program @columns
// CHECK:         %[[W:.*]] = nano.concat %{{.*}}, %{{.*}} dim 1 : (tensor<1024x256xbf16>, tensor<1024x512xbf16>) -> tensor<1024x768xbf16>
// CHECK-NEXT:    nano.matmul %arg0, %[[W]] : (tensor<4096x1024xbf16>, tensor<1024x768xbf16>) -> tensor<4096x768xbf16>
// CHECK:         nano.concat %{{.*}}, %{{.*}} dim 1 : (tensor<4096x256xbf16>, tensor<4096x512xbf16>) -> tensor<4096x768xbf16>
// CHECK-NEXT:    nano.matmul %{{.*}}, %[[W]] add %{{.*}} {transpose_b} : (tensor<4096x768xbf16>, tensor<1024x768xbf16>, tensor<4096x1024xbf16>) -> tensor<4096x1024xbf16>
// CHECK-NOT:     nano.matmul
nano.program @columns(%x: tensor<4096x1024xbf16>, %v: tensor<1024x256xf32>, %w: tensor<1024x512xf32>) -> tensor<4096x1024xbf16> {
  %wv = nano.fused(%v) : (tensor<1024x256xf32>) -> tensor<1024x256xbf16> {
  ^bb0(%a: tensor<1024x256xf32>):
    %c = nano.cast %a : tensor<1024x256xf32> -> tensor<1024x256xbf16>
    nano.yield %c : tensor<1024x256xbf16>
  }
  %ww = nano.fused(%w) : (tensor<1024x512xf32>) -> tensor<1024x512xbf16> {
  ^bb0(%a: tensor<1024x512xf32>):
    %c = nano.cast %a : tensor<1024x512xf32> -> tensor<1024x512xbf16>
    nano.yield %c : tensor<1024x512xbf16>
  }
  %y = nano.matmul %x, %wv : (tensor<4096x1024xbf16>, tensor<1024x256xbf16>) -> tensor<4096x256xbf16>
  %z = nano.matmul %x, %ww : (tensor<4096x1024xbf16>, tensor<1024x512xbf16>) -> tensor<4096x512xbf16>
  %d:2 = nano.fused(%y, %z) : (tensor<4096x256xbf16>, tensor<4096x512xbf16>) -> (tensor<4096x256xbf16>, tensor<4096x512xbf16>) {
  ^bb0(%a: tensor<4096x256xbf16>, %b: tensor<4096x512xbf16>):
    %e = nano.neg %a : tensor<4096x256xbf16>
    %f = nano.neg %b : tensor<4096x512xbf16>
    nano.yield %e, %f : tensor<4096x256xbf16>, tensor<4096x512xbf16>
  }
  %one = nano.matmul %d#0, %wv add %x {transpose_b} : (tensor<4096x256xbf16>, tensor<1024x256xbf16>, tensor<4096x1024xbf16>) -> tensor<4096x1024xbf16>
  %two = nano.matmul %d#1, %ww add %one {transpose_b} : (tensor<4096x512xbf16>, tensor<1024x512xbf16>, tensor<4096x1024xbf16>) -> tensor<4096x1024xbf16>
  nano.return %two : tensor<4096x1024xbf16>
}
