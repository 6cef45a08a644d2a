// RUN: nano-opt %s -nano-scale-weights -split-input-file | FileCheck %s
// RUN: nano-opt %s -nano-scale-weights=report -split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=SAYS

// A number of a model multiplies a part of a product's columns, as values of attention behind
// queries and keys: it multiplies these rows of the weight, in f32, before they are rounded.
// CHECK-LABEL: nano.program @part
// CHECK:         %[[ALL:.*]] = nano.load @lambdas : tensor<2xf32>
// CHECK:         %[[ONE:.*]] = nano.slice %[[ALL]] dim 0 at 1 : tensor<2xf32> -> tensor<1xf32>
// CHECK:         %[[NUMBER:.*]] = nano.reshape %[[ONE]] : tensor<1xf32> -> tensor<f32>
// CHECK:         %[[ROW:.*]] = nano.iota 0 : tensor<96xi32>
// CHECK:         %[[OF_ROWS:.*]] = nano.broadcast %[[NUMBER]] dims [] : tensor<f32> -> tensor<96xf32>
// CHECK:         %[[BELOW:.*]] = nano.select lt, %[[ROW]], %{{.*}}, %{{.*}}, %[[OF_ROWS]]
// CHECK:         %[[FACTORS:.*]] = nano.broadcast %[[BELOW]] dims [0] : tensor<96xf32> -> tensor<96x16xf32>
// CHECK:         %[[SCALED:.*]] = nano.mul %{{.*}}, %[[FACTORS]] : tensor<96x16xf32>
// CHECK:         %[[ROUNDED:.*]] = nano.cast %[[SCALED]] : tensor<96x16xf32> -> tensor<96x16xbf16>
// CHECK:         nano.matmul %{{.*}}, %[[ROUNDED]] {transpose_b}
// CHECK-NOT:     nano.mul
// CHECK:         nano.return
// SAYS: remark: multiplies 32 of 96 rows of the product's weight instead, once for 512 rows of its result
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @all of "sgd" lr @lr {inits = array<f64>, kind = "sgd", states = []}
nano.state @w : tensor<3x32x16xf32> {init = #nano.init<"constant", [1.0]>, optimizer = @all, role = #nano.role<parameter>}
nano.state @lambdas : tensor<2xf32> {init = #nano.init<"constant", [1.0]>, optimizer = @all, role = #nano.role<parameter>}
nano.program @part(%x: tensor<512x16xbf16>) -> (tensor<512x2x16xbf16>, tensor<512x4x16xbf16>) {
  %0 = nano.load @w : tensor<3x32x16xf32>
  %1 = nano.reshape %0 : tensor<3x32x16xf32> -> tensor<96x16xf32>
  %2 = nano.cast %1 : tensor<96x16xf32> -> tensor<96x16xbf16>
  %3 = nano.matmul %x, %2 {transpose_b} : (tensor<512x16xbf16>, tensor<96x16xbf16>) -> tensor<512x96xbf16>
  %4 = nano.reshape %3 : tensor<512x96xbf16> -> tensor<512x6x16xbf16>
  %5 = nano.slice %4 dim 1 at 0 : tensor<512x6x16xbf16> -> tensor<512x4x16xbf16>
  %6 = nano.slice %4 dim 1 at 4 : tensor<512x6x16xbf16> -> tensor<512x2x16xbf16>
  %7 = nano.load @lambdas : tensor<2xf32>
  %8 = nano.slice %7 dim 0 at 1 : tensor<2xf32> -> tensor<1xf32>
  %9 = nano.reshape %8 : tensor<1xf32> -> tensor<f32>
  %10 = nano.broadcast %9 dims [] : tensor<f32> -> tensor<512x2x16xf32>
  %11 = nano.cast %6 : tensor<512x2x16xbf16> -> tensor<512x2x16xf32>
  %12 = nano.mul %10, %11 : tensor<512x2x16xf32>
  %13 = nano.cast %12 : tensor<512x2x16xf32> -> tensor<512x2x16xbf16>
  nano.return %13, %5 : tensor<512x2x16xbf16>, tensor<512x4x16xbf16>
}

// -----

// All columns, in f32.
// CHECK-LABEL: nano.program @whole
// CHECK:         %[[NUMBER:.*]] = nano.load @s : tensor<f32>
// CHECK:         %[[FACTORS:.*]] = nano.broadcast %[[NUMBER]] dims [] : tensor<f32> -> tensor<32x16xf32>
// CHECK:         %[[SCALED:.*]] = nano.mul %{{.*}}, %[[FACTORS]] : tensor<32x16xf32>
// CHECK:         %[[Y:.*]] = nano.matmul %{{.*}}, %[[SCALED]] {transpose_b}
// CHECK:         nano.return %[[Y]]
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @all of "sgd" lr @lr {inits = array<f64>, kind = "sgd", states = []}
nano.state @w : tensor<32x16xf32> {init = #nano.init<"constant", [1.0]>, optimizer = @all, role = #nano.role<parameter>}
nano.state @s : tensor<f32> {init = #nano.init<"constant", [1.0]>, optimizer = @all, role = #nano.role<parameter>}
nano.program @whole(%x: tensor<512x16xf32>) -> tensor<512x32xf32> {
  %0 = nano.load @w : tensor<32x16xf32>
  %1 = nano.matmul %x, %0 {transpose_b} : (tensor<512x16xf32>, tensor<32x16xf32>) -> tensor<512x32xf32>
  %2 = nano.load @s : tensor<f32>
  %3 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<512x32xf32>
  %4 = nano.mul %1, %3 : tensor<512x32xf32>
  nano.return %4 : tensor<512x32xf32>
}

// -----

// Not where something else reads the columns, where the number depends on the tokens, where there
// are too few tokens, where the model gives the weight's scale in 8 bits, or where it has no gradient.
// CHECK-LABEL: nano.program @read_twice
// CHECK:         %[[Y:.*]] = nano.matmul %{{.*}}, %{{.*}} {transpose_b}
// CHECK:         nano.mul %[[Y]], %{{.*}} : tensor<512x32xf32>
// CHECK-LABEL: nano.program @of_tokens
// CHECK:         nano.mul %{{.*}}, %{{.*}} : tensor<512x32xf32>
// CHECK-LABEL: nano.program @few
// CHECK:         nano.mul %{{.*}}, %{{.*}} : tensor<32x32xf32>
// CHECK-LABEL: nano.program @static
// CHECK:         nano.mul %{{.*}}, %{{.*}} : tensor<512x32xf32>
// CHECK-LABEL: nano.program @of_frozen
// CHECK:         nano.mul %{{.*}}, %{{.*}} : tensor<512x32xf32>
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @all of "sgd" lr @lr {inits = array<f64>, kind = "sgd", states = []}
nano.state @w : tensor<32x16xf32> {init = #nano.init<"constant", [1.0]>, optimizer = @all, role = #nano.role<parameter>}
nano.state @given : tensor<32x16xf32> {fp8 = {given = true, recipe = "static", scales = array<f64: 0.5, 0.25, 0.125>}, init = #nano.init<"constant", [1.0]>, optimizer = @all, role = #nano.role<parameter>}
nano.state @frozen : tensor<32x16xf32> {init = #nano.init<"constant", [1.0]>, role = #nano.role<parameter>}
nano.state @s : tensor<f32> {init = #nano.init<"constant", [1.0]>, optimizer = @all, role = #nano.role<parameter>}
nano.program @read_twice(%x: tensor<512x16xf32>) -> (tensor<512x32xf32>, tensor<512x32xf32>) {
  %0 = nano.load @w : tensor<32x16xf32>
  %1 = nano.matmul %x, %0 {transpose_b} : (tensor<512x16xf32>, tensor<32x16xf32>) -> tensor<512x32xf32>
  %2 = nano.load @s : tensor<f32>
  %3 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<512x32xf32>
  %4 = nano.mul %1, %3 : tensor<512x32xf32>
  nano.return %4, %1 : tensor<512x32xf32>, tensor<512x32xf32>
}
nano.program @of_tokens(%x: tensor<512x16xf32>) -> tensor<512x32xf32> {
  %0 = nano.load @w : tensor<32x16xf32>
  %1 = nano.matmul %x, %0 {transpose_b} : (tensor<512x16xf32>, tensor<32x16xf32>) -> tensor<512x32xf32>
  %2 = nano.reduce sum %x dims [1] : tensor<512x16xf32> -> tensor<512xf32>
  %3 = nano.reduce sum %2 dims [0] : tensor<512xf32> -> tensor<f32>
  %4 = nano.broadcast %3 dims [] : tensor<f32> -> tensor<512x32xf32>
  %5 = nano.mul %1, %4 : tensor<512x32xf32>
  nano.return %5 : tensor<512x32xf32>
}
nano.program @few(%x: tensor<32x16xf32>) -> tensor<32x32xf32> {
  %0 = nano.load @w : tensor<32x16xf32>
  %1 = nano.matmul %x, %0 {transpose_b} : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x32xf32>
  %2 = nano.load @s : tensor<f32>
  %3 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<32x32xf32>
  %4 = nano.mul %1, %3 : tensor<32x32xf32>
  nano.return %4 : tensor<32x32xf32>
}
nano.program @static(%x: tensor<512x16xf32>) -> tensor<512x32xf32> {
  %0 = nano.load @given : tensor<32x16xf32>
  %1 = nano.matmul %x, %0 {transpose_b} : (tensor<512x16xf32>, tensor<32x16xf32>) -> tensor<512x32xf32>
  %2 = nano.load @s : tensor<f32>
  %3 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<512x32xf32>
  %4 = nano.mul %1, %3 : tensor<512x32xf32>
  nano.return %4 : tensor<512x32xf32>
}
nano.program @of_frozen(%x: tensor<512x16xf32>) -> tensor<512x32xf32> {
  %0 = nano.load @frozen : tensor<32x16xf32>
  %1 = nano.matmul %x, %0 {transpose_b} : (tensor<512x16xf32>, tensor<32x16xf32>) -> tensor<512x32xf32>
  %2 = nano.load @s : tensor<f32>
  %3 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<512x32xf32>
  %4 = nano.mul %1, %3 : tensor<512x32xf32>
  nano.return %4 : tensor<512x32xf32>
}

// -----

// Scales of a file were measured of the weight with its numbers, which multiply it here too.
// CHECK-LABEL: nano.program @measured
// CHECK:         %[[SCALED:.*]] = nano.mul %{{.*}}, %{{.*}} : tensor<32x16xf32>
// CHECK:         %[[Y:.*]] = nano.matmul %{{.*}}, %[[SCALED]] {transpose_b}
// CHECK:         nano.return %[[Y]]
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @all of "sgd" lr @lr {inits = array<f64>, kind = "sgd", states = []}
nano.state @w : tensor<32x16xf32> {fp8 = {recipe = "static", scales = array<f64: 0.5, 0.25, 0.125>}, init = #nano.init<"constant", [1.0]>, optimizer = @all, role = #nano.role<parameter>}
nano.state @s : tensor<f32> {init = #nano.init<"constant", [1.0]>, optimizer = @all, role = #nano.role<parameter>}
nano.program @measured(%x: tensor<512x16xf32>) -> tensor<512x32xf32> {
  %0 = nano.load @w : tensor<32x16xf32>
  %1 = nano.matmul %x, %0 {transpose_b} : (tensor<512x16xf32>, tensor<32x16xf32>) -> tensor<512x32xf32>
  %2 = nano.load @s : tensor<f32>
  %3 = nano.broadcast %2 dims [] : tensor<f32> -> tensor<512x32xf32>
  %4 = nano.mul %1, %3 : tensor<512x32xf32>
  nano.return %4 : tensor<512x32xf32>
}

// -----

// A weight that is rounded first and reshaped then is multiplied before it is rounded too.
// CHECK-LABEL: nano.program @reshaped
// CHECK:         %[[ROWS:.*]] = nano.reshape %{{.*}} : tensor<2x16x16xf32> -> tensor<32x16xf32>
// CHECK:         %[[SCALED:.*]] = nano.mul %[[ROWS]], %{{.*}} : tensor<32x16xf32>
// CHECK:         %[[ROUNDED:.*]] = nano.cast %[[SCALED]] : tensor<32x16xf32> -> tensor<32x16xbf16>
// CHECK:         nano.matmul %{{.*}}, %[[ROUNDED]] {transpose_b}
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @all of "sgd" lr @lr {inits = array<f64>, kind = "sgd", states = []}
nano.state @w : tensor<2x16x16xf32> {init = #nano.init<"constant", [1.0]>, optimizer = @all, role = #nano.role<parameter>}
nano.state @s : tensor<f32> {init = #nano.init<"constant", [1.0]>, optimizer = @all, role = #nano.role<parameter>}
nano.program @reshaped(%x: tensor<512x16xbf16>) -> tensor<512x32xf32> {
  %0 = nano.load @w : tensor<2x16x16xf32>
  %1 = nano.cast %0 : tensor<2x16x16xf32> -> tensor<2x16x16xbf16>
  %2 = nano.reshape %1 : tensor<2x16x16xbf16> -> tensor<32x16xbf16>
  %3 = nano.matmul %x, %2 {transpose_b} : (tensor<512x16xbf16>, tensor<32x16xbf16>) -> tensor<512x32xbf16>
  %4 = nano.cast %3 : tensor<512x32xbf16> -> tensor<512x32xf32>
  %5 = nano.load @s : tensor<f32>
  %6 = nano.broadcast %5 dims [] : tensor<f32> -> tensor<512x32xf32>
  %7 = nano.mul %4, %6 : tensor<512x32xf32>
  nano.return %7 : tensor<512x32xf32>
}
