// RUN: nano-opt %s -nano-lower-kernels=target=cpu | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: nano-opt %s -nano-lower-kernels=target=cuda | FileCheck %s --check-prefixes=CHECK,CUDA

// The arithmetic of attention is noted on its kernels: times the iterations of a launch it is 2 products · 2 · T·H·Dh = 65536 for each key that a
// query sees, and of the gradient, which has 7 products, 229376.
// CHECK-LABEL: step.program @attention
// CPU:           step.launch @[[FORWARD:attention_[0-9a-f]+]]({{.*}} {iterations = array<i64: 4>}
// CUDA:          step.launch @[[FORWARD:attention_[0-9a-f]+]]({{.*}} {iterations = array<i64: 2>}
// CPU:           step.launch @[[GRAD:attention_grad_[0-9a-f]+]]({{.*}} {iterations = array<i64: 8>}
// CUDA:          step.launch @[[GRAD:attention_grad_[0-9a-f]+]]({{.*}} {iterations = array<i64: 4>}
// CHECK:         kernel.func @[[FORWARD]](
// CPU-SAME:        flops_per_key = 1.638400e+04 : f64
// CUDA-SAME:       flops_per_key = 3.276800e+04 : f64
// CHECK:         kernel.func @[[GRAD]](
// CPU-SAME:        flops_per_key = 2.867200e+04 : f64
// CUDA-SAME:       flops_per_key = 5.734400e+04 : f64
step.program @attention {
  %q = step.buffer "q" : memref<128x2x64xbf16>
  %k = step.buffer "k" : memref<128x2x64xbf16>
  %v = step.buffer "v" : memref<128x2x64xbf16>
  %f = step.buffer "first" : memref<128xi32>
  %l = step.buffer "last" : memref<128xi32>
  %y = step.buffer "y" : memref<128x2x64xbf16>
  %e = step.buffer "lse" : memref<128x2xf32>
  step.task ins(%q, %k, %v, %f, %l) outs(%y, %e)
      : (memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128xi32>, memref<128xi32>)
      -> (memref<128x2x64xbf16>, memref<128x2xf32>) {
  ^bb0(%0: tensor<128x2x64xbf16>, %1: tensor<128x2x64xbf16>, %2: tensor<128x2x64xbf16>, %3: tensor<128xi32>, %4: tensor<128xi32>):
    %r, %s = nano.attention %0, %1, %2, %3, %4 scale 1.200000e-01
        : (tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128xi32>, tensor<128xi32>)
        -> (tensor<128x2x64xbf16>, tensor<128x2xf32>)
    nano.yield %r, %s : tensor<128x2x64xbf16>, tensor<128x2xf32>
  }
  %d = step.buffer "delta" : memref<128x2xf32>
  %g = step.buffer "dy" : memref<128x2x64xbf16>
  %dq = step.buffer "dq" : memref<128x2x64xbf16>
  %dk = step.buffer "dk" : memref<128x2x64xbf16>
  %dv = step.buffer "dv" : memref<128x2x64xbf16>
  step.task ins(%q, %k, %v, %f, %l, %e, %d, %g) outs(%dq, %dk, %dv)
      : (memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128xi32>, memref<128xi32>, memref<128x2xf32>, memref<128x2xf32>,
         memref<128x2x64xbf16>) -> (memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128x2x64xbf16>) {
  ^bb0(%0: tensor<128x2x64xbf16>, %1: tensor<128x2x64xbf16>, %2: tensor<128x2x64xbf16>, %3: tensor<128xi32>, %4: tensor<128xi32>,
       %5: tensor<128x2xf32>, %6: tensor<128x2xf32>, %7: tensor<128x2x64xbf16>):
    %a, %b, %c = nano.attention_grad %0, %1, %2, %3, %4, %5, %6, %7 scale 1.200000e-01
        : (tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128xi32>, tensor<128xi32>, tensor<128x2xf32>,
           tensor<128x2xf32>, tensor<128x2x64xbf16>) -> (tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>)
    nano.yield %a, %b, %c : tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>
  }
}
