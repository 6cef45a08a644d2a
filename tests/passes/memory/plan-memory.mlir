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

// -----

// A gradient that a step writes anew lies in the bytes of what is dead by then, at one place for all programs, and others have it when the update has read it.
// CHECK: step.arena 786432 floor 786432
// CHECK: nano.state @w : tensor<65536xf32> {{.*}}offset = 0 : i64
// CHECK: nano.state @grad.w : tensor<65536xf32> {{.*}}offset = [[G:[0-9]+]] : i64
// CHECK-LABEL: step.program @last
// CHECK: step.buffer "a" {offset = [[G]] : i64}
// CHECK-LABEL: step.program @update
// CHECK: step.buffer "c" {offset = 524288 : i64}
// CHECK: step.buffer "d" {offset = [[G]] : i64}
// CHECK-LABEL: step.program @validate
// CHECK: step.buffer "e" {offset = 262144 : i64}
module {
  nano.state @w : tensor<65536xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.w : tensor<65536xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  step.program @last attributes {role = "last"} {
    %g = step.state @grad.w : memref<65536xf32>
    %a = step.buffer "a" : memref<65536xf32>
    %b = step.buffer "b" : memref<65536xf32>
    step.fill %a : memref<65536xf32>
    step.copy %a to %b : memref<65536xf32>, memref<65536xf32>
    step.copy %b to %g : memref<65536xf32>, memref<65536xf32>
  }
  step.program @update attributes {role = "update"} {
    %g = step.state @grad.w : memref<65536xf32>
    %c = step.buffer "c" : memref<65536xf32>
    %d = step.buffer "d" : memref<65536xf32>
    step.copy %g to %c : memref<65536xf32>, memref<65536xf32>
    step.copy %c to %d : memref<65536xf32>, memref<65536xf32>
    step.all_reduce %d : memref<65536xf32>
  }
  step.program @validate attributes {role = "validate"} {
    %e = step.buffer "e" : memref<131072xf32>
    step.fill %e : memref<131072xf32>
  }
}

// -----

// Not one that micro-batches add up in, nor a part of which the step leaves as it was.
// CHECK: step.arena 1048576 floor 1048576
// CHECK: nano.state @grad.sum : tensor<65536xf32> {{.*}}offset = 0 : i64
// CHECK: nano.state @grad.part : tensor<2x65536xf32> {{.*}}offset = 262144 : i64
// CHECK: step.buffer "a" {offset = 786432 : i64}
module {
  nano.state @grad.sum : tensor<65536xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.part : tensor<2x65536xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  step.program @first attributes {role = "first"} {
    %s = step.state @grad.sum : memref<65536xf32>
    step.fill %s : memref<65536xf32>
  }
  step.program @last attributes {role = "last"} {
    %s = step.state @grad.sum : memref<65536xf32>
    %p = step.state @grad.part : memref<2x65536xf32>
    %row = step.view %p : memref<2x65536xf32> to memref<65536xf32>
    %a = step.buffer "a" : memref<65536xf32>
    step.fill %a : memref<65536xf32>
    step.copy %a to %row : memref<65536xf32>, memref<65536xf32>
    step.copy %s to %a : memref<65536xf32>, memref<65536xf32>
    step.copy %a to %s : memref<65536xf32>, memref<65536xf32>
  }
  step.program @update attributes {role = "update"} {
    %s = step.state @grad.sum : memref<65536xf32>
    %p = step.state @grad.part : memref<2x65536xf32>
    step.all_reduce %s : memref<65536xf32>
    step.all_reduce %p : memref<2x65536xf32>
  }
}

// -----

// Two gradients share bytes in a step that needs one after the other. A step of the other phase needs both at once: none lies over the other, nor does one that a program between would have to keep.
// CHECK: step.arena 786688 floor 786688
// CHECK: nano.state @grad.a : tensor<65536xf32> {{.*}}offset = [[A:[0-9]+]] : i64
// CHECK-NOT: offset = [[A]] : i64
// CHECK: nano.state @grad.over : tensor<65536xf32> {{.*}}offset = 0 : i64
module {
  nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "sgd", states = [], every = 2 : i64}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.state @grad.a : tensor<65536xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.b : tensor<65536xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.over : tensor<65536xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  step.program @first attributes {role = "first"} {
    %o = step.state @grad.over : memref<65536xf32>
    step.fill %o : memref<65536xf32>
  }
  step.program @last_0 attributes {phases = array<i64: 0>, role = "last"} {
    %a = step.state @grad.a : memref<65536xf32>
    %b = step.state @grad.b : memref<65536xf32>
    %x = step.buffer "x" : memref<65536xf32>
    %y = step.buffer "y" : memref<65536xf32>
    step.fill %a : memref<65536xf32>
    step.copy %a to %x : memref<65536xf32>, memref<65536xf32>
    step.copy %x to %y : memref<65536xf32>, memref<65536xf32>
    step.copy %y to %b : memref<65536xf32>, memref<65536xf32>
  }
  step.program @last_1 attributes {phases = array<i64: 1>, role = "last"} {
    %a = step.state @grad.a : memref<65536xf32>
    %b = step.state @grad.b : memref<65536xf32>
    step.fill %a : memref<65536xf32>
    step.copy %a to %b : memref<65536xf32>, memref<65536xf32>
  }
  step.program @update_0 attributes {phases = array<i64: 0>, role = "update"} {
    %b = step.state @grad.b : memref<65536xf32>
    %o = step.state @grad.over : memref<65536xf32>
    step.all_reduce %b : memref<65536xf32>
    step.all_reduce %o : memref<65536xf32>
  }
  step.program @update_1 attributes {phases = array<i64: 1>, role = "update"} {
    %a = step.state @grad.a : memref<65536xf32>
    %b = step.state @grad.b : memref<65536xf32>
    %o = step.state @grad.over : memref<65536xf32>
    step.all_reduce %a : memref<65536xf32>
    step.all_reduce %b : memref<65536xf32>
    step.all_reduce %o : memref<65536xf32>
  }
}

// -----

// What is put together part by part holds no bytes of the parts that are still to come: a lies in the second one's, until that is written.
// CHECK: step.arena 1024 floor 1024
// CHECK-LABEL: step.program @parts
// CHECK: step.buffer "a" {offset = 512 : i64}
// CHECK: step.buffer "whole" {offset = 0 : i64}
module {
  step.program @parts {
    %a = step.buffer "a" : memref<128xf32>
    %whole = step.buffer "whole" : memref<256xf32>
    %first = step.view %whole : memref<256xf32> to memref<128xf32>
    %second = step.view %whole : memref<256xf32> to memref<128xf32, strided<[1], offset: 128>>
    step.fill %a : memref<128xf32>
    step.copy %a to %first : memref<128xf32>, memref<128xf32>
    step.fill %second : memref<128xf32, strided<[1], offset: 128>>
    step.all_reduce %whole : memref<256xf32>
  }
}

// -----

// Not where another stream has a part in it.
// CHECK: step.arena 1536 floor 1536
// CHECK-LABEL: step.program @others
module {
  step.program @others {
    %a = step.buffer "a" : memref<128xf32>
    %whole = step.buffer "whole" : memref<256xf32>
    %first = step.view %whole : memref<256xf32> to memref<128xf32>
    %second = step.view %whole : memref<256xf32> to memref<128xf32, strided<[1], offset: 128>>
    step.fill %a : memref<128xf32>
    step.copy %a to %first : memref<128xf32>, memref<128xf32>
    step.fill %second : memref<128xf32, strided<[1], offset: 128>>
    step.record 0
    step.wait 0 {stream = 1 : i64}
    step.all_reduce %whole {stream = 1 : i64} : memref<256xf32>
  }
}
