// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute=save-bytes=10000 2>&1 >/dev/null | FileCheck %s --check-prefix=FEW
// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute=save-bytes=20000 2>&1 >/dev/null | FileCheck %s --check-prefix=MORE

// Most bytes for a second has the first layer's tanh, of 32,768 bytes. Where the second one's, of 16,384, is enough, that goes: it takes less.
// FEW-NOT: 0.03 MB
// FEW:     made again in the backward pass: tanh × 1, 0.02 MB
// FEW-NOT: 0.03 MB
// MORE:     made again in the backward pass: tanh × 1, 0.03 MB
// MORE-NOT: made again in the backward pass
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<64x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x64xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w3 : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w4 : tensor<16x32xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w5 : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w6 : tensor<16x32xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @embed : tensor<16x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%tokens: tensor<128xi32>, %targets: tensor<128xi32>) -> tensor<f32> attributes {role = "train"} {
  %e = nano.load @embed : tensor<16x16xf32>
  %x0 = nano.gather %e, %tokens : (tensor<16x16xf32>, tensor<128xi32>) -> tensor<128x16xf32>
  %w1 = nano.load @w1 : tensor<64x16xf32>
  %h1 = nano.matmul %x0, %w1 {transpose_b} : (tensor<128x16xf32>, tensor<64x16xf32>) -> tensor<128x64xf32>
  %a1 = nano.tanh %h1 : tensor<128x64xf32>
  %w2 = nano.load @w2 : tensor<16x64xf32>
  %p1 = nano.matmul %a1, %w2 {transpose_b} : (tensor<128x64xf32>, tensor<16x64xf32>) -> tensor<128x16xf32>
  %x1 = nano.add %x0, %p1 : tensor<128x16xf32>
  %w3 = nano.load @w3 : tensor<32x16xf32>
  %h2 = nano.matmul %x1, %w3 {transpose_b} : (tensor<128x16xf32>, tensor<32x16xf32>) -> tensor<128x32xf32>
  %a2 = nano.tanh %h2 : tensor<128x32xf32>
  %w4 = nano.load @w4 : tensor<16x32xf32>
  %p2 = nano.matmul %a2, %w4 {transpose_b} : (tensor<128x32xf32>, tensor<16x32xf32>) -> tensor<128x16xf32>
  %x2 = nano.add %x1, %p2 : tensor<128x16xf32>
  %w5 = nano.load @w5 : tensor<32x16xf32>
  %h3 = nano.matmul %x2, %w5 {transpose_b} : (tensor<128x16xf32>, tensor<32x16xf32>) -> tensor<128x32xf32>
  %a3 = nano.tanh %h3 : tensor<128x32xf32>
  %w6 = nano.load @w6 : tensor<16x32xf32>
  %p3 = nano.matmul %a3, %w6 {transpose_b} : (tensor<128x32xf32>, tensor<16x32xf32>) -> tensor<128x16xf32>
  %x3 = nano.add %x2, %p3 : tensor<128x16xf32>
  %sq = nano.mul %x3, %x3 : tensor<128x16xf32>
  %loss = nano.reduce sum %sq dims [0, 1] : tensor<128x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}
