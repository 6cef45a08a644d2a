// RUN: nano-opt %s -nano-plan-memory -split-input-file | FileCheck %s

// States, scalars side by side, inputs; then the buffers of each program, from one place on.
// CHECK: step.arena 3328 floor 3328
// CHECK: nano.state @w : tensor<65xf32> {{.*}}offset = 0 : i64
// CHECK: nano.scalar @lr : f32 attributes {offset = 512 : i64}
// CHECK: nano.scalar @window : i32 attributes {offset = 528 : i64}
// CHECK: step.input @train.tokens : memref<8xi32> {offset = 768 : i64}
module {
  nano.state @w : tensor<65xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.scalar @window : i32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  step.input @train.tokens : memref<8xi32>
  // b and d are alive beside c only; a is dead when d is made, and of its size.
  // CHECK-LABEL: step.program @first
  // CHECK: step.buffer "a" {offset = [[A:[0-9]+]] : i64}
  // CHECK: step.buffer "b" {offset = [[B:[0-9]+]] : i64}
  // CHECK: step.buffer "c" {offset = [[C:[0-9]+]] : i64}
  // CHECK: step.buffer "d" {offset = [[A]] : i64}
  step.program @first {
    %a = step.buffer "a" : memref<256xf32>
    %b = step.buffer "b" : memref<256xf32>
    %c = step.buffer "c" : memref<64xf32>
    %d = step.buffer "d" : memref<256xf32>
    step.fill %a : memref<256xf32>
    step.copy %a to %b : memref<256xf32>, memref<256xf32>
    step.fill %c : memref<64xf32>
    step.copy %b to %d : memref<256xf32>, memref<256xf32>
    step.all_reduce %c : memref<64xf32>
  }
  // Programs overlay each other.
  // CHECK-LABEL: step.program @update
  // CHECK: step.buffer "e" {offset = 1024 : i64}
  step.program @update {
    %e = step.buffer "e" : memref<8xf32>
    step.fill %e : memref<8xf32>
  }
}

// -----

// Stream 1 may still run when stream 0 goes on: a's bytes are not given to b before the wait, but to c after it.
// CHECK-LABEL: step.program @streams
// CHECK: step.buffer "a" {offset = [[A:[0-9]+]] : i64}
// CHECK-NOT: step.buffer "b" {offset = [[A]] : i64}
// CHECK: step.buffer "c" {offset = [[A]] : i64}
module {
  step.program @streams {
    %a = step.buffer "a" : memref<256xf32>
    %b = step.buffer "b" : memref<256xf32>
    %c = step.buffer "c" : memref<256xf32>
    step.fill %a : memref<256xf32>
    step.record 0
    step.wait 0 {stream = 1 : i64}
    step.all_reduce %a {stream = 1 : i64} : memref<256xf32>
    step.record 1 {stream = 1 : i64}
    step.fill %b : memref<256xf32>
    step.wait 1
    step.copy %b to %c : memref<256xf32>, memref<256xf32>
  }
}

// -----

// A large output that one program alone touches lies where others have transient buffers: the host has read it before they run. One that several touch,
// and a small one, do not.
// CHECK: step.arena 3147008 floor 3147008
// CHECK-DAG: step.input @shared : memref<262144xf32> {offset = 0 : i64, output}
// CHECK-DAG: step.input @small : memref<8xf32> {offset = 1048576 : i64, output}
// CHECK-DAG: step.input @logits : memref<262144xf32> {offset = 1048832 : i64, output}
// CHECK-LABEL: step.program @step
// CHECK: step.buffer "a" {offset = 1048832 : i64}
// CHECK-LABEL: step.program @generate
// CHECK: step.buffer "b" {offset = 2097408 : i64}
module {
  step.input @logits : memref<262144xf32> {output}
  step.input @shared : memref<262144xf32> {output}
  step.input @small : memref<8xf32> {output}
  step.program @step {
    %s = step.state @shared : memref<262144xf32>
    %l = step.state @small : memref<8xf32>
    %a = step.buffer "a" : memref<524544xf32>
    step.fill %a : memref<524544xf32>
    step.fill %s : memref<262144xf32>
    step.fill %l : memref<8xf32>
  }
  step.program @generate {
    %s = step.state @shared : memref<262144xf32>
    %g = step.state @logits : memref<262144xf32>
    %b = step.buffer "b" : memref<262144xf32>
    step.fill %b : memref<262144xf32>
    step.copy %b to %g : memref<262144xf32>, memref<262144xf32>
    step.copy %b to %s : memref<262144xf32>, memref<262144xf32>
  }
}
