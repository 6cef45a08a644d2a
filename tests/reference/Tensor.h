// The reference's only data structure: a dense row-major array of doubles with a shape,
// and maps of them by parameter name.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace nano::reference {

/// The one arithmetic type of the reference.
using Real = double;
using Vec = std::vector<Real>;
using Shape = std::vector<int64_t>;

/// Product of the dimensions; 1 for an empty shape.
inline int64_t elementCount(const Shape &shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

/// Row-major values of a shape; data.size() == elementCount(shape).
struct Tensor {
  Shape shape;
  Vec data;
};

/// Parameters, gradients and optimizer buffers, by parameter name.
using Tensors = std::map<std::string, Tensor>;
using Shapes = std::map<std::string, Shape>;

/// A tensor of zeros for every entry of `shapes`.
inline Tensors zeros(const Shapes &shapes) {
  Tensors result;
  for (const auto &[name, shape] : shapes)
    result[name] = {shape, Vec(elementCount(shape), 0)};
  return result;
}

/// Something that the user gave is wrong: one line that says what, where and what to do.
class InputError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

} // namespace nano::reference
