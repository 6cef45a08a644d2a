"""What templates of the device library read, write and load by tensor maps, from their fields: what kernel_mutants.py
holds the verifiers of kernels to."""

import collections


def places(tokens, rows):
    """Of a scatter's classes of rows (nano_scatter_shape.h): as many as each has, with those that are not there."""
    classes = 128
    while classes > 1 and (classes // 2 >= rows or classes // 2 * 128 >= tokens):
        classes //= 2
    while -(-rows // classes) > 1024:
        classes *= 2
    return classes * -(-rows // classes)


def scratch_of(tokens, rows):
    """Numbers of a scatter's scratch memory; of sizes below 1 any number, as they are refused."""
    return 2 * tokens + places(tokens, rows) + 1 if min(tokens, rows) > 0 else 1


def attention(extra):
    return lambda f: (
        f"tokens = {f['tokens']}, heads = {f['heads']}, key_heads = {f['key_heads']}, head_size = {f['head_size']}, "
        f"value_size = {f['value_size']}, vector_rows = {'true' if 'dq_sums' in f else 'false'}, "
        f"multiprocessors = {f['multiprocessors']}, scale = 0.125 : f64, "
        f"q = {f['q']}, k = {f['k']}, v = {f['v']}, first = {f['first']}, last = {f['last']}, {extra(f)}"
    )


def attention_reach(f):
    queries, keys = f["tokens"] * f["heads"], f["tokens"] * f["key_heads"]
    reach = {name: queries * f["head_size"] for name in ("q", "dq")} | {name: keys * f["head_size"] for name in ("k", "dk")}
    reach |= {"v": keys * f["value_size"], "dv": keys * f["value_size"], "y": queries * f["value_size"], "dy": queries * f["value_size"]}
    reach |= {"first": f["tokens"], "last": f["tokens"], "lse": queries, "delta": queries}
    for name in ("dq", "dk", "dv"):
        reach[f"{name}_sums"] = reach[name] // 64
    return {name: count for name, count in reach.items() if name in f}


def shares_heads(f):
    return f["key_heads"] > 0 and f["heads"] % f["key_heads"] == 0


def attention_sizes(f, r):
    f["heads"] = f["key_heads"] * r.randint(1, 2)


def grad_sizes(f, r):
    attention_sizes(f, r)
    f["tokens"] = 64 * r.randint(1, 2)


def grad_text(f):
    of = lambda names: "".join(f", {n} = {f[n]}" for n in names if n in f)
    return f"lse = {f['lse']}, delta = {f['delta']}, dy = {f['dy']}, dq = [{f['dq']}], dk = [{f['dk']}], dv = [{f['dv']}]{of(SUMS)}"


def exp_sizes(f, r):
    f["columns"] = 128 * r.randint(1, 2)
    f["kept"] = r.randint(1, f["columns"])


def band_text(f):
    return (
        f"tokens = {f['tokens']}, heads = {f['heads']}, size = {f['size']}, width = {f['width']}, "
        f"multiprocessors = {f['multiprocessors']}, transpose = false, on_matrices = false, "
        f"first = {f['first']}, second = {f['second']}, y = [{f['y']}]"
    )


def recurrence_reach(f):
    return {name: f["sequences"] * f["length"] * f["channels"] for name in ("a", "b", "h")}


def recurrence_sizes(f, r):
    across = "length" if f["channels"] == 1 else "channels"
    f[across] *= f["vector"]


def product(results, more=""):
    return lambda f: (
        f"rows = {f['rows']}, columns = {f['columns']}, inner = {f['inner']}, transpose_a = false, transpose_b = true, "
        f"blocks = {f['blocks']}, a = {f['a']}, b = {f['b']}, scales = [{f['scale_a']}, {f['scale_b']}], others = [{f['other']}], "
        f"results = [{', '.join(f'array<i64: {f[name]}>' for name in results)}], added = []{more}"
    )


def product_reach(f):
    """Of an end's matrices rows and columns: sums and largest numbers are of 16 rows, of 128 columns or of 64."""
    rows, columns = f["rows"], f["columns"]
    reach = {"a": rows * f["inner"], "b": columns * f["inner"], "scale_a": 1, "scale_b": 1}
    reach |= {"other": (rows, columns), "y": (rows, columns), "row_sums": (rows, -(-columns // 128))}
    reach |= {"column_sums": (-(-rows // 16), columns), "largest": (-(-rows // 16), -(-columns // 64))}
    return {name: count for name, count in reach.items() if name in f}


def product_sizes(f, r):
    f["inner"] = 8 * r.randint(1, 2)
    f["rows"], f["columns"] = r.randint(1, 40), r.randint(1, 140)


def product_maps(first, second):
    """Of factors that both have the summed dimension last: columns, rows and the rows of a box of 64 columns."""
    return lambda f: [(first, f["inner"], f["rows"], 128), (second, f["inner"], f["columns"], 128)]


def split_counts(f):
    """A ticket, and of two blocks' two warpgroups each pair of tiles: two below each other, or the last ones side by side."""
    pairs = 0
    for rows, columns in ((f["rows"], f["columns"]), (f["size"], f["width"])):
        down, across = -(-rows // 128), -(-columns // 256)
        pairs += down // 2 * across + down % 2 * -(-across // 2)
    return 1 + 4 * pairs


def split_sizes(f, r):
    for name in ("rows", "columns", "size", "width"):
        f[name] = 8 * r.randint(1, 20)


def split_maps(f):
    factors = (("a0", "rows"), ("b0", "columns"), ("a1", "size"), ("b1", "width"))
    return [(name, f[across], f["inner"], 32) for name, across in factors]


def maps_sizes(f, r):
    f["inner"] = 8 * r.randint(1, 2)


def grouped_sizes(f, r):
    f["inner"], f["columns"] = 8 * r.randint(1, 2), 8 * r.randint(1, 2)


def tickets_sizes(f, r):
    attention_sizes(f, r)
    f["head_size"], f["value_size"] = 8 * r.randint(1, 2), 8 * r.randint(1, 2)


def five_reach(f):
    """Of a tile of 128 queries of a head two units of 4,096 sums, and a count of each behind one number."""
    units = 2 * f["heads"] * -(-f["tokens"] // 128)
    return attention_reach(f) | {"partial": 4096 * units, "counts": 1 + units}


def five_sizes(f, r):
    f["heads"], f["value_size"], f["tokens"] = f["key_heads"], f["head_size"], r.randint(1, 300)


# What a template's text says of the fields; buffers read, written and added to; elements that each reaches, as far as the
# fields say it; sizes that fit each other; whether fields do.
# `maps`: the tensor maps that it loads by, of elements of two bytes: buffer, columns, rows, rows of a box of 64 columns.
class Template(collections.namedtuple("Template", "text reads writes reach adds sizes right maps", defaults=((), lambda f, r: None, lambda f: True, None))):
    def buffers(self):
        return self.reads + self.writes + self.adds


SUMS = ("dq_sums", "dk_sums", "dv_sums")
SIZES = ("size", "tokens", "rows", "sorted_rows", "columns", "inner", "kept", "blocks", "matrices", "groups", "p", "q_size", "heads", "key_heads",
         "head_size", "value_size", "multiprocessors", "width", "sequences", "length", "channels", "vector")  # fmt: skip
TEMPLATES = {
    "scan": Template(
        lambda f: f"size = {f['size']}, maximum = false, x = {f['x']}, y = [{f['y']}]",
        ("x",), ("y",), lambda f: {"x": f["size"], "y": f["size"]},
    ),
    "argsort": Template(
        lambda f: f"rows = {f['rows']}, columns = {f['columns']}, is_shared = false, x = {f['x']}, y = [{f['y']}]",
        ("x",), ("y",), lambda f: {"x": f["rows"] * f["columns"], "y": f["rows"] * f["columns"]},
    ),
    "sparsemax": Template(
        lambda f: f"rows = {f['rows']}, columns = {f['columns']}, vector = 1, x = {f['x']}, y = [{f['y']}]",
        ("x",), ("y",), lambda f: {"x": f["rows"] * f["columns"], "y": f["rows"] * f["columns"]},
    ),
    "scatter_sort": Template(
        lambda f: f"tokens = {f['tokens']}, rows = {f['rows']}, ids = {f['ids']}, sorted = {f['sorted']}",
        ("ids",), ("sorted",), lambda f: {"ids": f["tokens"], "sorted": scratch_of(f["tokens"], f["rows"])},
    ),
    "scatter_sum": Template(
        lambda f: f"tokens = {f['tokens']}, rows = {f['rows']}, sorted_rows = {f['sorted_rows']}, columns = {f['columns']}, "
        f"vector_rows = false, x = {f['x']}, sorted = {f['sorted']}, y = [{f['y']}]",
        ("x", "sorted"), ("y",),
        lambda f: {
            "x": f["tokens"] * f["columns"], "y": f["rows"] * f["columns"], "sorted": scratch_of(f["tokens"], f["sorted_rows"])
        },
        right=lambda f: f["rows"] <= f["sorted_rows"],
        sizes=lambda f, r: f.update(sorted_rows=f["rows"] + r.randint(0, 2)),
    ),
    "transpose": Template(
        lambda f: f"matrices = {f['matrices']}, p = {f['p']}, q = {f['q_size']}, "
        + ", ".join(f"{n} = {f[n]}" for n in ("in_matrix", "in_row", "out_matrix", "out_row"))
        + f", is_vector = false, x = {f['x']}, y = {f['y']}",
        ("x",), ("y",),
        lambda f: {
            "x": (f["matrices"] - 1) * f["in_matrix"] + (f["q_size"] - 1) * f["in_row"] + f["p"],
            "y": (f["matrices"] - 1) * f["out_matrix"] + (f["p"] - 1) * f["out_row"] + f["q_size"],
        },
    ),
    "exp_matmul": Template(
        lambda f: f"rows = {f['rows']}, columns = {f['columns']}, inner = {f['inner']}, kept = {f['kept']}, blocks = {f['blocks']}, "
        f"x = {f['x']}, w = {f['w']}, targets = {f['targets']}, shift = {f['shift']}, e = [{f['e']}], parts = {f['parts']}",
        ("x", "w", "targets", "shift"), ("e", "parts"),
        lambda f: {
            "x": f["rows"] * f["inner"], "w": f["columns"] * f["inner"], "targets": f["rows"], "shift": f["rows"],
            "e": f["rows"] * f["columns"], "parts": f["rows"] * f["columns"] // 128,
        },
        sizes=lambda f, r: (exp_sizes(f, r), maps_sizes(f, r)), right=lambda f: f["columns"] % 128 == 0 and f["kept"] <= f["columns"],
        maps=product_maps("x", "w"),
    ),
    "exp_sums": Template(
        lambda f: f"rows = {f['rows']}, columns = {f['columns']}, parts = {f['parts']}, e = [{f['e']}], sum = [{f['sum']}], "
        f"largest = [{f['largest']}]",
        ("parts",), ("sum", "largest"),
        lambda f: {"parts": f["rows"] * f["columns"] // 128, "e": f["rows"] * f["columns"], "sum": f["rows"], "largest": f["rows"]},
        adds=("e",), sizes=exp_sizes, right=lambda f: f["columns"] % 128 == 0,
    ),
    "attention": Template(
        attention(lambda f: f"y = [{f['y']}], lse = [{f['lse']}]"),
        ("q", "k", "v", "first", "last"), ("y", "lse"), attention_reach, sizes=attention_sizes, right=shares_heads,
    ),
    "attention_grad": Template(
        attention(grad_text),
        ("q", "k", "v", "first", "last", "lse", "delta", "dy"), ("dq", "dk", "dv", *SUMS), attention_reach,
        sizes=grad_sizes, right=lambda f: shares_heads(f) and f["tokens"] % 64 == 0,
    ),
    "attention.tickets": Template(
        attention(lambda f: f"y = [{f['y']}], lse = [{f['lse']}], tickets = {f['tickets']}"),
        ("q", "k", "v", "first", "last"), ("y", "lse"), lambda f: attention_reach(f) | {"tickets": 1}, adds=("tickets",),
        sizes=tickets_sizes, right=shares_heads,
        maps=lambda f: [("q", f["heads"] * f["head_size"], f["tokens"], 256), ("k", f["key_heads"] * f["head_size"], f["tokens"], 64),
                        ("v", f["key_heads"] * f["value_size"], f["tokens"], 64)],
    ),
    "attention_grad.five": Template(
        attention(lambda f: grad_text(f) + f", partial = {f['partial']}, counts = {f['counts']}"),
        ("q", "k", "v", "first", "last", "lse", "delta", "dy"), ("dq", "dk", "dv", "partial"), five_reach, adds=("counts",),
        sizes=five_sizes, right=lambda f: f["heads"] == f["key_heads"] and f["head_size"] == f["value_size"],
    ),
    "recurrence": Template(
        lambda f: f"sequences = {f['sequences']}, length = {f['length']}, channels = {f['channels']}, vector = {f['vector']}, "
        f"multiprocessors = {f['multiprocessors']}, reverse = false, adjoint = false, initial = 0.0 : f64, "
        f"a = {f['a']}, b = {f['b']}, h = [{f['h']}]",
        ("a", "b"), ("h",), recurrence_reach, sizes=recurrence_sizes,
        right=lambda f: f["vector"] > 0 and f["length" if f["channels"] == 1 else "channels"] % f["vector"] == 0,
    ),
    "band_scores": Template(
        band_text, ("first", "second"), ("y",),
        lambda f: {name: f["tokens"] * f["heads"] * f["width" if name == "y" else "size"] for name in ("first", "second", "y")},
    ),
    "band_product": Template(
        band_text, ("first", "second"), ("y",),
        lambda f: {name: f["tokens"] * f["heads"] * f["width" if name == "first" else "size"] for name in ("first", "second", "y")},
    ),
    "grouped_matmul": Template(
        lambda f: f"rows = {f['rows']}, groups = {f['groups']}, columns = {f['columns']}, inner = {f['inner']}, transpose = true, "
        f"blocks = {f['blocks']}, x = {f['x']}, w = {f['w']}, ends = {f['ends']}, y = [{f['y']}]",
        ("x", "w", "ends"), ("y",),
        lambda f: {
            "x": f["rows"] * f["inner"], "w": f["groups"] * f["columns"] * f["inner"], "ends": f["groups"],
            "y": f["rows"] * f["columns"],
        },
        sizes=maps_sizes,
        maps=lambda f: [("x", f["inner"], f["rows"], 128), ("w", f["inner"], f["groups"] * f["columns"], 128)],
    ),
    "grouped_outer": Template(
        lambda f: f"rows = {f['rows']}, groups = {f['groups']}, columns = {f['columns']}, inner = {f['inner']}, "
        f"blocks = {f['blocks']}, a = {f['a']}, b = {f['b']}, ends = {f['ends']}, w = [{f['w']}]",
        ("a", "b", "ends"), ("w",),
        lambda f: {
            "a": f["rows"] * f["inner"], "b": f["rows"] * f["columns"], "ends": f["groups"],
            "w": f["groups"] * f["inner"] * f["columns"],
        },
        sizes=grouped_sizes,
        maps=lambda f: [("a", f["inner"], f["rows"], 64), ("b", f["columns"], f["rows"], 32)],
    ),
    "symmetric": Template(
        lambda f: f"matrices = {f['matrices']}, size = {f['size']}, inner = {f['inner']}, blocks = {f['blocks']}, transpose = false, "
        f"alpha = 1.0 : f64, beta = 1.0 : f64, x = {f['x']}, d = {f['d']}, c = {f['c']}",
        ("x", "d"), ("c",),
        lambda f: {
            name: f["matrices"] * f["size"] * f["inner" if name == "x" else "size"] for name in ("x", "d", "c")
        },
        sizes=maps_sizes, maps=lambda f: [("x", f["inner"], f["matrices"] * f["size"], 128)] * 2,
    ),
    "split": Template(
        lambda f: f"rows = [{f['rows']}, {f['size']}], columns = [{f['columns']}, {f['width']}], inner = {f['inner']}, "
        f"blocks = {f['blocks']}, a = [{f['a0']}, {f['a1']}], b = [{f['b0']}, {f['b1']}], c = [], sums = [{f['s0']}, {f['s1']}], "
        f"counts = {f['counts']}",
        ("a0", "a1", "b0", "b1"), (),
        lambda f: {
            "a0": f["inner"] * f["rows"], "a1": f["inner"] * f["size"], "b0": f["inner"] * f["columns"], "b1": f["inner"] * f["width"],
            "s0": f["rows"] * f["columns"], "s1": f["size"] * f["width"], "counts": split_counts(f),
        },
        adds=("s0", "s1", "counts"), sizes=split_sizes, maps=split_maps,
    ),
    "product": Template(
        product(("y", "column_sums", "largest"), ", column_sum = 1 : i64, largest = [2]"),
        ("a", "b", "scale_a", "scale_b", "other"), ("y", "column_sums", "largest"), product_reach,
        sizes=product_sizes, maps=product_maps("a", "b"),
    ),
    "product.row_sums": Template(
        product(("y", "row_sums"), ", epilogue = @end"),
        ("a", "b", "scale_a", "scale_b", "other"), ("y", "row_sums"), product_reach,
        sizes=product_sizes, maps=product_maps("a", "b"),
    ),
}  # fmt: skip
