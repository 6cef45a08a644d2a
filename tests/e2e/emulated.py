"""What tests of plans on the emulator share: how near its numbers are to the CPU's, a small Llama,
and a run under one of its modes.

In f32 the two targets differ in the order of sums and in the last bit of functions: a loss by some
1e-7, parameters by more, because updates do not depend on a gradient's size. In bf16 every sum that
is rounded may go one way or the other, 2⁻⁹ of it."""

import os
import unittest.mock

from harness import EOS, RunTest

F32_LOSS, F32_PARAMETERS = 1e-5, 1e-3
BF16_LOSS = 5e-3
# Queries, keys and values of 64, 32 and 32 columns, a gate of 96.
LLAMA = {
    "num_layers": 1,
    "model_dim": 64,
    "num_heads": 4,
    "num_kv_heads": 2,
    "head_dim": 16,
    "ffn_dim": 96,
    "vocab_size": 257,
    "eos_token": EOS,
    "block_size": 64,
    "seq_len": 128,
    "val_seq_len": 128,
    "global_batch": 512,
    "num_iterations": 40,
    "dtype": "bf16",
}


class EmulatedTest(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_shards()

    def emulate(self, plan, name, mode, *options, seed=1):
        with unittest.mock.patch.dict(
            os.environ, {"NANO_EMULATOR": mode, "NANO_EMULATOR_SEED": str(seed)}
        ):
            return self.train(plan, name, "--device", "emulator", *options, threads=2)
