// RUN: nano-opt %s -nano-copies-to-tasks | FileCheck %s
// RUN: nano-opt %s -nano-copies-to-tasks=max-bytes=31 | FileCheck %s --check-prefix=NONE
// RUN: nano-opt %s -nano-copies-to-tasks -nano-lower-kernels=target=cuda -nano-batch-launches | FileCheck %s --check-prefix=LAUNCH
// RUN: not nano-opt %s -nano-copies-to-tasks=max-bytes=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: error: nano-copies-to-tasks: max-bytes=-1: must not be negative

nano.state @a : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @b : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// Small copies are tasks, whose launches join; large ones stay, and so do those of 8 bits.
// CHECK-LABEL: step.program @copies
// CHECK:         step.task ins(%a) outs(%u) : (memref<8xf32>) -> memref<8xf32>
// CHECK-NEXT:    ^bb0(%[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT:      %[[Y:.*]] = nano.reshape %[[X]] : tensor<8xf32> -> tensor<8xf32>
// CHECK-NEXT:      nano.yield %[[Y]]
// CHECK:         step.copy %f to %g
// CHECK:         step.copy %w to %z
// CHECK:         step.task ins(%b) outs(%v) : (memref<8xf32>) -> memref<2x4xf32>
// CHECK-NEXT:    ^bb0(%[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT:      %[[Y:.*]] = nano.reshape %[[X]] : tensor<8xf32> -> tensor<2x4xf32>
// CHECK-NEXT:      nano.yield %[[Y]]
// CHECK:         step.task ins(%w4) outs(%z4)
// CHECK-NOT:     step.copy
// NONE-NOT:      step.task
// NONE-COUNT-5:  step.copy
// NONE-NOT:      step.task
// LAUNCH:        step.launch @copy_{{.*}}(%a, %u, %b, %v, %w4, %z4) {{.*}}segments = 3 : i64
// LAUNCH:        kernel.func @copy_
step.program @copies {
  %a = step.state @a : memref<8xf32>
  %b = step.state @b : memref<8xf32>
  %u = step.buffer "u" : memref<8xf32>
  %v = step.buffer "v" : memref<2x4xf32>
  %f = step.buffer "f" : memref<16xf8E4M3FN>
  %g = step.buffer "g" : memref<16xf8E4M3FN>
  %w = step.buffer "w" : memref<65537xf32>
  %z = step.buffer "z" : memref<65537xf32>
  %w4 = step.buffer "w4" : memref<65536xf32>
  %z4 = step.buffer "z4" : memref<65536xf32>
  step.copy %a to %u : memref<8xf32>, memref<8xf32>
  step.fill %f : memref<16xf8E4M3FN>
  step.copy %f to %g : memref<16xf8E4M3FN>, memref<16xf8E4M3FN>
  step.fill %w : memref<65537xf32>
  step.copy %w to %z : memref<65537xf32>, memref<65537xf32>
  step.copy %b to %v : memref<8xf32>, memref<2x4xf32>
  step.fill %w4 : memref<65536xf32>
  step.copy %w4 to %z4 : memref<65536xf32>, memref<65536xf32>
}
