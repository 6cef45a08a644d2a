"""Tokens for a run: shards as nanorun reads them, in the same order, or random documents."""

import glob

import numpy

# What a shard begins with, and the type of its tokens.
KINDS = {(20240520, 1): "<u2", (20240801, 7): "<u4"}
HEADER_BYTES = 1024


class ShardError(Exception):
    """A shard or a pattern that cannot be used; its text is the message for the user."""


def read_shard(path):
    """The tokens of one shard: 256 int32 (magic, version, count, zeros), then the tokens."""
    try:
        header = numpy.fromfile(path, "<i4", count=256)
        kind = KINDS.get(tuple(header[:2].tolist())) if len(header) == 256 else None
        if kind is None:
            raise ShardError(f"{path} is no token shard; make one with tools/nano-tokens")
        tokens = numpy.memmap(path, kind, mode="r", offset=HEADER_BYTES)
    except (OSError, ValueError) as error:
        raise ShardError(f"{path} cannot be read: {error}; check --train") from error
    if len(tokens) != header[2]:
        raise ShardError(f"{path} holds {len(tokens)} tokens, not {header[2]}; make it again")
    return tokens


class Batches:
    """Successive batches of `batch` tokens. A shard is left for the next one when it holds fewer
    than `batch` + 2 tokens from the position on; after the last comes the first."""

    def __init__(self, pattern, batch):
        self.paths, self.batch = sorted(glob.glob(pattern)), batch
        if not self.paths:
            raise ShardError(f"no file matches {pattern}; check --train")
        self.shards = [read_shard(path) for path in self.paths]
        longest = max(len(shard) for shard in self.shards)
        if longest < batch + 1:
            raise ShardError(
                f"{pattern}: no shard has the {batch + 1} tokens of one step; make a longer one"
            )
        self.shard, self.position = 0, 0
        self.skip_short()

    def skip_short(self):
        while self.position + self.batch + 1 > len(self.shards[self.shard]):
            self.shard, self.position = (self.shard + 1) % len(self.shards), 0

    def next(self):
        """int64 array of batch + 1 tokens: the inputs, and shifted by one the targets."""
        shard, begin = self.shards[self.shard], self.position
        found = shard[begin : begin + self.batch + 1].astype(numpy.int64)
        self.position += self.batch
        if self.position + self.batch + 1 >= len(shard):
            self.shard, self.position = (self.shard + 1) % len(self.shards), 0
            self.skip_short()
        return found


class RandomBatches:
    """Documents of about 700 tokens, of log-normal lengths, whose words are as frequent as in a
    language (rank⁻¹). A seed makes the same ones everywhere."""

    def __init__(self, batch, vocab, eos, seed):
        self.batch, self.vocab, self.eos = batch, vocab, eos
        self.source = numpy.random.default_rng(seed)

    def next(self):
        """int64 array of batch + 1 tokens."""
        count = self.batch + 1
        ranks = numpy.exp(self.source.random(count) * numpy.log(self.vocab)).astype(numpy.int64)
        found = numpy.minimum(ranks - 1, self.vocab - 1)
        lengths = numpy.exp(self.source.normal(6.1, 0.9, count // 8 + 2)).astype(numpy.int64)
        starts = numpy.concatenate([[0], numpy.cumsum(numpy.clip(lengths, 1, 8000) + 1)])
        found[found == self.eos] = (self.eos + 1) % self.vocab
        found[starts[starts < count]] = self.eos
        return found
