"""Token shards: 256 little-endian int32 (magic 20240520, version 1, number of tokens, rest 0) and
then that many little-endian uint16 tokens; and the way files appear together or not at all."""

import array
import os
import sys

from .errors import UserError

MAGIC, VERSION, HEADER_INTS = 20240520, 1, 256
HEADER_BYTES = 4 * HEADER_INTS


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

    def __init__(self, staging, prefix, limit):
        self.staging, self.prefix, self.limit = staging, prefix, limit
        self.file, self.count = None, 0
        self.shards, self.tokens, self.documents = [], 0, 0

    def add(self, tokens):
        """`tokens`: an array('H'), one document with its leading end-of-text token."""
        self.documents += 1
        self.tokens += len(tokens)
        if self.count + len(tokens) > self.limit >= len(tokens):
            self.finish_shard()
        while len(tokens):
            if self.file is None:
                name = f"{self.prefix}_{len(self.shards):06d}.bin"
                self.shards.append(name)
                self.file = self.staging.create(name)
                self.file.write(bytes(HEADER_BYTES))
            piece = tokens[: self.limit - self.count]
            self.file.write(little_endian(piece))
            self.count += len(piece)
            tokens = tokens[len(piece) :]
            if self.count == self.limit:
                self.finish_shard()

    def finish_shard(self):
        if self.file is None:
            return
        header = array.array("i", [MAGIC, VERSION, self.count] + [0] * (HEADER_INTS - 3))
        self.file.seek(0)
        self.file.write(little_endian(header))
        self.staging.close(self.file)
        self.file, self.count = None, 0


def read_shard(path):
    """The tokens of a shard as an array('H'); UserError when the file is no shard."""
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
    if header[0] != MAGIC:
        raise UserError(f"{path}: magic {header[0]} instead of {MAGIC}: not a token shard")
    if header[1] != VERSION:
        raise UserError(f"{path}: version {header[1]}, this tool reads version {VERSION}")
    held = (len(data) - HEADER_BYTES) / 2
    if header[2] != held:
        raise UserError(
            f"{path}: the header promises {header[2]} tokens, the file holds {held:g}: truncated "
            f"or damaged"
        )
    tokens = array.array("H", data[HEADER_BYTES:])
    if sys.byteorder == "big":
        tokens.byteswap()
    return tokens
