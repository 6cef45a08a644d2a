// Statements and control flow of a kernel as CUDA C++; expressions are in CudaExpressions.cpp.
#include "codegen/cuda/CudaPrinter.h"

#include "ir/kernel/Unrolled.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <fmt/format.h>

using namespace mlir;

namespace nano::codegen {

/// Characters of an expression that are easily read at once.
static constexpr size_t longExpression = 64;

void CudaPrinter::define(Value value, std::string text, bool isConstant) {
  values[value] = {std::move(text)};
  constants[value] = isConstant;
}

void CudaPrinter::line(const std::string &text) {
  // Lines that are too long go on behind a comma or an operator, four columns further in.
  std::string rest = text;
  size_t column = indent;
  out.append(column, ' ');
  while (column + rest.size() > 100) {
    size_t cut = std::string::npos;
    for (size_t i = 0; i + column < 100 && i < rest.size(); ++i)
      if (rest[i] == ' ' && i > 0 && StringRef(",+-*?:=").contains(rest[i - 1]))
        cut = i;
    if (cut == std::string::npos)
      break;
    out += rest.substr(0, cut) + "\n";
    rest = rest.substr(cut + 1);
    column = indent + 4;
    out.append(column, ' ');
  }
  out += rest + "\n";
}

//===- Values ----------------------------------------------------------------===//

std::string CudaPrinter::use(Value value, CudaText::Precedence least) {
  const CudaText &text = values[value];
  return text.precedence < least ? "(" + text.text + ")" : text.text;
}

std::string CudaPrinter::useVector(Value value) {
  const CudaText &text = values[value];
  if (!text.isScalar)
    return text.text;
  return fmt::format("nano::splat<{}>({})", cast<VectorType>(value.getType()).getNumElements(),
                     text.text);
}

/// The op's own name, from a NameLoc or its kind.
std::string CudaPrinter::nameFor(Operation *op) {
  if (auto name = dyn_cast<NameLoc>(op->getLoc()))
    return names.take(name.getName());
  Value memory;
  Operation *loaded = op;
  if (auto widened = dyn_cast<arith::ExtFOp>(op))
    if (Operation *operand = widened.getIn().getDefiningOp())
      loaded = operand;
  if (isa<vector::LoadOp, vector::MaskedLoadOp, vector::GatherOp, memref::LoadOp>(loaded))
    memory = loaded->getOperand(0);
  if (memory && values.count(memory))
    return names.take(values[memory].text + "_value");
  if (op->getResult(0).getType().isIndex())
    return names.take("offset");
  return names.take(op->getName().stripDialect());
}

bool CudaPrinter::readsMemory(Operation *op) {
  return isa<vector::LoadOp, vector::MaskedLoadOp, vector::GatherOp, memref::LoadOp, func::CallOp>(
             op) ||
         llvm::any_of(op->getOperands(), [&](Value value) { return reading.contains(value); });
}

bool CudaPrinter::isInline(Operation *op, const CudaText &text) {
  if (matchPattern(op, m_Constant()) || isWithinIdiom(op))
    return true;
  if (isa<vector::BroadcastOp>(op) && !readsMemory(op) &&
      StringRef(text.text).find_first_of("(+-*/?") == StringRef::npos)
    return true;
  if (!op->hasOneUse() || text.text.size() > longExpression)
    return false;
  Operation *user = *op->user_begin();
  if (user->getBlock() != op->getBlock() || isa<scf::ForOp>(user))
    return false;
  // What reads memory, itself or in an operand's text, keeps its place among the statements.
  if (readsMemory(op))
    return op->getNextNode() == user && isMemoryEffectFree(user) && !isWithinIdiom(user);
  return !isa<vector::CreateMaskOp>(op);
}

void CudaPrinter::bind(Operation *op, CudaText text) {
  Value result = op->getResult(0);
  if (isInline(op, text)) {
    if (readsMemory(op))
      reading.insert(result);
    values[result] = std::move(text);
    return;
  }
  std::string name = nameFor(op);
  bool isScalar = text.isScalar;
  Type type = result.getType();
  if (isScalar)
    type = getElementTypeOrSelf(type);
  std::string typeText =
      isa<vector::CreateMaskOp>(op) || isa<VectorType>(type) ? "auto" : cudaType(type);
  line(fmt::format("const {} {} = {};", typeText, name, text.text));
  values[result] = {name, CudaText::Primary, isScalar};
}

//===- Memory ----------------------------------------------------------------===//

std::string CudaPrinter::address(Value memref, Value at) {
  std::string base = use(memref, CudaText::Sum);
  if (getConstantIntValue(at) == 0)
    return base;
  return base + " + " + use(at, CudaText::Product);
}

int64_t CudaPrinter::divisorOf(Value index) {
  constexpr int64_t any = 1 << 20;
  if (auto it = divisors.find(index); it != divisors.end())
    return it->second;
  auto powerOf = [&](int64_t value) {
    return value == 0 ? any : std::min(any, int64_t{1} << llvm::countr_zero(uint64_t(value)));
  };
  if (auto constant = getConstantIntValue(index))
    return powerOf(*constant);
  int64_t divisor = 1;
  if (auto argument = dyn_cast<BlockArgument>(index)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (loop && argument == loop.getInductionVar())
      divisor = std::min(divisorOf(loop.getLowerBound()), divisorOf(loop.getStep()));
  } else {
    Operation *op = index.getDefiningOp();
    auto operand = [&](unsigned i) { return divisorOf(op->getOperand(i)); };
    divisor = llvm::TypeSwitch<Operation *, int64_t>(op)
                  .Case<arith::AddIOp, arith::SubIOp, arith::RemUIOp, arith::XOrIOp>(
                      [&](auto) { return std::min(operand(0), operand(1)); })
                  .Case<arith::MulIOp>([&](auto) { return std::min(any, operand(0) * operand(1)); })
                  .Case<arith::SelectOp>([&](auto) { return std::min(operand(1), operand(2)); })
                  .Default([](Operation *) { return 1; });
  }
  return divisors[index] = divisor;
}

std::string CudaPrinter::accessArguments(VectorType type, Value memref, Value at) {
  int64_t bytes = type.getElementTypeBitWidth() / 8, lanes = type.getNumElements();
  auto it = alignments.find(memref);
  int64_t base = it == alignments.end() ? 64 : it->second;
  int64_t known = std::min(base, divisorOf(at) * bytes);
  int64_t needed = std::min<int64_t>(16, llvm::bit_floor(uint64_t(lanes * bytes)));
  if (known >= needed)
    return fmt::format("<{}>", lanes);
  return fmt::format("<{}, {}>", lanes, known);
}

//===- Statements ------------------------------------------------------------===//

LogicalResult CudaPrinter::block(Block &block) {
  names.open();
  for (Operation &op : block)
    if (failed(statement(op)))
      return failure();
  names.close();
  return success();
}

LogicalResult CudaPrinter::loop(scf::ForOp op) {
  for (auto [argument, init, result] :
       llvm::zip(op.getRegionIterArgs(), op.getInitArgs(), op.getResults())) {
    std::string name = names.take("partial");
    line(fmt::format("{} {} = {};", cudaType(argument.getType()), name, useVector(init)));
    values[argument] = {name};
    values[result] = {name};
  }
  names.open();
  std::string at = names.take(op->hasAttr(kernel::unrollAttrName) ? "i" : "at");
  auto from = getConstantIntValue(op.getLowerBound()), to = getConstantIntValue(op.getUpperBound()),
       step = getConstantIntValue(op.getStep());
  bool isShort = from && to && *to < INT32_MAX;
  if (auto unroll = op->getAttrOfType<IntegerAttr>(kernel::unrollAttrName)) {
    bool whole = isShort && step && (*to - *from + *step - 1) / *step <= unroll.getInt();
    line(whole ? "#pragma unroll" : fmt::format("#pragma unroll {}", unroll.getInt()));
  } else {
    line("#pragma unroll 1");
  }
  std::string next = step == 1 ? "++" + at : at + " += " + use(op.getStep());
  line(fmt::format("for ({0} {1} = {2}; {1} < {3}; {4}) {{", isShort ? "int" : "int64_t", at,
                   use(op.getLowerBound()), use(op.getUpperBound(), CudaText::Shift), next));
  values[op.getInductionVar()] = {at};
  indent += 2;
  if (failed(block(*op.getBody())))
    return failure();
  names.close();
  indent -= 2;
  line("}");
  return success();
}

LogicalResult CudaPrinter::branch(scf::IfOp op) {
  if (op.getNumResults() > 0)
    return op.emitOpError("with results has no form in CUDA kernels");
  line(fmt::format("if ({}) {{", use(op.getCondition())));
  indent += 2;
  if (failed(block(*op.thenBlock())))
    return failure();
  indent -= 2;
  if (op.elseBlock()) {
    line("} else {");
    indent += 2;
    if (failed(block(*op.elseBlock())))
      return failure();
    indent -= 2;
  }
  line("}");
  return success();
}

void CudaPrinter::call(func::CallOp op) {
  std::vector<std::string> arguments;
  for (Value operand : op.getOperands())
    arguments.push_back(isa<VectorType>(operand.getType()) ? useVector(operand) : use(operand));
  std::string text = fmt::format("nano::{}({})", op.getCallee().str(), fmt::join(arguments, ", "));
  if (op.getNumResults() == 0)
    line(text + ";");
  else
    bind(op, {text});
}

/// True when the text has the identifier in it.
static bool mentions(StringRef text, StringRef identifier) {
  auto isPart = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  for (size_t at = text.find(identifier); at != StringRef::npos;
       at = text.find(identifier, at + 1)) {
    size_t end = at + identifier.size();
    if ((at == 0 || !isPart(text[at - 1])) && (end == text.size() || !isPart(text[end])))
      return true;
  }
  return false;
}

LogicalResult CudaPrinter::statement(Operation &op) {
  auto named = [&](Value value, const std::string &declaration) {
    std::string name = nameFor(value.getDefiningOp());
    values[value] = {name};
    return fmt::format(fmt::runtime(declaration), name);
  };
  auto mask = [&](Value value) {
    Attribute constant;
    return matchPattern(value, m_Constant(&constant)) ? std::string() : ", " + use(value);
  };
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](scf::ForOp op) { return loop(op); })
      .Case([&](scf::IfOp op) { return branch(op); })
      .Case([&](scf::YieldOp op) {
        auto parent = dyn_cast<scf::ForOp>(op->getParentOp());
        if (!parent)
          return success();
        // What is carried may be computed from other carried values: all are read before one
        // changes.
        std::vector<std::pair<std::string, std::string>> assignments;
        for (auto [argument, value] : llvm::zip(parent.getRegionIterArgs(), op.getOperands()))
          if (argument != value)
            assignments.emplace_back(values[argument].text, useVector(value));
        for (size_t i = 1; i < assignments.size(); ++i)
          for (size_t j = 0; j < i; ++j)
            if (mentions(assignments[i].second, assignments[j].first)) {
              std::string next = names.take("next");
              line(fmt::format("const auto {} = {};", next, assignments[i].second));
              assignments[i].second = next;
            }
        for (auto &[name, text] : assignments)
          line(name + " = " + text + ";");
        return success();
      })
      .Case([&](kernel::ReturnOp) { return success(); })
      .Case([&](func::ReturnOp op) {
        if (returned)
          for (Value value : op.getOperands())
            returned->push_back(isa<VectorType>(value.getType()) ? useVector(value) : use(value));
        else if (op.getNumOperands() > 0)
          line("return " + use(op.getOperand(0)) + ";");
        return success();
      })
      .Case([&](func::CallOp op) {
        call(op);
        return success();
      })
      .Case([&](memref::AllocaOp op) {
        MemRefType type = op.getType();
        std::string element = cudaType(type.getElementType());
        if (areHeld(type))
          element.replace(0, StringRef("nano::Vec").size(), "nano::Held");
        line(named(op, element + " {}[" + std::to_string(type.getNumElements()) + "];"));
        return success();
      })
      .Case([&](memref::ViewOp op) {
        std::string type = cudaType(op.getType().getElementType());
        line(named(op, type + " *{} = nano::dynamicShared<" + type + ">(" + use(op.getByteShift()) +
                           ");"));
        alignments[op] = 64;
        return success();
      })
      .Case([&](memref::CastOp op) {
        define(op, nameOf(op.getSource()), constants.lookup(op.getSource()));
        if (int64_t alignment = alignments.lookup(op.getSource()))
          alignments[op] = alignment;
        return success();
      })
      .Case([&](memref::ReinterpretCastOp op) {
        SmallVector<OpFoldResult> offsets = op.getMixedOffsets();
        if (getConstantIntValue(offsets[0]) == 0) {
          define(op, nameOf(op.getSource()), constants.lookup(op.getSource()));
          if (int64_t alignment = alignments.lookup(op.getSource()))
            alignments[op] = alignment;
          return success();
        }
        Value offset = dyn_cast<Value>(offsets[0]);
        std::string text = address(op.getSource(), offset);
        int64_t bytes = op.getType().getElementTypeBitWidth() / 8;
        int64_t source = alignments.lookup(op.getSource());
        line(named(op, "auto *{} = " + text + ";"));
        alignments[op] = std::min(source ? source : 64, divisorOf(offset) * bytes);
        return success();
      })
      .Case([&](memref::StoreOp op) {
        Value at = op.getIndices()[0];
        std::string value = isa<VectorType>(op.getValueToStore().getType())
                                ? useVector(op.getValueToStore())
                                : use(op.getValueToStore());
        line(fmt::format("{}[{}] = {};", use(op.getMemRef(), CudaText::Primary), use(at), value));
        return success();
      })
      .Case([&](vector::StoreOp op) {
        auto type = op.getVectorType();
        Value at = op.getIndices()[0];
        line(fmt::format("nano::store{}({}, {});", accessArguments(type, op.getBase(), at),
                         address(op.getBase(), at), useVector(op.getValueToStore())));
        return success();
      })
      .Case([&](vector::MaskedStoreOp op) {
        Value at = op.getIndices()[0];
        line(fmt::format(
            "nano::store{}({}, {}, {});", accessArguments(op.getVectorType(), op.getBase(), at),
            address(op.getBase(), at), useVector(op.getValueToStore()), use(op.getMask())));
        return success();
      })
      .Case([&](vector::ScatterOp op) {
        line(fmt::format("nano::scatterLanes({}, {}, {}{});",
                         address(op.getBase(), op.getOffsets()[0]), useVector(op.getIndices()),
                         useVector(op.getValueToStore()), mask(op.getMask())));
        return success();
      })
      .Default([&](Operation *op) {
        std::optional<CudaText> text = op->getNumResults() == 1 ? expression(op) : std::nullopt;
        if (!text)
          return LogicalResult(op->emitOpError("has no form in CUDA kernels"));
        bind(op, std::move(*text));
        return success();
      });
}

} // namespace nano::codegen
