// Lays parameters out in tensors of other programs' checkpoints, as a mapping says.
#include "runtime/plan/Interchange.h"

#include "runtime/plan/Plan.h"

#include <algorithm>
#include <unordered_map>

namespace nano::plan {

namespace {

std::string inQuotes(const std::string &name) { return "'" + name + "'"; }

int64_t rowsOf(const StoredParameter &parameter) {
  return parameter.shape.empty() ? 1 : parameter.shape.front();
}

/// Collects the pieces of tensors, in the order of the parameters.
class Layout {
public:
  explicit Layout(const std::vector<StoredParameter> &parameters) : parameters(parameters) {}

  /// A whole parameter under its own name.
  Status add(size_t parameter) {
    return add(parameter, 0, {parameters[parameter].name, false, 0, rowsOf(parameters[parameter])});
  }

  Status add(size_t parameter, int64_t row, const ForeignPart &part) {
    const StoredParameter &target = parameters[parameter];
    auto wrong = [&](const std::string &what) {
      return badInput("the parameter " + inQuotes(target.name) + " cannot lie in the tensor " +
                      inQuotes(part.tensor) + ": " + what);
    };
    if (part.tensor.empty())
      return wrong("its name is empty");
    if (part.transposed && target.shape.size() != 2)
      return wrong("only matrices are transposed");
    if (part.first < 0 || part.rows < 1 || part.first > INT64_MAX - part.rows)
      return wrong("its rows are not a range");
    auto [place, isNew] = index.emplace(part.tensor, tensors.size());
    if (isNew) {
      tensors.push_back({part.tensor, target.shape, part.transposed, target.type, {}});
      firsts.push_back(parameter);
    }
    ForeignTensor &tensor = tensors[place->second];
    const StoredParameter &other = parameters[firsts[place->second]];
    const bool isAlike =
        other.shape.size() == target.shape.size() && !target.shape.empty() &&
        std::equal(other.shape.begin() + 1, other.shape.end(), target.shape.begin() + 1);
    if (!isNew && (!isAlike || tensor.transposed != part.transposed || tensor.type != target.type))
      return wrong(inQuotes(other.name) + " takes it with other rows, another type or turned");
    tensor.pieces.push_back({parameter, row, part.first, part.rows});
    return ok();
  }

  /// Orders the pieces and gives the tensors their shapes.
  Result<std::vector<ForeignTensor>> finish() {
    for (ForeignTensor &tensor : tensors) {
      std::sort(tensor.pieces.begin(), tensor.pieces.end(),
                [](const auto &a, const auto &b) { return a.first < b.first; });
      int64_t end = 0;
      for (const ForeignTensor::Piece &piece : tensor.pieces) {
        if (piece.first != end)
          return badInput("the tensor " + inQuotes(tensor.name) + ": its row " +
                          std::to_string(std::min(end, piece.first)) +
                          (piece.first < end ? " is taken twice, by the parameter "
                                             : " is taken by nothing before the parameter ") +
                          inQuotes(parameters[piece.parameter].name));
        end = piece.first + piece.rows;
      }
      if (!tensor.shape.empty())
        tensor.shape.front() = end;
      if (tensor.transposed)
        std::swap(tensor.shape[0], tensor.shape[1]);
    }
    return std::move(tensors);
  }

private:
  const std::vector<StoredParameter> &parameters;
  std::vector<ForeignTensor> tensors;
  std::vector<size_t> firsts; ///< of each, the parameter that it was first named for
  std::unordered_map<std::string, size_t> index;
};

} // namespace

Result<std::vector<ForeignTensor>> foreignTensors(const Interchange &interchange,
                                                  const std::vector<StoredParameter> &parameters) {
  std::unordered_map<std::string, const ForeignParameter *> mapped;
  for (const ForeignParameter &each : interchange.parameters)
    if (!mapped.emplace(each.name, &each).second)
      return badInput("the mapping of the parameter " + inQuotes(each.name) + " is given twice");
  Layout layout(parameters);
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto found = mapped.find(parameters[i].name);
    if (found == mapped.end()) {
      if (Status status = layout.add(i); !status)
        return status.error();
      continue;
    }
    const std::vector<ForeignPart> &parts = found->second->parts;
    mapped.erase(found);
    int64_t row = 0;
    for (const ForeignPart &part : parts) {
      if (Status status = layout.add(i, row, part); !status)
        return status.error();
      if (part.rows > rowsOf(parameters[i]) - row)
        return badInput("the parameter " + inQuotes(parameters[i].name) + " has " +
                        std::to_string(rowsOf(parameters[i])) + " rows; its mapping gives it more");
      row += part.rows;
    }
    if (!parts.empty() && row != rowsOf(parameters[i]))
      return badInput("the parameter " + inQuotes(parameters[i].name) + " has " +
                      std::to_string(rowsOf(parameters[i])) + " rows; its mapping gives it " +
                      std::to_string(row));
  }
  if (!mapped.empty())
    return badInput("the mapping names " + inQuotes(mapped.begin()->first) +
                    ", which is no parameter");
  return layout.finish();
}

bool matches(const std::string &pattern, const std::string &name) {
  // The last star seen takes as little as it can, and more where what follows does not fit.
  size_t p = 0, n = 0, star = std::string::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*')
    ++p;
  return p == pattern.size();
}

} // namespace nano::plan
