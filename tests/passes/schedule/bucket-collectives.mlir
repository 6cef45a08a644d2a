// RUN: nano-opt %s -nano-bucket-collectives | FileCheck %s
// RUN: nano-opt %s -nano-bucket-collectives=max-bytes=64 | FileCheck %s --check-prefix=SMALL
// RUN: nano-opt %s -nano-bucket-collectives=max-bytes=0 | FileCheck %s --check-prefix=NONE
// RUN: not nano-opt %s -nano-bucket-collectives=max-bytes=-1 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: nano-bucket-collectives: max-bytes -1 is negative; 0 makes no buckets

module @kernels {
  kernel.func @grad(read memref<?xf32>, write memref<?xf32>, memref<0xi8>, index, index)
    attributes {iterations = 8 : i64}
}
nano.state @s : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @t : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// Three gradients of 32 bytes: one bucket at the place of the last, or two; what reads an earlier one follows its bucket, in the old order.
// CHECK-LABEL: step.program @gradients
// CHECK:       step.launch @grad(%x, %a)
// CHECK-NEXT:  step.launch @grad(%x, %b)
// CHECK-NEXT:  step.launch @grad(%x, %c)
// CHECK-NEXT:  step.all_reduce %a, %b, %c : memref<8xf32>, memref<8xf32>, memref<8xf32>
// CHECK-NEXT:  step.launch @grad(%a, %s)
// CHECK-NEXT:  step.launch @grad(%b, %t)
// CHECK-NEXT:  step.launch @grad(%c, %d)
// CHECK-NEXT:  }
// SMALL-LABEL: step.program @gradients
// SMALL:       step.launch @grad(%x, %b)
// SMALL-NEXT:  step.all_reduce %a, %b : memref<8xf32>, memref<8xf32>
// SMALL-NEXT:  step.launch @grad(%a, %s)
// SMALL-NEXT:  step.launch @grad(%b, %t)
// SMALL-NEXT:  step.launch @grad(%x, %c)
// SMALL-NEXT:  step.all_reduce %c : memref<8xf32>
// SMALL-NEXT:  step.launch @grad(%c, %d)
// NONE-LABEL:  step.program @gradients
// NONE-NOT:    step.all_reduce %a,
step.program @gradients {
  %s = step.state @s : memref<8xf32>
  %t = step.state @t : memref<8xf32>
  %x = step.buffer "x" : memref<8xf32>
  %a = step.buffer "a" : memref<8xf32>
  %b = step.buffer "b" : memref<8xf32>
  %c = step.buffer "c" : memref<8xf32>
  %d = step.buffer "d" : memref<8xf32>
  step.fill %x : memref<8xf32>
  step.launch @grad(%x, %a) : memref<8xf32>, memref<8xf32>
  step.all_reduce %a : memref<8xf32>
  step.launch @grad(%a, %s) : memref<8xf32>, memref<8xf32>
  step.launch @grad(%x, %b) : memref<8xf32>, memref<8xf32>
  step.all_reduce %b : memref<8xf32>
  step.launch @grad(%b, %t) : memref<8xf32>, memref<8xf32>
  step.launch @grad(%x, %c) : memref<8xf32>, memref<8xf32>
  step.all_reduce %c : memref<8xf32>
  step.launch @grad(%c, %d) : memref<8xf32>, memref<8xf32>
}

// The second gradient is made of the first one's sum, directly or through another collective: they cannot be one command.
// CHECK-LABEL: step.program @chain
// CHECK:       step.all_reduce %a : memref<8xf32>
// CHECK-NEXT:  step.launch @grad(%a, %b)
// CHECK-NEXT:  step.all_reduce %b by max : memref<8xf32>
// CHECK-NEXT:  step.launch @grad(%b, %c)
// CHECK-NEXT:  step.all_reduce %c : memref<8xf32>
step.program @chain {
  %a = step.buffer "a" : memref<8xf32>
  %b = step.buffer "b" : memref<8xf32>
  %c = step.buffer "c" : memref<8xf32>
  step.fill %a : memref<8xf32>
  step.all_reduce %a : memref<8xf32>
  step.launch @grad(%a, %b) : memref<8xf32>, memref<8xf32>
  step.all_reduce %b by max : memref<8xf32>
  step.launch @grad(%b, %c) : memref<8xf32>, memref<8xf32>
  step.all_reduce %c : memref<8xf32>
}

// Two buckets would each have to come before the other: of a, d by sum and of b, c by maximum; the second is not made.
// CHECK-LABEL: step.program @crossed
// CHECK:       step.all_reduce %a, %d : memref<8xf32>, memref<8xf32>
// CHECK:       step.all_reduce %b by max : memref<8xf32>
// CHECK-NOT:   ,
// CHECK:       }
step.program @crossed {
  %a = step.buffer "a" : memref<8xf32>
  %b = step.buffer "b" : memref<8xf32>
  %c = step.buffer "c" : memref<8xf32>
  %d = step.buffer "d" : memref<8xf32>
  step.fill %a : memref<8xf32>
  step.fill %c : memref<8xf32>
  step.all_reduce %c by max : memref<8xf32>
  step.all_reduce %a : memref<8xf32>
  step.copy %c to %d : memref<8xf32>, memref<8xf32>
  step.copy %a to %b : memref<8xf32>, memref<8xf32>
  step.all_reduce %d : memref<8xf32>
  step.all_reduce %b by max : memref<8xf32>
}

// Kinds are kept apart: op, combiner, ranks, parts and element type. What lies between does not matter.
// CHECK-LABEL: step.program @kinds
// CHECK:       step.reduce_scatter ins(%a, %b) outs(%a4, %b4) parts 4 over group : (memref<8xf32>, memref<8xf32>) -> (memref<2xf32>, memref<2xf32>)
// CHECK-NEXT:  step.reduce_scatter ins(%a) outs(%c4) parts 4 :
// CHECK-NEXT:  step.reduce_scatter ins(%a) outs(%a2) parts 2 over group :
// CHECK-NEXT:  step.all_gather ins(%a4, %b4) outs(%c, %d) parts 4 over group : (memref<2xf32>, memref<2xf32>) -> (memref<8xf32>, memref<8xf32>)
// CHECK-NEXT:  step.all_reduce %h over peers : memref<8xbf16>
// CHECK-NEXT:  step.all_reduce %c, %d over peers : memref<8xf32>, memref<8xf32>
step.program @kinds {
  %a = step.buffer "a" : memref<8xf32>
  %b = step.buffer "b" : memref<8xf32>
  %c = step.buffer "c" : memref<8xf32>
  %d = step.buffer "d" : memref<8xf32>
  %h = step.buffer "h" : memref<8xbf16>
  %a4 = step.buffer "a4" : memref<2xf32>
  %b4 = step.buffer "b4" : memref<2xf32>
  %c4 = step.buffer "c4" : memref<2xf32>
  %a2 = step.buffer "a2" : memref<4xf32>
  step.fill %a : memref<8xf32>
  step.fill %b : memref<8xf32>
  step.fill %h : memref<8xbf16>
  step.reduce_scatter ins(%a) outs(%a4) parts 4 over group : (memref<8xf32>) -> memref<2xf32>
  step.all_gather ins(%a4) outs(%c) parts 4 over group : (memref<2xf32>) -> memref<8xf32>
  step.all_reduce %c over peers : memref<8xf32>
  step.reduce_scatter ins(%b) outs(%b4) parts 4 over group : (memref<8xf32>) -> memref<2xf32>
  step.reduce_scatter ins(%a) outs(%c4) parts 4 : (memref<8xf32>) -> memref<2xf32>
  step.reduce_scatter ins(%a) outs(%a2) parts 2 over group : (memref<8xf32>) -> memref<4xf32>
  step.all_gather ins(%b4) outs(%d) parts 4 over group : (memref<2xf32>) -> memref<8xf32>
  step.all_reduce %h over peers : memref<8xbf16>
  step.all_reduce %d over peers : memref<8xf32>
}
