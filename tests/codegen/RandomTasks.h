// Random tasks of the kinds that row kernels compute, as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nano::test {

/// Which iteration space the task has; see passes/row/RowForm.h.
enum class TaskKind { Elements, Rows, RowReductions, ColumnReductions, MixedReductions };

/// A module with one program of buffers, views and a task. Values stay small, and no comparison
/// depends on a rounded value, so that results can be compared with a tolerance.
struct RandomTask {
  std::string text;
  bool hasBf16 = false;              ///< some value is rounded to bf16
  std::vector<int64_t> integerBound; ///< by input: values are drawn from [0, bound); 0 for floats
};

/// The task of the number `seed`; with `leading`, the same task with another leading size.
RandomTask randomTask(TaskKind kind, uint64_t seed, int64_t leading = 0);

} // namespace nano::test
