"""gpt124m in PyTorch: the step of models/gpt124m.cpp with the same parameters under the same names,
written for torch.compile. Attention is flex_attention over a block mask, or blocks; Muon runs in
batches of equal matrices, beside PyTorch's fused Adam."""

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn

from masks import FlexAttention, document_starts
from muon import Muon
from sizes import BLOCK, Gpt124m, Ways, first_line

SCALE = 0.12  # of attention scores
COMPUTE = {"bf16": torch.bfloat16, "f32": torch.float32}


def norm(x):
    """With the ε that current versions take by default, for bf16 too; older ones took its own."""
    return F.rms_norm(x, (x.size(-1),), eps=torch.finfo(torch.float32).eps)


def flex(start, window):
    """flex_attention over a document's keys within a window, a tensor of one int."""
    block = torch.arange(len(start), device=start.device) // BLOCK
    return FlexAttention(start.maximum((block - window + 1) * BLOCK))


class BlockAttention:
    """The same attention in plain operations: every block of queries against the blocks of its
    window. `window` is a Python int: a change of it compiles again."""

    def __init__(self, start, window):
        self.start, self.window = start.view(-1, 1, BLOCK, 1), window

    def attend(self, q, k, v, scale):
        """q, k, v: [T, H, Dh]; returns the same."""
        length, blocks = len(q), len(q) // BLOCK
        window = min(self.window, blocks)
        index = torch.arange(blocks, device=q.device)
        first = (index - window + 1) * BLOCK  # negative: before the sequence, hidden below
        key = first[:, None] + torch.arange(window * BLOCK, device=q.device)
        query = index[:, None] * BLOCK + torch.arange(BLOCK, device=q.device)
        key_of, query_of = key[:, None, None, :], query[:, None, :, None]
        visible = (key_of >= self.start) & (key_of <= query_of)
        gathered = key.clamp(min=0)
        q = q.view(blocks, BLOCK, *q.shape[1:]).transpose(1, 2)
        k, v = (x[gathered].transpose(1, 2) for x in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible, scale=scale)
        return y.transpose(1, 2).reshape(length, *y.shape[1:2], y.shape[-1])


ATTENTION = {"flex": flex, "blocks": BlockAttention}


class Rotary(nn.Module):
    """Half-truncated rotary embedding of x [T, H, Dh]: a quarter of the frequencies' places turn,
    the others stand still."""

    def __init__(self, head_dim, length):
        super().__init__()
        turning = torch.arange(head_dim // 4, dtype=torch.float32) / (head_dim // 4 - 1)
        frequency = torch.cat([(1 / 1024) ** turning, torch.zeros(head_dim // 2 - head_dim // 4)])
        theta = torch.arange(length, dtype=torch.float32)[:, None] * frequency
        self.register_buffer("cosine", theta.cos()[:, None], persistent=False)
        self.register_buffer("sine", theta.sin()[:, None], persistent=False)

    def forward(self, x):
        x1, x2 = x.float().chunk(2, dim=-1)
        y1 = x1 * self.cosine + x2 * self.sine
        y2 = x2 * self.cosine - x1 * self.sine
        return torch.cat([y1, y2], dim=-1).type_as(x)


class Linear(nn.Module):
    """y = x·Wᵀ with W [rows, columns] stored in f32 and cast to x's type."""

    def __init__(self, rows, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, columns))

    def forward(self, x):
        return F.linear(x, self.weight.type_as(x))


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.shape = (sizes.seq_len, 3, sizes.num_heads, sizes.head_dim)
        width = sizes.num_heads * sizes.head_dim
        self.qkv_w = nn.Parameter(torch.zeros(3, width, sizes.model_dim))
        self.c_proj = Linear(sizes.model_dim, width)

    def forward(self, h, mix, value_embedding, rotary, visible):
        q, k, v = F.linear(h, self.qkv_w.flatten(0, 1).type_as(h)).view(self.shape).unbind(1)
        v = mix[0] * v
        if value_embedding is not None:
            v = v + mix[1] * value_embedding.view_as(v)
        y = visible.attend(rotary(norm(q)), rotary(norm(k)), v, SCALE)
        return self.c_proj(y.flatten(1))


class Mlp(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.c_fc = Linear(4 * sizes.model_dim, sizes.model_dim)
        self.c_proj = Linear(sizes.model_dim, 4 * sizes.model_dim)

    def forward(self, h):
        return self.c_proj(F.relu(self.c_fc(h)).square())


class Block(nn.Module):
    def __init__(self, sizes, layer):
        super().__init__()
        self.attn = Attention(sizes) if layer != 7 else None
        self.mlp = Mlp(sizes)

    def forward(self, x, x0, mix, value_mix, value_embedding, rotary, visible):
        x = mix[0] * x + mix[1] * x0
        if self.attn is not None:
            x = x + self.attn(norm(x), value_mix, value_embedding, rotary, visible)
        return x + self.mlp(norm(x))


def to_float8(x, scale, kind):
    """x / scale in an 8-bit type, values that do not fit at the largest one."""
    limit = torch.finfo(kind).max
    return (x.float() / scale).clamp(-limit, limit).to(kind)


class Float8Product(torch.autograd.Function):
    """x·Wᵀ in FP8 with static scales, [T, D]·[V, D]ᵀ: e4m3 forward, the gradient in e5m2. The
    second operand of torch._scaled_mm must lie column by column: hence the transpositions."""

    @staticmethod
    def forward(ctx, x, weight, scale_x, scale_w, scale_g, fast):
        x8 = to_float8(x, scale_x, torch.float8_e4m3fn)
        w8 = to_float8(weight, scale_w, torch.float8_e4m3fn)
        ctx.save_for_backward(x8, w8, scale_x, scale_w, scale_g)
        ctx.kind, ctx.weight_kind = x.dtype, weight.dtype
        return torch._scaled_mm(
            x8, w8.t(), scale_x, scale_w, out_dtype=torch.bfloat16, use_fast_accum=fast
        )

    @staticmethod
    def backward(ctx, gradient):
        x8, w8, scale_x, scale_w, scale_g = ctx.saved_tensors
        g8 = to_float8(gradient, scale_g, torch.float8_e5m2)
        for_x = torch._scaled_mm(
            *(g8, w8.t().contiguous().t(), scale_g, scale_w),
            out_dtype=torch.bfloat16,
            use_fast_accum=False,
        )
        for_w = torch._scaled_mm(
            *(g8.t().contiguous(), x8.t().contiguous().t(), scale_g, scale_x),
            out_dtype=torch.float32,
            use_fast_accum=False,
        )
        return for_x.to(ctx.kind), for_w.to(ctx.weight_kind), None, None, None, None


class Head(nn.Module):
    """The products of the logits, [T, D] to [T, padded vocabulary], in FP8 with a scale of weights."""

    def __init__(self, sizes, ways, weight_scale, dtype=torch.float32):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(sizes.padded, sizes.model_dim, dtype=dtype))
        self.fp8, self.fast = ways.fp8 == "head", ways.fast_accum
        scales = [math.sqrt(sizes.model_dim) / 448, weight_scale, 1 / 448]
        for name, value in zip(("scale_x", "scale_w", "scale_g"), scales):
            self.register_buffer(name, torch.tensor(value), persistent=False)

    def forward(self, x):
        if not self.fp8:
            return F.linear(x, self.weight.type_as(x))
        scales = (self.scale_x, self.scale_w, self.scale_g)
        return Float8Product.apply(x, self.weight, *scales, self.fast)


class Model(nn.Module):
    """The loss of one packed sequence: the sum over its tokens, f32."""

    LOSS = "sum"

    def __init__(self, sizes, ways):
        super().__init__()
        self.sizes, self.attention = sizes, ATTENTION[ways.attention]
        width = sizes.num_heads * sizes.head_dim
        rows = sizes.padded if sizes.pad_tables == "yes" else sizes.vocab_size
        table = lambda columns: nn.Embedding(rows, columns, dtype=COMPUTE[sizes.dtype])
        self.embed = table(sizes.model_dim)
        self.value_embeds = nn.ModuleList(table(width) for _ in range(3))
        self.blocks = nn.ModuleList(Block(sizes, i) for i in range(sizes.num_layers))
        self.lm_head = Head(sizes, ways, 24 / 448)
        self.add_numbers()
        self.rotary = Rotary(sizes.head_dim, sizes.seq_len)
        self.register_buffer("windows", torch.zeros(2, dtype=torch.int64), persistent=False)

    def add_numbers(self):
        """The parameters that weigh streams."""
        for block in self.blocks:
            block.lambdas = nn.Parameter(torch.tensor([1.0, 0.0]))
            if block.attn is not None:
                block.attn.lambdas = nn.Parameter(torch.full((2,), 0.5))
        self.skip_weights = nn.Parameter(torch.ones(self.sizes.num_layers // 2))

    def numbers(self):
        """(of skips; of each layer's x and x0; of its values and the value embedding)."""
        mixes = [block.lambdas for block in self.blocks]
        value_mixes = [block.attn and block.attn.lambdas for block in self.blocks]
        return self.skip_weights, mixes, value_mixes

    @torch.no_grad()
    def draw(self):
        """Initial values from torch's generator: of nanorun's distributions, but other numbers."""
        bound = math.sqrt(3) * 0.5 / math.sqrt(self.sizes.model_dim)
        for block in self.blocks:
            block.mlp.c_fc.weight.uniform_(-bound, bound)
            if block.attn is not None:
                block.attn.qkv_w.uniform_(-bound, bound)
        for table in (self.embed, *self.value_embeds):
            table.weight.normal_()

    def given(self, step):
        """What forward takes beside the tokens at a step: windows of long and of short layers."""
        blocks = window_blocks(step, self.sizes.num_iterations)
        windows = (blocks, max(blocks // 2, 1))
        if self.attention is not flex:
            return windows
        for place, window in zip(self.windows, windows):
            place.fill_(window)
        return tuple(self.windows)

    def forward(self, tokens, targets, long_window, short_window):
        """tokens, targets: int64 [T]; windows: as the kind of attention takes them."""
        layers = self.sizes.num_layers
        start = document_starts(tokens, self.sizes.eos_token)
        of_long, of_short = (self.attention(start, w) for w in (long_window, short_window))
        long = (0, layers // 3, 2 * layers // 3 - 1, layers - 1)
        skips, mixes, value_mixes = self.numbers()
        values = [table(tokens) for table in self.value_embeds]
        values = values + [None] * (layers - 6) + values
        x = x0 = norm(self.embed(tokens))
        outputs = []
        for i, block in enumerate(self.blocks):
            if i >= layers // 2:
                x = x + skips[i - layers // 2] * outputs[layers - 1 - i]
            visible = of_long if i in long else of_short
            x = block(x, x0, mixes[i], value_mixes[i], values[i], self.rotary, visible)
            outputs.append(x)
        z = self.lm_head(norm(x))
        logits = 30 * torch.sigmoid(z.float() / (7.5 * math.sqrt(self.sizes.model_dim)))
        return F.cross_entropy(logits, targets, reduction="sum")


def window_blocks(step, iterations):
    """The window of long layers at a step, in blocks of 128 positions."""
    return math.ceil(max(1728 * step / iterations, 1) / 128)


def decay(step, sizes):
    """What the initial learning rates are multiplied with."""
    return min(1.0, 0.1 + 0.9 * max(1 - step / sizes.num_iterations, 0) / sizes.cooldown)


def momentum(step):
    return 0.85 + 0.10 * min(step / 300, 1)


class Optimizers:
    """All parameters of the model: `step` takes what their gradients say."""

    def __init__(self, model, ways, compiled):
        self.model, self.sizes = model, model.sizes
        named = list(model.named_parameters())
        matrices = [p for name, p in named if name.startswith("blocks.") and p.dim() >= 2]
        self.muon = Muon(matrices, COMPUTE[model.sizes.dtype], compiled)
        self.rates = [0.6, 0.22, 0.04]
        groups = [
            [p for name, p in named if "embed" in name],
            [p for name, p in named if name.startswith("lm_head.")],
            [p for _, p in named if p.dim() == 1],
        ]
        self.adam = torch.optim.Adam(
            [{"params": group, "lr": rate} for group, rate in zip(groups, self.rates)],
            betas=(0.8, 0.95),
            eps=self.sizes.adam_eps,
            fused=True,
        )

    def step(self, step):
        """The update of a step, counted from 0; the gradients are gone after it."""
        scale = decay(step, self.sizes)
        for group, rate in zip(self.adam.param_groups, self.rates):
            group["lr"] = rate * scale
        self.adam.step()
        self.muon.step(0.05 * scale, momentum(step))
        self.adam.zero_grad(set_to_none=True)

    def parameters(self):
        """{name: tensor} as they are stored."""
        return self.model.state_dict()


def prepare(sizes, ways, device):
    """(ways that run here, notes about those that do not, what was measured for the choice)."""
    problem = float8_problem(device) if ways.fp8 == "head" else None
    if problem is None:
        return ways, [], {}
    note = f"torch._scaled_mm fails, FP8 is off: {problem}"
    return dataclasses.replace(ways, fp8="off"), [note], {}


def float8_problem(device):
    """Why torch._scaled_mm does not run on a device, or None: a small product with its gradients."""
    try:
        with torch.device(device):
            head = Head(Gpt124m(vocab_size=128, model_dim=64), Ways("", "head", ""), 1.0)
            x = torch.ones(128, 64, dtype=torch.bfloat16, requires_grad=True)
            head(x).float().sum().backward()
        if not torch.isfinite(x.grad).all():
            return "its result is not finite"
    except Exception as error:  # whatever the library throws is the answer
        return first_line(error)
    return None


def facts(sizes, steps):
    """What the report says of the first steps of a run."""
    return {"windows": [window_blocks(step, sizes.num_iterations) for step in range(steps)]}
