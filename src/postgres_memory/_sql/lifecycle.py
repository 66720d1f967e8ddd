"""Statements on the life of memories: replacing, restoring, archiving, walking their versions, removing the expired.

What a status changes is changed twice: in `memories`, and in `memory_hash_embeddings`, which is all that ranking reads.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Select,
    Table,
    and_,
    delete,
    func,
    literal_column,
    select,
    true,
    union_all,
    update,
)

from .adding import SET_BY_THE_SERVER, Beside, parts_of_adding
from .calls import may_write
from .changes import guarded, of_memories, told
from .locking import doomed, in_order
from .parameters import number_parameter, text_parameter
from .records import RECORD_COLUMNS, select_records
from .repeating import repeatable
from .schema import Tables
from .sessions import clear_messages
from .write_tokens import marked


@guarded
def supersede_memory(tables: Tables, beside: Beside, alone: bool = False) -> Select[Any]:
    """Insert a memory in place of ``old_id`` if that one is active, and mark the old one.

    With ``alone``, `add_beside` writes what is beside the new one.

    Returns one row: ``found``, the old one's status before, null where there is none; the ``missing`` targets of
    relations; and what the server set, null where nothing was written. If nothing is missing and the old one is active,
    that is because the new one's id is taken.
    """
    memories = tables.memories
    # Locked before it is looked at: of two calls at once, the second sees what the first made of it.
    replaced = select(memories.c.namespace, memories.c.id, memories.c.status).where(
        memories.c.namespace == text_parameter("namespace"), memories.c.id == text_parameter("old_id")
    )
    old = in_order(tables, replaced).cte("old")
    on_conflict = "alone" if alone else "nothing"
    parts = parts_of_adding(tables, on_conflict, beside, replaced=old)
    stored = parts.stored
    superseded = (
        update(memories)
        .where(memories.c.namespace == stored.c.namespace, memories.c.id == text_parameter("old_id"))
        .values(_status(memories, "superseded"))
        .returning(*(memories.c[name] for name in ("namespace", "seq", "status", "id", "version")))
        .cte("superseded")
    )
    one = select(literal_column("1").label("one")).subquery("one")
    return (
        select(
            old.c.status.label("found"),
            parts.missing,
            *(stored.c[name] for name in SET_BY_THE_SERVER),
        )
        .select_from(one.outerjoin(old, true()).outerjoin(stored, true()))
        .add_cte(*parts.beside, _rehashed(tables, superseded), marked(tables, stored))
        .add_cte(*told(tables, *parts.events, of_memories(superseded, "superseded")))
    )


def archive_memory(tables: Tables) -> Select[Any]:
    """Archive a memory that is not archived yet. Returns the record after, no row where nothing was changed."""
    memories = tables.memories
    archived = (
        update(memories)
        .where(_this(memories), memories.c.status != literal_column("'archived'"))
        .values(_status(memories, "archived"))
        .returning(*(memories.c[name] for name in RECORD_COLUMNS))
        .cte("archived")
    )
    events = told(tables, of_memories(archived, "archived"))
    return select_records(tables, archived).add_cte(
        _rehashed(tables, archived), marked(tables, archived), *events
    )


def get_history(tables: Tables) -> Select[Any]:
    """Select the records of all versions of a memory, in the order in which they were stored."""
    memories, versions = tables.memories, _versions(tables)
    found = (
        select(*(memories.c[name] for name in RECORD_COLUMNS))
        .where(memories.c.namespace == versions.c.namespace, memories.c.id == versions.c.id)
        .offset(literal_column("0"))
        .lateral("found")
    )
    return select_records(tables, found, base=versions.join(found, true())).order_by(found.c.seq)


def _versions(tables: Tables) -> CTE:
    """Walk from a memory to what it replaced and to what replaced it, and on from there, to each of them once."""
    memories = tables.memories
    names = ("namespace", "id", "supersedes", "version")
    versions = (
        select(*(memories.c[name] for name in names)).where(_this(memories)).cte("versions", recursive=True)
    )
    older, newer = memories.alias("older"), memories.alias("newer")
    steps = union_all(
        select(*(older.c[name] for name in names))
        .where(older.c.namespace == versions.c.namespace, older.c.id == versions.c.supersedes)
        .correlate(versions),
        select(*(newer.c[name] for name in names))
        .where(newer.c.namespace == versions.c.namespace, newer.c.supersedes == versions.c.id)
        .correlate(versions),
    ).lateral("steps")
    # UNION leaves out what was found before, so that a circle, which only raw SQL can make, ends.
    return versions.union(
        select(*(steps.c[name] for name in names)).select_from(versions.join(steps, true()))
    )


def restore_memory(tables: Tables) -> Select[Any]:
    """Make a memory the active one of its versions and archive the one that replaced it.

    Returns one row: ``found``, its status before; ``stale`` if versions changed while they were being locked, so that
    one has to look again; ``overtaken``, a replacement that was itself superseded; ``rival``, another active version;
    and the record after. Where ``found`` is null there is no such memory; where it is active, or one of the other three
    says something, nothing was changed.
    """
    memories = tables.memories
    state = _state(tables)
    go = and_(
        ~state.c.stale,
        state.c.found != literal_column("'active'"),
        state.c.overtaken.is_(None),
        state.c.rival.is_(None),
    )
    restored = (
        update(memories)
        .where(_this(memories), go)
        .values(_status(memories, "active"))
        .returning(*(memories.c[name] for name in RECORD_COLUMNS))
        .cte("restored")
    )
    archived = (
        update(memories)
        .where(
            memories.c.namespace == text_parameter("namespace"),
            memories.c.supersedes == text_parameter("id"),
            memories.c.status == literal_column("'active'"),
            go,
        )
        .values(_status(memories, "archived"))
        .returning(*(memories.c[name] for name in ("namespace", "seq", "status", "id", "version")))
        .cte("archived")
    )
    names = ("namespace", "seq", "status")
    changed = union_all(
        select(*(restored.c[name] for name in names)), select(*(archived.c[name] for name in names))
    ).cte("changed")
    return (
        select_records(tables, restored, base=state.outerjoin(restored, true()))
        .add_columns(*(state.c[name] for name in ("found", "stale", "overtaken", "rival")))
        .add_cte(_rehashed(tables, changed), marked(tables, changed))
        .add_cte(*told(tables, of_memories(restored, "restored"), of_memories(archived, "archived")))
    )


def _state(tables: Tables) -> CTE:
    """Lock all versions of a memory and say how they stand to it.

    The versions are found in the statement's snapshot and locked as they are now. Whoever made another one meanwhile
    changed one of these, which shows in its number.
    """
    memories, versions = tables.memories, _versions(tables)
    found = and_(memories.c.namespace == versions.c.namespace, memories.c.id == versions.c.id)
    names = ("namespace", "id", "supersedes", "status", "version")
    rows = select(*(memories.c[name] for name in names)).select_from(memories.join(versions, found))
    now = in_order(tables, rows).cte("now")
    is_it = now.c.id == text_parameter("id")
    replaces_it = now.c.supersedes.is_not_distinct_from(text_parameter("id"))
    active = now.c.status == literal_column("'active'")
    first = func.min(now.c.id.collate("C"))
    return (
        select(
            func.bool_or(now.c.version.is_distinct_from(versions.c.version)).label("stale"),
            func.max(now.c.status).filter(is_it).label("found"),
            first.filter(replaces_it, now.c.status == literal_column("'superseded'")).label("overtaken"),
            first.filter(active, ~is_it, ~replaces_it).label("rival"),
        )
        .select_from(
            versions.outerjoin(now, and_(now.c.namespace == versions.c.namespace, now.c.id == versions.c.id))
        )
        .cte("state")
    )


def find_unwritable_version(tables: Tables) -> Select[Any]:
    """Return the first of the versions of a memory, all to be read, that the one who asks may not write."""
    memories, versions = tables.memories, _versions(tables)
    found = and_(memories.c.namespace == versions.c.namespace, memories.c.id == versions.c.id)
    return (
        select(memories.c.id)
        .select_from(memories.join(versions, found))
        .where(~may_write(tables, memories.c.namespace, memories.c.id))
        .order_by(memories.c.seq)
        .limit(literal_column("1"))
    )


def purge_memories(tables: Tables) -> Select[Any]:
    """Delete up to ``limit`` expired memories that nobody holds, those that expired first; return how many."""
    memories = tables.memories
    expired = (
        select(memories.c.seq)
        .where(_expired(memories))
        .order_by(memories.c.expires_at, memories.c.seq)
        .limit(number_parameter("limit"))
        .with_for_update(skip_locked=True)
        .cte("expired")
    )
    # An array is looked up, where a plan that cannot know the limit would join the whole table.
    seqs = func.array(select(expired.c.seq).scalar_subquery())
    deleted = (
        delete(memories)
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.seq == func.any(seqs))
        .returning(memories.c.id, memories.c.version)
        .cte("deleted")
    )
    return _count(tables, deleted).add_cte(*told(tables, of_memories(deleted, "deleted")))


def purge_idempotency_keys(tables: Tables) -> Select[Any]:
    """Delete up to ``limit`` expired idempotency keys that nobody holds; return how many."""
    keys = tables.idempotency_keys
    place: ColumnElement[Any] = literal_column("ctid").label("place")
    expired = (
        select(place)
        .select_from(keys)
        .where(_expired(keys))
        .order_by(keys.c.expires_at, keys.c.owner.collate("C"), keys.c.key.collate("C"))
        .limit(number_parameter("limit"))
        .with_for_update(skip_locked=True)
        .cte("expired")
    )
    places = func.array(select(expired.c.place).scalar_subquery())
    deleted = (
        delete(keys)
        .where(keys.c.namespace == text_parameter("namespace"), literal_column("ctid") == func.any(places))
        .returning(keys.c.key)
        .cte("deleted")
    )
    return _count(tables, deleted)


def _expired(table: Table) -> ColumnElement[bool]:
    return and_(
        table.c.namespace == text_parameter("namespace"), table.c.expires_at <= func.statement_timestamp()
    )


def _count(tables: Tables, deleted: CTE) -> Select[Any]:
    return select(func.count().label("count")).select_from(deleted).add_cte(marked(tables, deleted))


@repeatable
def clear_session(tables: Tables) -> Select[Any]:
    """Delete the messages of a session and the SESSION memories that name it."""
    memories = tables.memories
    of_session = doomed(
        tables,
        memories.c.namespace == text_parameter("namespace"),
        memories.c.session_id == text_parameter("session_id"),
        memories.c.memory_type == literal_column("'session'"),
    )
    deleted = (
        delete(memories)
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.seq == of_session.c.seq)
        .returning(memories.c.id, memories.c.version)
        .cte("deleted")
    )
    events = told(tables, of_memories(deleted, "deleted"))
    return select(func.count()).select_from(deleted).add_cte(clear_messages(tables).cte("messages"), *events)


def _this(memories: FromClause) -> ColumnElement[bool]:
    return and_(memories.c.namespace == text_parameter("namespace"), memories.c.id == text_parameter("id"))


def _status(memories: Table, status: str) -> dict[str, ColumnElement[Any]]:
    """Return what changes when a memory gets another status."""
    return {
        "status": literal_column(f"'{status}'"),
        "updated_at": func.statement_timestamp(),
        "version": memories.c.version + literal_column("1"),
    }


def _rehashed(tables: Tables, changed: CTE) -> CTE:
    """Give what ranking reads the status of the ``changed`` memories."""
    hashes = tables.memory_hash_embeddings
    return (
        update(hashes)
        .where(hashes.c.namespace == changed.c.namespace, hashes.c.seq == changed.c.seq)
        .values(status=changed.c.status)
        .returning(hashes.c.seq)
        .cte("rehashed")
    )
