"""What tests of several processes share."""

import os
import random
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import unittest

# Open MPI frees not all that it takes and unloads libraries that took it, of which AddressSanitizer, where it is built
# in, then knows no name: it looks for leaks in ranks that are joined otherwise.
NO_LEAKS = "ASAN_OPTIONS=" + os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-x", NO_LEAKS]


def free_port():
    """A port that nobody listens on, and that the system gives to nobody who asks for any."""
    while True:
        port = random.randrange(10000, 32768)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port


def children(parent):
    """The processes that a process started, by number."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[1]) == parent:
            found.append(int(name))
    return sorted(found)


def run_ip(*words):
    return subprocess.run(["ip", *words], capture_output=True).returncode == 0


class TwoMachines:
    """Two network namespaces with names of their own and a cable between them, which are two
    machines to MPI and to us. They go when the test that asked for them ends; where they cannot be
    made, it is skipped."""

    ADDRESSES = ("10.77.0.1", "10.77.0.2")

    def __init__(self, test):
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
            raise unittest.SkipTest("network namespaces need root, ip and unshare")
        self.names = tuple(f"nano{os.getpid()}{letter}" for letter in "ab")
        cables = ("va", "vb")
        for name in self.names:
            if not run_ip("netns", "add", name):
                raise unittest.SkipTest("this machine allows no network namespaces")
            test.addCleanup(run_ip, "netns", "del", name)
        ends = ("va", "netns", self.names[0], "type", "veth", "peer", "vb", "netns", self.names[1])
        if not run_ip("link", "add", *ends):
            raise unittest.SkipTest("this machine allows no virtual cables")
        for name, cable, address in zip(self.names, cables, self.ADDRESSES):
            run_ip("-n", name, "addr", "add", f"{address}/24", "dev", cable)
            run_ip("-n", name, "link", "set", cable, "up")
            run_ip("-n", name, "link", "set", "lo", "up")
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        # What mpirun calls in place of ssh: HOST COMMAND.
        self.agent = os.path.join(folder.name, "agent")
        other = self.names[1]
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nshift\n")
            file.write(f'exec ip netns exec {other} unshare --uts sh -c "hostname {other}; $*"\n')
        os.chmod(self.agent, 0o755)

    def on(self, machine, *command):
        """The command line that runs `command` on machine 0 or 1."""
        name = self.names[machine]
        words = f"hostname {name}; exec {shlex.join(map(str, command))}"
        return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", words]

    def mpirun(self, count, *command):
        """`count` ranks, half of them on each machine."""
        if not shutil.which("mpirun"):
            raise unittest.SkipTest("mpirun is not installed")
        hosts = ",".join(f"{address}:{count // 2}" for address in self.ADDRESSES)
        words = [*MPIRUN, "-n", count, "--host", hosts]
        words += ["--mca", "plm_rsh_agent", self.agent]
        for layer in ("btl", "oob"):
            words += ["--mca", f"{layer}_tcp_if_include", "10.77.0.0/24"]
        return self.on(0, *words, *command)

    def cut(self):
        """The cable: nothing arrives any more, and nobody is told."""
        run_ip("-n", self.names[1], "link", "set", "vb", "down")

    def bytes_sent(self):
        """From machine 0 to 1 so far."""
        counters = subprocess.run(
            ["ip", "-n", self.names[0], "-s", "link", "show", "va"], capture_output=True, text=True
        ).stdout
        return int(re.search(r"TX:.*\n\s*(\d+)", counters).group(1))
