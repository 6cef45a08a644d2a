"""Llama in PyTorch: the step of models/llama.cpp with the same parameters under the same names,
written for torch.compile. Attention is scaled_dot_product_attention with shared keys, or flex_attention
where documents are kept apart; AdamW is PyTorch's fused one."""

import math

import torch
import torch.nn.functional as F
from torch import nn

import masks
from decoders import COMPUTE, Optimizers, allow, choose_attention, facts  # noqa: F401
from sizes import AUTOCAST


def frequencies(sizes):
    """Radians a position of each pair of a head, f32 [Dh / 2]; rope_scaling as in transformers'
    modeling_rope_utils.py."""
    index = torch.arange(0, sizes.head_dim, 2, dtype=torch.float64)
    plain = sizes.rope_theta ** (-index / sizes.head_dim)
    if sizes.rope_scaling != "none":
        low = plain / sizes.rope_factor
    if sizes.rope_scaling == "llama3":
        turns = plain * sizes.rope_original_block / (2 * math.pi)
        least, most = sizes.rope_low_freq_factor, sizes.rope_high_freq_factor
        blend = ((turns - least) / (most - least)).clamp(0, 1)
        plain = (1 - blend) * low + blend * plain
    elif sizes.rope_scaling == "linear":
        plain = low
    return plain.float()


def attend(q, k, v, mask=None):
    """[rows, H, block, Dh] of q and k, v [rows, Hk, block, Dh]; `mask` is of all rows' tokens."""
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    y = mask.attend(*(x.transpose(1, 2).flatten(0, 1) for x in (q, k, v)))
    return y.view(q.size(0), -1, *y.shape[1:]).transpose(1, 2)


def turned(y, cosine, sine):
    """Heads turned by their positions' angles."""
    first, second = y.float().chunk(2, dim=-1)
    parts = (first * cosine - second * sine, second * cosine + first * sine)
    return torch.cat(parts, dim=-1).to(y.dtype)


class Norm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x.float(), (x.size(-1),), self.weight.float(), self.eps).to(x.dtype)


def product(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        width, shared = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
        self.q_proj = product(sizes.model_dim, width)
        self.k_proj = product(sizes.model_dim, shared)
        self.v_proj = product(sizes.model_dim, shared)
        self.o_proj = product(width, sizes.model_dim)

    def positioned(self, q, k, cosine, sine):
        """Queries and keys as attention takes them."""
        return turned(q, cosine, sine), turned(k, cosine, sine)

    def forward(self, x, cosine, sine, mask=None):
        def heads(y):
            return y.view(*x.shape[:2], -1, self.sizes.head_dim).transpose(1, 2)

        q, k = self.positioned(heads(self.q_proj(x)), heads(self.k_proj(x)), cosine, sine)
        y = attend(q, k, heads(self.v_proj(x)), mask)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.gate_proj = product(sizes.model_dim, sizes.ffn_dim)
        self.up_proj = product(sizes.model_dim, sizes.ffn_dim)
        self.down_proj = product(sizes.ffn_dim, sizes.model_dim)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    ATTENTION = Attention

    def __init__(self, sizes):
        super().__init__()
        self.input_layernorm = Norm(sizes.model_dim, sizes.norm_eps)
        self.self_attn = self.ATTENTION(sizes)
        self.post_attention_layernorm = Norm(sizes.model_dim, sizes.norm_eps)
        self.mlp = Mlp(sizes)

    def forward(self, x, *place):
        x = x + self.self_attn(self.input_layernorm(x), *place)
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    def __init__(self, sizes, layer):
        super().__init__()
        self.embed_tokens = nn.Embedding(sizes.vocab_size, sizes.model_dim)
        self.layers = nn.ModuleList(layer(sizes) for _ in range(sizes.num_layers))
        self.norm = Norm(sizes.model_dim, sizes.norm_eps)


class Model(nn.Module):
    """The loss of a sequence of rows of block_size tokens, f32: the mean over its tokens, or over those
    that a mask marks."""

    LOSS, LAYER = "mean", Layer

    def __init__(self, sizes, ways):
        super().__init__()
        self.sizes, self.compute = sizes, COMPUTE[sizes.dtype]
        self.autocast = sizes.dtype == "bf16" and ways.weights == AUTOCAST
        # Products in bf16 are fast where rows begin at multiples of 16 bytes, so that the logits
        # get columns that nobody reads.
        self.unread = -sizes.vocab_size % 64 if sizes.dtype == "bf16" else 0
        self.model = Trunk(sizes, self.LAYER)
        if sizes.tied == "no":
            self.lm_head = product(sizes.model_dim, sizes.vocab_size)
        positions = torch.arange(sizes.block_size, dtype=torch.float32)
        # Not parameters and not converted with them.
        self.angles = torch.outer(positions, frequencies(sizes).to(positions.device))
        self.mask = masks.ATTENTION[ways.attention] if sizes.document_mask == "yes" else None
        allow(ways.attention)

    @torch.no_grad()
    def draw(self):
        """Initial values from torch's generator: of nanorun's distributions, but other numbers."""
        for parameter in self.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, 0.02)

    def given(self, step):
        """What forward takes beside the tokens at a step: nothing."""
        return ()

    def through_layers(self, x, *place):
        """(x behind all layers, what is added to the loss)."""
        for layer in self.model.layers:
            x = layer(x, *place)
        return x, 0

    def visible(self, tokens):
        """What a query sees: its row's keys up to its own, or those of its document, by a mask."""
        if self.mask is None:
            return None
        position = torch.arange(len(tokens), device=tokens.device)
        row = position // self.sizes.block_size * self.sizes.block_size
        return self.mask(masks.document_starts(tokens, self.sizes.eos_token).maximum(row))

    def objective(self, logits, targets, mask=None):
        """What a sequence minimizes, of logits in f32."""
        if mask is None:
            return F.cross_entropy(logits, targets)
        losses = F.cross_entropy(logits, targets, reduction="none")
        return (losses * mask).sum() / mask.sum().clamp(min=1)

    def forward(self, tokens, targets, *columns):
        """tokens, targets: int64 [T]; columns as the sizes name them, [T] each."""
        kind, trunk = tokens.device.type, self.model
        place = (self.angles.cos(), self.angles.sin(), self.visible(tokens))
        with torch.autocast(kind, self.compute if self.autocast else None, self.autocast):
            x = trunk.embed_tokens(tokens.view(-1, self.sizes.block_size)).to(self.compute)
            x, more = self.through_layers(x, *place)
            head = trunk.embed_tokens if self.sizes.tied == "yes" else self.lm_head
            weight = F.pad(head.weight, (0, 0, 0, self.unread))
            logits = F.linear(trunk.norm(x).flatten(0, 1), weight)[:, : self.sizes.vocab_size]
            return self.objective(logits.float(), targets, *columns) + more


def prepare(sizes, ways, device):
    """(ways that run here, notes about those that do not, what was measured for the choice)."""
    return choose_attention(ways, device, lambda: attention(sizes, device))


def attention(sizes, device):
    """A function that computes one layer's attention with its gradient over a sequence."""
    rows = sizes.seq_len // sizes.block_size
    options = {"device": device, "dtype": COMPUTE[sizes.dtype]}
    q, k, v = (
        torch.randn(rows, heads, sizes.block_size, sizes.head_dim, **options, requires_grad=True)
        for heads in (sizes.num_heads, sizes.num_kv_heads, sizes.num_kv_heads)
    )
    slope = torch.randn_like(q)

    def once():
        torch.autograd.grad(attend(q, k, v), (q, k, v), slope)

    return once
