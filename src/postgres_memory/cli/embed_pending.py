"""``postgres-memory embed-pending``."""

from __future__ import annotations

from typing import Annotated

import typer

from . import options
from .embedding_output import embedding, print_result


def embed_pending(
    embedder: options.Embedder = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, show_default=False, help="At most how many.")
    ] = None,
    batch_size: options.BatchSize = 100,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    *,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Embed the memories that have no embedding in the active space, which must be the embedder's.

    Ctrl-C leaves whole batches behind; called again, it goes on with what is missing. The exit status is 1 if the
    embedder refused a memory.
    """
    target = options.Target(dsn, namespace, schema, debug, embedder=embedder)
    with embedding(target) as (at, tell):
        result = at.run(at.memory.embed_pending(batch_size=batch_size, limit=limit, progress=tell))
    print_result(result, as_json=as_json)
