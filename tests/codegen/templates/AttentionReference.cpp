// The equations of nano.attention and nano.attention_grad, one query at a time.
#include "tests/codegen/templates/AttentionReference.h"
#include "tests/codegen/templates/TemplateRunner.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nano::test {

AttentionResult attentionReference(const AttentionProblem &p) {
  AttentionResult r;
  r.y.resize(p.dy.size());
  r.dq.resize(p.q.size());
  r.dk.resize(p.k.size());
  r.dv.resize(p.v.size());
  r.lse.resize(size_t(p.tokens) * p.heads);
  auto score = [&](int query, int key, int head) {
    double sum = 0;
    for (int d = 0; d < p.size; ++d)
      sum += p.q[p.place(query, head, d)] * p.k[p.keyPlace(key, head, d)];
    return sum;
  };
  auto product = [&](int query, int key, int head) {
    double sum = 0;
    for (int d = 0; d < p.valueSize; ++d)
      sum += p.dy[p.resultPlace(query, head, d)] * p.v[p.valuePlace(key, head, d)];
    return sum;
  };
  for (int head = 0; head < p.heads; ++head)
    for (int query = 0; query < p.tokens; ++query) {
      int from = p.first[query], count = p.last[query] - from + 1;
      Numbers raw(count), scores(count);
      double sum = 0, largest = -std::numeric_limits<double>::infinity();
      for (int i = 0; i < count; ++i) {
        raw[i] = p.scale * score(query, from + i, head);
        scores[i] = p.score ? p.score(raw[i], query, from + i, head) : raw[i];
        largest = std::max(largest, scores[i]);
      }
      for (double s : scores)
        sum += std::exp(s - largest);
      size_t statistic = size_t(query) * p.heads + head;
      r.lse[statistic] = largest + std::log(sum);
      for (int i = 0; i < count; ++i) {
        int key = from + i;
        double weight = std::exp(scores[i] - r.lse[statistic]);
        double gradient = weight * (product(query, key, head) - p.delta[statistic]) *
                          (p.slope ? p.slope(raw[i], query, key, head) : 1) * p.scale;
        for (int d = 0; d < p.size; ++d) {
          size_t q = p.place(query, head, d), k = p.keyPlace(key, head, d);
          r.dq[q] += gradient * p.k[k];
          r.dk[k] += gradient * p.q[q];
        }
        for (int d = 0; d < p.valueSize; ++d) {
          size_t y = p.resultPlace(query, head, d), v = p.valuePlace(key, head, d);
          r.y[y] += weight * p.v[v];
          r.dv[v] += weight * p.dy[y];
        }
      }
    }
  return r;
}

void fillOperands(AttentionProblem &p, bool isBf16, std::mt19937_64 &random) {
  std::normal_distribution<double> normal;
  for (Numbers *x : {&p.q, &p.k, &p.v, &p.dy}) {
    x->resize(size_t(p.tokens) * p.heads / (x == &p.k || x == &p.v ? p.sharing : 1) *
              (x == &p.v || x == &p.dy ? p.valueSize : p.size));
    for (double &value : *x) {
      auto rounded = static_cast<float>(normal(random));
      value = isBf16 ? fromBf16(toBf16(rounded)) : rounded;
    }
  }
  p.delta.resize(size_t(p.tokens) * p.heads);
  for (double &value : p.delta)
    value = static_cast<float>(normal(random));
}

void causalRanges(AttentionProblem &p, double endOfDocument, int window, int block,
                  std::mt19937_64 &random) {
  std::bernoulli_distribution ends(endOfDocument);
  int document = 0;
  p.first.resize(p.tokens);
  p.last.resize(p.tokens);
  for (int t = 0; t < p.tokens; ++t) {
    if (ends(random))
      document = t;
    p.first[t] = std::max(document, (t / block - window + 1) * block);
    p.last[t] = t;
  }
}

void documentRanges(AttentionProblem &p, double endOfDocument, std::mt19937_64 &random) {
  causalRanges(p, endOfDocument, p.tokens, 1, random);
  for (int t = p.tokens - 2; t >= 0; --t)
    if (p.first[t + 1] == p.first[t])
      p.last[t] = p.last[t + 1];
}

void arbitraryRanges(AttentionProblem &p, std::mt19937_64 &random) {
  std::uniform_int_distribution<int> any(0, p.tokens - 1);
  p.first.resize(p.tokens);
  p.last.resize(p.tokens);
  for (int t = 0; t < p.tokens; ++t) {
    p.first[t] = any(random);
    p.last[t] = any(random);
  }
  std::sort(p.first.begin(), p.first.end());
  std::sort(p.last.begin(), p.last.end());
  for (int t = 0; t < p.tokens; ++t) // keeps both non-decreasing
    if (p.first[t] > p.last[t])
      std::swap(p.first[t], p.last[t]);
}

double largestError(const Numbers &actual, const Numbers &expected) {
  double largest = actual.size() == expected.size() ? 0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    double error = std::abs(actual[i] - expected[i]) / (1 + std::abs(expected[i]));
    largest =
        std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(largest, error);
  }
  return largest;
}

} // namespace nano::test
