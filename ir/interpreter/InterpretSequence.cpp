// The interpreter's recurrences and products along a band, each as its op's documented equation.
#include "ir/interpreter/Machine.h"

#include "ir/graph/Sequence.h"

using namespace mlir;
using namespace nano::graph;

namespace nano::interpreter {

namespace {

/// The token that weight w of token t of a band of W is for.
int64_t bandToken(int64_t t, int64_t w, int64_t width) { return t - width + 1 + w; }

} // namespace

FailureOr<SmallVector<TensorValue>> Machine::runSequence(Operation *op, Operands operands,
                                                         bool &known) {
  if (auto recurrence = dyn_cast<RecurrenceOp>(op)) {
    TensorValue h = emptyResult(op);
    const TensorValue *a = recurrence.getA() ? operands[0] : nullptr,
                      *b = recurrence.getB() ? operands.back() : nullptr;
    const int64_t length = h.shape[1], channels = h.shape[2];
    const bool fromEnd = recurrence.getReverse() != recurrence.getAdjoint();
    for (int64_t n = 0; n < h.shape[0]; ++n)
      for (int64_t c = 0; c < channels; ++c) {
        double carried = recurrence.getInitial().convertToDouble();
        auto place = [&](int64_t i) {
          return (n * length + (fromEnd ? length - 1 - i : i)) * channels + c;
        };
        for (int64_t i = 0; i < length; ++i) {
          const int64_t factor = recurrence.getAdjoint() ? i - 1 : i;
          if (a && factor >= 0)
            carried = partial(carried * a->data[place(factor)]);
          if (b)
            add(carried, b->data[place(i)]);
          h.data[place(i)] = carried;
        }
      }
    return Values{std::move(h)};
  }
  if (auto band = dyn_cast<BandScoresOp>(op)) {
    TensorValue s = emptyResult(op);
    const int64_t heads = s.shape[1], width = s.shape[2], size = operands[0]->shape[2];
    for (int64_t i = 0; i < s.size(); ++i) {
      const int64_t w = i % width, h = i / width % heads, t = i / width / heads,
                    other = bandToken(t, w, width);
      for (int64_t d = 0; other >= 0 && d < size; ++d)
        add(s.data[i], operands[0]->data[(t * heads + h) * size + d] *
                           operands[1]->data[(other * heads + h) * size + d]);
    }
    return Values{std::move(s)};
  }
  if (auto band = dyn_cast<BandProductOp>(op)) {
    TensorValue y = emptyResult(op);
    const TensorValue &p = *operands[0], &v = *operands[1];
    const int64_t heads = y.shape[1], size = y.shape[2], width = p.shape[2];
    for (int64_t i = 0; i < p.size(); ++i) {
      const int64_t h = i / width % heads, t = i / width / heads,
                    other = bandToken(t, i % width, width);
      const int64_t to = band.getTranspose() ? other : t, from = band.getTranspose() ? t : other;
      for (int64_t d = 0; other >= 0 && d < size; ++d)
        add(y.data[(to * heads + h) * size + d], p.data[i] * v.data[(from * heads + h) * size + d]);
    }
    return Values{std::move(y)};
  }
  known = false;
  return failure();
}

} // namespace nano::interpreter
