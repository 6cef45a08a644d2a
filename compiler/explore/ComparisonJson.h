// What differs between two plans, as a part of the page's document.
#pragma once

#include "compiler/inspect/Compare.h"

#include "llvm/Support/JSON.h"

namespace nano::explore {

/// {"a", "b": figures of each, "world", "machine", "parts", "hyperparameters", "lines", "workers",
/// "kernels"}; seconds as nanoseconds.
llvm::json::Value toJson(const inspect::Comparison &found, const std::string &a,
                         const std::string &b);

} // namespace nano::explore
