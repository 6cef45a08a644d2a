#!/usr/bin/env python3
"""Draws the losses of a run's --log file as a curve of characters.

usage: loss_curve.py LOG.jsonl [--width COLUMNS] [--height LINES]     exit status 2 when the log
holds no step"""

import argparse
import json
import math
import sys


def load(path):
    """([(step, train loss)], [(step, validation loss)]), without losses that are no numbers (NaN,
    infinity)."""
    train, val = [], []
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the last line of a run that was killed
            for event, key, points in (("step", "train_loss", train), ("val", "val_loss", val)):
                loss = entry.get(key) if entry.get("event") == event else None
                if isinstance(loss, (int, float)) and math.isfinite(loss):
                    points.append((entry["step"], loss))
    return train, val


def average_by_column(points, first, last, width):
    """The mean loss of the steps that fall into each column; None for a column without any."""
    sums = [[0.0, 0] for _ in range(width)]
    for step, loss in points:
        column = sums[round((step - first) / max(1, last - first) * (width - 1))]
        column[0] += loss
        column[1] += 1
    return [total / count if count else None for total, count in sums]


def draw(train, val, width, height):
    """The picture's lines: `·` the training loss, `V` the validation loss."""
    steps = [step for step, _ in train + val]
    first, last = min(steps), max(steps)
    rows = {
        "·": average_by_column(train, first, last, width),
        "V": average_by_column(val, first, last, width),
    }
    seen = [loss for row in rows.values() for loss in row if loss is not None]
    top, bottom = max(seen), min(seen)
    span = (top - bottom) or 1.0
    canvas = [[" "] * width for _ in range(height)]
    for mark, row in rows.items():
        for column, loss in enumerate(row):
            if loss is not None:
                canvas[round((top - loss) / span * (height - 1))][column] = mark
    lines = []
    for number, row in enumerate(canvas):
        label = (
            f"{top - span * number / max(1, height - 1):8.3f}"
            if number % 3 == 0 or number == height - 1
            else " " * 8
        )
        lines.append(f"{label} |{''.join(row)}".rstrip())
    lines.append(" " * 9 + "+" + "-" * width)
    lines.append(" " * 10 + f"step {first}" + f"step {last}".rjust(width - len(f"step {first}")))
    return lines


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log")
    parser.add_argument("--width", type=int, default=70)
    parser.add_argument("--height", type=int, default=16)
    arguments = parser.parse_args()
    try:
        train, val = load(arguments.log)
    except OSError as error:
        print(f"loss_curve: {arguments.log}: {error.strerror}", file=sys.stderr)
        return 2
    if not train:
        print(f"loss_curve: {arguments.log}: holds no step with a loss", file=sys.stderr)
        return 2
    print("Loss per token (· training, V validation)")
    print("\n".join(draw(train, val, max(30, arguments.width), max(4, arguments.height))))
    closing = f"training {train[0][1]:.3f} at step {train[0][0]}, {train[-1][1]:.3f} at step {train[-1][0]}"
    print(closing + (f"; validation {val[-1][1]:.3f} at step {val[-1][0]}" if val else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
