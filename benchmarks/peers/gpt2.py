"""GPT-2 in PyTorch: the step of models/gpt2.cpp with the same parameters under the same names,
written for torch.compile. Attention is scaled_dot_product_attention, AdamW PyTorch's fused one."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from decoders import COMPUTE, Optimizers, allow, choose_attention, facts  # noqa: F401
from sizes import AUTOCAST

def heads(qkv, sizes):
    """(q, k, v) [rows, H, block, Dh] as they lie in qkv [rows, block, 3·D]."""
    shape = (*qkv.shape[:2], 3, sizes.num_heads, sizes.model_dim // sizes.num_heads)
    return (x.transpose(1, 2) for x in qkv.view(shape).unbind(2))


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self.c_attn = nn.Linear(sizes.model_dim, 3 * sizes.model_dim)
        self.c_proj = nn.Linear(sizes.model_dim, sizes.model_dim)

    def forward(self, x):
        q, k, v = heads(self.c_attn(x), self.sizes)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(x.shape))


class Mlp(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.c_fc = nn.Linear(sizes.model_dim, 4 * sizes.model_dim)
        self.c_proj = nn.Linear(4 * sizes.model_dim, sizes.model_dim)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.ln_1 = nn.LayerNorm(sizes.model_dim)
        self.attn = Attention(sizes)
        self.ln_2 = nn.LayerNorm(sizes.model_dim)
        self.mlp = Mlp(sizes)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Model(nn.Module):
    """The loss of a sequence of rows of block_size tokens: the mean over its tokens, f32."""

    LOSS = "mean"

    def __init__(self, sizes, ways):
        super().__init__()
        self.sizes, self.compute = sizes, COMPUTE[sizes.dtype]
        self.autocast = sizes.dtype == "bf16" and ways.weights == AUTOCAST
        # Products in bf16 are fast where rows begin at multiples of 16 bytes, so that the logits
        # get columns that nobody reads.
        self.unread = -sizes.vocab_size % 64 if sizes.dtype == "bf16" else 0
        self.wte = nn.Embedding(sizes.vocab_size, sizes.model_dim)
        self.wpe = nn.Embedding(sizes.block_size, sizes.model_dim)
        self.h = nn.ModuleList(Block(sizes) for _ in range(sizes.num_layers))
        self.ln_f = nn.LayerNorm(sizes.model_dim)
        allow(ways.attention)

    @torch.no_grad()
    def draw(self):
        """Initial values from torch's generator: of nanorun's distributions, but other numbers."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                small = name.endswith("c_proj.weight")
                depth = 2 * self.sizes.num_layers if small else 1
                parameter.normal_(0, 0.02 / math.sqrt(depth))
            else:
                parameter.fill_(1 if name.endswith(".weight") else 0)

    def given(self, step):
        """What forward takes beside the tokens at a step: nothing."""
        return ()

    def forward(self, tokens, targets):
        """tokens, targets: int64 [T]."""
        kind = tokens.device.type
        with torch.autocast(kind, self.compute if self.autocast else None, self.autocast):
            x = self.wte(tokens.view(-1, self.sizes.block_size)) + self.wpe.weight
            x = x.to(self.compute)
            for block in self.h:
                x = block(x)
            weight = F.pad(self.wte.weight, (0, 0, 0, self.unread))
            logits = F.linear(self.ln_f(x).flatten(0, 1), weight)[:, : self.sizes.vocab_size]
            return F.cross_entropy(logits.float(), targets)


def prepare(sizes, ways, device):
    """(ways that run here, notes about those that do not, what was measured for the choice)."""
    return choose_attention(ways, device, lambda: attention(sizes, device))


def attention(sizes, device):
    """A function that computes one layer's attention with its gradient over a sequence."""
    rows = sizes.seq_len // sizes.block_size
    options = {"device": device, "dtype": COMPUTE[sizes.dtype]}
    qkv = torch.randn(rows, sizes.block_size, 3 * sizes.model_dim, **options, requires_grad=True)
    slope = torch.randn(rows, sizes.block_size, sizes.model_dim, **options)

    def once():
        y = F.scaled_dot_product_attention(*heads(qkv, sizes), is_causal=True)
        torch.autograd.grad(y.transpose(1, 2).reshape(slope.shape), qkv, slope)

    return once
