// RUN: nano-opt %s -nano-bufferize -split-input-file | FileCheck %s

nano.state @bank : tensor<2x2x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @whole : tensor<4x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// What is combined in place is made in the state, parts in the places of a concat that lies in one, and a concat's operands where they are sent from: nothing is copied.
// CHECK-LABEL: step.program @last
// CHECK:       %[[WHOLE:.*]] = step.state @whole
// CHECK:       %[[ROUND:.*]] = step.buffer "concat" : memref<2x2x4xf32>
// CHECK:       %[[BANK:.*]] = step.state @bank
// CHECK:       %[[FIRST:.*]] = step.view %[[BANK]] : memref<2x2x4xf32> to memref<1x2x4xf32>
// CHECK:       %[[SECOND:.*]] = step.view %[[BANK]] : memref<2x2x4xf32> to memref<1x2x4xf32, strided<[8, 4, 1], offset: 8>>
// CHECK-NOT:   step.copy
// CHECK:       step.matmul {{.*}} into %[[WHOLE]]
// CHECK-NEXT:  step.all_reduce %[[WHOLE]] : memref<4x4xf32>
// CHECK:       step.matmul {{.*}} into %concat_part {{.*}}, memref<2x4xf32>
// CHECK:       step.matmul {{.*}} into %concat_part{{.*}}, memref<2x4xf32, strided<[4, 1], offset: 8>>
// CHECK:       step.reduce_scatter ins(%[[ROUND]]) outs(%[[FIRST]]) parts 2 over group : (memref<2x2x4xf32>) -> memref<1x2x4xf32>
// CHECK-NEXT:  step.all_reduce %[[ROUND]] by max over peers : memref<2x2x4xf32>
// CHECK-NEXT:  step.shard ins(%[[ROUND]]) outs(%[[SECOND]]) parts 2 over group : (memref<2x2x4xf32>) -> memref<1x2x4xf32, strided<[8, 4, 1], offset: 8>>
// CHECK-NOT:   step.copy
nano.program @last(%x: tensor<4x8xf32>, %y: tensor<2x8xf32>) attributes {role = "last"} {
  %g = nano.matmul %x, %x {transpose_b} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  %sum = nano.all_reduce %g : tensor<4x4xf32>
  nano.store %sum, @whole : tensor<4x4xf32>
  %a = nano.matmul %y, %x {transpose_b} : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
  %b = nano.matmul %y, %x {transpose_b, alpha = 2.0 : f64} : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
  %a3 = nano.reshape %a : tensor<2x4xf32> -> tensor<1x2x4xf32>
  %b3 = nano.reshape %b : tensor<2x4xf32> -> tensor<1x2x4xf32>
  %round = nano.concat %a3, %b3 dim 0 : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<2x2x4xf32>
  %first = nano.reduce_scatter %round parts 2 over group : (tensor<2x2x4xf32>) -> tensor<1x2x4xf32>
  %most = nano.all_reduce %round by max over peers : tensor<2x2x4xf32>
  %second = nano.shard %most parts 2 over group : (tensor<2x2x4xf32>) -> tensor<1x2x4xf32>
  %bank = nano.concat %first, %second dim 0 : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<2x2x4xf32>
  nano.store %bank, @bank : tensor<2x2x4xf32>
  nano.return
}

// A gather lands in the result; an operand that is not contiguous is copied first.
// CHECK-LABEL: step.program @update
// CHECK:       step.task ins(%update.tokens_part) outs(%[[DENSE:.*]]) : {{.*}} -> memref<2x2xf32>
// CHECK:       step.all_gather ins(%[[DENSE]]) outs(%update.loss) parts 2 over group : (memref<2x2xf32>) -> memref<4x2xf32>
nano.program @update(%x: tensor<2x4xf32>) -> tensor<4x2xf32> attributes {role = "update"} {
  %part = nano.slice %x dim 1 at 1 : tensor<2x4xf32> -> tensor<2x2xf32>
  %all = nano.all_gather %part parts 2 over group : (tensor<2x2xf32>) -> tensor<4x2xf32>
  nano.return %all : tensor<4x2xf32>
}

// -----

nano.state @s : tensor<4x4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// A state that becomes another arrangement of itself goes through memory of its own.
// CHECK-LABEL: step.program @turn
// CHECK:       %[[MOVED:.*]] = step.buffer "moved" : memref<4x4xf32>
// CHECK:       step.task ins(%s_part) outs(%[[MOVED]])
// CHECK:       step.copy %[[MOVED]] to %s : memref<4x4xf32>, memref<4x4xf32>
nano.program @turn() {
  %0 = nano.load @s : tensor<4x4xf32>
  %1 = nano.transpose %0 : tensor<4x4xf32> -> tensor<4x4xf32>
  nano.store %1, @s : tensor<4x4xf32>
  nano.return
}
