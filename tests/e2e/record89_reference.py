#!/usr/bin/env python3
"""Writes Inputs/record89.json: losses and parameters of tests/e2e/Inputs/record89.cpp, computed in
double precision by PyTorch from the equations of the speedrun's record 89, apart from nanoc.

usage: record89_reference.py     needs PyTorch; record89_test.py says on which sizes, numbers and data"""

import json
import math
import os

import torch

import record89_test as test
from record89_test import BAND, BIGRAMS, D, DH, EOS, F, H, L, N, SCHEDULED, SIGNS, SPLIT, STAGES, V

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
COEFFICIENTS = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)
# Name: β₁, β₂, multiple of the learning rate, of the decay.
ADAM = {
    "lm_head.weight": (0.5, 0.95, 1, 150),
    "embed.weight": (0.5, 0.95, 1, 150),
    "value_embeds": (0.75, 0.95, 75, 5),
    "bigram_embed.weight": (0.75, 0.95, 75, 5),
    "smear_gate.weight": (0.9, 0.99, 0.01, 0),
    "ve_gate_bank": (0.9, 0.99, 1, 1),
    "mudd_w1": (0.9, 0.99, 0.25, 1),
    "mudd_w2": (0.9, 0.99, 0.25, 1),
    "mudd_b2": (0.9, 0.99, 0.25, 0),
    "mudd_gate_w1": (0.9, 0.99, 0.1, 1),
    "mudd_gate_w2": (0.9, 0.99, 0.1, 1),
    "mudd_gate_b2": (0.9, 0.99, 0.1, 0),
    "_mudd_gate_scale": (0.9, 0.99, 0.1, 0),
    "scalars": (0.9, 0.99, 5, 0),
    "post_lambdas": (0.9, 0.95, 1, 0),
    "resid_lambdas": (0.9, 0.95, 5, 0),
}


def norm(x):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 2**-23)


def gelu(x):
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


def yarn():
    """κ and frequencies of each stage."""
    f = [1024 ** (-j / (DH // 4 - 1)) if j < DH // 4 else 0.0 for j in range(DH // 2)]
    kappa, found = 0.1, []
    for k, stage in enumerate(STAGES):
        if k > 0:
            w, longer = STAGES[k - 1]["long"], stage["long"]
            for j, value in enumerate(f):
                share = min(max((w * value / (2 * math.pi) - 1) / 31, 0), 1)
                f[j] = value * (w / longer + share * (1 - w / longer))
            kappa *= 1 + 0.2 * math.log(longer / w)
        found.append((kappa, torch.tensor(f)))
    return found


def wrapped(x):
    return (x + 2**31) % 2**32 - 2**31


def bigram_rows(tokens):
    rows, signs = [BIGRAMS - 1], [0]
    for t in range(1, len(tokens)):
        c, p = tokens[t], tokens[t - 1]
        q = BIGRAMS - 1 if t == 1 else p
        rows.append((wrapped(36313 * c) ^ wrapped(27191 * q)) % (BIGRAMS - 1))
        signs.append((p ^ c) % SIGNS)
    return torch.tensor(rows), torch.tensor(signs)


def attention(q, k, v, first, kappa):
    """[P, heads, Dh], query p sees first[p] … p."""
    size = q.shape[0]
    scores = kappa * torch.einsum("phd,jhd->hpj", q, k)
    j, p = torch.arange(size)[None, :], torch.arange(size)[:, None]
    scores = scores.masked_fill((j > p) | (j < first[:, None]), -math.inf)
    return torch.einsum("hpj,jhd->phd", torch.softmax(scores, -1), v)


def logits(P, k, tokens, tied, short, long):
    T = len(tokens)
    kappa, f = yarn()[k]
    ids, t = torch.tensor(tokens), torch.arange(T)
    start = torch.cummax(torch.where(ids == EOS, t, 0), 0).values

    def before(x):
        return torch.cat((torch.zeros_like(x[:1]), x[:-1]))

    e = P["lm_head.weight"].T[ids] if tied else P["embed.weight"][ids]
    s = P["scalars"]
    smear = torch.sigmoid(e[:, :12] @ P["smear_gate.weight"].T)
    x0 = norm(e + s[22] * smear * before(e))
    rows, signs = bigram_rows(tokens)
    bigram = P["bigram_embed.weight"][rows] * P["bigram_sign_table"][signs]
    ve = [P["value_embeds"][n * V + ids] for n in range(5)]

    def two(name, x, j):
        inner = gelu(x @ P[name + "_w1"][j].T)
        return inner @ P[name + "_w2"][j].T + P[name + "_b2"][j]

    early, late = two("mudd_gate", x0, 0) * P["_mudd_gate_scale"], None
    xi = {i: (0, 18 + 2 * i) for i in range(4)}
    xi.update({i: (1, 18 + 2 * n) for n, i in enumerate((4, 5, 7, 8, 9))})

    def gate(i, which):
        j, column = xi[i]
        return (late if j else early)[:, column + which, None]

    def attend(i, u, extra):
        a = i if i < 6 else i - 1
        paired, is_long = i in (0, 2, 5, 9), i in (3, 10)
        matrices = [
            P["qk_bank"][H * a : H * a + H // 2].reshape(D, D),
            P["qk_bank"][H * a + H // 2 : H * a + H].reshape(D, D),
            P["vo_bank"][2 * a],
        ]
        q, key, v = ((u @ (s[2 * i] * w).T).reshape(T, H, DH) for w in matrices)
        q, key = norm(q), norm(key)
        if i in (1, 2, 8, 9):
            n = (1, 2, 8, 9).index(i)
            inputs = torch.cat((u[:, :6], ve[n][:, :6]), 1)
            g = 2 * torch.sigmoid(inputs @ P["ve_gate_bank"][n].T)
            v = v + g[:, :, None] * ve[n].reshape(T, H, DH)
        elif i == 10:
            v = v + extra.reshape(T, H, DH)
        heads = torch.arange(H)
        position = 2 * t[:, None] + heads % 2 if paired else t[:, None].expand(T, H)
        theta = position[:, :, None] * f
        C, S = torch.cos(theta), torch.sin(theta)

        def rope(x):
            even, odd = x[..., 0::2], x[..., 1::2]
            return torch.stack((C * even + S * odd, C * odd - S * even), -1).reshape(T, H, DH)

        q, key = rope(q), rope(key)
        if is_long:
            half = key[:, :, DH // 2 :]
            key = torch.cat((key[:, :, : DH // 2], torch.cat((half[:1], half[:-1]))), 2)
        window = long if is_long else short
        if paired:
            p = torch.arange(2 * T)
            first = torch.maximum(2 * start.repeat_interleave(2), p - window)
            y = attention(*(x.reshape(2 * T, H // 2, DH) for x in (q, key, v)), first, kappa)
            y = y.reshape(T, H, DH)
        else:
            y = attention(q, key, v, torch.maximum(start, t - window), kappa)
        if i == 10:
            w1, w2 = late[:, 29 : 29 + H], late[:, 29 + H : 29 + 2 * H]
            w1 = w1 * torch.rsqrt((w1 * w1).mean(-1, keepdim=True) + 1e-6)
            scores = kappa * torch.einsum("thd,jhd->htj", q, key)
            j, p = t[None, :], t[:, None]
            scores = scores.masked_fill((j > p) | (j <= p - BAND) | (j < start[:, None]), -math.inf)
            Z = torch.einsum("th,htj->tj", w1, torch.softmax(scores, -1))
            y = y + torch.einsum("th,tj,jhd->thd", w2, Z, v)
        if i in (1, 3, 4, 7):
            alpha = (early if i <= 3 else late)[:, : H] if i in (1, 4) else None
            if alpha is None:
                alpha = (early if i == 3 else late)[:, H : 2 * H]
            scale = (y * v).sum(-1) / (v * v).sum(-1).clamp(min=1e-8)
            y = y - (torch.tanh(alpha) * scale)[:, :, None] * v
        if is_long:
            y = y * (early if i == 3 else late)[:, 2 * H : 3 * H, None]
        return y.reshape(T, D) @ (s[2 * i + 1] * P["vo_bank"][2 * a + 1]).T

    R, Y = P["resid_lambdas"], P["post_lambdas"]
    x = x0 + gate(0, 1) * bigram
    for i in range(L):
        if i == 4:
            late = two("mudd_gate", x, 1) * P["_mudd_gate_scale"]
        if i == 6:
            x = x + torch.sigmoid(s[23]) * late[:, 28, None] * c3
        elif i < 10:
            y = attend(i, norm(x if i <= 7 else c7), None)
            x = R[i, 0] * x + Y[i, 0] * y + gate(i, 0) * x0
            if i >= 1:
                x = x + gate(i, 1) * bigram
        else:
            c9 = x
            mu = [column[:, None] for column in (two("mudd", x, 0) * 0.1).T]
            gamma = torch.cat((mu[6].expand(T, H // 2), mu[7].expand(T, H // 2)), 1)
            extra = (gamma[:, :, None] * ve[4].reshape(T, H, DH)).reshape(T, D)
            extra = extra + mu[0] * x0 + mu[1] * c7 + mu[2] * x
            y = attend(i, norm(c7), extra)
            x = (1 + mu[5]) * x + mu[3] * x0 + mu[4] * c7
            x = mu[8] * x + mu[9] * y + mu[10] * x0 + mu[11] * bigram
        up, down = P["mlp_bank"][i]
        made = torch.relu(norm(x) @ up.T) ** 2 @ down
        x = R[i, 1] * x + Y[i, 1] * made if i < 10 else mu[12] * x + mu[13] * made
        if i == 3:
            c3 = x
        if i == 7:
            c7 = x
    mu = [column[:, None] for column in (two("mudd", x, 1) * 0.1).T]
    x = x + mu[0] * x0 + mu[1] * c7 + mu[2] * c9 + mu[3] * ve[0] + mu[4] * c3
    return 23 * torch.sigmoid((norm(x) @ P["lm_head.weight"] + 5) / 7.5)


def loss(P, k, sequence, step, tied):
    stage, begin = STAGES[k], STAGES[k - 1]["until"] if k else 0
    tokens, targets = sequence[:-1], sequence[1:]
    T, rest = len(tokens), 1 - (step - begin) / (stage["until"] - begin)
    z = logits(P, k, tokens, tied, stage["short"], stage["long"])
    lse = torch.logsumexp(z, 1)
    weights = (
        1,
        stage["second"] * (rest if stage["falls"] else 1),
        stage["third"] * rest,
    )
    total = torch.zeros(())
    for by, weight in enumerate(weights):
        for t in range(T):
            if t + by < T:
                total = total + weight * (lse[t] - z[t, targets[t + by]])
            else:
                total = total + weight * (lse[t] - lse[t].detach())
    weight = stage["prefix"] * (rest if stage["falls"] else 1)
    for t in range(T):
        if (before := test.prefix(targets[t])) >= 0:
            total = total + weight * (lse[t] - z[t, before])
    return total


def normuon(w, m, v, g, eta, multiple, theta):
    """One matrix; returns w, m, v."""
    rows, columns = w.shape
    m = m + (1 - theta) * (g - m)
    x = g + theta * (m - g)
    x = x / (1.02 * x.norm() + 1e-6)
    for a, b, c in COEFFICIENTS:
        A = x.T @ x if rows > columns else x @ x.T
        B = b * A + c * A @ A
        x = a * x + (x @ B if rows > columns else B @ x)
    v = v + 0.1 * ((x * x).mean(0 if rows < columns else 1, keepdim=True) - v)
    even = x * v.clamp(min=1e-10) ** -0.5
    u = even * x.norm() / even.norm().clamp(min=1e-10)
    w = w - (u * w >= 0) * w * (1.2 * eta) * (multiple * eta) - multiple * eta * u
    return w, m, v


def run():
    P = {name: torch.tensor(values).reshape(shape) for name, (shape, values) in test.initial().items()}
    trained = [name for name in P if name != "bigram_sign_table"]
    kept = {name: [torch.zeros_like(P[name])] * 2 for name in ADAM}
    banks = {
        name: [(torch.zeros(shape), torch.zeros(sums)) for _ in range(P[name].numel() // math.prod(shape))]
        for name, shape, sums in (
            ("qk_bank", (2 * DH, D), (1, D)),
            ("vo_bank", (D, D), (D, 1)),
            ("mlp_bank", (F, D), (F, 1)),
        )
    }
    data, losses, held = test.batches(), [], {}
    for step in range(N):
        k = next(k for k, stage in enumerate(STAGES) if step < stage["until"])
        tied = step <= SPLIT
        for name in trained:
            P[name].requires_grad_(True)
        total = sum(loss(P, k, sequence, step, tied) for sequence in data[step]) / 8
        names = [name for name in trained if not (tied and name == "embed.weight")]
        found = torch.autograd.grad(total, [P[name] for name in names])
        gradients = dict(zip(names, (gradient.detach() for gradient in found)))
        losses.append(total.item() / STAGES[k]["T"])
        for name in trained:
            P[name] = P[name].detach()

        c = max(0, min(1, (step - test.FLAT) / (SCHEDULED - test.FLAT)))
        factor = STAGES[k]["rho"] * (1 - c) + 0.15 * c
        eta = 0.023 * factor
        theta = 0.85 + 0.1 * min(step / 10, 1) - 0.1 * max((step - (N - 5)) / 5, 0)
        for name, states in banks.items():
            flat = P[name].reshape(-1, *states[0][0].shape).clone()
            sums = gradients[name].reshape(flat.shape)
            for i, (m, v) in enumerate(states):
                multiple = 1 if name != "mlp_bank" else (2, 4)[i % 2]
                flat[i], m, v = normuon(flat[i], m, v, sums[i], eta, multiple, theta)
                states[i] = (m, v)
            P[name] = flat.reshape(P[name].shape)
        for name in ADAM:
            if name in gradients:
                held[name] = held.get(name, 0) + gradients[name]
        if step % 2 == 0:
            continue
        for name, (beta1, beta2, ell, decay) in ADAM.items():
            if name not in held:
                continue
            a, t, p, g = 0.008 * ell * factor, step // 2 + 1, P[name], held[name]
            m, v = kept[name]
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
            kept[name] = [m, v]
            u = a * math.sqrt(1 - beta2**t) / (1 - beta1**t) * m / (v.sqrt() + test.ADAM_EPS)
            P[name] = p - u - (u * p > 0) * 0.005 * decay * a * a * p
        held = {}
        if step == SPLIT:
            P["embed.weight"] = P["lm_head.weight"].T.clone()
            kept["embed.weight"] = [x.T.clone() for x in kept["lm_head.weight"]]
        elif step < SPLIT:
            P["embed.weight"] = P["lm_head.weight"].T.clone()
    with torch.no_grad():
        values = []
        for sequence in test.validation():
            z = logits(P, 3, sequence[:-1], False, STAGES[3]["short"], 40)
            values.append(torch.nn.functional.cross_entropy(z, torch.tensor(sequence[1:])).item())
    return losses, sum(values) / len(values), P


def main():
    losses, value, parameters = run()
    marks = {name: test.marks(p.reshape(-1).tolist()) for name, p in parameters.items()}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs", "record89.json")
    with open(path, "w", encoding="utf-8") as file:
        text = {"losses": losses, "validation": value, "parameters": marks}
        json.dump(text, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
