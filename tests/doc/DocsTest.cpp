// The reference in build/docs/ops: every op of the dialects states its errors and has one example,
// which parses, verifies, holds the op, and survives printing.
#include "ir/graph/Nano.h"
#include "ir/step/Step.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <fstream>
#include <string>
#include <vector>

using namespace mlir;

namespace {

/// What the page says about one op.
struct Section {
  std::vector<std::string> examples; ///< its ```mlir blocks
  std::string text;                  ///< everything else
};

/// The sections of ops/<dialect>.md by op name.
llvm::StringMap<Section> readPage(const std::string &dialect) {
  std::ifstream file(NANO_DOCS "/ops/" + dialect + ".md");
  EXPECT_TRUE(file.is_open()) << "build/docs/ops/" << dialect
                              << ".md is missing: build nano-reference-pages";
  llvm::StringMap<Section> sections;
  Section *section = nullptr;
  bool inExample = false;
  for (std::string line; std::getline(file, line);) {
    llvm::StringRef text = line;
    if (!inExample && (text.starts_with("# ") || text.starts_with("## ")))
      section = nullptr;
    if (!inExample && text.consume_front("### `"))
      section = &sections[text.take_until([](char c) { return c == '`'; })];
    if (!section)
      continue;
    if (line == "```mlir") {
      inExample = true;
      section->examples.emplace_back();
    } else if (line == "```") {
      inExample = false;
    } else {
      (inExample ? section->examples.back() : section->text) += line + "\n";
    }
  }
  return sections;
}

std::string printed(Operation *op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  op->print(stream);
  return text;
}

class Docs : public testing::Test {
protected:
  Docs() {
    context.loadDialect<nano::graph::NanoDialect, nano::step::StepDialect, arith::ArithDialect,
                        func::FuncDialect, math::MathDialect, memref::MemRefDialect,
                        scf::SCFDialect>();
  }

  /// The registered ops of a dialect; a dialect without any fails the test.
  std::vector<RegisteredOperationName> opsOf(StringRef dialect) {
    std::vector<RegisteredOperationName> ops;
    for (RegisteredOperationName op : context.getRegisteredOperations())
      if (op.getDialectNamespace() == dialect)
        ops.push_back(op);
    EXPECT_FALSE(ops.empty()) << dialect.str() << " has no ops";
    return ops;
  }

  /// The parsed module, or null after adding what is wrong with it as a failure.
  OwningOpRef<ModuleOp> parse(const std::string &text) {
    std::string messages;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      messages += diagnostic.str() + "\n";
      return success();
    });
    auto module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
    EXPECT_TRUE(module) << messages << text;
    return module;
  }

  void checkExample(StringRef op, const std::string &example) {
    OwningOpRef<ModuleOp> module = parse(example);
    if (!module)
      return;
    bool holdsOp = false;
    module->walk([&](Operation *inner) { holdsOp |= inner->getName().getStringRef() == op; });
    EXPECT_TRUE(holdsOp) << "the example does not show the op:\n" << example;
    std::string text = printed(*module);
    OwningOpRef<ModuleOp> again = parse(text);
    ASSERT_TRUE(again);
    EXPECT_EQ(printed(*again), text);
  }

  MLIRContext context;
};

} // namespace

TEST_F(Docs, examples) {
  for (const char *dialect : {"nano", "kernel", "step"}) {
    llvm::StringMap<Section> sections = readPage(dialect);
    for (RegisteredOperationName op : opsOf(dialect)) {
      SCOPED_TRACE(op.getStringRef().str());
      const Section &section = sections[op.getStringRef()];
      EXPECT_EQ(section.examples.size(), 1U) << "an op's documentation holds one ```mlir block";
      for (const std::string &example : section.examples)
        checkExample(op.getStringRef(), example);
    }
  }
}

TEST_F(Docs, contracts) {
  for (const char *dialect : {"nano", "kernel", "step"}) {
    llvm::StringMap<Section> sections = readPage(dialect);
    for (RegisteredOperationName op : opsOf(dialect)) {
      SCOPED_TRACE(op.getStringRef().str());
      const std::string &text = sections[op.getStringRef()].text;
      EXPECT_NE(text.find("Errors: "), std::string::npos) << "says nothing about its errors";
      if (StringRef(dialect) == "nano") {
        EXPECT_NE(text.find("Operands: "), std::string::npos) << "says nothing about its operands";
        bool hasEquation = StringRef(text).contains(" = ") || StringRef(text).contains("←");
        EXPECT_TRUE(hasEquation || op.hasInterface<SymbolOpInterface>()) << "has no equation";
      }
    }
  }
}
