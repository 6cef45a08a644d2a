// The pieces of random models as text of the graph dialect.
#include "tests/e2e/RandomPieces.h"

#include <cmath>

namespace nano::test {

//===- Numbers -----------------------------------------------------------------===//

int64_t RandomPieces::randomWidth() {
  static constexpr int64_t widths[] = {4, 8, 12, 16, 20, 32, 33, 48};
  if (model.has8Bit && chance(70))
    return 16 * pick(1, 3);
  return widths[pick(0, 7)];
}

std::string RandomPieces::randomFloat() {
  if (!chance(bf16Percent))
    return "f32";
  model.hasBf16 = true;
  return "bf16";
}

//===- Parameters --------------------------------------------------------------===//

ModelText::Value RandomPieces::parameter(const Shape &shape, const std::string &element,
                                         double deviation, double mean) {
  std::string name = "p" + std::to_string(parameters++);
  bool isMuon = shape.size() >= 2 && element == "f32" && chance(50);
  declared.push_back({name, shape, element, mean, deviation, isMuon});
  return op(shape, element, "nano.load @" + name + " : ");
}

ModelText::Value RandomPieces::embed(int64_t width) {
  Value table = parameter({model.vocabulary, width}, randomFloat(), 1);
  return op({T, width}, table.element,
            "nano.gather " + table.name + ", %tokens : (" + typeOf(table.shape, table.element) +
                ", " + typeOf({T}, "i32") + ") -> ");
}

ModelText::Value RandomPieces::linear(Value x, int64_t columns, const std::string &element) {
  const int64_t inner = x.shape[1];
  const bool transpose = chance(70);
  Value stored = parameter(transpose ? Shape{columns, inner} : Shape{inner, columns}, "f32",
                           0.8 / std::sqrt(static_cast<double>(inner)));
  Value weight = cast(stored, x.element);
  return matmul(x, weight, false, transpose, {T, columns}, element);
}

ModelText::Value RandomPieces::branches(Value given) {
  Value x = cast(given, randomFloat());
  const bool transpose = chance(70);
  auto product = [&](Value factor, int64_t columns, double deviation) {
    const int64_t inner = factor.shape[1];
    Value stored = parameter(transpose ? Shape{columns, inner} : Shape{inner, columns}, "f32",
                             deviation / std::sqrt(static_cast<double>(inner)));
    Value weight = cast(chance(70) ? times(stored, 1.1) : stored, x.element);
    return matmul(factor, weight, false, transpose, {T, columns}, x.element);
  };
  std::vector<Value> parts;
  for (int64_t left = pick(2, 4); left > 0; --left)
    parts.push_back(product(x, chance(80) ? 16 * pick(1, 3) : randomWidth(), 0.8));
  std::optional<Value> sum;
  for (Value part : parts) {
    if (chance(40)) // one that reads another
      for (const Value &gate : parts)
        if (gate.name != part.name && gate.shape == part.shape)
          part = binary("mul", unary("sigmoid", gate), part);
    Value back = product(chance(70) ? unary("tanh", part) : part, x.shape[1], 0.4);
    sum = sum ? binary("add", *sum, back) : back;
  }
  return cast(*sum, given.element);
}

ModelText::Value RandomPieces::wide(Value given) {
  const std::string element = randomFloat();
  Value x = unary("tanh", linear(cast(given, element), 128 * pick(1, 2), element));
  Value h = linear(x, 128 * pick(1, 2), element);
  h = chance(50) ? binary("mul", h, unary("sigmoid", h)) : unary("tanh", h);
  return binary("add", given, cast(linear(h, given.shape[1], element), given.element));
}

ModelText::Value RandomPieces::ended(Value given) {
  model.hasBf16 = true;
  const std::string element = "bf16";
  Value x = linear(given, 16 * pick(1, 4), element);
  const int64_t columns = chance(30) ? 128 * pick(1, 2) : 16 * pick(1, 9);
  Value h = linear(x, columns, element);
  switch (pick(0, 3)) {
  case 0:
    h = binary("mul", h, unary("sigmoid", h));
    break;
  case 1: { // what gates it, which others read too or not
    Value gate = linear(x, columns, element);
    h = binary("mul", chance(50) ? binary("mul", gate, unary("sigmoid", gate)) : gate, h);
    break;
  }
  case 2: {
    Value wide = cast(h, "f32");
    Value bias = broadcast(parameter({columns}, "f32", 0.2), h.shape, {1});
    h = cast(unary("tanh", binary("add", wide, bias)), element);
    break;
  }
  default:
    h = norm(h, chance(30));
  }
  return binary("add", given, cast(linear(h, given.shape[1], element), given.element));
}

//===- Pieces of models --------------------------------------------------------===//

ModelText::Value RandomPieces::norm(Value given, bool centers) {
  Value x = cast(given, "f32");
  const int64_t last = static_cast<int64_t>(x.shape.size()) - 1;
  const double inverse = 1.0 / static_cast<double>(x.shape[last]);
  Shape kept;
  for (int64_t i = 0; i < last; ++i)
    kept.push_back(i);
  if (centers) {
    Value mean = broadcast(times(reduce("sum", x, {last}), inverse), x.shape, kept);
    x = binary("sub", x, mean);
  }
  Value squares = binary("mul", x, x);
  Value variance = plus(times(reduce("sum", squares, {last}), inverse), 0.1);
  Value scale = broadcast(unary("rsqrt", variance), x.shape, kept);
  return cast(binary("mul", x, scale), given.element);
}

ModelText::Value RandomPieces::softmax(Value given) {
  Value x = cast(given, "f32");
  const int64_t last = static_cast<int64_t>(x.shape.size()) - 1;
  Shape kept;
  for (int64_t i = 0; i < last; ++i)
    kept.push_back(i);
  Value highest = broadcast(reduce("max", apart(x, last), {last}), x.shape, kept);
  Value shifted = binary("sub", x, highest);
  Value powers = unary("exp", shifted);
  Value sum = broadcast(reduce("sum", powers, {last}), x.shape, kept);
  return cast(times(binary("div", powers, sum), 2), given.element);
}

ModelText::Value RandomPieces::logSoftmax(Value given) {
  Value x = cast(given, "f32");
  const int64_t last = static_cast<int64_t>(x.shape.size()) - 1;
  Shape kept;
  for (int64_t i = 0; i < last; ++i)
    kept.push_back(i);
  Value all = broadcast(reduce("logsumexp", x, {last}), x.shape, kept);
  return cast(binary("sub", x, all), given.element);
}

ModelText::Value RandomPieces::apart(Value x, int64_t dim) {
  Value index = op(x.shape, "f32", "nano.iota " + std::to_string(dim) + " : ");
  Value wave = unary("sin", index);
  Value sum = binary("add", x, wave);
  return sum;
}

ModelText::Value RandomPieces::firstKeys() {
  Value zero = constant(0, {T}, "i32");
  if (chance(15)) {
    Value reach = constant(static_cast<double>(pick(1, 20)), {T}, "i32");
    return binary("max", binary("sub", position, reach), firstOfDocument());
  }
  switch (pick(0, 3)) {
  case 0:
    return zero;
  case 1: {
    Value reach = constant(static_cast<double>(pick(1, 20)), {T}, "i32");
    Value start = binary("sub", position, reach);
    return binary("max", start, zero);
  }
  case 2: {
    Value loaded = op({}, "i32", "nano.load @window : ");
    Value reach = broadcast(loaded, {T}, {});
    Value start = binary("sub", position, reach);
    return binary("max", start, zero);
  }
  default:
    return firstOfDocument();
  }
}

ModelText::Value RandomPieces::firstOfDocument() {
  Value zero = constant(0, {T}, "i32");
  Value starts = op({T}, "i32",
                    "nano.select eq, %tokens, " + zero.name + ", " + position.name + ", " +
                        zero.name + " : " + typeOf({T}, "i32") + ", ");
  return op({T}, "i32", "nano.scan max " + starts.name + " : ");
}

int64_t RandomPieces::headSize() { return chance(10) ? 16 * pick(3, 16) : 4 * pick(1, 8); }

ModelText::Value RandomPieces::rotary(Value x) {
  const int64_t size = x.shape.back(), half = size / 2;
  const Shape columns = {size}, table = {T, size};
  Value column = op(columns, "i32", "nano.iota 0 : "),
        middle = constant(double(half), columns, "i32");
  auto choose = [&](const Value &at, const Value &bound, const Value &below, const Value &above) {
    return op(below.shape, below.element,
              "nano.select lt, " + at.name + ", " + bound.name + ", " + below.name + ", " +
                  above.name + " : " + typeOf(at.shape, at.element) + ", ");
  };
  Value place = choose(column, middle, column, binary("sub", column, middle));
  Value angle = binary("mul", op(table, "f32", "nano.iota 0 : "),
                       broadcast(unary("exp", times(cast(place, "f32"), -0.7)), table, {1}));
  Value sine = unary("sin", angle),
        sines = choose(broadcast(column, table, {1}), broadcast(middle, table, {1}), sine,
                       chance(70) ? unary("neg", sine) : sine); // else it is no rotation
  Value turned =
      op(x.shape, x.element, "nano.rotate " + x.name + " by " + std::to_string(half) + " : ");
  auto product = [&](Value of, const Value &by) {
    return binary("mul", cast(of, "f32"), broadcast(by, x.shape, {0, 2}));
  };
  return cast(binary("add", product(x, unary("cos", angle)), product(turned, sines)), x.element);
}

ModelText::Value RandomPieces::attention(Value x) {
  const int64_t keyHeads = pick(1, 3), heads = keyHeads * (chance(30) ? 2 : 1), size = headSize(),
                valueSize = chance(35) ? headSize() : size,
                allHeads = heads + keyHeads * (valueSize == size ? 2 : 1);
  Value all = reshape(linear(x, allHeads * size, x.element), {T, allHeads, size});
  Value q = slice(all, 1, 0, heads), k = slice(all, 1, heads, keyHeads);
  Value v = valueSize == size
                ? slice(all, 1, heads + keyHeads, keyHeads)
                : reshape(linear(x, keyHeads * valueSize, x.element), {T, keyHeads, valueSize});
  const bool isNormed = chance(50), isTurned = chance(40), isTurnedFirst = chance(30);
  for (Value *heads : {&q, &k}) {
    if (isTurned && isTurnedFirst)
      *heads = rotary(*heads);
    if (isNormed)
      *heads = norm(*heads, false);
    if (isTurned && !isTurnedFirst)
      *heads = rotary(*heads);
  }
  Value first = firstKeys();
  Value last = position;
  if (chance(15))
    last = constantText("$LAST", {T}, "i32");
  std::string score;
  if (chance(40)) {
    score = " {\n    ^bb0(%s: tensor<f32>, %q: tensor<i32>, %k: tensor<i32>, %h: tensor<i32>):\n"
            "      %d = nano.sub %k, %q : tensor<i32>\n"
            "      %f = nano.cast %d : tensor<i32> -> tensor<f32>\n"
            "      %c = nano.constant 1.000000e-01 : tensor<f32>\n"
            "      %b = nano.mul %f, %c : tensor<f32>\n";
    score += std::string("      %a = nano.") + (chance(50) ? "tanh" : "sin") +
             " %s : tensor<f32>\n      %r = nano.add %a, %b : tensor<f32>\n"
             "      nano.yield %r : tensor<f32>\n    }";
  }
  const std::string operand = typeOf(q.shape, x.element), key = typeOf(k.shape, x.element),
                    value = typeOf(v.shape, x.element), i32 = typeOf({T}, "i32"),
                    result = typeOf({T, heads, valueSize}, x.element);
  Value y = op({T, heads, valueSize}, x.element,
               "nano.attention " + q.name + ", " + k.name + ", " + v.name + ", " + first.name +
                   ", " + last.name + " scale " + number(0.3) + " : (" + operand + ", " + key +
                   ", " + value + ", " + i32 + ", " + i32 + ") -> (" + result + ", " +
                   typeOf({T, heads}, "f32") + ")" + score,
               false);
  // The op has two results.
  const size_t at = body.rfind("    " + y.name + " = ");
  body.replace(at, 4 + y.name.size(), "    " + y.name + ":2");
  Value lse = {y.name + "#1", {T, heads}, "f32"};
  y.name += "#0";
  if (chance(30)) { // both results are read
    Value wide = broadcast(times(unary("tanh", lse), 0.3), y.shape, {0, 1});
    y = binary("add", y, cast(wide, y.element));
  }
  return reshape(y, {T, heads * valueSize});
}

ModelText::Value RandomPieces::groups(Value x) {
  const int64_t groups = pick(1, 4), inner = 8 * pick(1, 4), columns = x.shape[1];
  const Value rows = norm(x, false);
  // Ends that rise, or all fall together; rows behind them are in no group.
  const Value numbers = op({groups}, "i32", "nano.iota 0 : "),
              moved = binary("shl", numbers, constant(double(pick(0, 5)), {groups}, "i32")),
              ends = binary("sub", constant(double(pick(-1, 9)), {groups}, "i32"),
                            chance(20) ? moved : binary("sub", numbers, moved));
  auto product = [&](const Value &of, int64_t to) {
    const Value w =
        parameter({groups, to, of.shape[1]}, of.element, 1 / std::sqrt(double(of.shape[1])));
    return op({T, to}, of.element,
              "nano.grouped_matmul " + of.name + ", " + w.name + ", " + ends.name +
                  " {transpose} : (" + typeOf(of.shape, of.element) + ", " +
                  typeOf(w.shape, w.element) + ", " + typeOf({groups}, "i32") + ") -> ");
  };
  return product(unary("tanh", product(rows, inner)), columns);
}

ModelText::Value RandomPieces::band(Value x) {
  const int64_t heads = pick(1, 2), size = 4 * pick(1, 3), width = pick(1, 8);
  Value all = reshape(linear(norm(x, false), 3 * heads * size, x.element), {T, 3 * heads, size});
  Value q = slice(all, 1, 0, heads), k = slice(all, 1, heads, heads),
        v = slice(all, 1, 2 * heads, heads);
  const Shape weights = {T, heads, width};
  auto types = [&](const Value &a, const Value &b) {
    return " : (" + typeOf(a.shape, a.element) + ", " + typeOf(b.shape, b.element) + ") -> ";
  };
  Value s = op(weights, "f32", "nano.band_scores " + q.name + ", " + k.name + types(q, k));
  Value p = chance(50) ? softmax(s) : unary("tanh", times(s, 0.3));
  Value y = op(v.shape, v.element,
               "nano.band_product " + p.name + ", " + v.name + (chance(30) ? " {transpose}" : "") +
                   types(p, v));
  return reshape(y, {T, heads * size});
}

//===- Along a sequence or a row -----------------------------------------------===//

ModelText::Value RandomPieces::recurrence(Value x, const std::optional<Value> &decay) {
  const int64_t columns = x.shape[1];
  Shape shape = {1, T, columns};
  if (chance(50)) { // along the columns, alone or side by side
    const int64_t side = columns % 4 == 0 && chance(50) ? 4 : 1;
    shape = {T, columns / side, side};
  }
  const bool isProduct = !decay && chance(50);
  std::string text = "nano.recurrence ";
  if (decay)
    text += "factor " + reshape(*decay, shape).name + " ";
  if (isProduct) // of many factors, which stays near one
    text += "factor " + reshape(plus(times(unary("tanh", x), 0.02), 1), shape).name + " ";
  else
    text += "term " + reshape(decay ? x : times(unary("tanh", x), 0.1), shape).name + " ";
  text += "from " + number(isProduct ? 1 : 0.3) + (chance(50) ? " {reverse} : " : " : ");
  return times(reshape(op(shape, x.element, text), x.shape), 0.5);
}

ModelText::Value RandomPieces::numbersBelow(const Shape &shape, const std::string &size) {
  Value token{"%tokens", {T}, "i32"};
  if (shape.size() > 1)
    token = broadcast(token, shape, {0});
  Value place = op(shape, "i32", "nano.iota " + std::to_string(shape.size() - 1) + " : ");
  Value shifted = binary("shl", token, constant(static_cast<double>(pick(0, 3)), shape, "i32"));
  Value mixed = binary(chance(50) ? "xor" : "add", shifted, place);
  if (chance(50))
    mixed = binary("or", mixed, constant(1, shape, "i32"));
  if (chance(50))
    mixed = binary("and", mixed, constant(1023, shape, "i32"));
  if (chance(30))
    mixed = binary("shr", mixed, constant(1, shape, "i32"));
  return binary("rem", mixed, constantText(size, shape, "i32"));
}

ModelText::Value RandomPieces::indexed(Value x) {
  const int64_t columns = x.shape[1];
  auto types = [&](const Shape &a, const Shape &ids) {
    return " : (" + typeOf(a, x.element) + ", " + typeOf(ids, "i32") + ") -> ";
  };
  const bool scatters = chance(50);
  const std::string name = scatters ? "nano.scatter_add " : "nano.gather ";
  if (chance(40)) { // along the tokens
    Value ids = numbersBelow({T}, "$LENGTH");
    Value y = op(x.shape, x.element, name + x.name + ", " + ids.name + types(x.shape, ids.shape));
    return times(binary("add", x, y), scatters ? 0.3 : 0.6);
  }
  // Each token has a table of `groups` rows: row r of table t is row t·groups + r of all.
  int64_t groups = columns;
  for (int64_t part : {4, 2, 3})
    if (columns % part == 0 && chance(30))
      groups = part;
  const int64_t width = columns / groups;
  // As many rows are taken as there are, or one: that is gathered, and repeated.
  const int64_t taken = !scatters && chance(20) ? 1 : groups;
  const Shape each = {T, taken}, flat = {T * taken};
  Value inTable = numbersBelow(each, number(static_cast<double>(groups)));
  Value table = op(each, "i32", "nano.iota 0 : ");
  Value first = binary("mul", table, constant(static_cast<double>(groups), each, "i32"));
  Value ids = reshape(binary("add", first, inTable), flat);
  const Shape all = {T * groups, width}, result = {scatters ? T * groups : T * taken, width};
  Value source = reshape(x, all);
  Value y = op(result, x.element, name + source.name + ", " + ids.name + types(all, flat));
  if (taken != groups)
    y = broadcast(reshape(y, {T, width}), {T, groups, width}, {0, 2});
  return times(binary("add", x, reshape(y, x.shape)), scatters ? 0.3 : 0.6);
}

ModelText::Value RandomPieces::routed(Value given) {
  Value x = cast(given, "f32");
  const int64_t columns = x.shape[1];
  if (columns == 1) // nothing to choose from
    return cast(unary("tanh", x), given.element);
  const int64_t taken = pick(1, std::min<int64_t>(3, columns - 1));
  Value rest = apart(unary("tanh", x), 1);
  Value numbers = op(x.shape, "i32", "nano.iota 1 : ");
  Value behind = plus(times(cast(numbers, "f32"), -1), static_cast<double>(columns));
  Value lowest = constant(-8, x.shape, "f32"), zero = constant(0, x.shape, "f32");
  std::vector<Value> values, indices; // one more than is taken
  for (int64_t i = 0; i <= taken; ++i) {
    // The first of the largest, as the front end's argmax and topK say it.
    Value largest = reduce("max", rest, {1});
    Value wide = broadcast(largest, x.shape, {0});
    const std::string predicate =
        rest.name + ", " + wide.name + ", " + behind.name + ", " + lowest.name;
    Value candidates =
        op(x.shape, "f32", "nano.select eq, " + predicate + " : " + typeOf(x.shape, "f32") + ", ");
    Value place = plus(times(reduce("max", candidates, {1}), -1), static_cast<double>(columns));
    Value index = cast(place, "i32");
    Value mine = broadcast(index, x.shape, {0});
    auto where = [&](const Value &yes, const Value &no) {
      return op(x.shape, "f32",
                "nano.select eq, " + numbers.name + ", " + mine.name + ", " + yes.name + ", " +
                    no.name + " : " + typeOf(x.shape, "i32") + ", ");
    };
    values.push_back(reduce("sum", where(rest, zero), {1}));
    indices.push_back(index);
    rest = where(lowest, rest);
  }
  Value table = parameter({columns, columns}, "f32", 0.5), y = x;
  for (int64_t i = 0; i < taken; ++i) {
    Value row = op(x.shape, "f32",
                   "nano.gather " + table.name + ", " + indices[i].name + " : (" +
                       typeOf(table.shape, "f32") + ", " + typeOf({T}, "i32") + ") -> ");
    Value gate = broadcast(binary("sub", values[i], values[taken]), x.shape, {0});
    y = binary("add", y, binary("mul", gate, row));
  }
  return cast(times(y, 0.6), given.element);
}

ModelText::Value RandomPieces::sorted(Value x) {
  const int64_t columns = x.shape[1];
  // Whole numbers, whose order rounding does not change: of them each row has another permutation.
  Value keys = numbersBelow({T, columns}, number(static_cast<double>(pick(2, 2 * columns))));
  if (chance(50))
    keys = cast(keys, randomFloat());
  Value order = op(keys.shape, "i32",
                   "nano.argsort " + keys.name + " : " + typeOf(keys.shape, keys.element) + " -> ");
  Value table = op(keys.shape, "i32", "nano.iota 0 : ");
  Value first = binary("mul", table, constant(static_cast<double>(columns), keys.shape, "i32"));
  const Shape flat = {T * columns}, all = {T * columns, 1};
  Value ids = reshape(binary("add", first, order), flat);
  Value source = reshape(x, all);
  Value y = op(all, x.element,
               "nano.gather " + source.name + ", " + ids.name + " : (" + typeOf(all, x.element) +
                   ", " + typeOf(flat, "i32") + ") -> ");
  return times(binary("add", x, reshape(y, x.shape)), 0.6);
}

ModelText::Value RandomPieces::projected(Value x) {
  const auto columns = static_cast<double>(x.shape[1]);
  // Whole numbers choose: of the largest ones, less than 0.4 apart in sum, all have probabilities.
  Value chosen = cast(numbersBelow(x.shape, number(2)), "f32");
  Value within = times(unary("tanh", cast(x, "f32")), 0.2 / columns);
  Value z = cast(binary("add", times(chosen, 2), within), randomFloat());
  Value y = op(z.shape, z.element, "nano.sparsemax " + z.name + " : ");
  return times(binary("add", x, times(cast(y, x.element), columns)), 0.5);
}

ModelText::Value RandomPieces::moved(Value x) {
  const Shape shape = x.shape;
  int64_t dim = 0;
  if (chance(40)) { // of parts, whose rows are as long as those that kernels read elsewhere
    const int64_t parts = pick(2, 4);
    x = reshape(linear(x, parts * 32, x.element), {T, parts, 32});
    dim = 1;
  }
  const int64_t by = pick(1, dim == 0 ? 3 : x.shape[1] - 1);
  const int64_t size = x.shape[dim], rest = dim == 0 ? shorterBy(by) : size - by;
  Shape gone = x.shape;
  gone[dim] = by;
  const bool isOn = chance(60);
  Value stay = slice(x, dim, isOn ? 0 : by, rest), zeros = constant(0, gone, x.element);
  Value y = isOn ? concat(zeros, stay, dim, size) : concat(stay, zeros, dim, size);
  if (chance(30)) // by one that reads them twice, beside another
    y = binary("add", unary("tanh", binary("mul", y, y)), times(y, 0.5));
  y = times(binary("add", x, y), 0.6);
  return dim == 0 ? y : reshape(y, {T, y.shape[1] * y.shape[2]});
}

ModelText::Value RandomPieces::turned(Value x) {
  const int64_t parts = pick(1, 3), columns = 4 * pick(2, 8), some = 2 * pick(1, columns / 2 - 1);
  Value wide = linear(x, 2 * parts * columns, x.element);
  if (chance(40)) // made by a kernel
    wide = unary("tanh", wide);
  Value heads = reshape(wide, {T, 2 * parts, columns});
  const bool isFirst = chance(50), turnsFirst = chance(60);
  Value all = slice(heads, 1, isFirst ? 0 : parts, parts);
  Value others = slice(heads, 1, isFirst ? parts : 0, parts);
  Value before = slice(all, 2, turnsFirst ? 0 : columns - some, some);
  Value rest = slice(all, 2, turnsFirst ? some : 0, columns - some);
  Value after;
  if (chance(50)) { // by halves
    Value turn = op(before.shape, before.element,
                    "nano.rotate " + before.name + " by " + std::to_string(some / 2) + " : ");
    after = binary("add", times(before, 0.6), times(turn, 0.8));
  } else { // neighbours in pairs, by numbers that each pair has
    const Shape halves = {T, parts, some / 2, 1};
    Value pairs = reshape(before, {T, parts, some / 2, 2});
    Value a = slice(pairs, 3, 0, 1), b = slice(pairs, 3, 1, 1);
    Value cosine = broadcast(parameter({some / 2}, x.element, 0.1, 0.6), halves, {2}),
          sine = broadcast(parameter({some / 2}, x.element, 0.1, 0.8), halves, {2});
    Value first = binary("sub", binary("mul", a, cosine), binary("mul", b, sine));
    Value left = binary("mul", a, sine), right = binary("mul", b, cosine);
    Value second = chance(50) ? binary("add", left, right) : binary("add", right, left);
    after = reshape(concat(first, second, 3), before.shape);
  }
  Value y = turnsFirst ? concat(after, rest, 2) : concat(rest, after, 2);
  if (chance(25)) // the columns as they were are read later
    y = binary("sub", y, times(all, 0.4));
  return reshape(binary("mul", y, unary("tanh", others)), {T, parts * columns});
}

ModelText::Value RandomPieces::scaled(Value z) {
  Value lengths = broadcast(parameter({z.shape[1]}, "f32", 0.1, 1), z.shape, {1});
  Value factor = parameter({1}, "f32", 0.1, 1);
  Value all = broadcast(factor, z.shape, {chance(50) ? 0 : 1});
  return binary("mul", binary("div", z, lengths), all);
}

ModelText::Value RandomPieces::besideLoss(const Value &z) {
  const auto columns = static_cast<double>(z.shape[1]);
  Value sums = reduce("logsumexp", z, {1});
  Value behind = binary("sub", z, broadcast(sums, z.shape, {0}));
  switch (pick(0, 3)) {
  case 0:
    return times(reduce("sum", behind, {1}), -0.1 / columns);
  case 1:
    return times(reduce("sum", binary("mul", unary("exp", behind), behind), {1}), 0.1);
  case 2: {
    Value column = op(z.shape, "i32", "nano.iota 1 : ");
    Value target = broadcast({"%targets", {T}, "i32"}, z.shape, {0});
    Value zero = constant(0, z.shape, "f32");
    Value picked = op(z.shape, "f32",
                      "nano.select eq, " + column.name + ", " + target.name + ", " + z.name + ", " +
                          zero.name + " : " + typeOf(z.shape, "i32") + ", ");
    return times(binary("sub", sums, reduce("sum", picked, {1})), 0.3);
  }
  default: {
    Value means = times(reduce("sum", unary("tanh", z), {0}), 0.1);
    Value apart = reduce("sum", binary("mul", means, means), {0});
    return times(broadcast(apart, {T}, {}), 0.01);
  }
  }
}

ModelText::Value RandomPieces::reordered(Value x) {
  const int64_t columns = x.shape[1], parts = columns % 4 == 0 ? 4 : columns % 2 == 0 ? 2 : 1;
  static const Shape orders[] = {{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  const Shape &order = orders[pick(0, 4)];
  Value y = permute(reshape(x, {T, parts, columns / parts}), order);
  y = chance(50) ? softmax(y) : unary("tanh", y);
  if (chance(30)) { // the last two change places, and again
    const Shape turned = {y.shape[0], y.shape[2], y.shape[1]};
    auto transpose = [&](const Value &z, const Shape &shape) {
      return op(shape, z.element,
                "nano.transpose " + z.name + " : " + typeOf(z.shape, z.element) + " -> ");
    };
    y = transpose(unary("sin", transpose(y, turned)), y.shape);
  }
  Shape back(3);
  for (int64_t i = 0; i < 3; ++i)
    back[order[i]] = i;
  return reshape(permute(y, back), x.shape);
}

ModelText::Value RandomPieces::rounded(Value x) {
  switch (pick(0, 2)) {
  case 0: { // |tanh x|
    Value size = unary("tanh", x);
    return binary("mul", unary("sign", x), size);
  }
  case 1: // how far x is from a whole number
    return unary("abs", binary("sub", x, unary("round", x)));
  default: { // a hill between two whole numbers
    Value left = binary("sub", x, unary("floor", x)), right = binary("sub", unary("ceil", x), x);
    return times(binary("mul", left, right), 4);
  }
  }
}

//===- Random numbers ----------------------------------------------------------===//

ModelText::Value RandomPieces::randomBits(const Shape &shape) {
  auto number = [&](const char *scalar) {
    Value loaded = op({}, "i32", std::string("nano.load @") + scalar + " : ");
    return broadcast(loaded, shape, {});
  };
  Value column = op(shape, "i32", "nano.iota 1 : ");
  Value row = op(shape, "i32", "nano.iota 0 : "), sequence = number("sequence"),
        use = constant(static_cast<double>(uses++), shape, "i32"), seed = number("seed");
  return op(shape, "i32",
            "nano.philox counter(" + column.name + ", " + row.name + ", " + sequence.name + ", " +
                use.name + ") key(" + seed.name + ", " + seed.name + ") : ");
}

ModelText::Value RandomPieces::dropout(Value x) {
  Value bits = randomBits(x.shape);
  Value bound = constant(-1073741824, x.shape, "i32"), zero = constant(0, x.shape, x.element),
        kept = times(x, 1.25);
  return op(x.shape, x.element,
            "nano.select lt, " + bits.name + ", " + bound.name + ", " + zero.name + ", " +
                kept.name + " : " + typeOf(x.shape, "i32") + ", ");
}

ModelText::Value RandomPieces::noise(Value x) {
  const Value radius = randomBits(x.shape), angle = randomBits(x.shape),
              column = op(x.shape, "i32", "nano.iota 1 : "),
              side = binary("and", column, constant(1, x.shape, "i32"));
  const Value normal = op(x.shape, "f32",
                          "nano.normal " + radius.name + ", " + angle.name + ", " + side.name +
                              " : " + typeOf(x.shape, "i32") + " -> ");
  return binary("add", x, cast(times(normal, 0.1), x.element));
}

} // namespace nano::test
