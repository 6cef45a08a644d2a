// Random numbers that depend on what they are for, and on nothing that was drawn before.
#ifndef NANO_IR_GRAPH_RANDOM_OPS_TD
#define NANO_IR_GRAPH_RANDOM_OPS_TD

include "ir/graph/NanoDialect.td"

def Nano_PhiloxOp : Nano_Op<"philox", [Pure, SameOperandsAndResultType, Nano_Elementwise, Nano_NotDifferentiable]> {
  let summary = "random bits of a counter and a key";
  let description = [{
    y = word (c₀ mod 4) of Philox 4x32-10 of the counter (⌊c₀/4⌋, c₁, c₂, c₃) and the key (k₀, k₁), all unsigned: 32 bits that look independent for
    every other counter or key (Salmon et al. 2011). Four neighbours along c₀ share their computation. Being a function of its operands, it is computed
    anew wherever it is needed, in the backward pass too, and kept nowhere.

    Operands: `c0` … `c3`, `k0`, `k1`, i32, all of the result's type.

    Errors: another element type; types that differ.

    Example:

    ```mlir
    nano.program @example(%column: tensor<4x8xi32>, %row: tensor<4x8xi32>, %sequence: tensor<4x8xi32>, %use: tensor<4x8xi32>,
                       %low: tensor<4x8xi32>, %high: tensor<4x8xi32>) -> tensor<4x8xi32> {
      %bits = nano.philox counter(%column, %row, %sequence, %use) key(%low, %high) : tensor<4x8xi32>
      nano.return %bits : tensor<4x8xi32>
    }
    ```
  }];
  let arguments = (ins Nano_I32Tensor:$c0, Nano_I32Tensor:$c1, Nano_I32Tensor:$c2, Nano_I32Tensor:$c3, Nano_I32Tensor:$k0,
                       Nano_I32Tensor:$k1);
  let results = (outs Nano_I32Tensor:$result);
  let assemblyFormat = [{
    `counter` `(` $c0 `,` $c1 `,` $c2 `,` $c3 `)` `key` `(` $k0 `,` $k1 `)` attr-dict `:` type($result)
  }];
}

def Nano_NormalOp : Nano_Op<"normal", [Pure, Nano_Elementwise, Nano_NotDifferentiable, SameTypeOperands,
    SameOperandsAndResultShape]> {
  let summary = "numbers of the standard normal distribution of random bits";
  let description = [{
    y = √(−2·ln(1 − ⌊r/2⁸⌋/2²⁴))·cos(2π·⌊a/2⁸⌋/2²⁴), or sin in place of cos where side ≠ 0; r and a unsigned (Box and Muller 1958). Both sides of one
    r and a are independent, and share their computation where they are neighbours.

    Operands: `radius` (r), `angle` (a) and `side`, i32; the result is f32.

    Errors: another element type; shapes that differ.

    Example:

    ```mlir
    nano.program @example(%radius: tensor<4x8xi32>, %angle: tensor<4x8xi32>, %side: tensor<4x8xi32>) -> tensor<4x8xf32> {
      %y = nano.normal %radius, %angle, %side : tensor<4x8xi32> -> tensor<4x8xf32>
      nano.return %y : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Nano_I32Tensor:$radius, Nano_I32Tensor:$angle, Nano_I32Tensor:$side);
  let results = (outs Nano_F32Tensor:$result);
  let assemblyFormat = "$radius `,` $angle `,` $side attr-dict `:` type($radius) `->` type($result)";
}

#endif // NANO_IR_GRAPH_RANDOM_OPS_TD
