// RUN: nano-opt %s -split-input-file -nano-shift-losses='losses=product' | FileCheck %s
// RUN: nano-opt %s -split-input-file -nano-shift-losses='losses=logits' | FileCheck %s --check-prefix=LOGITS
// LOGITS-NOT: nano.exp_matmul

// Columns that alignment has added have no exponentials; a mean's factor is one number for all.
// CHECK-LABEL: @mean
// CHECK-SAME: (%[[X:.*]]: tensor<256x64xbf16>, %[[W:.*]]: tensor<128x64xbf16>, %[[T:.*]]: tensor<256xi32>)
// CHECK: %[[ROWS:.*]] = nano.gather %[[W]], %[[T]]
// CHECK: %[[PICKED:.*]] = nano.reduce sum {{.*}} dims [1] : tensor<256x64xf32> -> tensor<256xf32>
// CHECK: %[[SHIFT:.*]] = nano.add %[[PICKED]], {{.*}} : tensor<256xf32>
// CHECK: %[[E:.*]], %[[SUM:.*]], %[[LARGEST:.*]] = nano.exp_matmul %[[X]], %[[W]], %[[T]], %[[SHIFT]] {columns = 100 : i64}
// CHECK: %[[ABOVE:.*]] = nano.add %[[LARGEST]],
// CHECK: %[[OWN:.*]] = nano.exp
// CHECK: %[[ALL:.*]] = nano.add %[[SUM]], %[[OWN]]
// CHECK: %[[LOG:.*]] = nano.log %[[ALL]]
// CHECK: %[[LOSS:.*]] = nano.add %[[LOG]], %[[ABOVE]]
// CHECK-NOT: nano.cross_entropy
// CHECK-NOT: tensor<256x128xf32>
// CHECK: %[[F:.*]] = nano.div {{.*}}, %[[ALL]]
// CHECK: %[[SCALED:.*]] = nano.cast {{.*}} : tensor<256x64xf32> -> tensor<256x64xbf16>
// CHECK: %[[DW:.*]] = nano.matmul %[[E]], %[[SCALED]] {transpose_a}
// CHECK: %[[DX:.*]] = nano.matmul %[[E]], %[[W]] :
// CHECK: %[[SLICE:.*]] = nano.slice %[[DW]] dim 0 at 0
// CHECK: %[[WIDE:.*]] = nano.cast %[[SLICE]] : tensor<100x64xbf16> -> tensor<100x64xf32>
// CHECK: %[[ADDED:.*]] = nano.scatter_add {{.*}}, %[[T]] : (tensor<256x64xf32>, tensor<256xi32>) -> tensor<100x64xf32>
// CHECK: %[[GRADIENT:.*]] = nano.add %[[WIDE]], %[[ADDED]]
// CHECK: nano.return %[[LOSS]], {{.*}}, %[[GRADIENT]]
nano.program @mean(%x: tensor<256x64xbf16>, %w: tensor<128x64xbf16>, %t: tensor<256xi32>)
    -> (tensor<256xf32>, tensor<256x64xbf16>, tensor<100x64xf32>) {
  %n = nano.constant 100.0 : tensor<256x128xi32>
  %none = nano.constant -1.0e+30 : tensor<256x128xf32>
  %zero = nano.constant 0.0 : tensor<256x128xf32>
  %minus = nano.constant -1.0 : tensor<256x128xf32>
  %share = nano.constant 0.25 : tensor<256x128xf32>
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x64xbf16>, tensor<128x64xbf16>) -> tensor<256x128xbf16>
  %f = nano.cast %z : tensor<256x128xbf16> -> tensor<256x128xf32>
  %i = nano.iota 1 : tensor<256x128xi32>
  %m = nano.select lt, %i, %n, %f, %none : tensor<256x128xi32>, tensor<256x128xf32>
  %loss, %lse = nano.cross_entropy %m, %t : (tensor<256x128xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  %l = nano.broadcast %lse dims [0] : tensor<256xf32> -> tensor<256x128xf32>
  %d = nano.sub %m, %l : tensor<256x128xf32>
  %p = nano.exp %d : tensor<256x128xf32>
  %c = nano.broadcast %t dims [0] : tensor<256xi32> -> tensor<256x128xi32>
  %q = nano.add %p, %minus : tensor<256x128xf32>
  %o = nano.select eq, %i, %c, %q, %p : tensor<256x128xi32>, tensor<256x128xf32>
  %g = nano.mul %o, %share : tensor<256x128xf32>
  %k = nano.select lt, %i, %n, %g, %zero : tensor<256x128xi32>, tensor<256x128xf32>
  %dz = nano.cast %k : tensor<256x128xf32> -> tensor<256x128xbf16>
  %dw = nano.matmul %dz, %x {transpose_a} : (tensor<256x128xbf16>, tensor<256x64xbf16>) -> tensor<128x64xbf16>
  %dx = nano.matmul %dz, %w : (tensor<256x128xbf16>, tensor<128x64xbf16>) -> tensor<256x64xbf16>
  %s = nano.slice %dw dim 0 at 0 : tensor<128x64xbf16> -> tensor<100x64xbf16>
  %r = nano.cast %s : tensor<100x64xbf16> -> tensor<100x64xf32>
  nano.return %loss, %dx, %r : tensor<256xf32>, tensor<256x64xbf16>, tensor<100x64xf32>
}

// -----

// A loss of frozen weights has one product with its gradient; without gradient it stays as it is.
// CHECK-LABEL: @frozen
// CHECK: nano.exp_matmul
// CHECK-NOT: nano.scatter_add
// CHECK-LABEL: @measured
// CHECK: nano.cross_entropy
nano.program @frozen(%x: tensor<256x64xbf16>, %w: tensor<128x64xbf16>, %t: tensor<256xi32>, %a: tensor<256xf32>) -> (tensor<256xf32>, tensor<256x64xbf16>) {
  %minus = nano.constant -1.0 : tensor<256x128xf32>
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x64xbf16>, tensor<128x64xbf16>) -> tensor<256x128xbf16>
  %f = nano.cast %z : tensor<256x128xbf16> -> tensor<256x128xf32>
  %loss, %lse = nano.cross_entropy %f, %t : (tensor<256x128xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  %l = nano.broadcast %lse dims [0] : tensor<256xf32> -> tensor<256x128xf32>
  %d = nano.sub %f, %l : tensor<256x128xf32>
  %p = nano.exp %d : tensor<256x128xf32>
  %i = nano.iota 1 : tensor<256x128xi32>
  %c = nano.broadcast %t dims [0] : tensor<256xi32> -> tensor<256x128xi32>
  %q = nano.add %p, %minus : tensor<256x128xf32>
  %o = nano.select eq, %i, %c, %q, %p : tensor<256x128xi32>, tensor<256x128xf32>
  %b = nano.broadcast %a dims [0] : tensor<256xf32> -> tensor<256x128xf32>
  %g = nano.mul %o, %b : tensor<256x128xf32>
  %dz = nano.cast %g : tensor<256x128xf32> -> tensor<256x128xbf16>
  %dx = nano.matmul %dz, %w : (tensor<256x128xbf16>, tensor<128x64xbf16>) -> tensor<256x64xbf16>
  nano.return %loss, %dx : tensor<256xf32>, tensor<256x64xbf16>
}
nano.program @measured(%x: tensor<256x64xbf16>, %w: tensor<128x64xbf16>, %t: tensor<256xi32>) -> tensor<256xf32> {
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x64xbf16>, tensor<128x64xbf16>) -> tensor<256x128xbf16>
  %f = nano.cast %z : tensor<256x128xbf16> -> tensor<256x128xf32>
  %loss, %lse = nano.cross_entropy %f, %t : (tensor<256x128xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  nano.return %loss : tensor<256xf32>
}
