// Draws shapes, layouts, operations and outputs of a task.
#include "tests/codegen/RandomTasks.h"

#include <map>
#include <random>
#include <sstream>

namespace nano::test {

namespace {
using Shape = std::vector<int64_t>;

/// What part of the iteration space a tensor has.
enum class Extent { Full, Row, Column, Scalar, Reduced };

struct Tensor {
  std::string name;
  Extent extent;
  std::string element;
};

class Generator {
public:
  Generator(TaskKind kind, uint64_t seed, int64_t leading)
      : kind(kind), random(seed * 7919 + static_cast<uint64_t>(kind)) {
    static const int64_t columnChoices[] = {1,  2,  5,   8,   15,  16,  17,  24,  31,  32,  48,
                                            64, 80, 100, 128, 144, 200, 256, 259, 512, 1030};
    bool hasMiddle = kind == TaskKind::ColumnReductions || kind == TaskKind::MixedReductions;
    int64_t rank = hasMiddle ? pick(2, 3) : kind == TaskKind::Elements ? pick(0, 3) : pick(1, 3);
    for (int64_t i = 0; i + 1 < rank; ++i)
      full.push_back(pick(1, 9));
    if (rank > 0)
      full.push_back(columnChoices[pick(0, std::size(columnChoices) - 1)]);
    bf16Share = pick(0, 2) == 0 ? 0 : pick(1, 6);
    if (leading > 0 && full.size() > 1)
      full.front() = leading;
  }

  RandomTask make() {
    int64_t inputs = pick(1, 4);
    input(Extent::Full);
    for (int64_t i = 1; i < inputs; ++i)
      input(randomExtent());
    int64_t steps = pick(1, 14);
    for (int64_t i = 0; i < steps; ++i)
      step();
    return finish();
  }

private:
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  }
  bool chance(int64_t percent) { return pick(1, 100) <= percent; }

  Extent randomExtent() {
    if (kind == TaskKind::Elements || full.empty())
      return chance(75) ? Extent::Full : Extent::Scalar;
    switch (pick(0, 5)) {
    case 0:
      return Extent::Row;
    case 1:
      return Extent::Column;
    case 2:
      return Extent::Scalar;
    default:
      return Extent::Full;
    }
  }

  Shape shapeOf(Extent extent) const {
    switch (extent) {
    case Extent::Full:
      return full;
    case Extent::Row:
      return Shape(full.begin(), full.end() - 1);
    case Extent::Column:
      return {full.back()};
    case Extent::Scalar:
      return {};
    case Extent::Reduced: {
      Shape shape = full;
      shape.erase(shape.end() - 2);
      return shape;
    }
    }
    return {};
  }

  static std::string typeText(const char *kind, const Shape &shape, const std::string &element) {
    std::string text = std::string(kind) + "<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + element + ">";
  }
  std::string type(Extent extent, const std::string &element) const {
    return typeText("tensor", shapeOf(extent), element);
  }
  std::string type(const Tensor &tensor) const { return type(tensor.extent, tensor.element); }

  std::string floatType() {
    bool narrow = pick(0, 9) < bf16Share;
    task.hasBf16 |= narrow;
    return narrow ? "bf16" : "f32";
  }

  std::string fresh() { return "%v" + std::to_string(next++); }

  Tensor emit(Extent extent, const std::string &element, const std::string &op) {
    Tensor tensor{fresh(), extent, element};
    body << "    " << tensor.name << " = " << op << "\n";
    values.push_back(tensor);
    return tensor;
  }

  Tensor unary(const std::string &op, const Tensor &x) {
    return emit(x.extent, x.element, "nano." + op + " " + x.name + " : " + type(x));
  }
  Tensor binary(const std::string &op, const Tensor &x, const Tensor &y) {
    return emit(x.extent, x.element, "nano." + op + " " + x.name + ", " + y.name + " : " + type(x));
  }
  Tensor constant(double value, Extent extent, const std::string &element) {
    std::ostringstream text;
    text << std::scientific << value;
    return emit(extent, element, "nano.constant " + text.str() + " : " + type(extent, element));
  }
  Tensor cast(const Tensor &x, const std::string &element) {
    if (x.element == element)
      return x;
    return emit(x.extent, element,
                "nano.cast " + x.name + " : " + type(x) + " -> " + type(x.extent, element));
  }

  /// A memref with the shape, perhaps part of a wider buffer.
  std::string operand(const Shape &shape, const std::string &element) {
    std::string name = "%b" + std::to_string(nextBuffer++), quoted = "\"" + name.substr(1) + "\"";
    if (shape.empty() || !chance(30)) {
      std::string type = typeText("memref", shape, element);
      program << "    " << name << " = step.buffer " << quoted << " : " << type << "\n";
      memrefTypes[name] = type;
      return name;
    }
    // A slice along one dimension.
    size_t dim = pick(0, shape.size() - 1);
    Shape wide = shape;
    int64_t start = pick(0, 3);
    wide[dim] += start + pick(0, 3);
    Shape strides(shape.size(), 1);
    for (size_t i = shape.size() - 1; i > 0; --i)
      strides[i - 1] = strides[i] * wide[i];
    std::string source = typeText("memref", wide, element), layout;
    for (int64_t stride : strides)
      layout += (layout.empty() ? "" : ", ") + std::to_string(stride);
    std::string view = typeText("memref", shape, element);
    view.pop_back();
    view += ", strided<[" + layout + "], offset: " + std::to_string(start * strides[dim]) + ">>";
    program << "    " << name << "w = step.buffer " << quoted << " : " << source << "\n";
    program << "    " << name << " = step.view " << name << "w : " << source << " to " << view
            << "\n";
    memrefTypes[name] = view;
    return name;
  }

  Tensor input(Extent extent, std::string element = "", int64_t bound = 0) {
    if (element.empty())
      element = chance(12) ? "i32" : floatType();
    if (element == "i32" && bound == 0)
      bound = 50;
    Tensor tensor{"%a" + std::to_string(ins.size()), extent, element};
    ins.push_back(operand(shapeOf(extent), element));
    arguments.push_back(tensor.name + ": " + type(tensor));
    inputTensors.push_back(tensor);
    task.integerBound.push_back(bound);
    values.push_back(tensor);
    return tensor;
  }

  Tensor any() { return values[pick(0, values.size() - 1)]; }

  Tensor anyFloat() {
    Tensor x = any();
    return x.element == "i32" ? scaled(cast(x, "f32"), 0.05) : x;
  }

  Tensor scaled(const Tensor &x, double factor) {
    return binary("mul", x, constant(factor, x.extent, x.element));
  }
  /// x² + 1
  Tensor positive(const Tensor &x) {
    return binary("add", binary("mul", x, x), constant(1.0, x.extent, x.element));
  }

  /// 2·x − 41: of both signs, never 0.
  Tensor odd(const Tensor &x) {
    return binary("sub", binary("add", x, x), constant(41, x.extent, "i32"));
  }

  /// `x` with another extent and element type.
  Tensor as(Tensor x, Extent extent, const std::string &element) {
    x = cast(x, element);
    if (x.extent == extent)
      return x;
    if (x.extent == Extent::Full || x.extent == Extent::Reduced) {
      Tensor other = constant(0.5, Extent::Scalar, element);
      return as(other, extent, element);
    }
    if (extent == Extent::Scalar)
      return constant(0.75, Extent::Scalar, element);
    if (extent == Extent::Full || extent == Extent::Reduced || x.extent == Extent::Scalar) {
      Shape to = shapeOf(extent);
      std::string dims;
      if (x.extent == Extent::Row && extent == Extent::Full)
        for (size_t i = 0; i + 1 < to.size(); ++i)
          dims += (i ? ", " : "") + std::to_string(i);
      else if (x.extent == Extent::Column)
        dims = std::to_string(to.size() - 1);
      else if (x.extent != Extent::Scalar)
        return as(constant(0.25, Extent::Scalar, element), extent, element);
      return emit(extent, element,
                  "nano.broadcast " + x.name + " dims [" + dims + "] : " + type(x) + " -> " +
                      type(extent, element));
    }
    return as(constant(-0.5, Extent::Scalar, element), extent, element);
  }

  /// The larger of two extents, to which both can be spread.
  static Extent join(Extent a, Extent b) {
    if (a == b)
      return a;
    if (a == Extent::Scalar)
      return b;
    if (b == Extent::Scalar)
      return a;
    return Extent::Full;
  }

  void step() {
    switch (pick(0, 17)) {
    case 0:
      unary(chance(60) ? "neg" : "abs", anyFloat());
      break;
    case 1:
      unary(chance(60) ? "tanh" : "erf", anyFloat());
      break;
    case 2:
      unary("sigmoid", anyFloat());
      break;
    case 3:
      unary(chance(50) ? "sin" : "cos", anyFloat());
      break;
    case 4:
      unary("exp", unary("tanh", anyFloat()));
      break;
    case 5:
      unary(chance(40) ? "sqrt" : chance(50) ? "log" : "rsqrt", positive(anyFloat()));
      break;
    case 6: {
      Tensor x = anyFloat();
      binary("div", x, positive(as(anyFloat(), x.extent, x.element)));
      break;
    }
    case 7:
    case 8:
    case 9: {
      Tensor x = anyFloat(), y = anyFloat();
      static const char *names[] = {"add", "sub", "max", "min"};
      Extent extent = join(x.extent, y.extent);
      binary(names[pick(0, 3)], as(x, extent, x.element), as(y, extent, x.element));
      break;
    }
    case 10: {
      Tensor x = anyFloat();
      Tensor y = unary("tanh", as(anyFloat(), x.extent, x.element));
      Tensor product = binary("mul", x, y);
      if (chance(50))
        binary(chance(50) ? "add" : "sub", product, as(anyFloat(), x.extent, x.element));
      else
        binary("sub", as(anyFloat(), x.extent, x.element), product);
      break;
    }
    case 11:
      cast(anyFloat(), floatType());
      break;
    case 12:
      integers();
      break;
    case 13:
      reshaped();
      break;
    case 14:
      if (kind == TaskKind::Rows || kind == TaskKind::RowReductions) {
        Tensor x = anyFloat();
        Tensor whole = as(x, Extent::Full, x.element);
        emit(Extent::Full, whole.element,
             "nano.rotate " + whole.name + " by " + std::to_string(shift()) + " : " + type(whole));
      }
      break;
    case 15:
    case 16:
      reduce();
      break;
    case 17:
      gather();
      break;
    }
  }

  int64_t shift() {
    int64_t columns = full.back();
    return chance(50) ? columns / 2 : pick(0, columns - 1);
  }

  void integers() {
    if (kind == TaskKind::Elements || full.empty()) {
      Tensor a = input(Extent::Full, "i32"), b = input(Extent::Full, "i32");
      static const char *names[] = {"add", "mul", "xor", "and", "or", "shr"};
      Tensor sum = binary(names[pick(0, 5)], a, b);
      Tensor divided = binary(chance(70) ? "div" : "rem", sum,
                              constant(chance(50) ? 8 : 7, Extent::Full, "i32"));
      Tensor x = as(anyFloat(), Extent::Full, "f32"), y = as(anyFloat(), Extent::Full, "f32");
      pickBy(divided, b, x, y);
      return;
    }
    Tensor i = emit(Extent::Full, "i32",
                    "nano.iota " + std::to_string(pick(0, full.size() - 1)) + " : " +
                        type(Extent::Full, "i32"));
    Tensor ids = as(input(chance(50) ? Extent::Row : Extent::Full, "i32"), Extent::Full, "i32");
    if (chance(30))
      i = binary("div", binary("sub", i, ids), constant(pick(1, 9), Extent::Full, "i32"));
    if (chance(30))
      i = binary("div", i, odd(ids));
    Tensor x = as(anyFloat(), Extent::Full, "f32"), y = as(anyFloat(), Extent::Full, "f32");
    pickBy(i, ids, x, y);
  }

  void pickBy(const Tensor &a, const Tensor &b, const Tensor &x, const Tensor &y) {
    static const char *predicates[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    emit(x.extent, x.element,
         std::string("nano.select ") + predicates[pick(0, 5)] + ", " + a.name + ", " + b.name +
             ", " + x.name + ", " + y.name + " : " + type(a) + ", " + type(x));
  }

  /// Into another shape and back.
  void reshaped() {
    Tensor x = as(anyFloat(), Extent::Full, "f32");
    Shape other;
    int64_t elements = 1;
    for (int64_t size : full)
      elements *= size;
    if (full.size() >= 2 && chance(70)) {
      other = full;
      size_t at = kind == TaskKind::Elements ? pick(0, full.size() - 2) : 0;
      other[at] *= other[at + 1];
      other.erase(other.begin() + at + 1);
    } else {
      other = chance(50) ? Shape{elements} : Shape{elements, 1};
    }
    std::string middle = fresh(), otherType = typeText("tensor", other, "f32");
    body << "    " << middle << " = nano.reshape " << x.name << " : " << type(x) << " -> "
         << otherType << "\n";
    std::string sine = fresh();
    body << "    " << sine << " = nano.sin " << middle << " : " << otherType << "\n";
    emit(Extent::Full, "f32",
         "nano.reshape " + sine + " : " + otherType + " -> " + type(Extent::Full, "f32"));
  }

  void reduce() {
    bool columnwise =
        kind == TaskKind::ColumnReductions || (kind == TaskKind::MixedReductions && chance(40));
    bool rowwise =
        kind == TaskKind::RowReductions || (kind == TaskKind::MixedReductions && !columnwise);
    if (!columnwise && !rowwise)
      return;
    if (columnwise) {
      columnReduce();
      return;
    }
    Tensor x = anyFloat();
    if (x.extent == Extent::Reduced)
      return;
    x = as(x, Extent::Full, x.element);
    bool isSum = chance(55), isLogSumExp = !isSum && x.element == "f32" && chance(50);
    if (isSum && chance(40) && x.element == "f32")
      x = binary("mul", x, as(anyFloat(), Extent::Full, "f32"));
    Tensor total = emit(Extent::Row, x.element,
                        std::string("nano.reduce ") +
                            (isSum         ? "sum "
                             : isLogSumExp ? "logsumexp "
                                           : "max ") +
                            x.name + " dims [" + std::to_string(full.size() - 1) +
                            "] : " + type(x) + " -> " + type(Extent::Row, x.element));
    if (isSum)
      scaled(total, 1.0 / static_cast<double>(full.back()));
  }

  void columnReduce() {
    Tensor x = anyFloat();
    if (x.extent == Extent::Reduced)
      return;
    x = as(x, Extent::Full, x.element);
    bool isSum = chance(75);
    Tensor total = emit(Extent::Reduced, x.element,
                        std::string("nano.reduce ") + (isSum ? "sum " : "max ") + x.name +
                            " dims [" + std::to_string(full.size() - 2) + "] : " + type(x) +
                            " -> " + type(Extent::Reduced, x.element));
    if (isSum)
      total = scaled(total, 1.0 / static_cast<double>(full[full.size() - 2]));
    // An epilogue, and another output of its extent so that the sum is used.
    reduced.push_back(chance(50) ? total : unary("tanh", total));
  }

  void gather() {
    if (kind == TaskKind::Elements || full.size() != 2)
      return;
    int64_t rows = pick(1, 40);
    std::string element = floatType();
    Tensor table{"%a" + std::to_string(ins.size()), Extent::Scalar, element};
    Shape shape = {rows, full.back()};
    ins.push_back(operand(shape, element));
    arguments.push_back(table.name + ": " + typeText("tensor", shape, element));
    task.integerBound.push_back(0);
    inputTensors.push_back({"", Extent::Scalar, "none"});
    Tensor ids = input(Extent::Row, "i32", rows);
    emit(Extent::Full, element,
         "nano.gather " + table.name + ", " + ids.name + " : (" +
             typeText("tensor", shape, element) + ", " + type(ids) + ") -> " +
             type(Extent::Full, element));
  }

  RandomTask finish() {
    bool columnwise = kind == TaskKind::ColumnReductions || kind == TaskKind::MixedReductions;
    if (columnwise && reduced.empty())
      columnReduce();
    if (columnwise && reduced.empty()) {
      values = {inputTensors.front()};
      columnReduce();
    }
    std::vector<Tensor> results = reduced;
    if (kind == TaskKind::RowReductions)
      reduce();
    int64_t count = kind == TaskKind::ColumnReductions ? 0 : pick(1, 3);
    std::vector<Tensor> candidates;
    for (const Tensor &value : values)
      if (value.extent == Extent::Full ||
          (value.extent == Extent::Row && kind != TaskKind::Elements && kind != TaskKind::Rows))
        candidates.push_back(value);
    if (kind != TaskKind::ColumnReductions) {
      const Tensor last = values.back(); // `as` adds to the values
      results.push_back(as(last, Extent::Full, last.element));
    }
    for (int64_t i = 1; i < count; ++i)
      results.push_back(candidates[pick(0, candidates.size() - 1)]);

    std::string yields, yieldTypes, outNames, outTypes, inNames, inTypes, argumentText;
    std::vector<bool> taken(ins.size(), false);
    for (const Tensor &result : results) {
      std::string target;
      // In place of an input that has its extent and type.
      for (size_t i = 0; i < ins.size() && target.empty(); ++i)
        if (!taken[i] && inputTensors[i].extent == result.extent &&
            inputTensors[i].element == result.element && result.extent == Extent::Full &&
            chance(35)) {
          taken[i] = true;
          target = ins[i];
        }
      if (target.empty())
        target = operand(shapeOf(result.extent), result.element);
      auto separator = [](std::string &text) { text += text.empty() ? "" : ", "; };
      separator(yields), separator(yieldTypes), separator(outNames), separator(outTypes);
      yields += result.name;
      yieldTypes += type(result);
      outNames += target;
      outTypes += memrefTypes[target];
    }
    for (size_t i = 0; i < ins.size(); ++i) {
      std::string separator = i ? ", " : "";
      inNames += separator + ins[i];
      inTypes += separator + memrefTypes[ins[i]];
      argumentText += separator + arguments[i];
    }
    std::ostringstream text;
    text << "module {\n  step.program @p {\n"
         << program.str() << "    step.task ins(" << inNames << ") outs(" << outNames << ") : ("
         << inTypes << ") -> (" << outTypes << ") {\n    ^bb0(" << argumentText << "):\n"
         << body.str() << "    nano.yield " << yields << " : " << yieldTypes << "\n    }\n  }\n}\n";
    task.text = text.str();
    return task;
  }

  TaskKind kind;
  std::mt19937_64 random;
  Shape full;
  int64_t bf16Share = 0; ///< tenths
  RandomTask task;
  std::ostringstream program, body;
  std::vector<Tensor> values, reduced, inputTensors;
  std::vector<std::string> ins, arguments;
  std::map<std::string, std::string> memrefTypes;
  int64_t next = 0, nextBuffer = 0;
};
} // namespace

RandomTask randomTask(TaskKind kind, uint64_t seed, int64_t leading) {
  return Generator(kind, seed, leading).make();
}

} // namespace nano::test
