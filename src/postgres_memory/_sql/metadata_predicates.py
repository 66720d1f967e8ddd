"""Conditions on what metadata holds.

Most have two parts, each present where it is needed. *Containment* (``metadata @> …``) is what a GIN index on the
whole of metadata answers; where it says all, it stands alone. Otherwise the value itself is looked at. That never
raises: a value of another kind than it is compared with gives false, and texts become times only if they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    DateTime,
    FromClause,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    func,
    literal_column,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from .._filter_fields import ORDERINGS, TEXT_OPERATORS, JsonText, Operator, Path
from ..filters import Condition
from .filter_values import (
    COMPARE,
    Values,
    are_scalars,
    in_c_order,
    is_like,
    json_value,
    json_values,
    like_pattern,
    parameter_name,
)
from .parameters import text_parameter, time_parameter

Kind = Literal["json", "none", "number", "text", "time", "times"]

#: Up to how many values a list is asked for one by one, which an index can answer; more are hashed.
_FEW = 32

_JSON_NULL: ColumnElement[Any] = literal_column("'null'::jsonb", JSONB)
_PLACES: dict[str, ColumnElement[Any]] = {
    step: literal_column(f"'strict $[{place}]'::jsonpath")
    for step, place in {"i": "$at", "n": "last - $at"}.items()
}
_EMPTY_LIST: ColumnElement[Any] = literal_column("'[]'::jsonb", JSONB)

#: A date, or a date and a time with or without an offset from UTC, as ISO 8601 writes them; every one (of year 1 or
#: later) is a time that PostgreSQL can read, under any setting. Leap days are those of leap years, offsets are below 16
#: hours. No {1,9} for the fraction: PostgreSQL's regular expressions take twice as long with it as with a plus.
_ISO_TIME = (
    "^(?:"
    "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29"
    ")(?:[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.][0-9]+)?)?"
    "(?:Z|[+-](?:0[0-9]|1[0-5])(?::?[0-5][0-9])?)?)?$"
)
_LONGEST_TIME: ColumnElement[int] = literal_column("35")
_FIRST_YEAR: ColumnElement[str] = literal_column("'0001'", Text)


@dataclass(frozen=True, slots=True)
class MetadataLeaf:
    """The shape of a condition on metadata.

    ``steps`` has a letter for each step of the path: k for a key, i for a place in a list, n for one from its end. The
    parameters are numbered from ``first``: what must be contained (if ``contained`` says so), the steps, the value.
    """

    operator: Operator
    kind: Kind
    negated: bool
    first: int
    steps: str
    contained: Literal["", "one", "any"] = ""
    checked: bool = True


def metadata_leaves(condition: Condition, values: Values, *, negated: bool) -> list[MetadataLeaf]:
    """Return the shapes of what a condition asks: one of them must hold."""
    operator, value = condition.operator, condition.value
    asked: list[tuple[Operator, Kind, Any]] = [(operator, _kind(operator, value), value)]
    if operator is Operator.IN:
        texts = [one for one in value if isinstance(one, JsonText) and one.text != "null"]
        times = [one for one in value if isinstance(one, datetime)]
        asked = [(operator, "json", texts)] if texts or not value else []
        asked += [(operator, "times", times)] if times else []
        asked += [(operator, "none", None)] if len(texts) + len(times) < len(value) else []
    if operator is Operator.CONTAINS:
        plain = json.loads(value.text)
        asked = [(operator, "text", plain)] if isinstance(plain, str) else []
        asked.append((Operator.CONTAINS_ANY, "json", [value]))
    return [_leaf(condition.path[1:], *one, values, negated=negated) for one in asked]


def metadata_condition(memories: FromClause, leaf: MetadataLeaf) -> ColumnElement[bool]:
    """Return the condition of a shape."""
    metadata: ColumnElement[Any] = memories.c.metadata
    tests: list[ColumnElement[bool]] = []
    contains = metadata.op("@>", is_comparison=True)
    if leaf.contained == "one":
        tests.append(contains(json_value(leaf.first)))
    if leaf.contained == "any":
        tests.append(contains(func.any(json_values(leaf.first))))
    if leaf.checked:
        start = leaf.first + bool(leaf.contained)
        found = _inside(metadata, leaf.steps, start)
        tests.append(_CHECKS[leaf.kind](found, leaf.operator, start + len(leaf.steps)))
    positive = and_(*tests)
    # What is missing makes null; its negation is true.
    return positive.is_not(literal_column("true")) if leaf.negated else positive


def _kind(operator: Operator, value: Any) -> Kind:
    if operator in TEXT_OPERATORS:
        return "text"
    if isinstance(value, datetime):
        return "time"
    if operator is Operator.EXISTS:
        return "json"
    if operator is Operator.EQ and (value is None or value.text == "null"):
        return "none"
    if operator in ORDERINGS:
        return "text" if value.text.startswith('"') else "number"
    return "json"


def _leaf(
    keys: Path, operator: Operator, kind: Kind, value: Any, values: Values, *, negated: bool
) -> MetadataLeaf:
    texts = _texts(value)
    contained, bounds = _containment(operator, kind, keys, texts)
    scalars_by_key = are_scalars(texts) and all(isinstance(key, str) for key in keys)
    checked = not (contained and scalars_by_key)
    own = [_bound(operator, kind, value)] if _takes_value(operator, kind) else []
    steps = [_step(key) for key in keys] if checked else []
    first = values.bind(*bounds, *(bound for _, bound in steps), *(own if checked else ()))
    return MetadataLeaf(
        operator, kind, negated, first, "".join(letter for letter, _ in steps), contained, checked
    )


def _step(key: str | int) -> tuple[str, str]:
    if isinstance(key, str):
        return "k", key
    return ("i", f'{{"at":{key}}}') if key >= 0 else ("n", f'{{"at":{-1 - key}}}')


def _texts(value: Any) -> list[str]:
    several = value if isinstance(value, tuple | list) else [value]
    return [one.text for one in several if isinstance(one, JsonText)]


def _containment(
    operator: Operator, kind: Kind, keys: Path, texts: list[str]
) -> tuple[Literal["", "one", "any"], list[Any]]:
    """Return what metadata must contain for the condition to hold, if it is known: one document, or any of several."""
    if kind != "json" or operator is Operator.EXISTS:
        return "", []
    if operator is Operator.EQ:
        return "one", [_wrapped(keys, texts[0])]
    if operator is Operator.CONTAINS_ALL:
        return "one", [_wrapped(keys, f"[{','.join(texts)}]")]
    if len(texts) > _FEW:
        return "", []
    listed = operator is Operator.CONTAINS_ANY
    return "any", [[_wrapped(keys, f"[{text}]" if listed else text) for text in texts]]


def _wrapped(keys: Path, text: str) -> str:
    """Return the document that holds a value at the end of a path. A list that has it anywhere contains it."""
    for key in reversed(keys):
        text = f"{{{json.dumps(key, ensure_ascii=False)}:{text}}}" if isinstance(key, str) else f"[{text}]"
    return text


def _takes_value(operator: Operator, kind: Kind) -> bool:
    return kind != "none" and operator is not Operator.EXISTS


def _bound(operator: Operator, kind: Kind, value: Any) -> Any:
    """Return the value as it is bound for looking at what is found."""
    if operator in TEXT_OPERATORS:
        return like_pattern(operator, value)
    if kind in ("time", "times"):
        return value
    if kind == "text":
        return json.loads(value.text)
    return f"[{','.join(_texts(value))}]" if isinstance(value, tuple | list) else value.text


def _inside(document: ColumnElement[Any], steps: str, first: int) -> ColumnElement[Any]:
    """Follow a path. ``#>`` would take a key such as "0" into a list as well, which ``->`` does not.

    A place is looked up by a JSON path, since ``->`` takes a bare value for a list that holds it.
    """
    found = document
    for number, step in enumerate(steps, first):
        if step == "k":
            found = found.op("->", return_type=JSONB())(cast(text_parameter(parameter_name(number)), Text))
        else:
            found = func.jsonb_path_query_first(found, _PLACES[step], json_value(number), true(), type_=JSONB)
    return found


def _is(found: ColumnElement[Any], kind: str) -> ColumnElement[bool]:
    return func.jsonb_typeof(found) == literal_column(f"'{kind}'", Text)


def _text_of(found: ColumnElement[Any]) -> ColumnElement[str]:
    return found.op("#>>", return_type=Text())(literal_column("'{}'::text[]", ARRAY(Text)))


def _check_json(found: ColumnElement[Any], operator: Operator, number: int) -> ColumnElement[bool]:
    match operator:
        case Operator.EXISTS:
            return found.is_not(None)
        case Operator.EQ:
            return found == json_value(number)
        case Operator.IN:
            return found.in_(_elements(json_value(number)))
        case Operator.CONTAINS_ANY:
            return _any_element(_list_or_none(found), lambda one: one.in_(_elements(json_value(number))))
        case _:
            absent = _any_element(json_value(number), lambda one: one.not_in(_elements(_list_or_none(found))))
            return and_(_is(found, "array"), not_(absent))


def _list_or_none(found: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return what is found if it is a list, else one without elements: no other kind can be taken apart."""
    return case((_is(found, "array"), found), else_=_EMPTY_LIST)


def _elements(array: ColumnElement[Any]) -> Select[Any]:
    return select(func.jsonb_array_elements(array)).correlate_except(None)


def _any_element(
    array: ColumnElement[Any], test: Callable[[ColumnElement[Any]], ColumnElement[bool]]
) -> ColumnElement[bool]:
    elements = func.jsonb_array_elements(array).table_valued(column("value", JSONB)).alias()
    one: Select[Any] = select(literal_column("1")).select_from(elements).where(test(elements.c.value))
    return one.correlate_except(elements).exists()


def _check_none(found: ColumnElement[Any], _: Operator, __: int) -> ColumnElement[bool]:
    """A key that is missing counts as None, as ``dict.get`` has it."""
    return or_(found.is_(None), found == _JSON_NULL)


def _check_number(found: ColumnElement[Any], operator: Operator, number: int) -> ColumnElement[bool]:
    """Compare numbers as jsonb has them, which is exactly, however many digits they have."""
    compared = found.op(COMPARE[operator], is_comparison=True)(json_value(number))
    return and_(_is(found, "number"), compared)


def _check_text(found: ColumnElement[Any], operator: Operator, number: int) -> ColumnElement[bool]:
    text = _text_of(found)
    if operator in TEXT_OPERATORS:
        return and_(_is(found, "string"), is_like(text, operator, number))
    given = text_parameter(parameter_name(number))
    return and_(_is(found, "string"), in_c_order(text).op(COMPARE[operator], is_comparison=True)(given))


def _check_time(found: ColumnElement[Any], operator: Operator, number: int) -> ColumnElement[bool]:
    given, time = time_parameter(parameter_name(number)), _time_of(found)
    return time == given if operator is Operator.EQ else time.op(COMPARE[operator], is_comparison=True)(given)


def _check_times(found: ColumnElement[Any], _: Operator, number: int) -> ColumnElement[bool]:
    times = bindparam(parameter_name(number), type_=ARRAY(DateTime(timezone=True)))
    return _time_of(found) == func.any(times)


def _time_of(found: ColumnElement[Any]) -> ColumnElement[datetime]:
    """Read a text as a time, in UTC if it names no offset; what is none gives null, and never reaches the cast."""
    text = _text_of(found)
    says_offset = text.op("~", is_comparison=True)(literal_column("'[T ].*[Z+-]'", Text))
    in_utc = case((says_offset, literal_column("''", Text)), else_=literal_column("'Z'", Text))
    read = cast(text.op("||", return_type=Text())(in_utc), DateTime(timezone=True))
    is_time = and_(
        _is(found, "string"),
        func.char_length(text) <= _LONGEST_TIME,
        in_c_order(text) > _FIRST_YEAR,
        text.op("~", is_comparison=True)(literal_column(f"'{_ISO_TIME}'", Text)),
    )
    return case((is_time, read))


_CHECKS: dict[Kind, Callable[[ColumnElement[Any], Operator, int], ColumnElement[bool]]] = {
    "json": _check_json,
    "none": _check_none,
    "number": _check_number,
    "text": _check_text,
    "time": _check_time,
    "times": _check_times,
}
