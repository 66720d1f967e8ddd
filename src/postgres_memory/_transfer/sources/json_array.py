"""The elements of a JSON array, one at a time, so that a file of any length is read in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from ..format import BYTE_ORDER_MARK
from .found import NotAMemoryError

#: A longer element is not read. One conversation of years is a tenth of this.
MAX_ELEMENT_BYTES = 64 * 1024 * 1024

_PIECE = 1 << 18
_OUTSIDE = re.compile(rb'["\[\]{},]')
_IN_TEXT = re.compile(rb'["\\]')
_OPENING, _CLOSING = b"[{", b"]}"


def elements(stream: IO[bytes], limit: int = MAX_ELEMENT_BYTES) -> Iterator[bytes | None]:
    """Yield the text of each element, None for one that is longer than ``limit``.

    Where they end is told by brackets and quotes alone; whether an element is JSON is for its reader to say. Raises
    NotAMemoryError for what is no array or ends before the array does.
    """
    scan = _Scan(limit)
    first = stream.read(_PIECE).removeprefix(BYTE_ORDER_MARK).lstrip()
    if not first.startswith(b"["):
        raise NotAMemoryError("the file is not a JSON array")
    piece = first[1:] or stream.read(_PIECE)
    while piece and not scan.ended:
        yield from scan.feed(piece)
        piece = stream.read(_PIECE)
    if not scan.ended:
        raise NotAMemoryError("the file ends before its array does")


class _Scan:
    """How far an array is read. What is held is the element that is not over yet."""

    def __init__(self, limit: int) -> None:
        self.ended = False
        self._limit = limit
        self._held = bytearray()
        self._at = 0
        self._depth = 0
        self._in_text = False
        self._too_long = False

    def feed(self, piece: bytes) -> Iterator[bytes | None]:
        self._held += piece
        while not self.ended and (end := self._end()) is not None:
            text, long = bytes(self._held[:end]).strip(), self._too_long or end > self._limit
            del self._held[: end + 1]
            self._at, self._too_long = 0, False
            if long or text:
                yield None if long else text
        if len(self._held) > self._limit:
            # Only where it ends is looked for now. A backslash at the end still needs what follows it.
            rest = len(self._held) - self._at
            del self._held[: self._at]
            assert rest <= 2
            self._at, self._too_long = 0, True

    def _end(self) -> int | None:
        """Return where the element ends, None if that is further on."""
        held = self._held
        while True:
            match = (_IN_TEXT if self._in_text else _OUTSIDE).search(held, self._at)
            if match is None:
                self._at = len(held)
                return None
            sign = match[0]
            self._at = match.end()
            if self._in_text:
                if sign == b'"':
                    self._in_text = False
                elif self._at == len(held):
                    self._at = match.start()  # what it escapes has not come yet
                    return None
                else:
                    self._at += 1
            elif sign == b'"':
                self._in_text = True
            elif sign in _OPENING:
                self._depth += 1
            elif self._depth == 0:
                self.ended = sign != b","
                return match.start()
            elif sign in _CLOSING:
                self._depth -= 1
