// RUN: nano-opt %s | nano-opt | FileCheck %s

// Every template by its fields.
// CHECK:      kernel.func @k0(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = []>}
kernel.func @k0(memref<0xi8>, index, index) attributes {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [], others = [], results = [array<i64: 2>], added = []>}
// CHECK:      kernel.func @k1(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [3, 4], others = [], results = [array<i64: 2>, array<i64: 5, 6>], added = [0], column_sum = 1 : i64, epilogue = @f>}
kernel.func @k1(memref<0xi8>, index, index) attributes {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [3, 4], others = [], results = [array<i64: 2>, array<i64: 5, 6>], added = [0], column_sum = 1 : i64, epilogue = @f>}
// CHECK:      kernel.func @largest(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [3, 4], others = [], results = [array<i64: 2>, array<i64: 5, 6>], added = [0], largest = [1, 0], epilogue = @f>}
kernel.func @largest(memref<0xi8>, index, index) attributes {instantiates = #kernel.product<rows = 128, columns = 128, inner = 64, transpose_a = false, transpose_b = true, blocks = 2, a = 0, b = 1, scales = [3, 4], others = [], results = [array<i64: 2>, array<i64: 5, 6>], added = [0], largest = [1, 0], epilogue = @f>}
// CHECK:      kernel.func @k2(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.attention<tokens = 8, heads = 4, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 1.250000e-01 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, y = [5], lse = [], score = @f>}
kernel.func @k2(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention<tokens = 8, heads = 4, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, y = [5], lse = [], score = @f>}
// CHECK:      kernel.func @k3(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.attention_grad<tokens = 8, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 1.250000e-01 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], score = @f, score_grad = @g>}
kernel.func @k3(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention_grad<tokens = 8, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], score = @f, score_grad = @g>}
// CHECK:      kernel.func @in_chain(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.attention_grad<tokens = 8, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 1.250000e-01 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], partial = 11, counts = 12>}
kernel.func @in_chain(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention_grad<tokens = 8, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], partial = 11, counts = 12>}
// CHECK:      kernel.func @by_tickets(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.attention_grad<tokens = 8, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 1.250000e-01 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], tickets = 11, box_rows = 64>}
kernel.func @by_tickets(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention_grad<tokens = 8, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], tickets = 11, box_rows = 64>}

// CHECK:      kernel.func @of_rows(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.attention_grad<tokens = 256, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 1.250000e-01 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], partial = 11, counts = 12, row = 128, box_rows = 64>}
kernel.func @of_rows(memref<0xi8>, index, index) attributes {instantiates = #kernel.attention_grad<tokens = 256, heads = 2, key_heads = 2, head_size = 64, value_size = 64, vector_rows = true, multiprocessors = 1, scale = 0.125 : f64, q = 0, k = 1, v = 2, first = 3, last = 4, lse = 5, delta = 6, dy = 7, dq = [8], dk = [9], dv = [10], partial = 11, counts = 12, row = 128, box_rows = 64>}
// CHECK:      kernel.func @k4(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.scatter_sort<tokens = 8, rows = 8, ids = 0, sorted = 1>}
kernel.func @k4(memref<0xi8>, index, index) attributes {instantiates = #kernel.scatter_sort<tokens = 8, rows = 8, ids = 0, sorted = 1>}
// CHECK:      kernel.func @k5(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.scatter_sum<tokens = 8, rows = 8, sorted_rows = 8, columns = 16, vector_rows = true, x = 0, sorted = 1, y = [2]>}
kernel.func @k5(memref<0xi8>, index, index) attributes {instantiates = #kernel.scatter_sum<tokens = 8, rows = 8, sorted_rows = 8, columns = 16, vector_rows = true, x = 0, sorted = 1, y = [2]>}
// CHECK:      kernel.func @k6(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.scan<size = 8, maximum = true, x = 0, y = [1, 2]>}
kernel.func @k6(memref<0xi8>, index, index) attributes {instantiates = #kernel.scan<size = 8, maximum = true, x = 0, y = [1, 2]>}
// CHECK:      kernel.func @k7(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.transpose<matrices = 1, p = 64, q = 8, in_matrix = 0, in_row = 64, out_matrix = 0, out_row = 128, is_vector = true, x = 0, y = 1>}
kernel.func @k7(memref<0xi8>, index, index) attributes {instantiates = #kernel.transpose<matrices = 1, p = 64, q = 8, in_matrix = 0, in_row = 64, out_matrix = 0, out_row = 128, is_vector = true, x = 0, y = 1>}
// CHECK:      kernel.func @k8(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.custom<function = "f", cpu = "void f();", cuda = "\22", inputs = [0], outputs = [array<i64: 1>], added = [0]>}
kernel.func @k8(memref<0xi8>, index, index) attributes {instantiates = #kernel.custom<function = "f", cpu = "void f();", cuda = "\22", inputs = [0], outputs = [array<i64: 1>], added = [0]>}
// CHECK:      kernel.func @k9(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.recurrence<sequences = 2, length = 1024, channels = 64, vector = 4, multiprocessors = 132, reverse = false, adjoint = true, initial = 1.000000e+00 : f64, a = 0, b = 1, h = [2]>}
kernel.func @k9(memref<0xi8>, index, index) attributes {instantiates = #kernel.recurrence<sequences = 2, length = 1024, channels = 64, vector = 4, multiprocessors = 132, reverse = false, adjoint = true, initial = 1.0 : f64, a = 0, b = 1, h = [2]>}
// CHECK:      kernel.func @k10(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.recurrence<sequences = 2, length = 1024, channels = 64, vector = 4, multiprocessors = 132, reverse = false, adjoint = true, initial = 1.000000e+00 : f64, b = 0, h = [1]>}
kernel.func @k10(memref<0xi8>, index, index) attributes {instantiates = #kernel.recurrence<sequences = 2, length = 1024, channels = 64, vector = 4, multiprocessors = 132, reverse = false, adjoint = true, initial = 1.0 : f64, b = 0, h = [1]>}
// CHECK:      kernel.func @k11(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.recurrence<sequences = 2, length = 1024, channels = 64, vector = 4, multiprocessors = 132, reverse = false, adjoint = true, initial = 1.000000e+00 : f64, a = 0, h = [2, 3]>}
kernel.func @k11(memref<0xi8>, index, index) attributes {instantiates = #kernel.recurrence<sequences = 2, length = 1024, channels = 64, vector = 4, multiprocessors = 132, reverse = false, adjoint = true, initial = 1.0 : f64, a = 0, h = [2, 3]>}
// CHECK:      kernel.func @k12(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.band_scores<tokens = 8, heads = 2, size = 64, width = 8, multiprocessors = 132, transpose = false, on_matrices = false, first = 0, second = 1, y = [2]>}
kernel.func @k12(memref<0xi8>, index, index) attributes {instantiates = #kernel.band_scores<tokens = 8, heads = 2, size = 64, width = 8, multiprocessors = 132, transpose = false, on_matrices = false, first = 0, second = 1, y = [2]>}
// CHECK:      kernel.func @k13(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.band_product<tokens = 8, heads = 2, size = 64, width = 8, multiprocessors = 132, transpose = false, on_matrices = false, first = 0, second = 1, y = [2]>}
kernel.func @k13(memref<0xi8>, index, index) attributes {instantiates = #kernel.band_product<tokens = 8, heads = 2, size = 64, width = 8, multiprocessors = 132, transpose = false, on_matrices = false, first = 0, second = 1, y = [2]>}
// CHECK:      kernel.func @k14(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.grouped_matmul<rows = 256, groups = 4, columns = 128, inner = 64, transpose = true, blocks = 8, x = 0, w = 1, ends = 2, y = [3]>}
kernel.func @k14(memref<0xi8>, index, index) attributes {instantiates = #kernel.grouped_matmul<rows = 256, groups = 4, columns = 128, inner = 64, transpose = true, blocks = 8, x = 0, w = 1, ends = 2, y = [3]>}
// CHECK:      kernel.func @k15(memref<0xi8>, index, index)
// CHECK-SAME: {instantiates = #kernel.grouped_outer<rows = 256, groups = 4, columns = 128, inner = 64, a = 0, b = 1, ends = 2, w = [3, 4]>}
kernel.func @k15(memref<0xi8>, index, index) attributes {instantiates = #kernel.grouped_outer<rows = 256, groups = 4, columns = 128, inner = 64, a = 0, b = 1, ends = 2, w = [3, 4]>}
