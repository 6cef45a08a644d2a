// The checker of plans; its rules are in Validate.cpp, ValidateKernels.cpp, ValidateCommands.cpp,
// ValidateIndices.cpp and ValidateReads.cpp. Internal to runtime/plan.
#pragma once

#include "base/Limits.h"
#include "base/Target.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Plan.h"

#include <iterator>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nano::plan {

/// The rule that a plan breaks; caught in `validate`.
struct Violation {
  std::string message;
};

inline std::string quoted(const std::string &name) { return "'" + name + "'"; }

/// a·b for sizes; saturates, so that an absurd product is larger than any buffer.
inline uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

inline uint64_t plus(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/// Of which group of indices the numbers are that lie in each byte of the arena.
class HeldIndices {
public:
  static constexpr int64_t none = -1; ///< other numbers, or of several groups

  /// Before any command: where buffers of one group lie alone, nothing else has ever come.
  explicit HeldIndices(const Plan &plan);
  /// From `begin` on lie numbers of the group, or others.
  void put(uint64_t begin, uint64_t bytes, int64_t group);
  bool holds(uint64_t begin, uint64_t bytes, int64_t group) const;

private:
  /// Of the stretch that a byte lies in.
  std::map<uint64_t, int64_t>::const_iterator at(uint64_t byte) const {
    return std::prev(groups.upper_bound(byte));
  }

  std::map<uint64_t, int64_t> groups; ///< from a byte on, up to the next one that is named
};

/// Checks one plan; `item` says where it is, for the message.
class Validator {
public:
  explicit Validator(const Plan &plan) : plan(plan) {}

  /// Throws a Violation.
  void run();

private:
  void require(bool holds, const char *rule) const {
    if (!holds)
      fail(rule);
  }
  [[noreturn]] void fail(const std::string &rule) const { throw Violation{item + ": " + rule}; }
  void named(const char *what, const std::string &name, std::unordered_set<std::string> &seen) {
    item = std::string(what) + " " + quoted(name);
    require(!name.empty(), "the name is empty");
    require(seen.insert(name).second, "the name is used twice");
  }

  const Buffer &bufferAt(uint32_t index) const {
    if (index >= plan.buffers.size())
      fail("buffer " + std::to_string(index) + " does not exist, there are " +
           std::to_string(plan.buffers.size()));
    return plan.buffers[index];
  }
  uint64_t elements(const std::vector<int64_t> &shape) const;
  /// `bytes` from the ref's start must lie inside its buffer.
  void within(const Ref &ref, uint64_t bytes, const char *what) const;
  /// Likewise, and the buffer in the arena.
  void inside(const Ref &ref, uint64_t bytes, const char *what) const;

  void header();
  void unproven();
  void interchange();
  void check(const Buffer &buffer);
  void check(const State &state);
  void check(const State &state, const Sharding &sharding);
  /// The initial value of `count` elements of the type.
  void check(const Init &init, uint64_t count, DType type) const;
  /// What a state starts as a copy of, up to what is none.
  void copies(const State &state) const;
  void check(const Program &program);
  void events(const Program &program) const;
  void check(const Command &command, const Program &program);
  void check(const Expr &expr, int depth) const;
  void check(const Launch &launch) const;
  void candidate(const Launch &launch, const Command &command) const;
  void reaches(const Kernel &kernel, const Launch::Segment &segment) const;
  void cudaLaunch(const Launch &launch) const;
  void check(const TensorMap &map, const Launch::Segment &segment) const;
  void check(const Matmul &matmul) const;
  void scales(const Matmul &matmul) const;
  void check(const AllReduce &reduce) const;
  void check(const Fill &fill) const;
  void check(const Copy &copy) const;
  /// `gathers`: the targets are the parts of all members, else the sources.
  void exchange(const Exchange &exchange, bool gathers) const;
  /// `count` elements from the ref's start.
  void elements(const Ref &ref, DType type, int64_t count) const;
  void apart(const Ref &from, uint64_t fromBytes, const Ref &to, uint64_t toBytes) const;
  bool program(const std::string &name) const;
  bool programAlone(const std::string &name) const;
  void phases(const Training &training) const;
  void scalars();
  void kernels();
  void check(const Kernel &kernel) const;
  void nativeKernels();
  void cudaKernels();
  void stages();
  void training(const Training &training);
  void checks(const IndexChecks &checks) const;
  void columns(const std::vector<Column> &columns, int64_t tokens) const;
  void documents(const Documents &documents) const;
  void reports(const Training &training);
  /// What kernels use as indices is what they take for it.
  void indices();
  void indicesFromOutside();
  void indicesOf(const Launch &launch) const;
  void indicesOf(const Command &command) const;
  void indicesStay();
  void indicesStay(const Program &program, HeldIndices &held);
  /// What `what` puts into a buffer lies among low … high.
  void enters(const char *what, uint32_t buffer, int64_t low, int64_t high) const;
  /// What commands read is filled by somebody.
  void reads();

  const Plan &plan;
  std::string item;
  /// `fileNames`: what checkpoints call states, that is, whole states and pieces of sharded ones.
  std::unordered_set<std::string> bufferNames, stateNames, fileNames, programNames;
};

} // namespace nano::plan
