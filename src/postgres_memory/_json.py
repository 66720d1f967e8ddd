"""Metadata as JSON text for a ``jsonb`` column: what comes back equals what was given, types included.

Two ways lead to the text. Metadata of plain str, int, float, bool, None, list and dict, as nearly all is,
passes a quick check and goes through the C encoder. Everything else (subclasses, floats that jsonb would turn
into integers, whatever must be refused) is written piece by piece by ``_Writer``, which knows the paths.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from postgres_memory._validation import kind_of, text_problem
from postgres_memory.errors import InvalidTypeError, InvalidValueError

MAX_METADATA_BYTES = 1_048_576
"""How long metadata may be: 1 MiB, encoded as JSON in UTF-8."""

MAX_METADATA_DEPTH = 128
"""How deep dicts and lists may be nested, the metadata itself counted. Far below what stops Python's JSON
module (the recursion limit, less what the caller's stack has used) and PostgreSQL (``max_stack_depth``)."""

MAX_INTEGER_DIGITS = 4300
"""How many digits an integer may have: as many as Python reads from text, fewer than numeric holds."""

_INTEGER_BOUND = 10**MAX_INTEGER_DIGITS

# From here on a float's repr has an exponent, and jsonb, which keeps numbers as numeric, makes it an integer.
_POSITIONAL_BOUND = 1e16

_ATOMS = frozenset({str, bool, type(None)})
#: Values whose JSON needs no look at them, but for an integer of too many digits.
_FLAT = _ATOMS | {int}
_NAMES = frozenset({str})
#: A string that no metadata holds, since PostgreSQL cannot, and its JSON.
_BETWEEN, _BETWEEN_AS_JSON = "\0", b',"\\u0000",'
_CONTAINERS = frozenset({dict, list})


def _plain_encoder() -> Callable[[object], str]:
    """Return what `JSONEncoder.encode` makes anew at each call, made once: a third of the time for a small dict.

    It has no public name; without it, the public way does the same.
    """
    module: Any = json.encoder
    make = getattr(module, "c_make_encoder", None)
    if make is None:
        return _dumps
    encode = make(None, _refuse, module.encode_basestring, None, ":", ",", False, False, False)
    return lambda value: "".join(encode(value, 0))


def _refuse(value: object) -> object:
    raise TypeError(f"{kind_of(value)} passed the check for what JSON holds")


_dumps = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
).encode
_dumps_plain = _plain_encoder()
_read = json.JSONDecoder().raw_decode


def encode_metadata(value: object, argument: str = "metadata") -> str:
    """Return ``value`` as JSON text that a ``jsonb`` column keeps without loss; None stands for no metadata.

    What comes back from ``decode_metadata`` equals what was given and has the same types, but for subclasses
    of dict, list, str, int and float, which come back as the plain type; the order of keys and the sign of a
    floating-point zero are not kept. Raises InvalidTypeError or InvalidValueError, with the path to the value
    (``metadata["a"][0]``), for what JSON or PostgreSQL cannot hold: see ``docs/reference/metadata.md``.
    """
    if value is None:
        return "{}"
    if type(value) is dict and _is_plain(value):
        text = _encode_plain(value)
        if text is not None:
            return text
    if not isinstance(value, dict):
        from postgres_memory._json_refusals import how_to_make_dict

        raise InvalidTypeError(argument, f"must be a dict, not {kind_of(value)}{how_to_make_dict(value)}")
    writer = _Writer(argument)
    writer.write(value, argument)
    return "".join(writer.parts)


def encode_plain(values: list[Any]) -> list[bytes] | None:
    """Return what ``encode_metadata`` makes of each value, in UTF-8, all by one call of the encoder.

    None where one of them may not be as plain as that takes: which it is, and why, a call for each by itself tells.
    """
    for value in values:
        if type(value) is not dict or not (_is_flat(value) or _is_plain(value)):
            return None
    apart = [_BETWEEN] * (2 * len(values) - 1)
    apart[::2] = values
    try:
        data = _dumps_plain(apart).encode()
    except ValueError:  # an integer beyond sys.set_int_max_str_digits, or a lone surrogate
        return None
    pieces = data[1:-1].split(_BETWEEN_AS_JSON)
    if len(pieces) != len(values) or data.count(b"\\u0000") >= len(values):
        return None
    longest = max(map(len, pieces))
    if longest > MAX_INTEGER_DIGITS and not (longest <= MAX_METADATA_BYTES and all(map(_is_plain, values))):
        return None
    return pieces


def _is_flat(value: dict[Any, Any]) -> bool:
    """Tell whether nothing can be wrong with ``value`` but what its length tells."""
    return _NAMES.issuperset(map(type, value)) and _FLAT.issuperset(map(type, value.values()))


def decode_metadata(text: str) -> dict[str, Any]:
    """Return the metadata in the text of a ``jsonb`` value, as new objects.

    Raises InvalidValueError for what only other programs store there, and Python cannot hold.
    """
    try:
        value, _ = _read(text)  # jsonb ends where its value ends
    except (RecursionError, ValueError) as error:
        problem = "is nested too deeply" if isinstance(error, RecursionError) else "holds a number too long"
        raise InvalidValueError("metadata", f"the stored JSON {problem} to be read") from error
    if type(value) is not dict:
        raise InvalidValueError("metadata", f"the stored JSON is a {kind_of(value)}, not an object")
    return value


def _encode_plain(value: dict[str, Any]) -> str | None:
    """Encode what passed ``_is_plain``; None when it may hold what only ``_Writer`` can judge."""
    try:
        text = _dumps_plain(value)
    except ValueError:  # an integer beyond sys.set_int_max_str_digits
        return None
    if "\\u0000" in text:  # a NUL, or the six characters themselves after a backslash
        return None
    if text.isascii():
        return text if len(text) <= MAX_METADATA_BYTES else None
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return None
    return text if size <= MAX_METADATA_BYTES else None


def _is_plain(root: dict[Any, Any]) -> bool:
    """Tell whether the C encoder writes ``root`` as it should be; goes level by level, so never too deep."""
    level: list[Any] = [root]
    room = MAX_METADATA_BYTES // 2  # an element takes two bytes or more; also ends what contains itself
    for _ in range(MAX_METADATA_DEPTH):
        deeper: list[Any] = []
        for container in level:
            room -= len(container)
            if room < 0 or not _holds_plain(container, deeper):
                return False
        if not deeper:
            return True
        level = deeper
    return False


def _holds_plain(container: Any, deeper: list[Any]) -> bool:
    values = container
    if type(container) is dict:
        for key in container:
            if type(key) is not str:
                return False
        values = container.values()
    for value in values:
        kind = type(value)
        if kind in _ATOMS:
            continue
        if kind in _CONTAINERS:
            deeper.append(value)
        elif not (
            (kind is int and -_INTEGER_BOUND < value < _INTEGER_BOUND)
            or (kind is float and -_POSITIONAL_BOUND < value < _POSITIONAL_BOUND)
        ):
            return False
    return True


class _Writer:
    """Writes JSON text in pieces and refuses, by path, what cannot come back equal."""

    def __init__(self, argument: str) -> None:
        self.parts: list[str] = []
        self._argument = argument
        self._room = MAX_METADATA_BYTES
        self._open: set[int] = set()

    def write(self, value: object, path: str) -> None:
        if value is None or value is True or value is False:
            self._add(_dumps(value))
        elif isinstance(value, str):
            self._add(_string(value, path))
        elif isinstance(value, int):
            self._add(_integer(value, path))
        elif isinstance(value, float):
            self._add(_float(value, path))
        elif isinstance(value, dict | list):
            self._enter(value, path)
        else:
            from postgres_memory._json_refusals import how_to_convert

            raise InvalidTypeError(
                _shown_path(path), f"cannot store a {kind_of(value)}; {how_to_convert(value)}"
            )

    def _add(self, part: str) -> None:
        self._room -= len(part.encode())
        if self._room < 0:
            raise InvalidValueError(
                self._argument, f"must be at most {MAX_METADATA_BYTES} bytes, encoded as JSON in UTF-8"
            )
        self.parts.append(part)

    def _enter(self, container: dict[Any, Any] | list[Any], path: str) -> None:
        if id(container) in self._open:
            raise InvalidValueError(_shown_path(path), "contains itself, which JSON cannot express")
        if len(self._open) == MAX_METADATA_DEPTH:
            raise InvalidValueError(
                _shown_path(path), f"is nested deeper than {MAX_METADATA_DEPTH} dicts and lists"
            )
        self._open.add(id(container))
        if isinstance(container, dict):
            self._write_dict(container, path)
        else:
            self._write_list(container, path)
        self._open.remove(id(container))

    def _write_dict(self, container: dict[Any, Any], path: str) -> None:
        seen: set[str] = set()
        self._add("{")
        for key, value in container.items():
            if not isinstance(key, str):
                raise InvalidTypeError(
                    _shown_path(path), f"has a key of type {kind_of(key)}; keys must be str, use str(key)"
                )
            step = f"{path}[{_shown_key(key)}]"
            text = _string(key, step)
            if text in seen:
                raise InvalidValueError(
                    _shown_path(step), "is a key twice: two keys have the same characters"
                )
            self._add(f",{text}:" if seen else f"{text}:")
            seen.add(text)
            self.write(value, step)
        self._add("}")

    def _write_list(self, container: list[Any], path: str) -> None:
        self._add("[")
        for index, value in enumerate(container):
            if index:
                self._add(",")
            self.write(value, f"{path}[{index}]")
        self._add("]")


def _string(value: str, path: str) -> str:
    text = str.__str__(value)
    problem = text_problem(text)
    if problem is not None:
        raise InvalidValueError(_shown_path(path), problem)
    return _dumps(text)


def _integer(value: int, path: str) -> str:
    if not -_INTEGER_BOUND < value < _INTEGER_BOUND:
        raise InvalidValueError(
            _shown_path(path), f"must have at most {MAX_INTEGER_DIGITS} digits; use a str"
        )
    try:
        return int.__repr__(value)
    except ValueError as error:
        raise InvalidValueError(
            _shown_path(path), "has more digits than sys.set_int_max_str_digits allows"
        ) from error


def _float(value: float, path: str) -> str:
    if not math.isfinite(value):
        raise InvalidValueError(
            _shown_path(path), f"must be a finite number, not {float.__repr__(value)}; use None"
        )
    shortest = float.__repr__(value)
    if -_POSITIONAL_BOUND < value < _POSITIONAL_BOUND:
        return shortest
    # The decimals of the shortest repr, not of the exact value: they read back as the same float.
    return format(Decimal(shortest), "f") + ".0"


def _shown_key(key: str) -> str:
    shown = str.__str__(key)
    return json.dumps(shown if len(shown) <= 60 else shown[:59] + "…", ensure_ascii=not shown.isprintable())


def _shown_path(path: str) -> str:
    return path if len(path) <= 300 else path[:299] + "…"
