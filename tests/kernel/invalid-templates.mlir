// RUN: nano-opt %s -split-input-file -verify-diagnostics

// What templates refuse of their parameters.
// expected-error @below {{a product with a size of 0: must be at least 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.product<rows = 0, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = []>}

// -----

// expected-error @below {{a product with 1 scales: none or two}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [3], others = [], results = [array<i64: 2>], added = []>}

// -----

// expected-error @below {{two products with 2 scales: none or four}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [3, 4], others = [], results = [array<i64: 2>], added = [], second = 5 : i64>}

// -----

// expected-error @below {{two products with a sum of columns}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = [], column_sum = 0 : i64, second = 5 : i64>}

// -----

// expected-error @below {{a product that names result 3 of 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = [], largest = [0, 3]>}

// -----

// expected-error @below {{a product with a result that is no list of buffers}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [2], added = []>}

// -----

// expected-error @below {{a product that names result 1 of 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = [1]>}

// -----

// expected-error @below {{a product that names result 2 of 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = [], column_sum = 2 : i64>}

// -----

// expected-error @below {{an attention of 3 heads, which cannot share 2 heads of keys evenly}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention<tokens = 8, heads = 3, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, y = [5], lse = [6]>}

// -----

// expected-error @below {{an attention in rows without tickets}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention<tokens = 128, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, y = [5], lse = [6], row = 64>}

// -----

// expected-error @below {{an attention of 192 tokens in rows of 128: they are rows of a multiple of 64 tokens}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention<tokens = 192, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, y = [5], lse = [6], tickets = 7, row = 128>}

// -----

// expected-error @below {{an attention of 96 tokens in rows of 96: they are rows of a multiple of 64 tokens}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention<tokens = 96, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, y = [5], lse = [6], tickets = 7, row = 96>}

// -----

// expected-error @below {{an attention with a size of 0: must be at least 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention<tokens = 8, heads = 0, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, y = [5], lse = [6]>}

// -----

// expected-error @below {{gradients of an attention with a score and no gradient of it, or the other way round}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention_grad<tokens = 8, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], score = @s>}

// -----

// expected-error @below {{gradients of an attention with sums and no counts of them, or the other way round}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention_grad<tokens = 8, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], partial = 11>}

// -----

// expected-error @below {{gradients of an attention with sums beside a score, or without rows beside heads that share keys or values of another size}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention_grad<tokens = 8, heads = 4, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], partial = 11, counts = 12>}

// -----

// expected-error @below {{gradients of an attention with sums beside a score, or without rows beside heads that share keys or values of another size}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention_grad<tokens = 256, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], partial = 11, counts = 12, row = 128, score = @s, score_grad = @t, box_rows = 64>}

// -----

// expected-error @below {{gradients of an attention in rows without sums or without tensor maps}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention_grad<tokens = 8, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], partial = 11, counts = 12, row = 128>}

// -----

// expected-error @below {{gradients of an attention of 300 tokens in rows of 128: they are rows of a multiple of 128 tokens}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention_grad<tokens = 300, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], partial = 11, counts = 12, row = 128, box_rows = 64>}

// -----

// expected-error @below {{gradients of an attention in rows with heads of 192 and values of 128: both are of up to 64 or both of 65 to 128}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention_grad<tokens = 256, heads = 2, key_heads = 1, head_size = 192, value_size = 128, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], partial = 11, counts = 12, row = 128, box_rows = 64>}

// -----

// expected-error @below {{gradients of an attention with tickets beside sums, or without tensor maps}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention_grad<tokens = 8, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], tickets = 11>}

// -----

// expected-error @below {{gradients of an attention with sums of columns of 96 tokens: they take vector_rows and a multiple of 64 tokens}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention_grad<tokens = 96, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], dv_sums = 11>}

// -----

// expected-error @below {{a scatter with a size of 0: must be at least 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.scatter_sort<tokens = 0, rows = 8, ids = 0, sorted = 1>}

// -----

// expected-error @below {{a scatter with a size of -1: must be at least 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.scatter_sum<tokens = 8, rows = 8, sorted_rows = 8, columns = -1, vector_rows = true, x = 0, sorted = 1, y = [2]>}

// -----

// expected-error @below {{a scan with a size of 0: must be at least 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.scan<size = 0, maximum = false, x = 0, y = [1]>}

// -----

// expected-error @below {{a transpose with a size of 0: must be at least 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.transpose<matrices = 1, p = 64, q = 0, in_matrix = 0, in_row = 64, out_matrix = 0, out_row = 128, is_vector = true, x = 0, y = 1>}

// -----

// expected-error @below {{a kernel of the model's own that calls no function}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.custom<function = "", inputs = [0], outputs = [array<i64: 1>], added = []>}

// -----

// expected-error @below {{a kernel of the model's own that names result 1 of 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.custom<function = "f", inputs = [0], outputs = [array<i64: 1>], added = [1]>}

// -----

// expected-error @below {{a recurrence without factors and without terms}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.recurrence<sequences = 2, length = 1024, channels = 64, vector = 4, multiprocessors = 132, reverse = false, adjoint = true, initial = 0.0 : f64, h = [1]>}

// -----

// expected-error @below {{a recurrence in vectors of 4 that do not divide 6}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.recurrence<sequences = 2, length = 1024, channels = 6, vector = 4, multiprocessors = 132, reverse = false, adjoint = true, initial = 0.0 : f64, b = 0, h = [1]>}

// -----

// expected-error @below {{a recurrence with a size of 0: must be at least 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.recurrence<sequences = 2, length = 1024, channels = 0, vector = 1, multiprocessors = 132, reverse = false, adjoint = true, initial = 0.0 : f64, b = 0, h = [1]>}

// -----

// expected-error @below {{a band with a size of 0: must be at least 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.band_scores<tokens = 0, heads = 2, size = 64, width = 8, multiprocessors = 132, transpose = false, on_matrices = false, first = 0, second = 1, y = [2]>}

// -----

// expected-error @below {{a band with a size of 0: must be at least 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.band_product<tokens = 0, heads = 2, size = 64, width = 8, multiprocessors = 132, transpose = false, on_matrices = false, first = 0, second = 1, y = [2]>}

// -----

// expected-error @below {{a projection in vectors of 4 that do not divide 6 columns}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.sparsemax<rows = 8, columns = 6, vector = 4, x = 0, y = [1]>}

// -----

// expected-error @below {{a scatter to 9 rows, of which 8 are sorted}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.scatter_sum<tokens = 8, rows = 9, sorted_rows = 8, columns = 4, vector_rows = false, x = 0, sorted = 1, y = [2]>}

// -----

// expected-error @below {{a grouped product with a size of 0: must be at least 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.grouped_matmul<rows = 256, groups = 0, columns = 128, inner = 64, transpose = true, x = 0, w = 1, ends = 2, y = [3]>}

// -----

// expected-error @below {{sums of outer products with a size of 0: must be at least 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {instantiates = #kernel.grouped_outer<rows = 256, groups = 4, columns = 0, inner = 64, a = 0, b = 1, ends = 2, w = [3]>}
