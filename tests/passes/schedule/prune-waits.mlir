// RUN: nano-opt %s -nano-plan-memory -nano-prune-waits -split-input-file | FileCheck %s

// A wait after which no command touches bytes that the other stream touches is taken away, with its record; the one
// that the exchange needs stays.
// CHECK-LABEL: step.program @waits
// CHECK: step.record 0
// CHECK: step.wait 0 {stream = 1 : i64}
// CHECK-NEXT: step.all_reduce
// CHECK-NEXT: step.fill
// CHECK-NEXT: }
module {
  step.program @waits {
    %a = step.buffer "a" : memref<256xf32>
    %b = step.buffer "b" : memref<256xf32>
    step.fill %b : memref<256xf32>
    step.fill %a : memref<256xf32>
    step.record 0
    step.wait 0 {stream = 1 : i64}
    step.all_reduce %a {stream = 1 : i64} : memref<256xf32>
    step.record 1 {stream = 1 : i64}
    step.wait 1
    step.fill %b : memref<256xf32>
  }
}

// -----

// An order that is missing is not added: what touches the same bytes without one is for nano-verify-races to find.
// CHECK-LABEL: step.program @unordered
// CHECK: step.fill %b
// CHECK-NEXT: step.fill %a
// CHECK-NEXT: step.all_reduce
// CHECK-NEXT: step.fill %b
// CHECK-NEXT: }
module {
  step.program @unordered {
    %a = step.buffer "a" : memref<256xf32>
    %b = step.buffer "b" : memref<256xf32>
    step.fill %b : memref<256xf32>
    step.record 0
    step.wait 0 {stream = 1 : i64}
    step.fill %a : memref<256xf32>
    step.all_reduce %a {stream = 1 : i64} : memref<256xf32>
    step.fill %b : memref<256xf32>
  }
}

// -----

// One that lets a gradient lie in the bytes of a buffer stays.
// CHECK: nano.state @grad.w : {{.*}}offset = [[G:[0-9]+]] : i64
// CHECK-LABEL: step.program @gradient
// CHECK: step.buffer "a" {offset = [[G]] : i64}
// CHECK: step.copy
// CHECK: step.record 0
// CHECK: step.wait 0 {stream = 1 : i64}
// CHECK-NEXT: step.fill %grad.w
module {
  nano.state @grad.w : tensor<65536xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  step.program @gradient attributes {role = "last"} {
    %g = step.state @grad.w : memref<65536xf32>
    %a = step.buffer "a" : memref<65536xf32>
    %b = step.buffer "b" : memref<65536xf32>
    step.fill %a : memref<65536xf32>
    step.copy %a to %b : memref<65536xf32>, memref<65536xf32>
    step.record 0
    step.wait 0 {stream = 1 : i64}
    step.fill %g {stream = 1 : i64} : memref<65536xf32>
    step.record 1 {stream = 1 : i64}
    step.all_reduce %b : memref<65536xf32>
    step.wait 1
  }
  step.program @update attributes {role = "update"} {
    %g = step.state @grad.w : memref<65536xf32>
    step.all_reduce %g : memref<65536xf32>
  }
}
