#!/usr/bin/env python3
"""Pages of nanoc compile --explore in headless Chromium: of compilations that fail, and every view of
gpt124m's for four numbers of ranks."""

import os
import re
import sys
import unittest

import browser
from explore_test import milliseconds, number
from harness import GPT2, GPT124M, ROOT, RunTest, main, overrides, read_bytes, run_command


@unittest.skipUnless(browser.find(), "no Chromium: tools/setup installs it")
class Failures(RunTest):
    """Pages of compilations that made no plan."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.pages = 0

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])

    def failed(self, status, *arguments):
        """(the error, the page's path) of a compilation that fails."""
        Failures.pages += 1
        path = self.path(f"f{self.pages}.html")
        done = run_command("nanoc", "compile", *arguments, "-o", self.path("f.plan"), "--explore", path)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertFalse(os.path.exists(self.path("f.plan")))
        self.said = done.stdout
        return done.stderr.splitlines()[0].removeprefix("nanoc: "), path

    def test_pass(self):
        """A pass that reports an error: what ran before it, what it says, and the line."""
        model = "tests/compiler/Inputs/no-derivative.cpp"
        error, path = self.failed(2, model, "--target", "cpu", "--world", "1,2")
        self.assertRegex(self.said, rf"^{path}: \S+ kB, to open in a browser\n$")
        line, message = re.match(r"(\S+:\d+): (.*)", error).groups()
        page = self.browser
        page.open(path)
        self.assertEqual(page.texts("#views a"), ["Failure", "Pipeline", "Model"])
        self.assertEqual(page.text("#failure"), error)
        self.assertRegex(page.text("#where"), r"^It was reported by nano-differentiate in the stage differentiate\. ")
        page.click("#where a")
        page.wait("document.querySelector('#panel h2')")
        self.assertEqual(page.text("#panel h2"), "nano-differentiate")
        self.assertEqual(page.text("#panel #failure"), error)
        # It is the last that ran, of those of its pipeline; the ones before it say what they did.
        wanted = re.findall(r"[(,]([a-z][\w-]*)(?=[{,)])", re.sub(r"\{[^}]*\}", "{}", self.ran(
            "nanoc", "compile", "--target", "cpu", "--print-pipeline", "--stop-after", "differentiate")))
        passes = page.evaluate("[...document.querySelectorAll('a[data-pass]')].map(a => a.dataset.pass)")
        self.assertEqual(passes, wanted[: wanted.index("nano-differentiate") + 1])
        self.assertEqual([text for text in page.texts("a[data-pass] .error")], ["failed"])
        page.click(f"a[data-pass={wanted[0]}]")
        page.wait(f"document.querySelector('#panel h2').textContent === '{wanted[0]}'")
        self.assertRegex(page.text("#pass"), r"^Stage model, .* [\d,]+ ops before, [\d,]+ after\.$")
        # The model's text, with the error at its line, to which the failure's link leads.
        page.open(path, "#/summary")
        page.click("#failure a")
        page.wait("document.getElementById('source')")
        self.assertEqual(page.text("#panel h2"), line)
        self.assertEqual(page.text("#panel #failure"), message)
        source = read_bytes(os.path.join(ROOT, model)).decode().splitlines()
        self.assertEqual(len(page.texts("#source li a")), len(source))
        self.assertIn(source[int(line.split(":")[1]) - 1].strip(), page.text("#source a[aria-current]"))
        self.assertEqual(page.text("#source li:has(a[aria-current]) .error"), message)
        self.assertIn("nano.", page.text("#ops"))

    def test_before_any_pass(self):
        """An error that the model file makes where it runs."""
        error, path = self.failed(2, "tests/compiler/Inputs/shape-error.cpp", "--target", "cpu")
        message = re.match(r"\S+:\d+: (.*)", error)[1]
        page = self.browser
        page.open(path)
        self.assertEqual(page.text("#failure"), error)
        self.assertIn("before any pass", page.text("#where"))
        page.open(path, "#/model")
        self.assertEqual(page.text("#source .error"), message)
        page.open(path, "#/pipeline")
        self.assertEqual(page.texts("a[data-pass]"), [])

    def test_proof(self):
        """What a proof says of edited IR, at the end of the pipeline."""
        ir = self.path("m.mlir")
        text = self.ran("nanoc", "compile", "models/gpt2.cpp", *overrides({**GPT2, "num_layers": 1}),
                        "--target", "cpu", "--stop-after", "memory", "--locations")
        changed, count = re.subn(r"(step\.buffer[^\n]*?offset = )[1-9]\d*( : i64)", r"\g<1>0\2", text, count=1)
        self.assertEqual(count, 1)
        with open(ir, "w", encoding="utf-8") as file:
            file.write(changed)
        error, path = self.failed(2, ir, "--from", "memory", "--target", "cpu")
        page = self.browser
        page.open(path)
        self.assertEqual(page.text("#failure"), error)
        self.assertRegex(page.text("#where"), r"^It was reported by nano-verify-(liveness|races) in the stage verify")

    def test_no_page(self):
        """What is wrong with the command line is of no model; what is no C++ is none."""
        for arguments in (("models/gpt2.cpp", "--target", "toaster"), (self.path("none.cpp"),),
                          ("tests/compiler/Inputs/typos.cpp",)):
            _, path = self.failed(2, *arguments)
            self.assertFalse(os.path.exists(path))
        # A page that cannot be written: the compilation's error comes first.
        done = run_command("nanoc", "compile", "tests/compiler/Inputs/no-derivative.cpp", "-o",
                           self.path("f.plan"), "--explore", self.path("nothing/f.html"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("no derivative flows", done.stderr.splitlines()[0])
        self.assertIn("nothing/f.html", done.stderr.splitlines()[-1])


class Large(RunTest):
    """gpt124m's layers for four numbers of ranks, of less width."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plan, cls.page = (os.path.join(cls.scratch.name, name) for name in ("g.plan", "g.html"))
        done = run_command("nanoc", "compile", "models/gpt124m.cpp", "-o", cls.plan, "--target", "cuda", "--world", "1,2,4,8",
                           *overrides({**GPT124M, "global_batch": 2048}), "--report-memory", "--explore", cls.page)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        cls.said = done.stdout

    def test_size(self):
        """With its passes it stays below six megabytes."""
        self.assertLess(os.path.getsize(self.page), 6e6)

    @unittest.skipUnless(browser.find(), "no Chromium: tools/setup installs it")
    def test_every_view(self):
        """Every view, reached and used with the mouse, beside what the plan says."""
        view = browser.Browser()
        self.addCleanup(view.close)
        view.open(self.page)
        table = self.ran("nanoc", "simulate", self.plan)
        steps = {line.split()[0]: float(line.split()[1]) for line in table.splitlines() if re.match(r" +[1248] ", line)}
        self.assertEqual({row[0]: row[2] for row in view.rows("worlds")}.keys(), steps.keys())
        for row in view.rows("worlds"):
            self.assertAlmostEqual(milliseconds(row[2]), steps[row[0]], delta=0.0011)

        def press(link, wanted):
            view.click(link)
            view.wait(wanted)

        def enter(name):
            press(f"#views a[href*={name}]", f"document.getElementById('view').dataset.view === '{name}'")

        enter("pipeline")
        press("a[data-pass=nano-fuse]", "document.querySelector('#panel h2')?.textContent === 'nano-fuse'")
        self.assertIn("kernels and library calls", view.text("#work"))
        self.assertTrue(view.text("#changes .diff"))
        # By keyboard: the focus stays where it was when the view is made anew.
        view.evaluate("document.querySelector('a[data-pass=nano-schedule]').focus()")
        view.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
        view.wait("document.querySelector('#panel h2')?.textContent === 'nano-schedule'")
        self.assertEqual(view.evaluate("document.activeElement.dataset.pass"), "nano-schedule")
        enter("model")
        source = read_bytes(os.path.join(ROOT, "models/gpt124m.cpp")).decode().splitlines()
        line = f"models/gpt124m.cpp:{1 + next(i for i, text in enumerate(source) if 'attention(rope(norm(q))' in text)}"
        press(f"#source a[data-line='{line}']", "document.querySelector('#panel h2')")
        text = self.ran("nanoc", "explain", line, self.plan, "--lines", 1000)
        cost = re.search(r"what runs for it: (\d+ launches a step, [\d.]+ \S+ predicted)", text)[1]
        self.assertTrue(view.text("#cost").startswith(cost), (view.text("#cost"), cost))
        kernel = view.rows("kernels")[0][0]
        press("#kernels a", "document.getElementById('text')")
        self.assertIn(kernel, view.text("#text"))
        self.assertIn(line, view.texts("#lines a"))
        press("#own a", "document.getElementById('view').dataset.view === 'schedule'")
        self.assertTrue(view.text("#panel h2").endswith(kernel))
        enter("graph")
        first = view.text("#program option")
        commands = len(re.findall(r"^  ", re.search(rf"\nprogram {first}: .*\n((?:  .*\n)*)", self.ran("nanorun", "--describe", self.plan))[1], re.M))
        self.assertEqual(number(re.match(r"[\d,]+", view.text("#counts"))[0]), commands)
        layers = {row[0] for row in view.rows("shown")}
        self.assertLessEqual({f"blocks.{i}" for i in range(GPT124M["num_layers"])}, layers)
        press("#shown tbody tr:nth-child(5) a", "location.hash.includes('open=')")
        enter("memory")
        report = re.search(rf"^program {view.text('#program option:checked')}: ([\d.]+ \wB) of transient buffers, (?:at the floor|.* floor of ([\d.]+ \wB))",
                           self.said, re.M)
        self.assertEqual(view.text("#peak strong"), report[2] or report[1])
        press("#holders a", "document.getElementById('buffer')")
        enter("schedule")
        for world in ("8", "2"):
            view.evaluate("(() => { const menu = document.querySelector('select[name=world]');"
                          f"menu.value = '{world}'; menu.dispatchEvent(new Event('change')); }})()")
            view.wait(f"document.getElementById('step').innerText.includes('on {world} ranks ')")
            self.assertAlmostEqual(milliseconds(re.search(r"take ([\d.]+ \S+):", view.text("#step"))[1]), steps[world], delta=0.0011)
            self.assertTrue(view.rows("waits") and view.rows("path") and view.rows("exposed"))
        enter("run")
        self.assertIn("No run was given", view.text(".missing"))
        self.assertEqual(view.errors, [])
        self.assertEqual([url for url in view.requests if not url.startswith(("file:", "data:", "about:"))], [])


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
