// What attention reads lies where the rows were that it is made of, in a tensor that is held about as long in any case.
// RUN: nano-opt %s -nano-bufferize -split-input-file | FileCheck %s

// Queries and keys are turned beside the values, which attention reads where the product made them.
// CHECK-LABEL: step.program @beside
// CHECK-DAG:   %[[P:.*]] = step.buffer "matmul" : memref<8x48xbf16>
// CHECK-DAG:   %[[Q:.*]] = step.view %[[P]] : memref<8x48xbf16> to memref<8x2x8xbf16, strided<[48, 8, 1]>>
// CHECK-DAG:   %[[K:.*]] = step.view %[[P]] : memref<8x48xbf16> to memref<8x2x8xbf16, strided<[48, 8, 1], offset: 16>>
// CHECK-DAG:   %[[V:.*]] = step.view %[[P]] : memref<8x48xbf16> to memref<8x2x8xbf16, strided<[48, 8, 1], offset: 32>>
// CHECK:       step.matmul %{{.*}}, %{{.*}} into %[[P]]
// CHECK-NEXT:  step.task ins(%[[Q]], %[[K]]) outs(%[[Q]], %[[K]])
// CHECK:       step.task ins(%[[Q]], %[[K]], %[[V]],
nano.program @beside(%x: tensor<8x32xbf16>, %w: tensor<32x48xbf16>, %first: tensor<8xi32>, %last: tensor<8xi32>) -> tensor<8x2x8xbf16> {
  %p = nano.matmul %x, %w : (tensor<8x32xbf16>, tensor<32x48xbf16>) -> tensor<8x48xbf16>
  %h = nano.reshape %p : tensor<8x48xbf16> -> tensor<8x6x8xbf16>
  %q = nano.slice %h dim 1 at 0 : tensor<8x6x8xbf16> -> tensor<8x2x8xbf16>
  %k = nano.slice %h dim 1 at 2 : tensor<8x6x8xbf16> -> tensor<8x2x8xbf16>
  %v = nano.slice %h dim 1 at 4 : tensor<8x6x8xbf16> -> tensor<8x2x8xbf16>
  %t:2 = nano.fused(%q, %k) : (tensor<8x2x8xbf16>, tensor<8x2x8xbf16>) -> (tensor<8x2x8xbf16>, tensor<8x2x8xbf16>) {
  ^bb0(%a: tensor<8x2x8xbf16>, %b: tensor<8x2x8xbf16>):
    %c = nano.rotate %a by 4 : tensor<8x2x8xbf16>
    %d = nano.add %a, %c : tensor<8x2x8xbf16>
    %e = nano.rotate %b by 4 : tensor<8x2x8xbf16>
    %f = nano.add %b, %e : tensor<8x2x8xbf16>
    nano.yield %d, %f : tensor<8x2x8xbf16>, tensor<8x2x8xbf16>
  }
  %y, %lse = nano.attention %t#0, %t#1, %v, %first, %last scale 2.500000e-01 : (tensor<8x2x8xbf16>, tensor<8x2x8xbf16>, tensor<8x2x8xbf16>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x8xbf16>, tensor<8x2xf32>)
  nano.return %y : tensor<8x2x8xbf16>
}

// -----

// Not where the rows are read afterwards.
// CHECK-LABEL: step.program @read_later
// CHECK-DAG:   %[[P:.*]] = step.buffer "matmul" : memref<8x48xbf16>
// CHECK-DAG:   %[[Q:.*]] = step.view %[[P]] : memref<8x48xbf16> to memref<8x2x8xbf16, strided<[48, 8, 1]>>
// CHECK-DAG:   %[[T:.*]] = step.buffer "add" : memref<8x2x8xbf16>
// CHECK:       step.task ins(%[[Q]]) outs(%[[T]])
// CHECK:       step.task ins(%[[T]],
nano.program @read_later(%x: tensor<8x32xbf16>, %w: tensor<32x48xbf16>, %first: tensor<8xi32>, %last: tensor<8xi32>) -> (tensor<8x2x8xbf16>, tensor<8x2x8xbf16>) {
  %p = nano.matmul %x, %w : (tensor<8x32xbf16>, tensor<32x48xbf16>) -> tensor<8x48xbf16>
  %h = nano.reshape %p : tensor<8x48xbf16> -> tensor<8x6x8xbf16>
  %q = nano.slice %h dim 1 at 0 : tensor<8x6x8xbf16> -> tensor<8x2x8xbf16>
  %k = nano.slice %h dim 1 at 2 : tensor<8x6x8xbf16> -> tensor<8x2x8xbf16>
  %v = nano.slice %h dim 1 at 4 : tensor<8x6x8xbf16> -> tensor<8x2x8xbf16>
  %t = nano.fused(%q) : (tensor<8x2x8xbf16>) -> tensor<8x2x8xbf16> {
  ^bb0(%a: tensor<8x2x8xbf16>):
    %c = nano.rotate %a by 4 : tensor<8x2x8xbf16>
    %d = nano.add %a, %c : tensor<8x2x8xbf16>
    nano.yield %d : tensor<8x2x8xbf16>
  }
  %y, %lse = nano.attention %t, %k, %v, %first, %last scale 2.500000e-01 : (tensor<8x2x8xbf16>, tensor<8x2x8xbf16>, tensor<8x2x8xbf16>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x8xbf16>, tensor<8x2xf32>)
  %e = nano.exp %q : tensor<8x2x8xbf16>
  nano.return %y, %e : tensor<8x2x8xbf16>, tensor<8x2x8xbf16>
}

// -----

// Nor where two results are made of one part: the second one has memory of its own.
// CHECK-LABEL: step.program @twice
// CHECK-DAG:   %[[P:.*]] = step.buffer "matmul" : memref<8x48xbf16>
// CHECK-DAG:   %[[Q:.*]] = step.view %[[P]] : memref<8x48xbf16> to memref<8x2x8xbf16, strided<[48, 8, 1]>>
// CHECK-DAG:   %[[T:.*]] = step.buffer {{.*}} : memref<8x2x8xbf16>
// CHECK:       step.task ins(%[[Q]]) outs(%[[Q]], %[[T]])
nano.program @twice(%x: tensor<8x32xbf16>, %w: tensor<32x48xbf16>, %first: tensor<8xi32>, %last: tensor<8xi32>) -> tensor<8x2x8xbf16> {
  %p = nano.matmul %x, %w : (tensor<8x32xbf16>, tensor<32x48xbf16>) -> tensor<8x48xbf16>
  %h = nano.reshape %p : tensor<8x48xbf16> -> tensor<8x6x8xbf16>
  %q = nano.slice %h dim 1 at 0 : tensor<8x6x8xbf16> -> tensor<8x2x8xbf16>
  %v = nano.slice %h dim 1 at 4 : tensor<8x6x8xbf16> -> tensor<8x2x8xbf16>
  %t:2 = nano.fused(%q) : (tensor<8x2x8xbf16>) -> (tensor<8x2x8xbf16>, tensor<8x2x8xbf16>) {
  ^bb0(%a: tensor<8x2x8xbf16>):
    %c = nano.exp %a : tensor<8x2x8xbf16>
    %d = nano.neg %a : tensor<8x2x8xbf16>
    nano.yield %c, %d : tensor<8x2x8xbf16>, tensor<8x2x8xbf16>
  }
  %y, %lse = nano.attention %t#0, %t#1, %v, %first, %last scale 2.500000e-01 : (tensor<8x2x8xbf16>, tensor<8x2x8xbf16>, tensor<8x2x8xbf16>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x8xbf16>, tensor<8x2xf32>)
  nano.return %y : tensor<8x2x8xbf16>
}

// -----

// Nor where the whole tensor would be held longer for it: its other parts are read at once, what is made of one much later.
// CHECK-LABEL: step.program @longer
// CHECK-DAG:   %[[P:.*]] = step.buffer "matmul" : memref<8x48xbf16>
// CHECK-DAG:   %[[Q:.*]] = step.view %[[P]] : memref<8x48xbf16> to memref<8x2x8xbf16, strided<[48, 8, 1]>>
// CHECK-DAG:   %[[T:.*]] = step.buffer "exp" : memref<8x2x8xbf16>
// CHECK:       step.task ins(%[[Q]]) outs(%[[T]])
nano.program @longer(%x: tensor<8x32xbf16>, %w: tensor<32x48xbf16>, %first: tensor<8xi32>, %last: tensor<8xi32>) -> tensor<8x2x8xbf16> {
  %p = nano.matmul %x, %w : (tensor<8x32xbf16>, tensor<32x48xbf16>) -> tensor<8x48xbf16>
  %h = nano.reshape %p : tensor<8x48xbf16> -> tensor<8x6x8xbf16>
  %q = nano.slice %h dim 1 at 0 : tensor<8x6x8xbf16> -> tensor<8x2x8xbf16>
  %k = nano.slice %h dim 1 at 2 : tensor<8x6x8xbf16> -> tensor<8x2x8xbf16>
  %t = nano.fused(%q) : (tensor<8x2x8xbf16>) -> tensor<8x2x8xbf16> {
  ^bb0(%a: tensor<8x2x8xbf16>):
    %c = nano.exp %a : tensor<8x2x8xbf16>
    nano.yield %c : tensor<8x2x8xbf16>
  }
  %a = nano.exp %k : tensor<8x2x8xbf16>
  %b = nano.exp %a : tensor<8x2x8xbf16>
  %c = nano.exp %b : tensor<8x2x8xbf16>
  %d = nano.exp %c : tensor<8x2x8xbf16>
  %y, %lse = nano.attention %t, %d, %d, %first, %last scale 2.500000e-01 : (tensor<8x2x8xbf16>, tensor<8x2x8xbf16>, tensor<8x2x8xbf16>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x8xbf16>, tensor<8x2xf32>)
  nano.return %y : tensor<8x2x8xbf16>
}
