// What lies in a rank's memory: buffers, states and how they begin, scalars.
#pragma once

#include "runtime/plan/Fields.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nano::plan {

/// Element type of a buffer or of a stored parameter.
enum class DType : uint8_t { F32, BF16, F8E4M3FN, F8E5M2, I32, U16 };

/// Size of one element in bytes.
uint64_t sizeOf(DType type);
/// The name that files and messages use: "f32", "bf16", "f8e4m3fn", "f8e5m2", "i32", "u16".
const char *nameOf(DType type);

/// The line of the model file that something was made for; `line` 0 when no line applies.
struct Location {
  std::string file;
  uint32_t line = 0;
  bool operator==(const Location &) const = default;
};

/// A function of the training step, evaluated on the host once a step.
/// Stored as a tree in prefix form. Leaves: a constant, or a variable by name: "step" (0-based
/// optimizer step s), "num_iterations" (N), "sequences" (sequences in the global batch), "world"
/// (ranks).
struct Expr {
  enum class Kind : uint8_t {
    Constant,
    Variable,
    Neg,
    Floor,
    Ceil,
    Sqrt,
    Exp,
    Log,
    Cos, // one operand
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    Pow,    // two operands
    Less,   // two operands: 1 when a < b, else 0
    Select, // three operands: c != 0 ? a : b
  };
  Kind kind = Kind::Constant;
  double constant = 0;        ///< Kind::Constant
  std::string variable;       ///< Kind::Variable
  std::vector<Expr> operands; ///< all other kinds
  bool operator==(const Expr &) const = default;
};

/// A run-time scalar: learning rate, momentum, window, gradient scale. Scalars live side by side in
/// buffer `Plan::scalarBuffer`, so that one captured step serves all steps. Evaluated in f64, then
/// rounded to `type` (I32: nearest, ties to even).
struct Scalar {
  std::string name;        ///< e.g. "lr.blocks", "window"; unique
  DType type = DType::F32; ///< F32 or I32
  uint64_t offset = 0;     ///< bytes from the start of the scalar buffer
  Expr value;
  template <class S = Scalar> static constexpr auto fields() {
    return std::tuple(field("name", &S::name), field("type", &S::type), field("offset", &S::offset),
                      field("value", &S::value));
  }
  bool operator==(const Scalar &) const = default;
};

/// A named range of the arena, or of the host's memory where a plan has some. Offsets are fixed by
/// the compiler; every rank has an arena of the same layout.
struct Buffer {
  std::string
      name; ///< model name where it has one ("blocks.3.x"), else a derived one; unique in the plan
  uint64_t offset = 0; ///< bytes from the start of the arena, aligned to 256; in the host's memory
                       ///< from `hostBegin` on
  uint64_t bytes = 0;
  DType type = DType::F32;
  std::vector<int64_t> shape;
  Location location;
  int64_t indices = -1; ///< the one of Plan::indexGroups that it is of; −1 where it is of none
  template <class S = Buffer> static constexpr auto fields() {
    return std::tuple(field("name", &S::name), field("offset", &S::offset),
                      field("bytes", &S::bytes), field("type", &S::type), field("shape", &S::shape),
                      since(11, field("indices", &S::indices)), optional("at", &S::location));
  }
  bool operator==(const Buffer &) const = default;
};

/// 32-bit integers of one meaning, such as token ids or the rows that a router has chosen: the
/// operands of kernels that take them, and the buffers that hold them. Kernels use them as indices;
/// that what kernels write there is in range is known to their code. What comes from outside of the
/// programs (tokens, tables, columns, scalars) lies among low … high, both included.
struct IndexGroup {
  int64_t low = 0, high = -1; ///< low above high: nothing comes from outside
  bool holds(int64_t number) const { return low <= number && number <= high; }
  bool holdsAny() const { return low <= INT32_MIN && high >= INT32_MAX; }
  template <class S = IndexGroup> static constexpr auto row() {
    return std::tuple(&S::low, &S::high);
  }
  bool operator==(const IndexGroup &) const = default;
};
/// The smallest group that holds what both hold.
IndexGroup joined(const IndexGroup &a, const IndexGroup &b);

/// How the initial value of a state is made. Random values come from a counter-based generator
/// keyed by (seed, name, element index).
struct Init {
  enum class Kind : uint8_t {
    Constant,
    Normal,
    Uniform,
    Sign,      ///< values[0] or −values[0] with equal chance
    Data,      ///< elements in Plan::data
    Copy,      ///< what `source` starts with, rounded to the own type
    Transpose, ///< the same with the last two dimensions swapped
    Blocks,    ///< `parts` one behind the other, of counts[i] elements each
  };
  Kind kind = Kind::Constant;
  std::vector<double> values;  ///< Constant: one value for all elements, or one per element
  double mean = 0, stddev = 1; ///< Normal
  double low = 0, high = 1;    ///< Uniform, [low, high)
  uint64_t offset = 0;         ///< Data: bytes from the start of Plan::data
  std::string source;          ///< Copy, Transpose: a state's name
  std::vector<uint64_t> counts;
  std::vector<Init> parts; ///< Constant with one value, Normal, Uniform or Sign
  bool operator==(const Init &) const = default;
};

/// The ranks that a collective is among. Ranks form groups of Plan::group consecutive ones.
enum class Ranks : uint8_t {
  All,   ///< every rank; a rank's place is its number
  Group, ///< the ranks of one group; its number modulo Plan::group
  Peers, ///< the ranks that have the same place in their groups; the number of its group
};

/// The name that files and messages use: "all", "group", "peers".
const char *nameOf(Ranks ranks);
/// The number of members of `ranks` in a world whose groups have `group` ranks.
int64_t membersOf(Ranks ranks, int64_t world, int64_t group);

/// A state of which each rank holds a part. With P members of `ranks`, element t·chunk + i of the
/// member at place p is element (t·P + p)·chunk + i of a whole that is the same whatever P.
struct Sharding {
  Ranks ranks = Ranks::Group;
  int64_t parts = 1; ///< P
  int64_t chunk = 0; ///< elements
  /// A tensor, stored contiguously in the whole from element `offset` on. What no piece covers is
  /// padding.
  struct Piece {
    std::string name; ///< as the state is called when one rank holds all of it
    std::vector<int64_t> shape;
    int64_t offset = 0;
    template <class S = Piece> static constexpr auto fields() {
      return std::tuple(field("name", &S::name), field("shape", &S::shape),
                        field("offset", &S::offset));
    }
    bool operator==(const Piece &) const = default;
  };
  std::vector<Piece> pieces; ///< by offset, disjoint
  template <class S = Sharding> static constexpr auto fields() {
    return std::tuple(field("ranks", &S::ranks), field("parts", &S::parts),
                      field("chunk", &S::chunk), field("pieces", &S::pieces));
  }
  bool operator==(const Sharding &) const = default;
};

/// Mutable state that lives from step to step.
struct State {
  enum class Role : uint8_t {
    Parameter, ///< trained; in the parameters file and in checkpoints
    Optimizer, ///< moments, momenta, amax histories, states of the model's own: in checkpoints only
    Gradient,  ///< accumulators, live between the programs of one step; in no file
    Constant,  ///< tables: nothing writes them, and they are in no file
  };
  std::string name; ///< parameter: its checkpoint name; optimizer state: "<parameter>.<state>",
                    ///< e.g. "embed.weight.momentum"
  Role role = Role::Parameter;
  DType type = DType::F32;
  std::vector<int64_t> shape;
  uint32_t buffer = 0; ///< index into Plan::buffers
  Init init;
  std::optional<Sharding>
      sharding;            ///< optimizer states and gradients; none: all ranks hold the same
  std::string optimizer;   ///< trained parameters: what the model calls its equations; else empty
  double learningRate = 0; ///< parameters: initial learning rate
  Location location;
  template <class S = State> static constexpr auto fields() {
    return std::tuple(field("name", &S::name), field("role", &S::role), field("type", &S::type),
                      field("shape", &S::shape), field("buffer", &S::buffer),
                      field("init", &S::init), optional("sharding", &S::sharding),
                      optional("optimizer", &S::optimizer),
                      optional("learningRate", &S::learningRate), optional("at", &S::location));
  }
  bool operator==(const State &) const = default;
};

/// The name that files and messages use: "parameter", "optimizer", "gradient", "constant".
const char *nameOf(State::Role role);

template <> inline constexpr Names<DType> namesOf<DType> = {"element type", DType::U16};
template <> inline constexpr Names<Ranks> namesOf<Ranks> = {"ranks", Ranks::Peers};
template <>
inline constexpr Names<State::Role> namesOf<State::Role> = {"role", State::Role::Constant};

} // namespace nano::plan
