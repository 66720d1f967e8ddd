"""`recall`: the ranking against a model of it, nothing missing under filters, parts that add up."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from postgres_memory import PostgresMemory, Ranking
from postgres_memory._recall.question import read_question
from postgres_memory._sql import nearest, word_hits
from postgres_memory.errors import InvalidTypeError, InvalidValueError
from postgres_memory.filters import field
from tests.conftest import Database

from .recall_model import Held, rank

VOCABULARY = [
    "tea",
    "coffee",
    "garden",
    "garden",
    "river",
    "mountain",
    "river",
    "swim",
    "swam",
    "went",
    "go",
    "children",
    "child",
    "paint",
    "painted",
    "london",
    "paris",
    "monday",
    "may",
    "2023",
    "31st",
    "31",
    "music",
    "guitar",
    "dog",
    "cat",
    "birthday",
    "cake",
    "train",
    "ticket",
    "hotel",
    "museum",
    "picture",
    "storm",
]
SPEAKERS = ("Ann", "Bo", "Mary Jane", "Mary")
START = datetime(2023, 5, 1, 12, tzinfo=UTC)


class Corpus:
    """Random memories, some in threads, and what the model needs of them."""

    def __init__(self, seed: int, size: int) -> None:
        self.random = random.Random(seed)
        self.memories: list[Held] = []
        self.size = size

    async def store(self, memory: PostgresMemory, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        positions: dict[str, int] = {}
        for number in range(self.size):
            words = self.random.choices(VOCABULARY, k=self.random.randint(0, 9))
            content = " ".join(words) + self.random.choice(["", "", "?", ".", "? "])
            thread = self.random.choice([None, "one", "two", "three"])
            speaker = self.random.choice([None, *SPEAKERS])
            stored = await memory.add(
                content,
                id=f"m{number}",
                thread_id=thread,
                metadata={} if speaker is None else {"speaker": speaker},
                created_at=START + timedelta(days=self.random.randint(0, 400)),
            )
            terms = await connection.fetchval(
                "SELECT memory.lexical_terms($1, 'english', $2, $3)",
                memory.namespace,
                content,
                stored.created_at,
            )
            position = positions.get(thread or "", 0)
            positions[thread or ""] = position + 1
            subject = None if speaker is None else speaker.lower()
            self.memories.append(Held(f"m{number}", content, frozenset(terms), thread, position, subject))

    def query(self) -> str:
        words = self.random.choices(
            [*VOCABULARY, "what", "did", "the", "unheard", *SPEAKERS], k=self.random.randint(1, 7)
        )
        return " ".join(words) + self.random.choice(["", "?"])


async def words_of(
    connection: asyncpg.Connection[asyncpg.Record], namespace: str, query: str
) -> tuple[list[frozenset[str]], Sequence[str]]:
    """Return the terms of each word of a query, as the statement is given them."""
    question = read_question(query, forms=True, dates=True)
    mark = (await connection.fetchval("SELECT memory.lexical_terms($1, 'simple', '', now())", namespace))[0][
        :4
    ]
    groups: dict[int, set[str]] = {}
    for word, group, ready in zip(question.words, question.groups, question.ready, strict=True):
        terms = await connection.fetchval(
            "SELECT trim_array(memory.lexical_terms($1, 'english', $2, now()), 4)", namespace, word
        )
        groups.setdefault(group, set()).update([mark + word] if ready else terms)
    return [frozenset(terms) for terms in groups.values()], question.names


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("exact", [False, True])
async def test_ranks_as_the_model_does(database: Database, seed: int, exact: bool) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    corpus = Corpus(seed, 60)
    rankings = (
        Ranking(),
        Ranking(context=0.5, subject=1, thread=0, question=1),
        Ranking(context=0, thread=1),
    )
    async with PostgresMemory(database.dsn, namespace=f"n{seed}", subject_field="speaker") as memory:
        await corpus.store(memory, connection)
        for turn in range(12):
            query, ranking = corpus.query(), rankings[turn % 3]
            words, names = await words_of(connection, memory.namespace, query)
            wanted = rank(corpus.memories, words, names, ranking) if any(words) else {}
            hits = await memory.recall(query, limit=60, ranking=ranking, exact=exact, explain=True)
            found = {hit.record.id: hit.score for hit in hits}
            assert len(found) == len(hits) == 60, (query, len(hits), [hit.record.id for hit in hits])
            for id_, score in found.items():
                assert score == pytest.approx(wanted.get(id_, 0.0), abs=1e-9), (
                    query,
                    [m for m in corpus.memories if m.id == id_],
                )
            order = [(-round(hit.score, 9), int(hit.record.id[1:])) for hit in hits]
            assert order == sorted(order), query
            for hit in hits:
                assert math.fsum(hit.parts.values()) == pytest.approx(hit.score, abs=1e-9)
    await connection.close()


FILTERS = [
    field("importance") > 0.5,
    field("thread_id") == "one",
    field("metadata", "speaker") == "Ann",
    ~(field("thread_id") == "one") & (field("importance") <= 0.2),
    field("id").is_in(["m3", "m9", "m27"]),
    field("id") == "nothing",
]


@pytest.mark.parametrize("seed", range(2))
async def test_a_filter_never_makes_it_return_less(database: Database, seed: int) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    corpus = Corpus(seed, 60)
    async with PostgresMemory(database.dsn, subject_field="speaker") as memory:
        await corpus.store(memory, connection)
        for number in range(60):
            await memory.update(f"m{number}", importance=number / 60)
        for condition in FILTERS:
            matching = {record.id for record in await memory.find(filter=condition, limit=100)}
            for limit in (1, 5, 60):
                for query in (corpus.query(), "unheard", ""):
                    everything = await memory.recall(query, limit=60, exact=True)
                    wanted = [hit.record.id for hit in everything if hit.record.id in matching][:limit]
                    found = [
                        hit.record.id for hit in await memory.recall(query, limit=limit, filter=condition)
                    ]
                    assert len(found) == min(limit, len(matching))
                    if condition is FILTERS[0] and limit == 60:
                        assert set(found) == set(wanted)
    await connection.close()


async def test_sees_only_its_namespace_and_what_is_active(database: Database) -> None:
    async with (
        PostgresMemory(database.dsn, namespace="one") as one,
        PostgresMemory(database.dsn, namespace="two") as two,
    ):
        await two.add("green tea", thread_id="t")
        await two.add("and what follows", thread_id="t")
        await one.add("green tea", id="active", thread_id="t")
        await one.add("green tea archived", id="archived", thread_id="t")
        await one.archive("archived")
        await one.add("green tea old", id="old", thread_id="t")
        await one.supersede("old", "black coffee")
        gone = datetime.now(UTC) + timedelta(hours=1)
        await one.add("green tea expiring", id="expiring", expires_at=gone, thread_id="t")
        found = [hit.record.id for hit in await one.recall("green tea", limit=2, min_score=0.01)]
        assert sorted(found) == ["active", "expiring"]
        later = await one.recall("green tea", as_of=gone + timedelta(seconds=1), min_score=0.01)
        assert [hit.record.id for hit in later] == ["active"]
        assert len(await two.recall("tea")) == 2


async def test_bad_arguments(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        await memory.store("tea")
        assert await memory.recall("tea", limit=0) == []
        for arguments, error in (
            ({"limit": -1}, InvalidValueError),
            ({"limit": 1.5}, InvalidTypeError),
            ({"ranking": "nonsense"}, InvalidValueError),
            ({"ranking": 3}, InvalidTypeError),
            ({"min_score": "x"}, InvalidTypeError),
            ({"min_score": math.nan}, InvalidValueError),
            ({"min_score": 10**400}, InvalidValueError),
            ({"as_of": "yesterday"}, InvalidTypeError),
            ({"filter": {"nonsense": 1}}, InvalidValueError),
        ):
            with pytest.raises(error):
                await memory.recall("tea", **arguments)
        for query in ("a\0b", "\ud800"):
            with pytest.raises(InvalidValueError, match="query"):
                await memory.recall(query)
        with pytest.raises(TypeError):
            await memory.recall("tea", filters={})  # type: ignore[call-arg]
    for weights in (
        {"context": -1},
        {"subject": math.inf},
        {"relations": math.nan},
        {"fusion": "best"},
        {"importance": 10**400},
        {"confidence": 5e-324},
        {"lexical": 0},
        {"thread": True},
        {"recency": 1},
    ):
        with pytest.raises((InvalidValueError, InvalidTypeError)):
            Ranking(**weights)


async def test_priors_decide_between_equals(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        now = datetime.now(UTC)
        await memory.add("tea", id="old", created_at=now - timedelta(days=30), importance=0.9, confidence=0.1)
        await memory.add("tea", id="new", created_at=now - timedelta(days=1), importance=0.1, confidence=0.9)
        await memory.add("coffee", id="other", created_at=now, importance=1.0)

        async def order(ranking: Ranking) -> list[str]:
            return [hit.record.id for hit in await memory.recall("tea", ranking=ranking)]

        assert await order(Ranking()) == ["old", "new", "other"]
        assert await order(Ranking(recency=(0.2, timedelta(days=7)))) == ["new", "old", "other"]
        assert await order(Ranking(confidence=0.2)) == ["new", "old", "other"]
        assert await order(Ranking(importance=0.2)) == ["old", "new", "other"]
        (best, *_) = await memory.recall("tea", ranking=Ranking(importance=0.2), explain=True)
        assert best.parts["importance"] == pytest.approx(0.18)


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("我喜欢在早上喝绿茶", "绿茶"),
        ("猫は窓のそばで寝ています", "窓のそば"),
        ("ฉันชอบดื่มชาเขียวตอนเช้า", "ชาเขียว"),
        ("나는 아침에 녹차를 마신다", "녹차"),
        ("The children went swimming", "child swim"),
        ("We went home", "When did we go home?"),
        ("See v2.3.1 of api.example.com/path", "v2.3.1"),
        ("Mail ann@example.com about it", "ann@example.com"),
        ("On the 31st we moved", "31"),
        ("Zoë's café", "Zoë café"),
        ("🎂 cake", "cake"),
        ("Great work 👍", "👍"),
        ("कल की बैठक डार्क मोड के बारे में थी", "बैठक"),
        ("edit /etc/nginx/nginx.conf first", "/etc/nginx/nginx.conf"),
        ("edit /etc/nginx/nginx.conf first", "Where is (/etc/nginx/nginx.conf)?"),
        ("It costs 1,800.50 euros", "1,800.50"),
        ("Ask Zoë, Bo; and Kim", "Kim"),
    ],
)
async def test_finds_what_is_there(database: Database, content: str, query: str) -> None:
    async with PostgresMemory(database.dsn) as memory:
        for other in ("nothing of it", "今天天气很好", "明日は雨です", "quite another thing"):
            await memory.store(other)
        await memory.store(content)
        (best, *_) = await memory.recall(query, min_score=0.01)
        assert best.record.content == content


async def test_finds_by_the_date(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        for month in range(1, 13):
            await memory.add("A walk.", id=str(month), created_at=datetime(2023, month, 14, 12, tzinfo=UTC))
        assert (await memory.recall("What did we do in May 2023?"))[0].record.id == "5"
        assert (await memory.recall("the walk on 14 Sept."))[0].record.id == "9"
        assert (await memory.recall("a walk, 2023-07-14"))[0].record.id == "7"
        assert (await memory.recall("Thurs"))[0].record.created_at.weekday() == 3
        without = await memory.recall("May", ranking=Ranking(dates=False), min_score=0.01)
        assert without == []


async def test_hash_is_the_order_of_search(database: Database) -> None:
    connection = await asyncpg.connect(database.direct_dsn)
    corpus = Corpus(7, 60)
    async with PostgresMemory(database.dsn) as memory:
        await corpus.store(memory, connection)
        for query in (corpus.query(), corpus.query(), "", "garden " * 3_000):
            entries = await memory.search(query, limit=60)
            hits = await memory.recall(query, limit=60, ranking="hash")
            assert [hit.record.content for hit in hits] == [entry.content for entry in entries]
            for hit, entry in zip(hits, entries, strict=True):
                assert hit.score == pytest.approx(entry.score, abs=1e-9)
            some = await memory.recall(query, limit=4, ranking="hash", filter=field("thread_id") == "one")
            assert [hit.record.id for hit in some] == [
                hit.record.id for hit in hits if hit.record.thread_id == "one"
            ][:4]
    await connection.close()


MEANINGS = {"canine": 0, "dog": 0, "puppy": 0, "feline": 1, "cat": 1, "automobile": 2, "car": 2}


def by_meaning(texts: list[str]) -> list[list[float]]:
    """Embed by a table of meanings; a text without any is a zero vector."""
    return [
        [float(sum(MEANINGS.get(word, -1) == axis for word in text.lower().split())) for axis in range(3)]
        for text in texts
    ]


async def test_hybrid_finds_what_shares_no_word(database: Database) -> None:
    async with PostgresMemory(database.dsn, embedder=by_meaning, space="meaning") as memory:
        for content in ("a puppy", "my cat", "the car is red", "nothing at all"):
            await memory.add(content)
        for number in range(3):
            await memory.add(f"turn {number}", thread_id="t")
        await memory.add("the puppy ate", thread_id="t")
        await memory.add("and then slept", id="after", thread_id="t")
        hits = await memory.recall("canine", explain=True)
        assert hits[0].record.content == "a puppy"
        assert hits.plan[1].startswith("vector: space 'meaning'")
        for hit in hits:
            assert math.fsum(hit.parts.values()) == pytest.approx(hit.score, abs=1e-9)
        assert hits[0].parts["vector"] > 0
        scores = {hit.record.content: hit.score for hit in hits}
        assert scores["and then slept"] > scores["turn 0"]  # its neighbour is what was asked for
        assert scores["a puppy"] > scores["the puppy ate"] > scores["my cat"]
        words = await memory.recall("canine", ranking="lexical", min_score=0.01)
        assert words == []
        both = await memory.recall("red automobile", limit=1)
        assert [hit.record.content for hit in both] == ["the car is red"]
        filtered = await memory.recall("canine", limit=2, filter=field("thread_id") == "t")
        assert [hit.record.content for hit in filtered] == ["the puppy ate", "and then slept"]


async def test_hybrid_goes_on_when_the_embedder_fails(database: Database) -> None:
    def fails(texts: list[str]) -> list[list[float]]:
        raise RuntimeError("no model today")

    async with PostgresMemory(database.dsn, embedder=by_meaning, space="meaning") as memory:
        assert "no space" in (await memory.recall("tea")).plan[1]
        await memory.store("green tea")
    async with PostgresMemory(database.dsn, embedder=fails, space="meaning") as memory:
        hits = await memory.recall("tea")
        assert [hit.record.content for hit in hits] == ["green tea"]
        assert "no model today" in hits.plan[1]


async def test_hybrid_goes_on_where_the_space_is_of_another_model(database: Database) -> None:
    async with PostgresMemory(database.dsn, embedder=by_meaning, space="meaning") as memory:
        await memory.store("a puppy")
    async with PostgresMemory(
        database.dsn, embedder=lambda texts: [[1.0] * 5 for _ in texts], space="meaning"
    ) as other:
        hits = await other.recall("puppy")
        assert [hit.record.content for hit in hits] == ["a puppy"]
        assert "left out" in hits.plan[1]
        assert "3 dimensions" in hits.plan[1]
    async with PostgresMemory(database.dsn, embedder=by_meaning, space="none") as without:
        assert "no space 'none'" in (await without.recall("puppy")).plan[1]


async def test_search_ranks_as_the_object_says(database: Database) -> None:
    async with (
        PostgresMemory(database.dsn, ranking="hybrid") as hybrid,
        PostgresMemory(database.dsn) as exact,
    ):
        await hybrid.store("The children were swimming.", {"n": 1})
        await hybrid.store("Did a child swim?", {"n": 2})
        await hybrid.store("A chill swirl did it.", {"n": 3})
        found = await hybrid.search("child swim", limit=2)
        assert {entry.metadata["n"] for entry in found} == {1, 2}
        recalled = await exact.recall("child swim", limit=2)
        assert [entry.score for entry in found] == [hit.score for hit in recalled]
        assert (await exact.search("Did a child swim?"))[0].score == 1.0
        with pytest.raises(InvalidValueError, match="ranking"):
            PostgresMemory(database.dsn, ranking="nonsense")  # type: ignore[arg-type]


async def test_a_reranker_judges_the_first_hits(database: Database) -> None:
    asked: list[tuple[str, int]] = []

    async def by_length(query: str, contents: list[str]) -> list[float]:
        asked.append((query, len(contents)))
        return [len(content) / 100 for content in contents]

    async with PostgresMemory(database.dsn) as memory:
        for number in range(60):
            await memory.add("tea" + " cup" * (number % 7), id=f"m{number}")
        hits = await memory.recall("tea cup", limit=3, reranker=by_length, explain=True)
        assert asked == [("tea cup", 40)]
        assert [hit.score for hit in hits] == [0.27, 0.27, 0.27]
        for hit in hits:
            assert math.fsum(hit.parts.values()) == pytest.approx(hit.score)
        assert len(await memory.recall("tea cup", limit=30, reranker=by_length, min_score=0.25)) < 30

        async def wrong(query: str, contents: list[str]) -> list[float]:
            return [math.nan] * len(contents)

        async def short(query: str, contents: list[str]) -> list[float]:
            return [1.0]

        for bad in (wrong, short):
            with pytest.raises(InvalidValueError, match="reranker"):
                await memory.recall("tea", reranker=bad)
        with pytest.raises(InvalidTypeError, match="reranker"):
            await memory.recall("tea", reranker="model")  # type: ignore[arg-type]


async def test_diversity_avoids_repetition(database: Database) -> None:
    async with PostgresMemory(database.dsn) as memory:
        for content in ("green tea in the morning", "green tea in the mornings", "green tea in the morning!"):
            await memory.store(content)
        await memory.store("a friend spilled tea on the rug")
        plain = [hit.record.content for hit in await memory.recall("green tea", limit=2)]
        varied = [hit.record.content for hit in await memory.recall("green tea", limit=2, diversity=0.9)]
        assert "a friend spilled tea on the rug" not in plain
        assert "a friend spilled tea on the rug" in varied
        for bad in (-0.1, 1.1, math.nan):
            with pytest.raises(InvalidValueError, match="diversity"):
                await memory.recall("tea", diversity=bad)


async def test_frequent_words_do_not_hide_what_a_filter_asks_for(
    database: Database, monkeypatch: pytest.MonkeyPatch, statements_anew: None
) -> None:
    monkeypatch.setattr(word_hits, "_MOST_HITS", 20)
    async with PostgresMemory(database.dsn) as memory:
        await memory.add_many({"content": f"tea in room {number}", "id": str(number)} for number in range(60))
        for arguments in ({"filter": {"id": "59"}}, {"exact": True, "limit": 60}):
            hits = await memory.recall("tea room", **arguments)
            assert all(hit.score > 0 for hit in hits)
        await memory.add("tea in a room with a lamp", id="lamp")
        (best,) = await memory.recall("tea room lamp", limit=1, explain=True)
        assert best.record.id == "lamp"
        assert best.parts["words"] == pytest.approx(1.0)


async def test_an_index_of_the_space_is_used_where_there_is_much(
    database: Database, monkeypatch: pytest.MonkeyPatch, statements_anew: None
) -> None:
    monkeypatch.setattr(nearest, "_READ_THROUGH", 50)
    chance = random.Random(1)
    vectors = {f"text {number}": [chance.gauss(0, 1) for _ in range(8)] for number in range(600)}

    def embed(texts: list[str]) -> list[list[float]]:
        return [vectors[text] for text in texts]

    by_vector = Ranking(vector=1, lexical=0)
    async with (
        PostgresMemory(database.dsn, embedder=embed, space="of-the-index-test") as memory,
        PostgresMemory(database.dsn, namespace="other", embedder=embed, space="of-the-index-test") as other,
    ):
        await other.add_many(f"text {number}" for number in range(300, 600))
        await memory.add_many(
            {"content": f"text {number}", "tags": ["even"] * (number % 2 == 0)} for number in range(300)
        )
        await memory.create_index("of-the-index-test")
        same = 0
        for query in (f"text {number}" for number in range(590, 600)):
            for condition in (None, field("tags").contains("even")):
                exact = await memory.recall(query, limit=5, ranking=by_vector, exact=True, filter=condition)
                found = await memory.recall(query, limit=5, ranking=by_vector, filter=condition)
                assert len(found) == len(exact) == 5
                why = "by the index" if condition is None else "since few do"
                assert (why in found.plan[1], "by the index" in exact.plan[1]) == (True, False), found.plan
                same += len({hit.record.id for hit in found} & {hit.record.id for hit in exact})
        assert same >= 95
    connection = await asyncpg.connect(database.direct_dsn)
    used = "SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname LIKE 'memory_embeddings_%_vector_%'"
    scans = 0
    for _ in range(300):  # a session that ended tells of what it did a little later
        if (scans := await connection.fetchval(used)) >= 10:
            break
        await asyncio.sleep(0.1)
    assert scans >= 10
    await connection.close()


async def test_vectors_alone_need_an_embedder(database: Database) -> None:
    async with PostgresMemory(database.dsn) as plain:
        with pytest.raises(InvalidValueError, match="no embedder"):
            await plain.recall("puppy", ranking=Ranking(vector=1, lexical=0))
