// Matrix products with an element-wise end and partial sums of rows, from task to kernel, on the
// emulator, against the interpreter of the graph dialect.
// Tolerances of |actual − expected| / (1 + |expected|): of whole matrices, and of sums of 16 rows
// of them, in which one of 16 elements is off so far or none, 2⁻⁶, since where a product's rounding
// to bf16 goes the other way that is 2⁻⁸ of it, squared twice that, and the result is rounded
// again; a wrong element is off by about 1. Of sums of 128 elements 2⁻¹²: one such element moves
// them by 2⁻¹⁵, and few do; a missing one moves them by 2⁻⁷. Of sums of these and their logarithms
// 2⁻¹⁸, 30 roundings to f32. Of products in f32, whose exact summands of at most 2⁵ are added up in
// f32 in another order, 2⁻¹⁵; a wrong one is off by about 1.
#include "tests/codegen/ProductTask.h"
#include "tests/codegen/TaskRunner.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace nano;
using namespace nano::test;

namespace {

constexpr double ofWhole = ProductTask::ofWhole, ofPartialSums = 0x1p-12, ofSums = 0x1p-18;
/// Of sums of 8-bit products, of which tensor cores keep 13 bits behind the point of the largest
/// number on the way. It is some tens here: what they cut off reaches 2^-8 an instruction, but few
/// products have so many bits. `ofShort`: all are summed so, and rounded to bf16; `ofWide`: 128
/// are; `ofLong`: 128 are, 65 times.
constexpr double ofShort = 0x1p-5, ofWide = 0x1p-11, ofLong = 0x1p-6;

/// relu² of a product, as a model's forward pass has it.
std::string squareProgram(int64_t rows, int64_t columns, int64_t inner, bool transposeB) {
  auto type = [](int64_t a, int64_t b) {
    return std::to_string(a) + "x" + std::to_string(b) + "xbf16>";
  };
  const std::string a = type(rows, inner),
                    b = transposeB ? type(columns, inner) : type(inner, columns),
                    c = type(rows, columns);
  return "step.program @p {\n  %a = step.buffer \"a\" : memref<" + a +
         "\n  %b = step.buffer \"b\" : memref<" + b + "\n  %y = step.buffer \"y\" : memref<" + c +
         "\n  step.task ins(%a, %b) outs(%y) : (memref<" + a + ", memref<" + b + ") -> memref<" +
         c + " {\n  ^bb0(%x: tensor<" + a + ", %w: tensor<" + b +
         "):\n    %p = nano.matmul %x, %w " + (transposeB ? "{transpose_b} " : "") + ": (tensor<" +
         a + ", tensor<" + b + ") -> tensor<" + c + "\n    %zero = nano.constant 0.0 : tensor<" +
         c + "\n    %m = nano.max %p, %zero : tensor<" + c +
         "\n    %s = nano.mul %m, %m : tensor<" + c + "\n    nano.yield %s : tensor<" + c +
         "\n  }\n}\n";
}

/// Two sums of what follows a product, one of them softcapped as a model's logits are, the product
/// and a whole result; `scaled`: of 8-bit factors.
std::string sumsProgram(int64_t rows, int64_t columns, int64_t inner, bool scaled) {
  const std::string factors = scaled ? "f8E4M3FN" : "bf16";
  const std::string product =
      scaled ? "nano.scaled_matmul %x, %w scales(%k, %l) {transpose_b} : (tensor<ROWSxINNERx" +
                   factors + ">, tensor<COLSxINNERx" + factors + ">, tensor<f32>, tensor<f32>)"
             : "nano.matmul %x, %w {transpose_b} : (tensor<ROWSxINNERx" + factors +
                   ">, tensor<COLSxINNERx" + factors + ">)";
  return withSizes(
      R"(
    step.program @p {
      %a = step.buffer "a" : memref<ROWSxINNERx)" +
          factors + R"(>
      %b = step.buffer "b" : memref<COLSxINNERx)" +
          factors + R"(>
      %sa = step.buffer "scale_a" : memref<f32>
      %sb = step.buffer "scale_b" : memref<f32>
      %o = step.buffer "other" : memref<ROWSxCOLSxf32>
      %y = step.buffer "y" : memref<ROWSxCOLSxbf16>
      %s = step.buffer "sums" : memref<ROWSxPARTSxf32>
      %t = step.buffer "products" : memref<ROWSxPARTSxf32>
      step.task ins(%a, %b, %sa, %sb, %o) outs(%s, %y, %t)
          : (memref<ROWSxINNERx)" +
          factors + ">, memref<COLSxINNERx" + factors +
          R"(>, memref<f32>, memref<f32>, memref<ROWSxCOLSxf32>)
          -> (memref<ROWSxPARTSxf32>, memref<ROWSxCOLSxbf16>, memref<ROWSxPARTSxf32>) {
      ^bb0(%x: tensor<ROWSxINNERx)" +
          factors + ">, %w: tensor<COLSxINNERx" + factors +
          R"(>, %k: tensor<f32>, %l: tensor<f32>, %e: tensor<ROWSxCOLSxf32>):
        %p = )" +
          product +
          R"( -> tensor<ROWSxCOLSxbf16>
        %cap = nano.constant 3.0 : tensor<ROWSxCOLSxf32>
        %slope = nano.constant 0.0625 : tensor<ROWSxCOLSxf32>
        %f = nano.cast %p : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %g = nano.mul %f, %slope : tensor<ROWSxCOLSxf32>
        %h = nano.sigmoid %g : tensor<ROWSxCOLSxf32>
        %i = nano.mul %h, %cap : tensor<ROWSxCOLSxf32>
        %j = nano.sub %i, %cap : tensor<ROWSxCOLSxf32>
        %m = nano.exp %j : tensor<ROWSxCOLSxf32>
        %n = nano.reshape %m : tensor<ROWSxCOLSxf32> -> tensor<ROWSxPARTSx128xf32>
        %q = nano.reduce sum %n dims [2] : tensor<ROWSxPARTSx128xf32> -> tensor<ROWSxPARTSxf32>
        %r = nano.mul %e, %e : tensor<ROWSxCOLSxf32>
        %u = nano.reshape %r : tensor<ROWSxCOLSxf32> -> tensor<ROWSxPARTSx128xf32>
        %v = nano.reduce sum %u dims [2] : tensor<ROWSxPARTSx128xf32> -> tensor<ROWSxPARTSxf32>
        nano.yield %q, %p, %v : tensor<ROWSxPARTSxf32>, tensor<ROWSxCOLSxbf16>, tensor<ROWSxPARTSxf32>
      }
    })",
      {{"ROWS", rows}, {"COLS", columns}, {"INNER", inner}, {"PARTS", columns / 128}});
}

/// A product times SiLU's slope at an operand, g·σ + g·x·σ·(1 − σ), and sums of it over 16 rows: of
/// a bias's gradient.
std::string columnSumsProgram(const Sizes &sizes) {
  return withSizes(R"(
    step.program @p {
      %a = step.buffer "a" : memref<ROWSxINNERxbf16>
      %b = step.buffer "b" : memref<INNERxCOLSxbf16>
      %o = step.buffer "other" : memref<ROWSxCOLSxbf16>
      %y = step.buffer "y" : memref<ROWSxCOLSxbf16>
      %s = step.buffer "sums" : memref<PARTSxCOLSxf32>
      step.task ins(%a, %b, %o) outs(%s, %y)
          : (memref<ROWSxINNERxbf16>, memref<INNERxCOLSxbf16>, memref<ROWSxCOLSxbf16>)
          -> (memref<PARTSxCOLSxf32>, memref<ROWSxCOLSxbf16>) {
      ^bb0(%x: tensor<ROWSxINNERxbf16>, %w: tensor<INNERxCOLSxbf16>, %e: tensor<ROWSxCOLSxbf16>):
        %p = nano.matmul %x, %w : (tensor<ROWSxINNERxbf16>, tensor<INNERxCOLSxbf16>) -> tensor<ROWSxCOLSxbf16>
        %f = nano.cast %p : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %g = nano.cast %e : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %h = nano.sigmoid %g : tensor<ROWSxCOLSxf32>
        %1 = nano.constant 1.0 : tensor<ROWSxCOLSxf32>
        %m1 = nano.mul %f, %h : tensor<ROWSxCOLSxf32>
        %m2 = nano.mul %f, %g : tensor<ROWSxCOLSxf32>
        %m3 = nano.mul %m2, %h : tensor<ROWSxCOLSxf32>
        %c = nano.sub %1, %h : tensor<ROWSxCOLSxf32>
        %m4 = nano.mul %m3, %c : tensor<ROWSxCOLSxf32>
        %m = nano.add %m1, %m4 : tensor<ROWSxCOLSxf32>
        %d = nano.cast %m : tensor<ROWSxCOLSxf32> -> tensor<ROWSxCOLSxbf16>
        %n = nano.cast %d : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %r = nano.reshape %n : tensor<ROWSxCOLSxf32> -> tensor<PARTSx16xCOLSxf32>
        %t = nano.reduce sum %r dims [1] : tensor<PARTSx16xCOLSxf32> -> tensor<PARTSxCOLSxf32>
        nano.yield %t, %d : tensor<PARTSxCOLSxf32>, tensor<ROWSxCOLSxbf16>
      }
    })",
                   {{"ROWS", sizes.rows},
                    {"COLS", sizes.columns},
                    {"INNER", sizes.inner},
                    {"PARTS", sizes.rows / 16}});
}

/// The gradients of silu(gate)·up by both, over them, and it itself: three results from two
/// operands besides the product.
std::string twoOperandsProgram(const Sizes &sizes) {
  return withSizes(R"(
    step.program @p {
      %a = step.buffer "a" : memref<ROWSxINNERxbf16>
      %b = step.buffer "b" : memref<INNERxCOLSxbf16>
      %u = step.buffer "up" : memref<ROWSxCOLSxbf16>
      %v = step.buffer "gate" : memref<ROWSxCOLSxbf16>
      %y = step.buffer "y" : memref<ROWSxCOLSxbf16>
      step.task ins(%a, %b, %u, %v) outs(%u, %v, %y)
          : (memref<ROWSxINNERxbf16>, memref<INNERxCOLSxbf16>, memref<ROWSxCOLSxbf16>, memref<ROWSxCOLSxbf16>)
          -> (memref<ROWSxCOLSxbf16>, memref<ROWSxCOLSxbf16>, memref<ROWSxCOLSxbf16>) {
      ^bb0(%x: tensor<ROWSxINNERxbf16>, %w: tensor<INNERxCOLSxbf16>, %e: tensor<ROWSxCOLSxbf16>, %f: tensor<ROWSxCOLSxbf16>):
        %p = nano.matmul %x, %w : (tensor<ROWSxINNERxbf16>, tensor<INNERxCOLSxbf16>) -> tensor<ROWSxCOLSxbf16>
        %d = nano.cast %p : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %up = nano.cast %e : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %gate = nano.cast %f : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %s = nano.sigmoid %gate : tensor<ROWSxCOLSxf32>
        %silu = nano.mul %gate, %s : tensor<ROWSxCOLSxf32>
        %m1 = nano.mul %d, %silu : tensor<ROWSxCOLSxf32>
        %r1 = nano.cast %m1 : tensor<ROWSxCOLSxf32> -> tensor<ROWSxCOLSxbf16>
        %1 = nano.constant 1.0 : tensor<ROWSxCOLSxf32>
        %c = nano.sub %1, %s : tensor<ROWSxCOLSxf32>
        %du = nano.mul %d, %up : tensor<ROWSxCOLSxf32>
        %dus = nano.mul %du, %s : tensor<ROWSxCOLSxf32>
        %dug = nano.mul %du, %gate : tensor<ROWSxCOLSxf32>
        %sc = nano.mul %s, %c : tensor<ROWSxCOLSxf32>
        %m2 = nano.mul %dug, %sc : tensor<ROWSxCOLSxf32>
        %m3 = nano.add %dus, %m2 : tensor<ROWSxCOLSxf32>
        %r2 = nano.cast %m3 : tensor<ROWSxCOLSxf32> -> tensor<ROWSxCOLSxbf16>
        %m4 = nano.mul %silu, %up : tensor<ROWSxCOLSxf32>
        %r3 = nano.cast %m4 : tensor<ROWSxCOLSxf32> -> tensor<ROWSxCOLSxbf16>
        nano.yield %r1, %r2, %r3 : tensor<ROWSxCOLSxbf16>, tensor<ROWSxCOLSxbf16>, tensor<ROWSxCOLSxbf16>
      }
    })",
                   {{"ROWS", sizes.rows}, {"COLS", sizes.columns}, {"INNER", sizes.inner}});
}

/// silu(gate)·up + bias of two products, of which the kernel writes both too; `scaled`: of 8-bit
/// factors, each product with scales of its own.
std::string pairProgram(const Sizes &sizes, bool transposeB, bool scaled) {
  const std::string factor = scaled ? "f8E4M3FN>" : "bf16>",
                    b = (transposeB ? "COLSxINNERx" : "INNERxCOLSx") + factor,
                    a = "ROWSxINNERx" + factor, scales = scaled ? ", %sa, %sb, %sc" : "";
  auto product = [&](const std::string &of, const std::string &scale) {
    return (scaled ? "nano.scaled_matmul %x, " + of + " scales(%k, " + scale + ")"
                   : "nano.matmul %x, " + of) +
           (transposeB ? " {transpose_b}" : "") + " : (tensor<" + a + ", tensor<" + b +
           (scaled ? ", tensor<f32>, tensor<f32>" : "") + ") -> tensor<ROWSxCOLSxbf16>\n";
  };
  const std::string numbers = scaled ? ", memref<f32>, memref<f32>, memref<f32>" : "",
                    arguments = scaled ? ", %k: tensor<f32>, %l: tensor<f32>, %m: tensor<f32>" : "";
  return withSizes(R"(
    step.program @p {
      %a = step.buffer "a" : memref<)" +
                       a + R"(
      %b = step.buffer "b" : memref<)" +
                       b + R"(
      %c = step.buffer "c" : memref<)" +
                       b + R"(
      %d = step.buffer "bias" : memref<COLSxf32>
      %sa = step.buffer "scale_a" : memref<f32>
      %sb = step.buffer "scale_b" : memref<f32>
      %sc = step.buffer "scale_c" : memref<f32>
      %g = step.buffer "gate" : memref<ROWSxCOLSxbf16>
      %u = step.buffer "up" : memref<ROWSxCOLSxbf16>
      %y = step.buffer "y" : memref<ROWSxCOLSxbf16>
      step.task ins(%d, %a, %b, %c)" +
                       scales + ") outs(%y, %g, %u) : (memref<COLSxf32>, memref<" + a +
                       ", memref<" + b + ", memref<" + b + numbers + R"()
          -> (memref<ROWSxCOLSxbf16>, memref<ROWSxCOLSxbf16>, memref<ROWSxCOLSxbf16>) {
      ^bb0(%e: tensor<COLSxf32>, %x: tensor<)" +
                       a + ", %v: tensor<" + b + ", %w: tensor<" + b + arguments + R"():
        %p = )" + product("%v", "%l") +
                       "        %q = " + product("%w", "%m") + R"(
        %gate = nano.cast %p : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %up = nano.cast %q : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %s = nano.sigmoid %gate : tensor<ROWSxCOLSxf32>
        %silu = nano.mul %gate, %s : tensor<ROWSxCOLSxf32>
        %h = nano.mul %silu, %up : tensor<ROWSxCOLSxf32>
        %f = nano.broadcast %e dims [1] : tensor<COLSxf32> -> tensor<ROWSxCOLSxf32>
        %i = nano.add %h, %f : tensor<ROWSxCOLSxf32>
        %r = nano.cast %i : tensor<ROWSxCOLSxf32> -> tensor<ROWSxCOLSxbf16>
        nano.yield %r, %p, %q : tensor<ROWSxCOLSxbf16>, tensor<ROWSxCOLSxbf16>, tensor<ROWSxCOLSxbf16>
      }
    })",
                   {{"ROWS", sizes.rows}, {"COLS", sizes.columns}, {"INNER", sizes.inner}});
}

/// silu of a product plus a bias, or of two silu(gate)·up, as a forward pass in 8 bits has it: the
/// result in 8 bits with a scale, the largest of its blocks, and the products for the backward
/// pass.
std::string largestProgram(const Sizes &sizes, bool isPair) {
  const std::string second = isPair ? "memref<COLSxINNERxf8E4M3FN>, " : "memref<COLSxf32>, ";
  const std::string kept = isPair ? ", %v" : "",
                    keptType = isPair ? ", memref<ROWSxCOLSxbf16>" : "";
  return withSizes(
      R"(
    step.program @p {
      %a = step.buffer "a" : memref<ROWSxINNERxf8E4M3FN>
      %b = step.buffer "b" : memref<COLSxINNERxf8E4M3FN>
      %c = step.buffer "c" : memref<COLSxINNERxf8E4M3FN>
      %d = step.buffer "bias" : memref<COLSxf32>
      %s = step.buffer "scale" : memref<f32>
      %m = step.buffer "largest" : memref<PARTSxPLACESxf32>
      %y = step.buffer "y" : memref<ROWSxCOLSxf8E4M3FN>
      %u = step.buffer "product" : memref<ROWSxCOLSxbf16>
      %v = step.buffer "second" : memref<ROWSxCOLSxbf16>
      step.task ins(%a, %b, )" +
          std::string(isPair ? "%c" : "%d") + ", %s) outs(%m, %y, %u" + kept + R"()
          : (memref<ROWSxINNERxf8E4M3FN>, memref<COLSxINNERxf8E4M3FN>, )" +
          second + R"(memref<f32>)
          -> (memref<PARTSxPLACESxf32>, memref<ROWSxCOLSxf8E4M3FN>, memref<ROWSxCOLSxbf16>)" +
          keptType + R"() {
      ^bb0(%x: tensor<ROWSxINNERxf8E4M3FN>, %w: tensor<COLSxINNERxf8E4M3FN>, %e: )" +
          std::string(isPair ? "tensor<COLSxINNERxf8E4M3FN>" : "tensor<COLSxf32>") +
          R"(, %k: tensor<f32>):
        %p = nano.scaled_matmul %x, %w scales(%k, %k) {transpose_b}
            : (tensor<ROWSxINNERxf8E4M3FN>, tensor<COLSxINNERxf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<ROWSxCOLSxbf16>)" +
          std::string(isPair ? R"(
        %q = nano.scaled_matmul %x, %e scales(%k, %k) {transpose_b}
            : (tensor<ROWSxINNERxf8E4M3FN>, tensor<COLSxINNERxf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<ROWSxCOLSxbf16>
        %h = nano.cast %p : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %o = nano.cast %q : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>)"
                             : R"(
        %f = nano.cast %p : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %o = nano.broadcast %e dims [1] : tensor<COLSxf32> -> tensor<ROWSxCOLSxf32>
        %h = nano.add %f, %o : tensor<ROWSxCOLSxf32>)") +
          R"(
        %g = nano.sigmoid %h : tensor<ROWSxCOLSxf32>
        %i = nano.mul %h, %g : tensor<ROWSxCOLSxf32>
        %j = nano.mul %i, %o : tensor<ROWSxCOLSxf32>
        %l = nano.abs %j : tensor<ROWSxCOLSxf32>
        %r = nano.reshape %l : tensor<ROWSxCOLSxf32> -> tensor<PARTSx16xPLACESx64xf32>
        %t = nano.reduce max %r dims [1, 3] : tensor<PARTSx16xPLACESx64xf32> -> tensor<PARTSxPLACESxf32>
        %z = nano.cast %j : tensor<ROWSxCOLSxf32> -> tensor<ROWSxCOLSxf8E4M3FN>
        nano.yield %t, %z, %p)" +
          std::string(isPair ? ", %q" : "") +
          R"( : tensor<PARTSxPLACESxf32>, tensor<ROWSxCOLSxf8E4M3FN>, tensor<ROWSxCOLSxbf16>)" +
          std::string(isPair ? ", tensor<ROWSxCOLSxbf16>" : "") + R"(
      }
    })",
      {{"ROWS", sizes.rows},
       {"COLS", sizes.columns},
       {"INNER", sizes.inner},
       {"PARTS", sizes.rows / 16},
       {"PLACES", sizes.columns / 64}});
}

/// A product of 8 bits in f32. `turned`: its first factor lies transposed. `adds`: over what it is
/// added to; without that, of factors of the other types and added to columns' numbers.
std::string wideProgram(const Sizes &sizes, bool turned, bool adds) {
  const std::string types = adds ? R"(
          : (memref<OUTERxDEPTHxf8E5M2>, memref<COLSxINNERxf8E4M3FN>, memref<f32>, memref<ROWSxCOLSxf32>) -> memref<ROWSxCOLSxf32> {
      ^bb0(%x: tensor<OUTERxDEPTHxf8E5M2>, %w: tensor<COLSxINNERxf8E4M3FN>, %k: tensor<f32>, %c: tensor<ROWSxCOLSxf32>):)"
                                 : R"(
          : (memref<OUTERxDEPTHxf8E4M3FN>, memref<COLSxINNERxf8E5M2>, memref<f32>, memref<COLSxf32>) -> memref<ROWSxCOLSxf32> {
      ^bb0(%x: tensor<OUTERxDEPTHxf8E4M3FN>, %w: tensor<COLSxINNERxf8E5M2>, %k: tensor<f32>, %e: tensor<COLSxf32>):)";
  const std::string a = adds ? "f8E5M2" : "f8E4M3FN", b = adds ? "f8E4M3FN" : "f8E5M2";
  return withSizes(R"(
    step.program @p {
      %a = step.buffer "a" : memref<OUTERxDEPTHx)" +
                       a + R"(>
      %b = step.buffer "b" : memref<COLSxINNERx)" +
                       b + R"(>
      %s = step.buffer "scale" : memref<f32>
      %d = step.buffer "bias" : memref<COLSxf32>
      %y = step.buffer "y" : memref<ROWSxCOLSxf32>
      step.task ins(%a, %b, %s, )" +
                       (adds ? "%y" : "%d") + ") outs(%y)" + types + R"(
        %p = nano.scaled_matmul %x, %w scales(%k, %k) {)" +
                       (turned ? "transpose_a, " : "") + R"(transpose_b}
            : (tensor<OUTERxDEPTHx)" +
                       a + ">, tensor<COLSxINNERx" + b +
                       R"(>, tensor<f32>, tensor<f32>) -> tensor<ROWSxCOLSxf32>)" + (adds ? "" : R"(
        %c = nano.broadcast %e dims [1] : tensor<COLSxf32> -> tensor<ROWSxCOLSxf32>)") +
                       R"(
        %r = nano.add %p, %c : tensor<ROWSxCOLSxf32>
        nano.yield %r : tensor<ROWSxCOLSxf32>
      }
    })",
                   {{"ROWS", sizes.rows},
                    {"COLS", sizes.columns},
                    {"INNER", sizes.inner},
                    {"OUTER", turned ? sizes.inner : sizes.rows},
                    {"DEPTH", turned ? sizes.rows : sizes.inner}});
}

/// What becomes of partial sums: the sum of a row's exponentials, and its cross-entropy with the
/// target's logit.
std::string lossProgram(int64_t rows, int64_t columns) {
  return withSizes(R"(
    step.program @p {
      %s = step.buffer "sums" : memref<ROWSxPARTSxf32>
      %t = step.buffer "targets" : memref<ROWSxi32>
      %p = step.buffer "p" : memref<ROWSxCOLSxbf16>
      %n = step.buffer "numbers" : memref<ROWSxf32>
      %l = step.buffer "loss" : memref<ROWSxf32>
      step.task ins(%s, %t, %p) outs(%n, %l)
          : (memref<ROWSxPARTSxf32>, memref<ROWSxi32>, memref<ROWSxCOLSxbf16>) -> (memref<ROWSxf32>, memref<ROWSxf32>) {
      ^bb0(%x: tensor<ROWSxPARTSxf32>, %k: tensor<ROWSxi32>, %q: tensor<ROWSxCOLSxbf16>):
        %cap = nano.constant 3.0 : tensor<ROWSxCOLSxf32>
        %rowCap = nano.constant 3.0 : tensor<ROWSxf32>
        %zero = nano.constant 0.0 : tensor<ROWSxCOLSxf32>
        %squares = nano.mul %x, %x : tensor<ROWSxPARTSxf32>
        %sum = nano.reduce sum %squares dims [1] : tensor<ROWSxPARTSxf32> -> tensor<ROWSxf32>
        %log = nano.log %sum : tensor<ROWSxf32>
        %lse = nano.add %log, %rowCap : tensor<ROWSxf32>
        %f = nano.cast %q : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %h = nano.sigmoid %f : tensor<ROWSxCOLSxf32>
        %c = nano.mul %h, %cap : tensor<ROWSxCOLSxf32>
        %i = nano.iota 1 : tensor<ROWSxCOLSxi32>
        %target = nano.broadcast %k dims [0] : tensor<ROWSxi32> -> tensor<ROWSxCOLSxi32>
        %only = nano.select eq, %i, %target, %c, %zero : tensor<ROWSxCOLSxi32>, tensor<ROWSxCOLSxf32>
        %picked = nano.reduce sum %only dims [1] : tensor<ROWSxCOLSxf32> -> tensor<ROWSxf32>
        %loss = nano.sub %lse, %picked : tensor<ROWSxf32>
        nano.yield %sum, %loss : tensor<ROWSxf32>, tensor<ROWSxf32>
      }
    })",
                   {{"ROWS", rows}, {"COLS", columns}, {"PARTS", columns / 128}});
}

} // namespace

TEST(ProductKernel, SizesThatTilesDoNotDivide) {
  // Fewer rows and columns than a tile; several tiles a block, of one column and of several; an
  // inner dimension of less than one step, of whole ones, and of more.
  for (const Sizes &size : {Sizes{5, 8, 8, 2}, Sizes{300, 264, 72, 2}, Sizes{140, 520, 128, 4},
                            Sizes{513, 40, 200, 132}})
    for (bool transposeB : {true, false}) {
      SCOPED_TRACE(size.text() + (transposeB ? ", transposed" : ""));
      ProductTask(squareProgram(size.rows, size.columns, size.inner, transposeB))
          .check(size.multiprocessors);
    }
}

TEST(ProductKernel, OtherOperandsAndTwoResults) {
  ProductTask(R"(
    step.program @p {
      %a = step.buffer "a" : memref<200x64xbf16>
      %b = step.buffer "b" : memref<64x72xbf16>
      %o = step.buffer "other" : memref<200x72xbf16>
      %d = step.buffer "bias" : memref<72xf32>
      %c = step.buffer "c" : memref<f32>
      %y = step.buffer "y" : memref<200x72xbf16>
      %z = step.buffer "z" : memref<200x72xf32>
      step.task ins(%a, %o, %b, %d, %c) outs(%z, %y)
          : (memref<200x64xbf16>, memref<200x72xbf16>, memref<64x72xbf16>, memref<72xf32>, memref<f32>)
          -> (memref<200x72xf32>, memref<200x72xbf16>) {
      ^bb0(%x: tensor<200x64xbf16>, %e: tensor<200x72xbf16>, %w: tensor<64x72xbf16>, %f: tensor<72xf32>, %n: tensor<f32>):
        %p = nano.matmul %x, %w : (tensor<200x64xbf16>, tensor<64x72xbf16>) -> tensor<200x72xbf16>
        %q = nano.cast %p : tensor<200x72xbf16> -> tensor<200x72xf32>
        %g = nano.broadcast %f dims [1] : tensor<72xf32> -> tensor<200x72xf32>
        %h = nano.add %q, %g : tensor<200x72xf32>
        %m = nano.exp %n : tensor<f32>
        %i = nano.broadcast %m dims [] : tensor<f32> -> tensor<200x72xf32>
        %j = nano.mul %h, %i : tensor<200x72xf32>
        %k = nano.cast %e : tensor<200x72xbf16> -> tensor<200x72xf32>
        %l = nano.add %j, %k : tensor<200x72xf32>
        nano.yield %l, %p : tensor<200x72xf32>, tensor<200x72xbf16>
      }
    })")
      .check(2);
}

TEST(ProductKernel, NumbersOfRows) {
  // One number a row, beside one a column and a matrix, and of two products; as many rows as
  // columns; rows that tiles do not divide, in several tiles a block.
  for (const Sizes &size :
       {Sizes{200, 72, 64, 2}, Sizes{264, 264, 200, 2}, Sizes{513, 40, 72, 4}}) {
    SCOPED_TRACE(size.text());
    const std::map<std::string, int64_t> sizes = {
        {"ROWS", size.rows}, {"COLS", size.columns}, {"INNER", size.inner}};
    ProductTask(withSizes(R"(
    step.program @p {
      %a = step.buffer "a" : memref<ROWSxINNERxbf16>
      %b = step.buffer "b" : memref<INNERxCOLSxbf16>
      %o = step.buffer "other" : memref<ROWSxCOLSxbf16>
      %d = step.buffer "bias" : memref<COLSxf32>
      %r = step.buffer "factors" : memref<ROWSxf32>
      %y = step.buffer "y" : memref<ROWSxCOLSxbf16>
      step.task ins(%a, %o, %b, %d, %r) outs(%y)
          : (memref<ROWSxINNERxbf16>, memref<ROWSxCOLSxbf16>, memref<INNERxCOLSxbf16>, memref<COLSxf32>, memref<ROWSxf32>)
          -> memref<ROWSxCOLSxbf16> {
      ^bb0(%x: tensor<ROWSxINNERxbf16>, %e: tensor<ROWSxCOLSxbf16>, %w: tensor<INNERxCOLSxbf16>, %f: tensor<COLSxf32>, %n: tensor<ROWSxf32>):
        %p = nano.matmul %x, %w : (tensor<ROWSxINNERxbf16>, tensor<INNERxCOLSxbf16>) -> tensor<ROWSxCOLSxbf16>
        %q = nano.cast %p : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %g = nano.broadcast %n dims [0] : tensor<ROWSxf32> -> tensor<ROWSxCOLSxf32>
        %h = nano.mul %q, %g : tensor<ROWSxCOLSxf32>
        %i = nano.broadcast %f dims [1] : tensor<COLSxf32> -> tensor<ROWSxCOLSxf32>
        %j = nano.add %h, %i : tensor<ROWSxCOLSxf32>
        %k = nano.cast %e : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %l = nano.add %j, %k : tensor<ROWSxCOLSxf32>
        %m = nano.cast %l : tensor<ROWSxCOLSxf32> -> tensor<ROWSxCOLSxbf16>
        nano.yield %m : tensor<ROWSxCOLSxbf16>
      }
    })",
                          sizes))
        .check(size.multiprocessors);
    ProductTask(withSizes(R"(
    step.program @p {
      %a = step.buffer "a" : memref<ROWSxINNERxbf16>
      %b = step.buffer "b" : memref<COLSxINNERxbf16>
      %c = step.buffer "c" : memref<COLSxINNERxbf16>
      %r = step.buffer "factors" : memref<ROWSxf32>
      %y = step.buffer "y" : memref<ROWSxCOLSxbf16>
      %z = step.buffer "z" : memref<ROWSxCOLSxbf16>
      step.task ins(%a, %b, %c, %r) outs(%y, %z)
          : (memref<ROWSxINNERxbf16>, memref<COLSxINNERxbf16>, memref<COLSxINNERxbf16>, memref<ROWSxf32>)
          -> (memref<ROWSxCOLSxbf16>, memref<ROWSxCOLSxbf16>) {
      ^bb0(%x: tensor<ROWSxINNERxbf16>, %v: tensor<COLSxINNERxbf16>, %w: tensor<COLSxINNERxbf16>, %n: tensor<ROWSxf32>):
        %p = nano.matmul %x, %v {transpose_b} : (tensor<ROWSxINNERxbf16>, tensor<COLSxINNERxbf16>) -> tensor<ROWSxCOLSxbf16>
        %q = nano.matmul %x, %w {transpose_b} : (tensor<ROWSxINNERxbf16>, tensor<COLSxINNERxbf16>) -> tensor<ROWSxCOLSxbf16>
        %g = nano.broadcast %n dims [0] : tensor<ROWSxf32> -> tensor<ROWSxCOLSxf32>
        %f = nano.cast %p : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %h = nano.cast %q : tensor<ROWSxCOLSxbf16> -> tensor<ROWSxCOLSxf32>
        %i = nano.mul %f, %g : tensor<ROWSxCOLSxf32>
        %s = nano.add %i, %h : tensor<ROWSxCOLSxf32>
        %m = nano.cast %s : tensor<ROWSxCOLSxf32> -> tensor<ROWSxCOLSxbf16>
        nano.yield %m, %q : tensor<ROWSxCOLSxbf16>, tensor<ROWSxCOLSxbf16>
      }
    })",
                          sizes))
        .check(size.multiprocessors);
  }
}

TEST(ProductKernel, Parts) {
  // Factors, an operand and the result are columns of wider buffers.
  ProductTask(R"(
    step.program @p {
      %aa = step.buffer "a" : memref<150x200xbf16>
      %a = step.view %aa : memref<150x200xbf16> to memref<150x104xbf16, strided<[200, 1], offset: 16>>
      %bb = step.buffer "b" : memref<96x112xbf16>
      %b = step.view %bb : memref<96x112xbf16> to memref<96x104xbf16, strided<[112, 1], offset: 8>>
      %oo = step.buffer "other" : memref<150x120xf32>
      %o = step.view %oo : memref<150x120xf32> to memref<150x96xf32, strided<[120, 1], offset: 4>>
      %yy = step.buffer "y" : memref<150x128xf32>
      %y = step.view %yy : memref<150x128xf32> to memref<150x96xf32, strided<[128, 1], offset: 32>>
      step.task ins(%a, %b, %o) outs(%y)
          : (memref<150x104xbf16, strided<[200, 1], offset: 16>>, memref<96x104xbf16, strided<[112, 1], offset: 8>>,
             memref<150x96xf32, strided<[120, 1], offset: 4>>) -> memref<150x96xf32, strided<[128, 1], offset: 32>> {
      ^bb0(%x: tensor<150x104xbf16>, %w: tensor<96x104xbf16>, %e: tensor<150x96xf32>):
        %p = nano.matmul %x, %w {transpose_b} : (tensor<150x104xbf16>, tensor<96x104xbf16>) -> tensor<150x96xbf16>
        %f = nano.cast %p : tensor<150x96xbf16> -> tensor<150x96xf32>
        %s = nano.mul %f, %e : tensor<150x96xf32>
        nano.yield %s : tensor<150x96xf32>
      }
    })")
      .check(2);
}

TEST(ProductKernel, OverAnOperand) {
  // The gradient of relu² over the square that it reads.
  ProductTask(R"(
    step.program @p {
      %a = step.buffer "a" : memref<300x80xbf16>
      %b = step.buffer "b" : memref<80x264xbf16>
      %y = step.buffer "y" : memref<300x264xbf16>
      step.task ins(%y, %a, %b) outs(%y)
          : (memref<300x264xbf16>, memref<300x80xbf16>, memref<80x264xbf16>) -> memref<300x264xbf16> {
      ^bb0(%s: tensor<300x264xbf16>, %x: tensor<300x80xbf16>, %w: tensor<80x264xbf16>):
        %p = nano.matmul %x, %w : (tensor<300x80xbf16>, tensor<80x264xbf16>) -> tensor<300x264xbf16>
        %zero = nano.constant 0.0 : tensor<300x264xbf16>
        %m = nano.max %s, %zero : tensor<300x264xbf16>
        %r = nano.sqrt %m : tensor<300x264xbf16>
        %g = nano.mul %p, %r : tensor<300x264xbf16>
        %h = nano.add %g, %g : tensor<300x264xbf16>
        %d = nano.select gt, %s, %zero, %h, %zero : tensor<300x264xbf16>, tensor<300x264xbf16>
        nano.yield %d : tensor<300x264xbf16>
      }
    })")
      .check(2);
}

TEST(ProductKernel, PartialSums) {
  // Sizes that tiles do not divide; of rows of a tile and of half of one; several tiles a block.
  for (const Sizes &size :
       {Sizes{200, 384, 208, 132}, Sizes{3, 128, 16, 2}, Sizes{257, 640, 144, 2}})
    for (bool scaled : {true, false}) {
      SCOPED_TRACE(size.text() + (scaled ? ", scaled" : ""));
      ProductTask(sumsProgram(size.rows, size.columns, size.inner, scaled))
          .check(size.multiprocessors, {ofPartialSums, ofWhole, ofPartialSums});
    }
}

TEST(ProductKernel, PartialSumsOfColumns) {
  // Fewer rows than a tile has; columns that are no whole parts; several tiles a block, with a
  // quarter as many steps along the inner dimension as an epilogue has pieces, a few less, and
  // more.
  for (const Sizes &size : {Sizes{208, 384, 208, 132}, Sizes{16, 128, 16, 2},
                            Sizes{272, 264, 784, 2}, Sizes{528, 264, 1040, 2}}) {
    SCOPED_TRACE(size.text());
    ProductTask(columnSumsProgram(size)).check(size.multiprocessors);
  }
}

TEST(ProductKernel, LargestOfBlocks) {
  // Rows and columns that are no whole tiles; fewer than a tile has; several tiles a block;
  // clusters of four. An 8-bit number is the next one, an eighth of it away, where the product's
  // rounding is another.
  constexpr double ofEighths = 0x1p-3;
  for (const Sizes &size : {Sizes{208, 320, 208, 132}, Sizes{16, 64, 16, 2},
                            Sizes{272, 576, 272, 2}, Sizes{1120, 576, 80, 32}})
    for (bool isPair : {false, true}) {
      SCOPED_TRACE(size.text() + (isPair ? ", two" : ""));
      ProductTask(largestProgram(size, isPair))
          .check(size.multiprocessors, {ofShort, ofEighths, ofShort, ofShort});
    }
}

TEST(ProductKernel, TwoOperandsAndThreeResults) {
  // Rows and columns that are no whole tiles; several tiles a block, with fewer steps along the
  // inner dimension than an epilogue has pieces, and more.
  for (const Sizes &size : {Sizes{200, 264, 208, 132}, Sizes{272, 264, 1040, 2}}) {
    SCOPED_TRACE(size.text());
    ProductTask(twoOperandsProgram(size)).check(size.multiprocessors);
  }
}

TEST(ProductKernel, TwoProductsOfOneOperand) {
  // Fewer rows and columns than a tile has of each product; several tiles a block, along columns
  // and along rows; less than one step along the inner dimension, as many as the epilogue has
  // pieces, up to twice as many, and more.
  for (const Sizes &size : {Sizes{5, 8, 16, 2}, Sizes{272, 264, 512, 2}, Sizes{140, 200, 784, 132},
                            Sizes{528, 136, 1040, 2}})
    for (bool transposeB : {true, false}) {
      SCOPED_TRACE(size.text() + (transposeB ? ", transposed" : ""));
      ProductTask(pairProgram(size, transposeB, /*scaled=*/false)).check(size.multiprocessors);
    }
  ProductTask(pairProgram({140, 208, 272, 2}, /*transposeB=*/true, /*scaled=*/true))
      .check(2, {ofShort, ofShort, ofShort});
}

TEST(ProductKernel, EightBitFactors) {
  // Columns that are not of whole parts; factors that are parts of wider buffers; a scale that the
  // epilogue reads too.
  ProductTask(R"(
    step.program @p {
      %aa = step.buffer "a" : memref<150x240xf8E4M3FN>
      %a = step.view %aa : memref<150x240xf8E4M3FN> to memref<150x208xf8E4M3FN, strided<[240, 1], offset: 16>>
      %b = step.buffer "b" : memref<104x208xf8E4M3FN>
      %s = step.buffer "scale" : memref<f32>
      %y = step.buffer "y" : memref<150x104xf32>
      step.task ins(%b, %s, %a) outs(%y)
          : (memref<104x208xf8E4M3FN>, memref<f32>, memref<150x208xf8E4M3FN, strided<[240, 1], offset: 16>>)
          -> memref<150x104xf32> {
      ^bb0(%w: tensor<104x208xf8E4M3FN>, %k: tensor<f32>, %x: tensor<150x208xf8E4M3FN>):
        %p = nano.scaled_matmul %x, %w scales(%k, %k) {transpose_b}
            : (tensor<150x208xf8E4M3FN>, tensor<104x208xf8E4M3FN>, tensor<f32>, tensor<f32>) -> tensor<150x104xbf16>
        %f = nano.cast %p : tensor<150x104xbf16> -> tensor<150x104xf32>
        %i = nano.broadcast %k dims [] : tensor<f32> -> tensor<150x104xf32>
        %m = nano.mul %f, %i : tensor<150x104xf32>
        nano.yield %m : tensor<150x104xf32>
      }
    })")
      .check(2, {ofShort});
}

TEST(ProductKernel, EightBitsIntoF32) {
  // Fewer rows and columns than a tile, and an inner dimension of less than a stage; sizes that
  // tiles do not divide, of several tiles a block; sums of several stages, and of so many that
  // tensor cores alone would be three to nine times beyond the tolerance.
  for (const auto &[size, tolerance] :
       {std::pair(Sizes{16, 16, 16, 2}, ofWide), std::pair(Sizes{304, 272, 144, 2}, ofWide),
        std::pair(Sizes{528, 48, 784, 132}, ofWide), std::pair(Sizes{16, 16, 8208, 2}, ofLong)})
    for (bool turned : {true, false})
      for (bool adds : {true, false}) {
        SCOPED_TRACE(size.text() + (turned ? ", turned" : "") + (adds ? ", added" : ""));
        ProductTask(wideProgram(size, turned, adds)).check(size.multiprocessors, {tolerance});
      }
}

TEST(ProductKernel, RowsOfPartialSums) {
  // Rows of which a warp's part, a warp, or a block sums the parts.
  for (int64_t columns : {128, 384, 50304, 300032}) {
    SCOPED_TRACE(columns);
    const int64_t rows = columns <= 384 ? 200 : 5;
    ProductTask(lossProgram(rows, columns)).check(132, {ofSums, ofSums}, columns);
    for (int64_t lanes : TaskRunner::lanes()) {
      auto runner = TaskRunner::make(lossProgram(rows, columns), emitRow, lanes);
      ASSERT_TRUE(runner);
      std::mt19937_64 random(9);
      runner->setInput(0, TensorValue::normal(runner->inputType(0), random));
      runner->setInput(
          1, TensorValue::integers(runner->inputType(1), random, -columns / 8, 9 * columns / 8));
      runner->setInput(2, TensorValue::normal(runner->inputType(2), random));
      runner->run();
      const std::vector<TensorValue> expected =
          interpretTask(runner->taskOp(), {runner->input(0), runner->input(1), runner->input(2)});
      for (unsigned i = 0; i < 2; ++i)
        EXPECT_LE(largestError(runner->output(i), expected[i]), ofSums) << "output " << i;
    }
  }
}
