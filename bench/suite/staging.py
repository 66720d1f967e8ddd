"""A stage: a workload's databases and the contestants that take part, in turn."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from contestants import MEASURES

from suite.crew import ContestantError, Crew, Member
from suite.outcome import Outcome
from suite.server import Databases
from suite.sizes import Sizes

#: These work on the same tables: those of our schema, in one database.
_LIBRARY = ("ours", "SAME", "LIMIT")


@dataclass(slots=True)
class Stage:
    """Those who take part; who fails leaves, and the outcome says why."""

    run: Run
    workload: str
    members: list[Member]
    databases: dict[str, str]

    def attempt(self, member: Member, workload: str, order: str, **options: Any) -> dict[str, Any] | None:
        """Give an order; note a failure, after which the contestant is out of this stage, and return None."""
        if member not in self.members:
            return None
        try:
            return member(order, **options)
        except ContestantError as failed:
            self.run.outcome.fail(workload, member.name, f"{order}: {failed}")
            self.members.remove(member)
            return None

    def each(self, order: str, *, only: Sequence[str] | None = None, **options: Any) -> None:
        """Give an order to all, or to some."""
        for member in list(self.members):
            if only is None or member.name in only:
                self.attempt(member, self.workload, order, **options)

    async def tidy(self) -> None:
        for name in dict.fromkeys(self.databases.values()):
            await self.run.databases.tidy(name)

    def take_turns(
        self, workload: str, verb: str, count: int, *, rounds: int | None = None, **options: Any
    ) -> None:
        """Have all that can call a verb so often in each round; who begins changes from round to round."""
        say(workload)
        able = [member for member in self.members if verb in member.verbs]
        warm = max(1, count // 10)
        for member in list(able):
            self.attempt(member, workload, "block", verb=verb, first=0, count=warm, **options)
        for number in range(rounds or self.run.sizes.rounds):
            turn = number % max(1, len(able))
            for member in able[turn:] + able[:turn]:
                first = warm + number * count
                block = self.attempt(
                    member, workload, "block", verb=verb, first=first, count=count, **options
                )
                if block is not None:
                    self.run.outcome.add_block(workload, member.name, block)


@dataclass(slots=True)
class Run:
    """One run of the suite."""

    crew: Crew
    databases: Databases
    sizes: Sizes
    outcome: Outcome

    @asynccontextmanager
    async def stage(
        self,
        workload: str,
        verb: str,
        *,
        only: Sequence[str] | None = None,
        peers: bool = True,
        apart: bool = False,
    ) -> AsyncIterator[Stage]:
        """Make a database for each contestant that can do ``verb``, have it open, and drop all at the end.

        Those that share our schema share a database, unless they are to be ``apart``.
        """
        members = [
            member
            for member in self.crew.members
            if verb in member.verbs
            and (only is None or member.name in only)
            and (peers or member.name in MEASURES)
        ]
        stage = Stage(self, workload, list(members), {})
        label = "".join(letter if letter.isalnum() else "_" for letter in workload.lower())[:30]
        try:
            for member in members:
                dsn = ""
                if not member.in_process:
                    dsn = self.databases.dsn_of(await self._database(stage, member, label, apart))
                stage.attempt(member, workload, "open", dsn=dsn)
            yield stage
        finally:
            for member in members:
                try:
                    member("close")
                except ContestantError as failed:
                    if member in stage.members:
                        self.outcome.fail(workload, member.name, f"close: {failed}")
            for name in dict.fromkeys(stage.databases.values()):
                await self.databases.drop(name)

    async def _database(self, stage: Stage, member: Member, label: str, apart: bool) -> str:
        ours = member.name in _LIBRARY
        family = "library" if ours and not apart else member.name.lower().replace("-", "_")
        if family not in stage.databases:
            stage.databases[family] = await self.databases.make(f"{label}_{family}", migrated=ours)
        return stage.databases[family]


def say(what: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {what}", file=sys.stderr, flush=True)
