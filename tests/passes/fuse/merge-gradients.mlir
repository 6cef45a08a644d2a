// Gradients of weights of one operand become one product where what they are made of lies side by side; the new state says where each lies.
// RUN: nano-opt %s -split-input-file -nano-merge-products="machine=h200-nvlink" | FileCheck %s

// Two programs of a step: the first begins the sums, the last adds to them. Who reads a gradient reads a slice.
// CHECK:       nano.state @grad.q.merged : tensor<384x1024xf32>
// CHECK-SAME:    pieces = [{name = "grad.q", offset = 0 : i64, shape = array<i64: 256, 1024>}, {name = "grad.k", offset = 262144 : i64, shape = array<i64: 128, 1024>}]
// CHECK-NOT:   nano.state @grad.q :
// CHECK-NOT:   nano.state @grad.k :
// CHECK-LABEL: nano.program @first
// CHECK:         %[[D:.*]] = nano.concat
// CHECK:         %[[G:.*]] = nano.matmul %[[D]], %arg0 {transpose_a} : (tensor<32768x384xbf16>, tensor<32768x1024xbf16>) -> tensor<384x1024xf32>
// CHECK-NEXT:    nano.store %[[G]], @grad.q.merged
// CHECK-NOT:     nano.store
// CHECK-LABEL: nano.program @last
// CHECK:         %[[D:.*]] = nano.concat
// CHECK:         %[[OLD:.*]] = nano.load @grad.q.merged
// CHECK-NEXT:    %[[G:.*]] = nano.matmul %[[D]], %arg0 add %[[OLD]] {transpose_a}
// CHECK-NEXT:    nano.store %[[G]], @grad.q.merged
// CHECK-NOT:     nano.store
// CHECK-LABEL: nano.program @update
// CHECK:         %[[ALL:.*]] = nano.load @grad.q.merged : tensor<384x1024xf32>
// CHECK-NEXT:    %[[K:.*]] = nano.slice %[[ALL]] dim 0 at 256 : tensor<384x1024xf32> -> tensor<128x1024xf32>
// CHECK:         nano.fused(%[[K]]
nano.state @q : tensor<256x1024xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>}
nano.state @k : tensor<128x1024xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.q : tensor<256x1024xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.k : tensor<128x1024xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @first(%x: tensor<32768x1024xbf16>, %y: tensor<32768x384xf32>, %w: tensor<384x1024xbf16>) -> tensor<32768x1024xbf16> {
  %d:2 = nano.fused(%y) : (tensor<32768x384xf32>) -> (tensor<32768x256xbf16>, tensor<32768x128xbf16>) {
  ^bb0(%a: tensor<32768x384xf32>):
    %b = nano.cast %a : tensor<32768x384xf32> -> tensor<32768x384xbf16>
    %c = nano.slice %b dim 1 at 0 : tensor<32768x384xbf16> -> tensor<32768x256xbf16>
    %e = nano.slice %b dim 1 at 256 : tensor<32768x384xbf16> -> tensor<32768x128xbf16>
    nano.yield %c, %e : tensor<32768x256xbf16>, tensor<32768x128xbf16>
  }
  %gk = nano.matmul %d#1, %x {transpose_a} : (tensor<32768x128xbf16>, tensor<32768x1024xbf16>) -> tensor<128x1024xf32>
  nano.store %gk, @grad.k : tensor<128x1024xf32>
  %gq = nano.matmul %d#0, %x {transpose_a} : (tensor<32768x256xbf16>, tensor<32768x1024xbf16>) -> tensor<256x1024xf32>
  nano.store %gq, @grad.q : tensor<256x1024xf32>
  %s = nano.concat %d#0, %d#1 dim 1 : (tensor<32768x256xbf16>, tensor<32768x128xbf16>) -> tensor<32768x384xbf16>
  %dx = nano.matmul %s, %w : (tensor<32768x384xbf16>, tensor<384x1024xbf16>) -> tensor<32768x1024xbf16>
  nano.return %dx : tensor<32768x1024xbf16>
}
nano.program @last(%x: tensor<32768x1024xbf16>, %y: tensor<32768x384xf32>, %w: tensor<384x1024xbf16>) -> tensor<32768x1024xbf16> {
  %d:2 = nano.fused(%y) : (tensor<32768x384xf32>) -> (tensor<32768x256xbf16>, tensor<32768x128xbf16>) {
  ^bb0(%a: tensor<32768x384xf32>):
    %b = nano.cast %a : tensor<32768x384xf32> -> tensor<32768x384xbf16>
    %c = nano.slice %b dim 1 at 0 : tensor<32768x384xbf16> -> tensor<32768x256xbf16>
    %e = nano.slice %b dim 1 at 256 : tensor<32768x384xbf16> -> tensor<32768x128xbf16>
    nano.yield %c, %e : tensor<32768x256xbf16>, tensor<32768x128xbf16>
  }
  %s = nano.concat %d#0, %d#1 dim 1 : (tensor<32768x256xbf16>, tensor<32768x128xbf16>) -> tensor<32768x384xbf16>
  %dx = nano.matmul %s, %w : (tensor<32768x384xbf16>, tensor<384x1024xbf16>) -> tensor<32768x1024xbf16>
  %ok = nano.load @grad.k : tensor<128x1024xf32>
  %gk = nano.matmul %d#1, %x add %ok {transpose_a} : (tensor<32768x128xbf16>, tensor<32768x1024xbf16>, tensor<128x1024xf32>) -> tensor<128x1024xf32>
  nano.store %gk, @grad.k : tensor<128x1024xf32>
  %oq = nano.load @grad.q : tensor<256x1024xf32>
  %gq = nano.matmul %d#0, %x add %oq {transpose_a} : (tensor<32768x256xbf16>, tensor<32768x1024xbf16>, tensor<256x1024xf32>) -> tensor<256x1024xf32>
  nano.store %gq, @grad.q : tensor<256x1024xf32>
  nano.return %dx : tensor<32768x1024xbf16>
}
nano.program @update() {
  %g = nano.load @grad.k : tensor<128x1024xf32>
  %p = nano.load @k : tensor<128x1024xf32>
  %n = nano.fused(%g, %p) : (tensor<128x1024xf32>, tensor<128x1024xf32>) -> tensor<128x1024xf32> {
  ^bb0(%a: tensor<128x1024xf32>, %b: tensor<128x1024xf32>):
    %c = nano.sub %b, %a : tensor<128x1024xf32>
    nano.yield %c : tensor<128x1024xf32>
  }
  nano.store %n, @k : tensor<128x1024xf32>
  nano.return
}

// -----

// One program of two writes them so: the other one's sum of k is another's.
// CHECK-NOT:   merged
// CHECK-LABEL: nano.program @first
// CHECK-COUNT-2: nano.store
// CHECK-LABEL: nano.program @last
nano.state @grad.q : tensor<256x1024xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @grad.k : tensor<128x1024xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @first(%x: tensor<32768x1024xbf16>, %a: tensor<32768x256xbf16>, %b: tensor<32768x128xbf16>) -> tensor<32768x384xbf16> {
  %gk = nano.matmul %b, %x {transpose_a} : (tensor<32768x128xbf16>, tensor<32768x1024xbf16>) -> tensor<128x1024xf32>
  nano.store %gk, @grad.k : tensor<128x1024xf32>
  %gq = nano.matmul %a, %x {transpose_a} : (tensor<32768x256xbf16>, tensor<32768x1024xbf16>) -> tensor<256x1024xf32>
  nano.store %gq, @grad.q : tensor<256x1024xf32>
  %s = nano.concat %a, %b dim 1 : (tensor<32768x256xbf16>, tensor<32768x128xbf16>) -> tensor<32768x384xbf16>
  nano.return %s : tensor<32768x384xbf16>
}
nano.program @last(%g: tensor<128x1024xf32>) {
  nano.store %g, @grad.k : tensor<128x1024xf32>
  nano.return
}
