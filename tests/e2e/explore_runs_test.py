#!/usr/bin/env python3
"""What logs and profiles of runs add to a page of nanoc explore, in headless Chromium: the view of runs and
what other views have of a run."""

import json
import unittest

import browser
import explore_test
from harness import main, read_bytes


@unittest.skipUnless(browser.find(), "no Chromium: tools/setup installs it")
class Runs(explore_test.Browsed):
    def log(self, name, *lines):
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps(line) + "\n")
        return path

    def test_registers(self):
        """What a log on a GPU says of registers stands at kernels, at lines, and where two plans are compared."""
        other = self.compile("gpt2", {**explore_test.SIZES, "grad_clip": 0}, "registers.plan", "--target", "cuda")
        names = [each["name"] for each in explore_test.document(self.page)["kernels"]]
        logs = []
        for plan, registers in ((self.plan, 168), (other, 120)):
            log = self.path(f"registers{registers}.jsonl")
            facts = "; ".join(f"{name} {registers} {8 * (name == names[0])} 1024" for name in names)
            hash_ = self.ran("nanorun", "--describe", plan).split()[1]
            with open(log, "w", encoding="utf-8") as file:
                file.write(json.dumps({"event": "run", "plan_hash": hash_, "world": 1, "device": "H200",
                                       "device_facts": {"kernel_resources": facts}}) + "\n")
            logs += ["--run", log]
        path = self.path("registers.html")
        self.ran("nanoc", "explore", self.plan, other, *logs, "-o", path)
        page = self.open(f"#/model?kernel={names[0]}", path)
        self.assertIn("168 registers a thread, 8 bytes of local memory a thread", page.text("#resources"))
        page.click("#lines a")
        page.wait("document.querySelector('#kernels')")
        self.assertIn([names[0], "168", "8 B"], [[row[0], *row[2:4]] for row in page.rows("kernels")])
        page.open(path, "#/compare")
        both = {row[0]: row[1:] for row in page.rows("registers")}
        self.assertEqual(both[names[0]], ["168 → 120", "8 B", "1.02 kB"])

    def test_run(self):
        plan = self.compile("gpt2", {**explore_test.SIZES, "dtype": "f32", "num_iterations": 6}, "run.plan",
                            "--reports", "norms")
        logs = []
        for seed in (1, 2):
            log, _ = self.train(plan, f"run{seed}", "--seed", seed, "--val", self.path("v.bin"),
                                "--val-every", 3, *(("--profile", self.path("p.json")) if seed == 1 else ()))
            logs.append([line for line in log if line["event"] == "step"])
        page = self.path("run.html")
        runs = [word for seed in (1, 2) for word in ("--run", self.path(f"run{seed}.jsonl"))]
        self.ran("nanoc", "explore", plan, *runs, "--profile", self.path("p.json"), "-o", page)
        view = self.open("#/run", page)
        rows = view.rows("runs")
        self.assertEqual([row[1] for row in rows], ["this one", "this one"])
        for row, steps in zip(rows, logs):
            self.assertAlmostEqual(float(row[6]), steps[-1]["train_loss"], delta=6e-5)
        # The curves are the logs' numbers, one beside the other; means are of neighbours.
        graph = "document.querySelector('[data-plot=train_loss]').graph"
        for step in range(6):
            values = view.evaluate(f"[1, 2].map(run => {graph}.getValue({step}, run))")
            for value, steps in zip(values, logs):
                self.assertAlmostEqual(value, steps[step]["train_loss"], places=6)
        view.evaluate("(() => { const input = document.getElementById('smooth'); input.value = 3;"
                      "input.dispatchEvent(new Event('change')); })()")
        mean = sum(each["train_loss"] for each in logs[0][1:4]) / 3
        self.assertAlmostEqual(view.evaluate(f"{graph}.getValue(2, 1)"), mean, places=6)
        self.assertIn("smooth=3", view.evaluate("location.hash"))
        plots = view.evaluate("[...document.querySelectorAll('figure')].map(f => f.dataset.plot)")
        for name in ("train_loss", "val_loss", "lr", "step_ms", "steps by milliseconds"):
            self.assertIn(name, plots)
        # Every step of both runs is somewhere in the distribution of their times.
        bars = "document.querySelector('[data-plot=\"steps by milliseconds\"]').graph"
        for run in (1, 2):
            self.assertEqual(view.evaluate(f"[...Array({bars}.numRows()).keys()].reduce((sum, row) => sum + {bars}.getValue(row, {run}), 0)"), 6)
        self.assertTrue(any(name.startswith("grad_norm/") for name in plots), plots)
        view.go("#/schedule")
        self.assertIn("Measured below: step 6 on ", view.text("#profile"))
        trace = json.loads(read_bytes(self.path("p.json")))
        count = sum(event["ph"] == "X" for event in trace["traceEvents"])
        self.assertEqual(view.evaluate("document.getElementById('schedule').chart.options.rows"
                                       ".filter(row => row[0].startsWith('rank 0')).length"), 1)
        self.assertEqual(len(explore_test.document(page)["profile"]["rows"]), count)

    def test_joules(self):
        """What a log says of energy is a curve and stands in the table, beside a run that has none, and why."""
        plan = self.compile("gpt2", {**explore_test.SIZES, "dtype": "f32", "num_iterations": 6}, "joules.plan")
        run, step = self.train(plan, "joules", "--seed", 1)[0][0], {"event": "step", "train_loss": 1.0, "lr": 0.1}
        self.assertTrue(set(run["energy"]) in ({"missing"}, {"counter", "devices"}), run["energy"])
        steps = [{**step, "step": k, "step_ms": 50.0} for k in range(1, 7)]
        energy = [{"event": "energy", "first_step": first, "step": last, "joules": joules, "seconds": 0.05 * (last - first + 1)}
                  for first, last, joules in ((1, 4, 132.0), (5, 5, 40.0))]
        counted = [self.log(name, {**run, "energy": source}, *events) for name, source, events in (
            ("counted.jsonl", {"counter": "NVML", "devices": 1}, steps + energy), ("none.jsonl", {"missing": explore_test.HOSTILE}, steps))]
        page = self.path("joules.html")
        self.ran("nanoc", "explore", plan, "--run", counted[0], "--run", counted[1], "-o", page)
        view = self.open("#/run", page)
        rows = view.rows("runs")
        self.assertEqual(rows[0][-2:], ["34.40", "688.0"])  # of five steps; the sixth's are not known
        self.assertEqual(rows[1][-2:], [f"none: {explore_test.HOSTILE}", ""])
        self.assertEqual(view.evaluate("document.querySelectorAll('img').length"), 0)
        graph = "document.querySelector('[data-plot=joules]').graph"
        values = view.evaluate(f"[...Array({graph}.numRows()).keys()].map(row => [0, 1].map(column => {graph}.getValue(row, column)))")
        self.assertEqual(values, [[1, 33], [2, 33], [3, 33], [4, 33], [5, 40]])
        view.evaluate("(() => { const input = document.getElementById('smooth'); input.value = 3;"
                      "input.dispatchEvent(new Event('change')); })()")
        self.assertAlmostEqual(view.evaluate(f"{graph}.getValue(3, 1)"), (33 + 33 + 40) / 3, places=6)
        for wrong in ({"first_step": 3, "step": 2}, {"first_step": 0}, {"joules": -1}, {"joules": "many"},
                      {"step": 10**12}, {"joules": None}):
            bad = self.log("bad.jsonl", run, {**energy[0], **wrong})
            self.refused("bad.jsonl:2: event energy wants \"first_step\" and \"step\"", "explore", plan, "--run", bad)

    def test_saturation(self):
        """The share of each 8-bit product's elements beyond its format: curves by run and product, and the last ones in a table."""
        logs = []
        for run in (1, 2):
            lines = [{"event": "run", "plan_hash": "x", "world": 1, "device": "H200"}]
            for step in (1, 5):
                part = {"amax": 1.0, "scale": 1.0, "flushed": 0.0}
                products = [{"product": name, "recipe": "static", "input": {**part, "saturated": 0.01 * run * step * scale},
                             "weight": {**part, "saturated": 0}} for name, scale in ((explore_test.HOSTILE, 1), ("head", 2))]
                lines += [{"event": "step", "step": step, "train_loss": 1.0}, {"event": "fp8", "step": step, "products": products}]
            logs += ["--run", self.log(f"fp8-{run}.jsonl", *lines)]
        page = self.path("fp8.html")
        self.ran("nanoc", "explore", self.plan, *logs, "-o", page)
        view = self.open("#/run", page)
        names = [f"{run} fp8-{run}.jsonl {product}" for run in (1, 2) for product in (explore_test.HOSTILE, "head")]
        graph = "document.querySelector('[data-plot=\"saturated input, %\"]').graph"
        self.assertEqual(view.evaluate(f"{graph}.getLabels()"), ["step", *names])
        for row, step in enumerate((1, 5)):
            values = view.evaluate(f"[0, 1, 2, 3, 4].map(column => {graph}.getValue({row}, column))")
            self.assert_near(values, [step, *(run * step * scale for run in (1, 2) for scale in (1, 2))], 1e-9, "saturated")
        self.assertEqual(view.evaluate("document.querySelectorAll('[data-plot^=\"saturated gradient\"]').length"), 0)
        self.assertEqual(view.rows("fp8"), [[f"{run} fp8-{run}.jsonl", "5", product, "static", f"{5 * run * scale:.3f}%", "0.000%", ""]
                                            for run in (1, 2) for product, scale in ((explore_test.HOSTILE, 1), ("head", 2))])
        self.assertEqual(view.evaluate("document.querySelectorAll('img').length"), 0)


if __name__ == "__main__":
    main()
