#!/usr/bin/env python3
"""Training files as benchmarks/peers reads them, beside nanorun's loader. Needs PyTorch."""

import json
import os
import struct
import sys

from data_test import write_columns
from harness import EOS, main, overrides, tokens, write_shard
from peers import BLOCKS, DENSE, FOLDER, SIZES, SIZES_LLAMA, SIZES_SFT_PEER, PeersTest, run


class Data(PeersTest):
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
    main()
