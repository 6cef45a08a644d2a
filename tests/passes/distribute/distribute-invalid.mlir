// RUN: nano-opt %s -split-input-file -verify-diagnostics "--nano-distribute=world=4 min-shard=64"
// RUN: not nano-opt %s --nano-distribute=world=0 2>&1 | FileCheck %s

// CHECK: error: the options world, max-group and min-shard must be at least 1, are 0, 8 and 32768
// expected-error @below {{training does not say seq_len and global_batch}}
module {
}

// -----

// expected-error @below {{global_batch 24 is not a multiple of seq_len 8 times 4 ranks}}
module {
  nano.model "m" {training = {seq_len = 8 : i64, global_batch = 24 : i64}}
}

// -----

// expected-error @below {{training: dist is "zero3", must be "allreduce" or "zero2"}}
module {
  nano.model "m" {training = {seq_len = 8 : i64, global_batch = 32 : i64, dist = "zero3"}}
}

// -----

module {
  nano.model "m" {training = {seq_len = 8 : i64, global_batch = 32 : i64}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @none of "none" lr @lr {inits = array<f64>, kind = "none", states = []}
  // expected-error @below {{its optimizer @none has no equations}}
  nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @none}
}

// -----

// expected-error @below {{no functions with the roles "first" and "next": nano-split-accumulation comes first}}
module {
  nano.model "m" {training = {seq_len = 8 : i64, global_batch = 32 : i64}}
}

// -----

module {
  nano.model "m" {training = {seq_len = 8 : i64, global_batch = 32 : i64, dist = "zero2"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @odd of "odd" lr @lr {inits = array<f64>, kind = "sgd", states = []} by {
  ^bb0(%p: tensor<7x10xf32>, %g: tensor<7x10xf32>):
    %next = nano.sub %p, %g : tensor<7x10xf32>
    nano.yield %next : tensor<7x10xf32>
  }
  nano.optimizer @plain of "plain" lr @lr {inits = array<f64>, kind = "sgd", states = []} by {
  ^bb0(%p: tensor<64xf32>, %g: tensor<64xf32>):
    %next = nano.sub %p, %g : tensor<64xf32>
    nano.yield %next : tensor<64xf32>
  }
  nano.optimizer @rows of "rows" lr @lr {inits = array<f64>, kind = "rows", states = []} by {
  ^bb0(%p: tensor<6x16xf32>, %g: tensor<6x16xf32>):
    %sum = nano.reduce sum %g dims [1] : tensor<6x16xf32> -> tensor<6xf32>
    %wide = nano.broadcast %sum dims [0] : tensor<6xf32> -> tensor<6x16xf32>
    %next = nano.sub %p, %wide : tensor<6x16xf32>
    nano.yield %next : tensor<6x16xf32>
  }
  // expected-remark @below {{'odd.w': its gradient and optimizer states are whole on every rank: 70 elements are not a multiple of 32}}
  nano.state @odd.w : tensor<7x10xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @odd}
  nano.state @grad.odd.w : tensor<7x10xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  // expected-remark @below {{'six': its gradient and optimizer states are whole on every rank: it is updated row by row, and 6 are not a multiple of 4}}
  nano.state @six : tensor<6x16xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @rows}
  nano.state @grad.six : tensor<6x16xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  // expected-error @below {{the name @grad.w.part is taken: distribution needs it}}
  nano.state @w : tensor<64xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @plain}
  nano.state @grad.w : tensor<64xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  // expected-note @below {{taken here}}
  nano.state @grad.w.part : tensor<64xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.program @first(%x: tensor<7x10xf32>, %y: tensor<64xf32>, %z: tensor<6x16xf32>) attributes {role = "first"} {
    nano.store %z, @grad.six : tensor<6x16xf32>
    nano.store %x, @grad.odd.w : tensor<7x10xf32>
    nano.store %y, @grad.w : tensor<64xf32>
    nano.return
  }
  nano.program @next() attributes {role = "next"} {
    nano.return
  }
}
