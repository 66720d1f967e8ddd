"""Which spellings `recall` takes for the same word: other encodings, parts of joined words, letters inside runs."""

from __future__ import annotations

import asyncpg
import pytest

from postgres_memory import PostgresMemory
from tests.conftest import Database

NOTES = {
    "transport": "The gateway speaks TCP/IP over the old line.",
    "newsletter": "Anna wants the newsletter by e-mail, not on paper.",
    "inbox": "Ben's email inbox is full again.",
    "docs": "The retry rules are at https://docs.example.org/guides/asyncio-task.html#limits for now.",
    "limit": "The limit is set in src/settings/max_bytes.py, near the top.",
    "owner": "Ask maria.lopez@clinic-nord.example about the lab results.",
    "module": "billing.invoices.render() fails on an empty basket.",
    "ticket": "The broken door is ticket FAC-2291.",
    "disk": r"Scans are kept under D:\archive\scans since June.",
    "cafe": "We meet at the café on the corner.",
    "resume": "Send the re\u0301sume\u0301 before noon.",
    "wide": "新しい端末の型番はＸＴ９００です。",
    "kana": "ﾊﾟﾝ屋は七時に開く。",
    "wang": "昨天小王说他周五去北京。",
    "tea": "我们下午喝了一壶好茶。",
    "water": "아침마다 따뜻한 물을 마셔요.",
}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("What runs over TCP?", "transport"),
        ("Which line carries IP?", "transport"),
        ("TCP/IP gateway", "transport"),
        ("Where are the asyncio rules?", "docs"),
        ("docs.example.org", "docs"),
        ("Which guides did we keep?", "docs"),
        ("What is in max_bytes?", "limit"),
        ("settings.max_bytes", "limit"),
        ("Who is Lopez?", "owner"),
        ("clinic", "owner"),
        ("What is wrong with the invoices?", "module"),
        ("invoices.render", "module"),
        ("What was 2291?", "ticket"),
        ("FAC-2291", "ticket"),
        ("What is in the archive?", "disk"),
        ("cafe\u0301", "cafe"),
        ("r\u00e9sum\u00e9", "resume"),
        ("Which model is XT900?", "wide"),
        ("ｃａｆé", "cafe"),
        ("パン屋", "kana"),
        ("ﾊﾟﾝ屋", "kana"),
        ("王", "wang"),
        ("茶", "tea"),
        ("물", "water"),
    ],
)
async def test_finds(database: Database, query: str, found: str) -> None:
    async with PostgresMemory(database.dsn) as memory:
        for id_, content in NOTES.items():
            await memory.add(content, id=id_)
        hits = await memory.recall(query, min_score=0.01)
        assert [hit.record.id for hit in hits][:1] == [found]


async def test_a_hyphen_may_be_left_out(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        for id_, content in NOTES.items():
            await memory.add(content, id=id_)
        for query in ("email", "e-mail", "E-Mail"):
            hits = await memory.recall(query, min_score=0.01)
            assert {hit.record.id for hit in hits} == {"newsletter", "inbox"}, query


async def test_parts_of_a_joined_word_weigh_by_themselves(database: Database) -> None:
    """All of an address's parts together are rare, however frequent each of them is."""
    async with PostgresMemory(database.dsn) as memory:
        for number in range(20):
            await memory.add(f"Mirror {number} is https://mirror{number}.example.org/index.html for all.")
        hits = await memory.recall("https://mirror7.example.org/other.html", limit=2)
        assert hits[0].record.content.startswith("Mirror 7 ")
        assert hits[0].score > 1.2 * hits[1].score


async def test_a_subject_may_be_encoded_otherwise(database: Database) -> None:
    async with PostgresMemory(database.dsn, subject_field="speaker") as memory:
        await memory.add("I will bring the cake.", metadata={"speaker": "Anna"})
        await memory.add("I will bring the cake.", metadata={"speaker": "Jose\u0301"})
        hits = await memory.recall("Does Jos\u00e9 bring a cake?", explain=True)
        assert hits[0].record.metadata["speaker"] == "Jose\u0301"
        assert hits[0].parts["subject"] > 0


async def test_what_was_there_before_is_indexed_anew(empty_database: Database) -> None:
    from postgres_memory.config import Dsn
    from postgres_memory.migrations import migrate

    await migrate(Dsn(empty_database.dsn), revision="0013")
    connection = await asyncpg.connect(empty_database.dsn)
    for id_, content in NOTES.items():
        await connection.execute(
            "INSERT INTO memory.memories (namespace, id, content) VALUES ('default', $1, $2)", id_, content
        )
    await migrate(Dsn(empty_database.dsn))
    await connection.execute("SET enable_seqscan = off")
    plan = "EXPLAIN SELECT id FROM memory.memories WHERE " + (
        """memory.lexical_terms(namespace, language, content, created_at) COLLATE "C"
        && trim_array(memory.lexical_terms('default', 'english', 'TCP', '2000-01-01'), 4)"""
    )
    assert "memories_terms_idx" in "\n".join(row[0] for row in await connection.fetch(plan))
    rows = await connection.fetch(plan.removeprefix("EXPLAIN "))
    assert [row["id"] for row in rows] == ["transport"]
    await connection.close()
