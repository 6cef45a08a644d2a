// RUN: nano-opt %s -nano-join-scatters | FileCheck %s

// The sum of two embeddings' gradients and something else: one table, with the rows of both.
// CHECK-LABEL: nano.program @joined(
// CHECK-SAME:    %[[A:.*]]: tensor<6x8xbf16>, %[[B:.*]]: tensor<8x8xbf16>, %[[I:.*]]: tensor<6xi32>, %[[J:.*]]: tensor<8xi32>, %[[C:.*]]: tensor<20x8xf32>)
// CHECK-DAG:     %[[IDS:.*]] = nano.concat %[[I]], %[[J]] dim 0 : (tensor<6xi32>, tensor<8xi32>) -> tensor<14xi32>
// CHECK-DAG:     %[[X:.*]] = nano.concat %[[A]], %[[B]] dim 0 : (tensor<6x8xbf16>, tensor<8x8xbf16>) -> tensor<14x8xbf16>
// CHECK:         %[[Y:.*]] = nano.scatter_add %[[X]], %[[IDS]] : (tensor<14x8xbf16>, tensor<14xi32>) -> tensor<20x8xf32>
// CHECK:         %[[S:.*]] = nano.add %[[C]], %[[Y]]
// CHECK:         nano.return %[[S]]
nano.program @joined(%a: tensor<6x8xbf16>, %b: tensor<8x8xbf16>, %i: tensor<6xi32>, %j: tensor<8xi32>, %c: tensor<20x8xf32>) -> tensor<20x8xf32> {
  %y = nano.scatter_add %a, %i : (tensor<6x8xbf16>, tensor<6xi32>) -> tensor<20x8xf32>
  %yc = nano.add %y, %c : tensor<20x8xf32>
  %z = nano.scatter_add %b, %j : (tensor<8x8xbf16>, tensor<8xi32>) -> tensor<20x8xf32>
  %s = nano.add %yc, %z : tensor<20x8xf32>
  nano.return %s : tensor<20x8xf32>
}

// Tables that are read with the same ids share their concatenation.
// CHECK-LABEL: nano.program @shared(
// CHECK:         %[[IDS:.*]] = nano.concat %{{.*}}, %{{.*}} dim 0 : (tensor<6xi32>, tensor<6xi32>) -> tensor<12xi32>
// CHECK:         nano.scatter_add %{{.*}}, %[[IDS]] :
// CHECK-NOT:     tensor<12xi32>{{$}}
// CHECK:         nano.scatter_add %{{.*}}, %[[IDS]] :
// CHECK-NOT:     nano.scatter_add
nano.program @shared(%a: tensor<6x8xbf16>, %b: tensor<6x8xbf16>, %c: tensor<6x8xbf16>, %d: tensor<6x8xbf16>, %i: tensor<6xi32>) -> (tensor<20x8xf32>, tensor<20x8xf32>) {
  %w = nano.scatter_add %a, %i : (tensor<6x8xbf16>, tensor<6xi32>) -> tensor<20x8xf32>
  %x = nano.scatter_add %b, %i : (tensor<6x8xbf16>, tensor<6xi32>) -> tensor<20x8xf32>
  %y = nano.scatter_add %c, %i : (tensor<6x8xbf16>, tensor<6xi32>) -> tensor<20x8xf32>
  %z = nano.scatter_add %d, %i : (tensor<6x8xbf16>, tensor<6xi32>) -> tensor<20x8xf32>
  %s = nano.add %w, %x : tensor<20x8xf32>
  %t = nano.add %y, %z : tensor<20x8xf32>
  nano.return %s, %t : tensor<20x8xf32>, tensor<20x8xf32>
}

// The rows of three are more than a table: two join. 4·8·20 = 640 bytes are 2·8·40.
// CHECK-LABEL: nano.program @many(
// CHECK:         %[[ALONE:.*]] = nano.scatter_add %arg2, %arg3 : (tensor<20x8xbf16>, tensor<20xi32>) -> tensor<20x8xf32>
// CHECK:         %[[BOTH:.*]] = nano.scatter_add %{{.*}}, %{{.*}} : (tensor<40x8xbf16>, tensor<40xi32>) -> tensor<20x8xf32>
// CHECK:         nano.add %[[ALONE]], %[[BOTH]]
nano.program @many(%a: tensor<20x8xbf16>, %b: tensor<20x8xbf16>, %c: tensor<20x8xbf16>, %i: tensor<20xi32>) -> tensor<20x8xf32> {
  %x = nano.scatter_add %a, %i : (tensor<20x8xbf16>, tensor<20xi32>) -> tensor<20x8xf32>
  %y = nano.scatter_add %b, %i : (tensor<20x8xbf16>, tensor<20xi32>) -> tensor<20x8xf32>
  %z = nano.scatter_add %c, %i : (tensor<20x8xbf16>, tensor<20xi32>) -> tensor<20x8xf32>
  %xy = nano.add %x, %y : tensor<20x8xf32>
  %s = nano.add %xy, %z : tensor<20x8xf32>
  nano.return %s : tensor<20x8xf32>
}

// A table that something else reads stays, and so do those of bf16, which are rounded before they are added, and rows of different types.
// CHECK-LABEL: nano.program @apart(
// CHECK-NOT:     nano.concat
// CHECK:         nano.return
nano.program @apart(%a: tensor<6x8xbf16>, %b: tensor<6x8xbf16>, %c: tensor<6x8xf32>, %i: tensor<6xi32>) -> (tensor<20x8xf32>, tensor<20x8xf32>, tensor<20x8xbf16>, tensor<20x8xf32>) {
  %w = nano.scatter_add %a, %i : (tensor<6x8xbf16>, tensor<6xi32>) -> tensor<20x8xf32>
  %x = nano.scatter_add %b, %i : (tensor<6x8xbf16>, tensor<6xi32>) -> tensor<20x8xf32>
  %s = nano.add %w, %x : tensor<20x8xf32>
  %y = nano.scatter_add %a, %i : (tensor<6x8xbf16>, tensor<6xi32>) -> tensor<20x8xbf16>
  %z = nano.scatter_add %b, %i : (tensor<6x8xbf16>, tensor<6xi32>) -> tensor<20x8xbf16>
  %t = nano.add %y, %z : tensor<20x8xbf16>
  %u = nano.scatter_add %a, %i : (tensor<6x8xbf16>, tensor<6xi32>) -> tensor<20x8xf32>
  %v = nano.scatter_add %c, %i : (tensor<6x8xf32>, tensor<6xi32>) -> tensor<20x8xf32>
  %r = nano.add %u, %v : tensor<20x8xf32>
  nano.return %s, %x, %t, %r : tensor<20x8xf32>, tensor<20x8xf32>, tensor<20x8xbf16>, tensor<20x8xf32>
}
