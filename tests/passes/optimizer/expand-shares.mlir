// RUN: nano-opt %s --nano-expand-optimizers=max-batch-elements=16 | FileCheck %s

// What distribution leaves a rank of four to update: a quarter of Adam's @head, one of each four of Muon's matrices, @gain as a whole. Clipping adds up the quarters.
module attributes {nano.training = {grad_clip = 2.0 : f64}} {
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.adam @adam lr @lr {beta1 = 0.8, beta2 = 0.95, eps = 1.0e-10, weight_decay = 0.0}
  nano.muon @muon lr @lr momentum @lr {steps = 1, coefficients = array<f64: 1.0, 2.0, 3.0>, compute_type = bf16}
  nano.state @gain : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
  nano.state @u : tensor<5x2x4xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @muon}
  nano.state @w : tensor<2x4xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @muon}
  nano.state @tall : tensor<4x2x1xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @muon}
  nano.state @head : tensor<8x4xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @adam}
  nano.state @grad.gain : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.head : tensor<8x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.head.part : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, nano.sharding =
      {parts = 4 : i64, ranks = "group", chunk = 8 : i64, pieces = [{name = "grad.head", shape = array<i64: 8, 4>, offset = 0 : i64} ]}}
  nano.state @grad.muon.bank0 : tensor<3x2x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, nano.sharding =
      {parts = 4 : i64, ranks = "group", chunk = 8 : i64, pieces = [{name = "grad.w", shape = array<i64: 2, 4>, offset = 0 : i64},
                                                                   {name = "grad.u", shape = array<i64: 5, 2, 4>, offset = 8 : i64}]}}
  nano.state @grad.muon.bank1 : tensor<1x2x1xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, nano.sharding =
      {parts = 4 : i64, ranks = "group", chunk = 2 : i64, pieces = [{name = "grad.tall", shape = array<i64: 4, 2, 1>, offset = 0 : i64}]}}
}

// States are shares like the gradients', under the names that one rank would give their pieces.
// CHECK-DAG: nano.state @head.adam_m : tensor<8xbf16> {{.*}}nano.sharding = {chunk = 8 : i64, parts = 4 : i64, pieces = [{name = "head.adam_m", offset = 0 : i64, shape = array<i64: 8, 4>}], ranks = "group"}, role = #nano.role<optimizer>}
// CHECK-DAG: nano.state @head.adam_v : tensor<8xbf16> {{.*}}name = "head.adam_v"
// CHECK-DAG: nano.state @gain.adam_m : tensor<2xf32> {init = #nano.init<"constant", [0.000000e+00]>, role = #nano.role<optimizer>}
// CHECK-DAG: nano.state @muon.bank0.muon_b : tensor<3x2x4xf32> {{.*}}chunk = 8 : i64, parts = 4 : i64, pieces = [{name = "w.muon_b", offset = 0 : i64, shape = array<i64: 2, 4>}, {name = "u.muon_b", offset = 8 : i64, shape = array<i64: 5, 2, 4>}]
// CHECK-DAG: nano.state @muon.bank1.muon_b : tensor<1x2x1xf32>

// The norm: parts of this rank, of all ranks, then what every rank has.
// CHECK-LABEL: func.func @update()
// CHECK: nano.load @grad.head.part
// CHECK: nano.load @grad.muon.bank0
// CHECK: nano.load @grad.muon.bank1
// CHECK: %[[PARTS:.*]] = nano.add
// CHECK-NEXT: %[[ALL:.*]] = nano.all_reduce %[[PARTS]] over group : tensor<f32>
// CHECK-NEXT: nano.load @grad.gain
// CHECK: nano.add %[[ALL]]
// CHECK: nano.sqrt
// CHECK: %[[SCALE:.*]] = nano.mul

// The part of Adam's parameter comes before whatever needs no gather.
// CHECK: %[[G:.*]] = nano.load @grad.head.part : tensor<8xf32>
// CHECK: %[[P:.*]] = nano.load @head : tensor<8x4xbf16>
// CHECK-NEXT: %[[FLAT:.*]] = nano.reshape %[[P]] : tensor<8x4xbf16> -> tensor<32xbf16>
// CHECK-NEXT: %[[MINE:.*]] = nano.shard %[[FLAT]] parts 4 over group : (tensor<32xbf16>) -> tensor<8xbf16>
// CHECK: nano.load @head.adam_m : tensor<8xbf16>
// CHECK: nano.store %{{.*}}, @head.adam_m : tensor<8xbf16>
// CHECK: nano.store %{{.*}}, @head.adam_v : tensor<8xbf16>
// CHECK-NEXT: %[[NEW:.*]] = nano.cast %{{.*}} : tensor<8xf32> -> tensor<8xbf16>
// CHECK-NEXT: %[[GATHERED:.*]] = nano.all_gather %[[NEW]] parts 4 over group : (tensor<8xbf16>) -> tensor<32xbf16>
// CHECK-NEXT: %[[WHOLE:.*]] = nano.reshape %[[GATHERED]] : tensor<32xbf16> -> tensor<8x4xbf16>
// CHECK-NEXT: nano.store %[[WHOLE]], @head : tensor<8x4xbf16>
// CHECK: nano.store %{{.*}}, @gain : tensor<2xf32>

// The first bank: two batches of Newton–Schulz, of two matrices and of one; each round is gathered as soon as it is done.
// CHECK: nano.load @grad.muon.bank0
// CHECK: nano.store %{{.*}}, @muon.bank0.muon_b : tensor<3x2x4xf32>
// CHECK: nano.matmul {{.*}} -> tensor<2x2x2xbf16>
// CHECK: %[[BATCH:.*]] = nano.matmul {{.*}} -> tensor<2x2x4xbf16>
// CHECK: %[[R0:.*]] = nano.slice %[[BATCH]] dim 0 at 0
// CHECK-NEXT: %[[A0:.*]] = nano.all_gather %[[R0]] parts 4 over group : (tensor<1x2x4xbf16>) -> tensor<4x2x4xbf16>
// CHECK-NEXT: %[[R1:.*]] = nano.slice %[[BATCH]] dim 0 at 1
// CHECK-NEXT: %[[A1:.*]] = nano.all_gather %[[R1]] parts 4 over group
// CHECK: %[[LAST:.*]] = nano.matmul {{.*}} -> tensor<1x2x4xbf16>
// CHECK-NEXT: %[[A2:.*]] = nano.all_gather %[[LAST]] parts 4 over group
// CHECK-NEXT: %[[ALL:.*]] = nano.concat %[[A0]], %[[A1]], %[[A2]] dim 0 : {{.*}} -> tensor<12x2x4xbf16>

// The second bank's Newton–Schulz hides that gather; then every rank takes the first one's steps.
// CHECK: nano.store %{{.*}}, @muon.bank1.muon_b
// CHECK: %[[TALL:.*]] = nano.all_gather %{{.*}} parts 4 over group : (tensor<1x2x1xbf16>) -> tensor<4x2x1xbf16>
// CHECK-NEXT: %[[U:.*]] = nano.slice %[[ALL]] dim 0 at 1 : tensor<12x2x4xbf16> -> tensor<5x2x4xbf16>
// CHECK: nano.store %{{.*}}, @u : tensor<5x2x4xf32>
// CHECK: %[[W:.*]] = nano.slice %[[ALL]] dim 0 at 0 : tensor<12x2x4xbf16> -> tensor<1x2x4xbf16>
// CHECK-NEXT: nano.reshape %[[W]] : tensor<1x2x4xbf16> -> tensor<2x4xbf16>
// CHECK: nano.store %{{.*}}, @w : tensor<2x4xf32>
// CHECK: nano.cast %[[TALL]]
// CHECK: nano.store %{{.*}}, @tall : tensor<4x2x1xf32>
// CHECK-NEXT: return
