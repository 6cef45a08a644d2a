// Concats of zeros and all but some rows, as gathers.
#include "passes/fuse/ShiftedRows.h"

#include "ir/graph/ArithmeticOps.h"
#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/GraphBuilder.h"
#include "ir/graph/ShapeOps.h"
#include "ir/graph/TableOps.h"
#include "ir/graph/Values.h"
#include "passes/fuse/FusibleOps.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace nano::graph;

namespace nano {
namespace {

/// Columns of a row at least: of shorter ones a thread would look up each.
constexpr int64_t fewestColumns = 32;

/// x's positions along dimension `dim`, each `by` further on; negative ones further back.
struct Shift {
  Value x;
  int64_t dim = 0, by = 0;
};

std::optional<Shift> shiftOf(ConcatOp concat) {
  const RankedTensorType type = tensorType(concat);
  const auto dim = int64_t(concat.getDim());
  if (concat.getInputs().size() != 2 || dim + 1 >= type.getRank() ||
      type.getShape().back() < fewestColumns || !isa<FloatType>(type.getElementType()))
    return std::nullopt;
  const bool isOn = isZero(concat.getInputs()[0]);
  const Value zeros = concat.getInputs()[isOn ? 0 : 1];
  auto slice = concat.getInputs()[isOn ? 1 : 0].getDefiningOp<SliceOp>();
  if (!slice || !isZero(zeros) || int64_t(slice.getDim()) != dim ||
      tensorType(slice.getX()) != type)
    return std::nullopt;
  const int64_t by = tensorType(zeros).getDimSize(dim);
  if (int64_t(slice.getStart()) != (isOn ? 0 : by))
    return std::nullopt;
  return Shift{slice.getX(), dim, isOn ? by : -by};
}

class Reader {
public:
  explicit Reader(ProgramOp function) : block(function.getBody().front()) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      auto concat = dyn_cast<ConcatOp>(op);
      if (!concat || !llvm::all_of(concat->getUsers(), [](Operation *user) {
            return fuse::isFusible(user) && !fuse::isVectorAsRow(user);
          }))
        continue;
      if (const std::optional<Shift> shift = shiftOf(concat))
        replace(concat, *shift);
    }
  }

private:
  /// Each reader, which may read it more than once, gets its own, so that none writes it for
  /// another.
  void replace(ConcatOp concat, const Shift &shift) {
    const llvm::SetVector<Operation *> users(concat->user_begin(), concat->user_end());
    for (Operation *user : users) {
      OpBuilder builder(user);
      user->replaceUsesOfWith(concat, moved(builder, tensorType(concat), shift, concat.getLoc()));
    }
    concat.erase();
  }

  Value moved(OpBuilder &builder, RankedTensorType type, const Shift &shift, Location location) {
    const int64_t columns = type.getShape().back(), rows = type.getNumElements() / columns,
                  size = type.getDimSize(shift.dim);
    int64_t inner = 1; // rows of each position along the dimension
    for (int64_t each : type.getShape().drop_front(shift.dim + 1).drop_back())
      inner *= each;
    GraphBuilder g(builder, location);
    const RankedTensorType whole = type.clone({rows, columns});
    const Value table = g.reshape(shift.x, {rows, columns});
    Value rowsThere =
        GatherOp::create(builder, location, whole, table, source(rows, shift.by * inner));
    const auto integers = RankedTensorType::get({rows}, builder.getI32Type());
    Value place = IotaOp::create(builder, location, integers, 0);
    if (inner > 1)
      place = g.div(place, g.constant(double(inner), integers));
    if (rows / inner != size)
      place = RemOp::create(builder, location, place, g.constant(double(size), integers));
    const Value column = g.broadcast(place, {rows, columns}, {0});
    const int64_t border = shift.by > 0 ? shift.by : size + shift.by;
    rowsThere =
        g.select(shift.by > 0 ? Predicate::ge : Predicate::lt, column,
                 g.constant(double(border), column.getType()), rowsThere, g.constant(0, whole));
    return g.reshape(rowsThere, type.getShape());
  }

  /// The row that each of `rows` is moved from, some row where there is none: one for all that
  /// move so far.
  Value source(int64_t rows, int64_t by) {
    Value &ids = sources[{rows, by}];
    if (ids)
      return ids;
    OpBuilder builder = OpBuilder::atBlockBegin(&block);
    GraphBuilder g(builder, block.getParentOp()->getLoc());
    const auto integers = RankedTensorType::get({rows}, builder.getI32Type());
    const Location location = block.getParentOp()->getLoc();
    const Value row = IotaOp::create(builder, location, integers, 0);
    const Value from = g.add(row, g.constant(double(-by), integers));
    if (by > 0)
      ids = MaxOp::create(builder, location, from, g.constant(0, integers));
    else
      ids = MinOp::create(builder, location, from, g.constant(double(rows - 1), integers));
    return ids;
  }

  Block &block;
  llvm::DenseMap<std::pair<int64_t, int64_t>, Value> sources;
};

} // namespace

void readShiftedRows(ProgramOp function) { Reader(function).run(); }

} // namespace nano
