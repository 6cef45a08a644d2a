// RUN: nano-opt %s -nano-lower-kernels=target=cuda -nano-batch-launches=max-parameter-bytes=32764 -nano-print-cuda -split-input-file -o /dev/null | FileCheck %s

// Whole blocks load all their elements before they compute; a segment's last block looks at every
// element. Many parameters are one launch.
// CHECK-LABEL: // mul_add
// CHECK:       void __launch_bounds__(256)
// CHECK-NEXT:  mul_add_{{.*}}(const __grid_constant__ nano::Launch<3, 2> launch) {
// CHECK-NEXT:    const auto work = launch.find(blockIdx.x, 4096);
// CHECK:         auto *p = work.template pointer<float>(0);
// CHECK:         auto *g = work.template pointer<const float>(1);
// CHECK:         const float [[LR:.*]] = nano::read(lr);
// CHECK:         if (work.end - work.begin == 4096) {
// CHECK:           for (int i = 0; i < 4; ++i) {
// CHECK:             nano::load<4>(p +
// CHECK:             nano::read<4>(g +
// CHECK:           for (int i = 0; i < 4; ++i) {
// CHECK:             nano::store<4>(p + ({{.*}}), nano::fma(-
// CHECK:         } else {
// CHECK:             const auto inside = nano::first<4>(work.end - at);
// CHECK:             nano::load<4>(p + at, inside)
// CHECK:             nano::store<4>(p + at, {{.*}}, inside);
nano.state @p : tensor<128x96xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @q : tensor<97xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @g : tensor<128x96xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.state @h : tensor<97xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
step.input @lr : memref<f32>
step.program @update {
  %lr = step.state @lr : memref<f32>
  %p = step.state @p : memref<128x96xf32>
  %g = step.state @g : memref<128x96xf32>
  %q = step.state @q : memref<97xf32>
  %h = step.state @h : memref<97xf32>
  step.task ins(%p, %g, %lr) outs(%p) : (memref<128x96xf32>, memref<128x96xf32>, memref<f32>) -> memref<128x96xf32> {
  ^bb0(%a: tensor<128x96xf32>, %b: tensor<128x96xf32>, %c: tensor<f32>):
    %0 = nano.broadcast %c dims [] : tensor<f32> -> tensor<128x96xf32>
    %1 = nano.mul %b, %0 : tensor<128x96xf32>
    %2 = nano.sub %a, %1 : tensor<128x96xf32>
    nano.yield %2 : tensor<128x96xf32>
  }
  step.task ins(%q, %h, %lr) outs(%q) : (memref<97xf32>, memref<97xf32>, memref<f32>) -> memref<97xf32> {
  ^bb0(%a: tensor<97xf32>, %b: tensor<97xf32>, %c: tensor<f32>):
    %0 = nano.broadcast %c dims [] : tensor<f32> -> tensor<97xf32>
    %1 = nano.mul %b, %0 : tensor<97xf32>
    %2 = nano.sub %a, %1 : tensor<97xf32>
    nano.yield %2 : tensor<97xf32>
  }
}

// -----

// Single numbers: one thread.
// CHECK-LABEL: // sqrt
// CHECK:         launch.find(blockIdx.x, 1);
// CHECK:         const float [[Y:.*]] = nano::sqrt(nano::read(x));
// CHECK-NEXT:    if (thread == 0) {
// CHECK-NEXT:      y[0] = [[Y]];
step.program @number {
  %x = step.buffer "x" : memref<f32>
  %y = step.buffer "y" : memref<f32>
  step.task ins(%x) outs(%y) : (memref<f32>) -> memref<f32> {
  ^bb0(%a: tensor<f32>):
    %0 = nano.sqrt %a : tensor<f32>
    nano.yield %0 : tensor<f32>
  }
}

// -----

// A gather reads its ids once a row; i32 arithmetic wraps; comparisons choose lanes.
// CHECK-LABEL: // gather_select
// CHECK:         const int64_t [[AT:.*]] = int64_t(nano::read(ids + row)) * 64 + column;
// CHECK:         nano::read<8>(table + [[AT]])
// CHECK:         nano::select({{.*}} < 32,
// CHECK-NEXT:{{ *}}table_value, 0.0f)
step.program @gathered {
  %table = step.buffer "table" : memref<100x64xbf16>
  %ids = step.buffer "ids" : memref<32xi32>
  %y = step.buffer "y" : memref<32x64xbf16>
  step.task ins(%table, %ids) outs(%y) : (memref<100x64xbf16>, memref<32xi32>) -> memref<32x64xbf16> {
  ^bb0(%a: tensor<100x64xbf16>, %b: tensor<32xi32>):
    %0 = nano.gather %a, %b : (tensor<100x64xbf16>, tensor<32xi32>) -> tensor<32x64xbf16>
    %1 = nano.iota 1 : tensor<32x64xi32>
    %2 = nano.constant 3.200000e+01 : tensor<32x64xi32>
    %3 = nano.constant 0.000000e+00 : tensor<32x64xbf16>
    %4 = nano.select lt, %1, %2, %0, %3 : tensor<32x64xi32>, tensor<32x64xbf16>
    nano.yield %4 : tensor<32x64xbf16>
  }
}

// -----

// Sums over rows: a block has a strip of columns, eight slices of rows are added in order.
// CHECK-LABEL: // sum
// CHECK:         const int64_t slice = thread / 32;
// CHECK:         #pragma unroll 4
// CHECK-NEXT:    for (int64_t i = slice; i < 256; i += 8) {
// CHECK:         nano::store<4>(sums + {{.*}}, partial);
// CHECK-NEXT:    nano::syncBlock();
// CHECK:         if (slice == 0) {
// CHECK:           for (int i = 1; i < 8; ++i) {
// CHECK:           nano::store<4>(y +
step.program @columns {
  %x = step.buffer "x" : memref<4x256x512xf32>
  %y = step.buffer "y" : memref<4x512xf32>
  step.task ins(%x) outs(%y) : (memref<4x256x512xf32>) -> memref<4x512xf32> {
  ^bb0(%a: tensor<4x256x512xf32>):
    %0 = nano.reduce sum %a dims [1] : tensor<4x256x512xf32> -> tensor<4x512xf32>
    nano.yield %0 : tensor<4x512xf32>
  }
}

// -----

// A root that is rounded to bf16 is one instruction; in f32 it is rounded correctly.
// CHECK-LABEL: auto *halves = work.template pointer<const nano::bf16>(0);
// CHECK:         const auto [[ROOT:.*]] = nano::approximateSqrt(
// CHECK:         nano::to<nano::bf16>([[ROOT]])
// CHECK-LABEL: auto *singles = work.template pointer<const float>(0);
// CHECK-NOT:     nano::approximateSqrt(
// CHECK:         nano::sqrt(
step.program @roots {
  %x = step.buffer "halves" : memref<8192xbf16>
  %y = step.buffer "y" : memref<8192xbf16>
  %u = step.buffer "singles" : memref<8192xf32>
  %w = step.buffer "w" : memref<8192xf32>
  step.task ins(%x) outs(%y) : (memref<8192xbf16>) -> memref<8192xbf16> {
  ^bb0(%a: tensor<8192xbf16>):
    %0 = nano.sqrt %a : tensor<8192xbf16>
    nano.yield %0 : tensor<8192xbf16>
  }
  step.task ins(%u) outs(%w) : (memref<8192xf32>) -> memref<8192xf32> {
  ^bb0(%a: tensor<8192xf32>):
    %0 = nano.sqrt %a : tensor<8192xf32>
    nano.yield %0 : tensor<8192xf32>
  }
}

// -----

// Matrices that are divided by a number each are no rows of one block each: their rows are.
// CHECK-LABEL: // div_{{.*}}: broadcast, div
// CHECK:         const int64_t offset = work.begin * 768;
// CHECK:         nano::read(norm + work.begin / 768);
step.program @matrices {
  %x = step.buffer "x" : memref<3x768x768xf32>
  %n = step.buffer "norm" : memref<3xf32>
  %y = step.buffer "y" : memref<3x768x768xf32>
  step.task ins(%x, %n) outs(%y) : (memref<3x768x768xf32>, memref<3xf32>) -> memref<3x768x768xf32> {
  ^bb0(%a: tensor<3x768x768xf32>, %b: tensor<3xf32>):
    %0 = nano.broadcast %b dims [0] : tensor<3xf32> -> tensor<3x768x768xf32>
    %1 = nano.div %a, %0 : tensor<3x768x768xf32>
    nano.yield %1 : tensor<3x768x768xf32>
  }
}

// -----

// Of single numbers all are read before a root, which branches.
// CHECK-LABEL: // sqrt_add
// CHECK:         const float a_value = nano::read(a);
// CHECK-NEXT:    const float b_value = nano::read(b);
// CHECK-NEXT:    const float add = nano::sqrt(a_value) + b_value;
step.program @numbers {
  %x = step.buffer "a" : memref<f32>
  %y = step.buffer "b" : memref<f32>
  %z = step.buffer "z" : memref<f32>
  step.task ins(%x, %y) outs(%z) : (memref<f32>, memref<f32>) -> memref<f32> {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %0 = nano.sqrt %a : tensor<f32>
    %1 = nano.add %0, %b : tensor<f32>
    nano.yield %1 : tensor<f32>
  }
}
