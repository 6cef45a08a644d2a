"""Token shards as llm.c has them: 256 little-endian int32 (magic, version, number of tokens, rest 0)
and then that many little-endian tokens, uint16 with magic 20240520 and version 1 (GPT-2's), uint32
with 20240801 and 7 (Llama 3's); and the way files appear together or not at all."""

import array
import json
import os
import struct
import sys

from .errors import UserError

HEADER_INTS = 256
HEADER_BYTES = 4 * HEADER_INTS
# By the array type of the tokens: magic and version.
FORMATS = {"H": (20240520, 1), "I": (20240801, 7)}


def token_type(vocab_size):
    """The array type of tokens of such a vocabulary: "H" (16 bits) where they fit, else "I"."""
    return "H" if vocab_size <= 1 << 16 else "I"


def little_endian(values):
    """`values` (an array) as little-endian bytes."""
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()


class Staging:
    """Files that appear together or not at all: written under temporary names, then renamed when
    everything is on disk."""

    def __init__(self):
        self.files = []  # (temporary path, final path)

    def create(self, final):
        temporary = os.path.join(
            os.path.dirname(final), f".{os.path.basename(final)}.{os.getpid()}.tmp"
        )
        self.files.append((temporary, final))
        return open(temporary, "wb")

    def close(self, file):
        file.flush()
        os.fsync(file.fileno())
        file.close()

    def publish(self):
        for temporary, final in self.files:
            os.replace(temporary, final)
        for folder in {os.path.dirname(final) or "." for _, final in self.files}:
            handle = os.open(folder, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
        self.files = []

    def discard(self):
        for temporary, _ in self.files:
            if os.path.exists(temporary):
                os.unlink(temporary)


class ShardWriter:
    """Spreads documents over PREFIX_000000.bin, PREFIX_000001.bin, … of at most `limit` tokens. A
    document is cut in two only where it is longer than a whole shard."""

    suffix, header_bytes = "bin", HEADER_BYTES

    def __init__(self, staging, prefix, limit, type="H"):
        """`type`: of the tokens, as `token_type` says."""
        self.staging, self.prefix, self.limit, self.type = staging, prefix, limit, type
        self.file, self.count = None, 0
        self.shards, self.tokens, self.documents = [], 0, 0
        self.lengths = array.array("I")

    def add(self, tokens):
        """`tokens`: an array of the writer's type, one document with its leading end-of-text
        token."""
        self.documents += 1
        self.tokens += len(tokens)
        self.lengths.append(len(tokens))
        if self.count + len(tokens) > self.limit >= len(tokens):
            self.finish_shard()
        while len(tokens):
            if self.file is None:
                name = f"{self.prefix}_{len(self.shards):06d}.{self.suffix}"
                self.shards.append(name)
                self.file = self.staging.create(name)
                self.file.write(bytes(self.header_bytes))
            piece = tokens[: self.limit - self.count]
            self.file.write(little_endian(piece))
            self.count += len(piece)
            tokens = tokens[len(piece) :]
            if self.count == self.limit:
                self.finish_shard()

    def finish_shard(self):
        if self.file is None:
            return
        self.write_header()
        self.staging.close(self.file)
        self.file, self.count = None, 0

    def write_header(self):
        magic, version = FORMATS[self.type]
        header = array.array("i", [magic, version, self.count] + [0] * (HEADER_INTS - 3))
        self.file.seek(0)
        self.file.write(little_endian(header))


class ColumnWriter(ShardWriter):
    """The same with a column `mask` (u8) beside the tokens: PREFIX_000000.safetensors, …"""

    suffix, header_bytes = "safetensors", 256

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.mask = bytearray()

    def add(self, tokens, mask=None):
        self.mask += mask if mask is not None else bytes(len(tokens))
        super().add(tokens)

    def write_header(self):
        size = self.count * array.array(self.type).itemsize
        self.file.write(self.mask[: self.count])
        del self.mask[: self.count]
        header = {
            "tokens": {
                "dtype": {"H": "U16", "I": "U32"}[self.type],
                "shape": [self.count],
                "data_offsets": [0, size],
            },
            "mask": {
                "dtype": "U8",
                "shape": [self.count],
                "data_offsets": [size, size + self.count],
            },
        }
        text = json.dumps(header).encode().ljust(self.header_bytes - 8)
        self.file.seek(0)
        self.file.write(struct.pack("<Q", len(text)) + text)


def read_columns(path):
    """(tokens, mask or None) of a shard or a safetensors file; UserError when it is neither."""
    with open(path, "rb") as file:
        data = file.read()
    if data[8:9] != b"{":
        return read_shard(path), None
    try:
        size = struct.unpack("<Q", data[:8])[0]
        header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
        columns = {}
        for name, types in (
            ("tokens", {"U16": "H", "U32": "I", "I32": "i"}),
            ("mask", {"U8": "B"}),
        ):
            if name in header:
                columns[name] = array.array(types[header[name]["dtype"]])
                columns[name].frombytes(body[slice(*header[name]["data_offsets"])])
        tokens, mask = columns["tokens"], columns.get("mask")
    except (KeyError, TypeError, ValueError, struct.error):
        raise UserError(f"{path}: not a safetensors file with a column of tokens") from None
    if mask is not None and len(mask) != len(tokens):
        raise UserError(f"{path}: {len(mask)} elements of mask for {len(tokens)} tokens")
    return tokens, mask


def read_shard(path):
    """The tokens of a shard as an array('H') or array('I'); UserError when the file is no shard."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < HEADER_BYTES:
        raise UserError(
            f"{path}: {len(data)} bytes are fewer than a shard's header of {HEADER_BYTES}: not a "
            f"token shard"
        )
    header = array.array("i", data[:HEADER_BYTES])
    if sys.byteorder == "big":
        header.byteswap()
    types = [type for type, (magic, _) in FORMATS.items() if magic == header[0]]
    if not types:
        known = " or ".join(str(magic) for magic, _ in FORMATS.values())
        raise UserError(f"{path}: magic {header[0]} instead of {known}: not a token shard")
    version = FORMATS[types[0]][1]
    if header[1] != version:
        raise UserError(f"{path}: version {header[1]}, this tool reads version {version}")
    tokens = array.array(types[0])
    held = (len(data) - HEADER_BYTES) / tokens.itemsize
    if header[2] != held:
        raise UserError(
            f"{path}: the header promises {header[2]} tokens, the file holds {held:g}: truncated "
            f"or damaged"
        )
    tokens.frombytes(data[HEADER_BYTES:])
    if sys.byteorder == "big":
        tokens.byteswap()
    return tokens
