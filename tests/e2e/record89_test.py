#!/usr/bin/env python3
"""Inputs/record89.cpp, the speedrun's record 89 in small, in whole runs over its four stages and the
last validation, on WORLDS ranks, and stopped and resumed around the step at which head and embedding
part: against Inputs/record89.json, which record89_reference.py computed in double precision with
PyTorch from the equations of the record.

Runs start from parameters that this file draws, as few gates are zero there. Tolerances: losses 1e-5,
of which f32 and the order of sums over ranks use 3e-6; of a parameter its norm and its products with
ten vectors of ±1, 5e-4 of the norm, of which they use 1.1e-4 where a weight's cautious decay changes
its mind."""

import json
import math
import os
import random
import struct

from harness import EOS, ROOT, RunTest, main, overrides, read_bytes, read_safetensors
from harness import run_command, train_losses, val_losses, write_shard

H, DH, F, HIDDEN, VOCAB, BIGRAMS, SIGNS, BAND, UNIT, L = 6, 8, 64, 16, 257, 500, 32, 5, 16, 11
D, V = H * DH, (VOCAB + 15) // 16 * 16
N, SCHEDULED, SPLIT, FLAT, ADAM_EPS = 17, 15, 11, 6, 0.1


def of_stage(*values):
    names = ("until", "T", "longest", "short", "long", "rho", "second", "third", "prefix", "falls")
    return dict(zip(names, values))


STAGES = (
    of_stage(5, UNIT, 12, 2, 6, 1.0, 0.5, 0.25, 0.25, False),
    of_stage(10, 2 * UNIT, 20, 6, 12, 1.52, 0.5, 0, 0.25, True),
    of_stage(15, 3 * UNIT, 20, 10, 20, 1.73, 0, 0, 0, False),
    of_stage(N, 3 * UNIT, 20, 12, 26, 1.73, 0, 0, 0, False),
)
SHAPES = {
    "lm_head.weight": (D, V),
    "value_embeds": (5 * V, D),
    "bigram_embed.weight": (BIGRAMS, D),
    "qk_bank": (10 * H + 4, 2 * DH, D),
    "vo_bank": (24, D, D),
    "mlp_bank": (12, 2, F, D),
    "smear_gate.weight": (1, 12),
    "ve_gate_bank": (5, H, 12),
    "mudd_w1": (2, HIDDEN, D),
    "mudd_w2": (2, 14, HIDDEN),
    "mudd_b2": (2, 14),
    "mudd_gate_w1": (2, HIDDEN, D),
    "mudd_gate_w2": (2, 41, HIDDEN),
    "mudd_gate_b2": (2, 41),
    "_mudd_gate_scale": (),
    "scalars": (24,),
    "post_lambdas": (L, 2),
    "resid_lambdas": (L, 2),
    "bigram_sign_table": (SIGNS, D),
}
# What the record starts them with: gates and connections are far from 0 where something is divided
# by them.
BIASES = {"_mudd_gate_scale": 0.1, "mudd_b2": [0.0] * 28, "mudd_gate_b2": [0.0] * 82}
BIASES["mudd_b2"][6:14] = (20.0, 20.0, 10.5, 10.0, 0.0, 0.5, 10.5, 10.0)
BIASES["mudd_b2"][14 + 1] = -5.0
for first in (0, 41):
    BIASES["mudd_gate_b2"][first + 12 : first + 18] = [2.5] * 6
    BIASES["mudd_gate_b2"][first + 19 : first + 27 : 2] = [0.5] * 4
BIASES["mudd_gate_b2"][41 + 27 : 41 + 35] = (0.5, 5.0, *[10.0] * 6)
LOSS, PARAMETERS = 1e-5, 5e-4
WORLDS = (1, 8)


def prefix(token):
    return -1 if token % 3 == 0 else token // 2


def initial():
    """{name: (shape, numbers of f32)}: none of a trained element is 0 but in what pads banks."""
    source, found = random.Random(89), {}
    for name, shape in SHAPES.items():
        count = math.prod(shape)
        if name == "bigram_sign_table":
            numbers = [source.choice((-1.0, 1.0)) for _ in range(count)]
        else:
            middle = BIASES.get(name, 1.0 if "lambdas" in name or name == "scalars" else 0.0)
            width = 0.1 if "embed" in name else 0.02 if name == "lm_head.weight" else 0.05
            if name in ("qk_bank", "vo_bank", "mlp_bank"):
                width = 0.1
            numbers = [
                (middle[i] if isinstance(middle, list) else middle) + width * source.gauss(0, 1)
                for i in range(count)
            ]
        if name in ("qk_bank", "vo_bank", "mlp_bank"):
            used = count * (11 * 2 if name == "mlp_bank" else 20) // 24
            used = 10 * H * 2 * DH * D if name == "qk_bank" else used
            numbers[used:] = [0.0] * (count - used)
        found[name] = (shape, list(struct.unpack(f"<{count}f", struct.pack(f"<{count}f", *numbers))))
    shape, head = found["lm_head.weight"]
    found["embed.weight"] = ((V, D), [head[d * V + v] for v in range(V) for d in range(D)])
    return found


def data(seed, count):
    """Documents of 3 to 39 tokens that follow each other in steps."""
    source, found = random.Random(seed), []
    while len(found) < count:
        found.append(EOS)
        token, stride = source.randrange(64), source.randrange(1, 8)
        for _ in range(source.randrange(2, 39)):
            found.append(token)
            token = source.randrange(64) if source.random() < 0.2 else (token + stride) % 64
    return found[:count]


def batches():
    """The sequences of every step: documents cut to the stage's longest, one after the other."""
    content = data(1, 40000)
    begins = [i for i, token in enumerate(content) if token == EOS] + [len(content)]
    steps, at = [], 0
    for step in range(N):
        stage = next(stage for stage in STAGES if step < stage["until"])
        sequences = []
        for _ in range(8):
            sequence = []
            while len(sequence) <= stage["T"]:
                left = stage["T"] + 1 - len(sequence)
                end = min(begins[at + 1], begins[at] + min(stage["longest"], left))
                sequence += content[begins[at] : end]
                at += 1
            sequences.append(sequence)
        steps.append(sequences)
    return steps


def validation():
    content = data(2, 4 * 4 * UNIT + 1)
    return [content[i : i + 4 * UNIT + 1] for i in range(0, len(content) - 1, 4 * UNIT)]


def marks(numbers):
    """The norm of a parameter, and its products with ten vectors of ±1."""
    found = [math.sqrt(math.fsum(x * x for x in numbers))]
    for seed in range(10):
        bits = random.Random(seed).getrandbits(len(numbers))
        found.append(math.fsum(x if bits >> i & 1 else -x for i, x in enumerate(numbers)))
    return found


def write_initial(path):
    header, content = {}, b""
    for name, (shape, numbers) in initial().items():
        part = struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {
            "dtype": "F32",
            "shape": list(shape),
            "data_offsets": [len(content), len(content) + len(part)],
        }
        content += part
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + content)


class Record89(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        at = cls.scratch.name
        write_shard(os.path.join(at, "t_0.bin"), data(1, 40000))
        write_shard(os.path.join(at, "v.bin"), data(2, 4 * 4 * UNIT + 1))
        write_initial(os.path.join(at, "initial.safetensors"))

    def compiled(self, name, sizes, worlds):
        plan = self.path(name + ".plan")
        sizes = overrides({"adam_eps": ADAM_EPS, "dist": "zero2", **sizes})
        source = os.path.join("tests", "e2e", "Inputs", "record89.cpp")
        options = ("--target", "cpu", "--world", worlds)
        done = run_command("nanoc", "compile", source, "-o", plan, *sizes, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return plan

    def run_plan(self, plan, name, *options):
        validated = ("--val", self.path("v.bin"), "--val-tokens", 16 * UNIT)
        start = () if "--resume" in options else ("--init", self.path("initial.safetensors"))
        return self.train(plan, name, *start, *validated, *options)

    def assert_resumes(self, plan, whole, parameters, ranks, *steps):
        for step in steps:
            what = f"{ranks}-{step}"
            save, options = self.path("saves" + what), ("--gpus", ranks)
            first, _ = self.run_plan(plan, "first" + what, *options, "--steps", step, "--save", save)
            rest, found = self.run_plan(plan, "rest" + what, *options, "--resume", save)
            self.assertEqual(train_losses(first) + train_losses(rest), whole)
            self.assertEqual(read_bytes(found), read_bytes(parameters))

    def test_run(self):
        with open(os.path.join(ROOT, "tests/e2e/Inputs/record89.json"), encoding="utf-8") as file:
            wanted = json.load(file)
        plan = self.compiled("record89", {}, ",".join(map(str, WORLDS)))
        for world in WORLDS:
            log, parameters = self.run_plan(plan, f"ranks{world}", "--gpus", world)
            what = f"{world} ranks"
            self.assert_near(train_losses(log), wanted["losses"], LOSS, what)
            self.assert_near(val_losses(log)[-1:], [wanted["validation"]], LOSS, what)
            found = read_safetensors(parameters)
            self.assertEqual(sorted(found), sorted(wanted["parameters"]))
            for name, expected in wanted["parameters"].items():
                for mark, other in zip(marks(found[name]), expected):
                    self.assertLessEqual(abs(mark - other), PARAMETERS * expected[0], (what, name))
        self.assert_resumes(plan, train_losses(log), parameters, WORLDS[-1], SPLIT - 1, SPLIT + 1)

    def test_as_it_is_trained(self):
        """In bf16 with 16 bits more, head and MLPs in FP8 with delayed scales, by rank."""
        plan = self.compiled("fp8", {"dtype": "bf16", "fp8": "on"}, "2")
        with open(os.path.join(ROOT, "tests/e2e/Inputs/record89.json"), encoding="utf-8") as file:
            wanted = json.load(file)["losses"]
        log, parameters = self.run_plan(plan, "fp8", "--gpus", 2)
        self.assert_near(train_losses(log), wanted, 5e-3, "step")
        self.assert_resumes(plan, train_losses(log), parameters, 2, SPLIT + 1)


if __name__ == "__main__":
    main()
