"""Statements that change or remove memories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    CTE,
    BindParameter,
    ColumnElement,
    Select,
    case,
    delete,
    func,
    literal_column,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB

from .calls import principal, set_access
from .changes import of_memories, told
from .embedded_fields import embedded_fields, outdated_taken_away
from .embeddings import embedded_again
from .keys import content_key, released_key
from .locking import in_order
from .parameters import (
    counts_parameter,
    float_parameter,
    json_parameter,
    number_parameter,
    text_parameter,
    texts_parameter,
    time_parameter,
)
from .places import next_place
from .records import RECORD_COLUMNS, select_records
from .schema import Tables
from .write_tokens import marked

#: What `update` can set: columns, and parameters of the same names.
CHANGEABLE: dict[str, Callable[[str], ColumnElement[Any]]] = {
    "content": text_parameter,
    "memory_type": text_parameter,
    "importance": float_parameter,
    "confidence": float_parameter,
    "tags": texts_parameter,
    "thread_id": text_parameter,
    "session_id": text_parameter,
    "owner": text_parameter,
    "readers": texts_parameter,
    "writers": texts_parameter,
    "expires_at": time_parameter,
    "metadata": json_parameter,
}

#: What a deduped memory's hold on its content depends on.
KEYED = frozenset({"content", "owner", "expires_at"})


def update_memory(
    tables: Tables,
    changed: tuple[str, ...],
    merge_metadata: bool,
    of_principal: bool = False,
    fielded: bool = False,
) -> Select[Any]:
    """Change columns of one memory if it is at the expected version, and what it is ranked by with them.

    If ``fielded``, vectors of fields of the metadata are given for those that change.

    Where somebody else than its owner changes it, ``of_principal``, a deduped one lets go of its content: it might meet
    another of the owner's, which that principal cannot see.
    Returns one row: ``found``, the version before, null where there is no such memory, and the record after, null where
    nothing was changed. Its embedding is the one before.
    """
    memories = tables.memories
    this = select(memories.c.version).where(
        memories.c.namespace == text_parameter("namespace"), memories.c.id == text_parameter("id")
    )
    before = in_order(tables, this).cte("before")
    updated = _updated(tables, before, changed, merge_metadata, of_principal)
    one = select(literal_column("1").label("one")).subquery("one")
    base = one.outerjoin(before, true()).outerjoin(updated, true())
    statement = select_records(tables, updated, base=base).add_columns(before.c.version.label("found"))
    if {"content", "expires_at"} & set(changed):
        statement = statement.add_cte(_rehashed(tables, updated, changed))
    if "content" in changed:
        statement = statement.add_cte(embedded_again(tables, updated))
    if "metadata" in changed:
        statement = statement.add_cte(outdated_taken_away(tables, updated, with_given=fielded))
    if fielded:
        statement = statement.add_cte(embedded_fields(tables, updated))
    return statement.add_cte(marked(tables, updated), *told(tables, of_memories(updated, "updated")))


def change_access(tables: Tables) -> Select[Any]:
    """Give a memory other readers and writers; return one row: whether it is the principal's own, or null."""
    names = text_parameter("namespace"), text_parameter("id")
    return select(set_access(tables, *names, texts_parameter("readers"), texts_parameter("writers")))


def _updated(
    tables: Tables, before: CTE, changed: tuple[str, ...], merge_metadata: bool, of_principal: bool
) -> CTE:
    memories = tables.memories
    expected: BindParameter[int] = number_parameter("expected_version")
    values: dict[str, Any] = {name: CHANGEABLE[name](name) for name in changed}
    if "metadata" in values and merge_metadata:
        values["metadata"] = memories.c.metadata.op("||", return_type=JSONB())(values["metadata"])
    if KEYED & set(changed):
        values["content_key"] = _key_after(tables, values, of_principal)
    if "thread_id" in changed:
        same = memories.c.thread_id.is_not_distinct_from(values["thread_id"])
        values["place"] = case((same, memories.c.place), else_=next_place(tables, values["thread_id"]))
    values["updated_at"] = func.statement_timestamp()
    values["version"] = memories.c.version + literal_column("1")
    return (
        update(memories)
        .where(
            memories.c.namespace == text_parameter("namespace"),
            memories.c.id == text_parameter("id"),
            or_(expected.is_(None), before.c.version == expected),
        )
        .values(values)
        .returning(*(memories.c[name] for name in RECORD_COLUMNS))
        .cte("updated")
    )


def _key_after(tables: Tables, values: dict[str, Any], of_principal: bool) -> ColumnElement[Any]:
    """Keep the key of a deduped memory true to its content; one that is expired then holds none."""
    memories = tables.memories
    expires_at = values.get("expires_at", memories.c.expires_at)
    new = content_key(values.get("owner", memories.c.owner), values.get("content", memories.c.content))
    lets_go = expires_at <= func.statement_timestamp()
    if of_principal:
        lets_go = or_(lets_go, memories.c.owner != principal(tables))
    return case(
        (memories.c.content_key.is_(None), memories.c.content_key),
        (lets_go, released_key(tables)),
        else_=new,
    )


def _rehashed(tables: Tables, updated: CTE, changed: tuple[str, ...]) -> CTE:
    hashes = tables.memory_hash_embeddings
    values: dict[str, Any] = {}
    if "content" in changed:
        values["embedding"] = counts_parameter("counts", tables)
    if "expires_at" in changed:
        values["expires_at"] = updated.c.expires_at
    return (
        update(hashes)
        .where(hashes.c.namespace == updated.c.namespace, hashes.c.seq == updated.c.seq)
        .values(values)
        .returning(hashes.c.seq)
        .cte("rehashed")
    )


def delete_memory(tables: Tables) -> Select[Any]:
    """Delete one memory; return its id, so that of two callers one learns that it was the one.

    Its relations are locked after it, in one order for all: the foreign keys would delete them in an order of their
    own, and two memories that relate to each other could not be deleted at once.
    """
    memories, relations = tables.memories, tables.memory_relations
    id_ = text_parameter("id")
    itself = (
        select(memories.c.seq)
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.id == id_)
        .with_for_update()
        .cte("itself")
    )
    there = select(func.count()).select_from(itself).scalar_subquery()
    edges = (
        select(relations.c.source_id)
        .where(
            relations.c.namespace == text_parameter("namespace"),
            or_(relations.c.source_id == id_, relations.c.target_id == id_),
            there > literal_column("0"),
        )
        .order_by(*(relations.c[name] for name in ("source_id", "relation_type", "label", "target_id")))
        .with_for_update()
        .cte("edges")
    )
    locked = select(func.count()).select_from(edges).scalar_subquery()
    deleted = (
        delete(memories)
        .where(
            memories.c.namespace == text_parameter("namespace"),
            memories.c.id == id_,
            locked >= literal_column("0"),
        )
        .returning(memories.c.id, memories.c.version)
        .cte("deleted")
    )
    events = told(tables, of_memories(deleted, "deleted"))
    return select(deleted.c.id).add_cte(marked(tables, deleted), *events)
