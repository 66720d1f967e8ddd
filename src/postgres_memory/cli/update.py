"""``postgres-memory update``."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from postgres_memory.errors import InvalidValueError

from . import options, record_options
from .given import text_of
from .output import say
from .record_options import fields_of, permission_parts
from .record_output import show_record
from .running import session

if TYPE_CHECKING:
    from postgres_memory.postgres import Verbs
    from postgres_memory.records import MemoryRecord


class MetadataMode(StrEnum):
    """What becomes of the metadata that is there."""

    MERGE = "merge"
    REPLACE = "replace"


class Clearable(StrEnum):
    """A field that may hold nothing."""

    TAGS = "tags"
    THREAD = "thread"
    SESSION = "session"
    EXPIRES_AT = "expires-at"
    READERS = "readers"
    WRITERS = "writers"


_NOTHING: dict[Clearable, tuple[str, object]] = {
    Clearable.TAGS: ("tags", ()),
    Clearable.THREAD: ("thread_id", None),
    Clearable.SESSION: ("session_id", None),
    Clearable.EXPIRES_AT: ("expires_at", None),
    Clearable.READERS: ("readers", ()),
    Clearable.WRITERS: ("writers", ()),
}


NewContent = Annotated[
    str | None,
    typer.Option("--content", show_default=False, help="The new text; - reads all of standard input."),
]
Mode = Annotated[
    MetadataMode, typer.Option("--metadata-mode", help="Whether its keys come beside those there are.")
]
Clear = Annotated[
    list[Clearable] | None,
    typer.Option(
        "--clear",
        metavar="FIELD",
        show_default=False,
        help="Empty this field: tags, thread, session, expires-at, readers or writers; may be given several times.",
    ),
]
Version = Annotated[
    int | None,
    typer.Option(
        "--expected-version",
        metavar="VERSION",
        min=1,
        show_default=False,
        help="Change it only if it is at this one.",
    ),
]


def update(
    id: options.Id,
    content: NewContent = None,
    metadata: record_options.Metadata = None,
    metadata_mode: Mode = MetadataMode.MERGE,
    tags: record_options.Tags = None,
    *,
    importance: record_options.Importance = None,
    confidence: record_options.Confidence = None,
    memory_type: record_options.Type = None,
    thread_id: record_options.Thread = None,
    session_id: record_options.SessionId = None,
    expires_at: record_options.Expires = None,
    owner: record_options.Owner = None,
    readers: record_options.Readers = None,
    writers: record_options.Writers = None,
    clear: Clear = None,
    expected_version: Version = None,
    as_json: options.AsJson = False,
    embedder: options.Embedder = None,
    principal: options.As = None,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Change fields of one memory; those that are not named stay. Its version goes up by one.

    Tags, readers and writers are given whole.
    """
    with session(options.Target(dsn, namespace, schema, debug, principal, embedder)) as at:
        changes: dict[str, Any] = {
            **fields_of(
                content=None if content is None else text_of(content),
                metadata=metadata,
                tags=tags,
                importance=importance,
                confidence=confidence,
                memory_type=memory_type,
                thread_id=thread_id,
                session_id=session_id,
                expires_at=expires_at,
            ),
            **permission_parts(owner, readers, writers),
        }
        _clear(changes, clear or [])
        mode = metadata_mode.value if "metadata" in changes else None
        record = at.run(_changed(at.verbs, id, changes, mode, expected_version))
    if as_json:
        show_record(record, as_json=True)
    else:
        say(f"{record.id} is at version {record.version}")


def _clear(changes: dict[str, Any], named: list[Clearable]) -> None:
    for one in named:
        field, nothing = _NOTHING[one]
        if field in changes:
            raise InvalidValueError("--clear", f"{one}: a value is given as well")
        changes[field] = nothing


async def _changed(
    verbs: Verbs, id: str, changes: dict[str, Any], mode: Any, expected_version: int | None
) -> MemoryRecord:
    """Update; parts of the permissions come into those of now, if nobody changes the memory in between."""
    access = {name: changes.pop(name) for name in ("owner", "readers", "writers") if name in changes}
    if access:
        now = await verbs.get(id)
        changes["permissions"] = replace(now.permissions, **access)
        expected_version = now.version if expected_version is None else expected_version
    return await verbs.update(id, expected_version=expected_version, metadata_mode=mode, **changes)
