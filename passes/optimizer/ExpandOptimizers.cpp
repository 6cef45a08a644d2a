// nano-expand-optimizers: writes the equations of all optimizers out as the graph program `update`,
// with their states.
//
// After it, `update` reads every gradient, scales it to the mean over the sequences of the global
// batch, clips where the model asks for it, and stores new parameters and optimizer states. The
// ops are those of the equations, which fusion sees like any others; matrices that go through the
// same products do so together, as one batch:
//
//   @a : [768, 768], @b : [3, 768, 768], … ⇒ concat : [4, 768, 768] ⇒ products ⇒ slices
//
// because a product of single matrices is too small for a GPU. Batches that share products of equal
// matrices are written side by side (UpdateBatches.h). Where a rank has only a share of a gradient
// (distribute/GradientShards.h), its optimizer states are that share's, and what it computes for
// its share all ranks gather:
//
//   @grad.blocks.bank0 : [rounds, 768, 768] ⇒ products ⇒ a gather for each round ⇒ slices, for all
//   @grad.head.part : [n/S] ⇒ the update of that part of the parameter ⇒ gather ⇒ the parameter
//
// With `join_update` of the training the updates do not become a program but the end of `last`,
// so that the schedule can hide what they communicate behind the backward pass, and what that
// communicates behind them.
//
// It runs after distribution, which decides on shares: the arithmetic is written once, for what
// there is to update, and no pass has to find it again in order to cut it up.
#include "ir/graph/CollectiveOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ModelError.h"
#include "ir/graph/Phases.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/Sharding.h"
#include "passes/Passes.h"
#include "passes/optimizer/ParameterUpdate.h"
#include "passes/optimizer/ShareUnits.h"
#include "passes/optimizer/UpdateBatches.h"
#include "passes/optimizer/UpdateProgram.h"
#include "passes/optimizer/UpdateReport.h"
#include "passes/optimizer/UpdateStates.h"

#include <deque>

namespace nano {
#define GEN_PASS_DEF_EXPANDOPTIMIZERS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// Writes the updates of one module's parameters.
class OptimizerExpander {
public:
  OptimizerExpander(ModuleOp module, int64_t maxBatchElements, bool reports)
      : reports(reports), module(module), symbols(module), phases(phaseCount(module)),
        maxBatchElements(maxBatchElements) {
    for (auto state : module.getOps<StateOp>()) {
      if (state.isTrained())
        parameters.push_back(state);
      if (std::optional<Sharding> sharding = shardingOf(state);
          sharding && state.getRole() == Role::Gradient) {
        for (const Sharding::Piece &piece : sharding->pieces)
          shareOf[piece.name] = static_cast<int>(shares.size());
        shares.push_back({state, std::move(*sharding), {}});
      }
    }
  }

  LogicalResult run() {
    if (parameters.empty())
      return emitModelError(module) << "the model has no parameters: declare them with param(...)";
    FailureOr<double> limit = gradientClip();
    if (failed(limit) || failed(check()))
      return failure();
    UpdateStates declarations(module, parameters.back());
    states = &declarations;
    if (failed(declarations.declareGradScale()))
      return failure();
    for (StateOp parameter : parameters) {
      const UpdatedParameter member{parameter, &formOf(parameter)};
      if (UpdateShare *share = shareFor(parameter))
        share->members.push_back(member);
    }
    for (UpdateShare &share : shares)
      if (share.members.empty())
        return share.gradient.emitOpError("is the share of no parameter's gradient");
    for (auto &[update, phase] : programs())
      if (failed(write(update, phase, *limit)))
        return failure();
    if (reports)
      for (StateOp parameter : parameters)
        reportUpdate(parameter, formOf(parameter),
                     shareFor(parameter) ? &shareFor(parameter)->sharding : nullptr,
                     stackOf.lookup(parameter.getSymName()));
    for (auto op : module.getOps<OptimizerOp>())
      op.getBody().getBlocks().clear(); // written out
    return joinUpdates(module);
  }

private:
  /// A program for each choice of optimizers that take a step in the same phases, with one of its
  /// phases.
  SmallVector<std::pair<ProgramOp, int64_t>> programs() {
    ProgramOp update = updateProgram(module);
    SmallVector<SmallVector<int64_t>> variants; // phases
    for (int64_t phase = 0; phase < phases; ++phase) {
      auto *found = llvm::find_if(variants, [&](ArrayRef<int64_t> known) {
        return llvm::all_of(forms, [&](auto &form) {
          return stepsIn(OptimizerOp(form.first), known.front()) ==
                 stepsIn(OptimizerOp(form.first), phase);
        });
      });
      if (found == variants.end())
        variants.push_back({phase});
      else
        found->push_back(phase);
    }
    SmallVector<std::pair<ProgramOp, int64_t>> made;
    OpBuilder builder(update);
    for (ArrayRef<int64_t> of : variants) {
      ProgramOp program = update;
      if (variants.size() > 1) {
        // The last variant is the program itself, the others stand before it.
        if (of.data() != variants.back().data())
          program = cast<ProgramOp>(builder.clone(*update));
        program.setSymName("update_" + std::to_string(of.front()));
        program.setPhases(of);
      }
      made.push_back({program, of.front()});
    }
    return made;
  }

  /// Writes the updates of the optimizers that take a step in that phase into one program.
  LogicalResult write(ProgramOp update, int64_t phase, double limit) {
    OpBuilder builder(update.front().getTerminator());
    GraphBuilder g(builder, module.getLoc());
    auto steps = [&](StateOp parameter) { return stepsIn(formOf(parameter).op(), phase); };
    scale = loadScalar(g, gradScaleSymbol);
    scales.clear();
    if (limit > 0)
      clip(builder, limit, steps);
    // Parts of large parameters first: their gathers are the longest.
    for (StateOp parameter : parameters)
      if (UpdateShare *share = shareFor(parameter);
          share && steps(parameter) && !formOf(parameter).hasProducts())
        if (failed(updatePart(builder, *share)))
          return failure();
    UpdateBatches batches(maxBatchElements);
    for (StateOp parameter : parameters) {
      if (shareFor(parameter) || !steps(parameter))
        continue;
      if (formOf(parameter).hasProducts())
        batches.add({parameter, &formOf(parameter)});
      else if (failed(updateAlone(builder, parameter)))
        return failure();
    }
    if (failed(updateBanks(builder, steps)))
      return failure();
    for (const UpdateBatches::Set &set : batches.sets())
      if (failed(updateSet(builder, set)))
        return failure();
    return success();
  }

  //===- What there is to update -----------------------------------------===//

  UpdateShare *shareFor(StateOp parameter) {
    auto found = shareOf.find(gradientSymbol(parameter.getSymName()));
    return found == shareOf.end() ? nullptr : &shares[found->second];
  }

  const UpdateForm &formOf(StateOp parameter) {
    auto op = symbols.lookup<OptimizerOp>(*parameter.getOptimizer());
    auto known = llvm::find_if(forms, [&](auto &form) { return form.first == op; });
    if (known != forms.end())
      return known->second;
    return forms.emplace_back(op, UpdateForm(op)).second;
  }
  const UpdateForm &formOf(StringRef parameter) {
    return formOf(symbols.lookup<StateOp>(parameter));
  }

  /// The largest norm of all gradients together; 0: no limit.
  FailureOr<double> gradientClip() {
    const DictionaryAttr training = trainingOf(module);
    auto limit = training ? training.getAs<FloatAttr>("grad_clip") : FloatAttr();
    double value = limit ? limit.getValueAsDouble() : 0;
    if (!(value >= 0))
      return module.emitError("grad_clip must not be negative, is ") << value;
    return value;
  }

  /// Every parameter has what its update reads.
  LogicalResult check() {
    for (StateOp parameter : parameters) {
      if (!shareFor(parameter) && !symbols.lookup<StateOp>(gradientSymbol(parameter.getSymName())))
        return parameter.emitOpError("has no gradient: nano-differentiate comes first");
      auto op = symbols.lookup<OptimizerOp>(*parameter.getOptimizer());
      if (!op.hasEquations())
        return parameter.emitOpError("its optimizer ")
               << parameter.getOptimizerAttr() << " has no equations";
    }
    for (auto op : module.getOps<OptimizerOp>())
      if (op.hasEquations())
        simplifyEquations(op);
    for (StateOp parameter : parameters)
      formOf(parameter);
    return success();
  }

  //===- Gradients and states ----------------------------------------------===//

  Value loadScalar(GraphBuilder &g, StringRef symbol) {
    return g.load(symbol, RankedTensorType::get({}, Float32Type::get(module.getContext())));
  }

  Value load(GraphBuilder &g, StateOp state) {
    return g.load(state.getSymName(), state.getTensorType());
  }

  /// The parameter's summed gradient.
  StateOp wholeGradient(StateOp parameter) {
    return symbols.lookup<StateOp>(gradientSymbol(parameter.getSymName()));
  }

  /// The mean gradient of the steps between two of the optimizer.
  Value meanGradient(GraphBuilder &g, OpBuilder &builder, StateOp gradient, OptimizerOp op) {
    const auto every = static_cast<int64_t>(op.getEvery());
    Value factor = scale;
    if (every > 1) {
      Value &known = scales[every];
      if (!known)
        known = GraphBuilder(builder, module.getLoc()).mul(scale, 1.0 / double(every));
      factor = known;
    }
    return g.mul(g.toF32(load(g, gradient)), factor);
  }

  /// scale ← scale · min(1, limit / ‖scale·gradients‖₂), the norm over all gradients that the
  /// program uses together.
  void clip(OpBuilder &builder, double limit, function_ref<bool(StateOp)> steps) {
    SmallVector<std::pair<Location, Value>> squaresOf;
    auto add = [&](Location location, StateOp gradient, OptimizerOp op) {
      const auto every = static_cast<double>(op.getEvery());
      GraphBuilder g(builder, location);
      Value grad = g.toF32(load(g, gradient));
      Value squares = g.sumAll(g.mul(grad, grad));
      if (every > 1)
        squares = g.mul(squares, 1.0 / (every * every));
      squaresOf.emplace_back(location, squares);
    };
    // Behind all squares, so that few kernels add them all.
    Value sum;
    auto addUp = [&] {
      for (auto [location, squares] : squaresOf)
        sum = sum ? GraphBuilder(builder, location).add(sum, squares) : squares;
      squaresOf.clear();
    };
    // What each rank has a part of, then what all have, so that all ranks add the same numbers.
    for (UpdateShare &share : shares)
      if (steps(share.members.front().state))
        add(share.gradient.getLoc(), share.gradient, share.members.front().form->op());
    addUp();
    if (sum)
      sum = AllReduceOp::create(builder, module.getLoc(), sum.getType(), sum, Combiner::sum,
                                shares.front().sharding.ranks);
    for (StateOp parameter : parameters)
      if (!shareFor(parameter) && steps(parameter))
        add(parameter.getLoc(), wholeGradient(parameter), formOf(parameter).op());
    addUp();
    if (!sum)
      return;
    GraphBuilder g(builder, module.getLoc());
    Value norm = g.mul(g.sqrt(sum), scale), bound = g.scalar(limit), one = g.scalar(1);
    scale = g.mul(scale, g.select(Predicate::gt, norm, bound, g.div(bound, norm), one));
  }

  //===- Parameters as they are --------------------------------------------===//

  /// The update of a whole parameter.
  FailureOr<ParameterUpdate> updateOf(OpBuilder &builder, StateOp parameter) {
    const UpdateForm &form = formOf(parameter);
    SmallVector<std::string> names;
    for (size_t i = 0; i < form.op().getStates().size(); ++i) {
      FailureOr<std::string> name = states->declare(parameter, form, static_cast<unsigned>(i));
      if (failed(name))
        return failure();
      names.push_back(*name);
    }
    ParameterUpdate update(builder, parameter.getLoc(), form, 0, names);
    update.emitter.set(form.body().getArgument(0), [this, &builder, parameter]() mutable {
      GraphBuilder g(builder, parameter.getLoc());
      return load(g, parameter);
    });
    update.emitter.set(form.body().getArgument(1), [this, &builder, parameter, &form]() mutable {
      GraphBuilder g(builder, parameter.getLoc());
      return meanGradient(g, builder, wholeGradient(parameter), form.op());
    });
    return update;
  }

  /// Stores what is not stored yet of a whole parameter's update.
  void finish(OpBuilder &builder, StateOp parameter, ParameterUpdate &update) {
    Value next = update.next();
    update.storeStates([](Value) { return true; });
    GraphBuilder(builder, parameter.getLoc()).store(next, parameter.getSymName());
  }

  LogicalResult updateAlone(OpBuilder &builder, StateOp parameter) {
    FailureOr<ParameterUpdate> update = updateOf(builder, parameter);
    if (failed(update))
      return failure();
    finish(builder, parameter, *update);
    return success();
  }

  /// The whole parameter from `gathered`, a value of its equations.
  void updateFrom(OpBuilder &builder, StateOp parameter, Value value, Value gathered) {
    const UpdateForm &form = formOf(parameter);
    GraphBuilder g(builder, parameter.getLoc());
    UpdateEmitter emitter(builder, parameter.getLoc(), form);
    emitter.set(form.body().getArgument(0),
                [&, parameter]() mutable { return load(g, parameter); });
    emitter.set(value, g.reshape(gathered, tensorType(value).getShape()));
    g.store(emitter.get(form.results().front()), parameter.getSymName());
  }

  //===- Batches of matrices -----------------------------------------------===//

  /// What the core of a batch reads, as stacks of all its units.
  UpdateEmitter stacked(OpBuilder &builder, const UpdateBatch &batch,
                        ArrayRef<ParameterUpdate *> updates) {
    const UpdateForm &form = *batch.front().form;
    SmallVector<Location> locations;
    int64_t units = 0;
    for (const UpdatedParameter &parameter : batch) {
      locations.push_back(StateOp(parameter.state).getLoc());
      units += parameter.form->units();
    }
    const Location location = FusedLoc::get(builder.getContext(), locations);
    UpdateEmitter stack(builder, location, form, units);
    for (auto [i, input] : llvm::enumerate(form.coreInputs())) {
      SmallVector<Value> parts;
      for (auto [parameter, update] : llvm::zip_equal(batch, updates)) {
        const Value own = parameter.form->coreInputs()[i];
        const Value value = update->emitter.get(own);
        parts.push_back(
            GraphBuilder(builder, value.getLoc())
                .reshape(value, parameter.form->typeOf(own, parameter.form->units()).getShape()));
      }
      stack.set(input, ConcatOp::create(builder, location, stack.typeOf(input), parts,
                                        builder.getI64IntegerAttr(0)));
    }
    return stack;
  }

  /// Gives each parameter of a batch its part of what the core has computed.
  void unstack(OpBuilder &builder, const UpdateBatch &batch, UpdateEmitter &stack,
               ArrayRef<ParameterUpdate *> updates) {
    int64_t offset = 0;
    for (auto [parameter, update] : llvm::zip_equal(batch, updates)) {
      const UpdateForm &form = *parameter.form;
      const Location location = StateOp(parameter.state).getLoc();
      for (auto [output, own] :
           llvm::zip_equal(batch.front().form->coreOutputs(), form.coreOutputs())) {
        Value slice =
            SliceOp::create(builder, location, form.typeOf(own, form.units()), stack.get(output),
                            builder.getI64IntegerAttr(0), builder.getI64IntegerAttr(offset));
        update->emitter.set(
            own, GraphBuilder(builder, location).reshape(slice, tensorType(own).getShape()));
      }
      offset += form.units();
    }
  }

  /// Updates the parameters of batches that go through their products together.
  LogicalResult updateSet(OpBuilder &builder, const UpdateBatches::Set &set) {
    std::deque<ParameterUpdate> all;
    std::deque<UpdateEmitter> stacks;
    SmallVector<SmallVector<ParameterUpdate *>> updates; // by batch
    SmallVector<UpdateEmitter *> cores;
    SmallVector<Location> locations;
    for (const UpdateBatch &batch : set) {
      auto &own = updates.emplace_back();
      for (const UpdatedParameter &parameter : batch) {
        FailureOr<ParameterUpdate> update = updateOf(builder, parameter.state);
        if (failed(update))
          return failure();
        own.push_back(&all.emplace_back(*update));
        own.back()->storeEarlyStates();
        for (Value input : parameter.form->coreInputs())
          own.back()->emitter.get(input);
        locations.push_back(StateOp(parameter.state).getLoc());
      }
      cores.push_back(batch.size() == 1 ? &own.front()->emitter
                                        : &stacks.emplace_back(stacked(builder, batch, own)));
    }
    for (const UpdateBatch &batch : set)
      for (const UpdatedParameter &parameter : batch)
        stackOf[StateOp(parameter.state).getSymName()] = static_cast<int64_t>(batch.size());
    writeCores(builder, FusedLoc::get(builder.getContext(), locations), cores);
    for (auto [batch, core, own] : llvm::zip_equal(set, cores, updates)) {
      if (batch.size() > 1)
        unstack(builder, batch, *core, own);
      for (auto [parameter, update] : llvm::zip_equal(batch, own))
        finish(builder, parameter.state, *update);
    }
    return success();
  }

  //===- Shares ------------------------------------------------------------===//

  /// The update of the units that this rank has.
  FailureOr<ParameterUpdate> updateOf(OpBuilder &builder, UpdateShare &share, int64_t units) {
    const UpdateForm &form = *share.members.front().form;
    SmallVector<std::string> names;
    for (size_t i = 0; i < form.op().getStates().size(); ++i) {
      FailureOr<std::string> name = states->declare(
          share.gradient, share.sharding, form, static_cast<unsigned>(i), units,
          [&](StringRef parameter) -> const UpdateForm & { return formOf(parameter); });
      if (failed(name))
        return failure();
      names.push_back(*name);
    }
    const Location location = share.gradient.getLoc();
    ParameterUpdate update(builder, location, form, units, names);
    Block &body = form.body();
    update.emitter.set(body.getArgument(1), [=, this, &builder, &share, &form]() {
      GraphBuilder g(builder, location);
      return g.reshape(meanGradient(g, builder, share.gradient, form.op()),
                       form.typeOf(form.body().getArgument(1), units).getShape());
    });
    update.emitter.set(body.getArgument(0), [=, this, &builder, &share, &form]() {
      return unitsOf(builder, share, units, form.body().getArgument(0),
                     [&](const UpdatedParameter &member) {
                       GraphBuilder g(builder, StateOp(member.state).getLoc());
                       return load(g, member.state);
                     });
    });
    for (Operation *source : form.placeSources())
      update.emitter.set(source->getResult(0), [=, &builder, &share]() {
        return placedUnits(builder, share, units, source);
      });
    return update;
  }

  /// Updates this rank's part of a parameter; all ranks gather what they need of each other.
  LogicalResult updatePart(OpBuilder &builder, UpdateShare &share) {
    const UpdatedParameter member = share.members.front();
    const UpdateForm &form = *member.form;
    FailureOr<ParameterUpdate> update =
        updateOf(builder, share, form.units() / share.sharding.parts);
    if (failed(update))
      return failure();
    const Value value = form.gathered(/*apart=*/false);
    Value mine = update->emitter.get(value);
    update->storeStates([](Value) { return true; });
    Value all = AllGatherOp::create(builder, StateOp(member.state).getLoc(),
                                    form.typeOf(value, form.units()), mine, share.sharding.parts,
                                    share.sharding.ranks);
    updateFrom(builder, member.state, value, all);
    return success();
  }

  /// Writes the products and what follows for this rank's units of a bank, in batches of at most
  /// `maxBatchElements` numbers; each round of what is gathered travels as soon as its batch is
  /// done. Returns `value` of all units of the bank in their order.
  Value gatherRounds(OpBuilder &builder, const UpdateShare &share, ParameterUpdate &update,
                     int64_t rounds, Value value) {
    const Location location = share.gradient->getLoc();
    const UpdateForm &form = *share.members.front().form;
    const SmallVector<Operation *> apart = form.computedApart(value);
    const int64_t most = std::max<int64_t>(1, maxBatchElements / form.unitElements());
    SmallVector<Value> gathered;
    SmallVector<SmallVector<Value>> late(form.results().size() - 1); // new states, by batch
    for (int64_t begin = 0; begin < rounds; begin += most) {
      const int64_t count = std::min(most, rounds - begin);
      UpdateEmitter some(builder, location, form, count);
      UpdateEmitter &emitter = count == rounds ? update.emitter : some;
      if (count != rounds)
        for (Operation *op : apart)
          for (Value operand : op->getOperands())
            if (form.isAfterProducts(op->getResult(0)) && form.isVarying(operand) &&
                !form.isAfterProducts(operand))
              some.set(operand, partOf(builder, update.emitter.get(operand), begin, count));
      writeCores(builder, location, {&emitter});
      Value batch = emitter.get(value);
      for (int64_t round = 0; round < count; ++round)
        gathered.push_back(AllGatherOp::create(
            builder, location, form.typeOf(value, share.sharding.parts),
            partOf(builder, batch, round, 1), share.sharding.parts, share.sharding.ranks));
      for (auto [values, next] : llvm::zip_equal(late, form.results().drop_front()))
        if (form.isAfterProducts(next))
          values.push_back(emitter.get(next));
    }
    for (auto [values, next] : llvm::zip_equal(late, form.results().drop_front()))
      if (!values.empty())
        update.emitter.set(next, joined(builder, location, values));
    update.storeStates([](Value) { return true; });
    return joined(builder, location, gathered);
  }

  /// The banks of matrices. What all ranks do with the results of one bank comes after the next
  /// one's products, so that the results travel meanwhile.
  LogicalResult updateBanks(OpBuilder &builder, function_ref<bool(StateOp)> steps) {
    auto apply = [&](const UpdateShare &share, Value all) {
      for (const UpdatedParameter &member : share.members)
        updateFrom(builder, member.state, member.form->gathered(/*apart=*/true),
                   partOf(builder, all, share.placeOf(member), member.form->units()));
    };
    const UpdateShare *waiting = nullptr;
    Value waitingFor;
    for (UpdateShare &share : shares) {
      if (!share.isBank() || !steps(share.members.front().state))
        continue;
      const UpdateForm &form = *share.members.front().form;
      const int64_t rounds = share.gradient.getTensorType().getNumElements() / form.unitElements();
      FailureOr<ParameterUpdate> update = updateOf(builder, share, rounds);
      if (failed(update))
        return failure();
      update->storeEarlyStates();
      for (Value input : form.coreInputs())
        update->emitter.get(input);
      Value all = gatherRounds(builder, share, *update, rounds, form.gathered(/*apart=*/true));
      if (waiting)
        apply(*waiting, waitingFor);
      waiting = &share;
      waitingFor = all;
    }
    if (waiting)
      apply(*waiting, waitingFor);
    return success();
  }

  bool reports;
  llvm::StringMap<int64_t> stackOf; ///< how many parameters' matrices are multiplied together
  ModuleOp module;
  SymbolTable symbols;
  SmallVector<StateOp> parameters;
  int64_t phases;
  int64_t maxBatchElements;
  UpdateStates *states = nullptr;
  std::deque<std::pair<OptimizerOp, UpdateForm>> forms;
  SmallVector<UpdateShare> shares;
  llvm::StringMap<int> shareOf; ///< by the name of a gradient
  Value scale;                  ///< what a gradient summed over one step is multiplied by, rank 0
  llvm::DenseMap<int64_t, Value> scales; ///< the same for optimizers of every so many steps
};

struct ExpandOptimizers : public nano::impl::ExpandOptimizersBase<ExpandOptimizers> {
  using ExpandOptimizersBase::ExpandOptimizersBase;

  void runOnOperation() override {
    if (failed(OptimizerExpander(getOperation(), maxBatchElements, report).run()))
      signalPassFailure();
  }
};

} // namespace
