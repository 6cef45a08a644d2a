// The training half of the model-building API: how ranks share a step, sizes and stages of a run,
// documents and columns, and the programs themselves. A part of Frontend.h, which includes it.
#pragma once

#include "compiler/Frontend.h"

namespace nano::frontend {

//===- Training ----------------------------------------------------------------===//

/// How several ranks share a step. Matrices whose updates have products are updated by one rank of
/// a group each, with either.
enum class Dist : uint8_t {
  allreduce, ///< gradients are summed on every rank; each keeps all states of the others
  zero2,     ///< of large parameters each rank of a group sums, keeps and updates a part
};
/// Declares the hyperparameter dist and returns its value.
inline Dist distHyper(Line at = Line::here()) {
  return static_cast<Dist>(
      hyper("dist", {"allreduce", "zero2"}, "how ranks share gradients and optimizer states", at));
}

/// In which type gradients are added up: over micro-batches, the steps of an optimizer's `every`,
/// and ranks.
enum class Gradients : uint8_t {
  wide,   ///< f32
  stored, ///< that of the parameter: half the bytes for one in bf16, rounded after every addition
};

struct Training {
  int64_t vocabSize;     ///< tokens are below this
  int64_t eosToken;      ///< begins a document
  int64_t globalBatch;   ///< tokens of one optimizer step over all ranks; not needed where every
                         ///< stage says its own
  int64_t numIterations; ///< N
  double gradClip = 0;   ///< largest norm of all gradients together; 0: no limit
  Dist dist = Dist::allreduce;
  Gradients gradients = Gradients::wide;
  /// The optimizers' updates and the last micro-batch of a step are one program, so that each hides
  /// what the other communicates. A loss that is not finite is then found after the update. One
  /// rank that walks over more than two micro-batches communicates nothing: its updates stay a
  /// program of their own.
  bool joinUpdate = false;
  Optimizer logged = {}; ///< whose learning rate logs show; default: the first optimizer's
};
void training(const Training &how, Line at = Line::here());

/// What of a tensor a run reports: the mean of its elements, √Σx², max |x|, or how many lie where.
enum class Report : uint32_t { mean, norm, max, histogram };
/// A line of the run's log, where `nanoc compile --reports` asks for it by name, else nothing: once
/// a step, of all micro-batches and ranks together. Inside `train`; what it is given in `validate`
/// and `generate` is ignored. Names are unique: `report({"acts.", i}, x, Report::norm)`.
void report(const Name &name, const At &x, Report kind = Report::mean);
/// Steps of the run that have sizes of their own.
struct Stage {
  int64_t until = 0;       ///< it ends before step `until`, counted from 0; 0, of the last one: N
  int64_t globalBatch = 0; ///< tokens of one of its steps over all ranks; 0: Training::globalBatch
};
void beginStage(const Name &name, const Stage &how, Line at);
void endStage(Line at);
/// One of several stages of the run, in the order of their steps: what `programs` records is run in
/// them alone, with the sequence lengths and numbers that it records. Each has a training program;
/// validation and sampling programs may be recorded in each, or once outside of them for all.
/// Parameters, optimizer states and schedules are those of the run: s and N are those of all its
/// steps.
///
///   stage("short", {.until = 423}, [&] { train(16384, Loss::sum, lossWith(128)); });
///   stage("long", {.globalBatch = 8 * 32768}, [&] { train(32768, Loss::sum, lossWith(384)); });
template <typename F>
void stage(const Name &name, const Stage &how, const F &programs, Line at = Line::here()) {
  static_assert(requires(const F &f) { f(); }, "write [&] { … }");
  beginStage(name, how, at);
  programs();
  endStage(at);
}

/// How a sequence's loss is made of its tokens' losses.
enum class Loss : uint32_t { sum, mean };

/// How batches of the training data are cut into sequences of T tokens and a target for the last.
/// docs/data.md has the rules to the token. Validation is always contiguous.
struct Documents {
  enum Rule : uint8_t {
    Contiguous, ///< tokens as they lie in the file, wherever documents begin
    Aligned,    ///< every sequence begins with a document and goes on as tokens lie
    Cut,        ///< documents one after the other; what does not fit is cut off and not used
    Packed,     ///< whole documents one after the other; what stays free is padding
  };
  Rule rule = Contiguous;
  /// Cut, Packed: a document's tokens at most, rounded to the nearest integer at every step; what
  /// is beyond is not used. Default: no limit.
  Sched longest = {};
  /// Cut, Packed: files, and documents in each, in an order of its own for every seed and epoch.
  bool shuffle = false;
};
/// States it; without it batches are contiguous.
void documents(const Documents &how, Line at = Line::here());

/// Which element of a column goes with position t of a sequence.
enum class Place : uint32_t {
  target, ///< that of the token which is the target at t
  input,  ///< that of the token which is the input at t
};
inline constexpr Place OfTarget = Place::target, OfInput = Place::input;

/// What a column holds in the data's files: f32, bf16, i32 or u8.
struct ColumnType {
  struct U8 {};
  ColumnType(DType type) : type(type) {}
  ColumnType(U8) : isByte(true) {}
  DType type = DType::i32;
  bool isByte = false;
};
inline constexpr ColumnType::U8 u8;

/// In a training or validation program: a column of the data beside the tokens, [T] of that type,
/// u8 as i32; zero in padding. The column `in_document` (u8) is in no file: 1 for a document's
/// tokens, 0 for padding.
Tensor column(const char *name, const ColumnType &type, Place place = OfTarget,
              Line at = Line::here());

void recordLoss(bool validation, int64_t tokens, Loss loss, const void *context,
                Tensor (*call)(const void *, Tensor, Tensor), Line at);
void recordLogits(int64_t tokens, const void *context, Tensor (*call)(const void *, Tensor),
                  Line at);

/// The training program: `tokenLosses(tokens, targets)` maps i32 [T] and i32 [T] to every token's
/// loss, f32 [T]; or, with Loss::mean, to the sequence's, f32 {}.
template <typename F>
void train(int64_t tokens, Loss loss, const F &tokenLosses, Line at = Line::here()) {
  static_assert(
      requires(const F &f, Tensor x) { Tensor(f(x, x)); },
      "write [&](Tensor tokens, Tensor targets) { return losses; }");
  recordLoss(
      false, tokens, loss, &tokenLosses,
      [](const void *context, Tensor x, Tensor y) {
        return (*static_cast<const F *>(context))(x, y);
      },
      at);
}
/// The validation program, on sequences of its own length.
template <typename F>
void validate(int64_t tokens, Loss loss, const F &tokenLosses, Line at = Line::here()) {
  static_assert(
      requires(const F &f, Tensor x) { Tensor(f(x, x)); },
      "write [&](Tensor tokens, Tensor targets) { return losses; }");
  recordLoss(
      true, tokens, loss, &tokenLosses,
      [](const void *context, Tensor x, Tensor y) {
        return (*static_cast<const F *>(context))(x, y);
      },
      at);
}
/// The sampling program: `logits(tokens)` maps i32 [T] to f32 [T, V']; row t predicts the token
/// after position t.
template <typename F> void generate(int64_t tokens, const F &logits, Line at = Line::here()) {
  static_assert(
      requires(const F &f, Tensor x) { Tensor(f(x)); },
      "write [&](Tensor tokens) { return logits; }");
  recordLogits(
      tokens, &logits,
      [](const void *context, Tensor x) { return (*static_cast<const F *>(context))(x); }, at);
}

} // namespace nano::frontend
