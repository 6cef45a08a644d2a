// The hand-written backward passes against central differences, and the structure of the models:
// layer pattern, windows, documents, schedules, head.
#include "tests/reference/Gpt124m.h"
#include "tests/reference/Gpt2.h"
#include "tests/reference/Llama.h"
#include "tests/reference/Ops.h"
#include "tests/reference/Speedrun26.h"
#include "tests/reference/Speedrun44.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

using namespace nano::reference;

namespace {

Hyperparameters tiny124m(int layers) {
  Hyperparameters values = gpt124mHyperparameters();
  for (const char *assignment : {"vocab_size=19", "num_heads=2", "head_dim=8", "model_dim=12",
                                 "seq_len=384", "global_batch=384", "eos_token=18"})
    values.override(assignment);
  values.override("num_layers=" + std::to_string(layers));
  return values;
}

Hyperparameters tinyGpt2() {
  Hyperparameters values = gpt2Hyperparameters();
  for (const char *assignment :
       {"vocab_size=19", "num_layers=2", "num_heads=3", "model_dim=12", "block_size=16",
        "seq_len=48", "global_batch=48", "num_iterations=40", "warmup_iters=4"})
    values.override(assignment);
  return values;
}

Hyperparameters tinyLlama(const char *tied, const char *scaling) {
  Hyperparameters values = llamaHyperparameters();
  for (const char *assignment :
       {"vocab_size=19", "num_layers=2", "num_heads=4", "num_kv_heads=2", "head_dim=6",
        "model_dim=12", "ffn_dim=10", "block_size=16", "seq_len=48", "global_batch=48",
        "num_iterations=40", "warmup_iters=4", "rope_theta=100", "rope_original_block=16"})
    values.override(assignment);
  values.override(std::string("tied=") + tied);
  values.override(std::string("rope_scaling=") + scaling);
  return values;
}

/// Random tokens; documents begin at 0, 1, 150 and 300 where the sequence is long enough.
Sequence randomSequence(int64_t length, int64_t eos) {
  std::mt19937 generator(3);
  std::vector<int64_t> tokens(length + 1);
  for (int64_t &token : tokens)
    token = generator() % eos;
  for (int64_t start : {0, 1, 150, 300})
    if (start < length)
      tokens[start] = eos;
  return {{tokens.begin(), tokens.end() - 1}, {tokens.begin() + 1, tokens.end()}};
}

/// Random parameters with all values moved by a further N(0, 0.25), so that every path matters.
Tensors roughParameters(const Model &model) {
  Tensors parameters = fillRandomly(model, 5);
  std::mt19937 generator(7);
  std::normal_distribution<Real> normal(0, 0.25);
  for (auto &[name, tensor] : parameters)
    for (Real &p : tensor.data)
      p += normal(generator);
  return parameters;
}

/// Compares gradients with central differences of `loss` at random elements of every tensor. Beyond
/// the rounding of the loss, an error counts relative to the larger of the element and the tensor's
/// root mean square.
void expectGradients(Tensors &parameters, const Tensors &gradients, int samples,
                     const std::function<Real()> &loss) {
  std::mt19937 generator(11);
  const Real h = 3e-5, rounding = 8 * 0x1p-53 * loss() / h;
  for (auto &[name, tensor] : parameters) {
    const Vec &gradient = gradients.at(name).data;
    const Real scale =
        std::sqrt(dot(gradient.data(), gradient.data(), gradient.size()) / gradient.size());
    EXPECT_GT(scale, 0) << name << " has no gradient at all";
    for (int sample = 0; sample < samples; ++sample) {
      // Rows of tokens that do not occur have no gradient; look for an element that has one.
      size_t at = generator() % gradient.size();
      for (int tries = 0; tries < 1000 && gradient[at] == 0; ++tries)
        at = generator() % gradient.size();
      const Real original = tensor.data[at];
      const auto lossAt = [&](Real offset) {
        tensor.data[at] = original + offset;
        const Real value = loss();
        tensor.data[at] = original;
        return value;
      };
      const Real numeric = (lossAt(h) - lossAt(-h)) / (2 * h);
      EXPECT_NEAR(gradient[at], numeric, 1e-6 * std::max(std::abs(numeric), scale) + rounding)
          << name << " element " << at;
    }
  }
}

void expect124mGradients(int layers) {
  const Gpt124m model(tiny124m(layers));
  const Sequence sequence = randomSequence(384, 18);
  constexpr int64_t window = 2; // long layers see 2 of the 3 blocks, short ones 1
  Tensors parameters = roughParameters(model);
  Tensors gradients = zeros(model.parameterShapes());
  model.lossWithWindow(parameters, sequence, window, &gradients);
  expectGradients(parameters, gradients, 2,
                  [&] { return model.lossWithWindow(parameters, sequence, window, nullptr); });
}

} // namespace

TEST(Gradients, Gpt124mWithAttentionEverywhere) { expect124mGradients(6); }

TEST(Gradients, Gpt124mWithLayer7) { expect124mGradients(8); }

TEST(Gradients, Llama) {
  for (auto [tied, scaling] : {std::pair("no", "none"), std::pair("yes", "llama3")}) {
    const Llama model(tinyLlama(tied, scaling));
    Tensors parameters = roughParameters(model), gradients = zeros(model.parameterShapes());
    const Sequence sequence = randomSequence(48, 18);
    model.tokenLossSum(parameters, sequence, 0, &gradients);
    expectGradients(parameters, gradients, 4,
                    [&] { return model.tokenLossSum(parameters, sequence, 0, nullptr) / 48; });
  }
}

/// Frequencies of transformers 5.23 (ROPE_INIT_FUNCTIONS["llama3"]) for heads of 16, base 10000,
/// factor 8, 1 and 4 turns, rows of 64.
TEST(Llama, FrequenciesAreThoseOfTransformers) {
  Hyperparameters values = tinyLlama("no", "llama3");
  for (const char *assignment : {"head_dim=16", "rope_theta=10000", "rope_original_block=64"})
    values.override(assignment);
  const Llama model(values);
  const Real wanted[] = {1.0,
                         0.24438458681106567,
                         0.013042256236076355,
                         0.0039528473280370235,
                         0.0012499999720603228,
                         0.00039528473280370235,
                         0.0001250000059371814,
                         3.9528473280370235e-05};
  for (int64_t i = 0; i < 8; ++i)
    EXPECT_NEAR(model.frequency(i), wanted[i], 1e-6 * wanted[i]) << i;
}

TEST(Gradients, Gpt2) {
  const Gpt2 model(tinyGpt2());
  const Sequence sequence = randomSequence(48, 18);
  Tensors parameters = roughParameters(model);
  Tensors gradients = zeros(model.parameterShapes());
  model.tokenLossSum(parameters, sequence, 0, &gradients);
  expectGradients(parameters, gradients, 8, [&] {
    return model.tokenLossSum(parameters, sequence, 0, nullptr) / sequence.inputs.size();
  });
}

TEST(Gradients, SequencesAreAveraged) {
  Hyperparameters values = tinyGpt2();
  values.override("grad_clip=1e30");
  const Gpt2 model(values);
  const Sequence sequence = randomSequence(48, 18);
  Tensors once = roughParameters(model), twice = once;
  OptimizerState stateOnce, stateTwice;
  const Real lossOnce = trainStep(model, once, stateOnce, {sequence}, 0);
  const Real lossTwice = trainStep(model, twice, stateTwice, {sequence, sequence}, 0);
  EXPECT_NEAR(lossOnce, lossTwice, 1e-12);
  for (const auto &[name, state] : stateOnce.adam)
    for (size_t i = 0; i < state.m.size(); ++i)
      EXPECT_NEAR(state.m[i], stateTwice.adam[name].m[i], 1e-14) << name;
}

TEST(Gpt124m, PaddedColumnsTakePartInTheSoftmax) {
  const Gpt124m model(tiny124m(6));
  Tensors parameters = fillRandomly(model, 1);
  for (Real &p : parameters["lm_head.weight"].data)
    p = 0;
  const Sequence sequence = randomSequence(384, 18);
  EXPECT_EQ(parameters["lm_head.weight"].shape, (Shape{128, 12}));
  EXPECT_NEAR(model.tokenLossSum(parameters, sequence, 0, nullptr) / 384, std::log(128), 1e-12);
}

/// Moves the value embedding of a token that stands at one position only, and asks in which
/// positions the logits notice.
TEST(Gpt124m, NothingFlowsAcrossDocumentsOrBeyondTheWindow) {
  const Gpt124m model(tiny124m(6));
  const Tensors parameters = roughParameters(model);
  Sequence sequence = randomSequence(384, 18);
  // Token 17 stands at one position only, in the document [150, 300).
  for (int64_t &token : sequence.inputs)
    token = token == 17 ? 16 : token;
  sequence.inputs[160] = 17;
  const auto noticedIn = [&](int64_t first, int64_t last, int64_t window) {
    // Σ over all positions with the targets of [first, last) changed, minus Σ with the same
    // targets: the difference of two targets' losses depends only on the logits in [first, last).
    Sequence other = sequence;
    for (int64_t t = first; t < last; ++t)
      other.targets[t] = (other.targets[t] + 1) % 19;
    Tensors moved = parameters;
    for (int64_t i = 0; i < 16; ++i)
      moved["value_embeds.0.weight"].data[17 * 16 + i] += 1;
    const auto difference = [&](const Tensors &p) {
      return model.lossWithWindow(p, other, window, nullptr) -
             model.lossWithWindow(p, sequence, window, nullptr);
    };
    return std::abs(difference(moved) - difference(parameters));
  };
  EXPECT_LT(noticedIn(0, 160, 3), 1e-9) << "no position sees a later one";
  EXPECT_GT(noticedIn(160, 300, 3), 1e-3) << "its own document sees it";
  EXPECT_LT(noticedIn(300, 384, 3), 1e-9) << "the next document does not";
  EXPECT_GT(noticedIn(256, 300, 2), 1e-6) << "the next block is inside a window of 2";
  EXPECT_LT(noticedIn(256, 300, 1), 1e-9) << "and outside a window of 1";
}

TEST(Gpt124m, LayerPatterns) {
  const auto longLayers = [](int layers) {
    const Gpt124m model(tiny124m(layers));
    std::vector<int> result;
    for (int layer = 0; layer < layers; ++layer)
      if (model.isLong(layer))
        result.push_back(layer);
    return result;
  };
  EXPECT_EQ(longLayers(12), (std::vector<int>{0, 4, 7, 11}));
  EXPECT_EQ(longLayers(10), (std::vector<int>{0, 3, 5, 9}));
  EXPECT_EQ(longLayers(8), (std::vector<int>{0, 2, 4, 7}));
  EXPECT_EQ(longLayers(6), (std::vector<int>{0, 2, 3, 5}));

  const Gpt124m model(tiny124m(12));
  std::vector<int64_t> embeddings;
  for (int layer = 0; layer < 12; ++layer)
    embeddings.push_back(model.valueEmbedding(layer));
  EXPECT_EQ(embeddings, (std::vector<int64_t>{0, 1, 2, -1, -1, -1, -1, -1, -1, 0, 1, 2}));
  EXPECT_EQ(model.parameterShapes().count("blocks.7.attn.qkv_w"), 0u);
  EXPECT_EQ(model.parameterShapes().count("blocks.6.attn.qkv_w"), 1u);
}

TEST(Gpt124m, Schedules) {
  Hyperparameters values = tiny124m(6);
  values.override("num_iterations=27");
  const Gpt124m model(values);
  // 1728·s/27 = 64·s tokens, so W = ⌈s/2⌉ blocks, at least 1.
  EXPECT_EQ(model.windowBlocks(0), 1);
  EXPECT_EQ(model.windowBlocks(1), 1);
  EXPECT_EQ(model.windowBlocks(2), 1);
  EXPECT_EQ(model.windowBlocks(3), 2);
  EXPECT_EQ(model.windowBlocks(26), 13);
  EXPECT_EQ(model.windowBlocks(27), 14);
  EXPECT_EQ(model.learningRateFactor(16), 1);
  EXPECT_NEAR(model.learningRateFactor(27), 0.1, 1e-15);
  EXPECT_NEAR(model.learningRateFactor(20), 0.1 + 0.9 * (7.0 / 27) / 0.4, 1e-15);
  EXPECT_NEAR(Gpt124m::muonMomentum(0), 0.85, 1e-15);
  EXPECT_NEAR(Gpt124m::muonMomentum(150), 0.90, 1e-15);
  EXPECT_NEAR(Gpt124m::muonMomentum(900), 0.95, 1e-15);
}

TEST(Gradients, Speedrun26) {
  Hyperparameters values = speedrun26Hyperparameters();
  for (const char *assignment : {"vocab_size=19", "num_heads=2", "head_dim=8", "model_dim=12",
                                 "seq_len=384", "global_batch=384", "eos_token=18", "num_layers=8"})
    values.override(assignment);
  const Speedrun26 model(values);
  const Sequence sequence = randomSequence(384, 18);
  Tensors parameters = roughParameters(model), gradients = zeros(model.parameterShapes());
  EXPECT_EQ(parameters["scalars"].shape, (Shape{40}));
  EXPECT_EQ(parameters["value_embeds.1.weight"].shape, (Shape{128, 16}));
  model.tokenLossSum(parameters, sequence, 0, &gradients);
  // All others are Gpt124m's.
  Tensors scalarsOnly{{"scalars", parameters["scalars"]}};
  expectGradients(scalarsOnly, gradients, 30, [&] {
    parameters["scalars"] = scalarsOnly["scalars"];
    return model.tokenLossSum(parameters, sequence, 0, nullptr);
  });
  // Unused: skips beyond the fourth, those of v in layer 7, of ve where there is none.
  const Vec &scalars = gradients["scalars"].data;
  for (int64_t i = 0; i < 40; ++i) {
    const int64_t layer = (i - 24) / 2;
    const bool isUnused = (i >= 4 && i < 8) ||
                          (i >= 24 && (layer == 7 || (i % 2 == 1 && (layer == 3 || layer == 4))));
    EXPECT_EQ(scalars[i] == 0, isUnused) << i;
  }
}

TEST(Speedrun26, Schedule) {
  const Speedrun26 model(speedrun26Hyperparameters());
  EXPECT_EQ(model.learningRateFactor(962), 1);
  EXPECT_NEAR(model.learningRateFactor(963), 0.1 + 0.9 * (1 - 963.0 / 1750) / 0.45, 1e-15);
  EXPECT_NEAR(model.learningRateFactor(1750), 0.1, 1e-15);
}

TEST(Gradients, Speedrun44) {
  Hyperparameters values = speedrun44Hyperparameters();
  for (const char *assignment :
       {"vocab_size=19", "num_heads=2", "head_dim=8", "model_dim=16", "seq_len=48",
        "global_batch=48", "eos_token=18", "window_block=4", "num_iterations=7", "extension=1"})
    values.override(assignment);
  const Speedrun44 model(values);
  Sequence sequence = randomSequence(48, 18);
  sequence.inputs[0] = sequence.inputs[30] = 18;
  Tensors parameters = roughParameters(model), gradients = zeros(model.parameterShapes());
  constexpr int64_t step = 2; // of the second stage: windows of 28 and 12
  model.tokenLossSum(parameters, sequence, step, &gradients);
  expectGradients(parameters, gradients, 3,
                  [&] { return model.tokenLossSum(parameters, sequence, step, nullptr); });
  const Vec &scalars = gradients["scalars"].data;
  for (int64_t i = 0; i < 64; ++i) {
    const int64_t layer = (i - 36) / 2;
    const bool isValue = i >= 36 && i < 60, hasTable = layer == 1 || layer == 2 || layer >= 9;
    const bool isUnused = (i >= 5 && i < 14) || i >= 62 ||
                          (isValue && (layer == 0 || layer == 7 || (i % 2 == 1 && !hasTable)));
    EXPECT_EQ(scalars[i] == 0, isUnused) << i;
  }
}

TEST(Speedrun44, Schedules) {
  const Speedrun44 model(speedrun44Hyperparameters());
  EXPECT_EQ(model.learningRateFactor(1102), 1);
  for (auto [step, factor] : {std::pair<int64_t, Real>{1103, 0.999592},
                              {1500, 0.675510},
                              {2000, 0.267347},
                              {2204, 0.100816},
                              {2205, 0.10018},
                              {2244, 0.10018}})
    EXPECT_NEAR(model.learningRateFactor(step), factor, 5e-7) << step;
  for (auto [step, theta] : {std::pair<int64_t, Real>{0, 0.85},
                             {150, 0.90},
                             {300, 0.95},
                             {2195, 0.95},
                             {2220, 0.90},
                             {2244, 0.852}})
    EXPECT_NEAR(model.momentum(step), theta, 1e-15) << step;
  const int64_t windows[][3] = {{0, 384, 128},     {734, 384, 128},   {735, 896, 384},
                                {1470, 1408, 640}, {2204, 1408, 640}, {2205, 1664, 768},
                                {2244, 1664, 768}, {2245, 2560, 768}};
  for (auto [step, longWindow, shortWindow] : windows) {
    EXPECT_EQ(model.window(step, true), longWindow) << step;
    EXPECT_EQ(model.window(step, false), shortWindow) << step;
  }
  const Real scales[] = {0.1, 0.116946, 0.127518, 0.131778},
             turns[][4] = {{0.408860, 0.167166, 0.0279445, 9.76563e-4},
                           {0.356011, 0.100042, 0.0123408, 4.18527e-4},
                           {0.356011, 0.0792315, 0.00796326, 2.66335e-4},
                           {0.356011, 0.0736302, 0.00676914, 2.25361e-4}};
  for (int64_t stage = 0; stage < 4; ++stage) {
    EXPECT_NEAR(model.attentionScale(stage), scales[stage], 5e-7);
    const Vec frequencies = model.frequencies(stage);
    const int64_t places[] = {4, 8, 16, 31};
    for (int i = 0; i < 4; ++i)
      EXPECT_NEAR(frequencies[places[i]], turns[stage][i], 5e-6 * turns[stage][i]) << stage;
  }
}

TEST(Gpt2, Schedule) {
  Hyperparameters values = tinyGpt2();
  values.override("learning_rate=0.5");
  values.override("final_lr_frac=0.2");
  const Gpt2 model(values);
  EXPECT_NEAR(warmupCosine(model.sizes(), 0), 0.125, 1e-15);
  EXPECT_NEAR(warmupCosine(model.sizes(), 3), 0.5, 1e-15);
  EXPECT_NEAR(warmupCosine(model.sizes(), 4), 0.5, 1e-15);
  EXPECT_NEAR(warmupCosine(model.sizes(), 22), 0.3, 1e-15);
  EXPECT_NEAR(warmupCosine(model.sizes(), 40), 0.1, 1e-15);
}

TEST(Gpt2, RowsOfABlockAreIndependent) {
  const Gpt2 model(tinyGpt2());
  const Tensors parameters = roughParameters(model);
  const Sequence whole = randomSequence(48, 18);
  Real sum = 0;
  for (int64_t start = 0; start < 48; start += 16) {
    const Sequence row{{whole.inputs.begin() + start, whole.inputs.begin() + start + 16},
                       {whole.targets.begin() + start, whole.targets.begin() + start + 16}};
    sum += model.tokenLossSum(parameters, row, 0, nullptr);
  }
  EXPECT_NEAR(model.tokenLossSum(parameters, whole, 0, nullptr), sum, 1e-10);
}

TEST(Ops, RotaryTurnsTheFirstHalfOfThePairsOnly) {
  Vec x(2 * 8);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = Real(i);
  const Vec y = rotary(x, 1, 8, +1);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(y[i], x[i]) << "position 0 is not turned";
  // Frequencies for Dh = 8: (1/1024)^(0/1), (1/1024)^(1/1), 0, 0. Pairs are (j, j + 4).
  EXPECT_NEAR(y[8], 8 * std::cos(1.0) + 12 * std::sin(1.0), 1e-14);
  EXPECT_NEAR(y[12], -8 * std::sin(1.0) + 12 * std::cos(1.0), 1e-14);
  EXPECT_NEAR(y[9], 9 * std::cos(1.0 / 1024) + 13 * std::sin(1.0 / 1024), 1e-14);
  EXPECT_EQ(y[10], x[10]);
  EXPECT_EQ(y[15], x[15]);
}
