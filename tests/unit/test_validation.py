from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postgres_memory._validation import (
    HARD_MAX_CONTENT_BYTES,
    MAX_CONTENT_BYTES,
    check_content,
    check_content_limit,
    check_id,
    check_key,
    check_limit,
    check_namespace,
)
from postgres_memory.errors import InvalidInputError, InvalidTypeError, InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Callable


class Shouting(str):
    __slots__ = ()

    def __str__(self) -> str:
        return self.upper()


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_every_text_postgresql_holds_is_a_content(text: str) -> None:
    assert check_content(text) == text


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), st.integers(0, 300))
def test_the_content_limit_counts_bytes(text: str, limit: int) -> None:
    if len(text.encode()) <= limit:
        assert check_content(text, max_bytes=limit) == text
    else:
        with pytest.raises(InvalidValueError, match=f"content: must be at most {limit} bytes of UTF-8"):
            check_content(text, max_bytes=limit)


@pytest.mark.parametrize("letter", ["a", "é", "€", "😀"])
def test_the_default_content_limit_is_one_mebibyte(letter: str) -> None:
    longest = letter * (MAX_CONTENT_BYTES // len(letter.encode()))
    assert check_content(longest) is longest
    with pytest.raises(InvalidValueError, match="at most 1048576 bytes"):
        check_content(longest + letter)


@pytest.mark.parametrize("value", [None, b"a", 1, ["a"], bytearray(b"a"), object()])
@pytest.mark.parametrize("check", [check_content, check_namespace, check_id])
def test_what_is_no_str_is_a_type_error(check: Callable[[Any], str], value: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"^\w+: must be a str, not \w+") as caught:
        check(value)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("secret\0", "holds a NUL character at index 6"),
        ("sécret\0", "holds a NUL character at index 6"),
        ("\ud800secret", "holds a lone surrogate at index 0"),
        ("secret\udfff", "holds a lone surrogate at index 6"),
    ],
)
@pytest.mark.parametrize("check", [check_content, check_namespace, check_id])
def test_what_postgresql_cannot_hold_is_a_value_error(
    check: Callable[[str], str], text: str, message: str
) -> None:
    with pytest.raises(InvalidValueError, match=message) as caught:
        check(text)
    assert isinstance(caught.value, ValueError)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("check", [check_content, check_namespace, check_id])
def test_a_subclass_of_str_becomes_a_plain_str_of_its_characters(check: Callable[[str], str]) -> None:
    assert check(Shouting("quiet")) == "quiet"
    assert type(check(Shouting("quiet"))) is str
    assert type(check(np.str_("quiet"))) is str


@pytest.mark.parametrize(
    "text", ["%", "_", ".", "'", '"', "a b", "😀" * 63 + "abc", "a" * 255, "é" * 127 + "a", "\n"]
)
@pytest.mark.parametrize("check", [check_namespace, check_id])
def test_a_key_is_any_text_of_up_to_255_bytes(check: Callable[[str], str], text: str) -> None:
    assert check(text) == text


@pytest.mark.parametrize("text", ["a" * 256, "é" * 128, "😀" * 64])
@pytest.mark.parametrize("check", [check_namespace, check_id])
def test_a_longer_key_is_refused(check: Callable[[str], str], text: str) -> None:
    with pytest.raises(InvalidValueError, match="at most 255 bytes of UTF-8"):
        check(text)


def test_an_empty_key_is_refused_under_the_name_of_its_argument() -> None:
    for check, name in ((check_namespace, "namespace"), (check_id, "id")):
        with pytest.raises(InvalidValueError, match=f"^{name}: must not be empty$"):
            check("")
    with pytest.raises(InvalidValueError) as caught:
        check_key("", "thread_id")
    assert caught.value.argument == "thread_id"


@pytest.mark.parametrize("value", [0, 1, 5, 2**63 - 1])
def test_a_limit_is_an_int_from_zero(value: int) -> None:
    assert check_limit(value) == value


def test_a_limit_beyond_bigint_means_everything() -> None:
    assert check_limit(10**5000) == 2**63 - 1


@pytest.mark.parametrize("value", [-1, -(2**70)])
def test_a_negative_limit_is_a_value_error(value: int) -> None:
    with pytest.raises(InvalidValueError, match=r"^limit: must not be negative"):
        check_limit(value)


@pytest.mark.parametrize("value", [True, False, 5.0, "5", None, float("nan")])
def test_a_limit_that_is_no_int_is_a_type_error(value: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"^limit: must be an int, not"):
        check_limit(value)


def test_a_content_limit_stays_where_counts_are_exact() -> None:
    assert check_content_limit(1) == 1
    assert check_content_limit(HARD_MAX_CONTENT_BYTES) == 2**24
    for value in (0, -1, HARD_MAX_CONTENT_BYTES + 1, 10**5000, True, 1.5):
        with pytest.raises(InvalidInputError, match=r"^max_content_bytes: must be"):
            check_content_limit(value)


def test_no_letter_becomes_more_characters_in_lower_case_than_it_has_bytes() -> None:
    # What the largest content limit rests on: a text of n bytes has fewer than n shingles.
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code <= 0xDFFF:
            letter = chr(code)
            assert len(letter.lower()) <= len(letter.encode())
