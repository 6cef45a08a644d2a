#!/usr/bin/env python3
"""clang-tidy over the project's files, each again only when it, a header of the project that it
includes, its flags or the configuration changed: a clean file leaves a stamp under BUILD/tidy,
named by the hash of all these. Sources that the build compiles as one are read as one
(together.py), and each by itself where something is found so. The headers of libraries are
precompiled (precompiled.py) where clang++ is there for it.

usage: tidy.py ROOT BUILD [--jobs N]     exit status 1 when a file has findings, 2 when there is
nothing to read"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import precompiled
import together

PROGRAM = "clang-tidy-22"
INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)


def flags_of(words):
    """The flags of a command that clang needs to read the same program. A precompiled header is
    included as text, by the names that it was made from: clang cannot read g++'s, and headers are
    read otherwise here (precompiled.py)."""
    words = [word for word in words if word != "-Xclang"]
    flags, position = [], 1
    while position < len(words):
        word = words[position]
        if word in ("-D", "-U", "-I", "-isystem", "-include"):
            position += 1
            argument = words[position]
            if word == "-include" and os.path.basename(argument).startswith("cmake_pch"):
                with open(argument, encoding="utf-8") as file:
                    for header in re.findall(r'^#include "([^"]+)"', file.read(), re.MULTILINE):
                        flags += ["-include", header]
            else:
                flags += [word, argument]
        elif word == "-include-pch":
            position += 1
        elif re.match(r"-(D|U|I|std=|m)", word):
            flags.append(word)
        position += 1
    return flags


def sources_of(entry):
    """The file of an entry of compile_commands.json, or those of which it includes the texts
    (NanoUnity.cmake)."""
    path = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
    if os.path.basename(os.path.dirname(path)) != "Unity" or not os.path.exists(path):
        return [path]
    with open(path, encoding="utf-8") as file:
        return re.findall(r'^#include "([^"]+)"', file.read(), re.MULTILINE)


def commands(root, build):
    """together.Command of each entry of BUILD/compile_commands.json that compiles sources of the
    project's own. What the build generates is not read."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    found, seen = [], set()
    for entry in entries:
        compiled = sources_of(entry)
        sources = [
            path
            for path in compiled
            if path.startswith(root + os.sep) and not path.startswith(build + os.sep)
            if os.path.exists(path) and path not in seen
        ]
        seen.update(sources)
        if sources:
            words = entry.get("arguments") or shlex.split(entry["command"])
            found.append(together.Command(words, entry["directory"], sources, compiled[0]))
    return found


def units(root, build):
    """{file: flags} of the project's own sources. Headers that the build generates are read as
    those of a library: without looking for findings."""
    found = {}
    for command in commands(root, build):
        flags = []
        for flag in flags_of(command.words):
            flags += ["-isystem", build] if flag == f"-I{build}" else [flag]
        found.update((path, flags) for path in command.sources)
    return found


class Contents:
    """Hashes of files together with the project's headers that they include, and the names that
    all these include, each file read once."""

    def __init__(self, folders):
        self.folders, self.read = folders, {}

    def load(self, path):
        if path not in self.read:
            with open(path, "rb") as file:
                data = file.read()
            names = [name.decode() for name in INCLUDE.findall(data)]
            included = []
            for name in names:
                for folder in self.folders:
                    candidate = os.path.join(folder, name)
                    if os.path.isfile(candidate):
                        included.append(candidate)
                        break
            self.read[path] = (hashlib.sha256(data).digest(), included, names)
        return self.read[path]

    def closure(self, path):
        seen, waiting = {path}, [path]
        while waiting:
            for included in self.load(waiting.pop())[1]:
                if included not in seen:
                    seen.add(included)
                    waiting.append(included)
        return sorted(seen)

    def text(self, path):
        return b"".join(name.encode() + self.load(name)[0] for name in self.closure(path))

    def names(self, paths):
        files = {file for path in paths for file in self.closure(path)}
        return {name for file in files for name in self.load(file)[2]}


def pattern(config, name):
    """The regular expression of a setting of .clang-tidy that is on one line, in quotes."""
    found = re.search(rf"^{name}: '(.*)'$", config, re.MULTILINE)
    return re.compile(found.group(1) if found else r"(?!)")


def run(path, flags, config, extra):
    command = [PROGRAM, "--quiet", f"--config-file={config}", path, "--", *flags, *extra]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.returncode, result.stdout + ("" if result.returncode == 0 else result.stderr)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root")
    parser.add_argument("build")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    root, build = os.path.realpath(arguments.root), os.path.realpath(arguments.build)
    config = os.path.join(root, ".clang-tidy")
    stamps = os.path.join(build, "tidy")
    os.makedirs(stamps, exist_ok=True)

    files = units(root, build)
    if not files:
        print(f"clang-tidy: {build}/compile_commands.json names no file of {root}", file=sys.stderr)
        return 2
    version = subprocess.run([PROGRAM, "--version"], capture_output=True, check=True).stdout
    with open(config, encoding="utf-8") as file:
        settings = file.read()
    common = version + settings.encode()
    extra = ["-Wno-unknown-pragmas", "-Wno-unused-command-line-argument"]

    contents = Contents((root, build))
    wanted, stamp_of = [], {}
    for path, flags in sorted(files.items()):
        key = hashlib.sha256(
            "\0".join([path, *flags, *extra]).encode() + common + contents.text(path)
        ).hexdigest()
        stamp_of[path] = os.path.join(stamps, key)
        if not os.path.exists(stamp_of[path]):
            wanted.append(path)
    for name in os.listdir(stamps):
        if os.path.join(stamps, name) not in stamp_of.values():
            os.unlink(os.path.join(stamps, name))

    checked = pattern(settings, "HeaderFilterRegex")
    unchecked = pattern(settings, "ExcludeHeaderFilterRegex")
    headers = precompiled.Store(
        os.path.join(build, "tidy-headers"),
        extra,
        version,
        lambda name: checked.search(name) and not unchecked.search(name),
    )

    def choices(paths):
        return list(precompiled.choices(files[paths[0]], contents.names(paths), headers.is_checked))

    of_file = {path: choices([path]) for path in files}
    built = commands(root, build)
    command_of = {path: command.sources[0] for command in built for path in command.sources}
    of_command = {command.sources[0]: choices(command.sources) for command in built}
    kept = [*of_file.values(), *of_command.values()]
    headers.keep_only([header for options in kept for header in options])

    def kind_of(command):
        """Commands of one have the same flags and precompiled header, and stand in one room."""
        first = command.sources[0]
        room = os.path.relpath(first, root).split(os.sep)[0]
        return room, tuple(files[first]), tuple(of_command[first])

    texts = os.path.join(build, "tidy-texts")
    shutil.rmtree(texts, ignore_errors=True)
    groups = together.groups_of(built, set(wanted), kind_of, texts)
    in_groups = {path for group in groups for path in group.sources}
    alone = [path for path in wanted if path not in in_groups]

    def read(path, flags, options):
        header = headers.best(options)
        return run(path, headers.flags(flags, header) if header else flags, config, extra)

    def read_alone(paths):
        return [(path, *read(path, files[path], of_file[path])) for path in paths]

    def choices_of(group):
        return of_command[command_of[group.sources[0]]]

    def read_group(group):
        """What is read as one without a finding is read; each part or source of another by
        itself."""
        first, options = group.sources[0], choices_of(group)
        status, output = read(group.path, files[first], options)
        if status or output.strip():
            if len(group.parts) == 1:
                return read_alone(group.sources)
            return [found for part in group.parts for found in read_part(part)]
        # The first one has compiled by itself if it was given no other headers than it includes.
        strangers = group.strangers([first] if of_file[first] == options else [])
        clean = [(path, 0, "") for path in group.sources if path not in strangers]
        return clean + read_alone(strangers)

    def read_part(part):
        if len(part.sources) == 1:
            return read_alone(part.sources)
        return read_group(together.Group([part], texts))

    bad = done = 0
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        if headers.is_possible():
            of_groups = [choices_of(group) for group in groups]
            headers.make_for([*of_groups, *(of_file[path] for path in alone)], pool)
        jobs = [pool.submit(read_group, group) for group in groups]
        jobs += [pool.submit(read_alone, [path]) for path in alone]
        for job in concurrent.futures.as_completed(jobs):
            for path, status, output in job.result():
                done += 1
                if sys.stdout.isatty():
                    print(f"\rclang-tidy: {done} of {len(wanted)}", end="", flush=True)
                if status == 0 and not output.strip():
                    open(stamp_of[path], "w").close()
                else:
                    bad += 1
                    print(
                        f"\n{os.path.relpath(path, root)}:\n{output.strip() or f'clang-tidy ended with status {status}'}",
                        flush=True,
                    )
    if sys.stdout.isatty() and wanted:
        print("\r", end="")
    print(f"clang-tidy: {len(files)} files, {len(wanted)} of them read now, {bad} with findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
