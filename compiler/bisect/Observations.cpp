// Norms of differences, tensor by tensor.
#include "compiler/bisect/Observations.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

using namespace mlir;

namespace nano::bisect {

using interpreter::TensorValue;

double roundingOf(Type element) {
  if (element.isInteger())
    return 0;
  const unsigned bits = cast<FloatType>(element).getFPMantissaWidth();
  return std::ldexp(1.0, -int(bits));
}

double distanceOf(const TensorValue &a, const TensorValue &b) {
  double sum = 0;
  for (auto [x, y] : llvm::zip_equal(a.data, b.data)) {
    if (!std::isfinite(y))
      continue;
    if (!std::isfinite(x))
      return std::numeric_limits<double>::infinity();
    sum += (x - y) * (x - y);
  }
  return std::sqrt(sum);
}

namespace {

/// What a tensor's difference is measured by.
double normOf(const Observation &observation) {
  const std::vector<double> &data = observation.value.data;
  double sum = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    const double change = data[i] - (observation.before ? observation.before->data[i] : 0);
    sum += std::isfinite(change) ? change * change : 0;
  }
  return std::sqrt(sum);
}

/// The first word of a name tells kinds apart whose numbers are of one size.
std::string kindOf(const std::string &name, const Observation &observation) {
  return observation.before ? "state" : StringRef(name).split(' ').first.str();
}

double rootOfMeanSquare(double norm, const Observation &observation) {
  return norm / std::sqrt(std::max<double>(1, double(observation.value.size())));
}

} // namespace

Comparison compare(const Observations &found, const Observations &wanted,
                   const Tolerance &tolerance) {
  std::map<std::string, double> largestOfKind;
  for (const auto &[name, observation] : wanted) {
    double &largest = largestOfKind[kindOf(name, observation)];
    largest = std::max(largest, rootOfMeanSquare(normOf(observation), observation));
  }
  Comparison comparison;
  double worst = 1;
  for (const auto &[name, b] : wanted) {
    const auto other = found.find(name);
    if (other == found.end() || other->second.value.shape != b.value.shape)
      continue;
    const TensorValue &a = other->second.value;
    ++comparison.tensors;
    const double scale = std::max(normOf(b), 0.01 * largestOfKind[kindOf(name, b)] *
                                                 std::sqrt(double(b.value.size())));
    const double distance = distanceOf(a, b.value);
    double allowed = tolerance.relative * scale;
    if (const auto noise = tolerance.noise.find(name); noise != tolerance.noise.end())
      allowed += noise->second;
    if (tolerance.isRounded)
      allowed +=
          4 * b.rounding *
          distanceOf(b.value, TensorValue{b.value.shape, std::vector<double>(b.value.data.size())});
    const double relative = distance == 0 ? 0 : distance / scale;
    if (distance <= allowed) {
      if (relative > comparison.largest) {
        comparison.largest = relative;
        comparison.largestAt = name;
      }
      continue;
    }
    const double excess =
        allowed > 0 ? distance / allowed : std::numeric_limits<double>::infinity();
    if (excess <= worst)
      continue;
    worst = excess;
    Difference difference{name, relative, scale > 0 ? allowed / scale : 0};
    double furthest = -1;
    for (int64_t i = 0; i < b.value.size(); ++i) {
      const double off = std::isfinite(a.data[i]) ? std::abs(a.data[i] - b.value.data[i])
                                                  : std::numeric_limits<double>::infinity();
      if (std::isfinite(b.value.data[i]) && off > furthest) {
        furthest = off;
        difference.element = i;
        difference.found = a.data[i];
        difference.wanted = b.value.data[i];
      }
    }
    comparison.worst = difference;
  }
  return comparison;
}

//===- Bytes -------------------------------------------------------------------===//

namespace {

template <typename T> void put(std::string &bytes, const T &value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
}

template <typename T> void putAll(std::string &bytes, const std::vector<T> &values) {
  put(bytes, values.size());
  bytes.append(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
}

/// Takes values off the front of bytes that `toBytes` has written.
class Reader {
public:
  explicit Reader(const std::string &bytes) : rest(bytes) {}
  bool isAtEnd() const { return rest.empty(); }
  template <typename T> T get() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  template <typename T> std::vector<T> all() {
    std::vector<T> values(get<size_t>());
    if (!values.empty())
      std::memcpy(values.data(), take(values.size() * sizeof(T)), values.size() * sizeof(T));
    return values;
  }

private:
  const char *take(size_t count) {
    const char *start = rest.data();
    rest = rest.drop_front(count);
    return start;
  }
  StringRef rest;
};

void putTensor(std::string &bytes, const TensorValue &value) {
  putAll(bytes, value.shape);
  putAll(bytes, value.data);
}

TensorValue getTensor(Reader &reader) {
  TensorValue value;
  value.shape = reader.all<int64_t>();
  value.data = reader.all<double>();
  return value;
}

} // namespace

std::string toBytes(const Observations &observations) {
  std::string bytes;
  for (const auto &[name, observation] : observations) {
    putAll(bytes, std::vector<char>(name.begin(), name.end()));
    putTensor(bytes, observation.value);
    put(bytes, observation.rounding);
    put(bytes, observation.before.has_value());
    if (observation.before)
      putTensor(bytes, *observation.before);
  }
  return bytes;
}

Observations fromBytes(const std::string &bytes) {
  Observations observations;
  for (Reader reader(bytes); !reader.isAtEnd();) {
    const std::vector<char> name = reader.all<char>();
    Observation &observation = observations[std::string(name.begin(), name.end())];
    observation.value = getTensor(reader);
    observation.rounding = reader.get<double>();
    if (reader.get<bool>())
      observation.before = getTensor(reader);
  }
  return observations;
}

} // namespace nano::bisect
