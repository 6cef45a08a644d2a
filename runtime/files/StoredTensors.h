// Tensors that lie in safetensors files, whole or in stretches of elements.
//
// An entry of a file is a whole tensor, under its name and with its shape, or the elements
// [first, end) of one, under the name "NAME[first:end]", with shape [end − first].
#pragma once

#include "base/Status.h"
#include "runtime/files/Safetensors.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace nano {

/// The name of an entry with the elements [first, first + count) of a tensor.
std::string entryName(const std::string &tensor, uint64_t first, uint64_t count);

/// Where states are read from.
class TensorSource {
public:
  TensorSource() = default;
  TensorSource(TensorSource &&) = default;
  TensorSource &operator=(TensorSource &&) = default;
  virtual ~TensorSource() = default;

  /// Consecutive elements of a tensor, at most some MiB of them.
  struct Stretch {
    uint64_t first = 0;               ///< the number of the first one in the tensor
    std::span<const std::byte> bytes; ///< valid until the next ones are read
    const std::string &file;          ///< the path of the file that they are from
  };
  using Take = std::function<Status(const Stretch &stretch)>;
  /// Whether it has a tensor of that name.
  virtual bool has(const std::string &tensor) const = 0;
  /// Hands out the elements [first, first + count) of a tensor that is there, in order. Failed,
  /// naming the file, when it has become shorter since it was opened; errors of `take`.
  virtual Status read(const std::string &tensor, uint64_t first, uint64_t count,
                      const Take &take) const = 0;
  /// XXH3 of the files, whole.
  virtual Result<uint64_t> hash() const = 0;
};

/// Files opened for reading, with an index of what lies where.
class StoredTensors : public TensorSource {
public:
  StoredTensors() = default;
  /// A file whose entries are whole tensors.
  explicit StoredTensors(SafetensorsFile file);
  /// Files that hold every element of the tensors of `table` once and nothing else. BadInput,
  /// naming the file and the tensor, when they do not.
  static Result<StoredTensors> open(std::vector<SafetensorsFile> files, TensorTable table);

  const TensorTable &tensors() const { return table; }
  bool has(const std::string &tensor) const override { return table.count(tensor) > 0; }
  Status read(const std::string &tensor, uint64_t first, uint64_t count,
              const Take &take) const override;
  Result<uint64_t> hash() const override;

private:
  /// Elements of a tensor that are an entry of a file.
  struct Part {
    size_t file = 0; ///< of `files`
    const TensorEntry *entry = nullptr;
    uint64_t count = 0;
  };

  std::vector<SafetensorsFile> files;
  TensorTable table;
  std::map<std::string, std::map<uint64_t, Part>> parts; ///< by tensor, by first element
};

} // namespace nano
