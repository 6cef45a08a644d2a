// What a model says of memory: regions that are computed again, and the size of a micro-batch.
#include "compiler/Recorder.h"

#include "ir/graph/Recomputed.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <fmt/format.h>

using namespace mlir;

namespace nano::frontend {

void beginRecompute(Line at) { Recorder::current().beginRecompute(at); }
void endRecompute() { Recorder::current().endRecompute(); }
void microBatch(const char *hyper, int64_t row, Line at) {
  Recorder::current().microBatch(hyper, row, at);
}

void Recorder::RecomputeMark::notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) {
  if (depth > 0 && isMemoryEffectFree(op) && isa<graph::ProgramOp>(op->getParentOp()))
    op->setAttr(graph::recomputeAttrName, Builder(op->getContext()).getI64IntegerAttr(region));
}

void Recorder::beginRecompute(Line at) {
  if (program == 0)
    fail(at, "recompute: outside of a program");
  recomputeMark.region += recomputeMark.depth == 0;
  recomputeMark.depth += recordsTraining;
  builder.setListener(&recomputeMark);
}

void Recorder::endRecompute() { recomputeMark.depth -= recordsTraining; }

void Recorder::microBatch(const char *name, int64_t row, Line at) {
  if (microBatchRecord)
    fail(at, "microBatch: said twice");
  if (row < 1)
    fail(at, fmt::format("microBatch: rows of {} tokens", row));
  microBatchRecord = {name, row, 0};
  microBatchAt = at;
}

std::optional<MicroBatchRecord> Recorder::finishMicroBatch() {
  if (!microBatchRecord)
    return std::nullopt;
  MicroBatchRecord &record = *microBatchRecord;
  const auto hyper = llvm::find_if(hyperparameters, [&](const HyperparameterRecord &known) {
    return known.name == record.hyper;
  });
  record.tokens = outside.train.tokens;
  if (hyper == hyperparameters.end())
    fail(microBatchAt, fmt::format("microBatch: there is no hyperparameter '{}'", record.hyper));
  if (!stages.empty())
    fail(microBatchAt, "microBatch: the stages of a run say their own sequence lengths");
  if (hyper->value != std::to_string(record.tokens))
    fail(microBatchAt, fmt::format("microBatch: {} is {}, the training sequence has {} tokens",
                                   record.hyper, hyper->value, record.tokens));
  if (record.tokens % record.row != 0)
    fail(microBatchAt,
         fmt::format("microBatch: {} tokens are no rows of {}", record.tokens, record.row));
  record.isGiven = hyper->overridden;
  return record;
}

} // namespace nano::frontend
