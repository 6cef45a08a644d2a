// Losses whose product is predicted to be faster with their exponentials, and not.
// RUN: nano-opt %s -split-input-file -verify-diagnostics -nano-shift-losses='machine=h200-infiniband report=true' -o /dev/null

nano.program @small(%x: tensor<256x64xbf16>, %w: tensor<128x64xbf16>, %t: tensor<256xi32>) -> (tensor<256xf32>, tensor<256x64xbf16>) {
  %minus = nano.constant -1.0 : tensor<256x128xf32>
  // expected-remark @below {{apart from the exponentials of its loss: it has fewer tiles than the machine has multiprocessors}}
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
  %s = nano.neg %o : tensor<256x128xf32>
  %dz = nano.cast %s : tensor<256x128xf32> -> tensor<256x128xbf16>
  %dx = nano.matmul %dz, %w : (tensor<256x128xbf16>, tensor<128x64xbf16>) -> tensor<256x64xbf16>
  nano.return %loss, %dx : tensor<256xf32>, tensor<256x64xbf16>
}

// -----

nano.program @large(%x: tensor<8192x768xbf16>, %w: tensor<50304x768xbf16>, %t: tensor<8192xi32>) -> (tensor<8192xf32>, tensor<8192x768xbf16>) {
  %minus = nano.constant -1.0 : tensor<8192x50304xf32>
  // expected-remark @below {{ends with the exponentials of its loss}}
  %z = nano.matmul %x, %w {transpose_b} : (tensor<8192x768xbf16>, tensor<50304x768xbf16>) -> tensor<8192x50304xbf16>
  %f = nano.cast %z : tensor<8192x50304xbf16> -> tensor<8192x50304xf32>
  %loss, %lse = nano.cross_entropy %f, %t : (tensor<8192x50304xf32>, tensor<8192xi32>) -> (tensor<8192xf32>, tensor<8192xf32>)
  %l = nano.broadcast %lse dims [0] : tensor<8192xf32> -> tensor<8192x50304xf32>
  %d = nano.sub %f, %l : tensor<8192x50304xf32>
  %p = nano.exp %d : tensor<8192x50304xf32>
  %i = nano.iota 1 : tensor<8192x50304xi32>
  %c = nano.broadcast %t dims [0] : tensor<8192xi32> -> tensor<8192x50304xi32>
  %q = nano.add %p, %minus : tensor<8192x50304xf32>
  %o = nano.select eq, %i, %c, %q, %p : tensor<8192x50304xi32>, tensor<8192x50304xf32>
  %s = nano.neg %o : tensor<8192x50304xf32>
  %dz = nano.cast %s : tensor<8192x50304xf32> -> tensor<8192x50304xbf16>
  %dx = nano.matmul %dz, %w : (tensor<8192x50304xbf16>, tensor<50304x768xbf16>) -> tensor<8192x768xbf16>
  nano.return %loss, %dx : tensor<8192xf32>, tensor<8192x768xbf16>
}

// -----

nano.program @narrow(%x: tensor<16384x768xbf16>, %w: tensor<32000x768xbf16>, %t: tensor<16384xi32>) -> (tensor<16384xf32>, tensor<16384x768xbf16>, tensor<32000x768xf32>) {
  %minus = nano.constant -1.0 : tensor<16384x32000xf32>
  // expected-remark @below {{ends with the exponentials of its loss}}
  %z = nano.matmul %x, %w {transpose_b} : (tensor<16384x768xbf16>, tensor<32000x768xbf16>) -> tensor<16384x32000xbf16>
  %f = nano.cast %z : tensor<16384x32000xbf16> -> tensor<16384x32000xf32>
  %loss, %lse = nano.cross_entropy %f, %t : (tensor<16384x32000xf32>, tensor<16384xi32>) -> (tensor<16384xf32>, tensor<16384xf32>)
  %l = nano.broadcast %lse dims [0] : tensor<16384xf32> -> tensor<16384x32000xf32>
  %d = nano.sub %f, %l : tensor<16384x32000xf32>
  %p = nano.exp %d : tensor<16384x32000xf32>
  %i = nano.iota 1 : tensor<16384x32000xi32>
  %c = nano.broadcast %t dims [0] : tensor<16384xi32> -> tensor<16384x32000xi32>
  %q = nano.add %p, %minus : tensor<16384x32000xf32>
  %o = nano.select eq, %i, %c, %q, %p : tensor<16384x32000xi32>, tensor<16384x32000xf32>
  %dz = nano.cast %o : tensor<16384x32000xf32> -> tensor<16384x32000xbf16>
  %dx = nano.matmul %dz, %w : (tensor<16384x32000xbf16>, tensor<32000x768xbf16>) -> tensor<16384x768xbf16>
  %dw = nano.matmul %dz, %x {transpose_a} : (tensor<16384x32000xbf16>, tensor<16384x768xbf16>) -> tensor<32000x768xf32>
  nano.return %loss, %dx, %dw : tensor<16384xf32>, tensor<16384x768xbf16>, tensor<32000x768xf32>
}

// -----

nano.program @wide(%x: tensor<16384x1600xbf16>, %w: tensor<50304x1600xbf16>, %t: tensor<16384xi32>) -> (tensor<16384xf32>, tensor<16384x1600xbf16>, tensor<50304x1600xf32>) {
  %minus = nano.constant -1.0 : tensor<16384x50304xf32>
  // expected-remark @below {{apart from the exponentials of its loss: too little is predicted to be saved}}
  %z = nano.matmul %x, %w {transpose_b} : (tensor<16384x1600xbf16>, tensor<50304x1600xbf16>) -> tensor<16384x50304xbf16>
  %f = nano.cast %z : tensor<16384x50304xbf16> -> tensor<16384x50304xf32>
  %loss, %lse = nano.cross_entropy %f, %t : (tensor<16384x50304xf32>, tensor<16384xi32>) -> (tensor<16384xf32>, tensor<16384xf32>)
  %l = nano.broadcast %lse dims [0] : tensor<16384xf32> -> tensor<16384x50304xf32>
  %d = nano.sub %f, %l : tensor<16384x50304xf32>
  %p = nano.exp %d : tensor<16384x50304xf32>
  %i = nano.iota 1 : tensor<16384x50304xi32>
  %c = nano.broadcast %t dims [0] : tensor<16384xi32> -> tensor<16384x50304xi32>
  %q = nano.add %p, %minus : tensor<16384x50304xf32>
  %o = nano.select eq, %i, %c, %q, %p : tensor<16384x50304xi32>, tensor<16384x50304xf32>
  %dz = nano.cast %o : tensor<16384x50304xf32> -> tensor<16384x50304xbf16>
  %dx = nano.matmul %dz, %w : (tensor<16384x50304xbf16>, tensor<50304x1600xbf16>) -> tensor<16384x1600xbf16>
  %dw = nano.matmul %dz, %x {transpose_a} : (tensor<16384x50304xbf16>, tensor<16384x1600xbf16>) -> tensor<50304x1600xf32>
  nano.return %loss, %dx, %dw : tensor<16384xf32>, tensor<16384x1600xbf16>, tensor<50304x1600xf32>
}
