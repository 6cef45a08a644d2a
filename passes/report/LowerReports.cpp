// nano-lower-reports: reduces what is reported to a few numbers, in states that the run reads.
//
//                                          nano.state @reports : tensor<2xf32> {…}
//                                          nano.reported "acts" norm in @reports at 0
//                                          nano.reported "logits" max in @reports at 1
//   nano.report "acts" norm %x        =>   %s = nano.mul %x, %x
//                                          %n = nano.reduce sum %s dims [0, 1]
//   nano.report "logits" max %y            %a = nano.abs %y
//                                          %m = nano.reduce max %a dims [0, 1]
//                                          %v = nano.concat %n, %m
//                                          nano.store %v, @reports
//
// The numbers are such that those of several micro-batches combine: squares, not their root. It
// runs on the programs as the model file says them, before anything is aligned, recomputed or
// scaled, and once more on the updates. As plain ops the reductions become part of the kernels that
// make the tensors.
#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/CollectiveOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ModelError.h"
#include "ir/graph/Phases.h"
#include "ir/graph/Program.h"
#include "ir/graph/Reports.h"
#include "ir/graph/ShapeOps.h"
#include "passes/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace nano {
#define GEN_PASS_DEF_LOWERREPORTS
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano;
using namespace nano::graph;

namespace {

/// The value of `combiner` over all elements, rank 0.
Value reduceAll(GraphBuilder &g, Combiner combiner, Value x) {
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, tensorType(x).getRank()));
  return dims.empty() ? x : g.reduce(combiner, x, dims);
}

/// The numbers of one name's reports in one program, while they come together. Each is a sum or a
/// maximum over elements, of all parts and ranks.
class Numbers {
public:
  Numbers(ReportKind kind, ModuleOp module) : kind(kind), module(module) {}

  /// Adds what `report` is of, at its place.
  void add(ReportOp report);
  /// Appends the numbers, each a tensor of one, to `list`.
  void append(OpBuilder &builder, Location location, SmallVectorImpl<Value> &list) const;

private:
  struct Part {
    Combiner combiner;
    Value value;
  };
  SmallVector<Part> partsOf(GraphBuilder &g, Value x) const;
  int64_t membersOf(RankSet ranks) const;

  ReportKind kind;
  ModuleOp module;
  SmallVector<SmallVector<Part>> reports; ///< the parts of each
  int64_t elements = 0;                   ///< of all ranks
};

int64_t Numbers::membersOf(RankSet ranks) const {
  const int64_t world = worldOf(module).value_or(1), group = groupOf(module);
  return ranks == RankSet::all ? world : ranks == RankSet::group ? group : world / group;
}

SmallVector<Numbers::Part> Numbers::partsOf(GraphBuilder &g, Value x) const {
  auto sum = [&](Value y) { return Part{Combiner::sum, reduceAll(g, Combiner::sum, y)}; };
  auto most = [&](Value y) { return Part{Combiner::max, reduceAll(g, Combiner::max, y)}; };
  switch (kind) {
  case ReportKind::mean:
    return {sum(x)};
  case ReportKind::norm:
    return {sum(g.mul(x, x))};
  case ReportKind::max:
    return {most(g.abs(x))};
  case ReportKind::histogram:
    break;
  }
  SmallVector<Part> parts;
  const Value one = g.constant(1, x.getType()), zero = g.constant(0, x.getType());
  for (double edge : histogramEdges())
    parts.push_back(sum(g.select(Predicate::lt, x, g.constant(edge, x.getType()), one, zero)));
  parts.append({most(g.neg(x)), most(x), sum(x), sum(g.mul(x, x))});
  return parts;
}

void Numbers::add(ReportOp report) {
  OpBuilder builder(report);
  GraphBuilder g(builder, report.getLoc());
  const int64_t members = report.getOver() ? membersOf(*report.getOver()) : 1;
  SmallVector<Part> own = partsOf(g, g.toF32(report.getX()));
  if (members > 1)
    for (Part &part : own)
      part.value = AllReduceOp::create(builder, report.getLoc(), part.value.getType(), part.value,
                                       part.combiner, *report.getOver());
  elements += members * tensorType(report.getX()).getNumElements();
  reports.push_back(std::move(own));
}

void Numbers::append(OpBuilder &builder, Location location, SmallVectorImpl<Value> &list) const {
  GraphBuilder g(builder, location);
  auto add = [&](Value number) { list.push_back(g.reshape(number, {1})); };
  const auto count = static_cast<double>(elements);
  // Behind all of them, so that few kernels bring them together.
  SmallVector<Part> parts = reports.front();
  for (ArrayRef<Part> more : ArrayRef(reports).drop_front())
    for (auto [all, part] : llvm::zip_equal(parts, more))
      all.value = all.combiner == Combiner::sum
                      ? g.add(all.value, part.value)
                      : Value(MaxOp::create(builder, location, part.value.getType(), all.value,
                                            part.value));
  if (kind == ReportKind::mean)
    return add(g.mul(parts.front().value, 1 / count));
  if (kind != ReportKind::histogram)
    return add(parts.front().value);
  // From what lies below each edge to what lies between two.
  const size_t edges = parts.size() - histogramMoments;
  for (size_t i = 0; i <= edges; ++i) {
    const Value below = i == edges ? g.scalar(count) : parts[i].value;
    add(i == 0 ? below : g.sub(below, parts[i - 1].value));
  }
  add(g.neg(parts[edges].value));
  for (const Part &part : ArrayRef(parts).drop_front(edges + 1))
    add(part.value);
}

using ReportsByName = llvm::MapVector<StringAttr, SmallVector<ReportOp>>;

struct LowerReports : public nano::impl::LowerReportsBase<LowerReports> {
  using LowerReportsBase::LowerReportsBase;

  void runOnOperation() override {
    if (failed(lower()))
      signalPassFailure();
  }

private:
  LogicalResult lower();
  /// Fails where a name has been reported otherwise before.
  LogicalResult checkKind(ReportOp report, ReportOp first);
  /// Declares what the programs report, in one state; null when that is nothing.
  FailureOr<StateOp> declare(ArrayRef<std::pair<ProgramOp, ReportsByName>> programs);
  /// The phases of steps in which programs report the name; null: all.
  static DenseI64ArrayAttr phasesOf(ArrayRef<std::pair<ProgramOp, ReportsByName>> programs,
                                    StringAttr name);
  void write(ProgramOp function, const ReportsByName &reports, StateOp state);
};

LogicalResult LowerReports::checkKind(ReportOp report, ReportOp first) {
  auto fail = [&](ReportKind kind, bool isOfStep) {
    return emitModelError(report) << "report '" << report.getName()
                                  << "': the name has another report, " << stringifyReportKind(kind)
                                  << (isOfStep ? " of the updates" : " of the micro-batches");
  };
  for (auto present : getOperation().getOps<ReportedOp>())
    if (present.getNameAttr() == report.getNameAttr())
      return fail(present.getKind(), present.getEachStep());
  return report.getKind() == first.getKind() ? success() : fail(first.getKind(), eachStep);
}

DenseI64ArrayAttr LowerReports::phasesOf(ArrayRef<std::pair<ProgramOp, ReportsByName>> programs,
                                         StringAttr name) {
  SmallVector<int64_t> all;
  for (const auto &[function, reports] : programs)
    if (reports.contains(name)) {
      ProgramOp program = function;
      const DenseI64ArrayAttr phases = program.getPhasesAttr();
      if (!phases)
        return {};
      all.append(phases.asArrayRef().begin(), phases.asArrayRef().end());
    }
  llvm::sort(all);
  all.erase(llvm::unique(all), all.end());
  return DenseI64ArrayAttr::get(name.getContext(), all);
}

FailureOr<StateOp> LowerReports::declare(ArrayRef<std::pair<ProgramOp, ReportsByName>> programs) {
  ModuleOp module = getOperation();
  llvm::MapVector<StringAttr, ReportOp> names;
  for (const auto &[unused, reports] : programs)
    for (const auto &[name, list] : reports) {
      const ReportOp first = names.try_emplace(name, list.front()).first->second;
      for (ReportOp report : list)
        if (failed(checkKind(report, first)))
          return failure();
    }
  if (names.empty())
    return StateOp();
  const StringRef symbol = eachStep ? stepReportsSymbol : reportsSymbol;
  if (Operation *holder = SymbolTable::lookupSymbolIn(module, symbol)) {
    InFlightDiagnostic error = emitModelError(names.front().second)
                               << "the name @" << symbol << " is taken: reports need it";
    error.attachNote(holder->getLoc()) << "taken here";
    return failure();
  }
  ProgramOp front = programs.front().first;
  OpBuilder builder(front);
  const SmallVector<double> edges = histogramEdges();
  SmallVector<Location> locations;
  int64_t numbers = 0;
  for (auto &[name, report] : names) {
    const bool counts = report.getKind() == ReportKind::histogram;
    const ArrayRef<double> own = counts ? ArrayRef<double>(edges) : ArrayRef<double>();
    ReportedOp::create(builder, report.getLoc(), name, report.getKindAttr(),
                       FlatSymbolRefAttr::get(module.getContext(), symbol),
                       builder.getI64IntegerAttr(numbers), builder.getDenseF64ArrayAttr(own),
                       eachStep ? builder.getUnitAttr() : UnitAttr(),
                       eachStep ? phasesOf(programs, name) : DenseI64ArrayAttr());
    numbers += reportNumbers(report.getKind(), static_cast<int64_t>(own.size()));
    locations.push_back(report.getLoc());
  }
  auto zero = InitAttr::get(module.getContext(), "constant", builder.getDenseF64ArrayAttr({0.0}));
  return StateOp::create(builder, FusedLoc::get(module.getContext(), locations), symbol,
                         RankedTensorType::get({numbers}, builder.getF32Type()), Role::Report, zero,
                         FlatSymbolRefAttr());
}

void LowerReports::write(ProgramOp function, const ReportsByName &reports, StateOp state) {
  OpBuilder builder(function.front().getTerminator());
  SmallVector<Value> list;
  for (auto reported : getOperation().getOps<ReportedOp>()) {
    if (reported.getSymbol() != state.getSymName())
      continue;
    const auto found = reports.find(reported.getNameAttr());
    if (found == reports.end()) { // of other phases
      const auto count = static_cast<int64_t>(reported.getEdges().size());
      const auto type =
          RankedTensorType::get({reportNumbers(reported.getKind(), count)}, builder.getF32Type());
      list.push_back(GraphBuilder(builder, reported.getLoc()).constant(0, type));
      continue;
    }
    Numbers numbers(reported.getKind(), getOperation());
    for (ReportOp report : found->second)
      numbers.add(report);
    numbers.append(builder, reported.getLoc(), list);
  }
  Value all = list.front();
  if (list.size() > 1)
    all = ConcatOp::create(builder, state.getLoc(), state.getTensorType(), list,
                           builder.getI64IntegerAttr(0));
  GraphBuilder(builder, state.getLoc()).store(all, state.getSymName());
}

LogicalResult LowerReports::lower() {
  SmallVector<ReportOp> all;
  SmallVector<std::pair<ProgramOp, ReportsByName>> programs;
  for (auto function : getOperation().getOps<ProgramOp>()) {
    auto role = function.getRoleAttr();
    const bool isOfStep =
        role && llvm::is_contained({"train", "first", "next", "last", "update"}, role.getValue());
    ReportsByName reports;
    function.walk([&](ReportOp op) {
      all.push_back(op);
      if (isOfStep)
        reports[op.getNameAttr()].push_back(op);
    });
    if (!reports.empty())
      programs.push_back({function, std::move(reports)});
  }
  FailureOr<StateOp> state = declare(programs);
  if (failed(state))
    return failure();
  for (auto &[function, reports] : programs)
    write(function, reports, *state);
  for (ReportOp report : all)
    report.erase();
  return success();
}

} // namespace
