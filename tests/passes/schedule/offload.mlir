// A link so fast that a copy takes less than any other command, and one like those that there are.
// RUN: nano-opt %s -nano-offload="bytes=1048576 machine=%S/Inputs/fast-link.json" | FileCheck %s
// RUN: nano-opt %s -nano-offload="bytes=1048576 machine=%S/Inputs/fast-link.json" -nano-plan-memory -nano-prune-waits -nano-verify-liveness -nano-verify-races | FileCheck %s --check-prefix=PLANNED
// RUN: nano-opt %s -nano-offload="bytes=2097152 machine=%S/Inputs/fast-link.json" | FileCheck %s --check-prefix=BOTH
// RUN: nano-opt %s -nano-offload="bytes=2097152 machine=%S/Inputs/fast-link.json" -nano-plan-memory -nano-prune-waits -nano-verify-liveness -nano-verify-races | FileCheck %s --check-prefix=PACKED
// RUN: nano-opt %s -nano-offload="bytes=1048576 machine=%S/Inputs/fast-link.json" 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: nano-opt %s -nano-offload="bytes=1048576 machine=h200-nvlink" | FileCheck %s --check-prefix=STAYS
// RUN: nano-opt %s -nano-offload="bytes=1048576 machine=cpu" | FileCheck %s --check-prefix=STAYS
// RUN: nano-opt %s -nano-offload="bytes=1048576 machine=%S/Inputs/fast-link.json forbid" | FileCheck %s --check-prefix=STAYS
// RUN: nano-opt %s -nano-offload="machine=%S/Inputs/fast-link.json" | FileCheck %s --check-prefix=STAYS
// RUN: not nano-opt %s -nano-offload="bytes=-1" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not nano-opt %s -nano-offload="bytes=1 machine=none" 2>&1 | FileCheck %s --check-prefix=NONE
// REMARK: remark: taken to the host's memory and back: a × 1, 1.05 MB, each way in 0.000 ms beside a micro-batch
// NEGATIVE: nano-offload: bytes must not be negative, is -1
// NONE: none

// Of a and b, which live across the copy of c, the first to be free leaves; what reads it later, as a view too, reads what came
// back. c is needed there; i are indices; d is not written whole.
// CHECK-LABEL: step.program @last
// CHECK: %[[A:.*]] = step.buffer "a" : memref<512x512xf32>
// CHECK: %[[HOST:.*]] = step.buffer "a" {host} : memref<512x512xf32>
// CHECK: %[[BACK:.*]] = step.buffer "a" : memref<512x512xf32>
// CHECK: %[[VIEW:.*]] = step.view %[[BACK]] : memref<512x512xf32> to memref<256x512xf32, strided<[512, 1]>>
// CHECK: step.fill %[[A]]
// CHECK-NEXT: step.record [[MADE:[0-9]+]]
// CHECK-NEXT: step.wait [[MADE]] {stream = 3 : i64}
// CHECK-NEXT: step.copy %[[A]] to %[[HOST]] {stream = 3 : i64}
// CHECK-NEXT: step.record [[GONE:[0-9]+]] {stream = 3 : i64}
// CHECK-NEXT: step.fill %b
// CHECK-NEXT: step.wait [[GONE]]
// CHECK-NEXT: step.fill %i
// CHECK: step.copy %c to %e
// CHECK: step.record [[FREE:[0-9]+]]
// CHECK-NEXT: step.wait [[FREE]] {stream = 4 : i64}
// CHECK-NEXT: step.copy %[[HOST]] to %[[BACK]] {stream = 4 : i64}
// CHECK-NEXT: step.record [[THERE:[0-9]+]] {stream = 4 : i64}
// CHECK-NEXT: step.fill %e
// CHECK-NEXT: step.wait [[THERE]]
// CHECK-NEXT: step.copy %[[VIEW]] to
// CHECK-NEXT: step.copy %[[BACK]] to %f
// CHECK-NEXT: step.copy %b to %f

// PLANNED: step.arena 6291712 floor 6291712 host 1048576
// PLANNED: step.buffer "a" {host, offset = 6291712 : i64}

// BOTH: step.buffer "a" {host}
// BOTH: step.buffer "b" {host}
// PACKED: step.arena 5243136 floor 5243136 host 2097152

// STAYS-NOT: host
module {
  step.program @last attributes {role = "last"} {
    %a = step.buffer "a" : memref<512x512xf32>
    %half = step.view %a : memref<512x512xf32> to memref<256x512xf32, strided<[512, 1]>>
    %b = step.buffer "b" : memref<512x512xf32>
    %c = step.buffer "c" : memref<2x512x512xf32>
    %d = step.buffer "d" : memref<512x512xf32>
    %part = step.view %d : memref<512x512xf32> to memref<256x512xf32, strided<[512, 1]>>
    %e = step.buffer "e" : memref<2x512x512xf32>
    %f = step.buffer "f" : memref<512x512xf32>
    %first = step.view %f : memref<512x512xf32> to memref<256x512xf32, strided<[512, 1]>>
    %i = step.buffer "i" : memref<64xi32>
    %i2 = step.buffer "i2" : memref<64xi32>
    step.fill %a : memref<512x512xf32>
    step.fill %b : memref<512x512xf32>
    step.fill %i : memref<64xi32>
    step.fill %part : memref<256x512xf32, strided<[512, 1]>>
    step.fill %c : memref<2x512x512xf32>
    step.copy %c to %e : memref<2x512x512xf32>, memref<2x512x512xf32>
    step.fill %e : memref<2x512x512xf32>
    step.copy %half to %first : memref<256x512xf32, strided<[512, 1]>>, memref<256x512xf32, strided<[512, 1]>>
    step.copy %a to %f : memref<512x512xf32>, memref<512x512xf32>
    step.copy %b to %f : memref<512x512xf32>, memref<512x512xf32>
    step.copy %part to %first : memref<256x512xf32, strided<[512, 1]>>, memref<256x512xf32, strided<[512, 1]>>
    step.copy %i to %i2 : memref<64xi32>, memref<64xi32>
  }
}
