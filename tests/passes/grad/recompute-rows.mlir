// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute | FileCheck %s
// RUN: nano-opt %s -nano-differentiate -cse -nano-recompute=save-bytes=1 | FileCheck %s --check-prefix=SAVED

// A norm of 256 columns about their mean: the backward pass makes it again from the two sums of a row, 256 times fewer bytes than the row,
// of which one would wait for the other. Where bytes are to be saved it waits.
// CHECK-LABEL: nano.program @train
// CHECK:         nano.matmul
// CHECK:         %[[SUM:.*]] = nano.reduce sum %{{.*}} dims [1] : tensor<128x256xf32> -> tensor<128xf32>
// CHECK:         %[[MEAN:.*]] = nano.mul %[[SUM]],
// CHECK:         %[[SQUARES:.*]] = nano.reduce sum %{{.*}} dims [1] : tensor<128x256xf32> -> tensor<128xf32>
// CHECK:         nano.reduce sum %{{.*}} dims [0, 1]
// CHECK-NOT:     nano.reduce
// CHECK:         %[[SQUARE:.*]] = nano.mul %[[SQUARES]],
// CHECK-NEXT:    nano.rsqrt %[[SQUARE]]
// CHECK:         nano.broadcast %[[MEAN]]
// CHECK:         nano.return
// SAVED-LABEL: nano.program @train
// SAVED-COUNT-2: nano.reduce sum %{{.*}} dims [1]
// SAVED:         nano.reduce sum %{{.*}} dims [0, 1]
// SAVED-COUNT-2: nano.reduce sum %{{.*}} dims [1]
// SAVED:         nano.rsqrt
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %w: f64):
  nano.yield %s : f64
}
nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w1 : tensor<256x16xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.state @w2 : tensor<16x256xbf16> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @a}
nano.program @train(%in: tensor<128x16xbf16>) -> tensor<f32> attributes {role = "train"} {
  %w1 = nano.load @w1 : tensor<256x16xbf16>
  %x = nano.matmul %in, %w1 {transpose_b} : (tensor<128x16xbf16>, tensor<256x16xbf16>) -> tensor<128x256xbf16>
  %x32 = nano.cast %x : tensor<128x256xbf16> -> tensor<128x256xf32>
  %t = nano.reduce sum %x32 dims [1] : tensor<128x256xf32> -> tensor<128xf32>
  %k = nano.constant 0.00390625 : tensor<128xf32>
  %mean = nano.mul %t, %k : tensor<128xf32>
  %mb = nano.broadcast %mean dims [0] : tensor<128xf32> -> tensor<128x256xf32>
  %z = nano.sub %x32, %mb : tensor<128x256xf32>
  %sq = nano.mul %z, %z : tensor<128x256xf32>
  %s = nano.reduce sum %sq dims [1] : tensor<128x256xf32> -> tensor<128xf32>
  %c = nano.constant 0.00390625 : tensor<128xf32>
  %m = nano.mul %s, %c : tensor<128xf32>
  %r = nano.rsqrt %m : tensor<128xf32>
  %rb = nano.broadcast %r dims [0] : tensor<128xf32> -> tensor<128x256xf32>
  %n32 = nano.mul %z, %rb : tensor<128x256xf32>
  %n = nano.cast %n32 : tensor<128x256xf32> -> tensor<128x256xbf16>
  %w2 = nano.load @w2 : tensor<16x256xbf16>
  %p = nano.matmul %n, %w2 {transpose_b} : (tensor<128x256xbf16>, tensor<16x256xbf16>) -> tensor<128x16xbf16>
  %pf = nano.cast %p : tensor<128x16xbf16> -> tensor<128x16xf32>
  %q = nano.mul %pf, %pf : tensor<128x16xf32>
  %loss = nano.reduce sum %q dims [0, 1] : tensor<128x16xf32> -> tensor<f32>
  nano.return %loss : tensor<f32>
}
