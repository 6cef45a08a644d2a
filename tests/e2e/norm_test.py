#!/usr/bin/env python3
"""The part of a norm's gradient that lies along its rows, in f32 against double precision.

y = norm(s·x) hardly depends on s: of rows x with a mean square of 1 the gradient of s is the sum of
r·(g·x)·ε/(s² + ε), with g that of y and r = rsqrt(s² + ε); all else of g·x cancels. What a rounding
leaves of it by chance goes away in the sum over rows; what all rows' roundings have in common does
not, and is many times ε where r³ stands for a number that r was rounded from."""

import math
import os
import unittest

from harness import RunTest, main, read_safetensors, run_command, write_shard

ROWS = 8192
EPSILON = 2.0**-23
MODEL = """#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {{
  const auto group = adam("all", {{.lr = 0.1, .beta1 = 0.5}});
  const Tensor rows = param("rows", {{{count}, {width}}}, f32, normal(0, 1), group);
  const Tensor other = param("other", {{{count}, {width}}}, f32, normal(0, 1), group);
  const Tensor scale = param("scale", {{1}}, f32, constant({scale}), group);
  auto loss = [&](Tensor tokens, Tensor) {{
    const Tensor row = rows[tokens];
    return reshape(sum(norm(norm(row) * scale) * (row + other[tokens]), -1), {{{count}}});
  }};
  training({{.vocabSize = {count}, .eosToken = 0, .globalBatch = {count}, .numIterations = 1}});
  train({count}, Loss::sum, loss);
  validate({count}, Loss::mean, loss);
}}
"""


def gradient(rows, other, width, scale):
    """Of the scale, in double precision, from the values of rows and other."""
    total = 0.0
    for at in range(0, len(rows), width):
        row, beside = rows[at : at + width], other[at : at + width]
        square = math.fsum(value * value for value in row)
        product = square + math.fsum(a * b for a, b in zip(row, beside))
        inner = 1 / math.sqrt(square / width + EPSILON)
        mean = scale * scale * square / width * inner * inner + EPSILON
        total += product * inner / math.sqrt(mean) * EPSILON / mean
    return total


class Norm(RunTest):
    def found(self, width, scale):
        """(the gradient that a run finds, the exact one from the same parameters)."""
        name = f"{width}x{scale}"
        source, plan = self.path(name + ".cpp"), self.path(name + ".plan")
        with open(source, "w", encoding="utf-8") as file:
            file.write(MODEL.format(count=ROWS, width=width, scale=scale))
        done = run_command("nanoc", "compile", source, "-o", plan, "--target", "cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        write_shard(self.path("t_0.bin"), [*range(ROWS), 0, 0])
        _, start = self.train(plan, name + "-start", "--steps", 0)
        self.train(plan, name, "--steps", 1, "--save", self.path(name))
        state = os.path.join(self.path(name), "step-000001", "optimizer.safetensors")
        start = read_safetensors(start)
        # Adam's first moment after one step is (1 − β₁)·gradient.
        found = read_safetensors(state)["scale.adam_m"][0] / 0.5
        return found, gradient(start["rows"], start["other"], width, scale)

    def test_along_rows(self):
        """The sign is right, and the size nearly. With y³ in place of y/x in rsqrt's derivative the
        gradient is 14 times too large, of either sign."""
        for width in (64, 192):
            for scale in (1, 4, 7):
                with self.subTest(width=width, scale=scale):
                    found, wanted = self.found(width, scale)
                    self.assertLess(abs(found - wanted), abs(wanted))


if __name__ == "__main__":
    main()
