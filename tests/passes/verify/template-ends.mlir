// RUN: nano-opt %s -nano-verify-kernels -split-input-file -verify-diagnostics

// What the ends of products reach, what templates count in, and the tensor maps that they load by.

// What is right: all ends of a product at once. Rows are of 40 columns: 16 rows are a part, 128 columns and 64.
module {
  module @kernels {
    func.func @end(%p: vector<8xbf16>, %m: vector<8xbf16>, %r: vector<8xbf16>, %n: f32) -> (vector<8xbf16>, f32) {
      %f = arith.constant 1.0 : f32
      func.return %p, %f : vector<8xbf16>, f32
    }
    kernel.func @sums(read %a: memref<24x64xbf16>, read %b: memref<40x64xbf16>, read %m: memref<24x40xbf16>, read %r: memref<40xbf16>, read %n: memref<f32>, write %c: memref<24x40xbf16>, write %s: memref<24x1xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 24, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [2, 3, 4], results = [array<i64: 5>, array<i64: 6>], added = [], epilogue = @end>,
                    tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 24, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
    kernel.func @turned(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, write %c: memref<32x40xf8E5M2, strided<[1, 48]>>, write %s: memref<2x40xf32>, write %l: memref<2x1xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>, array<i64: 3>, array<i64: 4>], added = [], column_sum = 1 : i64, largest = [2]>,
                    tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{is a product whose end takes 32x40 elements of buffer 2, which is 'memref<31x48xbf16>'}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, read %m: memref<31x48xbf16>, write %c: memref<32x40xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [2], results = [array<i64: 3>], added = []>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{is a product whose end takes 40 elements of buffer 2, which is 'memref<39xbf16>'}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, read %m: memref<39xbf16>, write %c: memref<32x40xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [2], results = [array<i64: 3>], added = []>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{is a product whose end takes 32x40 elements of buffer 2, which is 'memref<32x39xbf16>'}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, write %c: memref<32x39xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = []>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{is a product whose end takes rows of buffer 2 without gaps, which is 'memref<32x40xbf16, strided<[80, 2]>>'}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, write %c: memref<32x40xbf16, strided<[80, 2]>>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = []>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{is a product whose end takes 2x40 elements of buffer 2, which is 'memref<1x80xf32>'}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, write %c: memref<1x80xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = [], column_sum = 0 : i64>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{is a product whose end takes 2x1 elements of buffer 2, which is 'memref<1x2xf32>'}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, write %c: memref<1x2xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = [], largest = [0]>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    func.func @end(%p: vector<8xbf16>) -> f32 {
      %f = arith.constant 1.0 : f32
      func.return %f : f32
    }
    // expected-error @below {{is a product whose end takes 32x1 elements of buffer 2, which is 'memref<31x2xf32>'}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, write %c: memref<31x2xf32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = [], epilogue = @end>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{is a product whose end takes rows of buffer 2 without gaps, which is 'memref<2x40xf32, strided<[1, 2]>>'}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, write %c: memref<2x40xf32, strided<[1, 2]>>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = [], column_sum = 0 : i64>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    func.func @end(%p: vector<8xbf16>) -> f32 {
      %f = arith.constant 1.0 : f32
      func.return %f : f32
    }
    // expected-error @below {{is a product whose epilogue has 1 results, of which it puts away 2}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, write %c: memref<32x40xbf16>, write %d: memref<32x40xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>, array<i64: 3>], added = [], epilogue = @end>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    func.func @end(%p: vector<16xbf16>) -> vector<16xbf16> {
      func.return %p : vector<16xbf16>
    }
    // expected-error @below {{is a product whose end takes 16 columns at once, of 40}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, write %c: memref<32x40xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = [], epilogue = @end>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{is a template that loads by 2 tensor maps, but has 0}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, write %c: memref<32x40xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = []>} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{is a template that loads of buffer 1 by tensor map 1, which is of buffer 0}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, write %c: memref<32x40xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = []>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{is a template that loads a matrix of 40 rows of 64 by tensor map 1, which is of 39 rows of 64}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, write %c: memref<32x40xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = []>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 39, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{is a template that loads boxes of 128 rows of 64, in swizzles of 128 bytes, by tensor map 0, which is of 256 rows of 64 in swizzles of 128}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, write %c: memref<32x40xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = []>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 256, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    // expected-error @below {{is a template that loads boxes of 128 rows of 64, in swizzles of 128 bytes, by tensor map 1, which is of 128 rows of 32 in swizzles of 64}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, write %c: memref<32x40xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = []>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 32, box_rows = 128, swizzle_bytes = 64>]} {
      kernel.return
    }
  }
}

// -----

// Split products: a ticket, and for each warpgroup's rows of a pair of tiles a number.
module {
  module @kernels {
    // expected-error @below {{is a template that reaches 5 elements of buffer 3, which has 4}}
    kernel.func @split(read %a: memref<64x128xbf16>, read %b: memref<64x64xbf16>, write %c: memref<128x64xf32>, add %n: memref<4xi32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.split<rows = [128], columns = [64], inner = 64, blocks = 4, a = [0], b = [1], c = [2], sums = [], counts = 3>} {
      kernel.return
    }
  }
}

// -----

// Tickets.
module {
  module @kernels {
    // expected-error @below {{is a template that loads by 3 tensor maps, but has 0}}
    kernel.func @attention(read %q: memref<128x2x64xbf16>, read %k: memref<128x2x64xbf16>, read %v: memref<128x2x64xbf16>, read %first: memref<128xi32>, read %last: memref<128xi32>,
                           write %y: memref<128x2x64xbf16>, write %lse: memref<128x2xf32>, add %t: memref<1xi32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.attention<tokens = 128, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 132, scale = 0.5 : f64,
                                                     q = 0, k = 1, v = 2, first = 3, last = 4, y = [5], lse = [6], tickets = 7>} {
      kernel.return
    }
  }
}

// -----

// Gradients in five products: sums for dq.
module {
  module @kernels {
    // expected-error @below {{is a template that reaches 8192 elements of buffer 11, which has 8191}}
    kernel.func @gradients(read %q: memref<128x1x64xbf16>, read %k: memref<128x1x64xbf16>, read %v: memref<128x1x64xbf16>, read %first: memref<128xi32>, read %last: memref<128xi32>,
                           read %lse: memref<128x1xf32>, read %delta: memref<128x1xf32>, read %dy: memref<128x1x64xbf16>, write %dq: memref<128x1x64xbf16>, write %dk: memref<128x1x64xbf16>,
                           write %dv: memref<128x1x64xbf16>, write %sums: memref<8191xf32>, add %counts: memref<3xi32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.attention_grad<tokens = 128, heads = 1, key_heads = 1, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 132, scale = 0.5 : f64,
                                                          q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], partial = 11, counts = 12>} {
      kernel.return
    }
  }
}

// -----

// Gradients in five products: counts of them.
module {
  module @kernels {
    // expected-error @below {{is a template that reaches 3 elements of buffer 12, which has 2}}
    kernel.func @gradients(read %q: memref<128x1x64xbf16>, read %k: memref<128x1x64xbf16>, read %v: memref<128x1x64xbf16>, read %first: memref<128xi32>, read %last: memref<128xi32>,
                           read %lse: memref<128x1xf32>, read %delta: memref<128x1xf32>, read %dy: memref<128x1x64xbf16>, write %dq: memref<128x1x64xbf16>, write %dk: memref<128x1x64xbf16>,
                           write %dv: memref<128x1x64xbf16>, write %sums: memref<8192xf32>, add %counts: memref<2xi32>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.attention_grad<tokens = 128, heads = 1, key_heads = 1, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 132, scale = 0.5 : f64,
                                                          q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], partial = 11, counts = 12>} {
      kernel.return
    }
  }
}

// -----

// A number a row, of fewer rows than columns.
module {
  module @kernels {
    func.func @end(%p: vector<8xbf16>, %r: f32) -> vector<8xbf16> {
      func.return %p : vector<8xbf16>
    }
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, read %r: memref<32xf32>, write %c: memref<32x40xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [2], results = [array<i64: 3>], added = [], epilogue = @end>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

module {
  module @kernels {
    func.func @end(%p: vector<8xbf16>, %r: f32) -> vector<8xbf16> {
      func.return %p : vector<8xbf16>
    }
    // expected-error @below {{is a product whose end takes 32 elements of buffer 2, which is 'memref<31xf32>'}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, read %r: memref<31xf32>, write %c: memref<32x40xbf16>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [2], results = [array<i64: 3>], added = [], epilogue = @end>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}

// -----

// What is not of 8 bits does not lie turned.
module {
  module @kernels {
    // expected-error @below {{is a product whose end takes rows of buffer 2 without gaps, which is 'memref<32x40xbf16, strided<[1, 48]>>'}}
    kernel.func @product(read %a: memref<32x64xbf16>, read %b: memref<40x64xbf16>, write %c: memref<32x40xbf16, strided<[1, 48]>>, %scratch: memref<64xi8>, %begin: index, %end: index)
        attributes {instantiates = #kernel.product<rows = 32, columns = 40, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = []>, tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 32, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>, #kernel.tensor_map<buffer = 1, columns = 64, rows = 40, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]} {
      kernel.return
    }
  }
}
