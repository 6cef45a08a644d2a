"""The documents of the input files, and which of them are held out for validation."""

import hashlib
import re

from .errors import UserError
from .sources import open_source


def cut_point(text, begin, limit):
    """Where to end a piece of `text` that starts at `begin` and may hold `limit` bytes: after the
    last blank line, else the last line, else the last space, else at the last whole UTF-8
    character."""
    end = begin + limit
    if end >= len(text):
        return len(text)
    blank_line = None
    for blank_line in re.finditer(rb"\n[ \t\r]*\n", text[begin:end]):
        pass
    if blank_line:
        return begin + blank_line.end()
    for separator in (b"\n", b" "):
        at = text.rfind(separator, begin, end)
        if at >= 0:
            return at + 1
    at = end
    while at > begin + 1 and text[at] & 0xC0 == 0x80 and end - at < 3:
        at -= 1
    return at


def split_documents(text, limit):
    """The documents of one file, which joined give the file again; `limit` 0: the file is one
    document."""
    begin = 0
    while begin < len(text):
        end = cut_point(text, begin, limit) if limit else len(text)
        yield text[begin:end]
        begin = end


def hash_of(data):
    return hashlib.blake2b(data, digest_size=16).digest()


class Corpus:
    """The documents of the input files, and which of them are held out for validation.

    Documents are held out by the order of their hashes, until they make up `fraction` of the bytes:
    the choice depends on the contents alone, and documents that are equal fall on the same side.
    Two documents or more always leave one on each side."""

    def __init__(self, paths, doc_bytes, fraction, shuffle, field="text", template=None):
        self.paths = paths

        def split(text):
            return split_documents(text, doc_bytes)

        self.sources = [open_source(path, split, field, template) for path in paths]
        self.order = []  # (file index, begin, end) in the order of writing
        hashes, sizes = [], []
        for index, source in enumerate(self.sources):
            for begin, end, raw in source.places():
                hashes.append(hash_of(raw))
                sizes.append(len(raw))
                self.order.append((index, begin, end))
        if not self.order:
            raise UserError(
                f"{paths[0]}: the input holds no text"
                + (f" (nor do {len(paths) - 1} more files)" if paths[1:] else "")
            )
        self.bytes = sum(sizes)
        held_out = self.hold_out(hashes, sizes, fraction)
        self.order = [
            (*place, value in held_out, value) for place, value in zip(self.order, hashes)
        ]
        if shuffle is not None:
            seed = str(shuffle).encode()
            self.order.sort(key=lambda entry: (hash_of(seed + entry[4]), entry[:2]))

    def hold_out(self, hashes, lengths, fraction):
        if fraction == 0:
            return set()
        sizes = {}
        for value, length in zip(hashes, lengths):
            sizes[value] = sizes.get(value, 0) + length
        if len(sizes) < 2:
            raise UserError(
                "the input is one document only and cannot be held out: give more files, a smaller "
                "--doc-bytes, or --val-fraction 0"
            )
        chosen, size = set(), 0
        for value in sorted(sizes)[:-1]:
            if chosen and size + sizes[value] / 2 > fraction * self.bytes:
                break
            chosen.add(value)
            size += sizes[value]
        return chosen

    def __iter__(self):
        """Yields (document, path, is held out); see sources.py."""
        for index, begin, end, held_out, value in self.order:
            source = self.sources[index]
            raw = source.fetch(begin, end)
            if hash_of(raw) != value:
                raise UserError(f"{source.path}: changed while it was being read: run this again")
            yield source.content(raw, begin), source.path, held_out
