"""Every failure point: the n-th call of a kind fails, for n = 1, 2, … until a run makes no n-th."""

import concurrent.futures
import os
import shutil

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
    """`setup` has a plan for all calls but malloc, `tiny` that for malloc, of which a save makes
    thousands. `jobs` runs go on side by side."""

    def __init__(self, setup, tiny, library, most, jobs, say):
        self.setup, self.tiny, self.library = setup, tiny, library
        self.most, self.jobs, self.say = most, jobs, say
        self.wanted, self.counts = {}, {}  # counts: {(call, where): [tried, passed over, wrong]}

    def setup_of(self, call):
        return self.tiny if call == "malloc" else self.setup

    def reference(self, call, kind):
        setup = self.setup_of(call)
        if (setup, kind) not in self.wanted:
            run = Run(setup, kind, setup.fresh("reference"), STEPS, EVERY)
            run.must_succeed()
            self.wanted[setup, kind] = result_of(run)
        return self.wanted[setup, kind]

    def run(self, calls, keep):
        for call in calls:
            for kind, rank in WHERE:
                self.reference(call, kind)
                for error in ERRORS[call]:
                    self.series(call, error, kind, rank, keep)
                tried = self.counts[call, kind, rank][0]
                self.say(f"{call}, rank {rank} of {kind}: {tried} points")
            done = [sum(column) for column in zip(*(self.counts[call, *each] for each in WHERE))]
            self.say(f"{call}: {done[0]} points, {done[2]} wrong")

    def series(self, call, error, kind, rank, keep):
        counts = self.counts.setdefault((call, kind, rank), [0, 0, 0])

        def attack(number):
            folder = self.setup_of(call).fresh(f"failing-{number}")
            fail = f"{call}:{number}{'+' if error[0] == '+' else ''}:{error.removeprefix('+')}"
            passed = [0, 0]
            try:
                found = self.fails(fail, kind, rank, folder, passed)
            except Wrong as wrong:
                return folder, passed, f"NANO_FAIL={fail} in rank {rank} of {kind}: {wrong}"
            shutil.rmtree(folder)
            return None, passed, "" if found else None

        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for begin in range(1, self.most + 1, self.jobs):
                numbers = range(begin, min(begin + self.jobs, self.most + 1))
                for folder, passed, wrong in pool.map(attack, numbers):
                    if wrong is None:  # none later does it so often
                        return
                    counts[0] += 1
                    counts[1] += passed[1]
                    if wrong:
                        counts[2] += 1
                        keep(folder, wrong)

    def fails(self, fail, kind, rank, folder, counts):
        """One attack; false where the run does not make the call so often."""
        report, call = os.path.join(folder, "failed"), fail.partition(":")[0]
        variables = {"LD_PRELOAD": self.library, "NANO_FAIL": fail, "NANO_FAIL_REPORT": report}
        if call == "malloc":
            variables["NANO_FAIL_FROM"] = SECOND_SAVE
        run = Run(self.setup_of(call), kind, folder, STEPS, EVERY, {rank: variables})
        statuses = run.wait()
        if not os.path.exists(report):
            run.must_succeed()
            check_end(run, self.reference(call, kind))
            return False
        with open(report, encoding="utf-8") as file:
            what = file.read().strip()
        try:
            self.check(call, run, kind, rank, statuses, counts)
        except Wrong as wrong:
            raise Wrong(f"{what}: {wrong}") from None
        return True

    def check(self, call, run, kind, rank, statuses, counts):
        run.check_saves()
        if any(statuses):
            for each, status in enumerate(statuses):
                # A rank ends well beside one that fails where all of its work is done: the run's
                # last line in the log is rank 0's alone, and it may lack memory to answer one
                # that still waits for it.
                if status == 0:
                    if f"step-{STEPS:06}" not in published(run.saves):
                        raise Wrong(f"rank {each} ended well, and the end is not saved")
                    compare(result_of(run), self.reference(call, kind))
                else:
                    run.check_failure(each, (1, 2))
            again = Run(self.setup_of(call), kind, run.folder, STEPS, EVERY)
            again.must_succeed()
            check_end(again, self.reference(call, kind))
        else:
            if call in NEEDED:
                raise Wrong("ended well all the same")
            counts[1] += 1
            errors = "".join(run.errors(each) for each in range(len(statuses)))
            if errors:
                raise Wrong(f"ended well, with a word: {errors.strip()}")
            check_end(run, self.reference(call, kind))

    def rows(self):
        return [
            (f"`{call}` fails, rank {rank} of {kind}", tried, f"{passed} without effect", wrong)
            for (call, kind, rank), (tried, passed, wrong) in self.counts.items()
        ]
