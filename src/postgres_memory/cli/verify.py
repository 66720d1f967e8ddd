"""``postgres-memory verify``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .output import add_row, complain, print_json, print_table, progress, table
from .running import PROBLEM, session

if TYPE_CHECKING:
    from postgres_memory._recall.verify import Difference, Verification


def verify(
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", help="Check every namespace of the schema.")
    ] = False,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Recompute every hash embedding in Python and in SQL and list the memories where they differ.

    Characters that Unicode gained after version 14 may differ, since Python and PostgreSQL versions know different
    ones; such memories are listed and named, but they are no failure. The exit status is 1 for any other difference.
    """

    with session(options.Target(dsn, namespace, schema, debug)) as at, progress("verifying") as show:
        result = at.run(at.memory.verify(all_namespaces=all_namespaces, progress=show))
    if not result.sql_checked:
        complain(f"the server computes no MD5, so only Python recomputed the embeddings: {result.problem}")
    if as_json:
        print_json({**asdict(result), "ok": result.ok})
    else:
        _print_result(result)
    if not result.ok:
        raise typer.Exit(PROBLEM)


def _print_result(result: Verification) -> None:
    if result.differences:
        made = table("namespace", "id", "what differs", "verdict")
        for difference in result.differences:
            verdict = "permitted: newer Unicode" if difference.newer_unicode else "wrong"
            add_row(made, difference.namespace, difference.id, what_differs(difference), verdict)
        print_table(made)
    permitted = sum(difference.newer_unicode for difference in result.differences)
    typer.echo(
        f"{result.checked} checked, {len(result.differences) - permitted} wrong, "
        f"{permitted} explained by characters newer than Unicode 14"
    )


def what_differs(difference: Difference) -> str:
    """Say in words where the three embeddings part."""
    parts = []
    if difference.stored is None:
        parts.append("nothing is stored")
    elif difference.stored != difference.python:
        parts.append("stored is not Python's")
    if difference.sql is not None and difference.sql != difference.python:
        parts.append("SQL's is not Python's")
    return "; ".join(parts) or "the counts behind equal embeddings"
