// The three sweeps that give every tensor of a function a place.
#include "passes/memory/Placement.h"

#include "ir/graph/CollectiveOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ProductForm.h"
#include "ir/graph/Program.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/ShapeOps.h"
#include "passes/fp8/Policy.h"
#include "passes/memory/InPlace.h"
#include "passes/memory/Packing.h"

using namespace mlir;
using namespace nano::graph;

namespace nano::memory {

//===- Layouts ------------------------------------------------------------===//

void normalise(ArrayRef<int64_t> shape, SmallVectorImpl<int64_t> &strides) {
  int64_t inner = 1;
  for (int64_t i = int64_t(shape.size()) - 1; i >= 0; --i) {
    if (shape[i] == 1)
      strides[i] = inner;
    else
      inner = strides[i] * shape[i];
  }
}

SmallVector<int64_t> denseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (int64_t i = int64_t(shape.size()) - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

static bool isDense(ArrayRef<int64_t> shape, const Place &place) {
  return ArrayRef<int64_t>(place.strides) == ArrayRef<int64_t>(denseStrides(shape));
}

MemRefType memrefAt(const Place &place, RankedTensorType type) {
  if (place.offset == 0 && isDense(type.getShape(), place))
    return step::memrefOf(type);
  return MemRefType::get(type.getShape(), type.getElementType(),
                         StridedLayoutAttr::get(type.getContext(), place.offset, place.strides));
}

/// The place with the last two dimensions exchanged, of a tensor of `shape` after that.
static Place exchanged(Place place, ArrayRef<int64_t> shape) {
  std::swap(place.strides.back(), place.strides[place.strides.size() - 2]);
  normalise(shape, place.strides);
  return place;
}

std::optional<Place> viewPlace(Operation *view, const Place &source) {
  ArrayRef<int64_t> from = tensorType(view->getOperand(0)).getShape();
  ArrayRef<int64_t> to = tensorType(view->getResult(0)).getShape();
  Place place = source;
  if (auto slice = dyn_cast<SliceOp>(view)) {
    place.offset += int64_t(slice.getStart()) * source.strides[slice.getDim()];
    normalise(to, place.strides);
    return place;
  }
  if (isa<TransposeOp>(view))
    return exchanged(source, to);
  std::optional<SmallVector<int64_t>> strides = step::reshapeStrides(from, source.strides, to);
  if (!strides)
    return std::nullopt;
  place.strides = std::move(*strides);
  return place;
}

Place transposedPlace(TransposeOp transpose, const Place &result) {
  return exchanged(result, tensorType(transpose.getX()).getShape());
}

bool isMadeBeside(TransposeOp transpose) {
  return transpose.getX().getDefiningOp<FusedOp>() && !transpose.getX().hasOneUse();
}

bool ScaleLayout::holds(MemRefType type) const {
  const step::Layout layout = step::layoutOf(type);
  for (auto [size, stride, wanted] : llvm::zip_equal(type.getShape(), layout.strides, strides))
    if (size > 1 && stride != wanted)
      return false;
  return layout.offset % (scalarAlignment / int64_t(sizeof(float))) == 0;
}

std::optional<ScaleLayout> scaleLayout(ScaledMatmulOp product, unsigned index) {
  auto module = product->getParentOfType<ModuleOp>();
  ArrayRef<int64_t> shape =
      tensorType(index == 0 ? product.getScaleA() : product.getScaleB()).getShape();
  ModelOp model = module ? modelOf(module) : ModelOp();
  if (shape.empty() || !model || !model.getGpuScales())
    return std::nullopt;
  const bool turned = index == 0 ? product.getTransposeA() : !product.getTransposeB();
  const int64_t across = turned ? 1 : 0, along = 1 - across;
  const bool isOfRow = shape[across] == tensorType(product).getDimSize(index);
  const int64_t major = isOfRow ? along : across, minor = 1 - major;
  ScaleLayout layout;
  layout.whole = {shape[major],
                  static_cast<int64_t>(llvm::alignTo(shape[minor], fp8::gpuScaleUnit))};
  layout.strides.assign(2, 1);
  layout.strides[major] = layout.whole[1];
  normalise(shape, layout.strides);
  return layout;
}

/// Of a tensor that a product reads as a scale.
static std::optional<ScaleLayout> scaleLayout(Value tensor) {
  for (Operation *user : tensor.getUsers())
    if (auto product = dyn_cast<ScaledMatmulOp>(user))
      for (unsigned index : {0, 1})
        if ((index == 0 ? product.getScaleA() : product.getScaleB()) == tensor)
          return scaleLayout(product, index);
  return std::nullopt;
}

SmallVector<Place> partPlaces(ConcatOp concat, const Place &whole) {
  SmallVector<Place> parts;
  Place part = whole;
  for (Value input : concat.getInputs()) {
    part.strides = whole.strides;
    normalise(tensorType(input).getShape(), part.strides);
    parts.push_back(part);
    part.offset += tensorType(input).getDimSize(concat.getDim()) * whole.strides[concat.getDim()];
  }
  return parts;
}

/// True when the elements at both places are the same bytes in the same order.
static bool sameElements(const Place &a, ArrayRef<int64_t> shapeA, const Place &b,
                         ArrayRef<int64_t> shapeB) {
  if (a.root != b.root || a.offset != b.offset)
    return false;
  if (shapeA == shapeB)
    return a.strides == b.strides;
  return isDense(shapeA, a) && isDense(shapeB, b) &&
         ShapedType::getNumElements(shapeA) == ShapedType::getNumElements(shapeB);
}

//===- Small parts --------------------------------------------------------===//

const Place &Placement::of(Value tensor) const {
  static const Place none;
  auto found = places.find(tensor);
  return found == places.end() ? none : found->second;
}

Place Placement::whole(FlatSymbolRefAttr symbol, RankedTensorType type) {
  auto [found, isNew] = rootOfSymbol.try_emplace(symbol, int(allRoots.size()));
  if (isNew)
    allRoots.push_back({step::memrefOf(type), symbol, Value()});
  return {found->second, 0, denseStrides(type.getShape())};
}

Place Placement::newRoot(Value value) {
  allRoots.push_back({step::memrefOf(tensorType(value)), FlatSymbolRefAttr(), value});
  return {int(allRoots.size()) - 1, 0, denseStrides(tensorType(value).getShape())};
}

Place Placement::newRoot(Value scale, const ScaleLayout &layout) {
  MemRefType type = MemRefType::get(layout.whole, tensorType(scale).getElementType());
  allRoots.push_back({type, FlatSymbolRefAttr(), scale});
  return {int(allRoots.size()) - 1, 0, layout.strides};
}

MemRefType Placement::memref(Value value, const Place &place) const {
  return memrefAt(place, tensorType(value));
}

void Placement::assign(Value value, const Place &place) {
  Root &root = allRoots[place.root];
  Operation *def = value.getDefiningOp();
  root.lastUse = std::max({root.lastUse, lastUse.lookup(value), def ? position.lookup(def) : -1});
  places[value] = place;
  if (def && (!isViewOp(def) || root.madeFor == value))
    made[place.root].push_back(value);
}

/// Positions, and which ops lead to a store or a result.
void Placement::number() {
  int64_t count = 0;
  for (Operation &op : block)
    position[&op] = count++;
  for (Operation &op : llvm::reverse(block)) {
    int64_t at = position[&op];
    bool isLive =
        isa<StoreOp>(op) || op.hasTrait<OpTrait::IsTerminator>() ||
        llvm::any_of(op.getResults(), [&](Value result) { return lastUse.contains(result); });
    if (!isLive)
      continue;
    live.insert(&op);
    int64_t read = at;
    if (isViewOp(&op))
      read = std::max(at, lastRead.lookup(op.getResult(0)));
    auto use = [&](Value operand) {
      lastUse.try_emplace(operand, at); // from the last op to the first: the first seen is the last
      int64_t &last = lastRead[operand];
      last = std::max(last, read);
    };
    for (Value operand : op.getOperands())
      use(operand);
    for (Region &region : op.getRegions())
      region.walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (operand.getParentBlock() == &block)
            use(operand);
      });
  }
}

//===- Sweep 1: loads and arguments ---------------------------------------===//

void Placement::placeLoads(ArrayRef<FlatSymbolRefAttr> inputs) {
  for (auto [argument, symbol] : llvm::zip(block.getArguments(), inputs))
    assign(argument, whole(symbol, tensorType(argument)));
  for (auto store : block.getOps<StoreOp>())
    states[store.getSymbolAttr()].stores.push_back(position[store]);
  for (Operation &op : block) {
    if (isDropped(&op))
      continue;
    if (auto load = dyn_cast<LoadOp>(op)) {
      StateUse &state = states[load.getSymbolAttr()];
      int64_t at = position[&op], last = lastRead.lookup(load);
      auto next = llvm::upper_bound(state.stores, at);
      if (next != state.stores.end() && last > *next) {
        state.loads.push_back({at, at});
        continue;
      }
      state.loads.push_back({at, last});
      assign(load, whole(load.getSymbolAttr(), tensorType(load)));
    } else if (isViewOp(&op) && of(op.getOperand(0))) {
      if (std::optional<Place> place = viewPlace(&op, of(op.getOperand(0))))
        assign(op.getResult(0), *place);
    }
  }
}

//===- Sweep 2: values that must go somewhere -----------------------------===//

static Value addendOf(Operation *product) {
  if (auto matmul = dyn_cast<MatmulOp>(product))
    return matmul.getAddend();
  return cast<ScaledMatmulOp>(product).getAddend();
}

bool Placement::mayOverwriteOperands(OpResult value, const Place &place) {
  Operation *op = value.getOwner();
  std::optional<InPlace> inPlace;
  for (OpOperand &operand : op->getOpOperands()) {
    const Place &read = of(operand.get());
    if (read.root != place.root)
      continue;
    if (!sameElements(read, tensorType(operand.get()).getShape(), place,
                      tensorType(value).getShape()))
      return false;
    if (isa<MatmulOp, ScaledMatmulOp>(op)) {
      // Over the addend, when no other operand is the same tensor.
      Value addend = addendOf(op);
      if (operand.get() != addend || llvm::count(op->getOperands(), addend) > 1)
        return false;
    } else if (!isa<AllReduceOp>(op)) {
      if (!inPlace)
        inPlace.emplace(op);
      if (!inPlace->mayOverwrite(operand.getOperandNumber(), value.getResultNumber()))
        return false;
    }
  }
  return true;
}

bool Placement::oldValueIsDone(OpResult value, const Place &place, const Window &window) {
  int64_t at = position[value.getOwner()];
  if (at <= window.after || lastRead.lookup(value) >= window.limit)
    return false;
  bool readHere = false;
  for (const Load &load : states[allRoots[place.root].symbol].loads) {
    if (load.at > window.store)
      continue;
    if (load.lastRead > at)
      return false;
    readHere |= load.lastRead == at;
  }
  return !readHere || mayOverwriteOperands(value, place);
}

/// True when a product takes the number `value`, in whatever shape, as a scale.
static bool isScale(Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (auto reshape = dyn_cast<ReshapeOp>(user))
      return isScale(reshape);
    auto product = dyn_cast<ScaledMatmulOp>(user);
    return product && (product.getScaleA() == value || product.getScaleB() == value);
  });
}

/// True when a product takes `value` as a scale and `place` is not where libraries want one.
static bool isUnalignedScale(Value value, const Place &place) {
  constexpr int64_t alignment = memory::scalarAlignment / int64_t(sizeof(float));
  return place.offset % alignment != 0 && isScale(value);
}

bool Placement::put(Value value, const Place &place, const Window &window) {
  auto result = dyn_cast<OpResult>(value);
  if (!result || places.contains(value) || isUnalignedScale(value, place))
    return false;
  Operation *op = result.getOwner();
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    auto strides = step::reshapeStrides(tensorType(value).getShape(), place.strides,
                                        tensorType(reshape.getX()).getShape());
    return strides && put(reshape.getX(), {place.root, place.offset, *strides}, window);
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    Place of = transposedPlace(transpose, place);
    if (!isMadeBeside(transpose))
      return put(transpose.getX(), of, window);
    auto made = cast<OpResult>(transpose.getX());
    if (FlatSymbolRefAttr symbol = allRoots[place.root].symbol) {
      if (!oldValueIsDone(made, of, window))
        return false;
      int64_t &next = states[symbol].nextWrite;
      next = std::min(next, position[made.getOwner()]);
    }
    assign(value, place);
    return true;
  }
  if (isa<LoadOp, SliceOp>(op))
    return false;
  MemRefType type = memref(value, place);
  if ((isa<MatmulOp, ScaledMatmulOp>(op) && !step::matrixLayout(type)) ||
      (isExchange(op) && !step::isContiguous(type)))
    return false;
  if (FlatSymbolRefAttr symbol = allRoots[place.root].symbol) {
    if (!oldValueIsDone(result, place, window))
      return false;
    int64_t &next = states[symbol].nextWrite;
    next = std::min(next, position[op]);
    windows[value] = window;
  }
  assign(value, place);
  return true;
}

void Placement::placeTargets(ArrayRef<FlatSymbolRefAttr> outputs) {
  for (Operation &op : llvm::reverse(block)) {
    if (isDropped(&op))
      continue;
    int64_t at = position[&op];
    auto store = [&](Value value, FlatSymbolRefAttr symbol) {
      StateUse &state = states[symbol];
      Window window{-1, state.nextWrite, at};
      if (auto previous = llvm::lower_bound(state.stores, at); previous != state.stores.begin())
        window.after = *std::prev(previous);
      Place target = whole(symbol, tensorType(value));
      const Place &present = of(value);
      if (present == target)
        return; // the state's own value: nothing is written
      if (!put(value, target, window))
        states[symbol].nextWrite = std::min(states[symbol].nextWrite, at);
    };
    if (auto stored = dyn_cast<StoreOp>(op)) {
      store(stored.getValue(), stored.getSymbolAttr());
    } else if (isa<ReturnOp>(op)) {
      for (auto [value, symbol] : llvm::zip(op.getOperands(), outputs))
        store(value, symbol);
    } else if (auto concat = dyn_cast<ConcatOp>(op)) {
      if (!lieInSource(concat) && !of(concat))
        assign(concat, newRoot(concat));
      Place place = of(concat);
      Window window = windows.lookup(concat);
      for (auto [part, where] : llvm::zip(concat.getInputs(), partPlaces(concat, place)))
        put(part, where, window);
    } else if (auto reduce = dyn_cast<AllReduceOp>(op)) {
      // In place: what is combined is made where the result must be, if nothing else reads it.
      Value made = reduce.getX();
      while (Operation *view = made.getDefiningOp()) {
        if (!isViewOp(view))
          break;
        made = view->getOperand(0);
      }
      if (Place place = of(reduce); place && lastRead.lookup(made) <= at)
        put(reduce.getX(), place, windows.lookup(reduce));
    } else if (isa<MatmulOp, ScaledMatmulOp>(op)) {
      // A sum that products add to one after the other grows where the last one puts it.
      const OpResult sum = op.getResult(0);
      const Value addend = addendOf(&op);
      const Place place = of(sum);
      if (addend && place && (allRoots[place.root].symbol || allRoots[place.root].madeFor == sum) &&
          addend.getType() == sum.getType() && lastRead.lookup(addend) <= at &&
          llvm::count(op.getOperands(), addend) == 1)
        put(addend, place, windows.lookup(sum));
    } else if (auto fused = dyn_cast<FusedOp>(op);
               fused && nano::productOf(fused.getBody().front())) {
      // Likewise where kernels begin with the products.
      for (const OpResult sum : fused.getResults()) {
        const Place place = of(sum);
        if (!place || !allRoots[place.root].symbol)
          continue;
        InPlace inPlace(fused);
        for (OpOperand &addend : fused->getOpOperands())
          if (addend.get().getType() == sum.getType() && lastRead.lookup(addend.get()) <= at &&
              llvm::count(op.getOperands(), addend.get()) == 1 &&
              inPlace.mayOverwrite(addend.getOperandNumber(), sum.getResultNumber()) &&
              put(addend.get(), place, windows.lookup(sum)))
            break;
      }
    }
  }
}

//===- Sweep 3: the rest --------------------------------------------------===//

Place Placement::dyingOperand(OpResult value) {
  Operation *op = value.getOwner();
  RankedTensorType type = tensorType(value);
  bool mayReuse =
      op->hasTrait<ElementwiseOp>() || isa<FusedOp, MatmulOp, ScaledMatmulOp, AllReduceOp>(op);
  if (!mayReuse)
    return {};
  int64_t at = position[op];
  for (Value operand : op->getOperands()) {
    const Place &place = of(operand);
    if (!place || place.offset != 0)
      continue;
    const Root &root = allRoots[place.root];
    Place candidate{place.root, 0, denseStrides(type.getShape())};
    bool taken =
        llvm::any_of(op->getResults(), [&](Value other) { return of(other).root == place.root; });
    if (!root.symbol && root.lastUse <= at && root.type.getNumElements() == type.getNumElements() &&
        root.type.getElementType() == type.getElementType() && !taken &&
        mayOverwriteOperands(value, candidate))
      return candidate;
  }
  return {};
}

/// True when a matrix product, which needs dense rows, reads the tensor or a part of it, not as a
/// scale.
static bool isFactor(Value tensor) {
  return llvm::any_of(tensor.getUses(), [](OpOperand &use) {
    if (auto slice = dyn_cast<SliceOp>(use.getOwner()))
      return isFactor(slice);
    if (auto fused = dyn_cast<FusedOp>(use.getOwner()))
      return isFactorOfProduct(fused, use.getOperandNumber());
    auto product = dyn_cast<ScaledMatmulOp>(use.getOwner());
    return product ? use.get() != product.getScaleA() && use.get() != product.getScaleB()
                   : isa<MatmulOp>(use.getOwner());
  });
}

/// The transpose that alone reads a kernel's result, if a product reads it in turn: then the kernel
/// writes rows as columns.
static TransposeOp onlyTransposed(OpResult result) {
  if (!isa<FusedOp>(result.getOwner()) || !result.hasOneUse())
    return {};
  auto transpose = dyn_cast<TransposeOp>(*result.user_begin());
  return transpose && isFactor(transpose) ? transpose : TransposeOp();
}

void Placement::placeRest() {
  for (Operation &op : block) {
    if (isDropped(&op))
      continue;
    if (auto transpose = dyn_cast<TransposeOp>(op);
        transpose && !of(transpose) && isMadeBeside(transpose) && isFactor(transpose))
      assign(transpose, newRoot(transpose));
    if (isViewOp(&op) && !of(op.getResult(0)))
      if (std::optional<Place> place = viewPlace(&op, of(op.getOperand(0))))
        assign(op.getResult(0), *place);
    for (OpResult result : op.getResults()) {
      if (of(result))
        continue;
      if (std::optional<ScaleLayout> layout = scaleLayout(result)) {
        assign(result, newRoot(result, *layout));
        continue;
      }
      if (TransposeOp transpose = onlyTransposed(result)) {
        assign(transpose, newRoot(transpose));
        assign(result, transposedPlace(transpose, of(transpose)));
        continue;
      }
      Place place = dyingOperand(result);
      if (!place)
        place = partOfOperand(result);
      assign(result, place ? place : newRoot(result));
    }
  }
}

Placement::Placement(ProgramOp function, ArrayRef<FlatSymbolRefAttr> inputs,
                     ArrayRef<FlatSymbolRefAttr> outputs)
    : block(function.getBody().front()) {
  number();
  placeLoads(inputs);
  placeTargets(outputs);
  placeRest();
}

} // namespace nano::memory
