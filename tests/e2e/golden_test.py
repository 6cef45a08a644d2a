#!/usr/bin/env python3
"""The losses of a short seeded run of gpt_tiny in f32, against tests/golden/gpt_tiny/losses.txt,
which `tools/update-goldens` writes (it calls this file with --update).

On the processor that wrote the file the run repeats to the bit; processors with other vectors sum
in another order, hence the tolerance. A change of this size in a loss is a change of the model, the
optimizers, the initial values or the order of the data."""

import os
import sys

from harness import ROOT, TINY, RunTest, main, train_losses, val_losses

STEPS = 12
TOLERANCE = 1e-4
PAGE = os.path.join(ROOT, "tests", "golden", "gpt_tiny", "losses.txt")


class Golden(RunTest):
    def page(self):
        """The page that this build would write: a line a step, and the validation at the end."""
        self.make_shards()
        plan = self.compile("gpt_tiny", TINY, "m.plan")
        options = ("--steps", STEPS, "--seed", 1, "--val", self.path("v.bin"), "--val-tokens", 1280)
        log, _ = self.train(plan, "run", *options)
        lines = [f"{step} {loss:.7f}" for step, loss in enumerate(train_losses(log), 1)]
        lines += [f"validation {loss:.7f}" for loss in val_losses(log)]
        sizes = " ".join(f"{name}={value}" for name, value in TINY.items())
        title = f"# models/gpt_tiny.cpp {sizes}: losses of its first steps"
        return "\n".join([title, *lines]) + "\n"

    def test_losses(self):
        with open(PAGE, encoding="utf-8") as file:
            wanted = file.read()
        found = self.page()
        self.assertEqual(found.split("\n")[0], wanted.split("\n")[0])
        numbers = [
            [line.split() for line in page.strip().split("\n")[1:]] for page in (found, wanted)
        ]
        self.assertEqual(*[[name for name, _ in page] for page in numbers])
        self.assertEqual(len(numbers[0]), STEPS + 1)
        losses = [[float(loss) for _, loss in page] for page in numbers]
        self.assert_near(*losses, TOLERANCE, "line")


def update():
    """Writes the page."""
    Golden.setUpClass()
    text = Golden("test_losses").page()
    Golden.doClassCleanups()
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        main()
