// RUN: nano-opt %s -nano-verify-model -split-input-file -verify-diagnostics

// Right.
module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
}

// -----

// expected-error @below {{has no nano.model: it is no model}}
module {}

// -----

// expected-error @below {{has no training: nothing says how the model is trained}}
module {
  nano.model "m"
}

// -----

// expected-error @below {{training has no integer 'vocab_size'}}
module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
}

// -----

// expected-error @below {{training: seq_len is 0, must be at least 1}}
module {
  nano.model "m" {training = {seq_len = 0 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
}

// -----

// expected-error @below {{training: global_batch 30 is not a multiple of seq_len 8}}
module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 30 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
}

// -----

// expected-error @below {{training: log_scalar names no nano.scalar}}
module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "a"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
}

// -----

// expected-error @below {{no function has the role 'validate'}}
module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, gen_seq_len = 4 : i64, global_batch = 32 : i64,
    num_iterations = 10 : i64, vocab_size = 5 : i64, eos_token = 0 : i64, train_loss_is_sum = true, val_loss_is_sum = false, log_scalar = "lr"}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @a of "a" lr @lr {inits = array<f64>, kind = "adam", states = []}
  nano.state @w : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
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
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
  // expected-error @below {{function @f has none of the roles train, validate, generate}}
  nano.program @f() { nano.return }
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
  // expected-note @below {{the first is here}}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
  // expected-error @below {{function @again is the second with role}}
  nano.program @again(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
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
  // expected-error @below {{function @train must take tokens and targets of type 'tensor<8xi32>' (seq_len)}}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<4xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
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
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  // expected-error @below {{function @validate must return one loss, tensor<f32>}}
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<2xf32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<2xf32>
    nano.return %l : tensor<2xf32>
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
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
  // expected-error @below {{function @g must return logits for 4 tokens (gen_seq_len) over at least vocab_size 5 columns}}
  nano.program @g(%tokens: tensor<4xi32>) -> tensor<4x4xf32> attributes {role = "generate"} {
    %z = nano.constant 0.0 : tensor<4x4xf32>
    nano.return %z : tensor<4x4xf32>
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
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    %z = nano.constant 0.0 : tensor<8xf32>
    // expected-error @below {{set: 'w' is set by a program that only reads: set it in train, afterStep or at}}
    nano.store %z, @w : tensor<8xf32>
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
  // expected-error @below {{parameter 'v' is not used by the training program: remove it, or use it}}
  nano.state @v : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %w = nano.load @w : tensor<8xf32>
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
  // expected-error @below {{parameter 'v' does not influence the training loss, so it cannot be trained}}
  nano.state @v : tensor<8xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @a}
  nano.program @train(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "train"} {
    %v = nano.load @v : tensor<8xf32>
    %e = nano.exp %v : tensor<8xf32>
    %w = nano.load @w : tensor<8xf32>
    %l = nano.reduce sum %w dims [0] : tensor<8xf32> -> tensor<f32>
    nano.return %l : tensor<f32>
  }
  nano.program @validate(%tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> tensor<f32> attributes {role = "validate"} {
    %l = nano.constant 0.0 : tensor<f32>
    nano.return %l : tensor<f32>
  }
}

// -----

// expected-error @below {{training: eos_token 5 is none of vocab_size 5 tokens}}
module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, global_batch = 32 : i64, num_iterations = 10 : i64, vocab_size = 5 : i64,
    eos_token = 5 : i64}}
}

// -----

// expected-error @below {{training: documents is 'whole', not aligned, cut or packed}}
module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, global_batch = 32 : i64, num_iterations = 10 : i64, vocab_size = 5 : i64,
    eos_token = 0 : i64, documents = "whole"}}
}

// -----

// expected-error @below {{training: only the rules cut and packed take documents apart, so that shuffle_documents goes with them alone}}
module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, global_batch = 32 : i64, num_iterations = 10 : i64, vocab_size = 5 : i64,
    eos_token = 0 : i64, documents = "aligned", shuffle_documents = true}}
}

// -----

// expected-error @below {{training: an entry of columns lacks its name, its type or of_target}}
module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, global_batch = 32 : i64, num_iterations = 10 : i64, vocab_size = 5 : i64,
    eos_token = 0 : i64, columns = [{name = "mask", type = "u8"}]}}
}

// -----

// expected-error @below {{training: 'targets' is no name of a column}}
module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, global_batch = 32 : i64, num_iterations = 10 : i64, vocab_size = 5 : i64,
    eos_token = 0 : i64, columns = [{name = "targets", type = "u8", of_target = true}]}}
}

// -----

// expected-error @below {{training: column 'in_document' is u8, not f32}}
module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, global_batch = 32 : i64, num_iterations = 10 : i64, vocab_size = 5 : i64,
    eos_token = 0 : i64, val_columns = [{name = "in_document", type = "f32", of_target = true}]}}
}

// -----

// expected-error @below {{training: column 'mask' is read twice}}
module {
  nano.model "m" {training = {seq_len = 8 : i64, val_seq_len = 8 : i64, global_batch = 32 : i64, num_iterations = 10 : i64, vocab_size = 5 : i64,
    eos_token = 0 : i64, columns = [{name = "mask", type = "u8", of_target = true}, {name = "mask", type = "f32", of_target = false}]}}
}
