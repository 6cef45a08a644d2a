// RUN: nano-opt %s -nano-fuse -split-input-file | FileCheck %s

// A norm is one kernel: the casts are copied rather than stored, the row's statistics never leave it.
// CHECK-LABEL: func.func @norm
// CHECK:       %[[Y:.*]] = nano.fused(%arg0) : (tensor<512x64xbf16>) -> tensor<512x64xbf16> {
// CHECK:         nano.reduce sum
// CHECK:         nano.yield %{{.*}} : tensor<512x64xbf16>
// CHECK:       }
// CHECK-NEXT:  return %[[Y]]
func.func @norm(%x: tensor<512x64xbf16>) -> tensor<512x64xbf16> {
  %f = nano.cast %x : tensor<512x64xbf16> -> tensor<512x64xf32>
  %q = nano.mul %f, %f : tensor<512x64xf32>
  %s = nano.reduce sum %q dims [1] : tensor<512x64xf32> -> tensor<512xf32>
  %r = nano.rsqrt %s : tensor<512xf32>
  %b = nano.broadcast %r dims [0] : tensor<512xf32> -> tensor<512x64xf32>
  %n = nano.mul %f, %b : tensor<512x64xf32>
  %y = nano.cast %n : tensor<512x64xf32> -> tensor<512x64xbf16>
  return %y : tensor<512x64xbf16>
}

// -----

// The loss and the gradient of the logits read the logits once, in one kernel.
// CHECK-LABEL: func.func @loss_and_gradient
// CHECK:       %[[BOTH:.*]]:2 = nano.fused(%arg0, %arg1) : (tensor<512x1024xbf16>, tensor<512xi32>) -> (tensor<512xf32>, tensor<512x1024xbf16>) {
// CHECK-COUNT-2: nano.exp
// CHECK-NOT:     nano.exp
// CHECK-NOT:   nano.fused
// CHECK:       return %[[BOTH]]#0, %[[BOTH]]#1
func.func @loss_and_gradient(%z: tensor<512x1024xbf16>, %t: tensor<512xi32>) -> (tensor<512xf32>, tensor<512x1024xbf16>) {
  %f = nano.cast %z : tensor<512x1024xbf16> -> tensor<512x1024xf32>
  %loss, %lse = nano.cross_entropy %f, %t : (tensor<512x1024xf32>, tensor<512xi32>) -> (tensor<512xf32>, tensor<512xf32>)
  %b = nano.broadcast %lse dims [0] : tensor<512xf32> -> tensor<512x1024xf32>
  %d = nano.sub %f, %b : tensor<512x1024xf32>
  %p = nano.exp %d : tensor<512x1024xf32>
  %g = nano.cast %p : tensor<512x1024xf32> -> tensor<512x1024xbf16>
  return %loss, %g : tensor<512xf32>, tensor<512x1024xbf16>
}

// -----

// A path through a product keeps its producer and its consumer apart.
// CHECK-LABEL: func.func @through_a_product
// CHECK:       %[[A:.*]] = nano.fused(%arg0)
// CHECK:       %[[P:.*]] = nano.matmul %[[A]], %arg1
// CHECK:       nano.fused(%{{.*}}, %{{.*}})
// CHECK:         nano.add
func.func @through_a_product(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %a = nano.exp %x : tensor<64x64xf32>
  %p = nano.matmul %a, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = nano.tanh %p : tensor<64x64xf32>
  %y = nano.add %a, %s : tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}

// -----

// Two readers of one large tensor share a kernel.
// CHECK-LABEL: func.func @siblings
// CHECK:       %[[BOTH:.*]]:2 = nano.fused(%arg0)
// CHECK-NOT:   nano.fused
func.func @siblings(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>) {
  %a = nano.exp %x : tensor<64x64xf32>
  %b = nano.reduce sum %x dims [1] : tensor<64x64xf32> -> tensor<64xf32>
  return %a, %b : tensor<64x64xf32>, tensor<64xf32>
}

// -----

// A sum over many rows is split into a fixed number of parts, whatever the number of threads.
// CHECK-LABEL: func.func @bias_gradient
// CHECK:       %[[V:.*]] = nano.reshape %arg0 : tensor<4096x96xf32> -> tensor<64x64x96xf32>
// CHECK:       %[[P:.*]] = nano.fused(%[[V]]) : (tensor<64x64x96xf32>) -> tensor<64x96xf32>
// CHECK:       nano.fused(%{{.*}}) : (tensor<1x64x96xf32>) -> tensor<1x96xf32>
func.func @bias_gradient(%x: tensor<4096x96xf32>) -> tensor<96xf32> {
  %b = nano.reduce sum %x dims [0] : tensor<4096x96xf32> -> tensor<96xf32>
  return %b : tensor<96xf32>
}

// -----

// The derivatives of slices arrive padded with zeros; their sum is a concat, with no arithmetic.
// CHECK-LABEL: func.func @padded_slices
// CHECK-NOT:   nano.add
// CHECK:       %[[C:.*]] = nano.concat %arg0, %arg1, %arg2 dim 1
// CHECK-NEXT:  return %[[C]]
func.func @padded_slices(%q: tensor<8x1x16xf32>, %k: tensor<8x1x16xf32>, %v: tensor<8x1x16xf32>) -> tensor<8x3x16xf32> {
  %z1 = nano.constant 0.0 : tensor<8x1x16xf32>
  %z2 = nano.constant 0.0 : tensor<8x2x16xf32>
  %a = nano.concat %q, %z2 dim 1 : (tensor<8x1x16xf32>, tensor<8x2x16xf32>) -> tensor<8x3x16xf32>
  %b = nano.concat %z1, %k, %z1 dim 1 : (tensor<8x1x16xf32>, tensor<8x1x16xf32>, tensor<8x1x16xf32>) -> tensor<8x3x16xf32>
  %c = nano.concat %z2, %v dim 1 : (tensor<8x2x16xf32>, tensor<8x1x16xf32>) -> tensor<8x3x16xf32>
  %ab = nano.add %a, %b : tensor<8x3x16xf32>
  %abc = nano.add %ab, %c : tensor<8x3x16xf32>
  return %abc : tensor<8x3x16xf32>
}

// -----

// A state is read before it is replaced, and the kernel that replaces it stands between.
// CHECK-LABEL: module
// CHECK:       nano.load @p
// CHECK-NEXT:  nano.fused
// CHECK:       nano.store
module {
  nano.state @p : tensor<64xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
  func.func @update(%g: tensor<64xf32>) {
    %p = nano.load @p : tensor<64xf32>
    %n = nano.sub %p, %g : tensor<64xf32>
    nano.store %n, @p : tensor<64xf32>
    return
  }
}
