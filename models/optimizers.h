// Optimizers as equations: what a model file gives its parameters to be updated by, and the
// examples to write another from. Nothing else in nanoc knows any of them.
//
// An optimizer is a function of one parameter's `Update`: it reads the parameter, its gradient and
// its states, and sets the parameter and the states to new values. What the compiler must know to
// cut parameters up among ranks and to batch matrices it finds in these equations.
#pragma once

#include "compiler/Frontend.h"

namespace nano::frontend {

namespace equations {

/// The number of this update, counted from 1, of an optimizer that takes a step on every so many.
inline Sched updateCount(int64_t every) {
  return every == 1 ? step() + 1 : floor(step() / double(every)) + 1;
}

/// Sum over the last two dimensions, which stay with size 1.
inline Tensor frobenius(const Tensor &x) { return sqrt(sum(x * x, {-2, -1})); }

/// An exact f32 in 32 bits of which a parameter in bf16 is the upper half, cut off and not rounded,
/// and a state of u16 the lower one.
inline Tensor joined(const Tensor &parameter, const Tensor &low) {
  return bitcast(bitcast(parameter, i32) | low, f32);
}
inline void setHalves(Update &u, const Tensor &low, const Tensor &next) {
  const Tensor bits = bitcast(next, i32);
  u.set(low, bits & 0xFFFF);
  u.set(bitcast(bits & -0x10000, f32));
}

/// Integers whose bits are those of x well mixed (Wellons 2018, "lowbias32").
inline Tensor mixedBits(Tensor x) {
  x = (x ^ (x >> 16)) * 0x7feb352d;
  x = (x ^ (x >> 15)) * -0x7b935975;
  return x ^ (x >> 16);
}

/// x, f32, as one of the two bf16 beside it: the farther from 0 with the chance that the bits that
/// are cut off say, so that it is x on average. The choice follows from the step, i32 {}, the
/// element's place and x, and is the same on any number of ranks and after a resume.
inline Tensor roundedAtRandom(const Tensor &x, const Tensor &step) {
  Tensor place = step * -0x61c88647;
  for (int axis = 0; axis < x.rank(); ++axis)
    place = place * double(x.size(axis)) + iota(x.shape(), axis);
  const Tensor bits = bitcast(x, i32);
  return bitcast((bits + (mixedBits(mixedBits(place) ^ bits) & 0xFFFF)) & -0x10000, f32);
}

} // namespace equations

//===- Element by element ------------------------------------------------------===//

struct Adam {
  Sched lr = {};
  Sched beta1 = 0.9, beta2 = 0.999; ///< of a schedule, the correction is that of its last value
  Sched eps = 1e-8;
  Sched weightDecay = 0.0; ///< decoupled: of the parameter, times the learning rate
  int64_t every = 1;       ///< steps for each step of this optimizer
  bool epsOfKept = false;  ///< ε stands beside the root of v as it is kept, not of the corrected v
  /// Whether a parameter in bf16 is rounded up or down at random: steps that are smaller than its
  /// last bit are not lost.
  bool roundsAtRandom = false;
};
/// Adam: Kingma and Ba 2015, algorithm 1, with bias corrections, or in the order that ends their
/// section 2 (`epsOfKept`); weight decay as Loshchilov and Hutter 2019, algorithm 2, with η_t·α
/// there being `lr` here. States have the parameter's type.
inline Optimizer adam(const char *name, const Adam &how, Line at = Line::here()) {
  auto isRate = [](double beta) { return beta >= 0 && beta < 1; };
  const double eps = numberOr(how.eps, 1), weightDecay = numberOr(how.weightDecay, 0);
  require(isRate(numberOr(how.beta1, 0)) && isRate(numberOr(how.beta2, 0)),
          "adam: beta1 and beta2 must lie in [0, 1)", at);
  require(eps >= 0x1p-126 && eps < 3.4e38, "adam: eps must be a positive f32", at);
  require(weightDecay >= 0 && weightDecay < 3.4e38,
          "adam: weightDecay must be an f32 that is not negative", at);
  const Sched t = equations::updateCount(how.every);
  const Sched one = 1 - pow(how.beta1, t), two = sqrt(1 - pow(how.beta2, t));
  const Tensor bias1 = scalar({name, ".bias1"}, how.epsOfKept ? two / one : 1 / one, f32, at);
  const Tensor bias2 = how.epsOfKept ? Tensor() : scalar({name, ".bias2"}, 1 / two, f32, at);
  const Tensor now = how.roundsAtRandom ? scalar({name, ".step"}, step(), i32, at) : Tensor();
  return optimizer(
      name, {.lr = how.lr, .every = how.every, .kind = "adam"},
      [=](Update u) {
        const Tensor m = u.state("adam_m", u.type), v = u.state("adam_v", u.type);
        const Tensor g = u.gradient;
        const Tensor nextM = how.beta1 * m + (1 - how.beta1) * g;
        const Tensor nextV = how.beta2 * v + (1 - how.beta2) * (g * g);
        const Tensor root = how.epsOfKept ? sqrt(nextV) : sqrt(nextV) * bias2;
        Tensor direction = nextM * bias1 / (root + how.eps);
        if (!isZero(how.weightDecay))
          direction = direction + how.weightDecay * u.parameter;
        u.set(m, nextM);
        u.set(v, nextV);
        const Tensor next = u.parameter - direction * u.lr;
        u.require(!how.roundsAtRandom || u.type == bf16,
                  "adam: what is rounded at random are parameters in bf16");
        u.set(how.roundsAtRandom ? equations::roundedAtRandom(next, now) : next);
      },
      at);
}

struct AdamW {
  Sched lr = {};
  Sched beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weightDecay = 0.01;
  int64_t every = 1;
};
/// The same with the decay that PyTorch's AdamW has where none is given.
inline Optimizer adamW(const char *name, const AdamW &how, Line at = Line::here()) {
  return adam(name, {how.lr, how.beta1, how.beta2, how.eps, how.weightDecay, how.every}, at);
}

struct Sgd {
  Sched lr = {};
  Sched momentum = 0.0;
  bool nesterov = false;
  Sched weightDecay = 0.0; ///< added to the gradient, times the parameter
  int64_t every = 1;
};
/// Gradient descent with momentum as PyTorch's SGD has it, after Sutskever et al. 2013: the buffer
/// b ← μb + g, the step b, or g + μb with Nesterov's.
inline Optimizer sgd(const char *name, const Sgd &how, Line at = Line::here()) {
  const bool hasMomentum = !isZero(how.momentum), decays = !isZero(how.weightDecay);
  require(!how.nesterov || hasMomentum, "sgd: Nesterov's step needs a momentum", at);
  return optimizer(
      name, {.lr = how.lr, .every = how.every, .kind = "sgd"},
      [=](Update u) {
        Tensor direction = u.gradient;
        if (decays)
          direction = direction + how.weightDecay * u.parameter;
        if (hasMomentum) {
          const Tensor b = u.state("momentum", f32);
          const Tensor next = how.momentum * b + direction;
          u.set(b, next);
          direction = how.nesterov ? direction + how.momentum * next : next;
        }
        u.set(u.parameter - u.lr * direction);
      },
      at);
}

struct Lion {
  Sched lr = {};
  Sched beta1 = 0.9, beta2 = 0.99;
  Sched weightDecay = 0.0; ///< decoupled
  int64_t every = 1;
};
/// Lion: Chen et al. 2023, algorithm 2.
inline Optimizer lion(const char *name, const Lion &how, Line at = Line::here()) {
  return optimizer(
      name, {.lr = how.lr, .every = how.every, .kind = "lion"},
      [=](Update u) {
        const Tensor m = u.state("momentum", f32), g = u.gradient;
        Tensor direction = sign(how.beta1 * m + (1 - how.beta1) * g);
        if (!isZero(how.weightDecay))
          direction = direction + how.weightDecay * u.parameter;
        u.set(u.parameter - u.lr * direction);
        u.set(m, how.beta2 * m + (1 - how.beta2) * g);
      },
      at);
}

//===- Rows and columns --------------------------------------------------------===//

struct Adafactor {
  Sched lr = {};           ///< ρ: the step's length relative to the parameter's
  double decay = 0.8;      ///< β₂ of update t is 1 − t^−decay
  double eps1 = 1e-30;     ///< added to squared gradients
  Sched eps2 = 1e-3;       ///< least root mean square of a parameter
  Sched clip = 1.0;        ///< largest root mean square of an update
  Sched weightDecay = 0.0; ///< decoupled
  int64_t every = 1;
};
/// Adafactor: Shazeer and Stern 2018, algorithms 4 (matrices: the second moment is the product of
/// means over rows and over columns) and 5 (the rest), without momentum.
inline Optimizer adafactor(const char *name, const Adafactor &how, Line at = Line::here()) {
  const Sched t = equations::updateCount(how.every);
  const Tensor beta = scalar({name, ".beta2"}, 1 - pow(t, -how.decay), f32, at);
  const Tensor rest = scalar({name, ".rest2"}, pow(t, -how.decay), f32, at);
  return optimizer(
      name, {.lr = how.lr, .every = how.every, .kind = "adafactor"},
      [=](Update u) {
        const Tensor g = u.gradient, p = u.parameter;
        const int rank = p.rank();
        auto rms = [](const Tensor &x) { return sqrt(mean(x * x)); };
        const Tensor squares = g * g + how.eps1;
        Tensor update;
        if (rank >= 2) {
          // Means over columns for each row, over rows for each column; leading axes hold matrices.
          const Tensor meanOfRows = mean(squares, -1), meanOfColumns = mean(squares, -2);
          const Tensor r = u.state("adafactor_r", f32, meanOfRows.shape()),
                       c = u.state("adafactor_c", f32, meanOfColumns.shape());
          const Tensor nextR = beta * r + rest * meanOfRows,
                       nextC = beta * c + rest * meanOfColumns;
          u.set(r, nextR);
          u.set(c, nextC);
          update = g * rsqrt(nextR / mean(nextR, -2)) * rsqrt(nextC);
        } else {
          const Tensor v = u.state("adafactor_v", f32);
          const Tensor next = beta * v + rest * squares;
          u.set(v, next);
          update = g * rsqrt(next);
        }
        update = update / max(rms(update) / how.clip, 1.0);
        Tensor direction = max(rms(p), how.eps2) * update;
        if (!isZero(how.weightDecay))
          direction = direction + how.weightDecay * p;
        u.set(p - u.lr * direction);
      },
      at);
}

//===- Matrices ----------------------------------------------------------------===//

/// The coefficients a, b, c of X ← a·X + (b·A + c·A²)·X, A = X·Xᵀ, for each of so many steps; the
/// last of `rows` again and again.
struct Polynomials {
  int64_t steps = 0;
  int rows = 0;
  double values[8][3] = {};
  const double *of(int64_t step) const { return values[step < rows ? step : rows - 1]; }
};
/// Amsel et al. 2025 ("The Polar Express"), from a smallest singular value of 10⁻³ on, with a
/// safety factor of 2 %.
inline Polynomials polarExpress(int64_t steps = 5) {
  return {steps,
          5,
          {{8.156554524902461, -22.48329292557795, 15.878769915207462},
           {4.042929935166739, -2.808917465908714, 0.5000178451051316},
           {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
           {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
           {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}}};
}

namespace equations {

/// Pushes the singular values of matrices X with norms of at most 1 towards 1. Where rows > columns
/// (`tall`) the iteration is that of the transposed matrix: A = Xᵀ·X, X·A for A·X.
inline Tensor orthogonalize(Tensor x, const Polynomials &steps, bool tall) {
  for (int64_t i = 0; i < steps.steps; ++i) {
    const double a = steps.of(i)[0], b = steps.of(i)[1], c = steps.of(i)[2];
    const Tensor gram = tall ? matmul(transpose(x), x) : matmul(x, transpose(x));
    const Tensor polynomial = b * gram + c * matmul(gram, gram);
    x = a * x + (tall ? matmul(x, polynomial) : matmul(polynomial, x));
  }
  return x;
}

} // namespace equations

struct Muon {
  Sched lr = {}, momentum = {};
  DType computeType = f32; ///< of the matrix products
  int64_t steps = 5;       ///< of the quintic iteration, with these coefficients
  double coefficients[3] = {3.4445, -4.7750, 2.0315};
  int64_t every = 1;
};
/// Muon: Jordan et al. 2024. Momentum, Nesterov's step, orthogonalized; the longer side of a tall
/// matrix makes the step longer by √(rows/columns). The matrices are the last two dimensions of a
/// parameter; leading ones hold several.
inline Optimizer muon(const char *name, const Muon &how, Line at = Line::here()) {
  require(how.steps >= 1 && how.steps <= 100, "muon: steps must be 1 to 100", at);
  require(how.computeType == f32 || how.computeType == bf16, "muon: computeType can be f32 or bf16",
          at);
  for (double coefficient : how.coefficients)
    require(coefficient > -3.4e38 && coefficient < 3.4e38, "muon: the coefficients must be f32",
            at);
  const Polynomials quintic = {
      how.steps, 1, {{how.coefficients[0], how.coefficients[1], how.coefficients[2]}}};
  const Tensor momentum = scalar({"momentum.", name}, how.momentum, f32, at);
  return optimizer(
      name, {.lr = how.lr, .every = how.every, .kind = "muon"},
      [=](Update u) {
        u.require(u.parameter.rank() >= 2, "muon updates matrices, the last two dimensions");
        const auto rows = u.parameter.size(-2), columns = u.parameter.size(-1);
        const Tensor b = u.state("muon_b", f32), g = u.gradient;
        const Tensor next = b + (g - b) * (1 - momentum);
        const Tensor x = cast(cast(g + (next - g) * momentum, how.computeType), f32);
        const Tensor scaled = cast(x / (equations::frobenius(x) + 1e-7), how.computeType);
        const Tensor direction = equations::orthogonalize(scaled, quintic, rows > columns);
        const Tensor rate = rows > columns ? u.lr * ::sqrt(double(rows) / double(columns)) : u.lr;
        u.set(b, next);
        u.set(u.parameter - cast(direction, f32) * rate);
      },
      at);
}

struct NorMuon {
  Sched lr = {}, momentum = {};
  Sched beta2 = 0.95;      ///< of the second moment
  Sched decay = 0.0;       ///< cautious: of the parameter, times lr², where it agrees with the step
  DType computeType = f32; ///< of the matrix products
  Polynomials polynomials = polarExpress();
  bool columns = false; ///< one second moment a column instead of one a row
  int64_t every = 1;
  /// Matrices of a parameter [rows, stack·columns]: [rows, columns] each, one behind the other in
  /// its memory.
  int64_t stack = 1;
  DType stateType = f32; ///< of both moments
  /// Whether a parameter in bf16 is the upper half of an exact f32, whose lower half is a state.
  bool keepsLow = false;
};
/// NorMuon: Li et al. 2025, algorithm 1: Muon whose orthogonalized rows (or columns) are divided by
/// the root of their own second moment; as the NanoGPT speedrun has it since record 41, so that the
/// step keeps the norm of the orthogonalized matrix, where the paper gives it a fixed one, and the
/// weight decay is cautious.
inline Optimizer norMuon(const char *name, const NorMuon &how, Line at = Line::here()) {
  require(how.computeType == f32 || how.computeType == bf16,
          "normuon: computeType can be f32 or bf16", at);
  return optimizer(
      name, {.lr = how.lr, .every = how.every, .kind = "normuon"},
      [=](Update u) {
        u.require(u.parameter.rank() >= 2, "normuon updates matrices, the last two dimensions");
        u.require(how.stack == 1 ||
                      (u.parameter.rank() == 2 && u.parameter.size(-1) % how.stack == 0),
                  "normuon: a stack is of one parameter [rows, stack·columns]");
        const auto rows = u.parameter.size(-2), columns = u.parameter.size(-1) / how.stack;
        auto matrices = [&](const Tensor &x) {
          return how.stack == 1 ? x : reshape(x, {how.stack, rows, columns});
        };
        u.require(!how.keepsLow || u.type == bf16,
                  "normuon: a lower half is kept of parameters in bf16");
        const Tensor low = how.keepsLow ? u.state("normuon_low", u16) : Tensor();
        const Tensor whole = how.keepsLow ? equations::joined(u.parameter, low) : u.parameter;
        const Tensor kept = u.state("normuon_m", how.stateType);
        const Tensor m = matrices(kept), g = matrices(u.gradient), w = matrices(whole);
        const Tensor nextM = m + (1 - how.momentum) * (g - m);
        const Tensor nesterov = g + how.momentum * (nextM - g);
        const Tensor scaled = nesterov / (1.02 * equations::frobenius(nesterov) + 1e-6);
        const Tensor o = cast(equations::orthogonalize(cast(scaled, how.computeType),
                                                       how.polynomials, rows > columns),
                              f32);
        const Tensor moment = mean(o * o, how.columns ? -2 : -1);
        const Tensor v = u.state("normuon_v", how.stateType, moment.shape());
        const Tensor nextV = v + (1 - how.beta2) * (moment - v);
        const Tensor even = o * rsqrt(max(nextV, 1e-10));
        Tensor direction =
            even * (equations::frobenius(o) / max(equations::frobenius(even), 1e-10));
        if (!isZero(how.decay)) // cautious: Chen et al. 2025
          direction = direction + select(direction * w >= 0.0, how.decay * u.lr * w, 0.0);
        auto asStored = [&](const Tensor &x) {
          return how.stack == 1 ? x : reshape(x, u.parameter.shape());
        };
        u.set(kept, asStored(nextM));
        u.set(v, nextV);
        const Tensor next = asStored(w - u.lr * direction);
        if (how.keepsLow)
          equations::setHalves(u, low, next);
        else
          u.set(next);
      },
      at);
}

} // namespace nano::frontend
