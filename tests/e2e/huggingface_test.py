#!/usr/bin/env python3
"""The pages of models that others have publish the same numbers as `transformers`: folders go in by
--init and out by --export-hf, and training follows PyTorch.

Needs torch and transformers; interchange_test.py needs neither. All in f32 on the CPU, with random
weights: logits within 1e-5 of the largest one, for sums of a few hundred products of f32; ten steps
of AdamW with losses within 1e-6 and parameters, by the norm of a tensor, within 1e-5. adam_eps is
large enough that a gradient of rounding errors alone does not become a step of the full rate."""

import json
import math
import os
import struct
import subprocess
import sys
import unittest

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from harness import BIN, GPT2, LIMIT, LLAMA, ROOT, RunTest, read_log, run_command, tokens, train_losses
from harness import write_shard

LOGITS_TOLERANCE = 1e-5
EXPORTED_TOLERANCE = 1e-6
LOSS_TOLERANCE = 1e-6
PARAMETER_TOLERANCE = 1e-5
STEPS = 10
SIZES_GPT2 = {
    **GPT2,
    "final_lr_frac": 0.1,
    "learning_rate": 3e-3,
    "grad_clip": 0.25,
    "adam_eps": 1e-3,
}
NANOCHAT = {
    **{name: value for name, value in LLAMA.items() if name not in ("head_dim", "learning_rate")},
    "matrix_lr": 0.02,
    "embedding_lr": 0.01,
    "unembedding_lr": 0.002,
    "norm_eps": 1e-6,
}
del NANOCHAT["warmup_iters"]
QWEN = {**LLAMA, "head_dim": 32, "tied": "yes", "norm_eps": 1e-6, "rope_theta": 1e6}

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)


def llama_config(sizes, **more):
    return {
        "vocab_size": sizes["vocab_size"],
        "hidden_size": sizes["model_dim"],
        "intermediate_size": sizes["ffn_dim"],
        "num_hidden_layers": sizes["num_layers"],
        "num_attention_heads": sizes["num_heads"],
        "num_key_value_heads": sizes["num_kv_heads"],
        "head_dim": sizes["head_dim"],
        "rms_norm_eps": sizes.get("norm_eps", 1e-5),
        "bos_token_id": 0,
        "eos_token_id": 256,
        "pad_token_id": None,
        "tie_word_embeddings": sizes.get("tied") == "yes",
        **more,
    }


def gpt2_config(sizes):
    return {
        "vocab_size": sizes["vocab_size"],
        "n_embd": sizes["model_dim"],
        "n_layer": sizes["num_layers"],
        "n_head": sizes["num_heads"],
        "n_positions": sizes["block_size"],
        "bos_token_id": 256,
        "eos_token_id": 256,
        "attn_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "resid_pdrop": 0.0,
    }


LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LLAMA3 = {
    **LLAMA,
    "rope_scaling": "llama3",
    "rope_theta": 500000,
    "rope_original_block": 64,
}


def difference(found, wanted):
    """The largest difference, as a part of the largest number."""
    return float((found - wanted).abs().max() / wanted.abs().max())


def read_logits(path):
    with open(path, "rb") as file:
        raw = file.read()
    size = struct.unpack("<Q", raw[:8])[0]
    shape = json.loads(raw[8 : 8 + size])["logits"]["shape"]
    return torch.frombuffer(bytearray(raw[8 + size :]), dtype=torch.float32).view(shape)


def learning_rate(step, sizes):
    """Linear warm-up, then half a cosine down to final_lr_frac of it."""
    most, warmup = sizes["learning_rate"], sizes["warmup_iters"]
    if step < warmup:
        return most * (step + 1) / warmup
    least = most * sizes.get("final_lr_frac", 0.1)
    progress = (step - warmup) / max(sizes["num_iterations"] - warmup, 1)
    return least + 0.5 * (1 + math.cos(math.pi * progress)) * (most - least)


def adamw(named, sizes):
    """update(step): AdamW, with weight decay of matrices."""
    adam = torch.optim.AdamW(
        [
            {
                "params": [p for _, p in named if (p.dim() == 2) == is_matrix],
                "weight_decay": sizes.get("weight_decay", 0.1) if is_matrix else 0.0,
            }
            for is_matrix in (True, False)
        ],
        betas=(0.9, 0.95),
        eps=sizes["adam_eps"],
    )

    def update(step):
        for group in adam.param_groups:
            group["lr"] = learning_rate(step, sizes)
        adam.step()

    return update


def orthogonal(x):
    """Five steps of Newton and Schulz in f32."""
    turned = x.size(0) > x.size(1)
    x = x.T if turned else x
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if turned else x


def muon_and_adam(named, sizes):
    """update(step): Muon for the layers' matrices, Adam for embedding and head, at full rates."""
    width = (sizes["model_dim"] / 768) ** -0.5
    rest = {"model.embed_tokens.weight": "embedding_lr", "lm_head.weight": "unembedding_lr"}
    adam = torch.optim.Adam(
        [{"params": [p], "lr": sizes[rest[n]] * width} for n, p in named if n in rest],
        betas=(0.8, 0.95),
        eps=sizes["adam_eps"],
    )
    buffers = {name: torch.zeros_like(p) for name, p in named if name not in rest}

    def update(step):
        adam.step()
        momentum = 0.85 + 0.10 * min(step / 300, 1)
        for name, p in named:
            if name not in rest:
                buffers[name].lerp_(p.grad, 1 - momentum)
                u = p.grad.lerp(buffers[name], momentum)
                rate = sizes["matrix_lr"] * max(1, p.size(0) / p.size(1)) ** 0.5
                p.sub_(rate * orthogonal(u))

    return update


class Pages(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.content = tokens(512 * STEPS + 64, 5)
        cls.shard = os.path.join(cls.scratch.name, "t_0.bin")
        write_shard(cls.shard, cls.content)
        cls.prompt = os.path.join(cls.scratch.name, "prompt.txt")
        with open(cls.prompt, "w", encoding="utf-8") as file:
            print(*cls.content[:64], file=file)

    def model(self, kind, config):
        """A model whose every parameter is random, those of norms and biases too."""
        torch.manual_seed(3)
        model = getattr(transformers, kind + "ForCausalLM", None)
        model = model or getattr(transformers, kind + "LMHeadModel")
        model = model(getattr(transformers, kind + "Config")(**config)).float().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                scale = 0.1 if parameter.dim() == 1 else 0.04
                parameter.add_(scale * torch.randn_like(parameter))
        return model

    def save(self, model, name, shard="100KB"):
        folder = self.path(name)
        model.save_pretrained(folder, max_shard_size=shard)
        return folder

    def done(self, *arguments):
        done = run_command("nanorun", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout

    def logits(self, plan, *start):
        """Of the prompt, by nanorun."""
        path = self.path("logits.safetensors")
        done = run_command(
            "nanorun",
            plan,
            "--prompt-tokens",
            self.prompt,
            "--logits",
            path,
            "--threads",
            1,
            *start,
        )
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        return read_logits(path)

    def logits_of(self, model):
        with torch.no_grad():
            return model(torch.tensor([self.content[:64]])).logits[0]

    def train_torch(self, model, sizes, optimizers):
        """The losses of ten steps; the model's parameters are those after them."""
        update = optimizers(list(model.named_parameters()), sizes)
        losses = []
        batch, block = sizes["global_batch"], sizes["block_size"]
        for step in range(STEPS):
            at = step * batch
            words = torch.tensor(self.content[at : at + batch + 1])
            logits = model(words[:-1].view(-1, block)).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), words[1:])
            loss.backward()
            parameters = list(model.parameters())
            norm = torch.sqrt(sum(p.grad.double().square().sum() for p in parameters))
            for p in parameters:
                p.grad.mul_(min(1.0, sizes["grad_clip"] / float(norm)))
            with torch.no_grad():
                update(step)
            model.zero_grad()
            losses.append(loss.item())
        return losses

    def check(self, page, kind, sizes, config, optimizers=adamw):
        plan = self.compile(page, sizes, page + ".plan")
        model = self.model(kind, config)
        folder = self.save(model, page + "-in")
        self.assertTrue(os.path.exists(f"{folder}/model.safetensors.index.json"))
        ours = self.logits(plan, "--init", folder)
        theirs = self.logits_of(model)
        self.assertLess(difference(ours, theirs), LOGITS_TOLERANCE)
        self.assertGreater(float(theirs.abs().max()), 0.1)

        # Out again, as it came in.
        exported = self.path(page + "-out")
        self.done(plan, "--init", folder, "--steps", 0, "--export-hf", exported)
        again = type(model).from_pretrained(exported).eval()
        self.assertEqual({p.dtype for p in again.parameters()}, {torch.float32})
        kept = dict(model.named_parameters())
        for name, parameter in again.named_parameters():
            self.assertTrue(torch.equal(parameter, kept[name]), name)
        self.assertLess(difference(self.logits_of(again), ours), EXPORTED_TOLERANCE)
        self.assertLess(difference(self.logits(plan, "--init", exported), ours), 1e-30)

        # Ten steps from there.
        trained, log = self.path(page + "-trained"), self.path(page + ".jsonl")
        self.done(
            *(plan, "--init", folder, "--train", self.shard, "--steps", STEPS, "--threads", 1),
            *("--export-hf", trained, "--log", log),
        )
        wanted = self.train_torch(model.train(), sizes, optimizers)
        self.assert_near(train_losses(read_log(log)), wanted, LOSS_TOLERANCE, "step")
        self.assertLess(wanted[-1], wanted[0])
        found = dict(type(model).from_pretrained(trained).named_parameters())
        with torch.no_grad():
            for name, p in model.named_parameters():
                apart = float((found[name] - p).norm() / p.norm())
                self.assertLess(apart, PARAMETER_TOLERANCE, name)

    def test_gpt2(self):
        self.check("gpt2", "GPT2", SIZES_GPT2, gpt2_config(SIZES_GPT2))

    def test_llama(self):
        """With shared keys, a head of its own, and frequencies as in Llama 3.1."""
        config = llama_config(LLAMA3, rope_parameters=LLAMA3_ROPE)
        self.check("llama", "Llama", LLAMA3, config)

    def test_qwen3(self):
        config = llama_config(QWEN, rope_parameters={"rope_type": "default", "rope_theta": 1e6})
        self.check("qwen3", "Qwen3", QWEN, config)

    def test_nanochat(self):
        config = {
            **llama_config({**NANOCHAT, "head_dim": 16}),
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        }
        self.check("nanochat", "NanoChat", NANOCHAT, config, muon_and_adam)

    def test_variants(self):
        """What other folders of the same pages look like: logits in, and logits out."""
        linear = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
        plain = {"rope_type": "default", "rope_theta": 10000.0}
        for name, page, kind, sizes, config in (
            (
                "linear",
                "llama",
                "Llama",
                {**LLAMA, "rope_scaling": "linear", "rope_factor": 4},
                llama_config(LLAMA, rope_parameters=linear),
            ),
            (
                "tied",
                "llama",
                "Llama",
                {**LLAMA, "tied": "yes"},
                llama_config({**LLAMA, "tied": "yes"}, rope_parameters=plain),
            ),
            (
                "mistral",
                "llama",
                "Mistral",
                LLAMA,
                llama_config(LLAMA, rope_parameters=plain, sliding_window=64),
            ),
            (
                "untied",
                "qwen3",
                "Qwen3",
                {**QWEN, "tied": "no", "num_kv_heads": 4},
                llama_config({**QWEN, "tied": "no", "num_kv_heads": 4}, rope_parameters=plain)
                | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
            ),
        ):
            with self.subTest(name):
                plan = self.compile(page, sizes, name + ".plan")
                model = self.model(kind, config)
                # As most folders are: in bf16.
                folder = self.save(model.bfloat16(), name + "-in", "1GB")
                ours = self.logits(plan, "--init", folder)
                model = type(model).from_pretrained(folder, dtype=torch.float32).eval()
                theirs = self.logits_of(model)
                self.assertLess(difference(ours, theirs), LOGITS_TOLERANCE)
                exported = self.path(name + "-out")
                self.done(plan, "--init", folder, "--steps", 0, "--export-hf", exported)
                again = transformers.AutoModelForCausalLM.from_pretrained(exported).eval()
                self.assertLess(difference(self.logits_of(again), ours), EXPORTED_TOLERANCE)

    def test_text(self):
        """A sample's text is what `tokenizers` decodes its ids to, of both kinds."""
        plan = self.compile("gpt2", {**SIZES_GPT2, "num_layers": 1}, "text.plan")
        given = ("--sample", 60, "--temperature", 3, "--threads", 1)
        ids = [int(word) for word in self.done(plan, *given).split()]
        words = ["the cat sat on the mat, à côté de la fenêtre; naïve façade — 猫がすわる"] * 20
        level = Tokenizer(models.BPE())
        level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        level.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        level.train_from_iterator(
            words, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet)
        )
        # Runs of bytes that are no UTF-8 as a whole are for each to mend: here all are.
        pieces = {f"<0x{byte:02X}>": byte for byte in range(128)}
        pieces |= {f"▁é{token}▁" if token % 2 else f"w{token}": token for token in range(128, 257)}
        fallback = Tokenizer(models.BPE(pieces, [], byte_fallback=True))
        fallback.decoder = decoders.Sequence(
            [
                decoders.Replace("▁", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        )
        for kind, tokenizer in (("level", level), ("fallback", fallback)):
            path = self.path(kind + ".json")
            tokenizer.save(path)
            found = subprocess.run(
                [os.path.join(BIN, "nanorun"), plan, *map(str, given), "--tokenizer", path],
                capture_output=True,
                timeout=LIMIT,
            ).stdout
            wanted = tokenizer.decode(ids, skip_special_tokens=False)
            mended = found.decode("utf-8", "replace")
            strip = lambda text: text.replace("\ufffd", "")
            self.assertEqual(strip(mended), strip(wanted) + "\n", kind)
            self.assertGreater(len(strip(wanted)), 20, kind)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
