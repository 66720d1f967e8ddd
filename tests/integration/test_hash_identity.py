"""The hash embedding in SQL equals the one in Python, bit for bit, whatever the text and the database's locale."""

from __future__ import annotations

import sys
import unicodedata
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postgres_memory._sql.functions import hash_counts_function, hash_embedding_function
from postgres_memory.embedding.hashing import hash_counts, hash_embedding
from postgres_memory.embedding.unicode import differs_by_unicode_version

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from ..conftest import Database, Server

    Connection = asyncpg.Connection[asyncpg.Record]

every_character = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
tricky_characters = st.sampled_from("ΣΣΣσςaαAİıẞKǅ𐐀.'-: \n\u0301\u0345\u00ad\u200dʰ1😀漢\U0010ffff")
many_texts = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

SPECIAL = [
    *("", "a", "ab", "é", "😀", "İ", "İİ", "1İ", "Σ", "ΑΣ", "ΣΣ", "ΣΣΣ", "abc", "ABC"),
    "The user prefers dark mode.",
    "İstanbul ISTANBUL ıstanbul DİYARBAKIR I\u0307",
    "ΟΔΥΣΣΕΥΣ ὈΔΥΣΣΕΎΣ ΣΊΣΥΦΟΣ, ΤΈΛΟΣ. Σ'ΑΓΑΠΩ ΑΣ'Α ΑΣ.Σ ΑΣ\u00ad\u0301",
    "STRAẞE ẞẞẞ ß ŒUVRE ǅungla Ǆ K Å Ω ℓ",
    "K2 at 3 K",
    "ᲐᲑᲒ ᏣᎳᎩ Ꭰ ꭰ ႠႡ ⴀ 𐐀𐐁 𞤀𞤁 Ⅷ Ⓐ ＡＢＣ",
    "👩‍👩‍👧‍👦 family 🇩🇪 👍🏽",
    "cafe\u0301 E\u0301 e\u0301\u0323 \u0130\u0307",
    "repeat " * 500,
    "\x01\x7f\x80 \ufeff\ufffe\uffff\U0010ffff",
    "a" * 4_100 + "é",
    "The quick brown fox " * 500 + "Σ",
    "\\1 \\u0041 ' '' $$ $function$ % :name {0}",
]

LONG = {
    "prose": "The quick brown fox, jumping over 42 lazy dogs. ",
    "cyrillic": "Сегодня в Москве хорошая Погода. ",
    "emoji": "😀a",
    "only capital sigmas": "Σ",
    "words ending in sigma": "αΣ ",
    "sigmas among ignorable characters": "Σ" + "'" * 40,
    "ignorable characters before a sigma": "α" + "'" * 100_000 + "Σ ",
    "hundred capitals": "".join(map(chr, range(0x410, 0x474))),
}


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Connection]:
    opened = await asyncpg.connect(database.direct_dsn)
    yield opened
    await opened.close()


async def assert_identical(connection: Connection, texts: Sequence[str], schema: str = "memory") -> None:
    await assert_same_counts(connection, texts, schema)
    rows = await connection.fetch(
        f"""SELECT {schema}.hash_embedding(content)::real[] AS embedding
        FROM unnest($1::text[]) WITH ORDINALITY AS given(content, number) ORDER BY number""",
        texts,
    )
    pairs = zip(texts, rows, strict=True)
    assert not [ascii(text)[:200] for text, row in pairs if row["embedding"] != hash_embedding(text)]


async def assert_same_counts(connection: Connection, texts: Sequence[str], schema: str = "memory") -> None:
    rows = await connection.fetch(
        f"""SELECT {schema}.hash_counts(content)::real[] AS counts
        FROM unnest($1::text[]) WITH ORDINALITY AS given(content, number) ORDER BY number""",
        texts,
    )
    pairs = zip(texts, rows, strict=True)
    assert not [ascii(text)[:200] for text, row in pairs if row["counts"] != hash_counts(text)]


def characters() -> list[str]:
    """Every character that both sides must agree on: on Python 3.11 all that PostgreSQL can hold."""
    every = (chr(code) for code in range(1, sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF)
    if unicodedata.unidata_version == "14.0.0":
        return list(every)
    return [character for character in every if not differs_by_unicode_version(f"{character}Σ")]


def joined(pieces: Sequence[str], size: int = 2_000) -> Iterator[str]:
    for start in range(0, len(pieces), size):
        yield "".join(pieces[start : start + size])


def alike_on_this_python(text: str) -> bool:
    return unicodedata.unidata_version == "14.0.0" or not differs_by_unicode_version(text)


class TestEveryText:
    @many_texts
    @given(st.lists(st.text(every_character, max_size=120).filter(alike_on_this_python), max_size=30))
    async def test_any_characters(self, connection: Connection, texts: list[str]) -> None:
        await assert_identical(connection, texts)

    @many_texts
    @given(st.lists(st.text(tricky_characters, max_size=40), max_size=100))
    async def test_tricky_characters(self, connection: Connection, texts: list[str]) -> None:
        await assert_identical(connection, texts)

    async def test_special_texts(self, connection: Connection) -> None:
        await assert_identical(connection, SPECIAL)

    async def test_every_character(self, connection: Connection) -> None:
        texts = list(joined(characters()))
        for start in range(0, len(texts), 50):
            await assert_same_counts(connection, texts[start : start + 50])

    async def test_every_assigned_character_beside_a_sigma(self, connection: Connection) -> None:
        # Unassigned and private characters behave alike: test_any_characters draws from them.
        assigned = [text for text in characters() if unicodedata.category(text) not in {"Cn", "Co"}]
        pieces = [f"x{character}Σ .{character}Σ " for character in assigned]
        await assert_same_counts(connection, list(joined(pieces)))

    @pytest.mark.parametrize("unit", LONG.values(), ids=LONG)
    async def test_texts_of_a_megabyte(self, connection: Connection, unit: str) -> None:
        text = unit * (1_000_000 // len(unit.encode()))
        await assert_same_counts(connection, [text])


class TestAnyDatabase:
    async def test_any_locale(self, server: Server) -> None:
        for options in await locales(server):
            async with functions_in(server, options) as connection:
                await assert_identical(connection, SPECIAL, schema='"we""ird"')
                capitals = [character for character in characters() if character.lower() != character]
                pieces = [f"x{character}Σ {character}αΣ " for character in capitals]
                await assert_identical(connection, list(joined(pieces)), schema='"we""ird"')

    async def test_any_search_path(self, connection: Connection) -> None:
        await connection.execute("""
            CREATE SCHEMA impostor;
            CREATE FUNCTION impostor.lower(text) RETURNS text LANGUAGE sql RETURN 'impostor';
            CREATE FUNCTION impostor.md5(bytea) RETURNS text LANGUAGE sql RETURN repeat('0', 32);
            CREATE FUNCTION impostor.l2_normalize(public.vector) RETURNS public.vector LANGUAGE sql RETURN $1;""")
        for path in ("''", "impostor", "impostor, pg_catalog", "pg_temp, impostor, public, pg_catalog"):
            await connection.execute(f"SET search_path = {path}")
            await assert_identical(connection, SPECIAL)

    async def test_any_collation_of_the_argument(self, connection: Connection) -> None:
        collations = await connection.fetchval("SELECT array_agg(quote_ident(collname)) FROM pg_collation")
        if await has_icu(connection):
            await connection.execute(
                "CREATE COLLATION unsure (PROVIDER = icu, LOCALE = 'und-u-ks-level1', DETERMINISTIC = false)"
            )
            collations.append("unsure")
        for collation in [
            name for name in collations if name in {"unsure", '"C"', "pg_unicode_fast", '"tr-x-icu"'}
        ]:
            rows = await connection.fetch(
                f"SELECT memory.hash_counts(t COLLATE {collation})::real[] AS c FROM unnest($1::text[]) AS t",
                SPECIAL,
            )
            assert [row["c"] for row in rows] == [hash_counts(text) for text in SPECIAL]

    async def test_migrated_function_is_the_one_of_this_version(self, connection: Connection) -> None:
        source = await connection.fetchval(
            "SELECT prosrc FROM pg_proc WHERE oid = 'memory.hash_counts(text)'::regprocedure"
        )
        assert source == hash_counts_function("memory", "public").split("$function$")[1]


class TestAttributes:
    async def test_immutable_strict_parallel_safe(self, connection: Connection) -> None:
        rows = await connection.fetch("""
            SELECT proname, provolatile::text, proisstrict, proparallel::text
            FROM pg_proc WHERE pronamespace = 'memory'::regnamespace AND proname IN ('hash_counts', 'hash_embedding')
            ORDER BY proname""")
        assert [tuple(row) for row in rows] == [
            ("hash_counts", "i", True, "s"),
            ("hash_embedding", "i", True, "s"),
        ]

    async def test_null_gives_null(self, connection: Connection) -> None:
        assert await connection.fetchval(
            "SELECT memory.hash_embedding(NULL) IS NULL AND memory.hash_counts(NULL) IS NULL"
        )

    async def test_can_be_indexed(self, connection: Connection) -> None:
        await connection.execute("""
            CREATE TABLE texts (content text);
            INSERT INTO texts VALUES ('The user prefers ΑΣ'), ('');
            CREATE INDEX ON texts
              USING hnsw ((memory.hash_embedding(content)::public.vector(32)) public.vector_cosine_ops);""")


async def has_icu(connection: Connection) -> bool:
    return bool(
        await connection.fetchval("SELECT exists(SELECT FROM pg_collation WHERE collname = 'und-x-icu')")
    )


async def locales(server: Server) -> list[str]:
    """Options of CREATE DATABASE for one database of each kind that this server can make."""
    connection = await asyncpg.connect(server.dsn)
    try:
        version = connection.get_server_version().major
        libc = await connection.fetchval("""
            SELECT array_agg(DISTINCT collcollate) FROM pg_collation
            WHERE collprovider = 'c' AND collencoding = 6
              AND collcollate IN ('C.UTF-8', 'C.utf8', 'en_US.UTF-8', 'en_US.utf8', 'tr_TR.UTF-8', 'tr_TR.utf8')""")
        options = [f"LOCALE_PROVIDER libc LOCALE '{locale}'" for locale in ("C", *(libc or ()))]
        if await has_icu(connection):
            options += [
                f"LOCALE_PROVIDER icu ICU_LOCALE '{locale}' LOCALE 'C'" for locale in ("und", "tr", "el")
            ]
        if version >= 17:
            options += [
                f"LOCALE_PROVIDER builtin BUILTIN_LOCALE '{locale}' LOCALE 'C'" for locale in ("C", "C.UTF-8")
            ]
        if version >= 18:
            options.append("LOCALE_PROVIDER builtin BUILTIN_LOCALE 'PG_UNICODE_FAST' LOCALE 'C'")
        return options
    finally:
        await connection.close()


@asynccontextmanager
async def functions_in(server: Server, options: str) -> AsyncIterator[Connection]:
    """A new database with the two functions and the extension in schemas of unusual names."""
    name = await server.create_database(f"TEMPLATE template0 ENCODING 'UTF8' {options}")
    connection = await asyncpg.connect(server.dsn_of(name))
    try:
        await connection.execute(
            'CREATE SCHEMA "we""ird"; CREATE SCHEMA "Ext"; CREATE EXTENSION vector SCHEMA "Ext"'
        )
        await connection.execute(hash_counts_function('we"ird', "Ext"))
        await connection.execute(hash_embedding_function('we"ird', "Ext"))
        yield connection
    finally:
        await connection.close()
        await server.drop_database(name)
