"""What the tests of tools/nano-tokens share: calling the tool, and reading shards as MODEL.md
describes them, not as the tool does."""

import glob
import os
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TOOL = os.path.join(ROOT, "tools", "nano-tokens")
EOS = 256

PROSE = "".join(
    f"Chapter {number}\n\n"
    + "".join(
        f"The {word} went on, {number} and {word}; it was not there.\n"
        for word in ("river", "road", "rain")
    )
    + "\n"
    for number in range(40)
)


def content_of(path):
    with open(path, "rb") as file:
        return file.read()


def shard(path):
    """The tokens of a shard; an assertion fails when it is none."""
    data = content_of(path)
    header = struct.unpack("<256i", data[:1024])
    assert header[:2] == (20240520, 1) and not any(header[3:]), header[:4]
    assert len(data) == 1024 + 2 * header[2]
    return list(struct.unpack(f"<{header[2]}H", data[1024:]))


def documents(tokens, eos=EOS):
    """The documents of a token sequence that begins with one."""
    assert tokens[0] == eos
    found = []
    for token in tokens:
        if token == eos:
            found.append([])
        else:
            found[-1].append(token)
    return found


class ToolTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return self.path(name)

    def call(self, *arguments, stdin=b"", **options):
        return subprocess.run(
            [sys.executable, TOOL, *arguments],
            input=stdin,
            capture_output=True,
            timeout=60,
            **options,
        )

    def succeed(self, *arguments, stdin=b""):
        result = self.call(*arguments, stdin=stdin)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return result.stdout

    def refuse(self, expected, *arguments, stdin=b"", **options):
        """Exit status 2, nothing on stdout, and one line on stderr that matches `expected`."""
        result = self.call(*arguments, stdin=stdin, **options)
        error = result.stderr.decode()
        self.assertEqual(result.returncode, 2, error)
        self.assertEqual(error.count("\n"), 1, error)
        self.assertTrue(error.startswith("nano-tokens: "), error)
        self.assertRegex(error, expected)
        self.assertEqual(result.stdout, b"")

    def shards(self, side, prefix="out/text"):
        return sorted(glob.glob(self.path(f"{prefix}_{side}_*.bin")))

    def tokens(self, side, prefix="out/text"):
        return [token for path in self.shards(side, prefix) for token in shard(path)]
