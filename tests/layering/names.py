#!/usr/bin/env python3
"""Nothing but model files knows an optimizer: reads the names of those that models/optimizers.h
defines, and reports every line of an op, a pass, the code generators, the compiler or the runtime
that has one of them.

usage: names.py [ROOT]      prints FILE:LINE: what is wrong; exit status 1 if anything is, or if no
name or no file was read"""

import os
import re
import sys

from sources import program, read, walk

ROOMS = ("ir/", "passes/", "codegen/", "compiler/", "runtime/")
HEADER = "models/optimizers.h"
_DEFINITION = re.compile(r"^inline Optimizer (\w+)\(", re.MULTILINE)


def optimizers(root):
    """The names that the header defines, in lower case."""
    path = os.path.join(root, HEADER)
    text = (read(path) if os.path.exists(path) else None) or ""
    return sorted({name.lower() for name in _DEFINITION.findall(text)})


def pattern(names):
    """The names as words, or as parts of names in CamelCase or with underscores."""
    parts = [f"{name}|{name.capitalize()}|{name.upper()}" for name in names]
    return re.compile(rf"(?<![a-zA-Z])(?:{'|'.join(parts)})(?![a-z])|(?<=[a-z])(?:"
                      rf"{'|'.join(name.capitalize() for name in names)})(?![a-z])")


def check(root):
    """Returns (violations as text lines, names, number of files read)."""
    violations, files, names = [], 0, optimizers(root)
    if not names:
        return violations, names, files
    known = pattern(names)
    for path, absolute in walk(root):
        if not path.startswith(ROOMS):
            continue
        text = read(absolute)
        if text is None:
            continue
        files += 1
        for number, line in enumerate(text.splitlines(), 1):
            found = known.search(line)
            if found:
                violations.append(
                    f"{path}:{number}: '{found.group(0)}': optimizers are equations of model "
                    f"files; say what holds of any"
                )
    return violations, names, files


def judged(root):
    violations, names, files = check(root)
    return violations, f"{len(names)} names, {files} files", len(names) and files


main = program(__doc__, judged)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
