"""The optimizers of gpt124m's step: Muon in batches of equal matrices, PyTorch's fused Adam, and
the schedules of both and of the window."""

import math

import torch

from model import COMPUTE


def window_blocks(step, iterations):
    """The window of long layers at a step, in blocks of 128 positions."""
    return math.ceil(max(1728 * step / iterations, 1) / 128)


def decay(step, iterations):
    """What the initial learning rates are multiplied with."""
    return min(1.0, 0.1 + 0.9 * max(1 - step / iterations, 0) / 0.4)


def momentum(step):
    return 0.85 + 0.10 * min(step / 300, 1)


def newton_schulz(x):
    """Nearly orthogonal matrices from x [n, rows, columns], rows ≤ columns: five steps of a
    polynomial of degree five in x's type."""
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315)
        x = torch.baddbmm(x, polynomial, x, beta=3.4445)
    return x


def lying(x):
    """x [n, rows, columns], transposed if it is higher than wide."""
    return x.mT if x.size(-2) > x.size(-1) else x


def muon_update(groups, gradients, buffers, rate, momentum, compute):
    """One step for every group of matrices; those of a group have one shape, some transposed.
    rate and momentum are tensors: their values change and nothing is compiled again. Matrices are
    made orthogonal in the type `compute`."""
    for weights, slopes, buffer in zip(groups, gradients, buffers):
        stacks = [g.reshape(-1, *g.shape[-2:]) for g in slopes]
        gradient = torch.cat([lying(g) for g in stacks])
        buffer.lerp_(gradient, 1 - momentum)
        updates = newton_schulz(torch.lerp(gradient, buffer, momentum).to(compute))
        for weight, update in zip(weights, updates.split([len(g) for g in stacks])):
            rows, columns = weight.shape[-2:]
            update = update.mT if rows > columns else update
            weight.sub_(
                update.reshape(weight.shape).float() * (rate * max(1, rows / columns) ** 0.5)
            )


class Muon:
    """Muon for the matrices among the parameters, 0.05 at first."""

    def __init__(self, parameters, compute, compiled):
        by_shape = {}
        for parameter in parameters:
            by_shape.setdefault(tuple(sorted(parameter.shape[-2:])), []).append(parameter)
        self.groups = list(by_shape.values())
        self.buffers = [
            torch.cat([lying(torch.zeros_like(p).reshape(-1, *p.shape[-2:])) for p in group])
            for group in self.groups
        ]
        device = self.groups[0][0].device
        self.rate, self.momentum = (torch.zeros((), device=device) for _ in range(2))
        self.compute, self.update = compute, compiled(muon_update)

    @torch.no_grad()
    def step(self, scale, momentum):
        self.rate.fill_(0.05 * scale)
        self.momentum.fill_(momentum)
        gradients = [[p.grad for p in group] for group in self.groups]
        self.update(self.groups, gradients, self.buffers, self.rate, self.momentum, self.compute)


class Optimizers:
    """All parameters of the model: `step` takes what their gradients say."""

    def __init__(self, model, compiled):
        self.iterations, named = model.sizes.num_iterations, list(model.named_parameters())
        matrices = [p for name, p in named if name.startswith("blocks.") and p.dim() >= 2]
        self.muon = Muon(matrices, COMPUTE[model.sizes.dtype], compiled)
        self.rates = [0.6, 0.22, 0.04]
        groups = [
            [p for name, p in named if "embed" in name],
            [p for name, p in named if name.startswith("lm_head.")],
            [p for name, p in named if name == "skip_weights" or name.endswith("lambdas")],
        ]
        self.adam = torch.optim.Adam(
            [{"params": group, "lr": rate} for group, rate in zip(groups, self.rates)],
            betas=(0.8, 0.95),
            eps=1e-10,
            fused=True,
        )

    def step(self, step):
        """The update of a step, counted from 0; the gradients are gone after it."""
        scale = decay(step, self.iterations)
        for group, rate in zip(self.adam.param_groups, self.rates):
            group["lr"] = rate * scale
        self.adam.step()
        self.muon.step(scale, momentum(step))
        self.adam.zero_grad(set_to_none=True)
        for group in self.muon.groups:
            for parameter in group:
                parameter.grad = None
