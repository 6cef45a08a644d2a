// Kernels of a model's own: functions of C++ and CUDA C++ that a model file brings along and calls
// like any other operation. docs/kernels.md shows one from the first line to the trained model. A
// part of compiler/Frontend.h.
#pragma once

#include "compiler/Frontend.h"

namespace nano::frontend {

/// Several tensors: what a kernel takes or gives, and their gradients.
class Tensors {
public:
  static constexpr int most = 16;
  Tensors() = default;
  Tensors(std::initializer_list<Tensor> list, Line at = Line::here());
  int size() const { return count; }
  const Tensor &operator[](int i) const { return list[check(i)]; }
  void add(const Tensor &tensor, Line at = Line::here());

private:
  int check(int i) const;
  Tensor list[most];
  int count = 0;
};

/// Shapes of several tensors.
class Shapes {
public:
  Shapes() = default;
  Shapes(std::initializer_list<Shape> list, Line at = Line::here());
  int ranks[Tensors::most] = {};
  int64_t sizes[Tensors::most][Shape::maxRank] = {};
  int count = 0;
};

/// What a kernel does with a result that it gives.
enum class Access : uint8_t {
  write, ///< writes every element, and reads none that it has not written
  add,   ///< finds zeros, reads and writes
};

/// A result's shape and type.
struct KernelResult {
  KernelResult() = default;
  KernelResult(const Shape &shape, DType type, Access access = Access::write);
  /// Those of another tensor.
  KernelResult(const Tensor &like, Access access = Access::write, Line at = Line::here());
  int rank = 0;
  int64_t sizes[Shape::maxRank] = {};
  DType type = DType::f32;
  Access access = Access::write;
};
class KernelResults {
public:
  KernelResults(std::initializer_list<KernelResult> list, Line at = Line::here());
  KernelResult list[Tensors::most];
  int count = 0;
};

/// A function that outlives the lines that wrote it: what it captures, it captures by value ([=]).
template <typename Signature> class Function;
template <typename Result, typename... Arguments> class Function<Result(Arguments...)> {
public:
  Function() = default;
  template <typename F>
  Function(F function)
      : held(new Holder<F>{{1, [](Held *self) { delete static_cast<Holder<F> *>(self); },
                            [](Held *self, Arguments... arguments) -> Result {
                              return static_cast<Holder<F> *>(self)->function(arguments...);
                            }},
                           static_cast<F &&>(function)}) {}
  Function(const Function &other) : held(other.held) {
    if (held)
      ++held->users;
  }
  Function &operator=(Function other) {
    Held *const before = held;
    held = other.held;
    other.held = before;
    return *this;
  }
  ~Function() {
    if (held && --held->users == 0)
      held->release(held);
  }
  explicit operator bool() const { return held != nullptr; }
  Result operator()(Arguments... arguments) const { return held->call(held, arguments...); }

private:
  struct Held {
    int users;
    void (*release)(Held *);
    Result (*call)(Held *, Arguments...);
  };
  template <typename F> struct Holder : Held {
    F function;
  };
  Held *held = nullptr;
};

/// Numbers of a kernel's inputs.
class Inputs {
public:
  Inputs() = default;
  Inputs(std::initializer_list<int> list, Line at = Line::here());
  int list[Tensors::most] = {};
  int count = 0;
};

/// A kernel's texts and what they do; shapes follow from those of the inputs.
struct KernelCode {
  /// C++ that defines a function template of the kernel's name,
  ///
  ///   template <class X, class Y> void name(int64_t begin, int64_t end, X x, Y y)
  ///
  /// which computes iterations [begin, end): one nano::Array a tensor, inputs before results, in
  /// their order. `cuda` is called by all threads of a block and writes NANO_DEVICE before its
  /// functions. A kernel without one of them is for the other target alone.
  const char *cpu = nullptr, *cuda = nullptr;
  Function<KernelResults(const Tensors &inputs)> results = {};
  /// How many iterations there are, independent of each other: 1 where nothing is said.
  Function<int64_t(const Tensors &inputs)> iterations = {};
  /// The gradients of the inputs, in their order, of their shapes; `Tensor()` for one that has
  /// none. From these tensors and numbers alone; other kernels may be called. Without it the kernel
  /// has no derivative.
  Function<Tensors(const Tensors &inputs, const Tensors &results, const Tensors &gradients)>
      derivative = {};
  /// The input, i32, whose elements are indices below `indexBound`: nanoc proves that of them, or
  /// has the program check them, as those of `gather`. −1: none.
  int indexInput = -1;
  Function<int64_t(const Tensors &inputs)> indexBound = {};
  /// Sampling with a cache, which computes one position after the other: the inputs whose dimension
  /// 0 is the position, as that of all results. A row of the results then comes from this row of
  /// them and all of the other inputs, and the kernel is called with inputs of one row, unless
  /// `row` says otherwise. With none of them, sampling computes all positions for every token.
  Inputs byRows = {};
  /// The rows of the results at a position, i32 [1], each of size 1 along dimension 0. It gets the
  /// row of an input that `byRows` names; all rows of one that `kept` names, of which those behind
  /// the position are any numbers; and the other inputs whole. From these and numbers alone; other
  /// kernels may be called.
  Function<Tensors(const Tensors &inputs, const Tensor &position)> row = {};
  Inputs kept = {};
  int64_t grain = 1;              ///< CPU: iterations that are worth a thread: 10 µs of work
  int64_t threads = 128;          ///< CUDA: threads of a block, a multiple of 32
  int64_t iterationsPerBlock = 1; ///< CUDA
  int64_t sharedBytes = 0;        ///< CUDA: dynamic shared memory of a block
  double flops = 0;               ///< operations of an iteration, for the schedule
  /// Shapes of inputs on which checks run the kernel: small ones, since the emulator is slow. Those
  /// of its use where nothing is said, if they have 2¹⁶ elements at most.
  Shapes checkedAt = {};
};

/// A kernel that the model declared: y = k(x, w).
class Kernel {
public:
  /// Calls one that has one result.
  template <typename... More> Tensor operator()(const At &first, const More &...more) const {
    return one({first.tensor, more...}, first.at);
  }
  /// Calls one of several results.
  Tensors all(const Tensors &inputs, Line at = Line::here()) const;

  uint32_t model = 0, id = 0;

private:
  Tensor one(const Tensors &inputs, Line at) const;
};

/// Declares a kernel; `name` is an identifier.
Kernel kernel(const char *name, const KernelCode &code, Line at = Line::here());
/// When a kernel takes the place of a function.
struct Replacement {
  Function<bool(const Tensors &inputs)> when = {}; ///< by shapes and types; without it: always
  const char *target = nullptr;                    ///< "cpu" or "cuda"; without it: both
  /// The largest difference from ours on random inputs, over the largest magnitude of ours; 0:
  /// 1e-5 of f32, 1e-2 where an input or result is bf16.
  double tolerance = 0;
};
/// From here on the kernel computes what the function of this header does, which is one of
/// attention (without a score function), crossEntropy, gather, gelu, geluTanh, layerNorm, linear,
/// logSumExp, matmul and norm; its inputs are the function's tensors, in their order, its one
/// result and its derivative the function's. nanoc compares both on random inputs when it compiles
/// the model; where they differ by more than the tolerance it says so and keeps its own.
void replace(const char *function, const Kernel &by, const Replacement &how = {},
             Line at = Line::here());
/// The text of a file. A path that is not absolute begins in the model file's folder.
const char *textOfFile(const char *path, Line at = Line::here());

} // namespace nano::frontend
