// RUN: nano-opt %s -nano-sum-gradients=report -nano-verify-fused -o %t 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t

// Gradients of queries, keys and values that lie side by side: their kernel sums the columns over each 64 tokens, and what summed them over 128 adds these up.
// CHECK-LABEL: nano.program @side_by_side
// CHECK:         %[[ALL:.*]]:6 = nano.fused(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6, %arg7)
// CHECK:           %[[Q:.*]], %[[K:.*]], %[[V:.*]] = nano.attention_grad
// CHECK:           %[[WIDE:.*]] = nano.cast %[[Q]]
// CHECK:           %[[SEEN:.*]] = nano.reshape %[[WIDE]] : tensor<512x2x64xf32> -> tensor<8x64x2x64xf32>
// CHECK:           %[[QS:.*]] = nano.reduce sum %[[SEEN]] dims [1]
// CHECK:           nano.yield %[[Q]], %[[K]], %[[V]], %[[QS]], %{{.*}}, %{{.*}} :
// CHECK:         %[[GRADIENTS:.*]] = nano.concat %[[ALL]]#0, %[[ALL]]#1, %[[ALL]]#2 dim 1
// CHECK-DAG:     %[[A:.*]] = nano.reshape %[[ALL]]#3 : tensor<8x2x64xf32> -> tensor<8x128xf32>
// CHECK-DAG:     %[[B:.*]] = nano.reshape %[[ALL]]#4
// CHECK-DAG:     %[[C:.*]] = nano.reshape %[[ALL]]#5
// CHECK:         %[[SUMS:.*]] = nano.concat %[[A]], %[[B]], %[[C]] dim 1
// CHECK:         %[[PARTS:.*]] = nano.reshape %[[SUMS]] : tensor<8x384xf32> -> tensor<4x2x384xf32>
// CHECK:         nano.fused(%[[PARTS]]) : (tensor<4x2x384xf32>) -> tensor<4x384xf32>
// CHECK:         nano.return
nano.program @side_by_side(%q: tensor<512x2x64xbf16>, %k: tensor<512x2x64xbf16>, %v: tensor<512x2x64xbf16>, %first: tensor<512xi32>, %last: tensor<512xi32>,
                           %lse: tensor<512x2xf32>, %delta: tensor<512x2xf32>, %dy: tensor<512x2x64xbf16>) -> (tensor<512x384xbf16>, tensor<4x384xf32>) {
  %dq, %dk, %dv = nano.attention_grad %q, %k, %v, %first, %last, %lse, %delta, %dy scale 1.250000e-01
      : (tensor<512x2x64xbf16>, tensor<512x2x64xbf16>, tensor<512x2x64xbf16>, tensor<512xi32>, tensor<512xi32>, tensor<512x2xf32>, tensor<512x2xf32>, tensor<512x2x64xbf16>)
      -> (tensor<512x2x64xbf16>, tensor<512x2x64xbf16>, tensor<512x2x64xbf16>)
  %all = nano.concat %dq, %dk, %dv dim 1 : (tensor<512x2x64xbf16>, tensor<512x2x64xbf16>, tensor<512x2x64xbf16>) -> tensor<512x6x64xbf16>
  %matrix = nano.reshape %all : tensor<512x6x64xbf16> -> tensor<512x384xbf16>
  // REMARK: [[@LINE+1]]:{{.*}} remark: the kernel of attention's gradients sums their columns
  %sums = nano.fused(%matrix) : (tensor<512x384xbf16>) -> tensor<4x384xf32> {
  ^bb0(%a: tensor<512x384xbf16>):
    %0 = nano.cast %a : tensor<512x384xbf16> -> tensor<512x384xf32>
    %1 = nano.reshape %0 : tensor<512x384xf32> -> tensor<4x128x384xf32>
    %2 = nano.reduce sum %1 dims [1] : tensor<4x128x384xf32> -> tensor<4x384xf32>
    nano.yield %2 : tensor<4x384xf32>
  }
  nano.return %matrix, %sums : tensor<512x384xbf16>, tensor<4x384xf32>
}

// Of values alone, over 32 tokens: what adds up these sums reads fewer.
// CHECK-LABEL: nano.program @values
// CHECK:         %[[ALL:.*]]:4 = nano.fused(
// CHECK:           %{{.*}}, %{{.*}}, %[[V:.*]] = nano.attention_grad
// CHECK:           nano.cast %[[V]]
// CHECK-NOT:       nano.cast
// CHECK:         %[[SUMS:.*]] = nano.reshape %[[ALL]]#3 : tensor<4x2x64xf32> -> tensor<4x128xf32>
// CHECK:         %[[SEEN:.*]] = nano.reshape %[[SUMS]] : tensor<4x128xf32> -> tensor<1x4x128xf32>
// CHECK:         nano.fused(%[[SEEN]], %{{.*}}) : (tensor<1x4x128xf32>, tensor<1x128xf32>) -> tensor<1x128xf32> {
// CHECK:           nano.reduce sum %{{.*}} dims [1] : tensor<1x4x128xf32> -> tensor<1x128xf32>
// CHECK:         nano.return
nano.program @values(%q: tensor<256x4x64xbf16>, %k: tensor<256x2x64xbf16>, %v: tensor<256x2x64xbf16>, %first: tensor<256xi32>, %last: tensor<256xi32>,
                     %lse: tensor<256x4xf32>, %delta: tensor<256x4xf32>, %dy: tensor<256x4x64xbf16>, %before: tensor<1x128xf32>)
    -> (tensor<256x4x64xbf16>, tensor<256x2x64xbf16>, tensor<256x128xbf16>, tensor<1x128xf32>) {
  %dq, %dk, %dv = nano.attention_grad %q, %k, %v, %first, %last, %lse, %delta, %dy scale 1.250000e-01
      : (tensor<256x4x64xbf16>, tensor<256x2x64xbf16>, tensor<256x2x64xbf16>, tensor<256xi32>, tensor<256xi32>, tensor<256x4xf32>, tensor<256x4xf32>, tensor<256x4x64xbf16>)
      -> (tensor<256x4x64xbf16>, tensor<256x2x64xbf16>, tensor<256x2x64xbf16>)
  %matrix = nano.reshape %dv : tensor<256x2x64xbf16> -> tensor<256x128xbf16>
  // REMARK: [[@LINE+1]]:{{.*}} remark: the kernel of attention's gradients sums their columns
  %sums = nano.fused(%matrix) : (tensor<256x128xbf16>) -> tensor<8x128xf32> {
  ^bb0(%a: tensor<256x128xbf16>):
    %0 = nano.cast %a : tensor<256x128xbf16> -> tensor<256x128xf32>
    %1 = nano.reshape %0 : tensor<256x128xf32> -> tensor<8x32x128xf32>
    %2 = nano.reduce sum %1 dims [1] : tensor<8x32x128xf32> -> tensor<8x128xf32>
    nano.yield %2 : tensor<8x128xf32>
  }
  %seen = nano.reshape %sums : tensor<8x128xf32> -> tensor<1x8x128xf32>
  %total = nano.fused(%seen, %before) : (tensor<1x8x128xf32>, tensor<1x128xf32>) -> tensor<1x128xf32> {
  ^bb0(%a: tensor<1x8x128xf32>, %b: tensor<1x128xf32>):
    %0 = nano.reduce sum %a dims [1] : tensor<1x8x128xf32> -> tensor<1x128xf32>
    %1 = nano.add %0, %b : tensor<1x128xf32>
    nano.yield %1 : tensor<1x128xf32>
  }
  nano.return %dq, %dk, %matrix, %total : tensor<256x4x64xbf16>, tensor<256x2x64xbf16>, tensor<256x128xbf16>, tensor<1x128xf32>
}

// Tokens that fill no warpgroup, heads that no tensor core takes, and sums over 96 tokens that are read themselves: kernels read the gradients again.
// CHECK-LABEL: nano.program @tokens
// CHECK-NEXT:    %{{.*}} = nano.attention_grad %arg0
nano.program @tokens(%q: tensor<96x2x64xbf16>, %k: tensor<96x2x64xbf16>, %v: tensor<96x2x64xbf16>, %first: tensor<96xi32>, %last: tensor<96xi32>,
                     %lse: tensor<96x2xf32>, %delta: tensor<96x2xf32>, %dy: tensor<96x2x64xbf16>) -> (tensor<96x2x64xbf16>, tensor<96x2x64xbf16>, tensor<1x128xf32>) {
  %dq, %dk, %dv = nano.attention_grad %q, %k, %v, %first, %last, %lse, %delta, %dy scale 1.250000e-01
      : (tensor<96x2x64xbf16>, tensor<96x2x64xbf16>, tensor<96x2x64xbf16>, tensor<96xi32>, tensor<96xi32>, tensor<96x2xf32>, tensor<96x2xf32>, tensor<96x2x64xbf16>)
      -> (tensor<96x2x64xbf16>, tensor<96x2x64xbf16>, tensor<96x2x64xbf16>)
  %matrix = nano.reshape %dv : tensor<96x2x64xbf16> -> tensor<96x128xbf16>
  // REMARK: [[@LINE+1]]:{{.*}} remark: reads attention's gradients again for the sums of their columns: they are of 96 tokens, no multiple of 64
  %sums = nano.fused(%matrix) : (tensor<96x128xbf16>) -> tensor<1x128xf32> {
  ^bb0(%a: tensor<96x128xbf16>):
    %0 = nano.cast %a : tensor<96x128xbf16> -> tensor<96x128xf32>
    %1 = nano.reshape %0 : tensor<96x128xf32> -> tensor<1x96x128xf32>
    %2 = nano.reduce sum %1 dims [1] : tensor<1x96x128xf32> -> tensor<1x128xf32>
    nano.yield %2 : tensor<1x128xf32>
  }
  nano.return %dq, %dk, %sums : tensor<96x2x64xbf16>, tensor<96x2x64xbf16>, tensor<1x128xf32>
}

// CHECK-LABEL: nano.program @read_in_parts
// CHECK-NEXT:    %{{.*}} = nano.attention_grad %arg0
nano.program @read_in_parts(%q: tensor<192x2x64xbf16>, %k: tensor<192x2x64xbf16>, %v: tensor<192x2x64xbf16>, %first: tensor<192xi32>, %last: tensor<192xi32>,
                     %lse: tensor<192x2xf32>, %delta: tensor<192x2xf32>, %dy: tensor<192x2x64xbf16>) -> (tensor<192x2x64xbf16>, tensor<192x2x64xbf16>, tensor<2x128xf32>) {
  %dq, %dk, %dv = nano.attention_grad %q, %k, %v, %first, %last, %lse, %delta, %dy scale 1.250000e-01
      : (tensor<192x2x64xbf16>, tensor<192x2x64xbf16>, tensor<192x2x64xbf16>, tensor<192xi32>, tensor<192xi32>, tensor<192x2xf32>, tensor<192x2xf32>, tensor<192x2x64xbf16>)
      -> (tensor<192x2x64xbf16>, tensor<192x2x64xbf16>, tensor<192x2x64xbf16>)
  %matrix = nano.reshape %dv : tensor<192x2x64xbf16> -> tensor<192x128xbf16>
  // REMARK: [[@LINE+1]]:{{.*}} columns: not all of the sums over 96 tokens are added up by what reads them
  %sums = nano.fused(%matrix) : (tensor<192x128xbf16>) -> tensor<2x128xf32> {
  ^bb0(%a: tensor<192x128xbf16>):
    %0 = nano.cast %a : tensor<192x128xbf16> -> tensor<192x128xf32>
    %1 = nano.reshape %0 : tensor<192x128xf32> -> tensor<2x96x128xf32>
    %2 = nano.reduce sum %1 dims [1] : tensor<2x96x128xf32> -> tensor<2x128xf32>
    nano.yield %2 : tensor<2x128xf32>
  }
  nano.return %dq, %dk, %sums : tensor<192x2x64xbf16>, tensor<192x2x64xbf16>, tensor<2x128xf32>
}

// CHECK-LABEL: nano.program @heads
// CHECK-NEXT:    %{{.*}} = nano.attention_grad %arg0
nano.program @heads(%q: tensor<64x2x24xbf16>, %k: tensor<64x2x24xbf16>, %v: tensor<64x2x24xbf16>, %first: tensor<64xi32>, %last: tensor<64xi32>,
                    %lse: tensor<64x2xf32>, %delta: tensor<64x2xf32>, %dy: tensor<64x2x24xbf16>) -> (tensor<64x2x24xbf16>, tensor<64x2x24xbf16>, tensor<1x48xf32>) {
  %dq, %dk, %dv = nano.attention_grad %q, %k, %v, %first, %last, %lse, %delta, %dy scale 1.250000e-01
      : (tensor<64x2x24xbf16>, tensor<64x2x24xbf16>, tensor<64x2x24xbf16>, tensor<64xi32>, tensor<64xi32>, tensor<64x2xf32>, tensor<64x2xf32>, tensor<64x2x24xbf16>)
      -> (tensor<64x2x24xbf16>, tensor<64x2x24xbf16>, tensor<64x2x24xbf16>)
  %matrix = nano.reshape %dv : tensor<64x2x24xbf16> -> tensor<64x48xbf16>
  // REMARK: [[@LINE+1]]:{{.*}} columns: tensor cores do not compute them
  %sums = nano.fused(%matrix) : (tensor<64x48xbf16>) -> tensor<1x48xf32> {
  ^bb0(%a: tensor<64x48xbf16>):
    %0 = nano.cast %a : tensor<64x48xbf16> -> tensor<64x48xf32>
    %1 = nano.reshape %0 : tensor<64x48xf32> -> tensor<1x64x48xf32>
    %2 = nano.reduce sum %1 dims [1] : tensor<1x64x48xf32> -> tensor<1x48xf32>
    nano.yield %2 : tensor<1x48xf32>
  }
  nano.return %dq, %dk, %sums : tensor<64x2x24xbf16>, tensor<64x2x24xbf16>, tensor<1x48xf32>
}
