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

// -----

// Also where a left operand is some columns that a kernel has turned, beside others as they are.
// CHECK-LABEL: nano.program @turned
// CHECK:         %[[D:.*]] = nano.concat %{{.*}}, %{{.*}} dim 1 : (tensor<32768x512xbf16>, tensor<32768x512xbf16>) -> tensor<32768x1024xbf16>
// CHECK:         %[[S:.*]] = nano.concat %{{.*}}, %[[D]] dim 1 : (tensor<32768x256xbf16>, tensor<32768x1024xbf16>) -> tensor<32768x1280xbf16>
// CHECK-NEXT:    nano.matmul %[[S]], %{{.*}} : (tensor<32768x1280xbf16>, tensor<1280x1024xbf16>) -> tensor<32768x1024xbf16>
// CHECK-NOT:     nano.matmul
nano.program @turned(%x: tensor<32768x1024xbf16>, %q: tensor<1024x1024xf32>, %k: tensor<256x1024xf32>) -> tensor<32768x1024xbf16> {
  %wq = nano.fused(%q) : (tensor<1024x1024xf32>) -> tensor<1024x1024xbf16> {
  ^bb0(%a: tensor<1024x1024xf32>):
    %c = nano.cast %a : tensor<1024x1024xf32> -> tensor<1024x1024xbf16>
    nano.yield %c : tensor<1024x1024xbf16>
  }
  %y = nano.matmul %x, %wq {transpose_b} : (tensor<32768x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<32768x1024xbf16>
  %wk = nano.fused(%k) : (tensor<256x1024xf32>) -> tensor<256x1024xbf16> {
  ^bb0(%a: tensor<256x1024xf32>):
    %c = nano.cast %a : tensor<256x1024xf32> -> tensor<256x1024xbf16>
    nano.yield %c : tensor<256x1024xbf16>
  }
  %z = nano.matmul %x, %wk {transpose_b} : (tensor<32768x1024xbf16>, tensor<256x1024xbf16>) -> tensor<32768x256xbf16>
  %y0 = nano.slice %y dim 1 at 0 : tensor<32768x1024xbf16> -> tensor<32768x512xbf16>
  %y1 = nano.slice %y dim 1 at 512 : tensor<32768x1024xbf16> -> tensor<32768x512xbf16>
  %u = nano.fused(%z) : (tensor<32768x256xbf16>) -> tensor<32768x256xbf16> {
  ^bb0(%a: tensor<32768x256xbf16>):
    %e = nano.neg %a : tensor<32768x256xbf16>
    nano.yield %e : tensor<32768x256xbf16>
  }
  %t = nano.fused(%y0) : (tensor<32768x512xbf16>) -> tensor<32768x512xbf16> {
  ^bb0(%a: tensor<32768x512xbf16>):
    %e = nano.neg %a : tensor<32768x512xbf16>
    nano.yield %e : tensor<32768x512xbf16>
  }
  %d = nano.concat %t, %y1 dim 1 : (tensor<32768x512xbf16>, tensor<32768x512xbf16>) -> tensor<32768x1024xbf16>
  %one = nano.matmul %d, %wq : (tensor<32768x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<32768x1024xbf16>
  %dx = nano.matmul %u, %wk add %one : (tensor<32768x256xbf16>, tensor<256x1024xbf16>, tensor<32768x1024xbf16>) -> tensor<32768x1024xbf16>
  nano.return %dx : tensor<32768x1024xbf16>
}

// -----

// Of 8 bits with the same scales: both ways of a layer whose weights lie as they are and transposed. What has another scale stays apart.
// CHECK-LABEL: nano.program @scaled
// CHECK:         %[[Q:.*]] = nano.fused(%{{.*}}) : (tensor<1024x1024xf32>
// CHECK:         %[[QT:.*]] = nano.transpose %[[Q]]
// CHECK:         %[[K:.*]] = nano.fused(%{{.*}}) : (tensor<256x1024xf32>
// CHECK:         %[[KT:.*]] = nano.transpose %[[K]]
// CHECK:         %[[W:.*]] = nano.concat %[[Q]], %[[K]] dim 0
// CHECK-NEXT:    %[[P:.*]] = nano.scaled_matmul %{{.*}}, %[[W]] scales(%[[SX:.*]], %[[SW:.*]]) {transpose_b} : (tensor<32768x1024xf8E4M3FN>, tensor<1280x1024xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<32768x1280xbf16>
// CHECK:         %[[D:.*]]:3 = nano.fused(
// CHECK:         %[[V:.*]] = nano.scaled_matmul %[[D]]#2, %{{.*}} {transpose_b} : (tensor<32768x256xf8E5M2>
// CHECK:         %[[WT:.*]] = nano.concat %[[QT]], %[[KT]] dim 1
// CHECK:         %[[S:.*]] = nano.concat %[[D]]#0, %[[D]]#1 dim 1
// CHECK-NEXT:    nano.scaled_matmul %[[S]], %[[WT]] scales(%{{.*}}, %[[SW]]) add %[[V]] {transpose_b} : (tensor<32768x1280xf8E5M2>, tensor<1024x1280xf8E4M3FN>, tensor<f32>, tensor<f32>, tensor<32768x1024xbf16>) -> tensor<32768x1024xbf16>
// CHECK-NOT:     nano.scaled_matmul {{.*}}tensor<32768x1024xbf16>
nano.program @scaled(%x: tensor<32768x1024xf8E4M3FN>, %q: tensor<1024x1024xf32>, %k: tensor<256x1024xf32>, %wv: tensor<1024x256xf8E4M3FN>,
    %sx: tensor<f32>, %sw: tensor<f32>, %sv: tensor<f32>, %sg: tensor<f32>, %sgv: tensor<f32>) -> (tensor<32768x1024xbf16>, tensor<1280x1024xf32>) {
  %wq = nano.fused(%q) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf8E4M3FN> {
  ^bb0(%a: tensor<1024x1024xf32>):
    %c = nano.cast %a : tensor<1024x1024xf32> -> tensor<1024x1024xf8E4M3FN>
    nano.yield %c : tensor<1024x1024xf8E4M3FN>
  }
  %tq = nano.transpose %wq : tensor<1024x1024xf8E4M3FN> -> tensor<1024x1024xf8E4M3FN>
  %wk = nano.fused(%k) : (tensor<256x1024xf32>) -> tensor<256x1024xf8E4M3FN> {
  ^bb0(%a: tensor<256x1024xf32>):
    %c = nano.cast %a : tensor<256x1024xf32> -> tensor<256x1024xf8E4M3FN>
    nano.yield %c : tensor<256x1024xf8E4M3FN>
  }
  %tk = nano.transpose %wk : tensor<256x1024xf8E4M3FN> -> tensor<1024x256xf8E4M3FN>
  %y = nano.scaled_matmul %x, %wq scales(%sx, %sw) {transpose_b} : (tensor<32768x1024xf8E4M3FN>, tensor<1024x1024xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<32768x1024xbf16>
  %z = nano.scaled_matmul %x, %wk scales(%sx, %sw) {transpose_b} : (tensor<32768x1024xf8E4M3FN>, tensor<256x1024xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<32768x256xbf16>
  %d:3 = nano.fused(%y, %z) : (tensor<32768x1024xbf16>, tensor<32768x256xbf16>) -> (tensor<32768x1024xf8E5M2>, tensor<32768x256xf8E5M2>, tensor<32768x256xf8E5M2>) {
  ^bb0(%a: tensor<32768x1024xbf16>, %b: tensor<32768x256xbf16>):
    %e = nano.cast %a : tensor<32768x1024xbf16> -> tensor<32768x1024xf8E5M2>
    %f = nano.cast %b : tensor<32768x256xbf16> -> tensor<32768x256xf8E5M2>
    %n = nano.neg %b : tensor<32768x256xbf16>
    %g = nano.cast %n : tensor<32768x256xbf16> -> tensor<32768x256xf8E5M2>
    nano.yield %e, %f, %g : tensor<32768x1024xf8E5M2>, tensor<32768x256xf8E5M2>, tensor<32768x256xf8E5M2>
  }
  %v = nano.scaled_matmul %d#2, %wv scales(%sgv, %sv) {transpose_b} : (tensor<32768x256xf8E5M2>, tensor<1024x256xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<32768x1024xbf16>
  %one = nano.scaled_matmul %d#0, %tq scales(%sg, %sw) add %v {transpose_b} : (tensor<32768x1024xf8E5M2>, tensor<1024x1024xf8E4M3FN>, tensor<f32>, tensor<f32>, tensor<32768x1024xbf16>) -> tensor<32768x1024xbf16>
  %dx = nano.scaled_matmul %d#1, %tk scales(%sg, %sw) add %one {transpose_b} : (tensor<32768x256xf8E5M2>, tensor<1024x256xf8E4M3FN>, tensor<f32>, tensor<f32>, tensor<32768x1024xbf16>) -> tensor<32768x1024xbf16>
  %gq = nano.transpose %d#0 : tensor<32768x1024xf8E5M2> -> tensor<1024x32768xf8E5M2>
  %gk = nano.transpose %d#1 : tensor<32768x256xf8E5M2> -> tensor<256x32768xf8E5M2>
  %xt = nano.transpose %x : tensor<32768x1024xf8E4M3FN> -> tensor<1024x32768xf8E4M3FN>
  %dq = nano.scaled_matmul %gq, %xt scales(%sg, %sx) {transpose_b} : (tensor<1024x32768xf8E5M2>, tensor<1024x32768xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<1024x1024xf32>
  %dk = nano.scaled_matmul %gk, %xt scales(%sg, %sx) {transpose_b} : (tensor<256x32768xf8E5M2>, tensor<1024x32768xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<256x1024xf32>
  %both = nano.concat %dq, %dk dim 0 : (tensor<1024x1024xf32>, tensor<256x1024xf32>) -> tensor<1280x1024xf32>
  nano.return %dx, %both : tensor<32768x1024xbf16>, tensor<1280x1024xf32>
}
