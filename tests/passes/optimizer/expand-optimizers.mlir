// RUN: nano-opt %s -split-input-file --nano-expand-optimizers | FileCheck %s
// RUN: nano-opt %s -split-input-file --nano-expand-optimizers --mlir-print-debuginfo | FileCheck %s --check-prefix=LINES
// RUN: nano-opt %s -split-input-file --nano-expand-optimizers=max-batch-elements=24 | FileCheck %s --check-prefix=SMALL

// Adam: bf16 states beside a bf16 parameter, arithmetic in f32, one pair of bias corrections a group.
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.adam @embeds lr @lr {beta1 = 0.8, beta2 = 0.95, eps = 1.0e-10, weight_decay = 0.0}
nano.state @w : tensor<4x2xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @embeds} loc("model.cpp":7:0)
nano.state @u : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @embeds} loc("model.cpp":8:0)
nano.state @grad.w : tensor<4x2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.u : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// CHECK: nano.scalar @grad_scale : f32 {
// CHECK-NEXT: ^bb0(%{{.*}}: f64, %{{.*}}: f64, %[[SEQUENCES:.*]]: f64, %{{.*}}: f64):
// CHECK-NEXT: %[[ONE:.*]] = arith.constant 1.000000e+00 : f64
// CHECK-NEXT: %[[SCALE:.*]] = arith.divf %[[ONE]], %[[SEQUENCES]] : f64
// CHECK-NEXT: nano.yield %[[SCALE]] : f64
// CHECK-DAG: nano.state @w.adam_m : tensor<4x2xbf16> {init = #nano.init<"constant", [0.000000e+00]>, role = #nano.role<optimizer>}
// CHECK-DAG: nano.state @w.adam_v : tensor<4x2xbf16> {init = #nano.init<"constant", [0.000000e+00]>, role = #nano.role<optimizer>}
// CHECK: nano.scalar @embeds.bias1 : f32 {
// CHECK-NEXT: ^bb0(%[[STEP:.*]]: f64, %{{.*}}: f64, %{{.*}}: f64, %{{.*}}: f64):
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1.000000e+00 : f64
// CHECK-DAG: %[[BETA:.*]] = arith.constant 8.000000e-01 : f64
// CHECK: %[[T:.*]] = arith.addf %[[STEP]], %[[ONE]] : f64
// CHECK: %[[POWER:.*]] = math.powf %[[BETA]], %[[T]] : f64
// CHECK: %[[REST:.*]] = arith.subf %[[ONE]], %[[POWER]] : f64
// CHECK: %[[BIAS:.*]] = arith.divf %[[ONE]], %[[REST]] : f64
// CHECK: nano.yield %[[BIAS]] : f64
// CHECK: nano.scalar @embeds.bias2 : f32 {
// CHECK: math.sqrt
// CHECK-DAG: nano.state @u.adam_m : tensor<2xf32>
// CHECK-DAG: nano.state @u.adam_v : tensor<2xf32>
// CHECK-NOT: nano.scalar

// CHECK-LABEL: func.func @update() attributes {nano.role = "update"} {
// CHECK: %[[SCALE:.*]] = nano.load @grad_scale : tensor<f32>
// CHECK: %[[SUM:.*]] = nano.load @grad.w : tensor<4x2xf32>
// CHECK: %[[WIDE:.*]] = nano.broadcast %[[SCALE]] dims [] : tensor<f32> -> tensor<4x2xf32>
// CHECK: %[[G:.*]] = nano.mul %[[SUM]], %[[WIDE]] : tensor<4x2xf32>
// CHECK: %[[P:.*]] = nano.load @w : tensor<4x2xbf16>
// CHECK: %[[P32:.*]] = nano.cast %[[P]] : tensor<4x2xbf16> -> tensor<4x2xf32>
// CHECK: %[[M:.*]] = nano.load @w.adam_m : tensor<4x2xbf16>
// CHECK: %[[M32:.*]] = nano.cast %[[M]]
// CHECK: %[[V:.*]] = nano.load @w.adam_v : tensor<4x2xbf16>
// CHECK: %[[V32:.*]] = nano.cast %[[V]]
// CHECK: nano.mul %[[M32]]
// CHECK: %[[GG:.*]] = nano.mul %[[G]], %[[G]]
// CHECK: nano.sqrt
// CHECK: nano.div
// CHECK: %[[NEXT:.*]] = nano.sub %[[P32]]
// CHECK: nano.store %{{.*}}, @w.adam_m : tensor<4x2xbf16>
// CHECK: nano.store %{{.*}}, @w.adam_v : tensor<4x2xbf16>
// CHECK: %[[ROUNDED:.*]] = nano.cast %[[NEXT]] : tensor<4x2xf32> -> tensor<4x2xbf16>
// CHECK: nano.store %[[ROUNDED]], @w : tensor<4x2xbf16>
// CHECK: nano.store %{{.*}}, @u.adam_m : tensor<2xf32>
// CHECK: nano.store %{{.*}}, @u.adam_v : tensor<2xf32>
// CHECK: nano.store %{{.*}}, @u : tensor<2xf32>
// CHECK-NEXT: return

// What updates a parameter has the parameter's line.
// LINES: func.func @update
// LINES: nano.load @grad.w : tensor<4x2xf32> loc(#[[W:.*]])
// LINES: nano.store %{{.*}}, @w : tensor<4x2xbf16> loc(#[[W]])
// LINES: nano.load @grad.u : tensor<2xf32> loc(#[[U:.*]])
// LINES: nano.store %{{.*}}, @u : tensor<2xf32> loc(#[[U]])
// LINES-DAG: #[[W]] = loc("model.cpp":7:0)
// LINES-DAG: #[[U]] = loc("model.cpp":8:0)

// -----

// Weight decay, and clipping over all gradients together.
module attributes {nano.training = {grad_clip = 2.0 : f64}} {
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.adam @decayed lr @lr {beta1 = 0.9, beta2 = 0.95, eps = 1.0e-8, weight_decay = 0.125}
  nano.adam @plain lr @lr {beta1 = 0.9, beta2 = 0.95, eps = 1.0e-8, weight_decay = 0.0}
  nano.state @w : tensor<4x2xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @decayed}
  nano.state @b : tensor<f32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @plain}
  nano.state @grad.w : tensor<4x2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.b : tensor<f32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
}

// CHECK-LABEL: func.func @update()
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

// Muon: a wide matrix and a stack of tall ones. Tall matrices are not transposed: A = XᵀX, X ← aX + X·B. All have smaller sides of 2: their polynomials
// are one product.
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.scalar @mu : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.muon @matrices lr @lr momentum @mu {steps = 2, coefficients = array<f64: 3.5, -4.75, 2.0>, compute_type = bf16}
nano.state @wide : tensor<2x4xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @matrices}
nano.state @tall : tensor<3x8x2xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @matrices}
nano.state @grad.wide : tensor<2x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.tall : tensor<3x8x2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// CHECK-DAG: nano.state @wide.muon_b : tensor<2x4xf32> {init = #nano.init<"constant", [0.000000e+00]>, role = #nano.role<optimizer>}
// CHECK-DAG: nano.state @tall.muon_b : tensor<3x8x2xf32>
// CHECK-LABEL: func.func @update()
// CHECK: nano.load @mu : tensor<f32>
// CHECK: nano.load @grad.wide
// CHECK: nano.load @wide.muon_b : tensor<2x4xf32>
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

// Matrices of one size are orthogonalised together, up to 24 numbers: @a and @c are a batch, @d would make it too large. @b has another size. The
// polynomials of the three batches are one product, as they have less than four times so many numbers; those of @e, whose smaller side is 3, are not in it.
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.muon @matrices lr @lr momentum @lr {steps = 1, coefficients = array<f64: 3.5, -4.75, 2.0>, compute_type = f32}
nano.state @a : tensor<2x4xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @matrices}
nano.state @b : tensor<2x3xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @matrices}
nano.state @c : tensor<2x2x4xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @matrices}
nano.state @d : tensor<2x4xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @matrices}
nano.state @grad.a : tensor<2x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.b : tensor<2x3xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.c : tensor<2x2x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @e : tensor<3x4xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @matrices}
nano.state @grad.d : tensor<2x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.e : tensor<3x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// SMALL-LABEL: func.func @update()
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
// SMALL: nano.store %{{.*}}, @a : tensor<2x4xf32>
// SMALL: nano.slice %[[O]] dim 0 at 1 : tensor<3x2x4xf32> -> tensor<2x2x4xf32>
// SMALL: nano.store %{{.*}}, @c : tensor<2x2x4xf32>
// SMALL: nano.store %{{.*}}, @b : tensor<2x3xf32>
// SMALL: nano.store %{{.*}}, @d : tensor<2x4xf32>
// SMALL: nano.matmul %[[E:.*]], %[[E]] {transpose_b} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x3xf32>
// SMALL-NEXT: nano.matmul %{{.*}} -> tensor<3x3xf32>
// SMALL: nano.store %{{.*}}, @e : tensor<3x4xf32>
