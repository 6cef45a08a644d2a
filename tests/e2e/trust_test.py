#!/usr/bin/env python3
"""Whose plans run: keys, signatures held against Ed25519 written out from RFC 8032, plans that were
changed, and plans made again in other folders and at other times, to the bit."""

import hashlib
import os
import shutil
import stat
import subprocess
import time

from harness import (
    BIN,
    LIMIT,
    LLAMA,
    ROOT,
    RunTest,
    main,
    overrides,
    read_bytes,
    read_log,
    run_command,
    train_losses,
)
from processes import free_port

SIZES = {**LLAMA, "num_layers": 1}

# The curve of Ed25519.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def add(a, b):
    (x, y), (u, v) = a, b
    k = D * x * u * y * v
    return (
        (x * v + u * y) * pow(1 + k, P - 2, P) % P,
        (y * v + x * u) * pow(1 - k, P - 2, P) % P,
    )


def times(n, point):
    total = (0, 1)
    while n:
        if n & 1:
            total = add(total, point)
        point, n = add(point, point), n >> 1
    return total


def point_of(raw):
    y = int.from_bytes(raw, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P:
        raise ValueError("no point")
    return (P - x if x & 1 != sign else x, y)


BASE = point_of((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def is_signature(key, signature, message):
    """Ed25519ph without a context: the curve's signature of the message's SHA-512."""
    domain = b"SigEd25519 no Ed25519 collisions" + bytes([1, 0])
    text = domain + signature[:32] + key + hashlib.sha512(message).digest()
    challenge = int.from_bytes(hashlib.sha512(text).digest(), "little") % ORDER
    s = int.from_bytes(signature[32:], "little")
    left = times(s, BASE)
    return s < ORDER and left == add(point_of(signature[:32]), times(challenge, point_of(key)))


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


class Trust(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.key = os.path.join(cls.scratch.name, "key")
        done = run_command("nanoc", "keygen", cls.key)
        if done.returncode:
            raise AssertionError(done.stderr)
        cls.plan = cls.compile("llama", SIZES, "m.plan", "--sign", cls.key)

    def refused(self, tool, *arguments, says, status=2):
        done = run_command(tool, *arguments)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertRegex(done.stderr, says)

    def test_keys(self):
        mode = lambda path: stat.S_IMODE(os.stat(path).st_mode)
        self.assertEqual(mode(self.key), 0o600)
        self.assertEqual(len(text_of(self.key)), len("nano-private-key-1 ") + 65)
        self.assertRegex(text_of(self.key + ".pub"), r"^nano-public-key-1 [0-9a-f]{64}\n$")
        before = read_bytes(self.key)
        self.refused("nanoc", "keygen", self.key, says=r"nanoc: \S+/key\.pub: exists")
        half = self.path("half")
        write(half, b"mine")
        self.refused("nanoc", "keygen", half, says=r"nanoc: \S+/half: exists; choose another name")
        self.assertFalse(os.path.exists(half + ".pub"))
        self.assertEqual((read_bytes(half), read_bytes(self.key)), (b"mine", before))
        nowhere = self.path("nowhere/key")
        self.refused("nanoc", "keygen", nowhere, says="nowhere/key: cannot be created: No such")

    def test_keys_that_are_none(self):
        compile = ("nanoc", "compile", "models/llama.cpp", "-o", self.path("x.plan"), "--sign")
        public, open_key, damaged = self.key + ".pub", self.path("open"), self.path("damaged")
        self.refused(*compile, public, says=r"--sign \S+key\.pub: is a public key; signing takes")
        shutil.copy(self.key, open_key)
        os.chmod(open_key, 0o640)
        self.refused(*compile, open_key, says=r"open: other users may read or change it; chmod 600")
        self.refused(*compile, self.path("no"), says=r"--sign \S+no: cannot be read: No such file")
        for content in (b"", b"nano-private-key-1\n", read_bytes(self.key)[:-2] + b"\n"):
            write(damaged, content)
            os.chmod(damaged, 0o600)
            self.refused(*compile, damaged, says=r"damaged: is no private key; nanoc keygen makes")
        self.assertFalse(os.path.exists(self.path("x.plan")))
        self.refused(*compile[:3], "--sign", self.key, says="--sign: it is of a plan: give -o OUT")
        trust = ("nanorun", self.plan, "--describe", "--trust")
        self.refused(
            *trust, self.key, says=r"--trust \S+key: is a private key; trust is in the pub"
        )
        self.refused(*trust, self.path("no"), says=r"--trust \S+no: cannot be read: No such file")
        for content in (b"\0" * 99, read_bytes(public) * 2, read_bytes(public).upper()):
            write(damaged, content)
            self.refused(
                *trust, damaged, says=r"--trust \S+damaged: is no public key; nanoc keygen"
            )

    def test_signature(self):
        """The signature is beside the plan, which is the same without; and it is Ed25519's."""
        plain = self.compile("llama", SIZES, "plain.plan")
        self.assertEqual(read_bytes(plain), read_bytes(self.plan))
        self.assertFalse(os.path.exists(plain + ".sig"))
        name, key, signature = text_of(self.plan + ".sig").split(" ")
        self.assertEqual(name, "nano-plan-signature-1")
        self.assertEqual(key, text_of(self.key + ".pub").split()[1])
        key, signature = bytes.fromhex(key), bytes.fromhex(signature)
        message = b"nano plan 1\n" + read_bytes(self.plan)
        self.assertTrue(is_signature(key, signature, message))
        self.assertFalse(is_signature(key, signature, message[:-1] + b"?"))

    def test_trusted(self):
        other = self.path("other")
        self.ran("nanoc", "keygen", other)
        trust = ("--trust", self.key + ".pub")
        self.assertIn("model llama", self.ran("nanorun", self.plan, *trust, "--describe"))
        self.ran("nanorun", self.plan, "--trust", other + ".pub", *trust, "--describe")
        self.make_shards()
        losses, _ = self.train(self.plan, "trusted", "--steps", 2, *trust)
        self.assertEqual(
            losses[0]["plan_hash"], self.train(self.plan, "any", "--steps", 2)[0][0]["plan_hash"]
        )
        train = ("nanorun", self.plan, "--train", self.path("t_*.bin"), "--steps", 2)
        says = (
            r"m\.plan: is signed by another key \([0-9a-f]{16}…\) than those of --trust: \S+other"
        )
        self.refused(*train, "--trust", other + ".pub", says=says)

    def ranks(self, plan, name, keys, *options):
        """One process a rank, each with a key of its own: [(status, output, errors)] by rank."""
        port, processes = free_port(), []
        for rank, key in enumerate(keys):
            words = [os.path.join(BIN, "nanorun"), plan, "--train", self.path("t_*.bin"), *options]
            words += ["--steps", "2", "--threads", "1", "--trust", key, "--rank-timeout", "60"]
            words += ["--log", self.path(name + ".jsonl")]
            environment = {
                "RANK": str(rank),
                "WORLD_SIZE": str(len(keys)),
                "MASTER_ADDR": "localhost",
                "MASTER_PORT": str(port),
            }
            process = subprocess.Popen(
                words,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                env={**os.environ, **environment},
            )
            self.addCleanup(process.__exit__, None, None, None)
            self.addCleanup(process.kill)
            processes.append(process)
        outputs = [process.communicate(timeout=LIMIT) for process in processes]
        return [(process.returncode, *output) for process, output in zip(processes, outputs)]

    def test_ranks_that_are_processes(self):
        """Each rank holds the plan that it reads itself against its own keys; where one refuses, all
        end, and say who."""
        self.make_shards()
        plan, other = self.path("ranks.plan"), self.path("rank1")
        words = ["compile", "models/llama.cpp", "-o", plan, "--sign", self.key, "--target", "cpu"]
        self.ran("nanoc", *words, "--world", "1,2", *overrides(SIZES))
        self.ran("nanoc", "keygen", other)
        key, strange = self.key + ".pub", other + ".pub"
        good = self.ranks(plan, "both", (key, key))
        self.assertEqual([(status, errors) for status, _, errors in good], [(0, "")] * 2)
        self.train(plan, "threads", "--gpus", 2, "--steps", 2)
        self.assertEqual(
            train_losses(read_log(self.path("both.jsonl"))),
            train_losses(read_log(self.path("threads.jsonl"))),
        )
        for refuses in (0, 1):
            keys = [strange if rank == refuses else key for rank in range(2)]
            saves = self.path(f"saves{refuses}")
            found = self.ranks(plan, f"refused{refuses}", keys, "--save", saves)
            status, _, errors = found[refuses]
            self.assertEqual((status, errors.count("\n")), (2, 1), found)
            self.assertRegex(
                errors, rf"^nanorun: rank {refuses}: \S+ranks\.plan: is signed by another key "
            )
            status, _, errors = found[1 - refuses]
            self.assertEqual((status, errors.count("\n")), (1, 1), found)
            self.assertRegex(errors, rf"^nanorun: rank {1 - refuses}: .*rank {refuses}")
            # Nothing was trained, and nothing saved.
            self.assertFalse(os.path.exists(os.path.join(saves, "step-000002")))

    def test_changed_plans(self):
        """Every byte counts, wherever it stands; nothing of such a plan is parsed."""
        whole, changed = read_bytes(self.plan), self.path("changed.plan")
        shutil.copy(self.plan + ".sig", changed + ".sig")
        run = ("nanorun", changed, "--trust", self.key + ".pub", "--sample", 1)
        for at in (0, 8, 24, 40, 300, len(whole) // 3, len(whole) // 2, len(whole) - 1):
            write(changed, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            self.refused(*run, says=r"changed\.plan\.sig is the signature of other bytes")
        for content in (whole[:-1], whole + b"\0", b""):
            write(changed, content)
            self.refused(*run, says=r"changed\.plan\.sig is the signature of other bytes")
        write(changed, whole)
        signature = read_bytes(self.plan + ".sig")
        self.assertEqual(run_command(*run).returncode, 0)
        for content in (b"", signature[:-1], signature + b"\n", signature.replace(b" ", b"  ", 1)):
            write(changed + ".sig", content)
            self.refused(*run, says=r"changed\.plan\.sig is no signature of a plan; copy it again")
        other = b"01\n" if signature.endswith(b"00\n") else b"00\n"  # one in sixteen ends with 00
        write(changed + ".sig", signature[:-3] + other)
        self.refused(*run, says="is the signature of other bytes")
        os.unlink(changed + ".sig")
        self.refused(*run, says=r"changed\.plan: is not signed: \S+\.sig is not there; copy it")
        os.mkfifo(changed + ".sig")
        self.refused(*run, says=r"changed\.plan\.sig: is not a regular file but a FIFO")

    def compiled_in(self, folder, name, environment, processors):
        """nanoc called in a folder of its own, on some processors."""
        words = ["compile", name, "--target", "cpu", "--world", "1,2", *overrides(SIZES)]
        done = subprocess.run(
            [os.path.join(BIN, "nanoc"), *words, "-o", "out.plan"],
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            encoding="utf-8",
            timeout=LIMIT,
            preexec_fn=lambda: os.sched_setaffinity(0, processors),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return read_bytes(os.path.join(folder, "out.plan"))

    def test_two_folders_at_two_times(self):
        folders = [self.path("here"), self.path("there/below")]
        for folder in folders:
            os.makedirs(folder)
            shutil.copy(os.path.join(ROOT, "models/llama.cpp"), os.path.join(folder, "mine.cpp"))
        all_processors = os.sched_getaffinity(0)
        first = self.compiled_in(folders[0], "mine.cpp", {"TZ": "UTC"}, all_processors)
        time.sleep(1.1)
        other = {
            "TZ": "Asia/Tokyo",
            "LANG": "C",
            "HOME": folders[1],
            "TMPDIR": folders[1],
            "USER": "x",
        }
        second = self.compiled_in(folders[1], "mine.cpp", other, {min(all_processors)})
        self.assertEqual(first, second)

    def test_rebuilt(self):
        """A plan is compared with its model wherever that lies, and said where it differs."""
        folder = self.path("elsewhere")
        os.mkdir(folder)
        model = os.path.join(folder, "llama.cpp")
        shutil.copy(os.path.join(ROOT, "models/llama.cpp"), model)
        verify = ("nanoc", "compile", model, "--verify", self.plan)
        self.assertIn("m.plan: nanoc makes the same bytes of ", self.ran(*verify))
        rebuild = ("nanorun", self.plan, "--rebuild", model)
        self.assertIn("model llama", self.ran(*rebuild, "--describe"))
        done = run_command(*verify, "-D", "num_layers=2")
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertIn("num_layers = 1 -> 2", done.stdout)
        text = text_of(model)
        self.assertIn('"learning_rate"', text)
        write(model, (text + "\n// another text\n").encode())
        done = run_command(*rebuild, "--sample", 1)
        self.assertEqual(done.returncode, 1)
        self.assertIn("on 1 rank they differ in model's text", done.stdout)
        says = (
            r"^nanorun: \S+m\.plan: is not what this machine's nanoc makes of \S+llama\.cpp; what"
        )
        self.assertRegex(done.stderr, says)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_rebuild_refused(self):
        verify = ("nanoc", "compile", "models/llama.cpp", "--verify")
        self.refused(*verify, self.path("no.plan"), says=r"no\.plan: cannot be read: No such file")
        says = "--from: not together with --verify"
        self.refused(*verify, self.plan, "--from", "fuse", says=says)
        done = run_command("nanorun", self.plan, "--rebuild", self.path("no.cpp"), "--describe")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(
            done.stderr, r"no\.cpp: cannot be read[^\n]*\n.*--rebuild \S+no\.cpp: nanoc"
        )
        alone = self.path("alone")
        os.mkdir(alone)
        shutil.copy(os.path.join(BIN, "nanorun"), alone)
        done = subprocess.run(
            [os.path.join(alone, "nanorun"), self.plan, "--rebuild", "models/llama.cpp"],
            capture_output=True,
            encoding="utf-8",
            timeout=LIMIT,
        )
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"--rebuild models/llama\.cpp: \S+alone/nanoc is not there; ")


if __name__ == "__main__":
    main()
