#!/usr/bin/env python3
"""Adds up what tools/check ran: test reports in JUnit's format (from ctest and lit) and steps with a status of their own.
Names what failed or was skipped, and closes with the line `N passed, N failed, N skipped`.

usage: tally.py [REPORT.xml | STEP=passed|failed|skipped]...     exit status 1 when anything failed or nothing ran
"""

import os
import sys
import xml.etree.ElementTree

# ctest says "notrun" both of a test that chose to be skipped and of one that could not be started; the message tells which.
SKIPPED_ON_PURPOSE = ("SKIP_RETURN_CODE", "SKIP_REGULAR_EXPRESSION", "Disabled")


def status_of(case):
    """passed, failed or skipped, and why, of a <testcase>."""
    for child in case:
        if child.tag in ("failure", "error"):
            return "failed", child.get("message", "")
    status, skipped = case.get("status"), case.find("skipped")
    why = "" if skipped is None else skipped.get("message") or ""
    if status == "disabled":
        return "skipped", "disabled"
    if status == "notrun":
        return ("skipped" if why.startswith(SKIPPED_ON_PURPOSE) else "failed"), why or "could not be started"
    if status == "fail":
        return "failed", ""
    return ("passed" if skipped is None else "skipped"), why


def results(argument):
    """Yields (name, status, why)."""
    if "=" in argument and not os.path.exists(argument):
        name, status = argument.rsplit("=", 1)
        if status not in ("passed", "failed", "skipped"):
            raise ValueError(f"{argument}: not a status")
        yield name, status, ""
        return
    try:
        cases = list(xml.etree.ElementTree.parse(argument).iter("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        yield argument, "failed", f"no report: {error}"
        return
    if not cases:
        yield argument, "failed", "the report holds no test"
    for case in cases:
        name, group = case.get("name", "?"), case.get("classname", "")
        yield (name if group in ("", name) else f"{group}/{name}"), *status_of(case)


def main(arguments):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for argument in arguments:
        for name, status, why in results(argument):
            counts[status] += 1
            if status != "passed":
                print(f"{status}: {name}" + (f" ({' '.join(why.split())})" if why else ""))
    print(", ".join(f"{count} {status}" for status, count in counts.items()))
    return 1 if counts["failed"] or counts["passed"] == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
