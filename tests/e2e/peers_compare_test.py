#!/usr/bin/env python3
"""benchmarks/peers/compare: plans on the CPU beside PyTorch, which it needs."""

import json
import os
import sys

from harness import GPT124M, main
from peers import (
    BF16_TOLERANCE,
    BLOCKS,
    DENSE,
    LOSS_TOLERANCE,
    NANORUN,
    PeersTest,
    SIZES_44,
    SIZES_GPT2,
    SIZES_LORA_CHATS,
    run,
)


class Compare(PeersTest):
    def compare(self, plan, *options, data="t_*.bin"):
        """(what compare prints of a plan, its report)."""
        found = self.path("compared.json")
        done = run(
            *(plan, "--train", self.path(data), "--nanorun", NANORUN, "--out", found),
            *("--threads", 1, "--steps", 3, "--warmup", 1, "--compile", "off", *options),
            script="compare",
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(found, encoding="utf-8") as file:
            report = json.load(file)
        for side in (report["nanorun"], *report["torch"]):
            self.assertEqual((len(side["losses"]), len(side["times_ms"])), (5, 3))
            self.assertIsNone(side["joules"])
            self.assertGreater(side["resident_bytes"], 1 << 20)
            between = side["timed_between"][1] - side["timed_between"][0]
            # The machine does other things too; a step's own time is in it.
            self.assertGreater(1000 * between, 0.9 * sum(side["times_ms"]) - 20)
        self.assertRegex(done.stdout, r"joules of the GPU a step +- +-")
        return done.stdout, report

    def test_compare_gpt124m(self):
        """The script that runs a plan and its peer takes the sizes from the plan."""
        plan = self.compile("gpt124m", {**GPT124M, "fp8": "all"}, "compared.plan")
        text, report = self.compare(plan, "--", *BLOCKS)
        self.assertRegex(text, r"FP8 +all +head\n.*\n(.*\n)*PyTorch / nanorun: \d")
        self.assertEqual(len(report["torch"]), 1)
        # The plan's other products in FP8 are not in PyTorch's program.
        self.assertLess(report["torch"][0]["loss_difference"], 2e-2)

    def test_compare_gpt2(self):
        sizes = {**SIZES_GPT2, "val_seq_len": 256}
        plan = self.compile("gpt2", sizes, "compared.plan")
        text, report = self.compare(plan)
        self.assertRegex(text, r"gpt2 on .*, 512 tokens a step")
        self.assertLess(report["torch"][0]["loss_difference"], LOSS_TOLERANCE)
        report = self.compare(self.compile("gpt2", {**sizes, "dtype": "bf16"}, "compared.plan"))[1]
        self.assertEqual([each["weights"] for each in report["torch"]], ["autocast", "bf16"])
        for side in report["torch"]:
            self.assertLess(side["loss_difference"], BF16_TOLERANCE)

    def test_compare_speedrun44(self):
        """A plan of four stages, its head in FP8, each stage beside PyTorch's."""
        sizes = {**SIZES_44, "dtype": "bf16", "num_iterations": 5, "extension": 1, "val_seq_len": 128}
        plan = self.compile("speedrun44", sizes, "compared.plan")
        text, report = self.compare(plan, "--", *DENSE)
        self.assertRegex(text, r"( +ms of a step of stage [123] +\d.*\n){3}")
        self.assertRegex(text, r"PyTorch / nanorun: \d.*\n( +stage [123]: \d.*\n?){3}$")
        self.assertEqual(report["torch"][0]["fp8"], "head")
        self.assertLess(report["torch"][0]["loss_difference"], BF16_TOLERANCE)

    def test_compare_lora(self):
        """A base in bf16, on columns."""
        sizes = {**SIZES_LORA_CHATS, "dtype": "bf16", "base_dtype": "bf16"}
        plan = self.compile("lora", sizes, "compared.plan")
        report = self.compare(plan, "--", *DENSE, data="c_*.safetensors")[1]
        self.assertEqual([each["weights"] for each in report["torch"]], ["autocast", "bf16"])
        for side in report["torch"]:
            self.assertLess(side["loss_difference"], BF16_TOLERANCE)

    def wrapper(self, name, program, line):
        """A program that runs a line of sh before it becomes another one."""
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\n{line}\nexec {program} "$@"\n')
        os.chmod(path, 0o755)
        return path

    def test_compare_goes_on(self):
        """What does not run is said at the end, with status 1, after what did. With --cold each has
        caches of its own."""
        plan = self.compile("gpt2", {**SIZES_GPT2, "val_seq_len": 256}, "compared.plan")
        caches = self.path("caches")
        python = self.wrapper(
            *("python", sys.executable),
            f'echo "$TORCHINDUCTOR_CACHE_DIR" >>{caches}\n'
            'case "$*" in *max-autotune*) exit 1;; esac',
        )
        nanorun = self.wrapper("nanorun", NANORUN, f'echo "$NANO_CACHE_DIR" >>{caches}')
        done = run(
            *(plan, "--train", self.path("t_*.bin"), "--nanorun", nanorun, "--python", python),
            *("--threads", 1, "--steps", 1, "--warmup", 0, "--cold"),
            *("--compile", "off,max-autotune-no-cudagraphs"),
            script="compare",
            environment={"NANO_CACHE_DIR": "usual"},
        )
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"PyTorch / nanorun: \d.*\(off, autocast\)")
        self.assertRegex(
            done.stderr, "^compare: PyTorch with --compile max-autotune.* failed with status 1\n$"
        )
        with open(caches, encoding="utf-8") as file:
            drawn, *cold = file.read().split()
        self.assertEqual((drawn, len(cold), len(set(cold))), ("usual", 3, 3))
        for cache in cold:
            self.assertIn("/nano-compare-", cache)


if __name__ == "__main__":
    main()
