"""Tokens and columns for a run: training files as nanorun reads them, in the same order and cut by the
same rules (docs/data.md), or random documents."""

import glob
from dataclasses import dataclass

import numpy

from datafiles import DataError, check_columns, read_file
from orders import shuffled


@dataclass
class Batch:
    """The sequences of a step: inputs and targets, int64 [S, T], and what the columns say of the
    targets, {name: [S, T]}."""

    inputs: numpy.ndarray
    targets: numpy.ndarray
    columns: dict

    @classmethod
    def of_rows(cls, tokens, columns):
        """Of S sequences of T + 1 tokens and, of each column, as many elements."""
        tokens = tokens.astype(numpy.int64)
        behind = {name: values[:, 1:].copy() for name, values in columns.items()}
        return cls(tokens[:, :-1].copy(), tokens[:, 1:].copy(), behind)


class Batches:
    """Successive batches of files, cut as a sizes.Cutting says."""

    def __init__(self, pattern, cutting, seed=0):
        self.pattern, self.cutting, self.seed = pattern, cutting, seed
        self.paths = sorted(glob.glob(pattern))
        if not self.paths:
            raise DataError(f"no file matches {pattern}; check --train")
        self.files = [read_file(path) for path in self.paths]
        for path, columns in zip(self.paths, self.files):
            check_columns(path, columns, cutting.columns)
        self.take = getattr(self, cutting.rule)
        # Behind what was read: in a file a place among its tokens, or a count of its documents.
        self.epoch, self.turn, self.position = 0, 0, 0
        self.enter()

    def enter(self):
        """Begins the file whose turn it is."""
        cutting, self.file = self.cutting, self.turn
        if cutting.shuffle:
            self.file = shuffled(len(self.files), self.seed, f"shards/{self.epoch}")[self.turn]
        self.position = 0
        tokens = self.files[self.file]["tokens"]
        self.begins, self.documents = None, None
        if cutting.rule == "contiguous":
            return
        self.begins = numpy.flatnonzero(numpy.asarray(tokens) == cutting.eos)
        lengths = numpy.diff(self.begins, append=len(tokens))
        if cutting.longest:
            lengths = numpy.minimum(lengths, cutting.longest)
        order = slice(None)
        if cutting.shuffle:
            name = f"documents/{self.epoch}/{self.file}"
            order = shuffled(len(lengths), self.seed, name)
        self.documents = list(zip(self.begins[order].tolist(), lengths[order].tolist()))

    def leave(self):
        self.turn += 1
        if self.turn == len(self.files):
            self.turn, self.epoch = 0, self.epoch + 1
        self.enter()

    def contiguous(self):
        """The rows of a batch, each of pieces (begin, length) of the file; None where the file does
        not fill it. So are they of every rule."""
        rows, length = self.cutting.sequences, self.cutting.length
        left = len(self.files[self.file]["tokens"]) - self.position - rows * length
        if left < 1 or (left == 1 and self.position > 0):
            return None
        self.position += rows * length
        begin = self.position - rows * length
        return [[(begin + row * length, length + 1)] for row in range(rows)]

    def aligned(self):
        rows, length = self.cutting.sequences, self.cutting.length
        end = self.position + 2 * rows * length
        if end + 1 >= len(self.files[self.file]["tokens"]):
            return None
        chosen, least = [], self.position
        while len(chosen) <= rows:
            place = numpy.searchsorted(self.begins, least)
            if place == len(self.begins) or self.begins[place] >= end:
                raise DataError(f"{self.paths[self.file]}: too few documents begin in a batch")
            chosen.append(int(self.begins[place]))
            least = chosen[-1] + length
        self.position = chosen.pop()
        return [[(begin, length + 1)] for begin in chosen]

    def cut(self):
        return self.of_documents(is_cut=True)

    def packed(self):
        return self.of_documents(is_cut=False)

    def of_documents(self, is_cut):
        rows, used = [], self.position
        for _ in range(self.cutting.sequences):
            pieces, missing = [], self.cutting.length + 1
            while missing > 0 and used < len(self.documents):
                begin, length = self.documents[used]
                if length > missing and not is_cut:
                    break
                pieces.append((begin, min(length, missing)))
                missing -= pieces[-1][1]
                used += 1
            if not pieces and used < len(self.documents):
                where = f"{self.paths[self.file]}: the document at token {self.documents[used][0]}"
                raise DataError(f"{where} is longer than a row; limit or cut documents")
            if not pieces or (is_cut and missing > 0):
                return None
            rows.append(pieces)
        self.position = used
        return rows

    def next(self):
        """The next Batch."""
        for _ in range(len(self.files) + 1):
            rows = self.take()
            if rows is not None:
                return self.batch(rows)
            self.leave()
        cutting = self.cutting
        raise DataError(
            f"{self.pattern}: no file fills a batch of {cutting.sequences} sequences of "
            f"{cutting.length} tokens and one; make longer ones"
        )

    def batch(self, rows):
        file = self.files[self.file]

        def filled(name, padding):
            values = file[name]
            found = numpy.full((len(rows), self.cutting.length + 1), padding, values.dtype)
            for row, pieces in zip(found, rows):
                at = 0
                for begin, length in pieces:
                    row[at : at + length] = values[begin : begin + length]
                    at += length
            return found

        columns = {name: filled(name, 0) for name in self.cutting.columns}
        return Batch.of_rows(filled("tokens", self.cutting.eos), columns)


class RandomBatches:
    """Documents of about 700 tokens, of log-normal lengths, whose words are as frequent as in a
    language (rank⁻¹). A seed makes the same ones everywhere."""

    def __init__(self, cutting, vocab, seed):
        if cutting.columns:
            raise DataError(f"--random makes no column {next(iter(cutting.columns))}; give --train")
        self.cutting, self.vocab = cutting, vocab
        self.source = numpy.random.default_rng(seed)

    def next(self):
        """The next Batch: of one stretch of tokens."""
        rows, length, eos = self.cutting.sequences, self.cutting.length, self.cutting.eos
        count = rows * length + 1
        ranks = numpy.exp(self.source.random(count) * numpy.log(self.vocab)).astype(numpy.int64)
        found = numpy.minimum(ranks - 1, self.vocab - 1)
        lengths = numpy.exp(self.source.normal(6.1, 0.9, count // 8 + 2)).astype(numpy.int64)
        starts = numpy.concatenate([[0], numpy.cumsum(numpy.clip(lengths, 1, 8000) + 1)])
        found[found == eos] = (eos + 1) % self.vocab
        found[starts[starts < count]] = eos
        places = numpy.arange(rows)[:, None] * length + numpy.arange(length + 1)
        return Batch.of_rows(found[places], {})
