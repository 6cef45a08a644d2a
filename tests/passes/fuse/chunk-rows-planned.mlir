// RUN: nano-opt %s -nano-chunk-rows=report=true -verify-diagnostics -split-input-file -o /dev/null
// RUN: nano-opt %s -nano-chunk-rows -split-input-file | FileCheck %s

// The head is all that needs memory: its chunks hold at most six times the weight's gradient, which each of them reads and writes.
// A chunk holds its logits in bf16, 64 KiB a row; their gradient takes their place.
// CHECK-LABEL: nano.program @head_alone
// CHECK-COUNT-16: nano.cross_entropy %{{.*}} : (tensor<4096x32768xf32>
// CHECK-NOT:      nano.cross_entropy
nano.program @head_alone(%x: tensor<65536x512xbf16>, %w: tensor<32768x512xbf16>, %t: tensor<65536xi32>) -> (tensor<65536xf32>, tensor<65536x512xbf16>, tensor<32768x512xf32>) {
  // expected-remark@+1 {{computed in 16 chunks of 4096 rows}}
  %z = nano.matmul %x, %w {transpose_b} : (tensor<65536x512xbf16>, tensor<32768x512xbf16>) -> tensor<65536x32768xbf16>
  %f = nano.cast %z : tensor<65536x32768xbf16> -> tensor<65536x32768xf32>
  %loss, %lse = nano.cross_entropy %f, %t : (tensor<65536x32768xf32>, tensor<65536xi32>) -> (tensor<65536xf32>, tensor<65536xf32>)
  %b = nano.broadcast %lse dims [0] : tensor<65536xf32> -> tensor<65536x32768xf32>
  %d = nano.sub %f, %b : tensor<65536x32768xf32>
  %e = nano.exp %d : tensor<65536x32768xf32>
  %g = nano.cast %e : tensor<65536x32768xf32> -> tensor<65536x32768xbf16>
  %dx = nano.matmul %g, %w : (tensor<65536x32768xbf16>, tensor<32768x512xbf16>) -> tensor<65536x512xbf16>
  %dw = nano.matmul %g, %x {transpose_a} : (tensor<65536x32768xbf16>, tensor<65536x512xbf16>) -> tensor<32768x512xf32>
  nano.return %loss, %dx, %dw : tensor<65536xf32>, tensor<65536x512xbf16>, tensor<32768x512xf32>
}

// -----

// Of 8 bits: the logits in bf16 and, beside them, their gradient, 96 KiB a row; six times the weight's gradient exactly.
// CHECK-LABEL: nano.program @head_of_8_bits
// CHECK-COUNT-16: nano.cross_entropy %{{.*}} : (tensor<4096x32768xf32>
// CHECK-NOT:     nano.cross_entropy
nano.program @head_of_8_bits(%x: tensor<65536x512xf8E4M3FN>, %w: tensor<32768x512xf8E4M3FN>, %s: tensor<f32>, %t: tensor<65536xi32>) -> (tensor<65536xf32>, tensor<65536x512xbf16>, tensor<32768x512xf32>) {
  // expected-remark@+1 {{computed in 16 chunks of 4096 rows}}
  %z = nano.scaled_matmul %x, %w scales(%s, %s) {transpose_b} : (tensor<65536x512xf8E4M3FN>, tensor<32768x512xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<65536x32768xbf16>
  %f = nano.cast %z : tensor<65536x32768xbf16> -> tensor<65536x32768xf32>
  %loss, %lse = nano.cross_entropy %f, %t : (tensor<65536x32768xf32>, tensor<65536xi32>) -> (tensor<65536xf32>, tensor<65536xf32>)
  %b = nano.broadcast %lse dims [0] : tensor<65536xf32> -> tensor<65536x32768xf32>
  %d = nano.sub %f, %b : tensor<65536x32768xf32>
  %e = nano.exp %d : tensor<65536x32768xf32>
  %g = nano.cast %e : tensor<65536x32768xf32> -> tensor<65536x32768xf8E5M2>
  %dx = nano.scaled_matmul %g, %w scales(%s, %s) : (tensor<65536x32768xf8E5M2>, tensor<32768x512xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<65536x512xbf16>
  %dw = nano.scaled_matmul %g, %x scales(%s, %s) {transpose_a} : (tensor<65536x32768xf8E5M2>, tensor<65536x512xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<32768x512xf32>
  nano.return %loss, %dx, %dw : tensor<65536xf32>, tensor<65536x512xbf16>, tensor<32768x512xf32>
}

// -----

// Another program holds 1 GiB at its peak: chunks may do so too, at no cost.
// CHECK-LABEL: nano.program @head
// CHECK-COUNT-4: nano.cross_entropy %{{.*}} : (tensor<16384x32768xf32>
// CHECK-NOT:     nano.cross_entropy
nano.program @head(%x: tensor<65536x512xbf16>, %w: tensor<32768x512xbf16>, %t: tensor<65536xi32>) -> tensor<65536xf32> {
  // expected-remark@+1 {{computed in 4 chunks of 16384 rows}}
  %z = nano.matmul %x, %w {transpose_b} : (tensor<65536x512xbf16>, tensor<32768x512xbf16>) -> tensor<65536x32768xbf16>
  %f = nano.cast %z : tensor<65536x32768xbf16> -> tensor<65536x32768xf32>
  %loss, %lse = nano.cross_entropy %f, %t : (tensor<65536x32768xf32>, tensor<65536xi32>) -> (tensor<65536xf32>, tensor<65536xf32>)
  nano.return %loss : tensor<65536xf32>
}
nano.program @other(%x: tensor<65536x4096xbf16>, %w: tensor<4096x4096xbf16>) -> tensor<65536x4096xbf16> {
  %p = nano.matmul %x, %w : (tensor<65536x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<65536x4096xbf16>
  %q = nano.matmul %p, %w : (tensor<65536x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<65536x4096xbf16>
  %y = nano.matmul %q, %w : (tensor<65536x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<65536x4096xbf16>
  nano.return %y : tensor<65536x4096xbf16>
}

// -----

// A head that fits is left whole.
// CHECK-LABEL: nano.program @small
// CHECK-NOT:   nano.slice
nano.program @small(%x: tensor<512x64xf32>, %w: tensor<1024x64xf32>, %t: tensor<512xi32>) -> tensor<512xf32> {
  // expected-remark@+1 {{computed in 1 chunks of 512 rows}}
  %z = nano.matmul %x, %w {transpose_b} : (tensor<512x64xf32>, tensor<1024x64xf32>) -> tensor<512x1024xf32>
  %loss, %lse = nano.cross_entropy %z, %t : (tensor<512x1024xf32>, tensor<512xi32>) -> (tensor<512xf32>, tensor<512xf32>)
  nano.return %loss : tensor<512xf32>
}
