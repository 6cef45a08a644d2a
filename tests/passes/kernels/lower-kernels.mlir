// RUN: nano-opt %s -nano-lower-kernels -split-input-file | FileCheck %s
// RUN: nano-opt %s -nano-lower-kernels=lanes=8 -split-input-file | FileCheck %s --check-prefix=NARROW
// RUN: nano-opt %s -nano-lower-kernels -split-input-file -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=LINES

// Element-wise tasks over contiguous buffers share a kernel whatever their shapes are; iterations are elements.
// CHECK-LABEL: step.program @elements
// CHECK:       step.launch @[[K:mul_add_[0-9a-f]+]](%{{.*}}, %{{.*}}, %{{.*}}) {iterations = array<i64: 512>}
// CHECK-NEXT:  step.launch @[[K]](%{{.*}}, %{{.*}}, %{{.*}}) {iterations = array<i64: 7>}
// CHECK-LABEL: module @kernels
// CHECK-NEXT:  kernel.func @[[K]](read %[[X:.*]]: memref<?xf32>, read %[[S:.*]]: memref<?xf32>, write %[[Y:.*]]: memref<?xf32>, %{{.*}}: memref<0xi8>, %[[BEGIN:.*]]: index, %[[END:.*]]: index)
// CHECK-SAME:    attributes {grain = {{[0-9]+}} : i64, summary = "broadcast, mul, add"}
// The product is not rounded by itself. The rest of less than a vector is masked.
// CHECK:         scf.for
// CHECK:           %[[V:.*]] = vector.load %[[X]]
// CHECK:           %[[F:.*]] = math.fma %[[V]], %{{.*}}, %[[V]] : vector<16xf32>
// CHECK:           vector.store %[[F]], %[[Y]]
// CHECK:         scf.for
// CHECK:           %[[MASK:.*]] = vector.create_mask
// CHECK:           vector.maskedload %[[X]][%{{.*}}], %[[MASK]]
// CHECK:           vector.maskedstore %[[Y]][%{{.*}}], %[[MASK]]
// CHECK-NOT:   kernel.func
// NARROW:      math.fma {{.*}} : vector<8xf32>
step.program @elements {
  %x = step.buffer "x" : memref<8x64xf32>
  %y = step.buffer "y" : memref<8x64xf32>
  %u = step.buffer "u" : memref<7xf32>
  %w = step.buffer "w" : memref<7xf32>
  %s = step.buffer "s" : memref<f32>
  step.task ins(%x, %s) outs(%y) : (memref<8x64xf32>, memref<f32>) -> memref<8x64xf32> {
  ^bb0(%a: tensor<8x64xf32>, %b: tensor<f32>):
    %c = nano.broadcast %b dims [] : tensor<f32> -> tensor<8x64xf32>
    %p = nano.mul %a, %c : tensor<8x64xf32>
    %r = nano.add %p, %a : tensor<8x64xf32>
    nano.yield %r : tensor<8x64xf32>
  }
  step.task ins(%u, %s) outs(%w) : (memref<7xf32>, memref<f32>) -> memref<7xf32> {
  ^bb0(%a: tensor<7xf32>, %b: tensor<f32>):
    %c = nano.broadcast %b dims [] : tensor<f32> -> tensor<7xf32>
    %p = nano.mul %a, %c : tensor<7xf32>
    %r = nano.add %p, %a : tensor<7xf32>
    nano.yield %r : tensor<7xf32>
  }
}

// -----

// A row reduction: an iteration is a row; what is expensive is computed once and kept. Other numbers of rows, another batch shape and other
// offsets share the kernel; other columns do not.
// CHECK-LABEL: step.program @rows
// CHECK:       step.launch @[[K:softmax_[a-z_0-9]+]](%{{.*}}, %{{.*}}) {iterations = array<i64: 4>}
// CHECK:       step.launch @[[K]](%{{.*}}, %{{.*}}) {iterations = array<i64: 9>}
// CHECK:       step.launch @[[OTHER:softmax_[a-z_0-9]+]](%{{.*}}, %{{.*}}) {iterations = array<i64: 4>}
// CHECK:       kernel.func @[[K]]
// CHECK-SAME:    memref<4096xi8>
// CHECK:         memref.view %{{.*}} : memref<4096xi8> to memref<1024xf32>
// CHECK:         scf.for
// The maximum, then the exponentials and their sum, then the quotients.
// CHECK:           scf.for {{.*}} iter_args
// CHECK-NOT:       math
// CHECK:             arith.maximumf
// CHECK:           scf.for {{.*}} iter_args
// CHECK:             math.fma
// CHECK:             vector.store {{.*}} : memref<1024xf32>
// CHECK:           scf.for
// CHECK-NOT:         math
// CHECK:             vector.load {{.*}} : memref<1024xf32>
// CHECK:             arith.divf
// CHECK:       kernel.func @[[OTHER]]
step.program @rows {
  %x = step.buffer "x" : memref<4x1024xf32>
  %y = step.buffer "y" : memref<4x1024xf32>
  %u = step.buffer "u" : memref<12x1024xf32>
  %uv = step.view %u : memref<12x1024xf32> to memref<9x1024xf32, strided<[1024, 1], offset: 2048>>
  %v = step.buffer "v" : memref<9x1024xf32>
  %p = step.buffer "p" : memref<4x1040xf32>
  %q = step.buffer "q" : memref<4x1040xf32>
  step.task ins(%x) outs(%y) : (memref<4x1024xf32>) -> memref<4x1024xf32> {
  ^bb0(%a: tensor<4x1024xf32>):
    %m = nano.reduce max %a dims [1] : tensor<4x1024xf32> -> tensor<4xf32>
    %mb = nano.broadcast %m dims [0] : tensor<4xf32> -> tensor<4x1024xf32>
    %d = nano.sub %a, %mb : tensor<4x1024xf32>
    %e = nano.exp %d : tensor<4x1024xf32>
    %s = nano.reduce sum %e dims [1] : tensor<4x1024xf32> -> tensor<4xf32>
    %sb = nano.broadcast %s dims [0] : tensor<4xf32> -> tensor<4x1024xf32>
    %r = nano.div %e, %sb : tensor<4x1024xf32>
    nano.yield %r : tensor<4x1024xf32>
  }
  step.task ins(%uv) outs(%v) : (memref<9x1024xf32, strided<[1024, 1], offset: 2048>>) -> memref<9x1024xf32> {
  ^bb0(%a: tensor<9x1024xf32>):
    %m = nano.reduce max %a dims [1] : tensor<9x1024xf32> -> tensor<9xf32>
    %mb = nano.broadcast %m dims [0] : tensor<9xf32> -> tensor<9x1024xf32>
    %d = nano.sub %a, %mb : tensor<9x1024xf32>
    %e = nano.exp %d : tensor<9x1024xf32>
    %s = nano.reduce sum %e dims [1] : tensor<9x1024xf32> -> tensor<9xf32>
    %sb = nano.broadcast %s dims [0] : tensor<9xf32> -> tensor<9x1024xf32>
    %r = nano.div %e, %sb : tensor<9x1024xf32>
    nano.yield %r : tensor<9x1024xf32>
  }
  step.task ins(%p) outs(%q) : (memref<4x1040xf32>) -> memref<4x1040xf32> {
  ^bb0(%a: tensor<4x1040xf32>):
    %m = nano.reduce max %a dims [1] : tensor<4x1040xf32> -> tensor<4xf32>
    %mb = nano.broadcast %m dims [0] : tensor<4xf32> -> tensor<4x1040xf32>
    %d = nano.sub %a, %mb : tensor<4x1040xf32>
    %e = nano.exp %d : tensor<4x1040xf32>
    %s = nano.reduce sum %e dims [1] : tensor<4x1040xf32> -> tensor<4xf32>
    %sb = nano.broadcast %s dims [0] : tensor<4xf32> -> tensor<4x1040xf32>
    %r = nano.div %e, %sb : tensor<4x1040xf32>
    nano.yield %r : tensor<4x1040xf32>
  }
}

// -----

// An output in place of an input is one argument, and is stored when nothing reads the row any more: here after the rotation's operand was kept.
// CHECK-LABEL: step.program @in_place
// CHECK:       step.launch @[[K:.*]](%{{.*}}) {iterations = array<i64: 4>} : memref<4x256xf32>
// CHECK:       kernel.func @[[K]](read_write %[[X:.*]]: memref<?xf32>, %{{.*}}: memref<1024xi8>, %{{.*}}: index, %{{.*}}: index)
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK:             vector.load %[[X]]
// CHECK:             vector.store %{{.*}}, %[[KEPT:.*]][%{{.*}}] : memref<256xf32>
// CHECK:           scf.for
// CHECK-NOT:         vector.load %[[X]]
// CHECK:             vector.load %[[KEPT]]
// CHECK:             vector.store %{{.*}}, %[[X]]
step.program @in_place {
  %x = step.buffer "x" : memref<4x256xf32>
  step.task ins(%x) outs(%x) : (memref<4x256xf32>) -> memref<4x256xf32> {
  ^bb0(%a: tensor<4x256xf32>):
    %r = nano.rotate %a by 128 : tensor<4x256xf32>
    %y = nano.sub %r, %a : tensor<4x256xf32>
    nano.yield %y : tensor<4x256xf32>
  }
}

// -----

// Column reductions alone: an iteration is a strip of columns with its sums in registers.
// CHECK-LABEL: step.program @columns
// CHECK:       step.launch @[[K:sum_[a-z_0-9]+]](%{{.*}}, %{{.*}}) {iterations = array<i64: 12>} : memref<2x100x384xbf16>, memref<2x384xf32>
// CHECK:       kernel.func @[[K]](read %{{.*}}: memref<?xbf16>, write %{{.*}}: memref<?xf32>
// CHECK:         scf.for
// CHECK:           scf.for {{.*}} -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>)
// CHECK-COUNT-4:     arith.addf
// CHECK:           vector.store
step.program @columns {
  %x = step.buffer "x" : memref<2x100x384xbf16>
  %y = step.buffer "y" : memref<2x384xf32>
  step.task ins(%x) outs(%y) : (memref<2x100x384xbf16>) -> memref<2x384xf32> {
  ^bb0(%a: tensor<2x100x384xbf16>):
    %f = nano.cast %a : tensor<2x100x384xbf16> -> tensor<2x100x384xf32>
    %s = nano.reduce sum %f dims [1] : tensor<2x100x384xf32> -> tensor<2x384xf32>
    nano.yield %s : tensor<2x384xf32>
  }
}

// -----

// A kernel carries the model's lines.
// LINES-LABEL: step.program @lines
// LINES:       kernel.func @tanh_{{.*}}memref<?xf32> loc(fused["models/x.cpp":41:3, "models/x.cpp":42:3])
step.program @lines {
  %x = step.buffer "x" : memref<64xf32>
  %y = step.buffer "y" : memref<64xf32>
  step.task ins(%x) outs(%y) : (memref<64xf32>) -> memref<64xf32> {
  ^bb0(%a: tensor<64xf32>):
    %t = nano.tanh %a : tensor<64xf32> loc("models/x.cpp":41:3)
    %y2 = nano.neg %t : tensor<64xf32> loc("models/x.cpp":42:3)
    nano.yield %y2 : tensor<64xf32>
  }
}

// -----

// Without reductions, rows are the longest whose elements are addressed alike; where those are whole matrices, of which there are few, shorter
// ones, of at least 128 elements.
// CHECK-LABEL: step.program @matrices
// CHECK:       step.launch @mul_{{.*}}(%x0, %n0, %y0) {iterations = array<i64: 4>}
// CHECK:       step.launch @mul_{{.*}}(%x1, %n1, %y1) {iterations = array<i64: 1536>}
// CHECK:       step.launch @mul_{{.*}}(%x2, %n2, %y2) {iterations = array<i64: 2>}
step.program @matrices {
  %x0 = step.buffer "x0" : memref<4x96x256xf32>
  %n0 = step.buffer "n0" : memref<4xf32>
  %y0 = step.buffer "y0" : memref<4x96x256xf32>
  step.task ins(%x0, %n0) outs(%y0) : (memref<4x96x256xf32>, memref<4xf32>) -> memref<4x96x256xf32> {
  ^bb0(%a: tensor<4x96x256xf32>, %b: tensor<4xf32>):
    %r = nano.broadcast %b dims [0] : tensor<4xf32> -> tensor<4x96x256xf32>
    %p = nano.mul %a, %r : tensor<4x96x256xf32>
    nano.yield %p : tensor<4x96x256xf32>
  }
  %x1 = step.buffer "x1" : memref<2x768x768xf32>
  %n1 = step.buffer "n1" : memref<2xf32>
  %y1 = step.buffer "y1" : memref<2x768x768xf32>
  step.task ins(%x1, %n1) outs(%y1) : (memref<2x768x768xf32>, memref<2xf32>) -> memref<2x768x768xf32> {
  ^bb0(%a: tensor<2x768x768xf32>, %b: tensor<2xf32>):
    %r = nano.broadcast %b dims [0] : tensor<2xf32> -> tensor<2x768x768xf32>
    %p = nano.mul %a, %r : tensor<2x768x768xf32>
    nano.yield %p : tensor<2x768x768xf32>
  }
  %x2 = step.buffer "x2" : memref<2x16384x4xf32>
  %n2 = step.buffer "n2" : memref<2xf32>
  %y2 = step.buffer "y2" : memref<2x16384x4xf32>
  step.task ins(%x2, %n2) outs(%y2) : (memref<2x16384x4xf32>, memref<2xf32>) -> memref<2x16384x4xf32> {
  ^bb0(%a: tensor<2x16384x4xf32>, %b: tensor<2xf32>):
    %r = nano.broadcast %b dims [0] : tensor<2xf32> -> tensor<2x16384x4xf32>
    %p = nano.mul %a, %r : tensor<2x16384x4xf32>
    nano.yield %p : tensor<2x16384x4xf32>
  }
}

// -----

// A row among those that lie there: nothing is written but vectors that have some of it.
// CHECK-LABEL: step.program @kept
// CHECK:       kernel.func @select_
// CHECK-NOT:     vector.store
// CHECK:         arith.cmpi eq, %{{.*}}, %{{.*}} : i32
// CHECK:         scf.if %{{.*}} {
// CHECK-NEXT:      vector.store
// CHECK-NEXT:    }
// CHECK:       kernel.func @sum_select_
// CHECK-NOT:     vector.store
// CHECK:         %[[ANY:.*]] = vector.reduction <or>, %{{.*}} : vector<16xi1> into i1
// CHECK-NEXT:    scf.if %[[ANY]] {
// CHECK-NEXT:      vector.store
// CHECK-NEXT:    }
step.program @kept {
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
