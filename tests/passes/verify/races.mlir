// RUN: nano-opt %s -nano-verify-races -split-input-file -verify-diagnostics

// What is right: a collective beside a computation, ordered where they meet; an update in place; parts that do not overlap.
module {
  step.arena 4096
  step.program @right {
    %g = step.buffer "g" {offset = 0 : i64} : memref<8xf32>
    %x = step.buffer "x" {offset = 256 : i64} : memref<2x8xf32>
    %row = step.view %x : memref<2x8xf32> to memref<8xf32, strided<[1]>>
    %other = step.view %x : memref<2x8xf32> to memref<8xf32, strided<[1], offset: 8>>
    step.fill %g : memref<8xf32>
    step.record 0
    step.wait 0 {stream = 1 : i64}
    step.all_reduce %g {stream = 1 : i64} : memref<8xf32>
    step.record 1 {stream = 1 : i64}
    step.fill %x : memref<2x8xf32>
    step.copy %row to %other : memref<8xf32, strided<[1]>>, memref<8xf32, strided<[1], offset: 8>>
    step.task ins(%x) outs(%x) : (memref<2x8xf32>) -> memref<2x8xf32> {
    ^bb0(%a: tensor<2x8xf32>):
      %e = nano.exp %a : tensor<2x8xf32>
      nano.yield %e : tensor<2x8xf32>
    }
    step.wait 1
    step.copy %g to %row : memref<8xf32>, memref<8xf32, strided<[1]>>
  }
}

// -----

// The event is missing.
module {
  step.arena 4096
  step.program @p {
    %g = step.buffer "g" {offset = 0 : i64} : memref<8xf32>
    %x = step.buffer "x" {offset = 256 : i64} : memref<8xf32>
    step.fill %g : memref<8xf32>
    step.record 0
    step.wait 0 {stream = 1 : i64}
    // expected-note @below {{the other command}}
    step.all_reduce %g {stream = 1 : i64} : memref<8xf32>
    // expected-error-re @below {{program @p: step.copy ({{.*}}races.mlir:42) on stream 0 reads buffer 'g' ({{.*}}races.mlir:34) while step.all_reduce ({{.*}}races.mlir:40) on stream 1 writes buffer 'g' ({{.*}}races.mlir:34) at the same place of the arena: no event orders them}}
    step.copy %g to %x : memref<8xf32>, memref<8xf32>
  }
}

// -----

// Two buffers of one place: y is written while the collective still works on x.
module {
  step.arena 4096
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<128xf32>
    %y = step.buffer "y" {offset = 256 : i64} : memref<128xf32>
    step.fill %x : memref<128xf32>
    step.record 0
    step.wait 0 {stream = 1 : i64}
    // expected-note @below {{the other command}}
    step.all_reduce %x {stream = 1 : i64} : memref<128xf32>
    // expected-error-re @below {{on stream 0 writes buffer 'y' {{.*}} while {{.*}} on stream 1 writes buffer 'x'}}
    step.fill %y : memref<128xf32>
  }
}

// -----

// A row is not in the other's way, a column is.
module {
  step.arena 4096
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<4x8xf32>
    %row = step.view %x : memref<4x8xf32> to memref<1x8xf32, strided<[8, 1], offset: 8>>
    %next = step.view %x : memref<4x8xf32> to memref<1x8xf32, strided<[8, 1], offset: 16>>
    %column = step.view %x : memref<4x8xf32> to memref<4x1xf32, strided<[8, 1], offset: 3>>
    // expected-note @below {{the other command}}
    step.all_reduce %row {stream = 1 : i64} : memref<1x8xf32, strided<[8, 1], offset: 8>>
    step.fill %next : memref<1x8xf32, strided<[8, 1], offset: 16>>
    // expected-error @below {{no event orders them}}
    step.task ins() outs(%column) : () -> memref<4x1xf32, strided<[8, 1], offset: 3>> {
      %c = nano.constant 0.0 : tensor<4x1xf32>
      nano.yield %c : tensor<4x1xf32>
    }
  }
}

// -----

// An output half over an input.
module {
  step.arena 4096
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<12xf32>
    %low = step.view %x : memref<12xf32> to memref<8xf32, strided<[1]>>
    %high = step.view %x : memref<12xf32> to memref<8xf32, strided<[1], offset: 4>>
    // expected-error-re @below {{writes buffer 'x' ({{.*}}) and reads buffer 'x' ({{.*}}) at bytes of the arena that are the same, and it is no update in place}}
    step.copy %low to %high : memref<8xf32, strided<[1]>>, memref<8xf32, strided<[1], offset: 4>>
  }
}

// -----

// A product over its own factor.
module {
  step.arena 4096
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8x8xf32>
    // expected-error @below {{it is no update in place}}
    step.matmul %x, %x into %x : memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>
  }
}

// -----

module {
  step.arena 4096
  step.program @p {
    %g = step.buffer "g" {offset = 0 : i64} : memref<8xf32>
    %h = step.buffer "h" {offset = 256 : i64} : memref<8xf32>
    step.all_reduce %g {stream = 1 : i64} : memref<8xf32>
    // expected-error-re @below {{on stream 2 and {{.*}} on stream 1 have no order, so ranks could enter these collectives in different ones}}
    step.all_reduce %h {stream = 2 : i64} : memref<8xf32>
  }
}

// -----

// Parts of a collective never lie over its whole.
module {
  step.arena 4096
  step.program @p {
    %part = step.buffer "part" {offset = 0 : i64} : memref<8xf32>
    %whole = step.buffer "whole" {offset = 0 : i64} : memref<32xf32>
    step.fill %part : memref<8xf32>
    // expected-error-re @below {{program @p: step.all_gather ({{.*}}) writes buffer 'whole' ({{.*}}) and reads buffer 'part' ({{.*}}) at bytes of the arena that are the same, and it is no update in place}}
    step.all_gather ins(%part) outs(%whole) parts 4 : (memref<8xf32>) -> memref<32xf32>
  }
}

// -----

module {
  step.arena 4096
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    step.fill %x : memref<8xf32>
    // expected-error-re @below {{program @p: step.reduce_scatter ({{.*}}) writes buffer 'x' ({{.*}}) and reads buffer 'x' ({{.*}}) at bytes of the arena that are the same, and it is no update in place}}
    step.reduce_scatter ins(%x) outs(%x) parts 1 : (memref<8xf32>) -> memref<8xf32>
  }
}

// -----

// A part is read while it is still gathered.
module {
  step.arena 4096
  step.program @p {
    %part = step.buffer "part" {offset = 0 : i64} : memref<8xf32>
    %whole = step.buffer "whole" {offset = 256 : i64} : memref<32xf32>
    %y = step.buffer "y" {offset = 512 : i64} : memref<32xf32>
    step.fill %part : memref<8xf32>
    step.record 0
    step.wait 0 {stream = 1 : i64}
    // expected-note @below {{the other command}}
    step.all_gather ins(%part) outs(%whole) parts 4 {stream = 1 : i64} : (memref<8xf32>) -> memref<32xf32>
    // expected-error-re @below {{program @p: step.copy ({{.*}}) on stream 0 reads buffer 'whole' ({{.*}}) while step.all_gather ({{.*}}) on stream 1 writes buffer 'whole'}}
    step.copy %whole to %y : memref<32xf32>, memref<32xf32>
  }
}

// -----

// Collectives of different kinds on two streams: one rank could enter the one first, another the other.
module {
  step.arena 4096
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    %part = step.buffer "part" {offset = 256 : i64} : memref<2xf32>
    %whole = step.buffer "whole" {offset = 512 : i64} : memref<8xf32>
    %own = step.buffer "own" {offset = 768 : i64} : memref<2xf32>
    step.fill %x : memref<8xf32>
    step.fill %part : memref<2xf32>
    step.record 0
    step.wait 0 {stream = 1 : i64}
    step.reduce_scatter ins(%x) outs(%own) parts 4 {stream = 1 : i64} : (memref<8xf32>) -> memref<2xf32>
    // expected-error-re @below {{program @p: step.all_gather ({{.*}}) on stream 0 and step.reduce_scatter ({{.*}}) on stream 1 have no order, so ranks could enter these collectives in different ones}}
    step.all_gather ins(%part) outs(%whole) parts 4 : (memref<2xf32>) -> memref<8xf32>
  }
}

// -----

// Three streams: a copy aside runs beside a collective and a computation; what an event of stream 1 tells of stream 2 counts.
module {
  step.arena 4096
  step.program @right {
    %g = step.buffer "g" {offset = 0 : i64} : memref<8xf32>
    %old = step.buffer "old" {offset = 256 : i64} : memref<8xf32>
    %x = step.buffer "x" {offset = 512 : i64} : memref<8xf32>
    step.fill %g : memref<8xf32>
    step.record 0
    step.wait 0 {stream = 2 : i64}
    step.copy %g to %old {stream = 2 : i64} : memref<8xf32>, memref<8xf32>
    step.record 1 {stream = 2 : i64}
    step.fill %x : memref<8xf32>
    step.wait 1 {stream = 1 : i64}
    step.all_reduce %g {stream = 1 : i64} : memref<8xf32>
    step.record 2 {stream = 1 : i64}
    step.wait 2
    step.copy %old to %x : memref<8xf32>, memref<8xf32>
  }
}

// -----

// The copy's event is missing: the computation overwrites what is being copied.
module {
  step.arena 4096
  step.program @p {
    %g = step.buffer "g" {offset = 0 : i64} : memref<8xf32>
    %old = step.buffer "old" {offset = 256 : i64} : memref<8xf32>
    step.fill %g : memref<8xf32>
    step.record 0
    step.wait 0 {stream = 2 : i64}
    // expected-note @below {{the other command}}
    step.copy %g to %old {stream = 2 : i64} : memref<8xf32>, memref<8xf32>
    // expected-error-re @below {{program @p: step.fill ({{.*}}) on stream 0 writes buffer 'g' ({{.*}}) while step.copy ({{.*}}) on stream 2 reads buffer 'g' ({{.*}}) at the same place of the arena: no event orders them}}
    step.fill %g : memref<8xf32>
  }
}

// -----

// The copy waits for the computation but not for the collective, which changes what it reads.
module {
  step.arena 4096
  step.program @p {
    %g = step.buffer "g" {offset = 0 : i64} : memref<8xf32>
    %old = step.buffer "old" {offset = 256 : i64} : memref<8xf32>
    step.fill %g : memref<8xf32>
    step.record 0
    step.wait 0 {stream = 1 : i64}
    // expected-note @below {{the other command}}
    step.all_reduce %g {stream = 1 : i64} : memref<8xf32>
    step.wait 0 {stream = 2 : i64}
    // expected-error-re @below {{program @p: step.copy ({{.*}}) on stream 2 reads buffer 'g' ({{.*}}) while step.all_reduce ({{.*}}) on stream 1 writes buffer 'g' ({{.*}}) at the same place of the arena: no event orders them}}
    step.copy %g to %old {stream = 2 : i64} : memref<8xf32>, memref<8xf32>
  }
}

// -----

// A kernel's product over what else it reads is an update in place, over its factor it is none; nor through another view of it.
module {
  step.arena 4096
  module @kernels {
    kernel.func @product(read memref<?xf32>, read_write memref<?xf32>, memref<0xi8>, index, index)
      attributes {iterations = 8 : i64, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 8, rows = 8, row_bytes = 32, box_columns = 8, box_rows = 8, swizzle_bytes = 32>]}
    kernel.func @over(read_write memref<?xf32>, read memref<?xf32>, memref<0xi8>, index, index)
      attributes {iterations = 8 : i64, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 8, rows = 8, row_bytes = 32, box_columns = 8, box_rows = 8, swizzle_bytes = 32>]}
  }
  step.program @right {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8x8xf32>
    %y = step.buffer "y" {offset = 256 : i64} : memref<8x8xf32>
    step.launch @product(%x, %y) : memref<8x8xf32>, memref<8x8xf32>
  }
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8x8xf32>
    %y = step.buffer "y" {offset = 256 : i64} : memref<8x8xf32>
    // expected-error-re @below {{step.launch @over ({{.*}}) writes buffer 'x' ({{.*}}) and reads buffer 'x' ({{.*}}) at bytes of the arena that are the same, and it is no update in place}}
    step.launch @over(%x, %y) : memref<8x8xf32>, memref<8x8xf32>
  }
}

// -----

module {
  step.arena 4096
  module @kernels {
    kernel.func @beside(read memref<?xf32>, write memref<?xf32>, memref<0xi8>, index, index)
      attributes {iterations = 8 : i64, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 8, rows = 8, row_bytes = 32, box_columns = 8, box_rows = 8, swizzle_bytes = 32>]}
  }
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8x8xf32>
    %v = step.view %x : memref<8x8xf32> to memref<64xf32>
    // expected-error-re @below {{step.launch @beside ({{.*}}) writes buffer 'x' ({{.*}}) and reads buffer 'x' ({{.*}}) at bytes of the arena that are the same, and it is no update in place}}
    step.launch @beside(%x, %v) : memref<8x8xf32>, memref<64xf32>
  }
}

// -----

// A scan's blocks read what others write: no place for its result.
module {
  step.arena 4096
  module @kernels {
    kernel.func @scan(read memref<8xi32>, write memref<8xi32>, memref<0xi8>, index, index)
      attributes {instantiates = #kernel.scan<size = 8, maximum = false, x = 0, y = [1]>, iterations = 1 : i64}
  }
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xi32>
    // expected-error-re @below {{step.launch @scan ({{.*}}) writes buffer 'x' ({{.*}}) and reads buffer 'x' ({{.*}}) at bytes of the arena that are the same, and it is no update in place}}
    step.launch @scan(%x, %x) : memref<8xi32>, memref<8xi32>
  }
}

// -----

// The same operand, read and written.
module {
  step.arena 4096
  module @kernels {
    kernel.func @scan(read_write memref<8xi32>, memref<0xi8>, index, index)
      attributes {instantiates = #kernel.scan<size = 8, maximum = false, x = 0, y = [0]>, iterations = 1 : i64}
  }
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xi32>
    // expected-error @below {{it is no update in place}}
    step.launch @scan(%x) : memref<8xi32>
  }
}

// -----

// Segments of one launch run side by side: what one reads, another must not write.
module {
  step.arena 4096
  module @kernels {
    kernel.func @k(read memref<?xf32>, write memref<?xf32>, memref<0xi8>, index, index) attributes {iterations = 8 : i64}
  }
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    %y = step.buffer "y" {offset = 256 : i64} : memref<8xf32>
    %z = step.buffer "z" {offset = 512 : i64} : memref<8xf32>
    step.fill %x : memref<8xf32>
    step.fill %z : memref<8xf32>
    // In place, each segment over its own.
    step.launch @k(%x, %x, %z, %z) {segments = 2 : i64} : memref<8xf32>, memref<8xf32>, memref<8xf32>, memref<8xf32>
    // expected-error @below {{writes buffer 'x'}}
    step.launch @k(%x, %y, %z, %x) {segments = 2 : i64} : memref<8xf32>, memref<8xf32>, memref<8xf32>, memref<8xf32>
  }
}

// -----

// A value goes to the host and comes back, each on a stream of its own: what comes behind waits.
module {
  step.arena 512 host 256
  step.program @right {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    %y = step.buffer "y" {offset = 0 : i64} : memref<8xf32>
    %h = step.buffer "h" {host, offset = 512 : i64} : memref<8xf32>
    %z = step.buffer "z" {offset = 256 : i64} : memref<8xf32>
    step.fill %x : memref<8xf32>
    step.record 0
    step.wait 0 {stream = 3 : i64}
    step.copy %x to %h {stream = 3 : i64} : memref<8xf32>, memref<8xf32>
    step.record 1 {stream = 3 : i64}
    step.wait 1
    step.fill %y : memref<8xf32>
    step.record 2
    step.wait 2 {stream = 4 : i64}
    step.copy %h to %z {stream = 4 : i64} : memref<8xf32>, memref<8xf32>
    step.record 3 {stream = 4 : i64}
    step.wait 3
    step.copy %z to %y : memref<8xf32>, memref<8xf32>
  }
}

// -----

// Its bytes are taken before it has left.
module {
  step.arena 512 host 256
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    %y = step.buffer "y" {offset = 0 : i64} : memref<8xf32>
    %h = step.buffer "h" {host, offset = 512 : i64} : memref<8xf32>
    step.fill %x : memref<8xf32>
    step.record 0
    step.wait 0 {stream = 3 : i64}
    // expected-note @below {{the other command}}
    step.copy %x to %h {stream = 3 : i64} : memref<8xf32>, memref<8xf32>
    // expected-error-re @below {{on stream 0 writes buffer 'y' {{.*}} while step.copy {{.*}} on stream 3 reads buffer 'x'}}
    step.fill %y : memref<8xf32>
  }
}

// -----

// It is read before it is back.
module {
  step.arena 512 host 256
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    %h = step.buffer "h" {host, offset = 512 : i64} : memref<8xf32>
    %z = step.buffer "z" {offset = 256 : i64} : memref<8xf32>
    step.fill %x : memref<8xf32>
    step.copy %x to %h : memref<8xf32>, memref<8xf32>
    step.record 0
    step.wait 0 {stream = 4 : i64}
    // expected-note @below {{the other command}}
    step.copy %h to %z {stream = 4 : i64} : memref<8xf32>, memref<8xf32>
    // expected-error-re @below {{on stream 0 reads buffer 'z' {{.*}} while step.copy {{.*}} on stream 4 writes buffer 'z'}}
    step.copy %z to %x : memref<8xf32>, memref<8xf32>
  }
}

// -----

// It comes back while it leaves.
module {
  step.arena 512 host 256
  step.program @p {
    %x = step.buffer "x" {offset = 0 : i64} : memref<8xf32>
    %h = step.buffer "h" {host, offset = 512 : i64} : memref<8xf32>
    %z = step.buffer "z" {offset = 256 : i64} : memref<8xf32>
    step.fill %x : memref<8xf32>
    step.record 0
    step.wait 0 {stream = 3 : i64}
    // expected-note @below {{the other command}}
    step.copy %x to %h {stream = 3 : i64} : memref<8xf32>, memref<8xf32>
    step.wait 0 {stream = 4 : i64}
    // expected-error-re @below {{on stream 4 reads buffer 'h' {{.*}} while step.copy {{.*}} on stream 3 writes buffer 'h'}}
    step.copy %h to %z {stream = 4 : i64} : memref<8xf32>, memref<8xf32>
  }
}
