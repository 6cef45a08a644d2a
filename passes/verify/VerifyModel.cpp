// nano-verify-model: the module holds a whole model: programs with the right signatures, every
// symbol defined, every parameter used and trained.
//
// What one line of a model file cannot see: sizes that belong together, programs that are missing
// or take other tokens than the training says, a parameter that the loss does not depend on, and so
// would never be trained; a state that two places set. That each load, optimizer and schedule names
// something that exists is verified with the ops. It opens the pipeline; everything later assumes
// what it checks.
#include "ir/graph/Data.h"
#include "ir/graph/Program.h"
#include "ir/graph/RunStages.h"
#include "passes/Passes.h"
#include "passes/verify/OwnStates.h"

namespace nano {
#define GEN_PASS_DEF_VERIFYMODEL
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::graph;

namespace {

struct VerifyModel : public nano::impl::VerifyModelBase<VerifyModel> {
  void runOnOperation() override {
    module = getOperation();
    if (failed(checkModule()))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult checkModule();
  LogicalResult checkTraining();
  /// Documents by a rule that readers know, columns with names and types of their own.
  LogicalResult checkData();
  LogicalResult checkColumns(StringRef list);
  LogicalResult checkPrograms();
  LogicalResult checkEvent(ProgramOp function);
  LogicalResult checkProgram(ProgramOp function, StringRef role);
  LogicalResult checkParameters(ProgramOp train);
  /// An integer of the training; fails, with an error, when it is not there or below `least`.
  FailureOr<int64_t> size(StringRef name, int64_t least);

  ModuleOp module;
  DictionaryAttr training;
};

LogicalResult VerifyModel::checkModule() {
  if (!modelOf(module))
    return module.emitError("has no nano.model: it is no model");
  training = trainingOf(module);
  if (!training)
    return module.emitError("has no training: nothing says how the model is trained");
  if (failed(checkTraining()) || failed(checkPrograms()) || failed(nano::verifyOwnStates(module)))
    return failure();
  return checkParameters(programWithRole(module, "train"));
}

FailureOr<int64_t> VerifyModel::size(StringRef name, int64_t least) {
  auto value = training.getAs<IntegerAttr>(name);
  if (!value)
    return module.emitError("training") << " has no integer '" << name << "'";
  if (value.getInt() < least)
    return module.emitError("training")
           << ": " << name << " is " << value.getInt() << ", must be at least " << least;
  return value.getInt();
}

LogicalResult VerifyModel::checkTraining() {
  FailureOr<int64_t> sequence = size("seq_len", 1), batch = size("global_batch", 1);
  if (failed(sequence) || failed(batch) || failed(size("val_seq_len", 1)) ||
      failed(size("num_iterations", 1)) || failed(size("vocab_size", 1)) ||
      failed(size("eos_token", 0)))
    return failure();
  if (*batch % *sequence != 0)
    return module.emitError("training")
           << ": global_batch " << *batch << " is not a multiple of seq_len " << *sequence;
  const int64_t endOfText = *size("eos_token", 0), vocabulary = *size("vocab_size", 1);
  if (endOfText >= vocabulary)
    return module.emitError("training")
           << ": eos_token " << endOfText << " is none of vocab_size " << vocabulary << " tokens";
  if (failed(checkData()))
    return failure();
  for (StringRef name : {"train_loss_is_sum", "val_loss_is_sum"})
    if (!training.getAs<BoolAttr>(name))
      return module.emitError("training") << " has no boolean '" << name << "'";
  auto scalar = training.getAs<StringAttr>("log_scalar");
  if (!scalar || !module.lookupSymbol<ScalarOp>(scalar))
    return module.emitError("training") << ": log_scalar names no nano.scalar";
  return success();
}

LogicalResult VerifyModel::checkData() {
  auto rule = training.getAs<StringAttr>("documents");
  if (rule && !llvm::is_contained({"aligned", "cut", "packed"}, rule.getValue()))
    return module.emitError("training")
           << ": documents is '" << rule.getValue() << "', not aligned, cut or packed";
  const bool isApart = rule && rule != "aligned";
  if (auto shuffle = training.getAs<BoolAttr>("shuffle_documents");
      shuffle && shuffle.getValue() && !isApart)
    return module.emitError("training")
           << ": only the rules cut and packed take documents apart, so that shuffle_documents "
              "goes with them alone";
  return failure(failed(checkColumns("columns")) || failed(checkColumns("val_columns")));
}

LogicalResult VerifyModel::checkColumns(StringRef list) {
  auto entries = training.getAs<ArrayAttr>(list);
  const SmallVector<Column> columns = columnsOf(training, list == "val_columns");
  if (entries && entries.size() != columns.size())
    return module.emitError("training")
           << ": an entry of " << list << " lacks its name, its type or of_target";
  for (auto [i, column] : llvm::enumerate(columns)) {
    const bool isName = !column.name.empty() && llvm::all_of(column.name, [](char letter) {
      return llvm::isAlnum(letter) || letter == '_' || letter == '-';
    });
    if (!isName || column.name == "tokens" || column.name == "targets")
      return module.emitError("training") << ": '" << column.name << "' is no name of a column";
    if (column.name == documentColumn && column.type != "u8")
      return module.emitError("training")
             << ": column '" << column.name << "' is u8, not " << column.type;
    for (const Column &other : ArrayRef(columns).take_front(i))
      if (other.name == column.name &&
          (other.type != column.type || other.ofTarget == column.ofTarget))
        return module.emitError("training") << ": column '" << column.name << "' is read twice";
  }
  return success();
}

LogicalResult VerifyModel::checkPrograms() {
  llvm::StringMap<ProgramOp> byRole;
  for (auto function : module.getOps<ProgramOp>()) {
    auto role = function.getRoleAttr();
    if (!role || !llvm::is_contained({"train", "validate", "generate", "event"}, role.getValue()))
      return function.emitError("function @")
             << function.getSymName() << " has none of the roles train, validate, generate, event";
    if (role == "event") {
      if (failed(checkEvent(function)))
        return failure();
      continue;
    }
    auto [present, isNew] = byRole.try_emplace(role.getValue(), function);
    if (!isNew)
      return (function.emitError("function @")
              << function.getSymName() << " is the second with role " << role)
                 .attachNote(present->second.getLoc())
             << "the first is here";
    if (failed(checkProgram(function, role.getValue())))
      return failure();
  }
  // Validation that all stages of a run have is in the module of one of them.
  const bool isOfStage = modelOf(module).getRunStage().has_value();
  for (StringRef role : {"train", "validate"})
    if (!byRole.contains(role) && !(isOfStage && role == "validate"))
      return module.emitError("no function has the role '") << role << "'";
  return success();
}

LogicalResult VerifyModel::checkEvent(ProgramOp function) {
  if (function.isExternal() || !function.getBody().hasOneBlock() ||
      function.getNumArguments() > 0 || function.getNumResults() > 0)
    return function.emitError("event @")
           << function.getSymName() << " is not one block of ops without arguments and results";
  return success();
}

LogicalResult VerifyModel::checkProgram(ProgramOp function, StringRef role) {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError("function @") << function.getSymName() << " is not one block of ops";
  bool generates = role == "generate";
  StringRef sizeName = role == "train" ? "seq_len" : generates ? "gen_seq_len" : "val_seq_len";
  FailureOr<int64_t> tokens = size(sizeName, 1), vocabulary = size("vocab_size", 1);
  if (failed(tokens) || failed(vocabulary))
    return failure();
  MLIRContext *context = module.getContext();
  auto tokenType = RankedTensorType::get({*tokens}, IntegerType::get(context, 32));
  SmallVector<Type> expected(generates ? 1 : 2, tokenType);
  SmallVector<Column> columns;
  if (!generates)
    columns = columnsOf(module, /*validation=*/role == "validate");
  for (const Column &column : columns) {
    Type element = elementTypeOf(column, context);
    if (!element)
      return module.emitError("training") << ": column '" << column.name << "' has the type '"
                                          << column.type << "'; it must be f32, bf16, i32 or u8";
    expected.push_back(RankedTensorType::get({*tokens}, element));
  }
  if (TypeRange(function.getArgumentTypes()) != TypeRange(expected)) {
    InFlightDiagnostic error = function.emitError("function @")
                               << function.getSymName() << " must take "
                               << (generates ? "tokens" : "tokens and targets") << " of type "
                               << tokenType << " (" << sizeName << ")";
    for (const Column &column : columns)
      error << ", " << column.inputName();
    return error;
  }
  auto result = function.getNumResults() == 1
                    ? dyn_cast<RankedTensorType>(function.getResultTypes()[0])
                    : nullptr;
  if (!result || !result.getElementType().isF32() || (!generates && result.getRank() != 0))
    return function.emitError("function @")
           << function.getSymName() << " must return one "
           << (generates ? "f32 tensor of logits" : "loss, tensor<f32>");
  if (generates && (result.getRank() != 2 || result.getDimSize(0) != *tokens ||
                    result.getDimSize(1) < *vocabulary))
    return function.emitError("function @")
           << function.getSymName() << " must return logits for " << *tokens << " tokens ("
           << sizeName << ") over at least vocab_size " << *vocabulary << " columns, returns "
           << result;
  WalkResult walk = function.walk([&](Operation *op) {
    if (!isa<AccumulateOp>(op))
      return WalkResult::advance();
    op->emitOpError("in a forward program: only passes accumulate gradients");
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

LogicalResult VerifyModel::checkParameters(ProgramOp train) {
  // Everything that the loss depends on.
  llvm::DenseSet<Operation *> needed;
  for (Operation &op : llvm::reverse(train.getBody().front())) {
    bool isNeeded =
        op.hasTrait<OpTrait::IsTerminator>() || llvm::any_of(op.getUsers(), [&](Operation *user) {
          return needed.contains(train.getBody().findAncestorOpInRegion(*user));
        });
    if (isNeeded)
      needed.insert(&op);
  }
  llvm::DenseSet<Attribute> loaded, used, anywhere;
  module.walk([&](LoadOp load) { anywhere.insert(load.getSymbolAttr()); });
  train.walk([&](LoadOp load) {
    loaded.insert(load.getSymbolAttr());
    if (needed.contains(load))
      used.insert(load.getSymbolAttr());
  });
  for (auto state : module.getOps<StateOp>()) {
    if (state.getRole() != Role::Parameter)
      continue;
    auto symbol = FlatSymbolRefAttr::get(state.getSymNameAttr());
    if (!state.isTrained()) {
      if (!anywhere.contains(symbol))
        return state.emitError("frozen parameter '")
               << state.getSymName() << "' is not used by any program: remove it, or use it";
      continue;
    }
    if (!loaded.contains(symbol))
      return state.emitError("parameter '")
             << state.getSymName() << "' is not used by the training program: remove it, or use it";
    if (!used.contains(symbol))
      return state.emitError("parameter '")
             << state.getSymName()
             << "' does not influence the training loss, so it cannot be trained";
  }
  return success();
}

} // namespace
