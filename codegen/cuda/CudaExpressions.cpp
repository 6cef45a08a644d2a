// Arithmetic, conversions and loads of a kernel as C++ expressions.
#include "codegen/cuda/CudaPrinter.h"

#include "ir/graph/BinaryFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

#include <fmt/format.h>

using namespace mlir;

namespace nano::codegen {

/// a ∘ b. Lanes that are equal stay one number while both sides are.
CudaText CudaPrinter::binary(Operation *op, const char *symbol, CudaText::Precedence precedence) {
  Value a = op->getOperand(0), b = op->getOperand(1);
  auto tighter = static_cast<CudaText::Precedence>(precedence + 1);
  bool isScalar = values[a].isScalar && values[b].isScalar;
  Type type = getElementTypeOrSelf(op->getResult(0).getType());
  // Sums of i32 wrap, which C++ leaves undefined; vectors do so by themselves.
  bool isScalarText = isScalar || !isa<VectorType>(op->getResult(0).getType());
  if (type.isInteger(32) && isScalarText && isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
    return {fmt::format("int(unsigned({}) {} unsigned({}))", use(a), symbol, use(b)),
            CudaText::Primary, isScalar};
  return {fmt::format("{} {} {}", use(a, precedence), symbol, use(b, tighter)), precedence,
          isScalar};
}

CudaText CudaPrinter::function(Operation *op, StringRef name, bool scalarStays) {
  bool isScalar = scalarStays && isa<VectorType>(op->getResult(0).getType());
  for (Value operand : op->getOperands())
    isScalar &= values[operand].isScalar;
  std::vector<std::string> arguments;
  for (Value operand : op->getOperands())
    arguments.push_back(scalarStays ? use(operand) : useVector(operand));
  return {fmt::format("nano::{}({})", name.str(), fmt::join(arguments, ", ")), CudaText::Primary,
          isScalar};
}

//===- Ops that are one function of the device library together -----------===//

/// A function's name, its arguments, and the ops that it stands for beside the last one, which
/// nothing else needs. `subtracts`: the last argument is negated. The first of the arguments is a
/// vector if `isOfVectors`, and the `constants` last ones, if any, are the template's. What
/// `sharesLanes` has lanes of vectors compute something together.
struct Idiom {
  StringRef name;
  SmallVector<Value, 4> arguments;
  SmallVector<Operation *, 8> inner;
  bool subtracts = false;
  bool isOfVectors = false;
  unsigned constants = 0;
  bool sharesLanes = false;
};

/// The op of that kind that makes the value, if nothing else needs it.
template <typename Op> static Op only(Value value) {
  return value.hasOneUse() ? value.getDefiningOp<Op>() : Op();
}

/// The number that the value, or each of its lanes, is known to be.
static std::optional<double> constantOf(Value value) {
  if (auto broadcast = value.getDefiningOp<vector::BroadcastOp>())
    value = broadcast.getSource();
  if (auto neg = value.getDefiningOp<arith::NegFOp>()) {
    std::optional<double> negated = constantOf(neg.getOperand());
    return negated ? std::optional(-*negated) : std::nullopt;
  }
  APFloat number(0.0);
  if (!matchPattern(value, m_ConstantFloat(&number)))
    return std::nullopt;
  bool losesInfo = false;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
  return number.convertToDouble();
}
static bool isConstant(Value value) { return constantOf(value).has_value(); }

static bool isOne(Value value) {
  if (auto broadcast = value.getDefiningOp<vector::BroadcastOp>())
    value = broadcast.getSource();
  return matchPattern(value, m_OneFloat());
}

/// 1/(1 + e^−x), 1/(1 + e^−(x·factor)).
static std::optional<Idiom> sigmoidOf(arith::DivFOp quotient) {
  auto sum = only<arith::AddFOp>(quotient.getRhs());
  if (!isOne(quotient.getLhs()) || !sum || !isOne(sum.getLhs()))
    return std::nullopt;
  auto exp = only<math::ExpOp>(sum.getRhs());
  auto neg = exp ? only<arith::NegFOp>(exp.getOperand()) : arith::NegFOp();
  if (!neg)
    return std::nullopt;
  Idiom idiom{"sigmoid", {neg.getOperand()}, {sum, exp, neg}};
  idiom.sharesLanes = true;
  if (auto mul = only<arith::MulFOp>(neg.getOperand()); mul && isConstant(mul.getRhs())) {
    idiom.arguments = {mul.getLhs(), mul.getRhs()};
    idiom.inner.push_back(mul);
  }
  return idiom;
}

/// 1/(1 + 2^x).
static std::optional<Idiom> sigmoidOfPower(arith::DivFOp quotient) {
  auto sum = only<arith::AddFOp>(quotient.getRhs());
  if (!isOne(quotient.getLhs()) || !sum || !isOne(sum.getLhs()))
    return std::nullopt;
  auto power = only<math::Exp2Op>(sum.getRhs());
  if (!power)
    return std::nullopt;
  return Idiom{"sigmoidOfPower", {power.getOperand()}, {sum, power}};
}

/// e^(x·factor ± summand) with constants.
static std::optional<Idiom> exponentialOf(math::ExpOp exp) {
  if (auto sub = only<arith::SubFOp>(exp.getOperand())) {
    auto mul = only<arith::MulFOp>(sub.getLhs());
    if (mul && isConstant(mul.getRhs()) && isConstant(sub.getRhs()))
      return Idiom{"exponential",
                   {mul.getLhs(), mul.getRhs(), sub.getRhs()},
                   {sub, mul},
                   /*subtracts=*/true};
  }
  auto fma = only<math::FmaOp>(exp.getOperand());
  if (fma && isConstant(fma.getB()) && isConstant(fma.getC()))
    return Idiom{"exponential", {fma.getA(), fma.getB(), fma.getC()}, {fma}};
  return std::nullopt;
}

/// Whether e^(x·factor + summand) is far from overflow and underflow for all x in [0, 1].
static bool isOfFraction(const Idiom &exponential) {
  constexpr double mostPower = 80;
  double factor = *constantOf(exponential.arguments[1]);
  double summand = *constantOf(exponential.arguments[2]) * (exponential.subtracts ? -1 : 1);
  return std::abs(summand) <= mostPower && std::abs(factor + summand) <= mostPower;
}

/// An exponential of vectors in a kernel that shares them: of a sigmoid, which may stand for both.
static Idiom sharedOf(Idiom exponential) {
  exponential.name = "exponentialShared";
  exponential.isOfVectors = true;
  Value fraction = exponential.arguments[0];
  auto quotient = fraction.getDefiningOp<arith::DivFOp>();
  std::optional<Idiom> sigmoid = quotient ? sigmoidOf(quotient) : std::nullopt;
  if (!sigmoid || !isOfFraction(exponential))
    return exponential;
  Idiom shared{"exponentialOfFraction", exponential.arguments, exponential.inner,
               exponential.subtracts,   /*isOfVectors=*/true,  /*constants=*/2};
  if (fraction.hasOneUse() && sigmoid->arguments.size() == 2) {
    shared.name = "exponentialOfSigmoid";
    shared.sharesLanes = true;
    llvm::append_range(shared.inner, sigmoid->inner);
    shared.inner.push_back(quotient);
    shared.arguments = {sigmoid->arguments[0], sigmoid->arguments[1], exponential.arguments[1],
                        exponential.arguments[2]};
  }
  return shared;
}

/// σ·(1 − σ)·e^(σ·factor ± summand) of a sigmoid σ of vectors that nothing else needs.
static std::optional<Idiom> exponentialOfSigmoidDerivative(arith::MulFOp product) {
  if (!isa<VectorType>(product.getType()))
    return std::nullopt;
  for (auto [first, second] : {std::pair(product.getLhs(), product.getRhs()),
                               std::pair(product.getRhs(), product.getLhs())}) {
    auto slope = only<arith::MulFOp>(first);
    auto exp = only<math::ExpOp>(second);
    auto rest = slope ? only<arith::SubFOp>(slope.getRhs()) : arith::SubFOp();
    std::optional<Idiom> exponential = exp ? exponentialOf(exp) : std::nullopt;
    if (!rest || !exponential || !isOne(rest.getLhs()) || !isOfFraction(*exponential))
      continue;
    auto quotient = slope.getLhs().getDefiningOp<arith::DivFOp>();
    std::optional<Idiom> sigmoid = quotient ? sigmoidOf(quotient) : std::nullopt;
    if (!sigmoid || sigmoid->arguments.size() != 2 || rest.getRhs() != quotient.getResult() ||
        exponential->arguments[0] != quotient.getResult() || !quotient.getResult().hasNUses(3))
      continue;
    Idiom idiom{"exponentialOfSigmoidDerivative",
                {sigmoid->arguments[0], sigmoid->arguments[1], exponential->arguments[1],
                 exponential->arguments[2]},
                {slope, rest, exp, quotient},
                exponential->subtracts,
                /*isOfVectors=*/true,
                /*constants=*/2,
                /*sharesLanes=*/true};
    llvm::append_range(idiom.inner, exponential->inner);
    llvm::append_range(idiom.inner, sigmoid->inner);
    return idiom;
  }
  return std::nullopt;
}

static std::optional<Idiom> idiomOf(Operation *op, bool sharesExponentials) {
  if (auto quotient = dyn_cast<arith::DivFOp>(op)) {
    std::optional<Idiom> sigmoid = sigmoidOf(quotient);
    return sigmoid ? sigmoid : sigmoidOfPower(quotient);
  }
  if (auto product = dyn_cast<arith::MulFOp>(op))
    return exponentialOfSigmoidDerivative(product);
  auto exp = dyn_cast<math::ExpOp>(op);
  std::optional<Idiom> found = exp ? exponentialOf(exp) : std::nullopt;
  if (found && sharesExponentials && isa<VectorType>(exp.getType()))
    return sharedOf(std::move(*found));
  return found;
}

bool CudaPrinter::isWithinIdiom(Operation *op) const {
  constexpr int longest = 8;
  Operation *last = op;
  // What an idiom stands for is needed by it alone: all ways from there lead to its last op.
  for (int i = 0; i < longest && !last->use_empty(); ++i) {
    last = *last->user_begin();
    std::optional<Idiom> idiom = idiomOf(last, sharesExponentials);
    if (idiom && llvm::is_contained(idiom->inner, op))
      return true;
  }
  return false;
}

std::optional<CudaText> CudaPrinter::idiom(Operation *op) {
  std::optional<Idiom> found = idiomOf(op, sharesExponentials);
  if (!found)
    return std::nullopt;
  std::vector<std::string> arguments, constants;
  for (auto [i, argument] : llvm::enumerate(found->arguments)) {
    // Template arguments are literals, also where a name stands for the number elsewhere.
    bool isConstant = i + found->constants >= found->arguments.size();
    if (isConstant)
      constants.push_back(
          cudaLiteral(FloatAttr::get(Float32Type::get(op->getContext()), *constantOf(argument))));
    else
      arguments.push_back(i == 0 && found->isOfVectors ? useVector(argument) : use(argument));
  }
  std::string &last = constants.empty() ? arguments.back() : constants.back();
  if (found->subtracts)
    last = last.front() == '-' ? last.substr(1) : "-" + last;
  bool isScalar = !found->isOfVectors && values[found->arguments.front()].isScalar;
  if (found->sharesLanes && cutsVectors && !isScalar && isa<VectorType>(op->getResult(0).getType()))
    constants.push_back("true"); // IsApart
  std::string ofConstants =
      constants.empty() ? "" : fmt::format("<{}>", fmt::join(constants, ", "));
  return CudaText{
      fmt::format("nano::{}{}({})", found->name.str(), ofConstants, fmt::join(arguments, ", ")),
      CudaText::Primary, isScalar};
}

static const char *symbolOf(arith::CmpIPredicate predicate) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return "==";
  case arith::CmpIPredicate::ne:
    return "!=";
  case arith::CmpIPredicate::slt:
  case arith::CmpIPredicate::ult:
    return "<";
  case arith::CmpIPredicate::sle:
  case arith::CmpIPredicate::ule:
    return "<=";
  case arith::CmpIPredicate::sgt:
  case arith::CmpIPredicate::ugt:
    return ">";
  case arith::CmpIPredicate::sge:
  case arith::CmpIPredicate::uge:
    return ">=";
  }
  llvm_unreachable("a predicate");
}

static bool isUnsigned(arith::CmpIPredicate predicate) {
  return predicate == arith::CmpIPredicate::ult || predicate == arith::CmpIPredicate::ule ||
         predicate == arith::CmpIPredicate::ugt || predicate == arith::CmpIPredicate::uge;
}

/// Null for predicates that C++ has no operator for.
static const char *symbolOf(arith::CmpFPredicate predicate) {
  switch (predicate) {
  case arith::CmpFPredicate::OEQ:
    return "==";
  case arith::CmpFPredicate::UNE:
    return "!=";
  case arith::CmpFPredicate::OLT:
    return "<";
  case arith::CmpFPredicate::OLE:
    return "<=";
  case arith::CmpFPredicate::OGT:
    return ">";
  case arith::CmpFPredicate::OGE:
    return ">=";
  default:
    return nullptr;
  }
}

/// What the device library calls the function that the op is; nothing when it is none.
static std::string deviceFunction(Operation *op) {
  static const llvm::StringMap<StringRef> names = [] {
    llvm::StringMap<StringRef> map;
    auto add = [&](const auto &function) {
      if (!function.traits.device.empty())
        map[function.traits.op] = function.traits.device;
    };
    llvm::for_each(graph::unaryFunctions(), add);
    llvm::for_each(graph::binaryFunctions(), add);
    return map;
  }();
  std::string name = names.lookup(op->getName().getStringRef()).str();
  auto flags = dyn_cast<arith::ArithFastMathInterface>(op);
  if (!name.empty() && flags &&
      bitEnumContainsAll(flags.getFastMathFlagsAttr().getValue(), arith::FastMathFlags::afn)) {
    name.front() = llvm::toUpper(name.front());
    name.insert(0, "approximate");
  }
  return name;
}

std::optional<CudaText> CudaPrinter::arithmetic(Operation *op) {
  using Result = std::optional<CudaText>;
  auto plain = [&](const char *symbol, CudaText::Precedence precedence) -> Result {
    return binary(op, symbol, precedence);
  };
  auto called = [&](StringRef name) -> Result { return function(op, name); };
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case<arith::AddFOp, arith::AddIOp>([&](auto) { return plain("+", CudaText::Sum); })
      .Case<arith::SubFOp, arith::SubIOp>([&](auto) { return plain("-", CudaText::Sum); })
      .Case<arith::MulFOp, arith::MulIOp>([&](auto) { return plain("*", CudaText::Product); })
      .Case<arith::DivUIOp, arith::DivSIOp>([&](auto) { return plain("/", CudaText::Product); })
      .Case<arith::RemUIOp, arith::RemSIOp>([&](auto) { return plain("%", CudaText::Product); })
      .Case<arith::ShRSIOp>([&](auto) { return plain(">>", CudaText::Shift); })
      .Case<arith::ShRUIOp>([&](auto) { return called("shiftRight"); })
      .Case<arith::ShLIOp>([&](auto) { return plain("<<", CudaText::Shift); })
      .Case<arith::AndIOp>([&](auto) { return plain("&", CudaText::And); })
      .Case<arith::OrIOp>([&](auto) { return plain("|", CudaText::Or); })
      .Case<arith::XOrIOp>([&](auto) { return plain("^", CudaText::Or); })
      .Case<arith::CmpIOp>([&](arith::CmpIOp compare) -> Result {
        const char *symbol = symbolOf(compare.getPredicate());
        Value a = compare.getLhs(), b = compare.getRhs();
        if (!isUnsigned(compare.getPredicate()) || !a.getType().isIndex())
          return plain(symbol, CudaText::Compare);
        return CudaText{fmt::format("uint64_t({}) {} uint64_t({})", use(a), symbol, use(b)),
                        CudaText::Compare};
      })
      .Case<arith::CmpFOp>([&](arith::CmpFOp compare) -> Result {
        const char *symbol = symbolOf(compare.getPredicate());
        return symbol ? plain(symbol, CudaText::Compare) : std::nullopt;
      })
      .Case<arith::DivFOp>([&](auto) { return called("quotient"); })
      .Case<arith::NegFOp>([&](arith::NegFOp neg) -> Result {
        return CudaText{"-" + use(neg.getOperand(), CudaText::Primary), CudaText::Unary,
                        values[neg.getOperand()].isScalar};
      })
      .Case<arith::MaximumFOp, arith::MaxSIOp>([&](auto) { return called("maximum"); })
      .Case<arith::MinimumFOp, arith::MinSIOp>([&](auto) { return called("minimum"); })
      .Case<math::FmaOp>([&](auto) { return called("fma"); })
      .Case<math::Exp2Op>([&](auto) { return called("approximateExp2"); })
      .Case<vector::ReductionOp>([&](vector::ReductionOp reduction) -> Result {
        bool isSum = reduction.getKind() == vector::CombiningKind::ADD;
        return function(op, isSum ? "sum" : "largest", /*scalarStays=*/false);
      })
      .Default([&](Operation *op) -> Result {
        const std::string name = deviceFunction(op);
        return name.empty() ? std::nullopt : called(name);
      });
}

std::optional<CudaText> CudaPrinter::conversion(Operation *op) {
  if (!isa<arith::ExtFOp, arith::TruncFOp, arith::SIToFPOp, arith::FPToSIOp, arith::IndexCastOp,
           arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::BitcastOp>(
          op))
    return std::nullopt;
  Type type = op->getResult(0).getType();
  bool isVector = isa<VectorType>(type), isScalar = isVector && values[op->getOperand(0)].isScalar;
  if (isa<arith::BitcastOp>(op))
    return CudaText{fmt::format("nano::bitCast<{}>({})",
                                cudaType(isScalar ? getElementTypeOrSelf(type) : type),
                                values[op->getOperand(0)].text),
                    CudaText::Primary, isScalar};
  std::string element = cudaType(getElementTypeOrSelf(type));
  const std::string &operand = values[op->getOperand(0)].text;
  if (isVector && !isScalar)
    return CudaText{fmt::format("nano::to<{}>({})", element, operand)};
  return CudaText{fmt::format("{}({})", element, operand), CudaText::Primary, isScalar};
}

std::optional<CudaText> CudaPrinter::choice(Operation *op) {
  auto select = dyn_cast<arith::SelectOp>(op);
  if (!select)
    return std::nullopt;
  Value condition = select.getCondition(), a = select.getTrueValue(), b = select.getFalseValue();
  bool isScalar = values[condition].isScalar && values[a].isScalar && values[b].isScalar;
  if (isScalar || !isa<VectorType>(a.getType()))
    return CudaText{fmt::format("{} ? {} : {}", use(condition, CudaText::Or), use(a, CudaText::Or),
                                use(b, CudaText::Or)),
                    CudaText::Choice, isScalar};
  if (!isa<VectorType>(condition.getType()) || values[condition].isScalar)
    return CudaText{
        fmt::format("{} ? {} : {}", use(condition, CudaText::Or), useVector(a), useVector(b)),
        CudaText::Choice};
  return CudaText{fmt::format("nano::select({}, {}, {})", use(condition), use(a), use(b))};
}

std::optional<CudaText> CudaPrinter::expression(Operation *op) {
  for (auto kind : {&CudaPrinter::idiom, &CudaPrinter::arithmetic, &CudaPrinter::conversion,
                    &CudaPrinter::choice})
    if (std::optional<CudaText> text = (this->*kind)(op))
      return text;
  using Result = std::optional<CudaText>;
  auto reading = [&](Value memref) { return constants.lookup(memref) ? "read" : "load"; };
  // A load, whole or not at all, of what registers hold from then on.
  auto isForLater = [&](vector::MaskedLoadOp load) {
    auto mask = load.getMask().getDefiningOp<vector::CreateMaskOp>();
    auto store = dyn_cast<memref::StoreOp>(*load->user_begin());
    return mask && store && load->hasOneUse() && areHeld(store.getMemRefType()) &&
           divisorOf(mask.getOperands()[0]) >= mask.getType().getNumElements();
  };
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case<arith::ConstantOp>([&](arith::ConstantOp constant) -> Result {
        auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
        if (!dense) {
          std::string text = cudaLiteral(constant.getValue());
          return CudaText{text, text.front() == '-' ? CudaText::Unary : CudaText::Primary};
        }
        if (dense.isSplat()) {
          std::string text = cudaLiteral(dense.getSplatValue<Attribute>());
          return CudaText{text, text.front() == '-' ? CudaText::Unary : CudaText::Primary, true};
        }
        std::vector<std::string> lanes;
        for (Attribute lane : dense.getValues<Attribute>())
          lanes.push_back(cudaLiteral(lane));
        bool counts = llvm::all_of(llvm::enumerate(lanes), [](const auto &lane) {
          return lane.value() == std::to_string(lane.index());
        });
        if (counts && dense.getElementType().isInteger(32))
          return CudaText{fmt::format("nano::laneNumbers<{}>()", lanes.size())};
        return CudaText{
            fmt::format("{}{{{{{}}}}}", cudaType(dense.getType()), fmt::join(lanes, ", "))};
      })
      .Case<vector::BroadcastOp>([&](vector::BroadcastOp broadcast) -> Result {
        CudaText text = values[broadcast.getSource()];
        text.isScalar = true;
        return text;
      })
      .Case<vector::ShuffleOp>([&](vector::ShuffleOp shuffle) -> Result {
        ArrayRef<int64_t> lanes = shuffle.getMask();
        if (shuffle.getV1() == shuffle.getV2())
          return CudaText{
              fmt::format("nano::lanesAt<{}>({})", fmt::join(lanes, ", "), use(shuffle.getV1()))};
        // Neighbouring lanes of two vectors behind each other.
        for (auto [i, lane] : llvm::enumerate(lanes))
          if (lane != lanes.front() + int64_t(i))
            return std::nullopt;
        return CudaText{fmt::format("nano::joined<{}, {}>({}, {})", lanes.size(), lanes.front(),
                                    use(shuffle.getV1()), use(shuffle.getV2()))};
      })
      .Case<vector::CreateMaskOp>([&](vector::CreateMaskOp mask) -> Result {
        int64_t lanes = mask.getType().getNumElements();
        Value count = mask.getOperands()[0];
        // Whole vectors are inside or outside where lanes divide the count.
        if (divisorOf(count) >= lanes)
          return CudaText{fmt::format("nano::wholly({} > 0)", use(count, CudaText::Shift))};
        cutsVectors = true;
        return CudaText{fmt::format("nano::first<{}>({})", lanes, use(count))};
      })
      .Case<vector::LoadOp>([&](vector::LoadOp load) -> Result {
        Value at = load.getIndices()[0];
        return CudaText{fmt::format("nano::{}{}({})", reading(load.getBase()),
                                    accessArguments(load.getVectorType(), load.getBase(), at),
                                    address(load.getBase(), at))};
      })
      .Case<vector::MaskedLoadOp>([&](vector::MaskedLoadOp load) -> Result {
        Value at = load.getIndices()[0];
        return CudaText{fmt::format("nano::{}{}{}({}, {})", reading(load.getBase()),
                                    isForLater(load) ? "Later" : "",
                                    accessArguments(load.getVectorType(), load.getBase(), at),
                                    address(load.getBase(), at), use(load.getMask()))};
      })
      .Case<vector::GatherOp>([&](vector::GatherOp gather) -> Result {
        Attribute all;
        std::string mask =
            matchPattern(gather.getMask(), m_Constant(&all)) ? "" : ", " + use(gather.getMask());
        return CudaText{fmt::format("nano::gatherLanes({}, {}{})",
                                    address(gather.getBase(), gather.getOffsets()[0]),
                                    useVector(gather.getIndices()), mask)};
      })
      .Case<memref::LoadOp>([&](memref::LoadOp load) -> Result {
        Value at = load.getIndices()[0];
        if (constants.lookup(load.getMemRef()))
          return CudaText{fmt::format("nano::read({})", address(load.getMemRef(), at))};
        return CudaText{fmt::format("{}[{}]{}", use(load.getMemRef(), CudaText::Primary), use(at),
                                    areHeld(load.getMemRefType()) ? ".elements()" : "")};
      })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace nano::codegen
