#!/usr/bin/env python3
"""Folders of HuggingFace's format in and out of nanorun, made by hand: what is taken, how it is
turned and converted, and what is refused. huggingface_test.py compares with the library itself."""

import array
import json
import math
import os
import random
import struct
import subprocess
import sys
import unittest

from folders import CONFIG_GPT2, CONFIG_LLAMA, GPT2, LLAMA, FolderTest, header_of, is_turned
from folders import packed, shapes_gpt2, shapes_llama, write_file
from harness import BIN, read_safetensors, round_to_bf16, run_command, tokens, train_losses
from harness import write_shard

# Embeddings are bf16.
GPT124M = {
    "num_layers": 6,
    "num_heads": 1,
    "head_dim": 8,
    "model_dim": 16,
    "vocab_size": 33,
    "eos_token": 32,
    "seq_len": 128,
    "val_seq_len": 128,
    "global_batch": 128,
    "dtype": "bf16",
}
CUT = """
#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const auto all = adam("all", {.lr = 0.1});
  auto weight = [&](const char *name, int64_t rows) {
    return param(name, {rows, 8}, f32, normal(0, 1), all);
  };
  const Tensor table = weight("table", 16), both = weight("both", 8), lower = weight("lower", 4),
               upper = weight("upper", 4), right = weight("right", 3), left = weight("left", 5),
               extra = param("extra", {8}, f32, constant(3), all);
  importedConcat(both, {{"a", 6, Transposed}, {"b", 2}});
  importedSlice(lower, "whole", 4);
  importedSlice(upper, "whole", 0);
  importedSlice(right, "turned", 5, Transposed);
  importedSlice(left, "turned", 0, Transposed);
  notImported(extra);
  importPrefix("m.");
  config("model_type", "cut");
  auto logits = [&](Tensor tokens) {
    Tensor h = linear(table[tokens], both) * extra;
    h = concat({linear(h, lower), linear(h, upper)}, 1);
    return linear(concat({linear(h, right), linear(h, left)}, 1), table);
  };
  auto loss = [&](Tensor tokens, Tensor targets) { return crossEntropy(logits(tokens), targets); };
  training({.vocabSize = 16, .eosToken = 0, .globalBatch = 32, .numIterations = 10});
  train(16, Loss::mean, loss);
  validate(16, Loss::mean, loss);
  generate(16, logits);
}
"""


class Interchange(FolderTest):
    # ===- What is taken ---------------------------------------------------------===#

    def test_turned(self):
        """Square matrices too: the mapping says what is turned."""
        found, said = self.taken(self.gpt2, self.folder("gpt2", "turned"))
        self.assert_taken("gpt2", found)
        self.assertIn("turned: 8 tensors transposed, as the model states", said)
        self.assertNotIn("converted", said)

    def test_types_prefix_and_shards(self):
        for kind in ("BF16", "F16"):
            folder = self.folder("gpt2", kind, kind=kind, prefix="transformer.", shards=3)
            found, said = self.taken(self.gpt2, folder)
            self.assert_taken("gpt2", found)
            self.assertIn(f"{kind}: 28 tensors converted from {kind.lower()} to f32", said)
        self.assert_taken("llama", self.taken(self.llama, self.folder("llama", "llama"))[0])

    def test_links(self):
        """The library's cache has links to files that lie elsewhere."""
        folder = self.folder("gpt2", "cached", shards=2)
        for name in os.listdir(folder):
            os.rename(f"{folder}/{name}", self.path("blob-" + name))
            os.symlink(self.path("blob-" + name), f"{folder}/{name}")
        self.assert_taken("gpt2", self.taken(self.gpt2, folder)[0])

    def test_rounded(self):
        """To a parameter of bf16, to nearest even."""
        plan = self.compile("gpt124m", GPT124M, "rounded.plan")
        own, wide = self.path("own-bf16.st"), self.path("wide")
        self.ran("nanorun", plan, "--steps", 0, "--seed", 3, "--dump-params", own)
        header = header_of(own)
        kinds = {name: each["dtype"] for name, each in header.items() if "dtype" in each}
        self.assertEqual(set(kinds.values()), {"F32", "BF16"})
        source = random.Random(9)
        values = {
            name: [source.uniform(-1, 1) for _ in range(math.prod(header[name]["shape"]))]
            for name in kinds
        }
        os.mkdir(wide)
        write_file(
            wide + "/model.safetensors",
            {n: ("F32", header[n]["shape"], packed(values[n], "F32")) for n in kinds},
        )
        wanted = self.path("wanted-bf16.st")
        round_to_bf16(wide + "/model.safetensors", wanted, lambda n: kinds[n] == "BF16", True)
        found = self.taken(plan, wide)[0]
        self.assertEqual(found, read_safetensors(wanted))

    def test_ranks(self):
        """Every rank reads the folder; two train as one does."""
        plan = self.compile("gpt2", {**GPT2, "global_batch": 64}, "ranks.plan", "--world", "1,2")
        shard = self.path("r_0.bin")
        write_shard(shard, tokens(600, 1, 33, 32))
        folder, losses = self.folder("gpt2", "ranks", kind="BF16", shards=2), []
        for ranks in (1, 2):
            log, out = self.path("r.jsonl"), self.path(f"r{ranks}")
            words = ("--steps", 4, "--gpus", ranks, "--log", log, "--export-hf", out)
            self.ran("nanorun", plan, "--init", folder, "--train", shard, *words)
            with open(log, encoding="utf-8") as file:
                losses.append(train_losses([json.loads(line) for line in file]))
        self.assert_near(losses[1], losses[0], 1e-6, "step")
        self.assert_parameters_near(*(self.path(f"r{n}/model.safetensors") for n in (1, 2)), 1e-5)

    def test_memory(self):
        """Beside the parameters no more than a tenth of them is held, though all are converted."""
        rows = 200_000
        plan = self.compile("llama", {**LLAMA, "vocab_size": rows, "model_dim": 64}, "large.plan")
        shapes = {
            name: [{33: rows, 8: 64}.get(size, size) for size in shape]
            for name, shape in shapes_llama().items()
        }
        layer = "model.layers.0.self_attn."
        shapes[layer + "q_proj.weight"] = [8, 64]
        shapes[layer + "o_proj.weight"] = [64, 8]
        folder, prompt = self.path("large"), self.path("one.txt")
        os.mkdir(folder)
        write_file(
            folder + "/model.safetensors",
            {name: ("BF16", s, bytes(2 * math.prod(s))) for name, s in shapes.items()},
        )
        config = {**CONFIG_LLAMA, "vocab_size": rows, "hidden_size": 64, "head_dim": 4}
        with open(folder + "/config.json", "w", encoding="utf-8") as file:
            json.dump(config, file)
        with open(prompt, "w", encoding="utf-8") as file:
            file.write("1")
        peaks = []
        for given in ((), ("--init", folder)):
            words = ["nanorun", plan, *given, "--prompt-tokens", prompt, "--threads", "1"]
            words += ["--logits", self.path("large.st")]
            child = subprocess.Popen(
                [os.path.join(BIN, words[0]), *words[1:]], stderr=subprocess.DEVNULL
            )
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(child.returncode, 0)
            peaks.append(1024 * usage.ru_maxrss)
        parameters = 4 * sum(math.prod(shape) for shape in shapes.values())
        self.assertGreater(parameters, 100e6)
        self.assertGreater(peaks[0], parameters)
        # AddressSanitizer, where it is built in, keeps a byte for every eight that are read.
        shadow = parameters / 8 if "ASAN_OPTIONS" in os.environ else 0
        self.assertLess(peaks[1] - peaks[0], 0.1 * parameters + shadow)

    def test_every_half(self):
        """All finite numbers of 16 bits are what they are as f32."""
        halves = [bits for bits in range(0x10000) if bits & 0x7C00 != 0x7C00]
        sizes = {**LLAMA, "vocab_size": len(halves) // 8, "eos_token": 0}
        plan = self.compile("llama", sizes, "halves.plan")
        raw = struct.pack(f"<{len(halves)}H", *halves)

        def change(tensors):
            tensors["model.embed_tokens.weight"] = ("F16", [len(halves) // 8, 8], raw)
            tensors["lm_head.weight"] = ("BF16", [len(halves) // 8, 8], bytes(2 * len(halves)))

        folder = self.folder(
            "llama", "halves", change, config={**CONFIG_LLAMA, "vocab_size": len(halves) // 8}
        )
        found = self.taken(plan, folder)[0]["model.embed_tokens.weight"]
        wanted = array.array("f", struct.unpack(f"<{len(halves)}e", raw))
        self.assertEqual(found.tobytes(), wanted.tobytes())

    def test_file_of_another_type(self):
        """One file has the names and the layout of --dump-params, and any float type."""
        path = self.path("own.safetensors")
        shapes = {
            name: shape[::-1] if is_turned(name) else shape for name, shape in shapes_gpt2().items()
        }
        values = self.values["gpt2"]
        write_file(path, {n: ("BF16", s, packed(values[n], "BF16")) for n, s in shapes.items()})
        found, said = self.taken(self.gpt2, path)
        self.assertEqual({name: list(v) for name, v in found.items()}, values)
        self.assertIn("own.safetensors: 28 tensors converted from bf16 to f32", said)
        self.refused(
            *(self.gpt2, self.folder("gpt2", "beside") + "/model.safetensors"),
            r"does not fit the plan; different: .*; .*/beside/config.json stands beside it: name "
            "the folder",
        )

    def test_ignored(self):
        def change(tensors):
            tensors["transformer.h.0.attn.bias"] = ("F32", [1, 1, 8, 8], bytes(256))
            tensors["lm_head.weight"] = ("F32", [33, 8], bytes(4 * 33 * 8))

        folder = self.folder("gpt2", "masks", change, prefix="transformer.")
        found, said = self.taken(self.gpt2, folder)
        self.assert_taken("gpt2", found)
        self.assertIn("masks: 2 tensors ignored: ", said)

        def unknown(tensors):
            tensors["score.weight"] = tensors["score.bias"] = ("F32", [2], bytes(8))

        folder = self.folder("gpt2", "unknown", unknown)
        self.refused(
            self.gpt2,
            folder,
            r"unknown: does not fit the plan; nothing takes: score.bias, score.weight "
            r"\(--init-ignore 'score.bias' allows that\)$",
        )
        found, said = self.taken(self.gpt2, folder, "--init-ignore", "score.*")
        self.assert_taken("gpt2", found)
        self.refused(self.gpt2, folder, "has no tensor like it", *("--init-ignore", "score.*"), "--init-ignore", "scores")  # fmt: skip
        file = folder + "/model.safetensors"
        self.refused(self.gpt2, file, "name the folder", "--init-ignore", "x")

    def test_trains_and_goes_on(self):
        """A run that starts there saves, and a run of another folder is another one."""
        shard = self.path("t_0.bin")
        write_shard(shard, tokens(200, 1, 33, 32))
        folder = self.folder("gpt2", "start")
        words = (self.gpt2, "--train", shard, "--init", folder, "--save", self.path("saves"))
        self.ran("nanorun", *words, "--steps", 2)
        self.ran("nanorun", *words[:3], "--save", words[-1], "--resume", words[-1], "--steps", 3)
        other = self.folder("gpt2", "other", kind="BF16")
        done = run_command(
            "nanorun", *words[:3], "--init", other, "--save", words[-1], "--steps", 2
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("another run", done.stderr)

    def test_cut_and_joined(self):
        """Rows of several tensors are one parameter, and rows of one tensor are several; what other
        programs lack keeps its initial value. Out again, the folder is the same."""
        model = self.path("cut.cpp")
        with open(model, "w", encoding="utf-8") as file:
            file.write(CUT)
        plan = self.path("cut.plan")
        self.ran("nanoc", "compile", model, "-o", plan, "--target", "cpu")
        shapes = {"table": [16, 8], "m.a": [8, 6], "b": [2, 8], "whole": [8, 8], "turned": [8, 8]}
        source = random.Random(8)
        values = {n: [source.random() for _ in range(math.prod(s))] for n, s in shapes.items()}
        folder = self.path("cut")
        os.mkdir(folder)
        write_file(
            folder + "/model.safetensors",
            {name: ("F32", shapes[name], packed(values[name], "F32")) for name in shapes},
        )
        with open(folder + "/config.json", "w", encoding="utf-8") as file:
            file.write('{"model_type": "cut"}')
        found, said = self.taken(plan, folder, "--export-hf", self.path("cut-out"))
        rows = lambda name: [values[name][i : i + 8] for i in range(0, len(values[name]), 8)]
        columns = lambda name, width: [values[name][i::width] for i in range(width)]
        for name, wanted in (
            ("table", rows("table")),
            ("both", columns("m.a", 6) + rows("b")),
            ("lower", rows("whole")[4:]),
            ("upper", rows("whole")[:4]),
            ("right", columns("turned", 8)[5:]),
            ("left", columns("turned", 8)[:5]),
            ("extra", [[3.0] * 8]),
        ):
            wanted = [array.array("f", [x])[0] for row in wanted for x in row]
            self.assertEqual(list(found[name]), wanted, name)
        self.assertIn("cut: 2 tensors transposed, as the model states", said)
        self.assertIn("cut: 4 tensors cut or joined, as the model states", said)
        self.assertIn(
            "not there, as the model states, and left at their initial values: extra", said
        )
        self.assertIn("cut-out: without 1 parameters that the model says other programs lack", said)
        again = read_safetensors(self.path("cut-out") + "/model.safetensors")
        first = read_safetensors(folder + "/model.safetensors")
        self.assertEqual({n.replace("m.", "", 1): v for n, v in first.items()}, again)

    def test_adapters_on_a_base(self):
        """LoRA begins with a folder as it is, in bf16, and with adapters that add nothing."""
        changes = {"base_dtype": "bf16", "lora_rank": 2, "num_iterations": 6, "learning_rate": 0.1}
        plan = self.compile("lora", {**LLAMA, **changes}, "lora.plan")
        folder, shard = self.folder("llama", "base", kind="BF16"), self.path("base_0.bin")
        write_shard(shard, tokens(600, 1, 33, 32))
        found, said = self.taken(plan, folder)
        adapters = [name for name in found if ".lora_" in name]
        self.assertEqual(len(adapters), 4)  # q and v of one layer
        self.assert_taken("llama", {n: v for n, v in found.items() if n not in adapters})
        self.assertTrue(all(set(found[n]) == {0} for n in adapters if "lora_B" in n))
        self.assertTrue(all(len(set(found[n])) > 1 for n in adapters if "lora_A" in n))
        self.assertIn("left at their initial values: model.layers.0.self_attn.q_proj.lora_A", said)
        self.assertNotIn("converted", said)
        dumped, out = self.path("tuned.st"), self.path("base-again")
        words = ("--train", shard, "--dump-params", dumped, "--export-hf", out)
        said = self.ran("nanorun", plan, "--init", folder, *words)
        self.assertIn("base-again: without 4 parameters that the model says other programs lack", said)
        tuned = read_safetensors(dumped)
        self.assertEqual([n for n in found if found[n] != tuned[n]], adapters)
        self.assertEqual({n: tuned[n] for n in found if n not in adapters},
                         read_safetensors(out + "/model.safetensors"))  # fmt: skip
        # A file has the adapters too.
        self.assertEqual(self.taken(plan, dumped)[0], tuned)

    # ===- What is refused -------------------------------------------------------===#

    def test_shards(self):
        folder = self.folder("gpt2", "lacks", shards=3)
        index = self.index_of(folder)
        second = "model-00002-of-00003.safetensors"
        os.rename(f"{folder}/{second}", self.path("away"))
        lost = sorted(name for name, file in index.items() if file == second)
        self.refused(
            self.gpt2,
            folder,
            f"lacks: lacks {second}, which model.safetensors.index.json says holds '{lost[0]}' and "
            f"{len(lost) - 1} other tensors; copy the whole folder",
        )
        os.rename(self.path("away"), f"{folder}/{second}")

        first = "model-00001-of-00003.safetensors"
        for change, message in (
            ({lost[0]: first}, f"says that {first} holds '{lost[0]}', which it does not"),
            ({lost[0]: None}, f"'{lost[0]}' has no file's name"),
            ({"x.weight": first}, f"says that {first} holds 'x.weight', which it does not"),
            ({lost[0]: "../" + second}, "which is no file of this folder"),
            ({lost[0]: "/etc/passwd"}, "which is no file of this folder"),
            ({lost[0]: ".."}, "which is no file of this folder"),
        ):
            self.write_index(folder, {**index, **change})
            self.refused(self.gpt2, folder, f"model.safetensors.index.json: .*{message}")
        self.write_index(folder, {n: f for n, f in index.items() if n != lost[0]})
        self.refused(
            self.gpt2, folder, f"does not say that {second} holds '{lost[0]}', which it does"
        )
        for text, message in (
            ("{", "is not an index"),
            ('{"weight_map": {}}', "is not an index"),
            ('{"weight_map": {"a": "b", "a": "c"}}', "'a' is listed twice"),
            ("[" * 1000, "nests"),
        ):
            with open(folder + "/model.safetensors.index.json", "w", encoding="utf-8") as file:
                file.write(text)
            self.refused(self.gpt2, folder, message)

        os.remove(folder + "/model.safetensors.index.json")
        self.refused(self.gpt2, folder, "has neither .* a folder of several files needs")
        both = self.folder("gpt2", "both", shards=2)
        write_file(both + "/model.safetensors", {})
        self.refused(self.gpt2, both, "has both")
        os.mkdir(self.path("none"))
        self.refused(self.gpt2, self.path("none"), "name a folder that save_pretrained wrote")
        with open(self.path("none") + "/pytorch_model.bin", "wb"):
            pass
        self.refused(self.gpt2, self.path("none"), "save it again with save_pretrained")

    def test_tensors(self):
        def without(tensors):
            del tensors["h.1.mlp.c_fc.weight"], tensors["wte.weight"]

        self.refused(
            *(self.gpt2, self.folder("gpt2", "missing", without)),
            "missing: does not fit the plan; missing: wte.weight, h.1.mlp.c_fc.weight$",
        )

        def turned(tensors):
            kind, shape, raw = tensors["h.0.mlp.c_fc.weight"]
            tensors["h.0.mlp.c_fc.weight"] = (kind, shape[::-1], raw)

        self.refused(
            *(self.gpt2, self.folder("gpt2", "wrong", turned)),
            r"different: h.0.mlp.c_fc.weight is \[32, 8\], the plan wants \[8, 32\], which it "
            "transposes",
        )

        def integers(tensors):
            tensors["ln_f.bias"] = ("I64", [8], bytes(64))

        self.refused(
            *(self.gpt2, self.folder("gpt2", "integers", integers)),
            "different: ln_f.bias is I64, the plan wants F32, BF16 or F16",
        )

        def twice(tensors):
            tensors["transformer.ln_f.bias"] = tensors["ln_f.bias"]

        self.refused(
            *(self.gpt2, self.folder("gpt2", "twice", twice)),
            "has tensor 'ln_f.bias' with and without the prefix 'transformer.'",
        )

    def test_values(self):
        """A NaN or an infinity, where it stands in the file, also in a matrix that is turned."""
        for kind, bits in (("F32", "<I"), ("BF16", "<H"), ("F16", "<H")):
            word = {"F32": 0x7FC00000, "BF16": 0xFF80, "F16": 0x7C00}[kind]
            for name, index, place in (
                ("h.1.attn.c_proj.weight", 13, r"\[1, 5\]"),
                ("ln_f.bias", 3, r"\[3\]"),
            ):

                def change(tensors):
                    form, shape, raw = tensors[name]
                    size = struct.calcsize(bits)
                    raw = raw[: index * size] + struct.pack(bits, word) + raw[(index + 1) * size :]
                    tensors[name] = (form, shape, raw)

                folder = self.folder("gpt2", f"{kind}-{index}", change, kind=kind)
                self.refused(
                    *(self.gpt2, folder),
                    f"model.safetensors: tensor '{name}' holds NaN or infinity at {place}; give "
                    "values that are finite, or --allow-non-finite",
                )
                found = self.taken(self.gpt2, folder, "--allow-non-finite")[0]
                self.assertEqual(sum(not math.isfinite(x) for x in found[name]), 1)

    def test_config(self):
        def refused(name, change, message, model="llama"):
            config = {**(CONFIG_GPT2 if model == "gpt2" else CONFIG_LLAMA), **change}
            folder = self.folder(model, name, config=config)
            self.refused(self.gpt2 if model == "gpt2" else self.llama, folder, message)

        refused(
            "sizes",
            {"n_layer": 12, "n_embd": 16, "layer_norm_epsilon": 1e-6},
            r"sizes/config.json: does not fit the plan: n_layer is 12, not 2, n_embd is 16, not 8, "
            r"layer_norm_epsilon is 1e-06, not 1e-05; compile the model for this folder, with -D "
            "num_layers=12 -D model_dim=16$",
            "gpt2",
        )
        refused("kind", {"model_type": "gemma"}, 'model_type is "gemma", not "llama"; compile')
        refused(
            "theta", {"rope_theta": 5e5}, "rope_theta is 500000.0, not 10000.0; .* -D rope_theta"
        )
        refused(
            "theta5",
            {"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}},
            "rope_parameters.rope_theta is 500000.0",
        )
        llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}
        refused(
            *("llama3", {"rope_scaling": llama3}),
            'rope_scaling.rope_type is "llama3", not "default" \\(hyperparameter rope_scaling\\)',
        )
        refused(
            "yarn",
            {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32}},
            "the model knows no setting rope_parameters.beta_fast; it would compute something else",
        )
        refused(
            "tied", {"tie_word_embeddings": True}, r"is true, not false \(hyperparameter tied\)"
        )
        refused("window", {"model_type": "mistral", "sliding_window": 4}, "sliding_window is 4, below 8")  # fmt: skip
        folder = self.folder(
            "llama",
            "mistral",
            config={**CONFIG_LLAMA, "model_type": "mistral", "sliding_window": 8},
        )
        self.assert_taken("llama", self.taken(self.llama, folder)[0])
        for text, message in (
            ("[]", "is not a JSON object"),
            ('{"a": 1, "a": 2}', "'a' is given twice"),
            ("[" * 1000, "nests"),
        ):
            with open(folder + "/config.json", "w", encoding="utf-8") as file:
                file.write(text)
            self.refused(self.llama, folder, "config.json: .*" + message)
        os.remove(folder + "/config.json")
        self.refused(self.llama, folder, "config.json: .*No such file")

    # ===- Out -------------------------------------------------------------------===#

    def test_export(self):
        folder = self.folder("gpt2", "came", kind="BF16", prefix="transformer.")
        for name in ("tokenizer.json", "merges.txt", "training_args.bin"):
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                file.write("{}")
        out = self.path("went")
        said = self.ran(
            "nanorun", self.gpt2, "--init", folder, "--steps", 0, "--export-hf", out + "/"
        )
        self.assertIn("wrote " + out, said)
        self.assertEqual(
            sorted(os.listdir(out)),
            ["config.json", "merges.txt", "model.safetensors", "tokenizer.json"],
        )
        header = header_of(out + "/model.safetensors")
        self.assertEqual(header.pop("__metadata__"), {"format": "pt"})
        self.assertEqual({n: e["shape"] for n, e in header.items()}, shapes_gpt2())
        for name, values in read_safetensors(out + "/model.safetensors").items():
            self.assertEqual(list(values), self.values["gpt2"][name], name)
        with open(out + "/config.json", encoding="utf-8") as file:
            config = json.load(file)
        self.assertEqual(
            {name: config[name] for name in ("model_type", "n_embd", "n_inner", "torch_dtype")},
            {"model_type": "gpt2", "n_embd": 8, "n_inner": 32, "torch_dtype": "float32"},
        )
        self.assert_taken("gpt2", self.taken(self.gpt2, out)[0])
        self.assertEqual([n for n in os.listdir(self.scratch.name) if ".tmp-" in n], [])

    def test_export_refusals(self):
        full = self.folder("gpt2", "full")
        refused = lambda message, *words: self.refused(self.gpt2, full, message, *words)
        refused("--export-hf .*full: is there, and not an empty directory", "--export-hf", full)
        refused("--tokenizer: needs --export-hf DIR, or --sample N", "--tokenizer", full)
        out = ("--export-hf", self.path("new"), "--tokenizer")
        refused("--tokenizer .*nowhere: is neither a file nor a folder", *out, self.path("nowhere"))
        os.mkdir(self.path("empty"))
        refused("--tokenizer .*empty: holds no file of a tokenizer", *out, self.path("empty"))
        tiny = self.compile("gpt_tiny", {"model_dim": 32, "num_heads": 2, "head_dim": 16}, "t.plan")
        done = run_command("nanorun", tiny, "--steps", 0, "--export-hf", self.path("new"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("gpt_tiny states no config.json", done.stderr)
        self.assertFalse(os.path.exists(self.path("new")))
        done = run_command("nanorun", tiny, "--steps", 0, "--init-ignore", "x")
        self.assertIn("--init-ignore: needs --init FOLDER", done.stderr)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
