"""nanochat in PyTorch: the step of models/nanochat.cpp with the same parameters under the same names,
written for torch.compile. Attention is scaled_dot_product_attention; Muon runs in batches of equal
matrices, beside PyTorch's fused Adam."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from decoders import COMPUTE, allow, facts  # noqa: F401
from llama import attend, frequencies, prepare, product, turned  # noqa: F401
from muon import Muon


def norm(x, sizes):
    return F.rms_norm(x.float(), (x.size(-1),), eps=sizes.norm_eps).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        shared = sizes.num_kv_heads * sizes.head_dim
        self.q_proj = product(sizes.model_dim, sizes.model_dim)
        self.k_proj = product(sizes.model_dim, shared)
        self.v_proj = product(sizes.model_dim, shared)
        self.o_proj = product(sizes.model_dim, sizes.model_dim)

    def forward(self, x, cosine, sine):
        def heads(y):
            return y.view(*x.shape[:2], -1, self.sizes.head_dim).transpose(1, 2)

        # They turn the other way than Llama's.
        q, k = (
            norm(turned(heads(matrix(x)), cosine, -sine), self.sizes)
            for matrix in (self.q_proj, self.k_proj)
        )
        y = attend(q, k, heads(self.v_proj(x)))
        return self.o_proj(y.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.fc1 = product(sizes.model_dim, sizes.ffn_dim)
        self.fc2 = product(sizes.ffn_dim, sizes.model_dim)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)).square())


class Layer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self.self_attn = Attention(sizes)
        self.mlp = Mlp(sizes)

    def forward(self, x, cosine, sine):
        x = x + self.self_attn(norm(x, self.sizes), cosine, sine)
        return x + self.mlp(norm(x, self.sizes))


class Trunk(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.embed_tokens = nn.Embedding(sizes.vocab_size, sizes.model_dim)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.num_layers))


class Model(nn.Module):
    """The loss of a sequence of rows of block_size tokens: the mean over its tokens, f32."""

    LOSS = "mean"

    def __init__(self, sizes, ways):
        super().__init__()
        self.sizes, self.compute = sizes, COMPUTE[sizes.dtype]
        self.autocast = sizes.dtype == "bf16"
        self.unread = -sizes.vocab_size % 64 if self.autocast else 0  # as in llama.py
        self.model = Trunk(sizes)
        self.lm_head = product(sizes.model_dim, sizes.vocab_size)
        positions = torch.arange(sizes.block_size, dtype=torch.float32)
        self.angles = torch.outer(positions, frequencies(sizes).to(positions.device))
        allow(ways.attention)

    @torch.no_grad()
    def draw(self):
        """Initial values from torch's generator: of nanorun's distributions, but other numbers."""
        for name, parameter in self.named_parameters():
            rows, columns = parameter.shape
            if "embed" in name:
                parameter.normal_(0, 1)
            elif name.startswith("lm_head") or name.endswith(("o_proj.weight", "fc2.weight")):
                parameter.zero_()
            else:
                parameter.normal_(0, math.sqrt(min(rows, columns)) / columns)

    def given(self, step):
        """What forward takes beside the tokens at a step: nothing."""
        return ()

    def forward(self, tokens, targets):
        """tokens, targets: int64 [T]."""
        kind, sizes = tokens.device.type, self.sizes
        cosine, sine = self.angles.cos(), self.angles.sin()
        with torch.autocast(kind, self.compute if self.autocast else None, self.autocast):
            x = self.model.embed_tokens(tokens.view(-1, sizes.block_size)).to(self.compute)
            x = norm(x, sizes)
            for layer in self.model.layers:
                x = layer(x, cosine, sine)
            weight = F.pad(self.lm_head.weight, (0, 0, 0, self.unread))
            logits = F.linear(norm(x, sizes).flatten(0, 1), weight)[:, : sizes.vocab_size]
            capped = sizes.softcap * torch.tanh(logits.float() / sizes.softcap)
            return F.cross_entropy(capped, targets)


class Optimizers:
    """After clipping by the norm of all gradients: Muon for the layers' matrices, Adam for embedding
    and head."""

    def __init__(self, model, ways, compiled):
        self.sizes = sizes = model.sizes
        self.named = dict(model.named_parameters())
        layers = [p for name, p in self.named.items() if ".layers." in name]
        self.muon = Muon(layers, COMPUTE[sizes.dtype], compiled)
        width = (sizes.model_dim / 768) ** -0.5
        self.rates = [sizes.embedding_lr * width, sizes.unembedding_lr * width]
        tables = (model.model.embed_tokens.weight, model.lm_head.weight)
        self.adam = torch.optim.Adam(
            [{"params": [table], "lr": rate} for table, rate in zip(tables, self.rates)],
            betas=(0.8, 0.95),
            eps=sizes.adam_eps,
            fused=True,
        )

    def step(self, step):
        """The update of a step, counted from 0; the gradients are gone after it."""
        sizes = self.sizes
        if sizes.grad_clip > 0:
            nn.utils.clip_grad_norm_(list(self.named.values()), sizes.grad_clip)
        left = sizes.num_iterations - step
        decay = min(1.0, max(left, 0) / (sizes.warmdown_ratio * sizes.num_iterations))
        for group, rate in zip(self.adam.param_groups, self.rates):
            group["lr"] = rate * decay
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        self.muon.step(sizes.matrix_lr * decay, 0.85 + 0.10 * min(step / 300, 1))

    def parameters(self):
        """{name: tensor} in f32."""
        return self.named
