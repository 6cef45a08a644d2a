// RUN: nano-opt %s --verify-roundtrip | FileCheck %s
// RUN: nano-opt %s --mlir-print-op-generic | nano-opt | FileCheck %s

// CHECK: nano.scalar @lr : f32 {
// CHECK-NEXT: ^bb0(%[[STEP:.*]]: f64, %[[N:.*]]: f64, %{{.*}}: f64, %{{.*}}: f64):
// CHECK-NEXT: %[[X:.*]] = arith.divf %[[STEP]], %[[N]] : f64
// CHECK-NEXT: %[[C:.*]] = math.cos %[[X]] : f64
// CHECK-NEXT: nano.yield %[[C]] : f64
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  %x = arith.divf %step, %iterations : f64
  %c = math.cos %x : f64
  nano.yield %c : f64
}
// CHECK: nano.scalar @window : i32
nano.scalar @window : i32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %world : f64
}
// CHECK: nano.optimizer @none of "none" lr @lr {inits = array<f64>, kind = "none", states = []}{{$}}
nano.optimizer @none of "none" lr @lr {inits = array<f64>, kind = "none", states = []}
// CHECK: nano.optimizer @embeds of "embeds" lr @lr {cut = "elements", every = 2 : i64, inits = array<f64: 5.000000e-01>, kind = "lion", states = ["m"]} by {
// CHECK-NEXT: ^bb0(%[[P:.*]]: tensor<257x64xbf16>, %[[G:.*]]: tensor<257x64xf32>, %[[M:.*]]: tensor<257x64xf32>):
// CHECK-NEXT: %[[RATE:.*]] = nano.load @lr : tensor<f32>
// CHECK: nano.yield %{{.*}}, %[[G]] : tensor<257x64xbf16>, tensor<257x64xf32>
nano.optimizer @embeds of "embeds" lr @lr {every = 2 : i64, kind = "lion", cut = "elements", inits = array<f64: 0.5>, states = ["m"]} by {
^bb0(%p: tensor<257x64xbf16>, %g: tensor<257x64xf32>, %m: tensor<257x64xf32>):
  %rate = nano.load @lr : tensor<f32>
  %wide = nano.broadcast %rate dims [] : tensor<f32> -> tensor<257x64xf32>
  %step = nano.mul %m, %wide : tensor<257x64xf32>
  %next = nano.cast %step : tensor<257x64xf32> -> tensor<257x64xbf16>
  nano.yield %next, %g : tensor<257x64xbf16>, tensor<257x64xf32>
}
// CHECK: nano.state @embed.weight : tensor<257x64xbf16> {init = #nano.init<"normal", [0.000000e+00, 1.000000e+00]>, optimizer = @embeds, role = #nano.role<parameter>}
nano.state @embed.weight : tensor<257x64xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @embeds}
// CHECK: nano.state @m : tensor<2xf32> {init = #nano.init<"constant", [1.000000e+00, 0.000000e+00]>, role = #nano.role<optimizer>}
nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [1.0, 0.0]>}
// CHECK: nano.state @grad.w : tensor<2xf32> {init = #nano.init<"uniform", [-1.000000e+00, 1.000000e+00]>, role = #nano.role<gradient>}
nano.state @grad.w : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"uniform", [-1.0, 1.0]>}

// Numbers keep all their digits.
// CHECK: nano.state @digits : tensor<2xf32> {init = #nano.init<"normal", [0.000000e+00, 0.014142135623730949]>
nano.state @digits : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"normal", [0.0, 0.014142135623730949]>}
// CHECK: nano.state @reports : tensor<9xf32> {{.*}}role = #nano.role<report>
nano.state @reports : tensor<9xf32> {role = #nano.role<report>, init = #nano.init<"constant", [0.0]>}
// CHECK: nano.reported "acts" norm in @reports at 0
nano.reported "acts" norm in @reports at 0
// CHECK: nano.reported "spread" histogram in @reports at 1 each_step phases [1] {edges = array<f64: -1.000000e+00, 5.9604644775390625E-8, 1.000000e+00>}
nano.reported "spread" histogram in @reports at 1 each_step phases [1] {edges = array<f64: -1.0, 5.9604644775390625E-8, 1.0>}

// CHECK-LABEL: @reports_of
nano.program @reports_of(%x: tensor<2xbf16>, %i: tensor<4xi32>) {
  // CHECK: nano.report "acts" norm %{{.*}} : tensor<2xbf16>
  nano.report "acts" norm %x : tensor<2xbf16>
  // CHECK: nano.report "spread" histogram %{{.*}} over peers : tensor<4xi32>
  nano.report "spread" histogram %i over peers : tensor<4xi32>
  nano.return
}

// CHECK-LABEL: @states
nano.program @states(%g: tensor<2xbf16>) -> (tensor<f32>, tensor<i32>) {
  // CHECK: nano.load @m : tensor<2xf32>
  %m = nano.load @m : tensor<2xf32>
  // CHECK: nano.store %{{.*}}, @m : tensor<2xf32>
  nano.store %m, @m : tensor<2xf32>
  // CHECK: nano.accumulate %{{.*}}, @grad.w : tensor<2xbf16>
  nano.accumulate %g, @grad.w : tensor<2xbf16>
  // CHECK: nano.load @lr : tensor<f32>
  %lr = nano.load @lr : tensor<f32>
  // CHECK: nano.load @window : tensor<i32>
  %w = nano.load @window : tensor<i32>
  nano.return %lr, %w : tensor<f32>, tensor<i32>
}

// CHECK-LABEL: @fused
nano.program @fused(%x: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>) {
  // CHECK: nano.fused(%{{.*}}) : (tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>) {
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<8x64xf32>):
  // CHECK-NEXT: %[[E:.*]] = nano.exp %[[A]] : tensor<8x64xf32>
  // CHECK-NEXT: %[[S:.*]] = nano.reduce sum %[[E]] dims [1] : tensor<8x64xf32> -> tensor<8xf32>
  // CHECK-NEXT: nano.yield %[[E]], %[[S]] : tensor<8x64xf32>, tensor<8xf32>
  %y, %s = nano.fused(%x) : (tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>) {
  ^bb0(%a: tensor<8x64xf32>):
    %e = nano.exp %a : tensor<8x64xf32>
    %r = nano.reduce sum %e dims [1] : tensor<8x64xf32> -> tensor<8xf32>
    nano.yield %e, %r : tensor<8x64xf32>, tensor<8xf32>
  }
  nano.return %y, %s : tensor<8x64xf32>, tensor<8xf32>
}
