// What a compilation's passes did, as a part of the page's document.
#pragma once

#include "compiler/explore/Json.h"
#include "compiler/explore/PassRecords.h"

namespace nano::explore {

/// Attributes of an object: "phases", "stages", "passes", "kernels" and "prose", what
/// build/docs/passes.md says of each of these passes.
void writePasses(llvm::json::OStream &json, const PassRecords &records, Texts &texts);

} // namespace nano::explore
