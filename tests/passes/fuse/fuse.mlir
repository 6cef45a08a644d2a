// RUN: nano-opt %s -nano-fuse -split-input-file | FileCheck %s

// A norm is one kernel: the casts are copied rather than stored, the row's statistics never leave it.
// CHECK-LABEL: nano.program @norm
// CHECK:       %[[Y:.*]] = nano.fused(%arg0) : (tensor<512x64xbf16>) -> tensor<512x64xbf16> {
// CHECK:         nano.reduce sum
// CHECK:         nano.yield %{{.*}} : tensor<512x64xbf16>
// CHECK:       }
// CHECK-NEXT:  nano.return %[[Y]]
nano.program @norm(%x: tensor<512x64xbf16>) -> tensor<512x64xbf16> {
  %f = nano.cast %x : tensor<512x64xbf16> -> tensor<512x64xf32>
  %q = nano.mul %f, %f : tensor<512x64xf32>
  %s = nano.reduce sum %q dims [1] : tensor<512x64xf32> -> tensor<512xf32>
  %r = nano.rsqrt %s : tensor<512xf32>
  %b = nano.broadcast %r dims [0] : tensor<512xf32> -> tensor<512x64xf32>
  %n = nano.mul %f, %b : tensor<512x64xf32>
  %y = nano.cast %n : tensor<512x64xf32> -> tensor<512x64xbf16>
  nano.return %y : tensor<512x64xbf16>
}

// -----

// The loss and the gradient of the logits are one kernel, which walks a row twice: the log-sum-exp needs no pass for the largest logit.
// CHECK-LABEL: nano.program @loss_and_gradient
// CHECK:       %[[BOTH:.*]]:2 = nano.fused(%arg0, %arg1) : (tensor<512x1024xbf16>, tensor<512xi32>) -> (tensor<512xf32>, tensor<512x1024xbf16>) {
// CHECK-NOT:     nano.reduce max
// CHECK:         %[[L:.*]] = nano.reduce logsumexp %[[Z:.*]] dims [1] : tensor<512x1024xf32> -> tensor<512xf32>
// CHECK-NOT:     nano.reduce max
// CHECK:         %[[B:.*]] = nano.broadcast %[[L]] dims [0]
// CHECK:         %[[D:.*]] = nano.sub %[[Z]], %[[B]]
// CHECK:         nano.exp %[[D]]
// CHECK-NOT:     nano.exp
// CHECK-NOT:   nano.fused
// CHECK:       nano.return %[[BOTH]]#0, %[[BOTH]]#1
nano.program @loss_and_gradient(%z: tensor<512x1024xbf16>, %t: tensor<512xi32>) -> (tensor<512xf32>, tensor<512x1024xbf16>) {
  %f = nano.cast %z : tensor<512x1024xbf16> -> tensor<512x1024xf32>
  %loss, %lse = nano.cross_entropy %f, %t : (tensor<512x1024xf32>, tensor<512xi32>) -> (tensor<512xf32>, tensor<512xf32>)
  %b = nano.broadcast %lse dims [0] : tensor<512xf32> -> tensor<512x1024xf32>
  %d = nano.sub %f, %b : tensor<512x1024xf32>
  %p = nano.exp %d : tensor<512x1024xf32>
  %g = nano.cast %p : tensor<512x1024xf32> -> tensor<512x1024xbf16>
  nano.return %loss, %g : tensor<512xf32>, tensor<512x1024xbf16>
}

// -----

// Softcapped logits have a bound, which stands for their maximum: a plain sum does, and the gradient reuses its exponentials.
// CHECK-LABEL: nano.program @softcap
// CHECK:       %[[ALL:.*]]:2 = nano.fused
// CHECK:         %[[M:.*]] = nano.constant 1.500000e+01 : tensor<512x1024xf32>
// CHECK:         nano.tanh
// CHECK-NOT:     nano.reduce max
// CHECK:         %[[D:.*]] = nano.sub %{{.*}}, %[[M]] : tensor<512x1024xf32>
// CHECK:         %[[E:.*]] = nano.exp %[[D]]
// CHECK:         nano.mul %[[E]]
// CHECK-NOT:     nano.exp
// CHECK:       nano.return
nano.program @softcap(%z: tensor<512x1024xbf16>, %t: tensor<512xi32>) -> (tensor<512xf32>, tensor<512x1024xbf16>) {
  %c = nano.constant 15.0 : tensor<512x1024xf32>
  %f = nano.cast %z : tensor<512x1024xbf16> -> tensor<512x1024xf32>
  %q = nano.div %f, %c : tensor<512x1024xf32>
  %h = nano.tanh %q : tensor<512x1024xf32>
  %x = nano.mul %h, %c : tensor<512x1024xf32>
  %loss, %lse = nano.cross_entropy %x, %t : (tensor<512x1024xf32>, tensor<512xi32>) -> (tensor<512xf32>, tensor<512xf32>)
  %b = nano.broadcast %lse dims [0] : tensor<512xf32> -> tensor<512x1024xf32>
  %d = nano.sub %x, %b : tensor<512x1024xf32>
  %p = nano.exp %d : tensor<512x1024xf32>
  %g = nano.cast %p : tensor<512x1024xf32> -> tensor<512x1024xbf16>
  nano.return %loss, %g : tensor<512xf32>, tensor<512x1024xbf16>
}

// -----

// The gradient of a loss: elements that the loss's own pass can leave behind, times one number a row; the target's column is an exception.
// CHECK-LABEL: nano.program @gradient
// CHECK:       nano.fused
// CHECK:         %[[E:.*]] = nano.exp
// CHECK:         %[[SUM:.*]] = nano.reduce sum %[[E]] dims [1]
// CHECK:         %[[COLUMN:.*]] = nano.iota 1
// CHECK:         %[[TARGET:.*]] = nano.broadcast %{{.*}} dims [0] : tensor<512xi32>
// CHECK:         %[[INVERSE:.*]] = nano.div %{{.*}}, %[[SUM]] : tensor<512xf32>
// CHECK:         %[[ROW:.*]] = nano.mul %{{.*}}, %[[INVERSE]] : tensor<512xf32>
// CHECK:         %[[HERE:.*]] = nano.mul %{{.*}} : tensor<512x1024xf32>
// CHECK:         %[[ROWS:.*]] = nano.broadcast %[[ROW]] dims [0]
// CHECK:         %[[OTHERS:.*]] = nano.mul %[[E]], %[[ROWS]]
// CHECK:         %[[G:.*]] = nano.select eq, %[[COLUMN]], %[[TARGET]], %[[HERE]], %[[OTHERS]]
// CHECK:         nano.cast %[[G]] : tensor<512x1024xf32> -> tensor<512x1024xf8E5M2>
nano.program @gradient(%z: tensor<512x1024xbf16>, %t: tensor<512xi32>) -> (tensor<512xf32>, tensor<512x1024xf8E5M2>) {
  %c = nano.constant 15.0 : tensor<512x1024xf32>
  %one = nano.constant 1.0 : tensor<512x1024xf32>
  %scale = nano.constant 40.0 : tensor<512x1024xf32>
  %f = nano.cast %z : tensor<512x1024xbf16> -> tensor<512x1024xf32>
  %h = nano.tanh %f : tensor<512x1024xf32>
  %x = nano.mul %h, %c : tensor<512x1024xf32>
  %loss, %lse = nano.cross_entropy %x, %t : (tensor<512x1024xf32>, tensor<512xi32>) -> (tensor<512xf32>, tensor<512xf32>)
  %b = nano.broadcast %lse dims [0] : tensor<512xf32> -> tensor<512x1024xf32>
  %d = nano.sub %x, %b : tensor<512x1024xf32>
  %p = nano.exp %d : tensor<512x1024xf32>
  %i = nano.iota 1 : tensor<512x1024xi32>
  %r = nano.broadcast %t dims [0] : tensor<512xi32> -> tensor<512x1024xi32>
  %m = nano.sub %p, %one : tensor<512x1024xf32>
  %s = nano.select eq, %i, %r, %m, %p : tensor<512x1024xi32>, tensor<512x1024xf32>
  %y = nano.mul %s, %scale : tensor<512x1024xf32>
  %g = nano.cast %y : tensor<512x1024xf32> -> tensor<512x1024xf8E5M2>
  nano.return %loss, %g : tensor<512xf32>, tensor<512x1024xf8E5M2>
}

// -----

// Likewise of plain logits: an exponential times one number a row, but in the target's column.
// CHECK-LABEL: nano.program @plain_gradient
// CHECK:         %[[L:.*]] = nano.reduce logsumexp %[[Z:.*]] dims [1]
// CHECK:         %[[D:.*]] = nano.sub %[[Z]], %{{.*}} : tensor<512x1024xf32>
// CHECK:         %[[P:.*]] = nano.exp %[[D]]
// CHECK:         %[[M:.*]] = nano.sub %[[P]], %{{.*}} : tensor<512x1024xf32>
// CHECK:         %[[HERE:.*]] = nano.mul %[[M]], %{{.*}} : tensor<512x1024xf32>
// CHECK:         %[[ROWS:.*]] = nano.broadcast %{{.*}} dims [0] : tensor<512xf32> -> tensor<512x1024xf32>
// CHECK:         %[[OTHERS:.*]] = nano.mul %[[P]], %[[ROWS]]
// CHECK:         %[[G:.*]] = nano.select eq, %{{.*}}, %{{.*}}, %[[HERE]], %[[OTHERS]]
// CHECK:         nano.cast %[[G]] : tensor<512x1024xf32> -> tensor<512x1024xbf16>
nano.program @plain_gradient(%z: tensor<512x1024xbf16>, %t: tensor<512xi32>, %w: tensor<512xf32>) -> (tensor<512xf32>, tensor<512x1024xbf16>) {
  %one = nano.constant 1.0 : tensor<512x1024xf32>
  %x = nano.cast %z : tensor<512x1024xbf16> -> tensor<512x1024xf32>
  %loss, %lse = nano.cross_entropy %x, %t : (tensor<512x1024xf32>, tensor<512xi32>) -> (tensor<512xf32>, tensor<512xf32>)
  %b = nano.broadcast %lse dims [0] : tensor<512xf32> -> tensor<512x1024xf32>
  %d = nano.sub %x, %b : tensor<512x1024xf32>
  %p = nano.exp %d : tensor<512x1024xf32>
  %i = nano.iota 1 : tensor<512x1024xi32>
  %r = nano.broadcast %t dims [0] : tensor<512xi32> -> tensor<512x1024xi32>
  %m = nano.sub %p, %one : tensor<512x1024xf32>
  %s = nano.select eq, %i, %r, %m, %p : tensor<512x1024xi32>, tensor<512x1024xf32>
  %scale = nano.broadcast %w dims [0] : tensor<512xf32> -> tensor<512x1024xf32>
  %y = nano.mul %s, %scale : tensor<512x1024xf32>
  %g = nano.cast %y : tensor<512x1024xf32> -> tensor<512x1024xbf16>
  nano.return %loss, %g : tensor<512xf32>, tensor<512x1024xbf16>
}

// -----

// A factor of all rows and columns may be a vector of one number.
// CHECK-LABEL: nano.program @one_factor
// CHECK:         %[[P:.*]] = nano.exp
// CHECK:         %[[ROWS:.*]] = nano.broadcast %{{.*}} dims [0] : tensor<1xf32> -> tensor<512xf32>
// CHECK:         nano.mul %[[ROWS]], %{{.*}} : tensor<512xf32>
// CHECK:         nano.select eq
nano.program @one_factor(%z: tensor<512x1024xbf16>, %t: tensor<512xi32>, %v: tensor<1xf32>, %w: tensor<512xf32>) -> (tensor<512xf32>, tensor<512x1024xbf16>) {
  %one = nano.constant 1.0 : tensor<512x1024xf32>
  %x = nano.cast %z : tensor<512x1024xbf16> -> tensor<512x1024xf32>
  %loss, %lse = nano.cross_entropy %x, %t : (tensor<512x1024xf32>, tensor<512xi32>) -> (tensor<512xf32>, tensor<512xf32>)
  %b = nano.broadcast %lse dims [0] : tensor<512xf32> -> tensor<512x1024xf32>
  %d = nano.sub %x, %b : tensor<512x1024xf32>
  %p = nano.exp %d : tensor<512x1024xf32>
  %i = nano.iota 1 : tensor<512x1024xi32>
  %r = nano.broadcast %t dims [0] : tensor<512xi32> -> tensor<512x1024xi32>
  %m = nano.sub %p, %one : tensor<512x1024xf32>
  %s = nano.select eq, %i, %r, %m, %p : tensor<512x1024xi32>, tensor<512x1024xf32>
  %all = nano.broadcast %v dims [0] : tensor<1xf32> -> tensor<512x1024xf32>
  %scale = nano.broadcast %w dims [0] : tensor<512xf32> -> tensor<512x1024xf32>
  %y = nano.mul %s, %all : tensor<512x1024xf32>
  %q = nano.mul %y, %scale : tensor<512x1024xf32>
  %g = nano.cast %q : tensor<512x1024xf32> -> tensor<512x1024xbf16>
  nano.return %loss, %g : tensor<512xf32>, tensor<512x1024xbf16>
}

// -----

// Exponentials that a model writes with its own maximum are reused too.
// CHECK-LABEL: nano.program @own_maximum
// CHECK:         nano.reduce max
// CHECK:         %[[E:.*]] = nano.exp
// CHECK:         %[[S:.*]] = nano.reduce sum %[[E]] dims [1]
// CHECK:         %[[I:.*]] = nano.div %{{.*}}, %[[S]] : tensor<512xf32>
// CHECK:         %[[B:.*]] = nano.broadcast %[[I]] dims [0]
// CHECK:         nano.mul %[[E]], %[[B]]
// CHECK-NOT:     nano.exp
// CHECK:       nano.return
nano.program @own_maximum(%x: tensor<512x1024xf32>) -> tensor<512x1024xf32> {
  %m = nano.reduce max %x dims [1] : tensor<512x1024xf32> -> tensor<512xf32>
  %r = nano.broadcast %m dims [0] : tensor<512xf32> -> tensor<512x1024xf32>
  %a = nano.sub %x, %r : tensor<512x1024xf32>
  %e = nano.exp %a : tensor<512x1024xf32>
  %s = nano.reduce sum %e dims [1] : tensor<512x1024xf32> -> tensor<512xf32>
  %l = nano.log %s : tensor<512xf32>
  %lse = nano.add %m, %l : tensor<512xf32>
  %b = nano.broadcast %lse dims [0] : tensor<512xf32> -> tensor<512x1024xf32>
  %d = nano.sub %x, %b : tensor<512x1024xf32>
  %p = nano.exp %d : tensor<512x1024xf32>
  nano.return %p : tensor<512x1024xf32>
}

// -----

// A log-sum-exp over other dimensions than the last has its maxima first; infinite ones are not subtracted.
// CHECK-LABEL: nano.program @log_sum_exp_of_columns
// CHECK-NOT:     logsumexp
// CHECK:         %[[M:.*]] = nano.reduce max %{{.*}} dims [1] : tensor<1x12x1024xf32> -> tensor<1x1024xf32>
// CHECK-NOT:     logsumexp
// CHECK:         nano.select lt
// CHECK:         nano.exp
// CHECK:         nano.reduce sum
// CHECK-NOT:     logsumexp
// CHECK:       nano.return
nano.program @log_sum_exp_of_columns(%x: tensor<12x1024xf32>) -> tensor<1024xf32> {
  %y = nano.reduce logsumexp %x dims [0] : tensor<12x1024xf32> -> tensor<1024xf32>
  nano.return %y : tensor<1024xf32>
}

// -----

// Over all dimensions: that of the rows', as one row.
// CHECK-LABEL: nano.program @log_sum_exp_of_all
// CHECK:         %[[R:.*]] = nano.reduce logsumexp %{{.*}} dims [1] : tensor<12x1024xf32> -> tensor<12xf32>
// CHECK:         nano.reduce logsumexp %{{.*}} dims [1] : tensor<1x12xf32> -> tensor<1xf32>
// CHECK:       nano.return
nano.program @log_sum_exp_of_all(%x: tensor<12x1024xf32>) -> tensor<f32> {
  %y = nano.reduce logsumexp %x dims [0, 1] : tensor<12x1024xf32> -> tensor<f32>
  nano.return %y : tensor<f32>
}

// -----

// A cap so wide that exponentials below it vanish is none.
// CHECK-LABEL: nano.program @wide_cap
// CHECK:         nano.reduce logsumexp
nano.program @wide_cap(%z: tensor<512x1024xf32>, %t: tensor<512xi32>) -> tensor<512xf32> {
  %c = nano.constant 50.0 : tensor<512x1024xf32>
  %h = nano.tanh %z : tensor<512x1024xf32>
  %x = nano.mul %h, %c : tensor<512x1024xf32>
  %loss, %lse = nano.cross_entropy %x, %t : (tensor<512x1024xf32>, tensor<512xi32>) -> (tensor<512xf32>, tensor<512xf32>)
  nano.return %loss : tensor<512xf32>
}

// -----

// An exponential of the loss that another kernel needs does not cross memory for it: that kernel has its own.
// CHECK-LABEL: nano.program @another_kernel
// CHECK:       nano.fused
// CHECK:         nano.yield %{{.*}}, %{{.*}} : tensor<512xf32>, tensor<512xf32>
// CHECK:       nano.matmul
// CHECK:       nano.fused
// CHECK:         nano.exp
// CHECK:         nano.yield
nano.program @another_kernel(%x: tensor<512x512xf32>, %t: tensor<512xi32>, %v: tensor<512x512xf32>) -> (tensor<512xf32>, tensor<512x512xf32>) {
  %loss, %lse = nano.cross_entropy %x, %t : (tensor<512x512xf32>, tensor<512xi32>) -> (tensor<512xf32>, tensor<512xf32>)
  %l = nano.broadcast %loss dims [0] : tensor<512xf32> -> tensor<512x512xf32>
  %q = nano.matmul %l, %v : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %b = nano.broadcast %lse dims [0] : tensor<512xf32> -> tensor<512x512xf32>
  %d = nano.sub %x, %b : tensor<512x512xf32>
  %p = nano.exp %d : tensor<512x512xf32>
  %g = nano.mul %p, %q : tensor<512x512xf32>
  nano.return %loss, %g : tensor<512xf32>, tensor<512x512xf32>
}

// -----

// A path through a product keeps its producer and its consumer apart.
// CHECK-LABEL: nano.program @through_a_product
// CHECK:       %[[A:.*]] = nano.fused(%arg0)
// CHECK:       %[[P:.*]] = nano.matmul %[[A]], %arg1
// CHECK:       nano.fused(%{{.*}}, %{{.*}})
// CHECK:         nano.add
nano.program @through_a_product(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %a = nano.exp %x : tensor<64x64xf32>
  %p = nano.matmul %a, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = nano.tanh %p : tensor<64x64xf32>
  %y = nano.add %a, %s : tensor<64x64xf32>
  nano.return %y : tensor<64x64xf32>
}

// -----

// What only one kernel needs belongs to it, though its operand is made elsewhere: %m, of two early values, is not written out.
// CHECK-LABEL: nano.program @only_reader
// CHECK:       %[[X:.*]] = nano.fused(%arg0) : (tensor<512x64xbf16>) -> tensor<512x64xbf16>
// CHECK:         nano.exp
// CHECK-NOT:     nano.mul
// CHECK:       %[[P:.*]] = nano.matmul %[[X]], %arg1
// CHECK:       nano.fused(%{{.*}}, %{{.*}}) : (tensor<512x64xbf16>, tensor<512x64xbf16>) -> tensor<512x64xbf16>
// CHECK:         nano.mul
// CHECK:         nano.add
nano.program @only_reader(%a: tensor<512x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<512x64xbf16> {
  %c = nano.constant 3.0 : tensor<512x64xf32>
  %f = nano.cast %a : tensor<512x64xbf16> -> tensor<512x64xf32>
  %e = nano.exp %f : tensor<512x64xf32>
  %x = nano.cast %e : tensor<512x64xf32> -> tensor<512x64xbf16>
  %xf = nano.cast %x : tensor<512x64xbf16> -> tensor<512x64xf32>
  %m = nano.mul %xf, %c : tensor<512x64xf32>
  %p = nano.matmul %x, %w : (tensor<512x64xbf16>, tensor<64x64xbf16>) -> tensor<512x64xbf16>
  %pf = nano.cast %p : tensor<512x64xbf16> -> tensor<512x64xf32>
  %s = nano.add %pf, %m : tensor<512x64xf32>
  %y = nano.cast %s : tensor<512x64xf32> -> tensor<512x64xbf16>
  nano.return %y : tensor<512x64xbf16>
}

// -----

// A value that the backward pass recomputes is not made by the forward kernel that makes what it rests on: %h crosses, %u and %v do not.
// CHECK-LABEL: nano.program @recomputed
// CHECK:       %[[F:.*]]:2 = nano.fused(%arg0) : (tensor<512x64xf32>) -> (tensor<512x64xbf16>, tensor<512x64xbf16>)
// CHECK:       nano.matmul %[[F]]#1
// CHECK:       nano.fused(%[[F]]#0, %{{.*}}) : (tensor<512x64xbf16>, tensor<512x64xbf16>) -> (tensor<512x64xbf16>, tensor<512x64xbf16>)
nano.program @recomputed(%p: tensor<512x64xf32>, %w: tensor<64x64xbf16>) -> (tensor<512x64xbf16>, tensor<64x64xf32>) {
  %e = nano.neg %p : tensor<512x64xf32>
  %h = nano.cast %e : tensor<512x64xf32> -> tensor<512x64xbf16>
  %hf = nano.cast %h : tensor<512x64xbf16> -> tensor<512x64xf32>
  %t = nano.tanh %hf : tensor<512x64xf32>
  %y = nano.cast %t : tensor<512x64xf32> -> tensor<512x64xbf16>
  %g = nano.matmul %y, %w : (tensor<512x64xbf16>, tensor<64x64xbf16>) -> tensor<512x64xbf16>
  %hf2 = nano.cast %h : tensor<512x64xbf16> -> tensor<512x64xf32>
  %u = nano.mul %hf2, %hf2 : tensor<512x64xf32>
  %v = nano.tanh %u : tensor<512x64xf32>
  %y2 = nano.cast %v : tensor<512x64xf32> -> tensor<512x64xbf16>
  %gf = nano.cast %g : tensor<512x64xbf16> -> tensor<512x64xf32>
  %uv = nano.mul %u, %v : tensor<512x64xf32>
  %d = nano.mul %gf, %uv : tensor<512x64xf32>
  %dx = nano.cast %d : tensor<512x64xf32> -> tensor<512x64xbf16>
  %dw = nano.matmul %y2, %dx {transpose_a} : (tensor<512x64xbf16>, tensor<512x64xbf16>) -> tensor<64x64xf32>
  nano.return %dx, %dw : tensor<512x64xbf16>, tensor<64x64xf32>
}

// -----

// Two readers of one large tensor share a kernel.
// CHECK-LABEL: nano.program @siblings
// CHECK:       %[[BOTH:.*]]:2 = nano.fused(%arg0)
// CHECK-NOT:   nano.fused
nano.program @siblings(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>) {
  %a = nano.exp %x : tensor<64x64xf32>
  %b = nano.reduce sum %x dims [1] : tensor<64x64xf32> -> tensor<64xf32>
  nano.return %a, %b : tensor<64x64xf32>, tensor<64xf32>
}

// -----

// A vector of columns is not worth a kernel of two tensors that are much larger, as logits of two chunks and their bias.
// CHECK-LABEL: nano.program @siblings_of_columns
// CHECK:       nano.fused(
// CHECK:         nano.yield %{{[0-9]+}} : tensor<2048x1024xf32>
// CHECK:       nano.fused(
// CHECK:         nano.yield %{{[0-9]+}} : tensor<2048x1024xf32>
nano.program @siblings_of_columns(%x: tensor<2048x1024xf32>, %y: tensor<2048x1024xf32>, %b: tensor<1024xf32>) -> (tensor<2048x1024xf32>, tensor<2048x1024xf32>) {
  %c = nano.broadcast %b dims [1] : tensor<1024xf32> -> tensor<2048x1024xf32>
  %p = nano.add %x, %c : tensor<2048x1024xf32>
  %q = nano.add %y, %c : tensor<2048x1024xf32>
  nano.return %p, %q : tensor<2048x1024xf32>, tensor<2048x1024xf32>
}

// -----

// A reader shares a kernel with the next one that can be a kernel with it: sums of columns stand between two that go along rows.
// CHECK-LABEL: nano.program @siblings_apart
// CHECK:       nano.fused({{.*}}) : (tensor<64x64x96xf32>) -> tensor<64x96xf32>
// CHECK:       %[[BOTH:.*]]:2 = nano.fused(%arg0) : (tensor<4096x96xf32>) -> (tensor<4096x96xf32>, tensor<4096xf32>) {
// CHECK:       nano.return %[[BOTH]]#0, %{{.*}}, %[[BOTH]]#1
nano.program @siblings_apart(%x: tensor<4096x96xf32>) -> (tensor<4096x96xf32>, tensor<96xf32>, tensor<4096xf32>) {
  %m = nano.reduce max %x dims [1] : tensor<4096x96xf32> -> tensor<4096xf32>
  %w = nano.broadcast %m dims [0] : tensor<4096xf32> -> tensor<4096x96xf32>
  %a = nano.sub %x, %w : tensor<4096x96xf32>
  %b = nano.reduce sum %x dims [0] : tensor<4096x96xf32> -> tensor<96xf32>
  %c = nano.reduce sum %x dims [1] : tensor<4096x96xf32> -> tensor<4096xf32>
  nano.return %a, %b, %c : tensor<4096x96xf32>, tensor<96xf32>, tensor<4096xf32>
}

// -----

// A sum over many rows is split into a fixed number of parts, whatever the number of threads.
// CHECK-LABEL: nano.program @bias_gradient
// CHECK:       %[[V:.*]] = nano.reshape %arg0 : tensor<4096x96xf32> -> tensor<64x64x96xf32>
// CHECK:       %[[P:.*]] = nano.fused(%[[V]]) : (tensor<64x64x96xf32>) -> tensor<64x96xf32>
// CHECK:       nano.fused(%{{.*}}) : (tensor<1x64x96xf32>) -> tensor<1x96xf32>
nano.program @bias_gradient(%x: tensor<4096x96xf32>) -> tensor<96xf32> {
  %b = nano.reduce sum %x dims [0] : tensor<4096x96xf32> -> tensor<96xf32>
  nano.return %b : tensor<96xf32>
}

// -----

// The derivatives of slices arrive padded with zeros; their sum is a concat, with no arithmetic.
// CHECK-LABEL: nano.program @padded_slices
// CHECK-NOT:   nano.add
// CHECK:       %[[C:.*]] = nano.concat %arg0, %arg1, %arg2 dim 1
// CHECK-NEXT:  nano.return %[[C]]
nano.program @padded_slices(%q: tensor<8x1x16xf32>, %k: tensor<8x1x16xf32>, %v: tensor<8x1x16xf32>) -> tensor<8x3x16xf32> {
  %z1 = nano.constant 0.0 : tensor<8x1x16xf32>
  %z2 = nano.constant 0.0 : tensor<8x2x16xf32>
  %a = nano.concat %q, %z2 dim 1 : (tensor<8x1x16xf32>, tensor<8x2x16xf32>) -> tensor<8x3x16xf32>
  %b = nano.concat %z1, %k, %z1 dim 1 : (tensor<8x1x16xf32>, tensor<8x1x16xf32>, tensor<8x1x16xf32>) -> tensor<8x3x16xf32>
  %c = nano.concat %z2, %v dim 1 : (tensor<8x2x16xf32>, tensor<8x1x16xf32>) -> tensor<8x3x16xf32>
  %ab = nano.add %a, %b : tensor<8x3x16xf32>
  %abc = nano.add %ab, %c : tensor<8x3x16xf32>
  nano.return %abc : tensor<8x3x16xf32>
}

// -----

// A state is read before it is replaced, and the kernel that replaces it stands between.
// CHECK-LABEL: module
// CHECK:       nano.load @p
// CHECK-NEXT:  nano.fused
// CHECK:       nano.store
module {
  nano.state @p : tensor<64xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
  nano.program @update(%g: tensor<64xf32>) {
    %p = nano.load @p : tensor<64xf32>
    %n = nano.sub %p, %g : tensor<64xf32>
    nano.store %n, @p : tensor<64xf32>
    nano.return
  }
}

// -----

// What reads a sum of columns waits for the last row: it is no part of the kernel that sums, though both read %x.
// CHECK-LABEL: nano.program @columns_of_middle_rows
// CHECK:       %[[S:.*]] = nano.fused(%arg0) : (tensor<128x2x8xf32>) -> tensor<128x8xf32> {
// CHECK:         nano.reduce sum
// CHECK:       }
// CHECK-NEXT:  %[[Y:.*]] = nano.fused(%[[S]], %arg0) :
// CHECK-NOT:     nano.reduce
// CHECK:       nano.return %[[Y]]
nano.program @columns_of_middle_rows(%x: tensor<128x2x8xf32>) -> tensor<128x2x8xf32> {
  %s = nano.reduce sum %x dims [1] : tensor<128x2x8xf32> -> tensor<128x8xf32>
  %b = nano.broadcast %s dims [0, 2] : tensor<128x8xf32> -> tensor<128x2x8xf32>
  %y = nano.mul %x, %b : tensor<128x2x8xf32>
  nano.return %y : tensor<128x2x8xf32>
}

// -----

// A gather reads other rows than the one at hand: what makes its table is a kernel of its own, though the sum reads the
// same table in place.
// CHECK-LABEL: nano.program @gathered_and_added
// CHECK:       %[[Y:.*]] = nano.fused(%arg0) : (tensor<64x16xf32>) -> tensor<64x16xf32> {
// CHECK:         nano.mul
// CHECK-NOT:     nano.gather
// CHECK:       }
// CHECK-NEXT:  %[[Z:.*]] = nano.fused(%[[Y]], %arg1) :
// CHECK:         nano.gather
// CHECK:         nano.add
// CHECK:       nano.return %[[Z]]
nano.program @gathered_and_added(%x: tensor<64x16xf32>, %ids: tensor<64xi32>) -> tensor<64x16xf32> {
  %y = nano.mul %x, %x : tensor<64x16xf32>
  %g = nano.gather %y, %ids : (tensor<64x16xf32>, tensor<64xi32>) -> tensor<64x16xf32>
  %z = nano.add %y, %g : tensor<64x16xf32>
  nano.return %z : tensor<64x16xf32>
}

// -----

// So it is where both read the table as f32, by casts that are computed where they are read.
// CHECK-LABEL: nano.program @gathered_by_a_cast
// CHECK:       %[[Y:.*]] = nano.fused(%arg0) : (tensor<64x16xf32>) -> tensor<64x16xbf16> {
// CHECK:         nano.reduce
// CHECK-NOT:     nano.gather
// CHECK:       }
// CHECK-NEXT:  %[[Z:.*]] = nano.fused(%[[Y]], %arg1) :
// CHECK:         nano.gather
// CHECK:         nano.add
// CHECK:       nano.return %[[Z]]
nano.program @gathered_by_a_cast(%x: tensor<64x16xf32>, %ids: tensor<64xi32>) -> tensor<64x16xf32> {
  %s = nano.reduce sum %x dims [1] : tensor<64x16xf32> -> tensor<64xf32>
  %b = nano.broadcast %s dims [0] : tensor<64xf32> -> tensor<64x16xf32>
  %d = nano.sub %x, %b : tensor<64x16xf32>
  %y = nano.cast %d : tensor<64x16xf32> -> tensor<64x16xbf16>
  %w = nano.cast %y : tensor<64x16xbf16> -> tensor<64x16xf32>
  %g = nano.gather %w, %ids : (tensor<64x16xf32>, tensor<64xi32>) -> tensor<64x16xf32>
  %z = nano.add %w, %g : tensor<64x16xf32>
  nano.return %z : tensor<64x16xf32>
}

// -----

// Column reductions of other lengths walk over the rows in other parts: they are kernels of their own.
// CHECK-LABEL: nano.program @columns_in_other_parts
// CHECK:       %[[Y:.*]]:2 = nano.fused(%arg0)
// CHECK:         nano.mul
// CHECK-NOT:     }
// CHECK:         nano.reduce
// CHECK-NOT:     nano.reduce
// CHECK:       }
// CHECK:       nano.fused(
// CHECK:         nano.reduce
// CHECK:       nano.return
nano.program @columns_in_other_parts(%x: tensor<2048x16xf32>) -> (tensor<64x16xf32>, tensor<16x16xf32>) {
  %y = nano.mul %x, %x : tensor<2048x16xf32>
  %a = nano.reshape %y : tensor<2048x16xf32> -> tensor<64x32x16xf32>
  %s = nano.reduce sum %a dims [1] : tensor<64x32x16xf32> -> tensor<64x16xf32>
  %b = nano.reshape %y : tensor<2048x16xf32> -> tensor<16x128x16xf32>
  %m = nano.reduce max %b dims [1] : tensor<16x128x16xf32> -> tensor<16x16xf32>
  nano.return %s, %m : tensor<64x16xf32>, tensor<16x16xf32>
}
