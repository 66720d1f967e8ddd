"""``postgres-memory supersede``."""

from __future__ import annotations

from typing import Annotated

import typer

from . import options, record_options
from .given import text_of
from .output import say
from .record_options import fields_of
from .record_output import show_record
from .running import session


def supersede(
    old_id: Annotated[str, typer.Argument(show_default=False, help="The memory that is replaced.")],
    content: Annotated[
        str, typer.Argument(show_default=False, help="The text in its place; - reads all of standard input.")
    ],
    metadata: record_options.Metadata = None,
    tags: record_options.Tags = None,
    importance: record_options.Importance = None,
    *,
    confidence: record_options.Confidence = None,
    memory_type: record_options.Type = None,
    thread_id: record_options.Thread = None,
    session_id: record_options.SessionId = None,
    expires_at: record_options.Expires = None,
    owner: record_options.Owner = None,
    readers: record_options.Readers = None,
    writers: record_options.Writers = None,
    id: record_options.NewId = None,
    idempotency_key: record_options.Key = None,
    as_json: options.AsJson = False,
    embedder: options.Embedder = None,
    principal: options.As = None,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Store a memory in place of another, which is kept as SUPERSEDED: restore brings it back, history lists both.

    The new one inherits nothing from the old one but its place.
    """
    with session(options.Target(dsn, namespace, schema, debug, principal, embedder)) as at:
        fields = fields_of(
            id=id,
            metadata=metadata,
            tags=tags,
            importance=importance,
            confidence=confidence,
            memory_type=memory_type,
            thread_id=thread_id,
            session_id=session_id,
            expires_at=expires_at,
            owner=owner,
            readers=readers,
            writers=writers,
        )
        new = at.run(at.verbs.supersede(old_id, text_of(content), idempotency_key=idempotency_key, **fields))
    if as_json:
        show_record(new, as_json=True)
    else:
        say(f"stored {new.id} in place of {new.supersedes}")
