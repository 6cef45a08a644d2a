// The kernel function of a launch of a template, and what it is known by.
#include "passes/cuda/CudaTemplateKernels.h"
#include "passes/cuda/TemplateFunctions.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace nano::kernels {

void identify(NamedAttrList &fields, StringRef name, Attribute value) {
  fields.set(("nano." + name).str(), value);
}

namespace {

/// Positions of operands that are written.
llvm::SmallSetVector<int64_t, 8> writtenOperands(const TemplateCall &launch) {
  llvm::SmallSetVector<int64_t, 8> written;
  for (const SmallVector<int64_t> &places : launch.instance({}).getWrittenPositions())
    written.insert_range(places);
  return written;
}

/// Positions of operands that are only read but lie where another one is written.
SmallVector<int64_t> updatedOperands(const TemplateCall &launch) {
  const llvm::SmallSetVector<int64_t, 8> written = writtenOperands(launch);
  SmallVector<int64_t> updated;
  for (auto [i, operand] : llvm::enumerate(launch.operands))
    if (!written.contains(int64_t(i)) &&
        llvm::any_of(written, [&, operand = operand](int64_t write) {
          return mayOverlap(launch.operands[write], operand);
        }))
      updated.push_back(int64_t(i));
  return updated;
}

/// The launch's fields under names. A kernel's name ends in a hash of this text, and profiles know
/// kernels by name: what it says of a launch stays as it is.
DictionaryAttr identityOf(const TemplateCall &launch) {
  Builder b(launch.operands.front().getContext());
  NamedAttrList fields = launch.identity;
  for (auto [name, value] :
       {std::pair("grain", launch.grain), std::pair("block_iterations", launch.blockIterations),
        std::pair("cluster", launch.cluster), std::pair("resident_blocks", launch.residentBlocks)})
    if (value)
      identify(fields, name, b.getI64IntegerAttr(*value));
  if (launch.flops)
    identify(fields, "flops", launch.flops);
  if (launch.flopsPerKey)
    identify(fields, "flops_per_key", launch.flopsPerKey);
  if (launch.sharesExponentials)
    identify(fields, "shares_exponentials", b.getUnitAttr());
  SmallVector<Attribute> maps;
  for (kernel::TensorMapAttr map : launch.tensorMaps)
    maps.push_back(
        b.getDenseI64ArrayAttr({map.getBuffer(), map.getColumns(), map.getRows(), map.getRowBytes(),
                                map.getBoxColumns(), map.getBoxRows(), map.getSwizzleBytes()}));
  if (!maps.empty())
    identify(fields, "tensor_maps", b.getArrayAttr(maps));
  if (launch.epilogue)
    identify(fields, "updated", b.getDenseI64ArrayAttr(updatedOperands(launch)));
  return fields.getDictionary(b.getContext());
}

/// What a launch's template does with an operand. One that lies where another one is written is no
/// constant.
kernel::ParameterAttr parameterOf(const TemplateCall &launch, int64_t i) {
  const Value operand = launch.operands[i];
  const kernel::TemplateAttrInterface instance = launch.instance({});
  const bool isWritten = writtenOperands(launch).contains(i);
  bool isAdded = false;
  for (const auto &[result, places] : llvm::enumerate(instance.getWrittenPositions()))
    isAdded |= instance.isAdded(result) && llvm::is_contained(places, i);
  const kernel::Access access =
      isAdded ? kernel::Access::add
              : kernel::accessOf(llvm::is_contained(instance.getReadPositions(), i), isWritten);
  const bool isConstant = !isWritten && !llvm::is_contained(updatedOperands(launch), i);
  return kernel::ParameterAttr::get(operand.getContext(), access, step::nameOf(operand),
                                    /*alignment=*/0, isConstant,
                                    /*picks=*/llvm::is_contained(launch.seldom, i) ? 1 : 0);
}
} // namespace

std::string templateKey(const TemplateCall &launch) {
  std::string key;
  llvm::raw_string_ostream os(key);
  os << identityOf(launch) << '\n';
  for (Value operand : launch.operands)
    os << KernelFrame::argumentType(cast<MemRefType>(operand.getType())) << ' '
       << alignmentOf(operand) << '\n';
  OpPrintingFlags flags = OpPrintingFlags().printGenericOpForm().useLocalScope();
  for (Region *region : {launch.score, launch.scoreGrad})
    if (region)
      for (Operation &op : region->front()) {
        op.print(os, flags);
        os << '\n';
      }
  if (launch.epilogue)
    for (Operation &op : *launch.epilogue) {
      op.print(os, flags);
      os << '\n';
    }
  return key;
}

FailureOr<kernel::FuncOp> templateFunction(Operation *command, const TemplateCall &launch,
                                           StringRef name, OpBuilder &moduleBuilder) {
  Builder b(command->getContext());
  auto task = dyn_cast<step::TaskOp>(command);
  Location loc = launch.epilogue ? linesOf(task)
                 : task          ? task.getBody().front().front().getLoc()
                                 : command->getLoc();
  TemplateFunctions functions;
  auto named = [&](StringRef suffix) { return (name + suffix).str(); };
  if (launch.epilogue) {
    if (failed(epilogueFunction(task, named(".epilogue"), moduleBuilder)))
      return failure();
    functions.epilogue = FlatSymbolRefAttr::get(b.getContext(), named(".epilogue"));
  }
  for (auto [suffix, region, function] :
       {std::tuple(".score", launch.score, &functions.score),
        std::tuple(".score_grad", launch.scoreGrad, &functions.scoreGrad)})
    if (region) {
      if (failed(scoreFunction(*region, named(suffix), moduleBuilder)))
        return failure();
      *function = FlatSymbolRefAttr::get(b.getContext(), named(suffix));
    }
  SmallVector<Type> types;
  for (Value operand : launch.operands)
    types.push_back(KernelFrame::argumentType(cast<MemRefType>(operand.getType())));
  types.push_back(MemRefType::get({launch.sharedBytes}, b.getI8Type(), MemRefLayoutAttrInterface(),
                                  b.getI64IntegerAttr(sharedMemorySpace)));
  types.append(2, b.getIndexType());
  SmallVector<kernel::ParameterAttr> parameters;
  for (int64_t i = 0; i < int64_t(launch.operands.size()); ++i)
    parameters.push_back(parameterOf(launch, i));
  auto function =
      kernel::FuncOp::create(moduleBuilder, loc, name, b.getFunctionType(types, {}), parameters);
  OpBuilder inside = OpBuilder::atBlockEnd(function.addEntryBlock());
  kernel::ReturnOp::create(inside, loc);
  function.setGrain(launch.grain.value_or(1));
  function.setLaunchAttr(kernel::LaunchAttr::get(
      b.getContext(), launch.threads, launch.blockIterations.value_or(1),
      launch.cluster.value_or(1), launch.residentBlocks.value_or(0), launch.sharesExponentials));
  if (launch.flops)
    function.setFlopsAttr(launch.flops);
  if (launch.flopsPerKey)
    function.setFlopsPerKeyAttr(launch.flopsPerKey);
  if (launch.flopsType)
    function.setFlopsType(launch.flopsType);
  if (!launch.tensorMaps.empty())
    function.setTensorMapsAttr(
        b.getArrayAttr(SmallVector<Attribute>(launch.tensorMaps.begin(), launch.tensorMaps.end())));
  function.setSummary(launch.epilogue ? summaryOf(task) : launch.stem);
  function.setInstantiatesAttr(launch.instance(functions));
  return function;
}

} // namespace nano::kernels
