"""A mixture of experts in PyTorch: the step of models/moe.cpp with the same parameters under the same
names: the Llama of llama.py, whose MLPs are the experts that a router chooses. With a capacity all
experts' rows are products in one batch, without one they lie sorted by expert and products are
grouped, where PyTorch has these; else every expert computes all tokens, as in moe.cpp."""

import torch
import torch.nn.functional as F
from torch import nn

import llama
from decoders import Optimizers, facts  # noqa: F401
from llama import Norm, prepare, product  # noqa: F401


class Expert(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.w1 = product(sizes.model_dim, sizes.ffn_dim)
        self.w2 = product(sizes.ffn_dim, sizes.model_dim)
        self.w3 = product(sizes.model_dim, sizes.ffn_dim)


def grouped(x, weights, ends):
    """Rows of x [N, K] that end at ends[e] times weights[e] [K, M]."""
    return F.grouped_mm(x, weights, offs=ends)


class Mixture(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self.gate = product(sizes.model_dim, sizes.num_experts)
        self.experts = nn.ModuleList(Expert(sizes) for _ in range(sizes.num_experts))

    def matrices(self, name, dtype):
        """[E, inputs, outputs] of all experts."""
        weights = [getattr(expert, name).weight for expert in self.experts]
        return torch.stack([weight.to(dtype) for weight in weights]).transpose(1, 2)

    def forward(self, m):
        """What is added to the rows m [T, D], how often each expert is chosen, and its probability:
        means over the tokens."""
        count, best = self.sizes.num_experts, self.sizes.experts_per_token
        routed = torch.softmax(self.gate(m).float(), -1)
        shares, chosen = routed.topk(best, -1)
        shares = shares / shares.sum(-1, keepdim=True)
        load = F.one_hot(chosen, count).sum(1).float().mean(0)
        first, last, up = (self.matrices(name, m.dtype) for name in ("w1", "w2", "w3"))
        # The choices, first ones first.
        expert, weight = chosen.t().flatten(), shares.t().flatten()
        if self.sizes.capacity:
            mixed = self.routed(m, expert, weight, first, last, up)
        elif m.is_cuda and m.dtype == torch.bfloat16 and hasattr(F, "grouped_mm"):
            mixed = self.sorted(m, expert, weight, first, last, up)
        else:
            share = torch.zeros_like(routed).scatter(1, chosen, shares)
            rows = torch.bmm(F.silu(m @ first) * (m @ up), last)
            mixed = (rows * share.t()[:, :, None]).sum(0)
        return mixed.to(m.dtype), load, routed.mean(0)

    def routed(self, m, expert, weight, first, last, up):
        """Of experts with `capacity` rows each; choices behind them are dropped."""
        count, capacity, tokens = self.sizes.num_experts, self.sizes.capacity, len(m)
        ones = F.one_hot(expert, count)
        before = (ones.cumsum(0) * ones).sum(-1) - 1
        taken = before < capacity
        row = torch.where(taken, expert * capacity + before, count * capacity)
        token = torch.arange(len(row), device=m.device) % tokens
        # Rows that nobody has chosen are those of token 0, and nobody reads them.
        source = token.new_zeros(count * capacity + 1).scatter(0, row, token)[:-1]
        x = m[source].view(count, capacity, -1)
        rows = torch.bmm(F.silu(torch.bmm(x, first)) * torch.bmm(x, up), last).flatten(0, 1)
        found = rows[row.clamp(max=count * capacity - 1)] * (weight * taken)[:, None]
        return found.view(-1, tokens, m.size(-1)).sum(0)

    def sorted(self, m, expert, weight, first, last, up):
        """Of all choices, by products of groups of rows."""
        order = expert.argsort(stable=True)
        ends = F.one_hot(expert, self.sizes.num_experts).sum(0).cumsum(0).to(torch.int32)
        x = m[order % len(m)]
        inner = F.silu(grouped(x, first, ends)) * grouped(x, up, ends)
        rows = grouped(inner, last, ends) * weight[order][:, None]
        return rows[order.argsort()].view(-1, *m.shape).sum(0)


class Layer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.input_layernorm = Norm(sizes.model_dim, sizes.norm_eps)
        self.self_attn = llama.Attention(sizes)
        self.post_attention_layernorm = Norm(sizes.model_dim, sizes.norm_eps)
        self.block_sparse_moe = Mixture(sizes)

    def forward(self, x, *place):
        x = x + self.self_attn(self.input_layernorm(x), *place)
        rows = self.post_attention_layernorm(x).flatten(0, 1)
        mixed, load, probability = self.block_sparse_moe(rows)
        return x + mixed.view(x.shape), load, probability


class Model(llama.Model):
    """As llama.Model; the loss has that of the experts' loads in it."""

    LAYER = Layer

    def through_layers(self, x, *place):
        sizes, load, probability = self.sizes, 0, 0
        for layer in self.model.layers:
            x, of_layer, likely = layer(x, *place)
            load = load + of_layer / sizes.num_layers
            probability = probability + likely / sizes.num_layers
        balance = sizes.router_aux_loss_coef * sizes.num_experts * (load * probability).sum()
        return x, balance
