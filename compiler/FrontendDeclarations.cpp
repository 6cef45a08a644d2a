// The front end's functions for sizes, schedules, parameters and programs: arguments of Frontend.h
// to calls of the recorder.
#include "compiler/Frontend.h"

#include "compiler/Recorder.h"

#include <fmt/format.h>

#include <cstring>

namespace nano::frontend {

double epsilon(DType type) {
  switch (type) {
  case DType::f32:
    return 0x1p-23;
  case DType::bf16:
    return 0x1p-7;
  case DType::f8e4m3:
    return 0x1p-3;
  case DType::f8e5m2:
    return 0x1p-2;
  case DType::i32:
  case DType::u16:
    return 1;
  }
  return 0;
}

Shape::Shape(std::initializer_list<int64_t> list, Line at) {
  if (list.size() > maxRank)
    fail(at,
         fmt::format("a shape has {} dimensions; at most {} are possible", list.size(), maxRank));
  for (int64_t size : list)
    sizes[rank++] = size;
}

Axes::Axes(std::initializer_list<int64_t> list, Line at) {
  if (list.size() == 0 || list.size() > Shape::maxRank)
    fail(at, fmt::format("{} axes; name 1 to {}", list.size(), Shape::maxRank));
  for (int64_t axis : list)
    axes[count++] = axis;
}

Name::Name(std::initializer_list<Piece> pieces, Line at) {
  std::string joined;
  for (const Piece &piece : pieces)
    joined += piece.text ? std::string(piece.text) : std::to_string(piece.number);
  if (joined.size() >= sizeof text)
    fail(at, fmt::format("the name '{}' is longer than {} bytes", joined, sizeof text - 1));
  std::memcpy(text, joined.c_str(), joined.size() + 1);
}

Defaults::Defaults(std::initializer_list<Default> list, Line at) : at(at) {
  if (list.size() > sizeof values / sizeof values[0])
    fail(at, fmt::format("NANO_DEFAULTS: {} values; at most 64 are possible", list.size()));
  for (const Default &value : list)
    values[count++] = value;
}

void throwListOutOfRange(int64_t i, int64_t count) {
  throw ModelError(fmt::format("the model reads position {} of a list of {}", i, count));
}
void throwListTooLong(int64_t count) {
  throw ModelError(fmt::format("the model asks for sizes that do not fit: a list of {} things; at "
                               "most {}",
                               count, longestList));
}

int64_t hyper(const char *name, int64_t value, const char *about, int64_t least, Line at) {
  return Recorder::current().hyper(name, value, about, least, at);
}
double hyper(const char *name, double value, const char *about, Line at) {
  return Recorder::current().hyper(name, value, about, at);
}
DType hyper(const char *name, std::initializer_list<DType> allowed, const char *about, Line at) {
  std::vector<std::string> words;
  for (DType type : allowed)
    words.emplace_back(nameOf(type));
  return allowed.begin()[Recorder::current().hyper(name, words, about, at)];
}
int hyper(const char *name, std::initializer_list<const char *> allowed, const char *about,
          Line at) {
  const std::vector<std::string> words(allowed.begin(), allowed.end());
  return Recorder::current().hyper(name, words, about, at);
}

void require(bool condition, const char *what, Line at) {
  if (!condition)
    fail(at, what);
}

//===- Schedules ---------------------------------------------------------------===//

namespace {
Sched node(SchedNode::Kind kind, std::initializer_list<Sched> operands = {}, double number = 0) {
  SchedNode made{kind, number, {}};
  int i = 0;
  for (const Sched &operand : operands) {
    if (operand.id == 0)
      throw ModelError("a schedule is made of one that was never given a value");
    made.operands[i++] = operand.id;
  }
  return Recorder::current().sched(made);
}
} // namespace

Sched::Sched(double number) : id(node(SchedNode::Number, {}, number).id) {}
bool isZero(const Sched &a) { return Recorder::current().numberOf(a) == 0.0; }
double numberOr(const Sched &a, double otherwise) {
  return Recorder::current().numberOf(a).value_or(otherwise);
}
Sched step() { return node(SchedNode::Step); }
Sched iterations() { return node(SchedNode::Iterations); }
Sched operator+(const Sched &a, const Sched &b) { return node(SchedNode::Add, {a, b}); }
Sched operator-(const Sched &a, const Sched &b) { return node(SchedNode::Sub, {a, b}); }
Sched operator*(const Sched &a, const Sched &b) { return node(SchedNode::Mul, {a, b}); }
Sched operator/(const Sched &a, const Sched &b) { return node(SchedNode::Div, {a, b}); }
Sched operator-(const Sched &a) { return node(SchedNode::Neg, {a}); }
Sched min(const Sched &a, const Sched &b) { return node(SchedNode::Min, {a, b}); }
Sched max(const Sched &a, const Sched &b) { return node(SchedNode::Max, {a, b}); }
Sched floor(const Sched &a) { return node(SchedNode::Floor, {a}); }
Sched ceil(const Sched &a) { return node(SchedNode::Ceil, {a}); }
Sched sqrt(const Sched &a) { return node(SchedNode::Sqrt, {a}); }
Sched exp(const Sched &a) { return node(SchedNode::Exp, {a}); }
Sched log(const Sched &a) { return node(SchedNode::Log, {a}); }
Sched cos(const Sched &a) { return node(SchedNode::Cos, {a}); }
Sched pow(const Sched &a, const Sched &b) { return node(SchedNode::Pow, {a, b}); }
Sched select(const SchedLess &less, const Sched &x, const Sched &y) {
  return node(SchedNode::SelectLess, {less.a, less.b, x, y});
}

//===- Parameters, optimizers, programs ----------------------------------------===//

Tensor param(const Name &name, const Shape &shape, DType type, const Init &init,
             const Optimizer &optimizer, Line at) {
  return Recorder::current().param(name.text, shape, type, init, optimizer, at);
}
void fp8Products(const At &weight, const Fp8 &how) { Recorder::current().fp8Products(weight, how); }
Fp8 fp8Hyper(Line at) { return Recorder::current().fp8Hyper(at); }
Tensor scalar(const Name &name, const Sched &value, DType type, Line at) {
  return Recorder::current().scalar(name.text, value, type, at);
}
void training(const Training &how, Line at) { Recorder::current().training(how, at); }
void beginStage(const Name &name, const Stage &how, Line at) {
  Recorder::current().beginStage(name.text, how, at);
}
void endStage(Line at) { Recorder::current().endStage(at); }

void documents(const Documents &how, Line at) { Recorder::current().documents(how, at); }

Tensor column(const char *name, const ColumnType &type, Place place, Line at) {
  return Recorder::current().column(name, type, place, at);
}

void recordLoss(bool validation, int64_t tokens, Loss loss, const void *context,
                Tensor (*call)(const void *, Tensor, Tensor), Line at) {
  Recorder::current().recordLoss(validation, tokens, loss, context, call, at);
}
void recordLogits(int64_t tokens, const void *context, Tensor (*call)(const void *, Tensor),
                  Line at) {
  Recorder::current().recordLogits(tokens, context, call, at);
}

} // namespace nano::frontend
