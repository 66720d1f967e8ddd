"""What the nearest really are: cosine of the shingle counts, exactly; ties count as right."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from postgres_memory.embedding.hashing import hash_counts_many
from suite.texts import question, sentence, topic


@lru_cache(maxsize=1)
def _stored(count: int) -> np.ndarray:
    counts = hash_counts_many([sentence(number) for number in range(count)]).astype(np.float32)
    return counts / np.linalg.norm(counts, axis=1, keepdims=True)


def found_of(
    answers: Sequence[Sequence[int]], count: int, first: int, *, limit: int = 5, among: str | None = None
) -> dict[str, float]:
    """Return the share of the true nearest that was found, rows for each question, and how many there should be."""
    stored = _stored(count)
    left_out = np.array([among is not None and topic(number) != among for number in range(count)])
    expected = min(limit, int((~left_out).sum()))
    hits = rows = 0
    for number, answer in enumerate(answers):
        asked = hash_counts_many([question(first + number)])[0].astype(np.float32)
        near = stored @ (asked / np.linalg.norm(asked))
        near[left_out] = -1
        least = np.sort(near)[-expected] if expected else 2.0
        rows += len(answer)
        hits += sum(1 for place in answer if 0 <= place < count and near[place] >= least - 1e-6)
    return {
        "recall": hits / max(1, expected * len(answers)),
        "rows": rows / max(1, len(answers)),
        "expected": expected,
    }
