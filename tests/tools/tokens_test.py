#!/usr/bin/env python3
"""Tests of tools/nano-tokens, as a user calls it: bytes to shards and back, and every error that a
user can cause.

usage: tokens_test.py CLASS
"""

import os
import resource
import shutil
import struct
import subprocess
import sys
import unittest

from tokens_tool import EOS, PROSE, ROOT, TOOL, ToolTest, content_of, documents, shard


class BytesTest(ToolTest):
    def test_a_file_is_a_document_and_comes_back(self):
        contents = ["first\n", "zweiter, für später\n", b"\x00\xff bytes of any kind \x80"]
        files = [self.write(f"{number}.txt", content) for number, content in enumerate(contents)]
        self.succeed("encode", "--out", self.path("out/text"), "--val-fraction", "0", *files)
        self.assertEqual(
            [os.path.basename(path) for path in self.shards("*")], ["text_train_000000.bin"]
        )
        expected = [
            list(content.encode() if isinstance(content, str) else content) for content in contents
        ]
        self.assertEqual(documents(self.tokens("train")), expected)
        decoded = self.succeed("decode", "--eos", r"|\n", self.shards("train")[0])
        self.assertEqual(decoded, b"|\nfirst\n|\n" + contents[1].encode() + b"|\n" + contents[2])

    def test_documents_are_held_out_whole_and_the_same_each_time(self):
        file = self.write("book.txt", PROSE)
        for prefix in ("a", "b"):
            self.succeed(
                "encode",
                "--out",
                self.path(prefix, "text"),
                "--doc-bytes",
                "300",
                "--val-fraction",
                "0.2",
                file,
            )
        for side in ("train", "val"):
            self.assertEqual(
                *(content_of(self.shards(side, f"{prefix}/text")[0]) for prefix in ("a", "b"))
            )
        train, val = documents(self.tokens("train", "a/text")), documents(
            self.tokens("val", "a/text")
        )
        original = PROSE.encode()
        self.assertEqual(sum(map(len, train + val)), len(original))
        self.assertTrue(all(bytes(document) in original for document in train + val))
        self.assertFalse(
            {bytes(document) for document in train} & {bytes(document) for document in val}
        )
        share = sum(map(len, val)) / len(original)
        self.assertTrue(0.12 < share < 0.28, share)

    def test_equal_documents_fall_on_one_side(self):
        files = [self.write(f"{number}.txt", f"text {number % 5}\n" * 10) for number in range(40)]
        self.succeed("encode", "--out", self.path("out/text"), "--val-fraction", "0.4", *files)
        train, val = (
            {bytes(document) for document in documents(self.tokens(side))}
            for side in ("train", "val")
        )
        self.assertEqual((len(train | val), len(train & val)), (5, 0))

    def test_two_documents_leave_one_on_each_side(self):
        files = [self.write(name, name * 50) for name in ("a", "b")]
        for fraction in ("0.001", "0.999"):
            self.succeed(
                "encode",
                "--overwrite",
                "--out",
                self.path("out/text"),
                "--val-fraction",
                fraction,
                *files,
            )
            self.assertEqual(
                [len(documents(self.tokens(side))) for side in ("train", "val")], [1, 1]
            )

    def cut(self, content, limit):
        file = self.write("cut.txt", content)
        self.succeed(
            "encode",
            "--overwrite",
            "--out",
            self.path("cut/text"),
            "--val-fraction",
            "0",
            "--doc-bytes",
            str(limit),
            file,
        )
        pieces = [bytes(document) for document in documents(self.tokens("train", "cut/text"))]
        self.assertEqual(b"".join(pieces), content.encode())
        self.assertTrue(limit == 0 or max(map(len, pieces)) <= limit)
        return pieces

    def test_large_files_are_cut_at_blank_lines(self):
        self.assertEqual(
            self.cut("one one\n\ntwo\n\nthree three\n", 16),
            [b"one one\n\ntwo\n\n", b"three three\n"],
        )

    def test_then_at_lines_words_and_characters(self):
        self.assertEqual(
            self.cut("aaaa aaaa\nbbbb bbbb bbbb", 12), [b"aaaa aaaa\n", b"bbbb bbbb ", b"bbbb"]
        )
        self.assertEqual(
            self.cut("äöüß", 3), ["ä".encode(), "ö".encode(), "ü".encode(), "ß".encode()]
        )
        self.assertEqual(self.cut("xxxxx", 2), [b"xx", b"xx", b"x"])

    def test_zero_leaves_a_file_whole(self):
        self.assertEqual(self.cut(PROSE, 0), [PROSE.encode()])

    def test_shards_are_filled_with_whole_documents(self):
        files = [self.write(f"{number}.txt", str(number) * 9) for number in range(7)]
        self.succeed(
            "encode",
            "--out",
            self.path("out/text"),
            "--val-fraction",
            "0",
            "--shard-tokens",
            "25",
            *files,
        )
        self.assertEqual([len(shard(path)) for path in self.shards("train")], [20, 20, 20, 10])
        self.assertTrue(all(shard(path)[0] == EOS for path in self.shards("train")))

    def test_a_document_longer_than_a_shard_is_cut(self):
        self.write("long.txt", "x" * 49)
        self.succeed(
            "encode",
            "--out",
            self.path("out/text"),
            "--val-fraction",
            "0",
            "--shard-tokens",
            "20",
            self.path("long.txt"),
        )
        self.assertEqual([len(shard(path)) for path in self.shards("train")], [20, 20, 10])
        self.assertEqual(self.tokens("train"), [EOS] + [ord("x")] * 49)

    def test_shuffle_reorders_and_keeps(self):
        files = [self.write(f"{number}.txt", f"text {number}") for number in range(30)]
        read = {}
        for seed in ("none", "1", "1 again", "2"):
            options = [] if seed == "none" else ["--shuffle", seed[0]]
            self.succeed("encode", "--overwrite", "--out", self.path("out/text"), *options, *files)
            read[seed] = [bytes(document) for document in documents(self.tokens("train"))]
        self.assertEqual(read["1"], read["1 again"])
        self.assertNotIn(read["1"], (read["none"], read["2"]))
        self.assertEqual(sorted(read["1"]), sorted(read["none"]))

    def test_overwrite_leaves_no_stale_shard(self):
        files = [self.write(f"{number}.txt", str(number) * 9) for number in range(7)]
        common = ["--out", self.path("out/text"), "--val-fraction", "0"]
        self.succeed("encode", *common, "--shard-tokens", "20", *files)
        self.assertEqual(len(self.shards("train")), 4)
        self.succeed("encode", "--overwrite", *common, *files)
        self.assertEqual(os.listdir(self.path("out")), ["text_train_000000.bin"])

    def test_ids_and_back(self):
        ids = self.succeed("ids", stdin="Grüße\n".encode())
        self.assertEqual(ids, b"256 71 114 195 188 195 159 101 10\n")
        self.assertEqual(self.succeed("decode", stdin=ids), "Grüße\n".encode())
        self.assertEqual(self.succeed("ids", "--no-eos", stdin=b"A"), b"65\n")

    def test_a_part_of_a_shard(self):
        self.write("a.txt", "abcdefgh")
        self.succeed(
            "encode", "--out", self.path("out/text"), "--val-fraction", "0", self.path("a.txt")
        )
        self.assertEqual(
            self.succeed("decode", "--start", "3", "--count", "4", self.shards("train")[0]), b"cdef"
        )

    def test_info(self):
        files = [self.write(f"{number}.txt", "abc") for number in range(4)]
        self.succeed("encode", "--out", self.path("out/text"), "--val-fraction", "0", *files)
        path = self.shards("train")[0]
        self.assertEqual(
            self.succeed("info", "--eos-token", "256", path).decode(),
            f"{path}: version 1, 16 tokens, largest 256, 4 documents\n",
        )

    def test_a_reader_that_leaves_early(self):
        self.write("a.txt", b"x" * (4 << 20))
        self.succeed(
            "encode",
            "--out",
            self.path("out/text"),
            "--val-fraction",
            "0",
            "--doc-bytes",
            "0",
            self.path("a.txt"),
        )
        pipe = subprocess.Popen(
            [sys.executable, TOOL, "decode", self.shards("train")[0]],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        pipe.stdout.read(10)
        pipe.stdout.close()
        self.assertEqual(pipe.stderr.read(), b"")
        pipe.stderr.close()
        pipe.wait()

    def test_help_names_every_option(self):
        self.assertIn(b"encode", self.succeed("--help"))
        for command in ("encode", "decode", "ids", "info"):
            self.assertIn(
                b"usage: nano-tokens " + command.encode(), self.succeed(command, "--help")
            )


class ErrorsTest(ToolTest):
    def encode(self, *arguments):
        return ("encode", "--out", self.path("out/text"), *arguments)

    def setUp(self):
        super().setUp()
        self.file = self.write("a.txt", "some text\n")

    def damaged(self, change):
        """A good shard of three tokens, as a bytearray that `change` alters."""
        data = bytearray(struct.pack("<256i3H", 20240520, 1, 3, *[0] * 253, 256, 72, 105))
        return self.write("bad.bin", change(data) or data)

    def test_usage(self):
        self.refuse(
            "COMMAND",
        )
        self.refuse("invalid choice", "frobnicate")
        self.refuse("--frob", *self.encode("--frob", self.file))
        self.refuse("--out", "encode", self.file)
        self.refuse("--shard-tokens", *self.encode("--shard-tokens", "0", self.file))
        self.refuse("--shard-tokens", *self.encode("--shard-tokens", "many", self.file))
        for value in ("1", "-0.1", "nan", "x"):
            self.refuse("--val-fraction", *self.encode(f"--val-fraction={value}", self.file))
        self.refuse("--tokenizer", *self.encode("--tokenizer", "words", self.file))

    def test_options_that_do_not_belong_together(self):
        self.refuse("--vocab belongs to", *self.encode("--vocab", self.file, self.file))
        self.refuse(
            "--train-vocab-size belongs to", *self.encode("--train-vocab-size", "300", self.file)
        )
        self.refuse(
            "--save-tokenizer belongs to", *self.encode("--save-tokenizer", self.folder, self.file)
        )
        bpe = ("--tokenizer", "bpe")
        self.refuse("needs --tokenizer-dir", *self.encode(*bpe, self.file))
        self.refuse("needs --tokenizer-dir", *self.encode(*bpe, "--vocab", self.file, self.file))
        self.refuse(
            "leave out",
            *self.encode(*bpe, "--vocab", self.file, "--tokenizer-dir", self.folder, self.file),
        )
        self.refuse("--save-tokenizer", *self.encode(*bpe, "--train-vocab-size", "300", self.file))
        self.refuse(
            "leave out",
            *self.encode(*bpe, "--train-vocab-size", "300", "--vocab", self.file, self.file),
        )
        for size in ("256", "2147483648"):
            self.refuse(
                "between 257",
                *self.encode(
                    *bpe, "--train-vocab-size", size, "--save-tokenizer", self.folder, self.file
                ),
            )

    def test_inputs(self):
        self.refuse("none.txt: No such file", *self.encode(self.path("none.txt")))
        self.refuse("not a regular file", *self.encode(self.folder))
        self.refuse("holds no text", *self.encode(self.write("empty.txt", "")))
        self.refuse("one document only", *self.encode(self.file))
        self.refuse(
            "one document only", *self.encode(self.file, self.write("same.txt", "some text\n"))
        )
        self.assertFalse(os.path.exists(self.path("out")))

    def test_outputs(self):
        self.refuse(
            "names a folder", "encode", "--out", self.path("out/"), "--val-fraction", "0", self.file
        )
        self.refuse(
            "Not a directory|File exists",
            "encode",
            "--out",
            self.path("a.txt/text"),
            "--val-fraction",
            "0",
            self.file,
        )
        self.refuse(
            "/proc/nowhere",
            "encode",
            "--out",
            "/proc/nowhere/text",
            "--val-fraction",
            "0",
            self.file,
        )
        self.succeed(*self.encode("--val-fraction", "0", self.file))
        before = content_of(self.shards("train")[0])
        self.refuse(
            "there already.*--overwrite",
            *self.encode("--val-fraction", "0", self.write("b.txt", "other")),
        )
        self.assertEqual(content_of(self.shards("train")[0]), before)

    def test_a_disk_that_fills_leaves_what_was_there(self):
        self.succeed(*self.encode("--val-fraction", "0", self.file))
        before = content_of(self.shards("train")[0])
        large = self.write("large.txt", "x y\n" * 100_000)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        self.refuse(
            "File too large",
            *self.encode("--overwrite", "--val-fraction", "0", large),
            preexec_fn=limit,
        )
        self.assertEqual(os.listdir(self.path("out")), ["text_train_000000.bin"])
        self.assertEqual(content_of(self.shards("train")[0]), before)

    def test_damaged_shards(self):
        def changed(position, value):
            return lambda data: struct.pack_into("<i", data, position, value)

        for expected, change in (
            ("0 bytes are fewer", lambda data: data.clear()),
            ("1023 bytes are fewer", lambda data: data[:1023]),
            ("magic 7 instead", changed(0, 7)),
            ("version 2, this tool reads version 1", changed(4, 2)),
            ("promises 4 tokens, the file holds 3:", changed(8, 4)),
            ("promises -1 tokens", changed(8, -1)),
            ("promises 3 tokens, the file holds 2.5:", lambda data: data[:-1]),
            ("promises 3 tokens, the file holds 4:", lambda data: data + b"xx"),
        ):
            with self.subTest(expected=expected):
                path = self.damaged(change)
                self.refuse(rf"bad\.bin: .*{expected}", "info", path)
                self.refuse(rf"bad\.bin: .*{expected}", "decode", path)
        self.succeed("info", self.damaged(lambda data: data))

    def test_tokens_beyond_the_vocabulary(self):
        path = self.damaged(lambda data: struct.pack_into("<H", data, 1024 + 4, 257))
        self.refuse(
            r"bad\.bin: token 257 at position 2 is not in the vocabulary of 257", "decode", path
        )
        self.refuse("token 999 at position 1", "decode", stdin=b"65 999")

    def test_ids_that_are_none(self):
        for text in (b"65 x", b"-1", b"1.5", b"\xff", b"9" * 5000):
            self.refuse("is no token id", "decode", stdin=text)

    def test_32_bit_shards(self):
        """info and decode read them; what is neither is refused."""
        tokens = [70000, 1, 0, 70000]
        header = struct.pack("<3i", 20240801, 7, len(tokens)) + bytes(1024 - 12)
        path = self.write("wide.bin", header + struct.pack("<4I", *tokens))
        shown = self.succeed("info", "--eos-token", "70000", path).decode()
        self.assertIn("version 7, 4 tokens, largest 70000, 2 documents", shown)
        vocab = self.write("vocab.json", '{"<|endoftext|>": 70000, "a": 0, "b": 1}')
        decoded = self.succeed("decode", "--tokenizer", "bpe", "--vocab", vocab, path)
        self.assertEqual(decoded, b"ba")
        cut = self.write("cut.bin", content_of(path)[:-4])
        self.refuse("promises 4 tokens, the file holds 3", "info", cut)
        wrong = self.write("old.bin", struct.pack("<3i", 20240801, 1, 0) + bytes(1012))
        self.refuse("old.bin: version 1, this tool reads version 7", "info", wrong)

    def test_vocabularies(self):
        decode = ("decode", "--tokenizer", "bpe", "--vocab")
        self.refuse("none.json: No such file", *decode, self.path("none.json"))
        for content, expected in (
            ("{", "not a JSON vocabulary"),
            (b"\xff", "not a JSON vocabulary"),
            ("[]", "one JSON object"),
            ("{}", "one JSON object"),
            ('{"a": "b"}', "one JSON object"),
            ('{"a": -1}', "one JSON object"),
            ('{"a": 1, "b": 1}', "its own number"),
            ('{"a": 0}', "lacks <|endoftext|>".replace("|", r"\|")),
            ('{"<|endoftext|>": 2147483647}', "2147483648 tokens"),
            ('{"<|endoftext|>": 0, "\u4e00": 1}', "stands for no byte"),
        ):
            with self.subTest(content=content):
                self.refuse(expected, *decode, self.write("vocab.json", content), stdin=b"0")

    def test_the_missing_library_is_named(self):
        """A copy of the tool, far from any build/venv, and a Python told to see no packages."""
        shutil.copytree(os.path.join(ROOT, "tools", "support"), self.path("tools/support"))
        tool = shutil.copy(TOOL, self.path("tools/nano-tokens"))
        result = subprocess.run(
            [
                sys.executable,
                "-I",
                "-S",
                tool,
                *self.encode(
                    "--tokenizer",
                    "bpe",
                    "--train-vocab-size",
                    "300",
                    "--save-tokenizer",
                    self.folder,
                    self.file,
                ),
            ],
            capture_output=True,
            text=True,
        )
        self.assertEqual(
            (result.returncode, result.stderr),
            (
                2,
                "nano-tokens: the BPE tokenizer needs the Python package 'tokenizers': run "
                "tools/setup --bpe\n",
            ),
        )


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], sys.argv[1]])
