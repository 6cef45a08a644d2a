// RUN: nano-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{sign initial value needs one number, has 2}}
nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"sign", [1.0, 2.0]>}

// -----

// expected-error @below {{copy initial value needs a source}}
nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"copy", []>}

// -----

// expected-error @below {{sign initial value has a source}}
nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"sign", [1.0] of @v>}

// -----

// expected-error @below {{copy initial value needs no number, has 1}}
nano.state @w : tensor<2xf32> {role = #nano.role<parameter>, init = #nano.init<"copy", [1.0] of @v>}

// -----

// expected-error @below {{data initial value needs data}}
nano.state @t : tensor<2xf32> {role = #nano.role<constant>, init = #nano.init<"data", []>}

// -----

// expected-error @below {{data initial value holds a number that is not finite}}
nano.state @t : tensor<2xf32> {role = #nano.role<constant>, init = #nano.init<"data", [] data dense<[0.0, 0x7F800000]> : tensor<2xf32>>}

// -----

// expected-error @below {{initial value has data of 'tensor<2xf32>'}}
nano.state @t : tensor<2xbf16> {role = #nano.role<constant>, init = #nano.init<"data", [] data dense<[0.0, 1.0]> : tensor<2xf32>>}

// -----

// expected-error @below {{blocks initial value needs as many parts as numbers, has 1 and 2}}
nano.state @w : tensor<4xf32> {role = #nano.role<parameter>, init = #nano.init<"blocks", [2.0, 2.0] parts [#nano.init<"sign", [1.0]>]>}

// -----

// expected-error @below {{blocks initial value has a part of 1.5 elements}}
nano.state @w : tensor<4xf32> {role = #nano.role<parameter>, init = #nano.init<"blocks", [1.5] parts [#nano.init<"sign", [1.0]>]>}

// -----

// expected-error @below {{blocks initial value has a part that is not one number or a kind of random ones}}
nano.state @w : tensor<4xf32> {role = #nano.role<parameter>, init = #nano.init<"blocks", [4.0] parts [#nano.init<"copy", [] of @v>]>}

// -----

// expected-error @below {{the parts of the initial value have 3 elements, must have 4}}
nano.state @w : tensor<4xf32> {role = #nano.role<parameter>, init = #nano.init<"blocks", [3.0] parts [#nano.init<"sign", [1.0]>]>}

// -----

// expected-error @below {{starts as a copy: no state named @v}}
nano.state @w : tensor<4xf32> {role = #nano.role<parameter>, init = #nano.init<"copy", [] of @v>}

// -----

// expected-error @below {{starts as a copy of itself}}
nano.state @w : tensor<4xf32> {role = #nano.role<parameter>, init = #nano.init<"copy", [] of @v>}
nano.state @v : tensor<4xf32> {role = #nano.role<parameter>, init = #nano.init<"copy", [] of @w>}

// -----

// expected-error @below {{of shape [3, 2] starts as a copy of shape [2, 3]}}
nano.state @w : tensor<3x2xf32> {role = #nano.role<parameter>, init = #nano.init<"copy", [] of @v>}
nano.state @v : tensor<2x3xf32> {role = #nano.role<parameter>, init = #nano.init<"sign", [1.0]>}

// -----

// expected-error @below {{starts as the transpose of @v, whose shape is [3]}}
nano.state @w : tensor<3xf32> {role = #nano.role<parameter>, init = #nano.init<"transpose", [] of @v>}
nano.state @v : tensor<3xf32> {role = #nano.role<parameter>, init = #nano.init<"sign", [1.0]>}

// -----

// expected-error @below {{starts as a copy of @v, which is no parameter, constant or state of the model}}
nano.state @w : tensor<3xf32> {role = #nano.role<parameter>, init = #nano.init<"copy", [] of @v>}
nano.state @v : tensor<3xf32> {role = #nano.role<gradient>, init = #nano.init<"constant", [0.0]>}

// -----

// expected-error @below {{over_ranks is "sum", must be "equal", "mean", "max" or "each"}}
nano.state @s : tensor<3xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>, over_ranks = "sum"}

// -----

// expected-error @below {{over_ranks: of role parameter, which the training program does not write}}
nano.state @s : tensor<3xf32> {role = #nano.role<parameter>, init = #nano.init<"constant", [0.0]>, over_ranks = "mean"}

// -----

nano.program @f(%x: tensor<4xi32>) {
  // expected-error @below {{operand #0 must be}}
  %y = nano.stop_gradient %x : tensor<4xi32>
  nano.return
}

// -----

// expected-error @below {{has no elements: 'tensor<4x0xf32>'}}
nano.state @s : tensor<4x0xf32> {role = #nano.role<optimizer>, init = #nano.init<"constant", [0.0]>}
