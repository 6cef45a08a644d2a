"""What the tests of benchmarks/peers share: small models, data for them, and how its scripts are run."""

import json
import os
import random
import subprocess
import sys

from data_test import write_columns
from harness import BIN, EOS, GPT2, GPT124M, LLAMA, PATIENCE, ROOT, RunTest, tokens

FOLDER = os.path.join(ROOT, "benchmarks", "peers")
NANORUN = os.path.join(BIN, "nanorun")
STEPS = 12
LOSS_TOLERANCE = 1e-4
PARAMETER_TOLERANCE = 5e-3
# The head's products are the same numbers in both: its 8-bit operands differ only where f32 and f64
# round to different neighbours. z is bf16 in PyTorch, so the loss of a token errs by up to 2⁻⁹ of a
# logit, and the mean over 512 tokens by far less. Adam then turns the gradients' last bits into
# whole steps where a gradient is nearly zero.
FLOAT8_FIRST_TOLERANCE = 5e-6  # the run without FP8 is 2e-5 away
FLOAT8_TOLERANCE = 1e-3
BF16_TOLERANCE = 5e-4  # of a small model's loss, over a few steps (found: 5e-5)
SIZES = {name: value for name, value in GPT124M.items() if name != "val_seq_len"}
# Clipping is active at every step and shows, as in reference_test.py.
SIZES_GPT2 = {
    **{name: value for name, value in GPT2.items() if name != "val_seq_len"},
    "learning_rate": 3e-3,
    "final_lr_frac": 0.1,
    "grad_clip": 0.25,
    "adam_eps": 1e-3,
}
SIZES_LLAMA = {name: value for name, value in LLAMA.items() if name != "val_seq_len"}
# As LLAMA, where the model has the same; clipping shows.
SIZES_QWEN3 = {**LLAMA, "head_dim": 24}
SIZES_NANOCHAT = {
    **{
        name: value
        for name, value in LLAMA.items()
        if name not in ("head_dim", "warmup_iters", "learning_rate", "adam_eps")
    },
    "num_iterations": 14,  # rates fall from step 9 on
    "warmdown_ratio": 0.4,
    "grad_clip": 0.25,
    # As near as zero, gradients' last bits would be whole steps.
    "adam_eps": 1e-3,
}
# Rows that hold whole documents of `tokens`.
SIZES_SFT = {**LLAMA, "block_size": 256}
SIZES_SFT_PEER = {name: value for name, value in SIZES_SFT.items() if name != "val_seq_len"}
SIZES_GRPO = {**SIZES_SFT, "clip_low": 0.1, "clip_high": 0.15, "kl_weight": 0.3}
SIZES_DPO = {**SIZES_SFT, "dpo_beta": 0.4, "label_smoothing": 0.1}
# Clipping shows here too; faster, A's first gradients would be rounding, which the steps amplify.
SIZES_LORA = {**LLAMA, "lora_rank": 4, "learning_rate": 0.03, "grad_clip": 0.05, "base_dtype": "f32"}
SIZES_LORA_CHATS = {
    **{**SIZES_LORA, "block_size": 256, "lora_targets": "all"},
    **{"documents": "packed", "document_mask": "yes", "loss_mask": "yes"},
}
# Stages of four steps; windows are shorter than documents.
SIZES_44 = {
    **{"vocab_size": 257, "eos_token": EOS, "num_heads": 2, "head_dim": 16, "model_dim": 32},
    **{"seq_len": 128, "global_batch": 256, "num_iterations": 16, "extension": 4},
    **{"window_block": 4, "longest_document": 90, "momentum_warmup": 6, "momentum_cooldown": 6},
    **{"adam_eps": 0.1, "dtype": "f32"},
}
SIZES_MOE = {**LLAMA, "num_experts": 4, "router_aux_loss_coef": 0.1}
# flex_attention is slow without a GPU.
BLOCKS, DENSE = ("--attention", "blocks"), ("--attention", "dense")


def run(*arguments, options=(), script="step", environment=None):
    """The finished process of a script of the folder, on one thread."""
    return subprocess.run(
        [sys.executable, *options, os.path.join(FOLDER, script), *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        timeout=280 * PATIENCE,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
    )


def columns(content):
    """Columns of a file of these tokens for chats and for scored completions. Old and reference are
    near what a new model thinks."""
    source = random.Random(len(content))
    near = lambda: -5.55 + source.uniform(-0.3, 0.3)
    f32 = lambda make: ("F32", [make() for _ in content])
    return {
        "tokens": ("U16", content),
        "mask": ("U8", [source.randrange(2) for _ in content]),
        "weight": f32(lambda: source.randrange(3) / 2),
        "advantage": f32(lambda: source.uniform(-2, 2)),
        "old_logprob": f32(near),
        "ref_logprob": f32(near),
    }


def pair_columns(content):
    """Columns of a file of these tokens for pairs: twenty tokens each, of which one half was chosen, then
    the other rejected, but for a prompt's before either."""
    weight = [0 if at % 10 < 3 else 1 - at % 20 // 10 * 2 for at in range(len(content))]
    return {
        **columns(content),
        "weight": ("F32", weight),
        "pair": ("I32", [at // 20 for at in range(len(content))]),
    }


class PeersTest(RunTest):
    """Tests of runs on data with columns, c_*.safetensors, with those of pairs, d_*.safetensors, and
    without, t_*.bin."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()
        for name, count in (("c_0", 5000), ("c_1", 7000)):
            path = os.path.join(cls.scratch.name, name + ".safetensors")
            write_columns(path, columns(tokens(count, count)))
        path = os.path.join(cls.scratch.name, "d_0.safetensors")
        write_columns(path, pair_columns(tokens(9000, 9)))

    def step(self, model, *arguments):
        done = run(model, "--device", "cpu", "--compile", "off", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return json.loads(done.stdout)
