// GRPO (Shao et al. 2024) on the Llama page: completions of one prompt are a group, and a token's
// probability may move by what its completion's reward is above the group's mean, within a clipped
// ratio to the model that wrote it and held to a reference by a penalty. The data's columns say it
// all: tools/nano-grpo makes them of completions and rewards.
#include "compiler/Frontend.h"

using namespace nano::frontend;

#define NANO_LLAMA_OBJECTIVE

struct Objective {
  const double clipLow = hyper("clip_low", 0.2, "ε: a ratio below 1 − ε earns nothing more"),
               clipHigh = hyper("clip_high", 0.2, "ε: a ratio above 1 + ε earns nothing more");
  const double penalty =
      hyper("kl_weight", 0.04, "β, of the divergence from the reference; 0: none, and no column");

  bool isMeanOfRows() const { return false; }
  bool isOfRows() const { return false; }
  /// Columns of a target, f32: `weight`, 0 where it is not the model's own word; `advantage`;
  /// `old_logprob` and `ref_logprob`, what the model that wrote it and the reference thought.
  Tensor operator()(const Tensor &losses) const {
    const Tensor weight = column("weight", f32), advantage = column("advantage", f32);
    // Where nothing counts the other columns may hold anything: no ratio of theirs overflows.
    auto minus = [&](const Tensor &a, const Tensor &b) { return select(weight > 0.0, a - b, 0.0); };
    const Tensor now = -losses;
    const Tensor ratio = exp(minus(now, column("old_logprob", f32)));
    const Tensor clipped = min(max(ratio, 1 - clipLow), 1 + clipHigh);
    Tensor cost = -min(ratio * advantage, clipped * advantage);
    if (penalty != 0) { // Schulman's estimator k3, which is never negative
      const Tensor away = minus(column("ref_logprob", f32), now);
      cost = cost + penalty * (exp(away) - away - 1.0);
    }
    // So that the mean over the sequence is the weighted one.
    return cost * weight * (double(losses.size(0)) / max(sum(weight), 1e-9));
  }
};

#include "models/llama.cpp"

NANO_DEFAULTS({"documents", "packed"}, {"document_mask", "yes"}, {"block_size", 2048},
              {"seq_len", 2048}, {"val_seq_len", 2048}, {"global_batch", 131072},
              {"num_iterations", 1000}, {"learning_rate", 1e-6}, {"warmup_iters", 10},
              {"final_lr_frac", 1.0}, {"weight_decay", 0.0});
