// Exact operations on strided byte sets: run by run, on one row where all rows are alike.
#include "passes/verify/ByteSet.h"

#include <algorithm>
#include <optional>

namespace nano::verify {

ByteSet ByteSet::strided(uint64_t start, llvm::ArrayRef<int64_t> shape,
                         llvm::ArrayRef<int64_t> strides, uint64_t elementBytes) {
  ByteSet set;
  set.start = start;
  set.run = elementBytes;
  llvm::SmallVector<Dim> dims;
  for (auto [size, stride] : llvm::zip(shape, strides)) {
    if (size == 0)
      return {start, 0, {}};
    if (size > 1)
      dims.push_back({uint64_t(size), uint64_t(stride) * elementBytes});
  }
  std::sort(dims.begin(), dims.end(),
            [](const Dim &a, const Dim &b) { return a.stride < b.stride; });
  for (const Dim &dim : dims) { // from the innermost
    if (set.dims.empty() && dim.stride == set.run)
      set.run *= dim.count;
    else if (!set.dims.empty() && dim.stride == set.dims.back().stride * set.dims.back().count)
      set.dims.back().count *= dim.count;
    else
      set.dims.push_back(dim);
  }
  std::reverse(set.dims.begin(), set.dims.end());
  return set;
}

bool ByteSet::contains(uint64_t byte) const {
  if (byte < start)
    return false;
  uint64_t rest = byte - start;
  for (const Dim &dim : dims) {
    uint64_t step = std::min(rest / dim.stride, dim.count - 1);
    rest -= step * dim.stride;
  }
  return rest < run;
}

namespace {

/// Walks over the runs of a set, in increasing order.
class Runs {
public:
  explicit Runs(const ByteSet &set)
      : set(set), steps(set.dims.size(), 0), at(set.start), done(set.isEmpty()) {}

  bool isDone() const { return done; }
  uint64_t begin() const { return at; }
  uint64_t end() const { return at + set.run; }
  void next() {
    for (size_t i = set.dims.size(); i-- > 0;) {
      at += set.dims[i].stride;
      if (++steps[i] < set.dims[i].count)
        return;
      at -= set.dims[i].stride * set.dims[i].count;
      steps[i] = 0;
    }
    done = true;
  }

private:
  const ByteSet &set;
  llvm::SmallVector<uint64_t, 2> steps;
  uint64_t at;
  bool done;
};

/// The set's part in the first of the `count` rows of `pitch` bytes that fill the buffer, if it is
/// the same in every row.
std::optional<ByteSet> oneRow(const ByteSet &set, const ByteSet &whole, uint64_t count,
                              uint64_t pitch) {
  if (set == whole)
    return ByteSet::interval(whole.start, pitch);
  if (set.dims.empty() || set.dims[0].count != count || set.dims[0].stride != pitch)
    return std::nullopt;
  ByteSet row{set.start, set.run, {}};
  row.dims.append(set.dims.begin() + 1, set.dims.end());
  if (row.start < whole.start || row.end() > whole.start + pitch)
    return std::nullopt;
  return row;
}

} // namespace

void ByteIntervals::add(const ByteSet &set) {
  std::vector<Interval> merged;
  auto append = [&](uint64_t begin, uint64_t end) {
    if (!merged.empty() && begin <= merged.back().second)
      merged.back().second = std::max(merged.back().second, end);
    else
      merged.push_back({begin, end});
  };
  auto old = list.begin();
  for (Runs runs(set); !runs.isDone(); runs.next()) {
    for (; old != list.end() && old->first <= runs.begin(); ++old)
      append(old->first, old->second);
    append(runs.begin(), runs.end());
  }
  for (; old != list.end(); ++old)
    append(old->first, old->second);
  list = std::move(merged);
}

void ByteIntervals::remove(const ByteSet &set) {
  std::vector<Interval> kept;
  Runs runs(set);
  for (auto [begin, end] : list) {
    while (!runs.isDone() && runs.end() <= begin)
      runs.next();
    while (!runs.isDone() && runs.begin() < end) {
      if (begin < runs.begin())
        kept.push_back({begin, runs.begin()});
      begin = runs.end();
      if (begin >= end)
        break;
      runs.next();
    }
    if (begin < end)
      kept.push_back({begin, end});
  }
  list = std::move(kept);
}

void ByteIntervals::add(const ByteIntervals &other) {
  for (auto [begin, end] : other.list)
    add(ByteSet::interval(begin, end - begin));
}

void ByteIntervals::remove(const ByteIntervals &other) {
  for (auto [begin, end] : other.list)
    remove(ByteSet::interval(begin, end - begin));
}

std::optional<uint64_t> ByteIntervals::firstMissing(const ByteSet &set) const {
  auto at = list.begin();
  for (Runs runs(set); !runs.isDone(); runs.next()) {
    while (at != list.end() && at->second <= runs.begin())
      ++at;
    if (at == list.end() || runs.begin() < at->first)
      return runs.begin();
    if (at->second < runs.end())
      return at->second;
  }
  return std::nullopt;
}

bool intersect(const ByteSet &a, const ByteSet &b) {
  if (a.isEmpty() || b.isEmpty() || a.end() <= b.start || b.end() <= a.start)
    return false;
  if (a.isInterval() && b.isInterval())
    return true;
  // Rows of one pitch that do not reach into the next row: compare one row.
  if (!a.isInterval() && !b.isInterval() && a.dims[0] == b.dims[0]) {
    ByteSet rowA{a.start, a.run, {}}, rowB{b.start, b.run, {}};
    rowA.dims.append(a.dims.begin() + 1, a.dims.end());
    rowB.dims.append(b.dims.begin() + 1, b.dims.end());
    uint64_t first = std::min(rowA.start, rowB.start), last = std::max(rowA.end(), rowB.end());
    if (last - first <= a.dims[0].stride)
      return intersect(rowA, rowB);
  }
  Runs runsA(a), runsB(b);
  while (!runsA.isDone() && !runsB.isDone()) {
    if (runsA.end() <= runsB.begin())
      runsA.next();
    else if (runsB.end() <= runsA.begin())
      runsB.next();
    else
      return true;
  }
  return false;
}

bool isValid(const ByteSet &wanted, llvm::ArrayRef<ByteEvent> events, const ByteSet &whole,
             uint64_t &missing) {
  ByteSet row = wanted;
  std::vector<ByteEvent> rowEvents;
  // The outermost dimension of the first strided set tells the pitch, if there is one.
  const ByteSet *strided = wanted.isInterval() ? nullptr : &wanted;
  for (const ByteEvent &event : events)
    if (!strided && !event.bytes.isInterval())
      strided = &event.bytes;
  if (strided && strided->dims[0].count * strided->dims[0].stride == whole.run) {
    auto [count, pitch] = strided->dims[0];
    std::optional<ByteSet> wantedRow = oneRow(wanted, whole, count, pitch);
    for (const ByteEvent &event : events) {
      std::optional<ByteSet> eventRow =
          wantedRow ? oneRow(event.bytes, whole, count, pitch) : std::nullopt;
      if (!eventRow) {
        wantedRow.reset();
        break;
      }
      rowEvents.push_back({*eventRow, event.valid, event.command});
    }
    if (wantedRow) {
      row = *wantedRow;
      events = rowEvents;
    }
  }
  ByteIntervals valid;
  for (const ByteEvent &event : events) {
    if (event.valid)
      valid.add(event.bytes);
    else
      valid.remove(event.bytes);
  }
  std::optional<uint64_t> first = valid.firstMissing(row);
  if (first)
    missing = *first;
  return !first;
}

} // namespace nano::verify
