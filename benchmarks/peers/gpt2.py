"""GPT-2 in PyTorch: the step of models/gpt2.cpp with the same parameters under the same names,
written for torch.compile. Attention is scaled_dot_product_attention, AdamW PyTorch's fused one."""

import dataclasses
import math
import time
import warnings

import torch
import torch.nn.functional as F
from torch import nn

from sizes import AUTOCAST, Gpt2

COMPUTE = {"bf16": torch.bfloat16, "f32": torch.float32}
# What PyTorch may choose from under each name of sizes.Gpt2.ATTENTION.
BACKENDS = {
    "cudnn": torch.backends.cuda.enable_cudnn_sdp,
    "flash": torch.backends.cuda.enable_flash_sdp,
    "efficient": torch.backends.cuda.enable_mem_efficient_sdp,
    "math": torch.backends.cuda.enable_math_sdp,
}


def allow(attention):
    """Leaves scaled_dot_product_attention the choice of one kind, or of all of them for "any", in
    this process, on every device."""
    for name, enable in BACKENDS.items():
        enable(attention in (name, "any"))


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


class Optimizers:
    """AdamW on f32 parameters, after clipping by the norm of all gradients. Where the model's
    weights are to be bf16, they become so here, and the f32 masters stay here."""

    def __init__(self, model, ways, compiled):
        self.sizes = model.sizes
        named = dict(model.named_parameters())
        self.masters = named
        if ways.weights != AUTOCAST:
            self.masters = {
                name: nn.Parameter(parameter.detach().clone()) for name, parameter in named.items()
            }
            model.to(model.compute)
        self.weights = list(model.parameters())
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
        """{name: tensor} in f32."""
        return self.masters


def learning_rate(step, sizes):
    """Linear warm-up, then half a cosine down to final_lr_frac of it."""
    most, warmup = sizes.learning_rate, sizes.warmup_iters
    if step < warmup:
        return most * (step + 1) / warmup
    least = most * sizes.final_lr_frac
    progress = (step - warmup) / max(sizes.num_iterations - warmup, 1)
    return least + 0.5 * (1 + math.cos(math.pi * progress)) * (most - least)


def prepare(sizes, ways, device):
    """(ways that run here, notes about those that do not, what was measured for the choice)."""
    if ways.attention != "fastest":
        return ways, [], {}
    times = {kind: attention_milliseconds(sizes, kind, device) for kind in Gpt2.ATTENTION[1:]}
    fastest = min(times, key=lambda kind: times[kind] or math.inf)
    return dataclasses.replace(ways, attention=fastest), [], {"attention_ms": times}


def attention_milliseconds(sizes, kind, device, count=5):
    """Of one layer's attention with its gradient over a sequence, the shortest of a few times; None
    where the kind does not run."""
    allow(kind)
    rows = sizes.seq_len // sizes.block_size
    options = {"device": device, "dtype": COMPUTE[sizes.dtype]}
    qkv = torch.randn(rows, sizes.block_size, 3 * sizes.model_dim, **options, requires_grad=True)
    slope = torch.randn(rows, sizes.block_size, sizes.model_dim, **options)
    times = []
    for _ in range(2 + count):
        begun = time.perf_counter()
        try:
            with warnings.catch_warnings(action="ignore"):  # PyTorch's about kinds that do not run
                y = F.scaled_dot_product_attention(*heads(qkv, sizes), is_causal=True)
                torch.autograd.grad(y.transpose(1, 2).reshape(slope.shape), qkv, slope)
        except RuntimeError:
            return None
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - begun))
    return round(min(times[2:]), 3)


def facts(sizes, steps):
    """What the report says of the first steps of a run."""
    return {}
