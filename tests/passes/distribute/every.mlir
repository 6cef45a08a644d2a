// RUN: nano-opt %s --nano-distribute=world=4 --nano-expand-optimizers | FileCheck %s --check-prefixes=CHECK,THREE
// RUN: nano-opt %s --nano-distribute=world=12 --nano-expand-optimizers | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: nano-opt %s --nano-distribute=world=1 --nano-expand-optimizers | FileCheck %s --check-prefix=ALONE
// RUN: sed -e 's/global_batch = 96 : i64/global_batch = 16 : i64, join_update = true/' %s \
// RUN:   | nano-opt --nano-distribute=world=1 --nano-expand-optimizers | FileCheck %s --check-prefixes=JOINED,TWO
// RUN: sed -e 's/global_batch = 96 : i64/global_batch = 8 : i64, join_update = true/' %s \
// RUN:   | nano-opt --nano-distribute=world=1 --nano-expand-optimizers | FileCheck %s --check-prefixes=JOINED,SINGLE

// An optimizer on every third step. Its gradients add up on each rank and are communicated in the last phase; the other's are in all.
module {
  nano.model "m" {training = {seq_len = 8 : i64, global_batch = 96 : i64}}
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
  nano.optimizer @slow of "slow" lr @lr {every = 3 : i64, inits = array<f64>, kind = "sgd", states = []} by {
  ^bb0(%p: tensor<8xf32>, %g: tensor<8xf32>):
    %next = nano.sub %p, %g : tensor<8xf32>
    nano.yield %next : tensor<8xf32>
  }
  nano.state @u : tensor<4x2x3xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @grams}
  nano.state @v : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @slow}
  nano.state @grad.u : tensor<4x2x3xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.v : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.program @first(%u: tensor<4x2x3xf32>, %v: tensor<8xf32>) attributes {role = "first"} {
    nano.store %v, @grad.v : tensor<8xf32>
    nano.store %u, @grad.u : tensor<4x2x3xf32>
    nano.return
  }
  nano.program @next(%u: tensor<4x2x3xf32>, %v: tensor<8xf32>) attributes {role = "next"} {
    %va = nano.load @grad.v : tensor<8xf32>
    %vs = nano.add %va, %v : tensor<8xf32>
    nano.store %vs, @grad.v : tensor<8xf32>
    %ua = nano.load @grad.u : tensor<4x2x3xf32>
    %us = nano.add %ua, %u : tensor<4x2x3xf32>
    nano.store %us, @grad.u : tensor<4x2x3xf32>
    nano.return
  }
}

// Three micro-batches a rank: `first` begins the slow optimizer's gradients in phase 0 only.
// THREE-LABEL: nano.program @first_0({{.*}}) attributes {phases = array<i64: 0>, role = "first"} {
// THREE-NEXT: nano.store %arg1, @grad.v
// THREE-LABEL: nano.program @first_1({{.*}}) attributes {phases = array<i64: 1, 2>, role = "first"} {
// THREE-NEXT: %[[V:.*]] = nano.load @grad.v
// THREE-NEXT: %[[S:.*]] = nano.add %[[V]], %arg1
// THREE-NEXT: nano.store %[[S]], @grad.v
// THREE-NEXT: nano.store %arg0, @grad.u
// THREE-LABEL: nano.program @next({{.*}}) attributes {role = "next"} {
// THREE-NOT: all_reduce
// THREE-LABEL: nano.program @last_0({{.*}}) attributes {phases = array<i64: 0, 1>, role = "last"} {
// THREE: nano.add
// THREE-NEXT: nano.store %{{.*}}, @grad.v
// THREE: nano.all_reduce %{{.*}} : tensor<4x2x3xf32>
// THREE-LABEL: nano.program @last_2({{.*}}) attributes {phases = array<i64: 2>, role = "last"} {
// THREE: %[[V:.*]] = nano.all_reduce %{{.*}} : tensor<8xf32>
// THREE-NEXT: nano.store %[[V]], @grad.v
// THREE: nano.all_reduce %{{.*}} : tensor<4x2x3xf32>

// One micro-batch a rank: `last` begins, goes on, or goes on and communicates.
// ONE-LABEL: nano.program @last_0({{.*}}) attributes {phases = array<i64: 0>, role = "last"} {
// ONE-NEXT: nano.store %arg1, @grad.v
// ONE: nano.store %{{.*}}, @grad.grams.bank0
// ONE-LABEL: nano.program @last_1({{.*}}) attributes {phases = array<i64: 1>, role = "last"} {
// ONE-NEXT: nano.load @grad.v
// ONE-NEXT: nano.add
// ONE-NEXT: nano.store %{{.*}}, @grad.v
// ONE: nano.store %{{.*}}, @grad.grams.bank0
// ONE-LABEL: nano.program @last_2({{.*}}) attributes {phases = array<i64: 2>, role = "last"} {
// ONE-NEXT: nano.load @grad.v
// ONE-NEXT: nano.add
// ONE-NEXT: nano.all_reduce
// ONE-NEXT: nano.store %{{.*}}, @grad.v

// CHECK-LABEL: nano.program @update_0() attributes {phases = array<i64: 0, 1>, role = "update"} {
// CHECK-NOT: nano.store %{{.*}}, @v :
// CHECK: nano.store %{{.*}}, @u :
// CHECK-LABEL: nano.program @update_2() attributes {phases = array<i64: 2>, role = "update"} {
// CHECK: %[[SCALE:.*]] = nano.load @grad_scale
// CHECK: %[[THIRD:.*]] = nano.constant 0.33333333333333331 : tensor<f32>
// CHECK-NEXT: %[[MEAN:.*]] = nano.mul %[[SCALE]], %[[THIRD]]
// CHECK: nano.load @grad.v
// CHECK: nano.broadcast %[[MEAN]]
// CHECK: nano.store %{{.*}}, @v :
// CHECK: nano.load @grad.grams.bank0
// CHECK: nano.broadcast %[[SCALE]]
// CHECK: nano.store %{{.*}}, @u :

// One rank whose updates end the last micro-batches: those of the last phase are another program.
// TWO-LABEL: nano.program @last_0({{.*}}) attributes {phases = array<i64: 0, 1>, role = "last"} {
// SINGLE-LABEL: nano.program @last_0({{.*}}) attributes {phases = array<i64: 0>, role = "last"} {
// SINGLE-LABEL: nano.program @last_1({{.*}}) attributes {phases = array<i64: 1>, role = "last"} {
// JOINED-NOT: nano.store %{{.*}}, @v :
// JOINED: nano.store %{{.*}}, @u :
// JOINED-LABEL: nano.program @last_2({{.*}}) attributes {phases = array<i64: 2>, role = "last"} {
// JOINED: nano.store %{{.*}}, @v :
// JOINED-NOT: role = "update"

// ALONE: nano.program @first_0
// ALONE: nano.program @first_1
// ALONE: nano.program @next
// ALONE-NOT: nano.program @last
// ALONE: nano.program @update_0
// ALONE: nano.program @update_2
