// RUN: nano-opt %s -split-input-file --nano-lower-reports | FileCheck %s
// RUN: nano-opt %s -split-input-file --nano-lower-reports=each-step | FileCheck %s --check-prefix=STEP

// Every kind; two reports of one name are of the elements of both tensors; what is no program of a
// step reports nothing.
// CHECK: nano.reported "acts" mean in @reports at 0
// CHECK-NEXT: nano.reported "size" norm in @reports at 1
// CHECK-NEXT: nano.reported "top" max in @reports at 2
// CHECK-NEXT: nano.state @reports : tensor<3xf32> {init = #nano.init<"constant", [0.000000e+00]>, role = #nano.role<report>}
// CHECK-LABEL: nano.program @train
nano.program @train(%x: tensor<8x4xbf16>, %y: tensor<4xf32>) -> tensor<f32> attributes {role = "train"} {
  %zero = nano.constant 0.0 : tensor<f32>
  // CHECK: %[[X:.*]] = nano.cast %arg0 : tensor<8x4xbf16> -> tensor<8x4xf32>
  // CHECK: %[[SUM:.*]] = nano.reduce sum %[[X]] dims [0, 1]
  nano.report "acts" mean %x : tensor<8x4xbf16>
  // CHECK: %[[YY:.*]] = nano.mul %arg1, %arg1
  // CHECK: %[[SQUARES:.*]] = nano.reduce sum %[[YY]] dims [0]
  nano.report "size" norm %y : tensor<4xf32>
  // CHECK: %[[ABS:.*]] = nano.abs %{{.*}} : tensor<8x4xf32>
  // CHECK: %[[TOP:.*]] = nano.reduce max %[[ABS]] dims [0, 1]
  nano.report "top" max %x : tensor<8x4xbf16>
  // CHECK: %[[OTHER:.*]] = nano.reduce sum %arg1 dims [0]
  // CHECK: %[[BOTH:.*]] = nano.add %[[SUM]], %[[OTHER]] : tensor<f32>
  nano.report "acts" mean %y : tensor<4xf32>
  // 1/36
  // CHECK: %[[SHARE:.*]] = nano.constant 0.0277777{{.*}} : tensor<f32>
  // CHECK: %[[MEAN:.*]] = nano.mul %[[BOTH]], %[[SHARE]]
  // CHECK: %[[MEAN1:.*]] = nano.reshape %[[MEAN]] : tensor<f32> -> tensor<1xf32>
  // CHECK: %[[SQUARES1:.*]] = nano.reshape %[[SQUARES]]
  // CHECK: %[[TOP1:.*]] = nano.reshape %[[TOP]]
  // CHECK: %[[ALL:.*]] = nano.concat %[[MEAN1]], %[[SQUARES1]], %[[TOP1]] dim 0
  // CHECK: nano.store %[[ALL]], @reports : tensor<3xf32>
  // CHECK-NEXT: nano.return
  nano.return %zero : tensor<f32>
}
// CHECK-LABEL: nano.program @validate
// CHECK-NEXT: nano.return
nano.program @validate(%x: tensor<8x4xbf16>) attributes {role = "validate"} {
  nano.report "acts" mean %x : tensor<8x4xbf16>
  nano.return
}

// -----

// A histogram: 38 edges, the counts between them, the moments.
// CHECK: nano.reported "spread" histogram in @reports at 0 {edges = array<f64: -4.096000e+03, -1.024000e+03,
// CHECK-SAME: 1.024000e+03, 4.096000e+03>}
// CHECK: nano.state @reports : tensor<43xf32>
// CHECK-LABEL: nano.program @train
nano.program @train(%x: tensor<8xf32>) attributes {role = "train"} {
  // CHECK: %[[EDGE:.*]] = nano.constant -4.096000e+03 : tensor<8xf32>
  // CHECK: %[[BELOW:.*]] = nano.select lt, %arg0, %[[EDGE]], %{{.*}}, %{{.*}}
  // CHECK: %[[COUNT0:.*]] = nano.reduce sum %[[BELOW]] dims [0]
  // CHECK: %[[COUNT1:.*]] = nano.reduce sum
  // CHECK: nano.sub %[[COUNT1]], %[[COUNT0]] : tensor<f32>
  // CHECK: nano.store
  nano.report "spread" histogram %x : tensor<8xf32>
  nano.return
}

// -----

// Of updates: parts of ranks come together, and phases are told.
// STEP: nano.reported "part" norm in @reports.step at 0 each_step phases [0, 1]
// STEP-NEXT: nano.reported "late" max in @reports.step at 1 each_step phases [1]
// STEP: nano.state @reports.step : tensor<2xf32>
module {
  nano.model "m" {world = 8 : i64, group = 4 : i64}
  // STEP-LABEL: nano.program @update_0
  nano.program @update_0(%g: tensor<8xf32>) attributes {role = "update", phases = array<i64: 0>} {
    // STEP: %[[SUM:.*]] = nano.reduce sum
    // STEP: nano.all_reduce %[[SUM]] over group : tensor<f32>
    // STEP: %[[NONE:.*]] = nano.constant 0.000000e+00 : tensor<1xf32>
    // STEP: nano.concat %{{.*}}, %[[NONE]]
    nano.report "part" norm %g over group : tensor<8xf32>
    nano.return
  }
  // STEP-LABEL: nano.program @update_1
  nano.program @update_1(%g: tensor<8xf32>) attributes {role = "update", phases = array<i64: 1>} {
    nano.report "part" norm %g over group : tensor<8xf32>
    // STEP: nano.all_reduce %{{.*}} by max over peers : tensor<f32>
    nano.report "late" max %g over peers : tensor<8xf32>
    nano.return
  }
}
