// Kernels of the model's own: what is printed is what is parsed, and what the verifier refuses.
// RUN: nano-opt %s -split-input-file -verify-diagnostics | nano-opt -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: nano.program @custom
// CHECK: nano.custom "both"(%{{.*}}, %{{.*}}) iterations 4 {added = array<i64: 1>, cpu = "c", cuda = "g", gradient_of = array<i64: 0>, threads = 64 : i64} : (tensor<4xf32>, tensor<2xi32>) -> (tensor<4xbf16>, tensor<f32>) derivative {
// CHECK: ^bb0(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<2xi32>, %{{.*}}: tensor<4xbf16>, %{{.*}}: tensor<f32>, %{{.*}}: tensor<4xbf16>, %{{.*}}: tensor<f32>):
nano.program @custom(%x: tensor<4xf32>, %n: tensor<2xi32>) -> tensor<f32> {
  %y:2 = nano.custom "both"(%x, %n) iterations 4 {cpu = "c", cuda = "g", threads = 64, added = array<i64: 1>, gradient_of = array<i64: 0>}
      : (tensor<4xf32>, tensor<2xi32>) -> (tensor<4xbf16>, tensor<f32>)
  derivative {
  ^bb0(%in: tensor<4xf32>, %ids: tensor<2xi32>, %a: tensor<4xbf16>, %b: tensor<f32>, %da: tensor<4xbf16>, %db: tensor<f32>):
    %dx = nano.cast %da : tensor<4xbf16> -> tensor<4xf32>
    nano.yield %dx : tensor<4xf32>
  }
  nano.return %y#1 : tensor<f32>
}

// -----

nano.program @nothing(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op has neither a function for the CPU nor one for CUDA}}
  %y = nano.custom "f"(%x) iterations 4 : (tensor<4xf32>) -> tensor<4xf32>
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @name(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op name 'a-b' is no identifier of C++}}
  %y = nano.custom "a-b"(%x) iterations 4 {cpu = "c"} : (tensor<4xf32>) -> tensor<4xf32>
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @input() -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op needs an input and a result at least}}
  %y = nano.custom "f"() iterations 4 {cpu = "c"} : () -> tensor<4xf32>
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @iterations(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op iterations is 0, must lie in [1, 2147483647]}}
  %y = nano.custom "f"(%x) iterations 0 {cpu = "c"} : (tensor<4xf32>) -> tensor<4xf32>
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @threads(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op threads is 48, must be a multiple of 32}}
  %y = nano.custom "f"(%x) iterations 1 {cuda = "c", threads = 48} : (tensor<4xf32>) -> tensor<4xf32>
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @flops(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op flops must be a number of at least 0}}
  %y = nano.custom "f"(%x) iterations 1 {cuda = "c", flops = -1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @added(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op adds to result 1 of 1}}
  %y = nano.custom "f"(%x) iterations 1 {cuda = "c", added = array<i64: 1>} : (tensor<4xf32>) -> tensor<4xf32>
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @gradient(%x: tensor<4xi32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op has a gradient of input 0, which is no float input behind those before it}}
  %y = nano.custom "f"(%x) iterations 1 {cuda = "c", gradient_of = array<i64: 0>} : (tensor<4xi32>) -> tensor<4xf32>
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @arguments(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op derivative must take inputs, results and gradients of the float results}}
  %y = nano.custom "f"(%x) iterations 1 {cuda = "c"} : (tensor<4xf32>) -> tensor<4xf32>
  derivative {
  ^bb0(%in: tensor<4xf32>, %a: tensor<4xf32>):
    nano.yield
  }
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @yielded(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op derivative must yield the gradients of the inputs that gradient_of lists}}
  %y = nano.custom "f"(%x) iterations 1 {cuda = "c"} : (tensor<4xf32>) -> tensor<4xf32>
  derivative {
  ^bb0(%in: tensor<4xf32>, %a: tensor<4xf32>, %da: tensor<4xf32>):
    nano.yield %da : tensor<4xf32>
  }
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @states(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op derivative holds nano.store, which touches states}}
  %y = nano.custom "f"(%x) iterations 1 {cuda = "c", gradient_of = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  derivative {
  ^bb0(%in: tensor<4xf32>, %a: tensor<4xf32>, %da: tensor<4xf32>):
    nano.store %da, @s : tensor<4xf32>
    nano.yield %da : tensor<4xf32>
  }
  nano.return %y : tensor<4xf32>
}
nano.state @s : tensor<4xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}

// -----

nano.program @indexed(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op indexed must be an i32 input and what its elements are below}}
  %y = nano.custom "f"(%x) iterations 1 {cuda = "c", indexed = array<i64: 0, 4>} : (tensor<4xf32>) -> tensor<4xf32>
  nano.return %y : tensor<4xf32>
}

// -----

// A row of the first result's is of the same row of the input, and of all rows of the second up to it.
// CHECK-LABEL: nano.program @rows
// CHECK: nano.custom "f"(%{{.*}}, %{{.*}}) iterations 4 {cpu = "c", kept_inputs = array<i64: 1>, row_inputs = array<i64: 0>} : (tensor<4x2xf32>, tensor<4xf32>) -> tensor<4x2xf32> row {
// CHECK: ^bb0(%{{.*}}: tensor<1x2xf32>, %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<1xi32>):
nano.program @rows(%x: tensor<4x2xf32>, %n: tensor<4xf32>) -> tensor<4x2xf32> {
  %y = nano.custom "f"(%x, %n) iterations 4 {cpu = "c", row_inputs = array<i64: 0>, kept_inputs = array<i64: 1>} : (tensor<4x2xf32>, tensor<4xf32>) -> tensor<4x2xf32>
  row {
  ^bb0(%in: tensor<1x2xf32>, %all: tensor<4xf32>, %at: tensor<1xi32>):
    %z = nano.neg %in : tensor<1x2xf32>
    nano.yield %z : tensor<1x2xf32>
  }
  nano.return %y : tensor<4x2xf32>
}

// -----

nano.program @rows_of(%x: tensor<4xf32>, %s: tensor<f32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op has rows of input 1, which is none or a number}}
  %y = nano.custom "f"(%x, %s) iterations 4 {cpu = "c", row_inputs = array<i64: 1>} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @row_takes(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op row must take the inputs, rows of those that row_inputs lists, and a position}}
  %y = nano.custom "f"(%x) iterations 4 {cpu = "c", row_inputs = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  row {
  ^bb0(%in: tensor<4xf32>, %at: tensor<1xi32>):
    %z = nano.slice %in dim 0 at 0 : tensor<4xf32> -> tensor<1xf32>
    nano.yield %z : tensor<1xf32>
  }
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @row_yields(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op row must yield a row of each result}}
  %y = nano.custom "f"(%x) iterations 4 {cpu = "c"} : (tensor<4xf32>) -> tensor<4xf32>
  row {
  ^bb0(%in: tensor<4xf32>, %at: tensor<1xi32>):
    nano.yield %in : tensor<4xf32>
  }
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @nothing_in(%x: tensor<4x0xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'nano.custom' op has an input or result of no elements, 'tensor<4x0xf32>'}}
  %y = nano.custom "f"(%x) iterations 4 {cpu = "c"} : (tensor<4x0xf32>) -> tensor<4xf32>
  nano.return %y : tensor<4xf32>
}
