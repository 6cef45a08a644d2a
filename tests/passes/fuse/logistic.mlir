// 1 + tanh x and 1 − tanh² x are computed by the logistic function; factors of ½, 2 and 4 become one.
// RUN: nano-opt %s -nano-fuse -nano-verify-fused -split-input-file | FileCheck %s

// GELU: x·σ(2u), and no other factor.
// CHECK-LABEL: nano.program @gelu
// CHECK-NOT:     nano.tanh
// CHECK:         %[[C:.*]] = nano.constant 1.500000e+00
// CHECK-NEXT:    %[[U:.*]] = nano.mul %{{.*}}, %[[C]] : tensor<512x64xf32>
// CHECK-NEXT:    %[[S:.*]] = nano.sigmoid %[[U]]
// CHECK-NEXT:    %[[Y:.*]] = nano.mul %{{.*}}, %[[S]]
// CHECK-NEXT:    nano.yield %[[Y]]
nano.program @gelu(%x: tensor<512x64xf32>) -> tensor<512x64xf32> {
  %a = nano.constant 0.044715 : tensor<512x64xf32>
  %b = nano.constant 0.75 : tensor<512x64xf32>
  %half = nano.constant 0.5 : tensor<512x64xf32>
  %one = nano.constant 1.0 : tensor<512x64xf32>
  %x1 = nano.mul %x, %a : tensor<512x64xf32>
  %x2 = nano.mul %x1, %x : tensor<512x64xf32>
  %x3 = nano.mul %x2, %x : tensor<512x64xf32>
  %v = nano.add %x, %x3 : tensor<512x64xf32>
  %u = nano.mul %v, %b : tensor<512x64xf32>
  %t = nano.tanh %u : tensor<512x64xf32>
  %s = nano.add %t, %one : tensor<512x64xf32>
  %h = nano.mul %x, %half : tensor<512x64xf32>
  %y = nano.mul %h, %s : tensor<512x64xf32>
  nano.return %y : tensor<512x64xf32>
}

// -----

// Its gradient: 2σ·dy·½ is dy·σ, and the 4 of the slope is part of the constant factor behind it.
// CHECK-LABEL: nano.program @gradient
// CHECK-NOT:     nano.tanh
// CHECK:         %[[C:.*]] = nano.constant 1.500000e+00
// CHECK:         %[[U:.*]] = nano.mul %{{.*}}, %[[C]]
// CHECK:         %[[S:.*]] = nano.sigmoid %[[U]]
// CHECK:         %[[HALVED:.*]] = nano.mul %{{.*}}, %[[S]]
// CHECK:         %[[REST:.*]] = nano.sub %{{.*}}, %[[S]]
// CHECK:         %[[SLOPE:.*]] = nano.mul %[[S]], %[[REST]]
// CHECK:         %[[D:.*]] = nano.mul %{{.*}}, %[[SLOPE]]
// CHECK:         %[[B:.*]] = nano.constant 3.000000e+00
// CHECK:         %[[DX:.*]] = nano.mul %[[D]], %[[B]]
// CHECK:         nano.add %[[HALVED]], %[[DX]]
nano.program @gradient(%x: tensor<512x64xf32>, %dy: tensor<512x64xf32>) -> tensor<512x64xf32> {
  %b = nano.constant 0.75 : tensor<512x64xf32>
  %half = nano.constant 0.5 : tensor<512x64xf32>
  %one = nano.constant 1.0 : tensor<512x64xf32>
  %u = nano.mul %x, %b : tensor<512x64xf32>
  %t = nano.tanh %u : tensor<512x64xf32>
  %s = nano.add %t, %one : tensor<512x64xf32>
  %first = nano.mul %dy, %s : tensor<512x64xf32>
  %halved = nano.mul %first, %half : tensor<512x64xf32>
  %h = nano.mul %x, %half : tensor<512x64xf32>
  %dt = nano.mul %dy, %h : tensor<512x64xf32>
  %square = nano.mul %t, %t : tensor<512x64xf32>
  %slope = nano.sub %one, %square : tensor<512x64xf32>
  %du = nano.mul %dt, %slope : tensor<512x64xf32>
  %dx = nano.mul %du, %b : tensor<512x64xf32>
  %y = nano.add %halved, %dx : tensor<512x64xf32>
  nano.return %y : tensor<512x64xf32>
}

// -----

// Without such factors beside them they are written out.
// CHECK-LABEL: nano.program @plain
// CHECK-NOT:     nano.tanh
// CHECK:         %[[TWO:.*]] = nano.constant 2.000000e+00
// CHECK:         %[[S:.*]] = nano.sigmoid
// CHECK:         nano.mul %[[S]], %[[TWO]]
// CHECK:         %[[SLOPE:.*]] = nano.mul %[[S]], %{{.*}}
// CHECK:         %[[FOUR:.*]] = nano.constant 4.000000e+00
// CHECK:         nano.mul %[[SLOPE]], %[[FOUR]]
nano.program @plain(%x: tensor<512x64xf32>) -> (tensor<512x64xf32>, tensor<512x64xf32>) {
  %one = nano.constant 1.0 : tensor<512x64xf32>
  %t = nano.tanh %x : tensor<512x64xf32>
  %s = nano.add %one, %t : tensor<512x64xf32>
  %square = nano.mul %t, %t : tensor<512x64xf32>
  %slope = nano.sub %one, %square : tensor<512x64xf32>
  nano.return %s, %slope : tensor<512x64xf32>, tensor<512x64xf32>
}

// -----

// What needs the tangent itself keeps it, and so does bf16, whose sums are rounded.
// CHECK-LABEL: nano.program @kept
// CHECK-NOT:     nano.sigmoid
// CHECK:         nano.tanh
nano.program @kept(%x: tensor<512x64xf32>) -> (tensor<512x64xf32>, tensor<512x64xf32>) {
  %one = nano.constant 1.0 : tensor<512x64xf32>
  %t = nano.tanh %x : tensor<512x64xf32>
  %s = nano.add %t, %one : tensor<512x64xf32>
  nano.return %s, %t : tensor<512x64xf32>, tensor<512x64xf32>
}
// CHECK-LABEL: nano.program @narrow
// CHECK-NOT:     nano.sigmoid
// CHECK:         nano.tanh
nano.program @narrow(%x: tensor<512x64xbf16>) -> tensor<512x64xbf16> {
  %one = nano.constant 1.0 : tensor<512x64xbf16>
  %t = nano.tanh %x : tensor<512x64xbf16>
  %s = nano.add %t, %one : tensor<512x64xbf16>
  nano.return %s : tensor<512x64xbf16>
}
