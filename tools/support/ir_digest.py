"""What the programs of a module run after a stage of the compiler, on a page that a person can read
in review.

Each program is a section: its distinct commands with attributes and types, how often each occurs, in
order of first appearance; and so are its kernels, each a signature. Left out are the wiring (values),
buffers and views of them, and how kernels are cut over threads. A section that hardly differs from
the same section of an earlier stage, or from that of another program, is written as the
difference."""

import collections
import itertools
import re

_VALUES = re.compile(r"%[\w.$#-]+(?:, %[\w.$#-]+)*")
_DROPPED = r"(?:(?:step\.)?offset|grain) = \d+ : i64"
_PLACE = re.compile(f"{_DROPPED}(?:, )?|, {_DROPPED}")
_TYPE = re.compile(r"\b(?:tensor|memref)<([^<>,]*)>")
_ARRAY = re.compile(r"array<i64: ([\d, -]+)>")
_SECTION = re.compile(r"(step\.program|module)(?: private)?(?: @(\"[^\"]*\"|[\w.$-]+))?")
_NO_COMMAND = re.compile(r"%[^=]+ = step\.")  # a buffer, a state's, a view of one


class Item:
    """An op as printed, with the lines of its regions."""

    def __init__(self, line):
        self.line, self.items = line, []


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
    """A line without places, simple types without their frames."""
    line = _PLACE.sub("", line).replace(" attributes {}", "").replace(" {}", "")
    line = _ARRAY.sub(lambda match: f"[{', '.join(runs(match.group(1).split(', ')))}]", line)
    return _TYPE.sub(r"\1", line)


def entry(item):
    """One command on one line."""
    line = re.sub(r"^(step\.(?:record|wait)) \d+", r"\1", item.line)
    line = re.sub(r"^(step\.launch @[^(]*)\([^)]*\)(.*?) : memref.*", r"\1\2", line)
    line = re.sub(r" {2,}", " ", plain(_VALUES.sub("", line)))
    return line.replace(" , @", " @").replace(", :", " :").replace("() :", " :")


def header(item):
    return plain(re.sub(r"%[\w.$-]+: ", "", item.line))


def sections(text):
    """{name: (title, Counter of entries)} of a module, in order."""
    (module,) = parse(text)
    arena = collections.Counter(
        item.line for item in module.items if item.line.startswith("step.arena")
    )
    found = {"module": ("module", arena)} if arena else {}
    for item in module.items:
        match = _SECTION.match(item.line)
        if match and match.group(1) == "module":
            kernels = collections.Counter(header(kernel) for kernel in item.items)
            found["kernels"] = (header(item), kernels)
        elif match:
            commands = [command for command in item.items if not _NO_COMMAND.match(command.line)]
            found[match.group(2)] = (header(item), collections.Counter(map(entry, commands)))
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
            for other in list(found)[: list(found).index(name)]
            if other not in ("module", "kernels")
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
