// Embedding rows that element-wise ops read as heads: the ops go on whole rows instead.
#pragma once

#include "ir/graph/Nano.h"

namespace nano {

/// Gathered rows that are cut into heads only for element-wise ops need no cut:
///
///   %g = nano.gather %table, %ids : … -> tensor<T×C>
///   %h = nano.reshape %g : … -> tensor<T×H×D>        %w = nano.reshape %v : … -> tensor<T×C>
///   %y = nano.add %h, %v : tensor<T×H×D>        ⇒   %y = nano.add %g, %w : tensor<T×C>
///
/// What nano-fuse makes of both is one kernel of rows of C, which gathers as it goes, where rows of
/// D would need the gathered rows in memory. All element-wise ops that are connected with the
/// reshape change, with casts, broadcasts of numbers and reductions to a number among them, or, if
/// one of their neighbours needs heads in the same kernel (a norm or rotation of heads), none.
/// Reshapes at their rim are views.
void widenGatheredRows(graph::ProgramOp function);

} // namespace nano
