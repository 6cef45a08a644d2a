// RUN: nano-opt %s -nano-lower-kernels=target=cuda -split-input-file -verify-diagnostics -o /dev/null
// RUN: not nano-opt %s -nano-lower-kernels=target=metal -split-input-file 2>&1 | FileCheck %s
// CHECK: error: nano-lower-kernels: target=metal: there are cpu and cuda

// Other blocks read what a block would write.
step.program @in_place {
  %x = step.buffer "x" : memref<64xi32>
  // expected-error @+1 {{cannot write x in place: other blocks read it}}
  step.task ins(%x) outs(%x) : (memref<64xi32>) -> memref<64xi32> {
  ^bb0(%a: tensor<64xi32>):
    %s = nano.scan sum %a : tensor<64xi32>
    nano.yield %s : tensor<64xi32>
  }
}

// -----

step.program @rotated {
  %x = step.buffer "x" : memref<4x65536xf32>
  // expected-error @+1 {{updates rows of 65536 elements in place and reads them rotated; they do not fit in a block's shared memory}}
  step.task ins(%x) outs(%x) : (memref<4x65536xf32>) -> memref<4x65536xf32> {
  ^bb0(%a: tensor<4x65536xf32>):
    %0 = nano.rotate %a by 32 : tensor<4x65536xf32>
    %1 = nano.add %a, %0 : tensor<4x65536xf32>
    nano.yield %1 : tensor<4x65536xf32>
  }
}

// -----

step.program @large_head {
  %q = step.buffer "q" : memref<128x1x1024xf32>
  %k = step.buffer "k" : memref<128x1x1024xf32>
  %v = step.buffer "v" : memref<128x1x1024xf32>
  %f = step.buffer "first" : memref<128xi32>
  %l = step.buffer "last" : memref<128xi32>
  %y = step.buffer "y" : memref<128x1x1024xf32>
  step.task ins(%q, %k, %v, %f, %l) outs(%y)
      : (memref<128x1x1024xf32>, memref<128x1x1024xf32>, memref<128x1x1024xf32>, memref<128xi32>, memref<128xi32>) -> memref<128x1x1024xf32> {
  ^bb0(%0: tensor<128x1x1024xf32>, %1: tensor<128x1x1024xf32>, %2: tensor<128x1x1024xf32>, %3: tensor<128xi32>, %4: tensor<128xi32>):
    // expected-error @+1 {{has heads of 1024 elements; a block of a GPU has shared memory for fewer}}
    %r, %s = nano.attention %0, %1, %2, %3, %4 scale 1.000000e+00
        : (tensor<128x1x1024xf32>, tensor<128x1x1024xf32>, tensor<128x1x1024xf32>, tensor<128xi32>, tensor<128xi32>)
        -> (tensor<128x1x1024xf32>, tensor<128x1xf32>)
    nano.yield %r : tensor<128x1x1024xf32>
  }
}

// -----

// Products with what follows them: other blocks read the factors.
step.program @over_a_factor {
  %a = step.buffer "a" : memref<64x64xbf16>
  %b = step.buffer "b" : memref<64x64xbf16>
  // expected-error @+1 {{cannot write a in place: other blocks read it}}
  step.task ins(%a, %b) outs(%a) : (memref<64x64xbf16>, memref<64x64xbf16>) -> memref<64x64xbf16> {
  ^bb0(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>):
    %p = nano.matmul %x, %w : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    nano.yield %p : tensor<64x64xbf16>
  }
}

// -----

step.program @addend {
  %a = step.buffer "a" : memref<64x64xbf16>
  %b = step.buffer "b" : memref<64x64xbf16>
  %c = step.buffer "c" : memref<64x64xbf16>
  %y = step.buffer "y" : memref<64x64xbf16>
  step.task ins(%a, %b, %c) outs(%y) : (memref<64x64xbf16>, memref<64x64xbf16>, memref<64x64xbf16>) -> memref<64x64xbf16> {
  ^bb0(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>, %d: tensor<64x64xbf16>):
    // expected-error @+1 {{is no product of a generated kernel: it has an addend}}
    %p = nano.matmul %x, %w add %d : (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    nano.yield %p : tensor<64x64xbf16>
  }
}

// -----

step.program @odd_rows {
  %whole = step.buffer "a" : memref<64x68xbf16>
  %a = step.view %whole : memref<64x68xbf16> to memref<64x64xbf16, strided<[68, 1]>>
  %b = step.buffer "b" : memref<64x64xbf16>
  %y = step.buffer "y" : memref<64x64xbf16>
  // expected-error @+1 {{has rows of a that begin at no multiples of 16 bytes}}
  step.task ins(%a, %b) outs(%y) : (memref<64x64xbf16, strided<[68, 1]>>, memref<64x64xbf16>) -> memref<64x64xbf16> {
  ^bb0(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>):
    %p = nano.matmul %x, %w : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    nano.yield %p : tensor<64x64xbf16>
  }
}

// -----

step.program @turned_eight_bits {
  %a = step.buffer "a" : memref<64x64xf8E5M2>
  %b = step.buffer "b" : memref<64x64xf8E4M3FN>
  %s = step.buffer "s" : memref<f32>
  %y = step.buffer "y" : memref<64x64xbf16>
  step.task ins(%a, %b, %s) outs(%y) : (memref<64x64xf8E5M2>, memref<64x64xf8E4M3FN>, memref<f32>) -> memref<64x64xbf16> {
  ^bb0(%x: tensor<64x64xf8E5M2>, %w: tensor<64x64xf8E4M3FN>, %k: tensor<f32>):
    // expected-error @+1 {{is no product of a generated kernel: its first operand is transposed}}
    %p = nano.scaled_matmul %x, %w scales(%k, %k) {transpose_a, transpose_b} : (tensor<64x64xf8E5M2>, tensor<64x64xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<64x64xbf16>
    %n = nano.neg %p : tensor<64x64xbf16>
    nano.yield %n : tensor<64x64xbf16>
  }
}
