// RUN: nano-opt %s -nano-align-products -split-input-file | FileCheck %s
// RUN: not nano-opt %s -nano-align-products=multiple=0 -split-input-file 2>&1 | FileCheck %s --check-prefix=OPTION
// OPTION: error: nano-align-products: multiple=0: must be positive

// Logits of a loss: element-wise ops take all columns, the loss sees those beyond the weight's masked.
// CHECK-LABEL: nano.program @loss
// CHECK-SAME: (%[[X:.*]]: tensor<16x32xbf16>, %[[W:.*]]: tensor<101x32xbf16>, %[[B:.*]]: tensor<16xf32>, %[[T:.*]]: tensor<16xi32>)
// CHECK-DAG: %[[ZERO:.*]] = nano.constant 0.000000e+00 : tensor<27x32xbf16>
// CHECK-DAG: %[[ROWS:.*]] = nano.concat %[[W]], %[[ZERO]] dim 0
// CHECK: %[[P:.*]] = nano.matmul %[[X]], %[[ROWS]] {transpose_b} {{.*}} -> tensor<16x128xbf16>
// CHECK: %[[C:.*]] = nano.cast %[[P]] : tensor<16x128xbf16> -> tensor<16x128xf32>
// CHECK: %[[ROW:.*]] = nano.broadcast %[[B]] dims [0] : tensor<16xf32> -> tensor<16x128xf32>
// CHECK: %[[S:.*]] = nano.add %[[C]], %[[ROW]] : tensor<16x128xf32>
// CHECK-DAG: %[[COLUMN:.*]] = nano.iota 1 : tensor<16x128xi32>
// CHECK-DAG: %[[COUNT:.*]] = nano.constant 1.010000e+02 : tensor<16x128xi32>
// CHECK-DAG: %[[NONE:.*]] = nano.constant -1.000000e+30 : tensor<16x128xf32>
// CHECK: %[[M:.*]] = nano.select lt, %[[COLUMN]], %[[COUNT]], %[[S]], %[[NONE]]
// CHECK: nano.cross_entropy %[[M]], %[[T]]
nano.program @loss(%x: tensor<16x32xbf16>, %w: tensor<101x32xbf16>, %b: tensor<16xf32>, %t: tensor<16xi32>) -> tensor<16xf32> {
  %y = nano.matmul %x, %w {transpose_b} : (tensor<16x32xbf16>, tensor<101x32xbf16>) -> tensor<16x101xbf16>
  %l = nano.cast %y : tensor<16x101xbf16> -> tensor<16x101xf32>
  %r = nano.broadcast %b dims [0] : tensor<16xf32> -> tensor<16x101xf32>
  %s = nano.add %l, %r : tensor<16x101xf32>
  %loss, %lse = nano.cross_entropy %s, %t : (tensor<16x101xf32>, tensor<16xi32>) -> (tensor<16xf32>, tensor<16xf32>)
  nano.return %loss : tensor<16xf32>
}

// -----

// A quotient is not finite where both are 0: beyond the columns it is 0. The derivative of the number of each row behind it is a sum of its columns: nothing flows back to that, nor to the product, from the columns beyond.
// CHECK-LABEL: nano.program @cosines
// CHECK: %[[P:.*]] = nano.matmul {{.*}} -> tensor<16x128xf32>
// CHECK: %[[Z:.*]] = nano.select lt, %{{.*}}, %{{.*}}, %[[P]], %{{.*}} : tensor<16x128xi32>, tensor<16x128xf32>
// CHECK: %[[L:.*]] = nano.broadcast %{{.*}} dims [1] : tensor<128xf32> -> tensor<16x128xf32>
// CHECK: %[[Q:.*]] = nano.div %[[Z]], %[[L]]
// CHECK: %[[D:.*]] = nano.select lt, %{{.*}}, %{{.*}}, %[[Q]], %{{.*}} : tensor<16x128xi32>, tensor<16x128xf32>
// CHECK: %[[R:.*]] = nano.broadcast %{{.*}} dims [0] : tensor<16xf32> -> tensor<16x128xf32>
// CHECK: %[[C:.*]] = nano.select lt, %{{.*}}, %{{.*}}, %[[R]], %{{.*}} : tensor<16x128xi32>, tensor<16x128xf32>
// CHECK: %[[S:.*]] = nano.mul %[[D]], %[[C]]
// CHECK: nano.select lt, %{{.*}}, %{{.*}}, %[[S]], %{{.*}}
// CHECK: nano.cross_entropy
nano.program @cosines(%x: tensor<16x32xf32>, %w: tensor<101x32xf32>, %l: tensor<101xf32>, %r: tensor<16xf32>, %t: tensor<16xi32>) -> tensor<16xf32> {
  %y = nano.matmul %x, %w {transpose_b} : (tensor<16x32xf32>, tensor<101x32xf32>) -> tensor<16x101xf32>
  %lengths = nano.broadcast %l dims [1] : tensor<101xf32> -> tensor<16x101xf32>
  %q = nano.div %y, %lengths : tensor<16x101xf32>
  %rows = nano.broadcast %r dims [0] : tensor<16xf32> -> tensor<16x101xf32>
  %s = nano.mul %q, %rows : tensor<16x101xf32>
  %loss, %lse = nano.cross_entropy %s, %t : (tensor<16x101xf32>, tensor<16xi32>) -> (tensor<16xf32>, tensor<16xf32>)
  nano.return %loss : tensor<16xf32>
}

// -----

// Whole numbers are not divided by what lies beyond.
// CHECK-LABEL: nano.program @whole
// CHECK: nano.rem %{{.*}}, %{{.*}} : tensor<16x101xi32>
nano.program @whole(%x: tensor<16x32xf32>, %w: tensor<101x32xf32>, %n: tensor<101xi32>) -> tensor<16x101xi32> {
  %y = nano.matmul %x, %w {transpose_b} : (tensor<16x32xf32>, tensor<101x32xf32>) -> tensor<16x101xf32>
  %i = nano.cast %y : tensor<16x101xf32> -> tensor<16x101xi32>
  %b = nano.broadcast %n dims [1] : tensor<101xi32> -> tensor<16x101xi32>
  %r = nano.rem %i, %b : tensor<16x101xi32>
  nano.return %r : tensor<16x101xi32>
}

// -----

// Other sums over the columns see neutral elements there, and two numbers of the product meet in one op. As such chains may overflow where the weight has no rows, the product's own columns are
// masked too.
// CHECK-LABEL: nano.program @combined
// CHECK: %[[P:.*]] = nano.matmul {{.*}} -> tensor<16x128xf32>
// CHECK-DAG: %[[ZEROS:.*]] = nano.constant 0.000000e+00 : tensor<16x128xf32>
// CHECK: %[[Z:.*]] = nano.select lt, %{{.*}}, %{{.*}}, %[[P]], %[[ZEROS]] : tensor<16x128xi32>, tensor<16x128xf32>
// CHECK: %[[NONE:.*]] = nano.constant 0xFFF0000000000000 : tensor<16x128xf32>
// CHECK: %[[M:.*]] = nano.select lt, %{{.*}}, %{{.*}}, %[[Z]], %[[NONE]]
// CHECK: %[[S:.*]] = nano.reduce logsumexp %[[M]] dims [1]
// CHECK: %[[R:.*]] = nano.broadcast %[[S]] dims [0] : tensor<16xf32> -> tensor<16x128xf32>
// CHECK: %[[D:.*]] = nano.sub %[[Z]], %[[R]]
// CHECK: %[[J:.*]] = nano.iota 1 : tensor<16x128xi32>
// CHECK: %[[T:.*]] = nano.select eq, %[[J]], %{{.*}}, %[[D]], %[[Z]] : tensor<16x128xi32>, tensor<16x128xf32>
// CHECK: %[[N:.*]] = nano.select lt, %{{.*}}, %{{.*}}, %[[T]], %{{.*}}
// CHECK: nano.reduce sum %[[N]] dims [1]
// CHECK: %[[ALL:.*]] = nano.reduce sum %[[T]] dims [0] : tensor<16x128xf32> -> tensor<128xf32>
// CHECK: nano.slice %[[ALL]] dim 0 at 0 : tensor<128xf32> -> tensor<101xf32>
nano.program @combined(%x: tensor<16x32xf32>, %w: tensor<101x32xf32>, %t: tensor<16xi32>) -> (tensor<16xf32>, tensor<101xf32>) {
  %z = nano.matmul %x, %w {transpose_b} : (tensor<16x32xf32>, tensor<101x32xf32>) -> tensor<16x101xf32>
  %s = nano.reduce logsumexp %z dims [1] : tensor<16x101xf32> -> tensor<16xf32>
  %r = nano.broadcast %s dims [0] : tensor<16xf32> -> tensor<16x101xf32>
  %d = nano.sub %z, %r : tensor<16x101xf32>
  %j = nano.iota 1 : tensor<16x101xi32>
  %c = nano.broadcast %t dims [0] : tensor<16xi32> -> tensor<16x101xi32>
  %v = nano.select eq, %j, %c, %d, %z : tensor<16x101xi32>, tensor<16x101xf32>
  %n = nano.reduce sum %v dims [1] : tensor<16x101xf32> -> tensor<16xf32>
  %m = nano.reduce sum %v dims [0] : tensor<16x101xf32> -> tensor<101xf32>
  nano.return %n, %m : tensor<16xf32>, tensor<101xf32>
}

// -----

// A number of each column gets zeros behind it. A result of the program sees a slice.
// CHECK-LABEL: nano.program @slices
// CHECK-SAME: %[[B:[^:]*]]: tensor<101xbf16>)
// CHECK: %[[P:.*]] = nano.matmul {{.*}} -> tensor<16x128xbf16>
// CHECK: %[[Z:.*]] = nano.select lt, %{{.*}}, %{{.*}}, %[[P]], %{{.*}} : tensor<16x128xi32>, tensor<16x128xbf16>
// CHECK: %[[Y:.*]] = nano.slice %[[Z]] dim 1 at 0 : tensor<16x128xbf16> -> tensor<16x101xbf16>
// CHECK: %[[ALL:.*]] = nano.concat %[[B]], %{{.*}} dim 0 : (tensor<101xbf16>, tensor<27xbf16>) -> tensor<128xbf16>
// CHECK: %[[R:.*]] = nano.broadcast %[[ALL]] dims [1] : tensor<128xbf16> -> tensor<16x128xbf16>
// CHECK: %[[M:.*]] = nano.mul %[[Z]], %[[R]] : tensor<16x128xbf16>
// CHECK: %[[S:.*]] = nano.slice %[[M]] dim 1 at 0 : tensor<16x128xbf16> -> tensor<16x101xbf16>
// CHECK: nano.return %[[Y]], %[[S]]
nano.program @slices(%x: tensor<16x32xbf16>, %w: tensor<101x32xbf16>, %b: tensor<101xbf16>) -> (tensor<16x101xbf16>, tensor<16x101xbf16>) {
  %y = nano.matmul %x, %w {transpose_b} : (tensor<16x32xbf16>, tensor<101x32xbf16>) -> tensor<16x101xbf16>
  %r = nano.broadcast %b dims [1] : tensor<101xbf16> -> tensor<16x101xbf16>
  %s = nano.mul %y, %r : tensor<16x101xbf16>
  nano.return %y, %s : tensor<16x101xbf16>, tensor<16x101xbf16>
}

// -----

// Two products meet, as those of a teacher and of what it teaches. What is picked from a row stays a choice of one column: the columns beyond are masked behind it.
// CHECK-LABEL: nano.program @two
// CHECK: %[[P:.*]] = nano.matmul {{.*}} -> tensor<16x128xf32>
// CHECK: %[[A:.*]] = nano.select lt, %{{.*}}, %{{.*}}, %[[P]], %{{.*}}
// CHECK: %[[Q:.*]] = nano.matmul {{.*}} -> tensor<16x128xf32>
// CHECK: %[[C:.*]] = nano.select lt, %{{.*}}, %{{.*}}, %[[Q]], %{{.*}}
// CHECK: %[[D:.*]] = nano.sub %[[A]], %[[C]] : tensor<16x128xf32>
// CHECK: %[[T:.*]] = nano.broadcast %{{.*}} dims [0] : tensor<16xi32> -> tensor<16x128xi32>
// CHECK: %[[E:.*]] = nano.select lt, %{{.*}}, %{{.*}}, %[[D]], %{{.*}}
// CHECK: %[[S:.*]] = nano.select eq, %{{.*}}, %[[T]], %[[E]], %{{.*}} : tensor<16x128xi32>, tensor<16x128xf32>
// CHECK: nano.reduce sum %[[S]] dims [1] : tensor<16x128xf32> -> tensor<16xf32>
nano.program @two(%x: tensor<16x32xf32>, %w: tensor<101x32xf32>, %u: tensor<101x32xf32>, %t: tensor<16xi32>) -> tensor<16xf32> {
  %p = nano.matmul %x, %w {transpose_b} : (tensor<16x32xf32>, tensor<101x32xf32>) -> tensor<16x101xf32>
  %q = nano.matmul %x, %u {transpose_b} : (tensor<16x32xf32>, tensor<101x32xf32>) -> tensor<16x101xf32>
  %d = nano.sub %p, %q : tensor<16x101xf32>
  %j = nano.iota 1 : tensor<16x101xi32>
  %c = nano.broadcast %t dims [0] : tensor<16xi32> -> tensor<16x101xi32>
  %0 = nano.constant 0.0 : tensor<16x101xf32>
  %s = nano.select eq, %j, %c, %d, %0 : tensor<16x101xi32>, tensor<16x101xf32>
  %n = nano.reduce sum %s dims [1] : tensor<16x101xf32> -> tensor<16xf32>
  nano.return %n : tensor<16xf32>
}

// -----

// Rows of 16 bytes, few columns, another orientation: left alone.
// CHECK-LABEL: nano.program @fits
// CHECK-NOT: nano.concat
// CHECK: nano.return
nano.program @fits(%x: tensor<16x32xbf16>, %a: tensor<104x32xbf16>, %b: tensor<9x32xbf16>, %c: tensor<32x101xbf16>) -> (tensor<16x104xbf16>, tensor<16x9xbf16>, tensor<16x101xbf16>) {
  %p = nano.matmul %x, %a {transpose_b} : (tensor<16x32xbf16>, tensor<104x32xbf16>) -> tensor<16x104xbf16>
  %q = nano.matmul %x, %b {transpose_b} : (tensor<16x32xbf16>, tensor<9x32xbf16>) -> tensor<16x9xbf16>
  %r = nano.matmul %x, %c : (tensor<16x32xbf16>, tensor<32x101xbf16>) -> tensor<16x101xbf16>
  nano.return %p, %q, %r : tensor<16x104xbf16>, tensor<16x9xbf16>, tensor<16x101xbf16>
}

// -----

// A weight that runs in 8 bits: rows of whole units of 16 elements, or with scales by block of whole blocks; 104 bf16 would be whole units of 16 bytes.
// CHECK-LABEL: nano.program @fp8
// CHECK: nano.constant 0.000000e+00 : tensor<24x32xbf16>
// CHECK: nano.matmul {{.*}} -> tensor<16x128xbf16>
// CHECK: nano.constant 0.000000e+00 : tensor<112x128xbf16>
// CHECK: nano.matmul {{.*}} -> tensor<128x256xbf16>
// CHECK: nano.return
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<104x32xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all, fp8 = {recipe = "current", history = 16 : i64, margin = 0.0 : f64}}
nano.state @b : tensor<144x128xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all, fp8 = {recipe = "block"}}
nano.program @fp8(%x: tensor<16x32xbf16>, %z: tensor<128x128xbf16>) -> (tensor<16x104xbf16>, tensor<128x144xbf16>) {
  %v = nano.load @w : tensor<104x32xf32>
  %w = nano.cast %v : tensor<104x32xf32> -> tensor<104x32xbf16>
  %y = nano.matmul %x, %w {transpose_b} : (tensor<16x32xbf16>, tensor<104x32xbf16>) -> tensor<16x104xbf16>
  %c = nano.load @b : tensor<144x128xf32>
  %b = nano.cast %c : tensor<144x128xf32> -> tensor<144x128xbf16>
  %u = nano.matmul %z, %b {transpose_b} : (tensor<128x128xbf16>, tensor<144x128xbf16>) -> tensor<128x144xbf16>
  nano.return %y, %u : tensor<16x104xbf16>, tensor<128x144xbf16>
}
