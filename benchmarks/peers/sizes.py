"""What each peer takes: the hyperparameters of its model file, what is wrong with those that a user
gives, and the ways in which it can compute the step. Needs no PyTorch."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

BLOCK = 128  # positions that a window of gpt124m counts as one
COMPILE = ("default", "max-autotune-no-cudagraphs", "off")  # modes of torch.compile
# Kinds of scaled_dot_product_attention: "fastest" measures those that run here, "any" leaves the
# choice to PyTorch.
ATTENTION = ("fastest", "cudnn", "flash", "efficient", "any")
# f32 weights that are cast where they are used, or bf16 weights with f32 masters in the optimizer.
AUTOCAST, BF16 = "autocast", "bf16"


@dataclass(frozen=True)
class Ways:
    """How a step is computed, of what its peer can do."""

    attention: str
    fp8: str
    weights: str
    fast_accum: bool = False


class Peer:
    """What a dataclass of hyperparameters says beside them. Of the ways the first is the default;
    the last kind of attention runs wherever PyTorch does."""

    ATTENTION: ClassVar[tuple]
    FP8: ClassVar[tuple] = ("off",)
    WEIGHTS: ClassVar[tuple] = (AUTOCAST,)
    # Hyperparameters that are the same in the peer only with this value, which is their default.
    FIXED: ClassVar[dict] = {}

    def problem(self):
        """What is wrong with the hyperparameters, or None."""
        counts = [field.name for field in dataclasses.fields(self) if field.type is int]
        for name in counts:
            if name not in ("eos_token", "warmup_iters") and getattr(self, name) < 1:
                return f"{name} must be positive"
        problem = self.problem_of_model()
        if problem:
            return problem
        if self.global_batch % self.seq_len:
            return "global_batch must be a multiple of seq_len"
        if self.dtype not in ("bf16", "f32"):
            return "dtype must be bf16 or f32"
        if not 0 <= self.eos_token < self.vocab_size:
            return "eos_token must be a token, less than vocab_size"
        return None

    def problem_of_model(self):
        """What else is wrong with positive sizes, or None."""
        raise NotImplementedError

    def weights(self):
        """The kinds of weights that the peer has in its dtype."""
        return [kind for kind in self.WEIGHTS if kind == AUTOCAST or self.dtype == "bf16"]


@dataclass
class Gpt124m(Peer):
    """The hyperparameters of models/gpt124m.cpp by their names there."""

    vocab_size: int = 50257
    num_layers: int = 12
    num_heads: int = 6
    head_dim: int = 128
    model_dim: int = 768
    seq_len: int = 49152
    global_batch: int = 49152
    num_iterations: int = 1770
    eos_token: int = 50256
    dtype: str = "bf16"

    ATTENTION = ("flex", "blocks")
    FP8 = ("off", "head")
    FIXED = {"adam_every": 1}

    def problem_of_model(self):
        if self.num_layers < 6 or self.num_layers % 2:
            return "num_layers must be even and at least 6"
        if self.head_dim < 8 or self.head_dim % 4:
            return "head_dim must be a multiple of 4, at least 8"
        if self.seq_len % BLOCK:
            return f"seq_len must be a multiple of {BLOCK}"
        return None


@dataclass
class Decoder(Peer):
    """What decoders over rows of block_size tokens that AdamW trains have in common."""

    vocab_size: int = 50257
    num_layers: int = 12
    num_heads: int = 12
    model_dim: int = 768
    block_size: int = 1024
    seq_len: int = 49152
    global_batch: int = 49152
    num_iterations: int = 18865
    learning_rate: float = 6e-4
    warmup_iters: int = 700
    final_lr_frac: float = 0.0
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    adam_eps: float = 1e-8
    grad_clip: float = 1.0
    eos_token: int = 50256
    dtype: str = "bf16"

    ATTENTION = ATTENTION
    WEIGHTS = (AUTOCAST, BF16)

    def problem_of_model(self):
        if self.seq_len % self.block_size:
            return "seq_len must be a multiple of block_size"
        if self.warmup_iters < 0:
            return "warmup_iters must not be negative"
        return None


@dataclass
class Gpt2(Decoder):
    """The hyperparameters of models/gpt2.cpp by their names there."""

    def problem_of_model(self):
        if self.model_dim % self.num_heads:
            return "model_dim must be a multiple of num_heads"
        return super().problem_of_model()


@dataclass
class Llama(Decoder):
    """The hyperparameters of models/llama.cpp by their names there."""

    vocab_size: int = 32000
    num_layers: int = 22
    num_heads: int = 32
    num_kv_heads: int = 4
    head_dim: int = 64
    model_dim: int = 2048
    ffn_dim: int = 5632
    block_size: int = 2048
    seq_len: int = 16384
    global_batch: int = 16384
    num_iterations: int = 20000
    learning_rate: float = 4e-4
    warmup_iters: int = 500
    final_lr_frac: float = 0.1
    norm_eps: float = 1e-5
    tied: str = "no"
    rope_theta: float = 10000.0
    rope_scaling: str = "none"
    rope_factor: float = 8.0
    rope_low_freq_factor: float = 1.0
    rope_high_freq_factor: float = 4.0
    rope_original_block: int = 8192
    eos_token: int = 2

    def problem_of_model(self):
        if self.num_heads % self.num_kv_heads:
            return "num_heads must be a multiple of num_kv_heads"
        if self.head_dim % 2:
            return "head_dim must be even"
        if self.tied not in ("no", "yes"):
            return "tied must be no or yes"
        if self.rope_scaling not in ("none", "linear", "llama3"):
            return "rope_scaling must be none, linear or llama3"
        return super().problem_of_model()


# By the name of the model file; the program is in the module of that name.
PEERS = {"gpt124m": Gpt124m, "gpt2": Gpt2, "llama": Llama}


def first_line(error):
    """An exception in one line."""
    text = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {text[0] if text else ''}"[:500]
