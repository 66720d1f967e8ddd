"""The statement that inserts several new memories at once, given as arrays: calls that go together.

Nothing of it can wait for another transaction: the ids are new, no content is deduped, nothing is related.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    REAL,
    BigInteger,
    DateTime,
    Double,
    Integer,
    Select,
    Text,
    bindparam,
    cast,
    column,
    func,
    literal_column,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, Insert
from sqlalchemy.types import TypeEngine

from .changes import guarded, of_memories, told
from .embeddings import COLUMNS, CONTENT, given_space
from .parameters import number_parameter, once, seconds, text_parameter
from .places import language_of_namespace, place_in_order
from .schema import Tables

#: What every row says, each an array of one value for a row.
SAID: dict[str, TypeEngine[Any]] = {
    "id": Text(),
    "content": Text(),
    "metadata": Text(),
    "thread_id": Text(),
    "counts": Text(),
}

#: What a row of `add` says beside, where `store` leaves it to the defaults.
SAID_WHOLE: dict[str, TypeEngine[Any]] = {
    "memory_type": Text(),
    "status": Text(),
    "importance": Double(),
    "confidence": Double(),
    "tags": Text(),
    "session_id": Text(),
    "owner": Text(),
    "readers": Text(),
    "writers": Text(),
    "expires_at": DateTime(timezone=True),
    "ttl_seconds": Double(),
    "created_at": DateTime(timezone=True),
}

#: Lists of a row, which arrays of PostgreSQL hold only as text.
LISTS = ("tags", "readers", "writers")

#: What the statement returns of each row of `add`.
SET_BY_THE_SERVER = ("id", "created_at", "updated_at", "expires_at")


@guarded
def store_memories(tables: Tables, whole: bool, embedded: bool) -> Select[Any] | Insert:
    """Insert memories in the order of the arrays, with what they are ranked by; if ``embedded``, vectors as well.

    ``whole`` rows say every column and are returned as the server set them.
    """
    given = _given(whole, embedded)
    stored = _stored(tables, given, whole)
    hashed = _hashed(tables, given, stored, whole)
    vectors: tuple[CTE, ...] = (_vectors(tables, given, stored).cte("embedded"),) if embedded else ()
    vectors += told(tables, of_memories(stored, "added"))
    if not whole:
        return hashed.add_cte(*vectors)
    return select(*(stored.c[name] for name in SET_BY_THE_SERVER)).add_cte(hashed.cte("hashed"), *vectors)


def _given(whole: bool, embedded: bool) -> CTE:
    said = SAID | SAID_WHOLE if whole else SAID
    if embedded:
        said = said | {"vector_at": BigInteger()}
    arrays = [bindparam(name, type_=ARRAY(kind)) for name, kind in said.items()]
    rows = (
        func.unnest(*arrays)
        .table_valued(
            *(column(name, kind) for name, kind in said.items()), with_ordinality="position", name="given"
        )
        .render_derived()
    )
    names = [rows.c[name] for name in said]
    return select(*names, cast(rows.c.position, Integer).label("position")).cte("given")


def _stored(tables: Tables, given: CTE, whole: bool) -> CTE:
    now = func.statement_timestamp()
    values: dict[str, Any] = {"namespace": text_parameter("namespace")}
    said = [*SAID, *SAID_WHOLE] if whole else [*SAID]
    values |= {name: given.c[name] for name in said if name not in {"counts", "ttl_seconds"}}
    values["metadata"] = cast(given.c.metadata, JSONB)
    values["place"] = place_in_order(tables, given.c.thread_id, given.c.position)
    values["language"] = language_of_namespace(tables)
    if whole:
        values |= {name: cast(given.c[name], ARRAY(Text())) for name in LISTS}
        values["expires_at"] = func.coalesce(given.c.expires_at, now + seconds(given.c.ttl_seconds))
        values["created_at"] = func.coalesce(given.c.created_at, now)
        values["updated_at"] = now
    memories = tables.memories
    rows = select(*(value.label(name) for name, value in values.items())).order_by(given.c.position)
    statement = Insert(memories).from_select(list(values), rows, include_defaults=False)
    names = ("namespace", "seq", "status", "version", *SET_BY_THE_SERVER)
    return statement.returning(*(memories.c[name] for name in names)).cte("stored")


def _hashed(tables: Tables, given: CTE, stored: CTE, whole: bool) -> Insert:
    hashes = tables.memory_hash_embeddings
    names = ["namespace", "seq", "status", "expires_at"] if whole else ["namespace", "seq"]
    rows = select(*(stored.c[name] for name in names), cast(given.c.counts, tables.vector())).select_from(
        stored.join(given, given.c.id == stored.c.id)
    )
    return Insert(hashes).from_select([*names, "embedding"], rows, include_defaults=False)


def _vectors(tables: Tables, given: CTE, stored: CTE) -> Insert:
    """Insert the vectors of the rows that have one; ``vector_at`` says which of the vectors, from 1."""
    space = given_space(tables)
    size, last = cast(number_parameter("dimensions"), Integer), cast(given.c.vector_at, Integer)
    one = literal_column("1", Integer)
    # One array holds the numbers of all vectors: those of the first, then those of the second, …
    numbers: Any = once(bindparam("vectors", type_=ARRAY(REAL())))
    vector = numbers[slice((last - one) * size + one, last * size)]
    rows = (
        select(stored.c.namespace, space.c.name, CONTENT, stored.c.seq, cast(vector, tables.vector()))
        .select_from(stored.join(given, given.c.id == stored.c.id).join(space, true()))
        .where(given.c.vector_at.is_not(None))
    )
    table = tables.memory_embeddings
    return Insert(table).from_select(list(COLUMNS), rows, include_defaults=False)
