// How far two tensors lie from each other, in units of what they hold.
#include "runtime/CompareRuns.h"
#include "runtime/NonFinite.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Operands.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace nano {
namespace {

using plan::DType;

/// The element as a number, integers too.
double elementAt(DType type, const std::byte *data, uint64_t index) {
  const std::byte *at = data + index * plan::sizeOf(type);
  if (type == DType::I32) {
    int32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  if (type == DType::U16) {
    uint16_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  if (type == DType::F32) {
    float value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  return valueOf(type, at);
}

/// Not a number, or infinite, in one of them alone or in another way.
bool differInKind(double a, double b) {
  if (std::isfinite(a) && std::isfinite(b))
    return false;
  return !(std::isnan(a) && std::isnan(b)) && a != b;
}

/// The coarsest type of float that the programs of steps keep in memory, by its bits of mantissa.
int mantissaBits(const plan::Plan &plan) {
  int bits = 23;
  for (const plan::Program &program : plan.programs)
    for (const plan::Command &command : program.commands)
      for (const plan::Ref &ref : plan::operandsOf(command))
        switch (plan.buffers[ref.buffer].type) {
        case DType::BF16:
          bits = std::min(bits, 7);
          break;
        case DType::F8E4M3FN:
        case DType::F8E5M2:
          bits = std::min(bits, 3);
          break;
        default:
          break;
        }
  return bits;
}

} // namespace

double defaultTolerance(const plan::Plan &a, const plan::Plan &b) {
  switch (std::min(mantissaBits(a), mantissaBits(b))) {
  case 23:
    return 0x1p-14;
  case 7:
    return 0x1p-6;
  default:
    return 0x1p-2;
  }
}

Distance distanceOf(DType typeOfA, const std::vector<std::byte> &bytesOfA, DType typeOfB,
                    const std::vector<std::byte> &bytesOfB, double tolerance) {
  Distance distance;
  if (typeOfA == typeOfB && bytesOfA == bytesOfB)
    return distance;
  const uint64_t count = bytesOfA.size() / plan::sizeOf(typeOfA);
  double squaresA = 0, squaresB = 0, squares = 0;
  auto put = [&](uint64_t element, double a, double b) {
    distance.element = element;
    distance.a = a;
    distance.b = b;
  };
  for (uint64_t i = 0; i < count; ++i) {
    const double a = elementAt(typeOfA, bytesOfA.data(), i),
                 b = elementAt(typeOfB, bytesOfB.data(), i);
    if (differInKind(a, b)) {
      put(i, a, b);
      distance.relative = std::numeric_limits<double>::infinity();
      distance.isWithin = false;
      return distance;
    }
    if (!std::isfinite(a))
      continue;
    squaresA += a * a;
    squaresB += b * b;
    squares += (a - b) * (a - b);
  }
  if (squares == 0)
    return distance;
  const double larger = std::max(squaresA, squaresB);
  const double root = std::sqrt(larger / double(count));
  distance.relative = std::sqrt(squares / larger);
  double worst = -1;
  for (uint64_t i = 0; i < count; ++i) {
    const double a = elementAt(typeOfA, bytesOfA.data(), i),
                 b = elementAt(typeOfB, bytesOfB.data(), i);
    const double off = std::isfinite(a) ? std::abs(a - b) / (root + std::abs(b)) : 0;
    if (off > worst) {
      worst = off;
      put(i, a, b);
    }
  }
  const bool isExact = isInteger(typeOfA) || isInteger(typeOfB);
  distance.isWithin = !isExact && distance.relative <= tolerance && worst <= 16 * tolerance;
  return distance;
}

} // namespace nano
