// What a rank does: generated kernels, and commands that launch them, call libraries and exchange
// data with other ranks, in programs.
#pragma once

#include "runtime/plan/Memory.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace nano::plan {

/// The start of a kernel's or library call's operand: bytes into a buffer. Strides are part of the
/// kernel.
struct Ref {
  uint32_t buffer = 0;
  uint64_t offset = 0;  ///< bytes from the buffer's start
  bool written = false; ///< the callee writes this operand (it may read it too when `read` is set)
  bool read = true;     ///< the callee reads this operand
  uint64_t bytes = 0;   ///< bytes of data in the operand, gaps between rows not counted; a gather
                        ///< may touch fewer; 0 where nobody needs to know
  bool operator==(const Ref &) const = default;
};

/// How a kernel's bulk loads of boxes see one of its operands: a row-major matrix in global memory,
/// of which a load takes boxRows × boxColumns elements. In shared memory the box's rows lie one
/// behind the other, permuted as nano::Swizzle says.
struct TensorMap {
  uint32_t argument = 0; ///< the operand that the matrix starts at
  DType type = DType::BF16;
  uint64_t columns = 0, rows = 0;       ///< elements
  uint64_t rowBytes = 0;                ///< from a row to the next one
  uint32_t boxColumns = 0, boxRows = 0; ///< elements
  uint32_t swizzleBytes = 0;            ///< 32, 64, 128, or 0: not permuted
  template <class S = TensorMap> static constexpr auto row() {
    return std::tuple(&S::argument, &S::type, &S::columns, &S::rows, &S::rowBytes, &S::boxColumns,
                      &S::boxRows, &S::swizzleBytes);
  }
  bool operator==(const TensorMap &) const = default;
};

/// One generated kernel. CPU: a symbol of Plan::code with the C signature
///   void name(void *const *args, void *scratch, int64_t begin, int64_t end)
/// which computes iterations [begin, end) of the kernel's iteration space; iterations are
/// independent of each other and of how the range is split, so results do not depend on the number
/// of threads. `scratch` is private to the call, 64-byte aligned; the absolute symbol
/// "<name>.scratch" of the code says how many bytes of it the kernel uses.
/// CUDA: `extern "C" __global__ void name(const __grid_constant__ nano::Launch<A, maxSegments>)` in
/// the source of that name, A being the number of operands; a block computes `iterationsPerBlock`
/// iterations of one segment with `threads` threads. Kernels of this kind have no scratch. Those
/// with tensor maps take one segment and have `const __grid_constant__ nano::TensorMaps<N>` as
/// their second parameter.
struct Kernel {
  std::string name;    ///< symbol; readable and unique, e.g. "rmsnorm_residual_3f2a"
  std::string summary; ///< the graph ops that it came from, one line
  uint64_t scratchBytes = 0;
  double flops = 0;       ///< floating-point operations of one iteration; 0 where none count
  double flopsPerKey = 0; ///< attention: floating-point operations of one iteration for each key
                          ///< that its queries see on average; what that is, the data decide
  DType flopsType = DType::F32;      ///< whose rate of operations they run at
  std::vector<Location> locations;   ///< model lines of the fused ops
  std::string source;                ///< CUDA: name of the one of Plan::sources that defines it
  uint32_t threads = 0;              ///< CUDA: threads in a block, a multiple of 32
  int64_t iterationsPerBlock = 0;    ///< CUDA: the last block of a segment may have fewer
  uint64_t sharedBytes = 0;          ///< CUDA: dynamic shared memory of a block
  uint32_t maxSegments = 0;          ///< CUDA: the most segments that one launch takes
  uint32_t clusterBlocks = 1;        ///< CUDA: blocks of a cluster, as the text's __cluster_dims__
  std::vector<TensorMap> tensorMaps; ///< CUDA
  /// How far a launch reaches: with at most so many iterations, no further than so many bytes from
  /// the start of each of the kernel's operands.
  struct Reach {
    int64_t iterations = 0;
    std::vector<uint64_t> bytes; ///< by operand
    template <class S = Reach> static constexpr auto row() {
      return std::tuple(&S::iterations, &S::bytes);
    }
    bool operator==(const Reach &) const = default;
  };
  std::vector<Reach> reaches; ///< by iterations, rising; none of a kernel that nothing launches
  /// An operand whose elements are 32-bit integers, and the one of Plan::indexGroups that it is of.
  struct Indices {
    uint32_t operand = 0, group = 0;
    template <class S = Indices> static constexpr auto row() {
      return std::tuple(&S::operand, &S::group);
    }
    bool operator==(const Indices &) const = default;
  };
  std::vector<Indices> indices; ///< by operand, rising
  template <class S = Kernel> static constexpr auto fields() {
    return std::tuple(
        field("name", &S::name), field("summary", &S::summary), field("scratch", &S::scratchBytes),
        optional("flops", &S::flops), optional("flopsPerKey", &S::flopsPerKey),
        since(13, field("flopsType", &S::flopsType)), list("at", &S::locations),
        together(field("source", &S::source), field("block", &S::threads, &S::iterationsPerBlock,
                                                    &S::sharedBytes, &S::maxSegments)),
        optional("cluster", &S::clusterBlocks), optional("maps", &S::tensorMaps),
        field("reaches", &S::reaches), since(11, field("indices", &S::indices)));
  }
  bool operator==(const Kernel &) const = default;
};

/// The same kernel over several sets of operands (many parameters updated at once); one set is the
/// common case.
struct Launch {
  struct Segment {
    std::vector<Ref> args;
    int64_t iterations = 0; ///< size of the iteration space
    int64_t grain = 1;      ///< the fewest iterations worth giving to one thread
    template <class S = Segment> static constexpr auto row() {
      return std::tuple(&S::iterations, &S::grain, &S::args);
    }
    bool operator==(const Segment &) const = default;
  };
  uint32_t kernel = 0; ///< index into Plan::kernels
  std::vector<Segment> segments;
  template <class S = Launch> static constexpr auto fields() {
    return std::tuple(field("launch", &S::kernel), field("segments", &S::segments));
  }
  bool operator==(const Launch &) const = default;
};

/// The scales of a product of f8 matrices: every element of A and B stands for itself times a
/// scale, f32. When `block` is 0 each has one scale. Else op(A) has one for rowsA rows and `block`
/// columns, op(B) one for `block` rows and rowsB columns; what lies between two multiples of
/// `block` along k is summed in f32 before it is multiplied by its scales and added to the rest.
/// Neighbours along m, or n, lie strides[0] elements apart, along k strides[1].
struct MatmulScales {
  Ref a, b;
  int64_t block = 0, rowsA = 1, rowsB = 1;
  std::array<int64_t, 2> stridesA = {}, stridesB = {};
  template <class S = MatmulScales> static constexpr auto fields() {
    return std::tuple(
        field("scaleA", &S::a), field("scaleB", &S::b),
        optional("scaleBlocks", &S::block, &S::rowsA, &S::rowsB, &S::stridesA, &S::stridesB));
  }
  bool operator==(const MatmulScales &) const = default;
};

/// C[b] = alpha · op(A[b]) · op(B[b]) + beta · D[b], f32 accumulation; op(A) is m×k, op(B) k×n.
/// Leading dimensions and batch strides in elements, row-major. D, when beta ≠ 0, has C's type,
/// layout and size; it may be C itself.
struct Matmul {
  Ref a, b, c, d;
  DType aType = DType::F32, bType = DType::F32, cType = DType::F32;
  bool transposeA = false, transposeB = false;
  int64_t m = 0, n = 0, k = 0, batch = 1;
  int64_t lda = 0, ldb = 0, ldc = 0, ldd = 0;
  int64_t strideA = 0, strideB = 0, strideC = 0, strideD = 0;
  double alpha = 1, beta = 0;
  std::optional<MatmulScales> scales; ///< of f8 matrices, batch 1
  template <class S = Matmul> static constexpr auto fields() {
    return std::tuple(field("matmul", &S::m, &S::n, &S::k, &S::batch),
                      field("types", &S::aType, &S::bType, &S::cType),
                      optional("transpose", &S::transposeA, &S::transposeB),
                      field("ld", &S::lda, &S::ldb, &S::ldc, &S::ldd),
                      optional("stride", &S::strideA, &S::strideB, &S::strideC, &S::strideD),
                      optional("scale", &S::alpha, &S::beta), field("a", &S::a), field("b", &S::b),
                      field("c", &S::c),
                      where(
                          +[](const S &matmul) { return matmul.beta != 0; }, field("d", &S::d)),
                      Inline<S, MatmulScales>{&S::scales});
  }
  bool operator==(const Matmul &) const = default;
};

/// Element-wise sum or maximum over the members of `ranks`, combined in the order of their places,
/// bf16 in f32 and rounded once; in place.
struct AllReduce {
  struct Part {
    Ref buffer;
    int64_t count = 0; ///< elements
    template <class S = Part> static constexpr auto row() { return std::tuple(&S::buffer); }
    bool operator==(const Part &) const = default;
  };
  Ranks ranks = Ranks::All;
  bool maximum = false;
  DType type = DType::F32;
  std::vector<Part> parts;
  template <class S = AllReduce> static constexpr auto fields() {
    return std::tuple(field("allReduce", &S::type), optional("ranks", &S::ranks),
                      optional("maximum", &S::maximum),
                      Counted<S, Part>{"refs", "counts", &S::parts});
  }
  bool operator==(const AllReduce &) const = default;
};

/// Elements that go from one place to another.
struct Move {
  Ref from, to;
  int64_t count = 0; ///< elements of one part
  template <class S = Move> static constexpr auto row() { return std::tuple(&S::from, &S::to); }
  bool operator==(const Move &) const = default;
};
/// Moves between wholes and the parts of them that the members of `ranks` have, by place.
struct Exchange {
  Ranks ranks = Ranks::All;
  DType type = DType::F32;
  std::vector<Move> moves;
  /// Those of the kinds, by their names.
  template <class S> static constexpr auto fieldsOf(const char *kind) {
    return std::tuple(field(kind, &S::type), optional("ranks", &S::ranks),
                      Counted<Exchange, Move>{"refs", "counts", &S::moves});
  }
  bool operator==(const Exchange &) const = default;
};
/// to ← the part of `from` with this rank's place, summed over the members as AllReduce sums.
struct ReduceScatter : Exchange {
  template <class S = ReduceScatter> static constexpr auto fields() {
    return S::template fieldsOf<S>("reduceScatter");
  }
};
/// to ← the members' `from`, by place.
struct AllGather : Exchange {
  template <class S = AllGather> static constexpr auto fields() {
    return S::template fieldsOf<S>("allGather");
  }
};
/// to ← the part of `from` with this rank's place; no communication.
struct Shard : Exchange {
  template <class S = Shard> static constexpr auto fields() {
    return S::template fieldsOf<S>("shard");
  }
};

/// Every byte of `count` elements becomes zero.
struct Fill {
  DType type = DType::F32;
  Ref to;
  int64_t count = 0;
  template <class S = Fill> static constexpr auto fields() {
    return std::tuple(field("fill", &S::type), list("refs", &S::to), list("counts", &S::count));
  }
  bool operator==(const Fill &) const = default;
};
/// to ← from, which do not overlap.
struct Copy {
  DType type = DType::F32;
  Ref from, to;
  int64_t count = 0;
  template <class S = Copy> static constexpr auto fields() {
    return std::tuple(field("copy", &S::type), list("refs", &S::from, &S::to),
                      list("counts", &S::count));
  }
  bool operator==(const Copy &) const = default;
};

/// Marks a point of the command's stream.
struct RecordEvent {
  uint32_t event = 0;
  template <class S = RecordEvent> static constexpr auto fields() {
    return std::tuple(field("record", &S::event));
  }
  bool operator==(const RecordEvent &) const = default;
};
/// What follows on the command's stream starts after the point that the event marks.
struct WaitEvent {
  uint32_t event = 0;
  template <class S = WaitEvent> static constexpr auto fields() {
    return std::tuple(field("wait", &S::event));
  }
  bool operator==(const WaitEvent &) const = default;
};

/// One step of a program.
struct Command {
  using Action = std::variant<Launch, Matmul, AllReduce, ReduceScatter, AllGather, Shard, Fill,
                              Copy, RecordEvent, WaitEvent>;
  Action action;
  uint32_t stream = 0;
  std::string label = {}; ///< for traces and error messages
  Location location = {};
  /// Of a Launch or Matmul: launches that compute the same, of operands that are among its own.
  /// Which is fastest can be measured.
  std::vector<Launch> candidates = {};

  template <typename T> bool is() const { return std::holds_alternative<T>(action); }
  /// The action when it is a T, else null.
  template <typename T> const T *as() const { return std::get_if<T>(&action); }
  template <typename T> T *as() { return std::get_if<T>(&action); }
  template <class S = Command> static constexpr auto fields() {
    return std::tuple(OneOf{&S::action}, optional("stream", &S::stream),
                      optional("label", &S::label), optional("at", &S::location),
                      optional("candidates", &S::candidates));
  }
  bool operator==(const Command &) const = default;
};

/// A static schedule: commands in an order in which a single thread may execute them; streams and
/// events say how much of that order is needed.
struct Program {
  std::string name;
  std::vector<Command> commands;
  uint32_t streams = 1;
  uint32_t events = 0;
  template <class S = Program> static constexpr auto fields() {
    return std::tuple(field("name", &S::name), field("streams", &S::streams),
                      field("events", &S::events), field("commands", &S::commands));
  }
  bool operator==(const Program &) const = default;
};

} // namespace nano::plan
