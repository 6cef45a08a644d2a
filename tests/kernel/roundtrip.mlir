// RUN: nano-opt %s | nano-opt | FileCheck %s
// RUN: nano-opt %s -mlir-print-op-generic | nano-opt | FileCheck %s
// RUN: nano-opt %s -mlir-print-debuginfo | nano-opt | FileCheck %s

// CHECK:      kernel.func @scale(read %arg0: memref<8xf32> as "blocks.0.x" aligned 16 constant picks 4, add %arg1: memref<8xf32, strided<[2]>>,
// CHECK-SAME:   %arg2: memref<64xi8>, %arg3: index, %arg4: index) attributes {flops = 2.000000e+00 : f64, grain = 4 : i64, iterations = 8 : i64, summary = "mul"} {
// CHECK-NEXT:   memref.load
// CHECK-NEXT:   memref.store
// CHECK-NEXT:   kernel.return
// CHECK-NEXT: }
kernel.func @scale(read %x: memref<8xf32> as "blocks.0.x" aligned 16 constant picks 4, add %y: memref<8xf32, strided<[2]>>,
                   %scratch: memref<64xi8>, %begin: index, %end: index)
    attributes {iterations = 8 : i64, grain = 4 : i64, flops = 2.0 : f64, summary = "mul"} {
  %v = memref.load %x[%begin] : memref<8xf32>
  memref.store %v, %y[%begin] : memref<8xf32, strided<[2]>>
  kernel.return
}

// CHECK:      kernel.func @declared(read_write memref<128x64xbf16>, write memref<?xf32> as "y", memref<0xi8>, index, index)
// CHECK-SAME:   launch = #kernel.launch<threads = 384, cluster = 2, shares_exponentials = true>
// CHECK-SAME:   tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 128, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]
kernel.func @declared(read_write memref<128x64xbf16>, write memref<?xf32> as "y", memref<0xi8>, index, index)
    attributes {launch = #kernel.launch<threads = 384, cluster = 2, shares_exponentials = true>,
                tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 64, rows = 128, row_bytes = 128, box_columns = 64, box_rows = 128, swizzle_bytes = 128>]}
