#!/usr/bin/env python3
"""nanoc diff and nanoc explain say of plans what nanorun --describe and nanoc simulate say of them,
sorted by model line, kernel and buffer."""

import re

from harness import GPT2, RunTest, main, overrides, read_bytes, run_command

SIZES = {**GPT2, "num_layers": 1, "dtype": "bf16"}


class Inspect(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        options = ("--target", "cuda", "--world", "1,2")
        cls.plan = cls.compile("gpt2", SIZES, "a.plan", *options)
        cls.other = cls.compile("gpt2", {**SIZES, "grad_clip": 0}, "b.plan", *options)
        cls.text = run_command("nanorun", "--describe", cls.plan).stdout

    def diff(self, *arguments):
        done = run_command("nanoc", "diff", *arguments)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def explain(self, what, *options):
        return self.ran("nanoc", "explain", what, self.plan, *options)

    def kernels(self, text):
        part = text[text.index("\nkernels:\n") + 10 : text.index("\nworlds ")]
        return {line.split(":")[0].strip() for line in part.splitlines()}

    def test_equal(self):
        copy = self.path("copy.plan")
        with open(copy, "wb") as file:
            file.write(read_bytes(self.plan))
        self.assertEqual(self.diff(self.plan, copy), (0, ""))

    def test_what_differs(self):
        status, text = self.diff(self.plan, self.other, "--lines", 1000)
        self.assertEqual(status, 1)
        parts = re.search(r"^on 1 rank they differ in (.*)$", text, re.M)[1].split(", ")
        for part in ("hyperparameters", "kernels", "programs"):
            self.assertIn(part, parts)
        for part in ("model's text", "states", "target"):
            self.assertNotIn(part, parts)
        self.assertIn("\non 2 ranks they differ in ", text)
        self.assertIn("\n  grad_clip = 1 -> 0\n", text)
        # Kernels of one plan alone, against both descriptions.
        mine = self.kernels(self.text)
        theirs = self.kernels(run_command("nanorun", "--describe", self.other).stdout)
        for sign, names in (("-", mine - theirs), ("+", theirs - mine)):
            found = set(re.findall(rf"^  \{sign} (\w+): ", text, re.M))
            self.assertEqual(found, names)
        # Clipping reads every gradient; its lines launch less without it.
        launches = re.search(r"^  launches +(\d+) -> (\d+)$", text, re.M)
        self.assertGreater(int(launches[1]), int(launches[2]))
        lines = re.findall(r"^  models/gpt2\.cpp:\d+ +(?:(\d+) -> (\d+) launches)?", text, re.M)
        change = sum(int(b) - int(a) for a, b in lines if a)
        # What is left has no line of its own: sums of all gradients.
        nameless = re.search(r"^  \(no line\) +(\d+) -> (\d+) launches", text, re.M)
        change += int(nameless[2]) - int(nameless[1]) if nameless else 0
        self.assertEqual(change, int(launches[2]) - int(launches[1]))
        few = self.diff(self.plan, self.other, "--lines", 1)[1]
        self.assertIn("\n  and ", few)

    def test_predicted(self):
        """The step's time is that of nanoc simulate."""
        _, text = self.diff(self.plan, self.other, "--gpus", 2, "--machine", "h200-nvlink")
        self.assertIn("\na step on 2 ranks by the rates of h200-nvlink\n", text)
        found = re.search(r"^  predicted +([\d.]+) (µs|ms) -> ", text, re.M)
        table = self.ran("nanoc", "simulate", self.plan, "--gpus", 2, "--machine", "h200-nvlink")
        row = next(line for line in table.splitlines() if line.split()[:1] == ["2"])
        wanted = float(row.split()[1])  # milliseconds
        number = float(found[1]) / (1000 if found[2] == "µs" else 1)
        self.assertLess(abs(number - wanted), 0.006 * wanted + 0.006)

    def test_line(self):
        text = self.explain("gpt2.cpp:99", "--lines", 1000)
        self.assertTrue(text.startswith("models/gpt2.cpp:99\n  | return cast(linear(x, p.weight)"))
        self.assertEqual(text, self.explain("99", "--lines", 1000))
        self.assertEqual(text, self.explain("models/gpt2.cpp:99", "--lines", 1000))
        world = self.text[: self.text.index("\nworlds 2")]
        place = r"^  ([\w./#]+)  \S+  \d+ bytes .*  models/gpt2\.cpp:99$"
        first = re.findall(place, world, re.M)
        listed = text[text.index("\nbuffers, ") :]
        self.assertGreater(len(first), 10)
        for name in first:
            self.assertIn(f"\n  {name}: ", listed)
        launches = int(re.search(r"what runs for it: (\d+) launches", text)[1])
        runs = text[text.index("what runs for it") :].split("\n\n")[0].splitlines()[1:]
        self.assertEqual(len(runs), launches)

    def test_kernel(self):
        # That of the gradient: no other program than a step launches it.
        name = sorted(kernel for kernel in self.kernels(self.text) if "attention_grad" in kernel)[0]
        text = self.explain(name)
        self.assertTrue(text.startswith(f"kernel {name}\n"))
        self.assertRegex(text, r"\n  from models/gpt2\.cpp:\d+: const Tensor y = attention\(")
        threads = re.search(rf"^  {name}:.* by (\d+) threads", self.text, re.M)[1]
        self.assertIn(f"\n  {threads} threads a block, ", text)
        self.assertRegex(text, r"launch(es)? a step, .* of all\), .* moved, .* operations\n")
        self.assertIn(f" {name}: once ", text)

    def test_buffer(self):
        text = self.explain("wte.weight")
        self.assertIn("\n  holds wte.weight, a parameter: its bytes are its own", text)
        self.assertIn("\nno other buffer has any of its bytes\n", text)
        self.assertRegex(text, r"\n  first\[\d+\] read by ")
        text = self.explain("train.tokens")
        self.assertIn("buffer train.tokens\n  i32[256], 1.02 kB", text)
        # Every other buffer of the same bytes, as the description has their places.
        name = "last/matmul"
        world = self.text[self.text.index("\nworlds 1") : self.text.index("\nworlds 2")]
        places = {
            found[0]: (int(found[2]), int(found[1]))
            for found in re.findall(r"^  (\S+)  \S+  (\d+) bytes \([^)]*\) at (\d+)", world, re.M)
        }
        start, size = places[name]
        wanted = {other for other, (at, count) in places.items()
                  if other != name and at < start + size and start < at + count}
        text = self.explain(name, "--lines", 1000)
        part = text[text.index("at other times its bytes belong to\n") :]
        self.assertEqual(set(re.findall(r"^  (\S+): ", part, re.M)), wanted)
        self.assertTrue(wanted)

    def test_peak(self):
        """The fullest place of a program, found again from the description: what is kept there, from
        where to where, and what a line holds of it."""
        world = self.text[self.text.index("\nworlds 1") : self.text.index("\nworlds 2")]
        sizes = {name: (int(size), line) for name, size, line in re.findall(
            r"^  (last/\S+)  \S+  (\d+) bytes \(.*\) at \d+(?:, indices \d+)?(?:  (\S+))?$", world, re.M)}
        commands = re.search(r"\nprogram last: .*\n((?:  .*\n)*)", world)[1].splitlines()
        uses = {}
        for place, command in enumerate(commands):
            for name in set(re.findall(r"(?<![\w/.])last/[\w.]+(?:#\d+)?", command.split('  "')[0])):
                uses.setdefault(name, []).append(place)
        self.assertLessEqual(set(uses), set(sizes))  # nothing uses some
        live = [sum(sizes[name][0] for name, places in uses.items() if places[0] <= i <= places[-1])
                for i in range(len(commands))]
        peak = live.index(max(live))
        held = {name: places for name, places in uses.items() if places[0] <= peak <= places[-1]}
        kept = [name for name, places in held.items() if peak not in places]
        self.assertTrue(kept)
        self.assertNotEqual(len(kept), len(held))
        for name in (*kept[:2], next(name for name in held if name not in kept)):
            before = [i for i in held[name] if i < peak]
            after = [i for i in held[name] if i > peak]
            wanted = (f"kept there, between last[{before[-1]}] and last[{after[0]}]" if name in kept
                      else "used there")
            said = re.search(rf"\nat the peak of last, [\d.]+ [kM]B in use at last\[{peak}\]: it is {re.escape(wanted)}"
                             r"(?:; what writes it takes (.*))?\n", self.explain(name))
            self.assertTrue(said, name)
            # Its price is the time of the command that wrote it.
            self.assertEqual(said[1] is not None, name in kept)
            if name in kept:
                runs = self.explain(sizes[name][1], "--lines", 1000)
                self.assertIn(said[1], re.findall(rf"^  last\[{held[name][0]}\] .*: (?:once|\d+ times) ([\d.]+ \S+), ", runs, re.M))
        units = {"B": 1, "kB": 1e3, "MB": 1e6}
        line = sizes[kept[0]][1]
        found = re.search(rf"\n  at the peak of last, ([\d.]+) (\w+) in use at last\[{peak}\]: ([\d.]+) (\w+) of it, of "
                          r"which ([\d.]+) (\w+) only wait to be used again; what writes them takes [\d.]+ .*\n", self.explain(line)).groups()
        of_line = [name for name in held if sizes[name][1] == line]
        for number, unit, bytes_ in ((*found[0:2], max(live)), (*found[2:4], sum(sizes[n][0] for n in of_line)),
                                     (*found[4:6], sum(sizes[n][0] for n in of_line if n in kept))):
            self.assertAlmostEqual(float(number) * units[unit], bytes_, delta=0.006 * bytes_ + 1)
        gone = next(name for name in uses if name not in held)
        self.assertNotIn("at the peak of last", self.explain(gone))

    def refused(self, message, *arguments):
        done = run_command("nanoc", *arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(message, done.stderr)

    def test_errors(self):
        missing, text = self.path("missing.plan"), self.path("text.plan")
        with open(text, "w", encoding="utf-8") as file:
            file.write("no plan\n")
        four = self.compile("gpt2", {**SIZES, "global_batch": 1024}, "four.plan", "--target", "cuda",
                            "--world", "4")
        self.refused(f"nanoc: {missing}: cannot be read: No such file", "diff", self.plan, missing)
        self.refused(f"nanoc: {text}: not a plan", "diff", text, self.plan)
        self.refused("they have no number of ranks in common", "diff", self.plan, four)
        self.refused("--gpus 4: ", "diff", self.plan, self.other, "--gpus", 4)
        self.refused("--machine: ", "diff", self.plan, self.other, "--machine", "toaster")
        self.refused("B.plan is required", "diff", self.plan)
        self.refused(f"nanoc: {text}: not a plan", "explain", "99", text)
        self.refused("explain wte.weigth: ", "explain", "wte.weigth", self.plan)
        self.refused("near it are wte.weight", "explain", "wte.weigth", self.plan)
        self.refused("kernels and buffers begin so: ", "explain", "last/", self.plan)
        self.refused("it is no line FILE:N of its model", "explain", "other.cpp:3", self.plan)
        self.refused("compiled for 1, 2 ranks, not for 3", "explain", "99", self.plan, "--gpus", 3)


if __name__ == "__main__":
    main()
