#!/usr/bin/env python3
"""How tools/gpu_check judges runs in bf16: by their distance from f32 against that of runs on the CPU; and that
small errors in a model are found so."""

import array
import math
import os
import sys
import tempfile
import unittest
import unittest.mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "e2e"), os.path.join(ROOT, "tools", "support")]
sys.dont_write_bytecode = True

import gpu_compare  # noqa: E402
import gpu_figures  # noqa: E402
import gpu_prepare  # noqa: E402
import harness  # noqa: E402


class Tolerances(unittest.TestCase):
    """bf16 against f32 and the noise of bf16: large tensors one by one, those of few numbers together."""

    LARGE = [1.0] * gpu_compare.FEW
    WANTED = {"h.0.w": LARGE, "h.0.b": [3.0, 4.0], "h.1.b": [0.0, 5.0], "c": [5.0]}
    EXPECTED = {"train": [4.0, 2.0], "val": [3.0], "loss_noise": 0.01, "parameter_noise": {"h.0.w": 0.1, "scalars": 0.02}}
    GRADIENTS = {"h.0.w": 0.1, "h.*.b": 0.02, "c": 0.01}

    def near(self, losses=((4.0, 2.0), (3.0,)), **tensors):
        train, val = losses
        return gpu_compare.compare_with_noise(
            self.EXPECTED, (list(train), list(val)), {**self.WANTED, **tensors}, self.WANTED)

    def refused(self, check, *arguments, **tensors):
        with self.assertRaises(gpu_figures.Failed) as caught:
            check(*arguments, **tensors)
        return str(caught.exception)

    def scaled(self, factor):
        return {"h.0.w": [factor * value for value in self.LARGE]}

    def test_groups(self):
        self.assertEqual(gpu_compare.groups_of(self.WANTED, gpu_compare.kind_of),
                         {"h.0.w": ["h.0.w"], "h.*.b": ["h.0.b", "h.1.b"], "c": ["c"]})
        found = gpu_compare.distances({**self.WANTED, "h.1.b": [0.0, 6.0]}, self.WANTED, gpu_compare.all_scalars)
        self.assertAlmostEqual(found["scalars"], 1 / math.sqrt(75))
        self.assertEqual(gpu_compare.noise_of([{"a": 3.0}, {"a": 4.0}]), {"a": math.sqrt(12.5)})

    def test_as_far_as_the_noise_is_near(self):
        figures, text = self.near(((4.04, 1.98), (3.03,)), **self.scaled(1.1), c=[5.1])
        self.assertAlmostEqual(figures["loss_error"], 0.01)
        self.assertAlmostEqual(figures["worst_parameter_of_tolerance"], 1 / 1.5)
        self.assertIn("worst parameter h.0.w at 0.67 of its tolerance", text)

    def test_further_is_not(self):
        self.assertIn("h.0.w at 1.07", self.refused(self.near, **self.scaled(1.16)))
        self.assertIn("scalars at 1.44", self.refused(self.near, c=[6.0]))
        self.assertIn("2.1e-02 from f32 (allowed 2.0e-02)", self.refused(self.near, ((4.084, 2.042), (2.937,))))

    def test_what_is_not_a_number_or_not_there(self):
        self.refused(self.near, ((math.nan, 2.0), (3.0,)))
        self.assertIn("worst parameter h.0.w at nan", self.refused(self.near, **self.scaled(math.nan)))
        self.assertIn("1 and 1 losses, not 2 and 1", self.refused(self.near, ((4.0,), (3.0,))))
        self.assertIn("parameter c has 2 numbers, not 1", self.refused(self.near, c=[5.0, 5.0]))
        short = {name: values for name, values in self.WANTED.items() if name != "c"}
        self.assertIn("parameter c has 0 numbers, not 1",
                      self.refused(gpu_compare.compare_gradients, self.GRADIENTS, short, self.WANTED))

    def test_gradients(self):
        check = lambda **tensors: gpu_compare.compare_gradients(  # noqa: E731
            self.GRADIENTS, {**self.WANTED, **tensors}, self.WANTED)
        figures, text = check(**self.scaled(1.1), c=[5.1])
        self.assertAlmostEqual(figures["worst_gradient_of_tolerance"], 1 / 1.4)
        self.assertIn("worst gradient h.0.w, 1.0e-01 from f32, the CPU's 1.0e-01: 0.71 of its tolerance", text)
        self.assertIn("gradient h.0.w", self.refused(check, **self.scaled(0.85)))
        self.assertIn("gradient c,", self.refused(check, c=[5.2]))
        self.assertIn("gradient h.*.b,", self.refused(check, **{"h.1.b": [0.0, 5.5]}))

    def test_files(self):
        with tempfile.TemporaryDirectory(prefix="nano-gpu-check-") as folder:
            at = lambda *names: os.path.join(folder, *names)  # noqa: E731
            os.makedirs(at("save", "step-000001"))
            values = [1.0 + i / 1000 for i in range(300)]
            gpu_compare.write_tensors(
                at("save", "step-000001", "optimizer.safetensors"),
                {"w.muon_b": values, "e.adam_m": [0.1, -2.0], "e.adam_v": [3.0, 4.0]})
            found = gpu_compare.read_gradients(at("save"))
            self.assertEqual(set(found), {"w", "e"})
            self.assertEqual(list(found["e"]), list(array.array("f", [0.1, -2.0])))
            self.assertLess(max(abs(a - b) / b for a, b in zip(found["w"], values)), 2**-8)
            gpu_prepare.perturbed(at("save", "step-000001", "optimizer.safetensors"), at("same"), 0)
            self.assertEqual(harness.read_bytes(at("same")), harness.read_bytes(at("save", "step-000001", "optimizer.safetensors")))
            gpu_prepare.perturbed(at("same"), at("other"), 1)
            other = harness.read_safetensors(at("other"))
            self.assertEqual(other["w.muon_b"], harness.read_safetensors(at("same"))["w.muon_b"])
            self.assertNotEqual(list(other["e.adam_m"]), list(found["e"]))
            self.assertLess(abs(other["e.adam_m"][1] + 2.0), 3e-6)
            os.makedirs(at("save", "step-000002"))
            self.assertIn("2 checkpoints, not one", self.refused(gpu_compare.read_gradients, at("save")))


class Planted(unittest.TestCase):
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
        with tempfile.TemporaryDirectory(prefix="nano-gpu-check-") as folder:
            at = lambda *names: os.path.join(folder, *names)  # noqa: E731
            for name in ("shards", "case"):
                os.makedirs(at(name))
            for shard, count, seed in (("t_0.bin", 30000, 1), ("v.bin", 3000, 3)):
                harness.write_shard(at("shards", shard), harness.tokens(count, seed))
            case = gpu_prepare.CpuCase(folder, "gpt124m", self.SIZES)
            with unittest.mock.patch("gpu_prepare.RUNS", 3):
                expected = gpu_prepare.prepare_bf16(case, at("case"))
            trained, wanted = (harness.read_safetensors(at("case", name + ".safetensors"))
                               for name in ("trained", "gradients"))
            plan = case.path("bf16.plan")
            gpu_prepare.perturbed(at("case", "initial.safetensors"), case.path("other"), 77)
            train, val, parameters = case.train(plan, case.path("other"))
            gpu_compare.compare_with_noise(expected, (train, val), harness.read_safetensors(parameters), trained)
            gpu_prepare.perturbed(case.path("narrow"), case.path("other"), 77)
            gpu_compare.compare_gradients(expected["gradient_noise"], case.gradients(plan, case.path("other")), wanted)
            text = harness.read_bytes(os.path.join(ROOT, "models", "gpt124m.cpp")).decode()
            for what, (right, wrong) in self.ERRORS.items():
                self.assertEqual(text.count(right), 1, what)
                with open(case.path("model.cpp"), "w", encoding="utf-8") as file:
                    file.write(text.replace(right, wrong))
                gpu_prepare.compile_plan(case.path("model.cpp"), plan, self.SIZES, "--target", "cpu")
                with self.assertRaises(gpu_figures.Failed, msg=what) as caught:
                    gpu_compare.compare_gradients(
                        expected["gradient_noise"], case.gradients(plan, case.path("other")), wanted)
                self.assertIn("of its tolerance", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
