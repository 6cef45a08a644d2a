// The parameters as a folder that HuggingFace's libraries load: model.safetensors and config.json
// as the model file states them, with files of a tokenizer beside.
#pragma once

#include "base/Status.h"
#include "runtime/States.h"
#include "runtime/plan/Plan.h"

#include <string>
#include <vector>

namespace nano {

/// Checks, before a run, that a folder can be made at `path` out of the plan: BadInput where the
/// model states no config.json, or `path` is there and not an empty directory.
Status checkExport(const plan::Plan &plan, const std::string &path);

/// The files of a tokenizer, and of settings of generation, that a folder has, or `path` itself
/// where it is a file. BadInput when it is neither, or holds none.
Result<std::vector<std::string>> tokenizerFiles(const std::string &path);

/// Makes the folder, whole or not at all, from parameters of which this rank holds all. `beside`:
/// paths of files to copy. Failed for a value that is not finite, as `requireFinite` says.
Status exportFolder(const plan::Plan &plan, const ReadState &read, const std::string &path,
                    const std::vector<std::string> &beside, bool requireFinite);

/// Parameters that no such folder holds, as the model states: those of LoRA's adapters.
std::vector<std::string> notExported(const plan::Plan &plan);

} // namespace nano
