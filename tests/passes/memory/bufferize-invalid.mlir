// RUN: nano-opt %s -nano-bufferize -split-input-file -verify-diagnostics

nano.state @g : tensor<8xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}
func.func @train(%x: tensor<8xf32>) attributes {nano.role = "train"} {
  // expected-error @below {{has no meaning for one program: nano-split-accumulation runs first}}
  nano.accumulate %x, @g : tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{cannot become a command: only ops of the nano dialect that compute can}}
  %c = arith.constant 0 : i32
  return
}

// -----

// expected-error @below {{only functions of one block can become programs}}
func.func private @f(tensor<8xf32>)

// -----

func.func @first(%x: tensor<8xi32>) attributes {nano.role = "first"} { return }
// expected-error @below {{its tokens is 'memref<4xi32>', but @train.tokens is something else}}
func.func @next(%x: tensor<4xi32>) attributes {nano.role = "next"} { return }
