#!/usr/bin/env python3
"""tools/add-campaigns: what it adds, and what it refuses; every table of docs/trust.md takes what its attack prints."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
PAGE = """# Page

| target | executions | crashes |
|---|---|---|
| plan | 10 | 1 |
| ir | 5 | 0 |
| all | 15 | 1 |

| other | numbers |
|---|---|
| stay | as they are |

| random models | whole runs | by ranks | times as far, at most | failed |
|---|---|---|---|---|
| 100 | 3 | 2 on 1, 1 on 2 | 1.50 | 0 |

| attack | times | of these | wrong |
|---|---|---|---|
| `write` fails | 7 | 1 without effect | 0 |

| mutants of | in all | wrong | not reported | right and refused |
|---|---|---|---|---|
| ops | 20 | 15 | 0 | 3 |
"""
LOGS = {
    "fuzz": """fuzz: 2 targets, 30 s each, 2 at a time
| target | executions | a second | of all calls | kept | crashes |
|---|---|---|---|---|---|
| ir | 7 | 1 | 12 | 4 | 2 |
| times | 1 | 1 | 1 | 0 | 0 |
| all | | | 13 | | |
""",
    "random": """| random models | whole runs | by ranks | on the emulator | beside plain programs | times as far, at most | failed |
|---|---|---|---|---|---|---|
| 20 | 4 | 3 on 1, 1 on 3 | 0 | 1 | 0.40 | 1 |
random-models: stopped before its end
""",
    "crash": """| attack | times | of these | wrong |
|---|---|---|---|
| `write` fails, rank 0 of 1 rank, 2 threads | 4 | 1 without effect | 0 |
| `write` fails, rank 1 of 2 ranks, processes | 2 | 0 without effect | 1 |
| `kill -9`, 1 rank, 2 threads | 9 | 5 cut a save | 0 |
""",
    "ops": """| mutants of ops | in all | mean nothing | not reported | mean something and refused |
|---|---|---|---|---|
| a size | 4 | 3 | 1 | 0 |
| all | 4 | 3 | 1 | 0 |
""",
    "programs": """| mutants | in all | wrong in some order | of these reported, by the first of verifiers / kernels | not reported | right and refused |
|---|---|---|---|---|---|
| a wait dropped | 8 | 6 | 0 / 6 | 0 | 2 |
| all | 8 | 6 | 0 / 6 | 0 | 2 |
""",
}
WANTED = """# Page

| target | executions | crashes |
|---|---|---|
| plan | 10 | 1 |
| ir | 12 | 2 |
| times | 1 | 0 |
| all | 23 | 3 |

| other | numbers |
|---|---|
| stay | as they are |

| random models | whole runs | by ranks | times as far, at most | failed |
|---|---|---|---|---|
| 120 | 7 | 5 on 1, 1 on 2, 1 on 3 | 1.50 | 1 |

| attack | times | of these | wrong |
|---|---|---|---|
| `write` fails | 13 | 2 without effect | 1 |
| `kill -9`, 1 rank, 2 threads | 9 | 5 cut a save | 0 |

| mutants of | in all | wrong | not reported | right and refused |
|---|---|---|---|---|
| ops | 24 | 18 | 1 | 3 |
| planned programs | 8 | 6 | 0 | 2 |
"""


class AddCampaignsTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.scratch)
        self.page = self.write("page.md", PAGE)

    def write(self, name, text):
        path = os.path.join(self.scratch, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def text(self):
        with open(self.page, encoding="utf-8") as file:
            return file.read()

    def call(self, *arguments, given=""):
        words = [os.path.join(ROOT, "tools", "add-campaigns"), "--page", self.page, *arguments]
        done = subprocess.run(words, capture_output=True, encoding="utf-8", input=given, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def test_numbers_add_up(self):
        logs = [self.write(name, text) for name, text in LOGS.items() if name != "ops"]
        done = self.call("-", *logs, given=LOGS["ops"])
        self.assertEqual(done, (0, "add-campaigns: 5 log(s) added\n", ""))
        self.assertEqual(self.text(), WANTED)

    def test_refused(self):
        good = self.write("good", LOGS["fuzz"])
        for text, says in (
            ("no table", "bad: there is no table in it"),
            ("| x | y |\n|---|---|\n| 1 | 2 |\n", "bad: no attack prints a table 'x'"),
            ("| target | y |\n|---|---|\n| plan | 2 |\n", "bad: the table 'target' has no column 'executions'"),
            ("| target | y |\n|---|---|\n| plan |\n", "bad: a row of 1 cells in a table of 2: ['plan']"),
            ("| mutants | y |\n|---|---|\n| a | 2 |\n", "bad: the table 'mutants' has no row 'all'"),
            (
                "| target | executions | crashes |\n|---|---|---|\n| plan | -3 | 0 |\n",
                "bad: '-3' in column 'executions' is not a number of something",
            ),
        ):
            with self.subTest(says):
                status, out, errors = self.call(good, self.write("bad", text))
                self.assertEqual((status, out, errors.count("\n")), (2, "", 1), errors)
                self.assertIn(says, errors)
                self.assertEqual(self.text(), PAGE)
        status, out, errors = self.call("nothing-there")
        self.assertEqual((status, out, errors), (2, "", "add-campaigns: nothing-there: No such file or directory\n"))

    def test_the_page_takes_all(self):
        shutil.copy(os.path.join(ROOT, "docs", "trust.md"), self.page)
        before = self.text()
        logs = [self.write(name, text) for name, text in LOGS.items()]
        self.assertEqual(self.call(*logs), (0, "add-campaigns: 5 log(s) added\n", ""))
        changed = [
            (old, new) for old, new in zip(before.split("\n"), self.text().split("\n")) if old != new
        ]
        # Of ir, times and all, of models, of writes and kills, of ops and programs.
        self.assertEqual(len(before.split("\n")), len(self.text().split("\n")))
        self.assertEqual(len(changed), 8, changed)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
