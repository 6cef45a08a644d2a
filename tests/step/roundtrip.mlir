// RUN: nano-opt %s | nano-opt | FileCheck %s
// RUN: nano-opt %s -mlir-print-op-generic | nano-opt | FileCheck %s

// CHECK: step.input @train.tokens : memref<8xi32>
step.input @train.tokens : memref<8xi32>
// CHECK: step.input @train.loss : memref<f32> {offset = 256 : i64, output}
step.input @train.loss : memref<f32> {output, offset = 256 : i64}

module @kernels {
  kernel.func @exp(read memref<?xf32>, write memref<?xf32>, memref<0xi8>, index, index)
    attributes {iterations = 8 : i64}
}

// CHECK-LABEL: step.program @first attributes {role = "first"} {
step.program @first attributes {role = "first"} {
  // CHECK: %x = step.buffer "x" {offset = 512 : i64} : memref<8x4xf32>
  %0 = step.buffer "x" {offset = 512 : i64} : memref<8x4xf32>
  // CHECK: %y = step.buffer "y" : memref<8x8xf32>
  %1 = step.buffer "y" : memref<8x8xf32>
  // CHECK: %train.tokens = step.state @train.tokens : memref<8xi32>
  %2 = step.state @train.tokens : memref<8xi32>
  // CHECK: %y_part = step.view %y : memref<8x8xf32> to memref<8x4xf32, strided<[8, 1], offset: 4>>
  %3 = step.view %1 : memref<8x8xf32> to memref<8x4xf32, strided<[8, 1], offset: 4>>
  // CHECK: %part = step.buffer "part" : memref<2x4xf32>
  %part = step.buffer "part" : memref<2x4xf32>
  // CHECK: step.fill %x : memref<8x4xf32>
  step.fill %0 : memref<8x4xf32>
  // CHECK: step.matmul %x, %x into %y {transpose_b} : memref<8x4xf32>, memref<8x4xf32>, memref<8x8xf32>
  step.matmul %0, %0 into %1 {transpose_b} : memref<8x4xf32>, memref<8x4xf32>, memref<8x8xf32>
  // CHECK: step.matmul %x, %x add %y into %y {alpha = 5.000000e-01 : f64, transpose_b}
  step.matmul %0, %0 add %1 into %1 {alpha = 0.5, transpose_b} : memref<8x4xf32>, memref<8x4xf32>, memref<8x8xf32>, memref<8x8xf32>
  // CHECK: step.launch @exp(%x, %y_part, %y_part, %x) {iterations = array<i64: 8, 4>, segments = 2 : i64}
  step.launch @exp(%0, %3, %3, %0) {segments = 2, iterations = array<i64: 8, 4>}
    : memref<8x4xf32>, memref<8x4xf32, strided<[8, 1], offset: 4>>, memref<8x4xf32, strided<[8, 1], offset: 4>>, memref<8x4xf32>
  // CHECK: step.task ins(%x) outs(%y_part) : (memref<8x4xf32>) -> memref<8x4xf32, strided<[8, 1], offset: 4>> {
  step.task ins(%0) outs(%3) : (memref<8x4xf32>) -> memref<8x4xf32, strided<[8, 1], offset: 4>> {
  ^bb0(%a: tensor<8x4xf32>):
    %e = nano.exp %a : tensor<8x4xf32>
    nano.yield %e : tensor<8x4xf32>
  }
  // CHECK: step.all_reduce %x {stream = 1 : i64} : memref<8x4xf32>
  step.all_reduce %0 {stream = 1} : memref<8x4xf32>
  // CHECK: step.all_reduce %x by max over peers {stream = 1 : i64} : memref<8x4xf32>
  step.all_reduce %0 by max over peers {stream = 1} : memref<8x4xf32>
  // CHECK: step.reduce_scatter ins(%x) outs(%part) parts 4 over group {stream = 1 : i64} : (memref<8x4xf32>) -> memref<2x4xf32>
  step.reduce_scatter ins(%0) outs(%part) parts 4 over group {stream = 1} : (memref<8x4xf32>) -> memref<2x4xf32>
  // CHECK: step.all_gather ins(%part) outs(%x) parts 4 {stream = 1 : i64} : (memref<2x4xf32>) -> memref<8x4xf32>
  step.all_gather ins(%part) outs(%0) parts 4 {stream = 1} : (memref<2x4xf32>) -> memref<8x4xf32>
  // CHECK: step.shard ins(%x) outs(%part) parts 4 over group : (memref<8x4xf32>) -> memref<2x4xf32>
  step.shard ins(%0) outs(%part) parts 4 over group : (memref<8x4xf32>) -> memref<2x4xf32>
  // CHECK: step.record 0 {stream = 1 : i64}
  step.record 0 {stream = 1}
  // CHECK: step.wait 0
  step.wait 0
}
