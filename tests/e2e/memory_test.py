#!/usr/bin/env python3
"""--max-memory: what is made again in the backward pass changes no bit, the limit holds for every
number of ranks and stage, and what cannot fit is refused in one line."""

import os
import re

from harness import LLAMA, ROOT, TINY, RunTest, main, overrides, read_bytes, run_command, train_losses

STEPS = 3
# On which all copies to the host's memory and back are hidden.
FAST_LINK = os.path.join(ROOT, "tests/passes/schedule/Inputs/fast-link.json")
LONG = {**TINY, "seq_len": 256, "val_seq_len": 128, "global_batch": 1024}
# Two layers whose inputs are dropped here and there, and a state of the model's own that counts.
DROPOUT = """#include "models/optimizers.h"
using namespace nano::frontend;
template <typename F> Tensor plainly(const F &make) { return make(); }
NANO_MODEL {
  const int64_t T = 256, C = 64;
  const auto group = adam("all", {.lr = 0.01});
  const Tensor rows = param("rows", {257, C}, f32, normal(0, 0.3), group);
  List<Tensor> in(4), out(4);
  for (int i = 0; i < 4; ++i) {
    in[i] = param({"in.", i}, {4 * C, C}, f32, normal(0, 0.1), group);
    out[i] = param({"out.", i}, {C, 4 * C}, f32, normal(0, 0.1), group);
  }
  const Tensor seen = state("seen", {}, f32, constant(0));
  auto loss = [&](Tensor tokens, Tensor targets) {
    Tensor x = rows[tokens];
    for (int i = 0; i < 4; ++i)
      x = REGION([&] {
        return x + dropout(linear(dropout(tanh(linear(dropout(x, 0.1), in[i])), 0.25), out[i]), 0.1);
      });
    set(seen, seen + 1.0);
    return crossEntropy(linear(x, rows), targets);
  };
  training({.vocabSize = 257, .eosToken = 256, .globalBatch = 4 * T, .numIterations = 8});
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, [&](Tensor tokens, Tensor targets) {
    return crossEntropy(linear(rows[tokens], rows), targets);
  });
}
"""
# Llama 3 8B as docs/memory.md has it: 8,192 tokens a rank and step.
LLAMA_8B = {
    "vocab_size": 128256,
    "num_layers": 32,
    "num_heads": 32,
    "num_kv_heads": 8,
    "head_dim": 128,
    "model_dim": 4096,
    "ffn_dim": 14336,
    "block_size": 8192,
    "seq_len": 8192,
    "val_seq_len": 8192,
    "global_batch": 65536,
    "rope_theta": 500000,
    "dist": "zero2",
}
# Model, sizes, and the limit as a share of the memory that it takes without.
CASES = {
    "gpt_tiny, bf16": ("gpt_tiny", {**LONG, "dtype": "bf16"}, 0.85),
    "llama, bf16": ("llama", {**LLAMA, "dtype": "bf16"}, 0.9),
    "gpt_tiny, FP8 delayed": (
        "gpt_tiny",
        {**LONG, "seq_len": 512, "dtype": "bf16", "fp8": "mlp", "fp8_recipe": "delayed"},
        0.93,
    ),
}


def arenas(text):
    """Megabytes of each number of ranks, in the order of the lines."""
    units = {"kB": 1e-3, "MB": 1, "GB": 1e3}
    found = re.findall(r": arena ([0-9.]+) (kB|MB|GB) a rank", text)
    return [float(number) * units[unit] for number, unit in found]


STAGES = {"s0", "s1", "s2", "s3"}


class MaxMemory(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()
        for name, region in (("dropout", "plainly"), ("marked", "recompute")):
            path = os.path.join(cls.scratch.name, name + ".cpp")
            with open(path, "w", encoding="utf-8") as file:
                file.write(DROPOUT.replace("REGION", region))

    def compiled(self, source, sizes, name, *options):
        """Path of the plan, what nanoc printed, and its remarks."""
        plan = self.path(name + ".plan")
        target = () if "--target" in options else ("--target", "cpu")
        words = (source, "-o", plan, *target, *overrides(sizes), *options)
        done = run_command("nanoc", "compile", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return plan, done.stdout, done.stderr

    def check(self, source, sizes, share):
        """The same bits with less memory."""
        whole, text, _ = self.compiled(source, sizes, "whole")
        before = arenas(text)[0]
        limit = share * before
        less, text, remarks = self.compiled(source, sizes, "less", "--max-memory", f"{limit:.3f}MB")
        self.assertLessEqual(arenas(text)[0], limit + 0.005)  # which is printed with two decimals
        self.assertIn("<- chosen", text)
        self.assertRegex(remarks, r"made again in the backward pass: \w+ × \d+, [0-9.]+ MB, in")
        options = ("--steps", STEPS, "--seed", 3)
        wanted, parameters = self.train(whole, "whole", *options)
        found, again = self.train(less, "less", *options)
        self.assertEqual(train_losses(found), train_losses(wanted))
        self.assertEqual(read_bytes(again), read_bytes(parameters))
        return text, remarks

    def test_same_bits(self):
        for name, (model, sizes, share) in CASES.items():
            with self.subTest(name):
                self.check(f"models/{model}.cpp", sizes, share)

    def test_random_numbers_and_states(self):
        """The same elements are dropped when they are made again, and a state is set once."""
        _, remarks = self.check(self.path("dropout.cpp"), {}, 0.9)
        self.assertRegex(remarks, "dropout.cpp:18: remark: made again in the backward pass: tanh")

    def test_marked_regions(self):
        """What the model marks is made again without a limit, with the same bits; what comes out of a
        region is kept."""
        whole, text, _ = self.compiled(self.path("dropout.cpp"), {}, "whole")
        before = arenas(text)[0]
        marked, text, remarks = self.compiled(self.path("marked.cpp"), {}, "marked")
        self.assertLess(arenas(text)[0], 0.9 * before)
        self.assertRegex(
            remarks, r"marked.cpp:18: remark: made again .* pass, as the model asks: tanh × 4,"
        )
        self.assertNotIn("add ×", remarks)
        options = ("--steps", STEPS, "--seed", 3)
        _, wanted = self.train(whole, "whole", *options)
        _, found = self.train(marked, "marked", *options)
        self.assertEqual(read_bytes(found), read_bytes(wanted))

    def test_micro_batches(self):
        """Fewer rows in a micro-batch are chosen where the model allows it and they are fast enough;
        the order of the sums is all that changes. A length that is given stays."""
        sizes = {**LLAMA, "seq_len": 512, "val_seq_len": 64, "global_batch": 1024}
        given, text, _ = self.compiled("models/llama.cpp", sizes, "given")
        limit = f"{0.72 * arenas(text)[0]:.3f}MB"
        free = {name: size for name, size in sizes.items() if name != "seq_len"}
        source = self.path("free.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write('#include "models/llama.cpp"\nNANO_DEFAULTS({"seq_len", 512});\n')
        cut, text, _ = self.compiled(source, free, "cut", "--max-memory", limit)
        self.assertRegex(text, r"micro-batch (256|128).* <- chosen")
        self.assertLessEqual(arenas(text)[0], float(limit[:-2]))
        options = ("--steps", STEPS, "--seed", 3)
        log, wanted = self.train(given, "given", *options)
        cut_log, found = self.train(cut, "cut", *options)
        self.assert_near(train_losses(cut_log), train_losses(log), 1e-5, "loss")
        self.assert_parameters_near(found, wanted, 1e-4)
        words = ("models/llama.cpp", "-o", self.path("no.plan"), "--target", "cpu")
        done = run_command("nanoc", "compile", *words, *overrides(sizes), "--max-memory", limit)
        self.assertNotIn("micro-batch", done.stdout)

    def test_ranks(self):
        sizes = {**LONG, "dtype": "f32", "dist": "zero2"}
        worlds = ("--world", "1,2")
        whole, text, _ = self.compiled("models/gpt_tiny.cpp", sizes, "whole", *worlds)
        limit = 0.85 * max(arenas(text))
        maximum = ("--max-memory", f"{limit:.3f}MB")
        less, text, _ = self.compiled("models/gpt_tiny.cpp", sizes, "less", *worlds, *maximum)
        self.assertEqual(len(arenas(text)), 2)
        self.assertLessEqual(max(arenas(text)), limit)
        for world in (1, 2):
            options = ("--steps", STEPS, "--seed", 3, "--gpus", world)
            _, wanted = self.train(whole, "whole", *options)
            _, found = self.train(less, "less", *options)
            self.assertEqual(read_bytes(found), read_bytes(wanted))

    def test_host_memory(self):
        """What goes to the host's memory and back changes no bit, on any number of ranks; nothing does
        where it is forbidden, or where the machine's link cannot carry it meanwhile."""
        model = "models/gpt_tiny.cpp"
        sizes = {**LONG, "dtype": "bf16", "dist": "zero2"}
        words = ("--machine", FAST_LINK, "--world", "1,2")
        whole, text, _ = self.compiled(model, sizes, "whole", *words)
        limit = 0.85 * max(arenas(text))
        words += ("--max-memory", f"{limit:.3f}MB")
        less, text, remarks = self.compiled(model, sizes, "less", *words)
        self.assertLessEqual(max(arenas(text)), limit + 0.005)  # which is printed with two decimals
        self.assertRegex(text, r"no product made again  [0-9.]+ MB taken to the host's memory  <- chosen")
        self.assertRegex(text, r": arena [0-9.]+ MB a rank, .*, and [0-9.]+ [kM]B in the host's memory")
        self.assertRegex(
            remarks, r"taken to the host's memory and back: \w+ × \d+, [0-9.]+ MB, each way in [0-9.]+ ms"
        )
        done = run_command("nanorun", less, "--describe")
        self.assertRegex(done.stdout, r"(?m)^arena \d+ bytes \(.*\), from \d+ on \d+ bytes \(.*\) in the host's memory$")
        for world in (1, 2):
            options = ("--steps", STEPS, "--seed", 3, "--gpus", world)
            wanted, parameters = self.train(whole, "whole", *options)
            found, again = self.train(less, "less", *options)
            self.assertEqual(train_losses(found), train_losses(wanted))
            self.assertEqual(read_bytes(again), read_bytes(parameters))
        for other in ((*words, "--no-offload"), ("--machine", "cpu", *words[2:])):
            _, text, remarks = self.compiled(model, sizes, "other", *other)
            self.assertNotIn("host's memory", text + remarks)
            self.assertIn("made again in the backward pass", remarks)

    def test_stages(self):
        """The limit holds for all stages of a run; one that fits makes nothing again for another; the
        bits of the whole run stay."""
        model, sizes = "tests/compiler/Inputs/staged.cpp", {"unit": 64, "adam_every": 1}
        whole, text, _ = self.compiled(model, sizes, "whole")
        limit = 0.9 * arenas(text)[0]
        maximum = ("--max-memory", f"{limit:.4f}MB")
        less, text, remarks = self.compiled(model, sizes, "less", *maximum)
        self.assertLessEqual(arenas(text)[0], limit + 0.005)  # which is printed with two decimals
        self.assertIn("<- chosen", text)
        self.assertRegex(remarks, r"made again in the backward pass: .* \(stage s2, s3 of the run\)")
        self.assertNotRegex(remarks, "made again .*stage s0")
        options = ("--steps", 10, "--seed", 3)
        wanted, parameters = self.train(whole, "whole", *options)
        found, again = self.train(less, "less", *options)
        self.assertEqual({entry["stage"] for entry in found if "train_loss" in entry}, STAGES)
        self.assertEqual(train_losses(found), train_losses(wanted))
        self.assertEqual(read_bytes(again), read_bytes(parameters))
        words = (model, "-o", self.path("no.plan"), "--target", "cpu", *overrides(sizes))
        done = run_command("nanoc", "compile", *words, "--max-memory", "0.6MB")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"--max-memory: 0\.6 MB is too little for staged on 1 rank: .*s[23]")

    def test_fits_as_it_is(self):
        """Nothing is made again where it fits, nor kept where there is no room: the plan is the one
        without a limit."""
        whole, text, _ = self.compiled("models/gpt_tiny.cpp", LONG, "whole")
        limit = arenas(text)[0] + 0.01
        fits, text, remarks = self.compiled(
            "models/gpt_tiny.cpp", LONG, "fits", "--max-memory", f"{limit:.2f}MB"
        )
        self.assertEqual(read_bytes(fits), read_bytes(whole))
        self.assertRegex(text, "no product made again  <- chosen")
        self.assertEqual(remarks, "")

    def test_room_makes_it_faster(self):
        """Where there is room, what products read is kept. Norms are then made once, by kernels that
        may add up in another order than those that made them again."""
        sizes = {**LONG, "dtype": "f32"}
        whole, text, _ = self.compiled("models/gpt_tiny.cpp", sizes, "whole")
        before = arenas(text)[0]
        roomy, text, _ = self.compiled(
            "models/gpt_tiny.cpp", sizes, "roomy", "--max-memory", "1GB"
        )
        self.assertRegex(text, r"operands of products kept, in [0-9.]+ MB at most  <- chosen")
        self.assertGreater(arenas(text)[0], before)
        half = f"{before + (arenas(text)[0] - before) / 2:.2f}MB"
        _, text, _ = self.compiled("models/gpt_tiny.cpp", sizes, "half", "--max-memory", half)
        self.assertRegex(text, r"operands of products kept, in [0-9.]+ MB at most  <- chosen")
        options = ("--steps", STEPS, "--seed", 3)
        wanted, found = (
            train_losses(self.train(plan, name, *options)[0])
            for plan, name in ((whole, "whole"), (roomy, "roomy"))
        )
        for one, other in zip(found, wanted, strict=True):
            self.assertLess(abs(one - other), 1e-6 * abs(other))

    def test_eight_billion_parameters(self):
        """They fit on eight GPUs of 80 GB, and the report says which model lines hold how much."""
        options = ("--target", "cuda", "--world", "8", "--report-memory", "--max-memory", "80GB")
        _, text, remarks = self.compiled("models/llama.cpp", LLAMA_8B, "8b", *options)
        self.assertLessEqual(arenas(text)[-1], 80e3)
        self.assertRegex(text, r"program last: [0-9.]+ GB of transient buffers")
        self.assertRegex(text, r"(?m)^ +[0-9.]+ GB +[0-9.]+%  \w+ × \d+  models/llama.cpp:\d+$")
        self.assertIn("made again in the backward pass", remarks)

    def test_errors(self):
        """One line that says what does not fit, and what to change."""
        for limit, pattern in (
            ("0", r"--max-memory 0: write bytes, as in 20GB or 512MB"),
            ("20 GB", r"--max-memory 20 GB: write bytes"),
            ("lots", r"--max-memory lots: write bytes"),
            (
                "100kB",
                r"--max-memory: 0\.1 MB is less than what gpt_tiny holds from step to step on 1 rank, "
                r"[0-9.]+ MB: parameters [0-9.]+ MB, optimizer states [0-9.]+ MB, gradients [0-9.]+ MB; "
                r"allow more, or share them among more ranks",
            ),
            (
                "2.5MB",
                r"--max-memory: 2\.5 MB is too little for gpt_tiny on 1 rank: at least [0-9.]+ MB .* "
                r"from step to step, and \w+ holds [0-9.]+ [kM]B at .*; allow more, or give",
            ),
        ):
            with self.subTest(limit):
                plan = self.path("refused.plan")
                words = ("models/gpt_tiny.cpp", "-o", plan, "--target", "cpu", *overrides(LONG))
                done = run_command("nanoc", "compile", *words, "--max-memory", limit)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertRegex(done.stderr, pattern)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertFalse(os.path.exists(plan))
        for said, error in (
            ('microBatch("rows", 4);', "microBatch: there is no hyperparameter 'rows'"),
            ('microBatch("C", 64);', "microBatch: C is 64, the training sequence has 256 tokens"),
            ('microBatch("T", 100);', "microBatch: 256 tokens are no rows of 100"),
            ('microBatch("T", 0);', "microBatch: rows of 0 tokens"),
            ('microBatch("T", 4); microBatch("T", 4);', "microBatch: said twice"),
            ("recompute([&] { return rows; });", "recompute: outside of a program"),
        ):
            with self.subTest(said):
                source = self.path("wrong.cpp")
                text = DROPOUT.replace("REGION", "plainly").replace(
                    "const int64_t T = 256, C = 64;",
                    'const auto T = hyper("T", 256, "tokens"), C = hyper("C", 64, "columns");',
                )
                with open(source, "w", encoding="utf-8") as file:
                    file.write(text.replace("  training(", f"  {said}\n  training("))
                done = run_command("nanoc", "compile", source, "-o", self.path("wrong.plan"))
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"wrong.cpp:23: {error}", done.stderr)
        done = run_command(
            *("nanoc", "compile", "--from", "model", "x.mlir", "-o", self.path("x.plan")),
            *("--max-memory", "1GB"),
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("--max-memory: not together with --from", done.stderr)


if __name__ == "__main__":
    main()
