// Gradients of 8 bits, from task to kernel, on the emulator, against the interpreter of the graph
// dialect: their ends write 8 bits in rows and as columns.
// Tolerances of |actual − expected| / (1 + |expected|): an 8-bit number is the next one, a quarter
// or an eighth of it away, where the product's rounding is another; the largest of products of some
// tens is off by 2⁻⁵ (ProductKernelTest.cpp), and a sum of 16 of them by a part of one of them: a
// wrong or missing one by more than 1.
#include "tests/codegen/ProductTask.h"

#include "gtest/gtest.h"

using namespace nano;
using namespace nano::test;

namespace {

constexpr double ofQuarters = 0x1p-2, ofEighths = 0x1p-3, ofProducts = 0x1p-5;

/// The gradient of relu² of h, whose product is one of gradients: in 8 bits in rows and transposed,
/// and relu² of h transposed alone; `largest`: the largest of its blocks, and `adds`: its sums over
/// 16 rows.
std::string gradientProgram(const Sizes &sizes, bool largest, bool adds) {
  const std::string find = R"(
        %l = nano.abs %f : tensor<ROWSxCOLSxf32>
        %r = nano.reshape %l : tensor<ROWSxCOLSxf32> -> tensor<PARTSx16xPLACESx64xf32>
        %t = nano.reduce max %r dims [1, 3] : tensor<PARTSx16xPLACESx64xf32> -> tensor<PARTSxPLACESxf32>)",
                    add = R"(
        %n = nano.reshape %f : tensor<ROWSxCOLSxf32> -> tensor<PARTSx16xCOLSxf32>
        %o = nano.reduce sum %n dims [1] : tensor<PARTSx16xCOLSxf32> -> tensor<PARTSxCOLSxf32>)";
  auto list = [&](const std::string &maximum, const std::string &sum) {
    return (largest ? ", " + maximum : "") + (adds ? ", " + sum : "");
  };
  return withSizes(
      R"(
    step.program @p {
      %a = step.buffer "a" : memref<ROWSxINNERxf8E5M2>
      %b = step.buffer "b" : memref<COLSxINNERxf8E4M3FN>
      %h = step.buffer "h" : memref<ROWSxCOLSxbf16>
      %s = step.buffer "scale" : memref<f32>
      %m = step.buffer "largest" : memref<PARTSxPLACESxf32>
      %v = step.buffer "sums" : memref<PARTSxCOLSxf32>
      %y = step.buffer "y" : memref<ROWSxCOLSxf8E5M2>
      %yt = step.buffer "y_turned" : memref<COLSxROWSxf8E5M2>
      %u = step.view %yt : memref<COLSxROWSxf8E5M2> to memref<ROWSxCOLSxf8E5M2, strided<[1, ROWS]>>
      %zt = step.buffer "z_turned" : memref<COLSxROWSxf8E4M3FN>
      %z = step.view %zt : memref<COLSxROWSxf8E4M3FN> to memref<ROWSxCOLSxf8E4M3FN, strided<[1, ROWS]>>
      step.task ins(%a, %b, %h, %s) outs(%y, %u, %z)" +
          list("%m", "%v") + R"()
          : (memref<ROWSxINNERxf8E5M2>, memref<COLSxINNERxf8E4M3FN>, memref<ROWSxCOLSxbf16>, memref<f32>)
          -> (memref<ROWSxCOLSxf8E5M2>, memref<ROWSxCOLSxf8E5M2, strided<[1, ROWS]>>,
              memref<ROWSxCOLSxf8E4M3FN, strided<[1, ROWS]>>)" +
          list("memref<PARTSxPLACESxf32>", "memref<PARTSxCOLSxf32>") + R"() {
      ^bb0(%x: tensor<ROWSxINNERxf8E5M2>, %w: tensor<COLSxINNERxf8E4M3FN>, %e: tensor<ROWSxCOLSxbf16>, %k: tensor<f32>):
        %p = nano.scaled_matmul %x, %w scales(%k, %k) {transpose_b}
            : (tensor<ROWSxINNERxf8E5M2>, tensor<COLSxINNERxf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<ROWSxCOLSxbf16>
        %zero = nano.constant 0.0 : tensor<ROWSxCOLSxbf16>
        %c = nano.max %e, %zero : tensor<ROWSxCOLSxbf16>
        %d = nano.mul %p, %c : tensor<ROWSxCOLSxbf16>
        %f = nano.cast %d : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>)" +
          (largest ? find : "") + (adds ? add : "") + R"(
        %g = nano.cast %f : tensor<ROWSxCOLSxf32> -> tensor<ROWSxCOLSxf8E5M2>
        %i = nano.mul %c, %c : tensor<ROWSxCOLSxbf16>
        %j = nano.cast %i : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf8E4M3FN>
        nano.yield %g, %g, %j)" +
          list("%t", "%o") +
          R"( : tensor<ROWSxCOLSxf8E5M2>, tensor<ROWSxCOLSxf8E5M2>, tensor<ROWSxCOLSxf8E4M3FN>)" +
          list("tensor<PARTSxPLACESxf32>", "tensor<PARTSxCOLSxf32>") + R"(
      }
    })",
      {{"ROWS", sizes.rows},
       {"COLS", sizes.columns},
       {"INNER", sizes.inner},
       {"PARTS", sizes.rows / 16},
       {"PLACES", sizes.columns / 64}});
}

/// The gradients of silu(gate)·up by both, each in rows and as columns and with the largest of its
/// blocks, and it itself as columns: three results that are turned, of two operands.
std::string gateProgram(const Sizes &sizes) {
  return withSizes(
      R"(
    step.program @p {
      %a = step.buffer "a" : memref<ROWSxINNERxf8E5M2>
      %b = step.buffer "b" : memref<COLSxINNERxf8E4M3FN>
      %u = step.buffer "up" : memref<ROWSxCOLSxbf16>
      %v = step.buffer "gate" : memref<ROWSxCOLSxbf16>
      %s = step.buffer "scale" : memref<f32>
      %m = step.buffer "largest" : memref<PARTSxPLACESxf32>
      %n = step.buffer "second_largest" : memref<PARTSxPLACESxf32>
      %y = step.buffer "y" : memref<ROWSxDOUBLExf8E5M2>
      %y1 = step.view %y : memref<ROWSxDOUBLExf8E5M2> to memref<ROWSxCOLSxf8E5M2, strided<[DOUBLE, 1]>>
      %y2 = step.view %y : memref<ROWSxDOUBLExf8E5M2> to memref<ROWSxCOLSxf8E5M2, strided<[DOUBLE, 1], offset: COLS>>
      %t = step.buffer "turned" : memref<COLSxROWSxf8E5M2>
      %t1 = step.view %t : memref<COLSxROWSxf8E5M2> to memref<ROWSxCOLSxf8E5M2, strided<[1, ROWS]>>
      %r = step.buffer "second_turned" : memref<COLSxROWSxf8E5M2>
      %t2 = step.view %r : memref<COLSxROWSxf8E5M2> to memref<ROWSxCOLSxf8E5M2, strided<[1, ROWS]>>
      %z = step.buffer "z" : memref<COLSxROWSxf8E4M3FN>
      %t3 = step.view %z : memref<COLSxROWSxf8E4M3FN> to memref<ROWSxCOLSxf8E4M3FN, strided<[1, ROWS]>>
      step.task ins(%a, %b, %u, %v, %s) outs(%y1, %t1, %y2, %t2, %t3, %m, %n)
          : (memref<ROWSxINNERxf8E5M2>, memref<COLSxINNERxf8E4M3FN>, memref<ROWSxCOLSxbf16>, memref<ROWSxCOLSxbf16>, memref<f32>)
          -> (memref<ROWSxCOLSxf8E5M2, strided<[DOUBLE, 1]>>, memref<ROWSxCOLSxf8E5M2, strided<[1, ROWS]>>,
              memref<ROWSxCOLSxf8E5M2, strided<[DOUBLE, 1], offset: COLS>>, memref<ROWSxCOLSxf8E5M2, strided<[1, ROWS]>>,
              memref<ROWSxCOLSxf8E4M3FN, strided<[1, ROWS]>>, memref<PARTSxPLACESxf32>, memref<PARTSxPLACESxf32>) {
      ^bb0(%x: tensor<ROWSxINNERxf8E5M2>, %w: tensor<COLSxINNERxf8E4M3FN>, %e: tensor<ROWSxCOLSxbf16>, %f: tensor<ROWSxCOLSxbf16>, %k: tensor<f32>):
        %p = nano.scaled_matmul %x, %w scales(%k, %k) {transpose_b}
            : (tensor<ROWSxINNERxf8E5M2>, tensor<COLSxINNERxf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<ROWSxCOLSxbf16>
        %d = nano.cast %p : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %up = nano.cast %e : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %gate = nano.cast %f : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %g = nano.sigmoid %gate : tensor<ROWSxCOLSxf32>
        %silu = nano.mul %gate, %g : tensor<ROWSxCOLSxf32>
        %du = nano.mul %d, %silu : tensor<ROWSxCOLSxf32>
        %c = nano.mul %d, %up : tensor<ROWSxCOLSxf32>
        %dg = nano.mul %c, %g : tensor<ROWSxCOLSxf32>
        %h = nano.mul %silu, %up : tensor<ROWSxCOLSxf32>
        %l1 = nano.abs %du : tensor<ROWSxCOLSxf32>
        %r1 = nano.reshape %l1 : tensor<ROWSxCOLSxf32> -> tensor<PARTSx16xPLACESx64xf32>
        %m1 = nano.reduce max %r1 dims [1, 3] : tensor<PARTSx16xPLACESx64xf32> -> tensor<PARTSxPLACESxf32>
        %l2 = nano.abs %dg : tensor<ROWSxCOLSxf32>
        %r2 = nano.reshape %l2 : tensor<ROWSxCOLSxf32> -> tensor<PARTSx16xPLACESx64xf32>
        %m2 = nano.reduce max %r2 dims [1, 3] : tensor<PARTSx16xPLACESx64xf32> -> tensor<PARTSxPLACESxf32>
        %q1 = nano.cast %du : tensor<ROWSxCOLSxf32> -> tensor<ROWSxCOLSxf8E5M2>
        %q2 = nano.cast %dg : tensor<ROWSxCOLSxf32> -> tensor<ROWSxCOLSxf8E5M2>
        %q3 = nano.cast %h : tensor<ROWSxCOLSxf32> -> tensor<ROWSxCOLSxf8E4M3FN>
        nano.yield %q1, %q1, %q2, %q2, %q3, %m1, %m2 : tensor<ROWSxCOLSxf8E5M2>, tensor<ROWSxCOLSxf8E5M2>,
            tensor<ROWSxCOLSxf8E5M2>, tensor<ROWSxCOLSxf8E5M2>, tensor<ROWSxCOLSxf8E4M3FN>,
            tensor<PARTSxPLACESxf32>, tensor<PARTSxPLACESxf32>
      }
    })",
      {{"ROWS", sizes.rows},
       {"COLS", sizes.columns},
       {"DOUBLE", 2 * sizes.columns},
       {"INNER", sizes.inner},
       {"PARTS", sizes.rows / 16},
       {"PLACES", sizes.columns / 64}});
}

} // namespace

TEST(GradientKernel, SquaresInRowsAndColumns) {
  // Rows and columns that are no whole tiles; fewer than a tile has; several tiles a block, of
  // fewer steps along the inner dimension than there are stages.
  const auto check = [&](const Sizes &size, bool largest, bool adds) {
    SCOPED_TRACE(size.text() + (largest ? ", largest" : "") + (adds ? ", added" : ""));
    ProductTask(gradientProgram(size, largest, adds))
        .check(size.multiprocessors, {ofQuarters, ofQuarters, ofEighths, ofProducts, ofQuarters});
  };
  check({208, 320, 208, 132}, true, true);
  check({16, 80, 16, 2}, false, true);
  check({272, 576, 272, 2}, true, false);
  check({528, 64, 400, 2}, true, true);
}

TEST(GradientKernel, GatesWithTwoMaxima) {
  for (const Sizes &size : {Sizes{208, 320, 80, 132}, Sizes{528, 64, 784, 2}}) {
    SCOPED_TRACE(size.text());
    ProductTask(gateProgram(size))
        .check(size.multiprocessors,
               {ofQuarters, ofQuarters, ofQuarters, ofQuarters, ofEighths, ofProducts, ofProducts});
  }
}
