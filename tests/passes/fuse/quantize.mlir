// RUN: nano-opt %s -nano-fuse -nano-verify-fused -split-input-file | FileCheck %s

// Quantising joins what makes the value, beside the value itself where others read it; the reciprocal of the scale is a number.
// CHECK-LABEL: nano.program @static
// CHECK:       %[[F:.*]]:2 = nano.fused(%{{.*}}, %{{.*}}) : {{.*}} -> (tensor<512x64xbf16>, tensor<512x64xf8E4M3FN>) {
// CHECK-DAG:     %[[ONE:.*]] = nano.constant 1.000000e+00 : tensor<f32>
// CHECK-DAG:     %[[N:.*]] = nano.div %[[ONE]], %{{.*}} : tensor<f32>
// CHECK-DAG:     %[[B:.*]] = nano.broadcast %[[N]] dims [] : tensor<f32> -> tensor<512x64xf32>
// CHECK-DAG:     %[[R:.*]] = nano.max
// CHECK-DAG:     %[[W:.*]] = nano.cast %[[R]] : tensor<512x64xbf16> -> tensor<512x64xf32>
// CHECK:         %[[P:.*]] = nano.mul %[[W]], %[[B]]
// CHECK:         %[[Q:.*]] = nano.cast %[[P]] : tensor<512x64xf32> -> tensor<512x64xf8E4M3FN>
// CHECK:         nano.yield %[[R]], %[[Q]]
// CHECK-NOT:   nano.fused
// CHECK:       nano.return
nano.program @static(%x: tensor<512x64xbf16>, %s: tensor<f32>) -> (tensor<512x64xbf16>, tensor<512x64xf8E4M3FN>) {
  %zero = nano.constant 0.0 : tensor<512x64xbf16>
  %r = nano.max %x, %zero : tensor<512x64xbf16>
  %q = nano.quantize %r, %s : tensor<512x64xbf16>, tensor<f32> -> tensor<512x64xf8E4M3FN>
  nano.return %r, %q : tensor<512x64xbf16>, tensor<512x64xf8E4M3FN>
}

// -----

// The largest magnitude of rows is taken where the value is made; one more kernel of one row ends it.
// CHECK-LABEL: nano.program @amax
// CHECK:       %[[F:.*]]:2 = nano.fused(%{{.*}}) : {{.*}} -> (tensor<512x64xbf16>, tensor<512xbf16>) {
// CHECK:         %[[R:.*]] = nano.mul
// CHECK:         %[[A:.*]] = nano.abs %[[R]]
// CHECK:         %[[M:.*]] = nano.reduce max %[[A]] dims [1]
// CHECK:         nano.yield %[[R]], %[[M]]
// CHECK:       nano.reshape %[[F]]#1
// CHECK:       nano.fused
// CHECK:         nano.reduce max %{{.*}} dims [1] : tensor<1x512xbf16> -> tensor<1xbf16>
// CHECK-NOT:   nano.fused
// CHECK:       nano.return
nano.program @amax(%x: tensor<512x64xbf16>) -> (tensor<512x64xbf16>, tensor<bf16>) {
  %r = nano.mul %x, %x : tensor<512x64xbf16>
  %a = nano.abs %r : tensor<512x64xbf16>
  %m = nano.reduce max %a dims [0, 1] : tensor<512x64xbf16> -> tensor<bf16>
  nano.return %r, %m : tensor<512x64xbf16>, tensor<bf16>
}

// -----

// Blocks of a row are rows of a view: amax, scale and conversion of them are one kernel.
// CHECK-LABEL: nano.program @blocks
// CHECK:       %[[V:.*]] = nano.reshape %arg0 : tensor<8x256xbf16> -> tensor<8x2x128xbf16>
// CHECK:       %[[F:.*]]:2 = nano.fused(%[[V]]) : {{.*}} -> (tensor<8x2xf32>, tensor<8x2x128xf8E4M3FN>) {
// CHECK:         nano.reduce max
// CHECK:         nano.cast %{{.*}} : tensor<8x2x128xf32> -> tensor<8x2x128xf8E4M3FN>
// CHECK-NOT:   nano.fused
// CHECK:       nano.reshape %[[F]]#1 : tensor<8x2x128xf8E4M3FN> -> tensor<8x256xf8E4M3FN>
nano.program @blocks(%x: tensor<8x256xbf16>) -> (tensor<8x256xf8E4M3FN>, tensor<8x2xf32>) {
  %v = nano.reshape %x : tensor<8x256xbf16> -> tensor<8x2x128xbf16>
  %a = nano.abs %v : tensor<8x2x128xbf16>
  %m = nano.reduce max %a dims [2] : tensor<8x2x128xbf16> -> tensor<8x2xbf16>
  %f = nano.cast %m : tensor<8x2xbf16> -> tensor<8x2xf32>
  %tiny = nano.constant 1.0e-12 : tensor<8x2xf32>
  %positive = nano.max %f, %tiny : tensor<8x2xf32>
  %largest = nano.constant 448.0 : tensor<8x2xf32>
  %s = nano.div %positive, %largest : tensor<8x2xf32>
  %q = nano.quantize %x, %s : tensor<8x256xbf16>, tensor<8x2xf32> -> tensor<8x256xf8E4M3FN>
  nano.return %q, %s : tensor<8x256xf8E4M3FN>, tensor<8x2xf32>
}

// -----

// Element-wise ops on what lies in memory take the blocks' shape, and join them: one kernel reads %h and writes all. Others read views.
// CHECK-LABEL: nano.program @blocks_of_activations
// CHECK:       %[[H:.*]] = nano.matmul
// CHECK:       %[[V:.*]] = nano.reshape %[[H]] : tensor<8x256xbf16> -> tensor<8x2x128xbf16>
// CHECK:       %[[F:.*]]:3 = nano.fused(%[[V]]) : {{.*}} -> (tensor<8x2x128xbf16>, tensor<8x2xf32>, tensor<8x2x128xf8E4M3FN>) {
// CHECK:         nano.max
// CHECK:         nano.reduce max
// CHECK:         nano.cast %{{.*}} : tensor<8x2x128xf32> -> tensor<8x2x128xf8E4M3FN>
// CHECK-NOT:   nano.fused
// CHECK:       nano.return
nano.program @blocks_of_activations(%x: tensor<8x256xbf16>, %w: tensor<256x256xbf16>) -> (tensor<8x256xbf16>, tensor<8x256xf8E4M3FN>, tensor<8x2xf32>) {
  %h = nano.matmul %x, %w : (tensor<8x256xbf16>, tensor<256x256xbf16>) -> tensor<8x256xbf16>
  %zero = nano.constant 0.0 : tensor<8x256xbf16>
  %r = nano.max %h, %zero : tensor<8x256xbf16>
  %r2 = nano.mul %r, %r : tensor<8x256xbf16>
  %v = nano.reshape %r2 : tensor<8x256xbf16> -> tensor<8x2x128xbf16>
  %a = nano.abs %v : tensor<8x2x128xbf16>
  %m = nano.reduce max %a dims [2] : tensor<8x2x128xbf16> -> tensor<8x2xbf16>
  %f = nano.cast %m : tensor<8x2xbf16> -> tensor<8x2xf32>
  %largest = nano.constant 448.0 : tensor<8x2xf32>
  %s = nano.div %f, %largest : tensor<8x2xf32>
  %q = nano.quantize %r2, %s : tensor<8x256xbf16>, tensor<8x2xf32> -> tensor<8x256xf8E4M3FN>
  nano.return %r2, %q, %s : tensor<8x256xbf16>, tensor<8x256xf8E4M3FN>, tensor<8x2xf32>
}

// -----

// What stands for the numbers: f32(q)·scale.
// CHECK-LABEL: nano.program @back
// CHECK:       nano.fused(%{{.*}}, %{{.*}})
// CHECK:         %[[W:.*]] = nano.cast %{{.*}} : tensor<8x256xf8E5M2> -> tensor<8x256xf32>
// CHECK:         %[[P:.*]] = nano.mul %[[W]]
// CHECK:         nano.cast %[[P]] : tensor<8x256xf32> -> tensor<8x256xbf16>
nano.program @back(%q: tensor<8x256xf8E5M2>, %s: tensor<f32>) -> tensor<8x256xbf16> {
  %x = nano.dequantize %q, %s : tensor<8x256xf8E5M2>, tensor<f32> -> tensor<8x256xbf16>
  nano.return %x : tensor<8x256xbf16>
}

// -----

// What a product takes as its scale is written by the kernel that ends the reduction; the kernel that converts divides by it.
// CHECK-LABEL: nano.program @current
// CHECK:       nano.fused(%{{.*}}) : (tensor<256x64xf32>) -> tensor<256xf32>
// CHECK:       %[[S:.*]] = nano.fused(%{{.*}}) : (tensor<1x256xf32>) -> tensor<1xf32> {
// CHECK:         %[[M:.*]] = nano.reduce max %{{.*}} dims [1] : tensor<1x256xf32> -> tensor<1xf32>
// CHECK:         %[[V:.*]] = nano.mul %[[M]], %{{.*}} : tensor<1xf32>
// CHECK:         %[[R:.*]] = nano.select gt, %[[V]], %{{.*}}, %[[V]], %{{.*}} : tensor<1xf32>, tensor<1xf32>
// CHECK:         nano.yield %[[R]]
// CHECK:       %[[N:.*]] = nano.reshape %[[S]] : tensor<1xf32> -> tensor<f32>
// CHECK:       nano.fused(%[[N]], %{{.*}}) : (tensor<f32>, tensor<256x64xf32>) -> tensor<256x64xf8E4M3FN> {
// CHECK:         nano.div %{{.*}}, %{{.*}} : tensor<f32>
// CHECK-NOT:   nano.fused
// CHECK:       nano.scaled_matmul %{{.*}}, %{{.*}} scales(%{{.*}}, %[[N]])
nano.program @current(%x: tensor<128x64xf8E4M3FN>, %sx: tensor<f32>, %w: tensor<256x64xf32>) -> tensor<128x256xbf16> {
  %one = nano.constant 1.0 : tensor<f32>
  %least = nano.constant 1.0e-30 : tensor<f32>
  %factor = nano.constant 0.002 : tensor<f32>
  %a = nano.abs %w : tensor<256x64xf32>
  %r = nano.reduce max %a dims [1] : tensor<256x64xf32> -> tensor<256xf32>
  %m = nano.reduce max %r dims [0] : tensor<256xf32> -> tensor<f32>
  %v = nano.mul %m, %factor : tensor<f32>
  %s = nano.select gt, %v, %least, %v, %one : tensor<f32>, tensor<f32>
  %q = nano.quantize %w, %s : tensor<256x64xf32>, tensor<f32> -> tensor<256x64xf8E4M3FN>
  %y = nano.scaled_matmul %x, %q scales(%sx, %s) {transpose_b} : (tensor<128x64xf8E4M3FN>, tensor<256x64xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<128x256xbf16>
  nano.return %y : tensor<128x256xbf16>
}

// -----

// A number that kernels alone read is computed in them: the one that ends the reduction writes only what is reduced.
// CHECK-LABEL: nano.program @norm
// CHECK:       %[[S:.*]] = nano.fused(%{{.*}}) : (tensor<1x256xf32>) -> tensor<1xf32> {
// CHECK-NEXT:  ^bb0
// CHECK-NEXT:    %[[M:.*]] = nano.reduce sum
// CHECK-NEXT:    nano.yield %[[M]]
// CHECK:       nano.fused(
// CHECK:         nano.sqrt %{{.*}} : tensor<f32>
nano.program @norm(%w: tensor<256x64xf32>) -> tensor<256x64xf32> {
  %a = nano.mul %w, %w : tensor<256x64xf32>
  %r = nano.reduce sum %a dims [1] : tensor<256x64xf32> -> tensor<256xf32>
  %m = nano.reduce sum %r dims [0] : tensor<256xf32> -> tensor<f32>
  %n = nano.sqrt %m : tensor<f32>
  %b = nano.broadcast %n dims [] : tensor<f32> -> tensor<256x64xf32>
  %d = nano.div %w, %b : tensor<256x64xf32>
  nano.return %d : tensor<256x64xf32>
}
