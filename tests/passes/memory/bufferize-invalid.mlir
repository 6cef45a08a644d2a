// RUN: nano-opt %s -nano-bufferize -split-input-file -verify-diagnostics

nano.state @g : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
nano.program @train(%x: tensor<8xf32>) attributes {role = "train"} {
  // expected-error @below {{has no meaning for one program: nano-split-accumulation runs first}}
  nano.accumulate %x, @g : tensor<8xf32>
  nano.return
}

// -----

nano.program @f(%x: tensor<8xf32>) {
  // expected-error @below {{cannot become a command: only ops of the nano dialect that compute can}}
  %c = arith.constant 0 : i32
  nano.return
}

// -----

// expected-error @below {{only functions of one block can become programs}}
nano.program private @f(tensor<8xf32>)

// -----

nano.program @first(%x: tensor<8xi32>) attributes {role = "first"} { nano.return }
// expected-error @below {{its tokens is 'memref<4xi32>', but @train.tokens is something else}}
nano.program @next(%x: tensor<4xi32>) attributes {role = "next"} { nano.return }
