// RUN: nano-opt %s "-nano-lower-kernels=target=cuda multiprocessors=2" -nano-print-cuda -split-input-file -o /dev/null | FileCheck %s

// A thread has both halves of its part of rows that are rotated by half: nothing is read twice, and
// what one half computes of the other is computed once.
// CHECK-LABEL: // rmsnorm_rotate
// CHECK:         const int64_t lane = thread % 4;
// CHECK:         const int64_t [[FIRST:column.*]] = lane * 8;
// CHECK:         const int64_t [[SECOND:column.*]] = (4 + lane) * 8;
// CHECK:         const int64_t [[A:offset.*]] = {{.*}} + [[FIRST]];
// CHECK:         nano::to<float>(nano::read<8>(x + [[A]]))
// CHECK:         nano::to<float>(nano::read<8>(z + [[A]]))
// CHECK:         const int64_t [[B:offset.*]] = {{.*}} + [[SECOND]];
// CHECK:         nano::to<float>(nano::read<8>(x + [[B]]))
// CHECK:         nano::to<float>(nano::read<8>(z + [[B]]))
// CHECK-NOT:     nano::read
// CHECK:         nano::groupSum<4>
// CHECK:         nano::store<8>(y + [[A]],
// CHECK:         nano::store<8>(y + [[B]],
step.program @halves {
  %x = step.buffer "x" : memref<96x64xbf16>
  %z = step.buffer "z" : memref<96x64xbf16>
  %y = step.buffer "y" : memref<96x64xbf16>
  step.task ins(%x, %z) outs(%y) : (memref<96x64xbf16>, memref<96x64xbf16>) -> memref<96x64xbf16> {
  ^bb0(%a: tensor<96x64xbf16>, %b: tensor<96x64xbf16>):
    %0 = nano.cast %a : tensor<96x64xbf16> -> tensor<96x64xf32>
    %1 = nano.mul %0, %0 : tensor<96x64xf32>
    %2 = nano.reduce sum %1 dims [1] : tensor<96x64xf32> -> tensor<96xf32>
    %3 = nano.rsqrt %2 : tensor<96xf32>
    %4 = nano.broadcast %3 dims [0] : tensor<96xf32> -> tensor<96x64xf32>
    %5 = nano.mul %0, %4 : tensor<96x64xf32>
    %6 = nano.rotate %5 by 32 : tensor<96x64xf32>
    %7 = nano.cast %b : tensor<96x64xbf16> -> tensor<96x64xf32>
    %8 = nano.sub %7, %6 : tensor<96x64xf32>
    %9 = nano.cast %8 : tensor<96x64xf32> -> tensor<96x64xbf16>
    nano.yield %9 : tensor<96x64xbf16>
  }
}

// -----

// What is updated in place is in registers before anything is written: no shared memory.
// CHECK-LABEL: // rotate
// CHECK-NOT:     dynamicShared
// CHECK-DAG:     nano::load<4>(x + [[A:.*]]);
// CHECK-DAG:     nano::read<4>(z + [[A]]);
// CHECK-DAG:     nano::load<4>(x + [[B:.*]]);
// CHECK-DAG:     nano::read<4>(z + [[B]]);
// CHECK-NOT:     nano::syncGroup
// CHECK:         nano::store<4>(x +
// CHECK-NOT:     nano::load
// CHECK:         nano::store<4>(x +
step.program @in_place {
  %x = step.buffer "x" : memref<64x64xf32>
  %z = step.buffer "z" : memref<64x64xf32>
  step.task ins(%x, %z) outs(%x) : (memref<64x64xf32>, memref<64x64xf32>) -> memref<64x64xf32> {
  ^bb0(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>):
    %0 = nano.rotate %a by 32 : tensor<64x64xf32>
    %1 = nano.sub %b, %0 : tensor<64x64xf32>
    nano.yield %1 : tensor<64x64xf32>
  }
}

// -----

// Heads of a token read one row of a table: a group takes them one after the other, and reads the
// table once.
// CHECK-LABEL: // rotate
// CHECK:         const auto work = launch.find(blockIdx.x, 96);
// CHECK:         const int64_t rows = work.begin / 3 + {{.*}};
// CHECK:         nano::read<8>(table +
// CHECK:         nano::read<8>(table +
// CHECK:         for (int at = 0; at < 3; ++at) {
// CHECK-NOT:       table +
// CHECK:           nano::read<8>(x +
// CHECK:           nano::store<8>(y +
step.program @heads {
  %x = step.buffer "x" : memref<2048x3x64xbf16>
  %z = step.buffer "z" : memref<2048x3x64xbf16>
  %table = step.buffer "table" : memref<2048x1x64xf32>
  %y = step.buffer "y" : memref<2048x3x64xbf16>
  step.task ins(%x, %z, %table) outs(%y) : (memref<2048x3x64xbf16>, memref<2048x3x64xbf16>, memref<2048x1x64xf32>) -> memref<2048x3x64xbf16> {
  ^bb0(%a: tensor<2048x3x64xbf16>, %d: tensor<2048x3x64xbf16>, %b: tensor<2048x1x64xf32>):
    %0 = nano.cast %a : tensor<2048x3x64xbf16> -> tensor<2048x3x64xf32>
    %1 = nano.broadcast %b dims [0, 1, 2] : tensor<2048x1x64xf32> -> tensor<2048x3x64xf32>
    %2 = nano.rotate %0 by 32 : tensor<2048x3x64xf32>
    %3 = nano.cast %d : tensor<2048x3x64xbf16> -> tensor<2048x3x64xf32>
    %4 = nano.mul %2, %1 : tensor<2048x3x64xf32>
    %5 = nano.add %4, %3 : tensor<2048x3x64xf32>
    %6 = nano.cast %5 : tensor<2048x3x64xf32> -> tensor<2048x3x64xbf16>
    nano.yield %6 : tensor<2048x3x64xbf16>
  }
}

// -----

// Of one narrow operand alone a thread would have too few loads in flight: it reads the half that
// its own is added to from where another thread reads it.
// CHECK-LABEL: // rotate
// CHECK:         const int64_t column = thread % 8 * 8;
// CHECK:         offset >= 64 ? offset - 64 : offset
step.program @alone {
  %x = step.buffer "x" : memref<96x64xbf16>
  %y = step.buffer "y" : memref<96x64xbf16>
  step.task ins(%x) outs(%y) : (memref<96x64xbf16>) -> memref<96x64xbf16> {
  ^bb0(%a: tensor<96x64xbf16>):
    %0 = nano.rotate %a by 32 : tensor<96x64xbf16>
    %1 = nano.add %a, %0 : tensor<96x64xbf16>
    nano.yield %1 : tensor<96x64xbf16>
  }
}
