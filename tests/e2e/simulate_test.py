#!/usr/bin/env python3
"""nanoc simulate as users meet it: its table, details, timeline and measured times on a real plan, and
its errors, each one line on stderr with exit status 2. That its times are right is tested on plans
made by hand (tests/compiler/simulate)."""

import json
import math
import os
import re
import subprocess

from harness import BIN, ROOT, TINY, RunTest, main, run_command

WORLDS = [1, 2, 16]
PROGRAMS_OF_A_STEP = ("first", "next", "last", "update")


class Simulate(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()
        cls.plan = cls.compile(
            "gpt_tiny", {**TINY, "global_batch": 2048}, "m.plan", "--world", "1,2,16"
        )

    def simulate(self, *arguments):
        """(the table's lines as numbers, by ranks; the whole output)"""
        output = self.ran("nanoc", "simulate", self.plan, *arguments)
        rows = {}
        for line in output.splitlines():
            words = line.replace("%", "").split()
            if len(words) >= 9 and words[0].isdigit():
                rows[int(words[0])] = [float(word) for word in words[1:9]]
        return rows, output

    def test_a_line_for_every_stage_and_one_for_the_run(self):
        plan = self.path("staged.plan")
        self.ran("nanoc", "compile", "tests/compiler/Inputs/staged.cpp", "--target", "cpu", "-o", plan)
        output = self.ran("nanoc", "simulate", plan, "--timeline", self.path("stages.json"))
        rows = [line.split() for line in output.splitlines() if line.endswith(("s0", "s1", "s2", "s3"))]
        self.assertEqual([row[-1] for row in rows], ["s0", "s1", "s2", "s3"])
        # Longer sequences take longer, those of the last two stages differ in their windows alone.
        steps = [float(row[1]) for row in rows]
        self.assertLess(steps[0], steps[1])
        self.assertLess(steps[1], steps[2])
        total = 3 * sum(steps[:3]) + steps[3]
        line = next(line for line in output.splitlines() if line.startswith("a run of "))
        self.assertRegex(line, r"^a run of 10 steps and 0\.01075 million tokens: \S+ s on 1 rank$")
        self.assertAlmostEqual(float(line.split()[9]), 1e-3 * total, delta=1e-5 * total)
        self.assertEqual(output.count("critical path by model line:"), 4)
        self.assertIn("\nstage s3, steps 10 to 10:\n", output)
        with open(self.path("stages.json"), encoding="utf-8") as file:
            events = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
        ends = {}
        for event in events:
            stage = event["args"]["program"].partition(".")[2]
            if stage:
                begin, end = ends.get(stage, (math.inf, 0))
                ends[stage] = min(begin, event["ts"]), max(end, event["ts"] + event["dur"])
        for before, after in (("s0", "s1"), ("s1", "s2"), ("s2", "s3")):
            self.assertLessEqual(ends[before][1], ends[after][0])

    def refused(self, *arguments, says, plan=None):
        done = run_command("nanoc", "simulate", plan or self.plan, *arguments)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, f"^nanoc: {says}$")

    def written(self, name, content):
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def test_a_line_for_every_number_of_ranks(self):
        rows, output = self.simulate()
        self.assertEqual(sorted(rows), WORLDS)
        self.assertIn("gpt_tiny for cpu on cpu: ", output)
        for step, tokens, computing, communicating, exposed, share, idle, _ in rows.values():
            self.assertAlmostEqual(tokens, 2048 / (1e-3 * step), delta=1e-3 * tokens)
            self.assertAlmostEqual(step, computing + exposed + idle, delta=0.01)
            self.assertAlmostEqual(share, 100 * exposed / step, delta=0.02)
            self.assertLessEqual(exposed, communicating + 0.001)
        self.assertEqual(rows[1][3], 0)
        self.assertGreater(rows[2][3], 0)
        self.assertLess(rows[2][0], rows[1][0])
        self.assertLess(rows[16][0], rows[2][0])

    def test_one_number_of_ranks_with_details(self):
        rows, output = self.simulate("--gpus", "2", "--machine", "h100-nvlink")
        self.assertEqual(list(rows), [2])
        exposed = output.split("exposed communication by collective:\n")[1]
        exposed, copies = exposed.split("\ncopies of a step:\n")
        lists = exposed.split("\ncritical path by model line:\n")
        sums = [sum(map(float, re.findall(r"^ +([\d.]+) ms", text, re.M))) for text in lists]
        self.assertAlmostEqual(sums[0], rows[2][4], delta=0.02)
        self.assertAlmostEqual(sums[1], rows[2][0], delta=0.02)
        self.assertRegex(lists[1], r"% +models/gpt124m\.cpp:\d+\n")
        self.assertRegex(copies, r"(?m)^ +[\d.]+ ms +[\d.]+%  \d+ B to the device, [\d.]+ ms of it ")
        self.assertRegex(copies, r"(?m)^ +[\d.]+ ms +[\d.]+%  \d+ B to the host, [\d.]+ ms of it ")

    def test_stragglers_and_jitter(self):
        step = {}
        for name, options in {
            "even": [],
            "straggler": ["--straggler", "7:2"],
            "jitter": ["--jitter", "0.5", "--seed", "3"],
        }.items():
            rows, _ = self.simulate("--gpus", "16", *options)
            again, _ = self.simulate("--gpus", "16", *options)
            self.assertEqual(rows, again)
            step[name] = rows[16][0]
        self.assertGreater(step["straggler"], 1.5 * step["even"])
        self.assertGreater(step["jitter"], step["even"])
        table, _ = self.simulate("--straggler", "7:2")  # of the worlds that have such a rank
        self.assertEqual(table[2], self.simulate()[0][2])
        self.assertEqual(table[16][0], step["straggler"])
        other, _ = self.simulate("--gpus", "16", "--jitter", "0.5", "--seed", "4")
        self.assertNotEqual(other[16][0], step["jitter"])

    def test_timeline(self):
        path = self.path("timeline.json")
        rows, _ = self.simulate("--gpus", "16", "--straggler", "7:2", "--timeline", path)
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        spans = [event for event in events if event["ph"] == "X"]
        ranks = {event["pid"] for event in spans}
        self.assertIn(7, ranks)
        self.assertLessEqual(len(ranks), 8)
        named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
        self.assertEqual(named, {(event["pid"], event["tid"]) for event in spans})
        names_of_rows = [event for event in events if event["name"] == "thread_name"]
        for rank in ranks:
            names = {event["args"]["name"] for event in names_of_rows if event["pid"] == rank}
            self.assertEqual(names, {"compute", "communication", "copy"})
        for name in ("upload of a batch", "readback of the loss"):
            self.assertEqual({e["pid"] for e in spans if e["name"] == name}, ranks)
        self.assertEqual({event["args"]["program"] for event in spans} - {"last", "update"}, set())
        last = max(event["ts"] + event["dur"] for event in spans)
        self.assertAlmostEqual(last, 1e3 * rows[16][0], delta=0.1 * last)
        for rank in ranks:  # commands of a stream one after the other
            for stream in {event["tid"] for event in spans}:
                row = [e for e in spans if (e["pid"], e["tid"]) == (rank, stream)]
                row.sort(key=lambda event: event["ts"])
                for before, after in zip(row, row[1:]):
                    self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 1e-3)

    def test_measured_times_replace_the_model(self):
        path = self.path("times.json")
        self.train(self.plan, "timed", "--gpus", "1", "--steps", "2", "--times", path)
        with open(path, encoding="utf-8") as file:
            times = json.load(file)
        # With one rank a step is its commands one after the other.
        commands = [c for c in times["commands"] if c["program"] in PROGRAMS_OF_A_STEP]
        measured = sum(command["ms"] for command in commands) / 2
        rows, _ = self.simulate("--gpus", "1", "--times", path)
        self.assertAlmostEqual(rows[1][0], measured, delta=0.002 * measured)
        # They hold for the same kernels of other variants: twice as long, a step takes longer.
        before, _ = self.simulate("--gpus", "2", "--times", path)
        for command in times["commands"]:
            command["ms"] *= 2
        after, _ = self.simulate("--gpus", "2", "--times", self.written("twice.json", times))
        self.assertGreater(after[2][2], 1.9 * before[2][2])

        times["commands"][0]["command"] = 10**6
        self.refused(
            *("--times", self.written("odd.json", times)),
            says=r".*odd\.json: has a command that the plan has not",
        )
        times["commands"] = times["commands"][1:]
        for key, number in (("ms", "-1"), ("ms", "1e400"), ("runs", "0.5"), ("runs", "-2")):
            before = times["commands"][0][key]
            times["commands"][0][key] = "NUMBER"
            text = json.dumps(times).replace('"NUMBER"', number)
            self.refused(
                *("--times", self.written("number.json", text)),
                says=r".*number\.json: command \d+ of program '\w+' needs \"runs\", a whole "
                r"number, and \"ms\", each from 0 to 1e12",
            )
            times["commands"][0][key] = before
        times["plan_hash"] = "0" * 32
        self.refused(
            *("--times", self.written("other.json", times)),
            says=r".*other\.json: is of a run of another plan, 0{32}; this one is [0-9a-f]{32}",
        )
        self.refused(
            *("--times", self.written("none.json", {"commands": []})),
            says=r".*none\.json: is not of nanorun --times",
        )
        self.refused(
            *("--times", self.written("broken.json", "{")), says=r".*broken\.json: is not JSON: .*"
        )
        self.refused(
            *("--times", self.path("nowhere.json")),
            says=r".*nowhere\.json: cannot be read: No such file or directory; nanorun --times writes one",
        )

    def test_a_machine_of_ones_own(self):
        with open(os.path.join(ROOT, "machines", "cpu.json"), encoding="utf-8") as file:
            machine = json.load(file)
        machine["memory"]["gib"] = 0.001
        rows, output = self.simulate("--machine", self.written("mine.json", machine))
        self.assertEqual(output.count("more than the machine has"), len(rows))
        plain, _ = self.simulate()
        self.assertEqual(rows, plain)

        for rate in (5e-324, 1e300):
            machine["host"]["gb_per_s"] = rate
            self.refused(
                *("--machine", self.written("wrong.json", machine)),
                says=r".*wrong\.json: host\.gb_per_s: a number from 1e-9 to 1e12 is wanted",
            )
        machine["host"]["gb_per_s"] = 10
        machine["node"]["latency_us"] = "short"
        self.refused(
            *("--machine", self.written("wrong.json", machine)),
            says=r".*wrong\.json: node\.latency_us: a number above 0 is wanted",
        )
        self.refused(
            *("--machine", self.written("broken.json", "{")), says=r".*broken\.json: no JSON: .*"
        )

    def test_files_that_are_none(self):
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        says = r".*fifo: is not a regular file but a FIFO; .*"
        self.refused("--machine", fifo, says=says)
        self.refused("--times", fifo, says=says)
        self.refused(plan=fifo, says=says)
        self.refused(
            *("--gpus", "1", "--timeline", fifo),
            says=r".*fifo: is a FIFO that nobody reads; start its reader first, or give the name "
            "of a file",
        )
        sparse = self.written("sparse.plan", "")
        os.truncate(sparse, 2**40)
        limit = r"has 1099511627776 bytes, and a {} at most \d+; .*"
        self.refused(plan=sparse, says=r".*sparse\.plan: " + limit.format("plan"))
        self.refused("--times", sparse, says=r".*sparse\.plan: " + limit.format("file of times"))
        for part, count in (("[", 120_000), ("[", 1_000_000), ('{"a":', 120_000)):
            nested = self.written("nested.json", part * count)
            says = r".*nested\.json: .*it nests more than 256 arrays and objects in each other"
            self.refused("--machine", nested, says=says)
            self.refused("--times", nested, says=says)

        # A link stays, and its file is replaced.
        target, link = self.written("target.json", "before"), self.path("link.json")
        os.symlink("target.json", link)
        self.simulate("--gpus", "1", "--timeline", link)
        self.assertTrue(os.path.islink(link))
        with open(target, encoding="utf-8") as file:
            self.assertIn("traceEvents", json.load(file))

    def test_less_memory_than_a_plan_may_take(self):
        large = self.written("large.plan", "")
        os.truncate(large, 2**30)
        for words, says in (
            (("nanoc", "simulate", large), "nanoc: out of memory; "),
            (("nanorun", large, "--describe"), "nanorun: out of memory; "),
        ):
            limit = ("sh", "-c", 'ulimit -v 1000000; exec "$@"', "sh", os.path.join(BIN, words[0]))
            done = subprocess.run([*limit, *words[1:]], capture_output=True, encoding="utf-8")
            if "Sanitizer failed to allocate" in done.stderr:
                self.skipTest("built with a sanitizer, which reserves terabytes of addresses before main")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertTrue(done.stderr.startswith(says), done.stderr)

    def test_errors(self):
        self.refused(
            *("--machine", "h1000"),
            says="machine 'h1000': No such file or directory; name a JSON file or one of cpu, "
            "h100-infiniband, h100-nvlink, h200-infiniband, h200-nvlink",
        )
        self.refused("--gpus", "3", says=r".*m\.plan: .* for 1, 2, 16 ranks, not for 3; .*")
        self.refused(
            *("--gpus", "16", "--machine", "h100-nvlink"),
            says="machine h100-nvlink: 16 ranks do not fit into its one node of 8; take a machine "
            "with a network",
        )
        self.refused(
            *("--gpus", "2", "--straggler", "2:1.5"),
            says="--straggler 2:1.5: the ranks are 0 to 1",
        )
        for text in ("1", "1:", "1:0", "1:nan", "x:2"):
            self.refused(
                *("--gpus", "2", "--straggler", text),
                says=f"--straggler {text}: write RANK:FACTOR, as in 3:1.5",
            )
        self.refused("--jitter=-1", says="--jitter: a number of 0 or more is wanted")
        self.refused("--attended", "0", says="--attended: a number of keys is 1 or more")
        self.refused(
            *("--timeline", self.path("t.json")),
            says="--timeline is of one number of ranks; name it with --gpus",
        )
        self.refused(
            *("--gpus", "2", "--timeline", self.path("none/t.json")),
            says=r".*none/t\.json: cannot be created: No such file or directory",
        )
        self.refused(plan=self.path("nowhere.plan"), says=r".*nowhere\.plan: .*")
        self.refused("--gpus", "two", says=r".*--gpus.*; see nanoc --help")


if __name__ == "__main__":
    main()
