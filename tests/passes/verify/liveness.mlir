// RUN: nano-opt %s -nano-verify-liveness -split-input-file -verify-diagnostics

// What is right: parts of a buffer written one by one, bytes used again after the last read, an output written whole.
module {
  step.arena 2048
  step.input @out : memref<8x4xf32> {output, offset = 0 : i64}
  step.program @right {
    %out = step.state @out : memref<8x4xf32>
    %x = step.buffer "x" {offset = 512 : i64} : memref<8x2xf32>
    %y = step.buffer "y" {offset = 512 : i64} : memref<8x2xf32>
    %left = step.view %out : memref<8x4xf32> to memref<8x2xf32, strided<[4, 1]>>
    %right = step.view %out : memref<8x4xf32> to memref<8x2xf32, strided<[4, 1], offset: 2>>
    step.fill %x : memref<8x2xf32>
    step.task ins(%x) outs(%left) : (memref<8x2xf32>) -> memref<8x2xf32, strided<[4, 1]>> {
    ^bb0(%a: tensor<8x2xf32>):
      nano.yield %a : tensor<8x2xf32>
    }
    step.fill %y : memref<8x2xf32>
    step.task ins(%y) outs(%right) : (memref<8x2xf32>) -> memref<8x2xf32, strided<[4, 1], offset: 2>> {
    ^bb0(%a: tensor<8x2xf32>):
      nano.yield %a : tensor<8x2xf32>
    }
  }
}

// -----

module {
  step.arena 2048
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    %y = step.buffer "y" {offset = 256 : i64} : memref<8xf32>
    // expected-error-re @below {{program @p: step.copy ({{.*}}liveness.mlir:34) reads byte 0 of buffer 'x' ({{.*}}liveness.mlir:31), which no command has written}}
    step.copy %x to %y : memref<8xf32>, memref<8xf32>
  }
}

// -----

// One element of the row is missing.
module {
  step.arena 2048
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<2x4xf32>
    %y = step.buffer "y" {offset = 256 : i64} : memref<2x4xf32>
    %part = step.view %x : memref<2x4xf32> to memref<2x3xf32, strided<[4, 1]>>
    step.task ins() outs(%part) : () -> memref<2x3xf32, strided<[4, 1]>> {
      %c = nano.constant 0.0 : tensor<2x3xf32>
      nano.yield %c : tensor<2x3xf32>
    }
    // expected-error @below {{reads byte 12 of buffer 'x'}}
    step.copy %x to %y : memref<2x4xf32>, memref<2x4xf32>
  }
}

// -----

// Two live buffers overlap: the second takes the first's last bytes.
module {
  step.arena 2048
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<128xf32>
    %y = step.buffer "y" {offset = 256 : i64} : memref<128xf32>
    %z = step.buffer "z" {offset = 1024 : i64} : memref<128xf32>
    step.fill %x : memref<128xf32>
    // expected-note @below {{the command that overwrites it}}
    step.fill %y : memref<128xf32>
    // expected-error-re @below {{step.copy ({{.*}}) reads byte 256 of buffer 'x' ({{.*}}), which step.fill ({{.*}}) has overwritten: it writes buffer 'y' ({{.*}}) to the same place of the arena}}
    step.copy %x to %z : memref<128xf32>, memref<128xf32>
  }
}

// -----

module {
  step.arena 2048
  nano.state @w : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    // expected-error-re @below {{writes buffer 'x' ({{.*}}) over state 'w' ({{.*}}), which lives from step to step}}
    step.fill %x : memref<8xf32>
  }
}

// -----

module {
  step.arena 2048
  step.input @loss : memref<2xf32> {output, offset = 0 : i64}
  // expected-error @below {{program @p: the host reads byte 4 of output 'loss'}}
  step.program @p {
    %loss = step.state @loss : memref<2xf32>
    %first = step.view %loss : memref<2xf32> to memref<1xf32, strided<[1]>>
    step.fill %first : memref<1xf32, strided<[1]>>
  }
}

// -----

module {
  step.arena 2048
  nano.state @v : tensor<128xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, offset = 0 : i64}
  // expected-error-re @below {{state 'w' ({{.*}}) overlaps state 'v' ({{.*}}) in the arena, and both live from step to step}}
  nano.state @w : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, offset = 256 : i64}
}

// -----

// What one program alone writes for the host, others may use; not so the program itself.
module {
  step.arena 2048
  step.input @logits : memref<8xf32> {output, offset = 0 : i64}
  step.program @other {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    step.fill %x : memref<8xf32>
  }
  step.program @generate {
    %logits = step.state @logits : memref<8xf32>
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    // expected-error-re @below {{program @generate: step.fill ({{.*}}) writes buffer 'x' ({{.*}}) over output 'logits' ({{.*}}), which lives from step to step}}
    step.fill %x : memref<8xf32>
    step.fill %logits : memref<8xf32>
  }
}

// -----

module {
  step.arena 2048
  step.input @loss : memref<8xf32> {output, offset = 0 : i64}
  step.program @first {
    %loss = step.state @loss : memref<8xf32>
    step.fill %loss : memref<8xf32>
  }
  step.program @last {
    %loss = step.state @loss : memref<8xf32>
    step.fill %loss : memref<8xf32>
  }
  step.program @update {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    // expected-error-re @below {{program @update: step.fill ({{.*}}) writes buffer 'x' ({{.*}}) over output 'loss' ({{.*}}), which lives from step to step}}
    step.fill %x : memref<8xf32>
  }
}

// -----

module {
  step.arena 2048
  step.input @logits : memref<128xf32> {output, offset = 0 : i64}
  // expected-error-re @below {{output 'loss' ({{.*}}) overlaps output 'logits' ({{.*}}) in the arena, and both live from step to step}}
  step.input @loss : memref<8xf32> {output, offset = 256 : i64}
  step.program @generate {
    %logits = step.state @logits : memref<128xf32>
    %loss = step.state @loss : memref<8xf32>
    step.fill %logits : memref<128xf32>
    step.fill %loss : memref<8xf32>
  }
}

// -----

module {
  step.arena 2048
  step.program @p {
    // expected-error @below {{has no offset in the arena: nano-plan-memory runs first}}
    %x = step.buffer "x" : memref<8xf32>
    step.fill %x : memref<8xf32>
  }
}

// -----

module {
  step.arena 256
  step.program @p {
    // expected-error @below {{ends at byte 288, beyond the arena of 256 bytes}}
    %x = step.buffer "x" {offset = 256 : i64} : memref<8xf32>
    step.fill %x : memref<8xf32>
  }
}

// -----

// An input that lies behind all memory.
module {
  step.arena 2048
  // expected-error @below {{ends at byte 2080, beyond the arena of 2048 bytes}}
  step.input @in : memref<8xf32> {offset = 2048 : i64}
}

// -----

// A floor is the least that the arena could be.
module {
  // expected-error @below {{of 2048 bytes has the floor 2049}}
  step.arena 2048 floor 2049
}

// -----

// To the host's memory and back: y's bytes are free meanwhile, and what comes back is what left.
module {
  step.arena 512 host 512
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    %y = step.buffer "y" {offset = 256 : i64} : memref<8xf32>
    %h = step.buffer "h" {host, offset = 512 : i64} : memref<8xf32>
    %z = step.buffer "z" {offset = 0 : i64} : memref<8xf32>
    step.fill %x : memref<8xf32>
    step.copy %x to %h : memref<8xf32>, memref<8xf32>
    step.fill %z : memref<8xf32>
    step.copy %h to %y : memref<8xf32>, memref<8xf32>
    step.copy %y to %z : memref<8xf32>, memref<8xf32>
  }
}

// -----

// Other bytes took their place on the host.
module {
  step.arena 256 host 512
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    %h = step.buffer "h" {host, offset = 256 : i64} : memref<8xf32>
    %g = step.buffer "g" {host, offset = 256 : i64} : memref<8xf32>
    step.fill %x : memref<8xf32>
    step.copy %x to %h : memref<8xf32>, memref<8xf32>
    // expected-note @below {{the command that overwrites it}}
    step.copy %x to %g : memref<8xf32>, memref<8xf32>
    // expected-error-re @below {{program @p: step.copy {{.*}} reads byte 0 of buffer 'h' {{.*}}, which step.copy {{.*}} has overwritten: it writes buffer 'g'}}
    step.copy %h to %x : memref<8xf32>, memref<8xf32>
  }
}

// -----

// It comes back before it has left.
module {
  step.arena 256 host 256
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    %h = step.buffer "h" {host, offset = 256 : i64} : memref<8xf32>
    // expected-error-re @below {{reads byte 0 of buffer 'h' {{.*}}, which no command has written}}
    step.copy %h to %x : memref<8xf32>, memref<8xf32>
  }
}

// -----

module {
  step.arena 256 host 256
  step.program @p {
    // expected-error @below {{ends at byte 544, beyond the host's memory of 256 bytes}}
    %h = step.buffer "h" {host, offset = 512 : i64} : memref<8xf32>
  }
}

// -----

module {
  step.arena 512 host 256
  step.program @p {
    // expected-error @below {{lies in the host's memory, and begins at byte 256, before the arena's end at byte 512}}
    %h = step.buffer "h" {host, offset = 256 : i64} : memref<8xf32>
  }
}

// -----

// What lies in the arena reaches no byte of the host's.
module {
  step.arena 512 host 256
  step.program @p {
    // expected-error @below {{ends at byte 544, beyond the arena of 512 bytes}}
    %x = step.buffer "x" {offset = 512 : i64} : memref<8xf32>
  }
}
