// RUN: split-file %s %t
// RUN: nano-opt %t/kept.mlir -nano-differentiate -canonicalize -cse -nano-recompute | FileCheck %t/kept.mlir
// RUN: nano-opt %t/kept.mlir -nano-differentiate -canonicalize -cse -nano-recompute=max-ops=0 | FileCheck %t/kept.mlir --check-prefix=OFF
// RUN: nano-opt %t/bias.mlir -nano-differentiate -canonicalize -cse -nano-recompute | FileCheck %t/bias.mlir
// RUN: nano-opt %t/rows.mlir -nano-differentiate -canonicalize -cse -nano-scale-results=all -nano-recompute | FileCheck %t/rows.mlir
// RUN: nano-opt %t/read.mlir -nano-differentiate -canonicalize -cse -nano-recompute | FileCheck %t/read.mlir
// RUN: nano-opt %t/narrow.mlir -nano-differentiate -canonicalize -cse -nano-recompute | FileCheck %t/narrow.mlir
// RUN: nano-opt %t/fp8.mlir -nano-differentiate -canonicalize -cse -nano-recompute | FileCheck %t/fp8.mlir
// RUN: not nano-opt %t/policy.mlir -nano-differentiate -canonicalize -cse -nano-recompute 2>&1 | FileCheck %t/policy.mlir

// Products with relu² between them. What decides is how the backward pass reads the input h of a relu², and the square.

//--- kept.mlir
// The square alone is kept, and its root is the other factor of the gradient. With `max-ops` below the one op of a root nothing is done.
// CHECK-LABEL: nano.program @train
// CHECK:         %[[H:.*]] = nano.matmul %arg0
// CHECK-NEXT:    %[[R:.*]] = nano.max %[[H]]
// CHECK-NEXT:    %[[Y:.*]] = nano.mul %[[R]], %[[R]]
// CHECK-NOT:     nano.sqrt
// CHECK:         nano.reduce sum
// CHECK-NOT:     nano.max
// CHECK:         nano.matmul %{{.*}}, %[[Y]] {transpose_a}
// CHECK:         %[[S:.*]] = nano.sqrt %[[Y]]
// CHECK-NEXT:    nano.mul %{{.*}}, %[[S]]
// CHECK:         nano.select gt, %[[Y]]
// CHECK-NOT:     %[[H]]{{[^0-9]}}
// OFF-NOT:       nano.sqrt
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<64x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x64xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w3 : tensor<16x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%x: tensor<128x16xbf16>) -> tensor<f32> attributes {role = "train"} {
  %w1 = nano.load @w1 : tensor<64x16xbf16>
  %h = nano.matmul %x, %w1 {transpose_b} : (tensor<128x16xbf16>, tensor<64x16xbf16>) -> tensor<128x64xbf16>
  %zero = nano.constant 0.0 : tensor<128x64xbf16>
  %r = nano.max %h, %zero : tensor<128x64xbf16>
  %y = nano.mul %r, %r : tensor<128x64xbf16>
  %w2 = nano.load @w2 : tensor<16x64xbf16>
  %p = nano.matmul %y, %w2 {transpose_b} : (tensor<128x64xbf16>, tensor<16x64xbf16>) -> tensor<128x16xbf16>
  %w3 = nano.load @w3 : tensor<16x16xbf16>
  %z = nano.matmul %p, %w3 {transpose_b} : (tensor<128x16xbf16>, tensor<16x16xbf16>) -> tensor<128x16xbf16>
  %f = nano.cast %z : tensor<128x16xbf16> -> tensor<128x16xf32>
  %loss = nano.reduce sum %f dims [0, 1] : tensor<128x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}

//--- bias.mlir
// Behind a bias and in another shape: the product's result is kept no longer.
// CHECK-LABEL: nano.program @train
// CHECK:         %[[M:.*]] = nano.matmul %arg0
// CHECK:         %[[R:.*]] = nano.max
// CHECK-NEXT:    %[[Y:.*]] = nano.mul %[[R]], %[[R]]
// CHECK:         nano.reduce sum
// CHECK-NOT:     %[[M]]{{[^0-9]}}
// CHECK-NOT:     nano.max
// CHECK:         %[[S:.*]] = nano.sqrt %[[Y]]
// CHECK-NEXT:    nano.mul %{{.*}}, %[[S]]
// CHECK-NOT:     %[[M]]{{[^0-9]}}
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<64x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x64xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w3 : tensor<16x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @b1 : tensor<64xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%x: tensor<128x16xbf16>) -> tensor<f32> attributes {role = "train"} {
  %w1 = nano.load @w1 : tensor<64x16xbf16>
  %m = nano.matmul %x, %w1 {transpose_b} : (tensor<128x16xbf16>, tensor<64x16xbf16>) -> tensor<128x64xbf16>
  %b1 = nano.load @b1 : tensor<64xbf16>
  %bs = nano.broadcast %b1 dims [1] : tensor<64xbf16> -> tensor<128x64xbf16>
  %mb = nano.add %m, %bs : tensor<128x64xbf16>
  %h = nano.reshape %mb : tensor<128x64xbf16> -> tensor<2x64x64xbf16>
  %zero = nano.constant 0.0 : tensor<2x64x64xbf16>
  %r = nano.max %h, %zero : tensor<2x64x64xbf16>
  %y3 = nano.mul %r, %r : tensor<2x64x64xbf16>
  %y = nano.reshape %y3 : tensor<2x64x64xbf16> -> tensor<128x64xbf16>
  %w2 = nano.load @w2 : tensor<16x64xbf16>
  %p = nano.matmul %y, %w2 {transpose_b} : (tensor<128x64xbf16>, tensor<16x64xbf16>) -> tensor<128x16xbf16>
  %w3 = nano.load @w3 : tensor<16x16xbf16>
  %z = nano.matmul %p, %w3 {transpose_b} : (tensor<128x16xbf16>, tensor<16x16xbf16>) -> tensor<128x16xbf16>
  %f = nano.cast %z : tensor<128x16xbf16> -> tensor<128x16xf32>
  %loss = nano.reduce sum %f dims [0, 1] : tensor<128x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}

//--- rows.mlir
// Behind a norm's factors: what they are multiplied with is kept no longer, but they are, since what reads them first in the backward pass does not
// read the rows that they come of.
// CHECK-LABEL: nano.program @train
// CHECK:         %[[F:.*]] = nano.rsqrt
// CHECK:         %[[H:.*]] = nano.matmul %[[X:.*]], %{{.*}} {transpose_b} : (tensor<128x256xbf16>, tensor<64x256xbf16>)
// CHECK:         nano.broadcast %[[F]] dims [0]
// CHECK:         %[[R:.*]] = nano.max
// CHECK-NEXT:    %[[Y:.*]] = nano.mul %[[R]], %[[R]]
// CHECK:         nano.reduce sum %{{.*}} dims [0, 1]
// CHECK-NOT:     %[[H]]{{[^0-9]}}
// CHECK:         %[[S:.*]] = nano.sqrt %[[Y]]
// CHECK:         %[[D:.*]] = nano.select gt, %[[Y]]
// CHECK-NOT:     nano.rsqrt
// CHECK:         nano.broadcast %[[F]] dims [0]
// CHECK:         nano.matmul %[[SCALED:.*]], %[[X]] {transpose_a}
// CHECK:         nano.matmul %[[SCALED]], %{{.*}} :
// CHECK-NOT:     %[[H]]{{[^0-9]}}
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w0 : tensor<256x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w1 : tensor<64x256xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x64xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w3 : tensor<16x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%in: tensor<128x16xbf16>) -> tensor<f32> attributes {role = "train"} {
  %w0 = nano.load @w0 : tensor<256x16xbf16>
  %x = nano.matmul %in, %w0 {transpose_b} : (tensor<128x16xbf16>, tensor<256x16xbf16>) -> tensor<128x256xbf16>
  %x32 = nano.cast %x : tensor<128x256xbf16> -> tensor<128x256xf32>
  %sq = nano.mul %x32, %x32 : tensor<128x256xf32>
  %sum = nano.reduce sum %sq dims [1] : tensor<128x256xf32> -> tensor<128xf32>
  %c = nano.constant 0.00390625 : tensor<128xf32>
  %mean = nano.mul %sum, %c : tensor<128xf32>
  %factor = nano.rsqrt %mean : tensor<128xf32>
  %rows = nano.broadcast %factor dims [0] : tensor<128xf32> -> tensor<128x256xf32>
  %n32 = nano.mul %x32, %rows : tensor<128x256xf32>
  %n = nano.cast %n32 : tensor<128x256xf32> -> tensor<128x256xbf16>
  %w1 = nano.load @w1 : tensor<64x256xbf16>
  %h = nano.matmul %n, %w1 {transpose_b} : (tensor<128x256xbf16>, tensor<64x256xbf16>) -> tensor<128x64xbf16>
  %zero = nano.constant 0.0 : tensor<128x64xbf16>
  %r = nano.max %h, %zero : tensor<128x64xbf16>
  %y = nano.mul %r, %r : tensor<128x64xbf16>
  %w2 = nano.load @w2 : tensor<16x64xbf16>
  %p = nano.matmul %y, %w2 {transpose_b} : (tensor<128x64xbf16>, tensor<16x64xbf16>) -> tensor<128x16xbf16>
  %w3 = nano.load @w3 : tensor<16x16xbf16>
  %z = nano.matmul %p, %w3 {transpose_b} : (tensor<128x16xbf16>, tensor<16x16xbf16>) -> tensor<128x16xbf16>
  %f = nano.cast %z : tensor<128x16xbf16> -> tensor<128x16xf32>
  %loss = nano.reduce sum %f dims [0, 1] : tensor<128x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}

//--- read.mlir
// Another product reads h, which is kept for that: nothing is gained.
// CHECK-LABEL: nano.program @train
// CHECK-NOT:     nano.sqrt
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<64x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x64xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w3 : tensor<16x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w4 : tensor<16x64xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%x: tensor<128x16xbf16>) -> tensor<f32> attributes {role = "train"} {
  %w1 = nano.load @w1 : tensor<64x16xbf16>
  %h = nano.matmul %x, %w1 {transpose_b} : (tensor<128x16xbf16>, tensor<64x16xbf16>) -> tensor<128x64xbf16>
  %zero = nano.constant 0.0 : tensor<128x64xbf16>
  %r = nano.max %h, %zero : tensor<128x64xbf16>
  %y = nano.mul %r, %r : tensor<128x64xbf16>
  %w2 = nano.load @w2 : tensor<16x64xbf16>
  %p1 = nano.matmul %y, %w2 {transpose_b} : (tensor<128x64xbf16>, tensor<16x64xbf16>) -> tensor<128x16xbf16>
  %w4 = nano.load @w4 : tensor<16x64xbf16>
  %p2 = nano.matmul %h, %w4 {transpose_b} : (tensor<128x64xbf16>, tensor<16x64xbf16>) -> tensor<128x16xbf16>
  %p = nano.add %p1, %p2 : tensor<128x16xbf16>
  %w3 = nano.load @w3 : tensor<16x16xbf16>
  %z = nano.matmul %p, %w3 {transpose_b} : (tensor<128x16xbf16>, tensor<16x16xbf16>) -> tensor<128x16xbf16>
  %f = nano.cast %z : tensor<128x16xbf16> -> tensor<128x16xf32>
  %loss = nano.reduce sum %f dims [0, 1] : tensor<128x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}

//--- narrow.mlir
// h is in memory with half of the square's bytes.
// CHECK-LABEL: nano.program @train
// CHECK-NOT:     nano.sqrt
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<64x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x64xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w3 : tensor<16x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%x: tensor<128x16xbf16>) -> tensor<f32> attributes {role = "train"} {
  %w1 = nano.load @w1 : tensor<64x16xbf16>
  %m = nano.matmul %x, %w1 {transpose_b} : (tensor<128x16xbf16>, tensor<64x16xbf16>) -> tensor<128x64xbf16>
  %h = nano.cast %m : tensor<128x64xbf16> -> tensor<128x64xf32>
  %zero = nano.constant 0.0 : tensor<128x64xf32>
  %r = nano.max %h, %zero : tensor<128x64xf32>
  %y = nano.mul %r, %r : tensor<128x64xf32>
  %w2 = nano.load @w2 : tensor<16x64xbf16>
  %w2f = nano.cast %w2 : tensor<16x64xbf16> -> tensor<16x64xf32>
  %p = nano.matmul %y, %w2f {transpose_b} : (tensor<128x64xf32>, tensor<16x64xf32>) -> tensor<128x16xbf16>
  %w3 = nano.load @w3 : tensor<16x16xbf16>
  %z = nano.matmul %p, %w3 {transpose_b} : (tensor<128x16xbf16>, tensor<16x16xbf16>) -> tensor<128x16xbf16>
  %f = nano.cast %z : tensor<128x16xbf16> -> tensor<128x16xf32>
  %loss = nano.reduce sum %f dims [0, 1] : tensor<128x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}

//--- fp8.mlir
// The product behind relu² reads 8-bit numbers: the square itself is not in memory.
// CHECK-LABEL: nano.program @train
// CHECK-NOT:     nano.sqrt
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<64x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x64xbf16> {fp8 = {recipe = "current", margin = 0.0}, role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w3 : tensor<16x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%x: tensor<128x16xbf16>) -> tensor<f32> attributes {role = "train"} {
  %w1 = nano.load @w1 : tensor<64x16xbf16>
  %h = nano.matmul %x, %w1 {transpose_b} : (tensor<128x16xbf16>, tensor<64x16xbf16>) -> tensor<128x64xbf16>
  %zero = nano.constant 0.0 : tensor<128x64xbf16>
  %r = nano.max %h, %zero : tensor<128x64xbf16>
  %y = nano.mul %r, %r : tensor<128x64xbf16>
  %w2 = nano.load @w2 : tensor<16x64xbf16>
  %p = nano.matmul %y, %w2 {transpose_b} : (tensor<128x64xbf16>, tensor<16x64xbf16>) -> tensor<128x16xbf16>
  %w3 = nano.load @w3 : tensor<16x16xbf16>
  %z = nano.matmul %p, %w3 {transpose_b} : (tensor<128x16xbf16>, tensor<16x16xbf16>) -> tensor<128x16xbf16>
  %f = nano.cast %z : tensor<128x16xbf16> -> tensor<128x16xf32>
  %loss = nano.reduce sum %f dims [0, 1] : tensor<128x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}

//--- policy.mlir
// CHECK: error: 'nano.state' op fp8 must name a recipe: one of off, static, current, delayed, block
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<64x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x64xbf16> {fp8 = {recipe = "best"}, role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w3 : tensor<16x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%x: tensor<128x16xbf16>) -> tensor<f32> attributes {role = "train"} {
  %w1 = nano.load @w1 : tensor<64x16xbf16>
  %h = nano.matmul %x, %w1 {transpose_b} : (tensor<128x16xbf16>, tensor<64x16xbf16>) -> tensor<128x64xbf16>
  %zero = nano.constant 0.0 : tensor<128x64xbf16>
  %r = nano.max %h, %zero : tensor<128x64xbf16>
  %y = nano.mul %r, %r : tensor<128x64xbf16>
  %w2 = nano.load @w2 : tensor<16x64xbf16>
  %p = nano.matmul %y, %w2 {transpose_b} : (tensor<128x64xbf16>, tensor<16x64xbf16>) -> tensor<128x16xbf16>
  %w3 = nano.load @w3 : tensor<16x16xbf16>
  %z = nano.matmul %p, %w3 {transpose_b} : (tensor<128x16xbf16>, tensor<16x16xbf16>) -> tensor<128x16xbf16>
  %f = nano.cast %z : tensor<128x16xbf16> -> tensor<128x16xf32>
  %loss = nano.reduce sum %f dims [0, 1] : tensor<128x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}
