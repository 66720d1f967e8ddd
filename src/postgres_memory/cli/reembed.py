"""``postgres-memory reembed``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from . import options
from .embedding_output import embedding, print_result


class Distance(StrEnum):
    """How vectors of a space are compared."""

    COSINE = "cosine"
    INNER_PRODUCT = "inner_product"
    L2 = "l2"


Space = Annotated[str, typer.Argument(show_default=False, help="The embedding space.")]


def reembed(
    space: Space,
    embedder: options.Embedder = None,
    distance: Annotated[
        Distance, typer.Option("--distance", help="How vectors are compared, if it is a new space.")
    ] = Distance.COSINE,
    rate: Annotated[
        float | None,
        typer.Option("--rate", min=0.001, show_default=False, help="At most so many memories a second."),
    ] = None,
    batch_size: options.BatchSize = 100,
    *,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Fill an embedding space by an embedder; it is made if need be, and nobody searches it before switch-space.

    Ctrl-C leaves whole batches behind; called again, it goes on with what is missing. The exit status is 1 if the
    embedder refused a memory.
    """
    target = options.Target(dsn, namespace, schema, debug, embedder=embedder)
    with embedding(target) as (at, tell):
        result = at.run(
            at.memory.reembed(
                space,
                embedder=at.embedder,
                distance=distance.value,
                batch_size=batch_size,
                rate=rate,
                progress=tell,
            )
        )
    print_result(result, as_json=as_json)
