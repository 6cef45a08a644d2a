#!/usr/bin/env python3
"""benchmarks/peers computes what nanoc's plans of the same models compute.

usage: peers_test.py CLASS     CommandLine and Energy need no PyTorch, Step does

In f32 on the CPU both are compared with nano-reference, whose double precision is exact to either:
losses within 1e-4, parameters by the norm of a tensor, for the reasons in reference_test.py. Of
models that the reference does not have, peer and plan are compared with each other likewise."""

import array
import json
import os
import random
import struct
import subprocess
import sys
import time
import unittest

from data_test import write_columns
from harness import (
    BIN,
    EOS,
    GPT2,
    GPT124M,
    LIMIT,
    LLAMA,
    PATIENCE,
    ROOT,
    TINY,
    RunTest,
    overrides,
    read_safetensors,
    tokens,
    train_losses,
    write_shard,
)

FOLDER = os.path.join(ROOT, "benchmarks", "peers")
NANORUN = os.path.join(BIN, "nanorun")
STEPS = 12
LOSS_TOLERANCE = 1e-4
PARAMETER_TOLERANCE = 5e-3
# The head's products are the same numbers in both: its 8-bit operands differ only where f32 and f64
# round to different neighbours. z is bf16 in PyTorch, so the loss of a token errs by up to 2⁻⁹ of a
# logit, and the mean over 512 tokens by far less. Adam then turns the gradients' last bits into
# whole steps where a gradient is nearly zero.
FLOAT8_FIRST_TOLERANCE = 5e-6  # the run without FP8 is 2e-5 away
FLOAT8_TOLERANCE = 1e-3
BF16_TOLERANCE = 5e-4  # of a small model's loss, over a few steps (found: 5e-5)
SIZES = {name: value for name, value in GPT124M.items() if name != "val_seq_len"}
# Clipping is active at every step and shows, as in reference_test.py.
SIZES_GPT2 = {
    **{name: value for name, value in GPT2.items() if name != "val_seq_len"},
    "learning_rate": 3e-3,
    "final_lr_frac": 0.1,
    "grad_clip": 0.25,
    "adam_eps": 1e-3,
}
SIZES_LLAMA = {name: value for name, value in LLAMA.items() if name != "val_seq_len"}
# As LLAMA, where the model has the same; clipping shows.
SIZES_QWEN3 = {**LLAMA, "head_dim": 24}
SIZES_NANOCHAT = {
    **{
        name: value
        for name, value in LLAMA.items()
        if name not in ("head_dim", "warmup_iters", "learning_rate", "adam_eps")
    },
    "num_iterations": 14,  # rates fall from step 9 on
    "warmdown_ratio": 0.4,
    "grad_clip": 0.25,
    # As near as zero, gradients' last bits would be whole steps.
    "adam_eps": 1e-3,
}
# Rows that hold whole documents of `tokens`.
SIZES_SFT = {**LLAMA, "block_size": 256}
SIZES_SFT_PEER = {name: value for name, value in SIZES_SFT.items() if name != "val_seq_len"}
SIZES_GRPO = {**SIZES_SFT, "clip_low": 0.1, "clip_high": 0.15, "kl_weight": 0.3}
# Clipping shows here too; faster, A's first gradients would be rounding, which the steps amplify.
SIZES_LORA = {**LLAMA, "lora_rank": 4, "learning_rate": 0.03, "grad_clip": 0.05, "base_dtype": "f32"}
SIZES_LORA_CHATS = {
    **{**SIZES_LORA, "block_size": 256, "lora_targets": "all"},
    **{"documents": "packed", "document_mask": "yes", "loss_mask": "yes"},
}
# Stages of four steps; windows are shorter than documents.
SIZES_44 = {
    **{"vocab_size": 257, "eos_token": EOS, "num_heads": 2, "head_dim": 16, "model_dim": 32},
    **{"seq_len": 128, "global_batch": 256, "num_iterations": 16, "extension": 4},
    **{"window_block": 4, "longest_document": 90, "momentum_warmup": 6, "momentum_cooldown": 6},
    **{"adam_eps": 0.1, "dtype": "f32"},
}
SIZES_MOE = {**LLAMA, "num_experts": 4, "router_aux_loss_coef": 0.1}
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


# flex_attention is slow without a GPU.
BLOCKS, DENSE = ("--attention", "blocks"), ("--attention", "dense")


def run(*arguments, options=(), script="step", environment=None):
    """The finished process of a script of the folder, on one thread."""
    return subprocess.run(
        [sys.executable, *options, os.path.join(FOLDER, script), *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        timeout=280 * PATIENCE,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
    )


def columns(content):
    """Columns of a file of these tokens for chats and for scored completions. Old and reference are
    near what a new model thinks."""
    source = random.Random(len(content))
    near = lambda: -5.55 + source.uniform(-0.3, 0.3)
    f32 = lambda make: ("F32", [make() for _ in content])
    return {
        "tokens": ("U16", content),
        "mask": ("U8", [source.randrange(2) for _ in content]),
        "weight": f32(lambda: source.randrange(3) / 2),
        "advantage": f32(lambda: source.uniform(-2, 2)),
        "old_logprob": f32(near),
        "ref_logprob": f32(near),
    }


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


class Step(RunTest):
    """Runs that train."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()
        for name, count in (("c_0", 5000), ("c_1", 7000)):
            path = os.path.join(cls.scratch.name, name + ".safetensors")
            write_columns(path, columns(tokens(count, count)))

    def start(self, model, sizes):
        """Initial parameters, the same for both."""
        path = self.path("initial.safetensors")
        self.ran("nano-reference", model, *overrides(sizes), "--random-init", path, "--seed", 3)
        return path

    def both(self, model, sizes, steps, *options, fp8=None):
        """(report of the peer, its parameters, the reference's losses, its parameters); `fp8` where the
        reference is not to have its default."""
        initial = self.start(model, sizes)
        found, wanted = self.path("found.safetensors"), self.path("wanted.safetensors")
        given = (*overrides(sizes), "--init", initial, "--train", self.path("t_*.bin"))
        fp8 = ("-D", f"fp8={fp8}") if fp8 else ()
        lines = self.ran(
            *("nano-reference", model, *given, *fp8, "--steps", steps, "--dump-params", wanted)
        )
        report = self.step(
            *(model, *given, *options, "--steps", steps - 2, "--warmup", 1, "--dump-params", found)
        )
        self.assertEqual(report["notes"], [])
        losses = train_losses([json.loads(line) for line in lines.splitlines()])
        return report, found, losses, wanted

    def beside_plan(self, model, sizes, *options, data="t_*.bin", learnt=0.95):
        """The report of a peer whose losses and parameters are those of the plan, from its start."""
        plan = self.compile(model, sizes, "beside.plan")
        initial, found = self.path("initial.safetensors"), self.path("found.safetensors")
        self.ran("nanorun", plan, "--steps", 0, "--dump-params", initial)
        log, wanted = self.train(plan, "beside", "--steps", STEPS, "--init", initial, data=data)
        sizes = {name: value for name, value in sizes.items() if name != "val_seq_len"}
        given = ("--init", initial, "--train", self.path(data), "--dump-params", found)
        steps = ("--steps", STEPS - 2, "--warmup", 1)
        report = self.step(model, *overrides(sizes), *given, *steps, *options)
        self.assertEqual(report["notes"], [])
        losses = train_losses(log)
        self.assert_near(report["losses"], losses, LOSS_TOLERANCE, "step")
        self.assert_parameters_near(found, wanted, PARAMETER_TOLERANCE)
        if learnt:
            self.assertLess(losses[-1], learnt * losses[0])
        return report

    def test_qwen3(self):
        self.beside_plan("qwen3", SIZES_QWEN3)
        self.beside_plan("qwen3", {**SIZES_QWEN3, "tied": "no"})

    def test_nanochat(self):
        self.beside_plan("nanochat", SIZES_NANOCHAT)

    def test_moe(self):
        """Where nothing is dropped, and where some experts have too few rows."""
        whole = self.beside_plan("moe", SIZES_MOE)
        dropped = self.beside_plan("moe", {**SIZES_MOE, "capacity_factor": 1.0})
        self.assertNotEqual(whole["losses"][1:], dropped["losses"][1:])

    def test_sft(self):
        """Chats in an order of their own; and two rows in a sequence, whose documents go on in the next
        one, without a loss mask."""
        self.beside_plan("sft", SIZES_SFT, *DENSE, data="c_*.safetensors")
        sizes = {**SIZES_SFT, "block_size": 128, "documents": "cut", "loss_mask": "no"}
        self.beside_plan("sft", sizes, *DENSE)

    def test_lora(self):
        """Adapters of some matrices, and of all on packed chats."""
        self.beside_plan("lora", SIZES_LORA, learnt=0.995)
        self.beside_plan("lora", SIZES_LORA_CHATS, *DENSE, data="c_*.safetensors", learnt=0.995)

    def test_grpo(self):
        """Ratios within and beyond the clips, with a penalty and without."""
        data = "c_*.safetensors"
        self.beside_plan("grpo", SIZES_GRPO, *DENSE, data=data, learnt=None)
        self.beside_plan("grpo", {**SIZES_GRPO, "kl_weight": 0}, *DENSE, data=data, learnt=None)

    def test_batches(self):
        """What nanorun reads of files, by every rule for documents, through several epochs."""
        sys.path.insert(0, FOLDER)
        from shards import Batches
        from sizes import Cutting

        pattern, kinds = self.path("c_*.safetensors"), {"mask": "u8", "weight": "f32"}
        named = [f"{name}:{kind}:target" for name, kind in kinds.items()]
        for rule, shuffle, longest in (
            ("contiguous", False, 0),
            ("aligned", False, 0),
            ("cut", False, 90),
            ("cut", True, 0),
            ("packed", False, 0),
            ("packed", True, 150),
        ):
            shape, seed, steps = (4, 256, longest), 5 << 40 | 7, 30
            words = (pattern, rule, int(shuffle), seed, EOS, 0, 1, steps, ":".join(map(str, shape)))
            lines = self.ran("nano-batches", *words, 0, 0, 0, *named).splitlines()
            cutting = Cutting(4, 256, EOS, rule, shuffle, longest, kinds)
            batches = Batches(pattern, cutting, seed)
            for step, line in enumerate(lines):
                batch = batches.next()
                for place, wanted in enumerate(json.loads(line)["sequences"]):
                    found = [part[place].tolist() for part in batch.columns.values()]
                    self.assertEqual(found, wanted["columns"], (rule, step))
                    self.assertEqual(batch.inputs[place].tolist(), wanted["tokens"], (rule, step))
                    self.assertEqual(batch.targets[place].tolist(), wanted["targets"], (rule, step))
            self.assertEqual((len(lines), batches.epoch > 0), (steps, True), rule)

    def step(self, model, *arguments):
        done = run(model, "--device", "cpu", "--compile", "off", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return json.loads(done.stdout)

    def test_gpt124m(self):
        # Windows of 1 to 4 blocks on 4 blocks; two micro-batches a step; two shards.
        sizes = {**SIZES, "seq_len": 512, "global_batch": 1024}
        report, found, wanted, reference = self.both("gpt124m", sizes, STEPS, *BLOCKS)
        self.assert_near(report["losses"], wanted, LOSS_TOLERANCE, "step")
        self.assert_parameters_near(found, reference, PARAMETER_TOLERANCE)
        self.assertLess(wanted[-1], 0.6 * wanted[0])

    def test_speedrun26(self):
        """Sequences that begin where documents do; an ε as large as what stands beside it tells where."""
        sizes = {**SIZES, "adam_eps": 1e-3}
        report, found, wanted, reference = self.both("speedrun26", sizes, STEPS, *BLOCKS)
        self.assert_near(report["losses"], wanted, LOSS_TOLERANCE, "step")
        self.assert_parameters_near(found, reference, PARAMETER_TOLERANCE)
        self.assertLess(wanted[-1], 0.9 * wanted[0])

    def test_speedrun44(self):
        """A whole run over the four stages; steps of Adam on every second one."""
        report, found, wanted, reference = self.both("speedrun44", SIZES_44, 16, *DENSE, fp8="off")
        self.assertEqual(report["stages"], [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4)
        self.assert_near(report["losses"], wanted, LOSS_TOLERANCE, "step")
        self.assert_parameters_near(found, reference, PARAMETER_TOLERANCE)
        self.assertLess(wanted[-1], 0.9 * wanted[0])

    def test_gpt2(self):
        # Four rows in each of two micro-batches a step; warm-up, then the cosine; two shards.
        report, found, wanted, reference = self.both("gpt2", SIZES_GPT2, STEPS)
        self.assertNotEqual(report["attention"], "fastest")
        self.assertGreater(report["attention_ms"][report["attention"]], 0)
        self.assert_near(report["losses"], wanted, LOSS_TOLERANCE, "step")
        self.assert_parameters_near(found, reference, PARAMETER_TOLERANCE)
        self.assertLess(wanted[-1], 0.95 * wanted[0])

    def test_llama(self):
        """Shared keys, and positions that turn by Llama 3.1's frequencies."""
        sizes = {**SIZES_LLAMA, "rope_scaling": "llama3", "rope_original_block": 64}
        report, found, wanted, reference = self.both("llama", sizes, STEPS)
        self.assert_near(report["losses"], wanted, LOSS_TOLERANCE, "step")
        self.assert_parameters_near(found, reference, PARAMETER_TOLERANCE)
        self.assertLess(wanted[-1], 0.95 * wanted[0])

    def test_gpt2_in_bf16(self):
        """With either kind of weights, and with logits whose columns are not all tokens'."""
        initial, found = self.start("gpt2", SIZES_GPT2), self.path("found.safetensors")
        given = ("--init", initial, "--train", self.path("t_*.bin"), "--steps", 4, "--warmup", 1)
        exact = self.step("gpt2", *overrides(SIZES_GPT2), *given)
        for weights in ("autocast", "bf16"):
            sizes = {**SIZES_GPT2, "dtype": "bf16"}
            options = ("--weights", weights, "--attention", "any", "--dump-params", found)
            report = self.step("gpt2", *overrides(sizes), *given, *options)
            self.assertEqual((report["weights"], report["attention"]), (weights, "any"))
            self.assert_near(report["losses"], exact["losses"], BF16_TOLERANCE, weights)
            self.assertNotEqual(report["losses"], exact["losses"])
            # What is dumped are the f32 weights or masters, which no bf16 holds.
            self.assert_parameters_near(found, initial, 0.5)
            values = read_safetensors(found)["h.0.attn.c_attn.weight"]
            bits = array.array("I", values.tobytes())
            self.assertGreater(sum(word & 0xFFFF != 0 for word in bits), 0.9 * len(bits))

    def test_float8_head(self):
        options = ("--fp8", "head", *BLOCKS)
        report, _, wanted, _ = self.both("gpt124m", SIZES, 6, *options, fp8="head")
        self.assertEqual(report["fp8"], "head")
        self.assert_near(report["losses"][:1], wanted[:1], FLOAT8_FIRST_TOLERANCE, "first step")
        self.assert_near(report["losses"], wanted, FLOAT8_TOLERANCE, "step")

    def test_blocks_of_the_mask(self):
        """What flex_attention reads, block by block, is what the definition of the mask says."""
        import torch

        sys.path.insert(0, FOLDER)
        from masks import block_lists, document_starts, mask_rule, ordered

        tokens = torch.zeros(1280, dtype=torch.int64)
        tokens[[3, 127, 130, 256, 900]] = 7  # one document of five blocks and more
        position = torch.arange(len(tokens))
        query, key = position[:, None], position[None, :]
        document = (tokens == 7).cumsum(0)
        start = document_starts(tokens, 7)
        for window in (1, 2, 3, 14):
            seen = (key <= query) & (document[:, None] == document[None, :])
            # Of gpt124m, by blocks, and of speedrun44, by tokens.
            for far, least in (
                (query // 128 - key // 128 < window, (position // 128 - window + 1) * 128),
                (query - key <= 100 * window, position - 100 * window),
            ):
                first = start.maximum(least)
                partly, wholly = block_lists(first)
                wide = lambda blocks: blocks.repeat_interleave(128, 0).repeat_interleave(128, 1)
                found = wide(wholly) | (wide(partly) & mask_rule(first)(0, 0, query, key))
                self.assertTrue(torch.equal(found, seen & far), window)
            self.assertEqual(bool(wholly.any()), window > 2)
            for blocks in (partly, wholly):
                counts, columns = ordered(blocks)
                for row, (count, places) in enumerate(zip(counts[0, 0], columns[0, 0])):
                    listed = sorted(places[:count].tolist())
                    self.assertEqual(listed, blocks[row].nonzero().flatten().tolist())

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

    def test_random_documents(self):
        sizes = {**SIZES, "seq_len": 1024, "global_batch": 1024, "dtype": "bf16"}
        given = ("--random", *overrides(sizes), "--steps", 2, "--warmup", 0)
        report = self.step("gpt124m", *given, *BLOCKS)
        self.assertEqual((len(report["losses"]), len(report["times_ms"])), (3, 2))
        self.assertEqual(report["windows"], [1, 1, 1])

    def test_wide_tokens(self):
        """Shards of 32-bit tokens hold what those of 16 bits do."""
        content = tokens(1100, 4)
        narrow, wide = self.path("narrow.bin"), self.path("wide.bin")
        write_shard(narrow, content)
        with open(wide, "wb") as file:
            file.write(struct.pack("<256i", 20240801, 7, len(content), *[0] * 253))
            file.write(struct.pack(f"<{len(content)}I", *content))
        given = (*overrides(SIZES_LLAMA), "--steps", 1, "--warmup", 0)
        reports = [self.step("llama", *given, "--train", path) for path in (narrow, wide)]
        self.assertEqual(reports[0]["losses"], reports[1]["losses"])

    def test_bad_files(self):
        given = ("gpt124m", "--device", "cpu", *overrides(SIZES))
        bad = self.path("bad.bin")
        write_shard(bad, range(256), magic=1)
        short = self.path("short.bin")
        write_shard(short, range(200))
        refusals = [
            (("--train", self.path("none_*.bin")), "no file matches"),
            (("--train", bad), "is no token shard"),
            (("--train", short), "no file fills a batch of 2 sequences of 256 tokens"),
            (("--random", "--init", bad), "bad.bin does not fit"),
        ]
        if not os.path.exists("/dev/nvidia0"):
            refusals.append((("--random", "--device", "cuda"), "finds no GPU"))
        for options, message in refusals:
            done = run(*given, *options)
            self.assertEqual((done.returncode, done.stdout), (2, ""), options)
            self.assertRegex(done.stderr.splitlines()[-1], message)
        # Columns that are not there, or of another type.
        bad = self.path("bad.safetensors")
        write_columns(bad, {"tokens": ("U16", tokens(3000, 1)), "mask": ("F32", [0.0] * 3000)})
        os.mkdir(self.path("empty"))
        for options, message in (
            (("--train", self.path("t_0.bin")), "has no column mask (u8), which the model reads"),
            (("--train", bad), "column mask is f32, and the model reads it as u8"),
            (("--train", self.path("empty")), "has no tokens.npy"),
            (("--random", "-D", "seq_len=200", "-D", "block_size=200", "-D", "global_batch=200"),
             "--attention flex needs seq_len to be a multiple of 128"),
            (("--random",), "--random makes no column mask; give --train"),
            (("--train", self.path("c_0.safetensors"), "-D", "block_size=64", "-D", "seq_len=64",
              *DENSE), "is longer than a row"),
        ):  # fmt: skip
            done = run("sft", "--device", "cpu", *overrides(SIZES_SFT_PEER), *options)
            self.assertEqual((done.returncode, done.stdout), (2, ""), options)
            self.assertIn(message, done.stderr.splitlines()[-1])


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
