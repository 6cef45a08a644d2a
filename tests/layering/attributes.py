#!/usr/bin/env python3
"""Meaning is typed: lists the discardable attributes that the compiler reads or writes, by the
names that stand as strings in the sources, those of our dialects anywhere and all others where an
attribute is set, asked for or removed, and reports each that is not allowed here with a reason, and
each that is allowed and used no more.

usage: attributes.py [ROOT]      prints FILE:LINE: what is wrong; exit status 1 if anything is, or
if no name was found"""

import os
import re
import sys

from sources import program, read, walk, without_comments

ROOMS = ("ir/", "passes/", "codegen/", "compiler/")
_NAME = re.compile(r'"((?:nano|kernel|step)\.[a-z][a-z_0-9.]*)"')
_CALL = re.compile(
    r'\b(?:set|get|has|remove)(?:Discardable|Arg|Result)?Attr(?:OfType)?(?:<[^>]*>)?\([^;")]*"([^"]+)"'
)
_OP = re.compile(r'\bdef \w+ : (?:Nano|Step|Kernel)_\w+<"(\w+)"')

# name: why a wrong or missing one costs time or memory and never a result. The list only gets shorter.
ALLOWED = {
    "nano.recompute": "a hint on any op of the training program, until nano-recompute takes it away",
    "nano.unroll": "a hint on upstream's loops",
}


def check(root, allowed):
    """Returns (violations as text lines, names found)."""
    violations, found, ops = [], {}, set()
    for path, absolute in walk(root, (".td", ".h", ".cpp")):
        if not path.startswith(ROOMS) or path.startswith("codegen/device/"):
            continue
        text = read(absolute) or ""
        if path.endswith(".td"):
            dialect = {"graph": "nano"}.get(path.split("/")[1], path.split("/")[1])
            ops.update(f"{dialect}.{name}" for name in _OP.findall(text))
            continue
        for number, line in enumerate(without_comments(text).splitlines(), 1):
            for name in _NAME.findall(line) + _CALL.findall(line):
                found.setdefault(name, f"{path}:{number}")
    for name, place in sorted(found.items()):
        if name not in ops and name not in allowed:
            violations.append(
                f"{place}: '{name}': meaning belongs into a field of an op or an attribute class; "
                f"what cannot be one is listed in tests/layering/attributes.py"
            )
    for name in sorted(set(allowed) - set(found)):
        violations.append(f"tests/layering/attributes.py: '{name}' is allowed, but used no more")
    return violations, found


def judged(root):
    violations, found = check(root, ALLOWED)
    return violations, f"{len(found)} names", len(found)


main = program(__doc__, judged)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
