"""How the weights of a ranking are chosen: what is best on all conversations but one is judged on that one.

python bench/choose.py --folder FOLDER --data NAME             # two conversations or more
python bench/choose.py --folder FOLDER --data NAME --model     # also the weight of vectors, with a local model
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from contest import database
from questions import Conversation, measure, read_conversations
from recall import load_model, recalled

from postgres_memory import PostgresMemory, Ranking

#: The values that are tried of each weight, one weight at a time; those of `Ranking` and `PRESETS` among them.
TRIED: dict[str, tuple[float, ...]] = {
    "context": (0.5, 0.75, 1.0),
    "subject": (1.0, 1.5, 2.0, 3.0),
    "thread": (0.0, 0.2, 0.3, 0.5),
    "question": (0.8, 0.9, 1.0),
}
VECTOR = (0.4, 0.6, 0.8, 1.0)


def rankings(*, model: bool) -> dict[tuple[str, float], Ranking]:
    """Return each ranking that is tried, by the weight and its value."""
    tried = {
        (name, value): replace(Ranking(), **{name: value})
        for name, values in TRIED.items()
        for value in values
    }
    return tried | ({("vector", value): Ranking(vector=value) for value in VECTOR} if model else {})


async def judge(dsn: str, conversation: Conversation, *, model: bool) -> dict[tuple[str, float], np.ndarray]:
    """Return r@5 and r@10 of every question, for each ranking."""
    embedder = load_model() if model else None
    memory = PostgresMemory(
        dsn,
        namespace=conversation.name,
        subject_field="subject",
        access_tracking="off",
        embedder=embedder,
        space="minilm" if model else None,
    )
    judged: dict[tuple[str, float], np.ndarray] = {}
    async with memory:
        await memory.add_many(turn.item() for turn in conversation.turns)
        known: dict[Ranking, np.ndarray] = {}  # the defaults come once for each weight
        for key, ranking in rankings(model=model).items():
            if ranking not in known:
                rank = recalled(memory, ranking)
                found = [
                    measure(await rank(asked.question), asked.relevant)[:2]
                    for asked in conversation.questions
                ]
                known[ranking] = 100 * np.array(found)
            judged[key] = known[ranking]
    return judged


def table(judged: dict[str, dict[tuple[str, float], np.ndarray]]) -> str:
    """Return, for each weight, its values on all questions, which were chosen, and what these give where left out."""
    lines = [
        "| weight | r@5 / r@10 of each value | chosen, by how many | left out r@5 / r@10 |",
        "|---|---|---|---:|",
    ]
    keys = list(next(iter(judged.values())))
    for name in dict.fromkeys(name for name, _ in keys):
        values = [value for weight, value in keys if weight == name]
        means = {
            value: np.concatenate([one[name, value] for one in judged.values()]).mean(axis=0)
            for value in values
        }
        shown = ", ".join(f"{value:g}: {mean[0]:.1f} / {mean[1]:.1f}" for value, mean in means.items())
        chosen, left_out = [], []
        for held in judged:
            others = [one for other, one in judged.items() if other != held]

            def of_others(value: float, others: list = others, name: str = name) -> float:
                return float(np.concatenate([one[name, value] for one in others]).mean())

            best = max(values, key=of_others)
            chosen.append(best)
            left_out.append(judged[held][name, best])
        mean = np.concatenate(left_out).mean(axis=0)
        counts = ", ".join(f"{value:g} ({times})" for value, times in Counter(chosen).most_common())
        lines.append(f"| `{name}` | {shown} | {counts} | {mean[0]:.1f} / {mean[1]:.1f} |")
    return "\n".join(lines)


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--data", required=True, help="the files are DATA_turns.jsonl and DATA_queries.jsonl")
    parser.add_argument("--without", nargs="*", default=["adversarial"], help="categories to leave out")
    parser.add_argument("--model", action="store_true", help="also try weights of a local model's vectors")
    arguments = parser.parse_args()
    conversations = read_conversations(arguments.folder, arguments.data, arguments.without)
    if len(conversations) < 2:
        parser.error("one conversation leaves none to choose by")
    judged = {}
    async with database() as dsn:
        for conversation in conversations:
            judged[conversation.name] = await judge(dsn, conversation, model=arguments.model)
    print(table(judged))


if __name__ == "__main__":
    asyncio.run(main())
