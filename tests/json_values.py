"""Metadata values for tests: every row of ``docs/reference/metadata.md``, and hypothesis strategies for JSON."""

from __future__ import annotations

import enum
import math
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
from hypothesis import strategies as st

Pair = namedtuple("Pair", "left right")


class Colour(enum.Enum):
    RED = "red"


class Mixed(str, enum.Enum):  # noqa: UP042 - the older form of StrEnum, which people still write
    RED = "red"


class Modern(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "not the characters"


class Whole(int):
    def __repr__(self) -> str:
        return "not a number"


class Real(float):
    def __repr__(self) -> str:
        return "not a number"


class Many(list[int]):
    pass


class Sameness(str):
    """A key that no other key equals, so that a dict holds the same characters twice."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


@dataclass
class Point:
    x: int


class Model:
    """What a pydantic model looks like from outside."""

    def model_dump(self, mode: str = "python") -> dict[str, Any]:
        return {"mode": mode}


def nested(depth: int) -> dict[str, Any]:
    """Return metadata of that many dicts and lists inside one another."""
    value: Any = []
    for _ in range(depth - 2):
        value = [value]
    return {"a": value}


def own_loop() -> list[Any]:
    """Return a list that contains itself, several times."""
    loop: list[Any] = []
    loop.extend([loop] * 10)
    return loop


# Row of the table -> pairs of a value and the plain one that comes back.
KEPT: dict[str, list[tuple[Any, Any]]] = {
    "`None`": [(None, None)],
    "`bool`": [(True, True), (False, False)],
    "`int` of at most 4,300 digits": [
        (value, value) for value in (0, -1, 2**63, -(2**64), int("1234567890" * 3), 10**4300 - 1, -(10**4299))
    ],
    "finite `float`": [
        (float(number), float(number))
        for number in [
            "1e23",
            "1e16",
            "1e15",
            "9999999999999998.0",
            "1.5e300",
            "-1e22",
            "5e-324",
            "1e-5",
            "100.0",
            "0.1",
            "0.0",
            "-0.0",
            "123456789012345680.0",
            "1.7976931348623157e308",
            "2.2250738585072014e-308",
            "0.30000000000000004",
        ]
    ],
    "`str`": [
        (value, value)
        for value in ("", "naïve", "😀", '\u0001\x7f\u2028\n"\\/', "\\u0000", "e\u0301é", "\uffff")
    ],
    "`list`": [([], []), ([1, [2, [None]]], [1, [2, [None]]])],
    "`dict` with `str` keys": [
        ({}, {}),
        ({"": {"ключ 🔑": 1.0}, 'a"b': 2}, {'a"b': 2, "": {"ключ 🔑": 1.0}}),
    ],
    "subclass of `str`, such as `numpy.str_`": [(Text("characters"), "characters"), (np.str_("a"), "a")],
    "subclass of `int`": [(Whole(7), 7)],
    "subclass of `float`, such as `numpy.float64`": [
        (Real(2.5), 2.5),
        (np.float64(0.1), 0.1),
        (np.float64(1e23), 1e23),
    ],
    "subclass of `list`": [(Many([1]), [1])],
    "subclass of `dict`, such as `defaultdict`": [
        (defaultdict(int, a=1), {"a": 1}),
        (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        (Counter("aab"), {"a": 2, "b": 1}),
        ({Text("key"): {Mixed.RED: 1e23}}, {"key": {"red": 1e23}}),
    ],
    "`StrEnum`, or `Enum` mixed with `str`": [(Mixed.RED, "red"), (Modern.RED, "red")],
    "`IntEnum`, `IntFlag`": [(Level.HIGH, 3), (Flags.A | Flags.B, 3)],
}

# Row of the table -> values that are refused.
REFUSED: dict[str, list[Any]] = {
    "`int` of more digits": [10**4300, -(10**4300), 10**5000],
    "`float` NaN or infinity": [math.nan, math.inf, -math.inf, np.float64("nan")],
    "`str` with a NUL character": ["a\0b", "\\\0", Text("\0")],
    "`str` with a lone surrogate": ["\ud800", "a\udfff", "\udc00\ud800"],
    "`dict` with other keys": [{1: "a"}, {None: 1}, {True: 1}, {("a",): 1}, {Level.HIGH: 1}],
    "`dict` with two keys of the same characters": [{Sameness("a"): 1, Sameness("a"): 2}],
    "other `Enum`": [Colour.RED],
    "`datetime`": [datetime(2026, 1, 2, tzinfo=UTC)],
    "`date`": [date(2026, 1, 2)],
    "`time`": [time(1, 2)],
    "`timedelta`": [timedelta(seconds=1)],
    "`UUID`": [UUID(int=1)],
    "`Decimal`": [Decimal("0.1"), Decimal(1)],
    "`Fraction`": [Fraction(1, 2)],
    "`complex`": [1j],
    "`tuple`, named or not": [(), (1, 2), Pair(1, 2)],
    "`set`, `frozenset`": [{1}, frozenset({1}), set()],
    "`bytes`, `bytearray`": [b"", b"a", bytearray(b"a")],
    "`memoryview`": [memoryview(b"a")],
    "`pathlib.Path`": [PurePosixPath("a")],
    "other numpy scalar": [np.int64(1), np.float32(0.1), np.bool_(True)],
    "numpy array": [np.zeros(2)],
    "dataclass instance": [Point(1)],
    "pydantic model": [Model()],
    "mapping that is no `dict`": [MappingProxyType({"a": 1})],
    "other iterable, such as `deque` or `range`": [deque([1]), range(2), {}.keys(), iter([1])],
    "any other object": [object(), len, Point, ...],
    "value that contains itself": [own_loop()],
    "dicts and lists nested more than 128 deep": [nested(128)],
    "metadata of more than 1 MiB as JSON in UTF-8": ["a" * 1_048_576, ["é"] * 300_000, "€" * 400_000],
}

json_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
json_floats = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-400, 308).map(lambda exponent: float(f"1e{exponent}")),
    st.integers(-(10**18), 10**18).map(float),
)
json_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(10**40), 10**40), json_floats, json_text
)
json_values = st.recursive(
    json_scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(json_text, inner, max_size=5),
    max_leaves=20,
)
json_metadata = st.dictionaries(json_text, json_values, max_size=6)


def same_json(left: Any, right: Any) -> bool:
    """Tell whether two JSON values are equal and of the same types all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return bool(left == right)
