"""tools/gpu_check prepare: the folder that is carried to the machine with the GPU: binaries, plans, token
shards, and what the CPU makes of the small models. What is large is in it compressed (NAME.gz)."""

import array
import filecmp
import gzip
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys

import harness
from gpu_compare import (F32, FEW, PERTURBATION, RUNS, all_scalars, distances, kind_of, noise_of, read_gradients,
                         relative_errors, root_mean_square, write_tensors)
from gpu_figures import FULL_TOKENS, STEPS, VAL_TOKENS, VOCABULARY, WORLDS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

# What the test of the device library's primitives compiles.
PRIMITIVES_SOURCES = ["tests/runtime/emulator/kernels", "tests/runtime/emulator/test_launch.h"]
# Carried beside the folder's own files.
SCRIPTS = ["tools/gpu_check", "tests/e2e/harness.py", "tools/support/gpu_compare.py", "tools/support/gpu_figures.py",
           "tools/support/gpu_head.py"]

SEED = 3
MAX_BYTES = 58 << 20

SMALL = {
    "num_layers": 6,
    "model_dim": 128,
    "vocab_size": 257,
    "eos_token": 256,
    "seq_len": 512,
    "val_seq_len": 512,
    "global_batch": 1024,
    "num_iterations": 40,
}
TINY = {
    "num_layers": 6,
    "vocab_size": 257,
    "eos_token": 256,
    "dtype": "f32",
    **harness.TINY,
}
HEADS_64 = {**SMALL, "model_dim": 64, "num_heads": 2, "head_dim": 64}
HEADS_128 = {**SMALL, "num_heads": 1, "head_dim": 128}
# Every product in FP8 with scales for blocks.
BLOCKS = {"fp8": "all", "fp8_recipe": "block", "fp8.lm_head.weight": "block"}
# name: (model, hyperparameters)
CASES = {
    "gpt_tiny_f32": ("gpt_tiny", TINY),
    "gpt124m_f32": ("gpt124m", harness.GPT124M),
    "gpt2_f32": ("gpt2", harness.GPT2),
    "gpt124m_bf16_head64": ("gpt124m", {**HEADS_64, "dtype": "bf16"}),
    "gpt124m_bf16_head128": ("gpt124m", {**HEADS_128, "dtype": "bf16"}),
    "gpt124m_fp8_head128": ("gpt124m", {**HEADS_128, "dtype": "bf16", "fp8": "head"}),
    "gpt124m_fp8_blocks": ("gpt124m", {**HEADS_128, "dtype": "bf16", **BLOCKS}),
}
# gpt124m at 49,152 tokens a step, one rank: one micro-batch. By the rates of the machine that is asked for.
FULL = {
    "full_fp8_head": {"fp8": "head"},
    "full_bf16": {"fp8": "off"},
    "full_fp8_all": {"fp8": "all"},
}
# Of these also the steps of a whole run of so many, which show every width of the attention window.
WINDOWS = {"full_fp8_head": 24}
# Many ranks, each strategy: a small model on numbers of ranks against one, and gpt124m with 49,152
# tokens on each of several GPUs.
STRATEGIES = ("allreduce", "zero2")
RANKS_SIZES = {**harness.GPT124M, "global_batch": 8 * harness.GPT124M["seq_len"]}
# The statements of models/gpt124m.cpp that are the head, by what their first line has and no other line.
HEAD_STATEMENTS = {
    "weight": 'param("lm_head.weight"',
    "product": "linear(norm(x), lmHead)",
    "cap": "30.0 * sigmoid(",
    "loss": "crossEntropy(",
}


def fail(message):
    print(f"gpu_check: {message}", file=sys.stderr)
    sys.exit(1)


def must(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, encoding="utf-8", **options)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def tool(name):
    return os.path.join(ROOT, "build", "bin", name)


def compile_plan(model, plan, sizes, *options):
    """`model`: the name of one in models/, or the path of another."""
    source = model if os.path.isabs(model) else os.path.join(ROOT, "models", model + ".cpp")
    must(tool("nanoc"), "compile", source, "-o", plan, *harness.overrides(sizes), *options, cwd=ROOT)


def find_machine(name):
    """(what nanoc is given for it, None where it is neither a name in machines/ nor a file; those names)."""
    known = sorted(each.removesuffix(".json") for each in os.listdir(os.path.join(ROOT, "machines")))
    if name not in known:
        name = os.path.abspath(name) if os.path.isfile(name) else None
    return name, known


def full_tokens(count):
    """Documents of about 700 tokens, words as frequent as in a language (rank⁻¹)."""
    source = random.Random(1)
    found = []
    while len(found) < count:
        found.append(50256)
        length = int(min(8000, source.lognormvariate(6.1, 0.9)))
        found.extend(int(50256 ** source.random()) - 1 for _ in range(length))
    return found[:count]


def share_initial(bundle, name):
    """Where the initial parameters of the case are, in the folder: those of cases of the same sizes
    are there once."""
    own = os.path.join(name, "initial.safetensors")
    for other in sorted(os.listdir(bundle)):
        at = os.path.join(other, "initial.safetensors")
        if other != name and os.path.exists(os.path.join(bundle, at)):
            if filecmp.cmp(os.path.join(bundle, at), os.path.join(bundle, own), shallow=False):
                os.remove(os.path.join(bundle, own))
                return at
    return own


def is_embedding(tensor):
    """Whether the model keeps it in its data type: bf16 where that is the model's."""
    return "embed" in tensor


def perturbed(source, path, seed):
    """Writes a safetensors file again, its f32 values changed by up to PERTURBATION of themselves; none for seed 0."""
    raw = bytearray(harness.read_bytes(source))
    size = 8 + struct.unpack("<Q", raw[:8])[0]
    draw = random.Random(seed).uniform
    for name, entry in json.loads(raw[8:size]).items():
        if seed and name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = (size + at for at in entry["data_offsets"])
            values = array.array("f", bytes(raw[begin:end]))
            raw[begin:end] = array.array(
                "f", [value * (1 + draw(-PERTURBATION, PERTURBATION)) for value in values]).tobytes()
    with open(path, "wb") as file:
        file.write(raw)


class CpuCase:
    """Runs of one small model on the CPU."""

    def __init__(self, bundle, model, sizes):
        self.bundle, self.model, self.sizes = bundle, model, sizes
        self.scratch = os.path.join(bundle, "scratch")
        os.makedirs(self.scratch)

    def path(self, name):
        return os.path.join(self.scratch, name)

    def draw(self):
        """The path of initial parameters in f32."""
        sizes = {key: value for key, value in self.sizes.items() if not key.startswith("fp8")}
        # gpt_tiny is gpt124m with other sizes; the reference knows it by that name.
        must(tool("nano-reference"), self.model.replace("gpt_tiny", "gpt124m"),
             *harness.overrides({**sizes, "dtype": "f32"}), "--random-init", self.path("drawn"), "--seed", SEED)
        return self.path("drawn")

    def compile(self, values):
        """The path of the plan."""
        compile_plan(self.model, self.path(values + ".plan"), {**self.sizes, "dtype": values}, "--target", "cpu")
        return self.path(values + ".plan")

    def train(self, plan, initial):
        """(losses of training, of validation, path of the parameters) after STEPS steps."""
        log, parameters = self.path("log.jsonl"), self.path("parameters")
        must(tool("nanorun"), plan, "--train", os.path.join(self.bundle, "shards", "t_*.bin"), "--val",
             os.path.join(self.bundle, "shards", "v.bin"), "--val-tokens", VAL_TOKENS, "--steps", STEPS, "--init",
             initial, "--log", log, "--dump-params", parameters)
        entries = harness.read_log(log)
        os.remove(log)
        return harness.train_losses(entries), harness.val_losses(entries), parameters

    def gradients(self, plan, initial):
        """Those of the first step from these parameters."""
        checkpoint = self.path("checkpoint")
        shutil.rmtree(checkpoint, ignore_errors=True)
        must(tool("nanorun"), plan, "--train", os.path.join(self.bundle, "shards", "t_*.bin"), "--steps", 1, "--init",
             initial, "--save", checkpoint)
        return read_gradients(checkpoint)


def prepare_f32(case, at):
    """What is expected in f32: the CPU's losses and, in cpu.safetensors, its parameters."""
    initial = os.path.join(at, "initial.safetensors")
    shutil.copy(case.draw(), initial)
    train, val, parameters = case.train(case.compile("f32"), initial)
    shutil.copy(parameters, os.path.join(at, "cpu.safetensors"))
    return {"train": train, "val": val, "loss_tolerance": F32["loss"],
            "tolerance": {name: F32["parameters"] for name in harness.read_safetensors(parameters)}}


def prepare_bf16(case, at):
    """What is expected in bf16: the losses in f32 and, in trained.safetensors and gradients.safetensors, the parameters
    and the gradients of a step from those; and how far from them runs on the CPU are in bf16."""
    drawn, wide, narrow = case.draw(), case.compile("f32"), case.compile("bf16")
    initial, trained = os.path.join(at, "initial.safetensors"), os.path.join(at, "trained.safetensors")
    harness.round_to_bf16(drawn, case.path("wide"), is_embedding, False)
    harness.round_to_bf16(drawn, initial, is_embedding, True)
    train, val, parameters = case.train(wide, case.path("wide"))
    large = {name for name, values in harness.read_safetensors(parameters).items() if len(values) >= FEW}
    harness.round_to_bf16(parameters, trained, large.__contains__, True)
    wanted = harness.read_safetensors(trained)
    errors, apart = [], []
    for run in range(RUNS):
        perturbed(initial, case.path("initial"), run)
        *losses, parameters = case.train(narrow, case.path("initial"))
        errors += relative_errors(losses[0] + losses[1], train + val)
        apart.append(distances(harness.read_safetensors(parameters), wanted, all_scalars))
    harness.round_to_bf16(trained, case.path("wide"), is_embedding, False)
    write_tensors(os.path.join(at, "gradients.safetensors"), case.gradients(wide, case.path("wide")))
    exact = harness.read_safetensors(os.path.join(at, "gradients.safetensors"))
    harness.round_to_bf16(trained, case.path("narrow"), is_embedding, True)
    gradients = []
    for run in range(RUNS):
        perturbed(case.path("narrow"), case.path("initial"), run)
        gradients.append(distances(case.gradients(narrow, case.path("initial")), exact, kind_of))
    return {"train": train, "val": val, "loss_noise": root_mean_square(errors), "parameter_noise": noise_of(apart),
            "gradient_noise": noise_of(gradients)}


def prepare_case(bundle, name, model, sizes):
    """Plan, initial parameters and what the CPU makes of one small model."""
    at = os.path.join(bundle, name)
    os.makedirs(at)
    compile_plan(model, os.path.join(at, "cuda.plan"), sizes, "--target", "cuda")
    case = CpuCase(bundle, model, sizes)
    expected = (prepare_bf16 if sizes["dtype"] == "bf16" else prepare_f32)(case, at)
    expected["initial"] = share_initial(bundle, name)
    with open(os.path.join(at, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(expected, file, indent=1)
    shutil.rmtree(case.scratch)
    print(f"gpu_check: {name}: loss {expected['train'][0]:.4f} to {expected['train'][-1]:.4f} on the CPU, in f32")


def head_places(model, source):
    """{part of the head: FILE:LINE as a trace names it} of the model's text; fails where a part is not one line."""
    places = {}
    for part, words in HEAD_STATEMENTS.items():
        lines = [number for number, line in enumerate(source.splitlines(), 1) if words in line]
        if len(lines) != 1:
            fail(f"{model}: {len(lines)} lines have '{words}', not one: say in tools/support/gpu_prepare.py "
                 "what the head's statements have now")
        places[part] = f"{model}:{lines[0]}"
    return places


def chunk_rows(plan):
    """Rows of the logits' chunks in training of a plan, from the names and shapes of its buffers."""
    pattern = rb'"name":"(?:first|next|last)/[^"]*"[^{}]*?"shape":\[(\d+),%d\]' % VOCABULARY
    return {int(rows) for rows in re.findall(pattern, harness.read_bytes(plan))}


def prepare_full(bundle, name, changes, machine, manifest):
    """The plan of gpt124m, and beside it one whose products are all the library's, with the same chunks of
    rows in the head, for what the head's products take alone."""
    sizes, options = {"global_batch": FULL_TOKENS, **changes}, ("--target", "cuda", "--machine", machine)
    plan, library = (os.path.join(bundle, each + ".plan") for each in (name, name + "_library"))
    compile_plan("gpt124m", plan, sizes, *options)
    rows = chunk_rows(plan)
    if not rows:
        fail(f"{plan} has no buffer of logits: the head cannot be measured")
    compile_plan("gpt124m", library, sizes, *options, "--products", "library",
                 "--chunk-bytes", 4 * max(rows) * VOCABULARY)
    if chunk_rows(library) != rows:
        fail(f"{library}: chunks of {sorted(chunk_rows(library))} rows, not {sorted(rows)}")
    manifest["full"].append(name)
    if name in WINDOWS:
        steps = WINDOWS[name]
        compile_plan("gpt124m", os.path.join(bundle, name + "_windows.plan"), {**sizes, "num_iterations": steps},
                     *options)
        manifest["windows"].append([name, steps])


def prepare_ranks(bundle, dist, machine, manifest):
    """One plan of the small model for all numbers of ranks, and one at full size for each."""

    def compile_for(name, sizes, worlds, *options):
        compile_plan("gpt124m", os.path.join(bundle, name + ".plan"), {**sizes, "dist": dist}, "--target", "cuda",
                     "--world", worlds, *options)

    compile_for("ranks_" + dist, RANKS_SIZES, ",".join(map(str, WORLDS)))
    manifest["ranks"].append("ranks_" + dist)
    for world in WORLDS[1:]:
        name = f"full_ranks_{dist}_{world}"
        compile_for(name, {"global_batch": FULL_TOKENS * world, "fp8": "head"}, world, "--machine", machine)
        manifest["full_ranks"].append([name, world])


def pack(bundle):
    """Compresses what is large in the folder."""
    for at, _, names in os.walk(bundle):
        for name in names:
            path = os.path.join(at, name)
            if os.path.getsize(path) < 1 << 16:
                continue
            with open(path, "rb") as file, gzip.GzipFile(path + ".gz", "wb", mtime=0) as packed:
                shutil.copyfileobj(file, packed)
            os.chmod(path + ".gz", os.stat(path).st_mode)
            os.remove(path)


def prepare_binaries(bundle):
    wanted = ["nanorun", "libnano-device-cuda.so", "nano-cuda-test"]
    for name in [*wanted, "nanoc", "nano-reference", "libnano-device-cpu.so"]:
        if not os.path.exists(tool(name)):
            fail(f"{tool(name)} is missing: build the project (tools/build) where the CUDA toolkit is")
    os.makedirs(os.path.join(bundle, "bin"))
    optional = ["nano-primitives-gpu-test", "AttentionCudaBench", "MatmulCudaBench",
                "ScatterCudaBench", "libnano-idle.so"]
    for name in wanted + [each for each in optional if os.path.exists(tool(each))]:
        must("strip", "-o", os.path.join(bundle, "bin", name), tool(name))
        os.chmod(os.path.join(bundle, "bin", name), 0o755)
    for path in PRIMITIVES_SOURCES:
        target = os.path.join(bundle, "sources", path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        (shutil.copytree if os.path.isdir(os.path.join(ROOT, path)) else shutil.copy)(os.path.join(ROOT, path), target)
    for path in SCRIPTS:
        shutil.copy(os.path.join(ROOT, path), bundle)


def prepare(final, machine):
    """Makes the folder beside its place: one that fails to be made leaves the old one as it was. Plans at full size
    are for `machine`."""
    bundle = final + ".new"
    shutil.rmtree(bundle, ignore_errors=True)
    os.makedirs(os.path.join(bundle, "shards"))
    prepare_binaries(bundle)
    shard = lambda name: os.path.join(bundle, "shards", name)  # noqa: E731
    harness.write_shard(shard("t_0.bin"), harness.tokens(9000, 1))
    harness.write_shard(shard("t_1.bin"), harness.tokens(20000, 2))
    harness.write_shard(shard("v.bin"), harness.tokens(3000, 3))
    harness.write_shard(shard("full_0.bin"), full_tokens(24 * FULL_TOKENS + 1))
    manifest = {"cases": [], "gradients": [], "full": [], "windows": [], "ranks": [], "full_ranks": []}
    source = os.path.join("models", "gpt124m.cpp")
    manifest["head"] = head_places(source, harness.read_bytes(os.path.join(ROOT, source)).decode())
    for name, (model, sizes) in CASES.items():
        prepare_case(bundle, name, model, sizes)
        manifest["cases"].append(name)
        manifest["gradients"] += [name] if sizes["dtype"] == "bf16" else []
    for name, changes in FULL.items():
        prepare_full(bundle, name, changes, machine, manifest)
    for dist in STRATEGIES:
        prepare_ranks(bundle, dist, machine, manifest)
    pack(bundle)
    with open(os.path.join(bundle, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
    size = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(bundle) for name in names)
    shutil.rmtree(final, ignore_errors=True)
    os.rename(bundle, final)
    print(f"gpu_check: {final}: {size / 2**20:.1f} MiB; carry it, and run there: "
          f"{os.path.relpath(final)}/gpu_check run --report report.json")
    if size > MAX_BYTES:
        fail(f"the folder has {size >> 20} MiB, more than the {MAX_BYTES >> 20} MiB that can be carried")
