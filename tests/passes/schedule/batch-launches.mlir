// RUN: nano-opt %s -nano-batch-launches -split-input-file | FileCheck %s
// RUN: nano-opt %s -nano-batch-launches=max-bytes=0 -split-input-file | FileCheck %s --check-prefix=TIGHT
// RUN: nano-opt %s -nano-batch-launches=max-parameter-bytes=71 -split-input-file | FileCheck %s --check-prefix=SMALL
// RUN: nano-opt %s -nano-batch-launches=max-bytes=32 -split-input-file | FileCheck %s --check-prefix=ELSEWHERE
// RUN: nano-opt %s -nano-batch-launches=max-parameter-bytes=72 -split-input-file | FileCheck %s --check-prefix=LARGE

module @kernels {
  kernel.func @step(read_write memref<?xf32>, read memref<?xf32>, memref<0xi8>, index, index)
    attributes {iterations = 8 : i64}
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
  kernel.func @step(read_write memref<?xf32>, read memref<?xf32>, memref<0xi8>, index, index)
    attributes {iterations = 8 : i64}
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

// -----

// A kernel with tensor maps takes one set of operands.
module @kernels {
  kernel.func @product(read_write memref<?xf32>, read memref<?xf32>, memref<0xi8>, index, index)
    attributes {iterations = 8 : i64, tensor_maps = [#kernel.tensor_map<buffer = 1, columns = 8, rows = 1, row_bytes = 32, box_columns = 8, box_rows = 1, swizzle_bytes = 32>]}
}
nano.state @p : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @q : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @g : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// CHECK-LABEL: step.program @mapped
// CHECK:       step.launch @product(%p, %g) :
// CHECK-NEXT:  step.launch @product(%q, %g) :
step.program @mapped {
  %p = step.state @p : memref<8xf32>
  %q = step.state @q : memref<8xf32>
  %g = step.state @g : memref<8xf32>
  step.launch @product(%p, %g) : memref<8xf32>, memref<8xf32>
  step.launch @product(%q, %g) : memref<8xf32>, memref<8xf32>
}

// -----

module @kernels {
  kernel.func @step(read_write memref<?xf32>, read memref<?xf32>, memref<0xi8>, index, index)
    attributes {iterations = 8 : i64}
  kernel.func @make(read memref<?xf32>, write memref<?xf32>, memref<0xi8>, index, index)
    attributes {iterations = 8 : i64}
}
nano.state @p : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @q : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @g : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// Results in different parts of one buffer do not keep launches apart; in overlapping parts they do.
// CHECK-LABEL: step.program @parts
// CHECK:       step.launch @make(%p, %[[LOW:.*]], %q, %[[HIGH:.*]]) {segments = 2 : i64}
// CHECK-NEXT:  step.launch @make(%g, %[[MIDDLE:.*]]) :
// CHECK-NEXT:  step.launch @step(%p, %[[LOW]]) :
step.program @parts {
  %p = step.state @p : memref<8xf32>
  %q = step.state @q : memref<8xf32>
  %g = step.state @g : memref<8xf32>
  %u = step.buffer "u" : memref<16xf32>
  %low = step.view %u : memref<16xf32> to memref<8xf32>
  %middle = step.view %u : memref<16xf32> to memref<8xf32, strided<[1], offset: 4>>
  %high = step.view %u : memref<16xf32> to memref<8xf32, strided<[1], offset: 8>>
  step.launch @make(%p, %low) : memref<8xf32>, memref<8xf32>
  step.launch @make(%q, %high) : memref<8xf32>, memref<8xf32, strided<[1], offset: 8>>
  step.launch @make(%g, %middle) : memref<8xf32>, memref<8xf32, strided<[1], offset: 4>>
  step.launch @step(%p, %low) : memref<8xf32>, memref<8xf32>
}

// u and v hold the same: what is read of v may be read of u.
// CHECK-LABEL: step.program @equal
// CHECK:       %[[U:.*]] = step.view %u
// CHECK:       step.launch @make(%g, %u) :
// CHECK-NEXT:  step.launch @step(%p, %u, %q, %[[U]]) {segments = 2 : i64}
// CHECK-NEXT:  }
step.program @equal {
  %p = step.state @p : memref<8xf32>
  %q = step.state @q : memref<8xf32>
  %g = step.state @g : memref<8xf32>
  %v = step.buffer "v" : memref<8xf32>
  %v_all = step.view %v : memref<8xf32> to memref<8xf32>
  %u = step.buffer "u" : memref<8xf32>
  step.launch @make(%g, %u) : memref<8xf32>, memref<8xf32>
  step.launch @step(%p, %u) : memref<8xf32>, memref<8xf32>
  step.launch @make(%g, %v) : memref<8xf32>, memref<8xf32>
  step.launch @step(%q, %v_all) : memref<8xf32>, memref<8xf32>
}

// Not when the operand has changed, …
// CHECK-LABEL: step.program @changed
// CHECK:       step.launch @make(%g, %u) :
// CHECK:       step.launch @make(%g, %v) :
step.program @changed {
  %p = step.state @p : memref<8xf32>
  %g = step.state @g : memref<8xf32>
  %u = step.buffer "u" : memref<8xf32>
  %v = step.buffer "v" : memref<8xf32>
  step.launch @make(%g, %u) : memref<8xf32>, memref<8xf32>
  step.launch @step(%g, %u) : memref<8xf32>, memref<8xf32>
  step.launch @make(%g, %v) : memref<8xf32>, memref<8xf32>
  step.launch @step(%p, %v) : memref<8xf32>, memref<8xf32>
}

// … or the result is changed, …
// CHECK-LABEL: step.program @written
// CHECK:       step.launch @make(%g, %u, %g, %v)
step.program @written {
  %p = step.state @p : memref<8xf32>
  %g = step.state @g : memref<8xf32>
  %u = step.buffer "u" : memref<8xf32>
  %v = step.buffer "v" : memref<8xf32>
  step.launch @make(%g, %u) : memref<8xf32>, memref<8xf32>
  step.launch @step(%u, %g) : memref<8xf32>, memref<8xf32>
  step.launch @make(%g, %v) : memref<8xf32>, memref<8xf32>
  step.launch @step(%p, %v) : memref<8xf32>, memref<8xf32>
}

// … or it is a state's, …
// CHECK-LABEL: step.program @kept
// CHECK:       step.launch @make(%g, %p, %g, %q)
step.program @kept {
  %p = step.state @p : memref<8xf32>
  %q = step.state @q : memref<8xf32>
  %g = step.state @g : memref<8xf32>
  step.launch @make(%g, %p) : memref<8xf32>, memref<8xf32>
  step.launch @make(%g, %q) : memref<8xf32>, memref<8xf32>
}

// … or more bytes would live at once than anywhere: u beside w. With max-bytes = 0 that holds of joining them too.
// CHECK-LABEL: step.program @waiting
// CHECK:       step.launch @make(%g, %u, %g, %v)
// TIGHT-LABEL: step.program @waiting
// TIGHT:       step.launch @make(%g, %u) :
// TIGHT:       step.fill %w
// TIGHT:       step.launch @make(%g, %v) :
step.program @waiting {
  %p = step.state @p : memref<8xf32>
  %q = step.state @q : memref<8xf32>
  %g = step.state @g : memref<8xf32>
  %u = step.buffer "u" : memref<8xf32>
  %v = step.buffer "v" : memref<8xf32>
  %w = step.buffer "w" : memref<12xf32>
  %w_part = step.view %w : memref<12xf32> to memref<8xf32>
  step.launch @make(%g, %u) : memref<8xf32>, memref<8xf32>
  step.launch @step(%p, %u) : memref<8xf32>, memref<8xf32>
  step.fill %w : memref<12xf32>
  step.launch @step(%p, %w_part) : memref<8xf32>, memref<8xf32>
  step.launch @make(%g, %v) : memref<8xf32>, memref<8xf32>
  step.launch @step(%q, %v) : memref<8xf32>, memref<8xf32>
}

// -----

// While less lives than elsewhere, launches join whatever max-bytes allows beyond that: up to u and v beside each other.
module @kernels {
  kernel.func @step(read_write memref<?xf32>, read memref<?xf32>, memref<0xi8>, index, index)
    attributes {iterations = 8 : i64}
}
nano.state @p : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @q : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
// ELSEWHERE-LABEL: step.program @room
// ELSEWHERE:       step.launch @step(%p, %u, %q, %v) {segments = 2 : i64}
// CHECK-LABEL: step.program @room
// CHECK:       step.launch @step(%p, %u, %q, %v) {segments = 2 : i64}
step.program @room {
  %p = step.state @p : memref<8xf32>
  %q = step.state @q : memref<8xf32>
  %u = step.buffer "u" : memref<8xf32>
  %v = step.buffer "v" : memref<8xf32>
  step.fill %u : memref<8xf32>
  step.launch @step(%p, %u) : memref<8xf32>, memref<8xf32>
  step.fill %v : memref<8xf32>
  step.launch @step(%q, %v) : memref<8xf32>, memref<8xf32>
}
// The most that lives at once is that of another program.
step.program @most {
  %w = step.buffer "w" : memref<16xf32>
  step.fill %w : memref<16xf32>
}
