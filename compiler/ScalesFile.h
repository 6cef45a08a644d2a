// Files of static FP8 scales, as `nanorun --calibrate` writes them:
// {"format": "nano fp8 scales", "version": 1,
//  "scales": {"<parameter>": {"input": s, "weight": s, "gradient": s}, …}}
// A tensor that was converted nowhere where the scales were measured is absent.
#pragma once

#include "compiler/TraceModel.h"

namespace nano {

/// Reads one. Throws ModelError, with the file's name: when it cannot be read, is not JSON, is not
/// such a file, or a scale is not a positive number.
frontend::ScalesFile readScalesFile(const std::string &path);

} // namespace nano
