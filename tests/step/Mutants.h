// Mutants of small scheduled and planned step programs: each changed in one place, asked of every
// proof, and run in all orders.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace nano::test {

/// The proofs by name, in the order in which they are asked: the ops' verifiers,
/// nano-verify-kernels, nano-verify-liveness, nano-verify-races.
llvm::ArrayRef<const char *> proofNames();

struct MutantOptions {
  int64_t count = 0;   ///< mutants
  uint32_t seed = 0;   ///< of the first program
  std::string without; ///< a proof that is not asked; empty: none
};

/// What became of the mutants of one kind.
struct MutantCounts {
  int64_t mutants = 0;
  int64_t wrong = 0;                    ///< the oracle shows it
  int64_t survivors = 0;                ///< of these no proof reports one
  int64_t refused = 0;                  ///< a proof reports one that the oracle shows right
  std::map<std::string, int64_t> found; ///< of the wrong, by the first proof that reports it
};

struct MutantReport {
  std::map<std::string, MutantCounts> kinds;
  int64_t programs = 0, states = 0; ///< of programs and mutants that were run in all orders
  std::vector<std::string>
      survivors;                   ///< each in some words: seed, kind, what was done, what is wrong
  std::vector<std::string> broken; ///< programs that are wrong or refused without a change
};

/// Makes programs and mutants of them until there are `count`.
MutantReport runMutants(const MutantOptions &options);

/// The report as a table in Markdown.
std::string toMarkdown(const MutantReport &report);

} // namespace nano::test
