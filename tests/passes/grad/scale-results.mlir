// RUN: nano-opt %s -nano-scale-results=machine=h200-nvlink -split-input-file | FileCheck %s
// RUN: nano-opt %s -nano-scale-results="machine=h200-nvlink report" -split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=SAYS
// RUN: not nano-opt %s -nano-scale-results=machine=none -split-input-file 2>&1 | FileCheck %s --check-prefix=MACHINE
// MACHINE: error: nano-scale-results: {{.*}}none

// An MLP behind a norm, forward and backward: both products that read the norm read x itself, and the gradient is multiplied once for both
// products that read it. What the norm's own gradient multiplies by r again is what the product gives.
// CHECK-LABEL: nano.program @mlp
// CHECK-NOT:     tensor<49152x768xf32> -> tensor<49152x768xbf16>
// CHECK:         %[[X:.*]] = nano.cast %arg0
// CHECK:         %[[Z:.*]] = nano.mul %{{.*}}, %{{.*}} : tensor<49152xf32>
// CHECK:         %[[R:.*]] = nano.rsqrt %[[Z]]
// CHECK:         %[[P:.*]] = nano.matmul %arg0, %arg1 {transpose_b}
// CHECK:         %[[WIDE:.*]] = nano.cast %[[P]] : tensor<49152x3072xbf16> -> tensor<49152x3072xf32>
// CHECK:         %[[ROWS:.*]] = nano.broadcast %[[R]] dims [0]
// CHECK:         %[[M:.*]] = nano.mul %[[WIDE]], %[[ROWS]]
// CHECK:         %[[Y:.*]] = nano.cast %[[M]]
// CHECK:         nano.max %[[Y]], %{{.*}}
// CHECK:         %[[DY:.*]] = nano.select gt, %[[Y]], %{{.*}}, %arg2, %{{.*}}
// CHECK:         %[[WIDE_DY:.*]] = nano.cast %[[DY]]
// CHECK:         %[[ROWS_DY:.*]] = nano.broadcast %[[R]] dims [0]
// CHECK:         %[[M_DY:.*]] = nano.mul %[[WIDE_DY]], %[[ROWS_DY]]
// CHECK:         %[[SCALED:.*]] = nano.cast %[[M_DY]]
// CHECK:         nano.matmul %[[SCALED]], %arg0 {transpose_a}
// CHECK:         %[[G:.*]] = nano.matmul %[[SCALED]], %arg1 :
// CHECK:         %[[INVERSE:.*]] = nano.sqrt %[[Z]]
// CHECK:         %[[OF_ROWS:.*]] = nano.broadcast %[[INVERSE]] dims [0]
// CHECK:         %[[WIDE_G:.*]] = nano.cast %[[G]]
// CHECK:         %[[DN:.*]] = nano.mul %[[WIDE_G]], %[[OF_ROWS]]
// CHECK:         nano.mul %[[DN]], %[[X]]
// CHECK:         nano.add %[[WIDE_G]], %{{.*}}
// SAYS: remark: multiplies what products give instead of what they read
nano.program @mlp(%x: tensor<49152x768xbf16>, %w: tensor<3072x768xbf16>, %dz: tensor<49152x3072xbf16>)
    -> (tensor<49152x3072xbf16>, tensor<3072x768xf32>, tensor<49152x768xf32>) {
  %zero = nano.constant 0.0 : tensor<49152x3072xbf16>
  %c = nano.constant 1.3e-3 : tensor<49152xf32>
  %f = nano.cast %x : tensor<49152x768xbf16> -> tensor<49152x768xf32>
  %q = nano.mul %f, %f : tensor<49152x768xf32>
  %s = nano.reduce sum %q dims [1] : tensor<49152x768xf32> -> tensor<49152xf32>
  %z = nano.mul %s, %c : tensor<49152xf32>
  %r = nano.rsqrt %z : tensor<49152xf32>
  %b = nano.broadcast %r dims [0] : tensor<49152xf32> -> tensor<49152x768xf32>
  %m = nano.mul %f, %b : tensor<49152x768xf32>
  %n = nano.cast %m : tensor<49152x768xf32> -> tensor<49152x768xbf16>
  %y = nano.matmul %n, %w {transpose_b} : (tensor<49152x768xbf16>, tensor<3072x768xbf16>) -> tensor<49152x3072xbf16>
  %h = nano.max %y, %zero : tensor<49152x3072xbf16>
  %dy = nano.select gt, %y, %zero, %dz, %zero : tensor<49152x3072xbf16>, tensor<49152x3072xbf16>
  %dw = nano.matmul %dy, %n {transpose_a} : (tensor<49152x3072xbf16>, tensor<49152x768xbf16>) -> tensor<3072x768xf32>
  %dn = nano.matmul %dy, %w : (tensor<49152x3072xbf16>, tensor<3072x768xbf16>) -> tensor<49152x768xbf16>
  %g = nano.cast %dn : tensor<49152x768xbf16> -> tensor<49152x768xf32>
  %t = nano.mul %g, %b : tensor<49152x768xf32>
  %u = nano.mul %g, %f : tensor<49152x768xf32>
  %v = nano.reduce sum %u dims [1] : tensor<49152x768xf32> -> tensor<49152xf32>
  %k = nano.broadcast %v dims [0] : tensor<49152xf32> -> tensor<49152x768xf32>
  %dx = nano.add %t, %k : tensor<49152x768xf32>
  nano.return %h, %dw, %dx : tensor<49152x3072xbf16>, tensor<3072x768xf32>, tensor<49152x768xf32>
}

// -----

// Two products, of a gate and what it gates, in f32: the gradients of both are added before they are divided.
// CHECK-LABEL: nano.program @gated
// CHECK:         nano.matmul %arg0, %arg1 {transpose_b}
// CHECK:         nano.matmul %arg0, %arg2 {transpose_b}
// CHECK:         nano.matmul %[[A:.*]], %arg0 {transpose_a}
// CHECK:         %[[PA:.*]] = nano.matmul %[[A]], %arg1 :
// CHECK:         nano.matmul %[[B:.*]], %arg0 {transpose_a}
// CHECK:         %[[PB:.*]] = nano.matmul %[[B]], %arg2 :
// CHECK:         %[[SUM:.*]] = nano.add %[[PA]], %[[PB]]
// CHECK:         %[[DIVIDED:.*]] = nano.mul %[[SUM]], %{{.*}}
// CHECK:         nano.return %{{.*}}, %{{.*}}, %{{.*}}, %[[DIVIDED]]
// SAYS: remark: multiplies what products give instead of what they read
nano.program @gated(%x: tensor<49152x768xf32>, %v: tensor<2048x768xf32>, %w: tensor<2048x768xf32>, %z: tensor<49152xf32>, %do: tensor<49152x2048xf32>)
    -> (tensor<49152x2048xf32>, tensor<2048x768xf32>, tensor<2048x768xf32>, tensor<49152x768xf32>) {
  %r = nano.rsqrt %z : tensor<49152xf32>
  %b = nano.broadcast %r dims [0] : tensor<49152xf32> -> tensor<49152x768xf32>
  %n = nano.mul %b, %x : tensor<49152x768xf32>
  %g = nano.matmul %n, %v {transpose_b} : (tensor<49152x768xf32>, tensor<2048x768xf32>) -> tensor<49152x2048xf32>
  %u = nano.matmul %n, %w {transpose_b} : (tensor<49152x768xf32>, tensor<2048x768xf32>) -> tensor<49152x2048xf32>
  %y = nano.mul %g, %u : tensor<49152x2048xf32>
  %dg = nano.mul %do, %u : tensor<49152x2048xf32>
  %du = nano.mul %do, %g : tensor<49152x2048xf32>
  %dv = nano.matmul %dg, %n {transpose_a} : (tensor<49152x2048xf32>, tensor<49152x768xf32>) -> tensor<2048x768xf32>
  %pg = nano.matmul %dg, %v : (tensor<49152x2048xf32>, tensor<2048x768xf32>) -> tensor<49152x768xf32>
  %dw = nano.matmul %du, %n {transpose_a} : (tensor<49152x2048xf32>, tensor<49152x768xf32>) -> tensor<2048x768xf32>
  %pu = nano.matmul %du, %w : (tensor<49152x2048xf32>, tensor<2048x768xf32>) -> tensor<49152x768xf32>
  %dn = nano.add %pg, %pu : tensor<49152x768xf32>
  nano.return %y, %dv, %dw, %dn : tensor<49152x2048xf32>, tensor<2048x768xf32>, tensor<2048x768xf32>, tensor<49152x768xf32>
}

// -----

// Not where others read the norm, where no kernel reads what a product gives or makes its gradient, where a product ends with its addend, where a
// loss follows, where the numbers are of no norm and may be 0, or where there are few rows.
// CHECK-LABEL: nano.program @read_besides
// CHECK:         %[[N:.*]] = nano.mul
// CHECK:         nano.matmul %[[N]]
// SAYS: remark: multiplies what products read: not only products read them
nano.program @read_besides(%x: tensor<49152x768xf32>, %w: tensor<768x768xf32>, %z: tensor<49152xf32>) -> (tensor<49152x768xf32>, tensor<49152x768xf32>) {
  %r = nano.rsqrt %z : tensor<49152xf32>
  %b = nano.broadcast %r dims [0] : tensor<49152xf32> -> tensor<49152x768xf32>
  %n = nano.mul %x, %b : tensor<49152x768xf32>
  %y = nano.matmul %n, %w : (tensor<49152x768xf32>, tensor<768x768xf32>) -> tensor<49152x768xf32>
  %h = nano.neg %y : tensor<49152x768xf32>
  nano.return %h, %n : tensor<49152x768xf32>, tensor<49152x768xf32>
}
// CHECK-LABEL: nano.program @returned
// CHECK:         %[[N:.*]] = nano.mul
// CHECK:         nano.matmul %[[N]]
// SAYS: remark: multiplies what products read: what a product gives is read by no kernel
nano.program @returned(%x: tensor<49152x768xf32>, %w: tensor<768x768xf32>, %z: tensor<49152xf32>) -> tensor<49152x768xf32> {
  %r = nano.rsqrt %z : tensor<49152xf32>
  %b = nano.broadcast %r dims [0] : tensor<49152xf32> -> tensor<49152x768xf32>
  %n = nano.mul %x, %b : tensor<49152x768xf32>
  %y = nano.matmul %n, %w : (tensor<49152x768xf32>, tensor<768x768xf32>) -> tensor<49152x768xf32>
  nano.return %y : tensor<49152x768xf32>
}
// CHECK-LABEL: nano.program @residual
// CHECK:         %[[N:.*]] = nano.mul
// CHECK:         nano.matmul %[[N]]
// SAYS: remark: multiplies what products read: a product adds to what it gives
nano.program @residual(%x: tensor<49152x768xf32>, %w: tensor<768x768xf32>, %z: tensor<49152xf32>) -> tensor<49152x768xf32> {
  %r = nano.rsqrt %z : tensor<49152xf32>
  %b = nano.broadcast %r dims [0] : tensor<49152xf32> -> tensor<49152x768xf32>
  %n = nano.mul %x, %b : tensor<49152x768xf32>
  %y = nano.matmul %n, %w : (tensor<49152x768xf32>, tensor<768x768xf32>) -> tensor<49152x768xf32>
  %h = nano.add %x, %y : tensor<49152x768xf32>
  nano.return %h : tensor<49152x768xf32>
}
// CHECK-LABEL: nano.program @logits
// CHECK:         %[[N:.*]] = nano.mul
// CHECK:         nano.matmul %[[N]]
// SAYS: remark: multiplies what products read: a loss follows
nano.program @logits(%x: tensor<49152x768xf32>, %w: tensor<768x768xf32>, %z: tensor<49152xf32>, %t: tensor<49152xi32>) -> tensor<49152xf32> {
  %r = nano.rsqrt %z : tensor<49152xf32>
  %b = nano.broadcast %r dims [0] : tensor<49152xf32> -> tensor<49152x768xf32>
  %n = nano.mul %x, %b : tensor<49152x768xf32>
  %y = nano.matmul %n, %w : (tensor<49152x768xf32>, tensor<768x768xf32>) -> tensor<49152x768xf32>
  %h = nano.neg %y : tensor<49152x768xf32>
  %l, %lse = nano.cross_entropy %h, %t : (tensor<49152x768xf32>, tensor<49152xi32>) -> (tensor<49152xf32>, tensor<49152xf32>)
  nano.return %l : tensor<49152xf32>
}
// CHECK-LABEL: nano.program @given_gradient
// CHECK:         %[[N:.*]] = nano.mul
// CHECK:         nano.matmul %[[N]]
// CHECK:         nano.matmul %arg3, %[[N]]
// SAYS: remark: multiplies what products read: a gradient is made by no kernel
nano.program @given_gradient(%x: tensor<49152x768xf32>, %w: tensor<768x768xf32>, %z: tensor<49152xf32>, %dy: tensor<49152x768xf32>)
    -> (tensor<49152x768xf32>, tensor<768x768xf32>) {
  %r = nano.rsqrt %z : tensor<49152xf32>
  %b = nano.broadcast %r dims [0] : tensor<49152xf32> -> tensor<49152x768xf32>
  %n = nano.mul %x, %b : tensor<49152x768xf32>
  %y = nano.matmul %n, %w : (tensor<49152x768xf32>, tensor<768x768xf32>) -> tensor<49152x768xf32>
  %h = nano.neg %y : tensor<49152x768xf32>
  %dw = nano.matmul %dy, %n {transpose_a} : (tensor<49152x768xf32>, tensor<49152x768xf32>) -> tensor<768x768xf32>
  nano.return %h, %dw : tensor<49152x768xf32>, tensor<768x768xf32>
}
// CHECK-LABEL: nano.program @few
// CHECK:         %[[N:.*]] = nano.mul
// CHECK:         nano.matmul %[[N]]
// SAYS: remark: multiplies what products read: that is predicted to be faster
nano.program @few(%x: tensor<2x768xf32>, %w: tensor<768x768xf32>, %z: tensor<2xf32>) -> tensor<2x768xf32> {
  %r = nano.rsqrt %z : tensor<2xf32>
  %b = nano.broadcast %r dims [0] : tensor<2xf32> -> tensor<2x768xf32>
  %n = nano.mul %x, %b : tensor<2x768xf32>
  %y = nano.matmul %n, %w : (tensor<2x768xf32>, tensor<768x768xf32>) -> tensor<2x768xf32>
  %h = nano.neg %y : tensor<2x768xf32>
  nano.return %h : tensor<2x768xf32>
}
// CHECK-LABEL: nano.program @gates
// CHECK:         %[[N:.*]] = nano.mul
// CHECK:         nano.matmul %[[N]]
nano.program @gates(%x: tensor<49152x768xf32>, %w: tensor<768x768xf32>, %z: tensor<49152xf32>) -> tensor<49152x768xf32> {
  %b = nano.broadcast %z dims [0] : tensor<49152xf32> -> tensor<49152x768xf32>
  %n = nano.mul %x, %b : tensor<49152x768xf32>
  %y = nano.matmul %n, %w : (tensor<49152x768xf32>, tensor<768x768xf32>) -> tensor<49152x768xf32>
  %h = nano.neg %y : tensor<49152x768xf32>
  nano.return %h : tensor<49152x768xf32>
}
