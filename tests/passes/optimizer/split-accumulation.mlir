// RUN: nano-opt %s --nano-split-accumulation | FileCheck %s

nano.state @grad.w : tensor<4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.u : tensor<4xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
  %loss = nano.constant 1.0 : tensor<f32>
  %g = nano.broadcast %loss dims [] : tensor<f32> -> tensor<4xf32>
  nano.accumulate %g, @grad.w : tensor<4xf32>
  %narrow = nano.cast %g : tensor<4xf32> -> tensor<4xbf16>
  nano.accumulate %narrow, @grad.u : tensor<4xbf16>
  nano.return %loss : tensor<f32>
}
nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
  %loss = nano.constant 1.0 : tensor<f32>
  nano.return %loss : tensor<f32>
}

// CHECK-NOT: @train
// CHECK-NOT: nano.accumulate
// CHECK-LABEL: nano.program @first(%{{.*}}: tensor<8xi32>, %{{.*}}: tensor<8xi32>) -> tensor<f32> attributes {role = "first"} {
// CHECK: %[[G:.*]] = nano.broadcast
// CHECK-NEXT: nano.store %[[G]], @grad.w : tensor<4xf32>
// CHECK-NEXT: %[[N:.*]] = nano.cast %[[G]] : tensor<4xf32> -> tensor<4xbf16>
// CHECK-NEXT: %[[W:.*]] = nano.cast %[[N]] : tensor<4xbf16> -> tensor<4xf32>
// CHECK-NEXT: nano.store %[[W]], @grad.u : tensor<4xf32>
// CHECK-NEXT: nano.return

// CHECK-LABEL: nano.program @next(%{{.*}}: tensor<8xi32>, %{{.*}}: tensor<8xi32>) -> tensor<f32> attributes {role = "next"} {
// CHECK: %[[G:.*]] = nano.broadcast
// CHECK-NEXT: %[[OLD:.*]] = nano.load @grad.w : tensor<4xf32>
// CHECK-NEXT: %[[NEW:.*]] = nano.add %[[OLD]], %[[G]] : tensor<4xf32>
// CHECK-NEXT: nano.store %[[NEW]], @grad.w : tensor<4xf32>
// CHECK: %[[W:.*]] = nano.cast %{{.*}} : tensor<4xbf16> -> tensor<4xf32>
// CHECK-NEXT: %[[OLD:.*]] = nano.load @grad.u : tensor<4xf32>
// CHECK-NEXT: %[[NEW:.*]] = nano.add %[[OLD]], %[[W]] : tensor<4xf32>
// CHECK-NEXT: nano.store %[[NEW]], @grad.u : tensor<4xf32>
// CHECK-NEXT: nano.return

// CHECK-LABEL: nano.program @validate
