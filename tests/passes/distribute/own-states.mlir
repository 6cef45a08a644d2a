// RUN: nano-opt %s -nano-distribute="world=2" | FileCheck %s
// RUN: nano-opt %s -nano-distribute="world=1" | FileCheck %s --check-prefix=ONE

// The last micro-batch leaves the mean, or the largest, of what ranks have; what each keeps for itself is a part of a whole, for one rank too.
// CHECK:     nano.state @each {{.*}}sharding = {chunk = 3 : i64, parts = 2 : i64, pieces = [{name = "each", offset = 0 : i64, shape = array<i64: 2, 3>}], ranks = "all"}
// CHECK:     nano.program @first
// CHECK-NOT:   all_reduce
// CHECK:     nano.program @last
// CHECK:       %[[SUM:.*]] = nano.all_reduce %[[X:[^ ]*]] : tensor<3xf32>
// CHECK-NEXT:  %[[HALF:.*]] = nano.constant 5.000000e-01
// CHECK:       %[[MEAN:.*]] = nano.mul %[[SUM]]
// CHECK-NEXT:  nano.store %[[MEAN]], @mean
// CHECK:       %[[MAX:.*]] = nano.all_reduce %[[X]] by max : tensor<3xf32>
// CHECK-NEXT:  nano.store %[[MAX]], @largest
// CHECK-NEXT:  nano.store %[[X]], @each
// CHECK-NEXT:  nano.store %{{.*}}, @same
// ONE:       nano.state @each {{.*}}parts = 1 : i64, pieces = [{name = "each", offset = 0 : i64, shape = array<i64: 1, 3>}]
// ONE-NOT:   all_reduce
module {
  nano.model "m" {training = {seq_len = 3 : i64, global_batch = 12 : i64, dist = "allreduce"}}
  nano.state @mean : tensor<3xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}
  nano.state @largest : tensor<3xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "max"}
  nano.state @each : tensor<3xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "each"}
  nano.state @same : tensor<f32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "equal"}
  nano.program @first(%tokens: tensor<3xi32>, %targets: tensor<3xi32>) -> tensor<f32> attributes {role = "first"} {
    %x = nano.cast %tokens : tensor<3xi32> -> tensor<3xf32>
    %l = nano.constant 1.0 : tensor<f32>
    nano.store %x, @mean : tensor<3xf32>
    nano.store %x, @largest : tensor<3xf32>
    nano.store %x, @each : tensor<3xf32>
    nano.store %l, @same : tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @next(%tokens: tensor<3xi32>, %targets: tensor<3xi32>) -> tensor<f32> attributes {role = "next"} {
    %x = nano.cast %tokens : tensor<3xi32> -> tensor<3xf32>
    %l = nano.constant 1.0 : tensor<f32>
    nano.store %x, @mean : tensor<3xf32>
    nano.store %x, @largest : tensor<3xf32>
    nano.store %x, @each : tensor<3xf32>
    nano.store %l, @same : tensor<f32>
    nano.return %l : tensor<f32>
  }
}
