#!/usr/bin/env python3
"""tests/golden/nvrtc.py: what a kernel needs is read from ptxas' log, and nothing is made up where the
log is silent."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import nvrtc

FUNCTION = """ptxas info    : Function properties for part
    8 bytes stack frame, 12 bytes spill stores, 4 bytes spill loads
"""
KERNEL = """ptxas info    : Compiling entry function 'sum' for 'sm_90a'
ptxas info    : Function properties for sum
    16 bytes stack frame, 20 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 60 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem
"""


class ResourcesTest(unittest.TestCase):
    def test_what_every_function_spills_is_added_up(self):
        found = nvrtc.resources_of(FUNCTION + KERNEL, 96, "sum")
        self.assertEqual(found, nvrtc.Resources(60, 16, 32, 1024, 96))

    def test_a_kernel_without_shared_memory(self):
        log = KERNEL.replace(", 1024 bytes smem", "")
        self.assertEqual(nvrtc.resources_of(log, 96, "sum"), nvrtc.Resources(60, 16, 20, 0, 96))

    def test_a_log_that_lacks_a_number_is_refused(self):
        for part in ("Used 60 registers", "16 bytes stack frame", "20 bytes spill stores"):
            with self.subTest(part), self.assertRaisesRegex(AssertionError, "the log of sum lacks"):
                nvrtc.resources_of(KERNEL.replace(part, ""), 96, "sum")

    def test_products_that_wait_for_each_other_are_refused(self):
        line = (
            "ptxas info    : (C7513) Potential Performance Loss: wgmma.mma_async instructions are serialized "
            "due to non wgmma instructions defining input registers of a wgmma in the function 'sum'\n"
        )
        with self.assertRaisesRegex(AssertionError, "wait for each product of sum: .*C7513"):
            nvrtc.resources_of(line + KERNEL, 96, "sum")


if __name__ == "__main__":
    unittest.main()
