// How much memory a planned module needs, the least that it could need, and who holds it.
#pragma once

#include "passes/memory/Lifetimes.h"
#include "passes/memory/Packing.h"

#include <string>
#include <vector>

namespace nano::memory {

/// The lifetimes as the packing sees them: sizes rounded up to the alignment.
std::vector<Item> packingItems(const Lifetimes &lifetimes);

/// One program's transient buffers, with the gradients that live within a step.
struct ProgramMemory {
  std::string name;
  int64_t bytes = 0;  ///< of the arena that they take
  int64_t floor = 0;  ///< most bytes in use at one moment
  std::string moment; ///< the command of that moment, with its model line
  /// The buffers of one name that were made for one model line; gradients are of their parameters'
  /// lines.
  struct Holder {
    std::string name, line;
    int64_t bytes = 0; ///< of all together
    int64_t count = 0;
  };
  std::vector<Holder> holders; ///< those in use at that moment, largest first
};

/// All of the arena.
struct MemorySummary {
  int64_t arena = 0, floor = 0;
  int64_t host = 0; ///< in the host's memory, beside it
  int64_t parameters = 0, optimizer = 0, gradients = 0, constants = 0,
          inputs = 0; ///< that live from step to step; inputs with scalars
  std::vector<ProgramMemory> programs;
};

/// Of a module after nano-plan-memory.
MemorySummary summarizeMemory(mlir::ModuleOp module);

/// "arena 21.3 GB a rank, 2.1% above the floor of 20.9 GB": one line; with what lies in the host's
/// memory, "and 1.2 GB in the host's memory".
std::string memoryLine(const MemorySummary &summary);

/// "first holds 9.68 GB at step.matmul (models/m.cpp:78): 4.15 GB matmul × 19 (models/m.cpp:61),
/// …": the program that needs most, and the `holders` model lines that hold most in it; empty where
/// no program has transient buffers.
std::string peakLine(const MemorySummary &summary, size_t holders = 4);

/// The summary as a table for people: totals, then for each program its peak and its `rows` largest
/// holders.
std::string memoryReport(const MemorySummary &summary, size_t rows = 16);

} // namespace nano::memory
