// The model-building API: the only header that a model file includes. `nanoc` compiles the file
// with the host compiler and runs its NANO_MODEL body, which declares sizes, parameters, optimizers
// and schedules and computes the loss out of tensors; every operation is recorded, with the line of
// the model file that made it.
//
// Included at every `nanoc compile`, so no MLIR here and next to nothing of the standard library.
#pragma once

#include <initializer_list>
#include <source_location>
#include <stddef.h>
#include <stdint.h>

// As <math.h> declares them, which alone would take longer to compile than a model.
extern "C" {
double ceil(double) noexcept(true);
double cos(double) noexcept(true);
double exp(double) noexcept(true);
double floor(double) noexcept(true);
double log(double) noexcept(true);
double pow(double, double) noexcept(true);
double sin(double) noexcept(true);
double sqrt(double) noexcept(true);
}

namespace nano::frontend {

/// A line of the model file. Functions below take the caller's as a default argument; never pass
/// one.
struct Line {
  const char *file;
  unsigned line, column;
  static Line here(const std::source_location &at = std::source_location::current()) {
    return {at.file_name(), at.line(), at.column()};
  }
};

//===- Types, shapes, names ----------------------------------------------------===//

/// u16, an unsigned integer of 16 bits, is for keeping: moved, and converted by `cast` and
/// `bitcast`, but not computed with. Of 32 bits, as all that go from a model to nanoc by value:
/// host compilers differ in who fills up smaller ones.
enum class DType : uint32_t { f32, bf16, f8e4m3, f8e5m2, i32, u16 };
inline constexpr DType f32 = DType::f32, bf16 = DType::bf16, f8e4m3 = DType::f8e4m3,
                       f8e5m2 = DType::f8e5m2, i32 = DType::i32, u16 = DType::u16;

/// The machine epsilon of a float type: bf16 2⁻⁷, f32 2⁻²³.
double epsilon(DType type);

/// Sizes of a tensor, outermost first; `{}` is a single number. At most 8 dimensions.
class Shape {
public:
  static constexpr int maxRank = 8;
  Shape(std::initializer_list<int64_t> sizes, Line at = Line::here());
  int rank = 0;
  int64_t sizes[maxRank] = {};
};

/// Dimensions to work on: one, or several in braces. Negative ones count from the last: −1 is the
/// last.
class Axes {
public:
  Axes(int64_t axis) : count(1), axes{axis} {}
  Axes(std::initializer_list<int64_t> list, Line at = Line::here());
  int count = 0;
  int64_t axes[Shape::maxRank] = {};
};

/// A name, from text or from pieces of text and numbers in braces: `{"blocks.", i, ".lambdas"}`.
class Name {
public:
  struct Piece {
    Piece(const char *text) : text(text) {}
    Piece(int number) : number(number) {}
    Piece(int64_t number) : number(number) {}
    const char *text = nullptr;
    int64_t number = 0;
  };
  Name(const char *text, Line at = Line::here()) : Name({Piece(text)}, at) {}
  Name(std::initializer_list<Piece> pieces, Line at = Line::here());
  char text[120];
};

/// Things in a List at most.
inline constexpr int64_t longestList = int64_t(1) << 20;

/// A fixed number of things: layers, for example.
template <typename T> class List {
public:
  explicit List(int64_t count) : things(new T[sizeFor(count)]), count(sizeFor(count)) {}
  ~List() { delete[] things; }
  List(const List &) = delete;
  List &operator=(const List &) = delete;
  T &operator[](int64_t i) { return things[check(i)]; }
  const T &operator[](int64_t i) const { return things[check(i)]; }
  T *begin() { return things; }
  T *end() { return things + count; }
  const T *begin() const { return things; }
  const T *end() const { return things + count; }

private:
  int64_t check(int64_t i) const {
    if (i < 0 || i >= count)
      throwOutOfRange(i, count);
    return i;
  }
  static int64_t sizeFor(int64_t count) {
    if (count > longestList)
      throwTooLong(count);
    return count > 0 ? count : 0;
  }
  [[noreturn]] static void throwOutOfRange(int64_t i, int64_t count);
  [[noreturn]] static void throwTooLong(int64_t count);
  T *things;
  int64_t count;
};
[[noreturn]] void throwListOutOfRange(int64_t i, int64_t count);
[[noreturn]] void throwListTooLong(int64_t count);
template <typename T> void List<T>::throwOutOfRange(int64_t i, int64_t count) {
  throwListOutOfRange(i, count);
}
template <typename T> void List<T>::throwTooLong(int64_t count) { throwListTooLong(count); }

//===- Hyperparameters ---------------------------------------------------------===//

/// Declares a hyperparameter and returns its value: the default, or what `-D name=value` says.
/// `about` is shown by `nanoc params` and in errors. Integers are at least `least`.
int64_t hyper(const char *name, int64_t value, const char *about, int64_t least = 1,
              Line at = Line::here());
inline int64_t hyper(const char *name, int value, const char *about, int64_t least = 1,
                     Line at = Line::here()) {
  return hyper(name, static_cast<int64_t>(value), about, least, at);
}
double hyper(const char *name, double value, const char *about, Line at = Line::here());
/// One of several element types; the first is the default.
DType hyper(const char *name, std::initializer_list<DType> allowed, const char *about,
            Line at = Line::here());
/// One of several words; the first is the default. Returns the word's position in the list.
int hyper(const char *name, std::initializer_list<const char *> allowed, const char *about,
          Line at = Line::here());

/// Ends the compilation with `what` when `condition` does not hold: `require(T % 128 == 0, "seq_len
/// must be …")`.
void require(bool condition, const char *what, Line at = Line::here());

/// Another default for a hyperparameter, see NANO_DEFAULTS.
struct Default {
  Default() = default;
  Default(const char *name, int value) : name(name), kind(Integer), integer(value) {}
  Default(const char *name, int64_t value) : name(name), kind(Integer), integer(value) {}
  Default(const char *name, double value) : name(name), kind(Real), real(value) {}
  Default(const char *name, const char *value) : name(name), kind(Word), word(value) {}
  enum Kind : uint8_t { Integer, Real, Word };
  const char *name = nullptr;
  Kind kind = Integer;
  int64_t integer = 0;
  double real = 0;
  const char *word = nullptr;
};
struct Defaults {
  Defaults(std::initializer_list<Default> list, Line at = Line::here());
  Default values[64];
  int count = 0;
  Line at;
};

//===- Schedules ---------------------------------------------------------------===//

/// A function of the training step, evaluated on the host in f64 once a step: learning rates,
/// momenta, windows. Made of numbers, `step()`, `iterations()`, arithmetic and the functions below.
class Sched {
public:
  Sched() = default;
  Sched(double number);
  uint32_t id = 0; ///< 0: none
};

/// Whether the schedule is the number 0 at every step.
bool isZero(const Sched &a);
/// The number that a schedule is at every step; `otherwise` of one that changes.
double numberOr(const Sched &a, double otherwise);
Sched step();       ///< s, counted from 0
Sched iterations(); ///< N, the number of steps of the whole run

Sched operator+(const Sched &a, const Sched &b);
Sched operator-(const Sched &a, const Sched &b);
Sched operator*(const Sched &a, const Sched &b);
Sched operator/(const Sched &a, const Sched &b);
Sched operator-(const Sched &a);
Sched min(const Sched &a, const Sched &b);
Sched max(const Sched &a, const Sched &b);
Sched floor(const Sched &a);
Sched ceil(const Sched &a);
Sched sqrt(const Sched &a);
Sched exp(const Sched &a);
Sched log(const Sched &a);
Sched cos(const Sched &a);
Sched pow(const Sched &a, const Sched &b);

struct SchedLess {
  Sched a, b;
};
inline SchedLess operator<(const Sched &a, const Sched &b) { return {a, b}; }
inline SchedLess operator>(const Sched &a, const Sched &b) { return {b, a}; }
/// `less.a < less.b ? x : y`; of tensors likewise, below.
Sched select(const SchedLess &less, const Sched &x, const Sched &y);

//===- Tensors -----------------------------------------------------------------===//

struct At;

/// A position along a tensor's first dimension.
struct Index {
  Index(int64_t index, Line at = Line::here()) : index(index), at(at) {}
  int64_t index;
  Line at;
};

/// A tensor of the model: a handle, cheap to copy. Declared parameters and scalars can be used in
/// every program; any other tensor only in the program that computed it.
class Tensor {
public:
  Tensor() = default;
  int rank(Line at = Line::here()) const;
  /// The size of a dimension; negative ones count from the last.
  int64_t size(int64_t axis, Line at = Line::here()) const;
  DType type(Line at = Line::here()) const;
  Shape shape(Line at = Line::here()) const;
  /// x[i]: position i of the first dimension, which disappears.
  Tensor operator[](const Index &i) const;
  /// table[ids]: `gather`.
  Tensor operator[](const At &ids) const;

  uint32_t program = 0; ///< the program that computed it, or the model that declared it; 0: none
  uint32_t id = 0;
};

/// A tensor argument, with the line that passes it.
struct At {
  At(const Tensor &tensor, Line at = Line::here()) : tensor(tensor), at(at) {}
  Tensor tensor;
  Line at;
};

/// A tensor or a number as an argument; or a schedule, which is a single f32 that changes from step
/// to step without recompilation.
struct Operand {
  Operand(const Tensor &tensor, Line at = Line::here()) : tensor(tensor), at(at) {}
  Operand(double number, Line at = Line::here()) : number(number), isNumber(true), at(at) {}
  Operand(const Sched &schedule, Line at = Line::here());
  Tensor tensor;
  double number = 0;
  bool isNumber = false;
  Line at;
};

// Arithmetic, element by element. Types: a number takes the tensor's type; bf16 with f32 gives f32;
// i32 goes with i32 only. Shapes are aligned at the last dimension, and a dimension of size 1, or
// one that is missing on the left, repeats: [D] goes with every row of [T, D], [T, 1] with every
// column, {} with everything.
Tensor operator+(const Operand &a, const Operand &b);
Tensor operator-(const Operand &a, const Operand &b);
Tensor operator*(const Operand &a, const Operand &b);
Tensor operator/(const Operand &a, const Operand &b); ///< i32: rounded down
Tensor operator-(const At &x);
inline Tensor &operator+=(Tensor &x, const Operand &y) { return x = Operand(x, y.at) + y; }
inline Tensor &operator-=(Tensor &x, const Operand &y) { return x = Operand(x, y.at) - y; }
inline Tensor &operator*=(Tensor &x, const Operand &y) { return x = Operand(x, y.at) * y; }
inline Tensor &operator/=(Tensor &x, const Operand &y) { return x = Operand(x, y.at) / y; }
Tensor max(const Operand &a, const Operand &b);
Tensor min(const Operand &a, const Operand &b);
constexpr int64_t max(int64_t a, int64_t b) { return a < b ? b : a; }
constexpr int64_t min(int64_t a, int64_t b) { return b < a ? b : a; }

Tensor exp(const At &x);
Tensor log(const At &x);
Tensor sqrt(const At &x);
Tensor rsqrt(const At &x); ///< 1/√x
Tensor tanh(const At &x);
Tensor sigmoid(const At &x);
Tensor sin(const At &x);
Tensor cos(const At &x);
Tensor relu(const At &x);   ///< max(x, 0)
Tensor square(const At &x); ///< x·x

/// A comparison, for `select` only.
struct Comparison {
  enum Predicate : uint8_t { Eq, Ne, Lt, Le, Gt, Ge };
  Predicate predicate;
  Operand a, b;
};
inline Comparison operator==(const Operand &a, const Operand &b) { return {Comparison::Eq, a, b}; }
inline Comparison operator!=(const Operand &a, const Operand &b) { return {Comparison::Ne, a, b}; }
inline Comparison operator<(const Operand &a, const Operand &b) { return {Comparison::Lt, a, b}; }
inline Comparison operator<=(const Operand &a, const Operand &b) { return {Comparison::Le, a, b}; }
inline Comparison operator>(const Operand &a, const Operand &b) { return {Comparison::Gt, a, b}; }
inline Comparison operator>=(const Operand &a, const Operand &b) { return {Comparison::Ge, a, b}; }
/// Where the comparison holds x, elsewhere y. Two numbers give the type of what is compared.
Tensor select(const Comparison &condition, const Operand &x, const Operand &y);
/// By the step: `select(step() < 100, x, 2 * x)`.
inline Tensor select(const SchedLess &less, const At &x, const Operand &y) {
  return select(Comparison{Comparison::Lt, {less.a, x.at}, {less.b, x.at}}, {x.tensor, x.at}, y);
}
inline Tensor select(const SchedLess &less, double x, const At &y) {
  return select(Comparison{Comparison::Lt, {less.a, y.at}, {less.b, y.at}}, {x, y.at},
                {y.tensor, y.at});
}

/// To another element type: floats round to nearest even, float to i32 towards zero, i32 to u16 by
/// its lower 16 bits.
Tensor cast(const At &x, DType type);

/// y[i₀, …] = i_axis.
Tensor iota(const Shape &shape, int64_t axis = 0, DType type = i32, Line at = Line::here());
/// One number everywhere.
Tensor full(const Shape &shape, double number, DType type, Line at = Line::here());

/// The same elements in row-major order.
Tensor reshape(const At &x, const Shape &shape);
/// Elements [start, start + size) of a dimension.
Tensor slice(const At &x, int64_t axis, int64_t start, int64_t size);
/// Tensors one after the other along a dimension.
Tensor concat(std::initializer_list<Tensor> parts, int64_t axis, Line at = Line::here());
Tensor concat(const List<Tensor> &parts, int64_t axis, Line at = Line::here());
/// y[…, c] = x[…, (c + shift) mod C], C the size of the last dimension.
Tensor rotate(const At &x, int64_t shift);

template <int count> struct Parts;
template <> struct Parts<2> {
  Tensor first, second;
};
template <> struct Parts<3> {
  Tensor first, second, third;
};
Tensor splitPart(const At &x, int64_t axis, int part, int count);
/// Equal parts of a dimension: `auto [q, k, v] = split<3>(x, 1)`.
template <int count> Parts<count> split(const At &x, int64_t axis) {
  if constexpr (count == 2)
    return {splitPart(x, axis, 0, 2), splitPart(x, axis, 1, 2)};
  else
    return {splitPart(x, axis, 0, 3), splitPart(x, axis, 1, 3), splitPart(x, axis, 2, 3)};
}

// Reductions, accumulated in f32. Reduced dimensions stay, with size 1, so that the result goes
// with the operand again. Without axes: over all elements, giving a single number {}.
Tensor sum(const At &x);
Tensor sum(const At &x, const Axes &axes);
Tensor mean(const At &x);
Tensor mean(const At &x, const Axes &axes);
Tensor maximum(const At &x);
Tensor maximum(const At &x, const Axes &axes);

// Along a dimension, in f32 and rounded once an element; with derivatives.
struct Scan {
  int64_t axis = 0;
  bool reverse = false; ///< from the end: y[t] = x[t] + … + x[T−1]
};
/// y[t] = x[0] + … + x[t], of f32 or bf16; or of i32 [T], exact and wrapping, from the start.
Tensor cumsum(const At &x, const Scan &how = {});
/// y[t] = x[0]·…·x[t].
Tensor cumprod(const At &x, const Scan &how = {});
/// y[t] = max(x[0], …, x[t]), of i32 [T].
Tensor cummax(const At &x);
struct Recurrence {
  int64_t axis = 0;
  bool reverse = false; ///< from the end: h[t] = a[t]·h[t+1] + b[t]
  double initial = 0;   ///< h before the first
};
/// h[t] = a[t]·h[t−1] + b[t]: linear attention and state spaces with decay, exponential averages,
/// discounted sums. Types and shapes of a and b go together as those of arithmetic.
Tensor recurrence(const Operand &a, const Operand &b, const Recurrence &how = {});

/// y[t, :] = table[ids[t], :], of table [V, D], f32, bf16 or i32, and ids i32 [T] in [0, V); ids
/// of more dimensions likewise, [R, B] to [R, B, D]. Ids that are certain to lie outside are an
/// error of the compilation; of others that may, one that does ends the run.
Tensor gather(const At &table, const Tensor &ids);

/// a·b over the last two dimensions, [.., M, K] × [.., K, N], operands of one float type;
/// accumulated in f32. Leading dimensions that are 1 or missing on one side go with any size, as
/// those of arithmetic; nothing is repeated in memory for them.
Tensor matmul(const At &a, const Tensor &b);
/// The last two dimensions exchanged; costs nothing in an operand of `matmul`.
Tensor transpose(const At &x);
/// x·Wᵀ, [.., K] × [N, K]ᵀ, with W converted to x's type.
Tensor linear(const At &x, const Tensor &weight);

/// x·rsqrt(mean(x², last dimension) + ε), in f32, rounded to x's type. ε: the machine epsilon of
/// f32, 2⁻²³, for every type unless given, as in PyTorch's rms_norm.
Tensor norm(const At &x);
Tensor norm(const At &x, double eps);
/// (x − mean)/√(var + ε)·scale + shift over the last dimension, in f32, rounded to x's type; biased
/// variance.
Tensor layerNorm(const At &x, const Tensor &scale, const Tensor &shift, double eps);

/// −log softmax(logits)[target] for every row: f32 [T] of logits f32 [T, V] and targets i32 [T] in
/// [0, V), as the ids of `gather`.
Tensor crossEntropy(const At &logits, const Tensor &targets);

/// Maps a score before the softmax, with the query's and the key's position and the head (rank 0:
/// f32, i32, i32, i32), to another, by arithmetic on these alone.
class ScoreFunction {
public:
  ScoreFunction() = default;
  template <typename F>
  ScoreFunction(const F &function)
      : context(&function), call([](const void *context, Tensor s, Tensor q, Tensor k, Tensor h) {
          static_assert(
              requires(const F &f, Tensor x) { Tensor(f(x, x, x, x)); },
              "write [&](Tensor score, Tensor query, Tensor key, Tensor head) { return score; }");
          return (*static_cast<const F *>(context))(s, q, k, h);
        }) {}
  const void *context = nullptr;
  Tensor (*call)(const void *, Tensor, Tensor, Tensor, Tensor) = nullptr;
};

struct Attention {
  Tensor first = {}; ///< i32 [T]: the first key that each query sees
  Tensor last = {};  ///< i32 [T]: the last one
  /// Multiplies q·kᵀ: a number; or a schedule, or a tensor of a shape that goes with q's, with a
  /// derivative, by which q is multiplied in f32 and rounded to its type before the products.
  Operand scale = 1.0;
  ScoreFunction score = {}; ///< what the softmax sees; default: the scaled product itself
};
/// softmax(score(scale·q·kᵀ) + mask)·v for every head, [T, H, Dv]; q: [T, H, Dh], k: [T, Hk, Dh],
/// v: [T, Hk, Dv], where H/Hk neighbouring heads of q share one of k and v (grouped queries).
/// Query t sees the keys first[t] … last[t], which nobody checks to be among those there are; first
/// ≤ last, and both never decrease with t. The softmax is computed in f32. k and v may have another
/// number of tokens than q, as those of an encoder: the shorter side is then filled up, in memory,
/// to the longer one's length.
Tensor attention(const At &q, const Tensor &k, const Tensor &v, const Attention &how);
struct AttentionSums {
  Tensor y, lse;
};
/// attention's y, and ln Σ e^score over the keys that a query sees: f32 [T, H], with a derivative
/// and at no cost. Of two attentions of the same queries, the softmax over the keys of both is
/// σ(lse₁ − lse₂)·y₁ + σ(lse₂ − lse₁)·y₂.
AttentionSums attentionSums(const At &q, const Tensor &k, const Tensor &v, const Attention &how);

/// s[t, h, w] = q[t, h, :]·k[t − W + 1 + w, h, :], of q and k [T, H, D]: the scores of a token with
/// the keys of the W = `width` ≤ T tokens up to its own, its own last, as f32 [T, H, W]; 0 where
/// there is no such token.
Tensor bandScores(const At &q, const Tensor &k, int64_t width);
/// y[t, h, :] = Σ_w p[t, h, w]·v[t − W + 1 + w, h, :], of p [T, H, W] and v [T, H, D], in v's type.
/// p counts only where there is such a token.
Tensor bandProduct(const At &p, const Tensor &v);

/// y[n, :] = w[g, :, :]·x[n, :], of x [N, K], w [G, M, K] and ends i32 [G], in x's type: linear
/// with a weight for each of G groups of rows. Row n is in the first group with n < ends[g]; rows
/// of no group give 0. Rows of a mixture's experts, sorted by expert, are such groups.
Tensor groupedLinear(const At &x, const Tensor &weights, const Tensor &ends);

//===- Parameters and optimizers -----------------------------------------------===//

/// How a parameter, state or table starts.
struct Init {
  enum Kind : uint8_t { Constant, Normal, Uniform, Sign, Data, Copy, Transpose, Blocks, Unset };
  Kind kind = Constant;
  int count = 1;
  double values[16] = {};
  Tensor source = {};           ///< Copy, Transpose
  uint32_t model = 0, data = 0; ///< Data, Blocks: what the model recorded of it
};
inline Init constant(double value) { return {Init::Constant, 1, {value}}; }
inline Init normal(double mean, double stddev) { return {Init::Normal, 2, {mean, stddev}}; }
inline Init uniform(double low, double high) { return {Init::Uniform, 2, {low, high}}; }
/// `magnitude` or −`magnitude` with equal chance.
inline Init sign(double magnitude = 1) { return {Init::Sign, 1, {magnitude}}; }
/// What `source`, a parameter, state or table, starts with; rounded to the own type. With --init it
/// is what the file gives the source.
Init copyOf(const At &source);
/// The same with the last two dimensions swapped.
Init transposeOf(const At &source);
/// One number an element, in row-major order.
Init constants(std::initializer_list<double> values, Line at = Line::here());
Init recordNumbers(int64_t count, const void *context, double (*call)(const void *, int64_t),
                   Line at);
/// `element(i)`, a number, for every i in [0, count): element i in row-major order.
template <typename F> Init constants(int64_t count, const F &element, Line at = Line::here()) {
  static_assert(
      requires(const F &f, int64_t i) { static_cast<double>(f(i)); },
      "write [&](int64_t i) { return number; }");
  return recordNumbers(
      count, &element,
      [](const void *context, int64_t i) {
        return static_cast<double>((*static_cast<const F *>(context))(i));
      },
      at);
}
/// The numbers of a file of NumPy (.npy, in C order, of f32, f64, i32, i64 or u8) in row-major
/// order. A path that is not absolute begins in the model file's folder.
Init fromFile(const char *path, Line at = Line::here());
Init recordBlocks(int64_t count, const void *context, Init (*call)(const void *, int64_t), Line at);
/// `block(i)` for every i in [0, count): how the i-th of so many equal parts of the elements, in
/// row-major order, starts; a single number or random. Elements have the random numbers that they
/// would have if all were of that kind.
template <typename F> Init byBlocks(int64_t count, const F &block, Line at = Line::here()) {
  static_assert(
      requires(const F &f, int64_t i) { Init(f(i)); }, "write [&](int64_t i) { return init; }");
  return recordBlocks(
      count, &block,
      [](const void *context, int64_t i) -> Init { return (*static_cast<const F *>(context))(i); },
      at);
}

/// A group of parameters that one optimizer updates.
class Optimizer {
public:
  uint32_t model = 0, id = 0;
};

/// Declares a parameter. `name` is its name in checkpoints; `type` the type that it is stored in.
Tensor param(const Name &name, const Shape &shape, DType type, const Init &init,
             const Optimizer &optimizer, Line at = Line::here());

/// A parameter that is not trained: it has no gradient and no optimizer state. In checkpoints and
/// parameter files it is as any other.
Tensor frozen(const Name &name, const Shape &shape, DType type, const Init &init,
              Line at = Line::here());
/// A constant tensor, f32, bf16, i32 or u16, that is held once, in the plan, and in no checkpoint:
/// by `constants(count, …)` or `fromFile(…)` or one number.
Tensor table(const Name &name, const Shape &shape, DType type, const Init &init,
             Line at = Line::here());
/// With `element(i)` as element i in row-major order.
template <typename F>
Tensor table(const Name &name, const Shape &shape, DType type, const F &element,
             Line at = Line::here()) {
  int64_t count = 1;
  for (int i = 0; i < shape.rank; ++i)
    count *= shape.sizes[i] > 0 ? shape.sizes[i] : 0;
  return table(name, shape, type, constants(count, element, at), at);
}
/// The same value, to the bit; the gradient of the loss does not go through it.
Tensor stopGradient(const At &x);

/// What ranks have of a state that the training program sets.
enum class OverRanks : uint32_t {
  equal, ///< what is set is the same on every rank: it does not depend on tokens (nanoc proves it)
  mean,  ///< after the step's last micro-batch every rank has the mean of what the ranks had set
  max,   ///< or the largest
  each,  ///< every rank keeps its own; checkpoints hold all, for this number of ranks only
};
/// Declares a state of the model's own: f32, bf16, i32 or u16, in checkpoints, that programs read
/// as other tensors and `set`. A rank's micro-batches run one after the other: each reads what the
/// one before it has set. With `unset()` it must be set in a program before it is read there.
Tensor state(const Name &name, const Shape &shape, DType type, const Init &init,
             OverRanks over = OverRanks::equal, Line at = Line::here());
inline Init unset() { return {Init::Unset, 0, {}}; }
/// state ← value, of the state's shape and type, or a number everywhere. Reading the state gives
/// its value of before above this line, and the new one below. In the training program, of states;
/// in `afterStep` and `at` also of parameters. Once a program.
void set(const At &state, const Operand &value);

void recordEvent(const Sched *when, const void *context, void (*call)(const void *), Line at);
/// `update()` runs after the update of every step: an average of parameters, for example.
template <typename F> void afterStep(const F &update, Line at = Line::here()) {
  static_assert(requires(const F &f) { f(); }, "write [&] { … }");
  recordEvent(
      nullptr, &update, [](const void *context) { (*static_cast<const F *>(context))(); }, at);
}
/// `event()` runs after the update of step `when`, counted from 0: a schedule of numbers and
/// `iterations()`, rounded to the nearest step. Programs of one step run in the order of their
/// lines. Nothing is compiled and nothing waits; a run that goes on from a checkpoint of any step
/// does what the whole run does.
template <typename F> void at(const Sched &when, const F &event, Line at = Line::here()) {
  static_assert(requires(const F &f) { f(); }, "write [&] { … }");
  recordEvent(&when, &event, [](const void *context) { (*static_cast<const F *>(context))(); }, at);
}

/// How the three matrix products with a weight run in training: y = x·Wᵀ, ∂L/∂x and ∂L/∂W.
struct Fp8 {
  enum Recipe : uint8_t {
    Off,     ///< in the compute type
    Static,  ///< operands in 8 bits, divided by the scales given here or by --fp8-scales
    Current, ///< by what each tensor's own largest magnitude asks for
    Delayed, ///< by what the largest magnitudes of the last steps ask for
    Block,   ///< a scale for every 128 elements; for 128×128 of the weight
  };
  Recipe recipe = Off;
  double input = 0, weight = 0, gradient = 0; ///< Static: scales of x, W and ∂L/∂y
  int64_t history = 16;                       ///< Delayed: steps
  double margin = 0;                          ///< all but Static: powers of two left unused
  /// Whether the products of the backward pass run in 8 bits too; else in the compute type, from x
  /// and W as they are.
  bool backward = true;
};
/// Chooses it for a parameter; `-D fp8.<parameter>=off|static|current|delayed|block` comes before.
/// Validation and sampling use the weight as it is.
void fp8Products(const At &weight, const Fp8 &how);
/// Scales of one product in 8 bits: f32 {}, positive; numbers, schedules, or tensors, as states
/// that the model sets. What is larger than 448 of them is cut off.
struct Fp8Scales {
  Operand input, weight;
};
/// linear(x, W) and matmul(a, b) of matrices, of which slices of parameters are some too, from
/// operands in 8 bits: e4m3(x/input)·e4m3(W/weight), summed in f32, times both scales, rounded to
/// x's type. The derivative is that of the product without rounding to 8 bits, in x's type; there
/// is none to the scales. The inner dimension and the result's columns are multiples of 16.
Tensor linear(const At &x, const Tensor &weight, const Fp8Scales &scales);
Tensor matmul(const At &a, const Tensor &b, const Fp8Scales &scales);
/// Declares the hyperparameters fp8_recipe (delayed, current or block), fp8_history and fp8_margin,
/// and returns what they say.
Fp8 fp8Hyper(Line at = Line::here());

/// A schedule as a single number {} of type f32 or i32 (rounded to nearest) in the programs:
/// changes without recompilation.
Tensor scalar(const Name &name, const Sched &value, DType type, Line at = Line::here());

} // namespace nano::frontend

#include "compiler/FrontendFunctions.h"
#include "compiler/FrontendInterchange.h"
#include "compiler/FrontendKernels.h"
#include "compiler/FrontendOptimizers.h"
#include "compiler/FrontendTraining.h"

/// The model: `NANO_MODEL { … }`, once a file.
#define NANO_MODEL extern "C" void nanoModel()

/// Other defaults for the hyperparameters of a model that this file includes:
/// `NANO_DEFAULTS({"num_layers", 6}, {"dtype", "f32"})`.
#define NANO_DEFAULTS(...)                                                                         \
  extern "C" const ::nano::frontend::Defaults nanoDefaults;                                        \
  const ::nano::frontend::Defaults nanoDefaults({__VA_ARGS__})
