// Every mistake in a model's stages: one line with file, line and what is wrong.
#include "tests/compiler/TraceErrors.h"

#include <gtest/gtest.h>

using namespace nano::test;

namespace {

TEST(StageErrors, EachIsNamed) {
  // A model whose stages are those of `declare`, which gets what a stage of T tokens records.
  using Record = std::function<std::function<void()>(int64_t)>;
  auto staged = [](std::function<void(const Record &)> declare, Training how = {10, 0, 0, 8},
                   bool validates = true, int64_t every = 1) {
    return saidBy([declare = std::move(declare), how, validates, every] {
      const Tensor table =
          param("table", {10, 16}, f32, normal(0, 1), adam("group", {.lr = 0.1, .every = every}));
      auto loss = [=](Tensor tokens, Tensor targets) {
        return crossEntropy(linear(table[tokens], table), targets);
      };
      if (validates)
        validate(4, Loss::mean, loss);
      training(how);
      declare([=](int64_t tokens) { return [=] { train(tokens, Loss::sum, loss); }; });
    });
  };
  const std::string none = "no line of a test in: ";
  EXPECT_EQ(staged([](const Record &of) {
              stage("a", {3, 8}, of(4));
              stage("b", {0, 12}, of(12));
            }),
            none)
      << "nothing is wrong with these";
  EXPECT_EQ(staged([](const Record &of) {
              stage("a", {5, 8}, of(4));
              stage("b", {5, 8}, of(4));
            }),
            "stage 'b': it ends before step 5, and the one before it, 'a', before step 5; give the "
            "stages in the order of their steps");
  EXPECT_EQ(staged([](const Record &of) {
              stage("a", {0, 8}, of(4));
              stage("b", {8, 8}, of(4));
            }),
            "stage 'a': it does not say before which step it ends; the last stage alone may leave "
            "out until");
  EXPECT_EQ(staged([](const Record &of) {
              stage("a", {3, 8}, of(4));
              stage("b", {7, 8}, of(4));
            }),
            "stage 'b': it is the last one and ends before step 7; the run has numIterations = 8 "
            "steps");
  EXPECT_EQ(staged([](const Record &of) { stage("a", {9, 8}, of(4)); }),
            "stage 'a': it is the last one and ends before step 9; the run has numIterations = 8 "
            "steps");
  EXPECT_EQ(staged([](const Record &of) { stage("a", {-1, 8}, of(4)); }),
            "stage 'a': until -1 and globalBatch 8 must not be negative");
  EXPECT_EQ(staged([](const Record &of) { stage("a", {}, of(4)); }),
            "stage 'a': neither it nor training says globalBatch");
  EXPECT_EQ(staged([](const Record &of) { stage("a", {0, 10}, of(4)); }),
            "stage 'a': globalBatch 10 is not a multiple of the 4 tokens of a training sequence");
  EXPECT_EQ(staged([](const Record &) { stage("a", {}, [] {}); }),
            "stage 'a': it has no training program; call train(tokens, Loss::sum, …) in it");
  EXPECT_EQ(staged([](const Record &of) { stage("a.b", {0, 8}, of(4)); }),
            "stage 'a.b': a name is made of letters, digits and underscores");
  EXPECT_NE(staged([](const Record &of) {
              stage("a", {3, 8}, of(4));
              stage("a", {0, 8}, of(4));
            }).find("stage 'a': the name is taken by line "),
            std::string::npos);
  EXPECT_EQ(
      staged([](const Record &of) { stage("a", {3, 8}, [&] { stage("b", {0, 8}, of(4)); }); }),
      "stage 'b': inside stage 'a'");
  EXPECT_EQ(staged([](const Record &of) {
              stage("a", {0, 8}, of(4));
              of(4)();
            }),
            "train: the run has stages, each with a training program of its own; put it into one");
  EXPECT_NE(staged([](const Record &of) {
              of(4)();
              stage("a", {0, 8}, of(4));
            }).find("has a training program for the whole run; put it into a stage"),
            std::string::npos);
  EXPECT_EQ(staged([](const Record &of) {
              stage("a", {0, 8}, [&] {
                of(4)();
                of(4)();
              });
            }),
            "train: the stage has this program already");
  EXPECT_EQ(staged([](const Record &of) { of(4)(); }), "training: globalBatch must be at least 1");

  // Programs that some stages have, and validation of different lengths.
  auto zeros = [](Tensor tokens) { return full({tokens.size(0), 10}, 0, f32); };
  auto zero = [](Tensor tokens, Tensor) { return full({tokens.size(0)}, 0, f32); };
  EXPECT_EQ(staged([&](const Record &of) {
              stage("a", {3, 8}, of(4));
              stage("b", {0, 8}, [&] {
                of(4)();
                generate(4, zeros);
              });
            }),
            "stage 'b': stages 'a' and 'b' differ in whether they have a sampling program; record "
            "it in every stage, or once outside of them for all");
  EXPECT_EQ(staged([&](const Record &of) {
              stage("a", {0, 8}, [&] {
                of(4)();
                validate(4, Loss::mean, zero);
              });
            }),
            "validate: the model has one outside of stages already; record it in every stage, or "
            "once outside of them for all");
  EXPECT_EQ(staged(
                [&](const Record &of) {
                  for (int64_t tokens : {4, 8})
                    stage({"s", tokens}, {tokens == 4 ? 3 : 0, 8}, [&] {
                      of(4)();
                      validate(tokens, Loss::mean, zero);
                    });
                },
                {10, 0, 0, 8}, false),
            "stage 's8': its validation differs from that of stage 's4' in the length of a "
            "sequence or in the kind of loss; give all stages the same");

  EXPECT_EQ(staged([&](const Record &of) {
              for (int64_t tokens : {4, 8})
                stage({"s", tokens}, {tokens == 4 ? 3 : 0, 8}, [&] {
                  of(4)();
                  generate(tokens, zeros);
                });
            }),
            "stage 's8': its sampling program has sequences of 8 tokens, that of stage 's4' has 4; "
            "give all stages the same");

  // Gradients of several steps, over stages with other numbers of sequences.
  auto changing = [](int64_t at) {
    return [at](const Record &of) {
      stage("a", {at, 8}, of(4));
      stage("b", {0, 16}, of(4));
    };
  };
  EXPECT_EQ(staged(changing(3), {10, 0, 0, 8}, true, 2),
            "stage 'b': it begins at step 3, among the 2 steps whose gradients optimizer 'group' "
            "takes together, and has another number of sequences a step than the one before it; "
            "begin it at a multiple of 2");
  EXPECT_EQ(staged(changing(4), {10, 0, 0, 8}, true, 2), none);
}

} // namespace
