// Batches and sets of Muon's matrices, first come first served.
#include "passes/optimizer/MuonBatches.h"

#include "llvm/ADT/STLExtras.h"

using namespace nano::graph;

namespace nano {
namespace {

/// What a set may hold, in batches of the largest size.
constexpr int64_t maxBatchesOfSet = 4;

int64_t elementsOf(const MuonBatch &batch) {
  int64_t elements = 0;
  for (const MuonParameter &member : batch)
    elements += member.elements();
  return elements;
}

int64_t elementsOf(const MuonBatches::Set &set) {
  int64_t elements = 0;
  for (const MuonBatch &batch : set)
    elements += elementsOf(batch);
  return elements;
}

} // namespace

bool MuonParameter::stepsWith(const MuonParameter &other) const {
  MuonOp a = muon, b = other.muon;
  return std::min(matrix()[0], matrix()[1]) == std::min(other.matrix()[0], other.matrix()[1]) &&
         a.getSteps() == b.getSteps() && a.getCoefficients() == b.getCoefficients() &&
         a.getComputeType() == b.getComputeType();
}

bool MuonParameter::fits(const MuonParameter &other) const {
  return matrix() == other.matrix() && stepsWith(other);
}

void MuonBatches::add(const MuonParameter &parameter) {
  for (MuonBatch &batch : llvm::reverse(batches)) {
    if (!parameter.fits(batch.front()))
      continue;
    if (parameter.elements() + elementsOf(batch) > maxElements)
      break;
    batch.push_back(parameter);
    return;
  }
  batches.push_back({parameter});
}

llvm::SmallVector<MuonBatches::Set> MuonBatches::sets() const {
  llvm::SmallVector<Set> sets;
  for (const MuonBatch &batch : batches) {
    auto *found = llvm::find_if(sets, [&](const Set &set) {
      return batch.front().stepsWith(set.front().front()) &&
             elementsOf(set) + elementsOf(batch) <= maxBatchesOfSet * maxElements;
    });
    if (found == sets.end())
      found = &sets.emplace_back();
    found->push_back(batch);
  }
  return sets;
}

} // namespace nano
