from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postgres_memory._json import MAX_METADATA_BYTES, decode_metadata, encode_metadata, encode_plain
from postgres_memory.errors import InvalidInputError, InvalidTypeError, InvalidValueError
from tests.json_values import KEPT, REFUSED, json_metadata, json_values, nested, own_loop, same_json

TABLE = Path(__file__).parents[2] / "docs" / "reference" / "metadata.md"


def documented() -> dict[str, tuple[str, str]]:
    rows = re.findall(
        r"^\| (.+?) \| (kept|refused) \| (.+?) \|$", TABLE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {name: (verdict, note) for name, verdict, note in rows}


def test_every_row_of_the_table_has_its_cases_and_the_other_way_round() -> None:
    rows = documented()
    assert {name for name, (verdict, _) in rows.items() if verdict == "kept"} == KEPT.keys()
    assert {name for name, (verdict, _) in rows.items() if verdict == "refused"} == REFUSED.keys()


@pytest.mark.parametrize("row", KEPT)
def test_what_the_table_keeps_comes_back_equal(row: str) -> None:
    for value, plain in KEPT[row]:
        assert value == plain
        back = decode_metadata(encode_metadata({"k": value, "l": [value]}))
        assert same_json(back, {"k": plain, "l": [plain]}), row


@pytest.mark.parametrize("row", REFUSED)
def test_what_the_table_refuses_is_refused_with_its_hint(row: str) -> None:
    hint = documented()[row][1]
    for value in REFUSED[row]:
        with pytest.raises(InvalidInputError) as caught:
            encode_metadata({"a": [0, value]})
        assert hint in str(caught.value)
        if "1 MiB" not in row:
            assert caught.value.argument.startswith('metadata["a"][1]')


@given(json_metadata)
def test_json_round_trips_equal_and_of_the_same_types(value: dict[str, Any]) -> None:
    assert same_json(decode_metadata(encode_metadata(value)), value)


@given(json_values)
def test_both_ways_of_writing_agree(value: Any) -> None:
    class Other(dict[str, Any]):  # a subclass takes the slow way
        pass

    assert encode_metadata({"a": value}) == encode_metadata(Other(a=value))


@given(st.lists(json_metadata, min_size=1, max_size=5))
def test_many_are_written_as_each_by_itself(values: list[dict[str, Any]]) -> None:
    together = encode_plain(values)
    assert together in (None, [encode_metadata(value).encode() for value in values])


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"a": 10**4300}, id="digits"),
        pytest.param({"a": "x" * MAX_METADATA_BYTES}, id="size"),
        pytest.param({"a": 1e16}, id="exponent"),
        pytest.param({"a": "\0"}, id="NUL"),
        pytest.param({"a": ["b", "\0", "c"]}, id="NUL between"),
        pytest.param({"a": "\\u0000"}, id="letters of a NUL"),
        pytest.param({"a": "\ud800"}, id="surrogate"),
        pytest.param({1: "a"}, id="key"),
        pytest.param({"a": (1,)}, id="tuple"),
        pytest.param([], id="list"),
    ],
)
def test_what_is_not_plain_is_left_to_be_looked_at_by_itself(value: Any) -> None:
    plain = {"a": 10**4299, "b": ["é", None, True, 1.5, {"c": "x" * 5000}]}
    assert encode_plain([plain, {}]) == [encode_metadata(plain).encode(), b"{}"]
    set_to = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        assert encode_plain([plain, value, {}]) is None
    finally:
        sys.set_int_max_str_digits(set_to)


def test_no_float_is_written_as_an_integer() -> None:
    for exponent in range(-20, 309):
        number = encode_metadata({"x": float(f"1e{exponent}")})[5:-1]
        # jsonb keeps a number's digits after the point; with an exponent above 15 none would be left
        assert "." in number or "e-" in number
        assert "e+" not in number


@pytest.mark.parametrize("value", [[], "", 0, (), [("a", 1)], "a", b"{}", object()])
def test_metadata_that_is_no_dict_is_refused(value: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"metadata: must be a dict, not \w+"):
        encode_metadata(value)


def test_none_means_no_metadata() -> None:
    assert encode_metadata(None) == "{}"
    assert encode_metadata({}) == "{}"


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, {"b c": {1}}]}, 'metadata["a"][1]["b c"]'),
        ({'qu"ote': {1}}, r'metadata["qu\"ote"]'),
        ({"ключ": {1}}, 'metadata["ключ"]'),
        ({"a\0": 1}, r'metadata["a\u0000"]'),
        ({"\ud800": 1}, r'metadata["\ud800"]'),
        ({"a": {1: 2}}, 'metadata["a"]'),
        ({1: 2}, "metadata"),
        ({"x" * 1000: {1}}, f'metadata["{"x" * 59}…"]'),
    ],
)
def test_the_error_names_the_path(value: dict[Any, Any], path: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        encode_metadata(value)
    assert caught.value.argument == path
    assert str(caught.value).startswith(f"{path}: ")


def test_the_argument_is_named_as_the_caller_spelt_it() -> None:
    with pytest.raises(InvalidTypeError, match=r'^message\["a"\]: '):
        encode_metadata({"a": {1}}, "message")


def test_errors_do_not_show_values() -> None:
    for value in ({"a": {"secret"}}, {"a": "secret\0"}, {"a": b"secret"}, {"a": "secret" * 200_000}):
        with pytest.raises(InvalidInputError) as caught:
            encode_metadata(value)
        assert "secret" not in str(caught.value)


def test_depth_is_limited_where_the_table_says() -> None:
    assert decode_metadata(encode_metadata(nested(128))) == nested(128)
    with pytest.raises(InvalidValueError, match="deeper than 128"):
        encode_metadata(nested(129))
    with pytest.raises(InvalidValueError, match="deeper than 128"):
        encode_metadata(nested(100_000))


def test_what_contains_itself_or_repeats_without_end_is_refused_at_once() -> None:
    with pytest.raises(InvalidValueError, match="contains itself"):
        encode_metadata({"a": own_loop()})
    doubling: list[Any] = [0]
    for _ in range(60):
        doubling = [doubling, doubling]
    with pytest.raises(InvalidValueError, match="at most 1048576 bytes"):
        encode_metadata({"a": doubling})


def test_what_is_shared_is_no_cycle() -> None:
    shared = {"x": [1e23]}
    assert decode_metadata(encode_metadata({"a": shared, "b": [shared, shared]})) == {
        "a": shared,
        "b": [shared, shared],
    }


@pytest.mark.parametrize("filler", ["a", "é", "€", "😀"])
def test_the_size_limit_counts_bytes_of_the_encoded_text(filler: str) -> None:
    fits = filler * ((MAX_METADATA_BYTES - 8) // len(filler.encode()))
    rest = "a" * (MAX_METADATA_BYTES - 8 - len(fits.encode()))
    text = encode_metadata({"k": fits + rest})
    assert len(text.encode()) == MAX_METADATA_BYTES
    for more in ({"k": fits + rest + "a"}, {"k": fits + rest, "l": 1e23}):
        with pytest.raises(InvalidValueError, match="at most 1048576 bytes"):
            encode_metadata(more)


def test_a_backslash_before_u0000_is_no_nul() -> None:
    value = {"a\\u0000": ["\\u0000", "\\\\u0000"]}
    assert decode_metadata(encode_metadata(value)) == value


def test_what_is_encoded_is_a_snapshot_and_what_is_decoded_is_new() -> None:
    inner = [1]
    text = encode_metadata({"a": inner})
    inner.append(2)
    first = decode_metadata(text)
    assert first == {"a": [1]}
    first["a"].append(3)
    assert decode_metadata(text) == {"a": [1]}


def test_an_integer_that_this_interpreter_cannot_write_is_refused() -> None:
    code = (
        "import sys; sys.set_int_max_str_digits(700)\n"
        "from postgres_memory._json import encode_metadata\n"
        "from postgres_memory.errors import InvalidValueError\n"
        "try: encode_metadata({'a': 10**1000})\n"
        "except InvalidValueError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.startswith('metadata["a"]: has more digits than sys.set_int_max_str_digits')


@pytest.mark.parametrize("text", ["[]", "1", "null", '"a"'])
def test_stored_json_that_is_no_object_is_an_error(text: str) -> None:
    assert not isinstance(json.loads(text), dict)
    with pytest.raises(InvalidValueError, match="not an object"):
        decode_metadata(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"), (f'{{"a":{"9" * 5000}}}', "too long")],
)
def test_stored_json_that_python_cannot_hold_is_an_error_of_ours(text: str, problem: str) -> None:
    with pytest.raises(InvalidValueError, match=problem):
        decode_metadata(text)
