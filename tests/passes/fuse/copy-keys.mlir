// Few heads of keys have few blocks of keys: attention's gradients read copies of them, whose gradients are added up.
// RUN: nano-opt %s -nano-copy-keys="machine=h200-nvlink report" -split-input-file -verify-diagnostics | FileCheck %s

// One head of keys has 8 rows of 16 blocks for 132 multiprocessors, which pairs from both ends make 64 of.
// CHECK-LABEL: nano.program @one
// CHECK:         %[[B:.*]] = nano.broadcast %arg1 dims [0, 1, 3] : tensor<16384x1x64xbf16> -> tensor<16384x1x4x64xbf16>
// CHECK:         %[[K:.*]] = nano.reshape %[[B]] : tensor<16384x1x4x64xbf16> -> tensor<16384x4x64xbf16>
// CHECK:         %[[C:.*]] = nano.broadcast %arg2 dims [0, 1, 3]
// CHECK:         %[[V:.*]] = nano.reshape %[[C]]
// CHECK:         %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = nano.attention_grad %arg0, %[[K]], %[[V]]
// CHECK:         %[[F:.*]] = nano.cast %[[DK]] : tensor<16384x4x64xbf16> -> tensor<16384x4x64xf32>
// CHECK:         %[[A:.*]] = nano.reshape %[[F]] : tensor<16384x4x64xf32> -> tensor<16384x1x4x64xf32>
// CHECK:         %[[S:.*]] = nano.reduce sum %[[A]] dims [2] : tensor<16384x1x4x64xf32> -> tensor<16384x1x64xf32>
// CHECK:         %[[R:.*]] = nano.cast %[[S]] : tensor<16384x1x64xf32> -> tensor<16384x1x64xbf16>
// CHECK:         nano.cast %[[DV]]
// CHECK:         %[[U:.*]] = nano.cast %{{.*}} : tensor<16384x1x64xf32> -> tensor<16384x1x64xbf16>
// CHECK:         nano.return %[[DQ]], %[[R]], %[[U]]
nano.program @one(%q: tensor<16384x24x64xbf16>, %k: tensor<16384x1x64xbf16>, %v: tensor<16384x1x64xbf16>, %lse: tensor<16384x24xf32>, %delta: tensor<16384x24xf32>, %dy: tensor<16384x24x64xbf16>)
    -> (tensor<16384x24x64xbf16>, tensor<16384x1x64xbf16>, tensor<16384x1x64xbf16>) {
  %t = nano.iota 0 : tensor<16384xi32>
  %row = nano.constant 2048.0 : tensor<16384xi32>
  %n = nano.div %t, %row : tensor<16384xi32>
  %first = nano.mul %n, %row : tensor<16384xi32>
  // expected-remark @below {{its gradients read each head of keys in 4 copies}}
  %dq, %dk, %dv = nano.attention_grad %q, %k, %v, %first, %t, %lse, %delta, %dy scale 0.125
      : (tensor<16384x24x64xbf16>, tensor<16384x1x64xbf16>, tensor<16384x1x64xbf16>, tensor<16384xi32>, tensor<16384xi32>, tensor<16384x24xf32>, tensor<16384x24xf32>, tensor<16384x24x64xbf16>)
     -> (tensor<16384x24x64xbf16>, tensor<16384x1x64xbf16>, tensor<16384x1x64xbf16>)
  nano.return %dq, %dk, %dv : tensor<16384x24x64xbf16>, tensor<16384x1x64xbf16>, tensor<16384x1x64xbf16>
}

// -----

// 8 heads of keys are enough.
// CHECK-LABEL: nano.program @enough
// CHECK-NOT:     nano.broadcast
nano.program @enough(%q: tensor<16384x32x64xbf16>, %k: tensor<16384x8x64xbf16>, %v: tensor<16384x8x64xbf16>, %lse: tensor<16384x32xf32>, %delta: tensor<16384x32xf32>, %dy: tensor<16384x32x64xbf16>)
    -> tensor<16384x8x64xbf16> {
  %t = nano.iota 0 : tensor<16384xi32>
  %row = nano.constant 2048.0 : tensor<16384xi32>
  %n = nano.div %t, %row : tensor<16384xi32>
  %first = nano.mul %n, %row : tensor<16384xi32>
  %dq, %dk, %dv = nano.attention_grad %q, %k, %v, %first, %t, %lse, %delta, %dy scale 0.125
      : (tensor<16384x32x64xbf16>, tensor<16384x8x64xbf16>, tensor<16384x8x64xbf16>, tensor<16384xi32>, tensor<16384xi32>, tensor<16384x32xf32>, tensor<16384x32xf32>, tensor<16384x32x64xbf16>)
     -> (tensor<16384x32x64xbf16>, tensor<16384x8x64xbf16>, tensor<16384x8x64xbf16>)
  nano.return %dk : tensor<16384x8x64xbf16>
}

// -----

// Nothing is known of documents' rows, or no copies make the blocks of short ones enough.
// CHECK-LABEL: nano.program @documents
// CHECK-NOT:     nano.broadcast
nano.program @documents(%q: tensor<16384x24x64xbf16>, %k: tensor<16384x1x64xbf16>, %first: tensor<16384xi32>, %lse: tensor<16384x24xf32>, %delta: tensor<16384x24xf32>, %dy: tensor<16384x24x64xbf16>)
    -> tensor<16384x1x64xbf16> {
  %t = nano.iota 0 : tensor<16384xi32>
  %dq, %dk, %dv = nano.attention_grad %q, %k, %k, %first, %t, %lse, %delta, %dy scale 0.125
      : (tensor<16384x24x64xbf16>, tensor<16384x1x64xbf16>, tensor<16384x1x64xbf16>, tensor<16384xi32>, tensor<16384xi32>, tensor<16384x24xf32>, tensor<16384x24xf32>, tensor<16384x24x64xbf16>)
     -> (tensor<16384x24x64xbf16>, tensor<16384x1x64xbf16>, tensor<16384x1x64xbf16>)
  nano.return %dk : tensor<16384x1x64xbf16>
}

// -----

// CHECK-LABEL: nano.program @short
// CHECK-NOT:     nano.broadcast
nano.program @short(%q: tensor<2048x24x64xbf16>, %k: tensor<2048x1x64xbf16>, %lse: tensor<2048x24xf32>, %delta: tensor<2048x24xf32>, %dy: tensor<2048x24x64xbf16>) -> tensor<2048x1x64xbf16> {
  %t = nano.iota 0 : tensor<2048xi32>
  %row = nano.constant 512.0 : tensor<2048xi32>
  %n = nano.div %t, %row : tensor<2048xi32>
  %first = nano.mul %n, %row : tensor<2048xi32>
  %dq, %dk, %dv = nano.attention_grad %q, %k, %k, %first, %t, %lse, %delta, %dy scale 0.125
      : (tensor<2048x24x64xbf16>, tensor<2048x1x64xbf16>, tensor<2048x1x64xbf16>, tensor<2048xi32>, tensor<2048xi32>, tensor<2048x24xf32>, tensor<2048x24xf32>, tensor<2048x24x64xbf16>)
     -> (tensor<2048x24x64xbf16>, tensor<2048x1x64xbf16>, tensor<2048x1x64xbf16>)
  nano.return %dk : tensor<2048x1x64xbf16>
}
