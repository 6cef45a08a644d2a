// Where a group would write a tensor for another that it can make from fewer bytes, the other makes it again.
// RUN: nano-opt %s -nano-fuse -nano-verify-fused -split-input-file | FileCheck %s

// x − mean in f32 is read from the norm's bf16 x and the means, one a row, and crosses memory nowhere.
// CHECK-LABEL: nano.program @centered
// CHECK:       %[[X:.*]] = nano.matmul
// CHECK:       %[[NORM:.*]]:2 = nano.fused(%[[X]]) : (tensor<8192x768xbf16>) -> (tensor<8192xf32>, tensor<8192x768xbf16>) {
// CHECK:       nano.fused(%arg2, %[[NORM]]#0, %[[X]]) : (tensor<8192x768xbf16>, tensor<8192xf32>, tensor<8192x768xbf16>) -> tensor<128x768xf32> {
// CHECK:         nano.sub
// CHECK:         nano.reduce sum
nano.program @centered(%p: tensor<8192x64xbf16>, %w: tensor<64x768xbf16>, %g: tensor<8192x768xbf16>) -> (tensor<8192x768xbf16>, tensor<768xf32>) {
  %x = nano.matmul %p, %w : (tensor<8192x64xbf16>, tensor<64x768xbf16>) -> tensor<8192x768xbf16>
  %f = nano.cast %x : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %s = nano.reduce sum %f dims [1] : tensor<8192x768xf32> -> tensor<8192xf32>
  %c = nano.constant 0.001 : tensor<8192xf32>
  %m = nano.mul %s, %c : tensor<8192xf32>
  %b = nano.broadcast %m dims [0] : tensor<8192xf32> -> tensor<8192x768xf32>
  %d = nano.sub %f, %b : tensor<8192x768xf32>
  %q = nano.mul %d, %d : tensor<8192x768xf32>
  %v = nano.reduce sum %q dims [1] : tensor<8192x768xf32> -> tensor<8192xf32>
  %r = nano.rsqrt %v : tensor<8192xf32>
  %rb = nano.broadcast %r dims [0] : tensor<8192xf32> -> tensor<8192x768xf32>
  %n = nano.mul %d, %rb : tensor<8192x768xf32>
  %y = nano.cast %n : tensor<8192x768xf32> -> tensor<8192x768xbf16>
  %gf = nano.cast %g : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %h = nano.mul %gf, %d : tensor<8192x768xf32>
  %sum = nano.reduce sum %h dims [0] : tensor<8192x768xf32> -> tensor<768xf32>
  nano.return %y, %sum : tensor<8192x768xbf16>, tensor<768xf32>
}

// -----

// What is dear to compute is written: an exponential is made once.
// CHECK-LABEL: nano.program @dear
// CHECK:       %[[BOTH:.*]]:2 = nano.fused(%{{.*}}) : (tensor<8192x768xbf16>) -> (tensor<8192x768xf32>, tensor<128x768xf32>) {
// CHECK:         nano.exp
// CHECK:       nano.fused(%[[BOTH]]#0) : (tensor<8192x768xf32>) -> tensor<8192x768xbf16> {
// CHECK-NOT:     nano.exp
// CHECK:       nano.return
nano.program @dear(%p: tensor<8192x64xbf16>, %w: tensor<64x768xbf16>) -> (tensor<8192x768xbf16>, tensor<768xf32>) {
  %x = nano.matmul %p, %w : (tensor<8192x64xbf16>, tensor<64x768xbf16>) -> tensor<8192x768xbf16>
  %f = nano.cast %x : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %d = nano.exp %f : tensor<8192x768xf32>
  %s = nano.reduce sum %d dims [1] : tensor<8192x768xf32> -> tensor<8192xf32>
  %b = nano.broadcast %s dims [0] : tensor<8192xf32> -> tensor<8192x768xf32>
  %n = nano.mul %d, %b : tensor<8192x768xf32>
  %y = nano.cast %n : tensor<8192x768xf32> -> tensor<8192x768xbf16>
  %sum = nano.reduce sum %d dims [0] : tensor<8192x768xf32> -> tensor<768xf32>
  nano.return %y, %sum : tensor<8192x768xbf16>, tensor<768xf32>
}

// -----

// What is made again may itself come from what was: each row without its largest number, again and again. All are made from x, up to the third, which is as much as is worth making again.
// CHECK-LABEL: nano.program @chain
// CHECK:         %[[X:.*]] = nano.matmul
// CHECK-COUNT-3: nano.fused({{.*}}%[[X]]) : ({{.*}}) -> tensor<8192xbf16> {
// CHECK:         %[[THIRD:.*]]:2 = nano.fused({{.*}}%[[X]]) :
// CHECK:         nano.fused(%{{[0-9]+}}, %[[THIRD]]#0) : (tensor<8192xbf16>, tensor<8192x768xbf16>) -> tensor<8192xbf16> {
// CHECK-NOT:     nano.fused
// CHECK:         nano.return
nano.program @chain(%p: tensor<8192x64xbf16>, %w: tensor<64x768xbf16>) -> tensor<8192xbf16> {
  %x = nano.matmul %p, %w : (tensor<8192x64xbf16>, tensor<64x768xbf16>) -> tensor<8192x768xbf16>
  %lowest = nano.constant 0xFFF0000000000000 : tensor<8192x768xbf16>
  %r1 = nano.reduce max %x dims [1] : tensor<8192x768xbf16> -> tensor<8192xbf16>
  %a1 = nano.all_reduce %r1 : tensor<8192xbf16>
  %b1 = nano.broadcast %a1 dims [0] : tensor<8192xbf16> -> tensor<8192x768xbf16>
  %s1 = nano.select eq, %x, %b1, %lowest, %x : tensor<8192x768xbf16>, tensor<8192x768xbf16>
  %r2 = nano.reduce max %s1 dims [1] : tensor<8192x768xbf16> -> tensor<8192xbf16>
  %a2 = nano.all_reduce %r2 : tensor<8192xbf16>
  %b2 = nano.broadcast %a2 dims [0] : tensor<8192xbf16> -> tensor<8192x768xbf16>
  %s2 = nano.select eq, %s1, %b2, %lowest, %s1 : tensor<8192x768xbf16>, tensor<8192x768xbf16>
  %r3 = nano.reduce max %s2 dims [1] : tensor<8192x768xbf16> -> tensor<8192xbf16>
  %a3 = nano.all_reduce %r3 : tensor<8192xbf16>
  %b3 = nano.broadcast %a3 dims [0] : tensor<8192xbf16> -> tensor<8192x768xbf16>
  %s3 = nano.select eq, %s2, %b3, %lowest, %s2 : tensor<8192x768xbf16>, tensor<8192x768xbf16>
  %r4 = nano.reduce max %s3 dims [1] : tensor<8192x768xbf16> -> tensor<8192xbf16>
  %a4 = nano.all_reduce %r4 : tensor<8192xbf16>
  %b4 = nano.broadcast %a4 dims [0] : tensor<8192xbf16> -> tensor<8192x768xbf16>
  %s4 = nano.select eq, %s3, %b4, %lowest, %s3 : tensor<8192x768xbf16>, tensor<8192x768xbf16>
  %r5 = nano.reduce max %s4 dims [1] : tensor<8192x768xbf16> -> tensor<8192xbf16>
  nano.return %r5 : tensor<8192xbf16>
}
