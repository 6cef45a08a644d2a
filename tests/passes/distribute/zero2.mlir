// RUN: nano-opt %s "--nano-distribute=world=2 min-shard=64" | FileCheck %s --check-prefixes=CHECK,NODE
// RUN: nano-opt %s "--nano-distribute=world=4 max-group=2 min-shard=64" | FileCheck %s --check-prefixes=CHECK,NODES

// A large parameter that is updated element by element: this rank's half of the sum; a small one: the whole sum. Three matrices whose updates have products: two rounds of two, the second with zeros. Over several groups of ranks
// the parts of all of them are added.
module {
  nano.model "m" {training = {seq_len = 8 : i64, global_batch = 32 : i64, dist = "zero2"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @grams of "grams" lr @lr {inits = array<f64>, kind = "grams", states = []} by {
  ^bb0(%p: tensor<3x2x3xf32>, %g: tensor<3x2x3xf32>):
    %gram = nano.matmul %g, %g {transpose_b} : (tensor<3x2x3xf32>, tensor<3x2x3xf32>) -> tensor<3x2x2xf32>
    %step = nano.matmul %gram, %g : (tensor<3x2x2xf32>, tensor<3x2x3xf32>) -> tensor<3x2x3xf32>
    %next = nano.sub %p, %step : tensor<3x2x3xf32>
    nano.yield %next : tensor<3x2x3xf32>
  }
  nano.optimizer @plain of "plain" lr @lr {inits = array<f64>, kind = "sgd", states = []} by {
  ^bb0(%p: tensor<16x8xf32>, %g: tensor<16x8xf32>):
    %next = nano.sub %p, %g : tensor<16x8xf32>
    nano.yield %next : tensor<16x8xf32>
  }
  nano.optimizer @gains of "plain" lr @lr {inits = array<f64>, kind = "sgd", states = []} by {
  ^bb0(%p: tensor<32xf32>, %g: tensor<32xf32>):
    %next = nano.sub %p, %g : tensor<32xf32>
    nano.yield %next : tensor<32xf32>
  }
  nano.state @head : tensor<16x8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @plain}
  nano.state @gain : tensor<32xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @gains}
  nano.state @u : tensor<3x2x3xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @grams}
  nano.state @grad.head : tensor<16x8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.gain : tensor<32xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.u : tensor<3x2x3xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

  nano.program @first(%h: tensor<16x8xf32>, %g: tensor<32xf32>, %u: tensor<3x2x3xf32>) attributes {role = "first"} {
    nano.store %u, @grad.u : tensor<3x2x3xf32>
    nano.store %h, @grad.head : tensor<16x8xf32>
    nano.store %g, @grad.gain : tensor<32xf32>
    nano.return
  }
  nano.program @next(%h: tensor<16x8xf32>, %g: tensor<32xf32>, %u: tensor<3x2x3xf32>) attributes {role = "next"} {
    %ua = nano.load @grad.u : tensor<3x2x3xf32>
    %us = nano.add %ua, %u : tensor<3x2x3xf32>
    nano.store %us, @grad.u : tensor<3x2x3xf32>
    %ha = nano.load @grad.head : tensor<16x8xf32>
    %hs = nano.add %ha, %h : tensor<16x8xf32>
    nano.store %hs, @grad.head : tensor<16x8xf32>
    %ga = nano.load @grad.gain : tensor<32xf32>
    %gs = nano.add %ga, %g : tensor<32xf32>
    nano.store %gs, @grad.gain : tensor<32xf32>
    nano.return
  }
}

// CHECK-DAG: nano.state @grad.head.part : tensor<64xf32> {{.*}}sharding = {chunk = 64 : i64, parts = 2 : i64, pieces = [{name = "grad.head", offset = 0 : i64, shape = array<i64: 16, 8>}], ranks = "group"}
// CHECK-DAG: nano.state @grad.grams.bank0 : tensor<2x2x3xf32> {{.*}}sharding = {chunk = 6 : i64, parts = 2 : i64, pieces = [{name = "grad.u", offset = 0 : i64, shape = array<i64: 3, 2, 3>}], ranks = "group"}
// NODES-NOT: nano.program @first

// CHECK-LABEL: nano.program @last
// NODE: %[[U:.*]] = nano.add %{{.*}} : tensor<3x2x3xf32>
// NODE-NEXT: %[[A:.*]] = nano.slice %[[U]] dim 0 at 0 : tensor<3x2x3xf32> -> tensor<2x2x3xf32>
// NODE-NEXT: %[[PA:.*]] = nano.reduce_scatter %[[A]] parts 2 over group : (tensor<2x2x3xf32>) -> tensor<1x2x3xf32>
// NODE-NEXT: %[[B:.*]] = nano.slice %[[U]] dim 0 at 2 : tensor<3x2x3xf32> -> tensor<1x2x3xf32>
// NODE-NEXT: %[[ZERO:.*]] = nano.constant 0.000000e+00 : tensor<1x2x3xf32>
// NODE-NEXT: %[[ROUND:.*]] = nano.concat %[[B]], %[[ZERO]] dim 0
// NODE-NEXT: %[[PB:.*]] = nano.reduce_scatter %[[ROUND]] parts 2 over group : (tensor<2x2x3xf32>) -> tensor<1x2x3xf32>
// NODE-NEXT: %[[BANK:.*]] = nano.concat %[[PA]], %[[PB]] dim 0
// NODE-NEXT: nano.store %[[BANK]], @grad.grams.bank0 : tensor<2x2x3xf32>
// NODE: %[[H:.*]] = nano.add %{{.*}} : tensor<16x8xf32>
// NODE-NEXT: %[[FLAT:.*]] = nano.reshape %[[H]] : tensor<16x8xf32> -> tensor<128xf32>
// NODE-NEXT: %[[PART:.*]] = nano.reduce_scatter %[[FLAT]] parts 2 over group : (tensor<128xf32>) -> tensor<64xf32>
// NODE-NEXT: nano.store %[[PART]], @grad.head.part : tensor<64xf32>
// NODE: %[[G:.*]] = nano.add %{{.*}} : tensor<32xf32>
// NODE-NEXT: %[[GS:.*]] = nano.all_reduce %[[G]] : tensor<32xf32>
// NODE-NEXT: nano.store %[[GS]], @grad.gain : tensor<32xf32>

// NODES-NOT: nano.load
// NODES: %[[PA:.*]] = nano.reduce_scatter %{{.*}} parts 2 over group
// NODES-NEXT: nano.all_reduce %[[PA]] over peers : tensor<1x2x3xf32>
// NODES: %[[PART:.*]] = nano.reduce_scatter %{{.*}} parts 2 over group : (tensor<128xf32>) -> tensor<64xf32>
// NODES-NEXT: %[[SUM:.*]] = nano.all_reduce %[[PART]] over peers : tensor<64xf32>
// NODES-NEXT: nano.store %[[SUM]], @grad.head.part
// NODES: nano.all_reduce %{{.*}} : tensor<32xf32>
