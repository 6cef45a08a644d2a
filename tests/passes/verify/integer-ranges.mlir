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

    // Scalars change from step to step, and floats may be anything where they are no integers.
    %window = nano.load @window : tensor<i32>
    %wider = nano.broadcast %window dims [] : tensor<i32> -> tensor<128xi32>
    // expected-remark @below {{its indices, any number, may lie outside of}}
    %g23 = nano.gather %table, %wider : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    %float = nano.cast %t : tensor<128xi32> -> tensor<128xf32>
    %root = nano.sqrt %float : tensor<128xf32>
    %integer = nano.cast %root : tensor<128xf32> -> tensor<128xi32>
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

// -----

// Integers that f32 hold: the column of a row's largest number, whatever that is; looked up; in halves.
// Not what f32 round, what divides, nor numbers that nobody knows.
module {
  nano.model "m" {training = {vocab_size = 257 : i64}}
  nano.program @train(%tokens: tensor<128xi32>, %targets: tensor<128xi32>, %scores: tensor<128x10xf32>) -> tensor<f32> attributes {role = "train"} {
    %loss = nano.constant 0.0 : tensor<f32>
    %table = nano.constant 1.0 : tensor<2000x4xf32>
    %best = nano.reduce max %scores dims [1] : tensor<128x10xf32> -> tensor<128xf32>
    %each = nano.broadcast %best dims [0] : tensor<128xf32> -> tensor<128x10xf32>
    %columns = nano.iota 1 : tensor<128x10xf32>
    %ten = nano.constant 10.0 : tensor<128x10xf32>
    %one = nano.constant 1.0 : tensor<128x10xf32>
    %behind = nano.sub %ten, %columns : tensor<128x10xf32>
    %ofNaN = nano.select eq, %scores, %scores, %one, %behind : tensor<128x10xf32>, tensor<128x10xf32>
    %candidates = nano.select eq, %scores, %each, %behind, %ofNaN : tensor<128x10xf32>, tensor<128x10xf32>
    %most = nano.reduce max %candidates dims [1] : tensor<128x10xf32> -> tensor<128xf32>
    %tens = nano.constant 10.0 : tensor<128xf32>
    %column = nano.sub %tens, %most : tensor<128xf32>
    %which = nano.cast %column : tensor<128xf32> -> tensor<128xi32>
    // expected-remark @below {{its indices, 0 to 9, lie in}}
    %g0 = nano.gather %table, %which : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>

    %sixteen = nano.constant 16.0 : tensor<128x1xi32>
    %mask = nano.constant 65535.0 : tensor<128x1xi32>
    %wide = nano.reshape %tokens : tensor<128xi32> -> tensor<128x1xi32>
    %high = nano.shr %wide, %sixteen : tensor<128x1xi32>
    %low = nano.and %wide, %mask : tensor<128x1xi32>
    %highs = nano.cast %high : tensor<128x1xi32> -> tensor<128x1xf32>
    %lows = nano.cast %low : tensor<128x1xi32> -> tensor<128x1xf32>
    // expected-remark @below {{its indices, 0 to 9, lie in its 128 rows}}
    %upper = nano.gather %highs, %which : (tensor<128x1xf32>, tensor<128xi32>) -> tensor<128x1xf32>
    // expected-remark @below {{its indices, 0 to 9, lie in its 128 rows}}
    %lower = nano.gather %lows, %which : (tensor<128x1xf32>, tensor<128xi32>) -> tensor<128x1xf32>
    %uppers = nano.cast %upper : tensor<128x1xf32> -> tensor<128x1xi32>
    %lowers = nano.cast %lower : tensor<128x1xf32> -> tensor<128x1xi32>
    %moved = nano.shl %uppers, %sixteen : tensor<128x1xi32>
    %both = nano.or %moved, %lowers : tensor<128x1xi32>
    %found = nano.reshape %both : tensor<128x1xi32> -> tensor<128xi32>
    // expected-remark @below {{its indices, 0 to 256, lie in}}
    %g1 = nano.gather %table, %found : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>

    %large = nano.constant 20000000.0 : tensor<128xf32>
    %rounded = nano.add %column, %large : tensor<128xf32>
    %a = nano.sub %rounded, %large : tensor<128xf32>
    %part = nano.div %column, %tens : tensor<128xf32>
    %whole = nano.mul %part, %tens : tensor<128xf32>
    %b = nano.sub %column, %whole : tensor<128xf32>
    %ai = nano.cast %a : tensor<128xf32> -> tensor<128xi32>
    %bi = nano.cast %b : tensor<128xf32> -> tensor<128xi32>
    %ci = nano.cast %best : tensor<128xf32> -> tensor<128xi32>
    // expected-remark @below {{its indices, any number, may lie outside of}}
    %g2 = nano.gather %table, %ai : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    // expected-remark @below {{its indices, any number, may lie outside of}}
    %g3 = nano.gather %table, %bi : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    // expected-remark @below {{its indices, any number, may lie outside of}}
    %g4 = nano.gather %table, %ci : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>

    // A row that may not be the table's may be anything.
    %narrow = nano.slice %lows dim 0 at 0 : tensor<128x1xf32> -> tensor<64x1xf32>
    // expected-remark @below {{may lie outside of its 64 rows}}
    %unsure = nano.gather %narrow, %tokens : (tensor<64x1xf32>, tensor<128xi32>) -> tensor<128x1xf32>
    %d = nano.reshape %unsure : tensor<128x1xf32> -> tensor<128xf32>
    %di = nano.cast %d : tensor<128xf32> -> tensor<128xi32>
    // expected-remark @below {{its indices, any number, may lie outside of}}
    %g5 = nano.gather %table, %di : (tensor<2000x4xf32>, tensor<128xi32>) -> tensor<128x4xf32>
    nano.return %loss : tensor<f32>
  }
}
