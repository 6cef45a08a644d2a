// RUN: nano-opt %s -nano-lower-kernels=target=cpu | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: nano-opt %s -nano-lower-kernels=target=cuda | FileCheck %s --check-prefixes=CHECK,CUDA

// Values of 32 elements a head: 2 · T·H·(64 + 32) = 49152, and for the gradient, with 4 products of 64 and 3 of 32, 180224.
// CHECK-LABEL: step.program @attention
// CPU:           step.launch @[[FORWARD:attention_[0-9a-f]+]]({{.*}} {iterations = array<i64: 4>}
// CUDA:          step.launch @[[FORWARD:attention_[0-9a-f]+]]({{.*}} {iterations = array<i64: 2>}
// CPU:           step.launch @[[GRAD:attention_grad_[0-9a-f]+]]({{.*}} {iterations = array<i64: 8>}
// CUDA:          step.launch @[[GRAD:attention_grad_[0-9a-f]+]]({{.*}} {iterations = array<i64: 4>}
// CPU:           flops_per_key = 1.228800e+04 : f64
// CUDA:          flops_per_key = 2.457600e+04 : f64
// CPU:           flops_per_key = 2.252800e+04 : f64
// CUDA:          flops_per_key = 4.505600e+04 : f64
step.program @attention {
  %q = step.buffer "q" : memref<128x2x64xbf16>
  %k = step.buffer "k" : memref<128x2x64xbf16>
  %v = step.buffer "v" : memref<128x2x32xbf16>
  %f = step.buffer "first" : memref<128xi32>
  %l = step.buffer "last" : memref<128xi32>
  %y = step.buffer "y" : memref<128x2x32xbf16>
  %e = step.buffer "lse" : memref<128x2xf32>
  step.task ins(%q, %k, %v, %f, %l) outs(%y, %e)
      : (memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128x2x32xbf16>, memref<128xi32>, memref<128xi32>)
      -> (memref<128x2x32xbf16>, memref<128x2xf32>) {
  ^bb0(%0: tensor<128x2x64xbf16>, %1: tensor<128x2x64xbf16>, %2: tensor<128x2x32xbf16>, %3: tensor<128xi32>, %4: tensor<128xi32>):
    %r, %s = nano.attention %0, %1, %2, %3, %4 scale 1.200000e-01
        : (tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x32xbf16>, tensor<128xi32>, tensor<128xi32>)
        -> (tensor<128x2x32xbf16>, tensor<128x2xf32>)
    nano.yield %r, %s : tensor<128x2x32xbf16>, tensor<128x2xf32>
  }
  %d = step.buffer "delta" : memref<128x2xf32>
  %g = step.buffer "dy" : memref<128x2x32xbf16>
  %dq = step.buffer "dq" : memref<128x2x64xbf16>
  %dk = step.buffer "dk" : memref<128x2x64xbf16>
  %dv = step.buffer "dv" : memref<128x2x32xbf16>
  step.task ins(%q, %k, %v, %f, %l, %e, %d, %g) outs(%dq, %dk, %dv)
      : (memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128x2x32xbf16>, memref<128xi32>, memref<128xi32>, memref<128x2xf32>, memref<128x2xf32>,
         memref<128x2x32xbf16>) -> (memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128x2x32xbf16>) {
  ^bb0(%0: tensor<128x2x64xbf16>, %1: tensor<128x2x64xbf16>, %2: tensor<128x2x32xbf16>, %3: tensor<128xi32>, %4: tensor<128xi32>,
       %5: tensor<128x2xf32>, %6: tensor<128x2xf32>, %7: tensor<128x2x32xbf16>):
    %a, %b, %c = nano.attention_grad %0, %1, %2, %3, %4, %5, %6, %7 scale 1.200000e-01
        : (tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x32xbf16>, tensor<128xi32>, tensor<128xi32>, tensor<128x2xf32>,
           tensor<128x2xf32>, tensor<128x2x32xbf16>) -> (tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x32xbf16>)
    nano.yield %a, %b, %c : tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x32xbf16>
  }
}
