// RUN: nano-opt %s -nano-bufferize -split-input-file | FileCheck %s
// Scales of blocks in a module for GPUs: those of 1×128 elements have neighbours across k next to each other, those of 128×128 rows of a multiple of 4.

// Their kernel writes them so; a weight's are a part of the state.
// CHECK-LABEL: step.program @rows
// CHECK-DAG:   %[[S:.*]] = step.buffer "abs" : memref<5x8xf32>
// CHECK-DAG:   %[[SX:.*]] = step.view %[[S]] : memref<5x8xf32> to memref<8x5xf32, strided<[1, 8]>>
// CHECK-DAG:   %[[W:.*]] = step.state @w.scale : memref<3x8xf32>
// CHECK-DAG:   %[[SW:.*]] = step.view %[[W]] : memref<3x8xf32> to memref<3x5xf32, strided<[8, 1]>>
// CHECK:       step.task ins(%{{.*}}) outs(%[[SX]])
// CHECK-NOT:   step.task
// CHECK:       step.matmul %{{.*}}, %{{.*}} scales(%[[SX]], %[[SW]]) into
module {
  nano.model "m" {gpu_scales}
nano.state @w.scale : tensor<3x8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @rows(%q: tensor<8x640xf8E4M3FN>, %w: tensor<384x640xf8E4M3FN>, %x: tensor<8x5xf32>) -> tensor<8x384xbf16> {
  %s = nano.fused (%x) : (tensor<8x5xf32>) -> tensor<8x5xf32> {
  ^bb0(%n: tensor<8x5xf32>):
    %c = nano.abs %n : tensor<8x5xf32>
    nano.yield %c : tensor<8x5xf32>
  }
  %all = nano.load @w.scale : tensor<3x8xf32>
  %sw = nano.slice %all dim 1 at 0 : tensor<3x8xf32> -> tensor<3x5xf32>
  %y = nano.scaled_matmul %q, %w scales(%s, %sw) {transpose_b} : (tensor<8x640xf8E4M3FN>, tensor<384x640xf8E4M3FN>, tensor<8x5xf32>, tensor<3x5xf32>) -> tensor<8x384xbf16>
  nano.return %y : tensor<8x384xbf16>
}
}

// -----

// What a kernel makes with k across the rows is laid out that way already.
// CHECK-LABEL: step.program @turned
// CHECK-DAG:   %[[S:.*]] = step.buffer "abs" : memref<2x16xf32>
// CHECK-DAG:   %[[V:.*]] = step.view %[[S]] : memref<2x16xf32> to memref<16x2xf32, strided<[1, 16]>>
// CHECK:       step.task ins(%{{.*}}) outs(%[[S]])
// CHECK-NOT:   step.task
// CHECK:       step.matmul %{{.*}}, %{{.*}} scales(%[[V]], %[[V]]) into
module {
  nano.model "m" {gpu_scales}
nano.program @turned(%q: tensor<16x256xf8E4M3FN>, %x: tensor<2x16xf32>) -> tensor<16x16xf32> {
  %s = nano.fused (%x) : (tensor<2x16xf32>) -> tensor<2x16xf32> {
  ^bb0(%n: tensor<2x16xf32>):
    %c = nano.abs %n : tensor<2x16xf32>
    nano.yield %c : tensor<2x16xf32>
  }
  %t = nano.transpose %s : tensor<2x16xf32> -> tensor<16x2xf32>
  %y = nano.scaled_matmul %q, %q scales(%t, %t) {transpose_b} : (tensor<16x256xf8E4M3FN>, tensor<16x256xf8E4M3FN>, tensor<16x2xf32>, tensor<16x2xf32>) -> tensor<16x16xf32>
  nano.return %y : tensor<16x16xf32>
}
}

// -----

// Scales that lie elsewhere, as an input's, are copied: rows as columns, and with padding.
// CHECK-LABEL: step.program @copied
// CHECK-DAG:   %[[S:.*]] = step.buffer "scaled_matmul.scale" : memref<2x16xf32>
// CHECK-DAG:   %[[SX:.*]] = step.view %[[S]] : memref<2x16xf32> to memref<16x2xf32, strided<[1, 16]>>
// CHECK-DAG:   %[[W:.*]] = step.buffer "scaled_matmul.scale" : memref<2x4xf32>
// CHECK-DAG:   %[[SW:.*]] = step.view %[[W]] : memref<2x4xf32> to memref<2x2xf32, strided<[4, 1]>>
// CHECK:       step.task ins(%{{.*}}) outs(%[[SX]]) : (memref<16x2xf32>)
// CHECK:       step.task ins(%{{.*}}) outs(%[[SW]]) : (memref<2x2xf32>)
// CHECK:       step.matmul %{{.*}}, %{{.*}} scales(%[[SX]], %[[SW]]) into
module {
  nano.model "m" {gpu_scales}
nano.program @copied(%q: tensor<16x256xf8E4M3FN>, %w: tensor<256x256xf8E4M3FN>, %x: tensor<16x2xf32>, %sw: tensor<2x2xf32>) -> tensor<16x256xf32> {
  %y = nano.scaled_matmul %q, %w scales(%x, %sw) {transpose_b} : (tensor<16x256xf8E4M3FN>, tensor<256x256xf8E4M3FN>, tensor<16x2xf32>, tensor<2x2xf32>) -> tensor<16x256xf32>
  nano.return %y : tensor<16x256xf32>
}
}

// -----

// One block along k: rows of one scale are columns too.
// CHECK-LABEL: step.program @one
// CHECK:       step.matmul %{{.*}}, %{{.*}} scales(%[[S:.*]], %[[S]]) into {{.*}}memref<16x1xf32>, memref<16x1xf32>
module {
  nano.model "m" {gpu_scales}
nano.program @one(%q: tensor<16x128xf8E4M3FN>, %x: tensor<16x1xf32>) -> tensor<16x16xf32> {
  %y = nano.scaled_matmul %q, %q scales(%x, %x) {transpose_b} : (tensor<16x128xf8E4M3FN>, tensor<16x128xf8E4M3FN>, tensor<16x1xf32>, tensor<16x1xf32>) -> tensor<16x16xf32>
  nano.return %y : tensor<16x16xf32>
}
}
