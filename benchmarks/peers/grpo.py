"""GRPO in PyTorch: the step of models/grpo.cpp with the same parameters under the same names: the
Llama of llama.py with the clipped objective of groups' advantages."""

import torch
import torch.nn.functional as F

import llama
from llama import Optimizers, facts, prepare  # noqa: F401


class Model(llama.Model):
    def objective(self, logits, targets, weight, advantage, old, reference=None):
        """The mean over the tokens that the model wrote, by their weights."""
        sizes, counts = self.sizes, weight > 0
        now = -F.cross_entropy(logits, targets, reduction="none")
        # Where nothing counts the other columns may hold anything.
        ratio = torch.exp(torch.where(counts, now - old, 0))
        clipped = ratio.clamp(1 - sizes.clip_low, 1 + sizes.clip_high)
        cost = -torch.minimum(ratio * advantage, clipped * advantage)
        if reference is not None:
            away = torch.where(counts, reference - now, 0)
            cost = cost + sizes.kl_weight * (torch.exp(away) - away - 1)
        return (cost * weight).sum() / weight.sum().clamp(min=1e-9)
