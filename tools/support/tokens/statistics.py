"""Lengths of documents, said in a line; and how far along a long job is."""

import sys
import time


def lengths_line(lengths, row=None):
    """ "documents of 3 to 199 tokens, median 41, mean 57.2", and how much of them lies beyond `row`
    tokens of its document."""
    if not len(lengths):
        return "no documents"
    ordered = sorted(lengths)
    total = sum(ordered)
    line = (
        f"documents of {ordered[0]} to {ordered[-1]} tokens, median {ordered[len(ordered) // 2]}, "
        f"mean {total / len(ordered):.1f}"
    )
    if row is not None:
        beyond = [length - row for length in ordered if length > row]
        line += (
            f"; {len(beyond)} are longer than {row}, and {100 * sum(beyond) / total:.2f}% of the "
            f"tokens lie beyond"
        )
    return line


class Progress:
    """A line on standard error that says how much is done, ten times a second at most."""

    def __init__(self, total, shown):
        self.total, self.shown = total, shown
        self.done, self.begin, self.last = 0, time.monotonic(), 0.0

    def add(self, count):
        self.done += count
        now = time.monotonic()
        if not self.shown or (now - self.last < 0.1 and self.done < self.total):
            return
        self.last = now
        share = self.done / max(1, self.total)
        left = (now - self.begin) * (1 - share) / max(share, 1e-9)
        bar = "#" * int(20 * share)
        print(
            f"\r[{bar:<20}] {100 * share:3.0f}%  {self.done} of {self.total} documents, "
            f"{left:.0f} s left ",
            end="" if self.done < self.total else "\n",
            file=sys.stderr,
            flush=True,
        )
