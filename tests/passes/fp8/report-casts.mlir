// Conversions that did not join the kernel of their operand, each with its reason.
// RUN: nano-opt %s --split-input-file --nano-fuse --nano-report-casts --verify-diagnostics -o %t

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.scalar @s : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @all of "all" lr @lr {inits = array<f64>, kind = "adam", states = []}
nano.state @w : tensor<256x256xf32> {role = #nano.role<parameter>, init = #nano.init<"normal", [0.0, 1.0]>, optimizer = @all}
nano.state @m : tensor<256x256xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}

// Part of the kernel that makes its operand: nothing to tell.
nano.program @joined(%x: tensor<256x256xf32>) -> tensor<256x256xf8E4M3FN> {
  %s = nano.load @s : tensor<f32>
  %y = nano.exp %x : tensor<256x256xf32>
  %q = nano.quantize %y, %s : tensor<256x256xf32>, tensor<f32> -> tensor<256x256xf8E4M3FN>
  nano.return %q : tensor<256x256xf8E4M3FN>
}

nano.program @parameter() -> tensor<256x256xf8E4M3FN> {
  %s = nano.load @s : tensor<f32>
  %w = nano.load @w : tensor<256x256xf32>
  // expected-remark@+1 {{a kernel of its own converts 256×256 to 'f8E4M3FN': its operand is a parameter, and this happens once a step}}
  %q = nano.quantize %w, %s : tensor<256x256xf32>, tensor<f32> -> tensor<256x256xf8E4M3FN>
  nano.return %q : tensor<256x256xf8E4M3FN>
}

nano.program @state() -> tensor<256x256xf8E4M3FN> {
  %s = nano.load @s : tensor<f32>
  %w = nano.load @m : tensor<256x256xf32>
  // expected-remark@+1 {{its operand is a state}}
  %q = nano.quantize %w, %s : tensor<256x256xf32>, tensor<f32> -> tensor<256x256xf8E4M3FN>
  nano.return %q : tensor<256x256xf8E4M3FN>
}

nano.program @argument(%x: tensor<256x256xf32>) -> tensor<256x256xf8E4M3FN> {
  %s = nano.load @s : tensor<f32>
  // expected-remark@+1 {{its operand is an argument of the program}}
  %q = nano.quantize %x, %s : tensor<256x256xf32>, tensor<f32> -> tensor<256x256xf8E4M3FN>
  nano.return %q : tensor<256x256xf8E4M3FN>
}

nano.program @product(%x: tensor<256x256xf32>) -> (tensor<256x256xf8E5M2>, tensor<256xf32>) {
  %s = nano.load @s : tensor<f32>
  %y = nano.matmul %x, %x : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  // expected-remark@+1 {{a kernel of its own converts 256×256 to 'f8E5M2': its operand comes from nano.matmul, which is a kernel or a call of its own}}
  %q = nano.quantize %y, %s : tensor<256x256xf32>, tensor<f32> -> tensor<256x256xf8E5M2>
  %a = nano.abs %y : tensor<256x256xf32>
  // expected-remark@+1 {{a kernel of its own measures 256×256: its operand comes from nano.matmul, which is a kernel or a call of its own}}
  %m = nano.reduce max %a dims [1] : tensor<256x256xf32> -> tensor<256xf32>
  nano.return %q, %m : tensor<256x256xf8E5M2>, tensor<256xf32>
}

nano.program @whole(%x: tensor<256x256xf32>) -> tensor<256x256xf8E5M2> {
  %y = nano.exp %x : tensor<256x256xf32>
  %a = nano.abs %y : tensor<256x256xf32>
  %r = nano.reduce max %a dims [1] : tensor<256x256xf32> -> tensor<256xf32>
  %s = nano.reduce max %r dims [0] : tensor<256xf32> -> tensor<f32>
  // expected-remark@+1 {{its scale depends on more of its operand than a kernel has at hand}}
  %q = nano.quantize %y, %s : tensor<256x256xf32>, tensor<f32> -> tensor<256x256xf8E5M2>
  nano.return %q : tensor<256x256xf8E5M2>
}

// Rows of 512 are made; blocks of 128 are measured.
nano.program @order(%x: tensor<64x512xf32>, %y: tensor<512xf32>) -> (tensor<64x512xf32>, tensor<64x4xf32>) {
  %b = nano.broadcast %y dims [1] : tensor<512xf32> -> tensor<64x512xf32>
  %z = nano.mul %x, %b : tensor<64x512xf32>
  %v = nano.reshape %z : tensor<64x512xf32> -> tensor<64x4x128xf32>
  %a = nano.abs %v : tensor<64x4x128xf32>
  // expected-remark@+1 {{a kernel of its own measures 64×512: the kernel that makes its operand walks over it in another order, or has too many operands already}}
  %r = nano.reduce max %a dims [2] : tensor<64x4x128xf32> -> tensor<64x4xf32>
  nano.return %z, %r : tensor<64x512xf32>, tensor<64x4xf32>
}

// The kernel that converts writes both layouts.
nano.program @written(%x: tensor<256x256xf32>) -> (tensor<256x256xf8E4M3FN>, tensor<256x256xf8E4M3FN>) {
  %s = nano.load @s : tensor<f32>
  %y = nano.exp %x : tensor<256x256xf32>
  %q = nano.quantize %y, %s : tensor<256x256xf32>, tensor<f32> -> tensor<256x256xf8E4M3FN>
  %t = nano.transpose %q : tensor<256x256xf8E4M3FN> -> tensor<256x256xf8E4M3FN>
  nano.return %q, %t : tensor<256x256xf8E4M3FN>, tensor<256x256xf8E4M3FN>
}

nano.program @bothWays(%q: tensor<256x256xf8E4M3FN>) -> (tensor<256x256xf8E4M3FN>, tensor<256x256xf8E4M3FN>) {
  // expected-remark@+1 {{a kernel of its own transposes 256×256: its operand is needed both ways}}
  %t = nano.transpose %q : tensor<256x256xf8E4M3FN> -> tensor<256x256xf8E4M3FN>
  nano.return %q, %t : tensor<256x256xf8E4M3FN>, tensor<256x256xf8E4M3FN>
}
