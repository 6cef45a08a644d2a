#!/usr/bin/env python3
"""nanorun as one process a rank: the same run, to the bit, as ranks that are threads; one clear
line for launches that contradict themselves or each other; and when a rank dies, every other one
ends soon, says who, and leaves the last checkpoint whole."""

import os
import random
import re
import shutil
import signal
import subprocess
import time

from harness import BIN, GPT124M, LIMIT, ROOT, RunTest, main, read_bytes, read_log, train_losses
from processes import MPIRUN, TwoMachines, children, free_port

SIZES = {**GPT124M, "num_layers": 6, "global_batch": 1024}
NANORUN = os.path.join(BIN, "nanorun")


def variables(rank, world, port):
    """As torchrun sets them."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
    }


def slurm_variables(rank, world, port):
    """As srun sets them, but for the host, which no machine's name list can give here."""
    return {
        "SLURM_PROCID": str(rank),
        "SLURM_NTASKS": str(world),
        "SLURM_JOB_ID": "12",
        "SLURM_JOB_NODELIST": "localhost,elsewhere[1-3]",
        "MASTER_PORT": str(port),
    }


class Launch(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()
        cls.plan = cls.compile("gpt124m", SIZES, "m.plan", "--world", "1,2,4")
        # With reduce-scatters and all-gathers.
        cls.zero2 = cls.compile("gpt124m", {**SIZES, "dist": "zero2"}, "z.plan", "--world", 4)

    def options(self, name, *options):
        words = ["--train", self.path("t_*.bin"), "--threads", 1]
        words += ["--log", self.path(name + ".jsonl")]
        words += ["--dump-params", self.path(name + ".safetensors"), *options]
        return list(map(str, words))

    def start(self, command, environment=None, stdout=subprocess.PIPE, stderr=subprocess.PIPE):
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=stdout,
            stderr=stderr,
            encoding="utf-8",
            env={**os.environ, **(environment or {})},
        )
        self.addCleanup(process.__exit__, None, None, None)
        self.addCleanup(process.kill)
        return process

    def start_all(self, world, options_of, plan_of=lambda rank: None, launcher=variables):
        port = free_port()
        return [
            self.start(
                [NANORUN, plan_of(rank) or self.plan, *options_of(rank)],
                launcher(rank, world, port),
            )
            for rank in range(world)
        ]

    def mpirun(self, count, options):
        if not shutil.which("mpirun") or not os.path.exists(os.path.join(BIN, "libnano-mpi.so")):
            self.skipTest("no MPI")
        return self.start([*MPIRUN, "-n", str(count), NANORUN, self.plan, *options])

    def wait_for_checkpoint(self, folder):
        deadline = time.monotonic() + LIMIT
        while not os.path.isdir(os.path.join(folder, "step-000002")):
            self.assertLess(time.monotonic(), deadline, "no checkpoint")
            time.sleep(0.02)

    def wait_for_step(self, log):
        """Until the log says that a step is done."""
        deadline = time.monotonic() + LIMIT
        while not os.path.exists(log) or b"train_loss" not in read_bytes(log):
            self.assertLess(time.monotonic(), deadline, "no step")
            time.sleep(0.02)

    def assert_resumable(self, folder):
        """Its newest checkpoint is read, with its checksums, into as many ranks as there are."""
        options = self.options("resumed", "--resume", folder, "--gpus", 1, "--steps", 1)
        ((status, output, errors),) = self.ends([self.start([NANORUN, self.plan, *options])])
        self.assertEqual((status, errors), (0, ""))
        self.assertRegex(output, r"resuming .* after step \d+")

    def ends(self, processes):
        """(status, output, errors) of each."""
        found = [process.communicate(timeout=LIMIT) for process in processes]
        return [(process.returncode, *texts) for process, texts in zip(processes, found)]

    def assert_same_run(self, name, wanted):
        losses = [train_losses(read_log(self.path(run + ".jsonl"))) for run in (name, wanted)]
        self.assertEqual(losses[0], losses[1])
        files = [read_bytes(self.path(run + ".safetensors")) for run in (name, wanted)]
        self.assertEqual(files[0], files[1])

    def test_processes_give_the_bits_of_threads(self):
        for world, plan in ((2, self.plan), (4, self.plan), (4, self.zero2)):
            wanted, name = f"threads{world}", f"tcp{world}"
            self.train(plan, wanted, "--gpus", world, "--steps", 5)
            options = self.options(name, "--steps", 5)
            ends = self.ends(self.start_all(world, lambda rank: options, lambda rank: plan))
            for rank, (status, output, errors) in enumerate(ends):
                self.assertEqual((status, errors), (0, ""))
                self.assertEqual(output == "", rank > 0, "rank 0 speaks for all")
            self.assert_same_run(name, wanted)
        options = self.options("slurm", "--steps", 5)
        ends = self.ends(self.start_all(2, lambda rank: options, launcher=slurm_variables))
        self.assertEqual([(status, errors) for status, _, errors in ends], [(0, "")] * 2)
        self.assert_same_run("slurm", "threads2")

    def test_mpirun_gives_the_bits_of_threads(self):
        job = self.mpirun(4, self.options("mpi", "--steps", 5, "--gpus", 4))
        ((status, _, errors),) = self.ends([job])
        self.train(self.plan, "threads", "--gpus", 4, "--steps", 5)
        self.assertEqual(status, 0, errors)
        self.assert_same_run("mpi", "threads")

    def test_mpirun_over_two_machines(self):
        machines = TwoMachines(self)
        options = self.options("machines", "--steps", 5)
        job = self.start(machines.mpirun(4, NANORUN, self.plan, *options))
        ((status, _, errors),) = self.ends([job])
        self.assertEqual(status, 0, errors)
        self.train(self.plan, "one", "--gpus", 4, "--steps", 5)
        self.assert_same_run("machines", "one")
        # All ranks' gradients and more, every step.
        self.assertGreater(machines.bytes_sent(), 10_000_000, "the data did not go over the cable")

    def test_environments_that_contradict_themselves(self):
        def bad(environment, message, *options):
            command = [NANORUN, self.plan, *self.options("bad", *options)]
            ((status, _, errors),) = self.ends([self.start(command, environment)])
            self.assertEqual((status, errors), (2, f"nanorun: {message}\n"))

        torchrun = variables(0, 2, 1234)
        bad(
            torchrun,
            "--gpus 4: torchrun started 2 ranks, each a process; leave --gpus out or start as many",
            "--gpus",
            4,
        )
        bad(
            {**torchrun, "RANK": "2"},
            "the environment of torchrun: rank 2 is not one of 2 ranks",
        )
        bad(
            {"RANK": "0", "WORLD_SIZE": "2"},
            "the environment of torchrun: MASTER_ADDR is not set; start all ranks with torchrun, "
            "or say where rank 0 is with --coordinator HOST:PORT",
        )
        bad(
            {"SLURM_PROCID": "0", "SLURM_NTASKS": "2"},
            "the environment of Slurm: SLURM_JOB_NODELIST is not set; start all ranks with Slurm, "
            "or say where rank 0 is with --coordinator HOST:PORT",
        )
        bad(
            {"SLURM_PROCID": "1"},
            "the environment of Slurm: SLURM_NTASKS is not set; start all ranks with Slurm",
        )
        bad(
            {},
            "--coordinator: needs ranks that mpirun, Slurm or torchrun start; --gpus N alone runs "
            "them in one process",
            "--coordinator",
            "localhost:1",
        )
        bad(
            torchrun,
            "--coordinator here: is not HOST:PORT with a port from 1 to 65535",
            "--coordinator",
            "here",
        )

    def test_ranks_that_differ(self):
        ends = self.ends(
            self.start_all(2, lambda rank: self.options("differ", "--steps", 2, "--seed", rank))
        )
        for rank, (status, _, errors) in enumerate(ends):
            self.assertEqual(status, 2)
            self.assertEqual(
                errors,
                f"nanorun: rank {rank}: rank 1 differs from rank 0 in --seed: '1', rank 0 has '0'; "
                "start all ranks with the same files and options\n",
            )

        sizes = {**SIZES, "num_iterations": 41}
        other = self.compile("gpt124m", sizes, "other.plan", "--world", "2")
        plans = {1: other}
        ends = self.ends(
            self.start_all(2, lambda rank: self.options("differ", "--steps", 2), plans.get)
        )
        for rank, (status, _, errors) in enumerate(ends):
            self.assertEqual(status, 2)
            self.assertRegex(errors, "rank 1 differs from rank 0 in (the )?plan")

    def test_ranks_that_read_other_tokens(self):
        """Shards of the same names and sizes: what differs at their beginnings, or in what is
        validated, is seen at the start, what differs further on before it is saved."""
        for place, says in (
            (3, r"rank 1 differs from rank 0 in the names, sizes or first tokens of the training "
             r"shards: '[0-9a-f]{16}', rank 0 has '[0-9a-f]{16}'; start all ranks with the same "
             r"files and options"),
            (2 * 1024 + 17, r"after step 3: rank 1 trained on other tokens than rank 0, of t_0.bin "
             r"from token 2048 to 3072; nothing of it is saved; give all ranks the same shards"),
        ):  # fmt: skip
            folder = self.path(f"others{place}")
            os.mkdir(folder)
            for name in ("t_0.bin", "t_1.bin"):
                shutil.copy(self.path(name), folder)
            self.flip(os.path.join(folder, "t_0.bin"), place)
            saves = self.path(f"saves{place}")

            def options(rank):
                shards = os.path.join(folder if rank else self.scratch.name, "t_*.bin")
                words = ("--train", shards, "--threads", 1, "--steps", 5)
                return list(map(str, (*words, "--save", saves, "--save-every", 1)))

            ends = self.ends(self.start_all(2, options))
            for rank, (status, _, errors) in enumerate(ends):
                self.assertEqual(status, 2, errors)
                self.assertRegex(errors, rf"^nanorun: rank {rank}: {says}\n$")
            if place > 1536:
                found = sorted(name for name in os.listdir(saves) if name[0] != ".")
                self.assertEqual(found, ["step-000001", "step-000002"])

        shutil.copy(self.path("v.bin"), self.path("w.bin"))
        self.flip(self.path("w.bin"), 2000)
        ends = self.ends(
            self.start_all(
                2,
                lambda rank: self.options("val", "--steps", 1, "--val", self.path("vw"[rank] + ".bin")),
            )
        )
        for rank, (status, _, errors) in enumerate(ends):
            self.assertEqual(status, 2, errors)
            self.assertIn("in the content of the validation shards", errors)

    def flip(self, path, place):
        """Changes one token of a shard."""
        with open(path, "r+b") as file:
            file.seek(1024 + 2 * place)
            token = file.read(1)[0]
            file.seek(1024 + 2 * place)
            file.write(bytes([token ^ 1]))

    def test_one_rank_cannot_read_its_plan(self):
        plans = {1: self.path("none.plan")}
        first, second = self.ends(
            self.start_all(2, lambda rank: self.options("none", "--steps", 2), plans.get)
        )
        reason = f"{plans[1]}: cannot be read: No such file or directory"
        self.assertEqual(second[0], 2)
        self.assertIn(f"nanorun: rank 1: {reason}", second[2])
        self.assertEqual(first[0], 1)
        self.assertIn(f"rank 1 failed after no collective: {reason}", first[2])
        self.assertEqual(len(first[2].splitlines()), 1)

    def test_a_shard_of_one_rank_is_truncated(self):
        """That rank says so, the other one ends as it does for any rank that fails."""
        own, folder = self.path("own"), self.path("truncated")
        os.mkdir(own)
        for name in os.listdir(self.scratch.name):
            if name.startswith("t_") and name.endswith(".bin"):
                shutil.copy(self.path(name), own)
        options = self.options("cut", "--steps", 100000, "--save", folder, "--save-every", 2)
        others = [word.replace(self.path("t_"), os.path.join(own, "t_")) for word in options]
        processes = self.start_all(2, lambda rank: others if rank else options)
        self.wait_for_checkpoint(folder)
        for name in os.listdir(own):
            os.truncate(os.path.join(own, name), 0)
        first, second = self.ends(processes)
        for rank, (status, _, errors) in enumerate((first, second)):
            self.assertEqual(status, 1, errors)
            self.assertEqual(len(errors.splitlines()), 1, errors)
            self.assertTrue(errors.startswith(f"nanorun: rank {rank}: "), errors)
            self.assertRegex(errors, re.escape(os.path.join(own, "t_")) + r".*: ends after 0 bytes")
        self.assertIn("rank 1 failed", first[2])
        self.assert_resumable(folder)

    def test_killed_ranks(self):
        """A random rank dies at a random moment, twenty times."""
        chance = random.Random(5)
        for turn in range(20):
            folder = self.path(f"kill{turn}")
            options = self.options("kill", "--steps", 100000, "--save", folder, "--save-every", 2)
            processes = self.start_all(2, lambda rank: options)
            self.wait_for_checkpoint(folder)
            time.sleep(chance.uniform(0.1, 0.6))
            culprit = chance.randrange(2)
            processes[culprit].kill()
            begin = time.monotonic()
            ends = self.ends(processes)
            self.assertLess(time.monotonic() - begin, 20)
            status, _, errors = ends[1 - culprit]
            self.assertEqual(status, 1, errors)
            self.assertEqual(len(errors.splitlines()), 1, errors)
            self.assertRegex(
                errors,
                rf"^nanorun: rank {1 - culprit}: .*(step \d+|checkpoint).*rank {culprit} \(process "
                rf"{processes[culprit].pid} on \S+\) went away, last seen in ",
            )
            self.assert_resumable(folder)
            shutil.rmtree(folder)

    def test_killed_ranks_under_mpirun(self):
        """mpirun ends what is left a second after a rank's death: the others are faster."""
        for culprit in (0, 1):
            folder = self.path(f"mpi{culprit}")
            options = self.options("killed", "--steps", 100000, "--save", folder)
            options += ["--save-every", "2"]
            job = self.mpirun(2, options)
            self.wait_for_checkpoint(folder)
            ranks = children(job.pid)
            self.assertEqual(len(ranks), 2)
            os.kill(ranks[culprit], signal.SIGKILL)
            ((status, _, errors),) = self.ends([job])
            self.assertNotEqual(status, 0)
            self.assertRegex(
                errors,
                rf"nanorun: rank {1 - culprit}: .*rank {culprit} \(process {ranks[culprit]} on "
                r"\S+\) went away, last seen in ",
            )
            self.assert_resumable(folder)

    def test_a_rank_whose_output_nobody_reads(self):
        """It hangs in what it says; another one dies: it ends all the same, and says nothing."""
        port = free_port()
        options = self.options("mute", "--steps", 100000)  # beyond the schedules, which it tells
        outlet, inlet = os.pipe()
        self.addCleanup(os.close, outlet)
        os.set_blocking(inlet, False)
        while True:
            try:
                os.write(inlet, b"x" * 4096)
            except BlockingIOError:
                break
        os.set_blocking(inlet, True)
        command = [NANORUN, self.plan, *options]
        mute = self.start(command, variables(0, 2, port), stdout=inlet, stderr=inlet)
        os.close(inlet)
        other = self.start(command, variables(1, 2, port))
        # A rank that has met the others has a thread that tells them what it does.
        deadline = time.monotonic() + LIMIT
        while len(os.listdir(f"/proc/{other.pid}/task")) < 2:
            self.assertLess(time.monotonic(), deadline, "the ranks do not meet")
            time.sleep(0.02)
        other.kill()
        self.assertEqual(mute.wait(timeout=LIMIT), 1)

    def test_a_stopped_rank(self):
        """A process that neither runs nor ends, as on a machine that lost its power."""
        options = self.options("stop", "--steps", 100000, "--rank-timeout", 5)
        processes = self.start_all(2, lambda rank: options)
        self.wait_for_step(self.path("stop.jsonl"))
        begin = time.monotonic()
        processes[1].send_signal(signal.SIGSTOP)
        ((status, _, errors),) = self.ends(processes[:1])
        self.assertLess(time.monotonic() - begin, 5 + 20)
        self.assertEqual((status, len(errors.splitlines())), (1, 1), errors)
        self.assertRegex(
            errors,
            r"^nanorun: rank 0: (after )?step \d+: .*"
            rf"rank 1 \(process {processes[1].pid} on \S+\) (does not answer|makes no progress) "
            r"for 5 s, last seen in ",
        )


if __name__ == "__main__":
    main()
