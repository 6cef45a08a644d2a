// The call of a kernel of a model's own, with an array for every operand.
#include "codegen/CustomKernels.h"

#include "codegen/cuda/CudaNames.h"
#include "codegen/cuda/CudaTemplates.h"

#include <fmt/format.h>

using namespace mlir;

namespace nano::codegen {

bool isCustomKernel(kernel::FuncOp kernel) {
  auto form = kernel->getAttrOfType<StringAttr>(templateAttrName);
  return form && form == "custom";
}

StringRef customFunction(kernel::FuncOp kernel) {
  auto name = kernel->getAttrOfType<StringAttr>("nano.function");
  return name ? name.getValue() : StringRef();
}

FailureOr<std::string> customText(kernel::FuncOp kernel, StringRef target, StringRef file,
                                  StringRef before) {
  auto text = kernel->getAttrOfType<StringAttr>(target);
  if (!text || customFunction(kernel).empty())
    return kernel.emitOpError("is a kernel of the model's own without ")
           << target << " or nano.function";
  std::string body = text.getValue().str();
  if (!StringRef(body).ends_with("\n"))
    body += "\n";
  // Behind both directives.
  const auto line = llvm::count(before, '\n') + llvm::count(body, '\n') + 3;
  return fmt::format("#line 1 \"{}\"\n{}#line {} \"{}\"\n", customFunction(kernel).str(), body,
                     line, file.str());
}

/// "nano::Array<const float, 4, 8>{x}"
static std::string arrayText(BlockArgument argument, bool isRead, const std::string &pointer) {
  auto type = cast<MemRefType>(argument.getType());
  std::string sizes;
  for (int64_t size : type.getShape())
    sizes += fmt::format(", {}", size);
  return fmt::format("nano::Array<{}{}{}>{{{}}}", isRead ? "const " : "",
                     cudaType(type.getElementType()), sizes, pointer);
}

FailureOr<std::string> customCall(kernel::FuncOp kernel, StringRef begin, StringRef end,
                                  llvm::function_ref<std::string(BlockArgument)> pointerOf) {
  auto operands = kernel->getAttrOfType<DenseI64ArrayAttr>("nano.operands");
  auto results = kernel->getAttrOfType<ArrayAttr>("nano.results");
  if (!operands || !results)
    return kernel.emitOpError("has not the attributes of a kernel of the model's own");
  std::string text =
      fmt::format("::{}({}, {}", customFunction(kernel).str(), begin.str(), end.str());
  auto add = [&](int64_t position, bool isRead) {
    const BlockArgument argument = kernel.getArgument(static_cast<unsigned>(position));
    text += ", " + arrayText(argument, isRead, pointerOf(argument));
  };
  for (int64_t position : operands.asArrayRef())
    add(position, true);
  for (auto places : results.getAsRange<DenseI64ArrayAttr>()) {
    if (places.size() != 1)
      return kernel.emitOpError("has a result that lies in ") << places.size() << " places";
    add(places[0], false);
  }
  return text + ")";
}

} // namespace nano::codegen
