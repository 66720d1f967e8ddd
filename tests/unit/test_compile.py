"""Whether a statement writes, found out quickly however its parts refer to each other."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Select, literal_column, select, union_all

from postgres_memory._sql.compile import Catalog
from postgres_memory._sql.predicates import prepare_filter
from postgres_memory._sql.recalling import recall_lexical
from postgres_memory._sql.schema import Tables
from postgres_memory._sql.scoring import RecallShape
from postgres_memory.filters import check_filter


def test_the_statement_of_recall_is_looked_through_once() -> None:
    catalog = Catalog("memory", "public", "public")
    begin = time.process_time()
    shape = RecallShape(prepare_filter(check_filter(None)).shape, pruned=True, typos=True)
    assert catalog.statement(recall_lexical, shape).repeatable
    assert time.process_time() - begin < 5


def test_parts_that_are_met_by_many_ways_are_looked_at_once() -> None:
    def nested(_: Tables, deepest: bool) -> Select[Any]:
        part = writing if deepest else select(literal_column("1").label("a")).cte("first")
        for number in range(25):
            part = union_all(select(part.c.a), select(part.c.a)).cte(f"part{number}")
        return select(part.c.a)

    catalog = Catalog("memory", "public")
    writing = (
        catalog.tables.known_words.delete()
        .returning(catalog.tables.known_words.c.word.label("a"))
        .cte("gone")
    )
    assert catalog.statement(nested, False).repeatable
    assert not catalog.statement(nested, True).repeatable
