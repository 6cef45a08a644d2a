// Groups of buffers of i32 and operands of kernels: the connected components of who is given what.
#include "codegen/IndexGroups.h"

#include "ir/graph/Program.h"
#include "ir/graph/RunStages.h"
#include "ir/step/Step.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/IntEqClasses.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace nano::codegen {
namespace {

constexpr plan::IndexGroup anyNumber{INT32_MIN, INT32_MAX};

bool isI32(Value buffer) {
  return cast<MemRefType>(buffer.getType()).getElementType().isInteger(32);
}

/// What a table's elements lie among; any number where the state is none.
plan::IndexGroup rangeOf(graph::StateOp state) {
  if (state.getRole() != graph::Role::Constant)
    return anyNumber;
  plan::IndexGroup range;
  auto take = [&](int64_t number) { range = joined(range, {number, number}); };
  if (DenseElementsAttr data = state.getInit().getData())
    llvm::for_each(data.getValues<int32_t>(), take);
  else if (state.getInit().getKind() == "constant")
    for (double number : ArrayRef<double>(state.getInit().getValues()))
      take(static_cast<int64_t>(number));
  else
    return anyNumber;
  return range;
}

/// What the host puts into an input: token ids, or any number.
plan::IndexGroup rangeOf(step::InputOp input, int64_t vocabulary) {
  if (input.getOutput())
    return {};
  const StringRef name = input.getSymName().rsplit('.').second;
  const bool isTokens = name == "tokens" || name == "targets" || name == "token";
  return isTokens && vocabulary > 0 ? plan::IndexGroup{0, vocabulary - 1} : anyNumber;
}

/// Tokens are below it; 0 where nothing says it.
int64_t vocabularyOf(ModuleOp module) {
  const DictionaryAttr training = graph::runStagesOf(module).front().training;
  auto size = training ? training.getAs<IntegerAttr>("vocab_size") : IntegerAttr();
  return size ? size.getInt() : 0;
}

class Builder {
public:
  void add(ModuleOp module);
  IndexGroups finish();

private:
  /// What stands for a buffer, or for an operand of a kernel.
  unsigned node(Value buffer) { return number(buffers, step::bufferKey(buffer)); }
  unsigned node(StringRef kernel, size_t operand) {
    return number(operands, std::pair(kernel.str(), operand));
  }
  template <typename Map, typename Key> unsigned number(Map &map, const Key &key) {
    auto [known, isNew] = map.try_emplace(key, count);
    if (isNew)
      classes.grow(++count);
    return known->second;
  }

  unsigned count = 0;
  llvm::IntEqClasses classes;
  llvm::DenseMap<const void *, unsigned> buffers;
  std::map<std::pair<std::string, size_t>, unsigned> operands;
  llvm::DenseMap<const void *, plan::IndexGroup> outside; ///< by buffer
  llvm::DenseSet<const void *> scalars;
};

void Builder::add(ModuleOp module) {
  const step::KernelTable kernels(module);
  const int64_t vocabulary = vocabularyOf(module);
  auto enters = [&](StringAttr symbol, plan::IndexGroup range) {
    plan::IndexGroup &known = outside[symbol.getAsOpaquePointer()];
    known = joined(known, range);
  };
  for (auto input : module.getOps<step::InputOp>())
    enters(input.getSymNameAttr(), rangeOf(input, vocabulary));
  for (auto state : module.getOps<graph::StateOp>())
    if (state.getTensorType().getElementType().isInteger(32))
      enters(state.getSymNameAttr(), rangeOf(state));
  for (auto scalar : module.getOps<graph::ScalarOp>()) {
    enters(scalar.getSymNameAttr(), anyNumber);
    scalars.insert(scalar.getSymNameAttr().getAsOpaquePointer());
  }
  module.walk([&](step::LaunchOp launch) {
    const SmallVector<step::Access> accesses = step::accessesOf(launch, kernels);
    const size_t arguments = accesses.size() / launch.getSegments();
    for (auto [i, access] : llvm::enumerate(accesses))
      if (isI32(access.buffer))
        classes.join(node(access.buffer), node(launch.getKernel(), i % arguments));
  });
  module.walk([&](step::CopyOp copy) {
    if (isI32(copy.getSource()))
      classes.join(node(copy.getSource()), node(copy.getTarget()));
  });
}

IndexGroups Builder::finish() {
  classes.compress();
  IndexGroups result;
  result.groups.resize(classes.getNumClasses());
  for (auto [key, node] : buffers) {
    plan::IndexGroup &group = result.groups[classes[node]];
    group = joined(group, outside.lookup(key));
    if (!scalars.contains(key))
      result.buffers[key] = classes[node];
  }
  for (const auto &[operand, node] : operands)
    result.kernels[operand.first].push_back({uint32_t(operand.second), classes[node]});
  return result;
}

} // namespace

IndexGroups indexGroups(ArrayRef<ModuleOp> modules) {
  Builder builder;
  for (ModuleOp module : modules)
    builder.add(module);
  return builder.finish();
}

} // namespace nano::codegen
