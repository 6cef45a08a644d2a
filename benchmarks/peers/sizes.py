"""The hyperparameters of the model, and what is wrong with those that a user gives."""

from dataclasses import dataclass

BLOCK = 128  # positions that a window counts as one


@dataclass
class Sizes:
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

    def problem(self):
        """What is wrong with the sizes, or None."""
        if self.num_layers < 6 or self.num_layers % 2:
            return "num_layers must be even and at least 6"
        if self.head_dim < 8 or self.head_dim % 4:
            return "head_dim must be a multiple of 4, at least 8"
        if self.seq_len <= 0 or self.seq_len % BLOCK:
            return f"seq_len must be a multiple of {BLOCK}"
        if self.global_batch <= 0 or self.global_batch % self.seq_len:
            return "global_batch must be a multiple of seq_len"
        if self.dtype not in ("bf16", "f32"):
            return "dtype must be bf16 or f32"
        if min(self.vocab_size, self.num_heads, self.model_dim, self.num_iterations) < 1:
            return "vocab_size, num_heads, model_dim and num_iterations must be positive"
        if not 0 <= self.eos_token < self.vocab_size:
            return "eos_token must be a token, less than vocab_size"
        return None
