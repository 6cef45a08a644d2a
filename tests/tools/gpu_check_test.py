#!/usr/bin/env python3
"""tools/gpu_check without a GPU: its command line, and what it makes of runs that agree with what is
expected, that do not, and that cannot be. A plan for the CPU stands in for the one for CUDA."""

import gzip
import importlib.machinery
import importlib.util
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
BIN = os.environ.get("NANO_BIN", os.path.join(ROOT, "build", "bin"))
TOOL = os.path.join(ROOT, "tools", "gpu_check")
sys.path[:0] = [os.path.join(ROOT, "tests", "e2e"), os.path.join(ROOT, "tools", "support")]
sys.dont_write_bytecode = True

import gpu_compare  # noqa: E402
import gpu_figures  # noqa: E402
import gpu_head  # noqa: E402
import gpu_prepare  # noqa: E402
import harness  # noqa: E402

SIZES = {**harness.TINY, "num_layers": 6, "vocab_size": 257, "eos_token": 256, "num_iterations": 40}


def ran(*words):
    return subprocess.run(list(map(str, words)), capture_output=True, encoding="utf-8", timeout=100)


class CommandLine(unittest.TestCase):
    def test_help_and_misuse(self):
        for words, status in ((("--help",), 0), ((), 2)):
            done = ran(TOOL, *words)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn("carry the folder build/gpu-check", done.stdout)
        self.assertEqual(ran(TOOL, "fly").returncode, 2)

    def test_a_machine_that_there_is_not(self):
        with tempfile.TemporaryDirectory(prefix="nano-gpu-check-") as folder:
            done = ran(TOOL, "prepare", "--machine", "h300", "--bundle", os.path.join(folder, "b"))
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
        self.assertIn("--machine h300: neither a file nor one of cpu, h100-infiniband", done.stderr)

    def test_a_folder_that_was_not_prepared(self):
        done = ran(TOOL, "run", "--bundle", "/tmp/no-such-folder")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn("/tmp/no-such-folder: not a prepared folder; run tools/gpu_check prepare", done.stderr)


def loaded():
    """tools/gpu_check as a module."""
    loader = importlib.machinery.SourceFileLoader("gpu_check", TOOL)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


class Folder(unittest.TestCase):
    def test_equal_initial_parameters_are_carried_once(self):
        with tempfile.TemporaryDirectory(prefix="nano-gpu-check-") as folder:
            for name, text in (("a", "one"), ("b", "two"), ("c", "one")):
                os.makedirs(os.path.join(folder, name))
                with open(os.path.join(folder, name, "initial.safetensors"), "w", encoding="utf-8") as file:
                    file.write(text)
            places = [gpu_prepare.share_initial(folder, name) for name in ("b", "c")]
            self.assertEqual(places, ["b/initial.safetensors", "a/initial.safetensors"])
            self.assertTrue(os.path.exists(os.path.join(folder, "b", "initial.safetensors")))
            self.assertFalse(os.path.exists(os.path.join(folder, "c", "initial.safetensors")))

    def test_what_is_large_is_carried_packed(self):
        tool = loaded()
        with tempfile.TemporaryDirectory(prefix="nano-gpu-check-") as folder:
            at = lambda *names: os.path.join(folder, *names)  # noqa: E731
            os.makedirs(at("b", "bin"))
            large = bytes(range(256)) * 1000
            for name, content in (("bin/tool", large), ("small.json", b"{}")):
                with open(at("b", name), "wb") as file:
                    file.write(content)
            os.chmod(at("b", "bin", "tool"), 0o755)
            gpu_prepare.pack(at("b"))
            self.assertEqual(os.listdir(at("b", "bin")), ["tool.gz"])
            self.assertLess(os.path.getsize(at("b", "bin", "tool.gz")), len(large) // 10)
            self.assertEqual(gzip.decompress(harness.read_bytes(at("b", "bin", "tool.gz"))), large)
            found = tool.unpacked(at("b"), at("u"))
            self.assertEqual(harness.read_bytes(os.path.join(found, "bin", "tool")), large)
            self.assertTrue(os.access(os.path.join(found, "bin", "tool"), os.X_OK))
            self.assertEqual(harness.read_bytes(os.path.join(found, "small.json")), b"{}")

    def test_plans_at_full_size_are_for_the_machine(self):
        manifest = {"full": [], "windows": [], "ranks": [], "full_ranks": []}
        with mock.patch.object(gpu_prepare, "compile_plan") as compiled, \
                mock.patch.object(gpu_prepare, "chunk_rows", return_value={128}):
            gpu_prepare.prepare_full("b", "full_fp8_head", {"fp8": "head"}, "m", manifest)
            gpu_prepare.prepare_ranks("b", "zero2", "m", manifest)
        found = {os.path.basename(call.args[1]): call.args[3:] for call in compiled.call_args_list}
        self.assertEqual(len(found), 7)
        for plan, options in found.items():
            given = options[options.index("--machine") + 1] if "--machine" in options else None
            self.assertEqual(given, "m" if plan.startswith("full_") else None, plan)

    def test_machines_by_name_and_by_path(self):
        self.assertEqual(gpu_prepare.find_machine("h200-nvlink")[0], "h200-nvlink")
        path = os.path.relpath(os.path.join(ROOT, "machines", "cpu.json"))
        self.assertEqual(gpu_prepare.find_machine(path)[0], os.path.join(ROOT, "machines", "cpu.json"))
        self.assertIsNone(gpu_prepare.find_machine("h300")[0])

    def test_the_lines_of_the_head(self):
        source = harness.read_bytes(os.path.join(ROOT, "models", "gpt124m.cpp")).decode()
        lines = source.splitlines()
        places = gpu_prepare.head_places("models/gpt124m.cpp", source)
        self.assertEqual(set(places), {"weight", "product", "cap", "loss"})
        self.assertIn("lmHead)", lines[int(places["product"].split(":")[1]) - 1])
        for other in (source.replace("crossEntropy(", "entropy("), source + "crossEntropy("):
            with self.assertRaises(SystemExit):
                gpu_prepare.head_places("models/gpt124m.cpp", other)


class Figures(unittest.TestCase):
    """What is made of a run's numbers: nothing that is not a number, and nothing that is missing, is
    hidden by the rest."""

    EXPECTED = {"train": [4.0, 2.0], "val": [3.0], "loss_tolerance": 0.01, "tolerance": {"a": 0.1, "b": 0.1}}
    WANTED = {"a": [1.0, 2.0], "b": [3.0]}

    def compared(self, train=(4.0, 2.0), val=(3.0,), **parameters):
        return gpu_compare.compare(
            self.EXPECTED, (list(train), list(val)), {**self.WANTED, **parameters}, self.WANTED)

    def refused(self, **run):
        with self.assertRaises(gpu_figures.Failed) as caught:
            self.compared(**run)
        return str(caught.exception)

    def test_the_worst_is_named(self):
        figures, text = self.compared(train=(4.0, 2.01), b=[3.09])
        self.assertAlmostEqual(figures["worst_loss_error"], 0.005)
        self.assertEqual(figures["worst_parameter"], "b")
        self.assertIn("worst parameter b at 0.30 of its tolerance", text)

    def test_a_loss_that_is_not_a_number(self):
        for at in (0, 1):
            train = [4.0, 2.0]
            train[at] = math.nan
            self.assertIn(f"first at loss {at + 1}", self.refused(train=train))
        self.assertIn("first at loss 3", self.refused(val=[math.nan]))

    def test_a_parameter_that_is_not_a_number(self):
        self.assertIn("worst parameter a at nan", self.refused(a=[1.0, math.nan], b=[3.01]))
        self.assertIn("worst parameter b at nan", self.refused(a=[1.0, 2.01], b=[math.nan]))

    def test_what_is_missing(self):
        self.assertIn("1 and 1 losses, not 2 and 1", self.refused(train=[4.0]))
        self.assertIn("parameter a has 1 numbers, not 2", self.refused(a=[1.0]))
        self.assertIn("parameter b has 0 numbers, not 1", self.refused(b=[]))


    def test_what_communication_hides_behind(self):
        def event(kind, begin, end, rank=0):
            return {"ph": "X", "cat": kind, "ts": begin, "dur": end - begin, "pid": rank}

        events = [
            {"ph": "M", "name": "process_name", "pid": 0},
            event("launch", 0, 1000), event("matmul", 900, 2000), event("wait", 2000, 2600),
            event("all_reduce", 500, 1500), event("all_gather", 1800, 2500), event("copy", 2600, 3000),
            event("reduce_scatter", 0, 1000, rank=1), event("record", 0, 2000, rank=1),
        ]
        found = gpu_figures.read_communication({"traceEvents": events})
        self.assertAlmostEqual(found["communication_ms"], 1.7)
        self.assertAlmostEqual(found["exposed_ms"], 0.5)
        self.assertAlmostEqual(found["exposed_of_step"], 0.5 / 3)
        self.assertAlmostEqual(found["work_ms"], 2.4)
        self.assertAlmostEqual(found["worst_exposed_of_step"], 0.5)


    def test_what_a_step_took(self):
        def event(kind, took, **facts):
            return {"ph": "X", "cat": kind, "dur": took, "pid": 0, "args": {"program": "last", "bytes": 1e8, **facts}}

        events = [
            event("matmul", 100, shape=[3072, 50304, 768, 1]), event("launch", 70, kernel="product_6", summary="matmul"),
            event("launch", 20, kernel="sum_sigmoid_log_1", floor_us=16),
            event("launch", 30, kernel="sigmoid_exp_select_2", floor_us=24),
            event("launch", 40, kernel="matmul_max_mul_3", floor_us=4),
            event("launch", 40, kernel="gather_sum_4", floor_us=50),
            event("launch", 9, kernel="sigmoid_5", floor_us=9, program="validate"),
            event("launch", 2, kernel="sum_log_7", floor_us=70),
        ]
        found = gpu_figures.read_trace({"traceEvents": events, "kernels": [], "otherData": {"us": 289}})
        # Row kernels move bytes alone, all of their operands.
        self.assertAlmostEqual(found["row_kernels_us"], 59)
        self.assertAlmostEqual(found["row_kernels_of_copy"], 49 / 59)

    def test_what_the_start_took(self):
        log = [{"event": "run"}, {"event": "step"},
               {"event": "start", "ms": {"plan": 20.4, "device": 400.0, "total": 420.4, "device_context": 150.6}}]
        parts = gpu_figures.read_start(log, 0.5)
        self.assertEqual(parts["end"], 79.6)
        self.assertEqual(gpu_figures.start_text(parts), "plan 20, device 400, total 420, end 80 (context 151)")
        with self.assertRaises(Exception) as caught:
            gpu_figures.read_start(log[:2], 0.5)
        self.assertIn("the log does not say what the parts of the start took", str(caught.exception))


PLACES = {"weight": "m.cpp:7", "product": "m.cpp:20", "cap": "m.cpp:21", "loss": "m.cpp:23"}


def traced(*events):
    return {"traceEvents": [{"ph": "M", "name": "process_name", "pid": 0}, *events]}


def command(kind, took, *lines, program="last", **facts):
    at = ", ".join(f"m.cpp:{line}" for line in lines)
    return {"ph": "X", "cat": kind, "dur": took, "pid": 0, "args": {"program": program, "at": at, **facts}}


class Head(unittest.TestCase):
    """The head against its three products alone: what counts, and that nothing is missed in silence."""

    V = gpu_figures.VOCABULARY
    LOGITS = 128 * V
    BACKWARD = [command("matmul", 80, 20, shape=[V, 64, 128, 1]), command("matmul", 70, 20, shape=[128, 64, V, 1])]
    FORWARD = [command("matmul", 100, 20, shape=[128, V, 64, 1])]
    LOSS = [command("launch", 20, 21, 23, kernel="sum_log", bytes=2.0 * LOGITS, summary="exp, reduce, log")]
    GRADIENT = [command("launch", 30, 20, 21, 23, kernel="exp_cast", bytes=4.0 * LOGITS, summary="exp, sub, cast")]
    # The forward product with the loss's sums, and the loss from them.
    GENERATED = [
        command("launch", 110, 20, 21, 23, kernel="matmul_exp", bytes=2.0 * LOGITS, summary="scaled_matmul, exp, reduce"),
        command("launch", 2, 23, kernel="sum_log", bytes=1e3, summary="reduce, log"),
    ]
    # The head's own: a cast of the weight, a transpose of the input. Not: norms of that line, other layers, validation.
    REST = [
        command("launch", 5, 7, kernel="div_cast", bytes=1e6, summary="div, cast"),
        command("launch", 3, 20, kernel="transpose", bytes=1e6, summary="transpose"),
        command("launch", 1000, 20, kernel="rmsnorm", bytes=1e6, summary="reduce, rsqrt, mul, cast"),
        command("launch", 1000, 20, 19, kernel="add", bytes=1e6, summary="add"),
        command("launch", 1000, 7, 12, kernel="cast", bytes=1e6, summary="cast"),
        command("matmul", 1000, 19, shape=[64, 64, 64, 1]),
        command("launch", 1000, 21, 23, program="validate", kernel="sum", bytes=9.0 * LOGITS, summary="exp, reduce"),
        command("matmul", 1000, 20, program="validate", shape=[999, V, 64, 1]),
    ]

    def read(self, own, library):
        return gpu_head.read_head(traced(*own), traced(*library), PLACES)

    def refused(self, own, library):
        with self.assertRaises(gpu_figures.Failed) as caught:
            self.read(own, library)
        return str(caught.exception)

    def test_the_median_of_some_pairs_counts(self):
        tool = loaded()
        check = tool.Check.__new__(tool.Check)
        check.manifest, check.figures, check.traces = {"head": PLACES}, {}, {}
        made = []

        def trace(plan):
            made.append(plan)
            own = not plan.endswith("_library")
            slower = [7, 1, 9, 3, 5][made.count(plan) - 1] if own else 0
            loss = command("launch", 20 + slower, 21, 23, kernel="sum_log", bytes=2.0 * self.LOGITS, summary="exp, reduce")
            return traced(*self.FORWARD, *self.BACKWARD, loss, *self.GRADIENT)

        with mock.patch.object(check, "traced", trace, create=True), mock.patch.object(check, "share_tuning"):
            text = check.head("full")
        self.assertEqual(made, ["full", "full_library"] * 5)
        self.assertAlmostEqual(check.figures["full"]["head_ratio"], (300 + 5) / 250)
        self.assertEqual(check.figures["full"]["head_ratios"], [1.204, 1.212, 1.22, 1.228, 1.236])
        self.assertIn("1.220 × its products (1.204 to 1.236): 305 us", text)

    def test_with_the_library_s_products(self):
        plan = [*self.FORWARD, *self.BACKWARD, *self.LOSS, *self.GRADIENT, *self.REST]
        found = self.read(plan, plan)
        self.assertAlmostEqual(found["head_products_us"], 250)
        self.assertAlmostEqual(found["head_us"], 250 + 20 + 30 + 5 + 3)
        self.assertAlmostEqual(found["head_ratio"], 308 / 250)
        self.assertEqual(found["head_commands"]["exp_cast"], {"us": 30, "runs": 1})

    def test_with_a_generated_product(self):
        own = [*self.GENERATED, *self.BACKWARD, *self.GRADIENT, *self.REST]
        library = [*self.FORWARD, *self.BACKWARD, *self.LOSS, *self.GRADIENT, *self.REST]
        found = self.read(own, library)
        self.assertAlmostEqual(found["head_products_us"], 250)
        self.assertAlmostEqual(found["head_us"], 110 + 2 + 150 + 30 + 5 + 3)
        self.assertAlmostEqual(found["head_loss_us"], 50)
        self.assertAlmostEqual(found["head_ratio"], 300 / 250)

    def test_a_slower_clock_slows_both(self):
        library = [*self.FORWARD, *self.BACKWARD, *self.LOSS, *self.GRADIENT]
        slow = [{**event, "dur": 2 * event["dur"]} for event in [*self.GENERATED, *self.BACKWARD, *self.GRADIENT]]
        found = self.read(slow, library)
        self.assertAlmostEqual(found["head_clock"], 2)
        self.assertAlmostEqual(found["head_products_us"], 500)
        self.assertAlmostEqual(found["head_ratio"], (110 + 2 + 150 + 30) / 250)

    def test_what_is_not_found_is_said(self):
        library = [*self.FORWARD, *self.BACKWARD, *self.LOSS, *self.GRADIENT]
        self.assertIn("the library's plan has no product of the head at m.cpp:20: forward",
                      self.refused(library, [*self.BACKWARD, *self.LOSS]))
        self.assertIn("no command is the head's product 'forward'", self.refused([*self.BACKWARD, *self.LOSS], library))
        self.assertIn("no kernel is the head's cap at m.cpp:21", self.refused([*self.FORWARD, *self.BACKWARD], library))
        self.assertIn("no kernel is the head's loss at m.cpp:23",
                      self.refused([*self.FORWARD, *self.BACKWARD, command("launch", 1, 21, bytes=9.0 * self.LOGITS)],
                                   library))
        self.assertIn("none is the gradient of the logits",
                      self.refused([*self.FORWARD, *self.BACKWARD, *self.LOSS], library))
        self.assertIn("none is the gradient of the logits",
                      self.refused([*self.GENERATED, *self.BACKWARD], library))

    def test_other_chunks_are_not_compared(self):
        library = [*self.FORWARD, *self.BACKWARD, *self.LOSS, *self.GRADIENT]
        other = [command("matmul", 40, 20, shape=[self.V, 64, 64, 1]), command("matmul", 40, 20, shape=[64, 64, self.V, 1])]
        self.assertIn("the head's chunks are others than in the library's plan",
                      self.refused([*self.GENERATED, *other, *other, *self.GRADIENT], library))
        fewer = [*self.GENERATED, *self.BACKWARD, *self.BACKWARD, *self.GRADIENT]
        self.assertIn("2 of the product 'gradient of the weight'", self.refused(fewer, library))
        self.assertIn("are not of one size", self.refused(library, [*library, *self.FORWARD]))


class Comparison(unittest.TestCase):
    """One folder with one case, whose expected values come from a run of the same plan."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="nano-gpu-check-")
        cls.addClassCleanup(cls.scratch.cleanup)
        at = lambda *names: os.path.join(cls.scratch.name, *names)  # noqa: E731
        cls.at = staticmethod(at)
        os.makedirs(at("small"))
        os.makedirs(at("shards"))
        os.makedirs(at("bin"))
        harness.write_shard(at("shards", "t_0.bin"), harness.tokens(30000, 1))
        harness.write_shard(at("shards", "v.bin"), harness.tokens(3000, 3))
        plan, initial = at("small", "cuda.plan"), at("small", "initial.safetensors")
        model = os.path.join(ROOT, "models", "gpt_tiny.cpp")
        steps = [
            (os.path.join(BIN, "nanoc"), "compile", model, "-o", plan, "--target", "cpu", *harness.overrides(SIZES)),
            (os.path.join(BIN, "nanorun"), plan, "--steps", 0, "--dump-params", initial),
            (os.path.join(BIN, "nanorun"), plan, "--train", at("shards", "t_*.bin"), "--val",
             at("shards", "v.bin"), "--val-tokens", 1024, "--steps", 20, "--init", initial, "--log",
             at("log.jsonl"), "--dump-params", at("small", "cpu.safetensors")),
        ]
        for words in steps:
            done = ran(*words)
            assert done.returncode == 0, done.stderr
        log = harness.read_log(at("log.jsonl"))
        parameters = harness.read_safetensors(at("small", "cpu.safetensors"))
        cls.expected = {
            "initial": os.path.join("small", "initial.safetensors"),
            "train": harness.train_losses(log),
            "val": harness.val_losses(log),
            "loss_tolerance": 1e-4,
            "tolerance": {name: 5e-3 for name in parameters},
        }
        with open(at("manifest.json"), "w", encoding="utf-8") as file:
            json.dump({"cases": ["small"], "full": []}, file)

    def check(self, expected, nanorun=os.path.join(BIN, "nanorun")):
        """(exit status, the parts of the report by name) of a run with these expected values."""
        with open(self.at("small", "expected.json"), "w", encoding="utf-8") as file:
            json.dump(expected, file)
        report = self.at("report.json")
        done = ran(TOOL, "run", "--bundle", self.scratch.name, "--report", report, "--nanorun", nanorun,
                   "--only", "small", "--limit", 90)
        with open(report, encoding="utf-8") as file:
            parts = {part["name"]: part for part in json.load(file)["parts"]}
        return done.returncode, parts["small against the CPU"]

    def test_agreement_passes(self):
        status, part = self.check(self.expected)
        self.assertEqual((status, part["status"]), (0, "passed"), part)
        self.assertIn("worst error 0.0e+00", part["detail"])

    def test_another_loss_fails(self):
        train = list(self.expected["train"])
        train[7] *= 1.0002
        status, part = self.check({**self.expected, "train": train})
        self.assertEqual((status, part["status"]), (1, "failed"))
        self.assertIn("first at loss 8", part["detail"])

    def test_other_parameters_fail(self):
        good = self.at("small", "cpu.safetensors")
        shutil.copy(good, self.at("kept"))
        content = bytearray(harness.read_bytes(good))
        content[-400:] = bytes(400)  # the last numbers of the last tensor
        with open(good, "wb") as file:
            file.write(content)
        try:
            status, part = self.check(self.expected)
        finally:
            shutil.copy(self.at("kept"), good)
        self.assertEqual((status, part["status"]), (1, "failed"))
        self.assertIn("of its tolerance", part["detail"])

    def test_a_part_that_is_not_there_is_refused(self):
        done = ran(TOOL, "run", "--bundle", self.scratch.name, "--only", "small", "--only", "smal1")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn("--only smal1: no part has that in its name; the parts are 'machine'", done.stderr)

    def test_a_run_in_which_nothing_ran_fails(self):
        done = ran(TOOL, "run", "--bundle", self.scratch.name, "--only", "scatter", "--report", self.at("none.json"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("skipped: scatter: ScatterCudaBench was not built", done.stdout)
        self.assertIn("0 passed, 0 failed, 1 skipped", done.stdout)

    def test_a_run_that_ends_badly_fails_and_says_why(self):
        status, part = self.check(self.expected, os.path.join(BIN, "nanorun") + " --gpus 64")
        self.assertEqual((status, part["status"]), (1, "failed"))
        self.assertIn("not for 64", part["detail"])

    def test_the_line_of_error_is_not_lost_behind_the_output(self):
        status, part = self.check(self.expected, "sh -c 'echo it broke >&2; yes | head -c 4000; exit 1'")
        self.assertEqual((status, part["status"]), (1, "failed"))
        self.assertTrue(part["detail"].startswith("status 1: "), part["detail"])
        self.assertTrue(part["detail"].endswith("it broke"), part["detail"])


class Full(unittest.TestCase):
    """The parts of the model at full size, with a small plan for the CPU in its place."""

    def test_windows_and_head(self):
        with tempfile.TemporaryDirectory(prefix="nano-gpu-check-") as folder:
            at = lambda *names: os.path.join(folder, *names)  # noqa: E731
            os.makedirs(at("shards"))
            harness.write_shard(at("shards", "full_0.bin"), harness.tokens(30000, 1))
            done = ran(os.path.join(BIN, "nanoc"), "compile", os.path.join(ROOT, "models", "gpt_tiny.cpp"), "-o",
                       at("tiny.plan"), "--target", "cpu", *harness.overrides(SIZES))
            self.assertEqual(done.returncode, 0, done.stderr)
            for name in ("tiny_library", "tiny_windows"):
                shutil.copy(at("tiny.plan"), at(name + ".plan"))
            gpu_prepare.pack(folder)
            self.assertTrue(os.path.exists(at("tiny.plan.gz")))
            with open(at("manifest.json"), "w", encoding="utf-8") as file:
                json.dump({"cases": [], "full": ["tiny"], "windows": [["tiny", 5]], "head": PLACES}, file)
            done = ran(TOOL, "run", "--bundle", folder, "--only", "head", "--only", "windows", "--report", at("r.json"),
                       "--nanorun", os.path.join(BIN, "nanorun") + " --threads 1", "--limit", 90)
            with open(at("r.json"), encoding="utf-8") as file:
                report = json.load(file)
            parts = {part["name"]: part for part in report["parts"]}
            self.assertEqual(parts["tiny: windows"]["status"], "passed", parts)
            figures = report["figures"]["tiny"]
            self.assertEqual(len(figures["windows_steps_ms"]), 5)
            self.assertEqual(figures["windows_step_ms"], sorted(figures["windows_steps_ms"])[2])
            # What has no head of this size is not left out in silence.
            self.assertEqual(parts["tiny: head"]["status"], "failed")
            self.assertIn("the library's plan has no product of the head at m.cpp:20", parts["tiny: head"]["detail"])
            self.assertNotIn("head_ratio", figures)
            self.assertEqual(done.returncode, 1)


class Ranks(unittest.TestCase):
    """The parts for several GPUs; ranks of a plan for the CPU stand in for them."""

    def test_ranks(self):
        with tempfile.TemporaryDirectory(prefix="nano-gpu-check-") as folder:
            at = lambda *names: os.path.join(folder, *names)  # noqa: E731
            for name in ("gpt124m_f32", "shards", "bin"):
                os.makedirs(at(name))
            harness.write_shard(at("shards", "t_0.bin"), harness.tokens(30000, 1))
            shutil.copy(at("shards", "t_0.bin"), at("shards", "full_0.bin"))
            model, initial = os.path.join(ROOT, "models", "gpt_tiny.cpp"), at("gpt124m_f32", "initial.safetensors")
            for name, worlds in (("ranks_zero2", "1,2"), ("full_ranks_zero2_2", "2")):
                sizes = {**SIZES, "dtype": "f32", "global_batch": 256, "dist": "zero2"}
                done = ran(os.path.join(BIN, "nanoc"), "compile", model, "-o", at(name + ".plan"), "--target", "cpu",
                           "--world", worlds, *harness.overrides(sizes))
                self.assertEqual(done.returncode, 0, done.stderr)
            done = ran(os.path.join(BIN, "nanorun"), at("ranks_zero2.plan"), "--steps", 0, "--dump-params", initial)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(at("gpt124m_f32", "expected.json"), "w", encoding="utf-8") as file:
                json.dump({"initial": os.path.relpath(initial, folder)}, file)
            with open(at("manifest.json"), "w", encoding="utf-8") as file:
                json.dump({"cases": [], "full": [], "ranks": ["ranks_zero2"],
                           "full_ranks": [["full_ranks_zero2_2", 2]]}, file)
            done = ran(TOOL, "run", "--bundle", folder, "--only", "_zero2", "--gpus", 2, "--report", at("r.json"),
                       "--nanorun", os.path.join(BIN, "nanorun") + " --threads 1", "--limit", 90)
            with open(at("r.json"), encoding="utf-8") as file:
                report = json.load(file)
            parts = {part["name"]: part for part in report["parts"]}
            for name in ("ranks_zero2: 2 against one", "full_ranks_zero2_2: steps", "full_ranks_zero2_2: profile"):
                self.assertEqual(parts[name]["status"], "passed", parts[name])
            self.assertIn("two runs are bit-equal", parts["ranks_zero2: 2 against one"]["detail"])
            for world in (4, 8):
                part = parts[f"ranks_zero2: {world} against one"]
                self.assertEqual((part["status"], part["detail"]), ("skipped", f"{world} GPUs are needed, 2 can be used"))
            figures = report["figures"]["full_ranks_zero2_2"]
            self.assertEqual((figures["ranks"], figures["ranks_traced"]), (2, 2))
            self.assertGreater(figures["communication_ms"], 0)
            # On a CPU nothing runs beside it.
            self.assertAlmostEqual(figures["exposed_ms"], figures["communication_ms"], places=3)
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
