// RUN: nano-opt %s -nano-verify-kernels -split-input-file -verify-diagnostics

// What templates reach of their buffers.

// A template of more numbers than the buffer has.
module {
  module @kernels {
    // expected-error @below {{is a template that reaches 9 elements of buffer 0, which has 8}}
    kernel.func @scan(read %x: memref<8xi32>, write %y: memref<9xi32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.scan<size = 9, maximum = false, x = 0, y = [1]>} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{is a template that reaches 24 elements of buffer 1, which has 20}}
    kernel.func @band(read %p: memref<2x1x2xf32>, read %v: memref<4x1x5xf32>, write %y: memref<4x1x6xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.band_product<tokens = 4, heads = 1, size = 6, width = 1, multiprocessors = 132, transpose = false, on_matrices = false, first = 0, second = 1, y = [2]>} {
      kernel.return
    }
  }
}

// -----

// Attention: a row of k for each token and each head of keys.
module {
  module @kernels {
    // expected-error @below {{is a template that reaches 64 elements of buffer 1, which has 32}}
    kernel.func @attention(read %q: memref<8x2x4xf32>, read %k: memref<8x1x4xf32>, read %v: memref<8x2x4xf32>, read %first: memref<8xi32>, read %last: memref<8xi32>,
                           write %y: memref<8x2x4xf32>, write %lse: memref<2x8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.attention<tokens = 8, heads = 2, key_heads = 2, head_size = 4, value_size = 4, vector_rows = false, multiprocessors = 132, scale = 0.5 : f64,
                                                     q = 0, k = 1, v = 2, first = 3, last = 4, y = [5], lse = [6]>} {
      kernel.return
    }
  }
}

// -----

// The sums of a gradient's columns: a row for 64 tokens.
module {
  module @kernels {
    // expected-error @below {{is a template that reaches 8 elements of buffer 11, which has 4}}
    kernel.func @gradients(read %q: memref<128x1x4xf32>, read %k: memref<128x1x4xf32>, read %v: memref<128x1x4xf32>, read %first: memref<128xi32>, read %last: memref<128xi32>,
                           read %lse: memref<1x128xf32>, read %delta: memref<1x128xf32>, read %dy: memref<128x1x4xf32>, write %dq: memref<128x1x4xf32>, write %dk: memref<128x1x4xf32>,
                           write %dv: memref<128x1x4xf32>, write %sums: memref<1x4xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.attention_grad<tokens = 128, heads = 1, key_heads = 1, head_size = 4, value_size = 4, vector_rows = true, multiprocessors = 132, scale = 0.5 : f64,
                                                          q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], dq_sums = 11>} {
      kernel.return
    }
  }
}

// -----

// A product's factor.
module {
  module @kernels {
    // expected-error @below {{is a template that reaches 128 elements of buffer 1, which has 64}}
    kernel.func @product(read %a: memref<8x16xf32>, read %b: memref<4x16xf32>, write %c: memref<8x8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 8, columns = 8, inner = 16, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [],
                                                   results = [array<i64: 2>], added = []>} {
      kernel.return
    }
  }
}

// -----

// A scatter's scratch memory: two numbers a token, one for each place of a row and one more.
module {
  module @kernels {
    // expected-error @below {{is a template that reaches 19 elements of buffer 1, which has 18}}
    kernel.func @sort(read %ids: memref<5xi32>, write %sorted: memref<18xi32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.scatter_sort<tokens = 5, rows = 8, ids = 0, sorted = 1>} {
      kernel.return
    }
  }
}

// -----

// So many rows have no place in memory at all.
module {
  module @kernels {
    // expected-error @below {{is a template that reaches 18446744073709551615 elements of buffer 1, which has 18}}
    kernel.func @sort(read %ids: memref<5xi32>, write %sorted: memref<18xi32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.scatter_sort<tokens = 5, rows = 4611686018427387904, ids = 0, sorted = 1>} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{is a template that reaches 32 elements of buffer 0, which has 16}}
    kernel.func @symmetric(read %x: memref<4x4xbf16>, write %c: memref<2x4x4xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.symmetric<matrices = 2, size = 4, inner = 4, blocks = 4, transpose = false, alpha = 1.0 : f64, beta = 0.0 : f64, x = 0, c = 1>} {
      kernel.return
    }
  }
}

// -----

// A distance below zero leaves the buffer.
module {
  module @kernels {
    // expected-error @below {{is a template that reaches 18446744073709551615 elements of buffer 0, which has 8}}
    kernel.func @transpose(read %x: memref<8xf32>, write %y: memref<8xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.transpose<matrices = 1, p = 4, q = 2, in_matrix = 0, in_row = -4, out_matrix = 0, out_row = 2, is_vector = false, x = 0, y = 1>} {
      kernel.return
    }
  }
}
