"""Whatever principals do one after another, they see and change what the model says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postgres_memory import MemoryPermissions, MemoryRelation, MemoryRelationType, PostgresMemory
from postgres_memory.errors import ConflictError, NotFoundError, NotPermittedError
from postgres_memory.postgres import Verbs
from tests.conftest import Database

from .permission_model import may_read, may_write

if TYPE_CHECKING:
    from postgres_memory._pooling import Pool

RELATED = MemoryRelationType.RELATED
NAMES = ("alice", "bob", "carol")

_namespaces = count(1)

lists = st.lists(st.sampled_from([*NAMES, "*"]), max_size=2, unique=True).map(tuple)
who = st.sampled_from([*NAMES, None])
places = st.integers(0, 5)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), who, st.none() | places, lists, lists),
        st.tuples(st.just("permit"), who, places, lists, lists),
        st.tuples(st.sampled_from(["update", "delete", "archive", "supersede"]), who, places),
        st.tuples(st.sampled_from(["relate", "unrelate"]), who, places, places),
    ),
    min_size=1,
    max_size=14,
)


@dataclass(frozen=True)
class Kept:
    """What the model knows of a memory; ``gone`` is a deleted one."""

    permissions: MemoryPermissions
    content: str
    status: str = "active"
    gone: bool = False


@dataclass
class Model:
    """Memories in the order of their making, the edges between them by place, and the principals' rights."""

    memories: list[Kept] = field(default_factory=list)
    edges: set[tuple[int, int]] = field(default_factory=set)

    def reads(self, name: str | None, place: int) -> bool:
        if place >= len(self.memories) or self.memories[place].gone:
            return False
        return name is None or may_read(name, self.memories[place].permissions)

    def writes(self, name: str | None, place: int) -> bool:
        return self.reads(name, place) and (name is None or may_write(name, self.memories[place].permissions))

    def refusal(self, name: str | None, place: int) -> type[Exception] | None:
        """Return the error of a change of the memory at ``place``."""
        if not self.reads(name, place):
            return NotFoundError
        return None if self.writes(name, place) else NotPermittedError

    def change(self, place: int, **changes: Any) -> None:
        self.memories[place] = replace(self.memories[place], **changes)


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    async with asyncpg.create_pool(database.direct_dsn, min_size=1, max_size=2) as opened:
        yield opened


class Run:
    """One sequence of steps, in a namespace of its own."""

    def __init__(self, memory: PostgresMemory) -> None:
        self.memory = memory
        self.model = Model()
        self.ids: list[str] = []

    def seen(self, name: str | None) -> Verbs:
        return self.memory if name is None else self.memory.as_principal(name)

    def id_of(self, place: int) -> str:
        return self.ids[place] if place < len(self.ids) else f"nothing{place}"

    async def step(self, verb: str, name: str | None, *given: Any) -> None:
        await getattr(self, verb)(self.seen(name), name, *given)

    async def expecting(self, error: type[Exception] | None, call: Any) -> Any:
        if error is None:
            return await call
        with pytest.raises(error):
            await call
        return None

    async def add(
        self, seen: Verbs, name: str | None, related: int | None, readers: Any, writers: Any
    ) -> None:
        model, content = self.model, f"the kettle {len(self.ids)}"
        permissions = MemoryPermissions(readers=readers, writers=writers)
        relations = [] if related is None else [MemoryRelation(self.id_of(related), RELATED)]
        error = None if related is None or model.reads(name, related) else NotFoundError
        added = await self.expecting(error, seen.add(content, permissions=permissions, relations=relations))
        if added is not None:
            if related is not None:
                model.edges.add((len(self.ids), related))
            self.ids.append(added.id)
            model.memories.append(Kept(replace(permissions, owner=name or "system"), content))

    async def permit(self, seen: Verbs, name: str | None, place: int, readers: Any, writers: Any) -> None:
        error = self.model.refusal(name, place)
        owner = self.model.memories[place].permissions.owner if place < len(self.ids) else ""
        if error is None and name is not None and owner != name:
            error = NotPermittedError
        wanted = MemoryPermissions(owner or "system", readers, writers)
        if name is not None:
            wanted = replace(wanted, owner="system")
        if await self.expecting(error, seen.update(self.id_of(place), permissions=wanted)) is not None:
            self.model.change(place, permissions=replace(wanted, owner=owner))

    async def update(self, seen: Verbs, name: str | None, place: int) -> None:
        error = self.model.refusal(name, place)
        content = f"the kettle, by {name}"
        if await self.expecting(error, seen.update(self.id_of(place), content=content)) is not None:
            self.model.change(place, content=content)

    async def delete(self, seen: Verbs, name: str | None, place: int) -> None:
        error = self.model.refusal(name, place)
        if error is NotFoundError:
            assert await seen.delete(self.id_of(place)) is False
        elif await self.expecting(error, seen.delete(self.id_of(place))):
            self.model.change(place, gone=True)
            self.model.edges = {edge for edge in self.model.edges if place not in edge}

    async def archive(self, seen: Verbs, name: str | None, place: int) -> None:
        error = self.model.refusal(name, place)
        if error is NotPermittedError and self.model.memories[place].status == "archived":
            error = None
        if await self.expecting(error, seen.archive(self.id_of(place))) is not None:
            self.model.change(place, status="archived")

    async def supersede(self, seen: Verbs, name: str | None, place: int) -> None:
        error = self.model.refusal(name, place)
        if error is None and self.model.memories[place].status != "active":
            error = ConflictError
        content = f"instead {len(self.ids)}"
        added = await self.expecting(error, seen.supersede(self.id_of(place), content))
        if added is not None:
            self.model.change(place, status="superseded")
            self.ids.append(added.id)
            self.model.memories.append(Kept(MemoryPermissions(name or "system"), content))

    async def relate(self, seen: Verbs, name: str | None, source: int, target: int) -> None:
        if source == target:
            return
        error = self.model.refusal(name, source) if self.model.reads(name, target) else NotFoundError
        call = seen.relate(self.id_of(source), self.id_of(target), RELATED)
        if await self.expecting(error, call) is not None:
            self.model.edges.add((source, target))

    async def unrelate(self, seen: Verbs, name: str | None, source: int, target: int) -> None:
        call = seen.unrelate(self.id_of(source), self.id_of(target), RELATED)
        if self.model.refusal(name, source) is NotPermittedError:
            await self.expecting(NotPermittedError, call)
            return
        known = (source, target) in self.model.edges
        removed = known and self.model.writes(name, source) and self.model.reads(name, target)
        assert await call is removed
        if removed:
            self.model.edges.discard((source, target))

    async def check(self, name: str | None) -> None:
        """Compare all that is seen."""
        seen, model = self.seen(name), self.model
        visible = [place for place in range(len(self.ids)) if model.reads(name, place)]
        found = (await seen.find(order_by="created_at", include_inactive=True)).items
        assert [record.id for record in found] == [self.ids[place] for place in visible]
        assert await seen.count(include_inactive=True) == len(visible)
        by_place = dict(zip(visible, found, strict=True))
        active = {self.ids[place] for place in visible if model.memories[place].status == "active"}
        hits = await seen.recall("the kettle", limit=20)
        assert {hit.record.id for hit in hits} == active
        assert len(await seen.search("the kettle", limit=20)) == len(active)
        assert await seen.recall("the kettle", limit=2) == hits[:2]
        for place, record in by_place.items():
            kept = model.memories[place]
            assert (record.permissions, record.content) == (kept.permissions, kept.content)
            assert record.status == kept.status
            targets = {self.ids[far] for near, far in model.edges if near == place and far in by_place}
            assert {relation.target_id for relation in record.relations} == targets


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=steps)
async def test_principals_see_and_change_what_the_model_says(
    pool: Pool, steps: list[tuple[Any, ...]]
) -> None:
    run = Run(PostgresMemory(pool, namespace=f"n{next(_namespaces)}", access_tracking="off"))
    for step in steps:
        await run.step(*step)
    for name in (*NAMES, None):
        await run.check(name)
    assert (await run.memory.verify()).ok
