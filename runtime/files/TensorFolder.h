// A folder that holds a checkpoint as HuggingFace's libraries write it: model.safetensors, or
// several files and model.safetensors.index.json, which says what lies in which. Reading trusts
// nothing: the index must be the truth.
#pragma once

#include "base/Status.h"
#include "runtime/files/Safetensors.h"

#include <map>
#include <string>
#include <vector>

namespace nano {

/// The files of a folder, opened and checked. Move-only.
class TensorFolder {
public:
  /// The folder at `path`; links in it are followed. BadInput, one line that names the file and the
  /// tensor: a folder without tensors, without a file that its index names, or of which the index
  /// does not say what is there.
  static Result<TensorFolder> open(const std::string &path);
  /// A file that stands for a folder.
  explicit TensorFolder(SafetensorsFile file);

  /// A tensor, and the file that it lies in.
  struct Place {
    const SafetensorsFile *file = nullptr;
    const TensorEntry *entry = nullptr;
  };
  /// By name; valid as long as the folder is and stays where it is.
  std::map<std::string, Place> tensors() const;
  /// XXH3 of the files, whole; those of one file as its own.
  Result<uint64_t> hash() const;
  const std::string &path() const { return name; }

private:
  TensorFolder() = default;
  Status openShards(const std::string &indexPath);

  std::string name;
  std::vector<SafetensorsFile> files;
};

} // namespace nano
