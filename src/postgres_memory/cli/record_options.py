"""What may be said of a memory beside its content: the options that `store`, `supersede` and `update` share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from postgres_memory.records import MemoryPermissions, MemoryType

from .given import json_of, time_of

if TYPE_CHECKING:
    from postgres_memory.verbs.record_verbs import RecordFields

NewId = Annotated[str | None, typer.Option("--id", show_default=False, help="Its id, else one is made.")]
Metadata = Annotated[
    str | None,
    typer.Option("--metadata", metavar="JSON", show_default=False, help="A JSON object to keep with it."),
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", show_default=False, help="A tag; may be given several times.")
]
Importance = Annotated[
    float | None, typer.Option("--importance", show_default=False, help="From 0 to 1; 0.5 for a new memory.")
]
Confidence = Annotated[
    float | None, typer.Option("--confidence", show_default=False, help="From 0 to 1; 1 for a new memory.")
]
Type = Annotated[
    MemoryType | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        show_default=False,
        help="session, persistent or synthetic; persistent for a new memory.",
    ),
]
Thread = Annotated[
    str | None,
    typer.Option("--thread", show_default=False, help="The conversation or document it belongs to."),
]
SessionId = Annotated[
    str | None, typer.Option("--session", show_default=False, help="The id of its session.")
]
Expires = Annotated[
    str | None,
    typer.Option(
        "--expires-at", metavar="TIME", show_default=False, help="In ISO 8601; local time unless it says."
    ),
]
Owner = Annotated[str | None, typer.Option("--owner", show_default=False, help="The principal that owns it.")]
Readers = Annotated[
    list[str] | None,
    typer.Option(
        "--reader", show_default=False, help='A principal that may read it, "*" for all; several times.'
    ),
]
Writers = Annotated[
    list[str] | None,
    typer.Option(
        "--writer", show_default=False, help='A principal that may change it, "*" for all; several times.'
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        show_default=False,
        help="Called again with the same key, nothing is stored twice.",
    ),
]


def fields_of(
    *,
    metadata: str | None = None,
    expires_at: str | None = None,
    tags: list[str] | None = None,
    owner: str | None = None,
    readers: list[str] | None = None,
    writers: list[str] | None = None,
    **others: Any,
) -> RecordFields:
    """Return the fields of a record that were given."""
    access = permission_parts(owner, readers, writers)
    given = others | {
        "metadata": json_of(metadata, "--metadata"),
        "expires_at": time_of(expires_at, "--expires-at"),
        "tags": tags or None,
        "permissions": MemoryPermissions(**access) if access else None,
    }
    return cast("RecordFields", {name: value for name, value in given.items() if value is not None})


def permission_parts(
    owner: str | None, readers: list[str] | None, writers: list[str] | None
) -> dict[str, Any]:
    """Return the parts of permissions that were given."""
    parts = {"owner": owner, "readers": readers or None, "writers": writers or None}
    return {name: value for name, value in parts.items() if value is not None}
