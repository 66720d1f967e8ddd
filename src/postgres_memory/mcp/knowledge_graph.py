"""A knowledge graph of entities, observations and relations in one namespace, which several processes write at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from ..errors import ConflictError, DatabaseError, InvalidValueError, NotFoundError
from ..filters import field
from ..ids import now
from ..records import MemoryRecord, MemoryStatus
from .entities import (
    MAX_NAME,
    RELATION,
    Edge,
    Entity,
    content_of,
    entity_of,
    is_node,
    is_node_id,
    mention_of,
    metadata_of,
    name_of,
    name_of_id,
    node_id,
)

if TYPE_CHECKING:
    from ..postgres import MemoryTransaction, PostgresMemory

ResultT = TypeVar("ResultT")

#: A conflict means that another process got on; so many of them in a row mean that something else is wrong.
_ATTEMPTS = 100
_SHORTEST, _LONGEST = 0.002, 0.2
#: A deadlock and a serialization failure: what was to be written was not, and can be tried again.
_PASSING = {"40P01", "40001"}


class EntityMissingError(Exception):
    """There is no entity of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Entity with name {name} not found")
        self.name = name


@dataclass(frozen=True, slots=True)
class GraphPage:
    """A part of a graph, and the ``cursor`` of the next one, None on the last."""

    entities: tuple[Entity, ...]
    edges: tuple[Edge, ...]
    cursor: str | None = None


class KnowledgeGraph:
    """The graph in the namespace of ``memory``. Each write happens as a whole or not at all."""

    def __init__(self, memory: PostgresMemory) -> None:
        self._memory = memory
        # Writers of one process take turns, so that only those of others are met in the database.
        self._turn = asyncio.Lock()

    async def create_entities(self, entities: Sequence[Entity]) -> list[Entity]:
        """Store the entities whose names are new, with each observation once, and return them."""
        wanted: dict[str, Entity] = {}
        for entity in entities:
            wanted.setdefault(node_id(entity.name), _once(entity))

        async def work(inside: MemoryTransaction) -> list[Entity]:
            found, started = await _records(inside, wanted), now()
            new = {id_: number for number, id_ in enumerate(wanted) if _is_free(found[id_])}
            for id_ in sorted(new):
                # Stored in one order for everybody, so that no two wait for each other, and read in the one given.
                created_at = started + timedelta(microseconds=new[id_])
                await _put(inside, id_, wanted[id_], found[id_], created_at)
            return [wanted[id_] for id_ in new]

        return await self._settled(work)

    async def create_relations(self, edges: Sequence[Edge]) -> list[Edge]:
        """Store the relations that are new and return them. Their ends need not be entities yet."""
        wanted = list(dict.fromkeys(edges))
        names = {node_id(name): name for edge in wanted for name in (edge.source, edge.target)}

        async def work(inside: MemoryTransaction) -> list[Edge]:
            found = await _records(inside, names)
            for id_ in sorted(names):
                if found[id_] is None:
                    await inside.add(names[id_], id=id_, metadata=mention_of(names[id_]))
                    await inside.archive(id_)
            new = [edge for edge in wanted if not _holds(found[node_id(edge.source)], edge)]
            for edge in new:
                await inside.relate(
                    node_id(edge.source), node_id(edge.target), RELATION, label=edge.relation_type
                )
            return new

        return await self._settled(work)

    async def add_observations(self, additions: Sequence[tuple[str, Sequence[str]]]) -> list[list[str]]:
        """Add to each entity what it does not say yet, and return that. Raises EntityMissingError."""

        async def work(inside: MemoryTransaction) -> list[list[str]]:
            found = await _records(inside, (node_id(name) for name, _ in additions))
            changed: dict[str, Entity] = {}
            added = []
            for name, contents in additions:
                id_ = node_id(name)
                entity = changed.get(id_) or entity_of(found[id_])
                if entity is None:
                    raise EntityMissingError(name)
                new = [one for one in dict.fromkeys(contents) if one not in entity.observations]
                if new:
                    changed[id_] = replace(entity, observations=(*entity.observations, *new))
                added.append(new)
            await _rewrite(inside, changed, found)
            return added

        return await self._settled(work)

    async def delete_observations(self, deletions: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Take observations from entities; what is not there is passed over."""

        async def work(inside: MemoryTransaction) -> None:
            found = await _records(inside, (node_id(name) for name, _ in deletions))
            changed: dict[str, Entity] = {}
            for name, contents in deletions:
                id_, gone = node_id(name), set(contents)
                entity = changed.get(id_) or entity_of(found[id_])
                if entity is not None and not gone.isdisjoint(entity.observations):
                    kept = tuple(one for one in entity.observations if one not in gone)
                    changed[id_] = replace(entity, observations=kept)
            await _rewrite(inside, changed, found)

        await self._settled(work)

    async def delete_entities(self, names: Sequence[str]) -> None:
        """Delete entities with all of their relations; names that are not there are passed over."""
        await self._memory.delete_many(field("id").is_in([node_id(name) for name in names]))

    async def delete_relations(self, edges: Sequence[Edge]) -> None:
        """Delete relations; those that are not there are passed over."""

        async def work(inside: MemoryTransaction) -> None:
            for edge in edges:
                await inside.unrelate(
                    node_id(edge.source), node_id(edge.target), RELATION, label=edge.relation_type
                )

        await self._settled(work)

    async def read(self, *, limit: int, cursor: str | None = None) -> GraphPage:
        """Return a part of the graph, the oldest first: entities, and the relations that start at them.

        Every relation comes once, with the part that its start belongs to.
        """
        # Names that only relations mention are archived, and relations may start at them.
        nodes = is_node() & field("status").is_in([MemoryStatus.ACTIVE, MemoryStatus.ARCHIVED])
        page = await self._memory.find(filter=nodes, order_by="created_at", limit=limit, cursor=cursor)
        ends = [
            (record.id, relation.target_id, relation.label)
            for record in page
            for relation in record.relations
            if relation.relation_type is RELATION and is_node_id(relation.target_id)
        ]
        return GraphPage(_entities(page), await self._edges(ends, page), page.cursor)

    async def search(self, query: str, *, limit: int, cursor: str | None = None) -> GraphPage:
        """Return entities whose name, type or an observation contains ``query``, whatever its case, oldest first."""
        matching = is_node() & field("content").icontains(query)
        page = await self._memory.find(filter=matching, order_by="created_at", limit=limit, cursor=cursor)
        # A content is lines of one thing each: only a text of several lines can match across them.
        records = [record for record in page if "\n" not in query or _says(record, query)]
        return GraphPage(_entities(records), await self._around(records), page.cursor)

    async def open(self, names: Sequence[str]) -> GraphPage:
        """Return the entities of these names, as far as they are there, and every relation from or to one of them."""
        ids = dict.fromkeys(node_id(name) for name in names)
        found = await self._memory.get_many(ids)
        records = [record for record in found if record is not None and entity_of(record) is not None]
        return GraphPage(_entities(records), await self._around(records))

    async def _around(self, records: Iterable[MemoryRecord]) -> tuple[Edge, ...]:
        known = list(records)
        ends: dict[tuple[str, str, str], None] = {}
        for record in known:
            for relation in await self._memory.relations(record.id, direction="both", types=[RELATION]):
                stored = relation.stored
                if is_node_id(stored.source_id) and is_node_id(stored.target_id):
                    ends[stored.source_id, stored.target_id, stored.label] = None
        return await self._edges(list(ends), known)

    async def _edges(
        self, ends: Sequence[tuple[str, str, str]], known: Iterable[MemoryRecord]
    ) -> tuple[Edge, ...]:
        """Return relations by the names of their ends, which are read where ids do not tell them."""
        names = {record.id: name_of(record) for record in known}
        untold = {id_ for source, target, _ in ends for id_ in (source, target) if id_ not in names}
        for id_ in untold:
            names[id_] = name_of_id(id_) or id_
        hashed = [id_ for id_ in untold if names[id_] == id_]
        for record in await self._memory.get_many(hashed) if hashed else []:
            if record is not None:
                names[record.id] = name_of(record)
        return tuple(Edge(names[source], names[target], label) for source, target, label in ends)

    async def _settled(self, work: Callable[[MemoryTransaction], Awaitable[ResultT]]) -> ResultT:
        """Return what ``work`` returns in a transaction, from the start again where another process was quicker."""
        async with self._turn:
            attempt = 0
            while True:
                try:
                    async with self._memory.transaction() as inside:
                        return await work(inside)
                except (ConflictError, NotFoundError):
                    if attempt == _ATTEMPTS - 1:
                        raise
                except DatabaseError as error:
                    if error.sqlstate not in _PASSING or attempt == _ATTEMPTS - 1:
                        raise
                most = min(_SHORTEST * 2.0**attempt, _LONGEST)
                await asyncio.sleep(random.uniform(0, most))  # noqa: S311 - so that two do not meet again
                attempt += 1


async def _records(inside: MemoryTransaction, ids: Iterable[str]) -> dict[str, MemoryRecord | None]:
    """Return the memory of each id, None where there is none."""
    asked = sorted(set(ids))
    return dict(zip(asked, await inside.get_many(asked), strict=True))


def _is_free(record: MemoryRecord | None) -> bool:
    """Tell whether an entity can be created there: nothing is, or what was put away or never was one."""
    return record is None or record.status is not MemoryStatus.ACTIVE


async def _put(
    inside: MemoryTransaction, id: str, entity: Entity, there: MemoryRecord | None, created_at: datetime
) -> None:
    """Store an entity, in the place of the name that relations mention if there is one."""
    if there is None:
        await inside.add(content_of(entity), id=id, metadata=metadata_of(entity), created_at=created_at)
        return
    await _write(inside, there, entity)
    await inside.restore(id)


async def _rewrite(
    inside: MemoryTransaction, changed: Mapping[str, Entity], found: Mapping[str, MemoryRecord | None]
) -> None:
    """Write entities that changed, in one order for everybody."""
    for id_ in sorted(changed):
        record = found[id_]
        assert record is not None
        await _write(inside, record, changed[id_])


async def _write(inside: MemoryTransaction, record: MemoryRecord, entity: Entity) -> None:
    """Write an entity in place of the version that was read; another one is a ConflictError."""
    await inside.update(
        record.id,
        expected_version=record.version,
        content=content_of(entity),
        metadata=metadata_of(entity),
        metadata_mode="merge",
    )


def _holds(record: MemoryRecord | None, edge: Edge) -> bool:
    target = node_id(edge.target)
    return record is not None and any(
        (relation.relation_type, relation.label, relation.target_id) == (RELATION, edge.relation_type, target)
        for relation in record.relations
    )


def _once(entity: Entity) -> Entity:
    if len(entity.entity_type) > MAX_NAME:
        raise InvalidValueError("entityType", f"must be at most {MAX_NAME} characters")
    return replace(entity, observations=tuple(dict.fromkeys(entity.observations)))


def _entities(records: Iterable[MemoryRecord]) -> tuple[Entity, ...]:
    return tuple(entity for entity in map(entity_of, records) if entity is not None)


def _says(record: MemoryRecord, query: str) -> bool:
    entity = entity_of(record)
    if entity is None:
        return False
    texts = (entity.name, entity.entity_type, *entity.observations)
    return any(query.lower() in text.lower() for text in texts)
