// RUN: nano-opt %s -nano-differentiate -cse "-nano-recompute=save-bytes=15000 machine=h200-nvlink" 2>&1 >%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=AGAIN < %t

// Weights in the compute type are there from the forward pass, until too much is held. Each by itself would take as long to make again as a product of more bytes, but one launch makes them all.
// CHECK-NOT: made again in the backward pass: tanh
// CHECK:     made again in the backward pass: cast × 1, 0.01 MB
// CHECK:     made again in the backward pass: cast × 1, 0.01 MB
// CHECK-NOT: made again

// AGAIN-COUNT-6: nano.cast %{{.*}} : tensor<64x64xf32> -> tensor<64x64xbf16>
// AGAIN-NOT:     nano.cast %{{.*}} : tensor<64x64xf32> -> tensor<64x64xbf16>
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<64x64xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<64x64xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w3 : tensor<64x64xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w4 : tensor<64x64xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @embed : tensor<16x64xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%tokens: tensor<256xi32>, %targets: tensor<256xi32>) -> tensor<f32> attributes {role = "train"} {
  %e = nano.load @embed : tensor<16x64xbf16>
  %a0 = nano.gather %e, %tokens : (tensor<16x64xbf16>, tensor<256xi32>) -> tensor<256x64xbf16>
  %m1 = nano.load @w1 : tensor<64x64xf32>
  %w1 = nano.cast %m1 : tensor<64x64xf32> -> tensor<64x64xbf16>
  %h1 = nano.matmul %a0, %w1 {transpose_b} : (tensor<256x64xbf16>, tensor<64x64xbf16>) -> tensor<256x64xbf16>
  %a1 = nano.tanh %h1 : tensor<256x64xbf16>
  %m2 = nano.load @w2 : tensor<64x64xf32>
  %w2 = nano.cast %m2 : tensor<64x64xf32> -> tensor<64x64xbf16>
  %h2 = nano.matmul %a1, %w2 {transpose_b} : (tensor<256x64xbf16>, tensor<64x64xbf16>) -> tensor<256x64xbf16>
  %a2 = nano.tanh %h2 : tensor<256x64xbf16>
  %m3 = nano.load @w3 : tensor<64x64xf32>
  %w3 = nano.cast %m3 : tensor<64x64xf32> -> tensor<64x64xbf16>
  %h3 = nano.matmul %a2, %w3 {transpose_b} : (tensor<256x64xbf16>, tensor<64x64xbf16>) -> tensor<256x64xbf16>
  %a3 = nano.tanh %h3 : tensor<256x64xbf16>
  %m4 = nano.load @w4 : tensor<64x64xf32>
  %w4 = nano.cast %m4 : tensor<64x64xf32> -> tensor<64x64xbf16>
  %h4 = nano.matmul %a3, %w4 {transpose_b} : (tensor<256x64xbf16>, tensor<64x64xbf16>) -> tensor<256x64xbf16>
  %f = nano.cast %h4 : tensor<256x64xbf16> -> tensor<256x64xf32>
  %sq = nano.mul %f, %f : tensor<256x64xf32>
  %loss = nano.reduce sum %sq dims [0, 1] : tensor<256x64xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}
