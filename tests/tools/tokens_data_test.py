#!/usr/bin/env python3
"""Tests of tools/nano-tokens on JSON lines, chats, parquet files and any tokenizer.json.

usage: tokens_data_test.py CLASS     exit status 77 when a class's library is not installed
"""

import json
import os
import struct
import subprocess
import sys
import unittest

from tokens_bpe_test import missing_library
from tokens_tool import EOS, PROSE, TOOL, ToolTest, content_of, documents, shard

CHATS = [
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is 2 + 2?"},
        {"role": "assistant", "content": "4."},
        {"role": "user", "content": "Größer?"},
        {"role": "assistant", "content": "Than 3, ja — ≥ 3."},
    ],
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}],
]


def lines(entries):
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def columns(path):
    """(tokens, mask) of a safetensors file, read as the format says."""
    data = content_of(path)
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    found = []
    for name, kinds in (("tokens", {"U16": "H", "U32": "I"}), ("mask", {"U8": "B"})):
        begin, end = header[name]["data_offsets"]
        count, kind = header[name]["shape"][0], kinds[header[name]["dtype"]]
        found.append(list(struct.unpack(f"<{count}{kind}", body[begin:end])))
    assert len(body) == max(entry["data_offsets"][1] for entry in header.values())
    return found


def chatml(chat):
    """(bytes, mask) of a chat, its end-of-text token left out."""
    text, mask = b"", []
    for message in chat:
        parts = (
            (f"<|im_start|>{message['role']}\n", 0),
            (message["content"] + "<|im_end|>", int(message["role"] == "assistant")),
            ("\n", 0),
        )
        for part, flag in parts:
            text += part.encode()
            mask += [flag] * len(part.encode())
    return text, mask


class JsonLinesTest(ToolTest):
    def test_lines_are_documents(self):
        texts = ["first", "zweiter, für später", "with\nlines\n\nand blank ones"]
        file = self.write("a.jsonl", lines({"text": text, "id": 1} for text in texts) + "\n")
        output = self.succeed("encode", "--out", self.path("o/t"), "--val-fraction", "0", file)
        expected = [list(text.encode()) for text in texts]
        self.assertEqual(documents(shard(self.path("o/t_train_000000.bin"))), expected)
        self.assertIn(b"train: documents of 6 to 27 tokens, median 22, mean 18.3", output)
        other = self.write("b.jsonl", lines({"body": text} for text in texts))
        self.succeed(
            "encode", "--out", self.path("p/t"), "--val-fraction", "0", "--field", "body", other
        )
        self.assertEqual(
            content_of(self.path("o/t_train_000000.bin")),
            content_of(self.path("p/t_train_000000.bin")),
        )

    def encode_chats(self, *options):
        file = self.write("chats.jsonl", lines({"messages": chat} for chat in CHATS))
        return self.succeed("encode", "--out", self.path("c/chat"), "--val-fraction", "0", "--chat",
                            "chatml", *options, file)  # fmt: skip

    def test_chats_have_a_mask(self):
        output = self.encode_chats()
        tokens, mask = columns(self.path("c/chat_train_000000.safetensors"))
        wanted_tokens, wanted_mask = [], []
        for chat in CHATS:
            text, flags = chatml(chat)
            wanted_tokens += [EOS, *text]
            wanted_mask += [0, *flags]
        self.assertEqual(tokens, wanted_tokens)
        self.assertEqual(mask, wanted_mask)
        share = 100 * sum(mask) / len(mask)
        self.assertIn(f"{sum(mask)} tokens are the assistant's, {share:.1f}%", output.decode())
        shown = self.succeed(
            "show", "--document", "1", self.path("c/chat_train_000000.safetensors")
        )
        text, _ = chatml(CHATS[1])
        self.assertEqual(
            shown.decode(),
            f"document 1 of 2: tokens {len(tokens) - len(text) - 1} to {len(tokens) - 1}, "
            f"{len(text) + 1} in all\n"
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n>>><|im_end|><<<\n\n",
        )
        self.refuse(
            r"has 2 documents, and no number 2 \(from 0\)",
            "show",
            "--document",
            "2",
            self.path("c/chat_train_000000.safetensors"),
        )

    def test_chats_in_several_files(self):
        """A chat that is longer than a file is cut in two, its mask with it."""
        self.encode_chats("--shard-tokens", "100")
        tokens, mask = [], []
        for name in sorted(os.listdir(self.path("c"))):
            part, flags = columns(self.path("c", name))
            self.assertLessEqual(len(part), 100)
            tokens, mask = tokens + part, mask + flags
        wanted = [flag for chat in CHATS for flag in [0, *chatml(chat)[1]]]
        self.assertEqual((len(tokens), mask), (len(wanted), wanted))

    def test_workers_make_the_same_files(self):
        texts = [f"{number} {PROSE[number % 1000:][:50 + number]}" for number in range(700)]
        file = self.write("a.jsonl", lines({"text": text} for text in texts))
        for prefix, workers in (("one", "1"), ("three", "3")):
            result = self.call("encode", "--out", self.path(prefix, "t"), "--workers", workers,
                               "--progress", file)  # fmt: skip
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(b"100%  700 of 700 documents", result.stderr)
        for side in ("train", "val"):
            self.assertEqual(
                *(
                    content_of(self.path(prefix, f"t_{side}_000000.bin"))
                    for prefix in ("one", "three")
                )
            )

    def test_info_says_what_lies_beyond(self):
        file = self.write("a.jsonl", lines({"text": "x" * count} for count in (9, 19, 69)))
        self.succeed("encode", "--out", self.path("o/t"), "--val-fraction", "0", file)
        shown = self.succeed("info", "--eos-token", "256", "--longest", "20",
                             self.path("o/t_train_000000.bin")).decode()  # fmt: skip
        self.assertIn("3 documents; documents of 10 to 70 tokens, median 20, mean 33.3; 1 are longer "
                      "than 20, and 50.00% of the tokens lie beyond", shown)  # fmt: skip

    def test_errors(self):
        encode = ("encode", "--out", self.path("e/t"), "--val-fraction", "0")
        for content, expected, options in (
            ('{"text": "a"}\n{', "bad.jsonl: the line at byte 14: not JSON", ()),
            ("[1]\n", "the line at byte 0: not a JSON object", ()),
            ('{"texts": "a"}\n', r"has no text 'text' \(--field\)", ()),
            ('{"text": 1}\n', "has no text 'text'", ()),
            ('{"messages": []}\n', "--chat reads 'messages'", ()),
            ('{"text": "a"}\n', "has no 'messages', which --chat reads", ("--chat", "chatml")),
            ('{"messages": []}\n', "'messages' is not a list of objects", ("--chat", "llama3")),
            (
                '{"messages": [{"role": "user"}]}\n',
                "'messages' is not a list",
                ("--chat", "llama3"),
            ),
            ("", "holds no text", ()),
        ):
            with self.subTest(content=content):
                self.refuse(expected, *encode, *options, self.write("bad.jsonl", content))
        text = self.write("a.txt", "text")
        self.refuse("--chat reads JSON lines", *encode, "--chat", "chatml", text)
        self.refuse(
            "--document-token belongs to --tokenizer-json", *encode, "--document-token", "x", text
        )
        self.refuse("--longest needs --eos-token", "info", "--longest", "3", text)
        self.refuse("not a token shard", "show", text)
        cut = self.write("cut.safetensors", b"\x00\x00\x00\x00\x00\x00\x00\x00{}")
        self.refuse("not a safetensors file with a column of tokens", "show", cut)

    def test_parquet(self):
        """Where pyarrow is there; else a line that says so."""
        path = self.path("a.parquet")
        encode = ("encode", "--out", self.path("q/t"), "--val-fraction", "0", path)
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            self.write("a.parquet", "x")
            self.refuse("parquet files need the Python package 'pyarrow'", *encode)
            return
        texts = ["first", "zweiter", "x" * 1000]
        pyarrow.parquet.write_table(pyarrow.table({"text": texts, "n": [1, 2, 3]}), path)
        self.succeed(*encode)
        expected = [list(text.encode()) for text in texts]
        self.assertEqual(documents(shard(self.path("q/t_train_000000.bin"))), expected)
        again = (*encode, "--overwrite")
        self.refuse("column 'n' is int64, no text", *again, "--field", "n")
        self.refuse(r"no column 'body' \(--field\); there are text, n", *again, "--field", "body")
        table = pyarrow.table({"text": ["a", None]})
        pyarrow.parquet.write_table(table, path)
        self.refuse("row 1 of 'text' is null", *again)
        os.remove(path)
        self.refuse("a.parquet: No such file or directory", *again)
        self.write("a.parquet", "no parquet at all")
        self.refuse("a.parquet: not a parquet file:", *again)

    def test_parquet_is_read_by_groups(self):
        """Groups of rows, in order and shuffled; what is held out follows the bytes of the texts, and a
        group that is damaged is named by its rows."""
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            self.skipTest("no pyarrow")
        texts = [f"text {i} " + "é" * (i * 7 % 90) for i in range(300)]
        path = self.path("g.parquet")
        kinds = {"large_string": pyarrow.large_string()}
        total = sum(len(text.encode()) for text in texts)
        encode = ("encode", "--overwrite", "--val-fraction", "0", "--out", self.path("p/t"), path)
        for kind, options in (
            ("string", ()),
            ("string", ("--workers", "2", "--shuffle", "3")),
            ("large_string", ()),
            ("dictionary", ()),
        ):
            with self.subTest(kind, options=options):
                column = pyarrow.array(texts, kinds.get(kind, pyarrow.string()))
                column = column.dictionary_encode() if kind == "dictionary" else column
                table = pyarrow.table({"n": list(range(300)), "text": column})
                pyarrow.parquet.write_table(table, path, row_group_size=70, compression="gzip")
                said = self.succeed(*encode, *options)
                found = documents(shard(self.path("p/t_train_000000.bin")))
                wanted = [list(text.encode()) for text in texts]
                self.assertEqual(found == wanted, "--shuffle" not in options)
                self.assertEqual(sorted(found), sorted(wanted))
                self.assertIn(f"{total / (total + 300):.2f} bytes a token", said.decode())
        encode = ("encode", "--overwrite", "--out", self.path("v/t"), "--val-fraction", "0.25", path)
        self.succeed(*encode)
        held = sum(map(len, documents(shard(self.path("v/t_val_000000.bin")))))
        self.assertAlmostEqual(held / total, 0.25, delta=0.02)
        with open(path, "rb") as file:
            content = bytearray(file.read())
        second = pyarrow.parquet.ParquetFile(path).metadata.row_group(1).column(1)
        begin = second.dictionary_page_offset or second.data_page_offset
        content[begin : begin + second.total_compressed_size] = bytes(second.total_compressed_size)
        with open(path, "wb") as file:
            file.write(content)
        self.refuse("g.parquet: rows 70 to 139: ", *encode)


class TokenizerJsonTest(ToolTest):
    """A tokenizer.json that the library writes, against the library."""

    def setUp(self):
        super().setUp()
        file = self.write("prose.txt", PROSE)
        self.succeed("encode", "--tokenizer", "bpe", "--train-vocab-size", "400",
                     "--save-tokenizer", self.path("tok"), "--out", self.path("o/t"), "--doc-bytes",
                     "500", file)  # fmt: skip
        with open(self.path("tok/vocab.json"), encoding="utf-8") as source:
            vocab = json.load(source)
        with open(self.path("tok/merges.txt"), encoding="utf-8") as source:
            merges = [line.split(" ") for line in source.read().splitlines()[1:]]
        size = len(vocab)
        special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<far>"]
        ids = [vocab.pop("<|endoftext|>"), size, size + 1, 70000]
        self.ids = dict(zip(special, ids))
        content = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {"id": ids[i], "content": name, "single_word": False, "lstrip": False,
                 "rstrip": False, "normalized": False, "special": True}
                for i, name in enumerate(special)
            ],
            "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                              "use_regex": True},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                        "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False,
                      "vocab": {**vocab, **dict(zip(special, ids))}, "merges": merges},
        }  # fmt: skip
        self.tokenizer = self.write("tokenizer.json", json.dumps(content))

    def test_the_same_tokens_as_bpe(self):
        """Of the same vocabulary, but for the width: its largest token is 70000."""
        file = self.path("prose.txt")
        self.succeed("encode", "--tokenizer-json", self.tokenizer, "--out", self.path("j/t"),
                     "--doc-bytes", "500", file)  # fmt: skip
        data = content_of(self.path("j/t_train_000000.bin"))
        magic, version, count = struct.unpack("<3i", data[:12])
        self.assertEqual((magic, version), (20240801, 7))
        found = struct.unpack(f"<{count}I", data[1024:])
        self.assertEqual(list(found), shard(self.path("o/t_train_000000.bin")))
        shown = self.succeed("show", "--tokenizer-json", self.tokenizer, "--document", "1",
                             self.path("j/t_train_000000.bin")).decode()  # fmt: skip
        first, text = shown.split("\n", 1)
        self.assertRegex(first, "document 1 of [0-9]+: tokens [0-9]+ to [0-9]+, [0-9]+ in all")
        self.assertIn(text[:-1], PROSE)
        self.assertGreater(len(text), 100)

    def test_chats(self):
        """Special tokens are one token each; the assistant's end is in the mask."""
        file = self.write("c.jsonl", lines({"messages": chat} for chat in CHATS))
        for workers in ("1", "2"):
            self.succeed("encode", "--tokenizer-json", self.tokenizer, "--chat", "chatml", "--out",
                         self.path(f"c{workers}/t"), "--val-fraction", "0", "--workers", workers,
                         file)  # fmt: skip
        path = self.path("c1/t_train_000000.safetensors")
        self.assertEqual(content_of(path), content_of(self.path("c2/t_train_000000.safetensors")))
        tokens, mask = columns(path)
        ends = [place for place, token in enumerate(tokens) if token == self.ids["<|im_end|>"]]
        self.assertEqual(len(ends), sum(map(len, CHATS)))
        roles = [message["role"] == "assistant" for chat in CHATS for message in chat]
        self.assertEqual([bool(mask[place]) for place in ends], roles)
        self.assertEqual(tokens.count(self.ids["<|im_start|>"]), len(ends))
        self.assertEqual(tokens.count(self.ids["<|endoftext|>"]), len(CHATS))
        shown = self.succeed("show", "--tokenizer-json", self.tokenizer, path).decode()
        text = shown.split("\n", 1)[1]
        for message in CHATS[0]:
            said = message["content"] + "<|im_end|>"
            self.assertIn(f">>>{said}<<<" if message["role"] == "assistant" else said, text)

    def test_errors(self):
        encode = ("encode", "--out", self.path("e/t"), self.path("prose.txt"))
        self.refuse("none.json: No such file", *encode, "--tokenizer-json", self.path("none.json"))
        self.refuse("not a tokenizer.json", *encode, "--tokenizer-json", self.write("t.json", "{}"))
        self.refuse(r"none of the tokens <x>, which begin a document: name one", *encode,
                    "--tokenizer-json", self.tokenizer, "--document-token", "<x>")  # fmt: skip
        self.refuse(
            "leave out --vocab", *encode, "--tokenizer-json", self.tokenizer, "--vocab", "v"
        )
        self.refuse("use show", "decode", "--tokenizer-json", self.tokenizer,
                    self.path("o/t_train_000000.bin"))  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1] == "TokenizerJsonTest" and missing_library():
        print("skipped:", missing_library())
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], sys.argv[1]])
