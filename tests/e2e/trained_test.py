#!/usr/bin/env python3
"""What is asked of a trained model beside training: perplexity, logits, text."""

import json
import math
import os
import subprocess
import sys
import unittest

from folders import FolderTest, header_of
from harness import BIN, read_safetensors, run_command, tokens, val_losses, write_shard


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

        for change, message in (
            ({"decoder": {"type": "WordPiece"}}, "its decoder {.*WordPiece.*} is not known"),
            ({"model": {}}, "is not a tokenizer of HuggingFace's"),
            ({"model": {"vocab": {"a": -1}}}, "the token 'a' has the number -1"),
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
        done = subprocess.run(words, capture_output=True, timeout=110)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr.decode() if status else done.stdout


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
