#!/usr/bin/env python3
"""What is asked of a trained model beside training: perplexity, logits, text."""

import json
import math
import os
import struct
import subprocess
import sys
import unittest

from folders import FolderTest, header_of
from harness import BIN, LIMIT, read_bytes, read_safetensors, run_command, tokens, val_losses, write_shard


class Trained(FolderTest):
    def test_perplexity(self):
        """The mean loss over a whole file is that of a validation over it."""
        shard = self.path("p_0.bin")
        write_shard(shard, tokens(16 * 20 + 6, 4, 33, 32))
        folder = self.folder("gpt2", "perplexity")
        given = (self.gpt2, "--init", folder)
        said = run_command("nanorun", *given, "--perplexity", shard)
        self.assertEqual(said.returncode, 0, said.stderr)
        found = json.loads(said.stdout)
        log = self.path("p.jsonl")
        self.ran("nanorun", *given, "--steps", 0, "--val", shard, "--log", log)
        with open(log, encoding="utf-8") as file:
            wanted = val_losses([json.loads(line) for line in file])[-1]
        self.assertEqual(
            (found["event"], found["tokens"], found["left_out"]), ("perplexity", 320, 5)
        )
        self.assertAlmostEqual(found["loss"], wanted, delta=1e-9)
        self.assertAlmostEqual(found["perplexity"], math.exp(wanted), delta=1e-6)
        write_shard(shard, tokens(10, 4, 33, 32))
        done = run_command("nanorun", *given, "--perplexity", shard)
        self.assertEqual(done.returncode, 2)
        self.assertIn("fewer tokens than one validation sequence", done.stderr)

    def test_logits(self):
        """The likeliest token is what a sample of temperature 0 takes."""
        folder, prompt, out = self.folder("gpt2", "logits"), self.path("p.txt"), self.path("l.st")
        with open(prompt, "w", encoding="utf-8") as file:
            file.write("1 2 3\n4 5")
        given = (self.gpt2, "--init", folder, "--prompt-tokens", prompt)
        done = run_command("nanorun", *given, "--logits", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(header_of(out)["logits"]["shape"], [5, 33])
        last = list(read_safetensors(out)["logits"])[-33:]
        sampled = run_command("nanorun", *given, "--sample", 1, "--temperature", 0)
        self.assertEqual(int(sampled.stdout), last.index(max(last)))
        with open(prompt, "w", encoding="utf-8") as file:
            file.write("1 " * 9)
        done = run_command("nanorun", *given, "--logits", out)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--prompt-tokens: 9 tokens; the plan's program takes 8", done.stderr)

    def test_log_probabilities(self):
        """Of every document by itself, from the logits of its tokens; a column of training data."""
        folder, prompt, out = self.folder("gpt2", "scores"), self.path("s.txt"), self.path("s.st")
        data, column = self.path("s_0.bin"), self.path("s.npy")
        documents = [[32, 1, 2, 3], [32], [32, *range(8)], [32, 5]]
        write_shard(data, [7, 7] + sum(documents, []))
        given = (self.gpt2, "--init", folder)

        def run(*words):
            done = run_command("nanorun", *given, *words)
            self.assertEqual(done.returncode, 0, done.stderr)

        run("--score", data, "--logprobs", column)
        wanted = [0, 0]
        for document in documents:
            wanted.append(0)
            if len(document) == 1:
                continue
            with open(prompt, "w", encoding="utf-8") as file:
                file.write(" ".join(map(str, document[:-1])))
            run("--prompt-tokens", prompt, "--logits", out)
            logits = read_safetensors(out)["logits"]
            for t, token in enumerate(document[1:]):
                row = logits[33 * t : 33 * (t + 1)]
                wanted.append(row[token] - math.log(math.fsum(map(math.exp, row))))
        raw = read_bytes(column)
        self.assertEqual(raw[:8], b"\x93NUMPY\x01\x00")
        begin = 10 + struct.unpack("<H", raw[8:10])[0]
        self.assertEqual(begin % 64, 0)
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(wanted)},), }}"
        self.assertEqual(raw[10:begin].decode().split("  ")[0].strip(), header)
        found = struct.unpack(f"<{len(wanted)}f", raw[begin:])
        for a, b in zip(found, wanted):
            self.assertAlmostEqual(a, b, delta=1e-5)
        self.assertEqual(found[:3], (0, 0, 0))

        def refused(message, *words):
            done = run_command("nanorun", *given, *words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr.splitlines()[-1], message)

        both = ("--score", data, "--logprobs", column)
        refused("--logprobs: needs --score FILE", "--logprobs", column)
        refused("--score: needs --logprobs FILE.npy", "--score", data)
        refused("--train: not together with --logprobs", *both, "--train", data)
        write_shard(self.path("s_1.bin"), [32, 1])
        refused("2 files; give one", "--score", self.path("s_*.bin"), "--logprobs", column)
        write_shard(data, [32, *range(9)])
        refused("the document at token 0 has 10 tokens, and the plan's program takes 9; compile", *both)
        write_shard(data, [1, 2])
        refused("no document begins in it: it holds no token 32, the model's eos_token", *both)
        write_shard(data, [32, 33])
        refused("token 33 at position 1 is outside the plan's vocabulary of 33", *both)
        self.assertEqual(read_bytes(column), raw)

    def test_text(self):
        """A sample as text is its ids, decoded: by bytes, and by pieces with blanks and bytes."""
        folder = self.folder("gpt2", "text")
        given = (self.gpt2, "--init", folder, "--sample", 40, "--temperature", 2)
        done = run_command("nanorun", *given)
        ids = [int(word) for word in done.stdout.split()]
        self.assertEqual(len(ids), 40)
        # Bytes 0 to 31 and a token of the words: every other letter of GPT-2's alphabet is beyond
        # ASCII.
        characters = [chr(256 + byte) for byte in range(32)]
        vocab = {character: byte for byte, character in enumerate(characters)}
        vocab["\u00c3\u00a9a"] = 31
        del vocab[characters[31]]
        words = {byte: bytes([byte]) for byte in range(31)} | {31: b"\xc3\xa9a", 32: b"<end> "}
        level = {
            "model": {"vocab": vocab},
            "decoder": {"type": "ByteLevel"},
            "added_tokens": [{"id": 32, "content": "<end> "}],
        }
        self.assertEqual(self.sampled(given, level), b"".join(words[i] for i in ids) + b"\n")

        words = {i: f" {chr(97 + i)}".encode() for i in range(26)}
        words |= {26 + i: bytes([0x41 + i]) for i in range(7)}
        vocab = {words[i].decode().replace(" ", "\u2581"): i for i in range(26)}
        vocab |= {f"<0x{0x41 + i:02X}>": 26 + i for i in range(7)}
        steps = [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]
        pieces = {"model": {"vocab": vocab}, "decoder": {"type": "Sequence", "decoders": steps}}
        text = b"".join(words[i] for i in ids)
        self.assertEqual(self.sampled(given, pieces), text.removeprefix(b" ") + b"\n")

        done = run_command("nanorun", *given, "--samples", 2)
        first, second = ([int(word) for word in line.split()] for line in done.stdout.splitlines())
        self.assertEqual((first, len(second)), (ids, 40))
        both = [b"".join(words[i] for i in found).removeprefix(b" ") for found in (ids, second)]
        self.assertEqual(self.sampled((*given, "--samples", 2), pieces), b"\n".join(both) + b"\n")

        for change, message in (
            ({"decoder": {"type": "WordPiece"}}, "its decoder {.*WordPiece.*} is not known"),
            ({"model": {}}, "is not a tokenizer of HuggingFace's"),
            ({"model": {"vocab": {"a": -1}}}, "the token 'a' has the number -1"),
            ({"model": {"vocab": {"a": 0.5}}}, "the token 'a' has the number 0.5"),
        ):
            self.assertRegex(self.sampled(given, {**pieces, **change}, 2), message)
        self.assertIn("has no token", self.sampled(given, {**pieces, "model": {"vocab": {}}}, 1))
        done = run_command("nanorun", *given[:3], "--perplexity", "x", "--tokenizer", folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--tokenizer: not together with --perplexity", done.stderr)

    def sampled(self, given, tokenizer, status=0):
        """What --tokenizer makes of a sample: bytes, or the error."""
        path = self.path("tokenizer.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(tokenizer, file)
        words = [os.path.join(BIN, "nanorun"), *map(str, given), "--tokenizer", path]
        done = subprocess.run(words, capture_output=True, timeout=LIMIT)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr.decode() if status else done.stdout


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
