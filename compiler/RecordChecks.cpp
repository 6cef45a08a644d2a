// Kernels in the place of functions, and the model that measures, on random inputs, whether they
// and their derivatives are what they should be.
#include "base/Target.h"
#include "compiler/Recorder.h"

#include "ir/graph/Custom.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/xxhash.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

using namespace mlir;

namespace nano::frontend {

void replace(const char *function, const Kernel &by, const Replacement &how, Line at) {
  Recorder::current().replace(function, by, how, at);
}

Shapes::Shapes(std::initializer_list<Shape> list, Line at) {
  if (list.size() > Tensors::most)
    fail(at, fmt::format("more than {} shapes for a kernel", Tensors::most));
  for (const Shape &shape : list) {
    ranks[count] = shape.rank;
    std::copy_n(shape.sizes, Shape::maxRank, sizes[count]);
    ++count;
  }
}

//===- Replacements ------------------------------------------------------------===//

namespace {
constexpr const char *replaceable[] = {"attention", "crossEntropy", "gather", "gelu",
                                       "geluTanh",  "layerNorm",    "linear", "logSumExp",
                                       "matmul",    "norm"};

std::string lineText(Line at) { return fmt::format("{}:{}", at.file, at.line); }

/// "f32 [64, 768]"
std::string describe(RankedTensorType type) {
  return fmt::format("{} {}", nameOf(Recorder::dtypeOf(type.getElementType())),
                     text(type.getShape()));
}

std::string describe(ArrayRef<RankedTensorType> types) {
  return fmt::format(
      "{}", fmt::join(llvm::map_range(types, [](RankedTensorType type) { return describe(type); }),
                      ", "));
}

/// The input of a kernel that is indices, and what they are below: what it declares, or what those
/// of the function are that it replaces.
struct Indexed {
  int input;
  int64_t bound;
};
std::optional<Indexed> indexedOf(const KernelCode &code, StringRef function,
                                 const Tensors &inputs) {
  if (code.indexInput >= 0)
    return Indexed{code.indexInput, code.indexBound(inputs)};
  if (function == "gather" || function == "crossEntropy")
    return Indexed{1, inputs[0].size(function == "gather" ? 0 : 1)};
  return std::nullopt;
}

bool isFloat(RankedTensorType type) { return isa<FloatType>(type.getElementType()); }
} // namespace

void Recorder::replace(const char *function, const Kernel &by, const Replacement &how, Line at) {
  if (!llvm::is_contained(replaceable, StringRef(function))) {
    std::vector<std::string> nearest(std::begin(replaceable), std::end(replaceable));
    auto distance = [&](const std::string &name) {
      return StringRef(name).edit_distance_insensitive(function);
    };
    llvm::stable_sort(nearest, [&](const std::string &a, const std::string &b) {
      return distance(a) < distance(b);
    });
    fail(at, fmt::format("replace: there is no function '{}' that a kernel can take the place of; "
                         "the nearest are {}, {} and {}",
                         function, nearest[0], nearest[1], nearest[2]));
  }
  if (by.model != model)
    fail(at, "replace: this kernel was never declared: kernel(\"name\", {…}) does");
  if (how.target && !findTarget(how.target))
    fail(at,
         fmt::format("replace: there is no target '{}'; there are {}", how.target, targetNames()));
  if (!(how.tolerance >= 0 && how.tolerance < 1))
    fail(at, fmt::format("replace: a tolerance of {}; it must lie in [0, 1)", how.tolerance));
  replacements.push_back({function, by, how, at});
}

std::optional<Tensor> Recorder::replacement(const char *function, const Tensors &inputs,
                                            double number, Line at,
                                            const std::function<Tensor(const Tensors &)> &ours) {
  if (replacements.empty() || replacesNothing || program == 0 || outerProgram != 0)
    return std::nullopt;
  for (ReplacementRecord &record : llvm::reverse(replacements)) {
    const KernelRecord &kernel = kernels[record.by.id];
    if (record.function != function || !hasText(kernel) ||
        (record.how.target && input.kernels.target != record.how.target))
      continue;
    Block *block = builder.getInsertionBlock();
    for (int i = 0; i < inputs.size(); ++i)
      value(inputs[i], at, function); // loads parameters
    if (record.how.when && !record.how.when(inputs))
      continue;
    CheckRecord check;
    check.of = record.by;
    check.function = function;
    check.number = number;
    check.ours = ours;
    check.check.isReplacement = true;
    check.check.tolerance = record.how.tolerance;
    record.applies = true;
    const std::optional<std::string> name = addCheck(std::move(check), inputs, at);
    // Where checks are recorded, those that are left out are not measured, and no more.
    if (!name || (!input.kernels.recordsChecks && input.kernels.refused.count(*name)))
      return std::nullopt;
    // Its type; what computes it is taken away again.
    Operation *const before = block->empty() ? nullptr : &block->back();
    replacesNothing = true;
    const auto wanted = typeOf(ours(inputs), at, function);
    replacesNothing = false;
    while (!block->empty() && &block->back() != before)
      block->back().erase();
    const Tensors results = call(record.by, inputs, at);
    if (results.size() != 1 || typeOf(results[0], at, function) != wanted)
      fail(at, fmt::format("replace: kernel '{}' gives {}, {} {}", kernel.name,
                           results.size() != 1 ? fmt::format("{} results", results.size())
                                               : describe(typeOf(results[0], at, function)),
                           function, describe(wanted)));
    // Nobody else checks them where the function's op is gone.
    if (const std::optional<Indexed> indexed = indexedOf(kernel.code, function, inputs))
      value(results[0], at, function)
          .getDefiningOp<graph::CustomOp>()
          .setIndexed({indexed->input, indexed->bound});
    return results[0];
  }
  return std::nullopt;
}

//===- Checks ------------------------------------------------------------------===//

std::optional<std::string> Recorder::addCheck(CheckRecord record, const Tensors &inputs, Line at) {
  // Larger ones take the emulator too long.
  constexpr int64_t mostElements = int64_t(1) << 14;
  const KernelRecord &kernel = kernels[record.of.id];
  const Shapes &shapes = kernel.code.checkedAt;
  if (shapes.count != 0 && shapes.count != inputs.size())
    fail(at, fmt::format("kernel '{}': .checkedAt has {} shapes for {} inputs", kernel.name,
                         shapes.count, inputs.size()));
  int64_t elements = 0;
  bool isNarrow = false;
  for (int i = 0; i < inputs.size(); ++i) {
    RankedTensorType type = typeOf(inputs[i], at, "a check");
    if (shapes.count != 0)
      type = tensorType({shapes.sizes[i], static_cast<size_t>(shapes.ranks[i])},
                        type.getElementType(), at, ".checkedAt");
    elements += type.getNumElements();
    isNarrow |= type.getElementTypeBitWidth() < 32;
    record.inputs.push_back(type);
  }
  KernelCheck &check = record.check;
  record.at = at;
  check.line = lineText(at);
  check.kernel = static_cast<uint32_t>(record.of.id);
  check.about = fmt::format("kernel '{}'{}, of {}", kernel.name,
                            check.isReplacement ? " in place of " + record.function : "",
                            describe(record.inputs));
  if (check.tolerance == 0)
    check.tolerance = check.isReplacement ? (isNarrow ? 1e-2 : 1e-5) : (isNarrow ? 0.2 : 0.03);
  for (const CheckRecord &other : checks)
    if (other.check.about == check.about && other.number == record.number)
      return other.check.name;
  if (elements > mostElements) {
    const std::string remark =
        fmt::format("{}: remark: {}, which have {} elements, is not checked{}; give it .checkedAt "
                    "of {} at most",
                    check.line, check.about, elements,
                    check.isReplacement ? ", and replaces nothing" : "", mostElements);
    std::vector<std::string> &told = check.isReplacement ? remarks : unchecked;
    if (!llvm::is_contained(told, remark))
      told.push_back(remark);
    return std::nullopt;
  }
  // By what it is of, so that it has the same name where others are refused.
  check.name = fmt::format("check.{:016x}",
                           llvm::xxh3_64bits(fmt::format("{}, {}", check.about, record.number)));
  checks.push_back(std::move(record));
  return checks.back().check.name;
}

namespace {

/// f32 of anything.
Tensor wide(const Tensor &x) { return cast(x, f32); }

Shape shapeOf(RankedTensorType type) {
  Shape shape({});
  for (int64_t size : type.getShape())
    shape.sizes[shape.rank++] = size;
  return shape;
}

/// Integers for an input: zeros, of attention's last keys the queries' own.
Tensor integers(const std::string &function, int i, RankedTensorType type) {
  return function == "attention" && i == 4 ? iota(shapeOf(type), 0) : full(shapeOf(type), 0, i32);
}

} // namespace

/// The relative error of <gradient, v> against (f(x + h·v) − f(x − h·v))/2h for random signs v, f
/// the sum of the results weighted by random numbers; over the gradient's norm, which is what the
/// product is like. The largest of three.
Tensor Recorder::measureDerivative(const CheckRecord &record, const Tensors &inputs) {
  const Line at = record.at;
  bool isNarrow = false;
  const Tensors results = call(record.of, inputs, at);
  Tensors weights, narrow;
  for (int i = 0; i < results.size(); ++i) {
    const RankedTensorType type = typeOf(results[i], at, "a check");
    isNarrow |= type.getElementTypeBitWidth() < 32;
    weights.add(isFloat(type) ? randomNormal(shapeOf(type)) : Tensor());
    narrow.add(isFloat(type) ? frontend::cast(weights[i], dtypeOf(type.getElementType()))
                             : Tensor());
  }
  for (RankedTensorType type : record.inputs)
    isNarrow |= type.getElementTypeBitWidth() < 32;
  // Wide enough that results' roundings do not count, and narrow where a function has corners.
  const double h = isNarrow ? 0x1p-3 : 0x1p-10;
  const Tensors gradients = kernels[record.of.id].code.derivative(inputs, results, narrow);
  Tensor squares = full({}, 0, f32), worst = full({}, 0, f32);
  for (int i = 0; i < gradients.size(); ++i)
    if (gradients[i].program != 0)
      squares += sum(square(wide(gradients[i])));
  constexpr int directions = 3;
  for (int k = 0; k < directions; ++k) {
    Tensors up, down;
    Tensor product = full({}, 0, f32);
    for (int i = 0; i < inputs.size(); ++i) {
      if (i >= gradients.size() || gradients[i].program == 0) {
        up.add(inputs[i]);
        down.add(inputs[i]);
        continue;
      }
      const RankedTensorType type = record.inputs[i];
      const Tensor v = 2.0 * randomBernoulli(shapeOf(type), 0.5) - 1.0;
      const DType element = dtypeOf(type.getElementType());
      up.add(frontend::cast(wide(inputs[i]) + h * v, element));
      down.add(frontend::cast(wide(inputs[i]) - h * v, element));
      product += sum(wide(gradients[i]) * v);
    }
    const Tensors above = call(record.of, up, at), below = call(record.of, down, at);
    Tensor difference = full({}, 0, f32);
    for (int i = 0; i < results.size(); ++i)
      if (weights[i].program != 0)
        difference += sum(weights[i] * (wide(above[i]) - wide(below[i])));
    const Tensor slope = difference / (2 * h);
    worst = max(worst, abs(slope - product) / (sqrt(squares) + abs(slope) + 1e-20));
  }
  return worst;
}

Tensor Recorder::measure(const CheckRecord &record) {
  const Line at = record.at;
  Tensors inputs;
  for (auto [i, type] : llvm::enumerate(record.inputs)) {
    const DType element = dtypeOf(type.getElementType());
    inputs.add(frontend::cast(isFloat(type) ? randomNormal(shapeOf(type))
                                            : integers(record.function, static_cast<int>(i), type),
                              element));
  }
  if (const std::optional<Indexed> indexed =
          indexedOf(kernels[record.of.id].code, record.function, inputs)) {
    Tensors with;
    for (int i = 0; i < inputs.size(); ++i)
      with.add(i == indexed->input
                   ? (iota(shapeOf(record.inputs[i]), 0) * 7.0) % double(indexed->bound)
                   : inputs[i]);
    inputs = with;
  }
  if (record.check.isReplacement) {
    const Tensor ours = wide(record.ours(inputs)), given = wide(call(record.of, inputs, at)[0]);
    return maximum(abs(given - ours)) / (maximum(abs(ours)) + 1e-30);
  }
  if (kernels[record.of.id].code.derivative)
    return measureDerivative(record, inputs);
  // What is no number, since nothing was written there, stays so.
  const Tensors results = call(record.of, inputs, at);
  Tensor none = full({}, 0, f32);
  for (int i = 0; i < results.size(); ++i)
    none += 0.0 * sum(wide(results[i]));
  return none;
}

TracedModel Recorder::recordChecks() {
  const Line at{input.file.c_str(), 1, 0};
  TraceInput own = input;
  own.overrides.clear();
  own.defaults = nullptr;
  own.scales.reset();
  own.reports = {"all"};
  Recorder other(*builder.getContext(), own);
  // Handles that kernels' functions hold stay what they are.
  other.model = model;
  other.kernels = kernels;
  other.declared = declared;
  other.replacesNothing = true;
  const Optimizer group = frontend::optimizer(
      "checks", {.lr = 0.1}, [](Update u) { u.set(u.parameter - u.lr * u.gradient); }, at);
  const Tensor one = other.param("one", {1}, f32, frontend::constant(1), group, at);
  other.training({.vocabSize = 2, .eosToken = 0, .globalBatch = 1, .numIterations = 1}, at);
  auto losses = [&](Tensor, Tensor) {
    if (other.isTraining())
      for (const CheckRecord &record : checks)
        if (!input.kernels.refused.count(record.check.name))
          other.report(record.check.name, At(other.measure(record), at), Report::max);
    return At(one, at).tensor;
  };
  train(1, Loss::sum, losses, at);
  validate(1, Loss::sum, losses, at);
  return other.finish();
}

} // namespace nano::frontend
