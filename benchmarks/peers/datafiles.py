"""Training files as docs/data.md says them: shards, safetensors files and folders of .npy files, each
a set of columns of one length, of which `tokens` is one."""

import json
import os
import struct

import numpy

# What a shard begins with, and the type of its tokens.
SHARDS = {(20240520, 1): "<u2", (20240801, 7): "<u4"}
HEADER_BYTES = 1024
SAFETENSORS = {"U16": "<u2", "U32": "<u4", "I32": "<i4", "U8": "|u1", "F32": "<f4"}
# Types of columns as models name them.
COLUMNS = {"|u1": "u8", "<i4": "i32", "<f4": "f32"}


class DataError(Exception):
    """A file or a pattern that cannot be used; its text is the message for the user."""


def read_file(path):
    """{name: values} of a training file, nothing of it loaded yet."""
    try:
        if os.path.isdir(path):
            return read_folder(path)
        header = numpy.fromfile(path, "<i4", count=256)
        kind = SHARDS.get(tuple(header[:2].tolist())) if len(header) == 256 else None
        if kind is not None:
            tokens = numpy.memmap(path, kind, mode="r", offset=HEADER_BYTES)
            if len(tokens) != header[2]:
                raise DataError(
                    f"{path} holds {len(tokens)} tokens, not {header[2]}; make it again"
                )
            return {"tokens": tokens}
        columns = read_safetensors(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}; check --train") from error
    if columns is None:
        raise DataError(f"{path} is no token shard; make one with tools/nano-tokens")
    return columns


def read_folder(path):
    names = sorted(name for name in os.listdir(path) if name.endswith(".npy"))
    columns = {
        name.removesuffix(".npy"): numpy.load(os.path.join(path, name), mmap_mode="r")
        for name in names
    }
    if "tokens" not in columns:
        raise DataError(f"{path} has no tokens.npy; check --train")
    return columns


def read_safetensors(path):
    """The columns of a safetensors file; None where the file is none."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        begin = file.read(8)
        length = struct.unpack("<Q", begin)[0] if len(begin) == 8 else size
        try:
            header = json.loads(file.read(length)) if length <= size - 8 else None
        except ValueError:
            return None
    if not isinstance(header, dict) or "tokens" not in header:
        return None
    return {
        name: numpy.memmap(
            path,
            SAFETENSORS[entry["dtype"]],
            mode="r",
            offset=8 + length + entry["data_offsets"][0],
            shape=tuple(entry["shape"]),
        )
        for name, entry in header.items()
        if name != "__metadata__" and entry["dtype"] in SAFETENSORS
    }


def check_columns(path, columns, wanted):
    """That a file's columns are those that a model reads, {name: type}."""
    for name, kind in wanted.items():
        if name not in columns:
            raise DataError(f"{path} has no column {name} ({kind}), which the model reads")
        found = COLUMNS.get(columns[name].dtype.str)
        if found != kind:
            raise DataError(f"{path}: column {name} is {found}, and the model reads it as {kind}")
