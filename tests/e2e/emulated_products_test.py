#!/usr/bin/env python3
"""Training steps on the emulator whose products end in what follows them, or are several in one:
the losses of the CPU."""

from emulated import BF16_LOSS, LLAMA, EmulatedTest
from harness import GPT2, TINY, main, overrides, train_losses, val_losses


class EmulatedProducts(EmulatedTest):
    def test_products_in_kernels(self):
        """Generated kernels compute the products that they alone read: relu squared behind a product,
        whose rows a norm's factors multiply, its gradient over the square that it reads."""
        sizes = {**TINY, "global_batch": 128, "dtype": "bf16"}
        wanted, _ = self.train(self.compile("gpt_tiny", sizes, "cpu.plan"), "cpu", "--steps", 2)
        fused = ("--target", "cuda", "--products", "fused")
        plan = self.compile("gpt_tiny", sizes, "cuda.plan", *fused)
        kernels = self.ran("nanorun", plan, "--describe")
        self.assertIn("matmul_max_mul_cast", kernels)
        self.assertIn("matmul_sqrt_select", kernels)
        log, _ = self.emulate(plan, "fast", "fast", "--steps", 2)
        self.assert_near(train_losses(log), train_losses(wanted), BF16_LOSS, "step")

    def test_pairs_in_kernels(self):
        """A gate and what it gates are computed by one generated kernel, which writes both for the
        backward pass."""
        wanted, _ = self.train(self.compile("llama", LLAMA, "cpu.plan"), "cpu", "--steps", 2)
        plan = self.compile("llama", LLAMA, "cuda.plan", "--target", "cuda", "--products", "fused")
        self.assertRegex(self.ran("nanorun", plan, "--describe"), "matmul_sigmoid_mul_cast_.*: matmul ×2, ")
        log, _ = self.emulate(plan, "fast", "fast", "--steps", 2)
        self.assert_near(train_losses(log), train_losses(wanted), BF16_LOSS, "step")

    def test_products_of_one_operand(self):
        """Queries, keys and values, and a gate with what it gates, are products of one operand that
        become one, on every number of ranks and in several micro-batches."""
        wanted, _ = self.train(self.compile("llama", LLAMA, "cpu.plan"), "cpu", "--steps", 2)
        words_of_graph = (*overrides(LLAMA), "--target", "cuda", "--stop-after", "fuse")
        graph = self.ran("nanoc", "compile", "models/llama.cpp", *words_of_graph)
        for columns in (64 + 32 + 32, 96 + 96):
            # A sum over so many columns, and a product with so many.
            self.assertRegex(graph, rf"nano.matmul .*\(tensor<128x{columns}xbf16>, tensor<{columns}x64xbf16>\)")
            self.assertRegex(graph, rf"nano.matmul .*\{{transpose_b\}} .*-> tensor<128x{columns}xbf16>")
        for dist in ("allreduce", "zero2"):
            words = ("--target", "cuda", "--world", "1,2,4")
            plan = self.compile("llama", {**LLAMA, "dist": dist}, f"{dist}.plan", *words)
            for ranks in (1, 2, 4):
                log, _ = self.emulate(plan, f"{dist}{ranks}", "fast", "--gpus", ranks, "--steps", 2)
                self.assert_near(train_losses(log), train_losses(wanted), BF16_LOSS, f"{dist}, {ranks} ranks")

    def test_head_in_kernels(self):
        """The head's product, in bf16 and in 8 bits, ends with the sums of its rows' exponentials; losses
        and gradients are computed behind it. In 8 bits the weight's gradient turns that of the logits."""
        options = ("--steps", 2, "--val", self.path("v.bin"), "--val-tokens", 128)
        for fp8 in ("off", "head"):
            sizes = {**TINY, "global_batch": 128, "dtype": "bf16", "fp8": fp8}
            wanted, _ = self.train(self.compile("gpt_tiny", sizes, f"cpu_{fp8}.plan"), f"cpu_{fp8}", *options)
            fused = ("--target", "cuda", "--products", "fused")
            plan = self.compile("gpt_tiny", sizes, f"cuda_{fp8}.plan", *fused)
            kernels = self.ran("nanorun", plan, "--describe")
            self.assertIn("matmul_sum_sigmoid_exp", kernels)
            (self.assertRegex if fp8 == "head" else self.assertNotRegex)(kernels, r"matmul_[0-9a-f]{4}\b")
            log, _ = self.emulate(plan, f"fast_{fp8}", "fast", *options)
            self.assert_near(train_losses(log), train_losses(wanted), BF16_LOSS, fp8)
            self.assert_near(val_losses(log), val_losses(wanted), BF16_LOSS, fp8 + " validation")

    def test_exponentials_in_products(self):
        """The head's product ends with the exponentials of its loss: of a head that is the embedding
        and one that is not, in chunks, micro-batches and on several ranks."""
        words = ("--target", "cuda", "--losses", "product", "--world", "1,2", "--chunk-bytes", 131072)
        gpt2 = {**GPT2, "dtype": "bf16", "vocab_size": 381}
        for model, sizes in (("llama", {**LLAMA, "vocab_size": 381}), ("gpt2", gpt2)):
            wanted, _ = self.train(self.compile(model, sizes, f"{model}_cpu.plan"), f"{model}_cpu", "--steps", 2)
            plan = self.compile(model, sizes, f"{model}.plan", *words)
            kernels = self.ran("nanorun", plan, "--describe")
            self.assertIn("launch exp_matmul", kernels)
            self.assertIn("launch exp_sums", kernels)
            for ranks in (1, 2):
                log, _ = self.emulate(plan, f"{model}{ranks}", "checked", "--gpus", ranks, "--steps", 2)
                self.assert_near(train_losses(log), train_losses(wanted), BF16_LOSS, f"{model}, {ranks} ranks")

    def test_fp8_products_in_kernels(self):
        """Products of 8 bits end in what finds the largest of what the next product reads in 8 bits, and
        write what the backward pass reads: relu squared of one, SwiGLU of two."""
        for model, sizes in (("gpt_tiny", TINY), ("llama", {**LLAMA, "ffn_dim": 128})):
            sizes = {**sizes, "global_batch": 128, "dtype": "bf16", "fp8": "all"}
            wanted, _ = self.train(self.compile(model, sizes, f"{model}_cpu.plan"), f"{model}_cpu", "--steps", 2)
            plan = self.compile(model, sizes, f"{model}.plan", "--target", "cuda", "--products", "fused")
            kernels = self.ran("nanorun", plan, "--describe")
            self.assertRegex(kernels, "matmul_max_sigmoid" if model == "llama" else "matmul_max_max")
            log, _ = self.emulate(plan, f"{model}_fast", "fast", "--steps", 2)
            self.assert_near(train_losses(log), train_losses(wanted), BF16_LOSS, model)


if __name__ == "__main__":
    main()
