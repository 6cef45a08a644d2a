// RUN: nano-opt %s --nano-expand-optimizers=max-batch-elements=16 | FileCheck %s

// What distribution leaves a rank of four to update: a quarter of @head, which is updated element by element, one of each four matrices, whose updates have products, @gain as a whole. Clipping adds up the quarters.
module {
  nano.model "m" {training = {grad_clip = 2.0 : f64}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.scalar @adam.bias1 : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.scalar @adam.bias2 : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @adam of "adam" lr @lr {inits = array<f64: 0.0, 0.0>, kind = "adam", states = ["adam_m", "adam_v"]} by {
  ^bb0(%p: tensor<2xf32>, %g: tensor<2xf32>, %m: tensor<2xf32>, %v: tensor<2xf32>):
    %0 = nano.constant 0.8 : tensor<2xf32>
    %1 = nano.mul %m, %0 : tensor<2xf32>
    %2 = nano.constant 0.19999999999999996 : tensor<2xf32>
    %3 = nano.mul %g, %2 : tensor<2xf32>
    %4 = nano.add %1, %3 : tensor<2xf32>
    %5 = nano.constant 0.95 : tensor<2xf32>
    %6 = nano.mul %v, %5 : tensor<2xf32>
    %7 = nano.mul %g, %g : tensor<2xf32>
    %8 = nano.constant 0.050000000000000044 : tensor<2xf32>
    %9 = nano.mul %7, %8 : tensor<2xf32>
    %10 = nano.add %6, %9 : tensor<2xf32>
    %11 = nano.load @adam.bias1 : tensor<f32>
    %12 = nano.broadcast %11 dims [] : tensor<f32> -> tensor<2xf32>
    %13 = nano.mul %4, %12 : tensor<2xf32>
    %14 = nano.sqrt %10 : tensor<2xf32>
    %15 = nano.load @adam.bias2 : tensor<f32>
    %16 = nano.broadcast %15 dims [] : tensor<f32> -> tensor<2xf32>
    %17 = nano.mul %14, %16 : tensor<2xf32>
    %18 = nano.constant 1.0e-10 : tensor<2xf32>
    %19 = nano.add %17, %18 : tensor<2xf32>
    %20 = nano.div %13, %19 : tensor<2xf32>
    %21 = nano.load @lr : tensor<f32>
    %22 = nano.broadcast %21 dims [] : tensor<f32> -> tensor<2xf32>
    %23 = nano.mul %20, %22 : tensor<2xf32>
    %24 = nano.sub %p, %23 : tensor<2xf32>
    nano.yield %24, %4, %10 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  nano.optimizer @adam.1 of "adam" lr @lr {inits = array<f64: 0.0, 0.0>, kind = "adam", states = ["adam_m", "adam_v"]} by {
  ^bb0(%p: tensor<8x4xbf16>, %g: tensor<8x4xf32>, %m: tensor<8x4xbf16>, %v: tensor<8x4xbf16>):
    %0 = nano.cast %p : tensor<8x4xbf16> -> tensor<8x4xf32>
    %1 = nano.cast %m : tensor<8x4xbf16> -> tensor<8x4xf32>
    %2 = nano.cast %v : tensor<8x4xbf16> -> tensor<8x4xf32>
    %3 = nano.constant 0.8 : tensor<8x4xf32>
    %4 = nano.mul %1, %3 : tensor<8x4xf32>
    %5 = nano.constant 0.19999999999999996 : tensor<8x4xf32>
    %6 = nano.mul %g, %5 : tensor<8x4xf32>
    %7 = nano.add %4, %6 : tensor<8x4xf32>
    %8 = nano.constant 0.95 : tensor<8x4xf32>
    %9 = nano.mul %2, %8 : tensor<8x4xf32>
    %10 = nano.mul %g, %g : tensor<8x4xf32>
    %11 = nano.constant 0.050000000000000044 : tensor<8x4xf32>
    %12 = nano.mul %10, %11 : tensor<8x4xf32>
    %13 = nano.add %9, %12 : tensor<8x4xf32>
    %14 = nano.load @adam.bias1 : tensor<f32>
    %15 = nano.broadcast %14 dims [] : tensor<f32> -> tensor<8x4xf32>
    %16 = nano.mul %7, %15 : tensor<8x4xf32>
    %17 = nano.sqrt %13 : tensor<8x4xf32>
    %18 = nano.load @adam.bias2 : tensor<f32>
    %19 = nano.broadcast %18 dims [] : tensor<f32> -> tensor<8x4xf32>
    %20 = nano.mul %17, %19 : tensor<8x4xf32>
    %21 = nano.constant 1.0e-10 : tensor<8x4xf32>
    %22 = nano.add %20, %21 : tensor<8x4xf32>
    %23 = nano.div %16, %22 : tensor<8x4xf32>
    %24 = nano.load @lr : tensor<f32>
    %25 = nano.broadcast %24 dims [] : tensor<f32> -> tensor<8x4xf32>
    %26 = nano.mul %23, %25 : tensor<8x4xf32>
    %27 = nano.sub %0, %26 : tensor<8x4xf32>
    %28 = nano.cast %27 : tensor<8x4xf32> -> tensor<8x4xbf16>
    %29 = nano.cast %7 : tensor<8x4xf32> -> tensor<8x4xbf16>
    %30 = nano.cast %13 : tensor<8x4xf32> -> tensor<8x4xbf16>
    nano.yield %28, %29, %30 : tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<8x4xbf16>
  }
  nano.optimizer @muon of "muon" lr @lr {inits = array<f64: 0.0>, kind = "muon", states = ["muon_b"]} by {
  ^bb0(%p: tensor<5x2x4xf32>, %g: tensor<5x2x4xf32>, %b: tensor<5x2x4xf32>):
    %0 = nano.load @lr : tensor<f32>
    %1 = nano.constant 1.0 : tensor<f32>
    %2 = nano.sub %1, %0 : tensor<f32>
    %3 = nano.sub %g, %b : tensor<5x2x4xf32>
    %4 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<5x2x4xf32>
    %5 = nano.mul %3, %4 : tensor<5x2x4xf32>
    %6 = nano.add %b, %5 : tensor<5x2x4xf32>
    %7 = nano.sub %6, %g : tensor<5x2x4xf32>
    %8 = nano.broadcast %0 dims [] : tensor<f32> -> tensor<5x2x4xf32>
    %9 = nano.mul %7, %8 : tensor<5x2x4xf32>
    %10 = nano.add %g, %9 : tensor<5x2x4xf32>
    %11 = nano.cast %10 : tensor<5x2x4xf32> -> tensor<5x2x4xbf16>
    %12 = nano.cast %11 : tensor<5x2x4xbf16> -> tensor<5x2x4xf32>
    %13 = nano.mul %12, %12 : tensor<5x2x4xf32>
    %14 = nano.reduce sum %13 dims [1, 2] : tensor<5x2x4xf32> -> tensor<5xf32>
    %15 = nano.sqrt %14 : tensor<5xf32>
    %16 = nano.constant 1.0e-7 : tensor<5xf32>
    %17 = nano.add %15, %16 : tensor<5xf32>
    %18 = nano.broadcast %17 dims [0] : tensor<5xf32> -> tensor<5x2x4xf32>
    %19 = nano.div %12, %18 : tensor<5x2x4xf32>
    %20 = nano.cast %19 : tensor<5x2x4xf32> -> tensor<5x2x4xbf16>
    %21 = nano.matmul %20, %20 {transpose_b} : (tensor<5x2x4xbf16>, tensor<5x2x4xbf16>) -> tensor<5x2x2xbf16>
    %22 = nano.matmul %21, %21 : (tensor<5x2x2xbf16>, tensor<5x2x2xbf16>) -> tensor<5x2x2xbf16>
    %23 = nano.constant 3.0 : tensor<5x2x2xbf16>
    %24 = nano.mul %22, %23 : tensor<5x2x2xbf16>
    %25 = nano.constant 2.0 : tensor<5x2x2xbf16>
    %26 = nano.mul %21, %25 : tensor<5x2x2xbf16>
    %27 = nano.add %26, %24 : tensor<5x2x2xbf16>
    %28 = nano.matmul %27, %20 : (tensor<5x2x2xbf16>, tensor<5x2x4xbf16>) -> tensor<5x2x4xbf16>
    %29 = nano.constant 1.0 : tensor<5x2x4xbf16>
    %30 = nano.mul %20, %29 : tensor<5x2x4xbf16>
    %31 = nano.add %30, %28 : tensor<5x2x4xbf16>
    %32 = nano.load @lr : tensor<f32>
    %33 = nano.cast %31 : tensor<5x2x4xbf16> -> tensor<5x2x4xf32>
    %34 = nano.broadcast %32 dims [] : tensor<f32> -> tensor<5x2x4xf32>
    %35 = nano.mul %33, %34 : tensor<5x2x4xf32>
    %36 = nano.sub %p, %35 : tensor<5x2x4xf32>
    nano.yield %36, %6 : tensor<5x2x4xf32>, tensor<5x2x4xf32>
  }
  nano.optimizer @muon.1 of "muon" lr @lr {inits = array<f64: 0.0>, kind = "muon", states = ["muon_b"]} by {
  ^bb0(%p: tensor<2x4xf32>, %g: tensor<2x4xf32>, %b: tensor<2x4xf32>):
    %0 = nano.load @lr : tensor<f32>
    %1 = nano.constant 1.0 : tensor<f32>
    %2 = nano.sub %1, %0 : tensor<f32>
    %3 = nano.sub %g, %b : tensor<2x4xf32>
    %4 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<2x4xf32>
    %5 = nano.mul %3, %4 : tensor<2x4xf32>
    %6 = nano.add %b, %5 : tensor<2x4xf32>
    %7 = nano.sub %6, %g : tensor<2x4xf32>
    %8 = nano.broadcast %0 dims [] : tensor<f32> -> tensor<2x4xf32>
    %9 = nano.mul %7, %8 : tensor<2x4xf32>
    %10 = nano.add %g, %9 : tensor<2x4xf32>
    %11 = nano.cast %10 : tensor<2x4xf32> -> tensor<2x4xbf16>
    %12 = nano.cast %11 : tensor<2x4xbf16> -> tensor<2x4xf32>
    %13 = nano.mul %12, %12 : tensor<2x4xf32>
    %14 = nano.reduce sum %13 dims [0, 1] : tensor<2x4xf32> -> tensor<f32>
    %15 = nano.sqrt %14 : tensor<f32>
    %16 = nano.constant 1.0e-7 : tensor<f32>
    %17 = nano.add %15, %16 : tensor<f32>
    %18 = nano.broadcast %17 dims [] : tensor<f32> -> tensor<2x4xf32>
    %19 = nano.div %12, %18 : tensor<2x4xf32>
    %20 = nano.cast %19 : tensor<2x4xf32> -> tensor<2x4xbf16>
    %21 = nano.matmul %20, %20 {transpose_b} : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<2x2xbf16>
    %22 = nano.matmul %21, %21 : (tensor<2x2xbf16>, tensor<2x2xbf16>) -> tensor<2x2xbf16>
    %23 = nano.constant 3.0 : tensor<2x2xbf16>
    %24 = nano.mul %22, %23 : tensor<2x2xbf16>
    %25 = nano.constant 2.0 : tensor<2x2xbf16>
    %26 = nano.mul %21, %25 : tensor<2x2xbf16>
    %27 = nano.add %26, %24 : tensor<2x2xbf16>
    %28 = nano.matmul %27, %20 : (tensor<2x2xbf16>, tensor<2x4xbf16>) -> tensor<2x4xbf16>
    %29 = nano.constant 1.0 : tensor<2x4xbf16>
    %30 = nano.mul %20, %29 : tensor<2x4xbf16>
    %31 = nano.add %30, %28 : tensor<2x4xbf16>
    %32 = nano.load @lr : tensor<f32>
    %33 = nano.cast %31 : tensor<2x4xbf16> -> tensor<2x4xf32>
    %34 = nano.broadcast %32 dims [] : tensor<f32> -> tensor<2x4xf32>
    %35 = nano.mul %33, %34 : tensor<2x4xf32>
    %36 = nano.sub %p, %35 : tensor<2x4xf32>
    nano.yield %36, %6 : tensor<2x4xf32>, tensor<2x4xf32>
  }
  nano.optimizer @muon.2 of "muon" lr @lr {inits = array<f64: 0.0>, kind = "muon", states = ["muon_b"]} by {
  ^bb0(%p: tensor<4x2x1xf32>, %g: tensor<4x2x1xf32>, %b: tensor<4x2x1xf32>):
    %0 = nano.load @lr : tensor<f32>
    %1 = nano.constant 1.0 : tensor<f32>
    %2 = nano.sub %1, %0 : tensor<f32>
    %3 = nano.sub %g, %b : tensor<4x2x1xf32>
    %4 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<4x2x1xf32>
    %5 = nano.mul %3, %4 : tensor<4x2x1xf32>
    %6 = nano.add %b, %5 : tensor<4x2x1xf32>
    %7 = nano.sub %6, %g : tensor<4x2x1xf32>
    %8 = nano.broadcast %0 dims [] : tensor<f32> -> tensor<4x2x1xf32>
    %9 = nano.mul %7, %8 : tensor<4x2x1xf32>
    %10 = nano.add %g, %9 : tensor<4x2x1xf32>
    %11 = nano.cast %10 : tensor<4x2x1xf32> -> tensor<4x2x1xbf16>
    %12 = nano.cast %11 : tensor<4x2x1xbf16> -> tensor<4x2x1xf32>
    %13 = nano.mul %12, %12 : tensor<4x2x1xf32>
    %14 = nano.reduce sum %13 dims [1, 2] : tensor<4x2x1xf32> -> tensor<4xf32>
    %15 = nano.sqrt %14 : tensor<4xf32>
    %16 = nano.constant 1.0e-7 : tensor<4xf32>
    %17 = nano.add %15, %16 : tensor<4xf32>
    %18 = nano.broadcast %17 dims [0] : tensor<4xf32> -> tensor<4x2x1xf32>
    %19 = nano.div %12, %18 : tensor<4x2x1xf32>
    %20 = nano.cast %19 : tensor<4x2x1xf32> -> tensor<4x2x1xbf16>
    %21 = nano.matmul %20, %20 {transpose_a} : (tensor<4x2x1xbf16>, tensor<4x2x1xbf16>) -> tensor<4x1x1xbf16>
    %22 = nano.matmul %21, %21 : (tensor<4x1x1xbf16>, tensor<4x1x1xbf16>) -> tensor<4x1x1xbf16>
    %23 = nano.constant 3.0 : tensor<4x1x1xbf16>
    %24 = nano.mul %22, %23 : tensor<4x1x1xbf16>
    %25 = nano.constant 2.0 : tensor<4x1x1xbf16>
    %26 = nano.mul %21, %25 : tensor<4x1x1xbf16>
    %27 = nano.add %26, %24 : tensor<4x1x1xbf16>
    %28 = nano.matmul %20, %27 : (tensor<4x2x1xbf16>, tensor<4x1x1xbf16>) -> tensor<4x2x1xbf16>
    %29 = nano.constant 1.0 : tensor<4x2x1xbf16>
    %30 = nano.mul %20, %29 : tensor<4x2x1xbf16>
    %31 = nano.add %30, %28 : tensor<4x2x1xbf16>
    %32 = nano.load @lr : tensor<f32>
    %33 = nano.constant 1.4142135623730951 : tensor<f32>
    %34 = nano.mul %32, %33 : tensor<f32>
    %35 = nano.cast %31 : tensor<4x2x1xbf16> -> tensor<4x2x1xf32>
    %36 = nano.broadcast %34 dims [] : tensor<f32> -> tensor<4x2x1xf32>
    %37 = nano.mul %35, %36 : tensor<4x2x1xf32>
    %38 = nano.sub %p, %37 : tensor<4x2x1xf32>
    nano.yield %38, %6 : tensor<4x2x1xf32>, tensor<4x2x1xf32>
  }
  nano.state @gain : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
  nano.state @u : tensor<5x2x4xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @muon}
  nano.state @w : tensor<2x4xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @muon.1}
  nano.state @tall : tensor<4x2x1xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @muon.2}
  nano.state @head : tensor<8x4xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @adam.1}
  nano.state @grad.gain : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.head : tensor<8x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.head.part : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, sharding =
      {parts = 4 : i64, ranks = "group", chunk = 8 : i64, pieces = [{name = "grad.head", shape = array<i64: 8, 4>, offset = 0 : i64} ]}}
  nano.state @grad.muon.bank0 : tensor<3x2x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, sharding =
      {parts = 4 : i64, ranks = "group", chunk = 8 : i64, pieces = [{name = "grad.w", shape = array<i64: 2, 4>, offset = 0 : i64},
                                                                   {name = "grad.u", shape = array<i64: 5, 2, 4>, offset = 8 : i64}]}}
  nano.state @grad.muon.bank1 : tensor<1x2x1xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, sharding =
      {parts = 4 : i64, ranks = "group", chunk = 2 : i64, pieces = [{name = "grad.tall", shape = array<i64: 4, 2, 1>, offset = 0 : i64}]}}
}

// States are shares like the gradients', under the names that one rank would give their pieces.
// CHECK-DAG: nano.state @head.adam_m : tensor<8xbf16> {{.*}}role = #nano.role<optimizer>, sharding = {chunk = 8 : i64, parts = 4 : i64, pieces = [{name = "head.adam_m", offset = 0 : i64, shape = array<i64: 8, 4>}], ranks = "group"}}
// CHECK-DAG: nano.state @head.adam_v : tensor<8xbf16> {{.*}}name = "head.adam_v"
// CHECK-DAG: nano.state @gain.adam_m : tensor<2xf32> {init = #nano.init<"constant", [0.000000e+00]>, role = #nano.role<optimizer>}
// CHECK-DAG: nano.state @muon.bank0.muon_b : tensor<3x2x4xf32> {{.*}}chunk = 8 : i64, parts = 4 : i64, pieces = [{name = "w.muon_b", offset = 0 : i64, shape = array<i64: 2, 4>}, {name = "u.muon_b", offset = 8 : i64, shape = array<i64: 5, 2, 4>}]
// CHECK-DAG: nano.state @muon.bank1.muon_b : tensor<1x2x1xf32>

// The norm: parts of this rank, of all ranks, then what every rank has.
// CHECK-LABEL: nano.program @update()
// CHECK: nano.load @grad.head.part
// CHECK: nano.load @grad.muon.bank0
// CHECK: nano.load @grad.muon.bank1
// CHECK: %[[FIRST:.*]] = nano.add
// CHECK-NEXT: %[[PARTS:.*]] = nano.add %[[FIRST]]
// CHECK-NEXT: %[[ALL:.*]] = nano.all_reduce %[[PARTS]] over group : tensor<f32>
// CHECK-NEXT: nano.load @grad.gain
// CHECK: nano.add %[[ALL]]
// CHECK: nano.sqrt
// CHECK: %[[SCALE:.*]] = nano.mul

// The part of a parameter comes before whatever needs no gather.
// CHECK: %[[P:.*]] = nano.load @head : tensor<8x4xbf16>
// CHECK-NEXT: %[[FLAT:.*]] = nano.reshape %[[P]] : tensor<8x4xbf16> -> tensor<32xbf16>
// CHECK-NEXT: %[[MINE:.*]] = nano.shard %[[FLAT]] parts 4 over group : (tensor<32xbf16>) -> tensor<8xbf16>
// CHECK: nano.load @head.adam_m : tensor<8xbf16>
// CHECK: nano.load @grad.head.part : tensor<8xf32>
// CHECK-NEXT: nano.broadcast %{{.*}} dims [] : tensor<f32> -> tensor<8xf32>
// CHECK: %[[NEW:.*]] = nano.cast %{{.*}} : tensor<8xf32> -> tensor<8xbf16>
// CHECK: nano.store %{{.*}}, @head.adam_m : tensor<8xbf16>
// CHECK: nano.store %{{.*}}, @head.adam_v : tensor<8xbf16>
// CHECK-NEXT: %[[GATHERED:.*]] = nano.all_gather %[[NEW]] parts 4 over group : (tensor<8xbf16>) -> tensor<32xbf16>
// CHECK-NEXT: %[[WHOLE:.*]] = nano.reshape %[[GATHERED]] : tensor<32xbf16> -> tensor<8x4xbf16>
// CHECK-NEXT: nano.store %[[WHOLE]], @head : tensor<8x4xbf16>
// CHECK: nano.store %{{.*}}, @gain : tensor<2xf32>

// The first bank: two batches of products, of two matrices and of one; each round is gathered as soon as it is done.
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

// The second bank's products hide that gather; then every rank takes the first one's steps.
// CHECK: nano.store %{{.*}}, @muon.bank1.muon_b
// CHECK: %[[TALL:.*]] = nano.all_gather %{{.*}} parts 4 over group : (tensor<1x2x1xbf16>) -> tensor<4x2x1xbf16>
// CHECK-NEXT: %[[U:.*]] = nano.slice %[[ALL]] dim 0 at 1 : tensor<12x2x4xbf16> -> tensor<5x2x4xbf16>
// CHECK: nano.store %{{.*}}, @u : tensor<5x2x4xf32>
// CHECK: %[[W:.*]] = nano.slice %[[ALL]] dim 0 at 0 : tensor<12x2x4xbf16> -> tensor<1x2x4xbf16>
// CHECK-NEXT: nano.reshape %[[W]] : tensor<1x2x4xbf16> -> tensor<2x4xbf16>
// CHECK: nano.store %{{.*}}, @w : tensor<2x4xf32>
// CHECK: nano.cast %[[TALL]]
// CHECK: nano.store %{{.*}}, @tall : tensor<4x2x1xf32>
// CHECK-NEXT: nano.return
