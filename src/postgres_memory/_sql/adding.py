"""The statement that adds one whole memory: the row, what it is ranked by, and its relations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Double,
    Insert,
    Select,
    TableValuedAlias,
    Text,
    and_,
    case,
    cast,
    column,
    func,
    literal_column,
    null,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.sql.dml import ReturningInsert

from .changes import added_or_updated, guarded, of_memories, of_relations, told
from .embedded_fields import embedded_fields, outdated_taken_away
from .embeddings import embedded_again, embedded_new
from .keys import content_key
from .parameters import (
    boolean_parameter,
    float_parameter,
    json_parameter,
    seconds,
    spelt_counts_parameter,
    text_parameter,
    texts_parameter,
    time_parameter,
)
from .places import language_of_namespace, next_place, place_after
from .schema import Tables
from .write_tokens import marked

#: What the caller decides about a memory: columns, and parameters of the same names.
GIVEN = {
    "namespace": text_parameter,
    "id": text_parameter,
    "content": text_parameter,
    "metadata": json_parameter,
    "memory_type": text_parameter,
    "status": text_parameter,
    "importance": float_parameter,
    "confidence": float_parameter,
    "tags": texts_parameter,
    "thread_id": text_parameter,
    "session_id": text_parameter,
    "owner": text_parameter,
    "readers": texts_parameter,
    "writers": texts_parameter,
    "expires_at": time_parameter,
}

#: What the statement returns of the row, beside the missing targets.
SET_BY_THE_SERVER = ("created_at", "updated_at", "expires_at", "version")

#: The place of what is in no thread.
_NOWHERE = cast(null(), BigInteger)

#: What stays as it was when adding meets an existing id and updates it.
_KEPT = {"namespace", "id", "created_at", "content_key", "status"}


@dataclass(frozen=True, slots=True)
class Beside:
    """What is written beside a memory and its hash embedding: relations, the vectors of its content and of fields."""

    relations: bool = False
    content: bool = False
    fields: bool = False


@guarded
def add_memory(
    tables: Tables, on_conflict: str, beside: Beside, with_token: bool, in_thread: bool = True
) -> Select[Any]:
    """Insert one memory, in one statement, with what is to stand ``beside`` it.

    ``on_conflict`` is ``nothing`` (whatever the conflict, nothing is written), ``update`` (by id), or ``alone``: as
    nothing, and `add_beside` writes the rest. What is in no thread need not be said to be ``in_thread``. Returns one
    row: the ``missing`` targets of relations (if there are any, nothing was written), and what the server set, null
    where nothing was written.
    """
    parts = parts_of_adding(tables, on_conflict, beside, in_thread=in_thread)
    one = select(literal_column("1").label("one")).subquery("one")
    ctes = (*parts.beside, *told(tables, *parts.events))
    if with_token:
        ctes += (marked(tables, parts.stored),)
    return (
        select(parts.missing, *(parts.stored.c[name] for name in SET_BY_THE_SERVER))
        .select_from(one.outerjoin(parts.stored, true()))
        .add_cte(*ctes)
    )


@dataclass(frozen=True, slots=True)
class PartsOfAdding:
    """The new memory's row, as stored; the array of missing targets; what is written beside the row; its events."""

    stored: CTE
    missing: ColumnElement[Any]
    beside: tuple[CTE, ...]
    events: tuple[Select[Any], ...]


def parts_of_adding(
    tables: Tables,
    on_conflict: str,
    beside: Beside,
    replaced: CTE | None = None,
    *,
    in_thread: bool = True,
) -> PartsOfAdding:
    """Return the parts of a statement that adds a memory, in place of ``replaced`` if that is one that is active."""
    missing = _missing_targets(tables) if beside.relations else None
    stored = _stored(tables, on_conflict, missing, replaced, in_thread)
    ctes = () if on_conflict == "alone" else _beside(tables, stored, on_conflict, beside)
    events = (of_memories(stored, added_or_updated(stored)), *_events_of_relations(ctes))
    return PartsOfAdding(stored, _missing_array(missing), ctes, events)


def _events_of_relations(ctes: tuple[CTE, ...]) -> list[Select[Any]]:
    return [of_relations(cte, "related") for cte in ctes if cte.name == "related"]


def _beside(tables: Tables, stored: CTE, on_conflict: str, beside: Beside) -> tuple[CTE, ...]:
    ctes = [_hashed(tables, stored, on_conflict).cte("hashed")]
    if on_conflict == "update":
        # Whether there is a vector or none: what was there before is of another content.
        is_new = stored.c.version == literal_column("1")
        ctes.append(embedded_again(tables, stored, is_new=is_new))
        ctes.append(outdated_taken_away(tables, stored, with_given=beside.fields))
    elif beside.content:
        ctes.append(embedded_new(tables, stored))
    if beside.fields:
        ctes.append(embedded_fields(tables, stored))
    if beside.relations:
        ctes.append(_related(tables, stored).cte("related"))
    return tuple(ctes)


def add_beside(tables: Tables, beside: Beside) -> Select[Any]:
    """Write what is beside a memory that was added ``alone``.

    The policies of a principal look for the memory, which within its own statement they do not see.
    """
    memories = tables.memories
    stored = (
        select(*(memories.c[name] for name in ("namespace", "id", "seq", "status", "expires_at")))
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.id == text_parameter("id"))
        .cte("stored")
    )
    ctes = _beside(tables, stored, "nothing", beside)
    events = _events_of_relations(ctes)
    if events:
        ctes += told(tables, *events)
    return select(func.count()).select_from(stored).add_cte(*ctes)


def _stored(
    tables: Tables, on_conflict: str, missing: CTE | None, replaced: CTE | None, in_thread: bool
) -> CTE:
    memories = tables.memories
    now = func.statement_timestamp()
    values: dict[str, ColumnElement[Any]] = {name: parameter(name) for name, parameter in GIVEN.items()}
    values["expires_at"] = func.coalesce(
        time_parameter("expires_at"),
        now + seconds(float_parameter("ttl_seconds")),
    )
    own_key = content_key(text_parameter("owner"), text_parameter("content"))
    values["content_key"] = case((boolean_parameter("dedupe"), own_key))
    values["created_at"] = func.coalesce(time_parameter("created_at"), now)
    values["updated_at"] = now
    values["place"] = next_place(tables, text_parameter("thread_id")) if in_thread else _NOWHERE
    values["language"] = language_of_namespace(tables)
    if replaced is not None:
        values["supersedes"] = replaced.c.id
    row = select(*(value.label(name) for name, value in values.items()))
    if replaced is not None:
        row = row.where(replaced.c.status == literal_column("'active'"))
    if missing is not None:
        row = row.where(~select(literal_column("1")).select_from(missing).exists())
    statement = insert(memories).from_select(list(values), row, include_defaults=False)
    if on_conflict == "update":
        changed: dict[str, Any] = {name: statement.excluded[name] for name in values if name not in _KEPT}
        statement = statement.on_conflict_do_update(
            index_elements=[memories.c.namespace, memories.c.id],
            set_=changed
            | {
                "version": memories.c.version + literal_column("1"),
                "content_key": _updated_key(tables, statement.excluded.content_key),
                "place": place_after(memories.c, statement.excluded),
            },
        )
    else:
        statement = statement.on_conflict_do_nothing()
    names = ["namespace", "id", "seq", "status", "expires_at", "created_at", "updated_at", "version"]
    if on_conflict == "update":
        names.append("metadata")
    return statement.returning(*(memories.c[name] for name in names)).cte("stored")


def _updated_key(tables: Tables, given: ColumnElement[bytes]) -> ColumnElement[bytes]:
    """Keep the key of a deduped memory true to its new content, and leave one that has none without."""
    own = tables.memories.c.content_key
    new = content_key(text_parameter("owner"), text_parameter("content"))
    return case((given.is_not(None), given), (own.is_not(None), new))


def _hashed(tables: Tables, stored: CTE, on_conflict: str) -> Insert:
    hashes = tables.memory_hash_embeddings
    names = ["namespace", "seq", "status", "expires_at", "embedding"]
    rows = select(*(stored.c[name] for name in names[:-1]), spelt_counts_parameter("counts", tables))
    statement = insert(hashes).from_select(names, rows, include_defaults=False)
    if on_conflict != "update":
        return statement
    return statement.on_conflict_do_update(
        index_elements=[hashes.c.namespace, hashes.c.seq],
        set_={name: statement.excluded[name] for name in ("status", "expires_at", "embedding")},
    )


def given_relations() -> TableValuedAlias:
    """Return the relations given as a JSON array of objects, one row each."""
    return (
        func.jsonb_to_recordset(json_parameter("relations"))
        .table_valued(
            column("target_id", Text),
            column("relation_type", Text),
            column("label", Text),
            column("confidence", Double),
            column("metadata", JSONB),
            name="given",
        )
        .render_derived(with_types=True)
    )


def _missing_targets(tables: Tables) -> CTE:
    """Find the targets that do not exist, but for the memory that is being added."""
    given, memories = given_relations(), tables.memories
    target = memories.alias("target")
    exists: Select[Any] = select(literal_column("1")).where(
        and_(target.c.namespace == text_parameter("namespace"), target.c.id == given.c.target_id)
    )
    return select(given.c.target_id).where(~exists.exists()).cte("missing")


def _missing_array(missing: CTE | None) -> ColumnElement[Any]:
    if missing is None:
        return literal_column("NULL::text[]").label("missing")
    ids = select(func.array_agg(missing.c.target_id)).scalar_subquery()
    return ids.label("missing")


def _related(tables: Tables, stored: CTE) -> ReturningInsert[Any]:
    relations, given = tables.memory_relations, given_relations()
    names = ["relation_type", "label", "target_id", "confidence", "metadata"]
    rows = select(stored.c.namespace, stored.c.id, *(given.c[name] for name in names)).select_from(
        stored.join(given, true())
    )
    statement = insert(relations).from_select(
        ["namespace", "source_id", *names], rows, include_defaults=False
    )
    key = ["namespace", "source_id", "relation_type", "label", "target_id"]
    return statement.on_conflict_do_update(
        index_elements=[relations.c[name] for name in key],
        set_={name: statement.excluded[name] for name in ("confidence", "metadata")},
    ).returning(*(relations.c[name] for name in key[1:]))
