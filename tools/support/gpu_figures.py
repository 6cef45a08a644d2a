"""What tools/gpu_check makes of runs: figures of traces and logs, the table. Carried to the machine with the
GPU beside it."""

import math
import re
import time

# Of the small models.
STEPS = 20
VAL_TOKENS = 1024
# Of gpt124m at full size: tokens in a micro-batch, and rows of the head's weight (50,257 padded).
FULL_TOKENS = 49152
VOCABULARY = 50304
WORLDS = (1, 2, 4, 8)


class Skipped(Exception):
    """A part that cannot run here, and why."""


class Failed(Exception):
    """A part that ran and did not hold."""


def read_trace(trace):
    """Figures of a trace: what commands took, row kernels against a copy, the worst gaps."""
    kernels = trace["kernels"]
    other = trace["otherData"]
    events = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == 0]
    found = {
        "commands_ms": other["us"] / 1e3,
        "floor_ms": other.get("floor_us", 0) / 1e3,
        "rates": other.get("rates"),
        "largest_gaps": [
            {key: kernel.get(key) for key in ("name", "runs", "us", "floor_us", "gap_us")} for kernel in kernels[:25]
        ],
    }
    # Row kernels: launches that move at least 8 MB and are not bound by something else than bytes. One that is
    # far faster than a copy of its operands reads only some of their bytes, such as one logit of a row.
    special = re.compile("attention|scan|scatter|gather|matmul")
    rows = [
        event for event in events
        if event["cat"] == "launch" and event["args"]["bytes"] >= 8e6
        and not special.search(event["args"]["kernel"]) and "matmul" not in event["args"].get("summary", "")
        and event["args"].get("floor_us", math.inf) <= 1.5 * event["dur"]
    ]
    if rows:
        spent = sum(event["dur"] for event in rows)
        found["row_kernels_us"] = spent
        found["row_kernels_of_copy"] = sum(event["args"]["floor_us"] for event in rows) / max(spent, 1e-9)
        by_kernel = {}
        for event in rows:
            sums = by_kernel.setdefault(event["args"]["kernel"], [0, 0, 0])
            sums[0] += event["dur"]
            sums[1] += event["args"]["floor_us"]
            sums[2] += 1
        found["row_kernels"] = {
            name: {"us": sums[0], "of_copy": round(sums[1] / max(sums[0], 1e-9), 3), "runs": sums[2]}
            for name, sums in sorted(by_kernel.items(), key=lambda item: -item[1][0])
        }
    attention = {}
    for event in events:
        if event["cat"] == "launch" and "attention" in event["args"]["kernel"]:
            attention[event["args"]["kernel"]] = attention.get(event["args"]["kernel"], 0) + event["dur"]
    found["attention_us"] = attention
    return found


def read_start(log, seconds):
    """Milliseconds of the parts of a run's start by its log; "end": what the process of `seconds` took
    after the first step."""
    parts = next((entry["ms"] for entry in log if entry.get("event") == "start"), None)
    if parts is None:
        raise Failed("the log does not say what the parts of the start took")
    return {**parts, "end": round(1e3 * seconds - parts["total"], 2)}


def start_text(parts):
    """Those parts, and in brackets what parts of them the device says."""
    own = {name: value for name, value in parts.items() if not name.startswith("device_")}
    device = {name.removeprefix("device_"): value for name, value in parts.items() if name not in own}
    text = ", ".join(f"{name} {value:.0f}" for name, value in own.items())
    return text + (f" ({', '.join(f'{name} {value:.0f}' for name, value in device.items())})" if device else "")


def joined(events):
    """The times that events cover, as (begin, end) in order, none touching another."""
    spans = []
    for begin, end in sorted((event["ts"], event["ts"] + event["dur"]) for event in events):
        if spans and begin <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((begin, end))
    return spans


def overlap(some, others):
    """The time that two such lists both cover."""
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in some for b in others)


def read_communication(trace):
    """Of a trace of many ranks: a rank's communication, and how much of it no other command hides."""
    exchanges, idle = ("all_reduce", "reduce_scatter", "all_gather"), ("record", "wait")
    ranks = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            ranks.setdefault(event["pid"], []).append(event)
    found = []
    for _, events in sorted(ranks.items()):
        communication = joined(event for event in events if event["cat"] in exchanges)
        work = joined(event for event in events if event["cat"] not in exchanges + idle)
        spent = sum(end - begin for begin, end in communication)
        whole = joined(events)
        step = whole[-1][1] - whole[0][0]
        exposed = spent - overlap(communication, work)
        found.append({"communication_ms": spent / 1e3, "exposed_ms": exposed / 1e3, "exposed_of_step": exposed / step,
                      "traced_step_ms": step / 1e3, "work_ms": sum(end - begin for begin, end in work) / 1e3})
    if not found:
        raise Failed("the trace has no commands")
    return {**found[0], "ranks_traced": len(found),
            "worst_exposed_of_step": max(each["exposed_of_step"] for each in found)}


TARGETS = [  # of every full case: figure, bound, at least or at most; no bound: what it is
    ("row_kernels_of_copy", 0.85, "at least"),
    ("head_ratio", 1.25, "at most"),
    ("idle", 0.01, "at most"),
    ("idle_estimate", None, "a step less its commands, each alone"),
    ("cold_start_s", 5, "at most"),
    ("warm_start_s", 1, "at most"),
    ("graph_step_ms", 75, "at most"),
    ("tuned_step_ms", 75, "at most"),
    ("windows_step_ms", None, "the median over the windows of a whole run"),
]


def print_table(check):
    """Prints figures, what was skipped and the counts; whether something passed and nothing failed."""
    for name in check.manifest["full"]:
        figures = check.figures.get(name, {})
        if not figures:
            continue
        print(f"\n{name}: gpt124m, {FULL_TOKENS} tokens, one rank")
        facts = figures.get("device_facts", {})
        for fact in ("allocated_bytes", "gpu_used_bytes"):
            if fact in facts:
                print(f"  {fact:26} {float(facts[fact]) / 1e9:10.2f} GB   (at most 14)")
        for figure, bound, kind in TARGETS:
            if figure in figures:
                print(f"  {figure:26} {figures[figure]:10.3f}      ({kind}{'' if bound is None else f' {bound}'})")
        for kind in ("cold", "warm"):
            if f"{kind}_start_parts" in figures:
                print(f"  {kind} start, ms: {start_text(figures[f'{kind}_start_parts'])}")
        for gap in figures.get("largest_gaps", [])[:12]:
            print(f"  {gap['us']:10.0f} us, floor {gap.get('floor_us') or 0:8.0f}, {gap['runs']:4} × {gap['name']}")
    for name, world in check.manifest.get("full_ranks", []):
        figures = check.figures.get(name, {})
        if figures:
            print(f"\n{name}: gpt124m, {FULL_TOKENS} tokens on each of {world} GPUs")
        for figure in ("step_ms", "tokens_per_s", "communication_ms", "exposed_ms", "exposed_of_step"):
            if figure in figures:
                print(f"  {figure:26} {figures[figure]:10.3f}" + ("      (at most 0.01)" if "of_step" in figure else ""))
    counts = {status: sum(part["status"] == status for part in check.parts) for status in ("passed", "failed", "skipped")}
    for part in check.parts:
        if part["status"] == "skipped":
            print(f"skipped: {part['name']}: {part['detail']}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped "
          f"in {time.monotonic() - check.begin:.0f} s")
    return counts["failed"] == 0 and counts["passed"] > 0
