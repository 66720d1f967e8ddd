"""Items of a bulk load: many at once come to what each by itself comes to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postgres_memory import PostgresMemory
from postgres_memory._context import Context
from postgres_memory._writing import preparing
from postgres_memory._writing.preparing import Batch, prepare
from tests.json_values import json_metadata

texts = st.one_of(st.text(max_size=20), st.sampled_from(["a\0b", "\ud800", "\0", "x" * 41, "é" * 21]))
contents = st.one_of(texts, st.just(7))
metadata = st.one_of(
    st.none(), json_metadata, st.sampled_from([[], {"a": "\0"}, {"a": "\\u0000"}, {"a": object}])
)
dicts = st.fixed_dictionaries(
    {}, optional={"content": contents, "metadata": metadata, "importance": st.just(0.5)}
)
good = st.lists(
    st.fixed_dictionaries({"content": st.text(max_size=20)}, optional={"metadata": json_metadata})
)
items = st.one_of(good, st.lists(st.one_of(texts, dicts, st.just(3)), max_size=6))


def context(thread_field: str | None = None) -> Context:
    memory = PostgresMemory(
        "postgresql://nobody@nowhere/nothing", max_content_bytes=40, thread_field=thread_field
    )
    found: Context = memory._context
    return found


def told(batch: Batch) -> tuple[Any, ...]:
    counts = None if batch.counts is None else batch.counts.tolist()
    return batch.simple, {at: one.record.content for at, one in batch.whole.items()}, batch.failures, counts


@pytest.fixture(autouse=True)
def small_turns() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparing, "_TURN", 3)
        yield


@settings(deadline=None)  # the first call loads NumPy
@given(items)
def test_many_come_to_what_each_comes_to(given: list[Any]) -> None:
    together = prepare(context(), 5, list(given), deduped=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparing, "_prepare_plain", lambda *_: None)
        apart = prepare(context(), 5, list(given), deduped=False)
    assert told(together) == told(apart)


def test_what_is_plain_takes_no_step_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "_prepare_each", None)
    given: list[Any] = [
        "a text",
        {"content": "b"},
        {"content": "c", "metadata": None},
        {"content": "d", "metadata": {}},
    ]
    batch = prepare(context(), 0, given, deduped=False)
    assert sorted(batch.simple) == [0, 1, 2, 3]
    assert given == []


def test_a_thread_in_the_metadata_is_found() -> None:
    given: list[Any] = [{"content": "a", "metadata": {"chat": "t"}}]
    batch = prepare(context("chat"), 0, given, deduped=False)
    assert batch.whole[0].record.thread_id == "t"
