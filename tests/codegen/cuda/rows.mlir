// RUN: nano-opt %s -nano-lower-kernels=target=cuda -nano-print-cuda -split-input-file -o /dev/null | FileCheck %s

// A row that a warp's registers hold is read once: loads first, then a pass a reduction.
// CHECK-LABEL: // rmsnorm
// CHECK:       // model.cpp:3, 4
// CHECK-NEXT:  #include "nano_kernels.h"
// CHECK:       extern "C" __global__ void __launch_bounds__(128)
// CHECK-NEXT:  rmsnorm_{{.*}}(const __grid_constant__ nano::Launch<2, 1> launch) {
// Four rows a block.
// CHECK-NEXT:    const auto work = launch.find(blockIdx.x, 4);
// CHECK-NEXT:    auto *x = work.template pointer<const nano::bf16>(0);
// CHECK-NEXT:    auto *y = work.template pointer<nano::bf16>(1);
// CHECK:         const int64_t row = work.begin + thread / 32;
// CHECK:         if (row < work.end) {
// CHECK-NEXT:      nano::Held<nano::bf16, 8> x_held[3];
// CHECK:           #pragma unroll
// CHECK-NEXT:      for (int i = 0; i < 3; ++i) {
// CHECK:             nano::read<8>(x +
// CHECK:           nano::Vec<float, 8> partial = nano::splat<8>(0.0f);
// CHECK-NEXT:      #pragma unroll
// CHECK-NEXT:      for (int i = 0; i < 3; ++i) {
// CHECK-NEXT:        const auto [[X:.*]] = nano::to<float>(x_held[i].elements());
// CHECK-NEXT:        partial = nano::fma([[X]], [[X]], partial);
// CHECK-NEXT:      }
// CHECK-NEXT:      const float [[SUM:.*]] = nano::fma(nano::groupSum<32>(nano::sum(partial)), 0.0013020834f, 0.0078125f);
// CHECK-NEXT:      const float [[R:.*]] = nano::rsqrt([[SUM]]);
// CHECK:           for (int i = 0; i < 3; ++i) {
// CHECK-NOT:         nano::read
// CHECK:             const auto [[Y:.*]] = nano::to<nano::bf16>(nano::to<float>(x_held[i].elements()) * [[R]]);
// CHECK-NEXT:        nano::store<8>(y + {{.*}}, [[Y]]);
step.program @norm {
  %x = step.buffer "x" : memref<64x768xbf16>
  %y = step.buffer "y" : memref<64x768xbf16>
  step.task ins(%x) outs(%y) : (memref<64x768xbf16>) -> memref<64x768xbf16> {
  ^bb0(%a: tensor<64x768xbf16>):
    %0 = nano.cast %a : tensor<64x768xbf16> -> tensor<64x768xf32> loc("model.cpp":3:1)
    %1 = nano.mul %0, %0 : tensor<64x768xf32> loc("model.cpp":3:1)
    %2 = nano.reduce sum %1 dims [1] : tensor<64x768xf32> -> tensor<64xf32> loc("model.cpp":4:1)
    %3 = nano.constant 0.0013020833333333333 : tensor<64xf32> loc("model.cpp":4:1)
    %4 = nano.mul %2, %3 : tensor<64xf32> loc("model.cpp":4:1)
    %5 = nano.constant 7.812500e-03 : tensor<64xf32> loc("model.cpp":4:1)
    %6 = nano.add %4, %5 : tensor<64xf32> loc("model.cpp":4:1)
    %7 = nano.rsqrt %6 : tensor<64xf32> loc("model.cpp":4:1)
    %8 = nano.broadcast %7 dims [0] : tensor<64xf32> -> tensor<64x768xf32> loc("model.cpp":4:1)
    %9 = nano.mul %0, %8 : tensor<64x768xf32> loc("model.cpp":4:1)
    %10 = nano.cast %9 : tensor<64x768xf32> -> tensor<64x768xbf16> loc("model.cpp":4:1)
    nano.yield %10 : tensor<64x768xbf16>
  }
}

// -----

// What a pass stores rounded, and later ones read, is held for them as it is stored: neither operand of the sum is needed again. The row
// is longer than a warp's vectors by less than one, so that threads read a vector or none, as words.
// CHECK-LABEL: // sum_mul_add
// CHECK:             const auto [[A:.*]] = nano::readLater<8>(a + {{.*}}, inside);
// CHECK-NEXT:        [[X:.*]]_held[i] = [[A]];
// CHECK:           nano::Held<nano::bf16, 8> kept[7];
// CHECK:           for (int i = 0; i < 7; ++i) {
// CHECK:             const auto [[SUM:.*]] = nano::to<nano::bf16>({{.*}} + {{.*}});
// CHECK:             nano::store<8>(y + {{.*}}, [[SUM]], inside);
// CHECK:             kept[i] = [[SUM]];
// CHECK:           nano::groupSum<32>(
// CHECK:           for (int i = 0; i < 7; ++i) {
// CHECK-NOT:         _held[i]
// CHECK:             nano::to<float>(kept[i].elements()) *
// CHECK-NOT:         _held[i]
// CHECK:             nano::store<8>(z +
step.program @kept_as_stored {
  %a = step.buffer "a" : memref<64x1600xbf16>
  %b = step.buffer "b" : memref<64x1600xbf16>
  %y = step.buffer "y" : memref<64x1600xbf16>
  %z = step.buffer "z" : memref<64x1600xbf16>
  step.task ins(%a, %b) outs(%y, %z) : (memref<64x1600xbf16>, memref<64x1600xbf16>) -> (memref<64x1600xbf16>, memref<64x1600xbf16>) {
  ^bb0(%0: tensor<64x1600xbf16>, %1: tensor<64x1600xbf16>):
    %2 = nano.cast %0 : tensor<64x1600xbf16> -> tensor<64x1600xf32>
    %3 = nano.cast %1 : tensor<64x1600xbf16> -> tensor<64x1600xf32>
    %4 = nano.add %2, %3 : tensor<64x1600xf32>
    %5 = nano.cast %4 : tensor<64x1600xf32> -> tensor<64x1600xbf16>
    %6 = nano.cast %5 : tensor<64x1600xbf16> -> tensor<64x1600xf32>
    %7 = nano.reduce sum %6 dims [1] : tensor<64x1600xf32> -> tensor<64xf32>
    %8 = nano.broadcast %7 dims [0] : tensor<64xf32> -> tensor<64x1600xf32>
    %9 = nano.mul %6, %8 : tensor<64x1600xf32>
    %10 = nano.cast %9 : tensor<64x1600xf32> -> tensor<64x1600xbf16>
    nano.yield %5, %10 : tensor<64x1600xbf16>, tensor<64x1600xbf16>
  }
}

// -----

// Not so where a later pass needs an operand besides: held both would take more registers.
// CHECK-LABEL: // sum_mul_add
// CHECK-NOT:       kept
// CHECK:           nano::store<8>(z +
step.program @operand_needed_again {
  %a = step.buffer "a" : memref<64x1600xbf16>
  %y = step.buffer "y" : memref<64x1600xbf16>
  %z = step.buffer "z" : memref<64x1600xbf16>
  step.task ins(%a) outs(%y, %z) : (memref<64x1600xbf16>) -> (memref<64x1600xbf16>, memref<64x1600xbf16>) {
  ^bb0(%0: tensor<64x1600xbf16>):
    %2 = nano.cast %0 : tensor<64x1600xbf16> -> tensor<64x1600xf32>
    %4 = nano.add %2, %2 : tensor<64x1600xf32>
    %5 = nano.cast %4 : tensor<64x1600xf32> -> tensor<64x1600xbf16>
    %6 = nano.cast %5 : tensor<64x1600xbf16> -> tensor<64x1600xf32>
    %7 = nano.reduce sum %6 dims [1] : tensor<64x1600xf32> -> tensor<64xf32>
    %8 = nano.broadcast %7 dims [0] : tensor<64xf32> -> tensor<64x1600xf32>
    %9 = nano.mul %6, %8 : tensor<64x1600xf32>
    %11 = nano.mul %9, %2 : tensor<64x1600xf32>
    %10 = nano.cast %11 : tensor<64x1600xf32> -> tensor<64x1600xbf16>
    nano.yield %5, %10 : tensor<64x1600xbf16>, tensor<64x1600xbf16>
  }
}

// -----

// Three operands of a row of as many vectors: registers for three blocks.
// CHECK-LABEL: // sum_mul
// CHECK:       __launch_bounds__(128, 3)
step.program @many_registers {
  %a = step.buffer "a" : memref<64x1600xbf16>
  %b = step.buffer "b" : memref<64x1600xbf16>
  %c = step.buffer "c" : memref<64x1600xbf16>
  step.task ins(%a, %b, %c) outs(%c) : (memref<64x1600xbf16>, memref<64x1600xbf16>, memref<64x1600xbf16>) -> memref<64x1600xbf16> {
  ^bb0(%0: tensor<64x1600xbf16>, %1: tensor<64x1600xbf16>, %2: tensor<64x1600xbf16>):
    %3 = nano.cast %0 : tensor<64x1600xbf16> -> tensor<64x1600xf32>
    %4 = nano.cast %1 : tensor<64x1600xbf16> -> tensor<64x1600xf32>
    %5 = nano.cast %2 : tensor<64x1600xbf16> -> tensor<64x1600xf32>
    %6 = nano.mul %3, %4 : tensor<64x1600xf32>
    %7 = nano.reduce sum %6 dims [1] : tensor<64x1600xf32> -> tensor<64xf32>
    %8 = nano.broadcast %7 dims [0] : tensor<64xf32> -> tensor<64x1600xf32>
    %9 = nano.mul %3, %8 : tensor<64x1600xf32>
    %10 = nano.add %9, %5 : tensor<64x1600xf32>
    %11 = nano.cast %10 : tensor<64x1600xf32> -> tensor<64x1600xbf16>
    nano.yield %11 : tensor<64x1600xbf16>
  }
}

// -----

// Rows whose columns are added up: of columns that not all threads have, what rows have in common is read before the loop over them.
// CHECK-LABEL: // sum
// CHECK:         const auto inside = nano::wholly(
// CHECK-NEXT:    const auto [[W:.*]] = nano::read<8>(w + column, inside);
// CHECK-NEXT:    #pragma unroll 2
// CHECK-NEXT:    for (int64_t i = group; i < 64; i += 2) {
// CHECK:           nano::read<8>(x +
// CHECK:           * [[W]]
step.program @columns {
  %x = step.buffer "x" : memref<1024x1600xbf16>
  %w = step.buffer "w" : memref<1600xf32>
  %y = step.buffer "y" : memref<1024x1600xbf16>
  %s = step.buffer "s" : memref<16x1600xf32>
  step.task ins(%x, %w) outs(%y, %s) : (memref<1024x1600xbf16>, memref<1600xf32>) -> (memref<1024x1600xbf16>, memref<16x1600xf32>) {
  ^bb0(%0: tensor<1024x1600xbf16>, %1: tensor<1600xf32>):
    %2 = nano.cast %0 : tensor<1024x1600xbf16> -> tensor<1024x1600xf32>
    %3 = nano.broadcast %1 dims [1] : tensor<1600xf32> -> tensor<1024x1600xf32>
    %4 = nano.mul %2, %3 : tensor<1024x1600xf32>
    %5 = nano.cast %4 : tensor<1024x1600xf32> -> tensor<1024x1600xbf16>
    %6 = nano.reshape %2 : tensor<1024x1600xf32> -> tensor<16x64x1600xf32>
    %7 = nano.reduce sum %6 dims [1] : tensor<16x64x1600xf32> -> tensor<16x1600xf32>
    nano.yield %5, %7 : tensor<1024x1600xbf16>, tensor<16x1600xf32>
  }
}

// -----

// A long row that two passes read and none keeps anything of stays in shared memory for the second. The online log-sum-exp has one largest
// number for all lanes.
// CHECK-LABEL: // softmax
// CHECK:       __launch_bounds__(512, 2)
// CHECK:         nano::bf16 *kept = nano::dynamicShared<nano::bf16>(128);
// CHECK:         float partial = -3.4028235e+38f;
// CHECK:         #pragma unroll 3
// CHECK-NEXT:    for (int i = 0; i < 12; ++i) {
// CHECK:           const auto [[X:.*]] = nano::load<8>(x +
// CHECK:           const float [[M:.*]] = nano::maximum(partial, nano::largest([[WIDE:.*]]));
// CHECK-NEXT:      const auto [[NEXT:.*]] = nano::fma(partial_2, nano::exponential(partial - [[M]]),
// CHECK-NEXT:          nano::exponential([[WIDE]] - [[M]]));
// CHECK-NEXT:      nano::store<8>(kept + column, [[X]]);
// CHECK:         nano::blockMax<512>(
// CHECK:         nano::blockSum<512>(
// CHECK:         for (int i = 0; i < 12; ++i) {
// CHECK-NOT:       nano::load<8>(x
// CHECK:           nano::load<8>(kept +
// CHECK:           nano::store<8>(x +
step.program @softmax {
  %x = step.buffer "x" : memref<16x50304xbf16>
  step.task ins(%x) outs(%x) : (memref<16x50304xbf16>) -> memref<16x50304xbf16> {
  ^bb0(%a: tensor<16x50304xbf16>):
    %0 = nano.cast %a : tensor<16x50304xbf16> -> tensor<16x50304xf32>
    %1 = nano.reduce logsumexp %0 dims [1] : tensor<16x50304xf32> -> tensor<16xf32>
    %2 = nano.broadcast %1 dims [0] : tensor<16xf32> -> tensor<16x50304xf32>
    %3 = nano.sub %0, %2 : tensor<16x50304xf32>
    %4 = nano.exp %3 : tensor<16x50304xf32>
    %5 = nano.cast %4 : tensor<16x50304xf32> -> tensor<16x50304xbf16>
    nano.yield %5 : tensor<16x50304xbf16>
  }
}

// -----

// A short row belongs to part of a warp, as few threads as make a line of memory. What a view's
// offset allows is what is assumed: 8 bytes here.
// CHECK-LABEL: // sum
// CHECK:         const auto work = launch.find(blockIdx.x, 16);
// CHECK:         const int64_t row = work.begin + thread / 8;
// CHECK:           for (int i = 0; i < 2; ++i) {
// CHECK:             nano::read<4, 8>(x +
// CHECK:           const float [[ALL:.*]] = nano::groupSum<8>(nano::sum(partial));
// CHECK-NEXT:      if (lane == 0) {
// CHECK-NEXT:        y[row] = [[ALL]];
step.program @short {
  %b = step.buffer "x" : memref<4098xf32>
  %x = step.view %b : memref<4098xf32> to memref<64x64xf32, strided<[64, 1], offset: 2>>
  %y = step.buffer "y" : memref<64xf32>
  step.task ins(%x) outs(%y) : (memref<64x64xf32, strided<[64, 1], offset: 2>>) -> memref<64xf32> {
  ^bb0(%a: tensor<64x64xf32>):
    %0 = nano.reduce sum %a dims [1] : tensor<64x64xf32> -> tensor<64xf32>
    nano.yield %0 : tensor<64xf32>
  }
}

// -----

// A row that neither registers nor shared memory hold: a block of 256 threads reads it pass by pass and computes again
// what more than one pass needs. Columns that do not exist take no part: only the last of a thread's
// vectors has some.
// CHECK-LABEL: // softmax
// CHECK:       __launch_bounds__(256)
// CHECK-NOT:     kept
// CHECK:         #pragma unroll 4
// CHECK-NEXT:    for (int i = 0; i < 58; ++i) {
// CHECK-NOT:       inside
// CHECK:           partial = maximumf;
// CHECK-NEXT:    }
// CHECK:         const auto inside = nano::first<4>(60001 - column);
// CHECK:         nano::select(inside, nano::maximum(partial, nano::read<4, 4>(x +
// CHECK:         nano::blockMax<256>(
// CHECK:         for (int i = 0; i < 58; ++i) {
// CHECK:           nano::exponential(nano::read<4, 4>(x +
// CHECK:         nano::blockSum<256>(
// CHECK:         for (int i = 0; i < 58; ++i) {
// CHECK:           nano::exponential(nano::read<4, 4>(x +
step.program @wide {
  %x = step.buffer "x" : memref<8x60001xf32>
  %y = step.buffer "y" : memref<8x60001xf32>
  step.task ins(%x) outs(%y) : (memref<8x60001xf32>) -> memref<8x60001xf32> {
  ^bb0(%a: tensor<8x60001xf32>):
    %0 = nano.reduce max %a dims [1] : tensor<8x60001xf32> -> tensor<8xf32>
    %1 = nano.broadcast %0 dims [0] : tensor<8xf32> -> tensor<8x60001xf32>
    %2 = nano.sub %a, %1 : tensor<8x60001xf32>
    %3 = nano.exp %2 : tensor<8x60001xf32>
    %4 = nano.reduce sum %3 dims [1] : tensor<8x60001xf32> -> tensor<8xf32>
    %5 = nano.broadcast %4 dims [0] : tensor<8xf32> -> tensor<8x60001xf32>
    %6 = nano.div %3, %5 : tensor<8x60001xf32>
    nano.yield %6 : tensor<8x60001xf32>
  }
}

// -----

// A long row of which one column is treated unlike the others: four vectors are loaded before the first is computed with, for no load
// moves over a branch. What is left are single ones, the last of them with a mask.
// CHECK-LABEL: // exp_select
// CHECK:         for (int at = 0; at < 28; at += 4) {
// CHECK-NEXT:      nano::Held<nano::bf16, 8> x_held[4];
// CHECK:           for (int i = 0; i < 4; ++i) {
// CHECK:             const auto x_value = nano::read<8>(x + (
// CHECK:             x_held[i] = x_value;
// CHECK:           for (int i = 0; i < 4; ++i) {
// CHECK:             if (uint64_t(
// CHECK:               nano::to<float>(x_held[i].elements())
// CHECK:             } else {
// CHECK:               nano::to<float>(x_held[i].elements())
// CHECK:         for (int i = 28; i < 30; ++i) {
// CHECK:         nano::wholly(61448 - column > 0);
step.program @branching {
  %x = step.buffer "x" : memref<8x61448xbf16>
  %t = step.buffer "t" : memref<8xi32>
  %y = step.buffer "y" : memref<8x61448xf8E5M2>
  step.task ins(%x, %t) outs(%y) : (memref<8x61448xbf16>, memref<8xi32>) -> memref<8x61448xf8E5M2> {
  ^bb0(%a: tensor<8x61448xbf16>, %b: tensor<8xi32>):
    %0 = nano.cast %a : tensor<8x61448xbf16> -> tensor<8x61448xf32>
    %1 = nano.exp %0 : tensor<8x61448xf32>
    %2 = nano.iota 1 : tensor<8x61448xi32>
    %3 = nano.broadcast %b dims [0] : tensor<8xi32> -> tensor<8x61448xi32>
    %4 = nano.sub %1, %0 : tensor<8x61448xf32>
    %5 = nano.select eq, %2, %3, %4, %1 : tensor<8x61448xi32>, tensor<8x61448xf32>
    %6 = nano.cast %5 : tensor<8x61448xf32> -> tensor<8x61448xf8E5M2>
    nano.yield %6 : tensor<8x61448xf8E5M2>
  }
}

// -----

// A long row of which a later pass needs one number an element, rounded to bf16: it lies in shared memory that leaves room for a second
// block. One column is picked by every thread before the loops, and treated unlike the others where a vector holds it.
// CHECK-LABEL: // sum
// CHECK:       __launch_bounds__(512, 2)
// CHECK:         nano::bf16 *kept = nano::dynamicShared<nano::bf16>(128);
// CHECK:         const int [[T:.*]] = nano::read(t + work.begin);
// CHECK:         #pragma unroll 3
// CHECK-NEXT:    for (int i = 0; i < 12; ++i) {
// CHECK:           const auto exp = nano::exponential(
// CHECK:           nano::store<8>(kept + column, nano::to<nano::bf16>(exp));
// CHECK:         nano::blockSum<512>(
// CHECK:         nano::syncBlock();
// What one column alone has is read when the pass is over.
// CHECK:         uint64_t([[AT:.*]]) < uint64_t(50304)
// CHECK:         for (int i = 0; i < 12; ++i) {
// CHECK-NEXT:      const int64_t [[COLUMN:.*]] = (i * 512 + thread) * 8;
// CHECK-NEXT:      if (uint64_t([[AT]] - [[COLUMN]]) < uint64_t(8)) {
// CHECK:             nano::exponential(
// CHECK:           } else {
// CHECK-NOT:         exponential
// CHECK:             nano::to<nano::f8e5m2>(nano::to<float>(nano::load<8>(kept + [[COLUMN]])) *
// CHECK:           }
step.program @target {
  %x = step.buffer "x" : memref<8x50304xbf16>
  %t = step.buffer "t" : memref<8xi32>
  %y = step.buffer "y" : memref<8x50304xf8E5M2>
  %p = step.buffer "p" : memref<8xf32>
  step.task ins(%x, %t) outs(%y, %p) : (memref<8x50304xbf16>, memref<8xi32>) -> (memref<8x50304xf8E5M2>, memref<8xf32>) {
  ^bb0(%a: tensor<8x50304xbf16>, %b: tensor<8xi32>):
    %zero = nano.constant 0.0 : tensor<8x50304xf32>
    %minus = nano.constant -1.0 : tensor<8x50304xf32>
    %0 = nano.cast %a : tensor<8x50304xbf16> -> tensor<8x50304xf32>
    %1 = nano.exp %0 : tensor<8x50304xf32>
    %2 = nano.reduce sum %1 dims [1] : tensor<8x50304xf32> -> tensor<8xf32>
    %3 = nano.iota 1 : tensor<8x50304xi32>
    %4 = nano.broadcast %b dims [0] : tensor<8xi32> -> tensor<8x50304xi32>
    %5 = nano.select eq, %3, %4, %0, %zero : tensor<8x50304xi32>, tensor<8x50304xf32>
    %6 = nano.reduce sum %5 dims [1] : tensor<8x50304xf32> -> tensor<8xf32>
    %7 = nano.broadcast %2 dims [0] : tensor<8xf32> -> tensor<8x50304xf32>
    %8 = nano.mul %1, %7 : tensor<8x50304xf32>
    %9 = nano.add %8, %minus : tensor<8x50304xf32>
    %10 = nano.cast %1 : tensor<8x50304xf32> -> tensor<8x50304xbf16>
    %11 = nano.cast %10 : tensor<8x50304xbf16> -> tensor<8x50304xf32>
    %12 = nano.mul %11, %7 : tensor<8x50304xf32>
    %13 = nano.select eq, %3, %4, %9, %12 : tensor<8x50304xi32>, tensor<8x50304xf32>
    %14 = nano.cast %13 : tensor<8x50304xf32> -> tensor<8x50304xf8E5M2>
    nano.yield %14, %6 : tensor<8x50304xf8E5M2>, tensor<8xf32>
  }
}

// -----

// What later passes need of a long row is f32 and leaves no room for a second block: the row itself is kept, and computed with again. The
// special functions of softcapped logits are shared, in the first pass those of a sigmoid and of its exponential.
// CHECK-LABEL: // sum
// CHECK:       __launch_bounds__(512, 2)
// CHECK:         nano::bf16 *kept = nano::dynamicShared<nano::bf16>(128);
// CHECK:         for (int i = 0; i < 12; ++i) {
// CHECK:           const auto [[X:.*]] = nano::load<8>(x +
// CHECK:           nano::exponentialOfSigmoid<30.0f, -30.0f>(nano::to<float>([[X]]), 0.25f);
// CHECK-NEXT:      nano::store<8>(kept + column, [[X]]);
// CHECK:         nano::blockSum<512>(
// CHECK:         for (int i = 0; i < 12; ++i) {
// CHECK:           const auto [[KEPT:.*]] = nano::to<float>(nano::load<8>(kept +
// CHECK:           const auto [[S:.*]] = nano::sigmoid([[KEPT]], 0.25f);
// CHECK:           nano::exponentialOfFraction<30.0f, -30.0f>([[S]])
// CHECK:           nano::store<8>(x +
step.program @softcap {
  %x = step.buffer "x" : memref<16x50304xbf16>
  step.task ins(%x) outs(%x) : (memref<16x50304xbf16>) -> memref<16x50304xbf16> {
  ^bb0(%a: tensor<16x50304xbf16>):
    %0 = nano.cast %a : tensor<16x50304xbf16> -> tensor<16x50304xf32>
    %1 = nano.constant 0.25 : tensor<16x50304xf32>
    %2 = nano.mul %0, %1 : tensor<16x50304xf32>
    %3 = nano.sigmoid %2 : tensor<16x50304xf32>
    %4 = nano.constant 30.0 : tensor<16x50304xf32>
    %5 = nano.mul %3, %4 : tensor<16x50304xf32>
    %6 = nano.sub %5, %4 : tensor<16x50304xf32>
    %7 = nano.exp %6 : tensor<16x50304xf32>
    %8 = nano.reduce sum %7 dims [1] : tensor<16x50304xf32> -> tensor<16xf32>
    %9 = nano.broadcast %8 dims [0] : tensor<16xf32> -> tensor<16x50304xf32>
    %10 = nano.mul %3, %7 : tensor<16x50304xf32>
    %11 = nano.mul %10, %9 : tensor<16x50304xf32>
    %12 = nano.cast %11 : tensor<16x50304xf32> -> tensor<16x50304xbf16>
    nano.yield %12 : tensor<16x50304xbf16>
  }
}

// -----

// What a softcapped logit's gradient is made of is one function, if nothing else needs its sigmoid.
// CHECK-LABEL: // sigmoid
// CHECK:         const auto [[X:.*]] = nano::to<float>(
// CHECK-NOT:     nano::sigmoid(
// CHECK:         nano::exponentialOfSigmoidDerivative<30.0f, -30.0f>([[X]], 0.25f)
// CHECK-NOT:     nano::sigmoid(
// CHECK:         nano::store<8>(x +
step.program @derivative {
  %x = step.buffer "x" : memref<16x4096xbf16>
  step.task ins(%x) outs(%x) : (memref<16x4096xbf16>) -> memref<16x4096xbf16> {
  ^bb0(%a: tensor<16x4096xbf16>):
    %0 = nano.cast %a : tensor<16x4096xbf16> -> tensor<16x4096xf32>
    %1 = nano.constant 0.25 : tensor<16x4096xf32>
    %2 = nano.mul %0, %1 : tensor<16x4096xf32>
    %3 = nano.sigmoid %2 : tensor<16x4096xf32>
    %4 = nano.constant 30.0 : tensor<16x4096xf32>
    %5 = nano.mul %3, %4 : tensor<16x4096xf32>
    %6 = nano.sub %5, %4 : tensor<16x4096xf32>
    %7 = nano.exp %6 : tensor<16x4096xf32>
    %8 = nano.constant 1.0 : tensor<16x4096xf32>
    %9 = nano.sub %8, %3 : tensor<16x4096xf32>
    %10 = nano.mul %3, %9 : tensor<16x4096xf32>
    %11 = nano.mul %10, %7 : tensor<16x4096xf32>
    %12 = nano.cast %11 : tensor<16x4096xf32> -> tensor<16x4096xbf16>
    nano.yield %12 : tensor<16x4096xbf16>
  }
}

// -----

// Else each of its parts is one.
// CHECK-LABEL: // sigmoid
// CHECK:         const auto [[S:.*]] = nano::sigmoid({{.*}}, 0.25f);
// CHECK-NOT:     exponentialOfSigmoidDerivative
// CHECK:         nano::exponential([[S]], 30.0f, -30.0f)
// CHECK:         nano::store<8>(y +
step.program @parts {
  %x = step.buffer "x" : memref<16x4096xbf16>
  %y = step.buffer "y" : memref<16x4096xbf16>
  step.task ins(%x) outs(%x, %y) : (memref<16x4096xbf16>) -> (memref<16x4096xbf16>, memref<16x4096xbf16>) {
  ^bb0(%a: tensor<16x4096xbf16>):
    %0 = nano.cast %a : tensor<16x4096xbf16> -> tensor<16x4096xf32>
    %1 = nano.constant 0.25 : tensor<16x4096xf32>
    %2 = nano.mul %0, %1 : tensor<16x4096xf32>
    %3 = nano.sigmoid %2 : tensor<16x4096xf32>
    %4 = nano.constant 30.0 : tensor<16x4096xf32>
    %5 = nano.mul %3, %4 : tensor<16x4096xf32>
    %6 = nano.sub %5, %4 : tensor<16x4096xf32>
    %7 = nano.exp %6 : tensor<16x4096xf32>
    %8 = nano.constant 1.0 : tensor<16x4096xf32>
    %9 = nano.sub %8, %3 : tensor<16x4096xf32>
    %10 = nano.mul %3, %9 : tensor<16x4096xf32>
    %11 = nano.mul %10, %7 : tensor<16x4096xf32>
    %12 = nano.cast %11 : tensor<16x4096xf32> -> tensor<16x4096xbf16>
    %13 = nano.cast %3 : tensor<16x4096xf32> -> tensor<16x4096xbf16>
    nano.yield %12, %13 : tensor<16x4096xbf16>, tensor<16x4096xbf16>
  }
}

// -----

// Rows updated in place and read rotated: the group's threads leave what others read in shared memory
// and wait for each other before the row changes.
// CHECK-LABEL: // rotate
// CHECK:         float *keptRows = nano::dynamicShared<float>(0);
// CHECK:         auto *kept = keptRows + {{.*}} * 64;
// CHECK:           nano::store<4>(kept + column, {{.*}});
// CHECK-NEXT:      nano::syncGroup<16>();
// CHECK-NEXT:      const auto [[SUM:.*]] = {{.*}} + nano::load<4>(kept + {{.*}});
// CHECK-NEXT:      nano::store<4>(x + {{.*}}, [[SUM]]);
step.program @rotated {
  %x = step.buffer "x" : memref<64x64xf32>
  step.task ins(%x) outs(%x) : (memref<64x64xf32>) -> memref<64x64xf32> {
  ^bb0(%a: tensor<64x64xf32>):
    %0 = nano.rotate %a by 32 : tensor<64x64xf32>
    %1 = nano.add %a, %0 : tensor<64x64xf32>
    nano.yield %1 : tensor<64x64xf32>
  }
}

// -----

// Column sums beside row outputs: a block's groups take rows in turn, and add their sums in order.
// CHECK-LABEL: // sum
// CHECK:         nano::Vec<float, 4> sums[1];
// CHECK:         for (int64_t i = group; i < 32; i += 32) {
// CHECK:           sums[0] =
// CHECK:           nano::store<4>(y +
// CHECK:         nano::syncBlock();
// CHECK:         for (int64_t at = {{.*}}; at < 64; at += 2048) {
// CHECK:           nano::store<4>(s +
step.program @both {
  %x = step.buffer "x" : memref<4x32x64xf32>
  %y = step.buffer "y" : memref<4x32x64xf32>
  %s = step.buffer "s" : memref<4x64xf32>
  step.task ins(%x) outs(%y, %s) : (memref<4x32x64xf32>) -> (memref<4x32x64xf32>, memref<4x64xf32>) {
  ^bb0(%a: tensor<4x32x64xf32>):
    %0 = nano.exp %a : tensor<4x32x64xf32>
    %1 = nano.reduce sum %0 dims [1] : tensor<4x32x64xf32> -> tensor<4x64xf32>
    nano.yield %0, %1 : tensor<4x32x64xf32>, tensor<4x64xf32>
  }
}

// -----

// An online log-sum-exp reads a long row once, with one exponential an element: the largest so far and the sum relative to it. Lanes that
// do not exist count as −∞; the threads' sums are brought to the row's largest before they are added.
// CHECK-LABEL: // softmax
// CHECK:         float [[LARGEST:.*]] = -3.4028235e+38f;
// CHECK:         nano::Vec<float, 4> [[SUM:.*]] = nano::splat<4>(0.0f);
// CHECK:         for (int i = 0; i < 58; ++i) {
// CHECK:           const auto [[X:.*]] = nano::read<4, 4>(x +
// CHECK:           const float [[NEW:.*]] = nano::maximum([[LARGEST]], nano::largest([[X]]));
// CHECK:           nano::fma([[SUM]], nano::exponential([[LARGEST]] - [[NEW]]),
// CHECK-NEXT:          nano::exponential([[X]] - [[NEW]]));
// CHECK-NEXT:      [[LARGEST]] = [[NEW]];
// CHECK-NOT:     for (
// CHECK:             -nano::infinity);
// CHECK:         const float [[M:.*]] = nano::blockMax<256>([[LAST:.*]], partials);
// CHECK:         nano::blockSum<256>(nano::sum({{.*}} * nano::exponential([[LAST]] - [[M]]
// CHECK:         [[M]] == nano::infinity ? [[M]] : [[M]] + nano::log(
// CHECK-NOT:     for (
step.program @log_sum_exp {
  %x = step.buffer "x" : memref<8x60001xf32>
  %y = step.buffer "y" : memref<8xf32>
  step.task ins(%x) outs(%y) : (memref<8x60001xf32>) -> memref<8xf32> {
  ^bb0(%a: tensor<8x60001xf32>):
    %0 = nano.reduce logsumexp %a dims [1] : tensor<8x60001xf32> -> tensor<8xf32>
    nano.yield %0 : tensor<8xf32>
  }
}

// -----

// A long row that is read, and nothing but a number written: special functions take longest, and some lanes do without.
// CHECK-LABEL: // sum
// CHECK:         for (int i = 0; i < 24; ++i) {
// CHECK-NOT:       nano::exponential(
// CHECK:           nano::exponentialShared({{.*}}, 0.5f, -3.0f)
// CHECK:         nano::blockSum<256>(
step.program @reads {
  %x = step.buffer "x" : memref<8x50304xbf16>
  %y = step.buffer "y" : memref<8xf32>
  step.task ins(%x) outs(%y) : (memref<8x50304xbf16>) -> memref<8xf32> {
  ^bb0(%a: tensor<8x50304xbf16>):
    %half = nano.constant 0.5 : tensor<8x50304xf32>
    %three = nano.constant -3.0 : tensor<8x50304xf32>
    %0 = nano.cast %a : tensor<8x50304xbf16> -> tensor<8x50304xf32>
    %1 = nano.mul %0, %half : tensor<8x50304xf32>
    %2 = nano.add %1, %three : tensor<8x50304xf32>
    %3 = nano.exp %2 : tensor<8x50304xf32>
    %4 = nano.reduce sum %3 dims [1] : tensor<8x50304xf32> -> tensor<8xf32>
    nano.yield %4 : tensor<8xf32>
  }
}

// -----

// The same beside a full output, which memory takes longest for.
// CHECK-LABEL: // sum
// CHECK-NOT:     exponentialShared
// CHECK:         nano::exponential({{.*}}, 0.5f, -3.0f)
// CHECK-NOT:     exponentialShared
step.program @reads_and_writes {
  %x = step.buffer "x" : memref<8x50304xbf16>
  %y = step.buffer "y" : memref<8xf32>
  %z = step.buffer "z" : memref<8x50304xbf16>
  step.task ins(%x) outs(%y, %z) : (memref<8x50304xbf16>) -> (memref<8xf32>, memref<8x50304xbf16>) {
  ^bb0(%a: tensor<8x50304xbf16>):
    %half = nano.constant 0.5 : tensor<8x50304xf32>
    %three = nano.constant -3.0 : tensor<8x50304xf32>
    %0 = nano.cast %a : tensor<8x50304xbf16> -> tensor<8x50304xf32>
    %1 = nano.mul %0, %half : tensor<8x50304xf32>
    %2 = nano.add %1, %three : tensor<8x50304xf32>
    %3 = nano.exp %2 : tensor<8x50304xf32>
    %4 = nano.reduce sum %3 dims [1] : tensor<8x50304xf32> -> tensor<8xf32>
    %5 = nano.cast %3 : tensor<8x50304xf32> -> tensor<8x50304xbf16>
    nano.yield %4, %5 : tensor<8xf32>, tensor<8x50304xbf16>
  }
}

// -----

// A row of partial sums is a warp's; of another matrix, whose rows are longer, the row picks one element, all that the launch reads of it.
// CHECK-LABEL: // sum_sigmoid_log
// CHECK:       __launch_bounds__(128)
// CHECK:         const int64_t row = work.begin + thread / 32;
// CHECK:           nano::read<4, 4>(sums +
// CHECK:           const float [[P:.*]] = float(nano::read(p + (row * 50304 + ([[IN:.*]] ? [[AT:.*]] : 0))));
// CHECK-NEXT:      const float [[SUM:.*]] = nano::groupSum<32>(
// CHECK:           nano::log([[SUM]])
// CHECK:           numbers[row] = [[SUM]];

step.program @loss_of_partial_sums {
  %s = step.buffer "sums" : memref<3072x393xf32>
  %t = step.buffer "targets" : memref<3072xi32>
  %p = step.buffer "p" : memref<3072x50304xbf16>
  %n = step.buffer "numbers" : memref<3072xf32>
  %l = step.buffer "loss" : memref<3072xf32>
  step.task ins(%s, %t, %p) outs(%n, %l)
      : (memref<3072x393xf32>, memref<3072xi32>, memref<3072x50304xbf16>) -> (memref<3072xf32>, memref<3072xf32>) {
  ^bb0(%x: tensor<3072x393xf32>, %k: tensor<3072xi32>, %0: tensor<3072x50304xbf16>):
    %cap = nano.constant 30.0 : tensor<3072x50304xf32>
    %rowCap = nano.constant 30.0 : tensor<3072xf32>
    %zero = nano.constant 0.0 : tensor<3072x50304xf32>
    %slope = nano.constant 0.004811252 : tensor<3072x50304xf32>
    %sum = nano.reduce sum %x dims [1] : tensor<3072x393xf32> -> tensor<3072xf32>
    %log = nano.log %sum : tensor<3072xf32>
    %lse = nano.add %log, %rowCap : tensor<3072xf32>
    %1 = nano.cast %0 : tensor<3072x50304xbf16> -> tensor<3072x50304xf32>
    %2 = nano.mul %1, %slope : tensor<3072x50304xf32>
    %3 = nano.sigmoid %2 : tensor<3072x50304xf32>
    %4 = nano.mul %3, %cap : tensor<3072x50304xf32>
    %i = nano.iota 1 : tensor<3072x50304xi32>
    %target = nano.broadcast %k dims [0] : tensor<3072xi32> -> tensor<3072x50304xi32>
    %5 = nano.select eq, %i, %target, %4, %zero : tensor<3072x50304xi32>, tensor<3072x50304xf32>
    %picked = nano.reduce sum %5 dims [1] : tensor<3072x50304xf32> -> tensor<3072xf32>
    %loss = nano.sub %lse, %picked : tensor<3072xf32>
    nano.yield %sum, %loss : tensor<3072xf32>, tensor<3072xf32>
  }
}

// -----

// A column among those that lie there: a thread writes the vector that it is in.
// CHECK-LABEL: // sum_select_{{.*}}: iota, broadcast ×2, select, reduce
// CHECK:         if (nano::largest(nano::select({{.*}}, 1.0f, 0.0f)) > 0.0f) {
// CHECK-NEXT:      nano::store<{{[0-9]+}}>(columns +
// CHECK-NEXT:    }
// CHECK-NOT:     nano::store
step.program @kept_columns {
  %row = step.buffer "row" : memref<64xf32>
  %at = step.buffer "at" : memref<1xi32>
  %rows = step.buffer "rows" : memref<32x64xf32>
  %columns = step.buffer "columns" : memref<64x32xf32>
  %sums = step.buffer "sums" : memref<64xf32>
  step.task ins(%row, %at, %rows) outs(%rows) : (memref<64xf32>, memref<1xi32>, memref<32x64xf32>) -> memref<32x64xf32> {
  ^bb0(%a: tensor<64xf32>, %t: tensor<1xi32>, %old: tensor<32x64xf32>):
    %i = nano.iota 0 : tensor<32x64xi32>
    %p = nano.broadcast %t dims [0] : tensor<1xi32> -> tensor<32x64xi32>
    %n = nano.broadcast %a dims [1] : tensor<64xf32> -> tensor<32x64xf32>
    %r = nano.select eq, %i, %p, %n, %old : tensor<32x64xi32>, tensor<32x64xf32>
    nano.yield %r : tensor<32x64xf32>
  }
  step.task ins(%row, %at, %columns) outs(%columns, %sums) : (memref<64xf32>, memref<1xi32>, memref<64x32xf32>) -> (memref<64x32xf32>, memref<64xf32>) {
  ^bb0(%a: tensor<64xf32>, %t: tensor<1xi32>, %old: tensor<64x32xf32>):
    %i = nano.iota 1 : tensor<64x32xi32>
    %p = nano.broadcast %t dims [1] : tensor<1xi32> -> tensor<64x32xi32>
    %n = nano.broadcast %a dims [0] : tensor<64xf32> -> tensor<64x32xf32>
    %r = nano.select eq, %i, %p, %n, %old : tensor<64x32xi32>, tensor<64x32xf32>
    %s = nano.reduce sum %r dims [1] : tensor<64x32xf32> -> tensor<64xf32>
    nano.yield %r, %s : tensor<64x32xf32>, tensor<64xf32>
  }
}

// -----

// Of long rows several blocks share a multiprocessor; one that is alone has all of its threads.
// CHECK-LABEL: // sum
// CHECK:       __launch_bounds__(256)
// CHECK:         nano::blockSum<256>(
// CHECK-LABEL: // sum
// CHECK:       __launch_bounds__(1024)
// CHECK:         nano::blockSum<1024>(
step.program @alone {
  %x = step.buffer "x" : memref<2x50304xf32>
  %y = step.buffer "y" : memref<2xf32>
  %a = step.buffer "a" : memref<1x50304xf32>
  %b = step.buffer "b" : memref<1xf32>
  step.task ins(%x) outs(%y) : (memref<2x50304xf32>) -> (memref<2xf32>) {
  ^bb0(%t: tensor<2x50304xf32>):
    %0 = nano.reduce sum %t dims [1] : tensor<2x50304xf32> -> tensor<2xf32>
    nano.yield %0 : tensor<2xf32>
  }
  step.task ins(%a) outs(%b) : (memref<1x50304xf32>) -> (memref<1xf32>) {
  ^bb0(%t: tensor<1x50304xf32>):
    %0 = nano.reduce sum %t dims [1] : tensor<1x50304xf32> -> tensor<1xf32>
    nano.yield %0 : tensor<1xf32>
  }
}

// -----

// The largest of integers is one of integers: nothing is converted, and a warp's lanes find it in one instruction.
// CHECK-LABEL: // max
// CHECK:           nano::Vec<int, 4> partial = nano::splat<4>((-2147483647 - 1));
// CHECK:             partial = nano::maximum(partial,
// CHECK:           const int largest = nano::groupMax<32, int>(nano::largest(partial));
// CHECK:           y[row] = largest;
step.program @largest_of_integers {
  %x = step.buffer "x" : memref<64x768xi32>
  %y = step.buffer "y" : memref<64xi32>
  step.task ins(%x) outs(%y) : (memref<64x768xi32>) -> memref<64xi32> {
  ^bb0(%0: tensor<64x768xi32>):
    %1 = nano.reduce max %0 dims [1] : tensor<64x768xi32> -> tensor<64xi32>
    nano.yield %1 : tensor<64xi32>
  }
}

// -----

// A group takes four rows of random bits in turn, so that what depends on the columns alone is computed once.
// CHECK-LABEL: // random
// CHECK:           const auto work = launch.find(blockIdx.x, 16);
// CHECK:           const int64_t row = work.begin + thread / 32;
// CHECK:           #pragma unroll 1
// CHECK-NEXT:      for (int64_t at = row; at < work.end; at += 4) {
// CHECK:             nano::philox<4>(
// CHECK:             nano::store<4>(bits +
// Rows that are read too are taken one by one.
// CHECK-LABEL: // random
// CHECK:           const auto work = launch.find(blockIdx.x, 1);
// CHECK-NOT:       for (int64_t
step.program @bits {
  %key = step.buffer "key" : memref<i32>
  %x = step.buffer "x" : memref<49152x768xi32>
  %bits = step.buffer "bits" : memref<49152x768xi32>
  %y = step.buffer "y" : memref<49152x768xi32>
  step.task ins(%key) outs(%bits) : (memref<i32>) -> memref<49152x768xi32> {
  ^bb0(%k: tensor<i32>):
    %0 = nano.broadcast %k dims [] : tensor<i32> -> tensor<49152x768xi32>
    %1 = nano.iota 1 : tensor<49152x768xi32>
    %2 = nano.iota 0 : tensor<49152x768xi32>
    %3 = nano.philox counter(%1, %2, %0, %0) key(%0, %0) : tensor<49152x768xi32>
    nano.yield %3 : tensor<49152x768xi32>
  }
  step.task ins(%key, %x) outs(%y) : (memref<i32>, memref<49152x768xi32>) -> memref<49152x768xi32> {
  ^bb0(%k: tensor<i32>, %a: tensor<49152x768xi32>):
    %0 = nano.broadcast %k dims [] : tensor<i32> -> tensor<49152x768xi32>
    %1 = nano.iota 1 : tensor<49152x768xi32>
    %2 = nano.iota 0 : tensor<49152x768xi32>
    %3 = nano.philox counter(%1, %2, %0, %0) key(%0, %0) : tensor<49152x768xi32>
    %4 = nano.xor %3, %a : tensor<49152x768xi32>
    nano.yield %4 : tensor<49152x768xi32>
  }
}
