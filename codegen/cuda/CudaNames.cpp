// Names, types and literals of kernels as CUDA C++ text.
#include "codegen/cuda/CudaNames.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

using namespace mlir;

namespace nano::codegen {

CudaNames::CudaNames() {
  // Keywords that a buffer or an op could be called, and what kernels refer to by name.
  for (StringRef word :
       {"auto",     "bool",     "break",    "case",      "char",     "class",    "const",
        "continue", "default",  "delete",   "do",        "double",   "else",     "enum",
        "extern",   "false",    "float",    "for",       "friend",   "goto",     "if",
        "inline",   "int",      "long",     "mutable",   "new",      "operator", "private",
        "public",   "register", "return",   "short",     "signed",   "sizeof",   "static",
        "struct",   "switch",   "template", "this",      "throw",    "true",     "try",
        "typedef",  "typename", "union",    "unsigned",  "using",    "virtual",  "void",
        "volatile", "while",    "and",      "or",        "not",      "xor",      "nano",
        "launch",   "work",     "blockIdx", "threadIdx", "blockDim", "gridDim",  "int64_t",
        "asm"})
    used.insert(word);
}

/// Without the layer: layers share kernels, and their numbers would mislead.
static std::string withoutLayer(StringRef name) {
  SmallVector<StringRef> parts;
  name.split(parts, '.');
  for (size_t i = 0; i + 2 < parts.size(); ++i)
    if (parts[i] == "blocks" && !parts[i + 1].empty() &&
        llvm::all_of(parts[i + 1], llvm::isDigit)) {
      parts.erase(parts.begin() + i, parts.begin() + i + 2);
      break;
    }
  return llvm::join(parts, ".");
}

std::string CudaNames::take(StringRef wanted) {
  wanted.consume_front("@");
  std::string name;
  for (char c : withoutLayer(wanted))
    name += llvm::isAlnum(c) ? c : '_';
  if (name.empty() || llvm::isDigit(name.front()))
    name = "v" + name;
  std::string unique = name;
  for (int number = 2; !used.insert(unique).second; ++number)
    unique = fmt::format("{}_{}", name, number);
  if (!scopes.empty())
    scopes.back().push_back(unique);
  return unique;
}

void CudaNames::close() {
  for (const std::string &name : scopes.back())
    used.erase(name);
  scopes.pop_back();
}

std::string cudaType(Type type) {
  if (auto vector = dyn_cast<VectorType>(type))
    return fmt::format("nano::Vec<{}, {}>", cudaType(vector.getElementType()),
                       vector.getNumElements());
  if (type.isF32())
    return "float";
  if (type.isBF16())
    return "nano::bf16";
  if (isa<Float8E4M3FNType>(type))
    return "nano::f8e4m3";
  if (isa<Float8E5M2Type>(type))
    return "nano::f8e5m2";
  if (type.isInteger(1))
    return "bool";
  if (type.isInteger(8))
    return "uint8_t";
  if (type.isInteger(16))
    return "uint16_t";
  if (type.isInteger(32))
    return "int";
  return "int64_t";
}

bool areHeld(MemRefType registers) {
  auto vector = dyn_cast<VectorType>(registers.getElementType());
  return vector && vector.getElementType().isBF16();
}

std::string cudaLiteral(Attribute number) {
  if (auto integer = dyn_cast<IntegerAttr>(number)) {
    if (integer.getType().isInteger(1))
      return integer.getValue().isZero() ? "false" : "true";
    int64_t value = integer.getInt();
    return value == INT32_MIN ? "(-2147483647 - 1)" : std::to_string(value);
  }
  APFloat value = cast<FloatAttr>(number).getValue();
  if (value.isNaN())
    return "nano::notANumber";
  if (value.isInfinity())
    return value.isNegative() ? "-nano::infinity" : "nano::infinity";
  std::string text = fmt::format("{}", value.convertToFloat());
  if (text.find_first_of(".e") == std::string::npos)
    text += ".0";
  return text + "f";
}

std::string cudaComment(StringRef text) {
  std::string lines, line = "//";
  for (StringRef word : llvm::split(text, ' ')) {
    if (line.size() + 1 + word.size() > 100) {
      lines += line + "\n";
      line = "//  ";
    }
    line += " " + word.str();
  }
  return lines + line + "\n";
}

} // namespace nano::codegen
