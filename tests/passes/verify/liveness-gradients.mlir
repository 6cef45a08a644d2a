// RUN: nano-opt %s -nano-verify-liveness -split-input-file -verify-diagnostics

// What is right: a buffer in the bytes of a gradient, before the step writes it and after the step has read it, and in a program between steps.
module {
  step.arena 2048
  nano.state @grad.w : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  step.program @last attributes {role = "last"} {
    %g = step.state @grad.w : memref<8xf32>
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    %y = step.buffer "y" {offset = 256 : i64} : memref<8xf32>
    step.fill %x : memref<8xf32>
    step.copy %x to %y : memref<8xf32>, memref<8xf32>
    step.copy %y to %g : memref<8xf32>, memref<8xf32>
  }
  step.program @update attributes {role = "update"} {
    %g = step.state @grad.w : memref<8xf32>
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    %y = step.buffer "y" {offset = 256 : i64} : memref<8xf32>
    step.copy %g to %y : memref<8xf32>, memref<8xf32>
    step.copy %y to %x : memref<8xf32>, memref<8xf32>
  }
  step.program @validate attributes {role = "validate"} {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    step.fill %x : memref<8xf32>
  }
}

// -----

// Within a program: it writes the gradient, and another buffer over it, before it reads it.
module {
  step.arena 2048
  nano.state @grad.w : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  step.program @last attributes {role = "last"} {
    %g = step.state @grad.w : memref<8xf32>
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    %y = step.buffer "y" {offset = 256 : i64} : memref<8xf32>
    step.fill %g : memref<8xf32>
    // expected-note @below {{the command that overwrites it}}
    step.fill %x : memref<8xf32>
    // expected-error-re @below {{program @last: step.copy ({{.*}}) reads byte 0 of state 'grad.w' ({{.*}}), which step.fill ({{.*}}) has overwritten: it writes buffer 'x' ({{.*}}) to the same place of the arena}}
    step.copy %g to %y : memref<8xf32>, memref<8xf32>
  }
}

// -----

// The end of `last` takes bytes that `update` reads.
module {
  step.arena 2048
  nano.state @grad.w : tensor<128xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  step.program @last attributes {role = "last"} {
    %g = step.state @grad.w : memref<128xf32>
    %x = step.buffer "x" {offset = 256 : i64} : memref<8xf32>
    step.fill %g : memref<128xf32>
    step.fill %x : memref<8xf32>
  }
  step.program @update attributes {role = "update"} {
    %g = step.state @grad.w : memref<128xf32>
    %y = step.buffer "y" {offset = 512 : i64} : memref<128xf32>
    // expected-error-re @below {{program @update: step.copy ({{.*}}) reads byte 256 of state 'grad.w' ({{.*}}) as it was before, which program @last overwrites}}
    step.copy %g to %y : memref<128xf32>, memref<128xf32>
  }
}

// -----

// A gradient that is added up over two steps: what runs between them must leave it.
module {
  step.arena 2048
  nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "sgd", states = [], every = 2 : i64}
  nano.scalar @lr : f32 attributes {offset = 1024 : i64} {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.state @grad.w : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  step.program @last_0 attributes {phases = array<i64: 0>, role = "last"} {
    %g = step.state @grad.w : memref<8xf32>
    step.fill %g : memref<8xf32>
  }
  step.program @last_1 attributes {phases = array<i64: 1>, role = "last"} {
    %g = step.state @grad.w : memref<8xf32>
    %y = step.buffer "y" {offset = 256 : i64} : memref<8xf32>
    // expected-error-re @below {{program @last_1: step.copy ({{.*}}) reads byte 0 of state 'grad.w' ({{.*}}) as it was before, which program @validate overwrites}}
    step.copy %g to %y : memref<8xf32>, memref<8xf32>
  }
  step.program @validate attributes {role = "validate"} {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    step.fill %x : memref<8xf32>
  }
}

// -----

// Micro-batches that add up: what the last one does at first must leave what the others have added.
module {
  step.arena 2048
  nano.state @grad.w : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  step.program @first attributes {role = "first"} {
    %g = step.state @grad.w : memref<8xf32>
    step.fill %g : memref<8xf32>
  }
  step.program @next attributes {role = "next"} {
    %g = step.state @grad.w : memref<8xf32>
    %x = step.buffer "x" {offset = 256 : i64} : memref<8xf32>
    %y = step.buffer "y" {offset = 0 : i64} : memref<8xf32>
    // expected-error-re @below {{program @next: step.copy ({{.*}}) reads byte 0 of state 'grad.w' ({{.*}}) as it was before, which program @next overwrites}}
    step.copy %g to %x : memref<8xf32>, memref<8xf32>
    step.fill %y : memref<8xf32>
  }
}

// -----

// A program whose large output lies over a gradient.
module {
  step.arena 2048
  nano.state @grad.w : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  step.input @logits : memref<8xf32> {output, offset = 0 : i64}
  step.program @generate attributes {role = "generate"} {
    %logits = step.state @logits : memref<8xf32>
    step.fill %logits : memref<8xf32>
  }
  step.program @event attributes {role = "event"} {
    %g = step.state @grad.w : memref<8xf32>
    %x = step.buffer "x" {offset = 256 : i64} : memref<8xf32>
    // expected-error-re @below {{program @event: step.copy ({{.*}}) reads byte 0 of state 'grad.w' ({{.*}}) as it was before, which program @generate overwrites}}
    step.copy %g to %x : memref<8xf32>, memref<8xf32>
  }
}

// -----

// Two gradients in the same bytes, of which a program needs one after the other.
module {
  step.arena 2048
  nano.state @grad.bank : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  nano.state @grad.w : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  step.program @last attributes {role = "last"} {
    %g = step.state @grad.w : memref<8xf32>
    %bank = step.state @grad.bank : memref<8xf32>
    %x = step.buffer "x" {offset = 256 : i64} : memref<8xf32>
    step.fill %g : memref<8xf32>
    step.copy %g to %x : memref<8xf32>, memref<8xf32>
    step.copy %x to %bank : memref<8xf32>, memref<8xf32>
  }
  step.program @update attributes {role = "update"} {
    %bank = step.state @grad.bank : memref<8xf32>
    %x = step.buffer "x" {offset = 256 : i64} : memref<8xf32>
    step.copy %bank to %x : memref<8xf32>, memref<8xf32>
  }
}

// -----

// Two gradients in the same bytes, of which a later program needs both.
module {
  step.arena 2048
  nano.state @grad.bank : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  nano.state @grad.w : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  step.program @last attributes {role = "last"} {
    %g = step.state @grad.w : memref<8xf32>
    %bank = step.state @grad.bank : memref<8xf32>
    step.fill %g : memref<8xf32>
    step.fill %bank : memref<8xf32>
  }
  step.program @update attributes {role = "update"} {
    %g = step.state @grad.w : memref<8xf32>
    %x = step.buffer "x" {offset = 256 : i64} : memref<8xf32>
    // expected-error-re @below {{program @update: step.copy ({{.*}}) reads byte 0 of state 'grad.w' ({{.*}}) as it was before, which program @last overwrites}}
    step.copy %g to %x : memref<8xf32>, memref<8xf32>
  }
}

// -----

// What two gradients start with cannot both be there.
module {
  step.arena 2048
  nano.state @grad.a : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  nano.state @grad.b : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  step.program @last attributes {role = "last"} {
    %a = step.state @grad.a : memref<8xf32>
    %x = step.buffer "x" {offset = 256 : i64} : memref<8xf32>
    // expected-error-re @below {{reads byte 0 of state 'grad.a' ({{.*}}) as it was before, which nothing has written: others lie there too that live from step to step}}
    step.copy %a to %x : memref<8xf32>, memref<8xf32>
  }
}

// -----

// Half of a gradient is lost: the other half may be read.
module {
  step.arena 2048
  nano.state @grad.w : tensor<128xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  step.program @last attributes {role = "last"} {
    %g = step.state @grad.w : memref<128xf32>
    %x = step.buffer "x" {offset = 256 : i64} : memref<64xf32>
    step.fill %g : memref<128xf32>
    step.fill %x : memref<64xf32>
  }
  step.program @update attributes {role = "update"} {
    %g = step.state @grad.w : memref<128xf32>
    %half = step.view %g : memref<128xf32> to memref<64xf32>
    %y = step.buffer "y" {offset = 512 : i64} : memref<64xf32>
    step.copy %half to %y : memref<64xf32>, memref<64xf32>
  }
}

// -----

// A gradient is written over what the same program keeps for the host.
module {
  step.arena 2048
  nano.state @grad.w : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  step.input @logits : memref<8xf32> {output, offset = 0 : i64}
  step.program @last attributes {role = "last"} {
    %g = step.state @grad.w : memref<8xf32>
    %logits = step.state @logits : memref<8xf32>
    step.fill %logits : memref<8xf32>
    // expected-error-re @below {{program @last: step.fill ({{.*}}) writes state 'grad.w' ({{.*}}) over output 'logits' ({{.*}}), which lives from step to step}}
    step.fill %g : memref<8xf32>
  }
}
