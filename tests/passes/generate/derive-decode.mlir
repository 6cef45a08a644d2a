// RUN: nano-opt %s -nano-derive-decode -canonicalize -cse -split-input-file 2>/dev/null | FileCheck %s
// RUN: nano-opt %s -nano-derive-decode -split-input-file 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY

// A token's row of k and v is kept; a query sees them and those of before. Positions are the position.
// CHECK-LABEL: nano.program @generate
// CHECK: %[[K:.*]] = nano.reshape {{.*}} -> tensor<8x2x4xf32>
// CHECK: nano.store %[[K]], @cache.0 : tensor<8x2x4xf32>
// CHECK: %[[TURNED:.*]] = nano.permute %{{.*}} order [1, 2, 0] : tensor<8x2x4xf32> -> tensor<2x4x8xf32>
// CHECK: nano.store %[[TURNED]], @cache.1 : tensor<2x4x8xf32>
// CHECK: nano.attention
// CHECK-LABEL: nano.program @decode
// CHECK-SAME: (%[[TOKEN:.*]]: tensor<1xi32>, %[[AT:.*]]: tensor<1xi32>) -> tensor<1x16xf32> attributes {role = "decode"}
// CHECK-DAG: %[[LAST:.*]] = nano.constant 7.000000e+00 : tensor<1xi32>
// CHECK-DAG: %[[FIRST:.*]] = nano.constant 0.000000e+00 : tensor<1xi32>
// CHECK: %[[UP:.*]] = nano.max %[[AT]], %[[FIRST]]
// CHECK: %[[P:.*]] = nano.min %[[UP]], %[[LAST]]
// CHECK: %[[E:.*]] = nano.load @embed
// CHECK: nano.gather %[[E]], %[[TOKEN]] : (tensor<16x8xf32>, tensor<1xi32>) -> tensor<1x8xf32>
// CHECK: nano.reduce sum {{.*}} dims [1] : tensor<8x8xf32> -> tensor<8xf32>
// CHECK: %[[BEFORE:.*]] = nano.load @cache.0 : tensor<8x2x4xf32>
// CHECK: %[[KEYS:.*]] = nano.select eq, {{.*}}, %[[BEFORE]]
// CHECK: nano.store %[[KEYS]], @cache.0
// CHECK: nano.store {{.*}}, @cache.1
// CHECK-NOT: nano.attention
// CHECK: nano.reduce max {{.*}} dims [1] : tensor<2x8xf32> -> tensor<2xf32>
// CHECK: nano.return {{.*}} : tensor<1x16xf32>
nano.state @embed : tensor<16x8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>}
nano.program @generate(%tokens: tensor<8xi32>) -> tensor<8x16xf32> attributes {role = "generate"} {
  %e = nano.load @embed : tensor<16x8xf32>
  %x = nano.gather %e, %tokens : (tensor<16x8xf32>, tensor<8xi32>) -> tensor<8x8xf32>
  %w = nano.slice %e dim 0 at 0 : tensor<16x8xf32> -> tensor<8x8xf32>
  %h = nano.matmul %x, %w {transpose_b} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %t = nano.iota 0 : tensor<8xi32>
  %z = nano.constant 0.0 : tensor<8xi32>
  %k = nano.reshape %h : tensor<8x8xf32> -> tensor<8x2x4xf32>
  %v = nano.mul %k, %k : tensor<8x2x4xf32>
  %y, %lse = nano.attention %k, %k, %v, %z, %t scale 5.000000e-01
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xf32>, tensor<8x2xf32>)
  %f = nano.reshape %y : tensor<8x2x4xf32> -> tensor<8x8xf32>
  %l = nano.matmul %f, %e {transpose_b} : (tensor<8x8xf32>, tensor<16x8xf32>) -> tensor<8x16xf32>
  nano.return %l : tensor<8x16xf32>
}

// -----

// What looks back: a running maximum, and the row before.
// CHECK-LABEL: nano.program @looks_back
// CHECK: nano.store %{{.*}}, @cache.1 : tensor<8xi32>
// CHECK: nano.store %{{.*}}, @cache.0 : tensor<7x4xf32>
// CHECK-LABEL: nano.program @decode
// CHECK: nano.gather {{.*}} : (tensor<7x4xf32>, tensor<1xi32>) -> tensor<1x4xf32>
// CHECK: nano.scan max
nano.program @looks_back(%tokens: tensor<8xi32>) -> tensor<8x4xf32> attributes {role = "generate"} {
  %f = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
  %x = nano.broadcast %f dims [0] : tensor<8xf32> -> tensor<8x4xf32>
  %head = nano.slice %x dim 0 at 0 : tensor<8x4xf32> -> tensor<7x4xf32>
  %none = nano.constant 0.0 : tensor<1x4xf32>
  %before = nano.concat %none, %head dim 0 : (tensor<1x4xf32>, tensor<7x4xf32>) -> tensor<8x4xf32>
  %most = nano.scan max %tokens : tensor<8xi32>
  %g = nano.cast %most : tensor<8xi32> -> tensor<8xf32>
  %b = nano.broadcast %g dims [0] : tensor<8xf32> -> tensor<8x4xf32>
  %s = nano.add %before, %b : tensor<8x4xf32>
  nano.return %s : tensor<8x4xf32>
}

// -----

// The order of a row's numbers is the row's own, as its projection is; that of all positions is not.
// CHECK-LABEL: nano.program @decode
// CHECK: nano.sparsemax {{.*}} : tensor<1x4xf32>
// CHECK: nano.argsort {{.*}} : tensor<1x4xf32> -> tensor<1x4xi32>
nano.program @orders(%tokens: tensor<8xi32>) -> tensor<8x4xf32> attributes {role = "generate"} {
  %f = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
  %x = nano.broadcast %f dims [0] : tensor<8xf32> -> tensor<8x4xf32>
  %s = nano.sparsemax %x : tensor<8x4xf32>
  %i = nano.argsort %s : tensor<8x4xf32> -> tensor<8x4xi32>
  %y = nano.cast %i : tensor<8x4xi32> -> tensor<8x4xf32>
  nano.return %y : tensor<8x4xf32>
}

// -----

// WHY: remark: sampling computes all positions for every token: no rule says what it does row by row
nano.program @order_of_all(%tokens: tensor<8xi32>) -> tensor<8x4xf32> attributes {role = "generate"} {
  %f = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
  %r = nano.reshape %f : tensor<8xf32> -> tensor<1x8xf32>
  %i = nano.argsort %r : tensor<1x8xf32> -> tensor<1x8xi32>
  %p = nano.reshape %i : tensor<1x8xi32> -> tensor<8xi32>
  %g = nano.cast %p : tensor<8xi32> -> tensor<8xf32>
  %y = nano.broadcast %g dims [0] : tensor<8xf32> -> tensor<8x4xf32>
  nano.return %y : tensor<8x4xf32>
}

// -----

// What other rows decide.
// WHY: remark: sampling computes all positions for every token: all its rows are needed, which depend on tokens
nano.program @mean(%tokens: tensor<8xi32>) -> tensor<8x4xf32> attributes {role = "generate"} {
  %f = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
  %x = nano.broadcast %f dims [0] : tensor<8xf32> -> tensor<8x4xf32>
  %sum = nano.reduce sum %x dims [0] : tensor<8x4xf32> -> tensor<4xf32>
  %all = nano.broadcast %sum dims [1] : tensor<4xf32> -> tensor<8x4xf32>
  nano.return %all : tensor<8x4xf32>
}

// -----

// WHY: remark: sampling computes all positions for every token: a later row of it is needed
nano.program @later(%tokens: tensor<8xi32>) -> tensor<8x4xf32> attributes {role = "generate"} {
  %f = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
  %x = nano.broadcast %f dims [0] : tensor<8xf32> -> tensor<8x4xf32>
  %tail = nano.slice %x dim 0 at 1 : tensor<8x4xf32> -> tensor<7x4xf32>
  %none = nano.constant 0.0 : tensor<1x4xf32>
  %after = nano.concat %tail, %none dim 0 : (tensor<7x4xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
  nano.return %after : tensor<8x4xf32>
}

// -----

// WHY: remark: sampling computes all positions for every token: a query may see later keys
nano.program @both_ways(%tokens: tensor<8xi32>) -> tensor<8x4xf32> attributes {role = "generate"} {
  %f = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
  %x = nano.broadcast %f dims [0] : tensor<8xf32> -> tensor<8x1x4xf32>
  %first = nano.constant 0.0 : tensor<8xi32>
  %last = nano.constant 7.0 : tensor<8xi32>
  %y, %lse = nano.attention %x, %x, %x, %first, %last scale 5.000000e-01
      : (tensor<8x1x4xf32>, tensor<8x1x4xf32>, tensor<8x1x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x1x4xf32>, tensor<8x1xf32>)
  %l = nano.reshape %y : tensor<8x1x4xf32> -> tensor<8x4xf32>
  nano.return %l : tensor<8x4xf32>
}

// -----

// WHY: remark: sampling computes all positions for every token: it puts several positions into one row, or one into several
nano.program @pairs(%tokens: tensor<8xi32>) -> tensor<8x4xf32> attributes {role = "generate"} {
  %f = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
  %pairs = nano.reshape %f : tensor<8xf32> -> tensor<4x2xf32>
  %sums = nano.reduce sum %pairs dims [1] : tensor<4x2xf32> -> tensor<4xf32>
  %twice = nano.broadcast %sums dims [0] : tensor<4xf32> -> tensor<4x8xf32>
  %l = nano.reshape %twice : tensor<4x8xf32> -> tensor<8x4xf32>
  nano.return %l : tensor<8x4xf32>
}

// -----

// A recurrence goes on from the row before, which is kept in f32 as it is carried on; the first from its initial value.
// CHECK-LABEL: nano.program @averages
// CHECK: %[[H:.*]] = nano.recurrence factor %{{.*}} term %{{.*}} from 5.000000e-01 : tensor<1x8x4xf32>
// CHECK: nano.store %{{.*}}, @cache.0 : tensor<8x4xf32>
// CHECK-NOT: nano.recurrence
// CHECK-LABEL: nano.program @decode
// CHECK: %[[KEPT:.*]] = nano.load @cache.0 : tensor<8x4xf32>
// CHECK: %[[LAST:.*]] = nano.gather %[[KEPT]], %{{.*}} : (tensor<8x4xf32>, tensor<1xi32>) -> tensor<1x4xf32>
// CHECK: nano.select gt, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<1x1x4xi32>, tensor<1x1x4xf32>
// CHECK: nano.mul {{.*}} : tensor<1x1x4xf32>
// CHECK: nano.add {{.*}} : tensor<1x1x4xf32>
// CHECK: nano.store %{{.*}}, @cache.0
// CHECK-NOT: nano.recurrence
nano.program @averages(%tokens: tensor<8xi32>) -> tensor<8x4xf32> attributes {role = "generate"} {
  %f = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
  %w = nano.broadcast %f dims [0] : tensor<8xf32> -> tensor<8x4xf32>
  %x = nano.cast %w : tensor<8x4xf32> -> tensor<8x4xbf16>
  %b = nano.reshape %x : tensor<8x4xbf16> -> tensor<1x8x4xbf16>
  %a = nano.constant 0.25 : tensor<1x8x4xbf16>
  %h = nano.recurrence factor %a term %b from 0.5 : tensor<1x8x4xbf16>
  %y = nano.reshape %h : tensor<1x8x4xbf16> -> tensor<8x4xbf16>
  %l = nano.cast %y : tensor<8x4xbf16> -> tensor<8x4xf32>
  nano.return %l : tensor<8x4xf32>
}

// -----

// The scores of a band need its tokens' rows, zeros before the first.
// CHECK-LABEL: nano.program @band
// CHECK: nano.store %{{.*}}, @cache.0 : tensor<8x2x4xf32>
// CHECK-LABEL: nano.program @decode
// CHECK: %[[ROWS:.*]] = nano.gather %{{.*}}, %{{.*}} : (tensor<8x8xf32>, tensor<3xi32>) -> tensor<3x8xf32>
// CHECK: nano.select ge, %{{.*}}, %{{.*}}, %[[ROWS]]
// CHECK: nano.reduce sum {{.*}} dims [2] : tensor<2x3x4xf32> -> tensor<2x3xf32>
// CHECK: nano.reduce sum {{.*}} dims [2] : tensor<2x4x3xf32> -> tensor<2x4xf32>
// CHECK: nano.return
nano.program @band(%tokens: tensor<8xi32>) -> tensor<8x8xf32> attributes {role = "generate"} {
  %f = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
  %x = nano.broadcast %f dims [0] : tensor<8xf32> -> tensor<8x2x4xf32>
  %s = nano.band_scores %x, %x : (tensor<8x2x4xf32>, tensor<8x2x4xf32>) -> tensor<8x2x3xf32>
  %y = nano.band_product %s, %x : (tensor<8x2x3xf32>, tensor<8x2x4xf32>) -> tensor<8x2x4xf32>
  %l = nano.reshape %y : tensor<8x2x4xf32> -> tensor<8x8xf32>
  nano.return %l : tensor<8x8xf32>
}

// -----

// WHY: remark: sampling computes all positions for every token: it runs from the last position
nano.program @returns(%tokens: tensor<8xi32>) -> tensor<8x4xf32> attributes {role = "generate"} {
  %f = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
  %x = nano.broadcast %f dims [0] : tensor<8xf32> -> tensor<8x4xf32>
  %b = nano.reshape %x : tensor<8x4xf32> -> tensor<1x8x4xf32>
  %h = nano.recurrence term %b from 0.0 {reverse} : tensor<1x8x4xf32>
  %l = nano.reshape %h : tensor<1x8x4xf32> -> tensor<8x4xf32>
  nano.return %l : tensor<8x4xf32>
}

// -----

// WHY: remark: sampling computes all positions for every token: the tokens of its band are later ones
nano.program @ahead(%tokens: tensor<8xi32>) -> tensor<8x8xf32> attributes {role = "generate"} {
  %f = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
  %x = nano.broadcast %f dims [0] : tensor<8xf32> -> tensor<8x2x4xf32>
  %p = nano.broadcast %f dims [0] : tensor<8xf32> -> tensor<8x2x3xf32>
  %y = nano.band_product %p, %x {transpose} : (tensor<8x2x3xf32>, tensor<8x2x4xf32>) -> tensor<8x2x4xf32>
  %l = nano.reshape %y : tensor<8x2x4xf32> -> tensor<8x8xf32>
  nano.return %l : tensor<8x8xf32>
}

// -----

// A kernel of the model's own brings its row; what it keeps is a state.
// CHECK-LABEL: nano.program @own
// CHECK: nano.store %{{.*}}, @cache.0 : tensor<8x4xf32>
// CHECK-LABEL: nano.program @decode
// CHECK: %[[ROW:.*]] = nano.broadcast %{{.*}} : tensor<1xf32> -> tensor<1x4xf32>
// CHECK: %[[ALL:.*]] = nano.select
// CHECK: nano.store %[[ALL]], @cache.0 : tensor<8x4xf32>
// CHECK: nano.custom "g"(%[[ROW]], %[[ALL]], %{{.*}}) iterations 1 {cpu = "c"} : (tensor<1x4xf32>, tensor<8x4xf32>, tensor<1xi32>) -> tensor<1x4xf32>
nano.program @own(%tokens: tensor<8xi32>) -> tensor<8x4xf32> attributes {role = "generate"} {
  %f = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
  %x = nano.broadcast %f dims [0] : tensor<8xf32> -> tensor<8x4xf32>
  %y = nano.custom "f"(%x, %x) iterations 8 {cpu = "c", row_inputs = array<i64: 0>, kept_inputs = array<i64: 1>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  row {
  ^bb0(%in: tensor<1x4xf32>, %all: tensor<8x4xf32>, %at: tensor<1xi32>):
    %z = nano.custom "g"(%in, %all, %at) iterations 1 {cpu = "c"} : (tensor<1x4xf32>, tensor<8x4xf32>, tensor<1xi32>) -> tensor<1x4xf32>
    nano.yield %z : tensor<1x4xf32>
  }
  nano.return %y : tensor<8x4xf32>
}

// -----

// WHY: sampling computes all positions for every token: kernel 'f' does not say what a row of its results comes from (.byRows)
nano.program @unsaid(%tokens: tensor<8xi32>) -> tensor<8x4xf32> attributes {role = "generate"} {
  %f = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
  %x = nano.broadcast %f dims [0] : tensor<8xf32> -> tensor<8x4xf32>
  %y = nano.custom "f"(%x) iterations 8 {cpu = "c"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  nano.return %y : tensor<8x4xf32>
}
