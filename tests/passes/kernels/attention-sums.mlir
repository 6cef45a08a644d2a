// RUN: nano-opt %s -nano-lower-kernels="target=cuda candidates=true" | FileCheck %s
// RUN: not nano-opt %s -nano-lower-kernels=target=cpu 2>&1 | FileCheck %s --check-prefix=CPU

// CPU: error: {{.*}}holds nano.attention_grad beside other ops; it must be a kernel of its own

// The sums of the columns of dq and dv come with them, also by other tiles.
// CHECK-LABEL: step.program @sums
// CHECK:         %[[QS:.*]] = step.buffer "dq sums"
// CHECK:         %[[VS:.*]] = step.buffer "dv sums"
// CHECK:         step.launch @[[K:attention_grad_[0-9a-f]+]]({{.*}}, %[[QS]], %[[VS]]) {candidates = [@[[OTHER:attention_grad_[0-9a-f]+]], {{.*}}
// CHECK-NEXT:    }
step.program @sums {
  %q = step.buffer "q" : memref<128x2x64xbf16>
  %k = step.buffer "k" : memref<128x2x64xbf16>
  %v = step.buffer "v" : memref<128x2x64xbf16>
  %f = step.buffer "first" : memref<128xi32>
  %l = step.buffer "last" : memref<128xi32>
  %e = step.buffer "lse" : memref<128x2xf32>
  %d = step.buffer "delta" : memref<128x2xf32>
  %g = step.buffer "dy" : memref<128x2x64xbf16>
  %dq = step.buffer "dq" : memref<128x2x64xbf16>
  %dk = step.buffer "dk" : memref<128x2x64xbf16>
  %dv = step.buffer "dv" : memref<128x2x64xbf16>
  %qs = step.buffer "dq sums" : memref<2x2x64xf32>
  %vs = step.buffer "dv sums" : memref<2x2x64xf32>
  step.task ins(%q, %k, %v, %f, %l, %e, %d, %g) outs(%dq, %dk, %dv, %qs, %vs)
      : (memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128xi32>, memref<128xi32>, memref<128x2xf32>, memref<128x2xf32>, memref<128x2x64xbf16>)
      -> (memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<2x2x64xf32>, memref<2x2x64xf32>) {
  ^bb0(%0: tensor<128x2x64xbf16>, %1: tensor<128x2x64xbf16>, %2: tensor<128x2x64xbf16>, %3: tensor<128xi32>, %4: tensor<128xi32>, %5: tensor<128x2xf32>, %6: tensor<128x2xf32>, %7: tensor<128x2x64xbf16>):
    %a, %b, %c = nano.attention_grad %0, %1, %2, %3, %4, %5, %6, %7 scale 1.200000e-01
        : (tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128xi32>, tensor<128xi32>, tensor<128x2xf32>, tensor<128x2xf32>, tensor<128x2x64xbf16>) -> (tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>)
    %aw = nano.cast %a : tensor<128x2x64xbf16> -> tensor<128x2x64xf32>
    %ap = nano.reshape %aw : tensor<128x2x64xf32> -> tensor<2x64x2x64xf32>
    %as = nano.reduce sum %ap dims [1] : tensor<2x64x2x64xf32> -> tensor<2x2x64xf32>
    %cw = nano.cast %c : tensor<128x2x64xbf16> -> tensor<128x2x64xf32>
    %cp = nano.reshape %cw : tensor<128x2x64xf32> -> tensor<2x64x2x64xf32>
    %cs = nano.reduce sum %cp dims [1] : tensor<2x64x2x64xf32> -> tensor<2x2x64xf32>
    nano.yield %a, %b, %c, %as, %cs : tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<2x2x64xf32>, tensor<2x2x64xf32>
  }
}

// Heads that begin at no multiple of 16 bytes are not computed on tensor cores, and nobody sums their columns meanwhile: a kernel behind does.
// CHECK-LABEL: step.program @apart
// CHECK:         step.launch @attention_grad_{{[0-9a-f]+}}(
// CHECK:         step.launch @sum_cast_{{[0-9a-f]+}}(%{{.*}}, %{{.*}})
step.program @apart {
  %q = step.buffer "q" : memref<128x2x64xbf16>
  %k = step.buffer "k" : memref<128x2x64xbf16>
  %v = step.buffer "v" : memref<128x2x64xbf16>
  %f = step.buffer "first" : memref<128xi32>
  %l = step.buffer "last" : memref<128xi32>
  %e = step.buffer "lse" : memref<128x2xf32>
  %d = step.buffer "delta" : memref<128x2xf32>
  %g = step.buffer "dy" : memref<128x2x64xbf16>
  %dq = step.buffer "dq" : memref<128x2x64xbf16>
  %dk = step.buffer "dk" : memref<128x2x64xbf16>
  %wide = step.buffer "wide" : memref<128x130xbf16>
  %dv = step.view %wide : memref<128x130xbf16> to memref<128x2x64xbf16, strided<[130, 64, 1], offset: 2>>
  %vs = step.buffer "dv sums" : memref<2x2x64xf32>
  step.task ins(%q, %k, %v, %f, %l, %e, %d, %g) outs(%dq, %dk, %dv, %vs)
      : (memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128xi32>, memref<128xi32>, memref<128x2xf32>, memref<128x2xf32>, memref<128x2x64xbf16>)
      -> (memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128x2x64xbf16, strided<[130, 64, 1], offset: 2>>, memref<2x2x64xf32>) {
  ^bb0(%0: tensor<128x2x64xbf16>, %1: tensor<128x2x64xbf16>, %2: tensor<128x2x64xbf16>, %3: tensor<128xi32>, %4: tensor<128xi32>, %5: tensor<128x2xf32>, %6: tensor<128x2xf32>, %7: tensor<128x2x64xbf16>):
    %a, %b, %c = nano.attention_grad %0, %1, %2, %3, %4, %5, %6, %7 scale 1.200000e-01
        : (tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128xi32>, tensor<128xi32>, tensor<128x2xf32>, tensor<128x2xf32>, tensor<128x2x64xbf16>) -> (tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>)
    %cw = nano.cast %c : tensor<128x2x64xbf16> -> tensor<128x2x64xf32>
    %cp = nano.reshape %cw : tensor<128x2x64xf32> -> tensor<2x64x2x64xf32>
    %cs = nano.reduce sum %cp dims [1] : tensor<2x64x2x64xf32> -> tensor<2x2x64xf32>
    nano.yield %a, %b, %c, %cs : tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<2x2x64xf32>
  }
}
// CHECK: kernel.func @[[K]]({{.*}}instantiates = #kernel.attention_grad<{{.*}}dq = [8], dk = [9], dv = [10], dq_sums = 11, dv_sums = 12
// CHECK: kernel.func @[[OTHER]]({{.*}}dq_sums = 11, dv_sums = 12, {{.*}}tiles = 1
