// Numbers that tell places in a parameter, for the units of it that one rank updates.
#pragma once

#include "ir/graph/ElementwiseOps.h"
#include "ir/graph/Sharding.h"
#include "passes/optimizer/UpdateForm.h"

#include "mlir/IR/Builders.h"

namespace nano {

/// Which units of a gradient's share are a rank's: of `units` in all of a rank's rounds the r-th is
/// number r·parts + p of a bank, p·units + r of one parameter that is cut into parts.
struct RankUnits {
  const graph::Sharding &sharding;
  int64_t units;
  bool isBank;
};

/// An iota of the equations for a rank's units, [units, …], computed from the rank's place, so that
/// nothing is written for the whole parameter:
///
///   iota([3, 1, 1], 0) : [3, 1, 1] ⇒ (iota([1]) · 4 + p) mod 3 : [1, 1, 1]      a bank, four ranks
///
/// The members of the share have the form's equations. Null where the units cut a dimension, or are
/// too many to count in i32.
mlir::Value iotaOfUnits(mlir::OpBuilder &builder, mlir::Location location, const UpdateForm &form,
                        graph::IotaOp iota, const RankUnits &mine);

} // namespace nano
