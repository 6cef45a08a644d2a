// Matches a folder's tensors with the plan's parameters, and reads, turns and converts their rows.
#include "runtime/files/ImportedTensors.h"

#include "runtime/NonFinite.h"
#include "runtime/NumberFormats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <type_traits>

namespace nano {

namespace {

/// Elements that are read and converted at a time.
constexpr uint64_t pieceElements = uint64_t(1) << 20;
/// Elements of a turned matrix that are held at a time, and rows of the file among them that are
/// read before they are spread out.
constexpr uint64_t tileElements = uint64_t(1) << 23, tileRows = 16;

/// What a file's types are called in lines for the user.
const char *textOf(const std::string &type) {
  return type == "F32" ? "f32" : type == "BF16" ? "bf16" : type == "F16" ? "f16" : nullptr;
}

/// An element of a file as f32.
struct FromF32 {
  using Stored = uint32_t;
  static float value(uint32_t bits) { return std::bit_cast<float>(bits); }
};
struct FromBf16 {
  using Stored = uint16_t;
  static float value(uint16_t bits) { return fromBf16(bits); }
};
struct FromF16 {
  using Stored = uint16_t;
  static float value(uint16_t bits) { return fromF16(bits); }
};

/// Converts `count` elements at `in`, to every `stride`-th place of `out`.
template <typename From> struct Converter {
  static void run(const std::byte *in, uint64_t count, plan::DType to, std::byte *out,
                  uint64_t stride) {
    auto each = [&](auto convert) {
      for (uint64_t i = 0; i < count; ++i) {
        typename From::Stored bits;
        std::memcpy(&bits, in + i * sizeof bits, sizeof bits);
        const auto element = convert(bits);
        std::memcpy(out + i * stride * sizeof element, &element, sizeof element);
      }
    };
    if (to == plan::DType::F32)
      each([](auto bits) { return From::value(bits); });
    else if constexpr (std::is_same_v<From, FromBf16>)
      each([](auto bits) { return bits; });
    else
      each([](auto bits) { return toBf16(From::value(bits)); });
  }
};
using Convert = void (*)(const std::byte *in, uint64_t count, plan::DType to, std::byte *out,
                         uint64_t stride);
Convert converterOf(const std::string &type) {
  return type == "F32"    ? Converter<FromF32>::run
         : type == "BF16" ? Converter<FromBf16>::run
                          : Converter<FromF16>::run;
}

/// "a, b and 3 more"
std::string someOf(const std::vector<std::string> &items) {
  constexpr size_t shown = 4;
  const std::string text = fmt::format(
      "{}", fmt::join(items.begin(), items.begin() + std::min(items.size(), shown), ", "));
  return items.size() > shown ? fmt::format("{} and {} more", text, items.size() - shown) : text;
}

/// What became of a folder's tensors, for the user.
struct Kinds {
  std::map<std::string, size_t> conversions; ///< "from bf16 to f32"
  size_t transposed = 0, shared = 0;
  std::vector<std::string> ignored, absent;

  void say(const std::string &path, const std::function<void(const std::string &)> &report) const {
    auto line = [&](size_t count, const std::string &what) {
      if (count > 0)
        report(fmt::format("{}: {} tensor{} {}", path, count, count == 1 ? "" : "s", what));
    };
    for (const auto &[conversion, count] : conversions)
      line(count, "converted " + conversion);
    line(transposed, "transposed, as the model states");
    line(shared, "cut or joined, as the model states");
    line(ignored.size(), "ignored: " + someOf(ignored));
    if (!absent.empty())
      report(fmt::format("{}: not there, as the model states, and left at their initial values: {}",
                         path, someOf(absent)));
  }
};

/// A folder's tensors by the names that the mapping gives them.
Result<std::map<std::string, TensorFolder::Place>> placesOf(const TensorFolder &folder,
                                                            const std::string &prefix) {
  std::map<std::string, TensorFolder::Place> places;
  for (const auto &[name, place] : folder.tensors()) {
    const bool has = !prefix.empty() && name.rfind(prefix, 0) == 0;
    if (!places.emplace(has ? name.substr(prefix.size()) : name, place).second)
      return badInput(fmt::format("{}: has tensor '{}' with and without the prefix '{}'",
                                  folder.path(), has ? name.substr(prefix.size()) : name, prefix));
  }
  return places;
}

} // namespace

Result<ImportedTensors>
ImportedTensors::open(TensorFolder given, const plan::Interchange &interchange,
                      const std::vector<plan::StoredParameter> &parameters,
                      const ImportOptions &options,
                      const std::function<void(const std::string &line)> &report) {
  ImportedTensors result(std::move(given));
  result.allowNonFinite = options.allowNonFinite;
  const std::string &path = result.folder.path();
  auto wrong = [&](const std::string &what) { return badInput(fmt::format("{}: {}", path, what)); };
  Result<std::vector<plan::ForeignTensor>> wanted = plan::foreignTensors(interchange, parameters);
  if (!wanted)
    return wrong(wanted.error().message);
  Result<std::map<std::string, TensorFolder::Place>> places =
      placesOf(result.folder, interchange.prefix);
  if (!places)
    return places.error();

  Kinds kinds;
  std::vector<std::string> missing, different, extra;
  std::set<std::string> taken;
  std::map<std::string, size_t> partsOf; // by parameter
  for (const plan::ForeignTensor &tensor : *wanted)
    for (const plan::ForeignTensor::Piece &piece : tensor.pieces)
      ++partsOf[parameters[piece.parameter].name];
  for (const plan::ForeignTensor &tensor : *wanted) {
    taken.insert(tensor.name);
    const plan::StoredParameter &first = parameters[tensor.pieces.front().parameter];
    auto found = places->find(tensor.name);
    if (found == places->end()) {
      missing.push_back(tensor.name == first.name
                            ? tensor.name
                            : fmt::format("{} (the parameter {})", tensor.name, first.name));
      continue;
    }
    const TensorEntry &entry = *found->second.entry;
    const char *type = textOf(entry.type);
    if (entry.shape != tensor.shape)
      different.push_back(fmt::format("{} is {}, the plan wants {}{}", tensor.name,
                                      shapeText(entry.shape), shapeText(tensor.shape),
                                      tensor.transposed ? ", which it transposes" : ""));
    else if (!type || (tensor.type != plan::DType::F32 && tensor.type != plan::DType::BF16))
      different.push_back(
          fmt::format("{} is {}, the plan wants F32, BF16 or F16", tensor.name, entry.type));
    if (!different.empty())
      continue;
    if (std::string(type) != plan::nameOf(tensor.type))
      ++kinds.conversions[fmt::format("from {} to {}", type, plan::nameOf(tensor.type))];
    kinds.transposed += tensor.transposed;
    kinds.shared += tensor.pieces.size() > 1 || partsOf[first.name] > 1;
    for (const plan::ForeignTensor::Piece &piece : tensor.pieces) {
      const std::vector<int64_t> &shape = parameters[piece.parameter].shape;
      Source source{found->second,        tensor.transposed,     uint64_t(piece.row),
                    uint64_t(piece.rows), uint64_t(piece.first), 1,
                    tensor.type};
      for (size_t axis = 1; axis < shape.size(); ++axis)
        source.columns *= uint64_t(shape[axis]);
      result.sources[parameters[piece.parameter].name].push_back(source);
    }
  }

  std::set<std::string> idle(options.ignore.begin(), options.ignore.end());
  for (const auto &[name, place] : *places) {
    if (taken.count(name))
      continue;
    const std::string &full = place.entry->name;
    auto fits = [&, &name = name](const std::string &pattern) {
      return plan::matches(pattern, name) || plan::matches(pattern, full);
    };
    const bool isUnused = std::any_of(interchange.unused.begin(), interchange.unused.end(), fits);
    bool isIgnored = false;
    for (const std::string &pattern : options.ignore)
      if (fits(pattern)) {
        idle.erase(pattern);
        isIgnored = true;
      }
    if (isUnused || isIgnored)
      kinds.ignored.push_back(full);
    else
      extra.push_back(full);
  }

  std::vector<std::string> parts;
  if (!missing.empty())
    parts.push_back("missing: " + someOf(missing));
  if (!different.empty())
    parts.push_back("different: " + someOf(different));
  if (!extra.empty())
    parts.push_back(fmt::format("nothing takes: {} (--init-ignore '{}' allows that)", someOf(extra),
                                extra.front()));
  if (!parts.empty())
    return wrong(fmt::format("does not fit the plan; {}", fmt::join(parts, "; ")));
  if (!idle.empty())
    return badInput(fmt::format("--init-ignore '{}': {} has no tensor like it that nothing takes",
                                *idle.begin(), path));
  for (auto &[name, list] : result.sources)
    std::sort(list.begin(), list.end(),
              [](const Source &a, const Source &b) { return a.row < b.row; });
  for (const plan::StoredParameter &parameter : parameters)
    if (!result.has(parameter.name))
      kinds.absent.push_back(parameter.name);
  if (report)
    kinds.say(path, report);
  return result;
}

Status ImportedTensors::checkFinite(const Source &source, const void *data, uint64_t count,
                                    uint64_t at) const {
  if (allowNonFinite)
    return ok();
  const std::string &type = source.place.entry->type;
  std::optional<uint64_t> place;
  if (type == "F16") {
    // The exponent of infinities and NaN, found without a branch an element.
    const auto *bits = static_cast<const std::byte *>(data);
    for (uint64_t i = 0; i < count && !place; ++i) {
      uint16_t half;
      std::memcpy(&half, bits + i * sizeof half, sizeof half);
      if ((half & 0x7c00) == 0x7c00)
        place = i;
    }
  } else {
    place = firstNonFinite(type == "F32" ? plan::DType::F32 : plan::DType::BF16, data, count);
  }
  if (!place)
    return ok();
  std::vector<int64_t> index(source.place.entry->shape.size());
  uint64_t element = at + *place;
  for (size_t axis = index.size(); axis-- > 0;) {
    const auto size = uint64_t(source.place.entry->shape[axis]);
    index[axis] = int64_t(element % size);
    element /= size;
  }
  return badInput(fmt::format("{}: tensor '{}' holds NaN or infinity at {}; give values that are "
                              "finite, or --allow-non-finite to start from these",
                              source.place.file->path(), source.place.entry->name,
                              shapeText(index)));
}

Status ImportedTensors::readRows(const Source &source, uint64_t first, uint64_t count,
                                 const Take &take) const {
  const TensorEntry &entry = *source.place.entry;
  const uint64_t stored = bytesOfType(entry.type).value_or(0), size = plan::sizeOf(source.type);
  const bool isSame = entry.type == safetensorsName(source.type);
  const Convert convert = converterOf(entry.type);
  std::vector<std::byte> read, converted;
  const uint64_t base = source.row * source.columns; // of the parameter
  for (uint64_t at = first; at < first + count; at += pieceElements) {
    const uint64_t elements = std::min(pieceElements, first + count - at);
    const uint64_t from = source.first * source.columns + (at - base);
    read.resize(elements * stored);
    Status status = source.place.file->read(entry, from * stored, read.data(), read.size());
    if (status)
      status = checkFinite(source, read.data(), elements, from);
    if (!status)
      return status;
    if (!isSame) {
      converted.resize(elements * size);
      convert(read.data(), elements, source.type, converted.data(), 1);
    }
    if (status = take({at, isSame ? read : converted, source.place.file->path()}); !status)
      return status;
  }
  return ok();
}

Status ImportedTensors::readTurned(const Source &source, uint64_t first, uint64_t count,
                                   const Take &take) const {
  const TensorEntry &entry = *source.place.entry;
  const uint64_t stored = bytesOfType(entry.type).value_or(0), size = plan::sizeOf(source.type);
  const Convert convert = converterOf(entry.type);
  // A column of the file is a row of the parameter: a tile is some of the file's columns, of all
  // its rows.
  const uint64_t columns = source.columns, width = uint64_t(entry.shape[1]);
  const uint64_t base = source.row * columns;
  const uint64_t lastRow = (first + count - base + columns - 1) / columns;
  const uint64_t step = std::max<uint64_t>(1, tileElements / columns);
  std::vector<std::byte> read, turned;
  for (uint64_t row = (first - base) / columns; row < lastRow; row += step) {
    const uint64_t rows = std::min(step, lastRow - row);
    turned.resize(rows * columns * size);
    for (uint64_t k = 0; k < columns; k += tileRows) {
      const uint64_t lines = std::min(tileRows, columns - k);
      read.resize(lines * rows * stored);
      // Whole lines of the file lie one behind the other.
      const uint64_t atOnce = rows == width ? lines : 1;
      for (uint64_t line = 0; line < lines; line += atOnce) {
        const uint64_t from = (k + line) * width + source.first + row;
        std::byte *to = read.data() + line * rows * stored;
        Status status = source.place.file->read(entry, from * stored, to, atOnce * rows * stored);
        if (status)
          status = checkFinite(source, to, atOnce * rows, from);
        if (!status)
          return status;
      }
      for (uint64_t line = 0; line < lines; ++line)
        convert(read.data() + line * rows * stored, rows, source.type,
                turned.data() + (k + line) * size, columns);
    }
    const uint64_t begin = std::max(first, base + row * columns),
                   end = std::min(first + count, base + (row + rows) * columns);
    const std::span<const std::byte> bytes =
        std::span(turned).subspan((begin - base - row * columns) * size, (end - begin) * size);
    if (Status status = take({begin, bytes, source.place.file->path()}); !status)
      return status;
  }
  return ok();
}

Status ImportedTensors::read(const std::string &parameter, uint64_t first, uint64_t count,
                             const Take &take) const {
  const uint64_t end = first + count;
  for (const Source &source : sources.at(parameter)) {
    const uint64_t begin = source.row * source.columns;
    const uint64_t from = std::max(first, begin),
                   to = std::min(end, begin + source.rows * source.columns);
    if (from >= to)
      continue;
    Status status = source.transposed ? readTurned(source, from, to - from, take)
                                      : readRows(source, from, to - from, take);
    if (!status)
      return status;
  }
  return ok();
}

} // namespace nano
