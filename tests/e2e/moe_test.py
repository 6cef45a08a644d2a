#!/usr/bin/env python3
"""models/moe.cpp, small, against the same equations in plain double precision: the validation loss
of the initial parameters, the training loss with the experts' loads in it, and its gradient along a
random direction by finite differences. Tolerance: 2e-6 of the losses, 2e-4 of the slope, of a model
in f32 whose choices of experts are all clear."""

import math
import os
import random

from harness import RunTest, main, read_safetensors, train_losses, val_losses, write_shard

SIZES = {
    "vocab_size": 48,
    "num_layers": 2,
    "num_heads": 4,
    "num_kv_heads": 2,
    "head_dim": 4,
    "model_dim": 16,
    "ffn_dim": 12,
    "num_experts": 4,
    "experts_per_token": 2,
    "router_aux_loss_coef": 0.5,
    "block_size": 8,
    "seq_len": 32,
    "val_seq_len": 32,
    "global_batch": 32,
    "num_iterations": 4,
    "warmup_iters": 0,
    "grad_clip": 0.0,
    "rope_theta": 100.0,
    "dtype": "f32",
}
EPSILON = 1e-5


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


class Reference:
    """The model's equations, on lists of lists."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.clearest = 1.0  # distance of a probability that is chosen from one that is not

    def matrix(self, name, columns):
        values = self.parameters[name]
        return [values[at : at + columns] for at in range(0, len(values), columns)]

    def linear(self, x, name):
        weight = self.matrix(name, len(x[0]))
        return [[dot(row, column) for column in weight] for row in x]

    def norm(self, x, name):
        scale = self.parameters[name]
        result = []
        for row in x:
            root = math.sqrt(dot(row, row) / len(row) + EPSILON)
            result.append([value / root * s for value, s in zip(row, scale)])
        return result

    def rope(self, head, position):
        half = len(head) // 2
        turned = list(head)
        for j in range(half):
            angle = position * SIZES["rope_theta"] ** (-j / half)
            a, b = head[j], head[j + half]
            turned[j] = a * math.cos(angle) - b * math.sin(angle)
            turned[j + half] = b * math.cos(angle) + a * math.sin(angle)
        return turned

    def attention(self, x, prefix):
        size, heads, shared = SIZES["head_dim"], SIZES["num_heads"], SIZES["num_kv_heads"]
        block = SIZES["block_size"]

        def headed(name, turns):
            rows = []
            for t, row in enumerate(self.linear(x, prefix + name)):
                parts = [row[at : at + size] for at in range(0, len(row), size)]
                rows.append([self.rope(part, t % block) for part in parts] if turns else parts)
            return rows

        q, k = headed("q_proj.weight", True), headed("k_proj.weight", True)
        v = headed("v_proj.weight", False)
        joined = []
        for t in range(len(x)):
            row = []
            for h in range(heads):
                of = h * shared // heads
                seen = range(t // block * block, t + 1)
                scores = [dot(q[t][h], k[j][of]) / math.sqrt(size) for j in seen]
                largest = max(scores)
                powers = [math.exp(score - largest) for score in scores]
                total = math.fsum(powers)
                for d in range(size):
                    row.append(math.fsum(p / total * v[j][of][d] for p, j in zip(powers, seen)))
            joined.append(row)
        return self.linear(joined, prefix + "o_proj.weight")

    def experts(self, x, prefix):
        """What is added to the rows; how often each expert is chosen, and its mean probability."""
        count, best = SIZES["num_experts"], SIZES["experts_per_token"]
        load, mean = [0.0] * count, [0.0] * count
        added = []
        for row, scores in zip(x, self.linear(x, prefix + "gate.weight")):
            largest = max(scores)
            powers = [math.exp(score - largest) for score in scores]
            routed = [power / math.fsum(powers) for power in powers]
            chosen = sorted(range(count), key=lambda e: -routed[e])
            self.clearest = min(self.clearest, routed[chosen[best - 1]] - routed[chosen[best]])
            total = math.fsum(routed[e] for e in chosen[:best])
            result = [0.0] * len(row)
            for e in chosen[:best]:
                expert = f"{prefix}experts.{e}."
                gate = self.linear([row], expert + "w1.weight")[0]
                up = self.linear([row], expert + "w3.weight")[0]
                inner = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
                out = self.linear([inner], expert + "w2.weight")[0]
                result = [r + routed[e] / total * o for r, o in zip(result, out)]
                load[e] += 1 / len(x)
            mean = [m + r / len(x) for m, r in zip(mean, routed)]
            added.append(result)
        return added, load, mean

    def losses(self, tokens, targets):
        """(mean loss of the tokens, that with the experts' loads in it)."""
        layers, self.clearest = SIZES["num_layers"], 1.0
        embedding = self.matrix("model.embed_tokens.weight", SIZES["model_dim"])
        x = [embedding[token] for token in tokens]
        load, mean = [0.0] * SIZES["num_experts"], [0.0] * SIZES["num_experts"]
        for i in range(layers):
            prefix = f"model.layers.{i}."
            h = self.norm(x, prefix + "input_layernorm.weight")
            y = self.attention(h, prefix + "self_attn.")
            x = [[a + b for a, b in zip(*rows)] for rows in zip(x, y)]
            m = self.norm(x, prefix + "post_attention_layernorm.weight")
            y, more, probable = self.experts(m, prefix + "block_sparse_moe.")
            x = [[a + b for a, b in zip(*rows)] for rows in zip(x, y)]
            load = [a + b / layers for a, b in zip(load, more)]
            mean = [a + b / layers for a, b in zip(mean, probable)]
        total = 0.0
        logits = self.linear(self.norm(x, "model.norm.weight"), "lm_head.weight")
        for row, target in zip(logits, targets):
            total += math.log(math.fsum(map(math.exp, row))) - row[target]
        loss = total / len(tokens)
        balance = SIZES["router_aux_loss_coef"] * SIZES["num_experts"] * dot(load, mean)
        return loss, loss + balance


class MixtureOfExperts(RunTest):
    def test_against_equations(self):
        length = SIZES["seq_len"]
        source = random.Random(5)
        words = [source.randrange(SIZES["vocab_size"]) for _ in range(2 * length + 2)]
        write_shard(self.path("t_0.bin"), words)
        write_shard(self.path("v.bin"), words[: length + 1])
        plan = self.compile("moe", SIZES, "moe.plan")
        _, start = self.train(plan, "start", "--steps", 0)
        options = ("--val", self.path("v.bin"), "--val-every", 9, "--save", self.path("saved"))
        log, _ = self.train(plan, "one", "--steps", 1, *options)
        start = {name: list(values) for name, values in read_safetensors(start).items()}
        reference = Reference(start)
        tokens, targets = words[:length], words[1 : length + 1]
        loss, balanced = reference.losses(tokens, targets)
        self.assertGreater(reference.clearest, 1e-6)
        self.assertLessEqual(abs(train_losses(log)[0] - balanced), 2e-6 * balanced)

        state = os.path.join(self.path("saved"), "step-000001")
        moved = read_safetensors(os.path.join(state, "params.safetensors"))
        after, _ = Reference({n: list(v) for n, v in moved.items()}).losses(tokens, targets)
        self.assertLessEqual(abs(val_losses(log)[-1] - after), 2e-6 * after)

        # Along a direction that is random by matrix: f32 gradients from Adam's first moment.
        moments = read_safetensors(os.path.join(state, "optimizer.safetensors"))
        direction = {n: [source.gauss(0, 1e-2) for _ in v] for n, v in start.items()}
        slope = sum(dot(direction[name], moments[name + ".adam_m"]) / (1 - 0.9) for name in start)
        step, sides = 1e-4, []
        for sign in (1, -1):
            there = {
                name: [a + sign * step * b for a, b in zip(values, direction[name])]
                for name, values in start.items()
            }
            sides.append(Reference(there).losses(tokens, targets)[1])
        numeric = (sides[0] - sides[1]) / (2 * step)
        self.assertLessEqual(abs(slope - numeric), 2e-4 * abs(numeric))


if __name__ == "__main__":
    main()
