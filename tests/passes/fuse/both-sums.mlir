// A group that sums columns joins one that reduces along the rows that it reads.
// RUN: nano-opt %s -nano-fuse=both-sums -nano-verify-fused -split-input-file | FileCheck %s
// RUN: nano-opt %s -nano-fuse -nano-verify-fused -split-input-file | FileCheck %s --check-prefix=APART

// A norm's gradient: Σ dy·x/‖x‖, Σ dy and the sums of what is written come of the pass that writes it, in parts.
// CHECK-LABEL: nano.program @gradient
// CHECK:       %[[ALL:.*]]:4 = nano.fused({{.*}}) : (tensor<8192x768xbf16>, tensor<8192x768xbf16>) -> (tensor<8192x768xbf16>, tensor<128x768xf32>, tensor<128x768xf32>, tensor<128x768xf32>) {
// CHECK-COUNT-5: nano.reduce sum
// CHECK:         nano.yield
// CHECK-NOT:   nano.fused({{.*}}8192x768
// CHECK:       nano.return %[[ALL]]#0
// APART-LABEL: nano.program @gradient
// APART-COUNT-3: nano.fused({{.*}}tensor<8192x768xbf16>
nano.program @gradient(%dy: tensor<8192x768xbf16>, %x: tensor<8192x768xbf16>) -> (tensor<8192x768xbf16>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>) {
  %g = nano.cast %dy : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %f = nano.cast %x : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %q = nano.mul %f, %f : tensor<8192x768xf32>
  %s = nano.reduce sum %q dims [1] : tensor<8192x768xf32> -> tensor<8192xf32>
  %r = nano.rsqrt %s : tensor<8192xf32>
  %rb = nano.broadcast %r dims [0] : tensor<8192xf32> -> tensor<8192x768xf32>
  %n = nano.mul %f, %rb : tensor<8192x768xf32>
  %gn = nano.mul %g, %n : tensor<8192x768xf32>
  %d = nano.reduce sum %gn dims [1] : tensor<8192x768xf32> -> tensor<8192xf32>
  %db = nano.broadcast %d dims [0] : tensor<8192xf32> -> tensor<8192x768xf32>
  %nd = nano.mul %n, %db : tensor<8192x768xf32>
  %e = nano.sub %g, %nd : tensor<8192x768xf32>
  %er = nano.mul %e, %rb : tensor<8192x768xf32>
  %dx = nano.cast %er : tensor<8192x768xf32> -> tensor<8192x768xbf16>
  %dw = nano.reduce sum %gn dims [0] : tensor<8192x768xf32> -> tensor<768xf32>
  %dbias = nano.reduce sum %g dims [0] : tensor<8192x768xf32> -> tensor<768xf32>
  %dxf = nano.cast %dx : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %dc = nano.reduce sum %dxf dims [0] : tensor<8192x768xf32> -> tensor<768xf32>
  nano.return %dx, %dw, %dbias, %dc : tensor<8192x768xbf16>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>
}

// -----

// Sums that read more besides than what is read once stay apart.
// CHECK-LABEL: nano.program @more
// CHECK:       nano.fused({{.*}}) : (tensor<8192x768xbf16>) -> tensor<8192xf32> {
// CHECK:       nano.fused({{.*}}) : (tensor<8192x768xbf16>, tensor<8192x768xbf16>, tensor<8192x768xbf16>) -> tensor<128x768xf32> {
nano.program @more(%x: tensor<8192x768xbf16>, %y: tensor<8192x768xbf16>, %z: tensor<8192x768xbf16>) -> (tensor<8192xf32>, tensor<768xf32>) {
  %f = nano.cast %x : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %s = nano.reduce sum %f dims [1] : tensor<8192x768xf32> -> tensor<8192xf32>
  %0 = nano.mul %x, %y : tensor<8192x768xbf16>
  %1 = nano.mul %0, %z : tensor<8192x768xbf16>
  %2 = nano.cast %1 : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %c = nano.reduce sum %2 dims [0] : tensor<8192x768xf32> -> tensor<768xf32>
  nano.return %s, %c : tensor<8192xf32>, tensor<768xf32>
}

// -----

// So do those of rows that are too long for a block's registers, and of rows that are read at other columns too.
// CHECK-LABEL: nano.program @long
// CHECK:       nano.fused({{.*}}) : (tensor<8192x8192xbf16>) -> tensor<8192xf32> {
// CHECK:       nano.fused({{.*}}) : (tensor<8192x8192xbf16>) -> tensor<128x8192xf32> {
nano.program @long(%x: tensor<8192x8192xbf16>) -> (tensor<8192xf32>, tensor<8192xf32>) {
  %f = nano.cast %x : tensor<8192x8192xbf16> -> tensor<8192x8192xf32>
  %s = nano.reduce sum %f dims [1] : tensor<8192x8192xf32> -> tensor<8192xf32>
  %c = nano.reduce sum %f dims [0] : tensor<8192x8192xf32> -> tensor<8192xf32>
  nano.return %s, %c : tensor<8192xf32>, tensor<8192xf32>
}
// CHECK-LABEL: nano.program @moved
// CHECK:       nano.fused({{.*}}) : (tensor<8192x768xf32>) -> tensor<8192xf32> {
// CHECK:       nano.fused({{.*}}) : (tensor<128x64x768xf32>) -> tensor<128x768xf32> {
nano.program @moved(%x: tensor<8192x768xf32>) -> (tensor<8192xf32>, tensor<768xf32>) {
  %m = nano.rotate %x by 384 : tensor<8192x768xf32>
  %p = nano.mul %m, %x : tensor<8192x768xf32>
  %s = nano.reduce sum %p dims [1] : tensor<8192x768xf32> -> tensor<8192xf32>
  %c = nano.reduce sum %x dims [0] : tensor<8192x768xf32> -> tensor<768xf32>
  nano.return %s, %c : tensor<8192xf32>, tensor<768xf32>
}

// -----

// What lies transposed too is then a copy of its own, here of a byte where sums save four; but not where they save no more than the copy
// takes, which is written and read once more where nothing else reads rows of it.
// CHECK-LABEL: nano.program @turned
// CHECK:       %[[ALL:.*]]:4 = nano.fused({{.*}}) : (tensor<8192x768xbf16>, tensor<8192x768xbf16>) -> (tensor<8192x768xbf16>, tensor<8192x768xf8E5M2>, tensor<128x768xf32>, tensor<128x768xf32>) {
// CHECK-NOT:   nano.fused({{.*}}8192x768
// CHECK:       nano.transpose %[[ALL]]#1
nano.program @turned(%dy: tensor<8192x768xbf16>, %x: tensor<8192x768xbf16>) -> (tensor<8192x768xbf16>, tensor<8192x768xf8E5M2>, tensor<768x8192xf8E5M2>, tensor<768xf32>, tensor<768xf32>) {
  %g = nano.cast %dy : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %f = nano.cast %x : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %gf = nano.mul %g, %f : tensor<8192x768xf32>
  %d = nano.reduce sum %gf dims [1] : tensor<8192x768xf32> -> tensor<8192xf32>
  %db = nano.broadcast %d dims [0] : tensor<8192xf32> -> tensor<8192x768xf32>
  %e = nano.sub %g, %db : tensor<8192x768xf32>
  %dx = nano.cast %e : tensor<8192x768xf32> -> tensor<8192x768xbf16>
  %q = nano.cast %e : tensor<8192x768xf32> -> tensor<8192x768xf8E5M2>
  %t = nano.transpose %q : tensor<8192x768xf8E5M2> -> tensor<768x8192xf8E5M2>
  %dw = nano.reduce sum %gf dims [0] : tensor<8192x768xf32> -> tensor<768xf32>
  %dbias = nano.reduce sum %g dims [0] : tensor<8192x768xf32> -> tensor<768xf32>
  nano.return %dx, %q, %t, %dw, %dbias : tensor<8192x768xbf16>, tensor<8192x768xf8E5M2>, tensor<768x8192xf8E5M2>, tensor<768xf32>, tensor<768xf32>
}
// CHECK-LABEL: nano.program @turned_alone
// CHECK-DAG:   nano.fused({{.*}}) : (tensor<8192x768xbf16>) -> tensor<8192x768xf8E5M2> {
// CHECK-DAG:   nano.fused({{.*}}) : (tensor<8192x768xbf16>) -> tensor<128x768xf32> {
nano.program @turned_alone(%x: tensor<8192x768xbf16>) -> (tensor<768x8192xf8E5M2>, tensor<768xf32>) {
  %f = nano.cast %x : tensor<8192x768xbf16> -> tensor<8192x768xf32>
  %s = nano.reduce sum %f dims [1] : tensor<8192x768xf32> -> tensor<8192xf32>
  %sb = nano.broadcast %s dims [0] : tensor<8192xf32> -> tensor<8192x768xf32>
  %e = nano.sub %f, %sb : tensor<8192x768xf32>
  %q = nano.cast %e : tensor<8192x768xf32> -> tensor<8192x768xf8E5M2>
  %t = nano.transpose %q : tensor<8192x768xf8E5M2> -> tensor<768x8192xf8E5M2>
  %c = nano.reduce sum %f dims [0] : tensor<8192x768xf32> -> tensor<768xf32>
  nano.return %t, %c : tensor<768x8192xf8E5M2>, tensor<768xf32>
}
