#!/usr/bin/env python3
"""kernels_test.py [--update]: every kernel that the models' plans for CUDA hold at full size goes
through NVRTC for sm_90a; registers, stack, static shared memory and instructions are as in
tests/golden/cuda/MODEL.txt, and nothing spills or is indexed in memory.

A page says which NVRTC made it. Another one's numbers are not compared: that its kernels compile and
do not spill is tested, and the test counts as skipped. A kernel whose text, with the headers that it
includes, is that of the page (the first column) is not compiled again. With --update the pages are
written. Exit status 77: there is no CUDA toolkit, or another one, and nothing failed."""

import functools
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))

import nvrtc

BIN = os.environ.get("NANO_BIN", os.path.join(ROOT, "build", "bin"))
# Pages: the model's file, what its hyperparameters are but for their own values, and options of nanoc.
MODELS = {
    "gpt_tiny": ("models/gpt_tiny",),
    "gpt124m": ("models/gpt124m",),
    "gpt124m_fp8": ("models/gpt124m", "fp8=all"),
    "gpt124m_fused": ("models/gpt124m", "fp8=all", "--products=fused"),
    "gpt124m_candidates": ("models/gpt124m", "--candidates"),
    "gpt2": ("models/gpt2",),
    "gpt2_rows": ("models/gpt2", "block_size=256"),
    "speedrun44": ("models/speedrun44",),
    "sequences": ("tests/compiler/Inputs/sequences",),
    "layers": ("tests/compiler/Inputs/layers",),
}
COLUMNS = "text     registers stack spilled shared instructions kernel"
NVRTC = nvrtc.library()


def page_path(model):
    return os.path.join(ROOT, "tests", "golden", "cuda", f"{model}.txt")


def read_page(model):
    """(NVRTC's version, {kernel: (digest of its text, Resources)}) of a page; None and nothing where
    there is none."""
    if not os.path.exists(page_path(model)):
        return None, {}
    with open(page_path(model), encoding="utf-8") as file:
        lines = file.read().splitlines()
    kernels = {}
    for line in lines[2:]:
        digest, *numbers, name = line.split()
        kernels[name] = (digest, nvrtc.Resources(*map(int, numbers)))
    return lines[0].split()[-1], kernels


def write_page(model, kernels):
    os.makedirs(os.path.dirname(page_path(model)), exist_ok=True)
    with open(page_path(model), "w", encoding="utf-8") as file:
        source, *overrides = MODELS[model]
        words = " ".join([f"{source}.cpp", *overrides])
        file.write(f"# {words} for {nvrtc.ARCHITECTURE} by NVRTC {nvrtc.version(NVRTC)}\n")
        file.write(f"# {COLUMNS}\n")
        for name, (digest, r) in sorted(kernels.items()):
            file.write(
                f"{digest:10} {r.registers:9} {r.stack:5} {r.spilled:7} {r.shared:6} "
                f"{r.instructions:12} {name}\n"
            )


def digests_in(folder):
    """A function of a file of the folder: the digest of its text and of all that it includes."""

    @functools.cache
    def text_of(name):
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()

    def digest(name):
        found, left = set(), [name]
        while left:
            if (each := left.pop()) not in found:
                found.add(each)
                left += [word.decode() for word in re.findall(rb'^ *#include "(.+)"', text_of(each), re.M)]
        parts = [text_of(name), *map(text_of, sorted(found - {name}))]
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:8]

    return digest


def kernels_of(model, known):
    """{kernel: (digest, Resources)} of a model's plan; what is known of the same text is taken."""
    with tempfile.TemporaryDirectory() as folder:
        source, *overrides = MODELS[model]
        command = [f"{BIN}/nanoc", "compile", f"{source}.cpp", "--target", "cuda"]
        for word in overrides:
            command += [word] if word.startswith("--") else ["-D", word]
        command += ["-o", f"{folder}/x.plan", "--dump-ir", folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)} failed:\n{done.stderr}")
        sources = os.path.join(folder, "kernels")
        digest_of, kernels = digests_in(sources), {}
        for name in sorted(os.listdir(sources)):
            if not name.endswith(".cu"):
                continue
            path, kernel = os.path.join(sources, name), name.removesuffix(".cu")
            digest = digest_of(name)
            if kernel in known and known[kernel][0] == digest:
                kernels[kernel] = known[kernel]
            else:
                kernels[kernel] = (digest, nvrtc.compile_kernel(NVRTC, path))
        return kernels


@unittest.skipIf(NVRTC is None, "no CUDA toolkit: NVRTC is not on this machine")
class KernelsTest(unittest.TestCase):
    def check(self, model):
        version, page = read_page(model)
        self.assertIsNotNone(version, f"{page_path(model)} is missing: run tools/update-goldens")
        same = version == nvrtc.version(NVRTC)
        kernels = kernels_of(model, page if same else {})
        self.assertGreater(len(kernels), 20, "kernels of the plan")
        for name, (_, resources) in kernels.items():
            self.assertEqual(resources.spilled, 0, f"bytes that {name} of {model} spills")
            self.assertEqual(resources.stack, 0, f"bytes of {name} of {model} that lie in memory")
        if not same:
            self.skipTest(
                f"{page_path(model)} is by NVRTC {version}, this one is {nvrtc.version(NVRTC)}: "
                "numbers are not compared"
            )
        self.assertEqual(
            {name: resources for name, (_, resources) in kernels.items()},
            {name: resources for name, (_, resources) in page.items()},
            "if that is meant, run tools/update-goldens",
        )

    def test_gpt_tiny(self):
        self.check("gpt_tiny")

    def test_gpt124m(self):
        self.check("gpt124m")

    def test_gpt124m_fp8(self):
        self.check("gpt124m_fp8")

    def test_gpt124m_fused(self):
        self.check("gpt124m_fused")

    def test_gpt124m_candidates(self):
        self.check("gpt124m_candidates")

    def test_gpt2(self):
        self.check("gpt2")

    def test_sequences(self):
        self.check("sequences")

    def test_layers(self):
        self.check("layers")

    def test_speedrun44(self):
        self.check("speedrun44")


def main():
    if sys.argv[1:] != ["--update"]:
        result = unittest.main(exit=False).result
        if not result.wasSuccessful():
            sys.exit(1)
        sys.exit(77 if result.skipped else 0)
    if NVRTC is None:
        print("no CUDA toolkit: NVRTC is not on this machine; tests/golden/cuda stays as it is")
        return
    for model in MODELS:
        version, page = read_page(model)
        write_page(model, kernels_of(model, page if version == nvrtc.version(NVRTC) else {}))
        print(f"{os.path.relpath(page_path(model), ROOT)} written")


if __name__ == "__main__":
    main()
