// RUN: nano-opt %s -nano-bufferize -split-input-file | FileCheck %s
// Products with scales, and transposes that the kernel of their operand makes.

// A product adds into the state; its scales are what a kernel made.
// CHECK-LABEL: step.program @accumulate
// CHECK-DAG:   %[[S:.*]] = step.state @scale : memref<f32>
// CHECK-DAG:   %[[G:.*]] = step.state @grad.w : memref<8x8xf32>
// CHECK:       step.matmul %[[X:.*]], %[[X]] scales(%[[S]], %[[S]]) add %[[G]] into %[[G]] {transpose_a}
nano.state @scale : tensor<f32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [1.0]>}
nano.state @grad.w : tensor<8x8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @accumulate(%x: tensor<4x8xf32>) {
  %s = nano.load @scale : tensor<f32>
  %q = nano.cast %x : tensor<4x8xf32> -> tensor<4x8xf8E5M2>
  %old = nano.load @grad.w : tensor<8x8xf32>
  %g = nano.scaled_matmul %q, %q scales(%s, %s) add %old {transpose_a} : (tensor<4x8xf8E5M2>, tensor<4x8xf8E5M2>, tensor<f32>, tensor<f32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  nano.store %g, @grad.w : tensor<8x8xf32>
  nano.return
}

// -----

// A scale that is a part of a larger tensor is read where it lies.
// CHECK-LABEL: step.program @part
// CHECK:       %[[S:.*]] = step.view %{{.*}} : memref<4x2xf32> to memref<4x1xf32, strided<[2, 1]>>
// CHECK:       nano.cast
// CHECK-NOT:   step.task
// CHECK:       step.matmul %{{.*}}, %{{.*}} scales(%[[S]], %[[S]]) into
nano.program @part(%x: tensor<4x128xf32>, %s: tensor<4x2xf32>) -> tensor<4x4xf32> {
  %a = nano.slice %s dim 1 at 0 : tensor<4x2xf32> -> tensor<4x1xf32>
  %q = nano.cast %x : tensor<4x128xf32> -> tensor<4x128xf8E5M2>
  %y = nano.scaled_matmul %q, %q scales(%a, %a) {transpose_b} : (tensor<4x128xf8E5M2>, tensor<4x128xf8E5M2>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
  nano.return %y : tensor<4x4xf32>
}

// -----

// Two products want the two layouts: one kernel writes both.
// CHECK-LABEL: step.program @both
// CHECK-DAG:   %[[Q:.*]] = step.buffer "cast" : memref<4x8xf8E5M2>
// CHECK-DAG:   %[[T:.*]] = step.buffer "transpose" : memref<8x4xf8E5M2>
// CHECK-DAG:   %[[V:.*]] = step.view %[[T]] : memref<8x4xf8E5M2> to memref<4x8xf8E5M2, strided<[1, 4]>>
// CHECK:       step.task ins(%{{.*}}) outs(%[[Q]], %[[V]])
// CHECK:         %[[C:.*]] = nano.cast
// CHECK:         nano.yield %[[C]], %[[C]]
// CHECK-NOT:   step.task
// CHECK:       step.matmul %[[Q]], %[[Q]] {{.*}} {transpose_b}
// CHECK-NOT:   step.task
// CHECK:       step.matmul %[[T]], %[[T]] {{.*}} {transpose_b}
nano.program @both(%x: tensor<4x8xf32>, %s: tensor<f32>) -> (tensor<4x4xf32>, tensor<8x8xf32>) {
  %q = nano.fused (%x) : (tensor<4x8xf32>) -> tensor<4x8xf8E5M2> {
  ^bb0(%a: tensor<4x8xf32>):
    %c = nano.cast %a : tensor<4x8xf32> -> tensor<4x8xf8E5M2>
    nano.yield %c : tensor<4x8xf8E5M2>
  }
  %t = nano.transpose %q : tensor<4x8xf8E5M2> -> tensor<8x4xf8E5M2>
  %y = nano.scaled_matmul %q, %q scales(%s, %s) {transpose_b} : (tensor<4x8xf8E5M2>, tensor<4x8xf8E5M2>, tensor<f32>, tensor<f32>) -> tensor<4x4xf32>
  %z = nano.scaled_matmul %t, %t scales(%s, %s) {transpose_b} : (tensor<8x4xf8E5M2>, tensor<8x4xf8E5M2>, tensor<f32>, tensor<f32>) -> tensor<8x8xf32>
  nano.return %y, %z : tensor<4x4xf32>, tensor<8x8xf32>
}

// -----

// Only the transpose is wanted: the kernel writes rows as columns.
// CHECK-LABEL: step.program @only
// CHECK-DAG:   %[[T:.*]] = step.buffer "transpose" : memref<8x4xf8E5M2>
// CHECK-DAG:   %[[V:.*]] = step.view %[[T]] : memref<8x4xf8E5M2> to memref<4x8xf8E5M2, strided<[1, 4]>>
// CHECK:       step.task ins(%{{.*}}) outs(%[[V]])
// CHECK-NOT:   step.task
// CHECK:       step.matmul %[[T]], %[[T]]
nano.program @only(%x: tensor<4x8xf32>, %s: tensor<f32>) -> tensor<8x8xf32> {
  %q = nano.fused (%x) : (tensor<4x8xf32>) -> tensor<4x8xf8E5M2> {
  ^bb0(%a: tensor<4x8xf32>):
    %c = nano.cast %a : tensor<4x8xf32> -> tensor<4x8xf8E5M2>
    nano.yield %c : tensor<4x8xf8E5M2>
  }
  %t = nano.transpose %q : tensor<4x8xf8E5M2> -> tensor<8x4xf8E5M2>
  %z = nano.scaled_matmul %t, %t scales(%s, %s) {transpose_b} : (tensor<8x4xf8E5M2>, tensor<8x4xf8E5M2>, tensor<f32>, tensor<f32>) -> tensor<8x8xf32>
  nano.return %z : tensor<8x8xf32>
}

// -----

// Both layouts are states: a weight that is quantised once a step.
// CHECK-LABEL: step.program @kept
// CHECK-DAG:   %[[Q:.*]] = step.state @q : memref<4x8xf8E4M3FN>
// CHECK-DAG:   %[[T:.*]] = step.state @t : memref<8x4xf8E4M3FN>
// CHECK-DAG:   %[[V:.*]] = step.view %[[T]] : memref<8x4xf8E4M3FN> to memref<4x8xf8E4M3FN, strided<[1, 4]>>
// CHECK:       step.task ins(%{{.*}}) outs(%[[Q]], %[[V]])
// CHECK-NOT:   step.task
// CHECK-NOT:   step.copy
nano.state @q : tensor<4x8xf8E4M3FN> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
nano.state @t : tensor<8x4xf8E4M3FN> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
nano.program @kept(%x: tensor<4x8xf32>) {
  %q = nano.fused (%x) : (tensor<4x8xf32>) -> tensor<4x8xf8E4M3FN> {
  ^bb0(%a: tensor<4x8xf32>):
    %c = nano.cast %a : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
    nano.yield %c : tensor<4x8xf8E4M3FN>
  }
  %t = nano.transpose %q : tensor<4x8xf8E4M3FN> -> tensor<8x4xf8E4M3FN>
  nano.store %q, @q : tensor<4x8xf8E4M3FN>
  nano.store %t, @t : tensor<8x4xf8E4M3FN>
  nano.return
}

// -----

// A scale that is also part of a larger tensor is computed there only at a multiple of 16 bytes: others have a buffer of their own and are copied.
// CHECK-LABEL: step.program @listed
// CHECK:       %[[LIST:.*]] = step.state @train.loss : memref<2xf32>
// CHECK:       %[[FIRST:.*]] = step.view %[[LIST]] : memref<2xf32> to memref<f32>
// CHECK:       %[[SECOND:.*]] = step.buffer "{{.*}}" : memref<f32>
// CHECK:       step.matmul {{.*}} scales(%[[FIRST]], %[[SECOND]])
nano.program @listed(%a: tensor<16x16xf8E4M3FN>, %b: tensor<16x16xf8E4M3FN>, %x: tensor<f32>) -> (tensor<2xf32>, tensor<16x16xf32>) attributes {role = "first"} {
  %s = nano.fused (%x) : (tensor<f32>) -> tensor<f32> {
  ^bb0(%n: tensor<f32>):
    %c = nano.abs %n : tensor<f32>
    nano.yield %c : tensor<f32>
  }
  %t = nano.fused (%x) : (tensor<f32>) -> tensor<f32> {
  ^bb0(%n: tensor<f32>):
    %c = nano.exp %n : tensor<f32>
    nano.yield %c : tensor<f32>
  }
  %s1 = nano.reshape %s : tensor<f32> -> tensor<1xf32>
  %t1 = nano.reshape %t : tensor<f32> -> tensor<1xf32>
  %list = nano.concat %s1, %t1 dim 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
  %z = nano.scaled_matmul %a, %b scales(%s, %t) {transpose_b} : (tensor<16x16xf8E4M3FN>, tensor<16x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<16x16xf32>
  nano.return %list, %z : tensor<2xf32>, tensor<16x16xf32>
}

// -----

// So too where the kernel that makes it ends a reduction, and the product reads what it makes as a number.
// CHECK-LABEL: step.program @reduced
// CHECK:       %[[OWN:.*]] = step.buffer "{{.*}}" : memref<1xf32>
// CHECK:       %[[SECOND:.*]] = step.view %[[OWN]] : memref<1xf32> to memref<f32>
// CHECK:       step.matmul {{.*}} scales(%{{.*}}, %[[SECOND]])
nano.program @reduced(%a: tensor<16x16xf8E4M3FN>, %b: tensor<16x16xf8E4M3FN>, %x: tensor<1x8xf32>, %y: tensor<1xf32>) -> (tensor<2xf32>, tensor<16x16xf32>) attributes {role = "first"} {
  %m = nano.fused (%x) : (tensor<1x8xf32>) -> tensor<1xf32> {
  ^bb0(%row: tensor<1x8xf32>):
    %c = nano.reduce max %row dims [1] : tensor<1x8xf32> -> tensor<1xf32>
    nano.yield %c : tensor<1xf32>
  }
  %s = nano.reshape %y : tensor<1xf32> -> tensor<f32>
  %t = nano.reshape %m : tensor<1xf32> -> tensor<f32>
  %t1 = nano.reshape %t : tensor<f32> -> tensor<1xf32>
  %list = nano.concat %y, %t1 dim 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
  %z = nano.scaled_matmul %a, %b scales(%s, %t) {transpose_b} : (tensor<16x16xf8E4M3FN>, tensor<16x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<16x16xf32>
  nano.return %list, %z : tensor<2xf32>, tensor<16x16xf32>
}
