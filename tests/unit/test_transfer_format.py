"""The format of an export, without a database: header, lines, trailer, and the streams they go through."""

from __future__ import annotations

import io
import json
from hashlib import sha256
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postgres_memory._transfer.encoding import encode_rows
from postgres_memory._transfer.format import Counts, Seal, header_line, kind_of_line, parse_header
from postgres_memory._transfer.loading import Numbers
from postgres_memory._transfer.plain import BadLine, PlainLine, read_plain
from postgres_memory._transfer.reading import Export, Lines, is_export
from postgres_memory._transfer.writing import opened_target
from postgres_memory.errors import InvalidTypeError, InvalidValueError
from tests.factories import keys, texts

counts = st.builds(Counts, *[st.integers(0, 2**63)] * 4)
pairs = st.lists(st.tuples(keys, keys), max_size=20)


def file_of(links: list[tuple[str, str]]) -> bytes:
    """Return an export of nothing but which memory replaced which."""
    header = header_line("n", Counts(supersedes=len(links)))
    seal = Seal(header)
    lines = encode_rows("supersedes", [{"id": newer, "replaced": older} for newer, older in links])
    seal.add("supersedes", lines)
    return b"".join((header, *lines, seal.trailer()))


@given(namespace=keys, announced=counts)
def test_a_header_is_one_line_and_says_its_counts(namespace: str, announced: Counts) -> None:
    line = header_line(namespace, announced)
    assert line.count(b"\n") == 1
    assert json.loads(line)["namespace"] == namespace
    assert parse_header(line) == announced


@given(links=pairs, raw=st.booleans())
def test_what_is_written_is_read(links: list[tuple[str, str]], raw: bool) -> None:
    data = file_of(links)
    stream: Any = Raw(data) if raw else io.BytesIO(data)
    lines = Lines(stream)
    assert is_export(lines)
    read = list(Export(lines))
    assert [number for number, _, _ in read] == list(range(2, len(links) + 2))
    assert [(json.loads(line)["id"], json.loads(line)["replaced"]) for _, _, line in read] == links


@given(links=pairs, data=st.data())
def test_no_other_bytes_pass_as_the_file(links: list[tuple[str, str]], data: st.DataObject) -> None:
    whole = file_of(links)
    start = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(start, min(start + 20, len(whole))))
    other = whole[:start] + data.draw(st.binary(max_size=20)) + whole[end:]
    if other != whole:
        with pytest.raises(InvalidValueError, match="source"):
            list(Export(Lines(io.BytesIO(other))))


def test_the_checksum_is_over_every_byte_before_the_trailer() -> None:
    *before, trailer = file_of([("a", "b"), ("b", "c")]).splitlines(keepends=True)
    assert json.loads(trailer)["sha256"] == sha256(b"".join(before)).hexdigest()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"kind":"memory","id":"x"}\n', "memory"),
        (b'{"kind":"anything"}', "anything"),
        (b'{"kind": "memory"}\n', None),
        (b'{"id":"x","kind":"memory"}\n', None),
        (b'{"content":"{\\"kind\\":\\"memory\\"}"}\n', None),
        (b"", None),
    ],
)
def test_a_line_begins_with_its_kind(line: bytes, kind: str | None) -> None:
    assert kind_of_line(line) == kind


def test_a_row_keeps_the_json_of_the_database() -> None:
    row = {"source_id": "a", "relation_type": "extends", "label": "", "target_id": "b", "confidence": 1e-300}
    (line,) = encode_rows("relation", [row | {"metadata": '{"n": 0.10000000000000000000000000000001}'}])
    assert line.endswith(b'"metadata":{"n": 0.10000000000000000000000000000001}}\n')
    assert json.loads(line)["confidence"] == 1e-300


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_numbers_are_a_set(first: set[int], later: set[int]) -> None:
    numbers = Numbers()
    numbers.add(first)
    numbers.add(number + 61 for number in later)
    held = first | {number + 61 for number in later}
    assert {number for number in range(-2, 125) if number in numbers} == held
    assert None not in numbers


@given(contents=st.lists(texts, max_size=12), batch_size=st.integers(1, 5))
def test_plain_lines_come_in_batches_with_their_places(contents: list[str], batch_size: int) -> None:
    data = b"".join(json.dumps({"content": content}).encode() + b"\n" for content in contents)
    batches = list(read_plain(Lines(io.BytesIO(data)), batch_size))
    assert all(len(batch) == batch_size for batch in batches[:-1])
    lines = [line for batch in batches for line in batch if isinstance(line, PlainLine)]
    assert [line.values["content"] for line in lines] == contents
    assert [line.number for line in lines] == list(range(1, len(contents) + 1))
    assert not lines or lines[-1].end == len(data)


def test_a_plain_line_is_read_strictly() -> None:
    data = b'[1]\n{"metadata":{}}\n{"content":"x","id":"y"}\n{"content":NaN}\n\xff\n'
    ((*lines,),) = read_plain(Lines(io.BytesIO(data)), 10)
    problems = [line.problem for line in lines if isinstance(line, BadLine)]
    expected = ["must be an object", "is missing", "unknown key 'id'", "NaN", "not UTF-8 at byte 1"]
    assert len(problems) == len(expected)
    assert all(part in problem for part, problem in zip(expected, problems, strict=True))


async def test_a_stream_that_takes_a_part_gets_the_rest() -> None:
    target = Raw(b"")
    async with opened_target(cast(Any, target)) as write:
        write(b"0123456789" * 3)
    assert target.written == b"0123456789" * 3


async def test_what_cannot_be_written_or_read_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="target"):
        async with opened_target(cast(Any, 5)):
            pass
    with pytest.raises(InvalidTypeError, match="source"):
        Lines(cast(Any, 5))


class Raw(io.RawIOBase):
    """An unbuffered stream that gives and takes a few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._rest = io.BytesIO(data)
        self.written = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._rest.readinto(memoryview(buffer)[:7])

    def write(self, data: Any) -> int:
        part = bytes(data[:7])
        self.written += part
        return len(part)
