#!/usr/bin/env python3
"""docs/recipes/, followed literally: the commands of a page are run as they stand, one block after
the other, by programs of this build on the CPU. Of the first block, which sets what is the reader's,
the values are others here: bytes for tokens, small sizes. The page's own are compiled too, as far as
the model. Every option is looked up in --help."""

import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec

from folders import packed, write_file
from harness import BIN, EOS, LIMIT, ROOT, RunTest, main, run_command, tokens, write_shard
from processes import free_port

RECIPES = os.path.join(ROOT, "docs", "recipes")
BYTES = "--tokenizer bytes"
SIZES = {
    "vocab_size": 257,
    "eos_token": EOS,
    "num_layers": 2,
    "num_heads": 2,
    "num_kv_heads": 1,
    "head_dim": 16,
    "model_dim": 32,
    "ffn_dim": 48,
    "block_size": 64,
    "seq_len": 64,
    "val_seq_len": 64,
}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 257,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "hidden_size": 32,
    "intermediate_size": 48,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
# In the place of what a cluster has: as many processes as asked for, with the variables that tell
# each who it is.
TORCHRUN = """#!{python}
import os, subprocess, sys
words = sys.argv[1:]
world = int(words[words.index("--nproc-per-node") + 1])
command = words[words.index("--no-python") + 1 :]
given = dict(os.environ, WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world), MASTER_ADDR="localhost",
             MASTER_PORT="{port}")
ranks = [subprocess.Popen(command, env=dict(given, RANK=str(i), LOCAL_RANK=str(i))) for i in range(world)]
sys.exit(max(rank.wait() for rank in ranks))
"""
SRUN = """#!{python}
import os, subprocess, sys
assert len(os.environ["NANO_JOB_SECRET"]) == 64
given = dict(os.environ, SLURM_NTASKS="{world}", SLURM_JOB_ID="12", MASTER_PORT="{port}",
             SLURM_JOB_NODELIST="localhost")
ranks = [subprocess.Popen(sys.argv[1:], env=dict(given, SLURM_PROCID=str(i))) for i in range({world})]
sys.exit(max(rank.wait() for rank in ranks))
"""
SBATCH = """#!/bin/sh
exec bash -euo pipefail "$1"
"""


def words_of(sizes):
    return " ".join(f"-D {name}={value}" for name, value in sizes.items())


def page(name):
    with open(os.path.join(RECIPES, name + ".md"), encoding="utf-8") as file:
        return file.read()


def blocks(text):
    """(language, content) of the page's blocks of code."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def settings_of(block):
    """{variable: value} that a block exports."""
    done = subprocess.run(
        ["bash", "-euc", block + "exec env -0"], capture_output=True, encoding="utf-8", check=True,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    pairs = (entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
    return {n: v for n, v in pairs if n not in ("PATH", "PWD", "OLDPWD", "SHLVL", "_")}


def perplexities(said):
    lines = "".join(said).splitlines()
    return [json.loads(line)["loss"] for line in lines if line.startswith('{"event":"perplexity"')]


class Recipes(RunTest):
    def setUp(self):
        self.root = self.path(self.id().split(".")[-1])
        self.bin = os.path.join(self.root, ".bin")
        os.makedirs(self.bin)
        for name in ("models", "tools"):
            os.symlink(os.path.join(ROOT, name), os.path.join(self.root, name))
        self.program("python3", '#!/bin/sh\nexec {python} "$@"\n')
        # Beside other tests, more threads than cores would wait for each other.
        nanorun = os.path.join(BIN, "nanorun")
        self.program("nanorun", '#!/bin/sh\nexec {program} "$@" --threads 1\n', program=nanorun)

    def at(self, name):
        return os.path.join(self.root, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.at(name)), exist_ok=True)
        with open(self.at(name), "w", encoding="utf-8") as file:
            file.write(text)

    def program(self, name, text, **words):
        self.write(".bin/" + name, text.format(python=sys.executable, **words))
        os.chmod(self.at(".bin/" + name), 0o755)

    def shell(self, script, settings):
        """The output of a script with these variables; a command that fails fails the test."""
        path = os.pathsep.join([self.bin, BIN, os.environ["PATH"]])
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1"}  # fmt: skip
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=self.root, capture_output=True,
            encoding="utf-8", timeout=LIMIT, env={**os.environ, **as_root, **settings, "PATH": path},
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, f"{script}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def follow(self, name, settings, left_out=lambda block: False):
        """Runs the page; the output of each block of commands. Blocks of other languages are files, a
        program's name in its first line."""
        (_, first), *rest = blocks(page(name))
        own = settings_of(first)
        settings = {variable: str(value) for variable, value in settings.items()}
        self.assertEqual(sorted(settings), sorted(own))
        for language, block in rest:
            if language == "python":
                self.write(block.splitlines()[0].removeprefix("# "), block)
            elif language == "bash":
                self.write("many.sbatch", block)
        commands = [block for language, block in rest if language == "sh"]
        said = [self.shell(block, settings) for block in commands if not left_out(block)]
        # The page's own values are taken too; measured scales are those of the small model.
        model = 'nanoc() { command nanoc "$@" --stop-after model > /dev/null; }\n'
        lines = [
            line
            for line in "".join(commands).splitlines()
            if line.startswith("nanoc compile") and "--fp8-scales" not in line
        ]
        self.assertTrue(lines)
        self.shell(model + "\n".join(lines), own)
        return said

    def make_base(self):
        """A folder of a Llama of small random numbers."""
        source = random.Random(4)
        shapes = {"model.embed_tokens.weight": [257, 32], "model.norm.weight": [32],
                  "lm_head.weight": [257, 32]}  # fmt: skip
        for i in range(2):
            layer = f"model.layers.{i}."
            for norm in ("input_layernorm", "post_attention_layernorm"):
                shapes[f"{layer}{norm}.weight"] = [32]
            for part, rows, columns in (
                *(("self_attn.q", 32, 32), ("self_attn.k", 16, 32), ("self_attn.v", 16, 32)),
                *(("self_attn.o", 32, 32), ("mlp.gate", 48, 32), ("mlp.up", 48, 32)),
                ("mlp.down", 32, 48),
            ):
                shapes[f"{layer}{part}_proj.weight"] = [rows, columns]
        tensors = {}
        for name, shape in shapes.items():
            count = math.prod(shape)
            values = (
                [1.0] * count if "norm" in name else [source.gauss(0, 0.1) for _ in range(count)]
            )
            tensors[name] = ("F32", shape, packed(values, "F32"))
        os.mkdir(self.at("base"))
        write_file(self.at("base/model.safetensors"), tensors)
        self.write("base/config.json", json.dumps(CONFIG))

    def make_text(self):
        for i in range(10):
            self.write(f"text/{i}.txt", f"The {i}th file says that the cat sat on the mat. " * 20)

    def make_shard(self):
        os.mkdir(self.at("data"))
        write_shard(self.at("data/mine_train_000000.bin"), tokens(6000, 1))

    def test_pretrain(self):
        self.make_text()
        said = self.follow("pretrain", {
            "TEXT": "text/*.txt", "TOKENIZER": BYTES, "TARGET": "cpu", "EVERY": 20,
            "VOCABULARY": "-D vocab_size=257 -D eos_token=256",
            "SIZES": words_of({n: v for n, v in SIZES.items() if n not in ("vocab_size", "eos_token")}),
            "RUN": "-D global_batch=256 -D num_iterations=60 -D learning_rate=1e-2 -D warmup_iters=5",
        })  # fmt: skip
        self.assertRegex(said[1], "mine.plan: .* for 1 rank")
        self.assertEqual(len(re.findall(r"^saved runs/mine/step", said[2], re.M)), 3)
        (loss,) = perplexities(said)
        self.assertLess(loss, 0.6 * math.log(257))
        self.assertRegex(said[-1].splitlines()[-1], "[a-z] ?[a-z]")

    def test_lora(self):
        self.make_text()
        self.make_base()
        has_torch = all(map(find_spec, ("torch", "safetensors")))
        said = self.follow("lora", {
            "BASE": "base", "TEXT": "text/*.txt", "TOKENIZER": BYTES, "TARGET": "cpu",
            # The base in bf16 would be rounded once more when it is merged.
            "SIZES": words_of(SIZES) + " -D dtype=f32",
            "ADAPTERS": "-D lora_rank=8 -D lora_alpha=16 -D lora_targets=all -D base_dtype=f32",
            "RUN": "-D global_batch=256 -D num_iterations=60 -D learning_rate=1e-2 -D warmup_iters=5",
        }, lambda block: "merge.py" in block and not has_torch)  # fmt: skip
        self.assertIn(
            "left at their initial values: model.layers.0.self_attn.q_proj.lora_A", said[1]
        )
        before, after, *merged = perplexities(said)
        self.assertLess(after, 0.8 * before)
        if has_torch:
            self.assertLessEqual(abs(merged[0] - after), 1e-5 * after)
        else:
            print("lora: nothing is merged, for want of PyTorch", file=sys.stderr)

    def test_sft(self):
        self.make_base()
        chats = [{"messages": [{"role": "user", "content": f"Is {i} here?"},
                               {"role": "assistant", "content": "Yes, it is."}]}
                 for i in range(40)]  # fmt: skip
        self.write("chats.jsonl", "".join(json.dumps(chat) + "\n" for chat in chats))
        long = {"block_size": 128, "seq_len": 128, "val_seq_len": 128}
        said = self.follow("sft", {
            "BASE": "base", "CHATS": "chats.jsonl", "TOKENIZER": BYTES, "TEMPLATE": "chatml",
            "SIZES": words_of({**SIZES, **long}), "TARGET": "cpu",
            "RUN": "-D global_batch=512 -D num_iterations=60 -D learning_rate=1e-2 -D warmup_iters=5",
            "PROMPT": "<|im_start|>user\nIs 7 here?<|im_end|>\n<|im_start|>assistant\n",
        })  # fmt: skip
        self.assertIn(">>>Yes, it is.", said[0])
        (loss,) = perplexities(said)
        self.assertLess(loss, 0.3)
        self.assertIn("Yes, it is", said[2])
        self.assertIn("config.json", os.listdir(self.at("answers")))

    def test_grpo(self):
        self.make_base()
        self.write("prompts.txt", "one\ntwo\n")
        said = self.follow("grpo", {
            "BASE": "base", "PROMPTS": "prompts.txt", "TOKENIZER": BYTES, "EOS": EOS, "STOP": 10,
            "SIZES": words_of(SIZES) + " -D dtype=f32", "TARGET": "cpu",
            # Eight steps go over the same completions twice: wide clips let them.
            "RUN": "-D global_batch=1024 -D learning_rate=1e-2 -D warmup_iters=0 -D kl_weight=0.01 "
                   "-D clip_low=0.8 -D clip_high=3 -D grad_clip=0",
            "ROUNDS": 4, "GROUP": 64, "LENGTH": 10, "STEPS": 8,
        })  # fmt: skip
        rewards = [float(r) for r in re.findall(r"mean reward (\S+)$", said[1], re.M)]
        self.assertEqual(len(rewards), 4)
        # Measured: from 0.09 to 0.17, each the mean of 128 with a deviation of about 0.1.
        self.assertGreater(rewards[-1], 1.3 * rewards[0], rewards)
        self.assertIn("model.safetensors", os.listdir(self.at("tuned")))
        self.assertTrue(os.path.isdir(self.at("runs/grpo/step-000032")))

    def test_scale(self):
        self.make_shard()
        if not shutil.which("mpirun") or not os.path.exists(os.path.join(BIN, "libnano-mpi.so")):
            self.program("mpirun", TORCHRUN.replace("--nproc-per-node", "-n").replace(
                'words.index("--no-python")', "1"), port=free_port())  # fmt: skip
        self.program("torchrun", TORCHRUN, port=free_port())
        self.program("srun", SRUN, port=free_port(), world=4)
        self.program("sbatch", SBATCH)
        said = self.follow("scale", {
            "SIZES": words_of(SIZES) + " -D global_batch=256 -D num_iterations=40 -D warmup_iters=5",
            "WORLDS": "1,2,4", "TARGET": "cpu", "MACHINE": "cpu", "GPUS": 2, "ALL": 4,
            "FIRST": 4, "SECOND": 8, "THIRD": 12,
        })  # fmt: skip
        self.assertIn("many.plan: ", said[0])
        self.assertRegex(said[1], "(?s)saved runs/many/step-000004.*saved runs/many/step-000008")
        # Processes give the losses of threads.
        losses = [re.findall(r"step 8/8 .*loss (\S+)", text) for text in said[1:3]]
        self.assertEqual((len(losses[0]), len(losses[1])), (1, 2))
        self.assertEqual(losses[1][0], losses[1][1])
        self.assertAlmostEqual(float(losses[0][0]), float(losses[1][0]), delta=1e-3)
        self.assertIn("4 ranks", said[3])
        self.assertIn("saved runs/many/step-000012", said[3])

    def test_fp8(self):
        self.make_shard()
        said = self.follow("fp8", {
            "SIZES": words_of({**SIZES, "vocab_size": 272, "global_batch": 256, "warmup_iters": 5}),
            "STEPS": 4, "TARGET": "cpu",
        })  # fmt: skip
        with open(self.at("scales.json"), encoding="utf-8") as file:
            self.assertIn("model.layers.1.mlp.down_proj.weight", file.read())
        self.assertIn("static.plan: ", said[0])

    def test_options(self):
        """Those that prose names too."""
        helps = [("nanoc", "--help-all"), ("nanorun", "--help")]
        tools = [
            ("nano-tokens", sub, "--help") for sub in ("encode", "info", "show", "ids", "decode")
        ]
        text = "".join(run_command(*words).stdout for words in helps)
        for tool, *words in (*tools, ("nano-grpo", "--help")):
            command = [sys.executable, os.path.join(ROOT, "tools", tool), *words]
            text += subprocess.run(
                command, capture_output=True, encoding="utf-8", check=True
            ).stdout
        known = set(re.findall(r"--[a-z][a-z0-9-]*", text))
        # Of torchrun and sbatch.
        known |= {"--nproc-per-node", "--no-python", "--job-name", "--nodes", "--ntasks-per-node",
                  "--gpus-per-node", "--signal"}  # fmt: skip
        hyper = set()
        for model in ("llama", "lora", "sft", "grpo"):
            listed = run_command("nanoc", "params", f"models/{model}.cpp").stdout.split(
                "parameters\n"
            )[1]
            hyper |= set(re.findall(r"^  (\w+) ", listed, re.M))
        names = sorted(name for name in os.listdir(RECIPES) if name != "README.md")
        for name in names:
            content = page(name.removesuffix(".md"))
            for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", content):
                self.assertIn(option, known, name)
            for override in re.findall(r"-D (\w+)=", content):
                self.assertIn(override, hyper, name)
        followed = [
            method.removeprefix("test_") + ".md"
            for method in dir(self)
            if method.startswith("test_")
        ]
        self.assertEqual(names, sorted(set(followed) - {"options.md"}))


if __name__ == "__main__":
    main()
