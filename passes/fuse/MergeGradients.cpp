// Merges products that give the gradients of weights.
#include "passes/fuse/MergeGradients.h"

#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/Program.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Sharding.h"
#include "ir/graph/Values.h"
#include "passes/DetailRemark.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

#include <map>

using namespace mlir;
using namespace nano::graph;

namespace nano {

namespace {

/// What memory moves at least: a slice that begins at a multiple of it is read as fast as a state.
constexpr int64_t sectorBytes = 32;

/// What one product may take of the time of several: less than that is the prediction's own error.
constexpr double leastGain = 0.97;

/// A product that gives the gradient of a weight, or adds to it, and stores it.
struct Gradient {
  MatmulOp product;
  StoreOp store;
  LoadOp addend; ///< null where it begins the sum
};

/// Gradients that one program computes of the same x and of neighbours in a concat, in its order.
struct Bundle {
  SmallVector<Gradient> gradients;
  ConcatOp whole;
  int64_t begin = 0; ///< column of the whole
};
using Names = SmallVector<StringRef>;

/// The gradient that the op computes of `part`, its first factor, turned.
std::optional<Gradient> gradientOf(Operation *op, Value part) {
  auto product = dyn_cast<MatmulOp>(op);
  if (!product || product.getA() != part || !product.getTransposeA() || product.getTransposeB() ||
      tensorType(product).getRank() != 2 || !product->hasOneUse() ||
      !product.getAlpha().isExactlyValue(1.0))
    return std::nullopt;
  Gradient gradient{product, dyn_cast<StoreOp>(*product->user_begin()), {}};
  if (!gradient.store)
    return std::nullopt;
  if (Value addend = product.getAddend()) {
    gradient.addend = addend.getDefiningOp<LoadOp>();
    if (!gradient.addend || gradient.addend.getSymbol() != gradient.store.getSymbol() ||
        !gradient.addend->hasOneUse() || !product.getBeta().isExactlyValue(1.0))
      return std::nullopt;
  }
  return gradient;
}

class GradientMerger {
public:
  GradientMerger(ModuleOp module, const machine::Machine &rates, bool report)
      : module(module), symbols(module), rates(rates), report(report) {}

  bool run() {
    if (const auto uses = SymbolTable::getSymbolUses(&module.getBodyRegion()))
      for (const SymbolTable::SymbolUse &use : *uses)
        users[use.getSymbolRef().getRootReference().getValue()].push_back(use.getUser());
    for (auto program : module.getOps<ProgramOp>())
      if (!program.isExternal())
        for (auto whole : program.getBody().front().getOps<ConcatOp>())
          gather(whole);
    bool changed = false;
    for (auto &[names, places] : bundles) {
      const std::string obstacle = obstacleTo(names, places);
      for (const Gradient &gradient : places.front().gradients)
        if (report)
          emitDetail(gradient.product)
              << (obstacle.empty() ? "one product with gradients of others of the same operand"
                                   : "apart from gradients of the same operand: " + obstacle);
      if (!obstacle.empty())
        continue;
      merge(names, places);
      changed = true;
    }
    return changed;
  }

private:
  void gather(ConcatOp whole);
  std::string obstacleTo(const Names &names, ArrayRef<Bundle> places);
  bool isOneFaster(const Bundle &bundle) const;
  void merge(const Names &names, MutableArrayRef<Bundle> places);

  ModuleOp module;
  SymbolTable symbols;
  const machine::Machine &rates;
  const bool report;
  llvm::DenseMap<StringRef, SmallVector<Operation *>> users; ///< by the state that they name
  llvm::DenseSet<Operation *> taken; ///< products; a part may be one of several concats
  /// By the names of the gradients, one a program.
  llvm::MapVector<Names, SmallVector<Bundle>, std::map<Names, unsigned>> bundles;
};

/// Finds the gradients of what parts of the concat, side by side, are gradients of themselves.
void GradientMerger::gather(ConcatOp whole) {
  if (whole.getDim() != 1 || tensorType(whole).getRank() != 2)
    return;
  struct Found {
    size_t part;
    int64_t begin;
    Gradient gradient;
  };
  llvm::MapVector<Value, SmallVector<Found>> byOther;
  int64_t begin = 0;
  for (auto [i, part] : llvm::enumerate(whole.getInputs())) {
    for (Operation *user : part.getUsers())
      if (std::optional<Gradient> gradient = gradientOf(user, part))
        if (taken.insert(user).second)
          byOther[gradient->product.getB()].push_back({i, begin, *gradient});
    begin += tensorType(part).getDimSize(1);
  }
  for (auto &[other, all] : byOther)
    for (ArrayRef<Found> left = all; !left.empty();) {
      size_t count = 1;
      while (count < left.size() && left[count].part == left[count - 1].part + 1)
        ++count;
      Bundle bundle{{}, whole, left.front().begin};
      Names names;
      for (const Found &found : left.take_front(count)) {
        bundle.gradients.push_back(found.gradient);
        names.push_back(StoreOp(found.gradient.store).getSymbol());
      }
      if (count > 1)
        bundles[names].push_back(std::move(bundle));
      left = left.drop_front(count);
    }
}

/// Why these stay apart, or nothing.
std::string GradientMerger::obstacleTo(const Names &names, ArrayRef<Bundle> places) {
  const auto first = symbols.lookup<StateOp>(names.front());
  for (auto [i, name] : llvm::enumerate(names)) {
    auto state = symbols.lookup<StateOp>(name);
    if (state.getRole() != Role::Gradient || state.getSharding())
      return "they do not lie whole on a rank";
    if (state.getTensorType().getElementType() != StateOp(first).getTensorType().getElementType())
      return "they are of different types";
    const int64_t bits = state.getTensorType().getElementTypeBitWidth();
    if (state.getTensorType().getNumElements() * bits / 8 % sectorBytes != 0)
      return "they are no multiples of 32 bytes";
    for (Operation *user : users.lookup(name)) {
      if (llvm::any_of(places, [&](const Bundle &bundle) {
            return user == bundle.gradients[i].store || user == bundle.gradients[i].addend;
          }))
        continue;
      if (!isa<LoadOp>(user) || !llvm::all_of(user->getUsers(), llvm::IsaPred<FusedOp>))
        return "others than kernels read them, or not all programs write them so";
      if (llvm::any_of(places, [&](const Bundle &bundle) {
            return user->getBlock() == ConcatOp(bundle.whole)->getBlock();
          }))
        return "the program that writes them reads them";
    }
  }
  for (const Bundle &bundle : places) {
    if (llvm::any_of(bundle.gradients, [&](const Gradient &each) {
          return bool(each.addend) != bool(bundle.gradients.front().addend);
        }))
      return "not all are added to what is there";
    if (!isOneFaster(bundle))
      return "that is predicted to be faster";
  }
  return "";
}

bool GradientMerger::isOneFaster(const Bundle &bundle) const {
  MatmulOp first = bundle.gradients.front().product;
  const RankedTensorType other = tensorType(first.getB());
  const int64_t inner = other.getDimSize(0), columns = other.getDimSize(1);
  const double factorBytes = other.getElementTypeBitWidth() / 8.0,
               resultBytes = tensorType(first.getResult()).getElementTypeBitWidth() / 8.0 *
                             (bundle.gradients.front().addend ? 2 : 1);
  const machine::ElementType element =
      other.getElementTypeBitWidth() == 16 ? machine::ElementType::BF16 : machine::ElementType::F32;
  const auto seconds = [&](int64_t rows) {
    const double bytes = factorBytes * double(inner) * double(rows + columns) +
                         resultBytes * double(rows) * double(columns);
    return rates.product(rows, columns, inner, 1, element, bytes) + rates.command();
  };
  double apart = 0;
  int64_t rows = 0;
  for (const Gradient &each : bundle.gradients) {
    const int64_t own = tensorType(MatmulOp(each.product).getResult()).getDimSize(0);
    apart += seconds(own);
    rows += own;
  }
  return seconds(rows) < leastGain * apart;
}

void GradientMerger::merge(const Names &names, MutableArrayRef<Bundle> places) {
  SmallVector<StateOp> states;
  SmallVector<int64_t> begins;
  int64_t rows = 0;
  for (StringRef name : names) {
    states.push_back(symbols.lookup<StateOp>(name));
    begins.push_back(rows);
    rows += states.back().getTensorType().getDimSize(0);
  }
  const int64_t columns = states.front().getTensorType().getDimSize(1);
  const RankedTensorType type = states.front().getTensorType().clone({rows, columns});
  const std::string name = (names.front() + ".merged").str();

  OpBuilder builder(states.front());
  auto whole = StateOp::create(builder, states.front().getLoc(), name, type, Role::Gradient,
                               states.front().getInit());
  Sharding sharding{1, RankSet::group, rows * columns, {}};
  for (auto [state, begin] : llvm::zip_equal(states, begins))
    sharding.pieces.push_back({state.getSymName().str(),
                               SmallVector<int64_t>(state.getTensorType().getShape()),
                               begin * columns});
  whole.setShardingAttr(sharding.attribute(module.getContext()));

  for (auto [i, state, begin] : llvm::enumerate(states, begins)) {
    for (Operation *user : users.lookup(names[i])) {
      auto load = dyn_cast<LoadOp>(user);
      if (!load ||
          llvm::any_of(places, [&](Bundle &bundle) { return load == bundle.gradients[i].addend; }))
        continue;
      builder.setInsertionPoint(load);
      GraphBuilder g(builder, load.getLoc());
      load.replaceAllUsesWith(
          SliceOp::create(builder, load.getLoc(), load.getType(), g.load(name, type), 0, begin)
              .getResult());
      load.erase();
    }
    state.erase();
  }
  for (Bundle &bundle : places) {
    Operation *last = bundle.gradients.front().product;
    SmallVector<Location> lines;
    for (Gradient &each : bundle.gradients) {
      lines.push_back(each.product.getLoc());
      if (last->isBeforeInBlock(each.product))
        last = each.product;
    }
    // The whole is where it is needed first, which may be behind: there it can be once its parts
    // are.
    if (last->isBeforeInBlock(bundle.whole)) {
      const bool isThere = llvm::all_of(bundle.whole.getInputs(), [&](Value part) {
        Operation *op = part.getDefiningOp();
        return !op || op->isBeforeInBlock(last);
      });
      if (isThere)
        bundle.whole->moveBefore(last);
      else
        last = bundle.whole->getNextNode();
    }
    builder.setInsertionPoint(last);
    GraphBuilder g(builder, builder.getFusedLoc(lines));
    Value side = bundle.whole;
    const RankedTensorType wide = tensorType(side);
    if (wide.getDimSize(1) != rows)
      side = SliceOp::create(builder, bundle.whole.getLoc(), wide.clone({wide.getDimSize(0), rows}),
                             side, 1, bundle.begin);
    MatmulOp like = bundle.gradients.front().product;
    const Value addend = bundle.gradients.front().addend ? g.load(name, type) : Value();
    auto product = MatmulOp::create(builder, builder.getFusedLoc(lines), type, side, like.getB(),
                                    /*transposeA=*/true, /*transposeB=*/false);
    if (addend)
      product.getAddendMutable().assign(addend);
    g.store(product, name);
    for (Gradient &each : bundle.gradients) {
      each.store.erase();
      each.product.erase();
      if (each.addend)
        each.addend.erase();
    }
  }
}

} // namespace

bool mergeGradients(ModuleOp module, const machine::Machine &rates, bool report) {
  return GradientMerger(module, rates, report).run();
}

} // namespace nano
