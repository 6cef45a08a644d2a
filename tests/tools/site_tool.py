"""What tests of the building site share: a folder of their own, and calling programs in it."""

import os
import subprocess
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SUPPORT = os.path.join(ROOT, "tools", "support")


class SiteTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, *lines, executable=False):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        if executable:
            os.chmod(self.path(name), 0o755)
        return self.path(name)

    def call(self, *command, **options):
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            **options,
        )
