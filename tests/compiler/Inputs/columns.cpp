// A model whose loss is what its columns say: every type, both places, every rule for documents.
#include "models/optimizers.h"

using namespace nano::frontend;

NANO_MODEL {
  const auto T = hyper("seq_len", 16, "tokens of a sequence");
  const auto batch = hyper("global_batch", 64, "tokens of a step");
  const auto rule =
      hyper("rule", {"contiguous", "aligned", "cut", "packed"}, "how batches are cut");
  const auto longest = hyper("longest", 0.0, "most tokens of a document after step 2; 0: none");
  const int shuffle = hyper("shuffle", {"no", "yes"}, "whether documents are");
  const int staged = hyper("staged", {"no", "yes"}, "after step 3 sequences twice as long");
  const Optimizer group = adam("all", {.lr = 0.0});
  const Tensor scale = param("scale", {1}, f32, constant(1), group);
  documents({.rule = Documents::Rule(rule),
             .longest = longest != 0 ? select(step() < 2, 5, longest) : Sched(),
             .shuffle = shuffle == 1});

  auto loss = [&](Tensor tokens, Tensor targets) {
    const Tensor mask = column("mask", u8), before = column("mask", u8, OfInput);
    const Tensor weight = column("weight", f32), half = column("half", bf16, OfInput);
    const Tensor label = column("label", i32), inside = column("in_document", u8);
    const Tensor whole = mask + 3 * before + 5 * label + 1000 * inside + 7 * tokens + 11 * targets;
    return scale * (cast(whole, f32) + weight * 0.5 + cast(half, f32));
  };
  training({.vocabSize = 50, .eosToken = 0, .globalBatch = batch, .numIterations = 8});
  if (staged) {
    stage("short", {.until = 3}, [&] { train(T, Loss::mean, loss); });
    stage("long", {}, [&] { train(2 * T, Loss::mean, loss); });
  } else {
    train(T, Loss::mean, loss);
  }
  validate(T, Loss::sum, loss);
}
