// Lays parameters out as the mapping says and writes the folder.
#include "runtime/Export.h"

#include "base/Digest.h"
#include "base/InputFile.h"
#include "runtime/NonFinite.h"
#include "runtime/files/FileWriter.h"
#include "runtime/files/ModelConfig.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>
#include <unordered_map>

namespace nano {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t pieceBytes = uint64_t(1) << 20;
/// Of a turned matrix, held at a time.
constexpr uint64_t tileBytes = uint64_t(64) << 20;
constexpr InputKind copiedKind = {"a file of a tokenizer", 256 * input::mebibyte, ""};

/// What transformers looks for beside a model.
constexpr const char *besideNames[] = {"tokenizer.json",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "vocab.json",
                                       "merges.txt",
                                       "tokenizer.model",
                                       "chat_template.jinja",
                                       "chat_template.json",
                                       "generation_config.json"};

/// Writes the tensors of a mapping, in order, through a file.
class Exporter {
public:
  Exporter(const std::vector<const plan::State *> &states, const ReadState &read,
           bool requireFinite, FileWriter &file)
      : states(states), readState(read), requireFinite(requireFinite), file(file) {}

  Status write(const plan::ForeignTensor &tensor) {
    if (tensor.transposed)
      return writeTurned(tensor);
    const plan::State &first = *states[tensor.pieces.front().parameter];
    const uint64_t rowBytes =
        bytesOf(first) / uint64_t(first.shape.empty() ? 1 : first.shape.front());
    for (const plan::ForeignTensor::Piece &piece : tensor.pieces) {
      const plan::State &state = *states[piece.parameter];
      const uint64_t begin = uint64_t(piece.row) * rowBytes,
                     end = begin + uint64_t(piece.rows) * rowBytes;
      for (uint64_t at = begin; at < end; at += pieceBytes) {
        bytes.resize(std::min(pieceBytes, end - at));
        Status status = read(state, at, bytes.data(), bytes.size());
        if (status)
          status = file.append(bytes.data(), bytes.size());
        if (!status)
          return status;
      }
    }
    return ok();
  }

private:
  Status read(const plan::State &state, uint64_t offset, std::byte *to, uint64_t count) {
    for (uint64_t at = 0; at < count; at += pieceBytes) {
      const uint64_t part = std::min(pieceBytes, count - at);
      if (Status status = readState(state, offset + at, to + at, part); !status)
        return status;
      if (requireFinite && firstNonFinite(state.type, to + at, part / plan::sizeOf(state.type)))
        return failed(fmt::format("parameter '{}' holds values that are not finite; it is not "
                                  "exported",
                                  state.name));
    }
    return ok();
  }

  /// A line of the file is a column of the parameters: some columns of all of them at a time.
  Status writeTurned(const plan::ForeignTensor &tensor) {
    const auto columns = uint64_t(tensor.shape[0]), rows = uint64_t(tensor.shape[1]);
    const uint64_t size = plan::sizeOf(tensor.type);
    const uint64_t step =
        std::clamp<uint64_t>(tileBytes / (rows * size), 1, std::max<uint64_t>(columns, 1));
    for (uint64_t column = 0; column < columns; column += step) {
      const uint64_t width = std::min(step, columns - column);
      bytes.resize(rows * width * size);
      for (const plan::ForeignTensor::Piece &piece : tensor.pieces) {
        const plan::State &state = *states[piece.parameter];
        // Whole rows lie one behind the other.
        const uint64_t atOnce = width == columns ? uint64_t(piece.rows) : 1;
        for (uint64_t row = 0; row < uint64_t(piece.rows); row += atOnce)
          if (Status status = read(state, ((uint64_t(piece.row) + row) * columns + column) * size,
                                   bytes.data() + (uint64_t(piece.first) + row) * width * size,
                                   atOnce * width * size);
              !status)
            return status;
      }
      turned.resize(bytes.size());
      for (uint64_t row = 0; row < rows; ++row)
        for (uint64_t i = 0; i < width; ++i)
          std::memcpy(turned.data() + (i * rows + row) * size,
                      bytes.data() + (row * width + i) * size, size);
      if (Status status = file.append(turned.data(), turned.size()); !status)
        return status;
    }
    return ok();
  }

  const std::vector<const plan::State *> &states;
  const ReadState &readState;
  const bool requireFinite;
  FileWriter &file;
  std::vector<std::byte> bytes, turned;
};

Status writeTensors(const plan::Plan &plan, const ReadState &read, bool requireFinite,
                    FileWriter &file) {
  const std::vector<const plan::State *> states = statesOf(plan, plan::State::Role::Parameter);
  std::vector<plan::StoredParameter> parameters;
  for (const plan::State *state : states)
    parameters.push_back({state->name, state->shape, state->type});
  Result<std::vector<plan::ForeignTensor>> tensors =
      plan::foreignTensors(plan.interchange, parameters);
  if (!tensors)
    return tensors.error();
  // Larger elements first, so that all are aligned.
  std::stable_sort(tensors->begin(), tensors->end(), [](const auto &a, const auto &b) {
    return plan::sizeOf(a.type) > plan::sizeOf(b.type);
  });
  std::vector<std::pair<std::string, TensorInfo>> entries;
  for (const plan::ForeignTensor &tensor : *tensors)
    entries.push_back({tensor.name, {safetensorsName(tensor.type), tensor.shape}});
  if (Status status = file.append(safetensorsHeader(entries)); !status)
    return status;
  Exporter exporter(states, read, requireFinite, file);
  for (const plan::ForeignTensor &tensor : *tensors)
    if (Status status = exporter.write(tensor); !status)
      return status;
  return ok();
}

/// What PyTorch calls the parameters' type: that of most elements.
std::string torchType(const plan::Plan &plan) {
  uint64_t f32 = 0, bf16 = 0;
  for (const plan::State *state : statesOf(plan, plan::State::Role::Parameter))
    (state->type == plan::DType::F32 ? f32 : bf16) += bytesOf(*state) / plan::sizeOf(state->type);
  return bf16 > f32 ? "bfloat16" : "float32";
}

/// A path without slashes at its end.
std::string trimmed(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  return path;
}

} // namespace

Status checkExport(const plan::Plan &plan, const std::string &path) {
  if (plan.interchange.config.empty())
    return badInput(fmt::format("--export-hf: {} states no config.json; say in the model file what "
                                "it holds, as with config(\"model_type\", …)",
                                plan.model));
  std::error_code error;
  const fs::file_status found = fs::status(path, error);
  if (fs::exists(found) && (!fs::is_directory(found) || !fs::is_empty(path, error)))
    return badInput(fmt::format("--export-hf {}: is there, and not an empty directory; name a new "
                                "one",
                                path));
  if (Status status = makeWritableDirectory(directoryOf(trimmed(path))); !status)
    return badInput("--export-hf " + status.error().message);
  return ok();
}

Result<std::vector<std::string>> tokenizerFiles(const std::string &path) {
  std::error_code error;
  if (fs::is_regular_file(path, error))
    return std::vector<std::string>{path};
  if (!fs::is_directory(path, error))
    return badInput(fmt::format("--tokenizer {}: is neither a file nor a folder", path));
  std::vector<std::string> files;
  for (const char *name : besideNames)
    if (std::string file = fmt::format("{}/{}", path, name); fs::is_regular_file(file, error))
      files.push_back(std::move(file));
  if (files.empty())
    return badInput(
        fmt::format("--tokenizer {}: holds no file of a tokenizer, as tokenizer.json", path));
  return files;
}

Status exportFolder(const plan::Plan &plan, const ReadState &read, const std::string &path,
                    const std::vector<std::string> &beside, bool requireFinite) {
  const std::string target = trimmed(path),
                    temporary = fmt::format("{}.tmp-{}", target, randomDigits());
  if (Status status = makeDirectories(temporary); !status)
    return status;
  auto writeFile = [&](const std::string &name, auto fill) -> Status {
    Result<FileWriter> file = FileWriter::create(fmt::format("{}/{}", temporary, name),
                                                 fmt::format("{}/{}", target, name));
    if (!file)
      return file.error();
    if (Status status = fill(*file); !status)
      return status;
    return file->finish();
  };
  auto all = [&]() -> Status {
    if (Status status = writeFile(
            "model.safetensors",
            [&](FileWriter &file) { return writeTensors(plan, read, requireFinite, file); });
        !status)
      return status;
    if (Status status =
            writeFile("config.json",
                      [&](FileWriter &file) {
                        return file.append(configText(plan.interchange.config, torchType(plan)));
                      });
        !status)
      return status;
    for (const std::string &from : beside) {
      Result<std::string> text = readInput(from, copiedKind);
      if (!text)
        return text.error();
      if (Status status = writeFile(fs::path(from).filename(),
                                    [&](FileWriter &file) { return file.append(*text); });
          !status)
        return status;
    }
    if (Status status = syncDirectory(temporary); !status)
      return status;
    if (std::rename(temporary.c_str(), target.c_str()) != 0)
      return writeError(target, errno);
    return syncDirectory(directoryOf(target));
  };
  Status status = all();
  if (!status)
    removeTree(temporary);
  return status;
}

std::vector<std::string> notExported(const plan::Plan &plan) {
  std::vector<std::string> names;
  for (const plan::ForeignParameter &parameter : plan.interchange.parameters)
    if (parameter.parts.empty())
      names.push_back(parameter.name);
  return names;
}

} // namespace nano
