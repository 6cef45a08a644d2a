#!/usr/bin/env python3
"""Kernels in the place of nanoc's functions that were not checked where the plan was made: a run
checks them first and uses nanoc's own where they are off, fault or hang; what it found is
remembered; ranks that are processes come to the same."""

import glob
import os
import shutil
import subprocess

import kernels_test
from harness import BIN, LIMIT, ROOT, RunTest, main, read_bytes, read_log, run_command, train_losses, write_shard
from kernels_test import NORM, NORM_CODE, ROWS, without_excerpts
from processes import free_port

WRITES = "y[t * X::size(-1) + c] = typename"
KERNEL = r"kernel 'fast_norm'"
IN_PLACE = KERNEL + r" in place of norm, of f32 \[16, 12\]"
RIGHT = r"it is off by \d\.\de-0[6-9] on random inputs, 1\.0e-05 is allowed"
WRONG = r"it is off by 1\.0e-02 on random inputs, 1\.0e-05 is allowed"
DERIVATIVE = r"it is off by \d\.\de-0\d on random inputs, 3\.0e-02 is allowed"
EARLIER = r" \(found by an earlier run\)"


class Unproven(RunTest):
    def setUp(self):
        self.cache = self.path("cache-" + self.id().rpartition(".")[2])
        write_shard(self.path("t_0.bin"), [*range(ROWS), *range(ROWS), 0, 0])

    def compiled(self, name, *options, target="cuda", scale="1", change=lambda text: text, replaces=True):
        source = self.path(name + ".cpp")
        kernels = NORM.replace("REPLACE", 'replace("norm", fastNorm);' if replaces else "").replace("SCALE", scale)
        model = kernels_test.MODEL.replace("KERNELS", change(kernels)).replace("CODE", NORM_CODE)
        with open(source, "w", encoding="utf-8") as file:
            file.write(model.replace(".globalBatch = T", ".globalBatch = 2 * T"))
        plan = self.path(f"{name}.{target}.plan")
        done = run_command("nanoc", "compile", source, "-o", plan, "--target", target, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return plan, without_excerpts(done.stderr)

    def words(self, plan, name, *options):
        device = ("--device", "emulator") if ".cuda." in plan else ()
        words = ("--train", self.path("t_0.bin"), "--steps", 1, "--threads", 1, "--log", self.path(name + ".jsonl"))
        return [plan, *words, "--dump-params", self.path(name + ".safetensors"), *device, *options]

    def ran(self, plan, name, *options):
        """What a run says; (losses, bytes of the parameters)."""
        # A kernel's signal ends the program that checks it where AddressSanitizer is built in, too.
        sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0"
        environment = {"NANO_CACHE_DIR": self.cache, "ASAN_OPTIONS": sanitizer}
        done = run_command("nanorun", *self.words(plan, name, *options), environment=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr, self.result(name)

    def result(self, name):
        log = read_log(self.path(name + ".jsonl"))
        return train_losses(log), read_bytes(self.path(name + ".safetensors"))

    def assert_said(self, said, *lines):
        wanted = "".join(rf"nanorun: [^\n]*\.cpp:\d+: {line}\n" for line in lines)
        self.assertRegex(said, rf"\A{wanted}\Z")

    def kept(self):
        return glob.glob(os.path.join(self.cache, "*.checks"))

    def test_right(self):
        """It runs, to the bit as where it was checked by nanoc, and is checked once."""
        plan, said = self.compiled("right", "--check-at-run")
        left = "not checked: left to the run; nanorun checks it when a run begins, and uses nanoc's own where it is off"
        self.assertEqual(said.count(left), 2, said)
        self.assertEqual(said.count("\n"), 2, said)
        proven, _ = self.compiled("proven")
        lines = (f"{IN_PLACE}: {RIGHT}", rf"the derivative of {KERNEL}, of f32 \[16, 12\]: {DERIVATIVE}")
        said, found = self.ran(plan, "right")
        self.assert_said(said, *lines)
        none, wanted = self.ran(proven, "proven")
        self.assertEqual((none, found), ("", wanted))
        self.assertEqual(len(self.kept()), 1)
        said, again = self.ran(plan, "again")
        self.assert_said(said, *(line + EARLIER for line in lines))
        self.assertEqual(again, found)
        # Without the kept numbers, or where others may have written them, it is checked again.
        entry, = self.kept()
        content = bytearray(read_bytes(entry))
        content[-3] ^= 1
        with open(entry, "wb") as file:
            file.write(content)
        said, _ = self.ran(plan, "damaged")
        self.assertRegex(said, r"\Ananorun: [^\n]*\.checks: a damaged entry of the kernel cache; it is made again\n")
        self.assert_said(said.partition("\n")[2], *lines)
        os.chmod(entry, 0o666)
        said, _ = self.ran(plan, "open")
        self.assertRegex(said, r"\Ananorun: [^\n]*\.checks: this entry of the kernel cache is another user's, or others may write to it; it is made again\n")
        self.assert_said(said.partition("\n")[2], *lines)
        os.chmod(self.cache, 0o777)
        said, _ = self.ran(plan, "folder")
        self.assertIn("other users may write to this folder of checks of kernels", said)
        self.assertNotIn("earlier", said)

    def test_wrong(self):
        """The plan without it runs, to the bit; another plan's good numbers are no use to it."""
        right, _ = self.compiled("right", "--check-at-run")
        self.ran(right, "right")
        entry, = self.kept()
        plan, _ = self.compiled("wrong", "--check-at-run", scale="1.01f")
        plain, _ = self.compiled("plain", replaces=False)
        off = rf"{IN_PLACE}: {WRONG}%s: nanoc's own is used"
        beside = rf"the derivative of {KERNEL}, [^\n]*: nanoc's own is used[^\n]*"
        said, found = self.ran(plan, "wrong")
        self.assert_said(said, off % "", beside)
        self.assertEqual(found, self.ran(plain, "plain")[1])
        said, again = self.ran(plan, "again")
        self.assert_said(said, off % EARLIER, beside)
        self.assertEqual(again, found)
        other, = set(self.kept()) - {entry}
        shutil.copy(entry, other)
        said, again = self.ran(plan, "forged")
        self.assertRegex(said, r"\Ananorun: [^\n]*\.checks: a damaged entry")
        self.assert_said(said.partition("\n")[2], off % "", beside)
        self.assertEqual(again, found)
        self.assertIn("kernel 'fast_norm' in place of norm", self.ran_tool("nanorun", plan, "--describe"))

    def ran_tool(self, tool, *words):
        done = run_command(tool, *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_fault(self):
        """An access that is not as declared, on the emulator; a null pointer and a loop without end
        on the CPU: the program that checks ends, and the next run tries again."""
        plain, _ = self.compiled("plain", replaces=False)
        plain_cpu, _ = self.compiled("plain", replaces=False, target="cpu")
        null = lambda text: text.replace(WRITES, "*(volatile float *)(8 * c) = 1, " + WRITES)
        hangs = lambda text: text.replace("float squares = 0;", "float squares = 0; volatile int on = 1; while (on) {}")
        beyond = lambda text: text.replace(WRITES, WRITES.replace("+ c]", "+ c + X::count]"))
        for name, of, change, why, options in (
            ("beyond", plain, beyond, r"[^\n]*out of bounds: writes 4 bytes at byte \d+ of buffer [^\n]*", ()),
            ("null", plain_cpu, null, r"it was ended by signal 11", ()),
            ("hangs", plain_cpu, hangs, r"it took more than 2 s, or was killed", ("--rank-timeout", 4)),
        ):
            with self.subTest(name):
                plan, _ = self.compiled(name, "--check-at-run", target=of.split(".")[-2], change=change)
                _, wanted = self.ran(of, "plain")
                for _ in range(2):
                    said, found = self.ran(plan, name, *options)
                    self.assert_said(said, f"{IN_PLACE}, and 1 more: not checked, nanoc's own is used until a run can check it: {why}")
                    self.assertEqual(found, wanted)
                self.assertEqual(self.kept(), [])

    def test_other_commands(self):
        """Whatever runs the plan checks it; what is only read of it does not."""
        plan, _ = self.compiled("cpu", "--check-at-run", target="cpu")
        words = ("--compare", "cpu", "--train", self.path("t_0.bin"), "--threads", 1)
        done = run_command("nanorun", plan, *words, environment={"NANO_CACHE_DIR": self.cache})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, rf"{IN_PLACE}: {RIGHT}\n")
        # Made again, it leaves the same to the run.
        source = self.path("cpu.cpp")
        done = run_command("nanoc", "compile", source, "--verify", plan, "-o", self.path("again.plan"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(read_bytes(self.path("again.plan")), read_bytes(plan))

    def test_ranks(self):
        """Rank 0 finds out for all: threads, and processes of which each has its own folder."""
        for name, scale, line in (("right", "1", RIGHT), ("wrong", "1.01f", WRONG + ": nanoc's own is used")):
            plan, _ = self.compiled(name, "--check-at-run", "--world", "1,2", target="cpu", scale=scale)
            said, threads = self.ran(plan, "threads", "--gpus", 2)
            self.assertRegex(said, rf"\A[^\n]*{IN_PLACE}: {line}\n")
            port = free_port()
            processes = []
            for rank in range(2):
                variables = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
                variables["NANO_CACHE_DIR"] = self.path(f"{name}-{rank}")
                environment = {**os.environ, **{key: str(value) for key, value in variables.items()}}
                words = [os.path.join(BIN, "nanorun"), *map(str, self.words(plan, "processes"))]
                processes.append(subprocess.Popen(words, cwd=ROOT, env=environment, encoding="utf-8", stderr=subprocess.PIPE, stdout=subprocess.PIPE))
            said = [process.communicate(timeout=LIMIT)[1] for process in processes]
            self.assertEqual([process.returncode for process in processes], [0, 0], said)
            self.assertRegex(said[0], rf"\A[^\n]*{IN_PLACE}: {line}\n")
            self.assertEqual(said[1], "")
            self.assertEqual(self.result("processes"), threads)
            self.assertFalse(os.path.exists(self.path(f"{name}-1")))


if __name__ == "__main__":
    main()
