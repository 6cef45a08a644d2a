// Products of f8 matrices with scales for blocks, for tests: every pair of scales that cuBLASLt
// multiplies, operands whose sums are exact, and what a wrong result says about how scales are
// read.
#pragma once

#include "runtime/Device.h"
#include "tests/runtime/cuda/Products.h"

#include <string>

namespace nano::test {

/// Scales of 1×128 and 128×128 on either side, f32 and bf16 results, an addend; an odd number of
/// blocks along k, so that rows of 128×128 scales have padding. Where A has scales of 1×128 it has
/// `rows` rows, a multiple of 8; B has twice as many.
std::vector<ProductCase> blockProductCases(int64_t rows);

/// Runs the one product of productPlan({each}) three times (one by one, recorded, replayed) with
/// NaN between the scales, and compares C with the sums in f64, bit by bit: no sum rounds before
/// the last. "" or one line: the first element that differs, and the reading of scales, of a few
/// wrong ones, that gives what was found.
std::string blockProductError(Device &device, const plan::Plan &plan);

} // namespace nano::test
