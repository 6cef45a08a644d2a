"""Every failure point: the n-th call of a kind fails, for n = 1, 2, … until a run makes no n-th."""

import os

from crash.runs import ALONE, PROCESSES, Run, Wrong, check_end, compare, published, result_of

STEPS = 4
EVERY = 2
# What fails how. Those with + fail from then on, as on a disk that stays full.
ERRORS = {
    "write": ("ENOSPC", "EIO", "+ENOSPC"),
    "pwrite": ("ENOSPC",),
    "fsync": ("EIO", "+EIO"),
    "rename": ("EIO", "ENOSPC"),
    "open": ("ENOSPC", "+EIO"),
    "close": ("EIO",),
    "ftruncate": ("EIO",),
    "mkdir": ("ENOSPC",),
    "malloc": ("ENOMEM", "+ENOMEM"),
}
# What a run cannot do without: it may not end well where one of these failed.
NEEDED = ("write", "fsync", "rename", "mkdir")
# Allocations are counted from the second save on, the others from the start of the program.
SECOND_SAVE = "2:/.step-"
WHERE = ((ALONE, 0), (PROCESSES, 0), (PROCESSES, 1))


class Points:
    def __init__(self, setup, library, most, say):
        self.setup, self.library, self.most, self.say = setup, library, most, say
        self.wanted, self.counts = {}, {}  # counts: {(call, where): [tried, passed over, wrong]}

    def reference(self, kind):
        run = Run(self.setup, kind, self.setup.fresh("reference"), STEPS, EVERY)
        run.must_succeed()
        self.wanted[kind] = result_of(run)

    def run(self, calls, keep):
        for call in calls:
            for kind, rank in WHERE:
                for error in ERRORS[call]:
                    self.series(call, error, kind, rank, keep)
                tried = self.counts[call, kind, rank][0]
                self.say(f"{call}, rank {rank} of {kind}: {tried} points")
            done = [sum(column) for column in zip(*(self.counts[call, *each] for each in WHERE))]
            self.say(f"{call}: {done[0]} points, {done[2]} wrong")

    def series(self, call, error, kind, rank, keep):
        counts = self.counts.setdefault((call, kind, rank), [0, 0, 0])
        for number in range(1, self.most + 1):
            folder = self.setup.fresh("failing")
            fail = f"{call}:{number}{'+' if error[0] == '+' else ''}:{error.removeprefix('+')}"
            try:
                if not self.fails(fail, kind, rank, folder, counts):
                    return
            except Wrong as wrong:
                counts[2] += 1
                keep(folder, f"NANO_FAIL={fail} in rank {rank} of {kind}: {wrong}")
            counts[0] += 1

    def fails(self, fail, kind, rank, folder, counts):
        """One attack; false where the run does not make the call so often."""
        report = os.path.join(folder, "failed")
        variables = {"LD_PRELOAD": self.library, "NANO_FAIL": fail, "NANO_FAIL_REPORT": report}
        if fail.startswith("malloc"):
            variables["NANO_FAIL_FROM"] = SECOND_SAVE
        run = Run(self.setup, kind, folder, STEPS, EVERY, {rank: variables})
        statuses = run.wait()
        if not os.path.exists(report):
            run.must_succeed()
            check_end(run, self.wanted[kind])
            return False
        with open(report, encoding="utf-8") as file:
            what = file.read().strip()
        try:
            self.check(fail.partition(":")[0], run, kind, rank, statuses, counts)
        except Wrong as wrong:
            raise Wrong(f"{what}: {wrong}") from None
        return True

    def check(self, call, run, kind, rank, statuses, counts):
        run.check_saves()
        if any(statuses):
            for each, status in enumerate(statuses):
                # A rank ends well beside one that fails where all of its work is done: the run's
                # last line in the log is rank 0's alone.
                if status == 0 and each != rank:
                    if f"step-{STEPS:06}" not in published(run.saves):
                        raise Wrong(f"rank {each} ended well, and the end is not saved")
                    compare(result_of(run), self.wanted[kind])
                else:
                    run.check_failure(each, (1, 2))
            again = Run(self.setup, kind, run.folder, STEPS, EVERY)
            again.must_succeed()
            check_end(again, self.wanted[kind])
        else:
            if call in NEEDED:
                raise Wrong("ended well all the same")
            counts[1] += 1
            errors = "".join(run.errors(each) for each in range(len(statuses)))
            if errors:
                raise Wrong(f"ended well, with a word: {errors.strip()}")
            check_end(run, self.wanted[kind])

    def rows(self):
        return [
            (f"`{call}` fails, rank {rank} of {kind}", tried, f"{passed} without effect", wrong)
            for (call, kind, rank), (tried, passed, wrong) in self.counts.items()
        ]
