// RUN: nano-opt %s -nano-lower-kernels=target=cuda -nano-print-cuda -split-input-file -o %t 2> %t.remarks | FileCheck %s
// RUN: nano-opt %s -nano-lower-kernels=target=cuda -split-input-file 2> %t.remarks | FileCheck %s --check-prefix=IR
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.remarks --implicit-check-not=remark:

// An output that lies transposed is gathered in shared memory and written along its columns, beside
// the same value in rows; a thread reads the operands of four of its eight rows before it computes.
// IR-LABEL: step.program @both
// IR:         step.launch @mul_cast_{{[0-9a-f]+}}(%x, %y, %{{.*}}) {iterations = array<i64: 6>}
// IR-NOT:     step.launch
// CHECK-LABEL: // mul_cast
// CHECK:       #include "nano_tiles.h"
// CHECK:       __launch_bounds__(256)
// Three tiles side by side.
// CHECK:         const int64_t firstRow = work.begin / 3 * 128;
// CHECK-NEXT:    const int64_t firstColumn = work.begin % 3 * 128;
// CHECK:         for (int at = 0; at < 8; at += 4) {
// CHECK-NEXT:      nano::Held<nano::bf16, 8> x_held[4];
// CHECK-NEXT:      #pragma unroll
// CHECK-NEXT:      for (int i = 0; i < 4; ++i) {
// CHECK:             nano::read<8>(x +
// CHECK:           #pragma unroll
// CHECK:             nano::store<8>(y + {{.*}}, [[CODES:cast.*]]);
// CHECK-NEXT:        nano::store<8>(gathered + {{.*}}, [[CODES]]);
// CHECK:         nano::syncBlock();
// CHECK-NEXT:    nano::storeColumns<nano::f8e4m3, 128, 128, 256, 16>(gathered, t, firstColumn * 256 + firstRow,
// CHECK-NEXT:        256, 128, 128);
step.program @both {
  %x = step.buffer "x" : memref<256x384xbf16>
  %y = step.buffer "y" : memref<256x384xf8E4M3FN>
  %b = step.buffer "t" : memref<384x256xf8E4M3FN>
  %t = step.view %b : memref<384x256xf8E4M3FN> to memref<256x384xf8E4M3FN, strided<[1, 256]>>
  step.task ins(%x) outs(%y, %t) : (memref<256x384xbf16>) -> (memref<256x384xf8E4M3FN>, memref<256x384xf8E4M3FN, strided<[1, 256]>>) {
  ^bb0(%a: tensor<256x384xbf16>):
    %0 = nano.cast %a : tensor<256x384xbf16> -> tensor<256x384xf32>
    %1 = nano.mul %0, %0 : tensor<256x384xf32>
    %2 = nano.cast %1 : tensor<256x384xf32> -> tensor<256x384xf8E4M3FN>
    nano.yield %2, %2 : tensor<256x384xf8E4M3FN>, tensor<256x384xf8E4M3FN>
  }
}

// -----

// Of many tiles each has two lines of every column.
// IR-LABEL: step.program @many
// IR:         step.launch @mul_cast_{{[0-9a-f]+}}(%x, %{{.*}}) {iterations = array<i64: 4096>}
// IR-NOT:     step.launch
// CHECK-LABEL: // mul_cast
// CHECK:         const int64_t firstRow = work.begin / 256 * 256;
// CHECK-NEXT:    const int64_t firstColumn = work.begin % 256 * 128;
// CHECK:         for (int at = 0; at < 16; at += 4) {
// CHECK:         nano::storeColumns<nano::f8e4m3, 256, 128, 256, 16>(gathered, t, firstColumn * 4096 + firstRow,
// CHECK-NEXT:        4096, 256, 128);
step.program @many {
  %x = step.buffer "x" : memref<4096x32768xbf16>
  %b = step.buffer "t" : memref<32768x4096xf8E4M3FN>
  %t = step.view %b : memref<32768x4096xf8E4M3FN> to memref<4096x32768xf8E4M3FN, strided<[1, 4096]>>
  step.task ins(%x) outs(%t) : (memref<4096x32768xbf16>) -> (memref<4096x32768xf8E4M3FN, strided<[1, 4096]>>) {
  ^bb0(%a: tensor<4096x32768xbf16>):
    %0 = nano.cast %a : tensor<4096x32768xbf16> -> tensor<4096x32768xf32>
    %1 = nano.mul %0, %0 : tensor<4096x32768xf32>
    %2 = nano.cast %1 : tensor<4096x32768xf32> -> tensor<4096x32768xf8E4M3FN>
    nano.yield %2 : tensor<4096x32768xf8E4M3FN>
  }
}

// -----

// Many tiles of wide elements have more rows than one part, here two outputs of four parts.
// IR-LABEL: step.program @wide
// IR:         step.launch @mul_{{[0-9a-f]+}}(%x, %{{.*}}) {iterations = array<i64: 4608>}
// IR-NOT:     step.launch
// CHECK-LABEL: // mul
// CHECK:         const int64_t firstRow = work.begin * 128;
// CHECK:         const int64_t place = [[ROW:.*]] * 64 + ({{.*}} ^ [[ROW]] / 4 % 8 * 4);
// CHECK:         nano::storeColumns<float, 128, 64, 256, 16, 4>(gathered{{.*}}, t, firstRow, 589824, 128, 64);
// CHECK:         nano::storeColumns<float, 128, 64, 256, 16, 4>(gathered{{.*}}, u, firstRow, 589824, 128, 64);
step.program @wide {
  %x = step.buffer "x" : memref<589824x64xf32>
  %b = step.buffer "t" : memref<64x589824xf32>
  %c = step.buffer "u" : memref<64x589824xf32>
  %t = step.view %b : memref<64x589824xf32> to memref<589824x64xf32, strided<[1, 589824]>>
  %u = step.view %c : memref<64x589824xf32> to memref<589824x64xf32, strided<[1, 589824]>>
  step.task ins(%x) outs(%t, %u) : (memref<589824x64xf32>) -> (memref<589824x64xf32, strided<[1, 589824]>>, memref<589824x64xf32, strided<[1, 589824]>>) {
  ^bb0(%a: tensor<589824x64xf32>):
    %0 = nano.mul %a, %a : tensor<589824x64xf32>
    %1 = nano.mul %0, %a : tensor<589824x64xf32>
    nano.yield %0, %1 : tensor<589824x64xf32>, tensor<589824x64xf32>
  }
}

// -----

// A maximum that no element depends on: a block walks over the columns of its 64 rows, and threads
// keep what they have found in each of their two. The next tile is read while this one is written, with
// what is one number a column, and gathered in another buffer.
// IR-LABEL: step.program @strip
// IR:         step.launch @max_mul_cast_{{[0-9a-f]+}}({{.*}}) {iterations = array<i64: 128>}
// IR-NOT:     step.launch
// CHECK-LABEL: // max_mul_cast
// CHECK:         const auto work = launch.find(blockIdx.x, 64);
// CHECK:         float partials[2];
// CHECK:         nano::Held<nano::bf16, 8> x_held[2];
// CHECK:         c_held[0] = c_value;
// CHECK:           nano::read<8>(x +
// CHECK:         for (int at = 0; at < 384; at += 128) {
// CHECK:           const int64_t [[BUFFER:.*]] = at / 128 % 2 * 8192;
// CHECK-NOT:         nano::read<8>(c
// CHECK:             partials[i] =
// CHECK:             nano::store<8>(gathered + ([[BUFFER]] +
// CHECK:           const int64_t next = at + 128;
// CHECK-NEXT:      if (next < 384) {
// CHECK:             nano::read<8>(c +
// CHECK:               nano::read<8>(x +
// CHECK:           nano::syncBlock();
// CHECK-NEXT:      nano::storeColumns<nano::f8e5m2, 64, 128, 512, 16, 1, 0>(
// CHECK-NOT:       nano::syncBlock();
// CHECK:         }
// CHECK:           nano::groupMax<16>(partials_value)
// CHECK-NEXT:      if (lane == 0) {
// CHECK-NEXT:        m[
step.program @strip {
  %x = step.buffer "x" : memref<128x384xbf16>
  %c = step.buffer "c" : memref<384xf32>
  %m = step.buffer "m" : memref<128xbf16>
  %b = step.buffer "t" : memref<384x128xf8E5M2>
  %t = step.view %b : memref<384x128xf8E5M2> to memref<128x384xf8E5M2, strided<[1, 128]>>
  step.task ins(%x, %c) outs(%m, %t) : (memref<128x384xbf16>, memref<384xf32>) -> (memref<128xbf16>, memref<128x384xf8E5M2, strided<[1, 128]>>) {
  ^bb0(%a: tensor<128x384xbf16>, %d: tensor<384xf32>):
    %0 = nano.abs %a : tensor<128x384xbf16>
    %1 = nano.reduce max %0 dims [1] : tensor<128x384xbf16> -> tensor<128xbf16>
    %e = nano.cast %a : tensor<128x384xbf16> -> tensor<128x384xf32>
    %f = nano.broadcast %d dims [1] : tensor<384xf32> -> tensor<128x384xf32>
    %g = nano.mul %e, %f : tensor<128x384xf32>
    %2 = nano.cast %g : tensor<128x384xf32> -> tensor<128x384xf8E5M2>
    nano.yield %1, %2 : tensor<128xbf16>, tensor<128x384xf8E5M2>
  }
}

// -----

// Elements that depend on a row reduction: a block gathers 64 whole rows, one a warp at a time.
// IR-LABEL: step.program @rows
// IR:         step.launch @sum_mul_cast_{{[0-9a-f]+}}({{.*}}) {iterations = array<i64: 128>}
// IR-NOT:     step.launch
// CHECK-LABEL: // sum_mul_cast
// CHECK:         const auto work = launch.find(blockIdx.x, 64);
// CHECK:         for (int at = 0; at < 64; at += 8) {
// CHECK:           nano::groupSum<32>(
// CHECK:             nano::store<8>(gathered + ({{.*}} ^ {{.*}}),
// CHECK:         nano::syncBlock();
// CHECK-NEXT:    nano::storeColumns<nano::f8e4m3, 64, 768, 256, 16>(gathered, t, work.begin, 128, 64, 768);
step.program @rows {
  %x = step.buffer "x" : memref<128x768xbf16>
  %b = step.buffer "t" : memref<768x128xf8E4M3FN>
  %t = step.view %b : memref<768x128xf8E4M3FN> to memref<128x768xf8E4M3FN, strided<[1, 128]>>
  step.task ins(%x) outs(%t) : (memref<128x768xbf16>) -> memref<128x768xf8E4M3FN, strided<[1, 128]>> {
  ^bb0(%a: tensor<128x768xbf16>):
    %0 = nano.cast %a : tensor<128x768xbf16> -> tensor<128x768xf32>
    %1 = nano.reduce sum %0 dims [1] : tensor<128x768xf32> -> tensor<128xf32>
    %2 = nano.broadcast %1 dims [0] : tensor<128xf32> -> tensor<128x768xf32>
    %3 = nano.mul %0, %2 : tensor<128x768xf32>
    %4 = nano.cast %3 : tensor<128x768xf32> -> tensor<128x768xf8E4M3FN>
    nano.yield %4 : tensor<128x768xf8E4M3FN>
  }
}

// -----

// Rows that are too long to be gathered: their sums go to a buffer, and tiles are computed from it.
// What the first kernel computes from a sum, another output has.
// IR-LABEL: step.program @long
// IR:         %[[SUMS:.*]] = step.buffer "row_numbers" : memref<256xf32>
// IR:         step.launch @sum_log_exp_{{[0-9a-f]+}}(%x, %l, %[[SUMS]]) {iterations = array<i64: 256>}
// IR-NEXT:    step.launch @exp_mul_div_{{[0-9a-f]+}}(%x, %[[SUMS]], %y, %{{.*}}) {iterations = array<i64: 790>}
// CHECK-LABEL: // sum_log_exp
// CHECK:         nano::blockSum<256>(
// CHECK:         if (thread == 0) {
// CHECK-NEXT:      l[work.begin] =
// CHECK-NEXT:      row_numbers[work.begin] = sum;
// CHECK-LABEL: // exp_mul_div
// One number a row is read ahead like the operands.
// CHECK:           float row_numbers_held[4];
// CHECK:             nano::read(row_numbers + (firstRow +
// CHECK:         nano::storeColumns<nano::f8e5m2, 128, 128, 256, 16>(
step.program @long {
  %x = step.buffer "x" : memref<256x50560xbf16>
  %l = step.buffer "l" : memref<256xf32>
  %y = step.buffer "y" : memref<256x50560xf8E5M2>
  %b = step.buffer "t" : memref<50560x256xf8E5M2>
  %t = step.view %b : memref<50560x256xf8E5M2> to memref<256x50560xf8E5M2, strided<[1, 256]>>
  step.task ins(%x) outs(%l, %y, %t) : (memref<256x50560xbf16>) -> (memref<256xf32>, memref<256x50560xf8E5M2>, memref<256x50560xf8E5M2, strided<[1, 256]>>) {
  ^bb0(%a: tensor<256x50560xbf16>):
    %0 = nano.cast %a : tensor<256x50560xbf16> -> tensor<256x50560xf32>
    %1 = nano.exp %0 : tensor<256x50560xf32>
    %2 = nano.reduce sum %1 dims [1] : tensor<256x50560xf32> -> tensor<256xf32>
    %3 = nano.log %2 : tensor<256xf32>
    %4 = nano.constant 1.0 : tensor<256xf32>
    %5 = nano.div %4, %2 : tensor<256xf32>
    %6 = nano.broadcast %5 dims [0] : tensor<256xf32> -> tensor<256x50560xf32>
    %7 = nano.mul %1, %6 : tensor<256x50560xf32>
    %8 = nano.cast %7 : tensor<256x50560xf32> -> tensor<256x50560xf8E5M2>
    nano.yield %3, %8, %8 : tensor<256xf32>, tensor<256x50560xf8E5M2>, tensor<256x50560xf8E5M2>
  }
}

// -----

// Sums of columns beside rows of 8 bits that lie transposed: a block goes through the rows of a sum
// strip by strip, and adds what its groups of threads have of each tile to the sums in shared memory,
// by other threads than those that write the tile.
// IR-LABEL: step.program @columns
// IR-NEXT:    %x = step.buffer
// IR:         step.launch @sum_cast_{{[0-9a-f]+}}(%x, %m, %{{.*}})
// IR-NOT:     step.launch
// CHECK-LABEL: // sum_cast
// CHECK:         for (int64_t at = thread; at < 128; at += 512)
// CHECK-NEXT:      columnSums[at] = 0.0f;
// CHECK:         nano::store<8>(tileSums +
// CHECK:         nano::syncBlock();
// CHECK:         nano::storeColumns<nano::f8e4m3, 64, 128, 512, 8, 1, 0>(
// CHECK-NEXT:    lastRow - firstRow, 72 - at, 0);
// CHECK:         for (int64_t at_2 = worker; at_2 < 128; at_2 += 512) {
// CHECK:         for (int i = 0; i < 32; i += 4) {
// CHECK:           partial + tileSums[
// CHECK:         nano::syncBlock();
// CHECK:         nano::store<8>(m + 
step.program @columns {
  %x = step.buffer "x" : memref<40x72xf32>
  %m = step.buffer "m" : memref<72xf32>
  %b = step.buffer "t" : memref<72x40xf8E4M3FN>
  %t = step.view %b : memref<72x40xf8E4M3FN> to memref<40x72xf8E4M3FN, strided<[1, 40]>>
  step.task ins(%x) outs(%m, %t) : (memref<40x72xf32>) -> (memref<72xf32>, memref<40x72xf8E4M3FN, strided<[1, 40]>>) {
  ^bb0(%a: tensor<40x72xf32>):
    %0 = nano.reduce sum %a dims [0] : tensor<40x72xf32> -> tensor<72xf32>
    %1 = nano.cast %a : tensor<40x72xf32> -> tensor<40x72xf8E4M3FN>
    nano.yield %0, %1 : tensor<72xf32>, tensor<40x72xf8E4M3FN>
  }
}

// -----

// Sums of columns of what a norm has made of whole rows: what lies transposed is a copy of its own,
// here of rows that only it needs. For 8 bits a remark tells.
// IR-LABEL: step.program @columns_of_norm
// IR:         %[[ROWS:.*]] = step.buffer "rows" : memref<40x72xf8E4M3FN>
// IR:         step.launch @rmsnorm_{{[0-9a-z_]+}}(%x, %m, %[[ROWS]])
// IR-NEXT:    step.launch @copy_{{[0-9a-f]+}}(%[[ROWS]], %{{.*}})
// REMARK: remark: a kernel of its own transposes 40×72: the kernel that makes its operand adds up columns of what it knows of whole rows only, and so has none to gather
step.program @columns_of_norm {
  %x = step.buffer "x" : memref<40x72xf32>
  %m = step.buffer "m" : memref<72xf32>
  %b = step.buffer "t" : memref<72x40xf8E4M3FN>
  %t = step.view %b : memref<72x40xf8E4M3FN> to memref<40x72xf8E4M3FN, strided<[1, 40]>>
  step.task ins(%x) outs(%m, %t) : (memref<40x72xf32>) -> (memref<72xf32>, memref<40x72xf8E4M3FN, strided<[1, 40]>>) {
  ^bb0(%a: tensor<40x72xf32>):
    %q = nano.mul %a, %a : tensor<40x72xf32>
    %s = nano.reduce sum %q dims [1] : tensor<40x72xf32> -> tensor<40xf32>
    %r = nano.rsqrt %s : tensor<40xf32>
    %rb = nano.broadcast %r dims [0] : tensor<40xf32> -> tensor<40x72xf32>
    %n = nano.mul %a, %rb : tensor<40x72xf32>
    %0 = nano.reduce sum %n dims [0] : tensor<40x72xf32> -> tensor<72xf32>
    %1 = nano.cast %n : tensor<40x72xf32> -> tensor<40x72xf8E4M3FN>
    nano.yield %0, %1 : tensor<72xf32>, tensor<40x72xf8E4M3FN>
  }
}

// -----

// Matrices of a batch whose rows a tile would mix.
// IR-LABEL: step.program @batch
// IR:         %[[ROWS:.*]] = step.buffer "rows" : memref<3x40x64xf8E4M3FN>
// IR:         step.launch @cast_{{[0-9a-f]+}}(%x, %[[ROWS]])
// IR-NEXT:    step.launch @transpose_{{[0-9a-f]+}}(%[[ROWS]], %{{.*}})
// REMARK: remark: a kernel of its own transposes 3×40×64: the kernel that makes its operand gathers 128 rows at a time, of which matrices of 40 rows are no multiple
step.program @batch {
  %x = step.buffer "x" : memref<3x40x64xf32>
  %b = step.buffer "t" : memref<3x64x40xf8E4M3FN>
  %t = step.view %b : memref<3x64x40xf8E4M3FN> to memref<3x40x64xf8E4M3FN, strided<[2560, 1, 40]>>
  step.task ins(%x) outs(%t) : (memref<3x40x64xf32>) -> memref<3x40x64xf8E4M3FN, strided<[2560, 1, 40]>> {
  ^bb0(%a: tensor<3x40x64xf32>):
    %0 = nano.cast %a : tensor<3x40x64xf32> -> tensor<3x40x64xf8E4M3FN>
    nano.yield %0 : tensor<3x40x64xf8E4M3FN>
  }
}

// -----

// Rows that are read rotated, and too long to be gathered.
// IR-LABEL: step.program @rotated
// IR:         step.launch @rotate_cast_{{[0-9a-f]+}}(%x, %[[ROWS:.*]])
// IR-NEXT:    step.launch @copy_{{[0-9a-f]+}}(%[[ROWS]], %{{.*}})
// REMARK: remark: a kernel of its own transposes 64×65536: the kernel that makes its operand needs more of a row than a block can gather
step.program @rotated {
  %x = step.buffer "x" : memref<64x65536xbf16>
  %b = step.buffer "t" : memref<65536x64xf8E4M3FN>
  %t = step.view %b : memref<65536x64xf8E4M3FN> to memref<64x65536xf8E4M3FN, strided<[1, 64]>>
  step.task ins(%x) outs(%t) : (memref<64x65536xbf16>) -> memref<64x65536xf8E4M3FN, strided<[1, 64]>> {
  ^bb0(%a: tensor<64x65536xbf16>):
    %0 = nano.rotate %a by 32 : tensor<64x65536xbf16>
    %1 = nano.cast %0 : tensor<64x65536xbf16> -> tensor<64x65536xf8E4M3FN>
    nano.yield %1 : tensor<64x65536xf8E4M3FN>
  }
}

// -----

// A task that only transposes what is in memory: bytes are gathered like what a kernel computes, other elements by a template.
// IR-LABEL: step.program @copied
// IR:         step.launch @copy_{{[0-9a-f]+}}(%x, %{{.*}})
// REMARK: remark: a kernel of its own transposes 40×72: its operand was written by rows, for others that read it so
step.program @copied {
  %x = step.buffer "x" : memref<40x72xf8E4M3FN>
  %b = step.buffer "t" : memref<72x40xf8E4M3FN>
  %t = step.view %b : memref<72x40xf8E4M3FN> to memref<40x72xf8E4M3FN, strided<[1, 40]>>
  step.task ins(%x) outs(%t) : (memref<40x72xf8E4M3FN>) -> memref<40x72xf8E4M3FN, strided<[1, 40]>> {
  ^bb0(%a: tensor<40x72xf8E4M3FN>):
    nano.yield %a : tensor<40x72xf8E4M3FN>
  }
}

// -----

// Of a row of three operands a thread holds 48 registers: three blocks of few threads, not one of many.
// CHECK-LABEL: // sum_mul_add
// CHECK:         __launch_bounds__(128, 3)
// CHECK:         for (int at = 0; at < 32; at += 4) {
// CHECK:         nano::storeColumns<nano::f8e4m3, 32, 1024, 128, 16>(
step.program @much {
  %x = step.buffer "x" : memref<128x1024xbf16>
  %y = step.buffer "y" : memref<128x1024xbf16>
  %z = step.buffer "z" : memref<128x1024xbf16>
  %b = step.buffer "t" : memref<1024x128xf8E4M3FN>
  %t = step.view %b : memref<1024x128xf8E4M3FN> to memref<128x1024xf8E4M3FN, strided<[1, 128]>>
  step.task ins(%x, %y, %z) outs(%t) : (memref<128x1024xbf16>, memref<128x1024xbf16>, memref<128x1024xbf16>) -> memref<128x1024xf8E4M3FN, strided<[1, 128]>> {
  ^bb0(%a: tensor<128x1024xbf16>, %c: tensor<128x1024xbf16>, %d: tensor<128x1024xbf16>):
    %0 = nano.cast %a : tensor<128x1024xbf16> -> tensor<128x1024xf32>
    %1 = nano.cast %c : tensor<128x1024xbf16> -> tensor<128x1024xf32>
    %2 = nano.cast %d : tensor<128x1024xbf16> -> tensor<128x1024xf32>
    %3 = nano.reduce sum %0 dims [1] : tensor<128x1024xf32> -> tensor<128xf32>
    %4 = nano.broadcast %3 dims [0] : tensor<128xf32> -> tensor<128x1024xf32>
    %5 = nano.mul %1, %4 : tensor<128x1024xf32>
    %6 = nano.add %5, %2 : tensor<128x1024xf32>
    %7 = nano.cast %6 : tensor<128x1024xf32> -> tensor<128x1024xf8E4M3FN>
    nano.yield %7 : tensor<128x1024xf8E4M3FN>
  }
}

// -----

// IR-LABEL: step.program @wide_copied
// IR:         step.launch @transpose_{{[0-9a-f]+}}(%x, %{{.*}})
step.program @wide_copied {
  %x = step.buffer "x" : memref<40x72xbf16>
  %b = step.buffer "t" : memref<72x40xbf16>
  %t = step.view %b : memref<72x40xbf16> to memref<40x72xbf16, strided<[1, 40]>>
  step.task ins(%x) outs(%t) : (memref<40x72xbf16>) -> memref<40x72xbf16, strided<[1, 40]>> {
  ^bb0(%a: tensor<40x72xbf16>):
    nano.yield %a : tensor<40x72xbf16>
  }
}
