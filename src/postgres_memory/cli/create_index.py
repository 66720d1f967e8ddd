"""``postgres-memory create-index``."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from . import options
from .output import print_json, progress, say
from .reembed import Space
from .running import session


class IndexType(StrEnum):
    """What an index keeps vectors as."""

    VECTOR = "vector"
    HALFVEC = "halfvec"
    BIT = "bit"


def create_index(
    space: Space,
    type: Annotated[
        IndexType | None,
        typer.Option(
            "--type", show_default=False, help="What it keeps vectors as; else what fits their dimensions."
        ),
    ] = None,
    m: Annotated[int, typer.Option("--m", help="How many neighbours a vector has in a layer.")] = 16,
    ef_construction: Annotated[
        int, typer.Option("--ef-construction", help="How many neighbours are looked at for it.")
    ] = 64,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    *,
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Build an HNSW index for an embedding space, while others read and write; it serves the space in every namespace.

    Interrupted, nothing of use is left, and the next call removes the rest. Without --dsn,
    POSTGRES_MEMORY_MIGRATION_DSN is asked first: the server itself, where the others name a pooler.
    """
    phase = ""

    def state() -> str:
        return (
            f"stopped{f' while {phase}' if phase else ''}; the next call removes what is left and begins anew"
        )

    target = options.Target(dsn, namespace, schema, debug)
    with session(target, state=state) as at, progress("building", unit="parts") as show:

        def tell(now: str, done: int, total: int) -> None:
            nonlocal phase
            phase = now
            show(done, total or None)

        index = at.run(
            at.memory.create_index(
                space,
                type=None if type is None else type.value,
                m=m,
                ef_construction=ef_construction,
                progress=tell,
            )
        )
    if as_json:
        print_json(asdict(index))
    else:
        say(
            f"index {index.name}: {index.kind}, {index.type}, m {index.m}, ef_construction {index.ef_construction}"
        )
