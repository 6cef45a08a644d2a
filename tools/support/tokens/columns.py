"""Columns of training data made of lines of JSON: nano-grpo and nano-dpo."""

import contextlib
import json
import os
import struct
import sys

from tokens.errors import UserError, one_line


def is_ids(value):
    is_id = lambda token: type(token) is int and 0 <= token < 1 << 31
    return isinstance(value, list) and all(map(is_id, value))


def read_lines(path, fields, lists):
    """The lines, each a dictionary with `fields`, of which `lists` are token ids: a prompt, and what
    may follow it; (file and line, line) of each. UserError with file and line."""
    first = None
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            at = f"{path}:{number}"
            try:
                entry = json.loads(line.decode("utf-8"))
            except (ValueError, RecursionError) as error:
                raise UserError(f"{at}: no JSON: {one_line(error)}") from None
            if not isinstance(entry, dict) or any(name not in entry for name in fields):
                raise UserError(f"{at}: needs an object with {', '.join(fields)}")
            if not all(is_ids(entry[name]) and entry[name] for name in lists):
                names = f"{', '.join(lists[:-1])} and {lists[-1]}"
                raise UserError(f"{at}: {names} must be lists of token ids, not empty")
            begin, *prompt = entry[lists[0]]
            if any(begin in tokens for tokens in (prompt, *(entry[name] for name in lists[1:]))):
                raise UserError(
                    f"{at}: token {begin}, with which the prompt begins, stands in it again; it"
                    " must begin with the model's eos_token, and end nothing"
                )
            first = begin if first is None else first
            if begin != first:
                raise UserError(
                    f"{at}: the prompt begins with token {begin}, and that of the first line"
                    f" with {first}; begin each with the model's eos_token"
                )
            yield at, entry


def write_npy(path, kind, values):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({len(values)},), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    if sys.byteorder == "big":
        values.byteswap()
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        values.tofile(file)


def write_folder(folder, columns, scores):
    """The columns, each a name with kind and values; `scores` that the folder has, of the tokens that
    it held before, are removed."""
    os.makedirs(folder, exist_ok=True)
    path_of = lambda name: os.path.join(folder, name + ".npy")
    for name in scores:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path_of(name))
    for name, (kind, values) in columns.items():
        write_npy(path_of(name), kind, values)
