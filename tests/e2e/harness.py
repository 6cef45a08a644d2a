"""What the tests of whole runs share: commands, token shards, safetensors, logs, comparisons."""

import array
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BIN = os.environ.get("NANO_BIN", os.path.join(ROOT, "build", "bin"))
# nanoc's compiler of model files: c++, which makes a model's library once where that program is built.
KEPT = os.path.join(BIN, "nano-kept-compiler")
if os.environ.get("CXX", "c++") == "c++" and os.path.exists(KEPT):
    os.environ["CXX"] = KEPT
PATIENCE = int(os.environ.get("NANO_PATIENCE", 1))  # how many times slower programs may be than optimised ones
LIMIT = 110 * PATIENCE  # seconds that one command may take, on a machine that does other things too

EOS = 256
# gpt124m with all of its parts (12 layers: skips, value embeddings, long and short windows, the
# layer without attention), small.
GPT124M = {
    "num_layers": 12,
    "model_dim": 64,
    "num_heads": 2,
    "head_dim": 32,
    "vocab_size": 257,
    "eos_token": EOS,
    "seq_len": 256,
    "val_seq_len": 256,
    "global_batch": 512,
    "num_iterations": 40,
    "dtype": "f32",
}
# GPT-2 of four layers, small.
GPT2 = {
    "num_layers": 4,
    "num_heads": 4,
    "model_dim": 64,
    "vocab_size": 257,
    "eos_token": 256,
    "block_size": 64,
    "seq_len": 256,
    "val_seq_len": 256,
    "global_batch": 512,
    "num_iterations": 30,
    "warmup_iters": 5,
    "dtype": "f32",
}
LLAMA = {
    "num_layers": 3,
    "num_heads": 4,
    "num_kv_heads": 2,
    "head_dim": 16,
    "model_dim": 64,
    "ffn_dim": 96,
    "vocab_size": 257,
    "eos_token": 256,
    "block_size": 64,
    "seq_len": 256,
    "val_seq_len": 256,
    "global_batch": 512,
    "num_iterations": 30,
    "warmup_iters": 5,
    "learning_rate": 3e-3,
    "grad_clip": 0.25,
    "adam_eps": 1e-3,
    "dtype": "f32",
}
# gpt_tiny's own layers and batch at a quarter of its width and an eighth of its length.
TINY = {
    "model_dim": 32,
    "num_heads": 2,
    "head_dim": 16,
    "seq_len": 128,
    "val_seq_len": 128,
    "global_batch": 512,
    "num_iterations": 40,
}


def overrides(sizes):
    return [word for name, value in sizes.items() for word in ("-D", f"{name}={value}")]


def run_command(tool, *arguments, limit=LIMIT, environment=None):
    """The finished process of a tool of this build, with its output as text."""
    return subprocess.run(
        [os.path.join(BIN, tool), *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=limit,
        env={**os.environ, **(environment or {})},
    )


def tokens(count, seed, vocab=257, eos=EOS):
    """Documents of 3 to 199 tokens whose tokens follow each other in a pattern, so that there is
    something to learn, with noise. Every Python makes the same ones."""
    source = random.Random(seed)

    def below(bound):
        return int(source.random() * bound)

    found = []
    while len(found) < count:
        found.append(eos)
        token, stride = below(64), 1 + below(7)
        for _ in range(3 + below(197)):
            found.append(token % (vocab - 1))
            token = below(64) if below(5) == 0 else (token + stride) % 64
    return found[:count]


def write_shard(path, content, magic=20240520, version=1):
    words = struct.pack("<256i", magic, version, len(content), *[0] * 253)
    with open(path, "wb") as file:
        file.write(words + struct.pack(f"<{len(content)}H", *content))


def read_safetensors(path):
    """{name: values} of a file of f32, bf16, i32 and u16 tensors."""
    with open(path, "rb") as file:
        raw = file.read()
    size = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if entry["dtype"] == "F32":
            found[name] = array.array("f", data[begin:end])
        elif entry["dtype"] == "I32":
            found[name] = array.array("i", data[begin:end])
        elif entry["dtype"] == "U16":
            found[name] = array.array("H", data[begin:end])
        elif entry["dtype"] == "BF16":
            halves = array.array("H", data[begin:end])
            widened = struct.pack(f"<{len(halves)}I", *[half << 16 for half in halves])
            found[name] = array.array("f", widened)
        else:
            raise ValueError(f"{path}: {name} is {entry['dtype']}")
    return found


def round_to_bf16(source, path, is_rounded, narrow):
    """Writes the f32 tensors of a safetensors file again, those whose name `is_rounded` accepts
    rounded to the nearest bf16 (even on ties): as bf16 when `narrow`, else still in f32."""
    header, data = {}, b""
    for name, values in read_safetensors(source).items():
        kind, content = "F32", values
        if is_rounded(name):
            bits = array.array("I", values.tobytes())
            halves = [(word + 0x7FFF + (word >> 16 & 1)) >> 16 for word in bits]
            kind = "BF16" if narrow else "F32"
            content = array.array("H", halves)
            if not narrow:
                content = array.array("I", [half << 16 for half in halves])
        raw = content.tobytes()
        header[name] = {"dtype": kind, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    with open(source, "rb") as file:
        shapes = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    for name, entry in header.items():
        entry["shape"] = shapes[name]["shape"]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def read_log(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def train_losses(log):
    return [entry["train_loss"] for entry in log if "train_loss" in entry]


def val_losses(log):
    return [entry["val_loss"] for entry in log if "val_loss" in entry]


def distance(found, wanted):
    """‖found − wanted‖ / ‖wanted‖ in the Euclidean norm; ValueError for different lengths."""
    if len(found) != len(wanted):
        raise ValueError(f"{len(found)} numbers against {len(wanted)}")
    difference = math.sqrt(sum((a - b) ** 2 for a, b in zip(found, wanted)))
    return difference / max(math.sqrt(sum(b * b for b in wanted)), 1e-30)


class RunTest(unittest.TestCase):
    """A class of tests over one scratch directory, which goes with it."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="nano-e2e-")
        cls.addClassCleanup(cls.scratch.cleanup)

    def path(self, name):
        return os.path.join(self.scratch.name, name)

    @classmethod
    def make_shards(cls, vocab=257, eos=EOS):
        """Training shards t_*.bin, two so that a run goes from one to the other, and v.bin."""
        at = cls.scratch.name
        write_shard(os.path.join(at, "t_0.bin"), tokens(6000, 1, vocab, eos))
        write_shard(os.path.join(at, "t_1.bin"), tokens(9000, 2, vocab, eos))
        write_shard(os.path.join(at, "v.bin"), tokens(3000, 3, vocab, eos))

    @classmethod
    def compile(cls, model, sizes, plan, *options):
        """Compiles models/MODEL.cpp for the CPU, or the target among the options, to the scratch file
        `plan` and returns its path."""
        path = os.path.join(cls.scratch.name, plan)
        source = f"models/{model}.cpp"
        if "--target" not in options:
            options = ("--target", "cpu", *options)
        done = run_command("nanoc", "compile", source, "-o", path, *overrides(sizes), *options)
        if done.returncode != 0:
            raise AssertionError(f"nanoc compile {source} failed:\n{done.stderr}")
        return path

    def ran(self, tool, *arguments):
        """The output of a command that must succeed without a word on stderr."""
        done = run_command(tool, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout

    def train(self, plan, name, *options, threads=1, data="t_*.bin"):
        """Trains on the scratch files `data`; returns (log, path of the parameters after the last step)."""
        log, parameters = self.path(name + ".jsonl"), self.path(name + ".safetensors")
        options = ("--threads", threads, "--log", log, "--dump-params", parameters, *options)
        self.ran("nanorun", plan, "--train", self.path(data), *options)
        return read_log(log), parameters

    def assert_near(self, found, wanted, tolerance, what):
        """Two lists of losses, within a relative tolerance at every place."""
        self.assertEqual(len(found), len(wanted), what)
        for place, (a, b) in enumerate(zip(found, wanted)):
            self.assertLessEqual(abs(a - b), tolerance * abs(b), f"{what} {place}: {a} and {b}")

    def assert_parameters_near(self, found, wanted, tolerance):
        """Two safetensors files with the same tensors, each within a relative distance."""
        found, wanted = read_safetensors(found), read_safetensors(wanted)
        self.assertEqual(sorted(found), sorted(wanted))
        for name in wanted:
            self.assertEqual(len(found[name]), len(wanted[name]), name)
            self.assertLessEqual(distance(found[name], wanted[name]), tolerance, name)


def main():
    sys.dont_write_bytecode = True
    unittest.main()
