"""The project's source files, and C++ text without its comments: what the layering and hygiene
tests read."""

import os
import re
import sys

SKIPPED_DIRECTORIES = re.compile(r"^(\..*|build(-.*)?|runs|__pycache__)$")


def walk(root, suffixes=None):
    """Yields (path relative to root, absolute path) of every file below root, in sorted order, but
    for build trees, what tools write, and hidden folders. `suffixes`: a tuple that the name must
    end in."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not SKIPPED_DIRECTORIES.match(name))
        for name in sorted(names):
            if suffixes is None or name.endswith(suffixes):
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    yield os.path.relpath(path, root).replace(os.sep, "/"), path


def read(path):
    """The file's text; None where it is not text."""
    with open(path, "rb") as file:
        data = file.read()
    return None if b"\0" in data else data.decode("utf-8", errors="replace")


_TOKENS = re.compile(
    r"""//[^\n]*                                      # line comment
      | /\*.*?\*/                                     # block comment
      | R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"    # raw string
      | "(?:\\.|[^"\\\n])*"                           # string
      | '(?:\\.|[^'\\\n])+'                           # character
    """,
    re.DOTALL | re.VERBOSE,
)


def without_comments(text):
    """C++ or TableGen text with comments and raw strings blanked, line numbers kept: an #include
    written in a comment or in a kernel template is none."""

    def blank(match):
        token = match.group(0)
        return token if token[0] in "\"'" else "\n" * token.count("\n")

    return _TOKENS.sub(blank, text)


def program(documentation, judged):
    """A reader's `main`: of the command line's arguments, the exit status. `judged(root)` returns
    (violations as text lines, what was read in words, whether anything was). The usage is
    the end of `documentation`."""

    def main(arguments):
        if len(arguments) > 1 or (arguments and not os.path.isdir(arguments[0])):
            print(documentation[documentation.index("usage:") :].rstrip(), file=sys.stderr)
            return 2
        here = os.path.dirname(os.path.abspath(__file__))
        root = arguments[0] if arguments else os.path.join(here, "..", "..")
        violations, what, is_read = judged(os.path.realpath(root))
        print("\n".join(violations + [f"{what}: {len(violations)} findings"]))
        return 1 if violations or not is_read else 0

    return main
