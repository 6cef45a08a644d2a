// RUN: nano-opt %s -nano-check-indices=report -split-input-file -verify-diagnostics

// The range that each op gives: told of a gather from a table of two thousand rows.
module {
  nano.model "m" {training = {vocab_size = 257 : i64}}
  nano.scalar @window : i32 {
  ^bb0(%step: f64, %iterations: f64, %sequences: f64, %world: f64):
    nano.yield %step : f64
  }
  nano.program @train(%tokens: tensor<128xi32>, %targets: tensor<128xi32>) -> tensor<f32> attributes {role = "train"} {
    %loss = nano.constant 0.0 : tensor<f32>
    %table = nano.constant 1.0 : tensor<2000x4xf32>
    %two = nano.constant 2.0 : tensor<128xi32>
    %seven = nano.constant 7.0 : tensor<128xi32>
    %block = nano.constant 48.0 : tensor<128xi32>
    %t = nano.iota 0 : tensor<128xi32>

    // expected-remark @below {{gather: its indices, 0 to 256, lie in its 2000 rows: nothing is checked}}
    %g0 = nano.gather %table, %targets : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    // expected-remark @below {{its indices, 7, lie in}}
    %g1 = nano.gather %table, %seven : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %sum = nano.add %tokens, %t : tensor<128xi32>
    // expected-remark @below {{its indices, 0 to 383, lie in}}
    %g2 = nano.gather %table, %sum : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %difference = nano.sub %tokens, %t : tensor<128xi32>
    // expected-remark @below {{its indices, -127 to 256, may lie outside of}}
    %g3 = nano.gather %table, %difference : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %product = nano.mul %difference, %seven : tensor<128xi32>
    %shift = nano.constant 900.0 : tensor<128xi32>
    %shifted = nano.sub %shift, %product : tensor<128xi32>
    // expected-remark @below {{its indices, -892 to 1789, may lie outside of}}
    %g4 = nano.gather %table, %shifted : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>

    // Quotients are rounded down; those by what may be zero are any number.
    %down = nano.div %difference, %two : tensor<128xi32>
    %lifted = nano.add %down, %block : tensor<128xi32>
    %upper = nano.add %lifted, %block : tensor<128xi32>
    // expected-remark @below {{its indices, 32 to 224, lie in}}
    %g5 = nano.gather %table, %upper : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %nothing = nano.div %t, %tokens : tensor<128xi32>
    // expected-remark @below {{its indices, any number, may lie outside of}}
    %g6 = nano.gather %table, %nothing : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>

    // Bounds.
    %largest = nano.max %difference, %seven : tensor<128xi32>
    // expected-remark @below {{its indices, 7 to 256, lie in}}
    %g7 = nano.gather %table, %largest : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %least = nano.min %tokens, %t : tensor<128xi32>
    // expected-remark @below {{its indices, 0 to 127, lie in}}
    %g8 = nano.gather %table, %least : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %zero = nano.constant 0.0 : tensor<128xi32>
    %chosen = nano.select lt, %difference, %zero, %seven, %difference : tensor<128xi32>, tensor<128xi32>
    // expected-remark @below {{its indices, 0 to 256, lie in}}
    %g9 = nano.gather %table, %chosen : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %swapped = nano.select ge, %zero, %difference, %zero, %difference : tensor<128xi32>, tensor<128xi32>
    // expected-remark @below {{its indices, 0 to 256, lie in}}
    %g10 = nano.gather %table, %swapped : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %either = nano.select eq, %tokens, %seven, %two, %tokens : tensor<128xi32>, tensor<128xi32>
    // expected-remark @below {{its indices, 0 to 256, lie in}}
    %g11 = nano.gather %table, %either : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>

    // The remainder, also where the front end has made its parts twice, and in either order.
    %row = nano.div %t, %block : tensor<128xi32>
    %start = nano.mul %row, %block : tensor<128xi32>
    %within = nano.sub %t, %start : tensor<128xi32>
    // expected-remark @below {{its indices, 0 to 47, lie in}}
    %g12 = nano.gather %table, %within : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %again = nano.iota 0 : tensor<128xi32>
    %same = nano.constant 48.0 : tensor<128xi32>
    %turned = nano.mul %same, %row : tensor<128xi32>
    %rest = nano.sub %again, %turned : tensor<128xi32>
    // expected-remark @below {{its indices, 0 to 47, lie in}}
    %g13 = nano.gather %table, %rest : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %hashed = nano.mul %tokens, %shift : tensor<128xi32>
    %wide = nano.mul %hashed, %hashed : tensor<128xi32>
    %bucket = nano.div %wide, %block : tensor<128xi32>
    %buckets = nano.mul %bucket, %block : tensor<128xi32>
    %hash = nano.sub %wide, %buckets : tensor<128xi32>
    // expected-remark @below {{its indices, 0 to 47, lie in}}
    %g14 = nano.gather %table, %hash : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    // What overflows is any number.
    // expected-remark @below {{its indices, any number, may lie outside of}}
    %g15 = nano.gather %table, %wide : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    // No remainder: another factor, another number.
    %other = nano.mul %row, %seven : tensor<128xi32>
    %far = nano.sub %t, %other : tensor<128xi32>
    // expected-remark @below {{its indices, -14 to 127, may lie outside of}}
    %g16 = nano.gather %table, %far : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %mixed = nano.sub %tokens, %start : tensor<128xi32>
    // expected-remark @below {{its indices, -96 to 256, may lie outside of}}
    %g17 = nano.gather %table, %mixed : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>

    // Shapes, scans.
    %both = nano.concat %tokens, %t dim 0 : (tensor<128xi32>, tensor<128xi32>) -> tensor<256xi32>
    // expected-remark @below {{its indices, 0 to 256, lie in}}
    %g18 = nano.gather %table, %both : (tensor<2000x4xf32>, tensor<256xi32>) -> tensor<256x4xf32>
    %part = nano.slice %difference dim 0 at 64 : tensor<128xi32> -> tensor<64xi32>
    // expected-remark @below {{its indices, -127 to 256, may lie outside of}}
    %g19 = nano.gather %table, %part : (tensor<2000x4xf32>, tensor<64xi32>) -> tensor<64x4xf32>
    %running = nano.scan max %difference : tensor<128xi32>
    // expected-remark @below {{its indices, -127 to 256, may lie outside of}}
    %g20 = nano.gather %table, %running : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %is = nano.select eq, %tokens, %seven, %two, %zero : tensor<128xi32>, tensor<128xi32>
    %count = nano.scan sum %is : tensor<128xi32>
    // expected-remark @below {{its indices, 0 to 256, lie in}}
    %g21 = nano.gather %table, %count : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %columns = nano.iota 1 : tensor<2x64xi32>
    %flat = nano.reshape %columns : tensor<2x64xi32> -> tensor<128xi32>
    // expected-remark @below {{its indices, 0 to 63, lie in}}
    %g22 = nano.gather %table, %flat : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %scores = nano.cast %columns : tensor<2x64xi32> -> tensor<2x64xf32>
    %best = nano.argsort %scores : tensor<2x64xf32> -> tensor<2x64xi32>
    %order = nano.reshape %best : tensor<2x64xi32> -> tensor<128xi32>
    // expected-remark @below {{its indices, 0 to 63, lie in}}
    %g25 = nano.gather %table, %order : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>

    // Scalars change from step to step, and floats may be anything.
    %window = nano.load @window : tensor<i32>
    %wider = nano.broadcast %window dims [] : tensor<i32> -> tensor<128xi32>
    // expected-remark @below {{its indices, any number, may lie outside of}}
    %g23 = nano.gather %table, %wider : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %float = nano.cast %t : tensor<128xi32> -> tensor<128xf32>
    %integer = nano.cast %float : tensor<128xf32> -> tensor<128xi32>
    // expected-remark @below {{its indices, any number, may lie outside of}}
    %g24 = nano.gather %table, %integer : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    nano.return %loss : tensor<f32>
  }
}

// -----

// A table has the numbers that it was given; another state may have any.
module {
  nano.model "m" {training = {vocab_size = 257 : i64}}
  nano.state @large : tensor<3xi32> {role = #nano.role<constant>, init = #nano.init<"data", [] data dense<[7, -1, 1999]> : tensor<3xi32>>}
  nano.state @small : tensor<3xi32> {role = #nano.role<constant>, init = #nano.init<"constant", [7.0, 0.0, 12.0]>}
  nano.state @counter : tensor<3xi32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [7.0]>}
  nano.program @train(%tokens: tensor<128xi32>, %targets: tensor<128xi32>) -> tensor<f32> attributes {role = "train"} {
    %loss = nano.constant 0.0 : tensor<f32>
    %table = nano.constant 1.0 : tensor<2000x4xf32>
    %one = nano.constant 1.0 : tensor<3xi32>
    %large = nano.load @large : tensor<3xi32>
    %lifted = nano.add %large, %one : tensor<3xi32>
    %bounded = nano.min %lifted, %large : tensor<3xi32>
    %small = nano.load @small : tensor<3xi32>
    %counter = nano.load @counter : tensor<3xi32>
    // expected-remark @below {{its indices, -1 to 1999, may lie outside of}}
    %g0 = nano.gather %table, %bounded : (tensor<2000x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
    // expected-remark @below {{its indices, 0 to 12, lie in}}
    %g1 = nano.gather %table, %small : (tensor<2000x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
    // expected-remark @below {{its indices, any number, may lie outside of}}
    %g2 = nano.gather %table, %counter : (tensor<2000x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
    nano.return %loss : tensor<f32>
  }
}
