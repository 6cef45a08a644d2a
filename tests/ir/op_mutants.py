"""op_mutants.py COUNT [--seed S]: holds the verifiers of the graph's ops to what the ops mean.

Valid ops, of random sizes, are changed in one place: a size, a rank, an element type, an attribute, an operand. Whether
the result still means something is worked out here, from the ops' equations alone: every index that an equation uses lies
in its tensor, and every element of a result has a value. nano-opt is asked about the same text. An op that means nothing
and passes is a survivor; one that means something and is refused is counted, as verifiers may ask for more. Ends with a
table; exit status 1 where there is a survivor, or where an op without a change is refused.
"""

import collections
import math
import os
import re
import sys

from mutants import attack

F32, BF16, I32, I16, E4M3, E5M2 = "f32", "bf16", "i32", "i16", "f8E4M3FN", "f8E5M2"
ELEMENTS = [F32, BF16, I32, I16, E4M3, E5M2]
FLOATS = {F32, BF16, E4M3, E5M2}
HOSTILE = [0, -1, 1 << 31, 1 << 62, (1 << 63) - 1, -(1 << 63)]

Type = collections.namedtuple("Type", "shape element")


class Op:
    """`operands` and `results` are types, `attributes` numbers, lists of numbers, floats as text, True of a unit."""

    def __init__(self, name, operands, results, **attributes):
        self.name, self.operands, self.results, self.attributes = name, operands, results, attributes

    def copy(self):
        copied = {k: list(v) if isinstance(v, list) else v for k, v in self.attributes.items()}
        return Op(self.name, list(self.operands), list(self.results), **copied)


def tensor(element, *shape):
    return Type(tuple(shape), element)


def count(shape):
    return math.prod(shape)


# What the ops mean. Each takes the op, whose ranks and numbers of operands may be anything, and says whether its equation
# has a value for each element of each result. IndexError, ValueError: it has not.


def all_of(*facts):
    return all(facts)


def elementwise(op):
    return len({t.shape for t in op.operands + op.results}) == 1


def same_elements(op):
    return elementwise(op) and len({t.element for t in op.operands + op.results}) == 1


def select(op):
    a, b, x, y = op.operands
    return all_of(elementwise(op), a.element == b.element, x.element == y.element == op.results[0].element)


def bitcast(op):
    bits = {F32: 32, I32: 32, BF16: 16, I16: 16, E4M3: 8, E5M2: 8}
    return elementwise(op) and bits[op.operands[0].element] == bits[op.results[0].element]


def normal(op):
    return elementwise(op) and {t.element for t in op.operands} == {I32} and op.results[0].element == F32


def iota(op):
    return 0 <= op.attributes["dim"] < len(op.results[0].shape)


def broadcast(op):
    (x,), (y,), dims = op.operands, op.results, op.attributes["dims"]
    return all_of(
        x.element == y.element,
        len(dims) == len(x.shape) == len(set(dims)),
        all(0 <= d < len(y.shape) and size in (1, y.shape[d]) for size, d in zip(x.shape, dims)),
    )


def reshape(op):
    (x,), (y,) = op.operands, op.results
    return x.element == y.element and count(x.shape) == count(y.shape)


def slice_(op):
    (x,), (y,), dim, start = op.operands, op.results, op.attributes["dim"], op.attributes["start"]
    if len(x.shape) != len(y.shape) or not 0 <= dim < len(x.shape) or x.element != y.element:
        return False
    ends = [size + (start if d == dim else 0) for d, size in enumerate(y.shape)]
    others = all(a == b for d, (a, b) in enumerate(zip(x.shape, y.shape)) if d != dim)
    return start >= 0 and others and all(end <= size for end, size in zip(ends, x.shape))


def concat(op):
    (y,), dim = op.results, op.attributes["dim"]
    if not 0 <= dim < len(y.shape) or {t.element for t in op.operands} != {y.element}:
        return False
    if any(len(t.shape) != len(y.shape) for t in op.operands):
        return False
    others = all(a == b for t in op.operands for d, (a, b) in enumerate(zip(t.shape, y.shape)) if d != dim)
    return others and sum(t.shape[dim] for t in op.operands) == y.shape[dim]


def rotate(op):
    return same_elements(op) and len(op.operands[0].shape) > 0


def transpose(op):
    (x,), (y,) = op.operands, op.results
    return len(x.shape) > 1 and y == Type(x.shape[:-2] + (x.shape[-1], x.shape[-2]), x.element)


def permute(op):
    (x,), (y,), order = op.operands, op.results, op.attributes["order"]
    if sorted(order) != list(range(len(x.shape))):
        return False
    return y == Type(tuple(x.shape[d] for d in order), x.element)


def reduce(op):
    (x,), (y,), dims = op.operands, op.results, op.attributes["dims"]
    if not all(0 <= d < len(x.shape) for d in dims) or op.attributes["combiner"] not in (0, 1, 2):
        return False
    # A maximum or log-sum-exp of nothing is no number.
    of_nothing = op.attributes["combiner"] != 0 and count(x.shape) == 0 < count(y.shape)
    return not of_nothing and y == Type(tuple(size for d, size in enumerate(x.shape) if d not in dims), x.element)


def scan(op):
    return same_elements(op) and len(op.operands[0].shape) == 1 and op.attributes["combiner"] in (0, 1)


def argsort(op):
    return elementwise(op) and len(op.operands[0].shape) == 2 and op.results[0].element == I32


def row_function(most):
    return lambda op: same_elements(op) and len(op.operands[0].shape) == 2 and op.operands[0].shape[1] <= most


def product(a, b, op):
    """The shape of op(a)·op(b)."""
    *batch, m, k = a
    *other, n, l = b
    m, k = (k, m) if "transpose_a" in op.attributes else (m, k)
    l, n = (n, l) if "transpose_b" not in op.attributes else (l, n)
    if batch != other or k != l:
        raise ValueError
    return tuple(batch) + (m, n)


def matmul(op):
    a, b, *addend = op.operands
    shape = product(a.shape, b.shape, op)
    return len(addend) < 2 and all(t.shape == shape for t in addend + op.results)


def blocks(x, scale):
    """One scale a block of equal blocks along every dimension, or one of all."""
    return scale.shape == () or (
        len(scale.shape) == len(x.shape) and all(s > 0 and n % s == 0 for n, s in zip(x.shape, scale.shape))
    )


def scaled_matmul(op):
    a, b, scale_a, scale_b, *addend = op.operands
    shape = product(a.shape, b.shape, op)
    return all_of(
        len(addend) < 2, all(t.shape == shape for t in addend + op.results), blocks(a, scale_a), blocks(b, scale_b)
    )


def scaled(op):
    (x, scale), (y,) = op.operands, op.results
    return x.shape == y.shape and blocks(x, scale)


def gather(op):
    (table, ids), (y,) = op.operands, op.results
    return all_of(
        ids.element == I32, len(ids.shape) == 1, len(table.shape) == 2, table.element == y.element,
        table.shape[0] > 0 or ids.shape[0] == 0,
        y.shape == (ids.shape[0], table.shape[1]),
    )


def scatter_add(op):
    (x, ids), (table,) = op.operands, op.results
    return all_of(
        ids.element == I32, len(ids.shape) == 1, len(table.shape) == 2, x.shape == (ids.shape[0], table.shape[1]),
        table.shape[0] > 0 or ids.shape[0] == 0,
    )


def grouped(x, w, transpose, y, ends):
    n, k = x.shape
    g, rows, columns = w.shape
    return all_of(
        ends == Type((g,), I32), g > 0, (columns if transpose else rows) == k,
        y.shape == (n, rows if transpose else columns),
    )


def grouped_matmul(op):
    (x, w, ends), (y,) = op.operands, op.results
    return x.element == w.element and grouped(x, w, "transpose" in op.attributes, y, ends)


def grouped_outer(op):
    (a, b, ends), (w,) = op.operands, op.results
    return a.element == b.element and grouped(a, w, False, b, ends)


def heads(op):
    q, k, v, first, last = op.operands[:5]
    tokens, count_of, size = q.shape
    return all_of(
        len(k.shape) == 3, k.shape == v.shape, k.shape[0] == tokens, k.shape[2] == size,
        k.shape[1] > 0 and count_of % k.shape[1] == 0,
        first == last == Type((tokens,), I32),
    )


def attention(op):
    y, lse = op.results
    return heads(op) and all_of(y.shape == op.operands[0].shape, lse.shape == op.operands[0].shape[:2])


def attention_grad(op):
    q, k, v, _, _, lse, delta, dy = op.operands
    dq, dk, dv = op.results
    return heads(op) and all_of(
        lse.shape == delta.shape == q.shape[:2], dy.shape == dq.shape == q.shape, dk.shape == dv.shape == k.shape
    )


def cross_entropy(op):
    logits, targets = op.operands
    tokens, columns = logits.shape
    return columns > 0 and targets == Type((tokens,), I32) and all(t.shape == (tokens,) for t in op.results)


def exp_matmul(op):
    x, w, targets, shift = op.operands
    e, *numbers = op.results
    tokens, width = x.shape
    every, other = w.shape
    return all_of(
        x.element == w.element == e.element == BF16, width == other, e.shape == (tokens, every),
        0 < op.attributes["columns"] <= every, targets == Type((tokens,), I32),
        all(t == Type((tokens,), F32) for t in (shift, *numbers)),
    )


def recurrence(op):
    sizes = op.attributes["operandSegmentSizes"]
    return elementwise(op) and len(op.results[0].shape) == 3 and sum(sizes) == len(op.operands) > 0


def band_scores(op):
    (a, b), (s,) = op.operands, op.results
    return a.shape == b.shape and len(a.shape) == 3 and len(s.shape) == 3 and s.shape[:2] == a.shape[:2]


def band_product(op):
    (p, v), (y,) = op.operands, op.results
    return v.shape == y.shape and len(v.shape) == 3 and len(p.shape) == 3 and p.shape[:2] == v.shape[:2]


def part(whole, each, parts):
    return all_of(
        parts > 0, whole.element == each.element, whole.shape[0] == parts * each.shape[0],
        whole.shape[1:] == each.shape[1:],
    )


def scatter(op):
    return part(op.operands[0], op.results[0], op.attributes["parts"])


def all_gather(op):
    return part(op.results[0], op.operands[0], op.attributes["parts"])


def all_reduce(op):
    return same_elements(op) and op.attributes["combiner"] in (0, 1)


def definitions(file):
    path = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../ir/graph", file)
    with open(path, encoding="utf-8") as opened:
        return opened.read()


DEFINED = re.findall(r'Nano_(Unary|FunctionOfTwo)Op<"(\w+)"', definitions("FunctionOps.td"))
UNARY = sorted(name for kind, name in DEFINED if kind == "Unary")
OF_TWO = sorted(name for kind, name in DEFINED if kind == "FunctionOfTwo")
ROWS = {  # and the most columns that each takes
    name: int((re.search(r'let mostColumns = "(\d+)"', text) or ["", (1 << 31) - 1])[1])
    for name, text in re.findall(r'Nano_RowFunctionOp<"(\w+)"(.*?)^}', definitions("RowFunctionOps.td"), re.M | re.S)
}
assert UNARY and OF_TWO and ROWS
BINARY = "add sub mul div max min".split()
INTEGER = "and or xor shl shr rem".split()
MEANINGS = {
    **dict.fromkeys(UNARY + OF_TWO + BINARY + INTEGER, same_elements),
    **{name: row_function(most) for name, most in ROWS.items()},
    "cast": elementwise, "select": select, "bitcast": bitcast, "normal": normal, "iota": iota, "constant": lambda op: True,
    "broadcast": broadcast, "reshape": reshape, "slice": slice_, "concat": concat, "rotate": rotate,
    "transpose": transpose, "permute": permute, "reduce": reduce, "scan": scan, "argsort": argsort,
    "matmul": matmul,
    "scaled_matmul": scaled_matmul, "quantize": scaled, "dequantize": scaled, "gather": gather,
    "scatter_add": scatter_add, "attention": attention, "attention_grad": attention_grad,
    "grouped_matmul": grouped_matmul, "grouped_outer": grouped_outer,
    "cross_entropy": cross_entropy, "exp_matmul": exp_matmul, "recurrence": recurrence, "band_scores": band_scores,
    "band_product": band_product, "reduce_scatter": scatter, "shard": scatter, "all_gather": all_gather,
    "all_reduce": all_reduce,
}  # fmt: skip


# Operands of ops whose meaning above goes over all that there are.
OPERANDS = {
    **dict.fromkeys(UNARY + ["cast", "bitcast", "rotate", "scan", "argsort", *ROWS, "all_reduce"], 1),
    **dict.fromkeys(OF_TWO + BINARY + INTEGER, 2), "normal": 3,
}  # fmt: skip


def means_something(op):
    types = op.operands + op.results
    if op.name in OPERANDS and len(op.operands) != OPERANDS[op.name]:
        return False
    if any(size is None or size < 0 for t in types for size in t.shape):
        return False
    try:
        return MEANINGS[op.name](op)
    except (IndexError, ValueError):
        return False


# Valid ops.


def make(name, r):
    n = lambda: r.choice([1, 2, 3, 4, 6, 8])
    real = lambda: r.choice([F32, BF16])
    sizes = lambda most=3, least=0: tuple(n() for _ in range(r.randint(least, most)))
    e = real()
    x = Type(sizes(), e)
    if name in UNARY:
        return Op(name, [x], [x])
    if name in OF_TWO:
        return Op(name, [x, x], [x])
    if name in BINARY:
        x = Type(x.shape, r.choice([e, I32]))
        return Op(name, [x, x], [x])
    if name in INTEGER:
        x = Type(x.shape, I32)
        return Op(name, [x, x], [x])
    if name == "cast":
        return Op(name, [x], [Type(x.shape, r.choice([F32, BF16]))])
    if name == "select":
        c = Type(x.shape, r.choice([F32, I32]))
        return Op(name, [c, c, x, x], [x], predicate=r.randrange(6))
    if name == "bitcast":
        a, b = r.choice([(F32, I32), (I32, F32), (BF16, I16), (I16, BF16)])
        return Op(name, [Type(x.shape, a)], [Type(x.shape, b)])
    if name == "normal":
        return Op(name, [Type(x.shape, I32)] * 3, [Type(x.shape, F32)])
    if name == "iota":
        y = Type(sizes(3, 1), I32)
        return Op(name, [], [y], dim=r.randrange(len(y.shape)))
    if name == "constant":
        return Op(name, [], [x], value="5.000000e-01")
    if name == "broadcast":
        y = sizes(3, 1)
        dims = sorted(r.sample(range(len(y)), r.randint(0, len(y))))
        return Op(name, [Type(tuple(r.choice([1, y[d]]) for d in dims), e)], [Type(y, e)], dims=dims)
    if name == "reshape":
        a, b, c = n(), n(), n()
        return Op(name, [tensor(e, a, b, c)], [r.choice([tensor(e, a * b, c), tensor(e, a, b * c), tensor(e, a * b * c)])])
    if name == "slice":
        y = sizes(3, 1)
        dim, start = r.randrange(len(y)), r.randint(0, 4)
        whole = tuple(size + (start + r.randint(0, 2) if d == dim else 0) for d, size in enumerate(y))
        return Op(name, [Type(whole, e)], [Type(y, e)], dim=dim, start=start)
    if name == "concat":
        y = sizes(3, 1)
        dim, parts = r.randrange(len(y)), [n() for _ in range(r.randint(1, 3))]
        shaped = lambda size: Type(y[:dim] + (size,) + y[dim + 1 :], e)
        return Op(name, [shaped(size) for size in parts], [shaped(sum(parts))], dim=dim)
    if name == "rotate":
        x = Type(sizes(3, 1), e)
        return Op(name, [x], [x], shift=r.randrange(x.shape[-1]))
    if name == "transpose":
        x = sizes(3, 2)
        return Op(name, [Type(x, e)], [Type(x[:-2] + (x[-1], x[-2]), e)])
    if name == "permute":
        x = sizes(4, 2)
        order = r.sample(range(len(x)), len(x))
        return Op(name, [Type(x, e)], [Type(tuple(x[d] for d in order), e)], order=order)
    if name == "reduce":
        x = sizes(3, 1)
        dims = sorted(r.sample(range(len(x)), r.randint(1, len(x))))
        combiner = r.randrange(3)
        e = F32 if combiner == 2 else e
        return Op(name, [Type(x, e)], [Type(tuple(s for d, s in enumerate(x) if d not in dims), e)],
                  dims=dims, combiner=combiner)  # fmt: skip
    if name == "scan":
        x = tensor(I32, n())
        return Op(name, [x], [x], combiner=r.randrange(2))
    if name == "argsort":
        x = Type(sizes(2, 2), r.choice([e, I32]))
        return Op(name, [x], [Type(x.shape, I32)])
    if name in ROWS:
        x = Type(sizes(2, 2), e)
        return Op(name, [x], [x])
    if name in ("matmul", "scaled_matmul"):
        batch = sizes(1) if name == "matmul" else ()
        m, k, l = n(), n(), n()
        flags = {flag: True for flag in ("transpose_a", "transpose_b") if r.random() < 0.5}
        a = batch + ((k, m) if "transpose_a" in flags else (m, k))
        b = batch + ((l, k) if "transpose_b" in flags else (k, l))
        y = Type(batch + (m, l), F32)
        addend = [y] if r.random() < 0.5 else []
        flags.update(alpha="1.000000e+00", beta="1.000000e+00")
        if name == "matmul":
            return Op(name, [Type(a, e), Type(b, e), *addend], [y], **flags)
        scales = [tensor(F32), tensor(F32)]
        return Op(name, [Type(a, E4M3), Type(b, E4M3), *scales, *addend], [y], **flags)
    if name in ("quantize", "dequantize"):
        x, scale = r.choice([((4, 256), (4, 2)), ((4, 256), ()), ((256, 3), (2, 3)), ((3, 5), ())])
        narrow, wide = Type(x, r.choice([E4M3, E5M2])), Type(x, e)
        pair = (wide, narrow) if name == "quantize" else (narrow, wide)
        return Op(name, [pair[0], Type(scale, F32)], [pair[1]])
    if name == "gather":
        v, t, d = n(), n(), n()
        return Op(name, [tensor(e, v, d), tensor(I32, t)], [tensor(e, t, d)])
    if name == "scatter_add":
        v, t, d = n(), n(), n()
        return Op(name, [tensor(e, t, d), tensor(I32, t)], [tensor(F32, v, d)])
    if name in ("grouped_matmul", "grouped_outer"):
        g, t, k, m = n(), n(), n(), n()
        x, y, ends = tensor(e, t, k), tensor(e, t, m), tensor(I32, g)
        if name == "grouped_outer":
            return Op(name, [x, y, ends], [tensor(real(), g, k, m)])
        flags = {"transpose": True} if r.random() < 0.5 else {}
        return Op(name, [x, tensor(e, g, *((m, k) if flags else (k, m))), ends], [y], **flags)
    if name in ("attention", "attention_grad"):
        t, kept, group, size = n(), r.choice([1, 2]), r.choice([1, 2, 3]), n()
        q, k = tensor(e, t, kept * group, size), tensor(e, t, kept, size)
        ids, lse = tensor(I32, t), tensor(F32, t, kept * group)
        if name == "attention":
            return Op(name, [q, k, k, ids, ids], [q, lse], scale="1.000000e+00")
        return Op(name, [q, k, k, ids, ids, lse, lse, q], [q, k, k], scale="1.000000e+00")
    if name == "cross_entropy":
        t, v = n(), n()
        return Op(name, [tensor(F32, t, v), tensor(I32, t)], [tensor(F32, t)] * 2)
    if name == "exp_matmul":
        t, v, d = n(), n() + 1, n()
        row = tensor(F32, t)
        return Op(name, [tensor(BF16, t, d), tensor(BF16, v, d), tensor(I32, t), row],
                  [tensor(BF16, t, v), row, row], columns=r.randint(1, v))  # fmt: skip
    if name == "recurrence":
        x = Type(sizes(3, 3), F32)
        segments = r.choice([[1, 1], [0, 1], [1, 0]])
        return Op(name, [x] * sum(segments), [x], initial="1.000000e+00", operandSegmentSizes=segments)
    if name == "band_scores":
        x = Type(sizes(3, 3), e)
        return Op(name, [x, x], [Type(x.shape[:2] + (r.randint(1, x.shape[0]),), F32)])
    if name == "band_product":
        v = Type(sizes(3, 3), e)
        return Op(name, [Type(v.shape[:2] + (r.randint(1, v.shape[0]),), F32), v], [v])
    parts, x = r.choice([1, 2, 4]), Type(sizes(3, 1), e)
    whole = Type((parts * x.shape[0],) + x.shape[1:], e)
    if name in ("reduce_scatter", "shard"):
        return Op(name, [whole], [x], parts=parts, ranks=0)
    if name == "all_gather":
        return Op(name, [x], [whole], parts=parts, ranks=0)
    assert name == "all_reduce", name
    return Op(name, [x], [x], combiner=r.randrange(2), ranks=0)


# Changes.


def change_types(op, r, change):
    lists = [each for each in (op.operands, op.results) if each]
    where = r.choice(lists)
    i = r.randrange(len(where))
    where[i] = change(where[i])


def change_size(op, r):
    def change(t):
        if not t.shape:
            return t
        d = r.randrange(len(t.shape))
        size = r.choice([t.shape[d] - 1, t.shape[d] + 1, 2 * t.shape[d], 1, 0, None])
        return Type(t.shape[:d] + (size,) + t.shape[d + 1 :], t.element)

    change_types(op, r, change)


def change_rank(op, r):
    def change(t):
        d = r.randint(0, len(t.shape))
        if d < len(t.shape) and r.random() < 0.5:
            return Type(t.shape[:d] + t.shape[d + 1 :], t.element)
        return Type(t.shape[:d] + (r.choice([1, 2]),) + t.shape[d:], t.element)

    change_types(op, r, change)


def swap_sizes(op, r):
    def change(t):
        if len(t.shape) < 2:
            return t
        shape, (a, b) = list(t.shape), r.sample(range(len(t.shape)), 2)
        shape[a], shape[b] = shape[b], shape[a]
        return Type(tuple(shape), t.element)

    change_types(op, r, change)


def change_element(op, r):
    change_types(op, r, lambda t: Type(t.shape, r.choice(ELEMENTS)))


def change_number(op, r):
    names = [k for k, v in op.attributes.items() if type(v) is int]
    if names:
        name = r.choice(names)
        number = op.attributes[name]
        hostile = HOSTILE if name not in ("combiner", "ranks", "predicate") else [0, -1, 3, 6]
        op.attributes[name] = r.choice([number - 1, number + 1, *hostile])


def change_list(op, r):
    names = [k for k, v in op.attributes.items() if isinstance(v, list)]
    if not names:
        return
    numbers = op.attributes[r.choice(names)]
    how = r.randrange(4)
    if how == 0:
        numbers.append(r.randint(-1, 3))
    elif numbers and how == 1:
        numbers.pop(r.randrange(len(numbers)))
    elif numbers:
        numbers[r.randrange(len(numbers))] = r.choice([-1, 0, 1, 2, 3, *HOSTILE[2:]])


def toggle(op, r):
    names = {"matmul": ["transpose_a", "transpose_b"], "scaled_matmul": ["transpose_a", "transpose_b"]}.get(op.name)
    if names:
        name = r.choice(names)
        if not op.attributes.pop(name, False):
            op.attributes[name] = True


def change_operands(op, r):
    if not op.operands:
        return
    i, how = r.randrange(len(op.operands)), r.randrange(3)
    if how == 0:
        op.operands.pop(i)
    elif how == 1:
        op.operands.insert(i, op.operands[i])
    else:
        op.operands[i] = r.choice(op.operands)


CHANGES = {
    "a size": change_size, "a dimension more or less": change_rank, "two sizes swapped": swap_sizes,
    "an element type": change_element, "a number of an attribute": change_number, "a list of an attribute": change_list,
    "an operand's transposition": toggle, "an operand dropped, doubled or replaced": change_operands,
}  # fmt: skip


# Text.


def type_text(t):
    sizes = "".join(("?" if size is None else str(size)) + "x" for size in t.shape)
    return f"tensor<{sizes}{t.element}>"


def attribute_text(name, value):
    if value is True:
        return name
    if isinstance(value, list):
        kind = "i32" if name == "operandSegmentSizes" else "i64"
        return f"{name} = array<{kind}{': ' if value else ''}{', '.join(map(str, value))}>"
    kind = "f64" if isinstance(value, str) else "i32" if name in ("combiner", "ranks", "predicate") else "i64"
    return f"{name} = {value} : {kind}"


def text_of(op):
    arguments = ", ".join(f"%a{i}: {type_text(t)}" for i, t in enumerate(op.operands))
    attributes = ", ".join(attribute_text(*item) for item in sorted(op.attributes.items()))
    properties = f" <{{{attributes}}}>" if attributes else ""
    regions = {"attention": " ({\n})", "attention_grad": " ({\n}, {\n})"}.get(op.name, "")
    names = ", ".join(f"%a{i}" for i in range(len(op.operands)))
    types = f"({', '.join(map(type_text, op.operands))}) -> ({', '.join(map(type_text, op.results))})"
    result = f"%r:{len(op.results)} = "
    return f'nano.program @f({arguments}) {{\n{result}"nano.{op.name}"({names}){properties}{regions} : {types}\nnano.return\n}}\n'


if __name__ == "__main__":
    words = {"wrong": "mean nothing", "accepted": "mean something", "survivor": "passes and means nothing: {text}"}
    sys.exit(attack("ops", "ops", lambda r: make(r.choice(list(MEANINGS)), r), CHANGES, means_something, text_of, **words))
