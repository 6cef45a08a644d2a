// Collects a chain of ops over wide rows and derives how each of them acts on rows.
#include "passes/fuse/RowChain.h"

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ReduceOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// Rows that one element may stand for at most: the blocks of scales.
constexpr int64_t largestUnit = 128;

/// Where the rows are in a tensor that has one element, or one block, along `dim` for each of
/// `size` of them; nothing when that does not come out even.
std::optional<RowDim> rowsAlong(int64_t dim, int64_t size, int64_t rows) {
  if (size < 1 || rows % size != 0 || largestUnit % (rows / size) != 0)
    return std::nullopt;
  return RowDim{dim, rows / size};
}

int64_t elementsBefore(ArrayRef<int64_t> shape, int64_t dim) {
  int64_t elements = 1;
  for (int64_t size : shape.take_front(dim))
    elements *= size;
  return elements;
}

/// All operands have the rows where the result has them.
RowAction actionAlike(Operation *op, RowDim rowsOf) {
  RowAction form{{}, rowsOf};
  form.operands.assign(op->getNumOperands(), rowsOf);
  return form;
}

} // namespace

RowChain::RowChain(Operation *root)
    : root(root), rows(tensorType(root->getResult(0)).getDimSize(0)),
      wideElements(tensorType(root->getResult(0)).getNumElements()) {}

//===- The ops of a chain -------------------------------------------------------------------===//

bool RowChain::isWide(Value value) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getNumElements() >= wideElements &&
         !isa_and_present<LoadOp>(value.getDefiningOp()) &&
         // A constant that products of several layers read does not bind them together.
         !(reachesFurther && isa_and_present<ConstantOp>(value.getDefiningOp()));
}

void RowChain::add(Operation *op) {
  if (op->getBlock() == block() && !op->hasTrait<OpTrait::IsTerminator>() &&
      !isa<LoadOp, StoreOp, AccumulateOp>(op))
    members.insert(op);
}

bool RowChain::mayKeepRows(Operation *op) { return formOfKind(op); }

/// Adds what depends on the chain and what the chain depends on at once; sets `obstacle` where that
/// is no op of a chain.
void RowChain::addBetween() {
  Operation *first = members.front(), *last = members.front();
  for (Operation *op : members) {
    first = op->isBeforeInBlock(first) ? op : first;
    last = last->isBeforeInBlock(op) ? op : last;
  }
  llvm::SmallDenseSet<Operation *> depends;
  SmallVector<Operation *> candidates;
  for (Operation *op = first; op != last->getNextNode(); op = op->getNextNode()) {
    bool reached = members.contains(op) || llvm::any_of(op->getOperands(), [&](Value operand) {
                     return depends.contains(operand.getDefiningOp());
                   });
    if (!reached)
      continue;
    depends.insert(op);
    if (!members.contains(op))
      candidates.push_back(op);
  }
  llvm::SmallDenseSet<Operation *> needed;
  for (Operation *op : llvm::reverse(candidates))
    if (llvm::any_of(op->getUsers(), [&](Operation *user) {
          return members.contains(user) || needed.contains(user);
        })) {
      needed.insert(op);
      if (!mayKeepRows(op))
        obstacle = op;
    }
  for (Operation *op : candidates)
    if (needed.contains(op))
      add(op);
}

/// Adds all that belongs to the members, until nothing does or `obstacle` is set.
void RowChain::close() {
  for (bool changed = true; changed && !obstacle;) {
    size_t before = members.size();
    for (size_t i = 0; i < members.size(); ++i) {
      for (Value result : members[i]->getResults())
        if (isWide(result))
          for (Operation *user : result.getUsers())
            add(user);
      for (Value operand : members[i]->getOperands())
        if (isWide(operand) && operand.getDefiningOp())
          add(operand.getDefiningOp());
    }
    for (Operation *op : members)
      if (!mayKeepRows(op))
        obstacle = op;
    if (!obstacle)
      addBetween();
    changed = members.size() != before;
  }
}

bool RowChain::collect() {
  add(root);
  close();
  return !obstacle && derive();
}

/// Derives how each member acts on rows.
bool RowChain::derive() {
  SmallVector<Operation *> sorted(members.begin(), members.end());
  llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : sorted) {
    std::optional<RowAction> form = formOf(op);
    // What combines rows is complete after the last chunk only, except where it need not be.
    if (form && form->combines &&
        llvm::any_of(op->getUsers(), [&](Operation *user) { return members.contains(user); })) {
      form->isLocal = form->combines == Combiner::max && onlyScales(op->getResult(0));
      if (!form->isLocal)
        form.reset();
    }
    if (!form) {
      obstacle = op;
      return false;
    }
    for (Value result : op->getResults())
      known[result] = form->result;
    ops.emplace_back(op, *form);
  }
  return true;
}

bool RowChain::isLogits() const {
  SmallVector<Operation *> work{root};
  llvm::SmallDenseSet<Operation *> seen;
  if (isa<ExpMatmulOp>(root))
    return true;
  while (!work.empty())
    for (Operation *user : work.pop_back_val()->getUsers()) {
      if (isa<CrossEntropyOp>(user))
        return true;
      if (user->hasTrait<ElementwiseOp>() && seen.insert(user).second)
        work.push_back(user);
    }
  return false;
}

bool RowChain::isInner(Value value) const {
  auto it = known.find(value);
  return it != known.end() && it->second &&
         llvm::all_of(value.getUsers(), [&](Operation *user) { return contains(user); });
}

int64_t RowChain::alignment() const {
  int64_t unit = 1;
  for (const auto &[op, form] : ops) {
    unit = std::max(unit, form.result.unit);
    for (RowDim operand : form.operands)
      unit = std::max(unit, operand.unit);
  }
  return unit;
}

RankedTensorType RowChain::withRows(Type type, RowDim where, int64_t chunk) {
  auto tensor = cast<RankedTensorType>(type);
  if (!where)
    return tensor;
  SmallVector<int64_t> shape(tensor.getShape());
  shape[where.dim] = chunk / where.unit;
  return tensor.clone(shape);
}

//===- How ops act on rows ------------------------------------------------------------------===//

/// The rows of a value of the chain; none for one from outside.
RowDim RowChain::where(Value value) const { return known.lookup(value); }

/// Where the rows of a tensor that tells nothing else are: the first dimension of their number.
RowDim RowChain::guess(RankedTensorType type) const {
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.getDimSize(dim) == rows)
      return {dim, 1};
  return {};
}

std::optional<RowAction> RowChain::reshapeForm(Operation *of) const {
  auto op = cast<ReshapeOp>(of);
  RankedTensorType from = tensorType(op.getX()), to = tensorType(op);
  RowDim x = where(op.getX());
  if (!x)
    x = guess(from);
  if (!x)
    return std::nullopt;
  // Row-major order: the rows stay side by side where as many elements stand before them.
  int64_t before = elementsBefore(from.getShape(), x.dim);
  for (int64_t dim = 0; dim < to.getRank(); ++dim)
    if (elementsBefore(to.getShape(), dim) == before && to.getDimSize(dim) > 1)
      if (std::optional<RowDim> result = rowsAlong(dim, to.getDimSize(dim), rows))
        return RowAction{{x}, *result};
  return std::nullopt;
}

std::optional<RowAction> RowChain::reduceForm(Operation *of) const {
  auto op = cast<ReduceOp>(of);
  RowDim x = where(op.getX());
  if (!x)
    x = guess(tensorType(op.getX()));
  if (!x)
    return std::nullopt;
  if (llvm::is_contained(op.getDims(), x.dim)) {
    if (op.getCombiner() == Combiner::logsumexp)
      return std::nullopt; // of one row only: chunks combine by a sum or a maximum
    return RowAction{{x}, {}, op.getCombiner()};
  }
  int64_t removed = llvm::count_if(op.getDims(), [&](int64_t dim) { return dim < x.dim; });
  return RowAction{{x}, {x.dim - removed, x.unit}};
}

std::optional<RowAction> RowChain::broadcastForm(Operation *of) const {
  auto op = cast<BroadcastOp>(of);
  RankedTensorType from = tensorType(op.getX()), to = tensorType(op);
  if (RowDim x = where(op.getX())) {
    RowDim result{op.getDims()[x.dim], x.unit};
    bool keeps = from.getDimSize(x.dim) == to.getDimSize(result.dim);
    return keeps ? std::optional(RowAction{{x}, result}) : std::nullopt;
  }
  RowDim result = guess(to), x;
  for (auto [dim, target] : llvm::enumerate(op.getDims()))
    if (target == result.dim && from.getDimSize(dim) == rows)
      x = {int64_t(dim), 1};
  return result ? std::optional(RowAction{{x}, result}) : std::nullopt;
}

/// y = op(a)·op(b) with scales, where there are any, and an addend: rows of a, of op(b)'s columns,
/// or of what is summed over.
std::optional<RowAction> RowChain::productForm(Operation *op) const {
  auto scaled = dyn_cast<ScaledMatmulOp>(op);
  const bool transposeA = scaled ? scaled.getTransposeA() : cast<MatmulOp>(op).getTransposeA(),
             transposeB = scaled ? scaled.getTransposeB() : cast<MatmulOp>(op).getTransposeB();
  Value a = op->getOperand(0), b = op->getOperand(1);
  if (tensorType(a).getRank() != 2 || tensorType(b).getRank() != 2)
    return std::nullopt;
  RowDim rowsA = where(a), rowsB = where(b);
  if (rowsA.unit != 1 || rowsB.unit != 1)
    return std::nullopt;
  if (!rowsA && !rowsB)
    rowsA = guess(tensorType(a));
  int64_t innerA = transposeA ? 0 : 1, innerB = transposeB ? 1 : 0;
  bool sums = (rowsA && rowsA.dim == innerA) || (rowsB && rowsB.dim == innerB);
  RowDim result;
  if (sums) {
    if ((rowsA && rowsA.dim != innerA) || (rowsB && rowsB.dim != innerB))
      return std::nullopt;
    rowsA = {innerA, 1};
    rowsB = {innerB, 1};
  } else if (bool(rowsA) == bool(rowsB)) {
    return std::nullopt;
  } else {
    result = rowsA ? RowDim{0, 1} : RowDim{1, 1};
  }
  RowAction form{{rowsA, rowsB}, result};
  if (sums)
    form.combines = Combiner::sum;
  if (scaled)
    for (auto [scale, rowsOf] :
         {std::pair(scaled.getScaleA(), rowsA), std::pair(scaled.getScaleB(), rowsB)}) {
      RankedTensorType type = tensorType(scale);
      if (!rowsOf || type.getRank() == 0) {
        form.operands.emplace_back();
        continue;
      }
      std::optional<RowDim> along = rowsAlong(rowsOf.dim, type.getDimSize(rowsOf.dim), rows);
      if (!along)
        return std::nullopt;
      form.operands.push_back(*along);
    }
  if (op->getNumOperands() > form.operands.size()) {
    if (sums)
      return std::nullopt; // the addend is the sum of the chunks before
    form.operands.push_back(result);
  }
  return form;
}

/// Conversion from or to f8: a scale belongs to whole rows, or to blocks of them.
std::optional<RowAction> RowChain::scaledForm(Operation *op) const {
  RankedTensorType scale = tensorType(op->getOperand(1));
  RowDim x = where(op->getOperand(0));
  if (!x)
    x = guess(tensorType(op->getOperand(0)));
  if (!x)
    return std::nullopt;
  if (scale.getRank() == 0 || scale.getDimSize(x.dim) == 1)
    return RowAction{{x, {}}, x};
  std::optional<RowDim> along = rowsAlong(x.dim, scale.getDimSize(x.dim), rows);
  return along ? std::optional(RowAction{{x, *along}, x}) : std::nullopt;
}

std::optional<RowAction> RowChain::lossForm(Operation *op) const { return actionAlike(op, {0, 1}); }

std::optional<RowAction> RowChain::expProductForm(Operation *) const {
  return RowAction{{{0, 1}, {}, {0, 1}, {0, 1}}, {0, 1}};
}

std::optional<RowAction> RowChain::gatherForm(Operation *) const {
  return RowAction{{{}, {0, 1}}, {0, 1}};
}

/// Where the rows are in the first operand of the chain, or else in the result.
RowDim RowChain::rowsOf(Operation *op) const {
  for (Value operand : op->getOperands())
    if (known.contains(operand))
      return where(operand);
  return op->getNumResults() == 1 ? guess(tensorType(op->getResult(0))) : RowDim();
}

std::optional<RowAction> RowChain::transposeForm(Operation *op) const {
  const Value x = cast<TransposeOp>(op).getX();
  const int64_t rank = tensorType(x).getRank();
  const RowDim rowsOf = known.contains(x) ? where(x) : guess(tensorType(x));
  RowDim result = rowsOf;
  if (rowsOf.dim >= rank - 2)
    result.dim = 2 * rank - 3 - rowsOf.dim;
  return RowAction{{rowsOf}, result};
}

/// Of ops that keep rows where they are, along all dimensions but one.
std::optional<RowAction> RowChain::sameForm(Operation *op) const {
  const RowDim rows = rowsOf(op);
  const int64_t rank = tensorType(op->getResult(0)).getRank(),
                mixed = llvm::TypeSwitch<Operation *, int64_t>(op)
                            .Case<SliceOp, ConcatOp, IotaOp>([](auto op) { return op.getDim(); })
                            .Case<RotateOp>([&](auto) { return rank - 1; })
                            .Default(rank);
  return rows.dim == mixed ? std::nullopt : std::optional(actionAlike(op, rows));
}

RowChain::Form RowChain::formOfKind(Operation *op) {
  return llvm::TypeSwitch<Operation *, Form>(op)
      .Case<MatmulOp, ScaledMatmulOp>([](auto) { return &RowChain::productForm; })
      .Case<ExpMatmulOp>([](auto) { return &RowChain::expProductForm; })
      .Case<QuantizeOp, DequantizeOp>([](auto) { return &RowChain::scaledForm; })
      .Case<ReshapeOp>([](auto) { return &RowChain::reshapeForm; })
      .Case<ReduceOp>([](auto) { return &RowChain::reduceForm; })
      .Case<BroadcastOp>([](auto) { return &RowChain::broadcastForm; })
      .Case<CrossEntropyOp>([](auto) { return &RowChain::lossForm; })
      .Case<GatherOp>([](auto) { return &RowChain::gatherForm; })
      .Case<TransposeOp>([](auto) { return &RowChain::transposeForm; })
      .Case<SliceOp, ConcatOp, RotateOp>([](auto) { return &RowChain::sameForm; })
      .Default(op->hasTrait<ElementwiseOp>() ? &RowChain::sameForm : nullptr);
}

/// True when the chain reads `number`, rank 0, as a scale of conversions to 8 bits and of the
/// products that read those, or makes such a scale from it: a scale of the chunk's own serves as
/// well as one of all rows.
bool RowChain::onlyScales(Value number) const {
  return tensorType(number).getRank() == 0 && llvm::all_of(number.getUses(), [&](OpOperand &use) {
           Operation *user = use.getOwner();
           if (!members.contains(user))
             return true;
           if (isa<QuantizeOp, DequantizeOp>(user))
             return use.getOperandNumber() == 1;
           if (isa<ScaledMatmulOp>(user))
             return use.getOperandNumber() == 2 || use.getOperandNumber() == 3;
           return user->hasTrait<ElementwiseOp>() && onlyScales(user->getResult(0));
         });
}

/// How `op` acts on rows; nothing when it mixes them.
std::optional<RowAction> RowChain::formOf(Operation *op) const {
  auto check = [&](std::optional<RowAction> form) -> std::optional<RowAction> {
    if (!form || form->operands.size() != op->getNumOperands())
      return std::nullopt;
    for (auto [operand, rowsOf] : llvm::zip(op->getOperands(), form->operands)) {
      RankedTensorType type = tensorType(operand);
      if (rowsOf &&
          (rowsOf.dim >= type.getRank() || type.getDimSize(rowsOf.dim) * rowsOf.unit != rows))
        return std::nullopt;
      if (known.contains(operand) && where(operand) != rowsOf)
        return std::nullopt;
    }
    for (Value result : op->getResults()) {
      RankedTensorType type = tensorType(result);
      bool fits = form->combines || (form->result && form->result.dim < type.getRank() &&
                                     type.getDimSize(form->result.dim) * form->result.unit == rows);
      if (!fits)
        return std::nullopt;
    }
    return form;
  };
  // Numbers made from a chunk's own.
  if (op->hasTrait<ElementwiseOp>() && tensorType(op->getResult(0)).getRank() == 0 &&
      llvm::any_of(op->getOperands(), [&](Value operand) { return known.contains(operand); })) {
    RowAction form;
    form.operands.resize(op->getNumOperands());
    form.isLocal = true;
    return form;
  }
  const Form form = formOfKind(op);
  return form ? check((this->*form)(op)) : std::nullopt;
}
