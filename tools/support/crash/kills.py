"""Kills at random moments: what was published stays, and going on gives the reference to the bit."""

import os
import time

from crash.runs import (
    ALONE,
    KINDS,
    PROCESSES,
    THREADS,
    Run,
    Wrong,
    check_end,
    published,
    unfinished,
)

STEPS = 12
MOST = 8  # kills of one run before it may end


class Kills:
    """All kills of a campaign. Runs of all kinds take turns, and every second kill is aimed at a
    save; which rank and which moment `chance` says."""

    NAMES = (ALONE, THREADS, PROCESSES + ", all", PROCESSES + ", one")

    def __init__(self, setup, chance, say):
        self.setup, self.chance, self.say = setup, chance, say
        self.done = dict.fromkeys(self.NAMES, 0)
        self.cut = dict.fromkeys(self.NAMES, 0)  # kills that a save did not survive
        self.reached = dict.fromkeys(self.NAMES, 0)  # runs that came to their end and were compared
        self.wrong = dict.fromkeys(self.NAMES, 0)
        self.wanted, self.seconds = {}, {}

    def reference(self, kind, result_of):
        run = Run(self.setup, kind, self.setup.fresh("reference"), STEPS, 1)
        run.must_succeed()
        self.seconds[kind] = time.monotonic() - run.began
        self.wanted[kind] = result_of(run)

    def run(self, count, keep):
        """Kills `count` times; `keep` takes the folder of an attack that went wrong, and why."""
        turn = 0
        while sum(self.done.values()) < count:
            name = self.NAMES[turn % len(self.NAMES)]
            turn += 1
            folder = self.setup.fresh("killed")
            try:
                self.story(name, folder, count)
            except Wrong as wrong:
                self.wrong[name] += 1
                keep(folder, f"kill {sum(self.done.values())} ({name}): {wrong}")

    def story(self, name, folder, count):
        """One run from its start to its end, with kills on the way."""
        kind = next(kind for kind in KINDS if name.startswith(kind))
        for attempt in range(MOST + 1):
            isLast = attempt == MOST or sum(self.done.values()) >= count
            run = Run(self.setup, kind, folder, STEPS, 1)
            try:
                if isLast or not self.killed(name, run):
                    run.must_succeed()
                    check_end(run, self.wanted[kind])
                    self.reached[name] += 1
                    return
            finally:
                run.kill(range(len(run.ranks)))

    def killed(self, name, run):
        """Kills the run; false where it came to its end first."""
        victims = range(len(run.ranks))
        if name.endswith("one"):
            victims = (self.chance.randrange(len(run.ranks)),)
        self.pause(run, unfinished(run.saves))
        before = published(run.saves)
        if not run.kill(victims):
            return False
        run.ranks[victims[0]].wait()
        others = [rank for rank in range(len(run.ranks)) if rank not in victims]
        statuses = run.wait()
        if all(status == 0 for status in statuses):
            return False
        for rank in victims:
            # It may have come to its end between the look and the signal.
            if statuses[rank] not in (-9, 0) or run.errors(rank):
                raise Wrong(
                    f"a killed rank ended with {statuses[rank]}: {run.errors(rank).strip()}"
                )
        for rank in others:
            if statuses[rank] != 0:
                run.check_failure(rank)
        if not before <= published(run.saves):
            raise Wrong(f"lost {', '.join(sorted(before - published(run.saves)))}")
        run.check_saves()
        self.done[name] += 1
        self.cut[name] += bool(unfinished(run.saves))
        if sum(self.done.values()) % 100 == 0:
            self.say(f"{sum(self.done.values())} kills")
        return True

    def pause(self, run, known):
        """Until the moment of the kill: some time, or some time after a save has begun."""
        share = self.chance.random()
        if self.chance.randrange(2):
            deadline = run.began + share * self.seconds[run.kind]
            while run.is_live() and time.monotonic() < deadline:
                time.sleep(max(0, min(0.01, deadline - time.monotonic())))
            return
        saves = self.chance.randrange(4)  # these are let pass
        seen = published(run.saves)
        while run.is_live():
            if unfinished(run.saves) - known and len(published(run.saves) - seen) >= saves:
                time.sleep(0.01 * share)
                return
            time.sleep(0.0005)

    def rows(self):
        return [
            (
                f"`kill -9`, {name}",
                self.done[name],
                f"{self.cut[name]} cut a save",
                self.wrong[name],
            )
            for name in self.NAMES
        ]
