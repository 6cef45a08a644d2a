#!/usr/bin/env python3
"""The update does not depend on the number of ranks: 1, 2 and 4 ranks share the sequences of a
global batch in different ways, from four micro-batches to one on each. Sums of gradients are then
taken in another order, so runs agree within rounding; the same number of ranks repeats to the
bit."""

from harness import GPT124M, RunTest, main, overrides, read_bytes, train_losses, val_losses

# Four sequences a step. At 6 layers every connection is there but the layer without attention.
SIZES = {**GPT124M, "num_layers": 6, "global_batch": 1024}
STEPS = 10


class Ranks(RunTest):
    def test_ranks(self):
        self.make_shards()
        initial = self.path("initial.safetensors")
        words = overrides(SIZES)
        self.ran("nano-reference", "gpt124m", *words, "--random-init", initial, "--seed", 5)
        plan = self.compile("gpt124m", SIZES, "m.plan", "--world", "1,2,4")
        options = ("--init", initial, "--steps", STEPS, "--val", self.path("v.bin"))
        options += ("--val-tokens", 1280)

        runs = {}
        for ranks in (1, 2, 4):
            log, parameters = self.train(plan, f"r{ranks}", "--gpus", ranks, *options)
            again, repeated = self.train(plan, f"again{ranks}", "--gpus", ranks, *options)
            self.assertEqual(log[0]["world"], ranks)
            self.assertEqual(train_losses(log), train_losses(again), f"{ranks} ranks")
            self.assertEqual(val_losses(log), val_losses(again), f"{ranks} ranks")
            self.assertEqual(read_bytes(parameters), read_bytes(repeated), f"{ranks} ranks")
            runs[ranks] = (log, parameters)

        one, wanted = runs[1]
        self.assertEqual(len(train_losses(one)), STEPS)
        for ranks in (2, 4):
            log, found = runs[ranks]
            self.assert_near(train_losses(log), train_losses(one), 1e-4, f"{ranks} ranks, step")
            self.assert_near(val_losses(log), val_losses(one), 1e-4, f"{ranks} ranks, validation")
            self.assert_parameters_near(found, wanted, 5e-3)

    def test_a_plan_for_more_ranks_computes_the_same_on_one(self):
        """`--world` adds collectives, which one rank passes through: not a bit changes."""
        self.make_shards()
        alone = self.compile("gpt124m", SIZES, "alone.plan")
        shared = self.compile("gpt124m", SIZES, "shared.plan", "--world", "1,2,4")
        log, found = self.train(shared, "shared", "--steps", 3)
        one, wanted = self.train(alone, "alone", "--steps", 3)
        self.assertEqual(train_losses(log), train_losses(one))
        self.assertEqual(read_bytes(found), read_bytes(wanted))


if __name__ == "__main__":
    main()
