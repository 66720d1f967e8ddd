"""The nearest field of a memory counts in `recall`, each memory once, and as many come back as were asked for."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postgres_memory import MemoryRecord, PostgresMemory, Ranking
from postgres_memory._sql import nearest
from postgres_memory.embedding.fields import check_fields, name_of_field
from postgres_memory.filters import field
from postgres_memory.postgres import Verbs
from tests.conftest import Database
from tests.embedders import WordEmbedder, word_vector

from .field_rows import FIELDS, Rows, cosine, expected, field_rows, there

VECTOR = Ranking(vector=1, lexical=0)
WORDS = ["red", "green", "blue", "dark", "light", "pale"]

_numbers = count(1)

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join)
odd = st.none() | st.integers(0, 2) | st.just("")
metadata = st.fixed_dictionaries(
    {},
    optional={
        "summary": texts | odd | st.just(["red"]),
        "facts": st.lists(texts | odd, max_size=4) | st.just("red") | st.just({"0": "red"}),
        "notes": st.lists(st.fixed_dictionaries({}, optional={"text": texts | odd}) | texts, max_size=3),
        "other": texts,
    },
)
ids = st.sampled_from(["a", "b", "c", "d"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), ids, texts, metadata),
        st.tuples(st.just("many"), ids, texts, metadata),
        st.tuples(st.sampled_from(["merge", "replace"]), ids, st.none() | texts, metadata),
        st.tuples(st.just("pending")),
        st.tuples(st.just("delete"), ids),
    ),
    min_size=1,
    max_size=10,
)
#: Who does a step: the object with these fields, with its embedder failing; one with other fields; one with none.
doers = st.lists(st.sampled_from(["fields", "fields", "failing", "other", "bare"]), min_size=10, max_size=10)


def always(_: Sequence[str]) -> bool:
    return True


def never(_: Sequence[str]) -> bool:
    return False


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
async def memory(database: Database, embedder: WordEmbedder) -> AsyncIterator[PostgresMemory]:
    async with PostgresMemory(
        database.dsn, embedder=embedder, embedded_fields=FIELDS, access_tracking="off"
    ) as opened:
        yield opened


async def do(verbs: Verbs, there_is: set[str], step: tuple[Any, ...]) -> None:
    """Do one step, if what it is about is there."""
    match step:
        case "add", id_, content, given_metadata:
            await verbs.add(content, id=id_, metadata=given_metadata, on_conflict="update")
        case "many", id_, content, given_metadata:
            record = MemoryRecord(content=content, id=id_, metadata=given_metadata)
            await verbs.add_many([record, content], on_conflict="update")
        case "merge" | "replace" as mode, id_, content, given_metadata if id_ in there_is:
            content = {} if content is None else {"content": content}
            await verbs.update(id_, metadata=given_metadata, metadata_mode=mode, **content)
        case "delete", id_:
            await verbs.delete(id_)


def similarities(rows: dict[str, list[float] | None], query: str) -> dict[str, float]:
    """Return the similarity of each field of a memory."""
    asked = word_vector(query)
    return {name_of_field(name): cosine(vector, asked) for name, vector in rows.items() if vector}


async def check_recall(memory: Verbs, rows: Rows, query: str) -> None:
    hits = await memory.recall(query, limit=len(rows), ranking=VECTOR, explain=True)
    assert sorted(hit.record.id for hit in hits) == sorted(rows)
    for hit in hits:
        found = similarities(rows[hit.record.id], query)
        assert hit.score == pytest.approx(max(0.0, *found.values()), abs=1e-5)
        assert hit.field is not None
        assert found[hit.field] == pytest.approx(max(found.values()), abs=1e-5)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps, doers, texts)
async def test_whatever_is_done_the_fields_are_those_of_the_model(
    database: Database,
    memory: PostgresMemory,
    embedder: WordEmbedder,
    given_steps: list[tuple[Any, ...]],
    given_doers: list[str],
    query: str,
) -> None:
    """No vector is ever of another text; what waits is counted, and embedded; the nearest field is what counts."""
    namespace = f"n{next(_numbers)}"
    mine = Verbs(replace(memory._context, namespace=namespace))
    other = Verbs(replace(mine._context, fields=check_fields(["content", "metadata.other"])))
    bare = Verbs(replace(mine._context, embedder=None))
    by_name = {"fields": mine, "failing": mine, "other": other, "bare": bare}
    await mine.add("red", id="first")
    for step, doer in zip(given_steps, given_doers, strict=False):
        before = {record.id for record in await mine.find(limit=1000)}
        embedder.fails = always if doer == "failing" and step[0] != "pending" else never
        if step[0] == "pending":
            await mine.embed_pending(batch_size=3)
        else:
            await do(by_name[doer], before, step)
        records = await mine.find(limit=1000)
        whole, found = expected(records), there(await field_rows(database, namespace=namespace))
        every = expected(records, [*FIELDS, "metadata.other"])
        for id_, rows in found.items():
            assert rows.items() <= every[id_].items()
        (space,) = await mine.spaces()
        lacking = sum(not whole[id_].keys() <= found[id_].keys() for id_ in whole)
        assert (space.embedded, space.pending) == (len(whole) - lacking, lacking)
    embedder.fails = never
    await mine.embed_pending(batch_size=3)
    records = await mine.find(limit=1000)
    whole, found = expected(records), there(await field_rows(database, namespace=namespace))
    ours = {
        id_: {name: rows[name] for name in rows if name != "metadata.other"} for id_, rows in found.items()
    }
    assert ours == whole
    await check_recall(mine, whole, query)
    usual = Verbs(replace(mine._context, fields=check_fields(["content"])))
    for hit in await usual.recall(query, limit=len(whole), ranking=VECTOR, explain=True):
        assert hit.score == pytest.approx(
            max(0.0, similarities(whole[hit.record.id], query)["content"]), abs=1e-5
        )
        assert hit.field is None


async def test_explain_names_the_field_that_won(memory: PostgresMemory) -> None:
    await memory.add("unlike", id="a", metadata={"facts": ["red", "green dark"], "summary": "blue"})
    await memory.add("pale", id="b", metadata={"notes": [{}, {"text": "light"}]})
    named = {"unlike": "content", "red": "metadata.facts[0]", "green dark": "metadata.facts[1]"}
    named |= {"blue": "metadata.summary", "light": "metadata.notes[1].text", "pale": "content"}
    for query, name in named.items():
        for ranking in (VECTOR, "hybrid"):
            hit, _ = await memory.recall(query, limit=2, ranking=ranking, explain=True)
            assert (hit.field, hit.record.id) == (name, "b" if query in ("light", "pale") else "a")
            assert hit.score == pytest.approx(sum(hit.parts.values()))
    (hit,) = await memory.recall("red", limit=1)
    assert hit.field is None
    async with memory.transaction() as inside:
        await inside.add("nothing is embedded", id="c")
        hits = await inside.recall("red", limit=3, ranking=VECTOR, explain=True)
    assert {hit.record.id: hit.field for hit in hits}["c"] is None
    (best,) = await memory.recall("red", min_score=0.99, ranking=VECTOR)
    assert best.record.id == "a"


async def test_several_facts_make_a_memory_no_better(memory: PostgresMemory) -> None:
    await memory.add("x", id="once", metadata={"facts": ["red"]})
    await memory.add("x", id="often", metadata={"facts": ["red", "red", "red"], "summary": "red"})
    once, often = await memory.recall("red", limit=5, ranking=VECTOR)
    assert (once.record.id, often.record.id) == ("once", "often")
    assert once.score == often.score == pytest.approx(1.0)


async def test_what_another_object_embeds_does_not_count(memory: PostgresMemory, database: Database) -> None:
    await memory.add("pale", id="a", metadata={"facts": ["red"], "summary": "blue"})
    await memory.add("dark", id="b")
    best_of = {"content": None, "metadata.facts[*]": "metadata.facts[0]", "metadata.summary": None}
    for name, best in best_of.items():
        asked = Verbs(replace(memory._context, fields=check_fields([name])))
        hits = await asked.recall("red", limit=2, ranking=VECTOR, min_score=0.99, explain=True)
        assert [hit.field for hit in hits] == ([] if best is None else [best])


async def test_a_principal_finds_fields_of_what_it_may_read(memory: PostgresMemory) -> None:
    alice = memory.as_principal("alice")
    await memory.add("mine", id="a", metadata={"facts": ["red"]})
    hers = await alice.add("hers", metadata={"facts": ["pale", "red dark"]})
    for ranking in (VECTOR, "hybrid"):
        (hit,) = await alice.recall("red", limit=5, ranking=ranking, explain=True)
        assert (hit.record.id, hit.field) == (hers.id, "metadata.facts[1]")


async def test_a_filter_leaves_no_hit_out(memory: PostgresMemory) -> None:
    await memory.add_many(
        {"content": f"number {number}", "metadata": {"facts": ["red"] * 4, "kind": number % 10}}
        for number in range(300)
    )
    hits = await memory.recall("red", limit=50, filter=field("metadata", "kind") == 3, ranking=VECTOR)
    assert len({hit.record.id for hit in hits}) == len(hits) == 30


@pytest.mark.parametrize("kind", ["few fields", "many fields"])
@pytest.mark.parametrize("limit", [5, 150])
async def test_with_an_index(
    database: Database, monkeypatch: pytest.MonkeyPatch, statements_anew: None, kind: str, limit: int
) -> None:
    """As many memories come back, whatever the index gives: vectors of a few memories, each with many fields."""
    monkeypatch.setattr(nearest, "_READ_THROUGH", 50)
    chance = random.Random(kind)
    words = [f"w{number}" for number in range(400)]

    def text() -> str:
        return " ".join(chance.choices(words, k=4))

    def facts(number: int) -> list[str]:
        if kind == "few fields":
            return [text() for _ in range(number % 3)]
        near = [f"red red red red {chance.choice(words)} {chance.choice(words)}" for _ in range(20)]
        return near if number < 90 else []

    fields = ["content", "metadata.facts[*]"]
    async with PostgresMemory(
        database.dsn, embedder=WordEmbedder(dimensions=16), embedded_fields=fields, access_tracking="off"
    ) as memory:
        await memory.add_many(
            {"content": text(), "metadata": {"facts": facts(number)}} for number in range(400)
        )
        await memory.create_index("words")
        same = wanted = 0
        for query in ("red", text(), text(), text()):
            hits = await memory.recall(query, limit=limit, ranking=VECTOR)
            exact = await memory.recall(query, limit=limit, ranking=VECTOR, exact=True)
            assert len({hit.record.id for hit in hits}) == len(hits) == limit
            same += len({hit.record.id for hit in hits} & {hit.record.id for hit in exact})
            wanted += limit
            if query == "red":
                why = "by the index" if kind == "few fields" else "since the index gave too few that do"
                assert why in hits.plan[1]
        assert same >= 0.97 * wanted
