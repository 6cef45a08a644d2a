#!/usr/bin/env python3
"""Who may include whom: reads every #include of the project and reports those that the table in
RULES does not allow, and loops among the folders of passes/.

usage: includes.py [ROOT]     prints FILE:LINE: what is wrong; exit status 1 if anything is, or if
nothing was read"""

import os
import re
import sys

from sources import program, read, walk, without_comments

SUFFIXES = (".h", ".hpp", ".cpp", ".cc", ".c", ".cu", ".cuh", ".inc", ".def", ".td")

# A room is a folder; the deepest one that holds a file is the file's room. The value lists the
# rooms (with everything below them that is not listed on its own) or single headers that it may
# include.
COMPILER_SIDE = (
    "base",
    "ir",
    "ir/machine",
    "passes",
    "codegen",
    "codegen/device",
    "compiler",
    "runtime/plan",
)
RUNTIME_SIDE = ("base", "runtime/plan", "runtime", "runtime/comm")
DEVICES = (
    "runtime/cpu",
    "runtime/cuda",
    "runtime/emulator",
)  # loaded on demand: nobody includes them
RULES = {
    "base": ("base",),  # a leaf
    "ir": ("base", "ir"),
    "ir/machine": ("base", "ir/machine"),
    "passes": ("base", "ir", "ir/machine", "passes"),
    "codegen": ("base", "ir", "codegen", "codegen/device", "runtime/plan"),
    "codegen/device": (),
    "compiler": COMPILER_SIDE,
    "runtime/plan": ("base", "runtime/plan"),
    "runtime": RUNTIME_SIDE,
    "runtime/comm": RUNTIME_SIDE + ("runtime/cuda",),
    "runtime/cpu": RUNTIME_SIDE + ("runtime/cpu",),
    "runtime/cuda": RUNTIME_SIDE + ("runtime/cuda",),
    "runtime/emulator": RUNTIME_SIDE
    + ("runtime/emulator", "runtime/cpu", "codegen/device"),
    "models": ("compiler/Frontend.h", "models"),
    "tools": COMPILER_SIDE + ("tools",),
    "tools/nanorun": RUNTIME_SIDE + ("tools/nanorun",),
    "tests": COMPILER_SIDE + RUNTIME_SIDE + DEVICES + ("models", "tools", "tools/nanorun", "tests"),
    "benchmarks": COMPILER_SIDE
    + RUNTIME_SIDE
    + DEVICES
    + ("models", "benchmarks", "tests/codegen/TaskRunner.h", "tests/codegen/AttentionTasks.h"),
    "cmake": (),  # the header that is precompiled for the compiler's rooms
}

# The device library: headers that travel inside plans and the emulator, so that kernels' compilers
# find them by bare name. They include each other and nothing else. What the compiler must know of
# a template too stands in the last folder.
DEVICE_TEXT = ("codegen/device", "codegen/device/emulator", "ir/kernel/shapes")

# Libraries: headers by pattern, and the only rooms that may include them.
COMPILER_ROOMS = ("ir", "passes", "codegen", "compiler", "tools", "tests", "benchmarks", "cmake")
LIBRARIES = (
    (
        "LLVM's support library",
        re.compile(r"^llvm/(ADT|Support)/"),
        COMPILER_ROOMS + ("ir/machine",),
    ),
    ("MLIR and LLVM", re.compile(r"^(mlir|llvm|mlir-c|llvm-c|clang)/"), COMPILER_ROOMS),
    (
        "CUDA, NCCL and cuBLASLt",
        re.compile(r"^((cuda|cublas|nccl|nvtx|cub|cute|cutlass)[\w.]*(/|$)|nvToolsExt|thrust/)"),
        ("runtime/cuda", "runtime/comm"),
    ),
    ("MPI", re.compile(r"^mpi\.h$"), ("runtime/comm",)),
    ("oneDNN", re.compile(r"^(dnnl|oneapi/dnnl)"), ("runtime/cpu",)),
)

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*(?:include|include_next|import)\b[ \t]*([<"])([^>"\n]+)[>"]')
_TABLEGEN_INCLUDE = re.compile(r'^[ \t]*include[ \t]+(")([^"\n]+)"')


def room_of(path, rooms=RULES):
    """The deepest room that holds `path`, or None."""
    parts = path.split("/")
    for length in range(len(parts) - 1, 0, -1):
        room = "/".join(parts[:length])
        if room in rooms:
            return room
    return None


def pass_room(path):
    """The folder below passes/ that holds `path`, or None."""
    parts = path.split("/")
    return parts[1] if parts[0] == "passes" and len(parts) > 2 else None


def loops(edges):
    """The loops among the folders of passes/, a line each: `edges` maps (folder, folder) to the place
    of one include that leads from the first to the second."""
    lines, done = [], set()
    for start in sorted({folder for folder, _ in edges}):
        path, stack = {start: None}, [start]
        while stack:
            here = stack.pop()
            for (source, target), place in sorted(edges.items()):
                if source != here or (target != start and target in path):
                    continue
                if target != start:
                    path[target] = here
                    stack.append(target)
                    continue
                way = [here]
                while path[way[-1]] is not None:
                    way.append(path[way[-1]])
                if frozenset(way) not in done:
                    done.add(frozenset(way))
                    lines.append(
                        f"{place}: closes a loop of rooms: {' → '.join(way[::-1] + [start])}"
                    )
    return lines


def judge(root, path, quote, target):
    """What is wrong with file `path` including `target`, or None."""
    room = room_of(path)
    if os.path.dirname(path) in DEVICE_TEXT:
        if any(os.path.exists(os.path.join(root, folder, target)) for folder in DEVICE_TEXT):
            return None
        return f"{target}: a header of the device library includes others of it by bare name only"
    for name, pattern, allowed in LIBRARIES:
        if pattern.match(target):
            return (
                None
                if room in allowed
                else f"{target}: {name} headers belong in {', '.join(allowed)} only"
            )
    target_room = room_of(target)
    if target_room is None:
        beside = os.path.join(os.path.dirname(path), target)
        if target.startswith(".") or (quote == '"' and os.path.exists(os.path.join(root, beside))):
            return f"{target}: an include is rooted at the repository: write {os.path.normpath(beside)}"
        return None
    if target in RULES[room] or target_room in RULES[room]:
        return None
    return f"{target}: {room} may include {', '.join(RULES[room])}, not {target_room}"


def check(root):
    """Returns (violations as text lines, number of files read, number of includes read)."""
    violations, files, includes = [], 0, 0
    edges = {}
    for path, absolute in walk(root, SUFFIXES):
        text = read(absolute)
        if text is None:
            continue
        files += 1
        pattern = _TABLEGEN_INCLUDE if path.endswith(".td") else _INCLUDE
        found = []
        for number, line in enumerate(without_comments(text).split("\n"), 1):
            match = pattern.match(line)
            if match:
                found.append((number, match.group(1), match.group(2)))
        includes += len(found)
        if room_of(path) is None:
            if found:
                violations.append(
                    f"{path}:{found[0][0]}: {path.split('/')[0]} is no room of the table: add its "
                    f"rule to RULES"
                )
            continue
        for number, quote, target in found:
            wrong = judge(root, path, quote, target)
            if wrong:
                violations.append(f"{path}:{number}: {wrong}")
            rooms = pass_room(path), pass_room(target)
            if all(rooms) and rooms[0] != rooms[1]:
                edges.setdefault(rooms, f"{path}:{number}")
    return violations + loops(edges), files, includes


def judged(root):
    violations, files, includes = check(root)
    return violations, f"{includes} includes in {files} files, against the table", includes


main = program(__doc__, judged)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
