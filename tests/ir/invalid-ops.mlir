// RUN: nano-opt %s -split-input-file -verify-diagnostics
// What the verifiers of element-wise, shape and compute ops refuse.

nano.program @f() -> tensor<2xi32> {
  // expected-error @below {{value 0.5 is not an integer of 32 bits}}
  %c = nano.constant 0.5 : tensor<2xi32>
  nano.return %c : tensor<2xi32>
}

// -----

nano.program @f() -> tensor<2xi32> {
  // expected-error @below {{value 2147483648 is not an integer of 32 bits}}
  %c = nano.constant 2147483648.0 : tensor<2xi32>
  nano.return %c : tensor<2xi32>
}

// -----

nano.program @f() -> tensor<2xi32> {
  // expected-error @below {{dim 1 out of range for [2]}}
  %i = nano.iota 1 : tensor<2xi32>
  nano.return %i : tensor<2xi32>
}

// -----

nano.program @f() -> tensor<2xi32> {
  // expected-error @below {{dim -1 out of range for [2]}}
  %i = nano.iota -1 : tensor<2xi32>
  nano.return %i : tensor<2xi32>
}

// -----

nano.program @f(%a: tensor<3xi32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @below {{shapes compared and chosen differ: [3] and [2]}}
  %y = nano.select lt, %a, %a, %x, %x : tensor<3xi32>, tensor<2xf32>
  nano.return %y : tensor<2xf32>
}

// -----

nano.program @f(%x: tensor<2xf8E4M3FN>) -> tensor<2xf8E4M3FN> {
  // expected-error @below {{operand #0 must be statically shaped tensor of 32-bit float or bfloat16}}
  %y = nano.exp %x : tensor<2xf8E4M3FN>
  nano.return %y : tensor<2xf8E4M3FN>
}

// -----

nano.program @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error @below {{operand #0 must be statically shaped tensor of}}
  %y = nano.add %x, %x : tensor<?xf32>
  nano.return %y : tensor<?xf32>
}

// -----

nano.program @f(%x: tensor<2xf32>) -> tensor<3xf32> {
  // expected-error @below {{requires the same shape for all operands and results}}
  %y = nano.cast %x : tensor<2xf32> -> tensor<3xf32>
  nano.return %y : tensor<3xf32>
}

// -----

nano.program @f(%x: tensor<2xf32>) -> tensor<2x3xf32> {
  // expected-error @below {{dims must have one entry for each of the operand's 1 dimensions}}
  %y = nano.broadcast %x dims [0, 1] : tensor<2xf32> -> tensor<2x3xf32>
  nano.return %y : tensor<2x3xf32>
}

// -----

nano.program @f(%x: tensor<2xf32>) -> tensor<2x3xbf16> {
  // expected-error @below {{element types differ: 'f32' and 'bf16'}}
  %y = nano.broadcast %x dims [0] : tensor<2xf32> -> tensor<2x3xbf16>
  nano.return %y : tensor<2x3xbf16>
}

// -----

nano.program @f(%x: tensor<2xf32>) -> tensor<2x3xf32> {
  // expected-error @below {{dims [2] must increase and lie within the 2 dimensions}}
  %y = nano.broadcast %x dims [2] : tensor<2xf32> -> tensor<2x3xf32>
  nano.return %y : tensor<2x3xf32>
}

// -----

nano.program @f(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  // expected-error @below {{dims [1, 0] must increase and lie within the 2 dimensions}}
  %y = nano.broadcast %x dims [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  nano.return %y : tensor<3x2xf32>
}

// -----

nano.program @f(%x: tensor<2xf32>) -> tensor<2x3xf32> {
  // expected-error @below {{cannot broadcast [2] to [2, 3] with dims [1]}}
  %y = nano.broadcast %x dims [1] : tensor<2xf32> -> tensor<2x3xf32>
  nano.return %y : tensor<2x3xf32>
}

// -----

nano.program @f(%x: tensor<4xf32>) -> tensor<4xi32> {
  // expected-error @below {{element types differ: 'f32' and 'i32'}}
  %y = nano.reshape %x : tensor<4xf32> -> tensor<4xi32>
  nano.return %y : tensor<4xi32>
}

// -----

nano.program @f(%x: tensor<4xf32>) -> tensor<2x3xf32> {
  // expected-error @below {{cannot reshape [4] to [2, 3]: 4 elements against 6}}
  %y = nano.reshape %x : tensor<4xf32> -> tensor<2x3xf32>
  nano.return %y : tensor<2x3xf32>
}

// -----

nano.program @f(%x: tensor<4x2xf32>) -> tensor<2xf32> {
  // expected-error @below {{must keep the element type and the rank}}
  %y = nano.slice %x dim 0 at 0 : tensor<4x2xf32> -> tensor<2xf32>
  nano.return %y : tensor<2xf32>
}

// -----

nano.program @f(%x: tensor<4x2xf32>) -> tensor<2x2xf32> {
  // expected-error @below {{dim 2 out of range for [4, 2]}}
  %y = nano.slice %x dim 2 at 0 : tensor<4x2xf32> -> tensor<2x2xf32>
  nano.return %y : tensor<2x2xf32>
}

// -----

nano.program @f(%x: tensor<4x2xf32>) -> tensor<2x2xf32> {
  // expected-error @below {{range of 2 from 3 along dimension 0 lies outside [4, 2]}}
  %y = nano.slice %x dim 0 at 3 : tensor<4x2xf32> -> tensor<2x2xf32>
  nano.return %y : tensor<2x2xf32>
}

// -----

nano.program @f(%x: tensor<4x2xf32>) -> tensor<2x2xf32> {
  // expected-error @below {{range of 2 from 9223372036854775807 along dimension 0 lies outside [4, 2]}}
  %y = nano.slice %x dim 0 at 9223372036854775807 : tensor<4x2xf32> -> tensor<2x2xf32>
  nano.return %y : tensor<2x2xf32>
}

// -----

nano.program @f(%x: tensor<4x2xf32>) -> tensor<2x2xf32> {
  // expected-error @below {{range of 2 from -1 along dimension 0 lies outside [4, 2]}}
  %y = nano.slice %x dim 0 at -1 : tensor<4x2xf32> -> tensor<2x2xf32>
  nano.return %y : tensor<2x2xf32>
}

// -----

nano.program @f(%x: tensor<4x2xf32>) -> tensor<2x3xf32> {
  // expected-error @below {{sizes other than along dimension 0 differ: [4, 2] and [2, 3]}}
  %y = nano.slice %x dim 0 at 0 : tensor<4x2xf32> -> tensor<2x3xf32>
  nano.return %y : tensor<2x3xf32>
}

// -----

nano.program @f() -> tensor<2xf32> {
  // expected-error @below {{needs at least one operand}}
  %y = "nano.concat"() {dim = 0 : i64} : () -> tensor<2xf32>
  nano.return %y : tensor<2xf32>
}

// -----

nano.program @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @below {{dim 1 out of range for [2]}}
  %y = nano.concat %x dim 1 : (tensor<2xf32>) -> tensor<2xf32>
  nano.return %y : tensor<2xf32>
}

// -----

nano.program @f(%x: tensor<2xf32>) -> tensor<2xbf16> {
  // expected-error @below {{operands must have the rank and the element type of the result}}
  %y = nano.concat %x dim 0 : (tensor<2xf32>) -> tensor<2xbf16>
  nano.return %y : tensor<2xbf16>
}

// -----

nano.program @f(%x: tensor<2x3xf32>) -> tensor<4x2xf32> {
  // expected-error @below {{sizes other than along dim differ: [2, 3] and [2, 2]}}
  %y = nano.concat %x, %x dim 0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x2xf32>
  nano.return %y : tensor<4x2xf32>
}

// -----

nano.program @f(%x: tensor<2x3xf32>) -> tensor<5x3xf32> {
  // expected-error @below {{sizes along dimension 0 sum to 4, the result has 5}}
  %y = nano.concat %x, %x dim 0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<5x3xf32>
  nano.return %y : tensor<5x3xf32>
}

// -----

nano.program @f(%x: tensor<f32>) -> tensor<f32> {
  // expected-error @below {{needs at least one dimension}}
  %y = nano.rotate %x by 0 : tensor<f32>
  nano.return %y : tensor<f32>
}

// -----

nano.program @f(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // expected-error @below {{shift 4 out of range for a last dimension of 4}}
  %y = nano.rotate %x by 4 : tensor<2x4xf32>
  nano.return %y : tensor<2x4xf32>
}

// -----

nano.program @f(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // expected-error @below {{needs at least one dimension to reduce}}
  %y = nano.reduce sum %x dims [] : tensor<2x4xf32> -> tensor<2x4xf32>
  nano.return %y : tensor<2x4xf32>
}

// -----

nano.program @f(%x: tensor<2x4xf32>) -> tensor<2xf32> {
  // expected-error @below {{dims [1, 1] must increase and lie within the 2 dimensions}}
  %y = nano.reduce sum %x dims [1, 1] : tensor<2x4xf32> -> tensor<2xf32>
  nano.return %y : tensor<2xf32>
}

// -----

nano.program @f(%x: tensor<2x4xf32>) -> tensor<2xf32> {
  // expected-error @below {{the shape that remains and the result's differ: [4] and [2]}}
  %y = nano.reduce sum %x dims [0] : tensor<2x4xf32> -> tensor<2xf32>
  nano.return %y : tensor<2xf32>
}

// -----

nano.program @f(%x: tensor<2x4xbf16>) -> tensor<2xf32> {
  // expected-error @below {{element types differ: 'bf16' and 'f32'}}
  %y = nano.reduce sum %x dims [1] : tensor<2x4xbf16> -> tensor<2xf32>
  nano.return %y : tensor<2xf32>
}

// -----

nano.program @f(%x: tensor<2x4xbf16>) -> tensor<2xbf16> {
  // expected-error @below {{a log-sum-exp is of f32, not of 'bf16'}}
  %y = nano.reduce logsumexp %x dims [1] : tensor<2x4xbf16> -> tensor<2xbf16>
  nano.return %y : tensor<2xbf16>
}

// -----

nano.program @f(%x: tensor<2x4xi32>) -> tensor<2xi32> {
  // expected-error @below {{a sum is of f32 or bf16, not of 'i32'}}
  %y = nano.reduce sum %x dims [1] : tensor<2x4xi32> -> tensor<2xi32>
  nano.return %y : tensor<2xi32>
}

// -----

nano.program @f(%x: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error @below {{of integers: a sum or a maximum, not a log-sum-exp}}
  %y = nano.scan logsumexp %x : tensor<4xi32>
  nano.return %y : tensor<4xi32>
}

// -----

nano.program @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{ranks exchange a sum or a maximum, not a log-sum-exp}}
  %y = nano.all_reduce %x by logsumexp : tensor<4xf32>
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @f(%x: tensor<2x4xi32>) -> tensor<2x4xi32> {
  // expected-error @below {{needs a rank-1 operand, has [2, 4]}}
  %y = nano.scan max %x : tensor<2x4xi32>
  nano.return %y : tensor<2x4xi32>
}

// -----

nano.program @f(%x: tensor<4xf32>) -> tensor<4xi32> {
  // expected-error @below {{needs a rank-2 operand, has [4]}}
  %y = nano.argsort %x : tensor<4xf32> -> tensor<4xi32>
  nano.return %y : tensor<4xi32>
}

// -----

nano.program @f(%x: tensor<2x4xf32>) -> tensor<4x2xi32> {
  // expected-error @below {{the operand's shape and the result's differ: [2, 4] and [4, 2]}}
  %y = nano.argsort %x : tensor<2x4xf32> -> tensor<4x2xi32>
  nano.return %y : tensor<4x2xi32>
}

// -----

nano.program @f(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  // expected-error @below {{needs a rank-2 operand, has [2, 3, 4]}}
  %y = nano.sparsemax %x : tensor<2x3x4xf32>
  nano.return %y : tensor<2x3x4xf32>
}

// -----

nano.program @f(%x: tensor<1x16777217xf32>) -> tensor<1x16777217xf32> {
  // expected-error @below {{has 16777217 columns, more than 16777216}}
  %y = nano.sparsemax %x : tensor<1x16777217xf32>
  nano.return %y : tensor<1x16777217xf32>
}

// -----

nano.program @f(%a: tensor<2xf32>, %b: tensor<2x4xf32>) -> tensor<4xf32> {
  // expected-error @below {{operands need at least two dimensions: [2] × [2, 4]}}
  %y = nano.matmul %a, %b : (tensor<2xf32>, tensor<2x4xf32>) -> tensor<4xf32>
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @f(%a: tensor<2x3xf32>, %b: tensor<3x4xbf16>) -> tensor<2x4xf32> {
  // expected-error @below {{operand types differ: 'f32' and 'bf16'}}
  %y = nano.matmul %a, %b : (tensor<2x3xf32>, tensor<3x4xbf16>) -> tensor<2x4xf32>
  nano.return %y : tensor<2x4xf32>
}

// -----

nano.program @f(%a: tensor<5x2x3xf32>, %b: tensor<3x4xf32>) -> tensor<5x2x4xf32> {
  // expected-error @below {{batch dimensions differ: [5, 2, 3] × [3, 4]}}
  %y = nano.matmul %a, %b : (tensor<5x2x3xf32>, tensor<3x4xf32>) -> tensor<5x2x4xf32>
  nano.return %y : tensor<5x2x4xf32>
}

// -----

nano.program @f(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x3xf32> {
  // expected-error @below {{inner dimensions differ: [2, 3] × [3, 4]ᵀ}}
  %y = nano.matmul %a, %b {transpose_b} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  nano.return %y : tensor<2x3xf32>
}

// -----

nano.program @f(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
  // expected-error @below {{inner dimensions differ: [2, 3]ᵀ × [3, 4]}}
  %y = nano.matmul %a, %b {transpose_a} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  nano.return %y : tensor<2x4xf32>
}

// -----

nano.program @f(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<4x2xf32> {
  // expected-error @below {{the product's shape and the result's differ: [2, 4] and [4, 2]}}
  %y = nano.matmul %a, %b : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<4x2xf32>
  nano.return %y : tensor<4x2xf32>
}

// -----

nano.program @f(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<2x4xbf16>) -> tensor<2x4xf32> {
  // expected-error @below {{types of addend and result differ: 'tensor<2x4xbf16>' and 'tensor<2x4xf32>'}}
  %y = nano.matmul %a, %b add %c : (tensor<2x3xf32>, tensor<3x4xf32>, tensor<2x4xbf16>) -> tensor<2x4xf32>
  nano.return %y : tensor<2x4xf32>
}

// -----

nano.program @f(%table: tensor<9x4xbf16>, %ids: tensor<2xi32>) -> tensor<2x4xf32> {
  // expected-error @below {{element types differ: 'bf16' and 'f32'}}
  %y = nano.gather %table, %ids : (tensor<9x4xbf16>, tensor<2xi32>) -> tensor<2x4xf32>
  nano.return %y : tensor<2x4xf32>
}

// -----

nano.program @f(%table: tensor<9x4xf32>, %ids: tensor<2x1xi32>) -> tensor<2x4xf32> {
  // expected-error @below {{needs a table of two dimensions and ids of one: [9, 4], [2, 1]}}
  %y = nano.gather %table, %ids : (tensor<9x4xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>
  nano.return %y : tensor<2x4xf32>
}

// -----

nano.program @f(%table: tensor<9x4xf32>, %ids: tensor<2xi32>) -> tensor<2x5xf32> {
  // expected-error @below {{shape of the rows and [ids, columns of the table] differ: [2, 5] and [2, 4]}}
  %y = nano.gather %table, %ids : (tensor<9x4xf32>, tensor<2xi32>) -> tensor<2x5xf32>
  nano.return %y : tensor<2x5xf32>
}

// -----

nano.program @f(%x: tensor<3x4xf32>, %ids: tensor<2xi32>) -> tensor<9x4xf32> {
  // expected-error @below {{shape of the rows and [ids, columns of the table] differ: [3, 4] and [2, 4]}}
  %y = nano.scatter_add %x, %ids : (tensor<3x4xf32>, tensor<2xi32>) -> tensor<9x4xf32>
  nano.return %y : tensor<9x4xf32>
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %w: tensor<16xbf16>, %t: tensor<8xi32>, %s: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{factors must be matrices, are [8, 16] and [16]}}
  %e, %sum, %m = nano.exp_matmul %x, %w, %t, %s {columns = 100 : i64} : (tensor<8x16xbf16>, tensor<16xbf16>, tensor<8xi32>, tensor<8xf32>) -> (tensor<8x128xbf16>, tensor<8xf32>, tensor<8xf32>)
  nano.return %sum : tensor<8xf32>
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %w: tensor<128x24xbf16>, %t: tensor<8xi32>, %s: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{factors have rows of different lengths: [8, 16] and [128, 24]}}
  %e, %sum, %m = nano.exp_matmul %x, %w, %t, %s {columns = 100 : i64} : (tensor<8x16xbf16>, tensor<128x24xbf16>, tensor<8xi32>, tensor<8xf32>) -> (tensor<8x128xbf16>, tensor<8xf32>, tensor<8xf32>)
  nano.return %sum : tensor<8xf32>
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %w: tensor<128x16xbf16>, %t: tensor<8xi32>, %s: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{has 0 columns of a product with 128}}
  %e, %sum, %m = nano.exp_matmul %x, %w, %t, %s {columns = 0 : i64} : (tensor<8x16xbf16>, tensor<128x16xbf16>, tensor<8xi32>, tensor<8xf32>) -> (tensor<8x128xbf16>, tensor<8xf32>, tensor<8xf32>)
  nano.return %sum : tensor<8xf32>
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %w: tensor<128x16xbf16>, %t: tensor<8xi32>, %s: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{has 129 columns of a product with 128}}
  %e, %sum, %m = nano.exp_matmul %x, %w, %t, %s {columns = 129 : i64} : (tensor<8x16xbf16>, tensor<128x16xbf16>, tensor<8xi32>, tensor<8xf32>) -> (tensor<8x128xbf16>, tensor<8xf32>, tensor<8xf32>)
  nano.return %sum : tensor<8xf32>
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %w: tensor<128x16xbf16>, %t: tensor<8xi32>, %s: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{shape of e and [tokens, columns] differ: [8, 100] and [8, 128]}}
  %e, %sum, %m = nano.exp_matmul %x, %w, %t, %s {columns = 100 : i64} : (tensor<8x16xbf16>, tensor<128x16xbf16>, tensor<8xi32>, tensor<8xf32>) -> (tensor<8x100xbf16>, tensor<8xf32>, tensor<8xf32>)
  nano.return %sum : tensor<8xf32>
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %w: tensor<128x16xbf16>, %t: tensor<8xi32>, %s: tensor<9xf32>) -> tensor<8xf32> {
  // expected-error @below {{shape of a number a row and [tokens] differ: [9] and [8]}}
  %e, %sum, %m = nano.exp_matmul %x, %w, %t, %s {columns = 100 : i64} : (tensor<8x16xbf16>, tensor<128x16xbf16>, tensor<8xi32>, tensor<9xf32>) -> (tensor<8x128xbf16>, tensor<8xf32>, tensor<8xf32>)
  nano.return %sum : tensor<8xf32>
}

// -----

nano.program @f(%logits: tensor<4xf32>, %targets: tensor<4xi32>) -> tensor<4xf32> {
  // expected-error @below {{logits must be [tokens, vocabulary], are [4]}}
  %loss, %lse = nano.cross_entropy %logits, %targets : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>)
  nano.return %loss : tensor<4xf32>
}

// -----

nano.program @f(%logits: tensor<4x9xf32>, %targets: tensor<5xi32>) -> tensor<4xf32> {
  // expected-error @below {{shape of targets, loss or lse and [tokens] differ: [5] and [4]}}
  %loss, %lse = nano.cross_entropy %logits, %targets : (tensor<4x9xf32>, tensor<5xi32>) -> (tensor<4xf32>, tensor<4xf32>)
  nano.return %loss : tensor<4xf32>
}

// -----

nano.program @parts(%x: tensor<8x4xf32>) {
  // expected-error @below {{of 4 parts: 'tensor<4x4xf32>' is not one of 'tensor<8x4xf32>'}}
  %0 = nano.reduce_scatter %x parts 4 : (tensor<8x4xf32>) -> tensor<4x4xf32>
  nano.return
}

// -----

nano.program @parts(%x: tensor<8x4xf32>) {
  // expected-error @below {{of 2 parts: 'tensor<8x4xf32>' is not one of 'tensor<8x8xf32>'}}
  %0 = nano.all_gather %x parts 2 : (tensor<8x4xf32>) -> tensor<8x8xf32>
  nano.return
}

// -----

nano.program @parts(%x: tensor<8x4xf32>) {
  // expected-error @below {{of 2 parts: 'tensor<4x4xbf16>' is not one of 'tensor<8x4xf32>'}}
  %0 = nano.shard %x parts 2 : (tensor<8x4xf32>) -> tensor<4x4xbf16>
  nano.return
}

// -----

nano.program @parts(%x: tensor<f32>) {
  // expected-error @below {{of 0 parts: 'tensor<f32>' is not one of 'tensor<f32>'}}
  %0 = nano.shard %x parts 0 : (tensor<f32>) -> tensor<f32>
  nano.return
}

// -----

nano.program @f(%x: tensor<2xf32>) -> tensor<2xi16> {
  // expected-error @below {{has no bits of 'f32' for 'i16': pairs are f32 and i32, bf16 and i16}}
  %y = nano.bitcast %x : tensor<2xf32> -> tensor<2xi16>
  nano.return %y : tensor<2xi16>
}

// -----

nano.program @f(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  // expected-error @below {{order [1, 1] does not name each dimension of [2, 3] once}}
  %y = nano.permute %x order [1, 1] : tensor<2x3xf32> -> tensor<3x2xf32>
  nano.return %y : tensor<3x2xf32>
}

// -----

nano.program @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // expected-error @below {{result must be 'tensor<3x2xf32>', is 'tensor<2x3xf32>'}}
  %y = nano.permute %x order [1, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  nano.return %y : tensor<2x3xf32>
}

// -----

// Where an op has no value for an element of its results, it is of something.
nano.program @f(%x: tensor<4x0xf32>) -> tensor<4xf32> {
  // expected-error @below {{a maximum or log-sum-exp of nothing, in [4, 0]}}
  %y = nano.reduce max %x dims [1] : tensor<4x0xf32> -> tensor<4xf32>
  nano.return %y : tensor<4xf32>
}

// -----

nano.program @f(%x: tensor<0x4x0xf32>) -> tensor<0x4xf32> {
  %y = nano.reduce max %x dims [2] : tensor<0x4x0xf32> -> tensor<0x4xf32>
  nano.return %y : tensor<0x4xf32>
}

// -----

nano.program @f(%x: tensor<0x4xf32>, %ids: tensor<3xi32>) -> tensor<3x4xf32> {
  // expected-error @below {{has 3 ids of a table with no rows}}
  %y = nano.gather %x, %ids : (tensor<0x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
  nano.return %y : tensor<3x4xf32>
}

// -----

nano.program @f(%x: tensor<3x0xf32>, %t: tensor<3xi32>) -> tensor<3xf32> {
  // expected-error @below {{has no columns that a target could be: [3, 0]}}
  %y, %lse = nano.cross_entropy %x, %t : (tensor<3x0xf32>, tensor<3xi32>) -> (tensor<3xf32>, tensor<3xf32>)
  nano.return %y : tensor<3xf32>
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %w: tensor<32x16xbf16>, %e: tensor<3xi32>) {
  // expected-error @below {{needs rows of two dimensions, matrices of three and ends of one: [8, 16], [32, 16], [8, 32], [3]}}
  %y = nano.grouped_matmul %x, %w, %e {transpose} : (tensor<8x16xbf16>, tensor<32x16xbf16>, tensor<3xi32>) -> tensor<8x32xbf16>
  nano.return
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %w: tensor<3x32x16xf32>, %e: tensor<3xi32>) {
  // expected-error @below {{operand types differ: 'bf16' and 'f32'}}
  %y = nano.grouped_matmul %x, %w, %e {transpose} : (tensor<8x16xbf16>, tensor<3x32x16xf32>, tensor<3xi32>) -> tensor<8x32xbf16>
  nano.return
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %w: tensor<0x32x16xbf16>, %e: tensor<0xi32>) {
  // expected-error @below {{has no group}}
  %y = nano.grouped_matmul %x, %w, %e {transpose} : (tensor<8x16xbf16>, tensor<0x32x16xbf16>, tensor<0xi32>) -> tensor<8x32xbf16>
  nano.return
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %w: tensor<3x32x16xbf16>, %e: tensor<3xi32>) {
  // expected-error @below {{has 8 rows and 9}}
  %y = nano.grouped_matmul %x, %w, %e {transpose} : (tensor<8x16xbf16>, tensor<3x32x16xbf16>, tensor<3xi32>) -> tensor<9x32xbf16>
  nano.return
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %w: tensor<3x32x16xbf16>, %e: tensor<3xi32>) {
  // expected-error @below {{shape of the matrices and that of the rows and groups differ: [3, 32, 16] and [3, 16, 32]}}
  %y = nano.grouped_matmul %x, %w, %e : (tensor<8x16xbf16>, tensor<3x32x16xbf16>, tensor<3xi32>) -> tensor<8x32xbf16>
  nano.return
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %b: tensor<8x32xf32>, %e: tensor<3xi32>) {
  // expected-error @below {{operand types differ: 'bf16' and 'f32'}}
  %w = nano.grouped_outer %x, %b, %e : (tensor<8x16xbf16>, tensor<8x32xf32>, tensor<3xi32>) -> tensor<3x16x32xf32>
  nano.return
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %b: tensor<7x32xbf16>, %e: tensor<3xi32>) {
  // expected-error @below {{has 8 rows and 7}}
  %w = nano.grouped_outer %x, %b, %e : (tensor<8x16xbf16>, tensor<7x32xbf16>, tensor<3xi32>) -> tensor<3x16x32xf32>
  nano.return
}

// -----

nano.program @f(%x: tensor<8x16xbf16>, %b: tensor<8x32xbf16>, %e: tensor<3xi32>) {
  // expected-error @below {{shape of the matrices and that of the rows and groups differ: [2, 16, 32] and [3, 16, 32]}}
  %w = nano.grouped_outer %x, %b, %e : (tensor<8x16xbf16>, tensor<8x32xbf16>, tensor<3xi32>) -> tensor<2x16x32xf32>
  nano.return
}
