"""Reading lines from a file or a pipe, and the proof that an export is whole. No database; runs on a thread."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, Any

from .._validation import kind_of
from ..errors import InvalidTypeError
from .format import (
    BYTE_ORDER_MARK,
    MAX_LINE_BYTES,
    TRAILER,
    Seal,
    kind_of_line,
    parse_header,
    refusal,
)
from .strict_json import NotJsonError, parse_line

Stream = IO[bytes] | IO[str]

#: How much of a file is looked at before the caller gets its turn.
_STEP_BYTES = 16 * 1024 * 1024


class Lines:
    """The lines of a stream as bytes, one at a time; those put back come again."""

    def __init__(self, stream: Stream) -> None:
        if not callable(getattr(stream, "readline", None)):
            raise InvalidTypeError("source", f"must be a path or a file open to read, not {kind_of(stream)}")
        # The file object itself reads byte by byte.
        self._buffered = io.BufferedReader(stream) if isinstance(stream, io.RawIOBase) else None
        self._stream: Any = self._buffered or stream
        self._put_back: list[bytes] = []
        self._start = self._stream.tell() if self.seekable else 0

    @property
    def seekable(self) -> bool:
        """Whether the stream can be read twice."""
        seekable = getattr(self._stream, "seekable", None)
        return bool(callable(seekable) and seekable())

    def read(self, limit: int = MAX_LINE_BYTES) -> bytes:
        """Return the next line with its end, nothing at the end, or the first ``limit`` + 1 bytes of a longer one."""
        if self._put_back:
            return self._put_back.pop()
        line = self._stream.readline(limit + 1)
        return line.encode(errors="surrogatepass") if isinstance(line, str) else bytes(line)

    def put_back(self, line: bytes) -> None:
        """Have ``line`` read again."""
        if line:
            self._put_back.append(line)

    def rewind(self) -> None:
        """Begin again where the stream was at first."""
        self._put_back.clear()
        self._stream.seek(self._start)

    def let_go(self) -> None:
        """Leave the stream to its owner."""
        if self._buffered is not None:
            self._buffered.detach()


def is_export(lines: Lines) -> bool:
    """Say whether the first line is a header; one that looks like a line of an export without it is refused."""
    line = lines.read()
    lines.put_back(line)
    text = line.removeprefix(BYTE_ORDER_MARK)
    if kind_of_line(text) is not None:
        raise refusal(1, "is a line of an export, but not its header: the beginning of the file is missing")
    if b'"format"' not in text[:1000]:
        return False
    try:
        value = parse_line(text)
    except NotJsonError:
        return text.startswith(b'{"format"')
    if not isinstance(value, dict) or "format" not in value:
        return False
    if text != line:
        raise refusal(1, "begins with a byte order mark, which no export has: the file was altered")
    return True


class Export:
    """The lines of an export. Iterating ends only after the trailer has proved everything that came before it."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        header = lines.read()
        self.announced = parse_header(header)
        self._seal = Seal(header)

    def __iter__(self) -> Iterator[tuple[int, str, bytes]]:
        """Yield number, kind and bytes of each line between header and trailer. Raises InvalidValueError."""
        while line := self._lines.read():
            number = self._seal.lines + 1
            kind = self._kind(line, number)
            if kind == TRAILER:
                self._seal.check_trailer(line, self.announced)
                if self._lines.read(1):
                    raise refusal(number + 1, "follows the trailer, which ends an export")
                return
            self._seal.add(kind, [line])
            yield number, kind, line
        raise refusal(None, "the file ends without its trailer: it is truncated")

    def _kind(self, line: bytes, number: int) -> str:
        if len(line) > MAX_LINE_BYTES:
            raise refusal(number, f"is longer than {MAX_LINE_BYTES} bytes")
        if not line.endswith(b"\n"):
            raise refusal(number, "is cut off: the file is truncated")
        kind = kind_of_line(line)
        if kind is None:
            raise refusal(number, 'does not begin with {"kind":"…": the file was altered')
        self._seal.check_order(kind, number)
        return kind


def check_whole(export: Export) -> Iterator[int]:
    """Read a file through and yield a size now and then. Raises InvalidValueError if it is not as it was written."""
    size = 0
    for _, _, line in export:
        size += len(line)
        if size >= _STEP_BYTES:
            yield size
            size = 0
