// RUN: nano-opt %s -split-input-file -verify-diagnostics
// What the verifiers of attention and its derivative refuse.

nano.program @f(%q: tensor<8x4xf32>, %k: tensor<8x2x4xf32>, %v: tensor<8x2x4xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>, %x: tensor<f32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{q must be [tokens, heads, head size], is [8, 4]}}
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 1.0
      : (tensor<8x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xf32>, tensor<8x2xf32>)
  nano.return %y : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xbf16>, %v: tensor<8x2x4xbf16>, %first: tensor<8xi32>, %last: tensor<8xi32>, %x: tensor<f32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{k must have q's type but for the number of heads, is 'tensor<8x2x4xbf16>' beside 'tensor<8x2x4xf32>'}}
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xbf16>, tensor<8x2x4xbf16>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xf32>, tensor<8x2xf32>)
  nano.return %y : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xf32>, %v: tensor<8x2x5xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>, %x: tensor<f32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{has values of 5 elements a head and results of 4}}
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x5xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xf32>, tensor<8x2xf32>)
  nano.return %y : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xf32>, %v: tensor<8x1x5xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>) -> tensor<8x2x5xf32> {
  // expected-error @below {{v must have the type of k but for the size of a head, is 'tensor<8x1x5xf32>' beside 'tensor<8x2x4xf32>'}}
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x1x5xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x5xf32>, tensor<8x2xf32>)
  nano.return %y : tensor<8x2x5xf32>
}

// -----

nano.program @f(%q: tensor<8x4x4xf32>, %k: tensor<8x3x4xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>) -> tensor<8x4x4xf32> {
  // expected-error @below {{has 4 heads of queries, which its 3 heads of keys and values do not divide}}
  %y, %lse = nano.attention %q, %k, %k, %first, %last scale 1.0
      : (tensor<8x4x4xf32>, tensor<8x3x4xf32>, tensor<8x3x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x4x4xf32>, tensor<8x4xf32>)
  nano.return %y : tensor<8x4x4xf32>
}

// -----

nano.program @f(%q: tensor<8x4x4xf32>, %k: tensor<7x2x4xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>) -> tensor<8x4x4xf32> {
  // expected-error @below {{k must have q's type but for the number of heads, is 'tensor<7x2x4xf32>' beside 'tensor<8x4x4xf32>'}}
  %y, %lse = nano.attention %q, %k, %k, %first, %last scale 1.0
      : (tensor<8x4x4xf32>, tensor<7x2x4xf32>, tensor<7x2x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x4x4xf32>, tensor<8x4xf32>)
  nano.return %y : tensor<8x4x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xf32>, %v: tensor<8x2x4xf32>, %first: tensor<8xi32>, %last: tensor<7xi32>, %x: tensor<f32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{shape of a key range and [tokens] differ: [7] and [8]}}
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<7xi32>) -> (tensor<8x2x4xf32>, tensor<8x2xf32>)
  nano.return %y : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xf32>, %v: tensor<8x2x4xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>, %x: tensor<f32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{shape of the statistics and [tokens, heads] differ: [8, 3] and [8, 2]}}
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xf32>, tensor<8x3xf32>)
  nano.return %y : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xf32>, %v: tensor<8x2x4xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>, %x: tensor<f32>) -> tensor<8x2x4xbf16> {
  // expected-error @below {{y must have the type of q but for the size of a head, is 'tensor<8x2x4xbf16>' beside 'tensor<8x2x4xf32>'}}
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xbf16>, tensor<8x2xf32>)
  nano.return %y : tensor<8x2x4xbf16>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xf32>, %v: tensor<8x2x4xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>, %x: tensor<f32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{score region must take (f32 score, i32 query, i32 key, i32 head) as rank-0 tensors}}
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xf32>, tensor<8x2xf32>) {
  ^bb0(%s: tensor<f32>):
    nano.yield %s : tensor<f32>
  }
  nano.return %y : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xf32>, %v: tensor<8x2x4xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>, %x: tensor<f32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{score region must yield one rank-0 f32 tensor}}
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xf32>, tensor<8x2xf32>) {
  ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
    nano.yield %query : tensor<i32>
  }
  nano.return %y : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xf32>, %v: tensor<8x2x4xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>, %x: tensor<f32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{score region must yield one rank-0 f32 tensor}}
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xf32>, tensor<8x2xf32>) {
  ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
    llvm.unreachable
  }
  nano.return %y : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xf32>, %v: tensor<8x2x4xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>, %x: tensor<f32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{score region holds nano.all_reduce, which is not element-wise}}
  %y, %lse = nano.attention %q, %k, %v, %first, %last scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xf32>, tensor<8x2xf32>) {
  ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
    %sum = nano.all_reduce %s : tensor<f32>
    nano.yield %sum : tensor<f32>
  }
  nano.return %y : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %range: tensor<8xi32>, %x: tensor<f32>) -> tensor<8x2x4xf32> {
  // expected-note @below {{required by region isolation constraints}}
  %y, %lse = nano.attention %q, %q, %q, %range, %range scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xf32>, tensor<8x2xf32>) {
  ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
    // expected-error @below {{using value defined outside the region}}
    %t = nano.mul %s, %x : tensor<f32>
    nano.yield %t : tensor<f32>
  }
  nano.return %y : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %range: tensor<8xi32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{empty block: expect at least a terminator}}
  %y, %lse = nano.attention %q, %q, %q, %range, %range scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x4xf32>, tensor<8x2xf32>) {
  ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
  }
  nano.return %y : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xbf16>, %v: tensor<8x2x4xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>, %lse: tensor<8x2xf32>, %delta: tensor<8x2xf32>, %dy: tensor<8x2x4xf32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{k must have q's type but for the number of heads, is 'tensor<8x2x4xbf16>' beside 'tensor<8x2x4xf32>'}}
  %dq, %dk, %dv = nano.attention_grad %q, %k, %v, %first, %last, %lse, %delta, %dy scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xbf16>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>, tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x2x4xf32>) -> (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>)
  nano.return %dq : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xf32>, %v: tensor<8x2x4xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>, %lse: tensor<8x2xf32>, %delta: tensor<8x3xf32>, %dy: tensor<8x2x4xf32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{types of lse and delta differ: 'tensor<8x2xf32>' and 'tensor<8x3xf32>'}}
  %dq, %dk, %dv = nano.attention_grad %q, %k, %v, %first, %last, %lse, %delta, %dy scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>, tensor<8x2xf32>, tensor<8x3xf32>, tensor<8x2x4xf32>) -> (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>)
  nano.return %dq : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xf32>, %v: tensor<8x2x4xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>, %lse: tensor<8x2xf32>, %delta: tensor<8x2xf32>, %dy: tensor<8x2x4xbf16>) -> tensor<8x2x4xf32> {
  // expected-error @below {{dy must have the type of q but for the size of a head, is 'tensor<8x2x4xbf16>' beside 'tensor<8x2x4xf32>'}}
  %dq, %dk, %dv = nano.attention_grad %q, %k, %v, %first, %last, %lse, %delta, %dy scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>, tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x2x4xbf16>) -> (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>)
  nano.return %dq : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xf32>, %v: tensor<8x2x4xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>, %lse: tensor<8x2xf32>, %delta: tensor<8x2xf32>, %dy: tensor<8x2x4xf32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{types of v and its gradient differ: 'tensor<8x2x4xf32>' and 'tensor<8x2x5xf32>'}}
  %dq, %dk, %dv = nano.attention_grad %q, %k, %v, %first, %last, %lse, %delta, %dy scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>, tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x2x4xf32>) -> (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x5xf32>)
  nano.return %dq : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xf32>, %v: tensor<8x2x4xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>, %lse: tensor<8x2xf32>, %delta: tensor<8x2xf32>, %dy: tensor<8x2x4xf32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{needs both the score region and its derivative, or neither}}
  %dq, %dk, %dv = nano.attention_grad %q, %k, %v, %first, %last, %lse, %delta, %dy scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>, tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x2x4xf32>) -> (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>)
  score {
  ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
    nano.yield %s : tensor<f32>
  } grad {
  }
  nano.return %dq : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x4xf32>, %k: tensor<8x2x4xf32>, %v: tensor<8x2x4xf32>, %first: tensor<8xi32>, %last: tensor<8xi32>, %lse: tensor<8x2xf32>, %delta: tensor<8x2xf32>, %dy: tensor<8x2x4xf32>) -> tensor<8x2x4xf32> {
  // expected-error @below {{score region must take (f32 score, i32 query, i32 key, i32 head, f32 gradient) as rank-0 tensors}}
  %dq, %dk, %dv = nano.attention_grad %q, %k, %v, %first, %last, %lse, %delta, %dy scale 1.0
      : (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8xi32>, tensor<8xi32>, tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x2x4xf32>) -> (tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>)
  score {
  ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
    nano.yield %s : tensor<f32>
  } grad {
  ^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: tensor<i32>):
    nano.yield %s : tensor<f32>
  }
  nano.return %dq : tensor<8x2x4xf32>
}

// -----

nano.program @f(%q: tensor<8x2x0xf32>, %r: tensor<8xi32>) -> tensor<8x2x0xf32> {
  // expected-error @below {{needs a head at least, of an element at least, has q of [8, 2, 0]}}
  %y, %lse = nano.attention %q, %q, %q, %r, %r scale 1.0
      : (tensor<8x2x0xf32>, tensor<8x2x0xf32>, tensor<8x2x0xf32>, tensor<8xi32>, tensor<8xi32>) -> (tensor<8x2x0xf32>, tensor<8x2xf32>)
  nano.return %y : tensor<8x2x0xf32>
}
