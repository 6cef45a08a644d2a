#!/usr/bin/env python3
"""The pages of tests/golden: what tools/support/ir_digest.py keeps of a module and what it leaves
out."""

import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "support"))

import ir_digest

MODULE = """module attributes {nano.hyperparameters = [{name = "x"}], step.arena_bytes = 512 : i64} {
  nano.scalar @lr : f32 attributes {step.offset = 8 : i64} {
  ^bb0(%arg0: f64, %arg1: f64, %arg2: f64, %arg3: f64):
    %cst = arith.constant 1.000000e+00 : f64
    nano.yield %cst : f64
  }
  nano.state @blocks.0.w : tensor<4x2xf32> {role = #nano.role<gradient>}
  nano.state @blocks.1.w : tensor<4x2xf32> {role = #nano.role<gradient>}
  func.func @train(%arg0: tensor<4x2xf32>) -> tensor<4x2xf32> attributes {nano.role = "train"} {
    %0 = nano.load @blocks.0.w : tensor<4x2xf32>
    %1 = nano.add %0, %arg0 : tensor<4x2xf32>
    %2 = nano.add %1, %1 : tensor<4x2xf32>
    %3:2 = nano.fused(%2) : (tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4xf32>) {
    ^bb0(%arg1: tensor<4x2xf32>):
      %5 = nano.exp %arg1 : tensor<4x2xf32>
      %6 = nano.exp %5 : tensor<4x2xf32>
      %7 = nano.reduce sum %6 dims [1] : tensor<4x2xf32> -> tensor<4xf32>
      nano.yield %6, %7 : tensor<4x2xf32>, tensor<4xf32>
    }
    %4 = nano.select lt, %2, %3#0, %2, %2 : tensor<4x2xf32>, tensor<4x2xf32>
    nano.store %4, @blocks.1.w : tensor<4x2xf32>
    return %4 : tensor<4x2xf32>
  }
  step.program @update attributes {role = "update"} {
    %a = step.buffer "a" {offset = 256 : i64} : memref<8xf32>
    %b = step.view %a : memref<8xf32> to memref<4xf32, strided<[2], offset: 1>>
    step.launch @exp_12(%a, %a) {iterations = array<i64: 8, 8, 4>, segments = 3 : i64} : memref<8xf32>, memref<8xf32>
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
  1 × step.arena_bytes = 512
  1 × nano.scalar @lr : f32
      ^bb0(%0: f64, %1: f64, %2: f64, %3: f64):
      %4 = arith.constant 1.000000e+00 : f64
      nano.yield %4 : f64
  2 × nano.state @blocks.N.w : 4x2xf32 {role = #nano.role<gradient>}

func.func @train(4x2xf32) -> 4x2xf32 attributes {nano.role = "train"}
  1 × nano.load @blocks.N.w : 4x2xf32
  2 × nano.add : 4x2xf32
  1 × nano.fused : (4x2xf32) -> (4x2xf32, 4xf32)  { exp×2 reduce }
  1 × nano.select lt : 4x2xf32, 4x2xf32
  1 × nano.store @blocks.N.w : 4x2xf32
  1 × return : 4x2xf32

step.program @update attributes {role = "update"}
  1 × step.buffer : 8xf32
  1 × step.view : 8xf32 to memref<4xf32, strided<[2], offset: 1>>
  1 × step.launch @exp_12 {iterations = [8×2, 4], segments = 3 : i64}
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

    def test_wiring_layers_and_places_are_left_out(self):
        other = MODULE.replace("%1, %1", "%0, %1").replace("offset = 256", "offset = 512")
        other = other.replace("blocks.1.", "blocks.7.").replace('buffer "a"', 'buffer "b"')
        self.assertEqual(page(other), PAGE)

    def test_a_changed_op_shows(self):
        for before, after in (
            ("nano.add %1, %1", "nano.sub %1, %1"),
            ("nano.reduce sum %6", "nano.neg %6"),
            ("segments = 3", "segments = 4"),
            ("dims [1] : tensor<4x2xf32> -> tensor<4xf32>\n      nano", "dims [1] : x\n      %8 = nano.exp %7 : x\n      nano"),
            ("arith.constant 1.0", "arith.constant 2.0"),
            ("arena_bytes = 512", "arena_bytes = 256"),
            ("read %arg0", "write %arg0"),
        ):
            with self.subTest(before):
                self.assertIn(before, MODULE)
                self.assertNotEqual(page(MODULE.replace(before, after)), PAGE)

    def test_an_equal_or_similar_section_refers_to_the_earlier_one(self):
        before = ir_digest.sections(MODULE)
        after = page(MODULE.replace("nano.add %1, %1", "nano.sub %1, %1"), [("fuse", before)])
        self.assertIn(
            'attributes {nano.role = "train"}\n  as after fuse, but\n'
            "  − 1 × nano.add : 4x2xf32\n  + 1 × nano.sub : 4x2xf32\n",
            after,
        )
        self.assertIn('attributes {role = "update"}\n  as after fuse\n', after)

    def test_text_that_is_not_ir_is_refused(self):
        with self.assertRaises(ValueError):
            page(MODULE + "  }\n")
        with self.assertRaises(ValueError):
            page(MODULE.rstrip().rstrip("}"))


if __name__ == "__main__":
    unittest.main()
