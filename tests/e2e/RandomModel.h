// Random whole models in the graph dialect, as text: what the front end could have made of a model
// file.
#pragma once

#include <cstdint>
#include <string>

namespace nano::test {

/// A module that the pipeline takes at its first stage. All of its values stay of the order of one,
/// no maximum has ties, and where a choice or a whole number depends on a rounded value, both sides
/// give the same, so that results can be compared with a tolerance and gradients with finite
/// differences.
struct RandomModel {
  std::string text;
  bool hasBf16 = false; ///< some value is rounded to bf16
  bool has8Bit = false; ///< products may have operands in 8 bits
  bool isRounded() const { return hasBf16 || has8Bit; }
  /// Without generation genSeqLen is 0.
  int64_t seqLen = 0, valSeqLen = 0, genSeqLen = 0, vocabulary = 0, sequences = 0;
  /// Of the run's second stage, which begins with step 1, in the middle of Adam's round of two
  /// steps; 0: the run has one stage, and Adam takes every step.
  int64_t laterSeqLen = 0;
};

/// How much of a model's run there is.
struct RandomExtent {
  int64_t mostBlocks = 9; ///< with fewer, the first ones stay as they are
  /// Without: the same ops, sizes and parameters, but one stage, one sequence a step (in a quarter
  /// of the models two), a validation that only counts tokens, and no generation.
  bool isWhole = true;
  /// With: most weights' products have 8-bit operands, each by its own recipe.
  bool is8Bit = false;
};

/// The model of the number `seed`: embedding, a few blocks of random ops over the sequence
/// (products, attention, norms, softmaxes, gates, column sums, recurrences, bands, rows taken,
/// moved and added up along any axis, the largest columns, slices, dimensions in other orders,
/// random numbers, whole numbers, element-wise chains), a head of any number of columns with
/// cross-entropy and sometimes a loss of its own beside it, and terms that use every value that
/// nothing else does.
RandomModel randomModel(uint64_t seed, const RandomExtent &extent = {});

} // namespace nano::test
