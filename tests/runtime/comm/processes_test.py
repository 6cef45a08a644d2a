#!/usr/bin/env python3
"""Ranks as processes: the same bits whatever joins them, over mpirun on one machine and over two
network namespaces, and what is left when one of them dies or hangs.

usage: processes_test.py CLASS      exit status 77 when what the class needs is not there"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "e2e"))
from harness import PATIENCE  # noqa: E402
from processes import MPIRUN, TwoMachines, children, free_port  # noqa: E402

BIN = os.environ["NANO_BIN"]
RANK = os.path.join(BIN, "nano-comm-rank")
LIMIT = 120 * PATIENCE  # seconds; mpirun alone has been seen to take 40 to end on a busy machine


def start(rank, world, port, *arguments):
    """One rank as torchrun would start it."""
    variables = {"RANK": rank, "WORLD_SIZE": world}
    variables |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
    return subprocess.Popen(
        [RANK, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
    )


def start_all(world, *arguments):
    port = free_port()
    return [start(rank, world, port, *arguments) for rank in range(world)]


def wait_for_step(process, step):
    """Until rank 0 tells of it. Steps take as long as the machine needs; after a hundred the ranks
    have told each other what they do."""
    for line in process.stdout:
        if int(line.split()[1]) >= step:
            return
    raise AssertionError(f"no step {step}")


def mpirun(count, *words):
    return [*MPIRUN, "-n", str(count), *words]


def hashes(text):
    return sorted(line for line in text.splitlines() if line.startswith("rank "))


def expected_hashes(world):
    """What ranks that TCP joins print; CrewTest compares those with threads."""
    ends = [process.communicate(timeout=LIMIT) for process in start_all(world, "collectives")]
    return hashes("".join(output for output, _ in ends))


def needs_mpi():
    if not shutil.which("mpirun"):
        raise unittest.SkipTest("mpirun is not installed")
    if not os.path.exists(os.path.join(BIN, "libnano-mpi.so")):
        raise unittest.SkipTest("this build has no MPI")


class TcpTest(unittest.TestCase):
    def check_end(self, processes, culprit, seen):
        """All but `culprit` end with status 1 and one line that names it."""
        name = rf"rank {culprit} \(process {processes[culprit].pid} on \S+\)"
        for rank, process in enumerate(processes):
            if rank == culprit:
                continue
            _, errors = process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, 1, errors)
            self.assertEqual(len(errors.splitlines()), 1, errors)
            self.assertRegex(errors, rf"{name} {seen}, last seen in all-reduce 'grad ")
            self.assertRegex(errors, r"\(model.cpp:12\)' of 1 f32, step \d+, program 'last'$")

    def test_a_killed_rank_is_named_at_once(self):
        chance = random.Random(7)
        for _ in range(20):
            world = chance.choice((2, 3, 4))
            processes = start_all(world, "count")
            wait_for_step(processes[0], chance.randrange(100, 200))
            culprit = chance.randrange(world)
            processes[culprit].kill()
            begin = time.monotonic()
            self.check_end(processes, culprit, "went away")
            # At once, but the machine may be busy.
            self.assertLess(time.monotonic() - begin, 20)
            processes[culprit].communicate()

    def test_a_rank_that_hangs_is_named_in_time(self):
        for culprit in (0, 1):
            processes = start_all(3, "count", 6000)
            wait_for_step(processes[0], 100)
            os.kill(processes[culprit].pid, signal.SIGSTOP)
            begin = time.monotonic()
            self.check_end(processes, culprit, r"(makes no progress|does not answer) for 6 s")
            self.assertLess(time.monotonic() - begin, 6 + 12)
            processes[culprit].kill()
            processes[culprit].communicate()

    def test_killing_while_they_look_for_each_other(self):
        port = free_port()
        processes = [start(rank, 3, port, "count") for rank in (0, 1)]
        time.sleep(0.3)  # wherever they are then
        processes[0].kill()
        processes[0].communicate()
        processes[1].kill()
        processes[1].communicate()
        late = start(2, 3, port, "count", 1000)
        _, errors = late.communicate(timeout=LIMIT)
        self.assertEqual(late.returncode, 1)
        self.assertRegex(errors, r"rank 2 did not reach rank 0 within 1 s: localhost:\d+: ")


class MpiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        needs_mpi()

    def test_the_same_bits_as_tcp(self):
        for world in (1, 2, 3, 4):
            done = subprocess.run(
                mpirun(world, RANK, "collectives"), capture_output=True, text=True, timeout=LIMIT
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            if world > 1:
                self.assertEqual(hashes(done.stdout), expected_hashes(world))

    def errors_alone(self, folder="", **variables):
        """What a rank says that mpirun did not start; `folder`: where it and its library are."""
        variables |= {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
        done = subprocess.run(
            [os.path.join(folder or BIN, "nano-comm-rank"), "collectives"],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env={**os.environ, **variables},
        )
        return done.returncode, done.stderr.removeprefix("rank: ").rstrip("\n")

    def test_an_environment_that_mpi_does_not_know(self):
        self.assertEqual(
            self.errors_alone(),
            (
                2,
                "the environment says rank 1 of 2, and MPI rank 0 of 1: start nanorun with the "
                "mpirun of the MPI that it was built with",
            ),
        )

    def test_an_mpi_that_does_not_start(self):
        without = "give --coordinator HOST:PORT to do without MPI"
        library = os.environ["NANO_FAILING_MPI"]
        self.assertEqual(
            self.errors_alone(LD_PRELOAD=library),
            (
                1,
                "MPI was built without threads (MPI_THREAD_FUNNELED); install one with them, or "
                + without,
            ),
        )
        self.assertEqual(
            self.errors_alone(LD_PRELOAD=library, MPI_INIT_FAILS="1"),
            (1, "MPI_Init_thread failed; " + without),
        )

    def test_libraries_that_cannot_be_used(self):
        with tempfile.TemporaryDirectory() as top:
            folder = os.path.realpath(os.path.join(top, "bin"))
            os.mkdir(folder)
            shutil.copy(RANK, folder)
            path = os.path.join(folder, "libnano-mpi.so")
            self.assertEqual(
                self.errors_alone(folder),
                (
                    2,
                    f"started by mpirun, and libnano-mpi.so is neither in {folder} nor in "
                    f"{os.path.dirname(folder)}/lib: install libopenmpi-dev and build again, or "
                    "give --coordinator HOST:PORT to do without MPI",
                ),
            )
            with open(path, "w", encoding="utf-8") as file:
                file.write("not a library")
            self.assertEqual(
                self.errors_alone(folder),
                (
                    2,
                    f"cannot load libnano-mpi.so: {path}: file too short; install openmpi-bin",
                ),
            )
            shutil.copy(os.environ["NANO_FAILING_MPI"], path)
            self.assertEqual(
                self.errors_alone(folder), (2, f"{path}: lacks nanoCreateMpi; build it again")
            )

    def test_a_killed_rank_is_named(self):
        """mpirun ends what is left about a second after a rank's death: the others are faster."""
        chance = random.Random(3)
        for culprit in (0, 1, 2):
            with subprocess.Popen(
                mpirun(3, RANK, "count"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as job:
                self.assertTrue(job.stdout.readline())
                time.sleep(chance.uniform(0.0, 0.3))
                ranks = children(job.pid)
                self.assertEqual(len(ranks), 3)
                begin = time.monotonic()
                os.kill(ranks[culprit], signal.SIGKILL)
                _, errors = job.communicate(timeout=LIMIT)
                self.assertLess(time.monotonic() - begin, 12)
            self.assertNotEqual(job.returncode, 0)
            lines = [line for line in errors.splitlines() if line.startswith("rank: ")]
            self.assertGreaterEqual(len(lines), 1, errors)
            for line in lines:
                self.assertRegex(line, rf"rank \d \(process {ranks[culprit]} on \S+\) went away, ")


class NamespacesTest(unittest.TestCase):
    def setUp(self):
        self.machines = TwoMachines(self)

    def start_over_tcp(self, world, *arguments, **more):
        """Ranks by halves on the two machines."""
        processes = []
        for rank in range(world):
            variables = {"RANK": rank, "WORLD_SIZE": world, **more}
            variables |= {"MASTER_ADDR": self.machines.ADDRESSES[0], "MASTER_PORT": 23456}
            words = [f"{name}={value}" for name, value in variables.items()]
            process = subprocess.Popen(
                self.machines.on(2 * rank // world, "env", *words, RANK, *arguments),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            self.addCleanup(process.__exit__, None, None, None)
            self.addCleanup(process.kill)
            processes.append(process)
        return processes

    def test_mpirun(self):
        needs_mpi()
        done = subprocess.run(
            self.machines.mpirun(4, RANK, "collectives"),
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(hashes(done.stdout), expected_hashes(4))
        self.assertGreater(self.machines.bytes_sent(), 1000000, "the data took another way")

    def test_tcp(self):
        """With a secret and without: then the launcher's name for the job stands for it, which is
        said."""
        for secret in ({"NANO_JOB_SECRET": "0123456789abcdef"}, {}):
            processes = self.start_over_tcp(4, "collectives", **secret)
            ends = [process.communicate(timeout=LIMIT) for process in processes]
            self.assertEqual([process.returncode for process in processes], [0] * 4, ends)
            output = "".join(output for output, _ in ends)
            self.assertEqual(hashes(output), expected_hashes(4))
            said = output.count("caution: the ranks have no secret of their job: who knows what ")
            self.assertEqual(said, 0 if secret else 4)

    def test_listening_where_needed(self):
        """At the address that the other machine comes to, and no other."""
        processes = self.start_over_tcp(2, "count")
        self.assertIn("caution", processes[0].stdout.readline())
        self.assertIn("step", processes[0].stdout.readline())
        for machine, place in enumerate(("01004D0A", "02004D0A")):  # as the kernel writes them
            command = self.machines.on(machine, "cat", "/proc/net/tcp", "/proc/net/tcp6")
            rows = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
            listening = [row.split()[1] for row in rows if row.split()[3] == "0A"]
            self.assertTrue(listening)
            self.assertEqual({address.split(":")[0] for address in listening}, {place})
        for process in processes:
            process.kill()
            process.communicate()

    def test_a_cut_cable_ends_all(self):
        """No connection is closed: only silence tells."""
        processes = self.start_over_tcp(2, "count", 5000)
        self.assertTrue(processes[0].stdout.readline())
        self.machines.cut()
        for rank, process in enumerate(processes):
            _, errors = process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, 1)
            name = rf"rank {1 - rank} \(process \d+ on \S+\)"
            self.assertRegex(errors, f"{name} does not answer for 5 s")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    suite = unittest.defaultTestLoader.loadTestsFromName(sys.argv[1], sys.modules["__main__"])
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    if result.wasSuccessful() and len(result.skipped) >= max(result.testsRun, 1):
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() and result.testsRun else 1)
