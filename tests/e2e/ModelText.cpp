// Ops of the graph dialect as text.
#include "tests/e2e/ModelText.h"

#include <algorithm>
#include <sstream>

namespace nano::test {

std::string number(double value) {
  std::ostringstream text;
  text.precision(9);
  text << std::scientific << value;
  return text.str();
}

std::string list(const std::vector<int64_t> &values) {
  std::string text;
  for (int64_t value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}

std::string typeOf(const std::vector<int64_t> &shape, const std::string &element) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += (size == T ? lengthMark
             : size < shorterBy(0)
                 ? lengthMark + std::string("-") + std::to_string(shorterBy(0) - size) + "-"
             : size < 0 ? lengthMark + std::string("*") + std::to_string(size / T) + "*"
                        : std::to_string(size)) +
            "x";
  return text + element + ">";
}

std::string withLength(const std::string &text, int64_t length) {
  std::string result;
  const std::string mark = lengthMark;
  for (size_t at = 0; at < text.size();) {
    if (text.compare(at, mark.size(), mark) != 0) {
      result += text[at++];
      continue;
    }
    at += mark.size();
    int64_t size = length;
    if (const char kind = text[at]; kind == '*' || kind == '-') {
      const size_t end = text.find(kind, at + 1);
      const int64_t by = std::stoll(text.substr(at + 1, end - at - 1));
      size = kind == '*' ? size * by : size - by;
      at = end + 1;
    }
    result += std::to_string(size);
  }
  return result;
}

std::string replaced(std::string text, const std::string &mark, const std::string &by) {
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + by.size()))
    text.replace(at, mark.size(), by);
  return text;
}

ModelText::Value ModelText::op(const Shape &shape, const std::string &element,
                               const std::string &text, bool printType) {
  Value result{"%v" + std::to_string(next++), shape, element};
  body += "    " + result.name + " = " + text + (printType ? typeOf(shape, element) : "") + "\n";
  return result;
}

ModelText::Value ModelText::unary(const std::string &name, const Value &x) {
  return op(x.shape, x.element, "nano." + name + " " + x.name + " : ");
}

ModelText::Value ModelText::binary(const std::string &name, const Value &x, const Value &y) {
  return op(x.shape, x.element, "nano." + name + " " + x.name + ", " + y.name + " : ");
}

ModelText::Value ModelText::constantText(const std::string &value, const Shape &shape,
                                         const std::string &element) {
  return op(shape, element, "nano.constant " + value + " : ");
}

ModelText::Value ModelText::constant(double value, const Shape &shape, const std::string &element) {
  return constantText(number(value), shape, element);
}

ModelText::Value ModelText::times(Value x, double factor) {
  Value c = constant(factor, x.shape, x.element);
  return binary("mul", x, c);
}

ModelText::Value ModelText::plus(Value x, double addend) {
  Value c = constant(addend, x.shape, x.element);
  return binary("add", x, c);
}

ModelText::Value ModelText::cast(Value x, const std::string &element) {
  if (x.element == element)
    return x;
  return op(x.shape, element, "nano.cast " + x.name + " : " + typeOf(x.shape, x.element) + " -> ");
}

ModelText::Value ModelText::broadcast(Value x, const Shape &shape, const Shape &dims) {
  return op(shape, x.element,
            "nano.broadcast " + x.name + " dims " + list(dims) + " : " +
                typeOf(x.shape, x.element) + " -> ");
}

ModelText::Value ModelText::reshape(Value x, const Shape &shape) {
  return op(shape, x.element,
            "nano.reshape " + x.name + " : " + typeOf(x.shape, x.element) + " -> ");
}

ModelText::Value ModelText::permute(Value x, const Shape &order) {
  Shape shape;
  for (int64_t dim : order)
    shape.push_back(x.shape[dim]);
  return op(shape, x.element,
            "nano.permute " + x.name + " order " + list(order) + " : " +
                typeOf(x.shape, x.element) + " -> ");
}

ModelText::Value ModelText::slice(Value x, int64_t dim, int64_t start, int64_t size) {
  Shape shape = x.shape;
  shape[dim] = size;
  return op(shape, x.element,
            "nano.slice " + x.name + " dim " + std::to_string(dim) + " at " +
                std::to_string(start) + " : " + typeOf(x.shape, x.element) + " -> ");
}

ModelText::Value ModelText::concat(const Value &x, const Value &y, int64_t dim) {
  return concat(x, y, dim, x.shape[dim] + y.shape[dim]);
}

ModelText::Value ModelText::concat(const Value &x, const Value &y, int64_t dim, int64_t size) {
  Shape shape = x.shape;
  shape[dim] = size;
  return op(shape, x.element,
            "nano.concat " + x.name + ", " + y.name + " dim " + std::to_string(dim) + " : (" +
                typeOf(x.shape, x.element) + ", " + typeOf(y.shape, y.element) + ") -> ");
}

ModelText::Value ModelText::reduce(const char *combiner, Value x, const Shape &dims) {
  Shape shape;
  for (size_t i = 0; i < x.shape.size(); ++i)
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(i)) == dims.end())
      shape.push_back(x.shape[i]);
  return op(shape, x.element,
            std::string("nano.reduce ") + combiner + " " + x.name + " dims " + list(dims) + " : " +
                typeOf(x.shape, x.element) + " -> ");
}

ModelText::Value ModelText::matmul(const Value &a, const Value &b, bool transposeA, bool transposeB,
                                   const Shape &shape, const std::string &element) {
  std::string flags = transposeA && transposeB ? " {transpose_a, transpose_b}"
                      : transposeA             ? " {transpose_a}"
                      : transposeB             ? " {transpose_b}"
                                               : "";
  return op(shape, element,
            "nano.matmul " + a.name + ", " + b.name + flags + " : (" + typeOf(a.shape, a.element) +
                ", " + typeOf(b.shape, b.element) + ") -> ");
}

} // namespace nano::test
