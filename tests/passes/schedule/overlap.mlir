// RUN: echo '{"commands": [{"program": "backward", "label": "grad", "runs": 2, "ms": 1.0}]}' > %t.json
// RUN: nano-opt %s '-nano-schedule=memory-growth=10 times=%t.json' | FileCheck %s
// RUN: nano-opt %s -nano-schedule=memory-growth=0 -nano-plan-memory -nano-prune-waits -nano-verify-liveness -nano-verify-races -o /dev/null

// Eight H100 on NVLink.
module {
  nano.model "m" {world = 8 : i64, group = 8 : i64}
module @kernels {
  kernel.func @grad(read memref<?xf32>, write memref<?xf32>, memref<0xi8>, index, index)
    attributes {iterations = 8 : i64}
  kernel.func @apply(read_write memref<?xf32>, read memref<?xf32>, memref<0xi8>, index, index)
    attributes {iterations = 8 : i64}
}
nano.state @p0 : tensor<8388608xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @p1 : tensor<8388608xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @p2 : tensor<8388608xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @m0 : tensor<2048x512xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @m1 : tensor<2048x512xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @m2 : tensor<2048x512xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// Muon: the gather of group k runs beside the products of group k + 1, whose own products do not wait for it; what applies a group comes when its
// gather is there.
// CHECK-LABEL: step.program @muon
// CHECK:       step.matmul %m0, %m0 into %a0
// CHECK-NEXT:  step.matmul %a0, %m0 into %x0
// CHECK-NEXT:  step.record 0{{$}}
// CHECK-NEXT:  step.wait 0 {stream = 1 : i64}
// CHECK-NEXT:  step.all_gather ins(%x0) outs(%y0) parts 8 over group {stream = 1 : i64}
// CHECK-NEXT:  step.record 1 {stream = 1 : i64}
// CHECK-NEXT:  step.matmul %m1, %m1 into %a1
// CHECK-NEXT:  step.matmul %a1, %m1 into %x1
// CHECK-NEXT:  step.record 2{{$}}
// CHECK-NEXT:  step.wait 2 {stream = 1 : i64}
// CHECK-NEXT:  step.all_gather ins(%x1) outs(%y1) parts 8 over group {stream = 1 : i64}
// CHECK:       step.matmul %m2, %m2 into %a2
// CHECK-NEXT:  step.matmul %a2, %m2 into %x2
// CHECK:       step.all_gather ins(%x2) outs(%y2) parts 8 over group {stream = 1 : i64}
// CHECK:       step.launch @apply(%p2, %y2)
// CHECK-NEXT:  }
step.program @muon {
  %p0 = step.state @p0 : memref<8388608xf32>
  %p1 = step.state @p1 : memref<8388608xf32>
  %p2 = step.state @p2 : memref<8388608xf32>
  %m0 = step.state @m0 : memref<2048x512xf32>
  %m1 = step.state @m1 : memref<2048x512xf32>
  %m2 = step.state @m2 : memref<2048x512xf32>
  %a0 = step.buffer "a0" : memref<2048x2048xf32>
  %a1 = step.buffer "a1" : memref<2048x2048xf32>
  %a2 = step.buffer "a2" : memref<2048x2048xf32>
  %x0 = step.buffer "x0" : memref<2048x512xf32>
  %x1 = step.buffer "x1" : memref<2048x512xf32>
  %x2 = step.buffer "x2" : memref<2048x512xf32>
  %y0 = step.buffer "y0" : memref<8388608xf32>
  %y1 = step.buffer "y1" : memref<8388608xf32>
  %y2 = step.buffer "y2" : memref<8388608xf32>
  step.matmul %m0, %m0 into %a0 {transpose_b} : memref<2048x512xf32>, memref<2048x512xf32>, memref<2048x2048xf32>
  step.matmul %a0, %m0 into %x0 : memref<2048x2048xf32>, memref<2048x512xf32>, memref<2048x512xf32>
  step.all_gather ins(%x0) outs(%y0) parts 8 over group : (memref<2048x512xf32>) -> memref<8388608xf32>
  step.launch @apply(%p0, %y0) : memref<8388608xf32>, memref<8388608xf32>
  step.matmul %m1, %m1 into %a1 {transpose_b} : memref<2048x512xf32>, memref<2048x512xf32>, memref<2048x2048xf32>
  step.matmul %a1, %m1 into %x1 : memref<2048x2048xf32>, memref<2048x512xf32>, memref<2048x512xf32>
  step.all_gather ins(%x1) outs(%y1) parts 8 over group : (memref<2048x512xf32>) -> memref<8388608xf32>
  step.launch @apply(%p1, %y1) : memref<8388608xf32>, memref<8388608xf32>
  step.matmul %m2, %m2 into %a2 {transpose_b} : memref<2048x512xf32>, memref<2048x512xf32>, memref<2048x2048xf32>
  step.matmul %a2, %m2 into %x2 : memref<2048x2048xf32>, memref<2048x512xf32>, memref<2048x512xf32>
  step.all_gather ins(%x2) outs(%y2) parts 8 over group : (memref<2048x512xf32>) -> memref<8388608xf32>
  step.launch @apply(%p2, %y2) : memref<8388608xf32>, memref<8388608xf32>
}

// Backward, in which kernels are measured to take longer than sums: the sum of a later layer's gradient runs beside the earlier layers. Nobody
// waits for the sums: the next program does not begin before they are there.
// CHECK-LABEL: step.program @backward
// CHECK:       step.launch @grad(%d2, %p2)
// CHECK-NEXT:  step.record 0{{$}}
// CHECK-NEXT:  step.wait 0 {stream = 1 : i64}
// CHECK-NEXT:  step.all_reduce %p2 {stream = 1 : i64}
// CHECK-NEXT:  step.launch @grad(%d2, %d1)
// CHECK-NEXT:  step.launch @grad(%d1, %p1)
// CHECK-NEXT:  step.record 1{{$}}
// CHECK-NEXT:  step.wait 1 {stream = 1 : i64}
// CHECK-NEXT:  step.all_reduce %p1 {stream = 1 : i64}
// CHECK-NEXT:  step.launch @grad(%d1, %d0)
// CHECK-NEXT:  step.launch @grad(%d0, %p0)
// CHECK-NEXT:  step.record 2{{$}}
// CHECK-NEXT:  step.wait 2 {stream = 1 : i64}
// CHECK-NEXT:  step.all_reduce %p0 {stream = 1 : i64}
// CHECK-NEXT:  }
step.program @backward {
  %p0 = step.state @p0 : memref<8388608xf32>
  %p1 = step.state @p1 : memref<8388608xf32>
  %p2 = step.state @p2 : memref<8388608xf32>
  %d2 = step.buffer "d2" : memref<8388608xf32>
  %d1 = step.buffer "d1" : memref<8388608xf32>
  %d0 = step.buffer "d0" : memref<8388608xf32>
  step.fill %d2 : memref<8388608xf32>
  step.launch @grad(%d2, %p2) : memref<8388608xf32>, memref<8388608xf32>
  step.all_reduce %p2 : memref<8388608xf32>
  step.launch @grad(%d2, %d1) : memref<8388608xf32>, memref<8388608xf32>
  step.launch @grad(%d1, %p1) : memref<8388608xf32>, memref<8388608xf32>
  step.all_reduce %p1 : memref<8388608xf32>
  step.launch @grad(%d1, %d0) : memref<8388608xf32>, memref<8388608xf32>
  step.launch @grad(%d0, %p0) : memref<8388608xf32>, memref<8388608xf32>
  step.all_reduce %p0 : memref<8388608xf32>
}
}
