"""The elements of a JSON array are found wherever the pieces of the file end."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postgres_memory._transfer.sources import json_array
from postgres_memory._transfer.sources.found import NotAMemoryError, derived_id
from postgres_memory._transfer.sources.json_array import elements
from tests.json_values import json_values


class Pieces(io.BytesIO):
    """A file that gives what it likes, as a pipe does."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._size = size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._size)


@given(st.lists(json_values, max_size=6), st.integers(1, 9), st.sampled_from([None, 1]), st.booleans())
def test_elements_are_those_of_the_array(
    values: list[object], size: int, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    # The first piece must hold the bracket.
    found = [json.loads(text.decode(errors="surrogatepass")) for text in elements(Pieces(text, size)) if text]
    assert json.dumps(found) == json.dumps(values)


@given(st.lists(st.text(max_size=30), max_size=6), st.integers(1, 9), st.integers(2, 20))
def test_longer_elements_are_left_out_and_those_after_them_are_not(
    values: list[str], size: int, limit: int
) -> None:
    spelt = [json.dumps(value).encode() for value in values]
    text = b"[" + b",".join(spelt) + b"]"
    assert list(elements(Pieces(text, size), limit)) == [
        each if len(each) <= limit else None for each in spelt
    ]


@pytest.mark.parametrize("text", [b"", b"{}", b'"x"', b"[1", b'["]', b"[[1]", b'[{"a": "}]'])
def test_what_is_no_whole_array_is_refused(text: bytes) -> None:
    with pytest.raises(NotAMemoryError):
        list(elements(io.BytesIO(text)))


def test_a_byte_order_mark_is_no_part_of_it() -> None:
    assert list(elements(io.BytesIO(b"\xef\xbb\xbf [1, 2]"))) == [b"1", b"2"]
    assert json_array.MAX_ELEMENT_BYTES > 1_000_000


@given(st.lists(st.text(), min_size=2, max_size=2), st.lists(st.text(), min_size=2, max_size=2))
def test_ids_of_different_keys_differ(left: list[str], right: list[str]) -> None:
    assert (derived_id("x/", *left) == derived_id("x/", *right)) == (left == right)
    assert len(derived_id("x/", *left).encode(errors="surrogatepass")) <= 255
