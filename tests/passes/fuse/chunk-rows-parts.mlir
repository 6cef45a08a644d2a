// RUN: nano-opt %s "-nano-chunk-rows=report=true turns=true" -verify-diagnostics | FileCheck %s
// RUN: nano-opt %s "-nano-chunk-rows=max-bytes=268435456 parts=4" | FileCheck %s --check-prefix=FORCED
// RUN: nano-opt %s "-nano-chunk-rows=max-bytes=805306368 parts=4 turns=true further=true" | FileCheck %s --check-prefix=SHRINK

// The head in FP8: a row's logits in bf16 have 96 KiB, their gradient 48. In the bytes that chunks of 4,096 rows would hold, chunks of
// 8,192 have their logits in parts: the weight's gradient is read and written half as often. Parts of the gradient are concatenated
// for the products that read it; of the transpose, which products make of the gradient themselves, too.
// CHECK-LABEL: nano.program @head
// CHECK:       %[[X0:.*]] = nano.slice %arg0 dim 0 at 0 : {{.*}} -> tensor<2048x768xf8E4M3FN>
// CHECK:       nano.scaled_matmul %[[X0]], %arg1 {{.*}} -> tensor<2048x49152xbf16>
// CHECK:       %[[G0:.*]] = nano.quantize {{.*}} -> tensor<2048x49152xf8E5M2>
// CHECK:       %[[T0:.*]] = nano.transpose %[[G0]]
// CHECK:       %[[X3:.*]] = nano.slice %arg0 dim 0 at 6144 :
// CHECK:       %[[G3:.*]] = nano.quantize
// CHECK:       %[[T3:.*]] = nano.transpose %[[G3]]
// CHECK:       %[[G:.*]] = nano.concat %[[G0]], {{.*}}, %[[G3]] dim 0 : {{.*}} -> tensor<8192x49152xf8E5M2>
// CHECK:       %[[T:.*]] = nano.concat %[[T0]], {{.*}}, %[[T3]] dim 1 : {{.*}} -> tensor<49152x8192xf8E5M2>
// CHECK:       nano.scaled_matmul %[[G]], %arg2 {{.*}} -> tensor<8192x768xbf16>
// CHECK:       %[[XT:.*]] = nano.slice %arg5 dim 1 at 0 : {{.*}} -> tensor<768x8192xf8E4M3FN>
// CHECK:       %[[DW:.*]] = nano.scaled_matmul %[[T]], %[[XT]] {{.*}} -> tensor<49152x768xf32>
// CHECK:       nano.slice %arg0 dim 0 at 8192 : {{.*}} -> tensor<2048x768xf8E4M3FN>
// CHECK:       nano.scaled_matmul {{.*}} add %[[DW]]

// As many parts as asked for: here of 128 rows.
// FORCED-LABEL: nano.program @head
// FORCED:       nano.scaled_matmul {{.*}} -> tensor<256x49152xbf16>
// FORCED:       nano.concat {{.*}} -> tensor<1024x49152xf8E5M2>
// Logits of two bytes, gradients of one: with parts that shrink the logits of each lie where the gradients of later ones will, and in
// the bytes of the last one's logits; those of 512 rows instead of 1,024 are held beside the gradient.
// SHRINK-LABEL: nano.program @head
// SHRINK:       nano.slice %arg0 dim 0 at 0 : {{.*}} -> tensor<1792x768xf8E4M3FN>
// SHRINK:       nano.scaled_matmul {{.*}} -> tensor<1792x49152xbf16>
// SHRINK:       nano.slice %arg0 dim 0 at 1792 : {{.*}} -> tensor<1024x768xf8E4M3FN>
// SHRINK:       nano.slice %arg0 dim 0 at 2816 : {{.*}} -> tensor<768x768xf8E4M3FN>
// SHRINK:       nano.slice %arg0 dim 0 at 3584 : {{.*}} -> tensor<512x768xf8E4M3FN>
// SHRINK:       nano.concat {{.*}} dim 0 : {{.*}} -> tensor<4096x49152xf8E5M2>
nano.program @head(%x: tensor<49152x768xf8E4M3FN>, %w: tensor<49152x768xf8E4M3FN>, %wt: tensor<768x49152xf8E4M3FN>, %s: tensor<f32>, %t: tensor<49152xi32>, %xt: tensor<768x49152xf8E4M3FN>)
    -> (tensor<49152xf32>, tensor<49152x768xbf16>, tensor<49152x768xf32>) {
  // expected-remark@+1 {{computed in 6 chunks of 8192 rows, in parts of 2048}}
  %z = nano.scaled_matmul %x, %w scales(%s, %s) {transpose_b} : (tensor<49152x768xf8E4M3FN>, tensor<49152x768xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<49152x49152xbf16>
  %f = nano.cast %z : tensor<49152x49152xbf16> -> tensor<49152x49152xf32>
  %loss, %lse = nano.cross_entropy %f, %t : (tensor<49152x49152xf32>, tensor<49152xi32>) -> (tensor<49152xf32>, tensor<49152xf32>)
  %b = nano.broadcast %lse dims [0] : tensor<49152xf32> -> tensor<49152x49152xf32>
  %d = nano.sub %f, %b : tensor<49152x49152xf32>
  %e = nano.exp %d : tensor<49152x49152xf32>
  %g = nano.quantize %e, %s : tensor<49152x49152xf32>, tensor<f32> -> tensor<49152x49152xf8E5M2>
  %gt = nano.transpose %g : tensor<49152x49152xf8E5M2> -> tensor<49152x49152xf8E5M2>
  %dx = nano.scaled_matmul %g, %wt scales(%s, %s) {transpose_b} : (tensor<49152x49152xf8E5M2>, tensor<768x49152xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<49152x768xbf16>
  %dw = nano.scaled_matmul %gt, %xt scales(%s, %s) {transpose_b} : (tensor<49152x49152xf8E5M2>, tensor<768x49152xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<49152x768xf32>
  nano.return %loss, %dx, %dw : tensor<49152xf32>, tensor<49152x768xbf16>, tensor<49152x768xf32>
}
