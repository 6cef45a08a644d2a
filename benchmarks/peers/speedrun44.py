"""The speedrun's record 44 in PyTorch: the step of models/speedrun44.cpp with the same parameters under
the same names, written for torch.compile. What differs between stages is given to the compiled loss
as tensors. NorMuon runs in batches of equal matrices, beside PyTorch's fused Adam."""

import math

import torch
import torch.nn.functional as F
from torch import nn

import masks
from decoders import COMPUTE, allow, beside_kept
from gpt124m import Head, norm, prepare  # noqa: F401
from llama import turned
from normuon import NorMuon

LAYERS, GATE_INPUTS = 12, 12
# By stage, in units of sizes.window_block.
LONG, SHORT = (3, 7, 11, 13), (1, 3, 5, 6)
SMEAR, BACKOUT = 5 * LAYERS, 5 * LAYERS + 1  # places in `scalars`


def positions(sizes):
    """For each stage frequencies, f64 [Dh / 2], and the scale of scores: YaRN from one window to the
    next."""
    turning = torch.arange(sizes.head_dim // 4, dtype=torch.float64) / (sizes.head_dim // 4 - 1)
    still = torch.zeros(sizes.head_dim // 2 - sizes.head_dim // 4, dtype=torch.float64)
    found = [(torch.cat([1024**-turning, still]), 0.1)]
    for before, now in zip(LONG, LONG[1:]):
        frequency, scale = found[-1]
        turns = before * sizes.window_block * frequency / (2 * math.pi)
        share, shorter = ((turns - 1) / 31).clamp(0, 1), before / now
        frequency = frequency * (shorter + share * (1 - shorter))
        found.append((frequency, scale * (1 + 0.2 * math.log(now / before))))
    return found


class Gate(nn.Module):
    """A number in (0, 1) for each row of weight, of the first numbers of x."""

    def __init__(self, rows, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, GATE_INPUTS, dtype=dtype))

    def forward(self, x):
        return torch.sigmoid(F.linear(x[..., :GATE_INPUTS], self.weight))


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self.qkvo_w = nn.Parameter(torch.zeros(sizes.model_dim, 4 * sizes.model_dim))
        self.attn_gate = Gate(sizes.num_heads, COMPUTE[sizes.dtype])

    def forward(self, h, mix, value_embedding, place):
        cosine, sine, scale, visible = place
        width, heads = self.sizes.model_dim, self.sizes.num_heads
        matrices = self.qkvo_w.view(4, width, width).type_as(h)
        qkv = F.linear(h, matrices[:3].flatten(0, 1))
        q, k, v = qkv.view(len(h), 3, heads, -1).unbind(1)
        v = mix[0] * v
        if value_embedding is not None:
            v = v + mix[1] * value_embedding.view_as(v)
        q, k = (turned(norm(x), cosine, sine) for x in (q, k))
        y = visible.attend(q * scale, k, v.type_as(h), 1.0)
        return F.linear((y * self.attn_gate(h)[:, :, None]).flatten(1), matrices[3])


class Mlp(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        shape = (sizes.model_dim, 4 * sizes.model_dim)
        self.c_fc, self.c_proj = (nn.Parameter(torch.zeros(shape)) for _ in range(2))

    def forward(self, h):
        return F.linear(F.relu(h @ self.c_fc.type_as(h)).square(), self.c_proj.type_as(h))


class Block(nn.Module):
    def __init__(self, sizes, layer):
        super().__init__()
        if layer > 0:
            self.attn = Attention(sizes) if layer != 7 else None
            self.mlp = Mlp(sizes)

    def forward(self, x, x0, mix, value_mix, value_embedding, place):
        x = (mix[0] * x + mix[1] * x0).type_as(x)
        if self.attn is not None:
            x = x + self.attn(norm(x), value_mix, value_embedding, place)
        return x + self.mlp(norm(x))


class Model(nn.Module):
    """The loss of one sequence of whole and cut documents: the sum over its tokens, f32."""

    LOSS = "sum"

    def __init__(self, sizes, ways):
        super().__init__()
        self.sizes, self.mask = sizes, masks.ATTENTION[ways.attention]
        dtype = COMPUTE[sizes.dtype]
        table = lambda: nn.Embedding(sizes.padded, sizes.model_dim, dtype=dtype)
        self.embed = table()
        self.value_embeds = nn.ModuleList(table() for _ in range(3))
        self.smear_gate = Gate(1, dtype)
        self.blocks = nn.ModuleList(Block(sizes, i) for i in range(LAYERS))
        self.lm_head = Head(sizes, ways, 1 / 512, dtype)
        self.scalars = nn.Parameter(torch.ones(SMEAR + 2 + (-SMEAR - 2) % 8))
        place = torch.arange(sizes.seq_len, dtype=torch.float32)
        stages = positions(sizes)
        angles = [torch.outer(place, f.float().to(place.device)) for f, _ in stages]
        # They turn the other way than Llama's.
        tables = {"cosine": [a.cos() for a in angles], "sine": [-a.sin() for a in angles]}
        for name, values in tables.items():
            stacked = torch.stack(values)[:, :, None].to(dtype)
            self.register_buffer(name, stacked, persistent=False)
        self.register_buffer("scales", torch.tensor([s for _, s in stages]), persistent=False)
        windows = torch.tensor([LONG, SHORT]).T * sizes.window_block
        self.register_buffer("windows", windows, persistent=False)
        allow(ways.attention)

    @torch.no_grad()
    def draw(self):
        """Initial values from torch's generator: of nanorun's distributions, but other numbers."""
        width = self.sizes.model_dim
        bound = math.sqrt(3) * 0.5 / math.sqrt(width)
        for block in self.blocks[1:]:
            block.mlp.c_fc.uniform_(-bound, bound)
            if block.attn is not None:
                block.attn.qkvo_w.view(4, width, width)[:3].uniform_(-bound, bound)
        for table in (self.embed, *self.value_embeds):
            table.weight.normal_()
        self.scalars[:LAYERS] = -1.5
        self.scalars[LAYERS : 3 * LAYERS] = torch.tensor([1.0, 0.0] * LAYERS)
        self.scalars[3 * LAYERS : SMEAR] = 0.5
        self.scalars[SMEAR : BACKOUT + 1] = torch.tensor([0.0, 0.5])

    def given(self, step):
        """What forward takes beside the tokens at a step: what its stage turns and scales queries and
        keys by, and windows of long and short layers."""
        stage = self.sizes.stage(step)
        return (self.cosine[stage], self.sine[stage], self.scales[stage], self.windows[stage])

    def forward(self, tokens, targets, cosine, sine, scale, windows):
        """tokens, targets: int64 [T]."""
        position = torch.arange(len(tokens), device=tokens.device)
        start = masks.document_starts(tokens, self.sizes.eos_token)
        of_long, of_short = (self.mask(start.maximum(position - window)) for window in windows)
        skips = torch.sigmoid(self.scalars[:LAYERS])
        pairs = self.scalars[LAYERS:SMEAR].view(2, LAYERS, 2)
        values = [table(tokens) for table in self.value_embeds]
        values = values + [None] * (LAYERS - 6) + values
        e = self.embed(tokens)
        before = F.pad(e[:-1], (0, 0, 1, 0))
        x = x0 = norm((e + self.scalars[SMEAR] * self.smear_gate(e) * before).type_as(e))
        outputs = [None]
        for i in range(1, LAYERS):
            if 6 <= i <= 10:
                x = (x + skips[i - 6] * outputs[11 - i]).type_as(x)
            place = (cosine, sine, scale, of_long if i in (4, 11) else of_short)
            x = self.blocks[i](x, x0, pairs[0, i], pairs[1, i], values[i], place)
            outputs.append(x)
        z = self.lm_head(norm((x - self.scalars[BACKOUT] * outputs[8]).type_as(x)))
        return F.cross_entropy(30 * torch.sigmoid(z.float() / 7.5), targets, reduction="sum")


class Optimizers:
    """NorMuon on every step for matrices and gates, Adam on every second one for the rest, with the
    sum of both steps' gradients."""

    MULTIPLES = (75, 1, 5)  # of Adam's rate for tables, head and numbers

    def __init__(self, model, ways, compiled):
        self.model, self.sizes = model, model.sizes
        tables = [p for name, p in model.named_parameters() if "embed" in name]
        matrices = [(model.smear_gate.weight, 1, 1)]
        for block in model.blocks[1:]:
            matrices += [(block.mlp.c_fc, 1, 2), (block.mlp.c_proj, 1, 1)]
            if block.attn is not None:
                matrices += [(block.attn.qkvo_w, 4, 1), (block.attn.attn_gate.weight, 1, 1)]
        self.normuon = NorMuon(matrices, 0.03, 1.2, COMPUTE[self.sizes.dtype], compiled)
        groups = [tables, [model.lm_head.weight], [model.scalars]]
        self.adam = torch.optim.Adam(
            [{"params": group} for group in groups], betas=(0.65, 0.95), fused=True
        )

    def step(self, step):
        """The update of a step, counted from 0; what it used of the gradients is gone after it."""
        sizes = self.sizes
        progress = min(0.9999, step / sizes.scheduled)
        factor = 1.0 if progress < 0.5 else 0.1 + 1.8 * (1 - progress)
        cooling = step - (sizes.num_iterations - sizes.momentum_cooldown)
        momentum = 0.85 + 0.10 * min(step / sizes.momentum_warmup, 1)
        momentum -= 0.10 * max(cooling / sizes.momentum_cooldown, 0)
        self.normuon.step(factor, momentum)
        if step % 2 == 0:
            return
        for group, multiple in zip(self.adam.param_groups, self.MULTIPLES):
            group["lr"] = 0.008 * multiple * factor
        beside_kept(self.adam, sizes.adam_eps, (step + 1) // 2)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)

    def parameters(self):
        """{name: tensor} as they are stored."""
        return self.model.state_dict()


def facts(sizes, steps):
    """What the report says of the first steps of a run."""
    return {"stages": [sizes.stage(step) for step in range(steps)]}
