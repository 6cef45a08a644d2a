// RUN: nano-opt %s -nano-bufferize -split-input-file | FileCheck %s

// Inputs are declared once for the programs of both kinds of micro-batches; the first gradient is computed straight into its accumulator.
// CHECK: step.input @train.tokens : memref<4xi32>
// CHECK: step.input @train.targets : memref<4xi32>
// CHECK: step.input @train.loss : memref<f32> {output}
// CHECK-NOT: step.input
// CHECK-LABEL: step.program @first attributes {role = "first"}
// CHECK-DAG:   %[[X:.*]] = step.buffer "gather" : memref<4x8xf32>
// CHECK-DAG:   %[[G:.*]] = step.state @grad.w : memref<8x8xf32>
// CHECK-DAG:   %[[L:.*]] = step.state @train.loss : memref<f32>
// CHECK:       step.task ins(%{{.*}}, %{{.*}}) outs(%[[X]])
// CHECK:       step.matmul %[[X]], %[[X]] into %[[G]] {transpose_a}
// CHECK:       step.task ins(%[[X]]) outs(%[[L]])
// CHECK-NOT:   step.copy
// The others accumulate in place: d is c.
// CHECK-LABEL: step.program @next attributes {role = "next"}
// CHECK:       step.matmul %{{.*}}, %{{.*}} add %[[G:.*]] into %[[G]] {transpose_a}
// CHECK-NOT:   step.copy
nano.state @w : tensor<8x8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.w : tensor<8x8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @first(%tokens: tensor<4xi32>, %targets: tensor<4xi32>) -> tensor<f32> attributes {role = "first"} {
  %w = nano.load @w : tensor<8x8xf32>
  %x = nano.gather %w, %tokens : (tensor<8x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  %g = nano.matmul %x, %x {transpose_a} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  nano.store %g, @grad.w : tensor<8x8xf32>
  %l = nano.reduce sum %x dims [0, 1] : tensor<4x8xf32> -> tensor<f32>
  nano.return %l : tensor<f32>
}
nano.program @next(%tokens: tensor<4xi32>, %targets: tensor<4xi32>) -> tensor<f32> attributes {role = "next"} {
  %w = nano.load @w : tensor<8x8xf32>
  %x = nano.gather %w, %tokens : (tensor<8x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  %old = nano.load @grad.w : tensor<8x8xf32>
  %g = nano.matmul %x, %x add %old {transpose_a} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  nano.store %g, @grad.w : tensor<8x8xf32>
  %l = nano.reduce sum %x dims [0, 1] : tensor<4x8xf32> -> tensor<f32>
  nano.return %l : tensor<f32>
}

// -----

// A gradient that products add up grows in its state, from the first of them on; a sum that something else reads later does not.
// CHECK-LABEL: step.program @sums
// CHECK-DAG:   %[[G:.*]] = step.state @grad.w : memref<8x8xf32>
// CHECK-DAG:   %[[H:.*]] = step.state @grad.v : memref<8x8xf32>
// CHECK-DAG:   %[[F:.*]] = step.buffer "matmul" : memref<8x8xf32>
// CHECK:       step.matmul %{{.*}}, %{{.*}} into %[[G]] {transpose_a}
// CHECK:       step.matmul %{{.*}}, %{{.*}} add %[[G]] into %[[G]] {transpose_a}
// CHECK:       step.matmul %{{.*}}, %{{.*}} add %[[G]] into %[[G]] {transpose_a}
// CHECK:       step.matmul %{{.*}}, %{{.*}} into %[[F]] {transpose_a}
// CHECK:       step.matmul %{{.*}}, %{{.*}} add %[[F]] into %[[H]] {transpose_a}
// CHECK-NOT:   step.copy
nano.state @grad.w : tensor<8x8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.v : tensor<8x8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @sums(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %z: tensor<4x8xf32>) -> tensor<f32> {
  %a = nano.matmul %x, %x {transpose_a} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %b = nano.matmul %y, %y add %a {transpose_a} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = nano.matmul %z, %z add %b {transpose_a} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  nano.store %c, @grad.w : tensor<8x8xf32>
  %f = nano.matmul %x, %y {transpose_a} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %h = nano.matmul %x, %z add %f {transpose_a} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  nano.store %h, @grad.v : tensor<8x8xf32>
  %l = nano.reduce sum %f dims [0, 1] : tensor<8x8xf32> -> tensor<f32>
  nano.return %l : tensor<f32>
}

// -----

// So does one that kernels add up which begin with the products.
// CHECK-LABEL: step.program @kernels
// CHECK-DAG:   %[[G:.*]] = step.state @grad.w : memref<8x8xf32>
// CHECK:       step.task ins(%{{.*}}) outs(%[[G]])
// CHECK:       step.task ins(%{{.*}}, %[[G]]) outs(%[[G]])
// CHECK-NOT:   step.copy
nano.state @grad.w : tensor<8x8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @kernels(%x: tensor<4x8xbf16>, %y: tensor<4x8xbf16>) -> tensor<f32> {
  %a = nano.fused(%x) : (tensor<4x8xbf16>) -> tensor<8x8xf32> {
  ^bb0(%p: tensor<4x8xbf16>):
    %m = nano.matmul %p, %p {transpose_a} : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xf32>
    nano.yield %m : tensor<8x8xf32>
  }
  %b = nano.fused(%y, %a) : (tensor<4x8xbf16>, tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%p: tensor<4x8xbf16>, %c: tensor<8x8xf32>):
    %m = nano.matmul %p, %p {transpose_a} : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xf32>
    %n = nano.add %m, %c : tensor<8x8xf32>
    nano.yield %n : tensor<8x8xf32>
  }
  nano.store %b, @grad.w : tensor<8x8xf32>
  %l = nano.reduce sum %x dims [0, 1] : tensor<4x8xbf16> -> tensor<bf16>
  %f = nano.cast %l : tensor<bf16> -> tensor<f32>
  nano.return %f : tensor<f32>
}

// -----

// None does where the state's old value is still to be read.
// CHECK-LABEL: step.program @old
// CHECK:       %[[F:.*]] = step.buffer "matmul" : memref<8x8xf32>
// CHECK:       step.matmul %{{.*}}, %{{.*}} into %[[F]] {transpose_a}
// CHECK:       step.task ins(%[[G:.*]]) outs(%{{.*}}) : (memref<8x8xf32>)
// CHECK:       step.matmul %{{.*}}, %{{.*}} add %[[F]] into %[[G]] {transpose_a}
nano.state @grad.w : tensor<8x8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @old(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<f32> {
  %a = nano.matmul %x, %x {transpose_a} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %old = nano.load @grad.w : tensor<8x8xf32>
  %l = nano.reduce sum %old dims [0, 1] : tensor<8x8xf32> -> tensor<f32>
  %b = nano.matmul %y, %y add %a {transpose_a} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  nano.store %b, @grad.w : tensor<8x8xf32>
  nano.return %l : tensor<f32>
}

// -----

// An optimizer's update: the collective and the parameter in place.
// CHECK-LABEL: step.program @update attributes {role = "update"}
// CHECK-DAG:   %[[G:.*]] = step.state @g : memref<8xf32>
// CHECK-DAG:   %[[P:.*]] = step.state @p : memref<8xf32>
// CHECK:       step.all_reduce %[[G]] : memref<8xf32>
// CHECK-NEXT:  step.task ins(%[[P]], %[[G]]) outs(%[[P]])
// CHECK-NOT:   step.copy
nano.state @p : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @g : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @update() attributes {role = "update"} {
  %g0 = nano.load @g : tensor<8xf32>
  %g1 = nano.all_reduce %g0 : tensor<8xf32>
  nano.store %g1, @g : tensor<8xf32>
  %p = nano.load @p : tensor<8xf32>
  %n = nano.fused (%p, %g1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    %s = nano.sub %a, %b : tensor<8xf32>
    nano.yield %s : tensor<8xf32>
  }
  nano.store %n, @p : tensor<8xf32>
  nano.return
}

// -----

// Slices are views; parts made for a concat are written in place; a part that is somebody else's is copied.
// CHECK-LABEL: step.program @parts
// CHECK-DAG:   %[[X:.*]] = step.state @parts.tokens : memref<4x8xf32>
// CHECK-DAG:   %[[Y:.*]] = step.state @parts.loss : memref<4x12xf32>
// CHECK-DAG:   %[[A:.*]] = step.view %[[X]] : memref<4x8xf32> to memref<4x4xf32, strided<[8, 1]>>
// CHECK-DAG:   %[[B:.*]] = step.view %[[X]] : memref<4x8xf32> to memref<4x4xf32, strided<[8, 1], offset: 4>>
// CHECK-DAG:   %[[Y0:.*]] = step.view %[[Y]] : memref<4x12xf32> to memref<4x4xf32, strided<[12, 1]>>
// CHECK-DAG:   %[[Y1:.*]] = step.view %[[Y]] : memref<4x12xf32> to memref<4x4xf32, strided<[12, 1], offset: 4>>
// CHECK-DAG:   %[[Y2:.*]] = step.view %[[Y]] : memref<4x12xf32> to memref<4x4xf32, strided<[12, 1], offset: 8>>
// CHECK:       step.task ins(%[[A]]) outs(%[[Y0]])
// CHECK:         nano.exp
// CHECK:       step.matmul %[[B]], %[[B]] into %[[Y1]] {transpose_b}
// CHECK:       step.task ins(%[[A]]) outs(%[[Y2]])
// CHECK:         nano.reshape
nano.program @parts(%x: tensor<4x8xf32>) -> tensor<4x12xf32> {
  %a = nano.slice %x dim 1 at 0 : tensor<4x8xf32> -> tensor<4x4xf32>
  %b = nano.slice %x dim 1 at 4 : tensor<4x8xf32> -> tensor<4x4xf32>
  %e = nano.exp %a : tensor<4x4xf32>
  %m = nano.matmul %b, %b {transpose_b} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = nano.concat %e, %m, %a dim 1 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x12xf32>
  nano.return %y : tensor<4x12xf32>
}

// -----

// A reshape that no strides express is copied by a task; a product takes a dense copy of rows that are apart in their columns.
// CHECK-LABEL: step.program @awkward
// CHECK:       step.task ins(%{{.*}}) outs(%[[FLAT:.*]]) : (memref<4x4xf32, strided<[8, 1]>>) -> memref<16xf32>
// CHECK-NEXT:  ^bb0(%[[ARG:.*]]: tensor<4x4xf32>):
// CHECK-NEXT:    nano.reshape %[[ARG]] : tensor<4x4xf32> -> tensor<16xf32>
// CHECK:       step.task ins(%[[FLAT]])
// CHECK:       step.task ins(%{{.*}}) outs(%[[DENSE:.*]]) : (memref<4x4xf32, strided<[8, 2], offset: 1>>) -> memref<4x4xf32>
// CHECK:       step.matmul %[[DENSE]], %[[DENSE]] into
nano.program @awkward(%x: tensor<4x8xf32>) -> (tensor<16xf32>, tensor<4x4xf32>) {
  %a = nano.slice %x dim 1 at 0 : tensor<4x8xf32> -> tensor<4x4xf32>
  %flat = nano.reshape %a : tensor<4x4xf32> -> tensor<16xf32>
  %e = nano.exp %flat : tensor<16xf32>
  %pairs = nano.reshape %x : tensor<4x8xf32> -> tensor<4x4x2xf32>
  %odd = nano.slice %pairs dim 2 at 1 : tensor<4x4x2xf32> -> tensor<4x4x1xf32>
  %columns = nano.reshape %odd : tensor<4x4x1xf32> -> tensor<4x4xf32>
  %m = nano.matmul %columns, %columns : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  nano.return %e, %m : tensor<16xf32>, tensor<4x4xf32>
}

// -----

// The old value is still read after the new one is computed: the store is a copy, and a load that outlives a store is one too.
// CHECK-LABEL: step.program @swap
// CHECK-DAG:   %[[A:.*]] = step.state @a : memref<8xf32>
// CHECK-DAG:   %[[B:.*]] = step.state @b : memref<8xf32>
// CHECK-DAG:   %[[OLD:.*]] = step.buffer "load" : memref<8xf32>
// CHECK:       step.copy %[[A]] to %[[OLD]]
// CHECK:       step.copy %[[B]] to %[[A]]
// CHECK:       step.copy %[[OLD]] to %[[B]]
nano.state @a : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @b : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @swap() {
  %a = nano.load @a : tensor<8xf32>
  %b = nano.load @b : tensor<8xf32>
  nano.store %b, @a : tensor<8xf32>
  nano.store %a, @b : tensor<8xf32>
  nano.return
}

// -----

// In place over what dies: a row's reduction comes before the row is written, but a rotated row must not be.
// CHECK-LABEL: step.program @rows
// CHECK:       step.task ins(%{{.*}}) outs(%[[X:.*]]) : (memref<8x16xf32>) -> memref<8x16xf32>
// CHECK:       step.task ins(%[[X]]) outs(%[[X]])
// CHECK:       step.task ins(%[[X]]) outs(%[[Y:.*]]) : (memref<8x16xf32>) -> memref<8x16xf32>
// CHECK:         nano.rotate
nano.program @rows(%in: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %x = nano.exp %in : tensor<8x16xf32>
  %n = nano.fused (%x) : (tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%a: tensor<8x16xf32>):
    %s = nano.reduce sum %a dims [1] : tensor<8x16xf32> -> tensor<8xf32>
    %b = nano.broadcast %s dims [0] : tensor<8xf32> -> tensor<8x16xf32>
    %y = nano.div %a, %b : tensor<8x16xf32>
    nano.yield %y : tensor<8x16xf32>
  }
  %r = nano.fused (%n) : (tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%a: tensor<8x16xf32>):
    %y = nano.rotate %a by 8 : tensor<8x16xf32>
    nano.yield %y : tensor<8x16xf32>
  }
  %o = nano.exp %r : tensor<8x16xf32>
  nano.return %o : tensor<8x16xf32>
}

// -----

// A result that is written before a later phase reads the operand again does not overwrite it.
// CHECK-LABEL: step.program @phases
// CHECK:       step.task ins(%{{.*}}) outs(%[[X:.*]]) : (memref<8x16xf32>) -> memref<8x16xf32>
// CHECK:       step.task ins(%[[X]]) outs(%[[E:.*]], %[[X]]) : (memref<8x16xf32>) -> (memref<8x16xf32>, memref<8x16xf32>)
nano.program @phases(%in: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %x = nano.exp %in : tensor<8x16xf32>
  %e, %n = nano.fused (%x) : (tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  ^bb0(%a: tensor<8x16xf32>):
    %e = nano.exp %a : tensor<8x16xf32>
    %s = nano.reduce sum %a dims [1] : tensor<8x16xf32> -> tensor<8xf32>
    %b = nano.broadcast %s dims [0] : tensor<8xf32> -> tensor<8x16xf32>
    %y = nano.div %a, %b : tensor<8x16xf32>
    nano.yield %e, %y : tensor<8x16xf32>, tensor<8x16xf32>
  }
  %o = nano.add %e, %n : tensor<8x16xf32>
  nano.return %o : tensor<8x16xf32>
}
