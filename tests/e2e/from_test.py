#!/usr/bin/env python3
"""A compilation that goes on from the IR of any stage ends in the same plan, byte for byte; so does
one that nano-opt does with the pipeline that nanoc prints; and edited IR runs, or a proof says what is
wrong with it."""

import os
import re

from harness import GPT2, ROOT, RunTest, main, overrides, read_bytes, run_command

MODEL = "models/gpt2.cpp"
SIZES = {**GPT2, "num_layers": 1}


class From(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()
        cls.known = {}
        cls.stages = [line.split()[0] for line in run_command("nanoc", "stages").stdout.splitlines()]

    def compile_to(self, name, *options):
        """(the plan's path, the finished process) of a compilation."""
        path = self.path(name)
        return path, run_command("nanoc", "compile", *options, "-o", path)

    def compiled(self, *options):
        """(plan, folder of the IR after every pass) of a compilation, which is done once."""
        name = f"whole{len(self.known)}"
        if options not in self.known:
            folder = self.path(name)
            plan, done = self.compile_to(name + ".plan", MODEL, *overrides(SIZES), *options,
                                         "--dump-ir", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.known[options] = plan, folder
        return self.known[options]

    def passes(self, stage, *options):
        """How many passes there are up to a stage."""
        text = self.ran("nanoc", "compile", *options, "--print-pipeline", "--stop-after", stage)
        inner = re.fullmatch(r"builtin\.module\((.*)\)\n", text)[1]
        return len(re.sub(r"\{[^}]*\}", "", inner).split(","))

    def ir_of(self, stage, target, *worlds):
        """A file of the IR of a stage, with its locations, for these numbers of ranks."""
        options = ("--target", target, "--world", ",".join(map(str, worlds)))
        _, folder = self.compiled(*options)
        count = self.passes(stage, "--target", target)
        folders = [folder]
        if self.stages.index(stage) >= self.stages.index("distribute") and len(worlds) > 1:
            folders = [os.path.join(folder, f"world-{world}") for world in worlds]
        parts = []
        for each in folders:
            [name] = [name for name in os.listdir(each) if name.startswith(f"{count:02}-")]
            with open(os.path.join(each, name), encoding="utf-8") as file:
                parts.append(file.read())
        path = self.path(f"{stage}.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write("// -----\n".join(parts))
        return path

    def check_every_stage(self, target, *worlds):
        options = ("--target", target, "--world", ",".join(map(str, worlds)))
        whole, _ = self.compiled(*options)
        self.assertGreater(len(self.stages), 10)
        for stage in self.stages[:-1]:
            file = self.ir_of(stage, target, *worlds)
            plan, done = self.compile_to("part.plan", file, "--from", stage, *options)
            self.assertEqual((done.returncode, done.stderr), (0, ""), stage)
            self.assertEqual(read_bytes(plan), read_bytes(whole), stage)

    def test_cpu(self):
        self.check_every_stage("cpu", 1, 2)

    def test_cuda(self):
        self.check_every_stage("cuda", 2)

    def test_printed(self):
        """What --stop-after prints with --locations is what --dump-ir writes."""
        text = self.ran("nanoc", "compile", MODEL, *overrides(SIZES), "--target", "cpu", "--world",
                        "1,2", "--stop-after", "fuse", "--locations")
        with open(self.ir_of("fuse", "cpu", 1, 2), encoding="utf-8") as file:
            dumped = file.read().split("// -----\n")
        self.assertEqual(text, f"// --world 1\n{dumped[0]}// -----\n// --world 2\n{dumped[1]}")

    def test_pipeline(self):
        """nano-opt with the printed pipeline makes of the model's IR what nanoc makes; a machine's file may have a space in its name."""
        machine = self.path("a machine.json")
        with open(os.path.join(ROOT, "machines/h100-nvlink.json"), encoding="utf-8") as known:
            with open(machine, "w", encoding="utf-8") as file:
                file.write(known.read())
        every = ("--world", 2, "--chunk-bytes", 65536, "--bucket-bytes", 4096, "--machine", machine,
                 "--products", "fused", "--reports", "norms")
        for target, options in (("cpu", ()), ("cuda", every)):
            model = (MODEL, *overrides(SIZES), "--target", target, *options)
            start = self.path("model.mlir")
            with open(start, "w", encoding="utf-8") as file:
                file.write(self.ran("nanoc", "compile", *model, "--stop-after", "model"))
            for stage in ("fuse", "verify"):
                wanted = run_command("nanoc", "compile", *model, "--stop-after", stage)
                self.assertEqual(wanted.returncode, 0, wanted.stderr)
                pipeline = self.ran("nanoc", "compile", "--target", target, *options,
                                    "--print-pipeline", "--stop-after", stage)
                found = run_command("nano-opt", start, "--pass-pipeline=" + pipeline.strip())
                self.assertEqual(found.returncode, 0, found.stderr)
                self.assertEqual(found.stdout, wanted.stdout, stage)
            whole = self.ran("nanoc", "compile", "--target", target, "--print-pipeline")
            last = self.ran("nanoc", "compile", "--target", target, "--print-pipeline",
                            "--stop-after", "verify")
            self.assertEqual(whole, last)

    def edit(self, stage, pattern, replacement):
        """Compiles edited IR of a stage, in which `pattern` must be."""
        file = self.ir_of(stage, "cpu", 1)
        with open(file, encoding="utf-8") as source:
            text = source.read()
        changed, count = re.subn(pattern, replacement, text, count=1)
        self.assertEqual(count, 1, pattern)
        with open(file, "w", encoding="utf-8") as target:
            target.write(changed)
        return self.compile_to(f"edited-{stage}.plan", file, "--from", stage, "--target", "cpu")

    def losses(self, plan):
        log, _ = self.train(plan, "run", "--steps", 3)
        return [entry["train_loss"] for entry in log if "train_loss" in entry]

    def test_edited_kernel_runs(self):
        """Another ε in the kernel of a layer norm: the step is another, and trains."""
        whole, _ = self.compiled("--target", "cpu", "--world", "1")
        plan, done = self.edit("kernels", r"dense<9\.99999974E-6>", "dense<1.000000e-01>")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        before, after = self.losses(whole), self.losses(plan)
        self.assertNotEqual(before, after)
        self.assertLess(after[-1], after[0])

    def test_edited_schedule_is_proved(self):
        """A buffer where another is still needed: the proof says which."""
        plan, done = self.edit("memory", r"(step\.buffer[^\n]*?offset = )[1-9]\d*( : i64)", r"\g<1>0\2")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"nanoc: .*\(stage verify;")
        self.assertFalse(os.path.exists(plan))

    def test_gates(self):
        """What must hold after a stage is proved of what somebody has edited, before anything goes
        on: here a gradient that is not accumulated."""
        _, done = self.edit("differentiate", r"nano\.accumulate [^\n]*\n", "\n")
        self.assertEqual(done.returncode, 2)
        self.assertIn("(stage differentiate;", done.stderr)

    def refused(self, message, *options):
        _, done = self.compile_to("none.plan", *options)
        self.assertEqual(done.returncode, 2, options)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(message, done.stderr)

    def test_errors(self):
        fuse = self.ir_of("fuse", "cpu", 2)
        model = self.ir_of("model", "cpu", 2)
        bad = self.path("bad.mlir")
        with open(bad, "w", encoding="utf-8") as file:
            file.write("module {\n  nano.reported\n}\n")
        empty = self.path("empty.mlir")
        with open(empty, "w", encoding="utf-8") as file:
            file.write("module {}\n")
        cpu = ("--target", "cpu")
        self.refused("--from lunch: no such stage; there are model,", model, "--from", "lunch")
        self.refused("--from plan: no stage is left to run", model, "--from", "plan")
        self.refused("--from fuse: no stage is left to run up to --stop-after fuse", fuse, "--from",
                     "fuse", "--stop-after", "fuse", *cpu)
        self.refused(f"{bad}:2: ", bad, "--from", "model", *cpu)
        self.refused("is no program of nanoc", empty, "--from", "model", *cpu)
        self.refused("missing.mlir: ", self.path("missing.mlir"), "--from", "model", *cpu)
        self.refused("have no buffers yet; name the stage", fuse, "--from", "kernels", *cpu)
        self.refused("is of a number of ranks; name the stage", fuse, "--from", "model", *cpu)
        self.refused("is of no number of ranks yet", model, "--from", "fuse", *cpu)
        self.refused("--world 4: ", fuse, "--from", "fuse", "--world", "4", *cpu)
        self.refused("-D: not together with --from", fuse, "--from", "fuse", "-D", "num_layers=1")
        self.refused("--print-pipeline: it is of one number of ranks", "--print-pipeline", "--world",
                     "1,2")
        self.refused("--locations: it is of the IR of a stage", MODEL, "--locations")
        # Two programs for the same ranks, and one that is for all twice.
        for stage, file, message in (("fuse", fuse, "holds two programs for 2 ranks"),
                                     ("model", model, "holds 2 programs; all numbers of ranks")):
            with open(file, encoding="utf-8") as source:
                text = source.read()
            with open(bad, "w", encoding="utf-8") as target:
                target.write(text + "// -----\n" + text)
            self.refused(message, bad, "--from", stage, *cpu)

    def test_without_lines(self):
        """IR without locations compiles, and nanoc says what is missing."""
        text = self.ran("nanoc", "compile", MODEL, *overrides(SIZES), "--target",
                        "cpu", "--stop-after", "fuse")
        path = self.path("bare.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        _, done = self.compile_to("bare.plan", path, "--from", "fuse", "--target", "cpu")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, f"nanoc: {path} has no model lines: the plan will name its own; "
                         "print it with --locations, or take it from --dump-ir\n")


if __name__ == "__main__":
    main()
