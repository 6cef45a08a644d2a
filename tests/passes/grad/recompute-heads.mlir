// RUN: split-file %s %t
// RUN: nano-opt %t/normed.mlir -nano-differentiate -canonicalize -cse -nano-recompute | FileCheck %t/normed.mlir
// RUN: nano-opt %t/turned.mlir -nano-differentiate -canonicalize -cse -nano-recompute | FileCheck %t/turned.mlir
// RUN: nano-opt %t/first.mlir -nano-differentiate -canonicalize -cse -nano-recompute | FileCheck %t/first.mlir
// RUN: nano-opt %t/angles.mlir -nano-differentiate -canonicalize -cse -nano-recompute | FileCheck %t/angles.mlir
// RUN: nano-opt %t/signs.mlir -nano-differentiate -canonicalize -cse -nano-recompute | FileCheck %t/signs.mlir
// RUN: nano-opt %t/weighed.mlir -nano-differentiate -canonicalize -cse -nano-recompute | FileCheck %t/weighed.mlir
// RUN: nano-opt %t/normed.mlir -nano-differentiate -canonicalize -cse -nano-recompute=max-ops=0 | FileCheck %t/normed.mlir --check-prefix=OFF

// Queries of a product's rows, which are normalised or turned for attention, or both. The backward pass has them from what attention reads, where that can be taken back.

//--- normed.mlir
// Normalised and then turned: the sum of a row's squares is kept beside what attention reads. With `max-ops` below the ops of that nothing is done.
// CHECK-LABEL: nano.program @train
// CHECK:         %[[S:.*]] = nano.reduce sum %{{.*}} dims [2]
// CHECK:         nano.attention %[[Q:[0-9]+]],
// CHECK-NOT:     nano.slice %{{.*}} dim 1 at 0
// CHECK:         nano.attention_grad %[[Q]],
// CHECK-NOT:     nano.slice %{{.*}} dim 1 at 0
// CHECK:         %[[M:.*]] = nano.mul %[[S]],
// CHECK-NEXT:    %[[I:.*]] = nano.rsqrt %[[M]]
// CHECK:         %[[F:.*]] = nano.cast %[[Q]] : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
// CHECK:         %[[C:.*]] = nano.mul %[[F]],
// CHECK:         %[[B:.*]] = nano.mul %[[F]],
// CHECK-NEXT:    %[[T:.*]] = nano.rotate %[[B]] by 4
// CHECK-NEXT:    %[[N:.*]] = nano.add %[[C]], %[[T]]
// CHECK-NEXT:    %[[A:.*]] = nano.mul %[[M]], %[[I]]
// CHECK-NEXT:    %[[R:.*]] = nano.broadcast %[[A]] dims [0, 1]
// CHECK-NEXT:    nano.mul %[[N]], %[[R]]
// CHECK-NOT:     nano.slice %{{.*}} dim 1 at 0
// OFF-COUNT-2:   nano.rotate
// OFF-NOT:       nano.rotate
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<48x32xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%x: tensor<16x32xbf16>) -> tensor<f32> attributes {role = "train"} {
  %c = nano.iota 0 : tensor<8xi32>
  %four = nano.constant 4.0 : tensor<8xi32>
  %up = nano.sub %c, %four : tensor<8xi32>
  %j = nano.select lt, %c, %four, %c, %up : tensor<8xi32>, tensor<8xi32>
  %jf = nano.cast %j : tensor<8xi32> -> tensor<8xf32>
  %f = nano.exp %jf : tensor<8xf32>
  %t = nano.iota 0 : tensor<16x8xf32>
  %fb = nano.broadcast %f dims [1] : tensor<8xf32> -> tensor<16x8xf32>
  %angle = nano.mul %t, %fb : tensor<16x8xf32>
  %cos = nano.cos %angle : tensor<16x8xf32>
  %sin = nano.sin %angle : tensor<16x8xf32>
  %minus = nano.neg %sin : tensor<16x8xf32>
  %cb = nano.broadcast %c dims [1] : tensor<8xi32> -> tensor<16x8xi32>
  %fourb = nano.constant 4.0 : tensor<16x8xi32>
  %signed = nano.select lt, %cb, %fourb, %sin, %minus : tensor<16x8xi32>, tensor<16x8xf32>
  %cosines = nano.broadcast %cos dims [0, 2] : tensor<16x8xf32> -> tensor<16x2x8xf32>
  %sines = nano.broadcast %signed dims [0, 2] : tensor<16x8xf32> -> tensor<16x2x8xf32>
  %w1 = nano.load @w1 : tensor<48x32xbf16>
  %p = nano.matmul %x, %w1 {transpose_b} : (tensor<16x32xbf16>, tensor<48x32xbf16>) -> tensor<16x48xbf16>
  %h = nano.reshape %p : tensor<16x48xbf16> -> tensor<16x6x8xbf16>
  %xq = nano.slice %h dim 1 at 0 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %k = nano.slice %h dim 1 at 2 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %v = nano.slice %h dim 1 at 4 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %nf = nano.cast %xq : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %ns = nano.mul %nf, %nf : tensor<16x2x8xf32>
  %nm = nano.reduce sum %ns dims [2] : tensor<16x2x8xf32> -> tensor<16x2xf32>
  %ne = nano.constant 1.250000e-01 : tensor<16x2xf32>
  %na = nano.mul %nm, %ne : tensor<16x2xf32>
  %nr = nano.rsqrt %na : tensor<16x2xf32>
  %nb = nano.broadcast %nr dims [0, 1] : tensor<16x2xf32> -> tensor<16x2x8xf32>
  %nn = nano.mul %nf, %nb : tensor<16x2x8xf32>
  %n = nano.cast %nn : tensor<16x2x8xf32> -> tensor<16x2x8xbf16>
  %qf = nano.cast %n : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %qc = nano.mul %qf, %cosines : tensor<16x2x8xf32>
  %qt = nano.rotate %n by 4 : tensor<16x2x8xbf16>
  %qg = nano.cast %qt : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %qs = nano.mul %qg, %sines : tensor<16x2x8xf32>
  %qa = nano.add %qc, %qs : tensor<16x2x8xf32>
  %q = nano.cast %qa : tensor<16x2x8xf32> -> tensor<16x2x8xbf16>
  %first = nano.constant 0.0 : tensor<16xi32>
  %last = nano.iota 0 : tensor<16xi32>
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 2.500000e-01 : (tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<16xi32>, tensor<16xi32>) -> (tensor<16x2x8xbf16>, tensor<16x2xf32>)
  %rows = nano.reshape %y : tensor<16x2x8xbf16> -> tensor<16x16xbf16>
  %w2 = nano.load @w2 : tensor<16x16xbf16>
  %z = nano.matmul %rows, %w2 {transpose_b} : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %loss_ = nano.cast %z : tensor<16x16xbf16> -> tensor<16x16xf32>
  %loss = nano.reduce sum %loss_ dims [0, 1] : tensor<16x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}

//--- turned.mlir
// Turned alone: what attention reads is kept, and the backward pass makes nothing of it; it turns their gradient back.
// CHECK-LABEL: nano.program @train
// CHECK:         nano.rotate
// CHECK:         nano.attention %[[Q:[0-9]+]],
// CHECK-NOT:     nano.rotate
// CHECK:         nano.attention_grad %[[Q]],
// CHECK:         nano.rotate
// CHECK-NOT:     nano.rotate
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<48x32xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%x: tensor<16x32xbf16>) -> tensor<f32> attributes {role = "train"} {
  %c = nano.iota 0 : tensor<8xi32>
  %four = nano.constant 4.0 : tensor<8xi32>
  %up = nano.sub %c, %four : tensor<8xi32>
  %j = nano.select lt, %c, %four, %c, %up : tensor<8xi32>, tensor<8xi32>
  %jf = nano.cast %j : tensor<8xi32> -> tensor<8xf32>
  %f = nano.exp %jf : tensor<8xf32>
  %t = nano.iota 0 : tensor<16x8xf32>
  %fb = nano.broadcast %f dims [1] : tensor<8xf32> -> tensor<16x8xf32>
  %angle = nano.mul %t, %fb : tensor<16x8xf32>
  %cos = nano.cos %angle : tensor<16x8xf32>
  %sin = nano.sin %angle : tensor<16x8xf32>
  %minus = nano.neg %sin : tensor<16x8xf32>
  %cb = nano.broadcast %c dims [1] : tensor<8xi32> -> tensor<16x8xi32>
  %fourb = nano.constant 4.0 : tensor<16x8xi32>
  %signed = nano.select lt, %cb, %fourb, %sin, %minus : tensor<16x8xi32>, tensor<16x8xf32>
  %cosines = nano.broadcast %cos dims [0, 2] : tensor<16x8xf32> -> tensor<16x2x8xf32>
  %sines = nano.broadcast %signed dims [0, 2] : tensor<16x8xf32> -> tensor<16x2x8xf32>
  %w1 = nano.load @w1 : tensor<48x32xbf16>
  %p = nano.matmul %x, %w1 {transpose_b} : (tensor<16x32xbf16>, tensor<48x32xbf16>) -> tensor<16x48xbf16>
  %h = nano.reshape %p : tensor<16x48xbf16> -> tensor<16x6x8xbf16>
  %xq = nano.slice %h dim 1 at 0 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %k = nano.slice %h dim 1 at 2 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %v = nano.slice %h dim 1 at 4 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %qf = nano.cast %xq : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %qc = nano.mul %qf, %cosines : tensor<16x2x8xf32>
  %qt = nano.rotate %xq by 4 : tensor<16x2x8xbf16>
  %qg = nano.cast %qt : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %qs = nano.mul %qg, %sines : tensor<16x2x8xf32>
  %qa = nano.add %qc, %qs : tensor<16x2x8xf32>
  %q = nano.cast %qa : tensor<16x2x8xf32> -> tensor<16x2x8xbf16>
  %first = nano.constant 0.0 : tensor<16xi32>
  %last = nano.iota 0 : tensor<16xi32>
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 2.500000e-01 : (tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<16xi32>, tensor<16xi32>) -> (tensor<16x2x8xbf16>, tensor<16x2xf32>)
  %rows = nano.reshape %y : tensor<16x2x8xbf16> -> tensor<16x16xbf16>
  %w2 = nano.load @w2 : tensor<16x16xbf16>
  %z = nano.matmul %rows, %w2 {transpose_b} : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %loss_ = nano.cast %z : tensor<16x16xbf16> -> tensor<16x16xf32>
  %loss = nano.reduce sum %loss_ dims [0, 1] : tensor<16x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}

//--- first.mlir
// Turned and then normalised: the norm's gradient reads turned rows, which are as far as it goes back.
// CHECK-LABEL: nano.program @train
// CHECK:         nano.attention %[[Q:[0-9]+]],
// CHECK:         nano.attention_grad %[[Q]],
// CHECK-NOT:     nano.slice %{{.*}} dim 1 at 0
// CHECK:         %[[F:.*]] = nano.cast %[[Q]] : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
// CHECK:         %[[R:.*]] = nano.broadcast %{{.*}} dims [0, 1]
// CHECK-NEXT:    nano.mul %[[F]], %[[R]]
// CHECK-NOT:     nano.slice %{{.*}} dim 1 at 0
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<48x32xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%x: tensor<16x32xbf16>) -> tensor<f32> attributes {role = "train"} {
  %c = nano.iota 0 : tensor<8xi32>
  %four = nano.constant 4.0 : tensor<8xi32>
  %up = nano.sub %c, %four : tensor<8xi32>
  %j = nano.select lt, %c, %four, %c, %up : tensor<8xi32>, tensor<8xi32>
  %jf = nano.cast %j : tensor<8xi32> -> tensor<8xf32>
  %f = nano.exp %jf : tensor<8xf32>
  %t = nano.iota 0 : tensor<16x8xf32>
  %fb = nano.broadcast %f dims [1] : tensor<8xf32> -> tensor<16x8xf32>
  %angle = nano.mul %t, %fb : tensor<16x8xf32>
  %cos = nano.cos %angle : tensor<16x8xf32>
  %sin = nano.sin %angle : tensor<16x8xf32>
  %minus = nano.neg %sin : tensor<16x8xf32>
  %cb = nano.broadcast %c dims [1] : tensor<8xi32> -> tensor<16x8xi32>
  %fourb = nano.constant 4.0 : tensor<16x8xi32>
  %signed = nano.select lt, %cb, %fourb, %sin, %minus : tensor<16x8xi32>, tensor<16x8xf32>
  %cosines = nano.broadcast %cos dims [0, 2] : tensor<16x8xf32> -> tensor<16x2x8xf32>
  %sines = nano.broadcast %signed dims [0, 2] : tensor<16x8xf32> -> tensor<16x2x8xf32>
  %w1 = nano.load @w1 : tensor<48x32xbf16>
  %p = nano.matmul %x, %w1 {transpose_b} : (tensor<16x32xbf16>, tensor<48x32xbf16>) -> tensor<16x48xbf16>
  %h = nano.reshape %p : tensor<16x48xbf16> -> tensor<16x6x8xbf16>
  %xq = nano.slice %h dim 1 at 0 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %k = nano.slice %h dim 1 at 2 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %v = nano.slice %h dim 1 at 4 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %t_f = nano.cast %xq : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %t_c = nano.mul %t_f, %cosines : tensor<16x2x8xf32>
  %t_t = nano.rotate %xq by 4 : tensor<16x2x8xbf16>
  %t_g = nano.cast %t_t : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %t_s = nano.mul %t_g, %sines : tensor<16x2x8xf32>
  %t_a = nano.add %t_c, %t_s : tensor<16x2x8xf32>
  %t_ = nano.cast %t_a : tensor<16x2x8xf32> -> tensor<16x2x8xbf16>
  %qf = nano.cast %t_ : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %qs = nano.mul %qf, %qf : tensor<16x2x8xf32>
  %qm = nano.reduce sum %qs dims [2] : tensor<16x2x8xf32> -> tensor<16x2xf32>
  %qe = nano.constant 1.250000e-01 : tensor<16x2xf32>
  %qa = nano.mul %qm, %qe : tensor<16x2xf32>
  %qr = nano.rsqrt %qa : tensor<16x2xf32>
  %qb = nano.broadcast %qr dims [0, 1] : tensor<16x2xf32> -> tensor<16x2x8xf32>
  %qn = nano.mul %qf, %qb : tensor<16x2x8xf32>
  %q = nano.cast %qn : tensor<16x2x8xf32> -> tensor<16x2x8xbf16>
  %first = nano.constant 0.0 : tensor<16xi32>
  %last = nano.iota 0 : tensor<16xi32>
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 2.500000e-01 : (tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<16xi32>, tensor<16xi32>) -> (tensor<16x2x8xbf16>, tensor<16x2xf32>)
  %rows = nano.reshape %y : tensor<16x2x8xbf16> -> tensor<16x16xbf16>
  %w2 = nano.load @w2 : tensor<16x16xbf16>
  %z = nano.matmul %rows, %w2 {transpose_b} : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %loss_ = nano.cast %z : tensor<16x16xbf16> -> tensor<16x16xf32>
  %loss = nano.reduce sum %loss_ dims [0, 1] : tensor<16x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}

//--- angles.mlir
// Cosines and sines of different angles are no rotation.
// CHECK-LABEL: nano.program @train
// CHECK:         nano.attention_grad
// CHECK:         nano.slice %{{.*}} dim 1 at 0
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<48x32xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%x: tensor<16x32xbf16>) -> tensor<f32> attributes {role = "train"} {
  %c = nano.iota 0 : tensor<8xi32>
  %four = nano.constant 4.0 : tensor<8xi32>
  %up = nano.sub %c, %four : tensor<8xi32>
  %j = nano.select lt, %c, %four, %c, %up : tensor<8xi32>, tensor<8xi32>
  %jf = nano.cast %j : tensor<8xi32> -> tensor<8xf32>
  %f = nano.exp %jf : tensor<8xf32>
  %t = nano.iota 0 : tensor<16x8xf32>
  %fb = nano.broadcast %f dims [1] : tensor<8xf32> -> tensor<16x8xf32>
  %angle = nano.mul %t, %fb : tensor<16x8xf32>
  %cos = nano.cos %angle : tensor<16x8xf32>
  %cf = nano.cast %c : tensor<8xi32> -> tensor<8xf32>
  %cfb = nano.broadcast %cf dims [1] : tensor<8xf32> -> tensor<16x8xf32>
  %other = nano.mul %t, %cfb : tensor<16x8xf32>
  %sin = nano.sin %other : tensor<16x8xf32>
  %minus = nano.neg %sin : tensor<16x8xf32>
  %cb = nano.broadcast %c dims [1] : tensor<8xi32> -> tensor<16x8xi32>
  %fourb = nano.constant 4.0 : tensor<16x8xi32>
  %signed = nano.select lt, %cb, %fourb, %sin, %minus : tensor<16x8xi32>, tensor<16x8xf32>
  %cosines = nano.broadcast %cos dims [0, 2] : tensor<16x8xf32> -> tensor<16x2x8xf32>
  %sines = nano.broadcast %signed dims [0, 2] : tensor<16x8xf32> -> tensor<16x2x8xf32>
  %w1 = nano.load @w1 : tensor<48x32xbf16>
  %p = nano.matmul %x, %w1 {transpose_b} : (tensor<16x32xbf16>, tensor<48x32xbf16>) -> tensor<16x48xbf16>
  %h = nano.reshape %p : tensor<16x48xbf16> -> tensor<16x6x8xbf16>
  %xq = nano.slice %h dim 1 at 0 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %k = nano.slice %h dim 1 at 2 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %v = nano.slice %h dim 1 at 4 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %nf = nano.cast %xq : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %ns = nano.mul %nf, %nf : tensor<16x2x8xf32>
  %nm = nano.reduce sum %ns dims [2] : tensor<16x2x8xf32> -> tensor<16x2xf32>
  %ne = nano.constant 1.250000e-01 : tensor<16x2xf32>
  %na = nano.mul %nm, %ne : tensor<16x2xf32>
  %nr = nano.rsqrt %na : tensor<16x2xf32>
  %nb = nano.broadcast %nr dims [0, 1] : tensor<16x2xf32> -> tensor<16x2x8xf32>
  %nn = nano.mul %nf, %nb : tensor<16x2x8xf32>
  %n = nano.cast %nn : tensor<16x2x8xf32> -> tensor<16x2x8xbf16>
  %qf = nano.cast %n : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %qc = nano.mul %qf, %cosines : tensor<16x2x8xf32>
  %qt = nano.rotate %n by 4 : tensor<16x2x8xbf16>
  %qg = nano.cast %qt : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %qs = nano.mul %qg, %sines : tensor<16x2x8xf32>
  %qa = nano.add %qc, %qs : tensor<16x2x8xf32>
  %q = nano.cast %qa : tensor<16x2x8xf32> -> tensor<16x2x8xbf16>
  %first = nano.constant 0.0 : tensor<16xi32>
  %last = nano.iota 0 : tensor<16xi32>
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 2.500000e-01 : (tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<16xi32>, tensor<16xi32>) -> (tensor<16x2x8xbf16>, tensor<16x2xf32>)
  %rows = nano.reshape %y : tensor<16x2x8xbf16> -> tensor<16x16xbf16>
  %w2 = nano.load @w2 : tensor<16x16xbf16>
  %z = nano.matmul %rows, %w2 {transpose_b} : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %loss_ = nano.cast %z : tensor<16x16xbf16> -> tensor<16x16xf32>
  %loss = nano.reduce sum %loss_ dims [0, 1] : tensor<16x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}

//--- signs.mlir
// Nor are sines of one sign.
// CHECK-LABEL: nano.program @train
// CHECK:         nano.attention_grad
// CHECK:         nano.slice %{{.*}} dim 1 at 0
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<48x32xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%x: tensor<16x32xbf16>) -> tensor<f32> attributes {role = "train"} {
  %c = nano.iota 0 : tensor<8xi32>
  %four = nano.constant 4.0 : tensor<8xi32>
  %up = nano.sub %c, %four : tensor<8xi32>
  %j = nano.select lt, %c, %four, %c, %up : tensor<8xi32>, tensor<8xi32>
  %jf = nano.cast %j : tensor<8xi32> -> tensor<8xf32>
  %f = nano.exp %jf : tensor<8xf32>
  %t = nano.iota 0 : tensor<16x8xf32>
  %fb = nano.broadcast %f dims [1] : tensor<8xf32> -> tensor<16x8xf32>
  %angle = nano.mul %t, %fb : tensor<16x8xf32>
  %cos = nano.cos %angle : tensor<16x8xf32>
  %sin = nano.sin %angle : tensor<16x8xf32>
  %minus = nano.neg %sin : tensor<16x8xf32>
  %cb = nano.broadcast %c dims [1] : tensor<8xi32> -> tensor<16x8xi32>
  %fourb = nano.constant 4.0 : tensor<16x8xi32>
  %signed = nano.select lt, %cb, %fourb, %sin, %sin : tensor<16x8xi32>, tensor<16x8xf32>
  %cosines = nano.broadcast %cos dims [0, 2] : tensor<16x8xf32> -> tensor<16x2x8xf32>
  %sines = nano.broadcast %signed dims [0, 2] : tensor<16x8xf32> -> tensor<16x2x8xf32>
  %w1 = nano.load @w1 : tensor<48x32xbf16>
  %p = nano.matmul %x, %w1 {transpose_b} : (tensor<16x32xbf16>, tensor<48x32xbf16>) -> tensor<16x48xbf16>
  %h = nano.reshape %p : tensor<16x48xbf16> -> tensor<16x6x8xbf16>
  %xq = nano.slice %h dim 1 at 0 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %k = nano.slice %h dim 1 at 2 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %v = nano.slice %h dim 1 at 4 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %nf = nano.cast %xq : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %ns = nano.mul %nf, %nf : tensor<16x2x8xf32>
  %nm = nano.reduce sum %ns dims [2] : tensor<16x2x8xf32> -> tensor<16x2xf32>
  %ne = nano.constant 1.250000e-01 : tensor<16x2xf32>
  %na = nano.mul %nm, %ne : tensor<16x2xf32>
  %nr = nano.rsqrt %na : tensor<16x2xf32>
  %nb = nano.broadcast %nr dims [0, 1] : tensor<16x2xf32> -> tensor<16x2x8xf32>
  %nn = nano.mul %nf, %nb : tensor<16x2x8xf32>
  %n = nano.cast %nn : tensor<16x2x8xf32> -> tensor<16x2x8xbf16>
  %qf = nano.cast %n : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %qc = nano.mul %qf, %cosines : tensor<16x2x8xf32>
  %qt = nano.rotate %n by 4 : tensor<16x2x8xbf16>
  %qg = nano.cast %qt : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %qs = nano.mul %qg, %sines : tensor<16x2x8xf32>
  %qa = nano.add %qc, %qs : tensor<16x2x8xf32>
  %q = nano.cast %qa : tensor<16x2x8xf32> -> tensor<16x2x8xbf16>
  %first = nano.constant 0.0 : tensor<16xi32>
  %last = nano.iota 0 : tensor<16xi32>
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 2.500000e-01 : (tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<16xi32>, tensor<16xi32>) -> (tensor<16x2x8xbf16>, tensor<16x2xf32>)
  %rows = nano.reshape %y : tensor<16x2x8xbf16> -> tensor<16x16xbf16>
  %w2 = nano.load @w2 : tensor<16x16xbf16>
  %z = nano.matmul %rows, %w2 {transpose_b} : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %loss_ = nano.cast %z : tensor<16x16xbf16> -> tensor<16x16xf32>
  %loss = nano.reduce sum %loss_ dims [0, 1] : tensor<16x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}

//--- weighed.mlir
// A weight of each column may be zero: what it multiplies is not had from the product.
// CHECK-LABEL: nano.program @train
// CHECK:         nano.attention_grad
// CHECK:         nano.slice %{{.*}} dim 1 at 0
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<48x32xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @scale : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%x: tensor<16x32xbf16>) -> tensor<f32> attributes {role = "train"} {
  %scale = nano.load @scale : tensor<8xf32>
  %c = nano.iota 0 : tensor<8xi32>
  %four = nano.constant 4.0 : tensor<8xi32>
  %up = nano.sub %c, %four : tensor<8xi32>
  %j = nano.select lt, %c, %four, %c, %up : tensor<8xi32>, tensor<8xi32>
  %jf = nano.cast %j : tensor<8xi32> -> tensor<8xf32>
  %f = nano.exp %jf : tensor<8xf32>
  %t = nano.iota 0 : tensor<16x8xf32>
  %fb = nano.broadcast %f dims [1] : tensor<8xf32> -> tensor<16x8xf32>
  %angle = nano.mul %t, %fb : tensor<16x8xf32>
  %cos = nano.cos %angle : tensor<16x8xf32>
  %sin = nano.sin %angle : tensor<16x8xf32>
  %minus = nano.neg %sin : tensor<16x8xf32>
  %cb = nano.broadcast %c dims [1] : tensor<8xi32> -> tensor<16x8xi32>
  %fourb = nano.constant 4.0 : tensor<16x8xi32>
  %signed = nano.select lt, %cb, %fourb, %sin, %minus : tensor<16x8xi32>, tensor<16x8xf32>
  %cosines = nano.broadcast %cos dims [0, 2] : tensor<16x8xf32> -> tensor<16x2x8xf32>
  %sines = nano.broadcast %signed dims [0, 2] : tensor<16x8xf32> -> tensor<16x2x8xf32>
  %w1 = nano.load @w1 : tensor<48x32xbf16>
  %p = nano.matmul %x, %w1 {transpose_b} : (tensor<16x32xbf16>, tensor<48x32xbf16>) -> tensor<16x48xbf16>
  %h = nano.reshape %p : tensor<16x48xbf16> -> tensor<16x6x8xbf16>
  %xq = nano.slice %h dim 1 at 0 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %k = nano.slice %h dim 1 at 2 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %v = nano.slice %h dim 1 at 4 : tensor<16x6x8xbf16> -> tensor<16x2x8xbf16>
  %nf = nano.cast %xq : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %ns = nano.mul %nf, %nf : tensor<16x2x8xf32>
  %nm = nano.reduce sum %ns dims [2] : tensor<16x2x8xf32> -> tensor<16x2xf32>
  %ne = nano.constant 1.250000e-01 : tensor<16x2xf32>
  %na = nano.mul %nm, %ne : tensor<16x2xf32>
  %nr = nano.rsqrt %na : tensor<16x2xf32>
  %nb = nano.broadcast %nr dims [0, 1] : tensor<16x2xf32> -> tensor<16x2x8xf32>
  %nn = nano.mul %nf, %nb : tensor<16x2x8xf32>
  %wide = nano.broadcast %scale dims [2] : tensor<8xf32> -> tensor<16x2x8xf32>
  %ns_ = nano.mul %nn, %wide : tensor<16x2x8xf32>
  %n = nano.cast %ns_ : tensor<16x2x8xf32> -> tensor<16x2x8xbf16>
  %qf = nano.cast %n : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %qc = nano.mul %qf, %cosines : tensor<16x2x8xf32>
  %qt = nano.rotate %n by 4 : tensor<16x2x8xbf16>
  %qg = nano.cast %qt : tensor<16x2x8xbf16> -> tensor<16x2x8xf32>
  %qs = nano.mul %qg, %sines : tensor<16x2x8xf32>
  %qa = nano.add %qc, %qs : tensor<16x2x8xf32>
  %q = nano.cast %qa : tensor<16x2x8xf32> -> tensor<16x2x8xbf16>
  %first = nano.constant 0.0 : tensor<16xi32>
  %last = nano.iota 0 : tensor<16xi32>
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 2.500000e-01 : (tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<16x2x8xbf16>, tensor<16xi32>, tensor<16xi32>) -> (tensor<16x2x8xbf16>, tensor<16x2xf32>)
  %rows = nano.reshape %y : tensor<16x2x8xbf16> -> tensor<16x16xbf16>
  %w2 = nano.load @w2 : tensor<16x16xbf16>
  %z = nano.matmul %rows, %w2 {transpose_b} : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %loss_ = nano.cast %z : tensor<16x16xbf16> -> tensor<16x16xf32>
  %loss = nano.reduce sum %loss_ dims [0, 1] : tensor<16x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}
