// RUN: nano-opt %s "--nano-distribute=world=2 min-shard=64" | FileCheck %s

// Gradients that are added up in bf16 are exchanged so: a part, a whole sum, and a bank, which is apart from that of matrices in f32.
module {
  nano.model "m" {training = {seq_len = 8 : i64, global_batch = 32 : i64, dist = "zero2", stored_gradients = true}}
  nano.scalar @lr : f32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.optimizer @grams of "grams" lr @lr {inits = array<f64>, kind = "grams", states = []} by {
  ^bb0(%p: tensor<2x3xbf16>, %g: tensor<2x3xf32>):
    %w = nano.cast %p : tensor<2x3xbf16> -> tensor<2x3xf32>
    %gram = nano.matmul %g, %g {transpose_b} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
    %step = nano.matmul %gram, %g : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %next = nano.sub %w, %step : tensor<2x3xf32>
    %stored = nano.cast %next : tensor<2x3xf32> -> tensor<2x3xbf16>
    nano.yield %stored : tensor<2x3xbf16>
  }
  nano.optimizer @grams.1 of "grams" lr @lr {inits = array<f64>, kind = "grams", states = []} by {
  ^bb0(%p: tensor<2x3xf32>, %g: tensor<2x3xf32>):
    %gram = nano.matmul %g, %g {transpose_b} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
    %step = nano.matmul %gram, %g : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %next = nano.sub %p, %step : tensor<2x3xf32>
    nano.yield %next : tensor<2x3xf32>
  }
  nano.optimizer @plain of "plain" lr @lr {inits = array<f64>, kind = "sgd", states = []} by {
  ^bb0(%p: tensor<16x8xbf16>, %g: tensor<16x8xf32>):
    %w = nano.cast %p : tensor<16x8xbf16> -> tensor<16x8xf32>
    %next = nano.sub %w, %g : tensor<16x8xf32>
    %stored = nano.cast %next : tensor<16x8xf32> -> tensor<16x8xbf16>
    nano.yield %stored : tensor<16x8xbf16>
  }
  nano.optimizer @gains of "plain" lr @lr {inits = array<f64>, kind = "sgd", states = []} by {
  ^bb0(%p: tensor<32xbf16>, %g: tensor<32xf32>):
    %w = nano.cast %p : tensor<32xbf16> -> tensor<32xf32>
    %next = nano.sub %w, %g : tensor<32xf32>
    %stored = nano.cast %next : tensor<32xf32> -> tensor<32xbf16>
    nano.yield %stored : tensor<32xbf16>
  }
  nano.state @head : tensor<16x8xbf16> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @plain}
  nano.state @gain : tensor<32xbf16> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @gains}
  nano.state @u : tensor<2x3xbf16> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @grams}
  nano.state @v : tensor<2x3xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @grams.1}
  nano.state @grad.head : tensor<16x8xbf16> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.gain : tensor<32xbf16> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.u : tensor<2x3xbf16> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
  nano.state @grad.v : tensor<2x3xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

  nano.program @first(%h: tensor<16x8xbf16>, %g: tensor<32xbf16>, %u: tensor<2x3xbf16>, %v: tensor<2x3xf32>) attributes {role = "first"} {
    nano.store %v, @grad.v : tensor<2x3xf32>
    nano.store %u, @grad.u : tensor<2x3xbf16>
    nano.store %h, @grad.head : tensor<16x8xbf16>
    nano.store %g, @grad.gain : tensor<32xbf16>
    nano.return
  }
  nano.program @next(%h: tensor<16x8xbf16>, %g: tensor<32xbf16>, %u: tensor<2x3xbf16>, %v: tensor<2x3xf32>) attributes {role = "next"} {
    nano.store %v, @grad.v : tensor<2x3xf32>
    nano.store %u, @grad.u : tensor<2x3xbf16>
    nano.store %h, @grad.head : tensor<16x8xbf16>
    nano.store %g, @grad.gain : tensor<32xbf16>
    nano.return
  }
}

// CHECK-DAG: nano.state @grad.head.part : tensor<64xbf16>
// CHECK-DAG: nano.state @grad.grams.bank0 : tensor<1x2x3xf32> {{.*}}name = "grad.v"
// CHECK-DAG: nano.state @grad.grams.bank1 : tensor<1x2x3xbf16> {{.*}}name = "grad.u"
// CHECK-LABEL: nano.program @last
// CHECK: %[[V:.*]] = nano.concat {{.*}} -> tensor<2x2x3xf32>
// CHECK: nano.reduce_scatter %[[V]] parts 2 {{.*}}: (tensor<2x2x3xf32>) -> tensor<1x2x3xf32>
// CHECK: %[[U:.*]] = nano.concat {{.*}} -> tensor<2x2x3xbf16>
// CHECK: nano.reduce_scatter %[[U]] parts 2 {{.*}}: (tensor<2x2x3xbf16>) -> tensor<1x2x3xbf16>
// CHECK: nano.reduce_scatter {{.*}} parts 2 {{.*}}: (tensor<128xbf16>) -> tensor<64xbf16>
// CHECK: nano.all_reduce {{.*}} : tensor<32xbf16>
