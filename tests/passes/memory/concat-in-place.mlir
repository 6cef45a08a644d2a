// A concat of parts of a tensor, and of others in place of the rest, lies in that tensor: nothing is copied.
// RUN: nano-opt %s -nano-bufferize -split-input-file | FileCheck %s

// Columns of two halves of a product's rows that a kernel turns; the third part is read as it is.
// CHECK-LABEL: step.program @turned
// CHECK-DAG:   %[[P:.*]] = step.buffer "matmul" : memref<8x96xbf16>
// CHECK-DAG:   %[[Q:.*]] = step.view %[[P]] : memref<8x96xbf16> to memref<8x2x8xbf16, strided<[96, 48, 1]>>
// CHECK-DAG:   %[[K:.*]] = step.view %[[P]] : memref<8x96xbf16> to memref<8x2x8xbf16, strided<[96, 48, 1], offset: 16>>
// CHECK-DAG:   %[[TQ:.*]] = step.view %[[P]] : memref<8x96xbf16> to memref<8x2x16xbf16, strided<[96, 48, 1]>>
// CHECK-DAG:   %[[TK:.*]] = step.view %[[P]] : memref<8x96xbf16> to memref<8x2x16xbf16, strided<[96, 48, 1], offset: 16>>
// CHECK-DAG:   %[[V:.*]] = step.view %[[P]] : memref<8x96xbf16> to memref<8x2x16xbf16, strided<[96, 48, 1], offset: 32>>
// CHECK:       step.matmul %{{.*}}, %{{.*}} into %[[P]]
// CHECK-NEXT:  step.task ins(%[[Q]], %[[K]]) outs(%[[Q]], %[[K]])
// CHECK-NOT:   step.copy
// CHECK-NOT:   step.task ins(%{{[^,]*}}) outs
// CHECK:       step.task ins(%[[TQ]], %[[TK]], %[[V]])
nano.program @turned(%x: tensor<8x32xbf16>, %w: tensor<32x96xbf16>) -> tensor<8x2x16xbf16> {
  %p = nano.matmul %x, %w : (tensor<8x32xbf16>, tensor<32x96xbf16>) -> tensor<8x96xbf16>
  %h = nano.reshape %p : tensor<8x96xbf16> -> tensor<8x2x48xbf16>
  %q = nano.slice %h dim 2 at 0 : tensor<8x2x48xbf16> -> tensor<8x2x16xbf16>
  %k = nano.slice %h dim 2 at 16 : tensor<8x2x48xbf16> -> tensor<8x2x16xbf16>
  %v = nano.slice %h dim 2 at 32 : tensor<8x2x48xbf16> -> tensor<8x2x16xbf16>
  %q0 = nano.slice %q dim 2 at 0 : tensor<8x2x16xbf16> -> tensor<8x2x8xbf16>
  %q1 = nano.slice %q dim 2 at 8 : tensor<8x2x16xbf16> -> tensor<8x2x8xbf16>
  %k0 = nano.slice %k dim 2 at 0 : tensor<8x2x16xbf16> -> tensor<8x2x8xbf16>
  %k1 = nano.slice %k dim 2 at 8 : tensor<8x2x16xbf16> -> tensor<8x2x8xbf16>
  %t:2 = nano.fused(%q0, %k0) : (tensor<8x2x8xbf16>, tensor<8x2x8xbf16>) -> (tensor<8x2x8xbf16>, tensor<8x2x8xbf16>) {
  ^bb0(%a: tensor<8x2x8xbf16>, %b: tensor<8x2x8xbf16>):
    %c = nano.rotate %a by 4 : tensor<8x2x8xbf16>
    %d = nano.add %a, %c : tensor<8x2x8xbf16>
    %e = nano.rotate %b by 4 : tensor<8x2x8xbf16>
    %f = nano.add %b, %e : tensor<8x2x8xbf16>
    nano.yield %d, %f : tensor<8x2x8xbf16>, tensor<8x2x8xbf16>
  }
  %tq = nano.concat %t#0, %q1 dim 2 : (tensor<8x2x8xbf16>, tensor<8x2x8xbf16>) -> tensor<8x2x16xbf16>
  %tk = nano.concat %t#1, %k1 dim 2 : (tensor<8x2x8xbf16>, tensor<8x2x8xbf16>) -> tensor<8x2x16xbf16>
  %y = nano.fused(%tq, %tk, %v) : (tensor<8x2x16xbf16>, tensor<8x2x16xbf16>, tensor<8x2x16xbf16>) -> tensor<8x2x16xbf16> {
  ^bb0(%a: tensor<8x2x16xbf16>, %b: tensor<8x2x16xbf16>, %c: tensor<8x2x16xbf16>):
    %d = nano.add %a, %b : tensor<8x2x16xbf16>
    %e = nano.add %d, %c : tensor<8x2x16xbf16>
    nano.yield %e : tensor<8x2x16xbf16>
  }
  nano.return %y : tensor<8x2x16xbf16>
}

// -----

// Of a concat that is itself a part of one: what it is a part of is made there.
// CHECK-LABEL: step.program @part
// CHECK-DAG:   %[[C:.*]] = step.buffer "concat" : memref<8x48xf32>
// CHECK-DAG:   %[[A:.*]] = step.view %[[C]] : memref<8x48xf32> to memref<8x32xf32, strided<[48, 1]>>
// CHECK-DAG:   %[[B:.*]] = step.view %[[C]] : memref<8x48xf32> to memref<8x8xf32, strided<[48, 1], offset: 24>>
// CHECK:       step.task ins(%{{.*}}) outs(%[[A]])
// CHECK-NEXT:  ^bb0
// CHECK-NEXT:    nano.exp
// CHECK:       step.task ins(%[[B]]) outs(%[[B]])
// CHECK-NOT:   nano.reshape
// CHECK:       step.matmul %[[C]], %[[C]]
nano.program @part(%x: tensor<8x32xf32>) -> tensor<8x8xf32> {
  %a = nano.exp %x : tensor<8x32xf32>
  %rest = nano.slice %a dim 1 at 0 : tensor<8x32xf32> -> tensor<8x24xf32>
  %old = nano.slice %a dim 1 at 24 : tensor<8x32xf32> -> tensor<8x8xf32>
  %new = nano.neg %old : tensor<8x8xf32>
  %changed = nano.concat %rest, %new dim 1 : (tensor<8x24xf32>, tensor<8x8xf32>) -> tensor<8x32xf32>
  %half = nano.slice %x dim 1 at 0 : tensor<8x32xf32> -> tensor<8x16xf32>
  %other = nano.sin %half : tensor<8x16xf32>
  %c = nano.concat %changed, %other dim 1 : (tensor<8x32xf32>, tensor<8x16xf32>) -> tensor<8x48xf32>
  %y = nano.matmul %c, %c {transpose_b} : (tensor<8x48xf32>, tensor<8x48xf32>) -> tensor<8x8xf32>
  nano.return %y : tensor<8x8xf32>
}

// -----

// What was there is read later; other rows are read by who writes; and columns that change places.
// CHECK-LABEL: step.program @later
// CHECK:       step.task
// CHECK:         nano.reshape
// CHECK-LABEL: step.program @elsewhere
// CHECK:       step.task
// CHECK:         nano.reshape
// CHECK-LABEL: step.program @swapped
// CHECK:       step.task
// CHECK:         nano.reshape
// CHECK:       step.task
// CHECK:         nano.reshape
nano.program @later(%x: tensor<8x32xf32>) -> tensor<8x8xf32> {
  %a = nano.exp %x : tensor<8x32xf32>
  %rest = nano.slice %a dim 1 at 0 : tensor<8x32xf32> -> tensor<8x24xf32>
  %old = nano.slice %a dim 1 at 24 : tensor<8x32xf32> -> tensor<8x8xf32>
  %new = nano.neg %old : tensor<8x8xf32>
  %c = nano.concat %rest, %new dim 1 : (tensor<8x24xf32>, tensor<8x8xf32>) -> tensor<8x32xf32>
  %y = nano.matmul %c, %a {transpose_b} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x8xf32>
  nano.return %y : tensor<8x8xf32>
}
nano.program @elsewhere(%x: tensor<8x32xf32>) -> tensor<8x8xf32> {
  %a = nano.exp %x : tensor<8x32xf32>
  %rest = nano.slice %a dim 1 at 0 : tensor<8x32xf32> -> tensor<8x24xf32>
  %last = nano.slice %a dim 1 at 20 : tensor<8x32xf32> -> tensor<8x8xf32>
  %new = nano.neg %last : tensor<8x8xf32>
  %c = nano.concat %rest, %new dim 1 : (tensor<8x24xf32>, tensor<8x8xf32>) -> tensor<8x32xf32>
  %y = nano.matmul %c, %c {transpose_b} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x8xf32>
  nano.return %y : tensor<8x8xf32>
}
nano.program @swapped(%x: tensor<8x32xf32>) -> tensor<8x8xf32> {
  %a = nano.exp %x : tensor<8x32xf32>
  %first = nano.slice %a dim 1 at 0 : tensor<8x32xf32> -> tensor<8x16xf32>
  %last = nano.slice %a dim 1 at 16 : tensor<8x32xf32> -> tensor<8x16xf32>
  %c = nano.concat %last, %first dim 1 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x32xf32>
  %y = nano.matmul %c, %c {transpose_b} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x8xf32>
  nano.return %y : tensor<8x8xf32>
}

// -----

// A wide tensor that nobody else needs is not held for some of its columns.
// CHECK-LABEL: step.program @wide
// CHECK:       step.task
// CHECK:         nano.reshape
nano.program @wide(%x: tensor<8x64xf32>) -> tensor<8x8xf32> {
  %a = nano.exp %x : tensor<8x64xf32>
  %rest = nano.slice %a dim 1 at 0 : tensor<8x64xf32> -> tensor<8x8xf32>
  %old = nano.slice %a dim 1 at 8 : tensor<8x64xf32> -> tensor<8x8xf32>
  %new = nano.neg %old : tensor<8x8xf32>
  %c = nano.concat %rest, %new dim 1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x16xf32>
  %y = nano.matmul %c, %c {transpose_b} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32>
  nano.return %y : tensor<8x8xf32>
}

// -----

// Rows that a kernel makes of the rows of another tensor, which nobody reads afterwards, lie in their place: a chunk at a time.
// CHECK-LABEL: step.program @chunks
// CHECK-DAG:   %[[A:.*]] = step.buffer "exp" : memref<8x32xf32>
// CHECK-DAG:   %[[TOP:.*]] = step.view %[[A]] : memref<8x32xf32> to memref<4x32xf32>
// CHECK-DAG:   %[[REST:.*]] = step.view %[[A]] : memref<8x32xf32> to memref<4x32xf32, strided<[32, 1], offset: 128>>
// CHECK:       step.task ins(%[[TOP]]{{.*}}) outs(%[[TOP]])
// CHECK:       step.task ins(%[[REST]]{{.*}}) outs(%[[REST]])
// CHECK:       step.matmul %[[A]], %[[A]]
nano.program @chunks(%x: tensor<8x32xf32>, %w: tensor<32x32xf32>) -> tensor<8x8xf32> {
  %a = nano.exp %x : tensor<8x32xf32>
  %top = nano.slice %a dim 0 at 0 : tensor<8x32xf32> -> tensor<4x32xf32>
  %p = nano.matmul %top, %w : (tensor<4x32xf32>, tensor<32x32xf32>) -> tensor<4x32xf32>
  %c0 = nano.sub %top, %p : tensor<4x32xf32>
  %rest = nano.slice %a dim 0 at 4 : tensor<8x32xf32> -> tensor<4x32xf32>
  %q = nano.matmul %rest, %w : (tensor<4x32xf32>, tensor<32x32xf32>) -> tensor<4x32xf32>
  %c1 = nano.sub %rest, %q : tensor<4x32xf32>
  %c = nano.concat %c0, %c1 dim 0 : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<8x32xf32>
  %y = nano.matmul %c, %c {transpose_b} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x8xf32>
  nano.return %y : tensor<8x8xf32>
}

// -----

// Not where later rows are made of earlier ones, or who makes them reads all rows.
// CHECK-LABEL: step.program @earlier
// CHECK-DAG:   step.buffer "exp" : memref<8x32xf32>
// CHECK-DAG:   step.buffer "concat" : memref<8x32xf32>
// CHECK-LABEL: step.program @all
// CHECK-DAG:   step.buffer "exp" : memref<8x32xf32>
// CHECK-DAG:   step.buffer "concat" : memref<8x32xf32>
nano.program @earlier(%x: tensor<8x32xf32>) -> tensor<8x8xf32> {
  %a = nano.exp %x : tensor<8x32xf32>
  %top = nano.slice %a dim 0 at 0 : tensor<8x32xf32> -> tensor<4x32xf32>
  %c0 = nano.neg %top : tensor<4x32xf32>
  %rest = nano.slice %a dim 0 at 4 : tensor<8x32xf32> -> tensor<4x32xf32>
  %c1 = nano.mul %rest, %top : tensor<4x32xf32>
  %c = nano.concat %c0, %c1 dim 0 : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<8x32xf32>
  %y = nano.matmul %c, %c {transpose_b} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x8xf32>
  nano.return %y : tensor<8x8xf32>
}
nano.program @all(%x: tensor<8x32xf32>) -> tensor<8x8xf32> {
  %a = nano.exp %x : tensor<8x32xf32>
  %top = nano.slice %a dim 0 at 0 : tensor<8x32xf32> -> tensor<4x32xf32>
  %s = nano.matmul %top, %a {transpose_b} : (tensor<4x32xf32>, tensor<8x32xf32>) -> tensor<4x8xf32>
  %p = nano.matmul %s, %a : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32>
  %c0 = nano.sub %top, %p : tensor<4x32xf32>
  %rest = nano.slice %a dim 0 at 4 : tensor<8x32xf32> -> tensor<4x32xf32>
  %t = nano.matmul %rest, %a {transpose_b} : (tensor<4x32xf32>, tensor<8x32xf32>) -> tensor<4x8xf32>
  %q = nano.matmul %t, %a : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32>
  %c1 = nano.sub %rest, %q : tensor<4x32xf32>
  %c = nano.concat %c0, %c1 dim 0 : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<8x32xf32>
  %y = nano.matmul %c, %c {transpose_b} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x8xf32>
  nano.return %y : tensor<8x8xf32>
}
