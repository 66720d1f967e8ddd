"""Cursors of a change feed: the number of the last event that was dealt with, bound to the namespace."""

from __future__ import annotations

from .._cursor import Place, decode_cursor, digest_question, encode_cursor
from .._validation import check_text
from ..errors import InvalidValueError


def cursor_of(namespace: str, number: int) -> str:
    """Return the cursor of the event of a number."""
    return encode_cursor(Place(0.0, number), _question(namespace))


def number_of(namespace: str, cursor: object) -> int:
    """Return the number of a cursor. Raises InvalidTypeError or InvalidValueError for what is none of this feed."""
    text = check_text(cursor, "since")
    try:
        return decode_cursor(text, _question(namespace), of_times=False).seq
    except InvalidValueError as error:
        raise InvalidValueError("since", error.problem.replace("filter, order or ", "")) from error


def _question(namespace: str) -> bytes:
    return digest_question("changes", namespace)
