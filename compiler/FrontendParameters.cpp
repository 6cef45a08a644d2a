// The front end's functions for parameters that are not trained, tables, and how things start.
#include "compiler/Frontend.h"

#include "compiler/NumbersFile.h"
#include "compiler/Recorder.h"

#include <fmt/format.h>

namespace nano::frontend {

namespace {

/// Elements of a table or initial value at most: what a plan file can hold.
constexpr int64_t mostNumbers = int64_t(1) << 28;

void checkCount(int64_t count, const char *what, Line at) {
  if (count < 1 || count > mostNumbers)
    fail(at, fmt::format("{}: {} numbers; give 1 to {}", what, count, mostNumbers));
}

/// What a function of the model file returns for `i`; its exceptions become errors of the line.
template <typename F>
auto calling(F call, const void *context, int64_t i, const char *what, Line at) {
  try {
    return call(context, i);
  } catch (const ModelError &) {
    throw;
  } catch (const std::exception &error) {
    fail(at, fmt::format("{}: its function threw an exception for {}: {}", what, i, error.what()));
  } catch (...) {
    fail(at, fmt::format("{}: its function threw an exception for {}", what, i));
  }
}

} // namespace

Init constants(std::initializer_list<double> values, Line at) {
  checkCount(static_cast<int64_t>(values.size()), "constants", at);
  Init init;
  if (values.size() > sizeof init.values / sizeof init.values[0])
    return Recorder::current().numbers(values);
  init.count = 0;
  for (double value : values)
    init.values[init.count++] = value;
  return init;
}

Init recordNumbers(int64_t count, const void *context, double (*call)(const void *, int64_t),
                   Line at) {
  checkCount(count, "constants", at);
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = calling(call, context, i, "constants", at);
  return Recorder::current().numbers(std::move(values));
}

Init fromFile(const char *path, Line at) {
  Recorder &recorder = Recorder::current();
  NumbersFile file = readNumbers(recorder.pathOf(path), mostNumbers);
  if (!file.error.empty())
    fail(at, fmt::format("fromFile: {}", file.error));
  return recorder.numbers(std::move(file.values));
}

Init recordBlocks(int64_t count, const void *context, Init (*call)(const void *, int64_t),
                  Line at) {
  // As many as a plan describes one by one.
  constexpr int64_t mostBlocks = int64_t(1) << 16;
  if (count < 1 || count > mostBlocks)
    fail(at, fmt::format("byBlocks: {} blocks; give 1 to {}", count, mostBlocks));
  std::vector<Init> parts;
  for (int64_t i = 0; i < count; ++i)
    parts.push_back(calling(call, context, i, "byBlocks", at));
  return Recorder::current().blocks(std::move(parts));
}

Init copyOf(const At &source) { return Recorder::current().copyOf(source, false); }
Init transposeOf(const At &source) { return Recorder::current().copyOf(source, true); }

Tensor frozen(const Name &name, const Shape &shape, DType type, const Init &init, Line at) {
  return Recorder::current().frozen(name.text, shape, type, init, at);
}

Tensor table(const Name &name, const Shape &shape, DType type, const Init &init, Line at) {
  return Recorder::current().table(name.text, shape, type, init, at);
}

} // namespace nano::frontend
