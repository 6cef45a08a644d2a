// The call of a kernel of a model's own, with an array for every operand.
#include "codegen/CustomKernels.h"

#include "codegen/cuda/CudaNames.h"

#include <fmt/format.h>

using namespace mlir;

namespace nano::codegen {

/// What the kernel says of the model's function; null: it is none.
static kernel::CustomAttr customOf(kernel::FuncOp kernel) {
  return dyn_cast_or_null<kernel::CustomAttr>(kernel.getInstantiatesAttr());
}

bool isCustomKernel(kernel::FuncOp kernel) { return bool(customOf(kernel)); }

StringRef customFunction(kernel::FuncOp kernel) { return customOf(kernel).getFunction(); }

FailureOr<std::string> customText(kernel::FuncOp kernel, StringAttr text, StringRef target,
                                  StringRef file, StringRef before) {
  if (!text)
    return kernel.emitOpError("is a kernel of the model's own without a text for ") << target;
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
  const kernel::CustomAttr custom = customOf(kernel);
  std::string text =
      fmt::format("::{}({}, {}", customFunction(kernel).str(), begin.str(), end.str());
  auto add = [&](int64_t position, bool isRead) {
    const BlockArgument argument = kernel.getArgument(static_cast<unsigned>(position));
    text += ", " + arrayText(argument, isRead, pointerOf(argument));
  };
  for (int64_t position : custom.getInputs().asArrayRef())
    add(position, true);
  for (auto places : custom.getOutputs().getAsRange<DenseI64ArrayAttr>()) {
    if (places.size() != 1)
      return kernel.emitOpError("has a result that lies in ") << places.size() << " places";
    add(places[0], false);
  }
  return text + ")";
}

} // namespace nano::codegen
