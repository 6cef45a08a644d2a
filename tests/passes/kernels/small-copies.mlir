// RUN: nano-opt %s -nano-lower-kernels=target=cuda -nano-batch-launches | FileCheck %s
// RUN: nano-opt %s -nano-lower-kernels -nano-batch-launches | FileCheck %s --check-prefix=CPU

nano.state @a : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @b : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// On a GPU small copies are launches, which join; large ones stay, and so do those of 8 bits.
// CHECK-LABEL: step.program @copies
// CHECK:         step.launch @copy_{{.*}}(%a, %u, %b, %v) {{.*}}segments = 2 : i64
// CHECK:         step.copy %f to %g
// CHECK:         step.copy %w to %z
// CHECK-NOT:     step.copy
// CHECK:       func.func @copy_
// CPU-LABEL:   step.program @copies
// CPU:           step.copy %a to %u
// CPU:           step.copy %b to %v
step.program @copies {
  %a = step.state @a : memref<8xf32>
  %b = step.state @b : memref<8xf32>
  %u = step.buffer "u" : memref<8xf32>
  %v = step.buffer "v" : memref<2x4xf32>
  %f = step.buffer "f" : memref<16xf8E4M3FN>
  %g = step.buffer "g" : memref<16xf8E4M3FN>
  %w = step.buffer "w" : memref<65537xf32>
  %z = step.buffer "z" : memref<65537xf32>
  step.copy %a to %u : memref<8xf32>, memref<8xf32>
  step.fill %f : memref<16xf8E4M3FN>
  step.copy %f to %g : memref<16xf8E4M3FN>, memref<16xf8E4M3FN>
  step.fill %w : memref<65537xf32>
  step.copy %w to %z : memref<65537xf32>, memref<65537xf32>
  step.copy %b to %v : memref<8xf32>, memref<2x4xf32>
}
