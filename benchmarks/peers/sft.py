"""Chat fine-tuning in PyTorch: the step of models/sft.cpp with the same parameters under the same
names: the Llama of llama.py on packed documents, with a loss on what a mask marks."""

from llama import Model, Optimizers, facts, prepare  # noqa: F401
