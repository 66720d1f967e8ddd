"""What makes two calls the same for an idempotency key."""

from __future__ import annotations

from typing import Any

from postgres_memory import MemoryRecord, MemoryRelation, MemoryRelationType
from postgres_memory._writing.payload import payload_digest


def digest_of(metadata: dict[str, Any], about: dict[str, Any]) -> bytes:
    relation = MemoryRelation("target", MemoryRelationType.RELATED, metadata=about)
    record = MemoryRecord(content="text", metadata=metadata, relations=(relation,))
    return payload_digest(record, with_id=False, with_created_at=False, replaces=None)


def test_the_order_of_keys_says_nothing() -> None:
    one, two = {"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}
    assert digest_of(one, {}) == digest_of(two, {})
    assert digest_of({}, one) == digest_of({}, two)


def test_every_value_says_something() -> None:
    values: list[dict[str, Any]] = [{}, {"a": 1}, {"a": 1.0}, {"a": "1"}, {"a": [1]}, {"a": None}, {"b": 1}]
    digests = [digest_of(value, {}) for value in values] + [digest_of({}, value) for value in values[1:]]
    assert len(set(digests)) == len(digests)
