// Matrix products of a plan, by cuBLASLt.
#pragma once

#include "base/Status.h"
#include "runtime/Tuning.h"
#include "runtime/cuda/Api.h"
#include "runtime/plan/Plan.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace nano::cuda {

/// Where the operands of one Matmul command lie. `d` is 0 when beta is 0, the scales are 0 when the
/// product has none.
struct MatmulOperands {
  CUdeviceptr a = 0, b = 0, c = 0, d = 0;
  CUdeviceptr scaleA = 0, scaleB = 0;
};

/// What the addresses of the operands are multiples of, 256 at most; of a batch, every matrix.
struct MatmulAlignments {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

/// One Matmul command, ready to be put on a stream any number of times.
///
/// The plan's matrices are row-major, cuBLASLt's column-major: a row-major m×n matrix is a
/// column-major n×m one, so C = op(A)·op(B) is computed as Cᵀ = op(B)ᵀ·op(A)ᵀ with the same bytes.
class Product {
public:
  ~Product();
  Product(const Product &) = delete;
  Product &operator=(const Product &) = delete;

  /// Puts the product on the stream, with this workspace (see Products).
  cublasStatus_t enqueue(CUdeviceptr workspace, CUstream stream) const;
  /// What tells this product from others for the choice of an algorithm, as text: shape, types,
  /// layouts and alignment, e.g.
  /// "49152x3072x768 bf16*bf16T->bf16 ld 768,768,3072 align 256,256,256".
  const std::string &key() const { return keyText; }

private:
  friend class Products;
  explicit Product(const CublasLtApi &api) : api(api) {}

  const CublasLtApi &api;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, addend = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  MatmulOperands operands;
  MatmulAlignments alignments;
  float alpha = 1, beta = 0;
  uint64_t workspaceBytes = 0;
  std::string keyText;
  std::string advice; ///< behind the error of one that no algorithm computes
};

/// Makes products, and chooses an algorithm for each distinct one: the tuned one where there is
/// one, else the first that cuBLASLt proposes. Only algorithms whose sums have a fixed order are
/// considered.
class Products {
public:
  /// What a workspace should have on the GPUs of today; small products are happy with less.
  static constexpr uint64_t defaultWorkspace = uint64_t(32) << 20;

  static Result<std::unique_ptr<Products>> create(const CublasLtApi &api, uint64_t workspaceBytes);
  ~Products();
  Products(const Products &) = delete;
  Products &operator=(const Products &) = delete;

  /// The product of a valid Matmul command, which has no algorithm yet. BadInput where block scales
  /// do not lie as cuBLASLt reads them.
  Result<std::unique_ptr<Product>> open(const plan::Matmul &matmul,
                                        const MatmulOperands &operands) const;
  /// The same with its algorithm; errors are those of `choose` too.
  Result<std::unique_ptr<Product>> make(const plan::Matmul &matmul, const MatmulOperands &operands);

  /// The algorithms of later products come from here where it has them. Set before the first
  /// `make`; outlives this object.
  void useTuning(const Tuning *choices) { tuning = choices; }

  /// The seconds of one run of `product` with the algorithm it has now; an Error drops that
  /// algorithm.
  using Measure = std::function<Result<double>(const Product &product)>;
  /// An algorithm: which of cuBLASLt's proposals it is, or which variation behind those, and what
  /// `Measure` said.
  struct Proposal {
    int number = 0;
    cublasLtMatmulAlgo_t algorithm = {};
    double seconds = 0;
    uint64_t shape = 0; ///< the same for those of one tile and one cluster of blocks
  };
  /// Measures what cuBLASLt proposes for the product; those that ran, the fastest first.
  Result<std::vector<Proposal>> propose(Product &product, const Measure &measure) const;
  /// Adds what differs from a proposal in its custom option or its cluster of blocks alone, as far
  /// as cuBLASLt can run that and it runs: of the fastest proposals first, `most` at most. How a
  /// sum is cut into parts stays, and with it that its order is fixed.
  void vary(Product &product, const Measure &measure, size_t most,
            std::vector<Proposal> &proposals) const;
  /// Gives the product that algorithm for now.
  static void give(Product &product, const Proposal &proposal) {
    product.algorithm = proposal.algorithm;
  }
  /// Makes it the tuned algorithm of this product, and of those like it when they `choose`.
  TunedChoice take(Product &product, const Proposal &proposal);
  /// Gives the product the algorithm that was taken for its like, or what a new one would get.
  /// BadInput when cuBLASLt cannot compute it; the message says which types and layouts it has, or
  /// what it needs for block scales. Safe from several threads, which choose at a time.
  Status choose(Product &product);

  /// Distinct products so far, and how many of them have a tuned algorithm.
  size_t distinct() const { return algorithms.size(); }
  size_t tuned() const { return fromTuning; }
  /// "13.0.2".
  std::string version() const;
  uint64_t workspaceBytes() const { return workspace; }

private:
  explicit Products(const CublasLtApi &api, uint64_t workspaceBytes)
      : api(api), workspace(workspaceBytes) {}
  Result<std::vector<cublasLtMatmulHeuristicResult_t>> candidates(const Product &product,
                                                                  int most) const;
  /// Whether cuBLASLt can run that algorithm, within the workspace.
  bool canRun(const Product &product, const cublasLtMatmulAlgo_t &algorithm) const;
  uint64_t shapeOf(const cublasLtMatmulAlgo_t &algorithm) const;
  /// Whether the tuned algorithm of this product, if any, is one that the library has; it has it
  /// then.
  bool takeTuned(Product &product) const;

  const CublasLtApi &api;
  cublasLtHandle_t handle = nullptr;
  uint64_t workspace;
  const Tuning *tuning = nullptr;
  std::mutex choosing;                                    ///< of the two below
  std::map<std::string, cublasLtMatmulAlgo_t> algorithms; ///< by key
  size_t fromTuning = 0;
};

} // namespace nano::cuda
