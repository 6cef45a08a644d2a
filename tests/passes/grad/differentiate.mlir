// RUN: nano-opt %s -nano-differentiate -split-input-file | FileCheck %s
// RUN: nano-opt %s -nano-differentiate -split-input-file -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=LINE

// A parameter's gradient accumulates in a state of its own. Backward ops have the line of the op that they are the derivative of.
// CHECK-LABEL: nano.optimizer @adam
// CHECK:       nano.state @w : tensor<4xf32> {{.*}}role = #nano.role<parameter>
// CHECK-NEXT:  nano.state @grad.w : tensor<4xf32> {init = #nano.init<"constant", [0.000000e+00]>, role = #nano.role<gradient>}
// CHECK-LABEL: nano.program @train
// CHECK-NEXT:    %[[W:.*]] = nano.load @w
// CHECK-NEXT:    %[[X:.*]] = nano.cast %arg0
// CHECK-NEXT:    %[[Y:.*]] = nano.mul %[[X]], %[[W]]
// CHECK-NEXT:    %[[LOSS:.*]] = nano.reduce sum %[[Y]]
// CHECK-NEXT:    %[[ONE:.*]] = nano.constant 1.000000e+00 : tensor<f32>
// CHECK-NEXT:    %[[DY:.*]] = nano.broadcast %[[ONE]] dims []
// CHECK-NEXT:    %[[DW:.*]] = nano.mul %[[DY]], %[[X]]
// CHECK-NEXT:    nano.accumulate %[[DW]], @grad.w : tensor<4xf32>
// CHECK-NEXT:    nano.return %[[LOSS]] : tensor<f32>
// LINE-LABEL: nano.program @train
// LINE:         nano.mul {{.*}} loc("model.cpp":7:3)
// LINE:         nano.reduce {{.*}} loc("model.cpp":8:3)
// LINE:         nano.constant {{.*}} loc("model.cpp":8:3)
// LINE-NEXT:    nano.broadcast {{.*}} loc("model.cpp":8:3)
// LINE-NEXT:    nano.mul {{.*}} loc("model.cpp":7:3)
// LINE-NEXT:    nano.accumulate {{.*}} loc("model.cpp":6:3)
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @adam of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<4xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
nano.program @train(%tokens: tensor<4xi32>, %targets: tensor<4xi32>) -> tensor<f32> attributes {role = "train"} {
  %w = nano.load @w : tensor<4xf32> loc("model.cpp":6:3)
  %x = nano.cast %tokens : tensor<4xi32> -> tensor<4xf32>
  %y = nano.mul %x, %w : tensor<4xf32> loc("model.cpp":7:3)
  %loss = nano.reduce sum %y dims [0] : tensor<4xf32> -> tensor<f32> loc("model.cpp":8:3)
  nano.return %loss : tensor<f32>
}

// -----

// Weights stored in f32, multiplied in bf16: their gradients are products in f32, never rounded to bf16. Each is accumulated where it is
// complete, in backward order, the weights' before the activations' gradient. The embedding's table is bf16, its accumulator f32.
// CHECK-LABEL: nano.program @train
// CHECK:         %[[X:.*]] = nano.gather
// CHECK:         %[[W1:.*]] = nano.cast %{{.*}} : tensor<3x4x4xf32> -> tensor<3x4x4xbf16>
// CHECK:         %[[H:.*]] = nano.matmul %[[X]]
// CHECK:         %[[SUM:.*]] = nano.reduce sum %{{.*}} dims [0, 1]
// CHECK-NOT:     tensor<4x12xbf16>
// CHECK:         %[[DZ:.*]] = nano.broadcast %{{.*}} -> tensor<6x4xbf16>
// CHECK-NEXT:    %[[DW2:.*]] = nano.matmul %[[H]], %[[DZ]] {transpose_a} : (tensor<6x12xbf16>, tensor<6x4xbf16>) -> tensor<12x4xf32>
// CHECK-NEXT:    nano.accumulate %[[DW2]], @grad.w2 : tensor<12x4xf32>
// CHECK-NEXT:    %[[DH:.*]] = nano.matmul %[[DZ]], %{{.*}} {transpose_b} : (tensor<6x4xbf16>, tensor<12x4xbf16>) -> tensor<6x12xbf16>
// CHECK-NEXT:    %[[DW1:.*]] = nano.matmul %[[DH]], %[[X]] {transpose_a} : (tensor<6x12xbf16>, tensor<6x4xbf16>) -> tensor<12x4xf32>
// CHECK-NEXT:    %[[DX:.*]] = nano.matmul %[[DH]]
// CHECK-NEXT:    %[[R:.*]] = nano.reshape %[[DW1]] : tensor<12x4xf32> -> tensor<3x4x4xf32>
// CHECK-NEXT:    nano.accumulate %[[R]], @grad.w1 : tensor<3x4x4xf32>
// CHECK-NEXT:    %[[DE:.*]] = nano.scatter_add %[[DX]], %arg0 : (tensor<6x4xbf16>, tensor<6xi32>) -> tensor<5x4xf32>
// CHECK-NEXT:    nano.accumulate %[[DE]], @grad.embed : tensor<5x4xf32>
// CHECK-NEXT:    nano.return
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @adam of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @embed : tensor<5x4xbf16> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
nano.state @w1 : tensor<3x4x4xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
nano.state @w2 : tensor<12x4xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
nano.program @train(%tokens: tensor<6xi32>, %targets: tensor<6xi32>) -> tensor<f32> attributes {role = "train"} {
  %e = nano.load @embed : tensor<5x4xbf16>
  %x = nano.gather %e, %tokens : (tensor<5x4xbf16>, tensor<6xi32>) -> tensor<6x4xbf16>
  %w1 = nano.load @w1 : tensor<3x4x4xf32>
  %c1 = nano.cast %w1 : tensor<3x4x4xf32> -> tensor<3x4x4xbf16>
  %r1 = nano.reshape %c1 : tensor<3x4x4xbf16> -> tensor<12x4xbf16>
  %h = nano.matmul %x, %r1 {transpose_b} : (tensor<6x4xbf16>, tensor<12x4xbf16>) -> tensor<6x12xbf16>
  %w2 = nano.load @w2 : tensor<12x4xf32>
  %c2 = nano.cast %w2 : tensor<12x4xf32> -> tensor<12x4xbf16>
  %z = nano.matmul %h, %c2 : (tensor<6x12xbf16>, tensor<12x4xbf16>) -> tensor<6x4xbf16>
  %s = nano.reduce sum %z dims [0, 1] : tensor<6x4xbf16> -> tensor<bf16>
  %loss = nano.cast %s : tensor<bf16> -> tensor<f32>
  nano.return %loss : tensor<f32>
}

// -----

// One table loaded twice is one parameter. Parts of one value come together in one concat, with zeros in the gaps; contributions are added.
// CHECK-LABEL: nano.program @train
// CHECK:         nano.load @w
// CHECK-NOT:     nano.load @w
// CHECK:         %[[ONE:.*]] = nano.constant 1.000000e+00 : tensor<f32>
// CHECK-NEXT:    %[[ALL:.*]] = nano.broadcast %[[ONE]] dims [] : tensor<f32> -> tensor<6xf32>
// CHECK-NEXT:    %[[DA:.*]] = nano.broadcast %[[ONE]] dims [] : tensor<f32> -> tensor<2xf32>
// CHECK-NEXT:    %[[DB:.*]] = nano.neg %[[DA]]
// CHECK-NEXT:    %[[GAP:.*]] = nano.constant 0.000000e+00 : tensor<1xf32>
// CHECK-NEXT:    %[[END:.*]] = nano.constant 0.000000e+00 : tensor<1xf32>
// CHECK-NEXT:    %[[PARTS:.*]] = nano.concat %[[DA]], %[[GAP]], %[[DB]], %[[END]] dim 0
// CHECK-NEXT:    %[[SUM:.*]] = nano.add %[[ALL]], %[[PARTS]]
// CHECK-NEXT:    nano.accumulate %[[SUM]], @grad.w : tensor<6xf32>
// CHECK-NEXT:    nano.return
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @adam of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<6xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
nano.program @train(%tokens: tensor<6xi32>, %targets: tensor<6xi32>) -> tensor<f32> attributes {role = "train"} {
  %w = nano.load @w : tensor<6xf32>
  %again = nano.load @w : tensor<6xf32>
  %a = nano.slice %w dim 0 at 0 : tensor<6xf32> -> tensor<2xf32>
  %b = nano.slice %w dim 0 at 3 : tensor<6xf32> -> tensor<2xf32>
  %n = nano.neg %b : tensor<2xf32>
  %m = nano.add %a, %n : tensor<2xf32>
  %sm = nano.reduce sum %m dims [0] : tensor<2xf32> -> tensor<f32>
  %sw = nano.reduce sum %again dims [0] : tensor<6xf32> -> tensor<f32>
  %loss = nano.add %sm, %sw : tensor<f32>
  nano.return %loss : tensor<f32>
}

// -----

// The score function's derivative is a function of its own, made of its ops' derivatives: of 3·s it is 3·df. lse may be used as well: its
// gradient lowers delta.
// CHECK-LABEL: nano.program @train
// CHECK:         %[[Y:.*]], %[[LSE:.*]] = nano.attention
// CHECK:         %[[DY32:.*]] = nano.broadcast %{{.*}} -> tensor<6x2x4xf32>
// CHECK:         %[[DY:.*]] = nano.cast %[[DY32]]
// CHECK-DAG:     %[[A:.*]] = nano.cast %[[DY]]
// CHECK-DAG:     %[[B:.*]] = nano.cast %[[Y]]
// CHECK:         %[[P:.*]] = nano.mul %[[A]], %[[B]]
// CHECK:         %[[D:.*]] = nano.reduce sum %[[P]] dims [2] : tensor<6x2x4xf32> -> tensor<6x2xf32>
// CHECK:         %[[DELTA:.*]] = nano.sub %[[D]], %{{.*}}
// CHECK:         %[[DQ:.*]], %{{.*}}, %{{.*}} = nano.attention_grad %[[Q:.*]], %[[Q]], %[[Q]], %arg0, %arg1, %[[LSE]], %[[DELTA]], %[[DY]] scale 5.000000e-01
// CHECK:         score {
// CHECK-NEXT:    ^bb0(%[[S:.*]]: tensor<f32>, %{{.*}}: tensor<i32>, %{{.*}}: tensor<i32>, %{{.*}}: tensor<i32>):
// CHECK-NEXT:      %[[THREE:.*]] = nano.constant 3.000000e+00
// CHECK-NEXT:      %[[F:.*]] = nano.mul %[[S]], %[[THREE]]
// CHECK-NEXT:      nano.yield %[[F]]
// CHECK-NEXT:    } grad {
// CHECK-NEXT:    ^bb0(%{{.*}}: tensor<f32>, %{{.*}}: tensor<i32>, %{{.*}}: tensor<i32>, %{{.*}}: tensor<i32>, %[[DF:.*]]: tensor<f32>):
// CHECK-NEXT:      %[[THREE:.*]] = nano.constant 3.000000e+00
// CHECK-NEXT:      %[[DS:.*]] = nano.mul %[[DF]], %[[THREE]]
// CHECK-NEXT:      nano.yield %[[DS]]
// CHECK-NEXT:    }
// CHECK:         nano.accumulate %{{.*}}, @grad.x : tensor<6x2x4xf32>
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @adam of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @x : tensor<6x2x4xbf16> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
nano.program @train(%first: tensor<6xi32>, %last: tensor<6xi32>) -> tensor<f32> attributes {role = "train"} {
  %x = nano.load @x : tensor<6x2x4xbf16>
  %y, %lse = nano.attention %x, %x, %x, %first, %last scale 0.5
      : (tensor<6x2x4xbf16>, tensor<6x2x4xbf16>, tensor<6x2x4xbf16>, tensor<6xi32>, tensor<6xi32>) -> (tensor<6x2x4xbf16>, tensor<6x2xf32>) {
  ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
    %three = nano.constant 3.0 : tensor<f32>
    %f = nano.mul %s, %three : tensor<f32>
    nano.yield %f : tensor<f32>
  }
  %y32 = nano.cast %y : tensor<6x2x4xbf16> -> tensor<6x2x4xf32>
  %sy = nano.reduce sum %y32 dims [0, 1, 2] : tensor<6x2x4xf32> -> tensor<f32>
  %sl = nano.reduce sum %lse dims [0, 1] : tensor<6x2xf32> -> tensor<f32>
  %loss = nano.add %sy, %sl : tensor<f32>
  nano.return %loss : tensor<f32>
}

// -----

// The shortest model.
// CHECK-LABEL: nano.program @train
// CHECK-NEXT:    %[[W:.*]] = nano.load @w
// CHECK-NEXT:    %[[ONE:.*]] = nano.constant 1.000000e+00 : tensor<f32>
// CHECK-NEXT:    nano.accumulate %[[ONE]], @grad.w
// CHECK-NEXT:    nano.return %[[W]]
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @adam of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<f32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
nano.program @train(%tokens: tensor<4xi32>, %targets: tensor<4xi32>) -> tensor<f32> attributes {role = "train"} {
  %w = nano.load @w : tensor<f32>
  nano.return %w : tensor<f32>
}

// -----

// Integers beside the loss have no gradient and are returned as they were.
// CHECK-LABEL: nano.program @train
// CHECK-SAME:    -> (tensor<f32>, tensor<1xi32>)
// CHECK:         nano.accumulate %{{.*}}, @grad.w : tensor<4xf32>
// CHECK-NEXT:    nano.return %{{.*}}, %{{.*}} : tensor<f32>, tensor<1xi32>
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @adam of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<4xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
nano.program @train(%tokens: tensor<4xi32>, %targets: tensor<4xi32>) -> (tensor<f32>, tensor<1xi32>) attributes {role = "train"} {
  %w = nano.load @w : tensor<4xf32>
  %loss = nano.reduce sum %w dims [0] : tensor<4xf32> -> tensor<f32>
  %first = nano.slice %tokens dim 0 at 0 : tensor<4xi32> -> tensor<1xi32>
  nano.return %loss, %first : tensor<f32>, tensor<1xi32>
}

// -----

// Frozen parameters: no gradient, no product that would make one. Behind stop_gradient there is none either, and the op is gone; that of the
// other operand stays.
// CHECK-LABEL: nano.state @frozen
// CHECK-NOT:   nano.state @grad.frozen
// CHECK-LABEL: nano.program @train
// CHECK:         %[[X:.*]] = nano.gather
// CHECK:         %[[H:.*]] = nano.matmul %[[X]], %{{.*}} {transpose_b} : (tensor<6x4xf32>, tensor<5x4xf32>)
// CHECK-NOT:     stop_gradient
// CHECK:         %[[S:.*]] = nano.mul %[[H]], %[[H]]
// CHECK:         nano.reduce sum
// CHECK:         %[[DS:.*]] = nano.broadcast
// CHECK-NEXT:    %[[DH:.*]] = nano.mul %[[DS]], %[[H]]
// CHECK-NEXT:    %[[DX:.*]] = nano.matmul %[[DH]], %{{.*}} : (tensor<6x5xf32>, tensor<5x4xf32>) -> tensor<6x4xf32>
// CHECK-NEXT:    %[[DE:.*]] = nano.scatter_add %[[DX]]
// CHECK-NEXT:    nano.accumulate %[[DE]], @grad.embed
// CHECK-NEXT:    nano.return
// CHECK-LABEL: nano.program @validate
// CHECK-NOT:     stop_gradient
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @adam of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @embed : tensor<7x4xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [1.0]>, optimizer = @adam}
nano.state @frozen : tensor<5x4xf32> {role = #nano.role<parameter>, init = #nano.init<"sign", [1.0]>}
nano.program @train(%tokens: tensor<6xi32>, %targets: tensor<6xi32>) -> tensor<f32> attributes {role = "train"} {
  %e = nano.load @embed : tensor<7x4xf32>
  %x = nano.gather %e, %tokens : (tensor<7x4xf32>, tensor<6xi32>) -> tensor<6x4xf32>
  %w = nano.load @frozen : tensor<5x4xf32>
  %h = nano.matmul %x, %w {transpose_b} : (tensor<6x4xf32>, tensor<5x4xf32>) -> tensor<6x5xf32>
  %c = nano.stop_gradient %h : tensor<6x5xf32>
  %s = nano.mul %h, %c : tensor<6x5xf32>
  %loss = nano.reduce sum %s dims [0, 1] : tensor<6x5xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}
nano.program @validate(%tokens: tensor<6xi32>, %targets: tensor<6xi32>) -> tensor<f32> attributes {role = "validate"} {
  %w = nano.load @frozen : tensor<5x4xf32>
  %c = nano.stop_gradient %w : tensor<5x4xf32>
  %loss = nano.reduce sum %c dims [0, 1] : tensor<5x4xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}
