#!/usr/bin/env python3
"""benchmarks/peers computes what nanoc's plans of the same models compute. Needs PyTorch.

In f32 on the CPU both are compared with nano-reference, whose double precision is exact to either:
losses within 1e-4, parameters by the norm of a tensor, for the reasons in reference_test.py. Of
models that the reference does not have, peer and plan are compared with each other likewise."""

import array
import json
import sys

from harness import main, overrides, read_safetensors, train_losses
from peers import (
    BF16_TOLERANCE,
    BLOCKS,
    DENSE,
    FLOAT8_FIRST_TOLERANCE,
    FLOAT8_TOLERANCE,
    FOLDER,
    LOSS_TOLERANCE,
    PARAMETER_TOLERANCE,
    PeersTest,
    SIZES,
    SIZES_44,
    SIZES_DPO,
    SIZES_GPT2,
    SIZES_GRPO,
    SIZES_LLAMA,
    SIZES_LORA,
    SIZES_LORA_CHATS,
    SIZES_MOE,
    SIZES_NANOCHAT,
    SIZES_QWEN3,
    SIZES_SFT,
    STEPS,
)

MOE_TOLERANCE = 1e-6  # every step's, experts chosen and rows dropped alike (found: 2e-7)

class Step(PeersTest):
    """Runs that train."""

    def start(self, model, sizes):
        """Initial parameters, the same for both."""
        path = self.path("initial.safetensors")
        self.ran("nano-reference", model, *overrides(sizes), "--random-init", path, "--seed", 3)
        return path

    def both(self, model, sizes, steps, *options, fp8=None):
        """(report of the peer, its parameters, the reference's losses, its parameters); `fp8` where the
        reference is not to have its default."""
        initial = self.start(model, sizes)
        found, wanted = self.path("found.safetensors"), self.path("wanted.safetensors")
        given = (*overrides(sizes), "--init", initial, "--train", self.path("t_*.bin"))
        fp8 = ("-D", f"fp8={fp8}") if fp8 else ()
        lines = self.ran(
            *("nano-reference", model, *given, *fp8, "--steps", steps, "--dump-params", wanted)
        )
        report = self.step(
            *(model, *given, *options, "--steps", steps - 2, "--warmup", 1, "--dump-params", found)
        )
        self.assertEqual(report["notes"], [])
        losses = train_losses([json.loads(line) for line in lines.splitlines()])
        return report, found, losses, wanted

    def beside_plan(
        self, model, sizes, *options, data="t_*.bin", learnt=0.95, tolerance=LOSS_TOLERANCE
    ):
        """The report of a peer whose losses and parameters are those of the plan, from its start."""
        plan = self.compile(model, sizes, "beside.plan")
        initial, found = self.path("initial.safetensors"), self.path("found.safetensors")
        self.ran("nanorun", plan, "--steps", 0, "--dump-params", initial)
        log, wanted = self.train(plan, "beside", "--steps", STEPS, "--init", initial, data=data)
        sizes = {name: value for name, value in sizes.items() if name != "val_seq_len"}
        given = ("--init", initial, "--train", self.path(data), "--dump-params", found)
        steps = ("--steps", STEPS - 2, "--warmup", 1)
        report = self.step(model, *overrides(sizes), *given, *steps, *options)
        self.assertEqual(report["notes"], [])
        losses = train_losses(log)
        self.assert_near(report["losses"], losses, tolerance, "step")
        self.assert_parameters_near(found, wanted, PARAMETER_TOLERANCE)
        if learnt:
            self.assertLess(losses[-1], learnt * losses[0])
        return report

    def test_qwen3(self):
        self.beside_plan("qwen3", SIZES_QWEN3)
        self.beside_plan("qwen3", {**SIZES_QWEN3, "tied": "no"})

    def test_nanochat(self):
        self.beside_plan("nanochat", SIZES_NANOCHAT)

    def test_moe(self):
        """Where nothing is dropped, and where some experts have too few rows."""
        whole = self.beside_plan("moe", SIZES_MOE, tolerance=MOE_TOLERANCE)
        dropped = self.beside_plan(
            "moe", {**SIZES_MOE, "capacity_factor": 1.0}, tolerance=MOE_TOLERANCE
        )
        self.assertNotEqual(whole["losses"][1:], dropped["losses"][1:])

    def test_sft(self):
        """Chats in an order of their own; and two rows in a sequence, whose documents go on in the next
        one, without a loss mask."""
        self.beside_plan("sft", SIZES_SFT, *DENSE, data="c_*.safetensors")
        sizes = {**SIZES_SFT, "block_size": 128, "documents": "cut", "loss_mask": "no"}
        self.beside_plan("sft", sizes, *DENSE)

    def test_lora(self):
        """Adapters of some matrices, and of all on packed chats."""
        self.beside_plan("lora", SIZES_LORA, learnt=0.995)
        self.beside_plan("lora", SIZES_LORA_CHATS, *DENSE, data="c_*.safetensors", learnt=0.995)

    def test_grpo(self):
        """Ratios within and beyond the clips, with a penalty and without."""
        data = "c_*.safetensors"
        self.beside_plan("grpo", SIZES_GRPO, *DENSE, data=data, learnt=None)
        self.beside_plan("grpo", {**SIZES_GRPO, "kl_weight": 0}, *DENSE, data=data, learnt=None)

    def test_dpo(self):
        """Pairs whose margins the labels' smoothing moves, and with plain labels."""
        data = "d_*.safetensors"
        self.beside_plan("dpo", SIZES_DPO, *DENSE, data=data, learnt=None)
        plain = {**SIZES_DPO, "label_smoothing": 0}
        self.beside_plan("dpo", plain, *DENSE, data=data, learnt=None)

    def test_gpt124m(self):
        # Windows of 1 to 4 blocks on 4 blocks; two micro-batches a step; two shards.
        sizes = {**SIZES, "seq_len": 512, "global_batch": 1024}
        report, found, wanted, reference = self.both("gpt124m", sizes, STEPS, *BLOCKS)
        self.assert_near(report["losses"], wanted, LOSS_TOLERANCE, "step")
        self.assert_parameters_near(found, reference, PARAMETER_TOLERANCE)
        self.assertLess(wanted[-1], 0.6 * wanted[0])

    def test_speedrun26(self):
        """Sequences that begin where documents do; an ε as large as what stands beside it tells where."""
        sizes = {**SIZES, "adam_eps": 1e-3}
        report, found, wanted, reference = self.both("speedrun26", sizes, STEPS, *BLOCKS)
        self.assert_near(report["losses"], wanted, LOSS_TOLERANCE, "step")
        self.assert_parameters_near(found, reference, PARAMETER_TOLERANCE)
        self.assertLess(wanted[-1], 0.9 * wanted[0])

    def test_speedrun44(self):
        """A whole run over the four stages; steps of Adam on every second one."""
        report, found, wanted, reference = self.both("speedrun44", SIZES_44, 16, *DENSE, fp8="off")
        self.assertEqual(report["stages"], [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4)
        self.assert_near(report["losses"], wanted, LOSS_TOLERANCE, "step")
        self.assert_parameters_near(found, reference, PARAMETER_TOLERANCE)
        self.assertLess(wanted[-1], 0.9 * wanted[0])

    def test_gpt2(self):
        # Four rows in each of two micro-batches a step; warm-up, then the cosine; two shards.
        report, found, wanted, reference = self.both("gpt2", SIZES_GPT2, STEPS)
        self.assertNotEqual(report["attention"], "fastest")
        self.assertGreater(report["attention_ms"][report["attention"]], 0)
        self.assert_near(report["losses"], wanted, LOSS_TOLERANCE, "step")
        self.assert_parameters_near(found, reference, PARAMETER_TOLERANCE)
        self.assertLess(wanted[-1], 0.95 * wanted[0])

    def test_llama(self):
        """Shared keys, and positions that turn by Llama 3.1's frequencies."""
        sizes = {**SIZES_LLAMA, "rope_scaling": "llama3", "rope_original_block": 64}
        report, found, wanted, reference = self.both("llama", sizes, STEPS)
        self.assert_near(report["losses"], wanted, LOSS_TOLERANCE, "step")
        self.assert_parameters_near(found, reference, PARAMETER_TOLERANCE)
        self.assertLess(wanted[-1], 0.95 * wanted[0])

    def test_gpt2_in_bf16(self):
        """With either kind of weights, and with logits whose columns are not all tokens'."""
        initial, found = self.start("gpt2", SIZES_GPT2), self.path("found.safetensors")
        given = ("--init", initial, "--train", self.path("t_*.bin"), "--steps", 4, "--warmup", 1)
        exact = self.step("gpt2", *overrides(SIZES_GPT2), *given)
        for weights in ("autocast", "bf16"):
            sizes = {**SIZES_GPT2, "dtype": "bf16"}
            options = ("--weights", weights, "--attention", "any", "--dump-params", found)
            report = self.step("gpt2", *overrides(sizes), *given, *options)
            self.assertEqual((report["weights"], report["attention"]), (weights, "any"))
            self.assert_near(report["losses"], exact["losses"], BF16_TOLERANCE, weights)
            self.assertNotEqual(report["losses"], exact["losses"])
            # What is dumped are the f32 weights or masters, which no bf16 holds.
            self.assert_parameters_near(found, initial, 0.5)
            values = read_safetensors(found)["h.0.attn.c_attn.weight"]
            bits = array.array("I", values.tobytes())
            self.assertGreater(sum(word & 0xFFFF != 0 for word in bits), 0.9 * len(bits))

    def test_float8_head(self):
        options = ("--fp8", "head", *BLOCKS)
        report, _, wanted, _ = self.both("gpt124m", SIZES, 6, *options, fp8="head")
        self.assertEqual(report["fp8"], "head")
        self.assert_near(report["losses"][:1], wanted[:1], FLOAT8_FIRST_TOLERANCE, "first step")
        self.assert_near(report["losses"], wanted, FLOAT8_TOLERANCE, "step")

    def test_blocks_of_the_mask(self):
        """What flex_attention reads, block by block, is what the definition of the mask says."""
        import torch

        sys.path.insert(0, FOLDER)
        from masks import block_lists, document_starts, mask_rule, ordered

        tokens = torch.zeros(1280, dtype=torch.int64)
        tokens[[3, 127, 130, 256, 900]] = 7  # one document of five blocks and more
        position = torch.arange(len(tokens))
        query, key = position[:, None], position[None, :]
        document = (tokens == 7).cumsum(0)
        start = document_starts(tokens, 7)
        for window in (1, 2, 3, 14):
            seen = (key <= query) & (document[:, None] == document[None, :])
            # Of gpt124m, by blocks, and of speedrun44, by tokens.
            for far, least in (
                (query // 128 - key // 128 < window, (position // 128 - window + 1) * 128),
                (query - key <= 100 * window, position - 100 * window),
            ):
                first = start.maximum(least)
                partly, wholly = block_lists(first)
                wide = lambda blocks: blocks.repeat_interleave(128, 0).repeat_interleave(128, 1)
                found = wide(wholly) | (wide(partly) & mask_rule(first)(0, 0, query, key))
                self.assertTrue(torch.equal(found, seen & far), window)
            self.assertEqual(bool(wholly.any()), window > 2)
            for blocks in (partly, wholly):
                counts, columns = ordered(blocks)
                for row, (count, places) in enumerate(zip(counts[0, 0], columns[0, 0])):
                    listed = sorted(places[:count].tolist())
                    self.assertEqual(listed, blocks[row].nonzero().flatten().tolist())

    def test_kinds_of_masked_attention(self):
        """flex_attention, whose gradient the CPU does not have, and the mask of all queries and keys say
        the same, with keys of their own and shared ones."""
        import torch

        sys.path.insert(0, FOLDER)
        from masks import DenseAttention, FlexAttention

        torch.manual_seed(1)
        position = torch.arange(512)
        start = torch.where(position % 150 == 7, position, 0).cummax(0).values
        for first in (start, start.maximum(position - 90)):
            for shared in (4, 2):
                q = torch.randn(512, 4, 16)
                k, v = torch.randn(2, 512, shared, 16)
                for scale in (None, 1.0):
                    with torch.no_grad():
                        one, two = (
                            kind(first).attend(q, k, v, scale)
                            for kind in (FlexAttention, DenseAttention)
                        )
                    self.assertEqual(one.shape, q.shape)
                    self.assertLess((one - two).abs().max(), 1e-5)


if __name__ == "__main__":
    main()
