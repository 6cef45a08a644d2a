// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute=max-sites=1 | FileCheck %s --check-prefix=KEPT
// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute=max-sites=9 | FileCheck %s --check-prefix=AGAIN
// RUN: nano-opt %s -nano-differentiate -cse '-nano-recompute=max-sites=9 max-ops=1' | FileCheck %s --check-prefix=KEPT

// A table that more than `max-sites` stretches of the backward pass would compute again is kept: the cosines, not their broadcast and not
// what they are made of. It is kept as well when it takes more than `max-ops` ops.
// KEPT-LABEL: nano.program @train
// KEPT:         %[[COS:.*]] = nano.cos
// KEPT-NOT:     nano.cos
// KEPT:         nano.broadcast %[[COS]]
// KEPT:         %[[LOSS:.*]] = nano.reduce sum
// KEPT-NOT:     nano.cos
// KEPT-COUNT-2: nano.broadcast %[[COS]]
// AGAIN-LABEL: nano.program @train
// AGAIN:         nano.cos
// AGAIN:         nano.reduce sum
// AGAIN-COUNT-2: nano.cos
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @embed : tensor<16x64xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w1 : tensor<64x64xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<64x64xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%tokens: tensor<128xi32>, %targets: tensor<128xi32>) -> tensor<f32> attributes {role = "train"} {
  %position = nano.iota 0 : tensor<128xf32>
  %step = nano.constant 0.125 : tensor<128xf32>
  %theta = nano.mul %position, %step : tensor<128xf32>
  %cos = nano.cos %theta : tensor<128xf32>
  %table = nano.broadcast %cos dims [0] : tensor<128xf32> -> tensor<128x64xf32>
  %e = nano.load @embed : tensor<16x64xf32>
  %x = nano.gather %e, %tokens : (tensor<16x64xf32>, tensor<128xi32>) -> tensor<128x64xf32>
  %x1 = nano.mul %x, %table : tensor<128x64xf32>
  %w1 = nano.load @w1 : tensor<64x64xf32>
  %y = nano.matmul %x1, %w1 : (tensor<128x64xf32>, tensor<64x64xf32>) -> tensor<128x64xf32>
  %y1 = nano.mul %y, %table : tensor<128x64xf32>
  %w2 = nano.load @w2 : tensor<64x64xf32>
  %z = nano.matmul %y1, %w2 : (tensor<128x64xf32>, tensor<64x64xf32>) -> tensor<128x64xf32>
  %loss = nano.reduce sum %z dims [0, 1] : tensor<128x64xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}
