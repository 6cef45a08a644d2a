"""step_mutants.py COUNT [--seed S]: holds the verifiers of commands, and the proofs of a planned program, to what commands do.

Small planned programs (inputs, buffers, views, copies, fills, launches, products, collectives, records and waits on three
streams) are changed in one place: a number, a type, an operand, an event, a stream. What a program does is worked out
here, element by element: which elements of the arena each command reads and writes, and, from streams and events, all
pairs of commands that may run side by side. Wrong is a command that means nothing (elements outside of a buffer, types
or sizes that do not belong together, an event that nothing records), that reads what nothing has written, whose result
depends on the order in which its own elements are taken, or that may run beside another which it disturbs. nano-opt is
asked with the proofs that end every compilation. Ends with a table; exit status 1 where a wrong one passes, or where one
without a change is refused.
"""

import collections
import copy
import math
import sys

from mutants import attack
from op_mutants import BF16, E4M3, E5M2, ELEMENTS, F32, HOSTILE, I16, I32

PASSES = ["-nano-verify-liveness", "-nano-verify-races"]
BYTES = {F32: 4, I32: 4, BF16: 2, I16: 2, E4M3: 1, E5M2: 1}
FLOATS = {F32, BF16}
LINE, STREAMS = 256, 64
ROLES = ["first", "next", "last", "update", "validate", "generate", "decode", "measure", "event"]
COMBINERS, RANKS = ["sum", "max"], ["all", "group", "peers"]


class Memory:
    """A buffer, an input or a view: `layout` is None where it is contiguous from 0, else strides and an offset."""

    def __init__(self, kind, shape, element, source=None, layout=None):
        self.kind, self.shape, self.element, self.source, self.layout = kind, list(shape), element, source, layout
        self.offset, self.symbol_shape = None, None

    def count(self):
        return math.prod(self.shape)


class Command:
    def __init__(self, op, operands=(), stream=0, **more):
        self.op, self.operands, self.stream, self.more = op, list(operands), stream, more


class Program:
    def __init__(self):
        self.memories, self.commands, self.kernels = [], [], {}
        self.role, self.event_step, self.phases, self.arena, self.floor = "first", None, None, 0, 0

    def root(self, i):
        while self.memories[i].kind == "view":
            i = self.memories[i].source
        return i

    def elements(self, i):
        """The elements of its buffer that a memory names, in row-major order."""
        m = self.memories[i]
        strides, at = m.layout or (contiguous(m.shape), 0)
        found = [at]
        for size, stride in zip(m.shape, strides):
            found = [e + k * stride for e in found for k in range(size)]
        return found

    def bytes(self, i):
        """For each element the bytes of the arena, in row-major order."""
        root = self.memories[self.root(i)]
        width = BYTES[root.element]
        return [range(root.offset + e * width, root.offset + (e + 1) * width) for e in self.elements(i)]


def contiguous(shape):
    strides = []
    for size in reversed(shape):
        strides.insert(0, strides[0] * below if strides else 1)
        below = size
    return strides


# What a program does.


class Wrong(Exception):
    pass


def require(holds):
    if not holds:
        raise Wrong


def check_memories(p):
    for i, m in enumerate(p.memories):
        require(m.element in BYTES and all(size is not None and size >= 0 for size in m.shape))
        if m.kind == "view":
            require(m.source < i)
            root = p.memories[p.root(i)]
            require(m.element == root.element)
            if m.count():
                require(len(m.layout[0]) == len(m.shape) if m.layout else True)
                named = p.elements(i)
                require(min(named) >= 0 and max(named) < root.count() and len(set(named)) == len(named))
            continue
        require(m.layout is None and m.offset >= 0 and m.offset % LINE == 0)
        require(m.offset + m.count() * BYTES[m.element] <= p.arena)
        if m.kind == "input":
            require(m.symbol_shape == (m.shape, m.element))
    inputs = [m for m in p.memories if m.kind == "input"]
    for i, a in enumerate(inputs):
        for b in inputs[:i]:
            ends = [m.offset + m.count() * BYTES[m.element] for m in (a, b)]
            require(not (a.count() and b.count()) or ends[0] <= b.offset or ends[1] <= a.offset)


def whole(p, i):
    """Whether a memory is one stretch, element behind element."""
    elements = p.elements(i)
    return all(b == a + 1 for a, b in zip(elements, elements[1:]))


def matrices(p, i):
    """Batch, rows and columns, where one row is a stretch, rows and matrices at one distance."""
    m = p.memories[i]
    require(len(m.shape) >= 2)
    rows, columns = m.shape[-2:]
    batch = math.prod(m.shape[:-2])
    elements = p.elements(i)
    require(elements)
    at = lambda b, r, c: elements[(b * rows + r) * columns + c]
    row = at(0, 1, 0) - at(0, 0, 0) if rows > 1 else 0
    matrix = at(1, 0, 0) - at(0, 0, 0) if batch > 1 else 0
    require(all(at(b, r, c) == elements[0] + b * matrix + r * row + c
                for b in range(batch) for r in range(rows) for c in range(columns)))  # fmt: skip
    return batch, rows, columns


def fits(m, shape, element):
    return m.element == element and (shape is None or m.shape == shape)


def does(p, command):
    """[(memory, reads, writes, segment, may lie in place)] of a command that means something."""
    ms, ids, more = p.memories, command.operands, command.more
    types = [ms[i] for i in ids]
    if command.op == "fill":
        require(whole(p, ids[0]))
        return [(ids[0], False, True, 0, False)]
    if command.op == "copy":
        a, b = types
        require(a.element == b.element and a.count() == b.count() and whole(p, ids[0]) and whole(p, ids[1]))
        return [(ids[0], True, False, 0, False), (ids[1], False, True, 0, False)]
    if command.op == "launch":
        return launched(p, command)
    if command.op == "matmul":
        return multiplied(p, command)
    if command.op == "all_reduce":
        require(ids and more["combiner"] in COMBINERS)
        require(len({m.element for m in types}) == 1 and types[0].element in FLOATS and all(whole(p, i) for i in ids))
        return [(i, True, True, k, False) for k, i in enumerate(ids)]
    ins, outs = more["ins"], len(ids) - more["ins"]
    require(ins == outs > 0 and more["parts"] > 0)
    require(len({m.element for m in types}) == 1 and types[0].element in FLOATS and all(whole(p, i) for i in ids))
    for a, b in zip(types[:ins], types[ins:]):
        of, part = (b, a) if command.op == "all_gather" else (a, b)
        require(of.count() == more["parts"] * part.count())
    return [(i, k < ins, k >= ins, 0, False) for k, i in enumerate(ids)]


def launched(p, command):
    ids, more = command.operands, command.more
    require(more["kernel"] in p.kernels)
    parameters, iterations = p.kernels[more["kernel"]]
    segments, counts = more["segments"], more["iterations"]
    require(segments >= 1 and len(ids) == segments * len(parameters))
    require(counts is not None or iterations is not None)
    require(counts is None or (len(counts) == segments and min(counts) >= 0))
    found = []
    for k, i in enumerate(ids):
        access, shape, element = parameters[k % len(parameters)]
        require(fits(p.memories[i], shape, element))
        found.append((i, access != "write", access != "read", k // len(parameters), True))
    for name in more["candidates"] or []:
        require(segments == 1 and name in p.kernels)
        others, own = p.kernels[name]
        require(own is not None and len(others) <= len(ids))
        for (access, shape, element), (mine, _, _), i in zip(others, parameters, ids):
            reads_writes = lambda a: (a != "write", a != "read")
            require(reads_writes(access) == reads_writes(mine) and fits(p.memories[i], shape, element))
    return found


def multiplied(p, command):
    ids, more = command.operands, command.more
    a, b, c = (matrices(p, i) for i in (ids[0], ids[1], ids[-1]))
    types = [p.memories[i] for i in ids]
    turn = lambda x, flag: (x[0], x[2], x[1]) if flag else x
    left, right = turn(a, more["transpose_a"]), turn(b, more["transpose_b"])
    require(left[0] == right[0] == c[0] and left[2] == right[1] and c[1:] == (left[1], right[2]))
    # Library calls multiply floats of one type into floats.
    require(types[0].element == types[1].element and {types[0].element, types[-1].element} <= FLOATS)
    found = [(ids[0], True, False, 0, False), (ids[1], True, False, 0, False)]
    if len(ids) == 4:
        matrices(p, ids[2])
        require(types[2].shape == types[3].shape and types[2].element == types[3].element)
        found.append((ids[2], True, False, 0, True))
    return found + [(ids[-1], False, True, 0, True)]


def disturbs(p, a, b):
    """Whether two accesses of one command meet in other elements than each its own."""
    if not (a[2] or b[2]) or a is b:
        return False
    left, right = p.bytes(a[0]), p.bytes(b[0])
    if not set().union(*left) & set().union(*right):
        return False
    return (a[2] and b[2]) or a[3] != b[3] or not (a[4] and b[4] and left == right)


def check(p):
    require(p.role in ROLES and (p.event_step is None or p.event_step >= 0))
    require(p.phases is None or (p.phases and min(p.phases) >= 0 and len(set(p.phases)) == len(p.phases)))
    require(p.arena >= 0 and 0 <= p.floor <= p.arena)
    check_memories(p)
    accesses, after, recorded, last = [], [], {}, {}
    for n, command in enumerate(p.commands):
        require(0 <= command.stream < STREAMS)
        before = set()
        if command.stream in last:
            before |= after[last[command.stream]] | {last[command.stream]}
        if command.op == "wait":
            require(command.more["event"] in recorded)
            before |= after[recorded[command.more["event"]]] | {recorded[command.more["event"]]}
        if command.op == "record":
            require(command.more["event"] >= 0 and command.more["event"] not in recorded)
            recorded[command.more["event"]] = n
        after.append(before)
        last[command.stream] = n
        accesses.append([] if command.op in ("wait", "record") else does(p, command))
    for mine in accesses:
        require(not any(disturbs(p, a, b) for a in mine for b in mine))
    # In the order of the program everything that is read has been written, through the same buffer.
    holds = {}
    for i, m in enumerate(p.memories):
        if m.kind == "input":
            for byte in set().union(*p.bytes(i)):
                holds[byte] = i
    for mine in accesses:
        for i, reads, _, _, _ in mine:
            require(not reads or all(holds.get(byte) == p.root(i) for cell in p.bytes(i) for byte in cell))
        for i, _, writes, _, _ in mine:
            for byte in set().union(*p.bytes(i)) if writes else ():
                require(p.memories[p.root(i)].kind == "input" or p.memories[holds.get(byte, p.root(i))].kind != "input")
                holds[byte] = p.root(i)
    # No two commands that may run side by side meet.
    touched = [(set().union(*(c for i, *_ in mine for c in p.bytes(i))),
                set().union(*(c for i, _, w, *_ in mine if w for c in p.bytes(i)))) for mine in accesses]  # fmt: skip
    meets = {"all_reduce", "reduce_scatter", "all_gather"}
    for n in range(len(p.commands)):
        for m in range(n):
            if m not in after[n]:
                require(not touched[n][1] & touched[m][0] and not touched[m][1] & touched[n][0])
                require(not {p.commands[n].op, p.commands[m].op} <= meets)


def is_right(p):
    try:
        check(p)
        return True
    except (Wrong, IndexError, ValueError, TypeError, KeyError):
        return False


# Valid programs.


class Maker:
    def __init__(self, r):
        self.r, self.p, self.written, self.stream, self.events = r, Program(), set(), 0, 0

    def memory(self, shape, element, kind="buffer"):
        m = Memory(kind, shape, element)
        m.offset, m.symbol_shape = self.p.arena, (list(shape), element)
        self.p.arena += -(-m.count() * BYTES[element] // LINE) * LINE
        self.p.memories.append(m)
        return len(self.p.memories) - 1

    def view(self, i):
        """A part of a memory of two dimensions: some rows, or some columns of all rows."""
        m, r = self.p.memories[i], self.r
        rows, columns = m.shape
        if r.random() < 0.5:
            first, count = r.randrange(rows), 1
            shape, at = [r.randint(count, rows - first), columns], first * columns
        else:
            first = r.randrange(columns)
            shape, at = [rows, r.randint(1, columns - first)], first
        self.p.memories.append(Memory("view", shape, m.element, i, ([columns, 1], at)))
        return len(self.p.memories) - 1

    def add(self, op, operands, **more):
        """On a random stream, behind everything before it."""
        stream = self.r.randrange(3)
        if stream != self.stream:
            self.p.commands.append(Command("record", stream=self.stream, event=self.events))
            self.p.commands.append(Command("wait", stream=stream, event=self.events))
            self.events += 1
            self.stream = stream
        self.p.commands.append(Command(op, operands, stream, **more))

    def filled(self, shape, element):
        i = self.memory(shape, element, "input" if self.r.random() < 0.3 else "buffer")
        if self.p.memories[i].kind == "buffer":
            self.add("fill", [i])
        return i

    def command(self):
        r = self.r
        n, k, m, e = r.randint(1, 4), r.randint(1, 4), r.randint(1, 4), r.choice([F32, BF16])
        kind = r.choice(["copy", "copy", "launch", "launch", "launch", "matmul", "all_reduce", "part", "view"])
        if kind == "copy":
            a = self.filled([n, k], e)
            self.add("copy", [a, self.memory(r.choice([[n, k], [k, n], [n * k]]), e)])
        elif kind == "view":
            a = self.filled([n + 1, k + 1], e)
            part = self.view(a)
            name = self.kernel([("read", self.p.memories[part].shape, e), ("write", self.p.memories[part].shape, e)])
            self.launch(name, [[part, part if r.random() < 0.3 else self.memory(self.p.memories[part].shape, e)]])
        elif kind == "launch":
            accesses = ["read", r.choice(["write", "read_write", "add"]), *(["read"] if r.random() < 0.3 else [])]
            name = self.kernel([(a, r.choice([None, [n, k]]), e) for a in accesses])
            sets = []
            for _ in range(r.choice([1, 1, 2, 3])):
                sets.append([self.memory([n, k], e) if a == "write" else self.filled([n, k], e) for a in accesses])
            self.launch(name, sets)
        elif kind == "matmul":
            flags = dict(transpose_a=r.random() < 0.5, transpose_b=r.random() < 0.5)
            batch = [r.randint(1, 2)] if r.random() < 0.3 else []
            a = self.filled(batch + ([k, n] if flags["transpose_a"] else [n, k]), e)
            b = self.filled(batch + ([m, k] if flags["transpose_b"] else [k, m]), e)
            shape, element = batch + [n, m], r.choice([F32, e])
            if r.random() < 0.4:
                d = self.filled(shape, element)
                self.add("matmul", [a, b, d, d if r.random() < 0.5 else self.memory(shape, element)], **flags)
            else:
                self.add("matmul", [a, b, self.memory(shape, element)], **flags)
        elif kind == "all_reduce":
            buffers = [self.filled([r.randint(1, 5)], e) for _ in range(r.randint(1, 3))]
            self.add("all_reduce", buffers, combiner=r.choice(COMBINERS), ranks=r.choice(RANKS))
        else:
            op, parts = r.choice(["reduce_scatter", "all_gather", "shard"]), r.choice([1, 2, 4])
            ins, outs = [], []
            for _ in range(r.randint(1, 2)):
                size = r.randint(1, 3)
                source, target = (size, size * parts) if op == "all_gather" else (size * parts, size)
                ins.append(self.filled([source], e))
                outs.append(self.memory([target], e))
            self.add(op, ins + outs, ins=len(ins), parts=parts, ranks=r.choice(RANKS))

    def kernel(self, parameters):
        name = f"k{len(self.p.kernels)}"
        self.p.kernels[name] = (parameters, self.r.choice([4, 4, None]))
        return name

    def launch(self, name, sets):
        own, candidates = self.p.kernels[name][1], None
        counts = [self.r.randint(0, 4) for _ in sets] if own is None or self.r.random() < 0.5 else None
        if len(sets) == 1 and self.r.random() < 0.3:
            other = self.kernel(copy.deepcopy(self.p.kernels[name][0]))
            self.p.kernels[other] = (self.p.kernels[other][0], 4)
            candidates = [other]
        operands = [i for each in sets for i in each]
        self.add("launch", operands, kernel=name, segments=len(sets), iterations=counts, candidates=candidates)


def make(r):
    maker = Maker(r)
    for _ in range(r.randint(1, 3)):
        maker.command()
    p = maker.p
    p.role, p.floor = r.choice(ROLES), r.choice([0, p.arena])
    p.event_step = r.randrange(5) if p.role == "event" and r.random() < 0.5 else None
    p.phases = r.sample(range(3), r.randint(1, 2)) if r.random() < 0.3 else None
    return p


# Changes. Each changes nothing where there is nothing to change.


def commands(p, *ops):
    return [c for c in p.commands if c.op in ops]


def near(number, r):
    return r.choice([number - 1, number + 1, 2 * number, *HOSTILE])


def change_event(p, r):
    if found := commands(p, "record", "wait"):
        c = r.choice(found)
        c.more["event"] = r.choice([c.more["event"] - 1, c.more["event"] + 1, *HOSTILE])


def move_event(p, r):
    if found := commands(p, "record", "wait"):
        c = r.choice(found)
        p.commands.remove(c)
        p.commands.insert(r.randint(0, len(p.commands)), c)


def copy_event(p, r):
    if found := commands(p, "record", "wait"):
        c = copy.deepcopy(r.choice(found))
        c.stream = r.randrange(3)
        p.commands.insert(r.randint(0, len(p.commands)), c)


def change_stream(p, r):
    c = r.choice(p.commands)
    c.stream = r.choice([c.stream + 1, c.stream - 1, 3, STREAMS - 1, STREAMS, *HOSTILE])


def change_operand(p, r):
    if found := [c for c in p.commands if c.operands]:
        c = r.choice(found)
        c.operands[r.randrange(len(c.operands))] = r.randrange(len(p.memories))


def change_operands(p, r):
    if found := commands(p, "launch", "all_reduce", "reduce_scatter", "all_gather", "shard"):
        c = r.choice(found)
        k = r.randrange(len(c.operands))
        if r.random() < 0.5:
            c.operands.pop(k)
            if "ins" in c.more and k < c.more["ins"]:
                c.more["ins"] -= 1
        else:
            c.operands.insert(k, c.operands[k])
            if "ins" in c.more and k < c.more["ins"]:
                c.more["ins"] += 1


def change_number_of(p, r, ops, name):
    if found := commands(p, *ops):
        c = r.choice(found)
        c.more[name] = near(c.more[name], r)


def change_segments(p, r):
    change_number_of(p, r, ["launch"], "segments")


def change_parts(p, r):
    change_number_of(p, r, ["reduce_scatter", "all_gather", "shard"], "parts")


def change_iterations(p, r):
    if found := commands(p, "launch"):
        c = r.choice(found)
        counts = c.more["iterations"]
        if counts is None or r.random() < 0.3:
            c.more["iterations"] = None if counts is not None else [4] * r.randint(0, 4)
        elif r.random() < 0.5:
            counts[r.randrange(len(counts))] = r.choice([-1, 0, 1, *HOSTILE])
        else:
            counts.append(1)


def change_kernel(p, r):
    if found := commands(p, "launch"):
        c = r.choice(found)
        c.more["kernel"] = r.choice([*p.kernels, "none"])


def change_parameter(p, r):
    if p.kernels:
        name = r.choice(list(p.kernels))
        parameters, iterations = p.kernels[name]
        k, how = r.randrange(len(parameters)), r.randrange(4)
        access, shape, element = parameters[k]
        if how == 0:
            parameters[k] = (r.choice(["read", "write", "read_write", "add"]), shape, element)
        elif how == 1:
            parameters[k] = (access, shape and [shape[0] + 1, *shape[1:]], element)
        elif how == 2:
            parameters[k] = (access, shape, r.choice(ELEMENTS))
        else:
            p.kernels[name] = (parameters, None if iterations else 4)


def change_candidates(p, r):
    if found := commands(p, "launch"):
        r.choice(found).more["candidates"] = [r.choice([*p.kernels, "none"])]


def change_combiner(p, r):
    if found := commands(p, "all_reduce"):
        r.choice(found).more["combiner"] = r.choice([*COMBINERS, "logsumexp"])


def change_flag(p, r):
    if found := commands(p, "matmul"):
        c, name = r.choice(found), r.choice(["transpose_a", "transpose_b"])
        c.more[name] = not c.more[name]


def change_shape(p, r):
    m = r.choice(p.memories)
    how = r.randrange(3)
    if how == 0 and m.shape:
        d = r.randrange(len(m.shape))
        m.shape[d] = r.choice([m.shape[d] - 1, m.shape[d] + 1, 0, None])
    elif how == 1 and len(m.shape) > 1:
        m.shape[0], m.shape[1] = m.shape[1], m.shape[0]
    elif not m.layout:
        m.shape.insert(r.randint(0, len(m.shape)), r.choice([1, 2]))


def change_element(p, r):
    r.choice(p.memories).element = r.choice(ELEMENTS)


def change_layout(p, r):
    if found := [m for m in p.memories if m.layout]:
        strides, at = r.choice(found).layout
        if r.random() < 0.5:
            k = r.randrange(len(strides))
            strides[k] = r.choice([strides[k] - 1, strides[k] + 1, 0, -1, 1 << 40])
        else:
            r.choice(found).layout = (strides, r.choice([at - 1, at + 1, -1, 1 << 40]))


def change_offset(p, r):
    if found := [m for m in p.memories if m.kind != "view"]:
        m = r.choice(found)
        m.offset = r.choice([m.offset + LINE, m.offset - LINE, m.offset + 4, -1, 1 << 40, 1 << 62, -(1 << 62)])


def change_arena(p, r):
    if r.random() < 0.5:
        p.arena = r.choice([p.arena - LINE, p.arena - 1, 0, -1])
    else:
        p.floor = r.choice([p.arena + 1, -1, *HOSTILE])


def change_role(p, r):
    how = r.randrange(3)
    if how == 0:
        p.role = r.choice([*ROLES, "train", "", "second"])
    elif how == 1:
        p.event_step = r.choice(HOSTILE[:3])
    else:
        p.phases = r.choice([[], [-1], [0, 0], [1, 0], [2]])


CHANGES = {
    "the event of a record or wait": change_event, "a record or wait moved": move_event, "a record or wait twice": copy_event,
    "a stream": change_stream, "an operand": change_operand, "an operand dropped or doubled": change_operands,
    "a launch's segments": change_segments, "a launch's iterations": change_iterations, "a launch's kernel": change_kernel,
    "a kernel's parameter": change_parameter, "a launch's candidates": change_candidates, "the parts of a collective": change_parts,
    "a collective's combiner": change_combiner, "a product's transposition": change_flag, "a shape": change_shape,
    "an element type": change_element, "a view's layout": change_layout, "an offset": change_offset, "the arena": change_arena,
    "when a program runs": change_role,
}  # fmt: skip


# Text.


def type_text(m):
    layout = ""
    if m.layout:
        strides, at = m.layout
        layout = f", strided<[{', '.join(map(str, strides))}]" + (f", offset: {at}>" if at else ">")
    return memref(m.shape, m.element, layout)


def memref(shape, element, layout=""):
    sizes = "?x" if shape is None else "".join(("?" if size is None else str(size)) + "x" for size in shape)
    return f"memref<{sizes}{element}{layout}>"


def list_text(numbers):
    return f"array<i64{': ' if numbers else ''}{', '.join(map(str, numbers))}>"


def command_text(p, c):
    more, ids = c.more, [f"%m{i}" for i in c.operands]
    types = [type_text(p.memories[i]) for i in c.operands]
    options = [f"stream = {c.stream} : i64"]
    names, kinds = ", ".join(ids), ", ".join(types)
    if c.op in ("record", "wait"):
        return f"step.{c.op} {more['event']} {{{options[0]}}}"
    if c.op == "launch":
        options.append(f"segments = {more['segments']} : i64")
        if more["iterations"] is not None:
            options.append(f"iterations = {list_text(more['iterations'])}")
        if more["candidates"]:
            options.append(f"candidates = [{', '.join('@' + name for name in more['candidates'])}]")
        head = f"@{more['kernel']}({names})"
    elif c.op == "matmul":
        options += [flag for flag in ("transpose_a", "transpose_b") if more[flag]]
        add = f" add {ids[2]}" if len(ids) == 4 else ""
        head = f"{ids[0]}, {ids[1]}{add} into {ids[-1]}"
    elif c.op == "copy":
        head = f"{ids[0]} to {ids[1]}"
    elif c.op == "fill":
        head = ids[0]
    elif c.op == "all_reduce":
        head = f"{names} by {more['combiner']} over {more['ranks']}"
    else:
        ins = more["ins"]
        head = f"ins({', '.join(ids[:ins])}) outs({', '.join(ids[ins:])}) parts {more['parts']} over {more['ranks']}"
        kinds = f"({', '.join(types[:ins])}) -> ({', '.join(types[ins:])})"
    return f"step.{c.op} {head} {{{', '.join(options)}}} : {kinds}"


def text_of(p):
    lines = ["module {", f"step.arena {p.arena} floor {p.floor}"]
    for i, m in enumerate(p.memories):
        if m.kind == "input":
            lines.append(f"step.input @i{i} : {memref(*m.symbol_shape)} {{offset = {m.offset} : i64}}")
    lines.append("module @kernels {")
    for name, (parameters, iterations) in p.kernels.items():
        stated = [f"{access} {memref(shape, element)}" for access, shape, element in parameters]
        attributes = f" attributes {{iterations = {iterations} : i64}}" if iterations is not None else ""
        lines.append(f"kernel.func @{name}({', '.join(stated + ['memref<0xi8>', 'index', 'index'])}){attributes}")
    attributes = [f'role = "{p.role}"']
    if p.event_step is not None:
        attributes.append(f"event_step = {p.event_step} : i64")
    if p.phases is not None:
        attributes.append(f"phases = {list_text(p.phases)}")
    lines += ["}", f"step.program @p attributes {{{', '.join(attributes)}}} {{"]
    for i, m in enumerate(p.memories):
        if m.kind == "buffer":
            lines.append(f'%m{i} = step.buffer "m{i}" {{offset = {m.offset} : i64}} : {type_text(m)}')
        elif m.kind == "input":
            lines.append(f"%m{i} = step.state @i{i} : {type_text(m)}")
        else:
            lines.append(f"%m{i} = step.view %m{m.source} : {type_text(p.memories[m.source])} to {type_text(m)}")
    lines += [command_text(p, c) for c in p.commands]
    return "\n".join(lines + ["}", "}"]) + "\n"


if __name__ == "__main__":
    sys.exit(attack("steps", "commands", make, CHANGES, is_right, text_of, PASSES))
