"""kernel_mutants.py COUNT [--seed S]: holds the verifiers of kernels and of their launches to what the kernels do.

Random kernels, with bodies of loads and stores or of a template, a tensor map perhaps, and one launch, are changed in one
place. What a kernel does with which elements is found by running its body here, for every iteration; of a template it is
what the device library says. Wrong is a kernel that reads what it does not state to read and has not written itself,
writes what it does not state to write, adds without reading first, or touches an element outside of a buffer or of its
scratch memory; a map that loads bytes outside of its buffer or that no copy engine takes; and a launch whose buffers are
not those of the kernel. nano-opt is asked with nano-verify-kernels. Ends with a table; exit status 1 where a wrong one
passes, or where one without a change is refused.
"""

import collections
import sys

from mutants import attack
from template_mutants import SIZES, TEMPLATES

PASSES = ["-nano-verify-kernels"]
ACCESSES = ["read", "write", "read_write", "add"]
Do = collections.namedtuple("Do", "kind form buffer other at")  # kind: load or store; at: a column, or an iteration


class Kernel:
    def __init__(self, r):
        self.rows, self.columns = r.randint(1, 5), r.randint(1, 4)
        self.iterations, self.grain, self.types = self.rows, 1, ["memref<{}xi8>", "index", "index"]
        self.scratch, self.view = 0, None  # bytes; elements of a view of it, at a byte
        self.body, self.template, self.fields, self.maps, self.bytes = [], None, {}, [], 4
        self.threads, self.constant, self.aligned = r.choice([None, 32, 256]), set(), {}
        self.sizes = []  # of each argument: rows and columns
        self.access = []
        self.segments, self.launched = 1, None  # iterations of each segment
        self.operands = []  # sizes of what is launched


def elements(kernel, do, i):
    """The buffer and the elements, rows and columns, that a load or a store touches in iteration i; None: none."""
    if do.form == "if":
        return (do.buffer, [(i, 0)]) if i < do.at else None
    if do.form == "select":
        return (do.buffer if i < do.at else do.other, [(i, 0)])
    if do.form in ("row", "loop"):
        return (do.buffer, [(i, c) for c in range(kernel.columns)])
    return (do.buffer, [(i, do.at)])


def observed(kernel, iterations=None):
    """What running the body does: [reads, writes] of each buffer, whether an element is out of bounds, and the buffers of
    which an element is written without being read before."""
    does, outside, first = [[False, False] for _ in kernel.sizes], False, {}
    for i in range(min(kernel.iterations if iterations is None else iterations, 2 * kernel.rows + 2)):
        written = set()
        for do in kernel.body:
            touched = elements(kernel, do, i)
            if touched is None:
                continue
            buffer, places = touched
            rows, columns = kernel.sizes[buffer]
            for row, column in places:
                outside |= row >= rows or column >= columns
                if do.kind == "store":
                    does[buffer][1] = True
                    written.add((buffer, row, column))
                    first.setdefault((buffer, row, column), "store")
                elif (buffer, row, column) not in written:
                    does[buffer][0] = True
                    first.setdefault((buffer, row, column), "load")
    if kernel.view:
        outside |= kernel.view[0] < 0 or kernel.view[0] + 4 * kernel.view[1] > kernel.scratch
    blind = {place[0] for place, kind in first.items() if kind == "store"}  # written without being read before
    return does, outside, blind


def map_is_right(kernel, m):
    if not 0 <= m["buffer"] < len(kernel.sizes):
        return False
    rows, columns = kernel.sizes[m["buffer"]]
    if min(m["columns"], m["rows"]) < 1 or not 1 <= m["box_columns"] <= 256 or not 1 <= m["box_rows"] <= 256:
        return False
    if m["row_bytes"] % 16 or m["row_bytes"] < kernel.bytes * m["columns"] or m["swizzle_bytes"] not in (32, 64, 128):
        return False
    end = (m["rows"] - 1) * m["row_bytes"] + kernel.bytes * m["columns"]
    return end <= kernel.bytes * rows * columns and kernel.bytes * m["box_columns"] <= m["swizzle_bytes"]


def maps_are_the_templates(kernel):
    """A template counts the bytes of its boxes, and has room for them: of these buffers, and no others."""
    wanted = TEMPLATES[kernel.template].maps
    wanted = wanted(kernel.fields) if wanted else []
    return [(m["buffer"], m["box_columns"], m["box_rows"], m["swizzle_bytes"]) for m in kernel.maps] == [
        (kernel.fields[name], 64, box_rows, 128) for name, _, _, box_rows in wanted
    ]


def has_room(size, count):
    """Whether a buffer has so many elements, or rows and columns."""
    if isinstance(count, tuple):
        return size[0] >= count[0] and size[1] >= count[1]
    return count <= size[0] * size[1]


def is_right(kernel):
    buffers = len(kernel.sizes)
    if kernel.types[1:] != ["index", "index"] or "xi8" not in kernel.types[0] or len(kernel.access) != buffers:
        return False
    if kernel.iterations < 0 or kernel.grain < 1 or kernel.scratch < 0:
        return False
    if kernel.threads is not None and not 1 <= kernel.threads <= 1024:
        return False
    if any(a <= 0 or a & (a - 1) for a in kernel.aligned.values()):
        return False
    if not all(map_is_right(kernel, m) for m in kernel.maps):
        return False
    if kernel.template:
        template, f = TEMPLATES[kernel.template], kernel.fields
        if any(not 0 <= f[name] < buffers for name in template.buffers()):
            return False
        if any(f[n] < 1 for n in SIZES if n in f) or not template.right(f):
            return False
        does = [[False, False] for _ in range(buffers)]
        for name in template.reads + template.adds:
            does[f[name]][0] = True
        for name in template.writes + template.adds:
            does[f[name]][1] = True
        counts = template.reach(f)
        if any(not has_room(kernel.sizes[f[n]], counts[n]) for n in counts) or not maps_are_the_templates(kernel):
            return False
        if any(f.get(n, 0) < 0 for n in ("in_matrix", "in_row", "out_matrix", "out_row")):
            return False
        blind = {f[name] for name in template.writes}
    else:
        does, outside, blind = observed(kernel)
        if outside:
            return False
    for b, (reads, writes) in enumerate(does):
        access = kernel.access[b]
        if (reads and access == "write") or (writes and access == "read") or (access == "add" and b in blind):
            return False
        if b in kernel.constant and writes:
            return False
    if kernel.segments < 1 or len(kernel.operands) != buffers * kernel.segments:
        return False
    if any(kernel.operands[k] != kernel.sizes[k % buffers] for k in range(len(kernel.operands))):
        return False
    if kernel.launched is not None:
        if len(kernel.launched) != kernel.segments or min(kernel.launched) < 0:
            return False
        # An iteration of a body is a row, unless nothing is done in it; one of a template is the template's own matter.
        return kernel.template is not None or not observed(kernel, max(kernel.launched))[1]
    return True


# Valid kernels.


def random_do(kernel, r, kind):
    forms = ["at", "row", "loop", "cast"] + (["if", "select"] if kernel.rows > 1 else [])
    form, buffers = r.choice(forms), range(len(kernel.sizes))
    at = r.randint(1, kernel.rows - 1) if form in ("if", "select") else r.randrange(kernel.columns)
    return Do(kind, form, r.choice(buffers), r.choice(buffers), at)


def make(r):
    kernel = Kernel(r)
    kernel.sizes = [(kernel.rows, kernel.columns) for _ in range(r.randint(2, 4))]
    if r.random() < 0.5:
        make_template(kernel, r)
    else:
        kernel.body = [random_do(kernel, r, r.choice(["load", "store"])) for _ in range(r.randint(1, 5))]
        for b in range(len(kernel.sizes)):
            if not any(observed(kernel)[0][b]):
                kernel.body.append(Do(r.choice(["load", "store"]), "at", b, b, 0))
        if r.random() < 0.4:
            kernel.view = (64 * r.randint(0, 2), r.randint(1, 16))
            kernel.scratch = kernel.view[0] + 64
        kernel.access = [
            "read_write" if all(d) else "write" if d[1] else "read" for d in observed(kernel)[0]
        ]
        # A body that reads back what it has written may state to read it too, and states it where only this program
        # sees that it need not.
        for k, do in enumerate(kernel.body):
            stores = [] if do.form == "if" else kernel.body[:k]
            if do.kind == "load" and do._replace(kind="store") not in stores:
                for b in {do.buffer, do.other} if do.form == "select" else {do.buffer}:
                    kernel.access[b] = "read_write" if kernel.access[b] == "write" else kernel.access[b]
    if r.random() < 0.4:
        rows, columns = 8, 16
        kernel.sizes.append((rows, columns))
        kernel.access.append("read")
        b = len(kernel.sizes) - 1
        if not kernel.template:
            kernel.body.append(Do("load", "at", b, b, 0))
            kernel.sizes[b] = (max(rows, kernel.rows), columns)
            kernel.maps = [dict(buffer=b, columns=columns, rows=kernel.sizes[b][0], row_bytes=64, box_columns=r.choice([4, 8, 16]),
                              box_rows=r.choice([1, 8, 64]), swizzle_bytes=r.choice([64, 128]))]  # fmt: skip
        else:
            kernel.sizes.pop(), kernel.access.pop()
    kernel.constant = {b for b, a in enumerate(kernel.access) if a == "read" and r.random() < 0.3}
    kernel.aligned = {b: 16 for b in range(len(kernel.sizes)) if r.random() < 0.2}
    kernel.segments = r.choice([1, 1, 2])
    kernel.operands = list(kernel.sizes) * kernel.segments
    if r.random() < 0.5:
        kernel.launched = [r.randint(0, kernel.rows) for _ in range(kernel.segments)]
    return kernel


def make_template(kernel, r):
    kernel.template = r.choice(list(TEMPLATES))
    template = TEMPLATES[kernel.template]
    f = kernel.fields = {name: r.randint(1, 6) for name in SIZES}
    f["in_row"], f["out_row"] = f["p"] + r.randint(0, 2), f["q_size"] + r.randint(0, 2)
    f["in_matrix"], f["out_matrix"] = f["q_size"] * f["in_row"], f["p"] * f["out_row"]
    template.sizes(f, r)
    names = list(template.buffers())
    r.shuffle(names)
    f.update({name: b for b, name in enumerate(names)})
    counts = template.reach(f)
    sizes = [counts.get(name, 16) for name in names]
    kernel.sizes = [size if isinstance(size, tuple) else (size, 1) for size in sizes]
    kernel.access = ["read" if name in template.reads else "write" if name in template.writes else "add" for name in names]
    kernel.rows = kernel.iterations = 1
    # Those that the template does not have: its text is without them.
    text = template.text(f)
    for name in [n for n in f if n not in names and template.text({**f, n: "?"}) == text]:
        del f[name]
    if template.maps:
        kernel.bytes = 2
        kernel.maps = [
            dict(buffer=f[name], columns=columns, rows=rows, row_bytes=2 * columns, box_columns=64, box_rows=box_rows, swizzle_bytes=128)
            for name, columns, rows, box_rows in template.maps(f)
        ]


# Changes.


def change_access(kernel, r):
    b = r.randrange(len(kernel.access))
    kernel.access[b] = r.choice(ACCESSES)


def move_do(kernel, r):
    if kernel.body:
        k = r.randrange(len(kernel.body))
        kernel.body[k] = kernel.body[k]._replace(buffer=r.randrange(len(kernel.sizes)))


def turn_do(kernel, r):
    if kernel.body:
        k = r.randrange(len(kernel.body))
        kernel.body[k] = kernel.body[k]._replace(kind="load" if kernel.body[k].kind == "store" else "store")


def drop_do(kernel, r):
    if kernel.body:
        kernel.body.pop(r.randrange(len(kernel.body)))


def add_do(kernel, r):
    if kernel.body:
        kernel.body.insert(r.randrange(len(kernel.body) + 1), random_do(kernel, r, r.choice(["load", "store"])))


def swap_do(kernel, r):
    if len(kernel.body) > 1:
        a, b = r.sample(range(len(kernel.body)), 2)
        kernel.body[a], kernel.body[b] = kernel.body[b], kernel.body[a]


def other_place(kernel, r):
    places = [k for k, do in enumerate(kernel.body) if do.form in ("at", "cast")]
    if places:
        k = r.choice(places)
        kernel.body[k] = kernel.body[k]._replace(at=r.choice([0, 1, kernel.columns - 1, kernel.columns]))


def change_map(kernel, r):
    if kernel.maps:
        changed = r.choice(kernel.maps)
        name = r.choice(list(changed))
        near = changed[name]
        changed[name] = r.choice([near - 1, near + 1, 2 * near, near // 2, near + 16, 0, -1, 256, 257, 1 << 40])


def change_maps(kernel, r):
    if kernel.maps:
        k = r.randrange(len(kernel.maps))
        how = r.randrange(3)
        if how == 0:
            kernel.maps.pop(k)
        elif how == 1:
            kernel.maps.insert(k, dict(kernel.maps[k]))
        else:
            kernel.maps[k], kernel.maps[0] = kernel.maps[0], kernel.maps[k]


def change_number(kernel, r):
    if kernel.template:
        buffers = TEMPLATES[kernel.template].buffers()
        name = r.choice([name for name in kernel.fields if name not in buffers])
        near = kernel.fields[name]
        kernel.fields[name] = r.choice([near - 1, near + 1, near + 2, 2 * near, 0, -1, 1 << 40])


def change_buffer(kernel, r):
    if kernel.template:
        kernel.fields[r.choice(TEMPLATES[kernel.template].buffers())] = r.randint(-1, len(kernel.sizes))


def change_iterations(kernel, r):
    kernel.iterations = r.choice([kernel.iterations - 1, kernel.iterations + 1, 2 * kernel.iterations, -1, 0])


def change_grain(kernel, r):
    kernel.grain = r.choice([0, 2, -1, 1 << 40])


def change_scratch(kernel, r):
    if kernel.view and r.random() < 0.5:
        at, size = kernel.view
        kernel.view = r.choice([(at + 64, size), (at, size + 16), (at, max(size - 1, 1)), (at + 4, size)])
    else:
        kernel.scratch = max(0, kernel.scratch + r.choice([-64, -4, 64]))


def change_fixed(kernel, r):
    k = r.randrange(3)
    if r.random() < 0.3:
        kernel.types.pop(k)
    else:
        kernel.types[k] = r.choice(["i64", "index", "memref<{}xf32>", "memref<{}xi8>"])


def change_parameters(kernel, r):
    b = r.randrange(len(kernel.access))
    if r.random() < 0.5:
        kernel.access.pop()
    else:
        kernel.access[b] = r.choice(ACCESSES)
        kernel.constant.symmetric_difference_update({b})


def change_alignment(kernel, r):
    kernel.aligned[r.randrange(len(kernel.access))] = r.choice([1, 3, 8, -16, 24, 1 << 30])


def change_threads(kernel, r):
    if kernel.threads:
        kernel.threads = r.choice([0, -1, 1, 1024, 1025, 1 << 40])


def change_operands(kernel, r):
    k = r.randrange(len(kernel.operands))
    how = r.randrange(3)
    if how == 0:
        kernel.operands.pop(k)
    elif how == 1:
        kernel.operands.insert(k, kernel.operands[k])
    else:
        rows, columns = kernel.operands[k]
        kernel.operands[k] = r.choice([(rows + 1, columns), (rows, columns + 1), (columns, rows), (max(rows - 1, 1), columns)])


def change_segments(kernel, r):
    kernel.segments = r.choice([0, -1, kernel.segments + 1, kernel.segments - 1])


def change_launched(kernel, r):
    if not kernel.launched:
        return
    k = r.randrange(len(kernel.launched))
    if r.random() < 0.3:
        kernel.launched.pop(k)
    else:
        kernel.launched[k] = r.choice([-1, 0, kernel.rows, kernel.rows + 1, 1 << 40])


CHANGES = {
    "an access stated otherwise": change_access, "a load or store of another buffer": move_do, "a load made a store, or a store a load": turn_do,
    "a load or store dropped": drop_do, "a load or store more": add_do, "two loads or stores swapped": swap_do,
    "an element beside the one that was meant": other_place, "a number of a tensor map": change_map, "a tensor map too few, too many or at another's place": change_maps, "a number of a template": change_number,
    "a buffer of a template": change_buffer, "the kernel's iterations": change_iterations, "the grain": change_grain, "scratch memory, or a view of it": change_scratch,
    "the type of scratch, begin or end": change_fixed, "a parameter dropped or made constant": change_parameters,
    "an alignment": change_alignment, "the threads of a block": change_threads, "an operand of a launch": change_operands,
    "the segments of a launch": change_segments, "the iterations of a launch": change_launched,
}  # fmt: skip


# Text.


# The end of a product that makes sums along rows.
END = """func.func @end(%p: vector<1xbf16>, %x: vector<1xbf16>) -> (vector<1xbf16>, f32) {
%f = arith.constant 1.0 : f32
func.return %p, %f : vector<1xbf16>, f32
}"""


def memref(size, bytes=4):
    return f"memref<{size[0]}x{size[1]}x{'f32' if bytes == 4 else 'bf16'}>"


def do_text(kernel, k, do):
    b, type_ = f"%b{do.buffer}", memref(kernel.sizes[do.buffer])
    lines, close, place = [], [], f"%i, %c{do.at}"
    if do.form in ("if", "select"):
        lines.append(f"%p{k} = arith.cmpi slt, %i, %c{do.at} : index")
        place = "%i, %c0"
    if do.form == "if":
        lines.append(f"scf.if %p{k} {{")
        close = ["}"]
    elif do.form == "select":
        lines.append(f"%m{k} = arith.select %p{k}, %b{do.buffer}, %b{do.other} : {type_}")
        b = f"%m{k}"
    elif do.form == "loop":
        lines.append(f"scf.for %j{k} = %c0 to %c{kernel.columns} step %c1 {{")
        place, close = f"%i, %j{k}", ["}"]
    elif do.form == "cast":
        lines.append(f"%m{k} = memref.cast {b} : {type_} to memref<?x?xf32>")
        b, type_ = f"%m{k}", "memref<?x?xf32>"
    if do.form == "row":
        vector = f"vector<{kernel.columns}xf32>"
        place = "%i, %c0"
        lines.append(f"%v{k} = vector.load {b}[{place}] : {type_}, {vector}" if do.kind == "load"
                     else f"%w{k} = arith.constant dense<1.0> : {vector}\nvector.store %w{k}, {b}[{place}] : {type_}, {vector}")  # fmt: skip
    elif do.kind == "load":
        lines.append(f"%v{k} = memref.load {b}[{place}] : {type_}")
    else:
        lines.append(f"memref.store %f, {b}[{place}] : {type_}")
    return lines + close


def text_of(kernel):
    """A module: the kernel, and a program that launches it."""
    arguments = []
    for b, size in enumerate(kernel.sizes):
        stated = b < len(kernel.access)
        more = f' as "b{b}"' if stated else ""
        if stated and b in kernel.aligned:
            more += f" aligned {kernel.aligned[b]}"
        if stated and b in kernel.constant:
            more += " constant"
        arguments.append(f"{kernel.access[b] + ' ' if stated else ''}%b{b}: {memref(size, kernel.bytes)}{more}")
    names = ["%scratch", "%begin", "%end"][3 - len(kernel.types) :]
    arguments += [f"{n}: {t.format(kernel.scratch)}" for n, t in zip(names, kernel.types)]
    attributes = [f"iterations = {kernel.iterations} : i64", f"grain = {kernel.grain} : i64"]
    if kernel.threads is not None:
        attributes.append(f"launch = #kernel.launch<threads = {kernel.threads}>")
    if kernel.maps:
        maps = (", ".join(f"{n} = {v}" for n, v in m.items()) for m in kernel.maps)
        attributes.append(f"tensor_maps = [{', '.join(f'#kernel.tensor_map<{m}>' for m in maps)}]")
    if kernel.template:
        attributes.append(f"instantiates = #kernel.{kernel.template.split('.')[0]}<{TEMPLATES[kernel.template].text(kernel.fields)}>")
    lines = ["module {", "module @kernels {", END, f"kernel.func @k({', '.join(arguments)}) attributes {{{', '.join(attributes)}}} {{"]
    if kernel.body:
        most = max(kernel.rows, kernel.columns) + 1
        lines += [f"%c{n} = arith.constant {n} : index" for n in range(most + 1)] + ["%f = arith.constant 1.0 : f32"]
        if kernel.view:
            at, size = kernel.view
            lines += [f"%at = arith.constant {at} : index",
                      f"%s = memref.view %scratch[%at][] : memref<{kernel.scratch}xi8> to memref<{size}xf32>",
                      "memref.store %f, %s[%c0] : " + f"memref<{size}xf32>"]  # fmt: skip
        lines.append("scf.for %i = %begin to %end step %c1 {")
        for k, do in enumerate(kernel.body):
            lines += do_text(kernel, k, do)
        lines.append("}")
    lines += ["kernel.return", "}", "}", 'step.program @first attributes {role = "first"} {']
    for k, size in enumerate(kernel.operands):
        lines.append(f'%x{k} = step.buffer "x{k}" : {memref(size, kernel.bytes)}')
    options = [f"segments = {kernel.segments}"]
    if kernel.launched is not None:
        counts = ", ".join(map(str, kernel.launched))
        options.append(f"iterations = array<i64{': ' if counts else ''}{counts}>")
    operands = ", ".join(f"%x{k}" for k in range(len(kernel.operands)))
    lines.append(f"step.launch @k({operands}) {{{', '.join(options)}}} : {', '.join(memref(size, kernel.bytes) for size in kernel.operands)}")
    return "\n".join(lines + ["}", "}"]) + "\n"


if __name__ == "__main__":
    sys.exit(attack("kernels", "kernels", make, CHANGES, is_right, text_of, PASSES, wrong="wrong when run"))
