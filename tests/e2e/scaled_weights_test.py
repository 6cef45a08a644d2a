#!/usr/bin/env python3
"""Numbers that multiply columns of products (nano-scale-weights): trained with numbers that weights
take, a model has the losses and the parameters of one that says the same so that weights cannot take
them, since something else reads the columns too; on the CPU and on the emulator, in f32, bf16 and 8
bits, over two micro-batches.

Tolerances, of a tensor's norm: 1e-5 in f32, where orders of sums differ; else the numbers' roundings
to bf16, or 8 bits, differ, each once where the other model rounds twice.

Scales in 8 bits that a run measures fit the plan that is compiled with them."""

from harness import RunTest, main, train_losses

MODEL = """#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {{
  const auto type = hyper("dtype", {{f32, bf16}}, "compute type");
  const int fp8 = hyper("fp8", {{"off", "on"}}, "whether products run in 8 bits");
  const auto group = sgd("all", {{.lr = 0.5, .momentum = 0.5}});
  const Tensor table = param("table", {{264, 32}}, f32, normal(0, 1), group);
  const Tensor weight = param("weight", {{3, 32, 32}}, f32, normal(0, 0.2), group);
  const Tensor numbers = param("numbers", {{2}}, f32, constants({{{numbers}}}), group);
  const Tensor head = param("head", {{264, 32}}, f32, normal(0, 0.2), group);
  if (fp8 == 1)
    fp8Products(weight, {{.recipe = Fp8::Current}});
  auto loss = [&](Tensor tokens, Tensor targets) {{
    const int64_t T = tokens.size(0);
    const Tensor x = cast(table, type)[tokens];
    const Tensor product = linear(x, reshape(weight, {{96, 32}}));
    auto [a, b, c] = split<3>(reshape({product}, {{T, 6, 16}}), 1);
    const Tensor y = cast(numbers[1] * c, type), z = cast(numbers[0] * a + cast(b, f32), type);
    const Tensor all = linear(reshape(cast(y + z, type), {{T, 32}}), head);
    return crossEntropy(cast(all, f32), targets){besides};
  }};
  training({{.vocabSize = 257, .eosToken = 256, .globalBatch = 1024, .numIterations = 4}});
  train(512, Loss::mean, loss);
  validate(512, Loss::mean, loss);
}}
"""
PRODUCT, SMALL = "product", "cast(numbers[0] * cast(product, f32), type)"
BESIDES = " + 0.0 * reshape(sum(reshape(cast(a + c, f32), {T, 32}), -1), {T})"


class ScaledWeights(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()

    def compiled(self, name, target, settings, *options, besides="", product=PRODUCT, numbers="0.5, -1.5"):
        source, plan = self.path(name + ".cpp"), self.path(name + ".plan")
        with open(source, "w", encoding="utf-8") as file:
            file.write(MODEL.format(besides=besides, product=product, numbers=numbers))
        words = [word for setting in settings for word in ("-D", setting)]
        self.ran("nanoc", "compile", source, "-o", plan, "--target", target, *words, *options)
        return plan

    def trained(self, name, besides, target, settings):
        """(losses, parameters after the last step) of a run of three steps."""
        plan = self.compiled(name, target, settings, besides=besides)
        device = ["--device", "emulator"] if target == "cuda" else []
        log, parameters = self.train(plan, name, "--steps", 3, *device)
        return train_losses(log), parameters

    def test_alike(self):
        for target, tolerance, settings in (
            ("cpu", 1e-5, ["dtype=f32"]),
            ("cuda", 1e-5, ["dtype=f32"]),
            ("cuda", 1e-2, ["dtype=bf16"]),
            ("cuda", 5e-2, ["dtype=bf16", "fp8=on"]),
        ):
            with self.subTest(target=target, settings=settings):
                losses, parameters = self.trained("weights", "", target, settings)
                others, wanted = self.trained("columns", BESIDES, target, settings)
                self.assert_near(losses, others, tolerance, "loss")
                self.assert_parameters_near(parameters, wanted, tolerance)

    def test_measured(self):
        """Scales that a run measures are those of the weight with its number: none of it is cut off
        in a plan that is compiled with them."""
        settings, scales = ["dtype=bf16", "fp8=on"], self.path("scales.json")
        how = {"product": SMALL, "numbers": "0.1, 0.1"}
        words = ("--steps", 3, "--device", "emulator", "--fp8-report")
        plan = self.compiled("measured", "cuda", settings, **how)
        log, _ = self.train(plan, "measured", *words, "--calibrate", scales)
        plan = self.compiled("static", "cuda", settings, "--fp8-scales", scales, **how)
        found, _ = self.train(plan, "static", *words)
        (product,) = [entry for entry in found if entry["event"] == "fp8"][-1]["products"]
        self.assertEqual(product["recipe"], "static")
        for tensor in ("input", "weight", "gradient"):
            self.assertEqual(product[tensor]["saturated"], 0, product)
        for error in product["error"].values():
            self.assertTrue(1e-3 < error < 0.12, product)
        self.assert_near(train_losses(found), train_losses(log), 0.02, "loss")


if __name__ == "__main__":
    main()
