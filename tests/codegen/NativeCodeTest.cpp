// Native code as a file: what it exports and needs, that it is the same every time, and errors.
#include "codegen/cpu/NativeCode.h"

#include "codegen/cpu/KernelLowering.h"
#include "ir/kernel/Kernel.h"
#include "runtime/plan/LoadedCode.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cstdlib>

using namespace mlir;
using namespace nano;

namespace {

class NativeCodeTest : public testing::Test {
protected:
  NativeCodeTest() {
    context.loadDialect<kernel::KernelDialect, arith::ArithDialect, func::FuncDialect,
                        math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                        vector::VectorDialect>();
    codegen::loadNativeDialects(context);
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      if (message.empty())
        message = diagnostic.str();
    });
  }

  FailureOr<codegen::NativeCode> compile(const std::string &text,
                                         const codegen::NativeOptions &options = {}) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return codegen::compileKernels(*module, *codegen::CpuTarget::host(), options);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string message;
};

/// A kernel that adds `value` to f32 elements.
std::string adding(const std::string &name, double value) {
  return "kernel.func @" + name +
         "(read_write %x: memref<?xf32>, %s: memref<0xi8>, %begin: index, %end: index) {\n"
         "  %c = arith.constant " +
         std::to_string(value) +
         " : f32\n"
         "  %one = arith.constant 1 : index\n"
         "  scf.for %i = %begin to %end step %one {\n"
         "    %v = memref.load %x[%i] : memref<?xf32>\n"
         "    %w = arith.addf %v, %c : f32\n"
         "    memref.store %w, %x[%i] : memref<?xf32>\n"
         "  }\n"
         "  kernel.return\n"
         "}\n";
}

TEST_F(NativeCodeTest, ExportsEveryKernelAndRuns) {
  std::string text = adding("a", 1) + adding("b", 2) + adding("c", 3);
  for (bool isOptimized : {true, false}) {
    FailureOr<codegen::NativeCode> code = compile(text, {.isOptimized = isOptimized});
    ASSERT_TRUE(succeeded(code)) << message;
    auto loaded = plan::LoadedCode::load(code->code);
    ASSERT_TRUE(static_cast<bool>(loaded));
    for (auto [name, value] : {std::pair("a", 1.0F), std::pair("b", 2.0F), std::pair("c", 3.0F)}) {
      float data[4] = {0, 0, 0, 0};
      void *arguments[] = {data};
      plan::KernelFunction kernel = (*loaded)->find(name);
      ASSERT_TRUE(kernel);
      kernel(arguments, nullptr, 1, 3);
      EXPECT_EQ(data[0], 0);
      EXPECT_EQ(data[1], value);
      EXPECT_EQ(data[2], value);
      EXPECT_EQ(data[3], 0);
    }
  }
  // The module is as it was.
  auto kernels = module->getOps<kernel::FuncOp>();
  EXPECT_EQ(std::distance(kernels.begin(), kernels.end()), 3);
}

TEST_F(NativeCodeTest, EqualKernelsGiveEqualBytes) {
  std::string text;
  for (int i = 0; i < 9; ++i)
    text += adding("k" + std::to_string(i), i);
  FailureOr<codegen::NativeCode> first = compile(text), second = compile(text);
  ASSERT_TRUE(succeeded(first) && succeeded(second));
  EXPECT_EQ(first->code, second->code);
}

TEST_F(NativeCodeTest, NoKernelsAtAll) {
  FailureOr<codegen::NativeCode> code = compile("module {}");
  ASSERT_TRUE(succeeded(code)) << message;
  EXPECT_TRUE(static_cast<bool>(plan::LoadedCode::load(code->code)));
}

TEST_F(NativeCodeTest, SaysWhatItNeeds) {
  FailureOr<codegen::NativeCode> code = compile(adding("a", 1));
  ASSERT_TRUE(succeeded(code));
  auto has = [&](const char *name) {
    return std::find(code->cpuFeatures.begin(), code->cpuFeatures.end(), name) !=
           code->cpuFeatures.end();
  };
  EXPECT_TRUE(has("avx2") && has("fma"));
  EXPECT_EQ(has("avx512f"), codegen::CpuTarget::host()->avx512);
}

TEST_F(NativeCodeTest, TargetsByFeatures) {
  using codegen::CpuTarget;
  std::vector<std::string> narrow = {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"};
  EXPECT_FALSE(CpuTarget::fromFeatures({"sse2", "avx"}));
  ASSERT_TRUE(CpuTarget::fromFeatures(narrow));
  EXPECT_EQ(CpuTarget::fromFeatures(narrow)->lanes(), 8);
  EXPECT_EQ(CpuTarget::fromFeatures(narrow)->features(), narrow);
  std::vector<std::string> wide = narrow;
  for (const char *name : {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
    wide.emplace_back(name);
  EXPECT_EQ(CpuTarget::fromFeatures(wide)->lanes(), 16);
  EXPECT_FALSE(CpuTarget::fromFeatures(wide)->avx512Bf16);
  wide.emplace_back("avx512_bf16");
  EXPECT_TRUE(CpuTarget::fromFeatures(wide)->avx512Bf16);
  EXPECT_EQ(CpuTarget::fromFeatures(wide)->features(), wide);
  wide.emplace_back("amx_tile");
  EXPECT_FALSE(CpuTarget::fromFeatures(wide)->amxBf16);
  wide.emplace_back("amx_bf16");
  EXPECT_TRUE(CpuTarget::fromFeatures(wide)->amxBf16);
  EXPECT_EQ(CpuTarget::fromFeatures(wide)->features(), wide);
}

TEST_F(NativeCodeTest, OpsWithoutALoweringAreErrors) {
  FailureOr<codegen::NativeCode> code = compile(
      "kernel.func @k(write %x: memref<?xf32>, %s: memref<0xi8>, %begin: index, %end: index) "
      "{\n  %c = arith.constant 1.0 : f32\n  %e = math.erf %c : f32\n"
      "  memref.store %e, %x[%begin] : memref<?xf32>\n  kernel.return\n}\n");
  EXPECT_TRUE(failed(code));
  EXPECT_NE(message.find("math.erf"), std::string::npos) << message;
}

TEST_F(NativeCodeTest, AMissingLinkerIsAnError) {
  std::string path = getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  FailureOr<codegen::NativeCode> code = compile(adding("a", 1));
  setenv("PATH", path.c_str(), 1);
  EXPECT_TRUE(failed(code));
  EXPECT_EQ(message, "the linker 'ld' is not on this machine; install the package binutils");
}

TEST_F(NativeCodeTest, AnUnwritableTemporaryDirectoryIsAnError) {
  const char *old = getenv("TMPDIR");
  std::string before = old ? old : "";
  setenv("TMPDIR", "/nowhere", 1);
  FailureOr<codegen::NativeCode> code = compile(adding("a", 1));
  old ? setenv("TMPDIR", before.c_str(), 1) : unsetenv("TMPDIR");
  EXPECT_TRUE(failed(code));
  EXPECT_NE(message.find("cannot make a temporary directory"), std::string::npos) << message;
}

TEST_F(NativeCodeTest, TextNamesModelLines) {
  module = parseSourceString<ModuleOp>(
      "kernel.func @k(memref<0xi8>, index, index) attributes {summary = \"mul, add\"} "
      "loc(fused[\"models/x.cpp\":4:1, \"models/x.cpp\":7:1, \"models/x.cpp\":4:9])",
      &context);
  ASSERT_TRUE(module);
  std::string text = codegen::kernelText(*module->getOps<kernel::FuncOp>().begin());
  EXPECT_EQ(text.rfind("// mul, add\n// of models/x.cpp:4, models/x.cpp:7\nkernel.func @k(", 0), 0)
      << text;
}

} // namespace
