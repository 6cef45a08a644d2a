"""What tools/gpu_check makes of runs: whether one agrees with what is expected, figures of traces, the
table. Carried to the machine with the GPU beside it."""

import math
import re
import time

import harness

FULL_TOKENS = 49152  # of gpt124m at full size, a micro-batch


class Skipped(Exception):
    """A part that cannot run here, and why."""


class Failed(Exception):
    """A part that ran and did not hold."""


def worst_of(errors):
    """The name of the largest of {name: error}; what is not a number is larger than any."""
    return max(errors, key=lambda name: math.inf if math.isnan(errors[name]) else errors[name])


def compare(expected, losses, parameters, wanted):
    """(figures, a line) of a run against what is expected; Failed where it does not hold. `losses`: those
    of training and of validation; `parameters` and `wanted`: {name: numbers}."""
    (train, val), counts = losses, (len(expected["train"]), len(expected["val"]))
    if (len(train), len(val)) != counts:
        raise Failed(f"{len(train)} and {len(val)} losses, not {counts[0]} and {counts[1]}")
    if not train:
        raise Failed("there is no loss to compare")
    errors = dict(enumerate(
        abs(a - b) / abs(b) for a, b in zip(train + val, expected["train"] + expected["val"])))
    ratios = {}
    for tensor, tolerance in expected["tolerance"].items():
        sizes = [len(values[tensor]) if tensor in values else 0 for values in (parameters, wanted)]
        if sizes[0] != sizes[1] or not sizes[0]:
            raise Failed(f"parameter {tensor} has {sizes[0]} numbers, not {sizes[1]}")
        ratios[tensor] = harness.distance(parameters[tensor], wanted[tensor]) / tolerance
    step, worst = worst_of(errors), worst_of(ratios)
    allowed = expected["loss_tolerance"]
    figures = {"worst_loss_error": errors[step], "first_loss_error": errors[0], "loss_tolerance": allowed,
               "worst_parameter": worst, "worst_parameter_of_tolerance": ratios[worst]}
    text = (f"losses {train[0]:.4f} … {train[-1]:.4f}, worst error {errors[step]:.1e} (allowed {allowed:.0e}); "
            f"worst parameter {worst} at {ratios[worst]:.2f} of its tolerance")
    if not errors[step] <= allowed:
        first = next(i for i, error in errors.items() if not error <= allowed)
        raise Failed(f"{text}; first at loss {first + 1}")
    if not ratios[worst] <= 1:
        raise Failed(text)
    return figures, text


def read_trace(trace):
    """Figures of a trace: what commands took, row kernels against a copy, the head, the worst gaps."""
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
    # Row kernels: launches that move at least 8 MB and are not bound by something else than bytes.
    special = re.compile("attention|scan|scatter|gather|matmul")
    rows = [
        event for event in events
        if event["cat"] == "launch" and event["args"]["bytes"] >= 8e6
        and not special.search(event["args"]["kernel"]) and "floor_us" in event["args"]
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
    # The head: products with a dimension of the padded vocabulary, and the kernels of the soft cap: the
    # loss, and the gradient of the logits where that is another one.
    products = [e for e in events if e["cat"] == "matmul" and 50304 in e["args"]["shape"]]
    training = {e["args"].get("program") for e in products}
    losses = [e for e in events if e["cat"] == "launch" and e["args"].get("program") in training
              and "sigmoid" in e["args"]["kernel"]]
    if products:
        spent = sum(e["dur"] for e in products)
        found["head_products_us"] = spent
        found["head_loss_us"] = sum(e["dur"] for e in losses)
        found["head_ratio"] = (spent + found["head_loss_us"]) / spent
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
