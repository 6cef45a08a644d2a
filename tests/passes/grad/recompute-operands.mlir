// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute | FileCheck %s --check-prefixes=CHECK,AGAIN
// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute=spend-bytes=24575 | FileCheck %s --check-prefixes=CHECK,AGAIN
// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute=spend-bytes=24576 | FileCheck %s --check-prefixes=CHECK,KEPT

// Products of both passes read the table's rows, 8,192 bytes, and the squares, 16,384 bytes each. The second layer's square has just been made when the backward pass begins and is kept in any
// case; the first layer's is made again, or kept where there are bytes to spend for it beside the rows, which come before it.
// CHECK-LABEL: nano.program @train
// CHECK:         %[[SQUARE:.*]] = nano.mul %[[H:.*]], %[[H]]
// CHECK:         nano.reduce sum
// AGAIN:         %[[MADE:.*]] = nano.mul %[[H]], %[[H]]
// AGAIN:         nano.matmul %{{.*}}, %[[MADE]] {transpose_a}
// KEPT-NOT:      nano.mul %[[H]], %[[H]]
// KEPT:          nano.matmul %{{.*}}, %[[SQUARE]] {transpose_a}
// CHECK:         nano.accumulate %{{.*}}, @grad.w2
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x32xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w3 : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w4 : tensor<16x32xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @embed : tensor<16x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%tokens: tensor<128xi32>, %targets: tensor<128xi32>) -> tensor<f32> attributes {role = "train"} {
  %e = nano.load @embed : tensor<16x16xf32>
  %x0 = nano.gather %e, %tokens : (tensor<16x16xf32>, tensor<128xi32>) -> tensor<128x16xf32>
  %w1 = nano.load @w1 : tensor<32x16xf32>
  %h1 = nano.matmul %x0, %w1 {transpose_b} : (tensor<128x16xf32>, tensor<32x16xf32>) -> tensor<128x32xf32>
  %a1 = nano.mul %h1, %h1 : tensor<128x32xf32>
  %w2 = nano.load @w2 : tensor<16x32xf32>
  %p1 = nano.matmul %a1, %w2 {transpose_b} : (tensor<128x32xf32>, tensor<16x32xf32>) -> tensor<128x16xf32>
  %x1 = nano.add %x0, %p1 : tensor<128x16xf32>
  %w3 = nano.load @w3 : tensor<32x16xf32>
  %h2 = nano.matmul %x1, %w3 {transpose_b} : (tensor<128x16xf32>, tensor<32x16xf32>) -> tensor<128x32xf32>
  %a2 = nano.mul %h2, %h2 : tensor<128x32xf32>
  %w4 = nano.load @w4 : tensor<16x32xf32>
  %p2 = nano.matmul %a2, %w4 {transpose_b} : (tensor<128x32xf32>, tensor<16x32xf32>) -> tensor<128x16xf32>
  %x2 = nano.add %x1, %p2 : tensor<128x16xf32>
  %sq = nano.mul %x2, %x2 : tensor<128x16xf32>
  %loss = nano.reduce sum %sq dims [0, 1] : tensor<128x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}
