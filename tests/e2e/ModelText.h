// The text of a program in the graph dialect, op by op.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nano::test {

/// The dimension that a program's sequence length is filled in for, k·T for k of them, and what
/// stands for it and its inverse in text.
constexpr int64_t T = -1;
constexpr const char *lengthMark = "$T";
constexpr const char *inverseLengthMark = "$INV";
/// The dimension T − k, for k of at least 1.
constexpr int64_t shorterBy(int64_t k) { return -(int64_t{1} << 40) - k; }

/// A value of the program: its name, sizes and element type.
struct ModelValue {
  std::string name;
  std::vector<int64_t> shape;
  std::string element;
};

/// A literal of a float; "[1, 2]"; "tensor<$Tx8xf32>".
std::string number(double value);
std::string list(const std::vector<int64_t> &values);
std::string typeOf(const std::vector<int64_t> &shape, const std::string &element);
/// `text` with T, its multiples and what is shorter by a number in types filled in, and T where the
/// mark stands alone.
std::string withLength(const std::string &text, int64_t length);
/// `text` with every `mark` replaced.
std::string replaced(std::string text, const std::string &mark, const std::string &by);

/// Writes ops behind each other; every method writes some and returns the last one's result.
class ModelText {
public:
  using Shape = std::vector<int64_t>;
  using Value = ModelValue;

  std::string body;

  /// `%n = text`, and the result's type behind it unless the text ends with the types.
  Value op(const Shape &shape, const std::string &element, const std::string &text,
           bool printType = true);
  Value unary(const std::string &name, const Value &x);
  Value binary(const std::string &name, const Value &x, const Value &y);
  Value constantText(const std::string &value, const Shape &shape, const std::string &element);
  Value constant(double value, const Shape &shape, const std::string &element);
  Value times(Value x, double factor);
  Value plus(Value x, double addend);
  Value cast(Value x, const std::string &element);
  Value broadcast(Value x, const Shape &shape, const Shape &dims);
  Value reshape(Value x, const Shape &shape);
  /// Dimension k of the result is dimension order[k] of x.
  Value permute(Value x, const Shape &order);
  Value slice(Value x, int64_t dim, int64_t start, int64_t size);
  Value concat(const Value &x, const Value &y, int64_t dim);
  /// The same where the sum of both sizes is `size`.
  Value concat(const Value &x, const Value &y, int64_t dim, int64_t size);
  Value reduce(const char *combiner, Value x, const Shape &dims);
  /// x·op(w), the result of type `element`.
  Value matmul(const Value &a, const Value &b, bool transposeA, bool transposeB, const Shape &shape,
               const std::string &element);

private:
  int64_t next = 0;
};

} // namespace nano::test
