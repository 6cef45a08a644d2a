// Vector clocks: what each thread of a cluster knows to have happened in the others. A memory
// access is ordered after another one when its thread knows of it.
//
// A thread's epoch counts the times that it has told others what it did. Rows of epochs are shared:
// after a barrier all threads of a block hold the same one, so that a barrier costs as much as one
// row, not as one for each thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace nano::emulator {

/// By thread of the cluster: its latest epoch that is known. Shared, never changed.
using Row = std::shared_ptr<const std::vector<uint32_t>>;

/// What a thread had done and knew of its cluster when it last added to a count.
struct Account {
  Row seen;            ///< its own accesses included
  uint32_t stored = 0; ///< its bulk stores up to this number were in memory
};
/// By cluster of the grid and thread in it. Shared, never changed.
using Accounts = std::shared_ptr<const std::map<std::pair<uint32_t, uint32_t>, Account>>;
/// The later account of each thread.
Accounts merged(const Accounts &a, const Accounts &b);

/// One thread's clock.
struct Clock {
  uint32_t thread = 0;   ///< index in the cluster
  uint32_t epoch = 1;    ///< of its accesses now
  Row seen;              ///< others' accesses that its own come after; null: none
  Row fenced;            ///< likewise, of those that asynchronous operations see too
  Row read;              ///< likewise, of which only the reads come before its own
  uint32_t async = 0;    ///< asynchronous operations up to this number are known to be done
  uint32_t stored = 0;   ///< own bulk stores up to this number are in memory
  Accounts others;       ///< of other clusters' threads, by counts that were waited for
  Accounts othersFenced; ///< likewise, of what asynchronous operations come after too

  /// Whether accesses of `other` in `epoch` come before what this thread does now.
  bool knows(uint32_t other, uint32_t epochOfOther) const {
    return other == thread || (seen && (*seen)[other] >= epochOfOther);
  }
  /// Whether reads of `other` in `epoch` come before what this thread does now.
  bool knowsRead(uint32_t other, uint32_t epochOfOther) const {
    return knows(other, epochOfOther) || (read && (*read)[other] >= epochOfOther);
  }
  /// Whether a proxy fence lies between these accesses and now.
  bool knowsFenced(uint32_t other, uint32_t epochOfOther) const {
    return fenced && (*fenced)[other] >= epochOfOther;
  }
  /// A proxy fence: what is known by now, own accesses included, is fenced.
  void fence(uint32_t threads);
  /// The thread of `cluster` adds to a count: all that it knows and has done, for those that wait.
  Accounts account(uint32_t cluster, uint32_t threads);
};

/// What threads told when they arrived at a barrier, for those that wait at it.
class Release {
public:
  /// The thread tells all that it knows and has done. Its next accesses are of a new epoch.
  void add(Clock &clock, uint32_t threads);
  /// The thread tells those of another block that it has read what it has read, not what it wrote.
  void addReads(Clock &clock, uint32_t threads);
  /// Asynchronous operation `number` is done.
  void addAsync(uint32_t number) { async = std::max(async, number); }
  void add(const Release &other);
  /// The thread learns what was told.
  void acquire(Clock &clock);
  void clear() { *this = Release(); }

private:
  using Values = std::shared_ptr<std::vector<uint32_t>>;
  static void merge(Values &into, const Row &row);
  static Values copyOf(const Row &row) { return std::make_shared<std::vector<uint32_t>>(*row); }
  /// The union of a thread's row and `told`.
  struct Learned {
    Row from, result;
    Row operator()(const Row &row, const Row &told);
  };

  /// What was told of one kind.
  struct Told {
    Values values;
    Row last; ///< merged last; threads of one barrier often hold the same row
    Learned learned;
    /// Before a change: rows that were handed out must not change any more.
    void own();
    void add(const Row &row);
    void add(const Told &other);
    void acquire(Row &row) {
      if (values)
        row = learned(row, values);
    }
  };
  Told seen, fenced, read;
  Accounts others;
  uint32_t async = 0;
};

} // namespace nano::emulator
