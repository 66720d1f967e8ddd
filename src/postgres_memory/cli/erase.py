"""``postgres-memory erase``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from postgres_memory._counted import counted
from postgres_memory.bulk_records import Erased

from . import options
from .output import add_row, memories, print_json, print_table, progress, table
from .running import BatchByBatch, confirm, session


def erase(
    namespace: Annotated[
        str, typer.Argument(show_default=False, help="Whose memory is erased, by its name.")
    ],
    principal: Annotated[
        str | None,
        typer.Option(
            "--principal",
            show_default=False,
            help="Erase only what this principal owns, and its name elsewhere.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be deleted.")] = False,
    yes: options.Yes = False,
    batch_size: options.BatchSize = 1000,
    *,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Delete every trace of a namespace, or of a principal in it, and print how much that was. It asks before.

    Ctrl-C leaves whole batches behind; called again, it goes on with the rest. Rows that PostgreSQL has deleted stay
    in its files until VACUUM, and in backups.
    """
    named = namespace if principal is None else None
    erased, batches = Erased(), BatchByBatch()
    target = options.Target(dsn, namespace, schema, debug)
    with session(
        target, state=lambda: f"stopped after {counted(_rows(erased), 'row')}; call it again for the rest"
    ) as at:
        there = at.run(at.memory.erase(named, principal=principal, dry_run=True))
        if dry_run:
            erased = there
        else:
            whose = f"namespace {namespace!r}"
            whose = whose if principal is None else f"principal {principal!r} in {whose}"
            confirm(f"Erase {memories(there.memories)} and every other trace of {whose}?", yes=yes)
            with progress("erasing", _rows(there)) as show:

                def tell(so_far: Erased) -> None:
                    nonlocal erased
                    erased = so_far
                    batches.between()
                    show(_rows(so_far), max(_rows(so_far), _rows(there)))

                work = at.memory.erase(named, principal=principal, batch_size=batch_size, progress=tell)
                erased = at.run(batches.run(work))
    if as_json:
        print_json({"dry_run": dry_run, **asdict(erased)})
    else:
        _print(erased, dry_run=dry_run)


def _rows(erased: Erased) -> int:
    return sum(asdict(erased).values())


def _print(erased: Erased, *, dry_run: bool) -> None:
    made = table(
        "what", "would be deleted" if dry_run else "deleted", numbers=("deleted", "would be deleted")
    )
    for name, number in asdict(erased).items():
        if number or name == "memories":
            add_row(made, name.replace("_", " "), str(number))
    print_table(made)
