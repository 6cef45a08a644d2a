"""Sources that clang-tidy reads as one: most of the time of a reading goes to what all of them
include. Where nothing is found in their texts, one behind the other, nothing is in any of them,
with three exceptions, which are looked for here: what a source does not include itself, a name that
only others use, a header that is included twice.

Sources that the build compiles as one (NanoUnity.cmake) can be; others where their names look as if
they do not meet."""

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
# Names that a source declares at the edge of its lines, which is where clang-format puts those of
# namespaces: of a type, of an alias, of another namespace's (with that one), of all else.
EDGE = re.compile(
    r"^(?:template\s*<.*>\s*)?"
    r"(?:(?:struct|class|union|enum(?: class)?)\s+(\w+)|using\s+(\w+)\s*=|using\s+([\w:]*::(\w+));"
    r"|(?!\s|using |namespace |#|//|\})[^\n({=;\[]*?([\w:~]+) *[({=;\[])",
    re.MULTILINE,
)
DIRECTIVE = re.compile(r"\busing\s+namespace\s+([\w:]+)")
MOST_SOURCES = 24  # of a text: two cores are to end at about the same time
# Options of a command that stand before what it writes or reads.
WITH_FILE = ("-o", "-c", "-MF", "-MT", "-MQ")

Command = collections.namedtuple("Command", "words folder sources first")
Command.__doc__ = """An entry of compile_commands.json: a command, where it is given, the project's
sources that it compiles and no earlier one does, and the first of all that it compiles."""


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


class Names:
    """What sources declare: {name: what it is of another namespace, or None}, and the namespaces
    whose names they use."""

    def __init__(self, sources=()):
        self.declared, self.namespaces = {}, set()
        for path in sources:
            code = SILENT.sub(" ", code_of(path))
            self.namespaces.update(DIRECTIVE.findall(code))
            for kind, alias, target, name, other in EDGE.findall(code):
                own = kind or alias or other
                # Not members' definitions, and not macros: overloads and tests.
                if not target and ("::" in own or own.isupper() or own.startswith("TEST")):
                    continue
                self.declared[name or own] = target or None

    def meets(self, other):
        """Whether a name may mean something else beside the other's."""
        if self.namespaces != other.namespaces:
            return True
        known = self.declared
        return any(
            name in known and not (target and known[name] == target)
            for name, target in other.declared.items()
        )

    def add(self, other):
        self.declared.update(other.declared)


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
    """Sources that are to be read as one, in parts, each of a command; the text lies in `folder`."""

    def __init__(self, parts, folder):
        self.parts = parts  # Commands, each with those of its sources that are to be read
        self.sources = [path for part in parts for path in part.sources]
        name = re.sub(r"\W", "_", self.sources[0])
        self.path = os.path.join(folder, f"{len(parts)}{name}.cpp")
        os.makedirs(folder, exist_ok=True)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text_of(self.sources))

    def strangers(self, trusted):
        """The sources that do not compile by themselves, but for those in `trusted`, and those that
        the build, which comes before, has compiled with nothing in front of them."""
        return [
            path
            for part in self.parts
            for path in part.sources
            if path != part.first and path not in trusted and not compiles_alone(part, path)
        ]


def groups_of(commands, wanted, kind_of, folder):
    """Groups of the sources in `wanted` that can be read together; those that they leave are to be
    read alone. Only what is of one `kind_of(command)` is."""
    found = collections.defaultdict(list)  # by kind: (parts, Names) of each group
    for command in commands:
        sources = [path for path in command.sources if path in wanted]
        sources = [path for path in sources if not has_idle_name(code_of(path))]
        if not sources:
            continue
        # Another one stands at the head of a text than of the build's.
        sources.sort(key=lambda path: path == command.first)
        names, groups = Names(sources), found[kind_of(command)]
        for parts, others in groups:
            count = sum(len(part.sources) for part in parts) + len(sources)
            if count <= MOST_SOURCES and not others.meets(names):
                break
        else:
            parts, others = [], Names()
            others.namespaces = names.namespaces
            groups.append((parts, others))
        parts.append(command._replace(sources=sources))
        others.add(names)
    groups = [Group(parts, folder) for groups in found.values() for parts, _ in groups]
    return [group for group in groups if len(group.sources) > 1]
