#!/usr/bin/env python3
"""Writes TorchReferences.inc: a parameter [4, 6] after 20 steps of PyTorch's optimizers in double
precision, on the numbers that OptimizerHeaderTest.cpp takes too.

usage: torch_references.py > TorchReferences.inc     needs PyTorch"""

import math

import torch

ROWS, COLUMNS, STEPS = 4, 6, 20


def parameter():
    values = [math.sin(1.7 * i + 0.3) for i in range(ROWS * COLUMNS)]
    return torch.tensor(values, dtype=torch.float64).reshape(ROWS, COLUMNS)


def gradient(step):
    values = [
        math.cos(0.9 * step + 1.3 * i) * (1 + 0.1 * (i % 7)) for i in range(ROWS * COLUMNS)
    ]
    return torch.tensor(values, dtype=torch.float64).reshape(ROWS, COLUMNS)


OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.95), eps=1e-8),
    "adamW": lambda p: torch.optim.AdamW(p, lr=0.02, betas=(0.9, 0.95), weight_decay=0.1),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adafactor": lambda p: torch.optim.Adafactor(
        p, lr=0.02, beta2_decay=-0.8, eps=(1e-30, 1e-3), d=1.0, weight_decay=0.1
    ),
}


def main():
    print(f"// Made by torch_references.py with PyTorch {torch.__version__}.")
    for name, make in OPTIMIZERS.items():
        p = torch.nn.Parameter(parameter())
        optimizer = make([p])
        for step in range(STEPS):
            p.grad = gradient(step)
            optimizer.step()
        numbers = [repr(x) for x in p.detach().flatten().tolist()]
        print(f'{{"{name}",\n {{')
        for i in range(0, len(numbers), 4):
            print("     " + ", ".join(numbers[i : i + 4]) + ",")
        print(" }},")


if __name__ == "__main__":
    main()
