// What the training loop needs to know of a model: parameters, loss with gradient, and update.
#pragma once

#include "tests/reference/Hyperparameters.h"
#include "tests/reference/Optimizers.h"
#include "tests/reference/Tensor.h"

#include <memory>

namespace nano::reference {

/// One packed sequence: targets[t] is the token after inputs[t].
struct Sequence {
  std::vector<int64_t> inputs, targets;
};

/// Optimizer state by parameter name.
struct OptimizerState {
  std::map<std::string, AdamState> adam;
  std::map<std::string, Vec> muon;
  std::map<std::string, NorMuonState> norMuon;
  std::map<std::string, Vec> kept; ///< gradients of the step before
};

/// How training sequences are made of documents: ShardReader::next, nextAligned or nextCut.
enum class Documents { contiguous, aligned, cut };

class Model {
public:
  virtual ~Model() = default;

  /// Names and shapes of all parameters.
  virtual Shapes parameterShapes() const = 0;

  /// Σ over the sequence's tokens of −log softmax(logits)[target], with schedules at the 0-based
  /// `step`. When gradients are given, adds ∂(the model's training loss of this sequence)/∂p.
  virtual Real tokenLossSum(const Tensors &parameters, const Sequence &sequence, int64_t step,
                            Tensors *gradients) const = 0;

  /// One optimizer step at the 0-based `step`, from gradients averaged over the sequences.
  virtual void update(Tensors &parameters, Tensors &gradients, OptimizerState &state,
                      int64_t step) const = 0;

  /// Mean and standard deviation that fillRandomly draws element `index` of a parameter with. No
  /// tensor is constant: where c_proj and lm_head start at zero, the first gradients of the scalars
  /// are of the order of the norms' ε, and Adam makes full steps of them. In f32 a few hundred
  /// tokens leave more noise than that; such runs stay near those in f64 from other parameters
  /// only.
  struct Normal {
    Real mean, deviation;
  };
  virtual Normal randomValue(const std::string &name, int64_t index) const = 0;

  /// A model whose documents are cut has the hyperparameter longest_document.
  virtual Documents documents() const { return Documents::contiguous; }

  /// The hyperparameters vocab_size, seq_len, val_seq_len, global_batch and num_iterations are
  /// known to every model.
  const Hyperparameters &sizes() const { return hyperparameters; }

protected:
  explicit Model(Hyperparameters values) : hyperparameters(std::move(values)) {}

  Hyperparameters hyperparameters;
};

/// "blocks.3.attn.qkv_w", as models name what a block of layers has.
std::string blockName(int64_t layer, const char *rest);
/// "value_embeds.1.weight".
std::string valueEmbedName(int64_t index);

/// One step over the sequences of a global batch: sums their gradients, divides by their number and
/// updates. Returns the mean loss per token before the update.
Real trainStep(const Model &model, Tensors &parameters, OptimizerState &state,
               const std::vector<Sequence> &batch, int64_t step);

/// Linear warm-up over warmup_iters steps to learning_rate, then half a cosine down to
/// learning_rate·final_lr_frac at num_iterations.
Real warmupCosine(const Hyperparameters &sizes, int64_t step);
/// Multiplies all gradients by limit/norm when norm, √(Σ g²) over all of them, is above limit.
void clipByNorm(Tensors &gradients, Real limit);
/// An update of gpt2 and llama: clipByNorm to grad_clip, then AdamW with the rate of warmupCosine,
/// beta1, beta2 and adam_eps, and weight_decay on matrices alone.
void clipAndAdamW(const Hyperparameters &sizes, Tensors &parameters, Tensors &gradients,
                  OptimizerState &state, int64_t step);

/// Parameters drawn by Model::randomValue; the same for the same seed.
Tensors fillRandomly(const Model &model, uint64_t seed);

/// The hyperparameters of the model "gpt124m", "speedrun26", "speedrun44", "gpt2" or "llama" with
/// their defaults.
Hyperparameters gpt124mHyperparameters();
Hyperparameters speedrun26Hyperparameters();
Hyperparameters speedrun44Hyperparameters();
Hyperparameters gpt2Hyperparameters();
Hyperparameters llamaHyperparameters();

/// Throws InputError("…") with `message` unless `condition`.
inline void require(bool condition, const std::string &message) {
  if (!condition)
    throw InputError(message);
}

} // namespace nano::reference
