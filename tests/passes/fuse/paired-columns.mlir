// RUN: nano-opt %s -nano-fuse -split-input-file | FileCheck %s

// Neighbours turned as pairs: one kernel of whole rows, in which each column's neighbour is a rotation of two.
// CHECK-LABEL: nano.program @turned
// CHECK-SAME: (%[[X:[^:]*]]: tensor<64x2x16x2xbf16>
// CHECK-NOT: nano.slice
// CHECK-NOT: nano.concat
// CHECK: nano.fused(%[[X]], {{.*}}) : (tensor<64x2x16x2xbf16>, tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x2x16x2xbf16>
// CHECK: %[[P:.*]] = nano.mul %{{.*}}, %{{.*}} : tensor<64x2x16x2xf32>
// CHECK: nano.rotate %{{.*}} by 1 : tensor<64x2x16x2xbf16>
// CHECK: %[[R:.*]] = nano.mul %{{.*}}, %{{.*}} : tensor<64x2x16x2xf32>
// CHECK: %[[N:.*]] = nano.neg %[[R]]
// CHECK: %[[S:.*]] = nano.select lt, %{{.*}}, %{{.*}}, %[[N]], %[[R]] : tensor<64x2x16x2xi32>, tensor<64x2x16x2xf32>
// CHECK: nano.add %[[P]], %[[S]]
// CHECK: nano.yield %{{.*}} : tensor<64x2x16x2xbf16>
// CHECK-NOT: nano.concat
// CHECK: nano.return
nano.program @turned(%x: tensor<64x2x16x2xbf16>, %cos: tensor<64x16xf32>, %sin: tensor<64x16xf32>) -> tensor<64x2x16x2xbf16> {
  %a = nano.slice %x dim 3 at 0 : tensor<64x2x16x2xbf16> -> tensor<64x2x16x1xbf16>
  %b = nano.slice %x dim 3 at 1 : tensor<64x2x16x2xbf16> -> tensor<64x2x16x1xbf16>
  %fa = nano.cast %a : tensor<64x2x16x1xbf16> -> tensor<64x2x16x1xf32>
  %fb = nano.cast %b : tensor<64x2x16x1xbf16> -> tensor<64x2x16x1xf32>
  %c = nano.broadcast %cos dims [0, 2] : tensor<64x16xf32> -> tensor<64x2x16x1xf32>
  %s = nano.broadcast %sin dims [0, 2] : tensor<64x16xf32> -> tensor<64x2x16x1xf32>
  %ac = nano.mul %fa, %c : tensor<64x2x16x1xf32>
  %bs = nano.mul %fb, %s : tensor<64x2x16x1xf32>
  %u = nano.sub %ac, %bs : tensor<64x2x16x1xf32>
  %as = nano.mul %s, %fa : tensor<64x2x16x1xf32>
  %bc = nano.mul %fb, %c : tensor<64x2x16x1xf32>
  %v = nano.add %as, %bc : tensor<64x2x16x1xf32>
  %y = nano.concat %u, %v dim 3 : (tensor<64x2x16x1xf32>, tensor<64x2x16x1xf32>) -> tensor<64x2x16x2xf32>
  %z = nano.cast %y : tensor<64x2x16x2xf32> -> tensor<64x2x16x2xbf16>
  nano.return %z : tensor<64x2x16x2xbf16>
}

// -----

// One column with a minus, beside the other as it is: what other models turn pairs by.
// CHECK-LABEL: nano.program @swapped
// CHECK-NOT: nano.concat
// CHECK: %[[R:.*]] = nano.rotate %{{.*}} by 1 : tensor<64x16x2xf32>
// CHECK: %[[N:.*]] = nano.neg %[[R]]
// CHECK: nano.select lt, %{{.*}}, %{{.*}}, %[[N]], %[[R]]
// CHECK: nano.return
nano.program @swapped(%x: tensor<64x16x2xf32>, %s: tensor<64x16x2xf32>) -> tensor<64x16x2xf32> {
  %a = nano.slice %x dim 2 at 0 : tensor<64x16x2xf32> -> tensor<64x16x1xf32>
  %b = nano.slice %x dim 2 at 1 : tensor<64x16x2xf32> -> tensor<64x16x1xf32>
  %n = nano.neg %b : tensor<64x16x1xf32>
  %y = nano.concat %n, %a dim 2 : (tensor<64x16x1xf32>, tensor<64x16x1xf32>) -> tensor<64x16x2xf32>
  %z = nano.mul %y, %s : tensor<64x16x2xf32>
  nano.return %z : tensor<64x16x2xf32>
}

// -----

// A column that is read beside its pair stays by itself, and so do columns that are computed otherwise.
// CHECK-LABEL: nano.program @readElsewhere
// CHECK-NOT: nano.rotate
// CHECK: nano.concat
// CHECK-NOT: nano.rotate
// CHECK: nano.concat
// CHECK-NOT: nano.rotate
nano.program @readElsewhere(%x: tensor<64x16x2xf32>) -> (tensor<64x16x2xf32>, tensor<64x16x1xf32>, tensor<64x16x2xf32>) {
  %a = nano.slice %x dim 2 at 0 : tensor<64x16x2xf32> -> tensor<64x16x1xf32>
  %b = nano.slice %x dim 2 at 1 : tensor<64x16x2xf32> -> tensor<64x16x1xf32>
  %u = nano.exp %b : tensor<64x16x1xf32>
  %v = nano.exp %a : tensor<64x16x1xf32>
  %y = nano.concat %u, %v dim 2 : (tensor<64x16x1xf32>, tensor<64x16x1xf32>) -> tensor<64x16x2xf32>
  %t = nano.tanh %a : tensor<64x16x1xf32>
  %z = nano.concat %u, %t dim 2 : (tensor<64x16x1xf32>, tensor<64x16x1xf32>) -> tensor<64x16x2xf32>
  nano.return %y, %u, %z : tensor<64x16x2xf32>, tensor<64x16x1xf32>, tensor<64x16x2xf32>
}
