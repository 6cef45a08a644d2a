"""What the peers of decoders that AdamW trains share: kinds of attention, and the optimizer with its
learning rate."""

import dataclasses
import math
import time
import warnings

import torch
from torch import nn

from sizes import ATTENTION, AUTOCAST

COMPUTE = {"bf16": torch.bfloat16, "f32": torch.float32}
# What PyTorch may choose from under each name of sizes.ATTENTION.
BACKENDS = {
    "cudnn": torch.backends.cuda.enable_cudnn_sdp,
    "flash": torch.backends.cuda.enable_flash_sdp,
    "efficient": torch.backends.cuda.enable_mem_efficient_sdp,
    "math": torch.backends.cuda.enable_math_sdp,
}


def allow(attention):
    """Leaves scaled_dot_product_attention the choice of one kind, or of all of them for another name,
    in this process, on every device."""
    for name, enable in BACKENDS.items():
        enable(attention == name or attention not in BACKENDS)


class Optimizers:
    """AdamW on those parameters, f32, that are not frozen, after clipping by the norm of all gradients.
    Where the model's weights are to be bf16, they become so here, and the f32 masters stay here."""

    def __init__(self, model, ways, compiled):
        self.sizes = model.sizes
        self.named = dict(model.named_parameters())
        named = {name: weight for name, weight in self.named.items() if weight.requires_grad}
        self.masters = named
        if ways.weights != AUTOCAST:
            self.masters = {
                name: nn.Parameter(parameter.detach().clone()) for name, parameter in named.items()
            }
            model.to(model.compute)
        self.weights = list(named.values())
        self.adam = torch.optim.AdamW(
            [
                {
                    "params": [p for p in self.masters.values() if (p.dim() == 2) == is_matrix],
                    "weight_decay": model.sizes.weight_decay if is_matrix else 0.0,
                }
                for is_matrix in (True, False)
            ],
            betas=(model.sizes.beta1, model.sizes.beta2),
            eps=model.sizes.adam_eps,
            fused=True,
        )

    def step(self, step):
        """The update of a step, counted from 0; the gradients are gone after it."""
        masters = list(self.masters.values())
        are_copies = masters[0] is not self.weights[0]
        if are_copies:
            for master, weight in zip(masters, self.weights):
                master.grad, weight.grad = weight.grad.float(), None
        if self.sizes.grad_clip > 0:
            nn.utils.clip_grad_norm_(masters, self.sizes.grad_clip)
        for group in self.adam.param_groups:
            group["lr"] = learning_rate(step, self.sizes)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        if are_copies:
            with torch.no_grad():
                torch._foreach_copy_(self.weights, masters)

    def parameters(self):
        """{name: tensor}, in f32 what is not frozen."""
        return {**self.named, **self.masters}


def beside_kept(adam, eps, count):
    """Has an Adam's update of this number, counted from 1, take ε beside the root of the second moment
    as it is kept, where PyTorch has it beside that of the corrected one."""
    for group in adam.param_groups:
        group["eps"] = eps / math.sqrt(1 - group["betas"][1] ** count)


def learning_rate(step, sizes):
    """Linear warm-up, then half a cosine down to final_lr_frac of it."""
    most, warmup = sizes.learning_rate, sizes.warmup_iters
    if step < warmup:
        return most * (step + 1) / warmup
    least = most * sizes.final_lr_frac
    progress = (step - warmup) / max(sizes.num_iterations - warmup, 1)
    return least + 0.5 * (1 + math.cos(math.pi * progress)) * (most - least)


def choose_attention(ways, device, make):
    """What a model's `prepare` returns: for "fastest" the kind of attention with which the function
    that make() returns takes least time."""
    if ways.attention != "fastest":
        return ways, [], {}
    once = make()
    times = {kind: milliseconds(kind, device, once) for kind in ATTENTION[1:]}
    fastest = min(times, key=lambda kind: times[kind] or math.inf)
    return dataclasses.replace(ways, attention=fastest), [], {"attention_ms": times}


def milliseconds(kind, device, once, count=5):
    """Of once(), the shortest of a few times; None where the kind does not run."""
    allow(kind)
    times = []
    for _ in range(2 + count):
        begun = time.perf_counter()
        try:
            with warnings.catch_warnings(action="ignore"):  # PyTorch's about kinds that do not run
                once()
        except RuntimeError:
            return None
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - begun))
    return round(min(times[2:]), 3)


def facts(sizes, steps):
    """What the report says of the first steps of a run."""
    return {}
