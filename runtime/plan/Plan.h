// The plan: everything that a runtime needs to train a model, as plain structs.
// The compiler fills them, `PlanFile.h` stores them, devices execute them; the file format is
// specified in docs/plan-format.md. Structs compare member by member.
#pragma once

#include "runtime/plan/Interchange.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
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
  bool operator==(const Scalar &) const = default;
};

/// A named range of the arena. Offsets are fixed by the compiler; every rank has an arena of the
/// same layout.
struct Buffer {
  std::string
      name; ///< model name where it has one ("blocks.3.x"), else a derived one; unique in the plan
  uint64_t offset = 0; ///< bytes from the start of the arena, aligned to 256
  uint64_t bytes = 0;
  DType type = DType::F32;
  std::vector<int64_t> shape;
  Location location;
  int64_t indices = -1; ///< the one of Plan::indexGroups that it is of; −1 where it is of none
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
    bool operator==(const Piece &) const = default;
  };
  std::vector<Piece> pieces; ///< by offset, disjoint
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
  bool operator==(const State &) const = default;
};

/// The name that files and messages use: "parameter", "optimizer", "gradient", "constant".
const char *nameOf(State::Role role);

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
    bool operator==(const Reach &) const = default;
  };
  std::vector<Reach> reaches; ///< by iterations, rising; none of a kernel that nothing launches
  /// An operand whose elements are 32-bit integers, and the one of Plan::indexGroups that it is of.
  struct Indices {
    uint32_t operand = 0, group = 0;
    bool operator==(const Indices &) const = default;
  };
  std::vector<Indices> indices; ///< by operand, rising
  bool operator==(const Kernel &) const = default;
};

/// The same kernel over several sets of operands (many parameters updated at once); one set is the
/// common case.
struct Launch {
  struct Segment {
    std::vector<Ref> args;
    int64_t iterations = 0; ///< size of the iteration space
    int64_t grain = 1;      ///< the fewest iterations worth giving to one thread
    bool operator==(const Segment &) const = default;
  };
  uint32_t kernel = 0; ///< index into Plan::kernels
  std::vector<Segment> segments;
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
  bool operator==(const Matmul &) const = default;
};

/// Element-wise sum or maximum over the members of `ranks`, combined in the order of their places,
/// bf16 in f32 and rounded once; in place.
struct AllReduce {
  struct Part {
    Ref buffer;
    int64_t count = 0; ///< elements
    bool operator==(const Part &) const = default;
  };
  Ranks ranks = Ranks::All;
  bool maximum = false;
  DType type = DType::F32;
  std::vector<Part> parts;
  bool operator==(const AllReduce &) const = default;
};

/// Elements that go from one place to another.
struct Move {
  Ref from, to;
  int64_t count = 0; ///< elements of one part
  bool operator==(const Move &) const = default;
};
/// Moves between wholes and the parts of them that the members of `ranks` have, by place.
struct Exchange {
  Ranks ranks = Ranks::All;
  DType type = DType::F32;
  std::vector<Move> moves;
  bool operator==(const Exchange &) const = default;
};
/// to ← the part of `from` with this rank's place, summed over the members as AllReduce sums.
struct ReduceScatter : Exchange {};
/// to ← the members' `from`, by place.
struct AllGather : Exchange {};
/// to ← the part of `from` with this rank's place; no communication.
struct Shard : Exchange {};

/// Every byte of `count` elements becomes zero.
struct Fill {
  DType type = DType::F32;
  Ref to;
  int64_t count = 0;
  bool operator==(const Fill &) const = default;
};
/// to ← from, which do not overlap.
struct Copy {
  DType type = DType::F32;
  Ref from, to;
  int64_t count = 0;
  bool operator==(const Copy &) const = default;
};

/// Marks a point of the command's stream.
struct RecordEvent {
  uint32_t event = 0;
  bool operator==(const RecordEvent &) const = default;
};
/// What follows on the command's stream starts after the point that the event marks.
struct WaitEvent {
  uint32_t event = 0;
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
  bool operator==(const Command &) const = default;
};

/// A static schedule: commands in an order in which a single thread may execute them; streams and
/// events say how much of that order is needed.
struct Program {
  std::string name;
  std::vector<Command> commands;
  uint32_t streams = 1;
  uint32_t events = 0;
  bool operator==(const Program &) const = default;
};

/// A hyperparameter as compiled: the value as text, and whether it was overridden with -D.
struct Hyperparameter {
  std::string name, value;
  bool overridden = false;
  bool operator==(const Hyperparameter &) const = default;
};

/// A file of device code: a kernel's text, or a header that kernels include by this name.
struct Source {
  std::string name; ///< a file name without folders, e.g. "rmsnorm_3f2a.cu", "nano_kernels.h"
  std::string text;
  bool operator==(const Source &) const = default;
};

/// A parameter whose matrix products run in FP8: a row of the report. Its columns: for the
/// products' input, the weight and the gradient each the largest magnitude, the scale (0: one a
/// block), the share of elements beyond the format's largest number and the share rounded to zero;
/// then ‖y₈ − y‖/‖y‖ against the product in the compute type, of the forward product, the
/// gradient of the input and that of the weight. What there is not is 0.
struct ScaledWeight {
  std::string name;   ///< the parameter's
  std::string recipe; ///< "static", "current", "delayed", "block"
  /// Whether input, weight and gradient are converted: a product whose sizes no 8-bit product has
  /// stays in the compute type, and what only it reads is not. Of others the report has zeros.
  std::array<bool, 3> converted = {true, true, true};
  bool operator==(const ScaledWeight &) const = default;
};
inline constexpr int64_t reportColumns = 15;

/// What a program checks of indices that the compiler could not prove to lie in their tables.
struct IndexChecks {
  struct Check {
    std::string kind;  ///< whose indices they are: "gather", "scatter_add", "cross_entropy"
    int64_t bound = 0; ///< those in [0, bound) are right
    Location location;
    bool operator==(const Check &) const = default;
  };
  std::vector<Check> list;
  /// i32 [list], written by the program where there are checks: of each one of its indices, one out
  /// of range where any is. Whatever they are, the program touches nothing beside its tables.
  uint32_t buffer = 0;
  bool operator==(const IndexChecks &) const = default;
};

/// A column of the data beside the tokens, an input of programs: element t of the buffer goes with
/// target t of the sequence, or with its input t. Zero in padding.
struct Column {
  enum class Type : uint8_t { F32, BF16, I32, U8 };
  std::string name;      ///< `documentColumn`: made by the reader; else a column of the files
  Type type = Type::F32; ///< in the files; U8 is I32 in the buffer
  bool ofTarget = true;
  uint32_t buffer = 0;
  bool operator==(const Column &) const = default;
};
/// The name that files and messages use: "f32", "bf16", "i32", "u8".
const char *nameOf(Column::Type type);
/// Element type of a column's buffer.
DType bufferTypeOf(Column::Type type);
/// The column of type U8 that is in no file: 1 for a document's tokens, 0 for padding.
inline constexpr const char *documentColumn = "in_document";

/// How training batches are cut; docs/data.md has the rules.
struct Documents {
  enum class Rule : uint8_t { Contiguous, Aligned, Cut, Packed };
  Rule rule = Rule::Contiguous;
  std::string longest;  ///< Cut, Packed: the scalar that says a document's most tokens; empty: none
  bool shuffle = false; ///< Cut, Packed
  bool operator==(const Documents &) const = default;
};
/// The name that files and messages use: "contiguous", "aligned", "cut", "packed".
const char *nameOf(Documents::Rule rule);

/// What programs found of a tensor, for the log; docs/reports.md.
struct Report {
  enum class Kind : uint8_t { Mean, Norm, Max, Histogram };
  std::string name;
  Kind kind = Kind::Mean;
  /// f32, written by the programs. Mean: [1], the mean; Norm: [1], the sum of squares; Max: [1],
  /// the largest magnitude; Histogram: [edges + 5], the elements below edges[0], from each edge
  /// below the next, and not below the last; then the smallest, the largest, the sum and the sum of
  /// squares.
  uint32_t buffer = 0;
  uint64_t offset = 0;       ///< bytes from the buffer's start
  std::vector<double> edges; ///< Histogram: rising
  bool eachStep = false;     ///< of a step, the same on all ranks; else of each micro-batch
  /// eachStep: the step's phases in which it is written, rising; empty: all.
  std::vector<int64_t> phases;
  bool operator==(const Report &) const = default;
};

/// The name that files and messages use: "mean", "norm", "max", "histogram".
const char *nameOf(Report::Kind kind);
/// The numbers in its buffer.
inline size_t numbersOf(const Report &report) {
  return report.kind == Report::Kind::Histogram ? report.edges.size() + 5 : 1;
}

/// The programs of one optimizer step, by name. A rank runs A = globalBatch / (seqLen · ranks)
/// micro-batches: `first`, then A − 2 times `next`, then `last`, which holds the gradients'
/// collectives; where A = 1 only `last`. Then `update`.
struct StepPrograms {
  std::string first; ///< empty where A = 1
  std::string next;  ///< empty where A < 3
  std::string last;
  std::string update; ///< empty where `last` ends with it
  bool operator==(const StepPrograms &) const = default;
};

/// A program that runs after the update of one step, or of every one.
struct Event {
  std::string program;
  int64_t step = -1; ///< 0-based; −1: every step
  bool operator==(const Event &) const = default;
};

/// How the training loop uses the programs, in one stage of the run: steps with the same sizes. All
/// programs take inputs from `tokens` and `targets`.
struct Training {
  std::string stage; ///< its name; empty where the run has one stage only
  int64_t until = 0; ///< it ends before this step, counted from 0; the last one is followed beyond
                     ///< it; 0 where the run has one stage only
  std::vector<StepPrograms> phases;  ///< step s of the run is done by phases[s % phases.size()]
  std::vector<Event> events;         ///< after a step's update, in this order
  std::string validate;              ///< program name
  int64_t seqLen = 0, valSeqLen = 0; ///< tokens in a micro-batch of one rank
  int64_t globalBatch = 0;           ///< tokens in an optimizer step over all ranks
  int64_t numIterations = 0;
  int64_t vocabSize = 0; ///< tokens ≥ this are bad input
  int64_t eosToken = -1;
  uint32_t tokensBuffer = 0, targetsBuffer = 0;       ///< i32 [seqLen], inputs of a step's programs
  uint32_t valTokensBuffer = 0, valTargetsBuffer = 0; ///< i32 [valSeqLen], inputs of validate
  std::vector<Column> columns, valColumns; ///< [seqLen] and [valSeqLen], further inputs of both
  Documents documents;
  uint32_t lossBuffer = 0;    ///< f32 [1], written by those: the loss of this micro-batch
  uint32_t valLossBuffer = 0; ///< f32 [1], written by validate
  bool trainLossIsSum = true; ///< train loss is a sum over tokens; else the mean
  bool valLossIsSum = false;
  /// Sampling: `generate` reads i32 [genSeqLen] from genTokensBuffer and writes f32 [genSeqLen,
  /// logitsColumns]. Row t of the logits predicts the token after position t; columns ≥ vocabSize
  /// are padding. Empty name: no such program.
  std::string generate;
  int64_t genSeqLen = 0, logitsColumns = 0;
  uint32_t genTokensBuffer = 0, logitsBuffer = 0;
  /// Sampling token by token: after a run of `generate`, and after its own of all positions since,
  /// `decode` reads a token and its position, below genSeqLen, both i32 [1], and writes the logits
  /// after it, f32 [1, logitsColumns]. Between them no other program runs. Empty name: no such
  /// program.
  std::string decode;
  uint32_t decodeTokenBuffer = 0, decodePositionBuffer = 0, decodeLogitsBuffer = 0;
  IndexChecks checks, valChecks, genChecks; ///< of a step's micro-batches, validate, generate
  IndexChecks decodeChecks;
  std::vector<Report> reports; ///< of a step's programs
  std::string logScalar;       ///< the scalar that the log and the progress line show as "lr"
  /// How well FP8 scales fit: `measure` reads what a step's first program reads, before it, leaves
  /// all states as they are, and writes f32 [scaledWeights, reportColumns] to reportBuffer. Empty
  /// name: no such program.
  std::string measure;
  uint32_t reportBuffer = 0;
  std::vector<ScaledWeight> scaledWeights;
  bool operator==(const Training &) const = default;
};

/// A plan for some numbers of ranks. A plan file may hold several, which have all in common but
/// `worlds`, `group`, the arena, buffers, states, scalars, programs, `training` and `laterStages`.
struct Plan {
  std::string model;           ///< model name, from the model file's name
  std::string target;          ///< "cpu" or "cuda"
  std::vector<int64_t> worlds; ///< numbers of ranks that it can run on
  int64_t group = 1;           ///< ranks in a group; divides each of `worlds`
  std::vector<std::string>
      cpuFeatures; ///< what the native code needs, e.g. "avx512f", as /proc/cpuinfo spells it
  std::vector<Hyperparameter> hyperparameters;
  Interchange interchange; ///< with checkpoints of other programs
  uint64_t arenaBytes = 0; ///< one rank's arena
  std::vector<Buffer> buffers;
  std::vector<State> states;
  uint32_t scalarBuffer = 0;
  std::vector<Scalar> scalars;
  std::vector<IndexGroup> indexGroups;
  std::vector<Kernel> kernels;
  std::vector<Program> programs;
  Training training; ///< the run's first stage, which may be its only one
  /// Those behind it. All stages agree in numIterations, vocabSize, eosToken, valSeqLen,
  /// valLossIsSum, logScalar and the number of phases.
  std::vector<Training> laterStages;
  std::vector<Source> sources; ///< CUDA: the kernels and the headers that they include
  std::string code;            ///< CPU: an ELF shared object with the kernels' symbols
  std::string source;          ///< the model file's text
  std::string data;            ///< elements of initial values, of several states
  bool operator==(const Plan &) const = default;
};

/// The stages of the plan's run, in order.
std::vector<const Training *> stagesOf(const Plan &plan);
/// Optimizer steps [begin, end), 0-based, of one stage.
struct StageSteps {
  const Training *stage = nullptr;
  int64_t begin = 0, end = 0;
};
/// The steps [begin, end) by stages, in order; none that has no step among them. The last stage's
/// go on beyond its end.
std::vector<StageSteps> stagesOf(const Plan &plan, int64_t begin, int64_t end);
/// The stage that optimizer step `step`, 0-based, is of; behind the last one's end that one.
const Training &stageAt(const Plan &plan, int64_t step);
/// The tokens of the first `steps` optimizer steps, over all ranks.
int64_t tokensOf(const Plan &plan, int64_t steps);

} // namespace nano::plan
