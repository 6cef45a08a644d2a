// RUN: nano-opt %s -nano-schedule=memory-growth=10 | FileCheck %s
// RUN: nano-opt %s '-nano-schedule=machine=cpu memory-growth=10' | FileCheck %s --check-prefix=CPU
// RUN: nano-opt %s -nano-schedule=memory-growth=0 -nano-plan-memory -nano-prune-waits -nano-verify-liveness -nano-verify-races -o /dev/null
// RUN: nano-opt %s -nano-schedule=memory-growth=10 -nano-plan-memory -nano-prune-waits -nano-verify-liveness -nano-verify-races -o %t.mlir
// RUN: grep -v 'step.wait [0-9]*$' %t.mlir > %t.without.mlir
// RUN: not nano-opt %t.without.mlir -nano-verify-races 2>&1 | FileCheck %s --check-prefix=RACE
// RACE: no event orders them

// Ranks that do one thing at a time have one place for copies.
// CPU-NOT: stream = 2

// Eight H100 on NVLink.
module {
  nano.model "m" {world = 8 : i64, group = 8 : i64}
module @kernels {
  kernel.func @apply(read_write memref<?xf32>, read memref<?xf32>, memref<0xi8>, index, index)
    attributes {iterations = 8 : i64}
}
nano.state @p : tensor<8388608xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @q : tensor<8388608xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @m : tensor<4096x4096xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @t : tensor<f32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// A big copy runs beside the product; what overwrites its source waits for it, and what reads its target has the wait implied. The
// small copy, which would need an event of its own, stays among the computation.
// CHECK-LABEL: step.program @beside
// CHECK:       step.matmul %m, %m into %x
// CHECK-NEXT:  step.copy %p to %old {stream = 2 : i64}
// CHECK-NEXT:  step.record 0 {stream = 2 : i64}
// CHECK-NEXT:  step.wait 0{{$}}
// CHECK-NEXT:  step.launch @apply(%p, %q)
// CHECK-NEXT:  step.launch @apply(%q, %old)
// CHECK-NEXT:  step.copy %t to %u : memref<f32>, memref<f32>
// CHECK-NEXT:  step.copy %u to %t : memref<f32>, memref<f32>
// CHECK-NEXT:  }
step.program @beside {
  %p = step.state @p : memref<8388608xf32>
  %q = step.state @q : memref<8388608xf32>
  %m = step.state @m : memref<4096x4096xf32>
  %t = step.state @t : memref<f32>
  %x = step.buffer "x" : memref<4096x4096xf32>
  %old = step.buffer "old" : memref<8388608xf32>
  %u = step.buffer "u" : memref<f32>
  step.matmul %m, %m into %x : memref<4096x4096xf32>, memref<4096x4096xf32>, memref<4096x4096xf32>
  step.copy %p to %old : memref<8388608xf32>, memref<8388608xf32>
  step.launch @apply(%p, %q) : memref<8388608xf32>, memref<8388608xf32>
  step.launch @apply(%q, %old) : memref<8388608xf32>, memref<8388608xf32>
  step.copy %t to %u : memref<f32>, memref<f32>
  step.copy %u to %t : memref<f32>, memref<f32>
}

// Three streams: a sum, a copy and a product at once. The last command waits for the sum and for the copy, whose source the sum's result
// does not overwrite before it is copied.
// CHECK-LABEL: step.program @three
// CHECK:       step.copy %q to %old {stream = 2 : i64}
// CHECK-NEXT:  step.record 0 {stream = 2 : i64}
// CHECK-NEXT:  step.matmul %m, %m into %x
// CHECK-NEXT:  step.wait 0 {stream = 1 : i64}
// CHECK-NEXT:  step.all_reduce %q {stream = 1 : i64}
// CHECK-NEXT:  step.record 1 {stream = 1 : i64}
// CHECK-NEXT:  step.wait 1{{$}}
// CHECK-NEXT:  step.launch @apply(%q, %old)
// CHECK-NEXT:  }
step.program @three {
  %q = step.state @q : memref<8388608xf32>
  %m = step.state @m : memref<4096x4096xf32>
  %x = step.buffer "x" : memref<4096x4096xf32>
  %old = step.buffer "old" : memref<8388608xf32>
  step.matmul %m, %m into %x : memref<4096x4096xf32>, memref<4096x4096xf32>, memref<4096x4096xf32>
  step.copy %q to %old : memref<8388608xf32>, memref<8388608xf32>
  step.all_reduce %q : memref<8388608xf32>
  step.launch @apply(%q, %old) : memref<8388608xf32>, memref<8388608xf32>
}

// Copies that have the memory to themselves gain nothing beside what needs all of it: the order is the given one.
// CHECK-LABEL: step.program @bound
// CHECK:       step.launch @apply(%p, %p)
// CHECK-NEXT:  step.copy %q to %old : memref<8388608xf32>, memref<8388608xf32>
// CHECK-NEXT:  step.launch @apply(%p, %old)
// CHECK-NEXT:  }
step.program @bound {
  %p = step.state @p : memref<8388608xf32>
  %q = step.state @q : memref<8388608xf32>
  %old = step.buffer "old" : memref<8388608xf32>
  step.launch @apply(%p, %p) : memref<8388608xf32>, memref<8388608xf32>
  step.copy %q to %old : memref<8388608xf32>, memref<8388608xf32>
  step.launch @apply(%p, %old) : memref<8388608xf32>, memref<8388608xf32>
}
}
