// What a model file says of other programs' checkpoints of the same model: under which names, and
// how, HuggingFace's folders hold its parameters, and what their config.json says. `nanorun --init
// FOLDER` and `--export-hf DIR` follow it. A part of compiler/Frontend.h.
#pragma once

#include "compiler/Frontend.h"

namespace nano::frontend {

/// How a tensor of a checkpoint lies, seen from the parameter that takes it. It is this that
/// decides, never a shape: a square matrix fits either way.
enum class Layout : uint8_t {
  AsParameter,
  Transposed, ///< [columns, rows]
};
inline constexpr Layout Transposed = Layout::Transposed;

/// The checkpoint has the parameter under this name. Parameters of which nothing is said are there
/// under their own, as they are.
void imported(const At &parameter, const Name &tensor, Layout layout = Layout::AsParameter);
/// The checkpoint has it under the parameter's own name, transposed.
void importedTransposed(const At &parameter);
/// It is the rows (what the first dimension counts, after transposition) from `first` on of a
/// tensor that several parameters share; all its rows are some parameter's.
void importedSlice(const At &parameter, const Name &tensor, int64_t first,
                   Layout layout = Layout::AsParameter);
/// Rows of a parameter that are a tensor of their own.
struct ForeignRows {
  Name tensor;
  int64_t rows;
  Layout layout = Layout::AsParameter;
};
/// The parameter's rows are those of several tensors, one after the other.
void importedConcat(const At &parameter, std::initializer_list<ForeignRows> parts);
/// Other programs have nothing like this parameter: it keeps its initial value, and is not written.
void notImported(const At &parameter);
/// Tensors that checkpoints may hold and nothing needs; `*` in the name stands for any text.
void unusedInCheckpoints(const Name &tensors, Line at = Line::here());
/// Names of a checkpoint's tensors may lack this beginning, all of them or some.
void importPrefix(const char *prefix, Line at = Line::here());

/// A value of config.json.
struct ConfigValue {
  ConfigValue(int value) : kind(Integer), integer(value) {}
  ConfigValue(int64_t value) : kind(Integer), integer(value) {}
  ConfigValue(double value) : kind(Real), real(value) {}
  ConfigValue(bool value) : kind(Boolean), integer(value) {}
  ConfigValue(const char *text) : kind(Text), text(text) {}
  /// A list that holds this word.
  static ConfigValue list(const char *word) {
    ConfigValue value(word);
    value.kind = List;
    return value;
  }
  ConfigValue() = default; ///< none
  enum Kind : uint8_t { None, Integer, Real, Boolean, Text, List } kind = None;
  int64_t integer = 0;
  double real = 0;
  const char *text = nullptr;
};

/// What a setting means; everything may be left out.
struct ConfigRule {
  enum Check : uint8_t {
    Equal,   ///< a folder must have this value, or `orElse`
    AtLeast, ///< a number, at least this
    Nothing, ///< it is written, and not looked at
  };
  Check check = Equal;
  const char *hyper = nullptr; ///< the hyperparameter that it is, for messages
  /// Other places where folders have it; dots go into objects.
  const char *also[3] = {};
  ConfigValue orElse{}, absent{}; ///< as good; what a folder means that lacks it
  bool written = true;            ///< into folders that nanorun makes
};

/// A setting of config.json, by its key, with dots into objects: `config("hidden_size", D)`. Of an
/// object into which a name goes all settings must be stated, so that none is passed over.
void config(const char *name, const ConfigValue &value, const ConfigRule &rule = {},
            Line at = Line::here());

} // namespace nano::frontend
