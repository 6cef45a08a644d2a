// RUN: nano-opt %s --nano-distribute=world=4 | FileCheck %s
// RUN: nano-opt %s --nano-distribute=world=4 --mlir-print-debuginfo | FileCheck %s --check-prefix=LINES
// RUN: nano-opt %s --nano-distribute=world=1 | FileCheck %s --check-prefix=ONE
// RUN: nano-opt %s "--nano-distribute=world=6 max-group=4" | FileCheck %s --check-prefix=GROUPS
// RUN: nano-opt %s --nano-distribute=world=12 | FileCheck %s --check-prefix=SINGLE

// Four ranks with three micro-batches each: `last` is a copy of `next` that communicates. The two matrices of u are a round of their own; the one of w and three of zeros
// another.
module {
  nano.model "m" {training = {seq_len = 8 : i64, global_batch = 96 : i64, dist = "allreduce"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @grams of "grams" lr @lr {inits = array<f64>, kind = "grams", states = []} by {
  ^bb0(%p: tensor<4x2x3xf32>, %g: tensor<4x2x3xf32>):
    %gram = nano.matmul %g, %g {transpose_b} : (tensor<4x2x3xf32>, tensor<4x2x3xf32>) -> tensor<4x2x2xf32>
    %step = nano.matmul %gram, %g : (tensor<4x2x2xf32>, tensor<4x2x3xf32>) -> tensor<4x2x3xf32>
    %next = nano.sub %p, %step : tensor<4x2x3xf32>
    nano.yield %next : tensor<4x2x3xf32>
  }
  nano.optimizer @grams.1 of "grams" lr @lr {inits = array<f64>, kind = "grams", states = []} by {
  ^bb0(%p: tensor<2x3xf32>, %g: tensor<2x3xf32>):
    %gram = nano.matmul %g, %g {transpose_b} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
    %step = nano.matmul %gram, %g : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %next = nano.sub %p, %step : tensor<2x3xf32>
    nano.yield %next : tensor<2x3xf32>
  }
  nano.optimizer @plain of "plain" lr @lr {inits = array<f64>, kind = "sgd", states = []} by {
  ^bb0(%p: tensor<16x8xf32>, %g: tensor<16x8xf32>):
    %next = nano.sub %p, %g : tensor<16x8xf32>
    nano.yield %next : tensor<16x8xf32>
  }
  nano.state @w : tensor<2x3xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @grams.1} loc("model.cpp":7:0)
  nano.state @u : tensor<4x2x3xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @grams} loc("model.cpp":8:0)
  nano.state @head : tensor<16x8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @plain} loc("model.cpp":9:0)
  nano.state @grad.w : tensor<2x3xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.u : tensor<4x2x3xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.head : tensor<16x8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @fp8.head : tensor<f32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

  nano.program @first(%x: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {role = "first"} {
    %h = nano.constant 1.0 : tensor<16x8xf32>
    %s = nano.constant 2.0 : tensor<f32>
    nano.store %s, @fp8.head : tensor<f32>
    nano.store %h, @grad.head : tensor<16x8xf32>
    %u = nano.broadcast %x dims [1, 2] : tensor<2x3xf32> -> tensor<4x2x3xf32>
    nano.store %u, @grad.u : tensor<4x2x3xf32>
    %g = nano.neg %x : tensor<2x3xf32>
    nano.store %g, @grad.w : tensor<2x3xf32>
    nano.return %x : tensor<2x3xf32>
  }
  nano.program @next(%x: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {role = "next"} {
    %s = nano.load @fp8.head : tensor<f32>
    %one = nano.broadcast %s dims [] : tensor<f32> -> tensor<16x8xf32>
    %h = nano.load @grad.head : tensor<16x8xf32>
    %hs = nano.add %h, %one : tensor<16x8xf32>
    nano.store %hs, @grad.head : tensor<16x8xf32> loc("model.cpp":9:0)
    %u = nano.broadcast %x dims [1, 2] : tensor<2x3xf32> -> tensor<4x2x3xf32>
    %ua = nano.load @grad.u : tensor<4x2x3xf32>
    %us = nano.add %ua, %u : tensor<4x2x3xf32>
    nano.store %us, @grad.u : tensor<4x2x3xf32> loc("model.cpp":8:0)
    %g = nano.neg %x : tensor<2x3xf32>
    %wa = nano.load @grad.w : tensor<2x3xf32>
    %ws = nano.add %wa, %g : tensor<2x3xf32>
    nano.store %ws, @grad.w : tensor<2x3xf32> loc("model.cpp":7:0)
    nano.return %x : tensor<2x3xf32>
  }
  nano.program @update() attributes {role = "update"} {
    %s = nano.load @fp8.head : tensor<f32>
    %m = nano.all_reduce %s by max : tensor<f32>
    nano.store %m, @fp8.head : tensor<f32>
    nano.return
  }
}

// CHECK: nano.model "m" {group = 4 : i64, training = {{.*}}, world = 4 : i64}
// CHECK: nano.state @grad.grams.bank0 : tensor<2x2x3xf32> {{.*}}sharding = {chunk = 6 : i64, parts = 4 : i64,
// CHECK-SAME: pieces = [{name = "grad.u", offset = 0 : i64, shape = array<i64: 4, 2, 3>}, {name = "grad.w", offset = 24 : i64, shape = array<i64: 2, 3>}], ranks = "group"}}
// CHECK-LABEL: nano.program @first
// CHECK-NOT: nano.all_reduce
// CHECK-LABEL: nano.program @next
// CHECK-NOT: nano.all_reduce
// CHECK: nano.store %{{.*}}, @grad.w
// CHECK-LABEL: nano.program @last({{.*}}) -> tensor<2x3xf32> attributes {role = "last"} {
// CHECK: %[[H:.*]] = nano.add
// CHECK-NEXT: %[[SH:.*]] = nano.all_reduce %[[H]] : tensor<16x8xf32>
// CHECK-NEXT: nano.store %[[SH]], @grad.head : tensor<16x8xf32>
// CHECK: %[[U:.*]] = nano.add %{{.*}} : tensor<4x2x3xf32>
// CHECK-NEXT: %[[SU:.*]] = nano.all_reduce %[[U]] : tensor<4x2x3xf32>
// CHECK-NEXT: %[[MU:.*]] = nano.shard %[[SU]] parts 4 over group : (tensor<4x2x3xf32>) -> tensor<1x2x3xf32>
// CHECK: %[[W:.*]] = nano.add %{{.*}} : tensor<2x3xf32>
// CHECK-NEXT: %[[W3:.*]] = nano.reshape %[[W]] : tensor<2x3xf32> -> tensor<1x2x3xf32>
// CHECK-NEXT: %[[ZERO:.*]] = nano.constant 0.000000e+00 : tensor<3x2x3xf32>
// CHECK-NEXT: %[[ROUND:.*]] = nano.concat %[[W3]], %[[ZERO]] dim 0
// CHECK-NEXT: %[[SW:.*]] = nano.all_reduce %[[ROUND]] : tensor<4x2x3xf32>
// CHECK-NEXT: %[[MW:.*]] = nano.shard %[[SW]] parts 4 over group
// CHECK-NEXT: %[[MINE:.*]] = nano.concat %[[MU]], %[[MW]] dim 0 : {{.*}} -> tensor<2x2x3xf32>
// CHECK-NEXT: nano.store %[[MINE]], @grad.grams.bank0 : tensor<2x2x3xf32>
// CHECK-NEXT: nano.return
// CHECK-LABEL: nano.program @update
// CHECK: nano.all_reduce %{{.*}} by max : tensor<f32>

// A collective has the line of the parameter.
// LINES-LABEL: nano.program @last
// LINES: nano.all_reduce %{{.*}} : tensor<16x8xf32> loc(#[[HEAD:.*]])
// LINES: nano.all_reduce %{{.*}} : tensor<4x2x3xf32> loc(#[[U:.*]])
// LINES-DAG: #[[HEAD]] = loc("model.cpp":9:0)
// LINES-DAG: #[[U]] = loc("model.cpp":8:0)

// One rank: twelve micro-batches, `next` is the last one too, and nothing is communicated.
// ONE: nano.model "m" {group = 1 : i64, {{.*}}world = 1 : i64}
// ONE: nano.state @grad.w
// ONE-NOT: sharding
// ONE: nano.program @first
// ONE: nano.program @next
// ONE-NOT: nano.program @last
// ONE: nano.program @update
// ONE-NEXT: %[[S:.*]] = nano.load @fp8.head
// ONE-NEXT: nano.store %[[S]], @fp8.head
// ONE-NOT: nano.all_reduce

// Six ranks, two micro-batches: groups of three; `next` becomes `last`.
// GROUPS: group = 3 : i64
// GROUPS: nano.state @grad.grams.bank0 : tensor<2x2x3xf32>
// GROUPS: nano.program @first
// GROUPS-NOT: nano.program @next
// GROUPS: nano.program @last
// GROUPS: nano.load @grad.head
// GROUPS: nano.all_reduce %{{.*}} : tensor<3x2x3xf32>
// GROUPS-NEXT: nano.shard %{{.*}} parts 3 over group : (tensor<3x2x3xf32>) -> tensor<1x2x3xf32>

// Twelve ranks, one micro-batch each: `last` is `first`, nothing accumulates, and nothing is written for programs that there are not.
// SINGLE-NOT: nano.state @grad.w
// SINGLE-NOT: nano.state @grad.u
// SINGLE: nano.state @grad.head
// SINGLE-NOT: nano.program @first
// SINGLE-NOT: nano.program @next
// SINGLE: nano.program @last
// SINGLE-NOT: nano.load
// SINGLE: nano.store %{{.*}}, @fp8.head
// SINGLE: nano.store %{{.*}}, @grad.head
// SINGLE-NOT: nano.store %{{.*}}, @grad.w
// SINGLE-NOT: nano.store %{{.*}}, @grad.u
// SINGLE: nano.store %{{.*}}, @grad.grams.bank0
// SINGLE: nano.program @update
