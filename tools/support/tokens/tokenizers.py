"""Tokenizers. `encode(documents)` gives an array of `type` for each (document, path), without the
end-of-text token; `type` is "H" or "I", as `token_type` says; `table()` maps each other token to
its bytes, `text(tokens)` gives tokens' bytes."""

import array
import json
import os
import sys

from .errors import UserError, one_line
from .shards import Staging, token_type

BYTES_EOS = 256
EOS_TEXT = "<|endoftext|>"
LARGEST_VOCAB = (1 << 31) - 1
REEXEC = "NANO_TOKENS_IN_VENV"


class Bytes:
    """A token is a byte; 256 begins a document."""

    eos, vocab_size, type = BYTES_EOS, BYTES_EOS + 1, "H"

    def encode(self, documents):
        return [array.array("H", list(document)) for document, _ in documents]

    def table(self):
        return {value: bytes([value]) for value in range(256)}

    def text(self, tokens):
        return text_by_table(self, tokens)


def byte_letters():
    """GPT-2's letter for each byte: printable bytes stand for themselves, the others follow from
    U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return {chr(value if value in printable else next(others)): value for value in range(256)}


class BytePair:
    """GPT-2's byte-pair encoding. Encoding and training use HuggingFace's `tokenizers`; decoding
    needs the vocabulary only."""

    def __init__(self, vocab, merges=None):
        """`vocab`: token → id; `merges`: path of merges.txt, needed to encode."""
        self.vocab, self.merges = vocab, merges
        if EOS_TEXT not in vocab:
            raise UserError(f"the vocabulary lacks {EOS_TEXT}, which begins every document")
        self.eos, self.vocab_size = vocab[EOS_TEXT], max(vocab.values()) + 1
        if self.vocab_size > LARGEST_VOCAB:
            raise UserError(
                f"the vocabulary has {self.vocab_size} tokens; {LARGEST_VOCAB} is the most"
            )
        self.type = token_type(self.vocab_size)

    @classmethod
    def load(cls, vocab_path, merges_path=None):
        with open(vocab_path, encoding="utf-8") as file:
            try:
                vocab = json.load(file)
            except ValueError as error:
                raise UserError(f"{vocab_path}: not a JSON vocabulary: {error}") from None
        good = (
            isinstance(vocab, dict)
            and vocab
            and all(type(value) is int and value >= 0 for value in vocab.values())
        )
        if not good or len(set(vocab.values())) != len(vocab):
            raise UserError(
                f"{vocab_path}: a vocabulary is one JSON object from token to its own number"
            )
        return cls(vocab, merges_path)

    @classmethod
    def train(cls, corpus, size, folder):
        """Learns a vocabulary of at most `size` tokens on the training documents and writes it to
        `folder`."""
        library = tokenizers_library()
        trainer = library.trainers.BpeTrainer(
            vocab_size=size - 1,
            show_progress=False,
            initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        )
        model = cls.library_model(library, library.models.BPE())
        model.train_from_iterator(
            (text_of(document, path) for document, path, held_out in corpus if not held_out),
            trainer,
        )
        vocab = model.get_vocab()
        vocab[EOS_TEXT] = len(vocab)
        merges = [
            " ".join(pair) if isinstance(pair, (list, tuple)) else pair
            for pair in json.loads(model.to_str())["model"]["merges"]
        ]
        os.makedirs(folder, exist_ok=True)
        vocab_path, merges_path = os.path.join(folder, "vocab.json"), os.path.join(
            folder, "merges.txt"
        )
        ordered = dict(sorted(vocab.items(), key=lambda item: item[1]))
        staging = Staging()
        try:
            for path, content in (
                (vocab_path, json.dumps(ordered, ensure_ascii=False) + "\n"),
                (merges_path, "\n".join(["#version: 0.2", *merges]) + "\n"),
            ):
                file = staging.create(path)
                file.write(content.encode())
                staging.close(file)
            staging.publish()
        finally:
            staging.discard()
        return cls(vocab, merges_path)

    @staticmethod
    def library_model(library, model):
        tokenizer = library.Tokenizer(model)
        tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        return tokenizer

    def encode(self, documents):
        library = tokenizers_library()
        texts = [text_of(document, path) for document, path in documents]
        if not hasattr(self, "model"):
            try:
                with open(self.merges, encoding="utf-8") as file:
                    lines = [
                        line
                        for line in file.read().split("\n")
                        if line and not line.startswith("#version")
                    ]
                pairs = [tuple(line.split(" ")) for line in lines]
                self.model = self.library_model(
                    library, library.models.BPE(vocab=self.vocab, merges=pairs)
                )
            except (OSError, UserError):
                raise
            except Exception as error:  # the library reports what it dislikes in many types
                raise UserError(
                    f"{self.merges}: does not fit the vocabulary: {one_line(error)}"
                ) from None
        return [
            array.array(self.type, encoding.ids)
            for encoding in self.model.encode_batch(texts, add_special_tokens=False)
        ]

    def table(self):
        letters = byte_letters()
        try:
            return {
                value: bytes(letters[letter] for letter in token)
                for token, value in self.vocab.items()
                if value != self.eos
            }
        except KeyError as error:
            raise UserError(
                f"the vocabulary has the letter {error}, which stands for no byte: not a GPT-2 "
                f"vocabulary"
            ) from None

    def text(self, tokens):
        return text_by_table(self, tokens)


class Json:
    """Any tokenizer that HuggingFace's `tokenizers` reads from its tokenizer.json."""

    # What begins a document where nobody says it: the first of these that the vocabulary has.
    BEGINNINGS = (EOS_TEXT, "<|begin_of_text|>", "<s>", "<bos>")

    def __init__(self, path, beginning=None):
        self.path, library = path, tokenizers_library()
        if not os.path.isfile(path):
            raise UserError(f"{path}: No such file")
        try:
            self.model = library.Tokenizer.from_file(path)
        except Exception as error:  # the library reports what it dislikes in many types
            raise UserError(f"{path}: not a tokenizer.json: {one_line(error)}") from None
        names = (beginning,) if beginning else self.BEGINNINGS
        found = [self.model.token_to_id(name) for name in names]
        known = [token for token in found if token is not None]
        if not known:
            raise UserError(
                f"{path}: has none of the tokens {', '.join(names)}, which begin a document: name "
                f"one of its own with --document-token"
            )
        self.eos = known[0]
        self.vocab_size = max(self.model.get_vocab(with_added_tokens=True).values()) + 1
        self.type = token_type(self.vocab_size)

    def encode(self, documents):
        texts = [text_of(document, path) for document, path in documents]
        return [
            array.array(self.type, encoding.ids)
            for encoding in self.model.encode_batch(texts, add_special_tokens=False)
        ]

    def table(self):
        raise UserError("decode works token by token, which --tokenizer-json cannot: use show")

    def text(self, tokens):
        return self.model.decode(list(tokens), skip_special_tokens=False).encode()


def text_by_table(tokenizer, tokens):
    table = tokenizer.table()
    return b"".join(table.get(token, b"") for token in tokens)


def text_of(document, path):
    try:
        return document.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: not UTF-8 ({error.reason}): convert it, or use --tokenizer bytes"
        ) from None


def tokenizers_library():
    """HuggingFace's tokenizers: from this Python or, failing that, by starting again with
    build/venv's."""
    try:
        import tokenizers
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.trainers

        return tokenizers
    except ImportError:
        root = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..")
        python = os.path.normpath(os.path.join(root, "build", "venv", "bin", "python"))
        if REEXEC not in os.environ and os.access(python, os.X_OK):
            os.environ[REEXEC] = "1"
            sys.stdout.flush()
            os.execv(python, [python, os.path.realpath(sys.argv[0]), *sys.argv[1:]])
        raise UserError(
            "the BPE tokenizer needs the Python package 'tokenizers': run tools/setup --bpe"
        ) from None


def open_tokenizer(arguments, for_encoding):
    """The tokenizer that --tokenizer and its companions name (without training one)."""
    named = [
        flag
        for flag, value in (
            ("--vocab", arguments.vocab),
            ("--merges", arguments.merges),
            ("--tokenizer-dir", arguments.tokenizer_dir),
        )
        if value
    ]
    if arguments.tokenizer_json:
        if named:
            raise UserError(f"--tokenizer-json is a whole tokenizer: leave out {named[0]}")
        return Json(arguments.tokenizer_json, arguments.document_token)
    if arguments.document_token:
        raise UserError("--document-token belongs to --tokenizer-json")
    if arguments.tokenizer == "bytes":
        if named:
            raise UserError(f"{named[0]} belongs to --tokenizer bpe")
        return Bytes()
    vocab, merges = arguments.vocab, arguments.merges
    if arguments.tokenizer_dir:
        if vocab or merges:
            raise UserError(
                "--tokenizer-dir names the folder of both files: leave out --vocab and --merges"
            )
        vocab, merges = (
            os.path.join(arguments.tokenizer_dir, name) for name in ("vocab.json", "merges.txt")
        )
    if not vocab or (for_encoding and not merges):
        raise UserError(
            "--tokenizer bpe needs --tokenizer-dir DIR, or --vocab vocab.json and --merges "
            "merges.txt"
        )
    if for_encoding:
        tokenizers_library()
    return BytePair.load(vocab, merges)
