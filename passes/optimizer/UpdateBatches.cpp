// Batches and sets of parameters, and the products that a set shares.
#include "passes/optimizer/UpdateBatches.h"

#include "ir/graph/GraphBuilder.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ShapeOps.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {
namespace {

/// What a set may hold, in batches of the largest size.
constexpr int64_t maxBatchesOfSet = 4;

int64_t elementsOf(const UpdateBatch &batch) {
  int64_t elements = 0;
  for (const UpdatedParameter &member : batch)
    elements += member.elements();
  return elements;
}

int64_t elementsOf(const UpdateBatches::Set &set) {
  int64_t elements = 0;
  for (const UpdateBatch &batch : set)
    elements += elementsOf(batch);
  return elements;
}

/// b·A + c·A·A of a matrix A that is itself a product of the core: a stack of several such matrices
/// costs nothing, because products write into it.
bool isPolynomial(const UpdateForm &form, Operation *op) {
  auto product = dyn_cast<MatmulOp>(op);
  const Value matrix = op->getOperand(0);
  return product && product.getAddend() && llvm::all_equal(op->getOperands()) &&
         isa_and_present<MatmulOp>(matrix.getDefiningOp()) &&
         llvm::is_contained(form.core(), matrix.getDefiningOp());
}

/// Whether op `i` of both cores is such a product, and the same one.
bool isShared(const UpdateForm &a, const UpdateForm &b, size_t i) {
  Operation *x = a.core()[i], *y = b.core()[i];
  return isPolynomial(a, x) && isPolynomial(b, y) &&
         x->getAttrDictionary() == y->getAttrDictionary() &&
         x->getNumOperands() == y->getNumOperands() &&
         a.typeOf(x->getOperand(0), 1) == b.typeOf(y->getOperand(0), 1) &&
         a.typeOf(x->getResult(0), 1) == b.typeOf(y->getResult(0), 1) &&
         tensorType(x->getResult(0)).getRank() - a.axisOf(x->getResult(0)) == 2;
}

/// Whether the cores go through the same ops, and all their polynomials are the same.
bool goTogether(const UpdateForm &a, const UpdateForm &b) {
  if (a.core().size() != b.core().size())
    return false;
  bool sharesAny = false;
  for (size_t i = 0; i < a.core().size(); ++i) {
    if (a.core()[i]->getName() != b.core()[i]->getName() ||
        isPolynomial(a, a.core()[i]) != isPolynomial(b, b.core()[i]))
      return false;
    if (isPolynomial(a, a.core()[i])) {
      if (!isShared(a, b, i))
        return false;
      sharesAny = true;
    }
  }
  return sharesAny;
}

} // namespace

void UpdateBatches::add(const UpdatedParameter &parameter) {
  const UpdateForm &form = *parameter.form;
  for (UpdateBatch &batch : llvm::reverse(batches)) {
    const UpdateForm &first = *batch.front().form;
    if (&first != &form && !areAlike(first, first.core(), form, form.core()))
      continue;
    if (!form.isStackable() || parameter.elements() + elementsOf(batch) > maxElements)
      break;
    batch.push_back(parameter);
    return;
  }
  batches.push_back({parameter});
}

llvm::SmallVector<UpdateBatches::Set> UpdateBatches::sets() const {
  llvm::SmallVector<Set> sets;
  for (const UpdateBatch &batch : batches) {
    auto *found = llvm::find_if(sets, [&](const Set &set) {
      return goTogether(*set.front().front().form, *batch.front().form) &&
             elementsOf(set) + elementsOf(batch) <= maxBatchesOfSet * maxElements;
    });
    if (found == sets.end())
      found = &sets.emplace_back();
    found->push_back(batch);
  }
  return sets;
}

/// Op `i` of all cores as one product of a stack.
static void writeShared(OpBuilder &builder, Location location, ArrayRef<UpdateEmitter *> emitters,
                        size_t i) {
  GraphBuilder g(builder, location);
  SmallVector<Value> parts;
  int64_t count = 0;
  for (UpdateEmitter *emitter : emitters) {
    Operation *op = emitter->updateForm().core()[i];
    const Value matrix = emitter->get(op->getOperand(0));
    ArrayRef<int64_t> sizes = tensorType(matrix).getShape().take_back(2);
    const int64_t matrices = tensorType(matrix).getNumElements() / (sizes[0] * sizes[1]);
    parts.push_back(g.reshape(matrix, {matrices, sizes[0], sizes[1]}));
    count += matrices;
  }
  auto stacked = [&](Value matrix) {
    ArrayRef<int64_t> sizes = tensorType(matrix).getShape().take_back(2);
    return tensorType(matrix).clone({count, sizes[0], sizes[1]});
  };
  Operation *first = emitters.front()->updateForm().core()[i];
  Value stack = ConcatOp::create(builder, location, stacked(parts.front()), parts,
                                 builder.getI64IntegerAttr(0));
  Operation *product = first->clone();
  product->setLoc(location);
  product->setOperands(SmallVector<Value>(product->getNumOperands(), stack));
  product->getResult(0).setType(stacked(first->getResult(0)));
  builder.insert(product);
  int64_t start = 0;
  for (auto [emitter, part] : llvm::zip_equal(emitters, parts)) {
    const Value result = emitter->updateForm().core()[i]->getResult(0);
    const int64_t matrices = tensorType(part).getDimSize(0);
    const RankedTensorType all = tensorType(product->getResult(0));
    Value slice = SliceOp::create(
        builder, location, all.clone({matrices, all.getDimSize(1), all.getDimSize(2)}),
        product->getResult(0), builder.getI64IntegerAttr(0), builder.getI64IntegerAttr(start));
    emitter->set(result, g.reshape(slice, emitter->typeOf(result).getShape()));
    start += matrices;
  }
}

void writeCores(OpBuilder &builder, Location location, ArrayRef<UpdateEmitter *> emitters) {
  const UpdateForm &first = emitters.front()->updateForm();
  for (size_t i = 0; i < first.core().size(); ++i) {
    if (emitters.size() > 1 && isPolynomial(first, first.core()[i])) {
      writeShared(builder, location, emitters, i);
      continue;
    }
    for (UpdateEmitter *emitter : emitters)
      emitter->write(emitter->updateForm().core()[i]);
  }
}

} // namespace nano
