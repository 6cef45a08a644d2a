#!/usr/bin/env python3
"""tools/gpu_check without a GPU: its command line, how it judges numbers, what it makes of traces, that small errors in
a model are found, and a folder from its making to the report, with plans for the CPU in the place of those for CUDA."""

import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
TOOL = os.path.join(ROOT, "tools", "gpu_check")
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
sys.dont_write_bytecode = True

import harness  # noqa: E402

loader = importlib.machinery.SourceFileLoader("gpu_check", TOOL)
tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
loader.exec_module(tool)


def ran(*words):
    return subprocess.run([TOOL, *words], capture_output=True, encoding="utf-8", timeout=100)


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="nano-gpu-check-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def refused(self, work, *arguments):
        with self.assertRaises(tool.Failed) as caught:
            work(*arguments)
        return str(caught.exception)


class CommandLine(Scratch):
    def test_help(self):
        for words, status in ((("--help",), 0), ((), 2)):
            done = ran(*words)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn("carry the folder build/gpu-check", done.stdout)

    def test_misuse_is_one_line(self):
        tool.write_json(self.at("manifest.json"), {"cases": {}, "plans": {}, "ranks": []})
        for words, text in ((("fly",), "invalid choice: 'fly'"),
                            (("run", "--gpus", "x"), "--gpus: invalid int value: 'x'"),
                            (("run", "--bundle", self.at("none")), "not a prepared folder; run tools/gpu_check prepare"),
                            (("run", "--bundle", self.folder, "--only", "z"), "--only z: no part has that in its name; the "
                             "parts are machine, device tests")):
            done = ran(*words)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
            self.assertIn(text, done.stderr)

    def test_a_machine_that_there_is_not(self):
        with mock.patch.object(tool, "prepare_binaries"), contextlib.redirect_stderr(io.StringIO()) as said:
            with self.assertRaises(SystemExit) as caught:
                tool.prepare(self.at("b"), "h300")
        self.assertEqual((caught.exception.code, len(said.getvalue().splitlines())), (2, 1), said.getvalue())
        self.assertIn("h300", said.getvalue())
        self.assertFalse(os.path.exists(self.at("b")))

    def test_what_was_not_built_or_is_not_here_is_skipped(self):
        tool.write_json(self.at("manifest.json"), {"cases": {}, "plans": {}, "ranks": []})
        done = ran("run", "--bundle", self.folder, "--only", "scatter")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ScatterCudaBench was not built", done.stdout)
        self.assertIn("0 passed, 0 failed, 1 skipped", done.stdout)

    def test_counts_of_tests(self):
        tool.write_json(self.at("manifest.json"), {"cases": {}, "plans": {}, "ranks": []})
        os.makedirs(self.at("bin"))
        for said, status, detail in (
                ("[  PASSED  ] 37 tests.", "passed", "37 passed"),
                ("[  PASSED  ] 1 test.\n[  SKIPPED ] 2 tests, listed below:\n[  SKIPPED ] A.B", "passed", "1 passed, 2 skipped"),
                ("[  PASSED  ] 0 tests.\n[  SKIPPED ] 11 tests, listed below:", "skipped", "all 11 tests"),
                ("[  PASSED  ] 0 tests.", "failed", "nano-primitives-gpu-test has no test ")):
            with open(self.at("bin", "nano-primitives-gpu-test"), "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\necho '{said}'\n")
            os.chmod(self.at("bin", "nano-primitives-gpu-test"), 0o755)
            os.makedirs(self.at("sources"), exist_ok=True)
            ran("run", "--bundle", self.folder, "--only", "primitives")
            part = tool.read_json(self.at("report.json"))["parts"][0]
            self.assertEqual((part["status"], part["detail"]), (status, detail))


class Judging(Scratch):
    """Nothing that is not a number, and nothing that is missing, is hidden by the rest."""

    LARGE = [1.0] * tool.FEW
    WANTED = {"h.0.w": LARGE, "h.0.b": [3.0, 4.0], "h.1.b": [0.0, 5.0], "c": [5.0]}
    ALLOWED = {"h.0.w": 0.15, "h.*.b": 0.06, "c": 0.03}

    def judged(self, few="kind", **tensors):
        allowed = self.ALLOWED if few == "kind" else {"h.0.w": 0.15, "scalars": 0.08}
        return tool.judge("gradient", {**self.WANTED, **tensors}, self.WANTED, few, allowed)

    def scaled(self, factor):
        return {"h.0.w": [factor * value for value in self.LARGE]}

    def test_the_worst_group_is_named(self):
        self.assertIn("worst gradient h.0.w, 1.0e-01 off, at 0.67 of its", self.judged(**self.scaled(1.1), c=[5.05]))
        self.assertIn("gradient h.0.w", self.refused(lambda: self.judged(**self.scaled(0.84))))
        self.assertIn("gradient c,", self.refused(lambda: self.judged(c=[5.2])))
        self.assertIn("gradient h.*.b,", self.refused(lambda: self.judged(**{"h.1.b": [0.0, 5.5]})))
        self.assertIn("scalars", self.refused(lambda: self.judged("all", c=[6.0])))
        found = tool.apart({**self.WANTED, "h.1.b": [0.0, 6.0]}, self.WANTED, "all")
        self.assertAlmostEqual(found["scalars"], 1 / math.sqrt(75))

    def test_tensors_that_are_no_numbers_or_not_there(self):
        self.assertIn("h.0.w, nan off", self.refused(lambda: self.judged(**self.scaled(math.nan), c=[5.2])))
        self.assertIn("c has 2 numbers, not 1", self.refused(lambda: self.judged(c=[5.0, 5.0])))
        self.assertIn("c has 0 numbers, not 1", self.refused(lambda: self.judged(c=[])))

    def losses(self, train=(4.0, 2.0), val=(3.0,), allowed=0.01, is_noisy=False):
        return tool.judge_losses((list(train), list(val)), ([4.0, 2.0], [3.0]), allowed, is_noisy)

    def test_losses(self):
        self.assertIn("5.0e-03 off (allowed 1.0e-02)", self.losses(train=(4.0, 2.01)))
        self.assertIn("most at loss 2", self.refused(lambda: self.losses(train=(4.0, 2.03))))
        # The same is less than allowed as a root of a mean square.
        self.losses(train=(4.0, 2.03), is_noisy=True)
        self.assertIn("2.1e-02 off", self.refused(lambda: self.losses((4.084, 2.042), (2.937,), 0.02, True)))
        for is_noisy in (False, True):
            for place in range(3):
                numbers = [4.0, 2.0, 3.0]
                numbers[place] = math.nan
                self.assertIn(f"most at loss {place + 1}",
                              self.refused(lambda: self.losses(numbers[:2], numbers[2:], 0.01, is_noisy)))
        self.assertIn("1 and 1 losses, not 2 and 1", self.refused(lambda: self.losses(train=[4.0])))


class Traces(Scratch):
    def test_row_kernels(self):
        def event(kind, took, **facts):
            return {"ph": "X", "cat": kind, "dur": took, "pid": 0, "args": {"bytes": 1e8, **facts}}

        events = [
            {"ph": "M", "name": "process_name", "pid": 0},
            event("matmul", 100), event("launch", 70, kernel="product_6", summary="matmul"),
            event("launch", 20, kernel="sum_sigmoid_log_1", floor_us=16),
            event("launch", 30, kernel="sigmoid_exp_select_2", floor_us=24),
            event("launch", 40, kernel="matmul_max_mul_3", floor_us=4), event("launch", 40, kernel="gather_sum_4", floor_us=50),
            event("launch", 9, kernel="sigmoid_5", floor_us=9), event("launch", 2, kernel="sum_log_7", floor_us=70),
        ]
        found = tool.read_rows({"traceEvents": events, "otherData": {"us": 289}})
        self.assertAlmostEqual(found["row_kernels_ms"], 0.059)
        self.assertAlmostEqual(found["row_kernels_of_copy"], 49 / 59)

    def test_what_communication_hides_behind(self):
        def event(kind, begin, end, rank=0):
            return {"ph": "X", "cat": kind, "ts": begin, "dur": end - begin, "pid": rank}

        events = [
            {"ph": "M", "name": "process_name", "pid": 0},
            event("launch", 0, 1000), event("matmul", 900, 2000), event("wait", 2000, 2600),
            event("all_reduce", 500, 1500), event("all_gather", 1800, 2500), event("copy", 2600, 3000),
            event("reduce_scatter", 0, 1000, rank=1),
        ]
        found = tool.read_communication({"traceEvents": events})
        self.assertAlmostEqual(found["communication_ms"], 1.7)
        self.assertAlmostEqual(found["exposed_ms"], 0.5)
        self.assertAlmostEqual(found["exposed_of_step"], 0.5 / 3)
        self.assertIn("no communication", self.refused(tool.read_communication, {"traceEvents": events[:2]}))


class Planted(Scratch):
    """A small model in bf16 on the CPU against what was prepared from others of its runs: it passes, and with a
    small error in one place it does not."""

    # By what a text of models/gpt124m.cpp is replaced.
    ERRORS = {
        "the attention's scale is 1% too large": (".scale = 0.12}", ".scale = 0.1212}"),
        "a layer's MLP is 2% too large": (
            "x += linear(square(relu(linear(norm(x), p.mlpIn))), p.mlpOut);",
            "x += cast((i == 3 ? 1.02 : 1.0) * linear(square(relu(linear(norm(x), p.mlpIn))), p.mlpOut), dtype);"),
        # Whole numbers have no gradient: the value stays, and its gradient is 1.02 of itself.
        "the gradient of a layer's attention is 2% too large": (
            "return linear(reshape(y, {T, H * Dh}), p.project);",
            "const Tensor z = cast(reshape(y, {T, H * Dh}), f32);"
            "return linear(cast(i == 3 ? 1.02 * z - 2e-8 * cast(cast(1e6 * z, i32), f32) : 1.0 * z, dtype), "
            "p.project);"),
    }
    SIZES = {**harness.TINY, "num_layers": 6, "vocab_size": 257, "eos_token": 256, "head_dim": 32, "dtype": "bf16"}

    def test_small_errors_are_found(self):
        os.makedirs(self.at("bundle", "shards"))
        os.makedirs(self.at("scratch"))
        for shard, count, seed in (("t_0.bin", 30000, 1), ("v.bin", 3000, 3)):
            harness.write_shard(self.at("bundle", "shards", shard), harness.tokens(count, seed))
        with mock.patch.object(tool, "RUNS", 3):
            expected = tool.expectation(self.at("bundle"), self.at("scratch"), "gpt124m", self.SIZES)
        plan, other = self.at("scratch", "narrow.plan"), self.at("other")
        run = lambda *words: tool.must("nanorun", *words)  # noqa: E731
        tool.perturbed(self.at("bundle", expected["initial"]), other, 77)
        losses, parameters, _ = tool.train(run, self.at("bundle"), self.at("scratch"), plan, other)
        tool.judge_losses(losses, expected["losses"], expected["loss_allowed"], True)
        tool.judge("parameter", harness.read_safetensors(parameters),
                   harness.read_safetensors(self.at("bundle", expected["parameters"])), "all", expected["allowed"])
        gradients = expected["gradients"]
        harness.round_to_bf16(self.at("bundle", expected["parameters"]), self.at("trained"), tool.is_embedding, True)
        tool.perturbed(self.at("trained"), other, 77)

        def judged():
            states = tool.train(run, self.at("bundle"), self.at("scratch"), plan, other, 1)[2]
            return tool.judge("gradient", tool.momenta(states), tool.momenta(self.at("bundle", gradients["states"])), "kind",
                              gradients["allowed"])

        judged()
        text = harness.read_bytes(os.path.join(ROOT, "models", "gpt124m.cpp")).decode()
        for what, (right, wrong) in self.ERRORS.items():
            self.assertEqual(text.count(right), 1, what)
            with open(self.at("model.cpp"), "w", encoding="utf-8") as file:
                file.write(text.replace(right, wrong))
            tool.compile_plan(self.at("model.cpp"), plan, self.SIZES, "--target", "cpu")
            self.assertIn("of its tolerance", self.refused(judged), what)


class Folder(Scratch):
    """From `prepare` to the report, one small case, with plans for the CPU."""

    SIZES = {**harness.TINY, "num_layers": 6, "vocab_size": 257, "eos_token": 256, "dtype": "f32"}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="nano-gpu-check-")
        cls.addClassCleanup(folder.cleanup)
        cls.bundle = os.path.join(folder.name, "gpu-check")
        small = {"global_batch": 512, **cls.SIZES}
        compiled = tool.compile_plan

        def compile_plan(model, plan, sizes, *options):
            if os.path.basename(plan).startswith("full_"):
                sizes = {**small, **{name: sizes[name] for name in ("dist", "num_iterations") if name in sizes}}
                model, options = "gpt_tiny", [word for word in options if word not in ("--machine", "h200-nvlink")]
            compiled(model, plan, sizes, *options)

        with contextlib.ExitStack() as patches:
            for name, value in (
                    ("CASES", {"gpt124m_f32": ("gpt_tiny", cls.SIZES)}), ("FULL", {"full_fp8_head": {}}), ("TARGET", "cpu"),
                    ("WINDOWS", {"full_fp8_head": 5}), ("WORLDS", (1, 2)), ("STRATEGIES", ("zero2",)),
                    ("RANKS_SIZES", {**cls.SIZES, "global_batch": 256}), ("prepare_binaries", lambda _: None),
                    ("full_tokens", lambda _: harness.tokens(30000, 1)), ("compile_plan", compile_plan)):
                patches.enter_context(mock.patch.object(tool, name, value))
            tool.prepare(cls.bundle, "h200-nvlink")

    def report(self, *only, changes=lambda manifest: None, nanorun=os.path.join(harness.BIN, "nanorun") + " --threads 1"):
        """(exit status, {part: (status, detail)}, figures, what was printed) of a run of the parts."""
        shutil.copytree(self.bundle, self.at("b"))
        manifest = tool.read_json(self.at("b", "manifest.json"))
        changes(manifest)
        tool.write_json(self.at("b", "manifest.json"), manifest)
        options = argparse.Namespace(limit=90, only=only, nanorun=nanorun, gpus=2)
        check = tool.Check(self.at("b"), options, self.at("r.json"))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            check.run()
            passed = check.table()
        with open(self.at("r.json"), encoding="utf-8") as file:
            report = json.load(file)
        return (passed, {part["name"]: (part["status"], part["detail"]) for part in report["parts"]}, report["figures"],
                said.getvalue())

    def test_agreement_passes(self):
        passed, parts, _, said = self.report("against the CPU")
        status, detail = parts["gpt124m_f32 against the CPU"]
        self.assertEqual((passed, status), (True, "passed"), detail)
        self.assertIn("0.0e+00 off (allowed 1.0e-04); worst parameter", detail)
        self.assertIn("1 passed, 0 failed, 0 skipped", said)

    def test_another_loss_fails(self):
        def changes(manifest):
            manifest["cases"]["gpt124m_f32"]["losses"][0][7] *= 1.0002

        passed, parts, _, _ = self.report("against the CPU", changes=changes)
        self.assertEqual((passed, parts["gpt124m_f32 against the CPU"][0]), (False, "failed"))
        self.assertIn("most at loss 8", parts["gpt124m_f32 against the CPU"][1])

    def test_other_parameters_fail(self):
        def changes(manifest):
            case = manifest["cases"]["gpt124m_f32"]
            case["parameters"] = case["initial"]

        passed, parts, _, _ = self.report("against the CPU", changes=changes)
        self.assertEqual((passed, parts["gpt124m_f32 against the CPU"][0]), (False, "failed"))
        self.assertIn("worst parameter", parts["gpt124m_f32 against the CPU"][1])

    def test_a_run_that_ends_badly_fails_and_says_why(self):
        words = "sh -c 'echo it broke >&2; yes | head -c 4000; exit 1'"
        passed, parts, _, _ = self.report("against the CPU", nanorun=words)
        status, detail = parts["gpt124m_f32 against the CPU"]
        self.assertEqual((passed, status), (False, "failed"))
        self.assertTrue(detail.startswith("status 1: ") and detail.endswith("it broke"), detail)

    def test_steps_and_ranks(self):
        passed, parts, figures, said = self.report("full_", "ranks_zero2")
        skipped = {name: detail for name, (status, detail) in parts.items() if status == "skipped"}
        self.assertTrue(passed, parts)
        self.assertEqual(skipped, {f"ranks_zero2: {world} against one": f"{world} GPUs are needed, 2 can be used"
                                   for world in (4, 8)})
        self.assertIn("losses", parts["ranks_zero2: 2 against one"][1])
        windows, ranks = figures["full_fp8_head_windows"], figures["full_ranks_zero2_2"]
        self.assertEqual(windows["step_ms"], sorted(windows["steps_ms"])[2])
        self.assertGreater(figures["full_fp8_head"]["cold_start_s"], 0)
        # On a CPU nothing runs beside it.
        self.assertGreater(ranks["communication_ms"], 0)
        self.assertAlmostEqual(ranks["exposed_ms"], ranks["communication_ms"], places=3)
        self.assertIn("exposed_of_step", said)
        self.assertTrue(os.path.exists(self.at("r.full_fp8_head.trace.json")))


if __name__ == "__main__":
    unittest.main()
