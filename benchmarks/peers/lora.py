"""LoRA in PyTorch: the step of models/lora.cpp with the same parameters under the same names, which
are peft's: the Llama of llama.py, frozen, with small matrices beside chosen ones."""

import math

import torch
from torch import nn

import llama
from decoders import COMPUTE
from llama import Optimizers, facts, prepare, product  # noqa: F401

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
TARGETS = {
    "qv": ("q_proj", "v_proj"),
    "attention": ATTENTION,
    "all": (*ATTENTION, "gate_proj", "up_proj", "down_proj"),
}


class Adapted(nn.Linear):
    """A frozen matrix and its adapter."""

    def __init__(self, inputs, outputs, sizes):
        super().__init__(inputs, outputs, bias=False)
        self.lora_A = product(inputs, sizes.lora_rank)
        self.lora_B = product(sizes.lora_rank, outputs)
        self.scale = sizes.lora_alpha / sizes.lora_rank

    def forward(self, x):
        return super().forward(x) + self.scale * self.lora_B(self.lora_A(x))


class Model(llama.Model):
    def __init__(self, sizes, ways):
        super().__init__(sizes, ways)
        for layer in self.model.layers:
            for part in (layer.self_attn, layer.mlp):
                for name, matrix in list(part.named_children()):
                    if name in TARGETS[sizes.lora_targets]:
                        adapted = Adapted(matrix.in_features, matrix.out_features, sizes)
                        setattr(part, name, adapted)
        for name, parameter in self.named_parameters():
            if ".lora_" not in name:
                parameter.requires_grad_(False)
                parameter.data = parameter.data.to(COMPUTE[sizes.base_dtype])

    @torch.no_grad()
    def draw(self):
        super().draw()
        for name, parameter in self.named_parameters():
            if name.endswith(".lora_A.weight"):
                bound = 1 / math.sqrt(parameter.size(1))
                parameter.uniform_(-bound, bound)
            elif name.endswith(".lora_B.weight"):
                parameter.zero_()
