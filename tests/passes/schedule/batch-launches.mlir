// RUN: nano-opt %s -nano-batch-launches -split-input-file | FileCheck %s
// RUN: nano-opt %s -nano-batch-launches=max-bytes=0 -split-input-file | FileCheck %s --check-prefix=TIGHT
// RUN: nano-opt %s -nano-batch-launches=max-parameter-bytes=71 -split-input-file | FileCheck %s --check-prefix=SMALL
// RUN: nano-opt %s -nano-batch-launches=max-parameter-bytes=72 -split-input-file | FileCheck %s --check-prefix=LARGE

module @kernels {
  func.func private @step(memref<?xf32>, memref<?xf32>, memref<0xi8>, index, index)
    attributes {nano.reads = [0, 1], nano.writes = [0], nano.iterations = 8 : i64}
}
nano.state @p : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @q : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @r : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @g : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// Independent updates join; numbers of iterations stay with their operands. Two sets of two operands are 8 + 2·(2 + 2)·8 bytes of a
// kernel's parameters.
// SMALL-LABEL: step.program @together
// SMALL:       step.launch @step(%p, %g) :
// SMALL-NEXT:  step.launch @step(%q, %g) {iterations = array<i64: 4>} :
// LARGE-LABEL: step.program @together
// LARGE:       step.launch @step(%p, %g, %q, %g) {iterations
// CHECK-LABEL: step.program @together
// CHECK:       step.launch @step(%p, %g, %q, %g) {iterations = array<i64: 8, 4>, segments = 2 : i64}
// CHECK-NOT:   step.launch
step.program @together {
  %p = step.state @p : memref<8xf32>
  %q = step.state @q : memref<8xf32>
  %g = step.state @g : memref<8xf32>
  step.launch @step(%p, %g) : memref<8xf32>, memref<8xf32>
  step.launch @step(%q, %g) {iterations = array<i64: 4>} : memref<8xf32>, memref<8xf32>
}

// The second reads what the first writes, and the third what the fill writes: the second can wait for the third, and nothing else can move.
// CHECK-LABEL: step.program @apart
// CHECK:       step.launch @step(%p, %g) :
// CHECK-NEXT:  step.fill %g
// CHECK-NEXT:  step.launch @step(%q, %p, %r, %g) {segments = 2 : i64}
// CHECK-NEXT:  }
step.program @apart {
  %p = step.state @p : memref<8xf32>
  %q = step.state @q : memref<8xf32>
  %r = step.state @r : memref<8xf32>
  %g = step.state @g : memref<8xf32>
  step.launch @step(%p, %g) : memref<8xf32>, memref<8xf32>
  step.launch @step(%q, %p) : memref<8xf32>, memref<8xf32>
  step.fill %g : memref<8xf32>
  step.launch @step(%r, %g) : memref<8xf32>, memref<8xf32>
}

// The last update of p waits for that of q, whose direction is computed in between; not so when that keeps too many bytes alive.
// CHECK-LABEL: step.program @down
// CHECK:       step.fill %u
// CHECK-NEXT:  step.fill %v
// CHECK-NEXT:  step.launch @step(%p, %u, %q, %v) {segments = 2 : i64}
// TIGHT-LABEL: step.program @down
// TIGHT:       step.fill %u
// TIGHT-NEXT:  step.launch @step(%p, %u)
// TIGHT-NEXT:  step.fill %v
// TIGHT-NEXT:  step.launch @step(%q, %v)
step.program @down {
  %p = step.state @p : memref<8xf32>
  %q = step.state @q : memref<8xf32>
  %u = step.buffer "u" : memref<8xf32>
  %v = step.buffer "v" : memref<8xf32>
  step.fill %u : memref<8xf32>
  step.launch @step(%p, %u) : memref<8xf32>, memref<8xf32>
  step.fill %v : memref<8xf32>
  step.launch @step(%q, %v) : memref<8xf32>, memref<8xf32>
}

// -----

module @kernels {
  func.func private @step(memref<?xf32>, memref<?xf32>, memref<0xi8>, index, index)
    attributes {nano.reads = [0, 1], nano.writes = [0], nano.iterations = 8 : i64}
}
nano.state @p : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @q : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @r : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @g : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @h : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// Behind two collectives: p and r need the first, q the second. One launch of all would wait for both.
// CHECK-LABEL: step.program @behind
// CHECK:       step.all_reduce %g
// CHECK-NEXT:  step.launch @step(%p, %g, %r, %g) {segments = 2 : i64}
// CHECK-NEXT:  step.all_reduce %h
// CHECK-NEXT:  step.launch @step(%q, %h) :
step.program @behind {
  %p = step.state @p : memref<8xf32>
  %q = step.state @q : memref<8xf32>
  %r = step.state @r : memref<8xf32>
  %g = step.state @g : memref<8xf32>
  %h = step.state @h : memref<8xf32>
  step.all_reduce %g : memref<8xf32>
  step.launch @step(%p, %g) : memref<8xf32>, memref<8xf32>
  step.all_reduce %h : memref<8xf32>
  step.launch @step(%q, %h) : memref<8xf32>, memref<8xf32>
  step.launch @step(%r, %g) : memref<8xf32>, memref<8xf32>
}

// Before two collectives: one launch would hold up the first.
// CHECK-LABEL: step.program @before
// CHECK:       step.launch @step(%g, %p) :
// CHECK:       step.launch @step(%h, %p) :
step.program @before {
  %p = step.state @p : memref<8xf32>
  %g = step.state @g : memref<8xf32>
  %h = step.state @h : memref<8xf32>
  step.launch @step(%g, %p) : memref<8xf32>, memref<8xf32>
  step.all_reduce %g : memref<8xf32>
  step.launch @step(%h, %p) : memref<8xf32>, memref<8xf32>
  step.all_reduce %h : memref<8xf32>
}
