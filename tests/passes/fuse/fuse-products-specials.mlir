// What the units for special functions do counts by their rate, beside bytes and other operations. Apart from the product, a kernel walks these rows twice and computes all of it twice.
// RUN: nano-opt %s -nano-fuse-products="machine=h200-nvlink" -split-input-file | FileCheck %s --check-prefix=H200
// RUN: nano-opt %s -nano-fuse-products="machine=h100-nvlink" -split-input-file | FileCheck %s --check-prefix=H100

// Five an element, together with reading and writing the product, are slower than the product by generated code and the kernel behind it; not where memory is slower.
// H200-LABEL: nano.program @sigmoids
// H200-NEXT:     nano.fused
// H200-NEXT:     ^bb0
// H200-NEXT:       nano.matmul
// H100-LABEL: nano.program @sigmoids
// H100-NEXT:     nano.matmul
// H100-NEXT:     nano.fused
// H100-NOT:      nano.fused
nano.program @sigmoids(%x: tensor<8192x768xbf16>, %w: tensor<50304x768xbf16>) -> (tensor<8192xf32>, tensor<8192x50304xbf16>) {
  %p = nano.matmul %x, %w {transpose_b} : (tensor<8192x768xbf16>, tensor<50304x768xbf16>) -> tensor<8192x50304xbf16>
  %y:2 = nano.fused(%p) : (tensor<8192x50304xbf16>) -> (tensor<8192xf32>, tensor<8192x50304xbf16>) {
  ^bb0(%a: tensor<8192x50304xbf16>):
    %f = nano.cast %a : tensor<8192x50304xbf16> -> tensor<8192x50304xf32>
    %g = nano.sigmoid %f : tensor<8192x50304xf32>
    %e = nano.exp %g : tensor<8192x50304xf32>
    %sum = nano.reduce sum %e dims [1] : tensor<8192x50304xf32> -> tensor<8192xf32>
    %b = nano.broadcast %sum dims [0] : tensor<8192xf32> -> tensor<8192x50304xf32>
    %k = nano.mul %e, %b : tensor<8192x50304xf32>
    %h = nano.mul %k, %g : tensor<8192x50304xf32>
    %o = nano.cast %h : tensor<8192x50304xf32> -> tensor<8192x50304xbf16>
    nano.yield %sum, %o : tensor<8192xf32>, tensor<8192x50304xbf16>
  }
  nano.return %y#0, %y#1 : tensor<8192xf32>, tensor<8192x50304xbf16>
}

// -----

// Four are not: a sigmoid is more than an exponential by half a reciprocal.
// H200-LABEL: nano.program @exponentials
// H200-NEXT:     nano.matmul
// H200-NEXT:     nano.fused
// H200-NOT:      nano.fused
// H100-LABEL: nano.program @exponentials
// H100-NEXT:     nano.matmul
// H100-NEXT:     nano.fused
// H100-NOT:      nano.fused
nano.program @exponentials(%x: tensor<8192x768xbf16>, %w: tensor<50304x768xbf16>) -> (tensor<8192xf32>, tensor<8192x50304xbf16>) {
  %p = nano.matmul %x, %w {transpose_b} : (tensor<8192x768xbf16>, tensor<50304x768xbf16>) -> tensor<8192x50304xbf16>
  %y:2 = nano.fused(%p) : (tensor<8192x50304xbf16>) -> (tensor<8192xf32>, tensor<8192x50304xbf16>) {
  ^bb0(%a: tensor<8192x50304xbf16>):
    %f = nano.cast %a : tensor<8192x50304xbf16> -> tensor<8192x50304xf32>
    %g = nano.exp %f : tensor<8192x50304xf32>
    %e = nano.exp %g : tensor<8192x50304xf32>
    %sum = nano.reduce sum %e dims [1] : tensor<8192x50304xf32> -> tensor<8192xf32>
    %b = nano.broadcast %sum dims [0] : tensor<8192xf32> -> tensor<8192x50304xf32>
    %k = nano.mul %e, %b : tensor<8192x50304xf32>
    %h = nano.mul %k, %g : tensor<8192x50304xf32>
    %o = nano.cast %h : tensor<8192x50304xf32> -> tensor<8192x50304xbf16>
    nano.yield %sum, %o : tensor<8192xf32>, tensor<8192x50304xbf16>
  }
  nano.return %y#0, %y#1 : tensor<8192xf32>, tensor<8192x50304xbf16>
}

// -----

// Nor are twice twenty other operations.
// H200-LABEL: nano.program @powers
// H200-NEXT:     nano.matmul
// H200-NEXT:     nano.fused
// H200-NOT:      nano.fused
// H100-LABEL: nano.program @powers
// H100-NEXT:     nano.matmul
// H100-NEXT:     nano.fused
// H100-NOT:      nano.fused
nano.program @powers(%x: tensor<8192x768xbf16>, %w: tensor<50304x768xbf16>) -> (tensor<8192xf32>, tensor<8192x50304xbf16>) {
  %p = nano.matmul %x, %w {transpose_b} : (tensor<8192x768xbf16>, tensor<50304x768xbf16>) -> tensor<8192x50304xbf16>
  %y:2 = nano.fused(%p) : (tensor<8192x50304xbf16>) -> (tensor<8192xf32>, tensor<8192x50304xbf16>) {
  ^bb0(%a: tensor<8192x50304xbf16>):
    %f = nano.cast %a : tensor<8192x50304xbf16> -> tensor<8192x50304xf32>
    %m1 = nano.mul %f, %f : tensor<8192x50304xf32>
    %m2 = nano.mul %m1, %f : tensor<8192x50304xf32>
    %m3 = nano.mul %m2, %f : tensor<8192x50304xf32>
    %m4 = nano.mul %m3, %f : tensor<8192x50304xf32>
    %m5 = nano.mul %m4, %f : tensor<8192x50304xf32>
    %m6 = nano.mul %m5, %f : tensor<8192x50304xf32>
    %m7 = nano.mul %m6, %f : tensor<8192x50304xf32>
    %m8 = nano.mul %m7, %f : tensor<8192x50304xf32>
    %m9 = nano.mul %m8, %f : tensor<8192x50304xf32>
    %m10 = nano.mul %m9, %f : tensor<8192x50304xf32>
    %m11 = nano.mul %m10, %f : tensor<8192x50304xf32>
    %m12 = nano.mul %m11, %f : tensor<8192x50304xf32>
    %m13 = nano.mul %m12, %f : tensor<8192x50304xf32>
    %m14 = nano.mul %m13, %f : tensor<8192x50304xf32>
    %m15 = nano.mul %m14, %f : tensor<8192x50304xf32>
    %m16 = nano.mul %m15, %f : tensor<8192x50304xf32>
    %m17 = nano.mul %m16, %f : tensor<8192x50304xf32>
    %m18 = nano.mul %m17, %f : tensor<8192x50304xf32>
    %g = nano.add %m18, %f : tensor<8192x50304xf32>
    %e = nano.add %g, %m18 : tensor<8192x50304xf32>
    %sum = nano.reduce sum %e dims [1] : tensor<8192x50304xf32> -> tensor<8192xf32>
    %b = nano.broadcast %sum dims [0] : tensor<8192xf32> -> tensor<8192x50304xf32>
    %k = nano.mul %e, %b : tensor<8192x50304xf32>
    %h = nano.mul %k, %g : tensor<8192x50304xf32>
    %o = nano.cast %h : tensor<8192x50304xf32> -> tensor<8192x50304xbf16>
    nano.yield %sum, %o : tensor<8192xf32>, tensor<8192x50304xbf16>
  }
  nano.return %y#0, %y#1 : tensor<8192xf32>, tensor<8192x50304xbf16>
}
