"""What stands in a module after each stage of the compiler, on a page that a person can read in
review.

Each function, program and kernel is a section: its distinct ops with attributes and types, how
often each occurs, in order of first appearance. Left out are the wiring (values), the numbers of
layers, the starts of chunks, the places of buffers, and how kernels are cut over threads. A fused
kernel or a task is one line, with the ops inside in order; a kernel is its signature. A section
that hardly differs from the same section of an earlier stage, or from that of another program, is
written as the difference."""

import collections
import itertools
import re

_VALUES = re.compile(r"%[\w.$#-]+(?:, %[\w.$#-]+)*")
_LAYER = re.compile(r"(?<=[A-Za-z]\.)\d+(?=\.[A-Za-z])")
_DROPPED = r"(?:(?:step\.)?offset|grain) = \d+ : i64"
_PLACE = re.compile(f"{_DROPPED}(?:, )?|, {_DROPPED}")
_FAR = re.compile(r"(?<=at )\d{4,}|(?<=offset: )\d{4,}")  # chunks of rows
_TYPE = re.compile(r"\b(?:tensor|memref)<([^<>,]*)>")
_ATTRIBUTE = re.compile(
    r"nano\.(?:model|training) = (?:\{[^{}]*\}|\"[^\"]*\")|step\.arena_bytes = \d+"
)
_ARRAY = re.compile(r"array<i64: ([\d, -]+)>")
_NAME = re.compile(r"(?:%[^=]+ = )?(?:[a-z]+\.)?([a-z_][a-z_0-9.]*)")
_SECTION = re.compile(r"(func\.func|step\.program|module)(?: private)?(?: @(\"[^\"]*\"|[\w.$-]+))?")


class Item:
    """An op as printed, with the lines of its regions."""

    def __init__(self, line):
        self.line, self.items = line, []

    def walk(self):
        for item in self.items:
            yield item
            yield from item.walk()


def parse(text):
    """The items of printed IR, nested by the braces at line ends."""
    root = Item("")
    stack = [root]
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith(("//", "#")):
            continue
        if line.startswith("}"):
            stack.pop()
            line = line[1:].strip()
            if not line:
                continue
        opens = line.endswith("{")
        item = Item(line[:-1].strip() if opens else line)
        stack[-1].items.append(item)
        if opens:
            stack.append(item)
    if len(stack) != 1:
        raise ValueError("unbalanced regions: this is not IR as nano-opt prints it")
    return root.items


def runs(names):
    """`a×3 b`: equal neighbours counted."""
    groups = ((name, len(list(group))) for name, group in itertools.groupby(names))
    return [name if count == 1 else f"{name}×{count}" for name, count in groups]


def plain(line):
    """A line without places and layers' numbers, simple types without their frames."""
    line = _FAR.sub("…", _LAYER.sub("N", _PLACE.sub("", line)))
    line = line.replace(" attributes {}", "").replace(" {}", "")
    line = _ARRAY.sub(lambda match: f"[{', '.join(runs(match.group(1).split(', ')))}]", line)
    return _TYPE.sub(r"\1", line)


def inside(item):
    """`mul×2 add reduce`: the names of the ops in an item's regions, in order."""
    lines = [inner.line for inner in item.walk() if not inner.line.startswith("^")]
    names = [_NAME.match(line).group(1) for line in lines]
    return " ".join(runs(name for name in names if name not in ("yield", "grad")))


def entry(item):
    """One op on one line."""
    line = item.line
    if line.startswith("%"):
        line = line.split(" = ", 1)[1]
    line = re.sub(r"^(step\.(?:record|wait)) \d+", r"\1", line)
    line = re.sub(r'^step\.buffer "[^"]*"', "step.buffer", line)
    line = re.sub(r"^step\.state @\S+", "step.state", line)
    line = re.sub(r"^(step\.launch @[^(]*)\([^)]*\)(.*?) : memref.*", r"\1\2", line)
    line = re.sub(r"^(step\.task) ins\([^)]*\) outs\([^)]*\)", r"\1", line)
    line = re.sub(r" {2,}", " ", plain(_VALUES.sub("", line)))
    line = line.replace(" , @", " @").replace(", :", " :").replace("() :", " :")
    return f"{line}  {{ {inside(item)} }}" if item.items else line


def scalar(item):
    """A run-time scalar's whole body, values numbered by appearance."""
    names = {}
    lines = [plain(item.line)] + ["      " + inner.line for inner in item.items]
    return "\n".join(
        re.sub(r"%[\w.$-]+", lambda m: names.setdefault(m.group(0), f"%{len(names)}"), line)
        for line in lines
    )


def header(item):
    return plain(re.sub(r"%[\w.$-]+: ", "", item.line))


def sections(text):
    """{name: (title, Counter of entries)} of a module, in order."""
    (module,) = parse(text)
    attributes = collections.Counter(_ATTRIBUTE.findall(module.line))
    found = {"module": ("module", attributes)}
    for item in module.items:
        match = _SECTION.match(item.line)
        if match and match.group(1) == "module":
            kernels = collections.Counter(header(kernel) for kernel in item.items)
            found["kernels"] = (header(item), kernels)
        elif match:
            name = match.group(2)
            found[name] = (header(item), collections.Counter(map(entry, item.items)))
        else:
            declaration = scalar(item) if item.line.startswith("nano.scalar") else entry(item)
            found["module"][1][declaration] += 1
    return found


def table(counts, sign=""):
    width = max([len(str(count)) for count in counts.values()], default=0)
    return [f"  {sign}{count:>{width}} × {text}" for text, count in counts.items()]


def write(found, earlier):
    """The page of one stage. `earlier`: [(stage, its sections)], latest first."""
    lines = []
    for name, (title, counts) in found.items():
        lines.append(title)
        bases = [(f"as after {stage}", old[name][1]) for stage, old in earlier if name in old]
        bases += [
            (f"as {other}", found[other][1])
            for other in list(found)[1 : list(found).index(name)]
            if other != "kernels"
        ]
        best = None
        for what, base in bases:
            removed, added = base - counts, counts - base
            size = len(removed) + len(added)
            if 5 * size <= 3 * len(counts) and (best is None or size < best[0]):
                best = (size, what, removed, added)
        if best is None:
            lines += table(counts)
        else:
            _, what, removed, added = best
            lines.append(f"  {what}" + (", but" if removed or added else ""))
            lines += table(removed, "− ") + table(added, "+ ")
        lines.append("")
    return "\n".join(lines)
