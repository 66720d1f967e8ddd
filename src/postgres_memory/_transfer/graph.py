"""Entities and relations of a knowledge graph, where storing them takes more than adding memories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from .._context import Context
from .._graph.relate import relate
from .._recall.reading import read_records
from .._record_checks import check_label
from .._validation import check_content, check_id
from .._writing.add_many import add_many
from .._writing.restore import restore
from ..errors import InvalidInputError
from ..records import MemoryRecord, MemoryStatus
from .sources.found import Bad, Edge, Item, NotAMemoryError
from .sources.mcp_json import RELATION, mention_of, node_id


class Graph:
    """The knowledge graph that a source is brought into."""

    def __init__(self, context: Context, *, dry_run: bool) -> None:
        self._context = context
        self._dry_run = dry_run

    async def restore(self, items: Sequence[Item]) -> set[int]:
        """Make entities of names that only relations mentioned so far; return the positions of these items."""
        found = await read_records(self._context, [item.values["id"] for item in _named(items)])
        mentioned = {record.id for record in found if record is not None and _is_mention(record)}
        chosen: dict[str, int] = {}
        for at, item in enumerate(items):
            if item.values["id"] in mentioned:
                chosen.setdefault(item.values["id"], at)
        for at in () if self._dry_run else chosen.values():
            await self._context.retried(partial(_restored, item=items[at]))
        return set(chosen.values())

    async def relate(self, edges: Sequence[Edge]) -> tuple[int, int, list[Bad]]:
        """Store relations; return how many are new, how many were there, and those that cannot be stored."""
        good: dict[tuple[str, str, str], Edge] = {}
        bad: list[Bad] = []
        for edge in edges:
            try:
                good[_key(edge)] = edge
            except (InvalidInputError, NotAMemoryError) as error:
                bad.append(Bad(edge.place, str(error)))
        there = await self._there(good)
        new = {key: edge for key, edge in good.items() if key not in there}
        if new and not self._dry_run:
            await self._context.retried(lambda inside: _related(inside, new))
        return len(new), len(edges) - len(new) - len(bad), bad

    async def _there(self, keys: Iterable[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
        records = await read_records(self._context, dict.fromkeys(source for source, _, _ in keys))
        return {
            (record.id, relation.target_id, relation.label)
            for record in records
            if record is not None
            for relation in record.relations
            if relation.relation_type is RELATION
        }


def _named(items: Iterable[Item]) -> Iterable[Item]:
    """Leave out what cannot be an id, which is for `add_many` to refuse."""
    for item in items:
        try:
            check_id(item.values["id"])
        except InvalidInputError:
            continue
        yield item


def _is_mention(record: MemoryRecord) -> bool:
    return record.status is MemoryStatus.ARCHIVED and record.metadata.keys() == {"name"}


def _key(edge: Edge) -> tuple[str, str, str]:
    """Return the ends and the label of a relation, checked."""
    source, target = (check_id(node_id(name), "name") for name in (edge.source, edge.target))
    if source == target:
        raise NotAMemoryError("a relation of an entity to itself has no place here")
    for name in (edge.source, edge.target):
        check_content(name, "name")
    return source, target, check_label(edge.label, "relationType")


async def _restored(inside: Context, item: Item) -> None:
    result = await add_many(
        inside, [item.values], batch_size=1, on_conflict="update", dedupe=None, progress=None
    )
    if not result.failures:
        await restore(inside, item.values["id"])


async def _related(inside: Context, edges: dict[tuple[str, str, str], Edge]) -> None:
    """Store relations, in one order for everybody, and first the names that are no entities yet."""
    names = {node_id(name): name for edge in edges.values() for name in (edge.source, edge.target)}
    ids = sorted(names)
    found = dict(zip(ids, await read_records(inside, ids), strict=True))
    missing = [
        MemoryRecord(status=MemoryStatus.ARCHIVED, **mention_of(names[id_]))
        for id_ in ids
        if found[id_] is None
    ]
    if missing:
        await add_many(
            inside, missing, batch_size=len(missing), on_conflict="ignore", dedupe=None, progress=None
        )
    for source, target, label in sorted(edges):
        await relate(inside, source, target, RELATION, label=label, confidence=1.0, metadata=None)
