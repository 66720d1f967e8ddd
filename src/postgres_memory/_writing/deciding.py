"""Bulk loading, the conflicts: what becomes of each item of a batch, and the locks that keep it true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .._context import Context
from ..records import MemoryStatus
from .adding import OnConflict
from .preparing import Batch, key_of

if TYPE_CHECKING:
    from asyncpg import Record


class BatchRefusedError(Exception):
    """The batch cannot be stored; ``failures`` are (position, reason), empty where the culprit is not known."""

    def __init__(self, reason: str, failures: Iterable[tuple[int, str]] = ()) -> None:
        super().__init__(reason)
        self.failures = list(failures)


@dataclass(slots=True)
class Decision:
    """Which positions are ``new`` memories and which are ``updates``, the others being ignored.

    ``keys`` are the content keys of the updates that have one. ``holders`` says of an ignored id which memory holds its
    content: what relates to the one relates to the other. ``released`` are memories whose key changes.
    """

    new: list[int] = field(default_factory=list)
    updates: list[int] = field(default_factory=list)
    keys: dict[int, bytes] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)


async def decide(context: Context, batch: Batch, on_conflict: OnConflict) -> Decision:
    """Look up what is there and go through the items as `add` would, an id first, then a deduped content.

    Memories to update get locked. Raises BatchRefusedError for ids that are taken, and for updates to a content that
    another memory holds.
    """
    named = {position: item.record.id for position, item in batch.whole.items() if item.named}
    if not named and not batch.deduped:
        return Decision(new=list(range(batch.size)))
    there = await _there(context, batch, set(named.values()), on_conflict)
    if on_conflict == "error":
        _refuse_taken(named, there)
    decision = Decision()
    for position in _chosen(batch, named, last=on_conflict == "update"):
        if named.get(position) not in there:
            decision.new.append(position)
        elif on_conflict == "update":
            decision.updates.append(position)
            row, item = there[named[position]], batch.whole[position]
            if batch.deduped or row["content_key"] is not None:
                decision.keys[position] = key_of(item)
            if row["content_key"] not in (None, decision.keys.get(position)):
                decision.released.append(item.record.id)
    if batch.deduped or decision.keys:
        await _meet_contents(context, batch, decision, there)
    return decision


async def _there(context: Context, batch: Batch, ids: set[str], on_conflict: OnConflict) -> dict[str, Record]:
    """Return which ids exist. Before an update they are locked, with the targets of relations, all in one order."""
    from .._sql.bulk import existing_memories

    updating = on_conflict == "update"
    if updating:
        ids = ids | {
            relation.target_id for item in batch.whole.values() for relation in item.record.relations
        }
    if not ids:
        return {}
    parameters = {"namespace": context.namespace, "ids": list(ids)}
    return {row["id"]: row for row in await context.fetch(existing_memories, parameters, updating)}


def _refuse_taken(named: dict[int, str], there: dict[str, Record]) -> None:
    twice = {id_ for id_, count in Counter(named.values()).items() if count > 1}
    failures = [
        (
            position,
            "id: is given twice in one batch" if id_ in twice else "id: there is such a memory already",
        )
        for position, id_ in named.items()
        if id_ in twice or id_ in there
    ]
    if failures:
        raise BatchRefusedError("ids are taken", failures)


def _chosen(batch: Batch, named: dict[int, str], *, last: bool) -> list[int]:
    """Return the positions that count: of those with one id the first or the last."""
    one: dict[str, int] = {}
    for position, id_ in named.items():
        if last or id_ not in one:
            one[id_] = position
    return [
        position for position in range(batch.size) if one.get(named.get(position, ""), position) == position
    ]


async def _meet_contents(
    context: Context, batch: Batch, decision: Decision, there: dict[str, Record]
) -> None:
    """Leave out new memories whose content is held, by an older one or by one before them; refuse such updates.

    Only active memories hold a content. What an update lets go of may be taken in the same batch.
    """
    wanted = _active_keys(batch, decision, there)
    holders = await _holders(context, wanted)
    released = set(decision.released)
    holders = {key: holder for key, holder in holders.items() if holder not in released}
    failures: list[tuple[int, str]] = []
    updates = set(decision.updates)
    for position, key in sorted(wanted.items()):
        id_ = batch.id_of(position)
        holder = holders.setdefault(key, id_)
        if holder == id_:
            continue
        if position in updates:
            failures.append((position, f"content: memory {holder!r} holds this deduped content already"))
        else:
            decision.holders[id_] = holder
    if failures:
        raise BatchRefusedError("deduped contents are taken", failures)
    decision.new = [position for position in decision.new if batch.id_of(position) not in decision.holders]


def _active_keys(batch: Batch, decision: Decision, there: dict[str, Record]) -> dict[int, bytes]:
    """Return the content keys of the items that are, or will be, active memories."""
    active = MemoryStatus.ACTIVE
    keys = {
        position: batch.keys[position]
        for position in decision.new
        if position in batch.keys
        and (position in batch.simple or batch.whole[position].record.status is active)
    }
    return keys | {
        position: key
        for position, key in decision.keys.items()
        if there[batch.id_of(position)]["status"] == active.value
    }


async def _holders(context: Context, keys: dict[int, bytes]) -> dict[bytes, str]:
    """Return which memories hold these contents; expired ones let go of theirs."""
    from .._sql.bulk import content_holders
    from .._sql.keys import release_expired_keys

    await context.fetch(release_expired_keys, {"namespace": context.namespace})
    parameters = {"namespace": context.namespace, "keys": list(set(keys.values()))}
    return {row["content_key"]: row["id"] for row in await context.fetch(content_holders, parameters)}
