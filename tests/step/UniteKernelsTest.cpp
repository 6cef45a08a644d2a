// Kernels of several programs as one table: equal ones once, under names that are unique.
#include "codegen/UniteKernels.h"
#include "ir/step/Step.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using nano::codegen::KernelUnion;

namespace {

class UniteKernels : public ::testing::Test {
protected:
  UniteKernels() {
    context.loadDialect<nano::graph::NanoDialect, nano::step::StepDialect, func::FuncDialect,
                        arith::ArithDialect, memref::MemRefDialect>();
  }

  /// A module with the kernels, and launches of them over so many sets of operands.
  OwningOpRef<ModuleOp> module(const std::string &kernels,
                               const std::vector<std::pair<std::string, int>> &launches = {}) {
    std::string text = "module {\n module @kernels {\n" + kernels + "}\n";
    text += "step.program @first {\n %x = step.buffer \"x\" : memref<8xf32>\n";
    for (const auto &[name, segments] : launches) {
      std::string operands, types, sizes;
      for (int i = 0; i < segments; ++i) {
        const char *separator = i ? ", " : "";
        operands += separator + std::string("%x");
        types += separator + std::string("memref<8xf32>");
        sizes += separator + std::string("8");
      }
      text += "step.launch @" + name + "(" + operands +
              ") {segments = " + std::to_string(segments) +
              " : i64, iterations = array<i64: " + sizes + ">} : " + types + "\n";
    }
    OwningOpRef<ModuleOp> result = parseSourceString<ModuleOp>(text + "}\n}", &context);
    EXPECT_TRUE(result) << text;
    return result;
  }

  /// A kernel that stores `value`.
  static std::string kernel(const std::string &name, const std::string &value,
                            const std::string &attributes = "") {
    return "kernel.func @" + name +
           "(write %x: memref<8xf32>, %s: memref<0xi8>, %b: index, %e: index) attributes {" +
           attributes + "} {\n %v = arith.constant " + value +
           " : f32\n memref.store %v, %x[%b] : memref<8xf32>\n kernel.return\n}\n";
  }

  static std::vector<std::string> names(ModuleOp kernels) {
    std::vector<std::string> result;
    for (auto function : kernels.getOps<nano::kernel::FuncOp>())
      result.push_back(function.getSymName().str());
    return result;
  }
  static std::vector<std::string> launched(ModuleOp module) {
    std::vector<std::string> result;
    module.walk([&](nano::step::LaunchOp launch) { result.push_back(launch.getKernel().str()); });
    return result;
  }

  MLIRContext context;
};

using Names = std::vector<std::string>;

TEST_F(UniteKernels, KeepsEqualOnesOnce) {
  auto one = module(kernel("a", "1.0") + kernel("b", "2.0"), {{"a", 1}, {"b", 3}}),
       two = module(kernel("b", "2.0", "summary = \"another\"") + kernel("c", "3.0"),
                    {{"b", 2}, {"c", 4}});
  FailureOr<KernelUnion> all = nano::codegen::uniteKernels({*one, *two});
  ASSERT_TRUE(succeeded(all));
  EXPECT_EQ(names(all->kernels), (Names{"a", "b", "c"}));
  EXPECT_EQ(launched(*two), (Names{"b", "c"}));
  EXPECT_EQ(all->segments.lookup("a"), 1);
  EXPECT_EQ(all->segments.lookup("b"), 3);
  EXPECT_EQ(all->segments.lookup("c"), 4);
  EXPECT_TRUE(succeeded(verify(*one)) && succeeded(verify(*two)));
}

TEST_F(UniteKernels, RenamesWhatOnlySharesAName) {
  auto one = module(kernel("a", "1.0"), {{"a", 1}}),
       two = module(kernel("a", "2.0"), {{"a", 2}, {"a", 1}}),
       three = module(kernel("a", "2.0") + kernel("b", "1.0"), {{"a", 5}, {"b", 1}}),
       four = module(kernel("a", "1.0", "launch = #kernel.launch<threads = 64>"), {{"a", 1}});
  FailureOr<KernelUnion> all = nano::codegen::uniteKernels({*one, *two, *three, *four});
  ASSERT_TRUE(succeeded(all));
  EXPECT_EQ(names(all->kernels), (Names{"a", "a_2", "b", "a_3"}));
  EXPECT_EQ(launched(*one), Names{"a"});
  EXPECT_EQ(launched(*two), (Names{"a_2", "a_2"}));
  EXPECT_EQ(launched(*three), (Names{"a_2", "b"}));
  EXPECT_EQ(launched(*four), Names{"a_3"});
  EXPECT_EQ(all->segments.lookup("a"), 1);
  EXPECT_EQ(all->segments.lookup("a_2"), 5);
  for (ModuleOp module : {*one, *two, *three, *four})
    EXPECT_TRUE(succeeded(verify(module)));
}

TEST_F(UniteKernels, RefusesHelpersThatDiffer) {
  auto helper = [](const char *value) {
    return std::string("func.func @help() -> f32 {\n %v = arith.constant ") + value +
           " : f32\n return %v : f32\n}\n";
  };
  auto one = module(helper("1.0")), same = module(helper("1.0")), other = module(helper("2.0"));
  EXPECT_TRUE(succeeded(nano::codegen::uniteKernels({*one, *same})));
  std::string message;
  ScopedDiagnosticHandler handler(&context,
                                  [&](Diagnostic &diagnostic) { message = diagnostic.str(); });
  EXPECT_TRUE(failed(nano::codegen::uniteKernels({*one, *other})));
  EXPECT_NE(message.find("differs from the function of this name"), std::string::npos) << message;
}

} // namespace
