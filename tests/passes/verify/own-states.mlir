// RUN: nano-opt %s -nano-verify-model -split-input-file -verify-diagnostics

// Right: each state is set once a program, equal ones to what all ranks have; events set parameters too, at steps of their own.
module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.state @table : tensor<8xf32> {role = #nano.role<constant>, init = #nano.init<"constant", [0.5]>}
  nano.state @same : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "equal"}
  nano.state @mean : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}
  nano.state @each : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "each"}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %x = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
    %s = nano.load @same : tensor<8xf32>
    nano.store %w, @same : tensor<8xf32>
    nano.store %x, @mean : tensor<8xf32>
    nano.store %x, @each : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %e = nano.load @each : tensor<8xf32>
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @event_0() attributes {role = "event", event_step = 3 : i64} {
    %m = nano.load @mean : tensor<8xf32>
    nano.store %m, @w : tensor<8xf32>
    nano.store %m, @same : tensor<8xf32>
    nano.return
  }
  nano.program @event_1() attributes {role = "event", event_step = 4 : i64} {
    %t = nano.load @table : tensor<8xf32>
    nano.store %t, @w : tensor<8xf32>
    nano.return
  }
  nano.program @event_2() attributes {role = "event"} {
    %e = nano.load @each : tensor<8xf32>
    nano.store %e, @each : tensor<8xf32>
    nano.return
  }
}

// -----

module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.state @table : tensor<8xf32> {role = #nano.role<constant>, init = #nano.init<"constant", [0.5]>}
  nano.state @same : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "equal"}
  nano.state @mean : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}
  nano.state @each : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "each"}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %x = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
    // expected-error @below {{set: 'same' is to be equal on all ranks, and what it is set to differs between them: declare it with OverRanks::mean, max or each}}
    nano.store %x, @same : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
}

// -----

// Before the last micro-batch ranks have means of their own.
module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.state @table : tensor<8xf32> {role = #nano.role<constant>, init = #nano.init<"constant", [0.5]>}
  nano.state @same : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "equal"}
  nano.state @mean : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}
  nano.state @each : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "each"}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %x = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
    %m = nano.load @mean : tensor<8xf32>
    // expected-error @below {{set: 'same' is to be equal on all ranks, and what it is set to differs}}
    nano.store %m, @same : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
}

// -----

module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.state @table : tensor<8xf32> {role = #nano.role<constant>, init = #nano.init<"constant", [0.5]>}
  nano.state @same : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "equal"}
  nano.state @mean : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}
  nano.state @each : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "each"}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %x = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
    // expected-error @below {{set: 'w' is a parameter: the training program computes its gradient; set it in afterStep or at}}
    nano.store %w, @w : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
}

// -----

module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.state @table : tensor<8xf32> {role = #nano.role<constant>, init = #nano.init<"constant", [0.5]>}
  nano.state @same : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "equal"}
  nano.state @mean : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}
  nano.state @each : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "each"}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %x = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %c = nano.constant 0.0 : tensor<8xf32>
    // expected-error @below {{set: 'same' is set by a program that only reads: set it in train, afterStep or at}}
    nano.store %c, @same : tensor<8xf32>
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
}

// -----

module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.state @table : tensor<8xf32> {role = #nano.role<constant>, init = #nano.init<"constant", [0.5]>}
  nano.state @same : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "equal"}
  nano.state @mean : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}
  nano.state @each : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "each"}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %x = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @event_0() attributes {role = "event"} {
    %c = nano.constant 0.0 : tensor<8xf32>
    // expected-error @below {{set: 'table' is a table, which nothing changes}}
    nano.store %c, @table : tensor<8xf32>
    nano.return
  }
}

// -----

module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.state @table : tensor<8xf32> {role = #nano.role<constant>, init = #nano.init<"constant", [0.5]>}
  nano.state @same : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "equal"}
  nano.state @mean : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}
  nano.state @each : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "each"}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %x = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
    // expected-note @below {{the first time here}}
    nano.store %x, @mean : tensor<8xf32>
    // expected-error @below {{set: 'mean' is set twice in one program}}
    nano.store %x, @mean : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
}

// -----

// What ranks keep for themselves does not come to what is equal.
module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.state @table : tensor<8xf32> {role = #nano.role<constant>, init = #nano.init<"constant", [0.5]>}
  nano.state @same : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "equal"}
  nano.state @mean : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}
  nano.state @each : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "each"}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %x = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @event_0() attributes {role = "event"} {
    %e = nano.load @each : tensor<8xf32>
    // expected-error @below {{set: 'w' is to be equal on all ranks, and what it is set to differs between them}}
    nano.store %e, @w : tensor<8xf32>
    nano.return
  }
}

// -----

module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.state @table : tensor<8xf32> {role = #nano.role<constant>, init = #nano.init<"constant", [0.5]>}
  nano.state @same : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "equal"}
  nano.state @mean : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}
  nano.state @each : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "each"}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %x = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @event_0() attributes {role = "event", event_step = 3 : i64} {
    %m = nano.load @mean : tensor<8xf32>
    // expected-note @below {{the other is here}}
    nano.store %m, @w : tensor<8xf32>
    nano.return
  }
  nano.program @event_1() attributes {role = "event", event_step = 3 : i64} {
    %m = nano.load @mean : tensor<8xf32>
    // expected-error @below {{set: two events set 'w' after step 3}}
    nano.store %m, @w : tensor<8xf32>
    nano.return
  }
}

// -----

module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.state @table : tensor<8xf32> {role = #nano.role<constant>, init = #nano.init<"constant", [0.5]>}
  nano.state @same : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "equal"}
  nano.state @mean : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}
  nano.state @each : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "each"}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %x = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @event_0() attributes {role = "event"} {
    %m = nano.load @mean : tensor<8xf32>
    // expected-note @below {{the other is here}}
    nano.store %m, @w : tensor<8xf32>
    nano.return
  }
  nano.program @event_1() attributes {role = "event", event_step = 7 : i64} {
    %m = nano.load @mean : tensor<8xf32>
    // expected-error @below {{set: two events set 'w' after step 7}}
    nano.store %m, @w : tensor<8xf32>
    nano.return
  }
}

// -----

module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.state @table : tensor<8xf32> {role = #nano.role<constant>, init = #nano.init<"constant", [0.5]>}
  nano.state @same : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "equal"}
  nano.state @mean : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}
  nano.state @each : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "each"}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %x = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @event_0() attributes {role = "event"} {
    %m = nano.load @mean : tensor<8xf32>
    // expected-note @below {{the other is here}}
    nano.store %m, @w : tensor<8xf32>
    nano.return
  }
  nano.program @event_1() attributes {role = "event"} {
    %m = nano.load @mean : tensor<8xf32>
    // expected-error @below {{set: two events set 'w' after every step}}
    nano.store %m, @w : tensor<8xf32>
    nano.return
  }
}

// -----

module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.state @table : tensor<8xf32> {role = #nano.role<constant>, init = #nano.init<"constant", [0.5]>}
  nano.state @same : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "equal"}
  nano.state @mean : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}
  nano.state @each : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "each"}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %x = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
  // expected-error @below {{'nano.program' op attribute 'event_step' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  nano.program @event_0() attributes {role = "event", event_step = -1 : i64} {
    %m = nano.load @mean : tensor<8xf32>
    nano.store %m, @w : tensor<8xf32>
    nano.return
  }
}

// -----

module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.state @table : tensor<8xf32> {role = #nano.role<constant>, init = #nano.init<"constant", [0.5]>}
  nano.state @same : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "equal"}
  nano.state @mean : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}
  nano.state @each : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "each"}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %x = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
  // expected-error @below {{event @event_0 is not one block of ops without arguments and results}}
  nano.program @event_0(%a: tensor<i32>) attributes {role = "event"} {
    %m = nano.load @mean : tensor<8xf32>
    nano.store %m, @w : tensor<8xf32>
    nano.return
  }
}

// -----

module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.state @table : tensor<8xf32> {role = #nano.role<constant>, init = #nano.init<"constant", [0.5]>}
  nano.state @same : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "equal"}
  nano.state @mean : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}
  nano.state @each : tensor<8xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "each"}
  // expected-error @below {{frozen parameter 'unused' is not used by any program: remove it, or use it}}
  nano.state @unused : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"sign", [1.0]>}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %x = nano.cast %tokens : tensor<8xi32> -> tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
}
