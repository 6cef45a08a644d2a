// Optimizers of the model-building API: a parameter's update as equations.
// A part of Frontend.h, which includes it.
#pragma once

#include "compiler/Frontend.h"

namespace nano::frontend {

/// Into what a parameter can be cut so that each piece is updated without looking at the others.
enum class Cut : uint8_t { any, elements, rows, matrices, whole };

struct OptimizerOptions {
  Sched lr = {}; ///< the learning rate, which logs show too: scalar `lr.<name>`
  /// It takes a step on every so many steps, with the mean gradient of these; a run that ends
  /// between two of them leaves the last gradients unused.
  int64_t every = 1;
  /// What the model relies on; an error where the equations look farther. `any`: the compiler finds
  /// out. `whole`: every rank updates all of it.
  Cut cut = Cut::any;
  const char *kind = nullptr; ///< what the equations are called; default: the optimizer's name
};

/// One parameter's update, while its equations are written down: old values are read, and each is
/// set to a new one, once. Numbers that are stored as bf16 are read as f32, and rounded to nearest
/// even when they are set; those of u16 are read as i32, of which the lower 16 bits are kept. The
/// equations may use number literals, schedules, and scalars of the model, and nothing of another
/// parameter.
class Update {
public:
  const char *name = nullptr; ///< of the parameter
  DType type = DType::f32;    ///< that the parameter is stored in
  Tensor parameter;           ///< f32
  /// f32, of the parameter's shape: the mean over the sequences of the global batch (and over
  /// `every` steps), scaled where `Training::gradClip` asks for it.
  Tensor gradient;
  Tensor lr; ///< f32 {}
  Line at;   ///< where the parameter is declared

  /// The value that a state `<parameter>.<name>` had after the last update; before the first one
  /// `init`, a constant, everywhere. f32, bf16, i32 or u16. Of the parameter's shape unless given.
  Tensor state(const char *name, DType type, const Init &init = constant(0),
               Line at = Line::here());
  Tensor state(const char *name, DType type, const Shape &shape, const Init &init = constant(0),
               Line at = Line::here());
  /// The parameter's new value.
  void set(const Operand &value) { set(parameter, value); }
  /// The new value of a state, or of `parameter`.
  void set(const Tensor &old, const Operand &value);
  /// Ends the compilation with the parameter's line, name and shape, and `what`, when `condition`
  /// does not hold.
  void require(bool condition, const char *what) const;
};

Optimizer recordOptimizer(const char *name, const OptimizerOptions &how, const void *equations,
                          void (*call)(const void *, Update &), void (*destroy)(const void *),
                          Line at);
/// Defines an optimizer by its equations, a function of an `Update`, which runs once for each
/// parameter that is given the optimizer. It must hold what it uses (captures by value), unless
/// that lives until the end of the model. See models/optimizers.h.
template <typename F>
Optimizer optimizer(const char *name, const OptimizerOptions &how, F equations,
                    Line at = Line::here()) {
  static_assert(
      requires(const F &f, Update u) { f(u); }, "write [=](Update u) { u.set(newValue); }");
  return recordOptimizer(
      name, how, new F(static_cast<F &&>(equations)),
      [](const void *context, Update &update) { (*static_cast<const F *>(context))(update); },
      [](const void *context) { delete static_cast<const F *>(context); }, at);
}

/// State `<parameter>.<name>` of a parameter's optimizer as it is stored, for events (`at`,
/// `afterStep`), which may set it: to another parameter's, to a constant. Each rank then has all of
/// this parameter's states and makes all of its update, whatever the strategy.
Tensor stateOf(const At &parameter, const char *name);

} // namespace nano::frontend
