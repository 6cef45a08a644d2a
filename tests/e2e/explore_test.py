#!/usr/bin/env python3
"""nanoc explore and nanoc compile --explore: the page in headless Chromium, every view of it, beside
what nanorun --describe, nanoc explain, nanoc simulate and the compilation itself say."""

import base64
import collections
import json
import os
import re
import sys
import unittest
import zlib

import browser
from harness import BIN, GPT2, ROOT, TINY, RunTest, main, overrides, read_bytes, run_command

SIZES = {**GPT2, "num_layers": 2, "dtype": "bf16"}
# A model whose names are markup: what it calls a parameter stands in buffers, labels and tables.
HOSTILE = '</script><img src=x onerror="document.title=1">'


def document(path):
    """The document that a page holds."""
    page = read_bytes(path).decode()
    text = re.search(r'<script id="document" type="text/plain">([^<]*)</script>', page)[1]
    return json.loads(zlib.decompress(base64.b64decode(text)))


class Pages(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()
        cls.plan, cls.page = (os.path.join(cls.scratch.name, name) for name in ("a.plan", "a.html"))
        done = run_command("nanoc", "compile", "models/gpt2.cpp", "-o", cls.plan, *overrides(SIZES),
                           "--target", "cuda", "--world", "1,2", "--report-memory",
                           "--explore", cls.page)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        cls.said, cls.remarks = done.stdout, done.stderr

    def refused(self, message, *arguments):
        done = run_command("nanoc", *arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(message, done.stderr)


class Files(Pages):
    def test_it_says_where_the_page_is(self):
        size = os.path.getsize(self.page)
        self.assertRegex(self.said, rf"{self.page}: {size / 1e3:.2f} kB, to open in a browser\n")
        text = self.ran("nanoc", "explore", self.plan)
        self.assertTrue(text.startswith(self.path("a.html")))

    def test_document(self):
        """Buffers, commands and kernels are those of the plan."""
        page = self.path("b.html")
        self.ran("nanoc", "explore", self.plan, "-o", page)
        found, text = document(page), self.ran("nanorun", "--describe", self.plan)
        self.assertEqual(text.split()[1], found["hash"])
        worlds = re.split(r"^worlds ", text, flags=re.M)[1:]
        self.assertEqual([each["world"] for each in found["variants"]], [1, 2])
        for variant, described in zip(found["variants"], worlds):
            places = re.findall(r"^  (\S+)  \S+  (\d+) bytes .* at (\d+)", described, re.M)
            buffers = variant["buffers"]
            self.assertEqual(
                sorted(zip(buffers["name"], buffers["bytes"], buffers["at"])),
                sorted((name, int(size), int(at)) for name, size, at in places))
            self.assertIn(f"arena {variant['arena']} bytes", described)
        self.assertNotIn("passes", found)
        self.assertEqual(found["source"], read_bytes(os.path.join(ROOT, "models/gpt2.cpp")).decode())

    def test_errors(self):
        missing, text = self.path("missing.plan"), self.path("text.plan")
        with open(text, "w", encoding="utf-8") as file:
            file.write("no plan\n")
        self.refused(f"nanoc: {missing}: cannot be read", "explore", missing)
        self.refused(f"nanoc: {text}: not a plan", "explore", text)
        self.refused("OUT.plan is required", "explore")
        self.refused("--machine: ", "explore", self.plan, "--machine", "toaster")
        self.refused("nothing/x.html", "explore", self.plan, "-o", self.path("nothing/x.html"))
        self.refused(f"nanoc: {missing}: cannot be read", "explore", self.plan, "--run", missing)
        self.refused(f"nanoc: {text}:1: is not JSON", "explore", self.plan, "--run", text)
        self.refused(f"nanoc: {text}: is not JSON", "explore", self.plan, "--profile", text)
        for lines, message in (
            ('{"step": 1}\n', ':1: is no line of nanorun --log: it has no "event"'),
            ('{"event": "step", "step": 1}\n', ":1: a log of nanorun --log begins with its run"),
            ('{"event": "run"}\n\n{"event": "val"}\n', ':3: event val has no "step"'),
            ("", ": is empty"),
        ):
            log = self.path("bad.jsonl")
            with open(log, "w", encoding="utf-8") as file:
                file.write(lines)
            self.refused(log + message, "explore", self.plan, "--run", log)
        profile = self.path("bad.json")
        for content, message in (
            ({}, "is not of nanorun --profile"),
            ({"otherData": {"plan_hash": "1234", "world": 1}, "traceEvents": []},
             "is a profile of another plan, 1234; this one is "),
        ):
            with open(profile, "w", encoding="utf-8") as file:
                json.dump(content, file)
            self.refused(f"{profile}: {message}", "explore", self.plan, "--profile", profile)
        model = ("compile", "models/gpt2.cpp", *overrides(SIZES), "--explore", self.path("x.html"))
        self.refused("--explore: it is of a plan", *model, "--stop-after", "fuse")

    def test_no_lines(self):
        """IR without model lines makes a plan that says what is missing."""
        ir, bare, plan = self.path("k.mlir"), self.path("bare.mlir"), self.path("k.plan")
        text = self.ran("nanoc", "compile", "models/gpt2.cpp", *overrides(SIZES), "--target", "cuda",
                        "--stop-after", "kernels", "--locations")
        with open(ir, "w", encoding="utf-8") as file:
            file.write(text)
        text = self.ran("nano-opt", ir, "--strip-debuginfo", "--mlir-print-debuginfo")
        with open(bare, "w", encoding="utf-8") as file:
            file.write(text)
        done = run_command("nanoc", "compile", bare, "--from", "kernels", "--target", "cuda", "-o", plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(f"{plan}: its kernels name no model lines, which explore shows, and it lacks the "
                     "model's text; compile the model file", "explore", plan)


@unittest.skipUnless(browser.find(), "no Chromium: tools/setup installs it")
class Browsed(Pages):
    """Pages in a browser, which finds no fault and asks for nothing outside of them."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])
        self.assertEqual([url for url in self.browser.requests
                          if not url.startswith(("file:", "data:", "about:"))], [])

    def open(self, place="", page=None):
        self.browser.open(page or self.page, place)
        return self.browser


@unittest.skipUnless(browser.find(), "no Chromium: tools/setup installs it")
class Views(Browsed):
    def explain(self, what):
        return self.ran("nanoc", "explain", what, self.plan, "--lines", 1000)

    def test_summary(self):
        page = self.open()
        self.assertEqual(page.evaluate("document.title"), "gpt2 for cuda")
        table = self.ran("nanoc", "simulate", self.plan)
        rows = page.rows("worlds")
        self.assertEqual([row[0] for row in rows], ["1", "2"])
        for row in rows:
            line = next(each.split() for each in table.splitlines() if each.split()[:1] == row[:1])
            self.assertAlmostEqual(milliseconds(row[2]), float(line[1]), delta=0.0011)
        self.assertIn(["num_layers", "2", "given with -D"], page.rows("hyperparameters"))
        # Every view is reached by its link, and a copied address leads to the same place.
        links = page.evaluate("[...document.querySelectorAll('#views a')].map(a => a.hash)")
        self.assertEqual(links, ["#/summary", "#/pipeline", "#/model", "#/graph", "#/memory",
                                 "#/schedule", "#/run"])
        for link in links:
            page.click(f'#views a[href="{link}"]')
            page.shown(link)
            self.assertEqual(page.evaluate("document.getElementById('view').dataset.view"), link[2:])

    def test_line(self):
        page = self.open("#/model")
        self.assertEqual(page.evaluate("document.querySelectorAll('#source li').length"),
                         read_bytes(os.path.join(ROOT, "models/gpt2.cpp")).decode().count("\n"))
        # What passes decided stands at the lines, and is not printed.
        remarks = "\n".join(page.texts("#source .remark"))
        for decision in ("kept for the backward pass: ", "left to the library: ", "would be made again next, "):
            self.assertIn(decision, remarks)
        self.assertNotIn("kept for the backward pass", self.remarks)
        self.assertNotIn("left to the library", self.remarks)
        line = "models/gpt2.cpp:99"
        page.click(f'#source a[data-line="{line}"]')
        page.wait("document.querySelector('#panel h2')")
        self.assertEqual(page.text("#panel h2"), line)
        text = self.explain("gpt2.cpp:99")
        wanted = re.search(r"^what runs for it: (\d+) launches a step, ([\d.]+ \S+) predicted "
                           r"\(([\d.]+%) of all\), (.*) moved", text, re.M)
        cost = page.text("#cost")
        for part in (f"{wanted[1]} launches a step", f"{wanted[2]} predicted", f"({wanted[3]} of all)",
                     f"{wanted[4]} moved"):
            self.assertIn(part, cost)
        listed = re.findall(r"^  (\S+): [\d.]+ \w+$", text[text.index("\nbuffers, ") :], re.M)
        page.evaluate("document.querySelectorAll('#panel .more').forEach(more => more.click())")
        self.assertEqual(sorted(row[0] for row in page.rows("buffers")), sorted(listed))
        runs = re.findall(r"^  (\w+\[\d+\]) ", text, re.M)
        self.assertEqual(sorted(row[0] for row in page.rows("own") + page.rows("fused")), sorted(runs))
        # Its ops after each stage begin as the model has them, and end as commands.
        ops = dict(page.rows("ops"))
        self.assertIn("nano.matmul", ops["model"])
        self.assertIn("step.", ops["schedule"])
        address = page.evaluate("location.hash")
        self.open(address)
        self.assertEqual((page.text("#panel h2"), page.text("#cost")), (line, cost))

    def test_kernel_and_back(self):
        name = next(each["name"] for each in document(self.page)["kernels"]
                    if "attention_grad" in each["name"])
        page = self.open(f"#/model?kernel={name}")
        text = self.explain(name)
        self.assertIn(re.search(r"(\d+ threads a block)", text)[1], page.text("#resources"))
        predicted = re.search(r"a step, ([\d.]+ \S+) predicted", text)[1]
        self.assertIn(f"{predicted} predicted", page.text("#cost"))
        self.assertIn(f"\n{name}(const __grid_constant__ ", page.text("#text"))
        lines = re.findall(r"^  from (\S+:\d+)", text, re.M)
        self.assertEqual(page.texts("#lines a"), lines)
        page.click("#lines a")
        page.wait("document.querySelector('#panel h2')?.innerText.includes('.cpp:')")
        self.assertEqual(page.text("#panel h2"), lines[0])
        self.assertIn(name, [row[0] for row in page.rows("kernels")])

    def test_graph(self):
        """Folded by layers, searched, and a command's neighbours those that the plan's operands make."""
        found = document(self.page)
        program = next(each for each in found["variants"][0]["programs"] if each["name"] == "last")
        texts, names = found["texts"], found["variants"][0]["buffers"]["name"]
        kinds = [texts[kind] for kind in program["kind"]]
        work = [i for i, kind in enumerate(kinds) if kind not in ("record", "wait")]
        page = self.open("#/graph?program=last")
        counts = list(map(number, re.findall(r"\d[\d,]*", page.text("#counts"))))
        self.assertEqual(counts[0], len(work))
        self.assertLess(counts[1], len(work))
        rows = page.rows("shown")
        self.assertEqual(sum(number(row[1]) for row in rows), len(work))
        self.assertTrue({"h.0", "h.1"} <= {row[0] for row in rows}, rows)
        # A press on a layer opens it.
        at = next(i for i, row in enumerate(rows) if row[0] == "h.1")
        press = """(index => {
          const {chart, picture} = document.getElementById('graph'), box = chart.canvas.getBoundingClientRect();
          const {left, top} = picture.boxes[index];
          chart.show({y: [top - 50, 0]});
          return [box.x + chart.toX(left + 9), box.y + chart.toY(top + 9)];
        })"""
        x, y = page.evaluate(f"{press}({at})")
        page.press(x, y)
        page.wait("location.hash.includes('open=')")
        page.wait(f"document.querySelectorAll('#shown tbody tr').length > {len(rows)}")
        parts = [row[0] for row in page.rows("shown")]
        self.assertTrue({"attn", "mlp"} & set(parts[at + 1 :]), parts)
        page.open(self.page, "#/graph?program=last&open=all")
        self.assertEqual([row[1] for row in page.rows("shown")].count("1") >= 1, True)
        self.assertGreater(number(re.search(r"(\d[\d,]*) shown", page.text("#counts"))[1]), len(work))
        self.check_picture(page, program, work)
        # The neighbours of a command.
        index = next(i for i in work if "attention_grad" in texts[program["worker"][i]])
        wanted = {}
        for buffer in program["reads"][index]:
            writer = next((i for i in reversed(work) if i < index and buffer in program["writes"][i]), None)
            if writer is not None:
                wanted[f"last[{writer}]"] = names[buffer]
        page.open(self.page, f"#/graph?program=last&command={index}")
        self.assertEqual({row[0] for row in page.rows("producers")}, set(wanted))
        self.assertTrue(wanted)
        self.assertTrue(page.rows("consumers"))
        page.open(self.page, "#/graph?program=last&search=attention")
        matching = [i for i in work if "attention" in texts[program["worker"][i]] + texts[program["label"][i]]]
        self.assertIn(f", {len(matching)} found", page.text("#counts"))

    def check_picture(self, page, program, work):
        """Nothing of the unfolded graph overlaps, a layer's backward pass stands beside its forward pass, and every
        operand that another command wrote is a curve."""
        picture = page.evaluate("""(() => {
          const {boxes, edges} = document.getElementById('graph').picture;
          return [boxes.map(b => [b.name, b.depth, b.column, b.left, b.top, b.width, b.height, b.node ? b.node.command.index : -1]),
                  edges.map(e => [e.from.node.command.index, e.to.node.command.index])];
        })()""")
        boxes, edges = picture
        self.assertEqual(sorted(box[7] for box in boxes if box[7] >= 0), work)
        for depth in range(3):
            level = [box for box in boxes if box[1] == depth or (box[1] < depth and box[7] >= 0)]
            for i, (_, _, _, left, top, width, height, _) in enumerate(level):
                for other in level[:i]:
                    self.assertTrue(left >= other[3] + other[5] or other[3] >= left + width or
                                    top >= other[4] + other[6] or other[4] >= top + height, (level[i], other))
        for layer in ("h.0", "h.1"):
            forward, backward = ([box for box in boxes if box[:3] == [layer, 0, column]] for column in (0, 1))
            self.assertTrue(any(b[3] > f[3] + f[5] and b[4] < f[4] + f[6] and f[4] < b[4] + b[6]
                                for f in forward for b in backward), layer)
        writers, wanted = {}, set()
        for i in work:
            wanted |= {(writers[buffer], i) for buffer in program["reads"][i] if writers.get(buffer, i) != i}
            writers |= {buffer: i for buffer in program["writes"][i]}
        self.assertEqual(sorted(map(tuple, edges)), sorted(wanted))
        # Pointing at a command says what it writes, by shape and type, and its neighbours.
        box = next(i for i, box in enumerate(boxes) if box[0].startswith("attention_grad"))
        page.evaluate(f"(b => document.getElementById('graph').chart.options.hover(b))(document.getElementById('graph').picture.boxes[{box}])")
        self.assertRegex(page.text("#hover"), r"; writes last/\S+ \w+\[[\d,]+\].*; reads .*; from .*; to ")

    def test_memory(self):
        """The peak is that of the compilation's report, and a click on a rectangle shows its buffer."""
        said = self.said[: self.said.index("gpt2, 2 ranks: ")]
        report = re.search(r"^program last: ([\d.]+ \wB) of transient buffers, (?:at the floor|.* floor of ([\d.]+ \wB))\n"
                           r"  most are in use at step\.\w+ @?(\w*) \((\S+)\):\n((?:  .*\n)*)", said, re.M)
        page = self.open("#/memory?program=last")
        floor = report[2] or report[1]
        self.assertEqual(page.text("#peak strong"), floor)
        self.assertIn(f" {report[3]} ({report[4]}), beside ", page.text("#peak"))
        wanted = sorted((line, name, int(count or 1)) for name, count, line in
                        re.findall(r"%  (\w+)(?: × (\d+))?  (\S+)$", report[5], re.M))
        page.evaluate("document.querySelectorAll('#holders .more').forEach(more => more.click())")
        found = collections.Counter((row[4], re.fullmatch(r"last/(\w+)(?:#\d+)?", row[0])[1])
                                    for row in page.rows("holders"))
        self.assertEqual(sorted((*key, count) for key, count in found.items()), wanted)
        total = sum(byte_count(row[2]) for row in page.rows("holders"))
        self.assertAlmostEqual(total, byte_count(floor), delta=0.01 * total)
        # What would be made again next is what the compilation says, and what is when the least is to be saved.
        said = re.findall(r"^nanoc: (\S+): remark: would be made again next, to hold less: (.*), ([\d.]+) MB, in ([\d.]+) ms ",
                          self.remarks, re.M)
        self.assertTrue(said)
        rows = page.rows("next")
        self.assertEqual([(row[3], row[0]) for row in rows], [(line, what) for line, what, _, _ in said])
        for row, (_, _, size, time) in zip(rows, said):
            self.assertAlmostEqual(byte_count(row[1]), 1e6 * float(size), delta=6e3)
            self.assertAlmostEqual(milliseconds(row[2]), float(time), delta=6e-4)
        options = ("models/gpt2.cpp", *overrides(SIZES), "--target", "cuda")
        pipeline = self.ran("nanoc", "compile", *options, "--print-pipeline", "--stop-after", "differentiate")
        self.assertIn(" save-bytes=0", pipeline)
        model = self.path("model.mlir")
        with open(model, "w", encoding="utf-8") as file:
            file.write(self.ran("nanoc", "compile", *options, "--stop-after", "model", "--locations"))
        done = run_command("nano-opt", model, "--pass-pipeline=" + pipeline.strip().replace(" save-bytes=0", " save-bytes=1"))
        self.assertEqual(done.returncode, 0, done.stderr)
        first = re.search(r"gpt2\.cpp.*?:(\d+):\d+: remark: made again in the backward pass: (\w+) ", done.stderr)
        self.assertEqual((f"models/gpt2.cpp:{first[1]}", first[2]), (said[0][0], said[0][1].split()[0]))
        # The largest holder, pressed on the canvas.
        name = page.rows("holders")[0][0]
        x, y = page.evaluate(f"""(() => {{
          const canvas = document.getElementById('memory'), chart = canvas.chart;
          canvas.scrollIntoView();
          const box = canvas.getBoundingClientRect(), range = chart.range;
          for (let y = 1; y < chart.height; y += 2)
            for (let x = chart.left + 1; x < canvas.clientWidth; x += 4)
              if (chart.options.find(chart.fromX(x), chart.fromY(y))?.buffer.name === {json.dumps(name)})
                return [box.x + x, box.y + y];
        }})()""")
        page.press(x, y)
        page.wait("document.getElementById('buffer')")
        self.assertEqual(page.text("#panel h2"), f"Buffer {name}")
        text = self.explain(name)
        self.assertIn(re.search(r"^  (\S+, [\d.]+ \wB at \d+) of an arena", text, re.M)[1],
                      page.text("#buffer"))
        uses = re.findall(r"^  (last\[\d+\]) ", text, re.M)
        self.assertEqual([row[0] for row in page.rows("uses")], uses)
        shared = re.findall(r"^  (\S+): ", text[text.index("its bytes belong to") :], re.M)
        page.evaluate("document.querySelectorAll('#sharing .more').forEach(more => more.click())")
        self.assertEqual(sorted(row[0] for row in page.rows("sharing")), sorted(shared))

    def test_schedule(self):
        page = self.open("#/schedule?world=2")
        table = self.ran("nanoc", "simulate", self.plan, "--gpus", 2)
        step = next(line.split() for line in table.splitlines() if line.split()[:1] == ["2"])
        found = re.findall(r"([\d.]+ (?:ms|µs|s))", page.text("#step"))
        for shown, wanted in zip(found[:4], (step[1], step[3], step[5], step[4])):
            self.assertAlmostEqual(milliseconds(shown), float(wanted), delta=0.0011)
        path = re.findall(r"^ +([\d.]+) ms +[\d.]+%  (\S+:\d+)$",
                          table[table.index("critical path") : table.index("copies of a step")], re.M)
        rows = {row[0]: milliseconds(row[1]) for row in page.rows("path")}
        for time, line in path:
            self.assertAlmostEqual(rows[line], float(time), delta=0.0011)
        # Waits: each names two commands on different streams that the description has.
        waits = page.rows("waits")
        self.assertTrue(waits)
        self.assertTrue(any("all_reduce" in row[1] + row[2] for row in waits), waits)
        for row in waits:
            self.assertRegex(row[3], r" (reads|overwrites) ")
        # Moving and scaling by keys, and the menu of ranks.
        page.evaluate("document.getElementById('schedule').focus()")
        before = page.evaluate("document.getElementById('schedule').chart.range.x")
        for key in ("+", "ArrowRight"):
            page.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if key == "+" else "")
        after = page.evaluate("document.getElementById('schedule').chart.range.x")
        self.assertAlmostEqual(after[1] - after[0], 0.7 * (before[1] - before[0]), delta=1)
        page.evaluate("(() => { const menu = document.querySelector('select[name=world]');"
                      "menu.value = '1'; menu.dispatchEvent(new Event('change')); })()")
        page.wait("location.hash.includes('world=1')")
        page.wait("document.getElementById('step').innerText.includes('on 1 rank ')")

    def test_pipeline(self):
        """The passes are those that --print-pipeline names; what they changed is in the IR."""
        page = self.open("#/pipeline")
        text = self.ran("nanoc", "compile", "models/gpt2.cpp", *overrides(SIZES), "--target", "cuda",
                        "--print-pipeline")
        wanted = re.findall(r"[(,]([a-z][\w-]*)(?=[{,)])", re.sub(r"\{[^}]*\}", "{}", text))
        self.assertEqual(page.evaluate("[...document.querySelectorAll('a[data-pass]')].map(a => a.dataset.pass)"),
                         wanted)
        # The only pass of its stage: what it changed stands in the IR before and after.
        name = "nano-split-accumulation"
        before, after = (
            {line.strip() for line in self.ran(
                "nanoc", "compile", "models/gpt2.cpp", *overrides(SIZES), "--target", "cuda",
                "--stop-after", stage).splitlines()}
            for stage in ("differentiate", "accumulate"))
        page.click(f"a[data-pass={name}]")
        page.wait("document.querySelector('#panel h2')")
        self.assertEqual(page.text("#panel h2"), name)
        page.evaluate("document.querySelectorAll('#changes details').forEach(each => each.open = true)")
        page.wait("[...document.querySelectorAll('#changes details')].every(each => each.childElementCount > 1)")
        for kind, ir, other in (("removed", before, after), ("added", after, before)):
            lines = {line.strip() for text in page.texts(f"#changes .{kind}") for line in text.splitlines()}
            self.assertEqual(lines - ir, set(), kind)
            self.assertTrue(lines - other, kind)
        self.assertRegex(page.text("#pass"), r"^Stage accumulate, .* [\d,]+ ops before, [\d,]+ after\.$")
        self.check_work(page)
        page.click(f"a[data-pass={name}]")
        page.wait(f"document.querySelector('#panel h2').textContent === '{name}'")
        prose = page.text("#prose")
        page_text = read_bytes(os.path.join(BIN, "../docs/passes.md")).decode()
        self.assertIn(re.search(r"### `-nano-split-accumulation`\n\n_(.*)_", page_text)[1].replace("`", ""), prose)
        # The same value lights up on both sides.
        lit = page.evaluate("""(() => {
          for (const region of document.querySelectorAll('.region')) {
            const value = [...region.querySelectorAll('.removed .value')].find(e => e.dataset.value.startsWith('= ')
              && [...region.querySelectorAll('.added .value')].some(o => o.dataset.value === e.dataset.value));
            if (!value) continue;
            value.dispatchEvent(new PointerEvent('pointerover', {bubbles: true}));
            return region.querySelectorAll('.added .value.same').length;
          }
          return -1;
        })()""")
        self.assertNotEqual(lit, 0)

    def check_work(self, page):
        """Kernels and bytes of passes: each begins with what the one before has left, fusion makes both less, and
        what is left in the end is what the plan's programs run."""
        found = document(self.page)
        passes = [each for each in found["passes"]["passes"] if each["world"] in (0, 1)]
        for before, after in zip(passes, passes[1:]):
            self.assertEqual((before["kernels"][1], before["bytes"][1]), (after["kernels"][0], after["bytes"][0]), after["pass"])
        fuse = next(each for each in passes if each["pass"] == "nano-fuse")
        self.assertLess(3 * fuse["kernels"][1], fuse["kernels"][0])
        self.assertLess(3 * fuse["bytes"][1], fuse["bytes"][0])
        texts = found["texts"]
        self.assertEqual(passes[-1]["kernels"][1], sum(texts[kind] not in ("record", "wait") for program in found["variants"][0]["programs"]
                                                       for kind in program["kind"]))
        page.click("a[data-pass=nano-fuse]")
        page.wait("document.querySelector('#panel h2').textContent === 'nano-fuse'")
        shown = re.search(r"run ([\d,]+) → ([\d,]+) kernels and library calls, which move ([\d.]+ \wB) → ([\d.]+ \wB)\.$", page.text("#work"))
        self.assertEqual([number(shown[1]), number(shown[2])], fuse["kernels"])
        for text, wanted in zip(shown.groups()[2:], fuse["bytes"]):
            self.assertAlmostEqual(byte_count(text), wanted, delta=0.006 * wanted)
        # A pass's text stands beside what it changed.
        left, right = (page.evaluate(f"(b => [b.left, b.right, b.top])(document.querySelector('{e}').getBoundingClientRect())")
                       for e in ("#changes", "#prose"))
        self.assertLessEqual(left[1], right[0])

    def test_comparison(self):
        other = self.compile("gpt2", {**SIZES, "grad_clip": 0}, "other.plan", "--target", "cuda",
                             "--world", "1,2")
        both, same = self.path("both.html"), self.path("same.html")
        self.ran("nanoc", "explore", self.plan, other, "-o", both)
        done = run_command("nanoc", "diff", self.plan, other, "--lines", 100000)
        text = done.stdout
        page = self.open("#/compare", both)
        self.assertEqual(page.texts("#parts li"), re.findall(r"^on .* (?:differ in .*|equal)$", text, re.M))
        self.assertEqual(page.rows("changed"), [["grad_clip", "1", "0"]])
        totals = dict(page.rows("totals"))
        for what in ("predicted", "launches", "moved", "arena", "kernels"):
            wanted = re.search(rf"^  {what} +(.*)$", text, re.M)[1]
            self.assertEqual(totals[what].replace("→", "->").replace(",", ""), wanted)
        lines = text[text.index("\nby model line\n") : text.index("\nby kernel or call\n")]
        named = re.findall(r"^  (models/\S+|\(no line\))  ", lines, re.M)
        self.assertEqual([row[0] for row in page.rows("lines")],
                         [name.replace("(no line)", "no line") for name in named])
        kernels = re.findall(r"^  ([ +-]) (\w+): ", text[text.index("\nkernels (") :], re.M)
        self.assertEqual(page.evaluate("[...document.querySelectorAll('#kernels details')].map(d => d.dataset.kernel)"),
                         [name for _, name in kernels])
        name = next(name for sign, name in kernels if sign == "-")
        page.click(f"#kernels details[data-kernel={name}] summary")
        page.wait(f"document.querySelector('#kernels details[data-kernel={name}] .removed')")
        self.assertIn(f"{name}(", page.text(f"#kernels details[data-kernel={name}]"))
        self.ran("nanoc", "explore", self.plan, self.plan, "-o", same)
        self.assertIn("equal in every byte", self.open("#/compare", same).text("#equal"))
        four = self.compile("gpt2", {**SIZES, "global_batch": 1024}, "four.plan", "--target", "cuda",
                            "--world", "4")
        self.refused("they have no number of ranks in common", "explore", self.plan, four)

    def test_dark(self):
        dark = browser.Browser(dark=True)
        try:
            dark.open(self.page, "#/memory")
            back = dark.evaluate("getComputedStyle(document.body).backgroundColor")
            light = self.open("#/memory").evaluate("getComputedStyle(document.body).backgroundColor")
            self.assertNotEqual(back, light)
            corner = ("(() => { const canvas = document.getElementById('memory'); canvas.chart.draw();"
                      "return [...canvas.getContext('2d').getImageData(1, canvas.height - 2, 1, 1).data]; })()")
            self.assertEqual("rgb({}, {}, {})".format(*dark.evaluate(corner)[:3]), back)
        finally:
            dark.close()

    def test_narrow(self):
        """In a narrow window what is chosen stands above its list, and no view is wider than the window."""
        self.browser.call("Emulation.setDeviceMetricsOverride", width=420, height=800, deviceScaleFactor=1, mobile=False)
        try:
            for place in ("summary", "pipeline?pass=5", "model?line=models/gpt2.cpp:99", "graph", "memory", "schedule"):
                page = self.open(f"#/{place}")
                self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 420, place)
                if "?" in place:
                    tops = page.evaluate("['#panel h2', '.split > section:not(#panel)']"
                                         ".map(each => document.querySelector(each).getBoundingClientRect().top)")
                    self.assertTrue(0 < tops[0] < min(tops[1], 800), (place, tops))
        finally:
            self.browser.call("Emulation.clearDeviceMetricsOverride")

    def test_hostile_names(self):
        """Names with markup in them stay text."""
        source = read_bytes(os.path.join(ROOT, "models/gpt2.cpp")).decode()
        self.assertIn('"wte.weight"', source)
        name = HOSTILE.replace("\\", "\\\\").replace('"', '\\"')
        model, plan, page = (self.path(f) for f in ("hostile.cpp", "hostile.plan", "hostile.html"))
        with open(model, "w", encoding="utf-8") as file:
            file.write(source.replace('"wte.weight"', f'"{name}"'))
        done = run_command("nanoc", "compile", model, "-o", plan, *overrides(SIZES), "--target", "cuda",
                           "--explore", page)
        self.assertEqual(done.returncode, 0, done.stderr)
        log = self.path("hostile.jsonl")
        with open(log, "w", encoding="utf-8") as file:
            for line in ({"event": "run", "device": HOSTILE, "world": 1, "plan_hash": HOSTILE},
                         {"event": "step", "step": 1, "train_loss": 1.0, HOSTILE: 2.0},
                         {"event": "reports", "step": 1, "reports": {HOSTILE: 1.0}}):
                file.write(json.dumps(line) + "\n")
        text = read_bytes(page).decode()
        self.assertNotIn("onerror", text)
        self.ran("nanoc", "explore", plan, "--run", log, "-o", self.path("run.html"))
        for path, places in ((page, ("summary", "pipeline?pass=3", "model", "graph?open=all", "memory",
                                     "schedule")),
                             (self.path("run.html"), ("run",))):
            for place in places:
                view = self.open(f"#/{place}", path)
                self.assertEqual(view.evaluate("document.querySelectorAll('img').length"), 0, place)
                self.assertEqual(view.evaluate("document.title"), "hostile for cuda")
        self.assertIn(HOSTILE, view.text("#view"))
        view = self.open("#/memory", page)
        self.assertIn(HOSTILE, [row[0] for row in view.rows("kept")])
        view.evaluate("[...document.querySelectorAll('#kept a')]"
                      f".find(a => a.innerText === {json.dumps(HOSTILE)}).click()")
        view.wait("document.getElementById('buffer')")
        self.assertEqual(view.text("#panel h2"), f"Buffer {HOSTILE}")


@unittest.skipUnless(browser.find(), "no Chromium: tools/setup installs it")
class Others(RunTest):
    """Pages of other plans than a GPU's of one stage."""

    def setUp(self):
        self.browser = browser.Browser()
        self.addCleanup(self.browser.close)

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])

    def test_stages_of_a_run(self):
        plan, path = self.path("s.plan"), self.path("s.html")
        done = run_command("nanoc", "compile", "tests/compiler/Inputs/staged.cpp", "-D", "unit=32", "-o", plan,
                           "--target", "cpu", "--world", "1,2", "--explore", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        table = self.ran("nanoc", "simulate", plan)
        wanted = [(line.split()[0], line.split()[-1], line.split()[1]) for line in table.splitlines()
                  if re.match(r" +[12] .* s\d$", line)]
        self.assertEqual(len(wanted), 8)
        page = self.browser
        page.open(path)
        rows = page.rows("worlds")
        self.assertEqual([tuple(row[:2]) for row in rows], [each[:2] for each in wanted])
        for row, (_, _, step) in zip(rows, wanted):
            self.assertAlmostEqual(milliseconds(row[2]), float(step), delta=0.0011)
        page.open(path, "#/schedule?world=2")
        self.assertEqual(page.texts("select[name=stage] option"), ["s0", "s1", "s2", "s3"])
        page.evaluate("(() => { const menu = document.querySelector('select[name=stage]');"
                      "menu.value = '2'; menu.dispatchEvent(new Event('change')); })()")
        page.wait("location.hash.includes('stage=2')")
        step = next(float(step) for world, stage, step in wanted if (world, stage) == ("2", "s2"))
        self.assertAlmostEqual(milliseconds(re.search(r"take ([\d.]+ \S+):", page.text("#step"))[1]), step, delta=0.0011)
        # What is chosen stays chosen from view to view.
        page.click("#views a[href*=pipeline]")
        page.wait("document.getElementById('view').dataset.view === 'pipeline'")
        self.assertIn("stage=2", page.evaluate("location.hash"))
        self.assertTrue(all("(s2)" in text or "(s" not in text for text in page.texts("a[data-pass]")))

    def test_included_files_and_native_kernels(self):
        """gpt_tiny's lines are those of the file that it includes; its kernels are loops."""
        page, whole, bare = self.browser, self.path("t.html"), self.path("u.html")
        plan = self.compile("gpt_tiny", TINY, "t.plan", "--explore", whole)
        self.ran("nanoc", "explore", plan, "-o", bare)
        source = read_bytes(os.path.join(ROOT, "models/gpt124m.cpp")).decode().splitlines()
        line = 1 + next(i for i, text in enumerate(source) if "attention(rope(norm(q))" in text)
        place = f"#/model?line=models%2Fgpt124m.cpp%3A{line}"
        page.open(whole, place)
        self.assertIn("attention(rope(norm(q))", page.text("#source a[aria-current]"))
        page.click("#kernels a")
        page.wait("document.getElementById('text')")
        self.assertIn("scf.for", page.text("#text"))
        page.open(bare, place)
        self.assertIn("The plan holds the text of gpt_tiny's own file only", page.text(".missing"))
        self.assertEqual(page.text("#panel h2"), f"models/gpt124m.cpp:{line}")
        page.click("#kernels a")
        page.wait("document.getElementById('text')")
        self.assertIn("Its code in the plan is native", page.text("#text"))
        page.open(bare, "#/pipeline")
        self.assertIn("A plan does not hold what the passes did", page.text(".missing"))


def number(text):
    return int(text.replace(",", ""))


def milliseconds(text):
    value, unit = text.split()
    return float(value) * {"s": 1e3, "ms": 1, "µs": 1e-3}[unit]


def byte_count(text):
    value, unit = text.split()
    return float(value) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
