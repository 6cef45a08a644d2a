#!/usr/bin/env python3
"""The compiler that tests give to nanoc: a library is made again where words or text differ, and else not."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BIN = os.environ.get("NANO_BIN", os.path.join(ROOT, "build", "bin"))


class KeptCompilerTest(unittest.TestCase):
    def setUp(self):
        # What lies among temporary files is not kept: they lie elsewhere, wherever the build does.
        scratch = tempfile.TemporaryDirectory(dir=os.path.dirname(BIN), prefix="kept compiler-")
        self.addCleanup(scratch.cleanup)
        self.folder, self.count = scratch.name, 0
        self.temporary = self.path("temporary")
        os.mkdir(self.temporary)
        self.write("c++", f'#!/bin/sh\necho "$@" >> "$0.log"\nexec {shutil.which("c++")} "$@"\n')
        os.chmod(self.path("c++"), 0o700)
        self.write("number.h", "inline int number() { return 1; }\n")
        self.write("model.cpp", '#include "number.h"\nextern "C" int answer() { return number() + MORE; }\n')

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def compile(self, *words, status=0):
        """(what the library answers, what the compiler says, whether it has run)"""
        self.count += 1
        library, log = self.path(f"{self.count}.so"), self.path("c++.log")
        if os.path.exists(log):
            os.remove(log)
        done = subprocess.run(
            [f"{BIN}/nano-kept-compiler", "-shared", "-fPIC", *words, "-x", "c++", self.path("model.cpp"), "-o", library],
            capture_output=True,
            encoding="utf-8",
            env={**os.environ, "LC_ALL": "C", "PATH": f"{self.folder}:{os.environ['PATH']}", "TMPDIR": self.temporary},
        )
        self.assertEqual(done.returncode, status, done.stderr)
        with open(log, encoding="utf-8") as file:
            has_run = any("-shared" in line for line in file)
        return ctypes.CDLL(library).answer() if status == 0 else None, done.stderr, has_run

    def test_the_same_is_made_once(self):
        self.assertEqual(self.compile("-DMORE=1"), (2, "", True))
        self.assertEqual(self.compile("-DMORE=1"), (2, "", False))
        self.assertEqual(self.compile("-DMORE=2"), (3, "", True))
        self.write("number.h", "inline int number() { return 7; }\n")
        self.assertEqual(self.compile("-DMORE=1"), (8, "", True))
        self.write("model.cpp", 'extern "C" int answer() { return MORE; }\n')
        self.assertEqual(self.compile("-DMORE=1"), (1, "", True))
        self.write("number.h", "")
        self.assertEqual(self.compile("-DMORE=1"), (1, "", False))

    def test_what_the_compiler_says_is_said_each_time(self):
        self.write("model.cpp", '#warning "look"\nextern "C" int answer() { return 1; }\n')
        for _ in range(2):
            _, said, has_run = self.compile()
            self.assertIn('#warning "look"', said)
            self.assertTrue(has_run)
        self.write("model.cpp", "int answer() { return none; }\n")
        for _ in range(2):
            _, said, has_run = self.compile(status=1)
            self.assertIn("'none' was not declared", said)
            self.assertTrue(has_run)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
