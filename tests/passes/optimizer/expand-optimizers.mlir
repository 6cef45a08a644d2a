// RUN: nano-opt %s -split-input-file --nano-expand-optimizers | FileCheck %s
// RUN: nano-opt %s -split-input-file --nano-expand-optimizers --mlir-print-debuginfo | FileCheck %s --check-prefix=LINES
// RUN: nano-opt %s -split-input-file --nano-expand-optimizers=max-batch-elements=24 | FileCheck %s --check-prefix=SMALL

// Element-wise equations (Adam's): bf16 states beside a bf16 parameter, arithmetic in f32 as they say.
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.scalar @embeds.bias1 : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.scalar @embeds.bias2 : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @embeds of "embeds" lr @lr {inits = array<f64: 0.0, 0.0>, kind = "adam", states = ["adam_m", "adam_v"]} by {
^bb0(%p: tensor<4x2xbf16>, %g: tensor<4x2xf32>, %m: tensor<4x2xbf16>, %v: tensor<4x2xbf16>):
  %0 = nano.cast %p : tensor<4x2xbf16> -> tensor<4x2xf32>
  %1 = nano.cast %m : tensor<4x2xbf16> -> tensor<4x2xf32>
  %2 = nano.cast %v : tensor<4x2xbf16> -> tensor<4x2xf32>
  %3 = nano.constant 0.8 : tensor<4x2xf32>
  %4 = nano.mul %1, %3 : tensor<4x2xf32>
  %5 = nano.constant 0.19999999999999996 : tensor<4x2xf32>
  %6 = nano.mul %g, %5 : tensor<4x2xf32>
  %7 = nano.add %4, %6 : tensor<4x2xf32>
  %8 = nano.constant 0.95 : tensor<4x2xf32>
  %9 = nano.mul %2, %8 : tensor<4x2xf32>
  %10 = nano.mul %g, %g : tensor<4x2xf32>
  %11 = nano.constant 0.050000000000000044 : tensor<4x2xf32>
  %12 = nano.mul %10, %11 : tensor<4x2xf32>
  %13 = nano.add %9, %12 : tensor<4x2xf32>
  %14 = nano.load @embeds.bias1 : tensor<f32>
  %15 = nano.broadcast %14 dims [] : tensor<f32> -> tensor<4x2xf32>
  %16 = nano.mul %7, %15 : tensor<4x2xf32>
  %17 = nano.sqrt %13 : tensor<4x2xf32>
  %18 = nano.load @embeds.bias2 : tensor<f32>
  %19 = nano.broadcast %18 dims [] : tensor<f32> -> tensor<4x2xf32>
  %20 = nano.mul %17, %19 : tensor<4x2xf32>
  %21 = nano.constant 1.0e-10 : tensor<4x2xf32>
  %22 = nano.add %20, %21 : tensor<4x2xf32>
  %23 = nano.div %16, %22 : tensor<4x2xf32>
  %24 = nano.load @lr : tensor<f32>
  %25 = nano.broadcast %24 dims [] : tensor<f32> -> tensor<4x2xf32>
  %26 = nano.mul %23, %25 : tensor<4x2xf32>
  %27 = nano.sub %0, %26 : tensor<4x2xf32>
  %28 = nano.cast %27 : tensor<4x2xf32> -> tensor<4x2xbf16>
  %29 = nano.cast %7 : tensor<4x2xf32> -> tensor<4x2xbf16>
  %30 = nano.cast %13 : tensor<4x2xf32> -> tensor<4x2xbf16>
  nano.yield %28, %29, %30 : tensor<4x2xbf16>, tensor<4x2xbf16>, tensor<4x2xbf16>
}
nano.optimizer @embeds.1 of "embeds" lr @lr {inits = array<f64: 0.0, 0.0>, kind = "adam", states = ["adam_m", "adam_v"]} by {
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
  %11 = nano.load @embeds.bias1 : tensor<f32>
  %12 = nano.broadcast %11 dims [] : tensor<f32> -> tensor<2xf32>
  %13 = nano.mul %4, %12 : tensor<2xf32>
  %14 = nano.sqrt %10 : tensor<2xf32>
  %15 = nano.load @embeds.bias2 : tensor<f32>
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
nano.state @w : tensor<4x2xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @embeds} loc("model.cpp":7:0)
nano.state @u : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @embeds.1} loc("model.cpp":8:0)
nano.state @grad.w : tensor<4x2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.u : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// The equations are gone.
// CHECK: nano.optimizer @embeds of "embeds" lr @lr {inits = array<f64: 0.000000e+00, 0.000000e+00>, kind = "adam", states = ["adam_m", "adam_v"]}{{$}}
// CHECK: nano.scalar @grad_scale : f32 {
// CHECK-NEXT: ^bb0(%{{.*}}: f64, %{{.*}}: f64, %[[SEQUENCES:.*]]: f64, %{{.*}}: f64):
// CHECK-NEXT: %[[ONE:.*]] = arith.constant 1.000000e+00 : f64
// CHECK-NEXT: %[[SCALE:.*]] = arith.divf %[[ONE]], %[[SEQUENCES]] : f64
// CHECK-NEXT: nano.yield %[[SCALE]] : f64
// CHECK-DAG: nano.state @w.adam_m : tensor<4x2xbf16> {init = #nano.init<"constant", [0.000000e+00]>, role = #nano.role<optimizer>}
// CHECK-DAG: nano.state @w.adam_v : tensor<4x2xbf16> {init = #nano.init<"constant", [0.000000e+00]>, role = #nano.role<optimizer>}
// CHECK-DAG: nano.state @u.adam_m : tensor<2xf32>
// CHECK-DAG: nano.state @u.adam_v : tensor<2xf32>

// CHECK-LABEL: nano.program @update() attributes {role = "update"} {
// CHECK: %[[SCALE:.*]] = nano.load @grad_scale : tensor<f32>
// CHECK: %[[M:.*]] = nano.load @w.adam_m : tensor<4x2xbf16>
// CHECK: %[[M32:.*]] = nano.cast %[[M]]
// CHECK: nano.mul %[[M32]]
// CHECK: %[[SUM:.*]] = nano.load @grad.w : tensor<4x2xf32>
// CHECK: %[[WIDE:.*]] = nano.broadcast %[[SCALE]] dims [] : tensor<f32> -> tensor<4x2xf32>
// CHECK: %[[G:.*]] = nano.mul %[[SUM]], %[[WIDE]] : tensor<4x2xf32>
// CHECK: %[[NEXTM:.*]] = nano.cast %{{.*}} : tensor<4x2xf32> -> tensor<4x2xbf16>
// CHECK: %[[V:.*]] = nano.load @w.adam_v : tensor<4x2xbf16>
// CHECK: %[[V32:.*]] = nano.cast %[[V]]
// CHECK: %[[GG:.*]] = nano.mul %[[G]], %[[G]]
// CHECK: %[[NEXTV:.*]] = nano.cast %{{.*}} : tensor<4x2xf32> -> tensor<4x2xbf16>
// CHECK: %[[P:.*]] = nano.load @w : tensor<4x2xbf16>
// CHECK: %[[P32:.*]] = nano.cast %[[P]] : tensor<4x2xbf16> -> tensor<4x2xf32>
// CHECK: nano.sqrt
// CHECK: nano.div
// CHECK: %[[NEXT:.*]] = nano.sub %[[P32]]
// CHECK: %[[ROUNDED:.*]] = nano.cast %[[NEXT]] : tensor<4x2xf32> -> tensor<4x2xbf16>
// CHECK-NEXT: nano.store %[[NEXTM]], @w.adam_m : tensor<4x2xbf16>
// CHECK-NEXT: nano.store %[[NEXTV]], @w.adam_v : tensor<4x2xbf16>
// CHECK-NEXT: nano.store %[[ROUNDED]], @w : tensor<4x2xbf16>
// CHECK: nano.store %{{.*}}, @u.adam_m : tensor<2xf32>
// CHECK: nano.store %{{.*}}, @u.adam_v : tensor<2xf32>
// CHECK: nano.store %{{.*}}, @u : tensor<2xf32>
// CHECK-NEXT: nano.return

// What updates a parameter has the parameter's line.
// LINES: nano.program @update
// LINES: nano.load @grad.w : tensor<4x2xf32> loc(#[[W:.*]])
// LINES: nano.store %{{.*}}, @w : tensor<4x2xbf16> loc(#[[W]])
// LINES: nano.load @grad.u : tensor<2xf32> loc(#[[U:.*]])
// LINES: nano.store %{{.*}}, @u : tensor<2xf32> loc(#[[U]])
// LINES-DAG: #[[W]] = loc("model.cpp":7:0)
// LINES-DAG: #[[U]] = loc("model.cpp":8:0)

// -----

// Weight decay, and clipping over all gradients together.
module {
  nano.model "m" {training = {grad_clip = 2.0 : f64}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.scalar @decayed.bias1 : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.scalar @decayed.bias2 : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.scalar @plain.bias1 : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.scalar @plain.bias2 : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @decayed of "decayed" lr @lr {inits = array<f64: 0.0, 0.0>, kind = "adam", states = ["adam_m", "adam_v"]} by {
  ^bb0(%p: tensor<4x2xf32>, %g: tensor<4x2xf32>, %m: tensor<4x2xf32>, %v: tensor<4x2xf32>):
    %0 = nano.constant 0.9 : tensor<4x2xf32>
    %1 = nano.mul %m, %0 : tensor<4x2xf32>
    %2 = nano.constant 0.09999999999999998 : tensor<4x2xf32>
    %3 = nano.mul %g, %2 : tensor<4x2xf32>
    %4 = nano.add %1, %3 : tensor<4x2xf32>
    %5 = nano.constant 0.95 : tensor<4x2xf32>
    %6 = nano.mul %v, %5 : tensor<4x2xf32>
    %7 = nano.mul %g, %g : tensor<4x2xf32>
    %8 = nano.constant 0.050000000000000044 : tensor<4x2xf32>
    %9 = nano.mul %7, %8 : tensor<4x2xf32>
    %10 = nano.add %6, %9 : tensor<4x2xf32>
    %11 = nano.load @decayed.bias1 : tensor<f32>
    %12 = nano.broadcast %11 dims [] : tensor<f32> -> tensor<4x2xf32>
    %13 = nano.mul %4, %12 : tensor<4x2xf32>
    %14 = nano.sqrt %10 : tensor<4x2xf32>
    %15 = nano.load @decayed.bias2 : tensor<f32>
    %16 = nano.broadcast %15 dims [] : tensor<f32> -> tensor<4x2xf32>
    %17 = nano.mul %14, %16 : tensor<4x2xf32>
    %18 = nano.constant 1.0e-8 : tensor<4x2xf32>
    %19 = nano.add %17, %18 : tensor<4x2xf32>
    %20 = nano.div %13, %19 : tensor<4x2xf32>
    %21 = nano.constant 0.125 : tensor<4x2xf32>
    %22 = nano.mul %p, %21 : tensor<4x2xf32>
    %23 = nano.add %20, %22 : tensor<4x2xf32>
    %24 = nano.load @lr : tensor<f32>
    %25 = nano.broadcast %24 dims [] : tensor<f32> -> tensor<4x2xf32>
    %26 = nano.mul %23, %25 : tensor<4x2xf32>
    %27 = nano.sub %p, %26 : tensor<4x2xf32>
    nano.yield %27, %4, %10 : tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>
  }
  nano.optimizer @plain of "plain" lr @lr {inits = array<f64: 0.0, 0.0>, kind = "adam", states = ["adam_m", "adam_v"]} by {
  ^bb0(%p: tensor<f32>, %g: tensor<f32>, %m: tensor<f32>, %v: tensor<f32>):
    %0 = nano.constant 0.9 : tensor<f32>
    %1 = nano.mul %m, %0 : tensor<f32>
    %2 = nano.constant 0.09999999999999998 : tensor<f32>
    %3 = nano.mul %g, %2 : tensor<f32>
    %4 = nano.add %1, %3 : tensor<f32>
    %5 = nano.constant 0.95 : tensor<f32>
    %6 = nano.mul %v, %5 : tensor<f32>
    %7 = nano.mul %g, %g : tensor<f32>
    %8 = nano.constant 0.050000000000000044 : tensor<f32>
    %9 = nano.mul %7, %8 : tensor<f32>
    %10 = nano.add %6, %9 : tensor<f32>
    %11 = nano.load @plain.bias1 : tensor<f32>
    %12 = nano.mul %4, %11 : tensor<f32>
    %13 = nano.sqrt %10 : tensor<f32>
    %14 = nano.load @plain.bias2 : tensor<f32>
    %15 = nano.mul %13, %14 : tensor<f32>
    %16 = nano.constant 1.0e-8 : tensor<f32>
    %17 = nano.add %15, %16 : tensor<f32>
    %18 = nano.div %12, %17 : tensor<f32>
    %19 = nano.load @lr : tensor<f32>
    %20 = nano.mul %18, %19 : tensor<f32>
    %21 = nano.sub %p, %20 : tensor<f32>
    nano.yield %21, %4, %10 : tensor<f32>, tensor<f32>, tensor<f32>
  }
  nano.state @w : tensor<4x2xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @decayed}
  nano.state @b : tensor<f32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @plain}
  nano.state @grad.w : tensor<4x2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.b : tensor<f32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
}

// CHECK-LABEL: nano.program @update()
// CHECK-NEXT: %[[SCALE:.*]] = nano.load @grad_scale : tensor<f32>
// CHECK-NEXT: %[[W:.*]] = nano.load @grad.w : tensor<4x2xf32>
// CHECK-NEXT: %[[WW:.*]] = nano.mul %[[W]], %[[W]] : tensor<4x2xf32>
// CHECK-NEXT: %[[SW:.*]] = nano.reduce sum %[[WW]] dims [0, 1] : tensor<4x2xf32> -> tensor<f32>
// CHECK-NEXT: %[[B:.*]] = nano.load @grad.b : tensor<f32>
// CHECK-NEXT: %[[BB:.*]] = nano.mul %[[B]], %[[B]] : tensor<f32>
// CHECK-NEXT: %[[SUM:.*]] = nano.add %[[SW]], %[[BB]] : tensor<f32>
// CHECK: %[[ROOT:.*]] = nano.sqrt %[[SUM]] : tensor<f32>
// CHECK: %[[NORM:.*]] = nano.mul %[[ROOT]], %[[SCALE]] : tensor<f32>
// CHECK: %[[LIMIT:.*]] = nano.constant 2.000000e+00 : tensor<f32>
// CHECK: %[[FACTOR:.*]] = nano.select gt, %[[NORM]], %[[LIMIT]], %{{.*}}, %{{.*}} : tensor<f32>, tensor<f32>
// CHECK: %[[CLIPPED:.*]] = nano.mul %[[SCALE]], %[[FACTOR]] : tensor<f32>
// CHECK: nano.broadcast %[[CLIPPED]] dims [] : tensor<f32> -> tensor<4x2xf32>
// CHECK: %[[P:.*]] = nano.load @w :
// CHECK: %[[DIRECTION:.*]] = nano.div
// CHECK: nano.constant 1.250000e-01 : tensor<4x2xf32>
// CHECK: %[[DECAY:.*]] = nano.mul %[[P]]
// CHECK: nano.add %[[DIRECTION]], %[[DECAY]]
// CHECK: nano.load @grad.b : tensor<f32>
// CHECK: nano.load @plain.bias1
// CHECK-NOT: nano.constant 1.250000e-01
// CHECK: nano.store %{{.*}}, @b : tensor<f32>

// -----

// Products (Muon's): a wide matrix and a stack of tall ones. Tall matrices are not transposed: A = XᵀX, X ← aX + X·B. Scales and sums are part of the products. All have smaller sides of 2: their polynomials
// are one product.
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.scalar @mu : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @matrices of "matrices" lr @lr {inits = array<f64: 0.0>, kind = "muon", states = ["muon_b"]} by {
^bb0(%p: tensor<2x4xf32>, %g: tensor<2x4xf32>, %b: tensor<2x4xf32>):
  %0 = nano.load @mu : tensor<f32>
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
  %23 = nano.constant 2.0 : tensor<2x2xbf16>
  %24 = nano.mul %22, %23 : tensor<2x2xbf16>
  %25 = nano.constant -4.75 : tensor<2x2xbf16>
  %26 = nano.mul %21, %25 : tensor<2x2xbf16>
  %27 = nano.add %26, %24 : tensor<2x2xbf16>
  %28 = nano.matmul %27, %20 : (tensor<2x2xbf16>, tensor<2x4xbf16>) -> tensor<2x4xbf16>
  %29 = nano.constant 3.5 : tensor<2x4xbf16>
  %30 = nano.mul %20, %29 : tensor<2x4xbf16>
  %31 = nano.add %30, %28 : tensor<2x4xbf16>
  %32 = nano.matmul %31, %31 {transpose_b} : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<2x2xbf16>
  %33 = nano.matmul %32, %32 : (tensor<2x2xbf16>, tensor<2x2xbf16>) -> tensor<2x2xbf16>
  %34 = nano.constant 2.0 : tensor<2x2xbf16>
  %35 = nano.mul %33, %34 : tensor<2x2xbf16>
  %36 = nano.constant -4.75 : tensor<2x2xbf16>
  %37 = nano.mul %32, %36 : tensor<2x2xbf16>
  %38 = nano.add %37, %35 : tensor<2x2xbf16>
  %39 = nano.matmul %38, %31 : (tensor<2x2xbf16>, tensor<2x4xbf16>) -> tensor<2x4xbf16>
  %40 = nano.constant 3.5 : tensor<2x4xbf16>
  %41 = nano.mul %31, %40 : tensor<2x4xbf16>
  %42 = nano.add %41, %39 : tensor<2x4xbf16>
  %43 = nano.load @lr : tensor<f32>
  %44 = nano.cast %42 : tensor<2x4xbf16> -> tensor<2x4xf32>
  %45 = nano.broadcast %43 dims [] : tensor<f32> -> tensor<2x4xf32>
  %46 = nano.mul %44, %45 : tensor<2x4xf32>
  %47 = nano.sub %p, %46 : tensor<2x4xf32>
  nano.yield %47, %6 : tensor<2x4xf32>, tensor<2x4xf32>
}
nano.optimizer @matrices.1 of "matrices" lr @lr {inits = array<f64: 0.0>, kind = "muon", states = ["muon_b"]} by {
^bb0(%p: tensor<3x8x2xf32>, %g: tensor<3x8x2xf32>, %b: tensor<3x8x2xf32>):
  %0 = nano.load @mu : tensor<f32>
  %1 = nano.constant 1.0 : tensor<f32>
  %2 = nano.sub %1, %0 : tensor<f32>
  %3 = nano.sub %g, %b : tensor<3x8x2xf32>
  %4 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<3x8x2xf32>
  %5 = nano.mul %3, %4 : tensor<3x8x2xf32>
  %6 = nano.add %b, %5 : tensor<3x8x2xf32>
  %7 = nano.sub %6, %g : tensor<3x8x2xf32>
  %8 = nano.broadcast %0 dims [] : tensor<f32> -> tensor<3x8x2xf32>
  %9 = nano.mul %7, %8 : tensor<3x8x2xf32>
  %10 = nano.add %g, %9 : tensor<3x8x2xf32>
  %11 = nano.cast %10 : tensor<3x8x2xf32> -> tensor<3x8x2xbf16>
  %12 = nano.cast %11 : tensor<3x8x2xbf16> -> tensor<3x8x2xf32>
  %13 = nano.mul %12, %12 : tensor<3x8x2xf32>
  %14 = nano.reduce sum %13 dims [1, 2] : tensor<3x8x2xf32> -> tensor<3xf32>
  %15 = nano.sqrt %14 : tensor<3xf32>
  %16 = nano.constant 1.0e-7 : tensor<3xf32>
  %17 = nano.add %15, %16 : tensor<3xf32>
  %18 = nano.broadcast %17 dims [0] : tensor<3xf32> -> tensor<3x8x2xf32>
  %19 = nano.div %12, %18 : tensor<3x8x2xf32>
  %20 = nano.cast %19 : tensor<3x8x2xf32> -> tensor<3x8x2xbf16>
  %21 = nano.matmul %20, %20 {transpose_a} : (tensor<3x8x2xbf16>, tensor<3x8x2xbf16>) -> tensor<3x2x2xbf16>
  %22 = nano.matmul %21, %21 : (tensor<3x2x2xbf16>, tensor<3x2x2xbf16>) -> tensor<3x2x2xbf16>
  %23 = nano.constant 2.0 : tensor<3x2x2xbf16>
  %24 = nano.mul %22, %23 : tensor<3x2x2xbf16>
  %25 = nano.constant -4.75 : tensor<3x2x2xbf16>
  %26 = nano.mul %21, %25 : tensor<3x2x2xbf16>
  %27 = nano.add %26, %24 : tensor<3x2x2xbf16>
  %28 = nano.matmul %20, %27 : (tensor<3x8x2xbf16>, tensor<3x2x2xbf16>) -> tensor<3x8x2xbf16>
  %29 = nano.constant 3.5 : tensor<3x8x2xbf16>
  %30 = nano.mul %20, %29 : tensor<3x8x2xbf16>
  %31 = nano.add %30, %28 : tensor<3x8x2xbf16>
  %32 = nano.matmul %31, %31 {transpose_a} : (tensor<3x8x2xbf16>, tensor<3x8x2xbf16>) -> tensor<3x2x2xbf16>
  %33 = nano.matmul %32, %32 : (tensor<3x2x2xbf16>, tensor<3x2x2xbf16>) -> tensor<3x2x2xbf16>
  %34 = nano.constant 2.0 : tensor<3x2x2xbf16>
  %35 = nano.mul %33, %34 : tensor<3x2x2xbf16>
  %36 = nano.constant -4.75 : tensor<3x2x2xbf16>
  %37 = nano.mul %32, %36 : tensor<3x2x2xbf16>
  %38 = nano.add %37, %35 : tensor<3x2x2xbf16>
  %39 = nano.matmul %31, %38 : (tensor<3x8x2xbf16>, tensor<3x2x2xbf16>) -> tensor<3x8x2xbf16>
  %40 = nano.constant 3.5 : tensor<3x8x2xbf16>
  %41 = nano.mul %31, %40 : tensor<3x8x2xbf16>
  %42 = nano.add %41, %39 : tensor<3x8x2xbf16>
  %43 = nano.load @lr : tensor<f32>
  %44 = nano.constant 2.0 : tensor<f32>
  %45 = nano.mul %43, %44 : tensor<f32>
  %46 = nano.cast %42 : tensor<3x8x2xbf16> -> tensor<3x8x2xf32>
  %47 = nano.broadcast %45 dims [] : tensor<f32> -> tensor<3x8x2xf32>
  %48 = nano.mul %46, %47 : tensor<3x8x2xf32>
  %49 = nano.sub %p, %48 : tensor<3x8x2xf32>
  nano.yield %49, %6 : tensor<3x8x2xf32>, tensor<3x8x2xf32>
}
nano.state @wide : tensor<2x4xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @matrices}
nano.state @tall : tensor<3x8x2xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @matrices.1}
nano.state @grad.wide : tensor<2x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.tall : tensor<3x8x2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// CHECK-DAG: nano.state @wide.muon_b : tensor<2x4xf32> {init = #nano.init<"constant", [0.000000e+00]>, role = #nano.role<optimizer>}
// CHECK-DAG: nano.state @tall.muon_b : tensor<3x8x2xf32>
// CHECK-LABEL: nano.program @update()
// CHECK: nano.load @wide.muon_b : tensor<2x4xf32>
// CHECK: nano.load @grad.wide
// CHECK: nano.load @mu : tensor<f32>
// CHECK: nano.store %{{.*}}, @wide.muon_b : tensor<2x4xf32>
// CHECK: nano.reduce sum %{{.*}} dims [0, 1] : tensor<2x4xf32> -> tensor<f32>
// CHECK: %[[X:.*]] = nano.cast %{{.*}} : tensor<2x4xf32> -> tensor<2x4xbf16>
// CHECK: nano.reduce sum %{{.*}} dims [1, 2] : tensor<3x8x2xf32> -> tensor<3xf32>
// CHECK: nano.broadcast %{{.*}} dims [0] : tensor<3xf32> -> tensor<3x8x2xf32>
// CHECK: %[[Y:.*]] = nano.cast %{{.*}} : tensor<3x8x2xf32> -> tensor<3x8x2xbf16>
// CHECK-NEXT: %[[AX:.*]] = nano.matmul %[[X]], %[[X]] {transpose_b} : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<2x2xbf16>
// CHECK-NEXT: %[[AY:.*]] = nano.matmul %[[Y]], %[[Y]] {transpose_a} : (tensor<3x8x2xbf16>, tensor<3x8x2xbf16>) -> tensor<3x2x2xbf16>
// CHECK-NEXT: %[[ONE:.*]] = nano.reshape %[[AX]] : tensor<2x2xbf16> -> tensor<1x2x2xbf16>
// CHECK-NEXT: %[[A:.*]] = nano.concat %[[ONE]], %[[AY]] dim 0 : (tensor<1x2x2xbf16>, tensor<3x2x2xbf16>) -> tensor<4x2x2xbf16>
// CHECK-NEXT: %[[B:.*]] = nano.matmul %[[A]], %[[A]] add %[[A]] {alpha = 2.000000e+00 : f64, beta = -4.750000e+00 : f64} : (tensor<4x2x2xbf16>, tensor<4x2x2xbf16>, tensor<4x2x2xbf16>) -> tensor<4x2x2xbf16>
// CHECK-NEXT: %[[PART:.*]] = nano.slice %[[B]] dim 0 at 0 : tensor<4x2x2xbf16> -> tensor<1x2x2xbf16>
// CHECK-NEXT: %[[BX:.*]] = nano.reshape %[[PART]] : tensor<1x2x2xbf16> -> tensor<2x2xbf16>
// CHECK-NEXT: %[[BY:.*]] = nano.slice %[[B]] dim 0 at 1 : tensor<4x2x2xbf16> -> tensor<3x2x2xbf16>
// CHECK-NEXT: %[[NEXT:.*]] = nano.matmul %[[BX]], %[[X]] add %[[X]] {beta = 3.500000e+00 : f64} : (tensor<2x2xbf16>, tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<2x4xbf16>
// CHECK-NEXT: nano.matmul %[[Y]], %[[BY]] add %[[Y]] {beta = 3.500000e+00 : f64} : (tensor<3x8x2xbf16>, tensor<3x2x2xbf16>, tensor<3x8x2xbf16>) -> tensor<3x8x2xbf16>
// CHECK-NEXT: nano.matmul %[[NEXT]], %[[NEXT]] {transpose_b}
// CHECK-COUNT-4: nano.matmul
// CHECK-NOT: nano.matmul
// CHECK: nano.store %{{.*}}, @wide : tensor<2x4xf32>
// The step of a tall matrix is longer: √(8/2).
// CHECK: nano.constant 2.000000e+00 : tensor<f32>
// CHECK: nano.store %{{.*}}, @tall : tensor<3x8x2xf32>

// -----

// Matrices of one size are multiplied together, up to 24 numbers: @a and @c are a batch, @d would make it too large. @b has another size. The
// polynomials of the three batches are one product, as they have less than four times so many numbers; those of @e, whose smaller side is 3, are not in it.
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @matrices of "matrices" lr @lr {inits = array<f64: 0.0>, kind = "muon", states = ["muon_b"]} by {
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
  %11 = nano.mul %10, %10 : tensor<2x4xf32>
  %12 = nano.reduce sum %11 dims [0, 1] : tensor<2x4xf32> -> tensor<f32>
  %13 = nano.sqrt %12 : tensor<f32>
  %14 = nano.constant 1.0e-7 : tensor<f32>
  %15 = nano.add %13, %14 : tensor<f32>
  %16 = nano.broadcast %15 dims [] : tensor<f32> -> tensor<2x4xf32>
  %17 = nano.div %10, %16 : tensor<2x4xf32>
  %18 = nano.matmul %17, %17 {transpose_b} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x2xf32>
  %19 = nano.matmul %18, %18 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %20 = nano.constant 2.0 : tensor<2x2xf32>
  %21 = nano.mul %19, %20 : tensor<2x2xf32>
  %22 = nano.constant -4.75 : tensor<2x2xf32>
  %23 = nano.mul %18, %22 : tensor<2x2xf32>
  %24 = nano.add %23, %21 : tensor<2x2xf32>
  %25 = nano.matmul %24, %17 : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %26 = nano.constant 3.5 : tensor<2x4xf32>
  %27 = nano.mul %17, %26 : tensor<2x4xf32>
  %28 = nano.add %27, %25 : tensor<2x4xf32>
  %29 = nano.load @lr : tensor<f32>
  %30 = nano.broadcast %29 dims [] : tensor<f32> -> tensor<2x4xf32>
  %31 = nano.mul %28, %30 : tensor<2x4xf32>
  %32 = nano.sub %p, %31 : tensor<2x4xf32>
  nano.yield %32, %6 : tensor<2x4xf32>, tensor<2x4xf32>
}
nano.optimizer @matrices.1 of "matrices" lr @lr {inits = array<f64: 0.0>, kind = "muon", states = ["muon_b"]} by {
^bb0(%p: tensor<2x3xf32>, %g: tensor<2x3xf32>, %b: tensor<2x3xf32>):
  %0 = nano.load @lr : tensor<f32>
  %1 = nano.constant 1.0 : tensor<f32>
  %2 = nano.sub %1, %0 : tensor<f32>
  %3 = nano.sub %g, %b : tensor<2x3xf32>
  %4 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<2x3xf32>
  %5 = nano.mul %3, %4 : tensor<2x3xf32>
  %6 = nano.add %b, %5 : tensor<2x3xf32>
  %7 = nano.sub %6, %g : tensor<2x3xf32>
  %8 = nano.broadcast %0 dims [] : tensor<f32> -> tensor<2x3xf32>
  %9 = nano.mul %7, %8 : tensor<2x3xf32>
  %10 = nano.add %g, %9 : tensor<2x3xf32>
  %11 = nano.mul %10, %10 : tensor<2x3xf32>
  %12 = nano.reduce sum %11 dims [0, 1] : tensor<2x3xf32> -> tensor<f32>
  %13 = nano.sqrt %12 : tensor<f32>
  %14 = nano.constant 1.0e-7 : tensor<f32>
  %15 = nano.add %13, %14 : tensor<f32>
  %16 = nano.broadcast %15 dims [] : tensor<f32> -> tensor<2x3xf32>
  %17 = nano.div %10, %16 : tensor<2x3xf32>
  %18 = nano.matmul %17, %17 {transpose_b} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  %19 = nano.matmul %18, %18 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %20 = nano.constant 2.0 : tensor<2x2xf32>
  %21 = nano.mul %19, %20 : tensor<2x2xf32>
  %22 = nano.constant -4.75 : tensor<2x2xf32>
  %23 = nano.mul %18, %22 : tensor<2x2xf32>
  %24 = nano.add %23, %21 : tensor<2x2xf32>
  %25 = nano.matmul %24, %17 : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %26 = nano.constant 3.5 : tensor<2x3xf32>
  %27 = nano.mul %17, %26 : tensor<2x3xf32>
  %28 = nano.add %27, %25 : tensor<2x3xf32>
  %29 = nano.load @lr : tensor<f32>
  %30 = nano.broadcast %29 dims [] : tensor<f32> -> tensor<2x3xf32>
  %31 = nano.mul %28, %30 : tensor<2x3xf32>
  %32 = nano.sub %p, %31 : tensor<2x3xf32>
  nano.yield %32, %6 : tensor<2x3xf32>, tensor<2x3xf32>
}
nano.optimizer @matrices.2 of "matrices" lr @lr {inits = array<f64: 0.0>, kind = "muon", states = ["muon_b"]} by {
^bb0(%p: tensor<2x2x4xf32>, %g: tensor<2x2x4xf32>, %b: tensor<2x2x4xf32>):
  %0 = nano.load @lr : tensor<f32>
  %1 = nano.constant 1.0 : tensor<f32>
  %2 = nano.sub %1, %0 : tensor<f32>
  %3 = nano.sub %g, %b : tensor<2x2x4xf32>
  %4 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<2x2x4xf32>
  %5 = nano.mul %3, %4 : tensor<2x2x4xf32>
  %6 = nano.add %b, %5 : tensor<2x2x4xf32>
  %7 = nano.sub %6, %g : tensor<2x2x4xf32>
  %8 = nano.broadcast %0 dims [] : tensor<f32> -> tensor<2x2x4xf32>
  %9 = nano.mul %7, %8 : tensor<2x2x4xf32>
  %10 = nano.add %g, %9 : tensor<2x2x4xf32>
  %11 = nano.mul %10, %10 : tensor<2x2x4xf32>
  %12 = nano.reduce sum %11 dims [1, 2] : tensor<2x2x4xf32> -> tensor<2xf32>
  %13 = nano.sqrt %12 : tensor<2xf32>
  %14 = nano.constant 1.0e-7 : tensor<2xf32>
  %15 = nano.add %13, %14 : tensor<2xf32>
  %16 = nano.broadcast %15 dims [0] : tensor<2xf32> -> tensor<2x2x4xf32>
  %17 = nano.div %10, %16 : tensor<2x2x4xf32>
  %18 = nano.matmul %17, %17 {transpose_b} : (tensor<2x2x4xf32>, tensor<2x2x4xf32>) -> tensor<2x2x2xf32>
  %19 = nano.matmul %18, %18 : (tensor<2x2x2xf32>, tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
  %20 = nano.constant 2.0 : tensor<2x2x2xf32>
  %21 = nano.mul %19, %20 : tensor<2x2x2xf32>
  %22 = nano.constant -4.75 : tensor<2x2x2xf32>
  %23 = nano.mul %18, %22 : tensor<2x2x2xf32>
  %24 = nano.add %23, %21 : tensor<2x2x2xf32>
  %25 = nano.matmul %24, %17 : (tensor<2x2x2xf32>, tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
  %26 = nano.constant 3.5 : tensor<2x2x4xf32>
  %27 = nano.mul %17, %26 : tensor<2x2x4xf32>
  %28 = nano.add %27, %25 : tensor<2x2x4xf32>
  %29 = nano.load @lr : tensor<f32>
  %30 = nano.broadcast %29 dims [] : tensor<f32> -> tensor<2x2x4xf32>
  %31 = nano.mul %28, %30 : tensor<2x2x4xf32>
  %32 = nano.sub %p, %31 : tensor<2x2x4xf32>
  nano.yield %32, %6 : tensor<2x2x4xf32>, tensor<2x2x4xf32>
}
nano.optimizer @matrices.3 of "matrices" lr @lr {inits = array<f64: 0.0>, kind = "muon", states = ["muon_b"]} by {
^bb0(%p: tensor<3x4xf32>, %g: tensor<3x4xf32>, %b: tensor<3x4xf32>):
  %0 = nano.load @lr : tensor<f32>
  %1 = nano.constant 1.0 : tensor<f32>
  %2 = nano.sub %1, %0 : tensor<f32>
  %3 = nano.sub %g, %b : tensor<3x4xf32>
  %4 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<3x4xf32>
  %5 = nano.mul %3, %4 : tensor<3x4xf32>
  %6 = nano.add %b, %5 : tensor<3x4xf32>
  %7 = nano.sub %6, %g : tensor<3x4xf32>
  %8 = nano.broadcast %0 dims [] : tensor<f32> -> tensor<3x4xf32>
  %9 = nano.mul %7, %8 : tensor<3x4xf32>
  %10 = nano.add %g, %9 : tensor<3x4xf32>
  %11 = nano.mul %10, %10 : tensor<3x4xf32>
  %12 = nano.reduce sum %11 dims [0, 1] : tensor<3x4xf32> -> tensor<f32>
  %13 = nano.sqrt %12 : tensor<f32>
  %14 = nano.constant 1.0e-7 : tensor<f32>
  %15 = nano.add %13, %14 : tensor<f32>
  %16 = nano.broadcast %15 dims [] : tensor<f32> -> tensor<3x4xf32>
  %17 = nano.div %10, %16 : tensor<3x4xf32>
  %18 = nano.matmul %17, %17 {transpose_b} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x3xf32>
  %19 = nano.matmul %18, %18 : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %20 = nano.constant 2.0 : tensor<3x3xf32>
  %21 = nano.mul %19, %20 : tensor<3x3xf32>
  %22 = nano.constant -4.75 : tensor<3x3xf32>
  %23 = nano.mul %18, %22 : tensor<3x3xf32>
  %24 = nano.add %23, %21 : tensor<3x3xf32>
  %25 = nano.matmul %24, %17 : (tensor<3x3xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %26 = nano.constant 3.5 : tensor<3x4xf32>
  %27 = nano.mul %17, %26 : tensor<3x4xf32>
  %28 = nano.add %27, %25 : tensor<3x4xf32>
  %29 = nano.load @lr : tensor<f32>
  %30 = nano.broadcast %29 dims [] : tensor<f32> -> tensor<3x4xf32>
  %31 = nano.mul %28, %30 : tensor<3x4xf32>
  %32 = nano.sub %p, %31 : tensor<3x4xf32>
  nano.yield %32, %6 : tensor<3x4xf32>, tensor<3x4xf32>
}
nano.state @a : tensor<2x4xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @matrices}
nano.state @b : tensor<2x3xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @matrices.1}
nano.state @c : tensor<2x2x4xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @matrices.2}
nano.state @d : tensor<2x4xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @matrices}
nano.state @grad.a : tensor<2x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.b : tensor<2x3xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.c : tensor<2x2x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @e : tensor<3x4xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @matrices.3}
nano.state @grad.d : tensor<2x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.e : tensor<3x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// SMALL-LABEL: nano.program @update()
// SMALL: nano.store %{{.*}}, @a.muon_b : tensor<2x4xf32>
// SMALL: nano.store %{{.*}}, @c.muon_b : tensor<2x2x4xf32>
// SMALL: %[[C:.*]] = nano.div %{{.*}} : tensor<2x2x4xf32>
// SMALL: %[[A:.*]] = nano.reshape %{{.*}} : tensor<2x4xf32> -> tensor<1x2x4xf32>
// SMALL: %[[X:.*]] = nano.concat %[[A]], %[[C]] dim 0 : (tensor<1x2x4xf32>, tensor<2x2x4xf32>) -> tensor<3x2x4xf32>
// SMALL: nano.matmul %[[X]], %[[X]] {transpose_b} : (tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> tensor<3x2x2xf32>
// SMALL-NEXT: nano.matmul %[[B:.*]], %[[B]] {transpose_b} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
// SMALL-NEXT: nano.matmul %[[D:.*]], %[[D]] {transpose_b} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x2xf32>
// SMALL: %[[ALL:.*]] = nano.concat %{{.*}} dim 0 : (tensor<3x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<5x2x2xf32>
// SMALL-NEXT: nano.matmul %[[ALL]], %[[ALL]] add %[[ALL]]
// SMALL: %[[O:.*]] = nano.matmul %{{.*}}, %[[X]] add %[[X]]
// SMALL: nano.slice %[[O]] dim 0 at 0 : tensor<3x2x4xf32> -> tensor<1x2x4xf32>
// SMALL: nano.slice %[[O]] dim 0 at 1 : tensor<3x2x4xf32> -> tensor<2x2x4xf32>
// SMALL: nano.store %{{.*}}, @a : tensor<2x4xf32>
// SMALL: nano.store %{{.*}}, @c : tensor<2x2x4xf32>
// SMALL: nano.store %{{.*}}, @b : tensor<2x3xf32>
// SMALL: nano.store %{{.*}}, @d : tensor<2x4xf32>
// SMALL: nano.matmul %[[E:.*]], %[[E]] {transpose_b} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x3xf32>
// SMALL-NEXT: nano.matmul %{{.*}} -> tensor<3x3xf32>
// SMALL: nano.store %{{.*}}, @e : tensor<3x4xf32>
