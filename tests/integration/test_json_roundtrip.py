"""Metadata through a real ``jsonb``: what comes back equals what was given, types included."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

import asyncpg
import pytest
from hypothesis import HealthCheck, example, given, settings

from postgres_memory._json import MAX_METADATA_BYTES, decode_metadata, encode_metadata
from tests.json_values import KEPT, json_metadata, nested, same_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Database(Protocol):
    @property
    def direct_dsn(self) -> str: ...


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    opened = await asyncpg.connect(database.direct_dsn)
    yield opened
    await opened.close()


async def through_jsonb(connection: asyncpg.Connection[asyncpg.Record], text: str) -> str:
    back = await connection.fetchval("SELECT $1::text::jsonb::text", text)
    assert isinstance(back, str)
    return back


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=json_metadata)
@example(value={"a": 1e23, "b": [1e16, 1.5e300, 5e-324, 1.7976931348623157e308], "c": 100.0, "d": 0.1})
@example(value={"big": int("1234567890" * 3), "Ключ": {"😀": {"e\u0301": None}}, "": True})
async def test_json_values_round_trip(
    connection: asyncpg.Connection[asyncpg.Record], value: dict[str, Any]
) -> None:
    back = decode_metadata(await through_jsonb(connection, encode_metadata(value)))
    assert same_json(back, value)


@pytest.mark.parametrize("row", KEPT)
async def test_what_the_table_keeps_round_trips(
    connection: asyncpg.Connection[asyncpg.Record], row: str
) -> None:
    for value, plain in KEPT[row]:
        back = decode_metadata(await through_jsonb(connection, encode_metadata({"k": [value]})))
        assert same_json(back, {"k": [plain]})


async def test_the_largest_metadata_fits(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    longest = {"k": "a" * (MAX_METADATA_BYTES - 8)}
    widest = {str(number): number for number in range(70_000)}
    for value in (nested(128), longest, widest, {"k": [-1e308] * 3000}):
        assert same_json(decode_metadata(await through_jsonb(connection, encode_metadata(value))), value)


async def test_jsonb_makes_integers_of_floats_written_with_an_exponent(
    connection: asyncpg.Connection[asyncpg.Record],
) -> None:
    # The reason why large floats are written out: should this ever change, they need not be.
    back = json.loads(await through_jsonb(connection, json.dumps({"a": 1e23})))
    assert type(back["a"]) is int
