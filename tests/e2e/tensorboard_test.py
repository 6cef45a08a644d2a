#!/usr/bin/env python3
"""The real tensorboard reads from nanorun's event files what the log says; it must be installed."""

import os

from harness import main
from reports_test import ReportsTest, reports
from tensorboard.backend.event_processing import event_accumulator


class TensorBoard(ReportsTest):
    def test_tensorboard(self):
        """The real tensorboard reads what the log says, also of a run that was resumed."""
        board, saved = self.path("board"), self.path("board-saved")
        options = ("--tensorboard", board, "--save", saved, "--val", self.path("v.bin"))
        first, _ = self.train(self.plan, "board1", "--steps", 3, *options)
        second, _ = self.train(self.plan, "board2", "--steps", 5, "--resume", saved, *options)
        self.assertEqual(len(os.listdir(board)), 2)
        reader = event_accumulator.EventAccumulator(board, size_guidance={"histograms": 0})
        reader.Reload()
        log = first + second
        scalars = {"train/loss": "train_loss", "train/lr": "lr", "train/step_ms": "step_ms"}
        for tag, key in scalars.items():
            wanted = [(entry["step"], entry[key]) for entry in log if key in entry]
            found = [(event.step, event.value) for event in reader.Scalars(tag)]
            self.assertEqual([step for step, _ in found], [1, 2, 3, 4, 5])
            for (_, a), (_, b) in zip(found, wanted):
                self.assertLessEqual(abs(a - b), 1e-7 * abs(b), tag)
        validations = [entry for entry in log if entry["event"] == "val"]
        self.assertEqual([event.step for event in reader.Scalars("val/loss")],
                         [entry["step"] for entry in validations])
        for step, values in reports(log):
            for name, value in values.items():
                if isinstance(value, dict):
                    event = next(e for e in reader.Histograms(name) if e.step == step)
                    proto = event.histogram_value
                    self.assertEqual(proto.bucket_limit[:-1], value["edges"])
                    self.assertEqual(proto.bucket, value["counts"])
                    self.assertEqual((proto.min, proto.max), (value["min"], value["max"]))
                else:
                    event = next(e for e in reader.Scalars(name) if e.step == step)
                    self.assertLessEqual(abs(event.value - value), 1e-7 * abs(value), name)


if __name__ == "__main__":
    main()
