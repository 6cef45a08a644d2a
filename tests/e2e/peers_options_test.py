#!/usr/bin/env python3
"""What the scripts of benchmarks/peers refuse, and how they measure energy: they need no PyTorch for it."""

import json
import os
import subprocess
import sys
import time

from harness import GPT124M, LIMIT, TINY, RunTest, main
from peers import FOLDER, NANORUN, run

# The library of the counters, as a GPU that spends 250 W and counts 20 times a second.
NVML = r"""
#include <stdio.h>
#include <time.h>
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { return *count = 2, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  return *device = (void *)(1ul + index), 0;
}
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) {
  return snprintf(uuid, length, "GPU-%lu-abc", (unsigned long)device), 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (device == (void *)1)
    return 3; /* this GPU does not count */
  long long ticks = 20 * now.tv_sec + now.tv_nsec / 50000000;
  return *millijoules = 12500ull * ticks, 0;
}
"""


class CommandLine(RunTest):
    def refused(self, message, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
        self.assertRegex(done.stderr.splitlines()[-1], message)

    def test_bad_options(self):
        self.refused("the following arguments are required: MODEL", "--random")
        self.refused("invalid choice: 'gpt3'", "gpt3", "--random")
        self.refused("one of the arguments --train --random is required", "gpt2")
        random = ("gpt124m", "--random")
        self.refused("--steps must be at least 1", *random, "--steps", 0)
        self.refused("--threads must be at least 1", *random, "--threads", 0)
        self.refused("--fp8 mlp: gpt124m has off, head", *random, "--fp8", "mlp")
        self.refused("--fp8 head: gpt2 has off", "gpt2", "--random", "--fp8", "head")
        self.refused("--attention flex: gpt2 has fastest, cudnn", "gpt2", "--random", "--attention", "flex")  # fmt: skip
        self.refused("--weights bf16: gpt124m has autocast", *random, "--weights", "bf16")
        self.refused("--weights bf16 needs -D dtype=bf16", "gpt2", "--random", "-Ddtype=f32", "--weights", "bf16")  # fmt: skip
        self.refused("--fast-accum needs --fp8 head", *random, "--fast-accum")
        for override, message in (
            ("layers=4", "-D layers=4 is none of name=value; the names are .*num_layers"),
            ("seq_len=long", "seq_len takes a whole number"),
            ("num_layers=7", "num_layers must be even"),
            ("head_dim=6", "head_dim must be a multiple of 4"),
            ("seq_len=100", "seq_len must be a multiple of 128"),
            ("global_batch=128", "global_batch must be a multiple of seq_len"),
            ("dtype=f16", "dtype must be bf16 or f32"),
            ("model_dim=0", "must be positive"),
            ("eos_token=60000", "eos_token must be a token"),
        ):
            self.refused(message, *random, "-D", override)
        for override, message in (
            ("learning_rate=high", "learning_rate takes a number"),
            ("num_heads=5", "model_dim must be a multiple of num_heads"),
            ("block_size=1000", "seq_len must be a multiple of block_size"),
            ("warmup_iters=-1", "warmup_iters must not be negative"),
        ):
            self.refused(message, "gpt2", "--random", "-D", override)
        for model, override, message in (
            ("llama", "documents=some", "documents must be contiguous, aligned, cut or packed"),
            ("sft", "loss_mask=1", "loss_mask must be no or yes"),
            ("sft", "documents=contiguous", "shuffle_documents needs documents=cut or packed"),
            ("lora", "lora_targets=o", "lora_targets must be qv, attention or all"),
            ("lora", "base_dtype=f16", "base_dtype must be bf16 or f32"),
            ("lora", "dtype=f32", "base_dtype=bf16 needs dtype=bf16"),
        ):
            self.refused(message, model, "--random", "-D", override)

    def test_no_torch(self):
        """Without its libraries Python finds no PyTorch."""
        sys.path.insert(0, FOLDER)
        from sizes import PEERS

        for model in PEERS:
            arguments = (model, "--random")
            self.refused("run it with a Python that has PyTorch", *arguments, options=("-S",))

    def test_compare(self):
        given = ("no.plan", "--train", "no.bin")
        refused = lambda message, *words: self.refused(message, *words, script="compare")
        refused("required: --train", "no.plan")
        refused("--steps must be at least 1", *given, "--steps", 0)
        refused("--threads must be at least 1", *given, "--threads", 0)
        refused("fast is none of default, max-autotune", *given, "--compile", "default,fast")
        refused("check --nanorun", *given, "--nanorun", self.path("none"))
        refused("nanorun failed with status 2", *given, "--nanorun", NANORUN)

    def test_plans_without_a_peer(self):
        def refused(message, model, sizes, *options):
            plan = self.compile(model, sizes, "refused.plan", *options)
            given = ("--train", "no.bin", "--nanorun", NANORUN)
            self.refused(message, plan, *given, script="compare")

        refused("of gpt_tiny, which has no peer .*; gpt124m, gpt2, llama, .* have", "gpt_tiny", TINY)
        refused("gpt124m's peer adam_every=1 alone", "gpt124m", {**GPT124M, "adam_every": 2})


class Energy(RunTest):
    def test_meter(self):
        """What a GPU of constant power spends, by a library that is asked as NVML is."""
        source, library = self.path("nvml.c"), self.path("libnvidia-ml.so.1")
        with open(source, "w", encoding="utf-8") as file:
            file.write(NVML)
        compiler = os.environ.get("CXX", "c++")
        command = [compiler, "-x", "c", "-shared", "-fPIC", "-o", library, source]
        subprocess.run(command, check=True, timeout=LIMIT)
        program = (
            "import json, time; from energy import Meter\n"
            "with Meter() as meter:\n"
            "    time.sleep(0.3); begin = time.monotonic(); time.sleep(0.73)\n"
            "    end = time.monotonic(); time.sleep(0.3)\n"
            "spent = [meter.joules(name, begin, end) for name in ('2-abc', '1-abc', 'def', None)]\n"
            "late = meter.joules('2-abc', begin, end + 60)\n"
            "print(json.dumps([end - begin, *spent, late]))"
        )
        done = subprocess.run(
            [sys.executable, "-B", "-c", program],
            capture_output=True,
            encoding="utf-8",
            timeout=LIMIT,
            env={**os.environ, "LD_LIBRARY_PATH": self.scratch.name, "PYTHONPATH": FOLDER},
        )
        self.assertEqual(done.stderr, "")
        seconds, spent, *unknown = json.loads(done.stdout)
        self.assertEqual(unknown, [None] * 4)
        self.assertAlmostEqual(spent, 250 * seconds, delta=40)  # the machine may look late

    def test_joules_between_changes(self):
        sys.path.insert(0, FOLDER)
        from energy import Meter

        meter = Meter()
        meter.seen = {"GPU-a": [(1.0, 5000), (2.0, 7000), (2.5, 7000 + 4000)], "GPU-b": []}
        self.assertEqual(meter.joules("a", 1.5, 2.25), 3.0)
        self.assertEqual(meter.joules("a", 1.0, 2.5), 6.0)
        for name, begin, end in (("a", 0.9, 2.0), ("a", 2.0, 2.6), ("b", 1.5, 2.0), ("", 1.5, 2.0)):
            self.assertIsNone(meter.joules(name, begin, end))

    def test_moments_of_steps(self):
        """A log's lines are seen when they come."""
        path = self.path("log.jsonl")
        sys.path.insert(0, FOLDER)
        from energy import StepClock

        wanted = []
        with StepClock(path) as clock, open(path, "w", encoding="utf-8") as log:
            print('{"event":"run"}', file=log, flush=True)
            for step in range(3):
                time.sleep(0.1)
                print(f'{{"event":"step","step":{step}}}', file=log, flush=True)
                wanted.append(time.monotonic())
        self.assertEqual(len(clock.times), 3)
        for found, moment in zip(clock.times, wanted):
            self.assertAlmostEqual(found, moment, delta=0.08)


if __name__ == "__main__":
    main()
