"""DPO in PyTorch: the step of models/dpo.cpp with the same parameters under the same names: the Llama
of llama.py with the logistic loss of pairs of completions."""

import torch
import torch.nn.functional as F

import llama
from llama import Optimizers, facts, prepare  # noqa: F401


class Model(llama.Model):
    def objective(self, logits, targets, weight, reference, pair):
        """The mean over the sequence's pairs, by smoothed labels."""
        most, smoothing = len(targets) // 4 + 1, self.sizes.label_smoothing
        now = -F.cross_entropy(logits, targets, reduction="none")
        # Where nothing counts the reference may hold anything.
        gain = torch.where(weight != 0, (now - reference) * weight, 0)
        place, none = pair.long() % most, torch.zeros(most, device=logits.device)
        margin = self.sizes.dpo_beta * none.index_add(0, place, gain)
        is_pair = (none.index_add(0, place, weight.abs()) > 0).float()
        right, wrong = F.logsigmoid(margin), F.logsigmoid(-margin)
        cost = -(1 - smoothing) * right - smoothing * wrong
        return (cost * is_pair).sum() / is_pair.sum().clamp(min=1)
