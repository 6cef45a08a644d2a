// RUN: nano-opt %s -split-input-file -verify-diagnostics

// A buffer that the kernel says nothing about.
// expected-error @below {{does not state what it does with argument 1: read, write, read_write or add}}
kernel.func @k(read memref<8xf32>, memref<8xf32>, memref<0xi8>, index, index)

// -----

// expected-error @below {{the access of argument 1 follows an argument that states none}}
kernel.func @k(memref<8xf32>, read memref<8xf32>, memref<0xi8>, index, index)

// -----

// expected-error @below {{states what it does with 2 buffers, but takes 1}}
"kernel.func"() ({}) {sym_name = "k", function_type = (memref<8xf32>, memref<0xi8>, index, index) -> (), parameters = [#kernel.parameter<read>, #kernel.parameter<write>]} : () -> ()

// -----

// expected-error @below {{takes buffers and then memref<Nxi8> of scratch memory, begin and end}}
kernel.func @k(read memref<8xf32>, index, index)

// -----

// expected-error @below {{takes buffers and then memref<Nxi8> of scratch memory, begin and end}}
kernel.func @k(read memref<8xf32>, memref<?xi8>, index, index)

// -----

// expected-error @below {{argument 0 is 'f32', which is no memory}}
kernel.func @k(read f32, memref<0xi8>, index, index)

// -----

// expected-error @below {{has results: a kernel writes its buffers}}
"kernel.func"() ({}) {sym_name = "k", function_type = (memref<0xi8>, index, index) -> f32, parameters = []} : () -> ()

// -----

// expected-error @below {{iterations must be at least 0}}
kernel.func @k(memref<0xi8>, index, index) attributes {iterations = -1 : i64}

// -----

// expected-error @below {{grain must be at least 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {grain = 0 : i64}

// -----

// expected-error @below {{has a number of operations below 0}}
kernel.func @k(memref<0xi8>, index, index) attributes {flops = -1.0 : f64}

// -----

// expected-error @below {{has operations of 'i32'; their rates are those of f32, bf16 and 8-bit types}}
kernel.func @k(memref<0xi8>, index, index) attributes {flops = 1.0 : f64, flops_type = i32}

// -----

// expected-error @below {{an alignment of 12 bytes is no power of two}}
kernel.func @k(read memref<8xf32> aligned 12, memref<0xi8>, index, index)

// -----

// expected-error @below {{a constant is not written}}
kernel.func @k(add memref<8xf32> constant, memref<0xi8>, index, index)

// -----

// expected-error @below {{-1 elements an iteration: must be at least 0}}
kernel.func @k(read memref<8xf32> picks -1, memref<0xi8>, index, index)

// -----

// expected-error @below {{expected read, write, read_write or add}}
"kernel.func"() ({}) {sym_name = "k", function_type = (memref<8xf32>, memref<0xi8>, index, index) -> (), parameters = [#kernel.parameter<touch>]} : () -> ()

// -----

// expected-error @below {{0 threads a block: 1 to 1024}}
kernel.func @k(memref<0xi8>, index, index) attributes {launch = #kernel.launch<threads = 0>}

// -----

// expected-error @below {{0 iterations a block: must be at least 1}}
kernel.func @k(memref<0xi8>, index, index) attributes {launch = #kernel.launch<threads = 32, block_iterations = 0>}

// -----

// expected-error @below {{clusters of 17 blocks: 1 to 16}}
kernel.func @k(memref<0xi8>, index, index) attributes {launch = #kernel.launch<threads = 32, cluster = 17>}

// -----

// expected-error @below {{-1 resident blocks: must be at least 0}}
kernel.func @k(memref<0xi8>, index, index) attributes {launch = #kernel.launch<threads = 32, resident_blocks = -1>}

// -----

// A map of one row more than the buffer has.
// expected-error @below {{has a tensor map of 129 rows of 64 elements, 128 bytes apart, which reaches beyond the 16384 bytes of buffer 0}}
kernel.func @k(read memref<128x64xbf16>, memref<0xi8>, index, index) attributes {tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 129, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]}

// -----

// The gaps between rows are not the buffer's: its last row ends before them.
// expected-error @below {{which reaches beyond the 16320 bytes of buffer 0}}
kernel.func @k(read memref<128x32xbf16, strided<[64, 1]>>, memref<0xi8>, index, index) attributes {tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 128, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]}

// -----

// expected-error @below {{has a tensor map of buffer 1 of 1}}
kernel.func @k(read memref<128x64xbf16>, memref<0xi8>, index, index) attributes {tensor_maps = [#kernel.tensor_map<buffer = 1, columns = 64, rows = 128, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]}

// -----

// expected-error @below {{has a tensor map with rows of 128 bytes that are 64 bytes apart}}
kernel.func @k(read memref<128x64xbf16>, memref<0xi8>, index, index) attributes {tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 128, row_bytes = 64, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]}

// -----

// expected-error @below {{has a tensor map with boxes of 128 columns of 2 bytes, which are wider than the 128 bytes of its swizzle}}
kernel.func @k(read memref<128x128xbf16>, memref<0xi8>, index, index) attributes {tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 128, rows = 128, row_bytes = 256, box_columns = 128, box_rows = 128, swizzle_bytes = 128>]}

// -----

// expected-error @below {{a tensor map of 0 rows of 64 elements of buffer 0, which is none}}
kernel.func @k(read memref<128x64xbf16>, memref<0xi8>, index, index) attributes {tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 0, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]}

// -----

// expected-error @below {{a tensor map with rows 136 bytes apart, which the copy engine does not take: a multiple of 16}}
kernel.func @k(read memref<128x64xbf16>, memref<0xi8>, index, index) attributes {tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 8, row_bytes = 136, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]}

// -----

// expected-error @below {{a tensor map with boxes of 512 rows of 64 elements, which the copy engine does not take: 1 to 256}}
kernel.func @k(read memref<128x64xbf16>, memref<0xi8>, index, index) attributes {tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 128, row_bytes = 128, box_columns = 64, box_rows = 512, swizzle_bytes = 128>]}

// -----

// expected-error @below {{a tensor map with a swizzle of 0 bytes, which the copy engine does not take: 32, 64 or 128}}
kernel.func @k(read memref<128x64xbf16>, memref<0xi8>, index, index) attributes {tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 128, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 0>]}
