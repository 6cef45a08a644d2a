// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute=save-bytes=1 -split-input-file -verify-diagnostics | FileCheck %s
// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute -split-input-file 2> /dev/null | FileCheck %s --check-prefix=KEPT
// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute=save-bytes=100000 -split-input-file 2> /dev/null | FileCheck %s
// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute=next=1 -split-input-file 2> /dev/null | FileCheck %s --check-prefix=KEPT
// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute=next=1 -split-input-file 2>&1 | FileCheck %s --check-prefix=NEXT
// RUN: nano-opt %s -nano-differentiate -cse "-nano-recompute=next=9 save-bytes=100000" -split-input-file 2>&1 | FileCheck %s --check-prefix=NONE

// What would be made again next is told, and held; where all that can be is made again already, nothing is.
// NEXT: remark: would be made again next, to hold less: tanh × 1, 0.02 MB, in {{[0-9.]+}} ms of a micro-batch
// NONE-NOT: would be made again next

// Two layers. Of the first one tanh, 16,384 bytes, is made again from the table's rows: once for all that reads it there. The second layer's is held
// when the backward pass begins, whatever is done about it, and stays; so it is when everything is to be saved.
// CHECK-LABEL: nano.program @train
// CHECK:         %[[A1:.*]] = nano.tanh
// CHECK:         %[[A2:.*]] = nano.tanh
// CHECK:         nano.reduce sum
// CHECK:         nano.matmul %{{.*}}, %[[A2]] {transpose_a}
// CHECK-NEXT:    nano.accumulate %{{.*}}, @grad.w4
// CHECK:         nano.accumulate %{{.*}}, @grad.w3
// CHECK:         %[[X:.*]] = nano.gather
// CHECK-NEXT:    %[[H:.*]] = nano.matmul %[[X]], %{{.*}} {transpose_b}
// CHECK-NEXT:    %[[AGAIN:.*]] = nano.tanh %[[H]]
// CHECK-NEXT:    nano.matmul %{{.*}}, %[[AGAIN]] {transpose_a}
// CHECK-NEXT:    nano.accumulate %{{.*}}, @grad.w2
// CHECK-NOT:     nano.tanh
// CHECK:         nano.mul %[[AGAIN]], %[[AGAIN]]
// CHECK-NOT:     nano.tanh
// CHECK:         nano.return
// KEPT-LABEL: nano.program @train
// KEPT:         nano.reduce sum
// KEPT-NOT:     nano.tanh
// KEPT:         nano.return
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x32xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w3 : tensor<32x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w4 : tensor<16x32xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @embed : tensor<16x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%tokens: tensor<128xi32>, %targets: tensor<128xi32>) -> tensor<f32> attributes {role = "train"} {
  %e = nano.load @embed : tensor<16x16xf32>
  %x0 = nano.gather %e, %tokens : (tensor<16x16xf32>, tensor<128xi32>) -> tensor<128x16xf32>
  %w1 = nano.load @w1 : tensor<32x16xf32>
  %h1 = nano.matmul %x0, %w1 {transpose_b} : (tensor<128x16xf32>, tensor<32x16xf32>) -> tensor<128x32xf32>
  // expected-remark-re@+1 {{made again in the backward pass: tanh × 1, 0.02 MB, in {{[0-9.]+}} ms of a micro-batch}}
  %a1 = nano.tanh %h1 : tensor<128x32xf32>
  %w2 = nano.load @w2 : tensor<16x32xf32>
  %p1 = nano.matmul %a1, %w2 {transpose_b} : (tensor<128x32xf32>, tensor<16x32xf32>) -> tensor<128x16xf32>
  %x1 = nano.add %x0, %p1 : tensor<128x16xf32>
  %w3 = nano.load @w3 : tensor<32x16xf32>
  %h2 = nano.matmul %x1, %w3 {transpose_b} : (tensor<128x16xf32>, tensor<32x16xf32>) -> tensor<128x32xf32>
  %a2 = nano.tanh %h2 : tensor<128x32xf32>
  %w4 = nano.load @w4 : tensor<16x32xf32>
  %p2 = nano.matmul %a2, %w4 {transpose_b} : (tensor<128x32xf32>, tensor<16x32xf32>) -> tensor<128x16xf32>
  %x2 = nano.add %x1, %p2 : tensor<128x16xf32>
  %sq = nano.mul %x2, %x2 : tensor<128x16xf32>
  %loss = nano.reduce sum %sq dims [0, 1] : tensor<128x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}

// -----

// Two regions that the model marks: what is made and read in one is made again; what the next one reads of it, the sum, is kept.
// CHECK-LABEL: nano.program @train
// CHECK-NOT:     nano.recompute
// CHECK:         %[[SUM:.*]] = nano.add
// CHECK:         nano.reduce sum
// CHECK:         nano.matmul %[[SUM]]
// CHECK-NEXT:    nano.tanh
// CHECK:         nano.accumulate %{{.*}}, @grad.w2
// CHECK:         nano.gather
// CHECK-NEXT:    nano.matmul
// CHECK-NEXT:    nano.tanh
// CHECK:         nano.return
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "adam" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<16x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @embed : tensor<16x16xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%tokens: tensor<64xi32>, %targets: tensor<64xi32>) -> tensor<f32> attributes {role = "train"} {
  %e = nano.load @embed : tensor<16x16xf32>
  %x0 = nano.gather %e, %tokens : (tensor<16x16xf32>, tensor<64xi32>) -> tensor<64x16xf32>
  %w1 = nano.load @w1 : tensor<16x16xf32>
  %h1 = nano.matmul %x0, %w1 {transpose_b, nano.recompute = 1} : (tensor<64x16xf32>, tensor<16x16xf32>) -> tensor<64x16xf32>
  // expected-remark-re@+1 {{made again in the backward pass, as the model asks: tanh × 1, 0.00 MB, in {{[0-9.]+}} ms of a micro-batch}}
  %a1 = nano.tanh %h1 {nano.recompute = 1} : tensor<64x16xf32>
  %s1 = nano.mul %a1, %a1 {nano.recompute = 1} : tensor<64x16xf32>
  %x1 = nano.add %x0, %s1 {nano.recompute = 1} : tensor<64x16xf32>
  %w2 = nano.load @w2 : tensor<16x16xf32>
  %h2 = nano.matmul %x1, %w2 {transpose_b, nano.recompute = 2} : (tensor<64x16xf32>, tensor<16x16xf32>) -> tensor<64x16xf32>
  // expected-remark-re@+1 {{made again in the backward pass, as the model asks: tanh × 1, 0.00 MB, in {{[0-9.]+}} ms of a micro-batch}}
  %a2 = nano.tanh %h2 {nano.recompute = 2} : tensor<64x16xf32>
  %s2 = nano.mul %a2, %a2 {nano.recompute = 2} : tensor<64x16xf32>
  %x2 = nano.add %x1, %s2 {nano.recompute = 2} : tensor<64x16xf32>
  %loss = nano.reduce sum %x2 dims [0, 1] : tensor<64x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}
