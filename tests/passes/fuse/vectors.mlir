// A vector is one row: what its elements become and what they add up to is one kernel, however few
// they are.
// RUN: nano-opt %s -nano-fuse -nano-verify-fused -split-input-file | FileCheck %s

// An update of two numbers, with the sums of squares that norms are made of.
// CHECK-LABEL: nano.program @update
// CHECK:       %[[ALL:.*]]:3 = nano.fused(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> ({{.*}}) {
// CHECK-COUNT-2: nano.reduce sum
// CHECK:       nano.yield
// CHECK-NOT:   nano.fused
// CHECK:       nano.return
nano.program @update(%p: tensor<2xf32>, %g: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>, tensor<f32>) {
  %q = nano.sub %p, %g : tensor<2xf32>
  %gg = nano.mul %g, %g : tensor<2xf32>
  %pp = nano.mul %p, %p : tensor<2xf32>
  %s = nano.reduce sum %gg dims [0] : tensor<2xf32> -> tensor<f32>
  %t = nano.reduce sum %pp dims [0] : tensor<2xf32> -> tensor<f32>
  nano.return %q, %s, %t : tensor<2xf32>, tensor<f32>, tensor<f32>
}

// -----

// A value of every row stays with its rows; its sum waits for all of them.
// CHECK-LABEL: nano.program @of_rows
// CHECK:       nano.fused(%arg0) : (tensor<8x16xf32>) -> tensor<8xf32> {
// CHECK:       nano.reduce sum
// CHECK:       nano.mul
// CHECK:       nano.fused
// CHECK-NOT:   nano.mul
// CHECK:       nano.reduce sum
nano.program @of_rows(%x: tensor<8x16xf32>) -> tensor<f32> {
  %y = nano.exp %x : tensor<8x16xf32>
  %s = nano.reduce sum %y dims [1] : tensor<8x16xf32> -> tensor<8xf32>
  %t = nano.mul %s, %s : tensor<8xf32>
  %u = nano.reduce sum %t dims [0] : tensor<8xf32> -> tensor<f32>
  nano.return %u : tensor<f32>
}

// -----

// One that is not reduced in its new shape stays outside as a view.
// CHECK-LABEL: nano.program @reshaped
// CHECK:       nano.fused(%arg0) : (tensor<16xf32>) -> tensor<16xf32> {
// CHECK:       nano.reshape
// CHECK:       nano.fused
nano.program @reshaped(%x: tensor<16xf32>, %y: tensor<1x16xf32>) -> tensor<1x16xf32> {
  %a = nano.exp %x : tensor<16xf32>
  %b = nano.reshape %a : tensor<16xf32> -> tensor<1x16xf32>
  %c = nano.mul %b, %y : tensor<1x16xf32>
  nano.return %c : tensor<1x16xf32>
}

// -----

// One block would compute a long one alone.
// CHECK-LABEL: nano.program @long
// CHECK:       nano.fused(%arg0) : (tensor<8200xf32>) -> tensor<8200xf32> {
// CHECK:       nano.fused
// CHECK:       nano.reduce sum
nano.program @long(%x: tensor<8200xf32>) -> tensor<f32> {
  %a = nano.exp %x : tensor<8200xf32>
  %s = nano.reduce sum %a dims [0] : tensor<8200xf32> -> tensor<f32>
  nano.return %s : tensor<f32>
}
