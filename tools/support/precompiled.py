"""Headers precompiled by clang for clang-tidy: those of libraries, which take most of the time of
reading a file and have no findings. They lie in one folder, named by the hash of all that they are
made from, and serve as long as the files behind them stay as they are."""

import collections
import hashlib
import json
import os
import re
import shutil
import subprocess

COMPILER = "clang++-22"

# Headers that take long to read, and how the names of the macros begin that they look at.
LIBRARIES = {
    "CLI/CLI.hpp": "CLI11_",
    "fmt/format.h": "FMT_",
    "gmock/gmock.h": "GTEST_",
    "gtest/gtest.h": "GTEST_",
    "nlohmann/json.hpp": "JSON_",
}
# Before the header that a target of the build precompiles: containers and the like, read whole,
# since what their functions do to arguments decides whether a copy is needed. The rest of it is
# read without the bodies of functions, which is faster and makes no other difference to findings.
CONTAINERS = (
    "algorithm",
    "functional",
    "map",
    "memory",
    "optional",
    "set",
    "string",
    "unordered_map",
    "utility",
    "variant",
    "vector",
    "llvm/ADT/DenseMap.h",
    "llvm/ADT/MapVector.h",
    "llvm/ADT/STLExtras.h",
    "llvm/ADT/SetVector.h",
    "llvm/ADT/SmallVector.h",
    "llvm/ADT/StringMap.h",
)
PROJECT_MACRO = re.compile(r"-D(NANO|\w+_EXPORTS$)")
# How many files make it worth while; the first of them could be read in the time that it takes.
WORTH = 3

Header = collections.namedtuple("Header", "lines flags base is_brief")
Header.__doc__ = """What a precompiled header is made from: the lines of its text, clang's flags,
the Header that it goes on from or None, and whether bodies of functions are left out."""


def chain(header):
    """The header and those that it goes on from, these first."""
    return [*chain(header.base), header] if header else []


def split_includes(flags):
    """(the headers that `-include` names, the other flags)."""
    headers, others, position = [], [], 0
    while position < len(flags):
        if flags[position] == "-include":
            headers.append(flags[position + 1])
            position += 1
        else:
            others.append(flags[position])
        position += 1
    return headers, others


def relevant(flags, libraries):
    """The flags without the macros that no header here looks at: the project's own, and those of
    libraries that are not among them."""
    absent = {LIBRARIES[name] for name in LIBRARIES if name not in libraries}
    absent -= {LIBRARIES[name] for name in libraries}
    return tuple(
        flag
        for flag in flags
        if not PROJECT_MACRO.match(flag)
        and not (flag.startswith("-D") and flag[2:].startswith(tuple(absent)))
    )


def choices(flags, included, is_checked):
    """The Headers that can serve a file, best first. `included`: the library headers that it and
    the project's headers behind it include. `is_checked`: see Store."""
    prefix, others = split_includes(flags)
    libraries = sorted(set(included) & set(LIBRARIES))
    base = None
    if prefix:
        flags = relevant(others, ())
        lines = tuple(
            f"#if __has_include(<{name}>)\n#include <{name}>\n#endif" for name in CONTAINERS
        )
        containers = Header(lines, flags, None, False)
        lines = tuple(f'#include "{header}"' for header in prefix if not is_checked(header))
        base = Header(lines, flags, containers, True) if lines else containers
    if libraries:
        lines = tuple(f"#include <{name}>" for name in libraries)
        yield Header(lines, relevant(others, libraries), base, False)
    if base:
        yield base


class Store:
    """Precompiled headers in `folder`. `extra`: flags of every command; `version`: of clang;
    `is_checked(path)`: whether findings in this file count: a header with such a file in it is not
    precompiled."""

    def __init__(self, folder, extra, version, is_checked):
        self.folder, self.extra, self.version, self.is_checked = folder, extra, version, is_checked
        self.made = {}
        os.makedirs(folder, exist_ok=True)

    @staticmethod
    def is_possible():
        return shutil.which(COMPILER) is not None

    def path(self, header, suffix):
        key = hashlib.sha256(repr((header, self.extra, self.version)).encode()).hexdigest()
        return os.path.join(self.folder, key + suffix)

    def is_fresh(self, header):
        """Whether it lies there, made from the files as they are now."""
        if header.base and not self.is_fresh(header.base):
            return False
        try:
            with open(self.path(header, ".json"), encoding="utf-8") as file:
                files = json.load(file)
            return os.path.exists(self.path(header, ".pch")) and all(
                identity(name) == known for name, known in files.items()
            )
        except (OSError, ValueError):
            return False

    def make(self, header):
        """Whether it is there now; what it goes on from was made before."""
        if header not in self.made:
            self.made[header] = self.is_fresh(header) or self.compile(header)
        return self.made[header]

    def compile(self, header):
        if header.base and not self.made.get(header.base):
            return False
        text, output = self.path(header, ".h"), self.path(header, ".pch")
        with open(text, "w", encoding="utf-8") as file:
            file.write("\n".join(header.lines) + "\n")
        command = [COMPILER, "-x", "c++-header", *header.flags, *self.extra]
        if header.base:
            command += ["-include-pch", self.path(header.base, ".pch")]
        if header.is_brief:
            command += ["-Xclang", "-skip-function-bodies"]
        # What the headers instantiate, they instantiate once.
        command += ["-fpch-instantiate-templates", text, "-o", output]
        command += ["-MD", "-MT", "x", "-MF", self.path(header, ".d")]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return False  # clang-tidy says why, when it reads the file as it stands
        with open(self.path(header, ".d"), encoding="utf-8") as file:
            words = file.read().replace("\\\n", " ").removeprefix("x:")
        files = [word.replace("\\ ", " ") for word in re.findall(r"(?:\\ |\S)+", words)]
        if any(self.is_checked(name) for name in files):
            os.unlink(output)
            return False
        with open(self.path(header, ".json"), "w", encoding="utf-8") as file:
            json.dump({name: identity(name) for name in files if name != text}, file)
        return True

    def make_for(self, wanted, pool):
        """Makes the headers that are worth it on `pool`, a concurrent.futures.Executor. `wanted`:
        the choices of each text that is to be read."""
        users = collections.Counter(
            header
            for options in wanted
            for header in {part for option in options for part in chain(option)}
        )
        worth = [
            header for header, count in users.items() if count >= WORTH or self.is_fresh(header)
        ]
        for length in sorted({len(chain(header)) for header in worth}):
            list(pool.map(self.make, [header for header in worth if len(chain(header)) == length]))

    def best(self, options):
        """The first of a text's choices that is there, or None."""
        for option in options:
            if self.made.setdefault(option, self.is_fresh(option)):
                return option
        return None

    def keep_only(self, headers):
        """Deletes what is of none of these, or of what they go on from."""
        kept = {part for header in headers for part in chain(header)}
        keys = {os.path.basename(self.path(header, "")) for header in kept}
        for name in os.listdir(self.folder):
            if name.split(".")[0] not in keys:
                os.unlink(os.path.join(self.folder, name))

    def flags(self, flags, header):
        """A file's flags with the precompiled header in the place of what it holds; the checked
        headers that the build precompiles too are read as text."""
        prefix, others = split_includes(flags)
        flags = [*others, "-include-pch", self.path(header, ".pch")]
        for name in filter(self.is_checked, prefix):
            flags += ["-include", name]
        return flags


def identity(path):
    """Changes when the file does."""
    status = os.stat(path)
    return [status.st_mtime_ns, status.st_size]
