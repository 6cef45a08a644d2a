// Horner's scheme for sums of products of several values: the factor that most products have is
// taken out of them, and again of what is left.
#include "passes/cuda/FactorSums.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace nano::kernels {

namespace {
/// Products of a sum, and factors of a product, at most: a longer sum stays as it is.
constexpr size_t mostTerms = 16, mostFactors = 16;

/// A constant times factors, of which one may come several times, in order of their appearance.
struct Term {
  double constant = 1;
  SmallVector<Value> factors;
};
using Sum = SmallVector<Term>;

bool isFloat(Value value) { return getElementTypeOrSelf(value.getType()).isF32(); }

std::optional<double> constantOf(Value value) {
  APFloat number(0.0F);
  if (matchPattern(value, m_ConstantFloat(&number)))
    return double(number.convertToFloat());
  return std::nullopt;
}

/// Multiplies the term by what the value is a product of.
void multiply(Term &term, Value value) {
  if (auto product = value.getDefiningOp<arith::MulFOp>()) {
    multiply(term, product.getLhs());
    multiply(term, product.getRhs());
  } else if (const std::optional<double> number = constantOf(value)) {
    term.constant *= *number;
  } else {
    term.factors.push_back(value);
  }
}

/// a and c in a·c for a constant c; null and 1 for other values.
std::pair<Value, double> scaled(Value value) {
  if (auto product = value.getDefiningOp<arith::MulFOp>())
    for (auto [a, b] : {std::pair(product.getLhs(), product.getRhs()),
                        std::pair(product.getRhs(), product.getLhs())})
      if (const std::optional<double> number = constantOf(b))
        return {a, *number};
  return {Value(), 1.0};
}

/// True for a·c where a is a sum, perhaps times constants, that nothing else reads: its terms take
/// the constants.
bool isScaledSum(Value value) {
  const Value inner = scaled(value).first;
  return inner && inner.hasOneUse() &&
         (isa_and_nonnull<arith::AddFOp, math::FmaOp>(inner.getDefiningOp()) || isScaledSum(inner));
}

/// Adds a term, to the one with the same factors where there is one.
void addTerm(Sum &sum, Term term) {
  auto isSame = [&](const Term &other) {
    return other.factors.size() == term.factors.size() &&
           std::is_permutation(other.factors.begin(), other.factors.end(), term.factors.begin());
  };
  Term *same = llvm::find_if(sum, isSame);
  if (same == sum.end())
    sum.push_back(std::move(term));
  else
    same->constant += term.constant;
}

/// Adds the value's summands times a number: those of sums that nothing else reads too.
void addTerms(Sum &sum, Value value, double factor, bool isRoot) {
  if (isRoot || value.hasOneUse()) {
    if (auto add = value.getDefiningOp<arith::AddFOp>()) {
      addTerms(sum, add.getLhs(), factor, false);
      addTerms(sum, add.getRhs(), factor, false);
      return;
    }
    if (auto fma = value.getDefiningOp<math::FmaOp>()) {
      Term term{factor, {}};
      multiply(term, fma.getA());
      multiply(term, fma.getB());
      addTerm(sum, std::move(term));
      addTerms(sum, fma.getC(), factor, false);
      return;
    }
    if (isScaledSum(value)) {
      const auto [inner, number] = scaled(value);
      addTerms(sum, inner, factor * number, false);
      return;
    }
  }
  Term term{factor, {}};
  multiply(term, value);
  addTerm(sum, std::move(term));
}

/// Multiplications and additions that nobody needs once the sum of the terms is made another way.
size_t operationsOf(Operation *root, const Sum &terms) {
  llvm::SmallPtrSet<Operation *, 8> kept;
  for (const Term &term : terms)
    for (Value factor : term.factors)
      kept.insert(factor.getDefiningOp());
  llvm::SetVector<Operation *> dead;
  dead.insert(root);
  for (size_t i = 0; i < dead.size(); ++i)
    for (Value operand : dead[i]->getOperands()) {
      Operation *op = operand.getDefiningOp();
      if (isa_and_nonnull<arith::AddFOp, arith::MulFOp, math::FmaOp>(op) && !kept.contains(op) &&
          llvm::all_of(op->getUsers(), [&](Operation *user) { return dead.contains(user); }))
        dead.insert(op);
    }
  return dead.size() + llvm::count_if(dead, llvm::IsaPred<math::FmaOp>);
}

/// The sum by Horner's scheme: how many operations it takes or, with a builder, the sum itself.
class Scheme {
public:
  Scheme(OpBuilder *b, Location loc, Type type) : b(b), loc(loc), type(type) {}
  size_t operations = 0;

  /// 1 − x.
  Value complement(Value x) { return made<arith::SubFOp>(number(1), x); }

  Value sum(Sum terms) {
    if (terms.size() == 1)
      return product(terms[0].factors, terms[0].constant);
    const Value common = mostCommon(terms);
    if (!common) {
      Value total = sum({terms[0]});
      for (const Term &term : ArrayRef(terms).drop_front())
        total = made<arith::AddFOp>(total, sum({term}));
      return total;
    }
    Sum with, without;
    for (Term &term : terms)
      (llvm::is_contained(term.factors, common) ? with : without).push_back(std::move(term));
    SmallVector<Value> outside;
    for (Value factor = common; factor; factor = ofAll(with)) {
      outside.push_back(factor);
      for (Term &term : with)
        term.factors.erase(llvm::find(term.factors, factor));
    }
    const Value inside = sum(std::move(with));
    Value total = made<arith::MulFOp>(product(outside, 1), inside);
    return without.empty() ? total : made<arith::AddFOp>(total, sum(std::move(without)));
  }

private:
  /// The factor of most terms, at least two; the first one of several.
  static Value mostCommon(const Sum &terms) {
    Value best;
    size_t most = 1;
    for (const Term &term : terms)
      for (Value factor : term.factors) {
        const size_t count = llvm::count_if(
            terms, [&](const Term &other) { return llvm::is_contained(other.factors, factor); });
        if (count > most) {
          best = factor;
          most = count;
        }
      }
    return best;
  }
  /// A factor that all terms have.
  static Value ofAll(const Sum &terms) {
    for (Value factor : terms[0].factors)
      if (llvm::all_of(terms,
                       [&](const Term &term) { return llvm::is_contained(term.factors, factor); }))
        return factor;
    return {};
  }
  Value product(ArrayRef<Value> factors, double constant) {
    if (factors.empty())
      return number(constant);
    Value total = factors[0];
    for (Value factor : factors.drop_front())
      total = made<arith::MulFOp>(total, factor);
    return constant == 1 ? total : made<arith::MulFOp>(total, number(constant));
  }
  Value number(double value) {
    if (!b)
      return {};
    const FloatAttr element = b->getF32FloatAttr(float(value));
    TypedAttr attribute = element;
    if (auto vector = dyn_cast<VectorType>(type))
      attribute = DenseElementsAttr::get(vector, element.getValue());
    return arith::ConstantOp::create(*b, loc, attribute);
  }
  template <class Op> Value made(Value lhs, Value rhs) {
    ++operations;
    return b ? Value(Op::create(*b, loc, lhs, rhs)) : lhs;
  }

  OpBuilder *b;
  Location loc;
  Type type;
};
} // namespace

/// True when a sum that reads the value, or a constant times it, takes its terms.
static bool isInside(Value value) {
  if (!value.hasOneUse())
    return false;
  Operation *const user = *value.user_begin();
  auto fma = dyn_cast<math::FmaOp>(user);
  return isa<arith::AddFOp>(user) || (fma && fma.getC() == value) ||
         (isa<arith::MulFOp>(user) && scaled(user->getResult(0)).first == value);
}

/// Takes common factors out of the block's sums of products of f32, where that leaves fewer
/// multiplications and additions. True when it has changed a sum; what that no longer needs is
/// dead.
static bool factorSums(Block &block) {
  bool changed = false;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (!isa<arith::AddFOp, arith::MulFOp, math::FmaOp>(op))
      continue;
    Value root = op.getResult(0);
    if (!isFloat(root) || isInside(root) || (isa<arith::MulFOp>(op) && !isScaledSum(root)))
      continue;
    Sum terms;
    addTerms(terms, root, /*factor=*/1, /*isRoot=*/true);
    if (terms.size() < 2 || terms.size() > mostTerms ||
        llvm::any_of(terms, [](const Term &term) { return term.factors.size() > mostFactors; }))
      continue;
    Scheme counted(nullptr, op.getLoc(), root.getType());
    counted.sum(terms);
    if (counted.operations >= operationsOf(&op, terms))
      continue;
    OpBuilder b(&op);
    root.replaceAllUsesWith(Scheme(&b, op.getLoc(), root.getType()).sum(std::move(terms)));
    changed = true;
  }
  return changed;
}

/// 1 − x of x; null for other values.
static Value complementOf(Value value) {
  auto sub = value.getDefiningOp<arith::SubFOp>();
  const std::optional<double> one = sub ? constantOf(sub.getLhs()) : std::nullopt;
  return one == 1.0 ? sub.getRhs() : Value();
}

/// Of 1 + r·(1 − x) that nothing else reads, nor 1 − x: x and r.
static std::optional<std::pair<Value, Term>> onePlusComplement(Value value) {
  if (!value.hasOneUse() || !value.getDefiningOp<arith::AddFOp>())
    return std::nullopt;
  Sum terms;
  addTerms(terms, value, /*factor=*/1, /*isRoot=*/true);
  if (terms.size() != 2)
    return std::nullopt;
  if (terms[1].factors.empty())
    std::swap(terms[0], terms[1]);
  Term &rest = terms[1];
  if (!terms[0].factors.empty() || terms[0].constant != 1)
    return std::nullopt;
  auto *found = llvm::find_if(
      rest.factors, [](Value factor) { return factor.hasOneUse() && complementOf(factor); });
  if (found == rest.factors.end())
    return std::nullopt;
  const Value x = complementOf(*found);
  rest.factors.erase(found);
  return std::pair(x, std::move(rest));
}

/// r·x where it is made before `root` for something else, of an r that is one value; else null.
static Value productBefore(Operation *root, const Term &r, Value x) {
  if (r.factors.size() != 1 || r.constant != 1)
    return {};
  for (Operation *user : x.getUsers())
    if (auto product = dyn_cast<arith::MulFOp>(user);
        product && product->getBlock() == root->getBlock() && product->isBeforeInBlock(root) &&
        llvm::is_contained(product->getOperands(), r.factors[0]) &&
        product.getLhs() != product.getRhs())
      return product;
  return {};
}

/// x·(1 + r·(1 − x)) in products of f32, as in derivatives of σ(u)·y, becomes x + r·(x − x²), or
/// where r·x is there x + r·x·(1 − x): one operation fewer, where nothing else reads 1 − x.
static void joinSlopes(Block &block) {
  for (auto root : llvm::make_early_inc_range(block.getOps<arith::MulFOp>())) {
    if (!isFloat(root) || (root->hasOneUse() && isa<arith::MulFOp>(*root->user_begin())))
      continue;
    Term product;
    multiply(product, root);
    for (Value factor : product.factors) {
      std::optional<std::pair<Value, Term>> found = onePlusComplement(factor);
      if (!found || !llvm::is_contained(product.factors, found->first))
        continue;
      const Value x = found->first;
      OpBuilder b(root);
      const Location loc = root.getLoc();
      Scheme scheme(&b, loc, root.getType());
      Value slope;
      if (const Value rx = productBefore(root, found->second, x)) {
        slope = math::FmaOp::create(b, loc, rx, scheme.complement(x), x);
      } else {
        const Value square = math::FmaOp::create(b, loc, arith::NegFOp::create(b, loc, x), x, x);
        slope = math::FmaOp::create(b, loc, scheme.sum({found->second}), square, x);
      }
      product.factors.erase(llvm::find(product.factors, factor));
      product.factors.erase(llvm::find(product.factors, x));
      product.factors.push_back(slope);
      root.replaceAllUsesWith(scheme.sum({product}));
      break;
    }
  }
}

void shortenSums(Block &block) {
  auto eraseDead = [&] {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  };
  eraseDead();
  // What sums had in common with one that is made another way is theirs alone then.
  while (factorSums(block))
    eraseDead();
  joinSlopes(block);
  eraseDead();
}

} // namespace nano::kernels
