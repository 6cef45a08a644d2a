// RUN: nano-opt %s -nano-fuse | FileCheck %s

// What is computed of a row's sum as a column of one element is part of the row's kernel; where something else reads the column, it is a view of the
// kernel's numbers.
// CHECK-LABEL: nano.program @column(
// CHECK:         %[[MADE:.*]]:2 = nano.fused(%arg0) : (tensor<64x32xf32>) -> (tensor<64xf32>, tensor<64x32xf32>) {
// CHECK:           nano.reduce sum %{{.*}} dims [1]
// CHECK-NOT:       nano.reshape
// CHECK:           nano.log %{{.*}} : tensor<64xf32>
// CHECK:         }
// CHECK-NEXT:    %[[COLUMN:.*]] = nano.reshape %[[MADE]]#0 : tensor<64xf32> -> tensor<64x1xf32>
// CHECK-NEXT:    nano.return %[[MADE]]#1, %[[COLUMN]]
nano.program @column(%x: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<64x1xf32>) {
  %s = nano.reduce sum %x dims [1] : tensor<64x32xf32> -> tensor<64xf32>
  %c = nano.reshape %s : tensor<64xf32> -> tensor<64x1xf32>
  %two = nano.constant 2.0 : tensor<64x1xf32>
  %t = nano.mul %c, %two : tensor<64x1xf32>
  %l = nano.log %t : tensor<64x1xf32>
  %n = nano.reshape %l : tensor<64x1xf32> -> tensor<64xf32>
  %b = nano.broadcast %n dims [0] : tensor<64xf32> -> tensor<64x32xf32>
  %y = nano.sub %x, %b : tensor<64x32xf32>
  nano.return %y, %l : tensor<64x32xf32>, tensor<64x1xf32>
}

// The sum of columns side by side is of their rows' numbers, in f32, and a part of what repeats a number is that number.
// CHECK-LABEL: nano.program @joined(
// CHECK:         nano.fused(%arg0) : (tensor<64x32xbf16>) -> tensor<64x32xbf16> {
// CHECK:           nano.add %{{.*}} : tensor<64xf32>
// CHECK-NOT:       nano.concat
// CHECK:         }
// CHECK-NEXT:    nano.return
nano.program @joined(%x: tensor<64x32xbf16>) -> tensor<64x32xbf16> {
  %a = nano.reduce max %x dims [1] : tensor<64x32xbf16> -> tensor<64xbf16>
  %s = nano.reduce sum %x dims [1] : tensor<64x32xbf16> -> tensor<64xbf16>
  %ca = nano.reshape %a : tensor<64xbf16> -> tensor<64x1xbf16>
  %cs = nano.reshape %s : tensor<64xbf16> -> tensor<64x1xbf16>
  %both = nano.concat %ca, %cs dim 1 : (tensor<64x1xbf16>, tensor<64x1xbf16>) -> tensor<64x2xbf16>
  %sum = nano.reduce sum %both dims [1] : tensor<64x2xbf16> -> tensor<64xbf16>
  %wide = nano.broadcast %sum dims [0] : tensor<64xbf16> -> tensor<64x3xbf16>
  %part = nano.slice %wide dim 1 at 1 : tensor<64x3xbf16> -> tensor<64x1xbf16>
  %number = nano.reshape %part : tensor<64x1xbf16> -> tensor<64xbf16>
  %b = nano.broadcast %number dims [0] : tensor<64xbf16> -> tensor<64x32xbf16>
  %y = nano.mul %x, %b : tensor<64x32xbf16>
  nano.return %y : tensor<64x32xbf16>
}

// Columns that nothing makes of rows stay columns.
// CHECK-LABEL: nano.program @stays(
// CHECK:         nano.log %{{.*}} : tensor<64x1xf32>
nano.program @stays(%x: tensor<64x1xf32>) -> tensor<64x1xf32> {
  %l = nano.log %x : tensor<64x1xf32>
  nano.return %l : tensor<64x1xf32>
}
