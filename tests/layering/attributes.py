#!/usr/bin/env python3
"""Meaning is typed: lists the discardable attributes that the compiler reads or writes, by the
names that stand as strings in the sources, and reports each that is not allowed here with a reason,
and each that is allowed and used no more.

usage: attributes.py [ROOT]      prints FILE:LINE: what is wrong; exit status 1 if anything is, or
if no name was found"""

import os
import re
import sys

from sources import program, read, walk, without_comments

ROOMS = ("ir/", "passes/", "codegen/", "compiler/")
_NAME = re.compile(r'"((?:nano|kernel|step)\.[a-z][a-z_0-9.]*)"')
_OP = re.compile(r'\bdef \w+ : (?:Nano|Step|Kernel)_\w+<"(\w+)"')

MODEL = "a fact of the model, on the module, which has no op of its own"
PROGRAM = "on functions of the graph, which are upstream's"
# name: why it is no field of an op or attribute. The list only gets shorter.
ALLOWED = {
    "nano.model": MODEL,
    "nano.hyperparameters": MODEL,
    "nano.training": MODEL,
    "nano.run_stages": MODEL,
    "nano.run_stage": MODEL,
    "nano.interchange": MODEL,
    "nano.world": "what distribution found out, on the module",
    "nano.group": "what distribution found out, on the module",
    "nano.fp8_products": "what a report's rows are about, on the module",
    "nano.gpu_scales": "how scales lie in memory, on the module",
    "nano.role": PROGRAM,
    "nano.phases": PROGRAM,
    "nano.in_stages": PROGRAM,
    "nano.event_step": PROGRAM,
    "nano.traffic": PROGRAM + "; for the reader of a report alone",
    "nano.over_ranks": "on states, read by the verifier of distribution",
    "nano.sharding": "on states, verified with them",
    "nano.fp8": "on states and their products, read by one policy class, which verifies it",
    "nano.recompute": "on any op of the training program, until nano-recompute takes it away",
    "nano.unroll": "on upstream's loops: a wrong one costs time, not results",
    "step.offset": "on states and scalars, which graph and step share; both proofs read it",
    "step.arena_bytes": "on the module; both proofs read it",
    "step.floor_bytes": "on the module; for the reader of a report alone",
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
            for name in _NAME.findall(line):
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
