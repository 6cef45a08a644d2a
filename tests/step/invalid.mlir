// RUN: nano-opt %s -split-input-file -verify-diagnostics

step.program @p {
  // expected-error @below {{is neither a buffer, a view nor a command of the step dialect}}
  %c = arith.constant 0 : i32
}

// -----

step.program @p {
  // expected-note @below {{the first time here}}
  step.record 3
  // expected-error @below {{event 3 is recorded twice}}
  step.record 3
}

// -----

step.program @p {
  // expected-error @below {{no earlier command records event 0}}
  step.wait 0
  step.record 0
}

// -----

step.program @p {
  // expected-error @below {{event -1 is negative}}
  step.record -1
}

// -----

step.program @p {
  // expected-error @below {{offset 100 is not a non-negative multiple of 256}}
  %x = step.buffer "x" {offset = 100 : i64} : memref<8xf32>
}

// -----

step.program @p {
  // expected-error @below {{is not contiguous from offset 0}}
  %x = step.buffer "x" : memref<8xf32, strided<[2]>>
}

// -----

step.program @p {
  // expected-error @below {{must be statically shaped memref of}}
  %x = step.buffer "x" : memref<8xf64>
}

// -----

// expected-error @below {{type 'tensor<8xf32>' is not a memref of static shape}}
step.input @x : tensor<8xf32>

// -----

step.program @p {
  // expected-error @below {{no state, scalar or input is called @w}}
  %w = step.state @w : memref<8xf32>
}

// -----

step.input @x : memref<8xf32>
step.program @p {
  // expected-error @below {{type 'memref<4xf32>' is not that of @x, which is 'memref<8xf32>'}}
  %x = step.state @x : memref<4xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  // expected-error @below {{element type 'i32' is not the buffer's, 'f32'}}
  %y = step.view %x : memref<8xf32> to memref<8xi32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  // expected-error @below {{elements 4 to 8 are not all inside the buffer, which has 8}}
  %y = step.view %x : memref<8xf32> to memref<5xf32, strided<[1], offset: 4>>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  // expected-error @below {{names an element more than once}}
  %y = step.view %x : memref<8xf32> to memref<2x4xf32, strided<[2, 1]>>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  // expected-error @below {{is not strided with static strides and offset}}
  %y = step.view %x : memref<8xf32> to memref<4xf32, strided<[?]>>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  // expected-error @below {{block argument 0 is 'tensor<4xf32>', but input 0 is 'memref<8xf32>'}}
  step.task ins(%x) outs(%x) : (memref<8xf32>) -> memref<8xf32> {
  ^bb0(%a: tensor<4xf32>):
    nano.yield %a : tensor<4xf32>
  }
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  // expected-error @below {{has 1 outputs, but yields 0 values}}
  step.task ins(%x) outs(%x) : (memref<8xf32>) -> memref<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    nano.yield
  }
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  // expected-error @below {{no kernel of module @kernels is called @k}}
  step.launch @k(%x) : memref<8xf32>
}

// -----

module @kernels {
  kernel.func @k(write memref<8xf32>, memref<0xi8>, index, index) attributes {iterations = 1 : i64}
}
step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  // expected-error @below {{has 3 buffers, but 2 sets of the 1 arguments of @k}}
  step.launch @k(%x, %x, %x) {segments = 2 : i64} : memref<8xf32>, memref<8xf32>, memref<8xf32>
}

// -----

module @kernels {
  kernel.func @k(write memref<8xf32>, memref<0xi8>, index, index) attributes {iterations = 1 : i64}
}
step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  // expected-error @below {{has 1 sets of operands, but iterations for 2}}
  step.launch @k(%x) {iterations = array<i64: 1, 2>} : memref<8xf32>
}

// -----

module @kernels {
  kernel.func @k(write memref<8xf32>, memref<0xi8>, index, index)
}
step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  // expected-error @below {{neither it nor its kernel says how many iterations there are}}
  step.launch @k(%x) : memref<8xf32>
}

// -----

module @kernels {
  kernel.func @k(write memref<8xf32>, memref<0xi8>, index, index) attributes {iterations = 1 : i64}
}
step.program @p {
  %x = step.buffer "x" : memref<4xf32>
  // expected-error @below {{buffer 0 is 'memref<4xf32>', but argument 0 of @k is 'memref<8xf32>'}}
  step.launch @k(%x) : memref<4xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  // expected-error @below {{a is 'memref<8xf32>', which is no batch of row-major matrices at one distance}}
  step.matmul %x, %x into %x : memref<8xf32>, memref<8xf32>, memref<8xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8x4xf32>
  %y = step.buffer "y" : memref<8x8xf32>
  // expected-error @below {{inner dimensions differ: 4 and 8}}
  step.matmul %x, %x into %y : memref<8x4xf32>, memref<8x4xf32>, memref<8x8xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8x4xf32>
  %y = step.buffer "y" : memref<4x4xf32>
  // expected-error @below {{the result is 4×4, not 8×8}}
  step.matmul %x, %x into %y {transpose_b} : memref<8x4xf32>, memref<8x4xf32>, memref<4x4xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<2x8x4xf32>
  %w = step.buffer "w" : memref<8x4xf32>
  %y = step.buffer "y" : memref<2x8x8xf32>
  // expected-error @below {{batch sizes differ: 2, 1 and 2}}
  step.matmul %x, %w into %y {transpose_b} : memref<2x8x4xf32>, memref<8x4xf32>, memref<2x8x8xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8x4xf32>
  %y = step.buffer "y" : memref<8x8xf32>
  // expected-error @below {{d is 'memref<8x4xf32>', which is not the result's shape and element type}}
  step.matmul %x, %x add %x into %y {transpose_b} : memref<8x4xf32>, memref<8x4xf32>, memref<8x4xf32>, memref<8x8xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8x4xf32>
  %w = step.buffer "w" : memref<8x4xbf16>
  %y = step.buffer "y" : memref<8x8xf32>
  // expected-error @below {{operands of element types 'f32' and 'bf16': both f32, or both bf16}}
  step.matmul %x, %w into %y {transpose_b} : memref<8x4xf32>, memref<8x4xbf16>, memref<8x8xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8x4xf32>
  %y = step.buffer "y" : memref<8x8xi32>
  // expected-error @below {{result of element type 'i32': f32 or bf16}}
  step.matmul %x, %x into %y {transpose_b} : memref<8x4xf32>, memref<8x4xf32>, memref<8x8xi32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xi32>
  // expected-error @below {{buffer of element type 'i32': f32 or bf16}}
  step.all_reduce %x : memref<8xi32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  %y = step.buffer "y" : memref<8xbf16>
  // expected-error @below {{buffers have different element types}}
  step.all_reduce %x, %y : memref<8xf32>, memref<8xbf16>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  // expected-error @below {{ranks exchange a sum or a maximum, not a log-sum-exp}}
  step.all_reduce %x by logsumexp : memref<8xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  %y = step.buffer "y" : memref<2xf32>
  // expected-error @below {{has 3 buffers, which are no pairs of source and target}}
  step.reduce_scatter ins(%x, %x) outs(%y) parts 4 : (memref<8xf32>, memref<8xf32>) -> memref<2xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  %y = step.buffer "y" : memref<2xf32>
  // expected-error @below {{of 2 parts: 'memref<2xf32>' is not one of 'memref<8xf32>'}}
  step.all_gather ins(%y) outs(%x) parts 2 : (memref<2xf32>) -> memref<8xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  %y = step.buffer "y" : memref<2xbf16>
  // expected-error @below {{buffers have different element types}}
  step.shard ins(%x) outs(%y) parts 4 : (memref<8xf32>) -> memref<2xbf16>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8x4xf32>
  %y = step.view %x : memref<8x4xf32> to memref<8x2xf32, strided<[4, 1]>>
  %z = step.buffer "z" : memref<4x2xf32>
  // expected-error-re @below {{{{.*}}contiguous{{.*}}}}
  step.reduce_scatter ins(%y) outs(%z) parts 2 over group : (memref<8x2xf32, strided<[4, 1]>>) -> memref<4x2xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8x4xf32>
  %y = step.view %x : memref<8x4xf32> to memref<8x2xf32, strided<[4, 1]>>
  // expected-error @below {{is not contiguous}}
  step.fill %y : memref<8x2xf32, strided<[4, 1]>>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  %y = step.buffer "y" : memref<4xf32>
  // expected-error @below {{differ in element type or number of elements}}
  step.copy %x to %y : memref<8xf32>, memref<4xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" {host} : memref<8xf32>
  %y = step.buffer "y" {host} : memref<8xf32>
  // expected-error @below {{goes from the host's memory to itself}}
  step.copy %x to %y : memref<8xf32>, memref<8xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" {host} : memref<2x8xf32>
  %row = step.view %x : memref<2x8xf32> to memref<8xf32, strided<[1]>>
  // expected-error @below {{touches buffer 'x' in the host's memory, which step.copy alone reaches}}
  step.fill %row : memref<8xf32, strided<[1]>>
}

// -----

module @kernels {
  kernel.func @gram(read memref<8x8xbf16>, write memref<8x8xbf16>, memref<0xi8>, index, index) attributes {iterations = 1 : i64}
}
step.program @two_factors {
  %x = step.buffer "x" : memref<8x8xbf16>
  %w = step.buffer "w" : memref<8x8xbf16>
  %c = step.buffer "c" : memref<8x8xbf16>
  // expected-error @below {{has candidates, which take one factor, and nothing in the result's place}}
  step.matmul %x, %w into %c {candidates = [@gram], transpose_b} : memref<8x8xbf16>, memref<8x8xbf16>, memref<8x8xbf16>
}

// -----

module @kernels {
  kernel.func @gram(read memref<8x8xbf16>, read memref<8x8xbf16>, write memref<8x8xbf16>, memref<0xi8>, index, index) attributes {iterations = 1 : i64}
}
step.program @no_addend {
  %x = step.buffer "x" : memref<8x8xbf16>
  %c = step.buffer "c" : memref<8x8xbf16>
  // expected-error @below {{candidate @gram takes 3 buffers, of 2}}
  step.matmul %x, %x into %c {candidates = [@gram], transpose_b} : memref<8x8xbf16>, memref<8x8xbf16>, memref<8x8xbf16>
}

// -----

module @kernels {
  kernel.func @exp(read memref<8xf32>, write memref<8xf32>, memref<0xi8>, index, index) attributes {iterations = 8 : i64}
  kernel.func @update(read memref<8xf32>, read_write memref<8xf32>, memref<0xi8>, index, index) attributes {iterations = 8 : i64}
}
step.program @does_more {
  %x = step.buffer "x" : memref<8xf32>
  %y = step.buffer "y" : memref<8xf32>
  // expected-error @below {{candidate @update takes another buffer than the command's at 1, or does something else with it}}
  step.launch @exp(%x, %y) {candidates = [@update]} : memref<8xf32>, memref<8xf32>
}

// -----

module @kernels {
  kernel.func @exp(read memref<8xf32>, write memref<8xf32>, memref<0xi8>, index, index) attributes {iterations = 8 : i64}
}
step.program @unknown {
  %x = step.buffer "x" : memref<8xf32>
  %y = step.buffer "y" : memref<8xf32>
  // expected-error @below {{no kernel of module @kernels is called @none, a candidate}}
  step.launch @exp(%x, %y) {candidates = [@none]} : memref<8xf32>, memref<8xf32>
}

// -----

module @kernels {
  kernel.func @exp(read memref<8xf32>, write memref<8xf32>, memref<0xi8>, index, index) attributes {iterations = 8 : i64}
  kernel.func @other(read memref<8xf32>, write memref<8xf32>, memref<0xi8>, index, index)
}
step.program @no_iterations {
  %x = step.buffer "x" : memref<8xf32>
  %y = step.buffer "y" : memref<8xf32>
  // expected-error @below {{candidate @other does not say how many iterations it has}}
  step.launch @exp(%x, %y) {candidates = [@other]} : memref<8xf32>, memref<8xf32>
}

// -----

module @kernels {
  kernel.func @exp(read memref<8xf32>, write memref<8xf32>, memref<0xi8>, index, index) attributes {iterations = 8 : i64}
}
step.program @two_sets {
  %x = step.buffer "x" : memref<8xf32>
  %y = step.buffer "y" : memref<8xf32>
  // expected-error @below {{has candidates and several sets of operands}}
  step.launch @exp(%x, %y, %x, %y) {candidates = [@exp], segments = 2 : i64} : memref<8xf32>, memref<8xf32>, memref<8xf32>, memref<8xf32>
}

// -----

step.program @p {
  %x = step.buffer "x" : memref<8xf32>
  // expected-error @below {{stream 64 is none of 0 to 63}}
  step.fill %x {stream = 64 : i64} : memref<8xf32>
}

// -----

step.program @p {
  // expected-error @below {{stream -1 is none of 0 to 63}}
  step.record 0 {stream = -1 : i64}
}

// -----

// expected-error @below {{has the role "second", which no loop runs}}
step.program @p attributes {role = "second"} {
}

// -----

// expected-error @below {{is of step -1, which is negative}}
step.program @p attributes {role = "event", event_step = -1 : i64} {
}

// -----

// expected-error @below {{phases are no list of different numbers from 0 on}}
step.program @p attributes {role = "update", phases = array<i64: 1, 1>} {
}

// -----

// expected-error @below {{stages are no list of different numbers from 0 on}}
step.program @p attributes {role = "update", stages = array<i64: -1>} {
}
