#!/usr/bin/env python3
"""Tests of tools/check and what it is made of: tools/support's tally and tidy.

usage: check_test.py CLASS
"""

import json
import os
import shutil
import sys
import time
import unittest

from site_tool import ROOT, SUPPORT, SiteTest


class TallyTest(SiteTest):
    def tally(self, *arguments):
        result = self.call(sys.executable, os.path.join(SUPPORT, "tally.py"), *arguments)
        self.assertEqual(result.stderr, "")
        return result.returncode, result.stdout.splitlines()

    def test_steps(self):
        self.assertEqual(
            self.tally("format=passed", "tidy=passed"), (0, ["2 passed, 0 failed, 0 skipped"])
        )
        self.assertEqual(
            self.tally("format=passed", "tidy=failed"),
            (1, ["failed: tidy", "1 passed, 1 failed, 0 skipped"]),
        )

    def test_nothing_ran(self):
        self.assertEqual(self.tally(), (1, ["0 passed, 0 failed, 0 skipped"]))
        self.assertEqual(self.tally("bpe=skipped")[0], 1)

    def test_missing_broken_and_empty_reports_are_failures(self):
        for path in (
            self.path("none.xml"),
            self.write("broken.xml", "<testsuite"),
            self.write("empty.xml", "<testsuite/>"),
            self.write("broken.json", "{"),
            self.write("other.json", "{}"),
            self.write("empty.json", '{"tests": []}'),
        ):
            status, lines = self.tally("format=passed", path)
            self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
            self.assertIn(path, lines[0])

    def test_what_lit_writes(self):
        """A suite with one test of each fate, run by lit itself."""
        self.write(
            "lit.cfg.py",
            "import lit.formats",
            "config.name = 'fates'",
            "config.suffixes = ['.mlir']",
            "config.test_format = lit.formats.ShTest(True)",
        )
        for name, lines in (
            ("good", ["// RUN: true"]),
            ("bad", ["// RUN: false"]),
            ("unsupported", ["// REQUIRES: gpu", "// RUN: true"]),
            ("expected", ["// XFAIL: *", "// RUN: false"]),
            ("surprise", ["// XFAIL: *", "// RUN: true"]),
            ("empty", ["//"]),
        ):
            self.write(f"{name}.mlir", *lines)
        self.call("/usr/lib/llvm-22/bin/lit", "--output", self.path("lit.json"), self.folder)
        status, lines = self.tally(self.path("lit.json"))
        self.assertEqual(
            (
                status,
                lines[-1],
                sorted(line for line in lines if line.startswith(("failed:", "skipped:"))),
            ),
            (
                1,
                "2 passed, 3 failed, 1 skipped",
                [
                    "failed: fates :: bad.mlir",
                    "failed: fates :: empty.mlir (UNRESOLVED)",
                    "failed: fates :: surprise.mlir (XPASS)",
                    "skipped: fates :: unsupported.mlir (UNSUPPORTED)",
                ],
            ),
        )

    def test_what_ctest_writes(self):
        """A project with one test of each fate, run by ctest itself."""
        self.write(
            "CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.25)",
            "project(fates NONE)",
            "enable_testing()",
            "add_test(NAME good COMMAND true)",
            "add_test(NAME bad COMMAND false)",
            "add_test(NAME absent COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/no-such-program)",
            'add_test(NAME by_code COMMAND sh -c "exit 77")',
            "set_tests_properties(by_code PROPERTIES SKIP_RETURN_CODE 77)",
            "add_test(NAME by_text COMMAND echo SKIPPED)",
            "set_tests_properties(by_text PROPERTIES SKIP_REGULAR_EXPRESSION SKIPPED)",
            "add_test(NAME off COMMAND true)",
            "set_tests_properties(off PROPERTIES DISABLED TRUE)",
            "add_test(NAME needs_bad COMMAND true)",
            "set_tests_properties(needs_bad PROPERTIES FIXTURES_REQUIRED f)",
            "set_tests_properties(bad PROPERTIES FIXTURES_SETUP f)",
        )
        self.assertEqual(self.call("cmake", "-S", self.folder, "-B", self.path("b")).returncode, 0)
        self.call("ctest", "--test-dir", self.path("b"), "--output-junit", self.path("ctest.xml"))
        status, lines = self.tally(self.path("ctest.xml"))
        self.assertEqual((status, lines[-1]), (1, "1 passed, 3 failed, 3 skipped"))
        self.assertEqual(
            sorted(line.split(" (")[0] for line in lines[:-1] if line.startswith(("f", "s"))),
            [
                "failed: absent",
                "failed: bad",
                "failed: needs_bad",
                "skipped: by_code",
                "skipped: by_text",
                "skipped: off",
            ],
        )


    def test_the_reason_of_a_failure(self):
        """Of each failing test the last lines, of five tests; ctest's report and lit's."""
        self.write(
            "CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.25)",
            "project(reasons NONE)",
            "enable_testing()",
            'add_test(NAME good COMMAND echo "all is well")',
            'add_test(NAME long COMMAND sh -c "seq 100; exit 1")',
            "foreach(i RANGE 1 5)",
            "  add_test(NAME short${i} COMMAND sh -c \"echo 'reason ${i} <&>'; exit 1\")",
            "endforeach()",
            "add_test(NAME silent COMMAND false)",
        )
        self.assertEqual(self.call("cmake", "-S", self.folder, "-B", self.path("b")).returncode, 0)
        self.call("ctest", "--test-dir", self.path("b"), "--output-junit", self.path("ctest.xml"))
        status, lines = self.tally(self.path("ctest.xml"))
        expected = ["--- long (without its first 60 lines)", *map(str, range(61, 101))]
        for i in range(1, 5):
            expected += [f"--- short{i}", f"reason {i} <&>"]
        expected += ["--- and 1 more tests that failed", "failed: long"]
        expected += [f"failed: short{i}" for i in range(1, 6)]
        expected += ["failed: silent", "1 passed, 7 failed, 0 skipped"]
        self.assertEqual((status, lines), (1, expected))

        report = {"code": "FAIL", "name": "s :: a.mlir", "output": "first\nsecond\n"}
        self.write("lit.json", json.dumps({"tests": [report]}))
        self.assertEqual(
            self.tally(self.path("lit.json")),
            (
                1,
                [
                    "--- s :: a.mlir",
                    "first",
                    "second",
                    "failed: s :: a.mlir",
                    "0 passed, 1 failed, 0 skipped",
                ],
            ),
        )


class TidySite(SiteTest):
    """A project of two sources, with a third that its build makes."""

    def setUp(self):
        super().setUp()
        shutil.copy(os.path.join(ROOT, ".clang-tidy"), self.folder)
        self.write("runtime/A.h", "#pragma once", "int twice(int x);")
        self.write("runtime/A.cpp", '#include "runtime/A.h"', "int twice(int x) { return 2 * x; }")
        self.write(
            "runtime/B.cpp",
            "static Number three() { return 3; }",
            "int six() { return 2 * three(); }",
        )
        self.write("build/made.cpp", "int *p = 0;")
        self.write("runtime/Number.h", "using Number = int;")
        self.write(
            "build/cmake_pch.hxx", "/* generated */", f'#include "{self.path("runtime/Number.h")}"'
        )
        self.write_commands()

    def write_commands(self):
        common = f"g++ -DX=1 -I{self.folder} -Wno-such-warning -fno-such-flag -O2 -std=c++20"
        pch = f"-Winvalid-pch -include {self.path('build/cmake_pch.hxx')}"
        self.write(
            "build/compile_commands.json",
            json.dumps(
                [
                    {
                        "directory": self.path("build"),
                        "file": self.path(name),
                        "command": f"{common} {flags} -o a.o -c {self.path(name)}",
                    }
                    for name, flags in (
                        ("runtime/A.cpp", ""),
                        ("runtime/B.cpp", pch),
                        ("build/made.cpp", ""),
                    )
                ]
            ),
        )

    def tidy(self, status, summary, **options):
        result = self.call(
            sys.executable,
            os.path.join(SUPPORT, "tidy.py"),
            self.folder,
            self.path("build"),
            "--jobs",
            "2",
            **options,
        )
        self.assertEqual(
            (result.returncode, result.stdout.splitlines()[-1]),
            (status, f"clang-tidy: {summary}"),
            result.stdout + result.stderr,
        )
        return result.stdout


class TidyTest(TidySite):
    def test_only_what_changed_is_read_again(self):
        self.tidy(0, "2 files, 2 of them read now, 0 with findings")
        self.tidy(0, "2 files, 0 of them read now, 0 with findings")
        self.write(
            "runtime/B.cpp",
            "static Number four() { return 4; }",
            "int six() { return 2 + four(); }",
        )
        self.tidy(0, "2 files, 1 of them read now, 0 with findings")
        self.write("runtime/A.h", "#pragma once", "int twice(int y);")
        self.tidy(0, "2 files, 1 of them read now, 0 with findings")
        with open(self.path(".clang-tidy"), "a", encoding="utf-8") as file:
            file.write("# changed\n")
        self.tidy(0, "2 files, 2 of them read now, 0 with findings")
        self.assertEqual(len(os.listdir(self.path("build/tidy"))), 2)

    def test_findings_are_named_and_found_again(self):
        self.write(
            "runtime/A.cpp",
            '#include "runtime/A.h"',
            "int *nothing = 0;",
            "int twice(int x) { return 2 * x; }",
        )
        for _ in range(2):
            output = self.tidy(
                1, "2 files, " + ("2" if _ == 0 else "1") + " of them read now, 1 with findings"
            )
            self.assertIn("runtime/A.cpp:2:16", output)
            self.assertIn("modernize-use-nullptr", output)

    def test_findings_in_headers(self):
        self.write(
            "runtime/A.h",
            "#pragma once",
            "inline int *nothing() { return 0; }",
            "int twice(int x);",
        )
        self.assertIn(
            "runtime/A.h:2:", self.tidy(1, "2 files, 2 of them read now, 1 with findings")
        )

    def test_a_file_that_clang_cannot_read_is_a_finding(self):
        self.write("runtime/A.cpp", "int twice(int x) { return 2 * y; }")
        self.assertIn(
            "runtime/A.cpp:1:", self.tidy(1, "2 files, 2 of them read now, 1 with findings")
        )

    def read_with_libraries(self, library="string"):
        """Sources that read a header of a library and one that the build names, which stands where
        findings in headers do not count. What all three declare keeps them apart."""
        self.write("cmake/Prefix.h", "#include <vector>", "using Number = int;")
        self.write("build/made/Made.h", "inline int *made() { return 0; }")
        self.write(
            "runtime/Shared.h",
            "#pragma once",
            f"#include <{library}>",
            "inline int one() { return 1; }",
        )
        self.write("build/cmake_pch.hxx", f'#include "{self.path("cmake/Prefix.h")}"')
        sources = [f"runtime/User{i}.cpp" for i in range(3)]
        for i, name in enumerate(sources):
            self.write(
                name,
                '#include "made/Made.h"',
                '#include "runtime/Shared.h"',
                f"constexpr int own = {i};",
                f"Number user{i}(const std::vector<int> &v) {{",
                "  return Number(v.size()) + one() + *made();",
                "}",
            )
        flags = f"-I{self.folder} -I{self.path('build')} -DNANO_X=1 -std=c++20"
        command = f"g++ {flags} -include {self.path('build/cmake_pch.hxx')} -c"
        self.write(
            "build/compile_commands.json",
            json.dumps(
                [
                    {
                        "directory": self.path("build"),
                        "file": self.path(name),
                        "command": f"{command} {self.path(name)}",
                    }
                    for name in sources
                ]
            ),
        )

    def precompiled(self):
        return sorted(
            name for name in os.listdir(self.path("build/tidy-headers")) if name.endswith(".pch")
        )

    def test_library_headers_are_precompiled_and_nothing_is_missed(self):
        self.read_with_libraries("fmt/format.h")
        self.tidy(0, "3 files, 3 of them read now, 0 with findings")
        made = self.precompiled()
        self.assertEqual(len(made), 3)  # containers, then the build's, then a library's
        # One changed file makes use of what is there, and so do findings in it and in a header.
        self.write("runtime/User0.cpp", '#include "runtime/Shared.h"', "int *user0() { return 0; }")
        output = self.tidy(1, "3 files, 1 of them read now, 1 with findings")
        self.assertIn("runtime/User0.cpp:2:", output)
        self.write(
            "runtime/Shared.h",
            "#pragma once",
            "#include <fmt/format.h>",
            "inline int *one() { return 0; }",
        )
        for i in (1, 2):
            self.write(
                f"runtime/User{i}.cpp",
                '#include "runtime/Shared.h"',
                f"int *user{i}() {{ return one(); }}",
            )
        output = self.tidy(1, "3 files, 3 of them read now, 3 with findings")
        self.assertEqual(output.count("runtime/Shared.h:3:"), 3, output)
        self.assertEqual(self.precompiled(), made)

    def test_what_functions_of_containers_do_is_seen(self):
        """Whether a parameter could be a reference depends on what emplace_back does to it."""
        self.read_with_libraries()
        self.write(
            "runtime/User0.cpp",
            "#include <string>",
            "#include <vector>",
            "constexpr int own = 0;",
            "void user0(std::vector<std::string> &v, std::string text) { v.emplace_back(text); }",
        )
        output = self.tidy(1, "3 files, 3 of them read now, 1 with findings")
        self.assertIn("runtime/User0.cpp:4:", output)
        self.assertIn("performance-unnecessary-value-param", output)

    def test_a_precompiled_header_is_made_anew_when_a_file_in_it_changes(self):
        self.read_with_libraries()
        self.tidy(0, "3 files, 3 of them read now, 0 with findings")
        self.write("cmake/Prefix.h", "#include <vector>", "using Number = long;", "// changed")
        self.write("runtime/User0.cpp", "Number user0() { return 0; }")
        self.tidy(0, "3 files, 1 of them read now, 0 with findings")

    def test_headers_whose_findings_count_are_not_precompiled(self):
        self.read_with_libraries()
        self.write(
            "runtime/Prefix.h",
            "#include <vector>",
            "using Number = int;",
            "inline int *p() { return 0; }",
        )
        self.write("build/cmake_pch.hxx", f'#include "{self.path("runtime/Prefix.h")}"')
        output = self.tidy(1, "3 files, 3 of them read now, 3 with findings")
        self.assertEqual(output.count("runtime/Prefix.h:3:"), 3, output)
        self.assertEqual(len(self.precompiled()), 1)  # of containers

    def test_commands_of_clang(self):
        """What the build precompiles with clang is read from its text: headers of libraries from a
        precompiled header made for clang-tidy, the project's own as they stand."""
        self.read_with_libraries()
        self.write("runtime/Made.h", "#pragma once", "inline int *two() { return 0; }")
        pch = self.path("build/cmake_pch.hxx")
        self.write(
            "build/cmake_pch.hxx",
            f'#include "{self.path("cmake/Prefix.h")}"',
            f'#include "{self.path("runtime/Made.h")}"',
        )
        with open(self.path("build/compile_commands.json"), encoding="utf-8") as file:
            entries = json.load(file)
        for entry in entries:
            entry["command"] = (
                entry["command"]
                .replace("g++", "clang++-22 -Winvalid-pch -fpch-instantiate-templates")
                .replace(
                    f"-include {pch}",
                    f"-Xclang -include-pch -Xclang {pch}.pch -Xclang -include -Xclang {pch}",
                )
            )
        self.write("build/compile_commands.json", json.dumps(entries))
        output = self.tidy(1, "3 files, 3 of them read now, 3 with findings")
        self.assertEqual(output.count("runtime/Made.h:2:"), 3, output)
        self.assertEqual(len(self.precompiled()), 2)  # of containers, and cmake/Prefix.h

    def test_without_clang_headers_are_read_as_they_stand(self):
        self.read_with_libraries()
        os.mkdir(self.path("bin"))
        os.symlink(shutil.which("clang-tidy-22"), self.path("bin", "clang-tidy-22"))
        self.tidy(0, "3 files, 3 of them read now, 0 with findings", env={"PATH": self.path("bin")})
        self.assertEqual(self.precompiled(), [])

    def test_no_files(self):
        self.write("build/compile_commands.json", "[]")
        result = self.call(
            sys.executable, os.path.join(SUPPORT, "tidy.py"), self.folder, self.path("build")
        )
        self.assertEqual(result.returncode, 2)


class TogetherTest(TidySite):
    """Sources that are read as one."""

    def compile_together(self, *names):
        """The build compiles these of runtime/ as one."""
        unity = "build/runtime/Unity/unity_0_cxx.cxx"
        self.write(unity, *(f'#include "{self.path("runtime", name)}"' for name in names))
        self.compile_alone("unity")

    def compile_alone(self, *names):
        """The build compiles each of these, in the place of runtime/A.cpp."""
        with open(self.path("build/compile_commands.json"), encoding="utf-8") as file:
            first, *entries = json.load(file)
        for name in names:
            path = self.path("build/runtime/Unity/unity_0_cxx.cxx" if name == "unity" else f"runtime/{name}")
            words = first["command"].replace(first["file"], path).replace(" -fno-such-flag", "")
            entries.append({**first, "file": path, "command": words})
        self.write("build/compile_commands.json", json.dumps(entries))

    def readings(self, status, summary):
        """How often clang-tidy reads something on the way to this end."""
        real, calls = shutil.which("clang-tidy-22"), self.path("calls")
        self.write("calls")
        counting = ("#!/bin/sh", f'echo "$@" >>{calls}', f'exec {real} "$@"')
        self.write("bin/clang-tidy-22", *counting, executable=True)
        path = f"{self.path('bin')}:{os.environ['PATH']}"
        output = self.tidy(status, summary, env={**os.environ, "PATH": path})
        with open(calls, encoding="utf-8") as file:
            return output, len([line for line in file if "--quiet" in line])

    def test_sources_that_are_compiled_as_one_are_read_as_one(self):
        """And each by itself where they have a finding."""
        self.write("runtime/C.cpp", '#include "runtime/A.h"', "int four() { return twice(2); }")
        self.compile_together("A.cpp", "C.cpp")
        _, count = self.readings(0, "3 files, 3 of them read now, 0 with findings")
        self.assertEqual(count, 2)
        self.tidy(0, "3 files, 0 of them read now, 0 with findings")
        self.write("runtime/C.cpp", "int *nothing = 0;")
        output = self.tidy(1, "3 files, 1 of them read now, 1 with findings")
        self.assertIn("\nruntime/C.cpp:\n", output)
        self.write("runtime/A.cpp", '#include "runtime/A.h"', "int twice(int x) { return x + x; }")
        output = self.tidy(1, "3 files, 2 of them read now, 1 with findings")
        self.assertIn("runtime/C.cpp:1:", output)

    def test_sources_of_several_commands_are_read_as_one_where_their_names_allow_it(self):
        for own, count in (
            (("", ""), 2),
            (("static int own() { return 1; }", "static int own() { return 2; }"), 3),
            # What is not seen to meet is read by itself once it does not compile.
            (("MAKE(own)", "MAKE(own)"), 4),
        ):
            with self.subTest(own):
                macro = "#define MAKE(name) static int name() { return 3; }"
                self.write("runtime/A.cpp", *own[:1], "int two() { return 2; }")
                self.write("runtime/C.cpp", *own[1:], "int four() { return 4; }")
                if count == 4:
                    self.write("runtime/A.h", "#pragma once", macro)
                    for name in "AC":
                        with open(self.path(f"runtime/{name}.cpp"), encoding="utf-8") as file:
                            lines = file.read().splitlines()
                        self.write(f"runtime/{name}.cpp", '#include "runtime/A.h"', *lines)
                self.write_commands()
                self.compile_alone("A.cpp", "C.cpp")
                shutil.rmtree(self.path("build/tidy"), ignore_errors=True)
                _, found = self.readings(0, "3 files, 3 of them read now, 0 with findings")
                self.assertEqual(found, count)

    def test_sources_before_it_hide_nothing_of_a_source(self):
        self.write("runtime/Names.h", "#pragma once", "namespace n { inline int one() { return 1; } }")
        self.write(
            "runtime/A.cpp",
            '#include "runtime/Names.h"',
            "using n::one;",
            "int two() { return one() + 1; }",
        )
        self.compile_together("A.cpp", "C.cpp")
        own = '#include "runtime/Names.h"'
        for lines, finding in (
            (["int four() { return n::one() + 3; }"], "undeclared identifier 'n'"),
            (["int four() { return two() + 2; }"], "undeclared identifier 'two'"),
            ([own, "using n::one; // one", "int four() { return 4; }"], "misc-unused-using-decls"),
            ([own, "namespace m = n;", "int four() { return 4; }"], "misc-unused-alias-decls"),
            ([own, own, "int four() { return n::one() + 3; }"], "readability-duplicate-include"),
            (["#include <stdlib.h>", "int four() { return abs(4); }"], "modernize-deprecated-headers"),
        ):
            self.write("runtime/C.cpp", *lines)
            with self.subTest(finding):
                result = self.call(
                    *(sys.executable, os.path.join(SUPPORT, "tidy.py")),
                    *(self.folder, self.path("build"), "--jobs", "2"),
                )
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertIn("\nruntime/C.cpp:\n", result.stdout)
                self.assertIn(finding, result.stdout)
                self.assertNotIn("\nruntime/A.cpp:\n", result.stdout)


class BesideTest(SiteTest):
    """tools/check in a copy of tools/, whose setup and build write down what they do: what is fetched
    beside the build."""

    def setUp(self):
        super().setUp()
        shutil.copytree(os.path.join(ROOT, "tools"), self.path("tools"))

    def check(self, setup, build, **commands):
        """The result, and what was written down; `setup` is what setup --bpe does."""
        calls = self.path("calls")
        self.write("tools/setup", "#!/bin/bash", "[[ $1 == --bpe ]] || exit 0", setup,
                   f"echo setup >>{calls}", "echo all is there", executable=True)  # fmt: skip
        self.write("tools/build", "#!/bin/bash", f"echo build >>{calls}", build, executable=True)
        for name, line in {"id": "echo 0", **commands}.items():
            self.write(f"bin/{name}", "#!/bin/bash", line, executable=True)
        result = self.call(
            *("bash", self.path("tools/check"), "tests"),
            env={**os.environ, "PATH": f"{self.path('bin')}:{os.environ['PATH']}"},
        )
        with open(calls, encoding="utf-8") as file:
            return result, file.read().split()

    def test_is_waited_for_and_shown_where_the_build_fails(self):
        result, calls = self.check("sleep 1", "exit 1")
        self.assertEqual(calls, ["build", "setup"])
        self.assertEqual(
            result.stdout.splitlines(),
            ["all is there", "failed: build", "0 passed, 1 failed, 0 skipped"],
        )
        self.assertEqual(result.returncode, 1)

    def test_failure_is_said(self):
        result, calls = self.check("echo no network; exit 1", "exit 1")
        self.assertEqual(calls, ["build"])
        self.assertEqual(
            result.stdout.splitlines()[:2],
            ["check: going on without the BPE tokenizer; its tests will be skipped", "no network"],
        )

    def test_ends_with_the_check(self):
        begun = self.path("begun")
        result, calls = self.check(
            f"sleep 600 & echo $! >{begun}; wait",
            f"until [[ -s {begun} ]]; do sleep 0.05; done; kill -TERM $PPID",
        )
        self.assertEqual((result.returncode, calls), (143, ["build"]))
        with open(begun, encoding="utf-8") as file:
            sleeps = f"/proc/{int(file.read())}/stat"
        for _ in range(100):
            try:
                with open(sleeps, encoding="utf-8") as file:
                    if file.read().split()[2] == "Z":
                        return
            except FileNotFoundError:
                return
            time.sleep(0.05)
        self.fail("what setup started is still there")

    def test_comes_before_where_a_password_is_asked_for(self):
        for sudo, first in (("exit 1", "setup"), ("exit 0", "build")):
            with self.subTest(sudo):
                if os.path.exists(self.path("calls")):
                    os.unlink(self.path("calls"))
                _, calls = self.check("sleep 1", "exit 1", id="echo 1000", sudo=sudo)
                self.assertEqual((calls[0], len(calls)), (first, 2))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], sys.argv[1]])
