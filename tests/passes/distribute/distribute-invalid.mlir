// RUN: nano-opt %s -split-input-file -verify-diagnostics "--nano-distribute=world=4 min-shard=64"
// RUN: not nano-opt %s --nano-distribute=world=0 2>&1 | FileCheck %s

// CHECK: error: the options world, max-group and min-shard must be at least 1, are 0, 8 and 32768
// expected-error @below {{nano.training does not say seq_len and global_batch}}
module {
}

// -----

// expected-error @below {{global_batch 24 is not a multiple of seq_len 8 times 4 ranks}}
module attributes {nano.training = {seq_len = 8 : i64, global_batch = 24 : i64}} {
}

// -----

// expected-error @below {{nano.training: dist is "zero3", must be "allreduce" or "zero2"}}
module attributes {nano.training = {seq_len = 8 : i64, global_batch = 32 : i64, dist = "zero3"}} {
}

// -----

// expected-error @below {{nano.training: adam_every is 0, must be at least 1}}
module attributes {nano.training = {seq_len = 8 : i64, global_batch = 32 : i64, adam_every = 0 : i64}} {
}

// -----

// expected-error @below {{no functions with the roles "first" and "next": nano-split-accumulation comes first}}
module attributes {nano.training = {seq_len = 8 : i64, global_batch = 32 : i64}} {
}

// -----

module attributes {nano.training = {seq_len = 8 : i64, global_batch = 32 : i64, dist = "zero2"}} {
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.adam @adam lr @lr {beta1 = 0.8, beta2 = 0.95, eps = 1.0e-10, weight_decay = 0.0}
  // expected-remark @below {{'odd': its gradient and optimizer states are whole on every rank: 70 elements are not a multiple of 32}}
  nano.state @odd : tensor<7x10xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @adam}
  nano.state @grad.odd : tensor<7x10xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  // expected-error @below {{the name @grad.w.part is taken: distribution needs it}}
  nano.state @w : tensor<64xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @adam}
  nano.state @grad.w : tensor<64xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  // expected-note @below {{taken here}}
  nano.state @grad.w.part : tensor<64xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  func.func @first(%x: tensor<7x10xf32>, %y: tensor<64xf32>) attributes {nano.role = "first"} {
    nano.store %x, @grad.odd : tensor<7x10xf32>
    nano.store %y, @grad.w : tensor<64xf32>
    return
  }
  func.func @next() attributes {nano.role = "next"} {
    return
  }
}
