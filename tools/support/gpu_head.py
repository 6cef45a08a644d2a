"""What gpt124m's head takes beside its three matrix products alone, of two traces: of the plan that is
measured, and of one whose products are all the library's. Carried to the machine with the GPU."""

from gpu_figures import VOCABULARY, Failed

# A product of the head by the place of the vocabulary among its rows, columns and inner dimension.
PRODUCTS = ("gradient of the weight", "forward", "gradient of the input")


def places_of(event):
    """The model lines of a command; one that many lines share has all of them."""
    return set(event["args"].get("at", "").split(", ")) - {""}


def commands_of(trace):
    return [event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == 0]


def library_products(events, places):
    """{which product: its commands} of the head among those."""
    found = {}
    for event in events:
        shape = event["args"].get("shape", [])[:3]
        if event["cat"] == "matmul" and places["product"] in places_of(event) and VOCABULARY in shape:
            found.setdefault(PRODUCTS[shape.index(VOCABULARY)], []).append(event)
    return found


def training(trace, places):
    """The commands of the programs that have a product of a gradient of the head: validation has none."""
    events = commands_of(trace)
    products = library_products(events, places)
    programs = {event["args"].get("program") for which in (PRODUCTS[0], PRODUCTS[2]) for event in products.get(which, [])}
    return [event for event in events if event["args"].get("program") in programs]


def belongs(event, places):
    """Whether a command is the head's: one with an op of the soft cap or the loss; a product, transpose or
    cast of the head's alone. Not the normalization in the product's line, which the head is given."""
    at = places_of(event)
    if at & {places["cap"], places["loss"]}:
        return True
    return bool(at) and at <= set(places.values()) and "rsqrt" not in event["args"].get("summary", "")


def name_of(event):
    args = event["args"]
    return args.get("kernel") or event["cat"] + " " + "x".join(map(str, args.get("shape", [])))


def time_of(events):
    return sum(event["dur"] for event in events)


def read_head(trace, library, places):
    """Figures of the head: all of its commands in `trace` over the three products in `library`. A GPU's clock is
    not the same in two runs: the library's products are put on the clock of `trace` by those that are in both.
    Failed where a trace has not what a head has, or the two compute it in different chunks."""
    alone = library_products(training(library, places), places)
    missing = [which for which in PRODUCTS if which not in alone]
    if missing:
        raise Failed(f"the library's plan has no product of the head at {places['product']}: {', '.join(missing)}")
    work = {which: sum(e["args"]["shape"][0] * e["args"]["shape"][1] * e["args"]["shape"][2] for e in events)
            for which, events in alone.items()}
    if len(set(work.values())) != 1:
        raise Failed(f"the head's products in the library's plan are not of one size: {work}")
    head = [event for event in training(trace, places) if belongs(event, places)]
    own = library_products(head, places)
    shapes = {tuple(event["args"]["shape"]) for some in alone.values() for event in some}
    for which, some in own.items():
        others = {tuple(event["args"]["shape"]) for event in some} - shapes
        if others or len(some) != len(alone[which]):
            raise Failed(f"the head's chunks are others than in the library's plan: {len(some)} of the product "
                         f"'{which}', {sorted(others) or 'same shapes'}, there {len(alone[which])}")
    generated = [event for event in head if "matmul" in event["args"].get("summary", "")]
    absent = [which for which in PRODUCTS if which not in own]
    if len(absent) > len({name_of(event) for event in generated}):
        raise Failed(f"no command is the head's product '{absent[-1]}' at {places['product']}")
    kernels = [event for event in head if event["cat"] == "launch"]
    for part in ("cap", "loss"):
        if not any(places[part] in places_of(event) for event in kernels):
            raise Failed(f"no kernel is the head's {part} at {places[part]}")
    # Whoever makes the gradient of the logits reads them, in bf16, and writes no less than a byte for each.
    forward = alone["forward"][0]["args"]["shape"]
    logits = work["forward"] / forward[2]
    moved = sum(event["args"]["bytes"] for event in kernels
                if places["cap"] in places_of(event) and event not in generated)
    if moved < 3 * logits:
        raise Failed(f"the kernels of the head's cap at {places['cap']} move {moved / logits:.1f} bytes for each logit: "
                     "none is the gradient of the logits")
    both = [which for which in PRODUCTS if which in own]
    clock = 1
    if both:
        clock = sum(time_of(own[which]) for which in both) / sum(time_of(alone[which]) for which in both)
    products = {which: clock * time_of(alone[which]) for which in PRODUCTS}
    spent, whole = sum(products.values()), time_of(head)
    commands = {}
    for event in head:
        sums = commands.setdefault(name_of(event), {"us": 0, "runs": 0})
        sums["us"] += event["dur"]
        sums["runs"] += 1
    return {
        "head_products_us": spent,
        "head_us": whole,
        "head_loss_us": whole - spent,
        "head_ratio": whole / spent,
        "head_products_alone": products,
        "head_clock": clock,
        "head_commands": dict(sorted(commands.items(), key=lambda item: -item[1]["us"])),
    }
