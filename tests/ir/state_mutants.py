"""state_mutants.py COUNT [--seed S]: holds the verifiers of states, and of what a model says of its data, to what they mean.

Small whole models (parameters with optimizers, states of the model's own, constants, copies, sharded states, reports,
schedules, columns and rules of documents) are changed in one place. What the change means is worked out here: initial
values are made number by number, copies followed, each element of a sharded state put into its whole, the arguments of
programs held against sizes and columns. What has no meaning a verifier must refuse; nano-opt is asked with
nano-verify-model. Ends with a table; exit status 1 where something without meaning passes, or something is refused
that was not changed.
"""

import math
import re
import sys

from mutants import attack
from op_mutants import BF16, ELEMENTS, F32, HOSTILE, I16, I32
from step_mutants import LINE, Wrong, list_text, require

PASSES = ["-nano-verify-model"]
SIZES = {"seq_len": 1, "val_seq_len": 1, "global_batch": 1, "num_iterations": 1, "vocab_size": 1, "eos_token": 0}
ROLES = ["parameter", "optimizer", "gradient", "constant", "report", "cache"]
COLUMN_TYPES = {"f32": F32, "bf16": BF16, "i32": I32, "u8": I32}
STATE_FLOATS = {F32, BF16, "f8E4M3FN", "f8E5M2"}


class State:
    def __init__(self, name, shape, element, role, kind, numbers=(), **more):
        self.name, self.shape, self.element, self.role = name, list(shape), element, role
        self.kind, self.numbers, self.source, self.parts = kind, list(numbers), more.get("source"), more.get("parts")
        self.optimizer, self.over, self.sharding = more.get("optimizer"), more.get("over"), more.get("sharding")
        self.offset = None

    def count(self):
        return math.prod(self.shape)

    def type(self):
        return (tuple(self.shape), self.element)


class Model:
    def __init__(self):
        self.world, self.group, self.training, self.columns = 1, 1, {}, []
        self.documents, self.shuffle = None, None
        self.scalars, self.optimizers, self.states = {}, {}, []  # scalars: type and number of arguments
        self.loads, self.stores, self.events = [], [], []  # symbol and type; events: also the step
        self.arguments = {}  # of programs: tokens' size, then the columns' elements
        self.checks, self.reports = [], []

    def state(self, name):
        found = [s for s in self.states if s.name == name]
        require(len(found) == 1)
        return found[0]


# What they mean.


def initial(m, state, around=()):
    """The numbers that a state starts with, where random ones are 0."""
    n, v = state.count(), state.numbers
    require(all(math.isfinite(x) for x in v) and state.name not in around)
    if state.kind in ("copy", "transpose"):
        require(not v)
        source = m.state(state.source)
        require(source.role != "gradient" and not source.sharding)
        shape = list(source.shape)
        if state.kind == "transpose":
            require(len(shape) > 1)
            shape[-2:] = shape[-1], shape[-2]
        require(shape == state.shape)
        return initial(m, source, (*around, state.name))
    require(state.source is None)
    if state.kind == "constant":
        require(len(v) in (1, n))
        return v * (n if len(v) == 1 else 1)
    if state.kind == "blocks":
        require(len(v) == len(state.parts) > 0 and all(x >= 1 and x == int(x) for x in v))
        require(sum(v) == n)
        return [0] * n
    require(len(v) == {"normal": 2, "uniform": 2, "sign": 1}[state.kind])
    require(state.kind != "normal" or v[1] >= 0)
    require(state.kind != "uniform" or v[0] <= v[1])
    return [0] * n


def check_state(m, state):
    require(state.shape and all(size > 0 for size in state.shape))
    values = initial(m, state)
    if state.element == I16:
        require(state.kind == "constant" and all(x == int(x) and 0 <= x <= 65535 for x in values))
    if state.optimizer is not None:
        require(state.role == "parameter" and state.optimizer in m.optimizers)
        body = m.optimizers[state.optimizer]["body"]
        require(body is None or body == state.type())
        require(state.element in (F32, BF16))
    require(state.over is None or (state.over in ("equal", "mean", "max", "each") and state.role == "optimizer"))
    require(state.offset is None or (state.offset >= 0 and state.offset % LINE == 0))
    if state.sharding:
        s, n = state.sharding, state.count()
        require(state.role != "parameter" and s["ranks"] in ("all", "group", "peers"))
        require(s["parts"] > 0 and s["chunk"] > 0 and n % s["chunk"] == 0)
        held = set()  # each element of the whole has one place: t, p and i follow from it
        for shape, offset in s["pieces"]:
            require(all(size >= 0 for size in shape) and math.prod(shape) < 1 << 12)
            for element in range(offset, offset + math.prod(shape)):
                require(0 <= element < n * s["parts"] and element not in held)
                held.add(element)


def check_optimizer(m, o):
    require(o["lr"] in m.scalars and m.scalars[o["lr"]][0] == F32 and o["every"] >= 1)
    require(len(o["states"]) == len(set(o["states"])) == len(o["inits"]) and all(o["states"]))
    require(all(math.isfinite(x) for x in o["inits"]))
    require(o["cut"] in (None, "elements", "rows", "matrices", "whole"))


def check_data(m):
    t = m.training
    for name, least in SIZES.items():
        require(isinstance(t.get(name), int) and t[name] >= least)
    require(t["global_batch"] % t["seq_len"] == 0 and t["eos_token"] < t["vocab_size"])
    require(m.documents in (None, "aligned", "cut", "packed"))
    require(not m.shuffle or m.documents in ("cut", "packed"))
    types, seen = {}, set()
    for column in m.columns:
        name, kind, of_target = column.get("name"), column.get("type"), column.get("of_target")
        require(name and re.fullmatch(r"[A-Za-z0-9_-]+", name) and name not in ("tokens", "targets"))
        require(kind in COLUMN_TYPES and isinstance(of_target, bool) and (name, of_target) not in seen)
        require(types.setdefault(name, kind) == kind and (name != "in_document" or kind == "u8"))
        seen.add((name, of_target))
    columns = [COLUMN_TYPES[column["type"]] for column in m.columns]
    require(m.arguments["train"] == (t["seq_len"], columns))
    require(m.arguments["validate"] == (t["val_seq_len"], []))
    require(t["log_scalar"] in m.scalars)


def check(m):
    require(m.world >= 1 and m.group >= 1 and m.world % m.group == 0)
    for kind, arguments in m.scalars.values():
        require(kind in (F32, I32) and arguments in (4, 7))
    names = [*m.scalars, *m.optimizers, *(s.name for s in m.states), "train", "validate"]
    require(len(set(names)) == len(names))
    for o in m.optimizers.values():
        check_optimizer(m, o)
    for state in m.states:
        check_state(m, state)
    check_data(m)
    loaded = set()
    for name, kind in m.loads:
        require(kind == (((), m.scalars[name][0]) if name in m.scalars else m.state(name).type()))
        loaded.add(name)
    # A parameter that the loss does not read is not trained, and a frozen one of no use.
    require(all(s.name in loaded for s in m.states if s.role == "parameter"))
    for where in (m.stores, m.events):
        stored = []
        for name, kind in where:
            state = m.state(name)
            require(kind == state.type() and state.role not in ("constant", "gradient"))
            require(where is m.events or state.over is not None)
            stored.append(name)
        require(len(set(stored)) == len(stored))
    for kind, role, bound in m.checks:
        require(role in ("train", "validate", "generate", "decode") and bound >= 1)
    for kind, name, at, edges in m.reports:
        state = m.state(name)
        require(state.role == "report" and state.element == F32 and len(state.shape) == 1)
        require((kind == "histogram") == bool(edges) and all(math.isfinite(e) for e in edges))
        require(all(a < b for a, b in zip(edges, edges[1:])))
        require(0 <= at and at + (len(edges) + 5 if edges else 1) <= state.shape[0])


def is_right(m):
    try:
        check(m)
        return True
    except (Wrong, IndexError, ValueError, TypeError, KeyError):
        return False


# Valid models.


def make(r):
    m = Model()
    m.group = r.choice([1, 2])
    m.world = m.group * r.choice([1, 2])
    tokens, held = r.choice([4, 8]), r.choice([2, 6])
    m.training = {"seq_len": tokens, "val_seq_len": held, "global_batch": tokens * r.randint(1, 3), "num_iterations": 5,
                  "vocab_size": 9, "eos_token": r.randrange(9), "log_scalar": "lr"}  # fmt: skip
    m.documents = r.choice([None, "aligned", "cut", "packed"])
    m.shuffle = r.choice([None, False, m.documents in ("cut", "packed")])
    for name in r.sample(["mask", "weight", "in_document"], r.randint(0, 2)):
        kind = "u8" if name == "in_document" else r.choice(list(COLUMN_TYPES))
        for of_target in r.choice([[True], [False], [True, False]]):
            m.columns.append({"name": name, "type": kind, "of_target": of_target})
    m.arguments = {"train": (tokens, [COLUMN_TYPES[c["type"]] for c in m.columns]), "validate": (held, [])}
    m.scalars = {"lr": (F32, 4), "window": (r.choice([F32, I32]), r.choice([4, 7]))}
    if r.random() < 0.5:
        m.loads.append(("window", ((), m.scalars["window"][0])))
    for k in range(r.randint(1, 3)):
        shape, element = [r.randint(1, 4) for _ in range(r.randint(1, 3))], r.choice([F32, BF16])
        names = r.sample(["m", "v", "slow"], r.randint(0, 2))
        m.optimizers[f"o{k}"] = {"lr": "lr", "every": r.randint(1, 2), "states": names, "inits": [0.5 for _ in names],
                                 "cut": r.choice([None, "elements", "rows", "whole"]),
                                 "body": r.choice([None, (tuple(shape), element)])}  # fmt: skip
        kind, numbers = r.choice([("constant", [0.25]), ("normal", [0.0, 1.0]), ("uniform", [-1.0, 1.0]), ("sign", [0.5]),
                                  ("constant", [0.5] * math.prod(shape)), ("blocks", None)])  # fmt: skip
        state = State(f"p{k}", shape, element, "parameter", kind, numbers or [], optimizer=f"o{k}")
        if kind == "blocks":
            n = state.count()
            state.numbers = [float(n)] if n == 1 else [1.0, float(n - 1)]
            state.parts = ["normal"] * len(state.numbers)
        m.states.append(state)
        m.loads.append((state.name, state.type()))
        if r.random() < 0.4:
            turned = len(shape) > 1 and r.random() < 0.5
            of = shape[:-2] + [shape[-1], shape[-2]] if turned else shape
            m.states.append(State(f"c{k}", of, element, "optimizer", "transpose" if turned else "copy", source=f"p{k}",
                                  over="equal"))  # fmt: skip
            m.events.append((f"c{k}", m.states[-1].type()))
    own = State("own", [r.randint(1, 4)], F32, "optimizer", "constant", [1.0], over=r.choice(["mean", "max", "each", "equal"]))
    m.states.append(own)
    m.stores.append(("own", own.type()))
    m.states.append(State("counts", [3], I16, "constant", "constant", [0.0, 7.0, 65535.0]))
    size, parts = r.randint(1, 3), r.choice([2, 4])
    chunk, pieces, at = r.choice([1, size]), [], 0
    for _ in range(r.randint(1, 2)):
        at += r.randint(0, 1)
        shape = [r.randint(1, 2), r.randint(1, 2)]
        if at + math.prod(shape) <= size * parts:
            pieces.append((shape, at))
            at += math.prod(shape)
    m.states.append(State("sharded", [size], F32, "optimizer", "constant", [0.0],
                          sharding={"parts": parts, "ranks": r.choice(["all", "group"]), "chunk": chunk, "pieces": pieces}))  # fmt: skip
    if r.random() < 0.5:
        edges = [0.0, 1.0][: r.randint(1, 2)] if r.random() < 0.5 else []
        needs = len(edges) + 5 if edges else 1
        m.states.append(State("reports", [needs + 2], F32, "report", "constant", [0.0]))
        m.reports.append(["histogram" if edges else r.choice(["mean", "norm", "max"]), "reports", r.randint(0, 2), edges])
    m.checks = [["gather", r.choice(["train", "validate", "generate"]), r.randint(1, 9)] for _ in range(r.randint(0, 2))]
    if r.random() < 0.3:
        for k, state in enumerate(m.states):
            state.offset = LINE * k
    return m


# Changes.


def change_size(m, r):
    s = r.choice(m.states)
    d = r.randrange(len(s.shape))
    s.shape[d] = r.choice([s.shape[d] - 1, s.shape[d] + 1, 0])


def change_element(m, r):
    r.choice(m.states).element = r.choice(ELEMENTS)


def change_role(m, r):
    r.choice(m.states).role = r.choice(ROLES)


def change_kind(m, r):
    s = r.choice(m.states)
    s.kind = r.choice(["constant", "normal", "uniform", "sign", "copy", "transpose"])


def change_numbers(m, r):
    s = r.choice(m.states)
    how = r.randrange(3)
    if how == 0 and s.numbers:
        s.numbers.pop(r.randrange(len(s.numbers)))
    elif how == 1:
        s.numbers.append(1.0)
    elif s.numbers:
        k = r.randrange(len(s.numbers))
        s.numbers[k] = r.choice([-s.numbers[k], 0.0, 0.5, -1.0, 65536.0, math.inf, math.nan, 1e30])


def change_source(m, r):
    if found := [s for s in m.states if s.source]:
        s = r.choice(found)
        s.source = r.choice([other.name for other in m.states] + ["none"])


def copy_back(m, r):
    if found := [s for s in m.states if s.source]:
        s = r.choice(found)
        source = m.state(s.source)
        source.kind, source.numbers, source.source, source.parts = s.kind, [], s.name, None


def change_owner(m, r):
    r.choice(m.states).optimizer = r.choice([*m.optimizers, "none", "lr", None])


def change_optimizer(m, r):
    o = m.optimizers[r.choice(list(m.optimizers))]
    how = r.randrange(5)
    if how == 0:
        o["every"] = r.choice([0, -1, 3, *HOSTILE])
    elif how == 1:
        o["states"] = r.choice([o["states"] + ["m"], o["states"][1:], [""], ["m", "m"]])
    elif how == 2:
        o["inits"] = r.choice([o["inits"] + [0.0], o["inits"][1:], [math.nan for _ in o["inits"]]])
    elif how == 3:
        o["cut"] = r.choice(["columns", "", "matrices"])
    else:
        o["lr"] = r.choice(["window", "none", "p0"])


def change_over(m, r):
    r.choice(m.states).over = r.choice(["equal", "mean", "max", "each", "sum", "", None])


def change_sharding(m, r):
    s = m.state("sharded").sharding
    how = r.randrange(4)
    if how < 2:
        name = ["parts", "chunk"][how]
        s[name] = r.choice([s[name] - 1, s[name] + 1, 2 * s[name], *HOSTILE])
    elif how == 2:
        s["ranks"] = r.choice(["none", "peers", ""])
    elif s["pieces"]:
        k = r.randrange(len(s["pieces"]))
        shape, at = s["pieces"][k]
        shape = list(shape)
        if r.random() < 0.5:
            d = r.randrange(2)
            shape[d] = r.choice([shape[d] + 1, 0, -1, -shape[d], 1 << 32, 1 << 62])
        else:
            at = r.choice([at - 1, at + 1, -1, *HOSTILE])
        s["pieces"][k] = (shape, at)


def change_offset(m, r):
    r.choice(m.states).offset = r.choice([-1, 4, 128, LINE, -LINE])


def change_scalar(m, r):
    name = r.choice(list(m.scalars))
    kind, arguments = m.scalars[name]
    m.scalars[name] = r.choice([(BF16, arguments), ("i64", arguments), (I32, arguments), (kind, arguments - 1), (kind, 7)])


def change_use(m, r):
    where = r.choice([m.loads, m.stores, m.events])
    if where:
        k = r.randrange(len(where))
        name, (shape, element) = where[k]
        how = r.randrange(5)
        if how == 0:
            where.pop(k)
        elif how == 1:
            where[k] = (r.choice([s.name for s in m.states] + ["none"]), (shape, element))
        elif how == 2:
            other = r.choice(m.states)
            where[k] = (other.name, other.type())
        elif how == 3:
            where[k] = (name, (shape, r.choice(ELEMENTS)))
        else:
            where.append(where[k])


def change_training(m, r):
    name = r.choice(list(m.training))
    value = m.training[name]
    if name == "log_scalar":
        m.training[name] = r.choice(["window", "none", "p0"])
    elif r.random() < 0.2:
        del m.training[name]
    else:
        m.training[name] = r.choice([value - 1, value + 1, 2 * value, *HOSTILE])


def change_documents(m, r):
    if r.random() < 0.6:
        m.documents = r.choice([None, "aligned", "cut", "packed", "contiguous", "", "whole"])
    else:
        m.shuffle = r.choice([None, True, False])


def change_column(m, r):
    if not m.columns:
        return
    column = r.choice(m.columns)
    how = r.randrange(6)
    if how == 0:
        column["name"] = r.choice(["", "tokens", "targets", "a b", "weight", "mask", "in_document", "other"])
    elif how == 1:
        column["type"] = r.choice(["f32", "bf16", "i32", "u8", "f16", ""])
    elif how == 2:
        column["of_target"] = r.choice([not column["of_target"], None])
    elif how == 3:
        column.pop(r.choice(list(column)))
    elif how == 4:
        m.columns.append(dict(column))
        m.arguments["train"][1].append(COLUMN_TYPES[column["type"]])
    else:
        m.columns.remove(column)


def change_ranks(m, r):
    if r.random() < 0.5:
        m.world = r.choice([m.world + 1, 0, *HOSTILE])
    else:
        m.group = r.choice([m.group + 1, 0, *HOSTILE])


def change_report(m, r):
    if m.reports:
        report = r.choice(m.reports)
        how = r.randrange(4)
        if how == 0:
            report[0] = r.choice(["mean", "norm", "max", "histogram"])
        elif how == 1:
            report[1] = r.choice([s.name for s in m.states] + ["none"])
        elif how == 2:
            report[2] = r.choice([report[2] + 1, report[2] + 2, *HOSTILE])
        else:
            report[3] = r.choice([[], [0.0, 0.0], [1.0, 0.0], [math.inf], [0.0, math.nan], [0.0]])


def change_check(m, r):
    if m.checks:
        entry = r.choice(m.checks)
        if r.random() < 0.5:
            entry[1] = r.choice(["train", "decode", "update", ""])
        else:
            entry[2] = r.choice([entry[2] + 1, *HOSTILE])


CHANGES = {
    "a state's size": change_size, "a state's element type": change_element, "a state's role": change_role,
    "the kind of an initial value": change_kind, "the numbers of an initial value": change_numbers,
    "what a state is a copy of": change_source, "a copy of a copy": copy_back, "the optimizer of a state": change_owner,
    "an optimizer's numbers": change_optimizer, "what ranks have of a state": change_over, "a sharding": change_sharding,
    "a state's offset": change_offset, "a schedule": change_scalar, "what a program loads or sets": change_use,
    "a size of training": change_training, "a rule of documents": change_documents, "a column": change_column,
    "ranks and groups": change_ranks, "a report": change_report, "an index check": change_check,
}  # fmt: skip


# Text.


def tensor(kind):
    shape, element = kind
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def number(x):
    if math.isnan(x):
        return "0x7FF8000000000000"
    return "0x7FF0000000000000" if math.isinf(x) else f"{x:.6e}"


def state_text(s):
    init = f'"{s.kind}", [{", ".join(map(number, s.numbers))}]'
    if s.source:
        init += f" of @{s.source}"
    if s.parts:
        init += f" parts [{', '.join('#nano.init<' + chr(34) + k + chr(34) + ', [0.0, 1.0]>' for k in s.parts)}]"
    fields = [f"role = #nano.role<{s.role}>", f"init = #nano.init<{init}>"]
    if s.optimizer is not None:
        fields.append(f"optimizer = @{s.optimizer}")
    if s.over is not None:
        fields.append(f'over_ranks = "{s.over}"')
    if s.offset is not None:
        fields.append(f"offset = {s.offset} : i64")
    if s.sharding:
        p = s.sharding
        pieces = [f'{{name = "w{k}", shape = {list_text(shape)}, offset = {at} : i64}}' for k, (shape, at) in enumerate(p["pieces"])]
        fields.append(f'sharding = {{parts = {p["parts"]} : i64, ranks = "{p["ranks"]}", chunk = {p["chunk"]} : i64, '
                      f'pieces = [{", ".join(pieces)}]}}')  # fmt: skip
    return f"nano.state @{s.name} : {tensor((s.shape, s.element))} {{{', '.join(fields)}}}"


def optimizer_text(name, o):
    fields = [f"inits = array<f64{': ' if o['inits'] else ''}{', '.join(map(number, o['inits']))}>", 'kind = "any"',
              f"states = [{', '.join(chr(34) + s + chr(34) for s in o['states'])}]", f"every = {o['every']} : i64"]  # fmt: skip
    if o["cut"] is not None:
        fields.append(f'cut = "{o["cut"]}"')
    text = f'nano.optimizer @{name} of "all" lr @{o["lr"]} {{{", ".join(fields)}}}'
    if o["body"]:
        p = tensor(o["body"])
        states = [f"%s{k}" for k in range(len(o["states"]))]
        arguments = [f"%p: {p}", f"%g: {tensor((o['body'][0], F32))}", *(f"{s}: {p}" for s in states)]
        text += f" by {{\n^bb0({', '.join(arguments)}):\nnano.yield {', '.join(['%p', *states])} : {', '.join([p] * (1 + len(states)))}\n}}"
    return text


def scalar_text(name, scalar):
    names = ["%a", "%b", "%c", "%d", "%e", "%f", "%g"][: scalar[1]]
    return f"nano.scalar @{name} : {scalar[0]} {{\n^bb0({', '.join(n + ': f64' for n in names)}):\nnano.yield %a : f64\n}}"


def sum_text(value, kind, k):
    """Lines that add a value to %t{k}, making %t{k + 1}."""
    shape, element = kind
    wide = tensor((shape, F32))
    lines = [f"%w{k} = nano.cast {value} : {tensor(kind)} -> {wide}"] if element != F32 else []
    name = f"%w{k}" if lines else value
    if shape:
        lines.append(f"%r{k} = nano.reduce sum {name} dims [{', '.join(map(str, range(len(shape))))}] : {wide} -> tensor<f32>")
        name = f"%r{k}"
    return [*lines, f"%t{k + 1} = nano.add %t{k}, {name} : tensor<f32>"]


def program_text(m, role):
    size, columns = m.arguments[role]
    kinds = [((size,), I32)] * 2 + [((size,), e) for e in columns]
    lines = [f"nano.program @{role}({', '.join(f'%x{i}: {tensor(k)}' for i, k in enumerate(kinds))}) -> tensor<f32> "
             f'attributes {{role = "{role}"}} {{', "%t0 = nano.constant 0.0 : tensor<f32>"]  # fmt: skip
    k = 0
    for i, kind in enumerate(kinds):
        lines += sum_text(f"%x{i}", kind, k)
        k += 1
    for name, kind in m.loads if role == "train" else []:
        lines.append(f"%l{k} = nano.load @{name} : {tensor(kind)}")
        lines += sum_text(f"%l{k}", kind, k)
        k += 1
    if role == "train":
        lines += store_lines(m.stores)
    return [*lines, f"nano.return %t{k} : tensor<f32>", "}"]


def store_lines(stores):
    lines = []
    for k, (name, kind) in enumerate(stores):
        lines += [f"%v{k} = nano.constant 0.0 : {tensor(kind)}", f"nano.store %v{k}, @{name} : {tensor(kind)}"]
    return lines


def column_text(c):
    fields = [f'{name} = "{c[name]}"' for name in ("name", "type") if name in c]
    if c.get("of_target") is not None:
        fields.append(f"of_target = {str(c['of_target']).lower()}")
    return "{" + ", ".join(fields) + "}"


def text_of(m):
    fields = [f'{n} = "{v}"' if n == "log_scalar" else f"{n} = {v} : i64" for n, v in m.training.items()]
    fields += ["train_loss_is_sum = true", "val_loss_is_sum = true"]
    if m.documents is not None:
        fields.append(f'documents = "{m.documents}"')
    if m.shuffle is not None:
        fields.append(f"shuffle_documents = {str(m.shuffle).lower()}")
    if m.columns:
        fields.append(f"columns = [{', '.join(map(column_text, m.columns))}]")
    lines = ["module {", f'nano.model "m" {{training = {{{", ".join(fields)}}}, world = {m.world} : i64, group = {m.group} : i64}}']
    lines += [scalar_text(*item) for item in m.scalars.items()]
    lines += [optimizer_text(*item) for item in m.optimizers.items()]
    lines += [state_text(s) for s in m.states]
    for kind, name, at, edges in m.reports:
        more = f" {{edges = array<f64: {', '.join(map(number, edges))}>}}" if edges else ""
        lines.append(f'nano.reported "r" {kind} in @{name} at {at}{more}')
    lines += [f'nano.index_check "{kind}" of "{role}" below {bound}' for kind, role, bound in m.checks]
    lines += program_text(m, "train") + program_text(m, "validate")
    lines += ['nano.program @after() attributes {role = "event"} {', *store_lines(m.events), "nano.return", "}"]
    return "\n".join([*lines, "}"]) + "\n"


if __name__ == "__main__":
    sys.exit(attack("states", "states and data", make, CHANGES, is_right, text_of, PASSES))
