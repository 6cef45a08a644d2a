// RUN: nano-opt %s -nano-lower-kernels=target=cuda -split-input-file | FileCheck %s --check-prefix=IR
// RUN: nano-opt %s -nano-lower-kernels=target=cuda -nano-print-cuda -split-input-file -o /dev/null | FileCheck %s

// Attention on Hopper reads q, k and v by tensor maps of the matrices whose rows are all heads of a token, and its blocks take tiles by tickets, which begin at zero.
// IR-LABEL: step.program @attention
// IR:         %[[TICKETS:.*]] = step.buffer "tickets" : memref<1xi32>
// IR:         step.fill %[[TICKETS]]
// IR:         step.launch @attention_{{.*}}%[[TICKETS]]) {iterations = array<i64: 2>}
// IR:       kernel.func @attention_{{.*}}instantiates = #kernel.attention<{{.*}}tickets = 6>
// IR-SAME:    tensor_maps = [#kernel.tensor_map<buffer = 0, columns = 128, rows = 128, row_bytes = 768, box_columns = 64, box_rows = 256, swizzle_bytes = 128>,
// IR-SAME:                   #kernel.tensor_map<buffer = 1, columns = 128, rows = 128, row_bytes = 256, box_columns = 64, box_rows = 64, swizzle_bytes = 128>,
// IR-SAME:                   #kernel.tensor_map<buffer = 1,
// CHECK-LABEL: // attention
// CHECK:         static constexpr bool hasMaps = true;
// CHECK:       __launch_bounds__(640
// CHECK:           const __grid_constant__ nano::TensorMaps<3> maps
// CHECK:         x.tickets = tickets;
// CHECK-NEXT:    x.maps = maps.map;
step.program @attention {
  %b = step.buffer "q" : memref<128x3x2x64xbf16>
  %q = step.view %b : memref<128x3x2x64xbf16> to memref<128x2x64xbf16, strided<[384, 64, 1]>>
  %k = step.buffer "k" : memref<128x2x64xbf16>
  %f = step.buffer "first" : memref<128xi32>
  %l = step.buffer "last" : memref<128xi32>
  %y = step.buffer "y" : memref<128x2x64xbf16>
  %e = step.buffer "lse" : memref<128x2xf32>
  step.task ins(%q, %k, %f, %l) outs(%y, %e)
      : (memref<128x2x64xbf16, strided<[384, 64, 1]>>, memref<128x2x64xbf16>, memref<128xi32>, memref<128xi32>) -> (memref<128x2x64xbf16>, memref<128x2xf32>) {
  ^bb0(%0: tensor<128x2x64xbf16>, %1: tensor<128x2x64xbf16>, %3: tensor<128xi32>, %4: tensor<128xi32>):
    %r, %s = nano.attention %0, %1, %1, %3, %4 scale 1.200000e-01
        : (tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128xi32>, tensor<128xi32>) -> (tensor<128x2x64xbf16>, tensor<128x2xf32>)
    nano.yield %r, %s : tensor<128x2x64xbf16>, tensor<128x2xf32>
  }
}

// -----

// A head's tokens one behind the other: a token's heads are no row.
// IR-LABEL: step.program @heads_first
// IR-NOT:     tickets
// IR-NOT:     tensor_maps
// CHECK-LABEL: // attention
// CHECK-NOT:     hasMaps
step.program @heads_first {
  %b = step.buffer "q" : memref<2x128x64xbf16>
  %q = step.view %b : memref<2x128x64xbf16> to memref<128x2x64xbf16, strided<[64, 8192, 1]>>
  %f = step.buffer "first" : memref<128xi32>
  %y = step.buffer "y" : memref<128x2x64xbf16>
  %e = step.buffer "lse" : memref<128x2xf32>
  step.task ins(%q, %f) outs(%y, %e) : (memref<128x2x64xbf16, strided<[64, 8192, 1]>>, memref<128xi32>) -> (memref<128x2x64xbf16>, memref<128x2xf32>) {
  ^bb0(%0: tensor<128x2x64xbf16>, %3: tensor<128xi32>):
    %r, %s = nano.attention %0, %0, %0, %3, %3 scale 1.200000e-01
        : (tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128xi32>, tensor<128xi32>) -> (tensor<128x2x64xbf16>, tensor<128x2xf32>)
    nano.yield %r, %s : tensor<128x2x64xbf16>, tensor<128x2xf32>
  }
}

// -----

// The gradients take boxes of 64 rows of q, k, v and dy.
// IR-LABEL: step.program @gradients
// IR:       kernel.func @attention_grad_{{.*}}instantiates = #kernel.attention_grad<{{.*}}box_rows = 64>
// IR-SAME:    tensor_maps = [{{(#kernel.tensor_map<buffer = 0, columns = 128, rows = 128, row_bytes = 256, box_columns = 64, box_rows = 64, swizzle_bytes = 128>(, )?)}}
// CHECK-LABEL: // attention_grad
// CHECK:           const __grid_constant__ nano::TensorMaps<4> maps
// CHECK:         x.maps = maps.map;
step.program @gradients {
  %q = step.buffer "q" : memref<128x2x64xbf16>
  %f = step.buffer "first" : memref<128xi32>
  %e = step.buffer "lse" : memref<128x2xf32>
  %dq = step.buffer "dq" : memref<128x2x64xbf16>
  %dk = step.buffer "dk" : memref<128x2x64xbf16>
  %dv = step.buffer "dv" : memref<128x2x64xbf16>
  step.task ins(%q, %f, %e) outs(%dq, %dk, %dv)
      : (memref<128x2x64xbf16>, memref<128xi32>, memref<128x2xf32>) -> (memref<128x2x64xbf16>, memref<128x2x64xbf16>, memref<128x2x64xbf16>) {
  ^bb0(%0: tensor<128x2x64xbf16>, %3: tensor<128xi32>, %5: tensor<128x2xf32>):
    %a, %b, %c = nano.attention_grad %0, %0, %0, %3, %3, %5, %5, %0 scale 1.200000e-01
        : (tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128xi32>, tensor<128xi32>, tensor<128x2xf32>, tensor<128x2xf32>, tensor<128x2x64xbf16>)
        -> (tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>)
    nano.yield %a, %b, %c : tensor<128x2x64xbf16>, tensor<128x2x64xbf16>, tensor<128x2x64xbf16>
  }
}
