#!/usr/bin/env python3
"""nanorun --compare: two runs of a step agree, on the CPU with any number of threads and by plans for
the CPU and for the emulator; and of a plan with a wrong kernel it names that kernel and its line."""

import re

from harness import GPT2, ROOT, RunTest, main, overrides, run_command

SIZES = {**GPT2, "num_layers": 2}
FAST = {"NANO_EMULATOR": "fast"}


class Compare(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()
        cls.cpu = cls.compile("gpt2", SIZES, "cpu.plan")

    def compare(self, plan, other, *options):
        return run_command("nanorun", plan, "--train", self.path("t_*.bin"), "--compare", other,
                           *options, environment=FAST)

    def agreed(self, plan, other, *options):
        """(tensors that agree, tolerance, largest relative error)"""
        done = self.compare(plan, other, *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        count, within = re.match(r"step 1: (\d+) tensors agree within ([\d.e-]+), of ",
                                 done.stdout).groups()
        largest = re.search(r"\n  the largest relative error is ([\d.e-]+), of '", done.stdout)
        return int(count), float(within), float(largest[1]) if largest else 0

    def writes(self, plan):
        """How many operands the commands of a step's programs write."""
        text = self.ran("nanorun", "--describe", plan)
        parts = re.split(r"\nprogram (\w+): ", text)
        programs = dict(zip(parts[1::2], parts[2::2]))
        return sum(len(re.findall(r"\b(?:in)?out ", programs[name]))
                   for name in ("first", "last", "update"))

    def test_again(self):
        """Any number of threads gives the same bits, in every tensor that a command writes."""
        count, within, largest = self.agreed(self.cpu, "cpu", "--threads", 3)
        self.assertEqual((within, largest), (0, 0))
        self.assertGreater(count, 250)
        self.assertLessEqual(count, self.writes(self.cpu))

    def test_two_targets(self):
        for dtype, limit in (("f32", 2**-14), ("bf16", 2**-6)):
            sizes = {**SIZES, "dtype": dtype}
            cpu = self.compile("gpt2", sizes, f"{dtype}.plan")
            cuda = self.compile("gpt2", sizes, f"cuda-{dtype}.plan", "--target", "cuda")
            count, within, largest = self.agreed(cuda, cpu, "--device", "emulator")
            self.assertGreater(count, 250)
            self.assertAlmostEqual(within, limit, delta=limit / 100)
            self.assertGreater(largest, 0)

    def edited(self, pattern, replacement):
        """(a plan of the kernels' IR with one change, the name of the kernel that it is in)"""
        text = self.ran("nanoc", "compile", "models/gpt2.cpp", *overrides(SIZES), "--target", "cpu",
                        "--stop-after", "kernels", "--locations")
        found = re.search(pattern, text)
        kernel = re.findall(r"kernel\.func @(\w+)\(", text[: found.start()])[-1]
        path = self.path("edited.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text[: found.start()] + replacement + text[found.end() :])
        plan = self.path("edited.plan")
        done = run_command("nanoc", "compile", path, "--from", "kernels", "--target", "cpu", "-o",
                           plan)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return plan, kernel

    def test_wrong_kernel(self):
        """Another ε in one layer norm: the first of its launches is where the runs part, at both
        sides of the comparison."""
        plan, kernel = self.edited(r"dense<9\.99999974E-6>", "dense<1.000000e-01>")
        first = re.search(rf"\n  launch {kernel} .*  (models/gpt2\.cpp:\d+)\n",
                          self.ran("nanorun", "--describe", plan))
        self.assertIsNotNone(first, kernel)
        for a, b in ((plan, self.cpu), (self.cpu, plan)):
            done = self.compare(a, b)
            self.assertEqual(done.returncode, 1, done.stdout)
            lines = done.stdout.splitlines()
            name = re.fullmatch(r"step 1, micro-batch 1 of 2: '([\w/#]+)' differs, f32\[.*\]",
                                lines[0])[1]
            self.assertEqual(done.stderr,
                             f"nanorun: --compare: the runs differ, first in buffer '{name}'\n")
            place, text = re.fullmatch(r"  (models/gpt2\.cpp:(?:\d+)): (.*)", lines[1]).groups()
            with open(f"{ROOT}/models/gpt2.cpp", encoding="utf-8") as model:
                self.assertEqual(text, model.read().splitlines()[int(place.split(":")[1]) - 1].strip())
            error, allowed = map(float, re.match(r"  relative error (\S+), (\S+) is allowed; ",
                                                 lines[2]).groups())
            self.assertGreater(error, allowed)
            for side, run in ((3, a), (5, b)):
                self.assertIn(f"  {run} on cpu: program 'first', command ", lines[side])
                self.assertIn(f" '{kernel}' ({first[1]})", lines[side])
                self.assertTrue(lines[side + 1].startswith(f"    kernel {kernel}: "))
        self.agreed(plan, self.cpu, "--tolerance", 10)

    def test_wrong_update(self):
        """Micro-batches agree; the first parameter that the update decays otherwise does not."""
        other = self.compile("gpt2", {**SIZES, "weight_decay": 90}, "decay.plan")
        done = self.compare(self.cpu, other)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"^step 1, the update: '\w[\w.]*\.weight' differs, ")
        self.assertEqual(done.stdout.count(": program 'update', command "), 2)

    def refused(self, plan, other, message, *options):
        done = self.compare(plan, other, *options)
        self.assertEqual(done.returncode, 2, message)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(message, done.stderr)

    def test_bad_input(self):
        cpu = self.cpu
        self.refused(cpu, "none.plan", "--compare none.plan: cannot be read")
        self.refused(cpu, "emulator", "--compare: device emulator does not run this plan, which is for cpu")
        self.refused(cpu, "cpu", "--steps: not together with --compare", "--steps", 2)
        self.refused(cpu, "cpu", "--compare: not together with --sample", "--sample", 2)
        self.refused(cpu, "cpu", "'-1' is not a number of at least 0", "--tolerance=-1")
        done = run_command("nanorun", cpu, "--tolerance", "1")
        self.assertEqual((done.returncode, done.stderr),
                         (2, "nanorun: --tolerance: only together with --compare\n"))
        done = run_command("nanorun", cpu, "--compare", "cpu")
        self.assertIn("--train is missing", done.stderr)
        other = self.compile("llama", {"num_layers": 1, "model_dim": 64, "num_heads": 2,
                                       "num_kv_heads": 1, "vocab_size": 257, "eos_token": 256,
                                       "seq_len": 64, "val_seq_len": 64, "block_size": 64,
                                       "global_batch": 512}, "llama.plan")
        self.refused(cpu, other, "it is of the model 'llama', and ")
        wide = self.compile("gpt2", {**SIZES, "model_dim": 32}, "wide.plan")
        self.refused(cpu, wide, "its parameter '")
        layers = self.compile("gpt2", {**SIZES, "num_layers": 1}, "layers.plan")
        self.refused(cpu, layers, "it has no parameter '")
        self.refused(layers, cpu, "it has a parameter '")
        batch = self.compile("gpt2", {**SIZES, "global_batch": 256}, "batch.plan")
        self.refused(cpu, batch, "its step has 256 tokens in sequences of 256, and that of ")
        ranks = self.compile("gpt2", SIZES, "ranks.plan", "--world", "2")
        self.refused(cpu, ranks, "it runs one rank: ")
        self.refused(ranks, "cpu", "--compare: it runs one rank: ")

    def test_without_lines(self):
        text = self.ran("nanoc", "compile", "models/gpt2.cpp", *overrides(SIZES), "--target", "cpu",
                        "--stop-after", "fuse")
        path, plan = self.path("bare.mlir"), self.path("bare.plan")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = run_command("nanoc", "compile", path, "--from", "fuse", "--target", "cpu", "-o", plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(self.cpu, plan, "it has no tensor of a model line that ")
        self.agreed(plan, "cpu")


if __name__ == "__main__":
    main()
