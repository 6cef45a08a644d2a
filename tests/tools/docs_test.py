#!/usr/bin/env python3
"""What README.md and docs/ lead to is there, and the README stays a first layer."""

import glob
import os
import re
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
README_WORDS = 1200


def pages():
    yield os.path.join(ROOT, "README.md")
    folders = ("benchmarks", "docs", "docs/recipes", "runtime/comm", "runtime/emulator")
    for folder in folders:
        yield from sorted(glob.glob(os.path.join(ROOT, folder, "*.md")))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class DocsTest(unittest.TestCase):
    def test_links_lead_to_files(self):
        links = 0
        for page in pages():
            text = re.sub(r"^```.*?^```", "", read(page), flags=re.MULTILINE | re.DOTALL)
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
                if re.match(r"\w+:", target):
                    continue
                links += 1
                with self.subTest(page=os.path.relpath(page, ROOT), target=target):
                    self.assertTrue(os.path.exists(os.path.join(os.path.dirname(page), target)))
        self.assertGreater(links, 30)

    def test_every_page_is_led_to(self):
        named = {
            os.path.realpath(os.path.join(os.path.dirname(page), target))
            for page in pages()
            for target in re.findall(r"\]\(([^)#\s]+\.md)", read(page))
        }
        for page in pages():
            if page != os.path.join(ROOT, "README.md"):
                with self.subTest(page=os.path.relpath(page, ROOT)):
                    self.assertIn(os.path.realpath(page), named)

    def test_worked_examples_quote_the_tree(self):
        """What contributing.md quotes stands in the file that it links before."""
        page = os.path.join(ROOT, "docs", "contributing.md")
        examples = read(page).split("## Worked examples", 1)[1]
        parts = re.split(r"^```\n(.*?)^```$", examples, flags=re.MULTILINE | re.DOTALL)
        self.assertGreater(len(parts), 20)
        for text, quoted in zip(parts[::2], parts[1::2]):
            path = os.path.join(os.path.dirname(page), re.findall(r"\]\(([^)#\s]+)\)", text)[-1])
            with self.subTest(file=os.path.relpath(path, ROOT)):
                self.assertTrue(quoted in read(path), "it does not have:\n" + quoted)

    def test_readme_is_short(self):
        words = len(read(os.path.join(ROOT, "README.md")).split())
        self.assertLessEqual(words, README_WORDS, "move details to docs/")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], sys.argv[1]] if len(sys.argv) > 1 else None)
