// Attention as step tasks in text form.
#include "tests/codegen/AttentionTasks.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <array>

using llvm::formatv;

namespace nano::test {

namespace {

std::string shapeText(const AttentionShape &s, const std::string &element) {
  return formatv("{0}x{1}x{2}x{3}", s.tokens, s.heads, s.size, element);
}
/// Of the result and its gradient.
std::string resultShape(const AttentionShape &s) {
  return formatv("{0}x{1}x{2}x{3}", s.tokens, s.heads, s.ofValues(), s.element);
}

/// Heads of q (part 0), or of k and v.
int64_t headsOf(const AttentionShape &s, int64_t part) {
  return part == 0 ? s.heads : s.heads / s.sharing;
}
int64_t sizeOf(const AttentionShape &s, int64_t part) { return part == 2 ? s.ofValues() : s.size; }
/// The shape and type of q, k or v.
std::string partShape(const AttentionShape &s, int64_t part) {
  return formatv("{0}x{1}x{2}x{3}", s.tokens, headsOf(s, part), sizeOf(s, part), s.element);
}
std::string partTensor(const AttentionShape &s, int64_t part) {
  return "tensor<" + partShape(s, part) + ">";
}

/// The memref type of part `part` of q, k, v, or of their gradients.
std::string partType(const AttentionShape &s, int64_t part) {
  if (s.spread)
    return formatv("memref<{0}, strided<[{1}, {2}, 2], offset: 1>>", partShape(s, part),
                   2 * headsOf(s, part) * sizeOf(s, part), 2 * sizeOf(s, part));
  if (!s.packed)
    return "memref<" + partShape(s, part) + ">";
  int64_t before = part == 0 ? 0 : headsOf(s, 0) + (part - 1) * headsOf(s, 1);
  return formatv("memref<{0}, strided<[{1}, {2}, 1], offset: {3}>>", partShape(s, part),
                 (headsOf(s, 0) + 2 * headsOf(s, 1)) * s.size, s.size, before * s.size);
}

/// Buffers for three parts named names[0 … 2].
std::string parts(const AttentionShape &s, const std::string &buffer,
                  std::array<const char *, 3> names) {
  std::string text;
  std::string whole = formatv("memref<{0}x{1}x{2}x{3}>", s.tokens,
                              headsOf(s, 0) + 2 * headsOf(s, 1), s.size, s.element);
  if (s.packed)
    text += formatv("%{0} = step.buffer \"{0}\" : {1}\n", buffer, whole);
  for (int64_t i = 0; i < 3; ++i) {
    std::string wide =
        formatv("memref<{0}x{1}x{2}x2x{3}>", s.tokens, headsOf(s, i), sizeOf(s, i), s.element);
    if (s.spread)
      text += formatv(
          "%{0}_wide = step.buffer \"{0}\" : {1}\n%{0} = step.view %{0}_wide : {1} to {2}\n",
          names[i], wide, partType(s, i));
    else if (s.packed)
      text +=
          formatv("%{0} = step.view %{1} : {2} to {3}\n", names[i], buffer, whole, partType(s, i));
    else
      text += formatv("%{0} = step.buffer \"{0}\" : {1}\n", names[i], partType(s, i));
  }
  return text;
}

std::string region(const std::string &ops, bool withGradient) {
  return formatv("{{\n^bb0(%s: tensor<f32>, %query: tensor<i32>, %key: tensor<i32>, %head: "
                 "tensor<i32>{0}):\n{1}\nnano.yield %r : tensor<f32>\n}\n",
                 withGradient ? ", %g: tensor<f32>" : "", ops);
}

} // namespace

std::string attentionText(const AttentionShape &s) {
  std::string tensor = "tensor<" + shapeText(s, s.element) + ">",
              result = "tensor<" + resultShape(s) + ">";
  std::string text = "step.program @p {\n" + parts(s, "qkv", {"q", "k", "v"});
  text += formatv("%first = step.buffer \"first\" : memref<{0}xi32>\n%last = step.buffer \"last\" "
                  ": memref<{0}xi32>\n",
                  s.tokens);
  text += formatv(
      "%y = step.buffer \"y\" : memref<{0}>\n%lse = step.buffer \"lse\" : memref<{1}x{2}xf32>\n",
      resultShape(s), s.tokens, s.heads);
  std::string statistics = formatv("memref<{0}x{1}xf32>", s.tokens, s.heads);
  text += formatv("step.task ins(%q, %k, %v, %first, %last) outs(%y{0}) : ({1}, {2}, {3}, "
                  "memref<{4}xi32>, memref<{4}xi32>) -> (memref<{5}>{6}) {{\n",
                  s.statistics ? ", %lse" : "", partType(s, 0), partType(s, 1), partType(s, 2),
                  s.tokens, resultShape(s), s.statistics ? ", " + statistics : "");
  text +=
      formatv("^bb0(%tq: {0}, %tk: {2}, %tv: {3}, %tf: tensor<{1}xi32>, %tl: tensor<{1}xi32>):\n",
              tensor, s.tokens, partTensor(s, 1), partTensor(s, 2));
  text += formatv("%ty, %tlse = nano.attention %tq, %tk, %tv, %tf, %tl scale 2.500000e-01 : ({0}, "
                  "{3}, {4}, tensor<{1}xi32>, tensor<{1}xi32>)"
                  " -> ({5}, tensor<{1}x{2}xf32>)\n",
                  tensor, s.tokens, s.heads, partTensor(s, 1), partTensor(s, 2), result);
  if (!s.score.empty())
    text += region(s.score, false);
  text += s.statistics ? formatv("nano.yield %ty, %tlse : {0}, tensor<{1}x{2}xf32>\n", result,
                                 s.tokens, s.heads)
                             .str()
                       : formatv("nano.yield %ty : {0}\n", result).str();
  return text + "}\n}\n";
}

std::string attentionGradText(const AttentionShape &s) {
  std::string tensor = "tensor<" + shapeText(s, s.element) + ">",
              result = "tensor<" + resultShape(s) + ">",
              statistics = formatv("{0}x{1}xf32", s.tokens, s.heads);
  std::string text = "step.program @p {\n" + parts(s, "qkv", {"q", "k", "v"}) +
                     parts(s, "dqkv", {"dq", "dk", "dv"});
  text += formatv("%first = step.buffer \"first\" : memref<{0}xi32>\n%last = step.buffer \"last\" "
                  ": memref<{0}xi32>\n",
                  s.tokens);
  text += formatv("%lse = step.buffer \"lse\" : memref<{0}>\n%delta = step.buffer \"delta\" : "
                  "memref<{0}>\n%dy = step.buffer \"dy\" : memref<{1}>\n",
                  statistics, resultShape(s));
  text +=
      formatv("step.task ins(%q, %k, %v, %first, %last, %lse, %delta, %dy) outs(%dq, %dk, %dv)"
              " : ({0}, {1}, {2}, memref<{3}xi32>, memref<{3}xi32>, memref<{4}>, memref<{4}>, "
              "memref<{5}>) -> ({0}, {1}, {2}) {{\n",
              partType(s, 0), partType(s, 1), partType(s, 2), s.tokens, statistics, resultShape(s));
  text += formatv("^bb0(%tq: {0}, %tk: {3}, %tv: {4}, %tf: tensor<{1}xi32>, %tl: tensor<{1}xi32>, "
                  "%tlse: tensor<{2}>, %td: tensor<{2}>, %tdy: {5}):\n",
                  tensor, s.tokens, statistics, partTensor(s, 1), partTensor(s, 2), result);
  text += formatv("%a, %b, %c = nano.attention_grad %tq, %tk, %tv, %tf, %tl, %tlse, %td, %tdy "
                  "scale 2.500000e-01 : ({0}, {3}, {4}, tensor<{1}xi32>,"
                  " tensor<{1}xi32>, tensor<{2}>, tensor<{2}>, {5}) -> ({0}, {3}, {4})\n",
                  tensor, s.tokens, statistics, partTensor(s, 1), partTensor(s, 2), result);
  if (!s.score.empty())
    text += "score " + region(s.score, false) + "grad " + region(s.scoreGrad, true);
  text += formatv("nano.yield %a, %b, %c : {0}, {1}, {2}\n", tensor, partTensor(s, 1),
                  partTensor(s, 2));
  return text + "}\n}\n";
}

KeyRanges keyRanges(int64_t tokens, bool causal, int64_t window, int64_t block,
                    double endOfDocument, std::mt19937_64 &random) {
  std::bernoulli_distribution ends(endOfDocument);
  std::vector<int64_t> document(tokens, 0);
  for (int64_t t = 1; t < tokens; ++t)
    document[t] = document[t - 1] + ends(random);
  KeyRanges ranges{{{tokens}, {}}, {{tokens}, {}}};
  for (int64_t t = 0; t < tokens; ++t) {
    int64_t from =
        std::lower_bound(document.begin(), document.end(), document[t]) - document.begin();
    int64_t to =
        std::upper_bound(document.begin(), document.end(), document[t]) - document.begin() - 1;
    ranges.first.data.push_back(
        static_cast<double>(std::max(from, (t / block - window + 1) * block)));
    ranges.last.data.push_back(static_cast<double>(causal ? t : to));
  }
  return ranges;
}

KeyRanges arbitraryRanges(int64_t tokens, std::mt19937_64 &random) {
  std::uniform_int_distribution<int64_t> any(0, tokens - 1);
  KeyRanges ranges{{{tokens}, {}}, {{tokens}, {}}};
  for (int64_t t = 0; t < tokens; ++t) {
    ranges.first.data.push_back(static_cast<double>(any(random)));
    ranges.last.data.push_back(static_cast<double>(any(random)));
  }
  std::sort(ranges.first.data.begin(), ranges.first.data.end());
  std::sort(ranges.last.data.begin(), ranges.last.data.end());
  for (int64_t t = 0; t < tokens; ++t) { // keeps both non-decreasing
    double a = ranges.first.data[t], b = ranges.last.data[t];
    ranges.first.data[t] = std::min(a, b);
    ranges.last.data[t] = std::max(a, b);
  }
  return ranges;
}

} // namespace nano::test
