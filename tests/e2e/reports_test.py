#!/usr/bin/env python3
"""What a run reports is what its tensors are: of parameters and their updates as checkpoints hold
them, of losses as the log has them; the same for any number of ranks; in the log, on the progress
line and in TensorBoard's files; and nothing of a run changes where nobody asks."""

import glob
import math
import os
import struct

from harness import RunTest, main, read_bytes, read_safetensors, run_command

MODEL = """#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const int64_t T = 32, D = 16, V = 257;
  const Dist dist = distHyper();
  const auto every = hyper("adam_every", 1, "steps");
  const auto clip = hyper("clip", 0.0, "largest norm");
  const auto vectors = adam("vectors", {.lr = 0.01, .beta1 = 0.75, .every = every});
  const auto matrices = muon("matrices", {.lr = 0.02, .momentum = 0.5});
  const Tensor table = param("table", {V, D}, f32, normal(0, 1), vectors);
  const Tensor gain = param("gain", {D}, f32, constant(1), vectors);
  const Tensor weight = param("weight", {D, D}, f32, normal(0, 0.3), matrices);
  const Tensor other = param("other", {D, D}, f32, normal(0, 0.2), matrices);
  auto loss = [&](Tensor tokens, Tensor targets) {
    const Tensor x = norm(table[tokens]) * gain;
    REPORT("table", table);
    REPORT("table_norm", table, Report::norm);
    REPORT("table_max", table, Report::max);
    REPORT("table_spread", table, Report::histogram);
    REPORT("tokens", tokens);
    const Tensor y = x + linear(linear(x, weight), other);
    REPORT("acts", y, Report::norm);
    REPORT("acts_spread", y, Report::histogram);
    const Tensor losses = crossEntropy(linear(y, table), targets);
    REPORT("loss", losses);
    REPORT("loss_max", losses, Report::max);
    return losses;
  };
  training({.vocabSize = V, .eosToken = 256, .globalBatch = 8 * T, .numIterations = 20,
            .gradClip = clip, .dist = dist});
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, loss);
}
"""
SEQUENCES = 8


def norm(values):
    return math.sqrt(math.fsum(value * value for value in values))


def sections(path):
    """{name: content} of a plan file, whose variants are numbered."""
    raw = read_bytes(path)
    found = {}
    for index in range(struct.unpack("<I", raw[12:16])[0]):
        name, at, size, _ = struct.unpack("<8sQQQ", raw[32 + 32 * index : 64 + 32 * index])
        found[name.rstrip(b"\0").decode() + str(index)] = raw[at : at + size]
    return found


def reports(log):
    """[(step, {name: value})] of a log."""
    return [(entry["step"], entry["reports"]) for entry in log if entry["event"] == "reports"]


class ReportsTest(RunTest):
    """A plan of the model with all reports."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()
        cls.plan = cls.compile_model("all.plan", "--world", "1,4", "--reports", "all")

    @classmethod
    def compile_model(cls, plan, *options, report="report"):
        source = os.path.join(cls.scratch.name, "model.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write(MODEL.replace("REPORT", report))
        path = os.path.join(cls.scratch.name, plan)
        options = ("--target", "cpu", *options)
        done = run_command("nanoc", "compile", source, "-o", path, *options)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return path


class Reports(ReportsTest):
    def test_nobody_asks(self):
        """Without --reports the plan is that of the model without the calls."""
        silent = sections(self.compile_model("silent.plan"))
        bare = sections(self.compile_model("bare.plan", report="(void)sizeof"))
        self.assertEqual(sorted(silent), sorted(bare))
        for name in silent:
            if not name.startswith("source"):
                self.assertEqual(silent[name], bare[name], name)
        some = sections(self.compile_model("some.plan", "--reports", "acts"))
        variants = [name for name in bare if name.startswith("variant")]
        self.assertTrue(variants)
        for name in variants:
            self.assertNotEqual(some[name], bare[name])

    def test_tensors(self):
        """Against what the files of parameters and states hold."""
        before = self.path("before.safetensors")
        self.ran("nanorun", self.plan, "--steps", 0, "--dump-params", before)
        log, after = self.train(self.plan, "one", "--steps", 1, "--save", self.path("saved"))
        [(step, found)] = reports(log)
        self.assertEqual(step, 1)
        old, new = read_safetensors(before), read_safetensors(after)
        # f32 sums of 4112 numbers.
        near = lambda a, b: self.assertLessEqual(abs(a - b), 2e-6 * max(abs(b), 1e-3), (a, b))
        table = old["table"]
        near(found["table"], math.fsum(table) / len(table))
        near(found["table_norm"], math.sqrt(SEQUENCES) * norm(table))
        self.assertEqual(found["table_max"], max(map(abs, table)))
        spread = found["table_spread"]
        edges = spread["edges"]
        self.assertEqual(edges, sorted([s * 4.0**k for s in (-1, 1) for k in range(-12, 7)]))
        counts = [0] * (len(edges) + 1)
        for value in table:
            counts[sum(value >= edge for edge in edges)] += SEQUENCES
        self.assertEqual(spread["counts"], counts)
        self.assertEqual((spread["min"], spread["max"]), (min(table), max(table)))
        near(spread["mean"], found["table"])
        near(spread["norm"], found["table_norm"])
        near(found["acts_spread"]["norm"], found["acts"])
        near(found["loss"], log[1]["train_loss"])
        self.assertGreaterEqual(found["loss_max"], found["loss"])

        for group, names in (("vectors", ("table", "gain")), ("matrices", ("weight", "other"))):
            size = norm(value for name in names for value in old[name])
            change = norm(b - a for name in names for a, b in zip(old[name], new[name]))
            near(found[f"param_norm/{group}"], size)
            # Differences of neighbouring f32 numbers.
            self.assertLess(abs(found[f"update_ratio/{group}"] - change / size), 1e-5 * change)
        # Adam's first moment of one step is (1 - β₁)·g.
        states = {}
        for path in glob.glob(self.path("saved/step-*/optimizer*.safetensors")):
            states.update(read_safetensors(path))
        moments = [value for name in ("table", "gain") for value in states[f"{name}.adam_m"]]
        near(found["grad_norm/vectors"], norm(moments) / 0.25)
        # Muon's momentum is (1 - μ)·g.
        moments = [value for name in ("weight", "other") for value in states[f"{name}.muon_b"]]
        near(found["grad_norm/matrices"], norm(moments) / 0.5)

    def same(self, one, many, tolerance):
        self.assertEqual([step for step, _ in one], [step for step, _ in many])
        for (step, found), (_, wanted) in zip(many, one):
            self.assertEqual(list(found), list(wanted))
            for name, value in found.items():
                pairs = [(value, wanted[name])]
                if isinstance(value, dict):
                    pairs = [(value[key], wanted[name][key]) for key in ("min", "max", "norm")]
                    self.assertEqual(sum(value["counts"]), sum(wanted[name]["counts"]))
                for a, b in pairs:
                    self.assertLessEqual(abs(a - b), tolerance * abs(b), (step, name, a, b))

    def test_ranks(self):
        """Four ranks report what one does: the first step's micro-batches to the bit, norms of what
        has been summed over ranks within f32's rounding, later steps as losses agree."""
        for dist in ("allreduce", "zero2"):
            options = ("--world", "1,4", "--reports", "all", "-D", f"dist={dist}")
            plan = self.compile_model(f"{dist}.plan", *options)
            runs = []
            for ranks in (1, 4):
                log, _ = self.train(plan, f"{dist}{ranks}", "--gpus", ranks, "--steps", 4)
                runs.append(reports(log))
            self.assertEqual([step for step, _ in runs[0]], [1, 2, 3, 4])
            first = [{k: v for k, v in run[0][1].items() if "/" not in k} for run in runs]
            self.assertEqual(first[0], first[1])
            self.same(runs[0][:1], runs[1][:1], 2e-6)
            self.same(runs[0], runs[1], 1e-3)

    def test_phases(self):
        """An optimizer that steps on every second step reports then, of both steps' mean."""
        every = self.compile_model("every.plan", "--reports", "norms", "-D", "adam_every=2")
        log, _ = self.train(every, "every", "--steps", 4)
        names = [sorted(found) for _, found in reports(log)]
        kinds = ("grad_norm", "param_norm", "update_ratio")
        some = [f"{kind}/matrices" for kind in kinds]
        both = sorted(some + [f"{kind}/vectors" for kind in kinds])
        self.assertEqual(names, [some, both, some, both])

    def test_clipping(self):
        """Norms are of gradients before they are clipped."""
        plan = self.compile_model("clip.plan", "--reports", "norms", "-D", "clip=0.001")
        found = reports(self.train(plan, "clip", "--steps", 1)[0])[0][1]
        wanted = reports(self.train(self.plan, "noclip", "--steps", 1)[0])[0][1]
        for group in ("vectors", "matrices"):
            name = f"grad_norm/{group}"
            self.assertLess(abs(found[name] - wanted[name]), 1e-6 * wanted[name])
            self.assertGreater(found[name], 0.001)

    def test_training_is_the_same(self):
        """Reports change nothing that is trained, within rounding of what is fused differently."""
        silent = self.compile_model("quiet.plan")
        _, wanted = self.train(silent, "quiet", "--steps", 5)
        _, found = self.train(self.plan, "loud", "--steps", 5)
        self.assert_parameters_near(found, wanted, 1e-5)

    def test_progress(self):
        done = self.ran("nanorun", self.plan, "--train", self.path("t_*.bin"), "--steps", 2,
                        "--show", "loss,grad_norm/*")
        last = [line for line in done.splitlines() if line.startswith("step 2/2")][0]
        for name in ("loss ", "grad_norm/vectors ", "grad_norm/matrices "):
            self.assertIn("  " + name, last.partition("tok/s")[2])
        for plan, message in (
            (self.plan, "--show nothing: the plan has no such report; it has table, table_norm, "),
            (self.compile_model("mute.plan"), "--show nothing: the plan reports nothing; compile "
             "it with nanoc compile --reports nothing\n"),
        ):
            done = run_command("nanorun", plan, "--train", self.path("t_*.bin"), "--show", "nothing")
            self.assertEqual(done.returncode, 2)
            self.assertTrue(done.stderr.startswith("nanorun: " + message), done.stderr)

    def test_bad_folder(self):
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        done = run_command("nanorun", self.plan, "--train", self.path("t_*.bin"), "--steps", 1,
                           "--tensorboard", self.path("file/board"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--tensorboard " + self.path("file/board") + ": cannot make the directory",
                      done.stderr)


if __name__ == "__main__":
    main()
