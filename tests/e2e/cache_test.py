#!/usr/bin/env python3
"""Sampling with keys and values kept: a prompt's logits, computed token by token with what those
before have left, are those of the whole prompt at once, within 1e-5 in f32, for every page that
samples; and the likeliest text is the same, also beyond the longest text that the model sees, where
all positions move. Of every parameter a random number is added to each element: some begin as zeros."""

import array
import json
import os
import random
import struct

from harness import GPT124M, GPT2, LLAMA, ROOT, TINY, RunTest
from harness import main, read_bytes, read_safetensors, run_command
from moe_test import SIZES as MOE

TOLERANCE = 1e-5
QWEN3 = {name: value for name, value in LLAMA.items() if name not in ("grad_clip", "adam_eps")}
NANOCHAT = {
    name: value
    for name, value in QWEN3.items()
    if name not in ("head_dim", "warmup_iters", "learning_rate")
}
# By class of model: (page, sizes, tokens that a text may have).
PAGES = {
    "learned positions, biases": ("gpt2", GPT2, 64),
    "grouped queries, rotary": ("llama", LLAMA, 64),
    "documents, rotary scaling": (
        "llama",
        {**LLAMA, "rope_scaling": "llama3", "document_mask": "yes", "num_layers": 2},
        64,
    ),
    "norms of queries and keys": ("qwen3", QWEN3, 64),
    "soft cap": ("nanochat", NANOCHAT, 64),
    "windows, documents, value embeddings": (
        "gpt124m",
        {**GPT124M, "seq_len": 1024, "val_seq_len": 1024, "global_batch": 1024},
        1024,
    ),
    "mixture of experts": ("moe", MOE, 8),
    "gpt_tiny": ("gpt_tiny", {**TINY, "dtype": "f32"}, 128),
    "LoRA": ("lora", {**LLAMA, "num_layers": 2}, 64),
}

# Running sums, products and averages along the tokens and along a row, and a softmax over a band.
SEQUENCES = """#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const int64_t T = 32, V = 257, D = 24, H = 3, W = 5;
  const auto dtype = hyper("dtype", {f32, bf16}, "what is computed in");
  const auto group = adam("all", {.lr = 0.01, .beta1 = 0.9});
  const Tensor embed = param("embed", {V, D}, f32, normal(0, 0.3), group);
  const Tensor decay = param("decay", {V, D}, f32, normal(0, 1), group);
  auto logits = [&](Tensor tokens) {
    const Tensor a = sigmoid(cast(decay[tokens], dtype));
    Tensor x = cast(embed[tokens], dtype);
    x = norm(recurrence(a, (1.0 - a) * x, {.initial = 0.5}));
    x = norm(x + cumsum(x));
    x = norm(x + cumprod(0.7 + 0.5 * a));
    x = norm(x + cumsum(x, {.axis = -1, .reverse = true}));
    const Tensor before = cumsum(cast(a, f32)), none = full({1, D}, 0, f32);
    x = norm(x + cast(concat({none, slice(before, 0, 0, T - 1)}, 0), dtype));
    const Tensor q = reshape(x, {T, H, D / H});
    const Tensor token = iota({T, 1, W}) + iota({T, 1, W}, 2) - (W - 1);
    const Tensor s = select(token >= 0, bandScores(q, norm(q), W), -1e30);
    const Tensor e = exp(s - maximum(s, -1));
    x = norm(x + reshape(bandProduct(e / sum(e, -1), q), {T, D}));
    return cast(linear(x, embed), f32);
  };
  auto loss = [&](Tensor tokens, Tensor targets) { return crossEntropy(logits(tokens), targets); };
  training({.vocabSize = V, .eosToken = 256, .globalBatch = T, .numIterations = 10});
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, loss);
  generate(T, logits);
}
"""

# Kernels of the model's own: one that works row by row, of several results; one that looks at the
# tokens before, with another kernel for its row; one that looks up rows of a table by number.
KERNELS = r"""#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const int64_t T = 24, V = 257, D = 8;
  const char *text = R"(
template <class X, class W, class Y, class S>
NANO_DEVICE void scaled(int64_t begin, int64_t end, X x, W w, Y y, S s) {
  for (int64_t t = begin + threadIdx.x; t < end; t += blockDim.x) {
    float sum = 0;
    for (int64_t c = 0; c < X::size(1); ++c) {
      y(t, c) = w[c] * x(t, c) * nano::max(x(t, c), 0.1f);
      sum += x(t, c);
    }
    s(t, 0) = sum;
  }
}
)", *mixing = R"(
template <class X, class W, class Y>
NANO_DEVICE void mixed(int64_t begin, int64_t end, X x, W w, Y y) {
  for (int64_t t = begin + threadIdx.x; t < end; t += blockDim.x)
    for (int64_t c = 0; c < X::size(1); ++c) {
      float sum = 0;
      for (int64_t i = 0; i < W::size(0) && i <= t; ++i)
        sum += w(i, c) * x(t - i, c);
      y(t, c) = sum;
    }
}
)", *mixingRow = R"(
template <class X, class W, class P, class Y>
NANO_DEVICE void mixed_row(int64_t begin, int64_t end, X x, W w, P p, Y y) {
  const int64_t t = p[0];
  for (int64_t c = begin + threadIdx.x; c < end; c += blockDim.x) {
    float sum = 0;
    for (int64_t i = 0; i < W::size(0) && i <= t; ++i)
      sum += w(i, c) * x(t - i, c);
    y(0, c) = sum;
  }
}
)", *looking = R"(
template <class I, class W, class Y>
NANO_DEVICE void looked_up(int64_t begin, int64_t end, I ids, W w, Y y) {
  for (int64_t t = begin + threadIdx.x; t < end; t += blockDim.x)
    for (int64_t c = 0; c < W::size(1); ++c)
      y(t, c) = w(ids[t], c);
}
)";
  const Kernel scaled = kernel("scaled", {
      .cpu = text, .cuda = text,
      .results = [](const Tensors &in) -> KernelResults {
        return {in[0], {{in[0].size(0), 1}, f32}};
      },
      .iterations = [](const Tensors &in) { return in[0].size(0); },
      .derivative = [](const Tensors &in, const Tensors &, const Tensors &dy) -> Tensors {
        return {in[1] * dy[0] * select(in[0] > 0.1, 2.0 * in[0], 0.1) + dy[1],
                reshape(sum(in[0] * max(in[0], 0.1) * dy[0], 0), {in[1].size(0)})};
      },
      BY_ROWS
  });
  const Kernel mixedRow = kernel("mixed_row", {
      .cpu = mixingRow, .cuda = mixingRow,
      .results = [](const Tensors &in) -> KernelResults { return {{{1, in[0].size(1)}, f32}}; },
      .iterations = [](const Tensors &in) { return in[0].size(1); },
  });
  const Kernel mixed = kernel("mixed", {
      .cpu = mixing, .cuda = mixing,
      .results = [](const Tensors &in) -> KernelResults { return {in[0]}; },
      .iterations = [](const Tensors &in) { return in[0].size(0); },
      .row = [=](const Tensors &in, const Tensor &position) -> Tensors {
        return {mixedRow(in[0], in[1], position)};
      },
      .kept = {0},
  });
  const Kernel lookedUp = kernel("looked_up", {
      .cpu = looking, .cuda = looking,
      .results = [](const Tensors &in) -> KernelResults {
        return {{{in[0].size(0), in[1].size(1)}, f32}};
      },
      .iterations = [](const Tensors &in) { return in[0].size(0); },
      .indexInput = 0,
      .indexBound = [](const Tensors &in) { return in[1].size(0); },
      .byRows = {0},
  });
  const auto group = adam("all", {.lr = 0.01, .beta1 = 0.9});
  const Tensor embed = param("embed", {V, D}, f32, normal(0, 0.3), group);
  const Tensor w = param("w", {D}, f32, normal(0, 1), group);
  const Tensor taps = frozen("taps", {3, D}, f32, normal(0, 1));
  const Tensor rows = frozen("rows", {V, D}, f32, normal(0, 1));
  auto logits = [&](Tensor tokens) {
    Tensor x = embed[tokens];
    const Tensors y = scaled.all({x, w});
    x = norm(x + y[0] * y[1]);
    x = norm(x + stopGradient(mixed(x, taps)));
    x = norm(x + lookedUp((tokens * 3 + iota({T})) % V, rows));
    return linear(x, embed);
  };
  auto loss = [&](Tensor tokens, Tensor targets) { return crossEntropy(logits(tokens), targets); };
  training({.vocabSize = V, .eosToken = 256, .globalBatch = T, .numIterations = 10});
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, loss);
  generate(T, logits);
}
"""


class Cached(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()

    def prompt(self, count, vocab, seed):
        source = random.Random(seed)
        content = [int(source.random() * (vocab - 1)) for _ in range(count)]
        content[0] = content[count // 3] = vocab - 1  # documents begin
        path = self.path("prompt.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(" ".join(map(str, content)))
        return path

    def parameters(self, plan):
        """A file of parameters that are all other than zero."""
        start, path = self.path("start.safetensors"), self.path("random.safetensors")
        words = ("--steps", 0, "--dump-params", start, "--train", self.path("t_*.bin"))
        self.ran("nanorun", plan, *words, "--seed", 4)
        raw, source = bytearray(read_bytes(start)), random.Random(8)
        size = struct.unpack("<Q", raw[:8])[0]
        for name, entry in json.loads(raw[8 : 8 + size]).items():
            if name == "__metadata__" or entry["dtype"] != "F32":
                continue
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            values = array.array("f", bytes(raw[begin:end]))
            values = array.array("f", [value + source.uniform(-0.2, 0.2) for value in values])
            raw[begin:end] = values.tobytes()
        with open(path, "wb") as file:
            file.write(raw)
        return path

    def logits(self, plan, parameters, prompt, cache):
        path = self.path(f"{cache}.safetensors")
        words = ("--logits", path, "--prompt-tokens", prompt, "--threads", 1)
        self.ran("nanorun", plan, *words, "--init", parameters, "--cache", cache)
        return read_safetensors(path)["logits"]

    def assert_equal(self, plan, longest, vocab, tolerance=TOLERANCE):
        prompt, parameters = self.prompt(longest, vocab, 5), self.parameters(plan)
        whole, cached = (self.logits(plan, parameters, prompt, cache) for cache in ("off", "on"))
        self.assertEqual(len(whole), len(cached))
        scale = max(map(abs, whole))
        worst = max(abs(a - b) for a, b in zip(whole, cached))
        self.assertLessEqual(worst, tolerance * max(scale, 1.0))
        self.assertGreater(len(set(whole)), vocab, "logits that do not depend on the tokens")

    def test_equals_the_whole_prompt(self):
        for name, (page, sizes, longest) in PAGES.items():
            with self.subTest(name):
                plan = self.compile(page, sizes, "cached.plan")
                self.assert_equal(plan, longest, sizes.get("vocab_size", 257))

    def test_sequences(self):
        """What runs along the tokens goes on from the token before: in bf16 too, where it is carried
        on in f32 and rounded an element."""
        model, plan = self.path("sequences.cpp"), self.path("sequences.plan")
        with open(model, "w", encoding="utf-8") as file:
            file.write(SEQUENCES)
        # In bf16 a product of one row is summed in another order, then rounded to 2^-9.
        for dtype, tolerance in (("f32", TOLERANCE), ("bf16", 2**-6)):
            with self.subTest(dtype):
                words = ("-o", plan, "--target", "cpu", "-D", f"dtype={dtype}")
                done = run_command("nanoc", "compile", model, *words)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assert_equal(plan, 32, 257, tolerance)

    def test_kernels(self):
        """Of a model's own: a row of their results comes from what they say. Also as CUDA kernels,
        and the same text beyond the longest one that the model sees."""
        model, plan = self.path("own.cpp"), self.path("own.plan")
        for by_rows in (".byRows = {0},", ""):
            with open(model, "w", encoding="utf-8") as file:
                file.write(KERNELS.replace("BY_ROWS", by_rows))
            done = run_command("nanoc", "compile", model, "-o", plan, "--target", "cpu")
            self.assertEqual(done.returncode, 0, done.stderr)
            if not by_rows:
                self.assertIn(
                    "remark: sampling computes all positions for every token: kernel 'scaled' does "
                    "not say what a row of its results comes from (.byRows)",
                    done.stderr,
                )
                continue
            self.assertEqual(done.stderr, "")
            self.assert_equal(plan, 24, 257)
            words = ("--sample", 30, "--prompt-tokens", self.prompt(9, 257, 6), "--threads", 1)
            words = (*words, "--seed", 4, "--temperature", 0, "--init", self.path("random.safetensors"))
            texts = [self.ran("nanorun", plan, *words, "--cache", c) for c in ("on", "off")]
            self.assertEqual(*texts)
            cuda = self.path("own.cuda.plan")
            done = run_command("nanoc", "compile", model, "-o", cuda, "--target", "cuda")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            prompt, path = self.prompt(6, 257, 7), self.path("emulated.safetensors")
            start = ("--init", self.path("random.safetensors"), "--prompt-tokens", prompt)
            self.ran("nanorun", cuda, "--logits", path, *start, "--device", "emulator", "--cache", "on")
            found = read_safetensors(path)["logits"]
            whole = self.logits(plan, self.path("random.safetensors"), prompt, "off")
            worst = max(abs(a - b) for a, b in zip(found, whole))
            self.assertLessEqual(worst, TOLERANCE * max(1.0, max(map(abs, whole))))

    def test_text(self):
        """The likeliest text, through the end of the longest text; several samples."""
        plan = self.compile("gpt2", GPT2, "text.plan")
        prompt = self.prompt(50, 257, 6)
        words = ("--sample", 30, "--prompt-tokens", prompt, "--threads", 1, "--seed", 4)
        greedy = (*words, "--temperature", 0)
        self.assertEqual(
            self.ran("nanorun", plan, *greedy), self.ran("nanorun", plan, *greedy, "--cache", "off")
        )
        drawn = (*words, "--samples", 3, "--temperature", 1.5)
        found = self.ran("nanorun", plan, *drawn)
        self.assertEqual(found, self.ran("nanorun", plan, *drawn, "--cache", "off"))
        self.assertEqual(len(set(found.splitlines())), 3)

    def test_emulated_gpu(self):
        """The same program, as CUDA kernels."""
        sizes = {**LLAMA, "num_layers": 1, "model_dim": 32, "ffn_dim": 32, "block_size": 16}
        sizes = {**sizes, "seq_len": 16, "val_seq_len": 16, "global_batch": 16}
        plan = self.compile("llama", sizes, "cuda.plan", "--target", "cuda")
        prompt = self.prompt(6, 257, 7)
        found = {}
        for cache in ("on", "off"):
            path = self.path(f"{cache}.safetensors")
            words = ("--logits", path, "--prompt-tokens", prompt, "--seed", 4, "--cache", cache)
            self.ran("nanorun", plan, *words, "--device", "emulator")
            found[cache] = read_safetensors(path)["logits"]
        worst = max(abs(a - b) for a, b in zip(found["on"], found["off"]))
        self.assertLessEqual(worst, TOLERANCE * max(1.0, max(map(abs, found["off"]))))

    def test_falls_back(self):
        """A model whose queries see later keys: told by the compiler, and sampled all the same."""
        with open(os.path.join(ROOT, "models", "gpt2.cpp"), encoding="utf-8") as file:
            text = file.read()
        changed = text.replace(".last = t,", ".last = rowStart + block - 1,")
        self.assertNotEqual(text, changed)
        model = self.path("both.cpp")
        with open(model, "w", encoding="utf-8") as file:
            file.write(changed)
        plan = self.path("both.plan")
        sizes = [word for item in GPT2.items() for word in ("-D", "{}={}".format(*item))]
        done = run_command("nanoc", "compile", model, "-o", plan, "--target", "cpu", *sizes)
        self.assertEqual(done.returncode, 0, done.stderr)
        why = "sampling computes all positions for every token: a query may see later keys"
        self.assertIn(why, done.stderr + done.stdout)
        words = ("--sample", 3, "--threads", 1)
        self.ran("nanorun", plan, *words)
        done = run_command("nanorun", plan, *words, "--cache", "on")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--cache on: the plan computes all positions for every token", done.stderr)


if __name__ == "__main__":
    main()
