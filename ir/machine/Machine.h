// What a machine can do, and how long parts of a step take on it: rates of matrix products, memory
// and links, read from JSON (docs/simulate.md says the keys). A noun of its own, without MLIR.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nano::machine {

/// A rate by size: straight lines over the logarithm of the size through (size, rate) points, the
/// first and last rate outside of them. Sizes ascend; one point: the same rate for all.
struct Curve {
  std::vector<std::pair<double, double>> points;
  double at(double size) const;
};

/// What the factors of a matrix product are made of; the wider one where they differ.
enum class ElementType : uint8_t { F32, BF16, F8 };
inline constexpr size_t numElementTypes = 3;

/// How a library computes products: in tiles of C, on so many units at once (multiprocessors or
/// cores), k cut into parts when C alone has too few tiles.
struct Products {
  double flops = 0;              ///< operations a second of all units on a product without end
  int64_t units = 1;             ///< tiles at a time
  int64_t rows = 1, columns = 1; ///< of a tile
  double startup = 0;            ///< what beginning and storing a tile costs, in steps of k
  int64_t split = 0;             ///< least k of a part when k is cut; 0: it is not
};

/// Collectives by what they do to a tensor that P members have.
enum class Collective : uint8_t { AllReduce, ReduceScatter, AllGather };
inline constexpr size_t numCollectives = 3;

/// What arithmetic a generated kernel does.
enum class Arithmetic : uint8_t {
  Vector,    ///< elementwise, f32
  Special,   ///< exponentials, reciprocals, roots
  Attention, ///< the two products and the softmax between them
  Product,   ///< a bf16 matrix product that generated code ends
  ProductF8, ///< one of 8-bit factors
};

/// What work takes of a device that keeps its power below a limit: then it is not done in less time
/// than its joules, beside what the device draws anyway, allow.
struct Energy {
  double limit = 0;               ///< watts; 0: not said, and neither is the rest
  double idle = 0;                ///< watts that it draws with nothing to do, its clocks up
  double byte = 0;                ///< joules of a byte that a kernel reads or writes
  double vector = 0, special = 0; ///< of an operation, as Arithmetic
  /// Of an operation of a matrix product, with the bytes that a large one reads and writes.
  std::array<double, numElementTypes> product = {};

  /// Seconds that work of so many joules takes at least.
  double seconds(double joules) const { return limit > 0 ? joules / (limit - idle) : 0; }
};

/// How fast the device library's matrix product with its epilogue is, over the vendor library's
/// without: 290 and 311 us for relu² of 49152 × 3072 × 768 on an H200.
inline constexpr double generatedProductShare = 0.93;
/// Likewise where the epilogue makes sums along rows: with a loss's exponentials 805 and 1021, 808
/// and 1001 us for 8192 × 50304 × 768 in bf16, in steps on an H200; in 8 bits, 322 and 313 us for
/// 4096 rows.
inline constexpr double summingProductShare = 0.8;
/// Likewise where the epilogue gets f32, and sums of stages are added up apart from the tensor
/// cores: 257 and 279 us for 50304 × 768 × 4096 in 8 bits, added to f32 in memory, in a step on an
/// H200.
inline constexpr double wideProductShare = 0.92;
/// A bf16 product's epilogue is done by the warps that multiply: what it reads and writes beside
/// one matrix of results takes so many times as long as by a kernel that does nothing else, and
/// tensor cores wait meanwhile. Measured on an H200: 287, 413 and 543 us for the product 49152 ×
/// 3072 × 768 alone, with GELU and its input as results, and with GELU's gradient, which reads one
/// matrix, writes two and sums columns; 420, 513 and 634 us of 16384 × 6400 × 1600; 236 and 445 us
/// of 32768 × 2816 × 1024 with SwiGLU's gradient, which reads two matrices and writes three. It
/// predicts these within 10%.
inline constexpr double epilogueMemoryCost = 1.25;

/// Links between ranks of a node. Bus bandwidth is what NCCL's tests call so: bytes a second that
/// each link carries, (P−1)/P·bytes/t for reduce-scatter and all-gather, twice that for all-reduce;
/// t, the time measured, has the latency in it where there are several points, a single bandwidth
/// is that of the bytes alone.
struct NodeLinks {
  double latency = 0;                    ///< seconds of the smallest collective
  int64_t members = 2;                   ///< among how many ranks the bandwidths were measured
  std::array<Curve, numCollectives> bus; ///< by bytes of the whole tensor, bytes a second
  double besideKernels = 1; ///< a collective takes so many times as long beside kernels
};

/// Links between nodes: every rank has one of its own.
struct Network {
  double latency = 0; ///< seconds of one message to another node
  Curve bandwidth;    ///< of one rank in one direction, by bytes of the whole tensor
};

/// The way between the host's memory and a device's, in either direction.
struct HostLink {
  double latency = 0;   ///< seconds of the smallest copy
  double bandwidth = 0; ///< bytes a second; 0: copies take no time
};

struct Machine {
  std::string name, summary;
  std::vector<std::string> sources; ///< where the figures come from
  int64_t ranksPerNode = 1;
  double memoryBytes = 0; ///< of one rank's device; 0: not said
  Curve memory;           ///< bytes a second read and written, by bytes a kernel touches
  double vectorFlops = 0, specialFlops = 0, attentionFlops = 0; ///< operations a second
  double launch = 0; ///< seconds from one launch by the host to the next, and of starting a graph
  double graphNode = 0; ///< seconds between commands of a graph; 0: the device has no graphs
  double besideCollectives = 1; ///< a kernel takes so many times as long while a collective runs
  bool oneAtATime = false; ///< a rank's commands run one after the other, whatever their streams
  std::array<Products, numElementTypes> products;
  Energy energy;
  NodeLinks node;
  bool hasNetwork = false;
  Network network;
  HostLink host;

  /// Tiles of matrix products at a time: multiprocessors, or cores.
  int64_t multiprocessors() const { return products[size_t(ElementType::BF16)].units; }

  /// Tiles of C of an m×n product.
  int64_t tiles(int64_t m, int64_t n, ElementType type) const;

  /// Seconds that lie between two commands of a program, beside their own.
  double command() const { return graphNode > 0 ? graphNode : launch; }

  /// Seconds of `batch` products m×k by k×n that touch `bytes` of memory. With T tiles and k in s
  /// parts of at least `split`: ⌈T·s/units⌉ rounds, each of (k/s + startup) steps of a tile, which
  /// is the quantisation that cuBLAS's guide and NVIDIA's "Matrix Multiplication Background"
  /// describe; s is the number of parts with the least time. Not less than the memory's time, nor
  /// than that of its joules.
  double product(int64_t m, int64_t n, int64_t k, int64_t batch, ElementType type,
                 double bytes = 0) const;
  /// Likewise of one product by a kernel that does not cut k into parts, as those of the device
  /// library, at the vendor library's speed.
  double wholeProduct(int64_t m, int64_t n, int64_t k, ElementType type) const;

  /// Seconds of a kernel that reads and writes `bytes` and computes `flops`: the longest of the two
  /// times (the roofline of Williams, Waterman and Patterson, CACM 52(4), 2009) and that of its
  /// joules; attention's operations are those of bf16 products.
  double kernel(double bytes, double flops = 0, Arithmetic arithmetic = Arithmetic::Vector) const;

  /// Seconds of a collective on a tensor of `bytes` (all-reduce: of each member; reduce-scatter:
  /// the source, all-gather: the target) among `members` ranks, the same number in each of `nodes`
  /// nodes; 0 for one member. In a node: latency + what the measured time at that size exceeds it
  /// by, times the ratio of the bus factors of `members` and of the measured ranks: (P−1)/P, for
  /// all-reduce 2(P−1)/P (rings of Patarasuk and Yuan, JPDC 69(2), 2009; NCCL's PERFORMANCE.md),
  /// and times `slowdown`: 1 where no kernel runs, node.besideKernels in a step.
  /// Over nodes: the slower of that and of the network, where a ring leaves a node over as many
  /// links as it has members there; the latency grows by a ring's nodes − 1 messages (NCCL's Ring),
  /// by ⌈log₂ nodes⌉ where every node has one member (PAT), for all-reduce by twice that (Tree) or
  /// the ring's two turns, whichever are fewer. `hasNetwork` must hold when `nodes` is above 1.
  double collective(Collective kind, double bytes, int64_t members, int64_t nodes = 1,
                    double slowdown = 1) const;

  /// Seconds of a copy of `bytes` between the host and a device; 0 for no bytes.
  double hostCopy(double bytes) const;

  /// An error of one line when so many ranks need links between nodes that the machine lacks.
  llvm::Error checkRanks(int64_t ranks) const;
};

/// The machine that `text` describes. Errors are one line that begins with `name`, the file's name
/// for the user, and says which key is wrong and what it should be.
llvm::Expected<Machine> parse(llvm::StringRef text, llvm::StringRef name);

/// The names of the machines that come with the compiler, sorted.
std::vector<std::string> knownMachines();

/// The machine of that name, or of the JSON file at that path. Errors: neither, with the known
/// names; as `parse`.
llvm::Expected<Machine> load(llvm::StringRef nameOrPath);

} // namespace nano::machine
