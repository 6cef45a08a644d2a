#!/usr/bin/env python3
"""Candidates of a plan: attention's other tiles and symmetric products, measured by --tune on the
emulator, whose times say nothing of a GPU: what is tested is that all ways compute the same, that
one is chosen, kept and taken again, and by whom.

In bf16 a sum that is rounded may go one way or the other, 2⁻⁹ of it, as in emulator_test.py."""

import json
import os
import unittest.mock

from harness import TINY, RunTest, main, read_bytes, train_losses

LOSS = 5e-3
STEPS = 2


class Tune(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()

    def emulate(self, plan, name, *options):
        with unittest.mock.patch.dict(os.environ, {"NANO_EMULATOR": "fast", "NANO_EMULATOR_SEED": "1"}):
            return self.train(plan, name, "--device", "emulator", "--steps", STEPS, *options, threads=2)

    def choose(self, path, which):
        """The tuning file with the way of that number, -1 the last, chosen for every command."""
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
        (machine,) = kept["kernels"].values()
        for ways, choice in machine.items():
            choice["chosen"] = ways.split(" | ")[which]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(kept, file)
        return machine

    def test_candidates(self):
        # Heads of 64 and bf16, so that attention and Muon have candidates.
        sizes = {
            **TINY,
            "model_dim": 64,
            "num_heads": 1,
            "head_dim": 64,
            "seq_len": 128,
            "val_seq_len": 128,
            "global_batch": 128,
            "dtype": "bf16",
        }
        plain = self.compile("gpt_tiny", sizes, "plain.plan", "--target", "cuda")
        plan = self.compile("gpt_tiny", sizes, "tuned.plan", "--target", "cuda", "--candidates")
        wanted, parameters = self.emulate(plain, "plain")
        # Without --tune, and while it measures, the rule's ways are taken: the same bits.
        _, untuned = self.emulate(plan, "untuned")
        self.assertEqual(read_bytes(untuned), read_bytes(parameters))
        self.assertFalse(os.path.exists(f"{plan}.tune.json"))
        self.emulate(plan, "tuned", "--tune")
        machine = self.choose(f"{plan}.tune.json", -1)
        ways = {name for key in machine for name in key.split(" | ")}
        for stem in ("attention_", "attention_grad_", "symmetric_", "library "):
            self.assertTrue(any(name.startswith(stem) for name in ways), f"{stem} in {ways}")
        for choice in machine.values():
            self.assertGreaterEqual(len(choice["us"]), 2)
            self.assertTrue(all(us > 0 for us in choice["us"].values()))
        # Every command goes its last way: the same losses.
        log, others = self.emulate(plan, "others")
        self.assert_near(train_losses(log), train_losses(wanted), LOSS, "candidates")
        self.assertNotEqual(read_bytes(others), read_bytes(parameters))
        _, again = self.emulate(plan, "again")
        self.assertEqual(read_bytes(again), read_bytes(others))
        # Another machine's file is left alone, and named.
        with open(f"{plan}.tune.json", encoding="utf-8") as file:
            kept = json.load(file)
        kept["kernels"] = {"another GPU": machine}
        with open(f"{plan}.tune.json", "w", encoding="utf-8") as file:
            json.dump(kept, file)
        _, elsewhere = self.emulate(plan, "elsewhere")
        self.assertEqual(read_bytes(elsewhere), read_bytes(parameters))


if __name__ == "__main__":
    main()
