"""Sources that the build compiles as one (NanoUnity.cmake), given to clang-tidy as one: most of
the time of a reading goes to what all of them include. Where nothing is found in their texts, one
behind the other, nothing is in any of them, with three exceptions, which are looked for here: what
a source does not include itself, a name that only others use, a header that is included twice."""

import collections
import os
import re
import subprocess

# What no finding is in, and where a name does not count as used.
SILENT = re.compile(
    r'//[^\n]*|/\*.*?\*/|\bR"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.DOTALL
)
DECLARED = re.compile(
    r"\busing\s+(?!namespace\b)([^;={}]*::[^;={}]*);|\bnamespace\s+(\w+)\s*=", re.DOTALL
)
# Options of a command that stand before what it writes or reads.
WITH_FILE = ("-o", "-c", "-MF", "-MT", "-MQ")

Command = collections.namedtuple("Command", "words folder sources")
Command.__doc__ = """An entry of compile_commands.json: a command, where it is given, and the
project's sources that it compiles and no earlier one does."""


def code_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def has_idle_name(code):
    """Whether a name that `using` or an alias of a namespace declares stands nowhere else. Among
    sources that use what it names clang-tidy would take it for used."""
    code = SILENT.sub(" ", code)
    words = collections.Counter(re.findall(r"\w+", code))
    for names, alias in DECLARED.findall(code):
        for name in names.split(",") if names else [alias]:
            last = re.search(r"(\w+)\W*$", name)
            if not last or words[last.group(1)] < 2:
                return True
    return False


def text_of(sources):
    """The sources as one text, all of it that of a main file, as each of them is. Where a macro is
    undefined clang-tidy forgets what was included before: another source may include it too."""
    return "".join(f"#undef NANO_NEXT_SOURCE\n{code_of(path)}\n" for path in sources)


def compiles_alone(command, path):
    """Whether one source of a command passes the compiler by itself."""
    words, position = [], 0
    while position < len(command.words):
        word = command.words[position]
        position += 2 if word in WITH_FILE else 1
        if word not in WITH_FILE and word not in ("-MD", "-MMD"):
            words.append(word)
    words += ["-fsyntax-only", path]
    return subprocess.run(words, cwd=command.folder, capture_output=True).returncode == 0


class Group:
    """Sources of a command that are to be read; its text lies in `folder`."""

    def __init__(self, command, sources, folder):
        self.command, self.sources = command, sources
        self.path = os.path.join(folder, re.sub(r"\W", "_", sources[0]) + ".cpp")
        os.makedirs(folder, exist_ok=True)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text_of(sources))

    def strangers(self, trusted):
        """The sources that do not compile by themselves, but for those in `trusted`."""
        sources = [path for path in self.sources if path not in trusted]
        return [path for path in sources if not compiles_alone(self.command, path)]


def groups_of(commands, wanted, folder):
    """Groups of the sources in `wanted` that can be read together; those that they leave are to be
    read alone."""
    groups = []
    for command in commands:
        sources = [path for path in command.sources if path in wanted]
        sources = [path for path in sources if not has_idle_name(code_of(path))]
        if len(sources) > 1:
            groups.append(Group(command, sources, folder))
    return groups
