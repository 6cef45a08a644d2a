// The functions among the ops of a family: what lists of them are made of, whatever they are
// functions of.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <vector>

namespace nano::graph {

/// Those ops whose meaning and traits a Function {op, evaluate, traits} takes, in their order.
template <typename Function, typename... Ops> std::vector<Function> functionsAmong() {
  std::vector<Function> list;
  const auto add = [&]<typename Op>() {
    if constexpr (requires { Function{Op::getOperationName(), &Op::evaluate, Op::traits()}; })
      list.push_back({Op::getOperationName(), &Op::evaluate, Op::traits()});
  };
  (add.template operator()<Ops>(), ...);
  return list;
}

/// The one of that op's name; null where there is none.
template <typename Function>
const Function *functionNamed(llvm::ArrayRef<Function> functions, llvm::StringRef op) {
  const auto *found =
      llvm::find_if(functions, [&](const Function &function) { return function.op == op; });
  return found == functions.end() ? nullptr : found;
}

} // namespace nano::graph
