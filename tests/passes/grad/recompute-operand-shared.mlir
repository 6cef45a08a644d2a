// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute=save-bytes=100000 -verify-diagnostics | FileCheck %s

// tanh is made again with its product. What that reads, the gradient of its weight reads too: it is made once for both. The weight in bf16 is what the second product of the backward pass reads,
// beside the first one's gradient: it would be made again before anything is freed, and stays.
// CHECK-LABEL: nano.program @train
// CHECK:         %[[W3:.*]] = nano.load @w3
// CHECK-NEXT:    %[[NARROW:.*]] = nano.cast %[[W3]]
// CHECK:         nano.reduce sum
// CHECK:         nano.matmul %[[DZ:.*]], %{{.*}} {transpose_a}
// CHECK:         nano.matmul %[[DZ]], %[[NARROW]]
// CHECK:         %[[E:.*]] = nano.exp
// CHECK-NEXT:    nano.matmul %[[E]]
// CHECK-NEXT:    nano.tanh
// CHECK-NOT:     nano.exp
// CHECK:         nano.matmul %{{.*}}, %[[E]] {transpose_a}
// CHECK-NEXT:    nano.accumulate %{{.*}}, @grad.w1
// CHECK:         nano.return
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<64x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x64xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w3 : tensor<128x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%x: tensor<256x16xf32>) -> tensor<f32> attributes {role = "train"} {
  %w0 = nano.load @w2 : tensor<16x64xf32>
  %w1 = nano.load @w1 : tensor<64x16xf32>
  %e = nano.exp %x : tensor<256x16xf32>
  %h = nano.matmul %e, %w1 {transpose_b} : (tensor<256x16xf32>, tensor<64x16xf32>) -> tensor<256x64xf32>
  // expected-remark-re@+1 {{made again in the backward pass: tanh × 1, 0.07 MB, in {{[0-9.]+}} ms of a micro-batch}}
  %a = nano.tanh %h : tensor<256x64xf32>
  %p = nano.matmul %a, %w0 {transpose_b} : (tensor<256x64xf32>, tensor<16x64xf32>) -> tensor<256x16xf32>
  %n = nano.cast %p : tensor<256x16xf32> -> tensor<256x16xbf16>
  %w3 = nano.load @w3 : tensor<128x16xf32>
  %c = nano.cast %w3 : tensor<128x16xf32> -> tensor<128x16xbf16>
  %z = nano.matmul %n, %c {transpose_b} : (tensor<256x16xbf16>, tensor<128x16xbf16>) -> tensor<256x128xbf16>
  %f = nano.cast %z : tensor<256x128xbf16> -> tensor<256x128xf32>
  %sq = nano.mul %f, %f : tensor<256x128xf32>
  %loss = nano.reduce sum %sq dims [0, 1] : tensor<256x128xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}
