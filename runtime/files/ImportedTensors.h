// The plan's parameters as they lie in another program's checkpoint: under other names, turned, cut
// or joined as the model file states, in another float type. Rows are read in stretches and
// converted on their way; a whole tensor is never held.
#pragma once

#include "base/Status.h"
#include "runtime/files/StoredTensors.h"
#include "runtime/files/TensorFolder.h"
#include "runtime/plan/Plan.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace nano {

struct ImportOptions {
  std::vector<std::string> ignore; ///< patterns of tensors that may be there and nothing takes
  bool allowNonFinite = false;
};

/// Parameters out of a folder. Move-only.
class ImportedTensors : public TensorSource {
public:
  /// Finds every tensor that the mapping asks for. `report` hears, in one line for each kind, what
  /// is converted, turned, cut or joined, ignored or not there. BadInput, one line: a tensor that
  /// is missing, has another shape, a type that is no float of 16 or 32 bits, or that nothing
  /// takes; a pattern that fits nothing.
  static Result<ImportedTensors> open(TensorFolder folder, const plan::Interchange &interchange,
                                      const std::vector<plan::StoredParameter> &parameters,
                                      const ImportOptions &options,
                                      const std::function<void(const std::string &line)> &report);

  /// As StoredTensors::read, in the parameter's type. BadInput, naming file, tensor and index in
  /// the file, for a value that is not finite, where the options do not allow it.
  Status read(const std::string &parameter, uint64_t first, uint64_t count,
              const Take &take) const override;
  Result<uint64_t> hash() const override { return folder.hash(); }
  /// False for parameters that other programs have nothing like.
  bool has(const std::string &parameter) const override { return sources.count(parameter) > 0; }

private:
  /// Rows of a parameter, in one tensor.
  struct Source {
    TensorFolder::Place place;
    bool transposed = false;
    uint64_t row = 0, rows = 0; ///< of the parameter
    uint64_t first = 0;         ///< the first one's place among the tensor's
    uint64_t columns = 1;       ///< elements of a row
    plan::DType type = plan::DType::F32;
  };
  explicit ImportedTensors(TensorFolder folder) : folder(std::move(folder)) {}
  Status readRows(const Source &source, uint64_t first, uint64_t count, const Take &take) const;
  Status readTurned(const Source &source, uint64_t first, uint64_t count, const Take &take) const;
  Status checkFinite(const Source &source, const void *data, uint64_t count, uint64_t at) const;

  TensorFolder folder;
  bool allowNonFinite = false;
  std::map<std::string, std::vector<Source>> sources; ///< by parameter, by row
};

} // namespace nano
