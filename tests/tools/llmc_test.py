#!/usr/bin/env python3
"""Tests of tools/nano-llmc: a model file of llm.c, written here by its definition, to a folder that
nanorun reads, and back.

usage: llmc_test.py CLASS
"""

import array
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BIN = os.environ.get("NANO_BIN", os.path.join(ROOT, "build", "bin"))
TOOL = os.path.join(ROOT, "tools", "nano-llmc")
T, V, L, H, C = 16, 130, 2, 2, 8
PADDED = 256
SIZES = {
    **{"block_size": T, "vocab_size": V, "num_layers": L, "num_heads": H, "model_dim": C},
    **{"seq_len": T, "val_seq_len": T, "global_batch": T, "eos_token": 0, "dtype": "f32"},
}
# As llm.c's train_gpt2.py writes them.
LAYERS = ("ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias")
LAYERS += ("attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight", "ln_2.bias")
LAYERS += ("mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias")
COUNTS = dict(zip(LAYERS, (C, C, 3 * C * C, 3 * C, C * C, C, C, C, 4 * C * C, 4 * C, 4 * C * C, C)))


def model(version=3, magic=20240326):
    """(the bytes of a model file, its parameters by nanorun's names)."""
    source = random.Random(5)
    values, order = {}, []

    def add(name, count, padding=0):
        # Few bits each, so that bf16 holds them.
        values[name] = [source.randrange(-64, 64) / 64 for _ in range(count)]
        order.extend([*values[name], *[0.0] * padding])

    add("wte.weight", V * C, (PADDED - V) * C)
    add("wpe.weight", T * C)
    for name in LAYERS:
        for layer in range(L):
            add(f"h.{layer}.{name}", COUNTS[name])
    add("ln_f.weight", C)
    add("ln_f.bias", C)
    raw = array.array("f", order).tobytes()
    if version == 5:
        raw = b"".join(raw[i + 2 : i + 4] for i in range(0, len(raw), 4))
    header = struct.pack("<256i", magic, version, T, V, L, H, C, PADDED, *[0] * 248)
    return header + raw, values


class LlmcTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="nano-llmc-")
        self.addCleanup(scratch.cleanup)
        self.scratch = scratch.name

    def path(self, name):
        return os.path.join(self.scratch, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def ran(self, *words):
        done = subprocess.run(
            [*words], capture_output=True, encoding="utf-8", timeout=110, cwd=ROOT
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)

    def refused(self, message, *words):
        done = subprocess.run(
            [sys.executable, TOOL, *words], capture_output=True, encoding="utf-8", timeout=110
        )
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertRegex(done.stderr, message)
        self.assertEqual([name for name in os.listdir(self.scratch) if ".tmp-" in name], [])

    def test_through_nanorun_and_back(self):
        sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
        from harness import overrides, read_safetensors

        plan = self.path("m.plan")
        nanoc, nanorun = os.path.join(BIN, "nanoc"), os.path.join(BIN, "nanorun")
        compiled = ("compile", "models/gpt2.cpp", "-o", plan, "--target", "cpu", *overrides(SIZES))
        self.ran(nanoc, *compiled)
        f32, values = model()
        for version in (3, 5):
            raw = model(version)[0]
            bin, folder = self.write(f"{version}.bin", raw), self.path(f"f{version}")
            self.ran(sys.executable, TOOL, "to-folder", bin, folder)
            dump, out = self.path("dump"), self.path(f"o{version}")
            words = ("--steps", "0", "--dump-params", dump, "--export-hf", out)
            self.ran(nanorun, plan, "--init", folder, *words)
            found = {name: list(each) for name, each in read_safetensors(dump).items()}
            self.assertEqual(found, values)
            # As it was, from its folder; in f32, from nanorun's.
            for source, wanted in ((folder, raw), (out, f32)):
                self.ran(sys.executable, TOOL, "to-model", source, self.path("again.bin"))
                self.assertEqual(self.read("again.bin"), wanted)

    def test_refusals(self):
        good = model()[0]
        folder = self.path("new")
        change = lambda place, number: (
            good[: 4 * place] + struct.pack("<i", number) + good[4 * place + 4 :]
        )
        for content, message in (
            (good[:-1], "its header says"),
            (good + b"\0", "its header says"),
            (good[:100], "ends 924 bytes too early"),
            (change(0, 7), "is no model file of llm.c"),
            (change(1, 4), "has version 4; 3 .* and 5 .* are known"),
            (change(4, 0), "sizes that no model has"),
            (change(6, 2**31 - 1), "sizes that no model has"),
            (change(7, 100), "has 100 rows for 130 tokens"),
        ):
            self.refused(message, "to-folder", self.write("bad.bin", content), folder)
        self.refused("No such file", "to-folder", self.path("none"), folder)
        self.ran(sys.executable, TOOL, "to-folder", self.write("good.bin", good), folder)
        self.refused("is there already", "to-folder", self.path("good.bin"), folder)

        out = self.path("out.bin")
        with open(folder + "/config.json", encoding="utf-8") as file:
            config = json.load(file)
        for change, message in (
            ({"model_type": "llama"}, "model_type is not gpt2"),
            ({"n_layer": "two"}, "n_layer is no size"),
            ({"n_layer": 3}, "lacks 'h.2.ln_1.weight'"),
            ({"n_embd": 16}, "'wte.weight' is .*130, 8.*, not .*130, 16"),
        ):
            self.write("new/config.json", json.dumps({**config, **change}).encode())
            self.refused(message, "to-model", folder, out)
        self.write("new/config.json", json.dumps(config).encode())
        tensors = self.read("new/model.safetensors")
        self.write("new/model.safetensors", tensors.replace(b'"F32"', b'"F16"', 1))
        self.refused("are F16, F32; llm.c's files have all in F32 or all", "to-model", folder, out)
        self.write("new/model.safetensors", tensors[:-1])
        self.refused("ends 1 bytes too early", "to-model", folder, out)
        index = {"weight_map": {"a": "../good.bin"}}
        self.write("new/model.safetensors.index.json", json.dumps(index).encode())
        self.refused("names files that are not in the folder", "to-model", folder, out)
        self.assertFalse(os.path.exists(out))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], sys.argv[1]] if len(sys.argv) > 1 else None)
