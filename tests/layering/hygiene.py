#!/usr/bin/env python3
"""Reports what no compiler does: files that have grown too long, FileCheck directives that check
nothing because their colon is missing, paths of somebody's machine, and stages of the compiler and
targets that are known by their names.

usage: hygiene.py [ROOT]      prints FILE:LINE: what is wrong; exit status 1 if anything is, or if
nothing was read"""

import os
import re
import sys

from sources import program, read, walk

LONGEST = 700  # lines
LENGTH_SUFFIXES = (".h", ".cpp", ".cc", ".cu", ".cuh", ".td", ".py", ".sh")
TEXT_SUFFIXES = LENGTH_SUFFIXES + (
    ".mlir",
    ".test",
    ".md",
    ".txt",
    ".cmake",
    ".json",
    ".in",
    ".cfg",
    ".yml",
    ".yaml",
    "",
)

MACHINE_PATH = re.compile(r"(?<![\w./}$-])/(?:home|root|Users|work|workspace|mnt)/[\w.]+")

STAGE_NAME = re.compile(r'\bstage(?:\.|->)name\s*[!=]=\s*"\w+"')
TARGET_NAME = re.compile(r'[!=]=\s*"(?:cpu|cuda|emulator)"|"(?:cpu|cuda|emulator)"\s*[!=]=')

_COMMENT = re.compile(r"^\s*(?://|#|;)+\s*")
_SUFFIX = r"(?:-(?:NEXT|SAME|NOT|DAG|LABEL|EMPTY|COUNT-\d+))?(?:\{LITERAL\})?:"
_PREFIX_OPTION = re.compile(r"--?check-prefix(?:es)?[= ]([\w,-]+)")


def has_suffix(path, suffixes):
    return os.path.splitext(path)[1] in suffixes


def long_file(path, lines):
    is_source = has_suffix(path, LENGTH_SUFFIXES) or (lines and lines[0].startswith("#!"))
    if is_source and len(lines) > LONGEST:
        yield LONGEST + 1, f"{len(lines)} lines: split it by purpose (at most {LONGEST})"


def silent_directives(path, lines):
    """Lines of a test that begin like a FileCheck directive and are none, for CHECK and the
    prefixes that the RUN lines name."""
    if not path.startswith("tests/") or not any("FileCheck" in line for line in lines):
        return
    prefixes = {"CHECK"}
    for line in lines:
        for names in _PREFIX_OPTION.findall(line):
            prefixes.update(names.split(","))
    names = "|".join(sorted(map(re.escape, prefixes), key=len, reverse=True))
    begins = re.compile(rf"(?:{names})(?![\w])")
    directive = re.compile(rf"(?:{names}){_SUFFIX}")
    run_without_colon = re.compile(r"RUN\s+(?:%|nano|not\b|split-file)")
    for number, line in enumerate(lines, 1):
        comment = _COMMENT.match(line)
        if not comment:
            continue
        rest = line[comment.end() :]
        if run_without_colon.match(rest) or (begins.match(rest) and not directive.match(rest)):
            yield number, f"'{line.strip()}' is no directive: is its colon missing, or its suffix misspelt?"


def machine_paths(path, lines):
    if not has_suffix(path, TEXT_SUFFIXES):
        return
    for number, line in enumerate(lines, 1):
        match = MACHINE_PATH.search(line)
        if match:
            yield number, f"{match.group(0)}: a path of one machine"


def named_stages(path, lines):
    """What is done otherwise for a stage stands in the table of stages; tests may ask for one."""
    if path.startswith("tests/"):
        return
    for number, line in enumerate(lines, 1):
        match = STAGE_NAME.search(line)
        if match:
            yield number, f"'{match.group(0)}': say in the table of stages what is done around this one"


def named_targets(path, lines):
    """What is done otherwise for a target is a property of its entry; tests may ask for one."""
    if path.startswith("tests/") or not has_suffix(path, (".h", ".cpp")):
        return
    for number, line in enumerate(lines, 1):
        match = TARGET_NAME.search(line)
        if match:
            yield number, f"'{match.group(0)}': ask base/Target.h for the property that says why"


def check(root):
    """Returns (violations as text lines, number of files read)."""
    violations, files = [], 0
    for path, absolute in walk(root):
        text = read(absolute)
        if text is None:
            continue
        files += 1
        lines = text.splitlines()
        for rule in (long_file, silent_directives, machine_paths, named_stages, named_targets):
            violations += [f"{path}:{number}: {what}" for number, what in rule(path, lines)]
    return violations, files


def judged(root):
    violations, files = check(root)
    return violations, f"{files} files", files


main = program(__doc__, judged)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
