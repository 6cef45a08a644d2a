// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute -split-input-file | FileCheck %s
// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute=report=true -split-input-file -verify-diagnostics -o /dev/null

// An MLP behind a norm, in bf16: the backward pass has the gathered rows from the table, makes the norm again, and finds relu² (8192 bytes),
// which gives its own derivative, the head's input (which its first product reads) and the weights in bf16. What the way back through the
// norm recomputes also serves the gradient of the first weight.
// CHECK-LABEL: nano.program @train
// CHECK:         %[[E:.*]] = nano.load @embed
// CHECK:         %[[N:.*]] = nano.cast %{{.*}} : tensor<128x8xf32> -> tensor<128x8xbf16>
// CHECK:         %[[H:.*]] = nano.matmul %[[N]]
// CHECK:         %[[A:.*]] = nano.max %[[H]]
// CHECK-NEXT:    %[[A2:.*]] = nano.mul %[[A]], %[[A]]
// CHECK:         %[[P:.*]] = nano.matmul
// CHECK:         %[[Y:.*]] = nano.add %{{.*}}, %[[P]]
// CHECK:         %[[LOSS:.*]] = nano.reduce sum %{{.*}} dims [0]
// The head: its input is kept.
// CHECK:         %[[DHEAD:.*]] = nano.matmul %{{.*}}, %[[Y]] {transpose_a} : {{.*}} -> tensor<16x8xf32>
// CHECK-NEXT:    nano.accumulate %[[DHEAD]], @grad.head
// CHECK-NEXT:    %[[DY:.*]] = nano.matmul
// The gradient of the second weight and the way back through relu² read it.
// CHECK-NEXT:    %[[DW2:.*]] = nano.matmul %[[DY]], %[[A2]] {transpose_a}
// CHECK-NEXT:    nano.accumulate %[[DW2]], @grad.w2
// CHECK-NEXT:    %[[DA2:.*]] = nano.matmul %[[DY]]
// CHECK-NEXT:    %[[A1:.*]] = nano.sqrt %[[A2]]
// CHECK-NEXT:    nano.mul %[[DA2]], %[[A1]]
// CHECK:         %[[DH:.*]] = nano.select gt, %[[A2]]
// Back through the norm, from the table.
// CHECK-NEXT:    nano.matmul %[[DH]]
// CHECK:         nano.gather %[[E]], %arg0
// CHECK:         nano.rsqrt
// CHECK:         %[[N1:.*]] = nano.cast %{{.*}} : tensor<128x8xf32> -> tensor<128x8xbf16>
// CHECK:         %[[DW1:.*]] = nano.matmul %[[DH]], %{{.*}} {transpose_a} : {{.*}} -> tensor<32x8xf32>
// CHECK-NEXT:    nano.accumulate %[[DW1]], @grad.w1
// CHECK-NOT:     nano.gather
// CHECK:         nano.accumulate %{{.*}}, @grad.embed
// CHECK-NEXT:    nano.return %[[LOSS]]
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @embed : tensor<16x8xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w1 : tensor<32x8xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<8x32xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @head : tensor<16x8xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
// expected-remark@+1 {{kept for the backward pass in all: 16128 bytes}}
nano.program @train(%tokens: tensor<128xi32>, %targets: tensor<128xi32>) -> tensor<f32> attributes {role = "train"} {
  %e = nano.load @embed : tensor<16x8xbf16>
  %x = nano.gather %e, %tokens : (tensor<16x8xbf16>, tensor<128xi32>) -> tensor<128x8xbf16>
  %x32 = nano.cast %x : tensor<128x8xbf16> -> tensor<128x8xf32>
  %sq = nano.mul %x32, %x32 : tensor<128x8xf32>
  %s = nano.reduce sum %sq dims [1] : tensor<128x8xf32> -> tensor<128xf32>
  %c = nano.constant 0.125 : tensor<128xf32>
  %m = nano.mul %s, %c : tensor<128xf32>
  %r = nano.rsqrt %m : tensor<128xf32>
  %rb = nano.broadcast %r dims [0] : tensor<128xf32> -> tensor<128x8xf32>
  %n32 = nano.mul %x32, %rb : tensor<128x8xf32>
  %n = nano.cast %n32 : tensor<128x8xf32> -> tensor<128x8xbf16>
  %w1 = nano.load @w1 : tensor<32x8xf32>
  // expected-remark@+1 {{kept for the backward pass: 512 bytes}}
  %w1b = nano.cast %w1 : tensor<32x8xf32> -> tensor<32x8xbf16>
  %h = nano.matmul %n, %w1b {transpose_b} : (tensor<128x8xbf16>, tensor<32x8xbf16>) -> tensor<128x32xbf16>
  %z = nano.constant 0.0 : tensor<128x32xbf16>
  %a = nano.max %h, %z : tensor<128x32xbf16>
  // expected-remark@+1 {{kept for the backward pass: 8192 bytes}}
  %a2 = nano.mul %a, %a : tensor<128x32xbf16>
  %w2 = nano.load @w2 : tensor<8x32xf32>
  // expected-remark@+1 {{kept for the backward pass: 512 bytes}}
  %w2b = nano.cast %w2 : tensor<8x32xf32> -> tensor<8x32xbf16>
  %p = nano.matmul %a2, %w2b {transpose_b} : (tensor<128x32xbf16>, tensor<8x32xbf16>) -> tensor<128x8xbf16>
  // expected-remark@+1 {{kept for the backward pass: 2048 bytes}}
  %y = nano.add %x, %p : tensor<128x8xbf16>
  %wh = nano.load @head : tensor<16x8xf32>
  // expected-remark@+1 {{kept for the backward pass: 256 bytes}}
  %whb = nano.cast %wh : tensor<16x8xf32> -> tensor<16x8xbf16>
  // expected-remark@+1 {{kept for the backward pass: 4096 bytes}}
  %zl = nano.matmul %y, %whb {transpose_b} : (tensor<128x8xbf16>, tensor<16x8xbf16>) -> tensor<128x16xbf16>
  %zf = nano.cast %zl : tensor<128x16xbf16> -> tensor<128x16xf32>
  %sg = nano.sigmoid %zf : tensor<128x16xf32>
  // expected-remark@+1 {{kept for the backward pass: 512 bytes}}
  %loss, %lse = nano.cross_entropy %sg, %targets : (tensor<128x16xf32>, tensor<128xi32>) -> (tensor<128xf32>, tensor<128xf32>)
  %t = nano.reduce sum %loss dims [0] : tensor<128xf32> -> tensor<f32>
  nano.return %t : tensor<f32>
}
