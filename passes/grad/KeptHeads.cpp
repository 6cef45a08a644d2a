// Finds queries and keys that rows were normalised and turned for, and takes the rows from them.
#include "passes/grad/KeptHeads.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/AttentionOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/FunctionOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/Recomputed.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Values.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/DebugLog.h"

#include <map>
#include <vector>

#define DEBUG_TYPE "nano-recompute"

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// What a value is in each half of the last dimension, as an expression of the place in the half:
/// equal numbers stand for equal expressions.
class Halves {
public:
  /// `columns`: even, of the last dimension.
  explicit Halves(int64_t columns) : half(columns / 2) {}

  /// The expression of a value whose last dimension is that one.
  int of(Value value, bool second) {
    if (const auto known = seen[second].find(value); known != seen[second].end())
      return known->second;
    const int found = find(value, second);
    return seen[second][value] = found;
  }
  /// The expression of an op on others, with results of that element type.
  int of(OperationName name, DictionaryAttr attributes, Type type, ArrayRef<int> operands) {
    std::vector<uintptr_t> key{word(name.getAsOpaquePointer()),
                               word(attributes.getAsOpaquePointer()),
                               word(type.getAsOpaquePointer())};
    key.insert(key.end(), operands.begin(), operands.end());
    return number(std::move(key));
  }

private:
  /// An integer that grows evenly with the place: first + step · place.
  struct Even {
    int64_t step, first;
    int64_t least(int64_t half) const { return first + std::min<int64_t>(0, step * (half - 1)); }
    int64_t most(int64_t half) const { return first + std::max<int64_t>(0, step * (half - 1)); }
  };
  enum Kind : uintptr_t { Whole = 1, Part, Number, Integer };

  static uintptr_t word(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }
  int number(std::vector<uintptr_t> key) {
    return numbers.try_emplace(std::move(key), int(numbers.size())).first->second;
  }
  int even(Even value) {
    const int found = number({Integer, uintptr_t(value.step), uintptr_t(value.first)});
    evens.try_emplace(found, value);
    return found;
  }
  std::optional<Even> evenOf(int expression) const {
    const auto found = evens.find(expression);
    return found == evens.end() ? std::nullopt : std::optional(found->second);
  }
  /// A value that all columns share.
  int shared(Value value) {
    if (auto constant = value.getDefiningOp<ConstantOp>())
      return constantOf(constant);
    return number({Whole, word(value.getAsOpaquePointer())});
  }
  int constantOf(ConstantOp constant) {
    const double value = constant.getValue().convertToDouble();
    if (!isa<FloatType>(tensorType(constant).getElementType()))
      return even({0, int64_t(value)});
    return number({Number, llvm::bit_cast<uintptr_t>(value),
                   word(tensorType(constant).getElementType().getAsOpaquePointer())});
  }

  int find(Value value, bool second) {
    Operation *op = value.getDefiningOp();
    const int unknown = number({Part, word(value.getAsOpaquePointer()), second});
    if (!op)
      return unknown;
    const RankedTensorType type = tensorType(value);
    const int64_t last = type.getRank() - 1;
    if (auto constant = dyn_cast<ConstantOp>(op))
      return constantOf(constant);
    if (auto iota = dyn_cast<IotaOp>(op)) {
      if (int64_t(iota.getDim()) != last)
        return shared(value);
      return isa<FloatType>(type.getElementType()) ? unknown : even({1, second ? half : 0});
    }
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      const ArrayRef<int64_t> from = tensorType(broadcast.getX()).getShape();
      const bool hasColumns = !from.empty() && broadcast.getDims().back() == last &&
                              from.back() == type.getShape()[last];
      return hasColumns ? of(broadcast.getX(), second) : shared(broadcast.getX());
    }
    if (auto load = dyn_cast<LoadOp>(op))
      return repeats(load) ? number({Part, word(value.getAsOpaquePointer()), 2}) : unknown;
    if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      const ArrayRef<int64_t> from = tensorType(reshape.getX()).getShape();
      return !from.empty() && from.back() == type.getShape()[last] ? of(reshape.getX(), second)
                                                                   : unknown;
    }
    if (!op->hasTrait<ElementwiseOp>())
      return unknown;
    SmallVector<int, 4> operands;
    for (Value operand : op->getOperands())
      operands.push_back(of(operand, second));
    if (auto select = dyn_cast<SelectOp>(op))
      if (std::optional<bool> is = holds(select.getPredicate(), operands[0], operands[1]))
        return *is ? operands[2] : operands[3];
    if (isa<AddOp, SubOp>(op)) {
      const std::optional<Even> a = evenOf(operands[0]), b = evenOf(operands[1]);
      const int64_t sign = isa<AddOp>(op) ? 1 : -1;
      if (a && b)
        return even({a->step + sign * b->step, a->first + sign * b->first});
    }
    return of(op->getName(), op->getAttrDictionary(), type.getElementType(), operands);
  }
  /// True for a table, which nothing changes, both halves of whose rows are the same numbers.
  bool repeats(LoadOp load) const {
    auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(load, load.getSymbolAttr());
    if (!state || state.getRole() != Role::Constant)
      return false;
    const DenseElementsAttr data = state.getInit().getData();
    if (!data || data.isSplat())
      return bool(data);
    const ArrayRef<char> bytes = data.getRawData();
    const size_t ofHalf = bytes.size() / size_t(data.getNumElements()) * size_t(half);
    for (size_t row = 0; row < bytes.size(); row += 2 * ofHalf)
      if (bytes.slice(row, ofHalf) != bytes.slice(row + ofHalf, ofHalf))
        return false;
    return true;
  }
  /// Whether a comparison holds at all places, or at none.
  std::optional<bool> holds(Predicate predicate, int lhs, int rhs) const {
    const std::optional<Even> a = evenOf(lhs), b = evenOf(rhs);
    if (!a || !b)
      return std::nullopt;
    const bool isBelow = a->most(half)<b->least(half), isAbove = a->least(half)> b->most(half),
               isAtMost = a->most(half) <= b->least(half),
               isAtLeast = a->least(half) >= b->most(half);
    auto decided = [](bool is, bool isNot) {
      return is || isNot ? std::optional(is) : std::nullopt;
    };
    switch (predicate) {
    case Predicate::lt:
      return decided(isBelow, isAtLeast);
    case Predicate::le:
      return decided(isAtMost, isAbove);
    case Predicate::gt:
      return decided(isAbove, isAtMost);
    case Predicate::ge:
      return decided(isAtLeast, isBelow);
    default:
      return std::nullopt;
    }
  }

  const int64_t half;
  std::map<std::vector<uintptr_t>, int> numbers;
  DenseMap<int, Even> evens;
  DenseMap<Value, int> seen[2];
};

/// How cosines and sines, broadcast to rows of heads, turn the two halves of a row against each
/// other by the same angles.
enum class Turning {
  None,    ///< they do not, or nobody knows
  Exact,   ///< as they are computed in f32
  Rounded, ///< and then rounded, so that their squares do not add up to one
};
/// Along which dimensions a table is repeated, the last time first, and to what sizes.
SmallVector<std::pair<SmallVector<int64_t>, SmallVector<int64_t>>> repeatsOf(Value table) {
  SmallVector<std::pair<SmallVector<int64_t>, SmallVector<int64_t>>> repeats;
  for (Operation *op = table.getDefiningOp(); op && isa<CastOp, BroadcastOp, ReshapeOp>(op);
       op = op->getOperand(0).getDefiningOp())
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      repeats.push_back({SmallVector<int64_t>(broadcast.getDims()),
                         SmallVector<int64_t>(broadcast.getType().getShape())});
  return repeats;
}

Turning turningOf(Value cosines, Value sines) {
  // Halves knows columns alone: rows of both have one angle where both are repeated alike.
  if (repeatsOf(cosines) != repeatsOf(sines))
    return Turning::None;
  Halves halves(tensorType(cosines).getShape().back());
  MLIRContext *context = cosines.getContext();
  const auto none = DictionaryAttr::get(context);
  // Casts of the cosines, the last one first.
  SmallVector<CastOp> casts;
  Value table = cosines;
  while (Operation *op = table.getDefiningOp()) {
    if (auto cast = dyn_cast<CastOp>(op))
      casts.push_back(cast);
    else if (!isa<BroadcastOp, ReshapeOp>(op))
      break;
    table = op->getOperand(0);
  }
  auto cosine = table.getDefiningOp<CosOp>();
  if (!cosine)
    return Turning::None;
  const Type f32 = Float32Type::get(context);
  auto made = [&](StringRef name, int of) {
    return halves.of(OperationName(name, context), none, f32, of);
  };
  auto rounded = [&](int of) {
    for (CastOp cast : llvm::reverse(casts))
      of = halves.of(cast->getName(), cast->getAttrDictionary(), tensorType(cast).getElementType(),
                     of);
    return of;
  };
  const int angle = halves.of(cosine.getX(), false), sine = made("nano.sin", angle),
            both[2] = {rounded(sine), rounded(made("nano.neg", sine))},
            first = halves.of(sines, false), second = halves.of(sines, true);
  const bool haveCosines = halves.of(cosines, false) == rounded(made("nano.cos", angle)) &&
                           halves.of(cosines, true) == halves.of(cosines, false),
             haveSines =
                 (first == both[0] && second == both[1]) || (first == both[1] && second == both[0]);
  return !haveCosines || !haveSines ? Turning::None
         : casts.empty()            ? Turning::Exact
                                    : Turning::Rounded;
}

/// What a cast to a wider float shows, or the value itself.
Value beforeWidening(Value value) {
  auto cast = value.getDefiningOp<CastOp>();
  return cast && tensorType(cast.getX()).getElementType().isBF16() &&
                 tensorType(cast).getElementType().isF32()
             ? cast.getX()
             : value;
}

/// A step from rows to heads, which can be taken back.
struct Link {
  Value from;
  // Of rows that are multiplied by 1/√a, a number each: a, and that.
  Value square = {}, inverse = {};
  // Of rows that are turned.
  Value cosines = {}, sines = {};
  int64_t shift = 0;
  Turning turning = Turning::None;
};

/// The link that `value` is made by; nothing where that is none.
std::optional<Link> linkBefore(Value value) {
  Operation *op = value.getDefiningOp();
  auto isWide = [](Value of) {
    const Type type = tensorType(of).getElementType();
    return type.isF32() || type.isBF16();
  };
  if (auto cast = dyn_cast<CastOp>(op))
    return isWide(cast) && isWide(cast.getX()) ? std::optional(Link{cast.getX()}) : std::nullopt;
  if (!tensorType(value).getElementType().isF32())
    return std::nullopt;
  const int64_t last = tensorType(value).getRank() - 1;
  if (auto mul = dyn_cast<MulOp>(op)) {
    for (unsigned i : {0, 1}) {
      auto broadcast = mul->getOperand(i).getDefiningOp<BroadcastOp>();
      auto root = broadcast ? broadcast.getX().getDefiningOp<RsqrtOp>() : RsqrtOp();
      if (root && llvm::equal(broadcast.getDims(), llvm::seq<int64_t>(0, last)) &&
          tensorType(root).getShape() == tensorType(value).getShape().drop_back())
        return Link{.from = mul->getOperand(1 - i), .square = root.getX(), .inverse = root};
    }
    return std::nullopt;
  }
  auto add = dyn_cast<AddOp>(op);
  if (!add)
    return std::nullopt;
  // x ∘ cosines + (rotate x) ∘ sines, the factors in any order.
  for (unsigned i : {0, 1}) {
    auto plain = add->getOperand(i).getDefiningOp<MulOp>(),
         turned = add->getOperand(1 - i).getDefiningOp<MulOp>();
    for (unsigned j : {0, 1})
      for (unsigned k : {0, 1}) {
        if (!plain || !turned)
          continue;
        auto rotate = beforeWidening(turned->getOperand(k)).getDefiningOp<RotateOp>();
        const Value x = beforeWidening(plain->getOperand(j));
        if (!rotate || beforeWidening(rotate.getX()) != x ||
            2 * int64_t(rotate.getShift()) != tensorType(value).getShape().back())
          continue;
        Link link{.from = x,
                  .cosines = plain->getOperand(1 - j),
                  .sines = turned->getOperand(1 - k),
                  .shift = int64_t(rotate.getShift())};
        link.turning = turningOf(link.cosines, link.sines);
        if (link.turning != Turning::None)
          return link;
      }
  }
  return std::nullopt;
}

class HeadKeeper {
public:
  HeadKeeper(const ForwardPass &forward, KeptHeads &result) : forward(forward), result(result) {}

  /// Takes what `heads` are made of from them, where that suits.
  void keep(Value heads);

private:
  bool isForward(Operation *op) const { return op && forward.contains(op); }
  bool isReadBackward(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) { return !isForward(user); });
  }
  bool isOfProduct(Value value) const;

  const ForwardPass &forward;
  KeptHeads &result;
};

/// True where a value is, or shows a part of, what must be kept to have it.
bool HeadKeeper::isOfProduct(Value value) const {
  Operation *op = value.getDefiningOp();
  while (isa_and_present<ReshapeOp, SliceOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return isForward(op) && !forward.isCheap(op);
}

void HeadKeeper::keep(Value heads) {
  if (!isForward(heads.getDefiningOp()) || heads.getDefiningOp()->hasAttr(recomputeAttrName) ||
      llvm::none_of(heads.getUsers(), llvm::IsaPred<AttentionGradOp>))
    return;
  SmallVector<Link> links;
  Value rows = heads;
  while (!isOfProduct(rows)) {
    std::optional<Link> link =
        isForward(rows.getDefiningOp()) ? linkBefore(rows) : std::optional<Link>();
    if (!link)
      return;
    rows = link->from;
    links.push_back(*link);
  }
  if (links.empty() || bytesOf(heads) > bytesOf(rows))
    return;

  OpBuilder builder(heads.getContext());
  Operation *before = heads.getDefiningOp();
  builder.setInsertionPointAfter(before);
  Operation *behind = before->getNextNode();
  GraphBuilder g(builder, heads.getLoc());
  Value found = g.toF32(heads);
  const ArrayRef<int64_t> shape = tensorType(heads).getShape();
  const auto ofRow = llvm::to_vector(llvm::seq<int64_t>(0, int64_t(shape.size()) - 1));
  for (const Link &link : links) {
    if (link.square)
      found = g.mul(found, g.broadcast(g.mul(link.square, link.inverse), shape, ofRow));
    if (link.cosines)
      found = g.add(g.mul(found, link.cosines),
                    RotateOp::create(builder, heads.getLoc(), found.getType(),
                                     g.mul(found, link.sines), link.shift));
    if (link.turning == Turning::Rounded)
      found = g.div(found, g.add(g.mul(link.cosines, link.cosines), g.mul(link.sines, link.sines)));
    if (isReadBackward(link.from)) {
      Value from = link.from;
      from.replaceUsesWithIf(g.cast(found, tensorType(from).getElementType()),
                             [&](OpOperand &use) { return !isForward(use.getOwner()); });
    }
  }
  LDBG() << "keeps what attention reads, and takes from it: " << rows << " " << heads.getLoc();
  for (Operation *op = before->getNextNode(); op != behind; op = op->getNextNode())
    result.ops.push_back(op);
  result.kept.push_back(heads);
  for (const Link &link : links)
    if (link.square) {
      // The sum, from which all else of a row follows.
      Value sum = link.square;
      while (isa_and_present<MulOp, AddOp, DivOp>(sum.getDefiningOp()) &&
             forward.isThere(sum.getDefiningOp()->getOperand(1)))
        sum = sum.getDefiningOp()->getOperand(0);
      result.kept.push_back(sum);
    }
}

} // namespace

KeptHeads nano::keepHeads(ProgramOp function, const ForwardPass &forward) {
  KeptHeads result;
  HeadKeeper keeper(forward, result);
  llvm::SmallSetVector<Value, 8> heads;
  for (auto attention : function.getOps<AttentionOp>())
    if (forward.contains(attention)) {
      heads.insert(attention.getQ());
      heads.insert(attention.getK());
    }
  for (Value each : heads)
    keeper.keep(each);
  return result;
}
