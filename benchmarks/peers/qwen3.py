"""Qwen3 in PyTorch: the step of models/qwen3.cpp with the same parameters under the same names: the
Llama of llama.py, whose queries and keys are normalised before they turn."""

import llama
from decoders import Optimizers, facts  # noqa: F401
from llama import Norm, prepare  # noqa: F401


class Attention(llama.Attention):
    def __init__(self, sizes):
        super().__init__(sizes)
        self.q_norm = Norm(sizes.head_dim, sizes.norm_eps)
        self.k_norm = Norm(sizes.head_dim, sizes.norm_eps)

    def positioned(self, q, k, cosine, sine):
        return super().positioned(self.q_norm(q), self.k_norm(k), cosine, sine)


class Layer(llama.Layer):
    ATTENTION = Attention


class Model(llama.Model):
    LAYER = Layer
