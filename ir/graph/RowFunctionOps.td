// Functions of rows: each row of the result is computed from the same row of the operand, all of it.
#ifndef NANO_IR_GRAPH_ROW_FUNCTION_OPS_TD
#define NANO_IR_GRAPH_ROW_FUNCTION_OPS_TD

include "ir/graph/NanoDialect.td"

/// A function of a row of floats, whose result is as long. Its definition is all that is said of it but for its kernels: interpreter, verifier, sampling, the front end and
/// mutants ask `rowFunctions` (RowFunctions.h).
class Nano_RowFunctionOp<string mnemonic, string what, string equation, string details = "">
    : Nano_Op<mnemonic, [Pure, Nano_WholeKernel, SameOperandsAndResultType, DeclareOpInterfaceMethods<Nano_DifferentiableOp>]> {
  /// C++: fills a MutableArrayRef<double> y, of a row ArrayRef<double> x of at least one number.
  string meaning = ?;
  /// C++: returns the gradient of x, with a GraphBuilder g and f32 Values y and dy; null where none flows.
  string derivative = ?;
  /// The most columns of a row.
  string mostColumns = "2147483647";

  let summary = what;
  let description = [{
    }] # equation # [{, computed in f32 and rounded once to the operand's type.}] # details # [{

    Operands: `x` [N, C], f32 or bf16, of the result's type.

    Errors: another rank than 2; types that differ; more than }] # mostColumns # [{ columns.

    Example:

    ```mlir
    nano.program @example(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
      %y = nano.}] # mnemonic # [{ %x : tensor<8x64xf32>
      nano.return %y : tensor<8x64xf32>
    }
    ```
  }];
  let arguments = (ins Nano_FloatTensor:$x);
  let results = (outs Nano_FloatTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    static void evaluate(::llvm::ArrayRef<double> x, ::llvm::MutableArrayRef<double> y);
    static constexpr ::nano::graph::RowFunctionTraits traits() { return {}] # mostColumns # [{}; }
  }];
  let extraClassDefinition = [{
    void $cppClass::evaluate(::llvm::ArrayRef<double> x, ::llvm::MutableArrayRef<double> y) {}] # meaning # [{}
    ::llvm::LogicalResult $cppClass::verify() { return ::nano::graph::verifyRowFunction(*this, traits()); }
    ::llvm::SmallVector<::mlir::Value> $cppClass::buildDerivative(::mlir::OpBuilder &builder, ::mlir::ValueRange resultGrads) {
      GraphBuilder g(builder, getLoc());
      const auto dx = [&, y = g.toF32(getResult()), dy = g.toF32(resultGrads[0])]() -> ::mlir::Value {}] # derivative # [{}();
      return {dx ? g.cast(dx, tensorType(getX()).getElementType()) : dx};
    }
  }];
}

def Nano_SparsemaxOp : Nano_RowFunctionOp<"sparsemax", "the projection of rows onto the simplex",
    "y = max(x − τ, 0), with τ of each row such that its sum is 1: of all rows of probabilities the one nearest to x, in which most are 0", [{

    A row becomes NaN where it has NaN or +∞, or nothing but −∞; beside other numbers −∞ becomes 0. The derivative is that of the columns where y is not 0: dx = dy − mean of dy over
    these, there, and 0 elsewhere.}]> {
  // Of the numbers in order, the largest first, as many are part of it as are above what is then taken from each.
  let meaning = [{
      const double largest = *::llvm::max_element(x);
      if (::llvm::any_of(x, [](double each) { return std::isnan(each); }) || std::isinf(largest))
        return ::llvm::fill(y, std::nan(""));
      ::llvm::SmallVector<double> ordered(x);
      ::llvm::sort(ordered, std::greater<>());
      double sum = 0, count = 0, threshold = 0;
      for (double each : ordered) {
        sum += each - largest;
        if ((each - largest) * ++count <= sum - 1)
          break;
        threshold = (sum - 1) / count;
      }
      ::llvm::transform(x, y.begin(), [&](double each) { return std::max(each - largest - threshold, 0.0); });
    }];
  // Where y is NaN the columns are all.
  let derivative = [{
        const ::mlir::Value zero = g.constant(0, y.getType()), one = g.constant(1, y.getType());
        auto where = [&](::mlir::Value x) { return g.select(Predicate::eq, y, zero, zero, x); };
        const ::mlir::Value mean = g.div(g.reduce(Combiner::sum, where(dy), {1}), g.reduce(Combiner::sum, where(one), {1}));
        return where(g.sub(dy, g.broadcast(mean, tensorType(y).getShape(), {0})));
      }];
  let mostColumns = "16777216"; // which sums of f32 count
}

#endif // NANO_IR_GRAPH_ROW_FUNCTION_OPS_TD
