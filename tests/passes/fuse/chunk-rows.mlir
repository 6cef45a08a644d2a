// RUN: nano-opt %s -nano-chunk-rows=max-bytes=131072 -verify-diagnostics -split-input-file | FileCheck %s

// The head in two chunks of 128 rows: logits of one chunk at a time, the weight's gradient summed by the product itself.
// CHECK-LABEL: nano.program @head
// CHECK:       %[[X0:.*]] = nano.slice %arg0 dim 0 at 0 : tensor<256x16xf32> -> tensor<128x16xf32>
// CHECK:       %[[Z0:.*]] = nano.matmul %[[X0]], %arg1 {transpose_b} : (tensor<128x16xf32>, tensor<256x16xf32>) -> tensor<128x256xf32>
// CHECK:       %[[L0:.*]], %{{.*}} = nano.cross_entropy %[[Z0]]
// CHECK:       %[[G0:.*]] = nano.exp %{{.*}} : tensor<128x256xf32>
// CHECK:       %[[DX0:.*]] = nano.matmul %[[G0]], %arg1
// CHECK:       %[[DW0:.*]] = nano.matmul %[[G0]], %[[X0]] {transpose_a}
// CHECK:       %[[X1:.*]] = nano.slice %arg0 dim 0 at 128
// CHECK:       %[[L1:.*]], %{{.*}} = nano.cross_entropy
// CHECK:       %[[DX1:.*]] = nano.matmul
// CHECK:       %[[DW1:.*]] = nano.matmul %{{.*}}, %[[X1]] add %[[DW0]] {transpose_a}
// CHECK-DAG:   %[[LOSS:.*]] = nano.concat %[[L0]], %[[L1]] dim 0
// CHECK-DAG:   %[[DX:.*]] = nano.concat %[[DX0]], %[[DX1]] dim 0
// CHECK:       nano.return %[[LOSS]], %[[DX]], %[[DW1]]
nano.program @head(%x: tensor<256x16xf32>, %w: tensor<256x16xf32>, %t: tensor<256xi32>) -> (tensor<256xf32>, tensor<256x16xf32>, tensor<256x16xf32>) {
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x256xf32>
  %loss, %lse = nano.cross_entropy %z, %t : (tensor<256x256xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  %b = nano.broadcast %lse dims [0] : tensor<256xf32> -> tensor<256x256xf32>
  %d = nano.sub %z, %b : tensor<256x256xf32>
  %g = nano.exp %d : tensor<256x256xf32>
  %dx = nano.matmul %g, %w : (tensor<256x256xf32>, tensor<256x16xf32>) -> tensor<256x16xf32>
  %dw = nano.matmul %g, %x {transpose_a} : (tensor<256x256xf32>, tensor<256x16xf32>) -> tensor<256x16xf32>
  nano.return %loss, %dx, %dw : tensor<256xf32>, tensor<256x16xf32>, tensor<256x16xf32>
}

// -----

// What is small enough stays whole, and so does an MLP, whose rows grow only fourfold.
// CHECK-LABEL: nano.program @stays_whole
// CHECK-NOT:   nano.slice
nano.program @stays_whole(%x: tensor<1024x32xf32>, %w: tensor<128x32xf32>) -> tensor<1024x128xf32> {
  %z = nano.matmul %x, %w {transpose_b} : (tensor<1024x32xf32>, tensor<128x32xf32>) -> tensor<1024x128xf32>
  nano.return %z : tensor<1024x128xf32>
}

// -----

// Rows that a reshape keeps in order are rows of the chain still.
// CHECK-LABEL: nano.program @reshaped
// CHECK:       nano.reshape %{{.*}} : tensor<128x256xf32> -> tensor<64x512xf32>
// CHECK:       nano.reshape %{{.*}} : tensor<64x512xf32> -> tensor<128x256xf32>
// CHECK:       nano.concat %{{.*}}, %{{.*}} dim 0
nano.program @reshaped(%x: tensor<256x16xf32>, %w: tensor<256x16xf32>) -> tensor<256x256xf32> {
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x256xf32>
  %r = nano.reshape %z : tensor<256x256xf32> -> tensor<128x512xf32>
  %e = nano.exp %r : tensor<128x512xf32>
  %y = nano.reshape %e : tensor<128x512xf32> -> tensor<256x256xf32>
  nano.return %y : tensor<256x256xf32>
}

// -----

// A maximum over all rows is the maximum of those of the chunks; the sum of a narrow product is kept in f32.
// CHECK-LABEL: nano.program @combined
// CHECK:       %[[A0:.*]] = nano.reduce max %{{.*}} dims [0, 1] : tensor<128x256xf32> -> tensor<f32>
// CHECK:       %[[DW0:.*]] = nano.matmul {{.*}} {transpose_a} : {{.*}} -> tensor<256x16xf32>
// CHECK:       %[[A1:.*]] = nano.reduce max
// CHECK:       %[[A:.*]] = nano.max %[[A0]], %[[A1]] : tensor<f32>
// CHECK:       %[[DW1:.*]] = nano.matmul {{.*}} add %[[DW0]] {transpose_a} : {{.*}} -> tensor<256x16xf32>
// CHECK:       %[[DW:.*]] = nano.cast %[[DW1]] : tensor<256x16xf32> -> tensor<256x16xbf16>
// CHECK:       nano.return %[[A]], %[[DW]]
nano.program @combined(%x: tensor<256x16xbf16>, %w: tensor<256x16xbf16>) -> (tensor<f32>, tensor<256x16xbf16>) {
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x16xbf16>, tensor<256x16xbf16>) -> tensor<256x256xbf16>
  %f = nano.cast %z : tensor<256x256xbf16> -> tensor<256x256xf32>
  %n = nano.neg %f : tensor<256x256xf32>
  %a = nano.reduce max %n dims [0, 1] : tensor<256x256xf32> -> tensor<f32>
  %dw = nano.matmul %z, %x {transpose_a} : (tensor<256x256xbf16>, tensor<256x16xbf16>) -> tensor<256x16xbf16>
  nano.return %a, %dw : tensor<f32>, tensor<256x16xbf16>
}

// -----

// A product of another kind is left whole without a word.
// CHECK-LABEL: nano.program @no_loss
// CHECK-NOT:   nano.slice
nano.program @no_loss(%x: tensor<256x16xf32>, %w: tensor<256x16xf32>) -> tensor<256x256xf32> {
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x256xf32>
  %m = nano.reduce max %z dims [0] : tensor<256x256xf32> -> tensor<256xf32>
  %b = nano.broadcast %m dims [1] : tensor<256xf32> -> tensor<256x256xf32>
  %y = nano.sub %z, %b : tensor<256x256xf32>
  nano.return %y : tensor<256x256xf32>
}

// -----

// What all rows are needed for before any of them goes on cannot be chunked.
// CHECK-LABEL: nano.program @mixes_rows
// CHECK-NOT:   nano.slice
nano.program @mixes_rows(%x: tensor<256x16xf32>, %w: tensor<256x16xf32>, %t: tensor<256xi32>) -> tensor<256xf32> {
  // expected-remark@+1 {{left whole: nano.reduce mixes rows of a tensor of 262144 bytes}}
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x256xf32>
  // expected-note@+1 {{which is this op}}
  %m = nano.reduce max %z dims [0] : tensor<256x256xf32> -> tensor<256xf32>
  %b = nano.broadcast %m dims [1] : tensor<256xf32> -> tensor<256x256xf32>
  %y = nano.sub %z, %b : tensor<256x256xf32>
  %loss, %lse = nano.cross_entropy %y, %t : (tensor<256x256xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  nano.return %loss : tensor<256xf32>
}

// -----

// Chunks do not combine by a log-sum-exp of rows.
// CHECK-LABEL: nano.program @log_sum_exp_of_rows
// CHECK-NOT:   nano.slice
nano.program @log_sum_exp_of_rows(%x: tensor<256x16xf32>, %w: tensor<256x16xf32>, %t: tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>) {
  // expected-remark@+1 {{left whole: nano.reduce mixes rows of a tensor of 262144 bytes}}
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x256xf32>
  // expected-note@+1 {{which is this op}}
  %m = nano.reduce logsumexp %z dims [0] : tensor<256x256xf32> -> tensor<256xf32>
  %loss, %lse = nano.cross_entropy %z, %t : (tensor<256x256xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  nano.return %loss, %m : tensor<256xf32>, tensor<256xf32>
}

// -----

// Of a row each it keeps rows, beside the loss.
// CHECK-LABEL: nano.program @log_sum_exp_of_a_row
// CHECK:       nano.reduce logsumexp %{{.*}} dims [1] : tensor<128x256xf32> -> tensor<128xf32>
// CHECK:       nano.reduce logsumexp %{{.*}} dims [1] : tensor<128x256xf32> -> tensor<128xf32>
nano.program @log_sum_exp_of_a_row(%x: tensor<256x16xf32>, %w: tensor<256x16xf32>, %t: tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>) {
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x256xf32>
  %m = nano.reduce logsumexp %z dims [1] : tensor<256x256xf32> -> tensor<256xf32>
  %loss, %lse = nano.cross_entropy %z, %t : (tensor<256x256xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  nano.return %loss, %m : tensor<256xf32>, tensor<256xf32>
}
