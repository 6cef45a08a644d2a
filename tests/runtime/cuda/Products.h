// Matrix products for tests: commands of every layout, elements of every type, and the sums that
// the plan's words describe.
#pragma once

#include "runtime/cuda/Api.h"
#include "runtime/plan/Plan.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nano::test {

/// Element `index` of an array of the type, exactly; f8e4m3, f8e5m2, bf16 and f32.
float valueAt(const void *data, plan::DType type, int64_t index);
float valueAt(const void *data, cudaDataType type, int64_t index);
/// Rounds to f32 or bf16.
void setValue(void *data, plan::DType type, int64_t index, float value);
void setValue(void *data, cudaDataType type, int64_t index, float value);

/// A product to test, and where its operands lie in the arena of `productPlan`.
struct ProductCase {
  const char *name;
  plan::Matmul command;
};

/// Every combination of transposes for f32 and bf16 with f32 and bf16 results; gaps between rows;
/// batches, one matrix for the whole batch among them; factors; an addend, elsewhere and in place;
/// f8 with and without scales in the layout that GPUs have.
std::vector<ProductCase> productCases();

/// A plan of target cuda with one program a case, named by it, and one buffer for each operand:
/// "<case>.a", ".b", ".c", ".d".
plan::Plan productPlan(const std::vector<ProductCase> &cases);

/// Bytes for the operands: small multiples of 1/8, so that sums of f32 are exact in any order.
std::vector<std::byte> operandBytes(const plan::Buffer &buffer, uint64_t seed);

/// What C must be, row-major with the command's strides, given the operands' bytes; `c` holds what
/// C held before, and gets the result where the product writes. `d` may be `c`; scales may be null.
void referenceProduct(const plan::Matmul &command, const void *a, const void *b, void *c,
                      const void *d, const float *scaleA, const float *scaleB);

} // namespace nano::test
