// RUN: nano-opt %s -nano-schedule | FileCheck %s
// RUN: nano-opt %s -nano-schedule -nano-schedule | FileCheck %s

module @kernels {
  kernel.func @step(read_write memref<?xf32>, read memref<?xf32>, memref<0xi8>, index, index)
    attributes {iterations = 8 : i64}
}
nano.state @p : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @q : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @g : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @h : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// Collectives rise to the start; each update waits for its own, and the wait for the second implies the first's.
// CHECK-LABEL: step.program @update
// CHECK:       step.all_reduce %g {stream = 1 : i64}
// CHECK-NEXT:  step.record 0 {stream = 1 : i64}
// CHECK-NEXT:  step.all_reduce %h {stream = 1 : i64}
// CHECK-NEXT:  step.record 1 {stream = 1 : i64}
// CHECK-NEXT:  step.wait 0
// CHECK-NEXT:  step.launch @step(%p, %g)
// CHECK-NEXT:  step.wait 1
// CHECK-NEXT:  step.launch @step(%q, %h)
// CHECK-NEXT:  step.launch @step(%p, %g)
// CHECK-NEXT:  }
step.program @update {
  %p = step.state @p : memref<8xf32>
  %q = step.state @q : memref<8xf32>
  %g = step.state @g : memref<8xf32>
  %h = step.state @h : memref<8xf32>
  step.all_reduce %g : memref<8xf32>
  step.launch @step(%p, %g) : memref<8xf32>, memref<8xf32>
  step.all_reduce %h : memref<8xf32>
  step.launch @step(%q, %h) : memref<8xf32>, memref<8xf32>
  step.launch @step(%p, %g) : memref<8xf32>, memref<8xf32>
}

// A collective waits for the command that makes its operand, and runs beside the next one.
// CHECK-LABEL: step.program @overlap
// CHECK:       step.launch @step(%g, %p)
// CHECK-NEXT:  step.record 0{{$}}
// CHECK-NEXT:  step.wait 0 {stream = 1 : i64}
// CHECK-NEXT:  step.all_reduce %g {stream = 1 : i64}
// CHECK-NEXT:  step.record 1 {stream = 1 : i64}
// CHECK-NEXT:  step.launch @step(%q, %p)
// CHECK-NEXT:  step.wait 1
// CHECK-NEXT:  step.launch @step(%p, %g)
step.program @overlap {
  %p = step.state @p : memref<8xf32>
  %q = step.state @q : memref<8xf32>
  %g = step.state @g : memref<8xf32>
  step.launch @step(%g, %p) : memref<8xf32>, memref<8xf32>
  step.launch @step(%q, %p) : memref<8xf32>, memref<8xf32>
  step.all_reduce %g : memref<8xf32>
  step.launch @step(%p, %g) : memref<8xf32>, memref<8xf32>
}

// Nothing to order: no events.
// CHECK-LABEL: step.program @alone
// CHECK-NOT:   step.record
step.program @alone {
  %p = step.state @p : memref<8xf32>
  %g = step.state @g : memref<8xf32>
  step.launch @step(%p, %g) : memref<8xf32>, memref<8xf32>
  step.launch @step(%p, %g) : memref<8xf32>, memref<8xf32>
}
