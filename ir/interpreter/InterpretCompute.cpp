// The interpreter's products, tables, attention and losses, each as its op's documented equation.
#include "ir/graph/AttentionOps.h"
#include "ir/graph/CollectiveOps.h"
#include "ir/graph/MatmulOps.h"
#include "ir/graph/ScaledOps.h"
#include "ir/graph/TableOps.h"
#include "ir/interpreter/Machine.h"

#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace nano::graph;

namespace nano::interpreter {

std::vector<double> transposed(const TensorValue &x) {
  int64_t columns = x.shape.back(), rows = x.shape[x.shape.size() - 2], area = rows * columns;
  std::vector<double> result(x.data.size());
  for (int64_t batch = 0; batch < x.size(); batch += area)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        result[batch + c * rows + r] = x.data[batch + r * columns + c];
  return result;
}

namespace {

/// What each element is multiplied by: one scale a block, of equal blocks along every dimension.
std::vector<double> scalesOf(const TensorValue &x, const TensorValue &scale) {
  if (scale.shape.empty())
    return std::vector<double>(x.data.size(), scale.data[0]);
  std::vector<double> result(x.data.size());
  std::vector<int64_t> strides = stridesOf(x.shape), scaleStrides = stridesOf(scale.shape);
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t place = 0;
    for (size_t d = 0; d < x.shape.size(); ++d)
      place += i / strides[d] % x.shape[d] / (x.shape[d] / scale.shape[d]) * scaleStrides[d];
    result[i] = scale.data[place];
  }
  return result;
}

/// f32(q)·scale, in double.
TensorValue dequantized(const TensorValue &q, const TensorValue &scale) {
  TensorValue x = q;
  std::vector<double> scales = scalesOf(q, scale);
  for (int64_t i = 0; i < x.size(); ++i)
    x.data[i] *= scales[i];
  return x;
}

/// x/scale; in rounded arithmetic as f32 does it, with the reciprocal.
TensorValue quantized(const TensorValue &x, const TensorValue &scale, Arithmetic arithmetic) {
  TensorValue q = x;
  std::vector<double> scales = scalesOf(x, scale);
  for (int64_t i = 0; i < q.size(); ++i)
    if (arithmetic != Arithmetic::exact)
      q.data[i] = static_cast<float>(q.data[i]) * (1.0F / static_cast<float>(scales[i]));
    else
      q.data[i] /= scales[i];
  return q;
}

/// Names the first id that lies outside [0, rows).
LogicalResult checkIds(Operation *op, const TensorValue &ids, int64_t rows) {
  for (double id : ids.data)
    if (id < 0 || id >= static_cast<double>(rows))
      return op->emitError("interpreter: id ")
             << static_cast<int64_t>(id) << " lies outside [0, " << rows << ")";
  return success();
}

/// Keys that query t sees: first[t] … last[t].
struct KeyRange {
  int64_t first, size;
};

FailureOr<KeyRange> keysOf(Operation *op, const TensorValue &first, const TensorValue &last,
                           int64_t query) {
  auto from = static_cast<int64_t>(first.data[query]), to = static_cast<int64_t>(last.data[query]);
  if (from < 0 || from > to || to >= first.size())
    return op->emitError("interpreter: query ")
           << query << " sees the impossible key range " << from << " … " << to;
  return KeyRange{from, to - from + 1};
}

} // namespace

template <typename Product>
TensorValue Machine::matmul(Product op, const TensorValue &a, const TensorValue &b,
                            const TensorValue *addend) const {
  TensorValue y = TensorValue::filled(cast<ShapedType>(op.getType()), 0);
  int64_t n = y.shape.back(), m = y.shape[y.shape.size() - 2], area = m * n;
  int64_t k = op.getTransposeA() ? a.shape[a.shape.size() - 2] : a.shape.back();
  std::vector<double> left = op.getTransposeA() ? transposed(a) : a.data,
                      right = op.getTransposeB() ? transposed(b) : b.data;
  double alpha = op.getAlpha().convertToDouble(), beta = op.getBeta().convertToDouble();
  for (int64_t batch = 0; batch < (area ? y.size() / area : 0); ++batch)
    for (int64_t r = 0; r < m; ++r) {
      double *row = y.data.data() + batch * area + r * n;
      for (int64_t i = 0; i < k; ++i) {
        double factor = left[(batch * m + r) * k + i];
        const double *other = right.data() + (batch * k + i) * n;
        if (isPlain())
          for (int64_t c = 0; c < n; ++c)
            add(row[c], factor * other[c]);
        else
          for (int64_t c = 0; c < n; ++c)
            row[c] += factor * other[c];
      }
    }
  for (int64_t i = 0; i < y.size(); ++i)
    y.data[i] = partial(alpha * y.data[i]) + (addend ? partial(beta * addend->data[i]) : 0);
  return y;
}

FailureOr<std::vector<double>> Machine::applyScore(Region &region,
                                                   const std::vector<double> &scores, int64_t query,
                                                   int64_t first, int64_t head,
                                                   const std::vector<double> *gradients) {
  Machine machine(states, options);
  machine.vectorized = true;
  machine.lanes = static_cast<int64_t>(scores.size());
  TensorValue constant{{machine.lanes}, std::vector<double>(machine.lanes)};
  SmallVector<TensorValue> arguments(4, constant);
  arguments[0].data = scores;
  for (int64_t i = 0; i < machine.lanes; ++i) {
    arguments[1].data[i] = static_cast<double>(query);
    arguments[2].data[i] = static_cast<double>(first + i);
    arguments[3].data[i] = static_cast<double>(head);
  }
  if (gradients) {
    arguments.push_back(constant);
    arguments.back().data = *gradients;
  }
  FailureOr<Values> results = machine.runBlock(region.front(), arguments);
  if (failed(results))
    return failure();
  return std::move(results->front().data);
}

FailureOr<SmallVector<TensorValue>> Machine::attention(AttentionOp op, Operands operands) {
  const TensorValue &q = *operands[0], &k = *operands[1], &v = *operands[2];
  int64_t tokens = q.shape[0], heads = q.shape[1], keyHeads = k.shape[1], size = q.shape[2],
          valueSize = v.shape[2];
  double scale = op.getScale().convertToDouble();
  TensorValue y = emptyResult(op, 0), lse = emptyResult(op, 1);
  for (int64_t t = 0; t < tokens; ++t) {
    FailureOr<KeyRange> keys = keysOf(op, *operands[3], *operands[4], t);
    if (failed(keys))
      return failure();
    for (int64_t h = 0; h < heads; ++h) {
      auto other = [&](int64_t j) { return (keys->first + j) * keyHeads + h * keyHeads / heads; };
      std::vector<double> scores(keys->size);
      for (int64_t j = 0; j < keys->size; ++j)
        for (int64_t d = 0; d < size; ++d)
          add(scores[j],
              partial(scale * q.data[(t * heads + h) * size + d]) * k.data[other(j) * size + d]);
      if (!op.getScore().empty()) {
        auto mapped = applyScore(op.getScore(), scores, t, keys->first, h, nullptr);
        if (failed(mapped))
          return failure();
        scores = *mapped;
      }
      double largest = *std::max_element(scores.begin(), scores.end()), sum = 0;
      for (double &score : scores) {
        score = partial(std::exp(partial(score - largest)));
        add(sum, score);
      }
      for (int64_t j = 0; j < keys->size; ++j)
        for (int64_t d = 0; d < valueSize; ++d)
          add(y.data[(t * heads + h) * valueSize + d],
              partial(scores[j] / sum) * v.data[other(j) * valueSize + d]);
      lse.data[t * heads + h] = largest + partial(std::log(sum));
    }
  }
  return Values{std::move(y), std::move(lse)};
}

FailureOr<SmallVector<TensorValue>> Machine::attentionGrad(AttentionGradOp op, Operands operands) {
  const TensorValue &q = *operands[0], &k = *operands[1], &v = *operands[2], &lse = *operands[5],
                    &delta = *operands[6], &dy = *operands[7];
  int64_t tokens = q.shape[0], heads = q.shape[1], keyHeads = k.shape[1], size = q.shape[2],
          valueSize = v.shape[2];
  double scale = op.getScale().convertToDouble();
  TensorValue dq = emptyResult(op, 0), dk = emptyResult(op, 1), dv = emptyResult(op, 2);
  for (int64_t t = 0; t < tokens; ++t) {
    FailureOr<KeyRange> keys = keysOf(op, *operands[3], *operands[4], t);
    if (failed(keys))
      return failure();
    for (int64_t h = 0; h < heads; ++h) {
      int64_t row = (t * heads + h) * size, valueRow = (t * heads + h) * valueSize;
      auto other = [&](int64_t j) { return (keys->first + j) * keyHeads + h * keyHeads / heads; };
      std::vector<double> raw(keys->size), gradients(keys->size);
      for (int64_t j = 0; j < keys->size; ++j)
        for (int64_t d = 0; d < size; ++d)
          add(raw[j], partial(scale * q.data[row + d]) * k.data[other(j) * size + d]);
      std::vector<double> scores = raw;
      if (!op.getScore().empty()) {
        auto mapped = applyScore(op.getScore(), raw, t, keys->first, h, nullptr);
        if (failed(mapped))
          return failure();
        scores = *mapped;
      }
      for (int64_t j = 0; j < keys->size; ++j) {
        double p = partial(std::exp(partial(scores[j] - lse.data[t * heads + h]))), dp = 0;
        for (int64_t d = 0; d < valueSize; ++d) {
          add(dv.data[other(j) * valueSize + d], p * dy.data[valueRow + d]);
          add(dp, dy.data[valueRow + d] * v.data[other(j) * valueSize + d]);
        }
        gradients[j] = partial(p * partial(dp - delta.data[t * heads + h]));
      }
      if (!op.getScoreGrad().empty()) {
        auto mapped = applyScore(op.getScoreGrad(), raw, t, keys->first, h, &gradients);
        if (failed(mapped))
          return failure();
        gradients = *mapped;
      }
      for (int64_t j = 0; j < keys->size; ++j)
        for (int64_t d = 0; d < size; ++d) {
          add(dq.data[row + d], partial(scale * gradients[j]) * k.data[other(j) * size + d]);
          add(dk.data[other(j) * size + d], partial(scale * gradients[j]) * q.data[row + d]);
        }
    }
  }
  return Values{std::move(dq), std::move(dk), std::move(dv)};
}

FailureOr<SmallVector<TensorValue>> Machine::exponentials(ExpMatmulOp op, Operands operands) {
  const TensorValue &x = *operands[0], &w = *operands[1], &targets = *operands[2],
                    &shift = *operands[3];
  TensorValue e = emptyResult(op, 0), sum = emptyResult(op, 1), largest = emptyResult(op, 2);
  if (failed(checkIds(op, targets, op.getColumns())))
    return failure();
  const int64_t width = x.shape[1], columns = op.getColumns();
  for (int64_t t = 0; t < x.shape[0]; ++t) {
    std::vector<double> above(columns, -std::numeric_limits<double>::infinity());
    for (int64_t v = 0; v < columns; ++v) {
      if (v == static_cast<int64_t>(targets.data[t]))
        continue;
      double logit = 0;
      for (int64_t d = 0; d < width; ++d)
        add(logit, partial(x.data[t * width + d] * w.data[v * width + d]));
      if (options.arithmetic != Arithmetic::exact)
        logit = roundTo(logit, op.getE().getType().getElementType());
      above[v] = partial(logit - shift.data[t]);
    }
    const double most = *std::max_element(above.begin(), above.end());
    largest.data[t] = most > ExpMatmulOp::mostAbove ? most : 0;
    for (int64_t v = 0; v < columns; ++v) {
      const double power = partial(std::exp(partial(above[v] - largest.data[t])));
      e.data[t * e.shape[1] + v] = power;
      add(sum.data[t], power);
    }
  }
  return Values{std::move(e), std::move(sum), std::move(largest)};
}

/// The group of a row: the first one that ends behind it; as many as there are where none does.
static int64_t groupOf(int64_t row, const TensorValue &ends) {
  return std::find_if(ends.data.begin(), ends.data.end(),
                      [&](double end) { return double(row) < end; }) -
         ends.data.begin();
}

TensorValue Machine::groupedMatmul(GroupedMatmulOp op, Operands operands) {
  TensorValue y = emptyResult(op);
  const TensorValue &x = *operands[0], &w = *operands[1], &ends = *operands[2];
  const int64_t inner = x.shape[1], columns = y.shape[1];
  for (int64_t n = 0; n < y.shape[0]; ++n) {
    const int64_t g = groupOf(n, ends);
    for (int64_t m = 0; g < ends.size() && m < columns; ++m)
      for (int64_t k = 0; k < inner; ++k)
        add(y.data[n * columns + m],
            x.data[n * inner + k] * w.data[op.getTranspose() ? (g * columns + m) * inner + k
                                                             : (g * inner + k) * columns + m]);
  }
  return y;
}

TensorValue Machine::groupedOuter(Operation *op, Operands operands) {
  TensorValue w = emptyResult(op);
  const TensorValue &a = *operands[0], &b = *operands[1], &ends = *operands[2];
  const int64_t rows = w.shape[1], columns = w.shape[2];
  for (int64_t n = 0; n < a.shape[0]; ++n) {
    const int64_t g = groupOf(n, ends);
    for (int64_t i = 0; g < ends.size() && i < rows * columns; ++i)
      add(w.data[g * rows * columns + i],
          a.data[n * rows + i / columns] * b.data[n * columns + i % columns]);
  }
  return w;
}

FailureOr<SmallVector<TensorValue>> Machine::runCompute(Operation *op, Operands operands,
                                                        bool &known) {
  if (auto product = dyn_cast<MatmulOp>(op))
    return Values{
        matmul(product, *operands[0], *operands[1], product.getAddend() ? operands[2] : nullptr)};
  if (auto product = dyn_cast<ScaledMatmulOp>(op))
    return Values{matmul(product, dequantized(*operands[0], *operands[2]),
                         dequantized(*operands[1], *operands[3]),
                         product.getAddend() ? operands[4] : nullptr)};
  if (auto product = dyn_cast<GroupedMatmulOp>(op))
    return Values{groupedMatmul(product, operands)};
  if (isa<GroupedOuterOp>(op))
    return Values{groupedOuter(op, operands)};
  if (isa<DequantizeOp>(op))
    return Values{dequantized(*operands[0], *operands[1])};
  if (isa<QuantizeOp>(op))
    return Values{quantized(*operands[0], *operands[1], options.arithmetic)};
  if (auto gather = dyn_cast<GatherOp>(op)) {
    TensorValue y = emptyResult(op);
    int64_t columns = y.shape[1];
    if (failed(checkIds(op, *operands[1], operands[0]->shape[0])))
      return failure();
    for (int64_t t = 0; t < y.shape[0]; ++t)
      std::copy_n(operands[0]->data.begin() + static_cast<int64_t>(operands[1]->data[t]) * columns,
                  columns, y.data.begin() + t * columns);
    return Values{std::move(y)};
  }
  if (auto scatter = dyn_cast<ScatterAddOp>(op)) {
    TensorValue y = emptyResult(op);
    int64_t columns = y.shape[1];
    if (failed(checkIds(op, *operands[1], y.shape[0])))
      return failure();
    for (int64_t t = 0; t < operands[1]->size(); ++t)
      for (int64_t c = 0; c < columns; ++c)
        add(y.data[static_cast<int64_t>(operands[1]->data[t]) * columns + c],
            operands[0]->data[t * columns + c]);
    return Values{std::move(y)};
  }
  if (isa<CrossEntropyOp>(op)) {
    TensorValue loss = emptyResult(op, 0), lse = emptyResult(op, 1);
    int64_t columns = operands[0]->shape[1];
    if (failed(checkIds(op, *operands[1], columns)))
      return failure();
    for (int64_t t = 0; t < loss.size(); ++t) {
      auto row = operands[0]->data.begin() + t * columns;
      double largest = *std::max_element(row, row + columns), sum = 0;
      for (int64_t c = 0; c < columns; ++c)
        add(sum, std::exp(partial(row[c] - largest)));
      lse.data[t] = partial(largest + partial(std::log(sum)));
      loss.data[t] = lse.data[t] - row[static_cast<int64_t>(operands[1]->data[t])];
    }
    return Values{std::move(loss), std::move(lse)};
  }
  if (auto product = dyn_cast<ExpMatmulOp>(op))
    return exponentials(product, operands);
  if (auto forward = dyn_cast<AttentionOp>(op))
    return attention(forward, operands);
  if (auto backward = dyn_cast<AttentionGradOp>(op))
    return attentionGrad(backward, operands);
  if (isa<AllReduceOp, ReduceScatterOp, AllGatherOp, ShardOp>(op)) {
    if (options.exchange)
      return Values{options.exchange(op, *operands[0])};
    if (operands[0]->size() == emptyResult(op).size())
      return Values{*operands[0]};
  }
  known = false;
  return failure();
}

} // namespace nano::interpreter
