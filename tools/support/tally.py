#!/usr/bin/env python3
"""Adds up what tools/check ran: ctest's reports in JUnit's format, lit's in JSON, and steps with a
status of their own. Shows the end of what the first tests wrote that failed, names what failed or
was skipped, and closes with the line `N passed, N failed, N skipped`.

usage: tally.py [REPORT.xml | REPORT.json | STEP=passed|failed|skipped]...     exit status 1 when
anything failed or nothing ran"""

import json
import os
import sys
import xml.etree.ElementTree

# How much is shown of what failed tests wrote.
MOST_TESTS, MOST_LINES = 5, 40

# ctest says "notrun" both of a test that chose to be skipped and of one that could not be started;
# the message tells which.
SKIPPED_ON_PURPOSE = ("SKIP_RETURN_CODE", "SKIP_REGULAR_EXPRESSION")


LIT_STATUS = {
    "PASS": "passed",
    "FLAKYPASS": "passed",
    "XFAIL": "passed",
    "UNSUPPORTED": "skipped",
    "SKIPPED": "skipped",
    "EXCLUDED": "skipped",
}


def ctest_cases(path):
    """Yields (name, status, why, output) of each <testcase>."""
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        name, status, skipped = case.get("name", "?"), case.get("status"), case.find("skipped")
        why = "" if skipped is None else skipped.get("message") or ""
        output = case.findtext("system-out") or ""
        if status == "run":
            yield name, "passed", "", output
        elif status == "disabled":
            yield name, "skipped", "disabled", output
        elif status == "notrun":
            on_purpose = why.startswith(SKIPPED_ON_PURPOSE)
            why = why or "could not be started"
            yield name, "skipped" if on_purpose else "failed", why, output
        else:
            yield name, "failed", "", output


def lit_cases(path):
    """Yields (name, status, why, output). (lit's JUnit report shows a test that passes against its
    XFAIL as passed; its JSON does not.)"""
    with open(path, encoding="utf-8") as file:
        for test in json.load(file)["tests"]:
            status = LIT_STATUS.get(test["code"], "failed")
            why = "" if test["code"] in ("PASS", "FAIL") else test["code"]
            yield test["name"], status, why, test.get("output") or ""


def results(argument):
    """Yields (name, status, why, output)."""
    if "=" in argument and not os.path.exists(argument):
        name, status = argument.rsplit("=", 1)
        if status not in ("passed", "failed", "skipped"):
            raise ValueError(f"{argument}: not a status")
        yield name, status, "", ""
        return
    try:
        cases = list((lit_cases if argument.endswith(".json") else ctest_cases)(argument))
    except (OSError, ValueError, KeyError, xml.etree.ElementTree.ParseError) as error:
        yield argument, "failed", f"no report: {error}", ""
        return
    if not cases:
        yield argument, "failed", "the report holds no test", ""
    yield from cases


def main(arguments):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    names, outputs = [], []
    for argument in arguments:
        for name, status, why, output in results(argument):
            counts[status] += 1
            if status != "passed":
                names.append(f"{status}: {name}" + (f" ({' '.join(why.split())})" if why else ""))
            if status == "failed" and output.strip():
                outputs.append((name, output.strip("\n").split("\n")))
    for name, lines in outputs[:MOST_TESTS]:
        cut = len(lines) - MOST_LINES
        print(f"--- {name}" + (f" (without its first {cut} lines)" if cut > 0 else ""))
        print("\n".join(lines[-MOST_LINES:]))
    if len(outputs) > MOST_TESTS:
        print(f"--- and {len(outputs) - MOST_TESTS} more tests that failed")
    if names:
        print("\n".join(names))
    print(", ".join(f"{count} {status}" for status, count in counts.items()))
    return 1 if counts["failed"] or counts["passed"] == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
