// RUN: nano-opt %s -nano-differentiate -nano-verify-differentiated -nano-split-accumulation -split-input-file | FileCheck %s

// With stored gradients those of bf16 parameters are added up in bf16, as the backward pass makes them; those of f32 in f32.
// CHECK: nano.state @grad.w : tensor<4xbf16>
// CHECK: nano.state @grad.x : tensor<4xf32>
// CHECK-LABEL: nano.program @first
// CHECK-DAG:     nano.store %{{.*}}, @grad.w : tensor<4xbf16>
// CHECK-DAG:     nano.store %{{.*}}, @grad.x : tensor<4xf32>
// CHECK-LABEL: nano.program @next
// CHECK:         %[[OLD:.*]] = nano.load @grad.w : tensor<4xbf16>
// CHECK-NEXT:    %[[SUM:.*]] = nano.add %[[OLD]], %{{.*}} : tensor<4xbf16>
// CHECK-NEXT:    nano.store %[[SUM]], @grad.w : tensor<4xbf16>
module {
  nano.model "m" {training = {stored_gradients = true}}
  nano.scalar @lr : f32 {
  ^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
    nano.yield %s : f64
  }
  nano.optimizer @adam of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<4xbf16> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
  nano.state @x : tensor<4xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
  nano.program @train(%tokens: tensor<4xi32>, %targets: tensor<4xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<4xbf16>
    %wide = nano.cast %w : tensor<4xbf16> -> tensor<4xf32>
    %x = nano.load @x : tensor<4xf32>
    %y = nano.mul %x, %wide : tensor<4xf32>
    %loss = nano.reduce sum %y dims [0] : tensor<4xf32> -> tensor<f32>
    nano.return %loss : tensor<f32>
  }
}
