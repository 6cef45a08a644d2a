"""What each peer takes: the hyperparameters of its model file, what is wrong with those that a user
gives, and the ways in which it can compute the step. Needs no PyTorch."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import ClassVar

BLOCK = 128  # positions that a window of gpt124m counts as one
COMPILE = ("default", "max-autotune-no-cudagraphs", "off")  # modes of torch.compile
# Kinds of scaled_dot_product_attention: "fastest" measures those that run here, "any" leaves the
# choice to PyTorch.
ATTENTION = ("fastest", "cudnn", "flash", "efficient", "any")
# Of attention among the keys from some place on: flex_attention, or a mask of all queries and keys.
FLEX, DENSE = "flex", "dense"
# f32 weights that are cast where they are used, or bf16 weights with f32 masters in the optimizer.
AUTOCAST, BF16 = "autocast", "bf16"


@dataclass(frozen=True)
class Ways:
    """How a step is computed, of what its peer can do."""

    attention: str
    fp8: str
    weights: str
    fast_accum: bool = False


@dataclass(frozen=True)
class Cutting:
    """What a batch is: sequences of length + 1 tokens, cut by a rule of docs/data.md; `longest`: tokens
    of a document, 0: no limit. `columns`: {name: type} of what is read of the targets."""

    sequences: int
    length: int
    eos: int
    rule: str = "contiguous"
    shuffle: bool = False
    longest: int = 0
    columns: dict = field(default_factory=dict)


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

    def attention(self):
        """The kinds of attention that the peer has."""
        return self.ATTENTION

    def columns(self):
        """{name: type} of what the loss reads of a target beside its token."""
        return {}

    def cutting(self):
        """What a batch is."""
        return Cutting(
            self.global_batch // self.seq_len, self.seq_len, self.eos_token, columns=self.columns()
        )

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
    documents: str = "contiguous"
    pad_tables: str = "no"
    cooldown: float = 0.4
    adam_eps: float = 1e-10
    dtype: str = "bf16"

    ATTENTION = (FLEX, "blocks")
    FP8 = ("off", "head")
    FIXED = {"adam_every": 1}

    @property
    def padded(self):
        """Rows of the head, and of the tables where they are padded."""
        return self.vocab_size + -self.vocab_size % 128

    def cutting(self):
        return dataclasses.replace(super().cutting(), rule=self.documents)

    def problem_of_model(self):
        if self.num_layers < 6 or self.num_layers % 2:
            return "num_layers must be even and at least 6"
        if self.head_dim < 8 or self.head_dim % 4:
            return "head_dim must be a multiple of 4, at least 8"
        if self.seq_len % BLOCK:
            return f"seq_len must be a multiple of {BLOCK}"
        if self.documents not in ("contiguous", "aligned"):
            return "documents must be contiguous or aligned"
        if self.pad_tables not in ("no", "yes"):
            return "pad_tables must be no or yes"
        return None


@dataclass
class Speedrun26(Gpt124m):
    """The hyperparameters of models/speedrun26.cpp by their names there."""

    num_iterations: int = 1750
    documents: str = "aligned"
    pad_tables: str = "yes"
    cooldown: float = 0.45


@dataclass
class Speedrun44(Peer):
    """The hyperparameters of models/speedrun44.cpp by their names there."""

    vocab_size: int = 50257
    num_heads: int = 6
    head_dim: int = 128
    model_dim: int = 768
    seq_len: int = 32768
    global_batch: int = 32768
    num_iterations: int = 2245
    extension: int = 40
    eos_token: int = 50256
    longest_document: int = 2048
    window_block: int = 128
    momentum_warmup: int = 300
    momentum_cooldown: int = 50
    adam_eps: float = 1e-8
    dtype: str = "bf16"

    ATTENTION = (FLEX, DENSE)
    FP8 = ("off", "head")
    FIXED = {"gradients": "stored"}

    @property
    def padded(self):
        """Rows of tables and head."""
        return self.vocab_size + -self.vocab_size % 128

    @property
    def scheduled(self):
        """Steps up to the schedules' end."""
        return self.num_iterations - self.extension

    def stage(self, step):
        """The stage of a step: three thirds of the scheduled steps, then the rest."""
        return min(3 * step // self.scheduled, 3)

    def cutting(self):
        return dataclasses.replace(super().cutting(), rule="cut", longest=self.longest_document)

    def problem_of_model(self):
        if self.num_heads * self.head_dim != self.model_dim:
            return "model_dim must be num_heads times head_dim"
        if self.head_dim < 8 or self.head_dim % 4:
            return "head_dim must be a multiple of 4, at least 8"
        if self.model_dim < 12:
            return "model_dim must be at least 12"
        if self.num_iterations < self.extension + 3:
            return "num_iterations must be at least 3 more than extension"
        return None


class OfRows(Peer):
    """What decoders over rows of block_size tokens have in common."""

    ATTENTION = ATTENTION
    document_mask: ClassVar[str] = "no"
    loss_mask: ClassVar[str] = "no"

    def problem_of_model(self):
        if self.seq_len % self.block_size:
            return "seq_len must be a multiple of block_size"
        return None

    def problem_of_heads(self):
        if self.num_heads % self.num_kv_heads:
            return "num_heads must be a multiple of num_kv_heads"
        if self.head_dim % 2:
            return "head_dim must be even"
        return None


@dataclass
class Decoder(OfRows):
    """What those that AdamW trains have in common."""

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

    WEIGHTS = (AUTOCAST, BF16)

    def problem_of_model(self):
        if self.warmup_iters < 0:
            return "warmup_iters must not be negative"
        return super().problem_of_model()


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
    documents: str = "contiguous"
    shuffle_documents: str = "no"
    document_mask: str = "no"
    loss_mask: str = "no"

    def attention(self):
        return (FLEX, DENSE) if self.document_mask == "yes" else self.ATTENTION

    def columns(self):
        return {"mask": "u8"} if self.loss_mask == "yes" else {}

    def cutting(self):
        shuffle = self.shuffle_documents == "yes"
        return dataclasses.replace(super().cutting(), rule=self.documents, shuffle=shuffle)

    def problem_of_model(self):
        if self.documents not in ("contiguous", "aligned", "cut", "packed"):
            return "documents must be contiguous, aligned, cut or packed"
        for name in ("tied", "shuffle_documents", "document_mask", "loss_mask"):
            if getattr(self, name) not in ("no", "yes"):
                return f"{name} must be no or yes"
        if self.shuffle_documents == "yes" and self.documents in ("contiguous", "aligned"):
            return "shuffle_documents needs documents=cut or packed"
        if self.rope_scaling not in ("none", "linear", "llama3"):
            return "rope_scaling must be none, linear or llama3"
        return self.problem_of_heads() or super().problem_of_model()


@dataclass
class Sft(Llama):
    """The hyperparameters of models/sft.cpp by their names there."""

    seq_len: int = 2048
    num_iterations: int = 1000
    learning_rate: float = 2e-5
    warmup_iters: int = 30
    final_lr_frac: float = 0.0
    weight_decay: float = 0.0
    documents: str = "packed"
    shuffle_documents: str = "yes"
    document_mask: str = "yes"
    loss_mask: str = "yes"


@dataclass
class Grpo(Llama):
    """The hyperparameters of models/grpo.cpp by their names there."""

    seq_len: int = 2048
    num_iterations: int = 1000
    learning_rate: float = 1e-6
    warmup_iters: int = 10
    final_lr_frac: float = 1.0
    weight_decay: float = 0.0
    documents: str = "packed"
    document_mask: str = "yes"
    loss_mask: ClassVar[str] = "no"
    clip_low: float = 0.2
    clip_high: float = 0.2
    kl_weight: float = 0.04

    def columns(self):
        names = ("weight", "advantage", "old_logprob", "ref_logprob")
        return dict.fromkeys(names if self.kl_weight else names[:3], "f32")


@dataclass
class Dpo(Llama):
    """The hyperparameters of models/dpo.cpp by their names there."""

    block_size: int = 2048
    seq_len: int = 2048
    num_iterations: int = 1000
    learning_rate: float = 5e-7
    warmup_iters: int = 100
    final_lr_frac: float = 0.0
    weight_decay: float = 0.0
    document_mask: str = "yes"
    loss_mask: ClassVar[str] = "no"
    dpo_beta: float = 0.1
    label_smoothing: float = 0.0

    def columns(self):
        return {"weight": "f32", "ref_logprob": "f32", "pair": "i32"}


@dataclass
class Lora(Llama):
    """The hyperparameters of models/lora.cpp by their names there."""

    learning_rate: float = 2e-4
    weight_decay: float = 0.0
    lora_rank: int = 8
    lora_alpha: float = 16.0
    lora_targets: str = "qv"
    base_dtype: str = "bf16"

    def problem_of_model(self):
        if self.lora_targets not in ("qv", "attention", "all"):
            return "lora_targets must be qv, attention or all"
        if self.base_dtype not in ("bf16", "f32"):
            return "base_dtype must be bf16 or f32"
        if self.base_dtype == "bf16" and self.dtype == "f32":
            return "base_dtype=bf16 needs dtype=bf16"
        return super().problem_of_model()


@dataclass
class Qwen3(Decoder):
    """The hyperparameters of models/qwen3.cpp by their names there."""

    vocab_size: int = 151936
    num_layers: int = 28
    num_heads: int = 16
    num_kv_heads: int = 8
    head_dim: int = 128
    model_dim: int = 1024
    ffn_dim: int = 3072
    block_size: int = 2048
    seq_len: int = 16384
    global_batch: int = 16384
    num_iterations: int = 20000
    learning_rate: float = 4e-4
    warmup_iters: int = 500
    final_lr_frac: float = 0.1
    norm_eps: float = 1e-6
    tied: str = "yes"
    rope_theta: float = 1e6
    eos_token: int = 151645

    rope_scaling: ClassVar[str] = "none"

    def problem_of_model(self):
        if self.tied not in ("no", "yes"):
            return "tied must be no or yes"
        return self.problem_of_heads() or super().problem_of_model()


@dataclass
class Nanochat(OfRows):
    """The hyperparameters of models/nanochat.cpp by their names there."""

    vocab_size: int = 65536
    num_layers: int = 20
    num_heads: int = 10
    num_kv_heads: int = 10
    model_dim: int = 1280
    ffn_dim: int = 5120
    block_size: int = 2048
    seq_len: int = 16384
    global_batch: int = 16384
    num_iterations: int = 21400
    matrix_lr: float = 0.02
    embedding_lr: float = 0.2
    unembedding_lr: float = 0.004
    warmdown_ratio: float = 0.2
    adam_eps: float = 1e-10
    grad_clip: float = 1.0
    norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    softcap: float = 15.0
    eos_token: int = 0
    dtype: str = "bf16"

    rope_scaling: ClassVar[str] = "none"

    @property
    def head_dim(self):
        return self.model_dim // self.num_heads

    def problem_of_model(self):
        if self.model_dim % (2 * self.num_heads):
            return "model_dim must be num_heads times an even number"
        if not 0 < self.warmdown_ratio <= 1:
            return "warmdown_ratio must be above 0 and at most 1"
        return self.problem_of_heads() or super().problem_of_model()


@dataclass
class Moe(OfRows):
    """The hyperparameters of models/moe.cpp by their names there."""

    vocab_size: int = 32000
    num_layers: int = 12
    num_heads: int = 12
    num_kv_heads: int = 4
    head_dim: int = 64
    model_dim: int = 768
    ffn_dim: int = 1024
    num_experts: int = 8
    experts_per_token: int = 2
    capacity_factor: float = 0.0
    router_aux_loss_coef: float = 0.02
    block_size: int = 1024
    seq_len: int = 16384
    global_batch: int = 16384
    num_iterations: int = 20000
    learning_rate: float = 4e-4
    warmup_iters: int = 500
    weight_decay: float = 0.1
    adam_eps: float = 1e-8
    grad_clip: float = 1.0
    norm_eps: float = 1e-5
    rope_theta: float = 1e6
    eos_token: int = 2
    dtype: str = "bf16"

    WEIGHTS = (AUTOCAST, BF16)
    rope_scaling: ClassVar[str] = "none"
    tied: ClassVar[str] = "no"
    beta1: ClassVar[float] = 0.9
    beta2: ClassVar[float] = 0.95
    final_lr_frac: ClassVar[float] = 0.1

    def problem_of_model(self):
        if self.experts_per_token > self.num_experts:
            return "experts_per_token is more than num_experts"
        if self.capacity_factor < 0:
            return "capacity_factor is negative"
        if self.warmup_iters < 0:
            return "warmup_iters must not be negative"
        return self.problem_of_heads() or super().problem_of_model()

    @property
    def capacity(self):
        """Rows that an expert has in a training sequence; None: as many as choose it."""
        choices = self.experts_per_token * self.seq_len
        rows = math.ceil(self.capacity_factor * choices / self.num_experts)
        return rows if 0 < rows < self.seq_len else None


# By the name of the model file; the program is in the module of that name.
PEERS = {
    "gpt124m": Gpt124m,
    "gpt2": Gpt2,
    "llama": Llama,
    "qwen3": Qwen3,
    "nanochat": Nanochat,
    "moe": Moe,
    "sft": Sft,
    "grpo": Grpo,
    "dpo": Dpo,
    "lora": Lora,
    "speedrun26": Speedrun26,
    "speedrun44": Speedrun44,
}


def first_line(error):
    """An exception in one line."""
    text = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {text[0] if text else ''}"[:500]
