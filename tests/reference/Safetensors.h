// Parameters in safetensors files: 8 bytes of header length, a JSON header, raw tensor data.
#pragma once

#include "tests/reference/Tensor.h"

namespace nano::reference {

/// Reads the tensors named in `expected`, stored as F32 or BF16. InputError unless the file holds
/// exactly these names with these shapes, one after the other without gaps or overlaps.
Tensors readSafetensors(const std::string &path, const Shapes &expected);

/// Writes all tensors as F32, in order of their names. InputError when the file cannot be written.
void writeSafetensors(const std::string &path, const Tensors &tensors);

} // namespace nano::reference
