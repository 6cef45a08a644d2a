"""NorMuon in batches of equal matrices, for torch.compile: Muon whose columns are divided by the root of
their own second moment, with cautious weight decay."""

import torch

from muon import lying

# The coefficients of each step of "The Polar Express" (Amsel et al. 2025).
POLYNOMIALS = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)


def polar(x):
    """Nearly orthogonal matrices from x [n, rows, columns], rows ≤ columns, of norms of at most 1."""
    for a, b, c in POLYNOMIALS:
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x


def length(x):
    return x.norm(dim=(-2, -1), keepdim=True)


def normuon_update(groups, gradients, moments, seconds, factor, momentum, how):
    """One step for every group of equal matrices: weights [n, rows, columns] each with what its rate
    and its decay are multiplied with. factor and momentum are tensors: their values change and
    nothing is compiled again. `how`: (rate, decay, type of products)."""
    rate, decay, compute = how
    for weights, slopes, kept, second in zip(groups, gradients, moments, seconds):
        gradient = torch.cat(slopes).float()
        moment = kept.float().lerp(gradient, 1 - momentum)
        kept.copy_(moment)
        ahead = gradient.lerp(moment, momentum)
        scaled = (ahead / (1.02 * length(ahead) + 1e-6)).to(compute)
        x = polar(lying(scaled))
        x = (x if x.shape == scaled.shape else x.mT).float()
        square = second.float().lerp(x.square().mean(-2, keepdim=True), 0.05)
        second.copy_(square)
        even = x * square.clamp(min=1e-10).rsqrt()
        even = even * (length(x) / length(even).clamp(min=1e-10))
        parts = even.split([len(weight) for weight, _ in weights])
        for (weight, multiple), part in zip(weights, parts):
            step, old = rate * multiple * factor, weight.float()
            shrinks = torch.where(part * old >= 0, decay / multiple * step * old, 0)
            weight.copy_(old - step * (part + shrinks))


class NorMuon:
    """NorMuon for parameters (parameter, matrices in it one behind the other, multiple of the rate).
    States have the parameter's type."""

    def __init__(self, parameters, rate, decay, compute, compiled):
        by_shape = {}
        for parameter, count, multiple in parameters:
            shape = (count, parameter.size(0), parameter.size(1) // count)
            key = (*shape[1:], parameter.dtype)
            by_shape.setdefault(key, []).append((parameter, shape, multiple))
        self.groups = list(by_shape.values())
        self.weights = [[(p.detach().view(s), m) for p, s, m in group] for group in self.groups]
        whole = [torch.cat([weight for weight, _ in group]) for group in self.weights]
        self.moments = [torch.zeros_like(weight) for weight in whole]
        self.seconds = [torch.zeros_like(weight[:, :1]) for weight in whole]
        self.factor, self.momentum = (whole[0].new_zeros((), dtype=torch.float32) for _ in range(2))
        self.how, self.update = (rate, decay, compute), compiled(normuon_update)

    @torch.no_grad()
    def step(self, factor, momentum):
        """The update; the gradients are gone after it."""
        self.factor.fill_(factor)
        self.momentum.fill_(momentum)
        slopes = [[p.grad.view(shape) for p, shape, _ in group] for group in self.groups]
        states = (self.moments, self.seconds, self.factor, self.momentum)
        self.update(self.weights, slopes, *states, self.how)
        for group in self.groups:
            for parameter, *_ in group:
                parameter.grad = None
