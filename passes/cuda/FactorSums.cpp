// Horner's scheme for sums of products of several values: the factor that most products have is
// taken out of them, and again of what is left.
#include "passes/cuda/FactorSums.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

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

/// Adds the value's summands: those of sums that nothing else reads too.
void addTerms(Sum &sum, Value value, bool isRoot) {
  auto add = value.getDefiningOp<arith::AddFOp>();
  if (add && (isRoot || add->hasOneUse())) {
    addTerms(sum, add.getLhs(), false);
    addTerms(sum, add.getRhs(), false);
    return;
  }
  Term term;
  multiply(term, value);
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

/// Multiplications and additions that nobody needs once the sum is made another way.
size_t costOf(arith::AddFOp root) {
  llvm::SetVector<Operation *> dead;
  dead.insert(root);
  for (size_t i = 0; i < dead.size(); ++i)
    for (Value operand : dead[i]->getOperands()) {
      Operation *op = operand.getDefiningOp();
      if (isa_and_nonnull<arith::AddFOp, arith::MulFOp>(op) &&
          llvm::all_of(op->getUsers(), [&](Operation *user) { return dead.contains(user); }))
        dead.insert(op);
    }
  return dead.size();
}

/// The sum by Horner's scheme: how many operations it takes or, with a builder, the sum itself.
class Scheme {
public:
  Scheme(OpBuilder *b, Location loc, Type type) : b(b), loc(loc), type(type) {}
  size_t operations = 0;

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

void factorSums(Block &block) {
  for (auto root : llvm::make_early_inc_range(block.getOps<arith::AddFOp>())) {
    const bool isInside = root->hasOneUse() && isa<arith::AddFOp>(*root->user_begin());
    if (isInside || !isFloat(root))
      continue;
    Sum terms;
    addTerms(terms, root, /*isRoot=*/true);
    if (terms.size() < 2 || terms.size() > mostTerms ||
        llvm::any_of(terms, [](const Term &term) { return term.factors.size() > mostFactors; }))
      continue;
    Scheme counted(nullptr, root.getLoc(), root.getType());
    counted.sum(terms);
    if (counted.operations >= costOf(root))
      continue;
    OpBuilder b(root);
    root.replaceAllUsesWith(Scheme(&b, root.getLoc(), root.getType()).sum(std::move(terms)));
  }
}

} // namespace nano::kernels
