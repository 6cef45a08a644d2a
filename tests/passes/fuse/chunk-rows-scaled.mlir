// RUN: nano-opt %s -nano-chunk-rows=max-bytes=131072 -verify-diagnostics -split-input-file | FileCheck %s

// The head in FP8 with static scales: the gradient of the logits is rounded once to e5m2, and both backward products read that;
// its largest element, of which the next steps' scale is made, is that of all chunks.
// CHECK-LABEL: nano.program @static
// CHECK:       %[[Q:.*]] = nano.slice %arg0 dim 0 at 0 : tensor<256x16xf8E4M3FN> -> tensor<128x16xf8E4M3FN>
// CHECK:       nano.scaled_matmul %[[Q]], %arg1 scales(%arg3, %arg4) {transpose_b} : {{.*}} -> tensor<128x256xbf16>
// CHECK:       %[[A0:.*]] = nano.reduce max
// CHECK:       %[[G0:.*]] = nano.quantize %{{.*}}, %arg5 : tensor<128x256xf32>, tensor<f32> -> tensor<128x256xf8E5M2>
// CHECK:       nano.scaled_matmul %[[G0]], %arg1 scales(%arg5, %arg4)
// CHECK:       %[[DW0:.*]] = nano.scaled_matmul %[[G0]], %[[Q]] scales(%arg5, %arg3) {transpose_a}
// CHECK:       %[[A1:.*]] = nano.reduce max
// CHECK:       nano.max %[[A0]], %[[A1]]
// CHECK:       %[[G1:.*]] = nano.quantize
// CHECK:       nano.scaled_matmul %[[G1]], %{{.*}} scales(%arg5, %arg3) add %[[DW0]] {transpose_a}
nano.program @static(%x: tensor<256x16xf8E4M3FN>, %w: tensor<256x16xf8E4M3FN>, %t: tensor<256xi32>, %sx: tensor<f32>, %sw: tensor<f32>, %sg: tensor<f32>)
    -> (tensor<256xf32>, tensor<f32>, tensor<256x16xbf16>, tensor<256x16xf32>) {
  %z = nano.scaled_matmul %x, %w scales(%sx, %sw) {transpose_b} : (tensor<256x16xf8E4M3FN>, tensor<256x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<256x256xbf16>
  %f = nano.cast %z : tensor<256x256xbf16> -> tensor<256x256xf32>
  %loss, %lse = nano.cross_entropy %f, %t : (tensor<256x256xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  %b = nano.broadcast %lse dims [0] : tensor<256xf32> -> tensor<256x256xf32>
  %d = nano.sub %f, %b : tensor<256x256xf32>
  %g = nano.exp %d : tensor<256x256xf32>
  %m = nano.abs %g : tensor<256x256xf32>
  %a = nano.reduce max %m dims [0, 1] : tensor<256x256xf32> -> tensor<f32>
  %q = nano.quantize %g, %sg : tensor<256x256xf32>, tensor<f32> -> tensor<256x256xf8E5M2>
  %dx = nano.scaled_matmul %q, %w scales(%sg, %sw) : (tensor<256x256xf8E5M2>, tensor<256x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<256x16xbf16>
  %dw = nano.scaled_matmul %q, %x scales(%sg, %sx) {transpose_a} : (tensor<256x256xf8E5M2>, tensor<256x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<256x16xf32>
  nano.return %loss, %a, %dx, %dw : tensor<256xf32>, tensor<f32>, tensor<256x16xbf16>, tensor<256x16xf32>
}

// -----

// Both layouts of the rounded gradient and of the input: rows are columns of the transposed ones.
// CHECK-LABEL: nano.program @both_layouts
// CHECK:       %[[G0:.*]] = nano.quantize {{.*}} -> tensor<128x256xf8E5M2>
// CHECK:       %[[GT0:.*]] = nano.transpose %[[G0]] : tensor<128x256xf8E5M2> -> tensor<256x128xf8E5M2>
// CHECK:       %[[XT0:.*]] = nano.slice %arg1 dim 1 at 0 : tensor<16x256xf8E4M3FN> -> tensor<16x128xf8E4M3FN>
// CHECK:       %[[DW0:.*]] = nano.scaled_matmul %[[GT0]], %[[XT0]] scales(%arg3, %arg3) {transpose_b} : {{.*}} -> tensor<256x16xf32>
// CHECK:       %[[XT1:.*]] = nano.slice %arg1 dim 1 at 128
// CHECK:       nano.scaled_matmul %{{.*}}, %[[XT1]] scales(%arg3, %arg3) add %[[DW0]] {transpose_b}
nano.program @both_layouts(%x: tensor<256x16xf8E4M3FN>, %xt: tensor<16x256xf8E4M3FN>, %w: tensor<256x16xf8E4M3FN>, %s: tensor<f32>) -> (tensor<256x16xf32>, tensor<256x16xf32>) {
  %z = nano.scaled_matmul %x, %w scales(%s, %s) {transpose_b} : (tensor<256x16xf8E4M3FN>, tensor<256x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<256x256xf32>
  %g = nano.exp %z : tensor<256x256xf32>
  %q = nano.quantize %g, %s : tensor<256x256xf32>, tensor<f32> -> tensor<256x256xf8E5M2>
  %qt = nano.transpose %q : tensor<256x256xf8E5M2> -> tensor<256x256xf8E5M2>
  %dx = nano.scaled_matmul %q, %w scales(%s, %s) : (tensor<256x256xf8E5M2>, tensor<256x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<256x16xf32>
  %dw = nano.scaled_matmul %qt, %xt scales(%s, %s) {transpose_b} : (tensor<256x256xf8E5M2>, tensor<16x256xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<256x16xf32>
  nano.return %dx, %dw : tensor<256x16xf32>, tensor<256x16xf32>
}

// -----

// Scales of blocks: 1×128 along the columns for one product, along the rows for the other. No chunk splits a block.
// CHECK-LABEL: nano.program @blocks
// CHECK:       %[[SX:.*]] = nano.slice %arg1 dim 0 at 0 : tensor<256x1xf32> -> tensor<128x1xf32>
// CHECK:       nano.scaled_matmul %{{.*}}, %arg2 scales(%[[SX]], %arg3) {transpose_b} : {{.*}} -> tensor<128x1024xf32>
// CHECK:       nano.reshape %{{.*}} : tensor<128x1024xf32> -> tensor<1x128x1024xf32>
// CHECK:       %[[S:.*]] = nano.reduce max %{{.*}} dims [1] : tensor<1x128x1024xf32> -> tensor<1x1024xf32>
// CHECK:       %[[Q:.*]] = nano.quantize %{{.*}}, %[[S]] : tensor<128x1024xf32>, tensor<1x1024xf32> -> tensor<128x1024xf8E4M3FN>
// CHECK:       %[[XS:.*]] = nano.slice %arg4 dim 0 at 0 : tensor<2x128xf32> -> tensor<1x128xf32>
// CHECK:       nano.scaled_matmul %[[Q]], %{{.*}} scales(%[[S]], %[[XS]]) {transpose_a}
// CHECK:       nano.slice %arg4 dim 0 at 1 : tensor<2x128xf32> -> tensor<1x128xf32>
nano.program @blocks(%x: tensor<256x128xf8E4M3FN>, %sx: tensor<256x1xf32>, %w: tensor<1024x128xf8E4M3FN>, %sw: tensor<8x1xf32>, %sxt: tensor<2x128xf32>) -> tensor<1024x128xf32> {
  %z = nano.scaled_matmul %x, %w scales(%sx, %sw) {transpose_b} : (tensor<256x128xf8E4M3FN>, tensor<1024x128xf8E4M3FN>, tensor<256x1xf32>, tensor<8x1xf32>) -> tensor<256x1024xf32>
  %r = nano.reshape %z : tensor<256x1024xf32> -> tensor<2x128x1024xf32>
  %a = nano.abs %r : tensor<2x128x1024xf32>
  %s = nano.reduce max %a dims [1] : tensor<2x128x1024xf32> -> tensor<2x1024xf32>
  %q = nano.quantize %z, %s : tensor<256x1024xf32>, tensor<2x1024xf32> -> tensor<256x1024xf8E4M3FN>
  %dw = nano.scaled_matmul %q, %x scales(%s, %sxt) {transpose_a} : (tensor<256x1024xf8E4M3FN>, tensor<256x128xf8E4M3FN>, tensor<2x1024xf32>, tensor<2x128xf32>) -> tensor<1024x128xf32>
  nano.return %dw : tensor<1024x128xf32>
}

// -----

// A scale made of the rows' own largest element is made of the chunk's own; who reads that element elsewhere gets the largest of all.
// CHECK-LABEL: nano.program @current
// CHECK:       %[[A0:.*]] = nano.reduce max %{{.*}} dims [0, 1] : tensor<128x256xf32> -> tensor<f32>
// CHECK:       %[[S0:.*]] = nano.div %[[A0]], %{{.*}} : tensor<f32>
// CHECK:       %[[Q0:.*]] = nano.quantize %{{.*}}, %[[S0]] : tensor<128x256xf32>, tensor<f32> -> tensor<128x256xf8E5M2>
// CHECK:       %[[DW0:.*]] = nano.scaled_matmul %[[Q0]], %{{.*}} scales(%[[S0]], %arg3) {transpose_a}
// CHECK:       %[[A1:.*]] = nano.reduce max
// CHECK:       %[[A:.*]] = nano.max %[[A0]], %[[A1]] : tensor<f32>
// CHECK:       %[[S1:.*]] = nano.div %[[A1]], %{{.*}} : tensor<f32>
// CHECK:       nano.scaled_matmul %{{.*}}, %{{.*}} scales(%[[S1]], %arg3) add %[[DW0]] {transpose_a}
// CHECK:       nano.return %[[A]]
nano.program @current(%x: tensor<256x16xf8E4M3FN>, %w: tensor<256x16xf8E4M3FN>, %big: tensor<f32>, %sx: tensor<f32>) -> (tensor<f32>, tensor<256x16xf32>) {
  %z = nano.scaled_matmul %x, %w scales(%sx, %sx) {transpose_b} : (tensor<256x16xf8E4M3FN>, tensor<256x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<256x256xf32>
  %m = nano.abs %z : tensor<256x256xf32>
  %a = nano.reduce max %m dims [0, 1] : tensor<256x256xf32> -> tensor<f32>
  %s = nano.div %a, %big : tensor<f32>
  %q = nano.quantize %z, %s : tensor<256x256xf32>, tensor<f32> -> tensor<256x256xf8E5M2>
  %dw = nano.scaled_matmul %q, %x scales(%s, %sx) {transpose_a} : (tensor<256x256xf8E5M2>, tensor<256x16xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<256x16xf32>
  nano.return %a, %dw : tensor<f32>, tensor<256x16xf32>
}

// -----

// A largest element that the rows are divided by is that of all rows: nothing can be chunked before it is known.
// CHECK-LABEL: nano.program @normalised
// CHECK-NOT:   nano.slice
nano.program @normalised(%x: tensor<256x16xf32>, %w: tensor<256x16xf32>, %t: tensor<256xi32>) -> tensor<256xf32> {
  // expected-remark@+1 {{left whole: nano.reduce mixes rows of a tensor of 262144 bytes}}
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x256xf32>
  // expected-note@+1 {{which is this op}}
  %a = nano.reduce max %z dims [0, 1] : tensor<256x256xf32> -> tensor<f32>
  %b = nano.broadcast %a dims [] : tensor<f32> -> tensor<256x256xf32>
  %y = nano.div %z, %b : tensor<256x256xf32>
  %loss, %lse = nano.cross_entropy %y, %t : (tensor<256x256xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  nano.return %loss : tensor<256xf32>
}

// -----

// Who reads such a scale elsewhere gets the one of all rows.
// CHECK-LABEL: nano.program @scale_leaves
// CHECK:       %[[A0:.*]] = nano.reduce max
// CHECK:       nano.div %[[A0]], %arg2
// CHECK:       %[[A1:.*]] = nano.reduce max
// CHECK:       %[[A:.*]] = nano.max %[[A0]], %[[A1]] : tensor<f32>
// CHECK:       nano.div %[[A1]], %arg2
// CHECK:       %[[S:.*]] = nano.div %[[A]], %arg2 : tensor<f32>
// CHECK:       nano.return %[[S]]
nano.program @scale_leaves(%x: tensor<256x16xf32>, %w: tensor<256x16xf32>, %big: tensor<f32>) -> (tensor<f32>, tensor<256x256xf8E5M2>) {
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x256xf32>
  %m = nano.abs %z : tensor<256x256xf32>
  %a = nano.reduce max %m dims [0, 1] : tensor<256x256xf32> -> tensor<f32>
  %s = nano.div %a, %big : tensor<f32>
  %q = nano.quantize %z, %s : tensor<256x256xf32>, tensor<f32> -> tensor<256x256xf8E5M2>
  nano.return %s, %q : tensor<f32>, tensor<256x256xf8E5M2>
}
