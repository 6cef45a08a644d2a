"""Runs that are killed when a certain step is saved."""

import os
import signal
import subprocess
import time

from harness import BIN, LIMIT, ROOT

TRIES = 30


def saved_steps(folder):
    """The steps of the checkpoints that are whole."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [int(name[5:]) for name in names if name.startswith("step-")]


def kill_at(step, folder, plan, *options):
    """Runs a plan that saves after every step, and kills it (SIGKILL) when `step` is saved and the
    next one is not. Tries again where that was missed; returns the checkpoints' folder, of `folder`
    and the try's number."""
    for turn in range(TRIES):
        saves = f"{folder}-{turn}"
        words = [os.path.join(BIN, "nanorun"), plan, "--save", saves, "--save-every", "1"]
        with subprocess.Popen(
            [*words, *map(str, options)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            deadline = time.monotonic() + LIMIT
            while process.poll() is None and max(saved_steps(saves), default=0) < step:
                if time.monotonic() > deadline:
                    break
                time.sleep(0.0002)
            process.send_signal(signal.SIGKILL)
            _, errors = process.communicate()
        last = max(saved_steps(saves), default=0)
        if process.returncode == -signal.SIGKILL and last == step:
            return saves
        if last < step or process.returncode not in (0, -signal.SIGKILL):
            raise AssertionError(f"{words}: step {last}, status {process.returncode}: {errors!r}")
    raise AssertionError(f"no kill of {TRIES} came between step {step} and the next")
