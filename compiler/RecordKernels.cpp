// Kernels of the model's own: declarations, calls as nano.custom, and derivatives as regions of it.
#include "compiler/Recorder.h"

#include "base/InputFile.h"
#include "ir/graph/Custom.h"
#include "ir/graph/TableOps.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

using namespace mlir;

namespace nano::frontend {

/// "f32 [1, 8]"
static std::string shapeAndType(Type type) {
  const auto tensor = mlir::cast<RankedTensorType>(type);
  return fmt::format("{} {}", nameOf(Recorder::dtypeOf(tensor.getElementType())),
                     text(tensor.getShape()));
}

//===- What model files hold ---------------------------------------------------===//

Tensors::Tensors(std::initializer_list<Tensor> tensors, Line at) {
  for (const Tensor &tensor : tensors)
    add(tensor, at);
}

void Tensors::add(const Tensor &tensor, Line at) {
  if (count == most)
    fail(at, fmt::format("more than {} tensors for a kernel", most));
  list[count++] = tensor;
}

int Tensors::check(int i) const {
  if (i < 0 || i >= count)
    throw ModelError(fmt::format("tensor {} of a kernel's {}", i, count));
  return i;
}

KernelResult::KernelResult(const Shape &shape, DType type, Access access)
    : rank(shape.rank), type(type), access(access) {
  for (int i = 0; i < rank; ++i)
    sizes[i] = shape.sizes[i];
}

KernelResult::KernelResult(const Tensor &like, Access access, Line at)
    : rank(like.rank(at)), type(like.type(at)), access(access) {
  for (int i = 0; i < rank; ++i)
    sizes[i] = like.size(i, at);
}

KernelResults::KernelResults(std::initializer_list<KernelResult> results, Line at) {
  if (results.size() > Tensors::most)
    fail(at, fmt::format("a kernel has {} results; at most {} are possible", results.size(),
                         Tensors::most));
  for (const KernelResult &result : results)
    list[count++] = result;
}

Inputs::Inputs(std::initializer_list<int> inputs, Line at) {
  if (inputs.size() > size_t(Tensors::most))
    fail(at, fmt::format("{} inputs of a kernel; at most {} are possible", inputs.size(),
                         Tensors::most));
  for (const int input : inputs)
    list[count++] = input;
}

Kernel kernel(const char *name, const KernelCode &code, Line at) {
  return Recorder::current().kernel(name, code, at);
}

const char *textOfFile(const char *path, Line at) {
  return Recorder::current().textOfFile(path, at);
}

Tensors Kernel::all(const Tensors &inputs, Line at) const {
  return Recorder::current().call(*this, inputs, at);
}

Tensor Kernel::one(const Tensors &inputs, Line at) const {
  const Tensors results = all(inputs, at);
  if (results.size() != 1)
    fail(at, fmt::format("this kernel has {} results: call it by .all({{…}})", results.size()));
  return results[0];
}

//===- Declarations ------------------------------------------------------------===//

const char *Recorder::textOfFile(const char *path, Line at) {
  Result<std::string> text = readInput(pathOf(path), input::model);
  if (!text)
    fail(at, text.error().message);
  return texts.emplace_back(std::move(*text)).c_str();
}

Kernel Recorder::kernel(const char *name, const KernelCode &code, Line at) {
  countOp(at);
  auto refuse = [&](const std::string &message) {
    fail(at, fmt::format("kernel '{}': {}", name, message));
  };
  if (!graph::isIdentifier(name))
    refuse("the name is no identifier of C++: letters, digits and _ only");
  if (llvm::any_of(kernels, [&](const KernelRecord &other) { return other.name == name; }))
    refuse("there is one of this name already");
  if (!code.cpu && !code.cuda)
    refuse("it has neither .cpu nor .cuda");
  for (auto [text, what] : {std::pair(code.cpu, ".cpu"), std::pair(code.cuda, ".cuda")})
    if (text && StringRef(text).find(name) == StringRef::npos)
      refuse(fmt::format("its {} defines no function of that name", what));
  if (!code.results)
    refuse("it does not say its .results");
  if (code.threads < 32 || code.threads > 1024 || code.threads % 32 != 0)
    refuse(
        fmt::format(".threads is {}; it must be a multiple of 32 from 32 to 1024", code.threads));
  for (auto [number, what] :
       {std::pair(code.grain, ".grain"), std::pair(code.iterationsPerBlock, ".iterationsPerBlock")})
    if (number < 1 || number > INT32_MAX)
      refuse(fmt::format("{} is {}; it must be at least 1", what, number));
  if (code.sharedBytes < 0 || code.sharedBytes > graph::mostCustomSharedBytes)
    refuse(fmt::format(".sharedBytes is {}; a block has at most {}", code.sharedBytes,
                       graph::mostCustomSharedBytes));
  if (code.indexInput >= 0 && !code.indexBound)
    refuse("it has an .indexInput and no .indexBound");
  if (code.kept.count > 0 && !code.row)
    refuse("it has .kept inputs and no .row that reads them");
  if (!(code.flops >= 0 && code.flops < 1e18))
    refuse(fmt::format(".flops is {}; it must be a number of at least 0", code.flops));
  Kernel handle;
  handle.model = model;
  handle.id = static_cast<uint32_t>(kernels.size());
  kernels.push_back({name, code, code.cpu ? std::optional<std::string>(code.cpu) : std::nullopt,
                     code.cuda ? std::optional<std::string>(code.cuda) : std::nullopt});
  return handle;
}

//===- Calls -------------------------------------------------------------------===//

Tensors Recorder::call(const Kernel &kernel, const Tensors &inputs, Line at) {
  if (kernel.model != model)
    fail(at, "this kernel was never declared: kernel(\"name\", {…}) does");
  // What it refers to stays where it is, whatever kernels the functions below declare.
  const KernelRecord record = kernels[kernel.id];
  const std::string what = fmt::format("kernel '{}'", record.name);
  SmallVector<Value> operands;
  for (int i = 0; i < inputs.size(); ++i)
    operands.push_back(value(inputs[i], at, what.c_str()));
  if (operands.empty())
    fail(at, what + ": needs an input at least");
  for (Value operand : operands)
    if (const auto type = mlir::cast<RankedTensorType>(operand.getType());
        type.getNumElements() == 0)
      fail(at, fmt::format("{}: an input has no elements: {}", what, text(type.getShape())));

  SmallVector<Type> types;
  SmallVector<int64_t> added;
  const KernelResults results = record.code.results(inputs);
  if (results.count == 0)
    fail(at, what + ": has no result");
  for (int i = 0; i < results.count; ++i) {
    const KernelResult &result = results.list[i];
    types.push_back(tensorType({result.sizes, static_cast<size_t>(result.rank)},
                               elementType(result.type), at, what.c_str(), /*least=*/1));
    if (result.access == Access::add)
      added.push_back(i);
  }
  const int64_t iterations = record.code.iterations ? record.code.iterations(inputs) : 1;
  if (iterations < 1 || iterations > INT32_MAX)
    fail(at, fmt::format("{}: {} iterations; it must have at least 1", what, iterations));

  countOp(at);
  auto text = [&](const std::optional<std::string> &own) {
    return own ? builder.getStringAttr(*own) : StringAttr();
  };
  const KernelCode &code = record.code;
  auto op = graph::CustomOp::create(
      builder, location(at), types, builder.getStringAttr(record.name), operands,
      builder.getI64IntegerAttr(iterations), text(record.cpu), text(record.cuda),
      builder.getI64IntegerAttr(code.grain), builder.getI64IntegerAttr(code.threads),
      builder.getI64IntegerAttr(code.iterationsPerBlock),
      builder.getI64IntegerAttr(code.sharedBytes), builder.getF64FloatAttr(code.flops),
      builder.getDenseI64ArrayAttr(added), builder.getDenseI64ArrayAttr({}),
      builder.getDenseI64ArrayAttr({}), builder.getDenseI64ArrayAttr({}),
      builder.getDenseI64ArrayAttr({}));
  if (code.indexInput >= 0) {
    const int64_t bound = code.indexBound(inputs);
    if (code.indexInput >= inputs.size() || inputs[code.indexInput].type(at) != i32 || bound < 1)
      fail(at, fmt::format("{}: .indexInput {} is no i32 input, or below {} is no index", what,
                           code.indexInput, bound));
    op.setIndexed({code.indexInput, bound});
  }
  // A derivative is differentiated no further, so that it may call the kernel that it is of.
  if (code.derivative && outerProgram == 0)
    recordDerivative(op, code, at);
  if ((code.byRows.count > 0 || code.row) && outerProgram == 0)
    recordRow(op, kernel, code, at);
  if (hasText(record) && outerProgram == 0 && !replacesNothing) {
    CheckRecord check;
    check.of = kernel;
    addCheck(std::move(check), inputs, at);
  }
  Tensors handles;
  for (Value result : op->getResults())
    handles.add(handle(result), at);
  return handles;
}

void Recorder::recordRow(graph::CustomOp op, const Kernel &kernel, const KernelCode &code,
                         Line at) {
  OpBuilder::InsertionGuard guard(builder);
  const std::string what = fmt::format("kernel '{}'", op.getName().str());
  // The rows that there are, by who says so first.
  int64_t rows = 0;
  auto check = [&](RankedTensorType type, const std::string &whose) {
    const int64_t own = type.getRank() == 0 ? 0 : type.getDimSize(0);
    if (own == 0 || (rows != 0 && own != rows))
      fail(at, fmt::format("{}: {}, {}, has not the positions as its dimension 0{}", what, whose,
                           text(type.getShape()),
                           rows == 0 ? "" : fmt::format(", of which there are {}", rows)));
    rows = own;
  };
  SmallVector<Type> types(op->getOperandTypes());
  SmallVector<int64_t> byRows, kept;
  auto name = [&](const Inputs &inputs, SmallVector<int64_t> &into, const char *field) {
    for (const int input : ArrayRef(inputs.list, static_cast<size_t>(inputs.count))) {
      if (input < 0 || input >= int(op->getNumOperands()) || llvm::is_contained(byRows, input) ||
          llvm::is_contained(kept, input))
        fail(at, fmt::format("{}: {} names input {}, which is not one of its {} or is named twice",
                             what, field, input, op->getNumOperands()));
      check(mlir::cast<RankedTensorType>(types[size_t(input)]), fmt::format("input {}", input));
      into.push_back(input);
    }
  };
  name(code.byRows, byRows, ".byRows");
  name(code.kept, kept, ".kept");
  auto oneRow = [](Type type) {
    const auto tensor = mlir::cast<RankedTensorType>(type);
    SmallVector<int64_t> shape(tensor.getShape());
    shape.front() = 1;
    return tensor.clone(shape);
  };
  for (int64_t input : byRows)
    types[size_t(input)] = oneRow(types[size_t(input)]);
  types.push_back(RankedTensorType::get({1}, builder.getI32Type()));
  for (auto [i, type] : llvm::enumerate(op->getResultTypes()))
    check(mlir::cast<RankedTensorType>(type), fmt::format("result {}", i));
  const Location loc = location(at);
  Region &region = op.getRow();
  Block *block =
      builder.createBlock(&region, region.end(), types, SmallVector<Location>(types.size(), loc));
  outerProgram = program;
  insideRule = "a kernel's row is computed from its inputs, the position and numbers alone";
  program = nextSerial();
  Tensors inputs;
  for (BlockArgument argument : block->getArguments().drop_back())
    inputs.add(handle(argument), at);
  const Tensors made =
      code.row ? code.row(inputs, handle(block->getArguments().back())) : call(kernel, inputs, at);
  SmallVector<Value> yielded;
  for (auto [i, type] : llvm::enumerate(op->getResultTypes())) {
    const Type wanted = oneRow(type);
    const Value row = int(i) < made.size() ? value(made[int(i)], at, what.c_str()) : Value();
    if (made.size() != int(op->getNumResults()) || row.getType() != wanted)
      fail(at, fmt::format("{}: its row has {} results, and result {} is {}; wanted are {}, that "
                           "one {}",
                           what, made.size(), i, row ? shapeAndType(row.getType()) : "missing",
                           op->getNumResults(), shapeAndType(wanted)));
    yielded.push_back(row);
  }
  graph::YieldOp::create(builder, loc, yielded);
  op.setRowInputs(byRows);
  op.setKeptInputs(kept);
  program = outerProgram;
  outerProgram = 0;
  insideRule = nullptr;
}

void Recorder::recordDerivative(graph::CustomOp op, const KernelCode &code, Line at) {
  OpBuilder::InsertionGuard guard(builder);
  const std::string what = fmt::format("the derivative of kernel '{}'", op.getName().str());
  auto isFloat = [](Value value) {
    return isa<FloatType>(mlir::cast<RankedTensorType>(value.getType()).getElementType());
  };
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  for (Value result : op->getResults())
    if (isFloat(result))
      types.push_back(result.getType());
  const Location loc = location(at);
  Region &region = op.getDerivative();
  Block *block =
      builder.createBlock(&region, region.end(), types, SmallVector<Location>(types.size(), loc));
  outerProgram = program;
  insideRule = "the derivative of a kernel computes from its inputs, results, their gradients and "
               "numbers alone";
  program = nextSerial();
  auto *argument = block->args_begin();
  Tensors inputs, results, gradients;
  for (size_t i = 0; i < op->getNumOperands(); ++i)
    inputs.add(handle(*argument++), at);
  for (size_t i = 0; i < op->getNumResults(); ++i)
    results.add(handle(*argument++), at);
  for (Value result : op->getResults())
    gradients.add(isFloat(result) ? handle(*argument++) : Tensor(), at);
  const Tensors made = code.derivative(inputs, results, gradients);
  if (made.size() != inputs.size())
    fail(at, fmt::format("{} returns {} tensors for {} inputs; return Tensor() for one that has no "
                         "gradient",
                         what, made.size(), inputs.size()));
  SmallVector<Value> yielded;
  SmallVector<int64_t> positions;
  for (int i = 0; i < made.size(); ++i) {
    if (made[i].program == 0)
      continue;
    const Value of = op->getOperand(static_cast<unsigned>(i));
    const Value gradient = value(made[i], at, what.c_str());
    const auto wanted = mlir::cast<RankedTensorType>(of.getType());
    const auto given = mlir::cast<RankedTensorType>(gradient.getType());
    if (!isFloat(of))
      fail(at, fmt::format("{} returns a gradient of input {}, which is {}: return Tensor() there",
                           what, i, nameOf(dtypeOf(wanted.getElementType()))));
    if (given.getShape() != wanted.getShape() || !isFloat(gradient))
      fail(at, fmt::format("{} returns {} {} for input {}, which is {} {}", what,
                           nameOf(dtypeOf(given.getElementType())), text(given.getShape()), i,
                           nameOf(dtypeOf(wanted.getElementType())), text(wanted.getShape())));
    yielded.push_back(cast(gradient, wanted.getElementType(), at));
    positions.push_back(i);
  }
  graph::YieldOp::create(builder, loc, yielded);
  for (Operation &inner : *block)
    if (auto custom = dyn_cast<graph::CustomOp>(inner);
        isa<graph::GatherOp, graph::CrossEntropyOp>(inner) ||
        (custom && !custom.getIndexed().empty()))
      fail(at, fmt::format("{} uses {}, whose indices nothing checks there; read them in a kernel "
                           "of its own",
                           what, inner.getName().stripDialect().str()));
  op.setGradientOf(positions);
  program = outerProgram;
  outerProgram = 0;
  insideRule = nullptr;
}

} // namespace nano::frontend
