#!/usr/bin/env python3
"""models/moe.cpp, small, against the same equations in plain double precision, without and with a
capacity of the experts: the validation loss of the initial parameters, the training loss with the
experts' loads in it, and its gradient along a random direction by finite differences. Tolerance:
2e-6 of the losses, 2e-4 of the slope, of a model in f32 whose choices of experts are all clear."""

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
        self.dropped = 0  # choices beyond an expert's capacity

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

    def experts(self, x, prefix, capacity):
        """What is added to the rows; how often each expert is chosen, and its mean probability. Of
        an expert's choices, those of the first best before the second, `capacity` count."""
        count, best = SIZES["num_experts"], SIZES["experts_per_token"]
        load, mean = [0.0] * count, [0.0] * count
        choices, routed = [], []
        for scores in self.linear(x, prefix + "gate.weight"):
            largest = max(scores)
            powers = [math.exp(score - largest) for score in scores]
            routed.append([power / math.fsum(powers) for power in powers])
            order = sorted(range(count), key=lambda e: -routed[-1][e])
            self.clearest = min(self.clearest, routed[-1][order[best - 1]] - routed[-1][order[best]])
            choices.append(order[:best])
            mean = [m + r / len(x) for m, r in zip(mean, routed[-1])]
        taken, added = [0] * count, [[0.0] * len(row) for row in x]
        for n in range(best):
            for t, row in enumerate(x):
                e = choices[t][n]
                load[e] += 1 / len(x)
                taken[e] += 1
                if taken[e] > capacity:
                    self.dropped += 1
                    continue
                expert = f"{prefix}experts.{e}."
                gate = self.linear([row], expert + "w1.weight")[0]
                up = self.linear([row], expert + "w3.weight")[0]
                inner = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
                out = self.linear([inner], expert + "w2.weight")[0]
                share = routed[t][e] / math.fsum(routed[t][c] for c in choices[t])
                added[t] = [a + share * o for a, o in zip(added[t], out)]
        return added, load, mean

    def losses(self, tokens, targets, factor=0.0):
        """(mean loss of the tokens, that with the experts' loads in it), of experts that take
        `factor` times their share of the choices; 0: all."""
        layers, self.clearest, self.dropped = SIZES["num_layers"], 1.0, 0
        choices = len(tokens) * SIZES["experts_per_token"]
        capacity = math.ceil(factor * choices / SIZES["num_experts"]) if factor else choices
        embedding = self.matrix("model.embed_tokens.weight", SIZES["model_dim"])
        x = [embedding[token] for token in tokens]
        load, mean = [0.0] * SIZES["num_experts"], [0.0] * SIZES["num_experts"]
        for i in range(layers):
            prefix = f"model.layers.{i}."
            h = self.norm(x, prefix + "input_layernorm.weight")
            y = self.attention(h, prefix + "self_attn.")
            x = [[a + b for a, b in zip(*rows)] for rows in zip(x, y)]
            m = self.norm(x, prefix + "post_attention_layernorm.weight")
            y, more, probable = self.experts(m, prefix + "block_sparse_moe.", capacity)
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
        self.compare_with_equations("all", 0.0)

    def test_capacity(self):
        self.assertGreater(self.compare_with_equations("routed", 0.75), 0)
        # Enough for whatever is chosen: the same model as without.
        self.assertEqual(self.compare_with_equations("enough", 1.75), 0)

    def compare_with_equations(self, name, factor):
        """The number of choices that are dropped."""
        length = SIZES["seq_len"]
        source = random.Random(5)
        words = [source.randrange(SIZES["vocab_size"]) for _ in range(2 * length + 2)]
        write_shard(self.path("t_0.bin"), words)
        write_shard(self.path("v.bin"), words[: length + 1])
        plan = self.compile("moe", {**SIZES, "capacity_factor": factor}, f"{name}.plan")
        _, start = self.train(plan, name + "-start", "--steps", 0)
        options = ("--val", self.path("v.bin"), "--val-every", 9, "--save", self.path(name))
        log, _ = self.train(plan, name + "-one", "--steps", 1, *options)
        start = {name: list(values) for name, values in read_safetensors(start).items()}
        reference = Reference(start)
        tokens, targets = words[:length], words[1 : length + 1]
        _, balanced = reference.losses(tokens, targets, factor)
        dropped = reference.dropped
        self.assertGreater(reference.clearest, 1e-6)
        self.assertLessEqual(abs(train_losses(log)[0] - balanced), 2e-6 * balanced)

        state = os.path.join(self.path(name), "step-000001")
        moved = read_safetensors(os.path.join(state, "params.safetensors"))
        after, _ = Reference({n: list(v) for n, v in moved.items()}).losses(tokens, targets)
        self.assertLessEqual(abs(val_losses(log)[-1] - after), 2e-6 * after)

        # Along a direction that is random by matrix: f32 gradients from Adam's first moment.
        moments = read_safetensors(os.path.join(state, "optimizer.safetensors"))
        direction = {n: [source.gauss(0, 1e-2) for _ in v] for n, v in start.items()}
        slope = sum(dot(direction[each], moments[each + ".adam_m"]) / (1 - 0.9) for each in start)
        step, sides = 1e-4, []
        for sign in (1, -1):
            there = {
                each: [a + sign * step * b for a, b in zip(values, direction[each])]
                for each, values in start.items()
            }
            sides.append(Reference(there).losses(tokens, targets, factor)[1])
        numeric = (sides[0] - sides[1]) / (2 * step)
        self.assertLessEqual(abs(slope - numeric), 2e-4 * abs(numeric))
        return dropped


if __name__ == "__main__":
    main()
