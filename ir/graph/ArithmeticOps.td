// Element-wise functions of two numbers.
#ifndef NANO_IR_GRAPH_ARITHMETIC_OPS_TD
#define NANO_IR_GRAPH_ARITHMETIC_OPS_TD

include "ir/graph/NanoDialect.td"

class Nano_BinaryOp<string mnemonic, string what, string equation, string details = "", list<Trait> traits = []>
    : Nano_Op<mnemonic, [Pure, SameOperandsAndResultType, Nano_Elementwise,
                         DeclareOpInterfaceMethods<Nano_DifferentiableOp>] # traits> {
  let summary = "element-wise " # what;
  let description = [{
    }] # equation # [{, on floats computed in f32 and rounded once to the operands' type, on i32 exact and wrapping.}] # details # [{

    Operands: `lhs` (a) and `rhs` (b), f32, bf16 or i32, both of the result's type: nothing is broadcast or converted implicitly.

    Errors: another element type; types that differ.

    Example:

    ```mlir
    nano.program @example(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %y = nano.}] # mnemonic # [{ %a, %b : tensor<4x8xf32>
      nano.return %y : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Nano_NumberTensor:$lhs, Nano_NumberTensor:$rhs);
  let results = (outs Nano_NumberTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Nano_AddOp : Nano_BinaryOp<"add", "sum", "y = a + b", "", [Commutative]> { let hasFolder = 1; }
def Nano_SubOp : Nano_BinaryOp<"sub", "difference", "y = a − b"> { let hasFolder = 1; }
def Nano_MulOp : Nano_BinaryOp<"mul", "product", "y = a·b", "", [Commutative]> { let hasFolder = 1; }
def Nano_DivOp : Nano_BinaryOp<"div", "quotient", "y = a/b", " i32 quotients are rounded down; b must not be zero.">
  { let hasFolder = 1; }
def Nano_MaxOp : Nano_BinaryOp<"max", "maximum", "y = a where a > b, else b",
    " NaN where either is NaN. The derivative flows to the larger; where both are equal, to b, so that max(x, 0) has slope 0 at 0.">;
def Nano_MinOp : Nano_BinaryOp<"min", "minimum", "y = a where a < b, else b",
    " NaN where either is NaN. The derivative flows to the smaller; where both are equal, to b.">;

/// A function of two integers, of which the interpreter and the tests know by `IntegerFunctionInterface`.
class Nano_IntegerOp<string mnemonic, string what, string equation, string meaning, list<Trait> traits = []>
    : Nano_Op<mnemonic, [Pure, SameOperandsAndResultType, Nano_Elementwise, Nano_NotDifferentiable,
                         DeclareOpInterfaceMethods<Nano_IntegerFunction>] # traits> {
  let summary = "element-wise " # what # " of integers";
  let description = [{
    }] # equation # [{.

    Operands: `lhs` (a) and `rhs` (b), i32, both of the result's type.

    Errors: another element type; types that differ.

    Example:

    ```mlir
    nano.program @example(%a: tensor<4x8xi32>, %b: tensor<4x8xi32>) -> tensor<4x8xi32> {
      %y = nano.}] # mnemonic # [{ %a, %b : tensor<4x8xi32>
      nano.return %y : tensor<4x8xi32>
    }
    ```
  }];
  let arguments = (ins Nano_I32Tensor:$lhs, Nano_I32Tensor:$rhs);
  let results = (outs Nano_I32Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
  let extraClassDefinition = [{
    int32_t $cppClass::evaluate(int32_t a, int32_t b) { return }] # meaning # [{; }
  }];
}

def Nano_RemOp : Nano_IntegerOp<"rem", "remainder", "y = a − b·⌊a/b⌋, of b's sign or 0; b must not be 0",
    "b == 0 ? a : int32_t((int64_t(a) % b + b) % b)">;
def Nano_AndOp : Nano_IntegerOp<"and", "conjunction of bits", "y = a ∧ b, bit by bit", "a & b", [Commutative]>;
def Nano_OrOp : Nano_IntegerOp<"or", "disjunction of bits", "y = a ∨ b, bit by bit", "a | b", [Commutative]>;
def Nano_XorOp : Nano_IntegerOp<"xor", "exclusive disjunction of bits", "y = a ⊕ b, bit by bit: those of one of them", "a ^ b", [Commutative]>;
def Nano_ShlOp : Nano_IntegerOp<"shl", "shift to the left", "y = a·2ⁿ, wrapping; n = b mod 32", "int32_t(uint32_t(a) << (b & 31))">;
def Nano_ShrOp : Nano_IntegerOp<"shr", "logical shift to the right",
    "y = ⌊a/2ⁿ⌋ of a's bits as an unsigned number: zeros come in from the left; n = b mod 32", "int32_t(uint32_t(a) >> (b & 31))">;

#endif // NANO_IR_GRAPH_ARITHMETIC_OPS_TD
