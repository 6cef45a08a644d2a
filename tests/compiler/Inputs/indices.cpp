// Embeddings of tokens and of positions and a loss, whose indices hyperparameters move out of their
// tables.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const auto vocab = hyper("vocab_size", 257, "tokens");
  const auto eos = hyper("eos_token", 256, "the token that begins a document", 0);
  const auto rows = hyper("rows", 257, "rows of the tokens' table");
  const auto positions = hyper("positions", 64, "rows of the positions' table");
  const auto columns = hyper("columns", 264, "columns of the logits");
  const auto factor = hyper("factor", 1, "of tokens, before they are looked up");
  const auto shift = hyper("shift", 0, "added to tokens that are looked up", -1000);
  const auto targetShift = hyper("target_shift", 0, "added to targets", -1000);
  const auto wraps =
      hyper("position", {"wraps", "runs", "dated"}, "what is looked up of positions");
  const auto T = hyper("seq_len", 64, "tokens of a training sequence");
  const auto valT = hyper("val_seq_len", 64, "tokens of a validation sequence");
  const auto genT = hyper("gen_seq_len", 64, "tokens that sampling sees");
  const auto batch = hyper("global_batch", 256, "tokens per optimizer step");
  const auto D = hyper("model_dim", 16, "width");
  const auto update = hyper("update", {"apart", "joined"}, "where the optimizers run");
  const Tensor age = scalar("age", step() * 16, i32);
  const auto group = adam("all", {.lr = 0.01});
  const Tensor byToken = param("tokens", {rows, D}, f32, normal(0, 1), group);
  const Tensor byPosition = param("positions", {positions, D}, f32, normal(0, 1), group);
  const Tensor head = param("head", {columns, D}, f32, normal(0, 0.1), group);

  auto logits = [&](Tensor tokens) {
    const Tensor t = iota({tokens.size(0)});
    const Tensor place = wraps == 0 ? t - t / positions * positions : wraps == 1 ? t : t + age;
    const Tensor x = byToken[tokens * factor + shift];
    const Tensor y = byPosition[place];
    return linear(norm(x + y), head);
  };
  auto loss = [&](Tensor tokens, Tensor targets) {
    const Tensor z = logits(tokens);
    return crossEntropy(z, targets + targetShift);
  };
  training({.vocabSize = vocab,
            .eosToken = eos,
            .globalBatch = batch,
            .numIterations = 10,
            .joinUpdate = update == 1});
  train(T, Loss::mean, loss);
  validate(valT, Loss::mean, loss);
  generate(genT, logits);
}
