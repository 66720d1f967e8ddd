"""``postgres-memory delete``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from postgres_memory.errors import UsageError

from . import options
from .given import json_of, text_of
from .output import complain, memories, print_json, progress, say
from .running import PROBLEM, BatchByBatch, confirm, session, to_its_end

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postgres_memory.postgres import Verbs


@dataclass(slots=True)
class Tally:
    """How far deleting is: how many are deleted, and which were not there. With ``dry_run`` nothing is deleted."""

    dry_run: bool
    deleted: int = 0
    missing: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.deleted} {'would be ' if self.dry_run else ''}deleted"


def delete(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", show_default=False, help="Which; - reads one a line."),
    ] = None,
    filter: options.Filter = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete every memory of the namespace.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many it would be.")] = False,
    yes: options.Yes = False,
    as_json: options.AsJson = False,
    principal: options.As = None,
    *,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Delete memories, with their relations: by id, or all that match a filter, whatever their status.

    By ids they go one after another; a filter deletes all or none, and asks before. The exit status is 1 if an id is
    not there.
    """
    tally, batches = Tally(dry_run), BatchByBatch()
    target = options.Target(dsn, namespace, schema, debug, principal)
    with session(target, state=lambda: f"stopped: {tally}") as at:
        if bool(ids) + (filter is not None) + everything != 1:
            raise UsageError("name ids, or --filter, or --all: one of them")
        if ids:
            at.run(batches.run(_delete_ids(at.verbs, _read(ids), tally, batches)))
        else:
            asked = json_of(filter, "--filter")
            matching = at.run(_matching(at.verbs, asked, everything=everything))
            if dry_run:
                tally.deleted = matching
            else:
                confirm(f"Delete {memories(matching)} of namespace {namespace!r}?", yes=yes)
                at.run(to_its_end(_delete_matching(at.verbs, asked, everything=everything, tally=tally)))
    _print(tally, as_json=as_json)


def _read(ids: list[str]) -> list[str]:
    if ids == ["-"]:
        return [line for line in text_of("-").splitlines() if line]
    return ids


async def _matching(verbs: Verbs, asked: Mapping[str, Any] | None, *, everything: bool) -> int:
    if not everything:
        from postgres_memory.filters import check_filter, constant_truth

        if constant_truth(check_filter(asked)) is True:
            raise UsageError("the filter matches every memory; if that is meant, say --all")
    return await verbs.count(asked, include_inactive=True)


async def _delete_matching(
    verbs: Verbs, asked: Mapping[str, Any] | None, *, everything: bool, tally: Tally
) -> None:
    tally.deleted = await verbs.delete_many(asked, all=everything)


async def _delete_ids(verbs: Verbs, ids: list[str], tally: Tally, batches: BatchByBatch) -> None:
    with progress("deleting", len(ids)) as show:
        for number, id_ in enumerate(ids, 1):
            if await _delete_one(verbs, id_, dry_run=tally.dry_run):
                tally.deleted += 1
            else:
                tally.missing.append(id_)
            batches.between()
            show(number, len(ids))


async def _delete_one(verbs: Verbs, id_: str, *, dry_run: bool) -> bool:
    if dry_run:
        return (await verbs.get_many([id_])) != [None]
    return await verbs.delete(id_)


def _print(tally: Tally, *, as_json: bool) -> None:
    for id_ in tally.missing:
        complain(f"no memory {id_!r}")
    if as_json:
        print_json(asdict(tally))
    else:
        say(str(tally))
    if tally.missing:
        raise typer.Exit(PROBLEM)
