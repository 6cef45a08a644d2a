// Compiled kernels of a device on disk, by what they were compiled from.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nano {

/// Receives lines for the user.
using Report = std::function<void(const std::string &)>;

/// A folder with one file an entry. Many processes may use it at once: an entry is written beside
/// its place and renamed into it, so that whoever opens it finds a whole one. Nothing here fails: a
/// folder that cannot be used means that nothing is kept. What is no regular file is neither read
/// nor replaced. Machine code from the cache runs: a folder that another user owns or may write to
/// is not used, nor an entry that another may have written; the folder is made this user's alone.
class BuildCache {
public:
  /// What messages say of the entries: what they are, and what happens without them all, or
  /// without one.
  struct Words {
    const char *entries = "compiled kernels", *loss = "every start compiles them again",
               *again = "the kernel is compiled again";
  };
  /// An empty folder's name makes a cache that keeps nothing. `ending`: of its files' names, which
  /// tells the devices' entries apart, e.g. ".cubin".
  BuildCache(std::string folder, std::string ending, Report report)
      : BuildCache(std::move(folder), std::move(ending), std::move(report), Words()) {}
  BuildCache(std::string folder, std::string ending, Report report, Words words);

  /// NANO_CACHE_DIR; else `nano` in XDG_CACHE_HOME or in ~/.cache; empty when none is known, or
  /// when NANO_CACHE_DIR is set and empty.
  static std::string defaultFolder();
  /// The name of an entry: 64 hexadecimal digits that depend on every byte of every part, by a hash
  /// for which nobody can make other parts with the same ones.
  static std::string keyOf(const std::vector<std::string_view> &parts);

  /// The entry's bytes; nothing when there is none, or when it is damaged, which is said to the
  /// user. Safe from several threads.
  std::optional<std::string> find(const std::string &key);
  /// Keeps the bytes. The first failure is said to the user. Safe from several threads.
  void store(const std::string &key, std::string_view bytes);

private:
  /// Whether the folder is there and this user's; why not, is said once.
  bool isOwn();
  /// Gives a line to the user, if anybody listens.
  void say(const std::string &line);
  std::string pathOf(const std::string &key) const { return folder + "/" + key + ending; }

  std::string folder, ending;
  Report report;
  Words words;
  std::atomic<bool> canStore = true;   ///< until it failed, which is said once
  std::atomic<bool> isForeign = false; ///< the folder is another's, which has been said
};

} // namespace nano
