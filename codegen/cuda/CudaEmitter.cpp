// The frame of a kernel's source: comment, includes, signature, operands; CudaPrinter fills it.
#include "codegen/cuda/CudaEmitter.h"

#include "base/Limits.h"

#include "codegen/DeviceLibrary.h"

#include "codegen/CustomKernels.h"
#include "codegen/cuda/CudaPrinter.h"
#include "codegen/cuda/CudaTemplates.h"
#include "ir/step/Step.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

#include <fmt/format.h>

#include <map>
#include <set>

using namespace mlir;

namespace nano::codegen {

/// "models/gpt124m.cpp:41, 43": the model lines that the kernel came from.
static std::string linesText(kernel::FuncOp kernel) {
  std::map<std::string, std::set<unsigned>> lines;
  kernel.getLoc()->walk([&](Location part) {
    if (auto line = dyn_cast<FileLineColLoc>(part))
      lines[line.getFilename().str()].insert(line.getLine());
    return WalkResult::advance();
  });
  std::string text;
  for (const auto &[file, numbers] : lines)
    text += fmt::format("{}{}:{}", text.empty() ? "" : "; ", file, fmt::join(numbers, ", "));
  return text;
}

FailureOr<std::string> cudaKernelText(kernel::FuncOp kernel, int64_t segments) {
  const std::optional<kernel::LaunchAttr> launch = kernel.getLaunch();
  if (!launch)
    return kernel.emitOpError("does not say how it is launched on a GPU");
  const int64_t arguments = kernel.getNumBuffers();
  const ArrayAttr maps = kernel.getTensorMapsAttr();
  if (maps && segments > 1)
    return kernel.emitOpError("has tensor maps, which are of one set of operands; it is launched "
                              "over ")
           << segments;
  if (8 + segments * 8 * (arguments + 2) > maxParameterBytes)
    return kernel.emitOpError("is launched over ")
           << segments << " sets of " << arguments << " operands, which are more than the "
           << maxParameterBytes << " bytes that parameters may have";
  std::string name = kernel.getSymName().str();
  std::string text = cudaComment(name + ": " + kernel.getSummary().value_or("").str());
  if (std::string lines = linesText(kernel); !lines.empty())
    text += cudaComment(lines);
  bool gathers = false;
  kernel.walk([&](func::CallOp call) { gathers |= call.getCallee().starts_with("storeColumns<"); });
  text += gathers ? "#include \"nano_tiles.h\"\n" : "#include \"nano_kernels.h\"\n";

  CudaPrinter printer(2);
  printer.sharesExponentials = launch->getSharesExponentials();
  std::string definitions;
  const bool isTemplate = kernel.getInstantiates().has_value();
  if (isTemplate) {
    FailureOr<std::string> own = templateDefinitions(kernel, text);
    if (failed(own))
      return failure();
    definitions = *own;
    printer.names.take("x"); // the template's operands
    printer.names.take("maps");
    if (isCustomKernel(kernel))
      printer.names.take(customFunction(kernel));
  }
  std::string body;
  for (int64_t i = 0; i < arguments; ++i) {
    BlockArgument argument = kernel.getArgument(i);
    const kernel::ParameterAttr parameter = kernel.getParameter(i);
    const StringRef wanted = parameter.getName();
    std::string pointer =
        printer.names.take(wanted.empty() ? fmt::format("operand_{}", i) : wanted.str());
    const bool isConstant = parameter.getConstant();
    if (!isTemplate || needsPointer(kernel, i))
      body += fmt::format("  auto *{} = work.template pointer<{}{}>({});\n", pointer,
                          isConstant ? "const " : "",
                          cudaType(cast<MemRefType>(argument.getType()).getElementType()), i);
    printer.define(argument, pointer, isConstant);
    if (parameter.getAlignment())
      printer.align(argument, parameter.getAlignment());
  }
  const int64_t blockIterations = launch->getBlockIterations();
  printer.define(kernel.getArgument(arguments + 1), "work.begin");
  printer.define(kernel.getArgument(arguments + 2), "work.end");
  printer.knowDivisor(kernel.getArgument(arguments + 1), blockIterations & -blockIterations);
  if (isTemplate) {
    FailureOr<std::string> call = templateCall(kernel, printer);
    if (failed(call))
      return failure();
    printer.out = *call;
  } else if (failed(printer.block(kernel.getBody().front()))) {
    return failure();
  }

  std::string blocks = isTemplate ? ", 1" : "";
  if (const int64_t resident = launch->getResidentBlocks())
    blocks = fmt::format(", {}", resident);
  text += definitions;
  std::string cluster, mapped;
  if (const int64_t clusterBlocks = launch->getCluster(); clusterBlocks > 1)
    cluster = fmt::format("__cluster_dims__({}, 1, 1) ", clusterBlocks);
  if (maps)
    mapped = fmt::format(",\n    const __grid_constant__ nano::TensorMaps<{}> maps", maps.size());
  text += fmt::format("\nextern \"C\" __global__ void {}__launch_bounds__({}{})\n{}(const "
                      "__grid_constant__ nano::Launch<{}, {}> launch{}) {{\n",
                      cluster, launch->getThreads(), blocks, name, arguments, segments, mapped);
  text += fmt::format("  const auto work = launch.find(blockIdx.x, {});\n", blockIterations);
  return text + body + printer.out + "}\n";
}

llvm::StringMap<int64_t> largestLaunches(ModuleOp module) {
  llvm::StringMap<int64_t> largest;
  module.walk([&](step::LaunchOp launch) {
    int64_t &segments = largest[launch.getKernel()];
    segments = std::max<int64_t>(segments, launch.getSegments());
  });
  return largest;
}

FailureOr<std::vector<plan::Source>> cudaSources(ModuleOp module) {
  return cudaSources(module.lookupSymbol<ModuleOp>(step::kernelModuleName),
                     largestLaunches(module));
}

FailureOr<std::vector<plan::Source>> cudaSources(ModuleOp kernels,
                                                 const llvm::StringMap<int64_t> &segments) {
  std::vector<plan::Source> sources;
  if (kernels)
    for (auto kernel : kernels.getOps<kernel::FuncOp>()) {
      FailureOr<std::string> text =
          cudaKernelText(kernel, std::max<int64_t>(1, segments.lookup(kernel.getSymName())));
      if (failed(text))
        return failure();
      sources.push_back({(kernel.getSymName() + ".cu").str(), std::move(*text)});
    }
  for (plan::Source &header : deviceLibrary())
    sources.push_back(std::move(header));
  return sources;
}

} // namespace nano::codegen
