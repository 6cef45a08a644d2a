"""Input files as documents: text, JSON lines, parquet. A document is text as bytes, or a chat: pieces
of text, each with whether a model shall learn to say it."""

import bisect
import json
import os

from .errors import UserError, one_line

# What stands around a message: before its text, with {role}, and after it. The end of what the
# assistant says is learnt with it.
TEMPLATES = {
    "chatml": ("<|im_start|>{role}\n", "<|im_end|>", "\n"),
    "llama3": ("<|start_header_id|>{role}<|end_header_id|>\n\n", "<|eot_id|>", ""),
}


def chat_pieces(messages, template, where):
    """[(text, is learnt)] of a list of messages, {"role", "content"} each."""
    begin, end, between = TEMPLATES[template]
    good = isinstance(messages, list) and messages
    for message in messages if good else []:
        good = good and isinstance(message, dict)
        good = good and all(isinstance(message.get(key), str) for key in ("role", "content"))
    if not good:
        raise UserError(
            f"{where}: 'messages' is not a list of objects with the texts role, content"
        )
    pieces = []
    for message in messages:
        pieces.append((begin.format(role=message["role"]), False))
        pieces.append((message["content"] + end, message["role"] == "assistant"))
        if between:
            pieces.append((between, False))
    return pieces


class TextFile:
    """A file of text, cut by `split` into documents."""

    def __init__(self, path, split):
        self.path, self.split = path, split

    def load(self):
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise UserError(
                f"{self.path}: not a regular file (the input is read twice): write it to a file "
                f"first"
            )
        with open(self.path, "rb") as file:
            return file.read()

    def places(self):
        """(begin, end, raw bytes) of every document."""
        begin = 0
        for document in self.split(self.load()):
            yield begin, begin + len(document), document
            begin += len(document)

    def fetch(self, begin, end):
        with open(self.path, "rb") as file:
            file.seek(begin)
            return file.read(end - begin)

    def content(self, raw, place):
        return raw


class LinesFile(TextFile):
    """A file of JSON objects, one a line: documents in the text of a field, or chats in messages."""

    def __init__(self, path, field, template):
        super().__init__(path, None)
        self.field, self.template = field, template

    def places(self):
        begin = 0
        for line in self.load().splitlines(keepends=True):
            if line.strip():
                yield begin, begin + len(line), line
            begin += len(line)

    def content(self, raw, place):
        where = f"{self.path}: the line at byte {place}"
        try:
            entry = json.loads(raw)
        except ValueError as error:
            raise UserError(f"{where}: not JSON: {one_line(error)}") from None
        if not isinstance(entry, dict):
            raise UserError(f"{where}: not a JSON object")
        if self.template:
            if "messages" not in entry:
                raise UserError(f"{where}: has no 'messages', which --chat reads")
            return chat_pieces(entry["messages"], self.template, where)
        if not isinstance(entry.get(self.field), str):
            hint = "; --chat reads 'messages'" if "messages" in entry else ""
            raise UserError(f"{where}: has no text '{self.field}' (--field){hint}")
        return entry[self.field].encode("utf-8", "surrogatepass")


class ParquetFile:
    """A column of texts of a parquet file, a document a row; read by pyarrow, a group of rows at a
    time. Of the groups those read last are kept, as shuffled documents lie in all of them."""

    KEPT_BYTES = 1 << 30

    def __init__(self, path, field, template):
        if template:
            raise UserError(f"{path}: --chat reads JSON lines; a parquet file's rows are texts")
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise UserError(
                f"{path}: parquet files need the Python package 'pyarrow': install it for "
                f"{os.path.basename(os.sys.executable)}, or write JSON lines"
            ) from None
        self.path, self.field = path, field
        with open(path, "rb"):  # an error of the system's, in its words
            pass
        try:
            self.file = pyarrow.parquet.ParquetFile(path, memory_map=True)
        except Exception as error:  # the library's own types
            raise UserError(f"{path}: not a parquet file: {one_line(error)}") from None
        columns = self.file.schema_arrow
        if field not in columns.names:
            raise UserError(
                f"{path}: no column '{field}' (--field); there are {', '.join(columns.names)}"
            )
        kind = columns.field(field).type
        if pyarrow.types.is_dictionary(kind):
            kind = kind.value_type
        if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
            raise UserError(f"{path}: column '{field}' is {kind}, no text")
        self.starts = [0]  # the first row of each group, and the end
        for group in range(self.file.num_row_groups):
            rows = self.file.metadata.row_group(group).num_rows
            self.starts.append(self.starts[-1] + rows)
        self.groups = {}  # position to texts, the one read last at the end

    def group(self, position):
        texts = self.groups.pop(position, None)
        if texts is None:
            try:
                table = self.file.read_row_group(position, columns=[self.field])
                texts = table.column(0).combine_chunks()
            except Exception as error:  # the library's own types, and OSError without a name
                rows = f"rows {self.starts[position]} to {self.starts[position + 1] - 1}"
                raise UserError(f"{self.path}: {rows}: {one_line(error)}") from None
        self.groups[position] = texts
        while len(self.groups) > 1 and self.held() > self.KEPT_BYTES:
            del self.groups[next(iter(self.groups))]
        return texts

    def held(self):
        return sum(texts.nbytes for texts in self.groups.values())

    def places(self):
        for row in range(self.starts[-1]):
            yield row, row + 1, self.fetch(row, row + 1)

    def fetch(self, begin, end):
        position = bisect.bisect_right(self.starts, begin) - 1
        text = self.group(position)[begin - self.starts[position]].as_py()
        if text is None:
            raise UserError(f"{self.path}: row {begin} of '{self.field}' is null, no text")
        return text.encode()

    def content(self, raw, place):
        return raw


def open_source(path, split, field="text", template=None):
    """The file by the end of its name: .jsonl, .parquet, else text."""
    if path.endswith((".jsonl", ".ndjson")):
        return LinesFile(path, field, template)
    if path.endswith(".parquet"):
        return ParquetFile(path, field, template)
    if template:
        raise UserError(f"{path}: --chat reads JSON lines (.jsonl)")
    return TextFile(path, split)
