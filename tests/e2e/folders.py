"""Folders of HuggingFace's format, made by hand: of a GPT-2 and a Llama of a few numbers."""

import array
import json
import math
import os
import random
import struct

from harness import RunTest, read_safetensors, run_command

GPT2 = {
    "num_layers": 2,
    "num_heads": 2,
    "model_dim": 8,
    "vocab_size": 33,
    "eos_token": 32,
    "block_size": 8,
    "seq_len": 16,
    "val_seq_len": 16,
    "global_batch": 16,
    "dtype": "f32",
}
LLAMA = {
    "num_layers": 1,
    "num_heads": 2,
    "num_kv_heads": 1,
    "head_dim": 4,
    "model_dim": 8,
    "ffn_dim": 12,
    "vocab_size": 33,
    "eos_token": 32,
    "block_size": 8,
    "seq_len": 16,
    "val_seq_len": 16,
    "global_batch": 16,
    "dtype": "f32",
}
CONFIG_GPT2 = {
    "model_type": "gpt2",
    "vocab_size": 33,
    "n_layer": 2,
    "n_head": 2,
    "n_embd": 8,
    "n_inner": None,
    "n_positions": 8,
    "something_else": [1],
}
CONFIG_LLAMA = {
    "model_type": "llama",
    "vocab_size": 33,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "hidden_size": 8,
    "intermediate_size": 12,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
}


def shapes_gpt2():
    """Of GPT2LMHeadModel's tensors, without the prefix."""
    shapes = {"wte.weight": [33, 8], "wpe.weight": [8, 8], "ln_f.weight": [8], "ln_f.bias": [8]}
    for i in range(2):
        for name, inputs, outputs in (
            ("attn.c_attn", 8, 24),
            ("attn.c_proj", 8, 8),
            ("mlp.c_fc", 8, 32),
            ("mlp.c_proj", 32, 8),
        ):
            shapes[f"h.{i}.{name}.weight"] = [inputs, outputs]
            shapes[f"h.{i}.{name}.bias"] = [outputs]
        for name in ("ln_1", "ln_2"):
            shapes[f"h.{i}.{name}.weight"] = shapes[f"h.{i}.{name}.bias"] = [8]
    return shapes


def shapes_llama():
    layer = "model.layers.0."
    return {
        "model.embed_tokens.weight": [33, 8],
        layer + "input_layernorm.weight": [8],
        layer + "self_attn.q_proj.weight": [8, 8],
        layer + "self_attn.k_proj.weight": [4, 8],
        layer + "self_attn.v_proj.weight": [4, 8],
        layer + "self_attn.o_proj.weight": [8, 8],
        layer + "post_attention_layernorm.weight": [8],
        layer + "mlp.gate_proj.weight": [12, 8],
        layer + "mlp.up_proj.weight": [12, 8],
        layer + "mlp.down_proj.weight": [8, 12],
        "model.norm.weight": [8],
        "lm_head.weight": [33, 8],
    }


def is_turned(name):
    return ".c_" in name and name.endswith("weight")


def packed(values, kind):
    """The bytes of numbers that the kind holds exactly."""
    if kind == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    words = array.array("f", values).tobytes()
    if kind == "BF16":
        return b"".join(words[i + 2 : i + 4] for i in range(0, len(words), 4))
    return words if kind == "F32" else struct.pack(f"<{len(values)}q", *map(int, values))


def write_file(path, tensors):
    """A safetensors file of {name: (type, shape, bytes)}."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (kind, shape, raw) in tensors.items():
        end = len(data) + len(raw)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), end]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def header_of(path):
    with open(path, "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))


class FolderTest(RunTest):
    """Plans of both models, and what nanorun makes of folders."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gpt2 = cls.compile("gpt2", GPT2, "gpt2.plan")
        cls.llama = cls.compile("llama", LLAMA, "llama.plan")
        source = random.Random(7)
        draw = lambda shapes: {
            # Small multiples of 1/64: every type holds them.
            name: [source.randrange(-128, 128) / 64 for _ in range(math.prod(shape))]
            for name, shape in shapes.items()
        }
        cls.values = {"gpt2": draw(shapes_gpt2()), "llama": draw(shapes_llama())}

    def folder(self, model, name, change=None, kind="F32", prefix="", shards=1, config=None):
        """A folder of the model's tensors, after change({name: (type, shape, bytes)})."""
        shapes = shapes_gpt2() if model == "gpt2" else shapes_llama()
        tensors = {
            prefix + tensor: (kind, shapes[tensor], packed(values, kind))
            for tensor, values in self.values[model].items()
        }
        if change:
            change(tensors)
        path = self.path(name)
        os.mkdir(path)
        if shards == 1:
            write_file(path + "/model.safetensors", tensors)
        else:
            index = {}
            for i in range(shards):
                file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
                part = {each: tensors[each] for each in sorted(tensors)[i::shards]}
                index.update({each: file for each in part})
                write_file(f"{path}/{file}", part)
            self.write_index(path, index)
        config = config or (CONFIG_GPT2 if model == "gpt2" else CONFIG_LLAMA)
        with open(path + "/config.json", "w", encoding="utf-8") as file:
            json.dump(config, file)
        return path

    def write_index(self, path, index):
        with open(path + "/model.safetensors.index.json", "w", encoding="utf-8") as file:
            json.dump({"metadata": {"total_size": 0}, "weight_map": index}, file)

    def index_of(self, path):
        with open(path + "/model.safetensors.index.json", encoding="utf-8") as file:
            return json.load(file)["weight_map"]

    def taken(self, plan, folder, *options):
        """(parameters that a run starts with, what it says)."""
        out = self.path("taken.safetensors")
        said = self.ran(
            "nanorun", plan, "--init", folder, "--steps", 0, "--dump-params", out, *options
        )
        return read_safetensors(out), said

    def refused(self, plan, folder, message, *options, status=2):
        done = run_command("nanorun", plan, "--init", folder, "--steps", 0, *options)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertRegex(done.stderr, message)

    def assert_taken(self, model, found):
        shapes = shapes_gpt2() if model == "gpt2" else shapes_llama()
        self.assertEqual(sorted(found), sorted(shapes))
        for name, values in self.values[model].items():
            if is_turned(name):
                rows, columns = shapes[name]
                values = [values[r * columns + c] for c in range(columns) for r in range(rows)]
            self.assertEqual(list(found[name]), values, name)
