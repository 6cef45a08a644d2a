// RUN: nano-opt %s -split-input-file --nano-report-norms | FileCheck %s

// One optimizer on every second step and one on each: two phases. The gradient of two steps has been
// added up; that of the other lies in parts.
module {
  nano.model "m" {training = {report_norms = true}, world = 2 : i64, group = 2 : i64}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.scalar @grad_scale : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @vectors of "vectors" lr @lr {every = 2 : i64, inits = array<f64>, kind = "adam", states = []}
  nano.optimizer @matrices.1 of "matrices" lr @lr {inits = array<f64>, kind = "muon", states = []}
  nano.state @u : tensor<4xbf16> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @vectors}
  nano.state @w : tensor<2x2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @matrices.1}
  nano.state @grad.u : tensor<4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  // What one rank has added up, not the sum of all.
  nano.state @grad.w : tensor<2x2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.matrices.bank0 : tensor<1x2x2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>,
      sharding = {parts = 2 : i64, ranks = "group", chunk = 4 : i64, pieces = [{name = "grad.w", shape = array<i64: 2, 2>, offset = 0 : i64}]}}
  // CHECK-LABEL: nano.program @update_0
  nano.program @update_0(%new: tensor<2x2xf32>) attributes {role = "update", phases = array<i64: 0>} {
    // CHECK: %[[OLD:.*]] = nano.load @w
    // CHECK: %[[CHANGE:.*]] = nano.sub %arg0, %[[OLD]]
    // CHECK: %[[P2:.*]] = nano.mul %[[OLD]], %[[OLD]]
    // CHECK: %[[P:.*]] = nano.reduce sum %[[P2]] dims [0, 1]
    // CHECK: %[[D2:.*]] = nano.mul %[[CHANGE]], %[[CHANGE]]
    // CHECK: %[[D:.*]] = nano.reduce sum %[[D2]] dims [0, 1]
    // CHECK: nano.store %arg0, @w
    nano.store %new, @w : tensor<2x2xf32>
    // Its gradient is one step's, and its name the model file's.
    // CHECK: %[[SCALE:.*]] = nano.load @grad_scale
    // CHECK: %[[ONE:.*]] = nano.constant 1.000000e+00 : tensor<f32>
    // CHECK: nano.mul %[[SCALE]], %[[ONE]]
    // CHECK: %[[BANK:.*]] = nano.load @grad.matrices.bank0
    // CHECK: %[[G:.*]] = nano.mul %[[BANK]]
    // CHECK: nano.report "grad_norm/matrices" norm %[[G]] over group : tensor<1x2x2xf32>
    // CHECK: %[[NORM:.*]] = nano.sqrt %[[P]]
    // CHECK: nano.report "param_norm/matrices" norm %[[NORM]] : tensor<f32>
    // CHECK: %[[MOVED:.*]] = nano.sqrt %[[D]]
    // CHECK: %[[RATIO:.*]] = nano.div %[[MOVED]], %[[NORM]]
    // CHECK: %[[SHOWN:.*]] = nano.select gt, %[[P]], %[[ZERO:.*]], %[[RATIO]], %[[ZERO]]
    // CHECK: nano.report "update_ratio/matrices" mean %[[SHOWN]] : tensor<f32>
    // CHECK-NEXT: nano.return
    nano.return
  }
  // CHECK-LABEL: nano.program @update_1
  nano.program @update_1(%new: tensor<2x2xf32>) attributes {role = "update", phases = array<i64: 1>} {
    // What the update reads is not read again.
    // CHECK: %[[U:.*]] = nano.load @u
    // CHECK-NOT: nano.load @u
    %u = nano.load @u : tensor<4xbf16>
    // Nor its gradient: what squares it stands beside the update's reader.
    // CHECK: %[[GRAD:.*]] = nano.load @grad.u
    // CHECK: nano.constant 5.000000e-01 : tensor<f32>
    // CHECK: %[[SCALED:.*]] = nano.mul %[[GRAD]]
    // CHECK: nano.report "grad_norm/vectors" norm %[[SCALED]] : tensor<4xf32>
    // CHECK: nano.cast
    %g = nano.load @grad.u : tensor<4xf32>
    %c = nano.cast %g : tensor<4xf32> -> tensor<4xbf16>
    %v = nano.add %u, %c : tensor<4xbf16>
    nano.store %v, @u : tensor<4xbf16>
    // CHECK: nano.report "param_norm/vectors" norm
    // CHECK: nano.report "update_ratio/vectors" mean
    // CHECK: nano.report "grad_norm/matrices" norm
    nano.store %new, @w : tensor<2x2xf32>
    nano.return
  }
  // An event sets a parameter, by no optimizer.
  // CHECK-LABEL: nano.program @event_0
  nano.program @event_0(%new: tensor<2x2xf32>) attributes {role = "event"} {
    // CHECK-NEXT: nano.store
    // CHECK-NEXT: nano.return
    nano.store %new, @w : tensor<2x2xf32>
    nano.return
  }
}

// -----

// Nobody asked.
module {
  nano.model "m" {training = {}}
  nano.state @u : tensor<4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [1.0]>}
  // CHECK-LABEL: nano.program @update
  nano.program @update(%x: tensor<4xf32>) attributes {role = "update"} {
    // CHECK-NEXT: nano.store
    // CHECK-NEXT: nano.return
    nano.store %x, @u : tensor<4xf32>
    nano.return
  }
}
