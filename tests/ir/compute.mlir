// RUN: nano-opt %s --verify-roundtrip | FileCheck %s
// RUN: nano-opt %s --mlir-print-op-generic | nano-opt | FileCheck %s

// CHECK-LABEL: @matmul
nano.program @matmul(%x: tensor<8x16xbf16>, %w: tensor<32x16xbf16>, %b: tensor<3x8x16xf32>) -> tensor<3x16x16xf32> {
  // CHECK: nano.matmul %{{.*}}, %{{.*}} {transpose_b} : (tensor<8x16xbf16>, tensor<32x16xbf16>) -> tensor<8x32xf32>
  %0 = nano.matmul %x, %w {transpose_b} : (tensor<8x16xbf16>, tensor<32x16xbf16>) -> tensor<8x32xf32>
  // CHECK: nano.matmul %{{.*}}, %{{.*}} add %{{.*}} {alpha = 5.000000e-01 : f64, beta = 2.000000e+00 : f64, transpose_b} : (tensor<8x16xbf16>, tensor<32x16xbf16>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %1 = nano.matmul %x, %w add %0 {alpha = 0.5, beta = 2.0, transpose_b} : (tensor<8x16xbf16>, tensor<32x16xbf16>, tensor<8x32xf32>) -> tensor<8x32xf32>
  // CHECK: nano.matmul %{{.*}}, %{{.*}} {transpose_a} : (tensor<3x8x16xf32>, tensor<3x8x16xf32>) -> tensor<3x16x16xf32>
  %2 = nano.matmul %b, %b {transpose_a} : (tensor<3x8x16xf32>, tensor<3x8x16xf32>) -> tensor<3x16x16xf32>
  nano.return %2 : tensor<3x16x16xf32>
}

// CHECK-LABEL: @groups
nano.program @groups(%x: tensor<8x16xbf16>, %w: tensor<3x32x16xbf16>, %ends: tensor<3xi32>) -> tensor<3x16x32xf32> {
  // CHECK: nano.grouped_matmul %{{.*}}, %{{.*}}, %{{.*}} {transpose} : (tensor<8x16xbf16>, tensor<3x32x16xbf16>, tensor<3xi32>) -> tensor<8x32xbf16>
  %0 = nano.grouped_matmul %x, %w, %ends {transpose} : (tensor<8x16xbf16>, tensor<3x32x16xbf16>, tensor<3xi32>) -> tensor<8x32xbf16>
  // CHECK: nano.grouped_outer %{{.*}}, %{{.*}}, %{{.*}} : (tensor<8x16xbf16>, tensor<8x32xbf16>, tensor<3xi32>) -> tensor<3x16x32xf32>
  %1 = nano.grouped_outer %x, %0, %ends : (tensor<8x16xbf16>, tensor<8x32xbf16>, tensor<3xi32>) -> tensor<3x16x32xf32>
  nano.return %1 : tensor<3x16x32xf32>
}

// CHECK-LABEL: @table
nano.program @table(%table: tensor<257x64xbf16>, %ids: tensor<128xi32>) -> tensor<257x64xf32> {
  // CHECK: nano.gather %{{.*}}, %{{.*}} : (tensor<257x64xbf16>, tensor<128xi32>) -> tensor<128x64xbf16>
  %0 = nano.gather %table, %ids : (tensor<257x64xbf16>, tensor<128xi32>) -> tensor<128x64xbf16>
  // CHECK: nano.scatter_add %{{.*}}, %{{.*}} : (tensor<128x64xbf16>, tensor<128xi32>) -> tensor<257x64xf32>
  %1 = nano.scatter_add %0, %ids : (tensor<128x64xbf16>, tensor<128xi32>) -> tensor<257x64xf32>
  nano.return %1 : tensor<257x64xf32>
}

// CHECK-LABEL: @attention
nano.program @attention(%q: tensor<8x2x4xf32>, %range: tensor<8xi32>) -> tensor<8x2x4xf32> {
  // CHECK: %[[Y:.*]], %[[LSE:.*]] = nano.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} scale 1.200000e-01 : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xf32>, tensor<8x2xf32>)
  // CHECK-NOT: {
  %y, %lse = nano.attention %q, %q, %q, %range, %range scale 0.12
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xf32>, tensor<8x2xf32>)
  // CHECK: nano.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[LSE]], %[[LSE]], %[[Y]] scale 1.200000e-01 : {{.*}} -> (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>)
  // CHECK-NOT: score
  %dq, %dk, %dv = nano.attention_grad %q, %q, %q, %range, %range, %lse, %lse, %y scale 0.12
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>, tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x2x4xf32>)
      -> (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>)
  nano.return %dq : tensor<8x2x4xf32>
}

// CHECK-LABEL: @score
nano.program @score(%q: tensor<8x2x4xf32>, %range: tensor<8xi32>) -> tensor<8x2x4xf32> {
  // CHECK: nano.attention {{.*}} {
  // CHECK-NEXT: ^bb0(%[[S:.*]]: tensor<f32>, %[[Q:.*]]: tensor<i32>, %[[K:.*]]: tensor<i32>, %{{.*}}: tensor<i32>):
  // CHECK-NEXT: %[[D:.*]] = nano.sub %[[Q]], %[[K]] : tensor<i32>
  // CHECK-NEXT: %[[F:.*]] = nano.cast %[[D]] : tensor<i32> -> tensor<f32>
  // CHECK-NEXT: %[[R:.*]] = nano.sub %[[S]], %[[F]] : tensor<f32>
  // CHECK-NEXT: nano.yield %[[R]] : tensor<f32>
  %y, %lse = nano.attention %q, %q, %q, %range, %range scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xf32>, tensor<8x2xf32>) {
  ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
    %distance = nano.sub %query, %key : tensor<i32>
    %bias = nano.cast %distance : tensor<i32> -> tensor<f32>
    %biased = nano.sub %s, %bias : tensor<f32>
    nano.yield %biased : tensor<f32>
  }
  // CHECK: nano.attention_grad
  // CHECK: score {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<f32>, %{{.*}}: tensor<i32>, %{{.*}}: tensor<i32>, %{{.*}}: tensor<i32>):
  // CHECK: } grad {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<f32>, %{{.*}}: tensor<i32>, %{{.*}}: tensor<i32>, %{{.*}}: tensor<i32>, %[[G:.*]]: tensor<f32>):
  // CHECK-NEXT: nano.yield %[[G]] : tensor<f32>
  %dq, %dk, %dv = nano.attention_grad %q, %q, %q, %range, %range, %lse, %lse, %y scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>, tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x2x4xf32>)
      -> (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>)
  score {
  ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
    nano.yield %s : tensor<f32>
  } grad {
  ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>, %g: tensor<f32>):
    nano.yield %g : tensor<f32>
  }
  nano.return %dq : tensor<8x2x4xf32>
}

// CHECK-LABEL: @exponentials
nano.program @exponentials(%x: tensor<8x16xbf16>, %w: tensor<128x16xbf16>, %targets: tensor<8xi32>, %shift: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: nano.exp_matmul %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {columns = 100 : i64} : (tensor<8x16xbf16>, tensor<128x16xbf16>, tensor<8xi32>, tensor<8xf32>) -> (tensor<8x128xbf16>, tensor<8xf32>, tensor<8xf32>)
  %e, %sum, %largest = nano.exp_matmul %x, %w, %targets, %shift {columns = 100 : i64}
      : (tensor<8x16xbf16>, tensor<128x16xbf16>, tensor<8xi32>, tensor<8xf32>) -> (tensor<8x128xbf16>, tensor<8xf32>, tensor<8xf32>)
  nano.return %sum : tensor<8xf32>
}

// CHECK-LABEL: @loss
nano.program @loss(%logits: tensor<8x128xf32>, %targets: tensor<8xi32>) -> tensor<8xf32> {
  // CHECK: nano.cross_entropy %{{.*}}, %{{.*}} : (tensor<8x128xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  %loss, %lse = nano.cross_entropy %logits, %targets : (tensor<8x128xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  // CHECK: nano.all_reduce %{{.*}} : tensor<8xf32>
  %sum = nano.all_reduce %loss : tensor<8xf32>
  nano.return %sum : tensor<8xf32>
}

// CHECK-LABEL: @exchange
nano.program @exchange(%x: tensor<8x4xbf16>) -> tensor<8x4xbf16> {
  // CHECK: nano.all_reduce %{{.*}} by max over peers : tensor<8x4xbf16>
  %max = nano.all_reduce %x by max over peers : tensor<8x4xbf16>
  // CHECK: nano.reduce_scatter %{{.*}} parts 4 : (tensor<8x4xbf16>) -> tensor<2x4xbf16>
  %part = nano.reduce_scatter %max parts 4 : (tensor<8x4xbf16>) -> tensor<2x4xbf16>
  // CHECK: nano.shard %{{.*}} parts 2 over group : (tensor<2x4xbf16>) -> tensor<1x4xbf16>
  %mine = nano.shard %part parts 2 over group : (tensor<2x4xbf16>) -> tensor<1x4xbf16>
  // CHECK: nano.all_gather %{{.*}} parts 8 over group : (tensor<1x4xbf16>) -> tensor<8x4xbf16>
  %all = nano.all_gather %mine parts 8 over group : (tensor<1x4xbf16>) -> tensor<8x4xbf16>
  nano.return %all : tensor<8x4xbf16>
}
