// The formats of training files.
#include "runtime/data/DataFile.h"

#include "runtime/files/Safetensors.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <utility>

namespace nano {

namespace {

constexpr const char *tokensName = "tokens";
constexpr size_t headerInts = 256;
constexpr uint64_t headerBytes = headerInts * sizeof(int32_t);

/// What llm.c calls a file of tokens.
struct ShardFormat {
  int32_t magic, version;
  ElementType type;
};
constexpr ShardFormat shardFormats[] = {{20240520, 1, ElementType::U16},
                                        {20240801, 7, ElementType::U32}};

/// A column of no tokens may have these types: safetensors' name, .npy's, ours.
struct TypeNames {
  std::string_view safetensors, npy;
  ElementType type;
};
constexpr TypeNames typeNames[] = {
    {"U8", "|u1", ElementType::U8},   {"U16", "<u2", ElementType::U16},
    {"U32", "<u4", ElementType::U32}, {"I32", "<i4", ElementType::I32},
    {"BF16", "", ElementType::BF16},  {"F32", "<f4", ElementType::F32}};

Result<DataFile> openShard(std::shared_ptr<const InputFile> file) {
  auto wrong = [&](const std::string &what) {
    return badInput(fmt::format("{}: not a usable token shard: {}", file->path(), what));
  };
  if (file->size() < headerBytes)
    return wrong(
        fmt::format("it has {} bytes, its header alone takes {}", file->size(), headerBytes));
  int32_t header[headerInts];
  if (Status status = file->read(0, header, headerBytes); !status)
    return status.error();
  const auto *format =
      std::find_if(std::begin(shardFormats), std::end(shardFormats),
                   [&](const ShardFormat &each) { return each.magic == header[0]; });
  if (format == std::end(shardFormats))
    return wrong(fmt::format("it begins with {}, a shard with the magic number {} or {}", header[0],
                             shardFormats[0].magic, shardFormats[1].magic));
  if (header[1] != format->version)
    return wrong(fmt::format("version {}, only {} is known", header[1], format->version));
  if (!std::all_of(header + 3, header + headerInts, [](int32_t value) { return value == 0; }))
    return wrong(fmt::format("its header holds values that version {} does not have", header[1]));
  const uint64_t count = uint64_t(std::max(header[2], 0)),
                 expected = headerBytes + sizeOf(format->type) * count;
  if (header[2] < 0 || file->size() != expected)
    return wrong(fmt::format("its header says {} tokens, which takes {} bytes; it has {}",
                             header[2], expected, file->size()));
  DataFile result;
  result.path = file->path();
  result.tokens = DataColumn(std::move(file), headerBytes, format->type, count);
  return result;
}

/// Adds a column; the error is what is wrong with it, without the file.
Status addColumn(DataFile &data, const std::string &name, DataColumn column) {
  const ElementType type = column.type();
  if (name != tokensName) {
    if (type == ElementType::U16 || type == ElementType::U32)
      return badInput(fmt::format("column '{}' is {}; columns beside tokens are f32, bf16, i32 or "
                                  "u8",
                                  name, nameOf(type)));
    data.columns.emplace(name, std::move(column));
    return ok();
  }
  if (type != ElementType::U16 && type != ElementType::U32 && type != ElementType::I32)
    return badInput(fmt::format("tokens are {}; they must be u16, u32 or i32", nameOf(type)));
  data.tokens = std::move(column);
  return ok();
}

/// Whether the columns that were added make a training file; `where` the tokens were looked for.
Result<DataFile> finish(DataFile data, const std::string &what, const char *where, bool hasTokens) {
  auto wrong = [&](const std::string &problem) {
    return badInput(fmt::format("{}: not a usable {}: {}", data.path, what, problem));
  };
  if (!hasTokens)
    return wrong(fmt::format("it has no {}", where));
  for (const auto &[name, column] : data.columns)
    if (column.size() != data.tokens.size())
      return wrong(fmt::format("column '{}' has {} elements and there are {} tokens; all columns "
                               "have one length",
                               name, column.size(), data.tokens.size()));
  return data;
}

Result<DataFile> openSafetensors(const std::string &path) {
  Result<SafetensorsFile> opened = SafetensorsFile::open(path);
  if (!opened)
    return opened.error();
  auto file = std::make_shared<const SafetensorsFile>(std::move(*opened));
  const std::shared_ptr<const InputFile> input(file, &file->input());
  DataFile data;
  data.path = path;
  const std::string what = "file of columns";
  for (const auto &[name, entry] : file->tensors()) {
    auto wrong = [&](const std::string &problem) {
      return badInput(fmt::format("{}: not a usable {}: {}", path, what, problem));
    };
    const auto *known =
        std::find_if(std::begin(typeNames), std::end(typeNames),
                     [&](const TypeNames &each) { return each.safetensors == entry.type; });
    if (entry.shape.size() != 1)
      return wrong(fmt::format("'{}' has the shape {}; a column has one dimension", name,
                               shapeText(entry.shape)));
    if (known == std::end(typeNames))
      return wrong(fmt::format("column '{}' is {}; columns are F32, BF16, I32 or U8, tokens U16, "
                               "U32 or I32",
                               name, entry.type));
    if (Status status = addColumn(
            data, name,
            DataColumn(input, file->beginOf(entry), known->type, uint64_t(entry.shape[0])));
        !status)
      return wrong(status.error().message);
  }
  return finish(std::move(data), what, "tensor 'tokens'", file->tensors().count(tokensName) > 0);
}

/// The text of a key's value in the header of a .npy file, up to the comma or brace behind it;
/// nothing where the key is not there once.
std::optional<std::string_view> npyValue(std::string_view header, std::string_view key) {
  const std::string quoted = fmt::format("'{}':", key);
  const size_t at = header.find(quoted);
  if (at == std::string_view::npos || header.find(quoted, at + 1) != std::string_view::npos)
    return std::nullopt;
  std::string_view rest = header.substr(at + quoted.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const char closing = !rest.empty() && rest[0] == '('    ? ')'
                       : !rest.empty() && rest[0] == '\'' ? '\''
                                                          : ',';
  const size_t end = rest.find(closing, 1);
  return end == std::string_view::npos ? std::nullopt
                                       : std::optional(rest.substr(0, end + (closing != ',')));
}

/// A .npy file of one dimension; the error begins with its path.
Result<DataColumn> openNpy(const std::string &path) {
  Result<InputFile> opened = InputFile::open(path, input::shard);
  if (!opened)
    return opened.error();
  auto file = std::make_shared<const InputFile>(std::move(*opened));
  auto wrong = [&](const std::string &what) {
    return badInput(fmt::format("{}: not a usable .npy file: {}", path, what));
  };
  // "\x93NUMPY", major and minor version, the header's length (2 bytes in version 1, else 4).
  unsigned char start[12] = {};
  if (file->size() < sizeof start)
    return wrong(fmt::format("it has {} bytes, too few for a header", file->size()));
  if (Status status = file->read(0, start, sizeof start); !status)
    return status.error();
  if (std::memcmp(start, "\x93NUMPY", 6) != 0 || start[6] < 1 || start[6] > 3)
    return wrong("it does not begin as numpy.save writes it");
  const uint64_t textBegin = start[6] == 1 ? 10 : 12;
  const uint64_t length =
      start[6] == 1 ? start[8] + 256U * start[9]
                    : start[8] + 256U * start[9] + 65536U * start[10] + 16777216U * start[11];
  constexpr uint64_t longest = 65536;
  if (length > longest || textBegin + length > file->size())
    return wrong(fmt::format("its header says that it is {} bytes long", length));
  std::string text(size_t(length), '\0');
  if (Status status = file->read(textBegin, text.data(), length); !status)
    return status.error();
  const auto descr = npyValue(text, "descr"), order = npyValue(text, "fortran_order"),
             shape = npyValue(text, "shape");
  if (!descr || !order || !shape)
    return wrong("its header lacks descr, fortran_order or shape");
  const auto *known =
      std::find_if(std::begin(typeNames), std::end(typeNames), [&](const TypeNames &each) {
        return !each.npy.empty() && *descr == fmt::format("'{}'", each.npy);
      });
  if (known == std::end(typeNames))
    return wrong(fmt::format("its type is {}; columns are '<f4', '<i4' or '|u1', tokens '<u2', "
                             "'<u4' or '<i4'; bf16 needs a safetensors file",
                             descr->substr(0, 40)));
  uint64_t count = 0;
  const char *first = shape->data() + 1, *last = shape->data() + shape->size();
  auto [rest, error] = std::from_chars(first, last, count);
  if (error != std::errc() || std::string_view(rest, size_t(last - rest)) != ",)")
    return wrong(fmt::format("its shape is {}; a column has one dimension", shape->substr(0, 40)));
  const uint64_t begin = textBegin + length, held = file->size() - begin;
  if (count > held / sizeOf(known->type) || count * sizeOf(known->type) != held)
    return wrong(fmt::format("its header says {} elements of {} bytes, and {} bytes follow", count,
                             sizeOf(known->type), held));
  return DataColumn(std::move(file), begin, known->type, count);
}

Result<DataFile> openFolder(const std::string &path) {
  namespace fs = std::filesystem;
  DataFile data;
  data.path = path;
  const std::string what = "folder of columns";
  bool hasTokens = false;
  std::error_code error;
  for (fs::directory_iterator next(path, error), end; !error && next != end;
       next.increment(error)) {
    if (next->path().extension() != ".npy")
      continue;
    const std::string name = next->path().stem().string();
    Result<DataColumn> column = openNpy(next->path().string());
    if (!column)
      return column.error();
    if (Status status = addColumn(data, name, std::move(*column)); !status)
      return badInput(fmt::format("{}: not a usable {}: {}", path, what, status.error().message));
    hasTokens |= name == tokensName;
  }
  if (error)
    return badInput(fmt::format("{}: cannot be read: {}", path, error.message()));
  return finish(std::move(data), what, "tokens.npy", hasTokens);
}

} // namespace

uint64_t sizeOf(ElementType type) {
  switch (type) {
  case ElementType::U8:
    return 1;
  case ElementType::U16:
  case ElementType::BF16:
    return 2;
  case ElementType::U32:
  case ElementType::I32:
  case ElementType::F32:
    return 4;
  }
  return 0;
}

const char *nameOf(ElementType type) {
  static constexpr const char *names[] = {"u8", "u16", "u32", "i32", "bf16", "f32"};
  return names[size_t(type)];
}

Result<DataFile> DataFile::open(const std::string &path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return openFolder(path);
  Result<InputFile> file = InputFile::open(path, input::shard);
  if (!file)
    return file.error();
  // A safetensors file begins with the length of its header, and that with a brace.
  char start[9] = {};
  if (file->size() >= sizeof start) {
    if (Status status = file->read(0, start, sizeof start); !status)
      return status.error();
    if (start[8] == '{')
      return openSafetensors(path);
  }
  return openShard(std::make_shared<const InputFile>(std::move(*file)));
}

} // namespace nano
