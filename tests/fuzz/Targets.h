// What is fuzzed: each function reads bytes as one kind of input and must return, whatever they
// are. It may refuse them; it must not crash, hang, or break what it promises, for which it aborts.
#pragma once

#include <string>
#include <string_view>

namespace nano::fuzz {

/// A plan file. Checksums are put right first, so that what lies behind them is reached. A plan
/// that is read gives the same plan again when it is written.
void plan(std::string_view bytes);
/// A safetensors file, all of whose tensors are read.
void safetensors(std::string_view bytes);
/// A checkpoint's manifest, its checksum put right first, and the records that ranks send each
/// other. One that is read gives the same manifest again.
void manifest(std::string_view bytes);
/// A token shard, read batch by batch.
void shard(std::string_view bytes);
/// A tuning file.
void tuning(std::string_view bytes);
/// A tokenizer.json, with which tokens are then decoded.
void tokenizer(std::string_view bytes);
/// What somebody who knows no secret says to rank 0 of a job.
void join(std::string_view bytes);
/// A file of a machine's rates, with which a product and a collective are then predicted.
void machine(std::string_view bytes);
/// A file of times.
void times(std::string_view bytes);
/// IR as text, parsed and verified.
void ir(std::string_view bytes);

struct Target {
  const char *name; ///< of the function above
  void (*run)(std::string_view bytes);
  const char *seeds; ///< the folder of files to begin with
};

/// A file in memory, with a path while the object lives; one at a time.
class MemoryFile {
public:
  explicit MemoryFile(std::string_view bytes);
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  ~MemoryFile();
  std::string path() const;

private:
  [[maybe_unused]] int descriptor; ///< of the file; -1 where reading is from memory
};

/// Ends the process, as a crash does, when a promise does not hold.
void require(bool holds, const char *promise);

} // namespace nano::fuzz
