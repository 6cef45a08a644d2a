#!/usr/bin/env python3
"""docs/huggingface.md, followed literally: every block of commands is run as it stands. Around them
everything is small: the folder that would be downloaded, and the sizes that nanoc is given. Tokens
are bytes, so that no library is needed."""

import json
import math
import os
import re
import subprocess
import sys
import unittest
from importlib.util import find_spec

from folders import packed, write_file
from harness import BIN, LIMIT, ROOT, RunTest

SIZES = {
    "num_layers": 1,
    "num_heads": 2,
    "model_dim": 16,
    "vocab_size": 257,
    "eos_token": 256,
    "block_size": 32,
    "seq_len": 64,
    "val_seq_len": 32,
    "global_batch": 128,
    "num_iterations": 20,
    "warmup_iters": 2,
    "learning_rate": 1e-2,
}
CONFIG = {
    "model_type": "gpt2",
    "vocab_size": 257,
    "n_layer": 1,
    "n_head": 2,
    "n_embd": 16,
    "n_positions": 32,
}
# In the place of nanoc: the page's options, with small values.
NANOC = """#!{python}
import os, sys
sizes = {sizes!r}
words, given = sys.argv[1:], set()
for place, word in enumerate(words):
    if place > 0 and words[place - 1] == "-D":
        name = word.split("=")[0]
        given.add(name)
        words[place] = f"{{name}}={{sizes[name]}}"
for name, value in sizes.items():
    if name not in given:
        words += ["-D", f"{{name}}={{value}}"]
os.execv({program!r}, [{program!r}, *words, "--target", "cpu"])
"""
# In the place of nano-tokens: bytes instead of the folder's vocabulary.
TOKENS = """#!{python}
import os, sys
words = sys.argv[1:]
place = words.index("--tokenizer-json")
assert os.path.isfile(words[place + 1])
words[place : place + 2] = ["--tokenizer", "bytes"]
os.execv({python!r}, [{python!r}, {program!r}, *words])
"""
HF = """#!{python}
import shutil, sys
assert sys.argv[1] == "download" and sys.argv[3] == "--local-dir"
shutil.copytree({folder!r}, sys.argv[4])
"""

# As GPT-2's: every byte has a character.
LETTERS = [*range(33, 127), *range(161, 173), *range(174, 256)]
OTHERS = [byte for byte in range(256) if byte not in LETTERS]
BYTES = {
    "model": {
        "vocab": {
            **{chr(byte): byte for byte in LETTERS},
            **{chr(256 + i): byte for i, byte in enumerate(OTHERS)},
        }
    },
    "decoder": {"type": "ByteLevel"},
    "added_tokens": [{"id": 256, "content": "<|endoftext|>"}],
}


def blocks(kind):
    with open(os.path.join(ROOT, "docs", "huggingface.md"), encoding="utf-8") as file:
        return re.findall(rf"^```{kind}\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)


class HuggingFace(RunTest):
    def script(self, name, text, **words):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.format(python=sys.executable, **words))
        os.chmod(path, 0o755)

    def make_folder(self):
        """What save_pretrained would have written of a GPT-2 of one layer, all small numbers."""
        folder = self.path("downloaded")
        os.mkdir(folder)
        shapes = {"wte.weight": [257, 16], "wpe.weight": [32, 16], "ln_f.weight": [16]}
        shapes["ln_f.bias"] = [16]
        for name, inputs, outputs in (
            ("attn.c_attn", 16, 48),
            ("attn.c_proj", 16, 16),
            ("mlp.c_fc", 16, 64),
            ("mlp.c_proj", 64, 16),
        ):
            shapes[f"h.0.{name}.weight"] = [inputs, outputs]
            shapes[f"h.0.{name}.bias"] = [outputs]
        for name in ("ln_1", "ln_2"):
            shapes[f"h.0.{name}.weight"] = shapes[f"h.0.{name}.bias"] = [16]
        tensors = {}
        for number, (name, shape) in enumerate(shapes.items()):
            count = math.prod(shape)
            value = lambda i: (
                1.0 if "ln_" in name and "weight" in name else (i * 37 % 41 - 20) / 512
            )
            raw = packed([value(i + number) for i in range(count)], "F16")
            tensors["transformer." + name] = ("F16", shape, raw)
        write_file(folder + "/model.safetensors", tensors)
        for name, content in (
            ("config.json", CONFIG),
            ("vocab.json", {"!": 0}),
            ("tokenizer.json", BYTES),
            ("tokenizer_config.json", {}),
        ):
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                json.dump(content, file)
        return folder

    def test_page(self):
        root = self.path("root")
        self.script("bin/hf", HF, folder=self.make_folder())
        self.script("bin/nanoc", NANOC, sizes=SIZES, program=os.path.join(BIN, "nanoc"))
        tokens = os.path.join(ROOT, "tools", "nano-tokens")
        self.script("root/tools/nano-tokens", TOKENS, program=tokens)
        os.symlink(os.path.join(ROOT, "models"), root + "/models")
        os.mkdir(root + "/text")
        for i in range(10):
            with open(f"{root}/text/{i}.txt", "w", encoding="utf-8") as file:
                file.write(f"The {i}th file says that the cat sat on the mat. " * 20)
        path = os.pathsep.join([self.path("bin"), BIN, os.environ["PATH"]])
        said = []
        for block in blocks("sh"):
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block],
                cwd=root,
                capture_output=True,
                encoding="utf-8",
                timeout=LIMIT,
                env={**os.environ, "PATH": path},
            )
            self.assertEqual(done.returncode, 0, f"{block}\n{done.stderr}")
            said.append(done.stdout)
        self.assertEqual(len(said), 7)
        losses = [json.loads(line)["loss"] for text in said for line in text.splitlines() if '"perplexity"' in line]  # fmt: skip
        self.assertEqual(len(losses), 2)
        self.assertLess(losses[1], 0.8 * losses[0])
        self.assertAlmostEqual(losses[0], math.log(257), delta=0.3)
        # It has learned words of the text.
        self.assertRegex(said[-1], "[a-z] ?[a-z]")
        self.assertEqual(
            sorted(os.listdir(root + "/mine")),
            [
                *("config.json", "model.safetensors"),
                *("tokenizer.json", "tokenizer_config.json", "vocab.json"),
            ],
        )
        if not (find_spec("torch") and find_spec("transformers")):
            return
        (program,) = blocks("python")
        done = subprocess.run(
            [sys.executable, "-c", program + "print(model.config.n_embd, model.dtype)"],
            cwd=root,
            capture_output=True,
            encoding="utf-8",
            timeout=LIMIT,
        )
        self.assertEqual(done.stdout, "16 torch.float32\n", done.stderr)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
