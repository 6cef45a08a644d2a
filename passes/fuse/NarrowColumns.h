// Element-wise ops on one number a row, as columns of one element: they go on the rows' numbers.
#pragma once

#include "ir/graph/Nano.h"

namespace nano {

/// What a model computes of a row's maximum or sum, as x - log(sum(x, -1)) has it, is a column of
/// one element, which a reduction's result is not:
///
///   %s = nano.reduce sum %x … -> tensor<T>
///   %c = nano.reshape %s : … -> tensor<Tx1>
///   %l = nano.log %c : tensor<Tx1>                   %l = nano.log %s : tensor<T>
///   %r = nano.reshape %l : … -> tensor<T>       ⇒
///   %b = nano.broadcast %r … -> tensor<TxD>          %b = nano.broadcast %l … -> tensor<TxD>
///
/// Kernels hold ops on one number a row, but no such reshape, behind which x would be read again.
/// Reshapes at the rim, where something else reads the column, are views.
void narrowColumns(graph::ProgramOp function);

} // namespace nano
