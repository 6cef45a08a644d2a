// RUN: nano-opt %s --nano-expand-optimizers | FileCheck %s

// Updates become the end of the programs of the last micro-batches of the same phases: those of an optimizer on every second step of the last of two phases.
module {
  nano.model "m" {training = {join_update = true}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @slow of "slow" lr @lr {every = 2 : i64, inits = array<f64>, kind = "sgd", states = []} by {
  ^bb0(%p: tensor<8xf32>, %g: tensor<8xf32>):
    %next = nano.sub %p, %g : tensor<8xf32>
    nano.yield %next : tensor<8xf32>
  }
  nano.optimizer @grams of "grams" lr @lr {inits = array<f64>, kind = "grams", states = []} by {
  ^bb0(%p: tensor<2x3xf32>, %g: tensor<2x3xf32>):
    %gram = nano.matmul %g, %g {transpose_b} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
    %step = nano.matmul %gram, %g : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %next = nano.sub %p, %step : tensor<2x3xf32>
    nano.yield %next : tensor<2x3xf32>
  }
  nano.state @v : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @slow}
  nano.state @u : tensor<2x3xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @grams}
  nano.state @grad.v : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.u : tensor<2x3xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @fp8.v : tensor<f32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

  // CHECK-LABEL: nano.program @last_0(
  // CHECK: nano.store %arg0, @grad.u
  // CHECK-NEXT: nano.load @fp8.v
  // CHECK-NOT: nano.store %{{.*}}, @v :
  // CHECK: nano.store %{{.*}}, @u :
  // CHECK-NEXT: nano.return %arg1
  nano.program @last_0(%u: tensor<2x3xf32>, %loss: tensor<f32>) -> tensor<f32> attributes {role = "last", phases = array<i64: 0>} {
    nano.store %u, @grad.u : tensor<2x3xf32>
    nano.return %loss : tensor<f32>
  }
  // CHECK-LABEL: nano.program @last_1(
  // CHECK: nano.store %arg0, @grad.u
  // CHECK-NEXT: nano.load @fp8.v
  // CHECK: nano.store %{{.*}}, @v :
  // CHECK: nano.store %{{.*}}, @u :
  // CHECK-NEXT: nano.return %arg1
  nano.program @last_1(%u: tensor<2x3xf32>, %loss: tensor<f32>) -> tensor<f32> attributes {role = "last", phases = array<i64: 1>} {
    nano.store %u, @grad.u : tensor<2x3xf32>
    nano.return %loss : tensor<f32>
  }
  // CHECK-NOT: nano.program @update
  nano.program @update() attributes {role = "update"} {
    %s = nano.load @fp8.v : tensor<f32>
    nano.store %s, @fp8.v : tensor<f32>
    nano.return
  }
}
