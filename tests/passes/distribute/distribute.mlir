// RUN: nano-opt %s --nano-distribute=worlds=1,4 | FileCheck %s
// RUN: nano-opt %s --nano-distribute=worlds=1 | FileCheck %s --check-prefix=ONE
// RUN: nano-opt %s --nano-distribute=worlds=2 --mlir-print-debuginfo | FileCheck %s --check-prefix=LINES

nano.state @grad.w : tensor<4x2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>} loc("model.cpp":7:0)
nano.state @grad.u : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>} loc("model.cpp":8:0)
nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}

// The sums replace the gradients before anything reads them; other states are left alone.
// CHECK-LABEL: func.func @update()
// CHECK-NEXT: %[[W:.*]] = nano.load @grad.w : tensor<4x2xf32>
// CHECK-NEXT: %[[SW:.*]] = nano.all_reduce %[[W]] : tensor<4x2xf32>
// CHECK-NEXT: nano.store %[[SW]], @grad.w : tensor<4x2xf32>
// CHECK-NEXT: %[[U:.*]] = nano.load @grad.u : tensor<2xf32>
// CHECK-NEXT: %[[SU:.*]] = nano.all_reduce %[[U]] : tensor<2xf32>
// CHECK-NEXT: nano.store %[[SU]], @grad.u : tensor<2xf32>
// CHECK-NEXT: %[[G:.*]] = nano.load @grad.u : tensor<2xf32>
// CHECK-NEXT: nano.store %[[G]], @m : tensor<2xf32>
// CHECK-NEXT: return

// ONE-LABEL: func.func @update()
// ONE-NEXT: nano.load @grad.u
// ONE-NOT: nano.all_reduce

// LINES: nano.all_reduce %{{.*}} : tensor<4x2xf32> loc(#[[W:.*]])
// LINES: nano.all_reduce %{{.*}} : tensor<2xf32> loc(#[[U:.*]])
// LINES-DAG: #[[W]] = loc("model.cpp":7:0)
// LINES-DAG: #[[U]] = loc("model.cpp":8:0)
func.func @update() attributes {nano.role = "update"} {
  %g = nano.load @grad.u : tensor<2xf32>
  nano.store %g, @m : tensor<2xf32>
  return
}
