// DPO (Rafailov et al. 2023) on the Llama page: of two completions of a prompt one was chosen, and
// the model moves away from a reference by as much as makes the chosen one likelier than the other.
// A pair's losses meet in a logistic function of its sums: the head is computed in chunks all the
// same. The data's columns say which tokens are whose: tools/nano-dpo makes them of pairs.
#include "compiler/Frontend.h"

using namespace nano::frontend;

#define NANO_LLAMA_OBJECTIVE

struct Objective {
  const double beta = hyper("dpo_beta", 0.1, "β: the weight of a pair's log-probabilities"),
               smoothing =
                   hyper("label_smoothing", 0.0,
                         "ε: the share of pairs that are thought to be the wrong way round");

  bool isMeanOfRows() const { return false; }
  bool isOfRows() const { return true; } // a pair's two documents
  /// Columns of a target: `weight`, f32, 1 in what was chosen, −1 in what was rejected, 0
  /// elsewhere; `ref_logprob`, f32, what the reference thought; `pair`, i32, the number of its
  /// pair, of which no two in a sequence of T tokens are T/4 + 1 or a multiple apart, as pairs in
  /// order are not.
  Tensor operator()(const Tensor &losses) const {
    const Tensor weight = column("weight", f32), reference = column("ref_logprob", f32);
    const int64_t most = losses.size(0) / 4 + 1;
    const Tensor pair = column("pair", i32) % most;
    // Where nothing counts the reference may hold anything.
    const Tensor gain = select(weight != 0.0, (-losses - reference) * weight, 0.0);
    const Tensor margin = beta * scatterAdd(gain, pair, most);
    const Tensor isPair = select(scatterAdd(abs(weight), pair, most) > 0.0, 1.0, 0.0);
    // −ln σ(m) = ln(1 + e^(−m)), and of the other order m more.
    const Tensor cost = logAddExp(-margin, 0.0) + smoothing * margin;
    return sum(cost * isPair) / max(sum(isPair), 1.0);
  }
};

#include "models/llama.cpp"

NANO_DEFAULTS({"document_mask", "yes"}, {"block_size", 2048}, {"seq_len", 2048},
              {"val_seq_len", 2048}, {"global_batch", 131072}, {"num_iterations", 1000},
              {"learning_rate", 5e-7}, {"warmup_iters", 100}, {"final_lr_frac", 0.0},
              {"weight_decay", 0.0});
