#!/usr/bin/env python3
"""Tests of `tools/nano-tokens --tokenizer bpe`.

usage: tokens_bpe_test.py CLASS     exit status 77 when the tokenizer library is not installed
"""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from tokens_tool import PROSE, TOOL, ToolTest, content_of, documents


class BytePairTest(ToolTest):
    """Against byte-pair encoding written out here from its definition, on a vocabulary learnt from
    PROSE."""

    def setUp(self):
        super().setUp()
        self.file = self.write("prose.txt", PROSE)
        self.succeed(
            "encode",
            "--tokenizer",
            "bpe",
            "--train-vocab-size",
            "400",
            "--save-tokenizer",
            self.path("tok"),
            "--out",
            self.path("out/text"),
            "--doc-bytes",
            "500",
            "--val-fraction",
            "0.1",
            self.file,
        )
        with open(self.path("tok/vocab.json"), encoding="utf-8") as file:
            self.vocab = json.load(file)
        with open(self.path("tok/merges.txt"), encoding="utf-8") as file:
            self.merges = {
                tuple(line.split(" ")): rank
                for rank, line in enumerate(file.read().splitlines()[1:])
            }
        self.eos = self.vocab["<|endoftext|>"]
        self.options = ("--tokenizer", "bpe", "--tokenizer-dir", self.path("tok"))

    @staticmethod
    def letter(byte):
        visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
        return (
            chr(byte)
            if byte in visible
            else chr(256 + [value for value in range(256) if value not in visible].index(byte))
        )

    def by_definition(self, text):
        """The ids of ASCII text: GPT-2's splitting into words, then the merges, lowest rank
        first."""
        ids = []
        for word in re.findall(
            r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", text
        ):
            parts = [self.letter(byte) for byte in word.encode()]
            while True:
                ranked = [
                    (self.merges[pair], at)
                    for at, pair in enumerate(zip(parts, parts[1:]))
                    if pair in self.merges
                ]
                if not ranked:
                    break
                at = min(ranked)[1]
                parts[at : at + 2] = ["".join(parts[at : at + 2])]
            ids += [self.vocab[part] for part in parts]
        return ids

    def ids(self, text):
        return [
            int(word) for word in self.succeed("ids", *self.options, stdin=text.encode()).split()
        ]

    def test_a_vocabulary_above_16_bits(self):
        """The same text with a vocabulary whose end of text is token 70000: shards of 32 bits."""
        os.makedirs(self.path("wide"))
        with open(self.path("wide/vocab.json"), "w", encoding="utf-8") as file:
            json.dump({**self.vocab, "<|endoftext|>": 70000}, file)
        shutil.copy(self.path("tok/merges.txt"), self.path("wide/merges.txt"))
        options = ("--tokenizer", "bpe", "--tokenizer-dir", self.path("wide"))
        self.succeed(
            "encode",
            *options,
            "--out",
            self.path("w/text"),
            "--doc-bytes",
            "500",
            "--val-fraction",
            "0.1",
            self.file,
        )
        wide = content_of(self.path("w/text_train_000000.bin"))
        magic, version, count = struct.unpack("<3i", wide[:12])
        self.assertEqual((magic, version, len(wide)), (20240801, 7, 1024 + 4 * count))
        tokens = struct.unpack(f"<{count}I", wide[1024:])
        narrow = self.tokens("train")
        self.assertEqual([70000 if token == self.eos else token for token in narrow], list(tokens))
        decoded = self.succeed("decode", *options, self.path("w/text_train_000000.bin"))
        self.assertEqual(decoded, self.succeed("decode", *self.options, self.shards("train")[0]))

    def test_the_vocabulary(self):
        self.assertEqual(sorted(self.vocab.values()), list(range(len(self.vocab))))
        self.assertTrue(257 < len(self.vocab) <= 400)
        self.assertEqual(self.eos, len(self.vocab) - 1)

    def test_encoding_is_byte_pair_encoding(self):
        for text in (
            PROSE,
            "it's  they'll\n\n  x1 2y (what?!)\t.",
            "<|endoftext|> is text when it stands in text",
        ):
            self.assertEqual(self.ids(text), [self.eos, *self.by_definition(text)])

    def test_shards_hold_every_document(self):
        decoded = b"".join(self.succeed("decode", *self.options, path) for path in self.shards("*"))
        self.assertEqual(sorted(decoded), sorted(PROSE.encode()))
        for document in documents(self.tokens("train"), self.eos):
            text = self.succeed(
                "decode", *self.options, stdin=" ".join(map(str, document)).encode()
            ).decode()
            self.assertIn(text, PROSE)
            self.assertEqual(document, self.by_definition(text))

    def test_any_text_comes_back(self):
        text = "Grüße, 世界 \U0001f600 \u00ad\u0000\r\n\t end "
        ids = self.succeed("ids", *self.options, stdin=text.encode())
        self.assertEqual(self.succeed("decode", *self.options, stdin=ids).decode(), text)

    def test_training_twice_gives_the_same(self):
        self.succeed(
            "encode",
            "--tokenizer",
            "bpe",
            "--train-vocab-size",
            "400",
            "--save-tokenizer",
            self.path("tok2"),
            "--out",
            self.path("out2/text"),
            "--doc-bytes",
            "500",
            "--val-fraction",
            "0.1",
            self.file,
        )
        for name in (
            "tok/vocab.json",
            "tok/merges.txt",
            "out/text_train_000000.bin",
            "out/text_val_000000.bin",
        ):
            self.assertEqual(
                content_of(self.path(name)),
                content_of(self.path(re.sub(r"^(tok|out)", r"\g<1>2", name))),
            )

    def test_the_vocabulary_is_learnt_from_the_training_documents_alone(self):
        texts = [(PROSE[:2000], "a"), ("zyzzyva " * 200, "b")]
        files = [self.write(name, text) for text, name in texts]
        learnt = {}
        self.succeed(
            "encode",
            "--tokenizer",
            "bpe",
            "--train-vocab-size",
            "400",
            "--save-tokenizer",
            self.path("tok3"),
            "--doc-bytes",
            "0",
            "--out",
            self.path("out3/text"),
            "--val-fraction",
            "0.01",
            *files,
        )
        with open(self.path("tok3/vocab.json"), encoding="utf-8") as file:
            learnt = json.load(file)
        tokens = self.tokens("val", "out3/text")
        text = self.succeed(
            "decode",
            "--tokenizer",
            "bpe",
            "--tokenizer-dir",
            self.path("tok3"),
            stdin=" ".join(map(str, tokens)).encode(),
        )
        self.assertEqual(any("zyz" in token for token in learnt), b"zyzzyva" not in text)

    def test_user_supplied_files(self):
        apart = (
            "--tokenizer",
            "bpe",
            "--vocab",
            self.path("tok/vocab.json"),
            "--merges",
            self.path("tok/merges.txt"),
        )
        self.assertEqual(
            self.succeed("ids", *apart, stdin=PROSE.encode()),
            self.succeed("ids", *self.options, stdin=PROSE.encode()),
        )

    def test_errors(self):
        latin = self.write("latin.txt", b"caf\xe9\n")
        self.refuse(
            r"latin\.txt: not UTF-8",
            "encode",
            *self.options,
            "--out",
            self.path("x/text"),
            "--val-fraction",
            "0",
            latin,
        )
        self.assertFalse(os.path.isdir(self.path("x")) and os.listdir(self.path("x")))
        for content in (
            "#version: 0.2\nnot-in-vocabulary neither\n",
            "one two three\n",
            b"\xff\xfe",
        ):
            merges = self.write("merges.txt", content)
            self.refuse(
                "merges.txt: ",
                "ids",
                "--tokenizer",
                "bpe",
                "--vocab",
                self.path("tok/vocab.json"),
                "--merges",
                merges,
                stdin=b"text",
            )
        self.refuse(
            "none.txt: No such file",
            "ids",
            "--tokenizer",
            "bpe",
            "--vocab",
            self.path("tok/vocab.json"),
            "--merges",
            self.path("none.txt"),
            stdin=b"t",
        )


def missing_library():
    """The tool's own line when the library is missing, else an empty string."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vocab.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"<|endoftext|>": 0}, file)
        command = [
            sys.executable,
            TOOL,
            "ids",
            "--tokenizer",
            "bpe",
            "--vocab",
            path,
            "--merges",
            path,
        ]
        probe = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return probe.stderr.strip() if "needs the Python package" in probe.stderr else ""


if __name__ == "__main__":
    missing = missing_library()
    if missing:
        print("skipped:", missing)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], sys.argv[1]])
