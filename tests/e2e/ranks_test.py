#!/usr/bin/env python3
"""The update does not depend on the number of ranks, whatever strategy shares the work: 1, 2, 4 and
8 ranks walk over the sequences of a global batch in different ways, from eight micro-batches on
one to one on each. Sums of gradients are then taken in another order, so runs agree within
rounding; the same number of ranks repeats to the bit."""

from harness import GPT124M, TINY, RunTest, main, overrides, read_bytes, train_losses, val_losses

# Eight sequences a step.
SIZES = {**TINY, "dtype": "f32", "global_batch": 1024}
# At 6 layers every connection is there but the layer without attention. Four sequences a step.
PARTS = {**GPT124M, "num_layers": 6, "global_batch": 1024}
STEPS = 10


class Ranks(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()

    def compare(self, name, plan, worlds, *options):
        """Runs the plan twice on each number of ranks; compares the repeats, and the others with
        one rank."""
        options += ("--steps", STEPS, "--val", self.path("v.bin"), "--val-tokens", 1280)
        runs = {}
        for ranks in worlds:
            log, found = self.train(plan, f"{name}{ranks}", "--gpus", ranks, *options)
            again, repeated = self.train(plan, f"{name}-again{ranks}", "--gpus", ranks, *options)
            what = f"{name}, {ranks} ranks"
            self.assertEqual(log[0]["world"], ranks)
            self.assertEqual(train_losses(log), train_losses(again), what)
            self.assertEqual(val_losses(log), val_losses(again), what)
            self.assertEqual(read_bytes(found), read_bytes(repeated), what)
            runs[ranks] = (log, found)
        one, wanted = runs[1]
        self.assertEqual(len(train_losses(one)), STEPS)
        self.assertLess(train_losses(one)[-1], train_losses(one)[0])
        for ranks in worlds[1:]:
            log, found = runs[ranks]
            what = f"{name}, {ranks} ranks"
            self.assert_near(train_losses(log), train_losses(one), 1e-4, f"{what}, step")
            self.assert_near(val_losses(log), val_losses(one), 1e-4, f"{what}, validation")
            self.assert_parameters_near(found, wanted, 5e-3)
        return runs

    def test_strategies(self):
        """Both strategies compute the same, on one rank to the bit."""
        ones = []
        for dist in ("allreduce", "zero2"):
            sizes = {**SIZES, "dist": dist}
            plan = self.compile("gpt_tiny", sizes, f"{dist}.plan", "--world", "1,2,4,8")
            log, found = self.compare(dist, plan, (1, 2, 4, 8))[1]
            ones.append((train_losses(log), val_losses(log), read_bytes(found)))
        self.assertEqual(ones[0], ones[1])

    def test_adam_on_every_second_step(self):
        """Gradients of Adam's parameters are kept over two steps, of which the second communicates
        them."""
        sizes = {**SIZES, "dist": "zero2", "adam_every": 2}
        plan = self.compile("gpt_tiny", sizes, "every.plan", "--world", "1,2,8")
        self.compare("every", plan, (1, 2, 8))

    def test_update_as_the_end_of_the_last_micro_batch(self):
        """One program instead of two: not a bit changes, with one micro-batch or several."""
        sizes = {**SIZES, "dist": "zero2", "adam_every": 2}
        plans = {}
        for how in ("apart", "joined"):
            words = ({**sizes, "update": how}, f"{how}.plan", "--world", "1,4,8")
            plans[how] = self.compile("gpt_tiny", *words)
        for ranks in (1, 4, 8):
            options = ("--gpus", ranks, "--steps", 4)
            apart, joined = (
                self.train(plan, f"{how}{ranks}", *options) for how, plan in plans.items()
            )
            self.assertEqual(train_losses(joined[0]), train_losses(apart[0]), f"{ranks} ranks")
            self.assertEqual(read_bytes(joined[1]), read_bytes(apart[1]), f"{ranks} ranks")

    def test_no_schedule_changes_a_bit(self):
        """Ordered for GPUs, with copies on a stream of their own, or for CPU ranks, without."""
        sizes = {**SIZES, "dist": "zero2", "fp8": "all"}
        plans = {}
        for machine in ("cpu", "h200-nvlink"):
            plans[machine] = self.compile(
                "gpt_tiny", sizes, f"{machine}.plan", "--world", "1,4,8", "--machine", machine
            )
        for ranks in (1, 4, 8):
            options = ("--gpus", ranks, "--steps", 4)
            for machine, plan in plans.items():
                described = self.ran("nanorun", plan, "--describe", "--gpus", ranks)
                update = described.split("\nprogram update: ")[1].split("\nprogram ")[0]
                self.assertEqual("  @2 copy " in update, machine != "cpu", f"{machine}, {ranks}")
            one, other = (
                self.train(plan, f"{machine}{ranks}", *options) for machine, plan in plans.items()
            )
            self.assertEqual(train_losses(one[0]), train_losses(other[0]), f"{ranks} ranks")
            self.assertEqual(read_bytes(one[1]), read_bytes(other[1]), f"{ranks} ranks")

    def test_all_parts_of_the_model(self):
        """Value embeddings and skips too: gpt124m, from parameters that are nowhere zero."""
        initial = self.path("initial.safetensors")
        words = (*overrides(PARTS), "--random-init", initial, "--seed", 5)
        self.ran("nano-reference", "gpt124m", *words)
        for dist in ("allreduce", "zero2"):
            sizes = {**PARTS, "dist": dist}
            plan = self.compile("gpt124m", sizes, f"parts-{dist}.plan", "--world", "1,2,4")
            self.compare(f"parts-{dist}", plan, (1, 2, 4), "--init", initial)

    def test_a_plan_for_more_ranks_computes_the_same_on_one(self):
        """A plan's variant for one rank has no trace of the others: not a bit changes."""
        alone = self.compile("gpt124m", PARTS, "alone.plan")
        shared = self.compile("gpt124m", PARTS, "shared.plan", "--world", "1,2,4")
        log, found = self.train(shared, "shared", "--steps", 3)
        one, wanted = self.train(alone, "alone", "--steps", 3)
        self.assertEqual(train_losses(log), train_losses(one))
        self.assertEqual(read_bytes(found), read_bytes(wanted))


if __name__ == "__main__":
    main()
