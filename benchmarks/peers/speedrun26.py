"""The speedrun's record 26 in PyTorch: the step of models/speedrun26.cpp with the same parameters under
the same names: gpt124m.py with all numbers that weigh streams in one parameter and ε of Adam beside
the second moment as it is kept."""

import torch
from torch import nn

import gpt124m
from decoders import beside_kept
from gpt124m import facts, prepare  # noqa: F401


class Model(gpt124m.Model):
    def add_numbers(self):
        """L skips, of which half are used, two numbers of each layer's streams, two of its values."""
        layers = self.sizes.num_layers
        parts = [torch.ones(layers), torch.tensor([1.0, 0.0] * layers), torch.full((2 * layers,), 0.5)]
        parts.append(torch.ones(-5 * layers % 8))
        self.scalars = nn.Parameter(torch.cat(parts))

    def numbers(self):
        layers = self.sizes.num_layers
        pairs = self.scalars[layers : 5 * layers].view(2, layers, 2)
        return self.scalars[:layers], pairs[0], pairs[1]


class Optimizers(gpt124m.Optimizers):
    def step(self, step):
        beside_kept(self.adam, self.sizes.adam_eps, step + 1)
        super().step(step)
