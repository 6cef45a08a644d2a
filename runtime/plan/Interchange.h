// How a model's parameters lie in checkpoints of other programs (HuggingFace's folders), and what
// the config.json beside them says: the mapping that the model file states, as plain structs.
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace nano::plan {

enum class DType : uint8_t;

/// Some rows of a tensor of another program's checkpoint. Rows are what the first dimension counts;
/// those of a transposed matrix are its columns.
struct ForeignPart {
  std::string tensor;
  bool transposed = false;
  int64_t first = 0; ///< the first of the rows
  int64_t rows = 0;
  bool operator==(const ForeignPart &) const = default;
};

/// A parameter whose rows are those of these parts, one part after the other; without any, other
/// programs know nothing like it.
struct ForeignParameter {
  std::string name; ///< the parameter's
  std::vector<ForeignPart> parts;
  bool operator==(const ForeignParameter &) const = default;
};

/// A setting of config.json. Its values are JSON texts: `4096`, `"silu"`, `false`.
struct ConfigField {
  enum class Check : uint8_t {
    Equal,   ///< a folder's value must be `value` or one of `accepted`
    AtLeast, ///< a number, at least `value`
    None,
  };
  /// Its key, with dots between those of nested objects, then others under which folders have it.
  std::vector<std::string> names;
  std::string value;
  Check check = Check::Equal;
  std::vector<std::string> accepted;
  std::string absent;         ///< what a folder without it means; empty: it is not looked at then
  std::string hyperparameter; ///< whose value it is; may be empty
  bool isWritten = true;      ///< into folders that nanorun makes
  bool operator==(const ConfigField &) const = default;
};

/// What a model file says of checkpoints of other programs. Parameters that it does not list are
/// there under their own names, as they are.
struct Interchange {
  std::string prefix;              ///< of tensors' names, which may lack it
  std::vector<std::string> unused; ///< tensors that nothing takes; `*` stands for any text
  std::vector<ForeignParameter> parameters;
  std::vector<ConfigField> config; ///< none: folders are not written
  bool operator==(const Interchange &) const = default;
};

/// What of a parameter a file holds.
struct StoredParameter {
  std::string name;
  std::vector<int64_t> shape;
  DType type;
};

/// A tensor of another program's checkpoint, and what of it goes where.
struct ForeignTensor {
  std::string name;
  std::vector<int64_t> shape; ///< as it lies in the file: of a transposed one [columns, rows]
  bool transposed = false;
  DType type; ///< of its parameters
  struct Piece {
    size_t parameter = 0; ///< of the list given
    int64_t row = 0;      ///< of the parameter, the first
    int64_t first = 0;    ///< of the tensor, the first; the columns' where it is transposed
    int64_t rows = 0;
    bool operator==(const Piece &) const = default;
  };
  std::vector<Piece> pieces; ///< by `first`, each row once
};

/// The tensors that hold these parameters, in the parameters' order. BadInput, one line, for a
/// mapping that cannot be: of a parameter that is not there, of other rows than it has, of a tensor
/// whose rows are not each taken once, or in two ways.
Result<std::vector<ForeignTensor>> foreignTensors(const Interchange &interchange,
                                                  const std::vector<StoredParameter> &parameters);

/// Whether `name` is the pattern's text, in which `*` stands for any.
bool matches(const std::string &pattern, const std::string &name);

} // namespace nano::plan
