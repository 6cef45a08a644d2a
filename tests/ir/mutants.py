"""What the attacks on verifiers share: nano-opt is asked about valid things and about mutants of them, and a table says
what it let pass."""

import argparse
import collections
import copy
import os
import random
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
NANO_OPT = os.path.join(os.environ.get("NANO_BIN", os.path.join(ROOT, "build", "bin")), "nano-opt")
BATCH = 1000  # texts of one process


def refusals(texts, *passes):
    """For each text the first thing that nano-opt says of it, or None; one that ends nano-opt ends this program."""
    begins, line = [], 1
    with tempfile.NamedTemporaryFile("w", suffix=".mlir", encoding="utf-8") as file:
        for text in texts:
            text = "// -----\n" * bool(begins) + text
            begins.append(line)
            line += text.count("\n")
            file.write(text)
        file.flush()
        words = [NANO_OPT, *passes, "--split-input-file", file.name, "-o", "/dev/null"]
        done = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace", check=False)
        if done.returncode not in (0, 1):
            sys.exit(f"mutants: nano-opt ends with status {done.returncode}: {done.stderr[-500:]!r}")
        found = [None] * len(begins)
        place = 0
        for number, message in re.findall(r"^" + re.escape(file.name) + r":(\d+):\d+: error: (.*)$", done.stderr, re.M):
            while place + 1 < len(begins) and begins[place + 1] <= int(number):
                place += 1
            found[place] = found[place] or message
    return found


def count_of(text):
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of 0 or more")
    return int(text)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"mutants: {message} (see mutants --help)", file=sys.stderr)
        sys.exit(2)


def attack(prog, title, make_one, changes, right, text, passes=(), wrong="wrong", accepted="right", survivor="wrong and passes, {kind}:\n{text}"):
    """Makes valid things, changes them in one place and asks nano-opt; the exit status, 1 where one that is not right passes
    or one without a change is refused. `wrong` and `accepted`: what the table calls those that are not right, and that are;
    `survivor`: what is said of one that passes."""
    parser = Parser(prog=f"mutants --{prog}")
    parser.add_argument("count", metavar="COUNT", type=count_of)
    parser.add_argument("--seed", metavar="S", type=count_of, default=0)
    options = parser.parse_args()
    if options.count == 0:
        parser.error("say how many mutants, a whole number")
    r = random.Random(options.seed)
    rows = {kind: collections.Counter() for kind in changes}
    survivors, broken, made = [], [], 0
    while made < options.count:
        valid = [make_one(r) for _ in range(min(BATCH, options.count - made))]
        broken += [(v, why) for v, why in zip(valid, refusals(map(text, valid), *passes)) if why or not right(v)]
        mutants = []
        while len(mutants) < len(valid):
            mutant = copy.deepcopy(valid[len(mutants)])
            kind, before = r.choice(list(changes)), text(mutant)
            changes[kind](mutant, r)
            if text(mutant) != before:
                mutants.append((kind, mutant))
        for (kind, mutant), why in zip(mutants, refusals([text(m) for _, m in mutants], *passes)):
            is_one = right(mutant)
            rows[kind].update(all=1, wrong=int(not is_one), missed=int(not (is_one or why)), refused=int(is_one and bool(why)))
            if not is_one and not why:
                survivors.append((kind, mutant))
        made += len(mutants)
    print(f"| mutants of {title} | in all | {wrong} | not reported | {accepted} and refused |\n|---|---|---|---|---|")
    rows["all"] = sum(rows.values(), collections.Counter())
    for kind, row in rows.items():
        print(f"| {kind} | {row['all']} | {row['wrong']} | {row['missed']} | {row['refused']} |")
    for kind, mutant in survivors[:40]:
        print(survivor.format(kind=kind, text=text(mutant)))
    for mutant, why in broken[:40]:
        print(f"not changed and {'refused: ' + why if why else 'wrong'}:\n{text(mutant)}")
    return 1 if survivors or broken else 0
