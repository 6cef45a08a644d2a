// RUN: nano-opt %s -nano-lower-kernels -split-input-file -verify-diagnostics
// RUN: not nano-opt %s -nano-lower-kernels=lanes=12 -split-input-file 2>&1 | FileCheck %s
// CHECK: error: nano-lower-kernels: lanes=12: must be 8 or 16

step.program @two_ops {
  %x = step.buffer "x" : memref<64xi32>
  %y = step.buffer "y" : memref<64xi32>
  // expected-error @+1 {{holds nano.scan beside other ops; it must be a kernel of its own}}
  step.task ins(%x) outs(%y) : (memref<64xi32>) -> memref<64xi32> {
  ^bb0(%a: tensor<64xi32>):
    %s = nano.scan sum %a : tensor<64xi32>
    %t = nano.add %s, %s : tensor<64xi32>
    nano.yield %t : tensor<64xi32>
  }
}

// -----

step.program @apart {
  %x = step.buffer "x" : memref<2x3x4xf32>
  %y = step.buffer "y" : memref<3xf32>
  step.task ins(%x) outs(%y) : (memref<2x3x4xf32>) -> memref<3xf32> {
  ^bb0(%a: tensor<2x3x4xf32>):
    // expected-error @+1 {{reduces dimensions with others between them; a kernel reduces neighbouring ones}}
    %s = nano.reduce sum %a dims [0, 2] : tensor<2x3x4xf32> -> tensor<3xf32>
    nano.yield %s : tensor<3xf32>
  }
}

// -----

step.program @columns {
  %x = step.buffer "x" : memref<4x6xf32>
  %y = step.buffer "y" : memref<6xf32>
  step.task ins(%x) outs(%y) : (memref<4x6xf32>) -> memref<6xf32> {
  ^bb0(%a: tensor<4x6xf32>):
    // expected-error @+1 {{is a log-sum-exp of columns; a kernel has them of rows only}}
    %s = nano.reduce logsumexp %a dims [0] : tensor<4x6xf32> -> tensor<6xf32>
    nano.yield %s : tensor<6xf32>
  }
}

// -----

step.program @different_rows {
  %x = step.buffer "x" : memref<4x6xf32>
  %y = step.buffer "y" : memref<4xf32>
  %z = step.buffer "z" : memref<f32>
  step.task ins(%x) outs(%y, %z) : (memref<4x6xf32>) -> (memref<4xf32>, memref<f32>) {
  ^bb0(%a: tensor<4x6xf32>):
    %s = nano.reduce sum %a dims [1] : tensor<4x6xf32> -> tensor<4xf32>
    // expected-error @+1 {{reduces 1×4×1 elements where another reduction of the task has 4×6×1}}
    %t = nano.reduce sum %s dims [0] : tensor<4xf32> -> tensor<f32>
    nano.yield %s, %t : tensor<4xf32>, tensor<f32>
  }
}

// -----

step.program @other_rows {
  %x = step.buffer "x" : memref<4x6xf32>
  %y = step.buffer "y" : memref<2x6xf32>
  // expected-error @+1 {{output 0 has 12 elements where its kernel computes 4×1×6}}
  step.task ins(%x) outs(%y) : (memref<4x6xf32>) -> memref<2x6xf32> {
  ^bb0(%a: tensor<4x6xf32>):
    %s = nano.reduce sum %a dims [1] : tensor<4x6xf32> -> tensor<4xf32>
    %c = nano.constant 1.0 : tensor<2x6xf32>
    nano.yield %c : tensor<2x6xf32>
  }
}

// -----

step.program @picks_of_other_rows {
  %x = step.buffer "x" : memref<4x6xf32>
  %t = step.buffer "t" : memref<2xi32>
  %y = step.buffer "y" : memref<4xf32>
  %z = step.buffer "z" : memref<2xf32>
  step.task ins(%x, %t) outs(%y, %z) : (memref<4x6xf32>, memref<2xi32>) -> (memref<4xf32>, memref<2xf32>) {
  ^bb0(%a: tensor<4x6xf32>, %b: tensor<2xi32>):
    %s = nano.reduce sum %a dims [1] : tensor<4x6xf32> -> tensor<4xf32>
    %w = nano.reshape %a : tensor<4x6xf32> -> tensor<2x12xf32>
    %zero = nano.constant 0.0 : tensor<2x12xf32>
    %i = nano.iota 1 : tensor<2x12xi32>
    %k = nano.broadcast %b dims [0] : tensor<2xi32> -> tensor<2x12xi32>
    %c = nano.select eq, %i, %k, %w, %zero : tensor<2x12xi32>, tensor<2x12xf32>
    // expected-error @+1 {{reduces 2×12×1 elements where another reduction of the task has 4×6×1}}
    %r = nano.reduce sum %c dims [1] : tensor<2x12xf32> -> tensor<2xf32>
    nano.yield %s, %r : tensor<4xf32>, tensor<2xf32>
  }
}
