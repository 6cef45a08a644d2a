// Matrix products of a plan, made ready once per distinct problem and run by oneDNN.
#pragma once

#include "base/Status.h"
#include "runtime/cpu/Memory.h"
#include "runtime/cpu/ThreadTeam.h"
#include "runtime/plan/Plan.h"

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace nano::cpu {

/// What distinguishes two products: all fields of a Matmul command but where its operands lie.
struct MatmulProblem {
  plan::DType aType = plan::DType::F32, bType = plan::DType::F32, cType = plan::DType::F32;
  bool transposeA = false, transposeB = false;
  int64_t m = 0, n = 0, k = 0, batch = 1;
  int64_t lda = 0, ldb = 0, ldc = 0, ldd = 0;
  int64_t strideA = 0, strideB = 0, strideC = 0, strideD = 0;
  double alpha = 1, beta = 0;
  bool scaled = false; ///< the operands have scales, f32 (plan::MatmulScales)
  int64_t scaleBlock = 0, scaleRowsA = 1, scaleRowsB = 1;
  std::array<int64_t, 2> scaleStridesA = {}, scaleStridesB = {};
  bool inPlace = false; ///< beta ≠ 0 and D is C

  auto operator<=>(const MatmulProblem &) const = default;
};

/// The problem of a Matmul command of a valid plan.
MatmulProblem problemOf(const plan::Matmul &matmul);

/// Where a product's operands lie.
struct MatmulOperands {
  const void *a = nullptr, *b = nullptr;
  void *c = nullptr;
  const void *d = nullptr;                          ///< read when beta ≠ 0
  const float *scaleA = nullptr, *scaleB = nullptr; ///< of a scaled product
};

/// A product that is ready to run: C[b] = alpha · op(A[b]) · op(B[b]) + beta · D[b].
class Matmul {
public:
  virtual ~Matmul() = default;
  /// Scratch memory that `run` needs, in bytes.
  virtual uint64_t scratchBytes() const = 0;
  /// Runs it with all threads of the team. `scratch` is 64-byte aligned.
  virtual Status run(const MatmulOperands &operands, void *scratch) = 0;
  /// The implementation that computes it, for benchmarks: oneDNN's name, "f32 copies + " and
  /// oneDNN's name, or "packed bf16" and what units multiply.
  virtual std::string implementation() const = 0;
};

/// oneDNN as it is; null when it has no optimized implementation for the operands' types.
std::unique_ptr<Matmul> makeDirectMatmul(const MatmulProblem &problem, const ThreadTeam &team);
/// A large product of bf16 matrices by this processor's AMX, or, where it has only dot products of
/// pairs, one with A transposed, as weights' gradients are, or with long sums (PackedMatmul.cpp);
/// null for others, where oneDNN is as fast, and where the processor has neither.
std::unique_ptr<Matmul> makePackedMatmul(const MatmulProblem &problem, const ThreadTeam &team);
/// A scaled product of f8 matrices (ScaledMatmul.cpp); null when oneDNN multiplies neither bf16 nor
/// f32.
std::unique_ptr<Matmul> makeScaledMatmul(const MatmulProblem &problem, const ThreadTeam &team);

/// The distinct products of a plan.
///
/// Operands that oneDNN takes as they are (both f32, or both bf16 on a processor with AVX-512) run
/// directly, transposes as strides, but for what `makePackedMatmul` takes. Others (bf16 without
/// AVX-512, fp8, mixed types) are first converted to f32 copies, which is exact; then the product
/// is summed in f32 and rounded once to C's type. Products with scales are computed tile by tile.
class Matmuls {
public:
  explicit Matmuls(const ThreadTeam &team);
  ~Matmuls();

  /// The product for `problem`, made on first use. Failed when oneDNN cannot compute it.
  Result<Matmul *> get(const MatmulProblem &problem);
  /// Reserves scratch memory for the largest of the products; call before the first run.
  Status reserveScratch();
  std::byte *scratch() const { return scratchMemory.data(); }

private:
  const ThreadTeam &team;
  std::map<MatmulProblem, std::unique_ptr<Matmul>> products;
  Mapping scratchMemory;
};

/// Version and instruction set of oneDNN, e.g. "oneDNN 2.6.3 (avx512_core_bf16)".
std::string matmulLibrary();

} // namespace nano::cpu
