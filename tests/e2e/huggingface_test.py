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

from harness import BIN, GPT2, LLAMA, ROOT, RunTest, read_log, run_command, tokens, train_losses
from harness import write_shard

LOGITS_TOLERANCE = 1e-5
EXPORTED_TOLERANCE = 1e-6
LOSS_TOLERANCE = 1e-6
PARAMETER_TOLERANCE = 1e-5
STEPS = 10
SIZES_GPT2 = {**GPT2, "learning_rate": 3e-3, "grad_clip": 0.25, "adam_eps": 1e-3}
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
    least = most * sizes["final_lr_frac"]
    progress = (step - warmup) / max(sizes["num_iterations"] - warmup, 1)
    return least + 0.5 * (1 + math.cos(math.pi * progress)) * (most - least)


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

    def train_torch(self, model, sizes):
        """The losses of ten steps; the model's parameters are those after them."""
        sizes = {"weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, **sizes}
        named = list(model.named_parameters())
        adam = torch.optim.AdamW(
            [
                {
                    "params": [p for _, p in named if (p.dim() == 2) == is_matrix],
                    "weight_decay": sizes["weight_decay"] if is_matrix else 0.0,
                }
                for is_matrix in (True, False)
            ],
            betas=(sizes["beta1"], sizes["beta2"]),
            eps=sizes["adam_eps"],
        )
        losses = []
        batch, block = sizes["global_batch"], sizes["block_size"]
        for step in range(STEPS):
            at = step * batch
            words = torch.tensor(self.content[at : at + batch + 1])
            logits = model(words[:-1].view(-1, block)).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), words[1:])
            loss.backward()
            norm = torch.sqrt(sum(p.grad.double().square().sum() for _, p in named))
            for _, p in named:
                p.grad.mul_(min(1.0, sizes["grad_clip"] / float(norm)))
            for group in adam.param_groups:
                group["lr"] = learning_rate(step, sizes)
            adam.step()
            adam.zero_grad()
            losses.append(loss.item())
        return losses

    def check(self, page, kind, sizes, config):
        sizes = {**sizes, "final_lr_frac": 0.1, "global_batch": 512}
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
        wanted = self.train_torch(model.train(), sizes)
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


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
