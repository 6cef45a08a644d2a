#!/usr/bin/env python3
"""Plants violations in a temporary tree and expects the layering and hygiene tests to name each
with file and line."""

import contextlib
import io
import os
import tempfile
import unittest

import attributes
import hygiene
import includes
import names


class PlantedTree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def plant(self, path, *lines):
        absolute = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(absolute), exist_ok=True)
        with open(absolute, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def run_main(self, module):
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = module.main([self.root])
        return status, output.getvalue()


class IncludesTest(PlantedTree):
    def expect(self, path, line, *included):
        """The one include of `path`, on line `line`, is reported at that place."""
        self.plant(path, *[""] * (line - 1), *included)
        violations, _, _ = includes.check(self.root)
        self.assertEqual(
            [text.split(": ")[0] for text in violations], [f"{path}:{line}"], violations
        )
        status, output = self.run_main(includes)
        self.assertEqual(status, 1)
        self.assertIn(f"{path}:{line}: ", output)

    def allow(self, path, *included):
        self.plant(path, *included)
        self.assertEqual(includes.check(self.root)[0], [])
        self.assertEqual(self.run_main(includes)[0], 0)

    # The table: every cell without a tick must be reported, every cell with one allowed.
    TICKS = {
        "base": ["base"],
        "ir": ["base", "ir"],
        "passes": ["base", "ir", "passes"],
        "codegen": ["base", "ir", "codegen", "runtime/plan"],
        "compiler": ["base", "ir", "passes", "codegen", "compiler", "runtime/plan"],
        "runtime/plan": ["base", "runtime/plan"],
        "runtime": ["base", "runtime/plan", "runtime"],
        "tools/nanorun": ["base", "runtime/plan", "runtime"],
    }

    def test_every_cell_of_the_table(self):
        for room, ticks in self.TICKS.items():
            for target in ("base", "ir", "passes", "codegen", "compiler", "runtime/plan", "runtime"):
                with self.subTest(room=room, target=target):
                    check = (
                        self.allow
                        if target in ticks
                        else lambda path, line: self.expect(path, 1, line)
                    )
                    check(f"{room}/A.cpp", f'#include "{target}/B.h"')
                os.remove(os.path.join(self.root, room, "A.cpp"))

    def test_rooms_of_passes_have_no_loops(self):
        self.plant("passes/fuse/A.cpp", '#include "passes/memory/A.h"', '#include "passes/fuse/B.h"')
        self.plant("passes/memory/A.cpp", '#include "passes/schedule/A.h"', '#include "passes/Passes.h"')
        self.allow("passes/verify/A.cpp", '#include "passes/fuse/A.h"')
        self.expect("passes/schedule/A.cpp", 3, '#include "passes/fuse/A.h"')
        violations, _, _ = includes.check(self.root)
        self.assertIn("fuse → memory → schedule → fuse", violations[0])

    def test_machines_are_nouns_without_mlir(self):
        self.allow("ir/machine/A.cpp", '#include "llvm/Support/JSON.h"', '#include "ir/machine/A.h"')
        self.allow("passes/schedule/A.cpp", '#include "ir/machine/A.h"')
        self.expect("ir/machine/B.cpp", 2, '#include "mlir/IR/Builders.h"')
        os.remove(os.path.join(self.root, "ir/machine/B.cpp"))
        self.expect("ir/machine/B.cpp", 1, '#include "ir/step/Step.h"')
        os.remove(os.path.join(self.root, "ir/machine/B.cpp"))
        self.expect("runtime/A.cpp", 1, '#include "ir/machine/A.h"')

    def test_machines_are_read_from_guarded_files_without_knowing_plans(self):
        self.allow("ir/machine/A.cpp", '#include "base/InputFile.h"')
        self.expect("ir/machine/A.cpp", 1, '#include "runtime/plan/Plan.h"')

    def test_folders_below_a_room_belong_to_it(self):
        self.expect("ir/graph/ops/A.h", 3, '#include "passes/fuse/Fuse.h"')

    def test_models_see_the_frontend_and_each_other(self):
        self.allow(
            "models/a.cpp",
            '#include "compiler/Frontend.h"',
            '#include "models/b.cpp"',
            "#include <cmath>",
        )
        self.expect("models/c.cpp", 2, '#include "compiler/Driver.h"')

    def test_mlir_stays_out_of_the_runtime(self):
        self.expect("runtime/Executor.cpp", 5, '#include "mlir/IR/Builders.h"')

    def test_llvm_stays_out_of_nanorun(self):
        self.expect("tools/nanorun/main.cpp", 1, '#include "llvm/ADT/StringRef.h"')

    def test_llvm_stays_out_of_models(self):
        self.expect("models/a.cpp", 1, "#include <llvm/ADT/StringRef.h>")

    def test_mlir_is_allowed_on_the_compilers_side(self):
        for room in ("ir", "passes", "codegen", "compiler", "tools/nanoc", "tests/ir"):
            self.allow(f"{room}/A.cpp", '#include "mlir/IR/Builders.h"')

    def test_cuda_nccl_cublaslt(self):
        self.allow(
            "runtime/cuda/A.cpp",
            "#include <cuda_runtime.h>",
            "#include <cublasLt.h>",
            "#include <cuda.h>",
        )
        self.allow("runtime/comm/A.cpp", "#include <nccl.h>")
        for header in (
            "cuda.h",
            "cuda_runtime.h",
            "cuda_fp8.h",
            "cuda/std/atomic",
            "cublasLt.h",
            "nccl.h",
        ):
            with self.subTest(header=header):
                self.expect("codegen/cuda/A.cpp", 1, f"#include <{header}>")

    def test_onednn(self):
        self.allow("runtime/cpu/A.cpp", '#include "dnnl.hpp"', "#include <oneapi/dnnl/dnnl.hpp>")
        for path in ("runtime/Executor.cpp", "tools/nanorun/A.cpp", "tests/runtime/A.cpp"):
            self.expect(path, 1, "#include <dnnl.hpp>")
            os.remove(os.path.join(self.root, path))

    def test_devices_are_loaded_not_included(self):
        self.expect("runtime/Executor.cpp", 1, '#include "runtime/cpu/Gemm.h"')

    def test_includes_are_rooted_at_the_repository(self):
        self.plant("ir/graph/B.h", "#pragma once")
        self.expect("ir/graph/A.cpp", 1, '#include "B.h"')
        self.expect("ir/graph/A.cpp", 1, '#include "../graph/B.h"')

    def test_the_emulator_alone_of_the_runtime_knows_the_device_library(self):
        include = '#include "codegen/device/emulator/nano_machine.h"'
        self.allow("runtime/emulator/A.cpp", include)
        self.expect("runtime/cuda/A.cpp", 1, include)
        os.remove(os.path.join(self.root, "runtime/cuda/A.cpp"))
        self.expect("passes/A.cpp", 1, '#include "codegen/device/nano_scan.h"')
        os.remove(os.path.join(self.root, "passes/A.cpp"))
        self.allow("passes/A.cpp", '#include "ir/kernel/shapes/nano_shape.h"')

    def test_the_device_library_includes_itself_by_bare_name(self):
        self.plant("codegen/device/nano_types.h", "#pragma once")
        self.plant("ir/kernel/shapes/nano_shape.h", "#pragma once")
        self.allow("codegen/device/nano_scan.h", '#include "nano_shape.h"')
        self.expect("ir/kernel/shapes/nano_scan_shape.h", 1, '#include "ir/kernel/Kernel.h"')
        os.remove(os.path.join(self.root, "ir/kernel/shapes/nano_scan_shape.h"))
        self.allow("codegen/device/nano_kernels.h", '#include "nano_types.h"')
        self.allow("codegen/device/emulator/nano_primitives.h", '#include "nano_types.h"')
        for include in ("<stdint.h>", '"codegen/device/nano_types.h"'):
            self.expect("codegen/device/nano_scan.h", 1, f"#include {include}")

    def test_a_new_room_needs_a_rule(self):
        self.expect("attic/A.cpp", 2, "#include <vector>")

    def test_tablegen_includes(self):
        self.allow("ir/A.td", 'include "mlir/IR/OpBase.td"', 'include "ir/graph/B.td"')
        self.expect("ir/C.td", 4, 'include "passes/Passes.td"')

    def test_comments_and_kernel_texts_are_no_includes(self):
        self.allow(
            "ir/A.cpp",
            "#include <vector>",
            '// #include "passes/A.h"',
            "/*",
            '#include "passes/A.h"',
            "*/",
            'auto s = "// not a comment";',
            'auto text = R"cu(',
            '#include "compiler/A.h"',
            ')cu";',
        )
        self.plant("ir/A.cpp", 'auto s = "/*";', '  #  include "passes/A.h"  // */ after a string')
        self.assertEqual(
            [text.split(": ")[0] for text in includes.check(self.root)[0]], ["ir/A.cpp:2"]
        )

    def test_an_empty_tree_is_a_failure(self):
        self.assertEqual(self.run_main(includes)[0], 1)

    def test_build_trees_are_not_read(self):
        self.plant("ir/A.cpp", "#include <vector>")
        self.plant("build/ir/A.cpp", '#include "passes/A.h"')
        self.assertEqual(self.run_main(includes)[0], 0)


class NamesTest(PlantedTree):
    def places(self):
        return [text.split(": ")[0] for text in names.check(self.root)[0]]

    def setUp(self):
        super().setUp()
        self.plant(
            "models/optimizers.h",
            "inline Optimizer lion(const char *name);",
            "inline Optimizer polarBear(const char *name);",
        )

    def test_names_every_form(self):
        self.plant("passes/A.cpp", "LionOp op;", "a.lion_b", "isa<PolarbearOp>", '"polarbear"')
        self.plant("ir/A.td", "def Nano_LionOp", "a million lions")
        self.plant("runtime/A.h", "// what LION does", "isLion()")
        self.assertEqual(
            self.places(),
            ["ir/A.td:1"]
            + [f"passes/A.cpp:{line}" for line in (1, 2, 3, 4)]
            + ["runtime/A.h:1", "runtime/A.h:2"],
        )
        self.assertEqual(self.run_main(names)[0], 1)

    def test_leaves_models_tests_and_other_words_alone(self):
        self.plant("models/a.cpp", 'lion("all")')
        self.plant("tests/a.cpp", 'lion("all")')
        self.plant("passes/A.cpp", "a million, stallions, lionize")
        self.assertEqual(self.places(), [])
        self.assertEqual(self.run_main(names)[0], 0)

    def test_reading_nothing_is_a_finding(self):
        os.remove(os.path.join(self.root, "models/optimizers.h"))
        self.plant("passes/A.cpp", "lion")
        self.assertEqual(self.run_main(names)[0], 1)


class AttributesTest(PlantedTree):
    def places(self, *allowed):
        return [text.split(": ")[0] for text in attributes.check(self.root, allowed)[0]]

    def test_names_what_is_not_allowed(self):
        self.plant("passes/A.cpp", 'op->setAttr("nano.one", x);', 'get("kernel.two.three")')
        self.plant("ir/A.h", '= "step.four";', '// "nano.five"')
        self.assertEqual(
            sorted(self.places()), ["ir/A.h:1", "passes/A.cpp:1", "passes/A.cpp:2"]
        )
        self.assertEqual(self.places("nano.one", "kernel.two.three", "step.four"), [])
        self.assertEqual(self.run_main(attributes)[0], 1)

    def test_names_of_no_dialect(self):
        self.plant(
            "passes/A.cpp",
            'op->setAttr("one", x);',
            'f.getArgAttrOfType<IntegerAttr>(0, "llvm.two")',
            'op->hasAttr("three"); op->getAttr(four); say("five");',
        )
        self.assertEqual(sorted(self.places()), [f"passes/A.cpp:{line}" for line in (1, 2, 3)])
        self.assertEqual(self.places("one", "llvm.two", "three"), [])

    def test_ops_and_other_rooms_are_none(self):
        self.plant("ir/graph/A.td", 'def Nano_OneOp : Nano_Op<"one", [Pure]>')
        self.plant("passes/A.cpp", '"nano.one"')
        self.plant("runtime/A.cpp", '"nano.two"')
        self.plant("codegen/device/A.h", '"nano.three"')
        self.assertEqual(self.places(), [])

    def test_what_is_used_no_more_is_not_allowed_either(self):
        self.plant("passes/A.cpp", '"nano.one"')
        self.assertEqual(self.places("nano.one", "nano.two"), ["tests/layering/attributes.py"])

    def test_reading_nothing_is_a_finding(self):
        self.assertEqual(self.run_main(attributes)[0], 1)


class HygieneTest(PlantedTree):
    def expect(self, path, *numbers):
        places = [text.split(": ")[0] for text in hygiene.check(self.root)[0]]
        self.assertEqual(places, [f"{path}:{number}" for number in numbers])
        status, output = self.run_main(hygiene)
        self.assertEqual(status, 1 if numbers else 0, output)

    def test_targets_by_name(self):
        self.plant("passes/A.cpp", 'if (target == "cuda")', 'if ("cpu" != target)')
        self.plant("tests/A.cpp", 'if (target == "cuda")')
        self.plant("base/Target.cpp", '.name = "cuda",')
        self.expect("passes/A.cpp", 1, 2)

    def test_stages_by_name(self):
        self.plant("compiler/A.cpp", "if (stage.name == name)", 'if (stage->name != "fuse")')
        self.expect("compiler/A.cpp", 2)
        os.remove(os.path.join(self.root, "compiler/A.cpp"))
        self.plant("tests/A.cpp", 'if (stage.name == "fuse")')
        self.expect("tests/A.cpp")

    def test_long_files(self):
        self.plant("ir/A.cpp", *["int x;"] * 700)
        self.expect("ir/A.cpp")
        self.plant("ir/A.cpp", *["int x;"] * 701)
        self.expect("ir/A.cpp", 701)

    def test_long_scripts(self):
        self.plant("tools/long", "#!/usr/bin/env python3", *["pass"] * 700)
        self.expect("tools/long", 701)

    def test_directives_without_their_colon(self):
        self.plant(
            "tests/ir/a.mlir",
            "// RUN: nano-opt %s | FileCheck %s",
            "// CHECK: foo",
            "// CHECK" + " foo",
            "  // CHECK-NEXT" + " foo",
            "// CHECK-NXT" + ": foo",
            "// CHECK-COUNT-3: foo",
            "// CHECK-SAME{LITERAL}: [[",
            "// CHECKED by hand",
            "// RUN" + " nano-opt %s",
        )
        self.expect("tests/ir/a.mlir", 3, 4, 5, 9)

    def test_prefixes_named_by_the_run_lines(self):
        self.plant(
            "tests/ir/a.mlir",
            "// RUN: nano-opt %s | FileCheck %s --check-prefixes=LO,HI",
            "// LO: foo",
            "// LO" + " foo",
            "// HI-NEXT: foo",
            "// HI-NEXT" + " foo",
            "// LOW tide",
        )
        self.expect("tests/ir/a.mlir", 3, 5)

    def test_hash_comments(self):
        self.plant("tests/tools/a.test", "# RUN: nanoc --help | FileCheck %s", "# CHECK" + " usage")
        self.expect("tests/tools/a.test", 2)

    def test_machine_paths(self):
        # Put together here, so that this file does not hold such a path itself.
        for parts in (("home", "ada", "x"), ("root", "x.txt"), ("work", "main", "x")):
            path = "/".join(("", *parts))
            self.plant(
                "tests/a.txt",
                f"fine: build{path} ${{HOME}}{path} .{path} /usr/lib/x",
                f"see {path}",
            )
            self.expect("tests/a.txt", 2)

    def test_an_empty_tree_is_a_failure(self):
        self.assertEqual(self.run_main(hygiene)[0], 1)


if __name__ == "__main__":
    unittest.main()
