#!/usr/bin/env python3
"""The pages of tests/golden: what tools/support/ir_digest.py keeps of a module and what it leaves
out."""

import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "support"))

import ir_digest

MODULE = """module {
  step.arena 512 floor 512
  nano.model "m" {hyperparameters = [{name = "x"}]}
  nano.scalar @lr : f32 attributes {offset = 8 : i64} {
  ^bb0(%arg0: f64, %arg1: f64, %arg2: f64, %arg3: f64):
    %cst = arith.constant 1.000000e+00 : f64
    nano.yield %cst : f64
  }
  nano.state @blocks.0.w : tensor<4x2xf32> {role = #nano.role<gradient>}
  step.program @update attributes {role = "update"} {
    %a = step.buffer "a" {offset = 256 : i64} : memref<8xf32>
    %b = step.view %a : memref<8xf32> to memref<4xf32, strided<[2], offset: 1>>
    step.launch @exp_12(%a, %a) {iterations = array<i64: 8, 8, 4>, segments = 3 : i64} : memref<8xf32>, memref<8xf32>
    step.launch @exp_12(%a, %b) {iterations = array<i64: 8, 8, 4>, segments = 3 : i64} : memref<8xf32>, memref<8xf32>
    step.fill %a : memref<8xf32>
    step.copy %a to %b {stream = 2 : i64} : memref<8xf32>, memref<8xf32>
    step.record 3
  }
  module @kernels {
    kernel.func @exp_12(read %arg0: memref<?xf32>, %arg1: memref<0xi8>) attributes {grain = 9 : i64, summary = "exp"} {
      kernel.return
    }
  }
}
"""

PAGE = """module
  1 × step.arena 512 floor 512

step.program @update attributes {role = "update"}
  2 × step.launch @exp_12 {iterations = [8×2, 4], segments = 3 : i64}
  1 × step.fill : 8xf32
  1 × step.copy to {stream = 2 : i64} : 8xf32, 8xf32
  1 × step.record

module @kernels
  1 × kernel.func @exp_12(read ?xf32, 0xi8) attributes {summary = "exp"}
"""


def page(text, earlier=()):
    return ir_digest.write(ir_digest.sections(text), list(earlier))


class DigestTest(unittest.TestCase):
    maxDiff = None

    def test_keeps_what_a_reader_looks_for(self):
        self.assertEqual(page(MODULE), PAGE)

    def test_wiring_buffers_and_places_are_left_out(self):
        other = MODULE.replace("(%a, %b)", "(%b, %b)").replace("offset = 256", "offset = 512")
        other = other.replace('buffer "a"', 'buffer "b"').replace("@blocks.0.w", "@w")
        self.assertNotEqual(other, MODULE)
        self.assertEqual(page(other), PAGE)

    def test_a_changed_command_shows(self):
        for before, after in (
            ("@exp_12(%a, %b)", "@exp_13(%a, %b)"),
            ("segments = 3", "segments = 4"),
            ("step.record 3", "step.wait 3"),
            ("step.arena 512", "step.arena 256"),
            ("read %arg0", "write %arg0"),
        ):
            with self.subTest(before):
                self.assertIn(before, MODULE)
                self.assertNotEqual(page(MODULE.replace(before, after)), PAGE)

    def test_an_equal_or_similar_section_refers_to_the_earlier_one(self):
        before = ir_digest.sections(MODULE)
        after = page(MODULE.replace("@exp_12(%a, %b)", "@log_12(%a, %b)"), [("kernels", before)])
        self.assertIn(
            'attributes {role = "update"}\n  as after kernels, but\n'
            "  − 1 × step.launch @exp_12 {iterations = [8×2, 4], segments = 3 : i64}\n"
            "  + 1 × step.launch @log_12 {iterations = [8×2, 4], segments = 3 : i64}\n",
            after,
        )
        self.assertIn("module @kernels\n  as after kernels\n", after)

    def test_text_that_is_not_ir_is_refused(self):
        with self.assertRaises(ValueError):
            page(MODULE + "  }\n")
        with self.assertRaises(ValueError):
            page(MODULE.rstrip().rstrip("}"))


if __name__ == "__main__":
    unittest.main()
