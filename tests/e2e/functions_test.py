#!/usr/bin/env python3
"""The front end's functions, each in a model of its own: the loss and both parameters' gradients of
one step in f32 against plain double precision, whose gradients are finite differences. Tolerance:
2e-6 of the loss, 2e-5 of a gradient's norm, to which the differences add about 1e-9."""

import math
import os
import struct

from harness import (
    RunTest,
    distance,
    main,
    read_safetensors,
    run_command,
    train_losses,
    write_shard,
)

ROWS, COLUMNS = 16, 12
MODEL = """#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const int64_t T = 16, C = 12;
  const auto group = adam("all", {.lr = 0.1, .beta1 = 0.5});
  const Tensor rows = param("rows", {T, C}, f32, normal(0, 1), group);
  const Tensor w = param("w", {C}, f32, normal(0, 1), group);
  auto loss = [&](Tensor tokens, Tensor) {
    const Tensor x = rows[tokens];
    const auto f = [&]() -> Tensor { CODE; };
    return reshape(f(), {T});
  };
  training({.vocabSize = T, .eosToken = 0, .globalBatch = T, .numIterations = 1});
  train(T, Loss::sum, loss);
  validate(T, Loss::mean, loss);
}
"""


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def upper(x):
    return struct.unpack("<f", struct.pack("<I", bits(x) & 0xFFFF0000))[0]


def gelu_tanh(x):
    return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def clipped(x):
    """2x as a whole number, and infinite beyond 1."""
    n = round(2 * x)
    return n if abs(n) <= 1 else math.copysign(math.inf, n)


def largest(x, count):
    return sorted(range(len(x)), key=lambda i: (-x[i], i))[:count]


def dot(a, b):
    return math.fsum(p * q for p, q in zip(a, b))


def log_sum_exp(x):
    return math.log(math.fsum(map(math.exp, x)))


def sparsemax(x):
    """max(v − t, 0) of sum 1, by bisection."""
    low, high = max(x) - 1, max(x)
    for _ in range(60):
        t = (low + high) / 2
        low, high = (t, high) if math.fsum(max(v - t, 0) for v in x) > 1 else (low, t)
    return [max(v - low, 0) for v in x]


def part(x, i):
    return x[i % COLUMNS] - 8 * (i // COLUMNS)


# What a row comes to in C++, and in Python of x, w and the row's token.
CASES = {
    "gelu": (
        "return sum(gelu(x) * w, -1)",
        lambda x, w, t: dot([v / 2 * (1 + math.erf(v / math.sqrt(2))) for v in x], w),
    ),
    "geluTanh": ("return sum(geluTanh(x) * w, -1)", lambda x, w, t: dot(map(gelu_tanh, x), w)),
    "erf": ("return sum(erf(x) * w, -1)", lambda x, w, t: dot(map(math.erf, x), w)),
    "log1p": (
        "return sum((log1p(x * x) + 100.0 * log1p(-0.001 * sigmoid(x))) * w, -1)",
        lambda x, w, t: dot(
            [math.log1p(v * v) + 100 * math.log1p(-0.001 / (1 + math.exp(-v))) for v in x], w
        ),
    ),
    "logAddExp": (
        "return sum(logAddExp(x, w) + 0.5 * logAddExp(40.0 * x, 1.0), -1)",
        lambda x, w, t: math.fsum(
            log_sum_exp([a, b]) + 0.5 * log_sum_exp([40 * a, 1]) for a, b in zip(x, w)
        ),
    ),
    "abs": ("return sum(abs(x) * w, -1)", lambda x, w, t: dot(map(abs, x), w)),
    "whole": (
        "return sum((floor(x) + 2.0 * ceil(x) + 3.0 * round(3.0 * x) + sign(x)) * w, -1)"
        " + 0.0 * sum(x, -1)",
        lambda x, w, t: dot(
            [math.floor(v) + 2 * math.ceil(v) + 3 * round(3 * v) + math.copysign(1, v) for v in x],
            w,
        ),
    ),
    "logSumExp": (
        "return logSumExp(x * w, -1)",
        lambda x, w, t: log_sum_exp([a * b for a, b in zip(x, w)]),
    ),
    "topK": (
        "const TopK top = topK(x, 3);"
        "return sum((top.values + 0.25 * cast(top.indices, f32)) * slice(w, 0, 0, 3), -1)"
        " + 0.0 * sum(w)",
        lambda x, w, t: dot([x[i] + 0.25 * i for i in largest(x, 3)], w),
    ),
    # Equal ones, zeros of both signs among them, and infinities: the first column is first.
    "topKOfNarrow": (
        "const Tensor n = round(2.0 * x), infinity = 1.0 / full({T, C}, 0, f32);"
        "const Tensor far = select(n > 1.0, infinity, select(n < -1.0, -1.0 * infinity, n));"
        "const TopK top = topK(cast(far, bf16), 10);"
        "const Tensor near = min(max(cast(top.values, f32), -2.0), 2.0);"
        "return sum((near + 0.25 * cast(top.indices, f32)) * slice(w, 0, 0, 10), -1)"
        " + 0.0 * (sum(x, -1) + sum(w))",
        lambda x, w, t: dot(
            [min(2, max(-2, round(2 * x[i]))) + 0.25 * i for i in largest([*map(clipped, x)], 10)],
            w,
        ),
    ),
    # More than are looked for one by one.
    "topKOfMany": (
        "List<Tensor> parts(6);"
        "for (int j = 0; j < 6; ++j) parts[j] = x - 8.0 * j;"
        "const TopK top = topK(concat(parts, 1), 70);"
        "const Tensor some = top.values + 0.01 * cast(top.indices, f32);"
        "return sum(slice(some, 1, 58, 12) * w, -1)",
        lambda x, w, t: dot([part(x, i) + 0.01 * i for i in largest([part(x, i) for i in range(72)], 70)[58:]], w),
    ),
    "argmax": (
        "return sum(cast(argmax(x), f32) * w, -1) + 0.0 * sum(x, -1)",
        lambda x, w, t: math.fsum(w) * largest(x, 1)[0],
    ),
    "argsort": (
        "const Tensor order = argsort(x), back = argsort(-round(4.0 * x));"
        "return sum(gather(x, order, -1) * w, -1) + 0.1 * sum(cast(back, f32) * w, -1)",
        lambda x, w, t: dot([x[i] for i in largest(x, COLUMNS)], w)
        + 0.1 * dot(largest([-round(4 * v) for v in x], COLUMNS), w),
    ),
    "sparsemax": (
        "return sum(sparsemax(x * w) * w, -1) + 0.3 * reshape(sum(sparsemax(reshape(x, {T, 3, 4})), {1, 2}), {T, 1})"
        " + 2.0 * sum(sparsemax(cast(iota({T, 3}, 1), f32)) * slice(w, 0, 0, 3), -1)",
        lambda x, w, t: dot(sparsemax([a * b for a, b in zip(x, w)]), w) + 0.9 + 2 * w[2],
    ),
    "takeAlong": (
        "const Tensor which = (iota({T, 3}, 1) * 5 + reshape(tokens, {T, 1})) % C;"
        "return sum(takeAlong(x * w, which), -1)",
        lambda x, w, t: math.fsum(x[i] * w[i] for i in [(5 * j + t) % COLUMNS for j in range(3)]),
    ),
    # Of integers along an axis, among them the order that undoes an order; ids of two dimensions.
    "integerGather": (
        "const Tensor order = argsort(x), back = gather(order, argsort(-order), -1);"
        "const Tensor which = (iota({T, 3}, 1) * 5 + reshape(tokens, {T, 1})) % C;"
        "const Tensor far = gather((order - 5) * 100000, which, -1);"
        "const Tensor same = reshape(rows[reshape(tokens, {4, 4})], {T, C});"
        "return sum(same * w * cast(back, f32), -1) + sum(cast(far, f32) * slice(w, 0, 0, 3), -1) * 1e-5",
        lambda x, w, t: dot([v * i for i, v in enumerate(x)], w)
        + dot([largest(x, COLUMNS)[(5 * j + t) % COLUMNS] - 5 for j in range(3)], w),
    ),
    # By the step, which is 0.
    "select": (
        "return sum(select(step() < 1, x, 0.0) * w, -1) + sum(select(step() < 0, 1.0, x) * w, -1)",
        lambda x, w, t: 2 * dot(x, w),
    ),
    "transpose": (
        "return sum(reshape(transpose(reshape(x, {T, 3, 4}), {0, 2, 1}), {T, C}) * w, -1)",
        lambda x, w, t: dot([x[4 * i + j] for j in range(4) for i in range(3)], w),
    ),
    "bits": (
        "const Tensor b = bitcast(x, i32);"
        "const Tensor high = cast(b >> 16, u16);"
        "const Tensor kept = cast(bitcast(high, bf16), f32);"
        "const Tensor same = bitcast((cast(high, i32) << 16) | cast(cast(b, u16), i32), f32);"
        "return sum((kept + 2.0 * same) * w, -1) + 0.0 * sum(x, -1)",
        lambda x, w, t: dot([upper(v) + 2 * v for v in x], w),
    ),
    "integers": (
        "const Tensor n = (36313 * tokens ^ 27191 * (tokens + 1)) % 377279;"
        "return sum(x * w, -1) * reshape(cast(n & 15, f32), {T, 1})",
        lambda x, w, t: dot(x, w) * ((36313 * t ^ 27191 * (t + 1)) % 377279 & 15),
    ),
}


def running_sum(x, from_end=False):
    x = x[::-1] if from_end else x
    y = [math.fsum(x[: t + 1]) for t in range(len(x))]
    return y[::-1] if from_end else y


def columns(rows):
    return [list(column) for column in zip(*rows)]


def recurrent(a, b, h):
    found = []
    for x, y in zip(a, b):
        h = x * h + y
        found.append(h)
    return found


def attended(rows, width, scale):
    """Of tokens with themselves and those before them, as queries, keys and values: what attention
    comes to, and its log-sum-exp."""
    for t, q in enumerate(rows):
        keys = rows[max(0, t - width + 1) : t + 1]
        scores = [scale * dot(q, k) for k in keys]
        lse = log_sum_exp(scores)
        yield [dot([math.exp(s - lse) for s in scores], column) for column in zip(*keys)], lse


ATTENTION = """const Tensor t = iota({T}), zero = full({T}, 0, i32), q = reshape(x, {T, 1, C});
const Tensor scale = reshape(0.1 + 0.05 * sum(w), {});
const auto [y, lse] = attentionSums(q, q, q, {.first = max(t - 4, zero), .last = t, .scale = scale});
return sum(reshape(y, {T, C}) * w, -1) + lse"""
# Values of the first columns, or of all twice.
VALUES = """const Tensor t = iota({T}), q = reshape(x, {T, 1, C});
const Tensor v = slice(concat({q, q}, 2), 2, 0, SIZE), weights = slice(concat({w, w}, 0), 0, 0, SIZE);
const auto [y, lse] = attentionSums(q, q, v, {.first = full({T}, 0, i32), .last = t, .scale = 0.2});
return sum(reshape(y, {T, SIZE}) * weights, -1) + lse"""
# Queries of all tokens to keys of the first six, and of the last six to all.
CROSS = """const Tensor t = iota({T}), q = reshape(x, {T, 1, C}), few = slice(q, 0, 0, 6);
const auto [y, lse] = attentionSums(q, few, few * 0.5, {.first = t * 0, .last = min(t, 5), .scale = 0.2});
const Tensor late = slice(t, 0, 10, 6), all = full({6}, 0, i32);
const Tensor z = attention(slice(q, 0, 10, 6), q, q, {.first = all, .last = late, .scale = 0.3});
return sum(reshape(y, {T, C}) * w, -1) + lse + sum(reshape(z, {6, C}) * w)"""


def cross(rows, w):
    total = []
    for t, q in enumerate(rows):
        keys = rows[: min(t, 5) + 1]
        scores = [0.2 * dot(q, k) for k in keys]
        lse = log_sum_exp(scores)
        y = [0.5 * dot([math.exp(s - lse) for s in scores], column) for column in zip(*keys)]
        total += [dot(y, w), lse]
    late = [y for y, _ in attended(rows, ROWS, 0.3)][10:]
    return math.fsum(total) + ROWS * math.fsum(dot(y, w) for y in late)


# Leading dimensions on either side alone, on both, missing; and a linear layer of more of them.
UNEVEN = """const Tensor a = reshape(x, {2, 1, 8, C}), b = reshape(x * w, {1, 4, 4, C});
const Tensor both = matmul(a, transpose(b));
const Tensor left = matmul(slice(x, 0, 0, C), reshape(x, {2, C, 8})), right = matmul(a, transpose(slice(x, 0, 0, 3)));
const Tensor three = linear(reshape(x, {4, 4, C}), slice(x, 0, 0, 5));
return sum(both * both) * 0.01 + sum(left * slice(w, 0, 0, 8)) + sum(right * right) + reshape(sum(three * slice(w, 0, 0, 5), {-1}), {T, 1})"""


def uneven(rows, w):
    flat = [v for row in rows for v in row]
    both = sum(dot([p * q for p, q in zip(a, w)], b) ** 2 for a in rows for b in rows)
    left = math.fsum(
        rows[m][k] * flat[96 * i + 8 * k + n] * w[n]
        for i in range(2)
        for m in range(COLUMNS)
        for k in range(COLUMNS)
        for n in range(8)
    )
    right = sum(dot(a, b) ** 2 for a in rows for b in rows[:3])
    three = math.fsum(dot(a, rows[n]) * w[n] for a in rows for n in range(5))
    return ROWS * (0.01 * both + left + right) + three


BAND = """const Tensor q = reshape(x, {T, 2, 6}), s = bandScores(q, 0.5 * q, 5);
const Tensor which = iota({T, 2, 5}) + iota({T, 2, 5}, 2) - 4;
const Tensor p = exp(select(which >= 0, s, -100.0));
const Tensor mixed = p + 0.5 * rotate(p, 1);
return sum(reshape(bandProduct(mixed, q), {T, C}) * w, -1)"""


def band(rows, w):
    total = []
    for t in range(ROWS):
        for h in (0, 6):
            others = range(t - 4, t + 1)
            q, k = rows[t][h : h + 6], [rows[i][h : h + 6] if i >= 0 else None for i in others]
            p = [math.exp(0.5 * dot(q, x)) if x else math.exp(-100) for x in k]
            mixed = [p[i] + 0.5 * p[(i + 1) % 5] for i in range(5)]
            y = [math.fsum(m * x[d] for m, x in zip(mixed, k) if x) for d in range(6)]
            total.append(dot(y, w[h : h + 6]))
    return math.fsum(total)


# Rows of three groups, of which the second has none, and rows of no group.
GROUPS = """const Tensor ends = iota({3}) * iota({3}) * 3;
const Tensor y = groupedLinear(x, reshape(concat({x, slice(x, 0, 0, 8)}, 0), {3, 8, C}), ends);
return reshape(sum(y * slice(w, 0, 0, 8), -1), {T, 1})"""


def groups(rows, w):
    weights = [(rows + rows[:8])[8 * g : 8 * g + 8] for g in range(3)]
    total = []
    for n, row in enumerate(rows):
        g = next((g for g, end in enumerate((0, 3, 12)) if n < end), None)
        if g is not None:
            total.append(math.fsum(dot(row, weights[g][m]) * w[m] for m in range(8)))
    return math.fsum(total)


# What all rows come to, likewise, of the rows and w.
SEQUENCES = {
    "cumsum": (
        "return sum(cumsum(x) * cumsum(x, {.axis = 1, .reverse = true}) * w, -1)",
        lambda rows, w: math.fsum(
            dot([a * b for a, b in zip(down, running_sum(row, True))], w)
            for down, row in zip(columns([running_sum(c) for c in columns(rows)]), rows)
        ),
    ),
    "cumprod": (
        "return sum(cumprod(x * select(iota({T, C}, 0, f32) < 5.0, 1.0, 0.5)) * w, -1)"
        " + sum(cumprod(x * select(iota({T, C}, 1) == 3, 0.0, w), {.axis = -1, .reverse = true}), -1)",
        lambda rows, w: math.fsum(
            w[c] * math.prod(column[i] * (1 if i < 5 else 0.5) for i in range(t + 1))
            for c, column in enumerate(columns(rows))
            for t in range(ROWS)
        )
        + math.fsum(
            math.prod(0 if c == 3 else row[c] * w[c] for c in range(first, COLUMNS))
            for row in rows
            for first in range(COLUMNS)
        ),
    ),
    "recurrence": (
        "return sum(recurrence(sigmoid(w), x, {.initial = 0.5}), -1)"
        " + sum(recurrence(tanh(x), w, {.axis = 1, .reverse = true}), -1)",
        lambda rows, w: math.fsum(
            h
            for c, column in enumerate(columns(rows))
            for h in recurrent([1 / (1 + math.exp(-w[c]))] * ROWS, column, 0.5)
        )
        + math.fsum(
            h for row in rows for h in recurrent([math.tanh(v) for v in row[::-1]], w[::-1], 0)
        ),
    ),
    "gather": (
        "const Tensor first = (iota({5}) * 7 + 3) % T;"
        "const Tensor each = (iota({T, 4}) * 5 + iota({T, 4}, 1)) % 3;"
        "const Tensor rows = gather(x * w, first, 0);"
        "const Tensor parts = gather(reshape(x, {T, 3, 4}), each, 1);"
        "return reshape(sum(parts * parts * reshape(slice(w, 0, 0, 4), {1, 1, 4}), {1, 2}), {T, 1})"
        " + sum(gather(x, each, -1) * slice(w, 0, 4, 4), -1) + sum(rows * rows)",
        lambda rows, w: sum(
            rows[t][4 * ((5 * t + j) % 3) + c] ** 2 * w[c]
            for t in range(ROWS)
            for j in range(4)
            for c in range(4)
        )
        + sum(rows[t][(5 * t + j) % 3] * w[4 + j] for t in range(ROWS) for j in range(4))
        + ROWS * sum((v * u) ** 2 for i in range(5) for v, u in zip(rows[(7 * i + 3) % ROWS], w)),
    ),
    "scatterAdd": (
        "const Tensor to = (iota({T}) * iota({T})) % 6;"
        "const Tensor each = (iota({T, C}) + iota({T, C}, 1) * 2) % 5;"
        "const Tensor y = scatterAdd(x * w, to, 6), z = scatterAdd(x, each, 5, 1);"
        "return sum(z * z * slice(w, 0, 0, 5), -1) + sum(y * y)",
        lambda rows, w: math.fsum(
            math.fsum(v for c, v in enumerate(row) if (t + 2 * c) % 5 == i) ** 2 * w[i]
            for t, row in enumerate(rows)
            for i in range(5)
        )
        + ROWS
        * math.fsum(
            math.fsum(rows[t][c] * w[c] for t in range(ROWS) if t * t % 6 == i) ** 2
            for i in range(6)
            for c in range(COLUMNS)
        ),
    ),
    "attentionSums": (
        ATTENTION,
        lambda rows, w: math.fsum(
            dot(y, w) + lse for y, lse in attended(rows, 5, 0.1 + 0.05 * math.fsum(w))
        ),
    ),
    "smallerValues": (
        VALUES.replace("SIZE", "8"),
        lambda rows, w: math.fsum(dot(y[:8], w[:8]) + lse for y, lse in attended(rows, ROWS, 0.2)),
    ),
    "largerValues": (
        VALUES.replace("SIZE", "24"),
        lambda rows, w: math.fsum(2 * dot(y, w) + lse for y, lse in attended(rows, ROWS, 0.2)),
    ),
    "cross": (CROSS, cross),
    "uneven": (UNEVEN, uneven),
    "band": (BAND, band),
    "groupedLinear": (GROUPS, groups),
}
# The numbers of the columns that topK takes of rows in which NaN of either sign lies, one of another
# payload, infinities and numbers; and argmax's. Every place in the order counts.
NAN = """
    const Tensor n = round(2.0 * x), infinity = 1.0 / full({T, C}, 0, f32);
    const Tensor one = cast(bitcast(full({T, C}, 0x7fc00000, i32), f32), TYPE);
    const Tensor two = cast(bitcast(full({T, C}, -0x00300000, i32), f32), TYPE);
    const Tensor far = cast(select(n > 2.0, infinity, n), TYPE);
    const Tensor y = select(n == 1.0, one, select(n < -1.0, two, far));
    const Tensor order = cast(iota({T, 5}, 1) * iota({T, 5}, 1) + 1, f32);
    return sum(cast(topK(y, 5).indices, f32) * order, -1) + 100.0 * cast(argmax(y), f32)
        + 0.0 * (sum(x, -1) + sum(w))"""


def places_of_nan(x):
    def key(i):
        n = round(2 * x[i])
        return (-math.inf if n == 1 or n < -1 else -n if n <= 2 else -1000, i)

    order = sorted(range(len(x)), key=key)
    return sum(i * (j * j + 1) for j, i in enumerate(order[:5])) + 100 * order[0]


# Maxima of integers, which f32 does not have exactly: of rows, of columns, and of all; of a few and
# of so many that a block's threads exchange them.
INTEGERS = """
    const Tensor n = cast(round(100.0 * x), i32) * 100003;
    const Tensor wide = (iota({T, 5000}, 1) * 7919 + slice(n, 1, 0, 1)) % 100000007 - 50000000;
    const Tensor tall = (iota({5000, C}) * 7919 + slice(n, 0, 0, 1)) % 100000007 - 50000000;
    auto kept = [](const Tensor &y) { return cast(y % 1009, f32); };
    return kept(maximum(n, -1)) + kept(maximum(wide, -1)) + kept(maximum(n))
        + sum(kept(maximum(n, 0)) + kept(maximum(tall, 0)), -1) + 0.0 * (sum(x, -1) + sum(w))"""


def maxima_of_integers(parts):
    numbers = [[round(100 * v) * 100003 for v in x] for x in parts]

    def most(first):
        return max((7919 * i + first) % 100000007 - 50000000 for i in range(5000)) % 1009

    row = [max(x) % 1009 + most(x[0]) for x in numbers]
    column = [max(x) % 1009 for x in columns(numbers)] + [most(v) for v in numbers[0]]
    return sum(row) + ROWS * (sum(column) + max(map(max, numbers)) % 1009)


# Whose gradients end at whole numbers and at bits: x's is zero.
FLAT = ("whole", "argmax", "bits")


class Functions(RunTest):
    def expected(self, function, rows, w, name):
        """The loss, and its gradients by rows and w."""

        def loss(rows, w):
            parts = [rows[at : at + COLUMNS] for at in range(0, len(rows), COLUMNS)]
            if name in SEQUENCES:
                return function(parts, w)
            return math.fsum(function(x, w, t) for t, x in enumerate(parts))

        def slope(at, index):
            step, sides = 1e-6, []
            for sign in (1, -1):
                moved = [list(rows), list(w)]
                moved[at][index] += sign * step
                sides.append(loss(*moved))
            return (sides[0] - sides[1]) / (2 * step)

        by_rows = [0 if name in FLAT else slope(0, i) for i in range(len(rows))]
        return loss(rows, w), by_rows, [slope(1, i) for i in range(len(w))]

    def test_functions(self):
        write_shard(self.path("t_0.bin"), [*range(ROWS), 0, 0])
        for name, (code, function) in (CASES | SEQUENCES).items():
            with self.subTest(name):
                source, plan = self.path(name + ".cpp"), self.path(name + ".plan")
                with open(source, "w", encoding="utf-8") as file:
                    file.write(MODEL.replace("CODE", code))
                done = run_command("nanoc", "compile", source, "-o", plan, "--target", "cpu")
                self.assertEqual(done.returncode, 0, done.stderr)
                _, start = self.train(plan, name + "-start", "--steps", 0)
                log, _ = self.train(plan, name, "--steps", 1, "--save", self.path(name))
                state = os.path.join(self.path(name), "step-000001", "optimizer.safetensors")
                start, state = read_safetensors(start), read_safetensors(state)
                loss, rows, w = self.expected(function, start["rows"], list(start["w"]), name)
                found = train_losses(log)[0] * ROWS
                self.assertLessEqual(abs(found - loss), 2e-6 * max(1, abs(loss)) * ROWS, name)
                # Adam's first moment after one step is (1 − β₁)·gradient.
                for parameter, wanted in (("rows", rows), ("w", w)):
                    gradient = [value / 0.5 for value in state[parameter + ".adam_m"]]
                    if not any(wanted):
                        self.assertFalse(any(gradient), parameter)
                    else:
                        self.assertLessEqual(distance(gradient, wanted), 2e-5, parameter)

    def test_loss_of_a_sequence(self):
        """A single number is a sequence's mean loss, in training and validation."""
        write_shard(self.path("t_0.bin"), [*range(ROWS), 0, 0])
        found = []
        for name, result in (("each", "reshape(f(), {T})"), ("whole", "mean(f())")):
            source, plan = self.path(name + ".cpp"), self.path(name + ".plan")
            text = MODEL.replace("CODE", "return sum(x * w, -1)").replace("Loss::sum", "Loss::mean")
            with open(source, "w", encoding="utf-8") as file:
                file.write(text.replace("return reshape(f(), {T})", "return " + result))
            done = run_command("nanoc", "compile", source, "-o", plan, "--target", "cpu")
            self.assertEqual(done.returncode, 0, done.stderr)
            log, end = self.train(plan, name, "--steps", 1, "--val", self.path("t_0.bin"))
            found.append((train_losses(log), read_safetensors(end)))
        self.assertEqual(*found)

    def assert_loss_on_both(self, name, code, expected):
        """The sum of all losses of one step, to the bit, on the CPU and in kernels for CUDA."""
        write_shard(self.path("t_0.bin"), [*range(ROWS), 0, 0])
        for target, device in (("cpu", "cpu"), ("cuda", "emulator")):
            run = f"{name}-{target}"
            with self.subTest(run):
                source, plan = self.path(run + ".cpp"), self.path(run + ".plan")
                with open(source, "w", encoding="utf-8") as file:
                    file.write(MODEL.replace("CODE", code))
                done = run_command("nanoc", "compile", source, "-o", plan, "--target", target)
                self.assertEqual(done.returncode, 0, done.stderr)
                _, start = self.train(plan, run + "-start", "--device", device, "--steps", 0)
                log, _ = self.train(plan, run, "--device", device, "--steps", 1)
                rows = read_safetensors(start)["rows"]
                parts = [rows[at : at + COLUMNS] for at in range(0, len(rows), COLUMNS)]
                self.assertEqual(train_losses(log)[0] * ROWS, expected(parts))

    def test_order_of_nan(self):
        """NaN is the largest, in either type."""
        for element in ("f32", "bf16"):
            self.assert_loss_on_both(
                element,
                NAN.replace("TYPE", element),
                lambda parts: sum(places_of_nan(x) for x in parts),
            )

    def test_maxima_of_integers(self):
        self.assert_loss_on_both("integers", INTEGERS, maxima_of_integers)


if __name__ == "__main__":
    main()
