// RUN: nano-opt %s -nano-fold-matmul-epilogues | FileCheck %s
// RUN: nano-opt %s -nano-fold-matmul-epilogues=narrows | FileCheck %s --check-prefix=NARROWS

// CHECK-LABEL: nano.program @residual
// CHECK-NEXT:  %[[Y:.*]] = nano.matmul %arg1, %arg2 add %arg0 {transpose_b}
// CHECK-NEXT:  nano.return %[[Y]]
nano.program @residual(%x: tensor<8x16xf32>, %h: tensor<8x32xf32>, %w: tensor<16x32xf32>) -> tensor<8x16xf32> {
  %p = nano.matmul %h, %w {transpose_b} : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
  %y = nano.add %x, %p : tensor<8x16xf32>
  nano.return %y : tensor<8x16xf32>
}

// The sum of bf16 tensors is formed in f32 either way.
// CHECK-LABEL: nano.program @mixed_residual
// CHECK-NEXT:  %[[Y:.*]] = nano.matmul %arg1, %arg2 add %arg0 {transpose_b} : {{.*}} -> tensor<8x16xbf16>
// CHECK-NEXT:  nano.return %[[Y]]
nano.program @mixed_residual(%x: tensor<8x16xbf16>, %h: tensor<8x32xbf16>, %w: tensor<16x32xbf16>) -> tensor<8x16xbf16> {
  %p = nano.matmul %h, %w {transpose_b} : (tensor<8x32xbf16>, tensor<16x32xbf16>) -> tensor<8x16xbf16>
  %xf = nano.cast %x : tensor<8x16xbf16> -> tensor<8x16xf32>
  %pf = nano.cast %p : tensor<8x16xbf16> -> tensor<8x16xf32>
  %s = nano.add %xf, %pf : tensor<8x16xf32>
  %y = nano.cast %s : tensor<8x16xf32> -> tensor<8x16xbf16>
  nano.return %y : tensor<8x16xbf16>
}

// Products of 8-bit floats take the same.
// CHECK-LABEL: nano.program @scaled
// CHECK-NEXT:  %[[Y:.*]] = nano.scaled_matmul %arg1, %arg2 scales(%arg3, %arg3) add %arg0 {alpha = 5.000000e-01 : f64, transpose_b} : {{.*}} -> tensor<8x16xf32>
// CHECK-NEXT:  nano.return %[[Y]]
nano.program @scaled(%x: tensor<8x16xf32>, %h: tensor<8x32xf8E5M2>, %w: tensor<16x32xf8E4M3FN>, %s: tensor<f32>) -> tensor<8x16xf32> {
  %p = nano.scaled_matmul %h, %w scales(%s, %s) {transpose_b} : (tensor<8x32xf8E5M2>, tensor<16x32xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<8x16xbf16>
  %c = nano.constant 0.5 : tensor<8x16xf32>
  %f = nano.cast %p : tensor<8x16xbf16> -> tensor<8x16xf32>
  %t = nano.mul %f, %c : tensor<8x16xf32>
  %y = nano.add %x, %t : tensor<8x16xf32>
  nano.return %y : tensor<8x16xf32>
}

// A step of Newton–Schulz needs no kernel but its three products.
// CHECK-LABEL: nano.program @newton_schulz
// CHECK-NEXT:  %[[A:.*]] = nano.matmul %arg0, %arg0 {transpose_b}
// CHECK-NEXT:  %[[B:.*]] = nano.matmul %[[A]], %[[A]] add %[[A]] {alpha = 2.031500e+00 : f64, beta = -4.775000e+00 : f64}
// CHECK-NEXT:  %[[X:.*]] = nano.matmul %[[B]], %arg0 add %arg0 {beta = 3.444500e+00 : f64}
// CHECK-NEXT:  nano.return %[[X]]
nano.program @newton_schulz(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %a = nano.matmul %x, %x {transpose_b} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32>
  %c1 = nano.constant -4.775 : tensor<8x8xf32>
  %c2 = nano.constant 2.0315 : tensor<8x8xf32>
  %c0 = nano.constant 3.4445 : tensor<8x16xf32>
  %ba = nano.mul %a, %c1 : tensor<8x8xf32>
  %aa = nano.matmul %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %caa = nano.mul %aa, %c2 : tensor<8x8xf32>
  %b = nano.add %ba, %caa : tensor<8x8xf32>
  %ax = nano.mul %x, %c0 : tensor<8x16xf32>
  %bx = nano.matmul %b, %x : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %y = nano.add %ax, %bx : tensor<8x16xf32>
  nano.return %y : tensor<8x16xf32>
}

// A bias would have to be written out to be an addend: it is left to fusion. So is a product that somebody else reads.
// CHECK-LABEL: nano.program @left_alone
// CHECK:       nano.matmul %arg0, %arg1 {transpose_b}
// CHECK:       nano.add
// CHECK:       nano.add
nano.program @left_alone(%h: tensor<8x32xf32>, %w: tensor<16x32xf32>, %b: tensor<16xf32>, %x: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %p = nano.matmul %h, %w {transpose_b} : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
  %bb = nano.broadcast %b dims [1] : tensor<16xf32> -> tensor<8x16xf32>
  %y = nano.add %p, %bb : tensor<8x16xf32>
  %z = nano.add %x, %p : tensor<8x16xf32>
  nano.return %y, %z : tensor<8x16xf32>, tensor<8x16xf32>
}

// CHECK-LABEL: nano.program @one_rounding
// CHECK-NEXT:  nano.matmul %arg0, %arg1 {transpose_a} : (tensor<32x8xbf16>, tensor<32x16xbf16>) -> tensor<8x16xf32>
// CHECK-NEXT:  nano.return
nano.program @one_rounding(%a: tensor<32x8xbf16>, %b: tensor<32x16xbf16>) -> tensor<8x16xf32> {
  %p = nano.matmul %a, %b {transpose_a} : (tensor<32x8xbf16>, tensor<32x16xbf16>) -> tensor<8x16xbf16>
  %f = nano.cast %p : tensor<8x16xbf16> -> tensor<8x16xf32>
  nano.return %f : tensor<8x16xf32>
}

// What a kernel widens for nothing stays narrow in memory.
// CHECK-LABEL: nano.program @widened_in_kernels
// CHECK-NEXT:  %[[P:.*]] = nano.matmul %arg0, %arg1 {transpose_a} : (tensor<32x8xbf16>, tensor<32x16xbf16>) -> tensor<8x16xbf16>
// CHECK-NEXT:  nano.cast %[[P]]
nano.program @widened_in_kernels(%a: tensor<32x8xbf16>, %b: tensor<32x16xbf16>, %c: tensor<16xf32>) -> tensor<8x16xf32> {
  %p = nano.matmul %a, %b {transpose_a} : (tensor<32x8xbf16>, tensor<32x16xbf16>) -> tensor<8x16xbf16>
  %f = nano.cast %p : tensor<8x16xbf16> -> tensor<8x16xf32>
  %w = nano.broadcast %c dims [1] : tensor<16xf32> -> tensor<8x16xf32>
  %y = nano.add %f, %w : tensor<8x16xf32>
  nano.return %y : tensor<8x16xf32>
}

// What a state keeps of it in f32, as the gradient of a weight by whose rows' numbers it is multiplied,
// is not rounded.
// CHECK-LABEL: nano.program @kept
// CHECK:         %[[G:.*]] = nano.matmul %{{.*}}, %{{.*}} {transpose_a} : (tensor<32x8xbf16>, tensor<32x16xbf16>) -> tensor<8x16xf32>
// CHECK-NEXT:    nano.mul %[[G]], %{{.*}} : tensor<8x16xf32>
nano.state @kept_gradient : tensor<128xf32> {init = #nano.init<"constant", [0.0]>, role = #nano.role<gradient>}
nano.program @kept(%a: tensor<32x8xbf16>, %b: tensor<32x16xbf16>, %s: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = nano.matmul %a, %b {transpose_a} : (tensor<32x8xbf16>, tensor<32x16xbf16>) -> tensor<8x16xbf16>
  %1 = nano.cast %0 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %2 = nano.mul %1, %s : tensor<8x16xf32>
  %3 = nano.reshape %2 : tensor<8x16xf32> -> tensor<128xf32>
  nano.store %3, @kept_gradient : tensor<128xf32>
  %4 = nano.mul %1, %1 : tensor<8x16xf32>
  nano.return %4 : tensor<8x16xf32>
}

// Nor where ranks add it up first, alone or with others.
// CHECK-LABEL: nano.program @kept_of_all
// CHECK:         nano.matmul %{{.*}}, %{{.*}} {transpose_a} : (tensor<32x8xbf16>, tensor<32x16xbf16>) -> tensor<8x16xf32>
// CHECK-LABEL: nano.program @kept_of_bucket
// CHECK:         nano.matmul %{{.*}}, %{{.*}} {transpose_a} : (tensor<32x8xbf16>, tensor<32x16xbf16>) -> tensor<8x16xf32>
nano.program @kept_of_all(%a: tensor<32x8xbf16>, %b: tensor<32x16xbf16>, %s: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = nano.matmul %a, %b {transpose_a} : (tensor<32x8xbf16>, tensor<32x16xbf16>) -> tensor<8x16xbf16>
  %1 = nano.cast %0 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %2 = nano.mul %1, %s : tensor<8x16xf32>
  %3 = nano.reshape %2 : tensor<8x16xf32> -> tensor<128xf32>
  %4 = nano.all_reduce %3 : tensor<128xf32>
  nano.store %4, @kept_gradient : tensor<128xf32>
  %5 = nano.mul %1, %1 : tensor<8x16xf32>
  nano.return %5 : tensor<8x16xf32>
}
nano.program @kept_of_bucket(%a: tensor<32x8xbf16>, %b: tensor<32x16xbf16>, %s: tensor<8x16xf32>, %o: tensor<64xf32>) -> tensor<8x16xf32> {
  %0 = nano.matmul %a, %b {transpose_a} : (tensor<32x8xbf16>, tensor<32x16xbf16>) -> tensor<8x16xbf16>
  %1 = nano.cast %0 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %2 = nano.mul %1, %s : tensor<8x16xf32>
  %3 = nano.reshape %2 : tensor<8x16xf32> -> tensor<128xf32>
  %4 = nano.concat %o, %3 dim 0 : (tensor<64xf32>, tensor<128xf32>) -> tensor<192xf32>
  %5 = nano.all_reduce %4 : tensor<192xf32>
  %6 = nano.slice %5 dim 0 at 64 : tensor<192xf32> -> tensor<128xf32>
  nano.store %6, @kept_gradient : tensor<128xf32>
  %7 = nano.mul %1, %1 : tensor<8x16xf32>
  nano.return %7 : tensor<8x16xf32>
}

// Not every library has a product of f32 factors with a narrower result.
// CHECK-LABEL: nano.program @narrowed_behind_f32
// CHECK-NEXT:  %[[P:.*]] = nano.matmul %arg0, %arg1 : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
// CHECK-NEXT:  nano.cast %[[P]]
// NARROWS-LABEL: nano.program @narrowed_behind_f32
// NARROWS-NEXT:  nano.matmul %arg0, %arg1 : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xbf16>
nano.program @narrowed_behind_f32(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>) -> tensor<8x16xbf16> {
  %p = nano.matmul %a, %b : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  %n = nano.cast %p : tensor<8x16xf32> -> tensor<8x16xbf16>
  nano.return %n : tensor<8x16xbf16>
}

// What a model says in one op is rounded once either way.
// CHECK-LABEL: nano.program @narrowed
// CHECK-NEXT:  %[[ADDEND:.*]] = nano.cast %arg2 : tensor<8x16xbf16> -> tensor<8x16xf32>
// CHECK-NEXT:  %[[P:.*]] = nano.matmul %arg0, %arg1 add %[[ADDEND]] {alpha = 2.000000e+00 : f64, beta = 3.000000e+00 : f64} : (tensor<8x32xf32>, tensor<32x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
// CHECK-NEXT:  nano.cast %[[P]] : tensor<8x16xf32> -> tensor<8x16xbf16>
// NARROWS-LABEL: nano.program @narrowed
// NARROWS-NEXT:  nano.matmul %arg0, %arg1 add %arg2
nano.program @narrowed(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %c: tensor<8x16xbf16>) -> tensor<8x16xbf16> {
  %p = nano.matmul %a, %b add %c {alpha = 2.0 : f64, beta = 3.0 : f64} : (tensor<8x32xf32>, tensor<32x16xf32>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
  nano.return %p : tensor<8x16xbf16>
}

// Sums of outer products whose parts are read by casts alone have the casts' type; others stay.
// CHECK-LABEL: nano.program @parts
// CHECK-NEXT:  %[[W:.*]] = nano.grouped_outer %arg0, %arg1, %arg2 : (tensor<32x8xbf16>, tensor<32x16xbf16>, tensor<2xi32>) -> tensor<2x8x16xf32>
// CHECK-NEXT:  %[[A:.*]] = nano.slice %[[W]] dim 0 at 0 : tensor<2x8x16xf32> -> tensor<1x8x16xf32>
// CHECK-NEXT:  %[[R:.*]] = nano.reshape %[[A]] : tensor<1x8x16xf32> -> tensor<8x16xf32>
// CHECK-NEXT:  %[[B:.*]] = nano.slice %[[W]] dim 0 at 1 : tensor<2x8x16xf32> -> tensor<1x8x16xf32>
// CHECK-NEXT:  nano.return %[[R]], %[[B]]
nano.program @parts(%a: tensor<32x8xbf16>, %b: tensor<32x16xbf16>, %e: tensor<2xi32>) -> (tensor<8x16xf32>, tensor<1x8x16xf32>) {
  %w = nano.grouped_outer %a, %b, %e : (tensor<32x8xbf16>, tensor<32x16xbf16>, tensor<2xi32>) -> tensor<2x8x16xbf16>
  %0 = nano.slice %w dim 0 at 0 : tensor<2x8x16xbf16> -> tensor<1x8x16xbf16>
  %1 = nano.reshape %0 : tensor<1x8x16xbf16> -> tensor<8x16xbf16>
  %2 = nano.cast %1 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %3 = nano.slice %w dim 0 at 1 : tensor<2x8x16xbf16> -> tensor<1x8x16xbf16>
  %4 = nano.cast %3 : tensor<1x8x16xbf16> -> tensor<1x8x16xf32>
  nano.return %2, %4 : tensor<8x16xf32>, tensor<1x8x16xf32>
}
// CHECK-LABEL: nano.program @read_as_it_is
// CHECK-NEXT:  nano.grouped_outer %arg0, %arg1, %arg2 : {{.*}} -> tensor<2x8x16xbf16>
nano.program @read_as_it_is(%a: tensor<32x8xbf16>, %b: tensor<32x16xbf16>, %e: tensor<2xi32>) -> (tensor<2x8x16xf32>, tensor<1x8x16xbf16>) {
  %w = nano.grouped_outer %a, %b, %e : (tensor<32x8xbf16>, tensor<32x16xbf16>, tensor<2xi32>) -> tensor<2x8x16xbf16>
  %0 = nano.slice %w dim 0 at 0 : tensor<2x8x16xbf16> -> tensor<1x8x16xbf16>
  %1 = nano.cast %w : tensor<2x8x16xbf16> -> tensor<2x8x16xf32>
  nano.return %1, %0 : tensor<2x8x16xf32>, tensor<1x8x16xbf16>
}
