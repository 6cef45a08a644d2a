// RUN: nano-opt %s -nano-scale-weights -nano-align-products | FileCheck %s

// A weight's recipe is that of its products where a number multiplies its rows too: their columns
// become a multiple of what 8 bits want.
// CHECK-LABEL: nano.program @current
// CHECK: nano.mul %{{.*}}, %{{.*}} : tensor<264x128xf32>
// CHECK: nano.matmul {{.*}} -> tensor<2048x320xbf16>
// CHECK-LABEL: nano.program @block
// CHECK: nano.mul %{{.*}}, %{{.*}} : tensor<264x128xf32>
// CHECK: nano.matmul {{.*}} -> tensor<2048x384xbf16>
// CHECK-LABEL: nano.program @off
// CHECK: nano.mul %{{.*}}, %{{.*}} : tensor<264x128xf32>
// CHECK: nano.matmul {{.*}} -> tensor<2048x264xbf16>
nano.scalar @lr : f32 {
^bb0(%s: f64, %n: f64, %q: f64, %r: f64):
  nano.yield %s : f64
}
nano.optimizer @all of "sgd" lr @lr {inits = array<f64>, kind = "sgd", states = []}
nano.state @w_current : tensor<264x128xf32> {fp8 = {recipe = "current"}, init = #nano.init<"constant", [1.0]>, optimizer = @all, role = #nano.role<parameter>}
nano.state @w_block : tensor<264x128xf32> {fp8 = {recipe = "block"}, init = #nano.init<"constant", [1.0]>, optimizer = @all, role = #nano.role<parameter>}
nano.state @w_off : tensor<264x128xf32> {fp8 = {recipe = "off"}, init = #nano.init<"constant", [1.0]>, optimizer = @all, role = #nano.role<parameter>}
nano.state @s : tensor<f32> {init = #nano.init<"constant", [1.0]>, optimizer = @all, role = #nano.role<parameter>}
nano.program @current(%x: tensor<2048x128xbf16>) -> tensor<2048x264xf32> {
  %0 = nano.load @w_current : tensor<264x128xf32>
  %1 = nano.cast %0 : tensor<264x128xf32> -> tensor<264x128xbf16>
  %2 = nano.matmul %x, %1 {transpose_b} : (tensor<2048x128xbf16>, tensor<264x128xbf16>) -> tensor<2048x264xbf16>
  %3 = nano.cast %2 : tensor<2048x264xbf16> -> tensor<2048x264xf32>
  %4 = nano.load @s : tensor<f32>
  %5 = nano.broadcast %4 dims [] : tensor<f32> -> tensor<2048x264xf32>
  %6 = nano.mul %3, %5 : tensor<2048x264xf32>
  nano.return %6 : tensor<2048x264xf32>
}
nano.program @block(%x: tensor<2048x128xbf16>) -> tensor<2048x264xf32> {
  %0 = nano.load @w_block : tensor<264x128xf32>
  %1 = nano.cast %0 : tensor<264x128xf32> -> tensor<264x128xbf16>
  %2 = nano.matmul %x, %1 {transpose_b} : (tensor<2048x128xbf16>, tensor<264x128xbf16>) -> tensor<2048x264xbf16>
  %3 = nano.cast %2 : tensor<2048x264xbf16> -> tensor<2048x264xf32>
  %4 = nano.load @s : tensor<f32>
  %5 = nano.broadcast %4 dims [] : tensor<f32> -> tensor<2048x264xf32>
  %6 = nano.mul %3, %5 : tensor<2048x264xf32>
  nano.return %6 : tensor<2048x264xf32>
}
nano.program @off(%x: tensor<2048x128xbf16>) -> tensor<2048x264xf32> {
  %0 = nano.load @w_off : tensor<264x128xf32>
  %1 = nano.cast %0 : tensor<264x128xf32> -> tensor<264x128xbf16>
  %2 = nano.matmul %x, %1 {transpose_b} : (tensor<2048x128xbf16>, tensor<264x128xbf16>) -> tensor<2048x264xbf16>
  %3 = nano.cast %2 : tensor<2048x264xbf16> -> tensor<2048x264xf32>
  %4 = nano.load @s : tensor<f32>
  %5 = nano.broadcast %4 dims [] : tensor<f32> -> tensor<2048x264xf32>
  %6 = nano.mul %3, %5 : tensor<2048x264xf32>
  nano.return %6 : tensor<2048x264xf32>
}
