// Losses that keep a pass over their logits, and why.
// RUN: nano-opt %s -split-input-file -verify-diagnostics -nano-shift-losses='losses=product report=true' -o /dev/null

nano.program @narrow(%x: tensor<256x64xbf16>, %w: tensor<96x64xbf16>, %t: tensor<256xi32>) -> (tensor<256xf32>, tensor<256x64xbf16>) {
  %minus = nano.constant -1.0 : tensor<256x96xf32>
  // expected-remark @below {{apart from the exponentials of its loss: its rows are no multiples of 128 columns}}
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x64xbf16>, tensor<96x64xbf16>) -> tensor<256x96xbf16>
  %f = nano.cast %z : tensor<256x96xbf16> -> tensor<256x96xf32>
  %loss, %lse = nano.cross_entropy %f, %t : (tensor<256x96xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  %l = nano.broadcast %lse dims [0] : tensor<256xf32> -> tensor<256x96xf32>
  %d = nano.sub %f, %l : tensor<256x96xf32>
  %p = nano.exp %d : tensor<256x96xf32>
  %i = nano.iota 1 : tensor<256x96xi32>
  %c = nano.broadcast %t dims [0] : tensor<256xi32> -> tensor<256x96xi32>
  %q = nano.add %p, %minus : tensor<256x96xf32>
  %o = nano.select eq, %i, %c, %q, %p : tensor<256x96xi32>, tensor<256x96xf32>
  %s = nano.neg %o : tensor<256x96xf32>
  %dz = nano.cast %s : tensor<256x96xf32> -> tensor<256x96xbf16>
  %dx = nano.matmul %dz, %w : (tensor<256x96xbf16>, tensor<96x64xbf16>) -> tensor<256x64xbf16>
  nano.return %loss, %dx : tensor<256xf32>, tensor<256x64xbf16>
}

// -----

nano.program @f32(%x: tensor<256x64xf32>, %w: tensor<128x64xf32>, %t: tensor<256xi32>) -> (tensor<256xf32>, tensor<256x64xf32>) {
  %minus = nano.constant -1.0 : tensor<256x128xf32>
  // expected-remark @below {{apart from the exponentials of its loss: its operands are not bf16}}
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x64xf32>, tensor<128x64xf32>) -> tensor<256x128xf32>
  %loss, %lse = nano.cross_entropy %z, %t : (tensor<256x128xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  %l = nano.broadcast %lse dims [0] : tensor<256xf32> -> tensor<256x128xf32>
  %d = nano.sub %z, %l : tensor<256x128xf32>
  %p = nano.exp %d : tensor<256x128xf32>
  %i = nano.iota 1 : tensor<256x128xi32>
  %c = nano.broadcast %t dims [0] : tensor<256xi32> -> tensor<256x128xi32>
  %q = nano.add %p, %minus : tensor<256x128xf32>
  %o = nano.select eq, %i, %c, %q, %p : tensor<256x128xi32>, tensor<256x128xf32>
  %s = nano.neg %o : tensor<256x128xf32>
  %dx = nano.matmul %s, %w : (tensor<256x128xf32>, tensor<128x64xf32>) -> tensor<256x64xf32>
  nano.return %loss, %dx : tensor<256xf32>, tensor<256x64xf32>
}

// -----

nano.program @returned(%x: tensor<256x64xbf16>, %w: tensor<128x64xbf16>, %t: tensor<256xi32>) -> (tensor<256xf32>, tensor<256x64xbf16>, tensor<256x128xbf16>) {
  %minus = nano.constant -1.0 : tensor<256x128xf32>
  // expected-remark @below {{apart from the exponentials of its loss: the logits are read by a nano.return}}
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
  nano.return %loss, %dx, %z : tensor<256xf32>, tensor<256x64xbf16>, tensor<256x128xbf16>
}

// -----

// Smoothed targets have a gradient in all columns.
nano.program @smoothed(%x: tensor<256x64xbf16>, %w: tensor<128x64xbf16>, %t: tensor<256xi32>) -> (tensor<256xf32>, tensor<256x64xbf16>) {
  %minus = nano.constant -1.0 : tensor<256x128xf32>
  // expected-remark @below {{apart from the exponentials of its loss: the gradient of the logits is no softmax with a number a row and another at the target}}
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
  %u = nano.constant 0.01 : tensor<256x128xf32>
  %s = nano.sub %o, %u : tensor<256x128xf32>
  %dz = nano.cast %s : tensor<256x128xf32> -> tensor<256x128xbf16>
  %dx = nano.matmul %dz, %w : (tensor<256x128xbf16>, tensor<128x64xbf16>) -> tensor<256x64xbf16>
  nano.return %loss, %dx : tensor<256xf32>, tensor<256x64xbf16>
}

// -----

// So have logits that are no product's but a function's of one, at each element another.
nano.program @capped(%x: tensor<256x64xbf16>, %w: tensor<128x64xbf16>, %t: tensor<256xi32>) -> (tensor<256xf32>, tensor<256x64xbf16>) {
  %minus = nano.constant -1.0 : tensor<256x128xf32>
  // expected-remark @below {{apart from the exponentials of its loss: the gradient of the logits is no softmax with a number a row and another at the target}}
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
  %y = nano.mul %f, %f : tensor<256x128xf32>
  %s = nano.mul %o, %y : tensor<256x128xf32>
  %dz = nano.cast %s : tensor<256x128xf32> -> tensor<256x128xbf16>
  %dx = nano.matmul %dz, %w : (tensor<256x128xbf16>, tensor<128x64xbf16>) -> tensor<256x64xbf16>
  nano.return %loss, %dx : tensor<256xf32>, tensor<256x64xbf16>
}

// -----

nano.program @measured(%x: tensor<256x64xbf16>, %w: tensor<128x64xbf16>, %t: tensor<256xi32>) -> tensor<256xf32> {
  // expected-remark @below {{apart from the exponentials of its loss: no gradient of the logits is asked for}}
  %z = nano.matmul %x, %w {transpose_b} : (tensor<256x64xbf16>, tensor<128x64xbf16>) -> tensor<256x128xbf16>
  %f = nano.cast %z : tensor<256x128xbf16> -> tensor<256x128xf32>
  %loss, %lse = nano.cross_entropy %f, %t : (tensor<256x128xf32>, tensor<256xi32>) -> (tensor<256xf32>, tensor<256xf32>)
  nano.return %loss : tensor<256xf32>
}
