"""The runs that tools/crash attacks: how they are started, and what is compared afterwards."""

import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
)
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import harness
from processes import free_port

LIMIT = 120  # seconds that a run may take on a machine that does other things too
# gpt_tiny with all kinds of parameters, optimizers and shards, as small as its rules allow.
SIZES = {
    "num_layers": 6,
    "model_dim": 16,
    "num_heads": 1,
    "head_dim": 16,
    "seq_len": 128,
    "val_seq_len": 128,
    "global_batch": 256,
    "num_iterations": 40,
    "dist": "zero2",
}
# One table with moments: a save of it makes a few hundred allocations, each of which is failed.
TINY = """#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const int64_t T = 128;
  const auto group = adam("all", {.lr = 0.01});
  const Tensor rows = param("rows", {257, 8}, f32, normal(0, 1), group);
  auto loss = [&](Tensor tokens, Tensor targets) {
    const Tensor d = rows[tokens] - rows[targets];
    return reshape(sum(d * d, -1), {T});
  };
  training({.vocabSize = 257, .eosToken = 256, .globalBatch = 2 * T, .numIterations = 40});
  train(T, Loss::mean, loss);
  validate(T, Loss::mean, loss);
}
"""
ALONE = "1 rank, 2 threads"
THREADS = "2 ranks, threads"
PROCESSES = "2 ranks, processes"
KINDS = (ALONE, THREADS, PROCESSES)


class Wrong(Exception):
    """What an attack did that it must not be able to do, in a line."""


class Setup:
    """A plan and shards in a folder, made once; of gpt_tiny, or of the tiny model."""

    def __init__(self, folder, binaries, tiny=False):
        self.folder, self.binaries = folder, binaries
        self.plan = os.path.join(folder, "m.plan")
        for number, count in enumerate((6000, 9000)):
            shard = os.path.join(folder, f"t_{number}.bin")
            harness.write_shard(shard, harness.tokens(count, number + 1))
        model = "models/gpt_tiny.cpp"
        if tiny:
            model = os.path.join(folder, "tiny.cpp")
            with open(model, "w", encoding="utf-8") as file:
                file.write(TINY)
        words = [os.path.join(binaries, "nanoc"), "compile", model, "-o", self.plan]
        words += ["--target", "cpu", "--world", "1,2"]
        words += [] if tiny else harness.overrides(SIZES)
        try:
            done = subprocess.run(
                words, cwd=ROOT, capture_output=True, encoding="utf-8", errors="replace", timeout=300
            )
        except subprocess.TimeoutExpired:
            raise Wrong(f"nanoc does not end: no plan of {model} within 300 s") from None
        if done.returncode:
            # What nanoc says first, as compilers say more below.
            said = done.stderr.strip().splitlines() or ["it says nothing"]
            raise Wrong(
                f"nanoc ends with status {done.returncode} and no plan of {model}: {said[0]}"
            )

    def fresh(self, name):
        """An empty folder."""
        path = os.path.join(self.folder, name)
        shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path)
        return path


def published(saves):
    """The checkpoints that stand under their names."""
    names = os.listdir(saves) if os.path.isdir(saves) else []
    return {name for name in names if name.startswith("step-")}


def unfinished(saves):
    """What saves have begun to write and not published."""
    names = os.listdir(saves) if os.path.isdir(saves) else []
    return {name for name in names if name.startswith(".step-")}


class Run:
    """A run of `kind` that saves into folder/saves every `every` steps, and goes on from there where
    a checkpoint stands. `environments`: variables of single ranks, by number."""

    def __init__(self, setup, kind, folder, steps, every, environments=None):
        self.kind, self.folder, self.steps = kind, folder, steps
        self.saves = os.path.join(folder, "saves")
        self.parameters = os.path.join(folder, "parameters.safetensors")
        self.log = os.path.join(folder, "log.jsonl")
        words = [os.path.join(setup.binaries, "nanorun"), setup.plan]
        words += ["--train", os.path.join(setup.folder, "t_*.bin"), "--steps", str(steps)]
        words += ["--save", self.saves, "--save-every", str(every), "--log", self.log]
        words += ["--dump-params", self.parameters, "--rank-timeout", "20"]
        if published(self.saves):
            words += ["--resume", self.saves]
        words += ["--threads", "2" if kind == ALONE else "1"]
        if kind == THREADS:
            words += ["--gpus", "2"]
        self.words, self.began = words, time.monotonic()
        ranks = 2 if kind == PROCESSES else 1
        port = str(free_port()) if ranks > 1 else None
        self.outputs = [
            os.path.join(folder, f"{name}-{rank}")
            for rank in range(ranks)
            for name in ("out", "err")
        ]
        self.ranks = []
        for rank in range(ranks):
            environment = {**os.environ, **(environments or {}).get(rank, {})}
            if ranks > 1:
                environment.update(
                    RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks)
                )
                environment.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            out, errors = self.outputs[2 * rank : 2 * rank + 2]
            with open(out, "w", encoding="utf-8") as o, open(errors, "w", encoding="utf-8") as e:
                process = subprocess.Popen(
                    words, cwd=folder, stdin=subprocess.DEVNULL, stdout=o, stderr=e, env=environment
                )
            self.ranks.append(process)

    def is_live(self):
        return any(process.poll() is None for process in self.ranks)

    def kill(self, ranks):
        """Ends ranks by SIGKILL; returns whether one was still there."""
        live = [process for process in map(self.ranks.__getitem__, ranks) if process.poll() is None]
        for process in live:
            process.kill()
        return bool(live)

    def wait(self):
        """The exit statuses of all ranks; Wrong where one does not end."""
        try:
            for process in self.ranks:
                process.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            raise Wrong(f"did not end within {LIMIT} s") from None
        finally:
            for process in self.ranks:
                process.kill()
                process.wait()
        return [process.returncode for process in self.ranks]

    def said(self, rank):
        return self._read(2 * rank)

    def errors(self, rank):
        return self._read(2 * rank + 1)

    def _read(self, index):
        with open(self.outputs[index], encoding="utf-8") as file:
            return file.read()

    def logged(self):
        """The lines of the log, which may not be there yet."""
        try:
            return harness.read_log(self.log) if os.path.exists(self.log) else []
        except ValueError as error:
            raise Wrong(f"the log is damaged: {error}") from None

    def check_saves(self):
        """What the log calls saved is there."""
        steps = {entry["step"] for entry in self.logged() if entry["event"] == "checkpoint"}
        lost = {f"step-{step:06}" for step in steps} - published(self.saves)
        if lost:
            raise Wrong(f"lost {', '.join(sorted(lost))}")

    def must_succeed(self):
        statuses = self.wait()
        errors = "".join(self.errors(rank) for rank in range(len(self.ranks)))
        if any(statuses) or errors:
            raise Wrong(f"a run without an attack ends with status {statuses}: {errors.strip()}")
        for rank in range(len(self.ranks)):
            if "skipping checkpoint" in self.said(rank):
                raise Wrong(f"lost a checkpoint: {self.said(rank)}")

    def check_failure(self, rank, statuses=(1,)):
        """A rank that ended as a failed run must: a line, and a status of these."""
        status, errors = self.ranks[rank].returncode, self.errors(rank)
        if status not in statuses:
            raise Wrong(f"rank {rank} ended with status {status}: {errors.strip()}")
        line = errors.removesuffix("\n")
        if not errors.startswith("nanorun: ") or not line.isprintable():
            raise Wrong(f"rank {rank} ended without one clear line: {errors!r}")


def result_of(run):
    """{what: bytes or numbers} that a finished run has left, all that a reference is compared with."""
    last = os.path.join(run.saves, f"step-{run.steps:06}")
    found = {"parameters": harness.read_bytes(run.parameters)}
    for name in sorted(os.listdir(last)):
        found[name] = harness.read_bytes(os.path.join(last, name))
    losses = {}
    for entry in run.logged():
        if entry["event"] != "step":
            continue
        if losses.setdefault(entry["step"], entry["train_loss"]) != entry["train_loss"]:
            raise Wrong(f"step {entry['step']} has two losses")
    found["losses"] = losses
    return found


def compare(found, wanted):
    if found.keys() != wanted.keys():
        raise Wrong(f"left {', '.join(found)}, the reference {', '.join(wanted)}")
    for name, content in wanted.items():
        if found[name] != content:
            raise Wrong(f"{name} are not the reference's")


def check_end(run, wanted):
    """A run that has come to its end is the reference to the bit, and leaves nothing half done."""
    compare(result_of(run), wanted)
    left = {name for name in os.listdir(run.saves) if not name.startswith("step-")}
    if left:
        raise Wrong(f"leaves {', '.join(sorted(left))}")
