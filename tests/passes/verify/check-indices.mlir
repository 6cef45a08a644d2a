// RUN: nano-opt %s -nano-check-indices -split-input-file -verify-diagnostics | FileCheck %s
// RUN: nano-opt %s -nano-check-indices -split-input-file 2> %t.remarks | nano-opt -nano-check-indices -split-input-file 2> %t.again > /dev/null
// RUN: count 0 < %t.again

// Ids that may lie outside are brought inside for every reader of them, and one of the original ones is returned: the largest as an unsigned number.
// CHECK:       nano.index_check "gather" of "train" below 400
// CHECK-NEXT:  nano.index_check "scatter_add" of "train" below 500
// CHECK-NEXT:  nano.index_check "cross_entropy" of "train" below 48
// CHECK-NEXT:  nano.program @train(%[[TOKENS:.*]]: tensor<8xi32>, %[[TARGETS:.*]]: tensor<8xi32>) -> (tensor<f32>, tensor<3xi32>)
// CHECK:       %[[LEAST:.*]] = nano.max %[[TARGETS]], %{{.*}} : tensor<8xi32>
// CHECK:       %[[TARGET:.*]] = nano.min %[[LEAST]], %{{.*}} : tensor<8xi32>
// CHECK:       %[[IDS:.*]] = nano.add %[[TOKENS]], %{{.*}} : tensor<8xi32>
// CHECK:       %[[OTHERS:.*]] = nano.min
// CHECK-NEXT:  %[[ZERO:.*]] = nano.constant 0.000000e+00 : tensor<8xi32>
// CHECK-NEXT:  %[[POSITIVE:.*]] = nano.max %[[IDS]], %[[ZERO]] : tensor<8xi32>
// CHECK-NEXT:  %[[LAST:.*]] = nano.constant 3.990000e+02 : tensor<8xi32>
// CHECK-NEXT:  %[[INSIDE:.*]] = nano.min %[[POSITIVE]], %[[LAST]] : tensor<8xi32>
// CHECK:       %[[ROWS:.*]] = nano.gather %{{.*}}, %[[INSIDE]]
// CHECK:       nano.gather %{{.*}}, %[[INSIDE]]
// CHECK:       nano.scatter_add %[[ROWS]], %[[OTHERS]] :
// CHECK:       nano.cross_entropy %{{.*}}, %[[TARGET]] :
// CHECK:       %[[MOST:.*]] = nano.constant 0xC1E0000000000000 : tensor<8xi32>
// CHECK-NEXT:  %[[MOVED:.*]] = nano.add %[[IDS]], %[[MOST]] : tensor<8xi32>
// CHECK-NEXT:  %[[RUNNING:.*]] = nano.scan max %[[MOVED]] : tensor<8xi32>
// CHECK-NEXT:  %[[END:.*]] = nano.slice %[[RUNNING]] dim 0 at 7 : tensor<8xi32> -> tensor<1xi32>
// CHECK-NEXT:  %[[BACK:.*]] = nano.constant 0xC1E0000000000000 : tensor<1xi32>
// CHECK-NEXT:  %[[ONE:.*]] = nano.add %[[END]], %[[BACK]] : tensor<1xi32>
// CHECK:       %[[TWO:.*]] = nano.add %{{.*}} : tensor<1xi32>
// CHECK-NEXT:  %[[ALL:.*]] = nano.concat %[[ONE]], %[[ONE]], %[[TWO]] dim 0 : {{.*}} -> tensor<3xi32>
// CHECK-NEXT:  nano.return %{{.*}}, %[[ALL]] : tensor<f32>, tensor<3xi32>
module {
  nano.model "m" {training = {vocab_size = 257 : i64}}
  nano.scalar @far : i32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %table = nano.constant 1.0 : tensor<400x4xf32>
    %logits = nano.constant 1.0 : tensor<8x48xf32>
    %c = nano.constant 300.0 : tensor<8xi32>
    %ids = nano.add %tokens, %c : tensor<8xi32>
    // expected-remark @below {{gather: its indices, 300 to 556, may lie outside of its 400 rows: each is checked while the program runs}}
    %x = nano.gather %table, %ids : (tensor<400x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
    // expected-remark @below {{gather: its indices, 300 to 556, may lie outside of its 400 rows}}
    %y = nano.gather %table, %ids : (tensor<400x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
    // expected-remark @below {{scatter_add: its indices, 300 to 556, may lie outside of its 500 rows}}
    %z = nano.scatter_add %x, %ids : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<500x4xf32>
    // expected-remark @below {{cross_entropy: its targets, 0 to 256, may lie outside of its 48 columns}}
    %loss, %lse = nano.cross_entropy %logits, %targets : (tensor<8x48xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
    %sum = nano.reduce sum %loss dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %sum : tensor<f32>
  }
}

// -----

// One number is returned as it is; programs are told apart, and functions that are none stay.
// CHECK:       nano.index_check "gather" of "generate" below 9
// CHECK-NEXT:  nano.program @generate(%{{.*}}: tensor<1xi32>) -> (tensor<1x16xf32>, tensor<1xi32>)
// CHECK:       nano.return %{{.*}}, %{{.*}} : tensor<1x16xf32>, tensor<1xi32>
// CHECK:       nano.program @other(%{{.*}}) -> tensor<1x16xf32>
module {
  nano.model "m" {training = {vocab_size = 10 : i64}}
  nano.program @generate(%tokens: tensor<1xi32>) -> tensor<1x16xf32> attributes {role = "generate"} {
    %table = nano.constant 1.0 : tensor<9x16xf32>
    // expected-remark @below {{gather: its indices, 0 to 9, may lie outside of its 9 rows}}
    %x = nano.gather %table, %tokens : (tensor<9x16xf32>, tensor<1xi32>) -> tensor<1x16xf32>
    nano.return %x : tensor<1x16xf32>
  }
  nano.program @other(%tokens: tensor<1xi32>) -> tensor<1x16xf32> {
    %table = nano.constant 1.0 : tensor<9x16xf32>
    %x = nano.gather %table, %tokens : (tensor<9x16xf32>, tensor<1xi32>) -> tensor<1x16xf32>
    nano.return %x : tensor<1x16xf32>
  }
}

// -----

// What is proven stays as it is.
// CHECK-LABEL: nano.program @validate(
// CHECK-SAME:    %[[TOKENS:.*]]: tensor<8xi32>, %[[TARGETS:.*]]: tensor<8xi32>) -> tensor<f32>
// CHECK:       nano.gather %{{.*}}, %[[TOKENS]]
// CHECK:       nano.cross_entropy %{{.*}}, %[[TARGETS]]
// CHECK-NOT:   nano.scan
// CHECK:       nano.return %{{.*}} : tensor<f32>{{$}}
module {
  nano.model "m" {training = {vocab_size = 257 : i64}}
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %table = nano.constant 1.0 : tensor<257x384xf32>
    %x = nano.gather %table, %tokens : (tensor<257x384xf32>, tensor<8xi32>) -> tensor<8x384xf32>
    %loss, %lse = nano.cross_entropy %x, %targets : (tensor<8x384xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
    %sum = nano.reduce sum %loss dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %sum : tensor<f32>
  }
}

// -----

// Nobody says what tokens there are.
nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<8x4xf32> attributes {role = "train"} {
  %table = nano.constant 1.0 : tensor<400x4xf32>
  // expected-remark @below {{gather: its indices, any number, may lie outside of its 400 rows}}
  %x = nano.gather %table, %tokens : (tensor<400x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
  nano.return %x : tensor<8x4xf32>
}
