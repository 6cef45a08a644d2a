#!/usr/bin/env python3
"""The rules of docs/data.md, read here a second time: batches of every rule against this reader, for
every number of ranks, from the start and from positions in between; and whole runs on columns and
documents, resumed, with every error that a user's data can cause."""

import json
import os
import random
import struct
import subprocess
import tempfile
import unittest

from harness import (
    BIN,
    EOS,
    LIMIT,
    LLAMA,
    RunTest,
    main,
    overrides,
    read_bytes,
    read_log,
    run_command,
    train_losses,
    val_losses,
)
from kills import kill_at

MASK64 = (1 << 64) - 1


def xxh64(data):
    """XXH64 with seed 0, from its specification."""
    p1, p2, p3, p4, p5 = (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )

    def rotate(value, bits):
        return (value << bits | value >> (64 - bits)) & MASK64

    def round_of(lane, word):
        return rotate((lane + word * p2) & MASK64, 31) * p1 & MASK64

    position = 0
    if len(data) >= 32:
        lanes = [(p1 + p2) & MASK64, p2, 0, -p1 & MASK64]
        while position + 32 <= len(data):
            words = struct.unpack_from("<4Q", data, position)
            lanes = [round_of(lane, word) for lane, word in zip(lanes, words)]
            position += 32
        value = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) & MASK64
        for lane in lanes:
            value = ((value ^ round_of(0, lane)) * p1 + p4) & MASK64
    else:
        value = p5
    value = (value + len(data)) & MASK64
    while position + 8 <= len(data):
        word = struct.unpack_from("<Q", data, position)[0]
        value = (rotate(value ^ round_of(0, word), 27) * p1 + p4) & MASK64
        position += 8
    if position + 4 <= len(data):
        word = struct.unpack_from("<I", data, position)[0]
        value = (rotate(value ^ word * p1 & MASK64, 23) * p2 + p3) & MASK64
        position += 4
    for byte in data[position:]:
        value = rotate(value ^ byte * p5 & MASK64, 11) * p1 & MASK64
    value = (value ^ value >> 33) * p2 & MASK64
    value = (value ^ value >> 29) * p3 & MASK64
    return value ^ value >> 32


def unit(seed, name, index):
    """Element `index` of the uniform stream of (seed, name): Philox4x32-10."""
    low = 0xFFFFFFFF
    label = xxh64(name.encode())
    counter = [index & low, index >> 32, label & low, label >> 32]
    key = [seed & low, seed >> 32]
    for _ in range(10):
        first, second = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = [
            second >> 32 ^ counter[1] ^ key[0],
            second & low,
            first >> 32 ^ counter[3] ^ key[1],
            first & low,
        ]
        key = [(key[0] + 0x9E3779B9) & low, (key[1] + 0xBB67AE85) & low]
    return (((counter[1] << 32 | counter[0]) >> 12) + 0.5) / 2.0**52


def shuffled(count, seed, name):
    order = list(range(count))
    for i in range(count - 1, 0, -1):
        j = int(unit(seed, name, i) * (i + 1))
        order[i], order[j] = order[j], order[i]
    return order


class Reader:
    """Batches as docs/data.md says. A file is {"tokens": …, column: …}; a batch is a list of
    sequences, each a list of (file, position) of its T + 1 tokens, None in padding."""

    def __init__(self, files, rule, shuffle=False, seed=0, eos=0, start=(0, 0, 0)):
        self.files, self.rule, self.shuffle, self.seed, self.eos = files, rule, shuffle, seed, eos
        self.shard, self.position, self.epoch = start
        self.starts = [
            [i for i, token in enumerate(file["tokens"]) if token == eos] for file in files
        ]

    def file(self):
        if not self.shuffle:
            return self.shard
        return shuffled(len(self.files), self.seed, f"shards/{self.epoch}")[self.shard]

    def leave(self):
        self.position, self.shard = 0, self.shard + 1
        if self.shard == len(self.files):
            self.shard, self.epoch = 0, self.epoch + 1

    def next(self, sequences, length, longest):
        """The batch, or an assertion where no shard has one."""
        for _ in range(len(self.files) + 1):
            made = getattr(self, self.rule)(sequences, length, longest or 1 << 60)
            if made is not None:
                return made
            self.leave()
        raise AssertionError("no batch")

    def contiguous(self, sequences, length, _):
        size = len(self.files[self.shard]["tokens"])
        end = self.position + sequences * length
        if end + 1 > size or (self.position > 0 and end + 1 == size):
            return None
        rows = [
            [(self.shard, self.position + j * length + t) for t in range(length + 1)]
            for j in range(sequences)
        ]
        self.position = end
        return rows

    def aligned(self, sequences, length, _):
        size, window = len(self.files[self.shard]["tokens"]), 2 * sequences * length
        if self.position + window + 1 >= size:
            return None
        chosen = []
        for start in self.starts[self.shard]:
            if self.position <= start < self.position + window:
                if not chosen or start >= chosen[-1] + length:
                    chosen.append(start)
        assert len(chosen) > sequences, "too few beginnings"
        rows = [
            [(self.shard, start + t) for t in range(length + 1)] for start in chosen[:sequences]
        ]
        self.position = chosen[sequences]
        return rows

    def documents(self):
        """(file, begin, end) of the shard's documents in the order of the epoch."""
        file = self.file()
        bounds = [*self.starts[file], len(self.files[file]["tokens"])]
        found = [(file, *pair) for pair in zip(bounds, bounds[1:])]
        if self.shuffle:
            order = shuffled(len(found), self.seed, f"documents/{self.epoch}/{file}")
            found = [found[i] for i in order]
        return found

    def cut(self, sequences, length, longest):
        rest = self.documents()[self.position :]
        rows, used = [], 0
        for _ in range(sequences):
            row = []
            while len(row) < length + 1:
                if used == len(rest):
                    return None
                file, begin, end = rest[used]
                used += 1
                missing = length + 1 - len(row)
                row += [(file, i) for i in range(begin, begin + min(end - begin, longest, missing))]
            rows.append(row)
        self.position += used
        return rows

    def packed(self, sequences, length, longest):
        rest = self.documents()[self.position :]
        rows, used = [], 0
        for _ in range(sequences):
            row = []
            while used < len(rest):
                file, begin, end = rest[used]
                document = [(file, i) for i in range(begin, begin + min(end - begin, longest))]
                assert len(document) <= length + 1, "longer than a row"
                if len(row) + len(document) > length + 1:
                    break
                row += document
                used += 1
            if not row:
                return None
            rows.append(row + [None] * (length + 1 - len(row)))
        self.position += used
        return rows

    def token(self, place):
        return self.eos if place is None else self.files[place[0]]["tokens"][place[1]]

    def column(self, name, row, of_target):
        places = row[1:] if of_target else row[:-1]
        if name == "in_document":
            return [int(place is not None) for place in places]
        return [0 if place is None else self.files[place[0]][name][place[1]] for place in places]


FORMATS = {"U16": "H", "U32": "I", "I32": "i", "F32": "f", "BF16": "H", "U8": "B"}


def write_columns(path, columns):
    """A safetensors file of columns: name → (type, values)."""
    header, data = {}, b""
    for name, (kind, values) in columns.items():
        part = struct.pack(f"<{len(values)}{FORMATS[kind]}", *values)
        header[name] = {
            "dtype": kind,
            "shape": [len(values)],
            "data_offsets": [len(data), len(data) + len(part)],
        }
        data += part
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def documents(generator, count, shortest, longest, eos=0, vocab=50):
    """`count` documents of random lengths behind a few tokens of none."""
    found = [1 + generator.randrange(vocab - 1) for _ in range(generator.randrange(5))]
    for _ in range(count):
        found.append(eos)
        for _ in range(generator.randint(shortest, longest) - 1):
            found.append(1 + generator.randrange(vocab - 1))
    return found


class BatchesTest(unittest.TestCase):
    """The loader against the reader above."""

    COLUMNS = ("weight:f32:target", "half:bf16:input", "mask:u8:target", "label:i32:input",
               "in_document:u8:target", "in_document:u8:input")  # fmt: skip

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, contents, generator):
        """Files of these tokens, with columns; what the reader above reads."""
        files = []
        for i, content in enumerate(contents):
            size = len(content)
            file = {
                "tokens": content,
                "weight": [generator.randrange(-64, 64) / 8 for _ in range(size)],
                "half": [generator.randrange(0x7F00) for _ in range(size)],
                "mask": [generator.randrange(256) for _ in range(size)],
                "label": [generator.randrange(-(2**31), 2**31) for _ in range(size)],
            }
            write_columns(
                os.path.join(self.folder, f"d_{i}.safetensors"),
                {
                    "mask": ("U8", file["mask"]),
                    "tokens": (("U16", "U32", "I32")[i % 3], content),
                    "weight": ("F32", file["weight"]),
                    "half": ("BF16", file["half"]),
                    "label": ("I32", file["label"]),
                },
            )
            files.append(file)
        return files

    def batches(self, rule, shuffle, seed, rank, world, steps, shapes, start=(0, 0, 0)):
        shapes = ",".join(":".join(map(str, shape)) for shape in shapes)
        words = (os.path.join(self.folder, "d_*.safetensors"), rule, int(shuffle), seed, 0, rank,
                 world, steps, shapes, *start, *self.COLUMNS)  # fmt: skip
        result = subprocess.run(
            [os.path.join(BIN, "nano-batches"), *map(str, words)],
            capture_output=True,
            encoding="utf-8",
            timeout=LIMIT,
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def compare(self, files, rule, shuffle, seed, shapes, steps):
        expected = []
        reader = Reader(files, rule, shuffle, seed)
        for step in range(steps):
            epoch = reader.epoch
            rows = reader.next(*shapes[step % len(shapes)])
            place = [reader.shard, reader.position, reader.epoch]
            expected.append((rows, place, reader.epoch > epoch))
        columns = [column.split(":") for column in self.COLUMNS]

        def check(found, wanted, rank, world):
            for batch, (rows, end, begins_epoch) in zip(found, wanted, strict=True):
                self.assertEqual((batch["end"], batch["epoch"]), (end, begins_epoch))
                share = rows[rank::world]
                self.assertEqual(len(batch["sequences"]), len(share))
                for sequence, row in zip(batch["sequences"], share):
                    tokens = [reader.token(place) for place in row]
                    self.assertEqual(sequence["tokens"], tokens[:-1])
                    self.assertEqual(sequence["targets"], tokens[1:])
                    for (name, _, place), values in zip(columns, sequence["columns"]):
                        self.assertEqual(values, reader.column(name, row, place == "target"))

        for world in (1, 2, 4):
            for rank in range(world):
                found = self.batches(rule, shuffle, seed, rank, world, steps, shapes)
                check(found, expected, rank, world)
        # As a resumed run does: from where an earlier batch ended. Shapes go on in turn.
        for done in range(len(shapes), steps, len(shapes)):
            start = expected[done - 1][1]
            found = self.batches(rule, shuffle, seed, 1, 4, steps - done, shapes, start)
            rest = expected[done:]
            self.assertEqual(found[0]["epoch"], rest[0][2])
            check(found, rest, 1, 4)

    def test_every_rule(self):
        for rule, shuffle, shapes, longest_document in (
            ("contiguous", False, [(4, 16, 0)], 40),
            ("contiguous", False, [(4, 16, 0), (8, 5, 0)], 40),
            ("aligned", False, [(4, 16, 0)], 12),
            ("aligned", False, [(4, 16, 0), (8, 20, 0)], 9),
            ("cut", False, [(4, 16, 0)], 40),
            ("cut", False, [(4, 16, 7), (8, 12, 11), (4, 30, 0)], 40),
            ("cut", True, [(4, 16, 9)], 40),
            ("packed", False, [(4, 39, 0)], 40),
            ("packed", False, [(4, 16, 17), (8, 25, 9)], 40),
            ("packed", True, [(4, 39, 0), (4, 20, 21)], 40),
        ):
            with self.subTest(rule=rule, shuffle=shuffle, shapes=shapes):
                generator = random.Random(f"{rule} {shuffle} {shapes}")
                contents = [
                    documents(generator, generator.randint(60, 120), 1, longest_document)
                    for _ in range(3)
                ]
                files = self.write(contents, generator)
                self.compare(files, rule, shuffle, generator.randrange(2**64), shapes, 24)

    def test_shards_that_are_too_short_are_passed_over(self):
        generator = random.Random(5)
        for rule in ("contiguous", "aligned", "cut", "packed"):
            with self.subTest(rule=rule):
                contents = [documents(generator, count, 1, 8) for count in (3, 90, 2, 60)]
                self.compare(self.write(contents, generator), rule, False, 0, [(4, 16, 0)], 20)


class ResumeTest(RunTest):
    """models/sft.cpp, whose batches are packed and shuffled and whose loss reads a column: stopped in
    the middle of an epoch and of the next one, and resumed, the same run to the bit."""

    def test_bit_for_bit(self):
        generator = random.Random(2)
        content = documents(generator, 20, 2, 200, EOS, 257)
        columns = {
            "tokens": ("U16", content),
            "mask": ("U8", [generator.randrange(2) for _ in content]),
        }
        data, plan = self.path("a.safetensors"), self.path("sft.plan")
        write_columns(data, columns)
        sizes = {**LLAMA, "num_layers": 1, "block_size": 256}
        done = run_command("nanoc", "compile", "models/sft.cpp", "--target", "cpu", "-o", plan,
                           *overrides(sizes))  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)

        def run(name, steps, *options):
            parameters = self.path(name)
            self.ran("nanorun", plan, "--train", data, "--threads", 1, "--steps", steps,
                     "--dump-params", parameters, *options)  # fmt: skip
            return read_bytes(parameters)

        whole = run("whole", 12)
        for done in (2, 7):
            saves = self.path(f"saves{done}")
            part = run("part", done, "--save", saves)
            self.assertNotEqual(part, whole)
            self.assertEqual(run("rest", 12, "--resume", saves), whole)
        with open(self.path("saves7/step-000007/manifest.json"), encoding="utf-8") as file:
            found = json.load(file)["data"]
        self.assertEqual(
            {name: found[name] for name in ("file", "rule", "files", "tokens")},
            {"file": "a.safetensors", "rule": "packed", "files": 1, "tokens": len(content)},
        )
        self.assertGreater(found["epoch"], 0)


class ColumnsTest(RunTest):
    """Runs of a model whose loss is what its columns say."""

    MODEL = "tests/compiler/Inputs/columns.cpp"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        generator = random.Random(11)
        cls.files = []
        for i in range(2):
            content = documents(generator, 50, 1, 16)
            size = len(content)
            file = {
                "tokens": content,
                "mask": [generator.randrange(2) for _ in range(size)],
                "weight": [generator.randrange(-64, 64) / 8 for _ in range(size)],
                "half": [generator.randrange(16) for _ in range(size)],
                "label": [generator.randrange(-9, 9) for _ in range(size)],
            }
            cls.write(cls, f"c_{i}.safetensors", file)
            cls.files.append(file)
        cls.plans = {}

    def write(self, name, file, **types):
        """Writes the file; columns of None are left out."""
        kinds = {"tokens": "U16", "mask": "U8", "weight": "F32", "half": "BF16", "label": "I32"}
        kinds.update(types)
        content = {}
        for column, values in file.items():
            if column == "half" and kinds["half"] == "BF16":  # small integers are exact
                bits = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
                values = [word >> 16 for word in bits]
            content[column] = (kinds[column], values)
        path = os.path.join(self.scratch.name, name)
        write_columns(path, content)
        return path

    def plan(self, target="cpu", **options):
        key = (target, *options.items())
        if key not in self.plans:
            path = self.path(f"{len(self.plans)}.plan")
            words = overrides(options)
            world = (
                ("--world", "1,2" if "staged" in options else "1,2,4") if target == "cpu" else ()
            )
            done = run_command(
                "nanoc", "compile", self.MODEL, "--target", target, *world, *words, "-o", path
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.plans[key] = path
        return self.plans[key]

    def loss(self, reader, rows):
        """The mean over the tokens of the batch."""
        total, count = 0, 0
        for row in rows:
            tokens = [reader.token(place) for place in row]
            of = {
                name: reader.column(name, row, True)
                for name in ("mask", "weight", "label", "in_document")
            }
            before = {name: reader.column(name, row, False) for name in ("mask", "half")}
            for t in range(len(row) - 1):
                total += of["mask"][t] + 3 * before["mask"][t] + 5 * of["label"][t]
                total += 1000 * of["in_document"][t] + 7 * tokens[t] + 11 * tokens[t + 1]
                total += of["weight"][t] * 0.5 + before["half"][t]
                count += 1
        return total / count

    def expected(self, rule, steps, longest=None, shuffle=False, seed=0, files=None):
        reader = Reader(files or self.files, rule, shuffle, seed)
        losses = []
        for step in range(steps):
            limit = (5 if step < 2 else longest) if longest else 0
            losses.append(self.loss(reader, reader.next(4, 16, limit)))
        return losses

    def run_plan(self, plan, *options, train="c_*.safetensors"):
        log = self.path("log.jsonl")
        if os.path.exists(log):
            os.unlink(log)
        output = self.ran("nanorun", plan, "--train", self.path(train), "--threads", 1, "--log",
                          log, *options)  # fmt: skip
        return read_log(log), output

    def refused(self, plan, expected, *options, train="bad*", status=2):
        done = run_command("nanorun", plan, "--train", self.path(train), "--threads", 1, *options)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertRegex(done.stderr, expected)

    RULES = (
        ("contiguous", {}),
        ("aligned", {}),
        ("cut", {"longest": 9}),
        ("packed", {}),
        ("packed", {"longest": 7, "shuffle": "yes"}),
    )

    def test_losses_for_every_rule_and_number_of_ranks(self):
        for rule, options in self.RULES:
            plan = self.plan(rule=rule, **options)
            shuffle = "shuffle" in options
            wanted = self.expected(rule, 8, options.get("longest"), shuffle, 3)
            for world in (1, 2, 4):
                with self.subTest(rule=rule, world=world):
                    log, _ = self.run_plan(plan, "--gpus", world, "--seed", 3)
                    self.assert_near(train_losses(log), wanted, 1e-6, "loss")

    def test_validation_reads_columns_contiguously(self):
        plan = self.plan(rule="packed")
        log, _ = self.run_plan(plan, "--steps", 1, "--val", self.path("c_0.safetensors"),
                               "--val-tokens", 320)  # fmt: skip
        wanted = self.loss(*self.contiguous(self.files[:1], 20))
        self.assert_near(val_losses(log), [wanted], 1e-6, "loss")

    def contiguous(self, files, sequences):
        reader = Reader(files, "contiguous")
        return reader, reader.next(sequences, 16, 0)

    def test_emulator(self):
        """The same from kernels for a GPU."""
        for rule, options in (("cut", {"longest": 9}), ("packed", {})):
            plan = self.plan("cuda", rule=rule, **options)
            log, _ = self.run_plan(plan, "--device", "emulator", "--steps", 3)
            wanted = self.expected(rule, 3, options.get("longest"))
            self.assert_near(train_losses(log), wanted, 1e-6, "loss")

    def test_stages(self):
        """Three steps of four sequences of 16, then two of 32."""
        for rule, options in (("cut", {"longest": 9}), ("packed", {})):
            reader, wanted = Reader(self.files, rule), []
            for step in range(8):
                limit = (5 if step < 2 else options["longest"]) if options else 0
                wanted.append(
                    self.loss(reader, reader.next(*((4, 16) if step < 3 else (2, 32)), limit))
                )
            plan = self.plan(rule=rule, staged="yes", **options)
            for world in (1, 2):
                log, _ = self.run_plan(plan, "--gpus", world)
                self.assert_near(train_losses(log), wanted, 1e-6, f"{rule}, {world} ranks: loss")
            kernels = self.plan("cuda", rule=rule, staged="yes", **options)
            log, _ = self.run_plan(kernels, "--device", "emulator", "--steps", 5)
            self.assert_near(train_losses(log), wanted[:5], 1e-6, f"{rule}, emulator: loss")

    def test_resume_in_the_middle_of_an_epoch(self):
        for rule, options in self.RULES:
            plan = self.plan(rule=rule, **options)
            wanted = self.expected(rule, 8, options.get("longest"), "shuffle" in options)
            for done in (1, 3, 6):
                with self.subTest(rule=rule, done=done):
                    saves = self.path(f"saves-{rule}-{len(options)}-{done}")
                    first, _ = self.run_plan(plan, "--save", saves, "--steps", done)
                    rest, _ = self.run_plan(plan, "--resume", saves, "--gpus", 2)
                    losses = train_losses(first) + train_losses(rest)
                    self.assert_near(losses, wanted, 1e-6, "loss")

    def test_killed_in_the_middle_of_an_epoch(self):
        plan = self.plan(rule="packed", longest=7, shuffle="yes")
        wanted, _ = self.run_plan(plan)
        options = ("--train", self.path("c_*.safetensors"), "--threads", 1)
        first = kill_at(1, self.path("killed-first"), plan, *options)
        second = kill_at(4, self.path("killed-second"), plan, *options, "--resume", first)
        rest, _ = self.run_plan(plan, "--resume", second)
        self.assertEqual(train_losses(rest), train_losses(wanted)[4:])

    def test_resume_onto_other_data(self):
        plan, saves = self.plan(rule="cut", longest=9), self.path("other")
        self.run_plan(plan, "--save", saves, "--steps", 3)
        generator = random.Random(12)
        content = documents(generator, 80, 1, 16)
        other = {name: [generator.randrange(2) for _ in content] for name in self.files[0]}
        other["tokens"] = content
        for name in ("other_0.safetensors", "o/c_0.safetensors"):
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            self.write(name, other)
        self.refused(plan, "the checkpoint goes on in shard 0 with the name c_0.safetensors, which "
                     "is not there; give the shards that it was trained on, or begin the data "
                     "again with --data-from-start", "--resume", saves,
                     train="other_*.safetensors")  # fmt: skip
        tokens = sum(len(file["tokens"]) for file in self.files)
        was = f"it was trained on other shards: 2 files of {tokens} tokens, and these are 1 of {len(content)}"
        self.refused(plan, f"the checkpoint cannot go on: {was}; give", "--resume", saves,
                     train="o/c_*.safetensors")  # fmt: skip
        log, output = self.run_plan(plan, "--resume", saves, "--data-from-start",
                                    train="other_*.safetensors")  # fmt: skip
        self.assertIn("--data-from-start: the data begin again at other_0.safetensors; the "
                      "checkpoint's went on at ", output)  # fmt: skip
        self.assertIn(f" of c_0.safetensors, epoch 0; {was}", output)
        reader = Reader([other], "cut")
        wanted = [self.loss(reader, reader.next(4, 16, 9)) for _ in range(5)]
        self.assert_near(train_losses(log), wanted, 1e-6, "loss")
        self.refused(plan, "--data-from-start: needs --resume DIR", "--data-from-start",
                     train="c_*.safetensors")  # fmt: skip

    def test_bad_data(self):
        plan, packed = self.plan(rule="contiguous"), self.plan(rule="packed")
        good = self.files[0]

        def changed(**columns):
            for name in os.listdir(self.scratch.name):
                if name.startswith("bad"):
                    os.unlink(self.path(name))
            types = {key[5:]: kind for key, kind in columns.items() if key.startswith("type_")}
            values = {key: value for key, value in columns.items() if not key.startswith("type_")}
            file = {key: value for key, value in {**good, **values}.items() if value is not None}
            return self.write("bad.safetensors", file, **types)

        changed(label=None)
        self.refused(plan, r"bad.safetensors: has no column 'label' \(i32\), which the model reads; "
                     "it has tokens, half, mask, weight")  # fmt: skip
        changed(label=good["weight"], type_label="F32")
        self.refused(plan, "column 'label' is f32, and the model reads it as i32")
        changed(mask=good["mask"][:-1])
        size = len(good["tokens"])
        self.refused(plan, f"column 'mask' has {size - 1} elements and there are {size} tokens")
        # In the third batch: two steps are done.
        bad = [*good["weight"]]
        bad[150] = float("nan")
        changed(weight=bad)
        self.refused(plan, "step 3: .*bad.safetensors: column 'weight' is not finite at position "
                     "150; mend the data")  # fmt: skip
        bad = [*good["tokens"]]
        bad[150] = 50
        changed(tokens=bad)
        self.refused(plan, "step 3: .*token 50 at position 150 is outside the plan's vocabulary of "
                     "50")  # fmt: skip
        changed(**{name: [] for name in good})
        self.refused(plan, "bad.safetensors: fewer tokens than one global batch: it has 0, a step "
                     "of 64 needs 65 in one shard")  # fmt: skip
        self.refused(packed, "no document begins in it: it holds no token 0, the model's eos_token")
        changed(tokens=[0] + [1] * (size - 1))
        self.refused(packed, f"the document at token 0 has {size} tokens, and a row 17; limit")
        with open(changed(), "wb"):
            pass
        self.refused(plan, "bad.safetensors: not a usable token shard: it has 0 bytes")
        # A column that nobody reads is said, and does no harm.
        other = {**good, "other": good["label"]}
        path = self.path("extra.safetensors")
        self.write("extra.safetensors", other, other="I32")
        _, output = self.run_plan(plan, "--steps", 1, train="extra.safetensors")
        self.assertIn(f"--train '{path}': the model reads none of the columns other", output)
        self.refused(self.plan(rule="cut", longest=0.4), "step 3: the model's longest document has "
                     "0.4 tokens; it must have 1 at least", train="c_*.safetensors")  # fmt: skip
        done = run_command("nanoc", "compile", self.MODEL, "--target", "cpu", "-D", "rule=aligned",
                           "-D", "longest=3", "-o", self.path("x.plan"))  # fmt: skip
        self.assertEqual(done.returncode, 2)
        self.assertRegex(
            done.stderr, "columns.cpp:[0-9]+: documents: only the rules Cut and Packed"
        )

    def test_folders_of_npy(self):
        """The same run from a folder of .npy files; bf16 is not among their types."""
        self.refused(self.plan(rule="contiguous"), "npy: has no column 'half'",
                     train=self.npy("npy", self.files[0]))  # fmt: skip

    def npy(self, name, file):
        os.makedirs(self.path(name), exist_ok=True)
        for column, kind, code in (("tokens", "<u2", "H"), ("mask", "|u1", "B"),
                                   ("weight", "<f4", "f"), ("label", "<i4", "i")):  # fmt: skip
            values = file[column]
            header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({len(values)},), }}"
            header += " " * (-(len(header) + 11) % 64) + "\n"
            with open(self.path(f"{name}/{column}.npy"), "wb") as output:
                output.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)))
                output.write(header.encode() + struct.pack(f"<{len(values)}{code}", *values))
        return name


if __name__ == "__main__":
    main()
