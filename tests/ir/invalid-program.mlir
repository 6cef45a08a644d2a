// RUN: nano-opt %s -split-input-file -verify-diagnostics
// What the verifiers of states, scalars, optimizers and regions refuse.

// expected-error @below {{unknown kind of initial value "zeros": use constant, normal, uniform, sign, data, copy, transpose or blocks}}
nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"zeros", [0.0]>}

// -----

// expected-error @below {{constant initial value needs at least one number}}
nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", []>}

// -----

// expected-error @below {{normal initial value needs two numbers, has 1}}
nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"normal", [0.0]>}

// -----

// expected-error @below {{uniform initial value needs two numbers, has 3}}
nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"uniform", [0.0, 1.0, 2.0]>}

// -----

// expected-error @below {{uniform initial value holds a number that is not finite}}
nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"uniform", [0.0, 0x7FF0000000000000]>}

// -----

// expected-error @below {{normal initial value has the negative standard deviation -1}}
nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"normal", [0.0, -1.0]>}

// -----

// expected-error @below {{uniform initial value has the low end 2}}
nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"uniform", [2.0, 1.0]>}

// -----

// expected-error @below {{initial value has 3 numbers, must have 1 or 2}}
nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0, 1.0, 2.0]>}

// -----

// expected-error @below {{only a parameter has an optimizer}}
nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, optimizer = @adam}

// -----

// expected-error @below {{optimizer @nothing is no nano.optimizer}}
nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @nothing}

// -----

// expected-error @below {{attribute 'type' failed to satisfy constraint}}
nano.state @m : tensor<?xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}

// -----

// expected-error @below {{type must be f32 or i32, is 'f64'}}
nano.scalar @lr : f64 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}

// -----

// expected-error @below {{body must take four f64, step, iterations, sequences, world, or three more, sequence, seed_low, seed_high}}
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64):
  nano.yield %step : f64
}

// -----

// expected-error @below {{body must yield one f64}}
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield
}

// -----

// expected-error @below {{body must yield one f64}}
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  %x = arith.truncf %step : f64 to f32
  nano.yield %x : f32
}

// -----

// expected-error @below {{body holds nano.constant, which is of neither arith nor math}}
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  %c = nano.constant 1.0 : tensor<f32>
  nano.yield %step : f64
}

// -----

// expected-error @below {{expects a non-empty block}}
nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
}

// -----

// expected-error @below {{lr: no scalar named @lr}}
nano.optimizer @g of "g" lr @lr {inits = array<f64>, kind = "x", states = []}

// -----

nano.scalar @lr : i32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
// expected-error @below {{lr: scalar @lr must be f32, is 'i32'}}
nano.optimizer @g of "g" lr @lr {inits = array<f64>, kind = "x", states = []}

// -----

// expected-error @below {{every is 0, must be at least 1}}
nano.optimizer @g of "g" lr @lr {every = 0 : i64, inits = array<f64>, kind = "x", states = []}

// -----

// expected-error @below {{1 states, 2 initial values}}
nano.optimizer @g of "g" lr @lr {inits = array<f64: 0.0, 0.0>, kind = "x", states = ["m"]}

// -----

// expected-error @below {{state 'm' repeats}}
nano.optimizer @g of "g" lr @lr {inits = array<f64: 0.0, 0.0>, kind = "x", states = ["m", "m"]}

// -----

// expected-error @below {{state '' has no name}}
nano.optimizer @g of "g" lr @lr {inits = array<f64: 0.0>, kind = "x", states = [""]}

// -----

// expected-error @below {{an initial value is not finite}}
nano.optimizer @g of "g" lr @lr {inits = array<f64: 0x7FF0000000000000>, kind = "x", states = ["m"]}

// -----

// expected-error @below {{cut is 'halves', must be elements, rows, matrices or whole}}
nano.optimizer @g of "g" lr @lr {cut = "halves", inits = array<f64>, kind = "x", states = []}

// -----

// expected-error @below {{body takes 1 tensors; wanted are 2: parameter, gradient, states}}
nano.optimizer @g of "g" lr @lr {inits = array<f64>, kind = "x", states = []} by {
^bb0(%p: tensor<2xf32>):
  nano.yield %p : tensor<2xf32>
}

// -----

// expected-error @below {{body must take tensors}}
nano.optimizer @g of "g" lr @lr {inits = array<f64>, kind = "x", states = []} by {
^bb0(%p: tensor<2xf32>, %g: f32):
  nano.yield %p : tensor<2xf32>
}

// -----

// expected-error @below {{gradient is 'tensor<2xbf16>'; wanted is f32 of the parameter's shape [2]}}
nano.optimizer @g of "g" lr @lr {inits = array<f64>, kind = "x", states = []} by {
^bb0(%p: tensor<2xf32>, %g: tensor<2xbf16>):
  nano.yield %p : tensor<2xf32>
}

// -----

// expected-error @below {{body must yield the parameter and the states, of their types}}
nano.optimizer @g of "g" lr @lr {inits = array<f64: 0.0>, kind = "x", states = ["m"]} by {
^bb0(%p: tensor<2xf32>, %g: tensor<2xf32>, %m: tensor<f32>):
  nano.yield %p : tensor<2xf32>
}

// -----

// expected-error @below {{body holds nano.all_reduce, which no update can}}
nano.optimizer @g of "g" lr @lr {inits = array<f64>, kind = "x", states = []} by {
^bb0(%p: tensor<2xf32>, %g: tensor<2xf32>):
  %s = nano.all_reduce %g : tensor<2xf32>
  nano.yield %p : tensor<2xf32>
}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @g of "g" lr @lr {inits = array<f64>, kind = "x", states = []} by {
^bb0(%p: tensor<2xf32>, %g: tensor<2xf32>):
  // expected-error @below {{in an optimizer's equations loads no scalar: @m}}
  %m = nano.load @m : tensor<2xf32>
  nano.yield %m : tensor<2xf32>
}
nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.optimizer @g of "g" lr @lr {inits = array<f64>, kind = "x", states = []} by {
^bb0(%p: tensor<2xf32>, %g: tensor<2xf32>):
  nano.yield %p : tensor<2xf32>
}
// expected-error @below {{optimizer @g updates 'tensor<2xf32>', the parameter is 'tensor<3xf32>'}}
nano.state @w : tensor<3xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @g}

// -----

nano.program @f() -> tensor<2xf32> {
  // expected-error @below {{no state named @m}}
  %m = nano.load @m : tensor<2xf32>
  nano.return %m : tensor<2xf32>
}

// -----

nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
nano.program @f() -> tensor<2xbf16> {
  // expected-error @below {{type 'tensor<2xbf16>' differs from that of state @m, 'tensor<2xf32>'}}
  %m = nano.load @m : tensor<2xbf16>
  nano.return %m : tensor<2xbf16>
}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.program @f() -> tensor<1xf32> {
  // expected-error @below {{type 'tensor<1xf32>' differs from that of scalar @lr, 'tensor<f32>'}}
  %m = nano.load @lr : tensor<1xf32>
  nano.return %m : tensor<1xf32>
}

// -----

nano.scalar @lr : f32 {
^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
  nano.yield %step : f64
}
nano.program @f(%x: tensor<f32>) {
  // expected-error @below {{no state named @lr}}
  nano.store %x, @lr : tensor<f32>
  nano.return
}

// -----

nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
nano.program @f(%x: tensor<3xf32>) {
  // expected-error @below {{type 'tensor<3xf32>' differs from that of state @m, 'tensor<2xf32>'}}
  nano.store %x, @m : tensor<3xf32>
  nano.return
}

// -----

nano.state @g : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @f(%x: tensor<3xbf16>) {
  // expected-error @below {{type 'tensor<3xbf16>' differs from that of state @g, 'tensor<2xf32>'}}
  nano.accumulate %x, @g : tensor<3xbf16>
  nano.return
}

// -----

nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
nano.program @f(%x: tensor<2xf32>) {
  // expected-error @below {{state @m accumulates no gradient: its role is optimizer}}
  nano.accumulate %x, @m : tensor<2xf32>
  nano.return
}

// -----

nano.program @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @below {{block arguments must have the types of the operands}}
  %y = nano.fused (%x) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<3xf32>):
    %c = nano.constant 1.0 : tensor<2xf32>
    nano.yield %c : tensor<2xf32>
  }
  nano.return %y : tensor<2xf32>
}

// -----

nano.program @f(%x: tensor<2xf32>) -> tensor<3xf32> {
  // expected-error @below {{must yield values of the types of the results}}
  %y = nano.fused (%x) : (tensor<2xf32>) -> tensor<3xf32> {
  ^bb0(%a: tensor<2xf32>):
    nano.yield %a : tensor<2xf32>
  }
  nano.return %y : tensor<3xf32>
}

// -----

nano.program @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @below {{must yield values of the types of the results}}
  %y = nano.fused (%x) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2xf32>):
    llvm.unreachable
  }
  nano.return %y : tensor<2xf32>
}

// -----

// expected-error @below {{a parameter cannot be sharded: every rank reads all of it}}
nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, optimizer = @w,
    sharding = {parts = 4 : i64, ranks = "group", chunk = 2 : i64, pieces = []}}

// -----

// expected-error @below {{sharding is not {parts : i64, ranks, chunk : i64, pieces = [{name, shape, offset : i64}, …]}}}
nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>,
    sharding = {parts = 4 : i64, ranks = "neighbours", chunk = 2 : i64, pieces = []}}

// -----

// expected-error @below {{sharding is not {parts : i64, ranks, chunk : i64, pieces = [{name, shape, offset : i64}, …]}}}
nano.state @m : tensor<2xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>,
    sharding = {parts = 4 : i64, ranks = "group", chunk = 2 : i64, pieces = [{name = "a", offset = 0 : i64}]}}

// -----

// expected-error @below {{chunks of 4 elements, 2 parts: no division of 6 elements a rank}}
nano.state @m : tensor<6xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>,
    sharding = {parts = 2 : i64, ranks = "group", chunk = 4 : i64, pieces = []}}

// -----

// expected-error @below {{piece 'b' begins at 3, before the end of what precedes it, 4}}
nano.state @m : tensor<6xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>,
    sharding = {parts = 2 : i64, ranks = "group", chunk = 2 : i64,
                     pieces = [{name = "a", shape = array<i64: 2, 2>, offset = 0 : i64}, {name = "b", shape = array<i64: 2>, offset = 3 : i64}]}}

// -----

// expected-error @below {{the pieces end at 14, after the whole of 12 elements}}
nano.state @m : tensor<6xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>,
    sharding = {parts = 2 : i64, ranks = "group", chunk = 2 : i64, pieces = [{name = "a", shape = array<i64: 2, 7>, offset = 0 : i64}]}}

// -----

// expected-error@+1 {{bound is 0, must be at least 1}}
nano.index_check "gather" of "train" below 0

// -----

// expected-error@+1 {{role is 'first', must be train, validate or generate}}
nano.index_check "gather" of "first" below 8

// -----

// expected-error@+1 {{no state @reports}}
nano.reported "acts" mean in @reports at 0

// -----

nano.state @reports : tensor<2xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
// expected-error@+1 {{state @reports must have the role report and hold f32 numbers in one axis}}
nano.reported "acts" mean in @reports at 0

// -----

nano.state @reports : tensor<2xf32> {role = #nano.role<report>, init = #nano.init<"constant", [0.0]>}
// expected-error@+1 {{takes 1 numbers from 2 on of state @reports, which has 2}}
nano.reported "acts" mean in @reports at 2

// -----

nano.state @reports : tensor<2xf32> {role = #nano.role<report>, init = #nano.init<"constant", [0.0]>}
// expected-error@+1 {{a histogram needs edges}}
nano.reported "acts" histogram in @reports at 0

// -----

nano.state @reports : tensor<2xf32> {role = #nano.role<report>, init = #nano.init<"constant", [0.0]>}
// expected-error@+1 {{only a histogram has edges}}
nano.reported "acts" max in @reports at 0 {edges = array<f64: 1.0>}

// -----

nano.state @reports : tensor<9xf32> {role = #nano.role<report>, init = #nano.init<"constant", [0.0]>}
// expected-error@+1 {{edge 1 is not finite or not above the one before}}
nano.reported "acts" histogram in @reports at 0 {edges = array<f64: 1.0, 1.0>}

// -----

// expected-error @below {{of i16 must start at whole numbers from 0 to 65535}}
nano.state @low : tensor<4xi16> {role = #nano.role<optimizer>, init = #nano.init<"constant", [70000.0]>}

// -----

// expected-error @below {{bound is -1, must be at least 1}}
nano.index_check "gather" of "train" below -1

// -----

// expected-error @below {{piece 'a' at 0 has the shape [2, -1]}}
nano.state @s : tensor<4xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>,
    sharding = {parts = 4 : i64, ranks = "group", chunk = 2 : i64, pieces = [{name = "a", shape = array<i64: 2, -1>, offset = 0 : i64}]}}

// -----

// expected-error @below {{piece 'a' at 9223372036854775807 has the shape [2, 1]}}
nano.state @s : tensor<4xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>,
    sharding = {parts = 4 : i64, ranks = "group", chunk = 2 : i64, pieces = [{name = "a", shape = array<i64: 2, 1>, offset = 9223372036854775807 : i64}]}}

// -----

// expected-error @below {{4611686018427387904 parts of 4 elements: more than there can be}}
nano.state @s : tensor<4xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>,
    sharding = {parts = 4611686018427387904 : i64, ranks = "group", chunk = 2 : i64, pieces = []}}

// -----

// expected-error @below {{offset 128 is not a non-negative multiple of 256}}
nano.state @s : tensor<4xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, offset = 128 : i64}
