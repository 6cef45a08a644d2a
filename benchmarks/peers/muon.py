"""Muon in batches of equal matrices, for torch.compile."""

import torch


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
    """Muon for the matrices among the parameters."""

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
    def step(self, rate, momentum):
        """The update; the gradients are gone after it."""
        self.rate.fill_(rate)
        self.momentum.fill_(momentum)
        gradients = [[p.grad for p in group] for group in self.groups]
        self.update(self.groups, gradients, self.buffers, self.rate, self.momentum, self.compute)
        for group in self.groups:
            for parameter in group:
                parameter.grad = None
