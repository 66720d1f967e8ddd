"""The format of an export: a header line, lines of four kinds in this order, a trailer line. Pure.

Every line ends with a newline. The trailer repeats the counts of the header and holds the SHA-256 over every byte
before it, so that a file that was cut, changed or joined to another is recognised.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from .._validation import check_namespace
from .._version import __version__
from ..errors import InvalidInputError, InvalidValueError
from .strict_json import NotJsonError, parse_line

FORMAT = "postgres-memory"
FORMAT_VERSION = 1

#: A longer line is neither written nor read. Content takes at most 16 MiB, which JSON may write as six times as much.
MAX_LINE_BYTES = 128 * 1024 * 1024

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

#: The kinds of lines in their order, each with the name of its count.
KINDS = {"memory": "memories", "supersedes": "supersedes", "relation": "relations", "message": "messages"}
TRAILER = "trailer"

_RANKS = {kind: rank for rank, kind in enumerate((*KINDS, TRAILER))}
_KIND = re.compile(rb'\{"kind":"([a-z]+)"[,}]')
_HEADER_KEYS = {"format", "format_version", "package_version", "namespace", "embedding_spaces", "counts"}
_SPACES = [{"name": "hash", "dimensions": 32, "distance": "cosine"}]

encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Counts:
    """How many lines of each kind a file holds."""

    memories: int = 0
    supersedes: int = 0
    relations: int = 0
    messages: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.memories + self.supersedes + self.relations + self.messages


def refusal(line: int | None, problem: str) -> InvalidValueError:
    """Return the error for a file that is not as it was written."""
    return InvalidValueError("source", problem if line is None else f"line {line}: {problem}")


def header_line(namespace: str, counts: Counts) -> bytes:
    """Return the first line of an export."""
    values = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "package_version": __version__,
        "namespace": namespace,
        "embedding_spaces": _SPACES,
        "counts": asdict(counts),
    }
    return f"{encode(values)}\n".encode()


def trailer_line(counts: Counts, digest: str) -> bytes:
    """Return the last line of an export, for what `Seal` counted and hashed before it."""
    return f"{encode({'kind': TRAILER, 'counts': asdict(counts), 'sha256': digest})}\n".encode()


def begins_export(start: bytes) -> bool:
    """Say whether the first bytes of a file may be those of an export, whole or damaged, rather than of plain lines."""
    text = start.removeprefix(BYTE_ORDER_MARK)
    return text.startswith(b'{"format"') or kind_of_line(text) is not None


def kind_of_line(line: bytes) -> str | None:
    """Return what a line says it is, or None if it is no line of an export but its header."""
    found = _KIND.match(line)
    return None if found is None else found[1].decode()


def parse_header(line: bytes) -> Counts:
    """Return the counts that a header announces. Raises InvalidValueError for what is no header of ours."""
    if not line.endswith(b"\n"):
        raise refusal(1, "is cut off: the file is truncated")
    if line.endswith(b"\r\n"):
        raise refusal(1, "ends with CRLF: the line endings were changed; transfer the file as binary")
    try:
        value = parse_line(line)
    except NotJsonError as error:
        raise refusal(1, f"is a damaged header: {error}") from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise refusal(1, f"is the header of another format, not of {FORMAT!r}")
    version = value.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        raise refusal(
            1, f"is format version {version}; this package reads up to {FORMAT_VERSION}: use a newer one"
        )
    if version != FORMAT_VERSION or type(version) is not int or value.keys() != _HEADER_KEYS:
        raise refusal(1, "is a damaged header: its keys or its version are not those of the format")
    return _counts_of(value)


def _counts_of(header: dict[str, Any]) -> Counts:
    try:
        check_namespace(header["namespace"])
    except InvalidInputError as error:
        raise refusal(1, f"is a damaged header: {error}") from None
    if header["embedding_spaces"] != _SPACES:
        raise refusal(1, "names embedding spaces that this package cannot import")
    counts = header["counts"]
    names = set(KINDS.values())
    if not isinstance(counts, dict) or counts.keys() != names:
        raise refusal(1, "is a damaged header: its counts are missing")
    if not all(type(count) is int and count >= 0 for count in counts.values()):
        raise refusal(1, "is a damaged header: its counts must be integers from 0")
    return Counts(**counts)


class Seal:
    """Follows the lines of a file, counts and hashes them."""

    def __init__(self, header: bytes) -> None:
        self.lines = 1
        self._counts = dict.fromkeys(KINDS, 0)
        self._digest = sha256(header)
        self._rank = 0

    def add(self, kind: str, lines: list[bytes]) -> None:
        """Take in some lines of one kind."""
        self.lines += len(lines)
        self._counts[kind] += len(lines)
        self._digest.update(b"".join(lines))

    @property
    def counts(self) -> Counts:
        """What was counted so far."""
        return Counts(**{KINDS[kind]: count for kind, count in self._counts.items()})

    @property
    def digest(self) -> str:
        """The SHA-256 over the header and the lines so far, in hexadecimal digits."""
        return self._digest.hexdigest()

    def trailer(self) -> bytes:
        """Return the line that belongs here."""
        return trailer_line(self.counts, self.digest)

    def check_order(self, kind: str, number: int) -> None:
        """Refuse a line of an unknown kind, or one that belongs before the lines already seen."""
        if kind not in _RANKS:
            raise refusal(number, "is of a kind that exports of this version do not have")
        if _RANKS[kind] < self._rank:
            raise refusal(number, f"is a {kind} after lines that must follow all of its kind")
        self._rank = _RANKS[kind]

    def check_trailer(self, line: bytes, announced: Counts) -> None:
        """Refuse a trailer that does not say exactly what was seen; ``announced`` is what the header said."""
        number = self.lines + 1
        if line == self.trailer() and self.counts == announced:
            return
        if self.counts != announced:
            raise refusal(
                number,
                f"the file holds {_shown(self.counts)}, but its header announces {_shown(announced)}: lines are "
                "missing or were added",
            )
        raise refusal(number, "the checksum does not match: the file was altered, or damaged on its way")


def _shown(counts: Counts) -> str:
    return ", ".join(f"{count} {name}" for name, count in asdict(counts).items())
